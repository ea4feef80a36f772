"""Ready candidate files: negatives that somebody else drew, ranked as they are, with the law that fits them.

Every format ends in one table of rows (list, item, score) and one of cases (list, user, target), and one function ranks
that. What it makes of a list:

* **Repeats collapse.** The distinct items of a draw *with* replacement are, given how many there are, a uniform sample
  *without* replacement. How many there are says nothing about the rank, so the outcome is (distinct negatives, hits)
  under ``Sample(m, replace=False)``, exactly, whichever way the file was drawn (NCF and RecBole with replacement, Elliot
  without).
* **A user's targets are no negatives.** Those that were drawn are dropped; what stays is uniform among the rest.
* **The number of candidates** N′ of the full ranking (target included, the user's other targets not) cannot be read off a
  sample. It is given, or computed from a `Split`: items − seen − other targets.

>>> import numpy as np
>>> frame = {"user_id": [0, 0, 0, 0], "item_id": [5, 7, 7, 9], "score": [.4, .9, .9, .1], "label": [1, 0, 0, 0]}
>>> counts = counts_from_scores(frame, n_items=1000, design="uni3")
>>> print(counts, "from", counts.items_scored, "distinct negatives")
1 case of uni3 without replacement among 1,000 items from 2 distinct negatives
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fullrank import _columns as columns_
from fullrank.data.frames import _to_numpy, _values, among, encode
from fullrank.data.readers import _LARGEST_POSITION, Negatives, Source, _blocks, _empty, _name, _unreadable
from fullrank.data.split import Split
from fullrank.models.scorer import Table, _numpy, as_scorer
from fullrank.ranks.counts import RankCounts, _per_case
from fullrank.ranks.design import ALL, Design, Exhaustive, Sample, parse_design
from fullrank.ranks.observe import TIES, seed_of
from fullrank.ranks.state import fixed, floats, scratch_for
from fullrank.ranks.task import SCORES_PER_CALL

__all__ = [
    "CandidateLists",
    "counts_from_negatives",
    "counts_from_recbole",
    "counts_from_scores",
    "counts_from_trec",
    "rank_candidates",
    "read_elliot_negatives",
    "read_trec_qrels",
    "read_trec_run",
]

Array: TypeAlias = NDArray[Any]
Ints: TypeAlias = NDArray[np.int64]
RNG: TypeAlias = int | np.random.Generator | None

_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})")


# ------------------------------------------------------------------------------------------------------ the front doors


def rank_candidates(
    model: Any,
    negatives: Negatives | CandidateLists,
    n_items: Any,
    design: Design | str | None = None,
    *,
    candidates: str = "unseen",
    ties: str = "random",
    rng: RNG = 0,
    missing: str = "error",
    name: str | None = None,
) -> RankCounts:
    """Rank targets among negatives that are already drawn: NCF's `.test.negative`, Elliot's files.

    ``model`` is anything :func:`fullrank.as_scorer` takes, scores in a frame or a matrix included; ``negatives`` comes from
    ``read_negatives`` (NCF: positions) or :func:`read_elliot_negatives` (names, translated by the split).

    ``n_items`` is a `Split`, from which every user's number of candidates follows (``candidates="unseen"``: the catalogue
    without the user's training items; ``"all"``: with them), or that number itself: one for all, one per case, or a
    mapping from users, the target counted, the user's other targets not. A file without targets takes them from the split.

    ``design`` is what the file is said to hold, "uni99"; by default as many as its longest list. ``missing="drop"`` leaves
    out users that the split has and the file has not. ``ties`` and ``rng`` as in ``observe``: with a split, tied items
    fall in the same order there and here.

    >>> import numpy as np
    >>> lists = CandidateLists(np.array([0, 1]), np.array([0, 3]), np.array([1, 2, 2, 0, 1, 4]), np.array([0, 3, 6]))
    >>> counts = rank_candidates(np.arange(5.0), lists, n_items=5)  # one score per item; user 0 has a repeated negative
    >>> counts.sizes, counts.auc
    (array([2, 3]), 0.333)
    """
    how = _How(n_items, "uni1" if design is None else design, candidates, ties, rng, missing)
    split = how.split
    if isinstance(negatives, Negatives):  # NCF's files hold positions, whatever the split's names are
        users, items = negatives.users, negatives.negatives
        targets: Ints | None = negatives.targets
        for values, what in ((users, "user"), (negatives.targets, "item"), (items, "item")):
            _in_range(values, split, what)
    elif isinstance(negatives, CandidateLists):
        users, items = _to_positions(negatives.users, split, "user"), _to_positions(negatives.negatives, split, "item")
        targets = None if negatives.targets is None else _to_positions(negatives.targets, split, "item")
    else:
        raise TypeError(
            f"`negatives` is a {type(negatives).__name__}; allowed is what `read_negatives` (NCF) or "
            "`read_elliot_negatives` returns."
        )
    sizes = np.diff(negatives.offsets)
    if design is None:
        how = replace(how, design=Sample(max(int(sizes.max(initial=0)), 1), replace=False))
    lists = np.repeat(np.arange(len(users)), sizes)
    if targets is None:
        cases, kept = _cases_of_split(split, users, lists, missing)
        lists, items = lists[kept], items[kept]
    else:
        cases = _Cases.at_positions(split, np.arange(len(users)), users, targets)
        if split is not None and missing == "error":
            _refuse_absent(split, ~among(split.users, np.unique(users)))
    scorer = as_scorer(model, split, name=name)
    called = name or scorer.name
    _known(scorer, called, cases.users, np.concatenate([items, cases.targets]))

    # targets are scored with their list, and every pair once: asked twice, a model may round differently
    width = int(max(items.max(initial=0), cases.targets.max(initial=0))) + 1
    keys = np.unique(np.concatenate([lists * width + items, cases.lists * width + cases.targets]))
    lists, items = keys // width, keys % width
    scores = _score(scorer, called, cases, lists, items)
    return _rank(_Rows(lists, items, scores, f"model `{called}`"), cases, how)


#: The same function, named like its siblings.
counts_from_negatives = rank_candidates


def counts_from_scores(
    frame: Any,
    n_items: Any = None,
    design: Design | str = "uni99",
    *,
    targets: Any = None,
    candidates: str = "unseen",
    ties: str = "random",
    rng: RNG = 0,
    missing: str = "error",
    user: str | None = None,
    item: str | None = None,
    score: str | None = None,
    label: str | None = None,
) -> RankCounts:
    """Rank the scores of a frame (pandas, polars, pyarrow, a mapping of arrays): one row per user and candidate.

    Columns ``user_id``, ``item_id``, ``score`` are found under their usual names (``query_id``, ``userID``, ``q_id``,
    ``doc_id``, ``docno``, …) or named by ``user=``, ``item=``, ``score=``. A row is a target where its ``label``
    (``target``, ``relevance``) is 1; or where ``targets``, a frame or a tuple (users, items), has it; or where the `Split`
    given as ``n_items`` has it. All other rows of the user are the negatives, shared by the user's targets.

    ``design`` says how they were drawn: "uni99", with or without replacement; "full" when they are all candidates, and
    ``n_items`` can then be left out. ``n_items``, ``candidates``, ``missing`` as in :func:`rank_candidates`. A pair that
    occurs twice counts once, and must have one score.
    """
    how = _How(n_items, design, candidates, ties, rng, missing)
    wanted = ["user", "item", "score"]
    if targets is None and (how.split is None or label is not None):
        wanted.append("label")
    found = _columns(frame, wanted, {"user": user, "item": item, "score": score, "label": label})
    users, items = found["user"], found["item"]
    if "label" in found:
        odd = ~np.isin(found["label"], (0, 1))
        if odd.any():
            raise ValueError(
                f"the label column holds {found['label'][odd][0]:g}; allowed are 0 and 1, or true and false."
            )
        rows = np.flatnonzero(found["label"] == 1)
        if len(rows):  # a target that was drawn as well stands there twice, and is one case
            key = encode(users[rows], "user")[0] * len(rows) + encode(items[rows], "item")[0]
            rows = rows[np.sort(np.unique(key, return_index=True)[1])]
        of = (users[rows], items[rows])
    elif isinstance(targets, tuple):
        of = _pair(targets, "targets")
    elif targets is not None:
        named = _columns(targets, ("user", "item"), {})
        of = (named["user"], named["item"])
    else:
        of = _split_names(how.split)
    return _rank_pairs(users, items, _numbers(found["score"], "score"), of, how, "the frame")


def counts_from_trec(
    run: Any,
    qrels: Any,
    n_items: Any = None,
    design: Design | str = "uni99",
    *,
    candidates: str = "unseen",
    ties: str = "random",
    rng: RNG = 0,
    missing: str = "error",
    min_relevance: int = 1,
) -> RankCounts:
    """Rank a TREC run: queries are users, documents are items, those judged ``min_relevance`` or better are the targets.

    ``run`` and ``qrels`` are paths, frames (``query_id``, ``doc_id``, ``score`` or ``relevance``) or nested dicts
    ``{qid: {docno: value}}``. As in trec_eval the scores decide, not the rank column. The run must hold the whole sample and
    every target: a run cut at some depth has lost negatives *because of* their rank, and no correction holds for it.
    ``missing="drop"`` leaves out queries that only one of the two has. The rest as in :func:`counts_from_scores`.
    """
    how = _How(n_items, design, candidates, ties, rng, missing)
    ran = _columns(_nested(run, "score", read_trec_run), ("user", "item", "score"), {})
    judged = _nested(qrels, "relevance", read_trec_qrels)
    truth = _columns(judged, ("user", "item", "label"), {})
    relevant = truth["label"] >= min_relevance
    if not relevant.any():
        raise ValueError(f"`qrels` judges no document {min_relevance} or better, so there is nothing to rank.")
    of = (truth["user"][relevant], truth["item"][relevant])
    return _rank_pairs(ran["user"], ran["item"], _numbers(ran["score"], "score"), of, how, "the run")


def counts_from_recbole(
    scores: Any,
    positives: Any,
    n_items: Any = None,
    design: Design | str = "uni100",
    *,
    users: Any = None,
    candidates: str = "unseen",
    ties: str = "random",
    rng: RNG = 0,
) -> RankCounts:
    """Rank what RecBole's `Collector.eval_batch_collect` receives: a dense users × items matrix of scores, or its entries.

    ``scores`` is the matrix (NumPy or torch), −inf (or NaN, where no −inf is used) for what was not sampled, or
    ``(users, items, scores)``; ``positives`` is the pair ``(positive_u, positive_i)``. RecBole's ``uniN`` draws N per
    positive with replacement and pools them per user, and the matrix swallows repeats: the true number of negatives is
    that of the finite scores beside the positives, and is taken as such. ``design="full"`` reads full-sort matrices.

    ``users`` names the user of each row: needed when several batches are added, since rows start at 0 in each, and with a
    `Split` (positions; a matrix with one column more than the split has items is RecBole's, whose item 0 is padding).
    ``n_items`` as in :func:`rank_candidates`; RecBole leaves out validation items too, so a split's ``train`` must hold
    them.
    """
    how = _How(n_items, design, candidates, ties, rng, "error")
    rows, items, values, width = _recbole_entries(scores)
    of_rows, of_items = _pair(positives, "positives")
    if how.split is not None and width == how.split.n_items + 1:
        items, of_items = items - 1, of_items - 1
        if (items < 0).any():
            raise ValueError("`scores` has a finite score in column 0, which is padding in RecBole: mask it with -inf.")
    if users is not None:
        named = _values(_numpy(users), "user")
        for part in (rows, of_rows):
            if part.dtype.kind != "i" or (len(part) and (part.min() < 0 or part.max() >= len(named))):
                raise ValueError(f"`users` names {len(named)} rows, but `scores` or `positives` holds others.")
        rows, of_rows = named[rows], named[of_rows]
    return _rank_pairs(rows, items, values, (of_rows, of_items), how, "`scores`")


# ------------------------------------------------------------------------------------------------------ the one ranking


@dataclass(frozen=True)
class _How:
    """What the caller said about the lists, checked before anything is read or scored."""

    n_items: Any
    design: Design | str
    candidates: str
    ties: str
    rng: RNG
    missing: str

    def __post_init__(self) -> None:
        declared = self.declared
        if not isinstance(declared, Sample | Exhaustive):
            raise ValueError(
                f"`design` is '{declared}', but a candidate list is one sample: 'uni99' and 'full' are allowed."
            )
        choices = {"candidates": ("unseen", "all"), "ties": TIES, "missing": ("error", "drop")}
        for what, allowed in choices.items():
            if getattr(self, what) not in allowed:
                raise ValueError(f"`{what}` is {getattr(self, what)!r}; allowed are {', '.join(map(repr, allowed))}.")

    @property
    def declared(self) -> Design:
        return parse_design(self.design)

    @property
    def split(self) -> Split | None:
        return self.n_items if isinstance(self.n_items, Split) else None


@dataclass(frozen=True)
class _Rows:
    """Item `items[r]` stands in list `lists[r]` with score `scores[r]`; repeats and targets may be among them."""

    lists: Ints
    items: Ints
    scores: NDArray[np.float64]
    source: str


@dataclass(frozen=True)
class _Cases:
    """User `users[c]` has the target `targets[c]`, to be ranked among the items of list `lists[c]`.

    Users and items are numbers; `user_names` and `item_names` say whose, None if the number is the name. Where they are
    a split's positions, the names are for messages only: ties and blocks go by position, as in `observe`.
    """

    lists: Ints
    users: Ints
    targets: Ints
    user_names: Array | None = None
    item_names: Array | None = None
    by_position: bool = False

    @classmethod
    def at_positions(cls, split: Split | None, lists: Ints, users: Ints, targets: Ints) -> _Cases:
        names = (None, None) if split is None else (split.user_ids, split.item_ids)
        return cls(lists, users, targets, *names, by_position=True)

    def take(self, kept: Array) -> _Cases:
        return replace(self, lists=self.lists[kept], users=self.users[kept], targets=self.targets[kept])

    def owner_of(self, lists: Ints) -> Ints:
        """The user of each list."""
        order = np.argsort(self.lists, kind="stable")
        return np.asarray(self.users[order[np.searchsorted(self.lists[order], lists)]])

    def user_ids(self) -> Array:
        """What users are called outside."""
        return self.users if self.by_position or self.user_names is None else self.user_names[self.users]

    def tie_keys(self) -> tuple[Ints, Callable[[Ints], Ints]]:
        """What ties are drawn from: of the users, and a function that gives those of items."""
        if self.by_position:
            return self.users, lambda items: items
        return _keys(self.user_names)(self.users), _keys(self.item_names)

    def user(self, code: Any) -> str:
        return f"user {_plain(code, self.user_names)}"

    def item(self, code: Any) -> str:
        return f"item {_plain(code, self.item_names)}"


def _rank(rows: _Rows, cases: _Cases, how: _How) -> RankCounts:
    """Count, for every case, the distinct negatives of its list and those of them that rank above the target."""
    split = how.split
    if not len(cases.targets):
        raise ValueError("there are no targets, so there is nothing to rank.")
    width = int(max(rows.items.max(initial=0), cases.targets.max())) + 1
    _refuse_repeated_cases(cases, width)
    total = len(cases.targets)
    rows, cases, kept = _matched(rows, cases, how.missing)
    _, inverse, times = np.unique(cases.users, return_inverse=True, return_counts=True)
    T = times[inverse]
    N = _candidates_of(how, cases, kept, total, T)

    order = np.lexsort((rows.items, rows.lists))
    lists, items, scores = rows.lists[order], rows.items[order], rows.scores[order]
    keys, users = lists * width + items, cases.owner_of(lists)
    _refuse_bad_scores(rows.source, users, items, scores, keys, cases)
    first = np.r_[True, keys[1:] != keys[:-1]]
    wanted = cases.lists * width + cases.targets
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    absent = keys[place] != wanted
    if absent.any():
        c = int(np.flatnonzero(absent)[0])
        raise ValueError(
            f"{rows.source} has no score for {cases.item(cases.targets[c])}, a target of {cases.user(cases.users[c])}"
            f"{_more(absent.sum())}; every target needs one (lists cut at the top hold no uniform sample)."
        )
    negative = first & ~among(users * width + items, np.sort(cases.users * width + cases.targets))
    target_scores = scores[place]
    lists, users, items, scores = lists[negative], users[negative], items[negative], scores[negative]
    lo, hi = (np.searchsorted(lists, cases.lists, side=side) for side in ("left", "right"))
    drawn = hi - lo
    if (drawn == 0).any():
        c = int(np.flatnonzero(drawn == 0)[0])
        raise ValueError(f"{cases.user(cases.users[c])}{_more((drawn == 0).sum())} has no negatives beside the target.")
    if split is not None and how.candidates == "unseen":
        _refuse_seen(split, users, items, cases)
    design, N = _settled(how.declared, drawn, N, T, cases)
    if split is not None and isinstance(design, Sample):
        _look_uniform(split, how.candidates, items, drawn / (N - 1), cases)
    hits, places = _hits(cases, target_scores, lo, hi, items, scores, how)
    weights = None
    if split is not None and split.weights is not None:
        by_user = np.zeros(split.n_users)
        by_user[split.users] = split.weights
        weights = by_user[cases.users]
    return RankCounts.from_outcomes(
        np.where(drawn == N - 1, ALL, drawn), hits, N, design, weights=weights, order=places, targets=T,
        users=cases.user_ids(),
    )  # fmt: skip


def _matched(rows: _Rows, cases: _Cases, missing: str) -> tuple[_Rows, _Cases, Ints]:
    """Lists that have a case and cases that have a list; the others are an error, or dropped."""
    listed, asked = np.unique(rows.lists), np.unique(cases.lists)
    lonely = ~among(cases.lists, listed)
    idle = ~among(rows.lists, asked)
    if missing == "error" and lonely.any():
        c = int(np.flatnonzero(lonely)[0])
        raise ValueError(
            f"{rows.source} has nothing for {cases.user(cases.users[c])}{_more(lonely.sum())}, who has a target: add the "
            "scores, or leave such users out with `missing='drop'`."
        )
    if missing == "error" and idle.any():
        users = np.unique(rows.lists[idle])  # lists without a case only come one per user
        raise ValueError(
            f"{rows.source} has scores for {cases.user(users[0])}{_more(len(users))}, who has no target: give it, or leave "
            "such users out with `missing='drop'`."
        )
    if lonely.all() or idle.all():
        raise ValueError(f"no user of {rows.source} has a target: are the users named alike in both?")
    kept = np.flatnonzero(~lonely)
    left = _Rows(rows.lists[~idle], rows.items[~idle], rows.scores[~idle], rows.source)
    return left, cases.take(kept), kept


def _candidates_of(how: _How, cases: _Cases, kept: Ints, total: int, T: Ints) -> Ints | None:
    """N′ of every case: as given, or items − seen − other targets."""
    n_items = how.n_items
    if n_items is None:
        return None
    if isinstance(n_items, Split):
        known = np.sort(n_items.users * n_items.n_items + n_items.items)
        strange = ~among(cases.users * n_items.n_items + cases.targets, known)
        if strange.any():
            c = int(np.flatnonzero(strange)[0])
            raise ValueError(
                f"{cases.item(cases.targets[c])} is a target of {cases.user(cases.users[c])} here and not in the split"
                f"{_more(strange.sum())}; they must be the same."
            )
        targets = n_items.targets_per_user[cases.users]
        if (targets != T).any():
            c = int(np.flatnonzero(targets != T)[0])
            raise ValueError(
                f"{cases.user(cases.users[c])} has {T[c]} target{'s' if T[c] > 1 else ''} here and {targets[c]} in the split"
                f"{_more((targets != T).sum())}; they must be the same."
            )
        seen = np.diff(n_items.train.indptr)[cases.users] if how.candidates == "unseen" else 0
        return np.asarray(n_items.n_items - seen - (T - 1), dtype=np.int64)
    if isinstance(n_items, Mapping):
        names = cases.user_ids().tolist()
        unknown = next((name for name in names if name not in n_items), None)
        if unknown is not None:
            raise ValueError(f"`n_items` has no entry for user {unknown!r}.")
        N = _per_case("n_items", np.array([n_items[name] for name in names]), len(names))
    else:
        N = _per_case("n_items", n_items, total)[kept]
    if (N < 2).any():
        c = int(np.flatnonzero(N < 2)[0])
        raise ValueError(
            f"`n_items` is {N[c]} for {cases.user(cases.users[c])}; allowed is the number of candidates, target included, "
            "of at least 2."
        )
    return N


def _settled(declared: Design, drawn: Ints, N: Ints | None, T: Ints, cases: _Cases) -> tuple[Design, Ints]:
    """The design the outcomes follow, once the lists are seen to be what was declared."""

    def first(bad: Array) -> tuple[int, str]:
        c = int(np.flatnonzero(bad)[0])
        return c, f"{cases.user(cases.users[c])}{_more(bad.sum())} has {drawn[c]:,} distinct negatives"

    if N is None and isinstance(declared, Exhaustive):
        return declared, drawn + 1
    if N is None:
        raise ValueError(
            "`n_items` is missing: how many candidates (target included) the full ranking would have; a number, one per "
            "case or user, or a Split."
        )
    if (drawn > N - 1).any():
        c, has = first(drawn > N - 1)
        raise ValueError(f"{has}, more than the {N[c] - 1:,} that `n_items` leaves room for.")
    if not isinstance(declared, Sample):
        if (drawn < N - 1).any():
            c, has = first(drawn < N - 1)
            raise ValueError(f"{has} of {N[c] - 1:,}: that is not 'full', declare the sample ('uni{drawn[c]}').")
        return declared, N
    pooled = declared.negatives * (T if len(np.unique(cases.lists)) < len(cases.lists) else np.ones_like(T))
    if (drawn > pooled).any():
        raise ValueError(f"{first(drawn > pooled)[1]}, but `design` is '{declared}': declare the number drawn.")
    # with replacement, the fewest distinct negatives to be expected; without, or pooled over targets, there are more
    expected = -(N - 1) * np.expm1(declared.negatives * np.log1p(-1 / np.maximum(N - 1, 2)))
    few = drawn < expected / 2 - 5  # the 5 so that short lists may be a few short
    if few.any():
        c, has = first(few)
        warnings.warn(
            f"{has} where '{declared}' gives about {expected[c]:.0f}: if lists were cut by score, what is left is no "
            "uniform sample and the correction is wrong.",
            stacklevel=4,
        )
    return Sample(declared.negatives, replace=False), N


def _hits(
    cases: _Cases, target_scores: Array, lo: Ints, hi: Ints, items: Ints, scores: Array, how: _How
) -> tuple[Ints, Ints]:
    """How many negatives beat each target, and the target's place among its user's; both decided by the kernels."""
    from fullrank.ranks import kernels as k

    users, item_keys = cases.tie_keys()
    items, targets = item_keys(items), item_keys(cases.targets)
    order = np.lexsort((cases.targets, cases.users))  # the kernels want a user's targets side by side
    starts = np.flatnonzero(np.diff(cases.users[order], prepend=-1))
    ptr = np.append(starts, len(order)).astype(np.int64)
    group = np.repeat(np.arange(len(starts)), np.diff(ptr))
    lo, sizes, target_scores = lo[order], (hi - lo)[order], np.ascontiguousarray(target_scores[order])
    none = fixed(np.zeros(0, dtype=np.int64))
    owners = fixed(users[order][starts])
    seen = k.Cases(
        owners, owners, fixed(ptr), fixed(targets[order]), none, none, fixed(np.zeros(0, dtype=np.int32)), True, 0,
        0, int(np.diff(ptr).max()),
    )  # fmt: skip
    tie_seed, draw_seed = np.random.SeedSequence(seed_of(how.rng)).generate_state(2, np.uint64)
    ties = (k.RANDOM, k.OPTIMISTIC, k.PESSIMISTIC)[TIES.index(how.ties)]
    rules = k.Rules(none, 0, False, ties, tie_seed, draw_seed)
    hits, places = np.zeros(len(order), dtype=np.int64), np.ones(len(order), dtype=np.int64)
    status = np.zeros(len(starts), dtype=np.int8)
    step = max(1, SCORES_PER_CALL // (1 + int(sizes.max())))
    for first in range(0, len(order), step):
        rows = np.arange(first, min(first + step, len(order)))
        column = np.arange(int(sizes[rows].max()))
        at = np.where(column < sizes[rows, None], lo[rows, None] + column, 0)
        k.count_batch(
            seen, rules, rows, group[rows], sizes[rows], fixed(np.column_stack([targets[order][rows], items[at]])),
            fixed(np.column_stack([target_scores[rows], scores[at]])), hits, status,
        )  # fmt: skip
    k.order_targets(seen, rules, scratch_for(seen, np.empty(0, target_scores.dtype)), target_scores, places)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return hits[back], places[back]


def _keys(names: Array | None) -> Callable[[Ints], Ints]:
    """An integer name is its own key; another gets a hash that is the same in every file and on every machine."""
    if names is None:
        return lambda codes: codes
    if names.dtype.kind in "iu":
        return lambda codes: np.asarray(names[codes], dtype=np.int64)
    hashed = (hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in names)
    keys = np.array([int.from_bytes(digest, "big") >> 1 for digest in hashed], dtype=np.int64)
    return lambda codes: keys[codes]


# ------------------------------------------------------------------------------------------------------ what is refused


def _refuse_repeated_cases(cases: _Cases, width: int) -> None:
    keys = np.sort(cases.users * width + cases.targets)
    repeated = keys[1:][keys[1:] == keys[:-1]]
    if len(repeated):
        user, item = divmod(int(repeated[0]), width)
        raise ValueError(
            f"{cases.item(item)} is listed twice as a target of {cases.user(user)}{_more(len(repeated))}; list every "
            "(user, target) once."
        )


def _refuse_bad_scores(source: str, users: Ints, items: Ints, scores: Array, keys: Ints, cases: _Cases) -> None:
    bad = np.isnan(scores)
    if bad.any():
        r = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{source} has a score that is missing or not a number (NaN) for {cases.user(users[r])} and "
            f"{cases.item(items[r])}{_more(bad.sum())}."
        )
    torn = np.flatnonzero((keys[1:] == keys[:-1]) & (scores[1:] != scores[:-1]))
    if len(torn):
        r = int(torn[0])
        raise ValueError(
            f"{source} scores {cases.item(items[r])} of {cases.user(users[r])} twice and differently, "
            f"{scores[r]:g} and {scores[r + 1]:g}{_more(len(torn))}."
        )


def _refuse_seen(split: Split, users: Ints, items: Ints, cases: _Cases) -> None:
    seen = split._in_train(users * split.n_items + items)
    if seen.any():
        r = int(np.flatnonzero(seen)[0])
        raise ValueError(
            f"{cases.item(items[r])} is a negative of {cases.user(users[r])} and in the user's training items"
            f"{_more(seen.sum())}: if negatives were drawn from all items, say `candidates='all'`."
        )


def _refuse_absent(split: Split, absent: Array) -> None:
    if absent.any():
        c = int(np.flatnonzero(absent)[0])
        raise ValueError(
            f"the file has no negatives for user {_plain(split.users[c], split.user_ids)}{_more(absent.sum())}, who has a "
            "target in the split: leave such users out with `missing='drop'`."
        )


def _look_uniform(split: Split, candidates: str, items: Ints, rate: Array, cases: _Cases) -> None:
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


def _known(scorer: Any, name: str, users: Ints, items: Ints) -> None:
    for what, values in (("user", users), ("item", items)):
        size = getattr(scorer, f"n_{what}s", None)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        if low < 0 or (size is not None and high >= size):
            known = "" if size is None else f", which knows {size:,} {what}s: 0 to {size - 1}"
            raise ValueError(f"{what} {low if low < 0 else high} is unknown to model `{name}`{known}.")


def _in_range(values: Ints, split: Split | None, what: str) -> None:
    size = _LARGEST_POSITION if split is None else split.n_users if what == "user" else split.n_items
    outside = (values < 0) | (values >= size)
    if outside.any():
        where = "a position" if split is None else f"in the split, which has {size:,} {what}s: 0 to {size - 1}"
        raise ValueError(f"{what} {values[outside][0]} is not {where}{_more(outside.sum())}.")


def _more(count: Any) -> str:
    return "" if count <= 1 else f" (and {int(count) - 1:,} more)"


def _plain(code: Any, names: Array | None) -> str:
    name = code if names is None else names[int(code)]
    return repr(name.item() if isinstance(name, np.generic) else name)


# ------------------------------------------------------------------------------------------------------ scores of lists


def _cases_of_split(split: Split | None, users: Ints, lists: Ints, missing: str) -> tuple[_Cases, Array]:
    """Targets of a file that has none: the split's; and which rows are lists of users with a test case."""
    if split is None:
        raise ValueError(
            "the file lists negatives per user and no targets: give a Split, which has them, as `n_items`."
        )
    order = np.argsort(users, kind="stable")
    place = np.minimum(np.searchsorted(users[order], split.users), len(users) - 1)
    found = users[order][place] == split.users
    if missing == "error":
        _refuse_absent(split, ~found)
    cases = _Cases.at_positions(split, order[place], split.users, split.items).take(found)
    return cases, among(lists, np.unique(cases.lists))


def _score(scorer: Any, name: str, cases: _Cases, lists: Ints, items: Ints) -> NDArray[np.float64]:
    """The model's scores of (user, item), sorted by list: rectangles of whole lists, padded, are asked at once."""
    users = cases.owner_of(lists)
    if isinstance(scorer, Table):
        stored = scorer.scores.sorted_indices()
        rows = np.repeat(np.arange(scorer.n_users, dtype=np.int64), np.diff(stored.indptr))
        known = among(users * scorer.n_items + items, rows * scorer.n_items + stored.indices)
        if not known.all():
            r = int(np.flatnonzero(~known)[0])
            raise ValueError(
                f"model `{name}` has no score for {cases.user(users[r])} and {cases.item(items[r])}{_more((~known).sum())}."
            )
    starts = np.flatnonzero(np.diff(lists, prepend=-1))
    sizes = np.diff(np.append(starts, len(lists)))
    out = np.empty(len(lists))
    wide = max(int(sizes.max(initial=1)), getattr(scorer, "n_items", None) or 1)  # some models make whole rows
    step = int(np.clip((1 << 22) // wide, 1, max(1, SCORES_PER_CALL // int(sizes.max(initial=1)))))
    for first in range(0, len(starts), step):
        begin, size = starts[first : first + step], sizes[first : first + step]
        column = np.arange(int(size.max()))
        inside = column < size[:, None]
        at = np.where(inside, begin[:, None] + column, begin[:, None])
        out[at[inside]] = floats(scorer.score(users[begin], items[at]))[inside]
    return out


# ------------------------------------------------------------------------------------------------------ frames and pairs


def _rank_pairs(
    users: Array, items: Array, scores: Array, targets: tuple[Array, Array], how: _How, source: str
) -> RankCounts:
    """Rank rows (user, item, score): one list per user, shared by the user's targets."""
    if not len(users):
        raise ValueError(f"{source} has no rows.")
    split = how.split
    names: list[Array | None] = []
    codes: list[tuple[Ints, Ints]] = []
    for what, listed, asked in (("user", users, targets[0]), ("item", items, targets[1])):
        if split is not None:
            codes.append((_to_positions(listed, split, what), _to_positions(asked, split, what)))
            names.append(None)
            continue
        if len(asked) and (listed.dtype.kind in "UO") != (asked.dtype.kind in "UO"):
            raise TypeError(f"{source} and its targets name {what}s differently: strings in one, numbers in the other.")
        both, labels, _ = encode(np.concatenate([listed, asked]) if len(asked) else listed, what)
        codes.append((both[: len(listed)], both[len(listed) :]))
        names.append(labels)
    (rows, entries), (of, asked) = zip(*codes, strict=True)
    cases = (
        _Cases.at_positions(split, of, of, asked) if split is not None else _Cases(of, of, asked, names[0], names[1])
    )
    return _rank(_Rows(rows, entries, scores, source), cases, how)


def _to_positions(names: Array, split: Split | None, what: str) -> Ints:
    """Names as the split's positions; without a split, names must be positions already."""
    ids = None if split is None else split.user_ids if what == "user" else split.item_ids
    if names.dtype.kind in "UO":
        names = names.astype(str)
        if ids is None or ids.dtype.kind in "iu":  # files hold text: 7 and "7" are the same name
            odd = next((name for name in names if not _INTEGER.fullmatch(name)), None)
            if odd is not None:
                known = (
                    "there is no split with names to translate it" if ids is None else "the split's names are numbers"
                )
                raise ValueError(f"{what} {str(odd)!r} is unknown: {known}.")
            names = names.astype(np.int64)
    elif names.dtype.kind == "f":
        whole = names.astype(np.int64)
        if (whole != names).any():
            raise ValueError(f"{what} {names[whole != names][0]} is no name: allowed are integers or strings.")
        names = whole
    if ids is None:
        _in_range(names, split, what)
        return names
    if ids.dtype.kind in "UO":
        names, ids = names.astype(str), ids.astype(str)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], names), len(ids) - 1)
    unknown = ids[order][place] != names
    if unknown.any():
        raise ValueError(f"{what} {_plain(names[unknown][0], None)} is not in the split{_more(unknown.sum())}.")
    return np.asarray(order[place], dtype=np.int64)


