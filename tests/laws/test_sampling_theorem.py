"""li20 Theorem 2.1: where one recommender's hit-ratio curve lies above another's, sampling keeps it above in expectation."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import fullrank as fr
from fullrank.ranks.theory import expected_naive


@st.composite
def dominated(draw):
    """Ranks of two recommenders, the second never better at the same place of the sorted list."""
    N = draw(st.integers(3, 80))
    better = draw(st.lists(st.integers(1, N), min_size=1, max_size=15))
    worse = [draw(st.integers(rank, N)) for rank in better]
    order = draw(st.permutations(range(len(worse))))
    return N, np.array(better), np.array([worse[i] for i in order])


@given(dominated(), st.integers(1, 40), st.booleans())
def test_dominance_survives_sampling_in_expectation(pair, m, replace):
    N, better, worse = pair
    ks = np.arange(1, N + 1)
    assert all((better <= k).mean() >= (worse <= k).mean() for k in ks)
    design = fr.Sample(m if replace else min(m, N - 1), replace)
    for k in range(1, design.negatives + 2):
        one, two = (expected_naive(fr.Recall @ k, R, N, design).mean() for R in (better, worse))
        assert one >= two - 1e-12
    for metric in ("ndcg", "ap", "auc", "ndcg@5"):  # hence every metric that does not increase with the rank
        one, two = (expected_naive(metric, R, N, design).mean() for R in (better, worse))
        assert one >= two - 1e-12


@given(st.integers(3, 60), st.integers(1, 30), st.booleans())
def test_the_reason_a_better_rank_is_more_likely_to_hit(N, m, replace):
    design = fr.Sample(m if replace else min(m, N - 1), replace)
    for k in range(1, design.negatives + 1):
        chance = expected_naive(fr.Recall @ k, np.arange(1, N + 1), N, design)
        assert (np.diff(chance) <= 1e-12).all()


def test_without_dominance_sampling_may_turn_the_order_round():
    """kr20's point, Tables 1 and 2: on AP, C leads on the full ranking and A on the sample."""
    A, C = [100] * 5, [212, 2, 743, 5342, 1548]
    full = [np.mean(1 / np.array(R)) for R in (A, C)]
    sampled = [expected_naive("ap", R, 10_000, "uni99").mean() for R in (A, C)]
    assert full[0] < full[1]
    assert sampled[0] > sampled[1]
