from __future__ import annotations

from typing import Any

import numpy as np
import observe_oracle as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy import stats

from fullrank.observing import kernel_scores as scores
from fullrank.observing import kernel_ties as k
from fullrank.observing.kernel_inputs import Cases, State, rules_of
from fullrank.ranks.design import Sample

WORDS = st.integers(0, 2**64 - 1)


@njit
def dot(a: Any, i: int, b: Any, j: int) -> Any:
    return scores.dot_rows(a, i, b, j)


@njit
def bounded(word: Any, n: Any) -> Any:
    return k.bounded(word, n)


@njit
def many_bounded(n: int, count: int) -> Any:
    out = np.empty(count, dtype=np.int64)
    for i in range(count):
        out[i] = k.bounded(k.mix64(np.uint64(i) * np.uint64(0x9E3779B97F4A7C15)), np.uint64(n))
    return out


@njit
def key(seed: Any, user: int, item: int) -> Any:
    return k.item_key(k.user_key(seed, user), item)


@given(seed=WORDS, user=st.integers(0, 2**31), item=st.integers(0, 2**31))
def test_keys_equal_the_definition(seed: int, user: int, item: int) -> None:
    assert int(key(np.uint64(seed), user, item)) == oracle.item_key(oracle.user_key(seed, user), item)


@given(word=WORDS, n=st.one_of(st.integers(1, 2**32 - 1), st.integers(2**31, 2**32 - 1)))
def test_bounded_numbers_equal_the_definition(word: int, n: int) -> None:
    found = int(bounded(np.uint64(word), np.uint64(n)))
    assert 0 <= found < n
    assert found == oracle.bounded(word, n)


@pytest.mark.parametrize("n", [2, 7, 108, 3 * 2**30])
def test_bounded_numbers_are_uniform(n: int) -> None:
    found = many_bounded(n, 200_000)  # 3·2³⁰ rejects a quarter of the words: without that, thirds would be uneven
    bins = np.bincount(found * min(n, 12) // n)
    assert stats.chisquare(bins).pvalue > 1e-3


def test_a_user_s_keys_never_collide() -> None:
    keys = {int(key(np.uint64(1), 5, item)) for item in range(2000)}
    assert len(keys) == 2000


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [0, 1, 5, 8, 9, 31, 64, 100])
def test_dot_products_are_summed_in_the_stated_order(dtype: Any, width: int) -> None:
    rng = np.random.default_rng(width)
    a, b = rng.normal(size=(3, width)).astype(dtype), rng.normal(size=(4, width)).astype(dtype)
    full = width // 8 * 8
    lanes = np.zeros(8, dtype=dtype)
    for chunk in (a[1] * b[2])[:full].reshape(-1, 8):
        lanes = lanes + chunk
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    total = lanes[0]
    for x in (a[1] * b[2])[full:]:
        total = total + x
    found = dot(a, 1, b, 2)
    assert found == total
    np.testing.assert_allclose(found, a[1] @ b[2], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("score", "target_score", "ties", "expected"),
    [
        (2.0, 1.0, k.OPTIMISTIC, True),
        (1.0, 2.0, k.PESSIMISTIC, False),
        (1.0, 1.0, k.OPTIMISTIC, False),
        (1.0, 1.0, k.PESSIMISTIC, True),
        (-np.inf, -np.inf, k.PESSIMISTIC, True),
        (np.inf, np.inf, k.OPTIMISTIC, False),
        (np.nan, 1.0, k.PESSIMISTIC, False),
    ],
)
def test_who_beats_whom(score: float, target_score: float, ties: int, expected: bool) -> None:
    assert k.beats(score, target_score, np.uint64(9), 3, 4, ties) == expected


def test_random_ties_are_an_order() -> None:
    word = np.uint64(77)
    for a in range(6):
        for b in range(6):
            if a != b:
                assert k.beats(1.0, 1.0, word, a, b, k.RANDOM) != k.beats(1.0, 1.0, word, b, a, k.RANDOM)


def places(scores: Any, targets: Any, order: Any) -> None:
    """The places of the targets of user 3, under the seed 7; the first and the last are other users' only ones."""
    n, none = len(targets), np.zeros(0, dtype=np.int64)
    ptr = np.array([0, 1, n - 1, n])
    cases = Cases(np.array([0, 3, 5]), none, ptr, targets, none, none, none, False, 10 * n, n, n, none)
    rules = rules_of(Sample(9).courses(10), "optimistic", 0)._replace(tie_seed=np.uint64(7))
    State(cases, rules, none, none, none, order, none).order_targets(scores)


@pytest.mark.parametrize("n", [1, 2, 4, 32, 33, 500])
def test_targets_are_placed_by_score_and_key_however_many_there_are(n: int) -> None:
    rng = np.random.default_rng(n)
    word = oracle.user_key(7, 3)
    for values in (2, 5, 10**6):  # with few values nearly all are tied
        scores, targets = rng.integers(0, values, n).astype(float), np.sort(rng.choice(10 * n, n, replace=False))
        order = np.ones(n + 2, dtype=np.int64)  # as states begin
        places(np.pad(scores, 1), np.pad(targets, 1), order)
        best = sorted(range(n), key=lambda c: (-scores[c], -oracle.item_key(word, int(targets[c]))))
        expected = np.empty(n, dtype=np.int64)
        expected[best] = np.arange(1, n + 1)
        assert order.tolist() == [1, *expected.tolist(), 1]
