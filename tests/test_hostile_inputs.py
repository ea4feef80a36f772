"""What people hand over by mistake, found by trying: one clear sentence, or the right number; never a silent wrong one."""

import os
import re

import numpy as np
import pytest

import fullrank as fr
from fullrank._files import write_atomically


@pytest.fixture(scope="module")
def ranks():
    rng = np.random.default_rng(0)
    true = (5000 ** rng.beta(1.0, 1.2, size=(2, 400))).astype(int)
    return 1 + rng.binomial(99, (true - 1) / 4999)


# ------------------------------------------------------------------------------------------------------- files


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path, ranks):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # as /dev/stdout or /dev/null would be
    counts = fr.RankCounts.from_ranks(ranks[0], 5000, "uni99")
    for write in (counts.save, fr.correct(counts, metrics="ndcg@10").to_html, lambda path: write_atomically(path, b"")):
        with pytest.raises(ValueError, match=r"must be a file, got .*pipe"):
            write(pipe)
    assert pipe.is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["pipe"]


def test_a_link_stays_a_link(tmp_path, ranks):
    (tmp_path / "there").mkdir()
    link = tmp_path / "counts.npz"
    link.symlink_to(tmp_path / "there" / "counts.npz")
    counts = fr.RankCounts.from_ranks(ranks[0], 5000, "uni99")
    for _ in range(2):  # a link to nothing, and to a file
        counts.save(link)
        assert link.is_symlink()
        assert fr.RankCounts.load(tmp_path / "there" / "counts.npz") == counts


def test_a_file_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path):
    with pytest.raises(OSError) as caught:
        write_atomically(tmp_path / "no such folder" / "page.html", b"")
    assert caught.value.filename == str(tmp_path / "no such folder" / "page.html")


# ------------------------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ranks": [True, True]}, "whole numbers, not bool"),
        ({"ranks": [1 + 0j, 2]}, "whole numbers, not complex"),
        ({"ranks": np.array(["1970-01-05"], dtype="datetime64[D]")}, "whole numbers, not datetime64"),
        ({"ranks": ["1", "2nd"]}, "got '2nd' at case 1"),
        ({"ranks": [[1, 2], [3]]}, "lists of unlike length"),
        ({"ranks": (rank for rank in (1, 2))}, "a single generator"),
        ({"users": [1.0, np.nan]}, "`users` has a missing value at case 1"),
        ({"users": ["a", None]}, "`users` has a missing value at case 1"),
        ({"users": [(1, 2), (3, 4)]}, r"`users` has shape \(2, 2\) for 2 cases"),
        ({"users": 5}, r"`users` has shape \(\) for 2 cases"),
        ({"weights": ["heavy", "light"]}, "`weights` must be numbers"),
        ({"n_items": [100, None]}, r"`n_items` has a missing value \(NaN\) at case 1: drop such cases, or fill it in"),
    ],
)
def test_what_is_no_rank_user_or_weight_is_refused(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fr.RankCounts.from_ranks(**{"ranks": [1, 2], "n_items": 5000, "design": "uni99", **given})


def test_missing_users_of_pandas_are_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="`users` has a missing value at case 1"):
        fr.RankCounts.from_ranks([1, 2], 5000, "uni99", users=pd.array(["a", pd.NA], dtype="object"))


def test_users_written_as_floats_are_the_same_users(ranks):
    whole = fr.RankCounts.from_ranks(ranks[0], 5000, "uni99", users=np.arange(400))
    assert fr.RankCounts.from_ranks(ranks[0], 5000, "uni99", users=np.arange(400.0)) == whole


def test_models_whose_names_read_the_same_were_lost(ranks):
    counts = {
        1: fr.RankCounts.from_ranks(ranks[0], 5000, "uni99"),
        "1": fr.RankCounts.from_ranks(ranks[1], 5000, "uni99"),
    }
    for door in (fr.correct, fr.compare, lambda models: fr.evaluate(models, fr.Split(np.zeros((2, 3)), [0], [1]))):
        with pytest.raises(ValueError, match="two models are named '1'"):
            door(counts)


