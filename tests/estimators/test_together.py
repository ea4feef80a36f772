"""Models of one catalogue, fitted together: against a dense second way, exactness, and simulation with a known truth."""

from dataclasses import replace

import numpy as np
import pytest

import fullrank as fr
from fullrank.estimators._grid import Grid
from fullrank.estimators.hyperprior import shipped
from fullrank.estimators.splines import SplineModel
from fullrank.estimators.together import MOST_MODELS, fit_together

N = 3000
NDCG = fr.NDCG @ 10


def sampled(ranks, rng, negatives=99):
    return fr.RankCounts.from_ranks(1 + rng.binomial(negatives, (ranks - 1) / (N - 1)), N, f"uni{negatives}")


def like_recommenders(rng, models, cases=2000):
    """True ranks of models of one catalogue, drawn from what the prior says is common, at half its scale."""
    prior = replace(shipped("unseen"), scales=((0.5, 1.0),)).for_models(models)
    [(_, mean, Q, _)] = prior.members(np.arange(models), N)
    β = rng.multivariate_normal(mean.ravel(), np.linalg.inv(Q)).reshape(mean.shape)
    π = SplineModel.on(Grid.dense(N), prior.coefficients).mass(β)
    return [1 + rng.choice(N, size=cases, p=each) for each in π]


def fits(ranks, rng, prior=None):
    return [fr.LogSpline(prior).fit(sampled(each, rng)) for each in ranks]


def test_the_joint_precision_is_the_inverse_of_the_dense_covariance():
    prior = shipped("unseen")
    own, shared = prior.common.covariance, prior.common.shared
    dense = np.block([[own + shared if i == k else shared for k in range(3)] for i in range(3)])
    for (factor, _), (_, mean, Q, log_det) in zip(
        prior.scales, prior.for_models(3).members(np.arange(3), 5000), strict=True
    ):
        np.testing.assert_allclose(Q @ (factor * dense), np.eye(len(dense)), atol=1e-6)
        assert log_det == pytest.approx(-np.linalg.slogdet(factor * dense)[1])
        assert (mean == mean[0]).all()


def test_models_that_share_nothing_are_fitted_as_each_alone(rng):
    prior = shipped("unseen")
    nothing = replace(prior.common, shared=np.zeros_like(prior.common.shared))
    prior = replace(prior, scales=((1.0, 1.0),), common=nothing, trust=1.0)
    alone = replace(prior, kinds=(replace(nothing, shared=None),), common=None)
    ranks = like_recommenders(rng, 3)
    seeds = [np.random.default_rng(each) for each in range(3)]
    counts = [sampled(each, seed) for each, seed in zip(ranks, seeds, strict=True)]
    together = fit_together([fr.LogSpline(prior).fit(each) for each in counts])
    for each, found in zip(counts, together, strict=True):
        posterior = fr.LogSpline(alone).fit(each).posterior
        # of the mode under the one Gaussian there is, a step closer to the data; shapes of any kind have no part in either
        law = posterior.typical[0]
        A, seen = posterior.data.parts[0]
        naive = law * (A @ (seen / (law @ A))) / seen.sum()
        np.testing.assert_allclose(found.masses[0], naive, rtol=2e-3, atol=1e-9)


def test_ratios_of_models_drawn_from_the_prior_err_less_together_than_alone():
    errors = {"alone": [], "together": []}
    for seed in range(12):
        rng = np.random.default_rng([seed, 3])
        ranks = like_recommenders(rng, 3)
        truth = np.log([NDCG.gain(each).mean() for each in ranks])
        alone = fits(ranks, rng)
        for name, some in (("alone", alone), ("together", fit_together(alone))):
            found = np.log([each.expect(NDCG) for each in some])
            errors[name] += [abs(found[i] - found[k] - truth[i] + truth[k]) for i, k in ((0, 1), (0, 2), (1, 2))]
    assert np.mean(errors["together"]) < 0.95 * np.mean(errors["alone"])


def test_differences_of_models_drawn_from_the_prior_are_covered_and_their_values_are_their_own():
    held = pairs = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 4])
        ranks = dict(zip("ABC", like_recommenders(rng, 3), strict=True))
        counts = {name: sampled(each, rng) for name, each in ranks.items()}
        found = fr.compare(counts, NDCG)
        for name, each in counts.items():
            assert found.values[name] == fr.LogSpline().fit(each).expect(NDCG)
        for pair in found.pairs:
            true = NDCG.gain(ranks[pair.model]).mean() - NDCG.gain(ranks[pair.other]).mean()
            pairs += 1
            held += pair.low <= true <= pair.high
    assert held >= 0.9 * pairs


def test_only_models_that_the_prior_speaks_of_are_fitted_together(rng):
    first, second = fits(like_recommenders(rng, 2), rng)
    spike = fr.LogSpline().fit(sampled(np.full(2000, 300), rng))
    assert spike.posterior.needs_bounds
    own_prior = replace(shipped("unseen"), common=None)
    other = [
        fr.MLE().fit(first.counts),
        spike,
        fr.LogSpline(own_prior).fit(first.counts),
        fr.LogSpline().fit(fr.RankCounts.from_ranks(first.counts.column("hits") + 1, 2 * N, "uni99")),
    ]
    found = fit_together([first, *other, second])
    assert [each is None for each in found] == [False, *[True] * len(other), False]
    assert fit_together([first, *other]) == [None] * (len(other) + 1)
    assert fit_together([first] * (MOST_MODELS + 1)) == [None] * (MOST_MODELS + 1)
    with pytest.raises(ValueError, match="does not say what models of one catalogue have in common"):
        own_prior.for_models(2)


def test_a_model_far_from_the_others_stays_where_it_is(rng):
    far = np.minimum(like_recommenders(rng, 1)[0] * 40, N)
    near = like_recommenders(rng, 2)
    counts = {name: sampled(each, rng) for name, each in zip(("far", "one", "two"), (far, *near), strict=True)}
    found = fr.compare(counts, NDCG)
    value = found.values
    assert value["far"] < 0.3 * min(value["one"], value["two"]), "else the test shows nothing"
    near_moved = abs(found.pair("one", "two").difference - (value["one"] - value["two"]))
    far_moved = abs(found.pair("one", "far").difference - (value["one"] - value["far"]))
    assert far_moved <= near_moved + 1e-9  # by what moves the near one, and nothing of its own
