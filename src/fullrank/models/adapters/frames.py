"""Take frames of scores as models: pandas, polars, Arrow, or mappings of arrays, with a row per user and item."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank._checks import first_where
from fullrank._columns import checked_columns, frame_columns
from fullrank._types import Array, IntArray
from fullrank.data.frames import locate
from fullrank.models.scorer import Table, is_frame


def recognise(model: Any, split: Any, name: str | None) -> Table | None:
    """Take a frame with columns of users, items and scores as stored scores; ``None`` for anything else."""
    if not is_frame(model):
        return None
    name = name or "scores"
    found = checked_columns(frame_columns(model, ("user", "item", "score")))
    users, items = (positions(found[what], split, what, name) for what in ("user", "item"))
    known = (users >= 0) & (items >= 0)
    users, items, scores = users[known], items[known], found["score"].astype(np.float64)[known]
    shape = tuple(int(each.max(initial=-1)) + 1 for each in (users, items))
    shape = shape if split is None else (split.n_users, split.n_items)
    rows = sp.csr_matrix((np.arange(1, len(scores) + 1, dtype=np.float64), (users, items)), shape=shape)
    if rows.nnz != len(scores):
        raise ValueError(f"the frame `{name}` scores {len(scores) - rows.nnz:,} pairs of user and item more than once.")
    rows.data = scores[rows.data.astype(np.int64) - 1]  # by place, so that a score of 0 is kept like any other
    return Table(rows, name=name)


def positions(names: Array, split: Any, what: str, name: str) -> IntArray:
    """Turn names into positions; names the split does not know become −1 and are left out."""
    ids = getattr(split, f"{what}_ids", None)
    if ids is not None:
        return locate(names, ids)
    if names.dtype.kind not in "iu":
        raise TypeError(
            f"`{name}` names {what}s by {names.dtype}, and the split has no `{what}_ids` to translate them."
        )
    size = getattr(split, f"n_{what}s", None)
    if size is not None and (r := first_where((names < 0) | (names >= size))) is not None:
        raise ValueError(f"`{name}` holds {what} {names[r]}; the split has {size:,}: it must be from 0 to {size - 1}.")
    return names.astype(np.int64)
