"""The verdict: one plain sentence that the terminal, the page, notebooks and comparisons all begin with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fullrank.report.words import clean, joined, number

__all__ = ["Standing", "Verdict", "interval_text", "verdict"]


@dataclass(frozen=True)
class Standing:
    """One model by one metric: its value, what is known of it, and what its uncorrected ranks show."""

    model: str
    value: float
    interval: tuple[float, float] | None = None
    naive: float | None = None

    @property
    def exact(self) -> bool:
        """Whether the interval is a point, because all ranks that count are known."""
        return self.interval is not None and self.interval[0] == self.interval[1]


@dataclass(frozen=True)
class Verdict:
    """A headline, and what stands behind it: together one sentence."""

    headline: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.headline}: {self.detail}." if self.detail else f"{self.headline}."


def verdict(
    metric: object,
    standings: Sequence[Standing],
    *,
    level: float = 0.95,
    digits: int = 4,
    tied: Collection[str] | None = None,
    probability: float | None = None,
) -> Verdict:
    """Say who leads by a metric, how sure that is, and whom uncorrected ranks would have named.

    ``standings`` come best first. ``tied``: the models that cannot be told apart from the first one, by a comparison;
    without one, those whose intervals overlap. ``probability``: that the first is the best.

    >>> als, ease = Standing("ALS", 0.0705, (0.0675, 0.0735), 0.5), Standing("EASE", 0.06, (0.055, 0.065), 0.6)
    >>> print(verdict("ndcg@10", [als, ease]))
    ALS leads on ndcg@10: 0.0705, 95% interval 0.0675 to 0.0735; uncorrected ranks would have named EASE.
    """
    name = clean(metric)
    if not standings:
        return Verdict("Nothing was evaluated")
    first, others = standings[0], standings[1:]
    leader = clean(first.model)
    value = f"{number(first.value, digits)}{_certainty(first, level, digits)}"
    if not others:
        return Verdict(f"{leader} has {name} of {number(first.value, digits)}", _alone(first, level, digits))
    equal = [each.model for each in standings if each.value == first.value]
    if len(equal) > 1:
        return Verdict(f"{joined(equal)} tie on {name}", value)
    if tied is None:
        tied = {each.model for each in others if _overlap(first, each)}
    if tied:
        names = [first.model, *(each.model for each in others if each.model in tied)]
        best = "" if probability is None else f", and is best with probability {min(probability, 0.99):.2f}"
        return Verdict(f"{joined(names)} cannot be told apart on {name}", f"{leader} has {value}{best}")
    known = [each for each in standings if each.naive is not None]
    named = max(known, key=lambda each: each.naive or 0.0).model if len(known) == len(standings) else first.model
    wrong = "" if named == first.model else f"; uncorrected ranks would have named {clean(named)}"
    return Verdict(f"{leader} leads on {name}", f"{value}{wrong}")


def interval_text(ends: tuple[float, float] | None, digits: int = 4, between: str = " to ") -> str:
    """``0.120 to 0.145``; ``exact`` where both ends are one; a dash where there are none."""
    if ends is None:
        return "–"
    return "exact" if ends[0] == ends[1] else between.join(number(end, digits) for end in ends)


def _certainty(standing: Standing, level: float, digits: int) -> str:
    if standing.interval is None:
        return ""
    text = interval_text(standing.interval, digits)
    return f", {text}" if standing.exact else f", {level:.0%} interval {text}"


def _alone(standing: Standing, level: float, digits: int) -> str:
    parts = [_certainty(standing, level, digits).removeprefix(", ")]
    naive = standing.naive
    if naive is not None and not standing.exact and abs(naive - standing.value) > 0.05 * abs(standing.value):
        parts.append(f"uncorrected {number(naive, digits)}")
    return "; ".join(filter(None, parts))


def _overlap(first: Standing, other: Standing) -> bool:
    if first.interval is None or other.interval is None:
        return False
    return other.interval[1] >= first.interval[0] and not (first.exact and other.exact)
