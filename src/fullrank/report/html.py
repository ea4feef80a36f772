"""The report as one page: a single file that opens offline, from a mail attachment, on a phone, and prints.

No script and no request: charts are inline SVG whose colours are CSS variables, tooltips are SVG titles, and every chart
has its numbers in a table behind it that the keyboard reaches. Whatever comes from the report is cleaned, bounded (see
:mod:`.digest`) and escaped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from html import escape
from importlib.resources import files
from itertools import count
from pathlib import Path
from string import Template
from typing import Any
from xml.etree import ElementTree

from fullrank._files import write_atomically
from fullrank._version import __version__
from fullrank.ranks.design import ALL
from fullrank.report.charts import KINDS, PAGE, Panel, limits_text, panels_of, svg
from fullrank.report.digest import (
    MOST_DRAWN,
    MOST_PAIRED,
    Digest,
    blind_spot,
    clean,
    digest,
    exact_to,
    finite,
    number,
    percent,
    signed,
    verdict,
)

__all__ = ["page", "sheet", "write_page"]

#: Pages stay below this, whatever the report.
MOST_BYTES = 2_000_000
MOST_FACTS = 60
_FOOTER = f"<footer>Made with fullrank {__version__}. This file is complete: it loads and runs nothing.</footer>"


def write_page(page: str, path: str | Path) -> Path:
    """Write the page to ``path`` atomically and return where it is."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ValueError(f"`path` is {str(target)!r}: there is no folder {str(target.parent)!r}; make it first.")
    if target.is_dir():
        raise ValueError(f"`path` is {str(target)!r}, a folder: name a file in it, such as 'report.html'.")
    write_atomically(target, page.encode())
    return target


def page(report: Any) -> str:
    """The page as text."""
    shown = digest(report)
    said = verdict(shown)
    panels = {kind: panels_of(shown, PAGE, kind) for kind in KINDS} if shown.models else {}
    fresh = count(1)
    sections = [
        ("results", "Results", _results(shown, panels, fresh)),
        ("cut-offs", "By cut-off", _curves(shown, panels, fresh)),
        ("ranks", "Where targets rank", _ranks(shown, panels, fresh)),
        ("budget", "Where the budget went", _budget(shown, panels, fresh)),
        ("pairs", "Model against model", _pairs(shown)),
        ("design", "Design and provenance", _provenance(report, shown)),
        ("reading", "How to read this", _reading(shown)),
    ]
    kept = [(anchor, title, body) for anchor, title, body in sections if body]
    links = "".join(f'<li><a href="#{anchor}">{title}</a></li>' for anchor, title, _ in kept)
    body = [
        '<a class="skip" href="#results">Skip to the results</a>' if shown.models else "",
        "<header>",
        f'<p class="eyebrow">fullrank report{_subtitle(report)}</p>',
        f"<h1>{_text(said.headline)}</h1>",
        f'<p class="lede">{_text(" ".join(said.sentences))}</p>',
        _facts(shown),
        _remarks(shown.notes, shown.total_notes),
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
        "</header>",
        "<main>",
        *(
            f'<section id="{anchor}" aria-labelledby="{anchor}-title"><h2 id="{anchor}-title">{title}</h2>{inner}</section>'
            for anchor, title, inner in kept
        ),
        "</main>",
        _FOOTER,
    ]
    return _whole(said.headline, body)


def sheet(
    kind: str,
    headline: str,
    lede: str,
    facts: Sequence[tuple[str, str, str]],
    notes: Sequence[str],
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
    panel: Panel | None = None,
) -> str:
    """A page of one table and perhaps a chart, in the look of the report's; ``facts`` are (name, value, more)."""
    head, rows = table
    cells = "".join(
        f'<tr><th scope="row">{_text(row[0])}</th>{"".join(f"<td>{_text(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    drawn = "" if panel is None else _figure(panel, panel.title, "", 1)
    body = [
        f'<header><p class="eyebrow">fullrank {_text(kind)}</p><h1>{_text(headline)}</h1><p class="lede">{_text(lede)}</p>',
        _strip(facts),
        _remarks(notes, len(notes)),
        '</header><main><section id="results">',
        _scroll(f"<table><thead>{_head(head)}</thead><tbody>{cells}</tbody></table>", kind),
        f"</section><section>{drawn}</section>" if drawn else "</section>",
        f"</main>{_FOOTER}",
    ]
    return _whole(headline, body)


def _whole(headline: str, body: Sequence[str]) -> str:
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=_text(f"{headline} · fullrank"), version=_text(__version__), body="\n".join(filter(None, body))
    )


