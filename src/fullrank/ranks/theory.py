"""What uncorrected sampled metrics are expected to be, given the true ranks (kr20 §4.3-4.4, li20 §2).

>>> expected_naive("recall@10", ranks=[100], n_items=10_000, design="uni99").round(4)
array([1.])
>>> expected_naive("ap", ranks=[1, 10_000], n_items=10_000, design="uni99")
array([1.  , 0.01])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fullrank._types import FloatArray
from fullrank.metrics import Metric, Recall, parse_metric
from fullrank.ranks.design import Design, Sample, parse_design

__all__ = ["expected_naive", "hoeffding", "sampled_recall"]


def expected_naive(metric: Metric | str, ranks: ArrayLike, n_items: int, design: Design | str) -> FloatArray:
    """E[M(r) | R], what the uncorrected metric shows on average for a case of true rank R (kr20 eq. 16).

    In closed form with replacement: AUC is unbiased (eq. 17), Recall and Precision are a binomial CDF (eq. 18), uncut AP is
    (1 − (1−θ)^{m+1}) / (θ(m+1)) (eq. 19). With m = 1 every metric is affine in R (kr20 §4.4.4).
    """
    metric, design = parse_metric(metric), parse_design(design)
    R = np.atleast_1d(np.asarray(ranks, dtype=np.float64))
    if design.exhaustive:
        return metric.gain(R, n_items)
    if not design.plain:
        raise ValueError(
            f"'{design}' has no uncorrected metric: ranks among different numbers of negatives do not compare."
        )
    (m,) = design.stages(n_items)
    θ = (R - 1) / max(n_items - 1, 1)
    if metric.whole_auc:
        return 1 - θ
    # a type question: these closed forms are the binomial's, and a design that inherits from Sample may have another law
    if type(design) is Sample and design.replace and metric.function is None:
        if metric.name in {"recall", "precision"} and metric.k is not None:
            from scipy.special import bdtr

            share = np.asarray(bdtr(min(metric.k - 1, m), m, θ))
            return share if metric.name == "recall" else share / metric.k
        if metric.name == "ap" and metric.uncut:
            safe = np.where(θ > 0, θ, 1.0)
            return np.where(θ > 0, -np.expm1((m + 1) * np.log1p(-np.minimum(safe, 1 - 1e-16))) / (safe * (m + 1)), 1.0)
    drawn, hits = design.outcomes(n_items)
    return design.law(R, n_items, drawn, hits) @ metric.gain(hits + 1, m + 1)


def sampled_recall(k: int, ranks: ArrayLike, n_items: int, design: Design | str) -> tuple[float, float]:
    """Mean and variance of SHR@k over samples, for these cases (li20 eq. 4-5): mean p_u and Σ p_u(1−p_u)/M²."""
    p = expected_naive(Recall @ k, ranks, n_items, design)
    return float(p.mean()), float((p * (1 - p)).sum() / len(p) ** 2)


def hoeffding(t: float, cases: int) -> float:
    """Bound on P(|SHR@k − E SHR@k| ≥ t) over samples of the negatives: 2 exp(−2Mt²) (li20 §2.4), at most 1.

    >>> round(hoeffding(0.01, 30_000), 4)
    0.005
    """
    return min(1.0, 2.0 * float(np.exp(-2.0 * cases * t**2)))
