"""One model on its way through ``evaluate`` behind a guide: compare deeper, or draw more, where more is found per item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fullrank.evaluation.model_run import PLANNING_FITS, Fitted, ModelRun
from fullrank.observing.guides import guide_of
from fullrank.ranks.guided import Guided

__all__ = ["GuidedRun"]

#: At least and at most so many items of the guide's order, and negatives of the rest, does a first round take.
FEWEST, MOST = 24, 100
#: How much deeper a round compares: four times keeps what was compared before, because all of it is then early.
DEEPER = 4
#: At least and at most so many times the negatives are drawn in a next round.
LEAST_MORE, MOST_MORE = 1.4, 4.0
#: Half-widths of at least so many times what is wanted make it worth while to compare deeper.
DEEPER_FROM = 1.5
#: A guide whose items beat the target less often than this many times a random one's is of no use.
USEFUL = 3.0
#: Rounds after which all that is left is compared.
MOST_ROUNDS = 10


@dataclass(frozen=True)
class Depth:
    """How far cases are taken: so many items of the guide's order, then so many negatives of the rest."""

    first: int
    negatives: int

    def design(self, cut: int, n_items: int) -> Guided:
        """The design that goes so far, for metrics that look at the first ``cut``."""
        ceiling: int | str = "all" if self.negatives >= n_items - 1 else self.negatives
        return Guided(min(self.first, n_items), min(MOST, self.negatives), ceiling, cut)


class GuidedRun(ModelRun):
    """A run that goes where a guide leads, and leaves it where it leads nowhere."""

    guide_name = ""

    def carry_out(self) -> None:
        """Observe the model behind the guide until the precision is met, or without it if that is cheaper."""
        n_items = self.job.split.n_items
        useless = n_items <= 2 * MOST or any(m.k is None for m in self.planner.metrics)
        if self.job.fixed or useless or not (self.job.forces_guide or self.observation.is_function):
            super().carry_out()
            return
        guide: Any = guide_of(self.job.observing["guide"], self.job.split)
        self.guide_name = guide.name
        self.observation.time_function(self.budget)
        start = int(np.clip(n_items // 100, FEWEST, MOST))
        depth: Depth | None = Depth(start, start)
        while depth is not None:
            self.observe_round(depth.design(self.cut, n_items))
            fitted = self.refit()
            depth = self.next_depth(depth, fitted)
        if not self.stop_reason:
            self.observation.forget()
            self.rounds.clear()
            super().carry_out()

    def next_depth(self, depth: Depth, fitted: Fitted) -> Depth | None:
        """Where to go on; ``None`` with a ``stop_reason`` to end, and without one to go on without the guide."""
        seen, n_items = self.observation, self.job.split.n_items
        if fitted.met and self.passes_audit(fitted):
            return self._stop_depth("precision")
        if self.stop_reason or self.budget.seconds < PLANNING_FITS * fitted.seconds:
            return self._stop_depth("budget")
        left = seen.begun & ~seen.known & (seen.above < self.cut)
        if not left.any():
            return self._stop_depth("exact")
        by_guide, by_chance = self.hit_rates(depth)
        if not self.job.forces_guide and self._leads_nowhere(by_guide, by_chance, fitted):
            return None
        if len(self.rounds) >= MOST_ROUNDS:
            return Depth(depth.first, n_items)
        excess = max(fitted.half[m] / goal for m, goal in fitted.goals.items())
        if fitted.met:  # narrow enough, but refuted: go on
            excess = MOST_MORE
        chosen = Depth(depth.first, int(depth.negatives * np.clip(excess**1.5, LEAST_MORE, MOST_MORE)))
        finds = by_guide / DEEPER > by_chance and DEEPER * depth.first <= n_items // 4
        if finds and depth.negatives >= 2 * depth.first and excess > DEEPER_FROM:
            chosen = Depth(DEEPER * depth.first, depth.negatives)
        cost = int(left.sum()) * (chosen.first - depth.first + chosen.negatives - depth.negatives)
        if self.budget.limited and cost > self.budget.affordable(self.rate):
            return self._stop_depth("budget")
        return chosen

    def hit_rates(self, depth: Depth) -> tuple[float, float]:
        """Open cases that a late item of the guide's beat, and that a random one of the rest did, per item compared.

        Of the hits of one case the first counts: those that follow change little.
        """
        seen = self.observation
        opened = seen.begun & (seen.ahead < self.cut) & (seen.drawn > 0)
        late = max(0.75 * depth.first * float(opened.sum()), 1.0)
        drawn = max(float(seen.drawn[opened].sum()), 1.0)
        return (float((seen.recent[opened] > 0).sum()) + 0.5) / late, float((seen.hits[opened] > 0).sum()) / drawn

    def _leads_nowhere(self, by_guide: float, by_chance: float, fitted: Fitted) -> bool:
        """Whether the guide finds hardly more than chance does, or sampling without it is expected to be cheaper."""
        if len(self.rounds) == 1 and by_guide < USEFUL * by_chance:
            self.notes.append(f"the guide `{self.guide_name}` found hardly more than chance does, and was left")
            return True
        if len(self.rounds) < 4:
            return False
        seen = self.observation
        plan = self.planner.by_prior(self.job.split.n_items, seen.candidates, len(seen))
        excess = max(fitted.half[m] / goal for m, goal in fitted.goals.items())
        if seen.items_scored * (excess - 1) < 2 * plan.items * len(seen):
            return False
        self.notes.append(f"behind the guide `{self.guide_name}` too much was left, and it was left")
        return True

    def _stop_depth(self, reason: str) -> Depth | None:
        self.stop_reason = reason
        return None
