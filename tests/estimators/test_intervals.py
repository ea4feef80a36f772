"""Intervals by resampling and simulation, and bounds that assume nothing."""

import numpy as np
import pytest
from test_grid import pooled_samples

import fullrank as fr
from fullrank.estimators import likelihood
from fullrank.estimators._grid import Grid
from fullrank.estimators.hyperprior import shipped
from fullrank.estimators.intervals import simulated, users_interval
from fullrank.estimators.splines import SplineModel


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    true = np.minimum(np.exp(rng.gamma(3.0, 1.5, size=1500)), 2000).astype(int)
    return true, fr.RankCounts.from_ranks(1 + rng.binomial(99, (true - 1) / 1999), 2000, "uni99")


def test_known_ranks_are_a_point_for_the_cases_and_a_normal_interval_for_the_population(counts):
    true, _ = counts
    dist = fr.MLE().fit(fr.RankCounts.from_ranks(true, 2000, "full"))
    value = dist.expect("recall@10")
    assert dist.interval("recall@10") == (value, value)
    low, high = dist.interval("recall@10", target="population")
    assert (high - low) / 2 == pytest.approx(1.97 * np.sqrt(value * (1 - value) / 1500), rel=0.15)


@pytest.mark.parametrize("word", ["bv0.01", "mle", "mn_mle", "mes", "wmle", "bv_mle"])
@pytest.mark.parametrize("target", ["cases", "population"])
def test_width_matches_the_spread_of_the_estimator_over_samples(word, target):
    """The interval of one sample is as wide as the estimator really varies, within Monte-Carlo error."""
    rng = np.random.default_rng(1)
    world = np.minimum(np.exp(rng.gamma(3.0, 1.5, size=100_000)), 1000).astype(int)
    true = world[:800]
    estimator = fr.parse_estimator(word)
    values, widths = [], []
    for _ in range(40):
        ranks = true if target == "cases" else rng.choice(world, 800)
        sample = fr.RankCounts.from_ranks(1 + rng.binomial(49, (ranks - 1) / 999), 1000, "uni49")
        dist = estimator.fit(sample)
        values.append(dist.expect("recall@20"))
        if len(widths) < 4:
            widths.append(np.diff(dist.interval("recall@20", target=target))[0])
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.std(values), rel=0.45)


@pytest.mark.parametrize("word", ["naive", "rank-estimate", "cls", "beta"])
def test_estimates_without_a_distribution_have_intervals_too(counts, word):
    dist = fr.parse_estimator(word).fit(counts[1])
    for target in ("cases", "population"):
        low, high = dist.interval("recall@10", target=target)
        assert low < dist.expect("recall@10") < high


def test_one_set_of_refits_serves_every_metric(counts, monkeypatch):
    dist = fr.Multinomial(prior=fr.MLE()).fit(counts[1])
    first = dist.interval("recall@10", target="population")
    low, high = dist.interval("recall@20", target="population")
    assert low < dist.expect("recall@20") < high
    fits = []
    monkeypatch.setattr(fr.Multinomial, "fit", lambda *_: fits.append(1))
    assert dist.interval("recall@10", target="population") == first
    assert not fits


@pytest.mark.parametrize("estimator", [fr.MLE(), fr.BiasVariance(n_items="bins"), fr.MaxEntropy()], ids=str)
def test_replicates_vary_on_a_rough_grid_as_on_the_fine_one(counts, estimator):
    problem, _ = estimator.fit(counts[1]).refit
    rough = problem.coarser(3)

    def values(metric, sample):
        fine, solve = estimator.fit(sample).refit
        return [
            np.sum(solve(each)[0] * each.grid.pooled_gains(metric, 2000, sample.groups, sample.strata)[0])
            for each in (fine, fine.coarser(3))
        ]

    assert len(rough.grid) < len(problem.grid) / 8
    assert rough.grid.lo[0] == 1
    assert (rough.grid.lo[1:] == rough.grid.hi[:-1] + 1).all()
    assert rough.grid.hi[-1] == problem.grid.hi[-1]
    for metric in (fr.Recall @ 5, fr.NDCG @ 20, fr.AP):
        spreads = np.std([values(metric, counts[1].resample(seed)) for seed in range(10)], axis=0)
        assert spreads[1] == pytest.approx(spreads[0], rel=0.03)


