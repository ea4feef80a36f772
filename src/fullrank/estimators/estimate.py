"""What estimators share: the problem they are given and the answers they return.

An estimator is a frozen dataclass with one method, ``fit(counts)``. Its file holds its mathematics; reading the counts,
the grid, the exhaustive rule and the bookkeeping live here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from fullrank._threads import ONE_BLAS_THREAD
from fullrank._types import FloatArray, IntArray
from fullrank.estimators import _grid
from fullrank.estimators._grid import Grid
from fullrank.estimators.bounds import bounds_of
from fullrank.estimators.intervals import (
    REPLICATE_POOLS,
    REPLICATES,
    Replicates,
    Target,
    auc_interval,
    cell_gains,
    check_interval,
    final_interval,
    point_interval,
    refit_interval,
    replicate_interval,
    resampled,
    simulated,
)
from fullrank.metrics import Metric, Recall, parse_metric, rank_offset
from fullrank.ranks.counts import MAX_POOLS, NO_RANK_LAW, PoolTable, RankCounts, unique_rows
from fullrank.ranks.design import ALL, Design

__all__ = ["Estimate", "Estimator", "Fit", "PointEstimate", "RankDistribution", "describe"]


#: Laws are kept in memory as cells × outcomes: pool bins are merged until this many numbers suffice.
MOST_NUMBERS = 2_000_000
#: So many pool sizes are kept as they are; more are put in bins.
FEW_POOLS = 6
#: Standard deviation of log N within bins of pool sizes. It blurs a rank by 1 % where the sample blurs it by 1/√hits, and
#: moves estimates by a small part of their standard error (tests).
POOL_SPREAD = 0.01
#: Width of merged cells as a share of the rank: for a fit, and for replicates, which only have to vary as it does.
COARSENESS, ROUGHNESS = 0.01, 0.1


@runtime_checkable
class Estimator(Protocol):
    """Anything with ``fit(counts)`` that returns an :class:`Estimate`; fitting never changes the estimator."""

    def fit(self, counts: RankCounts) -> Estimate:
        """The estimate from these counts."""
        ...


class Posterior(Protocol):
    """What an estimator knows about its own uncertainty."""

    def interval(self, metric: Metric, value: float, level: float, target: str, n_items: float) -> tuple[float, float]:
        """(low, high) around ``value``."""
        ...

    def prior_share(self, metric: Metric | str, n_items: float) -> float:
        """How much of the answer is the prior's, 0 to 1."""
        ...


class Estimate(Protocol):
    """What a fit answers: the value of any metric."""

    @property
    def counts(self) -> RankCounts:
        """The counts it was fitted to."""
        ...

    @property
    def estimator(self) -> Estimator:
        """The estimator that was fitted."""
        ...

    @property
    def fit(self) -> Fit:
        """How the fit went."""
        ...

    def expect(self, metric: Metric | str) -> float:
        """The estimated value of the metric."""
        ...

    def interval(self, metric: Metric | str, level: float = 0.95, target: Target = "cases") -> tuple[float, float]:
        """An interval around it."""
        ...


@dataclass(frozen=True)
class Fit:
    """How a fit went: iterations taken, the objective reached, whether it had converged, and remarks for the user."""

    iterations: int = 0
    objective: float = float("nan")
    converged: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class PointEstimate:
    """An estimate that has no rank distribution (CLS, Mapping): it answers ``expect``, ``interval`` and ``bounds``."""

    counts: RankCounts
    estimator: Estimator
    value: Callable[[Metric], float]
    fit: Fit = field(default_factory=Fit)

    def expect(self, metric: Metric | str) -> float:
        """The estimated value of the metric."""
        return self.value(parse_metric(metric))

    def interval(self, metric: Metric | str, level: float = 0.95, target: Target = "cases") -> tuple[float, float]:
        """(low, high) by refitting to resampled or simulated counts; the estimator's own bias is not covered."""
        check_interval(level, target)
        return point_interval(self, parse_metric(metric), level, target)

    def bounds(self, metric: Metric | str, level: float = 0.95) -> tuple[float, float]:
        """The least and largest value of the metric that the counts alone allow: what :func:`fullrank.bounds` says.

        They assume nothing about the shape of P(R). AUC, unbiased for any sample, has its interval here.
        """
        return bounds_of(self, parse_metric(metric), level)

    def curve(self, metric: Metric | str, ks: int | Iterable[int]) -> FloatArray:
        """The metric at every cut-off in ``ks`` (a number means 1..ks)."""
        return np.array([self.expect(parse_metric(metric) @ k) for k in cut_offs(ks)])


