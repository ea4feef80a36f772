"""``evaluate``: from models to a report in one call, with as much scoring as the wanted precision takes.

Exact evaluation is done where it is cheaper. Otherwise rounds follow each other: observe, fit, plan the cheapest design
that is expected to reach the precision (:mod:`fullrank.evaluation.planner`). Every round continues each case's own sample,
so that the last counts are exactly those of the last design; that it was chosen by earlier counts does not matter to
likelihood methods, because the choice depends on nothing that was not seen.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._checks import by_name, check_number
from fullrank.backends import resolve
from fullrank.data import Split, load
from fullrank.data.split import check_split
from fullrank.estimators import Estimator, parse_estimator
from fullrank.estimators.intervals import check_interval
from fullrank.evaluation.correct import DEFAULT_METRICS, report_on
from fullrank.evaluation.guided_run import GuidedRun
from fullrank.evaluation.model_run import Job, ModelRun
from fullrank.evaluation.planner import DEFAULT_PRECISION, Planner, check_precision
from fullrank.metrics import Metric, metrics_to_report
from fullrank.models import as_scorer
from fullrank.models.adapters.structure import factors_in
from fullrank.models.scorer import holds_scores
from fullrank.observing.budget import Budget
from fullrank.observing.guides import guide_of
from fullrank.observing.inputs import seed_of
from fullrank.ranks.design import DEFAULT_START, Design, parse_design
from fullrank.report import Report, Row, Run


def evaluate(
    models: Any,
    split: Split | str,
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
    design: Design | str | None = None,
    estimator: Estimator | str | None = None,
    precision: float | None = None,
    target: str = "cases",
    candidates: Any = "unseen",
    guide: Any = None,
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

    ``precision``: the wanted half-width of every metric's interval, relative to its value (``absolute=True``: in its units).
    ``target="cases"``: what the full ranking of these cases would show; ``"population"``: of the users they come from, where
    users are sampled too if there are more than needed, and what even the full ranking leaves open is never hidden.

    Without a ``design``, the cheaper is done of exact evaluation, as far as the metrics look, and sampling in rounds, to a
    precision of 0.02 if none is given. ``"adaptive"`` and a precision: sampling in rounds from this design's first stage on,
    without replacement. Any design and no precision: one observation under it.

    ``guide``: for models that take long to score an item, a cheap one that knows where to look: any scorer, ``"popularity"``
    or a list of items per user. What it puts first, popular items between, is compared in full, and only the rest is
    sampled; one that finds no more than chance is dropped. It is taken where items are asked for one by one, and with
    ``design="guided"`` always. Among ``"all"`` candidates a user's training items are compared in full.

    ``max_items`` (scores asked for, all models together, timing probes included) and ``max_seconds`` end the run early; so
    does Ctrl-C. The report then has what was reached, with its intervals and a note. ``checkpoint``: a folder; the same call
    takes up there what a killed one left, and gives the same digits. ``backend``: a name or an object with ``.map`` that
    spreads blocks of users. All models see the same negatives under one ``rng``.
    """
    started = time.perf_counter()
    level = check_interval(level, target)
    for name, value in (("max_items", max_items), ("max_seconds", max_seconds)):
        check_number(name, 1 if value is None else value, above=0)
    budget = Budget(max_items, max_seconds)
    forced = isinstance(design, str) and design.strip().lower() == "guided"
    chosen = _chosen(design, forced, precision, guide)
    if precision is None and chosen is None:
        precision = DEFAULT_PRECISION
    wanted = None if precision is None else check_precision(precision, absolute)
    first = getattr(chosen, "negatives", DEFAULT_START)
    held_out = load(split) if isinstance(split, str) else split
    check_split(held_out, "a Split or the name of a data set")
    several = len(held_out.test_users) < held_out.cases
    job = Job(
        planner=Planner(
            tuple(each.kept_apart(several) for each in metrics_to_report(metrics)),
            wanted or DEFAULT_PRECISION, absolute, level, target,
            None if first == DEFAULT_START else first,
        ),
        split=held_out, design=chosen, precision=wanted, forces_guide=forced, estimator=parse_estimator(estimator),
        observing={
            "candidates": candidates, "compare_train": isinstance(candidates, str) and candidates == "all",
            "guide": guide_of(guide, held_out), "ties": ties, "rng": seed_of(rng), "map": resolve(backend),
            "checkpoint": _folder(checkpoint), "progress": progress,
        },
    )  # fmt: skip
    named = _named(models, held_out)
    runs = _carried_out(job, named, budget)
    return _report(job, runs, [name for name in named if name not in runs], time.perf_counter() - started)


def _chosen(design: Design | str | None, forced: bool, precision: float | None, guide: Any) -> Design | None:
    """Return the design that was asked for, none if only the guide is ``forced``; refuse what excludes the other wishes."""
    if guide is None and (forced or (isinstance(design, Design) and design.compares)):
        raise ValueError("`guide` is missing: a guided design needs a scorer, lists of items or 'popularity'.")
    chosen = None if design is None or forced else parse_design(design)
    if chosen is not None and precision is not None and not chosen.grows:
        raise ValueError(
            f"`precision` and `design` '{chosen}' exclude each other: a fixed design reaches what it reaches; "
            "leave one out, or write design='adaptive' to sample in rounds."
        )
    return chosen


