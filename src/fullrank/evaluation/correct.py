"""Ranks that one already has, corrected: from counts to a report."""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fullrank._checks import by_name
from fullrank._types import Pair
from fullrank._version import __version__
from fullrank.estimators import Estimate, Estimator, LogSpline, parse_estimator
from fullrank.estimators.bounds import bounds_of
from fullrank.estimators.estimate import PointEstimate, RankDistribution, describe
from fullrank.estimators.intervals import check_interval
from fullrank.estimators.problem import is_exhaustive
from fullrank.evaluation.compare import comparisons, described, rows_of, warnings_of
from fullrank.metrics import Metric, metrics_to_report
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Design
from fullrank.report import Report, Row, Run
from fullrank.report.row import pair
from fullrank.report.words import NOTHING, joined

DEFAULT_METRICS = ("recall@10", "ndcg@10", "ap@10")
#: More models than this are not compared pair by pair.
MOST_COMPARED = 40


def correct(
    ranks: Mapping[str, ArrayLike | RankCounts] | ArrayLike | RankCounts,
    n_items: ArrayLike | None = None,
    design: Design | str | None = None,
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    estimator: Estimator | str | None = None,
    drawn: ArrayLike | None = None,
    users: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    order: ArrayLike | None = None,
    targets: ArrayLike | None = None,
    level: float = 0.95,
    target: str = "cases",
    candidates: str | None = None,
) -> Report:
    """Estimate full-catalogue metrics from sampled ranks that you already have.

    ``ranks``: one-based sampled ranks (or :class:`RankCounts`) by model, or of a single model; ``n_items``: number of
    candidates, target included, one or one per case; ``design``: how the negatives were drawn, such as ``"uni99"``;
    ``candidates``: among which items, as in :meth:`RankCounts.from_ranks` (``"unseen"`` if not given). Counts know all that.
    ``drawn``, ``users``, ``weights``, ``order`` and ``targets`` say more of each case, as there. Several ranks of a user are
    cases with one target each, and a note says so, unless ``order`` and ``targets`` tell which of the user's targets they
    are of.

    >>> import fullrank as fr
    >>> report = fr.correct({"EASE": [1, 1, 2, 7, 40] * 200}, n_items=3706, design="uni99", metrics="ndcg@10")
    >>> report.rows[0]["naive"] > 2 * report.rows[0]["value"]  # what uni99 shows is far too rosy
    True
    """
    if hasattr(ranks, "columns") or isinstance(ranks, str | os.PathLike):
        raise TypeError(
            f"`ranks` must be ranks by model, as in {{'EASE': frame['rank']}}, or those of one model, got a "
            f"{type(ranks).__name__}; `RankCounts.from_frame` reads a frame, and `fullrank correct` a file."
        )
    by_model = by_name(ranks) if isinstance(ranks, Mapping) else {"model": ranks}
    if not by_model:
        raise ValueError("`ranks` is empty: give ranks by model, as in {'EASE': ranks}.")
    if order is not None and len(by_model) > 1:
        raise ValueError(
            "`order` is each model's own: make counts by model with `RankCounts.from_ranks`, and give those."
        )
    counts: dict[str, RankCounts] = {}
    for name, each in by_model.items():
        if isinstance(each, RankCounts):
            refuse_other_candidates(each, candidates, f"model {name!r}: ")
            counts[name] = each
            continue
        if n_items is None:
            raise ValueError("`n_items` is missing: how many candidates (target included) the full ranking would have.")
        if design is None:
            raise ValueError("`design` is missing: how the negatives were drawn, such as 'uni99', or 'full' for none.")
        try:
            counts[name] = RankCounts.from_ranks(
                each, n_items, design, drawn=drawn, users=users, weights=weights, order=order, targets=targets,
                candidates="unseen" if candidates is None else candidates,
            )  # fmt: skip
        except (ValueError, TypeError) as error:
            raise type(error)(f"model {name!r}: {error}") from None
    return report_on(counts, metrics, estimator=estimator, level=level, target=target)


def refuse_other_candidates(counts: RankCounts, candidates: str | None, where: str = "") -> None:
    """Refuse a name of candidates that is not the counts' own."""
    if candidates not in (None, counts.candidates):
        raise ValueError(
            f"{where}`candidates` must be {counts.candidates!r}, which the counts hold, got {candidates!r}: leave it out, "
            f"or, where the counts are wrong, give dataclasses.replace(counts, candidates={candidates!r})."
        )


