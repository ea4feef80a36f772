"""The inner loops of observing, compiled: what Python calls, for any model and design.

Three promises hold for everything that is compiled, each kept in one file: one order (`kernel_ties`), negatives that
depend on nothing but the case (`kernel_draws`), and one arithmetic of scores (`kernel_scores`).
"""

from typing import Any

import numpy as np

from fullrank.observing.compiled import Array, folded, kernel
from fullrank.observing.kernel_draws import draw_items, keep_range, mark_negatives, next_goal, unmark
from fullrank.observing.kernel_inputs import CHUNK, NAN_SCORE, NO_CANDIDATE
from fullrank.observing.kernel_scores import close_user, dot_rows, open_user, score_items, score_range
from fullrank.observing.kernel_ties import any_nan, beats, count_above, item_key, mix64, tally, user_key

#: Scores looked at more closely where some of a chunk are too near to the target's.
FINE = 64


@kernel
def next_goals(cases: Any, rules: Any, compared: Array, hits: Array, pool: Array, out: Array) -> None:
    """:func:`next_goal` of every case."""
    for c in range(len(out)):
        out[c] = next_goal(rules, cases.course[c], compared[c], hits[c], pool[c] - 1)


@kernel
def choose_courses(cases: Any, rules: Any, bounds: Array, out: Array) -> None:
    """Which course each case goes through: the first whose entry in ``bounds`` is above a hash of the case, in 0..1."""
    for g in range(len(cases.users)):
        draws = user_key(rules.draw_seed, cases.users[g])
        for c in range(cases.ptr[g], cases.ptr[g + 1]):
            # the word before those that negatives are drawn with
            place = np.float64(mix64(item_key(draws, cases.targets[c])) >> np.uint64(11)) / 9007199254740992.0
            out[c] = 0
            while out[c] < len(bounds) - 1 and place >= bounds[out[c]]:
                out[c] += 1


@folded
def begin_user(
    model: Any, cases: Any, g: int, scratch: Any, known: bool, target_scores: Array, pool: Array, status: Array
) -> tuple[int, bool]:  # fmt: skip
    """:func:`mark_negatives` and :func:`open_user` of a user, whose targets are scored unless that is ``known``."""
    n_negatives, by_list = mark_negatives(cases, g, scratch)
    b, n, ids, own = cases.ptr[g], cases.ptr[g + 1] - cases.ptr[g], scratch.ids, scratch.target_scores
    open_user(model, cases.rows[g], cases.rows[min(g + 1, len(cases.rows) - 1)], scratch.row)
    for c in range(n):
        pool[b + c] = n_negatives + 1
        ids[c] = cases.targets[b + c]
    if not known:
        score_items(model, cases.rows[g], scratch.row, ids, n, own)
        for c in range(n):
            target_scores[b + c] = own[c]
        if any_nan(own, n):
            status[g] = NAN_SCORE
    if n_negatives < 1:
        status[g] = NO_CANDIDATE
    return n_negatives, by_list


@kernel
def sample(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any, known: bool, target_scores: Array,
    compared: Array, hits: Array, pool: Array, status: Array,
) -> None:  # fmt: skip
    """Draw, score and count for the users first..last−1; ``known``: the scores of the targets come in.

    ``compared`` and ``hits`` come in as what each case has seen so far and go out as what it has seen when it rests.
    """
    deck, moved, ids, scores = scratch.deck, scratch.moved, scratch.ids, scratch.scores
    for g in range(first, last):
        n_negatives, by_list = begin_user(model, cases, g, scratch, known, target_scores, pool, status)
        size = n_negatives if by_list else cases.n_items
        row, user = cases.rows[g], cases.users[g]
        key, draws = user_key(rules.tie_seed, user), user_key(rules.draw_seed, user)
        for c in range(cases.ptr[g], cases.ptr[g + 1]):
            target, score = np.int64(cases.targets[c]), target_scores[c]
            stream, course = item_key(draws, target), cases.course[c]
            done, beaten, replace = compared[c], hits[c], rules.replace[course]
            k, dealt = done if replace else 0, 0  # without replacement, cards dealt before are dealt again, unscored
            while n_negatives > 0:
                goal = next_goal(rules, course, done, beaten, n_negatives)
                if goal <= done:
                    break
                while done < goal:
                    stop = min(done if k < done else goal, k + CHUNK)
                    dealt = draw_items(stream, k, stop, dealt, replace, by_list, size, scratch)
                    if k == done:
                        n = keep_range(cases, ids, stop - k)
                        score_items(model, row, scratch.row, ids, n, scores)
                        if any_nan(scores, n):
                            status[g] = NAN_SCORE
                        beaten += count_above(scores, ids, -1, n, score, key, target, rules.ties)
                        done = stop
                    k = stop
            compared[c], hits[c] = done, beaten
            for d in range(dealt):
                deck[moved[d]] = moved[d]
        close_user(model, row, scratch.row)
        unmark(cases, g, scratch.marks)


@folded
def cross_out(items: Array, at: int, end: int, first: int, stop: int, scores: Array) -> int:
    """Cross the sorted ``items[at:end]`` out of the scores of items first..stop−1; return how far that went."""
    while at < end and items[at] < stop:
        if items[at] >= first:
            scores[items[at] - first] = np.nan  # no candidate: compares as neither above nor equal
        at += 1
    return at


