"""What is done with a block: the one way of scoring that a model and a design call for."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullrank.models.scorer import Factors, Rows
from fullrank.observing.blocks import Block, Result
from fullrank.observing.guides import TILE, Guide, observe_behind
from fullrank.observing.kernel_inputs import CHUNK, RowModel, State, is_compiled, run_kernel, scores_of, whole_rows
from fullrank.observing.products import count_products
from fullrank.ranks.design import Course, Design, Exhaustive

#: Scores asked at once of a model that is only known by its function: the shape is fixed, so batches cannot change a digit.
SCORES_PER_CALL, ROWS_PER_CALL = 1 << 18, 1024
#: Cases that are asked for in one call of a function want at least this share of what the one that wants most does.
LEAST_FILLED = 0.8


@dataclass(frozen=True, eq=False)
class Task:
    """What is done with a block; called as ``task(block)``, here or in another process."""

    scorer: Any
    name: str
    design: Design
    courses: tuple[Course, ...]
    n_items: int
    ties: str
    seed: int
    guide: Guide | None  # what is compared one by one, before the rest is sampled
    limit: int = 0  # a case that so many beat may be left there, unless it has no more than `few` negatives; 0: never
    few: int = 0
    scores_per_call: int = SCORES_PER_CALL

    @property
    def first_stage(self) -> int:
        """Negatives of the first stage, of the course that begins with most."""
        return max(course.stages[0] or self.n_items for course in self.courses)

    def most_scores(self, users: int, cases: int) -> int:
        """Return the most scores that the model can be asked for, for so many users and cases."""
        if self.asks_rows:
            return users * self.n_items
        first = 0 if self.guide is None else self.design.reach
        return cases * first + cases * max(course.stages[-1] or self.n_items for course in self.courses)

    @property
    def asks_rows(self) -> bool:
        """Return whether a model that is not compiled is asked for the scores of all items."""
        ranked = self.design.exhaustive or self.design.beyond is not None or self.limit > 0
        return not is_compiled(self.scorer) and (ranked or isinstance(self.scorer, Rows))

    @functools.cached_property
    def parts(self) -> tuple[Task, Task] | None:
        """Where ranks are exact to a limit: the sample of every case, and those ranks; their results are :meth:`joined`."""
        if self.design.beyond is None:
            return None
        few, full = max(max(course.stages) for course in self.courses), Exhaustive()
        sample = replace(self, design=self.design.beyond, limit=int(self.design.exact_to), few=few)
        return sample, replace(sample, design=full, courses=full.courses(self.n_items))

    def joined(self, sample: Result, ranks: Result) -> Result:
        """Return the rank where it is within the limit of the task that gave it, else what the sample says."""
        above, pool = ranks.outcome[0], sample.outcome[4]
        known = (above < self.limit) | (pool - 1 <= self.few)
        sampled = (np.where(known, 0, each) for each in sample.outcome[1:4])
        ahead = np.where(known, above, sample.outcome[0])
        scored = ranks.scored + (0 if is_compiled(self.scorer) else sample.scored)
        return Result(sample.first, sample.last, (ahead, *sampled, *sample.outcome[4:]), scored)

    @property
    def tile(self) -> int:
        """Users asked of the model together. Fixed by model, design and catalogue: never by the batch, nor by part."""
        if self.guide is None and is_compiled(self.scorer):
            return 1
        most, scores, each = ROWS_PER_CALL, self.scores_per_call, 1 + self.first_stage
        if self.guide is not None:
            most = TILE
        elif self.asks_rows:
            scores, each = scores if scores < SCORES_PER_CALL else 1 << 22, self.n_items
        return max(1, min(most, scores // each))

    def block_users(self, cases: Block, batch: int | None) -> int:
        """Users per block: enough work to be worth a call, little enough to show progress and lose nothing."""
        if batch is not None:
            return int(batch)
        if not is_compiled(self.scorer):
            return self.tile
        scores = self.n_items // 16 if self.design.exhaustive else self.first_stage
        each = scores * len(cases.targets) / len(cases.users)
        return int(np.clip((1 << 23) / max(each, 1), 1024, 1 << 16))

    def __call__(self, block: Block) -> Result:
        """Observe the block's cases."""
        try:
            return self._observe(block)
        except Exception as error:  # a model's own error keeps its type and its words
            error.add_note(f"(model `{self.name}`, the block of users {block.users[0]} to {block.users[-1]})")
            raise

    def _observe(self, block: Block) -> Result:
        if self.guide is None and self.parts is not None:
            sample, ranks = self.parts
            return ranks.joined(sample._observe(block), ranks._observe(block))
        if self.guide is not None or not is_compiled(self.scorer):
            ask = _by_rows if self.design.exhaustive or isinstance(self.scorer, Rows) else _by_pairs
            ask = ask if self.guide is None else observe_behind
            n, tile = len(block.users), self.tile
            return Result.joined([ask(self, block.part(a, min(a + tile, n))) for a in range(0, n, tile)])
        state = State.of(self, block)
        before = int(state.compared.sum())
        factors = isinstance(self.scorer, Factors) and self.scorer.users.shape[1] > 0
        products = self.design.exhaustive and factors and not block.explicit
        if not (products and count_products(self, state)):
            run_kernel(self, state)
        state.complain(self.name)
        return state.result(block, int(state.compared.sum()) - before)


def _by_rows(task: Task, block: Block) -> Result:
    """Observe a tile of a model that gives whole rows, or of any model when every candidate is compared."""
    users = np.array(block.users)
    scores = whole_rows(task, users, f"model `{task.name}`")
    state = State.of(task, block, rows=np.arange(len(users)))
    run_kernel(task, state, (RowModel(scores), np.zeros(0, dtype=scores.dtype)))
    state.complain(task.name)
    return state.result(block, len(users) * task.n_items)


def _by_pairs(task: Task, block: Block) -> Result:
    """Observe a tile of a model that is known by its function only: the target and its negatives, stage by stage."""
    state, scored = State.of(task, block), 0
    cases, group = state.cases, state.group
    scratch = state.find_pools(task)
    target_scores = np.full(len(group), np.nan)
    while len(rows := np.flatnonzero(state.compared < (goal := state.next_goals()))):
        while len(rows):
            left = (goal - state.compared)[rows]
            # all rows of a call are as long as its longest, and are asked for: those that are much shorter wait
            long = left >= LEAST_FILLED * left.max()
            now, left = rows[long], left[long]
            width = int(min(left.max(), max(task.scores_per_call // len(now), min(CHUNK, task.scores_per_call))))
            sizes, begin = np.minimum(left, width), state.compared[now]
            items = state.draws(scratch, now, begin, begin + sizes, width)
            scores = scores_of(task, cases.users[group[now]], items)
            state.hits[now] += state.beaten_by(now, sizes, items, scores).sum(1)
            state.complain(task.name)
            target_scores[now] = scores[:, 0]
            scored += scores.size - len(now)
            state.compared[now] += sizes
            rows = rows[state.compared[rows] < goal[rows]]
    if "order" not in block.before:  # a case taken up again has its order already
        state.order_targets(target_scores)
    return state.result(block, scored)
