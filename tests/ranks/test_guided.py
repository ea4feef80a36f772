"""Guided designs: parsing, the law of the rest, acting out from beaten places, and counts of ready files."""

from __future__ import annotations

import numpy as np
import pytest

import fullrank as fr
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.groups import LEAD_BINS, lead_bins
from fullrank.ranks.laws import ALL
from fullrank.testing import check_design


@pytest.mark.parametrize(
    ("design", "word"),
    [
        (fr.Guided(), "guided 200, then uni99"),
        (fr.Guided(50, 20, stop_at=10), "guided 50 stop 10, then uni20"),
        (fr.Guided(50, 20, 400), "guided 50, then adaptive 20..400"),
        (fr.Guided(50, 0.01, "all", 5), "guided 50 stop 5, then adaptive 0.01..all"),
        (fr.Guided(50, 20, None, 10, 0.1), "guided 50 stop 10 keep 0.1, then uni20"),
        (fr.Guided(50, 20, deepest=400), "guided 50 to 400, then uni20"),
        (fr.Guided(50, 20, 99, 10, 0.1, 60), "guided 50 to 60 stop 10 keep 0.1, then adaptive 20..99"),
    ],
)
def test_it_prints_and_parses_back(design, word):
    assert str(design) == word
    assert fr.parse_design(word) == design
    assert fr.parse_design("guided") == fr.Guided()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"first": 0}, "`first` must be a whole number of at least 1"),
        ({"stop_at": 0}, "`stop_at` must be a whole number of at least 1"),
        ({"keep_open": 1.5}, "`keep_open` must be a share between 0 and 1, got 1.5"),
        ({"keep_open": "0.5"}, "`keep_open` must be a share between 0 and 1, got '0.5'"),
        ({"deepest": 0}, "`deepest` must be a whole number of at least 1"),
        ({"first": 50, "deepest": 40}, "`deepest` is 40, below `first` = 50"),
        ({"negatives": 0.1}, "`negatives` must be a whole number of at least 1"),
        ({"negatives": 99, "max_negatives": 9}, "`max_negatives` is 9, below `negatives` = 99"),
    ],
)
def test_what_it_refuses(given, message):
    with pytest.raises(ValueError, match=message):
        fr.Guided(**given)


def test_what_stops_the_sample_is_said_once():
    word = "guided 200 stop 10, then adaptive 99..0.1 stop 3"
    with pytest.raises(ValueError, match=r"has 'stop 3' for the sample alone: .* 'guided 200 stop 3, then adaptive"):
        fr.parse_design(word)
    assert fr.parse_design(word.replace("stop 3", "stop 10")) == fr.Guided(200, 99, 0.1, 10)
    assert fr.parse_design("guided 200, then adaptive 99..0.1 stop 1") == fr.Guided(200, 99, 0.1)


@pytest.mark.parametrize("keep", [1 / 3, 1e-5, 1, np.float32(0.1)])
def test_counts_of_a_share_kept_open_load_and_add(keep, tmp_path):
    counts = fr.RankCounts.from_ranks([1], 20, fr.Guided(3, 2, keep_open=keep), ahead=[0], rest=[16], drawn=[2])
    counts.save(tmp_path / "counts.npz")
    assert len(fr.RankCounts.load(tmp_path / "counts.npz") + counts) == 2


@pytest.mark.parametrize(
    "design",
    [fr.Guided(5, 7), fr.Guided(5, 4, 30, stop_at=2), fr.Guided(5, 4, "all", 2), fr.Guided(5, 7, deepest=9)],
    ids=str,
)
def test_what_is_drawn_from_the_rest_follows_the_law(design):
    """On a tiny catalogue: B of a rest of 40 are better, acted out from places in the guide's order."""
    rng = np.random.default_rng(0)
    N, ahead, B, cases = 46, 1, 4, 4000
    places = [
        np.append(rng.choice(5, ahead, replace=False) + 1, rng.choice(40, B, replace=False) + 6) for _ in range(cases)
    ]
    a, rest, m, x = design.act_out(places, N, rng)
    drawn, hits = design.outcomes(41)
    law = design.law([B + 1], 41, drawn, hits)[0]
    every = rest == 0
    assert (a[~every] == ahead).all()
    assert (a[every] == ahead + B).all()
    seen = np.zeros(len(law))
    for size, hit in zip(np.where(every, ALL, m), np.where(every, B, x), strict=True):
        seen[(drawn == size) & (hits == hit)] += 1
    likely = law * cases > 5
    statistic = ((seen - cases * law)[likely] ** 2 / (cases * law[likely])).sum()
    assert seen[law == 0].sum() == 0
    assert statistic < 3 * likely.sum() + 12


