"""Results for people: text that fits 80 columns, one HTML page, and the page of the documentation."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

import numpy as np

from .catalogue import PAPERS, experiments, published
from .claims import CLAIMS, Claim, Verdict
from .drawing import svg
from .engine import Result
from .facts import FACTS
from .figures import Panel, Series
from .judging import VERDICTS, Cell, Power, judge, overall, power, tally
from .kinds import READINGS, Row, alignment_gaps
from .ranks import NotHereError, holds_out, recipes, recommender, split_of

__all__ = ["as_html", "as_markdown", "as_text", "listing", "pictures", "summary"]

#: Data sets whose ranks are among those that LogSpline's prior was learned from, and the mark that says so.
KNOWN, MARK = ("ml-1m", "citeulike", "pinterest-20", "gowalla"), " †"


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
    lines = [f"{made.name}: {made.title}", *protocol(result)]
    verdicts = _verdicts(result)
    for (data, model), rows in groupby(result.rows, key=lambda row: (row.data, row.model)):
        lines += ["", _heading(data, model), *_block(list(rows), verdicts)]
    if gaps := aligned(result):
        lines += ["", *gaps]
    for panel in result.panels:
        lines.append(f"  panel: {panel.title} ({len(panel.series)} series)")
    lines += ["", summary(result)]
    if result.missing:
        lines += ["", *(f"missing: {each}" for each in result.missing)]
    if result.notes or made.remarks:
        lines += ["", *(f"note: {each}" for each in (*result.notes, *made.remarks))]
    return lines


def _heading(data: str, model: str) -> str:
    """What a block of rows is about: tables of the data themselves have no model."""
    return f"{data}, {model}" if model else data


def _verdicts(result: Result) -> dict[Row, Cell]:
    return {cell.row: cell for cell in judge(result)}


def _block(rows: Sequence[Row], verdicts: Mapping[Row, Cell]) -> list[str]:
    """Metric, estimator, published, measured, how many standard errors apart, and the verdict."""
    width = max(12, *(len(row.metric) + 1 for row in rows))
    out = [f"  {'metric':<{width}}{'estimator':<23}{'published':>13}{'measured':>15}{'errors':>7}"]
    out[0] += " verdict" if any(row in verdicts for row in rows) else ""
    before = ""
    for row in rows:
        digits = _digits(row)
        name = row.metric if row.metric != before else ""
        before = row.metric
        mark = MARK if "LogSpline" in row.estimator and row.data in KNOWN else ""
        line = f"  {name:<{width}}{row.estimator + mark:<23}{_pair(row.published, row.published_sd, digits):>13}"
        cell = verdicts.get(row)
        line += f"{_pair(row.measured, row.sd, digits):>15}{_errors(cell):>7}"
        line += f" {_short(cell)}" if cell is not None else ""
        out.append(line.rstrip())
    return out


def _short(cell: Cell) -> str:
    return {"reproduced": "same", "close": "close", "differs": "differs"}[cell.verdict]


def _errors(cell: Cell | None) -> str:
    if cell is None or cell.errors is None or abs(cell.gap) <= cell.rounding:
        return ""
    return f"{cell.errors:+.1f}" if abs(cell.errors) < 100 else f"{cell.errors:+.0f}"


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


def protocol(result: Result) -> list[str]:
    """How the numbers were made: candidates, design and law, N, what estimators took, repeats and seed."""
    made = result.experiment
    if (made.is_figure and not made.data) or made.kind == "statistics":
        return []
    sizes = []
    for data in dict.fromkeys(row.data for row in result.rows) or made.data:
        try:
            sizes.append(f"{split_of(data).n_items:,} ({data})")
        except (NotHereError, ValueError):
            continue
    toy = "ranks" in made.options
    drawn = made.options.get("schemes") or [made.design]
    parts = [
        f"candidates `{made.candidates}`" if not made.options.get("schemes") else "",
        f"N = {made.options['n_items']:,}" if toy else f"N = {', '.join(sizes)}" if sizes else "",
    ]
    if made.estimators or made.kind in ("beta", "mapped", "mapping errors"):
        parts.append("drawn " + ", ".join(_SCHEMES.get(each, f"by `{each}`") for each in drawn))
        parts.append(f"corrected by the law of `{made.options['law']}`" if "law" in made.options else "")
        parts.append(f"adaptive ones by `{made.options['adaptive']}`" if "adaptive" in made.options else "")
        parts.append("η = 0.01/n in MES (the authors' code; the text says 0.001)" if _uses(result, "MES") else "")
        parts.append("MLE by 100 iterations from a uniform start, 50 where adaptive" if _uses(result, "MLE") else "")
        parts.append(f"{result.repeats} repeats, seed {made.seed}")
        if not toy:
            parts.append("the same negatives for every model" if not set(made.data) & {"gowalla", "book-x"} else "")
    return ["Protocol: " + "; ".join(part for part in parts if part) + "."]


_SCHEMES = {
    "binom": "with replacement (`binom`)",
    "hyper": "without replacement (`hyper`)",
    "actual": "without replacement among unseen items (`actual`)",
}


def _uses(result: Result, word: str) -> bool:
    return any(word in each.replace("WMLE", "") for each in result.experiment.estimators)


# ------------------------------------------------------------------------------------------------ summary


def summary(result: Result) -> str:
    """A sentence or two of numbers: verdicts, exact values apart, theory, and how many wrong columns would pass."""
    cells = judge(result)
    parts = []
    if cells:
        told = tally(cell for cell in cells if not cell.exact)
        exact = [cell for cell in cells if cell.exact]
        if sum(told.values()):
            parts.append(f"{overall(cells).capitalize()}: {_counts(told)} of {sum(told.values())} cells")
        if exact:
            off = [abs(cell.gap) / cell.size for cell in exact if cell.size]
            parts.append(
                f"{'exact values' if result.experiment.kind != 'mapped' else 'SHR itself'}: {_counts(tally(exact))} of "
                f"{len(exact)}" + (f", median {np.median(off):.1%} off" if off else "")
            )
        found = power(cells)
        if found.pairs:
            parts.append(f"a wrong column would pass in {found.passed} of {found.pairs} cases ({found.share:.0%})")
    checked = [row for row in result.rows if row.theory is not None and row.theory_sd]
    if checked:
        z = [(row.measured - (row.theory or 0)) / ((row.theory_sd or 1) / np.sqrt(result.repeats)) for row in checked]
        ratio = [(row.sd or 0) / (row.theory_sd or 1) for row in checked]
        parts.append(
            f"against theory for our own ranks {np.mean(np.abs(z) <= 3):.0%} of {len(z)} means within 3 standard errors, "
            f"spreads {min(ratio):.2f} to {max(ratio):.2f} of theory"
        )
    if result.panels:
        facts = [claim.judge({result.experiment.name: result}) for claim in FACTS.get(result.experiment.name, ())]
        holds = sum(bool(each.holds) for each in facts)
        count = f"{len(result.panels)} panel{'s' if len(result.panels) > 1 else ''}"
        parts.append(f"{count}; {holds} of {len(facts)} facts that the paper tells of it hold" if facts else count)
    if not parts:
        return "Nothing that is published could be measured." if result.rows else "Nothing could be measured."
    return "; ".join(part for part in parts if part) + "."


def _counts(told: Mapping[str, int]) -> str:
    many = {"differs": "differ"}
    each = (
        f"{count} {verdict if count == 1 else many.get(verdict, verdict)}" for verdict, count in told.items() if count
    )
    return ", ".join(each) or "none"


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


def _reasons(cells: Iterable[Cell], most: int = 3) -> list[str]:
    """Why cells differ, the commonest first."""
    told = Counter(cell.reason for cell in cells if cell.verdict == "differs" and not cell.beside)
    return [f"{reason} ({count})" for reason, count in told.most_common(most)]


def _by_estimator(cells: Sequence[Cell]) -> str:
    """Verdicts by estimator: reproduced / close / differs."""
    names = list(dict.fromkeys(cell.row.estimator for cell in cells if not cell.exact))
    parts = []
    for name in names:
        found = [cell.verdict for cell in cells if cell.row.estimator == name and not cell.exact]
        parts.append(f"{name} {' / '.join(str(found.count(verdict)) for verdict in VERDICTS)}")
    return "By estimator, reproduced / close / differs: " + "; ".join(parts) + "." if parts else ""


# ------------------------------------------------------------------------------------------------ pages


def as_html(results: Iterable[Result]) -> str:
    """All results on one self-contained page."""
    results = list(results)
    by_name = {result.experiment.name: result for result in results}
    links = " · ".join(f"<a href='#{name}'>{name}</a>" for name in by_name)
    parts = [f"<p>{links}</p>", "<h2>The papers' claims</h2>", _html_claims(CLAIMS, by_name)]
    for result in results:
        made = result.experiment
        parts.append(
            f"<h2 id={html.escape(made.name, True)!r}>{html.escape(made.name)}: {html.escape(made.title)}</h2>"
        )
        parts += [f"<p>{html.escape(each)}</p>" for each in (*protocol(result), summary(result))]
        parts += [f"<pre>{html.escape(chr(10).join(gaps))}</pre>"] if (gaps := aligned(result)) else []
        if result.panels:
            parts.append(f"<div class=figure>{svg(result.panels)}</div>")
            parts.append(_html_claims(FACTS.get(made.name, ()), by_name))
        verdicts = _verdicts(result)
        for (data, model), rows in groupby(result.rows, key=lambda row: (row.data, row.model)):
            parts.append(f"<h3>{html.escape(_heading(data, model))}</h3>{_html_table(list(rows), verdicts)}")
        notes = [*(f"missing: {each}" for each in result.missing), *result.notes, *made.remarks]
        parts += [f"<p class=note>{html.escape(each)}</p>" for each in notes]
    return _PAGE.replace("{body}", "\n".join(parts))


def _html_claims(claims: Iterable[Claim], by_name: Mapping[str, Result]) -> str:
    rows = []
    for claim in claims:
        verdict = claim.judge(by_name)
        cells = (claim.paper, claim.text, verdict.evidence, claim.fails, _word(claim, verdict))
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
    return f"<table class=claims><tr><th>paper<th>claim<th>measured<th>fails if<th>verdict{''.join(rows)}</table>"


def _html_table(rows: Sequence[Row], verdicts: Mapping[Row, Cell]) -> str:
    with_theory = any(row.theory is not None for row in rows)
    head = "".join(f"<th>{name}" for name in ("metric", "estimator", "published", "measured", "standard errors", "verdict",
                                               *(("theory",) if with_theory else ())))  # fmt: skip
    body = []
    for row in rows:
        digits, cell = _digits(row), verdicts.get(row)
        cells = [row.metric, row.estimator, _pair(row.published, row.published_sd, digits),
                 _pair(row.measured, row.sd, digits), _errors(cell), cell.verdict if cell else ""]  # fmt: skip
        if with_theory:
            cells.append(_pair(row.theory, row.theory_sd, digits))
        body.append("<tr>" + "".join(f"<td>{html.escape(text)}" for text in cells))
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
<p>Measured beside published. Differences are in standard errors of both means, relative to each model's own exact value.</p>
{body}
</html>
"""


