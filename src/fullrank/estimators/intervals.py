"""Intervals: what full evaluation of *these* cases would show, or of the population they come from.

Nothing is scored again. Two things are not known, and they add up (:func:`final_interval`, for every estimator): what
other negatives of these cases would show, and, of the population, what users who were not seen leave open of a mean of
bounded values (:func:`users_interval`). Ranks that are known leave nothing open of the first; an estimator without a
posterior is fitted again to counts simulated from a likelihood fit of P(R) and the design's law. Replicates are rows of
one problem: a hundred fits cost about as much as a few. :mod:`fullrank.estimators.bounds` assumes nothing about P(R).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fullrank._checks import check_choice
from fullrank._types import FloatArray, IntArray, Pair
from fullrank.estimators.problem import Estimate, Problem, Solve, Target, build_problem, size_shares
from fullrank.metrics import Metric
from fullrank.ranks.counts import PoolTable, RankCounts

REPLICATES = 100
#: How often a whole estimator is refitted where replicates of one problem cannot serve.
REFITS = 60
#: Pool sizes are merged into this many bins for replicates: the spread does not depend on finer ones.
REPLICATE_POOLS = 3
#: Part of a case by which limits of a share are moved outwards from Jeffreys' (½ would be Clopper and Pearson's).
SHIFT = 0.15
#: Correlation of the errors of a user's cases that are ranked among the same negatives: that of ranks R < S is √(R/S).
SHARED = 0.7


def check_interval(level: float, target: str) -> float:
    """Refuse a level or target that means nothing; return the level as a plain number, which can be written as JSON."""
    if not isinstance(level, int | float | np.integer | np.floating) or not 0 < level < 1:
        raise ValueError(f"`level` must be between 0 and 1, got {level!r}; 95 % is 0.95.")
    check_choice("target", target, ("cases", "population"))
    return float(level)


def reach(counts: RankCounts, metric: Metric, n_items: float, target: Target = "cases") -> Pair:
    """Σ weight · gain of the cases with every target at the last rank, and at the first: the least and the largest there is.

    These ``cases`` have their targets no further up than what was compared one by one leaves them, j + ahead.
    """
    order, targets, ahead, weight = counts.groups
    ahead = ahead * (target == "cases")
    if metric.function is None:
        worst, best = metric.gain(n_items, n_items, order, targets), metric.gain(1.0, n_items, order, targets, ahead)
    else:  # a metric of one's own may rise: it is asked at a thousand ranks
        ranks = np.unique(np.geomspace(1, max(n_items, 1.0), 1000).round())
        each = metric.gain(ranks, n_items, order[:, None], targets[:, None], ahead[:, None])
        worst, best = each.min(1), each.max(1)
    return float(weight @ worst), float(weight @ best)


def hull(*spans: Pair) -> Pair:
    """Return the least interval that holds all of these."""
    return min(low for low, _ in spans), max(high for _, high in spans)


def final_interval(
    estimate: Estimate,
    metric: Metric,
    value: float,
    span: Pair,
    level: float,
    target: Target,
    variance: float | None = None,
) -> Pair:
    """Return the interval around ``value`` that is reported, from the ``span`` the estimator gives for these cases.

    It reaches as far as cases say that were ranked in full and refute the estimate (``audit``). For the population the
    variances of what these cases leave open and of what their full ranking would, which are independent, add up. It is
    clipped to the values the metric can take; one of a user's own may take any.
    """
    found = getattr(estimate, "audit", {}).get(str(metric))
    if found is not None:
        span = hull(span, (found[0] - z_of(level) * found[1], found[0] + z_of(level) * found[1]))
    if target == "population":
        users = users_interval(estimate.counts, metric, value, level, variance)
        below, above = (float(np.hypot(value - one, value - other)) for one, other in zip(span, users, strict=True))
        span = value - below, value + above
    low, high = span
    if metric.function is not None or not np.isfinite(high - low):
        return span
    counts = estimate.counts
    best = reach(counts, metric, counts.n_items, target)[1] / counts.users_weight
    return max(low, min(value, 0.0)), min(high, max(value, best))


def users_interval(
    counts: RankCounts, metric: Metric, value: float, level: float, variance: float | None = None
) -> Pair:
    """What even the full ranking of these cases leaves open about the population of users they come from.

    A metric is a mean over users of values between its :func:`reach`, which makes it a share; cases add half a success and
    half a failure, so that users who all agree do not speak for everybody. The share has Beta limits with as many trials as
    give it its variance: for Recall those of Jeffreys, moved a part of the way to Clopper and Pearson's, which hold at any
    share. Users whose cases go together count for less: by their blocks' variance over that of independent cases, and with
    few blocks by Student's quantiles (Korn and Graubard 1998). ``variance``: Σ w²(gain − value/T)² over independent cases;
    None: the largest that the mean allows. A single block says nothing about others.
    """
    from scipy.special import betaincinv, stdtrit

    worst, best = (each / counts.users_weight for each in reach(counts, metric, counts.n_items, "population"))
    blocks = len(np.unique(counts.column("block")))
    if blocks < 2:
        return -np.inf, np.inf
    if best <= worst:
        return value, value
    users = counts.users_weight**2 / float((counts.square_weight / counts.column("targets")).sum())
    mean = float(np.clip((value - worst) / (best - worst), 0.0, 1.0))
    most = mean * (1 - mean)
    if variance is not None:
        most = min(most, max(variance, 0.0) * users / (counts.users_weight * (best - worst)) ** 2)
    tail = 0.5 + level / 2
    students = stdtrit(max(users - 1, blocks - 1), tail) / stdtrit(blocks - 1, tail)
    n = users / design_effect(counts, metric) * float(students) ** 2
    # half a user at either end
    centre = (n * mean + 0.5) / (n + 1)
    spread = n * (most + (mean - centre) ** 2) + 0.5 * (centre**2 + (1 - centre) ** 2)
    trials = max(centre * (1 - centre) * (n + 1) ** 2 / spread, 1.0)
    a, b = trials * centre, trials * (1 - centre)
    low = float(betaincinv(max(a - SHIFT, 1e-9), b + SHIFT, 1 - tail)) if mean > 0 else 0.0
    high = float(betaincinv(a + SHIFT, max(b - SHIFT, 1e-9), tail)) if mean < 1 else 1.0
    return hull((worst + low * (best - worst), worst + high * (best - worst)), (value, value))


def design_effect(counts: RankCounts, metric: Metric) -> float:
    """How much more the mean varies between user blocks, outcomes taken as ranks, than between cases; at least 1."""
    gain, targets = cell_gains(counts, metric), counts.column("targets")
    left = gain - float(counts.weight @ gain) / counts.users_weight / targets
    alone = float(counts.square_weight @ left**2)
    if alone <= 1e-20 * float(counts.square_weight @ np.maximum(gain**2, 1e-300)):  # all gains are equal
        return 1.0
    blocks, which = np.unique(counts.column("block"), return_inverse=True)
    together = np.bincount(which.ravel(), counts.weight * left)
    M = len(counts)
    return max(len(blocks) / (len(blocks) - 1) * float(together @ together) / (M / (M - 1) * alone), 1.0)


def cell_gains(counts: RankCounts, metric: Metric, n_items: float | None = None) -> FloatArray:
    """The gain of a case in each cell of the counts, its outcome taken as its rank.

    It is a rank among ``n_items`` or the case's own candidates; AUC among these is known whatever the outcome.
    """
    targets = counts.column("targets")
    if metric.whole_auc and n_items is None:
        return np.asarray(counts.auc_weight / counts.weight / targets)
    pool = counts.pool_weight / counts.weight if n_items is None else n_items
    return metric.gain(counts.above + 1, pool, counts.column("order"), targets)


def simulated(problem: Problem, solve: Solve, size: int = REPLICATES) -> tuple[Problem, FloatArray]:
    """Return fits to counts drawn from a likelihood fit of P(R) and the design's law, the ranks held fixed.

    They are of the problem on a rough grid, which comes with them: replicates × strata × cells.
    Given the ranks, p̃ has covariance Σ_R P̂(R)(diag a_R − a_R a_Rᵀ)/M; it is drawn by stratified sampling of ranks: each
    case takes its own quantile of P̂, so that P̂ itself hardly varies between replicates; its sample has one of the sizes that
    its stratum has, as often as they are there. P̂ is MLE's whatever the estimator:
    a signed or tilted one is no distribution that such data come from.
    """
    from fullrank.estimators.likelihood import em

    problem, rng = problem.coarser(REPLICATE_POOLS), np.random.default_rng(0)
    centre, _ = em(problem, 50)
    tables = []
    for table, law in zip(problem.tables, problem.laws, strict=True):
        weight = np.zeros((size, *table.weight.shape))
        for row, total in enumerate(table.weight.sum(1)):
            if total <= 0:
                continue
            cases = max(round(total / problem.counts.mean_weight), 1)
            number = np.diff(np.round(np.cumsum(centre[row]) * cases), prepend=0).astype(np.int64)
            used = np.flatnonzero(number > 0)
            share = size_shares(problem.counts, table, table.weight[row])
            if problem.all_outcomes:  # the laws have the shares of all strata
                share = share / size_shares(problem.counts, table)
            here = np.flatnonzero(share > 0)
            drawn = _drawn_from(law[np.ix_(used, here)], number[used], rng, size, share[here])
            # all its outcomes unseen: no sample to learn from
            drawn[drawn.sum(1) == 0] = np.round(table.weight[row, here])
            weight[:, row, here] = drawn * (total / cases)
        tables.append(replace(table, weight=weight.reshape(-1, len(table.hits))))
    fitted, _ = solve(replace(problem, tables=tables))
    return problem, fitted.reshape(size, -1, len(problem.grid))


def z_of(level: float) -> float:
    """How many standard errors an interval at ``level`` reaches to each side."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def replicate_interval(values: FloatArray, value: float, level: float) -> Pair:
    """Return the estimate ± z standard deviations of the replicates.

    Their mean differs from the estimate by the estimator's own bias, which is no part of an interval around it.
    """
    half = z_of(level) * float(values.std(ddof=1))
    return value - half, value + half


