"""Who is ranked above whom: the keys that order tied scores, and how many items beat a target.

Whether an item is ranked above a target is decided by :func:`beats` and nothing else. Tied scores are ordered by a 64-bit
key of (seed, user, item), the same in every design, so that sampled and exhaustive ranks agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fullrank.observing.compiled import Array, folded, helper

#: How tied scores are ordered.
RANDOM, OPTIMISTIC, PESSIMISTIC = 0, 1, 2
#: Targets of a user that are put in order by comparing each with each.
FEW_TARGETS = 32

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ODD = np.uint64(0xD1342543DE82EF95)
_LOW_32 = np.uint64(0xFFFFFFFF)
_TWO_32 = np.uint64(1 << 32)


@helper
def mix64(z: Any) -> Any:
    """Apply the finaliser of splitmix64, a bijection of 64-bit words whose output passes as random."""
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@helper
def user_key(seed: Any, user: int) -> Any:
    """Return the part of a hash that depends on the user."""
    return mix64(mix64(np.uint64(user) + GOLDEN) + np.uint64(seed))


@helper
def item_key(key: Any, item: int) -> Any:
    """Return a 64-bit key of (seed, user, item); for one user no two items share one (every step is a bijection)."""
    return mix64(key + np.uint64(item) * _ODD)


@helper
def bounded(word: Any, n: Any) -> int:
    """Return a whole number below ``n`` < 2³², exactly uniform when ``word`` is (Lemire's multiply and reject)."""
    product = (word >> np.uint64(32)) * n
    low = product & _LOW_32
    if low < n:
        threshold = (_TWO_32 - n) % n
        while low < threshold:
            word = mix64(word + GOLDEN)
            product = (word >> np.uint64(32)) * n
            low = product & _LOW_32
    return np.int64(product >> np.uint64(32))


@helper
def beats(score: Any, target_score: Any, key: Any, item: int, target: int, ties: int) -> bool:
    """Return whether ``item`` is ranked above ``target``: the only place where ties are decided. NaN beats nothing."""
    if score > target_score:
        return True
    if score == target_score:
        if ties == RANDOM:
            return item_key(key, item) > item_key(key, target)
        return ties == PESSIMISTIC
    return False


@helper
def _precedes(scores: Array, targets: Array, one: int, other: int, key: Any) -> bool:
    """Return whether target ``one`` of a user comes before target ``other``.

    Tied targets are ordered by their keys under every tie rule: places must be 1..T, and which of two relevant items
    takes which place changes no metric.
    """
    if targets[one] == targets[other]:
        return scores[one] >= scores[other] and one < other
    return beats(scores[one], scores[other], key, targets[one], targets[other], RANDOM)


@helper
def tally(scores: Array, low: Any, high: Any) -> tuple[int, int]:
    """Return how many scores are above ``high``, and how many at or above ``low``.

    Counted in 32 bits: eight comparisons then run at once, and what they give is added as it comes.
    """
    above, near = np.int32(0), np.int32(0)
    for k in range(len(scores)):
        above = np.int32(above + np.int32(scores[k] > high))
        near = np.int32(near + np.int32(scores[k] >= low))
    return int(above), int(near)


@folded
def any_nan(scores: Array, n: int) -> bool:
    """Return whether one of the first ``n`` scores is not a number."""
    found = False
    for k in range(n):
        found |= scores[k] != scores[k]
    return found


@folded
def count_above(scores: Array, items: Array, first: int, n: int, score: Any, key: Any, target: int, ties: int) -> int:
    """Return how many of ``n`` scored items beat the target; their ids are first, first+1, …, or ``items`` if first < 0."""
    row = scores[:n]
    above, near = tally(row, score, score)
    if near > above:
        for k in range(n):
            if row[k] == score:
                item = items[k] if first < 0 else first + k
                above += beats(row[k], score, key, item, target, ties)
    return above


@helper
def _sink(heap: Array, root: int, size: int, scores: Array, targets: Array, key: Any) -> None:
    """Let the target at ``root`` sink until no later one is above it: the last of all comes to the top."""
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        if child + 1 < size and _precedes(scores, targets, heap[child], heap[child + 1], key):
            child += 1
        if not _precedes(scores, targets, heap[root], heap[child], key):
            return
        heap[root], heap[child] = heap[child], heap[root]
        root = child


@helper
def _sort_targets(scores: Array, targets: Array, key: Any, places: Array) -> None:
    """The place of each of many targets: a heap, then the inverse of the permutation, all within ``places``."""
    n = len(places)
    for c in range(n):
        places[c] = c
    for root in range(n // 2 - 1, -1, -1):
        _sink(places, root, n, scores, targets, key)
    for end in range(n - 1, 0, -1):
        places[0], places[end] = places[end], places[0]
        _sink(places, 0, end, scores, targets, key)
    for start in range(n):  # cycle by cycle; places that are found are negative until all are
        if places[start] < 0:
            continue
        at, target = start, places[start]
        while True:
            following = places[target]
            places[target] = -(at + 1)
            at, target = target, following
            if at == start:
                break
    for c in range(n):
        places[c] = -places[c]


@folded
def place_targets(scores: Array, targets: Array, n: int, key: Any, order: Array, b: int) -> bool:
    """Put the place of each of a user's targets, from 1, into ``order[b:b + n]``; false if a score is not a number."""
    if any_nan(scores, n):
        return False
    if n > FEW_TARGETS:
        _sort_targets(scores, targets, key, order[b : b + n])
        return True
    for c in range(n):
        place = 1
        for other in range(n):
            place += other != c and _precedes(scores, targets, other, c, key)
        order[b + c] = place
    return True
