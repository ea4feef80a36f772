"""A `Split` holds what was learned from and what is asked: a training matrix and cases, one per (user, target)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank._checks import check_choice, check_whole, first_where, more, plural
from fullrank._types import RNG, Array, FloatArray, IntArray
from fullrank.data import frames
from fullrank.data.frames import Interactions

HOW = ("last", "random", "ratio", "last-ratio", "given")


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Training interactions and held-out targets of one evaluation.

    `train` is a sparse users × items matrix, kept as a SciPy CSR matrix with sorted indices and no duplicates (shared,
    not copied, when it is that already: do not change it afterwards). Case c asks for item `items[c]` of user
    `users[c]`; several targets of one user are several cases, in the order given. `Split(train, test)` takes them from a
    second matrix of the same shape, row by row. `weights[c]` is the weight of the *user* in averages over users, so all
    cases of a user carry the same one; None weighs every user the same.

    A split checks itself once: positions out of range, targets that are in `train`, duplicate cases, and weights that
    are negative, not finite or all zero are errors that name the user and the item. An empty `train` is allowed.

    >>> import scipy.sparse as sp
    >>> Split(sp.csr_matrix([[1, 1, 0], [0, 1, 0]]), users=[0, 1], items=[2, 0], name="toy")
    Split('toy': 2 users × 3 items, 3 in train, 2 cases)
    >>> Split(sp.csr_matrix([[1, 1, 0], [0, 1, 0]]), sp.csr_matrix([[0, 0, 1], [1, 0, 0]]), name="toy")
    Split('toy': 2 users × 3 items, 3 in train, 2 cases)
    """

    train: Any
    users: IntArray
    items: IntArray = None  # type: ignore[assignment]  # left out where `users` is the matrix of what is held out
    weights: FloatArray | None = None
    name: str = field(default="", kw_only=True)
    user_ids: Array | None = field(default=None, kw_only=True)
    item_ids: Array | None = field(default=None, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        settle = object.__setattr__  # the one place where a frozen value becomes what its fields promise
        settle(self, "train", _canonical(self.train, "train"))
        cases = self._cases_of(self.users) if self.items is None else (self.users, self.items)
        for what, values, size in zip(("user", "item"), cases, self.train.shape, strict=True):
            settle(self, f"{what}s", _checked_positions(f"{what}s", np.asarray(values), size))
            if (ids := getattr(self, f"{what}_ids")) is not None:
                settle(self, f"{what}_ids", np.asarray(ids))
                if np.shape(ids) != (size,):
                    raise ValueError(f"`{what}_ids` has shape {np.shape(ids)}; `train` needs shape ({size},).")
        if isinstance(self.notes, str):
            raise TypeError(
                f"`notes` must be a sequence of sentences, got the string {self.notes!r}: put it in a list."
            )
        settle(self, "notes", tuple(self.notes))
        self._check_cases()
        if self.weights is not None:
            settle(self, "weights", self._checked_weights())

    def _cases_of(self, test: Any) -> tuple[Any, Any]:
        if not sp.issparse(test) and np.ndim(test) != 2:
            forms = f"`Split(train, users, items)`, or `Split(train, test)` with a matrix of shape {self.train.shape}"
            got = f"a {type(test).__name__} of shape {np.shape(test)}"
            raise TypeError(f"`items` is missing: give {forms}, got {got}.")
        if test.shape != self.train.shape:
            raise ValueError(f"`test` has shape {test.shape} and `train` {self.train.shape}; they must be the same.")
        users, items = _canonical(test, "test").nonzero()
        return users, items

    def names(self, what: str, positions: Any = slice(None)) -> Array:
        """Return the names of the users or items (`what`) at these positions; without names, the positions."""
        ids, size = (self.user_ids, self.n_users) if what == "user" else (self.item_ids, self.n_items)
        return np.asarray((np.arange(size) if ids is None else ids)[positions])

    def _check_cases(self) -> None:
        if len(self.users) != len(self.items):
            sizes = f"got {len(self.users):,} and {len(self.items):,} entries"
            raise ValueError(f"`users` and `items` must have the same length, {sizes}: one user and one item per case.")
        if not len(self.users):
            raise ValueError("there are no test cases: `users` and `items` are empty.")
        repeated = frames.repeats(self.users * self.n_items + self.items)
        if len(repeated):
            again = int(repeated.min())
            twice = f"{self._target(again)} appears twice (case {again} repeats an earlier one{more(len(repeated))})"
            raise ValueError(f"{twice}; list every (user, target) once.")
        in_train = frames.stored_in(self.train, self.users, self.items)
        if (case := first_where(in_train)) is not None:
            hint = "leave held-out pairs out of it, as `Split.from_interactions(train, 'given', test=test)` does"
            raise ValueError(f"{self._target(case)} (case {case}) is also in `train`{more(in_train.sum())}; {hint}.")

    def _target(self, case: int) -> str:
        return f"the target item {self.names('item', self.items[case])} of user {self.names('user', self.users[case])}"

    def _checked_weights(self) -> FloatArray:
        try:
            weights = np.array(self.weights, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError("`weights` must hold numbers.") from None
        if weights.shape != self.users.shape:
            raise ValueError(f"`weights` must be one per case, of shape {self.users.shape}, got shape {weights.shape}.")
        if (case := first_where(~(np.isfinite(weights) & (weights >= 0)))) is not None:
            where = f"user {self.users[case]} (case {case})"
            raise ValueError(f"`weights` must be finite numbers of at least 0, got {weights[case]} for {where}.")
        if not weights.any():
            raise ValueError("`weights` are all 0; at least one user must count.")
        by_user = np.zeros(self.n_users)
        by_user[self.users] = weights
        if (case := first_where(by_user[self.users] != weights)) is not None:
            raise ValueError(f"the cases of user {self.users[case]} carry different `weights`: a user has one weight.")
        return weights

    @property
    def n_users(self) -> int:
        """Number of users, those without a test case included."""
        return int(self.train.shape[0])

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return int(self.train.shape[1])

    @property
    def cases(self) -> int:
        """Number of test cases, that is of (user, target) pairs."""
        return len(self.users)

    def __len__(self) -> int:
        return self.cases

    @cached_property
    def targets_per_user(self) -> IntArray:
        """Number of held-out targets of every user (T in the formulas; 0 for users without a case)."""
        return np.asarray(np.bincount(self.users, minlength=self.n_users), dtype=np.int64)

    @cached_property
    def test_users(self) -> IntArray:
        """Users with at least one case, ascending."""
        return np.flatnonzero(self.targets_per_user)

    def seen(self, user: int) -> Array:
        """Return the items of `user` in `train`, ascending (a view: do not write to it)."""
        if not isinstance(user, int | np.integer) or not 0 <= user < self.n_users:
            raise ValueError(f"`user` must be from 0 to {self.n_users - 1}, got {user!r}.")
        return np.asarray(self.train.indices[self.train.indptr[user] : self.train.indptr[user + 1]])

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of shape, training matrix, cases and weights, the same on every machine."""
        digest = hashlib.sha256(f"fullrank split {self.n_users} {self.n_items} {self.train.nnz} {self.cases}".encode())
        matrix = (self.train.indptr, self.train.indices, self.train.data)
        for values in (*matrix, self.users, self.items, self.weights):
            if values is not None:
                kind = "<f8" if values.dtype.kind == "f" else "<i8"
                digest.update(np.ascontiguousarray(values, dtype=kind).data)
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.checksum == other.checksum if isinstance(other, Split) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.checksum)

    def __repr__(self) -> str:
        of = "" if len(self.test_users) == self.cases else f" of {plural(len(self.test_users), 'user')}"
        train = f"{plural(self.n_users, 'user')} × {plural(self.n_items, 'item')}, {self.train.nnz:,} in train"
        return f"Split({self.name!r}: {train}, {plural(self.cases, 'case')}{of})"

    @classmethod
    def from_frames(cls, train: Any, test: Any, *, name: str = "", **columns: Any) -> Split:
        """Take what was learned from and what is asked from two frames (pandas, polars, Arrow, or mappings of arrays).

        Columns are found as in `interactions`, which also says what `columns` may be. Users and items get one numbering,
        kept in `user_ids` and `item_ids`; those that only `test` has get a position too. Rows that repeat a pair count once;
        those of `test` are counted in the notes. A pair that is in both frames is an error, as in every split.

        >>> Split.from_frames({"user_id": [7, 8], "item_id": ["a", "b"]}, {"user_id": [7], "item_id": ["b"]})
        Split('': 2 users × 2 items, 2 in train, 1 case)
        """
        frames.check_keywords(columns, "name")
        known, asked = _numbered_together(train, test, columns, "`train` and `test`")
        return _split_once(known, asked, name, ())

    @classmethod
    def from_interactions(
        cls,
        data: Any,
        how: str = "last",
        *,
        test: Any = None,
        share: float = 0.2,
        min_items: int = 2,
        rng: RNG = 0,
        name: str = "",
        notes: tuple[str, ...] = (),
        **columns: Any,
    ) -> Split:
        """Split interactions (see `interactions` for what may come in, and for `columns`) in one of five ways.

        `"last"`: each user's last item by time · `"random"`: one item per user at random · `"ratio"`: a `share` of each
        user's items at random · `"last-ratio"`: the last `share` by time · `"given"`: the pairs in `test`.

        A repeated pair counts once, at its earliest time. Of rows with the same user and time the one that comes later in
        the data counts as later, as in the stable sort of the eALS and NCF code. A random draw depends on the set of pairs
        and on `rng`, not on the order of the rows. Of n items a share holds out ⌊share · n + ½⌋, but at least 1 and at
        most n − 1. Users with fewer than `min_items` distinct items stay in train whole and have no case.

        >>> Split.from_interactions({"user": [0, 0, 0], "item": [5, 6, 7], "time": [3, 9, 4]}).item_ids
        array([5, 6, 7])
        >>> split = Split.from_interactions(([0, 0, 1, 1, 1], [0, 1, 1, 2, 0], None, [5, 5, 1, 9, 3]), "last")
        >>> split.users, split.items
        (array([0, 1]), array([1, 2]))
        >>> Split.from_interactions(([0] * 10, range(10)), "ratio", share=0.3).targets_per_user
        array([3])
        """
        check_choice("how", how, HOW)
        frames.check_keywords(columns, "how", "test", "share", "min_items", "rng", "name", "notes")
        if (how == "given") != (test is not None):
            raise ValueError(f"`how` is {how!r}, `test` is {'missing' if test is None else 'there'}; they go together.")
        if how == "given":
            return given_test(data, test, name=name, notes=notes, **columns)
        check_whole("min_items", min_items, 2)
        if how.endswith("ratio") and not (isinstance(share, int | float | np.number) and 0 < share < 1):
            raise ValueError(f"`share` must be between 0 and 1, such as 0.2, got {share!r}.")
        found = frames.interactions(data, **columns).distinct()
        within = found.timestamps if how.startswith("last") else _random_keys(found, rng)
        if within is None:
            hint = "hold out at random, or name its column with `timestamp=`"
            raise ValueError(f"`how` is {how!r}, but the rows have no time; {hint}.")
        return _split_of(*_hold_out(found, within, share if how.endswith("ratio") else 0.0, min_items), name, notes)


def check_split(given: Any, wanted: str = "a Split") -> None:
    """Refuse anything but a split, and say how to make one."""
    if isinstance(given, str):
        raise TypeError(f"`split` must be {wanted}, got the string {given!r}: load it with `fr.load({given!r})`.")
    if not isinstance(given, Split):
        got = f"a {type(given).__name__}"
        raise TypeError(f"`split` must be {wanted}, got {got}: make one with `fr.Split(train, users, items)`.")


def given_test(data: Any, test: Any, *, name: str = "", notes: tuple[str, ...] = (), **columns: Any) -> Split:
    """Hold out exactly the pairs of `test`, in their order; whatever else is in `data` is train.

    The held-out pairs may be among `data` (they are taken out) or not. Rows that repeat a pair count once; those of `test`
    are counted in the notes. Users and items that only occur in `test` get a position too: their targets are cold.

    >>> given_test(([0, 0, 1], [0, 1, 0]), ([1], [1])).seen(1)
    array([0], dtype=int32)
    """
    frames.check_keywords(columns, "name", "notes")
    known, asked = _numbered_together(data, test, columns, "`data` and `test`")
    return _split_once(known.take(~frames.among(known.keys, np.sort(asked.keys))), asked, name, notes)


def _numbered_together(data: Any, test: Any, columns: dict[str, Any], where: str) -> tuple[Interactions, Interactions]:
    """Give the users and items of two sets of interactions one numbering."""
    both_encoded = isinstance(data, Interactions) and isinstance(test, Interactions)
    if both_encoded and data.user_ids is test.user_ids and data.item_ids is test.item_ids:
        return frames.same_sizes(data, test)
    n_users, n_items = frames.sizes_of(data, columns.get("n_users"), columns.get("n_items"))
    names = {what: column for what, column in columns.items() if not what.startswith("n_")}
    both = [frames.raw_columns(each, **names) for each in (data, test)]
    users, user_ids, n_users = frames.encode_together([each["user"] for each in both], "user", n_users, where=where)
    items, item_ids, n_items = frames.encode_together([each["item"] for each in both], "item", n_items, where=where)
    ids: dict[str, Any] = {"user_ids": user_ids, "item_ids": item_ids}
    known, asked = (Interactions(*pairs, n_users, n_items, **ids) for pairs in zip(users, items, strict=True))
    return known, asked


def _hold_out(found: Interactions, within: Array, share: float, min_items: int) -> tuple[Interactions, Interactions]:
    """Hold out the last of each user's rows in the order of `within`, or the last `share` of them; returns (rest, held)."""
    sizes = np.bincount(found.users, minlength=found.n_users)
    held = np.floor(share * sizes + 0.5).astype(np.int64).clip(1, np.maximum(sizes - 1, 1))
    held[sizes < min_items] = 0
    order = np.lexsort((within, found.users))  # rows at the same time keep their order
    users = found.users[order]
    place = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[users]  # place of the row within its user
    is_test = place >= (sizes - held)[users]
    if not is_test.any():
        raise ValueError(f"no user has {min_items} or more distinct items, so there is nothing to hold out.")
    pairs = replace(found, ratings=None, timestamps=None)
    return pairs.take(order[~is_test]), pairs.take(order[is_test])


def _random_keys(found: Interactions, rng: RNG) -> FloatArray:
    """Draw a number for every row; the draw depends on its pair, not on the order of the rows."""
    if not isinstance(rng, np.random.Generator):
        check_whole("rng", rng, 0, none=True)
    keys = np.empty(len(found))
    keys[np.lexsort((found.items, found.users))] = np.random.default_rng(rng).random(len(found))
    return keys


def _split_once(known: Interactions, asked: Interactions, name: str, notes: tuple[str, ...]) -> Split:
    """Make a split of given train and test, where a repeated pair counts once; those of test are counted in the notes."""
    once = asked.distinct()
    if left := len(asked) - len(once):
        notes = (*notes, f"{left:,} of the {len(asked):,} rows of `test` repeat a pair, which counts once.")
    return _split_of(known.distinct(), once, name, notes)


def _split_of(train: Interactions, test: Interactions, name: str, notes: tuple[str, ...]) -> Split:
    ones = np.ones(len(train), dtype=np.float32)
    csr = sp.csr_matrix((ones, (train.users, train.items)), shape=(train.n_users, train.n_items))
    return Split(csr, test.users, test.items, name=name, notes=notes, user_ids=train.user_ids, item_ids=train.item_ids)


def _checked_positions(what: str, given: Array, size: int) -> IntArray:
    if given.ndim != 1:
        raise ValueError(f"`{what}` must be one position per case, got an array of shape {given.shape}.")
    if given.dtype.kind not in "iu" and len(given):
        raise TypeError(f"`{what}` must hold positions, rows or columns of `train`, got {given.dtype} values.")
    if (case := first_where((given < 0) | (given >= size))) is not None:
        where = f"since `train` has {size:,} {what}, got {given[case]} in case {case}"
        raise ValueError(f"`{what}` must be from 0 to {size - 1}, {where}.")
    return np.array(given, dtype=np.int64)


def _canonical(given: Any, name: str) -> Any:
    """Return a users × items matrix as a CSR matrix with sorted indices, no duplicates and floating-point values.

    A matrix rather than a sparse array: implicit and others test for it, and `train[u]` stays two-dimensional.
    """
    array = np.asarray(given) if isinstance(given, list) else given
    known = sp.issparse(array) or isinstance(array, np.ndarray)
    if not known or array.ndim != 2 or array.dtype.kind not in "biuf":
        got = type(given).__name__ + (f" of {array.dtype} values and shape {array.shape}" if known else "")
        hint = "use `Split.from_interactions` for frames and arrays of pairs"
        raise TypeError(f"`{name}` must be a sparse users × items matrix of numbers ({hint}), got a {got}.")
    if 0 in array.shape:
        raise ValueError(f"`{name}` must have at least one user and one item, got shape {array.shape}.")
    try:
        matrix = sp.csr_matrix(array)
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"`{name}` is not a valid sparse matrix: {str(error).rstrip('.')}.") from None
    matrix = frames.canonical_csr(matrix if matrix.dtype.kind == "f" else matrix.astype(np.float32))
    bad = ~np.isfinite(matrix.data) | (matrix.data == 0)
    if (entry := first_where(bad)) is not None:
        user = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        found = f"{matrix.data[entry]:g} for user {user}, item {matrix.indices[entry]}{more(bad.sum())}"
        hint = "store a finite number other than 0 where there is an interaction, else nothing"
        raise ValueError(f"`{name}` stores {found}; {hint}.")
    return matrix
