"""Which model is better, and how sure is that: differences, P(best), a ranking with ties, and what would settle it."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, takewhile
from typing import Any

import numpy as np

from fullrank._checks import by_name
from fullrank._types import FloatArray, Pair
from fullrank.estimators import Estimate, Estimator, LogSpline, Naive, RankDistribution, describe, parse_estimator
from fullrank.estimators.intervals import check_interval, z_of
from fullrank.estimators.problem import is_exhaustive
from fullrank.estimators.together import fit_together
from fullrank.evaluation.pairing import Influence, case_spread, covariances, expected_counts, influences, same_cases
from fullrank.metrics import Metric, metrics_to_report, parse_metric
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Design
from fullrank.report import Comparison, Difference, Report, Row
from fullrank.report.words import assumed, joined, ratio

DRAWS = 20_000
#: How far apart, in logs, two values are when models that were fitted together say little of their difference.
NEAR = 0.2
#: How many times as many negatives are tried when models cannot be told apart.
FACTORS = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def compare(
    models: Report | Mapping[str, RankCounts | Estimate],
    metric: Metric | str | None = None,
    *,
    level: float | None = None,
    target: str | None = None,
    estimator: Estimator | str | None = None,
) -> Comparison:
    """Compare models: differences with intervals, P(best), groups that cannot be told apart, Holm-adjusted tests.

    ``models``: a report, or counts (or estimates) by model; ``metric``: by default a report's first, or ``ndcg@10``. What a
    report has compared already is taken from there.
    ``target="cases"`` asks what the full ranking of these very cases would show; ``"population"`` how models would rank
    among all users that these are a sample of. Models whose counts hold as many cases of every user block are taken to be
    evaluated on the same cases, others as independent.

    Models of one target per user among unseen candidates that LogSpline was fitted to under fullrank's prior are fitted
    again, together: what models of one catalogue have in common cannot change their order then (see
    :mod:`fullrank.estimators.together`). Differences, P(best) and the order are of that fit; values and their intervals are
    each model's own, whichever others there are.

    A difference's interval is made from those of its two parts and their correlation (Zou & Donner 2008, "MOVER"): what
    models fitted together share, and what user blocks show; for ``"cases"`` only as much of that as shared negatives must
    explain (see :mod:`fullrank.evaluation.pairing`), so that samples drawn independently are compared as such.

    >>> import fullrank as fr
    >>> sampled = {"A": [1] * 600 + [2, 3, 5, 9, 20, 50] * 60, "B": [1] * 200 + [2, 3, 5, 9, 20, 50] * 120}
    >>> counts = {name: fr.RankCounts.from_ranks(ranks, n_items=2000, design="uni99") for name, ranks in sampled.items()}
    >>> result = fr.compare(counts, "ndcg@10")
    >>> result.winner, result.sure, result.told_apart("A", "B")
    ('A', True, True)
    """
    if isinstance(models, Report):
        wanted = models.metric(metric)
        level = models.level if level is None else level
        target = models.target if target is None else target
        held = models.comparison.get(str(wanted))
        same = held is not None and (held.metric == wanted or not models.estimates)  # a file knows names, not functions
        if held is not None and same and (held.level, held.target, estimator) == (level, target, None):
            return held
        given: Mapping[str, Any] = models.estimates
        if not given:
            raise ValueError("the report holds no estimates to compare: give one that was not loaded, or counts.")
        if estimator is not None:
            given = {name: each.counts for name, each in given.items()}
    elif isinstance(models, Mapping):
        wanted, given = parse_metric("ndcg@10" if metric is None else metric), models
        metrics_to_report(wanted)
    else:
        raise TypeError(f"`models` must be a Report or counts by model, as in {{'EASE': counts}}, got {models!r}.")
    if not given:
        raise ValueError("`models` is empty: give counts by model, as in {'EASE': counts}.")
    target = target or "cases"
    level = check_interval(0.95 if level is None else level, target)
    chosen = parse_estimator(estimator)
    estimates = {n: chosen.fit(each) if isinstance(each, RankCounts) else each for n, each in by_name(given).items()}
    for name, each in estimates.items():
        if not hasattr(each, "expect"):
            raise TypeError(f"model {name!r}: `models` must hold RankCounts or estimates, got {type(each).__name__}.")
    return comparisons(estimates, [wanted], level, target)[0]


def comparisons(
    estimates: Mapping[str, Estimate],
    metrics: Sequence[Metric],
    level: float,
    target: str,
    rows: Iterable[Row] | None = None,
) -> list[Comparison]:
    """Compare by each metric. ``rows`` of a report hold values and intervals that need not be computed again."""
    counts = [each.counts for each in estimates.values()]
    same = same_cases(counts)
    open_ = target == "population" or not all(map(is_exhaustive, counts))
    found: Iterable[Sequence[Influence] | None] = [None] * len(metrics)
    if same and len(counts) > 1 and open_:
        found = zip(*(influences(each, metrics) for each in estimates.values()), strict=True)
    names = [*dict.fromkeys(describe(each.estimator) for each in estimates.values())][:3]
    fitted: list[Any] = [each for each in estimates.values() if getattr(each, "posterior", None) is not None]
    shared: dict[str, Any] = {
        "level": level, "target": target, "paired": same, "about": "; ".join(described(counts) + names),
        "assumption": f"{assumed(any(each.estimator.prior for each in fitted))}." if fitted else "",
        "notes": (*_unlike(counts, same), *dict.fromkeys(warnings_of(estimates))), "estimates": dict(estimates),
    }  # fmt: skip
    held = list(rows_of(estimates, metrics, level, target) if rows is None else rows)
    by_metric = ([row for row in held if str(row.metric) == str(metric)] for metric in metrics)
    together = fit_together([*estimates.values()])
    return [_compared(each, seen, together, shared) for each, seen in zip(by_metric, found, strict=True)]


def warnings_of(estimates: Mapping[str, Estimate]) -> list[str]:
    """Return what the fits and the counts warn of, each with the name of its model."""
    repeated = _repeated_users({model: each.counts for model, each in estimates.items()})
    return [*repeated, *(f"{model}: {note}" for model, each in estimates.items() for note in each.fit_info.notes)]


def rows_of(estimates: Mapping[str, Estimate], metrics: Sequence[Metric], level: float, target: str) -> Iterator[Row]:
    """Ask every model for the metrics: their values, intervals and, where the design has sampled ranks, naive estimates."""
    for name, each in estimates.items():
        counts, ask = each.counts, getattr(each, "interval", None)
        naive = Naive().fit(counts) if counts.design.plain and not counts.has_compared_part else None
        for metric in metrics:
            interval = None if ask is None else ask(metric, level=level, target=target)
            yield Row(
                name, metric, float(each.expect(metric)), interval, design=str(counts.design), cases=len(counts),
                naive=None if naive is None else float(naive.expect(metric)), items_scored=counts.items_scored,
            )  # fmt: skip


def described(counts: Sequence[RankCounts]) -> list[str]:
    """Describe the counts of models, the first few that differ."""
    return [*dict.fromkeys(map(str, counts))][:3]


def _repeated_users(counts: Mapping[str, RankCounts]) -> Iterator[str]:
    """Say where several ranks of one user are cases of their own, because nobody said which of a user's targets each is."""
    found: dict[str, list[str]] = {}
    for model, each in counts.items():
        if each.n_users is not None and not each.several_targets:
            users = f"{each.n_users:,} user{'s have' if each.n_users != 1 else ' has'} {len(each):,} ranks"
            found.setdefault(users, []).append(model)
    for users, models in found.items():
        of = "" if len(models) == len(counts) else f"{joined(models)}: "
        yield (
            f"{of}{users}, each taken as a case with one target, so that hit@10 is recall@10 over cases; metrics per user "
            "need scores, or `order` and `targets` of every rank."
        )


