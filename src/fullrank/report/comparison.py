"""Comparison: models by one metric, who is better and how sure that is, as people and programs read it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fullrank._types import Pair
from fullrank.metrics import Metric
from fullrank.report.notebook import card
from fullrank.report.row import Row, metric_called, pair
from fullrank.report.tables import LETTERS, RAISED, Results, text_table
from fullrank.report.words import (
    as_json,
    clean,
    decimals,
    interval_text,
    joined,
    merged_notes,
    named,
    number,
    signed,
    wrapped,
)

#: Name and version of the JSON of a comparison.
SCHEMA = "fullrank.comparison/1"
#: What is written as it is; a file from before the assumption was part of it lacks that.
_PLAIN = ("level", "target", "paired", "about", "assumption")
#: Said where differences are not those of the values: beside a matrix of differences, and below a table of both.
FITTED_TOGETHER = (
    "Differences are of all models fitted together, since models of one catalogue have much in common; the values are each "
    "model's own."
)
COLUMN_TOGETHER = (
    "Column `together`: the value when all models are fitted together, since models of one catalogue have much in common. "
    "The order, differences and P(best) are of these; the value beside the interval is each model's own."
)


@dataclass(frozen=True)
class Verdict:
    """A headline, and what stands behind it: together one sentence."""

    headline: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.headline}: {self.detail}." if self.detail else f"{self.headline}."


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

    @property
    def spread(self) -> Pair | None:
        """The interval where it is bounded and more than a point."""
        return None if self.low == self.high else pair((self.low, self.high))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models by one metric, best first.

    ``values``, ``intervals`` and ``best`` (the probability that a model is the best one) are by model, ``pairs`` all
    :class:`Difference`\\ s, ``groups`` the ranking: models of one group cannot be told apart from its first. Values are each
    model's own; differences and the order may be those of models fitted together (see :func:`fullrank.compare`).
    """

    metric: Metric
    models: tuple[str, ...]
    values: Mapping[str, float]
    intervals: Mapping[str, Pair]
    best: Mapping[str, float]
    pairs: tuple[Difference, ...]
    groups: tuple[tuple[str, ...], ...]
    level: float = 0.95
    target: str = "cases"
    #: Whether all models were evaluated on the same cases, so that differences are taken case by case.
    paired: bool = True
    about: str = ""
    notes: tuple[str, ...] = ()
    #: What intervals assume, in a sentence; empty where they assume nothing.
    assumption: str = ""
    #: The values of all models fitted together, which the order and differences are of; empty where those are ``values``.
    joint: Mapping[str, float] = field(default_factory=dict)
    #: The uncorrected metric by model, where the design has one.
    naive: Mapping[str, float] = field(default_factory=dict)
    estimates: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: Says what would separate two models; none where there is nothing to ask, as after loading.
    remedy: Callable[["Comparison", Difference], str] | None = field(default=None, repr=False)

    @property
    def winner(self) -> str:
        """The model that comes first: that with the highest value, where models are not fitted together."""
        return self.models[0]

    @property
    def basis(self) -> str:
        """What differences are of, in a sentence, where they are visibly not those of the values; else nothing."""
        moved = (abs(value - self.values[model]) for model, value in self.joint.items())
        return FITTED_TOGETHER if any(each > 0.5 * 10**-self.digits for each in moved) else ""

    @property
    def sure(self) -> bool:
        """Whether the winner is the best with a probability of at least ``level``, and no difference from it may be zero.

        The interval of a difference asks more than its probability does: it leaves out as much on the other side.
        """
        ahead = (self.pair(self.winner, other).low > 0 for other in self.models[1:])
        return self.best[self.winner] >= self.level and all(ahead)

    @property
    def rows(self) -> list[Row]:
        """The models as rows of a table, best first."""
        return [
            Row(model, self.metric, self.values[model], pair(self.intervals[model]), naive=self.naive.get(model))
            for model in self.models
        ]

    def pair(self, model: str, other: str) -> Difference:
        """Return the difference of two models, in the order asked for."""
        for each in self.pairs:
            if (each.model, each.other) == (model, other):
                return each
            if (each.model, each.other) == (other, model):
                return replace(
                    each, model=model, other=other, difference=-each.difference, low=-each.high, high=-each.low,
                    probability=1 - each.probability,
                )  # fmt: skip
        raise ValueError(f"there is no pair {model!r}, {other!r}: the models are {', '.join(map(repr, self.models))}.")

    def told_apart(self, model: str, other: str) -> bool:
        """Tell whether the two differ significantly, all pairs considered (Holm)."""
        return self.pair(model, other).p_holm <= 1 - self.level

    def more(self, model: str, other: str) -> str:
        """Say what would separate two models that differ by as much as estimated, found by a refit that takes a second."""
        pair, names = self.pair(model, other), joined([model, other])
        if abs(pair.difference) < 0.5 * 10**-self.digits:
            return f"{names} do not differ in {self.digits} decimals."
        if self.told_apart(model, other):
            return f"{names} are told apart already."
        return "" if self.remedy is None or not self.estimates else self.remedy(self, pair)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, under the schema ``fullrank.comparison/1``."""
        places = {model: place for place, group in enumerate(self.groups, 1) for model in group}
        return {
            "schema": SCHEMA,
            "metric": str(self.metric),
            **{key: getattr(self, key) for key in (*_PLAIN, "winner", "sure")},
            "models": [
                {
                    "model": model, "value": self.values[model], "low": self.intervals[model][0],
                    "high": self.intervals[model][1], "together": self.joint.get(model), "naive": self.naive.get(model),
                    "probability_best": self.best[model], "group": places[model],
                }
                for model in self.models
            ],
            "pairs": [{"metric": str(self.metric), **asdict(each)} for each in self.pairs],
            "groups": [list(group) for group in self.groups],
            "notes": list(self.notes),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Comparison":
        """Return the comparison that :meth:`to_dict` wrote, without its estimates."""
        rows = {row["model"]: row for row in document["models"]}
        parts = ("probability", "p_value", "p_holm")
        return cls(
            metric=metric_called(str(document["metric"])),
            models=tuple(rows),
            values={model: float(row["value"]) for model, row in rows.items()},
            intervals={model: _ends(row) for model, row in rows.items()},
            best={model: float(row["probability_best"]) for model, row in rows.items()},
            joint=_known(rows, "together"),
            naive=_known(rows, "naive"),
            pairs=tuple(
                Difference(row["model"], row["other"], row["difference"], *_ends(row), *(row[part] for part in parts))
                for row in document["pairs"]
            ),
            groups=tuple(tuple(group) for group in document["groups"]),
            notes=tuple(document["notes"]),
            **{key: document[key] for key in _PLAIN if key in document},
        )  # fmt: skip

    def to_json(self, indent: int | None = 2) -> str:
        """Write :meth:`to_dict` as strict JSON."""
        return as_json(self.to_dict(), indent)

    def to_latex(self, digits: int = 3) -> str:
        """Write a LaTeX table with intervals; superscripts name the models that one is significantly better than."""
        return self._results().latex(digits)

    def to_markdown(self, digits: int = 3) -> str:
        """Write the same as a Markdown table."""
        return self._results().markdown(digits)

    def _results(self) -> Results:
        return Results(self.rows, {str(self.metric): self}, self.level, self.target, self.about)

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """Make one self-contained page, written to ``path`` atomically or returned as text. Needs the extra ``report``."""
        from fullrank.report.html import comparison_page, write_page

        page = comparison_page([self])
        return page if path is None else write_page(page, path)

    def better_than(self, model: str) -> list[str]:
        """Return the models that this one is significantly better than, all pairs considered (Holm)."""
        return [each.other for each in self.pairs if each.model == model and each.p_holm <= 1 - self.level]

    def tied_with(self, model: str) -> list[str]:
        """Return the models that are not significantly worse than this one."""
        return [other for other in self.models if other not in {model, *self.better_than(model)}]

    @property
    def digits(self) -> int:
        """Decimals that suit the values."""
        return decimals(self.values.values())

    @property
    def verdict(self) -> Verdict:
        """Who leads, how sure that is, and whom uncorrected ranks would have named, in one sentence."""
        return verdict(self.rows, self.level, self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return head and body of the ranking: groups, letters, values and what they beat, intervals, P(best).

        Where models were fitted together, the values that this gives them stand before P(best).
        """
        letters = dict(zip(self.models, LETTERS, strict=False))
        joint = self.joint if self.basis else {}
        head = [
            "",
            "#",
            "model",
            str(self.metric),
            f"{self.level:.0%} interval",
            *["together"] * bool(joint),
            "P(best)",
        ]
        body = []
        for place, model in ((place, model) for place, group in enumerate(self.groups, 1) for model in group):
            marks = "".join(letters.get(other, "") for other in self.better_than(model)).translate(RAISED)
            value = number(self.values[model], self.digits) + marks
            ends = interval_text(pair(self.intervals[model]), self.digits)
            there = [number(joint[model], self.digits)] if joint else []
            line = [f"{place}.", letters.get(model, ""), clean(model), value, ends, *there, f"{self.best[model]:.3f}"]
            body.append(line)
        return head, body

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<Comparison: {clean(self.verdict, 200)} {len(self.models):,} models>"

    def lines(self, width: int = 80) -> list[str]:
        """Write the comparison in lines of at most ``width`` columns."""
        head, body = self.table()
        words = [line for text in [*self.sentences(), *self.small_print()] for line in wrapped(text, width)]
        notes = [line for note in merged_notes(self.notes, self.models) for line in wrapped(note, width, "! ")]
        table = text_table(head, body, width, words=4, elastic=2)
        return [*wrapped(str(self.verdict), width), *wrapped(self.about, width), *table, *words, *notes]

    def sentences(self) -> list[str]:
        """Say what stands behind the verdict: the lead over the second, what would settle it, and the whole ranking."""
        out = []
        if len(self.models) > 1:
            first, second = self.models[:2]
            out = [self.difference(first, second), "" if self.told_apart(first, second) else self.more(first, second)]
        if len(self.models) > 2:
            ranking = " > ".join(" = ".join(map(clean, group)) for group in self.groups)
            out.append(f"Ranking (=: cannot be told apart from the first of the group): {ranking}.")
        return [text for text in out if text]

    def small_print(self) -> list[str]:
        """Say what a column of the table means, and what the intervals assume."""
        return [COLUMN_TOGETHER] * bool(self.basis) + [self.assumption] * bool(self.assumption)

    def difference(self, model: str, other: str) -> str:
        """Write the difference of two models as a sentence; nothing where their values are equal."""
        pair = self.pair(model, other)
        if pair.difference == 0:
            return ""
        text = f"{named(model)} minus {named(other)} is {signed(pair.difference, self.digits)}"
        if pair.low == pair.high:
            return f"{text}, exact."
        ends = " to ".join(signed(end, self.digits) for end in (pair.low, pair.high))
        p = "p < 0.001" if pair.p_holm < 0.001 else f"p = {pair.p_holm:.3f}"
        return f"{text}, {self.level:.0%} interval {ends} ({p} after Holm's adjustment)."

    def _repr_html_(self) -> str:
        head, body = self.table()
        table = (head[2:], [line[2:] for line in body[:60]])
        notes = merged_notes(self.notes, self.models)
        return card(str(self.verdict), {}, table=table, notes=[*self.sentences(), *self.small_print(), *notes])


