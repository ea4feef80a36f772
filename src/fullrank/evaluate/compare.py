"""Which model is better, and how sure is that: differences, P(best), a ranking with ties, and what would settle it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators import DEFAULT_ESTIMATOR, Estimate, Estimator, describe, parse_estimator
from ..estimators.intervals import check_interval, z_of
from ..metrics import Metric, parse_metric
from ..ranks.counts import RankCounts
from ..ranks.design import ALL, Design
from ..report import Report
from ..report.notebook import card
from ..report.tables import latex, letters, markdown, significance_caption, superscript
from .pairing import Influence, case_spread, covariances, expected_counts, influences, same_cases

__all__ = ["Comparison", "Difference", "compare", "comparisons"]

FloatArray = NDArray[np.float64]

DRAWS = 20_000
#: Name and version of the JSON of a comparison.
SCHEMA = "fullrank.comparison/1"
#: Times as many negatives that are tried out when models cannot be told apart.
FACTORS = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


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
        return _more(self, self.pair(model, other))

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
                    "low": _finite(self.intervals[model][0]),
                    "high": _finite(self.intervals[model][1]),
                    "probability_best": self.best[model],
                    "group": next(place for place, group in enumerate(self.groups, 1) if model in group),
                }
                for model in self.models
            ],
            "pairs": pair_rows(self),
            "groups": [list(group) for group in self.groups],
            "notes": list(self.notes),
        }

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
        return values, {(name, model): frozenset(self._worse(model)) for model in self.models}

    def _worse(self, model: str) -> list[str]:
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
                marks = superscript("".join(named[other] for other in self._worse(model) if other in named))
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
                     f"{self.best[model]:.3f}", ", ".join(self._worse(model)) or "–"]
                )  # fmt: skip
        return card(f"Comparison by {self.metric}", {}, table=(head, body[:60]), notes=[*self.sentences(), *self.notes])


def compare(
    models: Report | MappingType[str, RankCounts | Estimate],
    metric: Metric | str | None = None,
    *,
    level: float | None = None,
    target: str | None = None,
    estimator: Estimator | str | None = None,
    paired: bool | str = "auto",
) -> Comparison:
    """Compare models: differences with intervals, P(best), groups that cannot be told apart, Holm-adjusted tests.

    ``models``: a report, or counts (or estimates) by model; ``metric``: by default a report's first, or ``ndcg@10``.
    ``target="cases"`` asks what the full ranking of these very cases would show; ``"population"`` how models would rank
    among all users that these are a sample of. ``paired``: whether models were evaluated on the same cases, ``"auto"`` when
    counts hold as many cases of every user block.

    A difference's interval is made from those of its two parts and their correlation (Zou & Donner 2008, "MOVER"): the
    correlation comes from user blocks, and for ``"cases"`` only as much of it as shared negatives must explain (see
    :mod:`fullrank.evaluate.pairing`), so that samples drawn independently are compared as such.

    >>> import fullrank as fr
    >>> sampled = {"A": [1] * 300 + [2] * 50 + [5] * 30 + [20] * 20, "B": [1] * 100 + [2] * 60 + [5] * 80 + [40] * 160}
    >>> counts = {name: fr.RankCounts.from_ranks(ranks, n_items=2000, design="uni99") for name, ranks in sampled.items()}
    >>> result = fr.compare(counts, "ndcg@10")
    >>> result.winner, result.sure, result.told_apart("A", "B")
    ('A', True, True)
    """
    if paired not in (True, False, "auto"):
        raise ValueError(f"`paired` is {paired!r}: it must be True, False or 'auto'.")
    if isinstance(models, Report):
        level = float(models.provenance.get("level", 0.95)) if level is None else level
        target = str(models.provenance.get("target", "cases")) if target is None else target
        metric = (models.metrics or ["ndcg@10"])[0] if metric is None else metric
        given: MappingType[str, Any] = models.estimates
        if not given:
            raise ValueError("the report holds no estimates to compare: give it as made, or counts by model.")
        if estimator is not None:
            given = {name: each.counts for name, each in given.items()}
    elif isinstance(models, MappingType):
        given = models
    else:
        raise TypeError(f"`models` must be a Report or counts by model, as in {{'EASE': counts}}, not {models!r}.")
    if not given:
        raise ValueError("`models` is empty: give counts by model, as in {'EASE': counts}.")
    chosen = parse_estimator(DEFAULT_ESTIMATOR if estimator is None else estimator)
    estimates = {}
    for name, each in given.items():
        if isinstance(each, RankCounts):
            each = chosen.fit(each)
        elif not hasattr(each, "expect"):
            raise TypeError(
                f"model {str(name)!r}: `models` must hold RankCounts or estimates, not {type(each).__name__}."
            )
        estimates[str(name)] = each
    wanted = parse_metric("ndcg@10" if metric is None else metric)
    level, target = 0.95 if level is None else level, target or "cases"
    check_interval(level, target)
    return comparisons(estimates, [wanted], level, target, paired=paired)[0]


def comparisons(
    estimates: MappingType[str, Estimate],
    metrics: Iterable[Metric],
    level: float,
    target: str,
    *,
    paired: bool | str = "auto",
    rows: Iterable[MappingType[str, Any]] = (),
) -> list[Comparison]:
    """One comparison per metric. ``rows`` of a report hold values and intervals that need not be computed again."""
    metrics = list(metrics)
    known = {(row["model"], row["metric"]): (row["value"], row["low"], row["high"]) for row in rows}
    names = list(estimates)
    same = same_cases([each.counts for each in estimates.values()]) if paired == "auto" else bool(paired)
    if paired is True and not same_cases([each.counts for each in estimates.values()]):
        raise ValueError(
            "`paired` is True but the models' counts hold different cases: give `users` with the same ids."
        )
    spread = len(names) > 1 and not (target == "cases" and all(_exact(each.counts) for each in estimates.values()))
    found = {name: influences(each, metrics) for name, each in estimates.items()} if same and spread else None
    about = "; ".join(
        [*dict.fromkeys(str(each.counts) for each in estimates.values())][:3]
        + [*dict.fromkeys(describe(each.estimator) for each in estimates.values())][:3]
    )
    notes = (
        () if same or len(names) < 2 else ("the models were not evaluated on the same cases: taken as independent.",)
    )
    out = []
    for index, metric in enumerate(metrics):
        numbers = [
            known.get((name, str(metric))) or (each.expect(metric), *each.interval(metric, level=level, target=target))  # type: ignore[arg-type]  # checked
            for name, each in estimates.items()
        ]
        value, low, high = (np.array(each, dtype=np.float64) for each in zip(*numbers, strict=True))
        here = None if found is None else [found[name][index] for name in names]
        made = _compared(metric, names, value, low, high, here, level, target)
        out.append(replace(made, paired=same, about=about, notes=notes, estimates=dict(estimates)))
    return out


def pair_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The differences as flat rows, as reports and pages keep them."""
    return [
        {
            "metric": str(comparison.metric),
            "model": each.model,
            "other": each.other,
            "difference": each.difference,
            "low": _finite(each.low),
            "high": _finite(each.high),
            "probability": each.probability,
            "p_value": each.p_value,
            "p_holm": each.p_holm,
        }
        for each in comparison.pairs
    ]