def pictures(results: Iterable[Result]) -> dict[str, str]:
    """The figures as small SVGs, by file name."""
    return {f"{result.experiment.name}.svg": svg(result.panels, small=True) for result in results if result.panels}


def as_markdown(
    results: Sequence[Result],
    spent: Mapping[str, tuple[float, float, int]] = MappingProxyType({}),
    folder: str = "reproduction",
) -> str:
    """docs/reproduction.md: a line per table and figure, the power of the comparison, the claims, then the numbers of each.

    ``spent`` is :func:`time_spent`; the pictures of :func:`pictures` are looked for in ``folder``, beside the page.
    """
    by_name = {result.experiment.name: result for result in results}
    left = [name for name in experiments() if name not in by_name]
    judged = {name: judge(result) for name, result in by_name.items()}
    out = [_INTRO.strip(), *(["", f"Not run for this page: {', '.join(left)}."] if left else [])]
    out += ["", "## In one table", "", *_overview(by_name, judged)]
    out += ["", "## Could the comparison fail?", "", *_powers(judged)]
    out += ["", "## The papers' claims", "", *_LIMITS, "", *_claims(CLAIMS, by_name)]
    out += ["", "## Models and time", "", *_models(results)]
    out += ["", *_times(spent)] if spent else []
    for paper, found in groupby(results, key=lambda result: result.experiment.paper):
        out += ["", f"## {paper}: {PAPERS[paper]}"]
        for result in found:
            out += _section(result, judged[result.experiment.name], by_name, folder)
    return "\n".join(out) + "\n"


