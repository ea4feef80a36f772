"""Many samples from known ranks, and what every estimator makes of them, at once.

A sample of a case whose rank is known is one binomial or hypergeometric draw, so nothing is scored. All repeats of an
experiment share outcomes, grid and law: they are the rows of one table, and estimators that solve a table row by row
solve them together. Samples of different models are independent draws here, not the same negatives.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators import (
    CLS,
    MLE,
    BiasVariance,
    Estimator,
    LogSpline,
    MaxEntropy,
    Multinomial,
    Naive,
    RankDistribution,
    RankEstimate,
    WeightedMLE,
)
from ..estimators._grid import Grid
from ..estimators.estimate import Problem, one_thread, with_all_outcomes
from ..estimators.least_squares import constrained, solve_linear
from ..metrics import AP, AUC, NDCG, Metric, Recall
from ..ranks.counts import PoolTable, RankCounts
from ..ranks.design import Adaptive, Design, Sample, parse_design
from .ranks import Ranks, code_key, keep, kept, key_of

__all__ = ["CUTS", "ESTIMATORS", "METRICS", "Samples", "column", "exact", "expected", "sampled", "theory", "values"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Cut-offs of the papers, and every metric that their tables need: one fit answers all.
CUTS = range(1, 51)
METRICS: tuple[Metric, ...] = (*(m @ k for m in (Recall, NDCG, AP) for k in CUTS), AP, NDCG, AUC)
#: P̂(R) is kept to this rank, for figures.
HEAD = 200

#: The papers' names. MES as the authors ran it: η = 0.01/n (SPEC of jin21's code, not of its text).
MES = MaxEntropy(eta="authors")
ESTIMATORS: dict[str, Estimator] = {
    "sampled": Naive(),
    "rank_estimate": RankEstimate(),
    "rank_estimate, m+1": RankEstimate(),
    "CLS": CLS(),
    "BV1": BiasVariance(1.0),
    "BV0.1": BiasVariance(0.1),
    "BV0.01": BiasVariance(0.01),
    "BV0.001": BiasVariance(0.001),
    "MLE": MLE(),
    "WMLE": WeightedMLE(),
    "MES": MES,
    "BV_MLE": BiasVariance(0.01, prior=MLE()),
    "BV_MES": BiasVariance(0.01, prior=MES),
    "MN_MLE": Multinomial(prior=MLE()),
    "MN_MES": Multinomial(prior=MES),
    "adaptive_MLE": MLE(),
    "LogSpline": LogSpline(),
    "adaptive_LogSpline": LogSpline(),
}
#: Added to a name: the prior of BV_* and MN_* is the repeat's own estimate, not the mean of all repeats (as published).
OWN = ", own prior"
#: Added to a name: (N−1)(r−1)/(m+1) for the rank instead of eq. 20's (N−1)(r−1)/m.
PLUS = ", m+1"


def column(metric: str | Metric) -> int:
    """Where a metric stands in the arrays of :func:`values`."""
    names = [str(each) for each in METRICS]
    return names.index(str(metric))


def exact(ranks: Ranks, metrics: Sequence[Metric] = METRICS) -> FloatArray:
    """The metrics of the full ranking."""
    return np.array([metric.gain(ranks.ranks, ranks.pool).mean() for metric in metrics])


# ------------------------------------------------------------------------------------------------ samples


@dataclass(frozen=True, eq=False)
class Samples:
    """``repeats`` samples of the same cases: how often each outcome (drawn, hits) came, a row per repeat.

    ``design`` is the law they are corrected with, which may differ from the one they were drawn by; ``n_items`` the one
    number of candidates that the correction takes (the mean, where cases differ).
    """

    drawn: IntArray
    hits: IntArray
    seen: FloatArray
    n_items: float
    design: Design

    @property
    def cases(self) -> int:
        """M."""
        return round(float(self.seen[0].sum()))

    def counts(self, repeat: int = 0) -> RankCounts:
        """One repeat as counts; users are not told apart, so that counts are small."""
        times = np.round(self.seen[repeat]).astype(np.int64)
        hits = np.repeat(self.hits, times)
        made = RankCounts.from_outcomes(
            np.repeat(self.drawn, times), hits, round(self.n_items), self.design, users=np.zeros(len(hits), np.int64),
            candidates="all",  # as in every table that LogSpline stands in (jin21, li23)
        )  # fmt: skip
        scale = self.n_items / made.n_items  # a mean of pools need not be whole
        return replace(made, pool_weight=made.pool_weight * scale)

    @cached_property
    def problem(self) -> Problem:
        """All repeats as rows of one table, seen outcomes only."""
        return self._problem(PoolTable(self.n_items, self.drawn, self.hits, self.seen), False)

    @cached_property
    def full_problem(self) -> Problem:
        """The same with every possible outcome, as linear estimators want it."""
        table = PoolTable(self.n_items, self.drawn, self.hits, self.seen)
        return self._problem(with_all_outcomes(self.counts(), table), True)

    def _problem(self, table: PoolTable, every: bool) -> Problem:
        grid = Grid.for_tables([table], self.design.replace)
        law = grid.law(self.design, table.n_items, table.drawn, table.hits)
        return Problem(self.counts(), grid, [table], [law], every)


def sampled(
    ranks: Ranks, design: Design | str, repeats: int, rng: np.random.Generator, law: Design | str | None = None
) -> Samples:
    """Draw ``repeats`` samples by ``design``; correct them as if drawn by ``law`` (the same, unless given)."""
    design = parse_design(design)
    found: list[tuple[IntArray, IntArray]] = []
    for _ in range(repeats):
        drawn, hits = _draw(ranks.ranks, ranks.pool, design, rng)
        keys, times = np.unique(drawn << 32 | hits, return_counts=True)
        found.append((keys, times))
    every = np.unique(np.concatenate([keys for keys, _ in found]))
    seen = np.zeros((repeats, len(every)))
    for row, (keys, times) in zip(seen, found, strict=True):
        row[np.searchsorted(every, keys)] = times
    corrected = design if law is None else parse_design(law)
    return Samples(every >> 32, every & 0xFFFFFFFF, seen, ranks.n_items, corrected)


def _draw(R: IntArray, N: IntArray, design: Design, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """(drawn, hits) of every case; a stage that stays below ``stop_at`` is followed by the next."""
    if not isinstance(design, Sample | Adaptive):
        raise ValueError(f"samples are drawn by 'uni99' or an adaptive design, not by '{design}'.")
    if isinstance(design, Adaptive) and not design.replace:
        raise ValueError(f"'{design}': experiments draw adaptive samples with replacement, as published.")
    stages = design.stages(int(N.max()))
    stop = design.stop_at or 1 if isinstance(design, Adaptive) else 0
    drawn = np.zeros(len(R), dtype=np.int64)
    hits = np.zeros(len(R), dtype=np.int64)
    going = np.arange(len(R))
    for size in stages:
        more = size - drawn[going]
        better, worse = R[going] - 1, N[going] - R[going]
        if design.replace:
            hits[going] += rng.binomial(more, better / (N[going] - 1))
        else:
            hits[going] += rng.hypergeometric(better, worse, np.minimum(more, N[going] - 1))
        drawn[going] = size
        going = going[hits[going] < stop]
    return drawn, hits


# ------------------------------------------------------------------------------------------------ fits


@dataclass(frozen=True, eq=False)
class Given:
    """A rank distribution that is known, as an estimator: the prior of BV_* and MN_*."""

    distribution: RankDistribution

    def fit(self, counts: RankCounts) -> RankDistribution:
        """Always the same."""
        return self.distribution


def fits(name: str, samples: Samples, progress: Callable[[], object] = lambda: None) -> tuple[FloatArray, FloatArray]:
    """Every metric in every repeat (repeats × METRICS), and the mean P̂ of ranks 1..HEAD (NaN where there is none)."""
    own = name.endswith(OWN)
    estimator = ESTIMATORS[name.removesuffix(OWN)]
    nothing = np.full(HEAD, np.nan)
    with one_thread():
        if isinstance(estimator, LogSpline):
            return _one_by_one(estimator, samples, progress)
        if isinstance(estimator, Naive | RankEstimate):
            return _shares(samples) @ _weights_one_by_one(estimator, samples, name.endswith(PLUS)), nothing
        if isinstance(estimator, CLS):
            corrected = constrained(samples.full_problem)
            weights = np.stack([corrected(metric, "", 1, 1) for metric in METRICS], axis=1)
            table = samples.full_problem.tables[0]
            return table.weight / table.weight.sum(1, keepdims=True) @ weights, nothing
        problem, masses = _masses(estimator, samples, own)
        return _answers(problem.grid, masses, samples.n_items), _head(problem.grid, masses)


def _masses(estimator: Estimator, samples: Samples, own: bool = False) -> tuple[Problem, FloatArray]:
    """P̂ on the problem's grid, a row per repeat."""
    prior = getattr(estimator, "prior", None)
    if prior is not None:
        return _with_prior(estimator, samples, own)  # type: ignore[arg-type]  # only these two have a prior
    if isinstance(estimator, BiasVariance | Multinomial):
        problem = samples.full_problem
        return problem, solve_linear(estimator, problem)[0]
    problem = samples.problem
    again = estimator.fit(samples.counts())
    solve = again.again[1] if isinstance(again, RankDistribution) and again.again else None
    if solve is None:
        raise ValueError(f"{estimator!r} does not solve a table of counts: it cannot be repeated at once.")
    return problem, solve(problem)[0]


