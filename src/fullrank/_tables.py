"""Columns of a file as NumPy arrays: text with or without pyarrow, Parquet with it.

pyarrow reads text ten times as fast, but its newest version refuses NumPy 1.26, which other libraries still pin. So text
never depends on it: where it cannot be imported, Python's own reader gives the same columns.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._types import Array

__all__ = ["pyarrow_or_none", "read_columns", "require_pyarrow"]


#: What pyarrow takes for a missing number.
_MISSING = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL", "NaN",
     "n/a", "nan", "null"]
)  # fmt: skip
_INTEGER = re.compile(r"\s*-?\d+\s*")
_PARQUET = (".parquet", ".pq")


def pyarrow_or_none() -> Any:
    """Import pyarrow; ``None`` where it is not installed, or does not go with the NumPy that is."""
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def require_pyarrow(what: str) -> Any:
    """Import pyarrow, or say what needs it and why it cannot be imported."""
    try:
        import pyarrow
    except ImportError as error:
        reason = str(error).rstrip(".")
        raise ImportError(
            f"{what} needs pyarrow, which cannot be imported ({reason}): install a version that goes with NumPy "
            f"{np.__version__}, or use .csv or .npy files, which do without."
        ) from None
    return pyarrow


def read_columns(path: Path, separator: str = ",", names: Sequence[str] | None = None) -> list[tuple[str, Array]]:
    """The columns of a Parquet file, or of text; the first line names them unless ``names`` does. Names may repeat."""
    if path.suffix.lower() in _PARQUET:
        pa = require_pyarrow(f"reading {str(path)!r}")
        from pyarrow import parquet

        try:
            table = parquet.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from None
    else:
        pa = pyarrow_or_none()
        if pa is None:
            return _plain(path, separator, names)
        from pyarrow import csv as text

        try:
            table = text.read_csv(
                path,
                read_options=text.ReadOptions(column_names=None if names is None else list(names)),
                parse_options=text.ParseOptions(delimiter=separator),
            )
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from None
    try:
        return [(name, table.column(k).to_numpy()) for k, name in enumerate(table.column_names)]
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} is not UTF-8 text: save it as such.") from None


def _plain(path: Path, separator: str, names: Sequence[str] | None) -> list[tuple[str, Array]]:
    """Text read by Python's own reader, its columns typed as pyarrow would."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [line for line in csv.reader(file, delimiter=separator) if line]
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} is not UTF-8 text: save it as such.") from None
    except (csv.Error, OSError) as error:
        raise _unreadable(path, error) from None
    if not lines:
        raise ValueError(f"cannot read {str(path)!r}: Empty CSV file.")
    header = list(lines.pop(0) if names is None else names)
    for row, line in enumerate(lines, 1 if names is not None else 2):
        if len(line) != len(header):
            raise ValueError(
                f"cannot read {str(path)!r}: CSV parse error: Expected {len(header)} columns, got {len(line)} in row {row}."
            )
    columns = zip(*lines, strict=True) if lines else ((),) * len(header)
    return [(name, _typed(column)) for name, column in zip(header, columns, strict=True)]


def _typed(column: Sequence[str]) -> Array:
    """Whole numbers, numbers (missing ones NaN), truth values, or text, whichever fits every entry."""
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


def _unreadable(path: Path, error: Exception) -> ValueError:
    first = (str(error).splitlines() or [type(error).__name__])[0][:300].rstrip(".")
    return ValueError(f"cannot read {str(path)!r}: {''.join(c if c.isprintable() else '?' for c in first)}.")