def holm(p_values: Sequence[float]) -> FloatArray:
    """Holm's step-down adjustment (1979): the i-th smallest of n is multiplied by n − i + 1, never below the one before.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty(len(p))
    out[order] = np.minimum(raised, 1.0)
    return out


# -------------------------------------------------------------------------------------------------- the numbers


def _compared(
    metric: Metric,
    names: list[str],
    value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    found: list[Influence] | None,
    level: float,
    target: str,
) -> Comparison:
    down, up = _one_sided(value, low, high, level)
    together = _correlations(found, (down + up) / 2, target)
    order = np.argsort(-value, kind="stable")
    raw = [
        _difference(value, down, up, together[i, k], int(i), int(k), level)
        for place, i in enumerate(order)
        for k in order[place + 1 :]
    ]
    adjusted = holm([each[5] for each in raw]) if raw else np.empty(0)
    pairs = tuple(
        Difference(names[i], names[k], d, lo, hi, probability, p, float(p_holm))
        for (d, lo, hi, probability, (i, k), p), p_holm in zip(raw, adjusted, strict=True)
    )
    best = _best(value, down, up, together)
    models = tuple(names[i] for i in order)
    return Comparison(
        metric=metric,
        models=models,
        values={names[i]: float(value[i]) for i in order},
        intervals={names[i]: (float(low[i]), float(high[i])) for i in order},
        best={names[i]: float(best[i]) for i in order},
        pairs=pairs,
        groups=_groups(models, pairs, level),
        level=level,
        target=target,
    )


def _one_sided(value: FloatArray, low: FloatArray, high: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Standard deviations below and above each value: intervals need not be symmetric."""
    z = z_of(level)
    return np.maximum(value - low, 0.0) / z, np.maximum(high - value, 0.0) / z


