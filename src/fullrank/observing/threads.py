"""The threads of this process, sharing out spans of work."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fullrank._cores import cores

__all__ = ["ONE_BLAS_THREAD", "Team", "usable_threads"]


def usable_threads() -> int:
    """``NUMBA_NUM_THREADS``, or as many as this process may use."""
    try:
        return max(1, int(os.environ["NUMBA_NUM_THREADS"]))
    except (KeyError, ValueError):
        return cores()


_HELPERS: dict[tuple[int, int], ThreadPoolExecutor] = {}


def _helpers(threads: int) -> ThreadPoolExecutor:
    """Threads that wait for work between calls: starting them would cost as much as a thousand users.

    Kept by process, since threads do not survive a fork; what they are given never waits for them in turn.
    """
    key = os.getpid(), threads
    found = _HELPERS.get(key)
    if found is None:
        found = _HELPERS.setdefault(key, ThreadPoolExecutor(threads, thread_name_prefix="fullrank"))
    return found


class Team:
    """As many threads as there are cores, this one included, that share out spans of work.

    Plain threads around kernels that release the GIL: unlike a parallel runtime they survive forks, nest in any ``map``
    and cost no compilation.
    """

    def __init__(self) -> None:
        self.size = usable_threads()

    def share(
        self, n: int, work: Callable[[Iterator[tuple[int, int]]], None], least: int = 64, step: int | None = None
    ) -> None:
        """Call ``work`` in every thread with spans of 0..n−1 (``step`` or at least ``least`` long) until none is left."""
        threads = min(self.size, -(-n // (step or least)))
        step = step or max(least, -(-n // (8 * threads)))
        spans = [(a, min(a + step, n)) for a in range(0, n, step)]
        if threads <= 1:
            work(iter(spans))
            return
        queue = deque(spans)  # popping is atomic

        def taken() -> Iterator[tuple[int, int]]:
            with contextlib.suppress(IndexError):
                while True:
                    yield queue.popleft()

        others = [_helpers(self.size - 1).submit(work, taken()) for _ in range(threads - 1)]
        try:
            work(taken())
        finally:
            queue.clear()  # after an error nothing more is begun; otherwise it is empty
            for future in others:
                if not future.cancel():  # one that has not begun, because others use the threads, is not needed
                    future.result()


class OneBlasThread:
    """While entered, matrix products run in the thread that asks for them; says whether that could be arranged.

    Threads that multiply and count tiles of their own wait for nobody and keep their tiles in their own cache. The setting
    is the process's, so entries are counted: the first one sets it, the last one puts it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = 0
        self._limit: Any = None

    def __enter__(self) -> bool:
        try:
            import threadpoolctl
        except ImportError:
            return "1" in (os.environ.get("OPENBLAS_NUM_THREADS"), os.environ.get("OMP_NUM_THREADS"))
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                self._limit = threadpoolctl.threadpool_limits(1, user_api="blas")
        return True

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._entered:
                self._entered -= 1
                if self._entered == 0:
                    self._limit.restore_original_limits()
                    self._limit = None


ONE_BLAS_THREAD = OneBlasThread()
