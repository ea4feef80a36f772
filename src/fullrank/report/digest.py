"""What a report says, cleaned and bounded: the page, the notebook and the charts all read from here.

A report may hold any number of rows with any names. Nothing below shows more than a reader can take in, and whatever is
left out is counted, so that the page can say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fullrank.metrics import Metric, Recall
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL
from fullrank.report.row import Row
from fullrank.report.row import finite as finite_number
from fullrank.report.tables import digits_of
from fullrank.report.verdict import Verdict, interval_text
from fullrank.report.words import NOTHING, clean, merged_notes, number

if TYPE_CHECKING:
    from fullrank.report.comparison import Comparison

__all__ = ["Bin", "Cell", "Curve", "Digest", "Size", "blind_spot", "digest", "exact_to", "finite", "sizes"]

#: Models in tables, models in charts of one panel each, models in the matrix of pairs; metrics; remarks; designs.
MOST_MODELS = 40
MOST_DRAWN = 6
MOST_PAIRED = 8
MOST_METRICS = 6
MOST_NOTES = 12
MOST_WORDS = 4
#: Curves run over K = 1..DEEPEST; bands are asked for at these cut-offs and drawn straight between them.
DEEPEST = 50
BAND_CUTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50)
#: A target inside the blind spot is beaten by no sampled negative at least this often.
BLIND = 0.5


@dataclass(frozen=True)
class Cell:
    """One metric of one model; ``None`` where a number is missing or not finite."""

    value: float | None = None
    interval: tuple[float, float] | None = None
    #: The uncorrected metric, where it is another thing than the value.
    naive: float | None = None
    #: What the data alone allow; ``None`` also where that is the interval itself.
    bounds: tuple[float, float] | None = None
    truth: float | None = None

    @classmethod
    def of(cls, row: Row) -> Cell:
        """What a row has to show."""
        naive = None if row.exact else finite(row.naive)
        return cls(finite(row.value), row.known_interval, naive, row.wider_bounds, row.truth)

    @property
    def exact(self) -> bool:
        """Whether the interval is a point, because all ranks that count are known."""
        return self.interval is not None and self.interval[0] == self.interval[1]

    @property
    def spread(self) -> tuple[float, float] | None:
        """The interval where it is more than a point."""
        return None if self.exact else self.interval


class Curve(NamedTuple):
    """A metric of one model over cut-offs; ``band`` holds (k, low, high)."""

    model: str
    ks: tuple[int, ...]
    values: tuple[float, ...]
    band: tuple[tuple[int, float, float], ...] = ()


class Bin(NamedTuple):
    """Share of cases whose rank lies in ``low``..``high``."""

    low: int
    high: int
    share: float


class Size(NamedTuple):
    """Cases that ended with ``drawn`` negatives (0: all of them) and the items they took."""

    drawn: int
    cases: int
    scored: int


@dataclass(frozen=True)
class Digest:
    """The part of a report that is shown: models best first, labels clean and distinct."""

    models: tuple[str, ...] = ()
    labels: MappingType[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    asked: MappingType[str, Metric] = field(default_factory=dict)  # by name
    cells: MappingType[tuple[str, str], Cell] = field(default_factory=dict)
    digits: MappingType[str, int] = field(default_factory=dict)
    estimates: MappingType[str, Any] = field(default_factory=dict)
    comparison: MappingType[str, Comparison] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=lambda: Verdict("Nothing was evaluated"))
    notes: tuple[str, ...] = ()
    #: How the evaluation went: good news, not warnings.
    remarks: tuple[str, ...] = ()
    #: What the intervals assume, where the data alone allow much more.
    assumption: str = ""
    level: float = 0.95
    target: str = "cases"
    designs: tuple[str, ...] = ()
    estimators: tuple[str, ...] = ()
    #: The smallest and the largest number of cases (one number when they agree).
    cases: tuple[int, ...] = ()
    total_models: int = 0
    total_metrics: int = 0
    total_notes: int = 0

    @property
    def drawn(self) -> tuple[str, ...]:
        """The models that have charts of their own."""
        return self.models[:MOST_DRAWN]

    def cell(self, model: str, metric: str) -> Cell:
        """One number with its company; empty when the report has none."""
        return self.cells.get((model, metric), Cell())

    def text(self, metric: str, value: float | None) -> str:
        """A value of the metric with the digits that suit it."""
        return number(value, self.digits.get(metric, 4))

    def span(self, metric: str, ends: tuple[float, float] | None) -> str:
        """``0.120 to 0.145``, ``exact``, or a dash where there is nothing."""
        return interval_text(ends, self.digits.get(metric, 4))

    def any(self, part: str) -> bool:
        """Whether any number has this part: ``spread``, ``bounds``, ``naive`` or ``truth``."""
        return any(getattr(cell, part) is not None for cell in self.cells.values())

    @property
    def exact(self) -> bool:
        """Whether all numbers are known, so that nothing was estimated."""
        return bool(self.cells) and all(cell.exact for cell in self.cells.values())

    @property
    def families(self) -> list[Metric]:
        """The metrics that have a curve over K, without their K, each once; of the user's own, those with a cut-off."""
        found: dict[str, Metric] = {}
        for name in self.metrics:
            metric = self.asked[name]
            if metric.name != "auc" and (metric.function is None or metric.k is not None):
                found.setdefault(metric.name, replace(metric, k=None))
        return list(found.values())

    def curves(self, family: Metric) -> list[Curve]:
        """The metric at K = 1..50 of each drawn model that has an estimate."""
        out = []
        for model in self.drawn:
            estimate = self.estimates.get(model)
            if estimate is None:
                continue
            counts = estimate.counts
            deepest = max(int(min(DEEPEST, math.floor(counts.pool_range[1]), counts.known_to)), 1)
            # without a distribution (CLS, Mapping) every interval is sixty fits of its own: a curve, but no band
            cuts = BAND_CUTS if hasattr(estimate, "mass") else ()
            ks = range(1, deepest + 1)
            band = []
            for k in cuts:
                limits = interval(estimate, family @ k, self.level, self.target) if k <= deepest else None
                if limits is not None:
                    band.append((k, *limits))
            if all(low == high for _, low, high in band):  # known: there is no band to draw
                band = []
            out.append(
                Curve(model, tuple(ks), tuple(finite(estimate.expect(family @ k)) or 0.0 for k in ks), tuple(band))
            )
        return out

    def ranks(self, model: str) -> list[Bin]:
        """Share of cases at rank 1, 2-3, 4-7, 8-15, …: doublings are equally wide on a logarithmic axis."""
        estimate = self.estimates[model]
        last = max(int(min(math.ceil(estimate.counts.pool_range[1]), estimate.counts.known_to)), 1)
        lows = [2**i for i in range(last.bit_length())]
        highs = [min(2 * low - 1, last) for low in lows]
        below = [0.0, *(float(estimate.expect(Recall @ high)) for high in highs)]
        shares = (finite(b - a) or 0.0 for a, b in pairwise(below))
        return [Bin(*each) for each in zip(lows, highs, shares, strict=True)]

    def sizes(self, model: str) -> list[Size]:
        """How many cases ended with how many negatives, smallest sample first."""
        return sizes(self.estimates[model].counts)