@dataclass(frozen=True, eq=False, repr=False)
class RankDistribution:
    """P̂(R) on ranks 1..N, kept on a grid; mass may be signed (BiasVariance, Multinomial) and need not add to one.

    Cases whose rank is known may be kept as they are (``known``); the masses then speak for the others. With several targets
    per user there is one distribution of R′ per stratum of (j, T), and ``mass`` and ``cdf`` speak of the rank in the full
    list, R = R′ + j − 1, averaged over users.
    """

    counts: RankCounts
    estimator: Estimator
    grid: Grid
    masses: FloatArray  # (j, T) strata × cells; each row is the distribution of one stratum
    #: Number of candidates that AUC and uncut Precision refer to; None: they vary, AUC comes from the counts
    n_items: float | None
    fit: Fit = field(default_factory=Fit)
    known: RankCounts | None = None
    #: What was solved and how, so that intervals can solve it again for resampled counts
    again: tuple[Problem, Solve] | None = None
    #: The posterior of an estimator that has one; intervals then come from it
    posterior: Posterior | None = None
    #: The row of ``masses`` of each (j, T) of the counts; None: as the counts have them
    strata: IntArray | None = None

    def expect(self, metric: Metric | str) -> float:
        """Σ_R P̂(R) M(R), the value the metric would have on the full ranking.

        >>> import fullrank as fr
        >>> counts = fr.RankCounts.from_ranks([1, 1, 2, 5], n_items=50, design="full")
        >>> fr.MLE().fit(counts).expect("recall@2")
        0.75
        """
        metric = parse_metric(metric)
        if metric.whole_auc and self.n_items is None:
            return self.counts.auc
        refuse_closed(self.counts, metric)
        N = self.counts.n_items if self.n_items is None else self.n_items
        total = 0.0
        if self.known is not None:
            own = self.known.pool_weight / self.known.weight if self.n_items is None else N
            total += empirical_value(self.known, metric, own)
        return (total + self._smooth_sum(metric, N)) / self.counts.users_weight

    def curve(self, metric: Metric | str, ks: int | Iterable[int]) -> FloatArray:
        """The metric at every cut-off in ``ks`` (a number means 1..ks)."""
        metric, cuts = parse_metric(metric), list(cut_offs(ks))
        top = max(cuts, default=0)
        plain = self.known is None and not len(self.counts.groups.weight) > 1 and metric.name != "precision"
        if plain and min(cuts, default=0) >= 1 and top <= len(self.grid) and self.grid.hi[top - 1] == top:
            # what a rank adds does not depend on the cut-off: one running sum serves all of them
            gain = self.grid.mean_gain(metric @ top, self.counts.n_items if self.n_items is None else self.n_items)
            return np.asarray(np.cumsum(self.masses[0, :top] * gain)[np.asarray(cuts) - 1])
        return np.array([self.expect(metric @ k) for k in cuts])

    def mass(self, ranks: ArrayLike) -> FloatArray:
        """P̂(R) at the given ranks (zero past the last)."""
        wanted = np.atleast_1d(np.asarray(ranks, dtype=np.int64))
        if len(wanted):
            refuse_closed(self.counts, Recall @ max(int(wanted.max()), 1))
        out = np.zeros(len(wanted))
        if self.known is not None:
            R = 1 + self.known.above + rank_offset(self.known.column("order"))
            seen, which = np.unique(R, return_inverse=True)
            weight = np.bincount(which.ravel(), self.known.weight / self.known.column("targets"))
            place = np.minimum(np.searchsorted(seen, wanted), len(seen) - 1)
            out += np.where(seen[place] == wanted, weight[place], 0.0)
        groups = () if self.fitted is None else zip(*self.fitted.groups, self.rows, strict=True)
        for j, T, ahead, w, row in groups:
            inner = wanted - rank_offset(j, ahead)
            cell = np.searchsorted(self.grid.hi, inner)
            inside = (cell < len(self.grid)) & (inner >= 1)
            cell = np.minimum(cell, len(self.grid) - 1)
            inside &= self.grid.lo[cell] <= inner
            out += w / T * np.where(inside, self.masses[row, cell] / self.grid.width[cell], 0.0)
        return out / self.counts.users_weight

    def interval(self, metric: Metric | str, level: float = 0.95, target: Target = "cases") -> tuple[float, float]:
        """(low, high) around :meth:`expect`.

        ``target="cases"``: what full evaluation of these very cases would show; ``"population"``: of the population they
        come from, which is never narrower. From the posterior of an estimator that has one (LogSpline); else by refitting to
        simulated or resampled counts, which does not cover the estimator's own bias. Nothing is scored again.
        """
        metric = parse_metric(metric)
        check_interval(level, target)
        value = self.expect(metric)
        return final_interval(
            self,
            metric,
            level,
            target,
            lambda whose: self._interval(metric, value, level, whose),
            lambda: self._case_variance(metric, value),
        )

    def bounds(self, metric: Metric | str, level: float = 0.95) -> tuple[float, float]:
        """The least and largest value of the metric that the counts alone allow: what :func:`fullrank.bounds` says.

        They assume nothing about the shape of P(R). AUC, unbiased for any sample, has its interval here.
        """
        return bounds_of(self, parse_metric(metric), level)

    def _interval(self, metric: Metric, value: float, level: float, target: Target) -> tuple[float, float]:
        """The estimator's own interval; a point where it knows the ranks or does not speak of the population."""
        counts = self.counts
        from_counts = metric.whole_auc and self.n_items is None
        design = counts.design
        if is_exhaustive(counts) or (target == "population" and (from_counts or not len(self.grid))):
            return value, value
        if target == "cases" and metric.k is not None and metric.k <= design.exact_to:
            return value, value  # every rank it looks at is known
        if self.posterior is not None and not from_counts:
            N = counts.n_items if self.n_items is None else self.n_items
            exact, share = self._exact_part(metric, N)
            if share == 0:
                return value, value
            low, high = self.posterior.interval(metric, (value - exact) / share, level, target, N)
            return exact + share * low, exact + share * high
        if from_counts:
            return auc_interval(counts, level)
        if self.again is None or getattr(self.estimator, "prior", None) is not None:
            return refit_interval(self, metric, level, target)
        N = counts.n_items if self.n_items is None else self.n_items
        replicates = self._resampled if target == "population" else self._simulated
        problem = self.again[0]
        values = replicates.values(metric, problem.counts, N)
        smooth = self._smooth_sum(metric, N) / problem.counts.users_weight
        low, high = replicate_interval(values, smooth, level)
        exact, share = self._exact_part(metric, N)
        return exact + share * low, exact + share * high

    def _exact_part(self, metric: Metric, n_items: float) -> tuple[float, float]:
        """What the cases that are known add to the metric, and the share of the others."""
        if self.known is None:
            return 0.0, 1.0
        whole = self.counts.users_weight
        return empirical_value(self.known, metric, n_items) / whole, 1 - self.known.users_weight / whole

    def _case_variance(self, metric: Metric, value: float) -> float:
        """Σ w²(gain − value/T)² over the cases, their weights taken as alike."""
        counts = self.counts
        squares = first = 0.0
        parts = [counts] if metric.whole_auc and self.n_items is None else [] if self.known is None else [self.known]
        for known in parts:
            gain = cell_gains(known, metric)
            squares += float(known.weight @ gain**2)
            first += float(known.weight @ (gain / known.column("targets")))
        if self.fitted is not None and parts != [counts]:
            N = counts.n_items if self.n_items is None else self.n_items
            groups = self.fitted.groups
            rows = self.fitted.strata
            squares += float((self.masses * self.grid.pooled_gains(metric, N, groups, rows)[1]).sum())
            by_user = groups._replace(weight=groups.weight / groups.targets)
            per_user = self.grid.pooled_gains(metric, N, by_user, rows)[0]
            first += float((self.masses * per_user).sum())
        total = squares - 2 * value * first + value**2 * float((counts.weight / counts.column("targets") ** 2).sum())
        return total * float((counts.weight**2 / counts.cases).sum()) / float(counts.weight.sum())

    def _smooth_sum(self, metric: Metric, n_items: float) -> float:
        """Σ weight · gain of the cases that the masses speak for."""
        fitted = self.fitted
        if fitted is None:
            return 0.0
        pooled, _ = self.grid.pooled_gains(metric, n_items, fitted.groups, self.rows)
        return float((self.masses * pooled).sum()) + self._apart(metric, n_items, fitted, pooled)

    def _apart(self, metric: Metric, n_items: float, fitted: RankCounts, pooled: FloatArray) -> float:
        """What known ranks among the fitted add by their own (j, T) to what the mean of their stratum gives them."""
        weight = fitted.groups.weight
        if len(pooled) == len(weight):
            return 0.0
        seen = np.flatnonzero(fitted.all_compared)
        w, R, row = fitted.weight[seen], fitted.outcomes[seen, 1] + 1, self.rows[fitted.group_of[seen]]
        own = metric.gain(R, n_items, fitted.column("order")[seen], fitted.column("targets")[seen], fitted.leads[seen])
        mean = pooled[row, np.searchsorted(self.grid.hi, R)] / np.bincount(self.rows, weight)[row]
        return float(w @ (own - mean))

    @cached_property
    def _resampled(self) -> Replicates:
        problem, solve = self._to_replicate()
        with ONE_BLAS_THREAD:
            return resampled(problem, solve, REPLICATES, np.random.default_rng(0))

    @cached_property
    def _simulated(self) -> Replicates:
        problem, solve = self._to_replicate()
        with ONE_BLAS_THREAD:
            return simulated(problem, solve, REPLICATES, np.random.default_rng(0))

    def _to_replicate(self) -> tuple[Problem, Solve]:
        if self.again is None:
            raise ValueError("there is nothing to solve again: all ranks are known.")
        problem, solve = self.again
        return problem.coarser(REPLICATE_POOLS), solve

    def cdf(self, k: ArrayLike) -> FloatArray | float:
        """P̂(R ≤ k), which is Recall@k."""
        values = [self.expect(Recall @ int(each)) if each >= 1 else 0.0 for each in np.atleast_1d(np.asarray(k))]
        return values[0] if np.ndim(k) == 0 else np.array(values)

    def plot(self) -> Any:
        """An Altair chart of P̂(R) on a logarithmic axis, blind spot shaded. Needs the extra ``report``."""
        return import_module("fullrank.report.charts").plot_distribution(self)

    def _repr_html_(self) -> str:
        # by name: the stage above shows what this one makes, and this one does not depend on it
        return str(import_module("fullrank.report.notebook").distribution_html(self))

    @cached_property
    def fitted(self) -> RankCounts | None:
        """The counts that the masses speak for, each stratum of (j, T) with a row of them."""
        if not len(self.grid):
            return None
        if self.counts.has_compared_part:
            return self.counts.sampled_part()[1]
        return self.counts if self.known is None else self.counts.known()[1]

    @property
    def rows(self) -> IntArray:
        """The row of ``masses`` of each (j, T) of :attr:`fitted`."""
        if self.strata is not None or self.fitted is None:
            return np.empty(0, dtype=np.int64) if self.strata is None else self.strata
        return self.fitted.strata

    def __repr__(self) -> str:
        return f"<RankDistribution by {describe(self.estimator)}: {self.counts}>"


