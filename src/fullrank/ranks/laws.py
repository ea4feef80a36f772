"""Probabilities of hits among negatives drawn at random, with and without replacement, exact to a billion items."""

import numpy as np
from numpy.typing import ArrayLike

from fullrank._types import FloatArray, IntArray

#: ``drawn`` of a case whose every candidate was compared.
ALL = 0
#: ``drawn`` of a case whose rest nothing was drawn from.
NOTHING = -1
#: The log of about 1e-300: what is less likely is zero.
IMPOSSIBLE = -690.0


def compared(drawn: ArrayLike, n_items: ArrayLike) -> FloatArray:
    """Return how many candidates the target was compared with, 1 where there are none: hits are a share of them."""
    m = np.asarray(drawn, dtype=np.float64)
    return np.maximum(np.where(m == ALL, np.asarray(n_items, dtype=np.float64) - 1, m), 1.0)


def sampled_law(ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike, replace: bool) -> FloatArray:
    """P(x of m beat the target | R) for every rank and outcome; ranks past ``n_items`` cannot be: zero.

    1[R = x + 1] where every candidate was compared, 1 where nothing was drawn.
    """
    R = np.asarray(ranks, dtype=np.float64)
    m = np.asarray(drawn, dtype=np.int64)
    x = np.asarray(hits, dtype=np.float64)
    drawn_from = m > 0
    sizes = m[drawn_from].astype(np.float64)[None, :]
    xs = x[drawn_from][None, :]
    if replace:
        θ = np.clip((R - 1) / max(n_items - 1, 1), 0.0, 1.0)[:, None]
        choose = log_gamma(sizes + 1) - log_gamma(xs + 1) - log_gamma(sizes - xs + 1)
        # logs once per rank; −1e9 for log 0 keeps 0 · log 0 = 0 and exp(−1e9) = 0
        log = np.log(θ, out=np.full_like(θ, -1e9), where=θ > 0) * xs
        log += np.log1p(-θ, out=np.full_like(θ, -1e9), where=θ < 1) * (sizes - xs)
        log += choose
        out = _exp(log)
    else:
        out = _hypergeom(x[drawn_from], n_items - 1, np.minimum(R - 1, n_items - 1), m[drawn_from])
    if not drawn_from.all():
        sampled, known, out = out, m == ALL, np.ones((len(R), len(x)))
        out[:, known] = R[:, None] == x[known] + 1
        out[:, drawn_from] = sampled
    out[n_items + 0.5 <= R] = 0.0
    return out


def _hypergeom(x: FloatArray, total: float, good: FloatArray, drawn: IntArray) -> FloatArray:
    """Hypergeometric probabilities, a row per ``good`` and a column per (x, drawn).

    Where most x of a size are wanted, the falling factorials are running sums of logs; else each is computed alone.
    """
    out = np.empty((len(good), len(x)))
    for m in np.unique(drawn):
        here = drawn == m
        if 6 * here.sum() < m:
            out[:, here] = _exp(log_hypergeom(x[None, here], total, good[:, None], float(m)))
            continue
        i = np.arange(m + 1)
        log = _log_falling_table(good, m)
        log += _log_falling_table(total - good, m)[:, ::-1]
        log += log_gamma(m + 1.0) - log_gamma(i + 1.0) - log_gamma(m - i + 1.0) - _log_falling(total, float(m))
        out[:, here] = _exp(log[:, x[here].astype(np.int64)])
    return out


def _exp(log: FloatArray) -> FloatArray:
    """Return probabilities: numbers that underflow take many times as long, here and wherever they are multiplied."""
    return np.asarray(np.exp(log, out=np.zeros_like(log), where=log > IMPOSSIBLE))


def log_gamma(x: ArrayLike) -> FloatArray:
    """log Γ(x); SciPy is imported here, when first needed, because it doubles the time of ``import fullrank``."""
    from scipy.special import gammaln

    return np.asarray(gammaln(x))


def _log_falling_table(a: FloatArray, depth: int) -> FloatArray:
    """log a(a−1)…(a−k+1) for k = 0..depth, −∞ where a factor is not positive."""
    table = np.maximum(a[:, None] - np.arange(-1, depth), 0.0)
    table[:, 0] = 1.0  # the empty product
    with np.errstate(divide="ignore"):
        np.log(table, out=table)
    return np.cumsum(table, axis=1, out=table)


def log_hypergeom(x: ArrayLike, total: ArrayLike, good: ArrayLike, drawn: ArrayLike) -> FloatArray:
    """log P(x good ones among ``drawn`` of ``total`` without replacement), −∞ where impossible.

    = log C(m, x) + log (good)_x + log (bad)_{m−x} − log (total)_m with falling factorials: no difference of two huge
    log-gammas, so it holds to 1e-12 at a billion items where the textbook form loses half its digits.
    """
    x, N, K, m = (np.asarray(each, float) for each in (x, total, good, drawn))
    bad = N - K
    possible = (x >= 0) & (x <= m) & (x <= K) & (m - x <= bad)
    inside = np.where(possible, x, 0.0)
    rest = np.where(possible, m - x, 0.0)
    choose = log_gamma(m + 1) - log_gamma(inside + 1) - log_gamma(np.maximum(m - inside, 0) + 1)
    log = choose + _log_falling(K, inside) + _log_falling(bad, rest) - _log_falling(N, m)
    return np.where(possible, log, -np.inf)


def _log_falling(a: ArrayLike, k: ArrayLike) -> FloatArray:
    """log a(a−1)…(a−k+1), without cancellation for large a (Stirling's series of the ratio)."""
    a, k = np.broadcast_arrays(np.asarray(a, float), np.asarray(k, float))
    left = a - k
    big = left > 256.0
    la, ll = np.where(big, a, 512.0), np.where(big, left, 512.0)
    kk = np.where(big, k, 0.0)
    series = kk * np.log(la) - kk - (ll + 0.5) * np.log1p(-kk / la)
    series += (1 / la - 1 / ll) / 12 - (1 / la**3 - 1 / ll**3) / 360
    if big.all():
        return np.asarray(series)
    sa, sl = np.where(big, 1.0, a), np.where(big, 1.0, left)
    return np.where(big, series, log_gamma(sa + 1) - log_gamma(np.maximum(sl, 0) + 1))
