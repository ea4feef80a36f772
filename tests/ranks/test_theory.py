"""kr20's toy example and closed forms, li20's mean, variance and bound."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fullrank as fr
import naive
from fullrank.ranks.theory import (
    beta_mapping,
    dominates,
    expected_naive,
    hoeffding,
    mapping_bounds,
    mapping_error,
    mean_squared_error_bound,
    optimal_mapping,
    sampled_recall,
)

GOLDEN = Path(__file__).parents[1] / "golden"
N = 10_000


def rows(name: str) -> list[dict[str, str]]:
    with (GOLDEN / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


TOY = {
    model: np.array([int(row["rank"]) for row in rows("kr20_table1_ranks.csv") if row["model"] == model])
    for model in "ABC"
}


def metric_of(row: dict[str, str]) -> fr.Metric:
    metric = fr.parse_metric(row["metric"])
    return metric @ int(row["k"]) if row["k"] else metric


@pytest.mark.parametrize("row", rows("kr20_table1.csv"), ids=lambda row: f"{row['model']}-{row['metric']}")
def test_kr20_table_1(row):
    counts = fr.RankCounts.from_ranks(TOY[row["model"]], N, "full")
    value = fr.Naive().fit(counts).expect(metric_of(row))
    assert value == pytest.approx(float(row["value"]), abs=0.0005001)
    assert expected_naive(metric_of(row), TOY[row["model"]], N, "full").mean() == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("row", rows("kr20_table2.csv"), ids=lambda row: f"{row['model']}-{row['metric']}")
def test_kr20_table_2(row):
    metric, ranks = metric_of(row), TOY[row["model"]]
    mean = expected_naive(metric, ranks, N, "uni99")
    A = naive.law(N, 99, ranks=ranks)
    gain = np.array([naive.gain(metric.name, r, metric.k, 100) for r in range(1, 101)])
    np.testing.assert_allclose(mean, A @ gain, rtol=1e-9)
    spread = np.sqrt((A @ gain**2 - mean**2).clip(0).sum()) / len(ranks)
    # the published numbers are means and deviations of 1000 repeats, printed with three decimals
    assert mean.mean() == pytest.approx(float(row["value"]), abs=0.00051 + 4 * spread / np.sqrt(1000))
    assert spread == pytest.approx(float(row["std"]), abs=0.00051 + 4 * spread / np.sqrt(2000))


@pytest.mark.parametrize("model", "ABC")
def test_kr20_table_2_by_simulation(model, rng):
    ranks = TOY[model]
    r = np.stack([naive.draw(ranks, N, 99, True, rng) for _ in range(1000)])
    for metric in (fr.AUC, fr.AP, fr.NDCG, fr.Recall @ 10):
        repeats = metric.gain(r, 100).mean(1)
        wanted = expected_naive(metric, ranks, N, "uni99").mean()
        assert repeats.mean() == pytest.approx(wanted, abs=4.5 * repeats.std() / np.sqrt(1000) + 1e-6)


@pytest.mark.parametrize("m", [1, 2, 9, 99])
@pytest.mark.parametrize(
    "metric", ["auc", "recall@1", "recall@5", "recall", "precision@3", "ap", "ap@4", "ndcg", "ndcg@5"]
)
@pytest.mark.parametrize("replace", [True, False])
def test_closed_forms_equal_the_sum_over_the_law(metric, m, replace):
    n_items = 120
    ranks = np.arange(1, n_items + 1)
    metric = fr.parse_metric(metric)
    gain = [naive.gain(metric.name, r, metric.k, m + 1) for r in range(1, m + 2)]
    np.testing.assert_allclose(
        expected_naive(metric, ranks, n_items, fr.Sample(m, replace)),
        naive.law(n_items, m, replace) @ gain,
        rtol=1e-9,
        atol=1e-13,
    )


def test_eq_17_to_19_as_printed():
    ranks, m = np.array([2, 50, 1000, 9_999]), 99
    p = (ranks - 1) / (N - 1)
    np.testing.assert_allclose(expected_naive("auc", ranks, N, "uni99"), (N - ranks) / (N - 1))
    np.testing.assert_allclose(expected_naive("recall@10", ranks, N, "uni99"), stats.binom.cdf(9, m, p), rtol=1e-10)
    np.testing.assert_allclose(
        expected_naive("ap", ranks, N, "uni99"), (1 - (1 - p) ** (m + 1)) / (p * (m + 1)), rtol=1e-12
    )
    np.testing.assert_allclose(expected_naive("ap", [1, N], N, "uni99"), [1, 1 / 100], rtol=1e-12)


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("metric", ["recall@1", "ap", "ndcg", "auc", "precision@1", "ndcg@1"])
def test_with_one_negative_every_metric_is_affine_in_the_rank(metric, replace):
    value = expected_naive(metric, np.arange(1, 501), 500, fr.Sample(1, replace))
    np.testing.assert_allclose(np.diff(value, 2), 0, atol=1e-13)
    assert value[-1] < value[0]


@pytest.mark.parametrize("m", [1, 7, 50])
@pytest.mark.parametrize("replace", [True, False])
def test_auc_is_unbiased_for_any_sample(m, replace):
    ranks = np.arange(1, 61)
    np.testing.assert_allclose(expected_naive("auc", ranks, 60, fr.Sample(m, replace)), (60 - ranks) / 59, rtol=1e-12)
    assert expected_naive("auc@3", [1], 60, fr.Sample(m, replace))[0] == pytest.approx(1)


def test_a_metric_of_ones_own_has_an_expectation_too():
    mine = fr.Metric("mine", lambda R: R**2)
    wanted = naive.law(40, 5) @ np.arange(1, 7) ** 2
    np.testing.assert_allclose(expected_naive(mine, np.arange(1, 41), 40, "uni5"), wanted, rtol=1e-10)


def test_sampled_recall_has_the_mean_and_variance_of_li20_eq_4_5(rng):
    R = naive.power_law_ranks(400, 2000, rng)
    mean, variance = sampled_recall(5, R, 2000, "uni49")
    p = stats.binom.cdf(4, 49, (R - 1) / 1999)
    assert mean == pytest.approx(p.mean(), rel=1e-10)
    assert variance == pytest.approx((p * (1 - p)).sum() / 400**2, rel=1e-9)
    draws = (naive.draw(np.tile(R, (3000, 1)), 2000, 49, True, rng) <= 5).mean(1)
    assert draws.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / 3000))
    assert draws.var() == pytest.approx(variance, rel=0.15)


def test_hoeffding_bounds_what_happens(rng):
    assert hoeffding(0.01, 30_000) == pytest.approx(2 * np.exp(-6))  # li20 §2.4's example: at most 0.005
    assert round(hoeffding(0.01, 30_000), 3) == 0.005
    assert hoeffding(0.0, 10) == 1.0
    R = naive.power_law_ranks(200, 1000, rng)
    mean, _ = sampled_recall(3, R, 1000, fr.Sample(30, replace=False))
    draws = (naive.draw(np.tile(R, (2000, 1)), 1000, 30, False, rng) <= 3).mean(1)
    for t in (0.02, 0.05, 0.1):
        assert (np.abs(draws - mean) >= t).mean() <= hoeffding(t, 200)


def test_adaptive_has_no_uncorrected_metric():
    with pytest.raises(ValueError, match="has no uncorrected metric"):
        expected_naive("recall@1", [1], 100, fr.Adaptive(9, 19))


def test_one_candidate():
    assert expected_naive("recall@1", [1], 1, "uni9") == 1


# ------------------------------------------------------------------------------------------------ hit-ratio curves


def test_dominance_is_that_of_the_curves_at_every_cut_off(rng):
    seen = set()
    for _ in range(200):
        one, two = (rng.integers(1, 30, size=rng.integers(1, 6)) for _ in range(2))
        stupid = all(np.mean(one <= K) >= np.mean(two <= K) for K in range(1, 31))
        assert dominates(one, two) is stupid
        seen.add(stupid)
    assert seen == {True, False}
    with pytest.raises(ValueError, match="`one` is empty: give at least one rank"):
        dominates([], [1])


@pytest.mark.parametrize("design", ["uni9", "uni9 without replacement", "uni50"])
def test_the_sampling_theorem_holds_where_a_curve_dominates(design, rng):
    better = rng.integers(1, 400, size=50)
    worse = better + rng.integers(0, 100, size=50)
    assert dominates(better, worse)
    for k in (1, 3, 9):
        assert sampled_recall(k, better, 500, design)[0] >= sampled_recall(k, worse, 500, design)[0]


def test_the_optimal_mapping_is_the_best_of_all_cut_offs(rng):
    ranks = 1 + np.floor(300 * rng.random(80) ** 3).astype(int)
    for k in (1, 4, 10):
        wanted, _ = sampled_recall(k, ranks, 301, "uni20")
        gaps = [abs(np.mean(ranks <= f) - wanted) for f in range(302)]
        (found,) = optimal_mapping(k, ranks, 301, "uni20")
        assert gaps[found] == min(gaps)
        assert found == int(np.argmin(gaps))  # the smallest of several
        assert abs(np.mean(ranks <= fr.Mapping("bound").f(k, 20, 301)) - wanted) >= gaps[found]


def test_the_parts_of_the_mapping_error_add_up(rng):
    ranks = rng.integers(1, 301, size=60)
    for k, f in ((1, 15), (5, 70), (21, 300)):
        lost, gained = mapping_error(k, f, ranks, 300, "uni20")
        assert lost <= 0 <= gained
        assert lost + gained == pytest.approx(sampled_recall(k, ranks, 300, "uni20")[0] - np.mean(ranks <= f))


def test_mapping_bounds_hold_a_user_as_hoeffding_says():
    m, n_items, t = 99, 3706, 15.0
    chance = hoeffding(t / m, m)
    assert chance == pytest.approx(2 * np.exp(-2 * t**2 / m))
    for k in (20, 50):
        low, high = (float(each) for each in mapping_bounds(k, m, n_items, t))
        inside, outside = np.arange(1, int(low) + 1), np.arange(int(np.ceil(high)) + 1, n_items + 1)
        assert (1 - expected_naive(fr.Recall @ k, inside, n_items, "uni99") <= chance).all()
        assert (expected_naive(fr.Recall @ k, outside, n_items, "uni99") <= chance).all()
        assert np.floor((low + high) / 2 + 1e-9) == fr.Mapping("bound").f(k, m, n_items)
    with pytest.raises(ValueError, match="`t`"):
        mapping_bounds(1, m, n_items, -1.0)


def test_the_recurrence_of_the_beta_mapping_as_printed():
    a, n, n_items = 0.4, 50, 1000
    f = [1 + (n_items - 1) * (a * np.exp(naive_log_beta(a, n))) ** (1 / a)]  # eq. 17
    for k in range(1, n):  # eq. 16
        more = a * (n_items - 1) ** a * np.exp(naive_log_choose(n - 1, k) + naive_log_beta(a + k, n - k))
        f.append((more + (f[-1] - 1) ** a) ** (1 / a) + 1)
    np.testing.assert_allclose(beta_mapping(a, n - 1, n_items), f, rtol=1e-9)
    with pytest.raises(ValueError, match="`a` must be a finite number above 0"):
        beta_mapping(0.0, 9, 100)


def naive_log_beta(a, b):
    from scipy.special import betaln

    return betaln(a, b)


def naive_log_choose(n, k):
    from scipy.special import gammaln

    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def test_the_beta_mapping_ends_at_the_last_item_and_rises_with_a():
    curves = np.stack([beta_mapping(a, 99, 3706) for a in np.arange(0.05, 3, 0.05)])
    np.testing.assert_allclose(curves[:, -1], 3706, rtol=1e-9)  # Lemma 3.1
    assert (np.diff(curves, axis=0) >= -1e-6).all()


# ------------------------------------------------------------------------------------------------ corrected metrics


def test_multinomial_minimises_the_bound_on_the_mean_squared_error(rng):
    n_items, cases, design = 200, 500, fr.Sample(9)
    prior = 1 / np.arange(1.0, n_items + 1)
    prior /= prior.sum()
    A = naive.law(n_items, 9)
    b = np.array([naive.gain("ndcg", R, 10, n_items) for R in range(1, n_items + 1)])
    best = np.linalg.solve(
        A.T @ np.diag(prior) @ A - A.T @ A / cases + np.diag(A.sum(0)) / cases, A.T @ np.diag(prior) @ b
    )  # li23 eq. 11
    least = sum(mean_squared_error_bound(best, "ndcg@10", prior, n_items, design, cases))
    for _ in range(20):
        other = best + rng.normal(scale=0.01, size=10)
        assert sum(mean_squared_error_bound(other, "ndcg@10", prior, n_items, design, cases)) > least


def test_the_bound_lies_above_the_mean_squared_error(rng):
    n_items, cases, design = 100, 400, fr.Sample(9)
    prior = 1 / np.arange(1.0, n_items + 1)
    prior /= prior.sum()
    corrected = rng.normal(size=10)
    bias, variance = mean_squared_error_bound(corrected, "recall@5", prior, n_items, design, cases)
    truth = prior[:5].sum()
    errors = []
    for _ in range(400):
        R = rng.choice(n_items, p=prior, size=cases) + 1
        r = naive.draw(R, n_items, 9, True, rng)
        errors.append((corrected[r - 1].mean() - truth) ** 2)
    law = naive.law(n_items, 9)
    assert variance == pytest.approx((law @ corrected**2 - (law @ corrected) ** 2).sum() / cases)
    assert np.mean(errors) < bias + variance
    with pytest.raises(ValueError, match="`prior`"):
        mean_squared_error_bound(corrected, "recall@5", prior[:-1], n_items, design, cases)
    with pytest.raises(ValueError, match="`corrected`"):
        mean_squared_error_bound(corrected[:-1], "recall@5", prior, n_items, design, cases)


OF_RANKS = {
    "expected_naive": lambda ranks, N: expected_naive("ndcg@10", ranks, N, "uni9"),
    "expected_naive of all": lambda ranks, N: expected_naive("ndcg@10", ranks, N, "full"),
    "sampled_recall": lambda ranks, N: sampled_recall(1, ranks, N, "uni9"),
    "optimal_mapping": lambda ranks, N: optimal_mapping(1, ranks, N, "uni9"),
    "mapping_error": lambda ranks, N: mapping_error(1, 5, ranks, N, "uni9"),
}


@pytest.mark.parametrize("function", OF_RANKS.values(), ids=OF_RANKS)
@pytest.mark.parametrize(
    ("ranks", "n_items", "message"),
    [
        (
            [0, -5],
            1000,
            r"`ranks` is 0 at case 0 \(2 cases in all\): it must be a rank in 1\.\.1,000 \(ranks are one-based",
        ),
        ([1, 2000], 1000, r"`ranks` is 2000 at case 1: it must be a rank in 1\.\.1,000"),
        ([1, np.nan], 1000, r"`ranks` has a missing value \(NaN\) at case 1"),
        ([1.5], 1000, "`ranks` must be whole numbers, got 1.5 at case 0"),
        ([[1], [2]], 1000, r"`ranks` must be one-dimensional, .*; it has shape \(2, 1\)"),
        ([], 1000, "`ranks` is empty: give at least one rank"),
        ([1], 0, "`n_items` must be a whole number of at least 1, got 0"),
        ([1], 9.5, "`n_items` must be a whole number of at least 1, got 9.5"),
    ],
)
def test_ranks_that_cannot_be_are_refused_by_all(function, ranks, n_items, message):
    with pytest.raises(ValueError, match=message):
        function(ranks, n_items)
    assert np.isfinite(function(3, 1000)).all()  # one rank may stand alone


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hoeffding(-0.1, 10), "`t` must be a finite number at least 0, got -0.1"),
        (lambda: hoeffding(np.nan, 10), "`t` must be a finite number at least 0, got nan"),
        (lambda: hoeffding(0.1, -5), "`cases` must be a whole number of at least 1, got -5"),
        (lambda: dominates([1], [0]), "`two` is 0 at case 0: it must be a rank in"),
        (lambda: optimal_mapping([1, 0], [5], 100, "uni9"), "`k` must be a positive whole number, got 0"),
        (lambda: optimal_mapping(1.5, [5], 100, "uni9"), "`k` must be a positive whole number, got 1.5"),
        (lambda: mapping_error(1, np.nan, [5], 100, "uni9"), "`f` must be a finite number at least 0, got nan"),
        (lambda: mapping_bounds(1, 0, 100, 1.0), "`negatives` must be a whole number of at least 1, got 0"),
        (lambda: mapping_bounds(1, 9, 0, 1.0), "`n_items` must be a whole number of at least 1, got 0"),
        (lambda: beta_mapping(np.inf, 9, 100), "`a` must be a finite number above 0, got inf"),
        (lambda: beta_mapping(0.5, 0, 100), "`negatives` must be a whole number of at least 1, got 0"),
        (lambda: beta_mapping(0.5, 9, np.nan), "`n_items` must be a finite number above 0, got nan"),
        (
            lambda: mean_squared_error_bound([1.0] * 3, "ap", [0.1] * 10, 10, "uni2", 0),
            "`cases` must be a whole number of at least 1, got 0",
        ),
        (
            lambda: mean_squared_error_bound([1.0] * 3, "ap", [np.nan] * 10, 10, "uni2", 5),
            "`prior` must be finite, got nan",
        ),
    ],
)
def test_numbers_that_cannot_be_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
