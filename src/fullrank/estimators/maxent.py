"""Maximum entropy with minimal distribution bias (jin21 eq. 24-27)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fullrank._types import FloatArray
from fullrank.estimators.estimate import RankDistribution, fit_distribution
from fullrank.estimators.problem import Fit, Problem, positive_solve, size_shares
from fullrank.ranks.counts import RankCounts


@dataclass(frozen=True)
class MaxEntropy:
    """argmin Σ_o p̃(o)((Aᵀπ)_o − p̃(o))² − η H(π) on the simplex (jin21 eq. 25-27); "MES" in the papers.

    ``eta`` = 0.001 is the paper's; the authors' tables come from code equal to η = 0.01/n: ``eta="authors"``. Solved in the
    dual, which has one unknown per outcome seen: π ∝ exp(−Av/η), v = 2p̃∘(Aᵀπ − p̃), by damped Newton. N is the mean number
    of candidates. Regularised, hence not exact when every candidate is sampled.
    """

    eta: float | Literal["authors"] = 0.001

    def __post_init__(self) -> None:
        if self.eta != "authors" and not (isinstance(self.eta, int | float) and self.eta > 0):
            raise ValueError(f"`eta` must be positive or 'authors', got {self.eta!r}.")

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return π, positive everywhere."""
        return fit_distribution(self, counts, self._solve, n_items="mean")

    def _solve(self, problem: Problem) -> tuple[FloatArray, Fit]:
        (table,), (law,) = problem.tables, problem.laws
        law = law * size_shares(problem.counts, table)
        η = 0.01 / (int(table.drawn.max()) + 1) if self.eta == "authors" else float(self.eta)
        shares = [weight / weight.sum() for weight in table.weight]
        fits = [maximum_entropy(law[:, p > 0], p[p > 0], problem.grid.width, η) for p in shares]
        worst = max((fit for _, fit in fits), key=lambda fit: (not fit.converged, fit.iterations))
        return np.stack([π for π, _ in fits]), worst


def maximum_entropy(A: FloatArray, p: FloatArray, width: FloatArray, eta: float) -> tuple[FloatArray, Fit]:
    """Minimise the dual η log Σ w exp(−Av/η) + v·p + Σ v²/4p over v; return the primal π (per cell) and how it went.

    With v = u √(2p) the Hessian is I + K, K = √(2p) Aᵀ(diag π − ππᵀ) A √(2p)/η. Most outcomes are rare and add next to
    nothing to K: Newton takes K on the outcomes that hold all but 1 % of its trace and the identity on the rest, which
    costs a fraction and converges as fast.
    """
    scale = np.sqrt(2 * p)
    B = A * scale
    B2 = B * B
    log_width = np.log(width)
    right = p * scale

    def dual(u: FloatArray) -> tuple[float, FloatArray]:
        exponent = log_width - (B @ u) / eta
        top = float(exponent.max())
        mass = np.exp(exponent - top)
        total = float(mass.sum())
        return eta * (top + np.log(total)) + float(right @ u + 0.5 * u @ u), mass / total

    u = np.zeros(len(p))
    value, π = dual(u)
    for step in range(1, 501):  # noqa: B007 - reported afterwards
        mean = π @ B
        gradient = right + u - mean
        diagonal = np.maximum(π @ B2 - mean * mean, 0.0) / eta
        by_size = np.argsort(diagonal)
        active = by_size[np.cumsum(diagonal[by_size]) > 0.01]
        move = -gradient
        if len(active):
            centred = (B[:, active] - mean[active]) * np.sqrt(π / eta)[:, None]
            hessian = centred.T @ centred
            hessian[np.diag_indices_from(hessian)] += 1.0
            move[active] = -positive_solve(hessian, gradient[active])
        decrement = float(-gradient @ move)
        if decrement < 1e-11 * eta:
            break
        length = 1.0
        while True:
            trial, π_trial = dual(u + length * move)
            if trial <= value - 1e-4 * length * decrement or length < 1e-10:
                break
            length /= 2
        u, value, π = u + length * move, trial, π_trial
    fit_term = float((p * (π @ A - p) ** 2).sum())
    entropy = -float((π * (np.log(np.maximum(π, 1e-300)) - log_width)).sum())
    return π, Fit(step, fit_term - eta * entropy, decrement < 1e-8 * eta)
