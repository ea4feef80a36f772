"""Report: rows and where they came from, as text, JSON, frames, charts and a page."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from fullrank._checks import require
from fullrank._files import existing
from fullrank.metrics import NDCG, Metric, parse_metric
from fullrank.report.comparison import Comparison, Verdict, verdict
from fullrank.report.notebook import MOST_ROWS, card
from fullrank.report.row import Row, finite
from fullrank.report.tables import Results, digits_of, result_table, text_table
from fullrank.report.words import as_json, assumed, clean, merged_notes, wrapped

#: Name and version of the JSON that :meth:`Report.to_json` writes; a change of meaning changes the number.
SCHEMA = "fullrank.report/2"

#: Rows of the printed table, and remarks below it.
MOST_LINES = 500
#: Bounds that are so many times as wide as the interval are worth a sentence on what the interval assumes.
MUCH_WIDER = 3.0


class Winner(str):
    """The name of the best model, which also knows how sure that is.

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
    comparison: Mapping[str, Comparison] = field(default_factory=dict)
    #: How each model was evaluated, where ``evaluate`` did it.
    runs: Mapping[str, Run] = field(default_factory=dict)
    #: Warnings and remarks; what is about one model begins with its name.
    notes: tuple[str, ...] = ()
    #: The estimate of each model, to ask further questions of.
    estimates: Mapping[str, Any] = field(default_factory=dict)
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
        """What intervals are for: ``cases`` or ``population``."""
        return str(self.provenance.get("target", "cases"))

    @property
    def verdict(self) -> Verdict:
        """Who leads on the first metric, how sure that is, and whom uncorrected ranks would have named, in one sentence.

        >>> import fullrank as fr
        >>> print(fr.correct({"A": [1, 2, 3, 30], "B": [2, 3, 4, 30]}, 50, "full", "recall@2").verdict)
        A leads on recall@2: 0.5000, exact.
        """
        rows = self._rows(self.metric()) if self.rows else []
        return verdict(rows, self.level, self.comparison.get(str(self.metric())))

    @property
    def remarks(self) -> list[str]:
        """How the evaluation went, in sentences: the remarks of the runs, merged where they are the same."""
        every = (f"{name}: {each}" for name, run in self.runs.items() for each in run.remarks)
        return merged_notes(every, list(self.runs))

    @property
    def assumption(self) -> str:
        """What the intervals assume, in a sentence, where the data alone allow much more; else nothing."""
        both = [(row.spread, row.bounds) for row in self.rows if row.spread and row.bounds]
        if not any(most - least > MUCH_WIDER * (high - low) for (low, high), (least, most) in both):
            return ""
        prior = self.provenance.get("prior")
        what = "Intervals show what chance leaves open, not the bias of the estimator"
        return f"{what if prior is None else assumed(prior == 'own')}; the data alone say no more than the bounds."

    def metric(self, metric: Metric | str | None = None) -> Metric:
        """Find the metric of a name: the report's own, else :func:`fullrank.parse_metric`'s; without a name, the first."""
        if metric is None:
            return self.rows[0].metric if self.rows else NDCG @ 10
        if isinstance(metric, Metric):
            return metric
        return next((row.metric for row in self.rows if str(row.metric) == metric), None) or parse_metric(metric)

    def row(self, model: str, metric: Metric | str) -> Row:
        """Return one row of the table."""
        for row in self._rows(metric):
            if row.model == model:
                return row
        raise ValueError(f"the report has no {metric} of {model!r}: its models are {', '.join(self.models)}.")

    def value(self, model: str, metric: Metric | str) -> float:
        """Return one number of the table."""
        return self.row(model, metric).value

    def winner(self, metric: Metric | str) -> Winner:
        """Name the model that leads on the metric, as the comparison finds it; the name also knows how sure that is.

        >>> import fullrank as fr
        >>> ranks = {"A": [1] * 600 + [2, 3, 5, 9, 20, 50] * 60, "B": [1] * 200 + [2, 3, 5, 9, 20, 50] * 120}
        >>> report = fr.correct(ranks, n_items=1000, design="uni99", metrics="ndcg@10")
        >>> best = report.winner("ndcg@10")
        >>> best, best.probability > 0.95, best.tied
        ('A', True, ())
        """
        rows = self._rows(metric)
        best = max(rows, key=lambda row: -math.inf if math.isnan(row.value) else row.value)
        found = self.comparison.get(str(best.metric))
        winner = Winner(best.model if found is None else found.winner)
        if found is not None:
            winner.probability = float(found.best[winner])
            winner.tied = tuple(row.model for row in rows if row.model in found.tied_with(winner))
        return winner

    def _rows(self, metric: Metric | str) -> list[Row]:
        """Return the rows of a metric: those of its name, or else of one that equals it, as hr@10 does recall@10."""
        rows = [row for row in self.rows if str(row.metric) == str(metric)]
        if not rows:
            several = self._several_targets
            wanted = parse_metric(metric).kept_apart(several)
            rows = [row for row in self.rows if row.metric.kept_apart(several) == wanted]
        if not rows:
            raise ValueError(f"the report has no {metric}: its metrics are {', '.join(self.metrics)}.")
        return rows

    @property
    def _several_targets(self) -> bool:
        """Whether users have several targets, as far as a report knows: hr@10 and recall@10 are two numbers then."""
        told = "several" in str(self.provenance.get("prior", ""))
        return told or any(each.counts.several_targets for each in self.estimates.values())

    def to_markdown(self, digits: int = 3) -> str:
        """Write a Markdown table with intervals; superscripts name the models that one is significantly better than."""
        return self._results().markdown(digits)

    def to_latex(self, digits: int = 3) -> str:
        """Write the same for a paper, in ranx's form."""
        return self._results().latex(digits)

    def _results(self) -> Results:
        about = str(self.provenance.get("about", ""))
        return Results(self.rows, self.comparison, self.level, self.target, about)

    def to_dict(self, flat: bool = False) -> dict[str, float]:
        """Return numbers by name: ``{"EASE/ndcg@10": 0.12, "EASE/ndcg@10_low": 0.11, …}``.

        ``flat=True`` writes names that MLflow and other trackers take, without ``@`` or signs: ``EASE/ndcg_at_10_low``. No
        name is the beginning of another's path, which trackers that keep a file per metric cannot store.
        """
        found: dict[str, float] = {}
        for row in self.rows:
            key = f"{row.model}/{row.metric}"
            if flat:
                plain = re.sub(r"[^\w./ -]", "_", key.replace("@", "_at_"), flags=re.ASCII)
                key = next(name for turn in count(1) if (name := plain + f"_{turn}" * (turn > 1)) not in found)
            flat_row, parts = row.flat(), ("naive", "low", "high", "bounds_low", "bounds_high")
            values = {key: row.value, **{f"{key}_{part}": flat_row[part] for part in parts}}
            found.update({name: float(value) for name, value in values.items() if value is not None})
        return found

    def to_json(self, indent: int | None = 2) -> str:
        """Write the report as strict JSON under :data:`SCHEMA`; what is not a finite number is null."""
        document = {
            "schema": SCHEMA,
            "rows": [dict(row) for row in self.rows],
            "comparison": [each.to_dict() for each in self.comparison.values()],
            "runs": {model: asdict(run) for model, run in self.runs.items()},
            "notes": list(self.notes),
            "provenance": self.provenance,
        }
        return as_json(document, indent)

    @classmethod
    def load(cls, path: str | Path) -> "Report":
        """Read the report that :meth:`to_json` wrote to a file; it has everything but the estimates.

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
                model: Run(**{**run, "rounds": tuple(run["rounds"]), "remarks": tuple(run.get("remarks", ()))})
                for model, run in document["runs"].items()
            }
            return cls(
                document["rows"], {str(each.metric): each for each in comparisons}, runs,
                tuple(map(str, document["notes"])), {}, dict(document["provenance"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            fault = f"{type(error).__name__} {error}; write it again with `to_json`."
            raise ValueError(f"{str(path)!r} is not a whole report: {fault}") from None

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """Make one self-contained page of the report: written to ``path`` atomically, or returned as text.

        It opens offline, on a phone, in light and dark, prints, and stays below 2 MB whatever the number of models.
        Needs the extra ``report`` for its charts.
        """
        from fullrank.report.html import page, write_page

        return page(self) if path is None else write_page(page(self), path)

    def plot(self, kind: str = "results") -> Any:
        """Draw ``results``, ``curves`` (metric@K), ``ranks`` or ``budget`` with Altair. Needs the extra ``report``."""
        from fullrank.report.charts import plot_report

        return plot_report(self, kind)

    def _repr_html_(self) -> str:
        head, body = result_table(self.rows[:MOST_ROWS], digits_of(self.rows), self.level)
        notes = [self.assumption] * bool(self.assumption) + self.remarks + merged_notes(self.notes, self.models)
        if len(self.rows) > MOST_ROWS:
            size = f"{len(self.models):,} models × {len(self.metrics):,} metrics"
            notes.append(f"the first of {size}; all are in report.rows")
        return card(str(self.verdict), {}, table=(head, body) if body else None, notes=notes[:MOST_ROWS])

    def to_pandas(self) -> Any:
        """Return the rows as a pandas frame."""
        return require("pandas", "`to_pandas`").DataFrame([row.flat() for row in self.rows])

    def to_polars(self) -> Any:
        """Return the rows as a polars frame."""
        # a column may start with many missing values
        return require("polars", "`to_polars`").DataFrame([row.flat() for row in self.rows], infer_schema_length=None)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        models, metrics = len(self.models), len(self.metrics)
        size = f"{models:,} model{'s' * (models != 1)} × {metrics:,} metric{'s' * (metrics != 1)}"
        return f"<Report: {clean(self.verdict, 200)} {size}>"

    def lines(self, width: int = 80) -> list[str]:
        """Write the verdict and the table in lines of at most ``width`` columns; rows past 500 are only counted."""
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
