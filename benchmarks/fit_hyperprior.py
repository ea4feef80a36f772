"""Fit LogSpline's prior to the true ranks of real recommenders: what rank distributions look like, as means and covariances.

Every file of FULLRANK_RANKS (DATASET__MODEL.npz) gets a spline fit in x = log R / log N; over files, the coefficients (whose
level is free: they are made to sum to zero) are Gaussian about mean + slope · (log N − 9), fitted by expectation maximisation
with Laplace posteriors, so that a small file counts for what it knows. Data sets weigh the same, MovieLens 100K and 1M sharing
one weight; the covariance between data sets is inflated by (n + 1)/(n − 1), for a data set yet unseen, and the whole is
shrunk a little to its diagonal.

`unseen`: one population in two views: stiff (variance beyond the 9 leading directions cut to a fifth) and loose (variance
beyond the 4 leading directions times 2.5); and popularity alone (its few files call for more shrinking and twice the
covariance), by evidence.
`all`: see :func:`fit_all`.

    python benchmarks/fit_hyperprior.py            # the shipped prior, and one without each data set for accuracy.py
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from fullrank.estimators._grid import Grid
from fullrank.estimators.logspline import HyperPrior, SplineModel, priors_to_json
from fullrank.ranks.counts import PoolTable

COEFFICIENTS = 24
ROUNDS = 25
SLOPE_RIDGE = 1.0
SECOND = np.diff(np.eye(COEFFICIENTS), 2, axis=0)
#: Where the head is, 1 to 0: the lower six tenths of log-rank.
HEAD, WHOLE = (
    1 / (1 + np.exp((np.arange(COEFFICIENTS - 2) / (COEFFICIENTS - 3) - 0.6) / 0.04)),
    np.ones(COEFFICIENTS - 2),
)
#: Weights of a penalty on the curvature of the head.
STIFFNESSES = (30.0, 100.0, 300.0, 1000.0)
#: How often a training item above the target counts, for users of shorter and longer profiles.
PROFILES = (0.25, 0.5, 1.0, 2.0, 4.0)
#: All training items above the target, as with a model that ranks first what it has learned by heart.
BEHIND = np.inf
#: A model that ranks this share of the training items above the target has learned them by heart.
BY_HEART = 0.84
#: One catalogue in two sizes, the larger knowing more: what is there of it has one weight together.
SHARES = {"ml-100k": 0.25, "ml-1m": 0.75}
SHIPPED = Path(__file__).resolve().parent.parent / "src/fullrank/estimators/hyperprior.json"


@dataclass(frozen=True, eq=False)
class File:
    """The true ranks of one recommender, counted on a grid."""

    data_set: str
    model: str
    spline: SplineModel
    counts: np.ndarray
    #: Share of a user's training items ranked above the target, on the mean.
    above: float

    @classmethod
    def read(cls, path: Path, training: float | None) -> File:
        """``training``: how often a training item above the target counts (None: it is no candidate).

        Fractions are dithered, or half the ranks would stay empty.
        """
        with np.load(path) as data:
            ranks, pool = data["R_masked"].astype(np.int64), data["N_masked"].astype(np.int64)
            trained = int(data["N"]) - pool
            above = data["R_unmasked"].astype(np.int64) - ranks
        share = float(np.mean(above / np.maximum(trained, 1)))
        if training is not None:
            if training == BEHIND:
                above = trained
            elif training != 1:
                dither = np.random.default_rng(0).uniform(-0.5, 0.5, len(above))
                above = np.maximum(np.round(training * (above + dither)), 0).astype(np.int64)
            pool = pool + trained
            ranks = np.minimum(ranks + above, pool)
        table = PoolTable(float(pool.max()), np.array([1]), np.array([0]), np.ones((1, 1)))
        grid = Grid.for_tables([table], replace=True)
        blank = HyperPrior(np.ones(1), np.zeros(1, dtype=np.int64), *(np.zeros((1, COEFFICIENTS)),) * 3)
        counts = np.bincount(np.searchsorted(grid.hi, ranks), minlength=len(grid)).astype(np.float64)
        return cls(*path.stem.split("__"), SplineModel.on(grid, blank), counts, share)


def mode(file: File, mean: np.ndarray, Q: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mode and covariance of the coefficients when every rank is known (a concave problem: plain Newton)."""
    β, B, n, M = start, file.spline.B, file.counts, file.counts.sum()

    def value(β: np.ndarray) -> float:
        return float(n @ np.log(file.spline.mass(β)) - 0.5 * (β - mean) @ Q @ (β - mean))

    for _ in range(50):
        π = file.spline.mass(β)
        b = π @ B
        H = Q + M * ((B * π[:, None]).T @ B - np.outer(b, b))
        gradient = n @ B - M * b - Q @ (β - mean)
        move = np.linalg.solve(H, gradient)
        length = 1.0
        while value(β + length * move) < value(β) - 1e-9 and length > 1e-6:
            length /= 2
        β = β + length * move
        if gradient @ move < 1e-6:
            break
    return β, np.linalg.inv(H)