def test_a_stratum_of_one_case_leaves_the_interval_finite():
    """One user in forty has two targets."""
    rng = np.random.default_rng(9)
    users, order, targets = [*range(40), 40, 40], [1] * 41 + [2], [1] * 40 + [2, 2]
    counts = fr.RankCounts.from_ranks(
        1 + rng.binomial(99, 0.05, 42), 500, "uni99", users=users, order=order, targets=targets
    )
    for estimator in (fr.MLE(), fr.BiasVariance(), fr.MaxEntropy()):
        dist = estimator.fit(counts)
        assert np.isfinite(dist._replicates[1]).all()
        assert np.isfinite(dist.interval("recall@10", target="population")).all()


def test_bad_questions(counts):
    dist = fr.MLE().fit(counts[1])
    with pytest.raises(ValueError, match="`level` must be between 0 and 1"):
        dist.interval("recall@10", level=95)
    with pytest.raises(ValueError, match="`target` must be 'cases' or 'population'"):
        dist.interval("recall@10", target="users")
    with pytest.raises(ValueError, match="AUC needs no bounds"):
        fr.bounds(counts[1], "auc")


def test_bounds_hold_every_smooth_or_rough_truth():
    rng = np.random.default_rng(2)
    N = 3000
    worlds = {
        "smooth": lambda: np.minimum(np.exp(rng.gamma(3.0, 1.5, size=600)), N),
        "two points": lambda: np.where(rng.random(600) < 0.3, 4, 900),
        "uniform": lambda: rng.integers(1, N + 1, size=600),
        "all first": lambda: np.ones(600),
    }
    for world in worlds.values():
        for negatives in (9, 199):
            true = world().astype(int)
            sample = fr.RankCounts.from_ranks(1 + rng.binomial(negatives, (true - 1) / (N - 1)), N, f"uni{negatives}")
            for metric in (fr.Recall @ 10, fr.NDCG @ 50):
                low, high = fr.bounds(sample, metric)
                assert low - 1e-9 <= metric.gain(true).mean() <= high + 1e-9


@pytest.mark.parametrize("estimator", [fr.LogSpline(), fr.Naive(), fr.CLS(), fr.Mapping("linear")])
def test_estimates_say_the_bounds_of_their_counts(counts, estimator):
    dist = estimator.fit(counts[1])
    for level in (0.95, 0.5):
        assert dist.bounds("recall@10", level) == fr.bounds(counts[1], "recall@10", level)
    with pytest.raises(ValueError, match="`level` must be between 0 and 1"):
        dist.bounds("recall@10", level=95)


def test_the_bounds_of_auc_are_its_interval(counts):
    dist = fr.LogSpline().fit(counts[1])
    assert dist.bounds("auc", 0.9) == dist.interval("auc", 0.9)


@pytest.mark.parametrize("world", ["smooth", "spike", "first only"])
def test_bounds_with_several_targets_hold_and_stay_within_the_metric(world):
    rng, N = np.random.default_rng(6), 2000
    draw = {
        "smooth": lambda T: np.minimum(np.exp(rng.gamma(3.2, 1.4, size=T)), N).astype(int),
        "spike": lambda T: np.where(rng.random(T) < 0.4, rng.integers(1, 12, T), rng.integers(1, N, T)),
        "first only": lambda T: np.where(np.arange(T) < 1, 3, 700),
    }[world]
    sizes = np.clip(rng.lognormal(1.8, 0.9, size=300), 1, 80).astype(int)
    true = np.concatenate([np.sort(draw(T)) for T in sizes])
    who = {
        "users": np.repeat(np.arange(300), sizes),
        "order": np.concatenate([np.arange(1, T + 1) for T in sizes]),
        "targets": np.repeat(sizes, sizes),
    }
    full = fr.Naive().fit(fr.RankCounts.from_ranks(true, N, "full", **who))
    sample = fr.RankCounts.from_ranks(1 + rng.binomial(99, (true - 1) / (N - 1)), N, "uni99", **who)
    for metric in ("recall@10", "precision@10", "ndcg@10", "mrr@10", "hr@10", "ap@20"):
        low, high = fr.bounds(sample, metric)
        assert 0 <= low <= full.expect(metric) <= high <= 1
    low, high = fr.bounds(sample, "hr@10")
    assert high - low < 0.95  # the first targets speak for themselves, whatever happens to the others


