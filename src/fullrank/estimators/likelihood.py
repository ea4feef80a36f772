"""Maximum likelihood by EM on the mixture of the design's laws (jin21 eq. 16-23, li23 eq. 12 and App. G).

The log-likelihood is Σ_o c_o log Σ_R π_R P(o | R) over outcomes o seen c_o times; EM multiplies π_R by the mean of
P(o | R)/P(o). It runs on counts, not on cases, and on the grid, not on N ranks. Where it stops and where it starts decide
the answer: at the optimum π is a few spikes. The authors start uniform and take exactly 100 steps, 50 on adaptive samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from fullrank._checks import check_choice, check_number, check_whole
from fullrank._types import FloatArray
from fullrank.estimators.estimate import RankDistribution, fit_distribution
from fullrank.estimators.problem import Fit, Problem
from fullrank.metrics import parse_metric
from fullrank.ranks.counts import RankCounts

#: From so many rows of each stratum (replicates) and so many outcomes on, the likelihood is taken in parts of so many
#: outcomes, each with the ranks at which it is more than so much of its largest value.
FEW_ROWS, MANY_COLUMNS, COLUMNS, NOTHING = 8, 1000, 64, 1e-20


@dataclass(frozen=True)
class MLE:
    """Maximum likelihood by EM, as its authors run it (jin21 eq. 19-21; on unequal samples li23 eq. 12).

    ``iterations=None``: 100, and 50 on ``Adaptive``. ``start``: ``"uniform"`` as published, or ``"log"`` (∝ 1/R).
    ``n_items="mean"`` gives every case the mean number of candidates, not its own. Exact with every candidate sampled.
    """

    iterations: int | None = None
    start: Literal["uniform", "log"] = "uniform"
    n_items: Literal["bins", "mean"] = "bins"

    def __post_init__(self) -> None:
        check_whole("iterations", self.iterations, 1, none=True)
        check_choice("start", self.start, ("uniform", "log"))

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return π after the given number of EM steps."""
        solve = partial(em, iterations=self.iterations, start=self.start)
        return fit_distribution(self, counts, solve, n_items=self.n_items, compared=True)


@dataclass(frozen=True)
class WeightedMLE:
    """Maximum likelihood with outcome r weighing w(r) = M(r/c), M = NDCG or AP (jin21 eq. 22-23): more say for the head.

    Not the likelihood of the data: it leans towards small ranks, even with every candidate sampled.
    """

    weight: Literal["ndcg", "ap"] = "ndcg"
    c: float = 10.0

    def __post_init__(self) -> None:
        check_choice("weight", self.weight, ("ndcg", "ap"))
        check_number("c", self.c, above=0)

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Return π after as many weighted EM steps as the authors take."""
        metric = parse_metric(self.weight)

        def solve(problem: Problem) -> tuple[FloatArray, Fit]:
            tables = [replace(t, weight=t.weight * metric.gain((t.hits + 1) / self.c)) for t in problem.tables]
            return em(replace(problem, tables=tables))

        return fit_distribution(self, counts, solve)


def em(problem: Problem, iterations: int | None = None, start: str = "uniform") -> tuple[FloatArray, Fit]:
    """Iterate π ← π ∘ Σ_b A_b (c_b / A_bᵀπ) / M for all (j, T) groups at once, as often as the authors do unless told.

    It ends before that where a step lowers the likelihood: then nothing but rounding is left.
    """
    π = problem.uniform() if start == "uniform" else np.log1p(problem.grid.width / (problem.grid.lo - 0.5))
    π = np.tile(π / π.sum(), (len(problem.group_weight), 1))
    parts = list(_parts(problem))
    before, gain = -np.inf, np.inf
    for step in range(1, 1 + (iterations or (50 if problem.counts.design.grows else 100))):  # noqa: B007 - reported
        pull = np.zeros_like(π)
        loglik = 0.0
        for where, law, weight in parts:
            likely = np.maximum(π[where] @ law, 1e-300)
            pull[where] += (weight / likely) @ law.T
            loglik += float((weight * np.log(likely)).sum())
        π *= pull
        π /= π.sum(1, keepdims=True)
        gain, before = loglik - before, loglik
        if gain < 0:
            break
    return π, Fit(step, before, bool(gain < 1e-8 * problem.group_weight.sum()))


def _parts(problem: Problem) -> Iterator[tuple[tuple[slice, slice], FloatArray, FloatArray]]:
    """Yield the likelihood in parts: rows and cells of π, the law of some outcomes there, and the outcomes' weights.

    A fit has one part per table. Replicates are many rows of every stratum, and where sample sizes differ outcomes are very
    many, of which a stratum has few, and each of which speaks about few ranks: nothing else is multiplied.
    """
    strata = int(problem.strata.max()) + 1
    for table, law in zip(problem.tables, problem.laws, strict=True):
        if len(table.weight) < FEW_ROWS * strata or law.shape[1] < MANY_COLUMNS:
            yield (slice(None), slice(None)), law, table.weight
            continue
        likely = law > NOTHING * law.max(0)
        first, last = likely.argmax(0), len(law) - likely[::-1].argmax(0)
        for row in range(strata):
            weight = table.weight[row::strata]
            here = np.flatnonzero(weight.any(0))
            here = here[np.argsort((first + last)[here], kind="stable")]
            for place in range(0, len(here), COLUMNS):
                some = here[place : place + COLUMNS]
                cells = slice(int(first[some].min()), int(last[some].max()))
                yield (slice(row, None, strata), cells), np.ascontiguousarray(law[cells, some]), weight[:, some]
