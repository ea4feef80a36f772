"""The official files, as their authors publish them: one reader per format, fast on millions of lines.

A file is read in blocks of whole lines, so memory stays bounded by what is kept. A block that does not parse is looked
through line by line, only then, so that the error can name the file and the line.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from fullrank._progress import bar
from fullrank._tables import open_bytes, pyarrow_or_none
from fullrank._types import IntArray
from fullrank.data.frames import Interactions, among, encode

Source: TypeAlias = str | os.PathLike[str] | BinaryIO

BLOCK = 16 << 20  # bytes: large enough for pyarrow to run at full speed, small enough to forget
_BOM = b"\xef\xbb\xbf"
_LARGEST = 2**63 - 1
_LARGEST_POSITION = 2**31 - 2


def read_ratings_dat(source: Source, *, min_rating: float | None = None, progress: bool = False) -> Interactions:
    """Read MovieLens 1M `ratings.dat`: `UserID::MovieID::Rating::Timestamp`.

    Films are numbered by first appearance, as in the NCF release; users in sorted order, which is theirs too.
    """
    table = _read_table(source, "::", ("user", "item", "rating", "timestamp"), min_rating, progress)
    return _encoded(table, item_order="first")


def read_ratings_csv(source: Source, *, min_rating: float | None = None, progress: bool = False) -> Interactions:
    """Read MovieLens 20M `ratings.csv`: a header, then `userId,movieId,rating,timestamp`; ids in sorted order."""
    columns = ("user", "item", "rating", "timestamp")
    header = re.compile(rb"userId,movieId,rating,timestamp\s*")
    return _encoded(_read_table(source, ",", columns, min_rating, progress, header=header))


def read_u_data(source: Source, *, min_rating: float | None = None, progress: bool = False) -> Interactions:
    """Read MovieLens 100K `u.data`: user, item, rating, timestamp separated by tabs; ids in sorted order."""
    return _encoded(_read_table(source, "\t", ("user", "item", "rating", "timestamp"), min_rating, progress))


def read_rating(source: Source, *, min_rating: float | None = None, progress: bool = False) -> Interactions:
    """Read a `.rating` file of NCF (`ml-1m.train.rating`) or eALS (`yelp.rating`): tabs, zero-based positions kept.

    Columns are user, item, rating and time; the time may be absent.
    """
    first = _first_line(source)
    columns = ("user", "item", "rating", "timestamp")[: 3 if first.count(b"\t") == 2 else 4]
    table = _read_table(source, "\t", columns, min_rating, progress, largest_id=_LARGEST_POSITION)
    return _positioned(table, _name(source))


def read_ncf(train: Source, test: Source, *, progress: bool = False) -> tuple[Interactions, Interactions]:
    """Read NCF's `NAME.train.rating` and `NAME.test.rating`; returns (all interactions, held-out ones).

    Both have the same numbers of users and items; a held-out pair that is in the train file too is an error.
    """
    rest, held = read_rating(train, progress=progress), read_rating(test, progress=progress)
    return _together(rest, held, _name(train), _name(test))


@dataclass(frozen=True, eq=False)
class Negatives:
    """Lists of negatives drawn by someone else: case c has `negatives[offsets[c]:offsets[c + 1]]`, repeats included.

    NCF drew 99 per case *with* replacement, so the number of distinct ones is often smaller.
    """

    users: IntArray
    targets: IntArray
    negatives: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.users)

    def of(self, case: int) -> IntArray:
        """Return the negatives of one case."""
        if not 0 <= case < len(self):
            raise ValueError(f"`case` must be from 0 to {len(self) - 1}, got {case}.")
        return self.negatives[self.offsets[case] : self.offsets[case + 1]]


def read_negatives(source: Source, *, progress: bool = False) -> Negatives:
    """Read NCF's `.test.negative`: `(user,target)`, then the negatives, separated by tabs; zero-based positions."""
    line_form = re.compile(rb"\((\d{1,10}),(\d{1,10})\)((?:\t\d{1,10})*)\s*")
    cases: list[IntArray] = []
    sizes: list[int] = []
    parts: list[IntArray] = []
    for block, first_line in _blocks(source, progress):
        heads: list[bytes] = []
        tails: list[bytes] = []
        for number, line in enumerate(block.splitlines(), first_line):
            found = line_form.fullmatch(line)
            if found is None:
                if not line.strip():
                    continue
                raise _unreadable(source, number, line, "(user,target) and negatives separated by tabs")
            heads.append(found[1] + b" " + found[2])
            tails.append(found[3])
            sizes.append(found[3].count(b"\t"))
        cases.append(_integers(b" ".join(heads)))
        parts.append(_integers(b"".join(tails)))
    pairs = np.concatenate(cases).reshape(-1, 2) if cases else np.zeros((0, 2), dtype=np.int64)
    if not len(pairs):
        raise _empty(source)
    offsets = np.r_[0, np.cumsum(sizes)].astype(np.int64)
    return Negatives(pairs[:, 0].copy(), pairs[:, 1].copy(), np.concatenate(parts), offsets)


