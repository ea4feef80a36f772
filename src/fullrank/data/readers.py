"""Read the official files as their authors publish them: one reader per format, fast on millions of lines.

A file is read in blocks of whole lines, so memory stays bounded by what is kept. A block that pyarrow cannot parse is read
line by line, only then, so that the error can name the file and the line.
"""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from fullrank._checks import first_where
from fullrank._progress import bar
from fullrank._tables import open_bytes, pyarrow_or_none
from fullrank._types import Array, IntArray
from fullrank.data.frames import COLUMNS, Interactions, among, same_sizes

Source: TypeAlias = str | os.PathLike[str] | BinaryIO

BLOCK = 16 << 20  # bytes: large enough for pyarrow to run at full speed, small enough to forget
LARGEST_POSITION = 2**31 - 2
_LARGEST = 2**63 - 1


def read_ratings_dat(source: Source, *, progress: bool = False) -> Interactions:
    """Read MovieLens 1M `ratings.dat`: `UserID::MovieID::Rating::Timestamp`.

    Films are numbered by first appearance, as in the NCF release; users in sorted order, which is theirs too.
    """
    return Interactions.encoded(_read_numbers(source, "::", progress), order="first")


def read_ratings_csv(source: Source, *, progress: bool = False) -> Interactions:
    """Read MovieLens 20M `ratings.csv`: a header, then `userId,movieId,rating,timestamp`; ids in sorted order."""
    header = "userId,movieId,rating,timestamp"
    return Interactions.encoded(_read_numbers(source, ",", progress, header))


def read_u_data(source: Source, *, progress: bool = False) -> Interactions:
    """Read MovieLens 100K `u.data`: user, item, rating, timestamp separated by tabs; ids in sorted order."""
    return Interactions.encoded(_read_numbers(source, "\t", progress))


def read_rating(source: Source, *, progress: bool = False) -> Interactions:
    """Read a `.rating` file of NCF (`ml-1m.train.rating`) or eALS (`yelp.rating`): tabs, zero-based positions kept.

    Columns are user, item, rating and time; the time may be absent.
    """
    return _positioned(_read_numbers(source, "\t", progress, positions=True), source_name(source))


@dataclass(frozen=True, eq=False)
class Negatives:
    """Lists of negatives drawn by someone else: case c has `negatives[offsets[c]:offsets[c + 1]]`, repeats included.

    NCF drew 99 per case *with* replacement, so the number of distinct ones is often smaller. `targets` is None where a
    file has lists of users and leaves it to others to say the targets.
    """

    users: Array
    targets: Array | None
    negatives: Array
    offsets: IntArray

    def __post_init__(self) -> None:
        users, offsets = len(self.users), np.asarray(self.offsets)
        fits = len(offsets) == users + 1 and offsets[0] == 0 and offsets[-1] == len(self.negatives)
        if not fits or (np.diff(offsets) < 0).any() or (self.targets is not None and len(self.targets) != users):
            rise = f"rise from 0 to the {len(self.negatives)} negatives in {users} steps, one per user"
            raise ValueError(f"`offsets` must {rise}, and `targets`, if given, must be one per user.")


def read_negatives(source: Source, *, progress: bool = False) -> Negatives:
    """Read NCF's `.test.negative`: `(user,target)`, then the negatives, separated by tabs; zero-based positions."""
    form = re.compile(rb"\((\d{1,10}),(\d{1,10})\)((?:\t\d{1,10})*)\s*")
    heads: list[bytes] = []
    tails: list[bytes] = []
    for number, line in lines_of(source, progress):
        found = form.fullmatch(line)
        if found is None:
            raise unreadable(source, number, line, "(user,target) and negatives separated by tabs")
        heads += found.group(1, 2)
        tails.append(found[3])
    if not tails:
        raise no_interactions(source)
    users, targets = np.fromstring(b" ".join(heads), np.int64, sep=" ").reshape(-1, 2).T.copy()
    offsets = np.cumsum([0, *(tail.count(b"\t") for tail in tails)])
    return Negatives(users, targets, np.fromstring(b"".join(tails), np.int64, sep=" "), offsets)


def read_users_dat(source: Source, *, progress: bool = False) -> Interactions:
    """Read citeulike-a `users.dat`: line u lists how many items user u has, then the items; zero-based positions.

    A user with nothing (`0`) keeps the position of the line.
    """
    rows = _integer_lines(source, progress, "a count and that many items")
    if (row := first_where([len(values) != values[0] + 1 for values in rows])) is not None:
        found = f"it promises {rows[row][0]} items and holds {len(rows[row]) - 1}"
        raise ValueError(f"`{source_name(source)}` line {row + 1}: {found}; is the file cut short?")
    return _listed(rows, np.arange(len(rows)), source)


def read_adjacency(source: Source, *, progress: bool = False) -> Interactions:
    """Read `train.txt` or `test.txt` of NGCF and LightGCN: a user, then the user's items; zero-based positions.

    A user without items is allowed (test files have them) and keeps the position.
    """
    rows = _integer_lines(source, progress, "a user and the user's items separated by spaces")
    return _listed(rows, np.array([values[0] for values in rows], dtype=np.int64), source)


