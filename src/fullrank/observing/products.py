"""Factor models against every candidate: matrix products in tiles, items by falling norm, cases closed early."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fullrank._threads import ONE_BLAS_THREAD, usable_threads
from fullrank._types import Array
from fullrank.observing.kernel_inputs import State, run_kernel, structure
from fullrank.observing.kernel_inputs import kernels as k
from fullrank.observing.threads import share_out

if TYPE_CHECKING:
    from fullrank.observing.task import Task

#: Users in a matrix product, and scores: large enough that the BLAS runs at its limit, small enough for the cache.
TILE_USERS, TILE_SCORES = 1024, 1 << 20
#: Items in the first of these products; each later one takes twice as many, to no more than that.
FIRST_ITEMS, MOST_ITEMS = 128, 4096
#: Items of no more bytes are copied into the order of their norms; others are gathered for every product.
COPIED_BYTES = 1 << 27
# by task, not by model: one whose arrays are trained on in place is measured again at the next call
_BOUNDS: weakref.WeakKeyDictionary[Task, tuple[Array, Array, Array, Array | None]] = weakref.WeakKeyDictionary()


def _norms(matrix: Array) -> Array:
    """Euclidean norms of the rows, a little above the true ones (a bound must not be rounded down)."""
    total = np.einsum("ij,ij->i", matrix, matrix).astype(np.float64)
    small = total < 1e-30  # squares may have vanished
    total[small] = np.square(matrix[small], dtype=np.float64).sum(axis=1)
    return np.asarray(np.sqrt(total) * (1 + (matrix.shape[1] + 8) * 1.2e-7))


def _by_norm(task: Task) -> tuple[Array, Array, Array, Array | None]:
    """A bound on the norm of each item, the items by falling norm, the place of each in that order, and the copied items."""
    found, scorer, n = _BOUNDS.get(task), task.scorer, task.n_items
    if found is None:
        bound = _norms(scorer.items[:n])
        if scorer.bias is not None:
            bound = np.hypot(bound, scorer.bias[:n])
        order = np.argsort(-bound, kind="stable")
        place = np.empty(n, dtype=np.int32)
        place[order] = np.arange(n, dtype=np.int32)
        copied = scorer.items[order] if scorer.items[:n].nbytes <= COPIED_BYTES else None
        found = _BOUNDS[task] = bound, order, place, copied
    return found


def _left_out(cases: Any, place: Array) -> tuple[Array, Array]:
    """The places, ascending, of each user's listed items and targets, which are no candidates: where they begin, and all."""
    listed, targets = cases.hi - cases.lo, np.diff(cases.ptr)
    ptr = np.append(0, np.cumsum(listed + targets))
    out = np.empty(ptr[-1], dtype=np.int32)

    def run(spans: Iterator[tuple[int, int]]) -> None:
        for first, last in spans:
            size, own = listed[first:last, None], targets[first:last, None]
            at = np.arange(size.max())
            left = np.full((last - first, len(at) + own.max()), len(place), dtype=np.int32)  # a row per user
            left[:, : len(at)][at < size] = place[cases.listed[(cases.lo[first:last, None] + at)[at < size]]]
            left[:, len(at) :][np.arange(own.max()) < own] = place[cases.targets[cases.ptr[first] : cases.ptr[last]]]
            left.sort(axis=1)
            out[ptr[first] : ptr[last]] = left[np.arange(left.shape[1]) < size + own]

    share_out(len(listed), run, step=64)
    return ptr, out


def count_products(task: Task, state: State) -> bool:
    """Count in tiles of matrix products, while they are in the cache; false where scores could overflow.

    Items come by falling norm: rounding is then bounded tightly in each tile, and cases are closed early (`count_tile`).
    """
    model, work = structure(task)
    cases, n, kind, width = state.cases, len(state.cases.users), model.items.dtype, model.items.shape[1]
    rows = np.ascontiguousarray(model.users[cases.users])
    user_bound = _norms(rows)
    item_bound, order, places, copied = _by_norm(task)
    if task.scorer.bias is not None:
        user_bound = np.hypot(user_bound, 1.0)
    if not float(user_bound.max()) * float(item_bound.max()) < float(np.finfo(kind).max) / 16:
        return False  # overflow, infinities or NaN: item by item, where each score is looked at
    # A dot product of n terms in floating point is within n·u·‖user‖‖item‖ of the true one (u: unit roundoff) in any order
    # of summation, and within (n/8 + 11)·u in that of `dot_rows`; the rest covers the bias and the bounds' own rounding.
    unit = (width + width / 8 + 24) * float(np.finfo(kind).eps) / 2
    user_bound *= unit
    # first no item at all: the scores of the targets, their order, and the sizes of the pools
    scores = run_kernel(task, replace(state, cases=cases._replace(high=0)), (model, work))
    if state.status.any():
        return True
    out_ptr, out = _left_out(cases, places)
    cursor = out_ptr[:-1].copy()
    closed = np.zeros(len(state.hits), dtype=bool)
    limit = np.where((task.limit > 0) & (state.pool - 1 > task.few), task.limit, task.n_items)
    threads = usable_threads()
    turns = -(-n // (threads * TILE_USERS))
    tall = -(-n // (threads * turns))  # every thread has the same number of tiles, all of one height

    def count(spans: Iterator[tuple[int, int]]) -> None:
        buffer = np.empty(max(TILE_SCORES, 64 * tall), dtype=kind)
        room = np.empty((MOST_ITEMS, width), dtype=kind)
        for first, last in spans:
            group, left = np.arange(first, last), rows[first:last]
            place, wide = 0, FIRST_ITEMS
            while len(group) and place < task.n_items:
                wide = min(wide, task.n_items - place, max(TILE_SCORES // len(group), 64))
                here = slice(place, place + wide)
                right = room[:wide] if copied is None else copied[here]
                if copied is None:
                    np.take(model.items, order[here], axis=0, out=right, mode="clip")
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

    with ONE_BLAS_THREAD:
        share_out(n, count, step=tall)
    return True
