"""From a model and a split to rank counts: exactly or by sampling, in bounded memory, resumable.

A test case is one (user, target). Cases are grouped by user, users are taken in blocks, and what a block gives is a pure
function of (model, block, design, seed): so blocks may run anywhere (``map``), in any order, and be kept (``checkpoint``),
and the result is the same to the digit. How items are compared, drawn and scored is in :mod:`fullrank.ranks.kernels`.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fullrank._progress import bar
from fullrank.models.scorer import Factors, ItemItem, Rows, Table, as_scorer
from fullrank.ranks.checkpoint import Checkpoint
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL, Adaptive, Design, Exhaustive, Top, parse_design

if TYPE_CHECKING:
    from fullrank.data.split import Split

__all__ = ["CaseOutcomes", "observe", "observe_cases"]

Ints = NDArray[np.int64]
Array = NDArray[Any]

TIES = ("random", "optimistic", "pessimistic")
#: Users in a matrix product, and scores: large enough that the BLAS runs at its limit, small enough for the cache.
TILE_USERS, TILE_SCORES = 1024, 1 << 20
#: Items in the first of these products; each later one takes twice as many, to no more than that.
FIRST_ITEMS, MOST_ITEMS = 128, 4096
#: Items of no more bytes are copied into the order of their norms; others are gathered for every product.
COPIED_BYTES = 1 << 27
#: Scores asked at once of a model that is only known by its function: the shape is fixed, so batches cannot change a digit.
SCORES_PER_CALL, ROWS_PER_CALL = 1 << 18, 1024
#: Cases turned into counts at a time.
CASES_PER_PART = 1 << 18
_FIELDS = ("drawn", "hits", "n_items", "order")


@dataclass(frozen=True)
class CaseOutcomes:
    """What was seen of each case, in the order of the split's cases.

    ``drawn`` negatives were compared (0: every candidate), ``hits`` of them rank above the target; there are ``n_items``
    candidates (N′ = N − T + 1: the user's other targets are not among them), and the target is the ``order``-th of the
    user's ``targets``.
    """

    drawn: Ints
    hits: Ints
    n_items: Ints
    order: Ints
    targets: Ints
    design: Design
    seed: int

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
    item lists, used as it is, plus the targets. The other targets of a user are never negatives.

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
    run = _mapper(map)
    scorer = as_scorer(model, split, name=name)
    name = name or scorer.name
    _check_sizes(scorer, split, name)
    seed = _seed(rng) if previous is None else previous.seed
    listed, explicit = _candidates(candidates, split)
    cases = _Grouped.of(split, listed, explicit, previous)
    task = _Task.of(scorer, name, design, cases.largest_pool(), split.n_items, ties, seed)
    out = {key: np.zeros(len(cases.targets), dtype=np.int64) for key in _FIELDS}
    total = len(cases.users)
    done = np.zeros(total, dtype=bool)
    with Checkpoint.open(checkpoint, lambda: task.identity(split, listed, explicit, previous)) as kept:
        for first, last, arrays in kept.restore(total, cases.ptr):
            span = slice(cases.ptr[first], cases.ptr[last])
            for key, values in zip(_FIELDS, arrays, strict=True):
                out[key][span] = values
            done[first:last] = True
        blocks = list(cases.blocks(_unfinished(done, task.block_users(cases, batch), task.tile)))
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
    return CaseOutcomes(**out, targets=targets, design=task.design, seed=seed)


# -------------------------------------------------------------------------------------------------------- input


def _seed(rng: int | np.random.Generator | None) -> int:
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
    if split.n_items >= np.iinfo(np.int32).max:
        raise ValueError(f"`split` has {split.n_items:,} items; allowed are up to {np.iinfo(np.int32).max - 1:,}.")


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


# -------------------------------------------------------------------------------------------------------- blocks

Result = tuple[int, int, tuple[Array, ...]]


@dataclass(frozen=True)
class Block:
    """Users first..last−1 of the sorted test users: all a worker needs beside the model."""

    first: int
    last: int
    users: Ints
    ptr: Ints
    targets: Array
    lo: Ints
    hi: Ints
    listed: Array
    explicit: bool
    compared: Ints | None = None
    hits: Ints | None = None
    order: Ints | None = None

    def __getstate__(self) -> dict[str, Any]:
        # `listed` is shared by all blocks here; what travels to another process is this block's own part.
        state = dict(self.__dict__)
        sizes = self.hi - self.lo
        state["listed"] = np.concatenate(
            [np.zeros(0, dtype=self.listed.dtype), *(self.listed[a:b] for a, b in zip(self.lo, self.hi, strict=True))]
        )
        state["hi"] = np.cumsum(sizes)
        state["lo"] = state["hi"] - sizes
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@dataclass(frozen=True)
class _Grouped:
    """The split's cases sorted by user and target, with each user's listed items."""

    sorting: Ints | None
    users: Ints
    ptr: Ints
    targets: Array
    lo: Ints
    hi: Ints
    listed: Array
    explicit: bool
    n_items: int
    previous: CaseOutcomes | None

    @classmethod
    def of(cls, split: Split, listed: Any, explicit: bool, previous: CaseOutcomes | None) -> _Grouped:
        users, items = np.asarray(split.users, dtype=np.int64), np.asarray(split.items, dtype=np.int64)
        if previous is not None and len(previous) != len(users):
            raise ValueError(
                f"`previous` has {len(previous)} cases, the split {len(users)}: they must be the same cases."
            )
        sorting = None
        if not (np.diff(users) > 0).all():  # the common case, one target each in order of users, needs no sorting
            sorting = np.lexsort((items, users))
            users, items = users[sorting], items[sorting]
        starts = np.flatnonzero(np.diff(users, prepend=-1))
        unique = users[starts]
        indptr = listed.indptr.astype(np.int64, copy=False)
        return cls(
            sorting=sorting, users=unique, ptr=np.append(starts, len(users)).astype(np.int64),
            targets=items.astype(np.int32), lo=indptr[unique], hi=indptr[unique + 1],
            listed=listed.indices.astype(np.int32, copy=False), explicit=explicit, n_items=split.n_items, previous=previous,
        )  # fmt: skip

    def largest_pool(self) -> int:
        """The number of candidates that shares in a design are shares of."""
        if not self.explicit:
            return self.n_items
        return int((self.hi - self.lo).max()) + 1

    def to_case_order(self, values: Array) -> Array:
        if self.sorting is None:
            return values
        out = np.empty_like(values)
        out[self.sorting] = values
        return out

    def blocks(self, spans: Iterable[tuple[int, int]]) -> Iterator[Block]:
        before: dict[str, Ints] = {}
        if self.previous is not None:
            for key in ("compared", "hits", "order"):
                values = getattr(self.previous, key)
                before[key] = values if self.sorting is None else values[self.sorting]
        for first, last in spans:
            a, b = self.ptr[first], self.ptr[last]
            yield Block(
                first, last, self.users[first:last], self.ptr[first : last + 1] - a, self.targets[a:b],
                self.lo[first:last], self.hi[first:last], self.listed, self.explicit,
                **{key: values[a:b] for key, values in before.items()},
            )  # fmt: skip


def _unfinished(done: NDArray[np.bool_], size: int, tile: int) -> Iterator[tuple[int, int]]:
    """Runs of at most ``size`` users that are not done, cut at multiples of ``tile``."""
    size = -(-size // tile) * tile
    edges = np.flatnonzero(np.diff(np.concatenate(([True], done, [True])).astype(np.int8)))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        for start in range(int(first), int(last), size):
            yield start, min(start + size, int(last))


@dataclass(frozen=True, eq=False)
class _Task:
    """What is done with a block; called as ``task(block)``, here or in another process."""

    scorer: Any
    name: str
    design: Design
    stages: tuple[int, ...]
    stop_at: int
    n_items: int
    ties: str
    seed: int
    exhaustive: bool
    limit: int = 0  # a case that so many beat may be left there, unless it has no more than `few` negatives; 0: never
    few: int = 0

    @classmethod
    def of(cls, scorer: Any, name: str, design: Design, pool: int, n_items: int, ties: str, seed: int) -> _Task:
        if isinstance(design, Adaptive):
            design = design.resolve(pool)
        limit, few = (design.k, design.negatives) if isinstance(design, Top) else (0, 0)
        stages = (few,) if limit else design.stages(pool)
        stop = int(getattr(design, "stop_at", 0) or 0)
        return cls(
            scorer, name, design, tuple(int(m) for m in stages), stop, n_items, ties, seed,
            exhaustive=isinstance(design, Exhaustive), limit=limit, few=few,
        )  # fmt: skip

    @functools.cached_property
    def parts(self) -> tuple[_Task, _Task] | None:
        """Of ``Top``: the sample of every case, and the ranks to the limit; two tasks, whose results are :meth:`joined`."""
        if not isinstance(self.design, Top):
            return None
        sample = replace(self, design=self.design.beyond, limit=0, few=0)
        return sample, replace(self, design=Exhaustive(), stages=(ALL,), exhaustive=True)

    def joined(self, sample: Result, ranks: Result) -> Result:
        """The rank where it is within the limit, else what the sample says."""
        first, last, (drawn, hits, pool, order) = sample
        exact = ranks[2][1]
        known = (exact < self.limit) | (pool - 1 <= self.few)
        return first, last, (np.where(known, ALL, drawn), np.where(known, exact, hits), pool, order)

    @property
    def compiled(self) -> bool:
        """Whether the model's structure is known, so that compiled loops score it."""
        return isinstance(self.scorer, Factors | ItemItem | Table) or self._stored() is not None

    @property
    def tile(self) -> int:
        """Users asked of the model together. Fixed by model, design and catalogue: never by the batch."""
        if self.compiled:
            return 1
        if self.exhaustive or isinstance(self.scorer, Rows):
            return max(1, min(ROWS_PER_CALL, (1 << 22) // self.n_items))
        return max(1, min(ROWS_PER_CALL, SCORES_PER_CALL // (1 + (self.stages[0] or self.n_items))))

    def block_users(self, cases: _Grouped, batch: int | None) -> int:
        """Users per block: enough work to be worth a call, little enough to show progress and lose nothing."""
        if batch is not None:
            return int(batch)
        if not self.compiled:
            return self.tile
        each = (self.n_items // 16 if self.exhaustive else self.stages[0]) * len(cases.targets) / len(cases.users)
        return int(np.clip((1 << 23) / max(each, 1), 1024, 1 << 16))

    def identity(self, split: Split, listed: Any, explicit: bool, previous: CaseOutcomes | None) -> dict[str, Any]:
        """What a checkpoint must agree on before it is continued."""
        from fullrank.models.scorer import _digest

        users, items = (
            split.users[:: max(1, len(split.users) // 8)][:8],
            split.items[:: max(1, len(split.items) // 8)][:8],
        )
        probe = np.asarray(self.scorer.score(users, np.tile(items, (len(users), 1))), dtype=np.float64)
        parts = [] if previous is None else [previous.drawn, previous.hits]
        digest = getattr(self.scorer, "digest", None)
        return {
            "split": split.checksum,
            "design": str(self.design),
            "candidates": _digest(listed.indptr, listed.indices) if explicit else f"listed {listed.nnz}",
            "ties": self.ties,
            "seed": self.seed,
            "previous": _digest(*parts) if parts else None,
            "model": {
                "kind": type(self.scorer).__name__,
                "content": digest() if digest is not None else None,
                "scores": [float(f"{x:.6g}") if np.isfinite(x) else str(x) for x in probe.ravel()],
            },
        }

    def __call__(self, block: Block) -> Result:
        """What is seen of the block's cases: compared or 0, hits, candidates, order."""
        try:
            return self._seen(block)
        except Exception as error:  # a model's own error keeps its type and its words
            error.add_note(f"(model `{self.name}`, the block of users {block.users[0]} to {block.users[-1]})")
            raise

    def _seen(self, block: Block) -> Result:
        if self.parts is not None:
            sample, ranks = self.parts
            return self.joined(sample._seen(block), ranks._seen(block))
        state = _State.of(self, block)
        if self.compiled:
            factors = isinstance(self.scorer, Factors) and self.scorer.users.shape[1] > 0
            if self.exhaustive and factors and not block.explicit:
                _by_products(self, state)
            else:
                _by_structure(self, state)
        elif self.exhaustive or isinstance(self.scorer, Rows):
            _by_rows(self, state)
        else:
            _by_pairs(self, state)
        state.complain(self.name)
        drawn = np.where(not self.design.replace and state.compared == state.pool - 1, ALL, state.compared)
        return block.first, block.last, (drawn, state.hits, state.pool, state.order)

    def _stored(self) -> Array | None:
        return getattr(self.scorer.rows, "matrix", None) if isinstance(self.scorer, Rows) else None


@dataclass(frozen=True)
class _State:
    """A block on its way: the kernels' view of the cases, the rules, and what was seen so far."""

    cases: Any
    rules: Any
    compared: Ints
    hits: Ints
    pool: Ints
    order: Ints
    status: Array

    @classmethod
    def of(cls, task: _Task, block: Block) -> _State:
        from fullrank.ranks import kernels as k

        n = len(block.targets)
        ties = {"random": k.RANDOM, "optimistic": k.OPTIMISTIC, "pessimistic": k.PESSIMISTIC}[task.ties]
        tie_seed, draw_seed = np.random.SeedSequence(task.seed).generate_state(2, np.uint64)
        stages = _fixed(np.array(task.stages, dtype=np.int64))
        rules = k.Rules(stages, task.stop_at, bool(task.design.replace), ties, tie_seed, draw_seed)
        users = _fixed(block.users)
        cases = k.Cases(
            users, users, _fixed(block.ptr), _fixed(block.targets), _fixed(block.lo), _fixed(block.hi),
            _fixed(block.listed), block.explicit, task.n_items,
            int((block.hi - block.lo + np.diff(block.ptr)).max()), int(np.diff(block.ptr).max()),
        )  # fmt: skip
        return cls(
            cases, rules,
            np.zeros(n, dtype=np.int64) if block.compared is None else block.compared.copy(),
            np.zeros(n, dtype=np.int64) if block.hits is None else block.hits.copy(),
            np.zeros(n, dtype=np.int64),
            np.ones(n, dtype=np.int64) if block.order is None else block.order.copy(),
            np.zeros(len(block.users), dtype=np.int8),
        )  # fmt: skip

    def complain(self, name: str) -> None:
        """One sentence about the first user with whom something is wrong."""
        from fullrank.ranks import kernels as k

        wrong = np.flatnonzero(self.status)
        if not len(wrong):
            return
        user = int(self.cases.users[wrong[0]])
        more = f" (and {len(wrong) - 1} more in this block)" if len(wrong) > 1 else ""
        if self.status[wrong[0]] == k.NO_CANDIDATE:
            raise ValueError(
                f"user {user}{more} has no candidate left beside the target: leave such users out of the split."
            )
        raise ValueError(f"model `{name}` gave a score that is not a number (NaN) for user {user}{more}.")


# -------------------------------------------------------------------------------------------------------- running


def _threads() -> int:
    try:
        return max(1, int(os.environ["NUMBA_NUM_THREADS"]))
    except (KeyError, ValueError):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


class _Team:
    """As many threads as there are cores, this one included, that share out spans of work.

    Plain threads around kernels that release the GIL: unlike a parallel runtime they survive forks, nest in any ``map``
    and cost no compilation.
    """

    def __init__(self) -> None:
        self.size = _threads()

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


class _OneBlasThread:
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


_ONE_BLAS_THREAD = _OneBlasThread()


def _fixed(array: Array) -> Array:
    """A read-only view: memory-mapped and ordinary arrays are then the same type to the compiler."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _structure(task: _Task) -> tuple[Any, Array]:
    """The model as the kernels take it, and an empty working row."""
    from fullrank.ranks import kernels as k

    scorer, n = task.scorer, task.n_items
    stored = task._stored()
    if stored is not None:
        return k.RowModel(_fixed(stored)), np.zeros(0, dtype=stored.dtype)
    if isinstance(scorer, Factors):
        kind = scorer.items.dtype
        bias = np.zeros(0, dtype=kind) if scorer.bias is None else scorer.bias
        return k.FactorModel(_fixed(scorer.users), _fixed(scorer.items), _fixed(bias)), np.zeros(0, dtype=kind)
    if isinstance(scorer, Table):
        return k.SparseRowModel(*_csr_parts(scorer.scores)), np.full(scorer.n_items, -np.inf, dtype=scorer.scores.dtype)
    history = _csr_parts(scorer.history)
    if sp.issparse(scorer.similarity):
        model = k.SparseItemModel(*history, *_csr_parts(scorer.similarity))
        return model, np.zeros(max(n, scorer.n_items), dtype=scorer.similarity.dtype)
    return k.DenseItemModel(*history, _fixed(scorer.similarity)), np.zeros(0, dtype=scorer.similarity.dtype)


def _csr_parts(matrix: Any) -> tuple[Array, Array, Array]:
    ptr, index = matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False)
    return _fixed(ptr), _fixed(index), _fixed(matrix.data)


def _scratch(task: _Task, state: _State, row: Array) -> Any:
    drawn_once = not (task.design.replace or task.exhaustive)
    return scratch_for(state.cases, row, task.n_items, task.n_items if drawn_once else 0)


def scratch_for(cases: Any, row: Array, n: int = 0, cards: int = 0) -> Any:
    """What one thread works on, for ``n`` items of which ``cards`` are drawn without replacement.

    Pages that are never touched cost nothing, so what one design does not need is harmless.
    """
    from fullrank.ranks import kernels as k

    return k.Scratch(
        row=row.copy(),
        places=np.empty(max(cases.longest, n // 4 + 1), dtype=np.int32),
        marks=np.zeros(n // 64 + 1, dtype=np.uint64),
        deck=np.arange(cards, dtype=np.int32),
        moved=np.empty(cards, dtype=np.int32),
        ids=np.empty(max(k.CHUNK, cases.most), dtype=np.int64),
        scores=np.empty(k.CHUNK, dtype=row.dtype),
        target_scores=np.empty(cases.most, dtype=row.dtype),
    )


def _run_kernel(task: _Task, state: _State, model: Any, row: Array) -> None:
    from fullrank.ranks import kernels as k

    seen = (state.compared, state.hits, state.pool, state.order, state.status)
    kernel = k.exhaust if task.exhaustive else k.sample

    def run(spans: Iterator[tuple[int, int]]) -> None:
        scratch = _scratch(task, state, row)
        for first, last in spans:
            kernel(model, state.cases, state.rules, first, last, scratch, *seen)

    _Team().share(len(state.cases.users), run, least=1 if task.exhaustive else 64)


def _by_structure(task: _Task, state: _State) -> None:
    """Factors, item-item models and stored scores: compiled loops over gathered items or rows."""
    _run_kernel(task, state, *_structure(task))


# by task, not by model: one whose arrays are trained on in place is measured again at the next call
_BOUNDS: weakref.WeakKeyDictionary[_Task, _ByNorm] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class _ByNorm:
    """Items by falling norm."""

    bound: Array  # on the norm of each item
    order: Array  # the items
    place: Array  # of each item in that order
    copied: Array | None

    def take(self, items: Array, first: int, last: int, room: Array) -> Array:
        """The factors of the items at these places."""
        if self.copied is not None:
            return self.copied[first:last]
        return np.take(items, self.order[first:last], axis=0, out=room[: last - first], mode="clip")


def _norms(team: _Team, matrix: Array) -> Array:
    from fullrank.ranks import kernels as k

    out = np.empty(len(matrix))

    def run(spans: Iterator[tuple[int, int]]) -> None:
        for first, last in spans:
            k.row_norms(_fixed(matrix), first, last, out)

    team.share(len(matrix), run, least=1024)
    return out


def _by_norm(team: _Team, task: _Task) -> _ByNorm:
    found, scorer, n = _BOUNDS.get(task), task.scorer, task.n_items
    if found is None:
        bound = _norms(team, scorer.items[:n])
        if scorer.bias is not None:
            bound = np.hypot(bound, scorer.bias[:n])
        order = np.argsort(-bound, kind="stable")
        place = np.empty(n, dtype=np.int32)
        place[order] = np.arange(n, dtype=np.int32)
        copied = scorer.items[order] if scorer.items[:n].nbytes <= COPIED_BYTES else None
        found = _BOUNDS[task] = _ByNorm(bound, order, place, copied)
    return found


def _by_products(task: _Task, state: _State) -> None:
    """Factors, every candidate: matrix products in tiles, counted while they are in the cache.

    Items come by falling norm: rounding is then bounded tightly in each tile, and cases are closed early (`count_tile`).
    """
    if not _count_products(task, state, _Team()):
        _by_structure(task, state)


def _count_products(task: _Task, state: _State, team: _Team) -> bool:
    from fullrank.ranks import kernels as k

    model, work = _structure(task)
    cases, kind, width = state.cases, model.items.dtype, model.items.shape[1]
    n = len(cases.users)
    rows = np.ascontiguousarray(model.users[cases.users])
    user_bound = _norms(team, rows)
    items = _by_norm(team, task)
    item_bound, order = items.bound, items.order
    if task.scorer.bias is not None:
        user_bound = np.hypot(user_bound, 1.0)
    if not float(user_bound.max()) * float(item_bound.max()) < float(np.finfo(kind).max) / 16:
        return False  # overflow, infinities or NaN: item by item, where each score is looked at
    # A dot product of n terms in floating point is within n·u·‖user‖‖item‖ of the true one (u: unit roundoff) in any order
    # of summation, and within (n/8 + 11)·u in that of `dot_rows`; the rest covers the bias and the bounds' own rounding.
    unit = (width + width / 8 + 24) * float(np.finfo(kind).eps) / 2
    user_bound *= unit
    out_ptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(cases.hi - cases.lo + np.diff(cases.ptr), out=out_ptr[1:])
    out = np.empty(out_ptr[-1], dtype=np.int32)
    cursor = out_ptr[:-1].copy()
    scores = np.empty(len(state.hits), dtype=kind)
    closed = np.zeros(len(state.hits), dtype=bool)
    limit = np.full(len(state.hits), task.n_items)
    state.hits[:] = 0
    seen = (state.compared, state.pool, state.order, state.status)

    def start(spans: Iterator[tuple[int, int]]) -> None:
        scratch = _scratch(task, state, work)
        for first, last in spans:
            k.prepare(model, cases, state.rules, first, last, scratch, out_ptr, out, scores, *seen)
            k.by_norm(items.place, first, last, out_ptr, out)

    team.share(n, start)
    if state.status.any():
        return True
    if task.limit:
        limit[state.pool - 1 > task.few] = task.limit
    turns = -(-n // (team.size * TILE_USERS))
    tall = -(-n // (team.size * turns))  # every thread has the same number of tiles, all of one height

    def count(spans: Iterator[tuple[int, int]]) -> None:
        buffer = np.empty(max(TILE_SCORES, 64 * tall), dtype=kind)
        room = np.empty((MOST_ITEMS, width), dtype=kind)
        for first, last in spans:
            group, left = np.arange(first, last), rows[first:last]
            place, wide = 0, FIRST_ITEMS
            while len(group) and place < task.n_items:
                wide = min(wide, task.n_items - place, max(TILE_SCORES // len(group), 64))
                right = items.take(model.items, place, place + wide, room)
                tile = buffer[: len(group) * wide].reshape(len(group), wide)
                np.dot(left, right.T, out=tile)
                rest = item_bound[order[place + wide]] if place + wide < task.n_items else 0.0
                going = np.empty(len(group), dtype=bool)
                k.count_tile(
                    model, cases, state.rules, group, tile, place, order, cursor, out_ptr, out, scores, user_bound,
                    item_bound, item_bound[order[place]], (1 / unit + 2) * rest, limit, state.hits, closed, going,
                )  # fmt: skip
                if not going.all():
                    group, left = group[going], left[going]
                place, wide = place + wide, min(2 * wide, MOST_ITEMS)

    with _ONE_BLAS_THREAD as alone:
        if alone:
            team.share(n, count, step=tall)
        else:  # the products themselves use all threads
            count(iter([(u, min(u + tall, n)) for u in range(0, n, tall)]))
    return True


def _tiles(task: _Task, n: int) -> Iterator[tuple[int, int]]:
    for first in range(0, n, task.tile):
        yield first, min(first + task.tile, n)


def _by_rows(task: _Task, state: _State) -> None:
    """Models that give whole rows, and any model when every candidate is compared."""
    from fullrank.ranks import kernels as k

    catalogue = np.arange(task.n_items, dtype=np.int64)
    for first, last in _tiles(task, len(state.cases.users)):
        users = np.array(state.cases.users[first:last])
        if isinstance(task.scorer, Rows):
            scores = _floats(task.scorer.rows(users))
            if scores.ndim != 2 or scores.shape[0] != len(users) or scores.shape[1] < task.n_items:
                raise ValueError(
                    f"model `{task.name}` returned rows of shape {scores.shape} for {len(users)} users; needed is one "
                    f"score for each of {task.n_items} items."
                )
        else:
            scores = _floats(task.scorer.score(users, np.tile(catalogue, (len(users), 1))))
        part = _part(state, first, last)
        part = replace(part, cases=part.cases._replace(rows=_fixed(np.arange(last - first))))
        _run_kernel(task, part, k.RowModel(_fixed(scores)), np.zeros(0, dtype=scores.dtype))


def _part(state: _State, first: int, last: int) -> _State:
    """Users first..last−1 of a block; what is seen of them lands in the block."""
    cases = state.cases
    a, b = cases.ptr[first], cases.ptr[last]
    return _State(
        cases._replace(
            users=cases.users[first:last], rows=cases.rows[first:last], ptr=_fixed(cases.ptr[first : last + 1] - a),
            targets=cases.targets[a:b], lo=cases.lo[first:last], hi=cases.hi[first:last],
        ),
        state.rules, state.compared[a:b], state.hits[a:b], state.pool[a:b], state.order[a:b], state.status[first:last],
    )  # fmt: skip


def _by_pairs(task: _Task, state: _State) -> None:
    """Models known by their function only: the target and its negatives, row by row, stage by stage."""
    scratch = _scratch(task, state, np.zeros(0))
    for first, last in _tiles(task, len(state.cases.users)):
        _pairs_of_tile(task, _part(state, first, last), scratch)


def _pairs_of_tile(task: _Task, state: _State, scratch: Any) -> None:
    from fullrank.ranks import kernels as k

    cases, rules = state.cases, state.rules
    group = np.repeat(np.arange(len(cases.users)), np.diff(cases.ptr))
    new = state.compared == 0
    k.fill_draws(  # no draws yet: the size of each pool
        cases, rules, np.arange(len(group)), group, *(np.zeros(len(group), dtype=np.int64),) * 2, scratch,
        state.pool, np.empty((len(group), 1), dtype=np.int64), state.status,
    )  # fmt: skip
    if state.status.any():
        return
    target_scores = np.full(len(group), np.nan)
    resting = np.zeros(len(group), dtype=bool)
    for stage in task.stages:
        goal = np.full(len(group), stage) if rules.replace else np.minimum(stage or task.n_items, state.pool - 1)
        while True:
            rows = np.flatnonzero(~resting & (state.compared < goal))
            if not len(rows):
                break
            left = (goal - state.compared)[rows]
            width = int(min(left.max(), max(SCORES_PER_CALL // len(rows), k.CHUNK)))
            items = np.empty((len(rows), width + 1), dtype=np.int64)
            sizes = np.minimum(left, width)
            begin = state.compared[rows]
            k.fill_draws(
                cases, rules, rows, group[rows], begin, begin + sizes, scratch, state.pool, items, state.status
            )
            scores = _floats(task.scorer.score(np.array(cases.users[group[rows]]), items))
            k.count_batch(
                cases, rules, rows, group[rows], sizes, _fixed(items), _fixed(scores), state.hits, state.status
            )
            target_scores[rows] = scores[:, 0]
            if state.status.any():
                return
            state.compared[rows] += sizes
        resting |= (state.compared == goal) & (state.hits >= task.stop_at)
    if new.all():  # a case taken up again has its order already
        k.order_targets(cases, rules, scratch, target_scores, state.order)


def _floats(scores: Any) -> Array:
    from fullrank.models.scorer import _numpy

    array = _numpy(scores)
    if array.dtype not in (np.float32, np.float64):
        if array.dtype.kind not in "fiub":
            raise TypeError(f"scores are of type {array.dtype}; numbers were expected.")
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    return np.ascontiguousarray(array)
