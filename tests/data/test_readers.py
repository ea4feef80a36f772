import io

import numpy as np
import pytest

from fullrank.data import readers
from fullrank.data.readers import (
    read_adjacency,
    read_book_ratings,
    read_both,
    read_negatives,
    read_rating,
    read_ratings_csv,
    read_ratings_dat,
    read_u_data,
    read_users_dat,
)

HEADER = "userId,movieId,rating,timestamp\n"
TABLES = {
    "ratings.dat": (read_ratings_dat, "", "::"),
    "ratings.csv": (read_ratings_csv, HEADER, ","),
    "u.data": (read_u_data, "", "\t"),
    "yelp.rating": (read_rating, "", "\t"),
}
ROWS = [(1, 2, 5, 978300760), (1, 0, 3, 978302109), (0, 2, 4, 978301968)]


def text(kind, rows=ROWS, end="\n"):
    _, header, separator = TABLES[kind]
    return (header + "".join(separator.join(map(str, row)) + "\n" for row in rows)).replace("\n", end)


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def names(found):
    users = found.users if found.user_ids is None else found.user_ids[found.users]
    items = found.items if found.item_ids is None else found.item_ids[found.items]
    return list(zip(users.tolist(), items.tolist(), strict=True))


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    "form", ["plain", "crlf", "bom", "no newline at the end", "blank lines", "spaces", "tiny blocks"]
)
def test_tables_in_all_their_guises(kind, form, write, monkeypatch):
    content = text(kind, end="\r\n" if form == "crlf" else "\n")
    if form == "bom":
        content = "\ufeff" + content
    if form == "no newline at the end":
        content = content.rstrip("\n")
    if form == "blank lines":
        content += "\n\n"
    if form == "spaces":
        content = content.replace("978301968", " 978301968 ")
    if form == "tiny blocks":
        monkeypatch.setattr(readers, "BLOCK", 40)
    path = write(kind, content)
    found = TABLES[kind][0](path)
    assert names(found) == [(1, 2), (1, 0), (0, 2)]
    assert found.ratings.tolist() == [5, 3, 4]
    assert found.timestamps.tolist() == [978300760, 978302109, 978301968]
    with path.open("rb") as file:
        assert names(TABLES[kind][0](file)) == names(found)


def test_numbering():
    rows = [(7, 30, 5, 1), (7, 10, 4, 2), (9, 30, 3, 3)]
    first = read_ratings_dat(io.BytesIO(text("ratings.dat", rows).encode()))
    assert first.item_ids.tolist() == [30, 10]  # by first appearance, as NCF numbers them
    assert first.user_ids.tolist() == [7, 9]
    ordered = read_u_data(io.BytesIO(text("u.data", rows).encode()))
    assert ordered.item_ids.tolist() == [10, 30]
    kept = read_rating(io.BytesIO(text("yelp.rating", rows).encode()))
    assert (kept.users.tolist(), kept.n_users, kept.n_items, kept.user_ids) == ([7, 7, 9], 10, 31, None)


def test_a_rating_file_without_time():
    found = read_rating(io.BytesIO(b"0\t1\t1\n1\t0\t1\n"))
    assert found.timestamps is None
    assert found.ratings.tolist() == [1, 1]


def test_huge_names_are_fine_where_names_are_names():
    found = read_u_data(io.BytesIO(b"9000000000000000000\t5\t3\t1\n1\t5\t3\t1\n"))
    assert found.n_users == 2
    assert found.user_ids.tolist() == [1, 9 * 10**18]


def test_duplicate_pairs_are_read_and_merged_later():
    found = read_rating(io.BytesIO(b"0\t1\t3\t9\n0\t1\t4\t5\n0\t0\t1\t7\n"))
    assert len(found) == 3
    assert found.distinct().timestamps.tolist() == [5, 7]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("broken", "shown"),
    [
        ("1S2S3", "1S2S3"),  # cut short
        ("1S2", "1S2"),
        ("1S2S3S4S5", "1S2S3S4S5"),
        ("1;2;3;4", "1;2;3;4"),  # another separator
        ("1S2.5S3S4", "1S2.5S3S4"),
        ("oneS2S3S4", "oneS2S3S4"),
        ("1SS3S4", "1SS3S4"),
        ("1S2SS4", "1S2SS4"),
        ("-1S2S3S4", "-1S2S3S4"),
        ("1S99999999999999999999S3S4", "1S9999"),
        ("1S2SnanS4", "1S2SnanS4"),
        ("1S2S3S4.5", "1S2S3S4.5"),
        ("0x1S2S3S4", "0x1S2S3S4"),
        ("+1S2S3S4", "+1S2S3S4"),
    ],
)
def test_a_bad_line_is_named(kind, broken, shown, write, monkeypatch):
    read, _, separator = TABLES[kind]
    lines = text(kind).splitlines()
    lines.insert(len(lines) - 1, broken.replace("S", separator))
    path = write(kind, "\n".join(lines) + "\n")
    number = len(lines) - 1
    for block in (readers.BLOCK, 30):
        monkeypatch.setattr(readers, "BLOCK", block)
        with pytest.raises(
            ValueError, match=f"{kind}` line {number}: expected user, item, rating and timestamp"
        ) as raised:
            read(path)
        shown_ = repr(shown.replace("S", separator))[1:-1]
        assert shown_ in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", TABLES)