def _split_names(split: Split | None) -> tuple[Array, Array]:
    if split is None:
        raise ValueError("there are no targets: give a `label` column, `targets=`, or a Split as `n_items`.")
    return (
        split.users if split.user_ids is None else split.user_ids[split.users],
        split.items if split.item_ids is None else split.item_ids[split.items],
    )


def _columns(frame: Any, wanted: Sequence[str], overrides: Mapping[str, str | None]) -> dict[str, Array]:
    """The wanted columns of a frame or mapping, found under their usual names."""
    if isinstance(frame, Mapping):
        table: Any = frame
        names: Sequence[str] = [str(name) for name in frame]
    else:
        import narwhals.stable.v1 as nw

        table = nw.from_native(frame, pass_through=True)
        table = table.collect() if isinstance(table, nw.LazyFrame) else table
        if not isinstance(table, nw.DataFrame):
            raise TypeError(
                f"a {type(frame).__name__} was given; allowed are a pandas, polars or pyarrow frame or a mapping of arrays."
            )
        names = table.columns
    found: dict[str, Array] = {}
    for what in wanted:
        name = columns_.find_column(names, what, overrides.get(what))
        if name is None:
            hint = " (or give `targets=`, or a Split as `n_items`)" if what == "label" else ""
            raise ValueError(
                f"no column looks like the {what}; the columns are {columns_.listed(names)}: name one with `{what}=`{hint}."
            )
        found[what] = _truth(table[name], what) if what == "label" else _values(table[name], what)
    if len({len(values) for values in found.values()}) > 1:
        sizes = ", ".join(f"`{what}` {len(values):,}" for what, values in found.items())
        raise ValueError(f"the columns have different lengths: {sizes}.")
    return found