def test_it_is_a_design_of_the_rest():
    check_design(fr.Guided(5, 7))


def test_acting_out_closes_opens_and_compares_all():
    beaten = [[1, 2, 9], [4, 7], [], [1, 2]]
    ahead, rest, drawn, hits = fr.Guided(5, 3, stop_at=2).act_out(beaten, [11, 11, 11, 5], np.random.default_rng(0))
    assert ahead.tolist() == [2, 1, 0, 2]
    assert rest.tolist() == [5, 5, 5, 0]  # closed after five, one step; open after five; all four compared
    assert drawn.tolist() == [0, 3, 3, 0]
    assert hits[0] == hits[3] == 0
    assert fr.Guided(100, stop_at=2).steps == (16, 24, 36, 54, 81, 100)
    late = fr.Guided(100, 3, stop_at=2).act_out([[1, 17, 20, 30], [1, 99]], 200, np.random.default_rng(0))
    assert late[0].tolist() == [3, 2]
    assert late[1].tolist() == [199 - 24, 199 - 100]  # at the end of the step
    everything = fr.Guided(10, 3).act_out(beaten[:3], 11, np.random.default_rng(0))
    assert [each.tolist() for each in everything] == [[3, 2, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    with pytest.raises(ValueError, match=r"`beaten` .* places in 1..n_items − 1"):
        fr.Guided().act_out([[0]], 11, np.random.default_rng(0))


def test_acting_out_goes_on_where_something_is_found():
    design = fr.Guided(8, 3, stop_at=3, deepest=40)
    assert design.marks == (8, 16, 32)
    beaten = [[1, 4], [1, 5], [5, 9], [5, 12], [5, 16, 20, 21], [6, 9, 10], [7, 14, 60]]
    ahead, rest, drawn, _ = design.act_out(beaten, 100, np.random.default_rng(0))
    # quiet in 5..8; in 9..16; in 17..32 after something in 9..16; closed after 24, after 12; quiet after 32
    assert (99 - rest).tolist() == [8, 16, 32, 32, 24, 12, 32]
    assert ahead.tolist() == [2, 2, 2, 2, 4, 3, 2]
    assert (drawn > 0).tolist() == [True, True, True, True, False, False, True]
    short = design.act_out(beaten[:4], 22, np.random.default_rng(0))
    assert short[1].tolist() == [13, 5, 0, 0]  # no deeper than there are candidates


def test_cases_that_are_kept_open_make_auc_known():
    """Whatever the guide: the mean over many draws is the truth, and the interval holds it as often as it says."""
    rng = np.random.default_rng(2)
    N, cases, design = 200, 400, fr.Guided(20, 10, stop_at=3, keep_open=0.25)
    places = [np.sort(rng.choice(N - 1, rng.integers(0, N // 2), replace=False)) + 1 for _ in range(cases)]
    true = float(np.mean([1 - len(each) / (N - 1) for each in places]))
    values, inside = [], []
    for _ in range(150):
        ahead, rest, drawn, hits = design.act_out(places, N, rng)
        closed = design.closed(ahead)
        assert 0 < (closed & (drawn > 0)).sum() < closed.sum()
        counts = RankCounts.from_ranks(hits + 1, N, design, drawn=drawn, ahead=ahead, rest=rest, recent=ahead)
        dist = fr.LogSpline().fit(counts)
        low, high = dist.interval("auc")
        assert low <= dist.expect("auc") <= high
        values.append(dist.expect("auc"))
        inside.append(low <= true <= high)
        assert dist.expect("recall@3") <= 1
    assert abs(np.mean(values) - true) < 4 * np.std(values) / np.sqrt(len(values))
    assert 0.88 <= np.mean(inside) <= 0.99


def ready(**change):
    given = {"ranks": [2, 1, 1], "n_items": 1000, "design": fr.Guided(200, 99, stop_at=10), "ahead": [3, 10, 0],
             "rest": [799, 950, 799], "recent": [1, 5, 0]}  # fmt: skip
    return RankCounts.from_ranks(**{**given, **change})


def test_ready_files(tmp_path):
    counts = ready()
    assert str(counts) == "3 cases of guided 200 stop 10, then uni99 among 1,000 items (unseen)"
    assert counts.items_scored == 200 + 99 + 49 + 200 + 99
    assert counts.has_compared_part
    assert sorted(counts.closed.tolist()) == [False, False, True]
    counts.save(tmp_path / "guided.npz")
    assert RankCounts.load(tmp_path / "guided.npz") == counts
    assert counts + ready() == ready() + counts
    assert ready(recent=None).column("recent").min() == -1
    deeper = ready(design=fr.Guided(200, 99, stop_at=10, deepest=400), rest=[599, 950, 799])
    assert deeper.items_scored == counts.items_scored + 200
    with pytest.raises(ValueError, match="`rest` is 300 at case 0: it must be at least n_items − 1 − 400"):
        ready(design=fr.Guided(200, 99, stop_at=10, deepest=400), rest=[300, 950, 799])
    few = ready(ranks=[2], n_items=210, ahead=[3], rest=[9], recent=[0])  # 99 of 9 are all of them
    assert few.all_compared.all()
    assert few.above.tolist() == [4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"ahead": None, "rest": None},
            "`ahead` and `rest` are missing: 'guided 200 stop 10, then uni99' compares a part",
        ),
        ({"rest": [700, 950, 799]}, "`rest` is 700 at case 0: it must be at least n_items − 1 − 200"),
        ({"rest": [850, 950, 799]}, "`rest` is 850 at case 0: it must be n_items − 1 − 200 in an open case"),
        ({"recent": [4, 5, 0]}, "`recent` is 4 at case 0: it must be between 0 and `ahead`"),
        ({"drawn": [0, 0, 99]}, "`ranks` is 2 at case 0: it must be 1 where nothing was drawn"),
        ({"drawn": [99, 0, 0]}, "`drawn` is 0 at case 2: it must be at least 1 in an open case"),
    ],
)
def test_files_that_cannot_be(change, message):
    with pytest.raises(ValueError, match=message):
        ready(**change)


def test_auc_weighs_the_closed_cases_that_were_drawn_from():
    design = fr.Guided(4, 5, stop_at=2)
    counts = RankCounts.from_ranks(
        [2, 1, 3, 1], 21, design, drawn=[5, 0, 5, 0], ahead=[0, 2, 2, 2], rest=[16, 17, 16, 18], recent=[0, 0, 0, 0]
    )
    closed = 1 - (2 + 16 * 2 / 5) / 20
    assert counts.auc == pytest.approx(((1 - 16 / 5 / 20) + 3 * closed) / 4)
    with pytest.raises(
        ValueError, match=r"AUC is unknown: in 1 case no .* sample it too, in a share of them at least \(`keep_open`\)"
    ):
        _ = RankCounts.from_ranks([2, 1], 21, design, ahead=[0, 2], rest=[16, 17]).auc


def test_cases_are_binned_by_how_many_are_ahead_and_how_late():
    ahead, recent = np.array([0, 1, 3, 4, 7, 9, 9, 9, 5, 9]), np.array([0, 0, 0, 0, 0, 0, 1, 9, 5, -1])
    bins = lead_bins(ahead, recent).tolist()
    assert bins == [0, 7, 7, 12, 13, 13, 8, 4, 3, LEAD_BINS - 1]
    assert len(set(bins)) == 8
    every = [lead_bins(np.array([a]), np.array([r]))[0] for a in range(80) for r in range(-1, a + 1)]
    assert set(every) == set(range(LEAD_BINS))


def test_what_was_compared_one_by_one_is_counted():
    assert ready().items_compared == 200 + 49 + 200
    assert ready(ranks=[2, 1, 1], drawn=[99, 0, 99]).closed_early.sum() == 1