def read_book_ratings(source: Source, *, progress: bool = False) -> Interactions:
    """Read Book-Crossing `BX-Book-Ratings.csv`: Latin-1, `"User-ID";"ISBN";"Book-Rating"`, header first.

    A rating of 0 is an implicit one and is kept. The ISBN is whatever stands between the first and the last semicolon
    (the file has quotes and backslashes inside), exactly as written. Users and ISBNs are numbered in sorted order.
    """
    form = re.compile(r'"?(\d{1,18})"?;"?(.*?)"?;"?(\d{1,2})"?\s*')
    rows: list[tuple[int, str, int]] = []
    for number, line in lines_of(source, progress, newline_only=True):
        found = form.fullmatch(line.decode("latin-1"))
        if found is None and number == 1 and b"user" in line.lower():
            continue
        if found is None:
            raise unreadable(source, number, line, '"user";"ISBN";"rating"')
        if not found[2].strip():
            raise unreadable(source, number, line, "an ISBN between the semicolons")
        rows.append((int(found[1]), found[2], int(found[3])))
    if not rows:
        raise no_interactions(source)
    kinds = {"user": np.int64, "item": object, "rating": np.float32}
    columns = zip(kinds.items(), zip(*rows, strict=True), strict=True)
    return Interactions.encoded({name: np.array(values, dtype=kind) for (name, kind), values in columns})


def source_name(source: Source) -> str:
    """Return what a file is called in messages."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return str(getattr(source, "name", "file"))


def _blocks(source: Source, progress: bool) -> Iterator[tuple[bytes, int]]:
    """Yield (bytes of whole lines, number of their first line), without a byte-order mark."""
    name, size, line = source_name(source), None, 1
    with contextlib.ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            try:
                file = stack.enter_context(open_bytes(Path(source)))
            except OSError as error:
                raise type(error)(f"`{name}` cannot be read: {(error.strerror or str(error)).lower()}.") from None
            size = Path(source).stat().st_size
        else:
            file = source
        shown = stack.enter_context(bar(progress, size, Path(name).name, unit="B", unit_scale=True))
        while block := file.read(BLOCK):
            block += file.readline()
            shown.update(len(block))
            if line == 1:
                if block[:2] in (b"\xff\xfe", b"\xfe\xff"):
                    raise ValueError(f"`{name}` line 1: the file is UTF-16; save it as UTF-8 or plain ASCII.")
                block = block.removeprefix(b"\xef\xbb\xbf")
            yield block, line
            line += block.count(b"\n")


def lines_of(source: Source, progress: bool, *, newline_only: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes, end included, of every line that is not blank."""
    for block, first in _blocks(source, progress):
        for number, line in enumerate(io.BytesIO(block) if newline_only else block.splitlines(keepends=True), first):
            if line.strip():
                yield number, line


def unreadable(source: Source, number: int, line: bytes, expected: str) -> ValueError:
    """Return the error about a line that is not what its format has there."""
    shown = repr(line.strip()[:60].decode("utf-8", "backslashreplace")) if line.strip() else "an empty line"
    return ValueError(f"`{source_name(source)}` line {number}: expected {expected}, found {shown}.")


def no_interactions(source: Source) -> ValueError:
    """Return the error about a file without a single row."""
    return ValueError(f"`{source_name(source)}` line 1: the file holds no interactions.")


def _read_numbers(
    source: Source, separator: str, progress: bool, header: str = "", *, positions: bool = False
) -> dict[str, Any]:
    """Read the columns of `COLUMNS`; where users and items are `positions`, a first line without the time leaves it out."""
    needed, largest_id = (3, LARGEST_POSITION) if positions else (4, _LARGEST)
    kept: dict[str, list[Any]] = {}
    numeric = b"0123456789.+-eE \r\n" + separator.encode()
    for block, first_line in _blocks(source, progress):
        if header and first_line == 1:
            line, _, block = block.partition(b"\n")
            if line.rstrip().decode("latin-1") != header:
                raise unreadable(source, 1, line, f"the header {header}")
            first_line = 2
        if not block.strip():
            continue
        if not kept:
            width = 1 + block.lstrip().partition(b"\n")[0].count(separator.encode())
            kept = {name: [] for name in (COLUMNS[:width] if width >= needed else COLUMNS)}
        # parsers want one character: a tab cannot occur beside "::", the check of characters sees to that
        fits = not block.translate(None, numeric)
        arrays = _parse(block.replace(b"::", b"\t"), list(kept), separator[-1].replace(":", "\t")) if fits else None
        if arrays is None or any(arrays[name].min() < 0 or arrays[name].max() > largest_id for name in COLUMNS[:2]):
            arrays = _parse_lines(source, block, first_line, list(kept), separator, largest_id)
        for name, parts in kept.items():
            parts.append(np.array(arrays[name]))  # a copy, so that the block's memory can go
    if not kept:
        raise no_interactions(source)
    return {name: np.concatenate(parts) for name, parts in kept.items()}


