"""Report: rows and where they came from, as text, JSON, frames, charts and a page."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable
from collections.abc import Mapping as MappingType
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, overload

from fullrank._files import existing
from fullrank.metrics import NDCG, Metric, parse_metric
from fullrank.report.comparison import Comparison
from fullrank.report.row import Row
from fullrank.report.tables import latex, markdown, significance_caption

__all__ = ["SCHEMA", "Report", "Run", "Winner"]

#: Name and version of the JSON that :meth:`Report.to_json` writes; a change of meaning changes the number.
SCHEMA = "fullrank.report/2"

#: Rows of the printed table, and remarks below it.
MOST_LINES = 500
#: Bounds that are so many times as wide as the interval are worth a sentence on what the interval assumes.
MUCH_WIDER = 3.0


class Winner(str):
    """The name of the best model, and how sure that is.

    ``probability`` that it is the best one; ``tied``: the models that cannot be told apart from it (Holm-adjusted, all pairs
    considered); both ``None`` where the report holds no comparison.
    """

    probability: float | None = None
    tied: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Run:
    """How a model was evaluated: why it ended, what each round was, and how many cases an unmet precision would take."""

    stop_reason: str
    rounds: tuple[dict[str, Any], ...] = ()
    needed_cases: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Report:
    """Metrics of one or several models, with intervals, beside what sampled evaluation would have reported.

    ``rows`` are :class:`fullrank.report.Row`\\ s, which answer by key and by attribute; ``comparison`` holds a
    :class:`fullrank.Comparison` per metric where there are several models, ``runs`` how ``evaluate`` went about each.
    ``print(report)`` is a table; :meth:`to_dict` is flat for trackers; :meth:`to_json` is stable and versioned, and
    :meth:`load` reads it back.
    """

    rows: list[Row]
    #: Comparisons by the name of their metric.
    comparison: MappingType[str, Comparison] = field(default_factory=dict)
    #: How each model was evaluated, where ``evaluate`` did it.
    runs: MappingType[str, Run] = field(default_factory=dict)
    #: Warnings and remarks; what is about one model begins with its name.
    notes: tuple[str, ...] = ()
    #: The estimate of each model, to ask further questions of.
    estimates: MappingType[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows: Iterable[Any] = self.rows  # flat mappings, as other tools make them, become rows
        object.__setattr__(self, "rows", [Row.of(row) for row in rows])

    @property
    def models(self) -> list[str]:
        """Names of the models, in order."""
        return list(dict.fromkeys(row.model for row in self.rows))

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics in the report, in order."""
        return list(dict.fromkeys(str(row.metric) for row in self.rows))

    @property
    def level(self) -> float:
        """The level of the intervals."""
        return float(self.provenance.get("level", 0.95))

    @property
    def target(self) -> str:
        """What intervals speak of: ``cases`` or ``population``."""
        return str(self.provenance.get("target", "cases"))

    @property
    def assumption(self) -> str:
        """What the intervals assume, in a sentence, where the data alone allow much more; else nothing."""
        if not any(_leans(row) for row in self.rows):
            return ""
        prior = self.provenance.get("prior")
        if prior is None:
            assumed = "Intervals show what chance leaves open, not the bias of the estimator"
        elif prior == "own":
            assumed = "Intervals assume rank distributions like those of the prior that was given"
        else:
            assumed = "Intervals assume rank distributions like those of recommenders seen before"
        return f"{assumed}; the data alone allow the bounds."

    def metric(self, metric: Metric | str | None = None) -> Metric:
        """The metric that a name means: the report's own of that name, or what :func:`fullrank.parse_metric` makes of it.

        Metrics of the user's own are found this way too. Without a name: the first.
        """
        if metric is None:
            return self.rows[0].metric if self.rows else NDCG @ 10
        if isinstance(metric, Metric):
            return metric
        return next((row.metric for row in self.rows if str(row.metric) == metric), None) or parse_metric(metric)

    def row(self, model: str, metric: Metric | str) -> Row:
        """One row of the table."""
        for row in self._rows(metric):
            if row.model == model:
                return row
        raise ValueError(
            f"the report has no {metric} of {model!r}: models are {', '.join(self.models)}; "
            f"metrics are {', '.join(self.metrics)}."
        )

    def value(self, model: str, metric: Metric | str) -> float:
        """One number of the table."""
        return self.row(model, metric).value

    def winner(self, metric: Metric | str) -> Winner:
        """The model with the highest value of the metric: its name, which also knows how sure that is.

        >>> import fullrank as fr
        >>> ranks = {"A": [1] * 600 + [2, 3, 5, 9, 20, 50] * 60, "B": [1] * 200 + [2, 3, 5, 9, 20, 50] * 120}
        >>> report = fr.correct(ranks, n_items=1000, metrics="ndcg@10")
        >>> best = report.winner("ndcg@10")
        >>> best, best.probability > 0.95, best.tied
        ('A', True, ())
        """
        rows = self._rows(metric)
        best = max(rows, key=lambda row: -math.inf if math.isnan(row.value) else row.value)
        winner = Winner(best.model)
        found = self.comparison.get(str(best.metric))
        if found is not None:
            winner.probability = float(found.best[winner])
            worse = found.better_than(winner)
            winner.tied = tuple(row.model for row in rows if row.model not in {winner, *worse})
        return winner

    def _rows(self, metric: Metric | str) -> list[Row]:
        """The rows of a metric, at least one: those of its name, or else of one that equals it, as hr@10 does recall@10."""
        rows = [row for row in self.rows if str(row.metric) == str(metric)]
        if not rows:
            wanted = parse_metric(metric)
            rows = [row for row in self.rows if row.metric == wanted]
        if not rows:
            raise ValueError(f"the report has no {metric}: it has {', '.join(self.metrics)}.")
        return rows

    def to_markdown(self, digits: int = 3) -> str:
        """A Markdown table, models by metrics; superscripts name the models that one is significantly better than."""
        return markdown(*self._table(), digits, self._caption())

    def to_latex(self, digits: int = 3) -> str:
        """The same for a paper, in ranx's form."""
        return latex(*self._table(), digits, self._caption())

    def _table(
        self,
    ) -> tuple[list[str], list[str], dict[tuple[str, str], float], dict[tuple[str, str], frozenset[str]]]:
        values = {(str(row.metric), row.model): row.value for row in self.rows}
        better = {
            (name, model): frozenset(found.better_than(model))
            for name, found in self.comparison.items()
            for model in found.models
        }
        return self.models, self.metrics, values, better

    def _caption(self) -> str:
        return significance_caption(self.level, self.target, str(self.provenance.get("about", "")))

    def to_dict(self) -> dict[str, float]:
        """Flat numbers, ready for MLflow and the like: ``{"EASE/ndcg@10": 0.12, "EASE/ndcg@10_low": 0.11, …}``.

        No name is the beginning of another's path, which trackers that keep a file per metric cannot store.
        """
        flat: dict[str, float] = {}
        for row in self.rows:
            key = f"{row.model}/{row.metric}"
            flat[key] = row.value
            for part, value in _flat(row).items():
                if part in {"low", "high", "bounds_low", "bounds_high", "naive"} and value is not None:
                    flat[f"{key}_{part}"] = float(value)
        return flat

    def to_json(self, indent: int | None = 2) -> str:
        """The report as JSON under :data:`SCHEMA`; strict JSON, in which what is no finite number is null."""
        document = {
            "schema": SCHEMA,
            "rows": [dict(row) for row in self.rows],
            "comparison": [each.to_dict() for each in self.comparison.values()],
            "runs": {model: asdict(run) for model, run in self.runs.items()},
            "notes": list(self.notes),
            "provenance": self.provenance,
        }
        return json.dumps(_strict(document), indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """The report that :meth:`to_json` wrote to a file; it has everything but the estimates.

        >>> import fullrank as fr, pathlib, tempfile
        >>> report = fr.correct({"A": [1, 1, 2, 9] * 90}, n_items=1000, metrics="ndcg@10")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "report.json")
        ...     written = path.write_text(report.to_json(), encoding="utf-8")
        ...     fr.Report.load(path).rows == report.rows
        True
        """
        file = existing(Path(path))
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(f"{str(path)!r} is not JSON: `Report.load` reads what `to_json` wrote.") from None
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA:
            raise ValueError(f"{str(path)!r} has the schema {schema!r}: `Report.load` reads {SCHEMA!r}.")
        try:
            comparisons = [Comparison.from_dict(each) for each in document["comparison"]]
            runs = {
                model: Run(run["stop_reason"], tuple(run["rounds"]), dict(run["needed_cases"]))
                for model, run in document["runs"].items()
            }
            return cls(
                [Row.of(row) for row in document["rows"]],
                {str(each.metric): each for each in comparisons},
                runs,
                tuple(map(str, document["notes"])),
                {},
                dict(document["provenance"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{str(path)!r} is not a whole report: {type(error).__name__} {error}; write it again with `to_json`."
            ) from None

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path) -> Path: ...
    def to_html(self, path: str | Path | None = None) -> str | Path:
        """The report as one self-contained page: written to ``path`` atomically, or returned as text.

        It opens offline, on a phone, in light and dark, prints, and stays below 2 MB whatever the number of models.
        Needs the extra ``report`` for its charts.
        """
        from fullrank.report.html import page, write_page

        return page(self) if path is None else write_page(page(self), path)

    def plot(self, kind: str = "results") -> Any:
        """An Altair chart: ``results``, ``curves`` (metric@K), ``ranks`` or ``budget``. Needs the extra ``report``."""
        from fullrank.report.charts import plot_report

        return plot_report(self, kind)

    def _repr_html_(self) -> str:
        from fullrank.report.notebook import report_html

        return report_html(self)

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("`to_pandas` needs pandas: pip install pandas.") from None
        return pd.DataFrame([_flat(row) for row in self.rows])

    def to_polars(self) -> Any:
        """The rows as a polars frame."""
        try:
            import polars as pl
        except ImportError:
            raise ImportError("`to_polars` needs polars: pip install polars.") from None
        # a column may start with many missing values
        return pl.DataFrame([_flat(row) for row in self.rows], infer_schema_length=None)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, width: int = 80) -> list[str]:
        """The table as lines of at most ``width`` columns; names are cleaned and cut, and rows past 500 are counted only."""
        from fullrank.report.digest import clean

        rows = self.rows[:MOST_LINES]
        sizes = [abs(row.value) for row in rows if abs(row.value) > 1e-9]
        digits = 4 if min(sizes, default=1.0) >= 1e-3 else 6  # large catalogues have small numbers

        def span(ends: tuple[float, float] | None) -> str:
            return "" if ends is None else f"{ends[0]:.{digits}f} .. {ends[1]:.{digits}f}"

        columns = {
            "model": [clean(row.model) for row in rows],
            "metric": [clean(row.metric, 24) for row in rows],
            "value": ["-" if math.isnan(row.value) else f"{row.value:.{digits}f}" for row in rows],
            f"{self.level:.0%} interval": [span(row.interval) for row in rows],
            "uncorrected": ["-" if row.naive is None else f"{row.naive:.{digits}f}" for row in rows],
            "bounds": [span(row.bounds) if _open(row) else "" for row in rows],
        }
        kept = {name: cells for name, cells in columns.items() if any(cells) or name in _ALWAYS}
        widths = {name: max(map(_width, [name, *cells])) for name, cells in kept.items()}
        gaps, assumption = 2 * (len(widths) - 1), self.assumption
        if "bounds" in kept and sum(widths.values()) + gaps > width:  # the page and the JSON have them
            del kept["bounds"], widths["bounds"]
            gaps -= 2
            assumption += " They are on the page and in the JSON." * bool(assumption)
        widths["model"] = max(min(widths["model"], width - gaps - sum(widths.values()) + widths["model"]), 5)
        body = map(list, zip(*kept.values(), strict=True))
        table = [_aligned(line, list(widths.values())) for line in [list(kept), *body]]
        table.insert(1, "-" * min(len(table[0]), width))
        left = len(self.rows) - len(rows)
        if left:
            table.append(f"… and {left:,} more rows: `rows` and `to_json()` have them all.")
        about = textwrap.wrap(str(self.provenance.get("about", "")), width)
        notes = [
            line
            for note in self.notes[:MOST_LINES]
            for line in textwrap.wrap(f"! {clean(note, 400)}", width, subsequent_indent="  ")
        ]
        return [*about, *table, *textwrap.wrap(assumption, width), *notes]


#: Columns of the printed table that are there even when they are empty.
_ALWAYS = {"model", "metric", "value", "uncorrected"}


def _open(row: Row) -> bool:
    """Whether the bounds say more than the interval does: where all that counts is known, they are the value."""
    return row.bounds is not None and row.bounds != row.interval


def _leans(row: Row) -> bool:
    """Whether the interval is much narrower than what the data alone allow."""
    if row.interval is None or row.bounds is None or row.interval[0] == row.interval[1]:
        return False
    return row.bounds[1] - row.bounds[0] > MUCH_WIDER * (row.interval[1] - row.interval[0])


def _flat(row: Row) -> dict[str, Any]:
    """A row with a column for each end of its bounds, as frames and trackers want them."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if key == "bounds":
            flat["bounds_low"], flat["bounds_high"] = (None, None) if value is None else value
        else:
            flat[key] = value
    return flat


def _strict(value: Any) -> Any:
    """The same document with null for what is no finite number, which JSON does not know."""
    if isinstance(value, MappingType):
        return {str(key): _strict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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