def read_users_dat(source: Source, *, progress: bool = False) -> Interactions:
    """Read citeulike-a `users.dat`: line u lists how many items user u has, then the items; zero-based positions.

    A user with nothing (`0`) keeps the position of the line.
    """
    rows = list(_integer_lines(source, progress, "a count and that many items"))
    for number, values in rows:
        if len(values) != values[0] + 1:
            raise ValueError(
                f"`{_name(source)}` line {number}: it promises {values[0]} items and holds {len(values) - 1}; "
                "is the file cut short?"
            )
    return _lists([np.array(values[1:], dtype=np.int64) for _, values in rows], np.arange(len(rows)), _name(source))


def read_adjacency(source: Source, *, progress: bool = False) -> Interactions:
    """Read `train.txt` or `test.txt` of NGCF and LightGCN: a user, then the user's items; zero-based positions.

    A user without items is allowed (test files have them) and keeps the position.
    """
    rows = list(_integer_lines(source, progress, "a user and the user's items separated by spaces"))
    return _lists(
        [np.array(values[1:], dtype=np.int64) for _, values in rows],
        np.array([values[0] for _, values in rows], dtype=np.int64),
        _name(source),
    )


def read_lightgcn(train: Source, test: Source, *, progress: bool = False) -> tuple[Interactions, Interactions]:
    """Read `train.txt` and `test.txt` of NGCF and LightGCN; returns (all interactions, held-out ones) as `read_ncf`."""
    rest, held = read_adjacency(train, progress=progress), read_adjacency(test, progress=progress)
    return _together(rest, held, _name(train), _name(test))


def read_book_ratings(source: Source, *, min_rating: float | None = None, progress: bool = False) -> Interactions:
    """Read Book-Crossing `BX-Book-Ratings.csv`: Latin-1, `"User-ID";"ISBN";"Book-Rating"`, header first.

    A rating of 0 is an implicit one and is kept. The ISBN is whatever stands between the first and the last semicolon
    (the file has quotes and backslashes inside), exactly as written. Users and ISBNs are numbered in sorted order.
    """
    form = re.compile(r'"?(\d{1,18})"?;"?(.*?)"?;"?(\d{1,2})"?[ \t]*')
    users: list[IntArray] = []
    isbns: list[str] = []
    ratings: list[Any] = []
    for block, first_line in _blocks(source, progress):
        names: list[str] = []
        who: list[str] = []
        stars: list[str] = []
        # not str.splitlines: Latin-1 has control characters that it would take for line ends
        for number, line in enumerate(block.decode("latin-1").replace("\r\n", "\n").split("\n"), first_line):
            found = form.fullmatch(line)
            if found is None:
                if not line.strip() or (number == 1 and "user" in line.lower()):
                    continue
                raise _unreadable(source, number, line.encode("latin-1"), '"user";"ISBN";"rating"')
            if not found[2].strip():
                raise _unreadable(source, number, line.encode("latin-1"), "an ISBN between the semicolons")
            who.append(found[1])
            names.append(found[2])
            stars.append(found[3])
        users.append(_integers(" ".join(who).encode()))
        rating = _integers(" ".join(stars).encode()).astype(np.float32)
        if min_rating is not None:
            keep = rating >= min_rating
            users[-1], rating = users[-1][keep], rating[keep]
            names = [name for name, kept in zip(names, keep, strict=True) if kept]
        isbns += names
        ratings.append(rating)
    if not isbns:
        raise _empty(source)
    table = {"user": np.concatenate(users), "item": np.array(isbns, dtype=object), "rating": np.concatenate(ratings)}
    return _encoded(table)


