"""An audit: a random few of the cases that a sample leaves undecided, ranked in full, check the estimate where it guesses.

What a sample cannot see, the prior fills in. Given the outcome of a case, the estimate predicts its gain; the residual, true
gain less prediction, is zero on the mean if the estimate is right, whatever the ranks look like. If the residuals say
otherwise, the precision is not met, however narrow the interval (prediction-powered inference: Angelopoulos et al. 2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fullrank.estimators import RankDistribution
from fullrank.estimators.intervals import z_of
from fullrank.metrics import Metric
from fullrank.observing.budget import Budget
from fullrank.observing.observation import Observation
from fullrank.ranks.design import Design, Sample
from fullrank.ranks.guided import Guided

__all__ = ["Audit"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: What an audit may ask for, as a share of what was asked before it; and the fewest users, whatever they cost.
AUDIT_SHARE, FEWEST_USERS = 0.12, 4


class Audit:
    """Cases that were ranked in full for the audit; their order is fixed beforehand, by ``place`` of each case's user."""

    def __init__(self, place: Ints) -> None:
        self._place = place
        self.above = np.full(len(place), -1, dtype=np.int64)  # of audited cases

    @property
    def cases(self) -> Ints:
        """The cases that were audited."""
        return np.flatnonzero(self.above >= 0)

    def extend(self, seen: Observation, cut: int, budget: Budget) -> None:
        """Rank some more of the undecided cases in full, as many as the audit's share of the cost pays for."""
        undecided = self.undecided(seen, cut)
        rest = np.where(seen.begun, seen.rest - seen.drawn, 0)
        cost = np.bincount(self._place, rest)  # whole users: their targets are ranked together
        users = np.unique(self._place[undecided])
        held = np.isin(users, self._place[self.cases])
        share = min(AUDIT_SHARE * seen.items_scored, budget.items) - float(cost[users[held]].sum())
        new = users[~held]
        number = int(np.searchsorted(np.cumsum(cost[new]), share, side="right"))
        if np.isfinite(budget.items) or np.isfinite(budget.deadline):
            number = (
                min(number, int(budget.affordable(seen.seconds_per_item) / max(float(cost[new].mean()), 1.0)))
                if len(new)
                else 0
            )
        else:
            number = max(number, FEWEST_USERS - int(held.sum()))
        chosen = np.flatnonzero(np.isin(self._place, new[:number]) & seen.begun)
        if len(chosen):
            trial = seen.copy()
            everything: Design = Sample(seen.split.n_items, replace=False)
            if isinstance(seen.design, Guided):
                everything = replace(seen.design, negatives=seen.split.n_items, max_negatives=None)
            trial.advance(everything, budget, chosen)
            seen.items_scored = trial.items_scored
            ranked = chosen[trial.known[chosen]]
            self.above[ranked] = trial.above[ranked]

    @staticmethod
    def undecided(seen: Observation, cut: int) -> NDArray[np.bool_]:
        """Which cases may still be within the cut-off, or not."""
        return np.asarray(seen.begun & ~seen.known & (seen.above + seen.order <= cut))

    def refuted(
        self, seen: Observation, dist: RankDistribution, half: Mapping[Metric, float], level: float, cut: int
    ) -> list[Metric]:
        """The metrics whose residuals are not zero on the mean, given what the interval of ``half`` width leaves open."""
        undecided = self.undecided(seen, cut)
        cases = self.cases[undecided[self.cases]]
        if not len(cases) or dist.fitted is None:
            return []
        share = len(cases) / int(undecided.sum())
        out = []
        for metric in half:
            mean, variance = predicted_gains(dist, seen, cases, metric)
            true = metric.gain(self.above[cases] + 1, dist.counts.n_items, seen.order[cases], seen.targets[cases])
            common = share * half[metric] / z_of(level) * dist.counts.users_weight  # the distribution's own error
            spread = z_of(level) * float(np.sqrt(variance.sum() + common**2))
            if abs(float((true - mean).sum())) > max(spread, 1e-9):
                out.append(metric)
        return out


def predicted_gains(
    dist: RankDistribution, seen: Observation, cases: Iterable[int], metric: Metric
) -> tuple[Floats, Floats]:
    """Mean and variance of the gain of each case, given its outcome and the estimated distribution of ranks."""
    fitted, chosen = dist.fitted, np.asarray(cases)
    if fitted is None or seen.design is None:
        raise ValueError("every rank is known: there is nothing to predict.")
    N, partly = dist.counts.n_items, dist.counts.has_compared_part
    row_of = {tuple(key): int(row) for key, row in zip(fitted.group_keys.tolist(), dist.rows, strict=True)}
    keys = np.stack(
        [getattr(seen, name)[chosen] for name in ("drawn", "hits", "rest", "order", "targets", "ahead", "recent")],
        axis=1,
    )
    if not partly:
        keys[:, [2, 5, 6]] = round(N) - 1, 0, 0
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    mean, square = np.zeros(len(distinct)), np.zeros(len(distinct))
    for place, (drawn, hits, rest, j, T, ahead, recent) in enumerate(distinct.tolist()):
        law = dist.grid.law(seen.design, rest + 1.0 if partly else N, np.array([drawn]), np.array([hits]))[:, 0]
        weight = np.maximum(dist.masses[row_of[j, T, ahead, recent]], 0.0) * law
        gain = dist.grid.mean_gain(metric, N, j, T, ahead)
        weight = weight / max(float(weight.sum()), 1e-300)
        mean[place], square[place] = weight[: len(gain)] @ gain, weight[: len(gain)] @ gain**2
    return mean[which.ravel()], np.maximum(square - mean**2, 0.0)[which.ravel()]
