import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullrank import data as fd
from fullrank.data import sources as module

NAMES = ["ml-1m", "citeulike-a", "pinterest-20", "gowalla", "ml-100k", "yelp", "ml-20m", "book-x"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FULLRANK_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def put(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def rows(split):
    train = list(zip(*(part.tolist() for part in split.train.nonzero()), strict=True))
    return train, list(zip(split.users.tolist(), split.items.tolist(), strict=True))


# Official files in small: per data set, the files and the (train, test) pairs they must come to.
OFFICIAL = {
    "ml-1m": (
        {"ml-1m.train.rating": "0\t0\t5\t1\n0\t1\t4\t2\n1\t1\t3\t1\n", "ml-1m.test.rating": "0\t2\t5\t9\n1\t0\t5\t9\n"},
        ([(0, 0), (0, 1), (1, 1)], [(0, 2), (1, 0)]),
    ),
    "pinterest-20": (
        {
            "pinterest-20.train.rating": "0\t0\t1\t0\n1\t1\t1\t0\n",
            "pinterest-20.test.rating": "0\t1\t1\t0\n1\t0\t1\t0\n",
        },
        ([(0, 0), (1, 1)], [(0, 1), (1, 0)]),
    ),
    "gowalla": (
        {"train.txt": "0 0 1\n1 2\n", "test.txt": "0 3 2\n1 0\n"},
        ([(0, 0), (0, 1), (1, 2)], [(0, 3), (0, 2), (1, 0)]),
    ),
    "ml-100k": (
        {"u.data": "1\t1\t3\t5\n1\t2\t3\t9\n1\t3\t3\t9\n2\t1\t3\t5\n"},
        ([(0, 0), (0, 1), (1, 0)], [(0, 2)]),
    ),
    "yelp": (
        {"yelp.rating": "0\t0\t5.0\t3\n0\t1\t4.0\t5\n0\t0\t4.0\t9\n1\t1\t3.0\t1\n"},
        ([(0, 0), (1, 1)], [(0, 1)]),
    ),
    "ml-20m": (
        {
            "ratings.csv": "userId,movieId,rating,timestamp\n"
            + "".join(f"8,{10 * item},4.0,{item}\n" for item in range(5))
            + "8,99,3.5,100\n9,0,5.0,1\n9,10,5.0,1\n"
        },
        ([(0, 0), (0, 1), (0, 2), (0, 3)], [(0, 4)]),
    ),
}


@pytest.mark.parametrize("name", OFFICIAL)
@pytest.mark.parametrize("packed", ["plain", "subfolder", "zip"])
def test_official_files_become_a_split(name, packed, folder):
    files, expected = OFFICIAL[name]
    home = put(folder / name if packed != "subfolder" else folder / name / "inner", files)
    if packed == "zip":
        with zipfile.ZipFile(home / "packed.zip", "w") as archive:
            for file in files:
                archive.write(home / file, f"inner/{file}")
                archive.writestr(f"__MACOSX/inner/{file}", "junk")
                (home / file).unlink()
    split = fd.load(name)
    assert rows(split) == expected
    assert split.name == name
    assert (folder / name / "interactions.parquet").is_file()
    assert not list((folder / name).glob(".*"))
    again = fd.load(name)
    assert again == split
    assert again.notes == split.notes
    assert any(note.startswith("interactions: ") for note in split.notes)


def test_citeulike_holds_out_one_of_three_or_more(folder):
    put(folder / "citeulike-a", {"users.dat": "3 0 1 2\n2 0 1\n4 0 1 2 3\n"})
    split = fd.load("CiteULike")
    assert split.name == "citeulike-a"
    assert split.test_users.tolist() == [0, 2]
    assert split.cases == 2
    assert "split: random, rng=0" in split.notes
    assert fd.load("citeulike", rng=0) == split
    assert len({fd.load("citeulike", rng=seed).checksum for seed in range(8)}) > 1
    assert fd.load("citeulike", min_items=2).cases == 3


def test_book_x_filters_and_keeps_isbns(folder):
    # book "solo" has one reader and goes first; user 2 is left with 9 books and goes; user 1 keeps 10
    lines = [f'"1";"b{book:02d}";"0"' for book in range(10)] + [f'"2";"b{book:02d}";"7"' for book in range(9)]
    lines += ['"2";"solo";"9"', '"3";"b09";"1"']
    put(folder / "book-x", {"BX-Book-Ratings.csv": '"User-ID";"ISBN";"Book-Rating"\n' + "\n".join(lines) + "\n"})
    split = fd.load("book-X", rng=1)
    assert (split.n_users, split.n_items, split.cases) == (1, 10, 1)
    assert split.user_ids.tolist() == [1]
    assert split.item_ids.tolist() == [f"b{book:02d}" for book in range(10)]
    assert any("our guess" in note for note in split.notes)


def test_ml_1m_from_ratings_dat_says_what_it_is(folder):
    put(folder / "ml-1m", {"ratings.dat": "1::50::5::3\n1::20::5::9\n2::20::4::1\n2::50::4::1\n"})
    split = fd.load("ml-1m")
    assert rows(split) == ([(0, 0), (1, 1)], [(0, 1), (1, 0)])
    assert split.item_ids.tolist() == [50, 20]
    assert any("ratings.dat" in note for note in split.notes)
    with pytest.raises(ValueError, match=r"has no test.parquet; say how to split"):
        fd.load("ml-1m", how="given")


def test_a_constant_time_column_is_no_time(folder):
    put(folder / "pinterest-20", OFFICIAL["pinterest-20"][0])
    fd.load("pinterest-20")
    with pytest.raises(ValueError, match="`how` is 'last', but the rows have no time"):
        fd.load("pinterest-20", how="last")


def test_other_ways_to_split(folder):
    put(folder / "gowalla", {"train.txt": "0 0 1 2 3 4 5 6 7\n", "test.txt": "0 8 9\n"})
    assert fd.load("gowalla", how="given") == fd.load("gowalla")
    assert fd.load("gowalla", how="random").cases == 1
    assert fd.load("gowalla", how="ratio", share=0.5).cases == 5
    with pytest.raises(ValueError, match=r"`how` must be 'last', .*got 'loo'"):
        fd.load("gowalla", how="loo")


# ---- what is missing, wrong or broken --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_offline_one_sentence_says_which_file_goes_where(name, folder):
    with pytest.raises(FileNotFoundError) as raised:
        fd.load(name)
    message = str(raised.value)
    assert "\n" not in message
    assert str(folder / name) in message
    assert all(f"`{file}`" in message for option in fd.catalogue()[name]["sources"] for file in option["files"])
    assert not folder.exists()


@pytest.mark.parametrize("name", ["movie", "", "../ml-1m", "/etc", "ml-1m/..", "."])
def test_unknown_names(name, folder):
    with pytest.raises(ValueError, match="must be one of ml-1m, citeulike-a"):
        fd.load(name)


def test_a_near_miss_gets_a_hint(folder):
    with pytest.raises(ValueError, match="did you mean 'gowalla'"):
        fd.load("gowala")
    with pytest.raises(TypeError, match=r"`name` must .*got 3"):
        fd.load(3)


def test_half_of_the_files_is_not_enough(folder):
    put(folder / "gowalla", {"train.txt": "0 1\n"})
    with pytest.raises(FileNotFoundError, match=r"`train.txt` and `test.txt`"):
        fd.load("gowalla")


def test_a_broken_official_file_leaves_nothing_behind(folder):
    put(folder / "ml-100k", {"u.data": "1\t1\t3\t5\n1\t2\t3\n"})
    with pytest.raises(ValueError, match=r"u.data` line 2"):
        fd.load("ml-100k")
    assert os.listdir(folder / "ml-100k") == ["u.data"]


def test_a_broken_archive(folder):
    put(folder / "ml-100k", {"ml-100k.zip": b"PK\x03\x04 not really"})
    with pytest.raises(ValueError, match=r"ml-100k.zip is not a readable zip archive"):
        fd.load("ml-100k")


def table(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def test_a_truncated_parquet(folder):
    path = folder / "ml-100k" / "interactions.parquet"
    table(path, user=[0, 0], item=[0, 1], timestamp=[1, 2])
    assert fd.load("ml-100k").cases == 1
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"cannot be read .* import the data set again") as raised:
        fd.load("ml-100k")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [0], "thing": [0]}, "no column looks like the item; the columns are 'user', 'thing'"),
        ({"user": [0, None], "item": [0, 1]}, "row 1 has no user"),
        ({"user": [0, -4], "item": [0, 1]}, "`user` must be from 0 to 0, .* got -4 in row 1"),
        ({"user": ["a"], "item": [0]}, "`user` must hold zero-based positions"),
        ({"user": pa.array([], pa.int32()), "item": pa.array([], pa.int32())}, "has no rows"),
        ({"user": [0, 0], "item": [0, 1]}, "have no time"),
    ],
)
def test_a_strange_parquet(columns, message, folder):
    table(folder / "ml-100k" / "interactions.parquet", **columns)
    with pytest.raises(ValueError, match=message):
        fd.load("ml-100k")


