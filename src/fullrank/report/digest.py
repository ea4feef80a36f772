"""What a report says, cleaned and bounded: the page, the notebook and the charts all read from here.

A report may hold any number of rows with any names. Nothing below shows more than a reader can take in, and whatever is
left out is counted, so that the page can say so.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fullrank._types import Pair
from fullrank.metrics import Metric, Recall
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL
from fullrank.report.row import Row, pair
from fullrank.report.tables import digits_of
from fullrank.report.words import NOTHING, clean, interval_text, merged_notes, number, ranged

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


class Digest:
    """The part of a report that is shown: models best first, labels clean and distinct."""

    def __init__(self, report: Any) -> None:
        rows: list[Row] = report.rows
        notes, everyone = merged_notes(report.notes, report.models), report.models
        self.level, self.target = float(report.level), str(report.target)
        self.verdict, self.assumption = report.verdict, str(report.assumption)
        self.notes, self.total_notes = [clean(note, 400) for note in notes[:MOST_NOTES]], len(notes)
        self.remarks = [clean(remark, 400) for remark in report.remarks[:MOST_NOTES]]
        metrics = {str(row.metric): row.metric for row in rows}
        self.asked = dict(list(metrics.items())[:MOST_METRICS])
        self.metrics, self.total_metrics = tuple(self.asked), len(metrics)
        first = {r.model: r.value for r in rows if str(r.metric) == self.metrics[0] and not math.isnan(r.value)}
        self.models = tuple(sorted(everyone, key=lambda model: -first.get(model, -math.inf))[:MOST_MODELS])
        self.drawn, self.total_models = self.models[:MOST_DRAWN], len(everyone)
        self.best_few = f" The best {MOST_DRAWN} models are drawn." if len(self.models) > MOST_DRAWN else ""
        self.labels = _distinct(self.models)
        self.paired = {model: self.labels[model] for model in self.models[:MOST_PAIRED]}
        found = {(row.model, str(row.metric)): row for row in rows if row.model in self.labels}
        #: The numbers of all models by one metric; NaN where the report has none.
        self.columns = {
            name: [found.get((model, name), Row(model, metric, math.nan)).shown() for model in self.models]
            for name, metric in self.asked.items()
        }
        self.digits = digits_of(rows)
        self.estimates = {name: each for name in self.models if (each := report.estimates.get(name)) is not None}
        counts = [each.counts for each in self.estimates.values()]
        #: Whether users have several held-out items, which metrics then add up over; and how many users there are.
        self.several_targets = any(each.several_targets for each in counts)
        self.users = ranged(*_ends(round(each.users_weight) for each in counts)) if self.several_targets else ""
        self.comparison = {name: each for name, each in report.comparison.items() if name in self.asked}
        self.designs, self.estimators = _few(row.design for row in rows), _few(row.estimator for row in rows)
        self.items_scored = sum(
            max((row.items_scored for row in rows if row.model == model), default=0) for model in self.estimates
        )
        self.cases = sorted(row.cases for row in rows if row.cases)
        #: Whether all numbers are known, so that nothing was estimated; and what some number has.
        cells = [cell for column in self.columns.values() for cell in column if (cell.model, str(cell.metric)) in found]
        self.exact = bool(cells) and all(cell.exact for cell in cells)
        parts = ("spread", "bounds", "naive", "truth")
        self.parts = {part for part in parts for cell in cells if getattr(cell, part) is not None}
        #: Of the models that have charts of their own: where the sample is blind, and the last rank that is known.
        counts = [self.estimates[model].counts for model in self.drawn if model in self.estimates]
        self.blind_spots = [spot for each in counts if (spot := blind_spot(each)) is not None]
        self.exact_to = max(map(exact_to, counts), default=0)

    def text(self, metric: str, value: float | None) -> str:
        """Write a value of the metric with the digits that suit it."""
        return number(value, self.digits[metric])

    def span(self, metric: str, ends: Pair | None) -> str:
        """Write ``0.120 to 0.145``, ``exact``, or a dash where there is nothing."""
        return interval_text(ends, self.digits[metric])

    @property
    def bounds_beyond(self) -> bool:
        """Whether the bounds of some number reach beyond the axis of its chart."""
        return any(
            cell.bounds is not None and cell.bounds[1] > reach[1] + 1e-9 * (reach[1] - reach[0])
            for column in self.columns.values()
            if (reach := axis_of(column)) is not None
            for cell in column
            if not math.isnan(cell.value)
        )

    def values(self, metric: str) -> dict[str, float]:
        """Return the values of all models by one metric, NaN where there is none."""
        return {cell.model: cell.value for cell in self.columns[metric]}

    def top(self, metric: str) -> float | None:
        """Return the largest value of a metric."""
        return max((value for value in self.values(metric).values() if not math.isnan(value)), default=None)

    @property
    def families(self) -> list[Metric]:
        """The metrics that have a curve over K, without their K, each once; of the user's own, those with a cut-off."""
        cut = [each for each in self.asked.values() if each.name != "auc" and (each.function is None or each.k)]
        first = {self.family(each): each for each in reversed(cut)}
        return [replace(first[name], k=None) for name in dict.fromkeys(map(self.family, cut))]

    def family(self, metric: Metric) -> tuple[str, bool]:
        """Return what metrics of one curve have in common: hit and recall are one only where users have one target."""
        return metric.name, self.several_targets and metric.first_hit

    def curves(self, family: Metric) -> list[Curve]:
        """Return the metric at K = 1..50 of each drawn model that has an estimate."""
        out = []
        for model in self.drawn:
            if (estimate := self.estimates.get(model)) is None:
                continue
            ks = tuple(range(1, min(DEEPEST, last_rank(estimate.counts)) + 1))
            # without a distribution (CLS, Mapping) every interval is sixty fits of its own: a curve, but no band
            cuts = [k for k in BAND_CUTS if k <= ks[-1]] if hasattr(estimate, "mass") else []
            band = []
            for k in cuts:
                with suppress(AttributeError, ValueError, TypeError, NotImplementedError):  # it may have none to give
                    ends = pair(tuple(estimate.interval(family @ k, level=self.level, target=self.target)))
                    band += [] if ends is None else [(k, *ends)]
            if all(low == high for _, low, high in band):  # known: there is no band to draw
                band = []
            out.append(Curve(model, ks, tuple(_clear(estimate.expect(family @ k)) for k in ks), tuple(band)))
        return out


