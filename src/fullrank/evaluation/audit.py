"""An audit: a random few of the cases that a sample leaves undecided, ranked in full, check the estimate where it guesses.

What a sample cannot see, the prior fills in. Given the outcome of a case, the estimate predicts its gain; the residual, true
gain less prediction, is zero on the mean if the estimate is right, whatever the ranks look like. If the residuals say
otherwise, the precision is not met, however narrow the interval (prediction-powered inference: Angelopoulos et al. 2023).
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np

from fullrank._types import BoolArray, FloatArray, IntArray, Pair
from fullrank.estimators import RankDistribution
from fullrank.estimators.intervals import z_of
from fullrank.evaluation.planner import MOST_CASES, ByMetric, Candidate, Rehearsal
from fullrank.metrics import Metric
from fullrank.observing.budget import Budget
from fullrank.observing.observation import Observation

#: What an audit may ask for, as a share of what was asked before it; and the fewest users, as long as these take no more
#: items than all that was asked before: behind a guide, a single case in full may take more than the whole run.
AUDIT_SHARE, FEWEST_USERS = 0.12, 4
#: Cases that hold this share of the variance which an estimate leaves open hold most of it.
MOST_OPEN = 0.9


class Audit:
    """Cases that were ranked in full for the audit; their order is fixed beforehand, by ``place`` of each case's user."""

    def __init__(self, place: IntArray) -> None:
        self._place = place
        self.above = np.full(len(place), -1, dtype=np.int64)  # of audited cases

    @property
    def cases(self) -> IntArray:
        """The cases that were audited."""
        return np.flatnonzero(self.above >= 0)

    def extend(self, seen: Observation, open_cases: BoolArray, budget: Budget) -> None:
        """Rank some more of the open cases in full, as many as the audit's share of the cost pays for."""
        cost = np.bincount(self._place, np.where(seen.begun, seen.rest - seen.drawn, 0))  # a user's targets go together
        users = np.unique(self._place[open_cases])
        held = np.isin(users, self._place[self.cases])
        room = min(AUDIT_SHARE * seen.items_scored, budget.affordable(seen.seconds_per_item))
        fewest = 0 if budget.limited else FEWEST_USERS - int(held.sum())
        number = paid_for(cost[users[~held]], room - cost[users[held]].sum(), fewest, seen.items_scored)
        chosen = np.flatnonzero(np.isin(self._place, users[~held][:number]) & seen.begun)
        if len(chosen) and seen.design is not None:
            trial = seen.copy()
            trial.advance(seen.design.completed(seen.split.n_items), budget, chosen)
            seen.items_scored = trial.items_scored
            ranked = chosen[trial.known[chosen]]
            self.above[ranked] = trial.above[ranked]

    def corrected(
        self,
        seen: Observation,
        dist: RankDistribution,
        open_cases: Mapping[Metric, BoolArray],
        half: Mapping[Metric, float],
        level: float,
    ) -> dict[Metric, Pair]:
        """Value and standard error by the residuals, of those metrics where these are not zero on the mean.

        ``open_cases``: those that an audit of a metric is about, see :func:`to_audit`; ``half``: the half-widths that the
        estimate leaves open, its own error, which all cases share.
        """
        if dist.fitted is None:
            return {}
        N, users, z = dist.counts.n_items, dist.counts.users_weight, z_of(level)
        out = {}
        for metric, each in open_cases.items():
            number, cases = int(each.sum()), self.cases[each[self.cases]]
            if not len(cases):
                continue
            mean, variance = predicted_gains(dist, seen, cases, metric)
            residual = metric.gain(self.above[cases] + 1, N, seen.order[cases], seen.targets[cases]) - mean
            own = len(cases) / number * half[metric] / z * users
            if abs(float(residual.sum())) > max(z * float(np.sqrt(variance.sum() + own**2)), 1e-9):
                value = dist.expect(metric) + float(residual.mean()) * number / users
                spread = float(np.sqrt(max(residual.var(), variance.mean()) / len(cases))) * number / users
                out[metric] = value, spread
        return out


def to_audit(seen: Observation, dist: RankDistribution, metric: Metric, cut: int) -> BoolArray:
    """Which cases an audit of a metric is about: those that may still be within ``cut``, the largest cut-off.

    A metric without a cut-off leaves all cases open whose rank is not known, but most of them hardly. There it is about
    those that hold most of what the estimate leaves open, of which the same cost pays for some more.
    """
    if metric.k is not None:
        return undecided(seen, cut)
    unknown = np.asarray(seen.begun & ~seen.known)
    cases = np.flatnonzero(unknown)
    if len(cases) and dist.fitted is not None:
        unknown[cases] = hold_most(predicted_gains(dist, seen, cases, metric)[1], metric)
    return unknown


def hold_most(variance: FloatArray, metric: Metric) -> BoolArray:
    """Which cases hold :data:`MOST_OPEN` of the variance; those that hold as much as the last one of them go with it."""
    share = variance / max(float(variance.sum()), 1e-300)
    last = most_for_least({metric: share}, {metric: MOST_OPEN})[-1]
    return np.asarray(variance >= variance[last])


