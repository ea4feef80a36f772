"""Ready candidate files: negatives that somebody else drew, ranked by the law that fits them.

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
>>> print(counts)  # repeats count once
1 case of uni3 without replacement (2 negatives) among 1,000 items (unseen)
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fullrank._checks import first_where, more
from fullrank._columns import checked_columns, column_values, frame_columns
from fullrank._tables import is_number
from fullrank._types import RNG, Array, IntArray
from fullrank.data.frames import among, encode, encode_together, locate, repeats, stored_in, whole_names
from fullrank.data.readers import LARGEST_POSITION, Negatives, Source
from fullrank.data.split import Split
from fullrank.models.scorer import Table, as_scorer, floats, to_numpy
from fullrank.observing.task import SCORES_PER_CALL
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Design, Sample
from fullrank.reading.candidate_files import WHOLE_NUMBER, CandidateLists, read_trec_qrels, read_trec_run
from fullrank.reading.candidate_ranking import Cases, How, Listed, rank_lists, written


def counts_from_negatives(
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
    mapping from users, the target counted, the user's other targets not; ``candidates`` is then only what the counts will
    say, and may be a name of your own. A file without targets takes them from the split.

    ``design`` is what the file should hold, "uni99"; by default as many as its longest list. ``missing="drop"`` leaves
    out users that the split has and the file has not. ``ties`` and ``rng`` as in ``observe``: with a split, tied items
    fall in the same order there and here.

    >>> import numpy as np
    >>> lists = CandidateLists(np.array([0, 1]), np.array([0, 3]), np.array([1, 2, 2, 0, 1, 4]), np.array([0, 3, 6]))
    >>> counts = counts_from_negatives(np.arange(5.0), lists, n_items=5)  # a score per item; user 0 has a repeated negative
    >>> counts.sizes, counts.auc
    (array([2, 3]), 0.333)
    """
    if not isinstance(negatives, Negatives):
        got = type(negatives).__name__
        raise TypeError(f"`negatives` must be what `read_negatives` or `read_elliot_negatives` returns, got a {got}.")
    sizes = np.diff(negatives.offsets)
    if design is None:
        design = Sample(max(int(sizes.max(initial=0)), 1), replace=False)
    how = How(n_items, design, candidates, ties, rng, missing)
    split = how.split
    by_name = isinstance(negatives, CandidateLists)  # NCF's files hold positions, whatever the split's names are
    users = _to_positions(negatives.users, split, "user", by_name)
    items = _to_positions(negatives.negatives, split, "item", by_name)
    targets = None if negatives.targets is None else _to_positions(negatives.targets, split, "item", by_name)
    lists, of = np.repeat(np.arange(len(users)), sizes), np.arange(len(users))
    absent = np.zeros(0, dtype=bool) if split is None else ~among(split.users, np.unique(users))
    if missing == "error" and split is not None and (c := first_where(absent)) is not None:
        user = f"user {written(split.users[c], split.user_ids)}{more(absent.sum())}, who has a target in the split"
        raise ValueError(f"the file has no negatives for {user}: leave such users out with `missing='drop'`.")
    names = (None, None) if split is None else (split.user_ids, split.item_ids)
    if targets is not None:
        cases = Cases(of, users, targets, *names, by_position=True)
    elif split is not None:  # the split's targets, and the lists of users who have one
        cases = Cases(locate(split.users, users), split.users, split.items, *names, by_position=True).take(~absent)
        kept = among(lists, np.unique(cases.lists))
        lists, items = lists[kept], items[kept]
    else:
        raise ValueError("the file lists negatives per user, no targets: give a Split, which has them, as `n_items`.")
    scorer = as_scorer(model, split, name=name)
    called = name or scorer.name
    for what, values in (("user", cases.users), ("item", np.concatenate([items, cases.targets]))):
        size, highest = getattr(scorer, f"n_{what}s", None), int(values.max(initial=0))
        if size is not None and highest >= size:
            known = f"{size:,} {what}s: 0 to {size - 1}"
            raise ValueError(f"{what} {highest} is unknown to model `{called}`, which knows {known}.")
    return rank_lists(_scored(scorer, called, cases, lists, items), cases, how)


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
    ``n_items`` can then be left out. ``n_items``, ``candidates``, ``missing`` as in :func:`counts_from_negatives`. A pair
    that occurs twice counts once, and must have one score.
    """
    how = How(n_items, design, candidates, ties, rng, missing)
    wanted = ["user", "item", "score"]
    if targets is None and (how.split is None or label is not None):
        wanted.append("label")
    found = candidate_columns(frame, wanted, {"user": user, "item": item, "score": score, "label": label})
    users, items = found["user"], found["item"]
    if "label" in found:
        if (r := first_where(~np.isin(found["label"], (0, 1)))) is not None:
            raise ValueError(f"the labels must be 0 and 1, or true and false, got {found['label'][r]:g}.")
        rows = np.flatnonzero(found["label"] == 1)
        key = encode(users[rows], "user")[0] * len(rows) + encode(items[rows], "item")[0]
        rows = np.delete(rows, repeats(key))  # a target that was drawn as well stands there twice, and is one case
        of = (users[rows], items[rows])
    elif isinstance(targets, tuple):
        of = _pair(targets, "targets")
    elif targets is not None:
        named = candidate_columns(targets, ("user", "item"), {})
        of = (named["user"], named["item"])
    else:
        split: Any = how.split  # without targets, labels are asked for unless there is one
        of = (split.names("user", split.users), split.names("item", split.items))
    return _rank_pairs(users, items, found["score"], of, how, "the frame")


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
    how = How(n_items, design, candidates, ties, rng, missing)
    ran = candidate_columns(_nested(run, "score", read_trec_run), ("user", "item", "score"), {})
    judged = _nested(qrels, "relevance", read_trec_qrels)
    truth = candidate_columns(judged, ("user", "item", "label"), {})
    relevant = truth["label"] >= min_relevance
    if not relevant.any():
        raise ValueError(f"`qrels` judges no document {min_relevance} or better, so there is nothing to rank.")
    of = (truth["user"][relevant], truth["item"][relevant])
    return _rank_pairs(ran["user"], ran["item"], ran["score"], of, how, "the run")


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
    """Rank what RecBole's `Collector.eval_batch_collect` receives: a dense users × items matrix of scores.

    ``scores`` is the matrix (NumPy or torch), −inf for what was not sampled; ``positives`` is the pair ``(positive_u,
    positive_i)``. RecBole's ``uniN`` draws N per positive with replacement and pools them per user, and the matrix swallows
    repeats: the true number of negatives is that of the finite scores beside the positives, and is taken as such.
    ``design="full"`` reads full-sort matrices.

    ``users`` names the user of each row: needed when several batches are added, since rows start at 0 in each, and with a
    `Split` (positions; a matrix with one column more than the split has items is RecBole's, whose item 0 is padding).
    ``n_items`` as in :func:`counts_from_negatives`; RecBole leaves out validation items too, so a split's ``train`` must
    hold them.
    """
    how = How(n_items, design, candidates, ties, rng, "error")
    table = floats(scores)
    if table.ndim != 2:
        raise ValueError(f"`scores` must be a users × items matrix, got an array of shape {table.shape}.")
    rows, items = np.nonzero(~np.isneginf(table))
    values = table[rows, items].astype(np.float64)
    of_rows, of_items = _pair(positives, "positives")
    if how.split is not None and table.shape[1] == how.split.n_items + 1:
        items, of_items = items - 1, of_items - 1
        if (items < 0).any():
            raise ValueError("`scores` has a finite score in column 0, which is padding in RecBole: mask it with -inf.")
    if users is not None:
        named = column_values(to_numpy(users), "user")
        for part in (rows, of_rows):
            if part.dtype.kind != "i" or (len(part) and (part.min() < 0 or part.max() >= len(named))):
                raise ValueError(f"`users` names {len(named)} rows, but `scores` or `positives` holds others.")
        rows, of_rows = named[rows], named[of_rows]
    return _rank_pairs(rows, items, values, (of_rows, of_items), how, "`scores`")


def _scored(scorer: Any, name: str, cases: Cases, lists: IntArray, items: IntArray) -> Listed:
    """Score the items of every list, and its targets: the model is asked for rectangles of whole lists, padded, at once."""
    # every pair once: asked twice, a model may round differently
    width = int(max(items.max(initial=0), cases.targets.max(initial=0))) + 1
    keys = np.unique(np.concatenate([lists * width + items, cases.lists * width + cases.targets]))
    lists, items = keys // width, keys % width
    users = cases.owner_of(lists)
    if isinstance(scorer, Table):
        unknown = ~stored_in(scorer.scores, users, items)
        if (r := first_where(unknown)) is not None:
            pair = f"{cases.user(users[r])} and {cases.item(items[r])}"
            raise ValueError(f"model `{name}` has no score for {pair}{more(unknown.sum())}.")
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
    return Listed(lists, items, out, f"model `{name}`")


def _rank_pairs(
    users: Array, items: Array, scores: Array, targets: tuple[Array, Array], how: How, source: str
) -> RankCounts:
    """Rank rows (user, item, score): one list per user, shared by the user's targets."""
    if not len(users):
        raise ValueError(f"{source} has no rows.")
    split = how.split
    if split is not None:
        rows, of = (_to_positions(each, split, "user") for each in (users, targets[0]))
        entries, asked = (_to_positions(each, split, "item") for each in (items, targets[1]))
        cases = Cases(of, of, asked, split.user_ids, split.item_ids, by_position=True)
    else:
        where = f"{source} and its targets"
        (rows, of), user_names, _ = encode_together([users, targets[0]], "user", where=where)
        (entries, asked), item_names, _ = encode_together([items, targets[1]], "item", where=where)
        cases = Cases(of, of, asked, user_names, item_names)
    return rank_lists(Listed(rows, entries, scores, source), cases, how)


def _to_positions(names: Array, split: Split | None, what: str, by_name: bool = True) -> IntArray:
    """Translate names to the split's positions; without names, or not ``by_name``, they must be positions already."""
    ids = None if split is None or not by_name else split.user_ids if what == "user" else split.item_ids
    names = whole_names(names, what)
    if ids is None:
        if names.dtype.kind in "UO":  # files hold text: 7 and "7" are the same name
            texts = names.astype(str)
            if (r := first_where([not WHOLE_NUMBER.fullmatch(text) for text in texts])) is not None:
                raise ValueError(f"{what} {str(texts[r])!r} is unknown: there is no split with names to translate it.")
            names = names.astype(np.int64)
        size = LARGEST_POSITION if split is None else split.n_users if what == "user" else split.n_items
        if len(outside := names[(names < 0) | (names >= size)]):
            where = "a position" if split is None else f"in the split, which has {size:,} {what}s: 0 to {size - 1}"
            raise ValueError(f"{what} {outside[0]} is not {where}{more(len(outside))}.")
        return names
    place = locate(names, ids)
    if (r := first_where(place < 0)) is not None:
        raise ValueError(f"{what} {names[r : r + 1].tolist()[0]!r} is not in the split{more((place < 0).sum())}.")
    return place


def candidate_columns(frame: Any, wanted: Sequence[str], overrides: Mapping[str, str | None]) -> dict[str, Array]:
    """Find the wanted columns of a frame or mapping under their usual names; scores and labels become numbers."""
    columns = checked_columns(frame_columns(frame, wanted, (), overrides))
    for what in [each for each in ("score", "label") if each in columns]:
        if columns[what].dtype.kind not in "iuf":
            texts = [str(value) for value in columns[what]]
            row = next((place for place, text in enumerate(texts) if not is_number(text)), 0)
            raise TypeError(f"`{what}` must hold numbers, got {texts[row]!r} in row {row + 1}.")
        columns[what] = columns[what].astype(np.float64)
    return columns


def _pair(given: Any, what: str) -> tuple[Array, Array]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"`{what}` must be a pair (users, items) of equal length, got a {type(given).__name__}.")
    columns = checked_columns({"user": to_numpy(given[0]), "item": to_numpy(given[1])})
    return columns["user"], columns["item"]


def _nested(given: Any, value: str, read: Callable[[Source], dict[str, Array]]) -> Any:
    """Read a path, or turn ``{query: {document: value}}`` into columns; a frame is returned unchanged."""
    if isinstance(given, str | os.PathLike) or hasattr(given, "read"):
        return read(given)
    if isinstance(given, Mapping) and all(isinstance(each, Mapping) for each in given.values()):
        return {
            "query_id": [query for query, documents in given.items() for _ in documents],
            "doc_id": [document for documents in given.values() for document in documents],
            value: [each for documents in given.values() for each in documents.values()],
        }
    return given
