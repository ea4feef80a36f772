"""Fitted recommenders: their parameters beside the arrays that score, ready to save.

There are two kinds, both scored by compiled loops: factors (popularity is factors of width 0 and a bias per item) and
item-item similarities over the users' histories. Recommenders and kinds from elsewhere join by :func:`register`.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank._archive import read_archive, write_archive
from fullrank._types import Array
from fullrank.models.scorer import Factors, ItemItem

_FORMAT, _VERSION = "fullrank model", 1
#: By name: files name the class, and only these are ever made from a file.
_RECOMMENDERS: dict[str, type] = {}


def _describe_fitted(model: Any) -> str:
    return f"{model.name} fitted on {model.n_users:,} users × {model.n_items:,} items"


class FittedFactors(Factors):
    """score(u, i) = user_factors[u] · item_factors[i] + item_bias[i], and the parameters it was fitted with."""

    recommender: Any

    def __init__(self, recommender: Any, user_factors: Array, item_factors: Array, item_bias: Any = None) -> None:
        super().__init__(user_factors, item_factors, item_bias, name=describe(recommender))
        self.__dict__["recommender"] = recommender  # of a frozen value

    user_factors = property(attrgetter("users"))
    item_factors = property(attrgetter("items"))
    item_bias = property(attrgetter("bias"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to ``path``, atomically and without pickle; `load_model` reads it."""
        arrays = {"user_factors": self.users, "item_factors": self.items}
        if self.bias is not None:
            arrays["item_bias"] = self.bias
        save_model(path, "factors", self.recommender, arrays)

    __repr__ = _describe_fitted


class FittedItemItem(ItemItem):
    """score(u, i) = Σ_{j in the history of u} similarity[j, i], sparse or dense, and the parameters it was fitted with."""

    recommender: Any

    def __init__(self, recommender: Any, similarity: Any, history: Any) -> None:
        super().__init__(similarity, history, name=describe(recommender))
        self.__dict__["recommender"] = recommender  # of a frozen value

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to ``path``, atomically and without pickle; `load_model` reads it.

        Histories are saved with the similarities: a loaded model scores its users without the training data.
        """
        arrays = {"history_indptr": self.history.indptr.astype(np.int64), "history_indices": self.history.indices}
        if sp.issparse(self.similarity):
            arrays |= {f"similarity_{part}": getattr(self.similarity, part) for part in ("indptr", "indices", "data")}
        else:
            arrays["similarity"] = self.similarity
        save_model(path, "item-item", self.recommender, arrays)

    __repr__ = _describe_fitted


def register(*recommenders: type, **kinds: Callable[[Any, dict[str, Array]], Any]) -> None:
    """Let models of these classes be saved, and loaded by :func:`load_model`; they must be dataclasses of parameters.

    A fitted model that is neither factors nor item-item similarities has a kind of its own: ``kinds`` names a function from
    (recommender, arrays) to the model, as in ``register(NeuMF, neumf=FittedNeuMF.loaded)``.
    """
    for each in recommenders:
        if not isinstance(each, type) or not dataclasses.is_dataclass(each):
            raise TypeError(f"`recommenders` must be dataclasses, got {each!r}.")
        other = _RECOMMENDERS.setdefault(each.__name__, each)
        if other is not each and (other.__module__, other.__qualname__) != (each.__module__, each.__qualname__):
            raise ValueError(f"there is a recommender {each.__name__!r} already, in {other.__module__}: rename yours.")
        _RECOMMENDERS[each.__name__] = each
    for kind, load in kinds.items():
        if kind in ("factors", "item-item"):
            raise ValueError(f"`{kind}` is a kind of fullrank's own: choose another name.")
        _KINDS[kind] = load


def save_model(path: str | os.PathLike[str], kind: str, recommender: Any, arrays: Mapping[str, Array]) -> None:
    """Write a fitted model to ``path``, atomically and without pickle; :func:`load_model` reads it."""
    name = type(recommender).__name__
    if name not in _RECOMMENDERS:
        raise TypeError(
            f"a model fitted by {name!r} cannot be saved; those that can are {', '.join(_RECOMMENDERS)}: "
            "add yours with `fullrank.models.register`."
        )
    about = {"kind": kind, "recommender": name, "parameters": dataclasses.asdict(recommender)}
    write_archive(path, {"format": _FORMAT, "version": _VERSION, **about}, arrays)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a fitted model written by its ``save``; anything else, or a damaged file, is refused. Nothing is unpickled."""
    header, arrays = read_archive(path, _FORMAT, _VERSION, "a saved model")
    try:
        name, kind = str(header["recommender"]), str(header["kind"])
        if name not in _RECOMMENDERS:
            raise ValueError(
                f"its recommender is {name!r}, which this fullrank does not know: import the package that defines it first"
            )
        if kind not in _KINDS:
            raise ValueError(f"its kind is {kind!r}")
        return _KINDS[kind](_RECOMMENDERS[name](**header["parameters"]), arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ValueError(f"{str(path)!r} is not a saved model, or is damaged: {reason}.") from None


def _item_item(recommender: Any, arrays: dict[str, Array]) -> FittedItemItem:
    similarity = arrays.get("similarity")
    if similarity is None:
        data, indices, indptr = (arrays[f"similarity_{part}"] for part in ("data", "indices", "indptr"))
        similarity = _checked_csr(data, indices, indptr, len(indptr) - 1)
    indptr, indices = arrays["history_indptr"], arrays["history_indices"]
    ones = np.ones(len(indices), dtype=similarity.dtype)
    return FittedItemItem(recommender, similarity, _checked_csr(ones, indices, indptr, similarity.shape[0]))


def _checked_csr(data: Array, indices: Array, indptr: Array, n_items: int) -> Any:
    matrix = sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, n_items))
    matrix.check_format(full_check=True)  # indices out of range would be read by compiled loops
    return matrix


#: How the arrays of each kind become a model.
_KINDS: dict[str, Callable[[Any, dict[str, Array]], Any]] = {
    "factors": lambda recommender, arrays: FittedFactors(recommender, **arrays),
    "item-item": _item_item,
}


def describe(recommender: Any) -> str:
    """Write a recommender as one would: with the parameters that differ from the defaults."""
    values = ((each, getattr(recommender, each.name)) for each in dataclasses.fields(recommender) if each.repr)
    given = [f"{each.name}={value!r}" for each, value in values if value != each.default]
    return f"{type(recommender).__name__}({', '.join(given)})"


def history_of(train: Any) -> Any:
    """Return the training matrix as histories: a canonical CSR matrix of ones, whatever the values were.

    Every entry that is not 0 is an interaction. Dense matrices and other sparse formats are converted; `train` itself is
    never changed.
    """
    if not (sp.issparse(train) or isinstance(train, np.ndarray)):
        hint = "; did you mean `split.train`?" if hasattr(train, "train") else "."
        raise TypeError(f"`train` must be a users × items matrix, sparse or dense, got a {type(train).__name__}{hint}")
    if train.ndim != 2 or 0 in train.shape:
        raise ValueError(f"`train` must be a users × items matrix with at least one of each, got shape {train.shape}.")
    if train.dtype.kind not in "fiub":
        raise TypeError(f"`train` must hold numbers, got {train.dtype}.")
    matrix = sp.csr_matrix(train, dtype=np.float64, copy=True)
    if not np.isfinite(matrix.data).all():
        raise ValueError("`train` holds values that are not finite; an interaction is any other number than 0.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.data[:] = 1.0
    return matrix
