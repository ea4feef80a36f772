"""A block and a model as the compiled kernels see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from fullrank._types import Array, IntArray
from fullrank.models.scorer import Factors, Table
from fullrank.observing.blocks import Block, Result, outcome_of
from fullrank.ranks.design import Course

if TYPE_CHECKING:
    from fullrank.observing.task import Task

__all__ = ["State", "fixed", "floats", "rules_of", "scratch_for", "scratch_of", "structure"]


@dataclass(frozen=True)
class State:
    """A block on its way: the kernels' view of the cases, the rules, and what was seen so far."""

    cases: Any
    rules: Any
    compared: IntArray
    hits: IntArray
    pool: IntArray
    order: IntArray
    status: Array

    @classmethod
    def of(cls, task: Task, block: Block) -> State:
        """A block that nothing has been done with, but for what it brings along."""
        from fullrank.observing import kernels as k

        n = len(block.targets)
        rules = rules_of(task.courses, task.ties, task.seed)
        users = fixed(block.users)
        course = np.zeros(n, dtype=np.int64)
        cases = k.Cases(
            users, users, fixed(block.ptr), fixed(block.targets), fixed(block.lo), fixed(block.hi),
            fixed(block.listed), block.explicit, task.n_items,
            int((block.hi - block.lo + np.diff(block.ptr)).max()), int(np.diff(block.ptr).max()),
            fixed(course),
        )  # fmt: skip
        if len(task.courses) > 1:
            k.choose_courses(cases, rules, np.cumsum([each.share for each in task.courses]), course)
        return cls(
            cases, rules,
            np.zeros(n, dtype=np.int64) if block.compared is None else block.compared.copy(),
            np.zeros(n, dtype=np.int64) if block.hits is None else block.hits.copy(),
            np.zeros(n, dtype=np.int64),
            np.ones(n, dtype=np.int64) if block.order is None else block.order.copy(),
            np.zeros(len(block.users), dtype=np.int8),
        )  # fmt: skip

    def result(self, block: Block, scored: int) -> Result:
        """What was seen of the block, once ``scored`` scores were asked for."""
        once = ~self.rules.replace[self.cases.course]
        known = once & (self.compared == self.pool - 1)
        return Result(
            block.first, block.last, outcome_of(known, self.compared, self.hits, self.pool, self.order), scored
        )

    def next_goals(self) -> IntArray:
        """How many negatives each case goes on to; as many as it has where it rests."""
        from fullrank.observing import kernels as k

        out = np.empty_like(self.compared)
        k.next_goals(self.cases, self.rules, self.compared, self.hits, self.pool, out)
        return out

    def complain(self, name: str) -> None:
        """One sentence about the first user with whom something is wrong."""
        from fullrank.observing import kernels as k

        wrong = np.flatnonzero(self.status)
        if not len(wrong):
            return
        user = int(self.cases.users[wrong[0]])
        more = f" (and {len(wrong) - 1} more in this block)" if len(wrong) > 1 else ""
        if self.status[wrong[0]] == k.NO_CANDIDATE:
            raise ValueError(
                f"user {user}{more} has no candidate left beside the target: leave such users out of the split."
            )
        raise ValueError(f"model `{name}` gave a score that is not a number (NaN) for user {user}{more}.")


def rules_of(courses: tuple[Course, ...], ties: str, seed: int) -> Any:
    """How to draw and compare, as the kernels take it."""
    from fullrank.observing import kernels as k

    rule = {"random": k.RANDOM, "optimistic": k.OPTIMISTIC, "pessimistic": k.PESSIMISTIC}[ties]
    tie_seed, draw_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    most = max(len(course.stages) for course in courses)
    stages = [[*course.stages, *course.stages[-1:] * (most - len(course.stages))] for course in courses]
    return k.Rules(
        fixed(np.array(stages, dtype=np.int64)),
        fixed(np.array([course.stop_at for course in courses], dtype=np.int64)),
        fixed(np.array([course.replace for course in courses], dtype=bool)),
        rule, tie_seed, draw_seed,
    )  # fmt: skip


def fixed(array: Array) -> Array:
    """A read-only view: memory-mapped and ordinary arrays are then the same type to the compiler."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def structure(task: Task) -> tuple[Any, Array]:
    """The model as the kernels take it, and an empty working row."""
    from fullrank.observing import kernels as k

    scorer, n = task.scorer, task.n_items
    from fullrank.observing.task import stored as stored_of

    stored = stored_of(scorer)
    if stored is not None:
        return k.RowModel(fixed(stored)), np.zeros(0, dtype=stored.dtype)
    if isinstance(scorer, Factors):
        kind = scorer.items.dtype
        bias = np.zeros(0, dtype=kind) if scorer.bias is None else scorer.bias
        return k.FactorModel(fixed(scorer.users), fixed(scorer.items), fixed(bias)), np.zeros(0, dtype=kind)
    if isinstance(scorer, Table):
        return k.SparseRowModel(*_csr_parts(scorer.scores)), np.full(scorer.n_items, -np.inf, dtype=scorer.scores.dtype)
    history = _csr_parts(scorer.history)
    if sp.issparse(scorer.similarity):
        model = k.SparseItemModel(*history, *_csr_parts(scorer.similarity))
        return model, np.zeros(max(n, scorer.n_items), dtype=scorer.similarity.dtype)
    return k.DenseItemModel(*history, fixed(scorer.similarity)), np.zeros(0, dtype=scorer.similarity.dtype)


def _csr_parts(matrix: Any) -> tuple[Array, Array, Array]:
    ptr, index = matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False)
    return fixed(ptr), fixed(index), fixed(matrix.data)


def scratch_of(task: Task, state: State, row: Array) -> Any:
    """What one thread works on for this task."""
    drawn_once = not (task.exhaustive or all(course.replace for course in task.courses))
    return scratch_for(state.cases, row, task.n_items, task.n_items if drawn_once else 0)


def scratch_for(cases: Any, row: Array, n: int = 0, cards: int = 0) -> Any:
    """What one thread works on, for ``n`` items of which ``cards`` are drawn without replacement.

    Pages that are never touched cost nothing, so what one design does not need is harmless.
    """
    from fullrank.observing import kernels as k

    return k.Scratch(
        row=row.copy(),
        places=np.empty(max(cases.longest, n // 4 + 1), dtype=np.int32),
        marks=np.zeros(n // 64 + 1, dtype=np.uint64),
        deck=np.arange(cards, dtype=np.int32),
        moved=np.empty(cards, dtype=np.int32),
        ids=np.empty(max(k.CHUNK, cases.most), dtype=np.int64),
        scores=np.empty(k.CHUNK, dtype=row.dtype),
        target_scores=np.empty(cases.most, dtype=row.dtype),
    )


def floats(scores: Any) -> Array:
    """What a model returned, as an array of floats."""
    from fullrank.models.scorer import to_numpy

    array = to_numpy(scores)
    if array.dtype not in (np.float32, np.float64):
        if array.dtype.kind not in "fiub":
            raise TypeError(f"scores must be numbers, got {array.dtype}.")
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    return np.ascontiguousarray(array)
