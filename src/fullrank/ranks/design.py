"""Sampling designs and their exact law P(outcome | rank).

A design says how negatives are drawn *and* what that makes of a rank, in one object, so that no estimator needs to know
how items were drawn. What is seen of a case is an outcome (``drawn`` m, ``hits`` x): of m negatives, x were ranked above
the target, so the sampled rank is r = x + 1. ``drawn = 0`` is the code for "every candidate was compared": the rank is
known, R = x + 1.

=============  =======================================================================================================
Exhaustive     every candidate is compared
Sample         m negatives; x ~ Binomial(m, θ), θ = (R−1)/(N−1), with replacement (kr20 §4.3, li20 eq. 6, jin21 eq. 16);
               x ~ Hypergeometric(N−1, R−1, m) without (li20 §2.2, kr20 §4.4)
Adaptive       m₀ negatives; while fewer than ``stop_at`` of them beat the target, go on to 2m+1 (li23 Alg. 1, App. H);
               P(stage j, x) = const(j, x) · the law of Sample(m_j), const(j, x) = P(Hypergeom(m_j, x, m_{j−1}) < stop_at)
Top            the rank itself where it is at most k; beyond, that it is beyond, and what m negatives say: 1[R > k] · the
               law of Sample(m)
=============  =======================================================================================================

>>> Sample(99)
Sample(negatives=99, replace=True)
>>> print(Sample(99, replace=False))
uni99 without replacement
>>> parse_design("uni99") == Sample(99)
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Adaptive", "Design", "Exhaustive", "Sample", "Top", "outcomes_compare", "parse_design"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: ``drawn`` of a case whose every candidate was compared.
ALL = 0
#: Outcomes less likely than this at every rank are left out of a design's list of outcomes.
NEGLIGIBLE = 1e-13


@runtime_checkable
class Design(Protocol):
    """How negatives are drawn, and the law of what is seen. Immutable; prints as it is written; parses back."""

    @property
    def replace(self) -> bool:
        """Whether the same negative may be drawn twice."""
        ...

    def stages(self, n_items: int) -> tuple[int, ...]:
        """How many negatives a case has after each stage, among ``n_items`` candidates; ``ALL`` for every one."""
        ...

    def outcomes(self, n_items: int) -> tuple[IntArray, IntArray]:
        """All outcomes (drawn, hits) that can happen with more than negligible probability."""
        ...

    def law(self, ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike) -> FloatArray:
        """P(outcome | rank): one row per rank, one column per outcome."""
        ...

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """An estimate of each case's AUC, (N−R)/(N−1), unbiased whatever the rank."""
        ...


@dataclass(frozen=True)
class Exhaustive:
    """Every candidate is compared: r = R, the empirical distribution itself.

    >>> print(Exhaustive())
    exhaustive
    """

    @property
    def replace(self) -> bool:
        """No candidate is compared twice."""
        return False

    def __str__(self) -> str:
        return "exhaustive"

    def stages(self, n_items: int) -> tuple[int, ...]:
        """One stage, all candidates."""
        return (ALL,)

    def outcomes(self, n_items: int) -> tuple[IntArray, IntArray]:
        """One outcome per rank."""
        hits = np.arange(int(n_items), dtype=np.int64)
        return np.full_like(hits, ALL), hits

    def law(self, ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike) -> FloatArray:
        """1[R = x + 1]."""
        return _known(np.asarray(ranks, dtype=np.float64), np.asarray(hits, dtype=np.float64))

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """(N−R)/(N−1), exactly."""
        return 1.0 - _share(hits, np.asarray(n_items, dtype=np.float64) - 1)


@dataclass(frozen=True)
class Sample:
    """The same number of uniform negatives for every case.

    ``negatives`` never counts the target: the papers' n is ``negatives + 1``; RecBole's ``uni99`` is ``Sample(99)``.
    Cases with fewer or more than ``negatives`` (duplicates collapsed, small pools) carry their own number.

    >>> Sample(2).law(ranks=[1, 3], n_items=5, drawn=[2, 2, 2], hits=[0, 1, 2])
    array([[1.  , 0.  , 0.  ],
           [0.25, 0.5 , 0.25]])
    """

    negatives: int
    replace: bool = True

    def __post_init__(self) -> None:
        _whole("negatives", self.negatives)

    def __str__(self) -> str:
        return f"uni{self.negatives}{_suffix(self.replace)}"

    def stages(self, n_items: int) -> tuple[int, ...]:
        """One stage; without replacement no more than there are candidates."""
        return (self.negatives if self.replace else min(self.negatives, int(n_items) - 1),)

    def outcomes(self, n_items: int) -> tuple[IntArray, IntArray]:
        """x = 0..m."""
        (m,) = self.stages(n_items)
        return np.full(m + 1, m, dtype=np.int64), np.arange(m + 1, dtype=np.int64)

    def law(self, ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike) -> FloatArray:
        """Binomial with replacement, hypergeometric without."""
        return _sampled_law(ranks, n_items, drawn, hits, self.replace)

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """1 − x/m (kr20 §4.4.1: unbiased for any m, with or without replacement)."""
        return 1.0 - _share(hits, _compared(drawn, n_items))


