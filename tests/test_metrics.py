from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fullrank as fr
import naive
from fullrank.metrics import ALIASES

NAMES = ("recall", "precision", "ndcg", "ap", "auc")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [1, 3, 10, None])
def test_gain_equals_the_definition(name, k):
    N = 50
    metric = fr.parse_metric(name) if k is None else fr.parse_metric(name) @ k
    expected = [naive.gain(name, R, k, N) for R in range(1, N + 1)]
    np.testing.assert_allclose(metric.gain(np.arange(1, N + 1), N), expected, rtol=1e-14)


@given(
    st.integers(2, 40),
    st.data(),
    st.sampled_from([1, 2, 5, 10, None]),
    st.sampled_from(["recall", "precision", "ndcg", "ap", "auc", "hit", "mrr"]),
)
def test_contributions_of_several_targets_add_up_to_the_metric_of_the_list(N, data, k, name):
    T = data.draw(st.integers(1, min(N - 1, 6)))
    places = sorted(data.draw(st.lists(st.integers(0, N - 1), min_size=T, max_size=T, unique=True)))
    relevant = np.zeros(N, dtype=bool)
    relevant[places] = True
    metric = fr.parse_metric(name) if k is None else fr.parse_metric(name) @ k
    if name == "auc" and k is not None:
        metric = fr.AUC
    order = np.arange(1, T + 1)
    inner = np.array(places) + 1 - (order - 1)  # rank among the non-relevant plus itself
    total = metric.gain(inner, N - T + 1, order, T).sum()
    assert total == pytest.approx(naive.full_list_metrics(relevant, k)[name], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("word", sorted(ALIASES))
@pytest.mark.parametrize("k", [None, 1, 10, 250])
def test_words_parse_print_and_parse_back(word, k):
    text = word if k is None else f"{word}@{k}"
    metric = fr.parse_metric(text)
    assert str(metric) == text == repr(metric)
    assert fr.parse_metric(str(metric)) == metric
    assert fr.parse_metric(text.upper()) == metric
    assert hash(fr.parse_metric(text.title())) == hash(metric)
    assert metric.k == k
    assert metric.uncut == (k is None)


def test_values_compare_as_the_numbers_they_are_for_one_target():
    assert fr.parse_metric("hr@10") == fr.Recall @ 10 == fr.Hit @ 10
    assert fr.parse_metric("mrr") == fr.AP == fr.MRR == fr.parse_metric("map")
    assert fr.Recall @ 10 != fr.Recall @ 11
    assert fr.Recall @ 10 != fr.NDCG @ 10
    assert len({fr.Recall @ 10, fr.Hit @ 10, fr.parse_metric("HIT_RATE@10")}) == 1
    assert fr.parse_metric("Hit Rate @ 10") == fr.parse_metric("hit-rate@10")


def test_hit_and_mrr_part_from_recall_and_ap_with_several_targets():
    assert (fr.Hit @ 10).gain([4], order=2, targets=3) == 0
    assert (fr.Recall @ 10).gain([4], order=2, targets=3) == pytest.approx(1 / 3)
    assert fr.MRR.gain([4], order=1, targets=3) == 1 / 4
    assert fr.AP.gain([4], order=1, targets=3) == pytest.approx(1 / 12)
    # map stays the mean over targets, whatever T
    assert fr.parse_metric("map").gain([4], order=1, targets=3) == pytest.approx(1 / 12)


def test_lists_of_cut_offs():
    assert fr.NDCG @ [5, 10] == (fr.NDCG @ 5, fr.NDCG @ 10)
    assert fr.NDCG @ range(1, 4) == fr.parse_metrics("ndcg@1,2,3")
    assert fr.parse_metrics(["ndcg@5, 10", fr.AUC]) == (fr.NDCG @ 5, fr.NDCG @ 10, fr.AUC)
    assert fr.parse_metric(fr.AP @ 3) == fr.AP @ 3
    assert (fr.NDCG @ np.int64(7)).k == 7
    assert type((fr.NDCG @ np.int64(7)).k) is int


def test_a_function_of_ones_own():
    mine = fr.Metric("mine", lambda R: 1 / R**2) @ 3
    assert str(mine) == "mine@3"
    np.testing.assert_allclose(mine.gain([1, 2, 3, 4]), [1, 1 / 4, 1 / 9, 0])
    np.testing.assert_allclose(mine.gain([1], order=2, targets=2), [1 / 8])
    counts = fr.RankCounts.from_ranks([1, 2, 9], 20, "full")
    assert fr.MLE().fit(counts).expect(mine) == pytest.approx((1 + 1 / 4) / 3)
    constant = fr.Metric("constant", lambda R: 1.0)
    np.testing.assert_array_equal(constant.gain([1, 5]), [1, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ngcd@10", r"unknown metric 'ngcd@10'; did you mean 'ndcg@10'\?"),
        ("recal@5", r"did you mean 'recall@5'\?"),
        ("zzz", r"the names are ap, auc"),
        ("ndcg@ten", r"cannot read metric 'ndcg@ten'"),
        ("ndcg@", r"cannot read metric"),
        ("ndcg@-3", r"cannot read metric"),
        ("ndcg@1.5", r"cannot read metric"),
        ("", r"cannot read metric"),
        ("ndcg@0", r"`k` must be a positive whole number, got 0"),
        ("ndcg@5,10", r"names 2 metrics: use fr.parse_metrics"),
    ],
)
def test_unreadable_words_are_refused_with_a_hint(text, message):
    with pytest.raises(ValueError, match=message):
        fr.parse_metric(text)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "10"])
