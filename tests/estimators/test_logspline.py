"""LogSpline: against a second, stupid implementation, against known truths, and where SPEC promises exactness."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.optimize import minimize

import fullrank as fr
from fullrank.estimators import logspline
from fullrank.estimators.estimate import build_problem
from fullrank.estimators.logspline import (
    HyperPrior,
    SplineModel,
    balanced_normals,
    posterior_mode,
    priors_to_json,
    shipped,
    spline_basis,
)


def ranks(rng, cases, n_items):
    """Ranks as recommenders have them: near a power law (li20), so that log R / log N is spread widely."""
    return np.minimum(n_items ** rng.beta(1.0, 1.2, size=cases), n_items).astype(np.int64)


def simulated(seed, cases, n_items, negatives=99):
    rng = np.random.default_rng(seed)
    true = ranks(rng, cases, n_items)
    sampled = 1 + rng.binomial(negatives, (true - 1) / (n_items - 1))
    return true, fr.RankCounts.from_ranks(sampled, n_items, f"uni{negatives}")


def test_basis_equals_scipy():
    x = np.linspace(0, 1, 301)
    size = 24
    knots = np.arange(-3, size + 1) / (size - 3)
    dense = BSpline.design_matrix(np.minimum(x, 1 - 1e-12), knots, 3).toarray()
    np.testing.assert_allclose(spline_basis(x, size), dense, atol=1e-9)
    np.testing.assert_allclose(spline_basis(x, size).sum(1), 1)


def test_mode_equals_a_general_optimiser():
    _, counts = simulated(0, 500, 800)
    problem = build_problem(counts)
    prior = shipped()
    model = SplineModel.on(problem.grid, prior)
    A, seen = problem.laws[0], problem.tables[0].weight[0]
    mean, precision = prior.mean(1, model.n_items), prior.precisions[0][1]
    found, hessian, value, _ = posterior_mode(model, A, seen, mean, precision, mean)

    def negative(coefficients):
        log = model.base + model.B @ coefficients
        mass = np.exp(log - log.max())
        mass /= mass.sum()
        left = coefficients - mean
        return -(seen @ np.log(mass @ A)) + 0.5 * left @ precision @ left

    other = minimize(negative, mean, method="BFGS", options={"gtol": 1e-4, "maxiter": 2000})
    assert -negative(found) == pytest.approx(value, rel=1e-10)
    assert value >= -other.fun - 1e-6
    step = 1e-4
    direction = np.random.default_rng(1).normal(size=len(found))
    curvature = (
        negative(found + step * direction) - 2 * negative(found) + negative(found - step * direction)
    ) / step**2
    assert direction @ hessian @ direction == pytest.approx(curvature, rel=1e-3)


def test_beats_mle_on_a_smooth_truth():
    errors = {"spline": [], "mle": []}
    for seed in range(5):
        true, counts = simulated(seed, 4000, 20_000)
        for name, estimator in (("spline", fr.LogSpline()), ("mle", fr.MLE())):
            dist = estimator.fit(counts)
            truth = [(fr.NDCG @ k).gain(true).mean() for k in (1, 5, 10, 50)]
            found = [dist.expect(fr.NDCG @ k) for k in (1, 5, 10, 50)]
            errors[name].append(np.mean(np.abs(np.divide(found, truth) - 1)))
    assert np.mean(errors["spline"]) < 0.6 * np.mean(errors["mle"])


@pytest.mark.parametrize("target", ["cases", "population"])
def test_intervals_hold_the_truth_of_a_smooth_world(target):
    rng = np.random.default_rng(5)
    world = ranks(rng, 200_000, 10_000)
    held = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        true = rng.choice(world, 2000)
        counts = fr.RankCounts.from_ranks(1 + rng.binomial(99, (true - 1) / 9_999), 10_000, "uni99")
        low, high = fr.LogSpline().fit(counts).interval("recall@10", target=target)
        held += low <= np.mean((true if target == "cases" else world) <= 10) <= high
    assert held >= 25


def test_population_is_wider_than_cases_and_levels_nest():
    _, counts = simulated(1, 2000, 5000, negatives=999)
    dist = fr.LogSpline().fit(counts)
    widths = [np.diff(dist.interval("recall@50", level=level, target="population"))[0] for level in (0.5, 0.9, 0.99)]
    assert widths[0] < widths[1] < widths[2]
    assert np.diff(dist.interval("recall@50", target="cases"))[0] < widths[1] * 1.5


def test_exact_when_beaten_stop_at_times_or_compared_with_all():
    rng = np.random.default_rng(2)
    N, K = 300, 10
    true = ranks(rng, 400, N)
    design = fr.Adaptive(19, "all", stop_at=K, replace=False)
    stages = [size or N - 1 for size in design.stages(N)]
    drawn, hits = [], []
    for rank in true:
        above = rng.permutation(np.arange(N - 1) < rank - 1)
        for size in stages:
            if above[:size].sum() >= K or size == stages[-1]:
                break
        drawn.append(size)
        hits.append(above[:size].sum())
    counts = fr.RankCounts.from_ranks(np.array(hits) + 1, N, design, drawn=drawn)
    dist = fr.LogSpline().fit(counts)
    for metric in (fr.Recall @ K, fr.NDCG @ 5, fr.AP @ K):
        assert dist.expect(metric) == pytest.approx(metric.gain(true).mean(), rel=1e-9)
        low, high = dist.interval(metric)
        assert high - low < 1e-6


@pytest.mark.parametrize(
    ("n_items", "negatives", "cases"), [(2, 1, 3), (20, 5, 5), (10**9, 99, 1000), (3000, 2999, 50), (5000, 1, 40)]
)
def test_any_size_works(n_items, negatives, cases):
    rng = np.random.default_rng(0)
    true = ranks(rng, cases, n_items)
    hits = rng.binomial(negatives, (true - 1) / (n_items - 1))
    dist = fr.LogSpline().fit(fr.RankCounts.from_ranks(hits + 1, n_items, f"uni{negatives}"))
    low, high = dist.interval("ndcg@10")
    assert 0 <= low <= dist.expect("ndcg@10") <= high <= 1.5
    assert dist.expect(fr.Recall @ n_items) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("cases", [1e6, 1e8, 1e9])
def test_converges_with_very_many_cases(cases):
    N, m = 100_000, 99
    x = np.arange(m + 1)
    true = np.exp(((np.arange(20_000) + 0.5) / 20_000) ** 1.3 * np.log(N))
    seen = np.round(cases * fr.Sample(m).law(true, N, np.full(m + 1, m), x).mean(0)).astype(np.int64)
    one = fr.RankCounts.from_outcomes(np.full(m + 1, m), x, N, fr.Sample(m), users=np.zeros(m + 1, dtype=int))
    sums = {name: getattr(one, name) * seen for name in ("cases", "scored", "weight", "pool_weight", "auc_weight")}
    dist = fr.LogSpline().fit(replace(one, **sums))
    assert dist.fit.converged
    assert dist.expect("recall@100") == pytest.approx((true < 100.5).mean(), rel=0.1)


def test_a_mode_lost_from_its_prior_is_found_from_the_data(monkeypatch):
    _, counts = simulated(2, 800, 4000)
    wanted = fr.LogSpline().fit(counts)
    starts = []

    def losing(model, A, seen, μ, Q, start):
        β, H, value, step = posterior_mode(model, A, seen, μ, Q, start)
        starts.append(start)
        return (μ, Q, value - 1e6, logspline.MOST_STEPS) if len(starts) > 1 and start is μ else (β, H, value, step)

    monkeypatch.setattr(logspline, "posterior_mode", losing)
    found = fr.LogSpline().fit(counts)
    assert len(starts) == len(shipped("unseen")) + 1  # popularity is looked for twice
    assert found.fit.converged
    assert found.expect("ndcg@10") == pytest.approx(wanted.expect("ndcg@10"), rel=1e-4)


def test_balanced_normals_are_normal():
    z = balanced_normals(400, 24, np.random.default_rng(0))
    np.testing.assert_allclose(z.T @ z / 400, np.eye(24), atol=1e-12)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-12)
    along = z @ np.random.default_rng(1).standard_normal((24, 200)) / np.sqrt(24)
    along /= along.std(0)
    assert np.quantile(along, [0.025, 0.25, 0.5, 0.75, 0.975]) == pytest.approx(
        [-1.96, -0.674, 0, 0.674, 1.96], abs=0.05
    )
    assert balanced_normals(5, 24, np.random.default_rng(0)).shape == (5, 24)


def test_prior_share_falls_with_more_negatives():
    shares = []
    for negatives in (49, 999):
        _, counts = simulated(3, 3000, 20_000, negatives)
        dist = fr.LogSpline().fit(counts)
        shares.append(dist.posterior.prior_share("recall@10", 20_000))
    assert shares[1] < shares[0] <= 1


def test_several_targets_weights_and_pools():
    rng = np.random.default_rng(4)
    users = np.repeat(np.arange(300), 2)
    true = np.sort(ranks(rng, (300, 2), 900), axis=1).ravel()
    pools = rng.integers(950, 1001, size=600)
    order = np.tile([1, 2], 300)
    hits = rng.binomial(99, (true - 1) / (pools - 1))
    counts = fr.RankCounts.from_ranks(
        hits + 1,
        pools,
        "uni99",
        users=users,
        order=order,
        targets=np.full(600, 2),
        weights=np.repeat(rng.random(300), 2),
    )
    truth = fr.LogSpline().fit(
        fr.RankCounts.from_ranks(true, pools, "full", users=users, order=order, targets=np.full(600, 2))
    )
    dist = fr.LogSpline().fit(counts)
    assert dist.expect("ndcg@20") == pytest.approx(truth.expect("ndcg@20"), rel=0.3)
    assert dist.expect("hit@20") > dist.expect("recall@20")


def test_hyper_prior_is_saved_as_plain_json():
    priors = {candidates: shipped(candidates) for candidates in ("unseen", "all")}
    text = priors_to_json(priors)
    for candidates, prior in priors.items():
        again = HyperPrior.from_json(text, candidates)
        np.testing.assert_allclose(again.covariances, prior.covariances, atol=1e-5)
        assert prior.weights.sum() == pytest.approx(1, abs=1e-4)
        assert np.linalg.eigvalsh(prior.covariances).min() > 0
    with pytest.raises(ValueError, match="no hyper-prior of fullrank"):
        HyperPrior.from_json(json.dumps({"format": "other"}))


def test_families_are_weighed_by_evidence_and_views_hardly():
    prior = replace(shipped(), weights=np.array([0.4, 0.2, 0.3, 0.1]), families=np.array([0, 0, 0, 1]), temper=0.05)
    evidence = np.array([-10.0, -12.0, -11.0, -9.0])
    weights, whole = prior.average(evidence)
    by_hand = np.array([0.4 * np.exp(-10) + 0.2 * np.exp(-12) + 0.3 * np.exp(-11), 0.1 * np.exp(-9)])
    assert whole == pytest.approx(np.log(by_hand.sum()))
    assert weights[3] == pytest.approx(by_hand[1] / by_hand.sum())
    views = np.array([0.4, 0.2 * np.exp(-0.1), 0.3 * np.exp(-0.05)])
    np.testing.assert_allclose(weights[:3], views / views.sum() * (1 - weights[3]))
    mixed, same = replace(prior, temper=np.array([0.0, 1.0, 1.0, 1.0])).average(evidence)
    assert same == whole
    assert mixed[3] == pytest.approx(weights[3])
    views = np.array([0.4, 0.5 * 0.2 / (0.2 + 0.3 * np.exp(1)), 0.5 * 0.3 * np.exp(1) / (0.2 + 0.3 * np.exp(1))])
    np.testing.assert_allclose(mixed[:3], views / 0.9 * (1 - weights[3]))  # views of one power share what they have


def test_the_prior_is_that_of_the_counts_candidates():
    rng = np.random.default_rng(0)
    seen = rng.integers(1, 101, 300)
    found = {}
    pools = (5000, rng.integers(4000, 5000, 300))  # whose sizes say nothing
    for candidates in ("unseen", "all", "given"):
        for pool in pools:
            counts = fr.RankCounts.from_ranks(seen, pool, "uni99", candidates=candidates)
            dist = fr.LogSpline().fit(counts)
            wanted = shipped("all" if candidates == "all" else "unseen")
            assert dist.posterior.prior is wanted
            assert dist.expect("ndcg@10") == fr.LogSpline(wanted).fit(counts).expect("ndcg@10")
        found[candidates] = dist.expect("ndcg@10")
    assert found["unseen"] == found["given"] != found["all"]
    own = replace(shipped("all"), spread=2.0)
    assert fr.LogSpline(own).fit(counts).posterior.prior is own
    assert [fr.LogSpline(prior).prior_name("all") for prior in (None, own)] == ["all", "own"]
    with pytest.raises(TypeError, match="`prior` is 'unseen', allowed is a HyperPrior or None"):
        fr.LogSpline("unseen")


def test_families_are_averaged_as_they_are_and_views_of_one_on_the_log_scale():
    logs = np.log([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [1e-12, 0.4, 0.6]])
    weights = np.array([0.3, 0.2, 0.5])
    views = np.exp(0.6 * logs[0] + 0.4 * logs[1])
    expected = 0.5 * views / views.sum() + 0.5 * np.exp(logs[2]) / np.exp(logs[2]).sum()
    prior = replace(shipped("unseen"), families=np.array([0, 0, 1]), weights=weights, mixture=True)
    np.testing.assert_allclose(prior.blend(logs, weights), expected)
    assert prior.blend(logs, weights)[0] > 0.1, "a family that denies the first rank does not empty it"
    plain = np.exp(weights @ logs)
    np.testing.assert_allclose(replace(prior, mixture=False).blend(logs, weights), plain / plain.sum())
    np.testing.assert_allclose(prior.blend(logs, np.array([0.0, 0.0, 1.0])), np.exp(logs[2]) / np.exp(logs[2]).sum())