def paid_for(cost: FloatArray | IntArray, room: float, fewest: int, spent: float) -> int:
    """How many users are audited, who cost so many items each, one after the other.

    As many as ``room`` allows, or the fewest, as far as these cost no more than what was ``spent`` before.
    """
    number, affordable = np.searchsorted(np.cumsum(cost), [room, spent], side="right").tolist()
    return max(int(number), min(fewest, int(affordable)))


def expected_audit(rehearsal: Rehearsal, metrics: Iterable[Metric], found: Candidate, cut: int, left: float) -> float:
    """The items that the audit of a design is expected to ask for, of no more than are ``left`` of a budget."""
    place, hits = rehearsal.outcomes(found.stop, found.ceiling)
    rest = rehearsal.sizes[-1] - rehearsal.sizes[place]
    open_cases = np.zeros(len(rest), dtype=bool)
    for metric in metrics:
        if metric.k is not None:
            open_cases |= (rest > 0) & (hits < cut)
        elif not metric.whole_auc and rest.any():
            table = rehearsal.left_open(metric)
            variance = table[place, np.minimum(hits, table.shape[1] - 1)]
            open_cases |= (rest > 0) & hold_most(variance, metric)
    cases, users = found.part * rehearsal.cases, rehearsal.guess.users_share
    each = np.random.default_rng(0).permutation(rest[open_cases]) / users
    number = round(float(open_cases.mean()) * cases * users)
    room = min(AUDIT_SHARE * found.items * cases, left)
    some = np.resize(each, min(number, MOST_CASES))
    ranked = paid_for(some, room, FEWEST_USERS if np.isinf(left) else 0, found.items * cases)
    more = float(some.mean()) * (number - len(some)) if ranked >= len(some) > 0 else 0.0  # than were made up
    spent = float(some[:ranked].sum())
    return spent + min(more, max(room - spent, 0.0))


def most_for_least(shares: Mapping[Metric, FloatArray], wanted: ByMetric, cost: IntArray | int = 1) -> IntArray:
    """The places of the cases that together hold what is wanted of every metric's shares, taken by share per cost.

    They stand in the order in which they are taken. Without ``cost`` all cases cost the same.

    >>> from fullrank import Recall
    >>> most_for_least({Recall @ 10: np.array([0.2, 0.5, 0.3])}, {Recall @ 10: 0.7}, np.array([1, 1, 9])).tolist()
    [1, 0]
    """
    worth = np.max([wanted[metric] * shares[metric] for metric in wanted], axis=0)
    order = np.argsort(-worth / cost, kind="stable")
    number = max(int(np.searchsorted(np.cumsum(shares[metric][order]), wanted[metric] - 1e-9)) for metric in wanted)
    return order[: number + 1]


def undecided(seen: Observation, cut: int) -> BoolArray:
    """Which cases may still be within the cut-off, or not."""
    return np.asarray(seen.begun & ~seen.known & (seen.above + seen.order <= cut))


def case_keys(seen: Observation, cases: IntArray, *names: str) -> IntArray:
    """What was seen of cases, a column for each name, as counts have it: no more came late than are ahead."""
    late = {"recent": np.minimum(seen.recent, seen.ahead)}
    return np.stack([late.get(name, getattr(seen, name))[cases] for name in names], axis=1)


def predicted_gains(
    dist: RankDistribution, seen: Observation, cases: IntArray, metric: Metric
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the gain of each case, given its outcome and the estimated distribution of ranks."""
    fitted = dist.fitted
    if fitted is None or seen.design is None:
        raise ValueError("every rank is known: there is nothing to predict.")
    N, partly = dist.counts.n_items, dist.counts.has_compared_part
    row_of = {tuple(key): int(row) for key, row in zip(fitted.group_keys.tolist(), dist.rows, strict=True)}
    keys = case_keys(seen, cases, "rest", "order", "targets", "ahead", "recent", "drawn", "hits")
    if not partly:
        keys[:, [0, 3, 4]] = round(N) - 1, 0, 0
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    mean, square = np.zeros(len(distinct)), np.zeros(len(distinct))
    ends = np.flatnonzero(np.append((np.diff(distinct[:, :5], axis=0) != 0).any(1), True)) + 1
    for start, end in pairwise([0, *ends.tolist()]):  # outcomes of one law
        rest, j, T, ahead, recent = distinct[start, :5].tolist()
        law = dist.grid.law(seen.design, rest + 1.0 if partly else N, *distinct[start:end, 5:].T)
        weight = np.maximum(dist.masses[row_of[j, T, ahead, recent]], 0.0)[:, None] * law
        gain = dist.grid.mean_gain(metric, N, j, T, ahead)
        weight = weight[: len(gain)] / np.maximum(weight.sum(0), 1e-300)
        mean[start:end], square[start:end] = gain @ weight, gain**2 @ weight
    return mean[which.ravel()], np.maximum(square - mean**2, 0.0)[which.ravel()]