@dataclass(frozen=True, eq=False)
class Problem:
    """What an estimator sees: a grid of ranks and, per pool-size bin, outcomes with their law and weights.

    ``laws[b]`` is cells × outcomes; ``tables[b].weight`` strata × outcomes; ``cases`` the number of cases in all.
    """

    counts: RankCounts
    grid: Grid
    tables: list[PoolTable]
    laws: list[FloatArray]
    all_outcomes: bool = False
    pools: IntArray | None = None  # the table that every cell of the counts went into; None: there is but one
    strata: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))  # the row of tables of each (j, T)

    def coarser(self, most: int) -> Problem:
        """The same problem with at most ``most`` bins of pool sizes, on a grid that is just fine enough for the laws."""
        counts, grid, mean = self.counts, self.grid, len(self.tables) == 1
        if may_merge(self.tables, counts.design):
            pools = [counts.n_items] if mean else [table.n_items for table in counts.tables(pool_bins(counts, most))]
            grid = merge_cells(grid, counts.design, max(counts.sizes), pools, ROUGHNESS)
        if len(self.tables) <= most and len(grid) == len(self.grid):
            return self
        return build_problem(
            counts, "mean" if mean else "bins", self.all_outcomes, most=most, grid=grid, strata=self.strata
        )

    @property
    def cases(self) -> int:
        """M, the number of cases."""
        return len(self.counts)

    @cached_property
    def group_weight(self) -> FloatArray:
        """Weight of each (j, T) stratum over all bins."""
        return np.asarray(sum(table.weight.sum(1) for table in self.tables))

    def uniform(self) -> FloatArray:
        """The uniform distribution on ranks, per cell."""
        return np.asarray(self.grid.width / self.grid.width.sum())


