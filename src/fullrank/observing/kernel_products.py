"""The inner loops of :mod:`fullrank.observing.products`: factor models by matrix products, to the last tie.

Matrix products only sort out the clear cases: what lies within their rounding error of the target's score is scored again
by :func:`dot_rows` (see :func:`count_tile`), so ranks do not depend on the BLAS or its threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fullrank.observing.compiled import CHUNK, Array, kernel
from fullrank.observing.kernel_scores import dot_rows
from fullrank.observing.kernel_ties import beats, tally, user_key

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
def count_tile(
    model: Any, cases: Any, rules: Any, group: Array, tile: Array, place: int, items: Array, cursor: Array, out_ptr: Array,
    out: Array, target_scores: Array, user_bound: Array, item_bound: Array, tile_bound: float, later: float, limit: Array,
    hits: Array, closed: Array, going: Array,
) -> None:  # fmt: skip
    """Count in a tile of a matrix product: the users ``group``; ``items[place]``, ``items[place+1]``, …

    |product − score| ≤ user_bound · item_bound, so scores further from the target's than that are decided by the product,
    and the few others by :func:`dot_rows`: the same count as by :func:`exhaust`, to the last tie, whatever the BLAS. Tiles
    of a user come in ascending order of places; ``cursor`` is how far their left-out items have been crossed out.

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
