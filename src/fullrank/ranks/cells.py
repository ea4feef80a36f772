"""Cases with equal keys as one cell: what counts are made of, in the memory of a million cases however many there are."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fullrank._types import Array, FloatArray, IntArray
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
SUMS = ("cases", "scored", "weight", "pool_weight", "auc_weight", "compared_weight")


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
    chunks = [slice(first, min(first + CHUNK, M)) for first in range(0, M, CHUNK)]
    # a case of weight zero says nothing, and a pool of such cases has no mean size
    some = [slice(None) if w[part].all() else w[part] > 0 for part in chunks]
    pools = _distinct_bins(N[part][on] for part, on in zip(chunks, some, strict=True))
    rests = pools if left is None else _distinct_bins(left[part][on] + 1 for part, on in zip(chunks, some, strict=True))
    level = finest_level(FINEST, pools, rests)
    named = _StringBlocks()
    found = _Cells(None if left is not None else _room(pools >> (FINEST - level), a, m, x, late, j, T), M)
    for part, on in zip(chunks, some, strict=True):
        block = user_blocks(np.arange(part.start, part.stop) if ids is None else ids[part], named)
        over = N[part] - 1 if left is None else left[part]
        if w[part].any():
            ints = (
                each[on] for each in (block, a[part], over, m[part], x[part], N[part], late[part], j[part], T[part])
            )
            found.add(*_keyed(design, level, left is None, w[part][on], *ints))
    keys, *sums = found.sums()
    return level, np.ascontiguousarray(keys.T), *sums


class _Cells:
    """Cells that cases are added to: a table of every key that can occur, where that is small, else those that do.

    ``room``: the least value and the number of values of each key, ``None`` where they are not known. A table is small
    beside so many ``cases``: filling it then takes no longer than they do.
    """

    def __init__(self, room: Sequence[tuple[int, int]] | None, cases: int) -> None:
        most = 4 * min(cases, CHUNK)
        self.room = room if room is not None and math.prod(size for _, size in room) <= most else None
        self.table: list[Array] = []
        self.lots: list[tuple[Any, ...]] = []

    def add(self, columns: Sequence[IntArray], sums: Sequence[Array]) -> None:
        """Add cases by their keys and what is summed over them."""
        if self.room is None:
            self.lots.append(_grouped_columns(columns, sums))
            if sum(keys.shape[1] for keys, *_ in self.lots) > 2 * CHUNK:
                self.lots = [_joined(self.lots)]
            return
        block, pool, ahead, rest, *others = columns
        keys: list[Any] = [block, pool, rest > 0, ahead, *others]
        packed, size = _packed([(digit, low, radix) for digit, (low, radix) in zip(keys, self.room, strict=True)])
        more = [np.bincount(packed, each, int(size)).astype(each.dtype, copy=False) for each in sums]
        self.table = [a + b for a, b in zip(self.table, more, strict=True)] if self.table else more

    def sums(self) -> tuple[Any, ...]:
        """Return the keys, a row each and a column per cell in the order of :func:`grouped`, and the sums."""
        if self.room is None:
            return _joined(self.lots)
        cells = np.flatnonzero(self.table[0])
        digits = np.unravel_index(cells, [radix for _, radix in self.room])
        block, pool, some, ahead, *others = (each + low for each, (low, _) in zip(digits, self.room, strict=True))
        return np.stack([block, pool, ahead, np.where(some, pool, 0), *others]), *(each[cells] for each in self.table)


def _room(
    pools: IntArray, a: IntArray, m: IntArray, x: IntArray, late: IntArray, j: IntArray, T: IntArray
) -> list[tuple[int, int]] | None:
    """Return the values that each key of cases can have where nothing was compared one by one before the draws."""
    if (m <= 0).any():  # all were compared, and ranks range over the pool
        return None
    ranges = [(0, BLOCKS - 1), (int(pools.min()), int(pools.max())), (1, 1)]
    ranges += [(int(each.min()), int(each.max())) for each in (a, m, x, late, j, T)]
    return [(low, high - low + 1) for low, high in ranges]


class _StringBlocks(dict[str, int]):
    """The block of each name, hashed when it is first asked for."""

    def __missing__(self, name: str) -> int:
        block = self[name] = hashlib.blake2b(name.encode(), digest_size=1).digest()[0]
        return block


def user_blocks(users: ArrayLike, known: _StringBlocks | None = None) -> IntArray:
    """Return a block in 0..255 per user id, by a hash that does not change between processes, machines or models.

    ``known``: names that were hashed before, to which these are added.
    """
    ids = np.asarray(users)
    if ids.dtype.kind == "f" and np.array_equal(ids, np.round(ids)) and (np.abs(ids) < 2.0**53).all():
        ids = ids.astype(np.int64)  # as frames write whole numbers once a value was missing
    if ids.dtype.kind in "iub":
        with np.errstate(over="ignore"):
            z = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)  # splitmix64
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
        return np.asarray(z % np.uint64(BLOCKS), dtype=np.int64)
    block_of = _StringBlocks() if known is None else known
    return np.fromiter(map(block_of.__getitem__, ids.astype(str).tolist()), np.int64, len(ids))


def _auc(design: Design, a: IntArray, left: IntArray, m: IntArray, x: IntArray, N: IntArray) -> FloatArray:
    """1 − (a + B)/(N−1), with the design's unbiased estimate of B; NaN where nothing says what B is."""
    B = np.where(left == 0, 0.0, np.nan)
    on = (left > 0) & (m != NOTHING)
    if on.any():
        B[on] = left[on] * (1.0 - design.auc(m[on], x[on], left[on] + 1))
    return np.asarray(1.0 - (a + B) / np.maximum(N - 1, 1))


