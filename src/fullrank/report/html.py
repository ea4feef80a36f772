"""The report as one page: a single file that opens offline, from a mail attachment, on a phone, and prints.

No script and no request: charts are inline SVG whose colours are CSS variables, tooltips are SVG titles, and every chart
has its numbers in a table behind it that the keyboard reaches. Whatever comes from the report is cleaned, bounded (see
:mod:`.digest`) and escaped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import count
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from fullrank._files import write_atomically
from fullrank._version import __version__
from fullrank.ranks.design import ALL
from fullrank.report.charts import inline, svg
from fullrank.report.digest import MOST_DRAWN, MOST_MODELS, MOST_PAIRED, Digest, blind_spot, digest, exact_to, finite
from fullrank.report.panels import KINDS, PAGE, Panel, difference_panel, panels_of
from fullrank.report.words import clean, number, percent, ratio, short_design, signed

if TYPE_CHECKING:
    from fullrank.report.comparison import Comparison

__all__ = ["check_page_path", "comparison_page", "page", "sheet", "write_page"]

MOST_FACTS = 60

#: A section of a page: its anchor, its title and what it holds.
Section = tuple[str, str, str]
#: A tile below the headline: its name, its value and a word on it.
Fact = tuple[str, str, str]


def check_page_path(path: str | Path) -> Path:
    """Refuse a path that no page can be written to, in one sentence."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ValueError(
            f"`path` must lie in a folder that exists, got {str(target)!r}: make {str(target.parent)!r} first."
        )
    if target.is_dir():
        raise ValueError(
            f"`path` must be a file, got the folder {str(target)!r}: name one in it, such as 'report.html'."
        )
    return target


def write_page(page: str, path: str | Path) -> Path:
    """Write the page to ``path`` atomically and return where it is."""
    target = check_page_path(path)
    write_atomically(target, page.encode())
    return target


def page(report: Any) -> str:
    """Write a report as a page."""
    shown = digest(report)
    panels = {kind: panels_of(shown, PAGE, kind) for kind in KINDS} if shown.models else {}
    serial = count(1)
    sections = [
        ("results", "Results", _results(shown, panels, serial)),
        ("cut-offs", "By cut-off", _curves(shown, panels, serial)),
        ("ranks", "Where targets rank", _ranks(shown, panels, serial)),
        ("budget", "Where the budget went", _budget(shown, panels, serial)),
        ("pairs", "Model against model", _pairs(shown)),
        ("design", "Design and provenance", _provenance(report, shown)),
        ("reading", "How to read this", _reading(shown)),
    ]
    title = report.provenance.get("title") or report.provenance.get("data") or report.provenance.get("split")
    kind = f"report · {clean(title, 80)}" if title and isinstance(title, str) else "report"
    held = shown.comparison.get(shown.metrics[0]) if shown.metrics else None
    lede = [_sentence(shown.verdict.detail)]
    if held is not None and len(held.models) > 1:
        lede.append(held.difference(*held.models[:2]))
    return _document(
        kind,
        shown.verdict.headline,
        " ".join(lede),
        _facts(shown),
        shown.remarks,
        shown.notes,
        shown.total_notes,
        sections,
    )