def _truth(values: Any, what: str) -> Array:
    """Labels as numbers: booleans are 0 and 1."""
    array = _to_numpy(values)
    if array.dtype.kind == "O" and all(isinstance(value, bool | np.bool_) for value in array):
        array = array.astype(bool)
    return _numbers(_values(array.astype(np.int64) if array.dtype.kind == "b" else array, what), what)


def _numbers(values: Array, what: str) -> NDArray[np.float64]:
    if values.dtype.kind not in "iuf":
        raise TypeError(f"`{what}` holds {str(values[0])!r}; numbers were expected.")
    return values.astype(np.float64)


def _pair(given: Any, what: str) -> tuple[Array, Array]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"`{what}` is a {type(given).__name__}; allowed is a pair (users, items) of equal length.")
    users, items = _values(_numpy(given[0]), "user"), _values(_numpy(given[1]), "item")
    if len(users) != len(items):
        raise ValueError(f"`{what}` has {len(users)} users and {len(items)} items: a target needs one of each.")
    return users, items


def _nested(given: Any, value: str, read: Callable[[Source], dict[str, Array]]) -> Any:
    """A path is read; ``{query: {document: value}}`` becomes columns; a frame stays as it is."""
    if isinstance(given, str | os.PathLike) or hasattr(given, "read"):
        return read(given)
    if isinstance(given, Mapping) and all(isinstance(each, Mapping) for each in given.values()):
        return {
            "query_id": [query for query, documents in given.items() for _ in documents],
            "doc_id": [document for documents in given.values() for document in documents],
            value: [each for documents in given.values() for each in documents.values()],
        }
    return given


