"""Neighbourhood models: items like the ones in the user's history, by cosine or BM25.

`ItemCF` has the knobs of kr20 §9, `ItemKNN` is what most libraries call by that name. Similarities are made strip by strip
(as many rows as fit in little memory), so that with a bounded number of neighbours any catalogue will do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from fullrank._checks import check_choice, check_flag, check_number, check_whole
from fullrank._progress import bar
from fullrank.models.fitted import FittedItemItem, describe, history_of

_STRIP_CELLS = 1 << 24
_DENSE_SHARE = 1 / 3  # above this share of cells a dense matrix is smaller (8 against 12 bytes a cell) and faster


@dataclass(frozen=True, repr=False)
class ItemCF:
    """Item-based collaborative filtering with the knobs of kr20 §9.

    s_ij = cos(i, j)^power over the sets of users (eq. 27); of these, j in the history counts for the scored item i only if
    i is among the ``history_neighbours`` items nearest to j, and j among the ``scored_neighbours`` nearest to i (eq. 28;
    None: all; ties go to the lower position); each scored item's row is divided by its L2 norm if ``normalise`` (eq. 29);
    score(u, i) = Σ_{j in the history of u} s''_ij. The denominator of eq. 30 would cancel the normalisation and is left
    out: the published numbers are met without it.

    ``keep_self``: whether an item is its own neighbour. This matters for unseen items too: it takes part in the norm and
    in the count of neighbours.

    >>> import numpy as np
    >>> train = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]])
    >>> ItemCF(normalise=False).fit(train).score(np.array([0]), np.array([[0, 1, 2]])).round(3)  # 2/√6, 2/√6, 1/√3
    array([[0.816, 0.816, 0.577]])
    >>> ItemCF.kr20_z()
    ItemCF(history_neighbours=10)
    """

    power: float = 1.0
    keep_self: bool = False
    history_neighbours: int | None = None
    scored_neighbours: int | None = None
    normalise: bool = True
    max_gigabytes: float = field(default=4.0, repr=False)

    def __post_init__(self) -> None:
        check_number("power", self.power, above=0)
        check_flag("keep_self", self.keep_self)
        check_whole("history_neighbours", self.history_neighbours, 1, none=True)
        check_whole("scored_neighbours", self.scored_neighbours, 1, none=True)
        check_flag("normalise", self.normalise)
        check_number("max_gigabytes", self.max_gigabytes, above=0)

    @classmethod
    def kr20_y(cls) -> ItemCF:
        """Recommender Y of kr20: cosine cubed, all neighbours, the item itself among them."""
        return cls(power=3.0, keep_self=True)

    @classmethod
    def kr20_z(cls) -> ItemCF:
        """Recommender Z of kr20: cosine, each item of the history scores only its 10 nearest."""
        return cls(power=1.0, keep_self=False, history_neighbours=10)

    def fit(self, train: Any, *, progress: bool = True) -> FittedItemItem:
        """Compute similarities, keep the nearest neighbours, and normalise."""
        history = history_of(train)
        if self.history_neighbours is None:
            # all similarities, at most Σ n_u² of 12 bytes, are kept, twice while strips are joined
            pairs = int((np.diff(history.indptr).astype(np.int64) ** 2).sum())
            needed = 24 * min(pairs, history.shape[1] ** 2) / 1e9
            if needed > self.max_gigabytes:
                raise ValueError(
                    f"`ItemCF` with all neighbours may need {needed:.1f} GB for {history.shape[1]:,} items, and "
                    f"`max_gigabytes` is {self.max_gigabytes:g}: set `history_neighbours`, or raise it where memory allows."
                )
        forward, backward = [], []
        for strip in _similarities(history.T.tocsr(), "ItemCF", progress, keep_self=self.keep_self):
            strip.data **= self.power
            forward.append(strip if self.history_neighbours is None else _nearest(strip, self.history_neighbours))
            if self.scored_neighbours is not None:  # by symmetry of s a row is also a column
                backward.append(_nearest(strip, self.scored_neighbours))
        similarity = sp.vstack(forward, format="csr")
        if backward:
            similarity = similarity.multiply(sp.vstack(backward, format="csr").T.astype(bool)).tocsr()
        if self.normalise:
            squares = np.bincount(similarity.indices, similarity.data**2, similarity.shape[1])
            similarity.data /= np.sqrt(squares)[similarity.indices]
        return FittedItemItem(self, _densest(similarity), history)

    __repr__ = describe


@dataclass(frozen=True, repr=False)
class ItemKNN:
    """score(u, i) = Σ_{j in the history of u} s_ji, j scoring only the ``neighbours`` items nearest to it (itemKNN).

    (Deshpande & Karypis, TOIS 2004, without normalisation.) ``weighting``: ``"cosine"``, or ``"bm25"`` with ``k1`` and
    ``b``: s = W Wᵀ, where item i is a document and its users are the terms,
    w_iu = (k1 + 1) / (k1 (1 − b + b n_i / n̄) + 1) · (log |I| − log(1 + n_u)), n_i and n_u counting interactions.
    ``keep_self``: whether an item is its own neighbour and takes up one of the places, as in the `implicit` package. It
    lifts what the user already has, so it matters when candidates are ``"all"``. Ties go to the lower position.

    >>> import numpy as np
    >>> model = ItemKNN(neighbours=1).fit(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]]))
    >>> model.score(np.array([0]), np.array([[0, 1, 2]])).round(3)  # item 2 is nobody's nearest
    array([[0.816, 0.816, 0.   ]])
    """

    neighbours: int = 100
    weighting: Literal["cosine", "bm25"] = "cosine"
    keep_self: bool = False
    k1: float = 1.2
    b: float = 0.75

    def __post_init__(self) -> None:
        check_whole("neighbours", self.neighbours, 1)
        check_choice("weighting", self.weighting, ("cosine", "bm25"))
        check_flag("keep_self", self.keep_self)
        check_number("k1", self.k1)
        check_number("b", self.b, most=1)

    def fit(self, train: Any, *, progress: bool = True) -> FittedItemItem:
        """Compute similarities and keep the nearest neighbours."""
        history = history_of(train)
        weights, cosine = history.T.tocsr(), self.weighting == "cosine"
        if not cosine:
            sizes, times = np.diff(weights.indptr), np.bincount(weights.indices, minlength=weights.shape[1])
            lengths = self.k1 * (1 - self.b + self.b * sizes / (sizes.mean() or 1.0)) + 1
            rarity = np.log(weights.shape[0]) - np.log1p(times)
            weights.data = np.repeat((self.k1 + 1) / lengths, sizes) * rarity[weights.indices]
        strips = _similarities(weights, "ItemKNN", progress, keep_self=self.keep_self, cosine=cosine)
        similarity = sp.vstack([_nearest(strip, self.neighbours) for strip in strips], format="csr")
        return FittedItemItem(self, _densest(similarity), history)

    __repr__ = describe


def _similarities(weights: Any, what: str, progress: bool, *, keep_self: bool, cosine: bool = True) -> Iterator[Any]:
    """Yield rows of W Wᵀ, a strip at a time, indices sorted; of cosines, n_ij / √(n_i n_j), W being ones.

    Counts are exact, and equal counts give equal cosines.
    """
    n, counts = weights.shape[0], np.diff(weights.indptr).astype(np.float64)
    turned = weights.T.tocsr()
    step = max(1, _STRIP_CELLS // n)
    with bar(progress, n, what) as steps:
        for first in range(0, n, step):
            strip = weights[first : first + step] @ turned
            strip.sort_indices()
            rows = np.repeat(np.arange(first, first + strip.shape[0]), np.diff(strip.indptr))
            if cosine:
                strip.data /= np.sqrt(counts[rows] * counts[strip.indices])
            if not keep_self:
                strip.data[strip.indices == rows] = 0.0
                strip.eliminate_zeros()
            yield strip
            steps.update(strip.shape[0])


def _nearest(strip: Any, k: int) -> Any:
    """Keep the ``k`` largest entries of each row; of equals those at the lower position."""
    out = strip.copy()
    for row in np.flatnonzero(np.diff(strip.indptr) > k):
        span = slice(strip.indptr[row], strip.indptr[row + 1])
        values = strip.data[span]
        least = np.partition(values, -k)[-k]
        chosen = values > least
        chosen[np.flatnonzero(values == least)[: k - int(chosen.sum())]] = True
        out.data[span] = np.where(chosen, values, 0.0)
    out.eliminate_zeros()
    return out


def _densest(similarity: Any) -> Any:
    """Return the matrix as a dense array where that is the smaller one."""
    n = similarity.shape[0]
    return similarity.toarray() if similarity.nnz > _DENSE_SHARE * n * n else similarity
