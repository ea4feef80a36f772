"""Estimates behind a compared part: honest whatever the guide, exact where nothing is left, bounded by what is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fullrank as fr
from fullrank.estimators import hyperprior
from fullrank.estimators.intervals import cell_gains
from fullrank.estimators.posterior import draw
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.laws import ALL, NOTHING

N, CASES = 1500, 600


def world(noise, seed=0):
    """Ranks of targets, and per case where in a guide's order the better items are; noise ∞ is a random order."""
    rng = np.random.default_rng(seed)
    R = np.exp(rng.uniform(0, np.log(N), CASES)).astype(int)
    places = []
    for rank in R:
        log = np.log(np.arange(1, N))  # model's order of the others, by rank
        guide = rng.random(N - 1) if np.isinf(noise) else log + rng.normal(0, noise, N - 1)
        order = np.argsort(guide)
        places.append(np.flatnonzero(order < rank - 1) + 1)
    return R, places


def observed(design, R, places, seed=0):
    rng = np.random.default_rng(seed)
    ahead, rest, drawn, hits = design.act_out(places, N, rng)
    late = [int(((each > (N - 1 - r) // 2) & (each <= N - 1 - r)).sum()) for each, r in zip(places, rest, strict=True)]
    m = np.where(rest == 0, ALL, np.where(drawn == 0, NOTHING, drawn))
    return RankCounts.from_outcomes(m, hits, N, design, ahead=ahead, rest=rest, recent=np.minimum(late, ahead))


def truth(R, metric):
    return float(fr.parse_metric(metric).gain(R, N).mean())


@pytest.mark.parametrize("noise", [0.3, 1.0, np.inf], ids=["good", "fair", "useless"])
@pytest.mark.parametrize("estimator", [fr.LogSpline(), fr.MLE(start="log", iterations=300)], ids=["LogSpline", "MLE"])
def test_estimates_are_near_the_truth_whatever_the_guide(noise, estimator):
    R, places = world(noise)
    counts = observed(fr.Guided(100, 200, stop_at=10), R, places)
    dist = estimator.fit(counts)
    for metric in ("ndcg@10", "recall@10"):
        low, high = dist.bounds(metric)
        assert low <= truth(R, metric) <= high
        assert low - 1e-9 <= dist.expect(metric) <= high + 1e-9
        assert dist.expect(metric) == pytest.approx(truth(R, metric), rel=0.25)
    if isinstance(estimator, fr.LogSpline):
        low, high = dist.interval("ndcg@10")
        assert low <= truth(R, "ndcg@10") <= high
        if np.isinf(noise):  # of a guide that led nowhere intervals reach to the bounds, of cases and population alike
            assert dist.interval("ndcg@10", target="population")[1] >= high >= dist.bounds("ndcg@10")[1]
        else:
            assert dist.interval("ndcg@10", target="population")[1] > high


def test_a_guide_that_led_nowhere_is_noticed():
    for seed in range(4):
        R, places = world(np.inf, seed)
        dist = fr.LogSpline().fit(observed(fr.Guided(100, 99, stop_at=10), R, places, seed))
        assert any("the guide found no more than chance does" in note for note in dist.fit_info.notes)
        for metric in ("ndcg@10", "recall@10"):
            low, high = dist.interval(metric)
            least, most = dist.bounds(metric)
            assert low <= least <= truth(R, metric) <= most <= high
        good = fr.LogSpline().fit(observed(fr.Guided(100, 99, stop_at=10), *world(1.0, seed), seed))
        assert not any("no more than chance" in note for note in good.fit_info.notes)


def test_the_compared_part_alone_bounds_from_above():
    R, places = world(1.0)
    counts = observed(fr.Guided(100, 5, stop_at=10), R, places)
    best = float(counts.weight @ cell_gains(counts, fr.NDCG @ 10)) / CASES  # nothing of the rest beats anybody
    at_best = float(counts.weight @ (fr.NDCG @ 10).gain(counts.column("ahead") + 1)) / CASES
    assert fr.bounds(counts, "ndcg@10")[1] <= at_best + 1e-9
    assert best <= at_best
    assert truth(R, "ndcg@10") <= fr.bounds(counts, "ndcg@10")[1]


def test_samples_whose_size_was_chosen_by_what_was_seen_bound_nothing():
    """They have no law but the likelihood: what is left is that R is at least 1 + ahead."""
    R, places = world(1.0)
    design = fr.Guided(100, 99, 1200, stop_at=10)
    counts = observed(design, R, places)
    assert fr.bounds(counts, "recall@10")[0] > 0.01
    rng = np.random.default_rng(0)
    ahead, rest, drawn, hits = fr.Guided(100, 99, 799, stop_at=10).act_out(places, N, rng)
    m = np.where(rest == 0, ALL, np.where(drawn == 0, NOTHING, drawn))
    fewer = RankCounts.from_outcomes(m, hits, N, design, ahead=ahead, rest=rest, recent=np.zeros_like(ahead))
    low, high = fr.bounds(fewer, "recall@10")
    assert low == 0
    assert truth(R, "recall@10") <= high <= np.mean(ahead < 10) + 1e-9


def test_metrics_beyond_where_cases_were_closed_are_refused_and_bounded():
    R, places = world(1.0)
    dist = fr.LogSpline().fit(observed(fr.Guided(100, 50, stop_at=10), R, places))
    for metric in ("recall@20", "ndcg"):
        with pytest.raises(ValueError, match=rf"`{metric}` is not known: .* cases were closed .* `stop_at` must be"):
            dist.expect(metric)
        low, high = dist.bounds(metric)
        assert low <= truth(R, metric) <= high
    with pytest.raises(ValueError, match="`recall@30` is not known"):
        dist.mass(range(1, 31))
    assert dist.mass(range(1, 11)).sum() == pytest.approx(dist.expect("recall@10"), rel=1e-6)
    np.testing.assert_allclose(dist.curve("recall", 5), [dist.expect(f"recall@{k}") for k in range(1, 6)])


def test_nothing_is_estimated_where_everything_was_compared():
    R, places = world(0.3)
    for design in (fr.Guided(N), fr.Guided(20, 50, "all", stop_at=10)):
        counts = observed(design, R, places)
        for estimator in (fr.LogSpline(), fr.MLE()):
            dist = estimator.fit(counts)
            assert dist.expect("ndcg@10") == pytest.approx(truth(R, "ndcg@10"), rel=1e-6)
    assert dist.bounds("recall@10") == pytest.approx((truth(R, "recall@10"),) * 2, abs=0.02)


@pytest.mark.parametrize("estimator", [fr.LogSpline(), fr.MLE()])
@pytest.mark.parametrize("cases", [[0, 1], [2, 3, 4], [0, 1, 2, 3, 4]], ids=["closed", "compared", "both"])
def test_the_answer_is_exact_where_cases_are_closed_or_their_rest_was_compared_after_all(estimator, cases):
    ahead, hits = np.array([2, 2, 0, 1, 0])[cases], np.array([0, 0, 3, 0, 0])[cases]
    drawn = np.array([NOTHING, NOTHING, ALL, ALL, ALL])[cases]
    design, rest, size = fr.Guided(2, 3, stop_at=2), np.full(len(cases), 7), np.full(len(cases), 10)
    dist = estimator.fit(RankCounts.from_outcomes(drawn, hits, size, design, ahead=ahead, rest=rest))
    for metric in (fr.Recall @ 2, fr.NDCG @ 2):
        true = float(metric.gain(np.array([3, 3, 4, 2, 1])[cases]).mean())  # closed cases are beyond the second rank
        assert dist.expect(metric) == pytest.approx(true)
        assert dist.interval(metric) == pytest.approx((true, true))
        assert dist.bounds(metric) == pytest.approx((true, true))
        low, high = dist.interval(metric, target="population")
        assert low < high
        assert low <= true <= high


def test_open_cases_of_which_nothing_was_drawn_leave_the_prior_and_the_bounds():
    R, places = world(0.3)
    counts = observed(fr.Guided(100, 50, stop_at=10), R, places)
    keys = counts.keys.copy()
    keys[:, 4:6] = np.where(keys[:, [3]] > 0, 0, keys[:, 4:6])
    silent = RankCounts(counts.design, counts.level, keys, *(getattr(counts, name) for name in (
        "cases", "scored", "weight", "pool_weight", "auc_weight", "compared_weight", "square_weight")))  # fmt: skip
    dist = fr.LogSpline().fit(silent)
    low, high = dist.interval("recall@10")
    assert low < 0.95 * truth(R, "recall@10")  # what was not looked at is not known
    assert high > 0.95 * truth(R, "recall@10")
    least, most = fr.bounds(silent, "recall@10")
    assert least == 0
    assert truth(R, "recall@10") <= most + 1e-9


def test_several_targets_and_weights():
    R, places = world(0.3)
    design, rng = fr.Guided(100, 200, stop_at=10), np.random.default_rng(1)
    ahead, rest, drawn, hits = design.act_out(places, N, rng)
    m = np.where(rest == 0, ALL, np.where(drawn == 0, NOTHING, drawn))
    order = 1 + np.arange(CASES) % 2
    counts = RankCounts.from_outcomes(
        m, hits, N, design, ahead=ahead, rest=rest, users=np.arange(CASES) // 2, order=order, targets=np.full(CASES, 2),
        weights=np.full(CASES, 2.0),
    )  # fmt: skip
    dist = fr.LogSpline().fit(counts)
    true = (R + order - 1 <= 10).mean()
    low, high = dist.interval("recall@10")
    assert low <= true <= high


def test_a_prior_for_other_bins_is_refused():
    R, places = world(0.3)
    counts = observed(fr.Guided(100, 50, stop_at=10), R, places)
    from fullrank.estimators.hyperprior import shipped

    with pytest.raises(ValueError, match="`prior` must be one for a compared part"):
        fr.LogSpline(shipped("unseen")).fit(counts)
    plain = RankCounts.from_ranks([1, 3], 1000, "uni99")
    with pytest.raises(ValueError, match="`prior` must not be one for a compared part"):
        fr.LogSpline(shipped("guided")).fit(plain)


def test_what_is_left_open_is_that_of_each_case_given_its_own_outcome():
    """Cases that matter most may be compared most: no case's variance is that of others in its bin."""
    rng = np.random.default_rng(3)
    design = fr.Guided(100, 99, 1200, stop_at=10)
    ahead, rest = np.repeat([9, 8, 3], [30, 30, 60]), np.full(120, 1399)
    drawn = np.where(ahead == 9, 1200, 99)
    hits = np.minimum(rng.poisson(0.2, 120) * (ahead == 8), 3)
    about = {"ahead": ahead, "rest": rest, "recent": np.zeros(120, dtype=int)}
    dist = fr.LogSpline().fit(RankCounts.from_outcomes(drawn, hits, N, design, **about))
    posterior, metric = dist.posterior, fr.Recall @ 10
    rows = dict(zip((tuple(key) for key in dist.fitted.group_keys.tolist()), dist.rows, strict=True))
    means, left = [], 0.0
    for a, m, x in zip(ahead, drawn, hits, strict=True):  # P(B ≤ 9 − a | outcome) of each case, draw by draw
        draws = posterior.draws.mass[rows[1, 1, a, 0]]
        likely = draws * dist.grid.law(design, 1400.0, np.array([m]), np.array([x]))[:, 0]
        p = likely[:, : 10 - a].sum(1) / likely.sum(1)
        means.append(p)
        left += np.mean(p * (1 - p))
    expected = np.var(np.sum(means, axis=0)) + left
    assert posterior.problem.counts.weight @ posterior.open_variance(metric, N) == pytest.approx(expected, rel=1e-6)
    seen = posterior.values(metric, N) * dist.fitted.users_weight
    assert np.var(seen) == pytest.approx(expected, rel=1e-6)


def test_draws_behind_a_guide_follow_the_posterior_and_not_a_gaussian_about_its_mode():
    """Where nothing was seen of the rest: the mass of B = 0 against the prior's own draws, weighed by the likelihood."""
    design, shipped = fr.Guided(100, 800, stop_at=10), hyperprior.shipped("guided")
    kind = shipped.kinds[0]
    prior = replace(shipped, kinds=(replace(kind, weight=1.0),), scales=((1.0, 1.0),))
    none = np.zeros(40, dtype=int)
    counts = RankCounts.from_outcomes(none + 800, none, N, design, ahead=none, rest=none + 1399, recent=none)
    posterior = fr.LogSpline(prior).fit(counts).posterior
    rng = np.random.default_rng(0)
    _, mean, Q, _ = prior.members(np.array([0]), N, posterior.trend)[0]
    mass = posterior.model.mass(rng.multivariate_normal(mean[0], np.linalg.inv(Q), 40_000))
    ((A, seen),) = posterior.data.parts
    weight = np.exp(np.log(mass @ A) @ seen)
    expected = np.average(1 - mass[:, 0], weights=weight)
    spread = np.sqrt(np.average((1 - mass[:, 0] - expected) ** 2, weights=weight))
    found = 1 - posterior.draws.mass[0][:, 0]
    assert found.mean() == pytest.approx(expected, rel=0.1)
    assert found.std() == pytest.approx(spread, rel=0.2)
    gaussian, _ = draw(posterior.members, posterior.model, posterior.data, exactly=False)
    assert 1 - gaussian.mass[0][:, 0].mean() > 1.1 * expected  # which goes on where the posterior ends
