"""What a sample leaves open under LogSpline's prior: a mixture of Gaussians on spline coefficients, and what its draws say.

Under every member of the prior, the mode by Newton and the evidence by Laplace's approximation; draws of the members by
their evidence take one EM step towards the data. What errs least among them is the estimate, and intervals are their
quantiles. With several strata, whose draws are less exact, the estimate is an average of the modes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fullrank._threads import ONE_BLAS_THREAD
from fullrank._types import FloatArray, IntArray
from fullrank.estimators.hyperprior import HyperPrior, anything
from fullrank.estimators.intervals import SHARED, columns_of
from fullrank.estimators.problem import Problem
from fullrank.estimators.splines import Mode, Outcomes, SplineModel, balanced_normals, em_step, posterior_mode
from fullrank.metrics import Metric

#: Draws of the posterior behind an interval, for few and for many strata.
DRAWS, FEWER_DRAWS, MANY_STRATA = 400, 200, 8
#: So many times as many draws are made where they are resampled, in the order of what they give to so many first cells.
MORE_DRAWS, FIRST = 2, 10
#: Values that stand for what outcomes leave open in each draw.
AROUND = 16
#: Ranks at which what errs least is found, at equal steps of log R.
STEPS = 48
#: Every so many draws tell how much of the variance within cases their outcomes explain.
THINNED = 8
#: Log odds of "a shape of any kind" above which a sample counts as unlike any recommender; 99 % of real ones lie below.
UNLIKE_ODDS = -7.0
#: The same behind a compared part, where a sample of nothing leaves them at −6.9.
UNLIKE_ODDS_COMPARED = -4.0
#: Gain in log-likelihood of free EM steps above which a sample counts as rough: at least so much, and this factor times a
#: power of the cases of each stratum, at 99 negatives. Steps stop at a fixed number, so gains grow slower than cases.
ROUGH_GAIN, ROUGH_RATE, ROUGH_POWER, FREE_STEPS = 15.0, 0.7, 0.65, 30
#: Numbers of candidates whose logarithms spread by more than this differ widely: one distribution of ranks does not fit all.
WIDE_POOLS = 0.4
#: A catalogue counts as smaller or larger than any seen from so much of log N on, and as far too small from so much.
BEYOND, FAR_BEYOND = 0.05, np.log(2)
#: Intervals of rough samples reach this many times as far, on the log scale.
ROUGH_STRETCH = 1.2
#: So do those behind a guide: its prior knows the guides of a few catalogues. Chosen on beibei-buy and delicious-baskets,
#: each left out of the prior: 60 of 64 intervals held without it, 61 with it.
GUIDED_STRETCH = 1.15
#: Ranks at which every (j, T) has a distribution of its own, though it shares its stratum's shape.
HEAD = 100
#: Members whose weight is below this do not enter the average.
LEAST_WEIGHT = 3e-4
#: By so much of its variance the logarithm of a typical π is lowered.
SHRINK = 0.7
#: By this part of its relative variance an expected number of cases is lowered (see ``_reported``); beyond so many cases,
#: what outcomes explain of the variance is taken from those before.
FEW, MANY_CASES = 0.5, 1000
#: No rank is given more than so many times what is expected there, where what outcomes leave open falls from rank to rank.
MOST_RAISED = 2.0

#: Cells of counts, the outcome of each, and the mean and the variance of a case's gain by draw and outcome.
_Gains = tuple[IntArray, IntArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Member:
    """One member of the prior after the data: where its posterior is, and its share."""

    mode: Mode
    weight: float
    spread: FloatArray  # lower triangular inverse of the root: rows of z @ spread are draws
    mean: FloatArray  # of the prior, and its precision
    precision: FloatArray


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the data leave open: a mixture of Gaussians on the coefficients of all strata, and answers from its draws."""

    problem: Problem
    model: SplineModel
    prior: HyperPrior
    data: Outcomes
    members: list[Member]
    draws: "Draws"
    typical: FloatArray  # strata × cells: the members' average
    mass: FloatArray  # what errs least, after one EM step: what is reported
    evidence: float
    steps: int
    converged: bool
    odds: float  # log odds of a shape of any kind
    gain: float  # log-likelihood that free EM steps would gain
    trend: FloatArray | None = None  # of what is behind a compared part
    guided: bool = False  # whether it was compared in a guide's order
    led_nowhere: bool = False  # whether this found no more than chance does

    @classmethod
    def of(
        cls,
        problem: Problem,
        model: SplineModel,
        prior: HyperPrior,
        bins: IntArray,
        data: Outcomes,
        trend: FloatArray | None = None,
        guided: bool = False,
    ) -> "Posterior":
        """Find the mode and the evidence under every member of the prior, and draw from all of them."""
        found = weigh_members(model, prior, bins, data, trend)
        exactly = guided or len(bins) == 1
        draws, weight = draw(found.members, model, data, exactly)
        compared = trend is not None
        typical = _typical(found.members, model, compared)
        mass = _reported(draws, weight, typical, data, problem.grid.hi, compared)
        if exactly:  # for intervals
            draws = draws.resampled(weight, len(draws) // MORE_DRAWS, data)
        return cls(
            problem, model, prior, data, found.members, draws, typical, mass, found.evidence, found.steps,
            all(each.mode.converged for each in found.members), found.odds, _free_gain(typical, data), trend, guided,
        )  # fmt: skip

    def following(self, together: HyperPrior, how_far: float) -> "Posterior":
        """Return the same with laws that follow, so far in logs, what another prior says of all strata together.

        That prior has seen ranks whatever their stratum; its errors are only partly those of the laws here.
        """
        model = SplineModel.on(self.problem.grid, together.coefficients)
        seen = self.data.seen.sum(0, keepdims=True)
        other = weigh_members(model, together, np.zeros(1, dtype=np.int64), Outcomes(self.data.A, seen), None)
        [of_all] = _typical(other.members, model, compared=False)
        average = self.data.seen.sum(1) @ self.typical / seen.sum()
        tilt = (of_all / np.maximum(average, 1e-300)) ** how_far
        typical = _tilted(self.typical, tilt)
        compared = self.trend is not None  # there intervals stay as they are
        draws = self.draws if compared else Draws.of([_tilted(each, tilt) for each in self.draws.mass], self.data)
        mass = _reported(draws, np.ones(len(draws)), typical, self.data, self.problem.grid.hi, compared)
        return replace(self, draws=draws, typical=typical, mass=mass)

    # ------------------------------------------------------------------------------------------------ what it says

    @property
    def unlike(self) -> bool:
        """Whether the sample looks like no recommender behind the prior: unlike in shape, or too rough."""
        return self.unlike_shape or self.rough

    @property
    def unlike_shape(self) -> bool:
        """Whether the evidence does not speak clearly against a shape of any kind, or a guide led nowhere."""
        return self.led_nowhere or self.odds > (UNLIKE_ODDS if self.trend is None else UNLIKE_ODDS_COMPARED)

    @property
    def too_small(self) -> bool:
        """Whether the catalogue has less than half the items of any behind the prior: there bounds say more than it does."""
        return self.model.n_items < self.prior.sizes[0] and self.prior.beyond(self.model.n_items) > FAR_BEYOND

    @cached_property
    def unequal_pools(self) -> bool:
        """Whether cases differ so widely in their numbers of candidates that ranks of all cannot have one distribution."""
        counts = self.problem.counts
        size = np.log(counts.pool_weight / counts.weight)
        mean = np.average(size, weights=counts.weight)
        return bool(np.average((size - mean) ** 2, weights=counts.weight) > WIDE_POOLS**2)

    @property
    def needs_bounds(self) -> bool:
        """Whether intervals reach as far as the bounds, because the prior does not speak of samples like this one."""
        return self.unlike_shape or self.too_small or self.unequal_pools

    @property
    def rough(self) -> bool:
        """Whether a distribution without any smoothness would explain the sample much better: ranks heap up."""
        counts = self.problem.counts
        unknown = ~counts.all_compared
        drawn, weight = counts.column("drawn")[unknown], counts.weight[unknown]
        size = np.average(drawn, weights=weight) if counts.design.plain else drawn.min()
        least = ROUGH_RATE * np.sqrt(max(size / 99, 1.0)) * float((self.data.seen.sum(1) ** ROUGH_POWER).sum())
        return bool(self.gain > max(ROUGH_GAIN, least))

    def notes(self) -> tuple[str, ...]:
        """Warnings for people: a sample unlike any recommender seen, a catalogue beyond the sizes seen."""
        out = []
        remedy = "rank some cases in full, or draw more negatives, to know more."
        if self.led_nowhere:
            out.append(
                "the guide found no more than chance does, which the prior does not expect of one, so the intervals are "
                "widened to the bounds that the data alone allow; sample without it, or draw more negatives, to know more."
            )
        elif self.unlike_shape:
            out.append(
                "these ranks do not look like those of any recommender behind the prior, so the intervals are widened to "
                f"the bounds that the data alone allow; {remedy}"
            )
        elif self.rough:
            out.append(
                "these ranks heap up in a few places, which those of recommenders behind the prior do not; the intervals "
                f"are widened but may still miss: look at the bounds, and {remedy}"
            )
        if self.unequal_pools:
            fewest, most = self.problem.counts.pool_range
            out.append(
                f"cases have from {fewest:,.0f} to {most:,.0f} candidates, and one distribution of ranks does not fit them "
                "all, so the intervals are widened to the bounds that the data alone allow; to know more, evaluate cases "
                "with like numbers of candidates together."
            )
        N, (low, high) = self.model.n_items, self.prior.sizes
        if self.prior.beyond(N) > BEYOND:
            side = f"larger than any of the catalogues behind the prior (up to {high:,.0f} items)"
            if low > N:
                side = f"smaller than any of the catalogues behind the prior (from {low:,.0f} items)"
            how = f" to the bounds that the data alone allow; {remedy}" if self.too_small else " for it."
            out.append(f"a catalogue of {N:,.0f} items is {side}: intervals are widened{how}")
        return tuple(out)

    def interval(self, metric: Metric, value: float, level: float, n_items: float) -> tuple[float, float]:
        """Quantiles of the posterior of the metric over these cases, laid around the estimate on the log scale."""
        with ONE_BLAS_THREAD:
            drawn = self.values(metric, n_items)
        tail = 0.5 - level / 2
        low, middle, high = np.quantile(drawn, [tail, 0.5, 1 - tail])
        if middle <= 0 or value <= 0:
            return float(min(value, low)), float(max(value, high))
        further = GUIDED_STRETCH if self.guided else 1.0
        if self.rough and not self.needs_bounds:
            further *= ROUGH_STRETCH
        return float(value * (max(low, 0.0) / middle) ** further), float(value * (high / middle) ** further)

    @cached_property
    def heads(self) -> FloatArray:
        """The expected weight of the cases of every (j, T) at each of the first ranks, given their own outcomes."""
        from scipy.sparse import csr_array

        problem, counts, column = self.problem, self.problem.counts, self._columns
        first = slice(min(HEAD, len(problem.grid)))
        out = np.zeros((len(problem.strata), first.stop))
        for row, π in enumerate(self.typical):
            here = np.flatnonzero(problem.strata[counts.group_of] == row)
            used, place = np.unique(column[here], return_inverse=True)
            A = self.data.A[:, used]
            pull = (A[first] / np.maximum(π @ A, 1e-300)).T
            shape = len(problem.strata), len(used)
            seen = csr_array((counts.weight[here], (counts.group_of[here], place.ravel())), shape=shape)
            out += (seen @ pull) * π[first]
        share = self.data.seen.sum(1) / self.data.seen.sum()  # lowered as the laws of strata are
        out *= counts.weight.sum() * (share @ self.mass[:, first]) / np.maximum(out.sum(0), 1e-300)
        return out

    @cached_property
    def _columns(self) -> IntArray:
        """The column of the laws that each cell of the counts has."""
        problem, counts = self.problem, self.problem.counts
        starts = np.cumsum([0, *(len(table.hits) for table in problem.tables)])
        column = np.zeros(len(counts.keys), dtype=np.int64)
        for index, table in enumerate(problem.tables):
            here = problem.pools == index
            column[here] = starts[index] + columns_of(table, *counts.outcomes[here].T)
        return column

    def gains_given_outcomes(self, metric: Metric, n_items: float) -> Iterator[_Gains]:
        """Mean and variance of cases' gains, each given its own outcome, in every draw: draws × outcomes.

        Cells of the counts that gain alike come together: which they are, and the outcome of each.
        """
        counts = self.problem.counts
        for row, which, gains in self.problem.grid.gains(metric, n_items, counts.groups, self.problem.strata):
            draws, size = self.draws.mass[row], gains.shape[1]
            for group, gain in zip(which, gains, strict=True):
                cells = np.flatnonzero(counts.group_of == group)
                used, place = np.unique(self._columns[cells], return_inverse=True)
                A = self.data.A[:, used]
                mean, square = ((draws[:, :size] * each) @ A[:size] for each in (gain, gain**2))
                whole = np.maximum(draws @ A, 1e-300)
                yield cells, place.ravel(), mean / whole, np.maximum(square / whole - (mean / whole) ** 2, 0.0)

    def _sum_given_outcomes(self, parts: Iterable[_Gains]) -> tuple[FloatArray, FloatArray]:
        """The sum of all gains in every draw, and its variance."""
        total, variance = np.zeros(len(self.draws)), np.zeros(len(self.draws))
        for cells, place, mean, left in parts:
            total += mean @ np.bincount(place, self.problem.counts.weight[cells])
            variance += left @ np.bincount(place, self.problem.counts.square_weight[cells])
        return total, variance

    def open_variance(self, metric: Metric, n_items: float) -> FloatArray:
        """What a case of each cell of the counts adds to the variance of the sum of all gains.

        In a draw a case has an expected gain t, given its outcome, and a variance v about it. The sum varies as Σ t does
        over draws, and by the mean of Σ v: a case adds Cov(t, Σ t) and the mean of v.
        """
        parts = list(self.gains_given_outcomes(metric, n_items))
        total = self._sum_given_outcomes(parts)[0]
        total -= total.mean()
        out = np.zeros(len(self.problem.counts.keys))
        for cells, place, mean, left in parts:
            out[cells] = (total @ mean / len(total) + left.mean(0))[place]
        return np.maximum(out, 0.0)

    def values(self, metric: Metric, n_items: float) -> FloatArray:
        """Return the metric of these cases: a few values for every draw.

        Given π, each case's rank follows its own posterior; their mean is one EM step from π, whose distance from the median
        is :meth:`~HyperPrior.calibrated`, and their variance adds Σ c_o Var[M(R) | o]/M².
        """
        total, variance = self.total(metric, n_items)
        middle = float(np.median(total))
        if self.trend is None and middle > 0:
            total = middle * self.prior.calibrated(total / middle)
        return _around(total, variance) / self.problem.counts.users_weight

    def total(self, metric: Metric, n_items: float) -> tuple[FloatArray, FloatArray]:
        """Return the sum of all gains in every draw, given the outcomes, and its variance."""
        counts, grid = self.problem.counts, self.problem.grid
        if self.trend is not None:  # gains of a stratum differ in shape, and those that matter most are compared most
            return self._sum_given_outcomes(self.gains_given_outcomes(metric, n_items))
        weight, rows = counts.groups.weight, self.problem.strata
        pooled, squared = grid.pooled_gains(metric, n_items, counts.groups, rows)
        parts = self.data.parts
        number = len(self.draws)
        total, variance = np.zeros(number), np.zeros(number)
        some = slice(None, None, THINNED)
        explained = np.zeros((len(parts), len(total[some])))
        for row, which, gains in grid.gains(metric, n_items, counts.groups, rows):
            # gains of one j differ by a factor: one of them stands for all
            gain = np.sign(gains[0]) * np.sqrt(weight[which] @ gains**2)
            A, seen = parts[row]
            earned = self.draws.mass[row][some, : len(gain)] * gain
            by_outcome = (earned @ A[: len(gain)] * self._pull[row][some]) ** 2
            explained[row] += np.sum(by_outcome / (seen / seen.sum()), axis=1)
        for row, (gain, square) in enumerate(zip(pooled, squared, strict=True)):
            head = slice(len(np.trim_zeros(square, "b")))
            # an EM step multiplies every draw by the product of pull and law
            after = self.draws.mass[row][:, head] * (self._pull[row] @ parts[row][0][head].T)
            total += after @ gain[head]
            second = after @ square[head]
            # Var[gain | outcome] is E[gain²] less what outcomes explain of it, a share that hardly differs between draws
            unexplained = 1 - np.mean(explained[row] / np.maximum(second[some], 1e-300))
            variance += max(float(unexplained), 0.0) * second
        return total, variance * (self.shared_negatives(metric, n_items) * counts.mean_weight)

    def shared_negatives(self, metric: Metric, n_items: float) -> float:
        """Return by how much shared negatives raise the variance that is left within cases when π is known; at least 1.

        A user's targets are commonly ranked among the same negatives: one that is missing makes all of them look better.
        Given T, a user has one case for each j, so that errors that go together with correlation ρ have the variance
        (1−ρ) Σ_j v_j + ρ (Σ_j √v_j)² where v_j is the mean of Var[gain | outcome] over the cases of (j, T).
        """
        counts, grid = self.problem.counts, self.problem.grid
        groups = counts.groups
        targets, weight = groups.targets, groups.weight
        if groups.ahead.any() or not (targets > 1).any():  # negatives of one's own for every case
            return 1.0
        left = np.zeros(len(targets))
        for row, which, gains in grid.gains(metric, n_items, groups, self.problem.strata):
            A, seen = self.data.parts[row]
            π, head = self.typical[row], gains.shape[1]
            widest = gains[np.argmax(np.abs(gains).max(1, initial=0.0))]  # the others differ from it by a factor
            scale = np.abs(gains).max(1, initial=0.0) / max(float(np.abs(widest).max(initial=0.0)), 1e-300)
            likely = np.maximum(π @ A, 1e-300)
            mean, square = ((π[:head] * each) @ A[:head] / likely for each in (widest, widest**2))
            left[which] = scale**2 * max(float(seen @ (square - mean**2)) / float(seen.sum()), 0.0)
        users, which = np.unique(targets, return_inverse=True)
        number = np.bincount(which, weight / targets, len(users))
        alone, together = (np.bincount(which, each, len(users)) for each in (left, np.sqrt(left)))
        total = float(number @ alone)
        return 1 - SHARED + SHARED * float(number @ together**2) / total if total > 0 else 1.0

    @cached_property
    def _pull(self) -> list[FloatArray]:
        """Share of each outcome over its probability, in every draw."""
        return [
            seen / seen.sum() / likely for likely, (_, seen) in zip(self.draws.likely, self.data.parts, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class WeighedMembers:
    """The members of a prior that the data leave a share to, and how strong the evidence is."""

    members: list[Member]
    evidence: float
    odds: float  # log odds of a shape of any kind
    steps: int  # of Newton's method, at most


def weigh_members(
    model: SplineModel, prior: HyperPrior, bins: IntArray, data: Outcomes, trend: FloatArray | None
) -> WeighedMembers:
    """Find the mode and the evidence under every member of the prior, and weigh the members by it."""
    known = prior.members(bins, model.n_items, trend)
    every = known + anything(len(bins), prior.coefficients)
    modes: list[Mode] = []
    evidence = np.empty(len(every))
    for index, (log_weight, μ, Q, log_det) in enumerate(every):
        start = modes[-1].moved(*every[index - 1][1:3], μ, Q) if modes else μ
        mode = posterior_mode(model, data, μ, Q, start)
        if modes and not mode.converged:  # lost on the way from where another member is: begin at its own mean
            mode = max(mode, posterior_mode(model, data, μ, Q, μ), key=lambda each: each.value)
        modes.append(mode)
        evidence[index] = log_weight + mode.value + 0.5 * (log_det - mode.log_det)
    whole = float(np.logaddexp.reduce(evidence))
    seen, unseen = (np.logaddexp.reduce(each) for each in np.split(evidence, [len(known)]))
    weights = np.exp(evidence - whole)
    weights[: len(known)] = np.exp(seen - whole) * _shares(evidence[: len(known)], known, prior)
    weights[weights < LEAST_WEIGHT] = 0.0
    weights /= weights.sum()
    members = [
        Member(mode, float(weight), _inverse(mode.root), μ, Q)
        for mode, weight, (_, μ, Q, _) in zip(modes, weights, every, strict=True)
        if weight > 0
    ]
    return WeighedMembers(members, whole, float(unseen - seen), max(each.steps for each in modes))


def _shares(evidence: FloatArray, members: Sequence[tuple[float, Any, Any, float]], prior: HyperPrior) -> FloatArray:
    """Return the shares of the prior's own members: prior weight times likelihood to the power ``trust``, views alike."""
    weight = np.array([log_weight for log_weight, *_ in members])
    log = weight + prior.trust * (evidence - weight)
    view = np.repeat([kind.view for kind in prior.kinds], len(prior.scales))
    whole = np.array([np.logaddexp.reduce(log[view == each]) for each in range(view.max() + 1)])
    return np.asarray(np.exp(log - whole[view]) / len(whole))


def _around(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return values that stand for normal distributions of these means and variances, the same quantiles of each."""
    from scipy.special import ndtri

    quantiles = ndtri((np.arange(AROUND) + 0.5) / AROUND)
    quantiles /= np.sqrt(np.mean(quantiles**2))
    return np.asarray(mean[:, None] + np.sqrt(np.maximum(variance, 0.0))[:, None] * quantiles).ravel()


def _inverse(root: FloatArray) -> FloatArray:
    """Return the inverse of a lower triangular matrix."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False))


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of π, and the probability of every outcome that was seen under each of them, stratum by stratum."""

    mass: list[FloatArray]  # draws × cells
    likely: list[FloatArray]  # draws × outcomes

    @classmethod
    def of(cls, mass: list[FloatArray], data: Outcomes) -> "Draws":
        """Take these draws of π."""
        likely = [np.maximum(each @ A, 1e-300) for each, (A, _) in zip(mass, data.parts, strict=True)]
        return cls(mass, likely)

    def __len__(self) -> int:
        return len(self.mass[0])

    def resampled(self, weight: FloatArray, number: int, data: Outcomes) -> "Draws":
        """Keep so many of the draws as stand for all of them with these weights, some perhaps more than once.

        They are gone through in the order of what they give to the first ranks, so that quantiles of what matters are kept.
        """
        first = np.zeros(len(self))
        for mass, (_, seen) in zip(self.mass, data.parts, strict=True):
            first += seen.sum() * mass[:, :FIRST].sum(1)
        order = np.argsort(first)
        place = np.searchsorted(np.cumsum(weight[order]) / weight.sum(), (np.arange(number) + 0.5) / number)
        which = order[np.minimum(place, len(weight) - 1)]
        return Draws([each[which] for each in self.mass], [each[which] for each in self.likely])


def draw(members: Sequence[Member], model: SplineModel, data: Outcomes, exactly: bool) -> tuple[Draws, FloatArray]:
    """Draw from all members, by their weights; return the draws and how much each of them weighs.

    A member's posterior is nearly Gaussian about its mode. ``exactly``: more draws of the Gaussians are made, and weighed
    by importance to be those of the posterior itself, which ends where more would have been seen. Weights are cut off at
    √n times their mean (Ionides 2008).
    """
    strata, size = members[0].mode.β.shape
    number = DRAWS if strata <= MANY_STRATA else FEWER_DRAWS
    share = np.array([member.weight for member in members])
    numbers = np.diff(np.round(np.cumsum(share) * number * (MORE_DRAWS if exactly else 1)), prepend=0).astype(np.int64)
    drawn, importance = [], []
    for index, (member, each) in enumerate(zip(members, numbers.tolist(), strict=True)):
        # random numbers of its own: one draw more of a member leaves those of all others as they are
        z = balanced_normals(each, strata * size, np.random.default_rng([0, index]))
        β = member.mode.β.ravel() + z @ member.spread
        left = β - member.mean.ravel()
        drawn.append(β)
        # log of the posterior over the Gaussian, each relative to the mode; the likelihood of draws is added later
        importance.append(0.5 * (z**2).sum(1) - 0.5 * ((left @ member.precision) * left).sum(1) - member.mode.value)
    β = np.concatenate(drawn)
    draws = Draws.of([model.mass(β[:, row * size : (row + 1) * size]) for row in range(strata)], data)
    if not exactly:
        return draws, np.ones(len(draws))
    log = np.concatenate(importance)
    for likely, (_, seen) in zip(draws.likely, data.parts, strict=True):
        log += np.log(likely) @ seen
    weight = np.exp(log - log.max())
    return draws, np.minimum(weight, np.sqrt(len(weight)) * weight.mean())


def _typical(members: Sequence[Member], model: SplineModel, compared: bool) -> FloatArray:
    """Return one π per stratum: the members' modes, averaged in logs and each lowered by a part of its variance.

    This is below the mean of the posterior and nearer to what errs least relative to the truth. What is behind a compared
    part is a plain average.
    """
    size = model.B.shape[1]
    out = np.zeros((len(members[0].mode.β), len(model.base)))
    for member in members:
        for row, mass in enumerate(model.mass(member.mode.β)):
            if compared:
                out[row] += member.weight * mass
                continue
            along = (model.B - mass @ model.B) @ member.spread[:, row * size : (row + 1) * size].T
            out[row] += member.weight * (np.log(np.maximum(mass, 1e-300)) - SHRINK * (along**2).sum(1))
    if not compared:
        out = np.exp(out - out.max(axis=1, keepdims=True))
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def law_of_each(members: Sequence[Member], model: SplineModel, data: Outcomes) -> FloatArray:
    """Return the law of every stratum that is typical of the members, one EM step closer to the data."""
    return _step(_typical(members, model, compared=False), data)


def _reported(
    draws: Draws, weight: FloatArray, typical: FloatArray, data: Outcomes, hi: IntArray, compared: bool
) -> FloatArray:
    """Return one π per stratum, one EM step closer to the data: what errs least among the draws.

    Draws of several strata are those of Gaussians, which go on where a posterior ends: there the typical π takes the step.
    """
    if compared:
        return _step(typical, data)
    if len(typical) > 1:
        return _lowered(_step(typical, data), typical, data)
    [mass], [likely], [(A, seen)] = draws.mass, draws.likely, data.parts
    after = mass * ((seen / seen.sum() / likely) @ A.T)
    return _lowered(central_law(after, weight, hi)[None], typical, data)


def central_law(draws: FloatArray, weight: FloatArray, hi: IntArray) -> FloatArray:
    """Return the π whose share of cases up to each rank errs least relative to the truth, on the mean over draws.

    That share is the median of the draws' shares F, where a draw counts for its weight over F: E|f − F|/F is least there. It
    is found at steps of log R, and follows the mean between them.
    """
    F = np.cumsum(draws, axis=1)
    steps = np.unique(np.searchsorted(hi, np.geomspace(1, hi[-1], STEPS) - 1e-9))
    there = F[:, steps].T
    order = np.argsort(there, axis=1)
    there = np.take_along_axis(there, order, axis=1)
    each = weight[order] / np.maximum(there, 1e-300)
    below = np.cumsum(each, axis=1)
    below = (below - each / 2) / below[:, -1:]
    middle = np.array([np.interp(0.5, at, values) for at, values in zip(below, there, strict=True)])
    mean = np.maximum(weight @ F / weight.sum(), 1e-300)
    ratio = np.interp(np.log(hi), np.log(hi[steps]), np.log(np.maximum(middle, 1e-300) / mean[steps]))
    f = np.clip(np.maximum.accumulate(mean * np.exp(ratio)), F.min(0), F.max(0))  # what is known stays
    return np.asarray(np.diff(f / f[-1], prepend=0.0))


def _step(laws: FloatArray, data: Outcomes) -> FloatArray:
    """Take one EM step from the law of every stratum."""
    return np.stack([em_step(π, A, seen) for π, (A, seen) in zip(laws, data.parts, strict=True)])


def _tilted(laws: FloatArray, tilt: FloatArray) -> FloatArray:
    """Multiply every law by the same factors."""
    out = laws * tilt
    return np.asarray(out / out.sum(1, keepdims=True))


def _lowered(mass: FloatArray, typical: FloatArray, data: Outcomes) -> FloatArray:
    """Return every stratum's π with less at the first ranks, as far as few cases are expected there.

    Up to a rank λ cases are expected, with the variance v that their outcomes leave. The value that errs least relative to
    the truth, on the mean, lies below λ by about the share v/λ² of it: λ becomes λ/(1 + FEW · v/λ²), rank by rank.
    """
    expected = data.seen.sum(1) @ np.cumsum(mass, axis=1)
    head = max(int(np.searchsorted(expected, MANY_CASES)), 1)
    whole, explained = np.zeros(head), np.zeros(head)
    for π, (A, seen) in zip(typical, data.parts, strict=True):
        within = np.cumsum(π[:head, None] * A[:head], axis=0) / np.maximum(π @ A, 1e-300)
        whole += within @ seen
        explained += within**2 @ seen
    left = np.maximum(1 - explained / np.maximum(whole, 1e-300), 0.0)  # of a variance that is λ
    left = np.append(left, np.full(len(expected) - head, left[-1]))
    lowered = np.maximum.accumulate(expected**2 / np.maximum(expected + FEW * left, 1e-300))
    step = np.diff(expected, prepend=0.0)
    matters = step > 1e-9 * expected  # of less, differences are rounding
    mass[:, matters] *= (np.diff(lowered, prepend=0.0)[matters] / step[matters]).clip(0.0, MOST_RAISED)
    some = left > 1e-9  # what is known stays, and the others take the difference
    mass[:, some] *= 1 + (1 - mass.sum(1, keepdims=True)) / np.maximum(mass[:, some].sum(1, keepdims=True), 1e-300)
    return mass


def _free_gain(π: FloatArray, data: Outcomes) -> float:
    """Log-likelihood that free EM steps from the fit gain, over all strata: large where no smooth shape will do."""
    gain = 0.0
    for mass, (A, seen) in zip(π, data.parts, strict=True):
        free = mass
        for _ in range(FREE_STEPS):
            free = em_step(free, A, seen)
        gain += float(seen @ np.log(np.maximum(free @ A, 1e-300) / np.maximum(mass @ A, 1e-300)))
    return gain
