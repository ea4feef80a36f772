"""LogSpline: the default. Smooth in log-rank, with a prior learned from the rank distributions of real recommenders.

The model: π_R ∝ exp(s(x))/R with x = log R / log N and s a cubic spline of 24 coefficients β. A straight s is the power law
of li20, a very flexible one is jin21's MLE: one family holds both. Which shapes are likely is not guessed but learned: the
prior on β is made of a few Gaussians, fitted once to the true ranks of many recommenders on several data sets
(``hyperprior.json``, made by ``benchmarks/fit_hyperprior.py``; only means and covariances, no data). There are two: where a
user's training items are no candidates (``unseen``) the head is full, where they are (``all``) they crowd it out.

Fitting: for each Gaussian the posterior mode by Newton and the evidence by Laplace's approximation. Gaussians of one
population at several stiffnesses are *views*, averaged on the log scale: by their evidence where it speaks of the head, else
as they are, because on one sample the evidence between them is noise. Populations are weighed by their evidence. The average
takes one EM step towards the data (jin21 eq. 21), which makes cases whose rank is known count as they are. Intervals come
from draws of the posterior, smoothing included.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import Metric, parse_metric
from ..ranks.counts import RankCounts
from ._grid import Grid
from .estimate import Fit, Problem, RankDistribution, build_problem, empirical, one_thread

__all__ = ["HyperPrior", "LogSpline"]

FloatArray = NDArray[np.float64]

DRAWS = 400
#: Every so many draws tell how much of the variance within cases their outcomes explain.
THINNED = 8


@dataclass(frozen=True)
class LogSpline:
    """Smooth in log-rank, under a prior learned from real recommenders. Works on every design; milliseconds to fit.

    ``prior``: ``None``, the one shipped with fullrank for the candidates of the counts (``counts.candidates``), or a
    :class:`HyperPrior` of your own.

    >>> import fullrank as fr
    >>> counts = fr.RankCounts.from_ranks([1] * 60 + [2] * 20 + [5] * 15 + [40] * 5, n_items=5000, design="uni99")
    >>> dist = fr.LogSpline().fit(counts)
    >>> low, high = dist.interval("recall@10")
    >>> low < dist.expect("recall@10") < high
    True
    """

    prior: HyperPrior | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prior, HyperPrior | None):
            raise TypeError(f"`prior` is {self.prior!r}, allowed is a HyperPrior or None.")

    def fit(self, counts: RankCounts) -> RankDistribution:
        """The posterior mean of the cases' rank distribution, with the posterior for intervals."""
        if counts.known()[1] is None:
            return empirical(self, counts)
        prior = self.prior or shipped(self.prior_name(counts.candidates))
        problem = build_problem(counts)
        model = SplineModel.on(problem.grid, prior)
        A = np.concatenate(problem.laws, axis=1)
        seen = np.concatenate([table.weight for table in problem.tables], axis=1)
        seen = seen * (
            counts.effective_cases / counts.weight.sum()
        )  # what weighs against the prior is cases, not weights
        with one_thread():
            strata = [StratumPosterior.of(model, prior, A[:, row > 0], row[row > 0]) for row in seen]
        masses = np.stack([stratum.mass for stratum in strata])
        single = problem.tables[0].n_items if len(problem.tables) == 1 else None
        fit = Fit(
            iterations=max(stratum.iterations for stratum in strata),
            objective=sum(stratum.evidence for stratum in strata),
            converged=all(stratum.converged for stratum in strata),
        )
        posterior = Posterior(problem, strata, prior)
        return RankDistribution(counts, self, problem.grid, masses, single, fit, posterior=posterior)

    def prior_name(self, candidates: str) -> str:
        """Name the prior for ranks among these candidates: ``all`` for all, ``unseen`` for any others, or one's ``own``."""
        if self.prior is not None:
            return "own"
        return "all" if candidates == "all" else "unseen"


