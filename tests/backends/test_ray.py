"""Two nodes on this machine. Ray takes seconds to start, so most tests share one cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import worlds
from worlds import DESIGNS, GUIDED, KINDS, Function, Trouble, Unreadable, make_model, make_split, same

import fullrank.backends.schedule as schedule
import fullrank.observing.task as module
from fullrank.backends import RayBackend
from fullrank.backends.ray import on_loopback
from fullrank.backends.schedule import BlockError
from fullrank.data.split import Split
from fullrank.observing.observation import Observation

ray = pytest.importorskip("ray")

STORE = 100_000_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "object_store_memory": STORE, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    path = os.pathsep.join([str(Path(worlds.__file__).parent), os.environ.get("PYTHONPATH", "")])
    with on_loopback(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)  # workers must find the models of these tests
        out = Cluster(initialize_head=True, head_node_args=head)
        out.add_node(num_cpus=2, object_store_memory=STORE, node_ip_address="127.0.0.1")
        ray.init(address=out.address, log_to_driver=False, logging_level="ERROR")
        out.wait_for_nodes()
        yield out
        ray.shutdown()
        out.shutdown()


def another_node(cluster: Any) -> Any:
    """A node whose workers have started, which takes long on a busy machine, where one may also die of itself."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    for _ in range(3):
        node = cluster.add_node(num_cpus=2, object_store_memory=STORE, node_ip_address="127.0.0.1")
        where = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        rest = ray.remote(lambda: time.sleep(0.1)).options(scheduling_strategy=where)
        try:
            cluster.wait_for_nodes(timeout=60)
            ray.get([rest.remote(), rest.remote()], timeout=120)
        except (ray.exceptions.RayError, TimeoutError):
            cluster.remove_node(node, allow_graceful=False)
        else:
            return node
    pytest.skip("this machine is too busy to keep a node alive")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_PER_CALL", 8)


@pytest.fixture(scope="module")
def split() -> Split:
    return make_split()


@pytest.mark.parametrize("kind", KINDS)
def test_two_nodes_change_no_digit(kind: str, split: Split, cluster: Any) -> None:
    model = make_model(kind, split)
    for design in DESIGNS:
        expected = Observation(model, split, rng=5, progress=False).advance(design)
        same(Observation(model, split, rng=5, progress=False, map=RayBackend(), batch=7).advance(design), expected)


@pytest.mark.parametrize("kind", ["factors", "function"])
def test_nodes_behind_a_guide_change_no_digit(kind: str, split: Split, cluster: Any) -> None:
    model, guide = make_model(kind, split), make_model("factors", split, seed=3)
    for design in GUIDED:
        alone = Observation(model, split, guide=guide, rng=5, progress=False).advance(design)
        shared = Observation(model, split, guide=guide, rng=5, progress=False, map=RayBackend(), batch=7)
        same(shared.advance(design), alone)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_change_no_digit(workers: int, split: Split, cluster: Any) -> None:
    backend = RayBackend(in_flight=workers)
    for kind in ("factors", "item-item", "function"):
        model = make_model(kind, split)
        expected = Observation(model, split, rng=5, progress=False).advance(DESIGNS[3])
        same(Observation(model, split, rng=5, progress=False, map=backend, batch=3).advance(DESIGNS[3]), expected)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("user", [0, 29, 59])
def test_a_killed_worker_costs_nothing(user: int, design: Any, split: Split, cluster: Any, tmp_path: Path) -> None:
    seen = Observation(Trouble(user, "kill", str(tmp_path / "flag")), split, progress=False, map=RayBackend()).advance(
        design
    )
    same(seen, Observation(Function(), split, progress=False).advance(design))
    assert (tmp_path / "flag").exists()


