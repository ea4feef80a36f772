"""What distribution costs and what scale needs, measured.

    python benchmarks/scale.py workers          # a Python function: 2 workers against 1, both warm
    python benchmarks/scale.py ray              # Ray on one node against this process, a run of half a minute
    python benchmarks/scale.py files            # 2·10⁶ users × 2·10⁶ items × 64 factors from sharded Parquet: peak memory
    python benchmarks/scale.py counts           # 10⁹ users × 10⁸ items: simulated counts through the estimators
    python benchmarks/scale.py cost             # the cost model of docs/scale.md against a measured run

Times belong to the machine; ratios and bytes travel.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank.backends import ProcessBackend, RayBackend
from fullrank.data.split import Split
from fullrank.observing.observation import Observation


class Python:
    """A model that holds the GIL: some arithmetic per scored pair, one user at a time."""

    def __init__(self, users: int, items: int, factors: int = 32) -> None:
        rng = np.random.default_rng(0)
        self.users, self.items = rng.normal(size=(users, factors)), rng.normal(size=(items, factors))

    def __call__(self, users: Any, items: Any) -> Any:
        out = np.empty(items.shape)
        for r, user in enumerate(users):
            vector = self.users[user].tolist()
            for c in range(0, items.shape[1], 25):  # a few pairs in pure Python, the rest by NumPy
                out[r, c] = sum(a * b for a, b in zip(vector, self.items[items[r, c]].tolist(), strict=True))
            out[r] = np.tanh(self.items[items[r]] @ self.users[user])
        return out


def plain_split(users: int, items: int, seed: int = 1) -> Split:
    targets = np.random.default_rng(seed).integers(0, items, users)
    return Split(sp.csr_matrix((users, items), dtype=np.float32), np.arange(users), targets)


def same(a: Any, b: Any) -> bool:
    return all(bool((getattr(a, key) == getattr(b, key)).all()) for key in ("drawn", "hits", "n_items", "order"))


def workers(users: int) -> None:
    split, model = plain_split(users, 5_000), Python(users, 5_000)
    seconds, seen = {}, {}
    for n in (1, 2):
        with ProcessBackend(n, threads=1) as backend:
            few = plain_split(20_000, 5_000)
            Observation(model, few, progress=False, map=backend, batch=500).advance(
                "uni99"
            )  # both started, both loaded
            start = time.perf_counter()
            seen[n] = Observation(model, split, progress=False, map=backend).advance("uni99")
            seconds[n] = time.perf_counter() - start
    print(f"| Python function, {users:,} users | 1 worker {seconds[1]:.1f} s | 2 workers {seconds[2]:.1f} s "
          f"| {seconds[1] / seconds[2]:.2f}× | same counts: {same(seen[1], seen[2])} |")  # fmt: skip


def on_ray(users: int) -> None:
    rng = np.random.default_rng(0)
    items = 100_000
    U, V = (rng.normal(size=(n, 64)).astype(np.float32) for n in (users, items))
    split = plain_split(users, items)
    options: Any = {"progress": False, "batch": max(1024, users // 40)}
    Observation((U[:64], V), plain_split(64, items), progress=False).advance("full")  # compiled
    start = time.perf_counter()
    here = Observation((U, V), split, **options).advance("full")
    local = time.perf_counter() - start
    with RayBackend(object_store_memory=500_000_000) as backend:
        begin = time.perf_counter()
        Observation((U[:64], V), plain_split(64, items), progress=False, map=backend).advance("full")
        started = time.perf_counter() - begin
        start = time.perf_counter()
        there = Observation((U, V), split, map=backend, **options).advance("full")
        far = time.perf_counter() - start
    print(f"| ranking everything, {users:,} users × {items:,} items × 64 | this process {local:.1f} s | Ray, one node "
          f"{far:.1f} s (started in {started:.0f} s) | {far / local - 1:+.1%} | same counts: {same(here, there)} |")  # fmt: skip


def write_shards(folder: Path, rows: int, factors: int, shards: int, seed: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    schema = pa.schema({"embedding": pa.list_(pa.float32(), factors)})
    for k in range(shards):
        rng = np.random.default_rng([seed, k])
        with pq.ParquetWriter(folder / f"part-{k:03d}.parquet", schema) as file:
            n = rows // shards
            for first in range(0, n, 1 << 16):
                values = rng.normal(size=(min(1 << 16, n - first), factors)).astype(np.float32)
                column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), factors)
                file.write_table(pa.table({"embedding": column}, schema=schema))


_FILES = """
import resource, sys, time
import numpy as np, scipy.sparse as sp
from fullrank.data.split import Split
from fullrank.models import read_factors
from fullrank.observing.observe import observe
folder, n, history = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(2)
seen = np.sort(rng.integers(0, n - 1, size=(n, history), dtype=np.int32), axis=1)
keep = np.ones(seen.shape, dtype=bool)
keep[:, 1:] = np.diff(seen, axis=1) > 0
ptr = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
train = sp.csr_matrix((np.ones(ptr[-1], dtype=np.float32), seen[keep], ptr), shape=(n, n))
del seen, keep
split = Split(train, np.arange(n), np.full(n, n - 1))
begin = time.perf_counter()
model = read_factors(folder + "/users", folder + "/items", cache=folder + "/cache")
model.users, model.items
read = time.perf_counter() - begin
begin = time.perf_counter()
counts = observe(model, split, "uni99", progress=False)
took = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"| {n:,} users × {n:,} items × 64, Sample(99), {train.nnz:,} in train | files read {read:.0f} s | observed {took:.0f} s | "
      f"peak {peak:.2f} GiB | AUC {counts.auc:.4f} of {len(counts):,} cases |")
