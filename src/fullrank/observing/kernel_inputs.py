"""A block and a model as the compiled kernels see them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fullrank._checks import TIES
from fullrank._types import Array, BoolArray, IntArray
from fullrank.models.scorer import Factors, ItemItem, Rows, Table, floats
from fullrank.observing.blocks import Block, Result
from fullrank.observing.threads import share_out
from fullrank.ranks.design import Course

if TYPE_CHECKING:
    from fullrank.observing.task import Task


class _Kernels:
    """The compiled loops of :mod:`fullrank.observing.kernels`, which bring numba: loaded when one is first asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("fullrank.observing.kernels"), name)


kernels = k = _Kernels()
#: What can be wrong with a user.
NAN_SCORE, NO_CANDIDATE = 1, 2
#: Items scored at a time: small enough for the nearest cache; counts up to it are exact in float32.
CHUNK = 1024


class Cases(NamedTuple):
    """Test cases grouped by user: the targets of user g are ``targets[ptr[g]:ptr[g+1]]``, sorted.

    ``listed[lo[g]:hi[g]]`` (sorted) are the items user g does *not* compare with (``explicit`` false) or the only ones
    it does (``explicit`` true). A user's own targets are never negatives, listed or not.
    """

    users: Array
    rows: Array  # where the model keeps each user: its id, or its place in a batch of rows
    ptr: Array
    targets: Array
    lo: Array
    hi: Array
    listed: Array
    explicit: bool
    n_items: int
    longest: int  # room for the listed items and targets of any one user
    most: int  # targets of any one user
    course: Array  # the row of `Rules.stages` that each case goes through
    low: int = 0  # of the items drawn or listed, only low..high−1 are scored and counted: a range of a large catalogue
    high: int = 1 << 31


class Rules(NamedTuple):
    """How to draw and compare: the courses that cases go through, the tie rule, and the two seeds."""

    stages: Array  # a row per course: negatives after each stage (0: all), the last one repeated
    stop_at: Array  # of each course
    replace: Array  # of each course
    ties: int
    tie_seed: Any
    draw_seed: Any


class Scratch(NamedTuple):
    """What one thread works on; after a user ``deck`` is in order again, and ``row`` and ``marks`` are as they came."""

    row: Array  # a score per item, for models that make rows
    places: Array  # items listed, or left out, of one user
    marks: Array  # a bit per item
    deck: Array  # 0, 1, 2, …: one card per item
    moved: Array
    ids: Array
    scores: Array
    target_scores: Array


class FactorModel(NamedTuple):
    """score = users[u] · items[i] (+ bias[i] when ``bias`` is not empty)."""

    users: Array
    items: Array
    bias: Array


class SparseModel(NamedTuple):
    """score = Σ_j history[u, j] · similarity[j, i], both CSR, and ``empty`` (0 or −∞) where no j has the item.

    Stored scores are that too: the history of a user is then the user's own row.
    """

    history_ptr: Array
    history: Array
    history_weight: Array
    ptr: Array
    items: Array
    value: Array
    empty: float


class DenseItemModel(NamedTuple):
    """score = Σ_j history[u, j] · matrix[j, i], history CSR and the matrix dense."""

    history_ptr: Array
    history: Array
    history_weight: Array
    matrix: Array


