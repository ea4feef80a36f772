"""RecBole: models that predict from batches of its own class, with place 0 kept for padding."""

from typing import Any

import numpy as np

from fullrank._types import Array, IntArray
from fullrank.models.adapters.torch import evaluating
from fullrank.models.scorer import Pairs, Rows, to_numpy


def recognise(model: Any, split: Any, name: str) -> Any:
    """Ask ``full_sort_predict`` where there is one, else ``predict`` pair by pair.

    A model with one user (item) more than the split keeps place 0 for padding and is shifted by one.
    """
    import torch
    from recbole.data.interaction import Interaction

    n_items, n_users = int(model.n_items), int(model.n_users)
    shift_u = 0 if split is None else int(n_users == split.n_users + 1)
    shift_i = 0 if split is None else int(n_items == split.n_items + 1)
    device = getattr(model, "device", "cpu")

    def ask(method: str, columns: dict[str, Array]) -> Array:
        batch = Interaction({key: torch.as_tensor(value, dtype=torch.long) for key, value in columns.items()})
        with evaluating(model):
            return to_numpy(getattr(model, method)(batch.to(device)))

    def rows(users: IntArray) -> Array:
        return ask("full_sort_predict", {model.USER_ID: users + shift_u}).reshape(len(users), n_items)[:, shift_i:]

    def pairs(users: IntArray, items: IntArray) -> Array:
        columns = {model.USER_ID: np.repeat(users + shift_u, items.shape[1]), model.ITEM_ID: items.ravel() + shift_i}
        return ask("predict", columns).reshape(items.shape)

    base = next((c for c in type(model).__mro__ if c.__name__ == "AbstractRecommender"), None)
    if getattr(type(model), "full_sort_predict", None) not in (None, getattr(base, "full_sort_predict", None)):
        return Rows(rows, n_items - shift_i, n_users - shift_u, name=name)
    return Pairs(pairs, n_users - shift_u, n_items - shift_i, name=name, flat=False)