def comparison_page(found: Sequence[Comparison]) -> str:
    """Write comparisons of the same models by several metrics as a page: the ranking, leads, and every pair."""
    first, serial = found[0], count(1)
    models = f"{len(first.models):,}"
    whom = "these very cases" if first.target == "cases" else "the population that the cases come from"
    paired = "case by case" if first.paired else "as independent samples"
    facts = [("Models", models, ""), ("P(best)", f"{first.best[first.winner]:.2f}", clean(first.winner, 30)),
             ("Level", f"{first.level:.0%}", f"for {whom}"), ("Compared", paired, "")]  # fmt: skip
    sections = []
    for place, each in enumerate(found):
        body = [] if not place else [f'<p class="say">{_text(each.verdict)}</p>']
        body += [f'<p class="say">{_text(text)}</p>' for text in each.sentences()]
        head, lines = each.table()
        lines = [[f"{place} {model} ({letter})", *rest] for place, letter, model, *rest in lines[:MOST_MODELS]]
        ranking = _scroll(_table(["Model", *head[3:]], lines), f"{clean(each.metric)} by model")
        panel = difference_panel(each, PAGE, MOST_MODELS) if len(each.models) > 1 else None
        figure = _figure(panel, panel.title, "", next(serial)) if panel else ""
        say = (
            "Coloured: told apart from the leader, all pairs considered; grey: the lead may be chance."
            if figure
            else ""
        )
        body += [ranking, f'<p class="say after">{say}</p><div class="panels">{figure}</div>']
        sections.append((f"metric-{place + 1}", clean(each.metric), "".join(body)))
    if len(first.models) > 1:
        tables = [_matrix(each, [(model, clean(model)) for model in each.models[:MOST_PAIRED]]) for each in found]
        say = f"Row minus column: positive where the row's model is better.{_matrix_words(first, len(first.models))}"
        sections.append(("pairs", "Model against model", f'<p class="say">{say}</p>{"".join(tables)}'))
    words = {
        "P(best)": "The probability that a model is the best of those compared, given what was seen of all of them.",
        "Groups": "Models of one number cannot be told apart from the first of their group at this level (Holm's adjustment "
        "for all pairs). Raised letters name the models that one is significantly better than.",
        "Intervals": "Two intervals may overlap although the difference is clear: the interval of the difference decides.",
    }  # fmt: skip
    sections.append(("reading", "How to read this", _definitions("read", list(words.items()))))
    lede = f"{_sentence(first.verdict.detail)} {first.about}."
    return _document("comparison", first.verdict.headline, lede, facts, (), first.notes, len(first.notes), sections)


def sheet(
    kind: str,
    headline: str,
    lede: str,
    facts: Sequence[Fact],
    notes: Sequence[str],
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
    panel: Panel | None = None,
) -> str:
    """Write a page of one table and perhaps a chart that its ``about`` explains."""
    sections = [("results", "Choices", _scroll(_table(*table), kind))]
    if panel is not None:
        explained = f'<p class="say">{_text(panel.about)}</p>' if panel.about else ""
        sections.append(("chart", panel.title, explained + f'<div class="panels">{_figure(panel, "", "", 1)}</div>'))
    return _document(kind, headline, lede, facts, (), notes, len(notes), sections)


def _document(
    kind: str,
    headline: str,
    lede: str,
    facts: Sequence[Fact],
    remarks: Sequence[str],
    notes: Sequence[str],
    total_notes: int,
    sections: Sequence[Section],
) -> str:
    """Put a page together: the verdict, tiles, remarks, and the sections that hold something."""
    kept = [section for section in sections if section[2]]
    links = "".join(f'<li><a href="#{anchor}">{_text(title)}</a></li>' for anchor, title, _ in kept)
    good = f'<aside class="good" aria-label="How it went">{_items(remarks)}</aside>' if remarks else ""
    more = [f"… and {total_notes - len(notes):,} more."] if total_notes > len(notes) else []
    warn = (
        '<aside class="notes" aria-labelledby="remarks"><h2 id="remarks">Mind</h2>'
        + _items([*notes, *more])
        + "</aside>"
    )
    body = [
        f'<a class="skip" href="#{kept[0][0]}">Skip to the results</a>' if kept else "",
        f'<header><p class="eyebrow">fullrank {_text(kind)}</p>',
        f'<h1>{_text(headline)}</h1><p class="lede">{_text(lede)}</p>',
        _tiles(facts),
        good,
        warn if notes else "",
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>',
        "<main>",
        *(
            f'<section id="{anchor}" aria-labelledby="{anchor}-title"><h2 id="{anchor}-title">{_text(title)}</h2>'
            f"{inner}</section>"
            for anchor, title, inner in kept
        ),
        f"</main><footer>Made with fullrank {__version__}. This file is complete: it loads and runs nothing.</footer>",
    ]
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=_text(f"{headline} · fullrank"), version=_text(__version__), body="\n".join(filter(None, body))
    )


# -------------------------------------------------------------------------------------------------- sections


