"""Who met what, and when: any frame, set of arrays or sparse matrix becomes `Interactions` with zero-based positions.

A data set names its users and items as it likes (integers with gaps, ISBNs); everything behind this file works on
positions 0, 1, 2, …  The names are kept beside them, so that a position can always be read back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank._checks import check_whole, did_you_mean, first_where, plural
from fullrank._columns import checked_columns, frame_columns
from fullrank._types import Array, BoolArray, IntArray

#: What interactions hold, in the order of a tuple, and of most files.
COLUMNS = ("user", "item", "rating", "timestamp")
#: The keywords of `interactions`, which others hand on to it.
KEYWORDS = (*COLUMNS, "n_users", "n_items")


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Pairs of user and item as zero-based positions, with rating and time where they are known.

    `user_ids[p]` is the name of the user at position p in the data set; None means that the position is the name.
    Rows keep the order they came in: it decides ties in time (the later row counts as later).

    >>> interactions({"user_id": ["ann", "bob", "ann"], "item_id": [7, 7, 9]})
    Interactions(3 rows, 2 users, 2 items)
    """

    users: IntArray
    items: IntArray
    n_users: int
    n_items: int
    ratings: Array | None = field(default=None, kw_only=True)
    timestamps: Array | None = field(default=None, kw_only=True)
    user_ids: Array | None = field(default=None, kw_only=True)
    item_ids: Array | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        known = {"rating": self.ratings, "time": self.timestamps}
        extra = "".join(f", with {what}" for what, values in known.items() if values is not None)
        sizes = (plural(len(self), "row"), plural(self.n_users, "user"), plural(self.n_items, "item"))
        return f"Interactions({', '.join(sizes)}{extra})"

    @classmethod
    def encoded(
        cls, columns: dict[str, Array], n_users: int | None = None, n_items: int | None = None, *, order: str = "sorted"
    ) -> Interactions:
        """Turn the names in the columns `user` and `item` into positions, see `encode`; the other columns are kept."""
        users, user_ids, n_users = encode(columns["user"], "user", n_users)
        items, item_ids, n_items = encode(columns["item"], "item", n_items, order=order)
        known: dict[str, Any] = {"ratings": columns.get("rating"), "timestamps": columns.get("timestamp")}
        return cls(users, items, n_users, n_items, **known, user_ids=user_ids, item_ids=item_ids)

    @property
    def keys(self) -> IntArray:
        """One number per row, the same for the same pair; ascending by user, then by item."""
        return self.users * self.n_items + self.items

    def take(self, rows: Array) -> Interactions:
        """Return these rows (positions or a mask); users and items keep their positions, even those without a row."""
        columns = {name: getattr(self, name) for name in ("users", "items", "ratings", "timestamps")}
        taken: dict[str, Any] = {name: None if each is None else each[rows] for name, each in columns.items()}
        return replace(self, **taken)

    def distinct(self) -> Interactions:
        """Return every pair once: the earliest of its rows, or the first one where there is no time.

        A user who reviews a place three times has met it once, and met it first at the earliest of the three.
        """
        keys = self.keys
        ordered = np.sort(keys)
        if len(keys) < 2 or bool((ordered[1:] > ordered[:-1]).all()):
            return self
        # lexsort is stable: equal pairs at equal times keep the order of their rows
        order = np.argsort(keys, kind="stable") if self.timestamps is None else np.lexsort((self.timestamps, keys))
        return self.take(np.sort(order[np.diff(keys[order], prepend=-1) > 0]))


def same_sizes(first: Interactions, second: Interactions) -> tuple[Interactions, Interactions]:
    """Give two sets of interactions of one numbering the same numbers of users and items, the larger of both."""
    sizes = {what: max(getattr(first, what), getattr(second, what)) for what in ("n_users", "n_items")}
    return replace(first, **sizes), replace(second, **sizes)


def _close_gaps(codes: IntArray, ids: Array | None, size: int) -> tuple[IntArray, Array | None, int]:
    present = np.zeros(size, dtype=bool)
    present[codes] = True
    if present.all():
        return codes, ids, size
    kept = np.flatnonzero(present)
    if ids is not None:
        ids = ids[kept]
    elif len(kept) and kept[-1] != len(kept) - 1:  # otherwise only the end went, and positions are still the names
        ids = kept
    return (np.cumsum(present) - 1)[codes], ids, len(kept)


