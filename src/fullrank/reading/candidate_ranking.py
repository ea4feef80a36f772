"""Rank ready candidates, in one place: rows (list, item, score) and cases (list, user, target) in, counts out."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullrank._checks import TIES, check_choice, first_where, more
from fullrank._types import RNG, Array, FloatArray, IntArray
from fullrank.data.frames import among, locate, repeats, stored_in
from fullrank.data.split import Split
from fullrank.observing.inputs import seed_of
from fullrank.observing.kernel_inputs import Cases as KernelCases
from fullrank.observing.kernel_inputs import State, fixed, rules_of
from fullrank.observing.task import SCORES_PER_CALL
from fullrank.ranks.checks import per_case
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL, Design, Sample, parse_design


@dataclass(frozen=True)
class How:
    """Holds what is known about the lists, checked before anything is read or scored."""

    n_items: Any
    design: Any  # or the name of one
    candidates: str
    ties: str
    rng: RNG
    missing: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "design", parse_design(self.design))
        # a type question: what the distinct items of a list with repeats follow is known of Sample alone
        if type(self.design) is not Sample and not self.design.exhaustive:
            raise ValueError(f"`design` must be one sample, such as 'uni99', or 'full', got '{self.design}'.")
        check_choice("ties", self.ties, TIES)
        check_choice("missing", self.missing, ("error", "drop"))
        if self.split is not None:  # which counts them; without one, any name of one's own will do
            check_choice("candidates", self.candidates, ("unseen", "all"))

    @property
    def split(self) -> Split | None:
        """Return the split that candidates are counted from, if there is one."""
        return self.n_items if isinstance(self.n_items, Split) else None


@dataclass(frozen=True)
class Listed:
    """Item `items[r]` stands in list `lists[r]` with score `scores[r]`; repeats and targets may be among them."""

    lists: IntArray
    items: IntArray
    scores: FloatArray
    source: str


@dataclass(frozen=True)
class Cases:
    """User `users[c]` has the target `targets[c]`, to be ranked among the items of list `lists[c]`.

    Users and items are numbers; `user_names` and `item_names` say whose, None if the number is the name. Where they are
    a split's positions, the names are for messages only: ties and blocks go by position, as in `observe`.
    """

    lists: IntArray
    users: IntArray
    targets: IntArray
    user_names: Array | None = None
    item_names: Array | None = None
    by_position: bool = False

    def take(self, kept: Array) -> Cases:
        """Return some of the cases."""
        return replace(self, lists=self.lists[kept], users=self.users[kept], targets=self.targets[kept])

    def owner_of(self, lists: IntArray) -> IntArray:
        """Return the user of each list."""
        return np.asarray(self.users[locate(lists, self.lists)])

    def user_ids(self) -> Array:
        """Return the names of the users, or their positions where cases are known by these."""
        return self.users if self.by_position or self.user_names is None else self.user_names[self.users]

    def user(self, code: Any) -> str:
        """Name a user in a message."""
        return f"user {written(code, self.user_names)}"

    def item(self, code: Any) -> str:
        """Name an item in a message."""
        return f"item {written(code, self.item_names)}"

    def target(self, case: Any) -> str:
        """Name a case in a message."""
        return f"{self.item(self.targets[case])}, a target of {self.user(self.users[case])}"


def written(code: Any, names: Array | None) -> str:
    """Write a user or an item by its name, where there are names."""
    name = code if names is None else names[int(code)]
    return repr(name.item() if isinstance(name, np.generic) else name)


def rank_lists(rows: Listed, cases: Cases, how: How) -> RankCounts:
    """Count, for every case, the distinct negatives of its list and those of them that rank above the target."""
    split, total = how.split, len(cases.targets)
    if not total:
        raise ValueError("there are no targets (rows whose `label` is 1, say), so there is nothing to rank.")
    width = int(max(rows.items.max(initial=0), cases.targets.max())) + 1
    repeated = repeats(cases.users * width + cases.targets)
    if len(repeated):
        target = cases.target(repeated[0])
        raise ValueError(f"{target}, is listed twice{more(len(repeated))}; list every (user, target) once.")
    rows, cases, kept = _matched(rows, cases, how.missing)
    _, inverse, times = np.unique(cases.users, return_inverse=True, return_counts=True)
    T = times[inverse]
    N = _candidates_of(how, cases, kept, total, T)

    order = np.lexsort((rows.items, rows.lists))
    lists, items, scores = rows.lists[order], rows.items[order], rows.scores[order]
    keys, users = lists * width + items, cases.owner_of(lists)
    _check_scores(rows.source, users, items, scores, keys, cases)
    first = np.r_[True, keys[1:] != keys[:-1]]
    wanted = cases.lists * width + cases.targets
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    absent = keys[place] != wanted
    if (c := first_where(absent)) is not None:
        hint = "every target needs one (lists cut at the top hold no uniform sample)"
        raise ValueError(f"{rows.source} has no score for {cases.target(c)}{more(absent.sum())}; {hint}.")
    negative = first & ~among(users * width + items, np.sort(cases.users * width + cases.targets))
    target_scores = scores[place]
    lists, users, items, scores = lists[negative], users[negative], items[negative], scores[negative]
    lo, hi = (np.searchsorted(lists, cases.lists, side=side) for side in ("left", "right"))
    drawn = hi - lo
    if (c := first_where(drawn == 0)) is not None:
        raise ValueError(f"{cases.user(cases.users[c])}{more((drawn == 0).sum())} has no negatives beside the target.")
    if split is not None and how.candidates == "unseen":
        seen = stored_in(split.train, users, items)
        if (r := first_where(seen)) is not None:
            both = f"{cases.item(items[r])} is a negative of {cases.user(users[r])} and in the user's training items"
            raise ValueError(f"{both}{more(seen.sum())}: if negatives were drawn from all, say `candidates='all'`.")
    design, N = _settled(how, drawn, N, T, cases)
    if split is not None and not design.exhaustive:
        _warn_unless_uniform(split, how.candidates, items, drawn / (N - 1), cases)
    hits, places = _hits(cases, target_scores, lo, hi, items, scores, how)
    weights = None
    if split is not None and split.weights is not None:
        weights = split.weights[locate(cases.users, split.users)]
    return RankCounts.from_outcomes(
        np.where(drawn == N - 1, ALL, drawn), hits, N, design, weights=weights, order=places, targets=T,
        users=cases.user_ids(), candidates=how.candidates,
    )  # fmt: skip


def _matched(rows: Listed, cases: Cases, missing: str) -> tuple[Listed, Cases, IntArray]:
    """Keep lists that have a case and cases that have a list; the others are an error, or dropped."""
    lonely, idle = ~among(cases.lists, np.unique(rows.lists)), ~among(rows.lists, np.unique(cases.lists))
    drop = "or leave such users out with `missing='drop'`"
    if missing == "error" and (c := first_where(lonely)) is not None:
        user = f"{cases.user(cases.users[c])}{more(lonely.sum())}"
        raise ValueError(f"{rows.source} has nothing for {user}, who has a target: add the scores, {drop}.")
    if missing == "error" and idle.any():
        users = np.unique(rows.lists[idle])  # lists without a case only come one per user
        user = f"{cases.user(users[0])}{more(len(users))}"
        raise ValueError(f"{rows.source} has scores for {user}, who has no target: give it, {drop}.")
    if lonely.all() or idle.all():
        raise ValueError(f"no user of {rows.source} has a target: are the users named alike in both?")
    kept = np.flatnonzero(~lonely)
    return Listed(rows.lists[~idle], rows.items[~idle], rows.scores[~idle], rows.source), cases.take(kept), kept


def _candidates_of(how: How, cases: Cases, kept: IntArray, total: int, T: IntArray) -> IntArray | None:
    """Return N′ of every case: as given, or items − seen − other targets."""
    n_items = how.n_items
    if n_items is None:
        return None
    if isinstance(n_items, Split):
        known = np.sort(n_items.users * n_items.n_items + n_items.items)
        strange = ~among(cases.users * n_items.n_items + cases.targets, known)
        if (c := first_where(strange)) is not None:
            raise ValueError(f"{cases.target(c)}, is not among the split's{more(strange.sum())}; it must be.")
        targets = n_items.targets_per_user[cases.users]
        if (c := first_where(targets != T)) is not None:
            user, others = cases.user(cases.users[c]), more((targets != T).sum())
            raise ValueError(f"the targets of {user}{others} number {T[c]} here and {targets[c]} in the split.")
        seen = np.diff(n_items.train.indptr)[cases.users] if how.candidates == "unseen" else 0
        return np.asarray(n_items.n_items - seen - (T - 1), dtype=np.int64)
    if isinstance(n_items, Mapping):
        names = cases.user_ids().tolist()
        if (c := first_where([name not in n_items for name in names])) is not None:
            raise ValueError(f"`n_items` has no entry for user {names[c]!r}.")
        N = per_case("n_items", np.array([n_items[name] for name in names]), len(names))
    else:
        N = per_case("n_items", n_items, total)[kept]
    if (c := first_where(N < 2)) is not None:
        allowed = "`n_items`, the number of candidates with the target, must be at least 2"
        raise ValueError(f"{allowed}, got {N[c]} for {cases.user(cases.users[c])}.")
    return N


def _settled(how: How, drawn: IntArray, N: IntArray | None, T: IntArray, cases: Cases) -> tuple[Design, IntArray]:
    """Return the design that the outcomes follow, after checking that the lists are what was declared."""

    def has(c: int, bad: Array) -> str:
        return f"{cases.user(cases.users[c])}{more(bad.sum())} has {drawn[c]:,} distinct negatives"

    declared = how.design
    if N is None and declared.exhaustive:
        return declared, drawn + 1
    if N is None:
        forms = "a number, one per case or user, or a Split"
        raise ValueError(f"`n_items` is missing: how many candidates, target included, the full ranking has; {forms}.")
    if (c := first_where(beyond := drawn > N - 1)) is not None:
        raise ValueError(f"{has(c, beyond)}, more than the {N[c] - 1:,} that `n_items` leaves room for.")
    if declared.exhaustive:
        if (c := first_where(part := drawn < N - 1)) is not None:
            raise ValueError(f"{has(c, part)} of {N[c] - 1:,}: that is not 'full', declare a sample ('uni{drawn[c]}').")
        return declared, N
    negatives: int = declared.negatives
    pooled = negatives * (T if len(np.unique(cases.lists)) < len(cases.lists) else np.ones_like(T))
    if (c := first_where(beyond := drawn > pooled)) is not None:
        raise ValueError(f"{has(c, beyond)}, but `design` is '{declared}': declare the number drawn.")
    # with replacement, the fewest distinct negatives to be expected; without, or pooled over targets, there are more
    expected = -(N - 1) * np.expm1(negatives * np.log1p(-1 / np.maximum(N - 1, 2)))
    few = drawn < expected / 2 - 5  # the 5 so that short lists may be a few short
    if (c := first_where(few)) is not None:
        cut = "if lists were cut by score, what is left is not a uniform sample and the correction is wrong"
        warnings.warn(f"{has(c, few)} where '{declared}' gives about {expected[c]:.0f}: {cut}.", stacklevel=4)
    return Sample(negatives, replace=False), N


def _hits(
    cases: Cases, target_scores: Array, lo: IntArray, hi: IntArray, items: IntArray, scores: Array, how: How
) -> tuple[IntArray, IntArray]:
    """Count the negatives that beat each target, and find its place among its user's; the kernels decide both."""
    # ties are drawn from names, unless cases are known by their positions
    users = cases.users if cases.by_position else _keys(cases.users, cases.user_names)
    codes = np.concatenate([items, cases.targets])
    items, targets = np.split(codes if cases.by_position else _keys(codes, cases.item_names), [len(items)])
    order = np.lexsort((cases.targets, cases.users))  # the kernels want a user's targets side by side
    starts = np.flatnonzero(np.diff(cases.users[order], prepend=-1))
    ptr = np.append(starts, len(order)).astype(np.int64)
    lo, sizes, target_scores = lo[order], (hi - lo)[order], np.ascontiguousarray(target_scores[order])
    none = fixed(np.zeros(0, dtype=np.int64))
    owners = fixed(users[order][starts])
    seen = KernelCases(
        owners, owners, fixed(ptr), fixed(targets[order]), none, none, fixed(np.zeros(0, dtype=np.int32)), True, 0,
        0, int(np.diff(ptr).max()), fixed(np.zeros(len(order), dtype=np.int64)),
    )  # fmt: skip
    rules = rules_of(how.design.courses(2), how.ties, seed_of(how.rng))
    hits, places = np.zeros(len(order), dtype=np.int64), np.ones(len(order), dtype=np.int64)
    state = State(seen, rules, sizes, hits, sizes + 1, places, np.zeros(len(starts), dtype=np.int8))
    step = max(1, SCORES_PER_CALL // (1 + int(sizes.max())))
    for first in range(0, len(order), step):
        rows = np.arange(first, min(first + step, len(order)))
        column = np.arange(int(sizes[rows].max()))
        at = np.where(column < sizes[rows, None], lo[rows, None] + column, 0)
        asked = np.column_stack([targets[order][rows], items[at]])
        given = np.column_stack([target_scores[rows], scores[at]])
        hits[rows] = state.beaten_by(rows, sizes[rows], asked, given).sum(1)
    state.order_targets(target_scores)
    back = np.argsort(order)
    return hits[back], places[back]


def _keys(codes: IntArray, names: Array | None) -> IntArray:
    """Return the keys of what is named: an integer name itself, of another a hash that is the same everywhere."""
    if names is None:
        return codes
    if names.dtype.kind not in "iu":
        hashed = (hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in names)
        names = np.array([int.from_bytes(digest, "big") >> 1 for digest in hashed])
    return np.asarray(names[codes], dtype=np.int64)


def _check_scores(source: str, users: IntArray, items: IntArray, scores: Array, keys: IntArray, cases: Cases) -> None:
    bad = np.isnan(scores)
    if (r := first_where(bad)) is not None:
        pair = f"{cases.user(users[r])} and {cases.item(items[r])}{more(bad.sum())}"
        raise ValueError(f"{source} has a score that is missing or not a number (NaN) for {pair}.")
    torn = (keys[1:] == keys[:-1]) & (scores[1:] != scores[:-1])
    if (r := first_where(torn)) is not None:
        pair, both = f"{cases.item(items[r])} of {cases.user(users[r])}", f"{scores[r]:g} and {scores[r + 1]:g}"
        raise ValueError(f"{source} scores {pair} twice and differently, {both}{more(torn.sum())}.")


def _warn_unless_uniform(split: Split, candidates: str, items: IntArray, rate: Array, cases: Cases) -> None:
    """Warn when items occur among the negatives far too unequally for uniform draws (a chi-square over items).

    Popularity-drawn lists, lists from a part of the catalogue and one list for everybody all show up here. A list draws
    each of its candidates with probability `rate`.
    """
    _, once = np.unique(cases.lists, return_index=True)
    by_user = np.bincount(cases.users[once], rate[once], split.n_users)
    expected = by_user.sum() - np.bincount(split.items, by_user[split.users], split.n_items)
    if candidates == "unseen":
        of = np.repeat(by_user, np.diff(split.train.indptr))
        expected -= np.bincount(split.train.indices, of, split.n_items)
    possible = expected > 1e-3 * expected.max()
    E, X = expected[possible], np.bincount(items, minlength=split.n_items)[possible]
    chi = ((X - E) ** 2 / E).sum()
    spread = np.sqrt((2 + 1 / E).sum())  # each term has mean 1 and variance 2 + 1/E if X is Poisson
    if chi > len(E) + 10 * spread and chi > 1.5 * len(E):
        most = int((X - E).argmax())
        item = cases.item(np.flatnonzero(possible)[most])
        warnings.warn(
            f"the negatives do not look uniform: {item} is drawn {X[most]:,} times where {E[most]:,.1f} were to be "
            "expected. Every correction rests on uniform draws; if these were drawn by popularity, from a part of the "
            "catalogue or once for all users, it is wrong.",
            stacklevel=4,
        )
