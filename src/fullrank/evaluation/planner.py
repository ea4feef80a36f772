"""The planner that ``evaluate`` and ``plan`` share: which design gives what is wanted of the metrics for the least cost.

What a design will cost and how sure it will be depends on the ranks, which nobody knows yet. But a guess of their
distribution (a pilot's, or the prior's) is enough to make up cases, sample them once to the very end, and read off what
each design would have seen: a rehearsal. Two answers, one quick and one slow:

- *screened*: given P(R), a case's rank follows its own posterior; the sum of Var[M(R) | outcome] over cases is what a
  design leaves open. No fit is needed, so hundreds of designs can be looked at;
- *fitted*: LogSpline on the made-up counts, as the run itself will do. What P(R) itself leaves open is then in it too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, TypeAlias

import numpy as np

from fullrank._types import FloatArray, IntArray
from fullrank.estimators import Estimate, LogSpline, RankDistribution
from fullrank.estimators._grid import Grid
from fullrank.estimators.hyperprior import shipped
from fullrank.estimators.intervals import z_of
from fullrank.estimators.splines import SplineModel
from fullrank.metrics import Metric
from fullrank.ranks.counts import Groups, RankCounts
from fullrank.ranks.design import ALL, Adaptive, Design, Sample

#: Half-width, relative to the value, that is aimed at when none is named.
DEFAULT_PRECISION = 0.02
#: Unreachable population goals: what sampling may leave open, as a share of what the cases leave open.
SMALL = 0.32
#: Half-widths vary a little from sample to sample: plans aim below the goal by this much.
AIM = 0.97
#: A design that leaves nothing open is taken where it scores at most so many times the items of the cheapest that would do.
EXACT_IS_WORTH = 1.15
#: Users that are observed first when the population is the target and there are many more.
FIRST_USERS = 2000
#: Cases that are made up; more would only repeat one another.
MOST_CASES = 20_000
#: Numbers of hits at which designs are tried to stop.
STOPS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 26, 32, 50, 64)
#: Ceilings tried between one doubling and the next.
STEPS = 4
#: Designs that are fitted in search of the cheapest one.
MOST_FITS = 5
#: Outcomes with more hits than this are taken as decided by the screen; fits know better.
MOST_HITS = 200

#: A made-up fit whose value is further off than this factor says nothing of the guess's interval.
MOST_SCALED = 100.0

#: Half-widths, or what else there is one number of, by metric.
ByMetric: TypeAlias = Mapping[Metric, float]


@dataclass(frozen=True, eq=False)
class Guess:
    """A rank distribution to plan with, on few cells; ``rows`` says which row of ``masses`` holds for a (j, T)."""

    grid: Grid
    masses: FloatArray
    groups: Groups  # with the share of the cases as their weight
    rows: IntArray
    n_items: int
    estimator: LogSpline  # what the run will be fitted with
    candidates: str = "unseen"  # what the run's counts will say

    @classmethod
    def prior(cls, n_items: int, candidates: str = "unseen") -> Self:
        """What recommenders usually show: the mean of the prior that LogSpline starts from."""
        grid, estimator = _cells(n_items), LogSpline()
        prior = shipped(estimator.prior_name(candidates))
        weights, means = prior.mean_coefficients(n_items)
        mass = weights @ SplineModel.on(grid, prior.coefficients).mass(means)
        one = np.ones(1, dtype=np.int64)
        groups = Groups(one, one, one - 1, np.ones(1))
        return cls(grid, mass[None, :], groups, one - 1, int(n_items), estimator, candidates)

    @classmethod
    def of(cls, dist: RankDistribution) -> Self:
        """The distribution of a fit, put on the cells of a plan."""
        N = round(dist.counts.n_items)
        grid = _cells(N)
        masses: list[FloatArray] = []
        parts = []
        if dist.fitted is not None:
            masses = [dist.grid.moved(row / max(np.maximum(row, 0).sum(), 1e-300), grid) for row in dist.masses]
            parts.append((*dist.fitted.groups, dist.rows))
        if dist.known is not None:
            known, rows = dist.known, dist.known.strata
            cell = np.searchsorted(grid.hi, np.minimum(known.above + 1, N))
            table = np.zeros((int(rows.max()) + 1, len(grid)))
            np.add.at(table, (rows[known.group_of], cell), known.weight)
            parts.append((*known.groups, rows + len(masses)))
            masses.extend(table / table.sum(1, keepdims=True))
        order, targets, ahead, weight, rows = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        estimator = dist.estimator if isinstance(dist.estimator, LogSpline) else LogSpline()
        groups = Groups(order, targets, ahead, weight / weight.sum())
        return cls(grid, np.stack(masses), groups, rows, N, estimator, dist.counts.candidates)

    @cached_property
    def mass(self) -> FloatArray:
        """P(R′) of a case, whatever its (j, T)."""
        pooled = np.bincount(self.rows, self.groups.weight, len(self.masses)) @ self.masses
        return np.asarray(pooled / pooled.sum())

    @property
    def users_share(self) -> float:
        """Users per case."""
        return float((self.groups.weight / self.groups.targets).sum())

    def gains(self, metric: Metric) -> tuple[FloatArray, FloatArray]:
        """E[M | cell] and E[M² | cell] of a case: the (j, T) that are in a cell, mixed."""
        first, second = self.grid.pooled_gains(metric, self.n_items, self.groups, self.rows)
        whole = np.maximum(self.mass, 1e-300)
        return (self.masses * first).sum(0) / whole, (self.masses * second).sum(0) / whole

    def value(self, metric: Metric) -> float:
        """The metric, a mean over users."""
        return float(self.mass @ self.gains(metric)[0]) / self.users_share

    def floor(self, metric: Metric, cases: float, level: float) -> float:
        """The half-width for the population that even the full ranking of this many cases leaves open."""
        first, second = self.gains(metric)
        variance = max(float(self.mass @ second) - float(self.mass @ first) ** 2, 0.0)
        return z_of(level) * float(np.sqrt(variance / cases)) / self.users_share

    def fitted(
        self, counts: RankCounts, metrics: Iterable[Metric], level: float, cases: int
    ) -> tuple[RankDistribution, dict[Metric, float]]:
        """The fit of made-up counts, and the half-widths that it gives for these cases.

        Chance makes the fit's value larger or smaller than the guess's, and its interval with it: it is put to scale.
        """
        dist = self.estimator.fit(counts)
        found = half_widths(dist, metrics, level, cases=cases)
        scale = {m: abs(self.value(m)) / max(abs(dist.expect(m)), 1e-300) for m in found}
        return dist, {m: half * min(scale[m], MOST_SCALED) for m, half in found.items()}

    def ranks(self, cases: int) -> IntArray:
        """As many ranks, at the quantiles of the distribution: the guess itself, without chance."""
        places = (np.arange(cases) + 0.5) / cases
        top = np.cumsum(self.mass)
        cell = np.minimum(np.searchsorted(top, places), len(self.grid) - 1)
        inside = (places - (top - self.mass)[cell]) / np.maximum(self.mass[cell], 1e-300)
        width = self.grid.width[cell]
        return np.asarray(self.grid.lo[cell] + np.minimum(inside * width, width - 1).astype(np.int64), dtype=np.int64)


def typical(design: Design, guess: Guess, cases: int) -> RankCounts:
    """What a design typically sees of so many cases: its outcomes at the quantiles of their distribution.

    Without chance: designs that are as good as each other are found to be.
    """
    N = guess.n_items
    drawn, hits = design.outcomes(N)
    top = np.cumsum(guess.mass @ guess.grid.law(design, float(N), drawn, hits))
    chosen = np.searchsorted(top, (np.arange(cases) + 0.5) / cases * top[-1])
    return RankCounts.from_outcomes(drawn[chosen], hits[chosen], N, design, candidates=guess.candidates)


def half_widths(
    estimate: Estimate, metrics: Iterable[Metric], level: float, target: Any = "cases", cases: int | None = None
) -> dict[Metric, float]:
    """Half of what the intervals of an estimate span, or would with another number of ``cases``."""
    fewer = 1.0 if cases is None else float(np.sqrt(len(estimate.counts) / cases))
    spans = {m: estimate.interval(m, level=level, target=target) for m in metrics}
    return {m: float(high - low) / 2 * fewer for m, (low, high) in spans.items()}


def _cells(n_items: int) -> Grid:
    """Every rank to 200, then steps of 3 %."""
    return Grid.logarithmic(int(n_items), 200, max(int(np.log(n_items / 200) / 0.03), 2))


@dataclass(frozen=True)
class Candidate:
    """A design that was tried, how many items it scores and what it leaves open of so large a part of the cases."""

    stop: int
    ceiling: int
    items: float  # per case, on the mean
    half_widths: ByMetric
    part: float = 1.0


class Rehearsal:
    """Cases made up from a guess and their hits after ``sizes`` negatives, drawn without replacement.

    Each is sampled to the end, or until it is beaten ``most`` times, which is enough for any design.
    """

    def __init__(
        self, guess: Guess, cases: int, metrics: Iterable[Metric], start: int = 99, level: float = 0.95
    ) -> None:
        N, n = guess.n_items, int(min(cases, MOST_CASES))
        self.guess, self.cases, self.level = guess, int(cases), level
        cut = max((metric.k or MOST_HITS for metric in metrics if not metric.whole_auc), default=10)
        self.most = int(min(cut, STOPS[-1], max(N - 1, 1)))
        stages = [m or N - 1 for m in Adaptive(min(start, max(N - 1, 1)), "all", 1, replace=False).stages(N)]
        between = (round(a + (b - a) * i / STEPS) for a, b in pairwise(stages) for i in range(1, STEPS))
        self.start, self.sizes = stages[0], np.unique([*stages, *between])
        self.doublings = np.isin(self.sizes, stages)
        self.hits = np.zeros((len(self.sizes), n), dtype=np.int64)  # sizes × cases
        rng, ranks = np.random.default_rng(0), guess.ranks(n)
        x, live, before = np.zeros(n, dtype=np.int64), np.arange(n), 0
        for place, m in enumerate(self.sizes.tolist()):
            compared = np.full(len(live), before)
            if len(live):
                _, x[live] = Sample(m, replace=False).simulate(ranks[live], N, rng, before=(compared, x[live]))
            self.hits[place], before = x, m
            if self.doublings[place]:
                live = live[x[live] < self.most]

    def outcomes(self, stop: int, ceiling: int) -> tuple[IntArray, IntArray]:
        """Where in ``sizes`` each case comes to rest, and its hits there."""
        place = np.minimum(self._first(stop), int(np.searchsorted(self.sizes, ceiling)))
        return place, self.hits[place, np.arange(len(place))]

    def _first(self, stop: int) -> IntArray:
        """The first doubling at which each case is beaten ``stop`` times, as a place in ``sizes``."""
        stages = np.flatnonzero(self.doublings)
        beaten = self.hits[stages] >= stop
        return np.where(beaten.any(0), stages[np.argmax(beaten, axis=0)], len(self.sizes) - 1)

    def counts(self, stop: int, ceiling: int) -> RankCounts:
        """The counts that the design would give."""
        place, hits = self.outcomes(stop, ceiling)
        N = self.guess.n_items
        drawn = np.where(self.sizes[place] == N - 1, ALL, self.sizes[place])
        design = Adaptive(self.start, "all" if ceiling >= N - 1 else int(ceiling), int(stop), replace=False)
        return RankCounts.from_outcomes(drawn, hits, N, design, candidates=self.guess.candidates)

    def items(self, stop: int, ceiling: int) -> float:
        """Negatives scored per case."""
        return float(self.sizes[self.outcomes(stop, ceiling)[0]].mean())

    def left_open(self, metric: Metric) -> FloatArray:
        """Var[M(R) | size, hits] for every size and the numbers of hits that leave anything open."""
        N, grid, mass = self.guess.n_items, self.guess.grid, self.guess.mass
        if metric.whole_auc:  # estimated from the first stage, however far a case goes
            share = (0.5 * (grid.lo + grid.hi) - 1) / max(N - 1, 1)
            each = float(mass @ (share * (1 - share))) / self.start * (N - 1 - self.start) / max(N - 2, 1)
            return np.where(self.sizes < N - 1, each, 0.0)[:, None]
        reach = int(min(metric.k or MOST_HITS, MOST_HITS, N))
        first, second = self.guess.gains(metric)
        middle = np.round(np.sqrt(grid.lo.astype(np.float64) * grid.hi))
        out = np.zeros((len(self.sizes), reach + 1))  # the last column: beaten more often, nothing open
        for place, m in enumerate(self.sizes[self.sizes < N - 1].tolist()):
            possible = np.arange(min(reach, m + 1))
            weight = mass[:, None] * Sample(m, replace=False).law(middle, N, np.full(len(possible), m), possible)
            total = np.maximum(weight.sum(0), 1e-300)
            out[place, : len(possible)] = np.maximum(second @ weight / total - (first @ weight / total) ** 2, 0.0)
        return out

    def fitted(self, metrics: Iterable[Metric], stop: int, ceiling: int) -> dict[Metric, float]:
        """The half-widths for these cases that LogSpline gives on the made-up counts, at the guess's own values."""
        return self.guess.fitted(self.counts(stop, ceiling), metrics, self.level, self.cases)[1]

    def candidates(
        self, metrics: Iterable[Metric], least: tuple[int, int] = (1, 0)
    ) -> tuple[list[tuple[float, int, int]], dict[Metric, FloatArray]]:
        """(items per case, stop, ceiling) of designs that go at least as far as ``least``, cheapest first, all screened."""
        stops = sorted({stop for stop in STOPS if least[0] <= stop < self.most} | {max(self.most, least[0])})
        tops = np.flatnonzero(self.sizes >= min(max(least[1], self.start), self.sizes[-1]))
        each = np.arange(self.hits.shape[1])
        left = {}
        for metric in metrics:
            table = self.left_open(metric)
            left[metric] = table[np.arange(len(self.sizes))[:, None], np.minimum(self.hits, table.shape[1] - 1)]
        rows = []
        for stop in stops:
            first = self._first(stop)
            for top in tops:
                place = np.minimum(first, top)
                found = [float(left[metric][place, each].mean()) for metric in left]
                rows.append((float(self.sizes[place].mean()), stop, int(self.sizes[top]), *found))
        rows.sort()
        scale = z_of(self.level) / self.guess.users_share / float(np.sqrt(self.cases))
        widths = {metric: scale * np.sqrt([row[3 + i] for row in rows]) for i, metric in enumerate(left)}
        return [(row[0], int(row[1]), int(row[2])) for row in rows], widths

    def thinned(
        self, goals: ByMetric, floors: ByMetric, least: tuple[int, int] = (1, 0), max_items: float = np.inf
    ) -> tuple[float, int, int]:
        """Users and negatives together, for the population: (share of the cases, stop, ceiling).

        With c items per case, the variance v that a design leaves open of a case and V that of the metric between cases, m
        cases cost c·m and leave (V + v)/m: the best design has the least c·(V + v), whatever the goal. ``floors`` are the
        half-widths that all cases, ranked in full, leave open. With ``max_items``: the narrowest interval within them.
        """
        tried, screen = self.candidates(goals, least)
        items = np.array([each for each, *_ in tried])
        room = AIM * max_items / (items * self.cases)
        # What P(R) leaves open comes on top of the screen, by a factor that falls as designs see more: fits at a few of them
        few = np.unique(np.searchsorted(items, np.geomspace(items[0], items[-1], 7)[:5]))
        fits = [self.fitted(goals, *tried[place][1:]) for place in few]
        enough = np.zeros(len(tried))
        for m, goal in goals.items():
            beyond = np.array([each[m] for each in fits]) ** 2 / np.maximum(screen[m][few] ** 2, 1e-300)
            factor = np.exp(np.interp(np.log(items), np.log(items[few]), np.log(np.clip(beyond, 1e-3, 1e6))))
            enough = np.maximum(enough, (floors[m] ** 2 + factor * screen[m] ** 2) / (AIM * goal) ** 2)
        taken = np.minimum(np.minimum(enough, room), 1.0)  # share of the cases
        excess = np.maximum(enough / np.maximum(taken, 1e-12), 1.0)  # (half-width / goal)²
        best = int(np.lexsort((items * taken, np.round(excess, 2)))[0])
        return float(taken[best]), *tried[best][1:]

    def cheapest(self, goals: ByMetric, least: tuple[int, int] = (1, 0), most_items: float = np.inf) -> Candidate:
        """The cheapest design that is expected to reach every goal (half-widths for these cases).

        Screened first; the winner is fitted, and what the fit finds beyond the screen is asked of the others as well, until
        one holds. With ``most_items`` per case and no design that reaches the goals within them: the one that comes nearest.
        """
        tried, screen = self.candidates(goals, least)
        affordable = np.array([items <= most_items for items, *_ in tried])
        affordable[0] |= not affordable.any()
        ratio = np.max([screen[metric] / goals[metric] for metric in goals], axis=0)

        def pick(beyond: float) -> int:
            """The first that the screen, made ``beyond`` times stricter, lets pass."""
            good = np.flatnonzero(affordable & (ratio <= 1.0 / beyond))
            return int(good[0]) if len(good) else int(np.argmin(np.where(affordable, ratio, np.inf)))

        strict, loose, upper, last = 1.0, 0.0, 0.0, pick(1e300)
        best, widths = pick(1.0), {metric: float(screen[metric][pick(1.0)]) for metric in goals}
        passed = False
        for _ in range(MOST_FITS):
            now = pick(strict)
            if passed and now == best:
                break
            found = self.fitted(goals, *tried[now][1:])
            excess = max(found[metric] / goal for metric, goal in goals.items())
            if excess <= 1.0:
                best, widths, passed = now, found, True
                if loose == 0.0:
                    break
                upper = strict
            else:
                loose = strict
                if not passed:
                    best, widths = now, found
                    if now == last:
                        break
            # between what failed and what passed, or as much stricter as the fit found it to be wider
            further = max(excess / max(float(ratio[now]), 1e-12), 1.05 * loose)
            strict = float(np.sqrt(loose * upper)) if upper else further
        sure = np.flatnonzero(affordable & (ratio == 0.0))  # nothing at all is left open
        if len(sure) and tried[sure[0]][0] <= EXACT_IS_WORTH * tried[best][0]:
            best, widths = int(sure[0]), dict.fromkeys(goals, 0.0)
        items, stop, ceiling = tried[best]
        return Candidate(stop, ceiling, items, widths)


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

    def first_users(self, users: int) -> int:
        """How many of the users a first round observes."""
        return FIRST_USERS if self.target == "population" and users > 2 * FIRST_USERS else users

    def first_round(self, n_items: int, room: float = np.inf) -> tuple[int, int]:
        """Where a first round starts and how far it goes, or fewer negatives where there is not ``room`` for so many."""
        start = self.first_stage(n_items)
        ceiling = int(np.clip(n_items // (4 * self.cut), min(2 * start + 1, n_items - 1), n_items - 1))
        if room < 4 * start:
            start = ceiling = max(int(min(room, start)), 1)
        return start, int(min(ceiling, max(room, start)))

    @property
    def cut(self) -> int:
        """The largest cut-off that is asked for."""
        return max((metric.k or 10 for metric in self.metrics), default=10)

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
        return Rehearsal(guess, cases, self.metrics, start or self.first_stage(guess.n_items), self.level)

    def items_by_prior(self, n_items: int, candidates: str, cases: int) -> float:
        """The items that sampling is expected to take, by the prior's guess of the ranks."""
        guess = Guess.prior(n_items, candidates)
        goals = {m: AIM * goal for m, goal in self.goals(guess).items()}
        return self.rehearse(guess, cases).cheapest(goals).items * cases

    def choose(self, rehearsal: Rehearsal, max_items: float = np.inf, least: tuple[int, int] = (1, 0)) -> Candidate:
        """The cheapest design that is expected to reach the precision, for a part of the cases where that is enough.

        It goes at least as far as ``least``, the (stop, ceiling) of a first round.
        """
        guess, cases = rehearsal.guess, rehearsal.cases
        goals, floors = self.goals(guess), self.floors(guess, cases)
        reachable = all(goal > floors[m] for m, goal in goals.items())
        if self.target == "population" and (reachable or np.isfinite(max_items)):
            part, stop, ceiling = rehearsal.thinned(goals, floors, least, max_items)
            half = {m: width / float(np.sqrt(part)) for m, width in rehearsal.fitted(goals, stop, ceiling).items()}
            return Candidate(stop, ceiling, rehearsal.items(stop, ceiling), half, part)
        return rehearsal.cheapest(self.case_goals(goals, floors), least, AIM * max_items / cases)


def check_precision(precision: Any, absolute: bool) -> float:
    """Return a precision, or refuse what is none."""
    number = isinstance(precision, int | float | np.number) and not isinstance(precision, bool)
    if not number or not precision > 0 or (not absolute and precision >= 1):
        relative = "above zero" if absolute else "between 0 and 1, because it is relative (2% is 0.02)"
        raise ValueError(f"`precision` must be {relative}, got {precision!r}.")
    return float(precision)
