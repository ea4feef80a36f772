"""`evaluate`: the precision that was asked for, at the cost that it takes, and honest when stopped."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from made_up import make_world

import fullrank as fr
from fullrank.evaluation import speeds
from fullrank.evaluation.planner import Guess
from fullrank.observing.budget import Budget

METRICS = ["ndcg@10", "recall@10"]


@pytest.fixture(scope="module")
def crowd():
    """Enough users for several blocks of a model that is only known by its function."""
    return make_world(users=3000, items=500, seed=8)


def half(row):
    return (row["high"] - row["low"]) / 2


def exact(models, split, metrics=METRICS, **options):
    return fr.evaluate(models, split, metrics, design="full", progress=False, **options)


def test_a_design_alone_is_one_observation(world):
    models, split = world
    report = fr.evaluate(models, split, METRICS, design="uni99", rng=3, progress=False)
    for name, model in models.items():
        counts = fr.observe(model, split, "uni99", rng=3, progress=False)
        assert report.value(name, "ndcg@10") == fr.LogSpline().fit(counts).expect("ndcg@10")
    assert {row["design"] for row in report.rows} == {"uni99"}


def test_left_free_small_models_are_ranked_in_full_and_it_says_why(world, monkeypatch):
    models, split = world
    monkeypatch.setattr(speeds, "RANKED_SECONDS", np.inf)  # on a busy machine, too
    report = fr.evaluate(models, split, METRICS, progress=False)
    assert [row["value"] for row in report.rows] == [row["value"] for row in exact(models, split).rows]
    assert all(half(row) == 0 for row in report.rows)
    assert any("ranking everything was cheaper" in note and "seconds" in note for note in report.remarks)


def test_left_free_factors_are_ranked_as_far_as_the_metrics_look(world, monkeypatch, tmp_path):
    models, split = world
    monkeypatch.setattr(speeds, "RANKED_SECONDS", 0.0)
    monkeypatch.setattr(speeds, "RANKED_IS_WORTH", np.inf)
    truth = exact(models, split, ["ndcg@10", "recall@5"])
    report = fr.evaluate(models, split, ["ndcg@10", "recall@5"], checkpoint=tmp_path, progress=False)
    assert [row["value"] for row in report.rows] == pytest.approx([row["value"] for row in truth.rows], rel=1e-12)
    assert all(half(row) == 0 for row in report.rows)
    assert {row["design"] for row in report.rows} == {"exhaustive to 10, then uni49"}
    assert {row["naive"] for row in report.rows} == {None}
    assert any("ranking to 10 was cheaper" in note for note in report.remarks)
    assert any("metrics up to @10 are exact" in note for note in report.remarks)
    again = fr.evaluate(models, split, ["ndcg@10", "recall@5"], checkpoint=tmp_path, progress=False)
    assert again.rows == report.rows
    for metrics, options in ((["ndcg@10", "auc"], {}), (["ndcg@200"], {}), (["ndcg@10"], {"max_items": 10**9})):
        other = fr.evaluate(models, split, metrics, progress=False, **options)
        assert {row["design"] for row in other.rows} == {"exhaustive"}


def test_a_speed_is_measured_once_however_many_rounds_ask(world, monkeypatch):
    models, split = world
    monkeypatch.setattr(speeds, "RANKED_SECONDS", 0.0)
    seen = fr.Observation(models["good"], split, progress=False)
    timed = speeds.Speeds(seen, (fr.NDCG @ 10,), Budget())
    measured = []
    monkeypatch.setattr(speeds.Speeds, "_per_item", lambda self, design: measured.append(str(design)) or 1.0)
    for _ in range(3):
        _ = timed.exact
    assert measured == ["exhaustive", "exhaustive to 10, then uni49"]


def test_forced_sampling_meets_the_precision_for_less_and_its_design_is_a_plain_one(world):
    models, split = world
    truth = exact(models, split)
    report = fr.evaluate(models, split, METRICS, design="adaptive", precision=0.06, rng=1, progress=False)
    full = split.n_items * len(split)
    for row in report.rows:
        assert half(row) <= 0.06 * row["value"]
        assert abs(row["value"] - truth.value(row["model"], row["metric"])) <= 2.5 * half(row) + 1e-12
        assert row["items_scored"] < 0.5 * full
    for name, model in models.items():  # rounds change nothing: the last design from the start sees the same
        design = fr.parse_design(report.estimates[name].counts.design)
        assert fr.observe(model, split, design, rng=1, progress=False) == report.estimates[name].counts
    assert all(run.stop_reason == "precision" for run in report.runs.values())
    json.loads(report.to_json())


def test_the_same_seed_gives_the_same_digits_and_another_one_others(world):
    models, split = world
    options = {"design": "adaptive", "precision": 0.1, "progress": False}
    one, two, other = (fr.evaluate(models["good"], split, "ndcg@10", rng=seed, **options) for seed in (5, 5, 6))
    assert one.rows == two.rows
    assert one.rows[0]["value"] != other.rows[0]["value"]


def test_intervals_cover_the_truth_as_often_as_they_say(world):
    """Many small worlds, so that what is covered is not one roll of the dice."""
    inside = []
    for seed in range(8):
        models, split = make_world(users=400, items=1000, seed=seed)
        truth = exact(models["good"], split)
        report = fr.evaluate(models["good"], split, METRICS, design="adaptive", precision=0.1, rng=seed, progress=False)
        inside += [a["low"] <= b["value"] <= a["high"] for a, b in zip(report.rows, truth.rows, strict=True)]
    assert np.mean(inside) > 0.8


def test_a_precision_that_only_everything_gives_ends_exact(world):
    models, split = world
    report = fr.evaluate(models["good"], split, METRICS, design="adaptive", precision=1e-6, progress=False)
    truth = exact(models["good"], split)
    for row, true in zip(report.rows, truth.rows, strict=True):
        assert row["value"] == pytest.approx(true["value"], abs=1e-9)
        assert row["items_scored"] < true["items_scored"]


def test_absolute_precision(world):
    models, split = world
    report = fr.evaluate(
        models["good"], split, "recall@10", design="adaptive", precision=0.01, absolute=True, progress=False
    )
    assert half(report.rows[0]) <= 0.01


def test_budget_of_items_is_kept_and_said(world):
    models, split = world
    report = fr.evaluate(models, split, METRICS, design="adaptive", precision=0.001, max_items=400_000, progress=False)
    spent = {row["model"]: row["items_scored"] for row in report.rows}
    assert sum(spent.values()) <= 400_000
    assert sum("budget was spent" in note for note in report.notes) == 2
    truth = exact(models, split)
    for row in report.rows:
        assert row["low"] - half(row) < truth.value(row["model"], row["metric"]) < row["high"] + half(row)


def test_budget_below_one_look_at_everybody_takes_shorter_looks(world):
    models, split = world
    report = fr.evaluate(
        models["good"], split, METRICS, design="adaptive", precision=0.01, max_items=30 * len(split), progress=False
    )
    assert 0 < report.rows[0]["items_scored"] <= 30 * len(split)
    assert report.rows[0]["cases"] == len(split)


def test_budget_of_seconds_ends_the_run(world):
    models, split = world

    def slow(users, items):
        import time

        time.sleep(0.1)  # a run to the end would take seconds, on any machine
        return np.einsum("bd,bmd->bm", models["good"][0][users], models["good"][1][items])

    report = fr.evaluate(
        {"slow": slow}, split, "ndcg@10", design="adaptive", precision=1e-4, max_seconds=0.3, progress=False
    )
    assert report.runs["slow"].stop_reason == "budget"
    assert report.rows[0]["low"] < report.rows[0]["high"]


@pytest.mark.parametrize(
    ("design", "budget"), [("adaptive", 20_000), (None, 20_000), (None, 120_000), (None, 3_000_000)]
)
def test_a_budget_of_items_holds_for_whatever_the_model_is_asked(world, design, budget):
    models, split = world
    asked = []

    def counting(users, items):
        asked.append(items.size)
        return np.einsum("bd,bmd->bm", models["good"][0][users], models["good"][1][items])

    options = {"design": design, "precision": 0.01, "max_items": budget, "progress": False}
    report = fr.evaluate({"a": counting}, split, METRICS, **options)
    scored = report.rows[0]["items_scored"]
    targets = sum(asked) - scored  # every case is asked with its own target, once per call
    assert sum(asked) <= 1.15 * budget
    assert 0 <= targets <= 0.15 * sum(asked)
    if report.runs["a"].stop_reason == "budget":
        assert scored >= 0.6 * budget
    for kind in (
        models["good"],
        fr.models.scorer.Rows(lambda u: models["good"][0][u] @ models["good"][1].T, 2500, 900),
    ):
        report = fr.evaluate({"a": kind}, split, METRICS, **options)
        assert report.rows[0]["items_scored"] <= 1.15 * budget


@pytest.mark.parametrize("budget", [5_000, 20_000])
def test_scores_by_which_a_checkpoint_knows_a_function_are_part_of_the_budget(world, budget, tmp_path):
    models, split = world

    def function(users, items):
        return np.einsum("bd,bmd->bm", models["good"][0][users], models["good"][1][items])

    options = {"design": "adaptive", "precision": 0.001, "max_items": budget, "progress": False}
    plain = fr.evaluate({"a": function}, split, METRICS, **options).rows[0]["items_scored"]
    kept = fr.evaluate({"a": function}, split, METRICS, checkpoint=tmp_path, **options).rows[0]["items_scored"]
    assert max(plain, kept) <= 1.01 * budget


class _OfCornac:
    """The parts of a Cornac model that are asked: it numbers users and items in an order of its own."""

    __module__ = "cornac.models"
    name = "model"

    def __init__(self, scores, users, items):
        rng = np.random.default_rng(0)
        order = [rng.permutation(size) for size in scores.shape]
        maps = (
            {str(names[old]): new for new, old in enumerate(o)} for names, o in zip((users, items), order, strict=True)
        )
        self.train_set = SimpleNamespace(**dict(zip(("uid_map", "iid_map"), maps, strict=True)))
        self.scores = scores[np.ix_(*order)]

    def score(self, user):
        return self.scores[user]


@pytest.fixture
def named_world():
    rng = np.random.default_rng(0)
    scores, train = rng.normal(size=(50, 80)), rng.random((50, 80)) < 0.1
    train[np.arange(50), scores.argmax(1)] = False
    users, items = np.array([f"u{u}" for u in range(50)]), np.array([f"i{i}" for i in range(80)])
    split = fr.Split(sp.csr_matrix(train), np.arange(50), scores.argmax(1), user_ids=users, item_ids=items)
    return scores, split


@pytest.mark.parametrize("kind", ["cornac", "frame", "columns", "similarity", "factors"])
def test_a_model_alone_is_read_with_the_split_as_one_in_a_mapping_is(named_world, kind):
    scores, split = named_world
    columns = {
        "user_id": np.repeat(split.user_ids, 80),
        "item_id": np.tile(split.item_ids, 50),
        "score": scores.ravel(),
    }
    model = {
        "cornac": lambda: _OfCornac(scores, split.user_ids, split.item_ids),
        "frame": lambda: pytest.importorskip("polars").DataFrame(columns),
        "columns": lambda: columns,
        "similarity": lambda: SimpleNamespace(similarity=scores.T @ scores),
        "factors": lambda: [scores, np.eye(80)],
    }[kind]()
    alone = fr.evaluate(model, split, "recall@1", design="full", progress=False)
    (name,) = alone.models
    in_mapping = fr.evaluate({name: model}, split, "recall@1", design="full", progress=False)
    assert alone.rows == in_mapping.rows
    if kind != "similarity":
        assert alone.rows[0].value == 1.0


def test_a_list_of_models_is_refused(named_world):
    scores, split = named_world
    pair = (scores, np.eye(80))
    table = {"user_id": [0], "item_id": [1], "score": [0.5]}
    fitted = fr.models.Popularity().fit(split.train)
    for models in ([fitted, fitted], [pair, pair], [pair, pair, pair], [table, table], [fitted], (scores,)):
        with pytest.raises(TypeError, match=r"`models` must be models by name, as in .* or one model, got a .* of \d"):
            fr.evaluate(models, split)


@pytest.mark.parametrize("design", ["adaptive", None])
def test_a_budget_of_seconds_holds_for_a_slow_model(world, design):
    models, split = world

    def slow(users, items):
        time.sleep(2e-4 * items.size)  # ranking everything would take minutes
        return np.einsum("bd,bmd->bm", models["good"][0][users], models["good"][1][items])

    began = time.perf_counter()
    report = fr.evaluate(slow, split, "ndcg@10", design=design, precision=0.01, max_seconds=4.0, progress=False)
    took = time.perf_counter() - began
    assert next(iter(report.runs.values())).stop_reason == "budget"
    assert took < 1.5 * 4.0  # on a machine that does nothing else it is less than 1.15
    assert report.rows[0]["items_scored"] * 2e-4 < 1.15 * 4.0


@pytest.mark.parametrize("calls", [10, 22])
def test_ctrl_c_returns_what_was_seen(crowd, calls):
    models, split = crowd
    U, V = models["good"]
    asked = []

    def stops(users, items):
        asked.append(len(users))
        if len(asked) == calls:
            raise KeyboardInterrupt
        return np.einsum("bd,bmd->bm", U[users], V[items])

    report = fr.evaluate(
        {"a": stops, "never": models["half"]}, split, METRICS, design="adaptive", precision=0.01, progress=False
    )
    assert report.models == ["a"]
    assert any("interrupted" in note and "never" in note for note in report.notes)
    seen = report.estimates["a"].counts
    assert 0 < len(seen) <= len(split)
    for row in report.rows:
        assert row["low"] <= row["value"] <= row["high"]


def test_ctrl_c_before_anything_was_seen_is_ctrl_c(world):
    def stops(users, items):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fr.evaluate({"a": stops}, world[1], METRICS, design="adaptive", precision=0.02, progress=False)


SCRIPT = """
import os, signal, sys
import numpy as np
import fullrank as fr
sys.path.insert(0, {tests!r})
from made_up import make_world
models, split = make_world(users=2500, items=500)
U, V = models["good"]
calls = 0
def score(users, items):
    global calls
    calls += 1
    if calls == {calls}:
        os.kill(os.getpid(), signal.SIGKILL)
    return np.einsum("bd,bmd->bm", U[users], V[items])