def refit_interval(estimate: Estimate, metric: Metric, level: float) -> Pair:
    """Refit the whole estimator, its prior included, to counts simulated from MLE's P̂.

    For estimates that replicates of one problem cannot serve: those without masses (CLS, Mapping), those whose outcomes are
    taken as ranks (Naive, RankEstimate), and those whose prior is itself fitted to the sample (MN_MLE and its kin).
    """
    if estimate not in _REFITTED:
        fits: Iterator[Any] = map(estimate.estimator.fit, _samples(estimate.counts))
        # without what they would need to be fitted again, which is most of their memory
        _REFITTED[estimate] = [replace(e, refit=None, posterior=None) if hasattr(e, "refit") else e for e in fits]
    values = np.array([each.expect(metric) for each in _REFITTED[estimate]])
    return replicate_interval(values, estimate.expect(metric), level)


def auc_interval(counts: RankCounts, level: float) -> Pair:
    """What the full ranking of these cases would show of AUC, where it comes from the counts and not from a fit."""
    from scipy.special import stdtrit

    if counts.has_compared_part:
        # few closed cases stand for many, and how many items beat them is skewed: on the log scale, with Student's quantile
        error, number = _compared_auc_error(counts)
        lost = max(1 - counts.auc, 1e-12)
        factor = float(np.exp(stdtrit(number, 0.5 + level / 2) * error / lost))
        return max(1 - lost * factor, 0.0), min(1 - lost / factor, 1.0)
    targets = counts.column("targets")
    # Σ of the squared weights of cases in the mean over users; errors of one user's go together, by negatives they share
    each = counts.square_weight / targets**2 * (1 - SHARED + SHARED * targets)
    if counts.design.plain:
        size = counts.pool_weight / counts.weight - 1
        within = np.where(counts.all_compared, 0.0, _beaten_variance(counts, size, counts.design.replace))
        half = z_of(level) * float(np.sqrt(each @ within)) / counts.users_weight
        return counts.auc - half, counts.auc + half
    values = np.array([sample.auc for sample in _samples(counts, counts.users_weight**2 / float(each.sum()))])
    return replicate_interval(values, counts.auc, level)


