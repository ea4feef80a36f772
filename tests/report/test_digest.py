"""What a report says: bounded, cleaned, and true."""

import itertools
import math

import numpy as np
import pytest

import fullrank as fr
from fullrank.report.digest import Digest, blind_spot, exact_to, rank_bins, sizes
from fullrank.report.words import clean, decimals, number, percent


@pytest.mark.parametrize("design", ["uni99", "uni9", "uni99 without replacement", "uni499 without replacement"])
def test_the_blind_spot_ends_where_a_target_is_beaten_more_often_than_not(design):
    N = 20_000
    counts = fr.RankCounts.from_ranks([1, 2], n_items=N, design=design)
    first, last = blind_spot(counts)
    assert first == 1
    m = counts.design.negatives
    inside, outside = counts.design.law([last, last + 2], N, [m], [0])[:, 0]
    assert inside >= 0.5 > outside
    assert design != "uni99" or last == 140


def test_there_is_no_blind_spot_where_everything_is_seen():
    assert blind_spot(fr.RankCounts.from_ranks([1, 2], n_items=100, design="full")) is None
    assert blind_spot(fr.RankCounts.from_ranks([1, 2], n_items=100, design="uni99 without replacement")) is None
    assert blind_spot(fr.RankCounts.from_ranks([1, 1], n_items=1, design="full")) is None


def test_under_top_the_blind_spot_begins_where_exact_ranks_end():
    def top(k, n_items=20_000):
        return fr.RankCounts.from_ranks([1, 7, 50], n_items, f"top{k}", drawn=[0, 0, 99] if k < 500 else [0, 0, 0])

    assert (exact_to(top(10)), blind_spot(top(10))) == (10, (11, 140))
    assert (exact_to(top(200)), blind_spot(top(200))) == (200, None)
    assert exact_to(fr.RankCounts.from_ranks([1, 2], 100, "uni99")) == 0


def test_the_blind_spot_of_an_adaptive_design_is_that_of_its_largest_sample(adaptive):
    counts = adaptive.estimates["A"].counts
    assert counts.sizes.max() == 79
    assert blind_spot(counts) == blind_spot(fr.RankCounts.from_ranks([1], n_items=1200, design="uni79"))


def test_bins_of_ranks_cover_every_rank_once_and_add_to_one(two):
    bins = rank_bins(two.estimates["A"])
    assert bins[0].low == 1
    assert bins[-1].high == 1200
    assert all(a.high + 1 == b.low for a, b in itertools.pairwise(bins))
    assert math.isclose(sum(each.share for each in bins), 1, rel_tol=1e-9)
    dist = two.estimates["A"]
    for each in bins[:6]:
        assert each.share == pytest.approx(dist.mass(np.arange(each.low, each.high + 1)).sum(), abs=1e-12)


def test_curves_are_the_estimates_own(two):
    shown = Digest(two)
    assert [str(family) for family in shown.families] == ["ndcg", "recall"]
    curve = shown.curves(fr.NDCG)[0]
    assert curve.ks == tuple(range(1, 51))
    np.testing.assert_allclose(curve.values, two.estimates["A"].curve("ndcg", 50))


def test_curves_stop_at_the_last_rank(exact):
    few = fr.correct({"A": [1, 2, 3]}, n_items=7, design="full", metrics="recall@100")
    assert Digest(few).curves(fr.Recall)[0].ks == tuple(range(1, 8))


def test_sizes_add_up(adaptive):
    found = sizes(adaptive.estimates["A"].counts)
    assert sum(each.cases for each in found) == 400
    assert sum(each.scored for each in found) == adaptive.rows[0]["items_scored"]
    assert [each.drawn for each in found] == sorted(each.drawn for each in found)


class WithInterval:
    def __init__(self, estimate, width):
        self.estimate, self.width = estimate, width

    def __getattr__(self, name):
        return getattr(self.estimate, name)

    def interval(self, metric, level=0.95, target="cases"):
        if self.width is None:
            raise NotImplementedError
        value = self.estimate.expect(metric)
        return value - self.width, value + self.width


def test_bands_come_from_intervals_and_are_missed_without_fuss(two):
    for width, found in ((0.01, 11), (None, 0), (math.nan, 0)):
        report = fr.Report(two.rows, estimates={"A": WithInterval(two.estimates["A"], width)})
        assert len(Digest(report).curves(fr.NDCG)[0].band) == found


# ------------------------------------------------------------------------------------------------ bounds and text


def test_models_are_shown_best_first_and_counted(rows):
    values = {f"m{i}": i / 1000 for i in range(300)}
    shown = Digest(fr.Report(rows(values)))
    assert shown.models[:3] == ("m299", "m298", "m297")
    assert len(shown.models) == 40
    assert shown.total_models == 300


def test_a_model_without_the_first_metric_comes_last(rows):
    report = fr.Report([*rows({"A": 0.1}), *rows({"B": 0.9}, metric="recall@5"), *rows({"C": 0.2})])
    assert Digest(report).models == ("C", "A", "B")


def test_labels_stay_distinct_after_cleaning(rows):
    names = ["x" * 100 + "1", "x" * 100 + "2", "a\x00b", "a b", ""]
    shown = Digest(fr.Report(rows(dict.fromkeys(names, 0.1))))
    assert len(set(shown.labels.values())) == 5
    assert all(0 < len(label) <= 60 for label in shown.labels.values())


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("EASE", "EASE"),
        ("EASE\x00\n λ=1\u202e", "EASE λ=1"),
        ("  two\n lines\t", "two lines"),
        ("null\x00byte", "null byte"),
        ("\ud800 lone", "lone"),
        ("\u202eevil", "evil"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("", "(no name)"),
        ("\x07", "(no name)"),
        ("y" * 10**6, "y" * 59 + "…"),
        (None, "None"),
    ],
)
def test_clean(raw, expected):
    assert clean(raw) == expected
    assert clean(raw).encode()


def test_numbers_have_sensible_digits():
    assert number(0.12345, 3) == "0.123"
    assert number(-0.5, 2) == "−0.50"
    assert number(None) == "–"
    assert number(1e12, 4) == "1e+12"
    assert number(0.0000123, 4) == "1.2e−05"
    assert number(0.0, 4) == "0.0000"
    assert [decimals(each) for each in ([12.3], [0.0], [0.0123, 0.4], [0.00123], [812.5], [])] == [1, 4, 4, 5, 0, 4]
    assert [percent(share) for share in (0.5, 0.05, 0.0001, 0.0, 1.0)] == ["50%", "5.0%", "0.01%", "0.0%", "100%"]