# ---- blocks of lines -------------------------------------------------------------------------------------------------


def _name(source: Source) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return str(getattr(source, "name", "file"))


def _blocks(source: Source, progress: bool) -> Iterator[tuple[bytes, int]]:
    """Yield (bytes of whole lines, number of their first line), without a byte-order mark."""
    if not isinstance(source, str | os.PathLike):
        yield from _blocks_of(source, _name(source), None, progress)
        return
    path = Path(source)
    try:
        file = open_bytes(path)
    except OSError as error:
        raise type(error)(f"`{path}` cannot be read: {(error.strerror or str(error)).lower()}.") from None
    with file:
        yield from _blocks_of(file, str(path), path.stat().st_size, progress)


def _blocks_of(file: BinaryIO, name: str, size: int | None, progress: bool) -> Iterator[tuple[bytes, int]]:
    rest, line, start = b"", 1, True
    with bar(progress, size, Path(name).name, unit="B", unit_scale=True) as shown:
        while chunk := file.read(BLOCK):
            shown.update(len(chunk))
            if start:
                start = False
                if chunk[:2] in (b"\xff\xfe", b"\xfe\xff"):
                    raise ValueError(f"`{name}` line 1: the file is UTF-16; save it as UTF-8 or plain ASCII.")
                chunk = chunk.removeprefix(_BOM)
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                rest += chunk
                continue
            block = rest + chunk[:cut]
            rest = chunk[cut:]
            yield block, line
            line += block.count(b"\n")
    if rest:
        yield rest, line


def _first_line(source: Source) -> bytes:
    """Return the first line that is not empty, leaving the position of an open file as it was."""
    if isinstance(source, str | os.PathLike):
        return next((line for block, _ in _blocks(source, False) for line in block.splitlines() if line.strip()), b"")
    place = source.tell()
    line = next((line for block, _ in _blocks(source, False) for line in block.splitlines() if line.strip()), b"")
    source.seek(place)
    return line


def _unreadable(source: Source, number: int, line: bytes, expected: str) -> ValueError:
    shown = line.strip()[:60].decode("utf-8", "backslashreplace")
    return ValueError(f"`{_name(source)}` line {number}: expected {expected}, found {shown!r}.")


def _empty(source: Source) -> ValueError:
    return ValueError(f"`{_name(source)}` line 1: the file holds no interactions.")


def _integers(text: bytes) -> IntArray:
    """Integers in text that was checked to hold nothing else."""
    return np.array(text.split(), dtype=np.int64)


# ---- tables of numbers: user, item, rating, time ---------------------------------------------------------------------


