"""Fit LogSpline's prior to the true ranks of real recommenders: what rank distributions look like, as means and covariances.

Every file (see ``catalogues.py``) gets a spline fit in x = log R / log N; near the fit, its likelihood is a Gaussian in the
coefficients. Over files, the coefficients (whose level is free: they sum to zero) are Gaussian about mean + slope · z with
z = log N − 9, fitted by expectation maximisation, so that a small file counts for what it knows. Families of catalogues weigh
alike, catalogues alike within a family, models alike within a catalogue. Kinds of recommenders are fitted apart, by their
models. For one target among unseen candidates there are three views: recommenders by their kinds, those of sequences
(``sequence_ranks.py``) among them, rank distributions by their shapes, whichever recommender they come from, and all but
those of sequences as one.

Where models are compared, it matters what those of one catalogue have in common: their coefficients are mean + slope · z, a
part that all models of a catalogue share, and one of each model's own, with a covariance each, fitted in the same way. This
is for unseen candidates: where training items are candidates, heads are thinned by how models treat those, each in its way,
and what models share found winners less often.

With several targets per user every file has a spline for each bin of (j, T), and the covariance of bins b and c is
coupling[b, c] · covariance. Few catalogues have been ranked that way, so the covariance and the slope are those of all files
with one target: a random target of a random user is one more bin, which both kinds of files have.

    python benchmarks/fit_hyperprior.py                 # the shipped prior, and for every fold one without its families
    python benchmarks/fit_hyperprior.py --only several  # only this one; the others stay in the files as they are
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process per core does better than threads within one

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from catalogues import FOLD_FILE, FOLDS, SEQUENCES, family, fold_of, kind, rank_files, share_out, split_name
from fullrank.estimators._grid import Grid
from fullrank.estimators.hyperprior import BINS, HyperPrior, Kind, bins_of, models_in_words, priors_to_json
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
SLOPE_RIDGE = 0.3
ROUNDS, ROUNDS_SEVERAL, ROUNDS_COMMON = 40, 3, 30
#: With several targets, the bin after those of (j, T): a random target of a random user.
ANY_TARGET = len(BINS)
ITEM_ITEM, FACTORS, LINEAR, POPULARITY = ("knn", "bm25", "Y", "Z"), ("als", "bpr", "X"), ("ease",), ("pop",)
BY_MODEL = {
    "popularity": POPULARITY, "factors": FACTORS, "item-item": ITEM_ITEM, "linear": LINEAR, "sequences": SEQUENCES,
}  # fmt: skip
#: The kinds of recommenders of each prior, with the models that make them.
RECOMMENDERS: dict[str, dict[str, tuple[str, ...]]] = {
    "unseen": BY_MODEL,
    "all": BY_MODEL,
    "several": {"personal": ITEM_ITEM + FACTORS + LINEAR, "popularity": POPULARITY},
}
#: Kinds of shapes in the second view of a prior that has three, and the leading directions in which they are told apart.
SHAPES, DIRECTIONS = {"unseen": 4}, 6
#: For unseen candidates, the variance beyond so many leading directions of a kind is cut to this part: samples say nearly
#: nothing about those directions, and what they seem to say is noise.
LEADING, BEYOND = 9, 0.2
#: The same where models are compared: what sets them apart moves along fewer directions.
LEADING_COMPARED, BEYOND_COMPARED = 5, 0.05
#: Factors of the covariance, and their weights: heavy tails.
WIDE = ((0.5, 0.4), (1.0, 0.3), (3.0, 0.2), (12.0, 0.1))
SCALES = {"unseen": WIDE, "all": WIDE, "several": ((1.0, 0.8), (4.0, 0.2))}
#: Of each prior: how far values lie from their middle, in logs, below and above it, and beyond which distance only its root
#: counts (see HyperPrior.calibrated), chosen on ten folds of whole families. Left-out families would do with 1.15 for
#: several targets, too, but few catalogues have been ranked that way, and recommenders of kinds that are not behind the
#: prior need more (other_models.py).
SPREAD = {"unseen": (1.0, 1.2), "all": (1.5, 1.5), "several": (1.25, 1.25)}
FAR = {"unseen": 0.6, "all": None, "several": None}
#: Power of the evidence (see HyperPrior).
TRUST = {"unseen": 0.5, "all": 1.0, "several": 1.0}
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
            share = 1 / data["targets"].astype(np.float64)
        elif protocol == "unseen":
            ranks, pool = data["R_masked"].astype(np.int64), int(data["N_masked"].max())
        else:
            ranks, pool = data["R_unmasked"].astype(np.int64), int(data["N"])
    grid = Grid.for_tables([PoolTable(float(pool), np.array([1]), np.array([0]), np.ones((1, 1)))], replace=True)
    spline = SplineModel.on(grid, COEFFICIENTS)
    cell = np.searchsorted(grid.hi, ranks)
    number = ANY_TARGET + 1 if protocol == "several" else 1
    informed, pull, start, cases = (
        np.zeros((number, *shape)) for shape in ((COEFFICIENTS,) * 2, (COEFFICIENTS,), (COEFFICIENTS,), ())
    )
    centre = np.zeros(COEFFICIENTS)
    if protocol == "several":  # bins with few cases are approximated near what the whole file shows
        centre, _, _ = approximate(spline, np.bincount(cell, minlength=len(grid)).astype(float), centre)
    for b in range(min(number, ANY_TARGET)):
        seen = np.bincount(cell[bins == b] if number > 1 else cell, minlength=len(grid)).astype(float)
        if seen.any():
            β, informed[b], pull[b] = approximate(spline, seen, centre)
            start[b], cases[b] = β - β.mean(), seen.sum()
    if protocol == "several":  # each user has one case in all; as many cases as would vary as much
        seen = np.bincount(cell, share * share.sum() / (share @ share), minlength=len(grid))
        β, informed[ANY_TARGET], pull[ANY_TARGET] = approximate(spline, seen, np.zeros(COEFFICIENTS))
        start[ANY_TARGET], cases[ANY_TARGET] = β - β.mean(), seen.sum()
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


def of_models(files: list[File], models: Iterable[str]) -> list[File]:
    """The files of some models."""
    return [file for file in files if file.model in models]


def by_shape(files: list[File], number: int) -> list[list[File]]:
    """So many groups of files with like coefficients, whatever the size of the catalogue: weighted k-means.

    Files are told apart where they differ most: along the leading directions of what size does not explain.
    """
    w, z, β = shares(files), np.array([file.z for file in files]), np.array([file.start[0] for file in files])
    z, β = z - w @ z, β - w @ β
    β = β - np.outer(z, (w * z) @ β / (w @ z**2))
    _, _, directions = np.linalg.svd(np.sqrt(w)[:, None] * β, full_matrices=False)
    where = β @ directions[:DIRECTIONS].T
    rng = np.random.default_rng(0)
    best, group = np.inf, np.zeros(len(files), dtype=np.int64)
    for _ in range(20):
        centres = where[rng.choice(len(files), number, replace=False, p=w)]
        for _ in range(60):
            far = ((where[:, None] - centres) ** 2).sum(2)
            nearest = far.argmin(1)
            mine = w * (nearest == np.arange(number)[:, None])
            centres = mine @ where / np.maximum(mine.sum(1, keepdims=True), 1e-12)
        if w @ far.min(1) < best:
            best, group = w @ far.min(1), nearest
    return [[file for file, each in zip(files, group, strict=True) if each == one] for one in range(number)]


def population(files: list[File], name: str, weight: float) -> Kind:
    """One target per user: mean, slope and covariance of the files, by expectation maximisation."""
    w, z = shares(files), np.array([file.z for file in files])
    X = np.stack([np.ones_like(z), z], axis=1)
    weighted = (X * w[:, None]).T
    H, h, β = (np.array([getattr(file, key)[0] for file in files]) for key in ("information", "pull", "start"))
    V = np.zeros_like(H)
    for _ in range(ROUNDS):
        trend = np.linalg.solve(weighted @ X + np.diag([0, SLOPE_RIDGE]), weighted @ β)
        mean = X @ trend
        S = regular((w[:, None] * (β - mean)).T @ (β - mean) + np.einsum("i,ijk->jk", w, V))
        Q = np.linalg.inv(S)
        V = np.linalg.inv(H + Q)
        β = np.einsum("nij,nj->ni", V, h + mean @ Q) @ CENTRE
        V = CENTRE @ V @ CENTRE
    return Kind(name, weight, trend[:1], trend[1], S, np.ones((1, 1)))


def coupled(files: list[File], one_target: list[File], name: str, weight: float) -> Kind:
    """Several targets: a mean for every bin and a coupling of bins, about the shapes of all files with one target.

    A file speaks for the bins it has cases in. Bins that few files have together fall back on a coupling that falls off with
    their distance in octaves. Where the catalogues with several targets differ from all others on the mean, the means of bins
    are moved by as much as they go together with a random target's.
    """
    world = population(one_target, name, weight)
    S, slope = world.covariance, world.slope
    Q = np.linalg.inv(S)
    octaves = np.array([*BINS, (0, 1.5)])
    far = np.abs(octaves[:, None] - octaves[None]).sum(2)
    falling = 0.4 + 0.6 * np.exp(-far / 4)
    means, K = np.repeat(world.means, ANY_TARGET + 1, axis=0), falling
    w = shares(files)
    for _ in range(ROUNDS_SEVERAL):
        posts = [posterior(file, means + file.z * slope, K, Q) for file in files]
        moved, total = 0.01 * means, np.full(ANY_TARGET + 1, 0.01)
        for file, share, (bins, β, _) in zip(files, w, posts, strict=True):
            moved[bins] += share * (β - file.z * slope)
            total[bins] += share
        means = centred(moved / total[:, None])
        P, pairs = np.zeros_like(K), np.zeros_like(K)
        for file, share, (bins, β, variance) in zip(files, w, posts, strict=True):
            left = β - centred(means[bins] + file.z * slope)
            joint = np.ix_(bins, bins)
            P[joint] += share * (left @ Q @ left.T / COEFFICIENTS + variance)
            pairs[joint] += share
        spreads = np.sqrt((np.diag(P) + 0.02 * np.mean(np.diag(P))) / (np.diag(pairs) + 0.02 * np.mean(np.diag(pairs))))
        K = (P + 0.05 * falling * np.outer(spreads, spreads)) / (pairs + 0.05)
        K = (1 - SHRINK_COUPLING) * K + SHRINK_COUPLING * np.diag(np.diag(K))
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        K = (vectors * np.maximum(values, 1e-3 * values.max())) @ vectors.T
    together = np.clip(K[:, ANY_TARGET] / K[ANY_TARGET, ANY_TARGET], 0, 1)
    means = means + together[:, None] * (world.means[0] - means[ANY_TARGET])
    K = (K + K.T)[:ANY_TARGET, :ANY_TARGET] / 2
    return Kind(name, weight, means[:ANY_TARGET], slope, S, K)


def common(files: list[File]) -> Kind:
    """What models of one catalogue share, and how each differs from the others, by expectation maximisation.

    Popularity is left out: it has little in common with recommenders that know their users.
    """
    by_catalogue: dict[str, list[File]] = {}
    for file in files:
        if file.model not in (*POPULARITY, *SEQUENCES):
            by_catalogue.setdefault(file.catalogue, []).append(file)
    several = {name: each for name, each in by_catalogue.items() if len(each) > 1}
    everyone = [file for each in several.values() for file in each]
    weight: Counter[str] = Counter()
    for file, share in zip(everyone, shares(everyone), strict=True):
        weight[file.catalogue] += share
    start = population(everyone, "common", 1.0)
    trend = np.stack([start.means[0], start.slope])
    shared, own = start.covariance / 2, start.covariance / 2
    for _ in range(ROUNDS_COMMON):
        sums = [np.zeros((COEFFICIENTS, COEFFICIENTS)), np.zeros((COEFFICIENTS, COEFFICIENTS))]
        XX, XB = np.diag([0, SLOPE_RIDGE]), np.zeros((2, COEFFICIENTS))
        for name, each in several.items():
            X = np.array([1, each[0].z])
            what, β = apart(each, X @ trend, shared, own)
            for total, found in zip(sums, what, strict=True):
                total += weight[name] * found
            XX, XB = XX + weight[name] * np.outer(X, X), XB + weight[name] * np.outer(X, centred(β))
        trend = np.linalg.solve(XX, XB)
        shared, own = map(regular, sums)
    shared, own = (stiff(each, LEADING_COMPARED, BEYOND_COMPARED) for each in (shared, own))
    return Kind("common", 1.0, trend[:1], trend[1], own, np.ones((1, 1)), shared=shared)


def apart(
    files: list[File], mean: np.ndarray, shared: np.ndarray, own: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Of the models of one catalogue: second moments of what they share and of their own, and their mean coefficients."""
    number, size = len(files), COEFFICIENTS
    Q = np.linalg.inv(own)
    precision = np.zeros(((number + 1) * size,) * 2)  # of what is shared, and of every model beyond the mean
    pull = np.zeros(len(precision))
    first = slice(0, size)
    places = [slice(size * place, size * (place + 1)) for place in range(1, number + 1)]
    precision[first, first] = np.linalg.inv(shared) + number * Q
    for place, file in zip(places, files, strict=True):
        precision[place, place] = file.information[0] + Q
        precision[first, place] = precision[place, first] = -Q
        pull[place] = file.pull[0] - file.information[0] @ mean
    V = np.linalg.inv(precision)
    β = V @ pull
    of_own = np.zeros((size, size))
    for place in places:
        left = β[place] - β[first]
        variance = V[place, place] + V[first, first] - V[first, place] - V[place, first]
        of_own += (np.outer(left, left) + variance) / number
    moments = np.outer(β[first], β[first]) + V[first, first], of_own
    return moments, mean + β[size:].reshape(number, size).mean(0)