def test_a_test_file_that_does_not_belong(folder):
    table(folder / "gowalla" / "interactions.parquet", user=[0, 0], item=[0, 1])
    with pytest.raises(ValueError, match=r"has no test.parquet; say how to split"):
        fd.load("gowalla")
    table(folder / "gowalla" / "test.parquet", user=[0], item=[2])
    with pytest.raises(ValueError, match=r"holds out item 2 of user 0, which interactions.parquet does not have"):
        fd.load("gowalla")


def test_a_change_after_the_import_is_noticed(folder):
    put(folder / "ml-100k", OFFICIAL["ml-100k"][0])
    fd.load("ml-100k")
    path = folder / "ml-100k" / "interactions.parquet"
    table(path, user=[0, 0, 1], item=[0, 1, 2], timestamp=[1, 2, 3])
    with pytest.raises(ValueError, match="is not the file that was imported"):
        fd.load("ml-100k")
    provenance = folder / "ml-100k" / "provenance.json"
    provenance.write_text("{")
    with pytest.raises(ValueError, match=r"provenance.json cannot be read"):
        fd.load("ml-100k")
    provenance.unlink()
    assert rows(fd.load("ml-100k")) == ([(0, 0), (1, 2)], [(0, 1)])
    (folder / "ml-100k" / "items.parquet").write_bytes((folder / "ml-100k" / "users.parquet").read_bytes())
    with pytest.raises(ValueError, match=r"items.parquet has 2 names for 3 items"):
        fd.load("ml-100k")


