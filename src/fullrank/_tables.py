"""Tables in files as columns of NumPy arrays: the one reader of text, Parquet and `.npy`, plain or with `.gz`.

pyarrow reads text ten times as fast, but its newest version refuses NumPy 1.26, which other libraries still pin. So text
never depends on it: where it cannot be imported, Python's own reader gives the same columns.
"""

import codecs
import contextlib
import csv
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from fullrank._files import existing
from fullrank._types import Array

ENDINGS = ".csv, .tsv, .txt or .inter (RecBole), each also with .gz, .parquet, or .npy"
#: Rows of a Parquet file that are read at once; longer files come in several batches.
BATCH = 1 << 23
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t", ".inter": "\t"}
_PARQUET = (".parquet", ".pq")
#: Text that unfolds to more bytes than this must not have been compressed to less than a 200th: honest text never is.
_LARGE, _DENSEST = 1 << 30, 200
#: What pyarrow takes for a missing number.
_MISSING = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL", "NaN",
     "n/a", "nan", "null"]
)  # fmt: skip
_INTEGER = re.compile(r"\s*-?\d+\s*")


def require_pyarrow(what: str) -> Any:
    """Import pyarrow, or say what needs it and why it cannot be imported."""
    try:
        import pyarrow
    except ImportError as error:
        reason = f"which cannot be imported ({str(error).rstrip('.')})"
        hint = f"install a version that goes with NumPy {np.__version__}, or use .csv or .npy files, which do without"
        raise ImportError(f"{what} needs pyarrow, {reason}: {hint}.") from None
    return pyarrow


def pyarrow_or_none() -> Any:
    """Import pyarrow; ``None`` where it is not installed, or does not go with the NumPy that is."""
    try:
        return require_pyarrow("")
    except ImportError:
        return None


def stem(path: Path) -> str:
    """Return the name of a file without its endings: `ranks` of `ranks.csv.gz`."""
    return _unfolded(path).stem


def _ending(path: Path) -> str:
    return _unfolded(path).suffix.lower()


def _unfolded(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def is_text_or_parquet(path: Path) -> bool:
    """Tell by its name whether a file is a table of text or Parquet."""
    return _ending(path) in {*_SEPARATORS, *_PARQUET}


class _Bounded(gzip.GzipFile):
    """A compressed file as it unfolds, as long as that stays in proportion to its size."""

    read_so_far = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.read_so_far += len(found)
        limit = max(_LARGE, _DENSEST * os.path.getsize(self.name))
        if self.read_so_far > limit:
            raise ValueError(f"{self.name!r} unfolds to more than {limit:,} bytes: unpack it yourself.")
        return found


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, unfolding it where its name ends in `.gz`."""
    if path.suffix.lower() == ".gz":
        return io.BufferedReader(cast(io.RawIOBase, _Bounded(path)), 1 << 20)
    return path.open("rb")


def read_table(path: str | Path) -> dict[str, Array]:
    """Return the columns of a file by name. No rows, or a name that occurs twice, are an error.

    A bare list of numbers is a column ``rank``; the columns of a two-dimensional `.npy` are named after the file.
    """
    path = existing(Path(path))
    kind = _ending(path)
    if kind == ".npy" and path.suffix.lower() != ".gz":
        found = map_npy(path)
        if found.ndim not in (1, 2):
            raise ValueError(f"{str(path)!r} must hold one rank per case, or cases × models, got shape {found.shape}.")
        if found.dtype.kind not in "iuf":
            raise ValueError(f"{str(path)!r} must hold whole numbers, the ranks, got {found.dtype.name} values.")
        columns = {"rank": np.asarray(found)}
        if found.ndim == 2:
            columns = {f"{path.stem}_{k + 1}": column for k, column in enumerate(np.asarray(found).T)}
    elif kind in _SEPARATORS:
        head = _head(path)
        bare = is_number(head)  # one number per line and no header: a list of ranks
        # what stands between the columns: the usual character, unless the first line has more of another
        separator = max((_SEPARATORS[kind], ",", ";", "\t", "|"), key=head.count)
        columns = _named(path, read_columns(path, separator, ["rank"] if bare else None))
    elif kind in _PARQUET:
        columns = _named(path, read_columns(path))
    else:
        raise ValueError(f"cannot read {str(path)!r}: its name must end in {ENDINGS}.")
    if not columns or not len(next(iter(columns.values()))):
        raise ValueError(f"{str(path)!r} has no rows.")
    return columns


def table_batches(path: str | Path) -> Iterator[dict[str, Array]]:
    """Yield the columns of a file like :func:`read_table`, in several batches of rows where a Parquet file is long."""
    path = existing(Path(path))
    if _ending(path) not in _PARQUET:
        yield read_table(path)
        return
    pa = require_pyarrow(f"reading {str(path)!r}")
    from pyarrow import parquet

    with _readable(path), parquet.ParquetFile(path) as file:
        found = file.metadata
        if found.num_rows <= BATCH:
            yield read_table(path)
            return
        # a batch's worth of row groups at a time: Arrow keeps more, the more groups it is asked for
        starts = np.cumsum([0, *(found.row_group(place).num_rows for place in range(found.num_row_groups - 1))])
        for groups in np.split(np.arange(len(starts)), np.flatnonzero(np.diff(starts // BATCH)) + 1):
            for batch in file.iter_batches(BATCH, row_groups=groups.tolist()):
                yield _named(path, _arrays(pa.Table.from_batches([batch])))


def read_columns(path: Path, separator: str = ",", names: Sequence[str] | None = None) -> list[tuple[str, Array]]:
    """Return the columns of a Parquet file, or of text whose first line names them unless ``names`` does."""
    if _ending(path) in _PARQUET:
        require_pyarrow(f"reading {str(path)!r}")
        from pyarrow import parquet

        with _readable(path):
            found = parquet.read_metadata(path)
            _refuse_large(path, found.num_rows, found.num_columns)
            return _arrays(parquet.read_table(path))
    if pyarrow_or_none() is None:
        return _plain(path, separator, names)
    from pyarrow import csv as text

    read = text.ReadOptions(column_names=None if names is None else list(names))
    folded = path.suffix.lower() == ".gz"
    with _readable(path), open_bytes(path) if folded else contextlib.nullcontext(path) as source:
        return _arrays(text.read_csv(source, read, text.ParseOptions(delimiter=separator)))


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one sentence."""
    arrow = getattr(sys.modules.get("pyarrow"), "ArrowException", OSError)
    try:
        yield
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} is not UTF-8 text: save it as UTF-8.") from None
    except (arrow, csv.Error, OSError, EOFError, zlib.error) as error:
        system = getattr(error, "strerror", None)
        first = system.lower() if system else (str(error).splitlines() or [type(error).__name__])[0][:300].rstrip(".")
        text = "".join(c if c.isprintable() else "?" for c in first)
        raise ValueError(f"cannot read {str(path)!r}: {text}.") from None


