"""Ranks 1..N in a few thousand cells: nothing is lost, and nothing is N long.

P(outcome | R) is smooth in R on the scale of its own standard error √(R(N−R)/m), and rank distributions are smooth in
log R. So every rank to 1000 is its own cell, and beyond that a cell is at most 0.3 standard errors and 2 % of R
wide. Within a cell mass is spread evenly and the law is averaged (three Gauss-Legendre ranks).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fullrank._types import FloatArray, IntArray
from fullrank.metrics import Metric, rank_offset
from fullrank.ranks.counts import Groups, PoolTable
from fullrank.ranks.design import ALL, Design

HEAD = 1000  # ranks kept one by one
FINENESS = 0.3  # cell width in standard errors of the rank: errors of 1e-6 in metrics@100 (tests)
RATIO = 0.02  # cell width as a share of the rank
MOST_CELLS = 6000
MOST_KEPT = 2**21  # gains that are kept for the next question about the same metric


@dataclass(frozen=True)
class Grid:
    """Disjoint cells of ranks lo..hi (both included), in increasing order."""

    lo: IntArray
    hi: IntArray
    #: The gains last asked for: a metric is commonly asked for many times in a row
    _kept: dict[tuple[Metric, str, float], Any] = field(default_factory=dict, repr=False)

    @classmethod
    def dense(cls, n_items: int) -> "Grid":
        """Return one cell per rank."""
        ranks = np.arange(1, int(n_items) + 1, dtype=np.int64)
        return cls(ranks, ranks)

    @classmethod
    def ending_at(cls, hi: IntArray) -> "Grid":
        """Return cells that follow one another from rank 1 on and end at these ranks."""
        return cls(np.append(1, hi[:-1] + 1), hi)

    @classmethod
    def logarithmic(cls, n_items: int, head: int, number: int) -> "Grid":
        """Return one cell per rank to ``head``, then cells that end at so many equal steps of log R."""
        head = min(head, n_items)
        ends = np.concatenate([np.arange(1, head + 1), np.geomspace(head, n_items, number).round()])
        return cls.ending_at(np.unique(ends.astype(np.int64)))

    @classmethod
    def for_tables(cls, tables: list[PoolTable], replace: bool) -> "Grid":
        """Return the grid for these outcomes: fine where some observed outcome can tell neighbouring ranks apart."""
        N = int(np.ceil(max(table.n_items for table in tables) - 1e-6))  # a mean of equal pools may be off by rounding
        if N <= 2 * HEAD:
            return cls.dense(N)
        # places to weigh the width at: dense in log R, and in log(N − R) towards the other end
        half = max(N / 2, HEAD + 1)
        probe = np.unique(np.concatenate([np.geomspace(HEAD, half, 1024), N - np.geomspace(half, 0.5, 1024)]))
        step = RATIO * probe
        for table in tables:
            pool = table.n_items
            for m in np.unique(table.drawn[table.drawn != ALL]):
                x = table.hits[table.drawn == m]
                # outcomes of this size speak about ranks near xN/m: beyond the largest their law is flat at zero
                reach = (x.max() + 8 * np.sqrt(x.max() + 4.0) + 4) / m * pool
                thin = 1 / m if replace else max(1 / m - 1 / pool, 0.0)
                width = FINENESS * np.sqrt(probe * np.maximum(pool - probe, 0.0) * thin)
                step = np.where(probe <= reach, np.minimum(step, np.maximum(width, 1.0)), step)
        # edges where the integral of 1/step passes whole numbers
        position = np.concatenate([[0.0], np.cumsum(np.diff(probe) * 0.5 * (1 / step[1:] + 1 / step[:-1]))])
        cells = int(min(np.ceil(position[-1]), MOST_CELLS, N - HEAD))
        edges = np.interp(np.linspace(0, position[-1], cells + 1), position, probe)
        # the last ranks one by one too: with few items below the target, the hypergeometric law knows whole ranks only;
        # and a rank that is known keeps a cell of its own
        known = np.concatenate([table.hits[table.drawn == ALL] for table in tables])
        single = np.concatenate([np.arange(1, HEAD + 1), np.arange(N - 32, N + 1), known + 1, np.maximum(known, 1)])
        return cls.ending_at(np.union1d(single, np.round(edges[1:]).astype(np.int64)))

    def __len__(self) -> int:
        return len(self.lo)

    @cached_property
    def width(self) -> FloatArray:
        """Number of ranks in each cell."""
        return (self.hi - self.lo + 1).astype(np.float64)

    @cached_property
    def nodes(self) -> tuple[FloatArray, FloatArray, IntArray]:
        """Ranks to evaluate at, their weights (adding to one in each cell), and where each cell's nodes start."""
        width = self.hi - self.lo + 1
        few = width <= 5
        count = np.where(few, width, 3)
        start = np.concatenate([[0], np.cumsum(count)[:-1]])
        cell = np.repeat(np.arange(len(self)), count)
        place = np.arange(len(cell)) - start[cell]
        # Gauss-Legendre nodes; the outer weight makes mean and variance those of the cell's whole ranks, (w² − 1)/12
        middle = 0.5 * (self.lo + self.hi)
        reach = np.sqrt(3 / 5) * width / 2
        outer = 5 / 18 * (1 - 1 / width.astype(np.float64) ** 2)
        ranks = np.where(few[cell], self.lo[cell] + place, middle[cell] + (place - 1) * reach[cell])
        inner = np.where(place == 1, 1 - 2 * outer[cell], outer[cell])
        return ranks.astype(np.float64), np.where(few[cell], 1.0 / width[cell], inner), start.astype(np.int64)

    def moved(self, mass: FloatArray, to: "Grid") -> FloatArray:
        """Return what a mass on these cells, its negative part left out, is on those of another grid."""
        ends, wanted = (np.append(0.0, each.hi) for each in (self, to))
        return np.diff(np.interp(wanted, ends, np.append(0.0, np.cumsum(np.maximum(mass, 0.0)))))

    def law(self, design: Design, n_items: float, drawn: IntArray, hits: IntArray) -> FloatArray:
        """Return P(outcome | cell), the law averaged over the ranks of each cell that are not past ``n_items``."""
        ranks, weights, start = self.nodes
        if len(ranks) == len(self):
            return design.law(ranks, n_items, drawn, hits)
        out = np.empty((len(self), len(drawn)))
        chunk = max(1, 2**18 // len(ranks))  # what is added up next is still in the cache
        for first in range(0, len(drawn), chunk):
            part = slice(first, first + chunk)
            law = design.law(ranks, n_items, drawn[part], hits[part])
            law *= weights[:, None]
            out[:, part] = np.add.reduceat(law, start, axis=0)
        return out

    def mean_gain(
        self, metric: Metric, n_items: float, order: int = 1, targets: int | IntArray = 1, ahead: int = 0
    ) -> FloatArray:
        """The metric's gain averaged over the ranks of each cell, for the cells before the cut-off (the rest is zero).

        One row for each of several ``targets``; all have the same shape but for a factor. Where ``ahead`` candidates that
        were compared one by one beat the target, cells are of ranks among the others.
        """
        T = np.asarray(targets)
        cut = int(self.hi[-1]) if metric.k is None else metric.k - rank_offset(order, ahead)
        last = int(np.searchsorted(self.lo, cut, side="right"))
        lo, top = self.lo[:last], np.minimum(self.hi[:last], cut)
        out = np.zeros((*T.shape, last))
        single = top == lo
        out[..., single] = metric.gain(lo[single], n_items, order, T[..., None], ahead) / self.width[:last][single]
        wide = np.flatnonzero(~single)
        if len(wide):
            nodes, weights = _GAUSS
            count = (top - lo + 1)[wide]
            ranks = lo[wide, None] - 0.5 + count[:, None] * nodes
            if metric.function is not None:  # a user's function may know whole ranks only
                ranks = np.clip(np.round(ranks), lo[wide, None], top[wide, None])
            ranks = np.minimum(ranks, np.where(top < cut, top + 0.5, top)[wide, None])  # none past the cut-off
            gain = metric.gain(ranks, n_items, order, T[..., None, None], ahead)
            out[..., wide] = gain @ weights * count / self.width[wide]
        return out

    def gains(
        self, metric: Metric, n_items: float, groups: Groups, rows: IntArray
    ) -> Iterable[tuple[int, IntArray, FloatArray]]:
        """:meth:`mean_gain` of many (j, T) by j and row: the row, which they are, and a line of gains for each."""
        # with several targets, metrics that are equal for one part by their word
        asked, cases = (metric, metric.word, n_items), (*groups[:3], rows)
        kept = self._kept.get(asked)
        if kept is None or any(one is not other for one, other in zip(kept[0], cases, strict=True)):
            found = self._gains(metric, n_items, groups, rows)
            last = len(self) if metric.k is None else int(np.searchsorted(self.lo, metric.k, side="right"))
            if len(rows) * last > MOST_KEPT:
                return found
            self._kept.clear()
            kept = self._kept[asked] = cases, list(found)
        return kept[1]

    def _gains(
        self, metric: Metric, n_items: float, groups: Groups, rows: IntArray
    ) -> Iterator[tuple[int, IntArray, FloatArray]]:
        order, targets, ahead, _ = groups
        sorting = np.lexsort((rows, order, ahead))
        changes = [np.diff(each[sorting], prepend=-1) for each in (order, rows, ahead)]
        starts = np.flatnonzero(np.any(changes, axis=0))
        for which in np.split(sorting, starts[1:]):
            j, a = int(order[which[0]]), int(ahead[which[0]])
            if metric.k is not None and j + a > metric.k:  # no rank is left before the cut-off
                continue
            few = max(1, 2**20 // len(self))
            for first in range(0, len(which), few):
                part = which[first : first + few]
                yield int(rows[part[0]]), part, self.mean_gain(metric, n_items, j, targets[part], a)

    def pooled_gains(
        self, metric: Metric, n_items: float, groups: Groups, rows: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Σ weight · gain and Σ weight · gain² over the (j, T) of each row (a stratum that shares its law)."""
        first, second = np.zeros((2, int(rows.max(initial=0)) + 1, len(self)))
        for row, which, gain in self.gains(metric, n_items, groups, rows):
            first[row, : gain.shape[1]] += groups.weight[which] @ gain
            second[row, : gain.shape[1]] += groups.weight[which] @ gain**2
        return first, second


_nodes, _weights = np.polynomial.legendre.leggauss(8)
_GAUSS = ((_nodes + 1) / 2, _weights / 2)
