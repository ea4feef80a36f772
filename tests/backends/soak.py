"""Kill runs at random points, continue them from their checkpoints, until all are finished; compare with undisturbed ones.

    python tests/backends/soak.py 200 0        # at least so many kills, seed

A kill strikes between two blocks, inside one, in the middle of writing a record (a torn write), or from outside at any time.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

for key in ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[key] = "1"  # children are forked: no threads

import numpy as np  # noqa: E402
import worlds  # noqa: E402

import fullrank.observing.task as module  # noqa: E402
from fullrank.observing.checkpoint import Checkpoint  # noqa: E402
from fullrank.observing.observation import Observation  # noqa: E402

KINDS = ("factors", "item-item", "function")
HOW = ("between", "inside", "torn", "outside")


def dying(how: str, after: int, rng: np.random.Generator) -> Any:
    """A map that ends the process at the ``after``-th block."""

    def run(task: Any, blocks: Any) -> Any:
        for k, block in enumerate(blocks):
            if how == "inside" and k == after:
                task(block)
                os._exit(9)
            if how == "outside":
                time.sleep(0.001)
            yield task(block)
            if how == "between" and k == after:
                os._exit(9)

    if how == "torn":
        keep = Checkpoint.keep
        left = [after]

        def torn(self: Any, *record: Any) -> None:
            before = os.fstat(self._file.fileno()).st_size
            keep(self, *record)
            if left[0] == 0:
                whole = os.fstat(self._file.fileno()).st_size
                os.ftruncate(self._file.fileno(), int(rng.integers(before, whole)))
                os._exit(9)
            left[0] -= 1

        Checkpoint.keep = torn  # type: ignore[method-assign]
    return run


def once(path: Path, result: Path, world: Any, how: str, rng: np.random.Generator) -> bool:
    """One life of a run, in a process of its own; whether it came to its end."""
    model, split, design = world
    child = os.fork()
    if child == 0:
        try:
            run = dying(how, int(rng.integers(0, 8)), rng)
            batch = int(rng.integers(2, 9))
            seen = Observation(model, split, progress=False, checkpoint=path, map=run, batch=batch).advance(design)
            part = result.with_suffix(".part")
            with part.open("wb") as file:
                np.savez(file, **{key: getattr(seen, key) for key in worlds.FIELDS})
            part.rename(result)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    if how == "outside":
        time.sleep(float(rng.uniform(0, 0.03)))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 9, -signal.SIGKILL):
        raise SystemExit(f"a run ended with {code} instead of being killed or finishing")
    return code == 0


def records(path: Path, users: Any) -> Counter[int]:
    """How often the checkpoint holds each user."""
    out: Counter[int] = Counter()
    kept = Checkpoint(path, dict)
    with kept:
        ptr = np.append(0, np.cumsum(np.unique(users, return_counts=True)[1]))
        for result in kept.restore(len(ptr) - 1, ptr):
            out.update(range(result.first, result.last))
    return out


def main(kills: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    module.ROWS_PER_CALL = 4
    split = worlds.make_split()
    worlds_ = [(worlds.make_model(kind, split), split, design) for kind in KINDS for design in worlds.DESIGNS]
    expected = [Observation(model, split, progress=False).advance(design) for model, split, design in worlds_]
    killed: Counter[str] = Counter()
    runs = 0
    with tempfile.TemporaryDirectory() as folder:
        while sum(killed.values()) < kills or runs % len(worlds_):
            world, reference = worlds_[runs % len(worlds_)], expected[runs % len(worlds_)]
            path, result = Path(folder, f"{runs}.run"), Path(folder, f"{runs}.npz")
            while True:
                how = str(rng.choice(HOW))
                if once(path, result, world, how, np.random.default_rng(rng.integers(1 << 32))):
                    break
                killed[how] += 1
            with np.load(result) as seen:
                for key in worlds.FIELDS:
                    np.testing.assert_array_equal(seen[key], getattr(reference, key), err_msg=f"run {runs}, {key}")
            times = records(path, split.users)
            assert sorted(times) == list(range(worlds.USERS)), f"run {runs}: something is lost"
            assert set(times.values()) == {1}, f"run {runs}: something is there twice"
            runs += 1
    print(f"{runs} runs, {sum(killed.values())} kills ({dict(killed)}): all counts right")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
