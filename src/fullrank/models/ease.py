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
        if 2 * history.shape[0] <= n:
            return FittedItemItem(self, _from_users(history, self.l2, progress), history.astype(np.float32))
        with bar(progress, 3, "EASE") as steps:
            items, gram = history.T.tocsr(), np.empty((n, n))
            for first in range(0, n, _STRIP):
                gram[first : first + _STRIP] = (items[first : first + _STRIP] @ history).toarray()
            gram.flat[:: n + 1] += self.l2
            steps.update()
            _invert(gram)
            steps.update()
            similarity = _coefficients(gram)
            steps.update()
        return FittedItemItem(self, similarity, history.astype(similarity.dtype))

    __repr__ = describe


def _from_users(history: Any, l2: float, progress: bool) -> Array:
    """Compute B by way of the users: (XᵀX + l2 I)⁻¹ = (I − G)/l2 with G = Xᵀ(XXᵀ + l2 I)⁻¹X, so B_ij = G_ij/(1 − G_jj)."""
    users = (history @ history.T).toarray()
    users.flat[:: len(users) + 1] += l2
    _invert(users)
    users = np.triu(users) + np.triu(users, 1).T
    items = history.T.tocsr()
    n = items.shape[0]
    out = np.empty((n, n), dtype=np.float32)
    with bar(progress, n, "EASE") as steps:
        for first in range(0, n, _STRIP):
            strip = items @ (items[first : first + _STRIP] @ users).T
            diagonal = strip[np.arange(first, first + strip.shape[1]), np.arange(strip.shape[1])]
            out[:, first : first + _STRIP] = strip / (1 - diagonal)
            steps.update(strip.shape[1])
    np.fill_diagonal(out, 0.0)
    return out


def _invert(matrix: Array) -> None:
    """Replace a positive definite matrix by its inverse, of which only the upper triangle is filled."""
    from scipy.linalg import lapack

    # LAPACK keeps columns together, NumPy rows: its lower triangle is our upper one
    factor, info = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if info == 0:
        factor, info = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if info != 0 or not np.shares_memory(factor, matrix):
        raise ValueError("`EASE` could not invert XᵀX + l2 I: `l2` is too small for these data.")


def _coefficients(inverse: Array) -> Array:
    """Compute B from the upper triangle of P, in single precision."""
    n = len(inverse)
    out = np.empty((n, n), dtype=np.float32)
    scale = -1.0 / np.diag(inverse)
    for first in range(0, n, _STRIP):
        last = min(first + _STRIP, n)
        strip = inverse[first:last, first:]
        corner = np.triu(strip[:, : last - first])
        strip = np.hstack([corner + np.triu(corner, 1).T, strip[:, last - first :]])
        out[first:last, first:] = strip * scale[first:]
        out[first:, first:last] = strip.T * scale[first:last]
    np.fill_diagonal(out, 0.0)
    return out