def _facts(shown: Digest) -> list[Fact]:
    """The frame of the evaluation, as tiles."""
    if not shown.models:
        return []
    facts: list[Fact] = [("Models", f"{shown.total_models:,}", "")] if shown.total_models > 1 else []
    if shown.cases:
        facts.append(("Cases", _range(shown.cases[0], shown.cases[-1]), "held-out items"))
    counts = [estimate.counts for estimate in shown.estimates.values()]
    if counts:
        low, high = min(each.pool_range[0] for each in counts), max(each.pool_range[1] for each in counts)
        names = ", ".join(dict.fromkeys(clean(each.candidates) for each in counts))
        facts.append(("Candidates", _range(round(low), round(high)), f"{names}; per case, target included"))
        scored, full = _scored(counts)
        per_case = scored / max(sum(len(each) for each in counts), 1)
        facts.append(("Scored per case", f"{per_case:,.0f}", f"{percent(min(scored / full, 1))} of the catalogue"))
    if shown.designs:
        short = list(dict.fromkeys(map(short_design, shown.designs)))
        whole = "; ".join(shown.designs)
        kinds = {each.partition(",")[0] for each in short}
        name = short[0] if len(short) == 1 else kinds.pop() if len(kinds) == 1 else f"{len(short)} designs"
        facts.append(("Design", name, whole * (whole != name)))
    if shown.estimators and not shown.exact:
        facts.append(("Estimator", "; ".join(shown.estimators), ""))
    return facts


def _scored(counts: Sequence[Any]) -> tuple[int, int]:
    """Items that were scored, and how many the full ranking has."""
    full = sum(len(each) * max(each.n_items - 1, 1) for each in counts)
    return sum(each.items_scored for each in counts), max(full, 1)


def _results(shown: Digest, panels: dict[str, list[Panel]], serial: Iterator[int]) -> str:
    if not shown.models:
        return ""
    where = "" if shown.exact else " on the full catalogue"
    ends = f", with its {shown.level:.0%} interval" if shown.any("spread") else ""
    legend = [f"<b>Filled</b>: the value{where}{ends}"]
    legend += ["<b>faint</b>: what the data alone allow"] * shown.any("bounds")
    legend += ["<b>hollow</b>: the uncorrected metric, of the sampled ranks themselves"] * shown.any("naive")
    legend += ["<b>upright bar</b>: the truth, from ranking everything"] * shown.any("truth")
    left = []
    if shown.total_models > len(shown.models):
        left.append(f" The best {len(shown.models)} of {shown.total_models:,} models are shown.")
    if shown.total_metrics > len(shown.metrics):
        left.append(f" The first {len(shown.metrics)} of {shown.total_metrics:,} metrics are shown.")
    assumed = f'<p class="say quiet">{_text(shown.assumption)}</p>' if shown.assumption else ""
    drawn = {panel.metric: panel for panel in panels["results"]}
    figures = "".join(
        _figure(drawn.get(metric), clean(metric), _metric_table(shown, metric), next(serial))
        for metric in shown.metrics
    )
    return f'<p class="say">{"; ".join(legend)}.{"".join(left)}</p>{assumed}<div class="panels">{figures}</div>'


def _metric_table(shown: Digest, metric: str) -> str:
    parts = {part: title for part, title in (("naive", "Uncorrected"), ("truth", "Truth")) if shown.any(part)}
    head = ["Model", "Value" if shown.exact else "Full catalogue", *parts.values()]
    cells = [shown.cell(model, metric) for model in shown.models]
    top = max((cell.value for cell in cells if cell.value is not None), default=None)
    lines = []
    for place, (model, cell) in enumerate(zip(shown.models, cells, strict=True)):
        value = f"<b>{_text(shown.text(metric, cell.value))}</b>"
        if cell.interval is not None and not shown.exact:
            value += f"<small>{_text(shown.span(metric, cell.interval))}</small>"
        if cell.bounds is not None:
            value += f'<small class="faint">bounds {_text(shown.span(metric, cell.bounds))}</small>'
        known = cell.naive is not None and cell.value is not None and cell.value > 0
        factor = f"<small>× {ratio((cell.naive or 0.0) / (cell.value or 1.0))}</small>" if known else ""
        texts = {
            "naive": _text(shown.text(metric, cell.naive)) + factor,
            "truth": _text(shown.text(metric, cell.truth)),
        }
        more = "".join(f'<td class="quiet">{texts[part]}</td>' for part in parts)
        dot = f'<span class="swatch" style="background:{PAGE.colour(place)}"></span>' if len(shown.models) > 1 else ""
        best = ' class="best"' if cell.value is not None and cell.value == top else ""
        lines.append(f'<tr{best}><th scope="row">{dot}{_name(shown.labels[model])}</th><td>{value}</td>{more}</tr>')
    return _scroll(
        f"<table><thead>{_head(head)}</thead><tbody>{''.join(lines)}</tbody></table>", f"{clean(metric)} by model"
    )


