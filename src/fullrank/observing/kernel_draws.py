"""Which items a case is compared with: the negatives of a user, the draws from them, and when a case has enough.

Draw k of case (user, target) is a hash of (seed, user, target, k): the same for every model, whatever the batch, the
thread or the restart, and a longer sample begins with the shorter one.
"""

from typing import Any

import numpy as np

from fullrank.observing.compiled import Array, folded, helper
from fullrank.observing.kernel_ties import GOLDEN, bounded, mix64


@folded
def list_negatives(
    listed: Array, a: int, a_end: int, targets: Array, b: int, b_end: int, explicit: bool, n_items: int, out: Array
) -> tuple[int, int]:  # fmt: skip
    """Return the negatives of a user: how many there are, and how many entries of ``out`` describe them.

    The user's listed items are ``listed[a:a_end]``, the targets ``targets[b:b_end]``. ``explicit``: ``out`` lists the
    negatives; otherwise it lists, in order, what is left out.
    """
    n = 0
    if explicit:
        for k in range(a, a_end):
            item = listed[k]
            while b < b_end and targets[b] < item:
                b += 1
            if b < b_end and targets[b] == item:
                continue
            out[n] = item
            n += 1
        return n, n
    last = -1
    while a < a_end or b < b_end:
        if b >= b_end or (a < a_end and listed[a] <= targets[b]):
            item = np.int64(listed[a])
            a += 1
        else:
            item = np.int64(targets[b])
            b += 1
        if item != last:
            out[n] = item
            n += 1
            last = item
    return n_items - n, n


@folded
def mark_negatives(
    listed: Array, a: int, a_end: int, targets: Array, b: int, b_end: int, explicit: bool, n_items: int, marks: Array,
    places: Array,
) -> tuple[int, bool]:  # fmt: skip
    """How many negatives a user has, and whether they are in ``places`` or are what is not in ``marks`` (one bit an item).

    Pools of less than a quarter of the catalogue are listed: drawing from the catalogue until one is hit would take long.
    """
    if explicit:
        return list_negatives(listed, a, a_end, targets, b, b_end, True, n_items, places)[0], True
    left_out = 0
    one = np.uint64(1)
    for k in range(a, a_end):
        word, bit = listed[k] >> 6, one << np.uint64(listed[k] & 63)
        left_out += (marks[word] & bit) == 0
        marks[word] |= bit
    for k in range(b, b_end):
        word, bit = targets[k] >> 6, one << np.uint64(targets[k] & 63)
        left_out += (marks[word] & bit) == 0
        marks[word] |= bit
    pool = n_items - left_out
    if 4 * pool >= n_items:
        return pool, False
    n = 0
    for item in range(n_items):
        if (marks[item >> 6] >> np.uint64(item & 63)) & one == 0:
            places[n] = item
            n += 1
    return pool, True


@folded
def unmark(listed: Array, a: int, a_end: int, targets: Array, b: int, b_end: int, marks: Array) -> None:
    """Take back the marks of :func:`mark_negatives`."""
    for k in range(a, a_end):
        marks[listed[k] >> 6] = 0
    for k in range(b, b_end):
        marks[targets[k] >> 6] = 0


@folded
def draw_items(
    stream: Any, k: int, stop: int, dealt: int, replace: bool, by_list: bool, size: int, places: Array, marks: Array,
    deck: Array, moved: Array, out: Array,
) -> int:  # fmt: skip
    """Draws k..stop−1 of a case, as items, into ``out``; returns how many cards have been dealt.

    Out of the listed ``places[:size]``, or out of the ``size`` items of the catalogue, drawn again while marked: both are
    uniform over the pool. Without replacement, Fisher and Yates' shuffle of a deck, stopped early and skipping what is
    marked; the deck is in order but for the cards ``moved``. A longer sample begins with the shorter one.
    """
    one = np.uint64(1)
    if replace:
        for d in range(k, stop):
            word = mix64(stream + np.uint64(d + 1) * GOLDEN)
            item = bounded(word, np.uint64(size))
            if by_list:
                item = np.int64(places[item])
            else:
                while (marks[item >> 6] >> np.uint64(item & 63)) & one != 0:
                    word = mix64(word + GOLDEN)
                    item = bounded(word, np.uint64(size))
            out[d - k] = item
        return dealt
    n = 0
    while n < stop - k:
        word = mix64(stream + np.uint64(dealt + 1) * GOLDEN)
        r = dealt + bounded(word, np.uint64(size - dealt))
        card = np.int64(deck[r])
        deck[r] = deck[dealt]
        moved[dealt] = r
        dealt += 1
        if by_list:
            out[n] = places[card]
            n += 1
        elif (marks[card >> 6] >> np.uint64(card & 63)) & one == 0:
            out[n] = card
            n += 1
    return dealt


@folded
def keep_range(items: Array, n: int, low: int, high: int) -> int:
    """Keep those of the first ``n`` items that are in low..high−1; return how many they are."""
    kept = 0
    for k in range(n):
        if low <= items[k] < high:
            items[kept] = items[k]
            kept += 1
    return kept


@helper
def next_goal(
    stages: Array, stop_at: Array, replace: Array, course: int, done: int, beaten: int, n_negatives: int
) -> int:  # fmt: skip
    """Return how many negatives a case goes on to; as many as it has, if it rests: the only place where that is decided."""
    for stage in stages[course]:
        goal = n_negatives if stage == 0 or (not replace[course] and stage > n_negatives) else stage
        if done < goal:
            return goal
        if done == goal and beaten >= stop_at[course]:
            return done
    return done