def digest(report: Any) -> Digest:
    """The part of the report that is shown."""
    rows: list[Row] = report.rows
    notes = merged_notes(report.notes, report.models)
    shared = Digest(notes=tuple(clean(note, 400) for note in notes[:MOST_NOTES]), total_notes=len(notes))
    if not rows:
        return shared
    metrics = {str(row.metric): row.metric for row in rows}
    kept = dict(list(metrics.items())[:MOST_METRICS])
    first = next(iter(kept))
    values = {row.model: value for row in rows if str(row.metric) == first and (value := finite(row.value)) is not None}
    everyone = report.models
    models = sorted(everyone, key=lambda model: -values.get(model, -math.inf))[:MOST_MODELS]
    shown, cases = set(models), {row.cases for row in rows if row.cases}
    return replace(
        shared,
        models=tuple(models),
        labels=_distinct(models),
        metrics=tuple(kept),
        asked=kept,
        cells={
            (row.model, str(row.metric)): Cell.of(row) for row in rows if row.model in shown and str(row.metric) in kept
        },
        digits=digits_of(rows, kept),
        estimates={name: each for name in models if (each := report.estimates.get(name)) is not None},
        comparison={name: each for name, each in report.comparison.items() if name in kept},
        verdict=report.verdict,
        remarks=tuple(clean(remark, 400) for remark in report.remarks[:MOST_NOTES]),
        assumption=report.assumption,
        level=report.level,
        target=report.target,
        designs=_few(row.design for row in rows),
        estimators=_few(row.estimator for row in rows),
        cases=tuple(sorted({min(cases), max(cases)})) if cases else (),
        total_models=len(everyone),
        total_metrics=len(metrics),
    )


