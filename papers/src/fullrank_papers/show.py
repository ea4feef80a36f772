"""Results for people: text that fits 80 columns, one HTML page, and the page of the documentation."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

import numpy as np

from .catalogue import PAPERS, experiments
from .claims import CLAIMS
from .engine import Result
from .figures import svg
from .kinds import READINGS, Row, alignment_gaps
from .simulate import OWN

__all__ = ["as_html", "as_markdown", "as_text", "listing", "summary"]


def listing() -> list[str]:
    """Every experiment in a line."""
    out = []
    for paper, found in groupby(experiments().values(), key=lambda made: made.paper):
        out += ["", f"{paper}: {PAPERS[paper]}"]
        for made in found:
            names = " = ".join((made.name, *made.also))
            out.append(f"  {names:<26} {made.title}")
    return out[1:]


# ------------------------------------------------------------------------------------------------ text


def as_text(result: Result) -> list[str]:
    """One experiment: a block per data set and model, then what was missing and what to know."""
    made = result.experiment
    lines = [f"{made.name}: {made.title}"]
    if result.rows:
        unit = {"fraction": "", "": "", "0.001": ", in units of 0.001"}.get(made.unit, f", {made.unit}")
        lines.append(f"{result.repeats} repeats{unit}; diff: in published standard deviations, or (as it is)")
    for (data, model), rows in groupby(result.rows, key=lambda row: (row.data, row.model)):
        lines += ["", f"{data}, {model}", *_block(list(rows))]
    if gaps := aligned(result):
        lines += ["", *gaps]
    for panel in result.panels:
        lines.append(f"  panel: {panel.title} ({len(panel.series)} series)")
    if result.missing:
        lines += ["", *(f"missing: {each}" for each in result.missing)]
    if result.notes or made.remarks:
        lines += ["", *(f"note: {each}" for each in (*result.notes, *made.remarks))]
    return lines


def _block(rows: Sequence[Row]) -> list[str]:
    """Metric, estimator, published, measured, difference and, where computed, theory."""
    with_theory = any(row.theory is not None for row in rows)
    wide, gap = (14, 8) if with_theory else (16, 10)
    head = f"  {'metric':<12}{'estimator':<19}{'published':>13}{'measured':>{wide}}{'diff':>{gap}}"
    out = [head + (f"{'theory':>12}" if with_theory else "")]
    before = ""
    for row in rows:
        digits = _digits(row)
        name = row.metric if row.metric != before else ""
        before = row.metric
        line = f"  {name:<12}{row.estimator:<19}{_pair(row.published, row.published_sd, digits):>13}"
        line += f"{_pair(row.measured, row.sd, digits):>{wide}}{_difference(row):>{gap}}"
        if with_theory:
            line += f"{_pair(row.theory, row.theory_sd, 1):>12}"
        out.append(line.rstrip())
    return out


def _digits(row: Row) -> int:
    size = abs(row.published if row.published is not None else row.measured)
    if row.metric == "a" or row.metric.startswith(("k=", "abs", "rel")):
        return 4
    if row.model == "winner" or " or " in row.model:
        return 0
    if row.estimator in READINGS:
        return 3
    if row.published_sd is None and row.sd is None and float(row.measured).is_integer() and size >= 1:
        return 0
    return 3 if size < 1 and row.model in "ABC" else 2


def _pair(value: float | None, sd: float | None, digits: int) -> str:
    if value is None:
        return "-"
    return f"{value:.{digits}f}" + ("" if sd is None else f" ±{sd:.{digits}f}")


def _difference(row: Row) -> str:
    if row.difference is None:
        return ""
    if row.published_sd:
        return f"{row.difference:+.1f}"
    return f"({row.difference:+.{min(_digits(row), 3)}f})"


# ------------------------------------------------------------------------------------------------ summary


def summary(result: Result) -> str:
    """One sentence of numbers: how many cells there are, and how far they lie from the published ones."""
    # with each repeat's own prior an estimator is not the published one, though its row stands beside it
    rows = [row for row in result.rows if row.published is not None and not row.estimator.endswith(OWN)]
    if not rows:
        count = len(result.panels)
        if count:
            return (
                f"{count} panel{'s' if count > 1 else ''}: " + "; ".join(panel.title for panel in result.panels) + "."
            )
        return "Nothing that is published could be measured." if result.rows else "Nothing could be measured."
    spread = [abs(row.difference or 0.0) for row in rows if row.published_sd]
    plain = [abs(row.difference or 0.0) for row in rows if not row.published_sd]
    parts = []
    if spread:
        within = sum(each <= 2 for each in spread)
        parts.append(
            f"{within} of {len(spread)} cells within 2 published standard deviations (median {np.median(spread):.1f})"
        )
    if plain:
        most = max((row for row in rows if not row.published_sd), key=lambda row: abs(row.difference or 0.0))
        where = f" ({most.data}, {most.model}, {most.metric}, {most.estimator})" if max(plain) >= 0.0005 else ""
        parts.append(
            f"{len(plain)} cells without a published standard deviation, median difference {_small(np.median(plain))}, "
            f"largest {_small(max(plain))}{where}"
        )
    checked = [row for row in rows if row.theory is not None and row.theory_sd]
    if checked:
        told = np.array([(row.measured, row.sd, row.theory, row.theory_sd) for row in checked], dtype=float).T
        z = (told[0] - told[2]) / (told[3] / np.sqrt(result.repeats))
        ratio = told[1] / told[3]
        parts.append(
            f"against theory for our own ranks: {np.mean(np.abs(z) <= 3):.0%} of {len(z)} means within 3 Monte-Carlo "
            f"standard errors (largest {np.abs(z).max():.1f}), spreads {ratio.min():.2f} to {ratio.max():.2f} of theory"
        )
    return "; ".join(parts) + "."


def _small(value: float) -> str:
    """Two digits; what rounding left is 0."""
    return f"{value:.2g}" if value > 1e-9 else "0"


def aligned(result: Result) -> list[str]:
    """Of li20's tables: how far SHR@k and HR@f(k) lie apart, measured and published, a line per model and scheme."""
    if result.experiment.kind != "mapped":
        return []
    out = []
    for (data, model), found in alignment_gaps(result.rows).items():
        if any(told is not None for _, told in found.values()):
            each = (
                f"{word} {measured:.4f} ({told:.4f})" for word, (measured, told) in found.items() if told is not None
            )
            out.append(f"{data}, {model}: " + ", ".join(each))
    return ["Mean over k of |SHR@k − HR@f(k)|, measured (published):", *(f"  {line}" for line in out)] if out else []