"""


def files(n: int, folder: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        write_shards(Path(place, "users"), n, 64, 16, 0)
        write_shards(Path(place, "items"), n, 64, 16, 1)
        subprocess.run([sys.executable, "-c", _FILES, place, str(n), "10"], check=True)


def counts(users: int, items: int) -> None:
    """Counts as they would come from 256 blocks of users, each drawn from one law of ranks, through the estimators."""
    import fullrank as fr

    rng = np.random.default_rng(0)
    design = fr.Sample(99)
    start = time.perf_counter()
    # ranks log-uniform: a power law with as much mass per octave; a million draws stand for the law within a block
    rank = np.exp(rng.uniform(0, np.log(items), 1 << 20)).astype(np.int64).clip(1, items)
    hits = rng.binomial(99, (rank - 1) / (items - 1))
    shares = np.bincount(hits, minlength=100) / len(hits)
    parts = []
    for block in range(256):
        cells = rng.multinomial(users // 256, shares)
        seen = np.flatnonzero(cells)
        part = fr.RankCounts.from_outcomes(
            np.full(len(seen), 99), seen, np.full(len(seen), items), design, users=np.full(len(seen), block),
            weights=cells[seen].astype(float),
        )  # fmt: skip
        parts.append(replace(part, cases=cells[seen], scored=99 * cells[seen]))  # a cell is that many users
    total = sum(parts[1:], parts[0])
    made = time.perf_counter() - start
    metrics = (fr.Recall @ 10, fr.Recall @ 1_000_000)
    truth = [float((rank <= k).mean()) for k in (10, 1_000_000)]
    assert len(total) == users // 256 * 256
    print(
        f"| counts of {users:,} users × {items:,} items made and added | {made:.1f} s | {total.keys.nbytes / 1e6:.1f} MB of keys | |"
    )
    for estimator in (fr.MLE(), fr.BiasVariance(), fr.Multinomial(), fr.MaxEntropy(), fr.LogSpline()):
        start = time.perf_counter()
        fitted = estimator.fit(total)
        values = [fitted.expect(metric) for metric in metrics]
        took = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        said = ", ".join(f"{m} {v:.4f} (law {t:.4f})" for m, v, t in zip(metrics, values, truth, strict=True))
        print(f"| {type(estimator).__name__} | {took:.2f} s | peak {peak:.2f} GiB | {said} |")


def cost() -> None:
    """Items scored per second, and bytes that travel per case, of runs like those of the table in docs/scale.md."""
    from multiprocessing.reduction import ForkingPickler

    rng = np.random.default_rng(0)
    users, items = 20_000, 1_000_000
    U, V = (rng.normal(size=(n, 64)).astype(np.float32) for n in (users, items))
    split = plain_split(users, items)
    sent, returned = 0, 0

    def weighing(task: Any, blocks: Any) -> Any:
        nonlocal sent, returned
        for block in blocks:
            sent += len(ForkingPickler.dumps(block))
            result = task(block)
            returned += len(ForkingPickler.dumps(result))
            yield result

    for design, scored in (("uni99", users * 99), ("uni999", users * 999)):
        Observation((U[:64], V), plain_split(64, items), progress=False).advance(design)
        sent = returned = 0
        start = time.perf_counter()
        Observation((U, V), split, progress=False, map=weighing).advance(design)
        took = time.perf_counter() - start
        print(f"| {design}: {users:,} users × {items:,} items × 64 | {scored / took / 1e6:.1f} million items scored per second | "
              f"{sent / users:.0f} bytes sent, {returned / users:.0f} returned per case |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["workers", "ray", "files", "counts", "cost"])
    parser.add_argument("--users", type=int, help="as many users (files: and items)")
    parser.add_argument("--folder", help="where the Parquet files are written for the time of the run (files)")
    given = parser.parse_args()
    if given.what == "workers":
        workers(given.users or 400_000)
    elif given.what == "ray":
        on_ray(given.users or 320_000)
    elif given.what == "files":
        files(given.users or 2_000_000, given.folder)
    elif given.what == "counts":
        counts(given.users or 10**9, 10**8)
    else:
        cost()


if __name__ == "__main__":
    main()
