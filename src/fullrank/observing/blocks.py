"""Test cases grouped by user, and cut into blocks: what a worker is sent, and what it sends back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fullrank._types import Array, BoolArray, IntArray
from fullrank.data.split import Split

#: What is known of a case once it was observed.
OUTCOME = ("ahead", "rest", "drawn", "hits", "pool", "order", "recent")


class Result(NamedTuple):
    """What was seen of users first..last−1: the :data:`OUTCOME` of their cases, and how many scores were asked for."""

    first: int
    last: int
    outcome: tuple[IntArray, ...]
    scored: int

    @classmethod
    def joined(cls, results: Sequence[Result]) -> Result:
        """Put the results of parts that follow one another together."""
        outcome = tuple(np.concatenate(each) for each in zip(*(result.outcome for result in results), strict=True))
        return cls(results[0].first, results[-1].last, outcome, sum(result.scored for result in results))


class Pools(NamedTuple):
    """Sorted items per user as a CSR matrix, whether they are the candidates or what is left out, and the largest pool."""

    listed: Any
    explicit: bool
    largest: int


@dataclass(frozen=True)
class Block:
    """Users first..last−1 of the sorted test users, with their cases: all that a worker needs beside the model."""

    first: int
    last: int
    users: IntArray
    ptr: IntArray
    targets: Array
    lo: IntArray
    hi: IntArray
    listed: Array
    explicit: bool
    cases: IntArray  # places in the split; they do not travel
    # what each case brings along: `compared`, `hits` and `order`; behind a guide, the first two are of the rest, and of the
    # guide's first `depth`, `ahead` beat the target
    before: Mapping[str, IntArray]

    @classmethod
    def of(cls, split: Split, cases: IntArray, pools: Pools, before: Mapping[str, IntArray]) -> Block:
        """Put these cases of a split in the order of users and targets; ``before``: what each case of it brings along."""
        users, items = (np.asarray(each, dtype=np.int64)[cases] for each in (split.users, split.items))
        if not (np.diff(users) > 0).all():  # the common case, one target each in order of users, needs no sorting
            sorting = np.lexsort((items, users))
            cases, users, items = cases[sorting], users[sorting], items[sorting]
        starts = np.flatnonzero(np.diff(users, prepend=-1))
        unique = users[starts]
        indptr = pools.listed.indptr.astype(np.int64, copy=False)
        return cls(
            0, len(unique), unique, np.append(starts, len(users)).astype(np.int64), items.astype(np.int32),
            indptr[unique], indptr[unique + 1], pools.listed.indices.astype(np.int32, copy=False), pools.explicit, cases,
            {name: values[cases] for name, values in before.items()},
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        # `listed` is shared by all blocks here; what travels to another process is this block's own part
        sizes = self.hi - self.lo
        own = (self.listed[a:b] for a, b in zip(self.lo, self.hi, strict=True))
        hi = np.cumsum(sizes)
        listed = np.concatenate([np.zeros(0, dtype=self.listed.dtype), *own])
        return {**self.__dict__, "cases": self.cases[:0], "listed": listed, "lo": hi - sizes, "hi": hi}

    def so_far(self, name: str, otherwise: int = 0) -> IntArray:
        """Return a copy of what each case brings along, or ``otherwise`` for all of them where they bring nothing."""
        values = self.before.get(name)
        return np.full(len(self.targets), otherwise, dtype=np.int64) if values is None else values.copy()

    def part(self, first: int, last: int) -> Block:
        """Users first..last−1 of the block."""
        a, b = self.ptr[first], self.ptr[last]
        return replace(
            self, first=self.first + first, last=self.first + last, users=self.users[first:last],
            ptr=self.ptr[first : last + 1] - a, lo=self.lo[first:last], hi=self.hi[first:last], targets=self.targets[a:b],
            cases=self.cases[a:b], before={name: values[a:b] for name, values in self.before.items()},
        )  # fmt: skip


def unfinished(done: BoolArray, size: int, tile: int) -> Iterator[tuple[int, int]]:
    """Runs of at most ``size`` users that are not done, cut at multiples of ``tile``."""
    size = -(-size // tile) * tile
    edges = np.flatnonzero(np.diff(np.concatenate(([True], done, [True])).astype(np.int8)))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        for start in range(int(first), int(last), size):
            yield start, min(start + size, int(last))
