"""Models of one catalogue, fitted together: each is then compared with the others under the same assumptions.

Fitted alone, every model is looked at through the recommenders that it most resembles, and what the prior gets wrong about a
catalogue it gets wrong about each model in another way. Models of one catalogue have much in common, though, and the prior
knows how much (:meth:`HyperPrior.for_models`). Fitted together, they share that part: an error in it moves all of them the
same way and leaves their order as it is. A model's own value, which does not depend on which others there are, stays as it
is; what is fitted together serves comparisons alone, and those of models that are near one another: how far apart unlike
models are, each says better for itself.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fullrank._threads import ONE_BLAS_THREAD
from fullrank.estimators.estimate import RankDistribution
from fullrank.estimators.posterior import Draws, Posterior, draw, law_of_each, weigh_members
from fullrank.estimators.problem import Estimate
from fullrank.estimators.splines import Outcomes

#: More models than this are compared as they are alone: the joint fit takes the cube of their number.
MOST_MODELS = 40


def fit_together(estimates: Sequence[Estimate]) -> list[RankDistribution | None]:
    """Fit again, together, those models whose samples allow it; ``None`` for the others.

    Their draws belong together: the n-th of one model and the n-th of another are of one world.
    """
    fits: list[RankDistribution | None] = [None] * len(estimates)
    alike = _alike(estimates)
    if not 1 < len(alike) <= MOST_MODELS:
        return fits
    posteriors = [each for _, _, each in alike]
    first = posteriors[0]
    data = _joined([each.data for each in posteriors])
    prior = first.prior.for_models(len(posteriors))
    with ONE_BLAS_THREAD:
        found = weigh_members(first.model, prior, np.arange(len(posteriors)), data, None)
        draws, _ = draw(found.members, first.model, data, exactly=False)
        laws = law_of_each(found.members, first.model, data)
    for row, (place, estimate, posterior) in enumerate(alike):
        own = replace(posterior, draws=Draws([draws.mass[row]], [draws.likely[row]]))
        fits[place] = replace(estimate, masses=laws[row][None], posterior=own)
    return fits


def _alike(estimates: Sequence[Estimate]) -> list[tuple[int, RankDistribution, Posterior]]:
    """The models of one target per user that are under one prior and on one grid, and whose samples it speaks of."""
    found: list[tuple[int, RankDistribution, Posterior]] = []
    for place, each in enumerate(estimates):
        if not isinstance(each, RankDistribution) or each.posterior is None:
            continue
        posterior = each.posterior
        if posterior.prior.common is None or len(posterior.data.seen) > 1 or posterior.needs_bounds:
            continue
        first = found[0][2] if found else posterior
        if posterior.prior is first.prior and np.array_equal(posterior.problem.grid.hi, first.problem.grid.hi):
            found.append((place, each, posterior))
    return found


def _joined(each: Sequence[Outcomes]) -> Outcomes:
    """What all models have seen, a stratum for each of them."""
    parts = [data.parts[0] for data in each]
    seen = np.zeros((len(parts), sum(len(row) for _, row in parts)))
    start = 0
    for stratum, (_, row) in zip(seen, parts, strict=True):
        stratum[start : start + len(row)] = row
        start += len(row)
    return Outcomes(np.concatenate([A for A, _ in parts], axis=1), seen)
