"""How long a newcomer waits: `fullrank demo`, and the first `evaluate` of a fresh environment.

    python benchmarks/first_calls.py            # everything once, about a minute
    python benchmarks/first_calls.py --repeat 3

*First*: the cache of compiled loops is an empty folder, as right after `pip install`; *later*: the same in another process,
which finds them compiled; *again*: a second call in that process. The demo is timed from the start of its process to its end;
`evaluate` with what it imports, without the making of its data. Prints a markdown table with the seconds of the processor,
which other work on the machine lengthens less, and those of the clock. What is asked of each: the demo in 2 s, the first
`evaluate` in 6 s, later ones in 1 s.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

USERS, ITEMS, FACTORS = 500, 2_000, 16


def evaluate(what: str) -> None:
    """Evaluate a small model twice; print the seconds of the processor and of the clock that each call took."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(USERS, FACTORS)), rng.normal(size=(ITEMS, FACTORS))
    liked = (users @ items.T + 3 * rng.gumbel(size=(USERS, ITEMS))).argmax(1)
    train = sp.csr_matrix((USERS, ITEMS))

    def score(u, i):  # type: ignore[no-untyped-def]  # as people write it
        return np.einsum("bd,bmd->bm", users[u], items[i])

    for _ in range(2):
        begin, work = time.perf_counter(), time.process_time()
        import fullrank as fr

        split = fr.Split(train, np.arange(USERS), liked)
        model = (users, items) if what == "factors" else score
        fr.evaluate({"mine": model}, split, ["ndcg@10", "recall@10"], progress=False)
        print(time.process_time() - work, time.perf_counter() - begin)


def timed(command: list[str], cache: str) -> tuple[float, float, str]:
    """Return the processor's and the clock's seconds of a process, and what it printed."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True, capture_output=True, text=True
    )
    clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run everything N times")
    parser.add_argument("--job", choices=("factors", "function"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job is not None:
        evaluate(given.job)
        return
    print("| what | when | processor, s | clock, s | goal, s |\n|---|---|---|---|---|")

    def row(what: str, when: str, processor: float, clock: float, goal: float) -> None:
        print(f"| {what} | {when} | {processor:.2f} | {clock:.2f} | {goal:g} |", flush=True)

    for _ in range(given.repeat):
        with tempfile.TemporaryDirectory() as cache:
            demo = [sys.executable, "-m", "fullrank", "demo"]
            row("`fullrank demo`", "first", *timed(demo, cache)[:2], 2)
            row("`fullrank demo`", "later", *timed(demo, cache)[:2], 2)
        for what, words in (("factors", "factors"), ("function", "a Python function")):
            with tempfile.TemporaryDirectory() as cache:
                command = [sys.executable, __file__, "--job", what]
                for when, goal in (("first", 6), ("later", 1)):
                    call, again = (map(float, line.split()) for line in timed(command, cache)[2].splitlines())
                    row(f"`evaluate`, {words}", when, *call, goal)
                row(f"`evaluate`, {words}", "again", *again, 1)


if __name__ == "__main__":
    main()
