"""Pairs of models, one as the expensive scorer and one as its guide: which places of the guide's order beat the target.

``FULLRANK_DATA`` and ``FULLRANK_MORE_DATA`` name the folders of catalogues. Models are trained once and what they show is kept
under ``FULLRANK_PAIRS`` (default: a folder of the temporary directory). One file per catalogue holds, for each of 1,500 cases
and every ordered pair, the true rank, the first 60 places that beat the target, and how many do up to depths in steps of √2.
Popular items come between those of a guide, as `observe` has it, but not between those of a random order.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numba
import numpy as np
import polars as pl
import scipy.sparse as sp

import fullrank as fr
from fullrank.observing.guides import BETWEEN_POPULAR, by_popularity, with_popular

KEPT = Path(os.environ.get("FULLRANK_PAIRS", Path(tempfile.gettempdir()) / "fullrank-guide-pairs"))
CASES, PLACES, MOST_USERS, MOST_ITEMS_OF_EASE = 1500, 60, 25_000, 17_000


def pairs_of(name: str) -> dict[str, np.ndarray]:
    """What was found on a catalogue: from the file, or by training now."""
    path = KEPT / f"{name}-{BETWEEN_POPULAR}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **make(name))
    with np.load(path) as file:
        return dict(file)


def interactions(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Users and items of a catalogue."""
    places = [Path(os.environ.get("FULLRANK_DATA", ".")) / name / "interactions.parquet"]
    places.append(Path(os.environ.get("FULLRANK_MORE_DATA", ".")) / f"{name}.parquet")
    path = next((place for place in places if place.exists()), None)
    if path is None:
        raise SystemExit(f"{name} is in neither FULLRANK_DATA nor FULLRANK_MORE_DATA.")
    table = pl.read_parquet(path, columns=["user", "item"]).unique(maintain_order=True)
    return table["user"].to_numpy().astype(np.int64), table["item"].to_numpy().astype(np.int64)


def split_of(name: str, rng: np.random.Generator) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
    """The train matrix, and the user and the target of each case: one interaction per user, left out at random."""
    users, items = interactions(name)
    distinct = np.unique(users)
    if len(distinct) > MOST_USERS:
        kept = np.isin(users, rng.choice(distinct, MOST_USERS, replace=False))
        users, items = users[kept], items[kept]
    users, items = (np.unique(each, return_inverse=True)[1] for each in (users, items))
    number = np.bincount(users)
    order = rng.permutation(len(users))
    users, items = users[order], items[order]
    first = np.unique(users, return_index=True)[1][number >= 3]
    held = np.zeros(len(users), dtype=bool)
    held[first] = True
    shape = int(users.max()) + 1, int(items.max()) + 1
    train = sp.csr_matrix((np.ones((~held).sum(), np.float32), (users[~held], items[~held])), shape=shape)
    train.sort_indices()
    chosen = rng.choice(first, min(CASES, len(first)), replace=False)
    return train, users[chosen], items[chosen]


@numba.njit(cache=True)
def bpr(ptr, index, users, items, shape, factors, epochs, rate, decay):
    """Bayesian personalised ranking by stochastic gradients (Rendle et al. 2009)."""
    np.random.seed(1)  # noqa: NPY002 - compiled, it is numba's own
    U = np.random.normal(0, 0.1, (shape[0], factors)).astype(np.float32)  # noqa: NPY002 - compiled, it is numba's own
    V = np.random.normal(0, 0.1, (shape[1], factors)).astype(np.float32)  # noqa: NPY002 - compiled, it is numba's own
    bias = np.zeros(shape[1], np.float32)
    for _ in range(epochs * len(users)):
        k = np.random.randint(len(users))  # noqa: NPY002 - compiled, it is numba's own
        u, i, j = users[k], items[k], np.random.randint(shape[1])  # noqa: NPY002 - compiled, it is numba's own
        own = index[ptr[u] : ptr[u + 1]]
        place = np.searchsorted(own, j)
        if place < len(own) and own[place] == j:
            continue
        x = bias[i] - bias[j]
        for c in range(factors):
            x += U[u, c] * (V[i, c] - V[j, c])
        g = rate / (1 + np.exp(x))
        bias[i] += g - rate * decay * bias[i]
        bias[j] += -g - rate * decay * bias[j]
        for c in range(factors):
            a, b, d = U[u, c], V[i, c], V[j, c]
            U[u, c] += g * (b - d) - rate * decay * a
            V[i, c] += g * a - rate * decay * b
            V[j, c] += -g * a - rate * decay * d
    return U, V, bias


