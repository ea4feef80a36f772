"""Comparing models: against plain formulas, exactness, and simulation with known truth."""

import dataclasses
import itertools
import json
import sys

import numpy as np
import pytest

import fullrank as fr
from fullrank.evaluation.compare import _foreseen, _spread_below, comparisons, holm
from fullrank.evaluation.pairing import (
    Influence,
    case_spread,
    covariances,
    expected_counts,
    influences,
    same_cases,
)
from fullrank.report.comparison import Comparison

N = 2000


def true_ranks(shape, cases=1500, seed=0, n_items=N):
    rng = np.random.default_rng(seed)
    return np.floor(n_items ** rng.beta(shape / 3, 1, size=cases)).astype(int)


def sampled(ranks, negatives=99, seed=0, n_items=N, users=None):
    rng = np.random.default_rng([seed, 5])
    hits = rng.binomial(negatives, (ranks - 1) / (n_items - 1))
    return fr.RankCounts.from_ranks(hits + 1, n_items, f"uni{negatives}", users=users)


def ndcg(ranks):
    return float((fr.NDCG @ 10).gain(ranks).mean())


@pytest.fixture(scope="module")
def three():
    return {
        "A": sampled(true_ranks(3.0)),
        "B": sampled(true_ranks(3.05, seed=4)),
        "C": sampled(true_ranks(4.5, seed=2)),
    }


# ------------------------------------------------------------------------------------------------ the pieces


def test_holm_is_the_textbook_procedure():
    rng = np.random.default_rng(0)
    for _ in range(20):
        p = rng.random(6) ** 3
        order = np.argsort(p)
        naive, largest = np.empty(6), 0.0
        for place, index in enumerate(order):
            largest = max(largest, (6 - place) * p[index])
            naive[index] = min(largest, 1.0)
        np.testing.assert_allclose(holm(p), naive)


def test_block_influence_is_exact_for_known_ranks():
    ranks = true_ranks(3.0)
    counts = fr.RankCounts.from_ranks(ranks, N, "full")
    (found,) = influences(fr.LogSpline().fit(counts), [fr.NDCG @ 10])
    from fullrank.ranks.counts import user_blocks

    left = (fr.NDCG @ 10).gain(ranks) - ndcg(ranks)
    np.testing.assert_allclose(found.blocks, np.bincount(user_blocks(np.arange(1500)), left, 256) / 1500, atol=1e-12)
    assert found.sampled == 0.0


@pytest.mark.parametrize("design", ["uni299", "uni999"])
def test_influence_predicts_what_a_block_does_to_the_fit(design):
    """Against refitting without each of a few groups of blocks."""
    counts = sampled(true_ranks(3.0, 4000), int(design[3:]))
    fit = fr.LogSpline()
    (found,) = influences(fit.fit(counts), [fr.NDCG @ 10])
    groups = np.arange(256).reshape(16, 16)
    whole = fit.fit(counts).expect("ndcg@10")
    without = np.array(
        [fit.fit(counts._where(~np.isin(counts.column("block"), group))).expect("ndcg@10") - whole for group in groups]
    )
    predicted = -found.blocks.reshape(16, 16).sum(1)
    assert np.corrcoef(without, predicted)[0, 1] > 0.93
    assert 0.6 < predicted.std() / without.std() < 1.25  # too small would only cost width, too large would be wrong


def test_the_share_of_sampling_in_the_variance_is_that_of_simulation():
    ranks = true_ranks(3.0, 3000)
    (found,) = influences(fr.LogSpline().fit(sampled(ranks, 499)), [fr.NDCG @ 10])
    known = found.spread * np.sqrt(1 - found.sampled)
    assert known == pytest.approx((fr.NDCG @ 10).gain(ranks).std() / np.sqrt(3000), rel=0.25)


