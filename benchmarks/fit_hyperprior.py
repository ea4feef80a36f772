"""Fit LogSpline's prior to the true ranks of real recommenders: what rank distributions look like, as means and covariances.

Every file (see ``catalogues.py``) gets a spline fit in x = log R / log N; near the fit, its likelihood is a Gaussian in the
coefficients. Over files, the coefficients (whose level is free: they sum to zero) are Gaussian about mean + slope · z with
z = log N − 9, fitted by expectation maximisation, so that a small file counts for what it knows. Families of catalogues weigh
alike, catalogues alike within a family, models alike within a catalogue. Kinds of recommenders are fitted apart.

With several targets per user every file has a spline for each bin of (j, T), and the covariance of bins b and c is
coupling[b, c] · covariance.

    python benchmarks/fit_hyperprior.py            # the shipped prior, and for every fold one without its families
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process per core does better than threads within one

import numpy as np

from catalogues import FOLDS, family, fold_of, kind, rank_files, split_name
from fullrank.estimators._grid import Grid
from fullrank.estimators.hyperprior import BINS, HyperPrior, Kind, bins_of, priors_to_json
from fullrank.estimators.splines import SplineModel
from fullrank.ranks.counts import PoolTable

COEFFICIENTS = 24
SECOND = np.diff(np.eye(COEFFICIENTS), 2, axis=0)
LEVEL = np.full((COEFFICIENTS, COEFFICIENTS), 1 / COEFFICIENTS)
CENTRE = np.eye(COEFFICIENTS) - LEVEL
#: A weak penalty on curvature and size: where the likelihood is approximated.
WEAK = 3 * SECOND.T @ SECOND + 0.02 * np.eye(COEFFICIENTS)
#: Share of its diagonal in every covariance, and of their diagonal in couplings.
SHRINK, SHRINK_COUPLING = 0.1, 0.05
SLOPE_RIDGE, SLOPE_RIDGE_SEVERAL = 0.3, 1.0
ROUNDS, ROUNDS_SEVERAL = 40, 8
ITEM_ITEM, FACTORS, LINEAR, POPULARITY = ("knn", "bm25", "Y", "Z"), ("als", "bpr", "X"), ("ease",), ("pop",)
KINDS = {
    "unseen": {"popularity": POPULARITY, "personal": ITEM_ITEM + FACTORS + LINEAR},
    "all": {"popularity": POPULARITY, "factors": FACTORS, "item-item": ITEM_ITEM, "linear": LINEAR},
    "several": {"personal": ITEM_ITEM + FACTORS + LINEAR, "popularity": POPULARITY},
}
SCALES = {
    "unseen": ((0.5, 0.4), (1.0, 0.3), (3.0, 0.2), (12.0, 0.1)),
    "all": ((0.5, 0.4), (1.0, 0.3), (3.0, 0.2), (12.0, 0.1)),
    "several": ((1.0, 0.8), (4.0, 0.2)),
}
SPREAD = {"unseen": 1.0, "all": 1.1, "several": 1.0}
ROOT = Path(__file__).resolve().parent
SHIPPED = ROOT.parent / "src/fullrank/estimators/hyperprior.json"


@dataclass(frozen=True, eq=False)
class File:
    """A file's likelihood as a Gaussian: information I and I·β̂ for every bin of (j, T), and how many cases each has."""

    catalogue: str
    model: str
    n_items: float
    information: np.ndarray
    pull: np.ndarray
    start: np.ndarray
    cases: np.ndarray

    @property
    def z(self) -> float:
        return float(np.log(self.n_items) - 9)