def test_frames_and_paths_in_place_of_ranks_are_told_where_to_go(ranks):
    pd = pytest.importorskip("pandas")
    for given in (pd.DataFrame({"rank": ranks[0]}), "ranks.csv"):
        with pytest.raises(TypeError, match=r"from_frame.* reads a frame, and `fullrank correct` a file"):
            fr.correct(given, 5000, "uni99")


def test_a_list_of_functions_is_not_a_pair_of_factors():
    with pytest.raises(TypeError, match="models by name"):
        fr.evaluate([lambda u, i: i, lambda u, i: i], fr.Split(np.zeros((2, 3)), [0], [1]))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"users": np.arange(1, 401)}, "not evaluated on the same cases"),
        ({"candidates": "all"}, r"different candidates \(unseen and all\)"),
        ({"n_items": 6000}, r"different numbers of candidates \(5,000 to 6,000\)"),
    ],
)
def test_models_that_were_not_evaluated_alike_are_reported_with_a_warning(ranks, other, said):
    given = {"n_items": 5000, "design": "uni99", "users": np.arange(400)}
    counts = {
        "A": fr.RankCounts.from_ranks(ranks[0], **given),
        "B": fr.RankCounts.from_ranks(ranks[1], **{**given, **other}),
    }
    report = fr.correct(counts, metrics="ndcg@10")
    for notes in (report.notes, fr.compare(counts, "ndcg@10").notes):
        assert any(re.search(said, note) for note in notes), notes
    assert str(counts["A"]) in str(report.provenance["about"])
    assert str(counts["B"]) in str(report.provenance["about"])
    alike = fr.correct({"A": counts["A"], "B": counts["A"]}, metrics="ndcg@10")
    assert not alike.notes
    assert alike.provenance["about"].count("cases of") == 1


# ------------------------------------------------------------------------------------------------------- frames


def test_two_models_in_a_frame_were_counted_as_one():
    frame = {"rank": [1, 2, 3], "model": ["A", "A", "B"]}
    with pytest.raises(ValueError, match="the frame holds 2 models, 'A', 'B'"):
        fr.RankCounts.from_frame(frame, "uni99", 5000)
    assert len(fr.RankCounts.from_frame({**frame, "model": ["A"] * 3}, "uni99", 5000)) == 3


def test_a_frame_s_numbers_of_negatives_were_ignored():
    counts = fr.RankCounts.from_frame({"rank": [1, 2, 3], "negatives": [9, 9, 19]}, "uni99", 5000)
    assert counts == fr.RankCounts.from_ranks([1, 2, 3], 5000, "uni99", drawn=[9, 9, 19])


def test_frames_without_names_or_with_one_twice_are_refused():
    pd = pytest.importorskip("pandas")
    for columns, said in (
        ([0, 1], "must have names, got '0', '1'"),
        (["rank", "rank"], "two columns of the same name"),
    ):
        with pytest.raises(ValueError, match=said):
            fr.RankCounts.from_frame(pd.DataFrame([[1, 2], [3, 4]], columns=columns), "uni99", 5000)


# ------------------------------------------------------------------------------------------------------- plans and runs


@pytest.mark.parametrize("option", [{"max_items": 0}, {"max_items": -5}, {"gather_cost": 0}, {"gather_cost": np.nan}])
def test_a_plan_refuses_budgets_and_costs_that_cannot_be(option):
    with pytest.raises(ValueError, match=f"`{next(iter(option))}` must be a finite number above 0"):
        fr.plan(1000, 100, **option)
    with pytest.raises(ValueError, match=r"`cases` must be a whole number of at least 1, got 1\.5"):
        fr.plan(1000, 1.5)
    with pytest.raises(ValueError, match="`absolute` must be True or False"):
        fr.plan(1000, 100, absolute="yes")


@pytest.mark.filterwarnings("error")
def test_a_plan_for_an_absurd_precision_ranks_all_that_matters():
    assert fr.plan(1000, 100, "ndcg@10", precision=1e-300).recommended.meets


