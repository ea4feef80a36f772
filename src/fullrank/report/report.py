"""Report: rows and where they came from, as text, JSON, frames, charts and a page."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from ..metrics import Metric, parse_metric
from .tables import latex, markdown, significance_caption

__all__ = ["SCHEMA", "Report", "Winner"]

#: Name and version of the JSON that :meth:`Report.to_json` writes; a change of meaning changes the number.
SCHEMA = "fullrank.report/1"

#: Rows of the printed table, and remarks below it.
MOST_LINES = 500


class Winner(str):
    """The name of the best model, and how sure that is.

    ``probability`` that it is the best one; ``tied``: the models that cannot be told apart from it (Holm-adjusted, all pairs
    considered); both ``None`` where the report holds no comparison.
    """

    probability: float | None = None
    tied: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Report:
    """Metrics of one or several models, with intervals, beside what sampled evaluation would have reported.

    ``rows`` are flat dicts with at least ``model, metric, value, low, high, naive, estimator, design, items_scored, cases``.
    ``print(report)`` is a table; :meth:`to_dict` is flat for trackers; :meth:`to_json` is stable and versioned.
    """

    rows: list[dict[str, Any]]
    provenance: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: The estimate of each model, to ask further questions of.
    estimates: MappingType[str, Any] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """Names of the models, in order."""
        return list(dict.fromkeys(str(row["model"]) for row in self.rows))

    @property
    def metrics(self) -> list[str]:
        """Metrics in the report, in order."""
        return list(dict.fromkeys(str(row["metric"]) for row in self.rows))

    def value(self, model: str, metric: Metric | str) -> float:
        """One number of the table."""
        return float(self._row(model, metric)["value"])

    def winner(self, metric: Metric | str) -> Winner:
        """The model with the highest value of the metric: its name, which also knows how sure that is.

        >>> import fullrank as fr
        >>> report = fr.correct({"A": [1, 1, 2, 9] * 90, "B": [1, 3, 5, 9] * 90}, n_items=1000, metrics="ndcg@10")
        >>> best = report.winner("ndcg@10")
        >>> best, best.probability > 0.95, best.tied
        ('A', True, ())
        """
        wanted = parse_metric(metric)
        rows = [row for row in self.rows if _same(row["metric"], wanted)]
        if not rows:
            raise ValueError(f"the report has no {metric}: it has {', '.join(self.metrics)}.")
        best = max(rows, key=lambda row: row["value"])
        winner = Winner(best["model"])
        chances = self.provenance.get("best", {}).get(str(best["metric"]))
        if chances is not None:
            winner.probability = float(chances[winner])
            better = self._better()[str(best["metric"]), str(winner)]
            winner.tied = tuple(str(row["model"]) for row in rows if row["model"] not in {winner, *better})
        return winner

    def to_markdown(self, digits: int = 3) -> str:
        """A Markdown table, models by metrics; superscripts name the models that one is significantly better than."""
        return markdown(*self._table(), digits, self._caption())

    def to_latex(self, digits: int = 3) -> str:
        """The same for a paper, in ranx's form."""
        return latex(*self._table(), digits, self._caption())

    def _table(
        self,
    ) -> tuple[list[str], list[str], dict[tuple[str, str], float], dict[tuple[str, str], frozenset[str]]]:
        values = {(str(row["metric"]), str(row["model"])): float(row["value"]) for row in self.rows}
        return self.models, self.metrics, values, self._better()

    def _caption(self) -> str:
        facts = self.provenance
        return significance_caption(
            float(facts.get("level", 0.95)), str(facts.get("target", "cases")), str(facts.get("about", ""))
        )

    def _better(self) -> dict[tuple[str, str], frozenset[str]]:
        """The models that each is significantly better than, by metric."""
        worst = 1 - float(self.provenance.get("level", 0.95))
        out = {(metric, model): frozenset[str]() for metric in self.metrics for model in self.models}
        for each in self.provenance.get("comparison", ()):
            key = (str(each["metric"]), str(each["model"]))
            if key in out and each.get("p_holm", 1.0) <= worst:
                out[key] |= {str(each["other"])}
        return out

    def to_dict(self) -> dict[str, float]:
        """Flat numbers, ready for MLflow and the like: ``{"EASE/ndcg@10": 0.12, "EASE/ndcg@10_low": 0.11, …}``.

        No name is the beginning of another's path, which trackers that keep a file per metric cannot store.
        """
        flat: dict[str, float] = {}
        for row in self.rows:
            key = f"{row['model']}/{row['metric']}"
            flat[key] = float(row["value"])
            for part in ("low", "high", "naive"):
                if row[part] is not None:
                    flat[f"{key}_{part}"] = float(row[part])
        return flat

    def to_json(self, indent: int | None = 2) -> str:
        """The report as JSON under :data:`SCHEMA`; strict JSON, no NaN."""
        document = {"schema": SCHEMA, "rows": self.rows, "notes": list(self.notes), "provenance": self.provenance}
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path) -> Path: ...
    def to_html(self, path: str | Path | None = None) -> str | Path:
        """The report as one self-contained page: written to ``path`` atomically, or returned as text.

        It opens offline, on a phone, in light and dark, prints, and stays below 2 MB whatever the number of models.
        Needs the extra ``report`` for its charts.
        """
        from .html import page, write_page

        return page(self) if path is None else write_page(page(self), path)

    def plot(self, kind: str = "results") -> Any:
        """An Altair chart: ``results``, ``curves`` (metric@K), ``ranks`` or ``budget``. Needs the extra ``report``."""
        from .charts import plot_report

        return plot_report(self, kind)

    def _repr_html_(self) -> str:
        from .notebook import report_html

        return report_html(self)

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("`to_pandas` needs pandas: pip install pandas.") from None
        return pd.DataFrame(self.rows)

    def to_polars(self) -> Any:
        """The rows as a polars frame."""
        try:
            import polars as pl
        except ImportError:
            raise ImportError("`to_polars` needs polars: pip install polars.") from None
        return pl.DataFrame(self.rows, infer_schema_length=None)  # a column may start with many missing values

    def _row(self, model: str, metric: Metric | str) -> dict[str, Any]:
        wanted = parse_metric(metric)
        for row in self.rows:
            if row["model"] == model and parse_metric(row["metric"]) == wanted:
                return row
        raise ValueError(
            f"the report has no {metric} of {model!r}: models are {', '.join(self.models)}; "
            f"metrics are {', '.join(self.metrics)}."
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, width: int = 80) -> list[str]:
        """The table as lines of at most ``width`` columns; names are cleaned and cut, and rows past 500 are counted only."""
        from .digest import clean

        intervals = any(row["low"] is not None for row in self.rows)
        level = self.provenance.get("level", 0.95)
        head = ["model", "metric", "value"] + [f"{level:.0%} interval"] * intervals + ["uncorrected"]
        body = []
        sizes = [abs(row["value"]) for row in self.rows[:MOST_LINES] if abs(row["value"]) > 1e-9]
        digits = 4 if min(sizes, default=1.0) >= 1e-3 else 6  # large catalogues have small numbers
        for row in self.rows[:MOST_LINES]:
            value, low, high, naive = (_written(row[part], digits) for part in ("value", "low", "high", "naive"))
            interval = [] if not intervals else ["" if row["low"] is None else f"{low} .. {high}"]
            body.append([clean(row["model"]), clean(row["metric"], 24), value, *interval, naive])
        widths = [max(_width(line[column]) for line in [head, *body]) for column in range(len(head))]
        spare = width - sum(widths[1:]) - 2 * (len(widths) - 1)
        widths[0] = max(min(widths[0], spare), 5)
        table = [_aligned(line, widths) for line in [head, *body]]
        table.insert(1, "-" * min(len(table[0]), width))
        left = len(self.rows) - len(body)
        if left:
            table.append(f"… and {left:,} more rows: `rows` and `to_json()` have them all.")
        about = textwrap.wrap(str(self.provenance.get("about", "")), width)
        notes = [
            line
            for note in self.notes[:MOST_LINES]
            for line in textwrap.wrap(f"! {clean(note, 400)}", width, subsequent_indent="  ")
        ]
        return [*about, *table, *notes]


def _same(name: object, metric: Metric) -> bool:
    """Whether a row's metric is this one; one of the user's own is known by its name."""
    if str(name) == str(metric):
        return True
    try:
        return parse_metric(str(name)) == metric
    except ValueError:
        return False


def _written(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _aligned(line: list[str], widths: list[int]) -> str:
    from rich.cells import set_cell_size

    name = line[0] if _width(line[0]) <= widths[0] else set_cell_size(line[0], widths[0] - 1).rstrip() + "…"
    cells = [_filled(name, widths[0]), _filled(line[1], widths[1])]
    cells += [text.rjust(size) for text, size in zip(line[2:], widths[2:], strict=True)]
    return "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """Columns of a terminal that the text takes: Chinese and emoji take two."""
    from rich.cells import cell_len

    return cell_len(text)


def _filled(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