def test_pairing_sees_shared_negatives_and_nothing_else():
    """One model twice on the same negatives, on its own negatives, and on other cases."""
    ranks = true_ranks(3.0, 4000)
    first, again = fr.LogSpline().fit(sampled(ranks, seed=0)), fr.LogSpline().fit(sampled(ranks, seed=1))
    a, b = (influences(each, [fr.NDCG @ 10])[0] for each in (first, again))
    spread = np.array([each.spread * np.sqrt(each.sampled) for each in (a, b)])
    assert covariances([a, a], spread[[0, 0]], "cases")[0, 1] > 0.9 * spread[0] ** 2
    assert covariances([a, b], spread, "cases")[0, 1] < 0.3 * spread[0] * spread[1]
    # over the population the same cases make even independent samples go together
    full = [influences(fr.LogSpline().fit(fr.RankCounts.from_ranks(ranks, N, "full")), [fr.NDCG @ 10])[0]] * 2
    assert covariances(full, np.array([full[0].spread] * 2), "population")[0, 1] == pytest.approx(full[0].spread ** 2)
    assert not same_cases([first.counts, sampled(ranks[:3999])])


def test_expected_counts_are_what_samples_average_to():
    dist = fr.MLE().fit(fr.RankCounts.from_ranks(true_ranks(3.0, 4000), N, "uni1998 without replacement"))
    counts = expected_counts(dist, fr.Sample(99))
    assert len(counts) == 4000
    naive = fr.Naive().fit(counts).expect("ndcg@10")
    assert naive == pytest.approx(fr.Naive().fit(sampled(true_ranks(3.0, 4000))).expect("ndcg@10"), rel=0.05)


# ------------------------------------------------------------------------------------------------ the comparison


def test_everything_fits_together(three):
    found = fr.compare(three, "ndcg@10")
    assert found.winner == found.models[0]
    assert sum(found.best.values()) == pytest.approx(1.0)
    assert len(found.pairs) == 3
    for pair in found.pairs:
        assert pair.low < pair.difference < pair.high
        alone = found.values[pair.model] - found.values[pair.other]
        assert pair.difference == pytest.approx(alone, abs=0.2 * max(found.values.values()))  # they are fitted together
        assert pair.difference >= 0
        assert pair.p_holm >= pair.p_value
        assert pair.p_value == pytest.approx(2 * (1 - pair.probability))
        back = found.pair(pair.other, pair.model)
        assert (back.difference, back.low, back.high) == (-pair.difference, -pair.high, -pair.low)
    assert [model for group in found.groups for model in group] == list(found.models)
    assert {found.groups[0], found.groups[1:]} == {("A", "B"), (("C",),)} or found.groups[0] == ("B", "A")
    assert found.told_apart(found.winner, "C")
    assert not found.told_apart("A", "B")
    with pytest.raises(ValueError, match="there is no pair 'A', 'D'"):
        found.pair("A", "D")


def test_models_that_are_not_fitted_together_differ_by_their_values(three):
    found = fr.compare(three, "ndcg@10", estimator="mle")
    assert found.winner == max(found.values, key=found.values.get)
    assert not found.basis
    assert not found.joint
    assert "together" not in str(found)
    for pair in found.pairs:
        assert pair.difference == pytest.approx(found.values[pair.model] - found.values[pair.other])


def test_the_table_shows_the_values_that_differences_are_of(three):
    found = fr.compare(three, "ndcg@10")
    assert list(found.joint) == list(found.models)
    assert sorted(found.joint.values(), reverse=True) == list(found.joint.values())
    for pair in found.pairs:
        assert pair.difference == pytest.approx(found.joint[pair.model] - found.joint[pair.other])
    head, body = found.table()
    column = head.index("together")
    assert [float(line[column]) for line in body] == pytest.approx([*found.joint.values()], abs=5e-5)
    loaded = Comparison.from_dict(found.to_dict())
    assert loaded.table() == found.table()
    assert loaded.small_print() == found.small_print()


def test_what_the_fits_warn_of_and_what_intervals_assume_is_said():
    rng = np.random.default_rng(0)
    true = (1e6 ** rng.beta(1, 1.2, 5000)).astype(int)
    sampled = 1 + rng.binomial(99, (true - 1) / 999_999)
    ranks = {"A": sampled, "B": np.minimum(sampled + 1, 100)}  # B: off by one, so that nothing is ever at rank 1
    counts = {name: fr.RankCounts.from_ranks(each, 1_000_000, "uni99") for name, each in ranks.items()}
    for metric in ("ndcg@10", "recall@10"):  # squares of B's spread overflow, or vanish
        found = fr.compare(counts, metric)
        said = " ".join(str(found).split())
        assert "! B: these ranks do not look like those of any recommender" in said
        assert "! A and B: a catalogue of 1,000,000 items is larger than any" in said
        assert "Intervals assume rank distributions like those of recommenders seen before." in said
        assert found.winner == "A"


