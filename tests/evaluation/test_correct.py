"""`correct`: the same ranks give the same answer whichever way they come, and the report says which prior spoke."""

import numpy as np
import pytest

import fullrank as fr

N = 5000


@pytest.fixture(scope="module")
def ranks():
    """Two models' sampled ranks among 99 negatives."""
    rng = np.random.default_rng(3)
    true = np.floor(N ** rng.beta(3.0 / 3, 1, size=(2, 800))).astype(int)
    return dict(zip("AB", 1 + rng.binomial(99, (true - 1) / (N - 1)), strict=True))


def counted(ranks, pool=N, candidates="unseen"):
    return {name: fr.RankCounts.from_ranks(each, pool, "uni99", candidates=candidates) for name, each in ranks.items()}


@pytest.mark.parametrize("candidates", ["unseen", "all", "given"])
@pytest.mark.parametrize("varying", [False, True])
def test_every_way_to_an_answer_gives_the_same_digits(ranks, candidates, varying):
    pool = np.random.default_rng(1).integers(4000, N, 800) if varying else N
    counts = counted(ranks, pool, candidates)
    from_ranks = fr.correct(ranks, pool, "uni99", "ndcg@10", candidates=candidates)
    from_counts = fr.correct(counts, metrics="ndcg@10")
    assert from_counts.rows == from_ranks.rows
    compared = fr.compare(counts, "ndcg@10")
    for row in from_ranks.rows:
        dist = fr.LogSpline().fit(counts[row["model"]])
        assert row["value"] == dist.expect("ndcg@10") == compared.values[row["model"]]
        assert (row["low"], row["high"]) == dist.interval("ndcg@10")
    assert compared.to_dict() == fr.compare(from_ranks, "ndcg@10").to_dict()
    if candidates == "unseen":
        assert fr.correct(ranks, pool, "uni99", "ndcg@10").rows == from_ranks.rows


def test_candidates_that_the_counts_deny_are_refused(ranks):
    counts = counted(ranks, candidates="all")
    assert fr.correct(counts, candidates="all").rows == fr.correct(counts).rows
    with pytest.raises(
        ValueError, match=r"`candidates` must be .all., which the counts hold, got .unseen.: leave it out"
    ):
        fr.correct(counts, candidates="unseen")
    with pytest.raises(ValueError, match="model 'A': `candidates` must be 'unseen', 'all' or a name of your own"):
        fr.correct(ranks, N, "uni99", candidates="All")


def test_the_report_says_which_prior_spoke(ranks):
    said = {each: fr.correct(ranks, N, "uni99", candidates=each).provenance for each in ("unseen", "all", "given")}
    assert {each: found["prior"] for each, found in said.items()} == {
        "unseen": "unseen",
        "all": "all",
        "given": "unseen",
    }
    assert {each: found["candidates"] for each, found in said.items()} == {each: each for each in said}
    assert said["all"]["about"] == "800 cases of uni99 among 5,000 items (all); LogSpline"
    assert said["given"]["about"] == "800 cases of uni99 among 5,000 items (given); LogSpline (prior: unseen)"
    mixed = fr.correct({"A": counted(ranks)["A"], "B": counted(ranks, candidates="all")["B"]}).provenance
    assert mixed["candidates"] == mixed["prior"] == "unseen and all"
    own = fr.LogSpline(fr.LogSpline().fit(counted(ranks)["A"]).posterior.prior)
    assert fr.correct(ranks, N, "uni99", estimator=own).provenance["prior"] == "own"
    assert "prior" not in fr.correct(ranks, N, "uni99", estimator="mle").provenance
    assert "prior" not in fr.correct({"A": fr.RankCounts.from_ranks([1, 2, 3], N, "full")}).provenance


def test_the_page_names_candidates_and_prior(ranks):
    page = fr.correct(ranks, N, "uni99", metrics="ndcg@10", candidates="the shop").to_html()
    assert "the shop; per case, target included" in page
    assert "<dt><bdi>prior</bdi></dt><dd>unseen</dd>" in page


def test_evaluate_names_the_pools_it_was_given(world):
    models, split = world
    pools = [list(range(200))] * split.n_users
    report = fr.evaluate(models, split, "ndcg@10", design="uni9", candidates=pools, progress=False)
    assert report.provenance["candidates"] == "given"
    assert report.provenance["prior"] == "unseen"
    among_all = fr.evaluate(models, split, "ndcg@10", design="uni9", candidates="all", progress=False)
    assert among_all.provenance["candidates"] == "all"
    assert among_all.provenance["prior"] == "compared"  # training items are compared in full
    assert {each.counts.candidates for each in among_all.estimates.values()} == {"all"}


def test_values_that_the_data_rule_out_are_warned_of():
    rng = np.random.default_rng(0)
    sampled = 1 + rng.binomial(99, rng.beta(0.5, 3, 2000) ** 2)
    report = fr.correct({"A": sampled}, 20_000, "uni99", ["recall@10", "ndcg@10"], estimator="naive")
    assert "A: recall@10 and ndcg@10 lie outside the bounds that the data allow" in " ".join(report.notes)
    assert not any("outside the bounds" in note for note in fr.correct({"A": sampled}, 20_000, "uni99").notes)


def test_an_interval_of_nothing_is_widened_to_the_bounds_where_ranks_heap_up():
    [row] = fr.correct({"A": [100] * 100}, 5000, "uni99", "recall@10").rows
    assert row.high == pytest.approx(row.bounds[1])
    assert row.high > 0.03


@pytest.mark.parametrize("users", [None, [7] * 50])
def test_one_user_says_nothing_of_a_population_and_bounds_do_not_either(users):
    report = fr.correct([3] * (50 if users else 1), 10, "full", "recall@2", users=users, target="population")
    assert (report.rows[0].interval, report.rows[0].bounds) == (None, None)
    assert "exact" not in str(report)


def test_a_report_does_not_give_hits_where_recall_is_asked_for_of_several_targets():
    about = {"users": np.repeat(np.arange(300), 2), "order": np.tile([1, 2], 300), "targets": np.full(600, 2)}
    ranks = np.sort(np.random.default_rng(0).integers(1, 60, (300, 2)), axis=1).ravel()
    counts = fr.RankCounts.from_ranks(ranks, 5000, "uni99", **about)
    report = fr.correct({"A": counts}, metrics="hr@10")
    assert report.value("A", "hit@10") == report.value("A", "hr@10")
    with pytest.raises(ValueError, match="the report has no recall@10: its metrics are hr@10"):
        report.value("A", "recall@10")
    one = fr.correct({"A": [1, 2, 9] * 50}, 500, "uni99", "hr@10")
    assert one.value("A", "recall@10") == one.value("A", "hr@10")
