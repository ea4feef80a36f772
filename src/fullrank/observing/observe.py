"""From a model and a split to rank counts: exactly or by sampling, in bounded memory, resumable.

A test case is one (user, target). Cases are grouped by user, users are taken in blocks, and what a block gives is a pure
function of (model, block, design, seed): so blocks may run anywhere (``map``), in any order, and be kept (``checkpoint``),
and the result is the same to the digit. How items are compared, drawn and scored is in :mod:`fullrank.observing.kernels`.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fullrank._progress import bar
from fullrank.models.scorer import as_scorer
from fullrank.observing.blocks import Block, Grouped, Result, unfinished
from fullrank.observing.checkpoint import Checkpoint
from fullrank.observing.task import Task
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL, Design, parse_design

if TYPE_CHECKING:
    from fullrank.data.split import Split

__all__ = ["CaseOutcomes", "observe", "observe_cases"]

Ints = NDArray[np.int64]
Array = NDArray[Any]

TIES = ("random", "optimistic", "pessimistic")
#: Cases turned into counts at a time.
CASES_PER_PART = 1 << 18
_FIELDS = ("drawn", "hits", "n_items", "order")


@dataclass(frozen=True)
class CaseOutcomes:
    """What was seen of each case, in the order of the split's cases.

    ``drawn`` negatives were compared (0: every candidate), ``hits`` of them rank above the target; there are ``n_items``
    candidates (N′ = N − T + 1: the user's other targets are not among them), and the target is the ``order``-th of the
    user's ``targets``. ``candidates`` is what :attr:`RankCounts.candidates` will be.
    """

    drawn: Ints
    hits: Ints
    n_items: Ints
    order: Ints
    targets: Ints
    design: Design
    seed: int
    candidates: str = "unseen"

    def __len__(self) -> int:
        return len(self.drawn)

    @property
    def compared(self) -> Ints:
        """How many negatives each case was compared with."""
        return np.where(self.drawn == ALL, self.n_items - 1, self.drawn)

    def counts(self, split: Split) -> RankCounts:
        """These outcomes as counts, made in parts of a fixed size: a million cases then take little room."""
        size = CASES_PER_PART if split.weights is None else len(self)  # a part must not weigh nothing
        parts = []
        for first in range(0, len(self), size):
            part = slice(first, first + size)
            parts.append(
                RankCounts.from_outcomes(
                    self.drawn[part], self.hits[part], self.n_items[part], self.design,
                    users=split.users[part], weights=split.weights, order=self.order[part], targets=self.targets[part],
                    candidates=self.candidates,
                )
            )  # fmt: skip
        return functools.reduce(operator.add, parts)


def observe(
    model: Any,
    split: Split,
    design: Design | str,
    *,
    candidates: Any = "unseen",
    ties: str = "random",
    rng: int | np.random.Generator | None = 0,
    map: Any = map,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    batch: int | None = None,
    name: str | None = None,
) -> RankCounts:
    """Rank every test case's target among all candidates or a sample of them, and count the outcomes.

    ``model`` is anything :func:`fullrank.as_scorer` takes. ``candidates``: ``"unseen"`` leaves the user's training items
    out (kr20), ``"all"`` does not (jin21, li23); or one pool per user: a sparse users × items mask, a dict or a sequence of
    item lists, used as it is, plus the targets (the counts call these candidates ``"given"``). The other targets of a user
    are never negatives.

    ``ties``: an item whose score equals the target's ranks above it never (``"optimistic"``), always
    (``"pessimistic"``), or by a seeded key per user and item (``"random"``), the same in every design. NaN is refused.

    ``rng`` seeds ties and negatives. Negatives depend on (seed, user, target) only: every model sees the same ones, and a
    longer sample begins with the shorter one. Neither ``batch`` (users per block), threads, ``map`` (anything like the
    built-in, or an object with ``.map``), nor a restart from ``checkpoint`` changes a digit. Threads: as many as the
    machine has, or ``NUMBA_NUM_THREADS``.

    ``Top(K)`` gives exact metrics@K for less than ``Exhaustive()``, for much less with factors. So does
    ``Adaptive(stop_at=K, max_negatives="all", replace=False)``, item by item: a case that was compared with all its
    candidates has its exact rank.
    """
    outcomes = observe_cases(
        model, split, design, candidates=candidates, ties=ties, rng=rng, map=map, checkpoint=checkpoint,
        progress=progress, batch=batch, name=name,
    )  # fmt: skip
    return outcomes.counts(split)


def observe_cases(
    model: Any,
    split: Split,
    design: Design | str,
    *,
    candidates: Any = "unseen",
    ties: str = "random",
    rng: int | np.random.Generator | None = 0,
    map: Any = map,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    batch: int | None = None,
    name: str | None = None,
    previous: CaseOutcomes | None = None,
) -> CaseOutcomes:
    """Like :func:`observe`, but case by case.

    ``previous``, made with the same seed, is taken up where it stopped: only further negatives are scored. The outcome is
    that of the new design from the start, provided each case stopped at the end of a stage of the new design or before
    its first.
    """
    design = parse_design(design)
    if ties not in TIES:
        raise ValueError(f"`ties` is {ties!r}; allowed are {', '.join(repr(each) for each in TIES)}.")
    if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int | np.integer) or batch < 1):
        raise ValueError(f"`batch` is {batch!r}; allowed is a positive number of users per block.")
    if previous is not None and design.beyond is not None:
        raise ValueError(
            f"`previous` cannot be taken up by '{design}', whose sample does not grow: observe it from the start."
        )
    if previous is not None and not (design.exhaustive or _drawn_alike(previous.design, design, split.n_items)):
        how = "with" if previous.design.replace else "without"
        raise ValueError(
            f"`previous` was drawn {how} replacement and '{design}' draws otherwise: observe it from the start."
        )
    named = candidates_name(candidates)
    if previous is not None and previous.candidates != named:
        raise ValueError(
            f"`previous` was observed among candidates '{previous.candidates}', not '{named}': observe it from the start."
        )
    run = _mapper(map)
    scorer = as_scorer(model, split, name=name)
    name = name or scorer.name
    _check_sizes(scorer, split, name)
    seed = seed_of(rng) if previous is None else previous.seed
    listed, explicit = _candidates(candidates, split)
    cases = Grouped.of(split, listed, explicit, previous)
    task = Task.of(scorer, name, design, cases.largest_pool(), split.n_items, ties, seed)
    out = {key: np.zeros(len(cases.targets), dtype=np.int64) for key in _FIELDS}
    total = len(cases.users)
    done = np.zeros(total, dtype=bool)
    with Checkpoint.open(checkpoint, lambda: task.identity(split, listed, explicit, previous)) as kept:
        for first, last, arrays in kept.restore(total, cases.ptr):
            span = slice(cases.ptr[first], cases.ptr[last])
            for key, values in zip(_FIELDS, arrays, strict=True):
                out[key][span] = values
            done[first:last] = True
        blocks = list(cases.blocks(unfinished(done, task.block_users(cases, batch), task.tile)))
        ready = int(sum(cases.ptr[1:][done] - cases.ptr[:-1][done]))
        with bar(progress, len(split.users), name, initial=ready, unit="case", unit_scale=True) as shown:
            for first, last, arrays in run(task, blocks):
                span = slice(cases.ptr[first], cases.ptr[last])
                for key, values in zip(_FIELDS, arrays, strict=True):
                    out[key][span] = values
                done[first:last] = True
                kept.keep(first, last, arrays)
                shown.update(span.stop - span.start)
    if not done.all():
        raise RuntimeError(
            f"`map` returned {int(done.sum())} of {total} users: it must call the function on every block."
        )
    for key, values in out.items():
        out[key] = cases.to_case_order(values)
    targets = cases.to_case_order(np.repeat(np.diff(cases.ptr), np.diff(cases.ptr)))
    return CaseOutcomes(**out, targets=targets, design=task.design, seed=seed, candidates=named)


# -------------------------------------------------------------------------------------------------------- input


def seed_of(rng: int | np.random.Generator | None) -> int:
    """The whole number that ties and draws are seeded with."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(1 << 63))
    if rng is None:
        return int(np.random.default_rng().integers(1 << 63))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise TypeError(f"`rng` is {rng!r}; allowed are a whole number from 0, a NumPy Generator or None.")
    return int(rng)


def _mapper(given: Any) -> Callable[[Callable[[Block], Result], Iterable[Block]], Iterable[Result]]:
    run = getattr(given, "map", given)
    if not callable(run):
        raise TypeError(
            f"`map` is {given!r}; allowed are a function like the built-in `map`, or an object with `.map`."
        )
    return run  # type: ignore[no-any-return]


def _check_sizes(scorer: Any, split: Split, name: str) -> None:
    if len(split.users) == 0:
        raise ValueError("`split` has no test cases.")
    for what, values, size in (("user", split.users, split.n_users), ("item", split.items, split.n_items)):
        low, high = int(values.min()), int(values.max())
        if low < 0 or high >= size:
            raise ValueError(f"`split` has a case of {what} {low if low < 0 else high}; allowed are 0 to {size - 1}.")
        known = getattr(scorer, f"n_{what}s", None)
        if known is not None and known < (high + 1 if what == "user" else size):
            raise ValueError(
                f"model `{name}` knows {known:,} {what}s, but the split has {size:,}: fit it on the split's own `train`."
            )
        if known is not None and known > size and getattr(split, f"{what}_ids") is not None:
            raise ValueError(
                f"model `{name}` knows {known:,} {what}s, but the split numbers its {size:,} anew: fit it on the split's "
                f"own `train`, or take the rows of `split.{what}_ids`."
            )
    if split.n_items >= np.iinfo(np.int32).max:
        raise ValueError(f"`split` has {split.n_items:,} items; allowed are up to {np.iinfo(np.int32).max - 1:,}.")


def candidates_name(given: Any) -> str:
    """What counts call the candidates that :func:`observe` was given: a pool per user is ``"given"``."""
    return given if isinstance(given, str) else "given"


def _drawn_alike(before: Design, after: Design, n_items: int) -> bool:
    """Whether the negatives of one design are the first of the other's."""
    return before == after or all(course.replace == before.replace for course in after.courses(n_items))


def _candidates(given: Any, split: Split) -> tuple[Any, bool]:
    """Sorted items per user as a CSR matrix, and whether they are the candidates or what is left out."""
    shape = (split.n_users, split.n_items)
    if isinstance(given, str):
        if given == "unseen":
            return _sorted_csr(split.train), False
        if given == "all":
            return sp.csr_matrix(shape, dtype=np.int8), False
        raise ValueError(f"`candidates` is {given!r}; allowed are 'unseen', 'all', or a pool of items per user.")
    if sp.issparse(given) or (isinstance(given, np.ndarray) and given.ndim == 2 and given.dtype == bool):
        pool = sp.csr_matrix(given)
        if pool.shape != shape:
            raise ValueError(f"`candidates` has shape {pool.shape}; the split is {shape[0]} users × {shape[1]} items.")
        if pool.nnz and not np.all(pool.data):
            pool = pool.copy()
            pool.eliminate_zeros()
        return _sorted_csr(pool), True
    if isinstance(given, dict):
        lists: Any = [given.get(user, ()) for user in range(shape[0])]
    elif isinstance(given, Sequence | np.ndarray):
        lists = given
    else:
        raise TypeError(
            f"`candidates` is a {type(given).__name__}; allowed are 'unseen', 'all', or a pool of items per user."
        )
    if len(lists) != shape[0]:
        raise ValueError(
            f"`candidates` has {len(lists)} lists; needed is one for each of the split's {shape[0]} users."
        )
    sizes = np.array([len(items) for items in lists], dtype=np.int64)
    flat = np.concatenate(
        [np.zeros(0, dtype=np.int64), *(np.asarray(items, dtype=np.int64) for items in lists if len(items))]
    )
    if len(flat) and (flat.min() < 0 or flat.max() >= shape[1]):
        wrong = int(np.flatnonzero((flat < 0) | (flat >= shape[1]))[0])
        user = int(np.searchsorted(np.cumsum(sizes), wrong, side="right"))
        raise ValueError(f"`candidates` of user {user} hold item {flat[wrong]}; allowed are 0 to {shape[1] - 1}.")
    rows = np.repeat(np.arange(shape[0]), sizes)
    return _sorted_csr(sp.csr_matrix((np.ones(len(flat), dtype=np.int8), (rows, flat)), shape=shape)), True


def _sorted_csr(matrix: Any) -> Any:
    out = matrix if getattr(matrix, "format", None) == "csr" else sp.csr_matrix(matrix)  # keeps what it knows of itself
    return out if out.has_sorted_indices else out.sorted_indices()
