"""What an estimator is, and what it is given: a grid of ranks, and per bin of pool sizes outcomes with law and weights."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from fullrank._checks import check_choice
from fullrank._types import FloatArray, IntArray, Pair
from fullrank.estimators import _grid
from fullrank.estimators._grid import Grid
from fullrank.metrics import Metric
from fullrank.ranks.counts import MAX_POOLS, NO_RANK_LAW, PoolTable, RankCounts, unique_rows
from fullrank.ranks.design import ALL, Design
from fullrank.ranks.groups import with_like_hits, with_like_samples

#: Laws are kept in memory as cells × outcomes: pool bins are merged until this many numbers suffice.
MOST_NUMBERS = 2_000_000
#: Up to so many pool sizes each have a table; more are put in bins.
FEW_POOLS = 6
#: Standard deviation of log N within bins of pool sizes. It blurs a rank by 1 % where the sample blurs it by 1/√hits, and
#: moves estimates by a small part of their standard error (tests).
POOL_SPREAD = 0.01
#: Where samples have more sizes than this and more outcomes than that, sizes are put together that are a like share of the
#: candidates, within so much of its logarithm.
MANY_SIZES, MANY_OUTCOMES, SHARE_WIDTH = 20, 4000, 0.05
#: For smooth distributions and very many outcomes: width of bins of hits, on the log scale, and the most ranks in a cell.
HITS_WIDTH, CELL_RANKS = 0.04, 5
#: Width of merged cells as a share of the rank: for a fit, and for replicates, which only have to vary as it does.
COARSENESS, ROUGHNESS = 0.01, 0.1


@dataclass(frozen=True)
class Fit:
    """How a fit went: iterations taken, the objective reached, whether it had converged, and remarks for the user."""

    iterations: int = 0
    objective: float = float("nan")
    converged: bool = True
    notes: tuple[str, ...] = ()


#: What intervals are for: what full evaluation of these very cases would show, or of the population they come from.
Target = Literal["cases", "population"]


@runtime_checkable
class Estimator(Protocol):
    """Anything with ``fit(counts)`` that returns an :class:`Estimate`; fitting never changes the estimator."""

    def fit(self, counts: RankCounts) -> "Estimate":
        """Return the estimate from these counts."""


class Estimate(Protocol):
    """What a fit answers: the value of any metric."""

    @property
    def counts(self) -> RankCounts:
        """The counts it was fitted to."""

    @property
    def estimator(self) -> Estimator:
        """The estimator that was fitted."""

    @property
    def fit_info(self) -> Fit:
        """How the fit went."""

    def expect(self, metric: Metric | str) -> float:
        """Return the estimated value of the metric."""

    def interval(self, metric: Metric | str, level: float = 0.95, target: Target = "cases") -> Pair:
        """An interval around it."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What an estimator sees: a grid of ranks and, per pool-size bin, outcomes with their law and weights."""

    counts: RankCounts
    grid: Grid
    tables: list[PoolTable]  # of each bin; weights are strata × outcomes
    laws: list[FloatArray]  # of each bin: cells × outcomes
    all_outcomes: bool
    pools: IntArray  # the table that every cell of the counts went into
    strata: IntArray  # the row of tables of each (j, T)

    def coarser(self, most: int) -> "Problem":
        """The same problem with at most ``most`` bins of pool sizes, on a grid that is just fine enough for the laws."""
        counts = self.counts
        n_items, most = ("mean", 1) if len(self.tables) == 1 else ("bins", most)
        pools = [table.n_items for table in counts.tables(pool_bins(counts, most))]
        grid = merge_cells(self.grid, self.tables, counts.design, pools, ROUGHNESS)
        if len(self.tables) <= most and len(grid) == len(self.grid):
            return self
        return build_problem(counts, n_items, self.all_outcomes, most=most, grid=grid, strata=self.strata)

    @cached_property
    def group_weight(self) -> FloatArray:
        """Weight of each (j, T) stratum over all bins."""
        return np.asarray(sum(table.weight.sum(1) for table in self.tables))

    def uniform(self) -> FloatArray:
        """Return the uniform distribution on ranks, per cell."""
        return np.asarray(self.grid.width / self.grid.width.sum())


Solve = Callable[[Problem], tuple[FloatArray, Fit]]


