"""Intervals: what full evaluation of *these* cases would show, or of the population they come from.

Nothing is scored again. Two ways, by what is known:

- ranks that are known have no uncertainty about these cases; for the population, user blocks give the standard error;
- an estimator without a posterior is fitted again to resampled counts (``population``) or to counts simulated from its own
  P̂ and the design's law (``cases``). All replicates are rows of one problem, so a hundred fits cost about as much as a few.

What assumes nothing at all about the shape of P(R) is in :mod:`fullrank.estimators.bounds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..metrics import Metric
from ..ranks.counts import PoolTable, RankCounts, unique_rows
from ._grid import Grid

if TYPE_CHECKING:
    from .estimate import Estimate, Problem, RankDistribution, Solve

__all__ = ["Target"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Target = Literal["cases", "population"]

REPLICATES = 100
#: How often a whole estimator is refitted where replicates of one problem cannot serve.
REFITS = 60
#: Pool sizes are merged into this many bins for replicates: the spread does not depend on finer ones.
REPLICATE_POOLS = 3


def check_interval(level: float, target: str) -> None:
    """Refuse a level or target that means nothing."""
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1, such as 0.95, not {level!r}.")
    if target not in {"cases", "population"}:
        raise ValueError(f"`target` must be 'cases' or 'population', not {target!r}.")


def within_reach(span: tuple[float, float], value: float, metric: Metric, counts: RankCounts) -> tuple[float, float]:
    """No further than the metric goes: from nothing to every target first. A metric of one's own may do anything."""
    low, high = span
    if metric.function is not None or not np.isfinite(high - low):
        return span
    order, targets, weight = counts.groups
    best = float(weight @ metric.gain(1.0, counts.n_items, order, targets)) / counts.users_weight
    return max(low, min(value, 0.0)), min(high, max(value, best))


# -------------------------------------------------------------------------------------------------- known ranks


def known_interval(dist: RankDistribution, metric: Metric, level: float, target: str) -> tuple[float, float]:
    """For ranks that are known: a point for these cases, a ratio estimate over user blocks for the population."""
    from scipy.special import stdtrit

    value = dist.expect(metric)
    if target == "cases":
        return value, value
    known = dist.known if dist.known is not None else dist.counts
    N = dist.counts.n_items if dist.n_items is None else dist.n_items
    gain = metric.gain(known.column("hits") + 1, N, known.column("order"), known.column("targets"))
    if metric.whole_auc:
        gain = known.auc_weight / known.weight / known.column("targets")
    blocks, which = np.unique(known.column("block"), return_inverse=True)
    if len(blocks) < 2:
        return -np.inf, np.inf
    top = np.bincount(which.ravel(), known.weight * gain)
    users = np.bincount(which.ravel(), known.weight / known.column("targets"))
    left = top - value * users
    error = np.sqrt(len(blocks) / (len(blocks) - 1) * (left @ left)) / users.sum()
    half = float(stdtrit(len(blocks) - 1, 0.5 + level / 2)) * float(error)
    return value - half, value + half


# -------------------------------------------------------------------------------------------------- replicates


@dataclass(frozen=True, eq=False)
class Replicates:
    """Many fits at once: the masses of every replicate, and the weight of each (j, T) in it."""

    grid: Grid
    masses: FloatArray  # replicates × strata × cells
    group_weight: FloatArray  # replicates × groups

    def values(self, metric: Metric, counts: RankCounts, n_items: float) -> FloatArray:
        """The metric in every replicate."""
        order, targets, _ = counts.groups
        total = np.zeros(len(self.masses))
        for row, which, gain in self.grid.gains(metric, n_items, order, targets, counts.strata):
            values = self.masses[:, row, : gain.shape[1]] @ gain.T
            total += (self.group_weight[:, which] * values).sum(1)
        return np.asarray(total / (self.group_weight / targets).sum(1))


def resampled(problem: Problem, solve: Solve, size: int, rng: np.random.Generator) -> Replicates:
    """Fits to bootstrap samples of user blocks (255 degrees of freedom, users stay whole)."""
    counts = problem.counts
    blocks, block = np.unique(counts.column("block"), return_inverse=True)
    block = block.ravel()
    times = rng.multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)), size=size).astype(np.float64)
    groups = unique_rows(counts.keys[:, 4:6])[1]
    by_group = np.zeros((len(blocks), int(groups.max()) + 1))
    np.add.at(by_group, (block, groups), counts.weight)
    strata = counts.strata[groups]
    tables = []
    for index, table in enumerate(problem.tables):
        here = np.ones(len(block), dtype=bool) if problem.pools is None else problem.pools == index
        column = _columns_of(table, counts.column("drawn")[here], counts.column("hits")[here])
        seen = np.zeros((len(blocks), len(table.weight), len(table.hits)))
        np.add.at(seen, (block[here], strata[here], column), counts.weight[here])
        tables.append(replace(table, weight=np.tensordot(times, seen, 1).reshape(-1, len(table.hits))))
    masses, _ = solve(replace(problem, tables=tables))
    return Replicates(problem.grid, masses.reshape(size, -1, len(problem.grid)), times @ by_group)


