"""Tables: one renderer for the terminal, one for HTML, and for papers LaTeX and Markdown with letters of significance."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from html import escape

from fullrank.report.row import Row
from fullrank.report.verdict import interval_text
from fullrank.report.words import clean, decimals, number

__all__ = [
    "LETTERS",
    "Results",
    "digits_of",
    "html_table",
    "letters",
    "metric_label",
    "result_table",
    "superscript",
    "text_table",
]

#: One letter per model. There is no superscript q in common fonts, so q names no model.
LETTERS = "abcdefghijklmnoprstuvwxyz"
_RAISED = dict(zip(LETTERS, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))
_NAMES = {"ndcg": "NDCG", "ap": "AP", "map": "MAP", "mrr": "MRR", "rr": "RR", "auc": "AUC", "hr": "HR"}
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
}  # fmt: skip


def text_table(
    head: Sequence[str], body: Sequence[Sequence[str]], width: int = 80, *, words: int = 1, elastic: int = 0
) -> list[str]:
    """Lay out a table as lines of at most ``width`` columns, a rule below its head.

    The first ``words`` columns stand to the left, numbers to the right; names in column ``elastic`` are cut where there is
    no room. Chinese and emoji take two columns of a terminal.
    """
    from rich.cells import cell_len, set_cell_size

    lines = [list(head), *map(list, body)]
    sizes = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    spare = width - sum(sizes) - 2 * (len(sizes) - 1)
    sizes[elastic] = max(sizes[elastic] + min(spare, 0), 5)

    def aligned(line: list[str]) -> str:
        if cell_len(line[elastic]) > sizes[elastic]:
            line[elastic] = set_cell_size(line[elastic], sizes[elastic] - 1).rstrip() + "…"
        gaps = [" " * (size - cell_len(text)) for text, size in zip(line, sizes, strict=True)]
        cells = (t + gap if place < words else gap + t for place, (t, gap) in enumerate(zip(line, gaps, strict=True)))
        return "  ".join(cells).rstrip()

    out = [aligned(line)[:width] for line in lines]
    return [out[0], "-" * min(max(map(cell_len, out)), width), *out[1:]]


def html_table(head: Sequence[str], body: Sequence[Sequence[str]], words: int = 1) -> str:
    """Write a table as HTML with its own alignment, for places that have no style sheet."""

    def line(tag: str, cells: Sequence[str]) -> str:
        sides = ("left" if place < words else "right" for place in range(len(cells)))
        return "".join(f'<{tag} style="text-align:{a}">{escape(c)}</{tag}>' for a, c in zip(sides, cells, strict=True))

    rows = "".join(f"<tr>{line('td', cells)}</tr>" for cells in body)
    top = f"<thead><tr>{line('th', head)}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{rows}</tbody></table>"


def digits_of(rows: Iterable[Row], metrics: Container[str] | None = None) -> dict[str, int]:
    """Decimals that suit the values of each metric, or of those named."""
    values: dict[str, list[float]] = {}
    for row in rows:
        metric = str(row.metric)
        if metrics is None or metric in metrics:
            values.setdefault(metric, []).extend([] if math.isnan(row.value) else [row.value])
    return {metric: decimals(each) for metric, each in values.items()}


def result_table(rows: Sequence[Row], digits: MappingType[str, int], level: float) -> tuple[list[str], list[list[str]]]:
    """Head and body of a table of rows, as the terminal and notebooks show it; columns that say nothing are left out."""
    columns: dict[str, list[str]] = {
        name: [] for name in ("model", "metric", "value", f"{level:.0%} interval", "uncorrected", "bounds", "truth")
    }
    for row in rows:
        places = digits[str(row.metric)]
        texts = (
            clean(row.model),
            clean(row.metric, 24),
            number(None if math.isnan(row.value) else row.value, places),
            interval_text(row.known_interval, places),
            number(None if row.exact else row.naive, places),
            interval_text(row.wider_bounds, places),
            number(row.truth, places),
        )
        for column, text in zip(columns.values(), texts, strict=True):
            column.append(text)
    kept = {
        name: cells for name, cells in columns.items() if name in {"model", "metric", "value"} or set(cells) != {"–"}
    }
    return list(kept), [list(line) for line in zip(*kept.values(), strict=True)]


def metric_label(name: str) -> str:
    """How papers write a metric.

    >>> metric_label("ndcg@10"), metric_label("recall@5"), metric_label("hit_rate@5")
    ('NDCG@10', 'Recall@5', 'Hit Rate@5')
    """
    word, at, cut = name.partition("@")
    return _NAMES.get(word, word.replace("_", " ").title()) + at + cut


def letters(models: Sequence[str]) -> dict[str, str]:
    """A letter for each of the first 25 models."""
    return dict(zip(models, LETTERS, strict=False))


def superscript(marks: str) -> str:
    """Letters as superscripts.

    >>> superscript("bd")
    'ᵇᵈ'
    """
    return "".join(_RAISED[each] for each in marks)


@dataclass(frozen=True)
class Results:
    """Values and intervals of models by metrics, for a paper: the best in bold, letters for what is significantly better.

    By (metric, model), ``cells`` are values with their intervals, ``better`` the models it is significantly better than.
    """

    models: Sequence[str]
    metrics: Sequence[str]
    cells: MappingType[tuple[str, str], tuple[float, tuple[float, float] | None]]
    better: MappingType[tuple[str, str], frozenset[str]]
    level: float
    target: str
    about: str = ""

    @property
    def caption(self) -> str:
        """What the numbers and marks mean."""
        whose = "of these cases" if self.target == "cases" else "over the population of users"
        what = f" ({self.about})" if self.about else ""
        ends = f", with {self.level:.0%} intervals" if any(map(self._ends, self.cells)) else ""
        return (
            f"Full-ranking metrics {whose}{what}{ends}. The best is in bold; superscripts name the models that one is "
            f"significantly better than (p <= {1 - self.level:.3g} after Holm's adjustment)."
        )

    def markdown(self, digits: int = 3) -> str:
        """Write a Markdown table."""
        named = letters(self.models)
        top = ["#", "Model", *map(metric_label, self.metrics)]
        lines = [top, ["---", "---", *(["---:"] * len(self.metrics))]]
        for model in self.models:
            cells = [named.get(model, ""), re.sub(r"([\\|*_`<>\[\]])", r"\\\1", clean(model))]
            for metric in self.metrics:
                value, ends = self._texts(metric, model, digits)
                bold = f"**{value}**" if self._is_best(metric, model) else value
                cells.append(bold + superscript(self._marks(named, metric, model)) + (f" [{ends}]" if ends else ""))
            lines.append(cells)
        return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", self.caption])

    def latex(self, digits: int = 3) -> str:
        """Write a LaTeX table in ranx's form: booktabs, and superscripts with phantoms that keep columns even."""
        named = letters(self.models)
        heads = (f"\\textbf{{{_escaped(metric_label(metric))}}}" for metric in self.metrics)
        body = []
        for model in self.models:
            cells = [named.get(model, ""), _escaped(clean(model))]
            for metric in self.metrics:
                value, ends = self._texts(metric, model, digits)
                marks = self._marks(named, metric, model)
                rest = "".join(letter for other, letter in named.items() if other != model and letter not in marks)
                bold = f"\\textbf{{{value}}}" if self._is_best(metric, model) else value
                raised = (f"$^{{{marks}}}$" if marks else "") + (f"\\hphantom{{$^{{{rest}}}$}}" if rest else "")
                cells.append(bold + raised + (f" {{\\scriptsize [{ends}]}}" if ends else ""))
            body.append(f"{' & '.join(cells)} \\\\")
        return "\n".join([
            "% needs \\usepackage{booktabs}", "\\begin{table}[ht]", "\\centering", f"\\caption{{{_escaped(self.caption)}}}",
            f"\\begin{{tabular}}{{c|l{'|c' * len(self.metrics)}}}", "\\toprule",
            f"\\textbf{{\\#}} & \\textbf{{Model}} & {' & '.join(heads)} \\\\", "\\midrule", *body,
            "\\bottomrule", "\\end{tabular}", "\\label{tab:results}", "\\end{table}",
        ])  # fmt: skip

    def _texts(self, metric: str, model: str, digits: int) -> tuple[str, str]:
        """The value and its interval; nothing for an interval that is a point, or missing."""
        if (metric, model) not in self.cells:
            return "", ""
        ends = self._ends((metric, model))
        value = self.cells[metric, model][0]
        return f"{value:.{digits}f}", "" if ends is None else ", ".join(f"{end:.{digits}f}" for end in ends)

    def _ends(self, key: tuple[str, str]) -> tuple[float, float] | None:
        ends = self.cells[key][1]
        return None if ends is None or ends[0] == ends[1] else ends

    def _is_best(self, metric: str, model: str) -> bool:
        known = {other: self.cells[metric, other][0] for other in self.models if (metric, other) in self.cells}
        return len(known) > 1 and model in known and model == max(known, key=lambda other: known[other])

    def _marks(self, named: MappingType[str, str], metric: str, model: str) -> str:
        than = self.better.get((metric, model), frozenset())
        return "".join(letter for other, letter in named.items() if other in than)


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(each, each) for each in text)