def test_the_verdict_names_who_is_at_least_as_likely_the_best(three):
    found = fr.compare(three, "ndcg@10")
    first, second = found.models[:2]
    likelier = dataclasses.replace(found, best={**found.best, first: 0.40, second: 0.45})
    assert f"is best with probability 0.40 ({second}: 0.45)" in str(likelier.verdict)


def test_what_would_separate_two_models_is_asked_with_the_correlation_of_their_errors(three, monkeypatch):
    found = fr.compare(three, "ndcg@10")
    pair = found.pair(*found.groups[0][:2])
    used = []
    module = sys.modules["fullrank.evaluation.compare"]
    monkeypatch.setattr(module, "_spread_below", lambda one, two, ρ: used.append(ρ) or _spread_below(one, two, ρ))
    again = fr.compare(three, "ndcg@10")
    made_with = used[[(each.model, each.other) for each in again.pairs].index((pair.model, pair.other)) * 2]
    used.clear()
    again.more(pair.model, pair.other)
    assert set(used) == {made_with}


def test_known_ranks_are_exact_for_the_cases_and_paired_for_the_population():
    a, b = true_ranks(3.0), true_ranks(3.2, seed=1)
    counts = {name: fr.RankCounts.from_ranks(ranks, N, "full") for name, ranks in {"A": a, "B": b}.items()}
    exact = fr.compare(counts, "ndcg@10")
    pair = exact.pair("A", "B")
    assert pair.low == pair.difference == pair.high == pytest.approx(ndcg(a) - ndcg(b))
    assert exact.best[exact.winner] == 1.0
    found = fr.compare(counts, "ndcg@10", target="population").pair("A", "B")
    each = (fr.NDCG @ 10).gain(a) - (fr.NDCG @ 10).gain(b)
    assert (found.high - found.low) / 3.92 == pytest.approx(each.std() / np.sqrt(len(each)), rel=0.15)


@pytest.mark.parametrize("users", [2, 3, 8])
def test_what_is_called_sure_has_no_difference_that_may_be_zero(rng, users):
    """P(best) looks at one side, an interval at both; and two users always go together perfectly, or the other way."""
    held = called = 0
    for first in np.repeat([1, 2, 4, 8, 11], 6):
        ranks = {"A": rng.integers(1, 5, users), "B": rng.integers(first, first + 5, users)}
        counts = {name: fr.RankCounts.from_ranks(each, 50, "full") for name, each in ranks.items()}
        found = fr.compare(counts, "ndcg@10", target="population")
        holds_zero = found.pair(*found.models).low <= 0
        assert not (found.sure and holds_zero), found
        held += holds_zero and found.best[found.winner] >= found.level
        called += found.sure
    assert held  # there were some to be called wrongly
    assert called == 0 if users == 2 else called > 0


def test_few_blocks_show_little_of_how_models_go_together():
    two = Influence(np.array([0.1, -0.1]), 0.0)
    spreads = np.array([0.1, 0.1])
    assert covariances([two, two], spreads, "population")[0, 1] == 0
    many = Influence(np.tile([0.1, -0.1], 30), 0.0)
    assert covariances([many, many], spreads, "population")[0, 1] == pytest.approx(0.01)
    ten = Influence(np.tile([0.1, -0.1], 5), 0.0)
    skew = Influence(ten.blocks + 0.05 * np.array([1, 1, -1, -1, 1, 1, -1, -1, 0, 0]), 0.0)
    assert 0 < covariances([ten, skew], spreads, "population")[0, 1] < 0.01 * np.corrcoef(ten.blocks, skew.blocks)[0, 1]