# -------------------------------------------------------------------------------------------------- sections


def _facts(shown: Digest) -> str:
    """The frame of the evaluation, as a strip of numbers."""
    if not shown.models:
        return ""
    facts: list[tuple[str, str, str]] = []
    if shown.total_models > 1:
        facts.append(("Models", f"{shown.total_models:,}", ""))
    if shown.cases:
        facts.append(("Cases", _range(shown.cases[0], shown.cases[-1]), "held-out items"))
    counts = [estimate.counts for estimate in shown.estimates.values()]
    if counts:
        low, high = min(each.pool_range[0] for each in counts), max(each.pool_range[1] for each in counts)
        names = ", ".join(dict.fromkeys(clean(each.candidates) for each in counts))
        facts.append(("Candidates", _range(round(low), round(high)), f"{names}; per case, target included"))
        cases = max(sum(len(each) for each in counts), 1)
        scored = sum(each.items_scored for each in counts)
        full = max(sum(len(each) * max(each.n_items - 1, 1) for each in counts), 1)
        each_case = scored / cases
        facts.append(("Scored per case", f"{each_case:,.0f}", f"{percent(min(scored / full, 1))} of the catalogue"))
    if shown.designs:
        facts.append(("Design", "; ".join(shown.designs), ""))
    if shown.estimators:
        facts.append(("Estimator", "; ".join(shown.estimators), ""))
    return _strip(facts)


def _strip(facts: Sequence[tuple[str, str, str]]) -> str:
    items = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}{f'<small>{_text(more)}</small>' if more else ''}</dd></div>"
        for name, value, more in facts
    )
    return f'<dl class="facts">{items}</dl>'


def _remarks(notes: Sequence[str], total: int) -> str:
    if not notes:
        return ""
    items = [f"<li>{_text(note)}</li>" for note in notes]
    if total > len(notes):
        items.append(f"<li>… and {total - len(notes):,} more remarks.</li>")
    return (
        f'<aside class="notes" aria-labelledby="remarks"><h2 id="remarks">Remarks</h2><ul>{"".join(items)}</ul></aside>'
    )


def _results(shown: Digest, panels: dict[str, list[Panel]], fresh: Iterator[int]) -> str:
    if not shown.models:
        return ""
    filled = "<b>Filled</b>: the value on the full catalogue" if not shown.exhaustive else "<b>Filled</b>: the value"
    if shown.intervals:
        filled += f", with its {shown.level:.0%} interval"
    faint = "; <b>faint</b>: what the data alone allow" if shown.bounded else ""
    hollow = "; <b>hollow</b>: the same metric of the sampled ranks, taken at face value" if _any_naive(shown) else ""
    left = []
    if shown.total_models > len(shown.models):
        left.append(f"The tables show the best {len(shown.models)} of {shown.total_models:,} models")
    if len(shown.models) > MOST_DRAWN:
        left.append(f"charts show the best {MOST_DRAWN}" if left else f"Charts show the best {MOST_DRAWN} models")
    if shown.total_metrics > len(shown.metrics):
        more = f"the first {len(shown.metrics)} of {shown.total_metrics:,} metrics are shown"
        left.append(more if left else more[0].upper() + more[1:])
    left_out = f" {_text('; '.join(left))}." if left else ""
    assumed = f'<p class="say quiet">{_text(shown.assumption)}</p>' if shown.assumption else ""
    drawn = {panel.metric: panel for panel in panels["results"]}
    figures = "".join(
        _figure(drawn.get(metric), clean(metric), _metric_table(shown, metric), next(fresh)) for metric in shown.metrics
    )
    return f'<p class="say">{filled}{faint}{hollow}.{left_out}</p>{assumed}<div class="panels">{figures}</div>'


