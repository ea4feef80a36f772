"""Cells of ranks instead of N ranks: nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

import fullrank as fr
import naive
from fullrank.estimators import problem
from fullrank.estimators._grid import Grid
from fullrank.ranks.groups import with_like_hits, with_like_samples

ESTIMATORS = [
    fr.MLE(),
    fr.MaxEntropy(),
    fr.BiasVariance(),
    fr.Multinomial(),
    fr.BiasVariance(prior=fr.MLE()),
    fr.Multinomial(prior=fr.MaxEntropy()),
    fr.WeightedMLE(),
    fr.MaxEntropy("authors"),
]


@pytest.fixture
def dense(monkeypatch):
    """A switch: from then on every fit uses one cell per rank."""

    def switch():
        def cells_for(tables, *_):
            return Grid.dense(int(np.ceil(max(table.n_items for table in tables))))

        monkeypatch.setattr("fullrank.estimators.problem.cells_for", cells_for)
        monkeypatch.setattr("fullrank.estimators.problem.MOST_NUMBERS", 10**9)  # else cells are put together

    return switch


def compare(estimator, counts, dense, ks=range(1, 101), tolerance=1e-4):
    metrics = [metric @ k for metric in (fr.Recall, fr.NDCG, fr.AP) for k in ks] + [fr.AP, fr.NDCG, fr.AUC]
    fitted = estimator.fit(counts)
    assert len(fitted.grid) < 0.7 * counts.n_items
    own = [fitted.expect(metric) for metric in metrics]
    dense()
    every = estimator.fit(counts)
    assert len(every.grid) == int(np.ceil(counts.pool_range[1])) or counts.varying_pool
    np.testing.assert_allclose(own, [every.expect(metric) for metric in metrics], rtol=tolerance)


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_grid_against_dense_at_20_000_items(estimator, replace, dense, rng):
    N, m = 20_000, 99
    r = naive.draw(naive.power_law_ranks(5000, N, rng), N, m, replace, rng)
    compare(estimator, fr.RankCounts.from_ranks(r, N, fr.Sample(m, replace)), dense)


@pytest.mark.parametrize("estimator", ESTIMATORS[:4], ids=str)
def test_more_negatives(estimator, dense, rng):
    N, m = 20_000, 499
    r = naive.draw(naive.power_law_ranks(5000, N, rng), N, m, True, rng)
    compare(estimator, fr.RankCounts.from_ranks(r, N, fr.Sample(m)), dense, ks=[1, 2, 5, 10, 20, 50, 100])


@pytest.mark.parametrize("estimator", [fr.MLE(), fr.BiasVariance(), fr.Multinomial(), fr.MaxEntropy()], ids=str)
def test_adaptive(estimator, dense, rng):
    N, design = 5000, fr.Adaptive(19, 159, 1)
    R = naive.power_law_ranks(1500, N, rng)
    seen = np.array([naive.draw_adaptive(each, N, 19, 159, 1, True, rng) for each in R])
    counts = fr.RankCounts.from_ranks(seen[:, 1] + 1, N, design, drawn=seen[:, 0])
    compare(estimator, counts, dense, ks=[1, 2, 5, 10, 20, 50, 100])


def test_varying_pools(dense, rng, monkeypatch):
    monkeypatch.setattr("fullrank.estimators.problem.MOST_NUMBERS", 10**8)  # the same bins of pools for both
    N = rng.integers(4000, 6000, 2000)
    R = 1 + np.floor((N - 1) * rng.random(2000) ** 3).astype(int)
    r = 1 + rng.binomial(49, (R - 1) / (N - 1))
    counts = fr.RankCounts.from_ranks(r, N, "uni49")
    compare(fr.MLE(), counts, dense, ks=[1, 2, 5, 10, 20, 50, 100])


def test_metrics_far_down_the_list(dense, rng):
    N = 20_000
    r = naive.draw(naive.power_law_ranks(5000, N, rng), N, 99, True, rng)
    counts = fr.RankCounts.from_ranks(r, N, "uni99")
    compare(fr.MLE(), counts, dense, ks=[1000, 1001, 1234, 5000, 19_999, 20_000])


@pytest.mark.parametrize("design", ["uni99", "uni999", fr.Adaptive(99, 3199)], ids=str)
@pytest.mark.parametrize("estimator", [fr.MLE(), fr.LogSpline()], ids=str)
def test_bins_of_pool_sizes_move_estimates_by_little_of_their_error(estimator, design, monkeypatch):
    rng = np.random.default_rng(3)
    N = np.maximum(4000 - rng.lognormal(4.7, 1.0, 5000).astype(int), 1000)  # as in MovieLens: a thousand sizes
    R = 1 + np.floor((N - 1) * rng.random(5000) ** 3).astype(int)
    asked = ["recall@5", "recall@10", "ndcg@10", "recall@50", "ndcg@50"]

    def values(sample):
        design_ = fr.parse_design(design)
        θ, drawn = (R - 1) / (N - 1), np.full(5000, 99)
        if isinstance(design_, fr.Sample):
            drawn[:] = design_.negatives
            hits = np.random.default_rng(sample).binomial(drawn, θ)
        else:
            rng, hits = np.random.default_rng(sample), np.zeros(5000, dtype=int)
            for before, size in ((0, 99), (99, 199), (199, 399), (399, 799), (799, 1599), (1599, 3199)):
                on = hits == 0
                hits[on] = rng.binomial(size - before, θ[on])
                drawn[on] = size
        fitted = estimator.fit(fr.RankCounts.from_ranks(hits + 1, N, design_, drawn=drawn))
        return [fitted.expect(metric) for metric in asked]

    few = np.array([values(sample) for sample in range(4)])
    error = few.std(axis=0, ddof=1)
    monkeypatch.setattr("fullrank.estimators.problem.FEW_POOLS", 64)
    monkeypatch.setattr("fullrank.estimators.problem.MOST_NUMBERS", 10**8)
    monkeypatch.setattr("fullrank.estimators.problem.POOL_SPREAD", 0.0)
    moved = np.abs(few[:2] - [values(sample) for sample in range(2)])
    assert moved.max() > 0, "nothing was binned"
    assert (moved / error).mean() < 0.1
    assert (moved / error).max() < 0.3


def test_few_pool_sizes_stay_apart_and_many_go_into_few_bins(rng):
    from fullrank.estimators.problem import build_problem, pool_bins

    def counts(N, design="uni9"):
        return fr.RankCounts.from_ranks(np.ones(len(N), dtype=int), N, design)

    few = build_problem(counts(np.repeat([1000, 1001, 5000], 50)))
    assert [table.n_items for table in few.tables] == [1000, 1001, 5000]
    close = counts(rng.integers(100_000, 100_500, 3000))
    assert pool_bins(close).max() == 0
    wide = counts(rng.integers(1000, 4000, 3000))
    bins = pool_bins(wide)
    assert 10 < bins.max() + 1 < 64
    assert pool_bins(wide, most=3).max() + 1 == 3
    sizes, pool = wide.pools
    log = np.log(sizes)[pool]
    left = log - (np.bincount(bins, wide.weight * log) / np.bincount(bins, wide.weight))[bins]
    assert np.sqrt(wide.weight @ left**2 / wide.weight.sum()) <= 0.01
    # nearly all candidates without replacement: pools are told apart the better
    nearly = counts(rng.integers(1000, 1030, 3000), fr.Sample(999, replace=False))
    assert len(np.unique(pool_bins(nearly))) == 30


@pytest.mark.parametrize("N", [1, 2, 1999, 2001, 5000, 20_001, 10**6, 10**8, 2 * 10**9])
@pytest.mark.parametrize("m", [1, 99, 999])
def test_cells_cover_every_rank_once(N, m):
    from fullrank.ranks.counts import PoolTable

    hits = np.arange(m + 1)
    grid = Grid.for_tables([PoolTable(float(N), np.full(m + 1, m), hits, np.ones((1, m + 1)))], True)
    assert grid.lo[0] == 1
    assert grid.hi[-1] == N
    np.testing.assert_array_equal(grid.lo[1:], grid.hi[:-1] + 1)
    assert grid.width.sum() == N
    assert len(grid) <= 8000
    head = min(N, 1000)
    np.testing.assert_array_equal(grid.lo[:head], np.arange(1, head + 1))


def test_mean_gain_is_the_mean_over_the_ranks_of_a_cell():
    N = 20_000
    grid = Grid(np.array([1, 2, 1001, 1011, 1501]), np.array([1, 1000, 1010, 1500, 1530]))
    for metric in ("recall@1200", "ndcg@1200", "ap@1005", "precision@1300", "ndcg", "ap", "auc", "recall@1", "recall"):
        metric = fr.parse_metric(metric)
        gain = np.zeros(len(grid))
        part = grid.mean_gain(metric, N)
        gain[: len(part)] = part
        values = metric.gain(np.arange(1, N + 1), N)
        wanted = [values[lo - 1 : hi].mean() for lo, hi in zip(grid.lo, grid.hi, strict=True)]
        # the second cell is far wider than any real one: its head is not smooth
        np.testing.assert_allclose(gain[2:], wanted[2:], rtol=1e-4 if metric.k else 1e-5)
        assert gain[0] == pytest.approx(wanted[0])


def test_a_curve_is_its_values_one_by_one(rng):
    r = naive.draw(naive.power_law_ranks(2000, 20_000, rng), 20_000, 99, True, rng)
    dist = fr.MLE().fit(fr.RankCounts.from_ranks(r, 20_000, "uni99"))
    for metric in ("recall", "ndcg", "ap", "precision", "auc", fr.Metric("mine", lambda R: 1 / R**2)):
        for ks in (50, [1, 7, 100], [20, 3], [10, 500], []):
            wanted = [dist.expect(fr.parse_metric(metric) @ k) for k in (range(1, 51) if ks == 50 else ks)]
            np.testing.assert_allclose(dist.curve(metric, ks), wanted, rtol=1e-12)


#: How far from the truth at N/10 each may be: the regularised ones lean to uniform, and say so in their docstrings.
LARGE = {
    fr.MLE(): 0.02,
    fr.BiasVariance(): 0.02,
    fr.BiasVariance(prior=fr.MLE()): 0.02,
    fr.Multinomial(prior=fr.MLE()): 0.02,
    fr.RankEstimate(): 0.02,
    fr.Mapping("beta"): 0.02,
    fr.CLS(): 0.05,
    fr.MaxEntropy(): 0.2,
    fr.Multinomial(): 0.6,
    fr.Naive(): 1.0,
}


@pytest.mark.parametrize("N", [10**8, 10**9])
@pytest.mark.parametrize("estimator", LARGE, ids=str)
def test_a_hundred_million_items(estimator, N, rng):
    R = naive.power_law_ranks(20_000, N, rng, a=0.2)
    for replace in (True, False):
        counts = fr.RankCounts.from_ranks(naive.draw(R, N, 99, replace, rng), N, fr.Sample(99, replace))
        value = estimator.fit(counts).expect(fr.Recall @ (N // 10))
        assert value == pytest.approx(np.mean(N // 10 >= R), abs=LARGE[estimator])


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("m", [99, 499])
def test_the_law_of_a_cell_is_the_mean_over_its_ranks(m, replace):
    from fullrank.ranks.counts import PoolTable

    N, design, hits = 20_000, fr.Sample(m, replace), np.arange(m + 1)
    grid = Grid.for_tables([PoolTable(float(N), np.full(m + 1, m), hits, np.ones((1, m + 1)))], replace)
    assert len(grid) < N / 5
    some = np.array([0, 1, 2, 5, 20, m // 2, m - 1, m])
    own = grid.law(design, N, np.full(len(some), m), some)
    every = design.law(np.arange(1, N + 1), N, np.full(len(some), m), some)
    wanted = np.add.reduceat(every, grid.lo - 1, axis=0) / grid.width[:, None]
    np.testing.assert_allclose(own, wanted, atol=2e-6 * every.max(0).min())


def pooled_samples(rng, users=700):
    """Several targets per user, whose negatives are drawn for all of them together and whose repeats count once."""
    targets = rng.integers(2, 15, users)
    pool = 1700 - 40 * targets + rng.integers(0, 60, users)  # users with many items have fewer candidates left
    T, N = np.repeat(targets, targets), np.repeat(pool, targets)
    m = np.repeat([len(np.unique(rng.integers(0, n - 1, 60 * t))) for n, t in zip(pool, targets, strict=True)], targets)
    user = np.repeat(np.arange(users), targets)
    R = np.minimum(naive.power_law_ranks(len(T), 1000, rng), N)
    order = np.lexsort((R, user))
    j = np.empty(len(T), dtype=np.int64)
    j[order] = np.concatenate([np.arange(1, t + 1) for t in targets])
    hits = rng.hypergeometric(R - 1, N - R, m)
    about = {"users": user, "order": j, "targets": T}
    counts = fr.RankCounts.from_outcomes(m, hits, N, fr.Sample(60, replace=False), **about)
    return counts, fr.RankCounts.from_ranks(R, N, "full", **about)


def test_samples_of_very_many_sizes_keep_their_share_of_the_candidates(rng):
    counts, truth = pooled_samples(rng)
    dist, full = fr.LogSpline().fit(counts), fr.MLE().fit(truth)
    fitted = dist.posterior.problem
    assert len(fitted.tables) == 1
    assert len(fitted.counts.sizes) < 60 < len(counts.sizes)
    assert len(fitted.counts) == len(counts)
    for metric in ("recall@10", "ndcg@10", "ndcg@50"):
        assert dist.expect(metric) == pytest.approx(full.expect(metric), rel=0.06)
        low, high = dist.bounds(metric)
        assert 0 < low < full.expect(metric) < high < 1


def test_like_hits_keep_cases_and_few_hits_and_hardly_move_many(rng):
    counts, _ = pooled_samples(rng, users=60)
    like = with_like_hits(counts, 0.04)
    assert (len(like), like.n_items, len(like.groups[0])) == (len(counts), counts.n_items, len(counts.groups[0]))
    before, after = (np.bincount(each.column("hits"), each.weight, 2000) for each in (counts, like))
    np.testing.assert_array_equal(before[:20], after[:20])
    assert np.count_nonzero(after) < 0.5 * np.count_nonzero(before)
    # the same number of cases lies to either side of any number of hits, but for those within 2 % of it
    below = [np.concatenate([[0], np.cumsum(each)]) for each in (before, after)]
    for x in range(1, 1900):
        assert below[0][int(0.97 * x)] <= below[1][x] <= below[0][int(np.ceil(1.03 * x)) + 1]
    known = fr.RankCounts.from_ranks([1, 777, 778, 800], 900, "full")
    assert with_like_hits(known, 0.04) == known


def test_a_smooth_fit_loses_nothing_by_putting_like_ranks_and_hits_together(rng, monkeypatch):
    counts, _ = pooled_samples(rng)
    together = fr.LogSpline().fit(counts)
    monkeypatch.setattr(problem, "HITS_WIDTH", 1e-6)
    monkeypatch.setattr(problem, "CELL_RANKS", 1)
    monkeypatch.setattr(problem, "MOST_NUMBERS", 10**9)
    apart = fr.LogSpline().fit(counts)
    assert together.posterior.data.A.size < 0.3 * apart.posterior.data.A.size
    for metric in ("recall@10", "ndcg@10", "ndcg@50", "mrr@10"):
        (low, high), (left, right) = together.interval(metric), apart.interval(metric)
        assert together.expect(metric) == pytest.approx(apart.expect(metric), abs=0.1 * (right - left))
        assert high - low == pytest.approx(right - left, rel=0.15)


def test_gains_of_another_metric_or_other_cases_are_not_those_kept(rng):
    counts, _ = pooled_samples(rng, users=60)
    other, _ = pooled_samples(rng, users=50)
    grid = Grid.dense(2000)
    for each in (counts, other):
        for metric in (fr.NDCG @ 10, fr.Recall @ 10, fr.Hit @ 10, fr.NDCG @ 20):
            for n_items in (1500.0, 1700.0):
                asked = metric, n_items, each.groups, each.strata
                kept, again = list(grid.gains(*asked)), list(grid.gains(*asked))
                fresh = list(Grid.dense(2000).gains(*asked))
                for one in (kept, again):
                    for (row, which, gain), (wanted_row, wanted_which, wanted) in zip(one, fresh, strict=True):
                        assert row == wanted_row
                        np.testing.assert_array_equal(which, wanted_which)
                        np.testing.assert_array_equal(gain, wanted)


def test_like_samples_keep_cases_hits_and_share(rng):
    counts, _ = pooled_samples(rng, users=60)
    like = with_like_samples(counts, 0.05)
    assert not like.varying_pool
    assert (len(like), like.n_items) == (len(counts), pytest.approx(counts.n_items))
    hits = [np.bincount(each.column("hits"), each.weight, 2000) for each in (counts, like)]
    np.testing.assert_array_equal(*hits)
    share = counts.column("drawn") / (counts.pool_weight / counts.weight - 1)
    other = like.column("drawn") / (like.n_items - 1)
    assert np.average(other, weights=like.weight) == pytest.approx(np.average(share, weights=counts.weight), rel=0.01)
