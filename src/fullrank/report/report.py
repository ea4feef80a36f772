"""Report: rows and where they came from, as text, JSON, frames, charts and a page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from collections.abc import Mapping as MappingType
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import Any, overload

from fullrank._files import existing
from fullrank.metrics import NDCG, Metric, parse_metric
from fullrank.report.comparison import Comparison
from fullrank.report.row import Row, finite
from fullrank.report.tables import Results, digits_of, result_table, text_table
from fullrank.report.verdict import Standing, Verdict, verdict
from fullrank.report.words import clean, decimals, merged_notes, wrapped

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
    """How a model was evaluated: why it ended, what each round was, and how many cases an unmet precision would take.

    ``remarks`` say in sentences how it went: what was met, what was chosen. What to beware of is among a report's notes.
    """

    stop_reason: str
    rounds: tuple[dict[str, Any], ...] = ()
    needed_cases: dict[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


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
        level = finite(self.provenance.get("level", 0.95))
        return level if level is not None and 0 < level < 1 else 0.95

    @property
    def target(self) -> str:
        """What intervals speak of: ``cases`` or ``population``."""
        return str(self.provenance.get("target", "cases"))

    @property
    def verdict(self) -> Verdict:
        """Who leads on the first metric, how sure that is, and whom uncorrected ranks would have named, in one sentence.

        >>> import fullrank as fr
        >>> print(fr.correct({"A": [1, 2, 3, 30], "B": [2, 3, 4, 30]}, 50, "full", "recall@2").verdict)
        A leads on recall@2: 0.5000, exact.
        """
        if not self.rows:
            return Verdict("Nothing was evaluated")
        metric = str(self.rows[0].metric)
        known = [row for row in self.rows if str(row.metric) == metric and not math.isnan(row.value)]
        if not known:
            return Verdict(f"No model has a finite {clean(metric)}")
        known.sort(key=lambda row: -row.value)
        held, best, tied = self.comparison.get(metric), known[0].model, None
        if held is not None and best in held.models:
            tied = set(held.models) - {best, *held.better_than(best)}
        standings = [Standing(row.model, row.value, row.known_interval, row.naive) for row in known]
        probability = None if held is None else held.best.get(best)
        return verdict(
            metric,
            standings,
            level=self.level,
            digits=decimals(row.value for row in known),
            tied=tied,
            probability=probability,
        )

    @property
    def remarks(self) -> list[str]:
        """How the evaluation went, in sentences: the remarks of the runs, said once where they are the same."""
        return merged_notes(
            (f"{name}: {each}" for name, run in self.runs.items() for each in run.remarks), list(self.runs)
        )

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
        >>> report = fr.correct(ranks, n_items=1000, design="uni99", metrics="ndcg@10")
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
        """A Markdown table with intervals; superscripts name the models that one is significantly better than."""
        return self._results().markdown(digits)

    def to_latex(self, digits: int = 3) -> str:
        """The same for a paper, in ranx's form."""
        return self._results().latex(digits)

    def _results(self) -> Results:
        cells = {(str(row.metric), row.model): (row.value, row.interval) for row in self.rows}
        better = {
            (name, model): frozenset(found.better_than(model))
            for name, found in self.comparison.items()
            for model in found.models
        }
        about = str(self.provenance.get("about", ""))
        return Results(self.models, self.metrics, cells, better, self.level, self.target, about)

    def to_dict(self, flat: bool = False) -> dict[str, float]:
        """Numbers by name: ``{"EASE/ndcg@10": 0.12, "EASE/ndcg@10_low": 0.11, …}``.

        ``flat=True`` writes names that MLflow and other trackers take, without ``@`` or signs: ``EASE/ndcg_at_10_low``. No
        name is the beginning of another's path, which trackers that keep a file per metric cannot store.
        """
        found: dict[str, float] = {}
        for row in self.rows:
            key = f"{row.model}/{row.metric}"
            if flat:
                plain = re.sub(r"[^\w./ -]", "_", key.replace("@", "_at_"), flags=re.ASCII)
                key = _unused(plain, found)
            parts = {"": row.value, "_naive": row.naive, **_ends(row)}
            found.update({key + part: float(value) for part, value in parts.items() if value is not None})
        return found

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
        >>> report = fr.correct({"A": [1, 1, 2, 9] * 90}, 1000, "uni99", "ndcg@10")
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
                model: Run(
                    run["stop_reason"], tuple(run["rounds"]), dict(run["needed_cases"]), tuple(run.get("remarks", ()))
                )
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
        return _library("pandas").DataFrame([_flat(row) for row in self.rows])

    def to_polars(self) -> Any:
        """The rows as a polars frame."""
        # a column may start with many missing values
        return _library("polars").DataFrame([_flat(row) for row in self.rows], infer_schema_length=None)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        size = f"{len(self.models):,} models × {len(self.metrics):,} metrics"
        return f"<Report: {clean(self.verdict, 200)} {size.replace('1 models', '1 model').replace('1 metrics', '1 metric')}>"

    def lines(self, width: int = 80) -> list[str]:
        """The verdict and the table in lines of at most ``width`` columns; names are cut, rows past 500 are only counted."""
        rows, left = self.rows[:MOST_LINES], len(self.rows) - MOST_LINES
        digits = digits_of(self.rows)
        head, body = result_table(rows, digits, self.level)
        assumption = self.assumption
        table = text_table(head, body, 10_000, words=2)
        if "bounds" in head and max(map(len, table)) > width:  # the page and the JSON have them
            head, body = result_table([replace(row, bounds=None) for row in rows], digits, self.level)
            assumption += " They are on the page and in the JSON." * bool(assumption)
        table = text_table(head, body, width, words=2)
        if left > 0:
            table.append(f"… and {left:,} more rows: `rows` and `to_json()` have them all.")
        notes = merged_notes(self.notes[:MOST_LINES], self.models[:MOST_LINES])
        return [
            *wrapped(str(self.verdict), width),
            *wrapped(clean(self.provenance.get("about", ""), 200), width) * ("about" in self.provenance),
            *table,
            *wrapped(assumption, width),
            *(line for remark in self.remarks for line in wrapped(clean(remark, 400), width)),
            *(line for note in notes for line in wrapped(clean(note, 400), width, "! ")),
        ]


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"`to_{name}` needs {name}: pip install {name}.") from None


def _leans(row: Row) -> bool:
    """Whether the interval is much narrower than what the data alone allow."""
    if row.interval is None or row.bounds is None or row.interval[0] == row.interval[1]:
        return False
    return row.bounds[1] - row.bounds[0] > MUCH_WIDER * (row.interval[1] - row.interval[0])


def _ends(row: Row) -> dict[str, float | None]:
    """The ends of the interval and of the bounds, by the endings of their names."""
    low, high = row.interval or (None, None)
    least, most = row.bounds or (None, None)
    return {"_low": low, "_high": high, "_bounds_low": least, "_bounds_high": most}


def _flat(row: Row) -> dict[str, Any]:
    """A row with a column for each end of its bounds, as frames want them."""
    flat = {key: value for key, value in row.items() if key != "bounds"}
    return {**flat, **{part[1:]: value for part, value in _ends(row).items()}}


def _unused(name: str, taken: MappingType[str, float]) -> str:
    """The name, or the first of ``name_2``, ``name_3``, … that is free."""
    return next(each for each in chain([name], (f"{name}_{turn}" for turn in count(2))) if each not in taken)


def _strict(value: Any) -> Any:
    """The same document with null for what is no finite number, which JSON does not know."""
    if isinstance(value, MappingType):
        return {str(key): _strict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
