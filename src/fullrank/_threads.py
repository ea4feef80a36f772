"""How many threads this process may use, and the one guard that keeps matrix products in the calling thread."""

import os
import sys
import threading
from functools import lru_cache
from typing import Any


def cores() -> int:
    """Return the number of cores this process is bound to, where that is known; else of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_threads() -> int:
    """Return ``NUMBA_NUM_THREADS``, or as many threads as this process may use."""
    try:
        return max(1, int(os.environ["NUMBA_NUM_THREADS"]))
    except (KeyError, ValueError):
        return cores()


@lru_cache
def _libraries(*loaded: bool) -> Any:
    """Return the BLAS libraries of this process, looked for again when a package that brings its own is loaded."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class OneBlasThread:
    """While entered, matrix products run in the calling thread.

    Threads that count tiles of their own wait for nobody and keep them in their own cache; for small matrices those of BLAS
    gain little, and wait for one another on a busy machine. The setting is the process's, so entries are counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                libraries = _libraries(*(name in sys.modules for name in ("scipy.linalg", "implicit", "torch")))
                self._limit = libraries.limit(limits=1, user_api="blas")

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0:
                self._limit.restore_original_limits()


ONE_BLAS_THREAD = OneBlasThread()
