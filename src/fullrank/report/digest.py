"""What a report says, cleaned and bounded: the page, the notebook and the charts all read from here.

A report may hold any number of rows with any names. Nothing below shows more than a reader can take in, and whatever is
left out is counted, so that the page can say so.
"""

from __future__ import annotations

import heapq
import math
import unicodedata
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fullrank.metrics import Metric, Recall
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL
from fullrank.report.row import Row
from fullrank.report.row import finite as finite_number

if TYPE_CHECKING:
    from fullrank.report.comparison import Comparison

__all__ = ["Bin", "Cell", "Curve", "Digest", "Pair", "Size", "Verdict", "blind_spot", "clean", "decimals", "digest",
           "exact_to", "number", "verdict"]  # fmt: skip

#: Models in tables, models in charts, models in the matrix of pairs; metrics; remarks; designs and estimators.
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
#: What is smaller than this is what arithmetic leaves of zero.
NOTHING = 1e-12


@dataclass(frozen=True)
class Cell:
    """One metric of one model; ``None`` where a number is missing or not finite."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    naive: float | None = None
    #: What the data alone allow; ``None`` also where that is the interval itself.
    bounds: tuple[float, float] | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, where there are both."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def exact(self) -> bool:
        """Whether the interval is a point, because all ranks that count are known (near zero dust is one too)."""
        return bool(self.value) and self.low is not None and self.low == self.high


@dataclass(frozen=True)
class Curve:
    """A metric of one model over cut-offs; ``band`` holds (k, low, high)."""

    model: str
    ks: tuple[int, ...]
    values: tuple[float, ...]
    band: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True)
class Bin:
    """Share of cases whose rank lies in ``low``..``high``."""

    low: int
    high: int
    share: float


@dataclass(frozen=True)
class Size:
    """Cases that ended with ``drawn`` negatives (0: all of them) and the items they took."""

    drawn: int
    cases: int
    scored: int


@dataclass(frozen=True)
class Pair:
    """Difference of two models, first minus second; without a comparison there is no interval."""

    difference: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The report in a headline and a few sentences."""

    headline: str
    sentences: tuple[str, ...] = ()


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
    notes: tuple[str, ...] = ()
    #: What the intervals assume, where the data alone allow much more.
    assumption: str = ""
    level: float = 0.95
    target: str = "cases"
    designs: tuple[str, ...] = ()
    estimators: tuple[str, ...] = ()
    #: The smallest and the largest number of cases (one number when they agree).
    cases: tuple[int, ...] = ()
    #: Label and sampled value of the model that the sample alone would name, over all rows of the first metric.
    naive_best: tuple[str, float] | None = None
    total_models: int = 0
    total_metrics: int = 0
    total_notes: int = 0

    @property
    def drawn(self) -> tuple[str, ...]:
        """The models that charts show."""
        return self.models[:MOST_DRAWN]

    def cell(self, model: str, metric: str) -> Cell:
        """One number with its company; empty when the report has none."""
        return self.cells.get((model, metric), Cell())

    def text(self, metric: str, value: float | None) -> str:
        """A value of the metric with the digits that suit it."""
        return number(value, self.digits.get(metric, 4))

    def span(self, metric: str, ends: tuple[float, float] | None) -> str:
        """``0.120 to 0.145``; a dash where there is nothing."""
        return "–" if ends is None else " to ".join(self.text(metric, end) for end in ends)

    @property
    def intervals(self) -> bool:
        """Whether any number has an interval that is more than a point."""
        return any(cell.low is not None and cell.low != cell.high for cell in self.cells.values())

    @property
    def bounded(self) -> bool:
        """Whether any number has bounds that say more than its interval."""
        return any(cell.bounds is not None for cell in self.cells.values())

    @property
    def naive(self) -> bool:
        """Whether any sampled value is known."""
        return any(cell.naive is not None for cell in self.cells.values())

    @property
    def exhaustive(self) -> bool:
        """Whether everything was ranked, so that nothing was estimated."""
        return self.designs == ("exhaustive",)

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
            deepest = max(min(DEEPEST, math.floor(estimate.counts.pool_range[1])), 1)
            # without a distribution (CLS, Mapping) every interval is sixty fits of its own: a curve, but no band
            cuts = BAND_CUTS if hasattr(estimate, "mass") else ()
            ks = range(1, deepest + 1)
            band = []
            for k in cuts:
                limits = interval(estimate, family @ k, self.level, self.target) if k <= deepest else None
                if limits is not None:
                    band.append((k, *limits))
            out.append(
                Curve(model, tuple(ks), tuple(finite(estimate.expect(family @ k)) or 0.0 for k in ks), tuple(band))
            )
        return out

    def ranks(self, model: str) -> list[Bin]:
        """Share of cases at rank 1, 2-3, 4-7, 8-15, …: doublings are equally wide on a logarithmic axis."""
        estimate = self.estimates[model]
        last = max(math.ceil(estimate.counts.pool_range[1]), 1)
        lows = [2**i for i in range(last.bit_length())]
        highs = [min(2 * low - 1, last) for low in lows]
        below = [0.0, *(float(estimate.expect(Recall @ high)) for high in highs)]
        shares = (finite(b - a) or 0.0 for a, b in pairwise(below))
        return [Bin(*each) for each in zip(lows, highs, shares, strict=True)]

    def sizes(self, model: str) -> list[Size]:
        """How many cases ended with how many negatives, smallest sample first."""
        return sizes(self.estimates[model].counts)

    def pair(self, metric: str, first: str, second: str) -> Pair | None:
        """Difference of two models in a metric: as compared, when the report has a comparison, else value by value."""
        held = self.comparison.get(metric)
        if held is not None and {first, second} <= set(held.models):
            each = held.pair(first, second)
            return Pair(each.difference, finite(each.low), finite(each.high))
        a, b = self.cell(first, metric).value, self.cell(second, metric).value
        return None if a is None or b is None else Pair(a - b)


