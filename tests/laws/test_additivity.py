"""counts(a ++ b) == counts(a) + counts(b): what makes parallel work, resuming and the bootstrap a few lines each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fullrank as fr
from fullrank.ranks.counts import MAX_POOLS, RankCounts

DESIGNS = [
    fr.Sample(9),
    fr.Sample(9, replace=False),
    fr.Exhaustive(),
    fr.Adaptive(9, 39, 1),
    fr.Adaptive(9, 39, 2, replace=False),
    fr.Adaptive(9, "all", 2, replace=False),
    fr.Adaptive(9, 150, 1, replace=False),
]


@st.composite
def cases(draw, design):
    """Arguments of from_ranks for a handful of cases of a design, pools and all."""
    size = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    spread = draw(st.sampled_from([1, 3, 5000]))
    N = draw(st.integers(40, 200)) + rng.integers(0, spread, size)
    more = {"users": rng.integers(0, 1000, size)}
    if draw(st.booleans()):
        more["weights"] = rng.random(size) + 0.01
    if draw(st.booleans()):
        more["targets"] = rng.integers(1, 4, size)
        more["order"] = 1 + (rng.random(size) * more["targets"]).astype(int)
    if isinstance(design, fr.Exhaustive):
        ranks = 1 + (rng.random(size) * N).astype(int)
    elif isinstance(design, fr.Sample):
        ranks = rng.integers(1, 11, size)
    else:
        hits, drawn = [], []
        for n in N:
            sizes = [n - 1 if m == 0 else m for m in design.stages(int(n))]
            stage = rng.integers(len(sizes))
            drawn.append(sizes[stage])
            hits.append(rng.integers(0 if stage == len(sizes) - 1 else design.stop_at, min(sizes[stage], 8) + 1))
        ranks, more["drawn"] = np.array(hits) + 1, np.array(drawn)
    return ranks, N, more


def counted(design, *parts):
    """Counts of the cases of all parts together."""
    ranks, N = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    more = {}
    for name in ("users", "weights", "targets", "order", "drawn"):
        if any(name in part[2] for part in parts):
            plain = {"weights": 1.0, "targets": 1, "order": 1}
            more[name] = np.concatenate(
                [part[2].get(name, np.full(len(part[0]), plain.get(name, 0))) for part in parts]
            )
    return RankCounts.from_ranks(ranks, N, design, **more)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@given(data=st.data())
def test_counts_of_parts_add_up(design, data):
    a, b, c = (data.draw(cases(design)) for _ in range(3))
    A, B, C = (counted(design, part) for part in (a, b, c))
    whole = counted(design, a, b, c)
    assert counted(design, a, b) == A + B
    assert A + B == B + A
    assert (A + B) + C == A + (B + C) == whole
    assert sum([A, B, C]) == whole
    assert len(whole) == len(A) + len(B) + len(C)
    assert whole.items_scored == A.items_scored + B.items_scored + C.items_scored
    assert whole.weight.sum() == pytest.approx(A.weight.sum() + B.weight.sum() + C.weight.sum())
    assert len(whole.tables()) <= MAX_POOLS


@given(st.integers(0, 1000), st.integers(2, 6))
def test_many_pools_however_they_are_cut(seed, parts):
    """More than 64 distinct pools: bins grow coarser, and the order of adding does not matter."""
    rng = np.random.default_rng(seed)
    N = rng.integers(50, 10**6, 400)
    r = rng.integers(1, 11, 400)
    users = rng.integers(0, 300, 400)
    whole = RankCounts.from_ranks(r, N, "uni9", users=users)
    assert 1 < len(whole.tables()) <= MAX_POOLS
    which = rng.integers(0, parts, 400)
    pieces = [
        RankCounts.from_ranks(r[which == i], N[which == i], "uni9", users=users[which == i])
        for i in range(parts)
        if (which == i).any()
    ]
    assert sum(pieces) == whole
    assert sum(reversed(pieces)) == whole


def test_added_counts_give_the_same_estimates(rng):
    r, N = rng.integers(1, 11, 500), rng.integers(90, 110, 500)
    users = np.arange(500)
    whole = RankCounts.from_ranks(r, N, "uni9", users=users)
    parts = RankCounts.from_ranks(r[:200], N[:200], "uni9", users=users[:200]) + RankCounts.from_ranks(
        r[200:], N[200:], "uni9", users=users[200:]
    )
    for estimator in (fr.MLE(), fr.BiasVariance(), fr.MaxEntropy(), fr.RankEstimate(), fr.Mapping("beta")):
        assert estimator.fit(parts).expect("recall@10") == pytest.approx(
            estimator.fit(whole).expect("recall@10"), rel=1e-12
        )


def test_saved_parts_add_too(rng, tmp_path):
    a, b = (RankCounts.from_ranks(rng.integers(1, 11, 99), rng.integers(50, 900, 99), "uni9") for _ in range(2))
    a.save(tmp_path / "a.npz")
    b.save(tmp_path / "b.npz")
    assert RankCounts.load(tmp_path / "a.npz") + RankCounts.load(tmp_path / "b.npz") == a + b
