"""Ranks that one already has, corrected: from counts to a report."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from collections.abc import Mapping as MappingType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._version import __version__
from ..estimators import DEFAULT_ESTIMATOR, Estimate, Estimator, LogSpline, Naive, describe, parse_estimator
from ..metrics import Metric, parse_metrics
from ..ranks.counts import RankCounts
from ..ranks.design import Design
from ..report import Report
from .compare import comparisons, pair_rows

__all__ = ["correct", "report_on"]

DEFAULT_METRICS = ("recall@10", "ndcg@10", "ap@10")


def correct(
    ranks: MappingType[str, ArrayLike | RankCounts] | ArrayLike | RankCounts,
    n_items: ArrayLike | None = None,
    design: Design | str = "uni99",
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    estimator: Estimator | str | None = None,
    drawn: ArrayLike | None = None,
    users: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    level: float = 0.95,
    target: str = "cases",
    candidates: str | None = None,
) -> Report:
    """Full-catalogue metrics from sampled ranks that you already have.

    ``ranks``: one-based sampled ranks (or :class:`RankCounts`) by model, or of a single model; ``n_items``: number of
    candidates, target included, one or one per case; ``design``: how the negatives were drawn; ``candidates``: among which
    items, as in :meth:`RankCounts.from_ranks` (``"unseen"`` if not given); counts know theirs.

    >>> import fullrank as fr
    >>> report = fr.correct({"EASE": [1, 1, 2, 7, 40] * 200}, n_items=3706, design="uni99", metrics="ndcg@10")
    >>> report.rows[0]["naive"] > 2 * report.rows[0]["value"]  # what uni99 shows is far too rosy
    True
    """
    by_model = ranks if isinstance(ranks, MappingType) else {"model": ranks}
    if not by_model:
        raise ValueError("`ranks` is empty: give ranks by model, as in {'EASE': ranks}.")
    counts: dict[str, RankCounts] = {}
    for name, each in by_model.items():
        if isinstance(each, RankCounts):
            refuse_other_candidates(each, candidates, f"model {str(name)!r}: ")
            counts[str(name)] = each
            continue
        if n_items is None:
            raise ValueError("`n_items` is missing: how many candidates (target included) the full ranking would have.")
        try:
            counts[str(name)] = RankCounts.from_ranks(
                each, n_items, design, drawn=drawn, users=users, weights=weights,
                candidates="unseen" if candidates is None else candidates,
            )  # fmt: skip
        except (ValueError, TypeError) as error:
            raise type(error)(f"model {str(name)!r}: {error}") from None
    return report_on(counts, metrics, estimator=estimator, level=level, target=target)


def refuse_other_candidates(counts: RankCounts, candidates: str | None, where: str = "") -> None:
    """Refuse a name of candidates that is not what the counts say themselves."""
    if candidates not in (None, counts.candidates):
        raise ValueError(
            f"{where}`candidates` is {candidates!r}, but the counts say {counts.candidates!r}: leave it out, or, where the "
            f"counts are wrong, give dataclasses.replace(counts, candidates={candidates!r})."
        )


def report_on(
    counts: MappingType[str, RankCounts],
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    estimator: Estimator | str | None = None,
    level: float = 0.95,
    target: str = "cases",
    provenance: dict[str, Any] | None = None,
) -> Report:
    """Fit every model's counts and lay the answers out as a report."""
    wanted = parse_metrics(metrics)
    chosen = parse_estimator(DEFAULT_ESTIMATOR if estimator is None else estimator)
    rows: list[dict[str, Any]] = []
    notes: dict[str, None] = {}
    estimates: dict[str, Estimate] = {}
    for model, each in counts.items():
        estimate = chosen.fit(each)
        estimates[model] = estimate
        naive = Naive().fit(each) if each.design.plain else None
        for metric in wanted:
            low, high = _interval(estimate, metric, level, target)
            rows.append(
                {
                    "model": model,
                    "metric": str(metric),
                    "value": estimate.expect(metric),
                    "low": low,
                    "high": high,
                    "naive": None if naive is None else naive.expect(metric),
                    "estimator": describe(chosen),
                    "design": str(each.design),
                    "items_scored": each.items_scored,
                    "cases": len(each),
                }
            )
        notes.update(dict.fromkeys(f"{model}: {note}" for note in estimate.fit.notes))
        blind = blind_spot(estimate, wanted)
        if blind is not None:
            notes[f"{model}: {blind}"] = None
    more = {**_comparison(rows, estimates, wanted, level, target), **(provenance or {})}
    return Report(rows, _provenance(estimates, chosen, level, target, more), tuple(notes), estimates)