def _curves(shown: Digest, panels: dict[str, list[Panel]], serial: Iterator[int]) -> str:
    if not panels.get("curves"):
        return ""
    band = f" Bands are {shown.level:.0%} intervals." if any(panel.banded for panel in panels["curves"]) else ""
    say = f"Each metric as the list grows longer: K is the number of places that count.{band}{_best_few(shown)}"
    return f'<p class="say">{say} Dots mark the cut-offs reported above.</p>{_figures(panels["curves"], serial)}'


def _best_few(shown: Digest) -> str:
    return f" The best {MOST_DRAWN} models are drawn." if len(shown.models) > MOST_DRAWN else ""


def _ranks(shown: Digest, panels: dict[str, list[Panel]], serial: Iterator[int]) -> str:
    if not panels.get("ranks"):
        return ""
    say = "Share of cases by the rank of the held-out item among all candidates. The axis is logarithmic, a bar a doubling."
    say += _best_few(shown)
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
    return f'<p class="say">{say}</p>{_figures(panels["ranks"], serial)}'


def _counts(shown: Digest) -> list[Any]:
    return [shown.estimates[model].counts for model in shown.drawn if model in shown.estimates]


def _spots(shown: Digest) -> list[tuple[int, int]]:
    """The blind spots of the models drawn."""
    return [spot for each in _counts(shown) if (spot := blind_spot(each)) is not None]


def _budget(shown: Digest, panels: dict[str, list[Panel]], serial: Iterator[int]) -> str:
    counts = _counts(shown)
    if not counts:
        return ""
    scored, full = _scored(counts)
    whose = "the model" if len(counts) == 1 else f"these {len(counts)} models"
    of = (
        f", {percent(scored / full)} of what ranking everything takes."
        if scored < full
        else ": every candidate of every case."
    )
    say = f"{scored:,} items were scored for {whose}{of}"
    if any(each.design.beyond is not None for each in counts):
        say += " An exact rank counts as every candidate scored, though with factors those out of reach need no score."
    drawn = panels.get("budget", [])
    sizes = {int(size) for each in counts for size in each.sizes} - {ALL}
    guided = [each for each in counts if each.design.compares]
    if guided:
        say += _behind_guides(guided)
    elif not drawn and len(sizes) == 1:
        say += f" Every case was compared with {next(iter(sizes)):,} negatives, easy cases and hard ones alike."
    elif drawn and all(each.design.beyond is not None for each in counts):
        say += " <b>all</b>: targets among the first, whose rank is exact; the others were compared with a sample only."
    elif drawn:
        say += (
            " A case that its first negatives beat needs no more of them; the rest of the budget goes to targets near the"
            " top, where metrics are decided. Rows are sample sizes, in negatives per case."
        )
    return f'<p class="say">{say}</p>{_figures(drawn, serial) if drawn else ""}'


def _behind_guides(counts: list[Any]) -> str:
    """What guides brought: how much of the budget went along their order, and how many cases that closed."""
    scored = sum(each.items_scored for each in counts)
    compared = sum(each.items_compared for each in counts)
    closed = sum(int(each.cases[each.closed].sum()) for each in counts) / sum(len(each) for each in counts)
    return (
        f" {percent(compared / max(scored, 1))} of them were what the guide put first, compared one by one: they closed"
        f" {percent(closed)} of the cases, whose target is beyond every cut-off. The others are random ones of the rest,"
        " drawn for the cases that were left open."
    )


