"""Cornac: models that score the whole catalogue for one user, in the order of their own training set."""

from __future__ import annotations

from typing import Any

import numpy as np

from fullrank._types import Array, IntArray
from fullrank.data.frames import locate
from fullrank.models.scorer import Rows

__all__ = ["recognise"]


def recognise(model: Any, split: Any, name: str) -> Any:
    """Ask ``model.score(user_idx)`` for rows of the whole catalogue."""
    data = getattr(model, "train_set", None)
    users = _translation(getattr(data, "uid_map", None), split, "user", name)
    items = _translation(getattr(data, "iid_map", None), split, "item", name)
    n_users = len(users) if users is not None else getattr(data, "num_users", None)
    n_items = len(items) if items is not None else getattr(data, "num_items", None)
    if n_items is None:
        raise ValueError(f"Cornac model `{name}` has no training set: fit it first.")

    def rows(asked: IntArray) -> Array:
        out = [np.asarray(model.score(int(u))) for u in (asked if users is None else users[asked])]
        return np.stack(out) if items is None else np.stack(out)[:, items]

    return Rows(rows, int(n_items), n_users, name=name)


def _translation(mapping: Any, split: Any, what: str, name: str) -> IntArray | None:
    """Where another library keeps each user or item of the split; None if it keeps them in the same places."""
    if not mapping or split is None:
        return None
    ids, size = getattr(split, f"{what}_ids"), getattr(split, f"n_{what}s")
    names = np.arange(size) if ids is None else np.asarray(ids)
    found = locate(names, np.array(list(mapping)))
    places = np.where(found < 0, -1, np.fromiter(mapping.values(), np.int64, len(mapping))[found])
    known = set(split.users.tolist()) if what == "user" else set(range(len(places)))
    missing = next((k for k in np.flatnonzero(places < 0) if int(k) in known), None)
    if missing is not None:
        raise ValueError(
            f"model `{name}` knows {int((places >= 0).sum()):,} of the split's {len(places):,} {what}s; {what} "
            f"{names[missing].item()!r} is not among them: fit it on the split's own `train`."
        )
    return places
