"""What is done with a block: the one way of scoring that a model and a design call for."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullrank._types import Array
from fullrank.models.scorer import Factors, ItemItem, Rows, Table
from fullrank.observing.blocks import Block, Grouped, Result
from fullrank.observing.guides import TILE, Guide, observe_guided
from fullrank.observing.kernel_inputs import State, fixed, floats, scratch_of, structure
from fullrank.observing.products import count_products
from fullrank.observing.threads import Team
from fullrank.ranks.design import Course, Design, Exhaustive

__all__ = ["SCORES_PER_CALL", "Task"]


#: Scores asked at once of a model that is only known by its function: the shape is fixed, so batches cannot change a digit.
SCORES_PER_CALL, ROWS_PER_CALL = 1 << 18, 1024


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
    limit: int = 0  # a case that so many beat may be left there, unless it has no more than `few` negatives; 0: never
    few: int = 0
    scores_per_call: int = SCORES_PER_CALL
    guide: Guide | None = None  # what is compared one by one, before the rest is sampled

    @classmethod
    def of(cls, scorer: Any, name: str, design: Design, pool: int, n_items: int, ties: str, seed: int) -> Task:
        """The task for pools of at most so many candidates."""
        design = design.resolve(pool)
        courses = design.courses(pool)
        limit = few = 0
        if design.beyond is not None:
            limit, few = int(design.exact_to), max(max(course.stages) for course in courses)
        return cls(scorer, name, design, courses, n_items, ties, seed, limit, few, SCORES_PER_CALL)

    @property
    def exhaustive(self) -> bool:
        """Whether every candidate of every case is compared."""
        return self.design.exhaustive

    @property
    def first_stage(self) -> int:
        """Negatives of the first stage, of the course that begins with most."""
        return max(course.stages[0] or self.n_items for course in self.courses)

    def most_scores(self, users: int, cases: int) -> int:
        """The most scores that the model can be asked for, for so many users and cases."""
        if self.asks_rows:
            return users * self.n_items
        first = 0 if self.guide is None else self.design.compares
        return cases * first + cases * max(course.stages[-1] or self.n_items for course in self.courses)

    @property
    def asks_rows(self) -> bool:
        """Whether a model that is not compiled is asked for the scores of all items."""
        return not self.compiled and (self.exhaustive or bool(self.limit) or isinstance(self.scorer, Rows))

    @functools.cached_property
    def parts(self) -> tuple[Task, Task] | None:
        """Where ranks are exact to a limit: the sample of every case, and those ranks; their results are :meth:`joined`."""
        if self.design.beyond is None:
            return None
        ranks = replace(self, design=Exhaustive(), courses=Exhaustive().courses(self.n_items))
        return replace(self, design=self.design.beyond), ranks

    def joined(self, sample: Result, ranks: Result) -> Result:
        """The rank where it is within the limit, else what the sample says."""
        above, pool = ranks.outcome[0], sample.outcome[4]
        known = (above < self.limit) | (pool - 1 <= self.few)
        exact = (above, np.zeros_like(above), np.zeros_like(above), np.zeros_like(above))
        outcome = tuple(np.where(known, a, b) for a, b in zip(exact, sample.outcome[:4], strict=True))
        scored = ranks.scored + (0 if self.compiled else sample.scored)
        return Result(sample.first, sample.last, (*outcome, *sample.outcome[4:]), scored)

    @property
    def compiled(self) -> bool:
        """Whether the model's structure is known, so that compiled loops score it."""
        return is_compiled(self.scorer)

    @property
    def tile(self) -> int:
        """Users asked of the model together. Fixed by model, design and catalogue: never by the batch, nor by part."""
        if self.guide is not None:
            return max(1, min(TILE, self.scores_per_call // (1 + self.first_stage)))
        if self.compiled:
            return 1
        if self.asks_rows:
            scores = self.scores_per_call if self.scores_per_call < SCORES_PER_CALL else 1 << 22
            return max(1, min(ROWS_PER_CALL, scores // self.n_items))
        return max(1, min(ROWS_PER_CALL, self.scores_per_call // (1 + self.first_stage)))

    def with_calls_of(self, scores: float) -> Task:
        """The same task with no more scores per call of the model, where that is possible."""
        return replace(self, scores_per_call=int(np.clip(scores, 1, SCORES_PER_CALL)))

    def block_users(self, cases: Grouped, batch: int | None) -> int:
        """Users per block: enough work to be worth a call, little enough to show progress and lose nothing."""
        if batch is not None:
            return int(batch)
        if not self.compiled:
            return self.tile
        each = (self.n_items // 16 if self.exhaustive else self.first_stage) * len(cases.targets) / len(cases.users)
        return int(np.clip((1 << 23) / max(each, 1), 1024, 1 << 16))

    def __call__(self, block: Block) -> Result:
        """Observe the block's cases."""
        try:
            return self._observe(block)
        except Exception as error:  # a model's own error keeps its type and its words
            error.add_note(f"(model `{self.name}`, the block of users {block.users[0]} to {block.users[-1]})")
            raise

    def _observe(self, block: Block) -> Result:
        if self.guide is not None:
            return observe_guided(self, block)
        if self.parts is not None:
            sample, ranks = self.parts
            return self.joined(sample._observe(block), ranks._observe(block))
        state = State.of(self, block)
        before = int(state.compared.sum())
        scored = None
        if self.compiled:
            factors = isinstance(self.scorer, Factors) and self.scorer.users.shape[1] > 0
            products = self.exhaustive and factors and not block.explicit
            if not (products and count_products(self, state)):
                _by_structure(self, state)
        elif self.exhaustive or isinstance(self.scorer, Rows):
            _by_rows(self, state)
            scored = len(block.users) * self.n_items
        else:
            scored = _by_pairs(self, state)
        state.complain(self.name)
        return state.result(block, int(state.compared.sum()) - before if scored is None else scored)


def stored(scorer: Any) -> Array | None:
    """The matrix of a model whose scores are all stored, if it is one."""
    return getattr(scorer.rows, "matrix", None) if isinstance(scorer, Rows) else None


def is_compiled(scorer: Any) -> bool:
    """Whether a model's structure is known, so that compiled loops score it."""
    return isinstance(scorer, Factors | ItemItem | Table) or stored(scorer) is not None


def _run_kernel(task: Task, state: State, model: Any, row: Array) -> None:
    from fullrank.observing import kernels as k

    seen = (state.compared, state.hits, state.pool, state.order, state.status)
    kernel = k.exhaust if task.exhaustive else k.sample

    def run(spans: Iterator[tuple[int, int]]) -> None:
        scratch = scratch_of(task, state, row)
        for first, last in spans:
            kernel(model, state.cases, state.rules, first, last, scratch, *seen)

    Team().share(len(state.cases.users), run, least=1 if task.exhaustive else 64)


def _by_structure(task: Task, state: State) -> None:
    """Factors, item-item models and stored scores: compiled loops over gathered items or rows."""
    _run_kernel(task, state, *structure(task))


def _tiles(task: Task, n: int) -> Iterator[tuple[int, int]]:
    for first in range(0, n, task.tile):
        yield first, min(first + task.tile, n)


def _by_rows(task: Task, state: State) -> None:
    """Models that give whole rows, and any model when every candidate is compared."""
    from fullrank.observing import kernels as k

    catalogue = np.arange(task.n_items, dtype=np.int64)
    for first, last in _tiles(task, len(state.cases.users)):
        users = np.array(state.cases.users[first:last])
        if isinstance(task.scorer, Rows):
            scores = floats(task.scorer.rows(users))
            if scores.ndim != 2 or scores.shape[0] != len(users) or scores.shape[1] < task.n_items:
                raise ValueError(
                    f"model `{task.name}` returned rows of shape {scores.shape} for {len(users)} users; needed is one "
                    f"score for each of {task.n_items} items."
                )
        else:
            scores = floats(task.scorer.score(users, np.tile(catalogue, (len(users), 1))))
        part = _part(state, first, last)
        part = replace(part, cases=part.cases._replace(rows=fixed(np.arange(last - first))))
        _run_kernel(task, part, k.RowModel(fixed(scores)), np.zeros(0, dtype=scores.dtype))


def _part(state: State, first: int, last: int) -> State:
    """Users first..last−1 of a block; what is seen of them lands in the block."""
    cases = state.cases
    a, b = cases.ptr[first], cases.ptr[last]
    return State(
        cases._replace(
            users=cases.users[first:last], rows=cases.rows[first:last], ptr=fixed(cases.ptr[first : last + 1] - a),
            targets=cases.targets[a:b], lo=cases.lo[first:last], hi=cases.hi[first:last], course=cases.course[a:b],
        ),
        state.rules, state.compared[a:b], state.hits[a:b], state.pool[a:b], state.order[a:b], state.status[first:last],
    )  # fmt: skip


def _by_pairs(task: Task, state: State) -> int:
    """Models known by their function only: the target and its negatives, row by row, stage by stage."""
    scratch = scratch_of(task, state, np.zeros(0))
    tiles = _tiles(task, len(state.cases.users))
    return sum(_pairs_of_tile(task, _part(state, first, last), scratch) for first, last in tiles)


def _pairs_of_tile(task: Task, state: State, scratch: Any) -> int:
    """Observe a tile; return how many scores were asked for, the targets' own not counted."""
    from fullrank.observing import kernels as k

    cases, rules = state.cases, state.rules
    group = np.repeat(np.arange(len(cases.users)), np.diff(cases.ptr))
    new = state.compared == 0
    k.fill_draws(  # no draws yet: the size of each pool
        cases, rules, np.arange(len(group)), group, *(np.zeros(len(group), dtype=np.int64),) * 2, scratch,
        state.pool, np.empty((len(group), 1), dtype=np.int64), state.status,
    )  # fmt: skip
    if state.status.any():
        return 0
    scored = 0
    target_scores = np.full(len(group), np.nan)
    while True:
        goal = state.next_goals()
        rows = np.flatnonzero(state.compared < goal)
        if not len(rows):
            break
        while len(rows):
            left = (goal - state.compared)[rows]
            width = int(min(left.max(), max(task.scores_per_call // len(rows), min(k.CHUNK, task.scores_per_call))))
            items = np.empty((len(rows), width + 1), dtype=np.int64)
            sizes = np.minimum(left, width)
            begin = state.compared[rows]
            k.fill_draws(
                cases, rules, rows, group[rows], begin, begin + sizes, scratch, state.pool, items, state.status
            )
            scores = floats(task.scorer.score(np.array(cases.users[group[rows]]), items))
            k.count_batch(cases, rules, rows, group[rows], sizes, fixed(items), fixed(scores), state.hits, state.status)
            target_scores[rows] = scores[:, 0]
            scored += scores.size - len(rows)
            if state.status.any():
                return scored
            state.compared[rows] += sizes
            rows = rows[state.compared[rows] < goal[rows]]
    if len(cases.targets) == len(cases.users):  # one target each: nothing to order, nor to compile for it
        state.order[:] = 1
    elif new.all():  # a case taken up again has its order already
        k.order_targets(cases, rules, scratch, target_scores, state.order)
    return scored
