"""EASE: a linear item-item model in closed form (Steck, "Embarrassingly Shallow Autoencoders", WWW 2019)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fullrank._checks import check_number
from fullrank._progress import bar
from fullrank._types import Array
from fullrank.models.fitted import FittedItemItem, describe, history_of

_STRIP = 1024  # rows handled at once, so that nothing but the two matrices needs memory


@dataclass(frozen=True, repr=False)
class EASE:
    """argmin ‖X − XB‖² + l2 ‖B‖² with diag(B) = 0:  B_ij = −P_ij / P_jj for i ≠ j, P = (XᵀX + l2 I)⁻¹ (Steck 2019, eq. 8).

    B is items × items and dense: fitting takes 12 bytes a cell (P in double precision, B in single), and more than
    ``max_gigabytes`` is refused. ``l2`` is the only parameter: larger for few interactions per item. With fewer than half as
    many users as items the users' side is inverted instead, which gives the same B in a fraction of the time.

    >>> import numpy as np
    >>> model = EASE(l2=1.0).fit(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))
    >>> model.score(np.array([0]), np.array([[0, 1, 2]]))  # items 0 and 1 come together, item 2 alone
    array([[0.666..., 0.666..., 0.   ]], dtype=float32)
    """

    l2: float = 500.0
    max_gigabytes: float = field(default=4.0, repr=False)

    def __post_init__(self) -> None:
        check_number("l2", self.l2, above=0)
        check_number("max_gigabytes", self.max_gigabytes, above=0)

    def fit(self, train: Any, *, progress: bool = True) -> FittedItemItem:
        """Fit the weights of all items by one inversion of the regularised Gram matrix."""
        history = history_of(train)
        n = history.shape[1]
        needed = 12 * n * n / 1e9
        if needed > self.max_gigabytes:
            raise ValueError(
                f"`EASE` on {n:,} items needs {needed:.1f} GB for its dense similarities, and `max_gigabytes` is "
                f"{self.max_gigabytes:g}: raise it where memory allows, or take `ItemKNN` or `ALS`."
            )
        with bar(progress, n, "EASE") as steps:
            similarity = (_from_users if 2 * history.shape[0] <= n else _from_items)(history, self.l2, steps)
        np.fill_diagonal(similarity, 0.0)
        return FittedItemItem(self, similarity, history.astype(np.float32))

    __repr__ = describe


def _from_items(history: Any, l2: float, steps: Any) -> Array:
    """Compute B by the inverse P of the items' Gram matrix."""
    n = history.shape[1]
    items, gram = history.T.tocsr(), np.empty((n, n))
    for first in range(0, n, _STRIP):
        gram[first : first + _STRIP] = (items[first : first + _STRIP] @ history).toarray()
    _invert(gram, l2)
    steps.update(n)
    return np.multiply(gram, -1.0 / np.diag(gram), out=np.empty((n, n), dtype=np.float32))


def _from_users(history: Any, l2: float, steps: Any) -> Array:
    """Compute B by way of the users: (XᵀX + l2 I)⁻¹ = (I − G)/l2 with G = Xᵀ(XXᵀ + l2 I)⁻¹X, so B_ij = G_ij/(1 − G_jj)."""
    users = (history @ history.T).toarray()
    _invert(users, l2)
    items = history.T.tocsr()
    n = items.shape[0]
    out = np.empty((n, n), dtype=np.float32)
    for first in range(0, n, _STRIP):
        strip = items @ (items[first : first + _STRIP] @ users).T
        out[:, first : first + _STRIP] = strip / (1 - np.diag(strip, -first))
        steps.update(strip.shape[1])
    return out


def _invert(gram: Array, l2: float) -> None:
    """Replace a Gram matrix G by (G + l2 I)⁻¹, in its own memory."""
    from scipy.linalg import lapack

    gram.flat[:: len(gram) + 1] += l2
    # LAPACK keeps columns together, NumPy rows: its lower triangle is our upper one
    factor, info = lapack.dpotrf(gram.T, lower=1, clean=0, overwrite_a=1)
    if info == 0:
        factor, info = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if info != 0 or not np.shares_memory(factor, gram):
        raise ValueError("`EASE` could not invert XᵀX + l2 I: `l2` is too small for these data.")
    for first in range(0, len(gram), _STRIP):  # the lower triangle mirrors the upper one, which LAPACK has filled
        last = first + _STRIP
        corner = np.triu(gram[first:last, first:last])
        gram[first:last, first:last] = corner + np.triu(corner, 1).T
        gram[last:, first:last] = gram[first:last, last:].T
