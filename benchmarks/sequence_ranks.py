"""Make true ranks of recommenders of sequences: a GRU, self-attention and a Markov chain, one held-out item per user.

Other rank files come from recommenders that know what a user took, not in which order. Those that know it rank many more
targets at the very top, which samples of a hundred negatives do not see, so the prior must have seen such recommenders, too.
They are trained on the catalogues of FULLRANK_MORE_DATA (NAME.parquet) and FULLRANK_DATA (NAME/interactions.parquet) whose
interactions have times, and ranked in full: CATALOGUE__gru.npz, __attention.npz and __markov.npz, as FULLRANK_RANKS takes
them. Needs torch.

    python benchmarks/sequence_ranks.py artifacts/ranks-sequences             # 40 minutes of work; files that are there stay
    python benchmarks/sequence_ranks.py /tmp/ranks --catalogues amazon-toys   # some catalogues only
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process per core does better than threads within one

import numpy as np
import polars as pl
import scipy.sparse as sp

from accuracy import LEAST
from catalogues import SEQUENCES, folders

#: The last so many items of a history are read, vectors have so many entries, so many negatives stand for all in training.
LENGTH, FACTORS, NEGATIVES = 20, 64, 512
BATCH, STEPS, RATE, DROPOUT = 256, 1500, 2e-3, 0.2
#: Cases of a catalogue, and users whose items are scored at once.
CASES, TOGETHER = 8000, 200
SEED = 5

#: Scores of all items for some users, as rows.
Rows = Callable[[np.ndarray], np.ndarray]


def interactions(path: Path, seed: int = SEED) -> tuple[np.ndarray, np.ndarray, bool]:
    """Users and items of all interactions, user by user, and whether each user's are in the order of time.

    Where there are no times they are in random order, as are interactions of one user at the same time.
    """
    table = pl.read_parquet(path)
    user, item = table.columns[:2]
    timed = "timestamp" in table.columns
    chance = pl.Series("chance", np.random.default_rng(seed).random(len(table)))
    table = table.with_columns(chance).sort([user, "timestamp", "chance"] if timed else [user, "chance"])
    return table[user].to_numpy().astype(np.int64), table[item].to_numpy().astype(np.int64), timed


def has_sequences(path: Path) -> bool:
    """Whether a catalogue has times, and as many items as those that are judged."""
    _, items, timed = interactions(path)
    return timed and int(items.max()) >= LEAST


def from_the_end(users: np.ndarray) -> np.ndarray:
    """The place of every interaction in its user's history, counted from the end: 1 is the user's last one."""
    return np.cumsum(np.bincount(users))[users] - np.arange(len(users))


def histories(users: np.ndarray, items: np.ndarray, n_items: int, n_users: int) -> np.ndarray:
    """The items of every user, no more than ``LENGTH + 1``, as a row: the latest last, ``n_items`` before the first."""
    out = np.full((n_users, LENGTH + 1), n_items)
    out[users, LENGTH + 1 - from_the_end(users)] = items
    return out


def markov(users: np.ndarray, items: np.ndarray, popularity: np.ndarray) -> Rows:
    """How often an item followed the user's last one; popularity where that says nothing.

    ``users`` and ``items`` are the interactions to learn from, user by user, each user's in the order of time.
    """
    n = len(popularity)
    same = users[1:] == users[:-1]
    one, next_one = items[:-1][same], items[1:][same]
    follows = sp.csr_array((np.ones(len(one), dtype=np.float32), (one, next_one)), shape=(n, n))
    last = np.zeros(users.max() + 1, dtype=np.int64)
    last[users] = items  # the latest of equal indices stays
    little = 1e-6 * popularity / popularity.max()
    return lambda chosen: follows[last[chosen]].toarray() + little


def neural(kind: str, read: np.ndarray, popularity: np.ndarray) -> Rows:
    """What a GRU (Hidasi et al. 2016) or self-attention (Kang & McAuley 2018) expects next, by a sampled softmax."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    n = len(popularity)

    class Network(nn.Module):
        """Items read in order, and a vector for what comes after each."""

        def __init__(self) -> None:
            super().__init__()
            self.items = nn.Embedding(n + 1, FACTORS, padding_idx=n)
            self.places = nn.Parameter(0.05 * torch.randn(LENGTH, FACTORS))
            nn.init.normal_(self.items.weight, std=0.05)
            self.dropout, self.norm = nn.Dropout(DROPOUT), nn.LayerNorm(FACTORS)
            if kind == "gru":
                self.reader: nn.Module = nn.GRU(FACTORS, FACTORS, batch_first=True)
            else:
                layer = nn.TransformerEncoderLayer(FACTORS, 1, 2 * FACTORS, DROPOUT, batch_first=True, norm_first=True)
                self.reader = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

        def forward(self, history: torch.Tensor) -> torch.Tensor:
            vectors = self.items(history) * FACTORS**0.5
            if kind == "gru":
                return self.norm(self.reader(self.dropout(vectors))[0])
            later = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
            return self.norm(self.reader(self.dropout(vectors + self.places), mask=later))

    network, rng = Network(), np.random.default_rng(SEED)
    optimiser = torch.optim.Adam(network.parameters(), RATE)
    known = torch.from_numpy(read)
    long_enough = np.flatnonzero(read[:, -2] < n)
    for _ in range(STEPS):
        batch = rng.choice(long_enough, BATCH)
        before, after = known[batch, :-1], known[batch, 1:]
        both = (before < n) & (after < n)
        expected, target = network(before)[both], after[both]
        negatives = torch.from_numpy(rng.integers(0, n, NEGATIVES))
        others = expected @ network.items(negatives).T + float(np.log(n / NEGATIVES))
        others = others.masked_fill(negatives == target[:, None], -1e9)
        own = (expected * network.items(target)).sum(-1, keepdim=True)
        loss = nn.functional.cross_entropy(torch.cat([own, others], 1), torch.zeros(len(target), dtype=torch.long))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    network.eval()

    def rows(users: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return (network(known[users, 1:])[:, -1] @ network.items.weight[:n].T).numpy()

    return rows


def ranks(scores: Rows, chosen: np.ndarray, targets: np.ndarray, train: sp.csr_array) -> Iterator[np.ndarray]:
    """The ranks of targets among items the user has not taken, the number of these, and the ranks among all items."""
    rng = np.random.default_rng(SEED)
    for first in range(0, len(chosen), TOGETHER):
        users, target = chosen[first : first + TOGETHER], targets[first : first + TOGETHER]
        row = np.asarray(scores(users), dtype=np.float64)
        own = np.take_along_axis(row, target[:, None], axis=1)
        above, tied = row > own, row == own
        np.put_along_axis(tied, target[:, None], False, axis=1)
        above |= tied & (rng.random(row.shape) < rng.random((len(users), 1)))  # a random place among equals
        unseen = np.ones(row.shape, dtype=bool)
        seen = train[users]
        unseen[np.repeat(np.arange(len(users)), np.diff(seen.indptr)), seen.indices] = False
        np.put_along_axis(unseen, target[:, None], True, axis=1)
        yield np.stack([1 + (above & unseen).sum(1), unseen.sum(1), 1 + above.sum(1)])


def make(task: tuple[Path, str, Path]) -> str:
    """Train and rank one recommender of one catalogue; say how it went."""
    path, kind, target = task
    began = time.process_time()
    users, items, timed = interactions(path)
    assert timed, f"{path} has no times"
    n_users, n_items = int(users.max()) + 1, int(items.max()) + 1
    place = from_the_end(users)
    last = place == 1
    train = sp.csr_array(
        (np.ones((~last).sum(), dtype=np.float32), (users[~last], items[~last])), shape=(n_users, n_items)
    )
    popularity = np.maximum(np.asarray(train.sum(0)).ravel(), 1e-9)
    held = np.zeros(n_users, dtype=np.int64)
    held[users[last]] = items[last]
    new = ~np.isin(np.arange(n_users) * n_items + held, users[~last] * n_items + items[~last])  # not taken before
    enough = np.flatnonzero((np.bincount(users, minlength=n_users) >= 3) & new)
    chosen = np.sort(np.random.default_rng(SEED).choice(enough, min(CASES, len(enough)), replace=False))
    late = ~last & (place - 1 <= LENGTH + 1)
    if kind == "markov":
        scores = markov(users[late], items[late], popularity)
    else:
        scores = neural(kind, histories(users[late], items[late], n_items, n_users), popularity)
    masked, pool, unmasked = np.concatenate(list(ranks(scores, chosen, held[chosen], train)), axis=1)
    partial = target.with_suffix(".partial.npz")
    np.savez_compressed(partial, R_masked=masked, N_masked=pool, R_unmasked=unmasked, N=n_items, M=len(chosen))
    partial.replace(target)
    hits = ", ".join(f"HR@{k} {np.mean(masked <= k):.4f}" for k in (1, 10, 50))
    return f"{target.stem}: {len(chosen)} cases, {n_items} items, {hits}; {time.process_time() - began:.0f} s of work"


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folder", type=Path, help="where the rank files go")
    ask.add_argument("--catalogues", nargs="+", default=[], help="names; all that have times if left out")
    ask.add_argument("--models", nargs="+", default=list(SEQUENCES), choices=SEQUENCES)
    ask.add_argument("--jobs", type=int, default=os.cpu_count())
    asked = ask.parse_args()
    found = {path.stem: path for folder in folders("FULLRANK_MORE_DATA") for path in sorted(folder.glob("*.parquet"))}
    found |= {
        path.parent.name: path for folder in folders("FULLRANK_DATA") for path in folder.glob("*/interactions.parquet")
    }
    paths = {name: path for name, path in found.items() if not asked.catalogues or name in asked.catalogues}
    usable = {name: path for name, path in paths.items() if has_sequences(path)}
    if not usable:
        raise SystemExit("sequence_ranks.py needs interactions with times: set FULLRANK_MORE_DATA to a folder of them.")
    asked.folder.mkdir(parents=True, exist_ok=True)
    tasks = [
        (path, kind, target)
        for kind in asked.models
        for name, path in usable.items()
        if not (target := asked.folder / f"{name}__{kind}.npz").exists()
    ]
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:  # polars has threads, which a fork would lose
        for line in pool.map(make, tasks):
            print(line, flush=True)


if __name__ == "__main__":
    main()