def report_on(
    counts: Mapping[str, RankCounts],
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    estimator: Estimator | str | None = None,
    level: float = 0.95,
    target: str = "cases",
    runs: Mapping[str, Run] | None = None,
    audits: Mapping[str, Mapping[str, Pair]] | None = None,
    provenance: dict[str, Any] | None = None,
) -> Report:
    """Fit every model's counts and report the answers, with what the fits warn of among the notes.

    ``audits``: by model and metric, what cases that were ranked in full say where they refute an estimate.
    """
    level = check_interval(level, target)
    runs, wanted, chosen = runs or {}, metrics_to_report(metrics), parse_estimator(estimator)
    estimates = {model: chosen.fit(each) for model, each in counts.items()}
    for model, audit in (audits or {}).items():
        estimate = estimates[model]
        if audit and isinstance(estimate, RankDistribution | PointEstimate):
            estimates[model] = replace(estimate, audit=dict(audit))
    rows = []
    for row in rows_of(estimates, wanted, level, target):
        interval = pair(row.interval)  # one user says nothing of others
        bounds = _bounds(estimates[row.model], row.metric, level, target, interval)
        reason = runs[row.model].stop_reason if row.model in runs else None
        rows.append(replace(row, interval=interval, bounds=bounds, estimator=describe(chosen), stop_reason=reason))
    warnings = dict.fromkeys([*warnings_of(estimates), *_outside(rows)])
    comparable = 1 < len(estimates) <= MOST_COMPARED and all(row.interval is not None for row in rows)
    compared = comparisons(estimates, wanted, level, target, rows=rows) if comparable else []
    warnings.update(dict.fromkeys(note for each in compared for note in each.notes))
    about = _provenance(estimates, chosen, level, target) | (provenance or {})
    return Report(rows, {str(each.metric): each for each in compared}, runs, tuple(warnings), estimates, about)


def _bounds(estimate: Estimate, metric: Metric, level: float, target: str, interval: Pair | None) -> Pair | None:
    """Return what the data alone allow of these cases, or of the population."""
    if metric.whole_auc or (target == "population" and interval is None):  # one user says nothing of others
        return interval
    found = bounds_of(estimate, metric, level)
    # about the population known ranks show no more than their interval does, which assumes nothing
    if target == "population" and interval is not None and estimate.counts.all_compared.any():
        return min(found[0], interval[0]), max(found[1], interval[1])
    return found


def _outside(rows: Iterable[Row]) -> Iterator[str]:
    """Warn of values that the data rule out, as uncorrected ones commonly are."""
    out: dict[str, list[str]] = {}
    for row in rows:
        if row.bounds is not None and not row.bounds[0] - NOTHING <= row.value <= row.bounds[1] + NOTHING:
            out.setdefault(row.model, []).append(str(row.metric))
    for model, metrics in out.items():
        which = f"{joined(metrics)} lie{'s' * (len(metrics) == 1)}"
        yield f"{model}: {which} outside the bounds that the data allow, so the estimator is off by at least the distance."


def _provenance(estimates: Mapping[str, Estimate], estimator: Estimator, level: float, target: str) -> dict[str, Any]:
    """Say what the numbers rest on: versions, candidates, the estimator, and the priors that had a part in them."""
    counts = [each.counts for each in estimates.values()]
    candidates = _joined(each.candidates for each in counts)
    fitted: list[Any] = [each for each in estimates.values() if getattr(each, "posterior", None) is not None]
    prior = _joined(estimator.prior_of(each.counts) for each in fitted) if isinstance(estimator, LogSpline) else ""
    named = f" (prior: {prior})" if prior not in ("", "own", candidates) else ""
    estimated = "" if all(map(is_exhaustive, counts)) else f"; {describe(estimator)}{named}"
    card = _joined(each.posterior.prior.describe() for each in fitted)
    return {
        "about": f"{'; '.join(described(counts))}{estimated}", "fullrank": __version__, "numpy": np.__version__,
        "python": platform.python_version(), "candidates": candidates, "estimator": describe(estimator),
        **({"prior": prior, "prior_card": card} if prior else {}), "level": level, "target": target,
    }  # fmt: skip


def _joined(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))
