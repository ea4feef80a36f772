"""Observing one model for ``evaluate``: cases, a design, what was seen before, and whatever cuts it short.

A round that the budget or Ctrl-C ends in the middle keeps the blocks of users that were finished.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fullrank.evaluation.job import Job, slug
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL, Design

if TYPE_CHECKING:
    from fullrank.data.split import Split
    from fullrank.observing.observe import CaseOutcomes

__all__ = ["Ints", "Seen", "look", "look_at_all", "only"]

Ints = NDArray[np.int64]


class _Enough(Exception):  # noqa: N818 - not an error: the budget is spent
    """The budget ended in the middle of a round."""


@dataclass
class Seen:
    """What was seen of a model so far: which cases of the split, their outcomes, how it came to this."""

    cases: Ints
    outcomes: CaseOutcomes
    rounds: list[dict[str, Any]] = field(default_factory=list)
    why: str = ""
    notes: list[str] = field(default_factory=list)
    needed: dict[str, int] = field(default_factory=dict)

    @property
    def items(self) -> int:
        """Negatives compared."""
        return int(self.outcomes.compared.sum())

    def counts(self, split: Split) -> RankCounts:
        """As counts."""
        return self.outcomes.counts(only(split, self.cases))


def only(split: Split, cases: Ints) -> Split:
    """The split with these of its cases."""
    if len(cases) == len(split.users):
        return split
    weights = None if split.weights is None else split.weights[cases]
    return replace(split, users=split.users[cases], items=split.items[cases], weights=weights)


def look(job: Job, scorer: Any, name: str, cases: Ints, design: Design, previous: Seen | None) -> Seen:
    """Observe these cases under the design, going on from what was seen; if cut short, finished blocks of users are kept."""
    from fullrank.observing.observe import observe_cases

    split = only(job.split, cases)
    before = None if previous is None else previous.outcomes
    users = len(np.unique(split.users))
    batch = None if design.exact_to else int(np.clip(users // 32, 256, 1 << 16))
    path = None
    if job.folder is not None:
        path = job.folder / f"{slug(name)}-{len(cases)}-{slug(str(design))}.blocks"
    parts: list[Any] = []
    grouped = _Order.of(split)
    done = 0 if before is None else int(before.compared.sum())
    past = None if before is None else grouped.sort(before.compared)
    within = (design.stages(split.n_items)[-1] or split.n_items) * len(cases) <= job.items_left  # whatever happens

    def watched(work: Any, blocks: Iterable[Any]) -> Iterator[Any]:
        items, largest, clock, slowest = done, 0, time.perf_counter(), 0.0
        for part in job.map(work, blocks):
            parts.append(part)
            yield part
            first, last, (drawn, _, pool, _) = part
            size = int(np.where(drawn == ALL, pool - 1, drawn).sum())
            if past is not None:
                size -= int(past[grouped.ptr[first] : grouped.ptr[last]].sum())
            now = time.perf_counter()
            items, largest = items + size, max(largest, size)
            slowest, clock = max(slowest, now - clock), now
            if (items + largest > job.items_left and not within) or now + slowest > job.seconds_end:
                raise _Enough

    def cut_short(why: str) -> Seen | None:
        kept = parts if path is None else _kept(path, users)
        whole = sum(last - first for first, last, _ in kept) == users
        if not (job.likelihood or whole or previous is None):
            return replace(previous, why=why)
        seen = _merged(split, cases, grouped, design, job, previous, kept)
        return seen if whole or seen is None else replace(seen, why=why)

    try:
        outcomes = observe_cases(
            scorer, split, design, candidates=job.candidates, ties=job.ties, rng=job.seed, map=watched, checkpoint=path,
            progress=job.progress, batch=batch, name=name, previous=before,
        )  # fmt: skip
    except _Enough:
        return cut_short("budget") or _nothing()
    except KeyboardInterrupt:
        job.latest = cut_short("interrupted") or job.latest
        raise
    return Seen(cases, outcomes, [] if previous is None else previous.rounds)


def _nothing() -> Seen:
    raise RuntimeError("`map` returned no block.")


@dataclass(frozen=True)
class _Order:
    """The cases of a split as blocks count them: by user, then by item."""

    sorting: Ints
    ptr: Ints

    @classmethod
    def of(cls, split: Split) -> _Order:
        sorting = np.lexsort((split.items, split.users))
        starts = np.flatnonzero(np.diff(split.users[sorting], prepend=-1))
        return cls(sorting, np.append(starts, len(sorting)).astype(np.int64))

    def sort(self, values: Any) -> Any:
        return values[self.sorting]


def _kept(path: Path, users: int) -> list[Any]:
    """The finished blocks in a checkpoint."""
    from fullrank.observing.checkpoint import Checkpoint

    if not path.exists():
        return []
    with Checkpoint(path, {}) as file:
        return list(file.restore(users))


def _merged(
    split: Split, cases: Ints, order: _Order, design: Design, job: Job, previous: Seen | None, parts: list[Any]
) -> Seen | None:
    """Earlier outcomes, and later ones where a block was finished; without earlier ones, the finished blocks alone."""
    from fullrank.observing.observe import CaseOutcomes

    n = len(cases)
    columns = {}
    for name in ("drawn", "hits", "n_items", "order"):
        old = None if previous is None else getattr(previous.outcomes, name)
        columns[name] = np.zeros(n, dtype=np.int64) if old is None else order.sort(old).copy()
    seen = np.full(n, previous is not None)
    for first, last, arrays in parts:
        span = slice(order.ptr[first], order.ptr[last])
        for name, values in zip(columns, arrays, strict=True):
            columns[name][span] = values
        seen[span] = True
    if not seen.any():
        return None
    back = np.empty(n, dtype=np.int64)
    back[order.sorting] = np.arange(n)
    kept = seen[back]
    sizes = np.diff(order.ptr)
    targets = np.repeat(sizes, sizes)[back][kept]
    outcomes = CaseOutcomes(
        **{name: values[back][kept] for name, values in columns.items()}, targets=targets,
        design=design.resolve(split.n_items), seed=job.seed,
        candidates=job.candidates_name,
    )  # fmt: skip
    return Seen(cases[kept], outcomes, [] if previous is None else previous.rounds)


def look_at_all(job: Job, scorer: Any, name: str, cases: Ints, design: Design, seen: Seen | None) -> Seen:
    """Go on with the cases seen, begin with the new ones."""
    if seen is None:
        return look(job, scorer, name, cases, design, None)
    new = np.setdiff1d(cases, seen.cases)
    further = seen
    if str(design) != str(seen.outcomes.design):
        further = look(job, scorer, name, seen.cases, design, seen)
    if not len(new) or further.why:
        return further
    job.latest = None
    try:
        fresh = look(job, scorer, name, new, design, None)
    except KeyboardInterrupt:
        job.latest = further if job.latest is None else _joined(further, job.latest)
        raise
    return _joined(further, fresh)


def _joined(a: Seen, b: Seen) -> Seen:
    cases = np.concatenate([a.cases, b.cases])
    order = np.argsort(cases)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(a.outcomes, name), getattr(b.outcomes, name)])[order]
        for name in ("drawn", "hits", "n_items", "order", "targets")
    }
    return Seen(cases[order], replace(b.outcomes, **columns), a.rounds, b.why)
