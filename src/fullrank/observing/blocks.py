"""Test cases grouped by user, and cut into blocks: what a worker is sent, and what it sends back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fullrank.data.split import Split
    from fullrank.observing.observe import CaseOutcomes

__all__ = ["Block", "Grouped", "Result", "unfinished"]

Ints = NDArray[np.int64]
Array = NDArray[Any]

#: First user, one past the last, and (drawn, hits, candidates, order) of their cases.
Result = tuple[int, int, tuple[Array, ...]]


@dataclass(frozen=True)
class Block:
    """Users first..last−1 of the sorted test users: all a worker needs beside the model."""

    first: int
    last: int
    users: Ints
    ptr: Ints
    targets: Array
    lo: Ints
    hi: Ints
    listed: Array
    explicit: bool
    compared: Ints | None = None
    hits: Ints | None = None
    order: Ints | None = None

    def __getstate__(self) -> dict[str, Any]:
        # `listed` is shared by all blocks here; what travels to another process is this block's own part.
        state = dict(self.__dict__)
        sizes = self.hi - self.lo
        state["listed"] = np.concatenate(
            [np.zeros(0, dtype=self.listed.dtype), *(self.listed[a:b] for a, b in zip(self.lo, self.hi, strict=True))]
        )
        state["hi"] = np.cumsum(sizes)
        state["lo"] = state["hi"] - sizes
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@dataclass(frozen=True)
class Grouped:
    """The split's cases sorted by user and target, with each user's listed items."""

    sorting: Ints | None
    users: Ints
    ptr: Ints
    targets: Array
    lo: Ints
    hi: Ints
    listed: Array
    explicit: bool
    n_items: int
    previous: CaseOutcomes | None

    @classmethod
    def of(cls, split: Split, listed: Any, explicit: bool, previous: CaseOutcomes | None) -> Grouped:
        """The cases of a split, with what is already known of them."""
        users, items = np.asarray(split.users, dtype=np.int64), np.asarray(split.items, dtype=np.int64)
        if previous is not None and len(previous) != len(users):
            raise ValueError(
                f"`previous` has {len(previous)} cases, the split {len(users)}: they must be the same cases."
            )
        sorting = None
        if not (np.diff(users) > 0).all():  # the common case, one target each in order of users, needs no sorting
            sorting = np.lexsort((items, users))
            users, items = users[sorting], items[sorting]
        starts = np.flatnonzero(np.diff(users, prepend=-1))
        unique = users[starts]
        indptr = listed.indptr.astype(np.int64, copy=False)
        return cls(
            sorting=sorting, users=unique, ptr=np.append(starts, len(users)).astype(np.int64),
            targets=items.astype(np.int32), lo=indptr[unique], hi=indptr[unique + 1],
            listed=listed.indices.astype(np.int32, copy=False), explicit=explicit, n_items=split.n_items, previous=previous,
        )  # fmt: skip

    def largest_pool(self) -> int:
        """The number of candidates that shares in a design are shares of."""
        if not self.explicit:
            return self.n_items
        return int((self.hi - self.lo).max()) + 1

    def to_case_order(self, values: Array) -> Array:
        """One value per case, back in the order of the split."""
        if self.sorting is None:
            return values
        out = np.empty_like(values)
        out[self.sorting] = values
        return out

    def blocks(self, spans: Iterable[tuple[int, int]]) -> Iterator[Block]:
        """The blocks of these spans of users."""
        before: dict[str, Ints] = {}
        if self.previous is not None:
            for key in ("compared", "hits", "order"):
                values = getattr(self.previous, key)
                before[key] = values if self.sorting is None else values[self.sorting]
        for first, last in spans:
            a, b = self.ptr[first], self.ptr[last]
            yield Block(
                first, last, self.users[first:last], self.ptr[first : last + 1] - a, self.targets[a:b],
                self.lo[first:last], self.hi[first:last], self.listed, self.explicit,
                **{key: values[a:b] for key, values in before.items()},
            )  # fmt: skip


def unfinished(done: NDArray[np.bool_], size: int, tile: int) -> Iterator[tuple[int, int]]:
    """Runs of at most ``size`` users that are not done, cut at multiples of ``tile``."""
    size = -(-size // tile) * tile
    edges = np.flatnonzero(np.diff(np.concatenate(([True], done, [True])).astype(np.int8)))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        for start in range(int(first), int(last), size):
            yield start, min(start + size, int(last))
