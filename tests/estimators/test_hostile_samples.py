"""Samples that made estimates, intervals or bounds wrong without a word: few cases, weights, wide cells, unlike pools."""

import numpy as np
import pytest

import fullrank as fr


def loguniform(rng, cases, n_items):
    return np.floor(n_items ** rng.random(cases)).astype(int).clip(1, n_items)


@pytest.mark.parametrize("design", ["uni99", fr.Adaptive(99, 3199, stop_at=1), fr.Adaptive()], ids=str)
@pytest.mark.parametrize("cases", [1, 2, 5])
def test_few_cases_have_values_that_a_metric_can_take(design, cases):
    """Cells that rounding had emptied were raised to 10^290."""
    design = fr.parse_design(design).resolve(20_000)
    for seed in range(12):
        rng = np.random.default_rng([seed, 4])
        drawn, hits = design.simulate(loguniform(rng, cases, 20_000), np.full(cases, 20_000), rng)
        dist = fr.LogSpline().fit(fr.RankCounts.from_outcomes(drawn, hits, 20_000, design))
        assert (dist.posterior.mass >= 0).all()
        for metric in ("recall@10", "ndcg", "mrr@1000"):
            assert 0 <= dist.expect(metric) <= 1
            low, high = dist.interval(metric)
            assert 0 <= low <= dist.expect(metric) <= high <= 1


@pytest.mark.parametrize("estimator", [fr.LogSpline(), fr.MLE(), fr.BiasVariance(0.01), fr.CLS()], ids=str)
def test_the_unit_of_weights_changes_nothing(estimator):
    rng = np.random.default_rng(0)
    sampled = 1 + rng.binomial(99, (loguniform(rng, 2000, 20_000) - 1) / 19_999)
    found = []
    for weight in (1.0, 1000.0, 0.001):
        counts = fr.RankCounts.from_ranks(sampled, 20_000, "uni99", weights=np.full(2000, weight))
        dist = estimator.fit(counts)
        asked = [(metric, target) for metric in ("recall@100", "ndcg@10") for target in ("cases", "population")]
        found.append([*(dist.interval(metric, target=target) for metric, target in asked), dist.bounds("recall@100")])
    assert found[1] == pytest.approx(np.array(found[0]), rel=1e-6)
    assert found[2] == pytest.approx(np.array(found[0]), rel=1e-6)


def test_cases_that_weigh_a_thousand_are_as_few_as_they_are():
    """Weights of one cell were taken as equal: the few heavy cases that decide a value looked like many."""
    covered, missed_by_bounds = [], 0
    for seed in range(30):
        rng = np.random.default_rng([seed, 8])
        true = loguniform(rng, 6000, 3000)
        weight = np.where(rng.random(6000) < 0.01, 1000.0, 1.0)
        counts = fr.RankCounts.from_ranks(1 + rng.binomial(99, (true - 1) / 2999), 3000, "uni99", weights=weight)
        assert counts.effective_cases == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
        dist = fr.LogSpline().fit(counts)
        for metric in ("recall@100", "auc"):
            low, high = dist.interval(metric)
            truth = np.average(fr.parse_metric(metric).gain(true, 3000), weights=weight)
            covered.append(low <= truth <= high)
        low, high = dist.bounds("recall@100")
        missed_by_bounds += not low <= np.average(true <= 100, weights=weight) <= high
    assert np.mean(covered) >= 0.9
    assert missed_by_bounds == 0


def test_counts_add_split_and_save_the_squares_of_weights(tmp_path):
    rng = np.random.default_rng(1)
    ranks, weight = rng.integers(1, 9, 400), rng.lognormal(0, 2, 400)
    about = {"n_items": 50, "design": "uni9"}
    whole = fr.RankCounts.from_ranks(ranks, weights=weight, users=np.arange(400), **about)
    halves = [
        fr.RankCounts.from_ranks(ranks[part], weights=weight[part], users=np.arange(400)[part], **about)
        for part in (slice(0, 150), slice(150, 400))
    ]
    assert sum(halves) == whole
    assert whole.square_weight.sum() == pytest.approx((weight**2).sum())
    whole.save(tmp_path / "counts.npz")
    assert fr.RankCounts.load(tmp_path / "counts.npz") == whole