@pytest.mark.parametrize("metric", ["auc", "ndcg"])
def test_no_sample_was_said_to_give_metrics_of_the_whole_ranking_exactly(metric):
    plan = fr.plan(1000, 100, metric, precision=1e-4)
    assert (str(plan.recommended.design), plan.recommended.meets) == ("exhaustive", True)
    assert all(each.relative > 0 for each in plan.choices if each.share < 1)
    easy = fr.plan(1000, 100, "auc", precision=0.02).recommended
    assert easy.meets
    assert 0.005 < easy.relative < 0.02


@pytest.mark.parametrize("metric", ["auc", "ndcg", ["ndcg@10", "ndcg"]])
def test_runs_ended_as_exact_before_uncut_metrics_were(metric):
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(60, 4)), rng.normal(size=(400, 4))
    targets = (users @ items.T + 3 * rng.gumbel(size=(60, 400))).argmax(1)
    split = fr.Split(np.zeros((60, 400)), np.arange(60), targets)
    given = {"m": lambda u, i: np.einsum("uf,umf->um", users[u], items[i])}
    report = fr.evaluate(given, split, metric, design="adaptive", precision=1e-4, progress=False)
    truth = fr.evaluate(given, split, metric, design="full", progress=False)
    for row, exact in zip(report.rows, truth.rows, strict=True):
        assert row.value == pytest.approx(exact.value, rel=1e-4)
        assert row.high - row.low <= 2e-4 * row.value


# ------------------------------------------------------------------------------------------------------- scorers and guides


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(40, 4)), rng.normal(size=(300, 4))
    return users, items, fr.Split(np.zeros((40, 300)), np.arange(40), np.arange(40))


def test_a_function_that_scores_the_first_item_only_was_taken_for_one_of_flat_pairs(world):
    users, items, split = world

    def first_only(u, i):
        return np.einsum("uf,umf->um", users[u], np.broadcast_to(items[i], (len(u), i.shape[-1], 4)))[:, 0]

    with pytest.raises(ValueError, match=r"among other pairs and .* alone; a score must not depend on the other pairs"):
        fr.observe(first_only, split, "uni9", progress=False)
    flat = fr.observe(lambda u, i: (users[u] * items[i]).sum(-1), split, "uni9", progress=False)
    assert flat == fr.observe((users, items), split, "uni9", progress=False)


@pytest.mark.parametrize("flat", [False, True])
def test_scores_that_change_from_call_to_call_were_ranked_as_if_exact(world, flat):
    users, items, split = world
    rng = np.random.default_rng(0)

    def with_dropout(u, i):
        if not flat:
            u = u[:, None]
        kept = rng.random((*np.broadcast_shapes(u.shape, i.shape), 4)) < 0.9
        return (users[u] * items[i] * kept).sum(-1)

    with pytest.raises(ValueError, match=r"user 0 and item \d+ the score \S+ and then \S+; a score must be the same"):
        fr.evaluate({"mine": with_dropout}, split, "recall@10", progress=False)
    rounded = fr.observe(
        lambda u, i: (users[u][:, None] * items[i]).sum(-1) * (1 + 1e-6 * rng.random()), split, "full", progress=False
    )
    assert rounded.cases.sum() == 40  # machines may round differently from call to call


def test_wrong_shapes_are_found_on_a_few_pairs_and_not_on_all(world):
    _, _, split = world
    asked = []

    def transposed(u, i):
        asked.append(len(u))
        return np.zeros((i.shape[-1], len(u)))

    with pytest.raises(ValueError, match="it must return one score per item"):
        fr.observe(transposed, split, "uni9", progress=False)
    assert sorted(asked) == [2, 6]  # two users, and a few flat pairs: all would be 400 squared


def test_a_guide_lists_positions(world):
    users, items, split = world
    with pytest.raises(TypeError, match="`guide` must list items by their positions, 0 to 299"):
        fr.observe((users, items), split, fr.Guided(5, 9), guide=[["a"]] * 40, progress=False)