Solve = Callable[[Problem], tuple[FloatArray, Fit]]


def fit_distribution(
    estimator: Estimator,
    counts: RankCounts,
    solve: Solve,
    *,
    n_items: str = "bins",
    all_outcomes: bool = False,
    compared: bool = False,
) -> RankDistribution:
    """Fit by ``solve``, which turns a :class:`Problem` into masses (strata × cells).

    ``all_outcomes``: linear estimators weigh what was *not* seen too, so their laws run over every possible outcome.
    ``compared``: whether a law of the rank among the rest will do, where a part of the candidates was compared.
    Where every rank is known (``Exhaustive``), the answer is the empirical distribution whatever the estimator.
    """
    known, unknown = counts.known()
    if unknown is None:
        return empirical(estimator, counts)
    if counts.has_compared_part:
        if not compared:
            refuse_compared(counts, type(estimator).__name__)
        known, unknown = counts.sampled_part()
        if unknown is None:
            return taken_as_known(estimator, counts, counts, None)
    elif not counts.design.plain:  # whether an adaptive case ends up known depends on its rank: it stays in
        known, unknown = None, counts
    problem = build_problem(unknown, n_items, all_outcomes)
    with ONE_BLAS_THREAD:
        masses, fit = solve(problem)
    alone = len(problem.tables) == 1 and known is None and not counts.has_compared_part
    single = problem.tables[0].n_items if alone else None
    return RankDistribution(counts, estimator, problem.grid, masses, single, fit, known, (problem, solve))