def digest(report: Any) -> Digest:
    """The part of the report that is shown. The rows are read twice, however many there are."""
    rows: list[Row] = report.rows
    level = finite(report.provenance.get("level"))
    found = _survey(rows)
    if found.first is None:
        return Digest(notes=_notes(report.notes), total_notes=len(report.notes))
    models = list(dict.fromkeys(model for *_, model in sorted(found.best, reverse=True)))
    for model in found.models:  # those without a value of the first metric come last
        if len(models) >= MOST_MODELS:
            break
        if model not in models:
            models.append(model)
    shown, kept = set(models), dict(list(found.metrics.items())[:MOST_METRICS])
    cells = {(row.model, name): _cell(row) for row in rows if row.model in shown and (name := str(row.metric)) in kept}
    labels = _distinct(models)
    return Digest(
        models=tuple(models),
        labels=labels,
        metrics=tuple(kept),
        asked=kept,
        cells=cells,
        digits={metric: decimals(_numbers(cells, metric)) for metric in kept},
        estimates={name: each for name in models if (each := report.estimates.get(name)) is not None},
        comparison={name: each for name, each in report.comparison.items() if name in kept},
        notes=_notes(report.notes),
        assumption=report.assumption,
        level=level if level is not None and 0 < level < 1 else 0.95,
        target=str(report.provenance.get("target", "cases")),
        designs=_few(found.designs),
        estimators=_few(found.estimators),
        cases=found.cases,
        naive_best=None if found.naive is None else (labels.get(found.naive[1], clean(found.naive[1])), found.naive[0]),
        total_models=len(found.models),
        total_metrics=len(found.metrics),
        total_notes=len(report.notes),
    )


@dataclass
class _Survey:
    """What one pass over the rows finds: names in order of appearance, and the best by the first metric."""

    first: str | None = None
    metrics: dict[str, Metric] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)
    designs: dict[str, None] = field(default_factory=dict)
    estimators: dict[str, None] = field(default_factory=dict)
    cases: tuple[int, ...] = ()
    best: list[tuple[float, int, str]] = field(default_factory=list)  # a heap of (value, −place, model)
    naive: tuple[float, str] | None = None


