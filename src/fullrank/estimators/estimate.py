"""What estimators return: estimates that answer for any metric, with intervals and bounds.

An estimator is a frozen dataclass with one method, ``fit(counts)``. Its file holds its mathematics; what it is given is in
:mod:`fullrank.estimators.problem`, and what happens once for all of them (the exhaustive rule, intervals) is here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fullrank._threads import ONE_BLAS_THREAD
from fullrank._types import FloatArray, IntArray, Pair
from fullrank.estimators import intervals
from fullrank.estimators._grid import Grid
from fullrank.estimators.bounds import bounds_of
from fullrank.estimators.posterior import Posterior
from fullrank.estimators.problem import (
    Estimator,
    Fit,
    Problem,
    Solve,
    Target,
    build_problem,
    is_exhaustive,
    refuse_compared,
)
from fullrank.metrics import Metric, Recall, parse_metric, rank_offset
from fullrank.ranks.counts import MOST_ITEMS, RankCounts

#: An interval of a rough sample that ends before so much of a case does reaches as far as the bounds.
LEAST_OF_A_CASE = 0.5


@dataclass(frozen=True, eq=False)
class PointEstimate:
    """An estimate that has no rank distribution (CLS, Mapping): it answers ``expect``, ``interval`` and ``bounds``."""

    counts: RankCounts
    estimator: Estimator
    value: Callable[[Metric], float]
    fit_info: Fit = field(default_factory=Fit)
    #: Value and standard error by cases that were ranked in full, by the name of a metric where these refute the estimate
    audit: Mapping[str, Pair] = field(default_factory=dict)

    def expect(self, metric: Metric | str) -> float:
        """Return the estimated value of the metric."""
        return self.value(parse_metric(metric))

    def interval(self, metric: Metric | str, level: float = 0.95, target: Target = "cases") -> Pair:
        """Return (low, high) by refitting to simulated counts; the estimator's own bias is not covered."""
        metric = parse_metric(metric)
        level = intervals.check_interval(level, target)
        span = intervals.refit_interval(self, metric, level)
        return intervals.final_interval(self, metric, self.expect(metric), span, level, target)

    def bounds(self, metric: Metric | str, level: float = 0.95) -> Pair:
        """The least and largest value that the counts alone allow, as :meth:`RankDistribution.bounds` gives them."""
        return bounds_of(self, parse_metric(metric), level)

    def curve(self, metric: Metric | str, ks: int | Iterable[int]) -> FloatArray:
        """Return the metric at every cut-off in ``ks`` (a number means 1..ks)."""
        return np.array([self.expect(parse_metric(metric) @ k) for k in cut_offs(ks)])


