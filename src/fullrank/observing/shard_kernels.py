"""The inner loops of :mod:`fullrank.observing.shards`: those of `kernels`, for a range of items.

Targets are scored elsewhere.

Arrays have the shape of the whole catalogue; of the items, only the rows of the range are touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fullrank.observing.compiled import CHUNK, NAN_SCORE, Array, kernel
from fullrank.observing.kernel_draws import list_negatives
from fullrank.observing.kernel_scores import close_user, open_user, score_items, score_range
from fullrank.observing.kernel_ties import any_nan, count_above, user_key

__all__ = ["count_in_range", "exhaust_range", "target_scores"]


@kernel
def target_scores(model: Any, cases: Any, scratch: Any, low: int, high: int, out: Array) -> None:
    """The scores of targets that are in the range; the others are left alone."""
    ptr, targets, rows = cases.ptr, cases.targets, cases.rows
    work, ids, scores = scratch.row, scratch.ids, scratch.scores
    for g in range(len(rows)):
        for c in range(ptr[g], ptr[g + 1]):
            if low <= targets[c] < high:
                ids[0] = targets[c]
                score_items(model, rows[g], work, ids, 1, scores)
                out[c] = scores[0]


@kernel
def exhaust_range(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any, low: int, high: int,
    target_scores: Array, hits: Array, status: Array,
) -> None:  # fmt: skip
    """How many candidates in the range beat each target, for the users first..last−1."""
    users, rows, ptr, targets, lo, hi = cases.users, cases.rows, cases.ptr, cases.targets, cases.lo, cases.hi
    listed, explicit, n_items = cases.listed, cases.explicit, cases.n_items
    ties, tie_seed = rules.ties, rules.tie_seed
    work, places, ids, scores = scratch.row, scratch.places, scratch.ids, scratch.scores
    for g in range(first, last):
        _, n_places = list_negatives(listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], explicit, n_items, places)
        key = user_key(tie_seed, users[g])
        open_user(model, rows[g], work)
        at = 0
        while at < n_places and places[at] < low:
            at += 1
        k = low
        while k < high:
            n = 0
            if explicit:
                while n < CHUNK and at < n_places and places[at] < high:
                    ids[n] = places[at]
                    n += 1
                    at += 1
                if n == 0:
                    break
                score_items(model, rows[g], work, ids, n, scores)
            else:
                n = min(CHUNK, high - k)
                score_range(model, rows[g], work, k, n, scores)
            if any_nan(scores, n):
                status[g] = NAN_SCORE
            if not explicit:
                while at < n_places and places[at] < k + n:
                    scores[places[at] - k] = np.nan  # no candidate: compares as neither above nor equal
                    at += 1
            for c in range(ptr[g], ptr[g + 1]):
                first_id = -1 if explicit else k
                hits[c] += count_above(scores, ids, first_id, n, target_scores[c], key, np.int64(targets[c]), ties)
            if not explicit:
                k += n
        close_user(model, rows[g], work)


@kernel
def count_in_range(
    model: Any, cases: Any, rules: Any, rows: Array, groups: Array, sizes: Array, items: Array, low: int, high: int,
    target_scores: Array, scratch: Any, hits: Array, status: Array,
) -> None:  # fmt: skip
    """Add to ``hits`` how many of the ``sizes[k]`` ≤ CHUNK draws in row k are in the range and beat the target."""
    users, targets, model_rows = cases.users, cases.targets, cases.rows
    ties, tie_seed = rules.ties, rules.tie_seed
    work, ids, scores = scratch.row, scratch.ids, scratch.scores
    for k in range(len(rows)):
        c, g, n = rows[k], groups[k], 0
        for d in range(1, sizes[k] + 1):
            if low <= items[k, d] < high:
                ids[n] = items[k, d]
                n += 1
        score_items(model, model_rows[g], work, ids, n, scores)
        if any_nan(scores, n):
            status[g] = NAN_SCORE
        key = user_key(tie_seed, users[g])
        hits[c] += count_above(scores, ids, -1, n, target_scores[c], key, np.int64(targets[c]), ties)
