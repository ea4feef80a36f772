"""Sampling designs and their exact law P(outcome | rank).

A design says how negatives are drawn *and* what that makes of a rank, in one object, so that no estimator needs to know
how items were drawn. What a design makes of a case is (``drawn`` m, ``hits`` x): of m negatives, x were ranked above the
target, so the sampled rank is r = x + 1. ``drawn = ALL`` says that every candidate was compared: the rank is known,
R = x + 1.

Where some candidates have been compared with the target one by one, a design draws from the rest: R − 1 is then B, how many
of the rest are better, and N − 1 their number. Counts put both together (:mod:`fullrank.ranks.counts`).

=============  =======================================================================================================
Exhaustive     every candidate is compared
Sample         m negatives; x ~ Binomial(m, θ), θ = (R−1)/(N−1), with replacement (kr20 §4.3, li20 eq. 6, jin21 eq. 16);
               x ~ Hypergeometric(N−1, R−1, m) without (li20 §2.2, kr20 §4.4)
Adaptive       m₀ negatives; while fewer than ``stop_at`` of them beat the target, go on to 2m+1 (li23 Alg. 1, App. H);
               P(stage j, x) = const(j, x) · the law of Sample(m_j), const(j, x) = P(Hypergeom(m_j, x, m_{j−1}) < stop_at)
Top            the rank itself where it is at most k; beyond, that it is beyond, and what m negatives say: 1[R > k] · the
               law of Sample(m)
=============  =======================================================================================================
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fullrank._checks import check_flag, check_whole
from fullrank._types import FloatArray, IntArray
from fullrank.ranks.checks import constant, refuse, refuse_ranks
from fullrank.ranks.laws import ALL, compared, log_hypergeom, sampled_law
from fullrank.ranks.protocol import Course, Design, kinds, possible, register_design

__all__ = ["ALL", "Adaptive", "Course", "Design", "Exhaustive", "Sample", "Top", "parse_design", "register_design"]


#: Outcomes less likely than this at every rank are left out of a design's list of outcomes.
NEGLIGIBLE = 1e-13


@register_design
@dataclass(frozen=True)
class Exhaustive(Design):
    """Every candidate is compared: r = R, the empirical distribution itself.

    >>> print(Exhaustive())
    exhaustive
    """

    plain = True
    replace = False
    exact_to = math.inf

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
        return sampled_law(ranks, n_items, drawn, hits, self.replace)

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """(N−R)/(N−1), exactly."""
        return np.asarray(1.0 - np.asarray(hits) / compared(drawn, n_items))

    def check(self, drawn: IntArray | None, hits: IntArray, n_items: IntArray) -> IntArray:
        """Ranks lie among the candidates, and nothing is drawn."""
        if drawn is not None:
            raise ValueError("`drawn` has no meaning with `Exhaustive()`: every candidate is compared.")
        every = constant(ALL, len(hits))
        refuse_ranks(hits, n_items - 1, every == ALL)
        return every

    @classmethod
    def parse(cls, word: str) -> Exhaustive | None:
        """``full``, ``exhaustive`` or ``all``."""
        return cls() if word in {"full", "exhaustive", "all"} else None


@register_design
@dataclass(frozen=True)
class Sample(Design):
    """The same number of uniform negatives for every case.

    ``negatives`` never counts the target: the papers' n is ``negatives + 1``; RecBole's ``uni99`` is ``Sample(99)``.
    Cases with fewer or more than ``negatives`` (duplicates collapsed, small pools) carry their own number.

    >>> Sample(2).law(ranks=[1, 3], n_items=5, drawn=[2, 2, 2], hits=[0, 1, 2])
    array([[1.  , 0.  , 0.  ],
           [0.25, 0.5 , 0.25]])
    """

    plain = True
    negatives: int
    replace: bool = True

    def __post_init__(self) -> None:
        check_whole("negatives", self.negatives, 1)
        check_flag("replace", self.replace)

    def __str__(self) -> str:
        return f"uni{self.negatives}{_WITHOUT * (not self.replace)}"

    def stages(self, n_items: int) -> tuple[int, ...]:
        """One stage; without replacement no more than there are candidates."""
        return (self.negatives if self.replace else min(self.negatives, int(n_items) - 1),)

    def outcomes(self, n_items: int) -> tuple[IntArray, IntArray]:
        """Return the numbers of hits, from 0 to all negatives."""
        (m,) = self.stages(n_items)
        return np.full(m + 1, m, dtype=np.int64), np.arange(m + 1, dtype=np.int64)

    def law(self, ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike) -> FloatArray:
        """Binomial with replacement, hypergeometric without."""
        return sampled_law(ranks, n_items, drawn, hits, self.replace)

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """1 − x/m (kr20 §4.4.1: unbiased for any m, with or without replacement)."""
        return np.asarray(1.0 - np.asarray(hits) / compared(drawn, n_items))

    def scaled(self, factor: float, n_items: int) -> Sample | None:
        """Return the design that draws ``factor`` times the negatives."""
        m = round(self.negatives * factor)
        return None if m >= n_items - 1 else Sample(m, self.replace)

    def check(self, drawn: IntArray | None, hits: IntArray, n_items: IntArray) -> IntArray:
        """Any number of negatives may have been drawn; if none is named, as many as the design says."""
        m = constant(self.negatives, len(hits)) if drawn is None else drawn
        return possible(self, m, hits, n_items)

    @classmethod
    def parse(cls, word: str) -> Sample | None:
        """``uni99``, with or without ``without replacement``."""
        start, replace = _ending(word)
        found = re.fullmatch(r"uni(?:form)?[ _-]?(\d+)", start)
        return None if found is None else cls(int(found[1]), replace)


@register_design
@dataclass(frozen=True)
class Adaptive(Design):
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

    grows = True
    negatives: int | float | None = None
    max_negatives: int | float | str | None = None
    stop_at: int | None = None
    replace: bool = True

    def __post_init__(self) -> None:
        defaults = {"negatives": DEFAULT_START, "max_negatives": DEFAULT_CEILING, "stop_at": DEFAULT_STOP}
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        check_whole("stop_at", self.stop_at, 1)
        check_flag("replace", self.replace)
        for name in ("negatives", "max_negatives"):
            object.__setattr__(self, name, _size(name, getattr(self, name)))
        start, ceiling = self.negatives, self.max_negatives
        if isinstance(start, int) and isinstance(ceiling, int) and ceiling < start:
            raise ValueError(f"`max_negatives` is {ceiling}, below `negatives` = {start}: raise it.")

    def __str__(self) -> str:
        return f"adaptive {self.negatives}..{self.max_negatives} stop {self.stop_at}{_WITHOUT * (not self.replace)}"

    def resolve(self, n_items: int) -> Adaptive:
        """Return the same design with shares and ``"all"`` turned into numbers for a catalogue of ``n_items``."""
        start, ceiling = _of(self.negatives, n_items), self.max_negatives
        if not isinstance(ceiling, int):  # which is kept, so that counts of parts with different pools add
            ceiling = max(_of(ceiling, n_items), start)
            ceiling = "all" if ceiling >= n_items - 1 and not self.replace else ceiling
        return Adaptive(start, ceiling, self.stop_at, self.replace)

    def stages(self, n_items: int) -> tuple[int, ...]:
        """m₀, 2m₀+1, … up to the ceiling; ``ALL`` when that is every candidate, drawn without replacement."""
        N, m = int(n_items), _of(self.negatives, n_items)
        ceiling = max(_of(self.max_negatives, N), m)
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
        law = sampled_law(ranks, n_items, m, x, self.replace)
        N, constants = round(n_items), np.ones(len(m))  # N is a mean of pools, hence not whole, if by rounding alone
        sizes = self.stages(N)
        for stage, size in enumerate(sizes):
            here = m == size
            constants[here] = self._constant(stage, sizes, N - 1 if size == ALL else size, x[here])
        law *= constants
        return law

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """Return the AUC of the first stage, averaged over the ways it can have led to the outcome.

        x/m of the stopped sample is biased, because stopping depends on x; the first stage's x₀/m₀ is not, and neither is
        its conditional mean given the outcome: x_{j−1} is hypergeometric below ``stop_at``, and E x₀ = x_{j−1} m₀/m_{j−1}.
        """
        m, x, N = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) for each in (drawn, hits, n_items)))
        sizes = np.array([size for size in self.stages(int(N.max(initial=1))) if size != ALL], dtype=np.float64)
        total = compared(m, N)
        stage = np.searchsorted(sizes, total)
        out = np.asarray(1.0 - x / total)
        later = stage > 0
        if later.any():
            before = np.arange(self._stop, dtype=np.float64)
            previous = sizes[stage[later] - 1]
            weight = np.exp(log_hypergeom(before, total[later][:, None], x[later][:, None], previous[:, None]))
            earlier = (weight * before).sum(1) / np.maximum(weight.sum(1), 1e-300)
            out[later] = 1.0 - earlier / previous
        return out

    def courses(self, n_items: int) -> tuple[Course, ...]:
        """One stage after the other until the target is beaten often enough."""
        return (Course(self.stages(n_items), self._stop, self.replace),)

    def scaled(self, factor: float, n_items: int) -> Adaptive | None:
        """Return the design with ``factor`` times the first stage and the ceiling."""
        sizes = self.stages(n_items)
        ceiling = n_items - 1 if ALL in sizes else sizes[-1]
        if round(ceiling * factor) >= n_items - 1:
            return None
        return Adaptive(round(sizes[0] * factor), round(ceiling * factor), self.stop_at, self.replace)

    def check(self, drawn: IntArray | None, hits: IntArray, n_items: IntArray) -> IntArray:
        """Check that the number drawn is that of a stage, and of the last one if the case was not beaten often enough."""
        m = possible(self, drawn, hits, n_items, least=1 if self.replace else 0)
        stages = np.asarray(self.stages(int(n_items.max())))
        seen_all = ((m == ALL) | (m == n_items - 1)) & (not self.replace)
        allowed = f"one of the stages of '{self}': {', '.join(map(str, stages))}"
        refuse(~(np.isin(m, stages) | seen_all), "drawn", m, allowed)
        last = seen_all | (m == stages[-1])
        later = f"a later stage: the case was beaten fewer than {self.stop_at} times, so '{self}' would have gone on"
        refuse(~last & (hits < self._stop), "drawn", m, later)
        return m

    @classmethod
    def parse(cls, word: str) -> Adaptive | None:
        """``adaptive``, or ``adaptive 99..3199 stop 1``, with or without ``without replacement``."""
        begin, replace = _ending(word)
        found = re.fullmatch(rf"adaptive(?: ({SIZE})\.\.({SIZE}|all))?(?: stop (\d+))?", begin)
        if found is None:
            return None
        start, ceiling, stop = map(_number, found.groups())
        return cls(start, ceiling, stop, replace)

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
        ways = np.exp(log_hypergeom(before, size, x.astype(np.float64)[:, None], sizes[stage - 1]))
        return np.asarray(np.minimum(ways.sum(1), 1.0))


@register_design
@dataclass(frozen=True)
class Top(Design):
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
        check_whole("k", self.k, 1)
        check_whole("negatives", self.negatives, 1)
        check_flag("replace", self.replace)
        if self.k > 1000:
            raise ValueError(f"`k` must be from 1 to 1000, got {self.k}: to rank further, use `Exhaustive()`.")

    def __str__(self) -> str:
        return f"exhaustive to {self.k}, then {self.beyond}"

    @property
    def exact_to(self) -> float:
        """Ranks up to ``k`` are found out."""
        return self.k

    @property
    def beyond(self) -> Sample:
        """Return what is drawn for targets that are not among the first ``k``."""
        return Sample(self.negatives, self.replace)

    def courses(self, n_items: int) -> tuple[Course, ...]:
        """Return the sample, which those past the first ``k`` are left with."""
        return self.beyond.courses(n_items)

    def stages(self, n_items: int) -> tuple[int, ...]:
        """Return the sample, and every candidate for those among the first ``k``."""
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
        law = sampled_law(ranks, n_items, drawn, hits, self.replace)
        sampled = np.asarray(drawn) != ALL
        law[np.ix_(np.asarray(ranks, dtype=np.float64) < self.k + 0.5, sampled)] = 0.0
        return law

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """(N−R)/(N−1) where R is known, else 1 − x/m: whether R is known does not depend on the sample."""
        return self.beyond.auc(drawn, hits, n_items)

    def check(self, drawn: IntArray | None, hits: IntArray, n_items: IntArray) -> IntArray:
        """Check that the rank is exact and at most ``k``, unless there are few candidates; or that so many were drawn."""
        m = possible(self, drawn, hits, n_items, least=0)
        whole = self.negatives >= n_items - 1
        refuse(~np.isin(m, (ALL, self.negatives)), "drawn", m, f"{self.negatives}, or 0 where the rank is exact")
        refuse(whole & (m != ALL), "drawn", m, f"0 (the rank is exact) among no more than {self.negatives + 1} items")
        exact = f"at most {self.k} where it is exact (`drawn` = 0)"
        refuse(~whole & (m == ALL) & (hits >= self.k), "ranks", hits + 1, exact)
        return m

    @classmethod
    def parse(cls, word: str) -> Top | None:
        """``top10``, or ``exhaustive to 10, then uni99``."""
        start, replace = _ending(word)
        found = re.fullmatch(r"(?:top|exhaustive to|full to) ?(\d+)(?:, then uni(\d+))?", start)
        return None if found is None else cls(int(found[1]), int(found[2] or cls.negatives), replace)


# The least error for the items scored on real rank files: `benchmarks/accuracy.py --choices` prints the alternatives.
# li23's own setting is (99, 3199, 1); a ceiling in shares of N sees as deep into a large catalogue as into a small one.
DEFAULT_START, DEFAULT_CEILING, DEFAULT_STOP = 49, 0.25, 1


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
    if word.startswith("pop"):
        raise ValueError(
            f"design {text!r} draws negatives by popularity: how often they beat the target then depends on which items "
            "rank above it, not on its rank alone, so no correction exists; sample uniformly ('uni99') instead."
        )
    for kind in kinds():
        if (found := kind.parse(word)) is not None:
            return found
    raise ValueError(
        f"unknown design {text!r}: write 'full', 'top10', 'uni99', 'uni99 without replacement', "
        "'adaptive 99..3199 stop 1' or 'guided 200, then uni99'; a design of your own must be registered first "
        "(fr.register_design)."
    )


def _ending(word: str) -> tuple[str, bool]:
    """Return a word without its ending, and whether negatives may be drawn twice."""
    start = word.removesuffix(_WITHOUT)
    return start, start == word


#: How the words of a design end that draws no negative twice.
_WITHOUT = " without replacement"
#: A size or a share as it prints: 99, 0.1, 1e-05
SIZE = r"\d+(?:\.\d+)?(?:e-\d+)?"


def _number(text: str | None) -> Any:
    """Return a size as it was before it was printed; what is left out is None."""
    if text is None or text == "all":
        return text
    return int(text) if text.isdigit() else float(text)


def _size(name: str, value: Any) -> int | float | str:
    """Return a size as it will be read back, or refuse what is none."""
    if isinstance(value, float | np.floating):
        if not 0 < value <= 1:
            raise ValueError(
                f"`{name}` as a share of the items must lie in (0, 1], not {value!r}; write numbers as ints."
            )
        return float(value)
    if isinstance(value, str):
        if value != "all":
            raise ValueError(f"`{name}` must be a whole number, a share in (0, 1] or 'all', not {value!r}.")
        return value
    check_whole(name, value, 1)
    return int(value)


def _of(size: int | float | str | None, n_items: int) -> int:
    """Return a size as a number of negatives among ``n_items`` candidates (at least one)."""
    if size == "all":
        return max(int(n_items) - 1, 1)
    if isinstance(size, float):
        return max(1, round(size * (int(n_items) - 1)))
    return int(size or 1)