def _carried_out(job: Job, models: Mapping[str, Any], budget: Budget) -> dict[str, ModelRun]:
    """Run every model, each with its share of the budget. After Ctrl-C, those of which something was observed."""
    runs: dict[str, ModelRun] = {}
    kind = ModelRun if job.observing["guide"] is None else GuidedRun
    try:
        for place, (name, model) in enumerate(models.items()):
            runs[name] = kind(job, model, name, budget.share(len(models) - place))
            runs[name].carry_out()
    except KeyboardInterrupt:
        runs = {name: run for name, run in runs.items() if len(run.observation)}
        if not runs:
            raise
    return runs


def _folder(checkpoint: str | Path | None) -> Path | None:
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str | os.PathLike):
        raise TypeError(f"`checkpoint` must be the name of a folder or None, got {checkpoint!r}.")
    folder = Path(checkpoint)
    if folder.is_file():
        raise ValueError(f"`checkpoint` must be a folder, because `evaluate` keeps several files, got {str(folder)!r}.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _named(models: Any, split: Split) -> dict[str, Any]:
    """Return models by name. A mapping of columns, and a pair of factors, is one model; a list of models has no names."""
    if isinstance(models, Mapping) and not holds_scores(models):
        if not models:
            raise ValueError("`models` is empty: give models by name, as in {'EASE': model}.")
        return by_name(models)
    if isinstance(models, list | tuple) and factors_in(models) is None:
        got = f"a {type(models).__name__} of {len(models)}"
        raise TypeError(f"`models` must be models by name, as in {{'EASE': model}}, or one model, got {got}.")
    scorer = as_scorer(models, split)
    return {str(getattr(scorer, "name", None) or "model"): scorer}


def _report(job: Job, runs: dict[str, ModelRun], missing: list[str], seconds: float) -> Report:
    split, planner = job.split, job.planner
    ended = {
        name: Run(run.stop_reason or "interrupted", tuple(run.rounds), dict(run.needed), tuple(_remarks(job, run)))
        for name, run in runs.items()
    }
    provenance = {
        "split": split.name, "checksum": split.checksum, "ties": job.observing["ties"], "seed": job.observing["rng"],
        "absolute": planner.absolute, "seconds": round(seconds, 3), "precision": job.precision,
    }  # fmt: skip
    report = report_on(
        {name: run.observation.counts() for name, run in runs.items()},
        [each.kept_apart(False) for each in planner.metrics], estimator=job.estimator,
        level=planner.level, target=planner.target, runs=ended, provenance=provenance,
        audits={name: {str(m): found for m, found in run.corrected.items()} for name, run in runs.items()},
    )  # fmt: skip
    rows = [replace(row, items_scored=runs[row.model].observation.items_scored) for row in report.rows]
    notes = [note for name, run in runs.items() for note in _notes(job, name, run, rows)]
    if missing or any(each.stop_reason == "interrupted" for each in ended.values()):
        left = f"; not observed: {', '.join(missing)}" if missing else ""
        notes.append(f"interrupted: this is what was seen until then, with its intervals{left}.")
    return replace(report, rows=rows, notes=(*notes, *report.notes))


def _remarks(job: Job, run: ModelRun) -> Iterator[str]:
    """How the run went: what was chosen and what was met."""
    for note in run.notes:
        yield f"{note}."
    if run.stop_reason == "precision":
        seen, rounds = run.observation, f"{len(run.rounds)} round{'s' * (len(run.rounds) != 1)}"
        share = seen.items_scored / max(float((seen.pool - 1)[seen.begun].sum()), 1.0)
        yield f"the precision of {job.planner} was met after {rounds} with {share:.1%} of the items of a full ranking."
        if run.unaudited:
            yield (
                "nothing was ranked in full to check the estimate: one user's cases would take more items than the run did, "
                "or than the budget has left."
            )


def _notes(job: Job, name: str, run: ModelRun, rows: list[Row]) -> Iterator[str]:
    planner, seen, cases = job.planner, run.observation, len(job.split.users)
    if len(seen) < cases:
        yield f"{name}: {len(seen):,} of {cases:,} cases were observed; the numbers describe only these."
    if run.stop_reason == "budget":
        widest, metric = max(
            ((row.interval[1] - row.interval[0]) / 2 / planner.scale(row.value), row["metric"])
            for row in rows
            if row.model == name and row.interval is not None
        )  # fmt: skip
        reached = f"{widest:.4f}" if planner.absolute else f"{widest:.1%}"
        yield f"{name}: the budget was spent before the precision of {planner} was met; {metric} is known to ±{reached}."
    for refuted in run.corrected:
        yield (
            f"{name}: {len(run.audit.cases)} cases that were ranked in full disagree with the estimate of {refuted}; its "
            "interval is widened to what they say."
        )
    for metric, needed in run.needed.items():
        yield (
            f"{name}: {len(seen):,} cases are too few to estimate {metric} of the population to {planner}, even ranked in "
            f"full; it would take about {needed:,} cases."
        )
