"""How the errors of several models correlate: what the same cases and the same negatives show of a difference.

Counts keep user blocks, the same for every model, but not which negatives were drawn. What each block adds to an estimate
is therefore known (its *influence*: the change of the estimate when the block weighs a little more), and so is the
covariance of two estimates over the population of users. How much of it is due to the *negatives* is known from below: of
the covariance C of two influences per case, at most √(B₁B₂) can come from the cases themselves, B the variance of the
mean influence given the rank; the rest must be shared negatives. Independent samples leave no rest, unlike models hardly
any, and variants of one model most of it. What cannot be shown is taken as zero: the interval of a difference is then too
wide, never too narrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from fullrank._types import FloatArray, Pair
from fullrank.estimators import MLE, Estimate, RankDistribution
from fullrank.estimators._grid import Grid
from fullrank.estimators.intervals import cell_gains
from fullrank.estimators.problem import is_exhaustive
from fullrank.metrics import Metric
from fullrank.ranks.counts import BLOCKS, RankCounts, unique_rows
from fullrank.ranks.design import Design

#: Log-densities of ranks move along this many hat functions of log R: each by about ``REACH``, and smoothly (the penalty on
#: second differences of the P-spline). So chosen, influences go with refits of LogSpline (tests).
HATS, REACH, SMOOTH = 12, 0.5, 100.0
#: Fewer user blocks than this say nothing about a correlation of shared negatives, and little about one of users.
FEWEST_BLOCKS = 20


@dataclass(frozen=True, eq=False)
class Influence:
    """What user blocks add to an estimate, beyond its mean, and where its variance comes from."""

    blocks: FloatArray  # one number per block: they sum to zero
    sampled: float  # of the variance of a case's influence, the part that is left when its rank is known

    @property
    def spread(self) -> float:
        """The standard error over the population, as blocks show it."""
        return float(np.sqrt(self.blocks @ self.blocks))


def same_cases(counts: Sequence[RankCounts]) -> bool:
    """Tell whether all models were evaluated on the same cases, as far as counts show it: as many of each user block."""
    seen = [np.bincount(each.column("block"), each.weight, BLOCKS) for each in counts]
    return all(np.allclose(each, seen[0], rtol=1e-9) for each in seen[1:])


def influences(estimate: Estimate, metrics: Sequence[Metric]) -> list[Influence]:
    """Return the influence of user blocks on each metric.

    An estimate is taken as Σ_o share(o) E[gain | o]: a block changes the shares, and, through the likelihood of a spline in
    log R, the rank distribution behind E[gain | o]. Both at first order, on a coarse grid and at the mean pool size: this
    serves correlations.
    """
    counts = estimate.counts
    shape = None if all(metric.whole_auc for metric in metrics) or is_exhaustive(counts) else _Shape(estimate)
    users = np.bincount(counts.column("block"), counts.weight / counts.column("targets"), BLOCKS)
    out = []
    for metric in metrics:
        if shape is None or metric.whole_auc:  # every case shows it: known ranks, and AUC whatever the sample
            each, sampled = cell_gains(counts, metric), 0.0
        else:
            each, sampled = shape.influence(metric)
        total = np.bincount(counts.column("block"), counts.weight * each, BLOCKS)
        blocks = (total - users * (total.sum() / users.sum())) / users.sum()
        out.append(Influence(blocks, sampled))
    return out


def covariances(found: Sequence[Influence], spreads: FloatArray, target: str) -> FloatArray:
    """Covariance matrix of the errors of models evaluated on the same cases, their standard errors given.

    What an influence explains of a standard error goes together as blocks show it (``population``, a little less where they
    are few), or as little as it can (``cases``, see above); the rest of the error is taken as each model's own.
    """
    out = np.diag(spreads**2)
    number = int((np.abs(np.array([each.blocks for each in found])).sum(0) > 0).sum())
    for (i, one), (k, two) in combinations(enumerate(found), 2):
        both = one.spread * two.spread
        if both <= 0 or (target == "cases" and number < FEWEST_BLOCKS):
            continue
        together = float(np.clip(one.blocks @ two.blocks / both, -1.0, 1.0))
        parts = np.array([one.spread, two.spread])
        if target == "cases" or number < FEWEST_BLOCKS:
            together = _on_the_safe_side(together, number)
        if target == "cases":
            shared = together - np.sqrt((1 - one.sampled) * (1 - two.sampled))
            within = np.sqrt(one.sampled * two.sampled)
            together = float(np.clip(shared / within, 0.0, 1.0)) if within > 0 else 0.0
            parts = parts * np.sqrt([one.sampled, two.sampled])
        sampled = one.sampled + two.sampled > 0  # else all ranks are known, and the influence is all there is
        parts = np.minimum(parts, spreads[[i, k]]) if sampled else spreads[[i, k]]
        out[i, k] = out[k, i] = together * parts[0] * parts[1]
    return out


def _on_the_safe_side(correlation: float, blocks: int) -> float:
    """Return a correlation that so many blocks show, less one standard error (Fisher's z), since it is itself uncertain.

    Two blocks always show −1 or 1, whatever the models, and three have no standard error: they prove no going together.

    >>> round(_on_the_safe_side(0.9, 19), 2), _on_the_safe_side(1.0, 2), _on_the_safe_side(-1.0, 2)
    (0.84, 0.0, -1.0)
    """
    if blocks <= 3:
        return min(correlation, 0.0)
    return float(np.tanh(np.arctanh(np.clip(correlation, -1 + 1e-9, 1 - 1e-9)) - 1 / np.sqrt(blocks - 3)))


def case_spread(one: Influence, two: Influence, paired: bool) -> Pair:
    """Return the standard error over the population that a difference keeps when all ranks are known: least, and likely.

    Ranks explain B of each influence's variance; how they go together is seen through the noise of sampling.
    """
    number = max(int((np.abs(one.blocks) + np.abs(two.blocks) > 0).sum()), 2)
    B = [each.spread * np.sqrt(1 - each.sampled) for each in (one, two)]
    if not paired or B[0] * B[1] <= 0:
        return float(np.hypot(*B)), float(np.hypot(*B))
    seen = float(one.blocks @ two.blocks) / (B[0] * B[1])
    noise = 0.0 if one.sampled == two.sampled == 0 else 2 * one.spread * two.spread / np.sqrt(number) / (B[0] * B[1])
    ρ = np.clip([seen + noise, seen], 0.0, 1.0)
    least, guess = np.sqrt(B[0] ** 2 + B[1] ** 2 - 2 * ρ * B[0] * B[1])
    return float(least), float(guess)


def expected_counts(estimate: Estimate, design: Design) -> RankCounts:
    """Return the counts to expect had another design sampled the same cases: P̂(R) times its law, in whole cases."""
    shape, counts = _Shape(estimate), estimate.counts
    N = round(counts.n_items)
    drawn, hits = design.outcomes(N)
    likely = shape.π @ shape.grid.law(design, N, drawn, hits)
    M = max(round(counts.effective_cases), 1)
    edges = np.round(np.cumsum(likely) / likely.sum() * M).astype(np.int64)
    number = np.diff(edges, prepend=0)
    drawn, hits = np.repeat(drawn, number), np.repeat(hits, number)
    return RankCounts.from_outcomes(drawn, hits, N, design, candidates=counts.candidates)


class _Shape:
    """The distribution of an estimate on a coarse grid, and what each outcome shows of it.

    MLE's distribution is taken where the estimate has none or takes outcomes as ranks.
    """

    def __init__(self, estimate: Estimate) -> None:
        self.counts = counts = estimate.counts
        has_one = isinstance(estimate, RankDistribution) and len(estimate.grid)
        dist: Any = estimate if has_one else MLE(n_items="mean").fit(counts)
        N = int(np.ceil(counts.pool_range[1]))
        self.grid = grid = Grid.logarithmic(N, 100, 200)
        weight = np.bincount(dist.rows, dist.fitted.groups.weight)
        π = np.maximum(dist.grid.moved(np.average(dist.masses, axis=0, weights=weight), grid), 1e-12)
        self.π = π / π.sum()
        outcomes, self.outcome = unique_rows(counts.outcomes)  # those there are, and that of every cell of the counts
        self.A = grid.law(counts.design, counts.n_items, outcomes[:, 0], outcomes[:, 1])  # cells × outcomes
        x = 0.5 * (np.log(grid.lo) + np.log(grid.hi)) / max(np.log(N), 1e-9) * (HATS - 1)
        self.hats = np.maximum(1 - np.abs(x[:, None] - np.arange(HATS)), 0.0)

    def influence(self, metric: Metric) -> tuple[FloatArray, float]:
        """ψ of every cell of the counts, and the share of its variance that is left when ranks are known."""
        counts, π, A, B = self.counts, self.π, self.A, self.hats
        likely = np.maximum(π @ A, 1e-300)
        pooled, _ = self.grid.pooled_gains(metric, counts.n_items, counts.groups, counts.strata)
        gains = pooled / np.bincount(counts.strata, counts.groups.weight)[:, None]  # averaged over (j, T)
        strata = counts.strata[counts.group_of]
        share = np.zeros((len(gains), A.shape[1]))
        np.add.at(share, (strata, self.outcome), counts.weight / counts.weight.sum())
        expected = ((π * gains) @ A) / likely  # E[gain | outcome], strata × outcomes
        hats = (A.T @ (B * π[:, None])) / likely[:, None]
        scores = hats - π @ B
        seen, M = share.sum(0), counts.effective_cases
        information = M * (scores * seen[:, None]).T @ scores
        slope = np.zeros(HATS)
        for row, gain in enumerate(gains):
            moved = (A.T @ (B * (π * gain)[:, None])) / likely[:, None] - expected[row][:, None] * hats
            slope += share[row] @ moved
        bend = np.diff(np.eye(HATS), 2, axis=0)
        held = np.eye(HATS) / REACH**2 + SMOOTH * bend.T @ bend
        through = M * scores @ np.linalg.solve(information + held, slope)
        ψ = (share * expected).sum(0) / np.maximum(seen, 1e-300) + through
        kept = np.maximum(A.sum(1), 1e-300)
        given, squared = (A @ ψ) / kept, (A @ ψ**2) / kept
        total = π @ squared - (π @ given) ** 2
        left = π @ (squared - given**2)
        sampled = float(np.clip(left / total, 0.0, 1.0)) if total > 0 else 0.0
        return expected[strata, self.outcome] + through[self.outcome], sampled
