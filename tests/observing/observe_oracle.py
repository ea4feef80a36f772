"""A second, stupid implementation of `observe`: Python integers, lists and loops, straight from the definitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fullrank.ranks.design import Adaptive, Exhaustive, Top

MASK = (1 << 64) - 1
GOLDEN, ODD = 0x9E3779B97F4A7C15, 0xD1342543DE82EF95


def mix64(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def user_key(seed: int, user: int) -> int:
    return mix64((mix64((user + GOLDEN) & MASK) + seed) & MASK)


def item_key(key: int, item: int) -> int:
    return mix64((key + item * ODD) & MASK)


def bounded(word: int, n: int) -> int:
    while True:
        product = (word >> 32) * n
        if product % 2**32 >= 2**32 % n:
            return product >> 32
        word = mix64((word + GOLDEN) & MASK)


def draws(stream: int, count: int, negatives: list[int], n_items: int, listed: bool, replace: bool) -> list[int]:
    """From the catalogue, skipping what is no negative; from the list of negatives if it is short, or was given."""
    allowed = set(negatives)
    deck = negatives[:] if listed or 4 * len(negatives) < n_items else list(range(n_items))
    out: list[int] = []
    d = 0
    while len(out) < count:
        word = mix64((stream + (d + 1) * GOLDEN) & MASK)
        if replace:
            while (item := deck[bounded(word, len(deck))]) not in allowed:
                word = mix64((word + GOLDEN) & MASK)
        else:
            r = d + bounded(word, len(deck) - d)
            deck[d], deck[r] = deck[r], deck[d]
            item = deck[d]
        d += 1
        if item in allowed:
            out.append(item)
    return out


@dataclass
class Seen:
    ahead: list[int]
    rest: list[int]
    drawn: list[int]
    hits: list[int]
    pool: list[int]
    order: list[int]
    targets: list[int]


def observe(scores: Any, split: Any, design: Any, pools: Any, ties: str, seed: int) -> Seen:
    """``scores``: the full users × items matrix; ``pools``: 'unseen', 'all' or a list of sets."""
    tie_seed, draw_seed = (int(x) for x in np.random.SeedSequence(seed).generate_state(2, np.uint64))
    largest = split.n_items if isinstance(pools, str) else max(len(pools[u]) for u in set(split.users.tolist())) + 1
    if isinstance(design, Adaptive):
        design = design.resolve(largest)
    stages = (design.negatives,) if isinstance(design, Top) else design.stages(largest)
    out = Seen([], [], [], [], [], [], [])
    for user, target in zip(split.users.tolist(), split.items.tolist(), strict=True):
        mine = [i for u, i in zip(split.users.tolist(), split.items.tolist(), strict=True) if u == user]
        if pools == "unseen":
            pool = set(range(split.n_items)) - set(split.train[user].indices.tolist())
        elif pools == "all":
            pool = set(range(split.n_items))
        else:
            pool = set(pools[user])
        negatives = sorted(pool - set(mine))
        key = user_key(tie_seed, user)

        def beats(item: int, target: int = target, user: int = user, key: int = key, ties: str = ties) -> bool:
            a, b = scores[user, item], scores[user, target]
            if a != b:
                return bool(a > b)
            return {"random": item_key(key, item) > item_key(key, target), "optimistic": False, "pessimistic": True}[
                ties
            ]

        above = sum(beats(i) for i in negatives)
        if isinstance(design, Exhaustive) or (
            isinstance(design, Top) and (above < design.k or len(negatives) <= design.negatives)
        ):
            drawn, hits = 0, above
        else:
            stream = item_key(user_key(draw_seed, user), target)
            for stage in stages:
                everything = not design.replace and (stage == 0 or stage >= len(negatives))
                m = len(negatives) if everything else stage
                sample = draws(stream, m, negatives, split.n_items, not isinstance(pools, str), design.replace)
                hits = sum(beats(item) for item in sample)
                drawn = 0 if everything else m
                if hits >= (getattr(design, "stop_at", None) or 0):
                    break
        out.ahead.append(hits if drawn == 0 else 0)
        out.rest.append(0 if drawn == 0 else len(negatives))
        out.drawn.append(drawn)
        out.hits.append(0 if drawn == 0 else hits)
        out.pool.append(len(negatives) + 1)
        out.order.append(1 + sum(beats(i, ties="random") for i in mine if i != target))
        out.targets.append(len(mine))
    return out
