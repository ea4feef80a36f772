"""LensKit: pipelines that score, user by user, lists of items known by name."""

from typing import Any

import numpy as np

from fullrank._types import Array, IntArray
from fullrank.models.scorer import Pairs


def recognise(model: Any, split: Any, name: str) -> Pairs:
    """Ask the pipeline for the scores of each user's items."""
    from lenskit import operations
    from lenskit.data import ItemList

    user_ids = None if split is None else split.user_ids
    item_ids = None if split is None else split.item_ids

    def pairs(users: IntArray, items: IntArray) -> Array:
        out = np.empty(items.shape, dtype=np.float64)
        for r, user in enumerate(users):
            asked, back = np.unique(items[r], return_inverse=True)  # an item list holds an item once
            list_ = ItemList(item_ids=asked if item_ids is None else item_ids[asked])
            who = int(user) if user_ids is None else user_ids[user]
            scored = operations.score(model, query=who.item() if isinstance(who, np.generic) else who, items=list_)
            scores = scored.scores()
            if scores is None:
                raise ValueError(f"LensKit pipeline `{name}` gives no scores; build it with a scoring component.")
            out[r] = np.asarray(scores, dtype=np.float64)[back.ravel()]
        return out

    return Pairs(pairs, name=name, flat=False)
