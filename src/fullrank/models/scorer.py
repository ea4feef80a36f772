"""Scorers say what a model must be able to do, and how models of other libraries come to do it.

A `Scorer` has one method, ``score(users, items)``. Everything else is speed: factors and item-item models are recognised
and scored by compiled loops that never build users × items; models that can only score a whole catalogue at once are asked
for rows; the rest is asked in batches.

>>> import numpy as np
>>> as_scorer((np.eye(2, 3), np.ones((4, 3))))
Factors(factors, 2 users, 4 items)
>>> as_scorer(lambda users, items: -items).score(np.array([0]), np.array([[2, 0, 1]]))
array([[-2,  0, -1]])
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from fullrank._columns import find_column
from fullrank._types import Array, IntArray
from fullrank.data.frames import canonical_csr
from fullrank.data.split import check_split


@runtime_checkable
class Scorer(Protocol):
    """Any model: higher scores rank higher; users and items are positions in the split.

    It may also say how many users and items it knows (``n_users``, ``n_items``), and what it is called (``name``).
    """

    def score(self, users: IntArray, items: IntArray) -> Any:
        """Return scores of shape (b, m): entry (r, c) for user ``users[r]`` and item ``items[r, c]``."""


def _digest(scorer: Any) -> str:
    """Return a fingerprint of the arrays (of a sample of rows where they are large)."""
    return digest_of(*(each for each in vars(scorer).values() if isinstance(each, np.ndarray) or sp.issparse(each)))


def _describe(scorer: Any) -> str:
    """Write a scorer as its kind, its name and how many users and items it knows."""
    sizes = [f"{n:,} {what}" for what in ("users", "items") if (n := getattr(scorer, f"n_{what}")) is not None]
    return f"{type(scorer).__name__}({', '.join([scorer.name, *sizes])})"


@dataclass(frozen=True, eq=False, repr=False)
class Factors:
    """score(u, i) = users[u] · items[i] + bias[i]: two embedding tables, in memory or memory-mapped.

    float32 and float64 tables are used without a copy when they are C-ordered; other types are converted.
    A bias per user would change no rank and is not needed.
    """

    users: Array
    items: Array
    bias: Array | None = None
    name: str = "factors"
    n_users: int | None = field(init=False)  # None where everybody has the same scores
    n_items: int = field(init=False)

    def __post_init__(self) -> None:
        users, items = matrix_of(self.users, "user factors"), matrix_of(self.items, "item factors")
        if users.shape[1] != items.shape[1]:
            raise ValueError(
                f"model `{self.name}` has user factors of shape {users.shape} and item factors of shape {items.shape}; "
                "the second numbers must agree (did you mean to transpose one?)."
            )
        kind = np.result_type(users, items)
        users, items = users.astype(kind, copy=False), items.astype(kind, copy=False)
        bias = bias_of(self.bias, len(items), kind, self.name)
        settle(self, users=users, items=items, bias=bias, n_users=len(users), n_items=len(items))

    def score(self, users: IntArray, items: IntArray) -> Array:
        """Score by dot products."""
        scores = np.einsum("bd,bmd->bm", self.users[users], self.items[items])
        return np.asarray(scores if self.bias is None else scores + self.bias[items])

    digest, __repr__ = _digest, _describe

    def __getstate__(self) -> dict[str, Any]:
        # A memory-mapped table travels to another process as its address on disk, not as its content.
        return {key: _address(each) if isinstance(each, np.ndarray) else each for key, each in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        settle(self, **{key: each() if isinstance(each, partial) else each for key, each in state.items()})


@dataclass(frozen=True, eq=False, repr=False)
class ItemItem:
    """score(u, i) = Σ_j history[u, j] · similarity[j, i]: neighbourhood models (sparse) and EASE or SLIM (dense)."""

    similarity: Any
    history: Any
    name: str = "item-item"
    n_users: int = field(init=False)
    n_items: int = field(init=False)

    def __post_init__(self) -> None:
        similarity, history = matrix_of(self.similarity, "item similarities"), sp.csr_matrix(self.history)
        if similarity.shape[0] != similarity.shape[1]:
            raise ValueError(f"model `{self.name}` must have items × items similarities, got shape {similarity.shape}.")
        if history.shape[1] > similarity.shape[0]:
            raise ValueError(
                f"model `{self.name}` knows {similarity.shape[0]:,} items, but its users' histories hold "
                f"{history.shape[1]:,}; fit it on the split's own `train`."
            )
        history = canonical_csr(history).astype(similarity.dtype, copy=False)
        if history.shape[1] < similarity.shape[0]:  # nobody has met the items at the end
            parts, width = (history.data, history.indices, history.indptr), similarity.shape[0]
            history = sp.csr_matrix(parts, shape=(history.shape[0], width))
        settle(self, similarity=similarity, history=history, n_users=history.shape[0], n_items=similarity.shape[0])

    def score(self, users: IntArray, items: IntArray) -> Array:
        """Multiply histories by similarities and pick the items."""
        rows = self.history[users] @ self.similarity
        rows = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
        return np.take_along_axis(rows, items, axis=1)

    digest, __repr__ = _digest, _describe


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Stored scores, one sparse row per user; a pair that is not there ranks below all that are (its score is −∞)."""

    scores: Any
    name: str = "scores"
    n_users: int = field(init=False)
    n_items: int = field(init=False)

    def __post_init__(self) -> None:
        scores = matrix_of(self.scores, "scores")
        settle(self, scores=scores, n_users=scores.shape[0], n_items=scores.shape[1])

    def score(self, users: IntArray, items: IntArray) -> Array:
        """Look the pairs up."""
        rows = np.full((len(users), self.n_items), -np.inf, dtype=self.scores.dtype)
        for row, user in zip(rows, users, strict=True):
            span = slice(*self.scores.indptr[[user, user + 1]])
            row[self.scores.indices[span]] = self.scores.data[span]
        return np.take_along_axis(rows, items, axis=1)

    digest, __repr__ = _digest, _describe


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """A model that scores the whole catalogue at once: ``rows(users)`` returns (b, n_items)."""

    rows: Callable[[IntArray], Any]
    n_items: int
    n_users: int | None = None
    name: str = "rows"

    def score(self, users: IntArray, items: IntArray) -> Array:
        """Ask for whole rows and pick the items."""
        return np.take_along_axis(to_numpy(self.rows(users)), items, axis=1)

    __repr__ = _describe


