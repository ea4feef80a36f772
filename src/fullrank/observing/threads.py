"""The threads of this process, sharing out spans of work."""

import contextlib
import functools
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from fullrank._threads import usable_threads


@functools.cache
def _helpers(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads that wait for work between calls: starting them would cost as much as a thousand users.

    Kept by process, since threads do not survive a fork; what they are given never waits for them in turn.
    """
    return ThreadPoolExecutor(threads, thread_name_prefix="fullrank")


def share_out(
    n: int, work: Callable[[Iterator[tuple[int, int]]], None], *, least: int = 64, step: int | None = None
) -> None:
    """Call ``work`` in every thread, this one included, with spans of 0..n−1 until none is left.

    Spans are ``step`` long, or at least ``least``. Plain threads around kernels that release the GIL: unlike a parallel
    runtime they survive forks, nest in any ``map`` and cost no compilation.
    """
    size = usable_threads()
    threads = min(size, -(-n // (step or least)))
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

    others = [_helpers(os.getpid(), size - 1).submit(work, taken()) for _ in range(threads - 1)]
    try:
        work(taken())
    finally:
        queue.clear()  # after an error nothing more is begun; otherwise it is empty
        for future in others:
            if not future.cancel():  # one that has not begun, because others use the threads, is not needed
                future.result()
