"""How fast other tools' results become counts, and in how much memory.

    python benchmarks/reading.py                # 5·10⁷ ranks, a Parquet of 10⁸ rows, one user with 10⁵ targets
    python benchmarks/reading.py --quick        # a tenth of each

Prints a markdown table: seconds of this process's own work, and the peak of its memory, what was handed over included.
Each row runs in a process of its own. What is asked of each: 5·10⁷ ranks in 12 s and 2 GB, 10⁵ targets in 5 s.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fullrank as fr

ITEMS, NEGATIVES = 3_706, 99
#: Rows of the Parquet file that are written at once.
ROWS = 5_000_000


def ranks(n: int, users: bool = False, pools: bool = False) -> Callable[[], object]:
    rng = np.random.default_rng(0)
    drawn = rng.integers(1, NEGATIVES + 2, n)
    who = rng.integers(0, n // 5, n) if users else None
    size: Any = rng.integers(ITEMS - 700, ITEMS, n) if pools else ITEMS
    return lambda: fr.RankCounts.from_ranks(drawn, size, f"uni{NEGATIVES}", users=who)


def parquet(n: int) -> Callable[[], object]:
    import pyarrow as pa
    from pyarrow import parquet

    from fullrank.reading.tables import read_counts

    rng = np.random.default_rng(0)
    path = Path(tempfile.mkdtemp()) / "ranks.parquet"
    schema = pa.schema({"user_id": pa.int64(), "rank": pa.int32()})
    with parquet.ParquetWriter(path, schema) as file:
        for _ in range(0, n, ROWS):
            made = {
                "user_id": rng.integers(0, n // 5, ROWS),
                "rank": rng.integers(1, NEGATIVES + 2, ROWS, dtype=np.int32),
            }
            file.write_table(pa.table(made, schema))

    def read() -> object:
        counts = read_counts(path, f"uni{NEGATIVES}", ITEMS)["ranks"]
        path.unlink()
        return counts

    return read


def targets(n: int) -> Callable[[], object]:
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    split = fr.Split(sp.csr_matrix((1, 3 * n)), np.zeros(n, dtype=int), rng.choice(3 * n, n, replace=False))
    model = rng.normal(size=(1, 16)), rng.normal(size=(3 * n, 16))
    small = fr.Split(sp.csr_matrix((1, 300)), [0] * 40, np.arange(40))
    fr.observe((model[0], model[1][:300]), small, f"uni{NEGATIVES}", progress=False)  # compiles
    return lambda: fr.observe(model, split, f"uni{NEGATIVES}", progress=False)


JOBS: dict[str, tuple[str, int, Callable[[int], Callable[[], object]]]] = {
    "ranks": ("ranks, one catalogue", 50_000_000, ranks),
    "users": ("ranks with users", 50_000_000, lambda n: ranks(n, users=True)),
    "pools": ("ranks with users and a pool each", 50_000_000, lambda n: ranks(n, users=True, pools=True)),
    "parquet": ("rows of a Parquet file", 100_000_000, parquet),
    "targets": ("targets of one user, observed", 100_000, targets),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job is None:
        print("| what | how many | seconds | of them idle | peak memory |\n|---|---|---|---|---|", flush=True)
        for job in JOBS:
            subprocess.run([sys.executable, __file__, "--job", job, *["--quick"] * given.quick], check=True)
        return
    what, n, make = JOBS[given.job]
    run = make(n // 10 if given.quick else n)
    begin, work = time.perf_counter(), time.process_time()
    run()
    seconds, work = time.perf_counter() - begin, time.process_time() - work
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    idle = max(0.0, seconds - work)
    print(f"| {what} | {n // 10 if given.quick else n:,} | {seconds:.1f} | {idle:.1f} | {memory:.2f} GB |", flush=True)


if __name__ == "__main__":
    main()
