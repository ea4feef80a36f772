"""One model on its way through ``evaluate``: observed, fitted, planned, until there is a reason to stop."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullrank._types import IntArray, Pair
from fullrank.data import Split
from fullrank.estimators import MLE, Estimate, Estimator, LogSpline, RankDistribution, WeightedMLE
from fullrank.evaluation.audit import Audit, to_audit
from fullrank.evaluation.planner import AIM, ByMetric, Guess, Planner, Rehearsal, half_widths
from fullrank.evaluation.speeds import EXACT_SECONDS_ARE_WORTH, Exact, Speeds
from fullrank.metrics import Metric
from fullrank.observing.budget import Budget
from fullrank.observing.observation import Observation
from fullrank.ranks.design import Adaptive, Design
from fullrank.ranks.guided import Guided
from fullrank.report.words import NOTHING, ratio

#: Rounds after which everything that can matter is compared.
MOST_ROUNDS = 8
#: Seconds that fitting and planning take: exact evaluation that is quicker than this needs no plan.
PLANNING_SECONDS = 2.0
#: Planning takes about as long as so many fits; a report, as so many.
PLANNING_FITS, REPORT_FITS = 6, 2


@dataclass(frozen=True)
class Job:
    """What a call of ``evaluate`` asks for, the same for every model."""

    split: Split
    planner: Planner
    design: Design | None
    precision: float | None  # none: one observation under the design, whatever it reaches
    estimator: Estimator
    forces_guide: bool
    observing: dict[str, Any]  # how models are observed: the keywords of Observation


@dataclass(frozen=True)
class Step:
    """What is to be observed next: these cases, up to so many hits or negatives, after the first of a guide's items."""

    cases: IntArray
    start: int
    stop: int
    ceiling: int
    first: int = 0
    keep_open: float = 0.0
    deepest: int | None = None

    def design(self, n_items: int) -> Adaptive | Guided:
        """The design of this step."""
        top = "all" if self.ceiling >= n_items - 1 else max(self.ceiling, self.start)
        if self.first:
            first = min(self.first, n_items)
            deepest = None if self.deepest is None else max(self.deepest, first)
            return Guided(first, self.start, top, self.stop, self.keep_open, deepest)
        return Adaptive(self.start, top, self.stop, replace=False)


@dataclass(frozen=True)
class Fitted:
    """An estimate, the half-widths that it will be reported with, those that are wanted, and the seconds it took."""

    estimate: Estimate
    half: ByMetric
    goals: ByMetric
    seconds: float

    @property
    def excess(self) -> float:
        """How many times as wide as wanted the widest interval is."""
        return max(self.half[metric] / goal for metric, goal in self.goals.items())

    @property
    def met(self) -> bool:
        """Whether every half-width is as wanted."""
        return self.excess <= 1.0


