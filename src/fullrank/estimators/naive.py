"""What sampled evaluation usually reports, and its simplest repair (kr20 §4, §5.1)."""

from dataclasses import dataclass

import numpy as np

from fullrank.estimators.estimate import RankDistribution, empirical, taken_as_known
from fullrank.estimators.problem import is_exhaustive, refuse_unordered
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL


@dataclass(frozen=True)
class Naive:
    """Σ p̃(r) M(r): the metric of the sampled ranks as if they were ranks (kr20 §4). No correction; biased.

    >>> import fullrank as fr
    >>> counts = fr.RankCounts.from_ranks([1, 1, 2, 30], n_items=10_000, design="uni99")
    >>> fr.Naive().fit(counts).expect("recall@1")
    0.5
    """

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return the distribution of sampled ranks; AUC and uncut Precision count the sample as all there is."""
        if is_exhaustive(counts):
            return empirical(self, counts)
        refuse_unordered(counts, "Naive")
        sizes = counts.sizes
        return taken_as_known(self, counts, counts, float(sizes[0] + 1) if len(sizes) == 1 else None)


@dataclass(frozen=True)
class RankEstimate:
    """M at the unbiased estimate of the rank, 1 + (N−1)(r−1)/(n−1) (kr20 eq. 20), per case.

    The estimate is rounded down, as in the paper's experiments; ``interpolate`` takes M linearly between the two whole
    ranks instead (kr20 §5.1). With every candidate sampled it is the rank itself.
    """

    interpolate: bool = False

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return each outcome's mass put at its estimated rank."""
        if is_exhaustive(counts):
            return empirical(self, counts)
        refuse_unordered(counts, "RankEstimate")
        sizes, pool = counts.pools
        m, x = counts.outcomes.T
        R = 1 + np.where(m == ALL, x, (sizes[pool] - 1) * x / np.maximum(m, 1))
        R = np.where(np.abs(R - np.round(R)) < 1e-9, np.round(R), R)  # 1 + 3541·(99/99) must not floor to 3541
        low = np.floor(R).astype(np.int64)
        up = R - low if self.interpolate else np.zeros(len(R))
        at = counts.at_ranks(low, 1 - up)
        if up.any():
            at = at + counts.at_ranks(low + 1, up)
        return taken_as_known(self, counts, at, None if counts.varying_pool else counts.n_items)
