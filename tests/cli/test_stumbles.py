"""Where people stumbled: each is named after what happened to them, and now gets a plain answer."""

import gzip
import json
import os

import numpy as np
import pytest
from test_cli import run

import fullrank as fr


@pytest.fixture
def ranks():
    rng = np.random.default_rng(3)
    true = np.floor(5000 ** rng.beta(1, 1, size=(2, 300))).astype(int)
    return 1 + rng.binomial(99, (true - 1) / 4999)


def refused(*arguments):
    """The one line that bad input gets."""
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    return result.stderr


SAMPLED = ("--items", 5000, "--negatives", 99, "-m", "ndcg@10")


def test_a_text_cell_in_a_wide_csv_dropped_a_model(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("user_id,EASE,ALS\n1,1,2\n2,4,n.a.\n3,1,1\n")
    message = refused("correct", path, *SAMPLED)
    assert "has 'n.a.' in column 'ALS' on line 3: ranks are whole numbers" in message
    path.write_text("user_id,country,EASE\n1,de,1\n2,fr,4\n")  # no rank at all: not a model
    assert [row["model"] for row in json.loads(run("correct", path, *SAMPLED, "--json").stdout)["rows"]] == ["EASE"]


def test_more_fixed_negatives_than_candidates_were_accepted(tmp_path):
    path = tmp_path / "ranks.csv"
    path.write_text("rank\n1\n2\n")
    for verb in ("correct", "compare"):
        message = refused(verb, path, "--items", 50, "--negatives", 99)
        assert "--negatives must be fewer than the candidates, got 99 among 50" in message


def test_plan_took_a_precision_of_2():
    message = refused("plan", "--items", 20000, "--cases", 100, "--precision", 2)
    assert "`precision` must be between 0 and 1, because it is relative (2% is 0.02), got 2.0." in message
    with pytest.raises(ValueError, match="`precision` must be between 0 and 1"):
        fr.plan(1000, 100, precision=-1)


def test_python_assumed_uni99_while_the_command_line_asked(tmp_path, ranks):
    np.save(tmp_path / "ranks.npy", ranks[0])
    assert "--negatives or --design is missing" in refused("correct", tmp_path / "ranks.npy", "--items", 5000)
    with pytest.raises(ValueError, match="`design` is missing: how the negatives were drawn, such as 'uni99'"):
        fr.correct({"A": ranks[0]}, n_items=5000)
    counts = fr.RankCounts.from_ranks(ranks[0], 5000, "uni99")
    assert fr.correct({"A": counts}, metrics="ndcg@10").rows[0].design == "uni99"  # counts know theirs


@pytest.mark.parametrize("design", ["uni500", "uni500 without replacement"])
def test_an_accumulator_for_500_negatives_took_99(design):
    rng = np.random.default_rng(0)
    acc = fr.Accumulator(design, n_items=5000)
    with pytest.raises(ValueError, match=r"row 0 of `scores` must hold the 500 negatives of .* got 99: .*Sample\(99\)"):
        acc.update(rng.normal(size=(8, 100)))
    padded = rng.normal(size=(8, 501))
    padded[:, 400:] = -np.inf
    acc.update(padded)
    assert len(acc) == 8


def test_train_alone_held_items_out_without_a_word(tmp_path):
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(40, 4)), rng.normal(size=(60, 4))
    lines = [f"{user},{item}" for user in range(40) for item in np.argsort(-U[user] @ V.T)[:5]]
    (tmp_path / "train.csv").write_text("\n".join(["user_id,item_id", *lines]))
    np.save(tmp_path / "u.npy", U)
    np.save(tmp_path / "v.npy", V)
    model = f"mine={tmp_path / 'u.npy'},{tmp_path / 'v.npy'}"
    result = run("evaluate", "--train", tmp_path / "train.csv", "-M", model, "-m", "ndcg@10", "--seed", 7)
    assert result.returncode == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "! no --test was given, so interactions of" in text
    assert "were held out (--how random, seed 7); a model that was trained on the whole file has seen them" in text


def test_a_page_that_could_not_be_written_threw_the_result_away(tmp_path, ranks):
    pytest.importorskip("vl_convert")
    np.save(tmp_path / "ranks.npy", ranks[0])
    page = tmp_path / "no such folder" / "page.html"
    result = run("correct", tmp_path / "ranks.npy", *SAMPLED, "--html", page)
    assert result.returncode == 2
    assert "ndcg@10" in result.stdout
    assert "`path` must lie in a folder that exists" in result.stderr
    assert "ndcg@10" in run("demo", "--html", tmp_path).stdout
    # evaluate asks before it scores: not even the model is looked for
    assert "must lie in a folder that exists" in refused("evaluate", "--data", "none", "-M", "a=x.npz", "--html", page)