def build_problem(
    counts: RankCounts,
    n_items: str = "bins",
    all_outcomes: bool = False,
    *,
    most: int = MAX_POOLS,
    grid: Grid | None = None,
    strata: IntArray | None = None,
    smooth: bool = False,
    coarseness: float | None = None,
) -> Problem:
    """Tables, grid and laws for these counts, within bounded memory; ``strata``: rows of (j, T), if not the counts' own.

    ``smooth``: the distribution to be fitted is, so that ranks and hits within a few per cent of one another may be put
    together where outcomes are very many. ``coarseness``: ranks that no sample can tell apart are put together up to this
    share of the rank, however few outcomes there are.
    """
    check_choice("n_items", n_items, ("bins", "mean"))
    if n_items == "mean":
        most, smooth = 1, False
    else:
        few = with_few_sizes(counts)
        smooth = smooth and few is not counts
        counts = with_like_hits(few, HITS_WIDTH) if smooth else few
    while True:
        pools = pool_bins(counts, most)
        tables = counts.tables(pools, strata)
        cells = grid or cells_for(tables, counts.design)
        if smooth and grid is None and may_merge(tables, counts.design):  # whatever the samples can tell apart
            cells = _in_steps(cells, np.clip(COARSENESS * cells.hi, 1.0, CELL_RANKS))
        if len(tables) == 1 or not _too_large(cells, tables):
            break
        most = len(tables) // 2
    if grid is None:
        if coarseness is not None:
            cells = merge_cells(cells, tables, counts.design, share=coarseness)
        cells = coarse_cells(cells, tables, counts.design)
    if all_outcomes:
        tables = [with_all_outcomes(counts, table) for table in tables]
    laws = [cells.law(counts.design, table.n_items, table.drawn, table.hits) for table in tables]
    if all_outcomes:
        laws = [law * size_shares(counts, table) for law, table in zip(laws, tables, strict=True)]
    return Problem(counts, cells, tables, laws, all_outcomes, pools, counts.strata if strata is None else strata)


