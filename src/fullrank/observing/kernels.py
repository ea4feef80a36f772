"""The inner loops of observing, compiled: what Python calls, for any model and design.

Three promises hold for everything that is compiled, each kept in one file: one order (`kernel_ties`), negatives that
depend on nothing but the case (`kernel_draws`), and one arithmetic of scores (`kernel_scores`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fullrank.observing.compiled import CHUNK, NAN_SCORE, NO_CANDIDATE, Array, Cases, Rules, Scratch, folded, kernel
from fullrank.observing.kernel_draws import draw_items, keep_range, list_negatives, mark_negatives, next_goal, unmark
from fullrank.observing.kernel_guided import mark_listed, score_matrix, score_rows
from fullrank.observing.kernel_products import count_tile, row_norms
from fullrank.observing.kernel_scores import (
    DenseItemModel,
    FactorModel,
    RowModel,
    SparseModel,
    announce_user,
    close_user,
    open_user,
    score_items,
    score_range,
)
from fullrank.observing.kernel_ties import (
    OPTIMISTIC,
    PESSIMISTIC,
    RANDOM,
    any_nan,
    beats,
    count_above,
    item_key,
    mix64,
    place_targets,
    user_key,
)

__all__ = [
    "CHUNK", "NAN_SCORE", "NO_CANDIDATE", "OPTIMISTIC", "PESSIMISTIC", "RANDOM", "Cases", "DenseItemModel", "FactorModel",
    "RowModel", "Rules", "Scratch", "SparseModel", "beats", "choose_courses", "count_batch", "count_tile",
    "exhaust", "fill_draws", "mark_listed", "next_goals", "open_cases", "order_targets", "row_norms", "sample",
    "score_matrix", "score_rows",
]  # fmt: skip


@kernel
def next_goals(cases: Any, rules: Any, compared: Array, hits: Array, pool: Array, out: Array) -> None:
    """:func:`next_goal` of every case."""
    stages, stop_at, replace, course = rules.stages, rules.stop_at, rules.replace, cases.course
    for c in range(len(out)):
        out[c] = next_goal(stages, stop_at, replace, course[c], compared[c], hits[c], pool[c] - 1)


@kernel
def choose_courses(cases: Any, rules: Any, bounds: Array, out: Array) -> None:
    """Which course each case goes through: the first whose entry in ``bounds`` is above a hash of the case, in 0..1."""
    users, ptr, targets, draw_seed = cases.users, cases.ptr, cases.targets, rules.draw_seed
    for g in range(len(users)):
        draws = user_key(draw_seed, users[g])
        for c in range(ptr[g], ptr[g + 1]):
            # the word before those that negatives are drawn with
            place = np.float64(mix64(item_key(draws, targets[c])) >> np.uint64(11)) / 9007199254740992.0
            out[c] = 0
            while out[c] < len(bounds) - 1 and place >= bounds[out[c]]:
                out[c] += 1


@folded
def score_targets(
    model: Any, row: int, work: Array, targets: Array, b: int, e: int, ids: Array, own: Array, scores: Array
) -> bool:  # fmt: skip
    """Score the targets b..e−1 of a user; return false if a score is not a number."""
    for c in range(b, e):
        ids[c - b] = targets[c]
    score_items(model, row, work, ids, e - b, own)
    for c in range(b, e):
        scores[c] = own[c - b]
    return not any_nan(own, e - b)


@kernel
def sample(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any, known: bool, target_scores: Array,
    compared: Array, hits: Array, pool: Array, status: Array,
) -> None:  # fmt: skip
    """Draw, score and count for the users first..last−1; ``known``: the scores of the targets come in.

    ``compared`` and ``hits`` come in as what each case has seen so far and go out as what it has seen when it rests.
    """
    users, model_rows, ptr, targets, lo, hi = cases.users, cases.rows, cases.ptr, cases.targets, cases.lo, cases.hi
    listed, explicit, n_items, low, high = cases.listed, cases.explicit, cases.n_items, cases.low, cases.high
    stages, stop_at, replace_in, ties, tie_seed = rules.stages, rules.stop_at, rules.replace, rules.ties, rules.tie_seed
    draw_seed, courses = rules.draw_seed, cases.course
    work, places, marks, deck, moved = scratch.row, scratch.places, scratch.marks, scratch.deck, scratch.moved
    ids, scores, own = scratch.ids, scratch.scores, scratch.target_scores
    for g in range(first, last):
        n_negatives, by_list = mark_negatives(
            listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], explicit, n_items, marks, places
        )
        size = n_negatives if by_list else n_items
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            break
        row, b, e = model_rows[g], ptr[g], ptr[g + 1]
        key = user_key(tie_seed, users[g])
        draws = user_key(draw_seed, users[g])
        if g + 1 < last:
            announce_user(model, model_rows[g + 1])
        open_user(model, row, work)
        if not known and not score_targets(model, row, work, targets, b, e, ids, own, target_scores):
            status[g] = NAN_SCORE
        for c in range(b, e):
            pool[c] = n_negatives + 1
            target, score = np.int64(targets[c]), target_scores[c]
            stream = item_key(draws, target)
            done, beaten = compared[c], hits[c]
            replace = replace_in[courses[c]]
            k, dealt = done if replace else 0, 0  # without replacement, cards dealt before are dealt again, unscored
            while True:
                goal = next_goal(stages, stop_at, replace_in, courses[c], done, beaten, n_negatives)
                if goal <= done:
                    break
                while done < goal:
                    stop = min(done if k < done else goal, k + CHUNK)
                    dealt = draw_items(stream, k, stop, dealt, replace, by_list, size, places, marks, deck, moved, ids)
                    if k == done:
                        n = stop - k
                        if low > 0 or high < n_items:
                            n = keep_range(ids, n, low, high)
                        score_items(model, row, work, ids, n, scores)
                        if any_nan(scores, n):
                            status[g] = NAN_SCORE
                        beaten += count_above(scores, ids, -1, n, score, key, target, ties)
                        done = stop
                    k = stop
            compared[c], hits[c] = done, beaten
            for d in range(dealt):
                deck[moved[d]] = moved[d]
        close_user(model, row, work)
        if not explicit:
            unmark(listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], marks)


@kernel
def open_cases(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any, known: bool, target_scores: Array,
    compared: Array, hits: Array, pool: Array, status: Array,
) -> None:  # fmt: skip
    """Do what :func:`exhaust` does before it compares anything: score the targets of a user, and count the candidates."""
    model_rows, ptr, targets, lo, hi = cases.rows, cases.ptr, cases.targets, cases.lo, cases.hi
    listed, explicit, n_items = cases.listed, cases.explicit, cases.n_items
    work, places, ids, own = scratch.row, scratch.places, scratch.ids, scratch.target_scores
    for g in range(first, last):
        row, b, e = model_rows[g], ptr[g], ptr[g + 1]
        n_negatives = list_negatives(listed, lo[g], hi[g], targets, b, e, explicit, n_items, places)[0]
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            continue
        open_user(model, row, work)
        if not known and not score_targets(model, row, work, targets, b, e, ids, own, target_scores):
            status[g] = NAN_SCORE
        for c in range(b, e):
            compared[c], hits[c], pool[c] = n_negatives, 0, n_negatives + 1
        close_user(model, row, work)


@kernel
def exhaust(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any, known: bool, target_scores: Array,
    compared: Array, hits: Array, pool: Array, status: Array,
) -> None:  # fmt: skip
    """Compare every candidate of the users first..last−1; ``known`` as in :func:`sample`."""
    users, model_rows, ptr, targets, lo, hi = cases.users, cases.rows, cases.ptr, cases.targets, cases.lo, cases.hi
    listed, explicit, n_items = cases.listed, cases.explicit, cases.n_items
    low, high, ties, tie_seed = cases.low, min(cases.high, n_items), rules.ties, rules.tie_seed
    work, places, ids = scratch.row, scratch.places, scratch.ids
    scores, own = scratch.scores, scratch.target_scores
    for g in range(first, last):
        n_negatives, n_places = list_negatives(
            listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], explicit, n_items, places
        )
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            continue
        row, b, e = model_rows[g], ptr[g], ptr[g + 1]
        key = user_key(tie_seed, users[g])
        open_user(model, row, work)
        if not known and not score_targets(model, row, work, targets, b, e, ids, own, target_scores):
            status[g] = NAN_SCORE
        for c in range(b, e):
            compared[c], hits[c], pool[c] = n_negatives, 0, n_negatives + 1
        at, k = 0, low
        while at < n_places and places[at] < low:
            at += 1
        while k < high:
            n = 0
            if explicit:
                while n < CHUNK and at < n_places and places[at] < high:
                    ids[n] = places[at]
                    n, at = n + 1, at + 1
                if n == 0:
                    break
                score_items(model, row, work, ids, n, scores)
            else:
                n = min(CHUNK, high - k)
                score_range(model, row, work, k, n, scores)
            if any_nan(scores, n):
                status[g] = NAN_SCORE
            if not explicit:
                while at < n_places and places[at] < k + n:
                    scores[places[at] - k] = np.nan  # no candidate: compares as neither above nor equal
                    at += 1
            for c in range(b, e):
                first_id = -1 if explicit else k
                hits[c] += count_above(scores, ids, first_id, n, target_scores[c], key, np.int64(targets[c]), ties)
            k += 0 if explicit else n
        close_user(model, row, work)


@kernel
def fill_draws(
    cases: Any, rules: Any, rows: Array, groups: Array, begin: Array, end: Array, scratch: Any,
    pool: Array, out: Array, status: Array,
) -> None:  # fmt: skip
    """Row k of ``out``: the target of case ``rows[k]`` of user ``groups[k]``, its draws begin[k]..end[k]−1, and, where a
    row is longer than that, the target again.
    """
    users, ptr, targets, lo, hi, listed = cases.users, cases.ptr, cases.targets, cases.lo, cases.hi, cases.listed
    explicit, n_items = cases.explicit, cases.n_items
    replace_in, courses, draw_seed = rules.replace, cases.course, rules.draw_seed
    places, marks, deck, moved, ids = scratch.places, scratch.marks, scratch.deck, scratch.moved, scratch.ids
    known, n_negatives, by_list = -1, 0, False
    for k in range(len(rows)):
        c, g = rows[k], groups[k]
        if g != known:
            if known >= 0 and not explicit:
                unmark(listed, lo[known], hi[known], targets, ptr[known], ptr[known + 1], marks)
            n_negatives, by_list = mark_negatives(
                listed, lo[g], hi[g], targets, ptr[g], ptr[g + 1], explicit, n_items, marks, places
            )
            known = g
        pool[c] = n_negatives + 1
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            continue
        for d in range(out.shape[1]):
            out[k, d] = targets[c]
        replace = replace_in[courses[c]]
        stop = n_negatives if end[k] == 0 or (not replace and end[k] > n_negatives) else end[k]
        stop = min(stop, begin[k] + out.shape[1] - 1)
        stream = item_key(user_key(draw_seed, users[g]), targets[c])
        d, dealt = begin[k] if replace else 0, 0  # without replacement, earlier cards are dealt again
        size = n_negatives if by_list else n_items
        while d < stop:
            to = min(stop, d + CHUNK)
            dealt = draw_items(stream, d, to, dealt, replace, by_list, size, places, marks, deck, moved, ids)
            for each in range(max(d, begin[k]), to):
                out[k, 1 + each - begin[k]] = ids[each - d]
            d = to
        for d in range(dealt):
            deck[moved[d]] = moved[d]
    if known >= 0 and not explicit:
        unmark(listed, lo[known], hi[known], targets, ptr[known], ptr[known + 1], marks)


@kernel
def count_batch(
    cases: Any, rules: Any, rows: Array, groups: Array, sizes: Array, items: Array, scores: Array,
    hits: Array, status: Array,
) -> None:  # fmt: skip
    """Add to ``hits`` how many of the ``sizes[k]`` negatives in row k beat the target in its first column."""
    users, targets = cases.users, cases.targets
    ties, tie_seed = rules.ties, rules.tie_seed
    for k in range(len(rows)):
        c, n = rows[k], sizes[k]
        key = user_key(tie_seed, users[groups[k]])
        for d in range(n + 1):
            if scores[k, d] != scores[k, d]:
                status[groups[k]] = NAN_SCORE
        for d in range(1, n + 1):
            hits[c] += beats(scores[k, d], scores[k, 0], key, items[k, d], targets[c], ties)


@kernel
def order_targets(cases: Any, rules: Any, scratch: Any, scores: Array, order: Array) -> None:
    """The place of each target among its user's, from their scores."""
    users, ptr, targets = cases.users, cases.ptr, cases.targets
    tie_seed = rules.tie_seed
    ids, own = scratch.ids, scratch.target_scores
    for g in range(len(users)):
        b, e = ptr[g], ptr[g + 1]
        for c in range(b, e):
            ids[c - b], own[c - b] = targets[c], scores[c]
        place_targets(own, ids, e - b, user_key(tie_seed, users[g]), order, b)
