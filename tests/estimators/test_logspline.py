"""LogSpline: against a second, stupid implementation, against known truths, and where SPEC promises exactness."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.optimize import minimize

import fullrank as fr
from fullrank.estimators import posterior
from fullrank.estimators.hyperprior import BINS, HyperPrior, bins_of, priors_to_json, shipped
from fullrank.estimators.posterior import central_law
from fullrank.estimators.problem import build_problem
from fullrank.estimators.splines import Outcomes, SplineModel, balanced_normals, em_step, posterior_mode, spline_basis


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


@pytest.mark.parametrize("strata", [1, 2])
def test_mode_equals_a_general_optimiser(strata):
    _, counts = simulated(0, 500, 800)
    problem = build_problem(counts)
    model = SplineModel.on(problem.grid, 24)
    A, row = problem.laws[0], problem.tables[0].weight[0]
    seen = np.stack([row, np.roll(row, 1)])[:strata]
    prior = shipped("several")
    _, mean, precision, log_det = prior.members(np.arange(strata), model.n_items)[1]
    assert log_det == pytest.approx(np.linalg.slogdet(precision)[1])
    found = posterior_mode(model, Outcomes(A, seen), mean, precision, mean)

    def negative(coefficients):
        each = coefficients.reshape(mean.shape)
        log = model.base + each @ model.B.T
        mass = np.exp(log - log.max(1, keepdims=True))
        mass /= mass.sum(1, keepdims=True)
        left = coefficients - mean.ravel()
        return -(seen * np.log(mass @ A)).sum() + 0.5 * left @ precision @ left

    other = minimize(negative, mean.ravel(), method="BFGS", options={"gtol": 1e-4, "maxiter": 2000})
    best = found.β.ravel()
    assert -negative(best) == pytest.approx(found.value, rel=1e-8)
    assert found.value >= -other.fun - 1e-6
    step = 1e-4
    direction = np.random.default_rng(1).normal(size=len(best))
    curvature = (negative(best + step * direction) - 2 * negative(best) + negative(best - step * direction)) / step**2
    assert direction @ (found.root @ found.root.T) @ direction == pytest.approx(curvature, rel=1e-3)


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
    names = ("cases", "scored", "weight", "pool_weight", "auc_weight", "square_weight")
    sums = {name: getattr(one, name) * seen for name in names}
    dist = fr.LogSpline().fit(replace(one, **sums))
    assert dist.fit_info.converged
    assert dist.expect("recall@100") == pytest.approx((true < 100.5).mean(), rel=0.1)


def test_a_mode_lost_on_the_way_is_looked_for_from_its_own_mean(monkeypatch):
    _, counts = simulated(2, 800, 4000)
    prior = shipped("unseen")
    wanted = fr.LogSpline(prior).fit(counts)
    starts = []

    def losing(model, data, μ, Q, start):
        mode = posterior_mode(model, data, μ, Q, start)
        starts.append(start)
        lost = len(starts) == 2
        return replace(mode, β=μ, value=mode.value - 1e6, steps=60) if lost else mode

    monkeypatch.setattr(posterior, "posterior_mode", losing)
    found = fr.LogSpline(prior).fit(counts)
    assert len(starts) == len(prior.kinds) * len(prior.scales) + 2 + 1  # two for anything, and one a second time
    assert found.fit_info.converged
    assert found.expect("ndcg@10") == pytest.approx(wanted.expect("ndcg@10"), rel=1e-4)


def test_a_mode_is_about_where_the_mode_under_another_prior_says(monkeypatch):
    _, counts = simulated(2, 800, 4000)
    post = fr.LogSpline().fit(counts).posterior
    members = [each[1:3] for each in post.prior.members(np.zeros(1, dtype=np.int64), 4000)]
    modes = [posterior_mode(post.model, post.data, μ, Q, μ) for μ, Q in members]
    nearer = []
    for (before, mode), (after, wanted) in pairwise(zip(members, modes, strict=True)):
        reached = mode.moved(*before, *after)
        nearer.append(np.linalg.norm(reached - wanted.β) / np.linalg.norm(mode.β - wanted.β))
    assert np.median(nearer) < 0.3
    np.testing.assert_allclose(modes[0].moved(*members[0], *members[0]), modes[0].β, atol=1e-9)
    # too far to be trusted: it stays where it is
    monkeypatch.setattr("fullrank.estimators.splines.FURTHEST_AT_ONCE", 0.0)
    np.testing.assert_array_equal(modes[0].moved(*members[0], *members[1]), modes[0].β)


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


@pytest.mark.parametrize("negatives", [99, 499])
@pytest.mark.parametrize("shape", ["everything at rank 1", "ranks 11 to 30", "a spike at 37", "two humps"])
def test_shapes_of_no_recommender_are_told_and_their_intervals_reach_the_bounds(shape, negatives):
    rng, N, M = np.random.default_rng(1), 10_000, 5000
    true = {
        "everything at rank 1": np.ones(M, dtype=np.int64),
        "ranks 11 to 30": rng.integers(11, 31, M),
        "a spike at 37": np.full(M, 37),
        "two humps": np.where(rng.random(M) < 0.3, rng.integers(1, 6, M), rng.integers(N // 3, N + 1, M)),
    }[shape]
    counts = fr.RankCounts.from_ranks(1 + rng.binomial(negatives, (true - 1) / (N - 1)), N, f"uni{negatives}")
    dist = fr.LogSpline().fit(counts)
    assert any("do not look like those of any recommender" in note for note in dist.fit_info.notes)
    for metric in (fr.NDCG @ 10, fr.Recall @ 10):
        low, high = dist.interval(metric)
        least, most = fr.bounds(counts, metric)
        assert low <= least + 1e-12
        assert high >= min(most, 1.0) - 1e-12
        assert low - 1e-9 <= metric.gain(true).mean() <= high + 1e-9


def test_ranks_that_heap_up_are_told_and_their_intervals_stretched():
    rng, N, M = np.random.default_rng(1), 10_000, 5000
    true = np.where(rng.random(M) < 0.5, rng.integers(1, 4, M), N)
    dist = fr.LogSpline().fit(fr.RankCounts.from_ranks(1 + rng.binomial(99, (true - 1) / (N - 1)), N, "uni99"))
    assert dist.posterior.rough
    assert any("heap up" in note for note in dist.fit_info.notes)
    low, high = dist.interval("ndcg@10")
    smooth = replace(dist, posterior=replace(dist.posterior, gain=0.0))
    inner = smooth.interval("ndcg@10")
    assert low < inner[0] < inner[1] < high


def test_a_smooth_sample_is_not_called_unlike():
    for seed in range(10):
        assert fr.LogSpline().fit(simulated(seed, 2000, 5000)[1]).fit_info.notes == ()


def test_catalogues_beyond_the_sizes_seen_get_wider_intervals():
    prior = shipped()
    low, high = prior.sizes
    assert prior.beyond(low) == prior.beyond(high) == prior.beyond(3000) == 0
    inside, beyond = (prior.members(np.zeros(1, dtype=np.int64), N)[0] for N in (high, 100 * high))
    np.testing.assert_allclose(beyond[1], inside[1])
    np.testing.assert_allclose(inside[2], beyond[2] * (1 + np.log(100)))
    notes = fr.LogSpline().fit(simulated(1, 2000, 40_000_000)[1]).fit_info.notes
    assert any("larger than any of the catalogues behind the prior" in note for note in notes)


def test_bins_of_several_targets_are_octaves():
    for j, T, octaves in [
        (1, 1, (0, 0)),
        (2, 2, (1, 1)),
        (3, 4, (2, 2)),
        (4, 5, (2, 3)),
        (9, 40, (4, 6)),
        (900, 1000, (6, 6)),
    ]:
        assert BINS[bins_of(np.array([j]), np.array([T]))[0]] == octaves
    prior = shipped("several")
    for kind in prior.kinds:
        assert kind.means.shape == (len(BINS), prior.coefficients)
        assert np.linalg.eigvalsh(kind.coupling).min() > 0


def test_bins_share_what_they_learn():
    prior = shipped("several")
    rng, N = np.random.default_rng(3), 5000
    true = np.sort(ranks(rng, (2000, 2), N), axis=1)
    hits = rng.binomial(99, (true - 1) / (N - 1))

    def fitted(cases):
        """All first targets, and second targets of some users only."""
        order = np.concatenate([np.ones(2000, dtype=int), np.full(cases, 2)])
        users = np.concatenate([np.arange(2000), np.arange(cases)])
        ranked = np.concatenate([hits[:, 0], hits[:cases, 1]]) + 1
        return fr.RankCounts.from_ranks(ranked, N, "uni99", users=users, order=order, targets=np.full(len(order), 2))

    few = fr.LogSpline().fit(fitted(20))
    assert few.posterior.prior is prior
    alone = np.stack([member.mode.β[1] for member in few.posterior.members])[0]
    apart = replace(prior, kinds=tuple(replace(kind, coupling=np.diag(np.diag(kind.coupling))) for kind in prior.kinds))
    lonely = fr.LogSpline(apart).fit(fitted(20)).posterior.members[0].mode.β[1]
    much = fr.LogSpline().fit(fitted(2000)).posterior.members[0].mode.β[1]
    assert np.linalg.norm(alone - much) < np.linalg.norm(lonely - much)


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
    priors = {name: shipped(name) for name in ("unseen", "all", "several")}
    text = priors_to_json(priors)
    assert len(text) < 1_000_000
    for name, prior in priors.items():
        again = HyperPrior.from_json(text, name)
        assert again.card == prior.card
        assert sum(weight for _, weight in prior.scales) == pytest.approx(1)
        views = {kind.view for kind in prior.kinds}
        assert views == set(range(3 if name == "unseen" else 1))
        for view in views:
            assert sum(kind.weight for kind in prior.kinds if kind.view == view) == pytest.approx(1, abs=1e-4)
        for kind, same in zip(prior.kinds, again.kinds, strict=True):
            assert (same.name, same.view) == (kind.name, kind.view)
            np.testing.assert_allclose(same.covariance, kind.covariance, rtol=1e-4)
            assert np.linalg.eigvalsh(kind.covariance).min() > 0
    with pytest.raises(ValueError, match="not a hyper-prior of fullrank"):
        HyperPrior.from_json(json.dumps({"format": "other"}))


def test_the_estimate_errs_least_among_draws_of_all_members_and_intervals_are_their_quantiles(monkeypatch):
    """Estimate and interval against a second, naive one: members by themselves, weighed by evidence, drawn by importance.

    Among the prior's own members the likelihood weighs to the power ``trust`` within a view, and views weigh alike; what
    they weigh together is as it was. Every draw takes an EM step, the share of cases up to a rank is the one with the least
    mean relative error, and where few cases are expected it is lowered. What draws say of a metric is taken further from the
    middle or nearer to it, as the prior's ``spread`` and ``far`` say, and what outcomes leave open of every case is added.
    """
    monkeypatch.setattr("fullrank.estimators.posterior.DRAWS", 16_000)
    _, counts = simulated(4, 600, 3000)
    prior = replace(shipped(), far=0.2)  # nearer than the shipped prior's, so that it matters at every rank
    dist = fr.LogSpline(prior).fit(counts)
    post, rng = dist.posterior, np.random.default_rng(5)
    A, seen = post.data.parts[0]
    evidence, chosen, drawn, likelihood = [], [], [], []
    from fullrank.estimators.hyperprior import anything

    one = np.zeros(1, dtype=np.int64)
    for log_weight, mean, Q, log_det in prior.members(one, post.model.n_items) + anything(1, prior.coefficients):
        mode = posterior_mode(post.model, post.data, mean, Q, mean)
        H = mode.root @ mode.root.T
        evidence.append(log_weight + mode.value + 0.5 * log_det - 0.5 * np.linalg.slogdet(H)[1])
        chosen.append(log_weight + prior.trust * (evidence[-1] - log_weight))
        β = rng.multivariate_normal(mode.β[0], np.linalg.inv(H), 6000)
        drawn.append(post.model.mass(β))
        from_mode, from_mean = β - mode.β[0], β - mean[0]
        log = 0.5 * np.sum(from_mode @ H * from_mode, axis=1) - 0.5 * np.sum(from_mean @ Q * from_mean, axis=1)
        log += np.log(drawn[-1] @ A) @ seen
        likelihood.append(np.exp(log - log.max()))
    weights = np.exp(np.array(evidence) - max(evidence))
    own = slice(len(prior.kinds) * len(prior.scales))
    among = np.exp(np.array(chosen)[own] - max(chosen[own]))
    views = np.array([kind.view for kind in prior.kinds for _ in prior.scales])
    for view in (0, 1, 2):
        among[views == view] /= 3 * among[views == view].sum()
    weights[own] = weights[own].sum() * among
    share = np.concatenate([w * each / each.sum() for w, each in zip(weights / weights.sum(), likelihood, strict=True)])
    π = np.concatenate(drawn)
    after = np.cumsum((π * ((seen / (π @ A)) @ A.T))[:, :20] / seen.sum(), axis=1)
    central = np.average(π, axis=0, weights=share)
    for rank in (1, 3, 10, 20):
        F = after[:, rank - 1]
        tried = np.geomspace(*np.quantile(F, [0.01, 0.99]), 400)
        errors = [share @ (np.abs(f - F) / F) for f in tried]
        cases = len(counts) * tried[np.argmin(errors)]
        within = np.cumsum(central[:, None] * A, axis=0)[rank - 1] / (central @ A)
        left = 1 - within**2 @ seen / (within @ seen)  # of a variance that is the number of cases
        assert dist.cdf(rank) == pytest.approx(cases / (1 + 0.5 * left / cases) / len(counts), rel=0.06), rank
        said = rng.choice(F, 40_000, p=share / share.sum())
        noise = np.sqrt(left * said / len(counts)) * rng.standard_normal(len(said))
        said = [calibrated(each, np.median(said), *prior.spread, prior.far) for each in said] + noise
        low, middle, high = np.quantile(said, [0.025, 0.5, 0.975])
        expected = dist.cdf(rank) * low / middle, dist.cdf(rank) * high / middle
        assert dist.interval(f"recall@{rank}") == pytest.approx(expected, rel=0.06), rank
    assert dist.fit_info.objective == pytest.approx(np.logaddexp.reduce(evidence), abs=0.01)


def calibrated(value, middle, below, above, far):
    """One value taken as far from the middle as the prior's calibration says, step by step."""
    distance = math.log(value / middle) * (above if value > middle else below)
    if abs(distance) > far:
        distance = math.copysign(math.sqrt(abs(distance) * far), distance)
    return middle * math.exp(distance)


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
    with pytest.raises(TypeError, match="`prior` must be a HyperPrior or None, got 'unseen'"):
        fr.LogSpline("unseen")


