"""Bounds that assume nothing about the shape of P(R): what the counts alone allow (partial identification).

Outcomes are ordered by the rank they speak for. At some twenty places along that order the share of cases up to there has a
Clopper-Pearson interval, jointly at the level asked for (Bonferroni); every rank distribution that keeps within all of them
is compatible with the counts, and the least and largest value of a metric over these is a linear programme. Ranks of one
cell of the grid and numbers of candidates of one bin differ a little in their laws and gains: the programme takes those that
rule out least.
"""

from weakref import WeakKeyDictionary

import numpy as np

from fullrank._types import BoolArray, FloatArray, IntArray, Pair
from fullrank.estimators import problem
from fullrank.estimators._grid import Grid
from fullrank.estimators.intervals import cell_gains, check_interval, reach
from fullrank.estimators.problem import Estimate
from fullrank.metrics import Metric, parse_metric
from fullrank.ranks.counts import PoolTable, RankCounts
from fullrank.ranks.design import ALL

#: Bins of pool sizes, and places along the order of outcomes: more of them hardly narrow the bounds and cost time.
MOST_POOLS, CUTS = 8, 20
#: Of a metric of one's own, so many ranks of a cell are asked for.
PLACES = 9
#: Places j of a target among its user's at which a new stratum begins: users' first two targets, and the others. More strata
#: have fewer cases each: their limits are wider, and the bounds no narrower.
STRATA = (3,)
#: The same for the rank j + ahead that a target has at best, where a part of the candidates was compared.
LEAD_STRATA = (2, 3, 4, 6, 11)
#: Samples that have more outcomes are not asked what they allow, which would take minutes and gigabytes. Of the outcomes of
#: designs with stages most are practically impossible, and left out.
MOST_OUTCOMES, MOST_BY_STAGES = 30_000, 50_000_000
#: Ranks per bin that column generation begins with.
START = 30
#: How far short of the programme's optimum the mean gain may stay.
ENOUGH = 1e-6


def bounds(counts: RankCounts, metric: Metric | str, level: float = 0.95) -> Pair:
    """Return the least and largest value of the metric over all rank distributions that the counts do not rule out.

    No smoothness, no prior. The bounds cover the cases (whose sum of unlike Bernoullis varies less than a binomial) and,
    where no rank is known, the population too. Where they are much wider than an estimate's interval, what closes the gap is
    the estimator's assumption. For many metrics of the same counts ask an estimate, ``dist.bounds(metric)``: it gives the
    same numbers and prepares the programme once.

    >>> import fullrank as fr
    >>> counts = fr.RankCounts.from_ranks([1] * 500 + [2] * 500, n_items=100_000, design="uni99")
    >>> low, high = fr.bounds(counts, "recall@10")
    >>> low < 0.01 and high > 0.3  # 99 negatives cannot tell rank 10 from rank 300 among 100,000
    True
    """
    metric = parse_metric(metric)
    if metric.whole_auc:
        raise ValueError("AUC needs no bounds: its estimate is unbiased for any sample; ask for its interval instead.")
    return CompatibleRanks(counts, level).bounds(metric)


def bounds_of(estimate: Estimate, metric: Metric, level: float = 0.95) -> Pair:
    """The bounds from an estimate's counts, the programme prepared once for all its metrics; for AUC, its interval."""
    if metric.whole_auc:
        return estimate.interval(metric, level)
    try:
        prepared = _PREPARED.setdefault(estimate, {})
    except TypeError:  # an estimate from outside need not have a hash
        prepared = {}
    if level not in prepared:
        prepared[level] = CompatibleRanks(estimate.counts, level)
    return prepared[level].bounds(metric)


