"""Run blocks on workers of this machine, each a process of its own: for models that hold the GIL while they score.

The model is written once, its arrays into a file that all workers map: they share the memory, and none of them copies it.
Compiled models (factors, item-item, stored scores) already use all cores in one process; there, workers bring nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import multiprocessing
import os
import pickle  # between our own processes, through a pipe: nothing that is read from a file is ever unpickled
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from fullrank._threads import cores
from fullrank.backends.schedule import Backend, Failure, Lost, attempt, run

_ALIGNED = 64


@dataclass(eq=False)
class ProcessBackend(Backend):
    """Runs ``map`` over worker processes of this machine; ``workers=None`` starts one per core.

    ``threads`` is what each worker may use (None: the cores divided by the workers). A block whose worker dies is started
    again on a new one, up to ``retries`` times; a block that takes longer than ``timeout`` seconds is treated likewise.
    One block per worker is on its way at a time. ``item_shards`` cuts the items of a factor model into that many ranges:
    a worker then holds one of them only.

    Workers live until ``close()``, the end of a ``with``, or the end of the object. They are new interpreters: a script
    must start its work under ``if __name__ == "__main__":``, and the model must be picklable (no lambda, no function
    defined inside another).
    """

    workers: int | None = None
    threads: int | None = None
    retries: int = 3
    timeout: float | None = None
    item_shards: int | None = None
    _team: list[_Worker] = field(default_factory=list, repr=False)

    def _map(self, task: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
        size = self.workers or cores()
        threads = self.threads or max(1, cores() // size)
        with _written(task) as parcel:
            team = _Team(self._team, size, threads, parcel, 2 * (self.item_shards or 0) + 1)
            yield from run(team, task, blocks, self.retries, self.timeout)

    def close(self) -> None:
        """Stop the workers."""
        while self._team:
            self._team.pop().stop()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end modules may be gone
            self.close()


#: What :func:`_open` takes: the model's name, the task as bytes, the file of its arrays, and where in it each one is.
_Parcel = tuple[str, bytes, str, list[tuple[int, int]]]


@contextlib.contextmanager
def _written(task: Any) -> Iterator[_Parcel]:
    """Write a task as bytes, its arrays into a file: in shared memory where there is room, else in the temporary folder."""
    name = getattr(task, "name", "function")
    buffers: list[Any] = []
    try:
        head = pickle.dumps(task, 5, buffer_callback=buffers.append)
    except Exception as error:  # an object may refuse in its own words
        raise TypeError(
            f"model `{name}` cannot be sent to another process ({error}): use functions and classes defined at the top "
            "level of a module, or leave the backend out."
        ) from None
    raws = [buffer.raw() for buffer in buffers]
    starts = [0, *itertools.accumulate(-(-raw.nbytes // _ALIGNED) * _ALIGNED for raw in raws)]
    handle, path = tempfile.mkstemp(prefix="fullrank-", dir=_roomy(starts[-1]))
    try:
        with os.fdopen(handle, "wb") as file:
            for raw, start in zip(raws, starts, strict=False):
                file.seek(start)
                file.write(raw)
            file.truncate(starts[-1] + 1)  # an empty file could not be mapped
        yield name, head, path, [(start, start + raw.nbytes) for start, raw in zip(starts, raws, strict=False)]
    finally:
        with contextlib.suppress(OSError):  # workers that have mapped it keep what they need
            os.unlink(path)


def _roomy(size: int) -> str | None:
    """Return the shared-memory folder if the arrays take less than half of what is free there, else the default."""
    shared = "/dev/shm"
    return shared if os.access(shared, os.W_OK) and size < shutil.disk_usage(shared).free / 2 else None


def _open(parcel: _Parcel) -> Any:
    name, head, path, spans = parcel
    with open(path, "rb") as file:
        # private: a model that writes into its own arrays writes into copies of the pages it touches
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    try:
        return pickle.loads(head, buffers=[whole[a:b] for a, b in spans])
    except Exception as error:
        raise TypeError(
            f"model `{name}` could not be opened in a worker process ({type(error).__name__}: {error}): its functions "
            "must be importable there; one typed into a notebook or a prompt is not."
        ) from error


def _work(pipe: Connection, threads: int) -> None:
    """Work as a worker: open tasks and answer blocks until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides when to stop
    left: list[str] = []  # the file that a killed driver would leave behind
    threading.Thread(target=_die_with_parent, args=(left,), daemon=True).start()
    for key in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[key] = str(threads)  # for what is imported from now on
    import threadpoolctl

    task: Any = None  # or why it could not be opened
    with threadpoolctl.threadpool_limits(threads), contextlib.suppress(EOFError, OSError):
        while True:
            parcel, block = pipe.recv()
            if parcel is not None:
                task, left[:] = None, [parcel[2]]
                task = attempt(_open, parcel)
                if "torch" in sys.modules:
                    sys.modules["torch"].set_num_threads(threads)
            pipe.send(task if isinstance(task, Failure) else attempt(task, block))


