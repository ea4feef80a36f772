"""What a model must be able to do, and how models of other libraries come to do it.

A `Scorer` has one method, ``score(users, items)``. Everything else is speed: factors and item-item models are recognised
and scored by compiled loops that never build users × items; models that can only score a whole catalogue at once are asked
for rows; the rest is asked in batches.

>>> import numpy as np
>>> as_scorer((np.eye(2, 3), np.ones((4, 3))))
Factors(2 users × 4 items, 3 factors)
>>> as_scorer(lambda users, items: -items).score(np.array([0]), np.array([[2, 0, 1]]))
array([[-2,  0, -1]])
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from fullrank._columns import find_column
from fullrank._types import Array, IntArray

__all__ = ["Factors", "ItemItem", "Pairs", "Rows", "Scorer", "Table", "as_scorer"]


@runtime_checkable
class Scorer(Protocol):
    """Any model: higher scores rank higher; users and items are positions in the split.

    It may also say how many users and items it knows (``n_users``, ``n_items``), and what it is called (``name``).
    """

    def score(self, users: IntArray, items: IntArray) -> Any:
        """Scores of shape (b, m): entry (r, c) for user ``users[r]`` and item ``items[r, c]``."""
        ...


# ------------------------------------------------------------------------------------------------------- the kinds


@dataclass(frozen=True, eq=False, repr=False)
class Factors:
    """score(u, i) = users[u] · items[i] + bias[i]: two embedding tables, in memory or memory-mapped.

    float32 and float64 tables are used as they are, without a copy when they are C-ordered; other types are converted.
    A bias per user would change no rank and is not needed.
    """

    users: Array
    items: Array
    bias: Array | None = None
    name: str = "factors"

    def __post_init__(self) -> None:
        users, items = _table(self.users, "user factors"), _table(self.items, "item factors")
        if users.shape[1] != items.shape[1]:
            raise ValueError(
                f"model `{self.name}` has user factors of shape {users.shape} and item factors of shape {items.shape}; "
                "the second numbers must agree (did you mean to transpose one?)."
            )
        kind = np.result_type(users, items)
        object.__setattr__(self, "users", users.astype(kind, copy=False))
        object.__setattr__(self, "items", items.astype(kind, copy=False))
        if self.bias is not None:
            bias = np.ascontiguousarray(_numpy(self.bias), dtype=kind)
            if bias.shape != (len(items),):
                raise ValueError(
                    f"model `{self.name}` has item biases of shape {bias.shape}; needed is one per item, ({len(items)},)."
                )
            object.__setattr__(self, "bias", bias)

    @property
    def n_users(self) -> int:
        """Number of users it knows."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items it knows."""
        return len(self.items)

    def score(self, users: IntArray, items: IntArray) -> Array:
        """Dot products."""
        scores = np.einsum("bd,bmd->bm", self.users[users], self.items[items])
        return np.asarray(scores if self.bias is None else scores + self.bias[items])

    def digest(self) -> str:
        """A fingerprint of the tables (of a sample of rows where they are large)."""
        return _digest(self.users, self.items, *(() if self.bias is None else (self.bias,)))

    def __repr__(self) -> str:
        return f"Factors({self.n_users:,} users × {self.n_items:,} items, {self.users.shape[1]} factors)"

    def __getstate__(self) -> dict[str, Any]:
        # A memory-mapped table travels to another process as its address on disk, not as its content.
        return {"users": _Mapped.of(self.users), "items": _Mapped.of(self.items), "bias": self.bias, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, value.open() if isinstance(value, _Mapped) else value)