@pytest.mark.parametrize(
    ("n_items", "rank", "cases", "negatives"),
    [(5000, 2000, 20_000, 99), (20_000, 1500, 5_000, 499), (5000, 100, 200_000, 99), (5000, 200, 20_000, 99)],
)
def test_bounds_hold_where_all_targets_are_at_the_cut_off(n_items, rank, cases, negatives):
    """The gain of a cell was the mean of its ranks, and its law that of its middle."""
    beyond = []
    for seed in range(4):
        sampled = 1 + np.random.default_rng(seed).binomial(negatives, (rank - 1) / (n_items - 1), cases)
        counts = fr.RankCounts.from_ranks(sampled, n_items, f"uni{negatives}")
        assert fr.bounds(counts, f"recall@{rank}")[1] >= 1 - 1e-9
        beyond.append(fr.bounds(counts, f"recall@{rank - 1}")[0])
        step = fr.Metric("step", lambda R: np.where(rank >= R, 2.0, 0.0))
        assert fr.bounds(counts, step @ n_items)[1] >= 2 - 1e-9
    assert np.median(beyond) <= 1e-9  # limits at 95 % may miss a little once


@pytest.mark.parametrize(("fewest", "most", "rank"), [(10, 10_000, 10), (100, 1000, 50), (500, 5000, 100)])
def test_bounds_hold_where_numbers_of_candidates_differ_widely(fewest, most, rank):
    rng = np.random.default_rng(1)
    pool = np.exp(rng.uniform(np.log(fewest), np.log(most), 3000)).astype(int)
    true = np.minimum(rank, pool)
    counts = fr.RankCounts.from_ranks(1 + rng.binomial(50, (true - 1) / (pool - 1)), pool, "uni50")
    assert fr.bounds(counts, f"recall@{rank}")[1] >= 1 - 1e-9


def test_unlike_numbers_of_candidates_widen_intervals_and_say_why():
    """One distribution of ranks was fitted to cases with ten candidates and cases with ten thousand."""
    rng = np.random.default_rng(2)
    pool = np.exp(rng.uniform(np.log(10), np.log(10_000), 3000)).astype(int)
    true = np.ceil(pool * rng.random(3000) ** 3).astype(int)
    counts = fr.RankCounts.from_ranks(1 + rng.binomial(99, (true - 1) / (pool - 1)), pool, "uni99")
    dist = fr.LogSpline().fit(counts)
    assert any("one distribution of ranks does not fit them all" in note for note in dist.fit_info.notes)
    for metric in ("recall@10", "ndcg@10", "recall@100"):
        low, high = dist.interval(metric)
        assert low <= fr.parse_metric(metric).gain(true, pool).mean() <= high
    alike = fr.RankCounts.from_ranks(
        1 + rng.binomial(99, (true - 1) / 9999), 10_000 - rng.integers(0, 500, 3000), "uni99"
    )
    assert not any("one distribution" in note for note in fr.LogSpline().fit(alike).fit_info.notes)


@pytest.mark.parametrize(("n_items", "negatives", "cases"), [(20, 1, 500), (5, 1, 20), (100, 3, 20)])
def test_catalogues_far_below_those_seen_lean_on_the_bounds(n_items, negatives, cases):
    covered = []
    for seed in range(25):
        rng = np.random.default_rng([seed, 6])
        true = rng.integers(1, n_items + 1, cases)
        sampled = 1 + rng.binomial(negatives, (true - 1) / (n_items - 1))
        dist = fr.LogSpline().fit(fr.RankCounts.from_ranks(sampled, n_items, f"uni{negatives}"))
        low, high = dist.interval("recall@1")
        covered.append(low <= (true == 1).mean() <= high)
        assert any("bounds that the data alone allow" in note for note in dist.fit_info.notes)
    assert np.mean(covered) >= 0.92


def test_auc_of_several_targets_comes_from_the_counts():
    """It came from a fit at the mean number of candidates, with an interval that knew of neither users nor targets."""
    covered = []
    for seed in range(40):
        rng = np.random.default_rng([seed, 12])
        targets = np.where(rng.random(300) < 0.5, 1, 30)
        T, j = np.repeat(targets, targets), np.concatenate([np.arange(1, each + 1) for each in targets])
        pool = 2000 - T + 1
        true = np.ceil(pool * rng.random(len(T)) ** np.where(T > 1, 2, 6)).astype(int)
        about = {"users": np.repeat(np.arange(300), targets), "targets": T, "order": j}
        counts = fr.RankCounts.from_ranks(1 + rng.binomial(19, (true - 1) / (pool - 1)), pool, "uni19", **about)
        dist = fr.LogSpline().fit(counts)
        assert dist.expect("auc") == counts.auc
        assert fr.MLE().fit(counts).expect("auc") == counts.auc
        low, high = dist.interval("auc")
        covered.append(low <= np.average((pool - true) / (pool - 1), weights=1 / T) <= high)
    assert np.mean(covered) >= 0.9