def test_users_without_items_keep_their_position(folder):
    put(folder / "gowalla", {"train.txt": "0 0 1\n1 2\n2\n", "test.txt": "0 3\n3\n"})
    assert fd.load("gowalla").n_users == 4
    assert fd.load("gowalla", how="random").n_users == 4


# ---- importing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["folder", "file", "zip"])
def test_import_from_elsewhere(how, folder, tmp_path):
    away = put(tmp_path / "downloads", OFFICIAL["ml-100k"][0])
    source = {"folder": away, "file": away / "u.data", "zip": away / "x.zip"}[how]
    if how == "zip":
        with zipfile.ZipFile(source, "w") as archive:
            archive.write(away / "u.data", "ml-100k/u.data")
    told = fd.import_files(" ML-100K ", source)
    assert (told["interactions"], told["users"], told["items"], told["test"]) == (4, 2, 3, None)
    assert told == json.loads((folder / "ml-100k" / "provenance.json").read_text())
    assert told["sources"][0]["bytes"] == (source / "u.data" if how == "folder" else source).stat().st_size
    assert set(told["files"]) == {"interactions.parquet", "users.parquet", "items.parquet"}
    assert rows(fd.load("ml-100k")) == OFFICIAL["ml-100k"][1]


def test_import_of_two_files_from_one_of_them(folder, tmp_path):
    away = put(tmp_path / "downloads", OFFICIAL["gowalla"][0])
    told = fd.import_files("gowalla", away / "train.txt")
    assert told["test"] == 3
    assert rows(fd.load("gowalla")) == OFFICIAL["gowalla"][1]


def test_a_second_import_replaces_the_first(folder, tmp_path):
    fd.import_files("ml-1m", put(tmp_path / "a", OFFICIAL["ml-1m"][0]))
    assert (folder / "ml-1m" / "test.parquet").is_file()
    fd.import_files("ml-1m", put(tmp_path / "b", {"ratings.dat": "1::5::5::1\n1::2::5::2\n"}))
    assert not (folder / "ml-1m" / "test.parquet").exists()
    assert fd.load("ml-1m").cases == 1


def test_import_of_nothing(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        fd.import_files("yelp", tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="does not hold the files of yelp"):
        fd.import_files("yelp", put(tmp_path / "empty", {}))
    with pytest.raises(FileNotFoundError, match="does not hold the files of gowalla"):
        fd.import_files("gowalla", put(tmp_path / "x", {"other.txt": "0 1"}) / "other.txt")


def test_an_archive_of_known_checksum_is_verified(folder, tmp_path):
    away = tmp_path / "downloads"
    away.mkdir()
    with zipfile.ZipFile(away / "ml-100k.zip", "w") as archive:
        archive.writestr("ml-100k/u.data", OFFICIAL["ml-100k"][0]["u.data"])
    with pytest.raises(ValueError, match="the official file 4924029: fetch it again, or accept it with verify=False"):
        fd.import_files("ml-100k", away / "ml-100k.zip")
    fd.import_files("ml-100k", away / "ml-100k.zip", verify=False)
    assert fd.load("ml-100k").cases == 1


def test_a_crash_while_writing_leaves_the_old_state(folder, tmp_path, monkeypatch):
    away = put(tmp_path / "a", OFFICIAL["ml-100k"][0])
    real, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match=r"cannot be written \(No space left on device\)"):
        fd.import_files("ml-100k", away)
    assert os.listdir(folder / "ml-100k") == []
    monkeypatch.setattr(os, "replace", real)
    assert calls
    fd.import_files("ml-100k", away)
    assert fd.load("ml-100k").cases == 1


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FULLRANK_DATA", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"cannot be written .*set another FULLRANK_DATA"):
        fd.import_files("ml-100k", put(tmp_path / "a", OFFICIAL["ml-100k"][0]))