def _read_table(
    source: Source,
    separator: str,
    columns: tuple[str, ...],
    min_rating: float | None,
    progress: bool,
    *,
    header: re.Pattern[bytes] | None = None,
    largest_id: int = _LARGEST,
) -> dict[str, Any]:
    parse = _number_parser(columns, "\t" if separator == "::" else separator)
    kept: dict[str, list[Any]] = {name: [] for name in columns}
    explain = _line_check(columns, separator, largest_id)
    numeric = b"0123456789.+-eE \r\n" + separator.encode()
    for block, first_line in _blocks(source, progress):
        if header is not None and first_line == 1:
            line, _, body = block.partition(b"\n")
            if header.fullmatch(line) is None:
                raise _unreadable(source, 1, line, "the header userId,movieId,rating,timestamp")
            block, first_line = body, 2
        if not block.strip():
            continue
        problem = bool(block.translate(None, numeric))
        if not problem:
            try:
                # parsers want one character: a tab cannot occur here, the check above has seen to that
                arrays = parse(block.replace(b"::", b"\t") if separator == "::" else block)
            except ValueError:  # pyarrow's own errors are such, too
                problem = True
        if not problem:
            problem = any(
                len(arrays[name]) and (arrays[name].min() < 0 or arrays[name].max() > largest_id)
                for name in ("user", "item")
            )
        if problem:
            for number, line in enumerate(block.splitlines(), first_line):
                if line.strip() and not explain(line):
                    raise _unreadable(source, number, line, _form(columns, separator))
            raise ValueError(f"`{_name(source)}` lines from {first_line}: expected {_form(columns, separator)}.")
        keep = slice(None) if min_rating is None or "rating" not in arrays else arrays["rating"] >= min_rating
        for name in columns:
            # a copy, so that the block's memory can go
            kept[name].append(np.array(arrays[name][keep]))
    if not any(len(part) for part in kept["user"]):
        raise _empty(source)
    return {name: np.concatenate(parts) for name, parts in kept.items()}


def _number_parser(columns: tuple[str, ...], separator: str) -> Callable[[bytes], dict[str, Any]]:
    """Return a parser of blocks of lines, by pyarrow where it can be imported, else by NumPy; bad ones are a ValueError."""
    if (pa := pyarrow_or_none()) is not None:
        from pyarrow import csv

        kinds = {"user": pa.int64(), "item": pa.int64(), "rating": pa.float32(), "timestamp": pa.int64()}
        read = csv.ReadOptions(column_names=list(columns), block_size=BLOCK)
        parse = csv.ParseOptions(delimiter=separator, quote_char=False)
        convert = csv.ConvertOptions(column_types={name: kinds[name] for name in columns}, null_values=[])

        def by_pyarrow(text: bytes) -> dict[str, Any]:
            table = csv.read_csv(pa.BufferReader(text), read, parse, convert)
            return {name: table[name].to_numpy() for name in columns}

        return by_pyarrow
    row = np.dtype([(name, np.float32 if name == "rating" else np.int64) for name in columns])

    def by_numpy(text: bytes) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy would read 1.5 as a whole number, with a warning
            try:
                table = np.loadtxt(io.BytesIO(text), row, comments=None, delimiter=separator, ndmin=1)
            except (Warning, OverflowError) as error:
                raise ValueError(str(error)) from None
        return {name: np.ascontiguousarray(table[name]) for name in columns}

    return by_numpy


def _form(columns: tuple[str, ...], separator: str) -> str:
    return (
        f"{', '.join(columns[:-1])} and {columns[-1]} separated by {'tabs' if separator == chr(9) else repr(separator)}"
    )


def _line_check(columns: tuple[str, ...], separator: str, largest_id: int) -> Callable[[bytes], bool]:
    """Return a slow check of one line, the same rules as the fast path."""
    number = {
        "user": rb"\d+",
        "item": rb"\d+",
        "rating": rb"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?",
        "timestamp": rb"-?\d+",
    }
    form = re.compile(
        re.escape(separator.encode()).join(rb" *(" + number[name] + rb") *" for name in columns) + rb"\r?"
    )

    def check(line: bytes) -> bool:
        found = form.fullmatch(line)
        if found is None:
            return False
        return all(
            int(value) <= (largest_id if name in ("user", "item") else _LARGEST)
            for name, value in zip(columns, found.groups(), strict=True)
            if name != "rating"
        )

    return check