def _recbole_entries(scores: Any) -> tuple[Array, Array, NDArray[np.float64], int]:
    """(row, item, score) of what was sampled, which is everything but the mark for "not sampled"; and the matrix' width."""
    if isinstance(scores, tuple):
        if len(scores) != 3:
            raise TypeError(f"`scores` is a tuple of {len(scores)}; a matrix or (users, items, scores) was expected.")
        table, width = floats(scores[2]), 0
    else:
        table = floats(scores)
        if table.ndim != 2:
            raise ValueError(f"`scores` has shape {table.shape}; users × items was expected.")
        width = table.shape[1]
    unmarked, nan = ~np.isneginf(table), np.isnan(table)
    if nan.any() and not unmarked.all():
        place = ", ".join(str(each[0]) for each in nan.nonzero())
        raise ValueError(
            f"`scores` marks what was not sampled by -inf, yet the entry at {place}{_more(nan.sum())} is NaN: the model "
            "gave no number there."
        )
    sampled = unmarked & ~nan
    if width:
        rows, items = sampled.nonzero()
    else:
        rows, items = _pair(scores[:2], "scores")
        if table.shape != rows.shape:
            raise ValueError(f"`scores` has {len(rows)} users and items but scores of shape {table.shape}.")
        rows, items = rows[sampled], items[sampled]
    return rows, items, table[sampled].astype(np.float64), width