class RowModel(NamedTuple):
    """score = matrix[u, i]."""

    matrix: Array


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
    def of(cls, task: Task, block: Block, rows: Array | None = None) -> State:
        """Return a block that nothing has been done with, but for what it brings along; ``rows``: as in :class:`Cases`."""
        n = len(block.targets)
        rules = rules_of(task.courses, task.ties, task.seed)
        users = fixed(block.users)
        course = np.zeros(n, dtype=np.int64)
        cases = Cases(
            users, users if rows is None else fixed(rows), fixed(block.ptr), fixed(block.targets), fixed(block.lo),
            fixed(block.hi), fixed(block.listed), block.explicit, task.n_items,
            int((block.hi - block.lo + np.diff(block.ptr)).max()), int(np.diff(block.ptr).max()), fixed(course),
        )  # fmt: skip
        if len(task.courses) > 1:
            k.choose_courses(cases, rules, np.cumsum([each.share for each in task.courses]), course)
        compared, hits, order = block.so_far("compared"), block.so_far("hits"), block.so_far("order", 1)
        status = np.zeros(len(block.users), dtype=np.int8)
        return cls(cases, rules, compared, hits, np.zeros(n, dtype=np.int64), order, status)

    @cached_property
    def group(self) -> IntArray:
        """Return the user, as a place in the block, of every case."""
        return np.repeat(np.arange(len(self.cases.users)), np.diff(self.cases.ptr))

    def result(self, block: Block, scored: int) -> Result:
        """Return what was seen of the block, once ``scored`` scores were asked for; where all were compared, the rank."""
        known = ~self.rules.replace[self.cases.course] & (self.compared == self.pool - 1)
        none = np.zeros_like(self.hits)
        ahead, rest = np.where(known, self.hits, 0), np.where(known, 0, self.pool - 1)
        sample = (np.where(known, 0, each) for each in (self.compared, self.hits))
        return Result(block.first, block.last, (ahead, rest, *sample, self.pool, self.order, none), scored)

    def draws(self, scratch: Any, rows: IntArray, begin: IntArray, end: IntArray, width: int) -> IntArray:
        """Return the target and draws begin..end−1, at most ``width``, of the cases ``rows``, and find their pools."""
        out = np.empty((len(rows), width + 1), dtype=np.int64)
        group = self.group[rows]
        k.fill_draws(self.cases, self.rules, rows, group, begin, end, scratch, self.pool, out, self.status)
        return out

    def find_pools(self, task: Task) -> Any:
        """Find out how many candidates every case has, before anything is drawn; return what draws are made with."""
        scratch, none = scratch_of(task, self, np.zeros(0)), np.zeros_like(self.pool)
        self.draws(scratch, np.arange(len(none)), none, none, 0)
        self.complain(task.name)
        return scratch

    def order_targets(self, scores: Array) -> None:
        """Find the place, from 1, of each target among its user's, from their scores.

        Tied targets are ordered by their keys under every tie rule: places must be 1..T, and which of two relevant items
        takes which place changes no metric.
        """
        if len(self.cases.targets) > len(self.cases.users):  # else there is nothing to order, nor to compile for it
            keys = np.empty(len(scores), dtype=np.uint64)
            k.target_keys(self.cases, self.rules, keys)
            by = np.lexsort((~keys, -scores, self.group))
            self.order[by] = 1 + np.arange(len(by)) - self.cases.ptr[self.group[by]]

    def beaten_by(self, rows: IntArray, sizes: IntArray, items: IntArray, scores: Array) -> BoolArray:
        """Which of ``sizes`` items of each case of ``rows``, those after the target in its row, beat the target."""
        out = np.zeros((len(rows), items.shape[1] - 1), dtype=bool)
        group = self.group[rows]
        k.mark_beaten(self.cases, self.rules, rows, group, sizes, fixed(items), fixed(scores), out, self.status)
        return out

    def next_goals(self) -> IntArray:
        """Return how many negatives each case goes on to; as many as it has where it rests."""
        out = np.empty_like(self.compared)
        k.next_goals(self.cases, self.rules, self.compared, self.hits, self.pool, out)
        return out

    def complain(self, name: str) -> None:
        """Raise an error about the first user with whom something is wrong, if there is one."""
        wrong = np.flatnonzero(self.status)
        if not len(wrong):
            return
        user = int(self.cases.users[wrong[0]])
        more = f" (and {len(wrong) - 1} more in this block)" if len(wrong) > 1 else ""
        if self.status[wrong[0]] == NO_CANDIDATE:
            raise ValueError(
                f"user {user}{more} has no candidate left beside the target: leave such users out of the split."
            )
        raise ValueError(f"model `{name}` gave a score that is not a number (NaN) for user {user}{more}.")


def rules_of(courses: tuple[Course, ...], ties: str, seed: int) -> Any:
    """Return how to draw and compare, as the kernels take it."""
    tie_seed, draw_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    most = max(len(course.stages) for course in courses)
    stages = [[*course.stages, *course.stages[-1:] * (most - len(course.stages))] for course in courses]
    return Rules(
        fixed(np.array(stages, dtype=np.int64)),
        fixed(np.array([course.stop_at for course in courses], dtype=np.int64)),
        fixed(np.array([course.replace for course in courses], dtype=bool)),
        TIES.index(ties), tie_seed, draw_seed,
    )  # fmt: skip


def fixed(array: Array) -> Array:
    """Return a read-only view: memory-mapped and ordinary arrays are then the same type to the compiler."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _stored(scorer: Any) -> Array | None:
    """Return the matrix of a model whose scores are all stored, if it is one."""
    return getattr(scorer.rows, "matrix", None) if isinstance(scorer, Rows) else None


def is_compiled(scorer: Any) -> bool:
    """Return whether a model's structure is known, so that compiled loops score it."""
    return isinstance(scorer, Factors | ItemItem | Table) or _stored(scorer) is not None