def stiff(S: np.ndarray, leading: int, beyond: float) -> np.ndarray:
    """A covariance with little of its variance beyond the leading directions."""
    values, vectors = np.linalg.eigh(CENTRE @ S @ CENTRE)  # in rising order
    values[:-leading] *= beyond
    S = CENTRE @ (vectors * np.maximum(values, 0)) @ vectors.T @ CENTRE + 1e-5 * CENTRE + 0.5 * LEVEL
    return (S + S.T) / 2


def centred(β: np.ndarray) -> np.ndarray:
    """Coefficients whose level is zero."""
    return β - β.mean(-1, keepdims=True)


def posterior(file: File, means: np.ndarray, K: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of one file with several targets: the bins it has, their mean coefficients and tr(Q · covariance) of every pair."""
    bins = np.flatnonzero(file.cases > 0)
    H = np.kron(np.linalg.inv(K[np.ix_(bins, bins)]), Q)
    pull = file.pull[bins].ravel() + H @ means[bins].ravel()
    for place, b in enumerate(bins):
        here = slice(place * COEFFICIENTS, (place + 1) * COEFFICIENTS)
        H[here, here] += file.information[b]
    V = np.tril(dpotri(dpotrf(H, lower=1)[0], lower=1)[0])
    V += np.tril(V, -1).T
    β = centred((V @ pull).reshape(len(bins), -1))
    V = V.reshape(len(bins), COEFFICIENTS, len(bins), COEFFICIENTS)
    return bins, β, np.einsum("sitj,ij->st", V, Q, optimize=True) / COEFFICIENTS


def fit(files: list[File], protocol: str, made: str, one_target: list[File]) -> HyperPrior:
    """The prior of one protocol; ``one_target``: the files with one target, whose shapes those with several share."""
    kinds = RECOMMENDERS[protocol]
    used = {model for models in kinds.values() for model in models}
    files, one_target = of_models(files, used), of_models(one_target, used)
    fitted = []
    for name, models in kinds.items():
        mine, about = of_models(files, models), (name, 1 / len(kinds))
        several = protocol == "several"
        fitted.append(coupled(mine, of_models(one_target, models), *about) if several else population(mine, *about))
    if protocol in SHAPES:
        weight = dict(zip(files, shares(files), strict=True))
        for number, mine in enumerate(by_shape(files, SHAPES[protocol]), 1):
            fitted.append(replace(population(mine, f"shape {number}", sum(map(weight.get, mine))), view=1))
        fitted.append(replace(population(of_models(files, used - set(SEQUENCES)), "any", 1.0), view=2))
    if protocol == "unseen":
        fitted = [replace(kind, covariance=stiff(kind.covariance, LEADING, BEYOND)) for kind in fitted]
    catalogues = sorted({file.catalogue for file in files})
    sizes = [file.n_items for file in files + one_target * (protocol == "several")]
    card = {
        "families": len({family(name) for name in catalogues}),
        "catalogues": len(catalogues),
        "files": len(files),
        "kinds": dict(Counter(kind(name) for name in catalogues)),
        "models": sorted({file.model for file in files}),
        "made": made,
    }
    if protocol == "several":
        card["one_target_files"] = len(one_target)
    return HyperPrior(
        protocol,
        tuple(fitted),
        SCALES[protocol],
        (min(sizes), max(sizes)),
        SPREAD[protocol],
        FAR[protocol],
        card,
        TRUST[protocol],
        common=common(files) if protocol == "unseen" else None,
    )


def fit_one(task: tuple[dict[str, list[File]], int | None, str, tuple[str, ...]]) -> tuple[Path, dict[str, HyperPrior]]:
    """The chosen priors without a fold, the others as the file there has them, and where they belong."""
    files, without, made, chosen = task
    target = SHIPPED if without is None else ROOT / f"priors/fold-{without}.json"
    kept = {
        protocol: [file for file in each if without is None or fold_of(file.catalogue) != without]
        for protocol, each in files.items()
    }
    return target, {
        name: fit(kept[name], name, made, kept["unseen"])
        if name in chosen
        else HyperPrior.from_json(target.read_text(), name)
        for name in RECOMMENDERS
    }


def write_card(priors: dict[str, HyperPrior]) -> None:
    """The prior card of the documentation."""
    cards = {name: prior.card for name, prior in priors.items()}
    lines = [
        "# What the prior has seen", "",
        "`LogSpline` fills in what a sample cannot show with what rank distributions of recommenders usually look like. This page says whose. It is written by "
        "`python benchmarks/fit_hyperprior.py`; families of catalogues (one platform each) weigh alike. A report names the prior that spoke under `provenance`, and says "
        "when a catalogue is larger or smaller than any seen here, or when ranks look like none of these recommenders.", "",
        "| prior | for | files | catalogues | families | items | models | made |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    what = {
        "unseen": "one target per user, training items are not candidates; three views, recommenders by their kinds, rank distributions by their shapes, and all but those of sequences as one",
        "all": "one target per user, all items are candidates",
        "several": "several targets per user; sizes and shapes also from the files of `unseen`",
    }
    for name, card in cards.items():
        low, high = priors[name].sizes
        lines.append(f"| `{name}` | {what[name]} | {card['files']} | {card['catalogues']} | {card['families']} | {low:,.0f} to {high:,.0f} | {models_in_words(card['models'])} | {card['made']} |")  # fmt: skip
    lines += ["", "Catalogues by kind:", "", "| kind | `unseen` and `all` | `several` |", "|---|---|---|"]
    for each in sorted(set(cards["unseen"]["kinds"]) | set(cards["several"]["kinds"])):
        lines.append(f"| {each} | {cards['unseen']['kinds'].get(each, 0)} | {cards['several']['kinds'].get(each, 0)} |")
    lines += ["", "Where models are compared, `unseen` also says what models of one catalogue have in common, learned from the same files without those of "
              "popularity and of sequences (see [Comparing models](comparing.md))."]  # fmt: skip
    lines += ["", "Behind every prior stand two more shapes, a smooth and a rough one, for rank distributions of any kind at all: when the evidence is not clearly "
              "against them, the report warns and the intervals reach as far as the assumption-free bounds. How the prior does for recommenders that are "
              "none of those above, see [Recommenders of other kinds](other_models.md)."]  # fmt: skip
    (ROOT.parent / "docs/prior.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument(
        "--only", choices=tuple(RECOMMENDERS), help="fit this prior alone and leave the others as they are"
    )
    only = ask.parse_args().only
    chosen = (only,) if only else tuple(RECOMMENDERS)
    one, several = rank_files("FULLRANK_RANKS"), rank_files("FULLRANK_RANKS_SEVERAL")
    if not {split_name(path)[1] for path in one} >= set(SEQUENCES):
        raise SystemExit(
            "FULLRANK_RANKS has no recommenders of sequences: make them with sequence_ranks.py, and add them."
        )
    (ROOT / "priors").mkdir(exist_ok=True)
    if not only:  # those that stay were fitted with the folds that are there
        FOLD_FILE.write_text(json.dumps(share_out(), indent=0) + "\n")
    made = date.today().isoformat()
    needed = {name: several if name == "several" else one for name in ("unseen", *chosen)}
    with ProcessPoolExecutor(2) as pool:
        files = {
            protocol: list(pool.map(read, [(path, protocol) for path in paths], chunksize=8))
            for protocol, paths in needed.items()
        }
        print({protocol: len(each) for protocol, each in files.items()}, flush=True)
        folds = (None, *range(FOLDS + 1))
        for target, priors in pool.map(fit_one, [(files, fold, made, chosen) for fold in folds]):
            text = priors_to_json(priors)
            target.write_text(text + "\n")
            if target == SHIPPED:
                write_card(priors)
            print(f"{target.name}: {len(text) / 1000:.0f} kB, {priors['unseen'].card['files']} files", flush=True)


if __name__ == "__main__":
    main()
