"""`fullrank evaluate` and `fullrank plan`: models and splits from files, the answers of the library."""

import json
import sys

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import csv, parquet
from typer.testing import CliRunner

import fullrank as fr
from fullrank.cli import app

runner = CliRunner()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Interactions and factors on disk, and the split they make."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    users, items = 200, 300
    U, V = rng.normal(size=(users, 6)).astype(np.float32), rng.normal(size=(items, 6)).astype(np.float32)
    best = np.argsort(-(U @ V.T + 2 * rng.gumbel(size=(users, items))), axis=1)[:, :6]
    everything = np.arange(items)  # every item occurs, so that names are positions
    train_users = np.concatenate([np.repeat(np.arange(users), 5), everything % users])
    train_items = np.concatenate([best[:, :5].ravel(), everything])
    held = best[:, 5]
    pairs = train_users * items + train_items
    keep = ~np.isin(pairs, np.arange(users) * items + held)
    keep &= np.isin(np.arange(len(pairs)), np.unique(pairs, return_index=True)[1])
    csv.write_csv(pa.table({"user_id": train_users[keep], "item_id": train_items[keep]}), folder / "train.csv")
    csv.write_csv(pa.table({"user_id": np.arange(users), "item_id": held}), folder / "test.csv")
    np.save(folder / "users.npy", U)
    np.save(folder / "items.npy", V)
    parquet.write_table(pa.table({f"f{i}": U[:, i] for i in range(6)}), folder / "users.parquet")
    parquet.write_table(pa.table({"factors": list(V)}), folder / "items.parquet")
    (folder / "mymodule.py").write_text(
        "import numpy as np, pathlib\n"
        "here = pathlib.Path(__file__).parent\n"
        "U, V = np.load(here / 'users.npy'), np.load(here / 'items.npy')\n"
        "def score(users, items):\n    return np.einsum('bd,bmd->bm', U[users], V[items])\n"
        "def make():\n    return U, V\n"
        "def fit(split):\n    return U[: split.n_users], V\n"
    )
    train = sp.csr_matrix((np.ones(keep.sum()), (train_users[keep], train_items[keep])), (users, items))
    return folder, fr.Split(train, np.arange(users), held), (U, V)


def rows(result):
    assert result.exit_code == 0, result.output + str(result.exception)
    return json.loads(result.stdout)["rows"]


def ask(folder, *more):
    base = [
        "evaluate",
        "--train",
        str(folder / "train.csv"),
        "--test",
        str(folder / "test.csv"),
        "-m",
        "ndcg@10",
        "--json",
    ]
    return runner.invoke(app, [*base, *more])


@pytest.mark.parametrize("what", ["npy", "parquet", "function", "factory", "fit", "npz"])
def test_a_model_may_be_given_in_many_ways(files, what, monkeypatch):
    folder, split, (U, V) = files
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    spec = {
        "npy": f"{folder}/users.npy,{folder}/items.npy",
        "parquet": f"{folder}/users.parquet,{folder}/items.parquet",
        "function": "mymodule:score",
        "factory": "mymodule:make",
        "fit": "mymodule:fit",
        "npz": f"{folder}/pop.npz",
    }[what]
    model = (U, V)
    if what == "npz":
        model = fr.models.Popularity().fit(split.train)
        model.save(folder / "pop.npz")
    expected = fr.observe(model, split, "full", progress=False)
    found = rows(ask(folder, "--model", f"mine={spec}", "--design", "full"))
    assert found[0]["model"] == "mine"
    assert found[0]["value"] == pytest.approx(fr.MLE().fit(expected).expect("ndcg@10"))


def test_precision_seed_and_page(files, tmp_path):
    folder, split, model = files
    found = rows(
        ask(
            folder, "-M", f"a={folder}/users.npy,{folder}/items.npy", "-p", "0.2", "--design", "adaptive", "--seed", "3",
            "--html", str(tmp_path / "page.html"), "--checkpoint", str(tmp_path / "kept"),
        )
    )  # fmt: skip
    expected = fr.evaluate({"a": model}, split, "ndcg@10", design="adaptive", precision=0.2, rng=3, progress=False)
    assert found[0]["value"] == pytest.approx(expected.rows[0]["value"])
    assert (tmp_path / "page.html").read_text().startswith("<!")
    assert any((tmp_path / "kept").iterdir())


def test_config_file_and_flags_that_win(files, tmp_path):
    folder, _, _ = files
    config = tmp_path / "run.toml"
    config.write_text(
        f'train = "{folder}/train.csv"\ntest = "{folder}/test.csv"\nmetrics = ["recall@5"]\ndesign = "uni20"\n'
        f'[models]\nfirst = "{folder}/users.npy,{folder}/items.npy"\n'
    )
    found = rows(runner.invoke(app, ["evaluate", str(config), "--json"]))
    assert found[0]["metric"] == "recall@5"
    assert found[0]["design"] == "uni20"
    found = rows(runner.invoke(app, ["evaluate", str(config), "--design", "full", "--json"]))
    assert found[0]["design"] == "exhaustive"
    config.write_text("precison = 0.02\n")
    result = runner.invoke(app, ["evaluate", str(config)])
    assert "did you mean 'precision'" in str(result.exception)