def test_37716_8_times_as_long():
    from fullrank.report.words import ratio

    assert f"{ratio(37716.8)} × as long" == "38,000 × as long"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("rank\n1\n0\n", 3),
        ("1\n1\n0\n", 3),
        ("model,rank\nA,1\nB,1\nA,2\nB,101\n", 5),
        ("user_id,A,B\n1,1,1\n2,1,300\n", 3),
    ],
)
def test_errors_named_cases_and_not_lines_of_the_file(tmp_path, content, line):
    path = tmp_path / "ranks.csv"
    path.write_text(content)
    assert f" on line {line}" in refused("correct", path, *SAMPLED)


@pytest.mark.parametrize(
    ("verb", "items"),
    [("correct", -5), ("correct", 2**63 - 1), ("correct", 2**63), ("compare", 2**50 + 1), ("plan", 2**63)],
)
def test_items_up_to_2_to_the_63_were_blamed_on_the_file(tmp_path, verb, items):
    (tmp_path / "ranks.csv").write_text("rank\n1\n2\n")
    rest = ("--cases", 100) if verb == "plan" else (tmp_path / "ranks.csv", "--negatives", 9)
    message = refused(verb, "--items", items, *rest)
    assert message.startswith("fullrank: `n_items`" if verb == "plan" else "fullrank: --items")
    assert message.endswith(f"must be a whole number from 2 to 2**50, got {items}.\n")


def test_2_to_the_50_items_are_answered(tmp_path):
    (tmp_path / "ranks.csv").write_text("rank\n" + "1\n2\n" * 50)
    result = run("correct", tmp_path / "ranks.csv", "--items", 2**50, "--negatives", 99, "-m", "ndcg@10", "--json")
    assert result.returncode == 0, result.stderr
    row = json.loads(result.stdout)["rows"][0]
    assert 0 <= row["low"] <= row["value"] <= row["high"] <= 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("rank\n1\n1.5\n", "whole numbers, got 1.5 on line 3"),
        ('rank\n1\n""\n2\n', "missing value (NaN) on line 3"),
        ("user_id,item_id,score,label\n1,2,0.5,1\n1,3,abc,0\n", "`score` must hold numbers, got 'abc' in row 2."),
        ("user_id,item_id,score,label\n1,2,0.5,0\n1,3,0.2,0\n", "there are no targets (rows whose `label` is 1, say)"),
    ],
)
def test_the_wrong_cell_was_named(tmp_path, content, told):
    (tmp_path / "given.csv").write_text(content)
    assert told in refused("correct", tmp_path / "given.csv", *SAMPLED)


def test_plan_called_what_was_given_missing():
    assert "--cases is missing: how many test cases there are" in refused("plan", "--items", 100)
    assert "--items is missing: how many candidates" in refused("plan", "--cases", 100)


def test_words_for_numbers_were_answered_in_the_words_of_a_parser(tmp_path):
    (tmp_path / "ranks.csv").write_text("rank\n1\n2\n")
    message = refused("correct", tmp_path / "ranks.csv", "--items", "50k", "--negatives", 99)
    assert "--items" in message
    assert "whole number" in message or "not a valid integer" in message  # as the version of Typer has it
    message = refused("correct", tmp_path / "ranks.csv", *SAMPLED, "--level", 95)
    assert "`level` must be between 0 and 1, got 95.0; 95 % is 0.95." in message


def test_every_verb_reads_the_same_files(tmp_path, ranks):
    wide = "A,B\n" + "\n".join(f"{a},{b}" for a, b in ranks.T)
    (tmp_path / "csv.csv").write_text(wide)
    (tmp_path / "tsv.tsv").write_text(wide.replace(",", "\t"))
    (tmp_path / "gz.csv.gz").write_bytes(gzip.compress(wide.encode()))
    np.save(tmp_path / "npy.npy", ranks.T)
    values = {}
    for name in ("csv.csv", "tsv.tsv", "gz.csv.gz", "npy.npy"):
        for verb in ("correct", "compare"):
            result = run(verb, tmp_path / name, *SAMPLED, "--json")
            assert result.returncode == 0, (verb, name, result.stderr)
            found = json.loads(result.stdout)
            rows = found["rows"] if verb == "correct" else found[0]["models"]
            values[verb, name] = sorted(row["value"] for row in rows)
    assert all(each == values["correct", "csv.csv"] for each in values.values())