@dataclass(frozen=True, eq=False, repr=False)
class ItemItem:
    """score(u, i) = Σ_j history[u, j] · similarity[j, i]: neighbourhood models (sparse) and EASE or SLIM (dense)."""

    similarity: Any
    history: Any
    name: str = "item-item"

    def __post_init__(self) -> None:
        similarity, history = self.similarity, sp.csr_matrix(self.history)
        if sp.issparse(similarity):
            similarity = _csr(similarity)
            similarity = (
                similarity
                if similarity.dtype.kind == "f" and similarity.dtype.itemsize >= 4
                else similarity.astype(float)
            )
        else:
            similarity = _table(similarity, "item similarities")
        if similarity.shape[0] != similarity.shape[1]:
            raise ValueError(
                f"model `{self.name}` has similarities of shape {similarity.shape}; needed is items × items."
            )
        if history.shape[1] > similarity.shape[0]:
            raise ValueError(
                f"model `{self.name}` knows {similarity.shape[0]:,} items, but its users' histories hold "
                f"{history.shape[1]:,}; fit it on the split's own `train`."
            )
        object.__setattr__(self, "similarity", similarity)
        object.__setattr__(self, "history", _csr(history).astype(similarity.dtype, copy=False))

    @property
    def n_users(self) -> int:
        """Number of users it knows."""
        return int(self.history.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items it knows."""
        return int(self.similarity.shape[0])

    def score(self, users: IntArray, items: IntArray) -> Array:
        """Rows of history · similarity, then the asked items."""
        rows = self.history[users] @ self.similarity
        rows = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
        return np.take_along_axis(rows, items, axis=1)

    def digest(self) -> str:
        """A fingerprint of similarities and histories."""
        s, h = self.similarity, self.history
        parts = (s.indptr, s.indices, s.data) if sp.issparse(s) else (s,)
        return _digest(*parts, h.indptr, h.indices, h.data)

    def __repr__(self) -> str:
        kind = f"{self.similarity.nnz:,} similarities" if sp.issparse(self.similarity) else "dense"
        return f"ItemItem({self.n_users:,} users × {self.n_items:,} items, {kind})"


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Stored scores, one sparse row per user; a pair that is not there ranks below all that are (its score is −∞)."""

    scores: Any
    name: str = "scores"

    def __post_init__(self) -> None:
        scores = _csr(self.scores)
        if scores.dtype.kind != "f" or scores.dtype.itemsize < 4:
            scores = scores.astype(np.float64)
        object.__setattr__(self, "scores", scores)

    @property
    def n_users(self) -> int:
        """Number of users it knows."""
        return int(self.scores.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items it knows."""
        return int(self.scores.shape[1])

    def score(self, users: IntArray, items: IntArray) -> Array:
        """Look the pairs up."""
        rows = np.full((len(users), self.n_items), -np.inf, dtype=self.scores.dtype)
        for row, user in zip(rows, users, strict=True):
            span = slice(*self.scores.indptr[[user, user + 1]])
            row[self.scores.indices[span]] = self.scores.data[span]
        return np.take_along_axis(rows, items, axis=1)

    def digest(self) -> str:
        """A fingerprint of the scores."""
        return _digest(self.scores.indptr, self.scores.indices, self.scores.data)

    def __repr__(self) -> str:
        return f"Table({self.n_users:,} users × {self.n_items:,} items, {self.scores.nnz:,} scores)"


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """A model that scores the whole catalogue at once: ``rows(users)`` returns (b, n_items)."""

    rows: Callable[[IntArray], Any]
    n_items: int
    n_users: int | None = None
    name: str = "rows"

    def score(self, users: IntArray, items: IntArray) -> Array:
        """Whole rows, then the asked items."""
        return np.take_along_axis(_numpy(self.rows(users)), items, axis=1)

    def __repr__(self) -> str:
        return f"Rows({self.name}, {self.n_items:,} items)"


@dataclass(frozen=True, eq=False, repr=False)
class Pairs:
    """A function ``score(users, items)`` of positions: users (b,), items (b, m), scores (b, m); or of flat pairs.

    ``flat`` says that users, items and scores are all of shape (b·m,), as in ``(U[u] * V[i]).sum(-1)``; scores of shape
    (b·m, 1) will do. ``None`` finds out at the first call: the function is asked in the first form and, if it fails or gives
    another shape, in the second. That call has b and m that differ and are above 1 (b = 2 and m = 3 of user 0 and item 0
    otherwise), for else a function of flat pairs could give the right shape and wrong scores.
    """

    function: Callable[[IntArray, IntArray], Any]
    n_users: int | None = None
    n_items: int | None = None
    name: str = "function"
    flat: bool | None = None

    def score(self, users: IntArray, items: IntArray) -> Array:
        """What the function says, as a NumPy array of the right shape."""
        if self.flat is not None:
            return self._ask(users, items, self.flat)
        if 1 < items.shape[0] != items.shape[1] > 1:
            return self._settle(users, items)
        self._settle(np.zeros(2, dtype=np.int64), np.zeros((2, 3), dtype=np.int64))
        return self.score(users, items)

    def _settle(self, users: IntArray, items: IntArray) -> Array:
        """Ask in both forms and remember the one that is answered."""
        try:
            scores, flat = self._ask(users, items, False), False
        except Exception as error:  # whatever a function does that was handed the wrong form
            try:
                scores, flat = self._ask(users, items, True), True
            except Exception as other:
                error.add_note(f"Asked for {items.size} flat pairs instead: {other}")
                if isinstance(error, _WrongShapeError) and isinstance(other, _WrongShapeError):
                    raise ValueError(f"{error} {other}") from None
                raise error from None
        object.__setattr__(self, "flat", flat)
        return scores

    def _ask(self, users: IntArray, items: IntArray, flat: bool) -> Array:
        if flat:
            users, asked = np.repeat(users, items.shape[1]), items.ravel()
        else:
            asked = items
        scores = _numpy(self.function(users, asked))
        if scores.shape != asked.shape and not (flat and scores.shape == (len(asked), 1)):
            raise _WrongShapeError(
                f"model `{self.name}` returned scores of shape {scores.shape} for users of shape {users.shape} and items of "
                f"shape {asked.shape}; it must return one score per item, {asked.shape}."
            )
        return scores.reshape(items.shape)

    def __repr__(self) -> str:
        return f"Pairs({self.name})"


class _WrongShapeError(ValueError):
    """Scores came back in a shape that nobody asked for."""


# ------------------------------------------------------------------------------------------------------- as_scorer

_ALLOWED = (
    "a pair of factor arrays (U, V), a function score(users, items), an object with such a method, a model of implicit, "
    "LensKit, Cornac or RecBole, a torch module, a frame with user_id, item_id and score, or a users × items matrix"
)


def as_scorer(model: Any, split: Any = None, *, name: str | None = None) -> Any:
    """Any model as a `Scorer`; structure that allows a fast path is found and used.

    | comes in | is read as |
    |---|---|
    | ``(U, V)``, ``(U, V, item_bias)``: NumPy, memory-mapped, torch tensors or embeddings | `Factors` |
    | an object with ``user_factors`` and ``item_factors`` (and ``item_bias``), such as implicit's | `Factors` |
    | an object with an item × item ``similarity``, such as implicit's neighbours or EASE | `ItemItem` over ``split.train`` |
    | a users × items matrix: dense; sparse (absent: below the rest) · one score per item | `Rows` · `Table` · `Factors` |
    | a pandas, polars or Arrow frame, or a mapping of arrays, with ``user_id``, ``item_id``, ``score`` | `Table` |
    | a Cornac model, a RecBole model, a LensKit pipeline | `Rows` or `Pairs` |
    | a torch module: LongTensors (b,), (b, m) → (b, m), or flat pairs, under ``no_grad`` and in eval mode | `Pairs` |
    | anything with ``score(users, items)``; any callable, of (b,), (b, m) or of flat pairs (b·m,), (b·m,) | `Pairs` |

    Users and items are positions in `split`. Where a library keeps its own order (LensKit, Cornac) or frames hold names,
    the split's ``user_ids`` and ``item_ids`` translate; without them, names are positions.
    """
    found = _recognise(model, split, name)
    if found is None:
        hint = ""
        if isinstance(model, type):
            hint = f" This is a class: did you mean an instance, `{model.__name__}(...)`, fitted?"
        elif hasattr(model, "fit"):
            hint = " Is it fitted?"
        elif isinstance(model, str):
            hint = " Load the model first."
        raise TypeError(f"`model` is {_said(model)}; allowed are {_ALLOWED}.{hint}")
    return found


_SIZES = ("n_users", "n_items")


def _recognise(model: Any, split: Any, name: str | None) -> Any:
    label = name or _name_of(model)
    if isinstance(model, Factors | ItemItem | Table | Rows | Pairs):
        return model
    if isinstance(model, tuple | list):
        if len(model) not in (2, 3):
            raise TypeError(
                f"`model` is a {type(model).__name__} of {len(model)}; a pair of factor arrays (U, V) was expected."
            )
        tables = [getattr(part, "weight", part) for part in model]  # torch.nn.Embedding
        users, items, *bias = (_numpy(part) for part in tables)
        return Factors(users, items, bias[0] if bias else None, name=name or "factors")
    if isinstance(model, type | str):
        return None
    if sp.issparse(model):
        return Table(model, name=name or "scores")
    if _is_array(model):
        return _from_array(_numpy(model), name)
    for library, make in (("cornac", _cornac), ("recbole", _recbole), ("lenskit", _lenskit)):
        if _comes_from(model, library):
            return make(model, split, label)
    if (factors := _factors_of(model, label)) is not None:
        return factors
    if (similarity := _similarity_of(model)) is not None:
        history = getattr(model, "history", None)
        if history is None:
            if split is None:
                raise ValueError(f"model `{label}` scores from users' histories: give `split` as well.")
            history = split.train
        return ItemItem(similarity, history, name=label)
    if _is_torch_module(model):
        return Pairs(_TorchModule(model), name=label)
    if callable(getattr(model, "score", None)):
        n_users, n_items = (size if isinstance(size := getattr(model, key, None), int) else None for key in _SIZES)
        return Pairs(model.score, n_users=n_users, n_items=n_items, name=label)
    if _is_frame(model):
        return _from_frame(model, split, name or "scores")
    if callable(model):
        return Pairs(model, name=label)
    return None


def _from_array(scores: Array, name: str | None) -> Any:
    if scores.ndim == 1:  # the same for every user: factors of width 0, which take no memory, and a bias
        kind = scores.dtype if scores.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        nobody = np.zeros((np.iinfo(np.int32).max, 0), dtype=kind)
        return Factors(nobody, np.zeros((len(scores), 0), dtype=kind), scores, name=name or "item scores")
    if scores.ndim == 2:
        return Rows(_Matrix(_table(scores, "scores")), scores.shape[1], scores.shape[0], name=name or "scores")
    raise TypeError(f"`model` is an array of shape {scores.shape}; users × items, or one score per item, was expected.")


def _factors_of(model: Any, name: str) -> Factors | None:
    users, items = getattr(model, "user_factors", None), getattr(model, "item_factors", None)
    if users is None or items is None or callable(users):
        return None
    users, items = (getattr(part, "weight", part) for part in (users, items))
    return Factors(_numpy(users), _numpy(items), getattr(model, "item_bias", None), name=name)


def _similarity_of(model: Any) -> Any:
    similarity = getattr(model, "similarity", None)
    if similarity is None or callable(similarity):
        return None
    return similarity if sp.issparse(similarity) or _is_array(similarity) else None


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
        columns.append(_numpy(table[found]))
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


# --------------------------------------------------------------------------------------------- other libraries


def _cornac(model: Any, split: Any, name: str) -> Any:
    """Cornac: ``model.score(user_idx)`` scores the whole catalogue, in the order of its own training set."""
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
    ids = getattr(split, f"{what}_ids")
    names = list(range(split.n_users if what == "user" else split.n_items)) if ids is None else np.asarray(ids).tolist()
    lookup = (
        mapping if any(key in mapping for key in names[:100]) else {str(key): place for key, place in mapping.items()}
    )
    keys = names if lookup is mapping else [str(key) for key in names]
    places = np.array([lookup.get(key, -1) for key in keys], dtype=np.int64)
    known = set(split.users.tolist()) if what == "user" else set(range(len(places)))
    missing = next((k for k in np.flatnonzero(places < 0) if int(k) in known), None)
    if missing is not None:
        raise ValueError(
            f"model `{name}` knows {int((places >= 0).sum()):,} of the split's {len(places):,} {what}s; {what} "
            f"{names[missing]!r} is not among them: fit it on the split's own `train`."
        )
    return places


def _recbole(model: Any, split: Any, name: str) -> Any:
    """RecBole: ``full_sort_predict`` where there is one, else ``predict`` pair by pair.

    RecBole keeps place 0 for padding: a model with one user (item) more than the split is shifted by one.
    """
    import torch

    try:
        from recbole.data.interaction import Interaction
    except ImportError:
        Interaction = _Interaction
    n_items, n_users = int(model.n_items), int(model.n_users)
    shift_u = 0 if split is None else int(n_users == split.n_users + 1)
    shift_i = 0 if split is None else int(n_items == split.n_items + 1)
    device = getattr(model, "device", "cpu")

    def ask(method: str, columns: dict[str, Array]) -> Array:
        batch = Interaction({key: torch.as_tensor(value, dtype=torch.long) for key, value in columns.items()}).to(
            device
        )
        with _evaluating(model):
            return _numpy(getattr(model, method)(batch))

    def rows(users: IntArray) -> Array:
        return ask("full_sort_predict", {model.USER_ID: users + shift_u}).reshape(len(users), n_items)[:, shift_i:]

    def pairs(users: IntArray, items: IntArray) -> Array:
        columns = {model.USER_ID: np.repeat(users + shift_u, items.shape[1]), model.ITEM_ID: items.ravel() + shift_i}
        return ask("predict", columns).reshape(items.shape)

    base = next((c for c in type(model).__mro__ if c.__name__ == "AbstractRecommender"), None)
    if getattr(type(model), "full_sort_predict", None) not in (None, getattr(base, "full_sort_predict", None)):
        return Rows(rows, n_items - shift_i, n_users - shift_u, name=name)
    return Pairs(pairs, n_users - shift_u, n_items - shift_i, name=name, flat=False)


class _Interaction(dict):  # type: ignore[type-arg]  # what a model sees of RecBole's batches, should the class ever move
    def to(self, device: Any) -> _Interaction:
        return _Interaction({key: value.to(device) for key, value in self.items()})


def _lenskit(model: Any, split: Any, name: str) -> Pairs:
    """LensKit: the pipeline scores, user by user, lists of items known by name."""
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


class _TorchModule:
    """A torch module called with LongTensors on its own device, in eval mode, without gradients."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, users: IntArray, items: IntArray) -> Array:
        import torch

        first = next(self.module.parameters(), None)
        device = "cpu" if first is None else first.device
        with _evaluating(self.module):
            tensors = (torch.as_tensor(np.ascontiguousarray(part)).to(device) for part in (users, items))
            return _numpy(self.module(*tensors))


class _Matrix:
    """A users × items matrix, called for its rows."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix

    def __call__(self, users: IntArray) -> Array:
        return self.matrix[users]


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    import torch

    training = bool(getattr(module, "training", False))
    if training:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if training:
            module.train()


# ------------------------------------------------------------------------------------------------------- inside


@dataclass(frozen=True)
class _Mapped:
    """Where a memory-mapped array lies."""

    filename: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    order: str = field(default="C")

    @classmethod
    def of(cls, array: Array) -> Array | _Mapped:
        root: Any = array
        while isinstance(root, np.ndarray) and not isinstance(root.base, mmap.mmap):
            root = root.base
        same = (
            isinstance(root, np.memmap)
            and root.filename is not None
            and root.shape == array.shape
            and root.dtype == array.dtype
            and root.ctypes.data == array.ctypes.data
        )
        if not same or not isinstance(root, np.memmap):
            return np.asarray(array)
        return cls(str(root.filename), array.dtype.str, array.shape, root.offset)

    def open(self) -> Array:
        return np.memmap(self.filename, dtype=self.dtype, mode="r", offset=self.offset, shape=self.shape)


def _table(values: Any, what: str) -> Array:
    array = _numpy(values)
    if array.ndim != 2:
        raise ValueError(f"the {what} have shape {array.shape}; a matrix was expected.")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"the {what} are of type {array.dtype}; numbers were expected.")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    return np.asarray(array, order="C")


def _csr(matrix: Any) -> Any:
    out = sp.csr_matrix(matrix)
    if not out.has_canonical_format:
        out = out.copy()
        out.sum_duplicates()
    return out


def _numpy(values: Any) -> Array:
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # NumPy has no such type
            values = values.float()
        return np.asarray(values.numpy())
    if hasattr(values, "to_numpy") and not _is_frame(values):  # implicit's GPU matrices
        return np.asarray(values.to_numpy())
    return np.asarray(values)


def _digest(*arrays: Array, most: int = 1 << 24) -> str:
    """A checksum of arrays; of evenly spaced parts of those above ``most`` bytes."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if array.nbytes > most:
            rows = max(1, int(len(array) * most / array.nbytes))
            array = array[np.linspace(0, len(array) - 1, rows).astype(np.int64)]
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _comes_from(model: Any, library: str) -> bool:
    return any(c.__module__.split(".")[0] == library for c in type(model).__mro__)


def _is_torch_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _is_array(model: Any) -> bool:
    return isinstance(model, np.ndarray) or (hasattr(model, "detach") and hasattr(model, "numpy"))


def _is_frame(model: Any) -> bool:
    return isinstance(model, Mapping) or hasattr(model, "columns") or hasattr(model, "column_names")


def _name_of(model: Any) -> str:
    name = getattr(model, "name", None)
    if isinstance(name, str) and name:
        return name
    return str(getattr(model, "__name__", None) or type(model).__name__)


def _said(model: Any) -> str:
    if isinstance(model, str):
        return f"the string {model!r}"
    if isinstance(model, type):
        return f"the class `{model.__name__}`"
    return f"a {type(model).__module__}.{type(model).__qualname__}"