def scores_of(train: sp.csr_matrix, users: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Scores of every item for the users, by model."""
    models = {"knn": fr.models.ItemKNN(), "als": fr.models.ALS(32)}
    if train.shape[1] <= MOST_ITEMS_OF_EASE:
        models["ease"] = fr.models.EASE(200.0)
    out = {
        "pop": np.tile(np.asarray(train.sum(0)).ravel(), (len(users), 1)),
        "rnd": rng.random((len(users), train.shape[1])),
    }
    catalogue = np.arange(train.shape[1])
    for name, model in models.items():
        scorer = fr.as_scorer(model.fit(train))
        parts = [users[first : first + 100] for first in range(0, len(users), 100)]
        out[name] = np.concatenate([scorer.score(each, np.tile(catalogue, (len(each), 1))) for each in parts])
    rows = np.repeat(np.arange(train.shape[0]), np.diff(train.indptr))
    arrays = (train.indptr.astype(np.int64), train.indices.astype(np.int64), rows, train.indices.astype(np.int64))
    U, V, bias = bpr(*arrays, train.shape, 32, 30, 0.05, 0.01)
    out["bpr"] = U[users] @ V.T + bias
    return out


def make(name: str) -> dict[str, np.ndarray]:
    """Train, and look where the items that beat each target stand in every other model's order."""
    rng = np.random.default_rng(5)
    train, users, targets = split_of(name, rng)
    n, cases = train.shape[1], np.arange(len(users))
    seen = train[users].toarray() > 0
    times, popular = np.asarray(train.sum(0)).ravel(), by_popularity(train)
    place, order_of = {}, {}
    for model, scores in scores_of(train, users, rng).items():
        scores = scores.astype(np.float64)
        scores[seen] = -np.inf
        place[model], order_of[model] = (np.empty((len(users), n), np.int32) for _ in range(2))
        for row in cases:
            chance = rng.random(n)
            place[model][row, np.lexsort((chance, -scores[row]))] = np.arange(n)
            if model not in ("pop", "rnd"):
                own = np.lexsort((chance, -times, -scores[row]))
                own = with_popular(own, popular[~seen[row, popular]], n)
                order_of[model][row, own] = np.arange(n)
    order_of |= {model: place[model] for model in ("pop", "rnd")}
    depths = np.unique(np.geomspace(10, n, int(2 * np.log2(n / 10)) + 1).round().astype(int))
    out = {"N": n - seen.sum(1), "grid": depths, "n_items": np.array(n)}
    for model in place.keys() - {"rnd"}:
        own = place[model][cases, targets]
        out[f"R_{model}"] = own + 1
        for guide in place.keys() - {model}:
            ahead, first = np.zeros((len(users), len(depths)), np.int32), np.full((len(users), PLACES), n + 1, np.int32)
            for row in cases:
                order = order_of[guide][row]
                better = order[place[model][row] < own[row]]
                better = np.sort(better + 1 - (better > order[targets[row]]))
                ahead[row] = np.searchsorted(better, depths, side="right")
                first[row, : min(PLACES, len(better))] = better[:PLACES]
            out[f"ahead_{model}_{guide}"], out[f"first_{model}_{guide}"] = ahead, first
    return out


def beaten_items(found: dict[str, np.ndarray], model: str, guide: str, rng: np.random.Generator) -> np.ndarray:
    """Cases × places of the guide's order: whether the item there beats the target.

    Past the sixtieth, hits are spread evenly between the depths at which their number is known.
    """
    n, first, ahead = int(found["n_items"]), found[f"first_{model}_{guide}"], found[f"ahead_{model}_{guide}"]
    ranks, pools, depths = found[f"R_{model}"], found["N"], found["grid"]
    beats = np.zeros((len(ranks), n), dtype=bool)
    for case, rank in enumerate(ranks):
        own = first[case][first[case] <= n]
        beats[case, own] = True
        if rank - 1 > len(own):
            deeper = depths > own[-1]
            edges = np.concatenate([[own[-1]], depths[deeper], [pools[case] - 1]])
            number = np.diff(np.concatenate([[len(own)], ahead[case][deeper], [rank - 1]]))
            for low, high, hits in zip(edges[:-1], np.minimum(edges[1:], n - 1), number, strict=True):
                if hits > 0 and high > low:
                    beats[case, rng.choice(np.arange(low + 1, high + 1), min(hits, high - low), replace=False)] = True
    beats[:, 0] = False
    return beats