def grouped(columns: Sequence[IntArray] | IntArray, sums: Sequence[Array]) -> tuple[Any, ...]:
    """Cases with equal keys, summed: the keys, one row per cell and in a fixed order, and the sums."""
    keys, *rest = _grouped_columns(columns, sums)
    return np.ascontiguousarray(keys.T), *rest


def _grouped_columns(columns: Sequence[IntArray] | IntArray, sums: Sequence[Array]) -> tuple[Any, ...]:
    """:func:`grouped` with a row per key and a column per cell, which is how many cells are summed quickly."""
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
    design: Design, level: int, nothing_compared: bool, w: FloatArray, block: IntArray, a: IntArray, left: IntArray,
    m: IntArray, x: IntArray, N: IntArray, late: IntArray, j: IntArray, T: IntArray,
) -> tuple[list[IntArray], tuple[Array, ...]]:  # fmt: skip
    """Return the keys of cases, and what is summed over them."""
    auc = design.auc(m, x, N) if nothing_compared else _auc(design, a, left, m, x, N)
    every = m == ALL  # then nothing is left
    behind = every & (left > 0) if design.compares else None
    if behind is not None:  # but a rest behind a guide stays one, of which everything is known
        every = every & ~behind
    a, left, x = np.where(every, a + x, a), np.where(every, 0, left), np.where(every, 0, x)
    compared, drawn = N - 1 - left, np.where(m == NOTHING, 0, m)
    m = drawn
    if not nothing_compared:
        late = np.where((left == 0) | design.closed(a), 0, late)
    if behind is not None:
        m, drawn = np.where(behind, EVERY, m), np.where(behind, left, drawn)
    partly = np.where(left > 0, w * compared, 0.0)
    coarser = FINEST - level
    pool = _bins(N) >> coarser
    rest = np.where(every, 0, pool) if nothing_compared else _bins(left + 1) >> coarser
    sums = (np.ones(len(w), dtype=np.int64), compared + drawn, w, w * N, w * auc, partly)
    return [block, pool, a, rest, m, x, late, j, T], sums