def _beaten_variance(counts: RankCounts, size: FloatArray, replace: bool = False) -> FloatArray:
    """The variance of the share of negatives that beat a case's target, by cells; of ``size`` there are to draw from."""
    drawn, hits = (counts.column(name).astype(np.float64) for name in ("drawn", "hits"))
    share = (hits + 0.5) / (drawn + 1)
    left = 1.0 if replace else np.clip(1 - drawn / np.maximum(size, 1), 0, 1)
    return np.asarray(share * (1 - share) * left / np.maximum(drawn, 1))


def _compared_auc_error(counts: RankCounts) -> Pair:
    """Return AUC's standard error behind a compared part, of samples and closed cases, and its degrees of freedom."""
    drawn, rest = counts.column("drawn"), counts.column("rest")
    size = counts.pool_weight / counts.weight - 1 - counts.compared_weight / counts.weight  # of the rest
    whole = counts.pool_weight / counts.weight - 1
    sampled = (rest > 0) & (drawn > 0)
    within = np.where(sampled, (size / np.maximum(whole, 1)) ** 2 * _beaten_variance(counts, size), 0.0)
    unknown, closed = np.isnan(counts.auc_weight), counts.closed_early
    users = counts.weight / counts.column("targets")
    each = counts.square_weight / counts.column("targets") ** 2
    stand = closed & ~unknown
    factor = users[closed].sum() / users[stand].sum() if unknown.any() and stand.any() else 1.0
    total = float((np.where(stand, factor**2, 1.0) * each * within).sum())
    number = max(float(counts.cases[stand if factor > 1 else ~unknown].sum()), 2.0)
    if factor > 1:
        value = (counts.auc_weight / counts.weight)[stand]
        mean = np.average(value, weights=users[stand])
        spread = float(each[stand] @ (value - mean) ** 2) * number / (number - 1)
        total += factor**2 * (1 - 1 / factor) * spread
    return float(np.sqrt(total)) / counts.users_weight, number - 1