def test_cut_offs_that_are_none(k):
    with pytest.raises(ValueError, match="`k` must be a positive whole number"):
        fr.NDCG @ k


def test_misuse_is_one_sentence():
    with pytest.raises(ValueError, match="needs a function of the rank"):
        fr.Metric("mine")
    with pytest.raises(ValueError, match="`metrics` is empty"):
        fr.parse_metrics([])
    with pytest.raises(TypeError, match="`metrics` must be words like 'ndcg@10'"):
        fr.parse_metrics(3)
    with pytest.raises(ValueError, match="AUC depends on the number of candidates: pass `n_items`"):
        fr.AUC.gain([1])
    with pytest.raises(ValueError, match="Precision without @k depends on the number of candidates"):
        fr.Precision.gain([1])
    with pytest.raises(ValueError, match="it must return one number per rank"):
        fr.Metric("mine", lambda R: np.ones(7)).gain([1, 2])


def test_a_table_is_a_function_of_ones_own(rng):
    table = np.append(0.0, 1 / np.arange(1, 11) ** 2)
    looked_up, computed = fr.Metric("table", lambda R: table[R]) @ 10, fr.Metric("square", lambda R: 1 / R**2) @ 10
    np.testing.assert_array_equal(looked_up.gain([1, 10, 11, 10**12]), computed.gain([1, 10, 11, 10**12]))
    for design, drawn in (("full", None), ("uni99", None), (fr.Guided(200, 99), 99)):
        behind = {} if drawn is None else {"ahead": rng.integers(0, 3, 200), "rest": 4799, "drawn": drawn}
        counts = fr.RankCounts.from_ranks(rng.integers(1, 40, 200), 5000, design, **behind)
        one, two = (fr.LogSpline().fit(counts) for _ in range(2))
        assert one.expect(looked_up) == two.expect(computed)
        assert one.interval(looked_up) == two.interval(computed)
        assert one.bounds(looked_up) == two.bounds(computed)
    powers = fr.Metric("powers", lambda R: R**-1 + 2**-R + 1e30 / R**7)  # none of which integers have
    assert powers.gain([1, 10**6]) == pytest.approx([1.5 + 1e30, 1e-6 + 1e-12])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda R: 1 if R < 5 else 0, r"ValueError: The truth value of an array.*"),
        (lambda R: np.ones(3)[R], r"IndexError: index 5 is out of bounds for axis 0 with size 3"),
        (lambda: 1, r"TypeError: .* takes 0 positional arguments but 1 was given"),
        (lambda R: ["a"] * len(R), r"ValueError: could not convert string to float: 'a'"),
    ],
)
def test_a_function_that_fails_is_named_and_told_what_it_must_do(function, said):
    wanted = rf"^the function of metric `mine` failed \({said}\): it must take an array of one-based ranks and return"
    with pytest.raises(ValueError, match=wanted):
        (fr.Metric("mine", function) @ 10).gain([1, 5])


@pytest.mark.parametrize("metric", ["ndcg@10", "recall@5", "ap", "auc", fr.Metric("mine", lambda R: 1 / R)], ids=str)
@pytest.mark.parametrize("rank", [0, -3, np.nan])
def test_ranks_are_one_based(metric, rank):
    with pytest.raises(ValueError, match=f"`ranks` must be one-based, 1 for the first place, got {rank:g}"):
        fr.parse_metric(metric).gain([1, rank], n_items=100)


def test_own_metric_gives_a_finite_number_up_to_its_cut():
    """What lies beyond the cut-off is never asked for, so 1/(R−20) @ 10 is fine and log(R−5) @ 10 is not."""
    with np.errstate(all="ignore"):
        assert (fr.Metric("far", lambda R: 1 / (R - 20)) @ 10).gain([10, 20]).tolist() == [-0.1, 0.0]
        with pytest.raises(ValueError, match=r"`odd` returned nan for rank 2: it must return a finite number"):
            (fr.Metric("odd", lambda R: np.log(R - 5)) @ 10).gain([8, 2])


@pytest.mark.parametrize("text", ["recall@99999999999999999999999", "ndcg@9223372036854775808", "recall@" + "9" * 5000])
def test_cut_offs_beyond_any_catalogue_are_refused(text):
    with pytest.raises(ValueError, match=r"cannot read metric|positive whole number"):
        fr.parse_metric(text)