#: How near is near where no standard deviation is printed, by unit: counts of 100; hit ratios and Beta parameters.
NEAR = {"of 100": 15.0, "fraction": 0.03}


def matches(result: Result) -> list[str]:
    """Which models agree with the paper and which do not, or which estimators where that tells them apart better."""
    near = NEAR.get(result.experiment.unit)
    cells = [
        (row, abs(row.difference or 0.0) <= (2.0 if row.published_sd else near or 0.0)) for row in result.rows
        if row.published is not None and (row.published_sd or near)
        and row.estimator != "exact" and not row.estimator.endswith(OWN)
    ]  # fmt: skip

    def shares(name: Callable[[Row], str]) -> dict[str, float]:
        out: dict[str, list[bool]] = {}
        for row, fine in cells:
            out.setdefault(name(row), []).append(fine)
        return {key: float(np.mean(fine)) for key, fine in out.items()}

    by = [shares(lambda row: f"{row.model} on {row.data}"), shares(lambda row: row.estimator)]
    told = max(by, key=lambda found: float(np.std(list(found.values()))) if found else 0.0)
    good = [key for key, share in told.items() if share >= 0.8]
    bad = [f"{key} ({share:.0%})" for key, share in told.items() if share < 0.8]
    return [f"{word}: {'; '.join(each)}." for word, each in (("Matches", good), ("Does not match", bad)) if each]


# ------------------------------------------------------------------------------------------------ pages