def _die_with_parent(left: list[str]) -> None:
    """Wait for the driver to end: a killed one closes no pipe that its workers also hold, and deletes no file."""
    driver: Any = multiprocessing.parent_process()
    wait([driver.sentinel])
    for path in left:
        with contextlib.suppress(OSError):
            os.unlink(path)
    os._exit(1)


class _Worker:
    def __init__(self, place: int, threads: int) -> None:
        self.place = place
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, threads), daemon=True, name="fullrank worker")
        self.process.start()
        theirs.close()
        self.parcel: _Parcel | None = None
        self.busy = False

    def stop(self) -> None:
        self.pipe.close()
        self.process.kill()  # it holds nothing that is not in the driver
        self.process.join()
        self.process.close()


@dataclass
class _Team:
    """Is the `Runner` over worker processes: a handle is the worker that has the block."""

    workers: list[_Worker]
    size: int
    threads: int
    parcel: _Parcel
    ahead: int
    answered: bool = False

    def _places(self, block: Any) -> list[int]:
        """Return the free places where the block may run: a range of items has one place, so that it is opened once."""
        busy = {each.place for each in self.workers if each.busy}
        shard = getattr(block, "shard", None)
        allowed = range(self.size) if shard is None else (shard % self.size,)
        return [place for place in allowed if place not in busy]

    def room(self, block: Any) -> bool:
        return bool(self._places(block))

    def start(self, block: Any) -> Hashable:
        places = self._places(block)
        worker = next((each for each in self.workers if each.place in places), None)
        if worker is None:
            worker = _Worker(places[0], self.threads)
            self.workers.append(worker)
        worker.busy = True
        with contextlib.suppress(OSError):  # a dead worker is found by `wait`
            worker.pipe.send((None if worker.parcel is self.parcel else self.parcel, block))  # the task is sent once
            worker.parcel = self.parcel
        return worker

    def wait(self, seconds: float | None) -> Iterable[tuple[Hashable, Any]]:
        busy = [worker for worker in self.workers if worker.busy]
        of: dict[Any, _Worker] = {key: each for each in busy for key in (each.pipe, each.process.sentinel)}
        ready = dict.fromkeys(of[key] for key in wait(list(of), seconds))
        return [(worker, self._outcome(worker)) for worker in ready]

    def _outcome(self, worker: _Worker) -> Any:
        with contextlib.suppress(EOFError, OSError):
            if worker.pipe.poll():
                outcome = worker.pipe.recv()
                worker.busy, self.answered = False, True
                return outcome
        worker.process.join(5)
        code = worker.process.exitcode
        self.drop(worker)
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        hint = "" if self.answered else ' (a script that uses workers must start under `if __name__ == "__main__":`)'
        time.sleep(0.1)  # a machine short of memory needs a moment
        return Lost(f"its worker {how}{hint}")

    def drop(self, handle: Hashable) -> None:
        worker: Any = handle
        if worker in self.workers:
            self.workers.remove(worker)
            worker.stop()
