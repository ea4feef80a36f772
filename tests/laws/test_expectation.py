"""Simulation with known truth: what estimators are on average, against their expectation computed exactly.

An estimator linear in the shares p̃ has expectation Σ_R P(R) A[R]·operator: the estimate at the expected shares.
"""

from __future__ import annotations

import numpy as np
import pytest

import fullrank as fr
import naive

N, m, cases, repeats = 120, 10, 400, 300
METRICS = ["recall@10", "ndcg@10", "ap@20", "auc"]


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(7)
    return naive.power_law_ranks(cases, N, rng)


def samples(R, replace, seed=11):
    rng = np.random.default_rng(seed)
    return [
        fr.RankCounts.from_ranks(naive.draw(R, N, m, replace, rng), N, fr.Sample(m, replace)) for _ in range(repeats)
    ]


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01])
def test_bias_variance_has_its_exact_expectation(gamma, replace, truth):
    A = naive.law(N, m, replace)
    operator = np.stack([naive.bias_variance(A, np.full(N, 1 / N), e, gamma) for e in np.eye(m + 1)])  # M̂ as a matrix
    p = A[truth - 1].mean(0)
    fits = [fr.BiasVariance(gamma).fit(counts) for counts in samples(truth, replace)]
    for name in METRICS:
        metric = fr.parse_metric(name)
        b = np.array([naive.gain(metric.name, R, metric.k, N) for R in range(1, N + 1)])
        values = np.array([fit.expect(metric) for fit in fits])
        wanted = p @ operator @ b
        assert values.mean() == pytest.approx(wanted, abs=4.5 * values.std() / np.sqrt(repeats)), name
        # and its variance: Σ_u Var(M̂(r_u)) / M²
        hat = operator @ b
        variance = (A[truth - 1] @ hat**2 - (A[truth - 1] @ hat) ** 2).sum() / cases**2
        assert values.var() == pytest.approx(variance, rel=0.35), name


@pytest.mark.parametrize("replace", [True, False])
def test_multinomial_has_its_exact_expectation(replace, truth):
    A = naive.law(N, m, replace)
    mass = naive.multinomial(A, np.full(N, 1 / N), A[truth - 1].mean(0), cases)
    fits = [fr.Multinomial().fit(counts) for counts in samples(truth, replace)]
    for name in METRICS:
        metric = fr.parse_metric(name)
        b = np.array([naive.gain(metric.name, R, metric.k, N) for R in range(1, N + 1)])
        values = np.array([fit.expect(metric) for fit in fits])
        assert values.mean() == pytest.approx(mass @ b, abs=4.5 * values.std() / np.sqrt(repeats)), name


@pytest.mark.parametrize("estimator", [fr.Naive(), fr.RankEstimate(interpolate=True), fr.CLS()], ids=str)
def test_other_linear_estimators(estimator, truth):
    A = naive.law(N, m)
    p = A[truth - 1].mean(0)
    hat = [estimator.fit(fr.RankCounts.from_ranks([r], N, fr.Sample(m))).expect("ndcg@10") for r in range(1, m + 2)]
    values = np.array([estimator.fit(counts).expect("ndcg@10") for counts in samples(truth, True)[:150]])
    assert values.mean() == pytest.approx(p @ hat, abs=4.5 * values.std() / np.sqrt(150))


@pytest.mark.parametrize("replace", [True, False])
def test_auc_of_the_counts_is_unbiased(replace, truth):
    values = np.array([counts.auc for counts in samples(truth, replace)])
    wanted = np.mean((N - truth) / (N - 1))
    assert values.mean() == pytest.approx(wanted, abs=4.5 * values.std() / np.sqrt(repeats))


@pytest.mark.parametrize("design", [fr.Adaptive(5, 47, 1), fr.Adaptive(5, "all", 2, replace=False)], ids=str)
def test_auc_of_adaptive_counts_is_unbiased(design):
    rng = np.random.default_rng(3)
    R = naive.power_law_ranks(60, N, rng)
    parts = (design.negatives, design.max_negatives, design.stop_at, design.replace)
    values, plain = [], []
    for _ in range(repeats):
        seen = np.array([naive.draw_adaptive(each, N, *parts, rng) for each in R])
        values.append(fr.RankCounts.from_ranks(seen[:, 1] + 1, N, design, drawn=seen[:, 0]).auc)
        plain.append(np.mean(1 - seen[:, 1] / seen[:, 0]))
    wanted, error = np.mean((N - R) / (N - 1)), np.std(values) / np.sqrt(repeats)
    assert np.mean(values) == pytest.approx(wanted, abs=4.5 * error)
    assert abs(np.mean(plain) - wanted) > 4.5 * np.std(plain) / np.sqrt(repeats), "x/m of a stopped sample is biased"


@pytest.mark.parametrize(
    "estimator", [fr.BiasVariance(), fr.Multinomial(), fr.MLE(), fr.RankEstimate(), fr.CLS()], ids=str
)
def test_unbiased_when_everything_is_sampled(estimator, truth):
    """No randomness is left: every sample gives the truth."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        r = naive.draw(truth, N, N - 1, False, rng)
        counts = fr.RankCounts.from_ranks(r, N, fr.Sample(N - 1, replace=False))
        # as the formula would take it, were it not known to show the rank
        counts = counts.with_keys(rest=counts.column("pool"), drawn=N - 1, hits=counts.above, ahead=0)
        fitted = estimator.fit(counts)
        for name in METRICS:
            metric = fr.parse_metric(name)
            wanted = np.mean([naive.gain(metric.name, R, metric.k, N) for R in truth])
            assert fitted.expect(metric) == pytest.approx(wanted, rel=1e-9)


def test_mle_beats_the_uncorrected_metric_on_average(truth):
    errors = {
        name: np.mean(
            [abs(est.fit(counts).expect("recall@10") - np.mean(truth <= 10)) for counts in samples(truth, True)[:60]]
        )
        for name, est in {"naive": fr.Naive(), "mle": fr.MLE(), "bv": fr.BiasVariance()}.items()
    }
    assert errors["mle"] < 0.25 * errors["naive"]
    assert errors["bv"] < 0.25 * errors["naive"]


@pytest.mark.parametrize("estimator", [fr.MLE(iterations=3000), fr.BiasVariance(1e-4)], ids=str)
def test_the_truth_is_recovered_as_cases_grow(estimator):
    """A truth inside the model, ever more cases: the error in the sampled distribution goes to zero."""
    P = 1 / np.arange(1, N + 1) ** 0.8
    P /= P.sum()
    A = naive.law(N, 60)
    p = P @ A
    counts = fr.RankCounts.from_ranks(np.arange(1, 62), N, fr.Sample(60), weights=p)  # infinitely many cases
    fitted = estimator.fit(counts)
    mass = fitted.mass(range(1, N + 1))
    np.testing.assert_allclose(mass @ A, p, atol=2e-4)
    for k in (5, 10, 30, 60):
        assert fitted.expect(fr.Recall @ k) == pytest.approx(P[:k].sum(), abs=0.01)
