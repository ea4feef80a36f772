"""``evaluate``: from models to a report in one call, with as much scoring as the wanted precision takes.

Left free, it measures what an item costs each model, alone and in a matrix product, and ranks everything where that is
cheaper. Otherwise it samples in rounds, without replacement: look, fit, plan the cheapest design that is expected to reach
the precision (:mod:`fullrank.evaluate.rehearsal`), go on. Every round continues each case's own sample, so that the last
counts are exactly those of the last design; that the design was chosen by looking at earlier counts does not matter to
likelihood methods, because the choice depends on nothing that was not seen.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._files import write_atomically
from ..estimators import (
    MLE,
    Estimate,
    Estimator,
    LogSpline,
    RankDistribution,
    WeightedMLE,
    parse_estimator,
)
from ..estimators.intervals import check_interval
from ..metrics import Metric, parse_metrics
from ..ranks.counts import RankCounts
from ..ranks.design import ALL, DEFAULT_START, Adaptive, Design, Exhaustive, Sample, parse_design
from ..report import Report
from .correct import DEFAULT_METRICS, report_on
from .rehearsal import AIM, Guess, Rehearsal

if TYPE_CHECKING:
    from ..data.split import Split
    from ..ranks.observe import CaseOutcomes

__all__ = ["evaluate"]

Ints = NDArray[np.int64]

#: Half-width, relative to the value, that is aimed at when none is named.
DEFAULT_PRECISION = 0.02
#: Rounds after which everything that can matter is compared.
MOST_ROUNDS = 8
#: Seconds that fitting and planning take: exact evaluation that is quicker than this needs no plan.
PLANNING_SECONDS = 2.0
#: What an exact answer may cost more than a sampled one is guessed to: it leaves nothing open, and guesses tend to be low.
EXACT_SECONDS_ARE_WORTH = 1.5
#: A measurement of speed lasts at least as long, if there are users enough.
TIMED_SECONDS = 0.05
#: Users a first look takes when the population is the target and there are many more.
FIRST_USERS = 2000
#: Unreachable population goals: what sampling may leave open, as a share of what the cases leave open.
SMALL = 0.32


def evaluate(
    models: Any,
    split: Split | str,
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
    design: Design | str | None = None,
    estimator: Estimator | str | None = None,
    precision: float | None = None,
    target: str = "cases",
    candidates: Any = "unseen",
    ties: str = "random",
    max_items: int | None = None,
    max_seconds: float | None = None,
    backend: Any = None,
    checkpoint: str | Path | None = None,
    rng: int | np.random.Generator | None = 0,
    *,
    absolute: bool = False,
    level: float = 0.95,
    progress: bool = True,
) -> Report:
    """Evaluate models on a split, as precisely as asked, and say how it was done.

    ``models``: ``{"EASE": model, …}`` or one model, anything :func:`fullrank.as_scorer` takes. ``split``: a
    :class:`fullrank.Split` or the name of a data set.

    ``precision``: the wanted half-width of every metric's interval, relative to its value (``absolute=True``: as it is).
    ``target="cases"``: what the full ranking of these cases would show; ``"population"``: of the users they come from, where
    users are sampled too if there are more than needed, and what even the full ranking leaves open is never hidden.

    ================  =============  =================================================================================
    ``design``        ``precision``  what is done
    ================  =============  =================================================================================
    none              none or given  the cheaper of exact evaluation and sampling in rounds (precision 0.02 if none given)
    ``"adaptive"``    given          sampling, in rounds from this design's first stage on, without replacement
    any               none           one observation under this design
    ================  =============  =================================================================================

    ``max_items`` (negatives scored, all models together) and ``max_seconds`` end the run early; so does Ctrl-C. The report
    then has what was reached, with its intervals and a note. ``checkpoint``: a folder; the same call takes up there what a
    killed one left, and gives the same digits. ``backend``: a name or an object with ``.map`` that spreads blocks of users.
    All models see the same negatives under one ``rng``.
    """
    started = time.perf_counter()
    job = _Job.of(
        split, metrics, design, estimator, precision, target, candidates, ties, max_items, max_seconds, backend,
        checkpoint, rng, absolute, level, progress, started,
    )  # fmt: skip
    named = _named(models)
    seen: dict[str, _Seen] = {}
    interrupted = False
    for place, (name, model) in enumerate(named.items()):
        job.share_budget(len(named) - place)
        job.latest = None
        try:
            seen[name] = _one(job, model, name)
        except KeyboardInterrupt:
            if job.latest is not None:
                seen[name] = job.latest
            interrupted = True
            break
        job.spent_items += seen[name].items
    if not seen:
        raise KeyboardInterrupt
    return _report(job, seen, [name for name in named if name not in seen], interrupted)


# ---------------------------------------------------------------------------------------------------- the job


class _Enough(Exception):  # noqa: N818 - not an error: the budget is spent
    """The budget ended in the middle of a round."""


@dataclass
class _Job:
    """What is asked, checked once; and what is left of the budget."""

    split: Split
    metrics: tuple[Metric, ...]
    design: Design | None
    estimator: Estimator
    precision: float | None
    target: str
    candidates: Any
    ties: str
    max_items: int | None
    max_seconds: float | None
    map: Callable[..., Any]
    folder: Path | None
    seed: int
    absolute: bool
    level: float
    progress: bool
    started: float
    spent_items: int = 0
    latest: _Seen | None = None  # what an interrupt leaves of the model at hand
    items_left: float = np.inf
    seconds_end: float = np.inf

    @classmethod
    def of(
        cls, split: Any, metrics: Any, design: Any, estimator: Any, precision: Any, target: str, candidates: Any,
        ties: str, max_items: Any, max_seconds: Any, backend: Any, checkpoint: Any, rng: Any, absolute: bool,
        level: float, progress: bool, started: float,
    ) -> _Job:  # fmt: skip
        from ..data import Split, load
        from ..ranks.observe import _seed

        if isinstance(split, str):
            split = load(split)
        if not isinstance(split, Split):
            raise TypeError(f"`split` is a {type(split).__name__}; allowed are a Split or the name of a data set.")
        check_interval(level, target)
        for name, value in (("precision", precision), ("max_items", max_items), ("max_seconds", max_seconds)):
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if value is not None and not (number and value > 0):
                raise ValueError(f"`{name}` is {value!r}; allowed are None and numbers above zero.")
        if precision is not None and not absolute and precision >= 1:
            raise ValueError(f"`precision` is {precision!r}; it is relative, so below 1 (2 % is 0.02).")
        chosen = None if design is None else parse_design(design)
        if chosen is None and precision is None:
            precision = DEFAULT_PRECISION
        if chosen is not None and precision is not None and not isinstance(chosen, Adaptive):
            raise ValueError(
                f"`precision` and `design` '{chosen}' exclude each other: a fixed design reaches what it reaches; "
                "leave one out, or write design='adaptive' to sample in rounds."
            )
        folder = None if checkpoint is None else Path(checkpoint)
        if folder is not None:
            if folder.is_file():
                raise ValueError(f"`checkpoint` {str(folder)!r} is a file; `evaluate` keeps several: name a folder.")
            folder.mkdir(parents=True, exist_ok=True)
        if isinstance(backend, str):
            backend = import_module("fullrank.backends").resolve(backend)
        return cls(
            split, parse_metrics(metrics), chosen,
            _default(candidates) if estimator is None else parse_estimator(estimator), precision, target, candidates, ties,
            max_items, max_seconds, map if backend is None else getattr(backend, "map", backend), folder, _seed(rng),
            absolute, level, progress, started,
        )  # fmt: skip

    def share_budget(self, models: int) -> None:
        """What the next of so many models may spend."""
        if self.max_items is not None:
            self.items_left = max(self.max_items - self.spent_items, 0) / models
        if self.max_seconds is not None:
            now = time.perf_counter()
            self.seconds_end = now + max(self.started + self.max_seconds - now, 0.0) / models

    @property
    def likelihood(self) -> bool:
        """Whether the estimator may be given outcomes of a round that was cut short."""
        return isinstance(self.estimator, LogSpline | MLE | WeightedMLE)

    def goals(self, values: MappingType[Metric, float]) -> dict[Metric, float]:
        """The half-width that is wanted of each metric."""
        wanted = self.precision or DEFAULT_PRECISION
        return {metric: wanted if self.absolute else wanted * max(abs(v), 1e-12) for metric, v in values.items()}


def _default(candidates: Any) -> LogSpline:
    """LogSpline under the prior for these candidates; for pools of one's own, the one the counts look like."""
    return LogSpline(candidates if isinstance(candidates, str) and candidates in ("unseen", "all") else None)


