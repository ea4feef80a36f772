"""Outcomes (ahead, rest, drawn, hits): a part of the candidates compared one by one, the rest sampled."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fullrank as fr
from fullrank.estimators import ESTIMATORS, parse_estimator
from fullrank.estimators._grid import Grid
from fullrank.ranks.counts import MAX_POOLS, RankCounts
from fullrank.ranks.design import ALL

DESIGNS = [
    (fr.Sample(9), {}),
    (fr.Sample(9, replace=False), {}),
    (fr.Adaptive(4, 9, stop_at=1), {"drawn": [4, 9, 4, 9]}),
    (fr.Adaptive(4, "all", stop_at=1, replace=False), {"drawn": [4, 59, 4, 9]}),
    (fr.Top(3, 9), {"drawn": [9, 9, 9, 9]}),
]


def some(**more):
    given = {"n_items": [100, 100, 80, 90], "design": "uni9", "ahead": [3, 0, 5, 2], "rest": [60, 60, 0, 70]}
    return RankCounts.from_ranks(**{"ranks": [2, 1, 1, 1], "drawn": [9, 9, 0, 0], **given, **more})


@pytest.mark.parametrize(("design", "more"), DESIGNS, ids=str)
def test_nothing_compared_is_what_it_always_was(design, more):
    ranks, N = [2, 1, 3, 2], np.array([60, 60, 70, 65])
    plain = RankCounts.from_ranks(ranks, N, design, **more)
    assert RankCounts.from_ranks(ranks, N, design, ahead=0, rest=N - 1, **more) == plain
    assert not plain.has_compared_part


def test_everything_compared_is_the_rank_whatever_the_design():
    exact = RankCounts.from_ranks([5, 1, 100], 100, "full")
    assert RankCounts.from_ranks([1, 1, 1], 100, "full", ahead=[4, 0, 99], rest=0) == exact
    sampled = RankCounts.from_ranks([1, 1, 1], 100, "uni9", ahead=[4, 0, 99], rest=0, drawn=0)
    assert sampled.all_compared.all()
    for estimator in (fr.Naive(), fr.MLE(), fr.LogSpline()):
        for metric in ("ndcg@10", "auc", "ap"):
            assert estimator.fit(sampled).expect(metric) == estimator.fit(exact).expect(metric)


def test_a_rest_of_which_all_was_drawn_is_compared():
    counts = RankCounts.from_ranks(
        [3], 100, fr.Adaptive(4, "all", stop_at=1, replace=False), drawn=[20], ahead=[5], rest=[20]
    )
    assert counts.all_compared.all()
    assert counts.above.tolist() == [7]
    np.testing.assert_array_equal(counts.keys, RankCounts.from_ranks([8], 100, counts.design, drawn=[99]).keys)
    assert RankCounts.from_ranks([3], 100, "full", ahead=[5], rest=[20]) == RankCounts.from_ranks([8], 100, "full")


def test_what_counts_say_of_a_compared_part():
    counts = some()
    assert counts.has_compared_part
    assert sorted(counts.all_compared.tolist()) == [False, False, False, True]
    assert counts.items_scored == (39 + 9) + (39 + 9) + 79 + 19  # compared one by one, and drawn
    known, unknown = counts.known()
    assert len(known) == 1
    assert len(unknown) == 3
    assert not known.has_compared_part
    assert known.above.tolist() == [5]
    means = (unknown.pool_weight - unknown.weight - unknown.compared_weight) / unknown.weight
    assert sorted(means) == [60, 60, 70]


def test_closed_cases_have_no_auc():
    with pytest.raises(
        ValueError, match=r"AUC is unknown: in 1 case no negative was sampled from the rest; sample it too\."
    ):
        _ = some().auc
    drawn = RankCounts.from_ranks([1, 3], 100, "uni9", ahead=[4, 0], rest=[50, 99])
    assert drawn.auc == pytest.approx(1 - np.mean([4 / 99, 2 / 9]))


@pytest.mark.parametrize(
    "design",
    [fr.Sample(9), fr.Sample(9, False), fr.Adaptive(4, 19, 2, replace=False), fr.Adaptive(4, "all", 2, replace=False)],
    ids=str,
)
def test_auc_is_unbiased_given_how_many_of_the_rest_are_better(design):
    N, a, rest = 100, 7, 60
    drawn, hits = design.outcomes(rest + 1)
    B = np.arange(rest + 1)
    law = design.law(B + 1, rest + 1, drawn, hits)
    each = [
        RankCounts.from_ranks([x + 1], N, design, drawn=[rest if m == ALL else m], ahead=[a], rest=[rest]).auc
        for m, x in zip(drawn, hits, strict=True)
    ]
    np.testing.assert_allclose(law @ np.array(each), 1 - (a + B) / (N - 1), atol=1e-10)


def test_they_add_save_and_load(tmp_path):
    rng = np.random.default_rng(0)
    N, rest = rng.integers(5000, 9000, 3000), rng.integers(0, 4000, 3000)
    ahead, hits = rng.integers(0, 5, 3000), rng.integers(0, 9, 3000) * (rest > 0)
    drawn, users = 9 * (rest > 0), rng.integers(0, 500, 3000)

    def counts(part):
        return RankCounts.from_ranks(
            hits[part] + 1, N[part], "uni9", drawn=drawn[part], ahead=ahead[part], rest=rest[part], users=users[part]
        )

    whole = counts(slice(None))
    parts = [counts(slice(first, first + 700)) for first in range(0, 3000, 700)]
    assert sum(parts) == sum(parts[::-1]) == whole
    for name in ("pool", "rest"):
        bins = np.unique(whole.column(name))
        assert len(bins[bins > 0]) <= MAX_POOLS
    assert whole.cases[whole.all_compared].sum() == (rest == 0).sum()
    unknown = ~whole.all_compared
    np.testing.assert_allclose(
        (whole.pool_weight - whole.weight - whole.compared_weight)[unknown].sum(), rest[rest > 0].sum()
    )
    whole.save(tmp_path / "counts.npz")
    assert RankCounts.load(tmp_path / "counts.npz") == whole
    weighted = RankCounts.from_ranks(
        hits + 1, N, "uni9", drawn=drawn, ahead=ahead, rest=rest, users=users, weights=(users % 2).astype(float)
    )
    odd = users % 2 == 1
    assert weighted == counts(odd)


@pytest.mark.parametrize("name", sorted({*ESTIMATORS, "mn_mle"} - {"logspline", "mle"}))
def test_estimators_of_the_rank_refuse_it_by_name(name):
    estimator = parse_estimator(name)
    kind = type(estimator).__name__
    with pytest.raises(
        ValueError, match=f"^`{kind}` cannot use these counts: a part of the candidates was compared one by"
    ):
        estimator.fit(some())


def test_there_are_no_tables_of_it():
    with pytest.raises(ValueError, match="there are no tables of these counts: a part of the candidates was compared"):
        some().tables()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rest": None}, "`rest` is missing: `ahead` alone does not say how much was compared"),
        ({"ahead": None}, "`ahead` is missing: `rest` alone does not say how much was compared"),
        ({"rest": [60, 100, 0, 70]}, "`rest` is 100 at case 1: it must be between 0 and n_items − 1"),
        ({"rest": [60, -1, 0, 70]}, "`rest` is -1 at case 1: it must be between 0 and n_items − 1"),
        ({"ahead": [40, 0, 5, 2]}, "`ahead` is 40 at case 0: it must be between 0 and the number compared"),
        ({"ahead": [-1, 0, 5, 2]}, "`ahead` is -1 at case 0: it must be between 0 and the number compared"),
        ({"ranks": [2, 1, 2, 1]}, "`ranks` is 2 at case 2: it must be 1 where nothing was drawn"),
        ({"ranks": [2, 1, 1, 3]}, "`ranks` is 3 at case 3: it must be 1 where nothing was drawn"),
        ({"drawn": [9, 9, 9, 0]}, "`drawn` is 9 at case 2: it must be 0 where `rest` is 0"),
        ({"ranks": [11, 1, 1, 1]}, "`ranks` is 11 at case 0: with 9 negatives ranks go up to 10"),
        ({"design": fr.Sample(9, False), "drawn": [61, 9, 0, 0]}, "`drawn` is 61 at case 0: it must be no more than"),
        ({"rest": [60, 60]}, "`rest` has 2 entries for 4 cases"),
    ],
)
def test_parts_that_cannot_be(change, message):
    with pytest.raises(ValueError, match=message):
        some(**change)


@pytest.mark.parametrize(
    "metric", ["recall@10", "ndcg@10", "ap@20", "precision@5", "ndcg", "ap", "auc", "mrr@10", "hit@10"]
)
@pytest.mark.parametrize(("ahead", "order", "targets"), [(0, 1, 1), (4, 1, 1), (9, 1, 3), (3, 2, 3), (30, 1, 1)])
def test_gains_are_those_of_the_full_list(metric, ahead, order, targets):
    """R = j + ahead + B, and AUC over all non-relevant candidates."""
    metric, N, rest = fr.parse_metric(metric), 90, 50
    B = np.arange(rest + 1)
    wanted = metric.gain(1 + ahead + B, N, order, targets)
    np.testing.assert_array_equal(metric.gain(B + 1, N, order, targets, ahead), wanted)
    head = Grid.dense(rest + 1).mean_gain(metric, N, order, targets, ahead)
    np.testing.assert_allclose(np.pad(head, (0, rest + 1 - len(head))), wanted, atol=1e-15)
    if metric.name == "ndcg" and targets == 1:
        R = order + ahead + B
        own = [0.0 if metric.k is not None and metric.k < each else 1 / math.log2(each + 1) for each in R]
        np.testing.assert_allclose(wanted, own)
    wide = Grid(np.append(np.arange(1, 22), 31), np.append(np.arange(1, 21), [30, 51]))
    means = wide.mean_gain(metric, N, order, targets, ahead)
    each = [wanted[low - 1 : high].mean() for low, high in zip(wide.lo, wide.hi, strict=True)]
    np.testing.assert_allclose(np.pad(means, (0, 22 - len(means))), each, rtol=2e-3, atol=1e-12)
