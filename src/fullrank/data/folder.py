"""Read and write the folder of one data set: interactions, test cases, names, and where they came from."""

import hashlib
import json
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._files import replacing
from fullrank._tables import read_table, require_pyarrow
from fullrank._types import Array
from fullrank.data.frames import Interactions, raw_columns

INTERACTIONS, TEST, PROVENANCE = "interactions.parquet", "test.parquet", "provenance.json"


def read_folder(folder: Path) -> tuple[Interactions, Interactions | None, dict[str, Any]]:
    """Read all interactions, those of the published split where there is one, and what the import wrote down."""
    provenance = read_provenance(folder)
    try:
        data, *test = _read(folder, provenance)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{folder} cannot be read ({str(error).rstrip('.')}); import the data set again.") from None
    return data, test[0] if test else None, provenance


def _read(folder: Path, provenance: dict[str, Any]) -> list[Interactions]:
    tables = [raw_columns(read_table(folder / file)) for file in (INTERACTIONS, TEST) if (folder / file).is_file()]
    sizes: dict[str, Any] = {}
    ids: dict[str, Any] = {}
    for what in ("user", "item"):
        columns = [table[what] for table in tables]
        if any(column.dtype.kind != "i" for column in columns):
            raise TypeError(f"`{what}` must hold zero-based positions (integers)")
        # the provenance knows of users at the end who have no interaction
        size = max(provenance.get(f"{what}s", 0), 1 + max(int(column.max()) for column in columns))
        sizes[f"n_{what}s"], ids[f"{what}_ids"] = size, _names(folder / f"{what}s.parquet", size)
    return [replace(Interactions.encoded(table, **sizes), **ids) for table in tables]


def _names(path: Path, size: int) -> Array | None:
    """Return the names of the positions, where the import kept any."""
    if not path.is_file():
        return None
    names = np.array(read_table(path).get("id", np.zeros(0)).tolist())
    if len(names) != size:
        raise ValueError(f"{path.name} has {len(names):,} names for {size:,} {path.stem}")
    return names


def read_provenance(folder: Path) -> dict[str, Any]:
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
            hint = f"import the data set again, or delete {PROVENANCE}, which has another checksum, to accept it"
            raise ValueError(f"{file} is not the file that was imported: {hint}.")
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
    try:
        folder.mkdir(parents=True, exist_ok=True)
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


def sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
