"""What sampled metrics are expected to be, given the true ranks, and what follows (kr20 §4.3-4.4, li20 §2-3, li23 §3).

>>> expected_naive("recall@10", ranks=[100], n_items=10_000, design="uni99").round(4)
array([1.])
>>> expected_naive("ap", ranks=[1, 10_000], n_items=10_000, design="uni99")
array([1.  , 0.01])
"""

import numpy as np
from numpy.typing import ArrayLike

from fullrank._checks import check_number, check_whole
from fullrank._types import FloatArray, IntArray
from fullrank.metrics import Metric, Recall, parse_metric
from fullrank.ranks.checks import true_ranks
from fullrank.ranks.design import Design, Sample, parse_design
from fullrank.ranks.laws import log_gamma


def expected_naive(metric: Metric | str, ranks: ArrayLike, n_items: int, design: Design | str) -> FloatArray:
    """E[M(r) | R], what the uncorrected metric shows on average for a case of true rank R (kr20 eq. 16).

    In closed form with replacement: AUC is unbiased (eq. 17), Recall and Precision are a binomial CDF (eq. 18), uncut AP is
    (1 − (1−θ)^{m+1}) / (θ(m+1)) (eq. 19). With m = 1 every metric is affine in R (kr20 §4.4.4).
    """
    metric, design = parse_metric(metric), parse_design(design)
    R = true_ranks(ranks, n_items).astype(np.float64)
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
    check_number("t", t)
    check_whole("cases", cases, 1)
    return min(1.0, 2.0 * float(np.exp(-2.0 * cases * t**2)))


def dominates(one: ArrayLike, two: ArrayLike) -> bool:
    """Return whether the hit-ratio curve of the ranks ``one`` is nowhere below that of ``two``: HR₁@K ≥ HR₂@K at every K.

    Then no sample size and no k can turn their order round in expectation: E SHR₁@k ≥ E SHR₂@k (the sampling theorem, li20
    Theorem 2.1), because P(r ≤ k | R) falls with R. Curves that cross carry no such promise.

    >>> dominates([1, 5, 9], [2, 5, 30]), dominates([1, 30], [2, 3])
    (True, False)
    """
    first, second = np.sort(true_ranks(one, name="one")), np.sort(true_ranks(two, name="two"))
    at = np.union1d(first, second)
    higher, lower = (np.searchsorted(each, at, side="right") / len(each) for each in (first, second))
    return bool((higher >= lower - 1e-12).all())


def optimal_mapping(k: ArrayLike, ranks: ArrayLike, n_items: int, design: Design | str) -> IntArray:
    """The cut-off f in 0..N whose hit ratio is nearest to E SHR@k, for every ``k``: argmin |HR@f − E SHR@k| (li20 §2.4).

    What any mapping of li20 can at best reach for these ranks; of several the smallest. It needs the true ranks, so it is a
    yardstick and no estimator.

    >>> optimal_mapping([1, 10], ranks=[1, 40, 40, 900], n_items=1000, design="uni99")
    array([ 1, 40])
    """
    R = true_ranks(ranks, n_items)
    # HR@f changes only at ranks that occur: the first cut-off with a given hit ratio is 0 or one of these
    cuts = np.append(0, np.unique(R))
    recall = np.searchsorted(np.sort(R), cuts, side="right") / len(R)
    wanted = [
        expected_naive(Recall @ each, R, n_items, design).mean() for each in np.atleast_1d(np.asarray(k)).tolist()
    ]
    return np.asarray(cuts[[int(np.abs(recall - each).argmin()) for each in wanted]])


def mapping_error(k: int, f: float, ranks: ArrayLike, n_items: int, design: Design | str) -> tuple[float, float]:
    """The two parts of E SHR@k − HR@f (li20 eq. 11), whose sum it is: what is lost up to f, and what is gained beyond it.

    Lost, negative: targets at ranks R ≤ f that the sample does not show among the first k. Gained: targets beyond f that it
    does.

    >>> lost, gained = mapping_error(1, 10, ranks=[1, 5, 300], n_items=1000, design="uni99")
    >>> round(lost, 3), round(gained, 3)
    (-0.109, 0.0)
    """
    check_number("f", f)
    R = true_ranks(ranks, n_items)
    p = expected_naive(Recall @ k, R, n_items, design)
    inside = f >= R
    return -float((1 - p)[inside].sum() / len(R)), float(p[~inside].sum() / len(R))


