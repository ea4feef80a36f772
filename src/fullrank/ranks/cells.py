"""Cases with equal keys as one cell: what counts are made of, in the memory of a million cases however many there are."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fullrank._types import Array, BoolArray, FloatArray, IntArray
from fullrank.ranks.checks import check_users, check_weights, constant, per_case, refuse
from fullrank.ranks.laws import ALL, NOTHING
from fullrank.ranks.protocol import Design

#: Number of user blocks. 256 keeps counts small and leaves 255 degrees of freedom for resampling.
BLOCKS = 256
#: Pools are binned by ⌊log2 N · 2^level⌋ at the finest level that keeps at most this many bins.
MAX_POOLS = 64
FINEST = 24
#: Key ``drawn`` of a case behind a guide whose whole rest was compared (0: nothing was drawn from it).
EVERY = -1
#: ``recent`` where it is not known how late in a guide's order those ahead came.
UNKNOWN = -1
#: Cases that are grouped at once: many ranks become counts in the memory of this many.
CHUNK = 1 << 20
KEYS = ("block", "pool", "ahead", "rest", "drawn", "hits", "recent", "order", "targets")
SUMS = ("cases", "scored", "weight", "pool_weight", "auc_weight", "compared_weight", "square_weight")


def cells_of(
    drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike, design: Design, *,
    users: ArrayLike | None = None, weights: ArrayLike | None = None, order: ArrayLike | None = None,
    targets: ArrayLike | None = None, ahead: ArrayLike | None = None, rest: ArrayLike | None = None,
    recent: ArrayLike | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The level of the bins, the keys and the sums of cases; see :meth:`fullrank.RankCounts.from_outcomes`."""
    m, x = np.asarray(drawn, dtype=np.int64), np.asarray(hits, dtype=np.int64)
    M = len(x)
    if not M:
        raise ValueError("`hits` is empty: there is nothing to estimate from.")
    N = per_case("n_items", n_items, M)
    w = constant(1.0, M) if weights is None else check_weights(weights, M)
    ids = None if users is None else check_users(users, M)
    j = per_case("order", 1 if order is None else order, M)
    T = per_case("targets", 1 if targets is None else targets, M)
    if order is None and (T > 1).any():
        raise ValueError("`order` is missing: with several targets per user every case needs its place among them.")
    refuse((j < 1) | (j > T), "order", j, "a place in 1..targets")
    a = constant(0, M) if ahead is None else np.asarray(ahead, dtype=np.int64)
    left = None if rest is None else np.asarray(rest, dtype=np.int64)
    late = constant(UNKNOWN, M) if design.compares else a
    if recent is not None:
        late = per_case("recent", recent, M)
        refuse((late < UNKNOWN) | (late > a), "recent", late, "between 0 and `ahead`, or −1 where it is not known")
    slices = [slice(first, min(first + CHUNK, M)) for first in range(0, M, CHUNK)]
    if not design.replace:
        m = _complete_as_all(m, N - 1 if left is None else left, slices)
    # a case of weight zero says nothing, and a pool of such cases has no mean size
    chunks = [part if w[part].all() else part.start + np.flatnonzero(w[part]) for part in slices if w[part].any()]
    pools = _distinct_bins(N[part] for part in chunks)
    level = finest_level(FINEST, pools, pools if left is None else _distinct_bins(left[part] + 1 for part in chunks))
    named = cache(_named_block)
    lots: list[tuple[Any, ...]] = []
    ends = [(each.min(), each.max()) for each in (pools >> (FINEST - level), a, m, x, late, j, T)]
    table = _Table(np.array([(0, BLOCKS - 1), *ends]))
    # where few keys can occur, a table of them all is filled sooner than those that do are found
    small = left is None and ends[2][0] > 0 and table.room <= 4 * min(M, CHUNK)
    for part in chunks:
        block = user_blocks(np.r_[part] if ids is None else ids[part], named)
        over = None if left is None else left[part]
        ints = (each[part] for each in (a, m, x, N, late, j, T))
        columns, sums = _keyed(design, level, w[part], block, over, *ints)
        if small:
            table.add(columns, sums)
            continue
        lots.append(grouped(columns, sums))
        if sum(keys.shape[1] for keys, *_ in lots) > 2 * CHUNK:
            lots = [_joined(lots)]
    keys, *summed = table.cells() if small else _joined(lots)
    return level, np.ascontiguousarray(keys.T), *summed


def _complete_as_all(drawn: IntArray, size: IntArray, slices: Iterable[slice]) -> IntArray:
    """Return ``drawn`` with ``ALL`` where a sample without replacement is all there are: the rank is then known."""
    if not any((drawn[part] == size[part]).any() for part in slices):
        return drawn
    return np.where(drawn == size, ALL, drawn)


