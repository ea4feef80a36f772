"""Which items a case is compared with: the negatives of a user, the draws from them, and when a case has enough.

Draw k of case (user, target) is a hash of (seed, user, target, k): the same for every model, whatever the batch, the
thread or the restart, and a longer sample begins with the shorter one.
"""

from typing import Any

import numpy as np

from fullrank.observing.compiled import Array, folded, helper
from fullrank.observing.kernel_ties import GOLDEN, bounded, mix64


@folded
def mark_negatives(cases: Any, g: int, scratch: Any) -> tuple[int, bool]:
    """How many negatives a user has, and whether they are in ``places`` or are what is not in ``marks`` (one bit an item).

    Pools of less than a quarter of the catalogue are listed: drawing from the catalogue until one is hit would take long.
    """
    listed, targets, marks, places = cases.listed, cases.targets, scratch.marks, scratch.places
    b, b_end, n = cases.ptr[g], cases.ptr[g + 1], 0
    if cases.explicit:
        for k in range(cases.lo[g], cases.hi[g]):
            item = listed[k]
            while b < b_end and targets[b] < item:
                b += 1
            if b == b_end or targets[b] != item:
                places[n] = item
                n += 1
        return n, True
    pool = cases.n_items - mark(listed, cases.lo[g], cases.hi[g], marks) - mark(targets, b, b_end, marks)
    if 4 * pool >= cases.n_items:
        return pool, False
    for item in range(cases.n_items):
        if not is_marked(marks, item):
            places[n] = item
            n += 1
    return pool, True


@folded
def mark(items: Array, a: int, end: int, marks: Array) -> int:
    """Mark ``items[a:end]``; return how many of them were not marked before."""
    new = 0
    for k in range(a, end):
        word, bit = items[k] >> 6, np.uint64(1) << np.uint64(items[k] & 63)
        new += (marks[word] & bit) == 0
        marks[word] |= bit
    return new


@folded
def is_marked(marks: Array, item: int) -> bool:
    """Return whether an item is marked."""
    return (marks[item >> 6] >> np.uint64(item & 63)) & np.uint64(1) != 0


@folded
def unmark(cases: Any, g: int, marks: Array) -> None:
    """Take back the marks of :func:`mark_negatives`."""
    if not cases.explicit:
        for k in range(cases.lo[g], cases.hi[g]):
            marks[cases.listed[k] >> 6] = 0
        for k in range(cases.ptr[g], cases.ptr[g + 1]):
            marks[cases.targets[k] >> 6] = 0


@folded
def draw_items(stream: Any, k: int, end: int, dealt: int, replace: bool, by_list: bool, size: int, scratch: Any) -> int:
    """Draws k..end−1 of a case, as items, into ``ids``; returns how many cards have been dealt.

    Out of the listed ``places[:size]``, or out of the ``size`` items of the catalogue, drawn again while marked: both are
    uniform over the pool. Without replacement, Fisher and Yates' shuffle of a deck, stopped early and skipping what is
    marked; the deck is in order but for the cards ``moved``. A longer sample begins with the shorter one.
    """
    places, marks, deck, moved, out = scratch.places, scratch.marks, scratch.deck, scratch.moved, scratch.ids
    if replace:
        for d in range(k, end):
            word = mix64(stream + np.uint64(d + 1) * GOLDEN)
            item = bounded(word, np.uint64(size))
            if by_list:
                item = np.int64(places[item])
            else:
                while is_marked(marks, item):
                    word = mix64(word + GOLDEN)
                    item = bounded(word, np.uint64(size))
            out[d - k] = item
        return dealt
    n = 0
    while n < end - k:
        word = mix64(stream + np.uint64(dealt + 1) * GOLDEN)
        r = dealt + bounded(word, np.uint64(size - dealt))
        card = np.int64(deck[r])
        deck[r] = deck[dealt]
        moved[dealt] = r
        dealt += 1
        if by_list or not is_marked(marks, card):
            out[n] = places[card] if by_list else card
            n += 1
    return dealt


@folded
def keep_range(cases: Any, items: Array, n: int) -> int:
    """Keep those of the first ``n`` items that are in the range of the cases; return how many they are."""
    if cases.low == 0 and cases.high >= cases.n_items:
        return n
    kept = 0
    for k in range(n):
        if cases.low <= items[k] < cases.high:
            items[kept] = items[k]
            kept += 1
    return kept


@helper
def next_goal(rules: Any, course: int, done: int, beaten: int, n_negatives: int) -> int:
    """Return how many negatives a case goes on to; as many as it has, if it rests: the only place where that is decided."""
    for stage in rules.stages[course]:
        goal = n_negatives if stage == 0 or (not rules.replace[course] and stage > n_negatives) else stage
        if done < goal:
            return goal
        if done == goal and beaten >= rules.stop_at[course]:
            return done
    return done