def test_ties_share_the_first_place():
    counts = fr.RankCounts.from_ranks([1, 2, 30], 50, "full")
    found = fr.compare({"A": counts, "B": counts}, "recall@10")
    assert found.best == {"A": 0.5, "B": 0.5}
    assert found.groups == (("A", "B"),)
    assert "tie" in str(found)


@pytest.mark.parametrize("target", ["cases", "population"])
def test_intervals_of_differences_hold_the_truth(target):
    """Known truth, independent samples: 95 % intervals of the difference cover it, and no wrong model is sure."""
    population = [true_ranks(shape, 60_000, seed) for seed, shape in enumerate((3.0, 3.15))]
    rng = np.random.default_rng(0)
    covered = wrong = 0
    for run in range(20):
        pick = rng.integers(60_000, size=1500)
        here = [ranks[pick] for ranks in population]
        counts = {name: sampled(ranks, 299, [run, i]) for i, (name, ranks) in enumerate(zip("AB", here, strict=True))}
        found = fr.compare(counts, "ndcg@10", target=target)
        true = [ndcg(ranks) for ranks in (here if target == "cases" else population)]
        pair = found.pair("A", "B")
        covered += pair.low <= true[0] - true[1] <= pair.high
        wrong += found.best["AB"[int(np.argmin(true))]] >= 0.95
    assert covered >= 17
    assert wrong <= 1


def test_shared_negatives_make_a_difference_narrower():
    """A factor model and a slightly disturbed copy, observed with the same and with other negatives."""
    rng = np.random.default_rng(0)
    users, items, d = 800, 1000, 8
    U, V = rng.normal(size=(users, d)), rng.normal(size=(items, d))
    V[:, 0] += np.linspace(2, -2, items)
    scores = U @ V.T + rng.gumbel(size=(users, items))
    target = np.argsort(-scores, axis=1)[np.arange(users), np.minimum(rng.geometric(0.2, users), items - 1)]
    split = fr.Split(np.zeros((users, items)), np.arange(users), target)
    near = (U, V + rng.normal(scale=0.02, size=V.shape))
    counts = fr.observe((U, V), split, fr.Sample(199), rng=1, progress=False)
    shared = fr.compare({"A": counts, "B": fr.observe(near, split, fr.Sample(199), rng=1, progress=False)})
    apart = fr.compare({"A": counts, "B": fr.observe(near, split, fr.Sample(199), rng=2, progress=False)})
    width = [pair.high - pair.low for found in (shared, apart) for pair in found.pairs]
    assert width[0] < 0.9 * width[1]
    truth = [fr.MLE().fit(fr.observe(m, split, "full", progress=False)).expect("ndcg@10") for m in ((U, V), near)]
    pair = shared.pair("A", "B")
    assert pair.low <= truth[0] - truth[1] <= pair.high


def test_different_cases_are_independent_and_say_so(three):
    other = {"A": three["A"], "D": sampled(true_ranks(3.3, 700))}
    found = fr.compare(other, "ndcg@10")
    assert not found.paired
    assert any("not evaluated on the same cases" in note for note in found.notes)
    free = fr.compare(other, target="population").pair("A", "D")
    low, high = fr.LogSpline().fit(three["A"]).interval("ndcg@10", target="population")
    assert free.high - free.low > high - low


# ------------------------------------------------------------------------------------------------ what would settle it


def test_more_negatives_settle_it_when_they_are_drawn():
    ranks = {"A": true_ranks(3.0, 3000), "B": true_ranks(3.1, 3000, 1)}
    found = fr.compare({name: sampled(each, 49, i) for i, (name, each) in enumerate(ranks.items())}, "ndcg@10")
    first, second = found.models
    words = found.more(first, second)
    assert "as many negatives would separate" in words
    times = float(words.split()[1])
    assert times > 1
    assert words in " ".join(str(found).split())
    later = {name: sampled(each, round(49 * times * 2), 7 + i) for i, (name, each) in enumerate(ranks.items())}
    assert fr.compare(later, "ndcg@10").pair(first, second).p_value < found.pair(first, second).p_value


