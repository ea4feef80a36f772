"""Recognise models by what they hold: factors, similarities, matrices or frames of scores, whichever library made them.

implicit's models have ``user_factors`` and ``item_factors``, or an item × item ``similarity``; so do fullrank's own.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank._checks import first_where, more, plural
from fullrank._columns import checked_columns, frame_columns
from fullrank._tables import is_number
from fullrank._types import Array, BoolArray, IntArray
from fullrank.data.frames import locate, repeats, whole_names
from fullrank.data.readers import LARGEST_POSITION
from fullrank.models.scorer import (
    Factors,
    ItemItem,
    Rows,
    Table,
    float_type,
    floats,
    holds_scores,
    is_array,
    is_frame,
    matrix_of,
    settle,
    to_numpy,
)


def from_arrays(model: Any, name: str | None) -> Any:
    """Take a pair (U, V), a users × items matrix or one score per item as a scorer; ``None`` for anything else."""
    if isinstance(model, tuple | list):
        parts = factors_in(model)
        if parts is None:
            got = f"a {type(model).__name__} of {len(model)}"
            kinds = ", ".join(type(part).__name__ for part in model) if 0 < len(model) <= 3 else ""
            wanted = "a pair of factors (U, V), or (U, V, item_bias)"
            raise TypeError(f"`model` must be {wanted}, got {got}{kinds and f' ({kinds})'}.")
        users, items, *bias = parts
        return Factors(users, items, bias[0] if bias else None, name=name or "factors")
    if sp.issparse(model):
        return Table(model, name=name or "scores")
    if not is_array(model):
        return None
    scores = to_numpy(model)
    if scores.ndim == 1:
        scores = floats(
            scores, "the scores"
        )  # the same for every user: factors of width 0, which take no memory, and a bias
        users, items = (np.zeros((n, 0), float_type(scores.dtype)) for n in (np.iinfo(np.int32).max, len(scores)))
        everybody = Factors(users, items, scores, name=name or "item scores")
        settle(everybody, n_users=None)
        return everybody
    if scores.ndim == 2:
        return Rows(_Matrix(matrix_of(scores, "scores")), scores.shape[1], scores.shape[0], name=name or "scores")
    raise TypeError(f"`model` must be users × items scores, or one per item, got an array of shape {scores.shape}.")


def factors_in(model: Any) -> list[Array] | None:
    """Return the arrays of a pair (U, V), or (U, V, item_bias); ``None`` for a list of anything else, such as models."""
    if not isinstance(model, tuple | list) or len(model) not in (2, 3) or any(map(holds_scores, model)):
        return None
    model = model[:2] if model[-1] is None else model  # no bias
    try:
        parts = [to_numpy(getattr(part, "weight", part)) for part in model]  # torch.nn.Embedding has a weight
    except (TypeError, ValueError, RuntimeError):  # what NumPy and torch say of lists of unlike parts
        return None
    return parts if all(part.dtype != object and 1 <= part.ndim <= 2 for part in parts) else None


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
    if history is None and split is None:
        raise ValueError(f"model `{name}` scores from users' histories: give `split` as well.")
    return ItemItem(similarity, split.train if history is None else history, name=name)


def from_frame(model: Any, split: Any, name: str | None) -> Table | None:
    """Take a frame with columns of users, items and scores as stored scores; ``None`` for anything else."""
    if not is_frame(model):
        return None
    name = name or "scores"
    found = checked_columns(frame_columns(model, ("user", "item", "score")))
    users, items, known = places_of_rows(found, split, name)
    scores = _numbers_of(found["score"], name)[known]
    if split is not None and (without := np.setdiff1d(split.test_users, users)).size:
        user = split.names("user", without[0]).item()
        raise ValueError(
            f"`{name}` has no row for user {user!r}{more(len(without))}, who has a test case: score every user with one, "
            "or leave such users out of the split."
        )
    shape = tuple(int(each.max(initial=-1)) + 1 for each in (users, items))
    shape = shape if split is None else (split.n_users, split.n_items)
    rows = sp.csr_matrix((np.arange(1, len(scores) + 1, dtype=np.float64), (users, items)), shape=shape)
    if rows.nnz != len(scores):
        raise ValueError(f"the frame `{name}` scores {len(scores) - rows.nnz:,} pairs of user and item more than once.")
    rows.data = scores[rows.data.astype(np.int64) - 1]  # by place, so that a score of 0 is kept like any other
    return Table(rows, name=name)


def _numbers_of(scores: Array, name: str) -> Array:
    """Return a column of scores as float64; scores that are no numbers are refused."""
    try:
        return scores.astype(np.float64)
    except ValueError:
        wrong = next(text for text in scores.tolist() if not is_number(text))
        raise TypeError(f"`{name}` must hold numbers as scores, got {wrong!r}.") from None


def places_of_rows(found: Mapping[str, Array], split: Any, name: str) -> tuple[IntArray, IntArray, BoolArray]:
    """Return the users and items of rows as positions in the split, and which rows these are.

    Rows of users and items that the split does not know are left out, with a warning that counts them: a model may know
    more than is asked of it. Where the split knows none of the users, or none of the items, the names are wrong.
    """
    if not len(found["user"]):
        raise ValueError(f"`{name}` has no rows.")
    users, items = (_positions(whole_names(found[what], what), split, what, name) for what in ("user", "item"))
    known = (users >= 0) & (items >= 0)
    if not known.all():
        unknown = " and ".join(
            f"{len(np.unique(found[what][places < 0])):,} of {plural(len(np.unique(found[what])), what)}"
            for what, places in (("user", users), ("item", items))
            if (places < 0).any()
        )
        left = f"{plural((~known).sum(), 'row')} of {len(known):,} left out"
        warnings.warn(f"`{name}` names {unknown} that the split does not have: {left}.", stacklevel=4)
    return users[known], items[known], known


def _positions(names: Array, split: Any, what: str, name: str) -> IntArray:
    """Turn names into positions; names that the split does not know become −1, and must not be all of them."""
    ids = getattr(split, f"{what}_ids", None)
    if ids is not None:
        if len(again := repeats(ids)):
            twice = ids[again[:1]].tolist()[0]
            raise ValueError(f"`split.{what}_ids` has {twice!r} at two positions: give every {what} a name of its own.")
        places = locate(names, ids)
        if (places < 0).all():
            here, there = names[:1].tolist()[0], ids[:1].tolist()[0]
            raise ValueError(
                f"`{name}` knows none of the split's {what}s: it has names such as {here!r}, and the split such as "
                f"{there!r}; take those in `split.{what}_ids`."
            )
        return places
    if names.dtype.kind not in "iu":
        such = f"names such as {names[:1].tolist()[0]!r}"
        raise TypeError(f"`{name}` has {what}s with {such}, and the split has no `{what}_ids` to translate them.")
    size = getattr(split, f"n_{what}s", LARGEST_POSITION)
    if (r := first_where((names < 0) | (names >= size))) is not None:
        where = "positions start at 0" if split is None else f"the split has {size:,}: it must be from 0 to {size - 1}"
        raise ValueError(f"`{name}` holds {what} {names[r]}; {where}.")
    return names.astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Matrix:
    """Gives the rows of a users × items matrix; compiled loops read ``matrix`` itself."""

    matrix: Array

    def __call__(self, users: IntArray) -> Array:
        return self.matrix[users]