class CompatibleRanks:
    """What all metrics of the same counts share: how likely each rank makes an outcome up to each cut, and what was seen."""

    def __init__(self, counts: RankCounts, level: float) -> None:
        self.counts, self.level = counts, check_interval(level, "cases")
        self.known, unknown = counts.known()
        self.silent = None  # cases of which nothing is known but that R is at least j + ahead
        if unknown is not None:
            self.silent, unknown = unknown.drawn_from()
        if unknown is not None and _says_nothing(unknown):
            self.silent, unknown = unknown if self.silent is None else self.silent + unknown, None
        self.unknown = unknown if unknown is None else problem.with_few_sizes(unknown)
        if self.unknown is not None:
            self._prepare(self.unknown)

    def _prepare(self, unknown: RankCounts) -> None:
        """Find the laws of the cases whose ranks are not known, and where along the order of outcomes these are."""
        design = unknown.design
        self.bins = np.unique(_bins(unknown), return_inverse=True)[1]
        tables = [problem.with_all_outcomes(unknown, table) for table in unknown.tables(self.bins)]
        self.grid = problem.coarse_cells(problem.cells_for(tables, design), tables, design)
        # places along the order of outcomes, dense where the head is decided; a function of the design and N alone
        N, finest = unknown.n_items, max(int(size) for size in unknown.sizes if size != ALL)
        cuts = np.geomspace((1 + (N - 1) * 0.5 / (finest + 1)) * 1.001, N * 0.9, CUTS)
        found = [
            self._reaches(unknown, table, cuts, 2 ** (unknown.column("pool")[self.bins == index] / 2.0**unknown.level))
            for index, table in enumerate(tables)
        ]
        # bins of pool sizes × cells × cuts: the least and the largest probability of an outcome up to the cut; and
        # bins × cells: ranks that a case whose rank is not known can have
        self.least, self.most, self.possible = (np.array(each) for each in zip(*found, strict=True))
        pool = np.array([table.n_items for table in tables])[self.bins]
        # the first cut that the outcome of every cell of the counts is up to
        self.places = np.searchsorted(cuts, _speaks_for(unknown.column("drawn"), unknown.column("hits"), pool))

    def _reaches(
        self, counts: RankCounts, table: PoolTable, cuts: FloatArray, pools: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Of one bin of pool sizes, which begin at ``pools``: how likely outcomes up to each cut are, cell by cell.

        The least rank of a cell among the most candidates is beaten least, the largest among the fewest most.
        """
        fewest = min(float(np.ceil(pools.min() * (1 - 1e-9))), table.n_items)
        most = max(float(np.floor(pools.max() * 2 ** (2.0**-counts.level))), table.n_items)
        up_to = _speaks_for(table.drawn, table.hits, table.n_items)[:, None] <= cuts
        share, sampled = problem.size_shares(counts, table), table.drawn != ALL
        ends, likely = [], np.zeros(len(self.grid), dtype=bool)
        for ranks, size in ((self.grid.lo, most), (np.minimum(self.grid.hi, int(fewest)), fewest)):
            law = counts.design.law(ranks.astype(np.float64), size, table.drawn, table.hits) * share
            if not sampled.all():  # the others: cases whose rank is known are not among these
                law[:, ~sampled] = 0.0
                law /= np.maximum(law.sum(1, keepdims=True), 1e-300)
            ends.append(np.clip(law @ up_to, 0.0, 1.0))
            likely |= law.sum(1) > 0
        # a rank that would have been seen to be what it is, is not theirs
        return np.minimum(*ends), np.maximum(*ends), likely & (self.grid.lo <= most + 0.5)

    def bounds(self, metric: Metric) -> Pair:
        """Return the least and largest value of the metric.

        With several targets per user the cases of one j differ in what they add by a factor only, which becomes their
        weight; those of each stratum of j have a programme of their own.
        """
        counts, low = self.counts, 0.0
        if self.known is not None:
            low = float(self.known.weight @ cell_gains(self.known, metric, counts.n_items)) / counts.users_weight
        high = low
        if self.silent is not None:
            worst, best = reach(self.silent, metric, counts.n_items)
            low, high = low + worst / counts.users_weight, high + best / counts.users_weight
        if self.unknown is None:
            return low, high
        exact = high
        unknown, group = self.unknown, self.unknown.group_of
        stratum, scale, least, most = _extreme_gains(unknown, self._ranks_in_cells(metric), metric)
        weight = unknown.weight * scale[group]
        strata = np.unique(stratum[scale > 0])
        for each in strata:
            here = (stratum[group] == each) & (weight > 0)
            squares = (unknown.square_weight * scale[group] ** 2)[here]
            programme = _Programme(self, weight, squares, here, (1 - self.level) / (CUTS * len(strata)))
            share = float(weight[here].sum()) / counts.users_weight
            low += share * programme.least(least[each])
            high -= share * programme.least(-most[each])
        if unknown.groups.ahead.any():  # R is at least j + ahead, whatever the sample says
            high = min(high, exact + reach(unknown, metric, counts.n_items)[1] / counts.users_weight)
        return min(low, high), high

    def _ranks_in_cells(self, metric: Metric) -> list[Grid]:
        """Grids of single ranks, one of each cell, between which a metric's gain has its extremes."""
        places = np.linspace(0, 1, 2 if metric.function is None else PLACES)
        inside = (np.round(self.grid.lo + each * (self.grid.hi - self.grid.lo)).astype(np.int64) for each in places)
        return [Grid(ranks, ranks) for ranks in inside]


class _Programme:
    """A linear programme over one P(R) per bin of pool sizes, with limits on the share of outcomes up to each cut."""

    def __init__(
        self, ranks: CompatibleRanks, weight: FloatArray, squares: FloatArray, here: BoolArray, alpha: float
    ) -> None:
        from scipy.special import betaincinv

        w = weight[here]
        total = float(w.sum())
        # Clopper and Pearson's limits of the share of so many cases, which miss it with a probability of at most alpha
        cases = total**2 / float(squares.sum())
        k = np.cumsum(np.bincount(ranks.places[here], w, CUTS + 1))[:CUTS] / total * cases
        self.low = np.where(k > 0, betaincinv(np.maximum(k, 1e-12), cases - k + 1, alpha / 2), 0.0)
        self.high = np.where(k < cases, betaincinv(k + 1, np.maximum(cases - k, 1e-12), 1 - alpha / 2), 1.0)
        shares = np.bincount(ranks.bins[here], w, len(ranks.least)) / total
        kept = shares > 0
        self.shares, self.possible = shares[kept], ranks.possible[kept]
        # twice cuts × (bins × cells), times the share of the bin: at least so many are up to a cut, and not more than these
        least, most = (
            (shares[kept, None, None] * each[kept]).reshape(-1, CUTS).T for each in (ranks.least, ranks.most)
        )
        self.rows = np.concatenate([least, -most])

    def least(self, gain: FloatArray) -> float:
        """Return the least mean gain of a case, by column generation.

        A programme over a few ranks (some along the way, and where the gain ends) prices all others; those that would
        lower it join until none does by more than ``ENOUGH``. The prices bound it from below: that bound is returned.
        """
        from scipy.optimize import linprog

        if not gain.any():
            return 0.0
        cost = np.outer(self.shares, gain)
        active = np.zeros(self.possible.shape, dtype=bool)
        active[:, :: max(len(gain) // START, 1)] = True
        ends = np.flatnonzero(np.diff(gain != 0))
        active[:, np.concatenate([ends, ends + 1])] = True
        while True:
            kept = np.flatnonzero((active & self.possible).ravel())
            found = linprog(
                cost.ravel()[kept],
                A_ub=self.rows[:, kept],
                b_ub=np.concatenate([self.high, -self.low]) + 1e-9,
                A_eq=(kept // len(gain) == np.arange(len(cost))[:, None]).astype(np.float64),
                b_eq=np.ones(len(cost)),
                method="highs-ds",
                options={"presolve": False},  # of a small dense programme it takes longer than the dual simplex
            )
            if not found.success:
                if active.all():  # the counts are unlikely under any ranks: nothing is ruled out
                    return float(gain.min())
                active = np.ones_like(active)
                continue
            priced = (found.ineqlin.marginals @ self.rows).reshape(cost.shape)
            rest = cost - priced - found.eqlin.marginals[:, None]
            rest[~self.possible] = np.inf
            missing = float(np.minimum(rest.min(1), 0.0).sum())
            wall = np.pad(rest, ((0, 0), (1, 1)), constant_values=np.inf)
            more = (rest < -ENOUGH / (2 * len(rest))) & (rest <= wall[:, :-2]) & (rest <= wall[:, 2:]) & ~active
            if missing > -ENOUGH or not more.any():
                return max(float(found.fun) + missing, float(gain.min()))
            active |= more


def _bins(counts: RankCounts) -> IntArray:
    """Return the bin of each cell of the counts: of pool sizes, or of sample sizes if many (they go with (j, T))."""
    if not counts.design.plain or len(counts.sizes) <= problem.MANY_SIZES:
        return problem.pool_bins(counts, most=MOST_POOLS)
    sizes, which = np.unique(counts.column("drawn"), return_inverse=True)
    weight = np.bincount(which.ravel(), counts.weight, len(sizes))
    place = (np.cumsum(weight) - weight / 2) / weight.sum()
    return np.asarray((place * MOST_POOLS).astype(np.int64)[which.ravel()])


def _extreme_gains(
    counts: RankCounts, grids: list[Grid], metric: Metric
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """The stratum of every (j, T) and its largest gain; per stratum the least and largest gain of each cell over that.

    ``grids`` have single ranks, each one of every cell. Of the metrics here, those of one j have the same shape over R′ for
    every T, and one that is cut off before j has none.
    """
    order, ahead = counts.groups.order, counts.groups.ahead
    edges = LEAD_STRATA if ahead.any() else STRATA
    stratum = np.searchsorted(edges, order + ahead, side="right")
    scale = np.zeros(len(order))
    least = np.full((len(edges) + 1, len(grids[0])), np.inf)
    most = -least
    asked = (grid.gains(metric, counts.n_items, counts.groups, np.zeros_like(order)) for grid in grids)
    for found in zip(*asked, strict=True):
        which = found[0][1]
        shape = np.zeros((len(grids), len(which), len(grids[0])))
        for place, (_, _, gain) in enumerate(found):
            shape[place, :, : gain.shape[1]] = gain
        scale[which] = np.abs(shape).max((0, 2), initial=0.0)
        some, row = scale[which] > 0, stratum[which[0]]
        if not some.any():
            continue
        shape = shape[:, some] / scale[which][some, None]
        least[row], most[row] = np.minimum(least[row], shape.min((0, 1))), np.maximum(most[row], shape.max((0, 1)))
    return stratum, scale, least, most


def _says_nothing(counts: RankCounts) -> bool:
    """Whether outcomes are too many to go through, or (behind a guide, before the design's end) decided the sizes."""
    design, drawn, N = counts.design, counts.column("drawn"), round(counts.n_items)
    if design.plain:
        return int(drawn.max()) > MOST_OUTCOMES
    many = sum(size or counts.n_items for size in design.stages(N)) > MOST_BY_STAGES
    if many or not design.compares:
        return many
    course, *_ = design.courses(N)
    return bool(((counts.column("hits") < course.stop_at) & (drawn > 0) & (drawn != course.stages[-1])).any())


def _speaks_for(drawn: IntArray, hits: IntArray, n_items: float | FloatArray) -> FloatArray:
    """Return the rank an outcome speaks for, 1 + (N−1)(x + ½)/(m + 1): an order of outcomes that no data decide."""
    size = np.where(drawn == ALL, n_items - 1, drawn)
    return np.asarray(1 + (n_items - 1) * (hits + 0.5) / (size + 1))


#: Programmes of estimates that still exist, by level.
_PREPARED: WeakKeyDictionary[Estimate, dict[float, CompatibleRanks]] = WeakKeyDictionary()