def _section(result: Result, cells: Sequence[Cell], by_name: Mapping[str, Result], folder: str) -> list[str]:
    made = result.experiment
    out = ["", f"### {' = '.join((made.name, *made.also))}: {made.title}", "", summary(result)]
    if told := protocol(result):
        out += ["", *told]
    notes = [*made.remarks, *result.notes] if result.rows or result.panels else []
    if cells:
        notes = [line for line in (_by_estimator(cells), *_why(cells)) if line] + notes
    notes += _absent(result.missing)
    out += ["", *(f"- {each}" for each in notes)] if notes else []
    if gaps := aligned(result):
        out += ["", "```text", *gaps, "```"]
    if result.panels:
        out += ["", f"![{made.title}]({folder}/{made.name}.svg)", "", *_claims(FACTS.get(made.name, ()), by_name)]
        out += ["", "```text", *_figure_numbers(result.panels), "```"]
    if result.rows:
        out += ["", "```text", *_compact(result), "```"]
    return out


def _why(cells: Sequence[Cell]) -> list[str]:
    told = _reasons(cells)
    return [f"Differs because: {'; '.join(told)}."] if told else []


def _overview(by_name: Mapping[str, Result], judged: Mapping[str, Sequence[Cell]]) -> list[str]:
    """One line per table and figure."""
    head = ("", "verdict", "cells measured, of published", "reproduced / close / differs", "exact values, median off",
            "why, and what is missing")  # fmt: skip
    out = ["| " + " | ".join(head) + " |", "|---|---|--:|--:|--:|---|"]
    total = Counter[str]()
    for name, result in by_name.items():
        made, cells = result.experiment, judged[name]
        names = " = ".join((name, *made.also))
        there = len(published(made.published))
        columns = [cell for cell in cells if not cell.beside]
        missing = _absent_in_short(result.missing)
        if made.is_figure:
            verdicts = [claim.judge(by_name) for claim in FACTS.get(name, ())]
            holds = [each.holds for each in verdicts]
            stand_in = bool(made.options.get("stand_ins"))
            word = "reproduced" if result.panels and all(holds) else "differs" if False in holds else "not measured"
            failed = [
                claim.text for claim, each in zip(FACTS.get(name, ()), verdicts, strict=True) if each.holds is False
            ]
            why = ["stand-in data"] if stand_in and result.panels else []
            why += [f"does not hold: {each}" for each in failed]
            out.append(
                f"| {names} | {word} | | {sum(map(bool, holds))} of {len(holds)} facts | | {_cell([*why, *missing])} |"
            )
            continue
        if not there:
            out.append(f"| {names} | beside the tables | | | | {_cell(missing)} |")
            continue
        told = tally(cell for cell in columns if not cell.exact)
        off = [abs(cell.gap) / cell.size for cell in columns if cell.exact and cell.size]
        counts = " / ".join(str(told[verdict]) for verdict in VERDICTS) if sum(told.values()) else ""
        why = [] if overall(cells) == "reproduced" else _reasons(cells, 2)
        median = f"{np.median(off):.1%}" if off else ""
        line = (names, overall(cells), f"{len(columns)} of {there}", counts, median, _cell([*why, *missing]))
        out.append("| " + " | ".join(line) + " |")
        away = sum(
            n for data, n in Counter(data for data, *_ in published(made.published)).items() if not _at_hand(data)
        )
        total.update({"there": there, "measured": len(columns), "away": away, **told})
    open_ = total["there"] - total["measured"] - total["away"]
    out += [
        "",
        f"{total['measured']:,} of {total['there']:,} published cells are measured; of the others {total['away']:,} are of "
        f"data sets that are not at hand, and {open_ or 'none'} of data sets that are.",
        "Of the measured ones that are not exact values of a model, "
        f"{total['reproduced']} are reproduced, {total['close']} close, {total['differs']} differ.",
        "",
        "*Without* names data sets that are not at hand (`fullrank data` says where to find each), and *untrained* neural",
        "models that were not trained for this page (`make reproduce-neural` trains them).",
    ]
    return out


