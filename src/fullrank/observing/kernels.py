"""The inner loops of observing, compiled: what Python calls, for any model and design.

Three promises hold for everything that is compiled, each kept in one file: one order (`kernel_ties`), negatives that
depend on nothing but the case (`kernel_draws`), and one arithmetic of scores (`kernel_scores`).
"""

from typing import Any

import numpy as np

from fullrank.observing.compiled import Array, folded, kernel
from fullrank.observing.kernel_draws import draw_items, keep_range, list_negatives, mark_negatives, next_goal, unmark
from fullrank.observing.kernel_inputs import CHUNK, NAN_SCORE, NO_CANDIDATE
from fullrank.observing.kernel_scores import announce_user, close_user, dot_rows, open_user, score_items, score_range
from fullrank.observing.kernel_ties import any_nan, beats, count_above, item_key, mix64, place_targets, tally, user_key

#: Scores looked at more closely where some of a chunk are too near to the target's.
FINE = 64


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
def order_targets(cases: Any, rules: Any, line: Array, scores: Array, order: Array) -> None:
    """The place of each target among its user's, from their scores; ``line`` has room for those of any one user."""
    users, ptr, targets, tie_seed = cases.users, cases.ptr, cases.targets, rules.tie_seed
    for g in range(len(users)):
        place_targets(scores, targets, ptr[g], ptr[g + 1], user_key(tie_seed, users[g]), line, order)


@kernel
def score_matrix(model: Any, users: Array, items: Array, work: Array, out: Array) -> None:
    """Score ``items[k]`` for user ``users[k]``."""
    for k in range(len(users)):
        open_user(model, users[k], work)
        score_items(model, users[k], work, items[k], items.shape[1], out[k])
        close_user(model, users[k], work)


@kernel
def score_rows(model: Any, users: Array, work: Array, out: Array) -> None:
    """Score the whole catalogue for every user, a few items at a time."""
    for k in range(len(users)):
        open_user(model, users[k], work)
        for first in range(0, out.shape[1], CHUNK):
            n = min(CHUNK, out.shape[1] - first)
            score_range(model, users[k], work, first, n, out[k, first : first + n])
        close_user(model, users[k], work)


@kernel
def mark_beaten(
    cases: Any, rules: Any, rows: Array, groups: Array, sizes: Array, items: Array, scores: Array, out: Array, status: Array
) -> None:  # fmt: skip
    """Mark in ``out`` which of the ``sizes[k]`` items in row k beat the target in its first column."""
    users, targets, ties, tie_seed = cases.users, cases.targets, rules.ties, rules.tie_seed
    for k in range(len(rows)):
        key = user_key(tie_seed, users[groups[k]])
        if scores[k, 0] != scores[k, 0]:
            status[groups[k]] = NAN_SCORE
        for d in range(1, sizes[k] + 1):
            if scores[k, d] != scores[k, d]:
                status[groups[k]] = NAN_SCORE
            out[k, d - 1] = beats(scores[k, d], scores[k, 0], key, items[k, d], targets[rows[k]], ties)


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
