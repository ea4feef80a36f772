"""Matrix factorisation of implicit feedback by alternating least squares: our own, and implicit's.

(Hu, Koren & Volinsky, ICDM 2008, in the parametrisation of kr20 §9.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fullrank._checks import check_number, check_whole, require
from fullrank._progress import bar
from fullrank._threads import ONE_BLAS_THREAD
from fullrank._types import FloatArray
from fullrank.models.fitted import FittedFactors, describe, history_of

_CELLS = 1 << 21  # of the small systems solved together: 16 MB
_SHORT = 0.5  # share of the width up to which a history is short


@dataclass(frozen=True, repr=False)
class ALS:
    """argmin_V Σ_{(u,i) in train} (ŷ − 1)² + alpha Σ_{all u,i} ŷ² + regularization ‖V‖², ŷ(u, i) = v_u · v_i (kr20 §9).

    Each round solves for all users, then for all items, exactly: v_u = (λI + αVᵀV + Σ_{i∈H(u)} v_i v_iᵀ)⁻¹ Σ_{i∈H(u)} v_i.
    Items start at random (``rng``: a whole number, so that equal values are equal models) with standard deviation
    0.1/√factors. Users and items without interactions get factors of 0.

    >>> import numpy as np
    >>> train = np.kron(np.eye(2), np.ones((3, 2)))  # two tastes: users 0-2 have items 0-1, users 3-5 items 2-3
    >>> model = ALS(factors=2, regularization=0.1, iterations=20).fit(train)
    >>> model
    ALS(factors=2, regularization=0.1, iterations=20) fitted on 6 users × 4 items
    >>> model.score(np.array([0]), np.array([[0, 1, 2, 3]])).round(1) + 0.0
    array([[0.9, 0.9, 0. , 0. ]], dtype=float32)
    """

    factors: int = 64
    regularization: float = 3.0
    alpha: float = 0.1
    iterations: int = 15
    rng: int = 0

    def __post_init__(self) -> None:
        _check_parameters(self, above_zero="regularization")

    @classmethod
    def kr20_x(cls, rng: int = 0) -> ALS:
        """Recommender X of kr20: 16 factors, λ = 10, α = 0.2. Met closely, not exactly: its start is random."""
        return cls(factors=16, regularization=10.0, alpha=0.2, iterations=20, rng=rng)

    def fit(self, train: Any, *, progress: bool = True) -> FittedFactors:
        """Fit the factors of users and of items in turn, ``iterations`` times."""
        users = history_of(train)
        items = users.T.tocsr()
        start = np.random.default_rng(self.rng).normal(0, 0.1 / np.sqrt(self.factors), (users.shape[1], self.factors))
        right = start * (np.diff(items.indptr) > 0)[:, None]
        left = np.zeros((users.shape[0], self.factors))
        with bar(progress, self.iterations, "ALS") as rounds:
            for _ in range(self.iterations):
                left = _solve(users, right, self.regularization, self.alpha)
                right = _solve(items, left, self.regularization, self.alpha)
                rounds.update()
        # single precision: half the memory and twice the speed, and far below what the random start changes
        return FittedFactors(self, left.astype(np.float32), right.astype(np.float32))

    __repr__ = describe


def _check_parameters(given: Any, *, above_zero: str) -> None:
    for name, least in (("factors", 1), ("iterations", 1), ("rng", 0)):
        check_whole(name, getattr(given, name), least)
    for name in ("regularization", "alpha"):
        check_number(name, getattr(given, name), above=0 if name == above_zero else None)


def _solve(matrix: Any, fixed: FloatArray, regularization: float, alpha: float) -> FloatArray:
    """Solve for the best factors of all rows of ``matrix``, those of its columns being ``fixed``; empty rows get 0.

    With A = λI + αVᵀV shared by all rows and F the factors of a row's h columns, the answer is (A + FᵀF)⁻¹Fᵀ1, a system
    as wide as the factors, or, the same by Woodbury, A⁻¹Fᵀ(I + FA⁻¹Fᵀ)⁻¹1, one of size h: better for short histories.
    """
    width = fixed.shape[1]
    shared = alpha * (fixed.T @ fixed) + regularization * np.eye(width)
    solved = np.linalg.solve(shared, fixed.T).T  # rows of V A⁻¹
    sizes = np.diff(matrix.indptr)
    out = np.zeros((matrix.shape[0], width))
    for size in np.unique(sizes[(sizes > 0) & (sizes <= _SHORT * width)]):
        for rows in _pieces(np.flatnonzero(sizes == size), size * width):
            seen = matrix.indices[matrix.indptr[rows][:, None] + np.arange(size)]
            ours = solved[seen]
            systems = ours @ fixed[seen].transpose(0, 2, 1) + np.eye(size)
            out[rows] = (np.linalg.solve(systems, np.ones((len(rows), size, 1))) * ours).sum(axis=1)
    for rows in _pieces(np.flatnonzero(sizes > _SHORT * width), width * width):
        systems, sides = np.empty((len(rows), width, width)), np.empty((len(rows), width, 1))
        for at, row in enumerate(rows):
            factors = fixed[matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]]
            np.matmul(factors.T, factors, out=systems[at])
            factors.sum(axis=0, out=sides[at, :, 0])
        out[rows] = np.linalg.solve(systems + shared, sides)[:, :, 0]
    return out


def _pieces(rows: NDArray[np.intp], cells: int) -> Iterator[NDArray[np.intp]]:
    """Cut rows into pieces of at most ``_CELLS`` cells, so that memory stays bounded."""
    step = max(1, _CELLS // int(cells))
    return (rows[first : first + step] for first in range(0, len(rows), step))


@dataclass(frozen=True, repr=False)
class ImplicitALS:
    """Fits the ALS of the `implicit` package (extra ``implicit``).

    Its loss: Σ_{u,i} c (ŷ − y)² + regularization ‖V‖² with y = 1 and c = ``alpha`` on interactions, y = 0 and c = 1
    elsewhere; solved by conjugate gradients. A model that implicit fitted itself needs no adapter:
    `fullrank.as_scorer` takes it.
    """

    factors: int = 64
    regularization: float = 0.01
    alpha: float = 1.0
    iterations: int = 15
    rng: int = 0

    def __post_init__(self) -> None:
        _check_parameters(self, above_zero="alpha")

    def fit(self, train: Any, *, progress: bool = True) -> FittedFactors:
        """Fit implicit's model and keep its factors."""
        history = history_of(train)
        implicit = require("implicit.als", "`ImplicitALS`", "'fullrank[implicit]', or take `ALS`")
        with ONE_BLAS_THREAD:  # implicit runs its own threads; two kinds would fight for the cores
            given = {key: value for key, value in vars(self).items() if key != "rng"}
            model = implicit.AlternatingLeastSquares(**given, random_state=self.rng, use_gpu=False)
            model.fit(history.astype(np.float32), show_progress=False)
        return FittedFactors(self, np.asarray(model.user_factors), np.asarray(model.item_factors))

    __repr__ = describe