def _joined(cells: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Several lots of cells as one."""
    if len(cells) == 1:
        return cells[0]
    keys, *sums = (np.concatenate(each, axis=-1) for each in zip(*cells, strict=True))
    return _grouped_columns(keys, sums)


def _distinct_bins(parts: Iterable[IntArray]) -> IntArray:
    """Return the distinct finest bins of sizes that come in parts."""
    found = np.empty(0, dtype=np.int64)
    for part in parts:
        if len(part):
            found = np.union1d(found, codes(part)[0])
    return np.unique(pool_key(found))


def unique_rows(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct rows, sorted, and where each row went: np.unique(axis=0), without comparing rows if ranges allow."""
    first, inverse = _distinct(keys.T)
    return keys[first], inverse


def _distinct(columns: Sequence[IntArray] | IntArray) -> tuple[IntArray, IntArray]:
    """Return where the distinct rows of a table are, in sorted order, and which of them each row is.

    Columns are packed into one integer (mixed radix), unchanged where their ranges leave room, else as codes.
    """
    ranges = [(int(column.min()), int(column.max())) for column in columns]
    digits = [(column, low, high - low + 1) for column, (low, high) in zip(columns, ranges, strict=True)]
    packed, room = _packed(digits)
    if room >= 2.0**40:
        packed, room = _packed([(code, 0, len(distinct)) for distinct, code in map(codes, columns)])
    if room >= 2.0**62:
        _, first, inverse = np.unique(np.asarray(columns).T, axis=0, return_index=True, return_inverse=True)
        return first, inverse.ravel()
    distinct, inverse = codes(packed)
    first = np.empty(len(distinct), dtype=np.int64)
    first[inverse] = np.arange(len(inverse))
    return first, inverse


def _packed(digits: Sequence[tuple[IntArray, int, int]]) -> tuple[IntArray, float]:
    """Numbers of mixed radix, from the digits, the least value and the radix of each place; and how many there could be."""
    packed, room = np.zeros(len(digits[0][0]), dtype=np.int64), 1.0
    for digit, low, radix in digits:
        if radix > 1:
            packed, room = packed * radix + (digit - low if low else digit), room * radix
    return packed, room


def codes(values: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values, sorted, and each value's place among them: np.unique, by a table or one plain sort if it can."""
    n, low = len(values), int(values.min())
    span = int(values.max()) - low + 1
    if span == 1:
        return values[:1], np.zeros(n, dtype=np.int64)
    if span <= 4 * n:
        present = np.zeros(span, dtype=bool)
        present[values - low] = True
        place = np.cumsum(present, dtype=np.int32)
        return np.flatnonzero(present) + low, place[values - low].astype(np.int64) - 1
    bits = n.bit_length()
    if span.bit_length() + bits > 63:
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct, inverse.ravel()
    both = np.sort((values - low) << bits | np.arange(n))  # each value with its place: sorting it is sorting both
    ordered = both >> bits
    fresh = np.diff(ordered, prepend=-1) > 0
    inverse = np.empty(n, dtype=np.int64)
    inverse[both & ((1 << bits) - 1)] = np.cumsum(fresh) - 1
    return ordered[fresh] + low, inverse


def sum_by(which: IntArray, values: FloatArray) -> FloatArray:
    """Return the sum of the values of each group, groups being numbered from 0 without gaps."""
    return np.asarray(np.bincount(which, values), dtype=np.float64)


def _bins(sizes: IntArray) -> IntArray:
    """Return the finest bin of every size; few sizes are many cases, so there is one logarithm for each."""
    distinct, which = codes(sizes)
    return pool_key(distinct)[which]


def finest_level(level: int, pools: IntArray, rests: IntArray) -> int:
    """The finest level with at most 64 bins; a function of the sets of pools and rests alone, so addition commutes."""
    rests = rests[rests > 0]
    while max(len(pools), len(rests)) > MAX_POOLS:
        level, pools, rests = level - 1, np.unique(pools >> 1), np.unique(rests >> 1)
    return level


def pool_key(N: Array) -> IntArray:
    """Return the finest bin of each size, ⌊log2 N · 2^24⌋."""
    return np.asarray(np.floor(np.log2(np.maximum(N, 1).astype(np.float64)) * 2.0**FINEST), dtype=np.int64)
