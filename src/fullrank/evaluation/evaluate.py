"""``evaluate``: from models to a report in one call, with as much scoring as the wanted precision takes.

Left free, it measures what an item costs each model, alone and in a matrix product, and ranks everything, or as far as the
metrics look, where that is cheaper. Otherwise it samples in rounds, without replacement: look, fit, plan the cheapest
design that is expected to reach the precision (:mod:`fullrank.evaluation.rehearsal`), go on. Every round continues each
case's own sample, so that the last counts are exactly those of the last design; that the design was chosen by looking at
earlier counts does not matter to likelihood methods, because the choice depends on nothing that was not seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fullrank.estimators import Estimate, Estimator, LogSpline, RankDistribution
from fullrank.evaluation.correct import DEFAULT_METRICS, report_on
from fullrank.evaluation.job import DEFAULT_PRECISION, Job
from fullrank.evaluation.looking import Ints, Seen, look, look_at_all
from fullrank.evaluation.rehearsal import AIM, Guess, Rehearsal
from fullrank.evaluation.speeds import EXACT_SECONDS_ARE_WORTH, Exact, Speeds, exact_is_cheaper
from fullrank.metrics import Metric
from fullrank.ranks.design import ALL, DEFAULT_START, Adaptive, Design
from fullrank.report import Report, Row, Run
from fullrank.report.words import ratio

if TYPE_CHECKING:
    from fullrank.data.split import Split

__all__ = ["evaluate"]

#: Rounds after which everything that can matter is compared.
MOST_ROUNDS = 8
#: Seconds that fitting and planning take: exact evaluation that is quicker than this needs no plan.
PLANNING_SECONDS = 2.0
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
    none              none or given  the cheaper of exact evaluation, as far as the metrics look, and sampling in rounds
                                     (precision 0.02 if none given)
    ``"adaptive"``    given          sampling, in rounds from this design's first stage on, without replacement
    any               none           one observation under this design
    ================  =============  =================================================================================

    ``max_items`` (negatives scored, all models together) and ``max_seconds`` end the run early; so does Ctrl-C. The report
    then has what was reached, with its intervals and a note. ``checkpoint``: a folder; the same call takes up there what a
    killed one left, and gives the same digits. ``backend``: a name or an object with ``.map`` that spreads blocks of users.
    All models see the same negatives under one ``rng``.
    """
    started = time.perf_counter()
    job = Job.of(
        split, metrics, design, estimator, precision, target, candidates, ties, max_items, max_seconds, backend,
        checkpoint, rng, absolute, level, progress, started,
    )  # fmt: skip
    named = _named(models)
    seen: dict[str, Seen] = {}
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


def _named(models: Any) -> dict[str, Any]:
    if isinstance(models, MappingType):
        if not models:
            raise ValueError("`models` is empty: give models by name, as in {'EASE': model}.")
        return {str(name): model for name, model in models.items()}
    from fullrank.models import as_scorer

    scorer = as_scorer(models)
    return {str(getattr(scorer, "name", None) or "model"): scorer}


# ---------------------------------------------------------------------------------------------------- one model


def _one(job: Job, model: Any, name: str) -> Seen:
    """Observe one model as far as the job wants."""
    from fullrank.models import as_scorer

    scorer = as_scorer(model, job.split, name=name)
    everyone = np.arange(len(job.split.users))
    if job.precision is None and job.design is not None:
        seen = look(job, scorer, name, everyone, job.design, None)
        return replace(seen, why=seen.why or "design")
    speeds = None
    if job.design is None:
        speeds = Speeds(job, scorer, name)
        exact = Exact.of(job, speeds)
        why = ""
        if exact.within and exact.seconds <= PLANNING_SECONDS:
            why = f"was cheaper: about {max(exact.seconds, 0.1):.1f} seconds, less than planning a sample takes"
        elif exact.within and any(
            exact.seconds <= EXACT_SECONDS_ARE_WORTH * each for each in _sampling_seconds(job, speeds)
        ):
            why = f"was cheaper: {speeds.ratio}"
        if why:
            return _exactly(job, scorer, name, exact, why)
        if not exact.within:
            speeds = None
    return _in_rounds(job, scorer, name, speeds)


def _exactly(job: Job, scorer: Any, name: str, exact: Exact, why: str) -> Seen:
    seen = look(job, scorer, name, np.arange(len(job.split.users)), exact.design, None)
    notes = [f"{exact.what} {why}"]
    if exact.design.beyond is not None:
        notes.append(
            f"metrics up to @{exact.design.exact_to} are exact, what lies beyond is estimated; ranking everything would "
            f"take about {ratio(exact.whole / exact.seconds)} × as long"
        )
    return replace(seen, why=seen.why or "exact", notes=notes)


