"""Intervals by resampling and simulation, and bounds that assume nothing."""

import numpy as np
import pytest

import fullrank as fr


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


def test_bad_questions(counts):
    dist = fr.MLE().fit(counts[1])
    with pytest.raises(ValueError, match="`level` must lie between 0 and 1"):
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
    with pytest.raises(ValueError, match="`level` must lie between 0 and 1"):
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

    from fullrank.estimators.bounds import CUTS, CompatibleRanks

    prepared = CompatibleRanks.of(counts, level)
    held = prepared._programme(prepared.unknown.weight, np.ones(len(counts.keys), dtype=bool), (1 - level) / CUTS)
    gain = np.zeros(len(prepared.grid))
    head = prepared.grid.mean_gain(fr.parse_metric(metric), counts.n_items)
    gain[: len(head)] = head
    ends = [
        linprog(
            sign * gain, A_ub=np.concatenate([held.before, -held.before]), b_ub=np.concatenate([held.high, -held.low]),
            A_eq=np.ones((1, len(gain))), b_eq=[1.0],
        ).fun
        for sign in (1, -1)
    ]  # fmt: skip
    return ends[0], -ends[1]


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