@dataclass(frozen=True, eq=False, repr=False)
class RankDistribution:
    """P̂(R) on ranks 1..N, kept on a grid; mass may be signed (BiasVariance, Multinomial) and need not add to one.

    Cases whose rank is known may be kept apart (``known``); the masses then speak for the others. With several targets
    per user there is one distribution of R′ per stratum of (j, T), and ``mass`` and ``cdf`` speak of the rank in the full
    list, R = R′ + j − 1, averaged over users.
    """

    counts: RankCounts
    estimator: Estimator
    grid: Grid
    masses: FloatArray  # (j, T) strata × cells; each row is the distribution of one stratum
    #: Number of candidates that AUC and uncut Precision refer to; None: they vary, AUC comes from the counts
    n_items: float | None
    fit_info: Fit = field(default_factory=Fit)
    known: RankCounts | None = None
    #: What was solved and how, so that intervals can solve it again for simulated counts
    refit: tuple[Problem, Solve] | None = None
    #: The posterior of an estimator that has one; intervals then come from it
    posterior: Posterior | None = None
    #: The row of ``masses`` of each (j, T) of the counts; None: as the counts have them
    strata: IntArray | None = None
    #: Value and standard error by cases that were ranked in full, by the name of a metric where these refute the estimate
    audit: Mapping[str, Pair] = field(default_factory=dict)

    def expect(self, metric: Metric | str) -> float:
        """Return Σ_R P̂(R) M(R), the value the metric would have on the full ranking.

        >>> import fullrank as fr
        >>> counts = fr.RankCounts.from_ranks([1, 1, 2, 5], n_items=50, design="full")
        >>> fr.MLE().fit(counts).expect("recall@2")
        0.75
        """
        metric = parse_metric(metric)
        if metric.whole_auc and self.n_items is None:
            return self.counts.auc
        refuse_closed(self.counts, metric)
        return self._exact_part(metric)[0] + self._smooth_sum(metric) / self.counts.users_weight

    def curve(self, metric: Metric | str, ks: int | Iterable[int]) -> FloatArray:
        """Return the metric at every cut-off in ``ks`` (a number means 1..ks)."""
        metric, cuts = parse_metric(metric), list(cut_offs(ks))
        top = max(cuts, default=0)
        plain = self.known is None and not len(self.counts.groups.weight) > 1 and metric.name != "precision"
        if plain and min(cuts, default=0) >= 1 and top <= len(self.grid) and self.grid.hi[top - 1] == top:
            # what a rank adds does not depend on the cut-off: one running sum serves all of them
            gain = self.grid.mean_gain(metric @ top, self.pool)
            return np.asarray(np.cumsum(self.masses[0, :top] * gain)[np.asarray(cuts) - 1])
        return np.array([self.expect(metric @ k) for k in cuts])

    def mass(self, ranks: ArrayLike) -> FloatArray:
        """Return P̂(R) at the given ranks (zero past the last)."""
        wanted = np.atleast_1d(np.asarray(ranks, dtype=np.int64))
        if len(wanted):
            refuse_closed(self.counts, Recall @ max(int(wanted.max()), 1))
        out = np.zeros(len(wanted))
        if self.known is not None:
            R = 1 + self.known.above + rank_offset(self.known.column("order"))
            seen, which = np.unique(R, return_inverse=True)
            weight = np.bincount(which.ravel(), self.known.weight / self.known.column("targets"))
            place = np.minimum(np.searchsorted(seen, wanted), len(seen) - 1)
            out += np.where(seen[place] == wanted, weight[place], 0.0)
        groups = () if self.fitted is None else zip(*self.fitted.groups, self.rows, strict=True)
        for group, (j, T, ahead, w, row) in enumerate(groups):
            line = w * self.masses[row]
            if self._heads is not None:
                line[: self._heads.shape[1]] = self._heads[group]
            inner = wanted - rank_offset(j, ahead)
            density = np.append(line / self.grid.width, 0.0)  # none past the last cell
            out += np.where(inner >= 1, density[np.searchsorted(self.grid.hi, inner)], 0.0) / T
        return out / self.counts.users_weight

    def interval(self, metric: Metric | str, level: float = 0.95, target: Target = "cases") -> Pair:
        """Return (low, high) around :meth:`expect`.

        ``target="cases"``: what full evaluation of these very cases would show; ``"population"``: of the population they
        come from, which is never narrower. From the posterior of an estimator that has one (LogSpline); else by refitting to
        simulated counts, which does not cover the estimator's own bias. Nothing is scored again.
        """
        metric = parse_metric(metric)
        level = intervals.check_interval(level, target)
        value = self.expect(metric)
        span = self._cases_interval(metric, value, level)
        variance = self._case_variance(metric, value) if target == "population" else None
        return intervals.final_interval(self, metric, value, span, level, target, variance)

    def bounds(self, metric: Metric | str, level: float = 0.95) -> Pair:
        """The least and largest value of the metric that the counts alone allow: what :func:`fullrank.bounds` says.

        They assume nothing about the shape of P(R). AUC, unbiased for any sample, has its interval here.
        """
        return bounds_of(self, parse_metric(metric), level)

    def _cases_interval(self, metric: Metric, value: float, level: float) -> Pair:
        """Return the estimator's own interval for these cases; a point where it knows every rank that matters."""
        counts = self.counts
        decided = bool((counts.all_compared | counts.closed).all())
        if is_exhaustive(counts) or (metric.k is not None and (decided or metric.k <= counts.design.exact_to)):
            return value, value
        if metric.whole_auc and self.n_items is None:
            return intervals.auc_interval(counts, level)
        exact, share = self._exact_part(metric)
        if self.posterior is not None:
            if share == 0:
                return value, value
            low, high = self.posterior.interval(metric, (value - exact) / share, level, self.pool)
            span = exact + share * low, exact + share * high
            # stretching next to nothing leaves it next to nothing
            empty = self.posterior.rough and max(map(abs, span)) * len(counts) < LEAST_OF_A_CASE
            return intervals.hull(span, self.bounds(metric, level)) if self.posterior.needs_bounds or empty else span
        if self._replicates is None:
            return intervals.refit_interval(self, metric, level)
        problem, masses = self._replicates
        pooled, _ = problem.grid.pooled_gains(metric, self.pool, problem.counts.groups, problem.strata)
        values = share * np.tensordot(masses, pooled, 2) / problem.counts.users_weight
        return intervals.replicate_interval(values, value, level)

    @property
    def pool(self) -> float:
        """The number of candidates that gains refer to: the one there is, or their mean."""
        return self.counts.n_items if self.n_items is None else self.n_items

    def _exact_part(self, metric: Metric) -> Pair:
        """What the cases that are known add to the metric, and the share of the others."""
        if self.known is None:
            return 0.0, 1.0
        whole = self.counts.users_weight
        total = float(self.known.weight @ intervals.cell_gains(self.known, metric, self.n_items))
        return total / whole, 1 - self.known.users_weight / whole

    def _case_variance(self, metric: Metric, value: float) -> float:
        """Return Σ w²(gain − value/T)² over the cases; weights have nothing to do with gains."""
        counts = self.counts
        squares = first = 0.0
        from_counts = metric.whole_auc and self.n_items is None
        known = counts if from_counts else self.known
        if known is not None:
            gain = intervals.cell_gains(known, metric)
            squares += float(known.weight @ gain**2)
            first += float(known.weight @ (gain / known.column("targets")))
        if self.fitted is not None and not from_counts:
            groups, rows = self.fitted.groups, self.rows
            squares += float((self.masses * self.grid.pooled_gains(metric, self.pool, groups, rows)[1]).sum())
            by_user = groups._replace(weight=groups.weight / groups.targets)
            first += float((self.masses * self.grid.pooled_gains(metric, self.pool, by_user, rows)[0]).sum())
        total = squares - 2 * value * first + value**2 * float((counts.weight / counts.column("targets") ** 2).sum())
        return total * counts.mean_weight

    def _smooth_sum(self, metric: Metric) -> float:
        """Return Σ weight · gain of the cases that the masses speak for.

        Within a stratum, a case with a smaller j or T has another gain and another rank: the mean gain of the stratum at its
        mean distribution misses how they go together. It serves where nothing better is known.
        """
        fitted, n_items = self.fitted, self.pool
        if fitted is None:
            return 0.0
        groups = fitted.groups
        pooled, _ = self.grid.pooled_gains(metric, n_items, groups, self.rows)
        if len(pooled) == len(groups.weight):
            return float((self.masses * pooled).sum())
        beyond = 0 if self._heads is None else self._heads.shape[1]
        total = float((self.masses * pooled)[:, beyond:].sum())
        if self._heads is not None:
            for _, which, gain in self.grid.gains(metric, n_items, groups, self.rows):
                total += float((self._heads[which, : gain.shape[1]] * gain[:, :beyond]).sum())
        # known ranks further on have the gain of their own (j, T), not the mean of their stratum
        R = fitted.outcomes[:, 1] + 1
        cell = np.searchsorted(self.grid.hi, R)
        seen = np.flatnonzero(fitted.all_compared & (cell >= beyond))
        row = self.rows[fitted.group_of[seen]]
        about = (fitted.column("order")[seen], fitted.column("targets")[seen], fitted.leads[seen])
        own = metric.gain(R[seen], n_items, *about)
        mean = pooled[row, cell[seen]] / np.bincount(self.rows, groups.weight)[row]
        return total + float(fitted.weight[seen] @ (own - mean))

    @property
    def _heads(self) -> FloatArray | None:
        """The weight of every (j, T) at the first ranks, where the posterior tells those of one stratum apart."""
        if self.posterior is None or self.fitted is None or len(self.masses) == len(self.fitted.groups.weight):
            return None
        return self.posterior.heads

    @cached_property
    def _replicates(self) -> tuple[Problem, FloatArray] | None:
        """Fits of what was solved to simulated counts; None where nothing was, or where a prior is fitted with it."""
        if self.refit is None or getattr(self.estimator, "prior", None) is not None:
            return None
        with ONE_BLAS_THREAD:
            return intervals.simulated(*self.refit)

    def cdf(self, k: ArrayLike) -> FloatArray | float:
        """Return P̂(R ≤ k), which is Recall@k; of ``inf``, the sum of all mass."""
        values = [self._up_to(each) for each in np.atleast_1d(np.asarray(k)).tolist()]
        return values[0] if np.ndim(k) == 0 else np.array(values)

    def _up_to(self, k: float) -> float:
        if np.isnan(k):
            raise ValueError("`k` must be a rank, or several, got nan.")
        return 0.0 if k < 1 else self.expect(Recall if k > MOST_ITEMS else Recall @ int(k))

    def plot(self) -> Any:
        """An Altair chart of P̂(R) on a logarithmic axis, blind spot shaded. Needs the extra ``report``."""
        return import_module("fullrank.report.charts").plot_distribution(self)

    def _repr_html_(self) -> str:
        # by name: the stage above shows what this one makes, and this one does not depend on it
        return str(import_module("fullrank.report.notebook").distribution_html(self))

    @cached_property
    def fitted(self) -> RankCounts | None:
        """The counts that the masses speak for, each stratum of (j, T) with a row of them."""
        if not len(self.grid):
            return None
        if self.counts.has_compared_part:
            return self.counts.sampled_part()[1]
        return self.counts if self.known is None else self.counts.known()[1]

    @property
    def rows(self) -> IntArray:
        """The row of ``masses`` of each (j, T) of :attr:`fitted`."""
        if self.strata is not None:
            return self.strata
        return np.empty(0, dtype=np.int64) if self.fitted is None else self.fitted.strata

    def __repr__(self) -> str:
        return f"<RankDistribution by {describe(self.estimator)}: {self.counts}>"