def blind_spot(counts: RankCounts) -> tuple[int, int] | None:
    """The first and the last rank at which a target comes out on top of its sample at least half of the time.

    In between ranks look alike: with m negatives among N items, θ = (R−1)/(N−1) and P(r = 1 | R) = (1 − θ)^m, or about
    (1 − m/(N−1))^(R−1) without replacement. Under ``Adaptive`` such a target goes through to the largest sample; under
    ``Top`` it begins where exact ranks end. ``None``: every rank can be told from the next (or everything was ranked).

    >>> blind_spot(RankCounts.from_ranks([1, 2], n_items=20_000, design="uni99"))
    (1, 140)
    >>> blind_spot(RankCounts.from_ranks([1, 2], n_items=20_000, design="full")) is None
    True
    """
    sizes, N, first = counts.sizes, counts.n_items, 1 + exact_to(counts)
    if not (counts.design.plain or counts.design.grows):  # whether such a target is compared with all is not up to it
        sizes = sizes[sizes != ALL]
    if (sizes == ALL).any() or not len(sizes) or N < 2:
        return None
    m = float(sizes.max() if counts.design.grows else np.median(sizes))
    if counts.design.replace:
        last = 1 + (N - 1) * -math.expm1(math.log(BLIND) / m)
    else:
        last = math.inf if m <= 0 else 1 + math.log(BLIND) / math.log1p(-m / (N - 1)) if m < N - 1 else 1
    return (first, math.floor(last)) if first + 1 <= last < N else None


def exact_to(counts: RankCounts) -> int:
    """Ranks up to this one are known, and those beyond estimated; 0: there is no such border."""
    return int(counts.design.exact_to) if (counts.sizes != ALL).any() else 0


def sizes(counts: RankCounts) -> list[Size]:
    """How many cases ended with how many negatives; "all of them" comes last."""
    drawn = counts.column("drawn")
    found = [
        Size(int(each), int(counts.cases[drawn == each].sum()), int(counts.scored[drawn == each].sum()))
        for each in counts.sizes
    ]
    return sorted(found, key=lambda size: math.inf if size.drawn == ALL else size.drawn)


def interval(estimate: Any, metric: Metric, level: float, target: str) -> tuple[float, float] | None:
    """(low, high), or ``None`` where the estimate has no interval to give."""
    ask = getattr(estimate, "interval", None)
    if ask is None:
        return None
    try:
        low, high = (finite(each) for each in ask(metric, level=level, target=target))
    except (ValueError, TypeError, NotImplementedError):
        return None
    return None if low is None or high is None else (low, high)


def finite(value: object) -> float | None:
    """The number, or ``None`` for anything that is not a finite one; dust is zero."""
    number = finite_number(value)
    return 0.0 if number is not None and abs(number) < NOTHING else number


def _few(words: Iterable[str]) -> tuple[str, ...]:
    found = [clean(each, 120) for each in dict.fromkeys(words) if each]
    return (*found[:MOST_WORDS], "…") if len(found) > MOST_WORDS else tuple(found)


def _distinct(models: Sequence[str]) -> dict[str, str]:
    """Clean labels; two names that clean to the same get a number, because charts and readers tell them apart by it."""
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for model in models:
        label, turn = clean(model), 1
        while label in taken:
            turn += 1
            label = f"{clean(model, 54)} ({turn})"
        taken.add(label)
        labels[model] = label
    return labels
