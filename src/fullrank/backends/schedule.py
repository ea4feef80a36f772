"""Decide for every backend which block runs when, and what happens when a worker is lost.

A backend brings a `Runner`, which can start a block somewhere and report what became of it. Here is the rest: as many
blocks on their way as there is room for, a lost block started again, a slow one started a second time where a worker is
idle, a block that raises reported by its users and its model. Every block is handed on exactly once, as soon as it ends.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from fullrank._checks import check_number, check_whole

#: A block is started a second time when it takes this many times the median, and at least so many seconds.
SLOW_TIMES, SLOW_SECONDS = 4.0, 5.0


class BlockError(RuntimeError):
    """Says that a block could not be finished: the model raised, or its worker was lost too often."""


@dataclass(frozen=True)
class Lost:
    """Says that the worker is gone, or was too slow; the block may be started again.

    It counts against the block's retries unless the block was only waiting where another one ran.
    """

    reason: str
    counts: bool = True


@dataclass(frozen=True)
class Failure:
    """Says how a block raised: in text only, which can always be sent."""

    kind: str
    message: str
    trace: str  # as it would have been printed


def attempt(task: Callable[[Any], Any], block: Any) -> Any:
    """Run a block in a worker; returns its result, or the `Failure` that came instead of it."""
    try:
        return task(block)
    except Exception as error:
        return Failure(type(error).__name__, str(error), "".join(traceback.format_exception(error)))


class Runner(Protocol):
    """Somewhere to run blocks; a handle stands for one block on its way."""

    #: How many blocks to choose the next one from: more than one where a block cannot run just anywhere.
    ahead: int

    def room(self, block: Any) -> bool:
        """Say whether one more block can be started now."""

    def start(self, block: Any) -> Hashable:
        """Start a block."""

    def wait(self, seconds: float | None) -> Iterable[tuple[Hashable, Any]]:
        """Return what ended within ``seconds`` (None: as long as it takes): results, `Failure` or `Lost`."""

    def drop(self, handle: Hashable) -> None:
        """Forget a block on its way, whatever becomes of it."""


class Backend:
    """Makes a dataclass of limits a backend; what is left to it is to run blocks, ``_map(task, blocks)``, and ``close``."""

    item_shards: int | None
    close: Callable[[], None]
    _map: Callable[..., Iterator[Any]]

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):  # type: ignore[arg-type]  # of the dataclass that this becomes a part of
            key, value = each.name, getattr(self, each.name)
            if key in ("timeout", "num_cpus", "num_gpus") and value is not None:
                check_number(key, value, above=None if key == "num_gpus" else 0)
            elif key not in ("timeout", "address") and not key.startswith("_"):
                check_whole(key, value, 0 if key == "retries" else 1, none=True)

    def map(self, task: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of ``task(block)`` for all blocks, in the order in which they end."""
        if self.item_shards is None:
            return self._map(task, blocks)
        from fullrank.observing.shards import spread

        return spread(self._map, task, blocks, self.item_shards)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def run(runner: Runner, task: Any, blocks: Iterable[Any], retries: int, timeout: float | None) -> Iterator[Any]:
    """Yield the results of all blocks, in the order in which they end.

    A block whose worker is lost is started again up to ``retries`` times; one that runs longer than ``timeout`` seconds
    counts as lost. When a block raises, those already on their way are finished and handed on before the error is raised:
    with a checkpoint, nothing that was done is done again. ``blocks`` may hold None for "nothing until something ends".
    """
    schedule = _Schedule(runner, task, enumerate(blocks), retries, timeout)
    try:
        while schedule.start_blocks() or schedule.running:
            if schedule.running:
                yield from schedule.ended()
                schedule.lose_overdue()
    finally:
        for handle in schedule.running:
            runner.drop(handle)
    if schedule.failed is not None:
        block, failure = schedule.failed
        model, where = _where(task, block)
        error: Exception = BlockError(f"{model} failed in {where}: {failure.kind}: {failure.message}")
        for kind in (ValueError, TypeError):  # these are sentences for people already
            if failure.kind == kind.__name__:
                error = kind(f"{failure.message.rstrip('.')} (in {where}).")
        raise error from RuntimeError(f"\n\n{failure.trace}")  # the worker's traceback, shown with the error