def _at_hand(data: str) -> bool:
    """Whether a data set is here; a toy, whose ranks are printed, always is."""
    try:
        split_of(data)
    except NotHereError:
        return False
    except ValueError:  # not the name of a data set
        pass
    return True


def _cell(parts: Iterable[str]) -> str:
    return "; ".join(part.rstrip(".") for part in parts).replace("|", "\\|")


def _powers(judged: Mapping[str, Sequence[Cell]]) -> list[str]:
    """By table: wrong columns that would pass."""
    out = [
        "A verdict is worth what it can refuse. Take two columns of a table that the published numbers themselves",
        "tell apart by more than 3 standard errors, and let our number of one pose for the published one of the other:",
        "how often would it pass? Where it passes for its own column as well, the comparison cannot tell the two apart.",
        "Where it does not, the comparison told them apart, and our number is simply not the published one.",
        "",
        "| table | pairs of columns | pass as reproduced | for the right column as well | as reproduced or close |",
        "|---|--:|--:|--:|--:|",
    ]
    found = {name: power(cells) for name, cells in judged.items()}
    found = {name: each for name, each in found.items() if each.pairs}
    for name, each in found.items():
        out.append(_power_line(name, each))
    whole = sum(found.values(), Power())
    if whole.pairs:
        share, both = (
            np.mean([getattr(each, of) / each.pairs for each in found.values()]) for of in ("passed", "either")
        )
        out.append(_power_line("all pairs", whole))
        out += [
            "",
            f"On the mean over tables {share:.0%} of separable wrong columns pass, {both:.0%} where the right one does.",
        ]
    return out


