"""Test cases grouped by user, and cut into blocks: what a worker is sent, and what it sends back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fullrank._types import Array, BoolArray, IntArray

if TYPE_CHECKING:
    from fullrank.data.split import Split
    from fullrank.observing.inputs import Pools

__all__ = ["OUTCOME", "Block", "Grouped", "Result", "outcome_of", "unfinished"]


#: What is known of a case once it was observed.
OUTCOME = ("ahead", "rest", "drawn", "hits", "pool", "order", "recent")


class Result(NamedTuple):
    """What was seen of users first..last−1: the :data:`OUTCOME` of their cases, and how many scores were asked for."""

    first: int
    last: int
    outcome: tuple[IntArray, ...]
    scored: int


def outcome_of(
    known: BoolArray, drawn: IntArray, hits: IntArray, pool: IntArray, order: IntArray
) -> tuple[IntArray, ...]:
    """The outcomes of a sample from all candidates; where all were compared, ``hits`` is how many beat the target."""
    none = np.zeros_like(hits)
    ahead, rest = np.where(known, hits, none), np.where(known, none, pool - 1)
    return ahead, rest, np.where(known, none, drawn), np.where(known, none, hits), pool, order, none


@dataclass(frozen=True)
class Block:
    """Users first..last−1 of the sorted test users: all a worker needs beside the model."""

    first: int
    last: int
    users: IntArray
    ptr: IntArray
    targets: Array
    lo: IntArray
    hi: IntArray
    listed: Array
    explicit: bool
    compared: IntArray | None = None
    hits: IntArray | None = None
    order: IntArray | None = None
    # behind a guide `compared` and `hits` are of the rest; of the guide's first `depth`, `ahead` beat the target
    ahead: IntArray | None = None
    recent: IntArray | None = None
    depth: IntArray | None = None

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

    def part(self, first: int, last: int) -> Block:
        """Users first..last−1 of the block."""
        a, b = self.ptr[first], self.ptr[last]
        per_case = ("targets", "compared", "hits", "order", "ahead", "recent", "depth")
        own = {name: values[a:b] for name in per_case if (values := getattr(self, name)) is not None}
        return replace(
            self, first=self.first + first, last=self.first + last, users=self.users[first:last],
            ptr=self.ptr[first : last + 1] - a, lo=self.lo[first:last], hi=self.hi[first:last], **own,
        )  # fmt: skip


@dataclass(frozen=True)
class Grouped:
    """Cases sorted by user and target, with each user's listed items; ``cases`` are their places in the split."""

    cases: IntArray
    users: IntArray
    ptr: IntArray
    targets: Array
    lo: IntArray
    hi: IntArray
    listed: Array
    explicit: bool

    @classmethod
    def of(cls, split: Split, cases: IntArray, pools: Pools) -> Grouped:
        """These cases of a split."""
        users, items = (np.asarray(each, dtype=np.int64)[cases] for each in (split.users, split.items))
        if not (np.diff(users) > 0).all():  # the common case, one target each in order of users, needs no sorting
            sorting = np.lexsort((items, users))
            cases, users, items = cases[sorting], users[sorting], items[sorting]
        starts = np.flatnonzero(np.diff(users, prepend=-1))
        unique = users[starts]
        indptr = pools.listed.indptr.astype(np.int64, copy=False)
        return cls(
            cases, unique, np.append(starts, len(users)).astype(np.int64), items.astype(np.int32), indptr[unique],
            indptr[unique + 1], pools.listed.indices.astype(np.int32, copy=False), pools.explicit,
        )  # fmt: skip

    def blocks(self, spans: Iterable[tuple[int, int]], before: Mapping[str, IntArray] | None = None) -> Iterator[Block]:
        """The blocks of these spans of users; ``before``: what each case of the split brings along."""
        for first, last in spans:
            a, b = self.ptr[first], self.ptr[last]
            known = {key: values[self.cases[a:b]] for key, values in (before or {}).items()}
            yield Block(
                first, last, self.users[first:last], self.ptr[first : last + 1] - a, self.targets[a:b],
                self.lo[first:last], self.hi[first:last], self.listed, self.explicit, **known,
            )  # fmt: skip


def unfinished(done: BoolArray, size: int, tile: int) -> Iterator[tuple[int, int]]:
    """Runs of at most ``size`` users that are not done, cut at multiples of ``tile``."""
    size = -(-size // tile) * tile
    edges = np.flatnonzero(np.diff(np.concatenate(([True], done, [True])).astype(np.int8)))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        for start in range(int(first), int(last), size):
            yield start, min(start + size, int(last))
