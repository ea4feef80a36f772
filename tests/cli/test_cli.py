"""The command line: the same answers as the library, one line and exit code 2 on bad input."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

import fullrank as fr
from fullrank.cli import app

runner = CliRunner()


@pytest.fixture
def sampled():
    rng = np.random.default_rng(3)
    true = np.minimum(np.exp(rng.gamma(3.0, 1.6, size=(2, 800))), 5000).astype(int)
    return 1 + rng.binomial(99, (true - 1) / 4999)


def run(*arguments):
    """Through the real entry point, in a process of its own, as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "fullrank", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def test_correct_long_csv_with_two_models_equals_the_library(tmp_path, sampled):
    table = pa.table(
        {
            "model": ["A"] * 800 + ["B"] * 800,
            "user_id": np.tile(np.arange(800), 2),
            "rank": sampled.ravel(),
        }
    )
    csv.write_csv(table, tmp_path / "ranks.csv")
    result = runner.invoke(
        app, ["correct", str(tmp_path / "ranks.csv"), "--items", "5000", "--negatives", "99", "-m", "ndcg@10", "--json"]
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    expected = fr.correct(
        {"A": sampled[0], "B": sampled[1]}, n_items=5000, design="uni99", metrics="ndcg@10", users=np.arange(800)
    )
    assert document["schema"] == "fullrank.report/1"
    assert document["rows"] == expected.rows


def test_correct_wide_parquet_names_models_after_columns(tmp_path, sampled):
    parquet.write_table(
        pa.table({"user_id": np.arange(800), "EASE": sampled[0], "ALS": sampled[1]}), tmp_path / "wide.parquet"
    )
    result = runner.invoke(app, ["correct", str(tmp_path / "wide.parquet"), "--items", "5000", "--design", "uni99"])
    assert result.exit_code == 0
    assert "EASE" in result.stdout
    assert "ALS" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_correct_several_files_and_without_replacement(tmp_path, sampled):
    for name, ranks in zip(("a", "b"), sampled, strict=True):
        csv.write_csv(pa.table({"rank": ranks, "n_items": np.full(800, 5000)}), tmp_path / f"{name}.csv")
    arguments = ["correct", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--negatives", "99"]
    result = runner.invoke(app, [*arguments, "--without-replacement", "-m", "recall@5,10", "-e", "bv0.1", "--json"])
    rows = json.loads(result.stdout)["rows"]
    assert [(row["model"], row["metric"]) for row in rows] == [
        ("a", "recall@5"), ("a", "recall@10"), ("b", "recall@5"), ("b", "recall@10"),
    ]  # fmt: skip
    assert rows[0]["design"] == "uni99 without replacement"
    assert rows[0]["estimator"] == "BiasVariance(gamma=0.1)"


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("rank\n1\n0\n", ["--items", "100", "--negatives", "9"], "`ranks` is 0 at case 1"),
        ("rank\n1\n2\n", ["--items", "100", "--negatives", "9", "-m", "ngcd@10"], "did you mean ndcg@10"),
        ("rank\n1\n2\n", ["--negatives", "9"], "--items is missing"),
        ("rank\n1\n2\n", ["--items", "100"], "say how negatives were drawn"),
        ("rank\n1\n2\n", ["--items", "100", "--design", "pop9"], "by popularity"),
        ("rank\n1\n2\n", ["--items", "100", "--negatives", "9", "-e", "mlle"], "did you mean 'mle'"),
        ("rank\n1\nx\n", ["--items", "100", "--negatives", "9"], "whole numbers"),
        ("name\nx\n", ["--items", "100", "--negatives", "9"], "no column of ranks"),
        ("", ["--items", "100", "--negatives", "9"], "cannot read"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, content, arguments, message):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    result = run("correct", path, *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_missing_file():
    result = run("correct", "nowhere.csv", "--items", 10, "--negatives", 5)
    assert result.returncode == 2
    assert "no file 'nowhere.csv'" in result.stderr


def test_demo_shows_the_wrong_and_the_right_winner():
    result = run("demo")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    recall = lines[lines.index("recall@10") + 1 :][:6]
    winners = [line.split("<- winner")[0] for line in recall if "winner" in line]
    assert ["Sharp" in winners[0], "Broad" in winners[1], "Sharp" in winners[2]] == [True, True, True]


def test_the_page_is_written_on_request(tmp_path, sampled):
    csv.write_csv(pa.table({"rank": sampled[0]}), tmp_path / "a.csv")
    page = tmp_path / "report.html"
    result = run("correct", tmp_path / "a.csv", "--items", 5000, "--negatives", 99, "--html", page)
    assert result.returncode == 0, result.stderr
    assert page.read_text().startswith("<!doctype html>")


def test_version_and_help():
    assert run("--version").stdout.strip() == f"fullrank {fr.__version__}"
    assert "correct" in run("--help").stdout


def test_data_lists_shows_and_imports(tmp_path, monkeypatch):
    monkeypatch.setenv("FULLRANK_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    assert "yelp                696,865" in run("data").stdout
    assert "yelp.rating" in run("data", "show", "yelp").stdout
    assert "did you mean 'yelp'" in run("data", "show", "yelpp").stderr
    rows = "".join(f"{user}\t{item}\t5\t{10 * user + item}\n" for user in range(6) for item in range(4))
    (tmp_path / "yelp.rating").write_text(rows)
    made = run("data", "import", "yelp", tmp_path / "yelp.rating")
    assert made.returncode == 0, made.stderr
    assert "24 interactions, 6 users, 4 items" in made.stdout
    assert json.loads(run("data", "--json").stdout)[5]["present"] is True