report = fr.evaluate({{"a": score, "b": models["half"]}}, split, ["ndcg@10"], design="adaptive", precision=0.01,
                     checkpoint={folder!r}, rng=4, progress=False)
print(report.to_json(None))
"""


def rows_of(folder, calls):
    here = os.path.dirname(__file__)
    code = SCRIPT.format(tests=here, calls=calls, folder=str(folder))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout)["rows"] if done.returncode == 0 else None


def test_killed_and_resumed_gives_the_uninterrupted_answer(tmp_path):
    code, whole = rows_of(tmp_path / "whole", -1)
    assert code == 0
    for calls in (8, 20):
        code, _ = rows_of(tmp_path / "cut", calls)
        assert code == -signal.SIGKILL
    assert any((tmp_path / "cut").iterdir())
    code, resumed = rows_of(tmp_path / "cut", -1)
    assert code == 0
    assert resumed == whole


def test_interrupt_with_a_checkpoint_counts_what_earlier_runs_left(crowd, tmp_path):
    models, split = crowd
    U, V = models["good"]

    def scorer(limit):
        asked = []

        def score(users, items):
            asked.append(1)
            if len(asked) == limit:
                raise KeyboardInterrupt
            return np.einsum("bd,bmd->bm", U[users], V[items])

        return score

    def cases(limit):
        options = {"design": "adaptive", "precision": 0.05, "checkpoint": tmp_path, "progress": False}
        return len(fr.evaluate({"a": scorer(limit)}, split, "ndcg@10", **options).estimates["a"].counts)

    first = cases(5)  # the first call finds out which form the function takes
    assert 0 < first < len(split)
    assert cases(5) > first


def test_several_targets_per_user():
    models, split = make_world(users=250, items=800, targets=3, seed=2)
    truth = exact(models["good"], split)
    report = fr.evaluate(models["good"], split, METRICS, design="adaptive", precision=0.08, progress=False)
    for row, true in zip(report.rows, truth.rows, strict=True):
        assert half(row) <= 0.08 * row["value"]
        assert abs(row["value"] - true["value"]) < 2.5 * max(half(row), 0.01)


# ------------------------------------------------------------------------------------------------- the population


def test_population_is_never_surer_than_the_full_ranking(world):
    models, split = world
    full = exact(models["good"], split, target="population")
    report = fr.evaluate(
        models["good"], split, METRICS, design="adaptive", precision=0.01, target="population", progress=False
    )
    for row, whole in zip(report.rows, full.rows, strict=True):
        assert half(row) > 0.85 * half(whole)  # both are estimates of the same width, theirs by 256 blocks
    needed = report.runs["factors"].needed_cases
    for row in report.rows:
        assert needed[row["metric"]] == pytest.approx(len(split) * (half(row) / (0.01 * row["value"])) ** 2, rel=0.1)
    assert any("it would take about" in note for note in report.notes)


def test_population_with_many_users_looks_at_some_of_them():
    models, split = make_world(users=9000, items=400, factors=8, seed=3, noise=1.5)
    report = fr.evaluate(
        models["good"], split, "recall@10", design="adaptive", precision=0.06, target="population", progress=False
    )
    row = report.rows[0]
    assert half(row) <= 0.06 * row["value"]
    assert row["cases"] < len(split)
    truth = exact(models["good"], split, "recall@10").rows[0]["value"]
    assert abs(row["value"] - truth) < 2 * half(row)
    assert report.runs["factors"].stop_reason == row.stop_reason == "precision"


def test_guess_of_a_fit_keeps_its_values(world):
    models, split = world
    dist = fr.LogSpline().fit(fr.observe(models["good"], split, "uni199", progress=False))
    guess = Guess.of(dist)
    for metric in ("ndcg@10", "recall@50", "ap@5"):
        assert guess.value(fr.parse_metric(metric)) == pytest.approx(dist.expect(metric), rel=1e-6)


# ------------------------------------------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"precision": -1}, "`precision` must be between 0 and 1, .* got -1"),
        ({"precision": 2}, "it is relative"),
        ({"precision": 0.02, "design": "uni99"}, "exclude each other"),
        ({"max_items": 0}, "`max_items` must be a finite number above 0, got 0"),
        ({"target": "users"}, "`target` must be"),
        ({"level": 2}, "`level` must be between 0 and 1, got 2"),
    ],
)
def test_misuse_is_one_sentence(world, options, said):
    with pytest.raises(ValueError, match=said):
        fr.evaluate(world[0], world[1], METRICS, progress=False, **options)


def test_other_misuse(world, tmp_path):
    with pytest.raises(ValueError, match="`models` is empty"):
        fr.evaluate({}, world[1], METRICS)
    with pytest.raises(TypeError, match=r"`split` must be .* got a list"):
        fr.evaluate(world[0], [1], METRICS)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="`checkpoint` must be a folder"):
        fr.evaluate(world[0], world[1], METRICS, checkpoint=tmp_path / "file")


def test_no_package_or_module_takes_the_name_of_a_public_function():
    inside = {path.stem for path in Path(fr.__file__).parent.iterdir()}
    assert not {name for name in fr.__all__ if inspect.isfunction(getattr(fr, name))} & inside


def test_hits_and_recall_of_several_targets_have_goals_of_their_own():
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(200, 6)), rng.normal(size=(3000, 6))
    best = np.argsort(-(users @ items.T), axis=1)
    places = 3 * np.floor(1000 ** rng.beta(1, 1.2, (200, 3))).astype(int) - np.array([3, 2, 1])  # no two are one
    targets = np.take_along_axis(best, places, axis=1)
    split = fr.Split(sp.csr_matrix((200, 3000)), np.repeat(np.arange(200), 3), targets.ravel())
    options = {"design": "adaptive", "precision": 0.12, "progress": False}
    report = fr.evaluate((users, items), split, ["recall@10", "hr@10"], **options)
    last = report.runs[report.models[0]].rounds[-1]["half_widths"]
    assert set(last) == {"recall@10", "hr@10"}
    assert last["recall@10"] != last["hr@10"]
    for row in report.rows:
        assert (row.high - row.low) / 2 <= 0.13 * row.value or row.stop_reason == "exact"
    assert report.rows[0].metric == fr.Recall @ 10
    assert report.rows[1].metric == fr.Hit @ 10
    alone = max(
        fr.evaluate((users, items), split, each, **options).rows[0].items_scored for each in ("recall@10", "hr@10")
    )
    assert report.rows[0].items_scored <= 1.5 * alone