def dense_bounds(counts, metric, level=0.95):
    """All ranks at once, for one pool size: what column generation must agree with."""
    from scipy.optimize import linprog

    from fullrank.estimators.bounds import CUTS, CompatibleRanks, _Programme

    prepared = CompatibleRanks(counts, level)
    everywhere = np.ones(len(counts.keys), dtype=bool)
    unknown, grid = prepared.unknown, prepared.grid
    held = _Programme(prepared, unknown.weight, unknown.square_weight, everywhere, (1 - level) / CUTS)
    before = [
        fr.Sample(int(counts.sizes[0])).law(each, counts.n_items, *_outcomes(counts)) for each in (grid.hi, grid.lo)
    ]
    ends = []
    for sign, rank in ((1, grid.hi), (-1, grid.lo)):  # the least gain of a cell is that of its last rank
        gain = sign * fr.parse_metric(metric).gain(rank, counts.n_items)
        found = linprog(
            gain, A_ub=held.rows, b_ub=np.concatenate([held.high, -held.low]), A_eq=np.ones((1, len(gain))), b_eq=[1.0]
        )
        ends.append(sign * found.fun)
    # rows: of the last rank of a cell at least, of the first at most so many are seen up to a cut
    spoken = 1 + (counts.n_items - 1) * (_outcomes(counts)[1] + 0.5) / (counts.sizes[0] + 1)
    N, m = counts.n_items, counts.sizes[0]
    cuts = np.geomspace((1 + (N - 1) * 0.5 / (m + 1)) * 1.001, N * 0.9, CUTS)
    for rows, law in zip(np.split(held.rows, 2), before, strict=True):
        assert np.abs(rows) == pytest.approx((law @ (spoken[:, None] <= cuts)).T, abs=1e-9)
    return tuple(ends)


def _outcomes(counts):
    hits = np.arange(int(counts.sizes[0]) + 1)
    return np.full_like(hits, counts.sizes[0]), hits


@pytest.mark.parametrize(("n_items", "negatives", "cases"), [(300, 9, 50), (3000, 99, 2000), (50_000, 99, 20_000)])
def test_bounds_are_those_of_the_whole_programme(n_items, negatives, cases):
    rng = np.random.default_rng(5)
    true = np.minimum(np.exp(rng.gamma(3.0, 1.5, size=cases)), n_items).astype(int)
    sample = fr.RankCounts.from_ranks(
        1 + rng.binomial(negatives, (true - 1) / (n_items - 1)), n_items, f"uni{negatives}"
    )
    for metric in ("recall@10", "ndcg@50", "ap@3"):
        assert fr.bounds(sample, metric) == pytest.approx(dense_bounds(sample, metric), abs=3e-6)


def test_bounds_shrink_with_more_negatives_and_close_when_ranks_are_known():
    rng = np.random.default_rng(3)
    true = np.minimum(np.exp(rng.gamma(3.0, 1.5, size=2000)), 2000).astype(int)
    widths = []
    for negatives in (19, 1499):
        sample = fr.RankCounts.from_ranks(1 + rng.binomial(negatives, (true - 1) / 1999), 2000, f"uni{negatives}")
        widths.append(np.diff(fr.bounds(sample, "recall@20"))[0])
    assert widths[1] < 0.5 * widths[0]
    known = fr.RankCounts.from_ranks(true, 2000, "full")
    assert fr.bounds(known, "recall@20") == pytest.approx((np.mean(true <= 20),) * 2)


