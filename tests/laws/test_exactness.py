"""What is exact when the sample is everything (the table of the README), and the exhaustive rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fullrank as fr
import naive

N = 60
METRICS = ["recall@1", "recall@10", "ndcg@10", "ap@5", "precision@7", "ap", "ndcg", "auc"]
EXACT = [
    fr.Naive(),
    fr.RankEstimate(),
    fr.RankEstimate(interpolate=True),
    fr.CLS(),
    fr.BiasVariance(),
    fr.BiasVariance(1.0),
    fr.BiasVariance(0.0),
    fr.Multinomial(),
    fr.MLE(),
    fr.MLE(iterations=1),
    fr.BiasVariance(prior=fr.MLE()),
    fr.Multinomial(prior=fr.MLE()),
    fr.BiasVariance(prior=fr.MaxEntropy()),
    fr.Multinomial(prior=fr.MaxEntropy()),
    fr.BiasVariance(n_items="bins"),
    fr.Multinomial(n_items="bins"),
]
RECALL_ONLY = [fr.Mapping("linear"), fr.Mapping("bound")]
NOT_EXACT = [fr.WeightedMLE(), fr.MaxEntropy(), fr.Mapping("beta"), fr.Mapping("beta", 0.5)]


def all_sampled(R):
    """A sample of all there are, not known to show the rank: what the formulas alone make of it."""
    counts = fr.RankCounts.from_ranks(R, N, fr.Sample(N - 1, replace=False))
    return counts.with_keys(rest=counts.column("pool"), drawn=N - 1, hits=counts.above, ahead=0, recent=0)


def truth(metric, R, n_items):
    metric = fr.parse_metric(metric)
    return np.mean([naive.gain(metric.name, int(each), metric.k, n_items) for each in R])


@pytest.mark.parametrize("estimator", EXACT, ids=str)
def test_with_the_whole_catalogue_sampled_the_estimate_is_the_truth(estimator, rng):
    R = naive.power_law_ranks(500, N, rng)
    fitted = estimator.fit(all_sampled(R))
    for metric in METRICS:
        assert fitted.expect(metric) == pytest.approx(truth(metric, R, N), rel=1e-9), metric


@pytest.mark.parametrize("estimator", RECALL_ONLY, ids=str)
def test_mappings_are_exact_for_recall_and_precision(estimator, rng):
    R = naive.power_law_ranks(500, N, rng)
    fitted = estimator.fit(all_sampled(R))
    for k in range(1, N + 1):
        assert fitted.expect(fr.Recall @ k) == pytest.approx(np.mean(k >= R), rel=1e-12)
        assert fitted.expect(fr.Precision @ k) == pytest.approx(np.mean(k >= R) / k, rel=1e-12)


@pytest.mark.parametrize("estimator", NOT_EXACT, ids=str)
def test_the_others_are_not_and_the_table_says_so(estimator, rng):
    """If one of these becomes exact, the table must say so."""
    R = naive.power_law_ranks(500, N, rng)
    assert abs(estimator.fit(all_sampled(R)).expect("recall@10") - np.mean(R <= 10)) > 1e-6


@pytest.mark.parametrize("estimator", EXACT + NOT_EXACT + RECALL_ONLY, ids=str)
@pytest.mark.parametrize("design", [fr.Sample(N - 1, False), fr.Adaptive(9, "all", 99, False)], ids=str)
def test_a_sample_of_all_there_are_is_the_full_ranking_whatever_the_estimator(design, estimator, rng):
    R, w = naive.power_law_ranks(200, N, rng), rng.random(200) + 0.1
    counts = fr.RankCounts.from_ranks(R, N, design, drawn=np.full(200, N - 1), weights=w)
    full = fr.RankCounts.from_ranks(R, N, "full", weights=w)
    assert replace(counts, design=full.design) == full
    fitted = estimator.fit(counts)
    for metric in METRICS:
        value = estimator.fit(full).expect(metric)
        assert fitted.expect(metric) == pytest.approx(value, rel=1e-12), metric
        assert fitted.interval(metric) == pytest.approx((value, value), rel=1e-12)
        assert fitted.bounds(metric) == pytest.approx((value, value), rel=1e-12)


@pytest.mark.parametrize("estimator", EXACT + NOT_EXACT + RECALL_ONLY, ids=str)
def test_exhaustive_is_the_empirical_distribution_whatever_the_estimator(estimator, rng):
    R, pools, w = rng.integers(1, N + 1, 300), rng.integers(N, 3 * N, 300), rng.random(300) + 0.1
    fitted = estimator.fit(fr.RankCounts.from_ranks(R, pools, "full", weights=w))
    for metric in METRICS[:6]:
        metric = fr.parse_metric(metric)
        gains = [naive.gain(metric.name, int(r), metric.k, n) for r, n in zip(R, pools, strict=True)]
        assert fitted.expect(metric) == pytest.approx(np.average(gains, weights=w), rel=1e-12)
    assert fitted.expect("auc") == pytest.approx(np.average((pools - R) / (pools - 1), weights=w), rel=1e-12)
    np.testing.assert_allclose(fitted.mass(range(1, N + 1)), [w[r == R].sum() / w.sum() for r in range(1, N + 1)])


TOPPED = [fr.LogSpline(), fr.MLE(), fr.BiasVariance(0.01), fr.Multinomial()]


@pytest.mark.parametrize("estimator", TOPPED, ids=str)
@pytest.mark.parametrize("most", [1, 40])
def test_ranks_to_the_top_are_exact_up_to_k_with_one_target_or_many(estimator, most, rng):
    """Also where there are too many (j, T) for a law of each: known ranks keep their own."""
    n, items = 300, 5000
    targets = rng.integers(1, most + 1, n)
    T = np.repeat(targets, targets)
    j = np.concatenate([np.arange(1, t + 1) for t in targets])
    users = np.repeat(np.arange(n), targets)
    R = naive.power_law_ranks(len(T), items, rng)
    several = {} if most == 1 else {"order": j, "targets": T}
    known = R <= 20
    hits = np.where(known, R - 1, rng.binomial(49, (R - 1) / (items - 1)))
    fitted = estimator.fit(
        fr.RankCounts.from_ranks(hits + 1, items, fr.Top(20, 49), drawn=np.where(known, 0, 49), users=users, **several)
    )
    full = fr.MLE().fit(fr.RankCounts.from_ranks(R, items, "full", users=users, **several))
    for metric in ("recall@1", "recall@20", "ndcg@10", "ap@20", "precision@5"):
        value = full.expect(metric)
        assert fitted.expect(metric) == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert fitted.interval(metric) == pytest.approx((value, value), rel=1e-9, abs=1e-12)
        assert fr.bounds(fitted.counts, metric) == pytest.approx((value, value), rel=1e-6, abs=1e-9)
    if not isinstance(estimator, fr.BiasVariance | fr.Multinomial):
        assert fitted.expect("auc") == pytest.approx(full.expect("auc"), abs=0.02)
        assert fitted.expect("recall@200") == pytest.approx(full.expect("recall@200"), rel=0.15)


@pytest.mark.parametrize("estimator", [fr.MLE(), fr.BiasVariance(0.01), fr.Multinomial()], ids=str)
def test_stopping_at_k_without_a_ceiling_is_exact_up_to_k(estimator, rng):
    """stop_at = K, every candidate if need be: a case that stopped earlier is beaten K times, so its rank is past K."""
    K, design = 5, fr.Adaptive(9, "all", 5, replace=False)
    R = naive.power_law_ranks(400, N, rng)
    seen = np.array([naive.draw_adaptive(each, N, 9, "all", K, False, rng) for each in R])
    fitted = estimator.fit(fr.RankCounts.from_ranks(seen[:, 1] + 1, N, design, drawn=seen[:, 0]))
    assert len(fitted.counts) == 400
    if isinstance(estimator, fr.MLE):
        for k in range(1, K + 1):
            assert fitted.expect(fr.Recall @ k) == pytest.approx(np.mean(k >= R), rel=1e-9)
            assert fitted.expect(fr.NDCG @ k) == pytest.approx(truth(fr.NDCG @ k, R, N), rel=1e-9)
    assert fitted.expect("recall@5") == pytest.approx(np.mean(R <= 5), rel=0.02)


def test_fully_compared_cases_among_sampled_ones_stay_exact(rng):
    """Half the cases have few candidates and are compared with all of them: sampling error comes from the others alone."""
    small, large = rng.integers(1, 9, 3000), rng.integers(1, 9, 3000)
    x = rng.hypergeometric(large - 1, 1000 - large, 59)
    pools = np.repeat([60, 1000], 3000)
    counts = fr.RankCounts.from_outcomes(
        np.repeat([0, 59], 3000), np.concatenate([small - 1, x]), pools, fr.Sample(59, replace=False)
    )
    for estimator in (fr.MLE(), fr.BiasVariance(), fr.Multinomial(), fr.MaxEntropy(), fr.RankEstimate()):
        alone = estimator.fit(fr.RankCounts.from_ranks(x + 1, 1000, fr.Sample(59, replace=False)))
        wanted = 0.5 * np.mean(small <= 5) + 0.5 * alone.expect("recall@5")
        assert estimator.fit(counts).expect("recall@5") == pytest.approx(wanted, rel=1e-6), estimator