@dataclass(frozen=True)
class Adaptive:
    """Start with ``negatives``; go on until the target is beaten ``stop_at`` times or ``max_negatives`` are drawn.

    Sizes are whole numbers, a share of the number of items as a float (``0.1``), or ``"all"``. li23's own setting is
    ``Adaptive(99, 3199, stop_at=1)``. Each stage takes 2m + 1 negatives (the papers' n doubles), the last one what is left.
    Without replacement and with ``max_negatives="all"``, a case that is not beaten ``stop_at`` times is compared with
    every candidate: metrics@K with K ≤ ``stop_at`` are then exact.

    >>> Adaptive(99, 3199, stop_at=1).stages(10_000)
    (99, 199, 399, 799, 1599, 3199)
    >>> Adaptive(99, "all", stop_at=10, replace=False).stages(500)
    (99, 199, 399, 0)
    """

    negatives: int | float | None = None
    max_negatives: int | float | str | None = None
    stop_at: int | None = None
    replace: bool = True

    def __post_init__(self) -> None:
        for name, default in (
            ("negatives", DEFAULT_START),
            ("max_negatives", DEFAULT_CEILING),
            ("stop_at", DEFAULT_STOP),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        _whole("stop_at", self.stop_at)
        for name in ("negatives", "max_negatives"):
            _size(name, getattr(self, name))
        if (
            isinstance(self.negatives, int)
            and isinstance(self.max_negatives, int)
            and self.max_negatives < self.negatives
        ):
            raise ValueError(
                f"`max_negatives` is {self.max_negatives}, below `negatives` = {self.negatives}: raise it."
            )

    def __str__(self) -> str:
        return f"adaptive {self.negatives}..{self.max_negatives} stop {self.stop_at}{_suffix(self.replace)}"

    def resolve(self, n_items: int) -> Adaptive:
        """The same design with shares and ``"all"`` turned into numbers for a catalogue of ``n_items``."""
        # numbers stay as they are, so that counts of parts with different pools have one design and add
        start = _of(self.negatives, n_items)
        if isinstance(self.max_negatives, int) or (self.max_negatives == "all" and not self.replace):
            return Adaptive(start, self.max_negatives, self.stop_at, self.replace)
        ceiling = max(_of(self.max_negatives, n_items), start)
        every = not self.replace and ceiling >= n_items - 1
        return Adaptive(start, "all" if every else ceiling, self.stop_at, self.replace)

    def stages(self, n_items: int) -> tuple[int, ...]:
        """m₀, 2m₀+1, … up to the ceiling; ``ALL`` when that is every candidate, drawn without replacement."""
        N = int(n_items)
        m, ceiling = _of(self.negatives, N), max(_of(self.max_negatives, N), _of(self.negatives, N))
        sizes: list[int] = []
        while True:
            if not self.replace and m >= N - 1:
                return (*sizes, ALL)
            sizes.append(m)
            if m >= ceiling:
                return tuple(sizes)
            m = min(2 * m + 1, ceiling)

    def outcomes(self, n_items: int) -> tuple[IntArray, IntArray]:
        """x ≥ stop_at at every stage but the last, any x there; the practically impossible ones are left out."""
        drawn, hits = [], []
        sizes = self.stages(n_items)
        for stage, m in enumerate(sizes):
            size = int(n_items) - 1 if m == ALL else m
            x = np.arange(0 if stage == len(sizes) - 1 else self._stop, size + 1, dtype=np.int64)
            x = x[self._constant(stage, sizes, size, x) > NEGLIGIBLE]
            drawn.append(np.full(len(x), m, dtype=np.int64))
            hits.append(x)
        return np.concatenate(drawn), np.concatenate(hits)

    def law(self, ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike) -> FloatArray:
        """const(j, x) times the law of the stage's sample."""
        m, x = np.asarray(drawn, dtype=np.int64), np.asarray(hits, dtype=np.int64)
        law = _sampled_law(ranks, n_items, m, x, self.replace)
        law *= self._constants(m, x, n_items)
        return law

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """The AUC of the first stage, averaged over the ways it can have led to the outcome.

        x/m of the stopped sample is biased, because stopping depends on x; the first stage's x₀/m₀ is not, and neither is
        its conditional mean given the outcome: x_{j−1} is hypergeometric below ``stop_at``, and E x₀ = x_{j−1} m₀/m_{j−1}.
        """
        m, x, N = np.broadcast_arrays(
            np.asarray(drawn, dtype=np.int64), np.asarray(hits, dtype=np.int64), np.asarray(n_items, dtype=np.float64)
        )
        sizes = np.array([size for size in self.stages(int(N.max(initial=1))) if size != ALL], dtype=np.float64)
        total = _compared(m, N)
        stage = np.searchsorted(sizes, total)
        out = np.asarray(1.0 - _share(x, total))
        later = stage > 0
        if later.any():
            before = np.arange(self._stop, dtype=np.float64)
            previous = sizes[stage[later] - 1]
            weight = np.exp(_log_hypergeom(before, total[later][:, None], x[later][:, None], previous[:, None]))
            earlier = (weight * before).sum(1) / np.maximum(weight.sum(1), 1e-300)
            out[later] = 1.0 - earlier / previous
        return out

    @property
    def _stop(self) -> int:
        return int(self.stop_at or 1)

    def _constant(self, stage: int, sizes: tuple[int, ...], size: int, x: IntArray) -> FloatArray:
        if stage == 0:
            return np.ones(len(x))
        if self._stop == 1:  # none of x hits was among the first: a running product
            i = np.arange(x.max(initial=0))
            none = np.cumprod(np.maximum(size - sizes[stage - 1] - i, 0) / (size - i))
            return np.concatenate([[1.0], none])[x]
        before = np.arange(self._stop, dtype=np.float64)[None, :]
        ways = np.exp(_log_hypergeom(before, size, x.astype(np.float64)[:, None], sizes[stage - 1]))
        return np.asarray(np.minimum(ways.sum(1), 1.0))

    def _constants(self, m: IntArray, x: IntArray, n_items: float) -> FloatArray:
        N = round(n_items)  # a mean of pools, hence not whole, if by rounding alone
        sizes = self.stages(N)
        out = np.ones(len(m))
        for stage, size in enumerate(sizes):
            here = m == size
            out[here] = self._constant(stage, sizes, N - 1 if size == ALL else size, x[here])
        return out


@dataclass(frozen=True)
class Top:
    """The exact rank of every target that is among the first ``k``; of the others, a sample of ``negatives``.

    Metrics@K with K ≤ ``k`` are exact; among no more than ``negatives`` other candidates, every rank is. With a factor model
    this takes a small part of the work of ``Exhaustive()``: a target that ``k`` items beat is given up, and items whose norm
    is too small to beat it are never scored.

    >>> print(Top(10))
    exhaustive to 10, then uni99
    >>> Top(2, negatives=1).law(ranks=[1, 3], n_items=5, drawn=[0, 0, 1, 1], hits=[0, 1, 0, 1])
    array([[1. , 0. , 0. , 0. ],
           [0. , 0. , 0.5, 0.5]])
    """

    k: int
    negatives: int = 99
    replace: bool = True

    def __post_init__(self) -> None:
        _whole("k", self.k)
        _whole("negatives", self.negatives)
        if self.k > 1000:
            raise ValueError(f"`k` is {self.k}; allowed are 1 to 1000: to rank further, use `Exhaustive()`.")

    def __str__(self) -> str:
        return f"exhaustive to {self.k}, then {self.beyond}"

    @property
    def beyond(self) -> Sample:
        """What is drawn for targets that are not among the first ``k``."""
        return Sample(self.negatives, self.replace)

    def stages(self, n_items: int) -> tuple[int, ...]:
        """The sample, and every candidate for those among the first ``k``."""
        return (ALL,) if self.negatives >= int(n_items) - 1 else (self.negatives, ALL)

    def outcomes(self, n_items: int) -> tuple[IntArray, IntArray]:
        """Ranks up to ``k``, and x = 0..m beyond; every rank where the sample would be everything."""
        m = self.stages(n_items)[0]
        known = np.arange(int(n_items) if m == ALL else min(self.k, int(n_items)), dtype=np.int64)
        drawn, hits = np.full_like(known, ALL), known
        if m != ALL and self.k < int(n_items):
            drawn = np.append(drawn, np.full(m + 1, m))
            hits = np.append(hits, np.arange(m + 1))
        return drawn, hits

    def law(self, ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike) -> FloatArray:
        """1[R = x + 1] where all were compared, 1[R > k] times the law of the sample elsewhere."""
        law = _sampled_law(ranks, n_items, drawn, hits, self.replace)
        sampled = np.asarray(drawn) != ALL
        law[np.ix_(np.asarray(ranks, dtype=np.float64) < self.k + 0.5, sampled)] = 0.0
        return law

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """(N−R)/(N−1) where R is known, else 1 − x/m: whether R is known does not depend on the sample."""
        return self.beyond.auc(drawn, hits, n_items)


def outcomes_compare(design: Design) -> bool:
    """Whether a smaller sampled rank is always the better one, as uncorrected metrics take for granted."""
    return not isinstance(design, Adaptive | Top)


# The least error for the items scored on real rank files: `benchmarks/accuracy.py --choices` prints the alternatives.
# li23's own setting is (99, 3199, 1); a ceiling in shares of N sees as deep into a large catalogue as into a small one.
DEFAULT_START: int | float = 49
DEFAULT_CEILING: int | float | str = 0.25
DEFAULT_STOP = 1


def parse_design(text: str | Design) -> Design:
    """The design a word means: ``full``, ``top10``, ``uni99``, ``uni99 without replacement``, ``adaptive 99..3199 stop 1``.

    >>> parse_design("adaptive 99..0.1 stop 2 without replacement")
    Adaptive(negatives=99, max_negatives=0.1, stop_at=2, replace=False)
    >>> parse_design("pop100")
    Traceback (most recent call last):
    ...
    ValueError: design 'pop100' draws negatives by popularity: how often they beat the target then depends on which ...
    """
    if not isinstance(text, str):
        if isinstance(text, Design) and not isinstance(text, type):
            return text
        raise TypeError(f"`design` must be a Design or a word like 'uni99', not {text!r}.")
    word = re.sub(r"\s+", " ", text.strip().lower())
    replace = True
    for ending in (" without replacement", "/without-replacement", "-without-replacement"):
        if word.endswith(ending):
            word, replace = word.removesuffix(ending), False
    if word in {"full", "exhaustive", "all"}:
        return Exhaustive()
    if found := re.fullmatch(r"uni(?:form)?[ _-]?(\d+)", word):
        return Sample(int(found[1]), replace)
    if found := re.fullmatch(r"(?:top|exhaustive to|full to) ?(\d+)(?:, then uni(\d+))?", word):
        return Top(int(found[1]), int(found[2] or Top.negatives), replace)
    if re.match(r"pop", word):
        raise ValueError(
            f"design {text!r} draws negatives by popularity: how often they beat the target then depends on which items "
            "rank above it, not on its rank alone, so no correction exists; sample uniformly ('uni99') instead."
        )
    if found := re.fullmatch(rf"adaptive(?: ({_SIZE})\.\.({_SIZE}|all))?(?: stop (\d+))?", word):
        start, ceiling, stop = found.groups()
        return Adaptive(
            None if start is None else _number(start),
            None if ceiling is None else ceiling if ceiling == "all" else _number(ceiling),
            None if stop is None else int(stop),
            replace,
        )
    raise ValueError(
        f"unknown design {text!r}: write 'full', 'top10', 'uni99', 'uni99 without replacement' or "
        "'adaptive 99..3199 stop 1'."
    )


#: A size as it prints: 99, 0.1, 1e-05
_SIZE = r"\d+(?:\.\d+)?(?:e-\d+)?"


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)


