"""Naive and RankEstimate against loops over cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fullrank as fr
import naive

METRICS = ["recall@1", "recall@10", "ndcg@10", "ap@10", "precision@5", "ap", "ndcg", "auc"]


@pytest.mark.parametrize("metric", METRICS)
def test_naive_is_the_mean_over_cases(metric, rng):
    r = rng.integers(1, 21, 400)
    w = rng.random(400)
    metric = fr.parse_metric(metric)
    gains = [naive.gain(metric.name, x, metric.k, 20) for x in r]
    counts = fr.RankCounts.from_ranks(r, 5000, "uni19")
    assert fr.Naive().fit(counts).expect(metric) == pytest.approx(np.mean(gains), rel=1e-12)
    weighted = fr.RankCounts.from_ranks(r, 5000, "uni19", weights=w)
    assert fr.Naive().fit(weighted).expect(metric) == pytest.approx(np.average(gains, weights=w), rel=1e-12)


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("metric", METRICS)
def test_rank_estimate_is_the_metric_at_the_rescaled_rank_of_each_case(metric, replace, rng):
    cases = 300
    N = rng.choice([500, 731, 1000], cases)
    m = rng.choice([19, 30], cases)
    r = 1 + rng.integers(0, m + 1)
    metric = fr.parse_metric(metric)
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(30, replace), drawn=m)
    fitted, joined = fr.RankEstimate().fit(counts), fr.RankEstimate(interpolate=True).fit(counts)
    if metric.name == "auc":  # pools vary: from the counts
        assert fitted.expect(metric) == pytest.approx(np.mean(1 - (r - 1) / m), rel=1e-12)
        return
    floor, line = [], []
    for n, size, rank in zip(N, m, r, strict=True):
        numerator = int(n - 1) * int(rank - 1)  # in whole numbers: no rounding to argue about
        low, rest = 1 + numerator // int(size), numerator % int(size) / int(size)
        floor.append(naive.gain(metric.name, low, metric.k, n))
        line.append((1 - rest) * floor[-1] + rest * naive.gain(metric.name, low + 1, metric.k, n))
    assert fitted.expect(metric) == pytest.approx(np.mean(floor), rel=1e-12)
    assert joined.expect(metric) == pytest.approx(np.mean(line), rel=1e-10)


def test_rank_estimate_interpolated_has_unbiased_auc(rng):
    R = naive.power_law_ranks(500, 1000, rng)
    counts = fr.RankCounts.from_ranks(naive.draw(R, 1000, 50, True, rng), 1000, "uni50")
    assert fr.RankEstimate(interpolate=True).fit(counts).expect("auc") == pytest.approx(counts.auc, rel=1e-12)


@pytest.mark.parametrize("N", [3542, 10**6, 10**8])
def test_the_last_sampled_rank_is_the_last_rank(N):
    for m in (99, 999):
        counts = fr.RankCounts.from_ranks([m + 1], N, fr.Sample(m))
        assert fr.RankEstimate().fit(counts).mass([N, N - 1]).tolist() == [1, 0]


def test_cases_compared_with_everything_keep_their_rank():
    counts = fr.RankCounts.from_outcomes([0, 9], [3, 1], [8, 100], fr.Sample(9, replace=False))
    assert fr.RankEstimate().fit(counts).mass([4, 12]).tolist() == [0.5, 0.5]


def test_mass_and_cdf(rng):
    r = rng.integers(1, 21, 400)
    fitted = fr.Naive().fit(fr.RankCounts.from_ranks(r, 5000, "uni19"))
    np.testing.assert_allclose(fitted.mass(range(1, 21)), naive.shares(r, 19), rtol=1e-12)
    assert fitted.mass([0, -3, 21, 10**9]).tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(
        fitted.cdf([0, 1, 5, 20, 99]), [0, *(np.mean(r <= k) for k in (1, 5, 20, 99))], rtol=1e-12
    )
    assert isinstance(fitted.cdf(3), float)
    np.testing.assert_allclose(fitted.curve("ndcg", 5), [fitted.expect(fr.NDCG @ k) for k in range(1, 6)])
    np.testing.assert_allclose(fitted.curve("ndcg", [3, 7]), [fitted.expect("ndcg@3"), fitted.expect("ndcg@7")])
    assert math.isclose(fitted.expect(fr.Metric("rank", lambda R: R)), r.mean())
    assert "Naive" in repr(fitted)


def test_naive_of_unequal_samples_is_the_mean_over_cases_too():
    counts = fr.RankCounts.from_ranks([1, 2, 5], 100, "uni9", drawn=[9, 5, 4])
    fitted = fr.Naive().fit(counts)
    assert fitted.expect("recall@2") == pytest.approx(2 / 3)
    assert fitted.expect("ap") == pytest.approx((1 + 1 / 2 + 1 / 5) / 3)
    assert fitted.expect("auc") == pytest.approx((1 + 4 / 5 + 0) / 3)


@pytest.mark.parametrize("estimator", [fr.CLS(), fr.Mapping("bound"), fr.Mapping("beta")], ids=str)
def test_unequal_sizes_are_refused_by_fixed_size_estimators(estimator):
    counts = fr.RankCounts.from_ranks([1, 2], 100, "uni9", drawn=[9, 5])
    with pytest.raises(
        ValueError, match=r"needs the same number of negatives for every case; these have 2 different ones \(5 to 9\)"
    ):
        estimator.fit(counts)


@pytest.mark.parametrize("estimator", [fr.Naive(), fr.RankEstimate(), fr.CLS(), fr.Mapping("linear")], ids=str)
def test_adaptive_is_refused_where_outcomes_have_no_order(estimator):
    counts = fr.RankCounts.from_ranks([2, 1], 100, fr.Adaptive(9, 19, 1), drawn=[9, 19])
    with pytest.raises(
        ValueError, match=f"`{type(estimator).__name__}` is not defined on the design 'adaptive 9..19 stop 1'"
    ):
        estimator.fit(counts)