def test_bounds_on_adaptive_and_unequal_samples():
    rng = np.random.default_rng(4)
    true = np.minimum(np.exp(rng.gamma(3.0, 1.5, size=800)), 2000).astype(int)
    drawn = rng.choice([20, 60], size=800)
    hits = rng.binomial(drawn, (true - 1) / 1999)
    unequal = fr.RankCounts.from_ranks(hits + 1, 2000, "uni60", drawn=drawn)
    low, high = fr.bounds(unequal, "recall@50")
    assert low <= np.mean(true <= 50) <= high
    design = fr.Adaptive(19, 319, stop_at=1)
    m, x = np.full(800, 19), rng.binomial(19, (true - 1) / 1999)
    for size in design.stages(2000)[1:]:
        on = (x < 1) & (m < size)
        x, m = x + rng.binomial(np.where(on, size - m, 0), (true - 1) / 1999), np.where(on, size, m)
    adaptive = fr.RankCounts.from_ranks(x + 1, 2000, design, drawn=m)
    low, high = fr.bounds(adaptive, "recall@50")
    assert low <= np.mean(true <= 50) <= high


@pytest.mark.parametrize("estimator", [fr.CLS(), fr.Naive(), fr.Mapping("linear"), fr.Multinomial(prior=fr.MLE())])
@pytest.mark.parametrize("cases", [1, 3, 40])
def test_few_cases_have_intervals_too(estimator, cases):
    """Simulated samples hold as many cases as the real one, however thinly they are spread over ranks."""
    counts = fr.RankCounts.from_ranks([1, 4, 2, 30][:cases] * (1 if cases < 4 else 10), n_items=5000, design="uni99")
    dist = estimator.fit(counts)
    low, high = dist.interval(fr.Recall @ 10)
    assert low <= dist.expect(fr.Recall @ 10) <= high


@pytest.mark.parametrize("estimator", [fr.LogSpline(), fr.MLE(), fr.BiasVariance(), fr.CLS(), fr.Naive()], ids=str)
def test_no_interval_goes_beyond_what_the_metric_can_be(estimator):
    for ranks in ([1] * 50, [7], [100] * 50):
        dist = estimator.fit(fr.RankCounts.from_ranks(ranks, 5000, "uni99"))
        for metric, best in (("recall@10", 1.0), ("ndcg@10", 1.0), ("precision@10", 0.1)):
            for target in ("cases", "population"):
                low, high = dist.interval(metric, target=target)
                if high == np.inf:  # one case says nothing of a population
                    continue
                value = dist.expect(metric)
                assert min(0.0, value) <= low <= value + 1e-12
                assert value - 1e-12 <= high <= max(best, value)
    mine = fr.Metric("mine", lambda R: 3 - R / 2500)
    dist = estimator.fit(fr.RankCounts.from_ranks([1] * 50, 5000, "uni99")) if estimator != fr.CLS() else None
    assert dist is None or dist.interval(mine)[1] > 1


# ------------------------------------------------------------------------------------------------- the population


@pytest.mark.parametrize("design", ["full", "uni99"])
@pytest.mark.parametrize(
    "estimator",
    [fr.LogSpline(), fr.MLE(), fr.BiasVariance(), fr.CLS(), fr.Naive(), fr.RankEstimate(), fr.Mapping("bound")],
    ids=str,
)
def test_users_who_agree_do_not_speak_for_everybody(estimator, design):
    """Thirty of thirty hits, or none: the population may still be otherwise, and is never better known than the cases."""
    for rank, agreed in ((1, 1.0), (100, 0.0)):
        dist = estimator.fit(fr.RankCounts.from_ranks([rank] * 30, 1000, design))
        for metric in ("recall@10", "ndcg@10") if not isinstance(estimator, fr.Mapping) else ("recall@10",):
            low, high = dist.interval(metric, target="population")
            inside = dist.interval(metric)
            assert low <= inside[0]
            assert inside[1] <= high
            assert high - low > 0.05
            if design == "full":
                assert {low, high} & {agreed}
                assert abs((1 - high) + low - 1) < 0.16  # about three of thirty unseen


