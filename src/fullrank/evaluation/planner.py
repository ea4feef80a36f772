"""The planner that ``evaluate`` and ``plan`` share: what is wanted of the metrics, and which design gives it for least."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullrank._types import IntArray
from fullrank.estimators import LogSpline, RankDistribution
from fullrank.evaluation.rehearsal import AIM, ByMetric, Candidate, Guess, Rehearsal, half_widths
from fullrank.metrics import Metric
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Adaptive
from fullrank.ranks.guided import Guided

#: Half-width, relative to the value, that is aimed at when none is named.
DEFAULT_PRECISION = 0.02
#: Unreachable population goals: what sampling may leave open, as a share of what the cases leave open.
SMALL = 0.32
#: Behind a guide negatives are tried in doublings, so many times.
DOUBLINGS = 12


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

    def goals(self, values: ByMetric | Guess) -> dict[Metric, float]:
        """The half-width that is wanted of each metric, by their values or by a guess of the ranks."""
        if isinstance(values, Guess):
            values = {m: values.value(m) for m in self.metrics}
        return {m: self.precision * self.scale(value) for m, value in values.items()}

    def scale(self, value: float) -> float:
        """What a half-width is relative to."""
        return 1.0 if self.absolute else max(abs(value), 1e-12)

    def floors(self, guess: Guess, cases: float) -> dict[Metric, float]:
        """The half-widths that the full ranking of so many cases leaves open: none, of these cases."""
        population = self.target == "population"
        return {m: guess.floor(m, cases, self.level) if population else 0.0 for m in self.metrics}

    def case_goals(self, goals: ByMetric, floors: ByMetric) -> dict[Metric, float]:
        """What sampling may leave open of these cases, so that the goals are met with what the cases leave open."""
        left = {m: np.sqrt(max(goal**2 - floors[m] ** 2, (SMALL * floors[m]) ** 2)) for m, goal in goals.items()}
        return {m: AIM * (float(left[m]) if floors[m] else goal) for m, goal in goals.items()}

    def rehearse(self, guess: Guess, cases: int, start: int | None = None) -> Rehearsal:
        """Act designs out on cases made up from a guess; ``start``: the first stage that a run began with."""
        return Rehearsal.of(guess, cases, self.metrics, start or self.first_stage(guess.n_items), self.level)

    def items_by_prior(self, n_items: int, candidates: str, cases: int) -> float:
        """The items that sampling is expected to take, by the prior's guess of the ranks."""
        guess = Guess.prior(n_items, candidates)
        goals = {m: AIM * goal for m, goal in self.goals(guess).items()}
        return self.rehearse(guess, cases).cheapest(goals).items * cases

    def choose(self, rehearsal: Rehearsal, max_items: float | None = None) -> Candidate:
        """The cheapest design that is expected to reach the precision, for a part of the cases where that is enough."""
        guess, cases = rehearsal.guess, rehearsal.cases
        goals, floors = self.goals(guess), self.floors(guess, cases)
        reachable = all(goal > floors[m] for m, goal in goals.items())
        if self.target == "population" and (reachable or max_items is not None):
            part, stop, ceiling = rehearsal.thinned(goals, floors, max_items=max_items)
            half = {m: width / float(np.sqrt(part)) for m, width in rehearsal.fitted(goals, stop, ceiling).items()}
            return Candidate(stop, ceiling, rehearsal.items(stop, ceiling), half, part)
        room = None if max_items is None else max_items / cases
        return rehearsal.cheapest(self.case_goals(goals, floors), most_items=room)


def check_precision(precision: Any, absolute: bool) -> float:
    """Return a precision, or refuse what is none."""
    number = isinstance(precision, int | float | np.number) and not isinstance(precision, bool)
    if not number or not precision > 0 or (not absolute and precision >= 1):
        relative = "above zero" if absolute else "between 0 and 1, because it is relative (2% is 0.02)"
        raise ValueError(f"`precision` must be {relative}, got {precision!r}.")
    return float(precision)


# -------------------------------------------------------------------------------------------------- behind a guide


def rehearsed_behind_guide(
    pilot: RankDistribution, goals: ByMetric, level: float, cases: int
) -> Iterator[tuple[Guided, float, dict[Metric, float]]]:
    """Designs with more and more negatives of the rest: items per case and half-widths, until these are as wanted.

    Each open case of the pilot gets a number of better items in its rest from its own posterior, and is sampled anew.
    """
    counts, fitted = pilot.counts, pilot.fitted
    design = counts.design
    if not isinstance(design, Guided) or fitted is None:
        raise ValueError("`pilot` must have open cases of a guided design: there is nothing to plan.")
    rng, done = np.random.default_rng(0), counts.sampled_part()[0]
    open_, better = _made_up(pilot, fitted, rng)
    negatives, largest = max(int(fitted.column("drawn").max()), 1), int(open_["rest"].max())
    for _ in range(DOUBLINGS):
        tried = replace(design, negatives=min(negatives, largest), max_negatives=None)
        drawn, hits = tried.simulate(better + 1, open_["rest"] + 1, rng)
        made = RankCounts.from_outcomes(
            drawn, hits, np.full(len(hits), round(counts.n_items)), tried, candidates=counts.candidates, **open_
        )
        if done is not None:  # cases that are closed, or compared with all, do not change
            made += replace(done, design=tried)
        dist = (pilot.estimator if isinstance(pilot.estimator, LogSpline) else LogSpline()).fit(made)
        half = half_widths(dist, goals, level, cases=cases)
        yield tried, made.items_scored / len(made), half
        if negatives >= largest or all(half[metric] <= goal for metric, goal in goals.items()):
            return
        negatives *= 2


def _made_up(
    dist: RankDistribution, fitted: RankCounts, rng: np.random.Generator
) -> tuple[dict[str, IntArray], IntArray]:
    """What is known of the pilot's open cases, and how many of the rest are better, drawn from each one's posterior."""
    outcomes, which = np.unique(fitted.outcomes, axis=0, return_inverse=True)
    law = dist.grid.law(fitted.design, fitted.n_items, outcomes[:, 0], outcomes[:, 1])
    rest = np.maximum(np.round(fitted.pool_weight / fitted.weight).astype(np.int64) - 1, 1)
    row, known, hits = dist.rows[fitted.group_of], fitted.all_compared, fitted.column("hits")
    better = []
    for cell, number in enumerate(fitted.cases):
        weight = np.cumsum(np.maximum(dist.masses[row[cell]], 0.0) * law[:, which.ravel()[cell]])
        if known[cell] or not weight[-1] > 0:
            better.append(np.full(number, hits[cell]))
            continue
        place = np.minimum(np.searchsorted(weight, rng.random(number) * weight[-1]), len(weight) - 1)
        better.append(rng.integers(dist.grid.lo[place], dist.grid.hi[place] + 1) - 1)
    about = {name: np.repeat(fitted.column(name), fitted.cases) for name in ("ahead", "recent", "order", "targets")}
    about |= {"rest": np.repeat(rest, fitted.cases), "recent": np.minimum(about["recent"], about["ahead"])}
    return about, np.minimum(np.concatenate(better), about["rest"])