@dataclass(frozen=True, eq=False)
class HyperPrior:
    """Gaussians on spline coefficients, N(mean + slope · (log N − 9), covariance), in families.

    A family is a population of rank distributions; its members are views of it at several stiffnesses. ``weights`` sum to 1
    over all members; families are weighed by their evidence, members within one by the power ``temper`` of theirs, against
    those of the same power (0: as they are; 1: by evidence).
    """

    weights: FloatArray
    families: NDArray[np.int64]
    means: FloatArray  # members × coefficients
    slopes: FloatArray
    covariances: FloatArray
    temper: FloatArray | float = 0.05  # of every member, or of all
    #: Pull of the estimate towards the median of the posterior: log π is lowered by this much of its variance.
    shrink: float = 0.3
    #: Calibration: posterior spreads are multiplied by this.
    spread: float = 1.0
    #: Families are averaged as they are, not on the log scale, where one that all but denies a rank would empty it.
    mixture: bool = False

    @classmethod
    def from_json(cls, text: str, candidates: str = "unseen") -> HyperPrior:
        """Read one of the priors of a file that :func:`priors_to_json` wrote."""
        document = json.loads(text)
        if document.get("format") != FORMAT:
            raise ValueError(
                f"this is no hyper-prior of fullrank: its format is {document.get('format')!r}, not {FORMAT!r}."
            )
        found = document["priors"][candidates]
        return cls(
            weights=np.array(found["weights"], dtype=np.float64),
            families=np.array(found["families"], dtype=np.int64),
            means=np.array(found["means"], dtype=np.float64),
            slopes=np.array(found["slopes"], dtype=np.float64),
            covariances=np.array(found["covariances"], dtype=np.float64),
            temper=np.array(found["temper"], dtype=np.float64),
            shrink=float(found["shrink"]),
            spread=float(found["spread"]),
            mixture=bool(found.get("mixture", False)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, rounded to what matters."""
        return {
            "temper": np.broadcast_to(self.temper, len(self)).tolist(),
            "shrink": self.shrink,
            "spread": self.spread,
            "mixture": self.mixture,
            "weights": np.round(self.weights, 6).tolist(),
            "families": self.families.tolist(),
            "means": np.round(self.means, 5).tolist(),
            "slopes": np.round(self.slopes, 5).tolist(),
            "covariances": np.round(self.covariances, 6).tolist(),
        }

    def average(self, evidence: FloatArray) -> tuple[FloatArray, float]:
        """The weight of every member given its evidence, and the evidence of the whole (both logarithms natural)."""
        total = evidence + np.log(self.weights)
        weights = np.zeros(len(self))
        by_family = np.zeros(int(self.families.max()) + 1)
        powers = np.broadcast_to(self.temper, len(self))
        for family in range(len(by_family)):
            rows = self.families == family
            for power in np.unique(powers[rows]):
                alike = rows & (powers == power)
                tempered = self.weights[alike] * np.exp(power * (evidence[alike] - evidence[alike].max()))
                weights[alike] = tempered / tempered.sum() * (self.weights[alike].sum() / self.weights[rows].sum())
            by_family[family] = np.logaddexp.reduce(total[rows])
        whole = float(np.logaddexp.reduce(by_family))
        return weights * np.exp(by_family - whole)[self.families], whole

    def blend(self, logs: FloatArray, weights: FloatArray) -> FloatArray:
        """One π of the members' logarithms: views of one family are averaged on the log scale, families see ``mixture``."""
        groups = self.families if self.mixture else np.zeros_like(self.families)
        blended = np.zeros(logs.shape[1])
        for group in np.unique(groups[weights > 0]):
            rows = groups == group
            share = weights[rows].sum()
            log = weights[rows] @ logs[rows] / share
            π = np.exp(log - log.max())
            blended += share * π / π.sum()
        return blended

    def __len__(self) -> int:
        return len(self.weights)

    def mean(self, member: int, n_items: float) -> FloatArray:
        """The mean of a member for a catalogue of this size; sizes beyond those seen are taken at their edge."""
        return np.asarray(self.means[member] + self.slopes[member] * np.clip(np.log(n_items) - 9, -3, 3))

    @cached_property
    def precisions(self) -> tuple[FloatArray, FloatArray]:
        """Inverse covariances and their log-determinants."""
        inverse = np.linalg.inv(self.covariances)
        inverse = (inverse + inverse.transpose(0, 2, 1)) / 2
        return inverse, -np.linalg.slogdet(self.covariances)[1]


FORMAT = "fullrank.HyperPrior/3"


def priors_to_json(priors: dict[str, HyperPrior], about: dict[str, Any] | None = None) -> str:
    """A file of priors by candidates (``unseen``, ``all``)."""
    return json.dumps(
        {"format": FORMAT, "about": about or {}, "priors": {name: prior.to_dict() for name, prior in priors.items()}}
    )


@lru_cache(maxsize=2)
def shipped(candidates: str = "unseen") -> HyperPrior:
    """The hyper-prior that comes with fullrank."""
    return HyperPrior.from_json(resources.files(__package__).joinpath("hyperprior.json").read_text(), candidates)


@dataclass(frozen=True, eq=False)
class SplineModel:
    """The family on a grid: log π = base + Bβ − log Σ, base the mass of 1/R in each cell."""

    B: FloatArray
    base: FloatArray
    n_items: float

    @classmethod
    def on(cls, grid: Grid, prior: HyperPrior) -> SplineModel:
        """The spline basis at the (geometric) middle of every cell."""
        N = max(float(grid.hi[-1]), 2.0)
        x = 0.5 * (np.log(grid.lo) + np.log(grid.hi)) / np.log(N)
        base = np.log(np.log((grid.hi + 0.5) / (grid.lo - 0.5)))
        return cls(spline_basis(x, prior.means.shape[1]), base, N)

    def mass(self, β: FloatArray) -> FloatArray:
        """π for one β, or a row for each row of β."""
        log = β @ self.B.T
        log += self.base
        log -= log.max(axis=-1, keepdims=True)
        mass = np.exp(log, out=log)
        mass /= mass.sum(axis=-1, keepdims=True)
        return np.asarray(mass)


def spline_basis(x: FloatArray, size: int) -> FloatArray:
    """Cubic B-splines on uniform knots over 0..1, one column per coefficient (Cox-de Boor)."""
    intervals = size - 3
    position = np.clip(x, 0.0, 1.0) * intervals
    first = np.minimum(position.astype(np.int64), intervals - 1)
    t = position - first
    pieces = ((1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3)
    out = np.zeros((len(x), size))
    for offset, piece in enumerate(pieces):
        out[np.arange(len(x)), first + offset] = piece / 6
    return out


@dataclass(frozen=True, eq=False)
class StratumPosterior:
    """The posterior of one stratum: a mixture of Gaussians on β, and the mass that is reported."""

    model: SplineModel
    A: FloatArray  # cells × outcomes seen
    seen: FloatArray  # weight of each
    weights: FloatArray
    modes: FloatArray
    covariances: FloatArray
    mass: FloatArray
    evidence: float
    iterations: int
    converged: bool

    @classmethod
    def of(cls, model: SplineModel, prior: HyperPrior, A: FloatArray, seen: FloatArray) -> StratumPosterior:
        """Mode and evidence under every member of the prior, averaged."""
        precisions, log_dets = prior.precisions
        modes: list[FloatArray] = []
        covariances, evidence, logs, steps = [], [], [], []
        for member, Q in enumerate(precisions):
            μ = prior.mean(member, model.n_items)
            alike = member > 0 and prior.families[member] == prior.families[member - 1]
            start = modes[-1] if alike else μ
            β, H, value, step = posterior_mode(model, A, seen, μ, Q, start)
            if step == MOST_STEPS and modes and start is not modes[0]:
                # lost on the way from a prior that is far off: begin where the data are
                again = posterior_mode(model, A, seen, μ, Q, modes[0])
                β, H, value, step = max((β, H, value, step), again, key=lambda each: each[2])
            V = np.linalg.inv(H)
            π = model.mass(β)
            J = model.B - π @ model.B
            modes.append(β)
            covariances.append((V + V.T) / 2)
            evidence.append(value + 0.5 * log_dets[member] - 0.5 * np.linalg.slogdet(H)[1])
            logs.append(np.log(np.maximum(π, 1e-300)) - prior.shrink * ((J @ V) * J).sum(1))
            steps.append(step)
        weights, whole = prior.average(np.array(evidence))
        return cls(
            model,
            A,
            seen,
            weights,
            np.stack(modes),
            np.stack(covariances),
            em_step(prior.blend(np.stack(logs), weights), A, seen),
            whole,
            max(steps),
            max(steps) < MOST_STEPS,
        )

    def draws(self, size: int, spread: float, rng: np.random.Generator) -> FloatArray:
        """π of ``size`` draws of β: members by weight, each Gaussian about its mode."""
        numbers = np.diff(np.round(np.cumsum(self.weights) * size), prepend=0).astype(np.int64)
        parts = []
        for β, V, number in zip(self.modes, self.covariances, numbers, strict=True):
            if number:
                values, vectors = np.linalg.eigh(V)
                # the symmetric root: it has no signs to choose, so rounding does not move the draws
                root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
                parts.append(β + spread * balanced_normals(int(number), len(β), rng) @ root)
        return self.model.mass(np.concatenate(parts))


def balanced_normals(number: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Normal vectors in pairs ±z whose covariance is the unit matrix itself: few of them tell quantiles well."""
    half = rng.standard_normal(((number + 1) // 2, size))
    if len(half) > size:
        half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / len(half))).T
    return np.concatenate([half, -half])[:number]


MOST_STEPS = 60


def posterior_mode(
    model: SplineModel, A: FloatArray, seen: FloatArray, μ: FloatArray, Q: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray, float, int]:
    """Maximise Σ c_o log P(o | β) − ½(β−μ)ᵀQ(β−μ) by damped Newton; returns β, the negative Hessian, the value and steps.

    The Hessian is that of the complete data less the missing information; where it is not positive (far from the mode) the
    Fisher information of the outcomes takes its place.
    """
    B, M = model.B, float(seen.sum())

    def value(β: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        π = model.mass(β)
        likely = np.maximum(π @ A, 1e-300)
        left = β - μ
        return float(seen @ np.log(likely) - 0.5 * left @ Q @ left), π, likely

    β = start
    now, π, likely = value(β)
    # The value is a sum over M cases and known to so many digits only. With very many cases the likelihood is a narrow bent
    # valley, along which a tenth of a standard error is near enough. The last step, when Newton is all but there, is taken
    # unseen.
    rounding = 1e-10 + 1e-13 * abs(now)
    enough = 1e-4 + 1e-10 * M
    H = Q
    step = 0
    for step in range(1, MOST_STEPS + 1):  # noqa: B007 - reported afterwards
        mean = π @ B
        pull = π * (A @ (seen / likely))  # expected number of cases in each cell, given what was seen
        pulled = pull @ B
        gradient = pulled - M * mean - Q @ (β - μ)
        per_outcome = (A.T @ (B * π[:, None])) / likely[:, None] - mean
        fisher = (per_outcome * seen[:, None]).T @ per_outcome
        cross = np.outer(mean, pulled - M * mean)
        H = Q + fisher + (B * (M * π - pull)[:, None]).T @ B + cross + cross.T
        H = (H + H.T) / 2
        try:
            np.linalg.cholesky(H)
        except np.linalg.LinAlgError:
            H = Q + fisher
        move = np.linalg.solve(H, gradient)
        decrement = float(gradient @ move)
        if decrement < enough:
            β, now = β + move, now + decrement / 2
            break
        length = min(1.0, 4.0 / max(float(np.abs(move).max()), 1e-12))
        while True:
            then, π_then, likely_then = value(β + length * move)
            if then >= now - rounding or length < 1e-6:
                break
            length /= 2
        β, now, π, likely = β + length * move, then, π_then, likely_then
    return β, H, now, step


def em_step(π: FloatArray, A: FloatArray, seen: FloatArray) -> FloatArray:
    """One EM step (jin21 eq. 21) for one π, or a row for each row of π: the mean posterior of the cases."""
    likely = np.maximum(π @ A, 1e-300)
    after = π * ((seen / likely) @ A.T)
    return np.asarray(after / after.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the data leave open: draws of the rank distribution, and intervals and shares from them."""

    problem: Problem
    strata: list[StratumPosterior]
    prior: HyperPrior

    def interval(self, metric: Metric, value: float, level: float, target: str, n_items: float) -> tuple[float, float]:
        """Quantiles of the posterior of the metric, laid around the estimate on the log scale.

        ``population``: the metric of the drawn π. ``cases``: given π, each case's rank follows its own posterior; their mean
        is one EM step from π and their variance adds Σ c_o Var[M(R) | o]/M².
        """
        with one_thread():
            drawn = self.values(metric, target, n_items)
        tail = 0.5 - level / 2
        low, middle, high = np.quantile(drawn, [tail, 0.5, 1 - tail])
        if middle <= 0 or value <= 0:
            return float(min(value, low)), float(max(value, high))
        return float(value * max(low, 0.0) / middle), float(value * high / middle)

    def values(self, metric: Metric, target: str, n_items: float) -> FloatArray:
        """The metric in every draw."""
        counts, grid = self.problem.counts, self.problem.grid
        (order, targets, weight), rows = counts.groups, counts.strata
        pooled, squared = grid.pooled_gains(metric, n_items, counts.groups, rows)
        if target == "population":
            return np.asarray(sum(d @ g for d, g in zip(self._draws, pooled, strict=True)) / counts.users_weight)
        total, variance = np.zeros(DRAWS), np.zeros(DRAWS)
        some = slice(None, None, THINNED)
        explained = np.zeros((len(self.strata), len(total[some])))
        for row, which, gains in grid.gains(metric, n_items, order, targets, rows):
            # gains of one j differ by a factor: one of them stands for all
            gain = np.sign(gains[0]) * np.sqrt(weight[which] @ gains**2)
            earned = self._draws[row][some, : len(gain)] * gain
            by_outcome = (earned @ self.strata[row].A[: len(gain)] * self._pull[row][some]) ** 2
            explained[row] += np.sum(by_outcome / self._share[row], axis=1)
        for row, (gain, square) in enumerate(zip(pooled, squared, strict=True)):
            head = slice(len(np.trim_zeros(square, "b")))
            # an EM step multiplies every draw by the product of pull and law
            after = self._draws[row][:, head] * (self._pull[row] @ self.strata[row].A[head].T)
            total += after @ gain[head]
            second = after @ square[head]
            # Var[gain | outcome] is E[gain²] less what outcomes explain of it, a share that hardly differs between draws
            unexplained = 1 - np.mean(explained[row] / np.maximum(second[some], 1e-300))
            variance += max(float(unexplained), 0.0) * second
        noise = np.random.default_rng(1).standard_normal(DRAWS)
        return np.asarray((total + np.sqrt(np.maximum(variance, 0.0)) * noise) / counts.users_weight)

    def prior_share(self, metric: Metric | str, n_items: float) -> float:
        """How much of the answer is the prior's: near 0 the data decide, near 1 they have not been asked.

        The posterior covariance is V = (Q + I)⁻¹, Q the prior's precision and I the data's information; in the direction g
        in which log M moves, gᵀVQVg / gᵀVg is the prior's part of it.
        """
        metric = parse_metric(metric)
        precisions, _ = self.prior.precisions
        stratum = max(self.strata, key=lambda each: float(each.seen.sum()))
        gain = self.problem.grid.mean_gain(metric, n_items)
        share = 0.0
        for weight, β, V, Q in zip(stratum.weights, stratum.modes, stratum.covariances, precisions, strict=True):
            π = stratum.model.mass(β)
            earned = π[: len(gain)] * gain
            g = earned @ stratum.model.B[: len(gain)] / (float(earned.sum()) or 1e-300) - π @ stratum.model.B
            share += weight * float((V @ g) @ Q @ (V @ g)) / max(float(g @ V @ g), 1e-300)
        return float(min(share, 1.0))

    @cached_property
    def _draws(self) -> list[FloatArray]:
        rng = np.random.default_rng(0)
        return [stratum.draws(DRAWS, self.prior.spread, rng) for stratum in self.strata]

    @cached_property
    def _share(self) -> list[FloatArray]:
        """The share of each outcome in what was seen."""
        return [stratum.seen / stratum.seen.sum() for stratum in self.strata]

    @cached_property
    def _pull(self) -> list[FloatArray]:
        """Share of each outcome over its probability, in every draw."""
        return [
            share / np.maximum(drawn @ each.A, 1e-300)
            for each, drawn, share in zip(self.strata, self._draws, self._share, strict=True)
        ]
