"""Adapters let models of other libraries score: one file per library, tried from the most particular to the least."""

from importlib import import_module
from typing import Any

from fullrank.models.adapters import structure, torch
from fullrank.models.scorer import Factors, ItemItem, Pairs, Rows, Table

__all__ = ["recognise"]

#: Packages whose models are known by the package of one of their classes; each has a file of its name here.
_LIBRARIES = ("cornac", "recbole", "lenskit")


def recognise(model: Any, split: Any, name: str | None) -> Any:
    """Return the model as a scorer of the kind that is fastest for it; ``None`` if it is nothing that scores."""
    names = (name, getattr(model, "name", None), getattr(model, "__name__", None))
    label = next((each for each in names if isinstance(each, str) and each), type(model).__name__)
    if isinstance(model, Factors | ItemItem | Table | Rows | Pairs):
        return model
    if isinstance(model, type | str):
        return None
    if (found := structure.from_arrays(model, name)) is not None:
        return found
    packages = {each.__module__.split(".")[0] for each in type(model).__mro__}
    for library in _LIBRARIES:
        if library in packages:
            return import_module(f"{__name__}.{library}").recognise(model, split, label)
    for adapter in (structure, torch):
        if (found := adapter.recognise(model, split, label)) is not None:
            return found
    if callable(getattr(model, "score", None)):
        known = {key: getattr(model, key, None) for key in ("n_users", "n_items")}
        sizes: dict[str, Any] = {key: size for key, size in known.items() if isinstance(size, int)}
        return Pairs(model.score, name=label, **sizes)
    if (found := structure.from_frame(model, split, name)) is not None:
        return found
    return Pairs(model, name=label) if callable(model) else None