def mapping_bounds(k: ArrayLike, negatives: int, n_items: int, t: float) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest f(k) beyond which a user's sampled rank strays by t from its mean (li20 eq. 10, 12).

    A single user's rank is within t of 1 + mθ but for a probability of 2 exp(−2t²/m), which is ``hoeffding(t / m, m)`` for m
    ``negatives``. Up to f^l = (k − t)(N − 1)/m + 1 nearly everybody is then among the first k of the sample, beyond
    f^u = (k + t − 1)(N − 1)/m nearly nobody. Their mean does not depend on t: the mapping "bound" (eq. 13).

    >>> low, high = mapping_bounds(10, negatives=99, n_items=3706, t=5.0)
    >>> round(float(low), 1), round(float(high), 1)
    (188.1, 523.9)
    """
    check_number("t", t)
    check_whole("negatives", negatives, 1)
    check_whole("n_items", n_items, 1)
    each, step = np.asarray(k, dtype=np.float64), (n_items - 1) / negatives
    return (each - t) * step + 1, (each + t - 1) * step


def beta_mapping(a: float, negatives: int, n_items: float) -> FloatArray:
    """f(1; a), …, f(n; a): the recurrence for ranks that follow Beta(a, 1) (li20 eq. 15-17), summed, in logarithms.

    [f(k) − 1]^a / (N − 1)^a = Σ_{i<k} a C(n−1, i) B(a + i, n − i), n = negatives + 1. The sum over all i is 1, so that every
    f ends at the last item, f(n; a) = N (Lemma 3.1). It rises with ``a`` at every k, which li20 saw and did not prove.

    >>> [float(beta_mapping(a, negatives=99, n_items=3706)[-1].round(6)) for a in (0.2, 0.5, 1.0, 2.0)]
    [3706.0, 3706.0, 3706.0, 3706.0]
    """
    check_number("a", a, above=0)
    check_whole("negatives", negatives, 1)
    check_number("n_items", n_items, above=0)
    n = negatives + 1
    i = np.arange(n, dtype=np.float64)
    terms = a * np.exp(log_gamma(n) - log_gamma(n + a) + log_gamma(i + a) - log_gamma(i + 1))
    return np.asarray(1 + (n_items - 1) * np.minimum(np.cumsum(terms), 1.0) ** (1 / a))


def mean_squared_error_bound(
    corrected: ArrayLike, metric: Metric | str, prior: ArrayLike, n_items: int, design: Design | str, cases: int
) -> tuple[float, float]:
    """L₁ and L₂ of a corrected metric M̂(r) = ``corrected``: their sum bounds its mean squared error (li23 eq. 7-8).

    L₁ = Σ_R P(R) (E[M̂(r) | R] − M(R))² is the bias, L₂ = Σ_R Var[M̂(r) | R] / M the variance for M ``cases``; ``prior`` is
    P(1), …, P(N). ``corrected`` has a value per outcome of the design, in the order of ``design.outcomes``. `Multinomial`
    is the M̂ that makes L₁ + L₂ smallest. L₂ is loose: it has every rank weigh the same, where the variance of the estimate
    is Σ_R P(R) Var[M̂(r) | R] / M.
    """
    check_whole("n_items", n_items, 1)
    check_whole("cases", cases, 1)
    metric, design = parse_metric(metric), parse_design(design)
    P, M̂ = np.asarray(prior, dtype=np.float64), np.asarray(corrected, dtype=np.float64)
    drawn, hits = design.outcomes(n_items)
    if P.shape != (n_items,):
        raise ValueError(f"`prior` must have one value per rank, {n_items:,}, got shape {P.shape}.")
    if M̂.shape != hits.shape:
        raise ValueError(f"`corrected` must have one value per outcome, {len(hits):,}, got shape {M̂.shape}.")
    for name, values in (("prior", P), ("corrected", M̂)):
        if not np.isfinite(values).all():
            raise ValueError(f"`{name}` must be finite, got {values[~np.isfinite(values)][0]}.")
    R = np.arange(1, n_items + 1)
    law = design.law(R, n_items, drawn, hits)
    mean, second = law @ M̂, law @ M̂**2
    return float(P @ (mean - metric.gain(R, n_items)) ** 2), float(np.maximum(second - mean**2, 0.0).sum() / cases)