def _metric_table(shown: Digest, metric: str) -> str:
    naive, intervals = _any_naive(shown), shown.intervals
    head = ["Model", "Full catalogue" if not shown.exhaustive else "Value"]
    head += (["Bounds"] if shown.bounded else []) + (["Sampled, at face value"] if naive else [])
    lines = []
    for place, model in enumerate(shown.models):
        cell = shown.cell(model, metric)
        value = f"<b>{_text(shown.text(metric, cell.value))}</b>"
        if intervals and cell.low is not None:
            limits = "exact" if cell.exact else limits_text(shown, metric, cell)
            value += f"<small>{_text(limits)}</small>"
        cells = [f"<td>{value}</td>"]
        if shown.bounded:
            cells.append(f'<td class="quiet">{_text(shown.span(metric, cell.bounds))}</td>')
        if naive:
            known = cell.naive is not None and cell.value is not None and cell.value > 0
            ratio = f"<small>× {_ratio((cell.naive or 0.0) / (cell.value or 1.0))}</small>" if known else ""
            cells.append(f'<td class="quiet">{_text(shown.text(metric, cell.naive))}{ratio}</td>')
        swatch = (
            f'<span class="swatch" style="background:{PAGE.colour(place)}"></span>' if len(shown.models) > 1 else ""
        )
        best = ' class="best"' if cell.value is not None and cell.value == _top(shown, metric) else ""
        lines.append(f'<tr{best}><th scope="row">{swatch}{_name(shown.labels[model])}</th>{"".join(cells)}</tr>')
    return _scroll(
        f"<table><thead>{_head(head)}</thead><tbody>{''.join(lines)}</tbody></table>",
        f"{clean(metric)} by model",
    )


def _curves(shown: Digest, panels: dict[str, list[Panel]], fresh: Iterator[int]) -> str:
    if not panels.get("curves"):
        return ""
    band = f" Bands are {shown.level:.0%} intervals." if any(panel.banded for panel in panels["curves"]) else ""
    say = f"Each metric as the list grows longer: K is the number of places that count.{band}"
    return f'<p class="say">{say} Dots mark the cut-offs reported above.</p>{_figures(panels["curves"], fresh)}'


def _ranks(shown: Digest, panels: dict[str, list[Panel]], fresh: Iterator[int]) -> str:
    if not panels.get("ranks"):
        return ""
    say = "Share of cases by the rank of the held-out item among all candidates. The axis is logarithmic, a bar a doubling."
    exact = max((exact_to(each) for each in _counts(shown)), default=0)
    if exact:
        say += f" Ranks up to {exact:,} are <b>exact</b>, and with them metrics up to @{exact}; those beyond are estimated."
    spots = _spots(shown)
    if spots:
        first, last = min(spots)[0], max(last for _, last in spots)
        say += (
            f" <b>Shaded</b>: the blind spot, ranks {first:,} to {last:,}. A target there is beaten by none of its sampled"
            " negatives more often than not, so the sample can hardly tell these ranks apart, and their shares rest on what"
            " the estimator assumes."
        )
    return f'<p class="say">{say}</p>{_figures(panels["ranks"], fresh)}'


def _counts(shown: Digest) -> list[Any]:
    return [shown.estimates[model].counts for model in shown.drawn if model in shown.estimates]


def _spots(shown: Digest) -> list[tuple[int, int]]:
    """The blind spots of the models drawn."""
    return [spot for each in _counts(shown) if (spot := blind_spot(each)) is not None]