# ---- listing ---------------------------------------------------------------------------------------------------------


def test_available_lists_all_eight(folder):
    put(folder / "ml-100k", OFFICIAL["ml-100k"][0])
    put(folder / "gowalla", OFFICIAL["gowalla"][0])
    fd.load("gowalla")
    listed = {row["name"]: row for row in fd.available()}
    assert list(listed) == NAMES
    gowalla, ml100k, yelp = listed["gowalla"], listed["ml-100k"], listed["yelp"]
    assert (gowalla["present"], gowalla["importable"]) == (True, False)
    assert (gowalla["interactions"], gowalla["users"], gowalla["items"], gowalla["test"]) == (6, 2, 4, 3)
    assert gowalla["published"] == {"interactions": 1_027_370, "users": 29_858, "items": 40_981}
    assert (ml100k["present"], ml100k["importable"], ml100k["users"]) == (False, True, 943)
    assert (yelp["present"], yelp["importable"], yelp["files"]) == (False, False, [["yelp.rating"]])
    assert yelp["where"] == str(folder / "yelp")
    json.dumps(fd.available())


def test_without_the_variable_the_platform_decides(monkeypatch):
    monkeypatch.delenv("FULLRANK_DATA", raising=False)
    assert fd.data_folder().name == "fullrank"
    monkeypatch.setenv("FULLRANK_DATA", "~/x")
    assert fd.data_folder() == Path.home() / "x"


def test_the_catalogue_is_complete_and_unambiguous():
    found = fd.catalogue()
    assert list(found) == NAMES
    aliases = [alias for name, source in found.items() for alias in (name, *source["aliases"])]
    assert len(aliases) == len(set(aliases))
    assert all(alias == alias.lower() for alias in aliases)
    for source in found.values():
        assert set(source["counts"]) == {"interactions", "users", "items"}
        for option in source["sources"]:
            assert callable(getattr(module.readers, f"read_{option['reader']}", None))
            for file in option["downloads"]:
                assert set(file) == {"name", "url", "bytes", "sha256"}


def test_nothing_touches_the_network_on_its_own(folder, monkeypatch):
    import urllib.request

    def refuse(*args, **kwargs):
        raise AssertionError("the network was used")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    for name in NAMES:
        with pytest.raises(FileNotFoundError):
            fd.load(name)
    fd.available()


# ---- the real data, where it is there --------------------------------------------------------------------------------

REAL = {
    # interactions, users, items, cases
    "ml-1m": (1_000_209, 6_040, 3_706, 6_040),
    "citeulike-a": (204_986, 5_551, 16_980, 5_551),
    "gowalla": (1_027_370, 29_858, 40_981, 217_242),
    "ml-100k": (100_000, 943, 1_682, 943),
}


def real(name):
    if not (fd.data_folder() / name / "interactions.parquet").is_file():
        pytest.skip(f"{name} is not in the data folder: set FULLRANK_DATA to one that holds it")
    return fd.load(name)


@pytest.mark.parametrize("name", REAL)
def test_real_counts(name):
    split = real(name)
    assert (split.train.nnz + split.cases, split.n_users, split.n_items, split.cases) == REAL[name]
    assert not any("published" in note for note in split.notes)


def test_real_pinterest_may_be_partial():
    split = real("pinterest-20")
    assert split.cases == split.n_users == len(split.test_users)
    if split.n_users < 55_187:
        assert (split.train.nnz + split.cases, split.n_users, split.n_items) == (1_000_154, 37_501, 9_836)
        assert "users: 37,501 here, 55,187 published" in split.notes


def test_real_citeulike_holds_out_one_item_of_each():
    split = real("citeulike-a")
    assert (split.targets_per_user == 1).all()
    assert np.diff(split.train.indptr).min() >= 2