def test_a_level_is_a_number(ranks):
    with pytest.raises(ValueError, match=r"`level` must be between 0 and 1, got '0\.95'"):
        fr.correct({"A": ranks[0]}, 5000, "uni99", "ndcg@10", level="0.95")


def test_a_level_of_any_number_type_is_a_plain_number_from_then_on(ranks):
    dist = fr.LogSpline().fit(fr.RankCounts.from_ranks(ranks[0], 5000, "uni99"))
    for point in (dist, fr.CLS().fit(dist.counts)):
        for ask in (point.interval, point.bounds):
            found = ask("ndcg@10", level=np.float32(0.75))
            assert found == ask("ndcg@10", level=0.75)
            assert all(isinstance(each, float) for each in found)
    acc = fr.Accumulator("uni99", 5000)
    acc.update(np.random.default_rng(0).normal(size=(50, 100)))
    assert acc.report("ndcg@10", level=np.float32(0.75)).to_json() == acc.report("ndcg@10", level=0.75).to_json()
    with pytest.raises(ValueError, match=r"`level` must be between 0 and 1, got \(0\.9\+0j\)"):
        dist.interval("ndcg@10", level=0.9 + 0j)


def test_a_distribution_is_asked_about_ranks_and_cut_offs(ranks):
    dist = fr.LogSpline().fit(fr.RankCounts.from_ranks(ranks[0], 5000, "uni99"))
    for point in (dist, fr.CLS().fit(dist.counts)):
        assert point.curve("ndcg", np.int64(3)).tolist() == point.curve("ndcg", 3).tolist()
        with pytest.raises(
            TypeError, match=r"`ks` must be a cut-off, such as 10 for 1\.\.10, or several of them, got 2\.5"
        ):
            point.curve("ndcg", 2.5)
    assert dist.cdf(np.inf) == pytest.approx(1)
    assert dist.cdf([0, -np.inf, 10, 1e300]).tolist() == [0, 0, dist.cdf(10), dist.cdf(np.inf)]
    with pytest.raises(ValueError, match="`k` must be a rank, or several, got nan"):
        dist.cdf([1, np.nan])


def test_an_accumulator_refuses_words_for_numbers():
    with pytest.raises(ValueError, match="`n_items` must be a whole number of at least 1 or None, got 'many'"):
        fr.Accumulator("uni99", n_items="many")
    with pytest.raises(TypeError, match="`scores` must be numbers, got <U"):
        fr.Accumulator("uni1", n_items=50).update([["0.1", "0.2"]])


@pytest.mark.parametrize("word", sorted(fr.estimators.ESTIMATORS))
def test_estimators_say_what_they_are_fitted_to(word):
    for given in ([1, 2, 3], None):
        with pytest.raises(
            TypeError, match=r"`counts` must be RankCounts, got .*: make them with RankCounts.from_ranks"
        ):
            fr.parse_estimator(word).fit(given)


def test_a_path_was_taken_for_the_indentation_of_json(ranks):
    report = fr.correct({"A": ranks[0], "B": ranks[1]}, 5000, "uni99", "ndcg@10")
    for each in (report, report.comparison["ndcg@10"], fr.plan(1000, 100)):
        with pytest.raises(TypeError, match="`to_json` returns the text"):
            each.to_json("report.json")


def test_a_metric_s_function_is_one():
    with pytest.raises(TypeError, match="`function` must be a function of the rank"):
        fr.Metric("mine", "ndcg")


def test_observe_refuses_a_guide_that_nobody_would_ask_and_a_checkpoint_that_is_no_file(world):
    users, items, split = world
    with pytest.raises(ValueError, match="`guide` is for guided designs"):
        fr.observe((users, items), split, "uni9", guide="popularity", progress=False)
    with pytest.raises(TypeError, match="`checkpoint` must be the name of a file or None, got 3"):
        fr.observe((users, items), split, "uni9", checkpoint=3, progress=False)
    with pytest.raises(TypeError, match="`checkpoint` must be the name of a folder or None, got 3"):
        fr.evaluate({"m": (users, items)}, split, "ndcg@10", checkpoint=3, progress=False)