def assert_follows(counts, plain, prior, other, how_far):
    """The laws of strata against a naive use of the other prior on ``plain``, the same cases as one stratum."""
    apart = fr.LogSpline(replace(prior, follows=None)).fit(counts).posterior
    both = fr.LogSpline().fit(counts).posterior
    together = fr.LogSpline(replace(other, follows=None)).fit(plain).posterior
    assert prior.follows == (other, how_far)
    np.testing.assert_array_equal(apart.problem.grid.hi, together.problem.grid.hi)
    share = np.bincount(apart.problem.strata[counts.group_of], counts.weight) / counts.weight.sum()
    average = sum(each * law for each, law in zip(share, apart.typical, strict=True))
    tilt = (together.typical[0] / average) ** how_far
    compared = counts.has_compared_part  # there the average moves, and intervals are as wide as before
    before, after = (list(each.typical) if compared else each.draws.mass for each in (apart, both))
    for law, wanted in zip(after, before, strict=True):
        wanted = wanted * tilt
        np.testing.assert_allclose(law, wanted / wanted.sum(-1, keepdims=True), rtol=1e-6)
    if compared:
        np.testing.assert_array_equal(both.draws.mass[0], apart.draws.mass[0])


def test_laws_given_what_is_ahead_follow_a_prior_of_all_of_them_together():
    rng = np.random.default_rng(0)
    ranks = np.minimum(np.exp(rng.exponential(2.2, 2000)).astype(int), 3000)
    hits = rng.hypergeometric(ranks - 1, 3000 - ranks, 99)
    design, ahead = fr.Sample(99, replace=False), rng.poisson(4, len(ranks))
    about = {"candidates": "all", "ahead": ahead, "rest": np.full(len(ranks), 2999)}
    counts = fr.RankCounts.from_ranks(hits + 1, np.full(len(ranks), 3060), design, **about)
    rests = fr.RankCounts.from_ranks(hits + 1, 3000, design)  # whatever is ahead
    assert_follows(counts, rests, shipped("compared"), shipped("unseen"), 0.65)