def test_what_larger_samples_would_leave_open_is_foreseen():
    ranks = true_ranks(3.0, 3000)
    pilot = fr.LogSpline().fit(sampled(ranks, 99))
    for negatives in (299, 799):
        foreseen = _foreseen(pilot, fr.NDCG @ 10, fr.Sample(negatives))
        low, high = fr.LogSpline().fit(sampled(ranks, negatives, 3)).interval("ndcg@10")
        assert sum(foreseen) / 2 == pytest.approx((high - low) / 3.92, rel=0.3)


def test_what_models_share_does_not_widen_their_difference():
    skewed = (0.01, 0.03)
    assert _spread_below((0.02, 0.02), (0.03, 0.03), 0.4) ** 2 == pytest.approx(0.0013 - 0.8 * 0.0006)
    assert _spread_below(skewed, skewed, 1.0) == 0.0  # the same error on both sides
    assert _spread_below(skewed, (0.02, 0.04), 0.0) == pytest.approx(np.hypot(0.01, 0.04))  # MOVER
    assert _spread_below(skewed, (0.02, 0.04), -1.0) == pytest.approx(0.05)
    assert _spread_below(skewed, (0.0, np.inf), 0.5) == np.inf


def test_when_cases_are_too_few_it_says_how_many():
    rng = np.random.default_rng(0)
    a = true_ranks(3.0, 400)
    b = np.where(rng.random(400) < 0.5, np.maximum(a - 1, 1), a + 1)
    counts = {name: fr.RankCounts.from_ranks(each, N + 1, "full") for name, each in {"A": a, "B": b}.items()}
    found = fr.compare(counts, "ndcg@10", target="population")
    assert not found.told_apart("A", "B")
    words = found.more(*found.models)
    assert words.startswith("Not even the full ranking of these cases would separate")
    pair = found.pairs[0]
    needed = float(words.split("about ")[1].split(" ×")[0].replace(",", ""))
    assert needed == pytest.approx((1.96 * (pair.high - pair.low) / 3.92 / pair.difference) ** 2, rel=0.1)
    exact = fr.compare(counts, "ndcg@10")  # for these cases nothing is open
    assert exact.more(*found.models) == f"{exact.models[0]} and {exact.models[1]} are told apart already."
    assert exact.assumption == ""


def test_case_spread_of_other_cases_adds_up():
    one, two = (
        influences(fr.LogSpline().fit(fr.RankCounts.from_ranks(true_ranks(3.0, seed=i), N, "full")), [fr.NDCG @ 10])[0]
        for i in range(2)
    )
    assert case_spread(one, two, paired=False)[0] == pytest.approx(np.hypot(one.spread, two.spread))
    assert case_spread(one, one, paired=True)[0] == pytest.approx(0.0, abs=1e-9)


# ------------------------------------------------------------------------------------------------ other estimators, metrics


@pytest.mark.parametrize("estimator", ["mle", "bv0.01", "naive", "cls"])
def test_every_kind_of_estimator_can_be_compared(three, estimator):
    found = fr.compare(three, "ndcg@10", estimator=estimator)
    assert found.models[-1] == "C"
    assert all(pair.low <= pair.difference <= pair.high for pair in found.pairs)
    assert found.told_apart("A", "B") or "would separate" in found.more("A", "B")


def test_auc_own_metrics_adaptive_and_several_targets(three):
    assert fr.compare(three, "auc").told_apart("A", "C")
    mine = fr.Metric("mine", lambda R: 1 / R**2) @ 20
    found = fr.compare(three, mine)
    assert found.metric == mine
    assert "mine@20" in str(found)
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(300), 2)
    order = np.tile([1, 2], 300)

    def counts(shape):
        ranks = np.floor(N ** rng.beta(shape / 3, 1, size=600)).astype(int)
        return fr.RankCounts.from_ranks(
            1 + rng.binomial(99, (ranks - 1) / (N - 1)), N, "uni99", users=users, order=order, targets=np.full(600, 2)
        )

    several = fr.compare({"A": counts(2.5), "B": counts(5.0)}, "ndcg@10", target="population")
    assert several.winner == "A"


# ------------------------------------------------------------------------------------------------ reports