@kernel
def exhaust(
    model: Any, cases: Any, rules: Any, first: int, last: int, scratch: Any, known: bool, target_scores: Array,
    compared: Array, hits: Array, pool: Array, status: Array,
) -> None:  # fmt: skip
    """Compare every candidate of the users first..last−1; ``known`` as in :func:`sample`."""
    explicit, ids, scores = cases.explicit, scratch.ids, scratch.scores
    for g in range(first, last):
        n_negatives, _ = begin_user(model, cases, g, scratch, known, target_scores, pool, status)
        row, b, e, key = cases.rows[g], cases.ptr[g], cases.ptr[g + 1], user_key(rules.tie_seed, cases.users[g])
        for c in range(b, e):
            compared[c], hits[c] = n_negatives, 0
        k, end = (0, n_negatives) if explicit else (cases.low, min(cases.high, cases.n_items))
        listed_at, target_at = cases.lo[g], b
        while k < end:
            stop = min(k + CHUNK, end)
            n = stop - k
            if explicit:
                for d in range(n):
                    ids[d] = scratch.places[k + d]
                n = keep_range(cases, ids, n)
                score_items(model, row, scratch.row, ids, n, scores)
            else:
                score_range(model, row, scratch.row, k, n, scores)
            if any_nan(scores, n):
                status[g] = NAN_SCORE
            if not explicit:
                listed_at = cross_out(cases.listed, listed_at, cases.hi[g], k, stop, scores)
                target_at = cross_out(cases.targets, target_at, e, k, stop, scores)
            first_id = -1 if explicit else k
            for c in range(b, e):
                target = np.int64(cases.targets[c])
                hits[c] += count_above(scores, ids, first_id, n, target_scores[c], key, target, rules.ties)
            k = stop
        close_user(model, row, scratch.row)
        unmark(cases, g, scratch.marks)


@kernel
def fill_draws(
    cases: Any, rules: Any, rows: Array, groups: Array, begin: Array, end: Array, scratch: Any,
    pool: Array, out: Array, status: Array,
) -> None:  # fmt: skip
    """Row k of ``out``: the target of case ``rows[k]`` of user ``groups[k]``, its draws begin[k]..end[k]−1, and, where a
    row is longer than that, the target again.
    """
    deck, moved, ids = scratch.deck, scratch.moved, scratch.ids
    known, n_negatives, by_list = -1, 0, False
    for k in range(len(rows)):
        c, g = rows[k], groups[k]
        if g != known:
            if known >= 0:
                unmark(cases, known, scratch.marks)
            n_negatives, by_list = mark_negatives(cases, g, scratch)
            known = g
        pool[c] = n_negatives + 1
        if n_negatives < 1:
            status[g] = NO_CANDIDATE
            continue
        for d in range(out.shape[1]):
            out[k, d] = cases.targets[c]
        replace = rules.replace[cases.course[c]]
        stop = n_negatives if end[k] == 0 or (not replace and end[k] > n_negatives) else end[k]
        stop = min(stop, begin[k] + out.shape[1] - 1)
        stream = item_key(user_key(rules.draw_seed, cases.users[g]), cases.targets[c])
        d, dealt = begin[k] if replace else 0, 0  # without replacement, earlier cards are dealt again
        size = n_negatives if by_list else cases.n_items
        while d < stop:
            to = min(stop, d + CHUNK)
            dealt = draw_items(stream, d, to, dealt, replace, by_list, size, scratch)
            for each in range(max(d, begin[k]), to):
                out[k, 1 + each - begin[k]] = ids[each - d]
            d = to
        for d in range(dealt):
            deck[moved[d]] = moved[d]
    if known >= 0:
        unmark(cases, known, scratch.marks)


@kernel
def target_keys(cases: Any, rules: Any, out: Array) -> None:
    """The keys of targets: of those that are tied, the one with the largest comes first, as :func:`beats` has it."""
    for g in range(len(cases.users)):
        key = user_key(rules.tie_seed, cases.users[g])
        for c in range(cases.ptr[g], cases.ptr[g + 1]):
            out[c] = item_key(key, np.int64(cases.targets[c]))


@kernel
def score_matrix(model: Any, users: Array, items: Array, work: Array, out: Array) -> None:
    """Score ``items[k]`` for user ``users[k]``."""
    for k in range(len(users)):
        open_user(model, users[k], users[k], work)
        score_items(model, users[k], work, items[k], items.shape[1], out[k])
        close_user(model, users[k], work)


@kernel
def score_rows(model: Any, users: Array, work: Array, out: Array) -> None:
    """Score the whole catalogue for every user, a few items at a time."""
    for k in range(len(users)):
        open_user(model, users[k], users[k], work)
        for first in range(0, out.shape[1], CHUNK):
            n = min(CHUNK, out.shape[1] - first)
            score_range(model, users[k], work, first, n, out[k, first : first + n])
        close_user(model, users[k], work)


@kernel
def mark_beaten(
    cases: Any, rules: Any, rows: Array, groups: Array, sizes: Array, items: Array, scores: Array, out: Array, status: Array
) -> None:  # fmt: skip
    """Mark in ``out`` which of the ``sizes[k]`` items in row k beat the target in its first column."""
    for k in range(len(rows)):
        key, target = user_key(rules.tie_seed, cases.users[groups[k]]), cases.targets[rows[k]]
        if scores[k, 0] != scores[k, 0]:
            status[groups[k]] = NAN_SCORE
        for d in range(1, sizes[k] + 1):
            if scores[k, d] != scores[k, d]:
                status[groups[k]] = NAN_SCORE
            out[k, d - 1] = beats(scores[k, d], scores[k, 0], key, items[k, d], target, rules.ties)


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
    ptr, width, biased = cases.ptr, tile.shape[1], len(model.bias) > 0
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
                key = user_key(rules.tie_seed, cases.users[g])
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
                                s = dot_rows(model.users, cases.rows[g], model.items, i)
                                if biased:
                                    s += model.bias[i]
                            hits[c] += beats(s, score, key, i, cases.targets[c], rules.ties)
            closed[c] = hits[c] >= limit[c] or score > user_bound[g] * later + tiny
            going[r] |= not closed[c]
