"""Read and write the folder of one data set: interactions, test cases, names, and where they came from."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._checks import first_where
from fullrank._files import replacing
from fullrank._tables import require_pyarrow
from fullrank.data.frames import COLUMNS, Interactions

INTERACTIONS, TEST, PROVENANCE = "interactions.parquet", "test.parquet", "provenance.json"


def read_folder(folder: Path) -> tuple[Interactions, Interactions | None, dict[str, Any]]:
    """Read all interactions, those of the published split where there is one, and what the import wrote down."""
    provenance = _provenance(folder)
    columns = _read_columns(folder / INTERACTIONS)
    test = _read_columns(folder / TEST) if (folder / TEST).is_file() else None
    both = (columns,) if test is None else (columns, test)
    largest = {what: max(int(table[what].max()) for table in both) for what in ("user", "item")}
    # the provenance knows of users at the end who have no interaction
    n_users, n_items = (max(provenance.get(f"{what}s", 0), 1 + most) for what, most in largest.items())
    ids = {"user_ids": _names(folder, "users", n_users), "item_ids": _names(folder, "items", n_items)}
    extra = {"ratings": columns.get("rating"), "timestamps": columns.get("timestamp")}
    data = Interactions(columns["user"], columns["item"], n_users, n_items, **extra, **ids)
    held = None if test is None else Interactions(test["user"], test["item"], n_users, n_items, **ids)
    return data, held, provenance


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """Give pyarrow's module for Parquet; a file that it cannot read is an error that says to import it again."""
    pa = require_pyarrow("a stored data set")
    from pyarrow import parquet

    try:
        yield parquet
    except (pa.ArrowException, OSError, AttributeError, ValueError) as error:  # the latter two: of odd metadata
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{path} cannot be read as parquet ({reason}); import the data set again.") from None


def _read_columns(path: Path) -> dict[str, Any]:
    """Read the columns of interactions, checked to be positions, with rating and time where there are any."""
    with _parquet(path) as parquet:
        table = parquet.read_table(path)
    columns = {name: table[name] for name in COLUMNS if name in table.column_names}
    if not table.num_rows:
        raise ValueError(f"{path} is empty; delete it and import the data set again.")
    for what in ("user", "item"):
        if what not in columns:
            raise ValueError(f"{path} has no column `{what}`; its columns are {', '.join(table.column_names)}.")
    for what, column in columns.items():
        if column.null_count:
            raise ValueError(f"{path} has {column.null_count:,} missing values in `{what}`.")
        columns[what] = values = column.to_numpy()
        if what in ("user", "item"):
            if values.dtype.kind not in "iu":
                raise ValueError(f"`{what}` in {path} must hold zero-based positions (integers), got {column.type}.")
            if (row := first_where(values < 0)) is not None:
                raise ValueError(f"{path} has `{what}` {values[row]} in row {row}; positions start at 0.")
            columns[what] = values.astype(np.int64)
    return columns


def counts_in(folder: Path) -> tuple[dict[str, int], int | None]:
    """Count from the footer of the files alone, without reading the rows."""
    with _parquet(folder / INTERACTIONS) as parquet:
        meta = parquet.read_metadata(folder / INTERACTIONS)
        test = parquet.read_metadata(folder / TEST).num_rows if (folder / TEST).is_file() else None
        counts, groups = {"interactions": meta.num_rows}, [meta.row_group(k) for k in range(meta.num_row_groups)]
        for what in ("user", "item"):
            column = meta.schema.names.index(what)
            counts[f"{what}s"] = 1 + max((int(group.column(column).statistics.max) for group in groups), default=-1)
    return counts, test


def _provenance(folder: Path) -> dict[str, Any]:
    """Return what the import wrote down; a file that changed since is an error; no provenance, no check."""
    path = folder / PROVENANCE
    if not path.is_file():
        return {}
    try:
        provenance: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        files = {str(name): (facts["bytes"], facts["sha256"]) for name, facts in provenance["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} cannot be read; delete it, or import the data set again.") from None
    for name, (size, digest) in files.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != size or sha256(file) != digest:
            raise ValueError(
                f"{file} is not the file that was imported ({PROVENANCE} has another checksum): import the data set "
                f"again, or delete {PROVENANCE} to accept the file."
            )
    return provenance


def write_folder(
    folder: Path, name: str, data: Interactions, test: Interactions | None, facts: dict[str, Any]
) -> dict[str, Any]:
    """Write a data set atomically; returns its provenance, `facts` included."""
    pa = require_pyarrow("a stored data set")
    from pyarrow import parquet

    columns: dict[str, Any] = {"user": data.users.astype(np.int32), "item": data.items.astype(np.int32)}
    if data.ratings is not None:
        columns["rating"] = data.ratings.astype(np.float32)
    if data.timestamps is not None:
        columns["timestamp"] = data.timestamps
    tables = {INTERACTIONS: columns}
    if test is not None:
        tables[TEST] = {"user": test.users.astype(np.int32), "item": test.items.astype(np.int32)}
    for what, ids in (("users", data.user_ids), ("items", data.item_ids)):
        if ids is not None:
            tables[f"{what}.parquet"] = {"id": ids}
    make_folder(folder)
    try:
        # what was opened last takes its place first: the interactions, whose presence says that all is there, come last
        with ExitStack() as stack:
            files = {}
            for file, table in tables.items():
                out = stack.enter_context(replacing(folder / file))
                parquet.write_table(pa.table(table), out, compression="zstd")
                out.flush()
                files[file] = {"bytes": out.tell(), "sha256": sha256(Path(out.name))}
            provenance = {
                "name": name,
                "imported": datetime.now(UTC).isoformat(timespec="seconds"),
                "interactions": len(data),
                "users": data.n_users,
                "items": data.n_items,
                "test": None if test is None else len(test),
                **facts,
                "files": files,
            }
            out = stack.enter_context(replacing(folder / PROVENANCE))
            out.write(json.dumps(provenance, indent=2).encode() + b"\n")
            for stale in {TEST, "users.parquet", "items.parquet"} - set(tables):
                (folder / stale).unlink(missing_ok=True)
    except OSError as error:
        raise OSError(f"{folder} cannot be written ({error.strerror or error}); set another FULLRANK_DATA.") from None
    return provenance


def make_folder(folder: Path) -> None:
    """Make a folder, or say how to choose another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{folder} cannot be made ({error.strerror or error}); set FULLRANK_DATA to another.") from None


def _names(folder: Path, what: str, size: int) -> Any:
    """Return the names of the positions, where the import kept any."""
    path = folder / f"{what}.parquet"
    if not path.is_file():
        return None
    with _parquet(path) as parquet:
        table = parquet.read_table(path)
    names = np.array(table["id"].to_pylist() if "id" in table.column_names else [])
    if len(names) != size:
        raise ValueError(f"{path} has {len(names):,} names for {size:,} {what}; import the data set again.")
    return names


def sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
