from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fullrank.data.split import Split
from fullrank.observing.observation import Observation
from fullrank.observing.shards import spread
from fullrank.ranks.design import Adaptive, Exhaustive, Sample, Top

FIELDS = ("ahead", "rest", "drawn", "hits", "pool", "order", "targets")
DESIGNS = (
    Exhaustive(),
    Sample(7),
    Sample(1500),
    Sample(30, replace=False),
    Sample(5000, replace=False),
    Adaptive(3, 13, stop_at=2),
    Adaptive(2, "all", stop_at=3, replace=False),
    Top(4, 7),
)


def world(users: int, items: int) -> tuple[Split, Any]:
    """Whole-number factors, so that ties abound; several targets for some users."""
    rng = np.random.default_rng(users)
    train = rng.random((users, items)) < 0.2
    of = np.repeat(np.arange(users), rng.integers(1, 4, users))
    targets = np.concatenate([rng.choice(items, size, replace=False) for size in np.bincount(of)])
    train[of, targets] = False
    mixed = rng.permutation(len(of))
    factors = tuple(rng.integers(-2, 3, (n, 9)).astype(np.float32) for n in (users, items))
    return Split(sp.csr_matrix(train.astype(np.float32)), of[mixed], targets[mixed]), factors


def from_another_node(task: Any, parts: Any) -> Any:
    """Map as Ray does: arrays that come from another node cannot be written to."""
    for part in parts:
        given = {name: np.array(value) for name, value in vars(part).items() if isinstance(value, np.ndarray)}
        for array in given.values():
            array.flags.writeable = False
        yield task(replace(part, **given))


def sharded(shards: int) -> Any:
    return lambda task, blocks: spread(from_another_node, task, blocks, shards)


def same(seen: Any, expected: Any) -> None:
    for key in FIELDS:
        np.testing.assert_array_equal(getattr(seen, key), getattr(expected, key), err_msg=key)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_counts_of_ranges_add_up_to_those_of_the_catalogue(design: Any) -> None:
    split, model = world(40, 1300)
    pools = [np.unique(np.random.default_rng(user).integers(0, 1300, 400)) for user in range(40)]
    for candidates in ("unseen", "all", pools):
        for ties in ("random", "pessimistic"):
            options: Any = {"candidates": candidates, "ties": ties, "rng": 4, "progress": False}
            expected = Observation(model, split, **options).advance(design)
            for shards in (1, 2, 7):
                same(Observation(model, split, map=sharded(shards), batch=9, **options).advance(design), expected)


def test_more_ranges_than_items_and_biases() -> None:
    split, (U, V) = world(11, 20)
    model = (U, V, np.arange(20, dtype=np.float32) % 3)
    for design in (Exhaustive(), Sample(9)):
        expected = Observation(model, split, progress=False).advance(design)
        same(Observation(model, split, progress=False, map=sharded(99)).advance(design), expected)


def test_outcomes_are_taken_up_where_they_stopped() -> None:
    split, model = world(30, 200)
    for short, long in ((Sample(5), Sample(50)), (Sample(5, replace=False), Sample(50, replace=False))):
        seen = Observation(model, split, progress=False, map=sharded(3)).advance(short).advance(long)
        same(seen, Observation(model, split, progress=False).advance(long))


def test_what_is_wrong_is_said() -> None:
    split, (U, V) = world(11, 20)
    with pytest.raises(ValueError, match="`item_shards` is for models of user and item factors; model `f`"):
        Observation(lambda users, items: items, split, map=sharded(2), name="f").advance("uni3")
    V[3] = np.nan
    for design in DESIGNS[:2]:
        with pytest.raises(ValueError, match=r"model `mine` gave a score that is not a number \(NaN\) for user"):
            Observation((U, V), split, map=sharded(2), name="mine", progress=False).advance(design)