def test_every_verb_reads_saved_counts(tmp_path, ranks):
    for name, each in zip("AB", ranks, strict=True):
        fr.RankCounts.from_ranks(each, 5000, "uni99").save(tmp_path / f"{name}.npz")
    paths = [tmp_path / "A.npz", tmp_path / "B.npz"]
    corrected = json.loads(run("correct", *paths, "-m", "ndcg@10", "--json").stdout)["rows"]
    evaluated = run("evaluate", "-M", f"A={paths[0]}", "-M", f"B={paths[1]}", "-m", "ndcg@10", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["rows"] == corrected
    compared = json.loads(run("compare", *paths, "-m", "ndcg@10", "--json").stdout)[0]["models"]
    assert {row["model"]: row["value"] for row in compared} == {row["model"]: row["value"] for row in corrected}


def test_three_ranks_of_each_user_were_called_3000_cases_without_a_word(tmp_path, ranks):
    path = tmp_path / "ranks.csv"
    path.write_text("user_id,A,B\n" + "".join(f"{case // 3},{a},{b}\n" for case, (a, b) in enumerate(ranks.T)))
    note = "100 users have 300 ranks, each taken as a case with one target, so that hit@10 is recall@10 over cases;"
    for verb in ("correct", "compare"):
        said = " ".join(run(verb, path, *SAMPLED).stdout.replace("\n  ", " ").split())
        assert "300 cases (100 users) of uni99 among 5,000 items (unseen); LogSpline" in said
        assert said.count(f"! {note} metrics per user need scores, or `order` and `targets` of every rank.") == 1
    once = path.read_text().replace("user_id", "n")
    path.write_text(once.replace("n,A", "id,A"))
    assert "users have" not in run("correct", path, *SAMPLED).stdout


def test_negatives_of_each_case_did_not_replace_the_option(tmp_path, ranks):
    path = tmp_path / "ranks.csv"
    path.write_text("rank,negatives\n" + "".join(f"{min(a, 50)},{49 if a < 50 else 99}\n" for a in ranks[0]))
    plain = run("correct", path, "--items", 5000, "-m", "ndcg@10")
    assert "300 cases of uni99 (49 to 99 negatives) among 5,000 items" in " ".join(plain.stdout.split())
    assert run("correct", path, *SAMPLED).stdout == plain.stdout
    distinct = run("correct", path, "--items", 5000, "-m", "ndcg@10", "--without-replacement").stdout
    assert "uni99 without replacement (49 to 99 negatives)" in distinct
    message = refused("correct", path, "--items", 5000, "--design", "uni99", "--without-replacement")
    assert "--without-replacement goes with --negatives: write --design 'uni99 without replacement'" in message


def test_compare_lacked_the_options_of_correct(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "qrels.txt").write_text("".join(f"q{user} 0 d0 1\n" for user in range(50)))
    (tmp_path / "targets.csv").write_text("user_id,item_id\n" + "".join(f"q{user},d0\n" for user in range(50)))
    for name in "AB":
        scores = [
            (f"q{user}", f"d{item}", score) for user in range(50) for item, score in enumerate(rng.normal(size=10))
        ]
        (tmp_path / f"{name}.trec").write_text("".join(f"{u} Q0 {i} 0 {s} t\n" for u, i, s in scores))
        (tmp_path / f"{name}.csv").write_text(
            "user_id,item_id,score\n" + "".join(f"{u},{i},{s}\n" for u, i, s in scores)
        )
    sampled = ("--items", 500, "--negatives", 9, "--without-replacement", "-m", "ndcg@10", "--json")
    found = []
    for ending, *more in (("trec", "--qrels", tmp_path / "qrels.txt"), ("csv", "--targets", tmp_path / "targets.csv")):
        files = [tmp_path / f"{name}.{ending}" for name in "AB"]
        for verb in ("correct", "compare"):
            result = run(verb, *files, *sampled, *more)
            assert result.returncode == 0, result.stderr
            document = json.loads(result.stdout)
            rows = document["rows"] if verb == "correct" else document[0]["models"]
            found.append({row["model"]: row["value"] for row in rows})
    assert all(each == found[0] for each in found)
    assert "give `correct` or `compare` --targets FILE" in refused("compare", tmp_path / "A.csv", *sampled)


def test_a_fold_was_a_model(tmp_path, ranks):
    path = tmp_path / "wide.csv"
    path.write_text(
        "A,fold,B,group\n" + "".join(f"{a},{1 + n % 5},{b},{1 + n % 3}\n" for n, (a, b) in enumerate(ranks.T))
    )
    for options, models in (((), {"A", "B", "group"}), (("--columns", "A,B"), {"A", "B"}), (("--columns", "B"), {"B"})):
        rows = json.loads(run("correct", path, *SAMPLED, *options, "--json").stdout)["rows"]
        assert {row["model"] for row in rows} == models
    (tmp_path / "run.toml").write_text(f"files = ['{path}']\nitems = 5000\ndesign = 'uni99'\ncolumns = ['A', 'B']\n")
    compared = json.loads(run("compare", tmp_path / "run.toml", "--json").stdout)[0]["models"]
    assert {row["model"] for row in compared} == {"A", "B"}


def test_options_of_files_were_ignored_beside_saved_counts(tmp_path, ranks):
    fr.RankCounts.from_ranks(ranks[0], 5000, "uni99").save(tmp_path / "A.npz")
    assert "--columns has no meaning for saved counts" in refused("correct", tmp_path / "A.npz", "--columns", "A")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a folder that refuses")
def test_a_folder_that_refuses_is_one_line(tmp_path, ranks):
    np.save(tmp_path / "ranks.npy", ranks[0])
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert "permission denied" in refused("correct", tmp_path / "ranks.npy", *SAMPLED, "--html", closed / "page.html")


@pytest.mark.parametrize("word", ["precision", "recall", "hr"])
def test_precision_without_a_cut_off_had_an_interval_of_no_width(tmp_path, ranks, word):
    np.save(tmp_path / "ranks.npy", ranks[0])
    said = f"`{word}` needs a cut-off, as in {word}@10: over the whole ranking it is the same for every model."
    for verb, *given in (("correct", tmp_path / "ranks.npy", *SAMPLED[:4]), ("plan", *SAMPLED[:2], "--cases", 100)):
        assert said in refused(verb, *given, "-m", word)
    with pytest.raises(ValueError, match="needs a cut-off"):
        fr.correct({"A": ranks[0]}, 5000, "uni99", word)
    counts = {name: fr.RankCounts.from_ranks(ranks[0], 5000, "uni99") for name in "AB"}
    with pytest.raises(ValueError, match="needs a cut-off"):
        fr.compare(counts, word)
    split = fr.Split(np.eye(3, 9), [0, 1, 2], [4, 5, 6])
    with pytest.raises(ValueError, match="needs a cut-off"):
        fr.evaluate({"A": (np.ones((3, 2)), np.ones((9, 2)))}, split, word)
    assert fr.correct({"A": ranks[0]}, 5000, "uni99", "ndcg").rows[0].spread  # others look at every rank


def test_metrics_with_a_comma_between_them_were_refused(tmp_path, ranks):
    np.save(tmp_path / "ranks.npy", ranks[0])
    found = run("correct", tmp_path / "ranks.npy", *SAMPLED[:4], "-m", "ndcg@5,10,recall@20", "--json")
    assert found.returncode == 0, found.stderr
    assert [row["metric"] for row in json.loads(found.stdout)["rows"]] == ["ndcg@5", "ndcg@10", "recall@20"]


@pytest.mark.parametrize(
    ("verb", "text", "message"),
    [
        ("compare", 'items = "a"', "`items` must be a whole number, got 'a'"),
        ("compare", "items = true", "`items` must be a whole number, got True"),
        ("compare", 'without_replacement = "no"', "`without_replacement` must be true or false, got 'no'"),
        ("evaluate", "models = 5", "`models` must be a table or a list of names, got 5"),
        ("evaluate", "[models]\na = 3", "model `a` must be a file or a function, in quotes, got 3"),
        ("evaluate", 'precision = "2%"', "`precision` must be a number, got '2%'"),
    ],
)
def test_a_value_of_another_type_in_a_toml_file_was_pythons_error(tmp_path, verb, text, message):
    path = tmp_path / "run.toml"
    path.write_text(text)
    assert message in refused(verb, path)


def test_a_flag_that_a_toml_file_says_is_false_was_true(tmp_path, ranks):
    np.savetxt(tmp_path / "a.csv", ranks.T, fmt="%d", delimiter=",", header="A,B", comments="")
    for told, found in (("true", "uni99 without replacement"), ("false", "uni99")):
        path = tmp_path / "run.toml"
        path.write_text(
            f"files = ['{tmp_path / 'a.csv'}']\nitems = 5000\nnegatives = 99\nwithout_replacement = {told}\n"
        )
        about = json.loads(run("compare", path, "--json").stdout)[0]["about"]
        assert f"of {found} among" in about


def test_the_catalogue_of_a_model_that_is_asked_was_given_in_vain(tmp_path):
    np.save(tmp_path / "u.npy", np.ones((3, 2)))
    np.save(tmp_path / "i.npy", np.ones((5, 2)))
    (tmp_path / "train.csv").write_text("user_id,item_id\n0,1\n1,2\n2,3\n0,4\n1,0\n2,2\n")
    model = f"m={tmp_path / 'u.npy'},{tmp_path / 'i.npy'}"
    message = refused("evaluate", "--train", tmp_path / "train.csv", "-M", model, "--items", 5)
    assert "--items goes with files of ranks or scores" in message