def interactions(
    data: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    timestamp: str | None = None,
    n_users: int | None = None,
    n_items: int | None = None,
) -> Interactions:
    """Read users, items, ratings and times from whatever holds them.

    `data` is a frame (pandas, polars, pyarrow or anything narwhals knows), a mapping of column names to arrays, a tuple
    `(users, items[, ratings[, timestamps]])`, a sparse users × items matrix, or `Interactions` (returned unchanged).
    Columns are found under their usual names (`user_id`, `userId`, `query_id`, `item_id`, `movieId`, `doc_id`,
    `rating`, `timestamp`, …); `user`, `item`, `rating`, `timestamp` name them outright. Names may be integers or
    strings; they get the positions 0, 1, 2, … in sorted order. With `n_users` (`n_items`) given, the names *are*
    positions and are kept: use it when row p of a trained model belongs to user p and some positions have no
    interaction.

    >>> interactions(([4, 4, 9], [0, 2, 2])).user_ids
    array([4, 9])
    """
    if isinstance(data, Interactions):
        return data
    n_users, n_items = sizes_of(data, n_users, n_items)
    columns = raw_columns(data, user=user, item=item, rating=rating, timestamp=timestamp)
    return Interactions.encoded(columns, n_users, n_items)


def sizes_of(data: Any, n_users: int | None, n_items: int | None) -> tuple[int | None, int | None]:
    """Return how many users and items there are: as many as was said, else as a sparse matrix has."""
    rows, columns = data.shape if sp.issparse(data) else (None, None)
    return rows if n_users is None else n_users, columns if n_items is None else n_items


def check_keywords(columns: Collection[str], *others: str) -> None:
    """Refuse a keyword that `interactions` does not have; ``others`` are those of the function that was given it."""
    known = (*others, *KEYWORDS)
    if unknown := next((each for each in columns if each not in KEYWORDS), None):
        hint = did_you_mean(unknown, known, f"; the keywords are {', '.join(known)}.")
        raise TypeError(f"`{unknown}` is not a keyword here{hint}")


def raw_columns(data: Any, **overrides: str | None) -> dict[str, Array]:
    """Return the columns `user`, `item` and, where there are any, `rating` and `timestamp`, names not yet encoded."""
    if isinstance(data, Interactions):
        both = ((data.users, data.user_ids), (data.items, data.item_ids))
        data = (*(codes if ids is None else ids[codes] for codes, ids in both), data.ratings, data.timestamps)
    if sp.issparse(data):
        coo = data.tocoo()
        found = {"user": coo.row, "item": coo.col, "rating": coo.data}
    elif isinstance(data, tuple):
        if not 2 <= len(data) <= 4:
            raise ValueError(f"`data` must be (users, items[, ratings[, times]]), got a tuple of {len(data)} arrays.")
        found = {what: values for what, values in zip(COLUMNS, data, strict=False) if values is not None}
    else:
        found = frame_columns(data, ("user", "item"), ("rating", "timestamp"), overrides)
    columns = checked_columns(found)
    for what in ("rating", "timestamp"):
        values = columns.get(what, np.zeros(0))
        if values.dtype.kind not in "iuf":
            raise TypeError(f"`{what}` must hold numbers (or dates for `timestamp`), got {values.dtype} values.")
        if (row := first_where(~np.isfinite(values))) is not None:
            raise ValueError(f"`{what}` must be a finite number in every row, got {values[row]} in row {row}.")
    return columns


def encode(
    ids: Array, what: str, size: int | None = None, *, order: str = "sorted"
) -> tuple[IntArray, Array | None, int]:
    """Turn names into positions; returns (position of each row, name of each position or None, number of positions).

    `order` is `"sorted"` or `"first"` (by first appearance, as the NCF release numbers the films of ml-1m). With `size`
    the names must be positions below it already. When the positions come out equal to the names, no names are kept.
    """
    ids = whole_names(ids, what)
    if size is not None:
        check_whole(f"n_{what}s", size, 0)
        if ids.dtype.kind != "i":
            raise TypeError(f"`n_{what}s` was given, so `{what}` must hold positions (integers), not strings.")
        if (row := first_where((ids < 0) | (ids >= size))) is not None:
            allowed = f"from 0 to {size - 1}, since `n_{what}s` is {size:,}"
            raise ValueError(f"`{what}` must be {allowed}, got {ids[row]} in row {row}.")
        return ids.astype(np.int64, copy=False), None, size
    if len(ids) == 0:
        return np.zeros(0, dtype=np.int64), None, 0
    if ids.dtype.kind == "i" and ids.min() >= 0 and ids.max() < 8 * len(ids) + 1024:
        # names that are nearly positions need no sorting: two passes over a table of the same size
        codes, labels, _ = _close_gaps(ids, None, int(ids.max()) + 1)
        names: Array = np.arange(int(ids.max()) + 1) if labels is None else labels
    elif ids.dtype.kind == "i":
        names, inverse = np.unique(ids, return_inverse=True)
        codes = inverse.reshape(-1).astype(np.int64, copy=False)
    else:  # hashing first, so that only the distinct strings are sorted
        found: dict[str, int] = {}
        codes = np.fromiter((found.setdefault(name, len(found)) for name in ids.tolist()), np.int64, len(ids))
        names = np.array(list(found))
        by_name = np.argsort(names)
        codes, names = np.argsort(by_name)[codes], names[by_name]
    if order == "first":
        by_appearance = np.argsort(np.unique(codes, return_index=True)[1])
        codes, names = np.argsort(by_appearance)[codes], names[by_appearance]
    if names.dtype.kind == "i" and bool((names == np.arange(len(names))).all()):
        return codes, None, len(names)
    return codes, names, len(names)


