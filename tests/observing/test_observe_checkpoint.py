from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fullrank.data.split import Split
from fullrank.observing.observe import observe_cases
from fullrank.ranks.design import Adaptive, Exhaustive, Sample

FIELDS = ("drawn", "hits", "n_items", "order", "targets")


@pytest.fixture(scope="module")
def world() -> tuple[Split, Any]:
    rng = np.random.default_rng(0)
    train = sp.random(200, 150, 0.05, format="csr", random_state=1)
    items = [int(np.setdiff1d(np.arange(150), train[u].indices)[u % 50]) for u in range(200)]
    return Split(train, np.arange(200), items), (rng.normal(size=(200, 6)), rng.normal(size=(150, 6)))


def same(a: Any, b: Any) -> None:
    for key in FIELDS:
        np.testing.assert_array_equal(getattr(a, key), getattr(b, key))


class CrashError(Exception):
    pass


def dying_map(after: int) -> Any:
    def run(function: Any, blocks: Any) -> Any:
        for number, block in enumerate(blocks):
            if number == after:
                raise CrashError
            yield function(block)

    return run


def counting_map(count: list[int]) -> Any:
    def run(function: Any, blocks: Any) -> Any:
        for block in blocks:
            count.append(block.last - block.first)
            yield function(block)

    return run


@pytest.mark.parametrize("design", [Exhaustive(), Sample(9), Adaptive(3, "all", 2, replace=False)], ids=str)
def test_a_run_that_dies_is_continued_even_with_other_batches(
    world: tuple[Split, Any], design: Any, tmp_path: Path
) -> None:
    split, model = world
    path = tmp_path / "run"
    reference = observe_cases(model, split, design, progress=False)
    with pytest.raises(CrashError):
        observe_cases(model, split, design, progress=False, checkpoint=path, batch=16, map=dying_map(5))
    done: list[int] = []
    same(
        observe_cases(model, split, design, progress=False, checkpoint=path, batch=7, map=counting_map(done)), reference
    )
    assert sum(done) == 200 - 5 * 16
    again: list[int] = []
    same(observe_cases(model, split, design, progress=False, checkpoint=path, map=counting_map(again)), reference)
    assert again == []


