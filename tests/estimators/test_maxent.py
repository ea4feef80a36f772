"""MaxEntropy against a general convex solver."""

from __future__ import annotations

import numpy as np
import pytest

import fullrank as fr
import naive


def solve(A, p, eta):
    import cvxpy as cp

    pi = cp.Variable(len(A), nonneg=True)
    seen = p > 0
    fit = cp.sum_squares(cp.multiply(np.sqrt(p[seen]), A.T[seen] @ pi - p[seen]))
    problem = cp.Problem(cp.Minimize(fit - eta * cp.sum(cp.entr(pi))), [cp.sum(pi) == 1])
    problem.solve(solver=cp.CLARABEL)
    return np.maximum(pi.value, 0) / np.maximum(pi.value, 0).sum()


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("eta", [0.1, 0.001, 1e-5, "authors"])
def test_the_objective_of_a_convex_solver_is_reached(eta, replace, rng):
    N, m = 120, 12
    r = naive.draw(naive.power_law_ranks(400, N, rng), N, m, replace, rng)
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(m, replace))
    number = 0.01 / (m + 1) if eta == "authors" else eta
    A, p = naive.law(N, m, replace), naive.shares(r, m)
    best = solve(A, p, number)
    fitted = fr.MaxEntropy(eta).fit(counts)
    mass = fitted.mass(range(1, N + 1))
    assert mass.sum() == pytest.approx(1, abs=1e-10)
    assert (mass > 0).all()
    own = naive.max_entropy_objective(A, p, mass, number)
    wanted = naive.max_entropy_objective(A, p, best, number)
    assert own == pytest.approx(wanted, rel=1e-5)
    assert own <= wanted + 1e-7 * abs(wanted)  # the general solver is the less exact one
    assert fitted.fit_info.objective == pytest.approx(own, rel=1e-9)
    assert fitted.fit_info.converged
    # stationarity: π ∝ exp(−A v/η), v = 2p̃∘(Aᵀπ − p̃)
    v = 2 * p * (A.T @ mass - p)
    implied = np.exp(-(A @ v) / number)
    np.testing.assert_allclose(mass, implied / implied.sum(), rtol=2e-2)


def test_unequal_sizes_weigh_each_size_by_its_share(rng):
    N, sizes = 80, np.array([4, 12])
    drawn = rng.choice(sizes, 600, p=[0.4, 0.6])
    x = rng.binomial(drawn, (naive.power_law_ranks(600, N, rng) - 1) / (N - 1))
    counts = fr.RankCounts.from_ranks(x + 1, N, fr.Sample(12), drawn=drawn)
    A = np.concatenate([np.mean(drawn == size) * naive.law(N, size) for size in sizes], axis=1)
    p = np.concatenate([np.bincount(x[drawn == size], minlength=size + 1) for size in sizes]) / 600
    own = naive.max_entropy_objective(A, p, fr.MaxEntropy().fit(counts).mass(range(1, N + 1)), 0.001)
    assert own == pytest.approx(naive.max_entropy_objective(A, p, solve(A, p, 0.001), 0.001), rel=1e-5)


def test_adaptive_with_the_exact_law(rng):
    N, parts = 50, (4, 30, 2, True)
    laws = [naive.adaptive_law(R, N, *parts) for R in range(1, N + 1)]
    keys = sorted({key for law in laws for key in law})
    A = np.array([[law.get(key, 0.0) for key in keys] for law in laws])
    seen = np.array([naive.draw_adaptive(R, N, *parts, rng) for R in naive.power_law_ranks(300, N, rng)])
    p = np.zeros(len(keys))
    for size, x in seen:
        p[keys.index((int(size), int(x)))] += 1 / 300
    counts = fr.RankCounts.from_ranks(seen[:, 1] + 1, N, fr.Adaptive(*parts), drawn=seen[:, 0])
    own = naive.max_entropy_objective(A, p, fr.MaxEntropy().fit(counts).mass(range(1, N + 1)), 0.001)
    assert own == pytest.approx(naive.max_entropy_objective(A, p, solve(A, p, 0.001), 0.001), rel=1e-5)


def test_eta_large_is_uniform_and_eta_small_fits(rng):
    N, m = 200, 10
    r = naive.draw(naive.power_law_ranks(5000, N, rng), N, m, True, rng)
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(m))
    np.testing.assert_allclose(fr.MaxEntropy(1e6).fit(counts).mass(range(1, N + 1)), 1 / N, rtol=1e-4)
    A, p = naive.law(N, m), naive.shares(r, m)
    errors = [
        (p * (A.T @ fr.MaxEntropy(eta).fit(counts).mass(range(1, N + 1)) - p) ** 2).sum()
        for eta in (1, 1e-2, 1e-4, 1e-6)
    ]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("eta", [0, -1, float("nan"), "mine"])
def test_eta_out_of_range(eta):
    with pytest.raises(ValueError, match="`eta` must be positive or 'authors'"):
        fr.MaxEntropy(eta)