def empirical_value(known: RankCounts, metric: Metric, n_items: float | FloatArray) -> float:
    """Σ weight · gain over cases at the ranks they show, among ``n_items`` candidates (one number, or one per cell)."""
    gain = metric.gain(known.above + 1, n_items, known.column("order"), known.column("targets"))
    return float(known.weight @ gain)


def empirical(estimator: Estimator, counts: RankCounts) -> RankDistribution:
    """The distribution of ranks that are all known: the cases as they are."""
    return taken_as_known(estimator, counts, counts, None if counts.varying_pool else counts.n_items)


def taken_as_known(
    estimator: Estimator, counts: RankCounts, known: RankCounts, n_items: float | None
) -> RankDistribution:
    """A distribution with no smooth part: every case of ``known`` stands at the rank it shows."""
    nothing = Grid.of(np.empty(0, dtype=np.int64))
    return RankDistribution(counts, estimator, nothing, np.empty((0, 0)), n_items, known=known)


def build_problem(
    counts: RankCounts,
    n_items: str = "bins",
    all_outcomes: bool = False,
    *,
    most: int = MAX_POOLS,
    grid: Grid | None = None,
    strata: IntArray | None = None,
) -> Problem:
    """Tables, grid and laws for these counts, within bounded memory; ``strata``: rows of (j, T), if not the counts' own."""
    if n_items not in {"bins", "mean"}:
        raise ValueError(f"`n_items` must be 'bins' or 'mean', not {n_items!r}.")
    while True:
        pools = np.zeros(len(counts.keys), dtype=np.int64) if n_items == "mean" else pool_bins(counts, most)
        tables = counts.tables(pools, strata)
        cells = grid or cells_for(tables, counts.design)
        if len(tables) == 1 or len(cells) * sum(len(table.hits) for table in tables) <= MOST_NUMBERS:
            break
        most = len(tables) // 2
    if all_outcomes:
        tables = [with_all_outcomes(counts, table) for table in tables]
    laws = [cells.law(counts.design, table.n_items, table.drawn, table.hits) for table in tables]
    if all_outcomes:
        laws = [law * size_shares(counts, table) for law, table in zip(laws, tables, strict=True)]
    return Problem(counts, cells, tables, laws, all_outcomes, pools, counts.strata if strata is None else strata)