def test_shares_of_known_ranks_lie_between_jeffreys_and_clopper_pearson():
    stats = pytest.importorskip("scipy.stats")
    for hits in (0, 1, 7, 40):
        counts = fr.RankCounts.from_ranks([1] * hits + [99] * (40 - hits), 100, "full", users=range(40))
        low, high = users_interval(counts, fr.Recall @ 10, hits / 40, 0.95)
        jeffreys = stats.beta(hits + 0.5, 40 - hits + 0.5).ppf([0.025, 0.975])
        widest = stats.binomtest(hits, 40).proportion_ci(0.95)
        # blocks are hashes of users: two that share one may cost a little
        assert widest.low - 0.02 <= low <= jeffreys[0]
        assert jeffreys[1] <= high <= widest.high + 0.02


def test_many_cases_of_few_users_are_few():
    rng = np.random.default_rng(5)
    users = np.repeat(np.arange(20), 50)
    ranks = np.where(rng.random(20) < 0.5, 1, 50)[users]  # a user is hit always or never
    together = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, 100, "full", users=users))
    alone = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, 100, "full"))
    widths = [np.diff(each.interval("recall@10", target="population"))[0] for each in (together, alone)]
    assert widths[0] > 5 * widths[1]
    sampled = 1 + rng.binomial(99, (ranks - 1) / 99)
    dist = fr.LogSpline().fit(fr.RankCounts.from_ranks(sampled, 100, "uni99", users=users))
    assert np.diff(dist.interval("recall@10", target="population"))[0] > 0.8 * widths[0]
    for users, least in (
        (2, 0.9),
        (5, 0.995),
    ):  # all agree, so that nothing shows how users go together: fewer say less
        counts = fr.RankCounts.from_ranks([1] * 1000, 100, "full", users=np.arange(1000) % users)
        assert fr.MLE().fit(counts).interval("recall@10", target="population")[0] < least


def test_weights_count_as_the_cases_they_are_worth():
    ranks = [1, 50, 3, 80, 2, 60] * 20
    light = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, 100, "full", weights=[1.0] * 120))
    heavy = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, 100, "full", weights=[100.0] * 120))
    assert heavy.interval("ndcg@10", target="population") == pytest.approx(
        light.interval("ndcg@10", target="population")
    )


def test_a_metric_of_ones_own_and_one_that_is_constant():
    ranks = fr.RankCounts.from_ranks([1] * 30, 100, "full")
    low, high = fr.MLE().fit(ranks).interval(fr.Metric("mine", lambda R: 5 - R / 50), target="population")
    assert 4.6 < low < 4.98 <= high <= 4.98 + 1e-9
    precision = fr.MLE().fit(ranks)
    assert precision.interval("precision", target="population") == (precision.expect("precision"),) * 2


def test_auc_from_the_counts_is_no_surer_of_the_population_than_of_the_cases():
    rng = np.random.default_rng(6)
    pools = rng.choice([500, 1000, 2000], 200)
    ranks = 1 + rng.binomial(9, 0.2, 200)
    dist = fr.LogSpline().fit(fr.RankCounts.from_ranks(ranks, pools, "uni9"))
    cases, population = dist.interval("auc"), dist.interval("auc", target="population")
    assert population[0] <= cases[0] < dist.expect("auc") < cases[1] <= population[1]


@pytest.mark.parametrize(("cases", "recall"), [(30, 0.02), (30, 0.99), (100, 0.02), (300, 0.005), (1000, 0.3)])
def test_population_intervals_of_known_ranks_hold(cases, recall):
    """The cells where a normal interval fails, and one where it does not; 28 of them are in benchmarks/population.py."""
    rng = np.random.default_rng(7)
    law = power_law(recall, 1000)
    held = dict.fromkeys((fr.Recall @ 10, fr.NDCG @ 10), 0)
    for _ in range(200):
        dist = fr.MLE().fit(fr.RankCounts.from_ranks(1 + rng.choice(1000, cases, p=law), 1000, "full"))
        for metric in held:
            low, high = dist.interval(metric, target="population")
            held[metric] += low <= law @ metric.gain(np.arange(1, 1001)) <= high
    assert all(each / 200 >= 0.91 for each in held.values())


