"""The report as one page: a single file that opens offline, from a mail attachment, on a phone, and prints.

No script and no request: charts are inline SVG whose colours are CSS variables, tooltips are SVG titles, and every chart
has its numbers in a table behind it that the keyboard reaches. Whatever comes from the report is cleaned, bounded (see
:mod:`.digest`) and escaped (:mod:`.markup`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import count
from pathlib import Path
from string import Template
from typing import Any

from fullrank._files import writable, write_atomically
from fullrank._version import __version__
from fullrank.ranks.design import ALL
from fullrank.report import markup as h
from fullrank.report.comparison import Comparison
from fullrank.report.digest import MOST_MODELS, MOST_PAIRED, Digest, exact_to
from fullrank.report.markup import Fact
from fullrank.report.panels import KINDS, PAGE, Panel, difference_panel, panels_of
from fullrank.report.row import Row, finite, pair
from fullrank.report.words import clean, number, percent, ranged, ratio, short_design, signed

MOST_FACTS = 60

#: A section of a page: its anchor, its title and what it holds.
Section = tuple[str, str, str]


def write_page(page: str, path: str | Path) -> Path:
    """Write the page to ``path`` atomically and return where it is."""
    write_atomically(target := writable(path), page.encode())
    return target


def page(report: Any) -> str:
    """Write a report as a page."""
    shown = Digest(report)
    panels = {kind: panels_of(shown, PAGE, kind) for kind in KINDS}
    serial = count(1)
    sections = [
        ("results", "Results", _results(shown, panels["results"], serial)),
        ("cut-offs", "By cut-off", _curves(shown, panels["curves"], serial)),
        ("ranks", "Where targets rank", _ranks(shown, panels["ranks"], serial)),
        ("budget", "Where the budget went", _budget(shown, panels["budget"], serial)),
        ("pairs", "Model against model", _pairs(shown)),
        ("design", "Design and provenance", _provenance(report, shown)),
        ("reading", "How to read this", _reading(shown)),
    ]
    title = report.provenance.get("title") or report.provenance.get("data") or report.provenance.get("split")
    kind = f"report · {clean(title, 80)}" if title and isinstance(title, str) else "report"
    held = shown.comparison.get(shown.metrics[0]) if shown.metrics else None
    lede = _sentence(shown.verdict.detail)
    if held is not None and len(held.models) > 1:
        lede += f" {held.difference(*held.models[:2])}"
    left = shown.total_notes - len(shown.notes)
    notes = [*shown.notes, *([f"… and {left:,} more."] if left > 0 else [])]
    return _document(kind, shown.verdict.headline, lede, _facts(shown), notes, sections, shown.remarks)


def comparison_page(found: Sequence[Comparison]) -> str:
    """Write comparisons of the same models by several metrics as a page: the ranking, leads, and every pair."""
    first, serial = found[0], count(1)
    whom = "these very cases" if first.target == "cases" else "the population that the cases come from"
    paired = "case by case" if first.paired else "as independent samples"
    facts = [("Models", f"{len(first.models):,}", ""),
             ("P(best)", f"{first.best[first.winner]:.2f}", clean(first.winner, 30)),
             ("Level", f"{first.level:.0%}", f"for {whom}"), ("Compared", paired, "")]  # fmt: skip
    sections, several = [], len(first.models) > 1
    for place, each in enumerate(found):
        texts = [*([each.verdict] if place else []), *each.sentences()]
        head, lines = each.table()
        lines = [[f"{place} {model} ({letter})", *rest] for place, letter, model, *rest in lines[:MOST_MODELS]]
        ranking = h.table(["Model", *head[3:]], lines, f"{clean(each.metric)} by model")
        panel = difference_panel(each, PAGE, MOST_MODELS) if several else None
        figure = h.figure(panel, panel.title, "", next(serial)) if panel else ""
        apart = {each.told_apart(each.winner, other) for other in each.models[1:]}
        parts = ["coloured: the lead is significant, all pairs considered"] * (True in apart)
        parts += ["grey: it may be chance"] * (False in apart)
        tones = _sentence("; ".join(parts).capitalize())
        body = [
            *(h.paragraph(h.text(text)) for text in texts),
            ranking,
            h.paragraph(tones, "say after"),
            h.side_by_side(figure),
        ]
        sections.append((f"metric-{place + 1}", clean(each.metric), "".join(body)))
    if several:
        names = {model: clean(model) for model in first.models[:MOST_PAIRED]}
        tables = [_matrix(each.metric, names, each.values, each, each.digits) for each in found]
        sections.append(("pairs", "Model against model", _matrix_words(first, len(first.models)) + "".join(tables)))
    words = {
        "P(best)": "The probability that a model is the best of those compared, given what was seen of all of them.",
        "Groups": "Models of one number cannot be told apart from the first of their group at this level (Holm's adjustment "
        "for all pairs). Raised letters name the models that one is significantly better than.",
        "Intervals": "Two intervals may overlap although the difference is clear: the interval of the difference decides.",
    }  # fmt: skip
    sections.append(("reading", "How to read this", h.definitions("read", words.items())))
    lede = f"{_sentence(first.verdict.detail)} Compared: {first.about}."
    return _document("comparison", first.verdict.headline, lede, facts, first.notes, sections)


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
    sections = [("results", "Choices", h.table(*table, kind, ' class="choices"'))]
    if panel is not None:
        explained = h.paragraph(h.text(panel.about)) if panel.about else ""
        sections.append(("chart", panel.title, explained + h.side_by_side(h.figure(panel, "", "", 1))))
    return _document(kind, headline, lede, facts, notes, sections)


def _document(
    kind: str,
    headline: str,
    lede: str,
    facts: Sequence[Fact],
    notes: Sequence[str],
    sections: Sequence[Section],
    remarks: Sequence[str] = (),
) -> str:
    """Put a page together: the verdict, tiles, remarks, and the sections that hold something."""
    kept = [section for section in sections if section[2]]
    links = "".join(f'<li><a href="#{anchor}">{h.text(title)}</a></li>' for anchor, title, _ in kept)
    good = f'<aside class="good" aria-label="How it went">{h.bullets(remarks)}</aside>'
    warn = f'<aside class="notes" aria-labelledby="remarks"><h2 id="remarks">Caution</h2>{h.bullets(notes)}</aside>'
    body = [
        f'<a class="skip" href="#{kept[0][0]}">Skip to the results</a>' if kept else "",
        f'<header><p class="eyebrow">fullrank {h.text(kind)}</p>',
        f'<h1>{h.text(headline)}</h1><p class="lede">{h.text(lede)}</p>',
        h.tiles(facts),
        good if remarks else "",
        warn if notes else "",
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>',
        "<main>",
        *(
            f'<section id="{anchor}" aria-labelledby="{anchor}-title"><h2 id="{anchor}-title">{h.text(title)}</h2>'
            f"{inner}</section>"
            for anchor, title, inner in kept
        ),
        f"</main><footer>Made with fullrank {__version__}. This file is complete: it loads and runs nothing.</footer>",
    ]
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=h.text(f"{headline} · fullrank"), version=h.text(__version__), body="\n".join(filter(None, body))
    )


def _facts(shown: Digest) -> list[Fact]:
    """Frame the evaluation in tiles."""
    facts: list[Fact] = [("Models", f"{shown.total_models:,}", "")] if shown.total_models > 1 else []
    if shown.cases:
        facts.append(("Cases", ranged(shown.cases[0], shown.cases[-1]), "held-out items"))
    counts = [estimate.counts for estimate in shown.estimates.values()]
    if counts:
        low, high = min(each.pool_range[0] for each in counts), max(each.pool_range[1] for each in counts)
        names = ", ".join(dict.fromkeys(clean(each.candidates) for each in counts))
        facts.append(("Candidates", ranged(round(low), round(high)), f"{names}; per case, target included"))
        scored, full = _scored(counts)
        per_case = scored / max(sum(len(each) for each in counts), 1)
        facts.append(("Scored per case", f"{per_case:,.0f}", f"{percent(min(scored / full, 1))} of the catalogue"))
    if shown.designs:
        short = list(dict.fromkeys(map(short_design, shown.designs)))
        whole = "; ".join(shown.designs)
        kinds = {each.partition(",")[0] for each in short}
        name = short[0] if len(short) == 1 else kinds.pop() if len(kinds) == 1 else f"{len(short)} designs"
        facts.append(("Design", name, whole.replace("stop ", "stop\u00a0") * (whole != name)))
    if shown.estimators and not shown.exact:
        facts.append(("Estimator", "; ".join(shown.estimators), ""))
    return facts


def _scored(counts: Sequence[Any]) -> tuple[int, int]:
    """Return how many items were scored, and how many the full ranking has."""
    full = sum(len(each) * max(each.n_items - 1, 1) for each in counts)
    return sum(each.items_scored for each in counts), max(full, 1)


def _results(shown: Digest, panels: Sequence[Panel], serial: Iterator[int]) -> str:
    if not shown.models:
        return ""
    where = "" if shown.exact else " on the full catalogue"
    ends = f", with its {shown.level:.0%} interval" if shown.any("spread") else ""
    legend = [f"<b>Filled</b>: the value{where}{ends}"]
    legend += ["<b>faint</b>: what the data alone allow"] * shown.any("bounds")
    legend += ["<b>hollow</b>: the uncorrected metric, of the sampled ranks themselves"] * shown.any("naive")
    legend += ["<b>upright bar</b>: the truth, from ranking everything"] * shown.any("truth")
    words = f"{'; '.join(legend)}."
    if shown.total_models > len(shown.models):
        words += f" The best {len(shown.models)} of {shown.total_models:,} models are shown."
    if shown.total_metrics > len(shown.metrics):
        words += f" The first {len(shown.metrics)} of {shown.total_metrics:,} metrics are shown."
    assumed = h.paragraph(h.text(shown.assumption), "say quiet") if shown.assumption else ""
    drawn = {panel.metric: panel for panel in panels}
    figures = "".join(
        h.figure(drawn.get(metric), clean(metric), _metric_table(shown, metric), next(serial))
        for metric in shown.metrics
    )
    return h.paragraph(words) + assumed + h.side_by_side(figures)


def _metric_table(shown: Digest, metric: str) -> str:
    parts = {part: title for part, title in (("naive", "Uncorrected"), ("truth", "Truth")) if shown.any(part)}
    cells = [shown.cell(model, metric) for model in shown.models]
    top = max((cell.value for cell in cells if cell.value == cell.value), default=None)

    def line(place: int, cell: Row) -> str:
        value = f"<b>{h.text(shown.text(metric, cell.value))}</b>"
        if cell.interval is not None and not shown.exact:
            value += f"<small>{h.text(shown.span(metric, cell.interval))}</small>"
        if cell.bounds is not None:
            value += f'<small class="faint">{h.text(shown.span(metric, cell.bounds))}</small>'
        texts = {part: h.text(shown.text(metric, getattr(cell, part))) for part in parts}
        if cell.naive is not None and cell.value > 0:
            texts["naive"] += f"<small>× {ratio(cell.naive / cell.value)}</small>"
        more = "".join(f'<td class="quiet">{texts[part]}</td>' for part in parts)
        dot = f'<span class="swatch" style="background:{PAGE.colour(place)}"></span>' if len(cells) > 1 else ""
        best = ' class="best"' * (cell.value == top)
        return h.table_row(f"{dot}{h.name(shown.labels[cell.model])}", f"<td>{value}</td>{more}", best)

    # the head says line by line what the lines of a cell are
    under = f"<small>{shown.level:.0%} interval</small>" * any(cell.spread is not None for cell in cells)
    under += '<small class="faint">bounds</small>' * any(cell.bounds is not None for cell in cells)
    head = ["Model", f"Value{under}" if shown.exact else f"Full catalogue{under}"]
    head += [title + "<small>× full</small>" * (part == "naive") for part, title in parts.items()]
    return h.table_of(head, (line(*each) for each in enumerate(cells)), f"{clean(metric)} by model")


def _curves(shown: Digest, panels: Sequence[Panel], serial: Iterator[int]) -> str:
    if not panels:
        return ""
    band = f" Bands are {shown.level:.0%} intervals." if any(panel.banded for panel in panels) else ""
    words = f"Each metric as the list grows longer: K is the number of places that count.{band}{shown.best_few}"
    return h.paragraph(f"{words} Dots mark the cut-offs reported above.") + h.figures(panels, serial)


def _ranks(shown: Digest, panels: Sequence[Panel], serial: Iterator[int]) -> str:
    if not panels:
        return ""
    words = "Share of cases by the rank of the held-out item among all candidates."
    words += f" The axis is logarithmic: each bar covers twice as many ranks as the one before.{shown.best_few}"
    exact = max((exact_to(each) for each in shown.counts), default=0)
    if exact:
        words += (
            f" Ranks up to {exact:,} are <b>exact</b>, and with them metrics up to @{exact}; the others are estimated."
        )
    spots = shown.blind_spots
    if spots:
        first, last = min(spots)[0], max(last for _, last in spots)
        words += (
            f" <b>Shaded</b>: the blind spot, ranks {first:,} to {last:,}. A target there is beaten by none of its sampled"
            " negatives more often than not, so the sample can hardly tell these ranks apart, and their shares rest on what"
            " the estimator assumes."
        )
    return h.paragraph(words) + h.figures(panels, serial)


def _budget(shown: Digest, panels: Sequence[Panel], serial: Iterator[int]) -> str:
    counts = [estimate.counts for estimate in shown.estimates.values()]
    if not counts:
        return ""
    scored, full = _scored(counts)
    whose = "the model" if len(counts) == 1 else f"these {len(counts)} models"
    part = f", {percent(scored / full)} of what ranking everything takes."
    words = f"{scored:,} items were scored for {whose}{part if scored < full else ': every candidate of every case.'}"
    beyond = [each.design.beyond is not None for each in counts]
    if any(beyond):
        words += (
            " An exact rank counts as every candidate scored, though with factors those out of reach need no score."
        )
    sizes = {int(size) for each in counts for size in each.sizes} - {ALL}
    guided = [each for each in counts if each.design.compares]
    if guided:
        words += _behind_guides(guided)
    elif not panels and len(sizes) == 1:
        words += f" Every case was compared with {next(iter(sizes)):,} negatives, easy cases and hard ones alike."
    elif panels and all(beyond):
        words += (
            " <b>all</b>: targets among the first, whose rank is exact; the others were compared with a sample only."
        )
    elif panels:
        words += (
            " A case that its first negatives beat needs no more of them; the rest of the budget goes to targets near the"
            f" top, where metrics are decided. Rows are sample sizes, in negatives per case.{shown.best_few}"
        )
    return h.paragraph(words) + (h.figures(panels, serial) if panels else "")


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
    names = {model: shown.labels[model] for model in shown.models[:MOST_PAIRED]}
    if len(names) < 2:
        return ""
    tables = [
        _matrix(metric, names, {model: shown.cell(model, metric).value for model in names},
                shown.comparison.get(metric), shown.digits[metric])
        for metric in shown.metrics
    ]  # fmt: skip
    rest = "".join(h.details(clean(metric), table) for metric, table in zip(shown.metrics[1:], tables[1:], strict=True))
    return _matrix_words(next(iter(shown.comparison.values()), None), shown.total_models) + tables[0] + rest


def _matrix_words(held: Comparison | None, total: int) -> str:
    """Say what the cells of a matrix hold, and how many models it leaves out."""
    if held is None:
        words = "Plain differences of the values above, without intervals of their own."
    elif any(each.low < each.high for each in held.pairs):
        words = f"Below each difference is its {held.level:.0%} interval. Coloured: significant, all pairs considered."
    else:
        words = "For these cases the differences are exact."
    left = f" The best {MOST_PAIRED} of {total:,} models are shown." if total > MOST_PAIRED else ""
    return h.paragraph(f"Row minus column: positive where the row's model is better. {words}{left}")


def _matrix(
    metric: object, names: Mapping[str, str], values: Mapping[str, float], held: Comparison | None, digits: int
) -> str:
    """Write differences of every two models, as compared, or value by value where there is no comparison of them."""
    known = set() if held is None else set(held.models)

    def cell(first: str, second: str) -> str:
        if first == second:
            return '<td class="self">·</td>'
        if held is None or not {first, second} <= known:
            return f'<td class="quiet"><b>{h.text(signed(values[first] - values[second], digits))}</b></td>'
        pair_of = held.pair(first, second)
        tone = (' class="up"' if pair_of.difference > 0 else ' class="down"') * held.told_apart(first, second)
        ends = pair((pair_of.low, pair_of.high))
        small = "" if ends is None or ends[0] == ends[1] else " to ".join(signed(end, digits) for end in ends)
        limits = f"<small>{h.text(small).replace(' to ', ' to&nbsp;')}</small>" if small else ""
        return f"<td{tone}><b>{h.text(signed(finite(pair_of.difference) or 0.0, digits))}</b>{limits}</td>"

    lines = (
        h.table_row(h.name(label), "".join(cell(first, second) for second in names)) for first, label in names.items()
    )
    title = clean(metric)
    return h.table_of(map(h.name, [title, *names.values()]), lines, f"differences in {title}", ' class="pairs"')


def _provenance(report: Any, shown: Digest) -> str:
    facts = [(shown.labels[name], str(shown.estimates[name].counts)) for name in shown.drawn if name in shown.estimates]
    entries = [(key, value) for key, value in report.provenance.items() if not (facts and key == "about")]
    entries += [
        (f"rounds of {clean(model)}", "; then ".join(str(each.get("design", "?")) for each in run.rounds))
        for model, run in report.runs.items()
    ]
    entries = [(key, value) for key, value in entries if _says(value)]
    facts += [
        (_PROVENANCE.get(str(key), str(key).replace("_", " ")), _whom(shown) if key == "target" else _plain(value))
        for key, value in entries[:MOST_FACTS]
    ]
    if len(entries) > MOST_FACTS:
        facts.append(("…", f"{len(entries) - MOST_FACTS:,} more entries are in report.to_json()"))
    if not facts:
        return ""
    listed = h.definitions("plain", [(clean(name), clean(value, 400)) for name, value in facts])
    return h.paragraph("What it takes to get these numbers again.") + listed


#: How the page words what provenance calls by a key.
_PROVENANCE = {
    "rng": "seed", "split": "data", "checksum": "data checksum (SHA-256)", "level": "level of intervals",
    "target": "intervals are for",
}  # fmt: skip


def _reading(shown: Digest) -> str:
    level = f"{shown.level:.0%}"
    entries = [
        (not shown.exact, "Full catalogue",
         "The metric that ranking every candidate would show. Where negatives were sampled it is estimated from the sampled "
         "ranks and the known law of the sampling; where everything was ranked it is that value itself."),
        (shown.any("naive"), "Uncorrected",
         "The same formula applied to the rank among the sampled negatives, as if they were the catalogue. It is nearly "
         "always far too high, by a factor that differs between models, so that even the order of models may be wrong."),
        (shown.any("spread"), f"{level} interval",
         f"Covers what full evaluation of {_whom(shown)} would show in {level} of evaluations. Two intervals may overlap "
         "although the difference between the models is clear: what decides is the interval of the difference."),
        (shown.any("bounds"), "Bounds",
         "What the data alone allow: the least and largest value over all rank distributions that the sample does not rule "
         "out. They assume neither that ranks are spread smoothly nor that they look like those of any recommender."),
        (bool(shown.blind_spots), "Blind spot",
         "The ranks near the top that a sample of this size cannot tell apart. Metrics at small K live there. More "
         "negatives, or negatives added only for targets that are not yet beaten, make it smaller."),
        (True, "Metrics", _metric_words(shown)),
    ]  # fmt: skip
    return h.definitions("read", [(name, words) for there, name, words in entries if there and words])


#: What a user with one held-out item at rank R adds to a metric.
_GAINS = {
    "recall": "1", "precision": "1 / K", "ndcg": "1 / log2(R + 1)", "ap": "1 / R",
    "auc": "the share of the other candidates that rank below",
}  # fmt: skip


def _metric_words(shown: Digest) -> str:
    """Say what the metrics of this report are; nothing of those that are the user's own."""
    found: dict[str, str] = {}
    for metric in shown.asked.values():
        if metric.function is None:
            word = metric.word or metric.name
            name, cut = (word, "") if metric.uncut else (f"{word}@K", " if R ≤ K, else 0")
            found.setdefault(name, f"{name} is {_GAINS[metric.name]}{cut}")
    formulas = "; ".join(found.values())
    words = f"With one held-out item per user at rank R: {formulas}. Each is averaged over users; ranks start at 1."
    return words if found else ""


def _whom(shown: Digest) -> str:
    """Say what the intervals are for."""
    return "the population that the cases come from" if shown.target == "population" else "these very cases"


def _sentence(text: str) -> str:
    """Write what stands behind a headline as a sentence of its own."""
    if text.startswith("exact"):
        text = f"The value is {text}"
    elif re.match(r"[0-9]+% interval ", text):
        text = f"The {text.replace(' interval ', ' interval is ', 1)}"
    elif text[:1].isdigit() or text[:1] == "−":
        text = f"The value is {text}"
    return f"{text}." if text else ""


def _says(value: object) -> bool:
    """Tell whether an entry of the provenance says anything."""
    return bool(value) or (value == 0 and value is not False)


def _plain(value: object) -> str:
    """Write a value of the provenance in plain words."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and finite(value) is not None:
        return number(value, 4).rstrip("0").rstrip(".") if abs(value) < 1e9 else f"{value:g}"
    if isinstance(value, dict) and len(value) <= MOST_FACTS:
        return "; ".join(f"{key}: {_plain(each)}" for key, each in value.items() if _says(each))
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return f"{len(value):,}"
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