def _power_line(name: str, of: Power) -> str:
    shares = (of.passed, of.either, of.near)
    return f"| {name} | {of.pairs} | " + " | ".join(f"{each / of.pairs:.0%}" for each in shares) + " |"


def _claims(claims: Sequence[Claim], by_name: Mapping[str, Result]) -> list[str]:
    if not claims:
        return []
    out = ["| | claim | measured | it fails if | verdict |", "|---|---|---|---|---|"]
    for claim in claims:
        verdict = claim.judge(by_name)
        cells = (claim.paper, claim.text, verdict.evidence, claim.fails, _word(claim, verdict))
        out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")  # a bar ends a cell
    return out


def _word(claim: Claim, verdict: Verdict) -> str:
    word = _WORDS[verdict.holds]
    link = "but" if verdict.holds else "note"
    return f"{word}; {link}: {claim.caveat}" if claim.caveat and verdict.holds is not None else word


#: How far the limits of claims and facts may be trusted.
_LIMITS = (
    "The limits in the column *it fails if* are ours, as the papers name few, and were set with the numbers of earlier",
    "runs in view: they guard against a change, and are no prediction that came true. Where one was changed because a",
    "result failed the first, the verdict says so.",
)
_WORDS = {True: "holds", False: "does not hold", None: "open"}