def pool_bins(counts: RankCounts, most: int = MAX_POOLS) -> IntArray:
    """The bin of pool sizes of every cell of the counts: as few as keep log N within them together, at most ``most``.

    Bins are narrow where many cases are, with edges at equal steps of ∫ (density of log N)^⅓, which leaves least variance
    within them. A few sizes stay as they are. Drawn without replacement, a sample of nearly all candidates knows its rank
    nearly exactly: pools then have to be told apart the better.
    """
    sizes, pool = counts.pools
    if len(sizes) <= min(FEW_POOLS, most):
        return pool
    weight, log = np.bincount(pool, counts.weight), np.log(sizes)
    spread = POOL_SPREAD
    if not counts.design.replace:
        largest = max((int(size) for size in counts.sizes if size != ALL), default=0)
        spread *= np.sqrt(max(1 - largest / max(float(sizes.min()) - 1, 1.0), 0.0))
    density = np.cbrt(weight * np.gradient(log) ** 2)
    place = (np.cumsum(density) - density / 2) / density.sum()
    for number in range(1, min(most, len(sizes)) + 1):
        bins = np.unique((place * number).astype(np.int64), return_inverse=True)[1]
        mean = np.bincount(bins, weight * log) / np.bincount(bins, weight)
        if weight @ (log - mean[bins]) ** 2 <= spread**2 * weight.sum():
            return np.asarray(bins[pool])
    return np.asarray(bins[pool] if most < len(sizes) else pool)


def cells_for(tables: list[PoolTable], design: Design) -> Grid:
    """The grid for these tables, its head no finer than laws and distributions are.

    Single ranks past the first hundred are merged into cells of 1 % of the rank and at most 0.3 standard errors of it, where
    no rank is known and no law has an edge. With replacement the largest pool stands for all.
    """
    drawn_again = design.replace
    if drawn_again and len(tables) > 1:
        outcomes, _ = unique_rows(np.concatenate([np.stack([each.drawn, each.hits], axis=1) for each in tables]))
        largest = max(table.n_items for table in tables)
        grid = Grid.for_tables([PoolTable(largest, outcomes[:, 0], outcomes[:, 1], np.empty((0, 0)))], drawn_again)
    else:
        grid = Grid.for_tables(tables, drawn_again)
    head = _grid.HEAD
    if grid.hi[-1] <= 2 * head or not may_merge(tables, design):
        return grid
    largest, least = max(table.drawn.max() for table in tables), min(table.n_items for table in tables)
    merged = merge_cells(Grid.of(np.arange(1, head + 1)), design, largest, [least], COARSENESS)
    hi = np.union1d(merged.hi, grid.hi[grid.hi > head])
    return Grid(np.append(1, hi[:-1] + 1), hi)


def may_merge(tables: list[PoolTable], design: Design) -> bool:
    """Whether neighbouring ranks may share a cell: no rank is known, and no law has an edge."""
    return not design.exact_to and not any((table.drawn == ALL).any() for table in tables)


def merge_cells(grid: Grid, design: Design, drawn: int, pools: list[float], share: float) -> Grid:
    """The grid with cells put together while they are at most ``share`` of their rank and 0.3 standard errors of it wide.

    A rank is told apart best by the largest sample, ``drawn``, from the smallest of the ``pools`` that has it.
    """
    R, m = grid.hi.astype(np.float64), float(drawn)
    sizes = np.sort(pools)
    pool = sizes[np.minimum(np.searchsorted(sizes, R), len(sizes) - 1)]
    rest = np.maximum(pool - R, 0.0) * (1 / m if design.replace else np.maximum(1 / m - 1 / pool, 0.0))
    step = np.maximum(np.minimum(share * R, _grid.FINENESS * np.sqrt(R * rest)), 1.0)
    cell = np.floor(np.cumsum(grid.width / step))  # a cell ends where the integral of 1/step passes a whole number
    hi = grid.hi[np.append(np.diff(cell) > 0, True)]
    return Grid(np.append(grid.lo[0], hi[:-1] + 1), hi)