def _budget(shown: Digest, panels: dict[str, list[Panel]], fresh: Iterator[int]) -> str:
    counts = {model: shown.estimates[model].counts for model in shown.drawn if model in shown.estimates}
    if not counts:
        return ""
    scored = sum(each.items_scored for each in counts.values())
    full = sum(len(each) * max(each.n_items - 1, 1) for each in counts.values())
    of = "model" if len(counts) == 1 else f"{len(counts)} models"
    say = f"{scored:,} items were scored for {'the' if len(counts) == 1 else 'these'} {of}"
    say += (
        f", {percent(scored / full)} of what ranking everything takes."
        if scored < full
        else ": every candidate of every case."
    )
    if any(each.design.beyond is not None for each in counts.values()):
        say += " An exact rank counts as every candidate scored, though with factors those out of reach need no score."
    if not panels.get("budget"):
        sizes = {int(size) for each in counts.values() for size in each.sizes} - {ALL}
        if len(sizes) == 1:
            say += f" Every case was compared with {next(iter(sizes)):,} negatives, easy cases and hard ones alike."
        return f'<p class="say">{_text(say)}</p>'
    if all(each.design.beyond is not None for each in counts.values()):
        say += " <b>all</b>: targets among the first, whose rank is exact; the others were compared with a sample only."
        return f'<p class="say">{say}</p>{_figures(panels["budget"], fresh)}'
    say += (
        " A case that its first negatives beat needs no more of them; the rest of the budget goes to targets near the top,"
        " where metrics are decided. Rows are sample sizes, in negatives per case."
    )
    return f'<p class="say">{_text(say)}</p>{_figures(panels["budget"], fresh)}'


def _pairs(shown: Digest) -> str:
    models = shown.models[:MOST_PAIRED]
    if len(models) < 2:
        return ""
    known = bool(shown.comparison)
    say = "Row minus column: positive where the row's model is better."
    say += (
        f" Below each difference its {shown.level:.0%} interval, from the same cases for both; coloured where it excludes 0."
        if known
        else " Plain differences of the values above, without intervals of their own."
    )
    if shown.total_models > len(models):
        say += f" The best {len(models)} of {shown.total_models:,} models."
    tables = [_matrix(shown, metric, models) for metric in shown.metrics]
    rest = "".join(
        f"<details><summary>{_text(clean(metric))}</summary>{table}</details>"
        for metric, table in zip(shown.metrics[1:], tables[1:], strict=True)
    )
    return f'<p class="say">{say}</p>{tables[0]}{rest}'


def _matrix(shown: Digest, metric: str, models: Sequence[str]) -> str:
    gaps = [
        pair.difference for a in models for b in models if a != b and (pair := shown.pair(metric, a, b)) is not None
    ]
    digits = max(shown.digits[metric], min(5, shown.digits[metric] + (1 if gaps and max(map(abs, gaps)) < 0.01 else 0)))
    lines = []
    for first in models:
        cells = []
        for second in models:
            pair = None if first == second else shown.pair(metric, first, second)
            if pair is None:
                cells.append('<td class="self">·</td>' if first == second else '<td class="quiet">–</td>')
                continue
            sure = pair.low is not None and pair.high is not None and (pair.low > 0 or pair.high < 0)
            tone = "" if not sure else ' class="up"' if pair.difference > 0 else ' class="down"'
            limits = ""
            if pair.low is not None and pair.high is not None and pair.low < pair.high:
                limits = f"<small>{_text(signed(pair.low, digits))} to {_text(signed(pair.high, digits))}</small>"
            cells.append(f"<td{tone}><b>{_text(signed(pair.difference, digits))}</b>{limits}</td>")
        lines.append(f'<tr><th scope="row">{_name(shown.labels[first])}</th>{"".join(cells)}</tr>')
    head = _head([f"{clean(metric)}", *(shown.labels[model] for model in models)])
    return _scroll(
        f'<table class="pairs"><thead>{head}</thead><tbody>{"".join(lines)}</tbody></table>',
        f"differences in {clean(metric)}",
    )