def test_a_report_holds_its_comparison(three):
    report = fr.correct(three, metrics=["ndcg@10", "recall@5"])
    found = fr.compare(report, "recall@5")
    assert found.estimates.keys() == three.keys()
    assert found is report.comparison["recall@5"]
    assert found.values == {name: report.value(name, "recall@5") for name in found.models}
    assert found.intervals == {name: report.row(name, "recall@5").interval for name in found.models}
    anew = fr.compare(report.estimates, "recall@5")
    assert [(pair.model, pair.other, pair.low) for pair in found.pairs] == [
        (pair.model, pair.other, pair.low) for pair in anew.pairs
    ]
    best = report.winner("ndcg@10")
    assert best == fr.compare(report).winner
    assert best.probability == report.comparison["ndcg@10"].best[best]
    assert set(best.tied) == {"A", "B"} - {best}
    json.loads(report.to_json(), parse_constant=lambda name: pytest.fail(name))
    plain = fr.Report(report.rows)
    assert plain.winner("ndcg@10") == best
    assert plain.winner("ndcg@10").probability is None


def test_one_model_needs_no_comparison(three):
    report = fr.correct({"A": three["A"]}, metrics="ndcg@10")
    assert not report.comparison
    found = fr.compare(report)
    assert found.best == {"A": 1.0}
    assert str(found).startswith("A has ndcg@10 of ")


def test_text_html_json_and_tables(three):
    names = {"A": "B_50%", "B": "model " * 30, "C": "c|d"}
    found = fr.compare({names[name]: each for name, each in three.items()}, "ndcg@10")
    assert max(map(len, str(found).splitlines())) <= 80
    assert "<script" not in found._repr_html_()
    document = json.loads(found.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert document["schema"] == "fullrank.comparison/1"
    assert [each["model"] for each in document["models"]] == list(found.models)
    latex = found.to_latex()
    assert "B\\_50\\%" in latex
    assert "\\textbf{NDCG@10}" in latex
    assert latex.count("\\begin") == latex.count("\\end")
    assert sum("\\textbf{0." in line for line in latex.splitlines()) == 1
    assert "$^{c}$" in latex  # better than the third
    table = found.to_markdown().splitlines()
    assert table[0] == "| # | Model | NDCG@10 |"
    assert "ᶜ" in table[2]
    assert "c\\|d" in table[4]
    assert len({line.replace("\\|", "").count("|") for line in table[:5]}) == 1


def test_report_tables_have_all_metrics(three):
    report = fr.correct(three, metrics=["ndcg@10", "recall@5"])
    head, _, *body = report.to_markdown().splitlines()
    assert head == "| # | Model | NDCG@10 | Recall@5 |"
    assert [line.split(" | ")[1] for line in body[:3]] == ["A", "B", "C"]
    assert "ᶜ" in body[0]
    assert "Recall@5" in report.to_latex()
    many = fr.Report([{**report.rows[0], "model": f"m{i}"} for i in range(40)])
    assert many.to_latex().count("\\\\") == 41


def test_bad_calls(three):
    with pytest.raises(TypeError, match="`models` must be a Report or counts by model"):
        fr.compare([1, 2])
    with pytest.raises(TypeError, match="model 'A': `models` must hold RankCounts"):
        fr.compare({"A": [1, 2]})
    with pytest.raises(ValueError, match="`models` is empty"):
        fr.compare({})
    with pytest.raises(ValueError, match="`target` must be 'cases' or 'population'"):
        fr.compare(three, target="users")
    with pytest.raises(ValueError, match="`level` must be between"):
        fr.compare(three, level=95)
    with pytest.raises(ValueError, match="holds no estimates"):
        fr.compare(fr.Report(fr.correct(three, metrics="ndcg@10").rows))


def test_p_best_agrees_with_the_pair_for_two_models(three):
    for a, b in itertools.combinations(three, 2):
        (found,) = comparisons(
            {name: fr.LogSpline().fit(three[name]) for name in (a, b)}, [fr.NDCG @ 10], 0.95, "cases"
        )
        # both take the intervals' two sides apart, each in its own way
        assert found.best[found.winner] == pytest.approx(found.pairs[0].probability, abs=0.05)
