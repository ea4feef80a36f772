from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fullrank.data.split import Split
from fullrank.observing.budget import Budget
from fullrank.observing.observation import Observation
from fullrank.observing.observe import observe
from fullrank.ranks.design import Adaptive, Exhaustive, Sample

FIELDS = ("ahead", "rest", "drawn", "hits", "pool", "order", "targets")


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
    reference = Observation(model, split, progress=False).advance(design)
    with pytest.raises(CrashError):
        Observation(model, split, progress=False, checkpoint=path, batch=16, map=dying_map(5)).advance(design)
    done: list[int] = []
    same(
        Observation(model, split, progress=False, checkpoint=path, batch=7, map=counting_map(done)).advance(design),
        reference,
    )
    assert sum(done) == 200 - 5 * 16
    again: list[int] = []
    same(Observation(model, split, progress=False, checkpoint=path, map=counting_map(again)).advance(design), reference)
    assert again == []


def test_a_file_cut_at_any_byte_is_continued(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, model = world
    path = tmp_path / "run"
    reference = Observation(model, split, progress=False, checkpoint=path, batch=32).advance(Sample(9))
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    for size in [
        1,
        start - 1,
        start,
        start + 1,
        start + 31,
        start + 33,
        *np.linspace(start, len(whole), 25).astype(int),
    ]:
        path.write_bytes(whole[:size])
        same(Observation(model, split, progress=False, checkpoint=path, batch=50).advance(Sample(9)), reference)


def test_a_damaged_file_is_refused_and_left_alone(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, model = world
    path = tmp_path / "run"
    Observation(model, split, progress=False, checkpoint=path, batch=32).advance(Sample(9))
    whole = path.read_bytes()
    for place in (whole.index(b"\n") + 2, len(whole) // 2, len(whole) - 1):
        broken = bytearray(whole)
        broken[place] ^= 0x40
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="is damaged at byte"):
            Observation(model, split, progress=False, checkpoint=path).advance(Sample(9))
        assert path.read_bytes() == broken
    for text in (b"hello\n", b"{}\n", b"\x00" * 100, whole[:40] + b"?", whole[:40] + b"\n"):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="not a checkpoint"):
            Observation(model, split, progress=False, checkpoint=path).advance(Sample(9))
    path.write_bytes(b"")  # nothing in it: a new one
    Observation(model, split, progress=False, checkpoint=path).advance(Sample(9))
    with pytest.raises(ValueError, match="`checkpoint` must be a file, got the folder"):
        observe(model, split, Sample(9), progress=False, checkpoint=tmp_path)


def test_another_run_is_refused_naming_the_difference(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, (U, V) = world
    path = tmp_path / "run"
    Observation((U, V), split, progress=False, checkpoint=path).advance(Sample(9))
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
        given, on, design = args
        with pytest.raises(ValueError, match=difference) as caught:
            Observation(given, on, progress=False, checkpoint=path, **options).advance(design)
        assert "\n" not in str(caught.value)
    header = json.loads(path.read_bytes().split(b"\n")[0])
    path.write_bytes(json.dumps({**header, "version": 99}).encode() + b"\n")
    with pytest.raises(ValueError, match="has version 99"):
        Observation((U, V), split, progress=False, checkpoint=path).advance(Sample(9))


def test_a_checkpoint_serves_one_run_at_a_time(world: tuple[Split, Any], tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    split, model = world
    path = tmp_path / "run"

    def nested(function: Any, blocks: Any) -> Any:
        with pytest.raises(ValueError, match="in use by another run"):
            Observation(model, split, progress=False, checkpoint=path).advance(Sample(9))
        return map(function, blocks)

    Observation(model, split, progress=False, checkpoint=path, map=nested).advance(Sample(9))


def test_a_file_that_another_run_has_just_made_is_not_replaced(world: tuple[Split, Any], tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    split, model = world
    path = tmp_path / "run"
    with path.open("a+b") as other:  # it is about to write the header
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(ValueError, match="in use by another run"):
            Observation(model, split, progress=False, checkpoint=path).advance(Sample(9))
        assert path.stat().st_ino == os.fstat(other.fileno()).st_ino
        assert path.read_bytes() == b""
    Observation(model, split, progress=False, checkpoint=path).advance(Sample(9))
    with pytest.raises(ValueError, match=r"`path` must be a file, got '/dev/null'"):
        Observation(model, split, progress=False, checkpoint="/dev/null").advance(Sample(9))


def test_the_checkpoint_survives_a_bad_score(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, (U, V) = world
    path = tmp_path / "run"
    broken = [True]

    def model(users: Any, items: Any) -> Any:
        scores = np.einsum("bd,bmd->bm", U[users], V[items])
        return np.where(broken[0] & (users == 151)[:, None], np.nan, scores)

    reference = Observation((U, V), split, progress=False).advance(Adaptive(50, 199, 3))
    import fullrank.observing.task as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_PER_CALL", 20)
        with pytest.raises(ValueError, match="NaN\\) for user 151"):
            Observation(model, split, progress=False, checkpoint=path).advance(Adaptive(50, 199, 3))
        broken[0] = False
        done: list[int] = []
        seen = Observation(model, split, progress=False, checkpoint=path, map=counting_map(done)).advance(
            Adaptive(50, 199, 3)
        )
    same(seen, reference)
    assert sum(done) == 60


_CHILD = """
import sys, time
import numpy as np, scipy.sparse as sp
from fullrank.data.split import Split
from fullrank.observing.budget import Budget
from fullrank.observing.observation import Observation
path, pause = sys.argv[1], float(sys.argv[2])
rng = np.random.default_rng(0)
split = Split(sp.csr_matrix((400, 90)), np.arange(400), rng.integers(0, 90, 400))
U, V = rng.normal(size=(400, 4)), rng.normal(size=(90, 4))
def slowly(function, blocks):
    for block in blocks:
        time.sleep(pause)
        yield function(block)
seen = Observation((U, V), split, checkpoint=path or None, map=slowly, batch=4, progress=False)
seen.advance("adaptive 5..40 stop 2")
print(seen.drawn.tolist(), seen.above.tolist(), seen.order.tolist(), seen.pool.tolist())
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


def test_a_record_that_claims_more_cases_than_there_are_is_refused_unread(
    world: tuple[Split, Any], tmp_path: Path
) -> None:
    split, model = world
    path = tmp_path / "run"
    Observation(model, split, progress=False, checkpoint=path, batch=32).advance(Sample(9))
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    claimed = struct.pack("<4sqqqqI", b"BLK2", 0, 32, 9 * 32, 1 << 60, 0)
    path.write_bytes(whole[:start] + claimed + whole[start + len(claimed) :])
    with pytest.raises(ValueError, match="is damaged at byte"):
        Observation(model, split, progress=False, checkpoint=path).advance(Sample(9))
    path.write_bytes(b"7" * (3 << 20))  # no line ends: no more of it is read than a header can have
    with pytest.raises(ValueError, match="not a checkpoint"):
        Observation(model, split, progress=False, checkpoint=path).advance(Sample(9))


def test_a_function_that_changed_for_a_few_users_is_noticed(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, (U, V) = world
    path = tmp_path / "run"

    def function(changed: Any) -> Any:
        def score(users: Any, items: Any) -> Any:
            return np.einsum("bd,bmd->bm", U[users], V[items]) + np.isin(users, changed)[:, None]

        return score

    Observation(function([]), split, progress=False, checkpoint=path).advance(Sample(9))
    for first in range(0, 195, 39):  # any eight users in a row, of two hundred
        with pytest.raises(ValueError, match="another model"):
            Observation(function(range(first, first + 8)), split, progress=False, checkpoint=path).advance(Sample(9))


def test_names_that_look_alike_have_files_of_their_own(world: tuple[Split, Any], tmp_path: Path) -> None:
    split, (U, V) = world
    models = {"模型一": (U, V), "模型二": (-U, V), "a b": (U, 2 * V), "a-b": (-U, 2 * V)}
    for name, model in models.items():
        seen = Observation(model, split, progress=False, checkpoint=tmp_path, name=name).advance(Sample(9))
        same(seen, Observation(model, split, progress=False).advance(Sample(9)))
    assert len(list(tmp_path.iterdir())) == 4


def test_part_of_the_cases_a_budget_and_an_interrupt(world: tuple[Split, Any]) -> None:
    split, model = world
    some = np.arange(50, 120)
    whole = Observation(model, split, progress=False).advance(Sample(9, replace=False))
    seen = Observation(model, split, progress=False, batch=10).advance(Sample(9, replace=False), cases=some)
    assert (np.flatnonzero(seen.begun) == some).all()
    assert len(seen.counts()) == 70
    seen.advance(Sample(9, replace=False))
    same(seen, whole)
    assert seen.items_scored == 9 * 200
    budget = Budget(items=31 * 50)
    seen.advance(Sample(40, replace=False), budget)  # continues 31 × 10 at a time
    assert not seen.complete
    assert seen.items_scored <= 9 * 200 + 31 * 50
    further = seen.drawn == 40
    assert 0 < further.sum() <= 50
    longer = Observation(model, split, progress=False).advance(Sample(40, replace=False))
    np.testing.assert_array_equal(seen.above[further], longer.above[further])
    np.testing.assert_array_equal(seen.above[~further], whole.above[~further])
    same(seen.advance(Sample(40, replace=False)), longer)
    assert seen.complete

    def stops(function: Any, blocks: Any) -> Any:
        for number, block in enumerate(blocks):
            if number == 3:
                raise KeyboardInterrupt
            yield function(block)

    cut = Observation(model, split, progress=False, batch=10, map=stops)
    with pytest.raises(KeyboardInterrupt):
        cut.advance(Sample(40, replace=False))
    assert len(cut) == 30
    np.testing.assert_array_equal(cut.above[:30], longer.above[:30])


def test_cases_of_a_user_stay_together() -> None:
    split = Split(sp.csr_matrix((3, 40)), [0, 0, 1, 2], [1, 2, 3, 4])
    seen = Observation(np.arange(40.0), split, progress=False)
    with pytest.raises(ValueError, match="`cases` must hold all cases of each of their users"):
        seen.advance(Sample(5), cases=[0, 2])
    with pytest.raises(ValueError, match="nothing was observed yet"):
        seen.counts()
    assert len(seen.advance(Sample(5), cases=[0, 1]).counts()) == 2


def test_cases_are_positions_or_a_mask() -> None:
    split = Split(sp.csr_matrix((3, 40)), [0, 0, 1, 2], [1, 2, 3, 4])
    for cases in ([2, 3], np.array([False, False, True, True]), [False, False, True, True], np.array([3, 2], np.uint8)):
        seen = Observation(np.arange(40.0), split, progress=False).advance(Sample(5), cases=cases)
        assert np.flatnonzero(seen.begun).tolist() == [2, 3]
    seen = Observation(np.arange(40.0), split, progress=False)
    for cases, said in (
        ([1.7], "float64 values of shape"),
        ([True, False], r"bool values of shape \(2,\)"),
        ("all", "<U3 values"),
        ([[2, 3]], r"int64 values of shape \(1, 2\)"),
        ([[2], [1, 3]], "a list"),
    ):
        with pytest.raises(
            TypeError, match=f"`cases` must be positions from 0 to 3, or a mask .* the 4 cases, got {said}"
        ):
            seen.advance(Sample(5), cases=cases)
    for wrong in (10**6, -1):
        with pytest.raises(ValueError, match=f"`cases` must be positions from 0 to 3, or a mask .*, got {wrong}"):
            seen.advance(Sample(5), cases=[2, wrong])