def _with_prior(estimator: BiasVariance | Multinomial, samples: Samples, own: bool) -> tuple[Problem, FloatArray]:
    """BV_* and MN_*: the prior is the mean P̂ of all repeats (as published), or each repeat's own."""
    if estimator.prior is None:
        raise ValueError(f"{estimator!r} has no prior to fit.")
    source, found = _masses(estimator.prior, samples)
    problem = samples.full_problem

    def given(masses: FloatArray) -> BiasVariance | Multinomial:
        known = RankDistribution(problem.counts, estimator, source.grid, masses[None], samples.n_items)
        return replace(estimator, prior=Given(known))

    if not own:
        return problem, solve_linear(given(found.mean(0)), problem)[0]
    (table,) = problem.tables
    rows = [
        solve_linear(given(masses), replace(problem, tables=[replace(table, weight=weight[None])]))[0][0]
        for masses, weight in zip(found, table.weight, strict=True)
    ]
    return problem, np.stack(rows)


def _answers(grid: Grid, masses: FloatArray, n_items: float) -> FloatArray:
    gains = np.zeros((len(grid), len(METRICS)))
    for place, metric in enumerate(METRICS):
        gain = grid.mean_gain(metric, n_items)
        gains[: len(gain), place] = gain
    return masses @ gains