@dataclass(frozen=True, eq=False, repr=False)
class Pairs:
    """A function ``score(users, items)`` of positions: users (b,), items (b, m), scores (b, m); or of flat pairs.

    ``flat`` says that users, items and scores are all of shape (b·m,), as in ``(U[u] * V[i]).sum(-1)``; scores of shape
    (b·m, 1) will do. ``None`` finds out at the first call: the function is asked for a few pairs in the first form and, if
    it fails or gives another shape, in the second. They have b = 2 and m = 3, for with b = m, or one of them 1, a function
    of flat pairs could give the right shape and wrong scores. Every pair is among them twice: a function that scores it
    differently is refused.
    """

    function: Callable[[IntArray, IntArray], Any]
    n_users: int | None = None
    n_items: int | None = None
    name: str = "function"
    flat: bool | None = None

    def score(self, users: IntArray, items: IntArray) -> Array:
        """Call the function and bring its scores into the shape of ``items``."""
        if self.flat is None:
            self._find_form(np.resize(users[:1], 2), np.resize(items[:1, :3], (2, 3)))
        return self._ask(users, items, bool(self.flat))

    def _find_form(self, users: IntArray, items: IntArray) -> None:
        """Ask in both forms and remember the one that is answered."""
        asked, flat = items.ravel().copy(), False
        try:
            scores = self._ask(users, items, flat)
        except Exception as error:  # whatever a function does that was handed the wrong form
            flat = True
            try:
                scores = self._ask(users, items, flat)
                if isinstance(error, _WrongShapeError):
                    self._check_alone(users[:1], items[:1, 1:2], float(scores[0, 1]))
            except Exception as other:
                error.add_note(f"Asked for {items.size} flat pairs instead: {other}")
                if isinstance(error, _WrongShapeError) and isinstance(other, _WrongShapeError):
                    raise ValueError(f"{error} {other}") from None
                raise error from None
        self._check_steady(int(users[0]), asked, scores.ravel())
        settle(self, flat=flat)

    def _check_steady(self, user: int, items: IntArray, scores: Array) -> None:
        """Refuse a function that gives an item, asked for twice, two scores: a rank among them would be one of many."""
        if scores.dtype.kind not in "fiub":
            return  # refused when they are ranked
        _, first, which = np.unique(items, return_index=True, return_inverse=True)
        before = scores[first][which]
        unlike = ~np.isclose(before, scores, rtol=1e-2, atol=1e-6, equal_nan=True)
        if unlike.any():
            at = int(np.argmax(unlike))
            raise ValueError(
                f"model `{self.name}` gave user {user} and item {items[at]} the score {before[at]:g} and then "
                f"{scores[at]:g}; a score must be the same whenever it is asked for: is dropout on, or chance at work?"
            )

    def _check_alone(self, user: IntArray, item: IntArray, together: float) -> None:
        """Refuse a function whose score of a pair is another when it is asked alone: it takes the first form, and errs."""
        alone = float(self._ask(user, item, True)[0, 0])
        if not np.isclose(together, alone, rtol=1e-2, atol=1e-6, equal_nan=True):
            raise _WrongShapeError(
                f"model `{self.name}` gave user {user[0]} and item {item[0, 0]} the score {together:g} among other pairs "
                f"and {alone:g} alone; a score must not depend on the other pairs."
            )

    def _ask(self, users: IntArray, items: IntArray, flat: bool) -> Array:
        users, asked = (np.repeat(users, items.shape[1]), items.ravel()) if flat else (users, items)
        scores = to_numpy(self.function(users, asked))
        if scores.shape != asked.shape and not (flat and scores.shape == (len(asked), 1)):
            raise _WrongShapeError(
                f"model `{self.name}` returned scores of shape {scores.shape} for users of shape {users.shape} and items of "
                f"shape {asked.shape}; it must return one score per item, {asked.shape}."
            )
        return scores.reshape(items.shape)

    __repr__ = _describe


