"""CSV, pandas and `.npy` work without pyarrow, or with one that the NumPy at hand does not suit, and give the same."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fullrank import _tables
from fullrank._tables import read_columns

WITHOUT = "import sys; sys.modules['pyarrow'] = None\n"


@pytest.fixture(params=["with", "without"])
def pyarrow(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    return request.param


def written(tmp_path, text, name="x.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


TEXTS = [
    "user_id,rank,weight\nann,1,0.5\nbob,17,2\n",
    '\ufeffuser,score\n"a, b",1e-3\n"say ""hi""",-2\n',
    "a,b\n1,\n2,3\n",
    "a,b\r\n1,nan\r\n2,NA\r\n3,inf\r\n",
    "flag\ntrue\nfalse\n",
    "rank\n3\n\n7\n",
    "name\n007\nx\n",
    "big\n9223372036854775807\n",
    "bigger\n9223372036854775808\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_gives_the_same_columns_without_pyarrow(tmp_path, monkeypatch, text):
    path = written(tmp_path, text)
    by_pyarrow = read_columns(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    plain = read_columns(path)
    assert [name for name, _ in plain] == [name for name, _ in by_pyarrow]
    for (_, mine), (_, theirs) in zip(plain, by_pyarrow, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def test_separators_and_names_of_ones_own(tmp_path, pyarrow):
    ((name, values),) = read_columns(written(tmp_path, "4\n5\n"), names=["rank"])
    assert (name, values.tolist()) == ("rank", [4, 5])
    assert [name for name, _ in read_columns(written(tmp_path, "a\tb\n1\t2\n"), "\t")] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "Expected 2 columns, got 1"),
        ("", "Empty CSV file"),
        (b"\xff\xfea,b\n1,2\n", "is not UTF-8 text: save it as UTF-8"),
    ],
)
def test_bad_text_is_one_sentence(tmp_path, pyarrow, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_columns(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_parquet_says_that_it_needs_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=rf"x.parquet' needs pyarrow.*NumPy {np.__version__}.*\.csv or \.npy"):
        read_columns(written(tmp_path, b"PAR1", "x.parquet"))
    assert _tables.pyarrow_or_none() is None


def run(tmp_path, code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_does_without_pyarrow(tmp_path):
    written(tmp_path, "user_id,rank\n" + "".join(f"{u},{1 + u * u % 40}\n" for u in range(200)))
    np.save(tmp_path / "x.npy", np.arange(1, 51))
    rows = [f"{u},{i},{(7 * u + 3 * i) % 11},{int(i == 0)}\n" for u in range(60) for i in range(5)]
    written(tmp_path, "user_id,item_id,score,label\n" + "".join(rows), "scored.csv")
    for arguments in (
        ["correct", "x.csv", "--items", "1000", "--design", "uni99", "--json"],
        ["correct", "x.npy", "--items", "1000", "--design", "uni99", "--json"],
        ["correct", "scored.csv", "--items", "1000", "--design", "uni4", "--json"],
    ):
        code = f"import sys; sys.argv = {['fullrank', *arguments]!r}\nfrom fullrank.cli import main\nmain()"
        assert run(tmp_path, WITHOUT + code) == run(tmp_path, code)


def test_pandas_frames_do_without_pyarrow(tmp_path):
    pytest.importorskip("pandas")
    code = """
import pandas as pd, fullrank as fr
frame = pd.DataFrame({"user_id": ["a", "a", "b", "b"], "item_id": [1, 2, 1, 3], "time": pd.to_datetime(["2020-01-02",
    "2020-01-01", "2020-03-01", "2020-03-02"], utc=True), "kind": pd.Categorical(["x", "y", "x", "x"])})
split = fr.Split.from_interactions(frame, "last", timestamp="time")
print(split.user_ids[split.users], split.item_ids[split.items])
print(fr.Split.from_frames(frame.head(2), pd.DataFrame({"user": ["a"], "item": [9]})))
print(fr.Split.from_frames(frame, pd.DataFrame({"kind": ["y"], "item_id": [9]}), user="kind").user_ids)
print(fr.RankCounts.from_frame(pd.DataFrame({"rank": [1, 5], "user_id": ["a", "b"]}), "uni9", 100))
try:
    fr.Split.from_frames(frame, pd.DataFrame({"user_id": ["a", None], "item_id": [9, 9]}))
except ValueError as error:
    print(error)
"""
    out = run(tmp_path, WITHOUT + code)
    assert out == run(tmp_path, code)
    assert out.splitlines()[0] == "['a' 'b'] [1 3]"
    assert "row 1 has no user" in out


def test_the_official_files_are_read_without_pyarrow(tmp_path, pyarrow):
    from fullrank.data.readers import read_rating, read_ratings_dat

    found = read_ratings_dat(written(tmp_path, "1::10::4.5::99\n2::20::3::100\n", "r.dat"))
    assert (found.ratings.tolist(), found.timestamps.tolist()) == ([4.5, 3.0], [99, 100])
    assert found.item_ids.tolist() == [10, 20]
    for bad in ("1::x::4::9\n", "1::2.5::4::9\n", "1::2::4\n", "1::99999999999999999999::4::9\n"):
        with pytest.raises(ValueError, match="line 1: expected user, item, rating and timestamp"):
            read_ratings_dat(written(tmp_path, bad, "r.dat"))
    assert len(read_rating(written(tmp_path, "0\t1\t5\t9\n1\t0\t5\t9\n", "x.test.rating"))) == 2