@pytest.mark.parametrize(("cases", "recall", "n_items"), [(30, 0.005, 2000), (100, 0.02, 2000), (30, 0.99, 120)])
def test_population_intervals_of_sampled_ranks_hold(cases, recall, n_items):
    rng = np.random.default_rng(8)
    prior = shipped("unseen")
    model = SplineModel.on(Grid.dense(n_items), prior.coefficients)
    shape = model.mass(prior.mean_coefficients(n_items)[1][1])
    law = power_law(recall, n_items, shape * np.arange(1, n_items + 1))
    held = 0
    for _ in range(40):
        ranks = 1 + rng.binomial(99, rng.choice(n_items, cases, p=law) / (n_items - 1))
        low, high = (
            fr.LogSpline()
            .fit(fr.RankCounts.from_ranks(ranks, n_items, "uni99"))
            .interval("recall@10", target="population")
        )
        held += low <= recall <= high
    assert held >= 36


def power_law(recall, n_items, shape=1.0):
    """R^−a times ``shape``, a chosen for this Recall@10."""
    low, high = -20.0, 20.0
    for _ in range(60):
        a = (low + high) / 2
        law = shape * np.arange(1.0, n_items + 1) ** -a
        law /= law.sum()
        low, high = (a, high) if law[:10].sum() < recall else (low, a)
    return law


def test_bounds_of_a_sample_too_large_to_go_through_assume_nothing_at_all():
    counts = fr.RankCounts.from_ranks([1, 1, 40, 70_000], 10**6, fr.Sample(100_000, replace=False))
    assert fr.MLE().fit(counts).bounds(fr.NDCG @ 10) == (0.0, 1.0)


@pytest.mark.parametrize("word", ["mle", "bv_mle", "bv0.01"])
def test_replicates_have_each_sample_size_as_often_as_it_is_there(word):
    """One case in ten with many negatives does not make the others precise: they did, each size being drawn as often."""
    rng = np.random.default_rng(5)
    true = 1 + rng.binomial(499, rng.beta(0.4, 2.0, size=600))
    drawn = np.where(rng.random(600) < 0.9, 9, 200)
    samples = (
        fr.RankCounts.from_ranks(1 + rng.binomial(drawn, (true - 1) / 499), 500, fr.Sample(9), drawn=drawn)
        for _ in range(25)
    )
    fits = [fr.parse_estimator(word).fit(sample) for sample in samples]
    low, high = fits[0].interval("recall@20")
    spread = np.std([fit.expect("recall@20") for fit in fits], ddof=1)
    assert 0.75 < (high - low) / 2 / 1.96 / spread < 1.6


def test_replicates_of_samples_of_very_many_sizes_multiply_what_speaks_about_them_and_no_more(rng, monkeypatch):
    counts, _ = pooled_samples(rng, users=250)
    problem = fr.MLE(iterations=10).fit(counts).refit[0].coarser(3)
    work, masses = [], []
    for few in (likelihood.FEW_ROWS, 10**9):  # in parts, and all at once
        monkeypatch.setattr(likelihood, "FEW_ROWS", few)

        def solve(replicates):
            work.append(sum(len(weight) * law.size for _, law, weight in likelihood._parts(replicates)))
            return likelihood.em(replicates, 10)

        masses.append(simulated(problem, solve, 8)[1])
    np.testing.assert_allclose(masses[0], masses[1], rtol=1e-11, atol=1e-15)
    assert work[0] < 0.1 * work[1]


def many_targets(seed=0, number=600, N=3000):
    """True ranks of users with one to seven targets, and what from_ranks is told about them."""
    rng = np.random.default_rng(seed)
    T = rng.integers(1, 8, number)
    users, targets = np.repeat(np.arange(number), T), np.repeat(T, T)
    ranks = np.exp(rng.exponential(2, len(users))).astype(int).clip(1, N - 10)
    true = ranks[np.lexsort((ranks, users))]
    order = np.concatenate([np.arange(1, t + 1) for t in T])
    about = {"n_items": N, "users": users, "order": order, "targets": targets}
    return true, about, 1 + rng.binomial(99, (true - 1) / (N - 1))