@dataclass(frozen=True, eq=False)
class Population:
    """Mean, slope and covariance of the coefficients over files."""

    mean: np.ndarray
    slope: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, files: list[File], shrink: float) -> Population:
        """By expectation maximisation; ``shrink``: share of the diagonal in the covariance."""
        sets = np.array([file.data_set for file in files])
        number = Counter(sets)
        twins = sum(SHARES.get(name, 0.0) for name in number)
        w = np.array([(SHARES[name] / twins if name in SHARES else 1.0) / number[name] for name in sets])
        w /= w.sum()
        z = np.clip([np.log(file.spline.n_items) - 9 for file in files], -1.5, 1.7)
        X = np.stack([np.ones_like(z), z], axis=1)
        Q = 10 * SECOND.T @ SECOND + 0.05 * np.eye(COEFFICIENTS)
        level = np.full((COEFFICIENTS, COEFFICIENTS), 1 / COEFFICIENTS)
        centre = np.eye(COEFFICIENTS) - level
        trend = np.zeros((2, COEFFICIENTS))
        modes = [np.zeros(COEFFICIENTS) for _ in files]
        for round_ in range(ROUNDS):
            fits = [mode(file, x @ trend, Q, start) for file, x, start in zip(files, X, modes, strict=True)]
            modes = [β - β.mean() for β, _ in fits]
            C = np.array(modes)
            trend = np.linalg.solve((X * w[:, None]).T @ X + np.diag([0, SLOPE_RIDGE]), (X * w[:, None]).T @ C)
            left = C - X @ trend
            S = (left * w[:, None]).T @ left + centre @ np.einsum(
                "i,ijk->jk", w, np.array([V for _, V in fits])
            ) @ centre
            names = sorted(number)
            if round_ == ROUNDS - 1 and len(names) > 1:
                weight = np.array([w[sets == name].sum() for name in names])
                means = np.array([w[sets == name] @ left[sets == name] / w[sets == name].sum() for name in names])
                S = S + 2 / (len(names) - 1) * (means * weight[:, None]).T @ means
            S = (1 - shrink) * S + shrink * centre @ np.diag(np.diag(S)) @ centre + 1e-6 * centre + 0.5 * level
            S = (S + S.T) / 2
            Q = np.linalg.inv(S)
        return cls(trend[0], trend[1], S)

    def view(self, leading: int, rest: float) -> Population:
        """The variance of all but the leading directions multiplied by ``rest``."""
        values, vectors = np.linalg.eigh(self.covariance)
        values[:-leading] *= rest
        return Population(self.mean, self.slope, (vectors * values) @ vectors.T)

    def straight(self, stiffness: float, where: np.ndarray) -> Population:
        """With a penalty on the curvature of the head, or of the whole, which straightens the mean too."""
        precision = np.linalg.inv(self.covariance)
        covariance = np.linalg.inv(precision + SECOND.T * (stiffness * where) @ SECOND)
        pull = covariance @ precision
        return Population(pull @ self.mean, pull @ self.slope, covariance)

    def scaled(self, factor: float) -> Population:
        """The covariance multiplied by a factor."""
        return Population(self.mean, self.slope, self.covariance * factor)


def flat() -> Population:
    """About the uniform distribution on ranks (s = log N · x), from which the papers' MLE starts."""
    x = (np.arange(COEFFICIENTS) - 1) / (COEFFICIENTS - 3)
    first = np.diff(np.eye(COEFFICIENTS), axis=0)
    stiff = 30 * first.T @ first + 300 * SECOND.T @ SECOND + 0.0001 * np.eye(COEFFICIENTS)
    return Population(9 * (x - x.mean()), x - x.mean(), np.linalg.inv(stiff))


