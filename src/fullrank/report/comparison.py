"""Comparison: models by one metric, who is better and how sure that is, as people and programs read it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from typing import Any

from fullrank.metrics import Metric
from fullrank.report.notebook import card
from fullrank.report.row import finite, metric_called
from fullrank.report.tables import latex, letters, markdown, significance_caption, superscript

__all__ = ["SCHEMA", "Comparison", "Difference"]

#: Name and version of the JSON of a comparison.
SCHEMA = "fullrank.comparison/1"


@dataclass(frozen=True)
class Difference:
    """Two models in one metric: ``model`` minus ``other``, the better one first.

    ``probability`` that ``model`` is the better one; ``p_value`` is two-sided, ``p_holm`` adjusted for all pairs.
    """

    model: str
    other: str
    difference: float
    low: float
    high: float
    probability: float
    p_value: float
    p_holm: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models by one metric, best first.

    ``values``, ``intervals`` and ``best`` (the probability that a model is the best one) are by model, ``pairs`` all
    :class:`Difference`\\ s, ``groups`` the ranking: models of one group cannot be told apart from its first.
    """

    metric: Metric
    models: tuple[str, ...]
    values: MappingType[str, float]
    intervals: MappingType[str, tuple[float, float]]
    best: MappingType[str, float]
    pairs: tuple[Difference, ...]
    groups: tuple[tuple[str, ...], ...]
    level: float = 0.95
    target: str = "cases"
    #: Whether all models were evaluated on the same cases, so that differences are taken case by case.
    paired: bool = True
    about: str = ""
    notes: tuple[str, ...] = ()
    estimates: MappingType[str, Any] = field(default_factory=dict, repr=False)
    #: Says what would separate two models; none where there is nothing to ask, as after loading.
    remedy: Callable[[Comparison, Difference], str] | None = field(default=None, repr=False)

    @property
    def winner(self) -> str:
        """The model with the highest value."""
        return self.models[0]

    @property
    def sure(self) -> bool:
        """Whether the winner is the best with a probability of at least ``level``."""
        return self.best[self.winner] >= self.level

    def pair(self, model: str, other: str) -> Difference:
        """The difference of two models, in the order asked for."""
        for each in self.pairs:
            if (each.model, each.other) == (model, other):
                return each
            if (each.model, each.other) == (other, model):
                return Difference(
                    model,
                    other,
                    -each.difference,
                    -each.high,
                    -each.low,
                    1 - each.probability,
                    each.p_value,
                    each.p_holm,
                )
        raise ValueError(f"there is no pair {model!r}, {other!r}: models are {', '.join(map(repr, self.models))}.")

    def told_apart(self, model: str, other: str) -> bool:
        """Whether the two differ significantly, all pairs considered (Holm)."""
        return self.pair(model, other).p_holm <= 1 - self.level

    def more(self, model: str, other: str) -> str:
        """What would separate two models, if they differ by as much as estimated: more negatives, or more cases.

        The fit is repeated on the counts to be expected from larger samples, so this takes a second.
        """
        return "" if self.remedy is None else self.remedy(self, self.pair(model, other))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, under the schema ``fullrank.comparison/1``."""
        return {
            "schema": SCHEMA,
            "metric": str(self.metric),
            "level": self.level,
            "target": self.target,
            "paired": self.paired,
            "about": self.about,
            "winner": self.winner,
            "sure": self.sure,
            "models": [
                {
                    "model": model,
                    "value": self.values[model],
                    "low": finite(self.intervals[model][0]),
                    "high": finite(self.intervals[model][1]),
                    "probability_best": self.best[model],
                    "group": next(place for place, group in enumerate(self.groups, 1) if model in group),
                }
                for model in self.models
            ],
            "pairs": _pair_rows(self),
            "groups": [list(group) for group in self.groups],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, document: MappingType[str, Any]) -> Comparison:
        """The comparison that :meth:`to_dict` wrote, without its estimates."""
        rows = document["models"]
        return cls(
            metric=metric_called(str(document["metric"])),
            models=tuple(row["model"] for row in rows),
            values={row["model"]: float(row["value"]) for row in rows},
            intervals={row["model"]: _limits(row) for row in rows},
            best={row["model"]: float(row["probability_best"]) for row in rows},
            pairs=tuple(
                Difference(
                    row["model"], row["other"], float(row["difference"]), *_limits(row),
                    *(float(row[part]) for part in ("probability", "p_value", "p_holm")),
                )
                for row in document["pairs"]
            ),
            groups=tuple(tuple(group) for group in document["groups"]),
            level=float(document["level"]),
            target=str(document["target"]),
            paired=bool(document["paired"]),
            about=str(document["about"]),
            notes=tuple(document["notes"]),
        )  # fmt: skip

    def to_json(self, indent: int | None = 2) -> str:
        """:meth:`to_dict` as strict JSON."""
        import json

        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_latex(self, digits: int = 3) -> str:
        """A LaTeX table; superscripts name the models that one is significantly better than."""
        return latex(self.models, [str(self.metric)], *self._cells(), digits, self._caption())

    def to_markdown(self, digits: int = 3) -> str:
        """The same as a Markdown table."""
        return markdown(self.models, [str(self.metric)], *self._cells(), digits, self._caption())

    def _cells(self) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], frozenset[str]]]:
        name = str(self.metric)
        values = {(name, model): value for model, value in self.values.items()}
        return values, {(name, model): frozenset(self.better_than(model)) for model in self.models}

    def better_than(self, model: str) -> list[str]:
        """The models that this one is significantly better than, all pairs considered (Holm)."""
        return [each.other for each in self.pairs if each.model == model and each.p_holm <= 1 - self.level]

    def _caption(self) -> str:
        return significance_caption(self.level, self.target, self.about)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, width: int = 80) -> list[str]:
        """The comparison as lines of at most ``width`` columns."""
        named = letters(self.models)
        head = ["", "#", "model", str(self.metric), f"{self.level:.0%} interval", "P(best)"]
        body = []
        for place, group in enumerate(self.groups, 1):
            for model in group:
                low, high = self.intervals[model]
                marks = superscript("".join(named[other] for other in self.better_than(model) if other in named))
                body.append(
                    [f"{place}.", named.get(model, ""), model, f"{self.values[model]:.4f}{marks}",
                     f"{low:.4f} .. {high:.4f}", f"{self.best[model]:.3f}"]
                )  # fmt: skip
        widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
        widths[2] = max(5, min(widths[2], width - sum(widths[:2]) - sum(widths[3:]) - 2 * (len(widths) - 1)))
        table = [_aligned(line, widths)[:width] for line in [head, *body]]
        table.insert(1, "-" * min(max(map(len, table)), width))
        said = [line for text in self.sentences() for line in textwrap.wrap(text, width)]
        notes = [line for note in self.notes for line in textwrap.wrap(f"! {note}", width, subsequent_indent="  ")]
        return [*textwrap.wrap(self.about, width), *table, *said, *notes]

    def sentences(self) -> list[str]:
        """The verdict in words."""
        if len(self.models) == 1:
            return ["There is one model: nothing to compare."]
        first, second = self.models[0], self.models[1]
        pair = self.pair(first, second)
        limits = f"{pair.difference:+.4f}, {self.level:.0%} interval {pair.low:+.4f} .. {pair.high:+.4f}"
        out = []
        if pair.difference == 0:
            out.append(f"{first} and {second} tie.")
        elif self.told_apart(first, second):
            out.append(f"{first} leads {second} by {limits} ({_p(pair.p_holm)}, Holm).")
        else:
            out.append(f"{first} and {second} cannot be told apart: {limits} ({_p(pair.p_holm)}, Holm).")
            out.append(self.more(first, second))
        if len(self.models) > 2:
            ranking = " > ".join(" = ".join(group) for group in self.groups)
            out.append(f"Ranking (=: cannot be told apart from the first of the group): {ranking}.")
        return [text for text in out if text]

    def _repr_html_(self) -> str:
        head = ["model", "group", str(self.metric), f"{self.level:.0%} interval", "P(best)", "better than"]
        body = []
        for place, group in enumerate(self.groups, 1):
            for model in group:
                low, high = self.intervals[model]
                body.append(
                    [model, str(place), f"{self.values[model]:.4f}", f"{low:.4f} to {high:.4f}",
                     f"{self.best[model]:.3f}", ", ".join(self.better_than(model)) or "–"]
                )  # fmt: skip
        return card(f"Comparison by {self.metric}", {}, table=(head, body[:60]), notes=[*self.sentences(), *self.notes])


def _pair_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The differences as flat rows."""
    return [
        {
            "metric": str(comparison.metric),
            "model": each.model,
            "other": each.other,
            "difference": each.difference,
            "low": finite(each.low),
            "high": finite(each.high),
            "probability": each.probability,
            "p_value": each.p_value,
            "p_holm": each.p_holm,
        }
        for each in comparison.pairs
    ]


def _aligned(line: list[str], widths: list[int]) -> str:
    """A line of the table: words to the left, numbers to the right, a long name cut."""
    place, letter, name, value, *rest = line
    if len(name) > widths[2]:
        name = name[: widths[2] - 1] + "…"
    left = [cell.ljust(width) for cell, width in zip((place, letter, name, value), widths, strict=False)]
    return "  ".join([*left, *(cell.rjust(width) for cell, width in zip(rest, widths[4:], strict=True))]).rstrip()


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _limits(row: MappingType[str, Any]) -> tuple[float, float]:
    """The ends of an interval as JSON has them: one that is missing lies nowhere."""
    low, high = row["low"], row["high"]
    return (-math.inf if low is None else float(low)), (math.inf if high is None else float(high))
