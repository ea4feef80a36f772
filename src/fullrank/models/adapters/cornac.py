"""Cornac: models that score the whole catalogue for one user, in the order of their own training set."""

from typing import Any

import numpy as np

from fullrank._checks import first_where
from fullrank._types import Array, IntArray
from fullrank.data.frames import locate
from fullrank.models.scorer import Rows


def recognise(model: Any, split: Any, name: str) -> Any:
    """Ask ``model.score(user_idx)`` for rows of the whole catalogue."""
    data = getattr(model, "train_set", None)
    users = _translation(getattr(data, "uid_map", None), split, "user", name)
    items = _translation(getattr(data, "iid_map", None), split, "item", name)
    n_users = len(users) if users is not None else getattr(data, "num_users", None)
    n_items = len(items) if items is not None else getattr(data, "num_items", None)
    if n_items is None:
        raise ValueError(f"Cornac model `{name}` has no training set: fit it first.")

    def rows(asked: IntArray) -> Array:
        out = [np.asarray(model.score(int(u))) for u in (asked if users is None else users[asked])]
        return np.stack(out) if items is None else np.stack(out)[:, items]

    return Rows(rows, int(n_items), n_users, name=name)


def _translation(mapping: Any, split: Any, what: str, name: str) -> IntArray | None:
    """Find where another library keeps each user or item of the split; None if it keeps them in the same places."""
    if not mapping or split is None:
        return None
    names = split.names(what)
    found = locate(names, np.array(list(mapping)))
    places = np.where(found < 0, -1, np.fromiter(mapping.values(), np.int64, len(mapping))[found])
    needed = split.targets_per_user > 0 if what == "user" else True
    if (missing := first_where((places < 0) & needed)) is not None:
        raise ValueError(
            f"model `{name}` knows {int((places >= 0).sum()):,} of the split's {len(places):,} {what}s; {what} "
            f"{names[missing].item()!r} is not among them: fit it on the split's own `train`."
        )
    return places
