"""Every kind of file a user has in hand becomes the counts that the library would make of it."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import fullrank as fr
from fullrank._tables import read_table, table_batches
from fullrank.reading.candidates import counts_from_scores
from fullrank.reading.tables import read_counts, read_ranks

N, USERS, DRAWN = 500, 60, 20


@pytest.fixture(scope="module")
def scored():
    """Scores of a target and 20 distinct negatives per user, by name."""
    rng = np.random.default_rng(5)
    rows = {"user_id": [], "item_id": [], "score": [], "label": []}
    for user in range(USERS):
        items = rng.choice(N, DRAWN + 1, replace=False)
        rows["user_id"] += [user] * len(items)
        rows["item_id"] += items.tolist()
        rows["score"] += rng.normal(size=len(items)).round(6).tolist()
        rows["label"] += [1] + [0] * DRAWN
    return {name: np.array(values) for name, values in rows.items()}


def direct(scored):
    """Ranks by sorting: the second implementation."""
    ranks = []
    for user in range(USERS):
        here = scored["user_id"] == user
        scores, target = scored["score"][here], scored["score"][here & (scored["label"] == 1)][0]
        ranks.append(1 + int((scores > target).sum()))
    return ranks


DESIGN = fr.Sample(DRAWN, replace=False)


def test_scored_candidates_with_labels_in_every_format(tmp_path, scored):
    expected = fr.RankCounts.from_ranks(direct(scored), N, DESIGN, users=np.arange(USERS))
    table = pa.table(scored)
    csv.write_csv(table, tmp_path / "scores.csv")
    parquet.write_table(table, tmp_path / "scores.parquet")
    typed = table.rename_columns(["user_id:token", "item_id:token", "score:float", "label:float"])
    csv.write_csv(typed, tmp_path / "scores.inter", csv.WriteOptions(delimiter="\t"))
    for name in ("scores.csv", "scores.parquet", "scores.inter"):
        assert read_counts(tmp_path / name, DESIGN, N) == {"scores": expected}


def test_scored_candidates_with_targets_apart(tmp_path, scored):
    expected = fr.RankCounts.from_ranks(direct(scored), N, DESIGN, users=np.arange(USERS))
    csv.write_csv(pa.table(scored).drop(["label"]), tmp_path / "scores.csv")
    held = scored["label"] == 1
    with (tmp_path / "test.rating").open("w") as file:
        file.writelines(
            f"{u}\t{i}\t5\t0\n" for u, i in zip(scored["user_id"][held], scored["item_id"][held], strict=True)
        )
    csv.write_csv(
        pa.table({"userId": scored["user_id"][held], "movieId": scored["item_id"][held]}), tmp_path / "test.csv"
    )
    for targets in ("test.rating", "test.csv"):
        assert read_counts(tmp_path / "scores.csv", DESIGN, N, targets=tmp_path / targets) == {"scores": expected}
    with pytest.raises(ValueError, match="does not say which candidate is the target"):
        read_counts(tmp_path / "scores.csv", DESIGN, N)


@pytest.mark.parametrize("named", [False, True])
def test_ncf_lists_ranked_by_a_frame_that_scores_more(tmp_path, scored, named):
    """The frame may hold other pairs too; strings name users and items as well as numbers do."""
    name = (lambda what, values: np.array([f"{what}{v}" for v in values])) if named else (lambda what, values: values)
    expected = fr.RankCounts.from_ranks(direct(scored), N, DESIGN, users=np.arange(USERS))
    extra = np.r_[scored["item_id"], np.full(USERS, N + 7)]
    frame = {
        "user_id": name("u", np.r_[scored["user_id"], np.arange(USERS)]),
        "item_id": name("i", extra),
        "score": np.r_[scored["score"], np.full(USERS, 99.0)],
    }
    csv.write_csv(pa.table(frame), tmp_path / "NeuMF.csv")
    with (tmp_path / "toy.test.negative").open("w") as file:
        for user in range(USERS):
            here = scored["user_id"] == user
            target, *negatives = scored["item_id"][here].tolist()
            head = f"('u{user}', 'i{target}')" if named else f"({user},{target})"
            file.write("\t".join([head, *(f"i{i}" if named else str(i) for i in negatives)]) + "\n")
    found = read_counts(tmp_path / "NeuMF.csv", DESIGN, N, lists=tmp_path / "toy.test.negative")["NeuMF"]
    assert (len(found), found.n_items) == (USERS, N)
    assert np.array_equal(found.sampled_ranks()[0], expected.sampled_ranks()[0])
    assert np.array_equal(found.sampled_ranks()[1], expected.sampled_ranks()[1])


def test_training_items_are_no_candidates(tmp_path, scored):
    rng = np.random.default_rng(1)
    seen = {user: rng.choice(N, rng.integers(1, 40), replace=False) for user in range(USERS)}
    with (tmp_path / "train.rating").open("w") as file:
        file.writelines(f"{user}\t{item}\t1\t0\n" for user, items in seen.items() for item in items)
    csv.write_csv(pa.table(scored), tmp_path / "scores.csv")
    csv.write_csv(pa.table({"user_id": np.arange(USERS), "rank": direct(scored)}), tmp_path / "ranks.csv")
    pool = np.array([N - len(seen[user]) for user in range(USERS)])
    expected = fr.RankCounts.from_ranks(direct(scored), pool, DESIGN, users=np.arange(USERS))
    for name in ("scores", "ranks"):
        assert read_counts(tmp_path / f"{name}.csv", DESIGN, N, train=tmp_path / "train.rating")[name] == expected
        with pytest.raises(ValueError, match="--train and --candidates all exclude each other"):
            read_counts(tmp_path / f"{name}.csv", DESIGN, N, train=tmp_path / "train.rating", candidates="all")


def test_counts_are_told_their_candidates(tmp_path, scored):
    csv.write_csv(pa.table(scored), tmp_path / "scores.csv")
    csv.write_csv(pa.table({"rank": direct(scored)}), tmp_path / "ranks.csv")
    with (tmp_path / "lists.negative").open("w") as file:
        for user in range(USERS):
            target, *negatives = scored["item_id"][scored["user_id"] == user].tolist()
            file.write("\t".join([f"({user},{target})", *map(str, negatives)]) + "\n")
    (tmp_path / "run.trec").write_text("q Q0 a 1 3.0 t\nq Q0 b 2 2.0 t\n")
    (tmp_path / "qrels.txt").write_text("q 0 b 1\n")
    files = [
        ("scores.csv", {}),
        ("scores.csv", {"lists": tmp_path / "lists.negative"}),
        ("ranks.csv", {}),
        ("run.trec", {"qrels": tmp_path / "qrels.txt"}),
    ]
    for name, more in files:
        design = "uni1" if "qrels" in more else DESIGN
        found = read_counts(tmp_path / name, design, N, candidates="all", **more)
        assert {each.candidates for each in found.values()} == {"all"}
        assert {each.candidates for each in read_counts(tmp_path / name, design, N, **more).values()} == {"unseen"}


def test_several_models_in_one_file_of_scores(tmp_path, scored):
    both = {name: np.r_[values, values] for name, values in scored.items()}
    both["score"][len(scored["score"]) :] *= -1
    both["model"] = np.repeat(["B", "A"], len(scored["score"]))
    csv.write_csv(pa.table(both), tmp_path / "both.csv")
    found = read_counts(tmp_path / "both.csv", DESIGN, N)
    assert list(found) == ["B", "A"]  # as in the file
    turned = counts_from_scores({**scored, "score": -scored["score"]}, N, DESIGN)
    assert found["A"] == turned


def test_a_trec_run(tmp_path, scored):
    rows = zip(scored["user_id"], scored["item_id"], scored["score"], scored["label"], strict=True)
    run, qrels = [], []
    for user, item, score, label in rows:
        run.append(f"q{user} Q0 d{item} 0 {score} tag\n")
        qrels += [f"q{user} 0 d{item} 1\n"] if label else []
    (tmp_path / "bm25.trec").write_text("".join(run))
    (tmp_path / "qrels.txt").write_text("".join(qrels))
    found = read_counts(tmp_path / "bm25.trec", DESIGN, N, qrels=tmp_path / "qrels.txt")["bm25"]
    ranks, weight = found.sampled_ranks()
    assert np.repeat(ranks, weight.astype(int)).tolist() == sorted(direct(scored))


def test_ranked_lists_are_not_taken_for_ranks_of_targets(tmp_path, scored):
    """RecTools writes user_id, item_id, score, rank: the rank of every item, which says nothing until a target is named."""
    lists = {name: scored[name] for name in ("user_id", "item_id", "score")}
    order = np.lexsort((-lists["score"], lists["user_id"]))
    lists = {name: values[order] for name, values in lists.items()} | {"rank": np.tile(np.arange(1, DRAWN + 2), USERS)}
    csv.write_csv(pa.table(lists), tmp_path / "reco.csv")
    with pytest.raises(ValueError, match="whole ranked lists"):
        read_counts(tmp_path / "reco.csv", DESIGN, N)
    held = scored["label"] == 1
    pairs = {"user_id": scored["user_id"][held], "item_id": scored["item_id"][held]}
    csv.write_csv(pa.table(pairs), tmp_path / "test.csv")
    found = read_counts(tmp_path / "reco.csv", DESIGN, N, targets=tmp_path / "test.csv")
    assert found["reco"] == fr.RankCounts.from_ranks(direct(scored), N, DESIGN, users=np.arange(USERS))


@pytest.mark.parametrize("ending", ["csv", "txt", "npy"])
def test_a_bare_list_of_ranks(tmp_path, ending):
    ranks, path = np.array([1, 3, 2, 9]), tmp_path / f"mine.{ending}"
    np.save(path, ranks) if ending == "npy" else np.savetxt(path, ranks, fmt="%d")
    ((model, table),) = read_ranks(path, read_table(path)).items()
    assert model == "mine"
    assert table["ranks"].tolist() == ranks.tolist()  # the first is a rank, not a header
    assert read_counts(path, "uni9", 100) == {"mine": fr.RankCounts.from_ranks(ranks, 100, "uni9")}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "cannot read"),
        ("a.csv", b"rank\n", "has no rows"),
        ("a.csv", b"1,2\n3,4\n", "has no header"),
        ("a.csv", b"rank,rank\n1,2\n", "two columns named 'rank'"),
        ("a.csv", b"rank\n1\n\n2.5\n", "whole numbers"),
        ("a.csv", b"rank\n1\nnan\n", "missing value"),
        ("a.csv", b"rank\n99999999999999999999\n", "whole numbers"),
        ("a.csv", b"rank,rank_\n", "no rows"),
        ("a.csv", b"user_id,user,rank\n1,1,1\n", None),
        ("a.csv", b"userId,user_id,rank\n1,1,1\n", "could both be the user"),
        ("a.csv", b"\xff\xfe\x00r\x00a\x00n\x00k", "cannot read|no rows|no column"),
        ("a.csv", "rank,größe\n1,2\n".encode("latin-1"), "is not UTF-8 text"),
        ("a.csv", "rank\n1\n".encode("utf-16"), "is not UTF-8 text"),
        ("a.csv", bytes(range(256)) * 40, "cannot read|no column|has no"),
        ("a.parquet", b"PAR1 not really", "cannot read"),
        ("a.npy", b"\x93NUMPY not really", "cannot read"),
        ("a.npy", b"", "cannot read"),
        ("a.xlsx", b"PK", "must end in .csv"),
        ("a.csv", b"user_id,item_id,score,label\n1,2,0.5,2\n", "labels must be 0 and 1.*got 2"),
        ("a.csv", b"user_id,item_id,score,label\n1,2,nan,1\n1,3,0.5,0\n", "nan|NaN|finite"),
        ("a.csv", b"user_id,item_id,score,label\n1,2,0.5,1\n", "no negatives"),
        ("a.csv", b"user_id,item_id,score,label\n1,2,0.5,0\n", "target"),
    ],
)
def test_hostile_files_end_in_one_sentence(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    if message is None:
        read_counts(path, "uni9", 100)
        return
    with pytest.raises((ValueError, TypeError), match=message) as told:
        read_counts(path, "uni9", 100)
    assert "\n" not in str(told.value)


def test_a_file_put_together_twice_is_refused_even_without_items(tmp_path):
    rows = "".join(f"{user},{1 + user % 3}\n" for user in range(12))
    path = tmp_path / "mine.csv"
    path.write_text("user_id,rank\n" + 2 * rows)
    with pytest.raises(ValueError, match="has the same 12 rows twice in model 'mine': drop the copies"):
        read_counts(path, "uni9", 100)
    path.write_text("user_id,rank\n" + rows + rows.replace(",1\n", ",4\n"))  # other cases of the same users
    assert len(read_counts(path, "uni9", 100)["mine"]) == 24


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_header_tells_what_stands_between_columns(tmp_path, separator):
    for ending in ("csv", "tsv", "txt"):
        path = tmp_path / f"m.{ending}"
        path.write_text(f"user_id{separator}rank\n7{separator}3\n8{separator}1\n")
        (table,) = read_ranks(path, read_table(path)).values()
        assert (table["users"].tolist(), table["ranks"].tolist()) == ([7, 8], [3, 1])


def test_arrays_that_would_need_pickle_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"rank": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot read"):
        read_counts(tmp_path / "a.npy", "uni9", 100)
    np.save(tmp_path / "c.npy", np.array([1 + 2j]))
    with pytest.raises(ValueError, match="must hold whole numbers, the ranks, got complex128"):
        read_counts(tmp_path / "c.npy", "uni9", 100)
    np.save(tmp_path / "b.npy", np.ones((3, 2, 1), dtype=int))
    with pytest.raises(ValueError, match=r"must hold one rank per case, or cases × models, got shape \(3, 2, 1\)"):
        read_counts(tmp_path / "b.npy", "uni9", 100)


def test_a_folder_and_a_missing_file(tmp_path):
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(ValueError, match="cannot read"):
        read_counts(tmp_path / "x.csv", "uni9", 100)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_counts(tmp_path / "y.csv", "uni9", 100)


def test_a_hundred_thousand_models_in_one_file_are_told_apart_in_seconds(tmp_path):
    models = 100_000
    parquet.write_table(
        pa.table({"model": [f"m{i}" for i in range(models)], "rank": np.ones(models, int)}), tmp_path / "many.parquet"
    )
    path = tmp_path / "many.parquet"
    assert len(read_ranks(path, read_table(path))) == models


@pytest.mark.parametrize("kind", ["csv", "tsv", "txt"])
@pytest.mark.parametrize("without", [False, True])
def test_compressed_text_is_read_like_any_other(tmp_path, monkeypatch, kind, without):
    if without:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    text = "user_id,rank\nann,3\nbob,7\n".replace(",", "," if kind == "csv" else "\t")
    with gzip.open(tmp_path / f"mine.{kind}.gz", "wt") as file:
        file.write(text)
    expected = fr.RankCounts.from_ranks([3, 7], 100, "uni9", users=["ann", "bob"])
    assert read_counts(tmp_path / f"mine.{kind}.gz", "uni9", 100) == {"mine": expected}
    content = (tmp_path / f"mine.{kind}.gz").read_bytes()
    (tmp_path / f"cut.{kind}.gz").write_bytes(content[:-12])
    with pytest.raises(ValueError, match="cannot read"):
        read_counts(tmp_path / f"cut.{kind}.gz", "uni9", 100)


@pytest.mark.parametrize("without", [False, True])
def test_text_that_unfolds_beyond_all_proportion_is_refused(tmp_path, monkeypatch, without):
    if without:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("fullrank._tables._LARGE", 1 << 20)
    with gzip.open(tmp_path / "bomb.csv.gz", "wb") as file:
        file.write(b"rank\n" + b"1\n" * 4_000_000)
    with pytest.raises(ValueError, match="unfolds to more than"):
        read_counts(tmp_path / "bomb.csv.gz", "uni9", 100)


def test_a_parquet_that_claims_more_rows_than_fit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: 1 << (10 if name == "SC_PHYS_PAGES" else 12))  # 4 MiB
    parquet.write_table(pa.table({"rank": np.ones(1_000_000, int)}), tmp_path / "bomb.parquet")
    with pytest.raises(ValueError, match="has 1,000,000 rows of 1 columns, 0 GB, and this machine has 0"):
        read_counts(tmp_path / "bomb.parquet", "uni9", 100)


def test_an_array_that_claims_more_than_the_file_holds_is_refused(tmp_path):
    with (tmp_path / "bomb.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (10**13,)})
    with pytest.raises(ValueError, match="cannot read"):
        read_counts(tmp_path / "bomb.npy", "uni9", 100)


def test_the_columns_of_an_array_are_models(tmp_path):
    ranks = np.array([[1, 2], [3, 4], [5, 6]])
    np.save(tmp_path / "mine.npy", ranks)
    expected = {f"mine_{k + 1}": fr.RankCounts.from_ranks(ranks[:, k], 100, "uni9") for k in range(2)}
    assert read_counts(tmp_path / "mine.npy", "uni9", 100) == expected


@pytest.mark.parametrize(
    "columns", [("rank",), ("rank", "user_id"), ("rank", "model", "n_items"), ("a", "b", "user_id")]
)
def test_a_long_parquet_is_read_in_batches_to_the_same_counts(tmp_path, monkeypatch, rng, columns):
    n = 1000
    made = {
        "rank": rng.integers(1, 11, n), "a": rng.integers(1, 11, n), "b": rng.integers(1, 11, n),
        "user_id": rng.integers(0, 300, n), "n_items": rng.integers(50, 99, n), "model": rng.choice(["x", "y"], n),
    }  # fmt: skip
    parquet.write_table(pa.table({name: made[name] for name in columns}), tmp_path / "long.parquet")
    items = None if "n_items" in columns else 100
    whole = read_counts(tmp_path / "long.parquet", "uni10", items)
    monkeypatch.setattr("fullrank._tables.BATCH", 128)
    assert read_counts(tmp_path / "long.parquet", "uni10", items) == whole
    made["rank"][700] = made["a"][700] = 12
    parquet.write_table(pa.table({name: made[name] for name in columns}), tmp_path / "long.parquet")
    with pytest.raises(ValueError, match=r"`(rank|a)` is 12 in row 701: with 10 negatives ranks go up to 11"):
        read_counts(tmp_path / "long.parquet", "uni10", items)


@pytest.mark.parametrize("group", [7, 100, 1000])
def test_a_long_parquet_comes_in_batches_of_whole_row_groups_and_gives_the_same_counts(tmp_path, monkeypatch, group):
    rng = np.random.default_rng(0)
    table = pa.table({"user_id": rng.integers(0, 50, 1000), "rank": rng.integers(1, 11, 1000)})
    parquet.write_table(table, tmp_path / "ranks.parquet", row_group_size=group)
    whole = read_counts(tmp_path / "ranks.parquet", "uni9", 100)["ranks"]
    monkeypatch.setattr("fullrank._tables.BATCH", 250)
    sizes = [len(batch["rank"]) for batch in table_batches(tmp_path / "ranks.parquet")]
    assert sum(sizes) == 1000
    assert max(sizes) <= 250
    assert len(sizes) <= 8  # small groups are read together
    assert read_counts(tmp_path / "ranks.parquet", "uni9", 100)["ranks"] == whole


# ------------------------------------------------------------------------------------------- nothing is misread silently


def written(tmp_path, text, name="mine.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def told(tmp_path, text, design="uni9", n_items=100, **how):
    """The one sentence that a file is refused with, its path left out."""
    path = written(tmp_path, text)
    with pytest.raises((ValueError, TypeError)) as caught:
        read_counts(path, design, n_items, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(path), path.name)


@pytest.mark.parametrize(
    "model", ["model", "Model_Name", "algo", "Algorithm", "method", "system", "recommender", "run"]
)
@pytest.mark.parametrize("rank", ["rank", "Position", "pos", "target_rank", "sampled rank"])
def test_models_and_ranks_are_found_under_the_names_people_give_them(tmp_path, model, rank):
    path = written(tmp_path, f"user_id,{model},{rank}\n1,EASE,3\n2,EASE,5\n1,ALS,2\n2,ALS,1\n")
    found = {"EASE": [3, 5], "ALS": [2, 1]}
    expected = {name: fr.RankCounts.from_ranks(ranks, 100, "uni9", users=[1, 2]) for name, ranks in found.items()}
    assert read_counts(path, "uni9", 100) == expected


def test_words_that_tell_a_users_rows_apart_are_not_dropped(tmp_path):
    rows = "1,a,3\n1,b,5\n2,a,1\n2,b,2\n"
    says = "column 'variant' ('a', 'b') tells rows of one user apart; name it 'model' if it names models, else drop it."
    assert told(tmp_path, f"user_id,variant,rank\n{rows}") == f"'mine.csv': {says}"
    assert says in told(tmp_path, f"user_id,variant,EASE\n{rows}")
    assert says in told(
        tmp_path, "model,user_id,variant,rank\n" + rows.replace("1,a", "x,1,a").replace("\n", "\nx,")[:-2]
    )
    says = "column 'variant' ('a', 'b') divides the rows into equal parts; name it 'model'"
    assert says in told(tmp_path, "variant,rank\na,3\na,5\nb,1\nb,2\n")
    for harmless in (
        "user_id,country,rank\n1,de,3\n2,de,5\n",
        "user_id,item_id,title,rank\n1,7,a,3\n1,8,b,5\n2,7,a,1\n",
        "user_id,item_id,date,rank\n1,7,monday,3\n1,8,friday,5\n",
        "country,rank\nde,3\nde,5\nfr,1\n",
    ):
        assert read_counts(written(tmp_path, harmless), "uni9", 100)


def test_models_without_a_column_of_ranks_are_refused(tmp_path):
    says = told(tmp_path, "user_id,model,platz\n1,a,3\n1,b,5\n")
    assert says == (
        "'mine.csv' names models in column 'model' and has no column of ranks: name it 'rank', or say which it is with "
        "--columns; it has 'user_id', 'model', 'platz'."
    )
    found = read_counts(tmp_path / "mine.csv", "uni9", 100, columns=["platz"])
    assert {name: each.sampled_ranks()[0].tolist() for name, each in found.items()} == {"a": [3], "b": [5]}
    says = told(tmp_path, "model,A,B\nx,1,2\n", columns=["A", "B"])
    assert "names models in column 'model' and has 2 columns of ranks: name one of --columns A,B" in says


def test_two_columns_that_could_be_the_ranks_are_refused(tmp_path):
    text = "user_id,rank,position\n1,3,1\n2,5,1\n"
    assert "'rank' and 'position' of 'mine.csv' could both be the ranks: say which" in told(tmp_path, text)
    found = read_counts(tmp_path / "mine.csv", "uni9", 100, columns=["rank"])["rank"]
    assert found.sampled_ranks()[0].tolist() == [3, 5]


@pytest.mark.parametrize(
    "beside", ["fold", "Seed", "split", "timestamp", "item_id", "session_id", "id", "hit@10", "ndcg", "label", "order"]
)
def test_columns_that_are_no_models_are_not_taken_for_some(tmp_path, beside):
    path = written(tmp_path, f"user_id,EASE,{beside},ALS\n1,3,1,2\n2,5,1,1\n")
    assert list(read_counts(path, "uni9", 100)) == ["EASE", "ALS"]
    assert list(read_counts(path, "uni9", 100, columns=["ALS", beside])) == ["ALS", beside]  # whoever asks for it


def test_columns_are_named_outright(tmp_path):
    text = "user_id,EASE,age_group,ALS\n1,3,0,2\n2,5,1,1\n"
    says = told(tmp_path, text)
    assert says.startswith("`age_group` is 0 on line 2: ranks are one-based, from 1 to 10; if yours start at 0, add 1;")
    assert says.endswith("if column 'age_group' holds no ranks, say which do with --columns.")
    path = tmp_path / "mine.csv"
    assert list(read_counts(path, "uni9", 100, columns=["ALS", "EASE"])) == ["ALS", "EASE"]
    assert "--columns names 'EASY', which 'mine.csv' does not have; did you mean 'EASE'?" in told(
        tmp_path, text, columns=["EASY"]
    )


def test_the_first_case_is_not_taken_for_a_header(tmp_path):
    for text in ("u1,3\nu2,5\n", "u1,EASE,3\nu2,EASE,5\n"):
        assert "has no header: name the columns in its first line" in told(tmp_path, text)
    assert list(read_counts(written(tmp_path, "user_id,64,128\n1,3,5\n"), "uni9", 100)) == ["64", "128"]


@pytest.mark.parametrize("rows", ["1,3,49\n2,5,99\n", "2,5,99\n1,3,49\n"])
def test_a_column_of_negatives_says_how_many_each_case_has(tmp_path, rows):
    path = written(tmp_path, "user_id,rank,negatives\n" + rows)
    for distinct in (False, True):
        expected = fr.RankCounts.from_ranks([3, 5], 1000, fr.Sample(99, not distinct), drawn=[49, 99], users=[1, 2])
        assert read_counts(path, None, 1000, distinct=distinct) == {"mine": expected}
        assert "(49 to 99 negatives)" in str(expected)
    assert read_counts(path, "uni99", 1000)["mine"].sizes.tolist() == [49, 99]
    assert told(tmp_path, "rank,negatives\n1,9\n2,0\n", None) == (
        "`negatives` is 0 on line 3: it must be a number of negatives of at least 1."
    )
    assert "`negatives` has a missing value (NaN) on line 2" in told(tmp_path, "rank,negatives\n1,\n2,5\n", None)
    assert told(tmp_path, "rank\n1\n", None).startswith("--negatives or --design is missing")
    assert "with 4 negatives ranks go up to 5" in told(tmp_path, "rank,negatives\n1,9\n9,4\n", None)


def test_a_column_of_negatives_in_a_long_parquet_is_one_design(tmp_path, monkeypatch):
    table = {"rank": np.ones(300, int), "negatives": np.repeat([5, 20, 9], 100)}
    parquet.write_table(pa.table(table), tmp_path / "long.parquet", row_group_size=50)
    whole = read_counts(tmp_path / "long.parquet", None, 100)
    monkeypatch.setattr("fullrank._tables.BATCH", 100)
    assert read_counts(tmp_path / "long.parquet", None, 100) == whole
    assert str(whole["long"].design) == "uni20"


def test_a_number_of_candidates_is_said_once(tmp_path):
    text = "rank,candidates\n1,50\n2,60\n"
    says = "'mine.csv' has a column 'candidates' of the numbers of candidates, and --items says 100: leave --items out"
    assert says in told(tmp_path, text)
    assert read_counts(tmp_path / "mine.csv", "uni9")["mine"].pool_range == (50, 60)


def test_order_and_targets_tell_a_users_targets_apart(tmp_path):
    text = "user_id,rank,order,targets\n1,3,1,2\n1,5,2,2\n2,2,1,1\n"
    about = {"users": [1, 1, 2], "order": [1, 2, 1], "targets": [2, 2, 1]}
    expected = fr.RankCounts.from_ranks([3, 5, 2], 100, "uni9", **about)
    found = read_counts(written(tmp_path, text), "uni9", 100)["mine"]
    assert found == expected
    assert (found.several_targets, found.n_users) == (True, None)
    repeated = read_counts(written(tmp_path, text.replace("targets", "other")), "uni9", 100)["mine"]
    assert (repeated.several_targets, repeated.n_users) == (False, 2)  # `order` alone may be that of a purchase
    assert "order 1 of user 1 more than once" in told(tmp_path, text.replace("5,2,2", "5,1,2"))
    assert "`order` is 3 on line 3: it must be a place in 1..targets" in told(tmp_path, text.replace("5,2,2", "5,3,2"))
    wide = told(tmp_path, text.replace("rank", "EASE"))
    assert "has a column of ranks per model; the order of a user's targets differs: give each its own rows" in wide


def test_ranks_of_negatives_are_not_those_of_targets(tmp_path):
    rows = "1,3,1,0\n1,4,2,1\n2,3,2,1\n2,4,1,0\n"
    says = "has the ranks of rows whose 'label' is 0, which are not of targets: keep those where it is 1."
    assert says in told(tmp_path, "user_id,item_id,rank,label\n" + rows)
    lists = "model,user_id,item_id,rank\n" + "".join(f"{m},1,{i},{i}\n" for m in "AB" for i in (1, 2, 3))
    assert "holds whole ranked lists, 1, 2, 3, …, not the ranks of targets" in told(tmp_path, lists)
    places = "user_id,item_id,score,position\n1,3,.5,1\n1,4,.2,2\n"
    assert "holds scores and does not say which candidate is the target" in told(tmp_path, places)


@pytest.mark.parametrize(
    ("content", "ranks"),
    [
        (b"\xef\xbb\xbfrank,user_id\n3,1\n5,2\n", [3, 5]),  # with the mark that Excel writes
        (b"user_id;rank\r\n1;3\r\n2;5\r\n", [3, 5]),
        (b'"user_id","rank"\n"1","3"\n"2","5"\n', [3, 5]),
        (b"USER_ID,Rank\n1,3.0\n2,5.0\n", [3, 5]),
        (b"user_id, rank\n1, 3\n2, 5\n", [3, 5]),
        (b",user_id,rank\n0,1,3\n1,2,5\n", [3, 5]),
        (b"user_id;rank\n1;3,0\n2;5,0\n", "`rank` must be whole numbers, got '3,0' on line 2."),
        (b"user_id,rank\n1,3.5\n2,5.0\n", "`rank` must be whole numbers, got 3.5 on line 2."),
        (b'user_id,rank\n1,3\n2,"1,003"\n', "`rank` must be whole numbers, got '1,003' on line 3."),
        (b"user_id,rank\n1,-1\n2,5\n", "`rank` is -1 on line 2: ranks are one-based, from 1 to 10."),
        (
            b"user_id,rank\n1,0\n2,0\n",
            "`rank` is 0 on line 2 (2 rows in all): ranks are one-based, from 1 to 10; if yours start at 0, add 1.",
        ),
        (
            b"user_id,pos\n1,1\n2,6033\n",
            "`pos` is 6033 on line 3: with 9 negatives ranks go up to 10; ranks among all items want --design full.",
        ),
        (b"user_id,rank\n1,3,4\n2,5\n", "cannot read"),
    ],
)
@pytest.mark.parametrize("without", [False, True])
def test_what_programs_write_is_read_or_refused_in_its_own_words(tmp_path, monkeypatch, content, ranks, without):
    if without:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "mine.csv").write_bytes(content)
    if isinstance(ranks, list):
        expected = fr.RankCounts.from_ranks(ranks, 100, "uni9", users=[1, 2])
        assert read_counts(tmp_path / "mine.csv", "uni9", 100) == {"mine": expected}
        return
    with pytest.raises((ValueError, TypeError)) as caught:
        read_counts(tmp_path / "mine.csv", "uni9", 100)
    assert str(caught.value).startswith(ranks)