def _named(models: Any) -> dict[str, Any]:
    if isinstance(models, MappingType):
        if not models:
            raise ValueError("`models` is empty: give models by name, as in {'EASE': model}.")
        return {str(name): model for name, model in models.items()}
    from ..models import as_scorer

    scorer = as_scorer(models)
    return {str(getattr(scorer, "name", None) or "model"): scorer}


# ---------------------------------------------------------------------------------------------------- looking


@dataclass
class _Seen:
    """What was seen of a model so far: which cases of the split, their outcomes, how it came to this."""

    cases: Ints
    outcomes: CaseOutcomes
    rounds: list[dict[str, Any]] = field(default_factory=list)
    why: str = ""
    notes: list[str] = field(default_factory=list)
    needed: dict[str, int] = field(default_factory=dict)

    @property
    def items(self) -> int:
        """Negatives compared."""
        return int(self.outcomes.compared.sum())

    def counts(self, split: Split) -> RankCounts:
        """As counts."""
        return self.outcomes.counts(_only(split, self.cases))


def _only(split: Split, cases: Ints) -> Split:
    """The split with these of its cases."""
    if len(cases) == len(split.users):
        return split
    weights = None if split.weights is None else split.weights[cases]
    return replace(split, users=split.users[cases], items=split.items[cases], weights=weights)