#: Refits of estimates that still exist: one set serves every metric.
_REFITTED: WeakKeyDictionary[Estimate, list[Estimate]] = WeakKeyDictionary()


def _samples(counts: RankCounts, cases: float | None = None) -> Iterator[RankCounts]:
    """Counts as they might have been: of the same cases with other negatives, or of so many ``cases`` of equal weight."""
    from fullrank.estimators.likelihood import MLE

    problem = build_problem(counts, "mean")
    pilot = MLE(n_items="mean").fit(counts)
    (table,), (law,) = problem.tables, problem.laws
    centre = np.average(np.maximum(pilot.masses, 0), axis=0, weights=problem.group_weight)
    # whole cases per rank that add up to all of them: rounded one by one, few cases over many ranks would come to none
    cases = max(round(cases or counts.effective_cases), 1)
    number = np.diff(np.round(np.cumsum(centre) / centre.sum() * cases), prepend=0).astype(np.int64)
    for drawn in _drawn_from(law, number, np.random.default_rng(0), REFITS, size_shares(counts, table)):
        # all its outcomes unseen: no sample to learn from
        seen = drawn if drawn.any() else np.ceil(table.weight.sum(0)).astype(np.int64)
        yield RankCounts.from_outcomes(
            np.repeat(table.drawn, seen), np.repeat(table.hits, seen), round(counts.n_items), counts.design,
            candidates=counts.candidates,
        )  # fmt: skip


def _drawn_from(law: FloatArray, number: IntArray, rng: np.random.Generator, size: int, share: FloatArray) -> IntArray:
    """``size`` times: how often each outcome of ``law`` is seen when ``number`` cases have each rank.

    ``share`` of the cases whose samples have the size of the outcome. Where sizes differ, outcomes are far more than cases,
    and of most sizes few were seen: a case has one of those, and is lost only where none is possible at its rank.
    """
    if (share == 1).all():
        lost = np.maximum(1.0 - law.sum(1, keepdims=True), 0.0)
        shares = np.concatenate([law, lost], axis=1)
        shares /= shares.sum(1, keepdims=True)
        return np.stack([rng.multinomial(number, shares).sum(0)[:-1] for _ in range(size)])
    ends, width = np.cumsum(law * share, axis=1), law.shape[1] + 1  # the last outcome: lost
    ends /= np.where(ends[:, -1:] > 0, ends[:, -1:], 1.0)
    lines = np.arange(size)[:, None] * width
    found = [
        (lines + np.searchsorted(line, rng.random((size, times)), side="right")).ravel()
        for line, times in zip(ends, number.tolist(), strict=True)
    ]
    return np.bincount(np.concatenate(found), minlength=size * width).reshape(size, width)[:, :-1]


def columns_of(table: PoolTable, drawn: IntArray, hits: IntArray) -> IntArray:
    """Return the column of each outcome in a table (nearest where merging of pools moved it)."""
    radix = int(max(table.hits.max(initial=0), hits.max(initial=0))) + 2
    keys = table.drawn * radix + table.hits
    order = np.argsort(keys)
    place = np.searchsorted(keys[order], drawn * radix + hits)
    return np.asarray(order[np.minimum(place, len(order) - 1)])