def _models(results: Sequence[Result]) -> list[str]:
    """The models behind the page, with their settings by data set."""
    used: dict[str, list[str]] = {}
    for result in results:
        made = result.experiment
        for row in result.rows:
            model = row.model.split(",")[0]
            if model in made.models and model in recipes() and row.data not in used.setdefault(model, []):
                used[model].append(row.data)
    out = ["| model | as trained here |", "|---|---|"]
    for model, where in sorted(used.items()):
        each = []
        for data in where:
            held = ", one interaction per user held out" if holds_out(data, model) else ""
            each.append(f"{data}: `{recommender(data, model)!r}`{held}")
        out.append(f"| {model} | {'; '.join(each)} |")
    trained = sorted(
        {f"{model} on {data}" for model, where in used.items() if recipes()[model].get("neural") for data in where}
    )
    out += [
        "",
        f"Neural models that were trained for this page: {', '.join(trained) or 'none'}.",
    ]
    cut = [told for model, where in sorted(used.items()) for data in where if (told := _cut(data, model))]
    if cut:
        out += [f"Stopped earlier than by default, for want of time: {'; '.join(cut)}. Sizes are the authors'."]
    fixed = [f"{model} on {data} ({recommender(data, model).epochs})" for model, where in sorted(used.items())
             for data in where if _unwatched(data, model)]  # fmt: skip
    if fixed:
        out += ["Trained without a validation set, for a number of epochs chosen because it comes close to what is "
                f"published: {', '.join(fixed)}."]  # fmt: skip
    return out


def _cut(data: str, model: str) -> str:
    """That a neural model is trained for fewer epochs here than it is by default, or nothing."""
    if not recipes()[model].get("neural") or _unwatched(data, model):
        return ""
    here, default = recommender(data, model).epochs, type(recommender(data, model))().epochs
    return f"{model} on {data} after at most {here} epochs, not {default}" if here < default else ""


def _unwatched(data: str, model: str) -> bool:
    """Whether a neural model runs through all its epochs, with nothing to stop it by."""
    return bool(recipes()[model].get("neural")) and not recommender(data, model).validation


def _times(spent: Mapping[str, tuple[float, float, int]]) -> list[str]:
    """What the numbers on the page took."""
    words = {"plain": "all that needs no neural model", "neural": "training the neural models, and their rows"}
    if "plain" not in spent:
        words["neural"] = "everything, with the neural models trained on the way"
    each = [f"{words[kind]}, {cpu / 60:.0f} minutes of processor time" for kind, (_, cpu, _) in spent.items()]
    return [
        f"What it took from an empty cache: {'; '.join(each)}.",
        "Summed as one table or figure after the other is done, over interrupted runs too. Page and pictures are not in it.",
    ]


def _absent_in_short(missing: Sequence[str]) -> list[str]:
    """What was missing, as a few words of a table: data sets, then models with their data sets, then the rest."""
    data = [each.split(" is not here")[0].split(",")[0] for each in missing if " is not here" in each]
    untrained: dict[str, list[str]] = {}
    for each in missing:
        if " is not trained" in each:
            model, _, where = each.split(" is not trained")[0].partition(" on ")
            untrained.setdefault(model, []).append(where)
    rest = [each.split(":")[0] for each in missing if " is not trained" not in each and " is not here" not in each]
    out = [f"without {', '.join(data)}"] if data else []
    models = [f"{model} ({', '.join(where)})" for model, where in untrained.items()]
    out += [f"untrained: {', '.join(models)}"] if models else []
    return out + ([f"not run: {', '.join(rest)}"] if rest else [])


def _absent(missing: Sequence[str]) -> list[str]:
    """What was missing, in a line or two: no sentence twice, no path of the machine it ran on."""
    neural = [each.split(" is not trained")[0] for each in missing if " is not trained" in each]
    data = [each.split(" is not here")[0] for each in missing if " is not here" in each]
    rest = [each for each in missing if " is not trained" not in each and " is not here" not in each]
    out = [f"Not here: {'; '.join(data)} (`fullrank data` says how to get it)."] if data else []
    out += [f"Not trained: {', '.join(neural)} (`make reproduce-neural`)."] if neural else []
    return out + [f"Not run: {each}" for each in rest]


