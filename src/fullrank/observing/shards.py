"""Catalogues larger than one machine: every range of items counts for itself, and the counts add.

A block of cases goes to all ranges twice or more. First each range scores those targets that it holds; then, the targets'
scores travelling with the cases, each range counts how many of its own items beat them; adaptive designs ask again, stage
by stage, for the cases that go on. Draws are of items of the whole catalogue, made anew in each range from the case alone,
and ties are decided by (user, item): so the sum is the unsharded count, to the last tie.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fullrank._types import Array, IntArray
from fullrank.models.scorer import Factors
from fullrank.observing.blocks import Block, Result
from fullrank.observing.kernel_inputs import State, scratch_of, structure
from fullrank.observing.task import Task
from fullrank.observing.threads import Team

__all__ = ["Part", "ShardTask", "spread"]


#: Blocks that are open at a time: enough that no range waits for another.
OPEN_BLOCKS = 8
#: Cases whose draws are listed at a time.
CASES_AT_ONCE = 512


@dataclass(frozen=True)
class Part:
    """What one range of items is asked about one block: its targets' scores, or how many of its items beat them."""

    block: Block
    shard: int
    scores: Any = None  # of the targets; None asks for them
    rows: Any = None  # cases that go on
    goal: Any = None  # up to which draw

    @property
    def users(self) -> IntArray:
        """The block's users, for messages."""
        return self.block.users


