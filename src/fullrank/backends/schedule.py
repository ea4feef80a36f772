"""Which block runs when, and what happens when a worker is lost: the same for every backend.

A backend brings a `Runner`, which can start a block somewhere and tell what became of it. Here is the rest: as many blocks
on their way as there is room for, a lost block started again, a slow one started a second time where somebody is idle, a
block that raises reported by its users and its model. Every block is handed on exactly once, as soon as it is there.
"""

from __future__ import annotations

import statistics
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from fullrank._checks import check_number, check_whole

__all__ = ["BlockError", "Failure", "Lost", "Runner", "attempt", "check_limits", "run"]

#: A block is started a second time when it takes this many times the median, and at least so many seconds.
SLOW_TIMES, SLOW_SECONDS = 4.0, 5.0


class BlockError(RuntimeError):
    """A block that could not be finished: the model raised, or its worker was lost too often."""


@dataclass(frozen=True)
class Lost:
    """The worker is gone, or was too slow; the block may be started again.

    It counts against the block's retries unless the block was only waiting where another one ran.
    """

    reason: str
    counts: bool = True


@dataclass(frozen=True)
class Failure:
    """What a block that raised sends home: text only, which always travels."""

    kind: str
    message: str
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The error, with the traceback as it would have been printed."""
        trace = "".join(traceback.format_exception(error))
        return cls(type(error).__name__, str(error), trace)


def attempt(task: Callable[[Any], Any], block: Any) -> Any:
    """The result of a block, or the `Failure` that came instead of it: what runs in a worker."""
    try:
        return task(block)
    except Exception as error:
        return Failure.of(error)


class Runner(Protocol):
    """Somewhere to run blocks; a handle stands for one block on its way."""

    #: How many blocks to choose the next one from: more than one where a block cannot run just anywhere.
    ahead: int

    def room(self, block: Any) -> bool:
        """Whether one more block can be started now."""
        ...

    def start(self, block: Any) -> Hashable:
        """Start a block."""
        ...

    def wait(self, seconds: float | None) -> Iterable[tuple[Hashable, Any]]:
        """What ended within ``seconds`` (None: as long as it takes): results, `Failure` or `Lost`."""
        ...

    def drop(self, handle: Hashable) -> None:
        """Forget a block on its way, whatever becomes of it."""
        ...


@dataclass
class _Running:
    index: int
    since: float


def run(
    runner: Runner, task: Any, blocks: Iterable[Any], *, retries: int = 3, timeout: float | None = None
) -> Iterator[Any]:
    """The results of all blocks, in the order in which they end.

    A block whose worker is lost is started again up to ``retries`` times; one that runs longer than ``timeout`` seconds
    counts as lost. When a block raises, those already on their way are finished and handed on before the error is raised:
    with a checkpoint, nothing that was done is done again. ``blocks`` may hold None for "nothing until something ends".
    """
    source = enumerate(blocks)
    again: deque[int] = deque()
    held: dict[int, Any] = {}
    running: dict[Hashable, _Running] = {}
    losses: Counter[int] = Counter()
    seconds: deque[float] = deque(maxlen=256)
    failed: tuple[Any, Failure] | None = None
    exhausted = False

    def lose(index: int, lost: Lost) -> None:
        """Have a block started again, unless its other copy still runs; give it up when it was lost too often."""
        losses[index] += lost.counts
        if losses[index] > retries:
            raise _gone(task, held[index], lost, losses[index])
        if not any(other.index == index for other in running.values()):
            again.append(index)

    try:
        while True:
            while failed is None:  # as many as there is room for
                again = deque(index for index in again if index in held)  # a second copy may be no longer needed
                while len(again) < runner.ahead and not exhausted:
                    for index, block in source:
                        if block is not None:
                            held[index] = block
                            again.append(index)
                        break
                    else:
                        exhausted = True
                    if not exhausted and block is None:
                        break
                if not again and exhausted:
                    again.extend(_slow(running, seconds))
                index = next((each for each in again if runner.room(held[each])), -1)
                if index < 0:
                    break
                again.remove(index)
                running[runner.start(held[index])] = _Running(index, time.monotonic())
            if not running:
                if failed is None and again:
                    continue
                break
            for handle, outcome in runner.wait(_patience(running, timeout, seconds, exhausted)):
                ended = running.pop(handle, None)
                if ended is None or ended.index not in held:
                    continue  # its other copy was faster
                if isinstance(outcome, Lost):
                    lose(ended.index, outcome)
                    continue
                block = held.pop(ended.index)
                for copy in [key for key, other in running.items() if other.index == ended.index]:
                    del running[copy]
                    runner.drop(copy)
                if isinstance(outcome, Failure):
                    failed = failed or (block, outcome)
                    continue
                seconds.append(time.monotonic() - ended.since)
                yield outcome
            if timeout is not None:
                for handle in [h for h, each in running.items() if time.monotonic() - each.since > timeout]:
                    late = running.pop(handle)
                    runner.drop(handle)
                    lose(late.index, Lost(f"it took longer than `timeout` = {timeout:g} seconds"))
    finally:
        for handle in running:
            runner.drop(handle)
    if failed is not None:
        raise _raised(task, *failed)


def _slow(running: dict[Hashable, _Running], seconds: deque[float]) -> list[int]:
    """The block that has taken far longer than the others, if it is not running twice already."""
    if not seconds:
        return []
    limit = max(SLOW_SECONDS, SLOW_TIMES * statistics.median(seconds))
    copies = Counter(each.index for each in running.values())
    late = [each for each in running.values() if copies[each.index] == 1 and time.monotonic() - each.since > limit]
    return [min(late, key=lambda each: each.since).index] if late else []


def _patience(
    running: dict[Hashable, _Running], timeout: float | None, seconds: deque[float], exhausted: bool
) -> float | None:
    """How long to wait before something else than an ending block may need to be done."""
    oldest = min(each.since for each in running.values())
    until = [] if timeout is None else [oldest + timeout]
    if exhausted and seconds:
        until.append(max(time.monotonic() + 0.5, oldest + max(SLOW_SECONDS, SLOW_TIMES * statistics.median(seconds))))
    return max(0.01, min(until) - time.monotonic()) if until else None


def _where(task: Any, block: Any) -> tuple[str, str]:
    name = getattr(task, "name", None)
    users = getattr(block, "users", None)
    model = f"model `{name}`" if name else "the function"
    if users is None or not len(users):
        return model, "a block"
    first, last = int(users[0]), int(users[-1])
    return model, f"the block of user {first}" if first == last else f"the block of users {first} to {last}"


def _gone(task: Any, block: Any, lost: Lost, times: int) -> BlockError:
    model, where = _where(task, block)
    return BlockError(f"{model}: {where} was given up after {times} attempts, the last because {lost.reason}.")


def _raised(task: Any, block: Any, failure: Failure) -> Exception:
    model, where = _where(task, block)
    if failure.kind in ("ValueError", "TypeError"):  # a sentence for people already
        kind = ValueError if failure.kind == "ValueError" else TypeError
        error: Exception = kind(f"{failure.message.rstrip('.')} (in {where}).")
    else:
        error = BlockError(f"{model} failed in {where}: {failure.kind}: {failure.message}")
    error.__cause__ = _Elsewhere(failure.trace)
    return error


class _Elsewhere(Exception):  # noqa: N818  # not raised: it carries the worker's traceback under the error
    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


def check_limits(**limits: Any) -> None:
    """Refuse limits that are no positive numbers; None is no limit."""
    for key, value in limits.items():
        if key not in ("timeout", "num_cpus", "num_gpus"):
            check_whole(key, value, 0 if key == "retries" else 1, none=True)
        elif value is not None:
            check_number(key, value, above=None if key == "num_gpus" else 0)