class _WrongShapeError(ValueError):
    """Says that scores came back in a shape that nobody asked for."""


_ALLOWED = (
    "a pair of factor arrays (U, V), a function score(users, items), an object with such a method, a model of implicit, "
    "LensKit, Cornac or RecBole, a torch module, a frame with user_id, item_id and score, or a users × items matrix"
)


def as_scorer(model: Any, split: Any = None, *, name: str | None = None) -> Any:
    """Take any model as a `Scorer`; structure that allows a fast path is found and used.

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
    the split's ``user_ids`` and ``item_ids`` translate; without them, names are positions. Rows of a frame whose user or
    item the split does not have are left out, with a warning; every user with a test case must have a row.
    """
    from fullrank.models.adapters import recognise

    if split is not None:
        check_split(split)
    found = recognise(model, split, name)
    if found is None:
        got, hint = f"a {type(model).__module__}.{type(model).__qualname__}", ""
        if isinstance(model, type):
            got = f"the class `{model.__name__}`"
            hint = f" This is a class: did you mean an instance, `{model.__name__}(...)`, fitted?"
        elif isinstance(model, str):
            got, hint = f"the string {model!r}", " Load the model first."
        elif hasattr(model, "fit"):
            hint = " Is it fitted?"
        raise TypeError(f"`model` must be {_ALLOWED}, got {got}.{hint}")
    return found


def settle(value: Any, **fields: Any) -> None:
    """Set fields of a frozen value: while it is made, or when it finds out what it was asked to find out."""
    for name, each in fields.items():
        object.__setattr__(value, name, each)


