"""Every test case's target against every item, one bit each: samples of many models can then share their negatives.

What a sampled evaluation compares is decided by the draw of the negatives alone, so that the same seed draws the same items
for every model, as li23 did. A bit matrix of users × items is small enough to keep (46 MB for 37,501 users and 9,916 items),
and drawing from it costs a look-up per negative, whatever the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

import fullrank as fr

__all__ = ["Comparisons", "compare_all", "draw", "rows_of"]

Array = NDArray[Any]
Ints = NDArray[np.int64]
Bits = NDArray[np.uint8]

_CELLS = 1 << 23  # scores held at once
_DENSE = 20_000  # items up to which similarities are multiplied as a whole matrix
_ONCE = -1  # the repeat whose tie-break the full ranking takes


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Which items stand before the target of each case (``ahead``) and which have its very score (``tied``), as packed bits.

    ``tied`` has no columns where nothing is tied. ``users`` and ``targets`` are the cases, ``seen`` the items a user has in
    training (CSR), which `unseen` leaves out.
    """

    ahead: Bits
    tied: Bits
    users: Ints
    targets: Ints
    seen: Any
    n_items: int

    def ranks(self, candidates: str) -> tuple[Ints, Ints]:
        """Each target's rank among `all` or `unseen` candidates and their number; ties are broken at random, once."""
        ahead, unseen = np.zeros(len(self.users), dtype=np.int64), candidates == "unseen"
        _count(self.ahead, self.tied, self.targets, *self.histories(), unseen, self.n_items, ahead)
        pool = np.full(len(ahead), self.n_items, dtype=np.int64)
        if unseen:
            pool -= np.diff(self.seen.indptr)[self.users]
        return ahead + 1, pool

    def histories(self) -> tuple[Ints, Ints, Ints]:
        """Each case's user, and where the compiled loops find what the user has."""
        return self.users, self.seen.indptr.astype(np.int64), self.seen.indices.astype(np.int64)


def rows_of(fitted: Any) -> Any:
    """A function from users to their scores of all items, by matrix products where the model is made of matrices."""
    if isinstance(fitted, fr.models.FittedFactors):
        bias = 0 if fitted.item_bias is None else fitted.item_bias
        return lambda users: fitted.user_factors[users] @ fitted.item_factors.T + bias
    if isinstance(fitted, fr.models.FittedItemItem):
        similarity = fitted.similarity
        if hasattr(similarity, "toarray"):
            similarity = similarity.toarray() if similarity.shape[0] <= _DENSE else similarity

        def rows(users: Ints) -> Array:
            found = fitted.history[users] @ similarity
            return np.asarray(found.toarray() if hasattr(found, "toarray") else found)

        return rows
    scorer = fr.as_scorer(fitted)
    n_items = int(fitted.n_items)
    return lambda users: scorer.score(users, np.broadcast_to(np.arange(n_items), (len(users), n_items)))


def compare_all(fitted: Any, split: fr.Split) -> Comparisons:
    """Compare every target of a split with every item."""
    rows, n_items = rows_of(fitted), split.n_items
    ahead, tied = [], []
    for part in _parts(len(split.users), n_items):
        users, targets = split.users[part], split.items[part]
        scores = np.asarray(rows(users))
        own = scores[np.arange(len(users)), targets][:, None]
        same = scores == own
        same[np.arange(len(users)), targets] = False
        ahead.append(np.packbits(scores > own, axis=1))
        tied.append(np.packbits(same, axis=1))
    ties = np.concatenate(tied)
    ties = ties if ties.any() else ties[:, :0]
    users, targets = (np.asarray(each, dtype=np.int64) for each in (split.users, split.items))
    return Comparisons(np.concatenate(ahead), ties, users, targets, _sorted(split.train), n_items)


