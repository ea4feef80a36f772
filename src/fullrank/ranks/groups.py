"""What estimators make of counts: outcomes by pool and stratum, and cases that gain alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fullrank._types import Array, FloatArray, IntArray
from fullrank.ranks.cells import UNKNOWN, pool_key, sum_by, unique_rows

if TYPE_CHECKING:
    from fullrank.ranks.counts import RankCounts

#: Laws of R′ are estimated for at most this many strata of (j, T).
MAX_STRATA = 64


@dataclass(frozen=True)
class PoolTable:
    """The counts of one pool-size bin, as estimators want them: outcomes and a weight per (j, T) stratum and outcome."""

    n_items: float
    drawn: IntArray
    hits: IntArray
    weight: FloatArray


class Groups(NamedTuple):
    """Cases that gain alike: the distinct (j, T), how many compared candidates lead there, and the cases' weight."""

    order: IntArray
    targets: IntArray
    ahead: IntArray
    weight: FloatArray


#: The first ``recent`` of each bin of cases: first where none came early, which says that a guide may not know the case
#: (or that what was compared has no order), then where some did. Where only early ones did, more of them leave more behind:
#: from each of ``MANY_EARLY`` on there is a bin. The last bin is that of the unknown.
NONE_EARLY, SOME_EARLY = np.array([0, 1, 2, 3, 6, 15, 50]), np.array([0, 1, 2, 3, 6])
MANY_EARLY = np.array([4, 7])
LEAD_BINS = len(NONE_EARLY) + len(SOME_EARLY) + len(MANY_EARLY) + 1


def lead_bins(ahead: IntArray, recent: IntArray) -> IntArray:
    """Return the bin, in 0..14, of cases with so many ahead, of which so many came late."""
    none = np.searchsorted(NONE_EARLY, recent, side="right") - 1
    some = len(NONE_EARLY) + np.searchsorted(SOME_EARLY, recent, side="right") - 1
    many = np.searchsorted(MANY_EARLY, ahead, side="right")
    some = np.where((recent == 0) & (many > 0), len(NONE_EARLY) + len(SOME_EARLY) + many - 1, some)
    return np.where(recent == UNKNOWN, LEAD_BINS - 1, np.where(ahead == recent, none, some))


def strata_of(order: IntArray, targets: IntArray) -> IntArray:
    """Return the stratum of each (j, T): one each up to 64, else those near to each other together.

    They are put together by (⌊log2 j · 2^l⌋, ⌊log2 T · 2^l⌋) at the finest level l that leaves at most 64: neighbouring
    (j, T) share a law of R′, and each keeps its own gain.
    """
    if len(order) <= MAX_STRATA:
        return np.arange(len(order))
    pairs = np.stack([pool_key(order), pool_key(targets)], axis=1)
    while len(unique_rows(pairs)[0]) > MAX_STRATA:
        pairs = pairs >> 1
    return unique_rows(pairs)[1]


def tables_of(counts: RankCounts, bins: IntArray, rows: IntArray) -> list[PoolTable]:
    """Outcome tables of counts, one per bin of pool sizes; ``bins`` of every cell, ``rows`` of every group."""
    stratum, seen = rows[counts.group_of], counts.outcomes
    out = []
    for each in np.unique(bins):
        here = bins == each
        outcomes, column = unique_rows(seen[here])
        weight = np.zeros((int(rows.max()) + 1, len(outcomes)))
        np.add.at(weight, (stratum[here], column), counts.weight[here])
        N = counts.pool_weight[here].sum() / counts.weight[here].sum()
        out.append(PoolTable(float(N), outcomes[:, 0], outcomes[:, 1], weight))
    return out


def with_like_samples(counts: RankCounts, width: float) -> RankCounts:
    """Return the counts at the mean number of candidates, samples of a like share of the candidates made equal.

    What hits say of a rank that is small beside N depends on the share drawn, m/(N − 1). Every case keeps its hits and, but
    for ``width`` of its logarithm, its share.
    """
    m = counts.column("drawn")
    share = m / np.maximum(counts.pool_weight / counts.weight - 1, 1.0)
    mean = _mean_within(np.round(np.log(np.maximum(share, 1e-12)) / width), share, counts.weight)
    drawn = np.where(m > 0, np.maximum(np.round(mean * (counts.n_items - 1)), 1), m)
    return counts.with_keys(drawn=drawn, hits=np.minimum(counts.column("hits"), drawn)).with_mean_pool()


def with_like_hits(counts: RankCounts, width: float) -> RankCounts:
    """Return the counts with numbers of hits put together that are within ``width`` of their logarithm.

    Many hits say where a rank is only to 1/√hits of it. Ranks that are known keep their hits.
    """
    hits, drawn = counts.column("hits"), counts.column("drawn")
    bins = np.round(np.log(np.maximum(hits, 1)) / width)
    few = np.exp(bins * width) * width < 1  # each number is a bin
    mean = np.round(_mean_within(np.where(few, hits, hits.max(initial=0) + 1 + bins), hits, counts.weight))
    return counts.with_keys(hits=np.where(drawn > 0, np.minimum(mean, drawn), hits))


def _mean_within(bins: Array, values: Array, weight: FloatArray) -> FloatArray:
    """Return the weighted mean of the values in the bin of each."""
    which = np.unique(bins, return_inverse=True)[1].ravel()
    return (sum_by(which, weight * values) / sum_by(which, weight))[which]