def pool_bins(counts: RankCounts, most: int = MAX_POOLS) -> IntArray:
    """The bin of pool sizes of every cell of the counts: as few as keep log N within them together, at most ``most``.

    Bins are narrow where many cases are, with edges at equal steps of ∫ (density of log N)^⅓, which leaves least variance
    within them. Each of a few sizes is a bin. Drawn without replacement, a sample of nearly all candidates knows its rank
    nearly exactly, and the bins have to be narrower.
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
    """Return the grid for these tables, its head no finer than laws and distributions are.

    Single ranks past the first hundred are merged into cells of 1 % of the rank and at most 0.3 standard errors of it, where
    no rank is known and no law has an edge. With replacement the largest pool stands for all.
    """
    resolved = tables
    if design.replace and len(tables) > 1:
        outcomes, _ = unique_rows(np.concatenate([np.stack([each.drawn, each.hits], axis=1) for each in tables]))
        largest = max(table.n_items for table in tables)
        resolved = [PoolTable(largest, outcomes[:, 0], outcomes[:, 1], np.empty((0, 0)))]
    grid = Grid.for_tables(resolved, design.replace)
    head = _grid.HEAD
    if grid.hi[-1] <= 2 * head:
        return grid
    merged = merge_cells(Grid.dense(head), tables, design)
    return Grid.ending_at(np.union1d(merged.hi, grid.hi[grid.hi > head]))


def with_few_sizes(counts: RankCounts) -> RankCounts:
    """Return the counts with sizes put together that are a like share of the candidates, where samples have very many sizes.

    RecBole's do: a user's negatives are put together and repeats are counted once.
    """
    many = counts.design.plain and len(counts.sizes) > MANY_SIZES
    if many and len(unique_rows(counts.outcomes)[0]) > MANY_OUTCOMES:
        return with_like_samples(counts, SHARE_WIDTH)
    return counts


def coarse_cells(grid: Grid, tables: list[PoolTable], design: Design) -> Grid:
    """Merge ranks that no sample can tell apart, from the first on, where laws would take too much memory."""
    return merge_cells(grid, tables, design) if _too_large(grid, tables) else grid


def _too_large(grid: Grid, tables: list[PoolTable]) -> bool:
    return len(grid) * sum(len(table.hits) for table in tables) > MOST_NUMBERS


def may_merge(tables: list[PoolTable], design: Design) -> bool:
    """Whether neighbouring ranks may share a cell: no rank is known, and no law has an edge."""
    return not design.exact_to and not any((table.drawn == ALL).any() for table in tables)


def merge_cells(
    grid: Grid, tables: list[PoolTable], design: Design, pools: list[float] | None = None, share: float = COARSENESS
) -> Grid:
    """The grid with cells put together that may be, up to ``share`` of their rank and 0.3 standard errors of it.

    The largest sample from the smallest of the ``pools`` (the tables' smallest) that has a rank resolves it best.
    """
    if not may_merge(tables, design):
        return grid
    R, m = grid.hi.astype(np.float64), float(max(table.drawn.max() for table in tables))
    sizes = np.sort(pools or [min(table.n_items for table in tables)])
    pool = sizes[np.minimum(np.searchsorted(sizes, R), len(sizes) - 1)]
    rest = np.maximum(pool - R, 0.0) * (1 / m if design.replace else np.maximum(1 / m - 1 / pool, 0.0))
    return _in_steps(grid, np.maximum(np.minimum(share * R, _grid.FINENESS * np.sqrt(R * rest)), 1.0))


def _in_steps(grid: Grid, step: FloatArray) -> Grid:
    """Put cells together to the width of a ``step``: one ends where the integral of 1/step passes a whole number."""
    cell = np.floor(np.cumsum(grid.width / step))
    return Grid.ending_at(grid.hi[np.append(np.diff(cell) > 0, True)])


def with_all_outcomes(counts: RankCounts, table: PoolTable) -> PoolTable:
    """Return the table with a column for every outcome that can happen, seen or not."""
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


def size_shares(counts: RankCounts, table: PoolTable, weight: FloatArray | None = None) -> FloatArray:
    """Return the share of cases that have the sample size of each outcome; by ``weight``, where not of all strata."""
    if not counts.design.plain:
        return np.ones(len(table.drawn))
    sizes, which = np.unique(table.drawn, return_inverse=True)
    share = np.bincount(which, table.weight.sum(0) if weight is None else weight, len(sizes))
    return np.asarray((share / share.sum())[which])


def positive_solve(gram: FloatArray, right: FloatArray) -> FloatArray:
    """Solve with a matrix that is positive definite up to rounding: a ridge at the level of rounding where it is not."""
    from scipy.linalg import cho_factor, cho_solve  # late: `import fullrank` stays fast

    ridge = 0.0
    for _ in range(8):
        try:
            factor = cho_factor(gram if ridge == 0 else gram + ridge * np.eye(len(gram)), check_finite=False)
            return np.asarray(cho_solve(factor, right, check_finite=False))
        except np.linalg.LinAlgError:
            ridge = max(10 * ridge, 1e-15 * float(np.trace(gram)) / len(gram))
    return np.asarray(np.linalg.lstsq(gram, right, rcond=None)[0])


def refuse_compared(counts: RankCounts, name: str) -> None:
    """Refuse counts with a part compared in full: they have no law P(outcome | R), since P(ahead | R) is unknown."""
    if counts.has_compared_part:
        raise ValueError(f"`{name}` cannot use these counts: {NO_RANK_LAW}")


def refuse_unordered(counts: RankCounts, name: str) -> None:
    """Refuse designs whose outcomes have no order: on ``Adaptive``, a rank of 2 in 99 and one in 3199 differ."""
    refuse_compared(counts, name)
    if not counts.design.plain:
        raise ValueError(
            f"`{name}` is not defined on the design '{counts.design}': its outcomes have no order; "
            "use LogSpline, MLE, BiasVariance or Multinomial."
        )


def one_size(counts: RankCounts, name: str) -> int:
    """Return the number of negatives that all cases have; refuse adaptive and unequal samples."""
    refuse_unordered(counts, name)
    sizes = counts.sizes
    if len(sizes) != 1:
        raise ValueError(
            f"`{name}` needs the same number of negatives for every case; these have {len(sizes)} different ones "
            f"({sizes.min()} to {sizes.max()}): use LogSpline, MLE, BiasVariance or Multinomial."
        )
    return int(sizes[0])


def is_exhaustive(counts: object) -> bool:
    """Whether every rank is known; refuse what an estimator cannot be fitted to, such as ranks."""
    if not isinstance(counts, RankCounts):
        raise TypeError(
            f"`counts` must be RankCounts, got {type(counts).__name__}: make them with RankCounts.from_ranks(ranks, "
            "n_items, design), or give ranks to fr.correct."
        )
    return bool(counts.all_compared.all())