def _parts(n: int, n_items: int) -> Iterator[slice]:
    step = max(1, _CELLS // n_items)
    return (slice(first, first + step) for first in range(0, n, step))


def _sorted(train: Any) -> Any:
    made = train.tocsr().copy()
    made.sort_indices()
    return made


def draw(
    cases: Comparisons, design: fr.Design, candidates: str, seed: int, repeat: int, *, coded: bool = False
) -> tuple[Ints, Ints]:
    """(drawn, hits) of every case in one repeat: the same negatives for every model, ties broken anew.

    ``coded``: as the code of li23 does it, which draws one item more than the law says and does not leave out the target.
    """
    stages = np.array(design.stages(cases.n_items), dtype=np.int64)
    stop_at = int(getattr(design, "stop_at", None) or 1) if design.grows else 0
    drawn, hits = np.zeros(len(cases.users), dtype=np.int64), np.zeros(len(cases.users), dtype=np.int64)
    _draw(
        cases.ahead, cases.tied, cases.targets, *cases.histories(), candidates == "unseen", cases.n_items, stages,
        stop_at, design.replace, coded, np.uint64(_mix(np.uint64(seed))), repeat, drawn, hits,
    )  # fmt: skip
    return drawn, hits


# ------------------------------------------------------------------------------------------------ compiled loops


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _mix(x: Any) -> Any:
    """SplitMix64: 64 well-mixed bits of a number."""
    z = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _bit(bits: Any, row: int, item: int) -> bool:
    return bool(bits[row, item >> 3] >> (7 - (item & 7)) & 1)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _before(ahead: Any, tied: Any, case: int, item: int, start: Any) -> bool:
    """Whether an item stands before the target; each tied item and the target have a random place that ``start`` fixes."""
    if _bit(ahead, case, item):
        return True
    if tied.shape[1] == 0 or not _bit(tied, case, item):
        return False
    return _mix(start ^ np.uint64(item + 1)) < _mix(start)  # type: ignore[no-any-return]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _has(indices: Any, first: int, last: int, item: int) -> bool:
    while first < last:
        middle = (first + last) >> 1
        if indices[middle] < item:
            first = middle + 1
        else:
            last = middle
    return first < len(indices) and indices[first] == item


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _start(seed: Any, repeat: int, user: int) -> Any:
    return _mix(_mix(np.uint64(seed) ^ np.uint64(repeat + 2)) + np.uint64(user))


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _count(
    ahead: Any, tied: Any, targets: Any, users: Any, indptr: Any, indices: Any, unseen: bool, n_items: int, out: Any
) -> None:
    for case in range(len(users)):
        start = _start(np.uint64(0), _ONCE, users[case])
        place, last = indptr[users[case]], indptr[users[case] + 1]
        for item in range(n_items):
            if unseen:
                while place < last and indices[place] < item:
                    place += 1
                if place < last and indices[place] == item:
                    continue
            if _before(ahead, tied, case, item, start):
                out[case] += 1


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _draw(
    ahead: Any, tied: Any, targets: Any, users: Any, indptr: Any, indices: Any, unseen: bool, n_items: int, stages: Any,
    stop_at: int, replace: bool, coded: bool, seed: Any, repeat: int, drawn: Any, hits: Any,
) -> None:  # fmt: skip
    taken = np.full(n_items, -1, dtype=np.int64)
    for case in range(len(users)):
        user, target = users[case], targets[case]
        start = _start(seed, repeat, user)
        state, found, have = _mix(start), 0, 0
        first, last = indptr[user], indptr[user + 1]
        plain = replace and not unseen  # nothing that may be drawn is ever refused: a short loop, and a fast one
        others = n_items if coded else n_items - 1
        for size in stages:
            need = size + 1 if coded else size
            if plain or coded:
                for _ in range(need - have):
                    state += np.uint64(0x9E3779B97F4A7C15)
                    item = np.int64(((_mix(state) >> np.uint64(32)) * np.uint64(others)) >> np.uint64(32))
                    item += not coded and item >= target  # the target is left out, or, as coded, never before itself
                    found += _before(ahead, tied, case, item, start)
                have = need
            while have < need:
                state += np.uint64(0x9E3779B97F4A7C15)
                item = np.int64(((_mix(state) >> np.uint64(32)) * np.uint64(n_items)) >> np.uint64(32))
                if item == target or (unseen and _has(indices, first, last, item)):
                    continue
                if not replace:
                    if taken[item] == case:
                        continue
                    taken[item] = case
                found += _before(ahead, tied, case, item, start)
                have += 1
            drawn[case] = size
            if found >= stop_at and stop_at > 0:
                break
        hits[case] = min(found, drawn[case])  # as coded, one may be too many
