"""Many samples of known rankings, and what every estimator makes of them.

Where it is known which items stand before each target, negatives are drawn item by item, the same for every model, as li23
did. Elsewhere (toys, and catalogues too large for that) a sample is one binomial or hypergeometric draw from the rank, on
its own for every model. Each sample becomes `fullrank.RankCounts` and each estimator is fitted to it as anyone would.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

from .comparing import draw
from .keeping import keep, kept, key_of, library_code, own_code
from .ranks import Ranks

__all__ = [
    "CUTS", "ESTIMATORS", "METRICS", "Samples", "answers", "column", "corrected", "exact", "expected", "fits", "sampled",
    "stream", "theory", "value_code", "values", "weighted",
]  # fmt: skip

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Cut-offs of the papers, and every metric that their tables need: one fit answers all.
CUTS = range(1, 51)
METRICS: tuple[fr.Metric, ...] = (
    *(metric @ k for metric in (fr.Recall, fr.NDCG, fr.AP) for k in CUTS), fr.AP, fr.NDCG, fr.AUC
)  # fmt: skip


@dataclass(frozen=True)
class RankEstimatePlus:
    """kr20's rank estimate with (N−1)(r−1)/(m+1) for the rank instead of eq. 20's (N−1)(r−1)/m."""

    def fit(self, counts: fr.RankCounts) -> fr.RankDistribution:
        """Each case at its estimated rank."""
        R = np.floor(1 + (counts.n_items - 1) * counts.column("hits") / (counts.column("drawn") + 1) + 1e-9)
        return at_ranks(R, counts.weight, counts.n_items)


#: The papers' names. MES as the authors ran it: η = 0.01/n (that of jin21's code, not of its text).
MES = fr.MaxEntropy(eta="authors")
ESTIMATORS: dict[str, fr.Estimator] = {
    "sampled": fr.Naive(),
    "rank_estimate": fr.RankEstimate(),
    "rank_estimate, m+1": RankEstimatePlus(),
    "CLS": fr.CLS(),
    "BV1": fr.BiasVariance(1.0),
    "BV0.1": fr.BiasVariance(0.1),
    "BV0.01": fr.BiasVariance(0.01),
    "BV0.001": fr.BiasVariance(0.001),
    "MLE": fr.MLE(),
    "WMLE": fr.WeightedMLE(),
    "MES": MES,
    "BV_MLE": fr.BiasVariance(0.01, prior=fr.MLE()),
    "BV_MES": fr.BiasVariance(0.01, prior=MES),
    "MN_MLE": fr.Multinomial(prior=fr.MLE()),
    "MN_MES": fr.Multinomial(prior=MES),
    "adaptive_MLE": fr.MLE(),
    "LogSpline": fr.LogSpline(),
    "adaptive_LogSpline": fr.LogSpline(),
}
#: Those whose answer is linear in the shares of outcomes: Σ p̃(o) M̂(o), see :func:`corrected`.
LINEAR = ("sampled", "rank_estimate", "rank_estimate, m+1", "CLS", "BV1", "BV0.1", "BV0.01", "BV0.001")
#: Whose mean P̂ over all repeats is the prior (as published).
POOLED = {"BV_MLE": "MLE", "BV_MES": "MES", "MN_MLE": "MLE", "MN_MES": "MES"}
#: Added to a name: the prior of BV_* and MN_* is the repeat's own estimate.
OWN = ", own prior"
#: Added to a name and to its design: drawn as the code of li23 does it (see :func:`fullrank_papers.comparing.draw`).
CODED = ", as coded"


def column(metric: str | fr.Metric) -> int:
    """Where a metric stands in the arrays of :func:`values`."""
    names = [str(each) for each in METRICS]
    return names.index(str(metric))


def exact(ranks: Ranks, metrics: Sequence[fr.Metric] = METRICS) -> FloatArray:
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
    seen: IntArray
    n_items: float
    design: fr.Design
    candidates: str

    @property
    def cases(self) -> int:
        """M."""
        return int(self.seen[0].sum())

    def counts(self, repeat: int = 0) -> fr.RankCounts:
        """One repeat as counts; users are not told apart, so that counts are small."""
        hits, drawn = (np.repeat(each, self.seen[repeat]) for each in (self.hits, self.drawn))
        M = len(hits)
        total = round(self.n_items * M)
        pools = total // M + (np.arange(M) < total % M)  # whole numbers whose mean is `n_items`
        made = fr.RankCounts.from_ranks(
            hits + 1, pools, self.design, drawn=drawn, users=np.zeros(M, dtype=np.int64), candidates=self.candidates
        )
        return made.with_mean_pool() if total % M else made


def weighted(drawn: IntArray, hits: IntArray, weights: FloatArray, n_items: int, design: fr.Design) -> fr.RankCounts:
    """Counts of outcomes that came as often as ``weights`` say, which need not be whole."""
    return fr.RankCounts.from_ranks(hits + 1, n_items, design, drawn=drawn, weights=weights)


def sampled(ranks: Ranks, design: str, repeats: int, seed: int, law: str | None = None) -> Samples:
    """Draw ``repeats`` samples by ``design``; correct them as if drawn by ``law`` (the same, unless given).

    Kept, as every estimator looks at the same ones.
    """
    corrected_by = fr.parse_design(design.removesuffix(CODED) if law is None else law)
    key = key_of("samples", ranks.key, ranks.code, design, repeats, seed, sample_code())
    found = kept("samples", key)
    if found is None:
        drawn, hits, seen = _outcomes(ranks, design, repeats, seed)
        found = {"drawn": drawn, "hits": hits, "seen": seen}
        keep("samples", key, **found)
    return Samples(found["drawn"], found["hits"], found["seen"], ranks.n_items, corrected_by, ranks.candidates)


def _outcomes(ranks: Ranks, design: str, repeats: int, seed: int) -> tuple[IntArray, IntArray, IntArray]:
    """The outcomes (drawn, hits) that came, and how often in each repeat."""
    found: list[tuple[IntArray, IntArray]] = []
    drawn_by, coded = fr.parse_design(design.removesuffix(CODED)), design.endswith(CODED)
    if drawn_by.exact_to:
        raise ValueError(f"samples are drawn by 'uni99' or an adaptive design, not by '{design}'.")
    if drawn_by.grows and not drawn_by.replace:
        raise ValueError(f"'{design}': experiments draw adaptive samples with replacement, as published.")
    rng = stream(ranks, design, seed)
    for repeat in range(repeats):
        if ranks.cases is not None:
            drawn, hits = draw(ranks.cases, drawn_by, ranks.candidates, seed, repeat, coded=coded)
        elif coded:
            drawn, hits = _as_coded(ranks.ranks, ranks.pool, drawn_by, rng)
        else:
            drawn, hits = drawn_by.simulate(ranks.ranks, ranks.pool, rng)
        keys, times = np.unique(drawn << 32 | hits, return_counts=True)
        found.append((keys, times))
    every = np.unique(np.concatenate([keys for keys, _ in found]))
    seen = np.zeros((repeats, len(every)), dtype=np.int64)
    for row, (keys, times) in zip(seen, found, strict=True):
        row[np.searchsorted(every, keys)] = times
    return every >> 32, every & 0xFFFFFFFF, seen


def _as_coded(R: IntArray, N: IntArray, design: fr.Design, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """(drawn, hits) of every case as the code of li23 draws: one item more, the target among those that may be drawn."""
    drawn, hits, left, have = np.zeros_like(R), np.zeros_like(R), np.arange(len(R)), 0
    for size in design.stages(int(N.max())):
        hits[left] += rng.binomial(size + 1 - have, (R[left] - 1) / N[left])
        drawn[left], have = size, size + 1
        left = left[hits[left] < int(getattr(design, "stop_at", None) or 1)]
    return drawn, np.minimum(hits, drawn)


# ------------------------------------------------------------------------------------------------ fits


def at_ranks(ranks: FloatArray | IntArray, weights: FloatArray, n_items: float) -> fr.RankDistribution:
    """The distribution that has these weights at these ranks."""
    low = int(n_items)
    # two cases of weight 1 − x and x among N and N + 1 candidates stand for one among N + x
    pools, shares = np.array([low, low + 1]), np.array([low + 1 - n_items, n_items - low])
    known = fr.RankCounts.from_ranks(
        np.repeat(ranks, 2), np.tile(pools, len(ranks)), fr.Exhaustive(), weights=np.outer(weights, shares).ravel(),
        users=np.zeros(2 * len(ranks), dtype=np.int64),
    )  # fmt: skip
    return fr.Naive().fit(known.with_mean_pool())


@dataclass(frozen=True, eq=False)
class Given:
    """A rank distribution that is known, as an estimator: the prior of BV_* and MN_*. ``mass`` is P(1), P(2), …, P(N)."""

    mass: FloatArray

    def fit(self, counts: fr.RankCounts) -> fr.RankDistribution:
        """Always the same."""
        return self._distribution

    @cached_property
    def _distribution(self) -> fr.RankDistribution:
        return at_ranks(np.arange(1, len(self.mass) + 1), np.maximum(self.mass, 0.0), len(self.mass))


def answers(estimate: Any) -> FloatArray:
    """METRICS by an estimate."""
    curves = [estimate.curve(metric, CUTS) for metric in (fr.Recall, fr.NDCG, fr.AP)]
    return np.concatenate([*curves, [estimate.expect(metric) for metric in METRICS[3 * len(CUTS) :]]])


def fits(name: str, samples: Samples, prior: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Every metric in every repeat (repeats × METRICS), and the mean P̂ of ranks 1..N (NaN where there is none).

    ``prior`` is the mean P̂ that BV_* and MN_* take for their prior, found here unless given.
    """
    estimator: Any = ESTIMATORS[name.removesuffix(OWN).removesuffix(CODED)]
    if name in POOLED:
        estimator = replace(estimator, prior=Given(fits(POOLED[name], samples)[1] if prior is None else prior))
    every = np.arange(1, int(np.ceil(samples.n_items)) + 1)
    rows, mass = [], np.zeros(len(every))
    for repeat in range(len(samples.seen)):
        fitted = estimator.fit(samples.counts(repeat))
        rows.append(answers(fitted))
        mass += fitted.mass(every) if isinstance(fitted, fr.RankDistribution) else np.nan
    return np.array(rows), mass / len(rows)


