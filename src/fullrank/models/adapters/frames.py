"""Frames of scores: pandas, polars, Arrow, or mappings of arrays, with a row per user and item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank._columns import find_column
from fullrank._types import Array, IntArray
from fullrank.models.scorer import Table, is_frame, to_numpy

__all__ = ["recognise"]


def recognise(model: Any, split: Any, name: str | None) -> Table | None:
    """Take a frame with columns of users, items and scores as stored scores; ``None`` for anything else."""
    return _from_frame(model, split, name or "scores") if is_frame(model) else None


def _from_frame(frame: Any, split: Any, name: str) -> Table:
    if isinstance(frame, Mapping):
        table: Any = frame
        names = [str(each) for each in frame]
    else:
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        names = table.columns
    columns = []
    for what, usual in (("user", "user_id"), ("item", "item_id"), ("score", "score")):
        found = find_column(names, what)
        if found is None:
            raise ValueError(f"the frame of scores has no column {usual!r}: it has {', '.join(map(repr, names))}.")
        columns.append(to_numpy(table[found]))
    shape = None if split is None else (split.n_users, split.n_items)
    users = _positions(
        columns[0], None if split is None else split.user_ids, "user", None if shape is None else shape[0], name
    )
    items = _positions(
        columns[1], None if split is None else split.item_ids, "item", None if shape is None else shape[1], name
    )
    known = (users >= 0) & (items >= 0)
    users, items, scores = users[known], items[known], np.asarray(columns[2], dtype=np.float64)[known]
    if shape is None:
        shape = (int(users.max(initial=-1)) + 1, int(items.max(initial=-1)) + 1)
    matrix = sp.coo_matrix((np.arange(1, len(scores) + 1, dtype=np.float64), (users, items)), shape=shape)
    rows = matrix.tocsr()
    if rows.nnz != len(scores):
        raise ValueError(f"the frame `{name}` scores {len(scores) - rows.nnz:,} pairs of user and item more than once.")
    rows.data = scores[rows.data.astype(np.int64) - 1]  # by place, so that a score of 0 is kept like any other
    return Table(rows, name=name)


def _positions(values: Array, ids: Array | None, what: str, size: int | None, name: str) -> IntArray:
    """Names as positions; names the split does not know become −1 and are left out."""
    if ids is not None:
        order = np.argsort(ids, kind="stable")
        ranked = ids[order]
        try:
            place = np.minimum(np.searchsorted(ranked, values), len(ranked) - 1)
        except TypeError:
            raise TypeError(
                f"`{name}` names {what}s by {values.dtype}, the split by {ids.dtype}; they must be alike."
            ) from None
        return np.where(ranked[place] == values, order[place], -1).astype(np.int64)
    if values.dtype.kind not in "iu":
        raise TypeError(
            f"`{name}` names {what}s by {values.dtype}, and the split has no `{what}_ids` to translate them."
        )
    if size is not None and len(values) and (values.min() < 0 or values.max() >= size):
        wrong = values[(values < 0) | (values >= size)][0]
        raise ValueError(f"`{name}` holds {what} {wrong}; the split has {size:,}: allowed are 0 to {size - 1}.")
    return values.astype(np.int64)
