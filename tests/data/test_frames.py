import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from fullrank.data import Split, interactions
from fullrank.data.frames import encode

COLUMNS = {"user_id": ["bob", "ann", "bob", "bob"], "item_id": [30, 10, 10, 20], "timestamp": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, dict],
    ids=["pandas", "polars", "lazy", "arrow", "dict"],
)
def test_every_frame_gives_the_same(make):
    found = interactions(make(COLUMNS))
    assert found.user_ids.tolist() == ["ann", "bob"]
    assert found.item_ids.tolist() == [10, 20, 30]
    assert found.users.tolist() == [1, 0, 1, 1]
    assert found.items.tolist() == [2, 0, 0, 1]
    assert found.timestamps.tolist() == [1, 2, 3, 4]
    assert repr(found) == "Interactions(4 rows, 2 users, 3 items, with time)"
    split = Split.from_interactions(make(COLUMNS), "last")
    assert split.users.tolist() == [1]
    assert split.items.tolist() == [1]


@pytest.mark.parametrize(
    ("user", "item", "rating", "time"),
    [
        ("user_id", "item_id", "rating", "timestamp"),
        ("userId", "movieId", "rating", "timestamp"),
        ("userID", "itemID", "rating", "Timestamp"),
        ("query_id", "item_id", "rating", "timestamp"),
        ("q_id", "doc_id", "score", "time"),
        ("qid", "docno", "score", "ts"),
        ("User-ID", "ISBN", "Book-Rating", "date"),
        ("user", "item", "stars", "datetime"),
    ],
)
def test_columns_are_found_under_their_usual_names(user, item, rating, time):
    found = interactions(pd.DataFrame({"noise": [0, 0], user: [0, 1], item: [1, 0], rating: [3.5, 4.0], time: [7, 8]}))
    assert found.users.tolist() == [0, 1]
    assert found.items.tolist() == [1, 0]
    assert found.ratings.tolist() == [3.5, 4.0]
    assert found.timestamps.tolist() == [7, 8]


def test_overrides_win():
    frame = pl.DataFrame({"user_id": [0, 0], "who": [1, 0], "what": [0, 1], "when": [5, 6]})
    found = interactions(frame, user="who", item="what", timestamp="when")
    assert found.users.tolist() == [1, 0]
    assert found.timestamps.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("columns", "overrides", "message"),
    [
        (
            {"a": [1], "item": [1]},
            {},
            "no column looks like the user; the columns are 'a', 'item': name one with `user=`",
        ),
        ({"user": [1], "b": [1]}, {}, "no column looks like the item"),
        ({"userId": [1], "user_id": [1], "item": [1]}, {}, "'userId' and 'user_id' could both be the user"),
        ({"user": [1], "item": [1]}, {"user": "usr"}, "`user='usr'` is not a column.*did you mean 'user'"),
        (
            {"user": [1], "item": [1]},
            {"rating": "grade"},
            "`rating='grade'` is not a column; the columns are 'user', 'item'",
        ),
        ({"user": [1, 2], "item": [1]}, {}, "different lengths: `user` 2, `item` 1"),
        ({"user": [1, None], "item": [1, 2]}, {}, "row 1 has no user"),
        ({"user": ["a", None], "item": [1, 2]}, {}, "row 1 has no user"),
        ({"user": [1.0, np.nan], "item": [1, 2]}, {}, "row 1 has no user"),
        ({"user": [1, 2.5], "item": [1, 2]}, {}, "`user` must hold integers or strings, got 2.5 in row 1"),
        (
            {"user": [1, 2], "item": [1, 2], "rating": [1.0, np.inf]},
            {},
            "`rating` must be a finite number in every row, got inf in row 1",
        ),
        ({"user": [1, 2], "item": [1, 2], "time": [1.0, np.nan]}, {}, "`timestamp` must be .*, got nan in row 1"),
        ({"user": [[1], [2]], "item": [1, 2]}, {}, "`user` must have one dimension, got 2"),
        ({"user": [2**70, 1], "item": [1, 2]}, {}, r"`user` holds 1180591620717411303424, beyond 2"),
        ({"user": np.array([2**63], dtype=np.uint64), "item": [1]}, {}, r"`user` holds 9223372036854775808"),
        (
            {"user": [0, 9], "item": [1, 2]},
            {"n_users": 5},
            "`user` must be from 0 to 4, since `n_users` is 5, got 9 in row 1",
        ),
        ({"user": [0, -1], "item": [1, 2]}, {"n_users": 5}, "`user` must .*got -1 in row 1"),
    ],
)
def test_bad_columns_are_one_sentence(columns, overrides, message):
    with pytest.raises(ValueError, match=message) as raised:
        interactions(columns, **overrides)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (7, "`data` must be a pandas, polars or pyarrow frame, .*got a int"),
        ([[1, 2]], "got a list"),
        ({"user": [True, False], "item": [1, 2]}, "`user` must .*got bool values"),
        ({"user": ["a", 3], "item": [1, 2]}, "`user` mixes kinds"),
        (
            {"user": np.array(["a", 3], dtype=object), "item": [1, 2]},
            "`user` must hold integers, strings.*got object values",
        ),
        ({"user": [1], "item": [1], "rating": ["good"]}, "`rating` must .*got .* values"),
        (pd.DataFrame({"user": [b"a", 3], "item": [1, 2]}), "`user` must hold integers, strings.*got object values"),
    ],
)
def test_bad_kinds(data, message):
    with pytest.raises(TypeError, match=message):
        interactions(data)