def _parse(text: bytes, columns: list[str], separator: str) -> dict[str, Any] | None:
    """Parse a block of lines by pyarrow; None where it cannot, or cannot be imported."""
    if (pa := pyarrow_or_none()) is None:
        return None
    from pyarrow import csv

    kinds = {name: pa.float32() if name == "rating" else pa.int64() for name in columns}
    read = csv.ReadOptions(column_names=columns, block_size=BLOCK)
    parse = csv.ParseOptions(delimiter=separator, quote_char=False)
    try:
        table = csv.read_csv(pa.BufferReader(text), read, parse, csv.ConvertOptions(column_types=kinds, null_values=[]))
    except ValueError:  # pyarrow's own errors are such, too
        return None
    return {name: table[name].to_numpy() for name in columns}


def _parse_lines(
    source: Source, block: bytes, first_line: int, columns: list[str], separator: str, largest_id: int
) -> dict[str, Any]:
    """Parse a block line by line, by the same rules; the first line that does not fit is an error."""
    forms = {"rating": rb"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", "timestamp": rb"-?\d{1,19}"}
    cells = (rb" *(" + forms.get(name, rb"\d{1,19}") + rb") *" for name in columns)
    form = re.compile(re.escape(separator.encode()).join(cells) + rb"\r?")
    limits = {"user": largest_id, "item": largest_id, "timestamp": _LARGEST}
    rows = []
    for number, line in enumerate(block.splitlines(), first_line):
        found = form.fullmatch(line)
        values = () if found is None else zip(columns, found.groups(), strict=True)
        row = [float(text) if name == "rating" else int(text) for name, text in values]
        if line.strip() and (not row or any(abs(x) > limits.get(c, np.inf) for c, x in zip(columns, row, strict=True))):
            between = "tabs" if separator == "\t" else repr(separator)
            expected = f"{', '.join(columns[:-1])} and {columns[-1]} separated by {between}"
            raise unreadable(source, number, line, expected)
        rows += [row] if row else []
    kinds = {name: np.float32 if name == "rating" else np.int64 for name in columns}
    return {name: np.array(values, kinds[name]) for name, values in zip(columns, zip(*rows, strict=True), strict=True)}


def _positioned(table: dict[str, Any], name: str, n_users: int = 0) -> Interactions:
    """Take users and items as positions; one far beyond what an honest file has would cost a huge matrix later."""
    largest = {what: int(table[what].max(initial=-1)) for what in ("user", "item")}
    largest["user"] = max(largest["user"], n_users - 1)
    rows = len(table["user"])
    for what, position in largest.items():
        if position > 10 * rows + 1000:
            found = f"{what} {position} among {rows:,} interactions"
            raise ValueError(f"`{name}` has {found}: this format counts users and items 0, 1, 2, ….")
    return Interactions.encoded(table, largest["user"] + 1, largest["item"] + 1)


def _integer_lines(source: Source, progress: bool, expected: str) -> list[IntArray]:
    """Read the integers of every line; empty lines at the end are dropped, one in the middle is an error."""
    form = re.compile(rb"[ \t]*\d{1,10}(?:[ \t]+\d{1,10})*\s*")
    rows: list[IntArray] = []
    for number, line in lines_of(source, progress):
        if number > len(rows) + 1:
            raise unreadable(source, len(rows) + 1, b"", expected)
        rows.append(np.fromstring(line, np.int64, sep=" ") if form.fullmatch(line) else np.zeros(0, dtype=np.int64))
        if not 0 <= rows[-1].max(initial=-1) <= LARGEST_POSITION:
            raise unreadable(source, number, line, expected)
    return rows


def _listed(rows: list[IntArray], users: IntArray, source: Source) -> Interactions:
    """Take the items behind the first number of each row as those of its user."""
    name, sizes = source_name(source), [len(values) - 1 for values in rows]
    if not sum(sizes):
        raise no_interactions(source)
    table = {"user": np.repeat(users, sizes), "item": np.concatenate([each[1:] for each in rows])}
    return _positioned(table, name, int(users.max()) + 1)


def read_both(
    read: Callable[..., Interactions], train: Source, test: Source, *, progress: bool = False
) -> tuple[Interactions, Interactions]:
    """Read a published split, NCF's `.rating` files or LightGCN's, by the reader of either half.

    Returns (all interactions, held-out ones), which have the same numbers of users and items. A held-out pair that is in
    the train file too is an error.
    """
    rest, held = same_sizes(read(train, progress=progress), read(test, progress=progress))
    if (row := first_where(among(held.keys, np.sort(rest.keys)))) is not None:
        pair = f"item {held.items[row]} of user {held.users[row]}"
        raise ValueError(f"`{source_name(test)}` holds out {pair}, which `{source_name(train)}` has too.")
    columns: dict[str, Any] = {}
    for name in ("users", "items", "ratings", "timestamps"):
        parts = getattr(rest, name), getattr(held, name)
        columns[name] = None if parts[0] is None or parts[1] is None else np.concatenate(parts)
    return replace(rest, **columns), replace(held, ratings=None, timestamps=None)