def _suffix(replace: bool) -> str:
    return "" if replace else " without replacement"


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"`{name}` must be a positive whole number, not {value!r}.")


def _size(name: str, value: object) -> None:
    if value == "all":
        return
    if isinstance(value, float):
        if not 0 < value <= 1:
            raise ValueError(
                f"`{name}` as a share of the items must lie in (0, 1], not {value!r}; for a number write an int."
            )
        return
    if isinstance(value, str):
        raise ValueError(f"`{name}` must be a whole number, a share in (0, 1] or 'all', not {value!r}.")
    _whole(name, value)


def _of(size: int | float | str | None, n_items: int) -> int:
    """A size as a number of negatives among ``n_items`` candidates (at least one)."""
    if size == "all":
        return max(int(n_items) - 1, 1)
    if isinstance(size, float):
        return max(1, round(size * (int(n_items) - 1)))
    return int(size or 1)


def _compared(drawn: ArrayLike, n_items: ArrayLike) -> FloatArray:
    m = np.asarray(drawn, dtype=np.float64)
    return np.where(m == ALL, np.asarray(n_items, dtype=np.float64) - 1, m)


def _share(hits: ArrayLike, of: FloatArray) -> FloatArray:
    return np.asarray(np.asarray(hits, dtype=np.float64) / np.maximum(of, 1.0))


