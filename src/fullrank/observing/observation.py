"""Observation: what was seen of one model on one split, case by case; it can be continued, cut short and resumed.

The outcome of a case is (ahead, rest, drawn, hits): of the candidates that were compared one by one, ``ahead`` beat the
target; ``drawn`` of the ``rest`` were sampled and ``hits`` of them beat it. Where nothing is left, ``rest`` is 0 and the
rank is known. Observing a case further replaces its outcome, and a longer sample begins with the shorter one.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import os
import re
import time
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._checks import TIES, check_choice, check_flag, check_whole, first_where
from fullrank._progress import bar
from fullrank._types import RNG, BoolArray, FloatArray, IntArray
from fullrank.data.split import Split, check_split
from fullrank.models.scorer import Rows, as_scorer, digest_of
from fullrank.observing.blocks import OUTCOME, Block, Result, unfinished
from fullrank.observing.budget import Budget
from fullrank.observing.checkpoint import Checkpoint
from fullrank.observing.guides import Guide, continues, guide_of
from fullrank.observing.inputs import check_sizes, pools_of, seed_of
from fullrank.observing.kernel_inputs import is_compiled
from fullrank.observing.task import SCORES_PER_CALL, Task
from fullrank.ranks.counts import NOTHING, RankCounts
from fullrank.ranks.design import ALL, Design, parse_design

#: Cases turned into counts at a time.
CASES_PER_PART = 1 << 18
#: The share of a budget that one call of a model may take, so that the budget is kept to within it.
SHARE_PER_CALL = 0.03


class Observation:
    """What was seen of a model's cases so far: :meth:`advance` observes them further, :meth:`counts` adds them up.

    The arrays ``begun``, ``ahead``, ``rest``, ``drawn``, ``hits``, ``pool``, ``order`` and ``targets`` have one entry per
    case of the split: there are ``pool`` candidates (N′ = N − T + 1: the user's other targets are not among them), and the
    target is the ``order``-th of the user's ``targets``. ``items_scored`` is the number of scores that the model was asked
    for, the targets' own not counted; ``design`` was advanced to last; ``complete`` says whether all was observed that was
    asked for then. The arguments are those of :func:`fullrank.observe`; ``checkpoint`` may also be a folder, in which every
    call of :meth:`advance` has a file of its own.

    >>> import numpy as np, scipy.sparse as sp, fullrank as fr
    >>> split = fr.Split(sp.csr_matrix((2, 50)), [0, 1], [3, 40])
    >>> seen = fr.Observation(np.arange(50.0), split).advance("full")
    >>> (seen.ahead + 1).tolist(), seen.rest.tolist()
    ([47, 10], [0, 0])
    """

    design: Design | None
    complete: bool
    begun: BoolArray
    _current: BoolArray

    def __init__(
        self,
        model: Any,
        split: Split,
        *,
        candidates: Any = "unseen",
        compare_train: bool = False,
        guide: Any = None,
        ties: str = "random",
        rng: RNG = 0,
        map: Any = map,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool = True,
        batch: int | None = None,
        name: str | None = None,
    ) -> None:
        check_split(split)
        check_choice("ties", ties, TIES)
        check_whole("batch", batch, 1, none=True)
        check_flag("compare_train", compare_train)
        self._map = getattr(map, "map", map)
        if not callable(self._map):
            raise TypeError(f"`map` must be a function like the built-in `map`, or an object with `.map`, got {map!r}.")
        self.split, self.ties, self.progress, self.batch = split, ties, progress, batch
        self.scorer = as_scorer(model, split, name=name)
        self.name = str(name or self.scorer.name)
        check_sizes(self.scorer, split, f"model `{self.name}`")
        self.seed = seed_of(rng)
        self.candidates = candidates if isinstance(candidates, str) else "given"  # as counts call a pool per user
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self._pools = pools_of(candidates, split)
        self._guide = guide_of(guide, split)
        # a guide to nothing but the user's training items: they are compared in full, and have no order
        self._train = Guide("training items", lists=split.train, ordered=False) if compare_train else None
        if compare_train and candidates != "all":
            raise ValueError(
                "`compare_train` must be False unless `candidates` is 'all': training items are no candidates."
            )
        self.items_scored, self.seconds, self._timed = 0, 0.0, 0
        self.forget()

    def __len__(self) -> int:
        return int(self.begun.sum())

    @property
    def above(self) -> IntArray:
        """Return how many candidates were seen to beat each target: its rank less one where all were compared."""
        return self.ahead + self.hits

    @property
    def compared(self) -> IntArray:
        """Return how many candidates each target was compared with."""
        return np.where(self.begun, self.pool - 1 - self.rest + self.drawn, 0)

    @property
    def known(self) -> BoolArray:
        """Return which cases were compared with every candidate."""
        every = (self.drawn == self.rest) & (self.design is not None and self.design.compares > 0)
        return np.asarray(self.begun & ((self.rest == 0) | every))

    @property
    def compiled(self) -> bool:
        """Return whether the model's structure is known, so that compiled loops score it."""
        return is_compiled(self.scorer)

    @property
    def is_function(self) -> bool:
        """Return whether the model is known by its function only, and asked for items one by one."""
        return not self.compiled and not isinstance(self.scorer, Rows)

    @property
    def seconds_per_item(self) -> float:
        """Return what an item has taken so far, in seconds."""
        return self.seconds / max(self._timed, 1)

    # ------------------------------------------------------------------------------------------------ observing

    def advance(self, design: Design | str, budget: Budget | None = None, cases: Any = None) -> Observation:
        """Observe cases under a design, each going on from where it was; return this object.

        ``cases`` are positions in the split, or a mask with an entry for each; ``None``: all of them.

        The outcome of a case is then that of the new design from the start, provided that it stopped at the end of a stage
        of the new design or before its first. A ``budget`` is asked after every block of users; when it is spent, and on
        Ctrl-C, the blocks that were finished have their new outcomes and the others keep what they had.
        """
        budget = budget or Budget()  # one without limits
        task = self._task(parse_design(design), budget)
        chosen = self._whole_users(cases)
        self._refuse_other_draws(task.design, chosen)
        if self.design is None or str(task.design) != str(self.design):
            self._current[:] = False
        chosen = chosen[~self._current[chosen]]
        self._previous = self.design or task.design
        self.design, self.complete = task.design, False
        begun = self.begun[chosen]  # a block goes on with all of its cases, or begins them
        parts = chosen[begun], chosen[~begun]
        self.complete = all(self._run(task, part, budget) for part in parts if len(part))
        return self

    def counts(self) -> RankCounts:
        """Return the outcomes of the cases that were begun, as counts."""
        if self.design is None or not self.begun.any():
            raise ValueError("nothing was observed yet: call `advance` with a design first.")
        split, cases = self.split, np.flatnonzero(self.begun)
        behind = self.design.compares > 0
        partly = behind or bool(((self.rest > 0) & (self.rest < self.pool - 1))[cases].any())
        # in parts of a fixed size a million cases take little room; a part must not weigh nothing
        size = CASES_PER_PART if split.weights is None else len(cases)
        parts = []
        for first in range(0, len(cases), size):
            here = cases[first : first + size]
            ahead, rest, drawn, hits, pool, order, recent = (getattr(self, name)[here] for name in OUTCOME)
            nothing = (drawn == 0) & (rest > 0)
            drawn = np.where((rest == 0) | ((drawn == rest) & behind), ALL, drawn)
            compared: dict[str, IntArray] = {}
            if partly:
                drawn = np.where(nothing, NOTHING, drawn)
                compared = {"ahead": ahead, "rest": rest, "recent": np.minimum(recent, ahead)}
            else:
                hits = ahead + hits
            weights = None if split.weights is None else split.weights[here]
            parts.append(
                RankCounts.from_outcomes(
                    drawn, hits, pool, self.design, users=split.users[here], weights=weights, order=order,
                    targets=self.targets[here], candidates=self.candidates, **compared,
                )
            )  # fmt: skip
        return functools.reduce(operator.add, parts)

    def forget(self) -> None:
        """Begin anew; what the model was asked for stays counted."""
        self.design, self.complete = None, True
        n = len(self.split.users)
        self.begun, self._current = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self.ahead, self.rest, self.drawn, self.hits, self.pool, self.recent = (
            np.zeros(n, dtype=np.int64) for _ in range(6)
        )
        self.order = np.ones(n, dtype=np.int64)
        _, user, number = np.unique(self.split.users, return_inverse=True, return_counts=True)
        self.targets = number[user.ravel()]

    def fresh(self, cases: IntArray) -> Observation:
        """Return a new observation of some of the cases, for a trial: it keeps no checkpoint."""
        new = copy(self)
        weights = None if self.split.weights is None else self.split.weights[cases]
        new.split = replace(self.split, users=self.split.users[cases], items=self.split.items[cases], weights=weights)
        new.checkpoint, new.progress, new.items_scored = None, False, 0
        new.forget()
        return new

    def time_function(self, budget: Budget) -> None:
        """Where the clock limits a model that is not compiled, find out what an item takes: from a few, asked for twice."""
        if self.compiled or not np.isfinite(budget.deadline) or self._timed:
            return
        for _ in range(2):  # the first call of a model may load or compile
            begin = time.perf_counter()
            size = probe(self.scorer, self.split, 4, 8).size
            self.seconds, self._timed = time.perf_counter() - begin, size
            self.items_scored += size
            budget.spend(size)

    def copy(self) -> Observation:
        """Return the present state as another object; either can be advanced without the other."""
        new = copy(self)
        for name in ("begun", "_current", *OUTCOME):
            setattr(new, name, getattr(self, name).copy())
        return new

    # ------------------------------------------------------------------------------------------------ inside

    def _task(self, design: Design, budget: Budget) -> Task:
        guide = self._guide if design.compares else None if design.exhaustive else self._train
        if design.compares and guide is None:
            raise ValueError(
                f"`guide` is missing: '{design}' compares what a guide puts first; give one, or 'popularity'."
            )
        pool = self._pools.largest  # shares in a design are of it
        design = design.resolve(pool)
        courses, n_items = design.courses(pool), self.split.n_items
        task = Task(self.scorer, self.name, design, courses, n_items, self.ties, self.seed, guide)
        if not budget.limited or self.compiled:
            return task
        most = SHARE_PER_CALL * budget.affordable(self.seconds_per_item)
        return replace(task, scores_per_call=int(np.clip(most, 1, SCORES_PER_CALL)))

    def _whole_users(self, cases: Any) -> IntArray:
        if cases is None:
            return np.arange(len(self.split.users))
        chosen = np.unique(self._positions(cases))
        users = self.split.users
        if self.targets[chosen].sum() != len(chosen) and np.isin(users, users[chosen]).sum() != len(chosen):
            raise ValueError(
                "`cases` must hold all cases of each of their users: targets of one user are ranked together."
            )
        return chosen

    def _positions(self, cases: Any) -> IntArray:
        """Return the positions of cases that are given by a mask or as positions; anything else is refused."""
        n = len(self.split.users)
        try:
            given = np.atleast_1d(np.asarray(cases))
        except ValueError:  # lists of unlike length
            given = np.atleast_1d(np.array(None))
        if given.dtype == bool and given.shape == (n,):
            return np.flatnonzero(given)
        allowed = f"`cases` must be positions from 0 to {n - 1}, or a mask with one entry for each of the {n:,} cases"
        if given.ndim != 1 or (given.dtype.kind not in "iu" and len(given)):
            values = f"{given.dtype} values of shape {given.shape}"
            raise TypeError(f"{allowed}, got {values if given.dtype != object else f'a {type(cases).__name__}'}.")
        if (place := first_where((given < 0) | (given >= n))) is not None:
            raise ValueError(f"{allowed}, got {given[place]}.")
        return given.astype(np.int64)

    def _refuse_other_draws(self, design: Design, chosen: IntArray) -> None:
        if self.design is None or not self.begun[chosen].any():
            return
        what = None
        if bool(design.compares) != bool(self.design.compares):
            what = f"what was observed under '{self.design}'"
        elif design.exhaustive or design == self.design:
            return
        elif design.beyond is not None:
            what = "a sample, because its own does not grow"
        elif any(course.replace != self.design.replace for course in design.courses(self.split.n_items)):
            what = (
                f"a sample drawn {'with' if self.design.replace else 'without'} replacement, because it draws otherwise"
            )
        if what is not None:
            raise ValueError(f"'{design}' cannot continue {what}: observe it from the start.")

    def _run(self, task: Task, cases: IntArray, budget: Budget) -> bool:
        """Observe cases that are all new or all begun; false if the budget ended it."""
        before: dict[str, IntArray] = {}
        if self.begun[cases[0]] and not task.design.exhaustive:
            before = self._before(task.design, task.guide is not None)
        grouped = Block.of(self.split, cases, self._pools, before)
        users = len(grouped.users)
        done = np.zeros(users, dtype=bool)
        largest, slowest, scored = 0, 0.0, self.items_scored
        path = self.checkpoint
        if path is not None and path.is_dir():
            path = path / file_name(self.name, f"{task.design}", cases.tobytes(), suffix=".blocks")
        with Checkpoint(path, lambda: self._identity(task, cases)) as kept:
            budget.spend(self.items_scored - scored)  # a function is known by some of its scores
            enough = task.most_scores(users, len(cases)) <= budget.items
            for result in kept.restore(users, grouped.ptr):
                self._take(grouped, result)
                done[result.first : result.last] = True
                budget.spend(result.scored)
            size = task.block_users(grouped, self.batch)
            if budget.limited:
                size = min(size, max(users // 32, 1))
            blocks = [grouped.part(first, last) for first, last in unfinished(done, size, task.tile)]
            ready = int(np.diff(grouped.ptr)[done].sum())
            begin = time.perf_counter()
            with bar(self.progress, len(cases), self.name, initial=ready, unit="case", unit_scale=True) as shown:
                for result in self._map(task, blocks):
                    self._take(grouped, result)
                    done[result.first : result.last] = True
                    kept.keep(result)
                    now = time.perf_counter()
                    largest, slowest = max(largest, result.scored), max(slowest, now - begin)
                    self.seconds, self._timed = self.seconds + now - begin, self._timed + result.scored
                    begin = now
                    shown.update(int(grouped.ptr[result.last] - grouped.ptr[result.first]))
                    budget.spend(result.scored)
                    # another block must fit, as large and as slow as the largest and slowest so far
                    fits = (enough or largest <= budget.items) and slowest <= budget.seconds
                    if not done.all() and not fits:
                        return False
        if not done.all():
            raise RuntimeError(
                f"`map` returned {int(done.sum())} of {users} users: it must call the function on every block."
            )
        return True

    def _before(self, design: Design, guided: bool) -> dict[str, IntArray]:
        """Return what cases bring along that were observed under the design before, for another that goes on from there."""
        if not guided:
            return {"compared": self.compared, "hits": self.above, "order": self.order}
        if not continues(self._previous, design):
            return {"order": self.order}
        depth, recent = self.pool - 1 - self.rest, self.recent
        if self._previous.goes_on:  # those that stopped were quiet in the last half, and the other will be early
            recent = np.where(depth < design.compares, 0, recent)
        own = {"ahead": self.ahead, "recent": recent, "depth": depth}
        return {"order": self.order, "compared": self.drawn, "hits": self.hits} | own

    def _take(self, grouped: Block, result: Result) -> None:
        cases = grouped.cases[grouped.ptr[result.first] : grouped.ptr[result.last]]
        for name, values in zip(OUTCOME, result.outcome, strict=True):
            getattr(self, name)[cases] = values
        self.begun[cases] = self._current[cases] = True
        self.items_scored += result.scored

    def _identity(self, task: Task, cases: IntArray) -> dict[str, Any]:
        """Return what a checkpoint must agree on before it is continued."""
        listed, explicit, begun = self._pools.listed, self._pools.explicit, self.begun[cases[0]]
        return {
            "split": self.split.checksum,
            "cases": "all" if len(cases) == len(self.split.users) else digest_of(cases),
            "design": str(task.design),
            "candidates": digest_of(listed.indptr, listed.indices) if explicit else f"listed {listed.nnz}",
            "ties": self.ties,
            "seed": self.seed,
            "previous": digest_of(self.compared[cases], self.above[cases], self.rest[cases]) if begun else None,
            "model": self._fingerprint,
            "guide": None if task.guide is None else task.guide.identity,
        }

    @functools.cached_property
    def _fingerprint(self) -> dict[str, Any]:
        """The content of a model that can be digested; of one known by its function, what it says of cases all over."""
        kind, digest = type(self.scorer).__name__, getattr(self.scorer, "digest", None)
        if digest is not None:
            return {"kind": kind, "content": digest(), "scores": []}
        scores = probe(self.scorer, self.split).ravel()
        self.items_scored += scores.size
        written = [float(f"{x:.6g}") if np.isfinite(x) else str(x) for x in scores]
        return {"kind": kind, "content": None, "scores": written}


def probe(scorer: Any, split: Split, cases: int = 64, items: int = 8) -> FloatArray:
    """Scores of a model for cases spread over the split: of the target, and of items spread over the catalogue."""
    chosen = np.unique(np.linspace(0, len(split.users) - 1, cases).astype(np.int64))
    spread = np.linspace(0, split.n_items, items, endpoint=False).astype(np.int64)
    asked = (np.arange(len(chosen))[:, None] * 7919 + spread) % split.n_items
    asked[:, 0] = split.items[chosen]
    return np.asarray(scorer.score(split.users[chosen], asked), dtype=np.float64)


def file_name(name: str, *parts: str | bytes, suffix: str) -> str:
    """Return a file name that people can read, with a digest so that no two names or parts share one."""
    digest = hashlib.blake2b(digest_size=6)
    for part in (name, *parts):
        digest.update((part.encode() if isinstance(part, str) else part) + b"\0")
    words = [name, *(part for part in parts if isinstance(part, str))]
    slug = re.sub(r"[^A-Za-z0-9]+", "-", " ".join(words)).strip("-")[:80]
    return f"{slug}-{digest.hexdigest()}{suffix}".lstrip("-")