def test_laws_of_several_targets_follow_a_prior_of_all_of_them_together():
    rng, N = np.random.default_rng(7), 5000
    true = np.sort(ranks(rng, (500, 2), N), axis=1).ravel()
    sampled = 1 + rng.binomial(99, (true - 1) / (N - 1))
    about = {"users": np.repeat(np.arange(500), 2), "order": np.tile([1, 2], 500), "targets": np.full(1000, 2)}
    counts = fr.RankCounts.from_ranks(sampled, N, "uni99", **about)
    plain = fr.RankCounts.from_ranks(sampled, N, "uni99")
    assert_follows(counts, plain, shipped("several"), shipped("unseen"), 0.45)


def test_known_ranks_and_many_cases_are_not_lowered():
    _, few = simulated(4, 50, 3000)
    _, many = simulated(4, 60_000, 3000)
    gaps = []
    for counts in (few, many):
        post = fr.LogSpline().fit(counts).posterior
        draws, weight = posterior.draw(post.members, post.model, post.data, exactly=True)
        before = central_law(em_step(draws.mass[0], *post.data.parts[0]), weight, post.problem.grid.hi)
        gaps.append(1 - np.cumsum(post.mass)[9] / np.cumsum(before)[9])
        assert post.mass.sum() == pytest.approx(1)
    assert 0.01 < gaps[0] < 0.3
    assert 0 < gaps[1] < 0.001
    true = ranks(np.random.default_rng(3), 200, 500)
    design = fr.Adaptive(20, "all", stop_at=10, replace=False)  # exact to rank 10
    drawn, hits = design.simulate(true, np.full(200, 500), np.random.default_rng(1))
    dist = fr.LogSpline().fit(fr.RankCounts.from_outcomes(drawn, hits, 500, design))
    assert dist.expect("recall@10") == pytest.approx((true <= 10).mean(), abs=1e-9)
