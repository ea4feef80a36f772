"""Commands given by people who read nothing but the help: what they say is heeded, or refused in a line."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from test_stumbles import SAMPLED, refused

import fullrank as fr


@pytest.fixture
def table(tmp_path):
    """A file of ranks of two models, with a long name that is not Latin."""
    path = tmp_path / "ranks.csv"
    ranks = np.random.default_rng(0).integers(1, 101, 60)
    both = {"A": ranks, "名前": [1, *ranks[1:]]}
    lines = [f"{user},{model},{rank}" for model, each in both.items() for user, rank in enumerate(each)]
    path.write_text("\n".join(["user_id,model,rank", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_terminals_without_unicode_lose_no_sign_and_no_name(table, encoding):
    def printed(*arguments):
        command = [sys.executable, "-m", "fullrank", "compare", str(table), *map(str, SAMPLED), *arguments]
        done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
        assert done.returncode == 0, done.stderr
        return done.stdout.decode(encoding)

    text = printed()
    assert re.search(r"interval\s+-0\.", text)
    assert "\\u540d\\u524d" in text
    assert {each["model"] for each in json.loads(printed("--json"))[0]["models"]} == {"A", "名前"}


def test_what_is_said_of_saved_counts_must_be_so(tmp_path):
    counts = fr.RankCounts.from_ranks([1, 2, 5, 50] * 20, 5000, "uni99")
    counts.save(tmp_path / "mine.npz")
    for options, said in (
        (("--items", 500), "the counts of 'mine' are among 5,000 items: leave --items out, got 500"),
        (("--negatives", 98), "the counts of 'mine' are of 'uni99', not of 'uni98'"),
        (("--design", "full"), "not of 'exhaustive'"),
    ):
        assert said in refused("correct", tmp_path / "mine.npz", *options)


@pytest.mark.parametrize("option", ["--targets", "--lists"])
def test_files_that_go_with_scores_were_ignored_beside_ranks(table, option):
    assert f"{option} is for scored candidates" in refused("correct", table, *SAMPLED, option, table)


@pytest.mark.parametrize("verb", ["demo", "evaluate"])
def test_negative_seeds_are_refused_in_our_own_words(verb):
    assert "'--seed': it must be at least 0" in refused(verb, "--seed", -3)


def test_evaluate_asks_for_the_option_that_it_has(table):
    assert "--design is missing" in refused("evaluate", "-M", table, "--items", 5000)


def test_evaluate_lost_models_of_the_same_name(table):
    message = refused("evaluate", "-M", f"x={table}", "-M", f"y={table}", "--items", 5000, "--design", "uni99")
    assert "two files hold a model named 'A'" in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("user_id,model,rank\n1,A,1\n2,,3\n", "names no model on line 3"),
        ("user_id,item_id,rank\n1,7,1\n2,7,3\n1,7,1\n", "has item 7 of user 1 more than once"),
        ("user_id,rank\n1,1\n,3\n", "`user_id` has a missing value on line 3"),
        ("model,rank\nA,1\nA,first\n", "got 'first' on line 3"),
    ],
)
def test_rows_that_cannot_be_are_named_by_line(tmp_path, content, said):
    (tmp_path / "ranks.csv").write_text(content)
    assert said in refused("correct", tmp_path / "ranks.csv", *SAMPLED)


def test_an_index_and_what_is_known_of_cases_are_no_models(tmp_path):
    pd = pytest.importorskip("pandas")
    from fullrank.reading.tables import read_counts

    frame = pd.DataFrame(
        {"user_id": [5, 6, 7], "A": [1, 2, 9], "B": [3, 4, 10], "negatives": [9, 9, 19]}, index=[3, 1, 2]
    )
    frame.to_csv(tmp_path / "wide.csv")
    frame.to_parquet(tmp_path / "wide.parquet")
    for name in ("wide.csv", "wide.parquet"):
        found = read_counts(tmp_path / name, "uni99", 5000)
        assert list(found) == ["A", "B"]
        assert found["A"].sizes.tolist() == [9, 19]


def test_python_that_makes_no_model_is_named(tmp_path):
    (tmp_path / "pairs.csv").write_text("user_id,item_id\n" + "".join(f"{k % 5},{k}\n" for k in range(20)))
    message = refused("evaluate", "--train", tmp_path / "pairs.csv", "-M", "a=math:sin", "-m", "ndcg@2")
    assert "model 'math:sin' could not be made: TypeError: must be real number, not Split" in message