def test_latin_1_bytes_are_named(kind, write):
    content = text(kind).encode() + b"caf\xe9" + TABLES[kind][2].encode() + b"2\n"
    number = len(text(kind).splitlines()) + 1
    with pytest.raises(ValueError, match=rf"line {number}: .*caf\\\\xe9"):
        TABLES[kind][0](write(kind, content))


@pytest.mark.parametrize("content", ["", "\n\n"])
@pytest.mark.parametrize(
    "read",
    [read_ratings_dat, read_u_data, read_rating, read_users_dat, read_adjacency, read_negatives, read_book_ratings],
)
def test_an_empty_file_is_named(read, content, write):
    with pytest.raises(ValueError, match=r"some.file` line 1: the file holds no interactions"):
        read(write("some.file", content))


def test_a_csv_with_a_header_only_or_without_one(write):
    with pytest.raises(ValueError, match="line 1: the file holds no interactions"):
        read_ratings_csv(write("a.csv", HEADER))
    with pytest.raises(ValueError, match="line 1: the file holds no interactions"):
        read_ratings_csv(write("c.csv", ""))
    with pytest.raises(
        ValueError, match="line 1: expected the header userId,movieId,rating,timestamp, found '1,2,3,4'"
    ):
        read_ratings_csv(write("b.csv", "1,2,3,4\n"))


def test_a_tab_in_ratings_dat_is_not_a_separator(write):
    with pytest.raises(ValueError, match=r"ratings.dat` line 1"):
        read_ratings_dat(write("ratings.dat", "1\t2\t3\t4\n"))


def test_utf_16_says_so(write):
    with pytest.raises(ValueError, match="line 1: the file is UTF-16"):
        read_u_data(write("u.data", "1\t2\t3\t4\n".encode("utf-16")))


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot be read: no such file"):
        read_u_data(tmp_path / "none")
    with pytest.raises(OSError, match="cannot be read"):
        read_u_data(tmp_path)


@pytest.mark.parametrize("row", ["0\t2147483647\t1\t1", "99999999999\t0\t1\t1"])
def test_positions_beyond_32_bits_are_named(row, write):
    with pytest.raises(ValueError, match=r"x.rating` line 2: expected"):
        read_rating(write("x.rating", "0\t0\t1\t1\n" + row + "\n"))


def test_wild_positions_are_refused(write):
    with pytest.raises(ValueError, match=r"x.rating` has item 2000000000 among 2 interactions"):
        read_rating(write("x.rating", "0\t0\t1\t1\n0\t2000000000\t1\t1\n"))
    with pytest.raises(ValueError, match="has user 2000000000 among 1 interactions"):
        read_adjacency(write("train.txt", "0 1\n2000000000\n"))


# ---- NCF -------------------------------------------------------------------------------------------------------------


def test_ncf_pair(write):
    train = write("toy.train.rating", "0\t0\t5\t1\n0\t1\t4\t2\n1\t1\t3\t1\n")
    test = write("toy.test.rating", "0\t2\t5\t9\n1\t0\t5\t9\n")
    data, held = read_both(read_rating, train, test)
    assert (len(data), data.n_users, data.n_items) == (5, 2, 3)
    assert (held.users.tolist(), held.items.tolist(), held.n_items) == ([0, 1], [2, 0], 3)
    assert data.timestamps.tolist() == [1, 2, 1, 9, 9]
    write("toy.test.rating", "1\t1\t5\t9\n")
    with pytest.raises(ValueError, match=r"holds out item 1 of user 1, which `.*toy.train.rating` has too"):
        read_both(read_rating, train, test)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_negatives(write, monkeypatch, end):
    path = write("toy.test.negative", end.join(["(0,25)\t1064\t174\t174", "(1,133)", "(2,7)\t3", ""]))
    for block in (readers.BLOCK, 10):
        monkeypatch.setattr(readers, "BLOCK", block)
        found = read_negatives(path)
        assert found.users.tolist() == [0, 1, 2]
        assert found.targets.tolist() == [25, 133, 7]
        assert (found.negatives.tolist(), found.offsets.tolist()) == ([1064, 174, 174, 3], [0, 3, 3, 4])


