"""Refusals of numbers that cannot be: one sentence, with the first case that is wrong."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fullrank._checks import check_whole, first_where
from fullrank._tables import is_number
from fullrank._types import Array, BoolArray, FloatArray, IntArray
from fullrank.ranks.laws import ALL, NOTHING

#: More candidates than this are refused: ranks near 2**53 are no longer distinct as floating-point numbers.
MOST_ITEMS = 2**50
#: Weights below this, or above one over it, are refused: sums of their squares are not floating-point numbers.
LEAST_WEIGHT = 1e-100


def _whole_numbers(name: str, values: ArrayLike) -> IntArray:
    """Return the values as whole numbers, one per case, or refuse them."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"`{name}` must be one-dimensional, one entry per case; it holds lists of unlike length."
        ) from None
    if array.ndim != 1:
        found = f"has shape {array.shape}" if array.ndim else f"is a single {type(values).__name__}"
        raise ValueError(f"`{name}` must be one-dimensional, one entry per case; it {found}.")
    if array.dtype.kind not in "iufOUS":  # True would be rank 1, and a date some number
        raise TypeError(f"`{name}` must be whole numbers, not {array.dtype}.")
    if array.dtype.kind == "i" or (array.dtype.kind == "u" and int(array.max(initial=0)) < 2**63):
        return array.astype(np.int64, copy=False)
    try:
        floats = array.astype(np.float64)
    except (TypeError, ValueError):
        word = first_where([not is_number(str(each)) for each in array.tolist()]) or 0
        raise TypeError(f"`{name}` must be whole numbers, got {str(array[word])!r} at case {word}.") from None
    if (first := first_where(np.isnan(floats))) is not None:
        raise ValueError(f"`{name}` has a missing value (NaN) at case {first}: drop such cases, or fill it in.")
    if (first := first_where((floats != np.round(floats)) | (np.abs(floats) >= 2.0**63))) is not None:
        limit = " below 2**63" if 2.0**63 <= abs(floats[first]) < np.inf else ""
        raise ValueError(f"`{name}` must be whole numbers{limit}, got {array[first]!s} at case {first}.")
    return floats.astype(np.int64)


def true_ranks(ranks: Any, n_items: int | None = None, name: str = "ranks") -> IntArray:
    """Return ranks in the full list of ``n_items`` candidates (None: however many), or refuse them; one may stand alone."""
    if n_items is not None:
        check_whole("n_items", n_items, 1)
    several: ArrayLike = ranks if np.iterable(ranks) else [ranks]  # type: ignore[assignment]
    R = _whole_numbers(name, several)
    if not len(R):
        raise ValueError(f"`{name}` is empty: give at least one rank.")
    last = MOST_ITEMS if n_items is None else int(n_items)
    refuse((R < 1) | (last < R), name, R, f"a rank in 1..{last:,} (ranks are one-based)")
    return R


def per_case(name: str, values: ArrayLike, cases: int) -> IntArray:
    """Return a whole number per case; one number stands for all."""
    array = np.asarray(values)
    numbers = _whole_numbers(name, np.atleast_1d(array) if array.ndim == 0 else array)
    if array.ndim == 0:
        return constant(numbers[0], cases)
    if len(numbers) != cases:
        raise ValueError(f"`{name}` has {len(numbers)} entries for {cases} cases: give one number, or one per case.")
    return numbers


def constant(value: Any, cases: int) -> Array:
    """Return the same value for every case, without the memory of an array."""
    return np.broadcast_to(np.asarray(value), cases)


def check_users(values: ArrayLike, cases: int) -> Array:
    """Return the users of the cases, or refuse them; users that are missing would all be taken for one."""
    users = np.asarray(values)
    if users.shape != (cases,):
        found = f"{len(users)} entries" if users.ndim == 1 else f"shape {users.shape}"
        raise ValueError(f"`users` has {found} for {cases} cases: give one per case.")
    missing: Any = users != users if users.dtype.kind in "fM" else []
    if users.dtype.kind == "O":  # pandas' NA has no truth value
        missing = [each is None or type(each).__name__ == "NAType" or each != each for each in users.tolist()]
    if (first := first_where(missing)) is not None:
        raise ValueError(f"`users` has a missing value at case {first}: drop such cases, or fill it in.")
    return users


def check_weights(values: ArrayLike, cases: int) -> FloatArray:
    """Return the weights of the cases, or refuse them."""
    try:
        weights = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("`weights` must be numbers, one per case.") from None
    if weights.shape != (cases,):
        raise ValueError(f"`weights` has shape {weights.shape} for {cases} cases: give one per case.")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("`weights` must be finite, not negative, and not all zero.")
    some = weights[weights > 0]
    if some.min() < LEAST_WEIGHT or some.max() > 1 / LEAST_WEIGHT:
        extreme = some.min() if some.min() < LEAST_WEIGHT else some.max()
        raise ValueError(
            f"`weights` must be between 1e-100 and 1e100, or 0, got {extreme:g}: their squares would be lost; their unit is "
            "of no importance, so divide all by one number."
        )
    return weights


