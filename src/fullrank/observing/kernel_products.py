"""The inner loops of :mod:`fullrank.observing.products`: factor models by matrix products, to the last tie.

Matrix products only sort out the clear cases: what lies within their rounding error of the target's score is scored again
by :func:`dot_rows` (see :func:`count_tile`), so ranks do not depend on the BLAS or its threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fullrank.observing.compiled import CHUNK, NAN_SCORE, NO_CANDIDATE, Array, helper, kernel
from fullrank.observing.kernel_draws import list_negatives
from fullrank.observing.kernel_scores import dot_rows, score_items
from fullrank.observing.kernel_ties import beats, place_targets, tally, user_key

__all__ = ["by_norm", "count_tile", "prepare", "row_norms"]

#: Scores looked at more closely where some of a chunk are too near to the target's.
FINE = 64


@kernel
def row_norms(matrix: Array, first: int, last: int, out: Array) -> None:
    """Euclidean norms of rows first..last−1, a little above the true ones (a bound must not be rounded down)."""
    slack = 1 + (matrix.shape[1] + 8) * 1.2e-7
    for i in range(first, last):
        total = np.float64(dot_rows(matrix, i, matrix, i))
        if total < 1e-30:  # squares may have vanished
            total = 0.0
            for k in range(matrix.shape[1]):
                total += np.float64(matrix[i, k]) * np.float64(matrix[i, k])
        out[i] = np.sqrt(total) * slack


@kernel
def prepare(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any, out_ptr: Array,
    out: Array, target_scores: Array, compared: Array, pool: Array, order: Array, status: Array,
) -> None:  # fmt: skip
    """What :func:`count_tile` needs to know of the users first..last−1: who is left out, and the targets' scores.

    ``out[out_ptr[g]:…]`` receives the left-out items, ``status`` what is wrong.
    """
    users, model_rows, ptr, targets, lo, hi = cases.users, cases.rows, cases.ptr, cases.targets, cases.lo, cases.hi
    listed, explicit, n_items = cases.listed, cases.explicit, cases.n_items
    tie_seed = rules.tie_seed
    work, ids, scores = scratch.row, scratch.ids, scratch.target_scores
    for g in range(first, last):
        places = out[out_ptr[g] : out_ptr[g + 1]]
        n_negatives, n = list_negatives(listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], explicit, n_items, places)
        for k in range(n, len(places)):
            places[k] = 2147483647  # an id no tile reaches
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            continue
        b, e = ptr[g], ptr[g + 1]
        key = user_key(tie_seed, users[g])
        for c in range(b, e):
            ids[c - b] = targets[c]
        score_items(model, model_rows[g], work, ids, e - b, scores)
        if not place_targets(scores, ids, e - b, key, order, b):
            status[g] = NAN_SCORE
        for c in range(b, e):
            target_scores[c] = scores[c - b]
            compared[c], pool[c] = n_negatives, n_negatives + 1


@kernel
def by_norm(place: Array, first: int, last: int, ptr: Array, out: Array) -> None:
    """Turn the left-out items of the users first..last−1 into places, in ascending order (a heap: no room is needed)."""
    for g in range(first, last):
        part = out[ptr[g] : ptr[g + 1]]
        size = len(part)
        for k in range(size):
            if part[k] < len(place):
                part[k] = place[part[k]]
        for start in range(size // 2 - 1, -1, -1):
            _sink(part, start, size)
        for end in range(size - 1, 0, -1):
            part[0], part[end] = part[end], part[0]
            _sink(part, 0, end)


@helper
def _sink(heap: Array, root: int, size: int) -> None:
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[root] >= heap[child]:
            return
        heap[root], heap[child] = heap[child], heap[root]
        root = child


@kernel
def count_tile(
    model: Any, cases: Any, rules: Any, group: Array, tile: Array, place: int, items: Array, cursor: Array, out_ptr: Array,
    out: Array, target_scores: Array, user_bound: Array, item_bound: Array, tile_bound: float, later: float, limit: Array,
    hits: Array, closed: Array, going: Array,
) -> None:  # fmt: skip
    """Count in a tile of a matrix product: the users ``group``; ``items[place]``, ``items[place+1]``, …

    The product rounds as the BLAS pleases. |product − score| ≤ user_bound · item_bound, so scores further from the
    target's than that are decided by the product, and the few others by :func:`dot_rows`: the same count as by
    :func:`exhaust`, to the last tie, whatever the BLAS. Tiles of a user come in ascending order of places; ``cursor`` is
    how far their left-out items have been crossed out.

    A case is closed when ``limit`` items beat its target, or when no later item can: their scores are at most
    user_bound · ``later``. ``going`` says whose cases are not all closed.
    """
    users, model_rows, ptr, targets = cases.users, cases.rows, cases.ptr, cases.targets
    ties, tie_seed = rules.ties, rules.tie_seed
    width, biased = tile.shape[1], len(model.bias) > 0
    outside = tile.dtype.type(-np.inf)
    tiny = 1e-37 if tile.itemsize == 4 else 1e-300  # what products that vanish can add up to, and more
    for r in range(tile.shape[0]):
        g = group[r]
        row = tile[r]
        if biased:
            for k in range(width):
                row[k] += model.bias[items[place + k]]
        at, end = cursor[g], out_ptr[g + 1]
        while at < end and out[at] < place + width:
            row[out[at] - place] = outside
            at += 1
        cursor[g] = at
        slack = tile.dtype.type(user_bound[g] * tile_bound + tiny)
        going[r] = False
        for c in range(ptr[g], ptr[g + 1]):
            if closed[c]:
                continue
            score = target_scores[c]
            low, high = score - slack, score + slack
            for k in range(0, width, CHUNK):
                stop = min(k + CHUNK, width)
                above, near = tally(row[k:stop], low, high)
                hits[c] += above
                if near == above:
                    continue
                key = user_key(tie_seed, users[g])
                for fine in range(k, stop, FINE):
                    part = row[fine : min(fine + FINE, stop)]
                    above, near = tally(part, low, high)
                    if near == above:
                        continue
                    for n in range(len(part)):
                        s, i = part[n], items[place + fine + n]
                        if low <= s <= high:
                            bound = user_bound[g] * item_bound[i]
                            if bound > 0 and abs(s - score) <= bound + tiny:
                                s = dot_rows(model.users, model_rows[g], model.items, i)
                                if biased:
                                    s += model.bias[i]
                            hits[c] += beats(s, score, key, i, targets[c], ties)
            closed[c] = hits[c] >= limit[c] or score > user_bound[g] * later + tiny
            going[r] |= not closed[c]
