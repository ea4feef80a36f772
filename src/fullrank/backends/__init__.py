"""Backends run blocks of cases: objects with a ``.map``, for ``observe(map=...)`` and ``evaluate(backend=...)``.

What a block gives is a pure function of (model, block, design, seed), so where it runs changes no digit. ``processes`` is
workers on this machine, ``ray`` a cluster.

>>> resolve(None) is map
True
>>> resolve("processes", workers=2)
ProcessBackend(workers=2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fullrank._checks import did_you_mean

if TYPE_CHECKING:
    from fullrank.backends.processes import ProcessBackend as ProcessBackend
    from fullrank.backends.ray import RayBackend as RayBackend

__all__ = ["NAMES", "ProcessBackend", "RayBackend", "resolve"]

_CLASSES = {"processes": "ProcessBackend", "ray": "RayBackend"}
#: What ``backend=`` and ``--backend`` take by name.
NAMES = tuple(_CLASSES)


def resolve(backend: Any = None, **options: Any) -> Any:
    """Return a backend by its name, or the object itself: something ``observe(map=...)`` takes.

    None is the built-in ``map``: this process, all its threads. ``"processes"`` and ``"ray"`` take the options of
    `ProcessBackend` and `RayBackend` (an option that is None counts as not given); anything that is callable or has a
    ``.map`` is returned unchanged.
    """
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(backend, str) and backend in NAMES:
        kind = __getattr__(_CLASSES[backend])
        allowed = [key for key in kind.__dataclass_fields__ if not key.startswith("_")]
        for key in given:
            if key not in allowed:
                raise ValueError(f"backend {backend!r} has no option `{key}`; it has {', '.join(allowed)}.")
        return kind(**given)
    if isinstance(backend, str) or (backend is not None and not callable(getattr(backend, "map", backend))):
        hint = did_you_mean(backend, NAMES)
        error = ValueError if isinstance(backend, str) else TypeError
        raise error(f"`backend` must be 'processes', 'ray', or an object with `.map`, got {backend!r}{hint}")
    if given:
        only = "an option of a backend that is given by name, 'processes' or 'ray'"
        raise ValueError(f"`{next(iter(given))}` is {only}; `backend` is {backend!r}.")
    return map if backend is None else backend


def __getattr__(name: str) -> Any:
    for module, kind in _CLASSES.items():
        if name == kind:
            return getattr(import_module(f"fullrank.backends.{module}"), name)
    raise AttributeError(f"module 'fullrank.backends' has no attribute {name!r}")