@dataclass(frozen=True)
class ShardTask:
    """What is done with a part; a process keeps the range it opened last."""

    task: Task
    bounds: tuple[int, ...]
    _opened: dict[int, Task] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.task.name

    def __getstate__(self) -> dict[str, Any]:
        return {"task": self.task, "bounds": self.bounds, "_opened": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _range(self, shard: int) -> tuple[Task, int, int]:
        low, high = self.bounds[shard], self.bounds[shard + 1]
        if shard not in self._opened:
            self._opened.clear()
            cut = getattr(self.task.scorer, "for_items", None)
            self._opened[shard] = self.task if cut is None else replace(self.task, scorer=cut(low, high))
        return self._opened[shard], low, high

    def __call__(self, part: Part) -> tuple[int, Array]:
        """(first user of the block, an array with one entry per case, or per case that goes on)."""
        from fullrank.observing import shard_kernels as k

        task, low, high = self._range(part.shard)
        state = State.of(task, part.block)
        model, row = structure(task)
        if part.scores is None:
            out = np.zeros(len(state.hits), dtype=row.dtype)
            k.target_scores(model, state.cases, scratch_of(task, state, row), low, high, out)
            return part.block.first, out
        hits = np.zeros(len(state.hits), dtype=np.int64)

        def everything(spans: Iterator[tuple[int, int]]) -> None:
            scratch = scratch_of(task, state, row)
            for first, last in spans:
                k.exhaust_range(
                    model, state.cases, state.rules, first, last, scratch, low, high, part.scores, hits, state.status
                )

        def drawn(spans: Iterator[tuple[int, int]]) -> None:
            scratch = scratch_of(task, state, row)
            for first, last in spans:
                _count_drawn(
                    state, model, scratch, low, high, part.scores, part.rows[first:last], part.goal[first:last], hits
                )

        if task.exhaustive:
            Team().share(len(state.cases.users), everything, least=1)
        else:
            Team().share(len(part.rows), drawn, step=CASES_AT_ONCE)
        state.complain(self.name)
        return part.block.first, hits if part.rows is None else hits[part.rows]


def _count_drawn(
    state: State,
    model: Any,
    scratch: Any,
    low: int,
    high: int,
    scores: Any,
    rows: IntArray,
    goal: IntArray,
    hits: IntArray,
) -> None:
    from fullrank.observing import kernels as k
    from fullrank.observing import shard_kernels

    group = np.repeat(np.arange(len(state.cases.users)), np.diff(state.cases.ptr))
    begin = state.compared[rows].copy()
    pool = np.zeros(len(group), dtype=np.int64)
    while len(rows):
        sizes = np.minimum(goal - begin, k.CHUNK)
        items = np.empty((len(rows), int(sizes.max()) + 1), dtype=np.int64)
        k.fill_draws(
            state.cases, state.rules, rows, group[rows], begin, begin + sizes, scratch, pool, items, state.status
        )
        shard_kernels.count_in_range(
            model, state.cases, state.rules, rows, group[rows], sizes, items, low, high, scores, scratch, hits,
            state.status,
        )  # fmt: skip
        begin += sizes
        left = begin < goal
        rows, goal, begin = rows[left], goal[left], begin[left]


# ------------------------------------------------------------------------------------------------------------- the sums


class _Open:
    """A block on its way: what the ranges have counted so far."""

    def __init__(self, task: Task, block: Block, shards: int) -> None:
        self.task, self.block, self.shards = task, block, shards
        self.state = State.of(task, block)
        self.group = np.repeat(np.arange(len(block.users)), np.diff(block.ptr))
        self.new = self.state.compared == 0
        self.scores: Any = None
        self.waiting = shards
        self.sum: Any = None
        self.rows = self.goal = np.zeros(0, dtype=np.int64)

    def parts(self) -> list[Part]:
        """Ask every range the same question."""
        if self.scores is None:
            return [Part(self.block, shard) for shard in range(self.shards)]
        asked = self.block if self.task.exhaustive else _so_far(self.block, self.state)
        rows, goal = (None, None) if self.task.exhaustive else (self.rows, self.goal)
        return [Part(asked, shard, self.scores, rows, goal) for shard in range(self.shards)]

    def add(self, values: Array) -> bool:
        """One range's answer; true when the last one is in."""
        self.sum = values if self.sum is None else self.sum + values  # a target is in one range, and 0 elsewhere
        self.waiting -= 1
        return self.waiting == 0

    def go_on(self) -> bool:
        """Take the sum in; false when the block is finished."""
        total, self.sum, self.waiting = self.sum, None, self.shards
        state, task = self.state, self.task
        if self.scores is None:
            self.scores = total
            self._prepare()
            if task.exhaustive:
                return True
        elif task.exhaustive:
            state.hits[:] = total
            state.compared[:] = state.pool - 1
            return False
        else:
            state.hits[self.rows] += total
            state.compared[self.rows] = self.goal
        return self._next_stage()

    def _prepare(self) -> None:
        from fullrank.observing import kernels as k

        state, cases, rules = self.state, self.state.cases, self.state.rules
        scratch = scratch_of(self.task, state, np.zeros(0, dtype=self.scores.dtype))
        n = len(self.group)
        nothing = (np.zeros(n, dtype=np.int64),) * 2
        k.fill_draws(  # no draws: the size of each pool
            cases, rules, np.arange(n), self.group, *nothing, scratch, state.pool,
            np.empty((n, 1), dtype=np.int64), state.status,
        )  # fmt: skip
        if np.isnan(self.scores).any():
            state.status[self.group[np.isnan(self.scores)]] = k.NAN_SCORE
        state.complain(self.task.name)
        if self.new.all():  # a case taken up again has its order already
            k.order_targets(cases, rules, scratch, self.scores, state.order)

    def _next_stage(self) -> bool:
        """The cases that go on; false if none does."""
        goal = self.state.next_goals()
        self.rows = np.flatnonzero(self.state.compared < goal)
        self.goal = goal[self.rows]
        return bool(len(self.rows))

    def result(self) -> Result:
        before = 0 if self.block.compared is None else int(self.block.compared.sum())
        return self.state.result(self.block, int(self.state.compared.sum()) - before)


def _so_far(block: Block, state: State) -> Block:
    return replace(block, compared=state.compared.copy(), hits=state.hits.copy(), order=state.order.copy())


def spread(
    run: Callable[[Any, Iterable[Any]], Iterable[Any]], task: Any, blocks: Iterable[Block], shards: int
) -> Iterator[Result]:
    """``run(task, blocks)`` with the items cut into ``shards`` ranges; ``run`` must allow None for "nothing just now"."""
    if not isinstance(task, Task) or not isinstance(task.scorer, Factors):
        name = getattr(task, "name", "function")
        raise ValueError(f"`item_shards` is for models of user and item factors; model `{name}` is none: leave it out.")
    if task.parts is not None:
        blocks = list(blocks)
        ranks = {result.first: result for result in spread(run, task.parts[1], blocks, shards)}
        for result in spread(run, task.parts[0], blocks, shards):
            yield task.joined(result, ranks.pop(result.first))
        return
    shards = min(shards, task.n_items)
    bounds = tuple(int(x) for x in np.linspace(0, task.n_items, shards + 1).round())
    queue: deque[Part] = deque()
    opened: dict[int, _Open] = {}
    source = iter(blocks)

    def feed() -> Iterator[Part | None]:
        more = True
        while True:
            if not queue and more and len(opened) < OPEN_BLOCKS:
                block = next(source, None)
                if block is None:
                    more = False
                else:
                    opened[block.first] = _Open(task, block, shards)
                    queue.extend(opened[block.first].parts())
            if queue:
                yield queue.popleft()
            elif opened:
                yield None
            elif not more:
                return

    for first, values in run(ShardTask(task, bounds), feed()):
        block = opened[first]
        if not block.add(values):
            continue
        if block.go_on():
            queue.extend(block.parts())
        else:
            del opened[first]
            yield block.result()
