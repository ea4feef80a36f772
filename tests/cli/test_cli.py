"""The command line: the same answers as the library, one line and exit code 2 on bad input."""

import contextlib
import io
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

import fullrank as fr
from fullrank.cli import app, main
from fullrank.report.words import clean

runner = CliRunner()


@pytest.fixture
def sampled():
    rng = np.random.default_rng(3)
    true = np.floor(5000 ** rng.beta(3.0 / 3, 1, size=(2, 800))).astype(int)
    return 1 + rng.binomial(99, (true - 1) / 4999)


def run(*arguments, alone=False):
    """Through the real entry point, output piped; ``alone``: in a process of its own, as a user would."""
    if alone:
        return subprocess.run(
            [sys.executable, "-m", "fullrank", *map(str, arguments)], capture_output=True, text=True, timeout=120
        )
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["fullrank", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
            main()
    finally:
        sys.argv = before
    return subprocess.CompletedProcess(arguments, end.value.code, out.getvalue(), err.getvalue())


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
    assert document["schema"] == "fullrank.report/2"
    assert document["rows"] == expected.rows


def test_correct_takes_the_candidates(tmp_path, sampled):
    csv.write_csv(pa.table({"rank": sampled[0]}), tmp_path / "ranks.csv")
    plain = ["correct", str(tmp_path / "ranks.csv"), "-n", "5000", "--negatives", "99", "-m", "ndcg@10", "--json"]
    values = {}
    for candidates in ("unseen", "all", "shop"):
        document = json.loads(runner.invoke(app, [*plain, "--candidates", candidates]).stdout)
        expected = fr.correct(sampled[0], 5000, "uni99", "ndcg@10", candidates=candidates)
        values[candidates] = document["rows"][0]["value"]
        assert values[candidates] == expected.rows[0]["value"]
        assert document["provenance"]["candidates"] == candidates
        assert document["provenance"]["prior"] == ("all" if candidates == "all" else "unseen")
    assert json.loads(runner.invoke(app, plain).stdout)["rows"][0]["value"] == values["unseen"] != values["all"]
    assert "`candidates` must be 'unseen', 'all' or" in str(runner.invoke(app, [*plain, "--candidates", ""]).exception)


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
        ("rank\n1\n0\n", ["--items", "100", "--negatives", "9"], "`rank` is 0 on line 3"),
        ("rank\n1\n2\n", ["--items", "100", "--negatives", "9", "-m", "ngcd@10"], "did you mean 'ndcg@10'"),
        ("rank\n1\n2\n", ["--negatives", "9"], "--items is missing"),
        ("rank\n1\n2\n", ["--items", "100"], "--negatives or --design is missing"),
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
    result = run("demo", alone=True)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    recall = lines[lines.index("recall@10") + 1 :][:6]
    winners = [line.split("<- winner")[0] for line in recall if "winner" in line]
    assert ["Sharp" in winners[0], "Broad" in winners[1], "Sharp" in winners[2]] == [True, True, True]


def test_the_demo_s_json_has_each_row_s_truth():
    from fullrank.demo import run as run_demo

    rows = json.loads(run("demo", "--json").stdout)["rows"]
    full = run_demo(0).truth
    assert [row["truth"] for row in rows] == [full.value(row["model"], row["metric"]) for row in rows]
    assert all(row["bounds"][0] <= row["truth"] <= row["bounds"][1] for row in rows)


def test_the_page_is_written_on_request(tmp_path, sampled):
    csv.write_csv(pa.table({"rank": sampled[0]}), tmp_path / "a.csv")
    page = tmp_path / "report.html"
    result = run("correct", tmp_path / "a.csv", "--items", 5000, "--negatives", 99, "--html", page)
    assert result.returncode == 0, result.stderr
    assert page.read_text().startswith("<!doctype html>")


def test_version_and_help():
    assert run("--version", alone=True).stdout.strip() == f"fullrank {fr.__version__}"
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


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("corect", "no such command 'corect'; did you mean 'correct'?"),
        ("data impotr", "no such command 'impotr'; did you mean 'import'?"),
        ("correct --itmes 3", "no such option --itmes; did you mean '--items'?"),
        ("correct", "missing argument 'FILE'"),
        ("correct x.csv --items many", "'--items' / '-n'"),
        ("demo --seed", "--seed"),
        ("data show yelpp", "did you mean 'yelp'"),
        ("data show", "missing argument 'NAME'"),
        ("correct x.csv --design uni9x --items 3", "uni9x"),
        ("correct x.csv --negatives 99 --design uni99", "--negatives and --design exclude each other"),
    ],
)
def test_mistyped_verbs_and_options_are_one_line_with_what_was_meant(typed, message):
    result = run(*typed.split())
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("fullrank: ")
    assert result.stderr.count("\n") == 1


def test_no_arguments_show_help():
    result = run()
    assert result.returncode == 2
    assert "fullrank demo" in result.stdout


def test_every_verb_teaches_by_example():
    verbs = [["--help"], ["demo", "--help"], ["correct", "--help"], ["data", "--help"], ["data", "import", "--help"]]
    verbs += [[verb, "--help"] for verb in ("evaluate", "plan", "compare")]
    for verb in verbs:
        text = run(*verb).stdout
        assert "Example" in text
        assert "\n    fullrank " in text
        assert max(map(len, text.splitlines())) <= 80