def fit_distribution(
    estimator: Estimator,
    counts: RankCounts,
    solve: Solve,
    *,
    n_items: str = "bins",
    all_outcomes: bool = False,
    compared: bool = False,
) -> RankDistribution:
    """Fit by ``solve``, which turns a :class:`Problem` into masses (strata × cells).

    ``all_outcomes``: linear estimators weigh what was *not* seen too, so their laws run over every possible outcome.
    ``compared``: whether a law of the rank among the rest will do, where a part of the candidates was compared.
    Where every rank is known (``Exhaustive``), the answer is the empirical distribution whatever the estimator.
    """
    if is_exhaustive(counts):
        return empirical(estimator, counts)
    behind = counts.has_compared_part
    if not compared:
        refuse_compared(counts, type(estimator).__name__)
    known, unknown = counts.sampled_part() if behind else counts.known()
    if unknown is None:
        return taken_as_known(estimator, counts, counts, None)
    if not (behind or counts.design.plain):  # whether a case is known in the end depends on its rank: it stays in
        known, unknown = None, counts
    problem = build_problem(unknown, n_items, all_outcomes)
    with ONE_BLAS_THREAD:
        masses, fit = solve(problem)
    alone = len(problem.tables) == 1 and known is None and not behind and not counts.several_targets
    single = problem.tables[0].n_items if alone else None
    return RankDistribution(counts, estimator, problem.grid, masses, single, fit, known, (problem, solve))