def _sampling_seconds(job: Job, speeds: Speeds) -> Iterator[float]:
    """What sampling would take at least, for a first look at every case; then by the prior's guess of the ranks."""
    if job.target == "cases":
        yield speeds.gathered * _start(job) * len(job.split.users) + PLANNING_SECONDS
    guess = Guess.prior(job.split.n_items, job.candidates_name)
    cases = len(job.split.users)
    rehearsal = Rehearsal.of(guess, cases, job.metrics, _start(job))
    goals = job.goals({metric: guess.value(metric) for metric in job.metrics})
    found = rehearsal.cheapest({metric: AIM * goal for metric, goal in goals.items()}, job.level)
    yield speeds.gathered * found.items * cases + PLANNING_SECONDS


def _start(job: Job) -> int:
    given = getattr(job.design, "negatives", DEFAULT_START)
    first = int(np.clip(job.split.n_items // 40, 9, 99)) if given == DEFAULT_START else given
    return int(Adaptive(first, "all", 1, replace=False).stages(job.split.n_items)[0] or job.split.n_items - 1)


# ---------------------------------------------------------------------------------------------------- rounds


def _in_rounds(job: Job, scorer: Any, name: str, speeds: Speeds | None) -> Seen:
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
    seen: Seen | None = None
    while True:
        design = Adaptive(start, "all" if ceiling >= N - 1 else max(ceiling, start), stop, replace=False)
        job.latest = seen = look_at_all(job, scorer, name, cases, design, seen)
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
        dist = estimate if isinstance(estimate, RankDistribution) else LogSpline().fit(seen.counts(split))
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
        if speeds is not None:
            exact = Exact.of(job, speeds)
            if exact_is_cheaper(exact, speeds, (found.items - now) * len(seen.cases), fitting):
                why = f"turned out cheaper than to go on sampling: {speeds.ratio}"
                return replace(_exactly(job, scorer, name, exact, why), rounds=seen.rounds)
        reach = N - 1 if found.ceiling >= guess.n_items - 1 else found.ceiling  # pools vary: all of the mean one is all
        if len(seen.rounds) == 1 and found.items > 4 * now:  # a first fit is rough: most of the way, then look again
            reach = max(ceiling, reach // 2)
        stop, ceiling = found.stop, reach


def _half(estimate: Estimate, metric: Metric, level: float, target: str) -> float:
    low, high = estimate.interval(metric, level=level, target=target)  # type: ignore[arg-type]
    return float(high - low) / 2


def _half_widths(job: Job, estimate: Estimate) -> dict[Metric, float]:
    """Half-widths as they will be reported."""
    return {metric: _half(estimate, metric, job.level, job.target) for metric in job.metrics}


def _needed(job: Job, estimate: Estimate, goals: MappingType[Metric, float]) -> dict[str, int]:
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

    job: Job
    order: Ints  # of users
    user: Ints  # place in that order of every case's user

    @classmethod
    def of(cls, job: Job) -> _Crowd:
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
        seen: Seen,
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


def _report(job: Job, seen: dict[str, Seen], missing: list[str], interrupted: bool) -> Report:
    counts = {name: each.counts(job.split) for name, each in seen.items()}
    runs = {name: Run(each.why or "interrupted", tuple(each.rounds), dict(each.needed)) for name, each in seen.items()}
    about = {
        "split": job.split.name,
        "checksum": job.split.checksum,
        "ties": job.ties,
        "seed": job.seed,
        "precision": job.precision,
        "absolute": job.absolute,
        "seconds": round(time.perf_counter() - job.started, 3),
    }
    report = report_on(
        counts, job.metrics, estimator=job.estimator, level=job.level, target=job.target, runs=runs, provenance=about
    )
    notes = [note for name, each in seen.items() for note in _notes_of(job, name, each, report.rows)]
    if interrupted:
        left = f"; not looked at: {', '.join(missing)}" if missing else ""
        notes.append(f"interrupted: this is what was seen until then, with its intervals{left}.")
    return replace(report, notes=(*notes, *report.notes))


def _notes_of(job: Job, name: str, each: Seen, rows: list[Row]) -> Iterator[str]:
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
            (
                (row.interval[1] - row.interval[0]) / 2 / (1.0 if job.absolute else max(abs(row.value), 1e-12)),
                str(row.metric),
            )
            for row in rows
            if row.model == name and row.interval is not None
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


def _said(job: Job) -> str:
    wanted = job.precision or DEFAULT_PRECISION
    return f"±{wanted:g}" if job.absolute else f"±{100 * wanted:g} %"