@pytest.mark.parametrize(
    "line", ["0,25\t1", "(0,25)\t1\tx", "(0,25 )\t1", "(0)\t1", "(0,25) 1 2", "(0,25", "(0,25)\t99999999999"]
)
def test_bad_negatives_are_named(line, write):
    with pytest.raises(ValueError, match=r"n` line 2: expected \(user,target\)"):
        read_negatives(write("n", "(0,1)\t2\n" + line + "\n"))


# ---- lists -----------------------------------------------------------------------------------------------------------


def test_users_dat(write):
    found = read_users_dat(write("users.dat", "2 3 0\n0\n1 1\n"))
    assert names(found) == [(0, 3), (0, 0), (2, 1)]
    assert (found.n_users, found.n_items) == (3, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("2 3 0\n3 1 2\n", "line 2: it promises 3 items and holds 2; is the file cut short"),
        ("2 3 0 4\n", "line 1: it promises 2 items and holds 3"),
        ("2 3 x\n", "line 1: expected a count and that many items, found '2 3 x'"),
        ("2,3,0\n", "line 1: expected"),
        ("1 3\n\n1 2\n", "line 2: expected a count and that many items, found an empty line"),
        ("1 99999999999\n", "line 1: expected"),
        ("1 -3\n", "line 1: expected"),
        ("1 1_0\n", "line 1: expected"),
        ("1 ³\n", "line 1: expected"),
    ],
)
def test_bad_users_dat(content, message, write):
    with pytest.raises(ValueError, match="users.dat` " + message):
        read_users_dat(write("users.dat", content))


def test_lightgcn_pair(write):
    train = write("train.txt", "0 0 1 2\n1 3\n2 1 \n")
    test = write("test.txt", "0 3\r\n1\r\n2 0 4\r\n")
    data, held = read_both(read_adjacency, train, test)
    assert (len(data), data.n_users, data.n_items) == (8, 3, 5)
    assert names(held) == [(0, 3), (2, 0), (2, 4)]
    write("test.txt", "0 1\n")
    with pytest.raises(ValueError, match="holds out item 1 of user 0"):
        read_both(read_adjacency, train, test)
    with pytest.raises(ValueError, match=r"train.txt` line 1: expected a user and the user's items"):
        read_adjacency(write("train.txt", "0,1,2\n"))


# ---- Book-Crossing ---------------------------------------------------------------------------------------------------


BOOKS = (
    '"User-ID";"ISBN";"Book-Rating"\n"276725";"034545104X";"0"\n"276726";"0155061224";"5"\n"276725";"0155061224";"8"\n'
)


@pytest.mark.parametrize("form", ["plain", "crlf", "unquoted", "tiny blocks"])
def test_book_ratings(form, write, monkeypatch):
    content = BOOKS
    if form == "crlf":
        content = content.replace("\n", "\r\n")
    if form == "unquoted":
        content = content.replace('"', "")
    if form == "tiny blocks":
        monkeypatch.setattr(readers, "BLOCK", 35)
    found = read_book_ratings(write("BX-Book-Ratings.csv", content))
    assert names(found) == [(276725, "034545104X"), (276726, "0155061224"), (276725, "0155061224")]
    assert found.ratings.tolist() == [0, 5, 8]


def test_isbns_may_hold_anything(write):
    odd = ['\\"0432534220\\"', "0723245827\\", "a;b", "caf\xe9", "x\x85y", "  3257061 "]
    content = '"User-ID";"ISBN";"Book-Rating"\n' + "".join(f'"1";"{isbn}";"7"\n' for isbn in odd)
    found = read_book_ratings(write("BX-Book-Ratings.csv", content.encode("latin-1")))
    assert [isbn for _, isbn in names(found)] == odd


@pytest.mark.parametrize(
    "line", ['"1";"X"', '"1","X","5"', '"one";"X";"5"', '"1";"";"5"', '"1";"X";"ten"', '"1";"X";"']
)
def test_bad_books_are_named(line, write):
    with pytest.raises(ValueError, match=r"b.csv` line 5: expected"):
        read_book_ratings(write("b.csv", BOOKS + line + "\n"))


# ---- size ------------------------------------------------------------------------------------------------------------


def test_many_lines_across_blocks(write):
    rng = np.random.default_rng(0)
    users, items = rng.integers(1, 138_494, 10_000), rng.integers(1, 131_263, 10_000)
    part = "".join(f"{u},{i},3.5,1112486027\n" for u, i in zip(users, items, strict=True))
    path = write("ratings.csv", HEADER + part * 100)
    assert path.stat().st_size > readers.BLOCK
    found = read_ratings_csv(path)
    assert len(found) == 1_000_000
    assert (found.user_ids[found.users].reshape(100, -1) == users).all()
    assert (found.item_ids[found.items].reshape(100, -1) == items).all()


def test_progress_is_no_part_of_what_is_printed(write, capsys):
    read_u_data(write("u.data", "1\t2\t3\t4\n"), progress=True)
    assert capsys.readouterr() == ("", "")  # no terminal here: nobody looks