def test_a_file_cut_at_any_byte_is_continued(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, model = world
    path = tmp_path / "run"
    reference = observe_cases(model, split, Sample(9), progress=False, checkpoint=path, batch=32)
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    for size in [start, start + 1, start + 31, start + 33, *np.linspace(start, len(whole), 25).astype(int)]:
        path.write_bytes(whole[:size])
        same(observe_cases(model, split, Sample(9), progress=False, checkpoint=path, batch=50), reference)


def test_a_damaged_file_is_refused_and_left_alone(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, model = world
    path = tmp_path / "run"
    observe_cases(model, split, Sample(9), progress=False, checkpoint=path, batch=32)
    whole = path.read_bytes()
    for place in (whole.index(b"\n") + 2, len(whole) // 2, len(whole) - 1):
        broken = bytearray(whole)
        broken[place] ^= 0x40
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="is damaged at byte"):
            observe_cases(model, split, Sample(9), progress=False, checkpoint=path)
        assert path.read_bytes() == broken
    for text in (b"hello\n", b"{}\n", b"\x00" * 100, whole[:40]):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="not a checkpoint"):
            observe_cases(model, split, Sample(9), progress=False, checkpoint=path)
    path.write_bytes(b"")  # nothing in it: a new one
    observe_cases(model, split, Sample(9), progress=False, checkpoint=path)
    with pytest.raises(ValueError, match="is a folder"):
        observe_cases(model, split, Sample(9), progress=False, checkpoint=tmp_path)


def test_another_run_is_refused_naming_the_difference(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, (U, V) = world
    path = tmp_path / "run"
    observe_cases((U, V), split, Sample(9), progress=False, checkpoint=path)
    other = Split(split.train, split.users[:-1], split.items[:-1])
    for difference, args, options in (
        ("another design \\('uni9' there, 'uni10' here\\)", ((U, V), split, Sample(10)), {}),
        ("another seed \\(0 there, 1 here\\)", ((U, V), split, Sample(9)), {"rng": 1}),
        ("another tie rule", ((U, V), split, Sample(9)), {"ties": "optimistic"}),
        ("other candidates", ((U, V), split, Sample(9)), {"candidates": "all"}),
        ("another model", ((U + 1e-2, V), split, Sample(9)), {}),
        ("another model", (lambda users, items: items, split, Sample(9)), {}),
        ("another split", ((U, V), other, Sample(9)), {}),
    ):
        with pytest.raises(ValueError, match=difference) as caught:
            observe_cases(*args, progress=False, checkpoint=path, **options)
        assert "\n" not in str(caught.value)
    header = json.loads(path.read_bytes().split(b"\n")[0])
    path.write_bytes(json.dumps({**header, "version": 99}).encode() + b"\n")
    with pytest.raises(ValueError, match="has version 99"):
        observe_cases((U, V), split, Sample(9), progress=False, checkpoint=path)


def test_a_checkpoint_serves_one_run_at_a_time(world: tuple[Split, Any], tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    split, model = world
    path = tmp_path / "run"

    def nested(function: Any, blocks: Any) -> Any:
        with pytest.raises(ValueError, match="in use by another run"):
            observe_cases(model, split, Sample(9), progress=False, checkpoint=path)
        return map(function, blocks)

    observe_cases(model, split, Sample(9), progress=False, checkpoint=path, map=nested)


def test_the_checkpoint_survives_a_bad_score(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, (U, V) = world
    path = tmp_path / "run"
    broken = [True]

    def model(users: Any, items: Any) -> Any:
        scores = np.einsum("bd,bmd->bm", U[users], V[items])
        return np.where(broken[0] & (users == 151)[:, None], np.nan, scores)

    reference = observe_cases((U, V), split, Adaptive(50, 199, 3), progress=False)
    import fullrank.observing.task as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_PER_CALL", 20)
        with pytest.raises(ValueError, match="NaN\\) for user 151"):
            observe_cases(model, split, Adaptive(50, 199, 3), progress=False, checkpoint=path)
        broken[0] = False
        done: list[int] = []
        seen = observe_cases(
            model, split, Adaptive(50, 199, 3), progress=False, checkpoint=path, map=counting_map(done)
        )
    same(seen, reference)
    assert sum(done) == 60


_CHILD = """
import sys, time
import numpy as np, scipy.sparse as sp
from fullrank.data.split import Split
from fullrank.observing.observe import observe_cases
path, pause = sys.argv[1], float(sys.argv[2])
rng = np.random.default_rng(0)
split = Split(sp.csr_matrix((400, 90)), np.arange(400), rng.integers(0, 90, 400))
U, V = rng.normal(size=(400, 4)), rng.normal(size=(90, 4))
def slowly(function, blocks):
    for block in blocks:
        time.sleep(pause)
        yield function(block)
seen = observe_cases((U, V), split, "adaptive 5..40 stop 2", checkpoint=path or None, map=slowly, batch=4, progress=False)
print(seen.drawn.tolist(), seen.hits.tolist(), seen.order.tolist(), seen.n_items.tolist())
"""


def test_kill_9_at_any_moment(tmp_path: Path) -> None:
    def child(path: str, pause: float) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", _CHILD, path, str(pause)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )

    expected = child("", 0).communicate()[0]
    path = tmp_path / "run"
    rng = np.random.default_rng(3)
    sizes = []
    for _ in range(4):
        process = child(str(path), 0.02)
        size = path.stat().st_size if path.exists() else 0
        deadline = time.monotonic() + 120
        while (
            (not path.exists() or path.stat().st_size <= size)
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.005)
        time.sleep(float(rng.random()) * 0.2)  # somewhere in the middle of the blocks
        process.send_signal(signal.SIGKILL)
        process.wait()
        sizes.append(path.stat().st_size)
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]
    assert child(str(path), 0).communicate()[0] == expected