def _compact(result: Result, most: int = 60) -> list[str]:
    """The table in text; of a long one, the rows of one metric."""
    rows, verdicts = list(result.rows), _verdicts(result)
    metrics = list(dict.fromkeys(row.metric for row in rows))
    shown = next((metric for metric in metrics if metric.endswith(("@10", "=10"))), metrics[0])
    if len(rows) > most and len(metrics) > 1:
        rows = [row for row in rows if row.metric == shown]
    out: list[str] = []
    for (data, model), block in groupby(rows, key=lambda row: (row.data, row.model)):
        out += [_heading(data, model), *_block(list(block), verdicts)]
    if len(rows) < len(result.rows):
        out.append(f"(of {len(metrics)} metrics; `fullrank-papers {result.experiment.name}` prints all)")
    return out


def _figure_numbers(panels: Sequence[Panel], places: int = 6) -> list[str]:
    """Each panel's lines at a few places."""
    out = []
    for panel in panels:
        x = [each for line in panel.series for each in line.x]
        low, high = min(x), max(x)
        even = np.geomspace(max(low, 1e-9), high, places) if panel.log_x and low > 0 else np.linspace(low, high, places)
        xs = np.array(panel.series[0].x)
        at = list(dict.fromkeys(float(xs[np.abs(xs - place).argmin()]) for place in even))
        out.append(f"{panel.title}; {panel.x}")
        out.append(f"  {'':<25}" + "".join(f"{place:>9.4g}" for place in at))
        out += [
            f"  {line.name[:24]:<25}" + "".join(f"{_value_at(line, place, panel.bars):>9}" for place in at)
            for line in panel.series
        ]
    return out


def _value_at(line: Series, place: float, bars: bool) -> str:
    if place < line.x[0] or place > line.x[-1]:
        return "-"
    value = line.y[int(np.argmin(np.abs(np.array(line.x) - place)))] if bars else np.interp(place, line.x, line.y)
    return f"{value:.3g}"


_INTRO = """
# The papers, reproduced

Generated by `make reproduce` and `make reproduce-neural` from the experiments in `papers/`; do not edit by hand. Each table
can be had alone, `fullrank-papers kr20-table3`, and figures as PNG, `fullrank-papers kr20-fig5 --out figures/`.
The experiments are a package beside the library that uses its public names only, so that they certify what anyone would run.

**How a number is judged.** Models are trained here, so their true values are their own (only Y and Z of kr20 can be remade
exactly). What is compared is what the papers are about: by how much an estimate misses the exact value of its own model,
(estimate − exact) / exact, published against ours, in standard errors of both, √((sd²_published + sd²_ours) / repeats).
Exact values are judged apart. Relative errors (li23) and counts of repeats are compared as they are; where the paper has one
run (li20), it is taken to vary as one of ours does.

- *reproduced* (`same` in the tables): within 3 standard errors, or within what printing rounds;
- *close*: in the same order among the columns that the paper tells apart, and within 10 % (counts: within 10 of 100);
- *differs*: neither, with the reason. A table has the best verdict that four fifths of its cells reach.

**What else to know.** The settings of EASE, itemKNN and ALS on ml-1m and citeulike are not printed and were chosen, from a
handful each, to come close to the published exact values of jin21: that those and li20's Beta parameters nearly agree is in
part that choice, not evidence. On pinterest-20 they are those of li23's repository. The settings of neural models are the
authors' where known, else chosen by validation; MultiVAE's epochs on ml-1m and citeulike, and its β on citeulike, were
chosen to come close to the published numbers (jin21-table2 and jin21-table3 say how). BV_* and MN_* have two rows: with the
prior averaged over all repeats, as published, and with each repeat's *own prior*, which is all that a single evaluation has.
Negatives are drawn item by item, the same for every model in a repeat, as li23 did; only gowalla, too large for that, is
drawn from its ranks.
† LogSpline is not in the papers, and its prior has learned from ranks of this very data set among many others, so that its
column flatters it (docs/accuracy.md leaves out the data set it reports).
"""
