"""Tables for papers and pages: LaTeX and Markdown, letters for what is significantly better, as ranx users know them."""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingType
from collections.abc import Sequence

from fullrank.report.digest import clean

__all__ = ["LETTERS", "latex", "letters", "markdown", "metric_label", "significance_caption", "superscript"]

#: One letter per model. There is no superscript q in common fonts, so q names no model.
LETTERS = "abcdefghijklmnoprstuvwxyz"
_RAISED = dict(zip(LETTERS, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))
_NAMES = {"ndcg": "NDCG", "ap": "AP", "map": "MAP", "mrr": "MRR", "rr": "RR", "auc": "AUC", "hr": "HR"}
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
}  # fmt: skip

Values = MappingType[tuple[str, str], float]
#: (metric, model) → the models it is significantly better than.
Better = MappingType[tuple[str, str], frozenset[str]]


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


def markdown(
    models: Sequence[str], metrics: Sequence[str], values: Values, better: Better, digits: int, about: str
) -> str:
    """A Markdown table: the best in bold, superscripts name the models a value is significantly better than."""
    named = letters(models)
    lines = [
        "| # | Model | " + " | ".join(metric_label(metric) for metric in metrics) + " |",
        "|---|---|" + "---:|" * len(metrics),
    ]
    for model in models:
        cells = [named.get(model, ""), re.sub(r"([\\|*_`<>\[\]])", r"\\\1", clean(model))]
        for metric in metrics:
            value = _value(values, model, metric, digits)
            if value and model == _best(models, metric, values):
                value = f"**{value}**"
            cells.append(value + superscript(_marks(named, better, model, metric)))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", about])


def latex(
    models: Sequence[str], metrics: Sequence[str], values: Values, better: Better, digits: int, about: str
) -> str:
    """A LaTeX table in ranx's form: booktabs, the best in bold, superscripts with phantoms that keep columns even."""
    named = letters(models)
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}[ht]",
        "\\centering",
        f"\\caption{{{_escaped(about)}}}",
        "\\begin{tabular}{c|l" + "|c" * len(metrics) + "}",
        "\\toprule",
        "\\textbf{\\#} & \\textbf{Model} & "
        + " & ".join(f"\\textbf{{{_escaped(metric_label(metric))}}}" for metric in metrics)
        + " \\\\",
        "\\midrule",
    ]
    for model in models:
        cells = [named.get(model, ""), _escaped(clean(model))]
        for metric in metrics:
            value = _value(values, model, metric, digits)
            marks = _marks(named, better, model, metric)
            rest = "".join(letter for other, letter in named.items() if other != model and letter not in marks)
            if value and model == _best(models, metric, values):
                value = f"\\textbf{{{value}}}"
            cells.append(
                value + (f"$^{{{marks}}}$" if marks else "") + (f"\\hphantom{{$^{{{rest}}}$}}" if rest else "")
            )
        lines.append(" & ".join(cells) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\label{tab:results}", "\\end{table}"])


def significance_caption(level: float, target: str, about: str) -> str:
    """What the marks of a table mean."""
    whose = "of these cases" if target == "cases" else "over the population of users"
    what = f" ({about})" if about else ""
    return (
        f"Full-ranking metrics {whose}{what}. The best is in bold; superscripts name the models that one is significantly "
        f"better than (p <= {1 - level:.3g} after Holm's adjustment)."
    )


def _value(values: Values, model: str, metric: str, digits: int) -> str:
    value = values.get((metric, model))
    return "" if value is None else f"{value:.{digits}f}"


def _best(models: Sequence[str], metric: str, values: Values) -> str | None:
    known = [model for model in models if (metric, model) in values]
    return max(known, key=lambda model: values[metric, model]) if len(known) > 1 else None


def _marks(named: MappingType[str, str], better: Better, model: str, metric: str) -> str:
    than = better.get((metric, model), frozenset())
    return "".join(letter for other, letter in named.items() if other in than)


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(each, each) for each in text)