def _provenance(report: Any, shown: Digest) -> str:
    facts = [
        (shown.labels[model], str(shown.estimates[model].counts)) for model in shown.drawn if model in shown.estimates
    ]
    told = [(key, value) for key, value in report.provenance.items() if not (facts and key == "about")]
    if report.runs:
        told.append(("runs", {model: asdict(run) for model, run in report.runs.items()}))
    told = [
        (key, value) for key, value in told if value is not None and value is not False and value not in ({}, [], "")
    ]
    for key, value in told[:MOST_FACTS]:
        facts.append((_spoken(key), _plain(value)))
    if len(told) > MOST_FACTS:
        facts.append(("…", f"{len(told) - MOST_FACTS:,} more entries are in report.to_json()"))
    if not facts:
        return ""
    items = "".join(f"<dt>{_name(clean(name))}</dt><dd>{_text(clean(value, 400))}</dd>" for name, value in facts)
    return f'<p class="say">What it takes to get these numbers again.</p><dl class="plain">{items}</dl>'


def _reading(shown: Digest) -> str:
    level = f"{shown.level:.0%}"
    whose = "the population that the cases come from" if shown.target == "population" else "these very cases"
    entries = [
        ("Full catalogue",
         "The metric that ranking every candidate would show. Where negatives were sampled it is estimated from the sampled "
         "ranks and the known law of the sampling; where everything was ranked it is that value itself."),
        ("Sampled, at face value",
         "The same formula applied to the rank among the sampled negatives, as if they were the catalogue. It is nearly "
         "always far too high, by a factor that differs between models, so that even the order of models may be wrong."),
        (f"{level} interval",
         f"Covers what full evaluation of {whose} would show in {level} of evaluations. Two intervals may overlap although "
         "the difference between the models is clear: what decides is the interval of the difference."),
        ("Bounds",
         "What the data alone allow: the least and largest value over all rank distributions that the sample does not rule "
         "out. They assume neither that ranks are spread smoothly nor that they look like those of any recommender."),
        ("Blind spot",
         "The ranks near the top that a sample of this size cannot tell apart. Metrics at small K live there. More "
         "negatives, or negatives added only for targets that are not yet beaten, make it smaller."),
        ("Metrics",
         "With one held-out item per user at rank R: recall@K is 1 if R ≤ K; ndcg@K is 1 / log2(R + 1); ap@K is 1 / R; "
         "auc is the share of candidates ranked below. Each is averaged over users; ranks start at 1."),
    ]  # fmt: skip
    if not shown.intervals:
        entries = [entry for entry in entries if not entry[0].endswith("interval")]
    if not shown.bounded:
        entries = [entry for entry in entries if entry[0] != "Bounds"]
    if not _any_naive(shown):
        entries = [entry for entry in entries if not entry[0].startswith("Sampled")]
    if not _spots(shown):
        entries = [entry for entry in entries if entry[0] != "Blind spot"]
    items = "".join(f"<dt>{_text(name)}</dt><dd>{_text(words)}</dd>" for name, words in entries)
    return f'<dl class="read">{items}</dl>'


# -------------------------------------------------------------------------------------------------- pieces


def _figures(panels: Sequence[Panel], fresh: Iterator[int]) -> str:
    figures = (_figure(panel, panel.title, _numbers(panel), next(fresh)) for panel in panels)
    return f'<div class="panels">{"".join(figures)}</div>'


def _numbers(panel: Panel) -> str:
    """The chart's numbers, folded away behind a line that the keyboard reaches."""
    body = "".join(
        f'<tr><th scope="row">{_name(row[0])}</th>{"".join(f"<td>{_text(cell)}</td>" for cell in row[1:])}</tr>'
        for row in panel.body
    )
    table = _scroll(
        f"<table><thead>{_head(panel.head)}</thead><tbody>{body}</tbody></table>", f"numbers of {panel.title}"
    )
    return f"<details><summary>Numbers</summary>{table}</details>"


def _figure(panel: Panel | None, title: str, numbers: str, serial: int) -> str:
    drawing = "" if panel is None else inline(svg(panel.chart, PAGE), clean(panel.about, 600), serial)
    named = f"figure-{serial}"
    return f'<figure aria-labelledby="{named}"><h3 id="{named}">{_name(title)}</h3>{drawing}{numbers}</figure>'