# ------------------------------------------------------------------------------------------------------ readers


@dataclass(frozen=True, eq=False)
class CandidateLists:
    """Lists of negatives by name: list l belongs to ``users[l]`` (and ``targets[l]``, where the file says it).

    Its negatives are ``negatives[offsets[l]:offsets[l + 1]]``, as they stand in the file.
    """

    users: Array
    targets: Array | None
    negatives: Array
    offsets: Ints

    def __post_init__(self) -> None:
        users, offsets = len(self.users), np.asarray(self.offsets)
        fits = len(offsets) == users + 1 and offsets[0] == 0 and offsets[-1] == len(self.negatives)
        if not fits or (np.diff(offsets) < 0).any() or (self.targets is not None and len(self.targets) != users):
            raise ValueError(
                f"`offsets` must rise from 0 to the {len(self.negatives)} negatives in {users} steps, one per user, and "
                "`targets`, if given, must be one per user."
            )

    def __len__(self) -> int:
        return len(self.users)


def read_elliot_negatives(source: Source, *, progress: bool = False) -> CandidateLists:
    """Read Elliot's negatives: a user, or a tuple (user,) or (user, item), then the negatives, separated by tabs.

    Elliot writes ``str((user,))``, so names may be quoted, and wrapped (``np.int64(7)``) by recent versions of NumPy. Names
    that are all whole numbers are read as such. A last line that is shorter than all the others, which agree, and has no
    line end is taken for a file cut short.
    """
    heads: list[tuple[str, ...]] = []
    lines: list[int] = []
    sizes: list[int] = []
    items: list[str] = []
    ended = True  # whether the last line has a line end
    for number, line, whole in _text_lines(source, progress):
        ended = whole
        head, tab, tail = line.partition("\t")
        names = _head(head)
        if not tab or names is None:
            raise _unreadable(
                source, number, line.encode(), "a user, or (user,) or (user, item), and negatives separated by tabs"
            )
        found = tail.rstrip("\t ").split("\t") if tail.strip() else []
        if not all(found):
            raise _unreadable(source, number, line.encode(), "an item between every two tabs")
        if heads and len(names) != len(heads[0]):
            raise _unreadable(
                source, number, line.encode(), f"{'a user and an item' if len(heads[0]) == 2 else 'a user'} first"
            )
        heads.append(names)
        lines.append(number)
        sizes.append(len(found))
        items += found
    if not heads:
        raise _empty(source)
    first: dict[tuple[str, ...], int] = {}
    for head_, number in zip(heads, lines, strict=True):
        if first.setdefault(head_, number) != number:
            raise ValueError(
                f"`{_name(source)}` line {number}: {', '.join(head_)} has a list already, in line {first[head_]}."
            )
    if not ended and len(set(sizes[:-1])) == 1 and sizes[-1] < sizes[0]:
        raise ValueError(
            f"`{_name(source)}` line {lines[-1]}: {sizes[-1]} negatives where every other line has {sizes[0]}, and no line "
            "end; is the file cut short?"
        )
    offsets = np.r_[0, np.cumsum(sizes)].astype(np.int64)
    targets = _typed([head[1] for head in heads]) if len(heads[0]) == 2 else None
    return CandidateLists(_typed([head[0] for head in heads]), targets, _typed(items), offsets)