@dataclass
class _Schedule:
    """Which blocks wait, which are on their way, and what became of them."""

    runner: Runner
    task: Any
    source: Iterator[tuple[int, Any]]
    retries: int
    timeout: float | None
    exhausted: bool = False
    failed: tuple[Any, Failure] | None = None
    waiting: deque[int] = field(default_factory=deque)
    held: dict[int, Any] = field(default_factory=dict)  # blocks that have no result yet
    running: dict[Hashable, tuple[int, float]] = field(default_factory=dict)  # each block, and since when
    losses: Counter[int] = field(default_factory=Counter)
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=256))

    def start_blocks(self) -> bool:
        """Start as many blocks as there is room for, none after a failure; false when no block waits."""
        while self.failed is None:
            self._fill()
            index = next((each for each in self.waiting if self.runner.room(self.held[each])), None)
            if index is None:
                return bool(self.waiting)
            self.waiting.remove(index)
            self.running[self.runner.start(self.held[index])] = index, time.monotonic()
        return False

    def _fill(self) -> None:
        """Take blocks from the source until there are enough to choose from; at its end, a slow one a second time."""
        self.waiting = deque(index for index in self.waiting if index in self.held)  # a second copy may be needless
        while len(self.waiting) < self.runner.ahead and not self.exhausted:
            index, block = next(self.source, (-1, None))
            self.exhausted = index < 0
            if block is None:
                break
            self.held[index] = block
            self.waiting.append(index)
        if not self.waiting and self.exhausted:
            copies, limit = Counter(index for index, _ in self.running.values()), time.monotonic() - self._limit
            slow = [(since, index) for index, since in self.running.values() if copies[index] == 1 and since < limit]
            self.waiting.extend(index for _, index in sorted(slow)[:1])

    def ended(self) -> Iterator[Any]:
        """Wait until something ends or is due, and yield the results there are."""
        for handle, outcome in self.runner.wait(self._patience()):
            index, since = self.running.pop(handle, (-1, 0.0))
            if index not in self.held:
                continue  # its other copy was faster
            if isinstance(outcome, Lost):
                self._lose(index, outcome)
                continue
            block = self.held.pop(index)
            for copy in [key for key, (other, _) in self.running.items() if other == index]:
                del self.running[copy]
                self.runner.drop(copy)
            if isinstance(outcome, Failure):
                self.failed = self.failed or (block, outcome)
            else:
                self.seconds.append(time.monotonic() - since)
                yield outcome

    def lose_overdue(self) -> None:
        """Count blocks that run longer than the timeout as lost."""
        if self.timeout is not None:
            for handle in [h for h, (_, since) in self.running.items() if time.monotonic() - since > self.timeout]:
                index, _ = self.running.pop(handle)
                self.runner.drop(handle)
                self._lose(index, Lost(f"it took longer than `timeout` = {self.timeout:g} seconds"))

    def _lose(self, index: int, lost: Lost) -> None:
        """Have a block started again, unless its other copy still runs; give it up when it was lost too often."""
        self.losses[index] += lost.counts
        if self.losses[index] > self.retries:
            model, where = _where(self.task, self.held[index])
            times = f"{self.losses[index]} attempts"
            raise BlockError(f"{model}: {where} was given up after {times}, the last because {lost.reason}.")
        if not any(other == index for other, _ in self.running.values()):
            self.waiting.append(index)

    @property
    def _limit(self) -> float:
        """After how many seconds a block is slow."""
        return max(SLOW_SECONDS, SLOW_TIMES * statistics.median(self.seconds)) if self.seconds else math.inf

    def _patience(self) -> float | None:
        """Return how long to wait before something else than an ending block may need to be done."""
        oldest = min(since for _, since in self.running.values())
        until = math.inf if self.timeout is None else oldest + self.timeout
        if self.exhausted:
            until = min(until, max(time.monotonic() + 0.5, oldest + self._limit))
        return max(0.01, until - time.monotonic()) if until < math.inf else None


def _where(task: Any, block: Any) -> tuple[str, str]:
    model = f"model `{task.name}`" if hasattr(task, "name") else "the function"
    users: Any = getattr(block, "users", ())
    if not len(users):
        return model, "a block"
    first, last = int(users[0]), int(users[-1])
    return model, f"the block of user {first}" if first == last else f"the block of users {first} to {last}"