def empirical(estimator: Estimator, counts: RankCounts) -> RankDistribution:
    """Return the empirical distribution of ranks that are all known."""
    return taken_as_known(estimator, counts, counts, None if counts.varying_pool else counts.n_items)


def taken_as_known(
    estimator: Estimator, counts: RankCounts, known: RankCounts, n_items: float | None
) -> RankDistribution:
    """A distribution with no smooth part: every case of ``known`` stands at the rank it shows."""
    return RankDistribution(counts, estimator, Grid.dense(0), np.empty((0, 0)), n_items, known=known)


def cut_offs(ks: int | Iterable[int]) -> Iterable[int]:
    """Return the cut-offs a user means: a number stands for 1..ks."""
    if isinstance(ks, int | np.integer):
        return range(1, int(ks) + 1)
    if not np.iterable(ks):
        raise TypeError(f"`ks` must be a cut-off, such as 10 for 1..10, or several of them, got {ks!r}.")
    return ks


def refuse_closed(counts: RankCounts, metric: Metric) -> None:
    """For metrics that reach beyond where cases were closed: of those, only that R is at least j + ahead is known."""
    reach = np.inf if metric.k is None else metric.k
    beyond = counts.closed & (rank_offset(counts.column("order"), counts.column("ahead")) < reach)
    if beyond.any():
        most = "None" if metric.k is None else f"at least {metric.k}"
        raise ValueError(
            f"`{metric}` is not known: {int(counts.cases[beyond].sum()):,} cases were closed when "
            f"{int(counts.column('ahead')[beyond].min())} items had beaten their target; `stop_at` must be {most}."
        )


def describe(estimator: object) -> str:
    """Name an estimator briefly, with the parameters that differ from their defaults.

    >>> import fullrank as fr
    >>> describe(fr.Multinomial(prior=fr.MLE()))
    'Multinomial(prior=MLE)'
    """
    name = type(estimator).__name__
    if not is_dataclass(estimator):
        return name
    parameters = [
        f"{each.name}={describe(value) if is_dataclass(value) else value}"
        for each in fields(estimator)
        if not isinstance(value := getattr(estimator, each.name), np.ndarray) and value != each.default
    ]
    return f"{name}({', '.join(parameters)})" if parameters else name
