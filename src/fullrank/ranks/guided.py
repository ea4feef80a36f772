"""Guided designs: a guide's first items are compared with the target one by one, the rest is sampled (SPEC §10).

A cheap model, the *guide*, orders the candidates of each user. They are compared with the target in that order until
``stop_at`` of them beat it, which closes the case, or ``first`` are compared; of an open case negatives are then drawn from
the rest. Only P(hits | B, rest) is the design's law, B of the rest being better than the target: how many of the compared
items beat it is the guide's doing. The guide changes the cost, never the honesty.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fullrank._checks import check_whole
from fullrank._types import BoolArray, FloatArray, IntArray
from fullrank.ranks.checks import refuse
from fullrank.ranks.design import SIZE, Adaptive, Sample
from fullrank.ranks.laws import ALL
from fullrank.ranks.protocol import Course, Design, register_design

#: Items that a case is compared with before it may be closed.
FIRST_STEP = 16


@register_design
@dataclass(frozen=True)
class Guided(Design):
    """Compare the ``first`` items of a guide's order, then sample ``negatives`` from the rest, without replacement.

    Items are compared in steps, and a case that ``stop_at`` of them beat is closed: nothing more is asked, and metrics@K
    with K ≤ ``stop_at`` are exactly zero for it; ``None`` never closes. With ``max_negatives`` (a number, a share of the
    items as a float, or ``"all"``) the sample of an open case grows as that of :class:`Adaptive` does, until ``stop_at``
    (or 1) of it beat the target. ``keep_open``: a random share of the cases is never closed, and stands for all others that
    are: metrics without a cut-off (AUC) are then known too.

    ``deepest``: a case that something beat in the last half of what was compared goes on, twice as deep each time, until
    nothing more does or another doubling would pass ``deepest``: depth goes where something is still found. ``recent`` of
    the counts is then how many of those ahead came after the first quarter: all that stop are quiet in the last half.

    >>> print(Guided(200, stop_at=10))
    guided 200 stop 10, then uni99
    >>> print(Guided(200, stop_at=10, deepest=1600))
    guided 200 to 1600 stop 10, then uni99
    >>> ahead, rest, drawn, hits = Guided(3, 2).act_out([[1, 3, 9], []], 12, np.random.default_rng(0))
    >>> ahead, rest
    (array([2, 0]), array([8, 8]))
    """

    replace = False
    first: int = 200
    negatives: int | float = 99
    max_negatives: int | float | str | None = None
    stop_at: int | None = None
    keep_open: float = 0.0
    deepest: int | None = None

    def __post_init__(self) -> None:
        check_whole("first", self.first, 1)
        check_whole("deepest", self.deepest, 1, none=True)
        check_whole("stop_at", self.stop_at, 1, none=True)
        if self.deepest is not None and self.deepest < self.first:
            raise ValueError(f"`deepest` is {self.deepest}, below `first` = {self.first}.")
        number = isinstance(self.keep_open, int | float | np.number) and not isinstance(self.keep_open, bool)
        if not number or not 0 <= self.keep_open <= 1:
            raise ValueError(f"`keep_open` must be a share between 0 and 1, got {self.keep_open!r}.")
        object.__setattr__(self, "keep_open", float(self.keep_open))
        sampling = self.sampling  # which refuses what cannot be, and holds numbers as they are read back
        object.__setattr__(self, "negatives", sampling.negatives)
        object.__setattr__(self, "max_negatives", getattr(sampling, "max_negatives", None))

    def __str__(self) -> str:
        about = {"to": self.deepest, "stop": self.stop_at, "keep": self.keep_open or None}
        given = "".join(f" {word} {value}" for word, value in about.items() if value is not None)
        plain = self.max_negatives is None
        sizes = f"uni{self.negatives}" if plain else f"adaptive {self.negatives}..{self.max_negatives}"
        return f"guided {self.first}{given}, then {sizes}"

    @classmethod
    def parse(cls, word: str) -> Guided | None:
        """``guided``, ``guided 200, then uni99`` or ``guided 200 to 1600 stop 10 keep 0.1, then adaptive 99..0.1``."""
        found = re.fullmatch(
            rf"guided(?: (\d+)(?: to (\d+))?)?(?: stop (\d+))?(?: keep ({SIZE}))?(?:, then (.+))?", word
        )
        if found is None:
            return None
        first, deepest, stop, keep, rest = found.groups(default="")
        sampling: Any = Sample.parse(rest or "uni99") or Adaptive.parse(rest)
        if sampling is None:
            return None
        ceiling = getattr(sampling, "max_negatives", None)
        closes, goes_to = (int(each) if each else None for each in (stop, deepest))
        made = cls(int(first or cls.first), sampling.negatives, ceiling, closes, float(keep or 0.0), goes_to)
        implied: Any = made.sampling
        if " stop " in rest and sampling.stop_at != implied.stop_at:
            raise ValueError(
                f"design {word!r} has 'stop {sampling.stop_at}' for the sample alone: what stops the sample closes cases "
                f"too; write it once, as in 'guided {made.first} stop {sampling.stop_at}, then adaptive 99..0.1'."
            )
        return made

    @property
    def sampling(self) -> Sample | Adaptive:
        """How the rest of an open case is sampled."""
        if self.max_negatives is None:
            check_whole("negatives", self.negatives, 1)
            return Sample(int(self.negatives), replace=False)
        return Adaptive(self.negatives, self.max_negatives, self.stop_at or 1, replace=False)

    def completed(self, n_items: int) -> Guided:
        """The same part compared, and then all of the rest."""
        return replace(self, negatives=n_items, max_negatives=None)

    @property
    def compares(self) -> int:
        """``first``."""
        return self.first

    @property
    def reach(self) -> int:
        """``deepest``, or ``first``."""
        return self.first if self.deepest is None else self.deepest

    @property
    def marks(self) -> tuple[int, ...]:
        """After how many items it is seen whether a case goes on: ``first``, and twice as many each time."""
        out = [self.first]
        while 2 * out[-1] <= self.reach:
            out.append(2 * out[-1])
        return tuple(out)

    @property
    def steps(self) -> tuple[int, ...]:
        """After how many items a case may be closed: 16, and half as many again each time, to ``first``."""
        out, step = [], FIRST_STEP
        while self.stop_at is not None and step < self.first:
            out.append(step)
            step += step // 2
        return (*out, self.first)

    def closed(self, ahead: ArrayLike) -> BoolArray:
        """Whether so many of the compared items beating the target close a case."""
        return np.asarray(np.asarray(ahead) >= (math.inf if self.stop_at is None else self.stop_at))

    def resolve(self, n_items: int) -> Guided:
        """The same design with shares of the catalogue turned into numbers."""
        sampling: Any = self.sampling.resolve(n_items)
        return replace(self, negatives=sampling.negatives, max_negatives=getattr(sampling, "max_negatives", None))

    def stages(self, n_items: int) -> tuple[int, ...]:
        """What an open case can have drawn from a rest of ``n_items`` − 1."""
        return self.sampling.stages(n_items)

    def outcomes(self, n_items: int) -> tuple[IntArray, IntArray]:
        """What can be seen of the rest, of ``n_items`` − 1, of an open case."""
        return self.sampling.outcomes(n_items)

    def law(self, ranks: ArrayLike, n_items: float, drawn: ArrayLike, hits: ArrayLike) -> FloatArray:
        """P(drawn, hits | B = rank − 1, rest = ``n_items`` − 1) of an open case."""
        return self.sampling.law(ranks, n_items, drawn, hits)

    def auc(self, drawn: ArrayLike, hits: ArrayLike, n_items: ArrayLike) -> FloatArray:
        """An unbiased estimate of 1 − B/rest."""
        return self.sampling.auc(drawn, hits, n_items)

    def courses(self, n_items: int) -> tuple[Course, ...]:
        """What an open case goes through."""
        return self.sampling.courses(n_items)

    def check(self, drawn: IntArray | None, hits: IntArray, n_items: IntArray) -> IntArray:
        """Open cases have so many negatives of the rest as the sampling says; all of a rest that has no more."""
        if drawn is None and self.max_negatives is None:
            drawn = np.minimum(int(self.negatives), n_items - 1)
        return self.sampling.check(drawn, hits, n_items)

    def act_out(
        self, beaten: list[ArrayLike] | tuple[ArrayLike, ...], n_items: ArrayLike, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Act the design out: (ahead, rest, drawn, hits) of every case.

        ``beaten``: per case, the places (from 1) in the guide's order of the candidates that beat the target; ``n_items``:
        the number of candidates, target included, one for all or one per case. ``drawn`` is 0 where nothing was drawn.
        """
        N = np.broadcast_to(np.asarray(n_items, dtype=np.int64), len(beaten))
        places = [np.sort(np.asarray(each, dtype=np.int64)) for each in beaten]
        total = np.array([len(each) for each in places], dtype=np.int64)
        outside = [((each < 1) | (each >= n)).any() for each, n in zip(places, N, strict=True)]
        refuse(np.array(outside), "beaten", total, "places in 1..n_items − 1 of the guide's order")
        kept = rng.random(len(N)) < self.keep_open if self.keep_open else np.zeros(len(N), dtype=bool)
        depth = [self._depth(*case) for case in zip(places, N - 1, kept, strict=True)]
        ahead = np.array([_beaten(*case) for case in zip(places, depth, strict=True)], dtype=np.int64)
        rest = N - 1 - depth
        drawn, hits = np.zeros_like(N), np.zeros_like(N)
        open_ = np.flatnonzero((~self.closed(ahead) | kept) & (rest > 0))
        if len(open_):
            better = total[open_] - ahead[open_]
            m, x = self.simulate(better + 1, rest[open_] + 1, rng)
            every = m == ALL
            ahead[open_[every]] += better[every]
            rest[open_[every]] = 0
            drawn[open_], hits[open_] = m, np.where(every, 0, x)
        return ahead, rest, drawn, hits

    def _depth(self, places: IntArray, candidates: int, kept: bool) -> int:
        """Return how deep a case is compared: to the step that closes it, or as long as something is found."""
        closing = (step for step in self.steps if self.closed(_beaten(places, step)) and not kept)
        depth = min(next(closing, self.first), candidates)
        for mark in self.marks[:-1]:
            ahead = _beaten(places, depth)
            if depth != mark or self.closed(ahead) or ahead == _beaten(places, mark // 2):
                break
            half = min(mark + mark // 2, candidates)
            depth = half if self.closed(_beaten(places, half)) else min(2 * mark, candidates)
        return int(depth)


def _beaten(places: IntArray, depth: int) -> int:
    return int(np.searchsorted(places, depth, side="right"))