def _unlike(counts: Sequence[RankCounts], same: bool) -> Iterator[str]:
    """Say in what the models were not evaluated alike."""
    if len(counts) > 1 and not same:
        yield "the models were not evaluated on the same cases: taken as independent."
    among, pools = [*dict.fromkeys(each.candidates for each in counts)], [each.n_items for each in counts]
    if len(among) > 1 or max(pools) > 1.01 * min(pools):
        numbers = f"numbers of candidates ({min(pools):,.0f} to {max(pools):,.0f})"
        what = f"candidates ({joined(among)})" if len(among) > 1 else numbers
        yield f"the models were ranked among different {what}: their metrics are of different tasks."


def holm(p_values: Sequence[float]) -> FloatArray:
    """Adjust p-values as Holm did (1979): the i-th smallest of n is multiplied by n − i + 1, never below the one before.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return out


def _compared(
    rows: Sequence[Row],
    found: Sequence[Influence] | None,
    fitted: Sequence[RankDistribution | None],
    shared: dict[str, Any],
) -> Comparison:
    """Compare the models of these rows, all of one metric; ``shared`` is what all comparisons of the models have.

    ``fitted``: the models as they are among one another, where that is known.
    """
    level, names, metric = shared["level"], [row.model for row in rows], rows[0].metric
    value, low, high = np.array([(row.value, *(row.interval or ())) for row in rows]).T
    down, up = _one_sided(value, low, high, level)
    together = _correlations(found, (down + up) / 2, shared["target"])
    factor, alike = _among_others(rows, fitted, shared)
    factor = np.clip(factor, 1 - _part(down, value), 1 + _part(up, value))
    centre, down, up = value * factor, down * factor, up * factor
    together = np.clip(together + alike - np.maximum(together, 0.0) * np.maximum(alike, 0.0), -1.0, 1.0)
    order = np.argsort(-centre, kind="stable")
    which = list(combinations(order, 2))
    raw = [
        _difference(float(centre[i] - centre[k]), (down[i], up[i]), (down[k], up[k]), together[i, k], level)
        for i, k in which
    ]
    adjusted = holm([each[-1] for each in raw])
    pairs = tuple(
        Difference(names[i], names[k], *each, float(p_holm))
        for (i, k), each, p_holm in zip(which, raw, adjusted, strict=True)
    )
    best = _best(centre, down, up, together)
    models = tuple(names[i] for i in order)
    correlations = {(names[i], names[k]): float(together[i, k]) for i, k in which}
    return Comparison(
        metric=metric, models=models, values={names[i]: float(value[i]) for i in order},
        intervals={names[i]: (float(low[i]), float(high[i])) for i in order},
        joint={names[i]: float(centre[i]) for i in order} if (factor != 1).any() else {},
        best={names[i]: float(best[i]) for i in order}, pairs=pairs, groups=_groups(models, pairs, level),
        naive={row.model: row.naive for row in rows if row.naive is not None},
        remedy=partial(_remedy, correlations=correlations), **shared,
    )  # fmt: skip


def _among_others(
    rows: Sequence[Row], fitted: Sequence[RankDistribution | None], shared: dict[str, Any]
) -> tuple[FloatArray, FloatArray]:
    """Return by which factor each value moves when models are fitted together, and how much their errors go together.

    How models that are near one another compare is taken from there, and their level from each alone: among models that are
    all near, factors have a geometric mean of one, and a model that is far from all others stays where it is. Errors go
    together as the draws of all models do, as far as they come from not knowing the rank distribution, and not from single
    cases or from the choice of cases.
    """
    metric = rows[0].metric
    factor, together = np.ones(len(rows)), np.zeros((len(rows), len(rows)))
    which, moved, logs, spreads = [], [], [], []
    for place, (row, each) in enumerate(zip(rows, fitted, strict=True)):
        if (
            each is None
            or each.posterior is None
            or metric.whole_auc
            or str(metric) in each.audit
            or row.interval is None
        ):
            continue
        there = each.expect(metric)
        if not (row.value > 0 and there > 0):  # one's own metric may be negative, or no number
            continue
        total, variance = each.posterior.total(metric, each.pool)
        part = total.var() / max(total.var() + variance.mean(), 1e-300)
        if shared["target"] == "population":
            low, high = shared["estimates"][row.model].interval(metric, level=shared["level"], target="cases")
            part *= min((high - low) / max(row.interval[1] - row.interval[0], 1e-300), 1.0) ** 2
        if part <= 0:  # nothing is open, or only which cases there are
            continue
        which.append(place)
        moved.append(there / row.value)
        logs.append(np.log(np.maximum(total, 1e-300)))
        spreads.append(math.sqrt(part))
    if len(which) < 2:
        return factor, together
    own = np.log([rows[place].value for place in which])
    near = np.exp(-0.5 * ((own[:, None] - own) / NEAR) ** 2)
    factor[which] = moved / np.exp(near @ np.log(moved) / near.sum(1))
    together[np.ix_(which, which)] = near * np.corrcoef(logs) * np.outer(spreads, spreads)
    np.fill_diagonal(together, 0.0)
    return factor, np.nan_to_num(together)


def _part(some: FloatArray, whole: FloatArray) -> FloatArray:
    """Return some/whole, and zero where there is nothing."""
    return np.divide(some, whole, out=np.zeros_like(whole), where=whole > 0)


def _one_sided(value: Any, low: Any, high: Any, level: float) -> tuple[Any, Any]:
    """Return the standard deviations below and above each value: intervals need not be symmetric."""
    z = z_of(level)
    return np.maximum(value - low, 0.0) / z, np.maximum(high - value, 0.0) / z


def _correlations(found: Sequence[Influence] | None, spread: FloatArray, target: str) -> FloatArray:
    out = np.eye(len(spread))
    if found is None:
        return out
    finite = np.where(np.isfinite(spread), spread, 0.0)
    scale = np.where(finite > 0, finite, 1.0)
    return np.where(out > 0, 1.0, covariances(found, finite, target) / np.outer(scale, scale))


def _difference(d: float, one: Pair, two: Pair, ρ: float, level: float) -> tuple[float, float, float, float, float]:
    """Return a difference, its limits, P(it is positive) and a p-value, from the spreads (below, above) of both models.

    MOVER: the lower limit needs the first's lower and the second's upper spread, and the other way round.
    """
    from scipy.special import ndtr

    below, above = _spread_below(one, two, ρ), _spread_below(two, one, ρ)
    z = z_of(level)
    if below == 0:
        return d, d, d + z * above, 0.5 if d == 0 else 1.0, 1.0 if d == 0 else 0.0
    return d, d - z * below, d + z * above, float(ndtr(d / below)), float(2 * ndtr(-d / below))


def _spread_below(one: Pair, two: Pair, ρ: float) -> float:
    """Return the standard deviation of a difference below its value, from those (below, above) of both models.

    Errors of their own meet on opposite sides, which is MOVER. What both share moves them to the same side, where a skewed
    error meets its like: there their means are compared. For symmetric intervals this is a² + b² − 2ρab.
    """
    if not np.isfinite([*one, *two]).all():
        return math.inf
    a, b = one[0], two[1]
    alike = (sum(one) - sum(two)) / 2
    squared = a * a + b * b - 2 * ρ * a * b if ρ <= 0 else (1 - ρ) * (a * a + b * b) + ρ * alike * alike
    return math.sqrt(squared) if squared < math.inf else math.inf  # where squares overflow, nothing is known


def _best(value: FloatArray, down: FloatArray, up: FloatArray, together: FloatArray) -> FloatArray:
    """Return how often each model comes out on top in joint draws of what the values may truly be."""
    roots, vectors = np.linalg.eigh(together)
    z = np.random.default_rng(0).standard_normal((DRAWS, len(value))) @ (vectors * np.sqrt(np.maximum(roots, 0.0))).T
    wide = 1e6  # stands for "anything": an interval without an end
    truth = value + z * np.where(z > 0, np.minimum(up, wide), np.minimum(down, wide))
    top = truth == truth.max(1, keepdims=True)
    return np.asarray((top / top.sum(1, keepdims=True)).mean(0))


def _groups(models: tuple[str, ...], pairs: tuple[Difference, ...], level: float) -> tuple[tuple[str, ...], ...]:
    """Group models: from the best down, one opens a group when it can be told apart from the first of the group above."""
    apart = {(each.model, each.other) for each in pairs if each.p_holm <= 1 - level}
    groups: list[list[str]] = []
    for model in models:
        if groups and (groups[-1][0], model) not in apart:
            groups[-1].append(model)
        else:
            groups.append([model])
    return tuple(tuple(group) for group in groups)


def _remedy(comparison: Comparison, pair: Difference, correlations: Mapping[tuple[str, str], float]) -> str:
    """Say what would separate two models, if they differ by as much as estimated and their errors go on to correlate so."""
    d, both = abs(pair.difference), (pair.model, pair.other)
    names = joined(both)
    metric, two = comparison.metric, [comparison.estimates[name] for name in both]
    # Holm asks more of a pair than the level alone: by as much as its p-value was raised
    z = z_of(1 - (1 - comparison.level) * (pair.p_value / pair.p_holm if pair.p_holm > 0 else 1.0))
    cases = 0.0
    if comparison.target == "population":
        one, other = (influences(each, [metric])[0] for each in two)
        least, cases = case_spread(one, other, comparison.paired)
        if z * cases >= d:
            surely = "Not even" if z * least >= d else "Perhaps not even"
            return (
                f"{surely} the full ranking of these cases would separate {names}: "
                f"about {ratio((z * cases / d) ** 2)} × as many cases would, if they differ by {d:.4f}."
            )
    N = max(each.counts.n_items for each in two)
    tried = ((factor, [each.counts.design.scaled(factor, round(N)) for each in two]) for factor in FACTORS)
    usable = list(takewhile(lambda each: None not in each[1], tried))
    # over the population, what correlates is the choice of cases, which more negatives leave as it is
    ρ = 0.0 if comparison.target == "population" else correlations.get(both, correlations.get(both[::-1], 0.0))
    moved = [comparison.joint.get(name, comparison.values[name]) / (comparison.values[name] or 1.0) for name in both]

    def separates(larger: tuple[float, list[Design]]) -> bool:
        spreads = (_foreseen(each, metric, design) for each, design in zip(two, larger[1], strict=True))
        one, other = ((below * by, above * by) for (below, above), by in zip(spreads, moved, strict=True))
        return z * math.hypot(_spread_below(one, other, ρ), cases) <= d

    first = bisect_left(usable, True, key=separates)  # the spread falls with the factor
    if first == len(usable):
        return f"Only the full ranking would separate {names}, if they differ by {d:.4f}."
    return f"About {usable[first][0]:g} × as many negatives would separate {names}, if they differ by {d:.4f}."


def _foreseen(estimate: Any, metric: Metric, design: Design) -> Pair:
    """Return standard deviations below and above the value, as a fit to the counts expected of another design has them.

    Where the estimator has no posterior, LogSpline is fitted in its place: the others take long over an interval.
    """
    if is_exhaustive(estimate.counts):
        return 0.0, 0.0
    estimator = LogSpline() if getattr(estimate, "posterior", None) is None else estimate.estimator
    fitted = estimator.fit(expected_counts(estimate, design))
    value, centre = estimate.expect(metric), fitted.expect(metric)
    scale = value / centre if centre > 0 and value > 0 else 1.0
    low, high = fitted.interval(metric, level=0.95, target="cases")
    below, above = _one_sided(centre, low, high, 0.95)
    return float(below) * scale, float(above) * scale
