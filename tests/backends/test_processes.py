from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worlds
from worlds import DESIGNS, GUIDED, KINDS, Function, Spy, Trouble, Unreadable, make_model, make_split, same

import fullrank.backends.schedule as schedule
import fullrank.observing.task as module
from fullrank.backends import ProcessBackend, RayBackend, resolve
from fullrank.backends.schedule import BlockError
from fullrank.data.split import Split
from fullrank.observing.observation import Observation


@pytest.fixture(scope="module")
def split() -> Split:
    return make_split()


@pytest.fixture(scope="module")
def two() -> Iterator[ProcessBackend]:
    with ProcessBackend(2) as backend:
        yield backend


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function is asked for a few users at a time, so that small evaluations have many blocks."""
    monkeypatch.setattr(module, "ROWS_PER_CALL", 8)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_change_no_digit(workers: int, split: Split) -> None:
    with ProcessBackend(workers) as backend:
        for kind in KINDS if workers == 2 else ("factors", "item-item", "function"):
            model = make_model(kind, split)
            for design in DESIGNS if workers == 2 else DESIGNS[1::2]:
                expected = Observation(model, split, rng=5, progress=False).advance(design)
                same(Observation(model, split, rng=5, progress=False, map=backend, batch=7).advance(design), expected)


@pytest.mark.parametrize("kind", ["factors", "item-item", "rows", "function"])
def test_workers_behind_a_guide_change_no_digit(kind: str, split: Split, two: ProcessBackend) -> None:
    model, guides = (
        make_model(kind, split),
        (make_model("factors", split, seed=3), make_model("rows", split), "popularity"),
    )
    for design, guide in zip(GUIDED, guides, strict=True):
        alone = Observation(model, split, guide=guide, rng=5, progress=False).advance(design)
        shared = Observation(model, split, guide=guide, rng=5, progress=False, map=two, batch=7).advance(design)
        same(shared, alone)
        np.testing.assert_array_equal(shared.recent, alone.recent)
        assert shared.items_scored == alone.items_scored


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("user", [0, 29, 59])
def test_a_killed_worker_costs_nothing(
    user: int, design: Any, split: Split, two: ProcessBackend, tmp_path: Path
) -> None:
    seen = Observation(Trouble(user, "kill", str(tmp_path / "flag")), split, progress=False, map=two).advance(design)
    same(seen, Observation(Function(), split, progress=False).advance(design))
    assert (tmp_path / "flag").exists()


def test_workers_of_a_compiled_model_killed_from_outside(split: Split, two: ProcessBackend) -> None:
    model = make_model("factors", split)
    killed = []

    def deadly(task: Any, blocks: Any) -> Iterator[Any]:
        for k, result in enumerate(two.map(task, blocks)):
            if k in (0, 7, 11):
                os.kill(two._team[0].process.pid, signal.SIGKILL)
                killed.append(k)
            yield result

    same(
        Observation(model, split, progress=False, map=deadly, batch=5).advance(DESIGNS[0]),
        Observation(model, split, progress=False).advance(DESIGNS[0]),
    )
    assert killed == [0, 7, 11]


def test_ranges_of_items_in_workers_change_no_digit(split: Split) -> None:
    model = make_model("bias", split)
    for workers, shards in ((2, 3), (2, 2)):
        with ProcessBackend(workers, item_shards=shards) as backend:
            for k, design in enumerate(DESIGNS[::2]):

                def deadly(task: Any, blocks: Any, k: int = k, backend: ProcessBackend = backend) -> Iterator[Any]:
                    for n, result in enumerate(backend.map(task, blocks)):
                        if n == 4 and k == 1:
                            os.kill(backend._team[0].process.pid, signal.SIGKILL)
                        yield result

                expected = Observation(model, split, progress=False).advance(design)
                same(Observation(model, split, progress=False, map=deadly, batch=5).advance(design), expected)


def test_a_block_that_always_kills_is_named(split: Split) -> None:
    with ProcessBackend(1, retries=1) as backend, pytest.raises(BlockError) as caught:
        Observation(Trouble(29, "kill"), split, progress=False, map=backend, name="bad").advance(DESIGNS[1])
    assert "model `bad`: the block of users 24 to 31 was given up after 2 attempts" in str(caught.value)
    assert "killed by signal 9" in str(caught.value)


def test_a_block_that_raises_is_named_and_the_rest_is_safe(split: Split, two: ProcessBackend, tmp_path: Path) -> None:
    path, flag = tmp_path / "kept", str(tmp_path / "flag")
    expected = Observation(Function(), split, progress=False).advance(DESIGNS[3])
    with pytest.raises(BlockError) as caught:
        Observation(Trouble(59, "raise", flag), split, progress=False, map=two, checkpoint=path, name="m").advance(
            DESIGNS[3]
        )
    assert str(caught.value) == "model `m` failed in the block of users 56 to 59: ZeroDivisionError: no luck"
    assert "in __call__" in str(caught.value.__cause__)  # where in the model it happened
    done: list[int] = []

    def counting(task: Any, blocks: Any) -> Iterator[Any]:
        for block in blocks:
            done.append(block.first)
            yield task(block)

    seen = Observation(
        Trouble(59, "raise", flag), split, progress=False, map=counting, checkpoint=path, name="m"
    ).advance(DESIGNS[3])
    same(seen, expected)
    assert done == [56]  # the blocks that were on their way had been finished and kept


def test_a_score_that_is_not_a_number_stays_a_sentence(split: Split, two: ProcessBackend) -> None:
    with pytest.raises(ValueError, match=r"model `m` gave .*NaN.* \(in the block of users 24 to 31\)\.$"):
        Observation(Trouble(29, "nan"), split, progress=False, map=two, name="m").advance(DESIGNS[0])
    same(  # and the workers are as good as before
        Observation(Function(), split, progress=False, map=two).advance(DESIGNS[0]),
        Observation(Function(), split, progress=False).advance(DESIGNS[0]),
    )


def test_a_block_that_hangs_is_started_again(split: Split, tmp_path: Path) -> None:
    begin = time.monotonic()
    with ProcessBackend(1, timeout=8) as backend:
        seen = Observation(Trouble(29, "sleep", str(tmp_path / "flag")), split, progress=False, map=backend).advance(
            DESIGNS[1]
        )
    same(seen, Observation(Function(), split, progress=False).advance(DESIGNS[1]))
    assert time.monotonic() - begin < 500  # nobody waited for the sleeper


def test_a_straggler_is_overtaken(
    split: Split, two: ProcessBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "SLOW_SECONDS", 0.3)
    begin = time.monotonic()
    seen = Observation(Trouble(0, "sleep", str(tmp_path / "flag")), split, progress=False, map=two).advance(DESIGNS[1])
    same(seen, Observation(Function(), split, progress=False).advance(DESIGNS[1]))
    assert time.monotonic() - begin < 500  # nobody waited for the sleeper


def test_no_more_blocks_are_on_their_way_than_workers(split: Split, two: ProcessBackend) -> None:
    pulled, returned, most = 0, 0, 0

    def counting(task: Any, blocks: Any) -> Iterator[Any]:
        nonlocal returned, most

        def source() -> Iterator[Any]:
            nonlocal pulled
            for block in blocks:
                pulled += 1
                yield block

        for result in two.map(task, source()):
            most = max(most, pulled - returned)
            returned += 1
            yield result

    Observation(Function(), split, progress=False, map=counting).advance(DESIGNS[1])
    assert returned == pulled == 8
    assert most <= 3  # two with workers, one in hand


def test_workers_share_the_model(split: Split, tmp_path: Path) -> None:
    rollup = Path("/proc/self/smaps_rollup")
    if not rollup.exists() or "Anonymous:" not in rollup.read_text():
        pytest.skip("this system does not say what memory is shared")
    table = np.ones(25_000_000)  # 200 MB
    with ProcessBackend(2) as backend:
        Observation(Spy(table, str(tmp_path)), split, progress=False, map=backend, batch=4).advance(DESIGNS[1])
        notes = [path.read_text().split() for path in tmp_path.iterdir()]
        assert len(notes) == 2
        assert all(float(total) == table.sum() for total, _ in notes)
        assert all(int(own) < 150_000 for _, own in notes)  # KiB: a worker without the table


def test_what_cannot_travel_is_said_in_one_sentence(split: Split, two: ProcessBackend) -> None:
    with pytest.raises(TypeError, match=r"model `mine` cannot be sent to another process .* top level of a module"):
        Observation(lambda users, items: items, split, progress=False, map=two, name="mine").advance(DESIGNS[1])
    with pytest.raises(TypeError, match=r"could not be opened in a worker process .*no such library on this machine"):
        Observation(Unreadable(), split, progress=False, map=two, name="mine").advance(DESIGNS[1])


def test_backends_by_name() -> None:
    assert resolve(None) is map
    assert isinstance(resolve("processes"), ProcessBackend)
    assert isinstance(resolve("ray"), RayBackend)
    mine = ProcessBackend(1)
    assert resolve(mine) is mine
    for wrong, words in (
        ("dask", "must be 'processes', 'ray', or an object with `.map`, got 'dask'"),
        ("rai", "did you mean 'ray'"),
        (7, "object with `.map`, got 7"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            resolve(wrong)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (ProcessBackend, {"workers": 0}, "`workers` must be a whole number of at least 1 or None, got 0"),
        (RayBackend, {"num_cpus": -1.0}, "`num_cpus` must be a finite number above 0, got -1.0"),
        (RayBackend, {"in_flight": 0}, "`in_flight` must be a whole number of at least 1 or None, got 0"),
        (ProcessBackend, {"timeout": 0}, "above 0"),
    ],
)
def test_limits_that_cannot_be(kind: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kind(**options)


DRIVER = """
import sys
import numpy as np
import worlds
from fullrank.backends import ProcessBackend
import fullrank.backends.processes as processes
import fullrank.observing.task as module
from fullrank.observing.observation import Observation
if __name__ == "__main__":
    module.ROWS_PER_CALL = 8
    processes._roomy = lambda size: sys.argv[3]
    backend = ProcessBackend(2)
    def telling(task, blocks):
        for result in backend.map(task, blocks):
            yield result
            print([each.process.pid for each in backend._team], flush=True)  # the block is kept by now
    model = worlds.Trouble(59, "sleep", sys.argv[2], np.ones(1000))
    design = worlds.DESIGNS[int(sys.argv[4])]
    Observation(model, worlds.make_split(), progress=False, checkpoint=sys.argv[1], map=telling).advance(design)
