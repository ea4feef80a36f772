"""Maximum likelihood by EM on the mixture of the design's laws (jin21 eq. 16-23, li23 eq. 12 and App. G).

The log-likelihood is Σ_o c_o log Σ_R π_R P(o | R) over outcomes o seen c_o times; EM multiplies π_R by the mean of
P(o | R)/P(o). It runs on counts, not on cases, and on the grid, not on N ranks. Where it stops and where it starts decide
the answer: at the optimum π is a few spikes. The authors start uniform and take exactly 100 steps, 50 on adaptive samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fullrank._types import FloatArray
from fullrank.estimators.estimate import RankDistribution, fit_distribution
from fullrank.estimators.problem import Fit, Problem
from fullrank.metrics import parse_metric
from fullrank.ranks.counts import PoolTable, RankCounts

__all__ = ["MLE", "WeightedMLE"]


@dataclass(frozen=True)
class MLE:
    """Maximum likelihood by EM, as its authors run it (jin21 eq. 19-21; on unequal samples li23 eq. 12).

    ``iterations=None``: 100, and 50 on ``Adaptive``. ``start``: ``"uniform"`` as published, or ``"log"`` (∝ 1/R).
    ``tolerance`` stops earlier, when a step raises the log-likelihood per case by less. ``n_items="mean"`` gives every
    case the mean number of candidates instead of its own. With every candidate sampled it is exact.
    """

    iterations: int | None = None
    start: Literal["uniform", "log"] = "uniform"
    tolerance: float = 0.0
    n_items: Literal["bins", "mean"] = "bins"

    def __post_init__(self) -> None:
        _check_em(self.iterations, self.start)

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return π after the given number of EM steps."""
        steps = _steps(self.iterations, counts)
        return fit_distribution(
            self, counts, lambda p: em(p, steps, self.start, self.tolerance), n_items=self.n_items, compared=True
        )


@dataclass(frozen=True)
class WeightedMLE:
    """Maximum likelihood with outcome r weighing w(r) = M(r/c), M = NDCG or AP (jin21 eq. 22-23): more say for the head.

    Not the likelihood of the data: it leans towards small ranks, even with every candidate sampled.
    """

    weight: Literal["ndcg", "ap"] = "ndcg"
    c: float = 10.0
    iterations: int | None = None
    start: Literal["uniform", "log"] = "uniform"
    n_items: Literal["bins", "mean"] = "bins"

    def __post_init__(self) -> None:
        _check_em(self.iterations, self.start)
        if self.weight not in {"ndcg", "ap"}:
            raise ValueError(f"`weight` must be 'ndcg' or 'ap', got {self.weight!r}.")
        if not self.c > 0:
            raise ValueError(f"`c` must be positive, got {self.c!r}.")

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return π after the given number of weighted EM steps."""
        metric, steps = parse_metric(self.weight), _steps(self.iterations, counts)

        def solve(problem: Problem) -> tuple[FloatArray, Fit]:
            def weigh(table: PoolTable) -> PoolTable:
                return replace(table, weight=table.weight * metric.gain((table.hits + 1) / self.c))

            weighted = replace(problem, tables=[weigh(table) for table in problem.tables])
            return em(weighted, steps, self.start, 0.0)

        return fit_distribution(self, counts, solve, n_items=self.n_items)


def em(problem: Problem, iterations: int, start: str, tolerance: float) -> tuple[FloatArray, Fit]:
    """Iterate π ← π ∘ Σ_b A_b (c_b / A_bᵀπ) / M, for all (j, T) groups at once."""
    π = problem.uniform() if start == "uniform" else np.log1p(problem.grid.width / (problem.grid.lo - 0.5))
    π = np.tile(π / π.sum(), (len(problem.group_weight), 1))
    before, gain, step = -np.inf, np.inf, 0
    for step in range(1, iterations + 1):
        pull = np.zeros_like(π)
        loglik = 0.0
        for table, law in zip(problem.tables, problem.laws, strict=True):
            likely = np.maximum(π @ law, 1e-300)
            pull += (table.weight / likely) @ law.T
            loglik += float((table.weight * np.log(likely)).sum())
        π *= pull
        π /= π.sum(1, keepdims=True)
        gain, before = loglik - before, loglik
        if step > 1 and gain < tolerance * problem.group_weight.sum():
            break
    return π, Fit(step, before, bool(gain < max(tolerance, 1e-8) * problem.group_weight.sum()))


def _steps(iterations: int | None, counts: RankCounts) -> int:
    if iterations is not None:
        return iterations
    return 50 if counts.design.grows else 100


def _check_em(iterations: int | None, start: str) -> None:
    if iterations is not None and (isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1):
        raise ValueError(f"`iterations` must be a positive whole number or None (as published), got {iterations!r}.")
    if start not in {"uniform", "log"}:
        raise ValueError(f"`start` must be 'uniform' or 'log', got {start!r}.")