def refuse(bad: BoolArray, name: str, values: IntArray, allowed: str, begin: str = "it must be ") -> None:
    """Raise a ValueError that names the first case where ``bad`` holds."""
    if (first := first_where(bad)) is not None:
        more = f" ({int(bad.sum()):,} cases in all)" if bad.sum() > 1 else ""
        raise ValueError(f"`{name}` is {int(values[first])} at case {first}{more}: {begin}{allowed}.")


def refuse_ranks(hits: IntArray, compared: IntArray, every: BoolArray) -> None:
    """Refuse ranks that so many compared items cannot give; ``every``: whether these are all other candidates."""
    low, high = hits < 0, hits > compared
    if (first := first_where(low)) is not None:
        hint = "; if yours start at 0, add 1" if hits.min() == -1 else ""
        refuse(low, "ranks", hits + 1, f"ranks are one-based, from 1 to {compared[first] + 1:,}{hint}", "")
    if (first := first_where(high)) is not None:
        most = int(compared[first]) + 1
        among = f"with {most - 1:,} negative{'s' * (most != 2)}"
        hint = "; ranks among all items want the design 'full'"
        if every[first]:
            among, hint = f"among {most:,} items", ""
        refuse(high, "ranks", hits + 1, f"{among} ranks go up to {most:,}{hint}", "")


def check_candidates(candidates: object) -> str:
    """Return the name of candidates, or refuse what is no name."""
    plain = candidates.strip().lower() if isinstance(candidates, str) else ""
    if not isinstance(candidates, str) or not plain or (plain in ("unseen", "all") and plain != candidates):
        raise ValueError(  # 'ALL' too: it would be a name of one's own, and mean something else
            f"`candidates` must be 'unseen', 'all' or a name of your own for another pool, got {candidates!r}."
        )
    return candidates


def check_ranks(
    design: Any, ranks: ArrayLike, n_items: ArrayLike, drawn: ArrayLike | None, ahead: Any, rest: Any
) -> tuple[Any, ...]:
    """Return ``drawn`` as designs give it, hits, pools, the design with its numbers, ``ahead`` and ``rest``, all checked."""
    hits = _whole_numbers("ranks", ranks) - 1
    M = len(hits)
    if M == 0:
        raise ValueError("`ranks` is empty: there is nothing to estimate from.")
    N = per_case("n_items", n_items, M)
    refuse(N < 1, "n_items", N, "a positive number of candidates (target included)")
    refuse(N > MOST_ITEMS, "n_items", N, f"at most 2**50, that is {MOST_ITEMS:,}")
    m = None if drawn is None else per_case("drawn", drawn, M)
    if ahead is None and rest is None and not design.compares:
        design = design.resolve(int(N.max()))
        return design.check(m, hits, N), hits, N, design, None, None
    a, left = _check_compared_part(design, ahead, rest, N)
    design = design.resolve(int(left.max()) + 1)
    return _check_rest(design, m, hits, a, left), hits, N, design, a, left


def _check_compared_part(design: Any, ahead: Any, rest: Any, N: IntArray) -> tuple[IntArray, IntArray]:
    """Return ``ahead`` and ``rest`` of every case, or refuse them."""
    if ahead is None and rest is None:
        raise ValueError(f"`ahead` and `rest` are missing: '{design}' compares a part of the candidates one by one.")
    if ahead is None or rest is None:
        given, missing = ("rest", "ahead") if ahead is None else ("ahead", "rest")
        raise ValueError(f"`{missing}` is missing: `{given}` alone does not say how much was compared.")
    a, left = per_case("ahead", ahead, len(N)), per_case("rest", rest, len(N))
    refuse((left < 0) | (left > N - 1), "rest", left, "between 0 and n_items − 1")
    refuse((a < 0) | (a > N - 1 - left), "ahead", a, "between 0 and the number compared, n_items − 1 − rest")
    if design.compares:
        least, most = (np.minimum(depth, N - 1) for depth in (design.compares, design.reach))
        refuse((left > 0) & (N - 1 - left > most), "rest", left, f"at least n_items − 1 − {design.reach}, or 0")
        early = ~design.closed(a) & (N - 1 - left < least)
        refuse(early, "rest", left, f"n_items − 1 − {design.compares} in an open case")
    return a, left


def _check_rest(design: Any, m: IntArray | None, hits: IntArray, ahead: IntArray, left: IntArray) -> IntArray:
    """``drawn`` of every case, as designs give it, after the design has checked those that it drew from."""
    nothing = (left == 0) | (design.closed(ahead) if m is None else m == 0)
    refuse(nothing & (hits != 0), "ranks", hits + 1, "1 where nothing was drawn")
    if design.compares:
        silent = nothing & (left > 0) & ~design.closed(ahead)
        refuse(silent, "drawn", np.zeros_like(left), f"at least 1 in an open case of '{design}'")
    if m is not None:
        refuse((left == 0) & (m != 0), "drawn", m, "0 where `rest` is 0")
    drawn = np.where(left == 0, ALL, NOTHING)
    if not nothing.all():
        on = ~nothing
        drawn[on] = design.check(None if m is None else m[on], hits[on], left[on] + 1)
    return drawn
