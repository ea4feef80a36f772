"""Mapping functions: SHR@k ≈ HR@f(k), the sampled hit-ratio curve laid onto the full one (li20)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fullrank._checks import check_choice
from fullrank._types import FloatArray
from fullrank.estimators.estimate import PointEstimate, RankDistribution, empirical
from fullrank.estimators.problem import is_exhaustive, one_size
from fullrank.metrics import Metric
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.theory import beta_mapping


@dataclass(frozen=True)
class Mapping:
    """Recall@f(k) ≈ sampled Recall@k, for one of li20's f.

    ``"linear"`` eq. 9 · ``"bound"`` eq. 13 · ``"beta"`` with ``a``: the recurrence of eq. 15-17 under ranks that follow
    Beta(a, 1); ``a=None`` is Beta@P, a fitted to the sample by eq. 19. Recall and Precision only: at a K between two f(k)
    the curve is joined linearly. N is the mean number of candidates. Linear and bound are exact with every candidate
    sampled, Beta is not.

    >>> Mapping("beta", a=1.0).f([1, 100], negatives=99, n_items=10_000).round(6)
    array([  100.99, 10000.  ])
    """

    kind: Literal["linear", "bound", "beta"] = "beta"
    a: float | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("linear", "bound", "beta"))
        if self.a is not None and not self.a > 0:
            raise ValueError(f"`a` must be positive, or None to fit it to the sample, got {self.a!r}.")

    def f(self, k: ArrayLike, negatives: int, n_items: float) -> FloatArray:
        """Return the global cut-off f(k) that the sampled cut-off k = 1..negatives+1 stands for."""
        n, N = negatives + 1, float(n_items)
        k = np.asarray(k, dtype=np.float64)
        if np.any((k < 1) | (k > n)):
            raise ValueError(f"`k` must be between 1 and negatives + 1 = {n}, got {k[(k < 1) | (k > n)].flat[0]:g}.")
        if self.kind == "linear":
            return np.asarray((k - 1) / (n - 1) * (N - 1) + 1)
        if self.kind == "bound":
            return np.floor((k - 0.5) * (N - 1) / (n - 1) + 0.5 + 1e-9)
        if self.a is None:
            raise ValueError("`a` is None: Beta@P fits it to a sample; use .fit(counts), or give `a`.")
        return np.asarray(beta_mapping(self.a, negatives, N)[k.astype(np.int64) - 1])

    def fitted(self, counts: RankCounts | Iterable[RankCounts], start: float = 0.5, most: int = 50) -> "Mapping":
        """Beta@P: the same mapping with ``a`` by eq. 19, from one model's counts or shared by several (li20 §4.2)."""
        several = [counts] if isinstance(counts, RankCounts) else list(counts)
        a = start
        for _ in range(most):
            total = logs = 0.0
            for each in several:
                ranks, weight = each.sampled_ranks()
                f = Mapping("beta", a).f(ranks, one_size(each, "Mapping"), each.n_items)
                total += float(weight.sum())
                logs += float(weight @ np.log((f - 1) / (each.n_items - 1)))
            if logs >= 0:
                raise ValueError("every target came last in its sample: no Beta(a, 1) fits; use Mapping('bound').")
            before, a = a, -total / logs
            if abs(a - before) < 1e-10 * a:
                break
        return Mapping("beta", a)

    def fit(self, counts: RankCounts) -> PointEstimate | RankDistribution:
        """Lay the sampled hit-ratio curve onto the full one: it answers for Recall and Precision at any K."""
        if is_exhaustive(counts):
            return empirical(self, counts)
        m = one_size(counts, "Mapping")
        if counts.several_targets:
            raise ValueError("`Mapping` is defined for one target per user; use LogSpline or MLE.")
        mapping = self.fitted(counts) if self.kind == "beta" and self.a is None else self
        ranks, weight = counts.sampled_ranks()
        N, recall = counts.n_items, np.cumsum(np.bincount(ranks - 1, weight / weight.sum(), m + 1))
        at = mapping.f(np.arange(1, m + 2), m, N)

        def value(metric: Metric) -> float:
            if metric.name not in {"recall", "precision"} or metric.function is not None:
                raise ValueError(f"`Mapping` estimates recall and precision only, not {metric}; use LogSpline or MLE.")
            K = N if metric.k is None else min(float(metric.k), N)
            found = float(np.interp(K, np.append(0.0, at), np.append(0.0, recall)))  # from 0 at rank 0 up to f(1)
            return found if metric.name == "recall" else found / (N if metric.k is None else metric.k)

        return PointEstimate(counts, mapping, value)
