"""What a design is: how negatives are drawn, the law of what is then seen, and what others may ask of it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import pairwise
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from fullrank._types import BoolArray, FloatArray, IntArray
from fullrank.ranks.checks import constant, refuse, refuse_ranks
from fullrank.ranks.laws import ALL


@dataclass(frozen=True)
class Course:
    """What a case goes through: how many negatives it has after each stage, and when it rests.

    ``stages`` increase; ``ALL``, which can only be the last, compares every candidate and needs ``replace=False``. A case
    that ``stop_at`` negatives beat at the end of a stage rests there. A design with several courses sends a ``share`` of the
    cases, chosen by chance, through each of them.
    """

    stages: tuple[int, ...]
    stop_at: int = 0
    replace: bool = False
    share: float = 1.0

    def __post_init__(self) -> None:
        sizes = [math.inf if m == ALL else m for m in self.stages]
        if not sizes or min(sizes) < 1 or any(a >= b for a, b in pairwise(sizes)):
            raise ValueError(f"`stages` must increase from at least 1, `ALL` coming last, got {self.stages}.")
        if ALL in self.stages and self.replace:
            raise ValueError("`replace` must be False in a course that compares every candidate.")


@runtime_checkable
class Design(Protocol):
    """How negatives are drawn, and the law of what is seen. It is immutable, and what it prints parses back.

    A design of one's own is a frozen dataclass that inherits from this class and has ``replace``, ``stages``, ``outcomes``,
    ``law`` and ``auc``; ``courses`` if a case can go through more than one stage, ``parse`` so that what it prints can be
    read back, and whatever else it answers differently. One line, ``fr.register_design(Mine)``, makes its words known.
    """

    #: Whether a case's number of negatives says nothing about its rank. The law is then that given the number, cases may
    #: have fewer or more negatives, and a smaller sampled rank is always the better one.
    plain: ClassVar[bool] = False
    #: Whether a case that is seldom beaten is compared with more and more negatives.
    grows: ClassVar[bool] = False

    @property
    @abstractmethod
    def replace(self) -> bool:
        """Return whether the same negative may be drawn twice."""

    @abstractmethod
    def stages(self, n_items: int) -> tuple[int, ...]:
        """The numbers of negatives a case can end with among ``n_items`` candidates, increasing; ``ALL`` for every one."""

    @abstractmethod
    def outcomes(self, n_items: int) -> tuple[IntArray, IntArray]:
        """All outcomes (drawn, hits) that can happen with more than negligible probability."""

    @abstractmethod
    def law(self, ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike) -> FloatArray:
        """P(outcome | rank): one row per rank, one column per outcome.

        Where a part of the candidates was compared one by one, ``n_items`` − 1 are the rest that is drawn from, and
        ``ranks`` − 1 is how many of them are better than the target.
        """

    @abstractmethod
    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """Return an estimate of each case's AUC, (N−R)/(N−1), unbiased whatever the rank."""

    @property
    def exact_to(self) -> float:
        """Ranks up to this one are found out whatever a sample shows: 0 for none, ``inf`` for every rank."""
        return 0

    @property
    def exhaustive(self) -> bool:
        """Return whether every candidate of every case is compared."""
        return self.exact_to == math.inf

    @property
    def beyond(self) -> Design | None:
        """Return how targets past :attr:`exact_to` are sampled, if only those up to it are found out."""
        return None

    @property
    def compares(self) -> int:
        """Return how many items of a guide's order are compared with the target one by one, before the rest is sampled."""
        return 0

    @property
    def reach(self) -> int:
        """Return how many of them can be compared, where cases go on for which something is still found."""
        return self.compares

    @property
    def goes_on(self) -> bool:
        """Return whether some cases are compared deeper than others, where something is still found."""
        return self.reach > self.compares

    @property
    def marks(self) -> tuple[int, ...]:
        """After how many of them it is seen whether a case goes on; the last is as far as it can."""
        return (self.compares,)

    @property
    def steps(self) -> tuple[int, ...]:
        """After how many of them a case may be closed, the last being all; empty where none is compared."""
        return ()

    def closed(self, ahead: ArrayLike) -> BoolArray:
        """Return whether a case that ``ahead`` of the compared items beat is left there, its rest not sampled."""
        return np.zeros(np.shape(ahead), dtype=bool)

    def courses(self, n_items: int) -> tuple[Course, ...]:
        """Return what cases go through, among at most ``n_items`` candidates: one course, or several with their shares."""
        sizes = self.stages(n_items)
        if len(sizes) > 1:
            raise NotImplementedError(
                f"'{self}' has {len(sizes)} stages and no method `courses`: it must say which cases go through which."
            )
        return (Course(sizes, replace=self.replace),)

    def resolve(self, n_items: int) -> Design:
        """Return the same design with shares of the catalogue turned into numbers."""
        return self

    def scaled(self, factor: float, n_items: int) -> Design | None:
        """The design that draws ``factor`` times as many negatives; ``None`` if that is everything, or is not defined."""
        return None

    def completed(self, n_items: int) -> Design:
        """The design that takes what this one began to the end, among at most ``n_items``: every candidate is compared."""
        from fullrank.ranks.design import Sample  # which builds on this module

        return Sample(n_items, replace=False)

    def check(self, drawn: IntArray | None, hits: IntArray, n_items: IntArray) -> IntArray:
        """Refuse outcomes that this design cannot have; return how many negatives each case has, ``ALL`` for every one.

        ``drawn`` is the number of negatives of each case (``None``: not given), 0 or all of them where it was compared with
        every candidate; ``hits`` how many of them beat the target; ``n_items`` the number of candidates. That a sample
        without replacement of all candidates shows the rank itself need not be said here: counts know it of every design.
        """
        if self.plain:
            first = self.stages(int(n_items.max()))[0]
            return possible(self, constant(first, len(hits)) if drawn is None else drawn, hits, n_items)
        m = possible(self, drawn, hits, n_items, least=0)
        fits = np.zeros(len(m), dtype=bool)
        for N in np.unique(n_items):
            here = n_items == N
            sizes = self.stages(int(N))
            every = (m[here] == N - 1) & (ALL in sizes and not self.replace)
            fits[here] = np.isin(m[here], sizes) | every
        allowed = ", ".join(map(str, self.stages(int(n_items.max()))))
        refuse(~fits, "drawn", m, f"one of the sizes of '{self}': {allowed} (0: every candidate)")
        return m

    def simulate(
        self, ranks: ArrayLike, n_items: ArrayLike, rng: np.random.Generator, before: Sequence[IntArray] = ()
    ) -> tuple[IntArray, IntArray]:
        """Act the design out on cases with these true ranks: (drawn, hits) of each.

        ``n_items`` is one number of candidates or one per case. ``before``: how many negatives each case was compared with,
        and how many beat it; the design then goes on from there.

        >>> import fullrank as fr
        >>> fr.Exhaustive().simulate([1, 7], 100, np.random.default_rng(0))
        (array([0, 0]), array([0, 6]))
        """
        R = np.asarray(ranks, dtype=np.int64)
        N = np.broadcast_to(np.asarray(n_items, dtype=np.int64), R.shape)
        m, x = np.array(before or np.zeros((2, len(R))), dtype=np.int64)
        largest = int(N.max())
        courses = self.courses(largest)
        which = np.zeros(len(R), dtype=np.int64)
        if len(courses) > 1:
            if before:
                raise ValueError(f"'{self}' cannot be taken up: which course each case was on is not known.")
            which = np.searchsorted(np.cumsum([course.share for course in courses]), rng.random(len(R)), side="right")
        for number, course in enumerate(courses):
            live = np.flatnonzero(np.minimum(which, len(courses) - 1) == number)
            own = live
            for stage in course.stages:
                goal = np.full(len(R), stage) if course.replace else np.minimum(stage or largest, N - 1)
                go = live[m[live] < goal[live]]
                more, others, good = goal[go] - m[go], N[go] - 1, R[go] - 1
                if course.replace or largest >= 10**9:  # NumPy's hypergeometric ends there, and the binomial is as good
                    x[go] += rng.binomial(more, good / others)
                else:
                    left = good - x[go]
                    x[go] += rng.hypergeometric(left, others - m[go] - left, more)
                m[go] = goal[go]
                live = live[(m[live] != goal[live]) | (x[live] < course.stop_at)]
            if not course.replace:
                own = own[m[own] == N[own] - 1]
                m[own], x[own] = ALL, R[own] - 1
        if self.beyond is not None:
            most = max(max(course.stages) for course in courses)
            known = (self.exact_to >= R) | (most >= N - 1)
            m, x = np.where(known, ALL, m), np.where(known, R - 1, x)
        return m, x

    @classmethod
    def parse(cls, word: str) -> Design | None:
        """Return the design of this kind that a word (in small letters, single spaces) means; ``None`` if it means none."""
        return None


