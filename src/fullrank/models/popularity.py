"""Recommend the most popular items to everybody: what every recommender must beat."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fullrank.models.fitted import FittedFactors, describe, history_of


@dataclass(frozen=True, repr=False)
class Popularity:
    """score(u, i) = number of users who have i, the same for everybody; items nobody has score 0. Ties are many.

    >>> import numpy as np
    >>> model = Popularity().fit(np.array([[1, 1, 0], [0, 1, 0]]))
    >>> model
    Popularity() fitted on 2 users × 3 items
    >>> model.score(np.array([0]), np.array([[0, 1, 2]]))
    array([[1., 2., 0.]])
    """

    def fit(self, train: Any, *, progress: bool = True) -> FittedFactors:
        """Count the interactions of every item."""
        history = history_of(train)
        n_users, n_items = history.shape
        counts = np.bincount(history.indices, minlength=n_items).astype(np.float64)
        return FittedFactors(self, np.zeros((n_users, 0)), np.zeros((n_items, 0)), counts)

    __repr__ = describe
