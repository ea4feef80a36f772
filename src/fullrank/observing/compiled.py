"""How the inner loops of observing are compiled, and what they take.

Kernels release the GIL and hold no state; threads are the caller's. Nothing is compiled before it is first used, and
what is compiled is kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from numba import njit

#: What can be wrong with a user.
NAN_SCORE, NO_CANDIDATE = 1, 2
#: Items scored at a time: small enough for the nearest cache; counts up to it are exact in float32.
CHUNK = 1024

Array = Any  # numba sees the concrete type; mypy cannot

# Kernels own no memory (callers pass in what they work on), so nothing is reference-counted: with it, a third of the time
# went into atomic increments. Helpers that are called once per case are folded in, which halves the compilation.
LEAN = {"nogil": True, "error_model": "numpy", "_nrt": False}
helper = njit(**LEAN)
folded = njit(inline="always", **LEAN)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, and keep the result on disk until one of the compiled files changes.

    numba looks only at the file of the function itself; what it calls stands in others.
    """
    compiled = njit(cache=True, **LEAN)(function)
    kept = getattr(compiled, "_cache", None)  # there is none where compilation is switched off
    if kept is not None:
        kept._cache_file._source_stamp = _stamp()
    return compiled


def _stamp() -> tuple[tuple[str, float, int], ...]:
    """When each file of this folder was last changed, and its size."""
    files = [Path(__file__), *sorted(Path(__file__).parent.glob("*kernel*.py"))]
    return tuple((file.name, file.stat().st_mtime, file.stat().st_size) for file in files)


class Cases(NamedTuple):
    """Test cases grouped by user: the targets of user g are ``targets[ptr[g]:ptr[g+1]]``, sorted.

    ``listed[lo[g]:hi[g]]`` (sorted) are the items user g does *not* compare with (``explicit`` false) or the only ones
    it does (``explicit`` true). A user's own targets are never negatives, listed or not.
    """

    users: Array
    rows: Array  # where the model keeps each user: its id, or its place in a batch of rows
    ptr: Array
    targets: Array
    lo: Array
    hi: Array
    listed: Array
    explicit: bool
    n_items: int
    longest: int  # room for the listed items and targets of any one user
    most: int  # targets of any one user
    course: Array  # the row of `Rules.stages` that each case goes through
    low: int = 0  # of the items drawn or listed, only low..high−1 are scored and counted: a range of a large catalogue
    high: int = 1 << 31


class Rules(NamedTuple):
    """How to draw and compare: the courses that cases go through, the tie rule, and the two seeds."""

    stages: Array  # a row per course: negatives after each stage (0: all), the last one repeated
    stop_at: Array  # of each course
    replace: Array  # of each course
    ties: int
    tie_seed: Any
    draw_seed: Any


class Scratch(NamedTuple):
    """What one thread works on; contents do not survive a user, except that ``deck`` stays in order and the rest of
    ``row`` and ``marks`` as they came.
    """

    row: Array  # a score per item, for models that make rows
    places: Array  # items listed, or left out, of one user
    marks: Array  # a bit per item
    deck: Array  # 0, 1, 2, …: one card per item
    moved: Array
    ids: Array
    scores: Array
    target_scores: Array
