"""Tables: for the terminal, and for papers LaTeX and Markdown with letters of significance."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fullrank.report.row import Row
from fullrank.report.words import clean, decimals, interval_text, number

#: A letter for each of the first models. There is no superscript q in common fonts, so q names no model.
LETTERS = "abcdefghijklmnoprstuvwxyz"
RAISED = str.maketrans(LETTERS, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
_NAMES = {"ndcg": "NDCG", "ap": "AP", "map": "MAP", "mrr": "MRR", "rr": "RR", "auc": "AUC", "hr": "HR"}
_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
})  # fmt: skip


def text_table(
    head: Sequence[str], body: Sequence[Sequence[str]], width: int = 80, *, words: int = 1, elastic: int = 0,
    wraps: bool = False,
) -> list[str]:  # fmt: skip
    """Lay out a table as lines of at most ``width`` columns, a rule below its head.

    The first ``words`` columns stand to the left, numbers to the right; names in column ``elastic`` are cut where there is
    no room, or go on below where it ``wraps``. Chinese and emoji take two columns of a terminal.
    """
    from rich.cells import cell_len, set_cell_size

    lines = [list(head), *map(list, body)]
    sizes = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    spare = width - sum(sizes) - 2 * (len(sizes) - 1)
    sizes[elastic] = max(sizes[elastic] + min(spare, 0), 5)
    if wraps:
        lines = [part for line in lines for part in continued(line, elastic, sizes[elastic])]

    def aligned(line: list[str]) -> str:
        if cell_len(line[elastic]) > sizes[elastic]:
            line[elastic] = set_cell_size(line[elastic], sizes[elastic] - 1).rstrip() + "…"
        gaps = [" " * (size - cell_len(text)) for text, size in zip(line, sizes, strict=True)]
        cells = (t + gap if place < words else gap + t for place, (t, gap) in enumerate(zip(line, gaps, strict=True)))
        return "  ".join(cells).rstrip()

    out = [aligned(line)[:width] for line in lines]
    return [out[0], "-" * min(max(map(cell_len, out)), width), *out[1:]]


def continued(line: list[str], elastic: int, width: int) -> list[list[str]]:
    """The line, and below it what there is no room for of the text in its ``elastic`` column."""
    first, *more = textwrap.wrap(line[elastic], width, subsequent_indent=" " * 4) or [""]
    below = [[text if place == elastic else "" for place in range(len(line))] for text in more]
    return [[first if place == elastic else text for place, text in enumerate(line)], *below]


def digits_of(rows: Iterable[Row]) -> dict[str, int]:
    """Return the decimals that suit the values of each metric."""
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(str(row.metric), []).append(row.value)
    return {metric: decimals(each) for metric, each in values.items()}


def result_table(rows: Sequence[Row], digits: Mapping[str, int], level: float) -> tuple[list[str], list[list[str]]]:
    """Return head and body of a table of rows for the terminal and notebooks; columns that say nothing are left out."""
    head = ["model", "metric", "value", f"{level:.0%} interval", "uncorrected", "bounds", "truth"]
    body = []
    for row in map(Row.shown, rows):
        places = digits[str(row.metric)]
        body.append([
            clean(row.model), clean(row.metric, 24), number(row.value, places), interval_text(row.interval, places),
            number(row.naive, places), interval_text(row.bounds, places), number(row.truth, places),
        ])  # fmt: skip
    kept = [place for place in range(len(head)) if place < 3 or any(line[place] != "–" for line in body)]
    return [head[place] for place in kept], [[line[place] for place in kept] for line in body]


def metric_label(name: str) -> str:
    """Write a metric as papers do: ``NDCG@10``, ``Recall@5``, ``Hit Rate@5``."""
    word, at, cut = name.partition("@")
    return _NAMES.get(word, word.replace("_", " ").title()) + at + cut


@dataclass(frozen=True)
class Results:
    """Values and intervals of models by metrics, for a paper: the best in bold, letters for what is significantly better."""

    rows: Sequence[Row]
    comparison: Mapping[str, Any]  # Comparisons, by the names of their metrics
    level: float
    target: str
    about: str = ""

    def markdown(self, digits: int = 3) -> str:
        """Write a Markdown table."""

        def cell(value: str, ends: str, best: bool, marks: str, _: str) -> str:
            return (f"**{value}**" if best else value) + marks.translate(RAISED) + (f" [{ends}]" if ends else "")

        metrics, table = self._table(digits, cell)
        lines = [["#", "Model", *metrics], ["---", "---", *(["---:"] * len(metrics))]]
        lines += [[letter, re.sub(r"([\\|*_`<>\[\]])", r"\\\1", model), *cells] for letter, model, cells in table]
        return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", self._caption()])

    def latex(self, digits: int = 3) -> str:
        """Write a LaTeX table in ranx's form: booktabs, and superscripts with phantoms that keep columns even."""

        def cell(value: str, ends: str, best: bool, marks: str, others: str) -> str:
            return (
                (f"\\textbf{{{value}}}" if best else value)
                + (f"$^{{{marks}}}$" if marks else "")
                + (f"\\hphantom{{$^{{{others}}}$}}" if others else "")
                + (f" {{\\scriptsize [{ends}]}}" if ends else "")
            )

        metrics, table = self._table(digits, cell)
        heads = (f"\\textbf{{{metric.translate(_LATEX)}}}" for metric in metrics)
        return "\n".join([
            "% needs \\usepackage{booktabs}", "\\begin{table}[ht]", "\\centering",
            f"\\caption{{{self._caption().translate(_LATEX)}}}",
            f"\\begin{{tabular}}{{c|l{'|c' * len(metrics)}}}", "\\toprule",
            f"\\textbf{{\\#}} & \\textbf{{Model}} & {' & '.join(heads)} \\\\", "\\midrule",
            *(f"{' & '.join([letter, model.translate(_LATEX), *cells])} \\\\" for letter, model, cells in table),
            "\\bottomrule", "\\end{tabular}", "\\label{tab:results}", "\\end{table}",
        ])  # fmt: skip

    def _caption(self) -> str:
        """Say what the numbers and marks mean."""
        whose = "of these cases" if self.target == "cases" else "over the population of users"
        what = f": {self.about}" if self.about else ""
        ends = f", with {self.level:.0%} intervals" if any(row.spread for row in self.rows) else ""
        return (
            f"Full-ranking metrics {whose}{ends}{what}. The best is in bold; superscripts name the models that one is "
            f"significantly better than (p at most {1 - self.level:.3g} after Holm's adjustment)."
        )

    def _table(self, digits: int, cell: Callable[..., str]) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
        """Return the metrics' names, and for every model its letter, its name and its cells.

        ``cell`` writes one: its value, the ends of its interval, whether it is best, the letters it beats, the others.
        """
        found = {(row.model, str(row.metric)): row for row in self.rows}
        metrics = list(dict.fromkeys(metric for _, metric in found))
        models = list(dict.fromkeys(model for model, _ in found))
        letters = dict(zip(models, LETTERS, strict=False))
        table: list[tuple[str, str, list[str]]] = [(letters.get(model, ""), clean(model), []) for model in models]
        for metric in metrics:
            known = {model: found[model, metric] for model in models if (model, metric) in found}
            best = max(known, key=lambda model: known[model].value) if len(known) > 1 else None  # used at once
            if best is not None and metric in self.comparison:
                best = self.comparison[metric].winner
            for model, (_, _, cells) in zip(models, table, strict=True):
                worse = self.comparison[metric].better_than(model) if metric in self.comparison else []
                marks = "".join(letter for other, letter in letters.items() if other in worse)
                others = "".join(letter for other, letter in letters.items() if other not in {model, *worse})
                row = known.get(model)
                ends = ", ".join(f"{end:.{digits}f}" for end in (row and row.spread) or ())
                cells.append(cell("" if row is None else f"{row.value:.{digits}f}", ends, model == best, marks, others))
        return [*map(metric_label, metrics)], table