def _survey(rows: Sequence[Row]) -> _Survey:
    found = _Survey()
    for place, row in enumerate(rows):
        model, metric = row.model, str(row.metric)
        found.models[model] = None
        found.metrics.setdefault(metric, row.metric)
        for name, kept in ((row.design, found.designs), (row.estimator, found.estimators)):
            if name and len(kept) <= MOST_WORDS:
                kept[name] = None
        if row.cases and row.cases not in found.cases:
            ends = (*found.cases, row.cases)
            found.cases = tuple(sorted({min(ends), max(ends)}))
        if found.first is None:
            found.first = metric
        if metric != found.first:
            continue
        if (value := finite(row.value)) is not None:
            if len(found.best) < MOST_MODELS:
                heapq.heappush(found.best, (value, -place, model))
            elif value > found.best[0][0]:
                heapq.heapreplace(found.best, (value, -place, model))
        if (naive := finite(row.naive)) is not None and (found.naive is None or naive > found.naive[0]):
            found.naive = (naive, model)
    return found


def _cell(row: Row) -> Cell:
    low, high = (None, None) if row.interval is None else row.interval
    bounds = None if row.bounds is None or row.bounds == row.interval else row.bounds
    return Cell(finite(row.value), finite(low), finite(high), finite(row.naive), bounds)


def verdict(shown: Digest) -> Verdict:
    """Who leads on the first metric, how sure that is, and whom the sample alone would have named."""
    if not shown.models:
        return Verdict("Nothing was evaluated", ("This report has no rows.",))
    metric = shown.metrics[0]
    best = shown.models[0]
    cell = shown.cell(best, metric)
    label, name = shown.labels[best], clean(metric)
    if cell.value is None:
        return Verdict(f"No value of {name}", (f"None of the {shown.total_models:,} models has a finite {name}.",))
    told = f"{name} is {_told(shown, metric, cell)}"
    catalogue = (
        "All candidates were ranked" if shown.exhaustive
        else "Exact on the full catalogue" if cell.exact
        else "Estimated for the full catalogue"
    )  # fmt: skip
    if shown.total_models == 1 or len(shown.models) == 1:
        return Verdict(f"{label}: {name} of {shown.text(metric, cell.value)}",
                       (f"{catalogue}, {told}.", *_off(shown, metric, cell)))  # fmt: skip
    second = shown.models[1]
    other = shown.cell(second, metric)
    if other.value == cell.value:
        tied = [shown.labels[model] for model in shown.models if shown.cell(model, metric).value == cell.value]
        names = " and ".join(tied) if len(tied) == 2 else f"{len(tied)} models"
        return Verdict(f"{names} tie on {name}", (f"{catalogue}, their {told}.",))
    lead = f"{catalogue}, its {told}; {shown.labels[second]} follows with {shown.text(metric, other.value)}."
    sure, how = _certainty(shown, metric, best, second)
    named: tuple[str, ...] = ()
    if shown.naive_best is not None and not shown.exhaustive and shown.naive_best[0] != label:
        wrong, value = shown.naive_best
        mine = "" if cell.naive is None else f", against {shown.text(metric, cell.naive)} for {label}"
        named = (
            f"The sampled ranks taken at face value would have named {wrong}: "
            f"its sampled {name} is {shown.text(metric, value)}{mine}.",
        )
    headline = f"{label} leads on {name}" if sure else f"{label} seems to lead on {name}"
    return Verdict(headline, (lead, how, *(named or _off(shown, metric, cell))))


def _told(shown: Digest, metric: str, cell: Cell) -> str:
    value = shown.text(metric, cell.value)
    if cell.low is None or cell.high is None or cell.low == cell.high:
        return value
    return f"{value} ({shown.level:.0%} interval {shown.text(metric, cell.low)} to {shown.text(metric, cell.high)})"