def corrected(name: str, design: fr.Design, n_items: int) -> FloatArray:
    """M̂ of a LINEAR estimator (kr20 §5), outcomes × METRICS: what it makes of a case that is alone."""
    alone = (
        weighted(m, x, np.ones(1), n_items, design) for m, x in np.stack(design.outcomes(n_items), axis=1)[:, :, None]
    )
    return np.stack([answers(ESTIMATORS[name].fit(each)) for each in alone])


# ------------------------------------------------------------------------------------------------ kept values


def values(
    ranks: Ranks, estimator: str, design: str, repeats: int, seed: int, law: str | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(repeats × METRICS, mean P̂(1..N), mean sample size per repeat), from the cache where it was done before.

    Every estimator sees the same samples, and models see the same negatives where these are drawn item by item.
    """
    key = key_of("values", ranks.key, ranks.code, estimator, design, law, repeats, seed, value_code())
    found = kept("values", key)
    if found is None:
        prior = values(ranks, POOLED[estimator], design, repeats, seed, law)[1] if estimator in POOLED else None
        samples = sampled(ranks, design, repeats, seed, law)
        answered, mass = fits(estimator, samples, prior)
        size = samples.seen @ (samples.drawn + 1.0) / samples.cases
        found = {"values": answered, "mass": mass, "size": size}
        keep("values", key, **found)
    return found["values"], found["mass"], found["size"]


def sample_code() -> str:
    """A fingerprint of the code that kept samples rest on, besides that of the ranks: estimators come after."""
    return key_of(library_code("estimators"), own_code("simulate.py", "comparing.py"))


def value_code() -> str:
    """A fingerprint of the code that kept values rest on, besides that of the ranks."""
    return key_of(library_code(), own_code("simulate.py", "comparing.py"))


def stream(ranks: Ranks, design: str, seed: int) -> np.random.Generator:
    """The random stream of samples that are drawn from the ranks of one model."""
    return np.random.default_rng([seed, zlib.crc32(f"{ranks.key} {design}".encode())])


# ------------------------------------------------------------------------------------------------ theory


def expected(ranks: Ranks, law: fr.Design) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
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
    key = key_of("theory", ranks.key, ranks.code, estimator, design, value_code())
    found = kept("values", key)
    if found is None:
        law, N, M = fr.parse_design(design), round(ranks.n_items), len(ranks.ranks)
        drawn, hits, mean, second = expected(ranks, law)
        spread, directions = np.linalg.eigh((np.diag(mean) - second) / M)
        step = (directions * np.sqrt(np.maximum(spread, 0.0))).T
        points = np.concatenate([mean[None], mean + step, mean - step])
        if estimator in LINEAR:  # shares may be negative here, which no sample has
            f = points @ corrected(estimator, law, N)
        else:
            shares = np.maximum(points, 0.0)
            f = np.stack([answers(ESTIMATORS[estimator].fit(weighted(drawn, hits, p, N, law))) for p in shares])
        middle, up, down = f[0], f[1 : len(step) + 1], f[len(step) + 1 :]
        found = {
            "mean": middle + 0.5 * (up + down - 2 * middle).sum(0),
            "sd": np.sqrt((((up - down) / 2) ** 2).sum(0)),
        }
        keep("values", key, **found)
    return found["mean"], found["sd"]