def blind_spot(estimate: Estimate, metrics: Iterable[Metric]) -> str | None:
    """A warning where the prior speaks rather than the data, with the remedy; ``None`` where the data do.

    The worst of the metrics is named. As long as fewer than about N/K negatives are drawn, ranks up to K look alike.
    """
    posterior = getattr(estimate, "posterior", None)
    if posterior is None:
        return None
    counts = estimate.counts
    N = counts.n_items
    shares = {metric: posterior.prior_share(metric, N) for metric in metrics if metric.k is not None}
    if not shares:
        return None
    metric, share = max(shares.items(), key=lambda each: each[1])
    drawn = max((int(size) for size in counts.sizes if size), default=0)
    needed = round(N / (metric.k or 1))
    if share < 0.5 or drawn >= needed:
        return None
    return (
        f"{metric} is in the blind spot of {drawn:,} negatives among {N:,.0f} items: {share:.0%} of what the interval rests "
        f"on is the prior; draw about {min(needed, round(N) - 1):,} negatives, or fewer in all with fr.Adaptive()."
    )


#: More models than this are not compared pair by pair.
MOST_COMPARED = 40


def _comparison(
    rows: list[dict[str, Any]], estimates: dict[str, Estimate], metrics: tuple[Metric, ...], level: float, target: str
) -> dict[str, Any]:
    """What a report of several models says of their differences: all pairs, and the probability to be the best."""
    if not 1 < len(estimates) <= MOST_COMPARED or any(row["low"] is None for row in rows):
        return {}
    found = comparisons(estimates, metrics, level, target, rows=rows)
    return {
        "comparison": [row for each in found for row in pair_rows(each)],
        "best": {str(each.metric): dict(each.best) for each in found},
    }


def _interval(estimate: Estimate, metric: Metric, level: float, target: str) -> tuple[float | None, float | None]:
    ask = getattr(estimate, "interval", None)
    if ask is None:
        return None, None
    low, high = ask(metric, level=level, target=target)
    if not (np.isfinite(low) and np.isfinite(high)):  # one user says nothing about the population
        return None, None
    return float(low), float(high)


def _prior_cards(estimates: MappingType[str, Estimate]) -> str:
    """What the priors that spoke were learned from."""
    priors = [
        posterior.prior for each in estimates.values() if (posterior := getattr(each, "posterior", None)) is not None
    ]
    return _joined(prior.describe() for prior in priors)


def _provenance(
    estimates: MappingType[str, Estimate],
    estimator: Estimator,
    level: float,
    target: str,
    more: dict[str, Any] | None,
) -> dict[str, Any]:
    counts = [each.counts for each in estimates.values()]
    candidates = _joined(each.candidates for each in counts)
    prior = _joined(
        estimator.prior_name(each.counts.candidates, each.counts.several_targets)
        for each in estimates.values()
        if isinstance(estimator, LogSpline) and getattr(each, "posterior", None) is not None  # else every rank is known
    )
    spoke = f" (prior: {prior})" if prior not in ("", "own", candidates) else ""
    return {
        "about": f"{counts[0]}; {describe(estimator)}{spoke}",
        "fullrank": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "candidates": candidates,
        "estimator": describe(estimator),
        **({"prior": prior, "prior_card": _prior_cards(estimates)} if prior else {}),
        "level": level,
        "target": target,
        **(more or {}),
    }


def _joined(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))
