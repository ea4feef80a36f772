"""The planner that ``evaluate`` and ``plan`` share: what is wanted of the metrics, and which design gives it for least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullrank.evaluation.rehearsal import AIM, Candidate, Guess, Rehearsal
from fullrank.metrics import Metric
from fullrank.ranks.design import Adaptive

#: Half-width, relative to the value, that is aimed at when none is named.
DEFAULT_PRECISION = 0.02
#: Unreachable population goals: what sampling may leave open, as a share of what the cases leave open.
SMALL = 0.32


@dataclass(frozen=True)
class Planner:
    """The precision that is wanted of every metric, and the cheapest way to it on a guess of the ranks."""

    metrics: tuple[Metric, ...]
    precision: float = DEFAULT_PRECISION
    absolute: bool = False
    level: float = 0.95
    target: str = "cases"
    first: Any = None  # negatives of the first stage, or a share of the catalogue; None: by its size

    def __str__(self) -> str:
        return f"±{self.precision:g}" if self.absolute else f"±{100 * self.precision:g}%"

    def first_stage(self, n_items: int) -> int:
        """Negatives that every case is compared with at first."""
        first = int(np.clip(n_items // 40, 9, 99)) if self.first is None else self.first
        return int(Adaptive(first, "all", 1, replace=False).stages(n_items)[0] or n_items - 1)

    def goals(self, values: Mapping[Metric, float]) -> dict[Metric, float]:
        """The half-width that is wanted of each metric."""
        return {m: self.precision * self.scale(value) for m, value in values.items()}

    def guessed_goals(self, guess: Guess) -> dict[Metric, float]:
        """The half-width that is wanted of each metric, if the ranks are as guessed."""
        return self.goals({m: guess.value(m) for m in self.metrics})

    def scale(self, value: float) -> float:
        """What a half-width is relative to."""
        return 1.0 if self.absolute else max(abs(value), 1e-12)

    def floors(self, guess: Guess, cases: float) -> dict[Metric, float]:
        """The half-widths that the full ranking of so many cases leaves open: none, of these cases."""
        population = self.target == "population"
        return {m: guess.floor(m, cases, self.level) if population else 0.0 for m in self.metrics}

    def case_goals(self, goals: Mapping[Metric, float], floors: Mapping[Metric, float]) -> dict[Metric, float]:
        """What sampling may leave open of these cases, so that the goals are met with what the cases leave open."""
        return {
            m: AIM * float(np.sqrt(max(goal**2 - floors[m] ** 2, (SMALL * floors[m]) ** 2)))
            if floors[m]
            else AIM * goal
            for m, goal in goals.items()
        }

    def rehearse(self, guess: Guess, cases: int, start: int | None = None) -> Rehearsal:
        """Act designs out on cases made up from a guess; ``start``: the first stage that a run began with."""
        return Rehearsal.of(guess, cases, self.metrics, start or self.first_stage(guess.n_items))

    def by_prior(self, n_items: int, candidates: str, cases: int) -> Candidate:
        """What sampling is expected to take before anything was seen, by the prior's guess of the ranks."""
        guess = Guess.prior(n_items, candidates)
        goals = {m: AIM * goal for m, goal in self.guessed_goals(guess).items()}
        return self.rehearse(guess, cases).cheapest(goals, self.level)

    def thin(
        self, rehearsal: Rehearsal, least: tuple[int, int] = (1, 0), max_items: float | None = None
    ) -> tuple[float, int, int]:
        """Choose users and negatives together, for the population: (share of the cases, stop, ceiling)."""
        floors = self.floors(rehearsal.guess, rehearsal.cases)
        return rehearsal.thinned(self.guessed_goals(rehearsal.guess), floors, self.level, least, max_items)

    def choose(self, rehearsal: Rehearsal, max_items: float | None = None) -> tuple[float, Candidate]:
        """The cheapest design that is expected to reach the precision, and the share of the cases that it takes."""
        guess, cases = rehearsal.guess, rehearsal.cases
        goals, floors = self.guessed_goals(guess), self.floors(guess, cases)
        reachable = all(goal > floors[m] for m, goal in goals.items())
        if self.target == "population" and (reachable or max_items is not None):
            part, stop, ceiling = self.thin(rehearsal, max_items=max_items)
            return part, rehearsal.at(goals, self.level, stop, ceiling, part)
        room = None if max_items is None else max_items / cases
        return 1.0, rehearsal.cheapest(self.case_goals(goals, floors), self.level, most_items=room)


def check_precision(precision: Any, absolute: bool) -> float:
    """Return a precision, or refuse what is none."""
    if not is_number(precision) or not precision > 0 or (not absolute and precision >= 1):
        relative = "above zero" if absolute else "between 0 and 1, because it is relative (2% is 0.02)"
        raise ValueError(f"`precision` must be {relative}, got {precision!r}.")
    return float(precision)


def is_number(value: Any) -> bool:
    """Tell whether a value is a number; True and False are not taken for one."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
