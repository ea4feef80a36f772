"""Recognise models by what they hold: factors, similarities, matrices of scores, whichever library made them.

implicit's models have ``user_factors`` and ``item_factors``, or an item × item ``similarity``; so do fullrank's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank._types import Array, IntArray
from fullrank.models.scorer import Factors, ItemItem, Rows, Table, is_array, matrix_of, to_numpy


def from_arrays(model: Any, name: str | None) -> Any:
    """Take a pair (U, V), a users × items matrix or one score per item as a scorer; ``None`` for anything else."""
    if isinstance(model, tuple | list):
        if len(model) not in (2, 3):
            raise TypeError(
                f"`model` must be a pair of factor arrays (U, V), got a {type(model).__name__} of {len(model)}."
            )
        users, items, *bias = (to_numpy(getattr(part, "weight", part)) for part in model)  # torch.nn.Embedding
        return Factors(users, items, bias[0] if bias else None, name=name or "factors")
    if sp.issparse(model):
        return Table(model, name=name or "scores")
    return _from_array(to_numpy(model), name) if is_array(model) else None


def recognise(model: Any, split: Any, name: str) -> Factors | ItemItem | None:
    """Take a model with factors, or with similarities over users' histories; ``None`` for anything else."""
    users, items = getattr(model, "user_factors", None), getattr(model, "item_factors", None)
    if users is not None and items is not None and not callable(users):
        users, items = (to_numpy(getattr(part, "weight", part)) for part in (users, items))
        return Factors(users, items, getattr(model, "item_bias", None), name=name)
    similarity = getattr(model, "similarity", None)
    if not (sp.issparse(similarity) or is_array(similarity)):
        return None
    history = getattr(model, "history", None)
    if history is None:
        if split is None:
            raise ValueError(f"model `{name}` scores from users' histories: give `split` as well.")
        history = split.train
    return ItemItem(similarity, history, name=name)


def _from_array(scores: Array, name: str | None) -> Any:
    if scores.ndim == 1:  # the same for every user: factors of width 0, which take no memory, and a bias
        kind = scores.dtype if scores.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        nobody = np.zeros((np.iinfo(np.int32).max, 0), dtype=kind)
        return Factors(nobody, np.zeros((len(scores), 0), dtype=kind), scores, name=name or "item scores")
    if scores.ndim == 2:
        return Rows(_Matrix(matrix_of(scores, "scores")), scores.shape[1], scores.shape[0], name=name or "scores")
    raise TypeError(f"`model` must be users × items scores, or one per item, got an array of shape {scores.shape}.")


@dataclass(frozen=True, eq=False)
class _Matrix:
    """Gives the rows of a users × items matrix; compiled loops read ``matrix`` itself."""

    matrix: Array

    def __call__(self, users: IntArray) -> Array:
        return self.matrix[users]