def _arrays(table: Any) -> list[tuple[str, Array]]:
    return [(name, column.to_numpy()) for name, column in zip(table.column_names, table.columns, strict=True)]


def _refuse_large(path: Path, rows: int, columns: int) -> None:
    """Refuse a table that this machine cannot hold; one row more of a constant costs a Parquet file nothing."""
    size = 8 * rows * columns
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # unknown on this system
        return
    if size > memory:
        found = f"{rows:,} rows of {columns:,} columns, {size / 1e9:,.0f} GB, and this machine has {memory / 1e9:,.0f}"
        raise ValueError(f"{str(path)!r} has {found}: keep only the columns that are needed, or cut it into files.")


def map_npy(path: str | Path) -> Array:
    """Map an array in NumPy's format: claims beyond the end of the file are refused, and nothing is unpickled."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise
    except Exception:  # a damaged file fails in more ways than NumPy names
        raise ValueError(f"cannot read {str(path)!r}: it holds no array of numbers in NumPy's format.") from None
    if not isinstance(found, np.ndarray):
        raise ValueError(f"cannot read {str(path)!r}: it must hold one array, and holds several.")
    return found


def _head(path: Path) -> str:
    """Return the first line of a text."""
    with _readable(path), open_bytes(path) as file:
        line = file.readline(1 << 16)
    if line[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise ValueError(f"cannot read {str(path)!r}: it is not UTF-8 text but UTF-16; save it as UTF-8.")
    return line.decode("utf-8-sig", errors="replace").strip()


def _named(path: Path, found: list[tuple[str, Array]]) -> dict[str, Array]:
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{str(path)!r} has two columns named {twice!r}: rename one.")
    if names and all(map(is_number, names)):
        raise ValueError(f"{str(path)!r} has no header: name the columns in its first line, such as 'user_id,rank'.")
    return dict(found)


def place_of(path: Path, row: int) -> str:
    """Say where a row stands: on a line of a text file, below its header if there is one; else which row it is."""
    if _ending(path) not in _SEPARATORS:
        return f"in row {row + 1}"
    return f"on line {row + 1 if is_number(_head(path)) else row + 2}"


def is_number(text: str) -> bool:
    """Tell whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain(path: Path, separator: str, names: Sequence[str] | None) -> list[tuple[str, Array]]:
    """Read text by Python's own reader, its columns typed as pyarrow would."""
    with _readable(path), io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
        lines = [line for line in csv.reader(file, delimiter=separator) if line]
    if not lines:
        raise ValueError(f"cannot read {str(path)!r}: Empty CSV file.")
    header = list(lines.pop(0) if names is None else names)
    for row, line in enumerate(lines, 1 if names is not None else 2):
        if len(line) != len(header):
            found = f"Expected {len(header)} columns, got {len(line)} in row {row}"
            raise ValueError(f"cannot read {str(path)!r}: CSV parse error: {found}.")
    columns = zip(*lines, strict=True) if lines else ((),) * len(header)
    return [(name, _typed(column)) for name, column in zip(header, columns, strict=True)]


def _typed(column: Sequence[str]) -> Array:
    """Return whole numbers, numbers (missing ones NaN), truth values, or text, whichever fits every entry."""
    there = [each for each in column if each not in _MISSING]
    if all(map(_INTEGER.fullmatch, there)):
        with contextlib.suppress(OverflowError):
            if len(there) == len(column):
                return np.array([int(each) for each in column], dtype=np.int64)
            return np.array([np.nan if each in _MISSING else int(each) for each in column], dtype=np.float64)
    if all(each in ("true", "false", "True", "False", "TRUE", "FALSE") for each in there) and len(there) == len(column):
        return np.array([each.lower() == "true" for each in column])
    with contextlib.suppress(ValueError):
        return np.array([np.nan if each in _MISSING else float(each) for each in column], dtype=np.float64)
    return np.array(column, dtype=object)