def _correlations(found: list[Influence] | None, spread: FloatArray, target: str) -> FloatArray:
    if found is None:
        return np.eye(len(spread))
    finite = np.where(np.isfinite(spread), spread, 0.0)
    covariance = covariances(found, finite, target)
    scale = np.where(finite > 0, finite, 1.0)
    return np.asarray(np.where(np.eye(len(spread)) > 0, 1.0, covariance / np.outer(scale, scale)))


def _difference(
    value: FloatArray, down: FloatArray, up: FloatArray, ρ: float, i: int, k: int, level: float
) -> tuple[float, float, float, float, tuple[int, int], float]:
    """MOVER: the lower limit needs the first's lower and the second's upper one, and the other way round."""
    from scipy.special import ndtr

    d = float(value[i] - value[k])
    one, two = (down[i], up[i]), (down[k], up[k])
    below, above = _spread_below(one, two, ρ), _spread_below(two, one, ρ)
    z = z_of(level)
    if below == 0:
        probability = 0.5 if d == 0 else 1.0
        return d, d, d + z * above, probability, (i, k), 1.0 if d == 0 else 0.0
    return d, d - z * below, d + z * above, float(ndtr(d / below)), (i, k), float(2 * ndtr(-d / below))


def _spread_below(one: tuple[float, float], two: tuple[float, float], ρ: float) -> float:
    """Standard deviation of a difference below its value, from those (below, above) of both models.

    Errors of their own meet on opposite sides, which is MOVER. What both share moves them to the same side, where a skewed
    error meets its like: there their means are compared. For symmetric intervals this is a² + b² − 2ρab.
    """
    if not np.isfinite([*one, *two]).all():
        return math.inf
    a, b = one[0], two[1]
    if ρ <= 0:
        return math.sqrt(a * a + b * b - 2 * ρ * a * b)
    return math.sqrt((1 - ρ) * (a * a + b * b) + ρ * ((sum(one) - sum(two)) / 2) ** 2)


def _best(value: FloatArray, down: FloatArray, up: FloatArray, together: FloatArray) -> FloatArray:
    """How often each model comes out on top in joint draws of what the values may truly be."""
    if len(value) == 1:
        return np.ones(1)
    roots, vectors = np.linalg.eigh(together)
    z = np.random.default_rng(0).standard_normal((DRAWS, len(value))) @ (vectors * np.sqrt(np.maximum(roots, 0.0))).T
    wide = 1e6  # stands for "anything": an interval without an end
    truth = value + z * np.where(z > 0, np.minimum(up, wide), np.minimum(down, wide))
    top = truth == truth.max(1, keepdims=True)
    return np.asarray((top / top.sum(1, keepdims=True)).mean(0))


def _groups(models: tuple[str, ...], pairs: tuple[Difference, ...], level: float) -> tuple[tuple[str, ...], ...]:
    """From the best down, a model opens a group when it can be told apart from the first of the one above."""
    apart = {(each.model, each.other) for each in pairs if each.p_holm <= 1 - level}
    groups: list[list[str]] = []
    for model in models:
        if groups and (groups[-1][0], model) not in apart:
            groups[-1].append(model)
        else:
            groups.append([model])
    return tuple(tuple(group) for group in groups)


# -------------------------------------------------------------------------------------------------- what would settle it