def _certainty(shown: Digest, metric: str, best: str, second: str) -> tuple[bool, str]:
    if shown.exhaustive:
        return True, "For these cases that is exact."
    pair, name = shown.pair(metric, best, second), shown.labels[second]
    if pair is not None and pair.low is not None and pair.low == pair.high:
        return True, "For these cases that is exact."
    if pair is not None and pair.low is not None and pair.high is not None:
        limits = f"{signed(pair.low, shown.digits[metric])} to {signed(pair.high, shown.digits[metric])}"
        if pair.low > 0:
            return True, f"The lead over {name} is clear: the {shown.level:.0%} interval of the difference is {limits}."
        return (
            False,
            f"The lead over {name} may be chance: the {shown.level:.0%} interval of the difference is {limits}.",
        )
    low = shown.cell(best, metric).low
    if low is None:
        return True, "No interval was computed, so how sure the lead is remains open."
    highs = [(cell.high, model) for model in shown.models[1:] if (cell := shown.cell(model, metric)).high is not None]
    rivals = [model for high, model in highs if high >= low]
    if not rivals:
        return True, "Its interval lies above those of all the others."
    return False, f"Its interval overlaps with that of {shown.labels[rivals[0]]}, so the order is not certain."


def _off(shown: Digest, metric: str, cell: Cell) -> tuple[str, ...]:
    if shown.exhaustive or cell.naive is None or not cell.value or cell.value < 0:
        return ()
    if 0.95 < cell.naive / cell.value < 1.05:  # AUC, say
        return ()
    return (
        f"The sampled ranks taken at face value say {shown.text(metric, cell.naive)}, "
        f"{times(cell.naive / cell.value)} the estimate.",
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


def clean(text: object, most: int = 60) -> str:
    """Text fit for one line of a page: no controls, no overrides of direction, no lone surrogates, at most ``most`` long.

    >>> clean("EASE\\x00\\n λ=1\\u202e")
    'EASE λ=1'
    """
    whole = str(text)[: 8 * most]
    kept = "".join(" " if unicodedata.category(c) in _UNFIT and c not in _JOINERS else c for c in whole)
    line = " ".join(kept.split())
    return (line if len(line) <= most else line[: most - 1] + "…") or "(no name)"


_UNFIT = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # part of emoji and of Indic and Persian spelling


def number(value: float | None, digits: int = 4) -> str:
    """A number with a true minus sign; a dash for none."""
    if value is None:
        return "–"
    if value and (abs(value) >= 1e9 or abs(value) < 0.5 * 10**-digits):
        return f"{value:.2g}".replace("-", "−")
    return f"{value:,.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 4) -> str:
    """A difference: with its sign, unless there is none."""
    return f"+{number(value, digits)}" if value > 0 else number(value + 0.0, digits)


def decimals(values: Iterable[float]) -> int:
    """Decimals that give the smallest of the values three digits, five at most.

    >>> decimals([0.0123, 0.4]), decimals([0.4, 0.9]), decimals([])
    (4, 3, 4)
    """
    sizes = [abs(value) for value in values if value]
    return 4 if not sizes else min(max(2 - math.floor(math.log10(min(sizes))), 0), 5)


def times(ratio: float) -> str:
    """``3.4 times``; no false digits."""
    return f"{ratio:,.0f} times" if ratio >= 20 else f"{ratio:.1f} times" if ratio >= 1.95 else f"{ratio:.2f} times"


def percent(share: float) -> str:
    """A share in percent, with a digit more where it is small."""
    if share and abs(share) < 0.0005:
        return f"{100 * share:.1g}%".replace("-", "−")
    return f"{100 * share:.0f}%" if abs(share) >= 0.1 else f"{100 * share:.1f}%".replace("-", "−")


def _numbers(cells: MappingType[tuple[str, str], Cell], metric: str) -> list[float]:
    return [cell.value for (_, name), cell in cells.items() if name == metric and cell.value is not None]


def _few(words: Iterable[str]) -> tuple[str, ...]:
    found = [clean(each, 120) for each in words]
    return (*found[:MOST_WORDS], "…") if len(found) > MOST_WORDS else tuple(found)


def _notes(notes: Sequence[object]) -> tuple[str, ...]:
    return tuple(clean(note, 400) for note in notes[:MOST_NOTES])


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