def read_trec_run(source: Source, *, progress: bool = False) -> dict[str, Array]:
    """Read a TREC run, ``qid Q0 docno rank score tag``, as columns ``query_id``, ``doc_id``, ``score``; ids stay strings.

    The rank column is not used (trec_eval does not either). A document twice in a query is an error.
    """
    found = _read_trec(source, progress, "qid Q0 docno rank score tag", 4, _finite, "a finite score")
    return {"query_id": found[0], "doc_id": found[1], "score": np.array(found[2], dtype=np.float64)}


def read_trec_qrels(source: Source, *, progress: bool = False) -> dict[str, Array]:
    """Read TREC judgements, ``qid 0 docno relevance``, as columns ``query_id``, ``doc_id``, ``relevance``."""
    found = _read_trec(source, progress, "qid 0 docno relevance", 3, _whole, "a whole number as relevance")
    return {"query_id": found[0], "doc_id": found[1], "relevance": np.array(found[2], dtype=np.int64)}


def _read_trec(
    source: Source, progress: bool, form: str, value: int, read: Callable[[str], Any], expected: str
) -> tuple[Array, Array, list[Any]]:
    queries: list[str] = []
    documents: list[str] = []
    values: list[Any] = []
    lines: list[int] = []
    width = len(form.split())
    for number, line, _ in _text_lines(source, progress):
        fields = line.split()
        if len(fields) != width:
            raise _unreadable(source, number, line.encode(), form)
        number_read = read(fields[value])
        if number_read is None:
            raise _unreadable(source, number, line.encode(), expected)
        queries.append(fields[0])
        documents.append(fields[2])
        values.append(number_read)
        lines.append(number)
    if not lines:
        raise ValueError(f"`{_name(source)}` line 1: the file is empty; expected lines of {form}.")
    names, docs = np.array(queries, dtype=object), np.array(documents, dtype=object)
    query, document = encode(names, "user")[0], encode(docs, "item")[0]
    keys = query * (int(document.max()) + 1) + document
    order = np.argsort(keys, kind="stable")
    repeated = order[1:][keys[order[1:]] == keys[order[:-1]]]
    if len(repeated):
        r = int(repeated.min())
        raise ValueError(
            f"`{_name(source)}` line {lines[r]}: document {documents[r]!r} of query {queries[r]!r} is there already"
            f"{_more(len(repeated))}."
        )
    return names, docs, values


