"""The verdict: one plain sentence that the terminal, the page, notebooks and comparisons all begin with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fullrank.report.row import Pair, Row
from fullrank.report.words import clean, decimals, joined, named, number

if TYPE_CHECKING:
    from fullrank.report.comparison import Comparison


@dataclass(frozen=True)
class Verdict:
    """A headline, and what stands behind it: together one sentence."""

    headline: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.headline}: {self.detail}." if self.detail else f"{self.headline}."


def verdict(rows: Sequence[Row], level: float = 0.95, held: Comparison | None = None) -> Verdict:
    """Say who leads by the metric of these rows, how sure that is, and whom uncorrected ranks would have named.

    The models that cannot be told apart from the leader are those of the comparison that is ``held``; without one, those
    whose intervals overlap with the leader's.

    >>> from fullrank.metrics import NDCG
    >>> als = Row("ALS", NDCG @ 10, 0.0705, (0.0675, 0.0735), naive=0.5)
    >>> ease = Row("EASE", NDCG @ 10, 0.06, (0.055, 0.065), naive=0.6)
    >>> print(verdict([als, ease]))
    ALS leads on ndcg@10: 0.0705, 95% interval 0.0675 to 0.0735; uncorrected ranks would have named EASE.
    """
    if not rows:
        return Verdict("Nothing was evaluated")
    name = clean(rows[0].metric)
    known = sorted((row for row in rows if not math.isnan(row.value)), key=lambda row: -row.value)
    if not known:
        return Verdict(f"No model has a finite {name}")
    first, others, digits = known[0].shown(), known[1:], decimals(row.value for row in known)
    leader, value, ends = named(first.model), number(first.value, digits), interval_text(first.interval, digits)
    sure = "" if first.interval is None else ends if first.exact else f"{level:.0%} interval {ends}"
    if not others:
        far = first.naive is not None and abs(first.naive - first.value) > 0.05 * abs(first.value)
        naive = f"uncorrected {number(first.naive, digits)}" if far else ""
        return Verdict(f"{leader} has {name} of {value}", "; ".join(filter(None, (sure, naive))))
    value = ", ".join(filter(None, (value, sure)))
    equal = [row.model for row in known if row.shown().value == first.value]
    if len(equal) > 1:
        return Verdict(f"{joined(equal)} tie on {name}", value)
    best = ""
    if held is not None and first.model in held.models:
        tied = [row.model for row in others if row.model in held.tied_with(first.model)]
        best = f", and is best with probability {min(held.best[first.model], 0.99):.2f}"
    else:
        tied = [row.model for row in others if _overlap(first, row.shown())]
    if tied:
        return Verdict(f"{joined([first.model, *tied])} cannot be told apart on {name}", f"{leader} has {value}{best}")
    sampled = [(row.naive, row.model) for row in known if row.naive is not None]
    other = max(sampled, key=lambda each: each[0])[1] if len(sampled) == len(known) else first.model
    wrong = "" if other == first.model else f"; uncorrected ranks would have named {named(other)}"
    return Verdict(f"{leader} leads on {name}", f"{value}{wrong}")


def interval_text(ends: Pair | None, digits: int = 4) -> str:
    """Write an interval: ``0.120 to 0.145``; ``exact`` where both ends are one; a dash where there are none."""
    if ends is None:
        return "–"
    return "exact" if ends[0] == ends[1] else " to ".join(number(end, digits) for end in ends)


def _overlap(first: Row, other: Row) -> bool:
    if first.interval is None or other.interval is None:
        return False
    return other.interval[1] >= first.interval[0] and not (first.exact and other.exact)