class ModelRun:
    """What is done with one model, and why it ended.

    ``stop_reason`` is ``precision`` (it was met), ``exact`` (all that matters was compared), ``cases`` (there are no more
    cases to observe), ``design`` (it was carried out), ``budget`` (it was spent), or empty while the run goes on.
    """

    def __init__(self, job: Job, model: Any, name: str, budget: Budget) -> None:
        self.job, self.planner, self.budget = job, job.planner, budget
        self.observation = Observation(model, job.split, name=name, **job.observing)
        self.stop_reason = ""
        self.rounds: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.needed: dict[str, int] = {}
        #: Users in a fixed random order: the first so many are a sample of the population, and more contain fewer.
        users, which = np.unique(job.split.users, return_inverse=True)
        self.users = len(users)
        order = np.random.default_rng([self.observation.seed, 7]).permutation(self.users)
        self._place = np.argsort(order)[which.ravel()]
        self.audit = Audit(self._place)
        #: Value and standard error by the audit, of metrics whose interval it refutes.
        self.corrected: dict[Metric, Pair] = {}
        #: Whether the audit could not pay for a single user.
        self.unaudited = False

    def carry_out(self) -> None:
        """Observe the model as far as the job wants."""
        if self.job.precision is None and self.job.design is not None:
            self.observe_round(self.job.design)
            self.stop_reason = self.stop_reason or "design"
            return
        self.observation.time_function(self.budget)
        speeds = self._speeds()
        if not self.stop_reason:
            self.in_rounds(self.first_step(), lambda step, fitted: self.next_step(step, fitted, speeds))

    def in_rounds(self, first: Step, following: Callable[[Step, Fitted], Step | None]) -> None:
        """Observe and fit until the precision is met, the budget is spent, or no other step follows."""
        step: Step | None = first
        while step is not None:
            self.observe_round(step.design(self.job.split.n_items), step.cases)
            fitted = self.refit()
            if fitted.met and self.passes_audit(fitted):
                step = self._stop("exact" if max(fitted.half.values()) < NOTHING else "precision")
            elif self.stop_reason or self.budget.seconds < PLANNING_FITS * fitted.seconds:
                step = self._stop("budget")
            else:
                step = following(step, fitted)

    def observe_round(self, design: Design, cases: IntArray | None = None) -> None:
        """Observe cases further. Estimators without a likelihood get nothing of a round that was cut short."""
        before = self.observation.copy()
        try:
            self.observation.advance(design, self.budget, cases)
        finally:
            seen = self.observation
            likelihood = isinstance(self.job.estimator, LogSpline | MLE | WeightedMLE)
            if not seen.complete and not likelihood and len(before):
                before.items_scored, before.seconds = seen.items_scored, seen.seconds
                self.observation = before
        if not seen.complete:
            self.stop_reason = "budget"

    def refit(self) -> Fitted:
        """Fit what was observed, and note the round."""
        begin = time.perf_counter()
        planner, seen, self.corrected = self.planner, self.observation, {}
        estimate = self.job.estimator.fit(seen.counts())
        half = half_widths(estimate, planner.metrics, planner.level, planner.target)
        goals = planner.goals({m: float(estimate.expect(m)) for m in planner.metrics})
        widths = {str(m): width for m, width in half.items()}
        self.rounds.append(
            {"design": str(seen.design), "cases": len(seen), "items": seen.items_scored, "half_widths": widths}
        )
        seconds = time.perf_counter() - begin
        self.budget.reserve = REPORT_FITS * seconds
        return Fitted(estimate, half, goals, seconds)

    def passes_audit(self, fitted: Fitted) -> bool:
        """Whether cases that were ranked in full agree with what the estimate says of them."""
        seen, planner, dist = self.observation, self.planner, self._distribution(fitted)
        # AUC is what every sample shows by itself: of it, no prior fills anything in
        open_cases = {m: to_audit(seen, dist, m, self.cut) for m in planner.metrics if not m.whole_auc}
        some = np.any([*open_cases.values()], axis=0)
        if not some.any():
            return True
        self.audit.extend(seen, some, self.budget)
        inside = half_widths(dist, open_cases, planner.level)
        self.corrected = self.audit.corrected(seen, dist, open_cases, inside, planner.level)
        self.unaudited = not len(self.audit.cases)
        self.rounds[-1] |= {"audited": len(self.audit.cases), "refuted": [str(m) for m in self.corrected]}
        return not self.corrected

    def _distribution(self, fitted: Fitted) -> RankDistribution:
        estimate = fitted.estimate
        return estimate if isinstance(estimate, RankDistribution) else LogSpline().fit(self.observation.counts())

    def _speeds(self) -> Speeds | None:
        """What items cost, if it may matter; where exact evaluation is cheaper, it is done at once."""
        if self.job.design is not None or self.budget.items < float(self.job.split.n_items) * len(self.job.split.users):
            return None
        speeds = Speeds(self.observation, self.planner.metrics, self.budget)
        exact = speeds.exact
        if not exact.within:
            return None
        if exact.seconds <= PLANNING_SECONDS:
            about = f"about {max(exact.seconds, 0.1):.1f} seconds"
            self.rank_exactly(exact, f"was cheaper: {about}, less than planning a sample takes")
        elif any(exact.seconds <= EXACT_SECONDS_ARE_WORTH * each for each in self._sampling_seconds(speeds)):
            self.rank_exactly(exact, f"was cheaper: {speeds.ratio}")
        return speeds

    def _sampling_seconds(self, speeds: Speeds) -> Iterator[float]:
        """What sampling would take at least, for a first round with every case; then by the prior's guess of the ranks."""
        cases, n_items = len(self.job.split.users), self.job.split.n_items
        if self.planner.target == "cases":
            yield speeds.gathered * self.planner.first_stage(n_items) * cases + PLANNING_SECONDS
        items = self.planner.items_by_prior(n_items, self.observation.candidates, cases)
        yield speeds.gathered * items + PLANNING_SECONDS

    def rank_exactly(self, exact: Exact, reason: str) -> None:
        """Rank everything, or as far as the metrics look."""
        self.observation.forget()
        what = "ranking everything" if exact.design.exhaustive else f"ranking to {exact.design.exact_to}"
        self.notes = [f"{what} {reason}"]
        if exact.design.beyond is not None:
            self.notes.append(
                f"metrics up to @{exact.design.exact_to} are exact, what lies beyond is estimated; ranking everything would "
                f"take about {ratio(exact.whole / exact.seconds)} × as long"
            )
        self.observe_round(exact.design)
        self.stop_reason = self.stop_reason or "exact"

    def first_step(self) -> Step:
        """A first stage for everybody, or fewer negatives or users where that is too much."""
        n_items, planner = self.job.split.n_items, self.planner
        cases = np.flatnonzero(self._place < planner.first_users(self.users))
        room = AIM * self.budget.affordable(self.observation.seconds_per_item) / len(cases)
        start, ceiling = planner.first_round(n_items, room)
        return Step(cases, start, 1, ceiling)

    def next_step(self, step: Step, fitted: Fitted, speeds: Speeds | None) -> Step | None:
        """What to observe next; ``None`` with the reason in ``stop_reason`` if nothing."""
        planner, seen, n_items = self.planner, self.observation, self.job.split.n_items
        if fitted.met:  # the interval is narrow enough, but the audit refutes it: see more, whatever a plan believes
            times = 2 if len(self.rounds) < MOST_ROUNDS else n_items
            deeper = min(times * step.ceiling + 1, n_items - 1)
            reach = n_items if any(metric.k is None for metric in self.corrected) else self.cut
            return Step(step.cases, step.start, max(step.stop, min(times * step.stop, reach)), deeper)
        guess = Guess.of(self._distribution(fitted))
        if planner.target == "population" and (grown := self._more_users(step, guess, fitted)) is not None:
            return grown
        at_cut = step.stop >= self.cut and step.ceiling >= n_items - 1
        uncut = planner.target == "cases" and any(metric.k is None for metric in planner.metrics)
        if at_cut and uncut and step.stop < n_items:  # cases that were beaten often enough for the others: to the end
            return Step(step.cases, step.start, n_items, n_items - 1)
        if seen.known[seen.begun].all() or at_cut:
            return self._stop("exact" if planner.target == "cases" else "cases", fitted)
        floors = planner.floors(guess, len(seen))
        case_goals = planner.case_goals(fitted.goals, floors)
        inside = dict(fitted.half)
        if planner.target == "population":
            inside = half_widths(fitted.estimate, planner.metrics, planner.level)
            if len(step.cases) == len(self.job.split.users) and all(
                fitted.half[m] <= goal or (floors[m] >= 0.95 * goal and inside[m] <= case_goals[m] / AIM)
                for m, goal in fitted.goals.items()
            ):
                return self._stop("cases", fitted)
        rehearsal = planner.rehearse(guess, len(seen), step.start)
        if len(self.rounds) >= MOST_ROUNDS:
            return Step(step.cases, step.start, max(step.stop, self.cut), n_items - 1)
        asked = {m: goal for m, goal in case_goals.items() if fitted.half[m] > fitted.goals[m]} or case_goals
        if len(self.rounds) > 2:  # plans fell short: by as much as the guess errs where we are, aim lower
            nearest = int(rehearsal.sizes[np.argmin(np.abs(rehearsal.sizes - step.ceiling))])
            foreseen = rehearsal.fitted(asked, step.stop, nearest)
            asked = {m: goal * float(np.clip(foreseen[m] / inside[m], 0.5, 1.0)) for m, goal in asked.items()}
        return self._deeper(step, rehearsal, asked, fitted, speeds)

    def _deeper(
        self, step: Step, rehearsal: Rehearsal, asked: ByMetric, fitted: Fitted, speeds: Speeds | None
    ) -> Step | None:
        """More negatives for the same cases."""
        seen = self.observation
        now = float(seen.compared.sum()) / len(seen)
        afford = now + AIM * self.budget.affordable(seen.seconds_per_item) / len(seen)
        found = rehearsal.cheapest(asked, (step.stop, step.ceiling), afford)
        if (found.stop, found.ceiling) == (step.stop, step.ceiling):  # the plan believed it was there already
            higher = rehearsal.sizes[rehearsal.sizes > step.ceiling]
            if not len(higher):
                return replace(step, stop=max(step.stop + 1, min(2 * step.stop, rehearsal.most)))
            found = rehearsal.cheapest(asked, (step.stop, int(higher[0])), afford)
        if self.budget.limited and (found.items > afford or found.items <= now * 1.0001):
            return self._stop("budget")
        if speeds is not None and (exact := speeds.exact).within:
            another_round = speeds.gathered * (found.items - now) * len(seen) + 2 * fitted.seconds  # and a report's fit
            if exact.seconds < EXACT_SECONDS_ARE_WORTH * another_round:
                self.rank_exactly(exact, f"turned out cheaper than to go on sampling: {speeds.ratio}")
                return None
        # pools vary: all of the mean one is all
        ceiling = self.job.split.n_items - 1 if found.ceiling >= rehearsal.guess.n_items - 1 else found.ceiling
        if len(self.rounds) == 1 and found.items > 4 * now:  # a first fit is rough: most of the way, then fit again
            ceiling = max(step.ceiling, ceiling // 2)
        return Step(step.cases, step.start, found.stop, ceiling)

    def _more_users(self, step: Step, guess: Guess, fitted: Fitted) -> Step | None:
        """More users, or more negatives for each, whichever narrows the interval more; ``None``: there are no more users."""
        seen, everyone = self.observation, len(self.job.split.users)
        held = len(np.unique(self._place[seen.begun]))
        if held >= self.users:
            return None
        rehearsal = self.planner.rehearse(guess, everyone, step.start)
        stop, ceiling = step.stop, step.ceiling
        left = float(seen.compared.sum()) + self.budget.affordable(seen.seconds_per_item)
        if len(self.rounds) == 1:  # a first fit plans both together; later ones say how far it still is
            goals, floors = self.planner.goals(guess), self.planner.floors(guess, everyone)
            share, stop, ceiling = rehearsal.thinned(goals, floors, (stop, ceiling), left)
            wanted = int(np.ceil(share * self.users))
        else:
            wanted = int(np.ceil(held * min(fitted.excess, 4.0) ** 2 * 1.03))
        if self.budget.limited:
            per_user = rehearsal.items(stop, ceiling) * everyone / self.users
            wanted = min(wanted, int(AIM * left / max(per_user, 1.0)))
            if wanted <= held and len(self.rounds) > 1:
                return None
        return Step(np.flatnonzero(self._place < max(wanted, held)), step.start, stop, ceiling)

    @property
    def cut(self) -> int:
        """The largest cut-off that is asked for."""
        return self.planner.cut

    def _stop(self, reason: str, fitted: Fitted | None = None) -> Step | None:
        """End the run; where more cases would be needed, say how many."""
        self.stop_reason = reason
        if fitted is not None and self.planner.target == "population":
            cases = fitted.estimate.counts.effective_cases
            wide = {m: fitted.half[m] / goal for m, goal in fitted.goals.items() if fitted.half[m] > goal}
            self.needed = {str(m): int(np.ceil(cases * times**2)) for m, times in wide.items()}
        return None
