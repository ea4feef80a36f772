"""MLE and WeightedMLE on counts against EM with one responsibility vector per user."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fullrank as fr
import naive

N, m = 150, 12


def close(mass, wanted, tolerance=1e-8):
    np.testing.assert_allclose(mass, wanted, rtol=tolerance, atol=tolerance * wanted.max())


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("iterations", [1, 7, 100])
def test_mle_on_counts_equals_the_papers_per_user_em(iterations, replace, rng):
    r = naive.draw(naive.power_law_ranks(120, N, rng), N, m, replace, rng)
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(m, replace))
    wanted, logs = naive.per_user_em(naive.law(N, m, replace)[:, r - 1].T, iterations)
    fitted = fr.MLE(iterations=iterations).fit(counts)
    close(fitted.mass(range(1, N + 1)), wanted)
    assert fitted.fit_info.iterations == iterations
    assert fitted.fit_info.objective >= logs[-1] - 1e-9
    for metric in ("recall@10", "ndcg@10", "ap"):
        metric = fr.parse_metric(metric)
        b = [naive.gain(metric.name, R, metric.k, N) for R in range(1, N + 1)]
        assert fitted.expect(metric) == pytest.approx(wanted @ b, rel=1e-8)


def test_the_default_is_as_published(rng):
    r = naive.draw(naive.power_law_ranks(100, N, rng), N, m, True, rng)
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(m))
    fitted = fr.MLE().fit(counts)
    assert fitted.fit_info.iterations == 100
    np.testing.assert_array_equal(fitted.masses, fr.MLE(iterations=100, start="uniform").fit(counts).masses)
    adaptive = fr.RankCounts.from_ranks([2, 1], N, fr.Adaptive(9, 19, 1), drawn=[9, 19])
    assert fr.MLE().fit(adaptive).fit_info.iterations == 50
    assert fr.WeightedMLE().fit(adaptive).fit_info.iterations == 50


@pytest.mark.parametrize("weight", ["ndcg", "ap"])
@pytest.mark.parametrize("c", [10, 3.5])
def test_weighted_mle_is_em_with_weighted_cases(weight, c, rng):
    r = naive.draw(naive.power_law_ranks(120, N, rng), N, m, True, rng)
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(m))
    w = 1 / np.log2(r / c + 1) if weight == "ndcg" else c / r  # jin21 eq. 22-23
    wanted, _ = naive.per_user_em(naive.law(N, m)[:, r - 1].T, 100, weights=w)
    close(fr.WeightedMLE(weight, c).fit(counts).mass(range(1, N + 1)), wanted)


def test_case_weights(rng):
    r, w = rng.integers(1, m + 2, 80), rng.random(80) + 0.05
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(m), weights=w)
    wanted, _ = naive.per_user_em(naive.law(N, m)[:, r - 1].T, 40, weights=w)
    close(fr.MLE(iterations=40).fit(counts).mass(range(1, N + 1)), wanted)
    whole = np.repeat(r, 3)
    three = fr.RankCounts.from_ranks(r, N, fr.Sample(m), weights=np.full(80, 3.0))
    repeated = fr.RankCounts.from_ranks(whole, N, fr.Sample(m))
    close(three_mass := fr.MLE().fit(three).mass(range(1, N + 1)), fr.MLE().fit(repeated).mass(range(1, N + 1)))
    assert three_mass.sum() == pytest.approx(1)


def test_unequal_samples_and_pools_of_ones_own(rng):
    cases = 100
    pools, drawn = rng.choice([60, 99, N], cases), rng.choice([4, 9, 20], cases)
    R = 1 + (rng.random(cases) ** 3 * pools).astype(int)
    x = rng.binomial(drawn, (R - 1) / (pools - 1))
    counts = fr.RankCounts.from_ranks(x + 1, pools, fr.Sample(20), drawn=drawn)
    likelihood = np.array([naive.case_likelihood(*each, N) for each in zip(drawn, x, pools, strict=True)])
    wanted, _ = naive.per_user_em(likelihood, 60)
    fitted = fr.MLE(iterations=60).fit(counts)
    close(fitted.mass(range(1, N + 1)), wanted)
    assert fitted.expect("auc") == pytest.approx(np.mean(1 - x / drawn))  # pools vary: from the counts


@pytest.mark.parametrize(
    "design",
    [
        fr.Adaptive(4, 40, 1),
        fr.Adaptive(4, 40, 3),
        fr.Adaptive(5, "all", 2, replace=False),
        fr.Adaptive(6, 30, 2, replace=False),
    ],
    ids=str,
)
def test_adaptive_equals_per_user_em_whose_constants_cancel(design, rng):
    """li23 eq. 12: each case has its own binomial; how it was stopped does not matter to the likelihood."""
    cases = 90
    parts = (design.negatives, design.max_negatives, design.stop_at, design.replace)
    pools = rng.choice([50, 70], cases)
    R = 1 + (rng.random(cases) ** 3 * pools).astype(int)
    seen = np.array([naive.draw_adaptive(each, pool, *parts, rng) for each, pool in zip(R, pools, strict=True)])
    counts = fr.RankCounts.from_ranks(seen[:, 1] + 1, pools, design, drawn=seen[:, 0])
    likelihood = []
    for (drawn, x), pool in zip(seen, pools, strict=True):
        known = drawn == pool - 1 and not design.replace
        likelihood.append(naive.case_likelihood(0 if known else drawn, x, pool, 70, design.replace))
    wanted, _ = naive.per_user_em(np.array(likelihood), 50)
    close(fr.MLE().fit(counts).mass(range(1, 71)), wanted)


def test_a_start_of_ones_own(rng):
    r = naive.draw(naive.power_law_ranks(60, N, rng), N, m, True, rng)
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(m))
    R = np.arange(1, N + 1)
    wanted, _ = naive.per_user_em(naive.law(N, m)[:, r - 1].T, 20, start=np.log1p(1 / (R - 0.5)))
    close(fr.MLE(iterations=20, start="log").fit(counts).mass(R), wanted)
    assert fr.MLE(start="log").fit(counts).expect("recall@1") > fr.MLE().fit(counts).expect("recall@1")


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.integers(11, 60),
    st.booleans(),
    st.sampled_from(["uniform", "log"]),
)
def test_the_likelihood_never_decreases(hits, n_items, replace, start):
    counts = fr.RankCounts.from_ranks(np.array(hits) + 1, n_items, fr.Sample(9, replace))
    logs = [fr.MLE(iterations=t, start=start).fit(counts).fit_info.objective for t in range(1, 15)]
    assert (np.diff(logs) >= -1e-9 * np.abs(logs[-1])).all()
    A = naive.law(n_items, 9, replace)
    values = []
    for t in (1, 2, 5, 14):
        mass = fr.MLE(iterations=t, start=start).fit(counts).mass(range(1, n_items + 1))
        assert mass.sum() == pytest.approx(1)
        assert (mass >= 0).all()
        values.append(np.log((mass @ A)[hits]).sum())
    assert (np.diff(values) >= -1e-9 * np.abs(values[-1])).all()


def test_a_fit_says_whether_it_has_converged(rng):
    r = naive.draw(naive.power_law_ranks(500, N, rng), N, m, True, rng)
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(m))
    assert fr.MLE(iterations=20_000).fit(counts).fit_info.converged
    assert not fr.MLE(iterations=3).fit(counts).fit_info.converged


def test_mle_recovers_a_smooth_truth(rng):
    R = naive.power_law_ranks(40_000, 500, rng)
    counts = fr.RankCounts.from_ranks(naive.draw(R, 500, 99, True, rng), 500, "uni99")
    fitted = fr.MLE().fit(counts)
    for k in (10, 30, 100, 400):
        assert fitted.expect(fr.Recall @ k) == pytest.approx(np.mean(k >= R), rel=0.05)
    assert fitted.expect("auc") == pytest.approx(np.mean((500 - R) / 499), abs=0.003)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fr.MLE(iterations=0), "`iterations` must be a whole number of at least 1 or None"),
        (lambda: fr.MLE(iterations=True), "`iterations` must be a whole number of at least 1 or None"),
        (lambda: fr.MLE(start="random"), "`start` must be 'uniform' or 'log', got 'random'"),
        (lambda: fr.WeightedMLE(weight="auc"), "`weight` must be 'ndcg' or 'ap', got 'auc'"),
        (lambda: fr.WeightedMLE(c=0), "`c` must be a finite number above 0, got 0"),
        (
            lambda: fr.MLE(n_items="median").fit(fr.RankCounts.from_ranks([1], 9, "uni3")),
            "`n_items` must be 'bins' or 'mean'",
        ),
    ],
)
def test_parameters_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()
