"""Targets against every item, and samples that share their negatives."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import fullrank as fr
from fullrank_papers.comparing import Comparisons, compare_all, draw, rows_of
from fullrank_papers.ranks import Ranks
from fullrank_papers.simulate import sampled

USERS, ITEMS = 60, 83


@pytest.fixture
def split():
    rng = np.random.default_rng(0)
    train = sp.csr_matrix(rng.random((USERS, ITEMS)) < 0.15)
    targets = np.array([rng.choice(np.flatnonzero(np.asarray(row.todense()).ravel() == 0)) for row in train])
    return fr.Split(train, np.arange(USERS), targets)


@pytest.mark.parametrize(
    "model", [fr.models.EASE(l2=5.0), fr.models.ItemKNN(neighbours=5), fr.models.Popularity()], ids=str
)
def test_ranks_are_those_of_observe(split, model):
    fitted = model.fit(split.train, progress=False)
    cases = compare_all(fitted, split)
    for candidates in ("all", "unseen"):
        ranks, pool = cases.ranks(candidates)
        low, high = (
            fr.Observation(fitted, split, candidates=candidates, ties=ties, progress=False).advance("full")
            for ties in ("optimistic", "pessimistic")
        )
        assert ((low.above + 1 <= ranks) & (ranks <= high.above + 1)).all()
        np.testing.assert_array_equal(pool, low.pool)


def test_a_model_of_its_own_kind_is_asked_for_all_items(split):
    table = np.random.default_rng(1).normal(size=(USERS, ITEMS))

    class Own:
        n_items = ITEMS

        def score(self, users, items):
            return table[users[:, None], items]

    np.testing.assert_array_equal(rows_of(Own())(np.array([3, 5])), table[[3, 5]])
    cases = compare_all(Own(), split)
    own = table[np.arange(USERS), split.items]
    np.testing.assert_array_equal(cases.ranks("all")[0], 1 + (table > own[:, None]).sum(1))
    assert cases.tied.shape[1] == 0


def known(ranks, tied=0):
    """Targets at item 0 whose items 1 to rank − 1 stand before them, and ``tied`` more have their score."""
    ranks = np.asarray(ranks)
    n = len(ranks)
    ahead, same = np.zeros((n, ITEMS), dtype=bool), np.zeros((n, ITEMS), dtype=bool)
    for case, rank in enumerate(ranks):
        ahead[case, 1:rank] = True
        same[case, rank : rank + tied] = True
    empty = sp.csr_matrix((n, ITEMS))
    ties = np.packbits(same, axis=1)
    return Comparisons(np.packbits(ahead, axis=1), ties if tied else ties[:, :0], np.arange(n), np.zeros(n, dtype=np.int64),
                       empty, ITEMS)  # fmt: skip


@pytest.mark.parametrize("design", ["uni19", "uni19 without replacement", "adaptive 4..39 stop 1"])
def test_draws_follow_the_law(design):
    R = np.repeat([1, 2, 10, 40, ITEMS], 40)
    cases, made = known(R), fr.parse_design(design)
    ranks = Ranks(R, np.full(len(R), ITEMS), "x", cases=cases)
    samples = sampled(ranks, design, 200, 0)
    law = made.law(R, ITEMS, samples.drawn, samples.hits).sum(0)
    assert (np.abs(samples.seen.mean(0) - law) < 5 * np.sqrt(np.maximum(law, 1) / 200)).all()


def test_models_share_their_negatives_and_repeats_do_not():
    R = np.full(300, 40)
    first, other = known(R), known(R)
    design = fr.Sample(19)
    np.testing.assert_array_equal(draw(first, design, "all", 0, 3)[1], draw(other, design, "all", 0, 3)[1])
    assert (draw(first, design, "all", 0, 3)[1] != draw(first, design, "all", 0, 4)[1]).any()
    assert (draw(first, design, "all", 0, 3)[1] != draw(first, design, "all", 1, 3)[1]).any()


def test_what_a_user_has_is_not_drawn_among_unseen_items():
    cases = known(np.full(50, 30))
    train = np.zeros((50, ITEMS))
    train[:, 1:30] = 1  # everything that stands before the target
    cases = Comparisons(cases.ahead, cases.tied, cases.users, cases.targets, sp.csr_matrix(train), ITEMS)
    assert draw(cases, fr.Sample(30, replace=False), "unseen", 0, 0)[1].sum() == 0
    assert draw(cases, fr.Sample(30, replace=False), "all", 0, 0)[1].min() > 0
    ranks, pool = cases.ranks("unseen")
    assert (ranks == 1).all()
    assert (pool == ITEMS - 29).all()


def test_ties_are_broken_anew_in_each_repeat_and_evenly():
    cases = known(np.full(400, 1), tied=60)
    every = [draw(cases, fr.Sample(ITEMS - 1, replace=False), "all", 0, repeat)[1] for repeat in range(5)]
    assert all((one != two).any() for one, two in pairwise(every))
    assert np.mean(every) == pytest.approx(30, abs=4 * 60 / np.sqrt(12 * 2000))  # uniform on 0..60
    ranks, _ = cases.ranks("all")
    np.testing.assert_array_equal(ranks, cases.ranks("all")[0])  # the full ranking breaks them once


def test_as_coded_one_more_is_drawn_and_the_target_is_not_left_out():
    R = np.full(4000, ITEMS)  # every other item stands before the target
    cases = known(R)
    drawn, hits = draw(cases, fr.Sample(9), "all", 0, 0, coded=True)
    assert (drawn == 9).all()
    assert (hits <= 9).all()
    # ten draws, each the target itself with probability 1/N, and at most nine counted
    expected = 9 - ((1 - 1 / ITEMS) ** 10 * 0 + sum(_binomial(10, x) * max(0, 9 - x) for x in range(11)))
    assert hits.mean() == pytest.approx(expected, abs=0.02)
    simulated = sampled(Ranks(R, np.full(len(R), ITEMS), "x"), "uni9, as coded", 5, 0)
    mean = simulated.seen @ simulated.hits / simulated.cases
    assert mean.mean() == pytest.approx(expected, abs=0.02)
    adaptive = sampled(Ranks(np.full(500, 1), np.full(500, ITEMS), "x"), "adaptive 4..39 stop 1, as coded", 2, 0)
    assert adaptive.drawn.tolist() == [39]


def _binomial(n, x):
    from math import comb

    p = 1 - 1 / ITEMS
    return comb(n, x) * p**x * (1 - p) ** (n - x)