def structure(task: Task) -> tuple[Any, Array]:
    """Return the model as the kernels take it, and an empty working row."""
    scorer, stored = task.scorer, _stored(task.scorer)
    if stored is not None:
        return RowModel(fixed(stored)), np.zeros(0, dtype=stored.dtype)
    if isinstance(scorer, Factors):
        kind = scorer.items.dtype
        bias = np.zeros(0, dtype=kind) if scorer.bias is None else scorer.bias
        return FactorModel(fixed(scorer.users), fixed(scorer.items), fixed(bias)), np.zeros(0, dtype=kind)
    if isinstance(scorer, Table):
        n, kind = scorer.scores.shape[0], scorer.scores.dtype
        own = fixed(np.arange(n + 1)), fixed(np.arange(n, dtype=np.int32)), fixed(np.ones(n, dtype=kind))
        model = SparseModel(*own, *_csr_parts(scorer.scores), -np.inf)
        return model, np.full(scorer.n_items, -np.inf, dtype=kind)
    history, kind = _csr_parts(scorer.history), scorer.similarity.dtype
    if sp.issparse(scorer.similarity):
        model = SparseModel(*history, *_csr_parts(scorer.similarity), 0.0)
        return model, np.zeros(max(task.n_items, scorer.n_items), dtype=kind)
    return DenseItemModel(*history, fixed(scorer.similarity)), np.zeros(0, dtype=kind)


def _csr_parts(matrix: Any) -> tuple[Array, Array, Array]:
    ptr, index = matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False)
    return fixed(ptr), fixed(index), fixed(matrix.data)


def scratch_of(task: Task, state: State, row: Array) -> Any:
    """Return what one thread works on for this task.

    Pages that are never touched cost nothing, so what one design does not need is harmless.
    """
    n, cases = task.n_items, state.cases
    drawn_once = not (task.design.exhaustive or all(course.replace for course in task.courses))
    cards = n if drawn_once else 0
    return Scratch(
        row=row.copy(),
        places=np.empty(max(cases.longest, n // 4 + 1), dtype=np.int32),
        marks=np.zeros(n // 64 + 1, dtype=np.uint64),
        deck=np.arange(cards, dtype=np.int32),
        moved=np.empty(cards, dtype=np.int32),
        ids=np.empty(max(CHUNK, cases.most), dtype=np.int64),
        scores=np.empty(CHUNK, dtype=row.dtype),
        target_scores=np.empty(cases.most, dtype=row.dtype),
    )


def run_kernel(task: Task, state: State, given: tuple[Any, Array] | None = None, scores: Array | None = None) -> Array:
    """Observe a state's cases by the compiled loop of its design, in threads; return the scores of the targets.

    ``given``: a model as :func:`structure` returns it, unless it is the task's own. ``scores``: those of the targets, where
    they are known.
    """
    model, row = given or structure(task)
    known = scores is not None
    # a copy of what is known: kernels are compiled for an array that may be written to, and one from another node may not
    own = np.empty(len(state.hits), dtype=row.dtype) if scores is None else np.array(scores)
    seen = (state.compared, state.hits, state.pool, state.status)
    kernel = k.exhaust if task.design.exhaustive else k.sample

    def run(spans: Iterator[tuple[int, int]]) -> None:
        scratch = scratch_of(task, state, row)
        for first, last in spans:
            kernel(model, state.cases, state.rules, first, last, scratch, known, own, *seen)

    share_out(len(state.cases.users), run, least=1 if task.design.exhaustive else 64)
    if not known and not state.status.any():
        state.order_targets(own)
    return own


def scores_of(task: Task, users: IntArray, items: IntArray) -> Array:
    """Return the scores of some items of each user, by the same arithmetic as those of samples."""
    users, items = np.ascontiguousarray(users), np.ascontiguousarray(items)
    if not is_compiled(task.scorer):
        return floats(task.scorer.score(users, items))
    model, work = structure(task)
    out = np.empty(items.shape, dtype=work.dtype)
    k.score_matrix(model, users, items, work.copy(), out)
    return out


def whole_rows(task: Task, users: IntArray, called: str) -> Array:
    """Return the scores of all items of some users; ``called`` names the model in messages."""
    scorer, n_items, n = task.scorer, task.n_items, len(users)
    if is_compiled(scorer):
        model, work = structure(task)
        scores = np.empty((n, n_items), dtype=work.dtype)
        k.score_rows(model, users, work.copy(), scores)
        return scores
    if isinstance(scorer, Rows):
        scores = floats(scorer.rows(users))
    else:
        scores = floats(scorer.score(users, np.tile(np.arange(n_items, dtype=np.int64), (n, 1))))
    if scores.ndim != 2 or scores.shape[0] != n or scores.shape[1] < n_items:
        raise ValueError(
            f"{called} must give a score for each of {n_items} items, got rows of shape {scores.shape} for {n} users."
        )
    return fixed(scores)
