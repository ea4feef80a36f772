"""Panels: each draws one chart of a report with Altair, and holds its words, its numbers and its legend.

Panels read alike on a phone, a wide screen and paper. Names stand beside what they name; where they cannot, the panel has a
legend. A :class:`Style` holds the colours: for the page they are CSS variables, so that one drawing serves light and dark.
Fields are given by the class of their channel (``alt.X("value:Q")``): bare words Altair looks up in all of its schema.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from fullrank._checks import require
from fullrank.metrics import Metric
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL
from fullrank.report.digest import MOST_DRAWN, Bin, Curve, Digest, Size, axis_of, blind_spot, exact_to, rank_bins, sizes
from fullrank.report.row import Row
from fullrank.report.words import clean, decimals, number, percent, ranged, signed

#: Panels are drawn this wide and scaled by the page: a column of a wide screen, the whole of a phone.
WIDTH = 340
#: Names in charts are cut to what fits beside the data.
LONGEST = 30


@dataclass(frozen=True)
class Style:
    """Colours of a chart. ``series`` are distinct to people with any colour vision, and have labels besides."""

    ink: str
    muted: str
    grid: str
    paper: str
    series: tuple[str, ...]

    def colour(self, place: int) -> str:
        """Return the colour of the model at this place; past the palette, a plain one."""
        return self.series[place] if place < len(self.series) else self.muted


PAGE = Style("var(--ink)", "var(--muted)", "var(--grid)", "var(--paper)", tuple(f"var(--s{i})" for i in range(1, 7)))
#: In a notebook the background is unknown: middle tones that stand out from white and from black.
NOTEBOOK = Style(
    "#767676", "#8a8a8a", "#8883", "#ffffff00", ("#2a7fbf", "#d2601a", "#1f9e79", "#c45a9a", "#a67c00", "#7a74c9")
)


def load(package: str = "altair") -> Any:
    """Return Altair, or another package that charts and pages need, or say how to get it."""
    return require(package, "drawing charts and pages", "'fullrank[report]'")


@dataclass(frozen=True)
class Panel:
    """A chart, what it is called, what it shows in words, and its numbers as a table; ``metric``: the one it is about."""

    chart: Any
    title: str
    about: str
    head: tuple[str, ...] = ()
    body: tuple[tuple[str, ...], ...] = ()
    metric: str = ""
    banded: bool = False
    #: What colours mean, where names do not stand beside what they name: (words, colour).
    legend: tuple[tuple[str, str], ...] = ()


#: The sections of charts, in the order of the page.
KINDS = ("results", "curves", "ranks", "budget")


def panels_of(shown: Digest, style: Style, kind: str) -> list[Panel]:
    """Return the panels of one section."""
    colours = {model: style.colour(place) for place, model in enumerate(shown.models)}
    known = [model for model in shown.drawn if model in shown.estimates]
    if kind == "results":
        seen = [metric for metric in shown.metrics if shown.top(metric) is not None]
        return [results_panel(shown, metric, style, colours) for metric in seen]
    if kind == "curves":
        drawn = ((family, shown.curves(family)) for family in shown.families)
        return [curve_panel(shown, family, curves, colours) for family, curves in drawn if curves]
    if kind == "ranks":
        # CLS and Mapping answer for metrics one by one: they have no distribution to show
        spread = {each: rank_bins(shown.estimates[each]) for each in known if hasattr(shown.estimates[each], "mass")}
        tallest = max((each.share for bins in spread.values() for each in bins), default=0.0)
        return [
            rank_panel(shown.estimates[model].counts, shown.labels[model], bins, style, colours[model], tallest)
            for model, bins in spread.items()
        ]
    ended = {model: found for model in known if len(found := sizes(shown.estimates[model].counts)) > 1}
    return [budget_panel(found, shown.labels[model], style, colours[model]) for model, found in ended.items()]


def results_panel(shown: Digest, metric: str, style: Style, colours: Mapping[str, str]) -> Panel:
    """Draw a row per model: value and interval, faintly the bounds, hollow the uncorrected metric, a bar the truth.

    Bounds do not stretch the axis: where they reach further than all the rest, the band goes to the edge and ends in an
    arrow. With many models rows are low, names stand on an axis and numbers in the table below.
    """
    alt = load()
    rows = [cell for cell in shown.columns[metric] if not math.isnan(cell.value)]
    many = len(rows) > MOST_DRAWN
    low, high = axis_of(rows) or (0.0, 1.0)
    data: list[dict[str, Any]] = []
    for place, row in enumerate(rows):
        lower, upper = row.spread or (None, None)
        least, most = (None, None) if row.bounds is None else (min(max(end, low), high) for end in row.bounds)
        cut = row.bounds is not None and row.bounds[1] > high + 1e-9 * (high - low)
        inner = row.interval or (row.value, row.value)  # a dotted line runs from its end to the uncorrected metric
        data.append({
            "row": place, "name": clean(shown.labels[row.model], LONGEST), "colour": colours[row.model],
            "value": row.value, "low": lower, "high": upper, "least": least, "most": most, "truth": row.truth,
            "further": high if cut else None,
            "from": None if row.naive is None else min(max(row.naive, inner[0]), inner[1]),
            "naive": row.naive if _apart(shown, metric, row) else None, "tip": _tip(shown, metric, row),
        })  # fmt: skip
    names = [row["name"] for row in data] if many else None
    band, line, dot = (9, 5, 40) if many else (13, 7, 72)
    base, y, interval, dots = _rows(data, names, low, high, None, line, dot)
    hollow = base.mark_point(
        shape="circle", size=0.9 * dot, filled=True, fill=style.paper, stroke=style.muted, strokeWidth=1.5, opacity=1
    )
    layers = [
        base.mark_rule(strokeDash=[1, 3], color=style.muted).encode(x=alt.X("from:Q"), x2=alt.X2("naive:Q")),
        base.mark_rule(strokeWidth=band, opacity=0.16).encode(
            x=alt.X("least:Q"), x2=alt.X2("most:Q"), color=by_colour()
        ),
        base.mark_point(shape="triangle-right", size=6 * band, filled=True, opacity=0.6, xOffset=band / 2).encode(
            x=alt.X("further:Q"), color=by_colour()
        ),
        interval,
        hollow.encode(x=alt.X("naive:Q"), **tips()),
        dots,
    ]
    if "truth" in shown.parts:
        layers.append(base.mark_tick(thickness=2, size=20, color=style.ink).encode(x=alt.X("truth:Q"), **tips()))
    if not many:
        words = base.mark_text(align="left", dy=-15, fontSize=12, fontWeight=600, color=style.ink)
        layers.append(words.encode(x=alt.XValue(0), text=alt.Text("name:N")))
        labels = [_numbers(shown, metric, row, low, high, style) for row in rows]
        numbers = chart_of([{"row": place, **label} for place, each in enumerate(labels) for label in each])
        own = {"align": alt.expr("datum.align"), "dx": alt.expr("datum.dx"), "fontWeight": alt.expr("datum.weight")}
        texts = numbers.mark_text(dy=17, fontSize=11, **own)
        layers.append(texts.encode(x=alt.X("at:Q"), y=y, text=alt.Text("text:N"), color=by_colour()))
    chart = alt.layer(*layers).properties(width=WIDTH, height=(24 if many else 54) * len(rows) + 36)
    about = f"{clean(metric)} of {len(rows)} model{'s' * (len(rows) != 1)}: " + "; ".join(row["tip"] for row in data)
    return Panel(chart, clean(metric), about, metric=metric)


def difference_panel(found: Any, style: Style, most: int) -> Panel:
    """Draw the leader's lead over each of the others, with its interval; grey where it may be none."""
    alt = load()
    digits, leader, others = found.digits, clean(found.winner), found.models[1 : most + 1]
    data = []
    for place, other in enumerate(others):
        pair = found.pair(found.winner, other)
        a, b = max(pair.low, -1e6), min(pair.high, 1e6)
        ends = f" ({found.level:.0%} interval {signed(a, digits)} to {signed(b, digits)})" if a < b else ", exact"
        tone = style.series[0] if found.told_apart(found.winner, other) else style.muted
        data.append({"row": place, "value": pair.difference, "low": a, "high": b, "colour": tone,
                     "tip": f"{leader} minus {clean(other)}: {signed(pair.difference, digits)}{ends}"})  # fmt: skip
    reach = [0.0, *(row[end] for row in data for end in ("low", "high", "value"))]
    low, high = min(reach), max(reach)
    names = [clean(other, LONGEST) for other in others]
    _, _, interval, dots = _rows(data, names, low, high if high > low else low + 1.0, f"{leader} is ahead by", 5, 56)
    zero = chart_of([{"value": 0}]).mark_rule(color=style.ink).encode(x=alt.X("value:Q"))
    chart = alt.layer(zero, interval, dots).properties(width=WIDTH, height=26 * len(data) + 44)
    return Panel(chart, f"Lead of {leader}", "; ".join(row["tip"] for row in data))