"""


@pytest.mark.parametrize("design", range(len(DESIGNS)), ids=lambda k: str(DESIGNS[k]))
def test_a_killed_driver_leaves_no_workers_and_a_checkpoint(design: int, split: Split, tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    path = os.pathsep.join([str(Path(worlds.__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path}
    (tmp_path / "memory").mkdir()
    command = [sys.executable, str(script), *(str(tmp_path / each) for each in ("kept", "flag", "memory")), str(design)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert driver.stdout is not None
    lines = [driver.stdout.readline() for _ in range(7)]  # all blocks but the one that sleeps
    while not (tmp_path / "flag").exists():  # which has begun by now, or is about to
        time.sleep(0.05)
    assert list((tmp_path / "memory").iterdir())
    driver.kill()
    driver.wait()
    driver.stdout.close()
    pids = [int(each) for each in lines[-1].strip("[]\n").split(",")]
    assert len(pids) == 2
    for _ in range(100):
        if not any(_alive(pid) for pid in pids):
            break
        time.sleep(0.1)
    assert not any(_alive(pid) for pid in pids)
    assert not list((tmp_path / "memory").iterdir())
    done: list[int] = []

    def counting(task: Any, blocks: Any) -> Iterator[Any]:
        for block in blocks:
            done.append(block.first)
            yield task(block)

    model = Trouble(59, "sleep", str(tmp_path / "flag"))
    seen = Observation(model, split, progress=False, checkpoint=tmp_path / "kept", map=counting).advance(
        DESIGNS[design]
    )
    same(seen, Observation(Function(), split, progress=False).advance(DESIGNS[design]))
    assert done == [56]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