def as_html(results: Iterable[Result]) -> str:
    """All results on one self-contained page."""
    results = list(results)
    by_name = {result.experiment.name: result for result in results}
    links = " · ".join(f"<a href='#{name}'>{name}</a>" for name in by_name)
    parts = [f"<p>{links}</p>", "<h2>The papers' claims</h2>", _html_claims(by_name)]
    for result in results:
        made = result.experiment
        parts.append(
            f"<h2 id={html.escape(made.name, True)!r}>{html.escape(made.name)}: {html.escape(made.title)}</h2>"
        )
        parts.append(f"<p>{html.escape(summary(result))}</p>")
        parts += [f"<pre>{html.escape(chr(10).join(gaps))}</pre>"] if (gaps := aligned(result)) else []
        if result.panels:
            parts.append(f"<div class=figure>{svg(result.panels)}</div>")
        for (data, model), rows in groupby(result.rows, key=lambda row: (row.data, row.model)):
            parts.append(f"<h3>{html.escape(f'{data}, {model}')}</h3>{_html_table(list(rows))}")
        notes = [*(f"missing: {each}" for each in result.missing), *result.notes, *made.remarks]
        notes = [*matches(result), *notes] if result.rows else notes
        parts += [f"<p class=note>{html.escape(each)}</p>" for each in notes]
    return _PAGE.replace("{body}", "\n".join(parts))


def _html_claims(by_name: Mapping[str, Result]) -> str:
    rows = []
    for claim in CLAIMS:
        verdict = claim.judge(by_name)
        cells = (claim.paper, claim.text, verdict.evidence, _WORDS[verdict.holds])
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
    return f"<table class=claims><tr><th>paper<th>claim<th>measured<th>verdict{''.join(rows)}</table>"


def _html_table(rows: Sequence[Row]) -> str:
    with_theory = any(row.theory is not None for row in rows)
    head = "".join(f"<th>{name}" for name in ("metric", "estimator", "published", "measured", "difference",
                                               *(("theory",) if with_theory else ())))  # fmt: skip
    body = []
    for row in rows:
        digits = _digits(row)
        cells = [row.metric, row.estimator, _pair(row.published, row.published_sd, digits),
                 _pair(row.measured, row.sd, digits), _difference(row)]  # fmt: skip
        if with_theory:
            cells.append(_pair(row.theory, row.theory_sd, digits))
        body.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
    return f"<table><tr>{head}{''.join(body)}</table>"


_PAGE = """<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width,initial-scale=1">
<title>The papers, reproduced with fullrank</title><style>
:root{color-scheme:light dark;--ink:#1b1b1b;--paper:#fff;--line:#ddd}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#16181c;--line:#444}}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:var(--ink);background:var(--paper)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px;display:block;overflow-x:auto}
th,td{padding:2px 10px;text-align:right;border-bottom:1px solid var(--line)}
th:nth-child(-n+2),td:nth-child(-n+2),.claims td,.claims th{text-align:left;vertical-align:top}
.note{color:#888;font-size:13px;margin:.2rem 0}
.figure{background:#fff;padding:8px;overflow-x:auto;border-radius:6px}svg{max-width:100%;height:auto}
</style><h1>The papers, reproduced with fullrank</h1>
<p>Measured beside published. Differences are in published standard deviations; in brackets where none is printed.</p>
{body}
</html>
"""


def as_markdown(results: Sequence[Result], spent: Mapping[str, tuple[float, float, int]] = MappingProxyType({})) -> str:
    """docs/reproduction.md: the papers' claims with the measured verdict, then per table what matches and what does not.

    ``spent`` is :func:`time_spent`.
    """
    by_name = {result.experiment.name: result for result in results}
    left = [name for name in experiments() if name not in by_name]
    out = [_INTRO.strip(), *(["", f"Not run for this page: {', '.join(left)}."] if left else [])]
    out += ["", *_times(spent)] if spent else []
    out += ["", "## The papers' claims", "", "| | claim | measured | verdict |", "|---|---|---|---|"]
    for claim in CLAIMS:
        verdict = claim.judge(by_name)
        text, evidence = (each.replace("|", "\\|") for each in (claim.text, verdict.evidence))  # a bar ends a cell
        out.append(f"| {claim.paper} | {text} | {evidence} | {_WORDS[verdict.holds]} |")
    for paper, found in groupby(results, key=lambda result: result.experiment.paper):
        out += ["", f"## {paper}: {PAPERS[paper]}"]
        for result in found:
            made = result.experiment
            out += ["", f"### {' = '.join((made.name, *made.also))}: {made.title}", "", summary(result)]
            notes = [*matches(result), *made.remarks, *result.notes] if result.rows or result.panels else []
            notes += _absent(result.missing)
            out += ["", *(f"- {each}" for each in notes)] if notes else []
            if gaps := aligned(result):
                out += ["", "```text", *gaps, "```"]
            if result.rows:
                out += ["", "```text", *_compact(result), "```"]
    return "\n".join(out) + "\n"


