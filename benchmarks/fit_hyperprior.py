"""Fit LogSpline's prior to the true ranks of real recommenders: what rank distributions look like, as means and covariances.

Every file of FULLRANK_RANKS (DATASET__MODEL.npz, candidates ``unseen``) gets a spline fit in x = log R / log N; over files, the
coefficients are Gaussian about mean + slope · (log N − 9), fitted by expectation maximisation with Laplace posteriors, so that a
small file counts for what it knows. Data sets weigh the same, MovieLens 100K and 1M sharing one weight; the covariance
between data sets is inflated by (n + 1)/(n − 1), for a data set yet unseen, and the whole is shrunk 10 % to its diagonal. Three
components: all files, popularity alone (at twice its covariance: few files), and all but popularity.

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
from fullrank.estimators.logspline import HyperPrior, SplineModel
from fullrank.ranks.counts import PoolTable

COEFFICIENTS = 24
ROUNDS = 40
SHRINK_TO_DIAGONAL = 0.1
SLOPE_RIDGE = 1.0
#: (which files, scale of the covariance, weight)
COMPONENTS = (("all", 1.0, 0.35), ("personal", 1.0, 0.50), ("popularity", 2.0, 0.15))
HALF = {"ml-100k": 0.5, "ml-1m": 0.5}  # one catalogue in two sizes


@dataclass(frozen=True, eq=False)
class File:
    """The true ranks of one recommender, counted on a grid."""

    data_set: str
    model: str
    spline: SplineModel
    counts: np.ndarray

    @classmethod
    def read(cls, path: Path) -> File:
        with np.load(path) as data:
            ranks, pool = data["R_masked"].astype(np.int64), data["N_masked"].astype(np.int64)
        table = PoolTable(float(pool.max()), np.array([1]), np.array([0]), np.ones((1, 1)))
        grid = Grid.for_tables([table], replace=True)
        blank = HyperPrior(*(np.zeros((1, COEFFICIENTS)),) * 3, np.eye(COEFFICIENTS)[None])
        counts = np.bincount(np.searchsorted(grid.hi, ranks), minlength=len(grid)).astype(np.float64)
        return cls(*path.stem.split("__"), SplineModel.on(grid, blank), counts)


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


def fit_component(files: list[File]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, slope and covariance of the coefficients over files."""
    sets = [file.data_set for file in files]
    number = Counter(sets)
    w = np.array([HALF.get(name, 1.0) / number[name] for name in sets])
    w /= w.sum()
    z = np.array([np.log(file.spline.n_items) - 9 for file in files])
    X = np.stack([np.ones_like(z), z], axis=1)
    second = np.diff(np.eye(COEFFICIENTS), 2, axis=0)
    Q = 10 * second.T @ second + 0.05 * np.eye(COEFFICIENTS)
    trend = np.zeros((2, COEFFICIENTS))
    modes = [np.zeros(COEFFICIENTS) for _ in files]
    names = sorted(number)
    for round_ in range(ROUNDS):
        fits = [mode(file, x @ trend, Q, start) for file, x, start in zip(files, X, modes, strict=True)]
        modes = [fit[0] for fit in fits]
        C = np.array(modes)
        trend = np.linalg.solve((X * w[:, None]).T @ X + np.diag([0, SLOPE_RIDGE]), (X * w[:, None]).T @ C)
        left = C - X @ trend
        S = (left * w[:, None]).T @ left + np.einsum("i,ijk->jk", w, np.array([fit[1] for fit in fits]))
        if round_ == ROUNDS - 1 and len(names) > 1:
            weight = np.array([w[[name == each for each in sets]].sum() for name in names])
            means = np.array(
                [
                    np.average(
                        left[[name == each for each in sets]], axis=0, weights=w[[name == each for each in sets]]
                    )
                    for name in names
                ]
            )
            S = S + 2 / (len(names) - 1) * (means * weight[:, None]).T @ means
        S = (1 - SHRINK_TO_DIAGONAL) * S + SHRINK_TO_DIAGONAL * np.diag(np.diag(S))
        Q = np.linalg.inv(S)
    return trend[0], trend[1], S


def fit(files: list[File], spread: float) -> HyperPrior:
    """The mixture over components."""
    chosen = {
        "all": files,
        "popularity": [file for file in files if file.model == "pop"],
        "personal": [file for file in files if file.model != "pop"],
    }
    parts = [fit_component(chosen[name]) for name, _, _ in COMPONENTS]
    return HyperPrior(
        weights=np.array([weight for _, _, weight in COMPONENTS]),
        means=np.array([part[0] for part in parts]),
        slopes=np.array([part[1] for part in parts]),
        covariances=np.array([part[2] * scale for part, (_, scale, _) in zip(parts, COMPONENTS, strict=True)]),
        spread=spread,
    )


def main() -> None:
    folder = os.environ.get("FULLRANK_RANKS")
    if not folder:
        sys.exit("fit_hyperprior.py needs true ranks: set FULLRANK_RANKS to a folder of DATASET__MODEL.npz files.")
    spread = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    files = [File.read(path) for path in sorted(Path(folder).glob("*__*.npz"))]
    about = {"files": len(files), "data_sets": sorted({file.data_set for file in files}), "candidates": "unseen"}
    root = Path(__file__).resolve().parent
    (root.parent / "src/fullrank/estimators/hyperprior.json").write_text(fit(files, spread).to_json(about))
    (root / "priors").mkdir(exist_ok=True)
    for name in about["data_sets"]:
        rest = [file for file in files if file.data_set != name]
        text = fit(rest, spread).to_json({**about, "files": len(rest), "without": name})
        (root / "priors" / f"without-{name}.json").write_text(text)
        print(f"without {name}: {len(rest)} files", flush=True)


if __name__ == "__main__":
    main()