def _known(R: FloatArray, x: FloatArray) -> FloatArray:
    return np.asarray(R[:, None] == x[None, :] + 1, dtype=np.float64)


def _sampled_law(ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike, replace: bool) -> FloatArray:
    """P(x of m beat the target | R) for every rank and outcome; ranks past ``n_items`` cannot be: zero."""
    R = np.asarray(ranks, dtype=np.float64)
    m = np.asarray(drawn, dtype=np.int64)
    x = np.asarray(hits, dtype=np.float64)
    out = np.empty((len(R), len(x)))
    known = m == ALL
    out[:, known] = _known(R, x[known])
    sizes = m[~known].astype(np.float64)[None, :]
    xs = x[~known][None, :]
    if replace:
        θ = np.clip((R - 1) / max(n_items - 1, 1), 0.0, 1.0)[:, None]
        choose = log_gamma(sizes + 1) - log_gamma(xs + 1) - log_gamma(sizes - xs + 1)
        # logs once per rank; −1e9 for log 0 keeps 0 · log 0 = 0 and exp(−1e9) = 0
        log = np.log(θ, out=np.full_like(θ, -1e9), where=θ > 0) * xs
        log += np.log1p(-θ, out=np.full_like(θ, -1e9), where=θ < 1) * (sizes - xs)
        log += choose
        np.exp(log, out=log)
        out[:, ~known] = log
    else:
        out[:, ~known] = _hypergeom(x[~known], n_items - 1, np.minimum(R - 1, n_items - 1), m[~known])
    if np.any(n_items + 0.5 <= R):
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
            out[:, here] = np.exp(_log_hypergeom(x[None, here], total, good[:, None], float(m)))
            continue
        i = np.arange(m + 1)
        log = _log_falling_table(good, m)
        log += _log_falling_table(total - good, m)[:, ::-1]
        log += log_gamma(m + 1.0) - log_gamma(i + 1.0) - log_gamma(m - i + 1.0) - _log_falling(total, float(m))
        out[:, here] = np.exp(log)[:, x[here].astype(np.int64)]
    return out


