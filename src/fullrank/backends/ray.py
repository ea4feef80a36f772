"""Run blocks on workers of a Ray cluster: the same blocks, the same digits, on as many machines as there are.

The model goes into the object store once (Ray brings it to each node once, where all workers share it); blocks are tasks;
what comes back are outcomes of cases. Unless it runs already, Ray is started here and listens on the loopback only.
"""

import contextlib
import os
import socket
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fullrank._checks import require
from fullrank._version import __version__
from fullrank.backends.schedule import Backend, Failure, Lost, attempt, run

_LOOPBACK = "127.0.0.1"
#: Blocks on their way per block that can run: the next ones are there when a worker is free, memory stays bounded.
_AHEAD = 2
_REFRESH_SECONDS = 5.0


@dataclass(eq=False)
class RayBackend(Backend):
    """Runs ``map`` over a Ray cluster (``pip install "fullrank[ray]"``).

    A Ray that is already running in this process is used; else ``address`` is joined ("auto", "ip:port", "ray://…", also
    from ``RAY_ADDRESS``); else Ray is started on this machine, on the loopback, without a dashboard, with
    ``object_store_memory`` bytes for shared arrays (None: what Ray thinks fit).

    A block asks for ``num_cpus`` and ``num_gpus`` of its node. ``in_flight`` blocks are on their way at a time (None: twice
    as many as fit the cluster). A block whose worker or node is lost is started again, up to ``retries`` times; one that
    takes longer than ``timeout`` seconds is treated likewise. ``item_shards`` cuts the items of a factor model into that
    many ranges, each held by one worker somewhere in the cluster.
    """

    address: str | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    retries: int = 3
    timeout: float | None = None
    in_flight: int | None = None
    item_shards: int | None = None
    object_store_memory: int | None = None
    _started: bool = field(default=False, repr=False, init=False)

    def connect(self) -> Any:
        """Return Ray itself, started or joined if it is not running in this process."""
        ray = _ray()
        if ray.is_initialized():
            return ray
        address = self.address or os.environ.get("RAY_ADDRESS")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address:
            try:
                host, _, port = address.removeprefix("ray://").rpartition(":")
                if host and port.isdigit():  # fail at once if nobody listens there: Ray itself would try for minutes
                    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
                ray.init(address=address, **quiet)
            except (ConnectionError, OSError, RuntimeError, ValueError) as error:
                raise ValueError(f"no Ray cluster was found at `address` {address!r}: {_first_line(error)}") from None
            return ray
        with on_loopback():
            ray.init(address="local", include_dashboard=False, object_store_memory=self.object_store_memory, **quiet)
        self._started = True
        if (there := ray.util.get_node_ip_address()) != _LOOPBACK:
            self.close()
            raise RuntimeError(
                f"Ray {ray.__version__} would listen on {there}, open to the network: start it yourself as you see fit "
                "(`ray start`) and give its `address`."
            )
        return ray

    def _map(self, task: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
        ray = self.connect()
        with contextlib.closing(_Cluster(ray, self, task)) as cluster:
            yield from run(cluster, task, blocks, self.retries, self.timeout)

    def close(self) -> None:
        """Stop Ray if this backend started it."""
        if self._started:
            self._started = False
            _ray().shutdown()


def _ray() -> Any:
    return require("ray", 'backend "ray"', '"fullrank[ray]"')


@contextlib.contextmanager
def on_loopback() -> Iterator[None]:
    """Have Ray started for this machine alone: it listens on 127.0.0.1 and reports to nobody.

    Ray takes an explicit 127.0.0.1 for a mistake and uses the network's address instead, unless a setting says that there
    are no clusters, the default on macOS and Windows. It is read when Ray is imported, which may have happened already.
    """
    from ray._private import ray_constants

    settings = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    before = {key: os.environ.get(key) for key in settings}
    clusters = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    os.environ.update(settings)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        for key in settings:
            del os.environ[key]
        os.environ.update({key: value for key, value in before.items() if value is not None})


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".") + "."


_OPEN: dict[str, Any] = {}


def _run_block(box: list[Any], token: str, version: str, threads: int, block: Any) -> Any:
    """Run one block in a worker process, which keeps the task it opened last."""
    if version != __version__:
        return Failure("RuntimeError", f"this node has fullrank {__version__}, the driver {version}", "")
    if token not in _OPEN:
        os.environ["NUMBA_NUM_THREADS"] = str(threads)
        _OPEN.clear()
        _OPEN[token] = _ray().get(box[0])  # arrays stay in the node's object store
    return attempt(_OPEN[token], block)


class _Keeper:
    """Is an actor that keeps one range of items."""

    def run(self, *letter: Any) -> Any:
        return _run_block(*letter)


