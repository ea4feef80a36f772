"""Second implementations, kept stupid: dense matrices, one case at a time, textbook formulas.

Nothing here is shared with the package: laws come from SciPy's distributions or from walking through the drawing process,
estimates from the papers' equations as printed. Slow on purpose.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
from scipy import stats

# ------------------------------------------------------------------------------------------------------------ laws


def hypergeometric_exact(x: int, total: int, good: int, drawn: int) -> float:
    """By whole numbers of any length: no rounding at all before the last division."""
    if x < 0 or x > drawn or x > good or drawn - x > total - good:
        return 0.0
    return float(Fraction(math.comb(good, x) * math.comb(total - good, drawn - x), math.comb(total, drawn)))


def law(N: int, m: int, replace: bool = True, ranks=None) -> np.ndarray:
    """A, one row per rank (1..N unless given), one column per sampled rank 1..m+1: P(r | R)."""
    x = np.arange(m + 1)
    rows = []
    for R in range(1, N + 1) if ranks is None else ranks:
        if replace:
            rows.append(stats.binom.pmf(x, m, (R - 1) / (N - 1)))
        else:
            rows.append(stats.hypergeom.pmf(x, N - 1, R - 1, m))
    return np.array(rows)


def stages(N: int, start: int, ceiling: int | str, replace: bool) -> list[int]:
    """li23 Alg. 1: n doubles (m → 2m + 1), capped; 0 stands for "all candidates"."""
    sizes, m = [], start
    top = N - 1 if ceiling == "all" else ceiling
    while True:
        if not replace and m >= N - 1:
            return [*sizes, 0]
        sizes.append(m)
        if m >= top:
            return sizes
        m = min(2 * m + 1, top)


def adaptive_law(R: int, N: int, start: int, ceiling: int | str, stop_at: int, replace: bool) -> dict:
    """P(drawn, hits | R) by following every path of the drawing process, stage by stage."""
    sizes = stages(N, start, ceiling, replace)
    outcome: dict[tuple[int, int], float] = defaultdict(float)
    state, before = {0: 1.0}, 0
    for stage, code in enumerate(sizes):
        size = N - 1 if code == 0 else code
        after: dict[int, float] = defaultdict(float)
        for x, chance in state.items():
            more = np.arange(size - before + 1)
            if replace:
                step = stats.binom.pmf(more, size - before, (R - 1) / (N - 1))
            else:
                step = stats.hypergeom.pmf(more, N - 1 - before, R - 1 - x, size - before)
            for extra, p in zip(more, step, strict=True):
                if p > 0:
                    after[x + int(extra)] += chance * float(p)
        state = {}
        for x, chance in after.items():
            if x >= stop_at or stage == len(sizes) - 1:
                outcome[(code, x)] += chance
            else:
                state[x] = chance
        before = size
    return outcome


# ------------------------------------------------------------------------------------------------------ estimators


def shares(ranks: np.ndarray, m: int, weights: np.ndarray | None = None) -> np.ndarray:
    """p̃(r), r = 1..m+1."""
    p = np.zeros(m + 1)
    for i, r in enumerate(ranks):
        p[r - 1] += 1.0 if weights is None else weights[i]
    return p / p.sum()


def bias_variance(A: np.ndarray, P: np.ndarray, p: np.ndarray, gamma: float) -> np.ndarray:
    """P̂(R) by kr20 eq. 25 (jin21 eq. 15), inverse as printed."""
    D = np.diag(P)
    c = np.ones(len(P)) @ D @ A
    inverse = np.linalg.inv((1 - gamma) * A.T @ D @ A + gamma * np.diag(c))
    return p @ inverse @ A.T @ D


def multinomial(A: np.ndarray, P: np.ndarray, p: np.ndarray, cases: int) -> np.ndarray:
    """P̂(R) by li23 eq. 11, inverse as printed."""
    D = np.diag(P)
    Lam = np.diag(np.ones(len(P)) @ A)
    inverse = np.linalg.inv(A.T @ D @ A - A.T @ A / cases + Lam / cases)
    return p @ inverse @ A.T @ D


def per_user_em(
    likelihood: np.ndarray, iterations: int, weights: np.ndarray | None = None, start: np.ndarray | None = None
) -> tuple[np.ndarray, list[float]]:
    """jin21 eq. 19-21, li23 App. G: one responsibility vector per user. Returns π and the log-likelihood at every step."""
    M, N = likelihood.shape
    w = np.ones(M) if weights is None else weights
    pi = np.full(N, 1 / N) if start is None else start / start.sum()
    logs = []
    for _ in range(iterations):
        new = np.zeros(N)
        total = 0.0
        for u in range(M):
            joint = pi * likelihood[u]
            total += w[u] * math.log(joint.sum())
            new += w[u] * joint / joint.sum()
        logs.append(total)
        pi = new / w.sum()
    return pi, logs


def case_likelihood(m: int, x: int, N_u: int, N: int, replace: bool = True) -> np.ndarray:
    """P(x of m | R) of one case for R = 1..N, zero past its own pool; m = 0: the rank is known."""
    out = np.zeros(N)
    for R in range(1, N_u + 1):
        if m == 0:
            out[R - 1] = float(x + 1 == R)
        elif replace:
            out[R - 1] = stats.binom.pmf(x, m, (R - 1) / (N_u - 1))
        else:
            out[R - 1] = stats.hypergeom.pmf(x, N_u - 1, R - 1, m)
    return out


def max_entropy_objective(A: np.ndarray, p: np.ndarray, pi: np.ndarray, eta: float) -> float:
    """jin21 eq. 25-27: Σ p̃(r)((Aᵀπ)_r − p̃(r))² − η H(π)."""
    inside = pi[pi > 0]
    return float((p * (A.T @ pi - p) ** 2).sum() + eta * (inside * np.log(inside)).sum())


def beta_mapping(n: int, N: int, a: float) -> list[float]:
    """f(1..n) by the recurrence of li20 eq. 15-17, one k after another."""

    def B(p: float, q: float) -> float:
        return math.exp(math.lgamma(p) + math.lgamma(q) - math.lgamma(p + q))

    f = [(N - 1) * (a * B(a, n)) ** (1 / a) + 1]
    for k in range(1, n):
        f.append((a * (N - 1) ** a * math.comb(n - 1, k) * B(a + k, n - k) + (f[-1] - 1) ** a) ** (1 / a) + 1)
    return f


# --------------------------------------------------------------------------------------------------------- metrics


def gain(name: str, R: int, k: int | None, N: int) -> float:
    """M(R) of kr20 eq. 2-13 for one target per user."""
    if k is not None and k < R:
        return 0.0
    depth = N if k is None else k
    return {
        "recall": 1.0,
        "precision": 1 / depth,
        "ndcg": 1 / math.log2(R + 1),
        "ap": 1 / R,
        "auc": (N - R) / (N - 1) if N > 1 else 1.0,
    }[name]


def full_list_metrics(relevant: np.ndarray, k: int | None) -> dict[str, float]:
    """All metrics of one ranked list, ``relevant[i]`` whether the item at place i + 1 is relevant. Textbook loops."""
    N, T = len(relevant), int(relevant.sum())
    depth = N if k is None else min(k, N)
    hits, dcg, precisions, first = 0, 0.0, 0.0, 0.0
    for i in range(1, depth + 1):
        if relevant[i - 1]:
            hits += 1
            dcg += 1 / math.log2(i + 1)
            precisions += hits / i
            if first == 0.0:
                first = 1 / i
    ideal = sum(1 / math.log2(i + 1) for i in range(1, min(T, depth if k is None else k) + 1))
    pairs = wins = 0
    for i in range(N):
        for other in range(N):
            if relevant[i] and not relevant[other]:
                pairs += 1
                wins += i < other
    return {
        "recall": hits / T,
        "precision": hits / (N if k is None else k),
        "ndcg": dcg / ideal,
        "ap": precisions / min(T, T if k is None else k),
        "hit": float(hits > 0),
        "mrr": first,
        "auc": wins / pairs,
    }


# ----------------------------------------------------------------------------------------------------------- truth


def power_law_ranks(cases: int, N: int, rng: np.random.Generator, a: float = 0.35) -> np.ndarray:
    """Ranks like those of a good recommender: (R−1)/(N−1) ~ Beta(a, 1)."""
    return 1 + np.floor((N - 1) * rng.random(cases) ** (1 / a)).astype(np.int64)


def draw(R: np.ndarray, N, m: int, replace: bool, rng: np.random.Generator) -> np.ndarray:
    """Sampled ranks of cases with true ranks R."""
    if replace:
        return 1 + rng.binomial(m, (R - 1) / (np.asarray(N) - 1))
    return 1 + rng.hypergeometric(R - 1, np.asarray(N) - R, m)


def draw_adaptive(R: int, N: int, start, ceiling, stop_at, replace, rng) -> tuple[int, int]:
    """One case through li23 Alg. 1, item by item: items 0..R−2 are the ones above the target. Returns (drawn, hits)."""
    order = rng.permutation(N - 1)
    seen = hits = 0
    sizes = stages(N, start, ceiling, replace)
    for stage, code in enumerate(sizes):
        size = N - 1 if code == 0 else code
        while seen < size:
            item = rng.integers(N - 1) if replace else order[seen]
            hits += item < R - 1
            seen += 1
        if hits >= stop_at or stage == len(sizes) - 1:
            return size, int(hits)
    raise AssertionError("unreachable")