def _rows(
    data: Sequence[Mapping[str, Any]], names: Sequence[str] | None, low: float, high: float, title: str | None,
    line: float, dot: float,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Return a chart with one row per entry, its y, which has an axis of the names, and layers of intervals and values."""
    alt = load()
    axis = None
    if names is not None:
        label = f"{json.dumps(_short(names, 18))}[datum.value]"
        axis = alt.Axis(values=list(range(len(names))), labelExpr=label, grid=False, labelLimit=120)
    y_scale = alt.Scale(domain=[len(data) - 0.45, -0.55], nice=False, zero=False)
    y = alt.Y("row:Q", title=None, axis=axis, scale=y_scale)
    ticks = alt.Axis(tickCount=4, grid=True, format=axis_format(high - low), labelFlush=True)
    # zero=False: the layers share this axis, and those without a scale of their own would stretch it to zero
    x = alt.X("value:Q", title=title, axis=ticks, scale=alt.Scale(domain=[low, high], nice=False, zero=False))
    base = chart_of(data).encode(y=y)
    rule = base.mark_rule(strokeWidth=line, opacity=0.4, strokeCap="round")
    interval = rule.encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), color=by_colour())
    dots = base.mark_point(shape="circle", size=dot, filled=True, opacity=1)
    return base, y, interval, dots.encode(x=x, color=by_colour(), **tips())


def _tip(shown: Digest, metric: str, cell: Row) -> str:
    """Write a number and its company in words."""
    parts = [f"{shown.labels[cell.model]}: {shown.text(metric, cell.value)}"]
    if cell.interval is not None:
        parts[0] += ", exact" if cell.exact else f" ({shown.level:.0%} interval {shown.span(metric, cell.interval)})"
    if cell.bounds is not None:
        parts.append(f"the data alone allow {shown.span(metric, cell.bounds)}")
    if _apart(shown, metric, cell):
        parts.append(f"uncorrected {shown.text(metric, cell.naive)}")
    if cell.truth is not None:
        parts.append(f"truth {shown.text(metric, cell.truth)}")
    return "; ".join(parts)


def _apart(shown: Digest, metric: str, cell: Row) -> bool:
    """Tell whether the uncorrected value is another number to the reader."""
    return cell.naive is not None and shown.text(metric, cell.naive) != shown.text(metric, cell.value)


def _numbers(shown: Digest, metric: str, cell: Row, low: float, high: float, style: Style) -> list[dict[str, Any]]:
    """Return number labels to stand under their dots, turned outwards where they are near each other or the edge."""
    dots = [(cell.value, style.ink, 600)]
    if cell.naive is not None and _apart(shown, metric, cell):
        dots = sorted([*dots, (cell.naive, style.muted, 400)])
    texts = [shown.text(metric, at) for at, _, _ in dots]
    pixels = [WIDTH * (at - low) / (high - low) for at, _, _ in dots]
    crowded = len(dots) == 2 and pixels[1] - pixels[0] < 44
    sides = ["right", "left"] if crowded else ["center"] * len(dots)
    if pixels[-1] > WIDTH - 20:
        sides[-1] = "right"
    if pixels[0] < 20:
        sides[0] = "left"
    if crowded and sides[0] == sides[1]:  # both pushed the same way: one label has to say both
        dots, texts = [(dots[0][0], style.ink, 600)], [" · ".join(texts)]
    return [
        {"at": at, "colour": tone, "weight": weight, "text": text, "align": side,
         "dx": {"left": 2, "center": 0, "right": -2}[side]}
        for (at, tone, weight), text, side in zip(dots, texts, sides, strict=False)
    ]  # fmt: skip


def curve_panel(shown: Digest, family: Metric, curves: Sequence[Curve], colours: Mapping[str, str]) -> Panel:
    """Draw the metric over K, a line per model with its name at the end, and a band where intervals are known."""
    alt = load()
    height, name, labels = 200, str(family), shown.labels
    ends = [v for curve in curves for v in (*curve.values, *(e for _, *limits in curve.band for e in limits))]
    low, high = min(0.0, *ends), max(*ends, 0.0)
    high = high + 0.04 * (high - low) if high > low else 1.0
    deepest = max(curve.ks[-1] for curve in curves)
    digits = decimals([curve.values[-1] for curve in curves])
    y_scale = alt.Scale(domain=[low, high], nice=False)
    y = alt.Y("value:Q", title=None, scale=y_scale, axis=alt.Axis(tickCount=4, format=axis_format(high - low)))
    ticks = sorted({1, *(k for k in (10, 20, 30, 40, 50) if k <= deepest), *([deepest] if deepest < 10 else [])})
    x_scale = alt.Scale(domain=[min(1, deepest), max(deepest, 2)], nice=False)
    x = alt.X("k:Q", title="cut-off K", axis=alt.Axis(values=ticks, grid=False, format="d"), scale=x_scale)
    texts: dict[tuple[str, int], str] = {}
    lines, bands = [], []
    for curve in curves:
        about = {"model": labels[curve.model], "colour": colours[curve.model]}
        bands += [{"k": k, "low": a, "high": b, **about} for k, a, b in curve.band]
        band = {k: f" ({number(a, digits)} to {number(b, digits)})" for k, a, b in curve.band}
        for k, value in zip(curve.ks, curve.values, strict=True):
            texts[curve.model, k] = number(value, digits) + band.get(k, "")
            tip = f"{labels[curve.model]}: {name}@{k} = {texts[curve.model, k]}"
            lines.append({"k": k, "value": value, **about, "tip": tip})
    wanted = {m.k for m in shown.asked.values() if shown.family(m) == shown.family(family)}
    by_model = alt.Detail("model:N")
    dots = chart_of([one for one in lines if one["k"] in wanted]).mark_point(filled=True, opacity=1, size=40)
    line = chart_of(lines).encode(x=x, y=y, color=by_colour())
    layers = [
        line.mark_line(strokeWidth=2).encode(detail=by_model),
        dots.encode(x=x, y=y, color=by_colour()),
        line.mark_point(filled=True, opacity=0, size=120).encode(**tips()),  # large: what the pointer finds
    ]
    if bands:
        area = chart_of(bands).encode(x=x, y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q"), color=by_colour())
        layers.insert(0, area.mark_area(opacity=0.16).encode(detail=by_model))
    gap = (high - low) * 14 / (height - 48)  # a line of text; the axis below takes its part of the height
    places = spread([curve.values[-1] for curve in curves], gap)
    names = _short([labels[curve.model] for curve in curves])
    tags = [
        {"name": tag, "at": at, "k": curve.ks[-1], "colour": colours[curve.model]}
        for tag, at, curve in zip(names, places, curves, strict=True)
    ]
    words = chart_of(tags).mark_text(align="left", dx=6, fontSize=11, fontWeight=600)
    layers.append(words.encode(x=x, y=alt.Y("at:Q", scale=y_scale), text=alt.Text("name:N"), color=by_colour()))
    chart = alt.layer(*layers).properties(width=WIDTH, height=height)
    body = tuple((str(k), *(texts.get((curve.model, k), "–") for curve in curves)) for k in range(1, deepest + 1))
    last = "; ".join(f"{labels[curve.model]} {number(curve.values[-1], digits)}" for curve in curves)
    about_all = f"{name}@K for K = 1 to {deepest}. At {deepest}: {last}"
    head = ("K", *(labels[curve.model] for curve in curves))
    return Panel(chart, f"{name}@K", about_all, head, body, banded=bool(bands))


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Return positions at least ``gap`` apart, in the order of the values and as near to them as pushing apart allows."""
    from scipy.optimize import isotonic_regression

    order, gaps = np.argsort(values, kind="stable"), gap * np.arange(len(values))
    out = np.array(values, dtype=np.float64)
    out[order] = isotonic_regression(out[order] - gaps).x + gaps
    return [float(place) for place in out]


def rank_panel(counts: RankCounts, label: str, bins: list[Bin], style: Style, colour: str, tallest: float = 0) -> Panel:
    """Draw the share of cases at rank 1, 2-3, 4-7, …, and shade the ranks that the sample can hardly tell apart."""
    alt = load()
    blind, exact, last = blind_spot(counts), exact_to(counts), bins[-1].high
    shares = [each.share for each in bins]
    top = max(tallest, *shares, 1e-9) * (1.3 if blind or exact else 1.12)  # words stand above the tallest bar
    ticks = [10**i for i in range(len(str(last)))]
    ticks = ticks[:: 2 if len(ticks) > 6 else 1]
    names = "datum.value < 1000 ? format(datum.value, 'd') : format(datum.value, '~s')"
    scale = alt.Scale(type="log", domain=[1, max(last + 1, 2)], nice=False)
    x = alt.X("low:Q", title="rank", scale=scale, axis=alt.Axis(values=ticks, labelExpr=names, grid=False))
    y_scale = alt.Scale(domain=[min(0.0, *shares), top], nice=False)
    y = alt.Y("share:Q", title=None, scale=y_scale, axis=alt.Axis(tickCount=3, format="~%"))
    note = {"baseline": "top", "dy": 5, "fontSize": 11, "color": style.muted}
    layers, about = [], ""
    if exact:
        border = chart_of([{"low": exact + 1, "tip": f"ranks 1 to {exact:,} are exact, those beyond estimated"}])
        words = f"exact to {exact:,}" if math.log(exact + 1) > 0.22 * math.log(last) else "exact"
        layers += [
            border.mark_rule(color=style.muted, strokeDash=[3, 3]).encode(x=x, description=alt.Description("tip:N")),
            border.mark_text(align="right", dx=-4, text=words, **note).encode(x=x, y=alt.YValue(0)),
        ]
        about += f" Ranks 1 to {exact:,} are exact."
    if blind is not None:
        spot = f"{blind[0]:,} to {blind[1]:,}"
        shade = chart_of([{"low": blind[0], "high": blind[1], "tip": f"blind spot: ranks {spot}"}])
        shaded = [shade.mark_rect(color=style.muted, opacity=0.16).encode(x=x, x2=alt.X2("high:Q"), **tips())]
        if math.log(blind[1] / blind[0]) > 0.2 * math.log(last):  # room for the words
            words = shade.mark_text(align="left", dx=5, text="blind spot", **note)
            shaded.append(words.encode(x=x, y=alt.YValue(0)))
        layers = shaded + layers
        about += f" Ranks {spot} are the blind spot."
    data = [
        {"low": each.low, "high": each.high + 1, "share": each.share, "zero": 0,
         "tip": f"{label}, rank {ranged(each.low, each.high)}: {percent(each.share)} of cases"}
        for each in bins
    ]  # fmt: skip
    bars = chart_of(data).mark_rect(color=colour, opacity=0.85, stroke=style.paper, strokeWidth=1)
    layers.append(bars.encode(x=x, x2=alt.X2("high:Q"), y=y, y2=alt.Y2("zero:Q"), **tips()))
    chart = alt.layer(*layers).properties(width=WIDTH, height=150)
    ranks = [ranged(each.low, each.high) for each in bins]
    body = tuple(zip(ranks, map(percent, shares), map(percent, accumulate(shares)), strict=True))
    most = shares.index(max(shares))
    about = f"Estimated ranks of {label}: most cases at rank {ranks[most]}, {percent(shares[most])}.{about}"
    return Panel(chart, label, about, ("Rank", "Share of cases", "Up to here"), body)


def budget_panel(found: Sequence[Size], label: str, style: Style, colour: str) -> Panel:
    """Draw for each sample size the share of cases that ended there (grey), and of scored items they took (in colour)."""
    alt = load()
    cases, scored = sum(each.cases for each in found), max(sum(each.scored for each in found), 1)
    kept = sorted(found, key=lambda each: each.scored, reverse=True)[:12]  # no more than can be drawn
    found = [each for each in found if each in kept]
    names = ["all" if each.drawn == ALL else f"{each.drawn:,}" for each in found]
    data: list[dict[str, Any]] = [
        {"size": name, "kind": kind, "share": share, "text": percent(share), "colour": tone,
         "tip": f"{name} negatives: {percent(share)} of {kind}"}
        for name, each in zip(names, found, strict=True)
        for kind, share, tone in (("cases", each.cases / cases, style.muted), ("items scored", each.scored / scored, colour))
    ]  # fmt: skip
    most = max(row["share"] for row in data)
    base = chart_of(data).encode(
        y=alt.Y("size:N", sort=names, title=None, scale=alt.Scale(paddingInner=0.3)),
        yOffset=alt.YOffset("kind:N", sort=["cases", "items scored"]),
        x=alt.X("share:Q", axis=None, scale=alt.Scale(domain=[0, most * 1.2], nice=False)),
    )
    bars = base.mark_bar(opacity=0.85, cornerRadiusEnd=1).encode(color=by_colour(), **tips())
    texts = base.mark_text(align="left", dx=4, fontSize=10.5, color=style.muted).encode(text=alt.Text("text:N"))
    chart = alt.layer(bars, texts).properties(width=WIDTH, height=40 * len(found) + 8)
    body = tuple(
        (name, f"{each.cases:,}", percent(each.cases / cases), f"{each.scored:,}", percent(each.scored / scored))
        for name, each in zip(names, found, strict=True)
    )
    about = f"Where {label or 'the sample'} spent {scored:,} scores: " + "; ".join(str(row["tip"]) for row in data)
    legend = (("share of cases", style.muted), ("share of items scored", colour))
    return Panel(chart, label, about, ("Negatives", "Cases", "Share", "Items scored", "Share"), body, legend=legend)


def chart_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a chart of rows, as a tuple: Altair copies lists anew with every layer and every property."""
    alt = load()
    return alt.Chart(alt.Data(values=tuple(rows)))


def tips() -> dict[str, Any]:
    """Return what the pointer shows and what screen readers read: the field ``tip``."""
    alt = load()
    return {"tooltip": alt.Tooltip("tip:N", title=" "), "description": alt.Description("tip:N")}


def by_colour() -> Any:
    """Return what gives each mark the colour in its field ``colour``."""
    return load().Color("colour:N", scale=None)


def axis_format(span: float) -> str:
    """Return a D3 format for ticks without needless digits."""
    return "~s" if span >= 1000 else "~r" if span >= 1e-4 else "~e"


def _short(labels: Sequence[str], most: int = 15) -> list[str]:
    """Cut names for the margin of a chart; where their beginnings are all that fits and the same, it is left out."""
    cut = [clean(label, most) for label in labels]
    if len(set(cut)) == len(cut):
        return cut
    common = next((i for i, letters in enumerate(zip(*labels, strict=False)) if len(set(letters)) > 1), 0)
    return [clean(f"…{label[common:]}", most) for label in labels]
