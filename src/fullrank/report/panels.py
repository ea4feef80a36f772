"""Panels: each draws one chart of a report with Altair, and holds its words, its numbers and its legend.

Panels read alike on a phone, a wide screen and paper. Names stand beside what they name; where they cannot, the panel has a
legend. A :class:`Style` holds the colours: for the page they are CSS variables, so that one drawing serves light and dark.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fullrank.metrics import Metric
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL
from fullrank.report.digest import MOST_DRAWN, Bin, Cell, Curve, Digest, blind_spot, exact_to
from fullrank.report.words import clean, decimals, number, percent, signed

__all__ = [
    "KINDS",
    "NOTEBOOK",
    "PAGE",
    "WIDTH",
    "Panel",
    "Style",
    "as_data",
    "budget_panel",
    "difference_panel",
    "load_altair",
    "panels_of",
    "rank_panel",
    "sampled_bins",
    "span_text",
]  # fmt: skip

#: Panels are drawn this wide and scaled by the page: a column of a wide screen, the whole of a phone.
WIDTH = 340
#: Names in charts are cut to what fits beside the data.
LONGEST = 30


@dataclass(frozen=True)
class Style:
    """Colours of a chart. ``series`` are told apart by people with any colour vision, and have labels besides."""

    ink: str
    muted: str
    grid: str
    paper: str
    series: tuple[str, ...]

    def colour(self, place: int) -> str:
        """The colour of the model at this place; past the palette, a plain one."""
        return self.series[place] if place < len(self.series) else self.muted


PAGE = Style(
    ink="var(--ink)",
    muted="var(--muted)",
    grid="var(--grid)",
    paper="var(--paper)",
    series=tuple(f"var(--s{i})" for i in range(1, 7)),
)
#: In a notebook the background is unknown: middle tones that stand out from white and from black.
NOTEBOOK = Style(
    ink="#767676",
    muted="#8a8a8a",
    grid="#8883",
    paper="#ffffff00",
    series=("#2a7fbf", "#d2601a", "#1f9e79", "#c45a9a", "#a67c00", "#7a74c9"),
)


def load_altair() -> Any:
    """Altair, or a sentence that says how to get it."""
    try:
        import altair
    except ImportError:
        raise ImportError("charts are drawn with altair: install the extra, pip install 'fullrank[report]'.") from None
    return altair


@dataclass(frozen=True)
class Panel:
    """A chart, what it is called, what it shows in words, and its numbers as a table; ``metric``: the one it is about."""

    chart: Any
    title: str
    about: str
    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    metric: str = ""
    banded: bool = False
    #: What colours mean, where names do not stand beside what they name: (words, colour).
    legend: tuple[tuple[str, str], ...] = ()


#: The sections of charts, in the order of the page.
KINDS = ("results", "curves", "ranks", "budget")


def panels_of(shown: Digest, style: Style, kind: str) -> list[Panel]:
    """The panels of one section."""
    colours = {model: style.colour(place) for place, model in enumerate(shown.models)}
    if kind == "results":
        return [results_panel(shown, metric, style, colours) for metric in shown.metrics if _any(shown, metric)]
    known = [model for model in shown.drawn if model in shown.estimates]
    if kind == "curves":
        drawn = ((family, shown.curves(family)) for family in shown.families)
        return [curve_panel(shown, family, curves, style, colours) for family, curves in drawn if curves]
    if kind == "ranks":
        # CLS and Mapping answer for metrics one by one: they have no distribution to show
        spread = {model: shown.ranks(model) for model in known if hasattr(shown.estimates[model], "mass")}
        tallest = max((each.share for bins in spread.values() for each in bins), default=0.0)
        return [rank_panel(shown, model, bins, style, colours[model], tallest) for model, bins in spread.items()]
    sizes = {model: found for model in known if len(found := shown.sizes(model)) > 1}
    return [budget_panel(found, shown.labels[model], style, colours[model]) for model, found in sizes.items()]


def results_panel(shown: Digest, metric: str, style: Style, colours: MappingType[str, str]) -> Panel:
    """One row per model: value and interval, faint around them the bounds, hollow the uncorrected metric, a bar the truth.

    Bounds do not stretch the axis: where they reach further than all the rest, the band goes to the edge. With many models
    rows are low, names stand on an axis and numbers in the table below.
    """
    alt = load_altair()
    rows = [(m, cell) for m in shown.models if (cell := shown.cell(m, metric)).value is not None]
    many = len(rows) > MOST_DRAWN
    ends = [e for _, c in rows for e in (c.value, *(c.interval or ()), c.naive, c.truth) if e is not None]
    low, high = min(0.0, *ends), max(0.0, *ends)
    if min(ends) > 0.6 * high:  # far from zero and close together (AUC): dots need no zero, and differences need room
        low = min(ends) - 0.2 * (high - min(ends) or high)
    high = high if high > low else low + 1.0
    data: list[dict[str, Any]] = []
    for place, (model, cell) in enumerate(rows):
        lower, upper = cell.spread or (None, None)
        least, most = (None, None) if cell.bounds is None else (min(max(end, low), high) for end in cell.bounds)
        data.append({
            "row": place, "name": clean(shown.labels[model], LONGEST), "colour": colours[model], "value": cell.value,
            "low": lower, "high": upper, "least": least, "most": most, "truth": cell.truth, "from": _edge(cell),
            "naive": cell.naive if _apart(shown, metric, cell) else None, "tip": _tip(shown, metric, model, cell),
        })  # fmt: skip
    names = _name_axis([row["name"] for row in data]) if many else None
    y = alt.Y(
        "row:Q", title=None, axis=names, scale=alt.Scale(domain=[len(rows) - 0.45, -0.55], nice=False, zero=False)
    )
    axis = alt.Axis(tickCount=4, grid=True, format=axis_format(high - low), labelFlush=True)
    # zero=False: the layers share this axis, and those without a scale of their own would stretch it to zero
    x = alt.X("value:Q", title=None, axis=axis, scale=alt.Scale(domain=[low, high], nice=False, zero=False))
    base, colour, tip = alt.Chart(as_data(data)).encode(y=y), alt.Color("colour:N", scale=None), _tips(alt)
    band, line, dot = (9, 5, 40) if many else (13, 7, 72)
    layers = [
        base.mark_rule(strokeDash=[1, 3], color=style.muted).encode(x=alt.X("from:Q"), x2=alt.X2("naive:Q")),
        base.mark_rule(strokeWidth=band, opacity=0.16).encode(x=alt.X("least:Q"), x2=alt.X2("most:Q"), color=colour),
        base.mark_rule(strokeWidth=line, opacity=0.4, strokeCap="round").encode(
            x=alt.X("low:Q"), x2=alt.X2("high:Q"), color=colour
        ),
        base.mark_point(shape="circle", size=0.9 * dot, filled=True, fill=style.paper, stroke=style.muted,
                        strokeWidth=1.5, opacity=1).encode(x=alt.X("naive:Q"), **tip),
        base.mark_point(shape="circle", size=dot, filled=True, opacity=1).encode(x=x.copy(), color=colour, **tip),
    ]  # fmt: skip
    if shown.any("truth"):
        layers.append(base.mark_tick(thickness=2, size=20, color=style.ink).encode(x=alt.X("truth:Q"), **tip))
    if not many:
        words = base.mark_text(align="left", dy=-15, fontSize=12, fontWeight=600, color=style.ink)
        layers.append(words.encode(x=alt.value(0), text=alt.Text("name:N")))
        marks = [m for place, (_, cell) in enumerate(rows) for m in _placed(shown, metric, place, cell, low, high)]
        layers += _number_layers(marks, y, style)
    chart = alt.layer(*layers).properties(width=WIDTH, height=(24 if many else 54) * len(rows) + 36)
    about = f"{clean(metric)} of {len(rows)} model{'s' * (len(rows) != 1)}: " + "; ".join(row["tip"] for row in data)
    return Panel(chart, clean(metric), about, (), (), metric)


def _edge(cell: Cell) -> float | None:
    """Where the interval ends on the side of the uncorrected metric; that one itself where it lies inside."""
    low, high = cell.interval or (cell.value, cell.value)
    return None if cell.naive is None or low is None or high is None else min(max(cell.naive, low), high)


def _tip(shown: Digest, metric: str, model: str, cell: Cell) -> str:
    """A number and its company in words."""
    parts = [f"{shown.labels[model]}: {shown.text(metric, cell.value)}"]
    if cell.interval is not None:
        parts[0] += ", exact" if cell.exact else f" ({shown.level:.0%} interval {shown.span(metric, cell.interval)})"
    if cell.bounds is not None:
        parts.append(f"the data alone allow {shown.span(metric, cell.bounds)}")
    if _apart(shown, metric, cell):
        parts.append(f"uncorrected {shown.text(metric, cell.naive)}")
    if cell.truth is not None:
        parts.append(f"truth {shown.text(metric, cell.truth)}")
    return "; ".join(parts)


def _name_axis(names: Sequence[str]) -> Any:
    """An axis of names, one to a row."""
    short = json.dumps(_short(names, 18))
    places = list(range(len(names)))
    return load_altair().Axis(values=places, labelExpr=f"{short}[datum.value]", grid=False, labelLimit=120)


def _number_layers(marks: Sequence[MappingType[str, Any]], y: Any, style: Style) -> list[Any]:
    """The labels of dots, a layer for every alignment and kind."""
    alt, layers = load_altair(), []
    for align, shift in (("left", 2), ("center", 0), ("right", -2)):
        for kind, tone, weight in (("value", style.ink, 600), ("naive", style.muted, 400)):
            here = [mark for mark in marks if mark["align"] == align and mark["kind"] == kind]
            if here:
                text = alt.Chart(as_data(here)).mark_text(
                    align=align, dx=shift, dy=17, fontSize=11, fontWeight=weight, color=tone
                )
                layers.append(text.encode(x=alt.X("at:Q"), y=y.copy(), text=alt.Text("text:N")))
    return layers


def difference_panel(found: Any, style: Style, most: int) -> Panel:
    """The leader's lead over each of the others, with its interval; grey where it may be none."""
    alt = load_altair()
    digits, leader, others = found.digits, clean(found.winner), found.models[1 : most + 1]
    pairs = [found.pair(found.winner, other) for other in others]
    bounded = [(max(p.low, -1e6), min(p.high, 1e6)) for p in pairs]
    ends = [e for p, limits in zip(pairs, bounded, strict=True) for e in (*limits, p.difference)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    low, high = (low, high) if high > low else (low, low + 1.0)
    tones = [style.series[0] if found.told_apart(p.model, p.other) else style.muted for p in pairs]
    data = [
        {"row": place, "value": p.difference, "low": a, "high": b, "colour": tone,
         "tip": f"{leader} minus {clean(p.other)}: {signed(p.difference, digits)}"
                + (f" ({found.level:.0%} interval {signed(a, digits)} to {signed(b, digits)})" if a < b else ", exact")}
        for place, (p, (a, b), tone) in enumerate(zip(pairs, bounded, tones, strict=True))
    ]  # fmt: skip
    names = _name_axis([clean(p.other, LONGEST) for p in pairs])
    y = alt.Y("row:Q", title=None, axis=names, scale=alt.Scale(domain=[len(data) - 0.4, -0.6], nice=False, zero=False))
    axis = alt.Axis(tickCount=4, format=axis_format(high - low), labelFlush=True)
    x = alt.X("value:Q", title=f"{leader} is ahead by", axis=axis, scale=alt.Scale(domain=[low, high], nice=False))
    base, colour = alt.Chart(as_data(data)).encode(y=y), alt.Color("colour:N", scale=None)
    layers = [
        alt.Chart(as_data([{"value": 0}])).mark_rule(color=style.ink).encode(x=x),
        base.mark_rule(strokeWidth=5, opacity=0.4, strokeCap="round").encode(
            x=alt.X("low:Q"), x2=alt.X2("high:Q"), color=colour
        ),
        base.mark_point(shape="circle", size=56, filled=True, opacity=1).encode(x=x.copy(), color=colour, **_tips(alt)),
    ]  # fmt: skip
    chart = alt.layer(*layers).properties(width=WIDTH, height=26 * len(data) + 44)
    return Panel(chart, f"Lead of {leader}", "; ".join(row["tip"] for row in data), (), ())


def curve_panel(
    shown: Digest, family: Metric, curves: Sequence[Curve], style: Style, colours: MappingType[str, str]
) -> Panel:
    """The metric over K, a line per model with its name at the end, and a band where intervals are known."""
    alt = load_altair()
    height, name = 200, str(family)
    ends = [v for curve in curves for v in (*curve.values, *(e for _, *limits in curve.band for e in limits))]
    low, high = min(0.0, *ends), max(*ends, 0.0)
    high = high + 0.04 * (high - low) if high > low else 1.0
    deepest = max(curve.ks[-1] for curve in curves)
    digits = decimals([curve.values[-1] for curve in curves])
    y_scale = alt.Scale(domain=[low, high], nice=False)
    y = alt.Y("value:Q", title=None, scale=y_scale, axis=alt.Axis(tickCount=4, format=axis_format(high - low)))
    ticks = sorted({1, *(k for k in (10, 20, 30, 40, 50) if k <= deepest), *([deepest] if deepest < 10 else [])})
    x_axis = alt.Axis(values=ticks, grid=False, format="d")
    x = alt.X(
        "k:Q", title="cut-off K", axis=x_axis, scale=alt.Scale(domain=[min(1, deepest), max(deepest, 2)], nice=False)
    )
    colour = alt.Color("colour:N", scale=None)
    texts = {
        (curve.model, k): number(value, digits) + _limits({at: ends for at, *ends in curve.band}.get(k), digits)
        for curve in curves
        for k, value in zip(curve.ks, curve.values, strict=True)
    }
    lines = [
        {"k": k, "value": value, "model": shown.labels[curve.model], "colour": colours[curve.model],
         "tip": f"{shown.labels[curve.model]}: {name}@{k} = {texts[curve.model, k]}"}
        for curve in curves for k, value in zip(curve.ks, curve.values, strict=True)
    ]  # fmt: skip
    bands = [
        {"k": k, "low": a, "high": b, "model": shown.labels[curve.model], "colour": colours[curve.model]}
        for curve in curves
        for k, a, b in curve.band
    ]
    wanted, by_model = _cuts(shown, family), alt.Detail("model:N")
    dots = alt.Chart(as_data([one for one in lines if one["k"] in wanted])).mark_point(filled=True, opacity=1, size=40)
    line = alt.Chart(as_data(lines)).encode(x=x, y=y, color=colour)
    layers = [
        line.mark_line(strokeWidth=2).encode(detail=by_model),
        dots.encode(x=x, y=y, color=colour),
        line.mark_point(filled=True, opacity=0, size=120).encode(**_tips(alt)),  # large: what the pointer finds
    ]
    if bands:
        area = alt.Chart(as_data(bands)).mark_area(opacity=0.16)
        ends_of = {"y": alt.Y("low:Q", title=None), "y2": alt.Y2("high:Q")}
        layers.insert(0, area.encode(x=x, color=colour, detail=by_model, **ends_of))
    gap = (high - low) * 14 / (height - 48)  # a line of text; the axis below takes its part of the height
    places = _spread([curve.values[-1] for curve in curves], gap)
    names = _short([shown.labels[curve.model] for curve in curves])
    tags = [
        {"name": tag, "at": at, "k": curve.ks[-1], "colour": colours[curve.model]}
        for tag, at, curve in zip(names, places, curves, strict=True)
    ]
    words = alt.Chart(as_data(tags)).mark_text(align="left", dx=6, fontSize=11, fontWeight=600)
    layers.append(words.encode(x=x, y=alt.Y("at:Q", scale=y_scale), text=alt.Text("name:N"), color=colour))
    chart = alt.layer(*layers).properties(width=WIDTH, height=height)
    body = tuple((str(k), *(texts.get((curve.model, k), "–") for curve in curves)) for k in range(1, deepest + 1))
    about = f"{name}@K for K = 1 to {deepest}. At {deepest}: " + "; ".join(
        f"{shown.labels[curve.model]} {number(curve.values[-1], digits)}" for curve in curves
    )
    head = ("K", *(shown.labels[curve.model] for curve in curves))
    return Panel(chart, f"{name}@K", about, head, body, banded=bool(bands))


def _limits(ends: Sequence[float] | None, digits: int) -> str:
    return "" if ends is None else f" ({number(ends[0], digits)} to {number(ends[1], digits)})"


def rank_panel(shown: Digest, model: str, bins: Sequence[Bin], style: Style, colour: str, tallest: float) -> Panel:
    """Share of cases at rank 1, 2-3, 4-7, …, and shaded the ranks that the sample can hardly tell apart."""
    alt = load_altair()
    counts = shown.estimates[model].counts
    blind, exact = blind_spot(counts), exact_to(counts)
    label, last = shown.labels[model], bins[-1].high
    top = max(tallest, *(each.share for each in bins), 1e-9)
    # words stand above the tallest bar
    y_scale = alt.Scale(
        domain=[min(0.0, *(each.share for each in bins)), top * (1.3 if blind or exact else 1.12)], nice=False
    )
    scale = alt.Scale(type="log", domain=[1, max(last + 1, 2)], nice=False)
    ticks = [10**i for i in range(len(str(last)))]
    ticks = ticks[:: 2 if len(ticks) > 6 else 1]
    names = "datum.value < 1000 ? format(datum.value, 'd') : format(datum.value, '~s')"
    x = alt.X("low:Q", title="rank", scale=scale, axis=alt.Axis(values=ticks, labelExpr=names, grid=False))
    y = alt.Y("share:Q", title=None, scale=y_scale, axis=alt.Axis(tickCount=3, format="~%"))
    layers = []
    if blind is not None:
        shade = alt.Chart(as_data([{"low": blind[0], "high": blind[1], "tip": f"blind spot: ranks {_to(blind)}"}]))
        layers.append(shade.mark_rect(color=style.muted, opacity=0.16).encode(x=x, x2=alt.X2("high:Q"), **_tips(alt)))
        if math.log(blind[1] / blind[0]) > 0.2 * math.log(last):  # room for the words
            layers.append(
                shade.mark_text(
                    align="left", baseline="top", dx=5, dy=5, fontSize=11, color=style.muted, text="blind spot"
                ).encode(x=x, y=alt.value(0))
            )
    if exact:
        border = alt.Chart(
            as_data([{"low": exact + 1, "tip": f"ranks 1 to {exact:,} are exact, those beyond estimated"}])
        )
        words = f"exact to {exact:,}" if math.log(exact + 1) > 0.22 * math.log(last) else "exact"
        layers += [
            border.mark_rule(color=style.muted, strokeDash=[3, 3]).encode(x=x, description=alt.Description("tip:N")),
            border.mark_text(
                align="right", baseline="top", dx=-4, dy=5, fontSize=11, color=style.muted, text=words
            ).encode(x=x, y=alt.value(0)),
        ]
    data = [
        {"low": each.low, "high": each.high + 1, "share": each.share, "zero": 0,
         "tip": f"{label}, rank {span_text(each.low, each.high)}: {percent(each.share)} of cases"}
        for each in bins
    ]  # fmt: skip
    layers.append(
        alt.Chart(as_data(data))
        .mark_rect(color=colour, opacity=0.85, stroke=style.paper, strokeWidth=1)
        .encode(x=x, x2=alt.X2("high:Q"), y=y, y2=alt.Y2("zero:Q"), **_tips(alt))
    )
    chart = alt.layer(*layers).properties(width=WIDTH, height=150)
    total, body = 0.0, []
    for each in bins:
        total += each.share
        body.append((span_text(each.low, each.high), percent(each.share), percent(total)))
    most = max(bins, key=lambda each: each.share)
    about = (
        f"Estimated ranks of {label}: most cases at rank {span_text(most.low, most.high)}, {percent(most.share)}."
        + (f" Ranks 1 to {exact:,} are exact." if exact else "")
        + (f" Ranks {_to(blind)} are the blind spot." if blind is not None else "")
    )
    return Panel(chart, label, about, ("Rank", "Share of cases", "Up to here"), tuple(body))


def budget_panel(found: Sequence[Any], label: str, style: Style, colour: str) -> Panel:
    """Per sample size: share of the cases that ended there (grey), and of all scored items that they took (in colour)."""
    alt = load_altair()
    cases, scored = sum(each.cases for each in found), max(sum(each.scored for each in found), 1)
    found = _largest(found, 12)
    names = ["all" if each.drawn == ALL else f"{each.drawn:,}" for each in found]
    data = [
        {"size": name, "kind": kind, "share": share, "text": percent(share), "colour": tone,
         "tip": f"{name} negatives: {percent(share)} of {kind}"}
        for name, each in zip(names, found, strict=True)
        for kind, share, tone in (("cases", each.cases / cases, style.muted), ("items scored", each.scored / scored, colour))
    ]  # fmt: skip
    most = max(row["share"] for row in data)
    base = alt.Chart(as_data(data)).encode(
        y=alt.Y("size:N", sort=names, title=None, scale=alt.Scale(paddingInner=0.3)),
        yOffset=alt.YOffset("kind:N", sort=["cases", "items scored"]),
        x=alt.X("share:Q", axis=None, scale=alt.Scale(domain=[0, most * 1.2], nice=False)),
    )
    bars = base.mark_bar(opacity=0.85, cornerRadiusEnd=1)
    texts = base.mark_text(align="left", dx=4, fontSize=10.5, color=style.muted).encode(text=alt.Text("text:N"))
    layers = [bars.encode(color=alt.Color("colour:N", scale=None), **_tips(alt)), texts]
    chart = alt.layer(*layers).properties(width=WIDTH, height=40 * len(found) + 8)
    body = tuple(
        (name, f"{each.cases:,}", percent(each.cases / cases), f"{each.scored:,}", percent(each.scored / scored))
        for name, each in zip(names, found, strict=True)
    )
    about = f"Where {label or 'the sample'} spent {scored:,} scores: " + "; ".join(str(row["tip"]) for row in data)
    legend = (("share of cases", style.muted), ("share of items scored", colour))
    return Panel(chart, label, about, ("Negatives", "Cases", "Share", "Items scored", "Share"), body, legend=legend)


# -------------------------------------------------------------------------------------------------- pieces


def sampled_bins(counts: RankCounts, most: int = 50) -> list[tuple[int, int, float]]:
    """Shares of the sampled ranks in at most ``most`` bins of equal width."""
    ranks, weight = counts.sampled_ranks()
    step = -(-int(ranks.max()) // most)
    out: dict[int, float] = {}
    for rank, each in zip(ranks.tolist(), (weight / weight.sum()).tolist(), strict=True):
        place = (rank - 1) // step
        out[place] = out.get(place, 0.0) + each
    return [(place * step + 1, (place + 1) * step, share) for place, share in sorted(out.items())]


def as_data(rows: Sequence[MappingType[str, Any]]) -> Any:
    """Rows for a chart, as a tuple: Altair copies lists anew with every layer and every property."""
    return load_altair().Data(values=tuple(rows))


def _tips(alt: Any) -> dict[str, Any]:
    """What the pointer shows and what screen readers say: the field ``tip``."""
    return {"tooltip": alt.Tooltip("tip:N", title=" "), "description": alt.Description("tip:N")}


def axis_format(span: float) -> str:
    """Ticks without needless digits, in a D3 format."""
    return "~s" if span >= 1000 else "~r" if span >= 1e-4 else "~e"


def _apart(shown: Digest, metric: str, cell: Cell) -> bool:
    """Whether the sampled value is another number to the reader."""
    return cell.naive is not None and shown.text(metric, cell.naive) != shown.text(metric, cell.value)


def _any(shown: Digest, metric: str) -> bool:
    return any(shown.cell(model, metric).value is not None for model in shown.drawn)


def _placed(shown: Digest, metric: str, place: int, cell: Cell, low: float, high: float) -> list[dict[str, Any]]:
    """Number labels under their dots, turned outwards where the two are near each other or near the edge."""
    marks = [{"kind": "value", "at": cell.value}] + (
        [{"kind": "naive", "at": cell.naive}] if _apart(shown, metric, cell) else []
    )
    marks.sort(key=lambda mark: mark["at"])  # type: ignore[arg-type, return-value]  # never None here
    pixels = [WIDTH * (float(mark["at"]) - low) / (high - low) for mark in marks]  # type: ignore[arg-type]
    crowded = len(marks) == 2 and pixels[1] - pixels[0] < 44
    for turn, (mark, pixel) in enumerate(zip(marks, pixels, strict=True)):
        align = ("right", "left")[turn] if crowded else "center"
        align = (
            "left" if pixel < 20 and turn == 0 else "right" if pixel > WIDTH - 20 and turn == len(marks) - 1 else align
        )
        mark.update(row=place, text=shown.text(metric, mark["at"]), align=align)  # type: ignore[arg-type]
    if crowded and marks[0]["align"] == marks[1]["align"]:  # both pushed the same way: one label has to say both
        marks = [{**marks[0], "kind": "value", "text": " · ".join(str(mark["text"]) for mark in marks)}]
    return marks


def _cuts(shown: Digest, family: Metric) -> set[int]:
    """The cut-offs of this metric that the report is about."""
    found = set()
    for name in shown.metrics:
        head, _, cut = name.partition("@")
        if head == str(family) and cut.isdigit():
            found.add(int(cut[:9]))
    return found


def _spread(values: Sequence[float], gap: float) -> list[float]:
    """Positions at least ``gap`` apart, in the order of the values and as near to them as pushing apart allows."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    groups: list[tuple[list[int], float]] = []  # runs of labels that touch, and where their middle lies
    for i in order:
        groups.append(([i], values[i]))
        while len(groups) > 1:
            (upper, b), (lower, a) = groups[-1], groups[-2]
            if b - a >= gap * (len(upper) + len(lower)) / 2:
                break
            both = lower + upper
            groups[-2:] = [(both, (a * len(lower) + b * len(upper)) / len(both))]
    out = list(values)
    for members, middle in groups:
        for turn, i in enumerate(members):
            out[i] = middle + gap * (turn - (len(members) - 1) / 2)
    return out


def _largest(found: Sequence[Any], most: int) -> list[Any]:
    """With more sizes than can be drawn, those that took most, in order of size."""
    if len(found) <= most:
        return list(found)
    kept = sorted(found, key=lambda each: each.scored, reverse=True)[:most]
    return [each for each in found if each in kept]


def _short(labels: Sequence[str], most: int = 15) -> list[str]:
    """Names for the margin of a chart; where their beginnings are all that fits and the same, it is left out."""
    cut = [clean(label, most) for label in labels]
    if len(set(cut)) == len(cut):
        return cut
    common = next((i for i, letters in enumerate(zip(*labels, strict=False)) if len(set(letters)) > 1), 0)
    return [clean(f"…{label[common:]}", most) for label in labels]


def _to(ranks: tuple[int, int]) -> str:
    return f"{ranks[0]:,} to {ranks[1]:,}"


def span_text(low: int, high: int) -> str:
    """Write a range of ranks."""
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"