def _more(comparison: Comparison, pair: Difference) -> str:
    d = abs(pair.difference)
    names = f"{pair.model} and {pair.other}"
    if d == 0 or comparison.told_apart(pair.model, pair.other) or not comparison.estimates:
        return ""
    metric = comparison.metric
    two = [comparison.estimates[name] for name in (pair.model, pair.other)]
    # Holm asks more of a pair than the level alone: by as much as its p-value was raised
    z = z_of(1 - (1 - comparison.level) * (pair.p_value / pair.p_holm if pair.p_holm > 0 else 1.0))
    cases = 0.0
    if comparison.target == "population":
        one, other = (influences(each, [metric])[0] for each in two)
        least, cases = case_spread(one, other, comparison.paired)
        if z * cases >= d:
            surely = "Not even" if z * least >= d else "Perhaps not even"
            return (
                f"{surely} the full ranking of these cases would separate {names}: "
                f"about {_times((z * cases / d) ** 2)} as many cases would, if they differ by {d:.4f}."
            )
    N = max(each.counts.n_items for each in two)
    usable = []
    for factor in FACTORS:
        designs = [found for each in two if (found := each.counts.design.scaled(factor, round(N))) is not None]
        if len(designs) < len(two):
            break
        usable.append((factor, designs))
    ρ = _shared(pair, comparison)
    first, last = 0, len(usable)
    while first < last:  # the spread falls with the factor: halve
        middle = (first + last) // 2
        sides = [_foreseen(each, metric, design) for each, design in zip(two, usable[middle][1], strict=True)]
        spread = _spread_below(sides[0], sides[1], ρ)
        if z * math.hypot(spread, cases) <= d:
            last = middle
        else:
            first = middle + 1
    if first == len(usable):
        return f"Only the full ranking would separate {names}, if they differ by {d:.4f}."
    return f"About {_times(usable[first][0])} as many negatives would separate {names}, if they differ by {d:.4f}."


def _shared(pair: Difference, comparison: Comparison) -> float:
    """The correlation that the interval of the difference was made with."""
    one, two = (
        (
            comparison.values[name] - comparison.intervals[name][0],
            comparison.intervals[name][1] - comparison.values[name],
        )
        for name in (pair.model, pair.other)
    )
    alone, alike = (one[0] ** 2 + two[1] ** 2), ((sum(one) - sum(two)) / 2) ** 2
    if comparison.target == "population" or alone <= alike:
        return 0.0
    return float(np.clip((alone - (pair.difference - pair.low) ** 2) / (alone - alike), 0.0, 0.99))


def _foreseen(estimate: Any, metric: Metric, design: Design) -> tuple[float, float]:
    """Standard deviations below and above the value, as a fit to the counts expected of another design would have them.

    Estimators without a posterior take long over an interval: theirs is taken to shrink with the root of the sample.
    """
    value = estimate.expect(metric)
    if getattr(estimate, "posterior", None) is None:
        low, high = estimate.interval(metric, level=0.95, target="cases")
        root = math.sqrt(_size(design, estimate.counts) / _size(estimate.counts.design, estimate.counts)) * z_of(0.95)
        return max(value - low, 0.0) / root, max(high - value, 0.0) / root
    fitted = estimate.estimator.fit(expected_counts(estimate, design))
    centre = fitted.expect(metric)
    low, high = fitted.interval(metric, level=0.95, target="cases")
    scale = value / centre if centre > 0 and value > 0 else 1.0
    return max(centre - low, 0.0) * scale / z_of(0.95), max(high - centre, 0.0) * scale / z_of(0.95)


def _size(design: Design, counts: RankCounts) -> float:
    """The largest sample of a design."""
    N = round(counts.n_items)
    return max(float(N - 1 if size == ALL else size) for size in design.stages(N))


def _exact(counts: RankCounts) -> bool:
    return bool(counts.all_compared.all())


def _times(factor: float) -> str:
    return f"{factor:.1f} x" if factor < 10 and factor != round(factor) else f"{factor:,.0f} x"


def _aligned(line: list[str], widths: list[int]) -> str:
    """A line of the table: words to the left, numbers to the right, a long name cut."""
    place, letter, name, value, *rest = line
    if len(name) > widths[2]:
        name = name[: widths[2] - 1] + "…"
    left = [cell.ljust(width) for cell, width in zip((place, letter, name, value), widths, strict=False)]
    return "  ".join([*left, *(cell.rjust(width) for cell, width in zip(rest, widths[4:], strict=True))]).rstrip()


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