def test_ranks_and_scored_candidates_from_files(files, tmp_path):
    rng = np.random.default_rng(1)
    ranks = rng.integers(1, 20, 300)
    csv.write_csv(pa.table({"rank": ranks}), tmp_path / "ranks.csv")
    arguments = [
        "evaluate",
        "-M",
        f"m={tmp_path}/ranks.csv",
        "--design",
        "uni99",
        "--items",
        "1000",
        "-m",
        "ndcg@10",
        "--json",
    ]
    found = rows(runner.invoke(app, arguments))
    assert found[0]["value"] == fr.correct(ranks, 1000, "uni99", "ndcg@10").rows[0]["value"]
    among_all = rows(runner.invoke(app, [*arguments, "--candidates", "all"]))[0]["value"]
    assert among_all == fr.correct(ranks, 1000, "uni99", "ndcg@10", candidates="all").rows[0]["value"]
    assert among_all != found[0]["value"]
    users = np.repeat(np.arange(50), 11)
    table = {
        "user_id": users,
        "item_id": np.tile(np.arange(11), 50),
        "score": rng.normal(size=550),
        "label": np.tile([1] + [0] * 10, 50),
    }
    parquet.write_table(pa.table(table), tmp_path / "scores.parquet")
    arguments = ["evaluate", "-M", f"m={tmp_path}/scores.parquet", "--design", "uni10", "--items", "1000", "--json"]
    assert rows(runner.invoke(app, arguments))[0]["cases"] == 50


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--model is missing"),
        (["-M", "a=u.npy,v.npy"], "--data or --train is missing"),
        (["-M", "a=u.npy,v.npy", "--data", "ml-1mm"], "ml-1m"),
        (["-M", "a=ranks.csv", "--design", "uni9"], "ranks.csv"),
        (["-M", "a=ranks.csv", "--precision", "0.1"], "--precision has no meaning"),
    ],
)
def test_bad_input_is_one_sentence(arguments, said):
    result = runner.invoke(app, ["evaluate", *arguments])
    assert result.exit_code != 0
    assert said in str(result.exception)


def test_unknown_models_are_named(files):
    folder, *_ = files
    for spec, said in (
        (f"a={folder}/users.npy", "name both"),
        ("a=mymodul:score", "cannot import"),
        ("a=json:dunps", "did you mean 'dumps'"),
        ("a=what", "cannot tell what model"),
        (f"a={folder}/none.npy,{folder}/items.npy", "there is no file"),
    ):
        result = ask(folder, "-M", spec)
        assert said in str(result.exception)


def test_plan_on_the_command_line(tmp_path):
    result = runner.invoke(app, ["plan", "--items", "5000", "--cases", "800", "-p", "0.1", "--json"])
    assert result.exit_code == 0, result.exception
    document = json.loads(result.stdout)
    assert document["schema"] == "fullrank.plan/1"
    assert document["choices"][-1]["recommended"]
    assert result.stdout.strip() == fr.plan(5000, 800, precision=0.1).to_json()
    counts = fr.RankCounts.from_ranks(np.random.default_rng(0).integers(1, 30, 500), 5000, "uni99")
    counts.save(tmp_path / "pilot.npz")
    result = runner.invoke(app, ["plan", "--pilot", str(tmp_path / "pilot.npz"), "-m", "recall@10", "-p", "0.1"])
    assert "Asked for: ±10%" in result.stdout
    result = runner.invoke(app, ["plan", "--items", "5000"])
    assert "--cases" in str(result.exception)


def test_row_p_is_item_p_even_where_the_files_leave_items_out(tmp_path):
    """Renumbering the items that occur would hand every target another item's factors."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(60, 8)).astype(np.float32), rng.normal(size=(500, 8)).astype(np.float32)
    best = np.argsort(-(U @ V.T), axis=1)
    np.save(tmp_path / "u.npy", U)
    np.save(tmp_path / "v.npy", V)
    csv.write_csv(
        pa.table({"user": np.repeat(np.arange(60), 2), "item": best[:, 8:10].ravel()}), tmp_path / "train.csv"
    )
    csv.write_csv(pa.table({"user": np.arange(60), "item": best[:, 0]}), tmp_path / "test.csv")
    arguments = ["evaluate", "--train", str(tmp_path / "train.csv"), "-m", "recall@1", "--json"]
    model = ["-M", f"mine={tmp_path}/u.npy,{tmp_path}/v.npy"]
    result = runner.invoke(app, [*arguments, "--test", str(tmp_path / "test.csv"), *model])
    assert rows(result)[0]["value"] == 1.0
    assert "among 498 items" in json.loads(result.stdout)["provenance"]["about"]
    # names that are no such numbers: one row for each, or nobody knows which belongs to which
    csv.write_csv(
        pa.table({"user": np.repeat(np.arange(60), 2), "item": [f"i{each}" for each in best[:, 8:10].ravel()]}),
        tmp_path / "train.csv",
    )
    assert "row p must belong to item p" in str(runner.invoke(app, [*arguments, *model]).exception)
    names = np.unique([f"i{each}" for each in best[:, 8:10].ravel()])
    np.save(tmp_path / "v.npy", V[: len(names)])
    assert len(rows(runner.invoke(app, [*arguments, *model]))) == 1


def test_what_is_held_out_is_said_once(files):
    folder, *_ = files
    result = ask(folder, "-M", f"a={folder}/users.npy,{folder}/items.npy", "--how", "last")
    assert "--how last has no meaning beside --test" in str(result.exception)


def test_rows_numbered_otherwise_than_the_data_set_are_refused(files, monkeypatch):
    folder, split, _ = files
    fewer = split.train[:, :290]
    free = np.setdiff1d(np.arange(290), split.seen(0))[:1]
    monkeypatch.setattr("fullrank.data.load", lambda *_: fr.Split(fewer, [0], free))
    arguments = ["evaluate", "--data", "ml-1m", "-M", f"a={folder}/users.npy,{folder}/items.npy"]
    assert "has 300 items, and ml-1m has 290" in str(runner.invoke(app, arguments).exception)