def _address(array: Array) -> Array | partial[Array]:
    """Return how to map an array that is all of a memory-mapped file; any other array itself."""
    root: Any = array
    while isinstance(root, np.ndarray) and not isinstance(root.base, mmap.mmap):
        root = root.base
    if not isinstance(root, np.memmap) or root.filename is None:
        return np.asarray(array)
    whole = (root.shape, root.dtype, root.ctypes.data) == (array.shape, array.dtype, array.ctypes.data)
    how = (str(root.filename), array.dtype.str, "r", root.offset, array.shape)
    return partial(np.memmap, *how) if whole else np.asarray(array)


def matrix_of(values: Any, what: str) -> Any:
    """Return a matrix of numbers as a C-ordered array, or a canonical CSR matrix, of float32 or float64."""
    if sp.issparse(values):
        _check_numbers(values.dtype, f"the {what}")
        csr = canonical_csr(values)
        return csr.astype(float_type(csr.dtype), copy=False)
    array = floats(values, f"the {what}")
    if array.ndim != 2:
        raise ValueError(f"the {what} must be a matrix, got shape {array.shape}.")
    return array


def floats(values: Any, what: str = "scores") -> Array:
    """Return numbers as a C-ordered array of float32 or float64."""
    array = to_numpy(values)
    _check_numbers(array.dtype, what)
    return np.asarray(array, dtype=float_type(array.dtype), order="C")


def _check_numbers(kind: np.dtype[Any], what: str) -> None:
    """Refuse texts and objects, and complex numbers, of which none is above another."""
    if kind.kind not in "fiub":
        raise TypeError(f"{what} must be numbers, got {kind}.")


def float_type(kind: Any) -> np.dtype[Any]:
    """Return the type of scores made from numbers of this type: float32 and float64 stay, half precision becomes float32."""
    kind = np.dtype(kind)
    return kind if kind in (np.float32, np.float64) else np.dtype(np.float32 if kind == np.float16 else np.float64)


def bias_of(bias: Any, n_items: int, kind: Any, name: str) -> Array | None:
    """Return a bias as an array with one number per item; None remains None."""
    if bias is None:
        return None
    bias = np.ascontiguousarray(floats(bias, f"the item bias of model `{name}`"), dtype=kind)
    if bias.shape != (n_items,):
        raise ValueError(f"model `{name}` must have one item bias per item, ({n_items},), got shape {bias.shape}.")
    return np.asarray(bias)


def to_numpy(values: Any) -> Array:
    """Return any array, torch tensors and implicit's GPU matrices included, as NumPy's."""
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # NumPy has no such type
            values = values.float()
        return np.asarray(values.numpy())
    if hasattr(values, "to_numpy") and not is_frame(values):  # implicit's GPU matrices
        return np.asarray(values.to_numpy())
    return np.asarray(values)


def digest_of(*given: Any, most: int = 1 << 24) -> str:
    """Return a checksum of arrays and CSR matrices; of evenly spaced parts of arrays above ``most`` bytes."""
    digest = hashlib.sha256()
    parts = [(each.indptr, each.indices, each.data) if sp.issparse(each) else (each,) for each in given]
    for array in (part for each in parts for part in each if part is not None):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if array.nbytes > most:
            rows = max(1, int(len(array) * most / array.nbytes))
            array = array[np.linspace(0, len(array) - 1, rows).astype(np.int64)]
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def is_array(model: Any) -> bool:
    """Say whether something is an array of NumPy or torch."""
    return isinstance(model, np.ndarray) or (hasattr(model, "detach") and hasattr(model, "numpy"))


def is_frame(model: Any) -> bool:
    """Say whether something is a frame, or a mapping of arrays."""
    return isinstance(model, Mapping) or hasattr(model, "columns") or hasattr(model, "column_names")


def holds_scores(model: Any) -> bool:
    """Say whether something is a frame with columns of users, items and scores, or a mapping of such columns."""
    if isinstance(model, Mapping):
        if not all(is_array(each) or isinstance(each, list) or hasattr(each, "to_numpy") for each in model.values()):
            return False  # models by name
        names = model
    elif is_frame(model):
        names = getattr(model, "column_names", None) or model.columns
    else:
        return False
    known = [name for name in names if isinstance(name, str)]
    return all(find_column(known, what) is not None for what in ("user", "item", "score"))