def assemble(
    members: list[tuple[int, float, float, Population]], shrink: float, spread: float, mixture: bool
) -> HyperPrior:
    """(family, weight, power of the evidence, population) as one prior."""
    families, weights, powers, populations = zip(*members, strict=True)
    return HyperPrior(
        weights=np.array(weights),
        families=np.array(families),
        means=np.array([each.mean for each in populations]),
        slopes=np.array([each.slope for each in populations]),
        covariances=np.array([(each.covariance + each.covariance.T) / 2 for each in populations]),
        temper=np.array(powers),
        shrink=shrink,
        mixture=mixture,
        spread=spread,
    )


def fit_unseen(files: list[File]) -> HyperPrior:
    """Recommenders in two views, and popularity."""
    stiff, loose = Population.of(files, 0.04).view(9, 0.2), Population.of(files, 0.1).view(4, 2.5)
    popular = Population.of([file for file in files if file.model == "pop"], 0.3)
    members = [(0, 0.65, 0.0, stiff), (0, 0.325, 0.0, loose), (1, 0.025, 1.0, popular.scaled(2.0))]
    return assemble(members, shrink=0.2, spread=0.96, mixture=False)


def fit_all(files: dict[float | None, list[File]]) -> HyperPrior:
    """Heads that training items thin out, heads that they empty, popularity, and anything roughly smooth, by evidence.

    Where a model ranks some training items above the target and some below, ranks 1, 2, 3... are about equally likely: the
    head is nearly straight, however the body bends: how nearly is told by the evidence. Two views have a straight body too,
    so that their evidence would speak of it: they count as they are, for what few negatives do not see of the head. Where a
    model has learned the training items by heart nothing is left of the head. Every file is taken with a quarter to four
    times the training items, for other profile lengths.
    """
    every = [file for profile in PROFILES for file in files[profile]]
    thinned = [file for file in every if file.above < BY_HEART]
    emptied = [file for profile in PROFILES[1:-1] for file in files[profile] if file.above >= BY_HEART]
    loose = Population.of(every, 0.1).view(4, 2.0)
    views = [
        population.straight(stiffness, HEAD)
        for population in (loose, Population.of(thinned, 0.1))
        for stiffness in STIFFNESSES
    ]
    members = [(0, 0.15 / len(views), 1.0, view) for view in views]
    members += [(0, 0.295, 0.0, view) for view in (flat(), loose.straight(100.0, WHOLE))]
    centre = Population.of(files[1.0], 0.1)
    broad = Population(centre.mean, centre.slope, np.linalg.inv(SECOND.T @ SECOND + 0.05 * np.eye(COEFFICIENTS)))
    popular = Population.of([file for file in every if file.model == "pop"], 0.3)
    members += [
        (1, 0.12, 1.0, Population.of(emptied, 0.1)),
        (2, 0.06, 1.0, Population.of(files[BEHIND], 0.1)),
        (3, 0.06, 1.0, broad),
        (4, 0.02, 1.0, popular.scaled(2.0)),
    ]
    return assemble(members, shrink=0.5, spread=1.1, mixture=True)


def main() -> None:
    folder = os.environ.get("FULLRANK_RANKS")
    if not folder:
        sys.exit("fit_hyperprior.py needs true ranks: set FULLRANK_RANKS to a folder of DATASET__MODEL.npz files.")
    paths = sorted(Path(folder).glob("*__*.npz"))
    files = {training: [File.read(path, training) for path in paths] for training in (None, *PROFILES, BEHIND)}
    sets = sorted({path.stem.split("__")[0] for path in paths})
    root = Path(__file__).resolve().parent
    (root / "priors").mkdir(exist_ok=True)
    for without in (None, *sets):
        rest = {key: [file for file in each if file.data_set != without] for key, each in files.items()}
        priors = {"unseen": fit_unseen(rest[None]), "all": fit_all(rest)}
        about = {"files": len(rest[None]), "data_sets": [name for name in sets if name != without]}
        target = root / f"priors/without-{without}.json" if without else SHIPPED
        target.write_text(priors_to_json(priors, about))
        print(f"{target.name}: {about['files']} files", flush=True)


if __name__ == "__main__":
    main()
