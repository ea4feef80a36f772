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


def test_several_ranks_of_a_user_are_not_passed_off_as_users(ranks):
    users = np.arange(800) // 4
    note = (
        "200 users have 800 ranks, each taken as a case with one target, so that hit@10 is recall@10 over cases; metrics "
        "per user need scores, or `order` and `targets` of every rank."
    )
    report = fr.correct(ranks, N, "uni99", "hit@10", users=users)
    assert report.notes.count(note) == 1
    assert report.provenance["about"] == "800 cases (200 users) of uni99 among 5,000 items (unseen); LogSpline"
    assert fr.compare(report, "hit@10").notes.count(note) == 1
    assert note not in fr.correct(ranks, N, "uni99", "hit@10", users=np.arange(800)).notes
    frame = {"user_id": users, "rank": ranks["A"]}
    by_frame = fr.correct(
        {"A": fr.RankCounts.from_frame(frame, "uni99", N), "B": counted(ranks)["B"]}, metrics="hit@10"
    )
    assert f"A: {note}" in by_frame.notes


def test_order_and_targets_make_several_ranks_one_user(ranks):
    about = {"users": np.arange(800) // 4, "order": np.tile([1, 2, 3, 4], 200), "targets": np.full(800, 4)}
    report = fr.correct(ranks["A"], N, "uni99", "hit@10", **about)
    assert (
        report.rows
        == fr.correct({"model": fr.RankCounts.from_ranks(ranks["A"], N, "uni99", **about)}, metrics="hit@10").rows
    )
    assert not any("users have" in note for note in report.notes)
    assert "800 cases (200 users)" in report.provenance["about"]
    frame = {"user_id": about["users"], "rank": ranks["A"], "order": about["order"], "targets": about["targets"]}
    assert fr.RankCounts.from_frame(frame, "uni99", N) == report.estimates["model"].counts
    renamed = {"j": frame.pop("order"), **frame}
    assert (
        fr.RankCounts.from_frame(renamed, "uni99", N, order="j", targets="targets") == report.estimates["model"].counts
    )
    with pytest.raises(ValueError, match="`order` is each model's own: make counts by model"):
        fr.correct(ranks, N, "uni99", "hit@10", **about)


def test_a_frame_of_several_models_is_refused_whatever_their_column_is_called():
    frame = {"user_id": [1, 1, 2, 2], "algo": ["a", "b"] * 2, "position": [1, 2, 3, 4]}
    with pytest.raises(ValueError, match="the frame holds 2 models, 'a', 'b'"):
        fr.RankCounts.from_frame(frame, "uni99", N)
    frame["variant"] = frame.pop("algo")
    with pytest.raises(ValueError, match=r"the frame: column 'variant' \('a', 'b'\) tells rows of one user apart"):
        fr.RankCounts.from_frame(frame, "uni99", N)


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


def test_a_level_of_numpy_is_written_as_json():
    counts = {name: fr.RankCounts.from_ranks([1, 2, 9] * 50, 500, "uni99") for name in "AB"}
    for level in (np.float32(0.75), np.float64(0.75)):
        assert '"level": 0.75' in fr.correct(counts, metrics="ndcg@10", level=level).to_json()
        assert '"level": 0.75' in fr.compare(counts, "ndcg@10", level=level).to_json()
