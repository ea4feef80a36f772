"""Factors that stay in files: memory-mapped `.npy`, or Parquet, Arrow and Feather datasets on any file system.

`.npy` files are mapped. A dataset is streamed once, batch by batch, into a `.npy` of the cache, which is mapped from then
on: the system keeps in memory what is used and no more, and nothing is ever wholly loaded. Where only a range of items is
needed (item shards), only that range is read and written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._checks import first_where, require
from fullrank._columns import listed
from fullrank._files import replacing
from fullrank._tables import map_npy, require_pyarrow
from fullrank._types import Array
from fullrank.models.scorer import Factors, bias_of, digest_of, float_type

#: Rows read at a time.
BATCH = 1 << 15
_IDS = ("position", "index", "id", "user_id", "item_id", "user", "item")


def read_factors(
    users: Any,
    items: Any,
    bias: Any = None,
    *,
    cache: str | os.PathLike[str] | None = None,
    filesystem: Any = None,
    vectors: str | None = None,
    ids: str | None = None,
) -> StoredFactors:
    """Make a factor model whose tables stay in files; a model like any other for ``observe`` and ``evaluate``.

    ``users`` and ``items`` are each a `.npy` file, an array, or a dataset of one row per user (item): a path, a folder, a
    list of shards, a URI ("s3://…", "gs://…", "hdfs://…"), or an open ``pyarrow.dataset``, with ``filesystem`` any of
    pyarrow's or fsspec's. The row's vector is a column of lists (``vectors``; found if there is only one), or, without
    one, all columns of floats side by side. Its position is the whole number in the column ``ids`` (found under its usual
    names) or, without one, its place in the files, taken in the order of their names.

    ``cache`` is the folder of the `.npy` copies (else the platform's cache): made once, recognised by names, sizes and
    times of the files, safe to delete. Workers on other machines make their own there. ``bias`` is one number per item.
    """
    options = (cache, filesystem, vectors, ids)
    return StoredFactors(_table(users, "users", *options), _table(items, "items", *options), bias)


class StoredFactors(Factors):
    """`Factors` whose tables are opened when they are first needed, wherever that is. Made by :func:`read_factors`.

    ``only`` is the range of items that will be asked for, from its first number to the second − 1; empty: all.
    """

    _tables: tuple[StoredTable, StoredTable]
    _only: Sequence[int]

    def __init__(self, users: StoredTable, items: StoredTable, bias: Any, only: Sequence[int] = ()) -> None:
        if users.width != items.width:
            widths = f"user factors of width {users.width} and item factors of width {items.width}"
            raise ValueError(f"model `factors` has {widths}; they must agree.")
        kind = np.result_type(users.dtype, items.dtype)
        self.__dict__.update(
            _tables=tuple(replace(each, dtype=kind.str) for each in (users, items)), _only=only,
            bias=bias_of(bias, items.rows, kind, "factors"), n_users=users.rows, n_items=items.rows,
        )  # fmt: skip

    @cached_property
    def users(self) -> Array:
        """Map the users' table."""
        return self._tables[0].open()

    @cached_property
    def items(self) -> Array:
        """Map the items' table."""
        return self._tables[1].open(*self._only)

    def digest(self) -> str:
        """Return a fingerprint of the files."""
        return _mark("".join([*(table.fingerprint for table in self._tables), digest_of(self.bias)]))

    def for_items(self, low: int, high: int) -> StoredFactors:
        """Return the same model, of whose items only those from ``low`` to ``high`` − 1 will be asked."""
        return StoredFactors(*self._tables, self.bias, (low, high))

    def __reduce__(self) -> Any:
        return StoredFactors, (*self._tables, self.bias, self._only)


@dataclass(frozen=True)
class StoredTable:
    """Says what a table of vectors in files is, and how to open it; small, and the same on every machine."""

    source: Any  # a .npy path, an array, or (paths, format, file system)
    rows: int
    width: int
    dtype: str
    fingerprint: str
    cache: str | None = None
    vectors: tuple[str, ...] = ()
    ids: str | None = None

    def open(self, low: int = 0, high: int | None = None) -> Array:
        """Map all rows, in their places; those outside low..high−1 are not filled."""
        if isinstance(self.source, np.ndarray):
            return np.ascontiguousarray(self.source, dtype=self.dtype)
        if isinstance(self.source, str) and map_npy(self.source).dtype == np.dtype(self.dtype):
            return map_npy(self.source)
        import platformdirs

        high = self.rows if high is None else high
        folder = platformdirs.user_cache_path("fullrank") / "factors" if self.cache is None else Path(self.cache)
        path = folder / f"{_mark(self.fingerprint, self.dtype, low, high)[:32]}.npy"
        if not path.exists():
            self._convert(path, low, high)
        return map_npy(str(path))

    def _convert(self, path: Path, low: int, high: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = np.zeros(high - low, dtype=bool)
        with replacing(path) as file:
            # what is not written takes no room
            table = np.lib.format.open_memmap(file.name, "w+", np.dtype(self.dtype), (self.rows, self.width))
            for places, values in self._batches(low, high):
                kept = (low <= places) & (places < high)
                places = places[kept]
                if len(np.unique(places)) < len(places) or written[places - low].any():
                    raise ValueError(f"column `{self.ids}` of the {self.source[0][0]!r} files holds a position twice.")
                written[places - low] = True
                table[places] = values[kept]
            if (missing := first_where(~written)) is not None:
                everywhere = f"the files must have a vector for every position below {self.rows:,}"
                raise ValueError(f"{everywhere}, and have none for {low + missing}.")
            table.flush()

    def _batches(self, low: int, high: int) -> Iterator[tuple[Any, Array]]:
        """Yield (positions, vectors), batch by batch; without ids, files that hold nothing of the range are skipped."""
        if isinstance(self.source, str):
            mapped = map_npy(self.source)
            for first in range(low, high, BATCH):
                yield np.arange(first, min(first + BATCH, high)), mapped[first : min(first + BATCH, high)]
            return
        import pyarrow.dataset as ds

        columns, place = [*self.vectors, *([self.ids] if self.ids else [])], 0
        paths, kind, system = self.source
        for fragment in ds.dataset(list(paths), format=kind, filesystem=system).get_fragments():
            if self.ids is None:
                n = fragment.count_rows()
                if place + n <= low or place >= high:
                    place += n
                    continue
            wanted = None if self.ids is None else (ds.field(self.ids) >= low) & (ds.field(self.ids) < high)
            for batch in fragment.to_batches(columns=columns, filter=wanted, batch_size=BATCH, batch_readahead=2):
                places: Any = np.arange(place, place + batch.num_rows)
                place += batch.num_rows
                if self.ids is not None:
                    places = batch.column(self.ids).to_numpy(zero_copy_only=False).astype(np.int64)
                yield places, self._vectors([batch.column(name) for name in self.vectors])

    def _vectors(self, columns: Sequence[Any]) -> Array:
        """Return the vectors of a batch, one row each, from a column of lists or a column for each factor."""
        column = columns[0]
        if not hasattr(column.type, "value_field"):
            return np.stack([each.to_numpy(zero_copy_only=False) for each in columns], axis=1)
        flat = column.flatten()  # of its own part only, unlike `.values`
        if len(flat) != len(column) * self.width or column.null_count or flat.null_count:
            raise ValueError(f"column `{self.vectors[0]}` holds a vector that is missing or not {self.width} long.")
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), self.width)


