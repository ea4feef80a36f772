"""Backends run blocks of cases: objects with a ``.map``, for ``observe(map=...)`` and ``evaluate(backend=...)``.

What a block gives is a pure function of (model, block, design, seed), so where it runs changes no digit. ``processes`` is
workers on this machine, ``ray`` a cluster.

>>> resolve(None) is map
True
>>> resolve("ray")
RayBackend(address=None, num_cpus=1, num_gpus=0, retries=3, timeout=None, in_flight=None, item_shards=None, ...)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fullrank._checks import did_you_mean

if TYPE_CHECKING:
    from fullrank.backends.processes import ProcessBackend as ProcessBackend
    from fullrank.backends.ray import RayBackend as RayBackend

__all__ = ["ProcessBackend", "RayBackend", "resolve"]

#: What ``backend=`` and ``--backend`` take by name: modules here, and their classes.
_CLASSES = {"processes": "ProcessBackend", "ray": "RayBackend"}


def resolve(backend: Any = None) -> Any:
    """Return a backend by its name, or the object itself: something ``observe(map=...)`` takes.

    None is the built-in ``map``: this process, all its threads. ``"processes"`` and ``"ray"`` are `ProcessBackend` and
    `RayBackend` without options; anything that is callable or has a ``.map`` is returned unchanged.
    """
    if backend is None:
        return map
    if isinstance(backend, str) and backend in _CLASSES:
        return __getattr__(_CLASSES[backend])()
    if isinstance(backend, str) or not callable(getattr(backend, "map", backend)):
        error = ValueError if isinstance(backend, str) else TypeError
        hint = did_you_mean(backend, _CLASSES)
        raise error(f"`backend` must be 'processes', 'ray', or an object with `.map`, got {backend!r}{hint}")
    return backend


def __getattr__(name: str) -> Any:
    for module, kind in _CLASSES.items():
        if name == kind:
            return getattr(import_module(f"fullrank.backends.{module}"), name)
    raise AttributeError(f"module 'fullrank.backends' has no attribute {name!r}")