def log_gamma(x: ArrayLike) -> FloatArray:
    """log Γ(x); SciPy is imported here, when first needed, because it doubles the time of ``import fullrank``."""
    from scipy.special import gammaln

    return np.asarray(gammaln(x))


def _log_falling_table(a: FloatArray, depth: int) -> FloatArray:
    """log a(a−1)…(a−k+1) for k = 0..depth, −∞ where a factor is not positive."""
    table = np.zeros((len(a), depth + 1))
    factors = table[:, 1:]
    np.subtract(a[:, None], np.arange(depth), out=factors)
    left = factors <= 0
    np.log(factors, out=factors, where=~left)
    factors[left] = -np.inf
    np.cumsum(factors, axis=1, out=factors)
    return table


def _log_hypergeom(x: ArrayLike, total: ArrayLike, good: ArrayLike, drawn: ArrayLike) -> FloatArray:
    """log P(x good ones among ``drawn`` of ``total`` without replacement), −∞ where impossible.

    = log C(m, x) + log (good)_x + log (bad)_{m−x} − log (total)_m with falling factorials: no difference of two huge
    log-gammas, so it holds to 1e-12 at a billion items where the textbook form loses half its digits.
    """
    x, K, m = np.asarray(x, float), np.asarray(good, float), np.asarray(drawn, float)
    N = np.asarray(total, float)
    bad = N - K
    possible = (x >= 0) & (x <= m) & (x <= K) & (m - x <= bad)
    inside = np.where(possible, x, 0.0)
    rest = np.where(possible, m - x, 0.0)
    log = (
        log_gamma(m + 1)
        - log_gamma(inside + 1)
        - log_gamma(np.maximum(m - inside, 0) + 1)
        + _log_falling(K, inside)
        + _log_falling(bad, rest)
        - _log_falling(N, m)
    )
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