def _encoded(table: dict[str, Any], *, item_order: str = "sorted") -> Interactions:
    users, user_ids, n_users = encode(table["user"], "user")
    items, item_ids, n_items = encode(table["item"], "item", order=item_order)
    return Interactions(
        users, items, n_users, n_items, ratings=table.get("rating"), timestamps=table.get("timestamp"),
        user_ids=user_ids, item_ids=item_ids,
    )  # fmt: skip


def _positioned(table: dict[str, Any], name: str) -> Interactions:
    users, items = table["user"], table["item"]
    for what, values in (("user", users), ("item", items)):
        largest = int(values.max()) if len(values) else 0
        # every position occurs at least once in an honest file; a wild one would cost a huge matrix later
        if largest > 10 * len(values) + 1000:
            raise ValueError(
                f"`{name}` has {what} {largest} among {len(values):,} interactions (row {int(values.argmax()) + 1}): "
                "this format counts users and items 0, 1, 2, ….",
            )
    return Interactions(
        users, items, int(users.max(initial=-1)) + 1, int(items.max(initial=-1)) + 1,
        ratings=table.get("rating"), timestamps=table.get("timestamp"),
    )  # fmt: skip


# ---- lines of integers: a user and the user's items ------------------------------------------------------------------


def _integer_lines(source: Source, progress: bool, expected: str) -> Iterator[tuple[int, list[int]]]:
    """Yield (line number, its integers); empty lines at the end are dropped, one in the middle is an error."""
    line_form = re.compile(rb"[0-9 \t]+")
    blank = 0
    for block, first_line in _blocks(source, progress):
        for number, line in enumerate(block.splitlines(), first_line):
            if not line.strip():
                blank = blank or number
                continue
            if blank:
                raise ValueError(f"`{_name(source)}` line {blank}: expected {expected}, found an empty line.")
            values = list(map(int, line.split())) if line_form.fullmatch(line) else []
            if not values or max(values) > _LARGEST_POSITION:
                raise _unreadable(source, number, line, expected)
            yield number, values


def _lists(items: list[IntArray], users: IntArray, name: str) -> Interactions:
    sizes = np.array([len(part) for part in items], dtype=np.int64)
    if not sizes.sum():
        raise ValueError(f"`{name}` line 1: the file holds no interactions.")
    table = {"user": np.repeat(users, sizes), "item": np.concatenate(items)}
    found = _positioned(table, name)
    if int(users.max()) > 10 * len(users) + 1000:
        raise ValueError(
            f"`{name}` has user {users.max()} on {len(users):,} lines: this format counts users 0, 1, 2, …."
        )
    return Interactions(found.users, found.items, int(users.max()) + 1, found.n_items)


def _together(
    rest: Interactions, held: Interactions, train_name: str, test_name: str
) -> tuple[Interactions, Interactions]:
    """Return (train and test rows in one, test rows), with the same numbers of users and items."""
    n_users, n_items = max(rest.n_users, held.n_users), max(rest.n_items, held.n_items)
    both = among(held.users * n_items + held.items, np.sort(rest.users * n_items + rest.items))
    if both.any():
        row = int(np.flatnonzero(both)[0])
        raise ValueError(
            f"`{test_name}` holds out item {held.items[row]} of user {held.users[row]}, which `{train_name}` has too."
        )

    def joined(name: str) -> Any:
        parts = (getattr(rest, name), getattr(held, name))
        return None if parts[0] is None or parts[1] is None else np.concatenate(parts)

    everything = Interactions(
        joined("users"), joined("items"), n_users, n_items, ratings=joined("ratings"), timestamps=joined("timestamps")
    )
    return everything, Interactions(held.users, held.items, n_users, n_items)