def _times(spent: Mapping[str, tuple[float, float, int]]) -> list[str]:
    """What the numbers on the page took."""
    words = {"plain": "all that needs no neural model", "neural": "training the neural models, and their rows"}
    each = [
        f"{words[kind]}, {cpu / 60:.0f} minutes of processor time in {jobs} processes ({clock / 60:.0f} by the clock)"
        for kind, (clock, cpu, jobs) in spent.items()
    ]
    return [
        f"What it took from an empty cache: {'; '.join(each)}.",
        "Both are summed piece by piece as the run goes on, so that interrupted runs add up; the clock also counts waiting",
        "for a machine that has other work. Page and pictures are not in it.",
    ]


def _absent(missing: Sequence[str]) -> list[str]:
    """What was missing, in a line or two: no sentence twice, no path of the machine it ran on."""
    neural = [each.split(" is not trained")[0] for each in missing if " is not trained" in each]
    data = [each.split(" is not here")[0] for each in missing if " is not here" in each]
    rest = [each for each in missing if " is not trained" not in each and " is not here" not in each]
    out = [f"Not here: {'; '.join(data)} (`fullrank data` says how to get it)."] if data else []
    out += [f"Not trained: {', '.join(neural)} (`make reproduce-neural NEURAL=…`)."] if neural else []
    return out + [f"Not run: {each}" for each in rest]


_WORDS = {True: "holds", False: "does not hold", None: "open"}


def _compact(result: Result, most: int = 60) -> list[str]:
    """The table in text; of a long one, the rows of one metric."""
    rows = list(result.rows)
    metrics = list(dict.fromkeys(row.metric for row in rows))
    shown = next((metric for metric in metrics if metric.endswith(("@10", "=10"))), metrics[0])
    if len(rows) > most and len(metrics) > 1:
        rows = [row for row in rows if row.metric == shown]
    out: list[str] = []
    for (data, model), block in groupby(rows, key=lambda row: (row.data, row.model)):
        out += [f"{data}, {model}", *_block(list(block))]
    if len(rows) < len(result.rows):
        out.append(f"(of {len(metrics)} metrics; `fullrank-papers {result.experiment.name}` prints all)")
    return out


_INTRO = """
# The papers, reproduced

Generated by `make reproduce` and `make reproduce-neural` from the experiments in `papers/`; do not edit by hand. Each table
can be had alone, `fullrank-papers kr20-table3`, and figures as PNG, `fullrank-papers kr20-fig5 --out figures/`.

The experiments are a package beside the library that uses its public names only, so that they certify what anyone would run.

How to read it: *published* is the paper's number, *measured* ours over as many repeats, *diff* the difference in published
standard deviations (in brackets: as it is, where none is printed). Models are trained here, so absolute values agree only
where a model can be remade exactly (Y and Z of kr20). The settings of EASE, itemKNN and ALS are not printed in the papers
and were chosen, from a handful each, to come close to the published exact values of jin21: that those and li20's
Beta parameters nearly agree is in part that choice, not evidence.
Elsewhere compare the order of estimators and the size of the gain.
*theory* is computed from the ranks of our own models, not simulated. Samples are drawn from true ranks, independently for
every model: li23 drew the same negatives for all models, which matters for nothing but the counts of winners.
BV_* and MN_* have two rows: with the prior averaged over all repeats, as published, and with each repeat's *own prior*,
which is all that a single evaluation has.
A model or an estimator *matches* where at least 80 % of its cells lie within 2 published standard deviations, or, where none
are printed, within 15 of 100 counts or 0.03 of a hit ratio; the share is in brackets where it does not.
Figures are drawn into the page that `make reproduce` writes to `artifacts/reproduction/index.html`.
"""