_KINDS: dict[str, type[Design]] = {}
Kind = TypeVar("Kind", bound=type[Design])


def register_design(kind: Kind) -> Kind:
    """Make the words of a design known, so that they are read back from files and taken on the command line.

    A package that is installed can name its designs among its entry points, in the group ``fullrank.designs``, instead.
    """
    if not isinstance(kind, type) or not callable(getattr(kind, "parse", None)):
        raise TypeError(f"`kind` must be a class with the methods of fullrank.Design, got {kind!r}.")
    _KINDS[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return kind


def kinds() -> Iterator[type[Design]]:
    """Yield the kinds of designs that are registered, then those that installed packages bring."""
    yield from tuple(_KINDS.values())
    for entry in entry_points(group="fullrank.designs"):
        yield entry.load()


def possible(design: Design, m: IntArray | None, hits: IntArray, N: IntArray, least: int = 1) -> IntArray:
    """Return the numbers drawn, or refuse those that no sample can have, whatever the design."""
    if m is None:
        kind = type(design).__name__
        raise ValueError(f"`drawn` is missing: with `{kind}` every case has its own number of negatives.")
    refuse(m < least, "drawn", m, "a number of negatives of at least 1")
    size = m if (m != ALL).all() else np.where(m == ALL, N - 1, m)
    refuse_ranks(hits, size, m == ALL)
    if design.replace:
        refuse(N < 2, "n_items", N, "at least 2 candidates to draw negatives from")
    else:
        most = "no more than n_items − 1 when drawing without replacement (fewer negatives, or replace=True)"
        refuse(m >= N, "drawn", m, most)
    return m