class _Table:
    """Sums of cases by every key that can occur, given its least and largest values; every rest is the whole pool."""

    def __init__(self, ends: IntArray) -> None:
        self.lows, self.sizes = ends[:, 0], ends[:, 1] - ends[:, 0] + 1
        self.room = np.prod(self.sizes, dtype=float)
        self.sums: list[Array] = []

    def add(self, columns: list[IntArray], sums: Sequence[Array]) -> None:
        """Add cases by their keys and what is summed over them."""
        place: Any = 0
        for column, low, size in zip(columns[:3] + columns[4:], self.lows, self.sizes, strict=True):
            place = place * size + (column - low) if size > 1 else place
        more = [np.bincount(place, each, int(self.room)).astype(each.dtype, copy=False) for each in sums]
        self.sums = [one + two for one, two in zip(self.sums, more, strict=True)] if self.sums else more

    def cells(self) -> tuple[Any, ...]:
        """Return what :func:`grouped` would of all cases."""
        there = np.flatnonzero(self.sums[0])
        keys = np.stack(np.unravel_index(there, self.sizes)) + self.lows[:, None]
        return np.insert(keys, 3, keys[1], axis=0), *(each[there] for each in self.sums)


def _named_block(name: str) -> int:
    return hashlib.blake2b(name.encode(), digest_size=1).digest()[0]


def user_blocks(users: ArrayLike, named: Callable[[str], int] = _named_block) -> IntArray:
    """Return a block in 0..255 per user id, by a hash that does not change between processes, machines or models."""
    ids = np.asarray(users)
    if ids.dtype.kind in "fO":  # as frames write whole numbers once a value was missing, or in a column of anything
        whole = _are_whole(ids)
        if not whole.all():
            out = np.fromiter(map(named, ids.astype(str).tolist()), np.int64, len(ids))
            out[whole] = user_blocks(ids[whole]) if whole.any() else 0
            return out
        if ids.dtype.kind == "f":
            ids = ids.astype(np.int64)
        else:
            ids = np.fromiter((int(each) % 2**64 for each in ids.tolist()), np.uint64, len(ids))
    if ids.dtype.kind in "iub":
        with np.errstate(over="ignore"):
            z = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)  # splitmix64
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
        return np.asarray(z % np.uint64(BLOCKS), dtype=np.int64)
    return np.fromiter(map(named, ids.astype(str).tolist()), np.int64, len(ids))


def _are_whole(ids: Array) -> BoolArray:
    """Return which ids are whole numbers, floats below 2**53 among them; the same of each whatever stands beside it."""
    if ids.dtype.kind == "f":
        return np.asarray((ids == np.round(ids)) & (np.abs(ids) < 2.0**53))

    def is_whole(each: Any) -> bool:
        if isinstance(each, float | np.floating):
            return abs(float(each)) < 2.0**53 and float(each).is_integer()
        return isinstance(each, int | np.integer | np.bool_)

    return np.fromiter(map(is_whole, ids.tolist()), np.bool_, len(ids))


def number_of_users(users: ArrayLike) -> int:
    """Return how many users there are, whatever names them."""
    ids = np.asarray(users)
    if ids.dtype.kind not in "iufb":
        return len(set(ids.tolist()))
    ids = np.sort(ids)
    return int((ids[1:] != ids[:-1]).sum()) + 1


def grouped(columns: Sequence[IntArray] | IntArray, sums: Sequence[Array]) -> tuple[Any, ...]:
    """Cases with equal keys, summed: the keys, a row each and a column per cell, in a fixed order, and the sums."""
    block, pool, ahead, rest, *others = columns
    # sorted by pool, then rest, known ranks first; a rest of the whole pool, the usual one, takes no room in that
    less = rest - pool
    known = rest == 0
    if known.any():
        less = np.where(known, less.min(where=~known, initial=0) - 1, less)
    first, inverse = _distinct([block, pool, less, ahead, *others])
    keys = np.stack([column[first] for column in columns])
    return keys, *(np.bincount(inverse, each, len(first)).astype(each.dtype, copy=False) for each in sums)


def _keyed(
    design: Design, level: int, w: FloatArray, block: IntArray, left: IntArray | None, a: IntArray, m: IntArray,
    x: IntArray, N: IntArray, late: IntArray, j: IntArray, T: IntArray,
) -> tuple[list[IntArray], tuple[Array, ...]]:  # fmt: skip
    """Return the keys of cases, and what is summed over them; ``left`` is None where all candidates are left to draw."""
    pool = rest = _bins(N) >> (FINEST - level)
    if left is None:
        left, auc = N - 1, design.auc(m, x, N)
    else:  # 1 − (a + B)/(N−1), with the design's unbiased estimate of B; NaN where nothing says what B is
        rest, on = _bins(left + 1) >> (FINEST - level), (left > 0) & (m != NOTHING)
        B = np.where(left == 0, 0.0, np.nan)
        if on.any():
            B[on] = left[on] * (1.0 - design.auc(m[on], x[on], left[on] + 1))
        auc = np.asarray(1.0 - (a + B) / np.maximum(N - 1, 1))
    drawn = key = np.maximum(m, 0)
    every = m == ALL
    if design.compares:  # a rest behind a guide stays one, of which everything is known
        behind = every & (left > 0)
        every, key, drawn = every & ~behind, np.where(behind, EVERY, key), np.where(behind, left, drawn)
    if every.any():  # elsewhere nothing is left of it
        a, x = np.where(every, a + x, a), np.where(every, 0, x)
        left, rest = np.where(every, 0, left), np.where(every, 0, rest)
    late, compared = np.where((left == 0) | design.closed(a), 0, late), N - 1 - left
    partly = np.where(left > 0, w * compared, 0.0)
    sums = (np.ones(len(w), dtype=np.int64), compared + drawn, w, w * N, w * auc, partly, w * w)
    return [block, pool, a, rest, key, x, late, j, T], sums


