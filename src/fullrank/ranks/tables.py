"""Tables of sampled ranks, from CSV or Parquet, as any evaluation tool can write them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RankTable", "read_ranks"]

USER_COLUMNS = ("user_id", "user", "userID", "userId", "query_id", "q_id", "qid")
RANK_COLUMNS = ("rank", "sampled_rank", "r")
DRAWN_COLUMNS = ("negatives", "drawn", "n_negatives")


@dataclass(frozen=True)
class RankTable:
    """The ranks of one model, and what the file says about each case (``None``: nothing)."""

    model: str
    ranks: NDArray[Any]
    users: NDArray[Any] | None = None
    n_items: NDArray[Any] | None = None
    drawn: NDArray[Any] | None = None
    weights: NDArray[Any] | None = None


def read_ranks(path: str | Path) -> list[RankTable]:
    """Sampled ranks from a ``.csv``, ``.tsv`` or ``.parquet`` file, one :class:`RankTable` per model.

    Long form: a column ``rank``, and optionally ``model``, ``user_id``, ``n_items``, ``negatives``, ``weight``. Wide form,
    when there is no ``rank``: one column of ranks per model, beside an optional user column. Without a ``model`` column the
    model is named after the file.
    """
    path = Path(path)
    columns = _columns(path)
    if not columns or not len(next(iter(columns.values()))):
        raise ValueError(f"{str(path)!r} has no rows.")
    rank = _first(RANK_COLUMNS, columns)
    user = _first(USER_COLUMNS, columns)
    if rank is not None:
        return list(_long(path, columns, rank, user))
    wide = [name for name in columns if name != user and columns[name].dtype.kind in "iuf"]
    if not wide:
        raise ValueError(
            f"{str(path)!r} has no column of ranks: name it 'rank', or give one column of ranks per model; "
            f"it has {', '.join(map(repr, columns))}."
        )
    users = None if user is None else columns[user]
    return [RankTable(name, columns[name], users) for name in wide]


def _long(path: Path, columns: dict[str, NDArray[Any]], rank: str, user: str | None) -> Iterator[RankTable]:
    names = columns.get("model", np.full(len(columns[rank]), path.stem))
    for model in dict.fromkeys(str(name) for name in names):
        here = names.astype(str) == model
        yield RankTable(
            model,
            columns[rank][here],
            None if user is None else columns[user][here],
            columns["n_items"][here] if "n_items" in columns else None,
            columns[drawn][here] if (drawn := _first(DRAWN_COLUMNS, columns)) else None,
            columns["weight"][here] if "weight" in columns else None,
        )


def _columns(path: Path) -> dict[str, NDArray[Any]]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    try:
        if path.suffix.lower() in {".parquet", ".pq"}:
            table = parquet.read_table(path)
        elif path.suffix.lower() in {".csv", ".tsv", ".txt"}:
            options = csv.ParseOptions(delimiter="," if path.suffix.lower() == ".csv" else "\t")
            table = csv.read_csv(path, parse_options=options)
        else:
            raise ValueError(f"cannot read {str(path)!r}: it must end in .csv, .tsv or .parquet.")
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"cannot read {str(path)!r}: {reason}.") from None
    return {name: table[name].to_numpy() for name in table.column_names}


def _first(names: tuple[str, ...], columns: dict[str, NDArray[Any]]) -> str | None:
    return next((name for name in names if name in columns), None)
