"""One model on its way through ``evaluate`` behind a guide: compare deeper, or draw more, where more is found per item.

How deep a case is compared is decided case by case: each is compared with the first items of the guide's order, and goes on,
twice as deep each time, while something beat its target in the last half of them (``Guided.deepest``). Not so in a first
round, which finds out whether the guide is worth it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from fullrank.estimators.hyperprior import guide_lift
from fullrank.evaluation.model_run import PLANNING_FITS, Fitted, ModelRun, Step
from fullrank.observing.guides import guide_of

__all__ = ["GuidedRun"]

#: At least and at most so many items of the guide's order, and negatives of the rest, does a first round take.
FEWEST, MOST = 24, 100
#: A round that compares deeper goes twice as deep: what was compared before is then early, and is kept.
DEEPER = 2
#: No case is compared deeper than this share of the catalogue.
DEEPEST = 0.25
#: At least and at most so many times the negatives are drawn in a next round.
LEAST_MORE, MOST_MORE = 1.25, 2.5
#: Half-widths of so many times what is wanted are far off: compare deeper and draw more in one round. Of less than so many
#: times they are near: a few more negatives are cheaper than twice the depth, unless they are so many times it already.
FAR, NEAR, MOST_NEGATIVES = 3.0, 1.3, 4
#: A guide whose last items beat the target less often than this many times as random ones do leads nowhere, or no further.
USEFUL = 2.0
#: A guide may be left until so much of what sampling without it would take was spent on it.
TRIAL = 0.1
#: Half-widths fall somewhat faster than the cost rises behind a guide: to halve them costs two to this power.
COST_POWER = 0.8
#: The share of the cases that is never closed where AUC is asked for, and how many these are at least.
KEEP_OPEN, FEWEST_KEPT = 0.1, 100
#: Rounds after which all that is left is compared.
MOST_ROUNDS = 24


class GuidedRun(ModelRun):
    """A run that goes where a guide leads, and leaves it where it leads nowhere."""

    guide_name = ""

    def carry_out(self) -> None:
        """Observe the model behind the guide until the precision is met, or without it if that is cheaper."""
        n_items = self.job.split.n_items
        metrics = self.planner.metrics
        useless = n_items <= 2 * MOST or any(m.k is None and not m.whole_auc for m in metrics)
        if self.job.fixed or useless or not (self.job.forces_guide or self.observation.is_function):
            super().carry_out()
            return
        guide: Any = guide_of(self.job.observing["guide"], self.job.split)
        self.guide_name = guide.name
        self.observation.time_function(self.budget)
        start = int(np.clip(n_items // 100, FEWEST, MOST))
        cases = len(self.job.split.users)
        keep = max(KEEP_OPEN, min(FEWEST_KEPT / cases, 1.0)) if any(m.whole_auc for m in metrics) else 0.0
        step: Step | None = Step(np.arange(cases), start, self.cut, start, start, keep)
        while step is not None:
            self.observe_round(step.design(n_items), step.cases)
            step = self.next_depth(step, self.refit())
        if self.stop_reason:
            self.notes.append(self._brought())
        else:
            self.observation.forget()
            self.rounds.clear()
            super().carry_out()

    def next_depth(self, step: Step, fitted: Fitted) -> Step | None:
        """Where to go on; ``None`` with a ``stop_reason`` to end, and without one to go on without the guide."""
        seen = self.observation
        left = seen.begun & ~seen.known & (seen.above < self.cut)
        if fitted.met and self.passes_audit(fitted):
            return self._stop("precision")
        if self.stop_reason or self.budget.seconds < PLANNING_FITS * fitted.seconds:
            return self._stop("budget")
        if not left.any():
            return self._stop("exact")
        if not self.job.forces_guide and self._leads_nowhere(fitted):
            return None
        opened = self._place[seen.begun & ((seen.ahead < self.cut) | (seen.drawn > 0))]  # users of cases not closed
        chosen = replace(self._chosen(step, fitted), cases=np.flatnonzero(np.isin(self._place, opened)))
        cost = int(left.sum()) * (chosen.first - step.first + chosen.ceiling - step.ceiling)
        if self.budget.limited and cost > self.budget.affordable(self.rate):
            return self._stop("budget")
        return chosen

    def _chosen(self, step: Step, fitted: Fitted) -> Step:
        """Deeper or more negatives: both alike, but no deeper where chance finds as much as the guide's next items would."""
        n_items = self.job.split.n_items
        if len(self.rounds) >= MOST_ROUNDS:
            return replace(step, ceiling=n_items)
        excess = MOST_MORE if fitted.met else fitted.excess  # narrow enough, but refuted: go on
        times = float(np.clip(excess**1.5, LEAST_MORE, MOST_MORE))
        wider, deeper = int(times * step.ceiling), DEEPER * step.first
        if guide_lift(fitted.estimate.counts, late=True) < USEFUL or deeper > DEEPEST * n_items:
            return replace(step, ceiling=wider)
        further = replace(step, first=deeper, deepest=int(DEEPEST * n_items))  # from the second depth on, case by case
        if excess > FAR:
            return replace(further, ceiling=DEEPER * step.ceiling)
        enough = MOST_NEGATIVES * step.first if excess < NEAR else step.first
        return further if step.ceiling >= enough else replace(step, ceiling=wider)

    def _brought(self) -> str:
        """What the guide brought, against sampling without it and ranking everything."""
        seen = self.observation
        full = max(float((seen.pool - 1)[seen.begun].sum()), 1.0)
        without = f"{min(self.items_without / full, 1.0):.1%} are expected without it"
        return (
            f"behind the guide `{self.guide_name}` {seen.items_scored / full:.1%} of the items were scored; {without}"
        )

    @cached_property
    def items_without(self) -> float:
        """What sampling without the guide is expected to take, in items."""
        cases = len(self.job.split.users)
        return self.planner.by_prior(self.job.split.n_items, self.observation.candidates, cases).items * cases

    def _leads_nowhere(self, fitted: Fitted) -> bool:
        """Whether the guide finds hardly more than chance does, or sampling without it is expected to be cheaper."""
        if len(self.rounds) == 1 and guide_lift(fitted.estimate.counts, late=True) < USEFUL:
            self.notes.append(f"the guide `{self.guide_name}` found hardly more than chance does, and was left")
            return True
        seen, plain = self.observation, self.items_without
        if seen.items_scored > TRIAL * plain or seen.items_scored * fitted.excess**COST_POWER < plain:
            return False
        self.notes.append(f"behind the guide `{self.guide_name}` too much was left, and it was left")
        return True