def _pairs(shown: Digest) -> str:
    models = shown.models[:MOST_PAIRED]
    if len(models) < 2:
        return ""
    held = next(iter(shown.comparison.values()), None)
    say = f"Row minus column: positive where the row's model is better.{_matrix_words(held, shown.total_models)}"
    names = [(model, shown.labels[model]) for model in models]
    tables = [_matrix(shown.comparison.get(metric), names, shown, metric) for metric in shown.metrics]
    rest = "".join(
        f"<details><summary>{_text(clean(metric))}</summary>{table}</details>"
        for metric, table in zip(shown.metrics[1:], tables[1:], strict=True)
    )
    return f'<p class="say">{say}</p>{tables[0]}{rest}'


def _matrix_words(held: Comparison | None, total: int) -> str:
    """What the cells of a matrix hold, and how many models it leaves out."""
    words = " Plain differences of the values above, without intervals of their own."
    if held is not None:
        spread = any(each.low < each.high for each in held.pairs)
        ends = f" Below each difference its {held.level:.0%} interval; coloured where it excludes 0." if spread else ""
        words = ends or " For these cases the differences are exact."
    return words + (f" The best {MOST_PAIRED} of {total:,} models." if total > MOST_PAIRED else "")


def _matrix(
    held: Comparison | None, names: Sequence[tuple[str, str]], shown: Digest | None = None, metric: str = ""
) -> str:
    """Differences of every two models, as compared, or value by value where the report holds no comparison."""
    known = set() if held is None else set(held.models)
    digits = shown.digits[metric] if shown is not None else held.digits if held is not None else 4
    lines = []
    for first, label in names:
        cells = []
        for second, _ in names:
            if first == second:
                cells.append('<td class="self">·</td>')
            elif held is not None and {first, second} <= known:
                pair = held.pair(first, second)
                sure = pair.low > 0 or pair.high < 0
                tone = "" if not sure else ' class="up"' if pair.difference > 0 else ' class="down"'
                ends = (finite(pair.low), finite(pair.high))
                wide = None not in ends and pair.low < pair.high
                limits = f"{signed(pair.low, digits)} to {signed(pair.high, digits)}" if wide else ""
                small = f"<small>{_text(limits)}</small>" if limits else ""
                cells.append(f"<td{tone}><b>{_text(signed(finite(pair.difference) or 0.0, digits))}</b>{small}</td>")
            else:
                a, b = (shown.cell(model, metric).value if shown else None for model in (first, second))
                gap = "–" if a is None or b is None else signed(a - b, digits)
                cells.append(f'<td class="quiet"><b>{_text(gap)}</b></td>')
        lines.append(f'<tr><th scope="row">{_name(label)}</th>{"".join(cells)}</tr>')
    title = clean(metric or (held.metric if held is not None else ""))
    head = _head([title, *(label for _, label in names)])
    table = f'<table class="pairs"><thead>{head}</thead><tbody>{"".join(lines)}</tbody></table>'
    return _scroll(table, f"differences in {title}")


def _provenance(report: Any, shown: Digest) -> str:
    facts = [
        (shown.labels[model], str(shown.estimates[model].counts)) for model in shown.drawn if model in shown.estimates
    ]
    entries = [(key, value) for key, value in report.provenance.items() if not (facts and key == "about")]
    entries += [
        (f"rounds of {clean(model)}", "; then ".join(str(each.get("design", "?")) for each in run.rounds))
        for model, run in report.runs.items()
    ]
    entries = [(k, v) for k, v in entries if v is not None and v is not False and v not in ({}, [], "")]
    facts += [
        (_PROVENANCE.get(str(key), str(key).replace("_", " ")), _plain(value)) for key, value in entries[:MOST_FACTS]
    ]
    if len(entries) > MOST_FACTS:
        facts.append(("…", f"{len(entries) - MOST_FACTS:,} more entries are in report.to_json()"))
    if not facts:
        return ""
    listed = _definitions("plain", [(clean(name), clean(value, 400)) for name, value in facts])
    return f'<p class="say">What it takes to get these numbers again.</p>{listed}'