@pytest.mark.parametrize("length", [1, 5])
def test_tuples_of_the_wrong_length(length):
    with pytest.raises(ValueError, match=f"tuple of {length} arrays"):
        interactions(tuple([0] for _ in range(length)))


def test_nulls_in_frames_name_the_row():
    for frame in (
        pl.DataFrame({"user": ["a", None], "item": [1, 2]}),
        pd.DataFrame({"user": [1, None], "item": [1, 2]}),
    ):
        with pytest.raises(ValueError, match="row 1 has no user"):
            interactions(frame)
    with pytest.raises(ValueError, match="row 0 has no timestamp"):
        interactions(pd.DataFrame({"user": [1, 2], "item": [1, 2], "time": [pd.NaT, pd.Timestamp("2020-01-01")]}))


def test_dates_are_ordered_instants():
    days = ["2020-01-03", "2020-01-01", "2020-01-02"]
    frames = [
        pd.DataFrame({"user": [0, 0, 0], "item": [0, 1, 2], "time": pd.to_datetime(days)}),
        pd.DataFrame({"user": [0, 0, 0], "item": [0, 1, 2], "time": pd.to_datetime(days).tz_localize("Asia/Tokyo")}),
        pl.DataFrame({"user": [0, 0, 0], "item": [0, 1, 2], "time": days}).with_columns(pl.col("time").str.to_date()),
        {"user": [0, 0, 0], "item": [0, 1, 2], "time": np.array(days, dtype="datetime64[D]")},
    ]
    for frame in frames:
        found = interactions(frame)
        assert found.timestamps.dtype == np.int64
        assert np.argsort(found.timestamps).tolist() == [1, 2, 0]


def test_categories_nullable_integers_and_bytes():
    frame = pd.DataFrame({"user": pd.Categorical(["b", "a"]), "item": pd.array([5, 7], dtype="Int64")})
    found = interactions(frame)
    assert found.users.tolist() == [1, 0]
    assert found.item_ids.tolist() == [5, 7]
    assert interactions({"user": np.array([b"x", b"y"]), "item": [0, 1]}).user_ids.tolist() == ["x", "y"]
    assert interactions((np.array(["b", "a"], dtype=object), [0, 1])).user_ids.tolist() == ["a", "b"]


def test_whole_floats_are_integers():
    assert interactions(([1.0, 3.0], [0, 1])).user_ids.tolist() == [1, 3]


def test_names_that_are_positions_are_not_kept():
    found = interactions(([0, 2, 1], [0, 0, 0]))
    assert found.user_ids is None
    assert found.item_ids is None


def test_given_sizes_keep_positions_with_gaps():
    found = interactions(([0, 7], [3, 3]), n_users=10, n_items=5)
    assert (found.users.tolist(), found.items.tolist(), found.n_users, found.n_items) == ([0, 7], [3, 3], 10, 5)


def test_strings_are_not_positions():
    with pytest.raises(TypeError, match="`n_users` was given"):
        interactions((["a"], [0]), n_users=3)


@pytest.mark.parametrize("size", ["3", -3, 2.5])
def test_sizes_are_whole_numbers(size):
    with pytest.raises(ValueError, match=f"`n_items` must be a whole number of at least 0, got {size!r}"):
        interactions(([0], [1]), n_items=size)


def test_a_sparse_matrix_has_as_many_items_as_was_said():
    assert interactions(sp.csr_matrix((2, 3)), n_items=10).n_items == 10
    assert Split.from_interactions(sp.csr_matrix(np.ones((2, 3))), "random", n_items=10).n_items == 10
    assert Split.from_frames(sp.csr_matrix(([1.0], ([0], [1])), shape=(2, 3)), ([0], [5]), n_items=10).n_items == 10


def test_sparse_matrices_keep_their_shape():
    found = interactions(sp.coo_array(([2.0], ([1], [4])), shape=(3, 6)))
    assert (found.n_users, found.n_items, found.ratings.tolist()) == (3, 6, [2.0])
    assert interactions(found) is found


@pytest.mark.parametrize("ids", [[5, 3, 5, 9], [10**15, 3, 10**15, -7], ["e", "c", "e", "i"]])
def test_encoding_reads_back(ids):
    raw = np.array(ids)
    for order in ("sorted", "first"):
        codes, names, size = encode(raw, "user", order=order)
        assert size == 3
        assert (names[codes] == raw).all()
        expected = sorted(set(ids)) if order == "sorted" else list(dict.fromkeys(ids))
        assert names.tolist() == expected


def test_distinct_keeps_the_earliest_row_in_place():
    found = interactions(([0, 0, 1, 0], [1, 0, 0, 1], [1.0, 2.0, 3.0, 4.0], [9, 5, 5, 2])).distinct()
    assert found.ratings.tolist() == [2.0, 3.0, 4.0]
    untimed = interactions(([0, 0, 1, 0], [1, 0, 0, 1], [1.0, 2.0, 3.0, 4.0])).distinct()
    assert untimed.ratings.tolist() == [1.0, 2.0, 3.0]


def test_importing_the_stage_loads_nothing_heavy():
    code = (
        "import sys, fullrank.data\n"
        "heavy = {'narwhals', 'pyarrow', 'pandas', 'polars', 'tqdm', 'platformdirs', 'urllib.request', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