def simulated(problem: Problem, solve: Solve, size: int, rng: np.random.Generator) -> Replicates:
    """Fits to counts drawn from a likelihood fit of P(R) and the design's law, the ranks held fixed.

    Given the ranks, p̃ has covariance Σ_R P̂(R)(diag a_R − a_R a_Rᵀ)/M; it is drawn by stratified sampling of ranks: each
    case takes its own quantile of P̂, so that P̂ itself hardly varies between replicates. P̂ is MLE's whatever the estimator:
    a signed or tilted one is no distribution that such data come from.
    """
    from .likelihood import em

    masses = em(problem, 50, "uniform", 0.0)[0]
    centre = masses / masses.sum(1, keepdims=True)
    tables = []
    for table, law in zip(problem.tables, problem.laws, strict=True):
        weight = np.zeros((size, *table.weight.shape))
        for row, total in enumerate(table.weight.sum(1)):
            if total <= 0:
                continue
            cases = max(round(total), 1)
            edges = np.minimum(np.round(np.cumsum(centre[row]) * cases), cases).astype(np.int64)
            number = np.diff(np.concatenate([[0], edges]))
            number[np.argmax(centre[row])] += cases - number.sum()
            used = np.flatnonzero(number > 0)
            drawn = _drawn_from(law[used], number[used], rng, size)
            drawn[drawn.sum(1) == 0] = np.round(table.weight[row])  # all its outcomes unseen: no sample to learn from
            weight[:, row] = drawn * (total / cases)
        tables.append(replace(table, weight=weight.reshape(-1, len(table.hits))))
    fitted, _ = solve(replace(problem, tables=tables))
    groups = np.tile(problem.counts.groups[2], (size, 1))
    return Replicates(problem.grid, fitted.reshape(size, -1, len(problem.grid)), groups)


@lru_cache(maxsize=32)
def z_of(level: float) -> float:
    """How many standard errors an interval at ``level`` reaches to each side."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def replicate_interval(values: FloatArray, value: float, level: float) -> tuple[float, float]:
    """The estimate ± z standard deviations of the replicates.

    Their mean differs from the estimate by the estimator's own bias, which is no part of an interval around it.
    """
    half = z_of(level) * float(values.std(ddof=1))
    return value - half, value + half


def point_interval(estimate: Estimate, metric: Metric, level: float, target: str) -> tuple[float, float]:
    """Refit the whole estimator, its prior included, to resampled counts or to counts simulated from MLE's P̂.

    For estimates that replicates of one problem cannot serve: those without masses (CLS, Mapping), those whose outcomes are
    taken as ranks (Naive, RankEstimate), and those whose prior is itself fitted to the sample (MN_MLE and its kin).
    """
    value = estimate.expect(metric)
    found = _REFITTED.setdefault(estimate, {})
    if target not in found:
        found[target] = [_slim(each) for each in _refits(estimate, target, REFITS)]
    values = np.array([each.expect(metric) for each in found[target]])
    return within_reach(replicate_interval(values, value, level), value, metric, estimate.counts)


#: Refits of estimates that still exist, by target: one set serves every metric.
_REFITTED: WeakKeyDictionary[Estimate, dict[str, list[Estimate]]] = WeakKeyDictionary()


def _slim(estimate: Estimate) -> Estimate:
    """The estimate without what it would need to be fitted again, which is most of its memory."""
    return replace(estimate, again=None, posterior=None) if hasattr(estimate, "again") else estimate  # type: ignore[type-var]


def _refits(estimate: Estimate, target: str, size: int) -> Iterator[Estimate]:
    from .estimate import build_problem
    from .likelihood import MLE

    rng = np.random.default_rng(0)
    counts, fit = estimate.counts, estimate.estimator.fit
    if target == "population":
        pooled = counts.with_mean_pool()  # one pool size: the spread does not need more, and fits are fast
        for _ in range(size):
            yield fit(pooled.resample(rng))
        return
    problem = build_problem(counts, "mean")
    pilot = MLE(n_items="mean").fit(counts)
    (table,), (law,) = problem.tables, problem.laws
    centre = np.average(np.maximum(pilot.masses, 0), axis=0, weights=problem.group_weight)
    # whole cases per rank that add up to all of them: rounded one by one, few cases over many ranks would come to none
    number = np.diff(np.round(np.cumsum(centre) / centre.sum() * len(counts)), prepend=0).astype(np.int64)
    for drawn in _drawn_from(law, number, rng, size):
        # all its outcomes unseen: no sample to learn from
        seen = drawn if drawn.any() else np.ceil(table.weight.sum(0)).astype(np.int64)
        simulated = RankCounts.from_outcomes(
            np.repeat(table.drawn, seen), np.repeat(table.hits, seen), round(counts.n_items), counts.design,
            candidates=counts.candidates,
        )  # fmt: skip
        yield fit(simulated)


def _drawn_from(law: FloatArray, number: IntArray, rng: np.random.Generator, size: int) -> IntArray:
    """``size`` times: how often each outcome of ``law`` is seen when ``number`` cases have each rank."""
    lost = np.maximum(1.0 - law.sum(1, keepdims=True), 0.0)
    shares = np.concatenate([law, lost], axis=1)
    shares /= shares.sum(1, keepdims=True)
    drawn = np.zeros((size, law.shape[1]), dtype=np.int64)
    for index in range(size):
        drawn[index] = rng.multinomial(number, shares).sum(0)[:-1]
    return drawn


def _columns_of(table: PoolTable, drawn: IntArray, hits: IntArray) -> IntArray:
    """The column of each outcome in a table (nearest where merging of pools moved it)."""
    radix = int(max(table.hits.max(initial=0), hits.max(initial=0))) + 2
    keys = table.drawn * radix + table.hits
    order = np.argsort(keys)
    place = np.searchsorted(keys[order], drawn * radix + hits)
    return np.asarray(order[np.minimum(place, len(order) - 1)])