#: How the page words what provenance calls by a key.
_PROVENANCE = {
    "rng": "seed", "split": "data", "checksum": "data checksum (SHA-256)", "level": "level of intervals",
    "target": "intervals speak of",
}  # fmt: skip


def _reading(shown: Digest) -> str:
    level = f"{shown.level:.0%}"
    whose = "the population that the cases come from" if shown.target == "population" else "these very cases"
    entries = [
        (not shown.exact, "Full catalogue",
         "The metric that ranking every candidate would show. Where negatives were sampled it is estimated from the sampled "
         "ranks and the known law of the sampling; where everything was ranked it is that value itself."),
        (shown.any("naive"), "Uncorrected",
         "The same formula applied to the rank among the sampled negatives, as if they were the catalogue. It is nearly "
         "always far too high, by a factor that differs between models, so that even the order of models may be wrong."),
        (shown.any("spread"), f"{level} interval",
         f"Covers what full evaluation of {whose} would show in {level} of evaluations. Two intervals may overlap although "
         "the difference between the models is clear: what decides is the interval of the difference."),
        (shown.any("bounds"), "Bounds",
         "What the data alone allow: the least and largest value over all rank distributions that the sample does not rule "
         "out. They assume neither that ranks are spread smoothly nor that they look like those of any recommender."),
        (bool(_spots(shown)), "Blind spot",
         "The ranks near the top that a sample of this size cannot tell apart. Metrics at small K live there. More "
         "negatives, or negatives added only for targets that are not yet beaten, make it smaller."),
        (True, "Metrics",
         "With one held-out item per user at rank R: recall@K is 1 if R ≤ K; ndcg@K is 1 / log2(R + 1); ap@K is 1 / R; "
         "auc is the share of candidates ranked below. Each is averaged over users; ranks start at 1."),
    ]  # fmt: skip
    return _definitions("read", [(name, words) for there, name, words in entries if there])


# -------------------------------------------------------------------------------------------------- pieces


def _definitions(kind: str, entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{_name(name)}</dt><dd>{_text(words)}</dd>" for name, words in entries)
    return f'<dl class="{kind}">{items}</dl>'


def _tiles(facts: Sequence[Fact]) -> str:
    items = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}{f'<small>{_text(more)}</small>' if more else ''}</dd></div>"
        for name, value, more in facts
    )
    return f'<dl class="facts">{items}</dl>' if items else ""


def _items(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(text)}</li>' for text in texts)}</ul>"


def _sentence(text: str) -> str:
    return f"{text.replace('exact', 'Exact', 1) if text.startswith('exact') else text}." if text else ""


def _figures(panels: Sequence[Panel], serial: Iterator[int]) -> str:
    figures = []
    for panel in panels:
        table = _scroll(_table(panel.head, panel.body), f"numbers of {panel.title}")
        figures.append(
            _figure(panel, panel.title, f"<details><summary>Numbers</summary>{table}</details>", next(serial))
        )
    return f'<div class="panels">{"".join(figures)}</div>'


def _figure(panel: Panel | None, title: str, numbers: str, serial: int) -> str:
    drawing = "" if panel is None else inline(svg(panel.chart, PAGE), clean(panel.about, 600), serial)
    keys = "".join(
        f'<li><span class="key" style="background:{colour}"></span>{_text(words)}</li>'
        for words, colour in (() if panel is None else panel.legend)
    )
    legend = f'<ul class="legend">{keys}</ul>' if keys else ""
    named = f"figure-{serial}"
    top = f'<h3 id="{named}">{_name(title)}</h3>' if title else ""
    label = f'aria-labelledby="{named}"' if title else 'aria-label="chart"'
    return f"<figure {label}>{top}{legend}{drawing}{numbers}</figure>"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = "".join(
        f'<tr><th scope="row">{_name(row[0])}</th>{"".join(f"<td>{_text(cell)}</td>" for cell in row[1:])}</tr>'
        for row in body
    )
    return f"<table><thead>{_head(head)}</thead><tbody>{lines}</tbody></table>"


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


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


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
