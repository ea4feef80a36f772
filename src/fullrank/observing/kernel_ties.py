"""Who is ranked above whom: the keys that order tied scores, and how many items beat a target.

Whether an item is ranked above a target is decided by :func:`beats` and nothing else. Tied scores are ordered by a 64-bit
key of (seed, user, item), the same in every design, so that sampled and exhaustive ranks agree.
"""

from typing import Any

import numpy as np

from fullrank._checks import TIES
from fullrank.observing.compiled import Array, folded, helper

#: How tied scores are ordered.
RANDOM, OPTIMISTIC, PESSIMISTIC = range(len(TIES))

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
