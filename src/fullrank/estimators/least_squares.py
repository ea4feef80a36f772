"""Corrected metrics by least squares: kr20's CLS and bias-variance trade-off, li23's multinomial estimator.

A[R, o] = P(o | R), D = diag(P) for a prior P(R), b[R] = M(R), p̃(o) the share of cases with outcome o. Each seeks a metric
M̂ on outcomes whose expectation A M̂ is close to b. All but CLS are linear in b and hence a (possibly signed) mass P̂(R).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from fullrank._checks import check_number
from fullrank._threads import ONE_BLAS_THREAD
from fullrank._types import FloatArray
from fullrank.estimators.estimate import PointEstimate, RankDistribution, empirical, fit_distribution
from fullrank.estimators.problem import Estimator, Fit, Problem, build_problem, is_exhaustive, one_size, positive_solve
from fullrank.metrics import Metric
from fullrank.ranks.counts import RankCounts


@dataclass(frozen=True)
class BiasVariance:
    """p̃ᵀ [(1−γ) AᵀDA + γ diag(1ᵀDA)]⁻¹ AᵀD b (kr20 eq. 22-26; as P̂(R) jin21 eq. 15).

    γ = 0 has the least bias and a huge variance, γ = 1 is the posterior mean under the prior (eq. 26). ``prior``: uniform,
    or another estimator, whose P̂ of the same counts is used (BV_MLE = ``BiasVariance(prior=MLE())``), negative mass clipped.
    With a peaked prior some outcomes have no probability: they are left out, and the fit says so. With every candidate
    sampled it is exact. ``n_items="mean"``: one N, the mean (kr20's way); ``"bins"``: each bin of pool sizes on its own.
    """

    gamma: float = 0.01
    prior: Estimator | None = None
    n_items: Literal["mean", "bins"] = "mean"

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, most=1)
        _check_prior(self.prior)

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return signed masses P̂(R)."""
        return _fit_linear(self, counts)

    def _bin(self, A: FloatArray, P: FloatArray, p: FloatArray, problem: Problem) -> tuple[FloatArray, FloatArray]:
        scale = _scale(P @ A)
        root = np.sqrt(P)[:, None] * A * scale  # eigenvalues of rootᵀroot lie in 0..1: γ alone conditions the problem
        right = p * scale
        if self.gamma > 1e-9:
            gram = (1 - self.gamma) * (root.T @ root)
            gram[np.diag_indices_from(gram)] += self.gamma
            mass = positive_solve(gram, right.T).T @ root.T
        else:
            u, s, vt = np.linalg.svd(root, full_matrices=False)
            kept_s = s > s[0] * 1e-13 * max(root.shape)
            mass = ((right @ vt[kept_s].T) / s[kept_s]) @ u[:, kept_s].T
        return mass * np.sqrt(P), scale


@dataclass(frozen=True)
class Multinomial:
    """p̃ᵀ [AᵀDA − AᵀA/M + diag(1ᵀA)/M]⁻¹ AᵀD b, M the number of cases (li23 eq. 10-11).

    The same trade-off with the weight of the variance set by M instead of γ. ``prior``: as in :class:`BiasVariance`;
    MN_MLE = ``Multinomial(prior=MLE())``. Under a uniform prior with N ≫ M it is nearly all prior (as published): give one.
    M counts all cases, also where they are solved in strata or bins. Positive definite while fewer than all candidates are
    sampled, exact when all are.
    """

    prior: Estimator | None = None
    n_items: Literal["mean", "bins"] = "mean"

    def __post_init__(self) -> None:
        _check_prior(self.prior)

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return signed masses P̂(R)."""
        return _fit_linear(self, counts)

    def _bin(self, A: FloatArray, P: FloatArray, p: FloatArray, problem: Problem) -> tuple[FloatArray, FloatArray]:
        M, width = len(problem.counts), problem.grid.width
        scale = _scale(width @ A)
        A = A * scale
        gram = A.T @ ((P - width / M)[:, None] * A)
        gram[np.diag_indices_from(gram)] += np.where(scale > 0, 1 / M, 1.0)
        y = positive_solve(gram, (p * scale).T).T
        return (y @ A.T) * P, scale


@dataclass(frozen=True)
class CLS:
    """The least biased M̂ among those not increasing in r (kr20 eq. 21 with the constraint of §5.2), uniform prior.

    M̂ does not fall below zero either: the paper does not say so, but its Table 3 comes out only that way (8.42 for Y, not
    8.29); a metric that takes negative values is bounded by the least of them instead.
    Solved for each metric on its own, so there is no P̂(R). Needs one sample size; N is the mean number of candidates.
    With every candidate sampled it is exact for metrics that do not increase with the rank.
    """

    def fit(self, counts: RankCounts) -> PointEstimate | RankDistribution:
        """Return a function from metrics to values."""
        from scipy.optimize import nnls  # takes a fifth of a second to import, and only CLS needs it

        if is_exhaustive(counts):
            return empirical(self, counts)
        one_size(counts, "CLS")
        problem = build_problem(counts, "mean", all_outcomes=True)
        (table,), (A,) = problem.tables, problem.laws
        P = problem.uniform()
        shares = table.weight / table.weight.sum(1, keepdims=True)
        # M̂_r = low + Σ_{s ≥ r} d_s with d ≥ 0: non-negative least squares in d, whose columns are running sums of A
        with ONE_BLAS_THREAD:
            q, upper = np.linalg.qr(np.sqrt(P)[:, None] * np.cumsum(A, axis=1))

        @lru_cache(maxsize=256)
        def value(metric: Metric, word: str) -> float:
            # `word` only keys the cache: hr == recall, but they part once a user has several targets
            total = 0.0
            for j, T, _, w, row in zip(*counts.groups, counts.strata, strict=True):
                b = np.zeros(len(P))
                gain = problem.grid.mean_gain(metric, table.n_items, j, T)
                b[: len(gain)] = gain
                low = min(float(b.min()), 0.0)
                d, _ = nnls(upper, q.T @ (np.sqrt(P) * (b - low)), maxiter=50 * upper.shape[1])
                total += w * float(shares[row] @ (low + np.cumsum(d[::-1])[::-1]))
            return total / counts.users_weight

        return PointEstimate(counts, self, lambda metric: value(metric, metric.word))


def prior_mass(prior: Estimator | None, problem: Problem) -> FloatArray:
    """P per cell: uniform, or another estimator's P̂ of the same counts on the same grid, clipped at zero."""
    if prior is None:
        return problem.uniform()
    fitted = prior.fit(problem.counts)
    if not isinstance(fitted, RankDistribution):
        raise ValueError(f"`prior` {prior} has no rank distribution to offer: use MLE() or MaxEntropy().")
    mass = np.zeros(len(problem.grid))
    if len(fitted.grid):
        mass = fitted.grid.moved((problem.group_weight[:, None] * fitted.masses).sum(0), problem.grid)
    if fitted.known is not None:  # single ranks, of RankEstimate for one
        cell = np.searchsorted(problem.grid.hi, fitted.known.above + 1)
        np.add.at(mass, cell[cell < len(mass)], fitted.known.weight[cell < len(mass)])
    return np.asarray(mass / mass.sum())


def _fit_linear(estimator: BiasVariance | Multinomial, counts: RankCounts) -> RankDistribution:
    """Solve each pool-size bin for its own shares of outcomes; the mixture over bins is the answer."""

    def solve(problem: Problem) -> tuple[FloatArray, Fit]:
        P = prior_mass(estimator.prior, problem)
        total = problem.group_weight
        masses = np.zeros((len(total), len(problem.grid)))
        notes: set[str] = set()
        for table, A in zip(problem.tables, problem.laws, strict=True):
            possible = np.where(problem.grid.lo <= table.n_items + 0.5, P, 0.0)
            p = table.weight / total[:, None]
            mass, scale = estimator._bin(A, possible / possible.sum(), p, problem)
            masses += mass
            lost = float(p[:, scale == 0].sum())
            if lost > 0:
                notes.add(f"{lost:.2%} of the cases have outcomes that the prior deems impossible: they are left out.")
        return masses, Fit(notes=tuple(sorted(notes)))

    return fit_distribution(estimator, counts, solve, n_items=estimator.n_items, all_outcomes=True)


def _scale(likely: FloatArray) -> FloatArray:
    """Return what scales each outcome to a probability of one, 1/√ of its own; 0 for those that have none."""
    kept = likely > 1e-13 * likely.max()
    return np.where(kept, 1 / np.sqrt(np.where(kept, likely, 1.0)), 0.0)


def _check_prior(prior: object) -> None:
    if prior is not None and (isinstance(prior, type) or not isinstance(prior, Estimator)):
        raise TypeError(
            f"`prior` must be an estimator such as MLE() or MaxEntropy(), or None (uniform), got {prior!r}."
        )
