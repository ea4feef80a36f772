"""LogSpline: the default. Smooth in log-rank, with a prior learned from the rank distributions of real recommenders.

The model: π_R ∝ exp(s(x))/R with x = log R / log N and s a cubic spline (``splines.py``). A straight s is the power law of
li20, a very flexible one is jin21's MLE: one family holds both. Which shapes are likely is learned from the true ranks of
many recommenders on many catalogues (``hyperprior.py``).

Fitting: under every member of the prior (a kind of recommender at a scale) the posterior mode by Newton and the evidence by
Laplace's approximation. Draws of all members, weighed by importance, take one EM step towards the data (jin21 eq. 21), after
which cases whose rank is known count at that rank. Estimates are those that err least relative to the truth among the draws,
which lie below the middle of what is likely; intervals are the draws' quantiles (``posterior.py``).

Two members stand for rank distributions of any shape. Where the evidence is not clearly against them, what was seen does not
look like any recommender behind the prior: the fit says so, and its intervals reach as far as the assumption-free bounds.
Where a distribution without any smoothness explains the sample much better, it says so too and stretches its intervals.
"""

from dataclasses import dataclass, replace

import numpy as np

from fullrank._threads import ONE_BLAS_THREAD
from fullrank._types import IntArray
from fullrank.estimators.estimate import RankDistribution, empirical, taken_as_known
from fullrank.estimators.hyperprior import HyperPrior, bins_of, compared_trend, guide_lift, shipped
from fullrank.estimators.posterior import MANY_STRATA, Posterior
from fullrank.estimators.problem import Fit, build_problem, is_exhaustive
from fullrank.estimators.splines import Outcomes, SplineModel
from fullrank.ranks.counts import LEAD_BINS, MAX_POOLS, RankCounts

#: Bins of pool sizes where strata are many.
FEW_POOLS = 3
#: Width of cells as a share of the rank: a spline is smooth.
COARSENESS = 0.02
#: A guide whose items beat the target less often than this many times as random ones do led nowhere.
USELESS_LIFT = 1.5


@dataclass(frozen=True)
class LogSpline:
    """Smooth in log-rank, under a prior learned from real recommenders. Works on every design; milliseconds to fit.

    ``prior``: ``None``, the one shipped with fullrank for the candidates of the counts (``counts.candidates``) and for one
    or several targets per user, or a :class:`HyperPrior` of your own.

    >>> import fullrank as fr
    >>> counts = fr.RankCounts.from_ranks([1] * 60 + [2] * 20 + [5] * 15 + [40] * 5, n_items=5000, design="uni99")
    >>> dist = fr.LogSpline().fit(counts)
    >>> low, high = dist.interval("recall@10")
    >>> low < dist.expect("recall@10") < high
    True
    """

    prior: HyperPrior | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prior, HyperPrior | None):
            raise TypeError(f"`prior` must be a HyperPrior or None, got {self.prior!r}.")

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return the posterior mean of the cases' rank distribution, with the posterior for intervals."""
        if is_exhaustive(counts):
            return empirical(self, counts)
        compared = counts.has_compared_part
        known, fitted = counts.sampled_part() if compared else (None, counts)
        if fitted is None or fitted.all_compared.all():  # the others are closed, or their rest was compared after all
            return taken_as_known(self, counts, counts, None)
        prior, group_bins = self._prior_of(counts, fitted)
        bins, strata = np.unique(group_bins, return_inverse=True)
        many = len(bins) > MANY_STRATA
        most, coarseness = (FEW_POOLS, None) if many else (MAX_POOLS, COARSENESS)
        problem = build_problem(fitted, most=most, strata=strata, smooth=many, coarseness=coarseness)
        data = Outcomes(
            np.concatenate(problem.laws, axis=1),
            # what weighs against the prior is cases, not weights
            np.concatenate([table.weight for table in problem.tables], axis=1)
            * (fitted.effective_cases / fitted.weight.sum()),
        )
        trend = compared_trend(counts) if compared else None
        guided = compared and bool(counts.design.compares)
        with ONE_BLAS_THREAD:
            model = SplineModel.on(problem.grid, prior.coefficients)
            posterior = Posterior.of(problem, model, prior, bins, data, trend, guided)
            # where a design goes on, the cases that matter tell more than any other prior
            if prior.follows is not None and counts.design.plain and not (compared and counts.several_targets):
                posterior = posterior.following(*prior.follows)
        if guided:
            posterior = replace(posterior, led_nowhere=guide_lift(counts) < USELESS_LIFT)
        # AUC comes from the counts where one fit at one number of candidates does not speak for all cases
        alike = len(problem.tables) == 1 and not (compared or counts.several_targets or posterior.needs_bounds)
        single = problem.tables[0].n_items if alike else None
        fit = Fit(posterior.steps, posterior.evidence, posterior.converged, posterior.notes())
        return RankDistribution(
            counts, self, problem.grid, posterior.mass, single, fit, known, posterior=posterior, strata=strata
        )

    def _prior_of(self, counts: RankCounts, fitted: RankCounts) -> tuple[HyperPrior, IntArray]:
        """The prior for these counts, and its bin for each group of cases."""
        if counts.has_compared_part:
            prior = self.prior or shipped(self.prior_of(counts))
            if len(prior.kinds[0].means) != LEAD_BINS:
                raise ValueError(
                    "`prior` must be one for a compared part: it has other bins than those of what is ahead."
                )
            return prior, fitted.lead_bins
        if self.prior is not None and len(self.prior.kinds[0].means) == LEAD_BINS:
            raise ValueError("`prior` must not be one for a compared part: these counts have none.")
        several = counts.several_targets
        prior = self.prior or shipped(self.prior_name(counts.candidates, several))
        if several and len(prior.kinds[0].means) == 1:
            prior = prior.for_several(shipped("several"))
        order, targets, _, _ = counts.groups
        if len(prior.kinds[0].means) > 1:
            return prior, bins_of(order, targets)
        return prior, np.zeros(len(order), dtype=np.int64)

    def prior_of(self, counts: RankCounts) -> str:
        """Name the prior that speaks for these counts: behind a compared part ``guided``, ``patient`` or ``compared``."""
        if counts.has_compared_part and self.prior is None:
            if counts.design.goes_on:
                return "patient"
            return "guided" if counts.design.compares else "compared"
        return self.prior_name(counts.candidates, counts.several_targets)

    def prior_name(self, candidates: str, several_targets: bool = False) -> str:
        """Name the prior for ranks among these candidates: ``all``, ``unseen``, ``several`` or one's ``own``.

        Ranks of several targets per user have been seen among unseen candidates only; among ``all`` the prior for one target
        takes over from there how the j-th best of T differs from the only one.
        """
        if self.prior is not None:
            return "own"
        if candidates == "all":
            return "all"
        return "several" if several_targets else "unseen"