def with_all_outcomes(counts: RankCounts, table: PoolTable) -> PoolTable:
    """The table with a column for every outcome that can happen, seen or not."""
    if counts.design.plain:  # sizes may differ between cases: each has all its outcomes
        parts = [(np.full(m + 1, m), np.arange(m + 1)) for m in np.unique(table.drawn)]
        drawn, hits = (np.concatenate(each) for each in zip(*parts, strict=True))
    else:
        drawn, hits = counts.design.outcomes(round(table.n_items))
    seen = np.stack([table.drawn, table.hits], axis=1)
    every, position = unique_rows(np.concatenate([seen, np.stack([drawn, hits], axis=1)]))
    weight = np.zeros((len(table.weight), len(every)))
    weight[:, position[: len(seen)]] = table.weight
    return PoolTable(table.n_items, every[:, 0], every[:, 1], weight)


def size_shares(counts: RankCounts, table: PoolTable) -> FloatArray:
    """With unequal samples, the share of cases of each size: sizes are part of the outcome, whatever the rank."""
    if not counts.design.plain:
        return np.ones(len(table.drawn))
    sizes, which = np.unique(table.drawn, return_inverse=True)
    share = np.bincount(which, table.weight.sum(0), len(sizes))
    return np.asarray((share / share.sum())[which])


def describe(estimator: object) -> str:
    """An estimator in few letters: its name, and the parameters that are not as by default.

    >>> import fullrank as fr
    >>> describe(fr.Multinomial(prior=fr.MLE()))
    'Multinomial(prior=MLE)'
    """
    name = type(estimator).__name__
    if not is_dataclass(estimator):
        return name
    told = [
        f"{each.name}={describe(value) if is_dataclass(value) else value}"
        for each in fields(estimator)
        if not isinstance(value := getattr(estimator, each.name), np.ndarray) and value != each.default
    ]
    return f"{name}({', '.join(told)})" if told else name


def refuse_compared(counts: RankCounts, name: str) -> None:
    """For what rests on P(outcome | R), which there is not where a part was compared: P(ahead | R) is nobody's law."""
    if counts.has_compared_part:
        raise ValueError(f"`{name}` cannot use these counts: {NO_RANK_LAW}")


def refuse_closed(counts: RankCounts, metric: Metric) -> None:
    """For metrics that reach beyond where cases were closed: of those, only that R is at least j + ahead is known."""
    closed = counts.closed
    reach = np.inf if metric.k is None else metric.k
    beyond = closed & (rank_offset(counts.column("order"), counts.column("ahead")) < reach)
    if beyond.any():
        most = "None" if metric.k is None else f"at least {metric.k}"
        raise ValueError(
            f"`{metric}` is not known: {int(counts.cases[beyond].sum()):,} cases were closed when "
            f"{int(counts.column('ahead')[beyond].min())} items had beaten their target; `stop_at` must be {most}."
        )


def refuse_unordered(counts: RankCounts, name: str) -> None:
    """For estimators whose outcomes need an order: on ``Adaptive`` a rank of 2 in 99 and in 3199 are not alike."""
    refuse_compared(counts, name)
    if not counts.design.plain:
        raise ValueError(
            f"`{name}` is not defined on the design '{counts.design}': its outcomes have no order; "
            "use LogSpline, MLE, BiasVariance or Multinomial."
        )


def one_size(counts: RankCounts, name: str) -> int:
    """The one number of negatives that all cases have; refuses adaptive and unequal samples."""
    refuse_unordered(counts, name)
    sizes = counts.sizes
    if len(sizes) != 1:
        raise ValueError(
            f"`{name}` needs the same number of negatives for every case; these have {len(sizes)} different ones "
            f"({sizes.min()} to {sizes.max()}): use LogSpline, MLE, BiasVariance or Multinomial."
        )
    return int(sizes[0])


def is_exhaustive(counts: RankCounts) -> bool:
    """Whether every rank is known."""
    return bool(counts.all_compared.all())


def cut_offs(ks: int | Iterable[int]) -> Iterable[int]:
    """The cut-offs a user means: a number stands for 1..ks."""
    return range(1, ks + 1) if isinstance(ks, int) else ks