def from_version(version: int, arrays: dict[str, Array]) -> tuple[Any, ...]:
    """Return the keys and the sums that a file of counts holds, as the newest version would have them."""
    keys, *sums = (arrays[name] for name in ("keys", *SUMS[: 5 if version < 3 else 6 if version < 5 else 7]))
    if version < 3:  # nothing could be compared before the draws, and 0 drawn meant that every candidate was compared
        block, pool, drawn, hits, order, targets = keys.T
        known = drawn == ALL
        ahead, rest, hits = np.where(known, hits, 0), np.where(known, 0, pool), np.where(known, 0, hits)
        columns = [block, pool, ahead, rest, drawn, hits, order, targets]
        keys, *sums = grouped(columns, [*sums, np.zeros(len(drawn))])
        keys = keys.T
    if version < 4:  # what was compared had no order
        keys = np.insert(keys, KEYS.index("recent"), np.where(keys[:, 3] == 0, 0, keys[:, 2]), axis=1)
    if version < 5:  # weights are taken as equal within a cell
        cases, weight = sums[0], sums[2]
        sums.append(weight**2 / np.maximum(cases, 1))
    return keys, *sums


def _joined(lots: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Several lots of cells as one."""
    if len(lots) == 1:
        return lots[0]
    keys, *sums = (np.concatenate(each, axis=-1) for each in zip(*lots, strict=True))
    return grouped(keys, sums)


def _distinct_bins(parts: Iterable[IntArray]) -> IntArray:
    """Return the distinct finest bins of sizes that come in parts."""
    return np.unique(pool_key(np.concatenate([part[codes(part)[0]] for part in parts])))


def unique_rows(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct rows, sorted, and where each row went: np.unique(axis=0), without comparing rows if ranges allow."""
    first, inverse = _distinct(keys.T)
    return keys[first], inverse


def _distinct(columns: Sequence[IntArray] | IntArray) -> tuple[IntArray, IntArray]:
    """Return where the distinct rows of a table are, in sorted order, and which of them each row is.

    Columns are packed into one integer (mixed radix), unchanged where their ranges leave room, else as codes.
    """
    packed, room = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if room * (high - low + 1) >= 2**40:
            (before, packed), (values, column) = codes(packed), codes(column)
            room, low, high = len(before), 0, len(values) - 1
        if high > low:
            packed, room = packed * (high - low + 1) + (column - low), room * (high - low + 1)
    return codes(packed)


def codes(values: IntArray) -> tuple[IntArray, IntArray]:
    """Where each distinct value stands, sorted, and each value's place among them; by a table or a plain sort if it can."""
    n, low = len(values), int(values.min())
    span, bits = int(values.max()) - low + 1, n.bit_length()
    if span == 1:
        return np.zeros(1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    if span <= 4 * n:
        last, shifted = np.full(span, -1), values - low
        last[shifted] = np.arange(n)
        return last[last >= 0], (np.cumsum(last >= 0) - 1)[shifted]
    if span.bit_length() + bits > 63:
        return np.unique(values, return_index=True, return_inverse=True)[1:]
    both = np.sort((values - low) << bits | np.arange(n))  # each value with its place: sorting it is sorting both
    place, fresh = both & ((1 << bits) - 1), np.diff(both >> bits, prepend=-1) > 0
    inverse = np.empty(n, dtype=np.int64)
    inverse[place] = np.cumsum(fresh) - 1
    return place[fresh], inverse


def sum_by(which: IntArray, values: FloatArray) -> FloatArray:
    """Return the sum of the values of each group, groups being numbered from 0 without gaps."""
    return np.asarray(np.bincount(which, values), dtype=np.float64)


def _bins(sizes: IntArray) -> IntArray:
    """Return the finest bin of every size; few sizes are many cases, so there is one logarithm for each."""
    first, which = codes(sizes)
    return pool_key(sizes[first])[which]


def finest_level(level: int, pools: IntArray, rests: IntArray) -> int:
    """The finest level with at most 64 bins; a function of the sets of pools and rests alone, so addition commutes."""
    rests = rests[rests > 0]
    while max(len(pools), len(rests)) > MAX_POOLS:
        level, pools, rests = level - 1, np.unique(pools >> 1), np.unique(rests >> 1)
    return level


def pool_key(N: Array) -> IntArray:
    """Return the finest bin of each size, ⌊log2 N · 2^24⌋."""
    return np.asarray(np.floor(np.log2(np.maximum(N, 1).astype(np.float64)) * 2.0**FINEST), dtype=np.int64)