def verdict(rows: Sequence[Row], level: float = 0.95, held: Comparison | None = None) -> Verdict:
    """Say who leads by the metric of these rows, how sure that is, and whom uncorrected ranks would have named.

    The models that cannot be told apart from the leader are those of the comparison that is ``held``; without one, those
    whose intervals overlap with the leader's.
    """
    if not rows:
        return Verdict("Nothing was evaluated")
    name = clean(rows[0].metric)
    known = sorted((row.shown() for row in rows if not math.isnan(row.value)), key=lambda row: -row.value)
    if held is not None and {row.model for row in known} <= set(held.models):
        known.sort(key=lambda row: held.models.index(row.model))
    if not known:
        return Verdict(f"No model has a finite {name}")
    first, others, digits = known[0], known[1:], decimals(row.value for row in known)
    leader, value, ends = named(first.model), number(first.value, digits), interval_text(first.interval, digits)
    sure = "" if first.interval is None else ends if first.exact else f"{level:.0%} interval {ends}"
    if not others:
        far = first.naive is not None and abs(first.naive - first.value) > 0.05 * abs(first.value)
        naive = f"uncorrected {number(first.naive, digits)}" if far else ""
        return Verdict(f"{leader} has {name} of {value}", "; ".join(filter(None, (sure, naive))))
    value = ", ".join(filter(None, (value, sure)))
    equal = [row.model for row in known if row.value == first.value and not _apart(held, first.model, row.model)]
    if len(equal) > 1:
        return Verdict(f"{joined(equal)} tie on {name}", value)
    best = ""
    if held is not None and first.model in held.models:
        tied = [row.model for row in others if row.model in held.tied_with(first.model)]
        likeliest = max(held.best, key=lambda model: held.best[model])
        more = (
            f" ({named(likeliest)}: {held.best[likeliest]:.2f})"
            if held.best[likeliest] > held.best[first.model]
            else ""
        )
        best = f", and is best with probability {min(held.best[first.model], 0.99):.2f}{more}"
    else:
        low = math.inf if first.interval is None else first.interval[0]
        reach = {row.model: row.interval[1] for row in others if row.interval and not (first.exact and row.exact)}
        tied = [model for model, high in reach.items() if high >= low]
    if tied:
        return Verdict(f"{joined([first.model, *tied])} cannot be told apart on {name}", f"{leader} has {value}{best}")
    sampled = [(row.naive, row.model) for row in known if row.naive is not None]
    other = max(sampled, key=lambda each: each[0])[1] if len(sampled) == len(known) else first.model
    wrong = "" if other == first.model else f"; uncorrected ranks would have named {named(other)}"
    return Verdict(f"{leader} leads on {name}", f"{value}{wrong}")


def _apart(held: Comparison | None, one: str, two: str) -> bool:
    """Whether a comparison finds a difference between two models, be it small."""
    return held is not None and one != two and {one, two} <= set(held.models) and held.pair(one, two).difference != 0


def _known(rows: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, float]:
    """Read one number of each model from JSON, where there is one."""
    return {model: float(row[key]) for model, row in rows.items() if row.get(key) is not None}


def _ends(row: Mapping[str, Any]) -> Pair:
    """Read the ends of an interval from JSON: one that is missing lies nowhere."""
    low, high = row["low"], row["high"]
    return (-math.inf if low is None else float(low)), (math.inf if high is None else float(high))
