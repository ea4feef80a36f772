"""Which cases are worth going on with behind a guide: those that hold most of what an estimate leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fullrank._types import FloatArray, IntArray
from fullrank.estimators import RankDistribution
from fullrank.metrics import Metric
from fullrank.observing.observation import Observation

__all__ = ["most_for_least", "open_shares"]

#: What cases of one gain and outcome have in common.
_KEY = ("order", "targets", "ahead", "recent", "drawn", "hits")


def open_shares(
    dist: RankDistribution, seen: Observation, cases: IntArray, metrics: Sequence[Metric]
) -> dict[Metric, FloatArray]:
    """The share that each of the cases has of the variance which an estimate leaves open, metric by metric."""
    posterior, counts = dist.posterior, dist.fitted
    if posterior is None or counts is None:
        raise ValueError("the estimate has no posterior: it does not say what each case leaves open.")
    asked = np.stack([getattr(seen, name)[cases] for name in _KEY], axis=1)
    asked[:, 3] = np.minimum(asked[:, 3], asked[:, 2])  # as counts have it
    known = np.stack([counts.column(name) for name in _KEY], axis=1)
    which = np.unique(np.concatenate([known, asked]), axis=0, return_inverse=True)[1].ravel()
    own, of_case = np.split(which, [len(known)])
    weight = np.maximum(np.bincount(own, counts.weight, which.max() + 1), 1e-300)
    out = {}
    for metric in metrics:
        added = counts.weight * posterior.open_variance(metric, dist.counts.n_items)
        each = (np.bincount(own, added, len(weight)) / weight)[of_case]  # the mean where rests differ in size
        out[metric] = each / max(float(each.sum()), 1e-300)
    return out


def most_for_least(shares: Mapping[Metric, FloatArray], wanted: Mapping[Metric, float], cost: IntArray) -> IntArray:
    """The places of the cases that together hold what is wanted of every metric's shares, taken by share per cost.

    >>> from fullrank import Recall
    >>> most_for_least({Recall @ 10: np.array([0.2, 0.5, 0.3])}, {Recall @ 10: 0.7}, np.array([1, 1, 9])).tolist()
    [1, 0]
    """
    worth = np.max([wanted[metric] * shares[metric] for metric in wanted], axis=0)
    order = np.argsort(-worth / cost, kind="stable")
    number = max(int(np.searchsorted(np.cumsum(shares[metric][order]), wanted[metric] - 1e-9)) for metric in wanted)
    return order[: number + 1]