class _Cluster:
    """Is the `Runner` over Ray tasks: a handle is the reference to a block's result."""

    def __init__(self, ray: Any, backend: RayBackend, task: Any) -> None:
        self.ray, self.backend = ray, backend
        self.name = getattr(task, "name", "function")
        try:
            self.box = [ray.put(task)]
        except TypeError as error:
            raise TypeError(
                f"model `{self.name}` cannot be sent to Ray's workers ({_first_line(error)}) It must be picklable."
            ) from None
        self.token = uuid.uuid4().hex
        self.needs = {"num_cpus": backend.num_cpus, "num_gpus": backend.num_gpus, "scheduling_strategy": "SPREAD"}
        # `schedule` starts lost blocks again, here as everywhere
        self.remote = ray.remote(_run_block).options(max_retries=0, name=f"fullrank {self.name}", **self.needs)
        self.keepers: dict[int, Any] = {}
        self.places = 0
        self.running: dict[Any, tuple[int | None, Any]] = {}  # blocks, oldest first: range, if any, and its keeper
        self.innocent: set[Any] = set()
        self.ahead = 2 * (backend.item_shards or 0) + 1
        self.limit, self.refreshed = 0, -_REFRESH_SECONDS

    def room(self, block: Any) -> bool:
        shard = getattr(block, "shard", None)
        if shard is not None and sum(each == shard for each, _ in self.running.values()) >= _AHEAD:
            return False
        if self.backend.in_flight is not None:
            self.limit = self.backend.in_flight
        elif time.monotonic() - self.refreshed > _REFRESH_SECONDS:  # clusters grow and shrink
            self.refreshed = time.monotonic()
            there = self.ray.cluster_resources()
            needs = (("CPU", self.backend.num_cpus), ("GPU", self.backend.num_gpus))
            slots = [there.get(kind, 0) // asked for kind, asked in needs if asked]
            if min(slots) < 1 and not self.running:
                raise ValueError(
                    f"a block asks for {self.backend.num_cpus:g} CPUs and {self.backend.num_gpus:g} GPUs; the Ray cluster "
                    f"has {there.get('CPU', 0):g} and {there.get('GPU', 0):g} (set `in_flight` if it grows on demand)."
                )
            self.limit = _AHEAD * max(1, int(min(slots)))
        return len(self.running) < self.limit

    def start(self, block: Any) -> Hashable:
        threads = max(1, int(self.backend.num_cpus))
        shard = getattr(block, "shard", None)
        keeper = None if shard is None else self._keeper(shard)
        call = self.remote.remote if keeper is None else keeper.run.remote
        handle = call(self.box, self.token, __version__, threads, block)
        self.running[handle] = shard, keeper
        return handle  # type: ignore[no-any-return]

    def _keeper(self, shard: int) -> Any:
        """Return the worker of a range, started when it is first needed; as many as fit the cluster share the ranges.

        They ask for no CPU of their own: one that takes the place of a lost one must find room. Ray could start a lost
        one again itself, but would refuse what is sent to it until it is there; what is sent to a new one waits.
        """
        self.places = self.places or self.backend.in_flight or max(1, self.limit // _AHEAD)
        place = shard % self.places
        if place not in self.keepers:
            options = {**self.needs, "num_cpus": 0, "max_restarts": 0, "max_task_retries": 0}
            self.keepers[place] = self.ray.remote(_Keeper).options(**options).remote()
        return self.keepers[place]

    def _retire(self, keeper: Any) -> None:
        """Give up a keeper. It did one block after the other: only the oldest can be what was wrong."""
        if keeper not in self.keepers.values():
            return
        self.keepers = {place: each for place, each in self.keepers.items() if each is not keeper}
        self.innocent.update([handle for handle, (_, each) in self.running.items() if each is keeper][1:])
        with contextlib.suppress(Exception):  # it is gone, most of the time
            self.ray.kill(keeper)

    def wait(self, seconds: float | None) -> Iterable[tuple[Hashable, Any]]:
        ready, rest = self.ray.wait(list(self.running), num_returns=1, timeout=seconds)
        if rest:
            ready += self.ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        return [(handle, self._outcome(handle)) for handle in ready]

    def _outcome(self, handle: Any) -> Any:
        from ray.exceptions import RayActorError, RayError, RayTaskError

        try:
            return self.ray.get(handle)
        except RayTaskError as error:  # before the task itself: it could not be opened
            cause = error.cause if error.cause is not None else error
            return Failure(
                "TypeError",
                f"model `{self.name}` could not be opened in a Ray worker; what it needs, fullrank included, must be "
                f"installed on every node: {_first_line(cause)}",
                str(error),
            )
        except RayError as error:  # worker, node or object lost
            if isinstance(error, RayActorError):
                self._retire(self.running[handle][1])
            reason = f"Ray lost it ({type(error).__name__}: {_first_line(error)})"
            return Lost(reason, counts=handle not in self.innocent)
        finally:
            self._forget(handle)

    def _forget(self, handle: Any) -> None:
        self.running.pop(handle, None)
        self.innocent.discard(handle)

    def drop(self, handle: Hashable) -> None:
        _, keeper = self.running.get(handle, (None, None))
        if keeper is not None and next(each for each, (_, its) in self.running.items() if its is keeper) == handle:
            self._retire(keeper)  # it runs, and nothing else would end it
        with contextlib.suppress(Exception):  # it may have ended, or Ray may be gone
            self.ray.cancel(handle, force=keeper is None)
        self._forget(handle)

    def close(self) -> None:
        for handle in list(self.running):
            self.drop(handle)
        for keeper in list(self.keepers.values()):
            self._retire(keeper)
        self.box.clear()
