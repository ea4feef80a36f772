"""kr20's toy example and closed forms, li20's mean, variance and bound."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fullrank as fr
import naive
from fullrank.ranks.theory import expected_naive, hoeffding, sampled_recall

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