def _head(grid: Grid, masses: FloatArray) -> FloatArray:
    out = np.zeros(HEAD)
    one = grid.width[:HEAD] == 1
    out[: len(one)][one] = masses.mean(0)[:HEAD][one]
    return out


def _shares(samples: Samples) -> FloatArray:
    return np.asarray(samples.seen / samples.seen.sum(1, keepdims=True))


def _weights_one_by_one(estimator: Naive | RankEstimate, samples: Samples, plus: bool) -> FloatArray:
    """What a case of each outcome counts for: the estimate of that case alone."""
    rows = []
    for drawn, hits in zip(samples.drawn, samples.hits, strict=True):
        if plus:
            R = np.floor(1 + (samples.n_items - 1) * hits / (drawn + 1) + 1e-9)
            rows.append([float(metric.gain(R, samples.n_items)) for metric in METRICS])
            continue
        alone = replace(samples, drawn=np.array([drawn]), hits=np.array([hits]), seen=np.ones((1, 1)))
        fitted = estimator.fit(alone.counts())
        rows.append([fitted.expect(metric) for metric in METRICS])
    return np.array(rows)


def _one_by_one(
    estimator: Estimator, samples: Samples, progress: Callable[[], object]
) -> tuple[FloatArray, FloatArray]:
    rows, heads = [], []
    for repeat in range(len(samples.seen)):
        fitted: Any = estimator.fit(samples.counts(repeat))
        rows.append(_answers(fitted.grid, fitted.masses, samples.n_items)[0])
        heads.append(fitted.mass(np.arange(1, HEAD + 1)))
        progress()
    return np.array(rows), np.mean(heads, axis=0)


# ------------------------------------------------------------------------------------------------ kept values