def whole_names(ids: Array, what: str) -> Array:
    """Return names that came as floating-point numbers as integers; others are returned unchanged."""
    if ids.dtype.kind != "f":
        return ids
    whole = ids.astype(np.int64)
    if (row := first_where(whole != ids)) is not None:
        raise ValueError(f"`{what}` must hold integers or strings, got {ids[row]} in row {row}.")
    return whole


def encode_together(
    parts: Sequence[Array], what: str, size: int | None = None, *, where: str
) -> tuple[list[IntArray], Array | None, int]:
    """Give the names in several columns one numbering; returns the positions of each column, then as `encode`.

    Strings in one column and numbers in another are an error, in which `where` says which columns these are.
    """
    filled = [part for part in parts if len(part)] or parts[:1]
    if len({part.dtype.kind in "UO" for part in filled}) > 1:
        raise TypeError(f"`{what}` holds strings in one of {where} and numbers in the other.")
    codes, ids, n = encode(np.concatenate(filled), what, size)
    return np.split(codes, np.cumsum([len(part) for part in parts])[:-1]), ids, n


def locate(names: Array, ids: Array) -> IntArray:
    """Find the place of each name among `ids`, −1 where it is not there; 7 and "7" are the same name.

    >>> locate(np.array(["b", "x"]), np.array(["b", "a"])), locate(np.array(["7"]), np.array([5, 7]))
    (array([ 0, -1]), array([1]))
    """
    if names.dtype.kind in "UO" or ids.dtype.kind in "UO":
        names, ids = names.astype(str), ids.astype(str)
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    place = np.minimum(np.searchsorted(ranked, names), len(ranked) - 1)
    return np.where(ranked[place] == names, order[place], -1).astype(np.int64)


def canonical_csr(matrix: Any) -> Any:
    """Return a CSR matrix with sorted indices and no duplicates; what was given is never changed."""
    out = sp.csr_matrix(matrix)
    if not out.has_canonical_format:
        out = out.copy()
        out.sum_duplicates()
    return out


def among(keys: IntArray, ascending: IntArray) -> BoolArray:
    """Say which `keys` are among the sorted ones (binary search: `np.isin` hashes, which is slower on pairs)."""
    if not len(ascending):
        return np.zeros(len(keys), dtype=bool)
    place = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    return np.asarray(ascending[place] == keys)


def stored_in(matrix: Any, rows: IntArray, columns: IntArray) -> BoolArray:
    """Say which cells a canonical CSR matrix stores: its keys ascend, so one binary search per cell is enough."""
    stored = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return among(rows * matrix.shape[1] + columns, stored * matrix.shape[1] + matrix.indices)


def repeats(keys: IntArray) -> IntArray:
    """Return the places of the keys that also stand at an earlier place, in the order of the keys."""
    order = np.argsort(keys, kind="stable")
    return np.asarray(order[1:][keys[order[1:]] == keys[order[:-1]]])


def k_core(data: Any, users: int = 5, items: int = 5, *, iterate: bool = True, **columns: Any) -> Interactions:
    """Keep users with at least `users` distinct items and items with at least `items` distinct users.

    Dropping an item can push a user below the bar and the other way round: with `iterate` (the k-core proper) both are
    dropped, items first, until everything left meets both bars; without it each is applied once, items first. A bar of
    0 or 1 drops nobody. Positions are closed up afterwards; `user_ids` and `item_ids` keep the names. `columns` as in
    `interactions`.

    >>> k_core(([0, 0, 1, 1, 2], [0, 1, 0, 1, 5]), users=2, items=2)
    Interactions(4 rows, 2 users, 2 items)
    """
    check_whole("users", users, 0)
    check_whole("items", items, 0)
    check_keywords(columns, "users", "items", "iterate")
    kept = interactions(data, **columns).distinct()
    while True:
        before = len(kept)
        kept = kept.take(np.bincount(kept.items, minlength=kept.n_items)[kept.items] >= items)
        kept = kept.take(np.bincount(kept.users, minlength=kept.n_users)[kept.users] >= users)
        if len(kept) == before or not iterate:
            break
    if not len(kept):
        raise ValueError(f"nothing is left with {users} items per user and {items} users per item: lower the bars.")
    found, user_ids, n_users = _close_gaps(kept.users, kept.user_ids, kept.n_users)
    entries, item_ids, n_items = _close_gaps(kept.items, kept.item_ids, kept.n_items)
    return replace(
        kept, users=found, items=entries, n_users=n_users, n_items=n_items, user_ids=user_ids, item_ids=item_ids
    )
