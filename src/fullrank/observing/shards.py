"""Catalogues larger than one machine: every range of items counts for itself, and the counts add.

A block of cases goes to all ranges twice or more. First each range scores those targets that it holds; then, the targets'
scores travelling with the cases, each range counts how many of its own items beat them; adaptive designs ask again, stage
by stage, for the cases that go on. Draws are of items of the whole catalogue, made anew in each range from the case alone,
and ties are decided by (user, item): so the sum is the unsharded count, to the last tie.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fullrank._types import Array, IntArray
from fullrank.models.scorer import Factors
from fullrank.observing.blocks import Block, Result
from fullrank.observing.kernel_inputs import NAN_SCORE, State, fixed, run_kernel, scores_of, structure
from fullrank.observing.task import Task

#: Blocks that are open at a time: enough that no range waits for another.
OPEN_BLOCKS = 8


@dataclass(frozen=True)
class Part:
    """What one range of items is asked about one block: its targets' scores, or how many of its items beat them."""

    block: Block
    shard: int
    scores: Any = None  # of the targets; None asks for them
    goal: Any = None  # up to which draw each case goes on

    @property
    def users(self) -> IntArray:
        """Return the block's users, for messages."""
        return self.block.users


@dataclass(frozen=True)
class ShardTask:
    """What is done with a part; a process keeps the range it opened last."""

    name: str  # of the model, for messages
    task: Task
    bounds: tuple[int, ...]
    _opened: dict[int, Task] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}

    def __call__(self, part: Part) -> tuple[int, Array]:
        """Return the first user of the block, and an array with one entry per case."""
        low, high = self.bounds[part.shard], self.bounds[part.shard + 1]
        if part.shard not in self._opened:
            self._opened.clear()
            cut = getattr(self.task.scorer, "for_items", None)
            self._opened[part.shard] = self.task if cut is None else replace(self.task, scorer=cut(low, high))
        task = self._opened[part.shard]
        state = State.of(task, part.block)
        model, row = structure(task)
        cases, rules = state.cases, state.rules
        if part.scores is None:
            here = np.flatnonzero((low <= cases.targets) & (cases.targets < high))
            users, targets = cases.users[state.group[here]], cases.targets[here, None].astype(np.int64)
            out = np.zeros(len(cases.targets), dtype=row.dtype)
            out[here] = scores_of(task, users, targets)[:, 0]
            return part.block.first, out
        if not task.design.exhaustive:  # a course of one stage for every goal
            goals, course = np.unique(2 * part.goal + rules.replace[cases.course], return_inverse=True)
            stages, none = fixed(goals[:, None] // 2), fixed(np.zeros_like(goals))
            rules = rules._replace(stages=stages, stop_at=none, replace=fixed(goals % 2 == 1))
            cases = cases._replace(course=fixed(course.ravel()))
            state.hits[:] = 0
        state = replace(state, cases=cases._replace(low=low, high=high), rules=rules)
        run_kernel(task, state, (model, row), part.scores)
        state.complain(self.name)
        return part.block.first, state.hits


def _questions(task: Task, block: Block) -> Generator[dict[str, Any], Array, Result]:
    """Yield what every range is asked about a block, one question after the other; the sum of the answers is sent back."""
    state = State.of(task, block)
    before = int(state.compared.sum())
    scores = yield {"block": block}  # a target is in one range, and 0 elsewhere
    state.find_pools(task)
    state.status[state.group[np.isnan(scores)]] = NAN_SCORE
    state.complain(task.name)
    if "order" not in block.before:  # a case taken up again has its order already
        state.order_targets(scores)
    if task.design.exhaustive:
        state.hits[:] = yield {"block": block, "scores": scores}
        state.compared[:] = state.pool - 1
    while not task.design.exhaustive and ((goal := state.next_goals()) > state.compared).any():
        asked = replace(block, before={**block.before, "compared": state.compared.copy()})
        state.hits[:] += yield {"block": asked, "scores": scores, "goal": goal}
        state.compared[:] = goal
    return state.result(block, int(state.compared.sum()) - before)


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
            yield task.parts[1].joined(result, ranks.pop(result.first))
        return
    shards = min(shards, task.n_items)
    bounds = tuple(int(x) for x in np.linspace(0, task.n_items, shards + 1).round())
    queue: deque[Part] = deque()
    opened: dict[int, tuple[Generator[dict[str, Any], Array, Result], list[Array]]] = {}
    source = iter(blocks)

    def feed() -> Iterator[Part | None]:
        more = True
        while more or opened:
            if not queue and more and len(opened) < OPEN_BLOCKS:
                block = next(source, None)
                more = block is not None
                if block is not None:
                    opened[block.first] = _questions(task, block), []
                    ask(next(opened[block.first][0]))
            if queue:
                yield queue.popleft()
            elif opened:
                yield None

    def ask(question: dict[str, Any]) -> None:
        queue.extend(Part(shard=shard, **question) for shard in range(shards))

    for first, values in run(ShardTask(task.name, task, bounds), feed()):
        questions, answers = opened[first]
        answers.append(values)
        if len(answers) < shards:
            continue
        total = sum(answers[1:], start=answers[0])
        answers.clear()
        try:
            ask(questions.send(total))
        except StopIteration as finished:
            del opened[first]
            yield finished.value