def read(task: tuple[Path, str]) -> File:
    """The likelihood of one file under one protocol: ``unseen``, ``all`` or ``several``."""
    path, protocol = task
    with np.load(path) as data:
        bins = np.zeros(1, dtype=np.int64)
        if protocol == "several":
            ranks, pool = data["R"].astype(np.int64), int(data["N_pool"].max())
            bins = bins_of(data["order"].astype(np.int64), data["targets"].astype(np.int64))
        elif protocol == "unseen":
            ranks, pool = data["R_masked"].astype(np.int64), int(data["N_masked"].max())
        else:
            ranks, pool = data["R_unmasked"].astype(np.int64), int(data["N"])
    grid = Grid.for_tables([PoolTable(float(pool), np.array([1]), np.array([0]), np.ones((1, 1)))], replace=True)
    spline = SplineModel.on(grid, COEFFICIENTS)
    cell = np.searchsorted(grid.hi, ranks)
    number = len(BINS) if protocol == "several" else 1
    informed, pull, start, cases = (
        np.zeros((number, *shape)) for shape in ((COEFFICIENTS,) * 2, (COEFFICIENTS,), (COEFFICIENTS,), ())
    )
    centre = np.zeros(COEFFICIENTS)
    if protocol == "several":  # bins with few cases are approximated near what the whole file shows
        centre, _, _ = approximate(spline, np.bincount(cell, minlength=len(grid)).astype(float), centre)
    for b in range(number):
        seen = np.bincount(cell[bins == b] if number > 1 else cell, minlength=len(grid)).astype(float)
        if seen.any():
            β, informed[b], pull[b] = approximate(spline, seen, centre)
            start[b], cases[b] = β - β.mean(), seen.sum()
    return File(*split_name(path), float(pool), informed, pull, start, cases)


