"""Maximum likelihood by EM on the mixture of the design's laws (jin21 eq. 16-23, li23 eq. 12 and App. G).

The log-likelihood is Σ_o c_o log Σ_R π_R P(o | R) over outcomes o seen c_o times; EM multiplies π_R by the mean of
P(o | R)/P(o). It runs on counts, not on cases, and on the grid, not on N ranks. Where it stops and where it starts decide
the answer: at the optimum π is a few spikes. The authors start uniform and take exactly 100 steps, 50 on adaptive samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fullrank._checks import check_choice
from fullrank._types import FloatArray, IntArray
from fullrank.estimators.estimate import RankDistribution, fit_distribution
from fullrank.estimators.problem import Fit, Problem, check_counts
from fullrank.metrics import parse_metric
from fullrank.ranks.counts import PoolTable, RankCounts

#: From so many rows of each stratum (replicates) and so many outcomes on, the likelihood is taken in parts of so many
#: outcomes, each with the ranks at which it is more than so much of its largest value.
FEW_ROWS, MANY_COLUMNS, COLUMNS, NOTHING = 8, 1000, 64, 1e-20


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
        check_choice("weight", self.weight, ("ndcg", "ap"))
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
    parts = list(_parts(problem))
    before, gain, step = -np.inf, np.inf, 0
    for step in range(1, iterations + 1):
        pull = np.zeros_like(π)
        loglik = 0.0
        for part in parts:
            likely = np.maximum((π[part.where] @ part.law).ravel()[part.seen], 1e-300)
            part.ratio.ravel()[part.seen] = part.weight / likely
            pull[part.where] += part.ratio @ part.law.T
            loglik += float(part.weight @ np.log(likely))
        π *= pull
        π /= π.sum(1, keepdims=True)
        gain, before = loglik - before, loglik
        if step > 1 and gain < tolerance * problem.group_weight.sum():
            break
    return π, Fit(step, before, bool(gain < max(tolerance, 1e-8) * problem.group_weight.sum()))


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the likelihood: rows and cells of π, the laws of some outcomes there, and which were seen how often."""

    where: tuple[slice, slice]
    law: FloatArray  # cells × outcomes
    seen: IntArray  # places in rows × outcomes that have a weight
    weight: FloatArray  # of these places
    ratio: FloatArray  # room for weight over likelihood, rows × outcomes: zero where nothing was seen

    @classmethod
    def of(cls, where: tuple[slice, slice], weight: FloatArray, law: FloatArray) -> "_Part":
        """Note where outcomes were seen."""
        seen = np.flatnonzero(weight)
        return cls(where, law, seen, weight.ravel()[seen], np.zeros(weight.shape))


def _parts(problem: Problem) -> Iterator[_Part]:
    """Yield the likelihood in parts that add up to it.

    A fit has one part per table. Replicates are many rows of every stratum, and where sample sizes differ outcomes are very
    many, of which a stratum has few, and each of which speaks about few ranks: nothing else is multiplied.
    """
    strata = int(problem.strata.max()) + 1
    for table, law in zip(problem.tables, problem.laws, strict=True):
        if len(table.weight) < FEW_ROWS * strata or law.shape[1] < MANY_COLUMNS:
            yield _Part.of((slice(None), slice(None)), table.weight, law)
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
                yield _Part.of(
                    (slice(row, None, strata), cells), weight[:, some], np.ascontiguousarray(law[cells, some])
                )


def _steps(iterations: int | None, counts: RankCounts) -> int:
    check_counts(counts)
    if iterations is not None:
        return iterations
    return 50 if counts.design.grows else 100


def _check_em(iterations: int | None, start: str) -> None:
    if iterations is not None and (isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1):
        raise ValueError(f"`iterations` must be a positive whole number or None (as published), got {iterations!r}.")
    check_choice("start", start, ("uniform", "log"))
