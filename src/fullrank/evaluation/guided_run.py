"""One model on its way through ``evaluate`` behind a guide: compare deeper, or draw more, where more is found per item.

How deep a case is compared is decided case by case: each is compared with the first items of the guide's order, and goes on,
twice as deep each time, while something beat its target in the last half of them (``Guided.deepest``). Not so in a first
round, which finds out whether the guide is worth it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from fullrank._types import FloatArray, IntArray
from fullrank.estimators import RankDistribution
from fullrank.estimators.hyperprior import guide_lift
from fullrank.evaluation.audit import MOST_OPEN, case_keys, most_for_least, undecided
from fullrank.evaluation.model_run import Fitted, ModelRun, Step
from fullrank.evaluation.planner import ByMetric
from fullrank.metrics import Metric
from fullrank.observing.observation import Observation
from fullrank.ranks.design import Design
from fullrank.ranks.guided import Guided

#: Bounds on the guide's items, and on the negatives of the rest, that a first round takes.
FEWEST, MOST = 24, 100
#: A round that compares deeper goes twice as deep: what was compared before is then early, and is kept.
DEEPER = 2
#: No case is compared deeper than this share of the catalogue.
DEEPEST = 0.25
#: At least and at most so many times the negatives are drawn in a next round.
LEAST_MORE, MOST_MORE = 1.1, 2.5
#: Above ``FAR`` times the goal, a round compares deeper and draws more at once. Below ``NEAR`` times, drawing a few more
#: negatives is cheaper than going twice as deep, unless there are ``MOST_NEGATIVES`` times as many as that already.
FAR, NEAR, MOST_NEGATIVES = 3.0, 1.3, 4
#: The last round finishes the cases that hold the excess over this share of the goal.
AIM = 0.93
#: A guide is of no (further) use when its last items beat the target less than this many times as often as random ones do.
USEFUL = 2.0
#: A guide may be dropped until this share of what sampling without it would cost was spent on it.
TRIAL = 0.1
#: Half-widths fall somewhat faster than the cost rises behind a guide: to halve them costs two to this power.
COST_POWER = 0.8
#: The share of the cases that is never closed where AUC is asked for, and how many these are at least.
KEEP_OPEN, FEWEST_KEPT = 0.1, 100
#: Rounds after which all that is left is compared.
MOST_ROUNDS = 24


class GuidedRun(ModelRun):
    """A run that compares the guide's items first, and drops a guide that finds no more than chance."""

    guide_name = ""
    #: Negatives of the rest that a round asked for at most.
    negatives = 0
    #: Whether no case is closed, since none of the few that would be was kept open.
    keeps_all = False

    def carry_out(self) -> None:
        """Observe the model behind the guide until the precision is met, or without it if that is cheaper."""
        n_items, metrics = self.job.split.n_items, self.planner.metrics
        useless = n_items <= 2 * MOST or any(m.k is None and not m.whole_auc for m in metrics)
        if self.job.precision is None or useless or not (self.job.forces_guide or self.observation.is_function):
            super().carry_out()
            return
        self.guide_name = self.job.observing["guide"].name
        self.observation.time_function(self.budget)
        start = int(np.clip(n_items // 100, FEWEST, MOST))
        cases = len(self.job.split.users)
        keep = max(KEEP_OPEN, min(FEWEST_KEPT / cases, 1.0)) if any(m.whole_auc for m in metrics) else 0.0
        self.negatives = start
        self.in_rounds(Step(np.arange(cases), start, self.cut, start, start, keep), self.next_depth)
        if self.stop_reason:
            seen = self.observation
            full = max(float((seen.pool - 1)[seen.begun].sum()), 1.0)
            scored, without = seen.items_scored / full, min(self.items_without / full, 1.0)
            self.notes.append(
                f"behind the guide `{self.guide_name}` {scored:.1%} of the items were scored; {without:.1%} are expected "
                "without it"
            )
        else:
            self.observation.forget()
            self.rounds.clear()
            super().carry_out()

    def observe_round(self, design: Design, cases: IntArray | None = None) -> None:
        """Observe cases further; where AUC is asked for and chance kept none of few closed cases open, keep them all."""
        if not isinstance(design, Guided) or not design.keep_open:
            super().observe_round(design, cases)
            return
        keeping = replace(design, keep_open=1.0)
        super().observe_round(keeping if self.keeps_all else design, cases)
        seen = self.observation
        closed = seen.begun & ~seen.known & design.closed(seen.ahead)
        if closed.any() and not seen.drawn[closed].any():
            self.keeps_all = True
            super().observe_round(keeping)

    def next_depth(self, step: Step, fitted: Fitted) -> Step | None:
        """Where to go on; ``None`` with a ``stop_reason`` to end, and without one to go on without the guide."""
        seen = self.observation
        if not (seen.begun & ~seen.known & (seen.above < self.cut)).any():
            return self._stop("exact")
        if not self.job.forces_guide and self._leads_nowhere(fitted):
            return None
        chosen = self._worth_it(step, self._chosen(step, fitted), fitted)
        if chosen.ceiling < self.job.split.n_items:
            self.negatives = max(self.negatives, chosen.ceiling)
        if self.budget.limited and self._cost(chosen) > self.budget.affordable(seen.seconds_per_item):
            return self._stop("budget")
        return chosen

    def _chosen(self, step: Step, fitted: Fitted) -> Step:
        """Deeper or more negatives, of all that are open: no deeper where chance finds as much as the next items would."""
        n_items, seen = self.job.split.n_items, self.observation
        opened = self._place[seen.begun & ~seen.known & ((seen.ahead < self.cut) | (seen.drawn > 0))]
        step = replace(step, ceiling=self.negatives, cases=np.flatnonzero(np.isin(self._place, opened)))
        if len(self.rounds) >= MOST_ROUNDS:
            return replace(step, ceiling=n_items)
        excess = MOST_MORE if fitted.met else fitted.excess  # narrow enough, but refuted: go on
        times = float(np.clip(excess**1.5, LEAST_MORE, MOST_MORE))
        wider, deeper = replace(step, ceiling=int(times * self.negatives)), DEEPER * step.first
        if guide_lift(fitted.estimate.counts, late=True) < USEFUL or deeper > DEEPEST * n_items:
            return wider
        further = replace(step, first=deeper, deepest=int(DEEPEST * n_items))  # from the second depth on, case by case
        if excess > FAR:
            return replace(further, ceiling=DEEPER * self.negatives)
        enough = MOST_NEGATIVES * step.first if excess < NEAR else step.first
        if self.negatives < enough:
            return wider
        # where samples are chosen case by case what was drawn is kept, and nothing is added to it
        return replace(further, ceiling=step.start) if self._by_case(fitted) else further

    def _by_case(self, fitted: Fitted) -> bool:
        """Whether some cases may have more negatives than others: AUC, and estimates without a posterior, need all alike."""
        return self._distribution(fitted).posterior is not None and all(m.k is not None for m in fitted.goals)

    def _worth_it(self, before: Step, step: Step, fitted: Fitted) -> Step:
        """More negatives for those cases alone that hold most of what is open; or the last of them to the end, if cheaper.

        Depth is not chosen so: cases of a bin share a law because they were compared as deep as one another would be.
        """
        over = {m: 1 - (AIM * goal / fitted.half[m]) ** 2 for m, goal in fitted.goals.items() if fitted.half[m] > goal}
        if not over or fitted.excess > FAR or not self._by_case(fitted):
            return step
        seen = self.observation
        cases = np.flatnonzero(undecided(seen, self.cut))
        shares = open_shares(self._distribution(fitted), seen, cases, list(over))
        last = self._of(replace(before, ceiling=self.job.split.n_items), cases, shares, over)
        if step.first == before.first:
            step = self._of(step, cases, shares, dict.fromkeys(over, MOST_OPEN))
        return last if self._cost(last) <= self._cost(step) else step

    def _of(self, step: Step, cases: IntArray, shares: Mapping[Metric, FloatArray], wanted: ByMetric) -> Step:
        """The step for the users of those cases that hold what is wanted for the least cost."""
        chosen = cases[most_for_least(shares, wanted, self._costs(step)[cases])]
        return replace(step, cases=np.flatnonzero(np.isin(self._place, self._place[chosen])))

    def _cost(self, step: Step) -> int:
        return int(self._costs(step)[step.cases].sum())

    def _costs(self, step: Step) -> IntArray:
        """The items that a step takes of every case, at most."""
        seen = self.observation
        depth = seen.pool - 1 - seen.rest
        deeper = np.clip(step.first - depth, 0, seen.rest)
        wider = np.clip(step.ceiling - seen.drawn, 0, seen.rest - deeper - seen.drawn)
        return np.where(undecided(seen, self.cut), deeper + np.maximum(wider, 0) + 1, 0)

    @cached_property
    def items_without(self) -> float:
        """What sampling without the guide is expected to take, in items."""
        split = self.job.split
        return self.planner.items_by_prior(split.n_items, self.observation.candidates, len(split.users))

    def _leads_nowhere(self, fitted: Fitted) -> bool:
        """Whether the guide finds hardly more than chance does, or sampling without it is expected to be cheaper."""
        if len(self.rounds) == 1 and guide_lift(fitted.estimate.counts, late=True) < USEFUL:
            self.notes.append(f"the guide `{self.guide_name}` found hardly more than chance does, and was dropped")
            return True
        seen, plain = self.observation, self.items_without
        if seen.items_scored > TRIAL * plain or seen.items_scored * fitted.excess**COST_POWER < plain:
            return False
        self.notes.append(f"the guide `{self.guide_name}` was dropped: too many cases stayed undecided behind it")
        return True


def open_shares(
    dist: RankDistribution, seen: Observation, cases: IntArray, metrics: Sequence[Metric]
) -> dict[Metric, FloatArray]:
    """The share that each of the cases has of the variance which an estimate leaves open, metric by metric."""
    posterior, counts = dist.posterior, dist.fitted
    if posterior is None or counts is None:
        raise ValueError("the estimate has no posterior: it does not say what each case leaves open.")
    # what cases of one gain and outcome have in common
    names = ("order", "targets", "ahead", "recent", "drawn", "hits")
    asked, known = case_keys(seen, cases, *names), np.stack([counts.column(name) for name in names], axis=1)
    which = np.unique(np.concatenate([known, asked]), axis=0, return_inverse=True)[1].ravel()
    own, of_case = np.split(which, [len(known)])
    weight = np.maximum(np.bincount(own, counts.weight, which.max() + 1), 1e-300)
    out = {}
    for metric in metrics:
        added = counts.weight * posterior.open_variance(metric, dist.counts.n_items)
        each = (np.bincount(own, added, len(weight)) / weight)[of_case]  # the mean where rests differ in size
        out[metric] = each / max(float(each.sum()), 1e-300)
    return out