def _look(job: _Job, scorer: Any, name: str, cases: Ints, design: Design, previous: _Seen | None) -> _Seen:
    """Observe these cases under the design, going on from what was seen; if cut short, finished blocks of users are kept."""
    from ..ranks.observe import observe_cases

    split = _only(job.split, cases)
    before = None if previous is None else previous.outcomes
    users = len(np.unique(split.users))
    batch = None if isinstance(design, Exhaustive) else int(np.clip(users // 32, 256, 1 << 16))
    path = None
    if job.folder is not None:
        path = job.folder / f"{_slug(name)}-{len(cases)}-{_slug(str(design))}.blocks"
    parts: list[Any] = []
    grouped = _Order.of(split)
    done = 0 if before is None else int(before.compared.sum())
    past = None if before is None else grouped.sort(before.compared)
    within = (design.stages(split.n_items)[-1] or split.n_items) * len(cases) <= job.items_left  # whatever happens

    def watched(work: Any, blocks: Iterable[Any]) -> Iterator[Any]:
        items, largest, clock, slowest = done, 0, time.perf_counter(), 0.0
        for part in job.map(work, blocks):
            parts.append(part)
            yield part
            first, last, (drawn, _, pool, _) = part
            size = int(np.where(drawn == ALL, pool - 1, drawn).sum())
            if past is not None:
                size -= int(past[grouped.ptr[first] : grouped.ptr[last]].sum())
            now = time.perf_counter()
            items, largest = items + size, max(largest, size)
            slowest, clock = max(slowest, now - clock), now
            if (items + largest > job.items_left and not within) or now + slowest > job.seconds_end:
                raise _Enough

    def cut_short(why: str) -> _Seen | None:
        kept = parts if path is None else _kept(path, users)
        whole = sum(last - first for first, last, _ in kept) == users
        if not (job.likelihood or whole or previous is None):
            return replace(previous, why=why)
        seen = _merged(split, cases, grouped, design, job.seed, previous, kept)
        return seen if whole or seen is None else replace(seen, why=why)

    try:
        outcomes = observe_cases(
            scorer, split, design, candidates=job.candidates, ties=job.ties, rng=job.seed, map=watched, checkpoint=path,
            progress=job.progress, batch=batch, name=name, previous=before,
        )  # fmt: skip
    except _Enough:
        return cut_short("budget") or _nothing()
    except KeyboardInterrupt:
        job.latest = cut_short("interrupted") or job.latest
        raise
    return _Seen(cases, outcomes, [] if previous is None else previous.rounds)


def _nothing() -> _Seen:
    raise RuntimeError("`map` returned no block.")


@dataclass(frozen=True)
class _Order:
    """The cases of a split as blocks count them: by user, then by item."""

    sorting: Ints
    ptr: Ints

    @classmethod
    def of(cls, split: Split) -> _Order:
        sorting = np.lexsort((split.items, split.users))
        starts = np.flatnonzero(np.diff(split.users[sorting], prepend=-1))
        return cls(sorting, np.append(starts, len(sorting)).astype(np.int64))

    def sort(self, values: Any) -> Any:
        return values[self.sorting]


def _kept(path: Path, users: int) -> list[Any]:
    """The finished blocks in a checkpoint."""
    from ..ranks.checkpoint import Checkpoint

    if not path.exists():
        return []
    with Checkpoint(path, {}) as file:
        return list(file.restore(users))


def _merged(
    split: Split, cases: Ints, order: _Order, design: Design, seed: int, previous: _Seen | None, parts: list[Any]
) -> _Seen | None:
    """Earlier outcomes, and later ones where a block was finished; without earlier ones, the finished blocks alone."""
    from ..ranks.observe import CaseOutcomes

    n = len(cases)
    columns = {}
    for name in ("drawn", "hits", "n_items", "order"):
        old = None if previous is None else getattr(previous.outcomes, name)
        columns[name] = np.zeros(n, dtype=np.int64) if old is None else order.sort(old).copy()
    seen = np.full(n, previous is not None)
    for first, last, arrays in parts:
        span = slice(order.ptr[first], order.ptr[last])
        for name, values in zip(columns, arrays, strict=True):
            columns[name][span] = values
        seen[span] = True
    if not seen.any():
        return None
    back = np.empty(n, dtype=np.int64)
    back[order.sorting] = np.arange(n)
    kept = seen[back]
    sizes = np.diff(order.ptr)
    targets = np.repeat(sizes, sizes)[back][kept]
    if isinstance(design, Adaptive):
        design = design.resolve(split.n_items)
    outcomes = CaseOutcomes(
        **{name: values[back][kept] for name, values in columns.items()}, targets=targets, design=design, seed=seed
    )
    return _Seen(cases[kept], outcomes, [] if previous is None else previous.rounds)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60] or "model"


# ---------------------------------------------------------------------------------------------------- one model


def _one(job: _Job, model: Any, name: str) -> _Seen:
    """Observe one model as far as the job wants."""
    from ..models import as_scorer

    scorer = as_scorer(model, job.split, name=name)
    everyone = np.arange(len(job.split.users))
    if job.precision is None and job.design is not None:
        seen = _look(job, scorer, name, everyone, job.design, None)
        return replace(seen, why=seen.why or "design")
    speeds = None
    if job.design is None:
        speeds = _Speeds(job, scorer, name)
        exact, affordable = _exact_seconds(job, speeds)
        why = ""
        if affordable and exact <= PLANNING_SECONDS:
            why = f"ranking everything was cheaper: {exact:.2g} seconds, which planning a sample takes alone"
        elif affordable and exact <= EXACT_SECONDS_ARE_WORTH * _guessed_seconds(job, speeds):
            why = f"ranking everything was cheaper: {speeds.ratio}"
        if why:
            seen = _look(job, scorer, name, everyone, Exhaustive(), None)
            return replace(seen, why=seen.why or "exact", notes=[why])
        if not affordable:
            speeds = None
    return _in_rounds(job, scorer, name, speeds)


@dataclass(frozen=True, eq=False)
class _Speeds:
    """Seconds per item, timed on a few users when first asked for.

    What was measured is kept beside the checkpoint: a resumed run decides alike.
    """

    job: _Job
    scorer: Any
    name: str

    @cached_property
    def gathered(self) -> float:
        """Of an item scored alone, for one case."""
        return self._kept("gathered", Sample(int(np.clip(self.job.split.n_items // 20, 1, 400)), replace=False))

    @cached_property
    def product(self) -> float:
        """Of an item in a user's whole row, however many targets he has."""
        return self._kept("product", Exhaustive())

    @property
    def ratio(self) -> str:
        """How many times dearer a gathered item is, in words."""
        return f"an item gathered alone costs {self.gathered / max(self.product, 1e-15):.1f} × one in a whole row"

    def _kept(self, what: str, design: Design) -> float:
        folder = self.job.folder
        if folder is None:
            return self._per_item(design)
        path = folder / f"{_slug(self.name)}-{what}.json"
        if not path.exists():
            write_atomically(path, json.dumps({"seconds_per_item": self._per_item(design)}).encode())
        return float(json.loads(path.read_text())["seconds_per_item"])

    def _per_item(self, design: Design) -> float:
        """From users enough to be timed; what a call costs anyhow is told by a smaller one and left out."""
        users = np.unique(self.job.split.users)
        self._timed(design, users[:2])  # compiles
        number, before, fewer = 16, 0.0, 0.0
        seconds, items = self._timed(design, _spread(users, number))
        while seconds < TIMED_SECONDS and number < len(users):
            number *= 4
            before, fewer = seconds, items
            seconds, items = self._timed(design, _spread(users, number))
        whole = seconds / max(items, 1.0)
        return float(np.clip((seconds - before) / max(items - fewer, 1.0), whole / 4, whole))

    def _timed(self, design: Design, users: Ints) -> tuple[float, float]:
        from ..ranks.observe import observe_cases

        job = self.job
        part = _only(job.split, np.flatnonzero(np.isin(job.split.users, users)))
        begin = time.perf_counter()
        seen = observe_cases(
            self.scorer, part, design, candidates=job.candidates, ties=job.ties, rng=job.seed, map=job.map,
            progress=False, name=self.name,
        )  # fmt: skip
        seconds = time.perf_counter() - begin
        whole = isinstance(design, Exhaustive)
        return seconds, len(users) * float(job.split.n_items) if whole else float(seen.compared.sum())


def _spread(users: Ints, number: int) -> Ints:
    """So many of the users, evenly from all of them."""
    return users[:: max(1, len(users) // number)][:number]


def _guessed_seconds(job: _Job, speeds: _Speeds) -> float:
    """What sampling would take, by the prior's guess of the ranks."""
    guess = Guess.prior(job.split.n_items, "all" if job.candidates == "all" else "unseen")
    cases = len(job.split.users)
    rehearsal = Rehearsal.of(guess, cases, job.metrics, _start(job))
    goals = job.goals({metric: guess.value(metric) for metric in job.metrics})
    found = rehearsal.cheapest({metric: AIM * goal for metric, goal in goals.items()}, job.level)
    return speeds.gathered * found.items * cases + PLANNING_SECONDS


def _start(job: _Job) -> int:
    given = getattr(job.design, "negatives", DEFAULT_START)
    first = int(np.clip(job.split.n_items // 40, 9, 99)) if given == DEFAULT_START else given
    return int(Adaptive(first, "all", 1, replace=False).stages(job.split.n_items)[0] or job.split.n_items - 1)


# ---------------------------------------------------------------------------------------------------- rounds


def _in_rounds(job: _Job, scorer: Any, name: str, speeds: _Speeds | None) -> _Seen:
    """Look, fit, plan, go on: until the precision is met, the budget spent, or everything that matters compared."""
    split, N = job.split, job.split.n_items
    start = _start(job)
    cut = max((metric.k or 10 for metric in job.metrics), default=10)
    stop, ceiling = 1, int(np.clip(N // (4 * cut), min(2 * start + 1, N - 1), N - 1))
    crowd = _Crowd.of(job)
    cases = crowd.first()
    room = AIM * job.items_left / len(cases)
    if room < 4 * start:
        start = ceiling = max(int(min(room, start)), 1)
    ceiling = int(min(ceiling, max(room, start)))
    seen: _Seen | None = None
    while True:
        design = Adaptive(start, "all" if ceiling >= N - 1 else max(ceiling, start), stop, replace=False)
        job.latest = seen = _look_at_all(job, scorer, name, cases, design, seen)
        fitting = time.perf_counter()
        estimate = job.estimator.fit(seen.counts(split))
        half = _half_widths(job, estimate)
        fitting = time.perf_counter() - fitting
        values = {metric: float(estimate.expect(metric)) for metric in job.metrics}
        goals = job.goals(values)
        seen.rounds.append(
            {
                "design": str(design),
                "cases": len(seen.cases),
                "items": seen.items,
                "half_widths": {str(metric): half[metric] for metric in job.metrics},
            }
        )
        if all(half[metric] <= goals[metric] for metric in job.metrics):
            return replace(seen, why="precision")
        if seen.why or time.perf_counter() >= job.seconds_end:
            return replace(seen, why="budget")
        known = bool((seen.outcomes.drawn == ALL).all())
        dist = estimate if isinstance(estimate, RankDistribution) else _default(job.candidates).fit(seen.counts(split))
        guess = Guess.of(dist)
        if job.target == "population":
            grown = crowd.grown(guess, seen, half, goals, stop, ceiling, start)
            if grown is not None:
                cases, stop, ceiling = grown
                continue
        everyone = len(cases) == len(split.users)
        if known or (stop >= cut and ceiling >= N - 1):
            return replace(
                seen, why="exact" if job.target == "cases" else "cases", needed=_needed(job, estimate, goals)
            )
        case_goals = {metric: AIM * goal for metric, goal in goals.items()}
        if job.target == "population":
            floors = {metric: guess.floor(metric, len(seen.cases), job.level) for metric in job.metrics}
            case_goals = {
                metric: AIM * float(np.sqrt(max(goal**2 - floors[metric] ** 2, (SMALL * floors[metric]) ** 2)))
                for metric, goal in goals.items()
            }
            inside = {metric: _half(estimate, metric, job.level, "cases") for metric in job.metrics}
            if everyone and all(
                half[m] <= goals[m] or (floors[m] >= 0.95 * goals[m] and inside[m] <= case_goals[m] / AIM)
                for m in job.metrics
            ):
                return replace(seen, why="cases", needed=_needed(job, estimate, goals))
        rehearsal = Rehearsal.of(guess, len(seen.cases), job.metrics, start)
        afford = None if job.max_items is None else AIM * job.items_left / len(seen.cases)
        now = seen.items / len(seen.cases)
        if len(seen.rounds) >= MOST_ROUNDS:
            stop, ceiling = max(stop, rehearsal.most), N - 1
            continue
        asked = {metric: goal for metric, goal in case_goals.items() if half[metric] > goals[metric]} or case_goals
        if len(seen.rounds) > 2:  # plans fell short: by as much as the guess errs where we are, aim lower
            open_now = inside if job.target == "population" else half
            foreseen = rehearsal.fitted(asked, stop, rehearsal.nearest(ceiling), job.level)
            asked = {m: goal * float(np.clip(foreseen[m] / open_now[m], 0.5, 1.0)) for m, goal in asked.items()}
        least = (stop, ceiling)
        found = rehearsal.cheapest(asked, job.level, least, afford)
        if (found.stop, found.ceiling) == least:  # the plan believed it was there already
            higher = rehearsal.sizes[rehearsal.sizes > ceiling]
            if not len(higher):
                stop = max(stop + 1, min(2 * stop, rehearsal.most))
                continue
            found = rehearsal.cheapest(asked, job.level, (stop, int(higher[0])), afford)
        if afford is not None and (found.items > afford or found.items <= now * 1.0001):
            return replace(seen, why="budget")
        if speeds is not None and _exact_is_cheaper(job, speeds, (found.items - now) * len(seen.cases), fitting):
            exact = _look(job, scorer, name, np.arange(len(split.users)), Exhaustive(), None)
            why = f"ranking everything turned out cheaper than to go on sampling: {speeds.ratio}"
            return replace(exact, why=exact.why or "exact", rounds=seen.rounds, notes=[why])
        reach = N - 1 if found.ceiling >= guess.n_items - 1 else found.ceiling  # pools vary: all of the mean one is all
        if len(seen.rounds) == 1 and found.items > 4 * now:  # a first fit is rough: most of the way, then look again
            reach = max(ceiling, reach // 2)
        stop, ceiling = found.stop, reach


def _look_at_all(job: _Job, scorer: Any, name: str, cases: Ints, design: Design, seen: _Seen | None) -> _Seen:
    """Go on with the cases seen, begin with the new ones."""
    if seen is None:
        return _look(job, scorer, name, cases, design, None)
    new = np.setdiff1d(cases, seen.cases)
    further = seen
    if str(design) != str(seen.outcomes.design):
        further = _look(job, scorer, name, seen.cases, design, seen)
    if not len(new) or further.why:
        return further
    job.latest = None
    try:
        fresh = _look(job, scorer, name, new, design, None)
    except KeyboardInterrupt:
        job.latest = further if job.latest is None else _joined(further, job.latest)
        raise
    return _joined(further, fresh)


def _joined(a: _Seen, b: _Seen) -> _Seen:
    cases = np.concatenate([a.cases, b.cases])
    order = np.argsort(cases)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(a.outcomes, name), getattr(b.outcomes, name)])[order]
        for name in ("drawn", "hits", "n_items", "order", "targets")
    }
    return _Seen(cases[order], replace(b.outcomes, **columns), a.rounds, b.why)


def _exact_seconds(job: _Job, speeds: _Speeds) -> tuple[float, bool]:
    """What ranking everything would take, and whether the budget has room for it."""
    N, users = float(job.split.n_items), len(np.unique(job.split.users))
    exact = speeds.product * N * users
    within = N * len(job.split.users) <= job.items_left and time.perf_counter() + exact <= job.seconds_end
    return exact, within


def _exact_is_cheaper(job: _Job, speeds: _Speeds, more_items: float, fitting: float) -> bool:
    """Than another round: its items, its fit, and a report's."""
    exact, within = _exact_seconds(job, speeds)
    return within and exact < EXACT_SECONDS_ARE_WORTH * (speeds.gathered * more_items + 2 * fitting)


def _half(estimate: Estimate, metric: Metric, level: float, target: str) -> float:
    low, high = estimate.interval(metric, level=level, target=target)  # type: ignore[arg-type]
    return float(high - low) / 2


def _half_widths(job: _Job, estimate: Estimate) -> dict[Metric, float]:
    """Half-widths as they will be reported."""
    half = {metric: _half(estimate, metric, job.level, job.target) for metric in job.metrics}
    floors = _floors(job, estimate)
    return {metric: max(half[metric], floors.get(metric, 0.0)) for metric in half}


def _floors(job: _Job, estimate: Estimate) -> dict[Metric, float]:
    """For the population: what even the full ranking of as many cases would leave open."""
    if job.target != "population" or not isinstance(estimate, RankDistribution) or not len(estimate.grid):
        return {}
    guess = Guess.of(estimate)
    cases = estimate.counts.effective_cases
    return {metric: guess.floor(metric, cases, job.level) for metric in job.metrics if not metric.whole_auc}


def _needed(job: _Job, estimate: Estimate, goals: MappingType[Metric, float]) -> dict[str, int]:
    """How many cases the precision would take of each metric that these cannot give."""
    if job.target != "population":
        return {}
    half = _half_widths(job, estimate)
    cases = estimate.counts.effective_cases
    return {
        str(metric): int(np.ceil(cases * (half[metric] / goals[metric]) ** 2))
        for metric in job.metrics
        if half[metric] > goals[metric]
    }


@dataclass(frozen=True, eq=False)
class _Crowd:
    """Users in a fixed random order: the first so many are a sample of the population, and more of them contain fewer."""

    job: _Job
    order: Ints  # of users
    user: Ints  # place in that order of every case's user

    @classmethod
    def of(cls, job: _Job) -> _Crowd:
        users, which = np.unique(job.split.users, return_inverse=True)
        order = np.random.default_rng([job.seed, 7]).permutation(len(users))
        place = np.empty(len(users), dtype=np.int64)
        place[order] = np.arange(len(users))
        return cls(job, users[order], place[which.ravel()])

    def take(self, users: int) -> Ints:
        """The cases of the first so many users."""
        return np.flatnonzero(self.user < users)

    def first(self) -> Ints:
        """Everybody, except where the population is asked about and there are many."""
        few = self.job.target == "population" and len(self.order) > 2 * FIRST_USERS
        return self.take(FIRST_USERS if few else len(self.order))

    def grown(
        self,
        guess: Guess,
        seen: _Seen,
        half: MappingType[Metric, float],
        goals: MappingType[Metric, float],
        stop: int,
        ceiling: int,
        start: int,
    ) -> tuple[Ints, int, int] | None:
        """More users, or more negatives for each, whichever makes the interval narrower; ``None``: there are no more users.

        A first fit plans both together (:meth:`Rehearsal.thinned`); later ones say how far it still is.
        """
        job = self.job
        users, everyone = len(self.order), len(job.split.users)
        held = len(np.unique(self.user[seen.cases]))
        if held >= users:
            return None
        rehearsal = Rehearsal.of(guess, everyone, job.metrics, start)
        if len(seen.rounds) == 1:
            floors = {metric: guess.floor(metric, everyone, job.level) for metric in goals}
            left = None if job.max_items is None else job.items_left
            share, stop, ceiling = rehearsal.thinned(goals, floors, job.level, (stop, ceiling), left)
            wanted = int(np.ceil(share * users))
        else:
            excess = max(half[metric] / goals[metric] for metric in goals)
            wanted = int(np.ceil(held * min(excess, 4.0) ** 2 * 1.03))
        if job.max_items is not None:
            per_user = rehearsal.items(stop, ceiling) * everyone / users
            wanted = min(wanted, int(AIM * job.items_left / max(per_user, 1.0)))
            if wanted <= held and len(seen.rounds) > 1:
                return None
        return self.take(min(users, max(wanted, held))), stop, ceiling


# ---------------------------------------------------------------------------------------------------- the report


def _report(job: _Job, seen: dict[str, _Seen], missing: list[str], interrupted: bool) -> Report:
    counts = {name: each.counts(job.split) for name, each in seen.items()}
    about = {
        "split": job.split.name or "a split",
        "candidates": job.candidates if isinstance(job.candidates, str) else "given",
        "ties": job.ties,
        "seed": job.seed,
        "precision": job.precision,
        "absolute": job.absolute,
        "seconds": round(time.perf_counter() - job.started, 3),
        "runs": {
            name: {"stopped": each.why or "interrupted", "rounds": each.rounds, "needed_cases": each.needed}
            for name, each in seen.items()
        },
    }
    report = report_on(
        counts, job.metrics, estimator=job.estimator, level=job.level, target=job.target, provenance=about
    )
    rows = []
    for row in report.rows:
        estimate = report.estimates[row["model"]]
        floor = {str(metric): value for metric, value in _floors(job, estimate).items()}.get(row["metric"], 0.0)
        if row["low"] is not None and (row["high"] - row["low"]) / 2 < floor:
            row = {**row, "low": max(row["value"] - floor, 0.0), "high": row["value"] + floor}
        rows.append(row)
    notes = [note for name, each in seen.items() for note in _notes_of(job, name, each, rows)]
    if interrupted:
        left = f"; not looked at: {', '.join(missing)}" if missing else ""
        notes.append(f"interrupted: this is what was seen until then, with its intervals{left}.")
    return replace(report, rows=rows, notes=(*notes, *report.notes))


def _notes_of(job: _Job, name: str, each: _Seen, rows: list[dict[str, Any]]) -> Iterator[str]:
    full = float((each.outcomes.n_items - 1).sum()) or 1.0
    share = each.items / full
    for note in each.notes:
        yield f"{name}: {note}."
    if len(each.cases) < len(job.split.users):
        yield f"{name}: {len(each.cases):,} of {len(job.split.users):,} cases were looked at; the numbers speak of these."
    if each.why == "precision":
        yield (
            f"{name}: the precision of {_said(job)} was met after {len(each.rounds)} round"
            f"{'s' * (len(each.rounds) != 1)} with {share:.1%} of the items of a full ranking."
        )
    if each.why == "budget":
        widest = max(
            ((row["high"] - row["low"]) / 2 / (1.0 if job.absolute else max(row["value"], 1e-12)), row["metric"])
            for row in rows
            if row["model"] == name and row["low"] is not None
        )
        reached = f"{widest[0]:.4f}" if job.absolute else f"{widest[0]:.1%}"
        yield (
            f"{name}: the budget was spent before the precision of {_said(job)} was met; {widest[1]} is known to "
            f"±{reached}."
        )
    for metric, cases in each.needed.items():
        yield (
            f"{name}: these {len(each.cases):,} cases cannot tell {metric} of the population to {_said(job)}, not even "
            f"ranked in full; it would take about {cases:,} cases."
        )


def _said(job: _Job) -> str:
    wanted = job.precision or DEFAULT_PRECISION
    return f"±{wanted:g}" if job.absolute else f"±{100 * wanted:g} %"
