"""The report as one page: a single file that opens offline, from a mail attachment, on a phone, and prints.

No script and no request: charts are inline SVG whose colours are CSS variables, tooltips are SVG titles, and every chart
has its numbers in a table behind it that the keyboard reaches. What is shown is cleaned and bounded (see :mod:`.digest`);
how it is worded stands in the templates beside this file, which escape whatever comes from the report.
"""

import json
import re
from collections.abc import Sequence
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

from fullrank._files import writable, write_atomically
from fullrank._version import __version__
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL
from fullrank.report.charts import inline, svg
from fullrank.report.comparison import Comparison
from fullrank.report.digest import MOST_MODELS, MOST_PAIRED, Digest
from fullrank.report.panels import KINDS, PAGE, difference_panel, load, panels_of
from fullrank.report.words import clean, merged_notes, percent, ranged, ratio, short_design, signed

MOST_FACTS = 60


def write_page(page: str, path: str | Path) -> Path:
    """Write the page to ``path`` atomically and return where it is."""
    write_atomically(target := writable(path), page.encode())
    return target


@cache
def _templates() -> Any:
    """Return the templates beside this file, each of which is compiled once: that takes longer than filling it in."""
    jinja, markup = load("jinja2"), load("markupsafe").Markup
    pages = jinja.Environment(
        loader=jinja.PackageLoader(__package__, ""), autoescape=True, undefined=jinja.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    pages.filters |= {
        "clean": clean, "percent": percent, "ranged": ranged, "ratio": ratio, "signed": signed, "colour": PAGE.colour,
        "whole": "{:,}".format, "whole_percent": "{:.0%}".format, "sentence": _sentence, "whom": _whom, "design": _design,
        "name": markup("<bdi>{}</bdi>").format,  # that somebody chose: its writing direction stays its own
        "merged": merged_notes,
        "filled": lambda sections: [each for each in sections if each[-1].strip()],
    }  # fmt: skip
    return pages


def render(template: str, **context: Any) -> str:
    """Fill in one of the templates beside this file."""
    markup = load("markupsafe").Markup

    def drawing(chart: Any, about: str, serial: int) -> Any:
        return markup(inline(svg(chart, PAGE), clean(about, 600), serial))

    context |= {"version": __version__, "drawing": drawing, "next_serial": count(1).__next__}
    return str(_templates().get_template(template).render(context, most_models=MOST_MODELS, most_paired=MOST_PAIRED))


def page(report: Any) -> str:
    """Write a report as a page."""
    shown = Digest(report)
    panels = {kind: panels_of(shown, PAGE, kind) for kind in KINDS}
    counts = _totals([estimate.counts for estimate in shown.estimates.values()], shown.items_scored)
    title = str(report.provenance.get("data") or report.provenance.get("split") or "")
    provenance = _provenance(report, shown)
    return render("report.html", shown=shown, panels=panels, counts=counts, title=title, provenance=provenance)


def comparison_page(found: Sequence[Comparison]) -> str:
    """Write comparisons of the same models by several metrics as a page: the ranking, leads, and every pair."""
    names = {model: clean(model) for model in found[0].models[:MOST_PAIRED]}
    leads = partial(difference_panel, style=PAGE, most=MOST_MODELS)
    return render("comparison.html", found=found, names=names, leads=leads)


def _design(designs: Sequence[str]) -> tuple[str, str]:
    """Name designs in a few words, and then in all that it takes, where these are more."""
    short, whole = list(dict.fromkeys(map(short_design, designs))), "; ".join(designs)
    kinds = {each.partition(",")[0] for each in short}
    name = short[0] if len(short) == 1 else kinds.pop() if len(kinds) == 1 else f"{len(short)} designs"
    return name, whole.replace("stop ", "stop\u00a0") * (whole != name)


def _totals(counts: Sequence[RankCounts], scored: int) -> dict[str, Any] | None:
    """Add up what was seen of all models, and what ranking everything would have taken; with guides, what they brought.

    ``scored``: what the models were asked for, audits and timing included.
    """
    if not counts:
        return None
    full = max(sum(len(each) * max(each.n_items - 1, 1) for each in counts), 1)
    low, high = min(each.pool_range[0] for each in counts), max(each.pool_range[1] for each in counts)
    beyond = [each.design.beyond is not None for each in counts]
    guided = [each for each in counts if each.design.compares]
    compared = sum(each.items_compared for each in guided) / max(sum(each.items_scored for each in guided), 1)
    closed = sum(int(each.cases[each.closed].sum()) for each in guided) / max(sum(map(len, guided)), 1)
    return {
        "models": len(counts), "scored": scored, "share": min(scored / full, 1.0),
        "per_case": scored / max(sum(map(len, counts)), 1), "pool": ranged(round(low), round(high)),
        "candidates": ", ".join(dict.fromkeys(clean(each.candidates) for each in counts)),
        "sizes": {int(size) for each in counts for size in each.sizes} - {ALL},
        "beyond": any(beyond), "all_beyond": all(beyond), "guided": bool(guided), "compared": compared, "closed": closed,
    }  # fmt: skip


def _provenance(report: Any, shown: Digest) -> list[tuple[str, str]]:
    """Return what it takes to get the numbers again."""
    facts = [(shown.labels[name], str(shown.estimates[name].counts)) for name in shown.drawn if name in shown.estimates]
    given = report.provenance | ({"target": _whom(shown.target)} if "target" in report.provenance else {})
    for model, run in report.runs.items():
        given[f"rounds of {model}"] = "; then ".join(str(each.get("design", "?")) for each in run.rounds)
    entries = [(str(key), _plain(value)) for key, value in given.items() if not (facts and key == "about")]
    entries = [(_PROVENANCE.get(key, key.replace("_", " ")), text) for key, text in entries if text]
    facts += entries[:MOST_FACTS]
    if len(entries) > MOST_FACTS:
        facts.append(("…", f"{len(entries) - MOST_FACTS:,} more entries are in report.to_json()"))
    return [(clean(name), clean(value, 400)) for name, value in facts]


#: How the page words what provenance calls by a key.
_PROVENANCE = {
    "rng": "seed", "split": "data", "checksum": "data checksum (SHA-256)", "level": "level of intervals",
    "target": "intervals are for",
}  # fmt: skip


def _whom(target: str) -> str:
    """Say what the intervals are for."""
    return "the population that the cases come from" if target == "population" else "these very cases"


def _sentence(text: str) -> str:
    """Write what stands behind a headline as a sentence of its own."""
    if re.match(r"[0-9]+% interval ", text):
        text = f"The {text.replace(' interval ', ' interval is ', 1)}"
    elif re.match(r"exact|[0-9−]", text):
        text = f"The value is {text}"
    return f"{text}." if text else ""


def _plain(value: object) -> str:
    """Write a value of the provenance in plain words; nothing where it says nothing."""
    if not value and (value is False or value != 0):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict) and len(value) <= MOST_FACTS:
        return "; ".join(f"{key}: {text}" for key, each in value.items() if (text := _plain(each)))
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return f"{len(value):,}"
    return json.dumps(value, ensure_ascii=False, default=str)