def test_cases_of_many_targets_vary_as_their_strata_say():
    """Against a sum over every (j, T) and cell, and near what the true ranks give; LogSpline's strata are its own."""
    true, about, sampled = many_targets()
    metric = fr.NDCG @ 10
    dist = fr.LogSpline().fit(fr.RankCounts.from_ranks(sampled, design="uni99", **about))
    value, groups, naive = dist.expect(metric), dist.counts.groups, 0.0
    assert dist.masses.shape[0] < len(groups.weight)
    for j, T, weight, row in zip(groups.order, groups.targets, groups.weight, dist.rows, strict=True):
        for place, mass in enumerate(dist.masses[row][:100]):
            naive += weight * mass * (metric.gain(place + 1, None, j, T) - value / T) ** 2
        naive += weight * dist.masses[row][100:].sum() * (value / T) ** 2
    assert dist._case_variance(metric, value) == pytest.approx(naive, rel=1e-6)
    gain = metric.gain(true, None, about["order"], about["targets"])
    assert naive == pytest.approx(((gain - value / about["targets"]) ** 2).sum(), rel=0.15)
    low, high = dist.interval(metric, target="population")
    assert low <= dist.interval(metric)[0] < value < dist.interval(metric)[1] < high


def test_what_cases_and_their_samples_leave_open_adds_up_for_the_population():
    """With several targets too, where masses of MLE are at their bounds and a bootstrap hardly moves them."""
    true, about, sampled = many_targets()
    dist = fr.MLE().fit(fr.RankCounts.from_ranks(sampled, design="uni99", **about))
    full = fr.MLE().fit(fr.RankCounts.from_ranks(true, design="full", **about))
    cases, population, users = (
        np.diff(each.interval("ndcg@10", target=target))[0]
        for each, target in ((dist, "cases"), (dist, "population"), (full, "population"))
    )
    assert population == pytest.approx(np.hypot(cases, users), rel=0.1)


@pytest.mark.parametrize("estimator", ["logspline", "mle", "wmle", "bv0.01", "mn"])
@pytest.mark.parametrize("design", ["uni99", "adaptive 20..400 stop 1"])
def test_every_estimator_answers_for_the_population_with_many_targets(estimator, design):
    true, about, _ = many_targets(number=60)
    how = fr.parse_design(design)
    drawn, hits = how.simulate(true, np.full(len(true), 3000), np.random.default_rng(1))
    counts = fr.RankCounts.from_outcomes(drawn, hits, design=how, **about)
    cases, population = (fr.correct(counts, estimator=estimator, target=each).rows for each in ("cases", "population"))
    for one, other in zip(cases, population, strict=True):
        assert other.interval[0] <= one.interval[0] <= one.value <= one.interval[1] <= other.interval[1]


@pytest.mark.parametrize(
    "estimator",
    [fr.LogSpline(), fr.MLE(), fr.BiasVariance(), fr.BiasVariance(prior=fr.MLE()), fr.CLS(), fr.Naive()],
    ids=repr,
)
def test_new_users_with_new_samples_spread_as_intervals_for_the_population_say(estimator):
    """The spread of estimates of new users, each with a new sample, against the mean of the intervals' own."""
    rng = np.random.default_rng(4)
    law = power_law(0.2, 500)
    estimates = []
    for _ in range(100):
        ranks = 1 + rng.binomial(99, rng.choice(500, 400, p=law) / 499)
        estimates.append(estimator.fit(fr.RankCounts.from_ranks(ranks, 500, "uni99")))
    spread = np.std([each.expect("recall@10") for each in estimates], ddof=1)
    said = [np.diff(each.interval("recall@10", target="population"))[0] / 2 / 1.96 for each in estimates[:5]]
    assert np.mean(said) == pytest.approx(spread, rel=0.2)