def test_a_fault_of_our_own_is_not_dressed_up_as_bad_input(monkeypatch):
    monkeypatch.setattr("fullrank.demo.run", lambda seed: {}["no such key"])
    monkeypatch.setattr(sys, "argv", ["fullrank", "demo"])
    with pytest.raises(KeyError):
        main()


def test_messages_carry_nothing_that_acts_on_a_terminal():
    assert clean("a\x1b[31m\nb\r\x00c" + "x" * 9999, 600).startswith("a [31m b cx")
    assert len(clean("x" * 9999, 600)) == 600


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("no_colour", [False, True])
def test_colour_only_on_a_terminal_and_not_with_no_color(tmp_path, sampled, no_colour):
    import pty

    csv.write_csv(pa.table({"rank": sampled[0]}), tmp_path / "a.csv")
    command = [sys.executable, "-m", "fullrank", "correct", str(tmp_path / "a.csv"), "-n", "5000", "--design", "uni99"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "NO_COLOR": "1" if no_colour else ""}
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stdout=follower, stderr=subprocess.PIPE, env=environment) as process:
        os.close(follower)
        text = b""
        with contextlib.suppress(OSError):  # the other side hung up: all is read
            while part := os.read(leader, 65536):
                text += part
    os.close(leader)
    assert process.returncode == 0
    assert b"recall@10" in text
    assert (b"\x1b[" in text) is not no_colour


@pytest.mark.parametrize(("words", "found"), [("fullrank co", "correct"), ("fullrank data im", "import")])
def test_shells_complete_verbs(words, found, monkeypatch):
    monkeypatch.setenv("_FULLRANK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert found in run().stdout


@pytest.mark.parametrize("name", ["mle", "bv0.01"])
def test_shells_complete_estimators(name, monkeypatch):
    monkeypatch.setenv("_FULLRANK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"fullrank correct -e {name[:2]}")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert name in run().stdout.split()


def test_a_mistyped_file_name_brings_the_one_that_is_there(tmp_path):
    (tmp_path / "ranks.csv").write_text("rank\n1\n")
    for verb in ("correct", "compare"):
        result = run(verb, tmp_path / "rank.csv", "--items", 10, "--negatives", 5)
        assert result.returncode == 2
        assert f"did you mean {str(tmp_path / 'ranks.csv')!r}?" in result.stderr


def test_what_the_system_refuses_is_one_line_too(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    for verb in ("compare", "plan", "evaluate"):
        result = run(verb, tmp_path / "folder.toml")
        assert result.returncode == 2
        assert result.stderr.endswith("is a directory.\n")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    assert "is not TOML" in run("plan", tmp_path / "bad.toml").stderr
    (tmp_path / "bad.toml").write_text("files = 3")
    assert "must be a list of names" in run("compare", tmp_path / "bad.toml").stderr


def test_interrupted_is_one_line_and_130(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fullrank.demo.run", interrupted)
    result = run("demo")
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "fullrank: interrupted.\n")


def test_a_column_that_is_not_the_model_is_not_a_million_models(tmp_path):
    (tmp_path / "ranks.csv").write_text("model,rank\n" + "\n".join(f"m{i},1" for i in range(1001)))
    result = run("correct", tmp_path / "ranks.csv", "--items", 10, "--negatives", 5)
    assert result.returncode == 2
    assert "1,001" in result.stderr


def test_reproduce_says_where_it_went():
    assert "reproduce" not in run("--help").stdout
    plain, asked = run("reproduce"), run("reproduce", "kr20-table3", "--out", "x")
    assert (plain.returncode, asked.returncode) == (0, 2)
    assert plain.stdout == asked.stdout
    assert len(plain.stdout.splitlines()) == 1
    assert "fullrank-papers" in plain.stdout


def test_help_is_whole_and_names_what_the_verb_prints():
    assert "..." not in run("--help").stdout.split("Commands:")[1]
    for verb in ("plan", "compare"):
        said = " ".join(run(verb, "--help").stdout.split())
        assert "fullrank.report/2" not in said
        assert f"fullrank.{'comparison' if verb == 'compare' else verb}/1" in said


def test_level_and_target_are_the_library_s(tmp_path, sampled):
    csv.write_csv(pa.table({"rank": sampled[0]}), tmp_path / "ranks.csv")
    arguments = ["correct", tmp_path / "ranks.csv", "--items", 5000, "--negatives", 99, "-m", "ndcg@10", "--json"]
    result = run(*arguments, "--level", 0.5, "--target", "population")
    expected = fr.correct({"ranks": sampled[0]}, 5000, "uni99", "ndcg@10", level=0.5, target="population")
    assert json.loads(result.stdout)["rows"] == expected.rows


def test_one_user_has_no_interval_for_the_population_and_says_so_in_json(tmp_path):
    (tmp_path / "ranks.csv").write_text("rank\n3\n")
    result = run(
        "correct", tmp_path / "ranks.csv", "--items", 100, "--design", "full", "--target", "population", "-m", "recall@10",
        "--json",
    )  # fmt: skip
    row = json.loads(result.stdout)["rows"][0]
    assert (row["value"], row["low"], row["high"]) == (1.0, None, None)