def values(
    ranks: Ranks, estimator: str, design: str, repeats: int, seed: int, law: str | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(repeats × METRICS, mean P̂(1..HEAD), mean sample size per repeat), from the cache where it was done before.

    The seed is mixed with the model's key, so that models are independent, and with nothing else: every estimator sees
    the same samples.
    """
    key = key_of("values", ranks.key, estimator, design, law, repeats, seed, code_of(estimator))
    found = kept("values", key)
    if found is None:
        samples = sampled(ranks, design, repeats, stream(ranks, design, seed), law)
        answers, head = fits(estimator, samples)
        size = _shares(samples) @ (samples.drawn + 1.0)
        found = {"values": answers, "head": head, "size": size}
        keep("values", key, **found)
    return found["values"], found["head"], found["size"]


def code_of(name: str) -> str:
    """A fingerprint of the files that an estimator's mathematics is in: other estimators may change without it."""
    estimator = ESTIMATORS[name.removesuffix(OWN)]
    files = {"_grid.py"}
    for each in (estimator, getattr(estimator, "prior", None)):
        if each is not None:
            files.add(type(each).__module__.rsplit(".", 1)[-1] + ".py")
    if isinstance(estimator, LogSpline):
        files.add("hyperprior.json")
    return code_key("estimators", *sorted(files))


def stream(ranks: Ranks, design: str, seed: int) -> np.random.Generator:
    """The random stream of an experiment's samples of one model."""
    return np.random.default_rng([seed, zlib.crc32(f"{ranks.key} {design}".encode())])


# ------------------------------------------------------------------------------------------------ theory


def expected(ranks: Ranks, law: Design) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """The outcomes (drawn, hits), their expected shares p̄ = Σ_R P(R) a_R, and Σ_R P(R) a_R a_Rᵀ."""
    N = round(ranks.n_items)
    drawn, hits = law.outcomes(N)
    R, times = np.unique(ranks.ranks, return_counts=True)
    mean, second = np.zeros(len(drawn)), np.zeros((len(drawn), len(drawn)))
    for first in range(0, len(R), 1024):
        part = slice(first, first + 1024)
        a = law.law(R[part], N, drawn, hits)
        mean += times[part] @ a
        second += (a * times[part, None]).T @ a
    return drawn, hits, mean / len(ranks.ranks), second / len(ranks.ranks)


def theory(ranks: Ranks, estimator: str, design: str) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation over samples of every metric, computed: no sample is drawn.

    p̃ has mean p̄ = Σ_R P(R) a_R and covariance C = Σ_R P(R)(diag a_R − a_R a_Rᵀ)/M, where a_R is the law of the outcome at
    rank R. With C = Σ λ_k v_k v_kᵀ an estimator f of p̃ has mean f(p̄) + ½ Σ_k [f(p̄ + √λ_k v_k) + f(p̄ − √λ_k v_k) − 2f(p̄)] and
    variance Σ_k [f(p̄ + √λ_k v_k) − f(p̄ − √λ_k v_k)]²/4: exact where f is linear in p̃ (sampled, CLS, BV), to second order in
    1/√M where it is not (MLE, MES).
    """
    key = key_of("theory", ranks.key, estimator, design, code_of(estimator))
    found = kept("values", key)
    if found is None:
        law, N, M = parse_design(design), round(ranks.n_items), len(ranks.ranks)
        drawn, hits, mean, second = expected(ranks, law)
        spread, directions = np.linalg.eigh((np.diag(mean) - second) / M)
        step = (directions * np.sqrt(np.maximum(spread, 0.0))).T
        points = np.concatenate([mean[None], mean + step, mean - step])
        nonlinear = isinstance(ESTIMATORS[estimator], MLE | WeightedMLE | MaxEntropy)
        samples = Samples(drawn, hits, (np.maximum(points, 0.0) if nonlinear else points) * M, float(N), law)
        answers = fits(estimator, samples)[0]
        middle, up, down = answers[0], answers[1 : len(step) + 1], answers[len(step) + 1 :]
        found = {
            "mean": middle + 0.5 * (up + down - 2 * middle).sum(0),
            "sd": np.sqrt((((up - down) / 2) ** 2).sum(0)),
        }
        keep("values", key, **found)
    return found["mean"], found["sd"]
