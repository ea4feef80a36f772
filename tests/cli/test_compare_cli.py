"""``fullrank compare``: ranks or saved counts in; text, JSON, LaTeX, Markdown or a page out."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from typer.testing import CliRunner

import fullrank as fr
from fullrank.cli import app

runner = CliRunner()


@pytest.fixture
def counts():
    rng = np.random.default_rng(3)
    true = np.floor(5000 ** rng.beta(np.array([[2.0], [5.0]]) / 3, 1, size=(2, 800))).astype(int)
    ranks = 1 + rng.binomial(99, (true - 1) / 4999)
    return {name: fr.RankCounts.from_ranks(each, 5000, "uni99") for name, each in zip("AB", ranks, strict=True)}, ranks


def run(*arguments):
    return runner.invoke(app, ["compare", *map(str, arguments)])


def test_ranks_and_saved_counts_give_the_library_s_answer(tmp_path, counts):
    by_model, ranks = counts
    csv.write_csv(pa.table({"A": ranks[0], "B": ranks[1]}), tmp_path / "ranks.csv")
    from_ranks = run(tmp_path / "ranks.csv", "--items", 5000, "--negatives", 99, "--json")
    assert from_ranks.exit_code == 0, from_ranks.output
    for name, each in by_model.items():
        each.save(tmp_path / f"{name}.npz")
    from_counts = run(tmp_path / "A.npz", tmp_path / "B.npz", "--json")
    expected = fr.compare(by_model, "ndcg@10").to_dict()
    assert json.loads(from_counts.stdout) == [json.loads(json.dumps(expected))]
    assert json.loads(from_ranks.stdout) == json.loads(from_counts.stdout)


def test_candidates_of_ranks_are_named_and_those_of_counts_are_known(tmp_path, counts):
    _, ranks = counts
    csv.write_csv(pa.table({"A": ranks[0], "B": ranks[1]}), tmp_path / "ranks.csv")
    every = {
        name: fr.RankCounts.from_ranks(r, 5000, "uni99", candidates="all") for name, r in zip("AB", ranks, strict=True)
    }
    for name, each in every.items():
        each.save(tmp_path / f"{name}.npz")
    expected = [json.loads(json.dumps(fr.compare(every, "ndcg@10").to_dict()))]
    plain = ("--items", 5000, "--negatives", 99, "--json")
    assert json.loads(run(tmp_path / "ranks.csv", *plain, "--candidates", "all").stdout) == expected
    assert json.loads(run(tmp_path / "ranks.csv", *plain).stdout) != expected
    files = [tmp_path / "A.npz", tmp_path / "B.npz"]
    assert json.loads(run(*files, "--json").stdout) == expected
    assert json.loads(run(*files, "--json", "--candidates", "all").stdout) == expected
    refused = str(run(*files, "--candidates", "unseen").exception)
    assert "A.npz: `candidates` must be 'all', which the counts hold, got 'unseen': leave it out" in refused


def test_text_tables_and_page(tmp_path, counts):
    for name, each in counts[0].items():
        each.save(tmp_path / f"{name}.npz")
    files = [tmp_path / "A.npz", tmp_path / "B.npz"]
    text = run(*files, "-m", "ndcg@10", "-m", "recall@5", "--target", "population")
    assert text.exit_code == 0, text.output
    assert text.stdout.startswith("A leads on ndcg@10: ")
    assert "A minus B is +0." in text.stdout
    assert "recall@5" in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 80
    assert run(*files, "--markdown", "-m", "ndcg@5,10").stdout.startswith("| # | Model | NDCG@5 | NDCG@10 |")
    assert "\\begin{tabular}{c|l|c}" in run(*files, "--latex").stdout
    page = tmp_path / "page.html"
    assert run(*files, "--html", page).exit_code == 0
    assert "Model against model" in page.read_text()


def test_a_toml_file_holds_the_options_and_flags_win(tmp_path, counts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    csv.write_csv(pa.table({"A": counts[1][0], "B": counts[1][1]}), "ranks.csv")
    options = 'files = ["ranks.csv"]\nitems = 5000\ndesign = "uni99"\nmetrics = ["recall@5"]\nlevel = 0.9\n'
    (tmp_path / "run.toml").write_text(options)
    (document,) = json.loads(run("run.toml", "--json").stdout)
    assert (document["metric"], document["level"]) == ("recall@5", 0.9)
    (document,) = json.loads(run("run.toml", "--json", "-m", "ndcg@3", "--negatives", 99).stdout)
    assert document["metric"] == "ndcg@3"
    (tmp_path / "bad.toml").write_text("itemz = 3")
    assert "unknown key 'itemz'" in str(run("bad.toml").exception)
    (tmp_path / "bad.toml").write_text("items = ")
    assert "is not TOML" in str(run("bad.toml").exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ranks.csv"], "--negatives or --design is missing"),
        (["ranks.csv", "--negatives", "9"], "--items is missing"),
        (["ranks.csv", "--negatives", "9", "--design", "uni9", "--items", "50"], "exclude each other"),
        (["ranks.csv", "--negatives", "9", "--items", "50"], "a comparison needs at least two"),
        (["ranks.csv", "ranks.csv", "--negatives", "9", "--items", "50"], "two files hold a model named 'A'"),
        (["nowhere.npz"], "there is no file"),
        (["bad.npz"], "is not a file of rank counts"),
        (["ranks.csv", "--latex", "--json"], "exclude one another"),
        (["ranks.csv", "--negatives", "9", "--items", "50", "--target", "users"], "`target` must be"),
        (["ranks.csv", "--negatives", "1", "--items", "50"], "`A` is 3 on line 4: with 1 negative ranks go up to 2"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    csv.write_csv(pa.table({"A": [1, 2, 3]}), "ranks.csv")
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    result = run(*arguments)
    assert isinstance(result.exception, ValueError | FileNotFoundError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