def _text_lines(source: Source, progress: bool) -> Iterator[tuple[int, str, bool]]:
    """Yield (number, text, whether it is ended) of every line that is not blank."""
    for block, first in _blocks(source, progress):
        for number, line in enumerate(block.splitlines(keepends=True), first):
            if not line.strip():
                continue
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise _unreadable(source, number, line, "UTF-8 text") from None
            yield number, text.rstrip("\r\n"), line.endswith((b"\n", b"\r"))


_NAME = r"""(?:np\.\w+\()?(-?\d+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)?"""
_TUPLE = re.compile(rf"\(\s*{_NAME}\s*,\s*(?:{_NAME}\s*)?,?\s*\)")


def _head(text: str) -> tuple[str, ...] | None:
    """The names in the first field: ``(7,)``, ``('ann', 'x')``, ``7``, ``ann``; None if there are none."""
    text = text.strip()
    if not text.startswith("("):
        return (text,) if text else None
    found = _TUPLE.fullmatch(text)
    if found is None:
        return None
    return tuple(ast.literal_eval(name) if name[0] in "'\"" else name for name in found.groups() if name is not None)


def _typed(names: list[str]) -> Array:
    """Integers if all names are written as such, else strings."""
    if all(_INTEGER.fullmatch(name) for name in names):
        return np.array(names, dtype=np.int64) if names else np.zeros(0, dtype=np.int64)
    return np.array(names, dtype=object)


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) and "_" not in text else None


def _whole(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None