def inline(drawing: str, about: str, serial: int) -> str:
    """The SVG as part of a page: one image with a name, titles as tooltips, identifiers of its own, nothing else.

    Elements and attributes are kept by a list of what drawings need, so that nothing in a name can become markup.
    """
    root = ElementTree.fromstring(drawing)
    tips: list[tuple[ElementTree.Element, str]] = []
    for parent in list(root.iter()):
        parent.tag = parent.tag.rpartition("}")[2]
        for child in list(parent):
            if child.tag.rpartition("}")[2] not in _ELEMENTS or _idle(child):
                parent.remove(child)
    for node in root.iter():
        if node.tag == "path" and node.get("aria-label") and node.get("aria-roledescription") != "axis":
            tips.append((node, str(node.get("aria-label"))))
        kept = {name: value for name, value in node.attrib.items() if name in _ATTRIBUTES}
        for name in ("id", "clip-path"):
            if name in node.attrib:
                kept[name] = node.attrib[name].replace("url(#", f"url(#f{serial}-") if name == "clip-path" else (
                    f"f{serial}-{node.attrib[name]}"
                )  # fmt: skip
        node.attrib.clear()
        node.attrib.update(kept)
    for node, text in tips:
        ElementTree.SubElement(node, "title").text = text
    box = root.get("viewBox", "0 0 340 200")
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "role": "img", "aria-labelledby": f"about-{serial}"})
    title = ElementTree.Element("desc", {"id": f"about-{serial}"})
    title.text = about
    root.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


_ELEMENTS = {"svg", "g", "path", "line", "rect", "circle", "text", "tspan", "defs", "clipPath"}
_ATTRIBUTES = {
    "d", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "cx", "cy", "r", "width", "height", "transform", "fill", "stroke",
    "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "opacity", "fill-opacity",
    "stroke-opacity", "text-anchor", "dominant-baseline", "font-size", "font-weight", "font-style", "display", "viewBox",
    "pointer-events",
}  # fmt: skip


def _idle(node: ElementTree.Element) -> bool:
    """Empty backgrounds and foregrounds, of which Vega draws many."""
    return node.get("class") in {"background", "foreground"} and not node.get("fill") and not node.get("stroke")


def _scroll(table: str, name: str) -> str:
    """A table that scrolls by itself where the screen is narrow; focusable, so that the keyboard can scroll it too."""
    return f'<div class="scroll" role="group" tabindex="0" aria-label="{_text(name)}">{table}</div>'


def _head(names: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<th scope=col>{_name(name)}</th>' for name in names)}</tr>"


def _text(text: object) -> str:
    return escape(str(text), quote=True)


def _name(text: object) -> str:
    """A name that somebody chose: its writing direction stays its own."""
    return f"<bdi>{_text(text)}</bdi>"


def _any_naive(shown: Digest) -> bool:
    return shown.naive and not shown.exhaustive


def _top(shown: Digest, metric: str) -> float | None:
    return max(
        (value for model in shown.models if (value := shown.cell(model, metric).value) is not None), default=None
    )


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 20 else f"{ratio:.1f}" if ratio >= 1.95 else f"{ratio:.2f}"


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _subtitle(report: Any) -> str:
    title = report.provenance.get("title") or report.provenance.get("data") or report.provenance.get("split")
    return f" · {_text(clean(title, 80))}" if title and isinstance(title, str) else ""


def _spoken(key: object) -> str:
    words = {
        "rng": "seed",
        "split": "data",
        "checksum": "data checksum (SHA-256)",
        "level": "level of intervals",
        "target": "intervals speak of",
    }
    return words.get(str(key), str(key).replace("_", " "))


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and finite(value) is not None:
        return number(value, 4).rstrip("0").rstrip(".") if abs(value) < 1e9 else f"{value:g}"
    if isinstance(value, dict) and len(value) <= MOST_FACTS:  # what is empty says nothing
        kept = {key: each for key, each in value.items() if each not in (None, False, "", [], {})}
        return "; ".join(f"{key}: {_plain(each)}" for key, each in kept.items())
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return f"{len(value):,}"
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