def approximate(spline: SplineModel, seen: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mode under the weak penalty about ``mean``, the information there, and information · maximum of the likelihood."""
    B, M, β = spline.B, seen.sum(), mean

    def value(β: np.ndarray) -> float:
        return float(seen @ np.log(np.maximum(spline.mass(β), 1e-300)) - 0.5 * (β - mean) @ WEAK @ (β - mean))

    for _ in range(60):
        π = spline.mass(β)
        b = π @ B
        H = M * ((B * π[:, None]).T @ B - np.outer(b, b))
        gradient = seen @ B - M * b - WEAK @ (β - mean)
        move = np.linalg.solve(WEAK + H, gradient)
        length = 1.0
        while value(β + length * move) < value(β) - 1e-9 and length > 1e-6:
            length /= 2
        β = β + length * move
        if gradient @ move < 1e-6:
            break
    π = spline.mass(β)
    b = π @ B
    H = M * ((B * π[:, None]).T @ B - np.outer(b, b))
    return β, H, H @ β + seen @ B - M * b


def shares(files: list[File]) -> np.ndarray:
    """Weights of files: families alike, catalogues alike within one, models alike within a catalogue."""
    models = Counter(file.catalogue for file in files)
    catalogues = Counter(family(name) for name in models)
    w = np.array([1 / catalogues[family(file.catalogue)] / models[file.catalogue] for file in files])
    return w / w.sum()


def regular(S: np.ndarray) -> np.ndarray:
    """A covariance of centred coefficients, shrunk a little to its diagonal, with a level of its own."""
    S = CENTRE @ S @ CENTRE
    S = (1 - SHRINK) * S + SHRINK * CENTRE @ np.diag(np.diag(S)) @ CENTRE + 1e-5 * CENTRE + 0.5 * LEVEL
    return (S + S.T) / 2


def population(files: list[File], name: str) -> Kind:
    """One target per user: mean, slope and covariance over files, by expectation maximisation."""
    w, z = shares(files), np.array([file.z for file in files])
    X = np.stack([np.ones_like(z), z], axis=1)
    H, h = (np.array([getattr(file, key)[0] for file in files]) for key in ("information", "pull"))
    β = np.array([file.start[0] for file in files])
    V = np.zeros_like(H)
    for _ in range(ROUNDS):
        trend = np.linalg.solve((X * w[:, None]).T @ X + np.diag([0, SLOPE_RIDGE]), (X * w[:, None]).T @ β)
        left = β - X @ trend
        S = regular((left * w[:, None]).T @ left + np.einsum("i,ijk->jk", w, V))
        Q = np.linalg.inv(S)
        V = np.linalg.inv(H + Q)
        β = np.einsum("nij,nj->ni", V, h + X @ trend @ Q) @ CENTRE
        V = CENTRE @ V @ CENTRE
    return Kind(name, 0.0, trend[:1], trend[1], S, np.ones((1, 1)))


def coupled(files: list[File], name: str) -> Kind:
    """Several targets: a mean for every bin, one slope, one covariance, and a coupling of bins.

    A file speaks for the bins it has cases in. Bins that few files have together fall back on a coupling that falls off with
    their distance in octaves.
    """
    w, z = shares(files), np.array([file.z for file in files])
    octaves = np.array(BINS)
    far = np.abs(octaves[:, None] - octaves[None]).sum(2)
    falling = 0.4 + 0.6 * np.exp(-far / 4)
    has = np.array([file.cases > 0 for file in files])
    weight = w[:, None] * has
    start = np.array([file.start for file in files])
    informed = weight * np.minimum(np.array([file.cases for file in files]), 500)
    centre = np.einsum("fb,fbp->p", informed, start) / informed.sum()
    means = (np.einsum("fb,fbp->bp", informed, start) + 5 * centre) / (informed.sum(0)[:, None] + 5)
    left = start - means
    S = regular(np.einsum("fb,fbp,fbq->pq", informed, left, left) / informed.sum() + 0.05 * np.eye(COEFFICIENTS))
    slope, K = np.zeros(COEFFICIENTS), falling
    for _ in range(ROUNDS_SEVERAL):
        P, pairs = np.zeros_like(K), np.zeros_like(K)
        scatter = np.zeros_like(S)
        Q = np.linalg.inv(S)
        posts = []
        for file, share, at in zip(files, w, z, strict=True):
            bins = np.flatnonzero(file.cases > 0)
            coupling = np.linalg.inv(K[np.ix_(bins, bins)])
            H = np.kron(coupling, Q)
            mean = means[bins] + at * slope
            pull = file.pull[bins].ravel() + H @ mean.ravel()
            for place, b in enumerate(bins):
                here = slice(place * COEFFICIENTS, (place + 1) * COEFFICIENTS)
                H[here, here] += file.information[b]
            V = np.linalg.inv(H)
            β = (V @ pull).reshape(len(bins), -1)
            β = β - β.mean(1, keepdims=True)
            V = V.reshape(len(bins), COEFFICIENTS, len(bins), COEFFICIENTS)
            left = β - mean + mean.mean(1, keepdims=True)
            joint = np.ix_(bins, bins)
            P[joint] += share * (left @ Q @ left.T + np.einsum("sitj,ij->st", V, Q)) / COEFFICIENTS
            pairs[joint] += share
            scatter += share * (left.T @ coupling @ left + np.einsum("sitj,st->ij", V, coupling)) / len(bins)
            posts.append((bins, β, share, at))
        spreads = np.sqrt((np.diag(P) + 0.02 * np.mean(np.diag(P))) / (np.diag(pairs) + 0.02 * np.mean(np.diag(pairs))))
        K = (P + 0.05 * falling * np.outer(spreads, spreads)) / (pairs + 0.05)
        K = (1 - SHRINK_COUPLING) * K + SHRINK_COUPLING * np.diag(np.diag(K))
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        K = (vectors * np.maximum(values, 1e-3 * values.max())) @ vectors.T
        scale = np.trace(K) / len(K)
        K, S = K / scale, regular(scatter / w.sum() * scale)
        moved, total, across, along = (
            np.zeros_like(means),
            np.zeros(len(BINS)),
            np.zeros(COEFFICIENTS),
            SLOPE_RIDGE_SEVERAL,
        )
        middle = float(w @ z)
        for bins, β, share, at in posts:
            across += share * (at - middle) * (β - means[bins]).mean(0)
            along += share * (at - middle) ** 2
        slope = across / along
        for bins, β, share, at in posts:
            moved[bins] += share * (β - at * slope)
            total[bins] += share
        means = (moved + 0.01 * means) / (total[:, None] + 0.01)
        means = means - means.mean(1, keepdims=True)
    return Kind(name, 0.0, means, slope, S, (K + K.T) / 2)


def fit(files: list[File], protocol: str, made: str) -> HyperPrior:
    """The prior of one protocol."""
    one = coupled if protocol == "several" else population
    kinds = KINDS[protocol]
    fitted = [one([file for file in files if file.model in models], name) for name, models in kinds.items()]
    weighted = tuple(Kind(each.name, 1 / len(kinds), *(getattr(each, key) for key in ("means", "slope", "covariance", "coupling"))) for each in fitted)  # fmt: skip
    catalogues = sorted({file.catalogue for file in files})
    sizes = [file.n_items for file in files]
    card = {
        "families": len({family(name) for name in catalogues}),
        "catalogues": len(catalogues),
        "files": len(files),
        "kinds": dict(Counter(kind(name) for name in catalogues)),
        "models": sorted({file.model for file in files}),
        "made": made,
    }
    return HyperPrior(
        protocol, weighted, SCALES[protocol], (min(sizes), max(sizes)), 0.7, SPREAD[protocol], protocol == "all", card
    )


def fit_one(task: tuple[dict[str, list[File]], int | None, str]) -> tuple[int | None, str, dict]:
    """The priors without a fold, as JSON, and their cards."""
    files, without, made = task
    priors = {
        protocol: fit([file for file in each if without is None or fold_of(file.catalogue) != without], protocol, made)
        for protocol, each in files.items()
    }
    return without, priors_to_json(priors), {name: dict(prior.card) for name, prior in priors.items()}


def write_card(cards: dict[str, dict], sizes: dict[str, tuple[float, float]]) -> None:
    """The prior card of the documentation."""
    lines = [
        "# What the prior has seen", "",
        "`LogSpline` fills in what a sample cannot show with what rank distributions of recommenders usually look like. This page says whose. It is written by "
        "`python benchmarks/fit_hyperprior.py`; families of catalogues (one platform each) weigh alike. A report names the prior that spoke under `provenance`, and says "
        "when a catalogue is larger or smaller than any seen here, or when ranks look like none of these recommenders.", "",
        "| prior | for | files | catalogues | families | items | models | made |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    what = {
        "unseen": "one target per user, training items are not candidates",
        "all": "one target per user, all items are candidates",
        "several": "several targets per user",
    }
    for name, card in cards.items():
        low, high = sizes[name]
        lines.append(f"| `{name}` | {what[name]} | {card['files']} | {card['catalogues']} | {card['families']} | {low:,.0f} to {high:,.0f} | {', '.join(card['models'])} | {card['made']} |")  # fmt: skip
    lines += ["", "Catalogues by kind:", "", "| kind | `unseen` and `all` | `several` |", "|---|---|---|"]
    for each in sorted(set(cards["unseen"]["kinds"]) | set(cards["several"]["kinds"])):
        lines.append(f"| {each} | {cards['unseen']['kinds'].get(each, 0)} | {cards['several']['kinds'].get(each, 0)} |")
    lines += ["", "Behind every prior stand two more shapes, a smooth and a rough one, for rank distributions of any kind at all: when the evidence is not clearly "
              "against them, the report warns and the intervals reach as far as the assumption-free bounds."]  # fmt: skip
    (ROOT.parent / "docs/prior.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    one, several = rank_files("FULLRANK_RANKS"), rank_files("FULLRANK_RANKS_SEVERAL")
    (ROOT / "priors").mkdir(exist_ok=True)
    made = date.today().isoformat()
    with ProcessPoolExecutor(2) as pool:
        files = {
            protocol: list(pool.map(read, [(path, protocol) for path in paths], chunksize=8))
            for protocol, paths in (("unseen", one), ("all", one), ("several", several))
        }
        print({protocol: len(each) for protocol, each in files.items()}, flush=True)
        for without, text, card in pool.map(fit_one, [(files, fold, made) for fold in (None, *range(FOLDS + 1))]):
            target = SHIPPED if without is None else ROOT / f"priors/fold-{without}.json"
            target.write_text(text + "\n")
            if without is None:
                sizes = {name: HyperPrior.from_json(text, name).sizes for name in card}
                write_card(card, sizes)
            print(f"{target.name}: {len(text) / 1000:.0f} kB, {card['unseen']['files']} files", flush=True)


if __name__ == "__main__":
    main()
