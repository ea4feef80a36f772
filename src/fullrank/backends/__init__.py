"""Where blocks of cases run: objects with a ``.map``, for ``observe(map=...)`` and ``evaluate(backend=...)``.

What a block gives is a pure function of (model, block, design, seed), so where it runs changes no digit. ``processes`` is
workers on this machine, ``ray`` a cluster.

>>> resolve(None) is map
True
>>> resolve("processes", workers=2)
ProcessBackend(workers=2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fullrank.backends.processes import ProcessBackend as ProcessBackend
    from fullrank.backends.ray import RayBackend as RayBackend

__all__ = ["NAMES", "ProcessBackend", "RayBackend", "resolve"]

#: What ``backend=`` and ``--backend`` take by name.
NAMES = ("processes", "ray")


def resolve(backend: Any = None, **options: Any) -> Any:
    """A backend by its name, or the object itself: something ``observe(map=...)`` takes.

    None is the built-in ``map``: this process, all its threads. ``"processes"`` and ``"ray"`` take the options of
    `ProcessBackend` and `RayBackend` (an option that is None is as good as not given); anything that is callable or has a
    ``.map`` is returned as it is.
    """
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(backend, str):
        from fullrank.backends.processes import ProcessBackend
        from fullrank.backends.ray import RayBackend

        kinds: dict[str, Any] = {"processes": ProcessBackend, "ray": RayBackend}
        if backend not in kinds:
            raise ValueError(f"`backend` must be 'processes', 'ray', or an object with `.map`, got {backend!r}.")
        allowed = [key for key in kinds[backend].__dataclass_fields__ if not key.startswith("_")]
        for key in given:
            if key not in allowed:
                raise ValueError(f"backend {backend!r} has no option `{key}`; it has {', '.join(allowed)}.")
        return kinds[backend](**given)
    if backend is not None and not callable(getattr(backend, "map", backend)):
        raise TypeError(f"`backend` must be 'processes', 'ray', or an object with `.map`, got {backend!r}.")
    if given:
        raise ValueError(
            f"`{next(iter(given))}` is an option of a backend that is given by name, 'processes' or 'ray'; "
            f"`backend` is {backend!r}."
        )
    return map if backend is None else backend


def __getattr__(name: str) -> Any:
    if name == "ProcessBackend":
        from fullrank.backends.processes import ProcessBackend

        return ProcessBackend
    if name == "RayBackend":
        from fullrank.backends.ray import RayBackend

        return RayBackend
    raise AttributeError(f"module 'fullrank.backends' has no attribute {name!r}")