def _table(source: Any, what: str, cache: Any, filesystem: Any, vectors: str | None, ids: str | None) -> StoredTable:
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    cache = None if cache is None else os.path.abspath(os.fspath(cache))
    if isinstance(source, str) and source.endswith(".npy"):
        source = os.path.abspath(source)
        array, stat = map_npy(source), os.stat(source)
        mark, where = _mark(source, stat.st_size, stat.st_mtime_ns), source
    elif isinstance(source, np.ndarray):
        array, mark, where = source, digest_of(source), "the array"
    else:
        return _of_dataset(source, what, cache, filesystem, vectors, ids)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ValueError(f"`{what}` in {where} must be a matrix of numbers, got {array.dtype} of shape {array.shape}.")
    return StoredTable(source, len(array), array.shape[1], float_type(array.dtype).str, mark, cache)


def _mark(*parts: Any) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()


def _of_dataset(
    source: Any, what: str, cache: str | None, filesystem: Any, vectors: str | None, ids: str | None
) -> StoredTable:
    pa = require_pyarrow(f"reading {what} from a dataset")
    import pyarrow.dataset as ds

    found = source
    if not isinstance(source, ds.FileSystemDataset):
        try:
            found = _discover(source, filesystem)
        except (pa.ArrowInvalid, OSError, TypeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(f"`{what}` {source!r} cannot be read as a dataset of vectors: {first}") from None
    paths, kind, system = sorted(found.files), found.format.default_extname, found.filesystem
    if not paths:
        raise ValueError(f"`{what}` {source!r} holds no files.")
    found = ds.dataset(paths, format=kind, filesystem=system)
    lists = [field.name for field in found.schema if hasattr(field.type, "value_field")]
    whole = [field.name for field in found.schema if pa.types.is_integer(field.type)]
    for named, known, values in ((vectors, lists, "lists"), (ids, whole, "whole numbers")):
        if named is not None and named not in known:
            raise ValueError(f"`{what}` has no column of {values} {named!r}; it has {listed(found.schema.names)}.")
    floats = [field.name for field in found.schema if pa.types.is_floating(field.type)]
    columns = tuple([vectors] if vectors else lists or floats)
    if not columns or (lists and len(columns) > 1):
        allowed = "one column of lists, or columns of floats alone, or `vectors` must name one"
        raise ValueError(f"`{what}` must have {allowed}; it has {listed(found.schema.names)}.")
    kind_of = found.schema.field(columns[0]).type
    width, dtype = len(columns), kind_of
    if lists:
        width = getattr(kind_of, "list_size", None) or len(found.head(1, columns=[columns[0]])[columns[0]][0])
        dtype = kind_of.value_type
    ids = ids or next((each for each in _IDS if each in whole), None)
    marks = [f"{each.path} {each.size} {each.mtime_ns}" for each in system.get_file_info(paths)]
    mark = _mark("\n".join([*marks, repr(columns), repr(ids)]))
    files, numbers = (tuple(paths), kind, system), float_type(dtype.to_pandas_dtype()).str
    return StoredTable(files, found.count_rows(), width, numbers, mark, cache, columns, ids)


def _discover(source: Any, filesystem: Any) -> Any:
    """Open the files at a path or URI, or in a list, as a dataset of the format that their names tell; a folder, of any."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.fs as fs

    if isinstance(source, str) and "://" in source and filesystem is None:
        try:
            filesystem, source = fs.FileSystem.from_uri(source)
        except pa.ArrowInvalid:
            fsspec = require("fsspec", f"reading {source!r}", "fsspec, and its driver")
            filesystem, source = fsspec.core.url_to_fs(source)
    given = [os.fspath(each) for each in source] if isinstance(source, list | tuple) else source
    name = str(given[0] if isinstance(given, list) else given)
    endings = {"parquet": (".parquet", ".pq"), "feather": (".feather", ".arrow", ".ipc")}
    for kind, ends in endings.items():
        if name.endswith(ends):
            return ds.dataset(given, format=kind, filesystem=filesystem)
    options = {"filesystem": filesystem, "exclude_invalid_files": True}
    found = [ds.dataset(given, format=kind, **options) for kind in endings]
    return next((each for each in found if each.files), found[-1])