def axis_of(cells: Sequence[Row]) -> Pair | None:
    """Return from where to where an axis of these numbers goes, which bounds do not stretch; ``None`` without numbers."""
    known = [row for row in cells if not math.isnan(row.value)]
    ends = [e for row in known for e in (row.value, *(row.interval or ()), row.naive, row.truth) if e is not None]
    if not ends:
        return None
    low, high = min(0.0, *ends), max(0.0, *ends)
    if min(ends) > 0.6 * high:  # far from zero and close together (AUC): dots need no zero, and differences need room
        low = min(ends) - 0.2 * (high - min(ends) or high)
    return low, high if high > low else low + 1.0


def rank_bins(estimate: Any) -> list[Bin]:
    """Return the share of cases at rank 1, 2-3, 4-7, …: doublings are equally wide on a logarithmic axis."""
    last = last_rank(estimate.counts, math.ceil)
    lows = [2**i for i in range(last.bit_length())]
    highs = [min(2 * low - 1, last) for low in lows]
    below = [0.0, *(float(estimate.expect(Recall @ high)) for high in highs)]
    shares = (_clear(b - a) for a, b in pairwise(below))
    return [Bin(*each) for each in zip(lows, highs, shares, strict=True)]


def blind_spot(counts: RankCounts) -> tuple[int, int] | None:
    """Return the first and the last rank at which a target comes out on top of its sample at least half of the time.

    In between ranks look alike: with m negatives among N items, θ = (R−1)/(N−1) and P(r = 1 | R) = (1 − θ)^m, or about
    (1 − m/(N−1))^(R−1) without replacement. Under ``Adaptive`` such a target goes through to the largest sample; under
    ``Top`` it begins where exact ranks end. ``None``: every rank looks different from the next (or everything was ranked).
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
    """Return the last rank that is known, those beyond being estimated; 0: there is no such border."""
    return int(counts.design.exact_to) if (counts.sizes != ALL).any() else 0


def sizes(counts: RankCounts) -> list[Size]:
    """Return how many cases ended with how many negatives; "all of them" comes last."""
    drawn = counts.column("drawn")
    found = [
        Size(int(each), int(counts.cases[drawn == each].sum()), int(counts.scored[drawn == each].sum()))
        for each in counts.sizes
    ]
    return sorted(found, key=lambda size: math.inf if size.drawn == ALL else size.drawn)


def last_rank(counts: RankCounts, rounded: Any = math.floor) -> int:
    """Return the last rank of which anything can be known."""
    return max(int(min(rounded(counts.pool_range[1]), counts.known_to)), 1)


def _clear(value: float) -> float:
    """Return the number; zero for one that is zero but for rounding, or not finite."""
    return float(value) if math.isfinite(value) and abs(value) > NOTHING else 0.0


def _ends(numbers: Iterable[int]) -> tuple[int, int]:
    found = list(numbers)
    return min(found), max(found)


def _few(words: Iterable[str]) -> tuple[str, ...]:
    found = [clean(each, 120) for each in dict.fromkeys(words) if each]
    return (*found[:MOST_WORDS], "…") if len(found) > MOST_WORDS else tuple(found)


def _distinct(models: Sequence[str]) -> dict[str, str]:
    """Return clean labels; where two names clean to the same, the second gets a number."""
    labels: dict[str, str] = {}
    for model in models:
        label, turn = clean(model), 1
        while label in labels.values():
            turn += 1
            label = f"{clean(model, 54)} ({turn})"
        labels[model] = label
    return labels