@pytest.mark.parametrize(
    ("kind", "design"),
    [*(("factors", design) for design in DESIGNS), ("item-item", DESIGNS[3]), ("function", DESIGNS[3])],
    ids=str,
)
def test_a_node_removed_mid_run_costs_nothing(
    kind: str, design: Any, split: Split, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_PER_CALL", 1)
    node = another_node(cluster)
    model = make_model(kind, split)
    removed = []

    def losing(task: Any, blocks: Any) -> Iterator[Any]:
        telling = worlds.Telling(task, node.node_id, str(tmp_path / "begun"))
        for n, (result, where) in enumerate(RayBackend(in_flight=8).map(telling, blocks)):
            # one of its two workers has a block now, the other one too; a busy machine may have given it none
            if not removed and (where == node.node_id or n == 20):
                cluster.remove_node(node, allow_graceful=False)
                removed.append(where)
            yield result

    seen = Observation(model, split, progress=False, map=losing, batch=1).advance(design)
    same(seen, Observation(model, split, progress=False).advance(design))
    assert removed


def test_ranges_of_items_on_two_nodes_change_no_digit(split: Split, cluster: Any) -> None:
    model = make_model("bias", split)
    for design in DESIGNS[:1] + DESIGNS[3:4]:
        expected = Observation(model, split, progress=False).advance(design)
        same(
            Observation(model, split, progress=False, map=RayBackend(item_shards=3), batch=5).advance(design), expected
        )


def test_a_node_that_keeps_a_range_may_go(split: Split, cluster: Any) -> None:
    node = another_node(cluster)
    removed = []

    def losing(task: Any, blocks: Any) -> Iterator[Any]:
        for n, result in enumerate(RayBackend(item_shards=6, in_flight=6).map(task, blocks)):
            if n == 5:
                cluster.remove_node(node, allow_graceful=False)
                removed.append(n)
            yield result

    model = make_model("factors", split)
    seen = Observation(model, split, progress=False, map=losing, batch=2).advance(DESIGNS[0])
    same(seen, Observation(model, split, progress=False).advance(DESIGNS[0]))
    assert removed


def test_a_keeper_of_a_range_may_die_or_hang(cluster: Any, tmp_path: Path) -> None:
    pieces = [worlds.Piece((user,), user % 3) for user in range(30)]
    for how, timeout in (("kill", None), ("sleep", 20)):
        once = worlds.Keeping(Trouble(13, how, str(tmp_path / how)))
        done = RayBackend(item_shards=3, in_flight=6, timeout=timeout)._map(once, pieces)
        assert sorted(done) == list(range(30))
    always = worlds.Keeping(Trouble(13, "kill"))
    with pytest.raises(BlockError, match="model `keeping`: the block of user 13 was given up after 4 attempts"):
        list(RayBackend(item_shards=3, in_flight=6)._map(always, pieces))  # not one that waited behind it


def test_a_block_that_always_kills_is_named(split: Split, cluster: Any) -> None:
    with pytest.raises(BlockError, match="model `bad`: the block of users 24 to 31 was given up after 2 attempts"):
        Observation(Trouble(29, "kill"), split, progress=False, map=RayBackend(retries=1), name="bad").advance(
            DESIGNS[1]
        )


def test_a_block_that_raises_is_named_and_the_rest_is_safe(split: Split, cluster: Any, tmp_path: Path) -> None:
    path, flag = tmp_path / "kept", str(tmp_path / "flag")
    backend = RayBackend(in_flight=2)
    with pytest.raises(BlockError, match="model `m` failed in the block of users 56 to 59: ZeroDivisionError: no luck"):
        Observation(Trouble(59, "raise", flag), split, progress=False, map=backend, checkpoint=path, name="m").advance(
            DESIGNS[3]
        )
    done: list[int] = []

    def counting(task: Any, blocks: Any) -> Iterator[Any]:
        for block in blocks:
            done.append(block.first)
            yield task(block)

    seen = Observation(
        Trouble(59, "raise", flag), split, progress=False, map=counting, checkpoint=path, name="m"
    ).advance(DESIGNS[3])
    same(seen, Observation(Function(), split, progress=False).advance(DESIGNS[3]))
    assert done == [56]


def test_what_is_wrong_is_said_in_one_sentence(split: Split, cluster: Any) -> None:
    with pytest.raises(ValueError, match=r"model `m` gave .*NaN.* \(in the block of users 24 to 31\)\.$"):
        Observation(Trouble(29, "nan"), split, progress=False, map=RayBackend(), name="m").advance(DESIGNS[0])
    with pytest.raises(TypeError, match=r"could not be opened in a Ray worker.*no such library on this machine"):
        Observation(Unreadable(), split, progress=False, map=RayBackend(), name="m").advance(DESIGNS[1])
    lock = threading.Lock()
    with pytest.raises(TypeError, match="model `m` cannot be sent to Ray's workers"):
        Observation(lambda users, items: items + bool(lock), split, map=RayBackend(), name="m").advance(DESIGNS[1])
    with pytest.raises(ValueError, match=r"asks for 1 CPUs and 1 GPUs; the Ray cluster has \d+ and 0"):
        Observation(Function(), split, progress=False, map=RayBackend(num_gpus=1)).advance(DESIGNS[1])


def test_hanging_blocks_and_stragglers_are_overtaken(
    split: Split, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Observation(Function(), split, progress=False).advance(DESIGNS[1])
    begin = time.monotonic()
    model = Trouble(29, "sleep", str(tmp_path / "hang"))
    same(
        Observation(model, split, progress=False, map=RayBackend(timeout=15, in_flight=1)).advance(DESIGNS[1]), expected
    )
    monkeypatch.setattr(schedule, "SLOW_SECONDS", 0.3)
    model = Trouble(29, "sleep", str(tmp_path / "slow"))
    same(Observation(model, split, progress=False, map=RayBackend()).advance(DESIGNS[1]), expected)
    assert time.monotonic() - begin < 500  # nobody waited for the sleeper


def test_functions_typed_at_the_prompt_travel(split: Split, cluster: Any) -> None:
    """Ray sends functions by value, so that notebooks work."""
    same(
        Observation(lambda users, items: (users[:, None] * 31 + items * 17) % 23, split, map=RayBackend()).advance(
            "uni7"
        ),
        Observation(Function(), split).advance("uni7"),
    )


ALONE = """
import os, sys
import worlds
from fullrank.backends import RayBackend
from fullrank.observing.observation import Observation

def listening():
    # addresses on which a process of this session, or a child of it, accepts connections
    import pathlib
    out = set()
    rows = {}
    for name in ("tcp", "tcp6"):
        for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A":
                rows[parts[9]] = parts[1].split(":")[0]
    me = os.getpid()
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    def ours(pid):
        while pid in parents:
            if pid == me:
                return True
            pid = parents[pid]
        return False
    for pid in [each for each in parents if ours(each)]:
        try:
            for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                target = os.readlink(link)
                if target.startswith("socket:[") and target[8:-1] in rows:
                    out.add(rows[target[8:-1]])
        except OSError:
            pass
    return out

if __name__ == "__main__":
    split = worlds.make_split()
    with RayBackend(object_store_memory=100_000_000) as backend:
        seen = Observation(worlds.Function(), split, progress=False, map=backend, batch=7).advance("uni7")
        worlds.same(seen, Observation(worlds.Function(), split, progress=False).advance("uni7"))
        print(sorted(listening()))
"""


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the sockets of this system from /proc")
def test_what_we_start_listens_on_the_loopback_only(tmp_path: Path) -> None:
    script = tmp_path / "alone.py"
    script.write_text(ALONE)
    path = os.pathsep.join([str(Path(worlds.__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("RAY_ADDRESS", None)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    found = set(done.stdout.strip().splitlines()[-1].strip("[]").replace("'", "").split(", "))
    assert found
    assert found <= loopback


def test_no_cluster_there_is_said(split: Split) -> None:
    code = (
        "import worlds\nfrom fullrank.backends import RayBackend\nfrom fullrank.observing.observation import Observation\n"
        "Observation(worlds.Function(), worlds.make_split(), map=RayBackend(address='127.0.0.1:1')).advance('uni7')"
    )
    path = os.pathsep.join([str(Path(worlds.__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert "ValueError: no Ray cluster was found at `address` '127.0.0.1:1'" in done.stderr
