"""Turn files of sampled ranks or scored candidates, as evaluation tools write them, into counts by model.

Three kinds are known by their columns: ranks (``rank``, or one column of ranks per model), scored candidates
(``user_id, item_id, score`` and which of them is the target), and TREC runs (when judgements are given).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fullrank._checks import first_where
from fullrank._columns import find_column, frame_columns, listed
from fullrank._files import existing
from fullrank._tables import is_number, place_of, read_table, stem, table_batches
from fullrank._types import Array
from fullrank.data.frames import encode, encode_together, repeats
from fullrank.data.readers import read_rating
from fullrank.models.scorer import to_numpy
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Design, parse_design
from fullrank.reading.candidate_files import CandidateLists, read_elliot_negatives, read_trec_run
from fullrank.reading.candidates import candidate_columns, counts_from_negatives, counts_from_scores, counts_from_trec

#: What a file of ranks may say about each case, as :meth:`RankCounts.from_ranks` takes it.
_ABOUT_CASES = {"users": "user", "n_items": "n_items", "drawn": "drawn", "weights": "weight"}
#: So many rows that come again in the same order, without the items that would tell them apart, are no chance.
ENOUGH_TO_BE_COPIES = 10
#: From the users of cases to the numbers of their candidates.
_Pools: TypeAlias = Callable[[Array | None], Any]
#: Names that pandas gives to the index of a frame when it is saved with it.
_INDEX = re.compile(r"|index|__index_level_\d+__|Unnamed: \d+")


def read_counts(
    path: str | Path,
    design: Design | str,
    n_items: int | None = None,
    *,
    targets: str | Path | None = None,
    lists: str | Path | None = None,
    qrels: str | Path | None = None,
    train: str | Path | None = None,
    candidates: str = "unseen",
    rng: int = 0,
) -> dict[str, RankCounts]:
    """Read counts by model from a file of ranks, of scored candidates, or a TREC run.

    * Ranks: see :func:`read_ranks`.
    * Scored candidates: ``user_id, item_id, score``, one row per candidate. The target is where ``label`` is 1, or what the
      file ``targets`` (``user_id, item_id``; NCF's ``.test.rating``) says. With ``lists`` (NCF's ``.test.negative``, Elliot
      files) a user's candidates are those of the list, and the file may score more.
    * ``qrels``: the file is a TREC run, judged by these.

    ``n_items`` is the number of candidates, target included, unless the file has a column of it. With ``train`` (a file of
    ``user_id, item_id``) it is the size of the catalogue, and a user's training items are no candidates. ``candidates`` is
    what the counts will say, as in :meth:`RankCounts.from_ranks`. ``rng`` decides ties between scores.
    """
    path = Path(path)
    if train is not None and candidates == "all":
        raise ValueError("--train and --candidates all exclude each other: training items are left out, or not.")
    pools = partial(_pools, n_items, train)
    about: dict[str, Any] = {"design": design, "candidates": candidates}
    if qrels is not None:
        run, judged = read_trec_run(existing(path)), str(existing(Path(qrels)))
        return {stem(path): counts_from_trec(run, judged, pools(run["query_id"]), rng=rng, **about)}
    batches = table_batches(path)
    columns = next(batches)
    labelled = find_column(columns, "label") is not None and find_column(columns, "item") is not None
    if find_column(columns, "score") is not None and (
        lists or targets or labelled or find_column(columns, "rank") is None
    ):
        columns = read_table(path)
        about["rng"] = rng
        return {m: _scored(path, each, lists, targets, pools, about) for m, each in _by_model(path, columns)}
    if lists is not None or targets is not None:
        given = "--targets" if lists is None else "--lists"
        raise ValueError(f"{given} is for scored candidates, and {str(path)!r} has no scores but {listed(columns)}.")
    _refuse_ranked_lists(path, columns)
    return _ranked(path, chain([columns], batches), pools, about)


def _ranked(path: Path, batches: Iterable[dict[str, Array]], pools: _Pools, about: Any) -> dict[str, RankCounts]:
    """Count the ranks of every model, batch by batch."""
    counts: dict[str, RankCounts] = {}
    above = 0  # rows in earlier batches
    for batch in batches:
        for model, given in read_ranks(path, batch).items():
            users = given.get("users")
            if "n_items" not in given:
                given["n_items"] = _of_cases(pools(users), users)
            before = len(counts[model]) if model in counts else 0
            if users is None:
                given["users"] = np.arange(before, before + len(given["ranks"]))
            try:
                found = RankCounts.from_ranks(**given, **about)
            except (ValueError, TypeError) as error:
                raise ValueError(f"model {model!r}: {_by_line(str(error), path, batch, model, above)}") from None
            counts[model] = found if not before else counts[model] + found
        above += len(next(iter(batch.values())))
    return counts


def _pools(n_items: int | None, train: str | Path | None, users: Array | None) -> Any:
    """Return the number of candidates: one for all, or by user where training items are left out."""
    if n_items is None:
        raise ValueError("--items is missing: how many candidates (target included) the full ranking has.")
    if train is None:
        return n_items
    if users is None:
        raise ValueError("with --train every case needs its user: add a column 'user_id'.")
    pairs = np.unique(np.stack([each.astype(str) for each in _pairs(Path(train))]), axis=1)
    seen = Counter(pairs[0].tolist())
    return {user: n_items - seen[str(user)] for user in dict.fromkeys(users.tolist())}


def counts_from_frame(
    frame: Any,
    design: Design | str,
    n_items: Any = None,
    *,
    rank: str | None = None,
    user: str | None = None,
    drawn: str | None = None,
    weight: str | None = None,
    candidates: str = "unseen",
) -> RankCounts:
    """Make counts from a pandas, polars or Arrow frame, or a mapping of arrays, with one row per case.

    Columns are found under their usual names (``rank``; ``user_id``, ``userID``, ``query_id``, …; ``n_items`` when it is
    not given as a number; ``negatives`` where there is such a column) or named outright. Weights are used only where
    ``weight`` names them. The rows must be of one model. ``candidates`` as in :meth:`fullrank.RankCounts.from_ranks`.
    """
    needed, optional = ["rank"], ["user", "model"]
    needed += ["n_items"] if n_items is None else []
    (needed if drawn is not None or not parse_design(design).plain else optional).append("drawn")
    needed += ["weight"] if weight is not None else []
    named = {"rank": rank, "user": user, "drawn": drawn, "weight": weight}
    found = {what: to_numpy(each) for what, each in frame_columns(frame, needed, optional, named).items()}
    models = np.unique(found.get("model", np.zeros(0)).astype(str)).tolist()
    if len(models) > 1:
        raise ValueError(f"the frame holds {len(models)} models, {listed(models, 3)}: make counts of each one's rows.")
    return RankCounts.from_ranks(
        found["rank"], found.get("n_items", n_items), design, drawn=found.get("drawn"), users=found.get("user"),
        weights=found.get("weight"), candidates=candidates,
    )  # fmt: skip


def read_ranks(path: Path, columns: dict[str, Array]) -> dict[str, dict[str, Any]]:
    """Find sampled ranks among the columns of a file: by model, the ``ranks`` and what it says about each case.

    Long form: a column ``rank``, and optionally ``model``, ``user_id``, ``n_items``, ``negatives``, ``weight``. Wide form,
    when there is no ``rank``: one column of ranks per model, beside the same optional columns. Without a ``model``
    column, and for a bare list of ranks (one number per line, or ``.npy``), the model is named after the file.
    """
    rank = find_column(columns, "rank")
    named = {key: find_column(columns, what) for key, what in _ABOUT_CASES.items()}
    about = {key: name for key, name in named.items() if name is not None}
    if rank is not None:
        found = {}
        for model, rows in _by_model(path, columns):
            _refuse_copies(path, model, rows, named["users"])
            found[model] = {"ranks": rows[rank], **{key: rows[name] for key, name in about.items()}}
        return found
    beside = {*about.values(), *(find_column(columns, what) for what in ("item", "timestamp"))}
    beside |= {name for name in columns if _INDEX.fullmatch(name)}
    wide = [name for name in columns if name not in beside and columns[name].dtype.kind in "iuf"]
    for name in [each for each in columns if each not in {*beside, *wide}]:
        numbers = np.array([is_number(str(each)) for each in columns[name].tolist()])
        if numbers.any():  # a column of ranks with a word among them would be taken for no model, and lost
            first = first_where(~numbers) or 0
            where = f"in column {name!r} {place_of(path, first)}"
            raise ValueError(f"{str(path)!r} has {str(columns[name][first])!r} {where}: ranks are whole numbers.")
    if not wide:
        hint = f"name it 'rank', or give one column of ranks per model; it has {listed(columns)}"
        raise ValueError(f"{str(path)!r} has no column of ranks: {hint}.")
    given = {key: columns[name] for key, name in about.items()}
    return {name: {"ranks": columns[name], **given} for name in wide}


def _by_line(message: str, path: Path, columns: dict[str, Array], model: str, above: int) -> str:
    """Name the line of the file where a message names the case of a model, ``above`` rows having come before."""
    found = re.search(r"at case (\d+)", message)
    if found is None:
        return message
    column = find_column(columns, "model")
    rows = None if column is None else np.flatnonzero(columns[column].astype(str) == model)
    place = int(found[1]) if rows is None else int(rows[int(found[1])])
    return message.replace(found[0], place_of(path, above + place))


def _refuse_copies(path: Path, model: str, rows: dict[str, Array], user: str | None) -> None:
    """Refuse a target that a user has twice: the file was put together twice, and intervals would be too narrow."""
    item, half = find_column(rows, "item"), len(next(iter(rows.values()))) // 2
    again = (len(each) == 2 * half and (each[:half] == each[half:]).all() for each in rows.values())
    if user is not None and item is None and half >= ENOUGH_TO_BE_COPIES and all(again):
        raise ValueError(f"{str(path)!r} has the same {half:,} rows twice in model {model!r}: drop the copies.")
    if user is None or item is None or not all(rows[each].dtype.kind in "iuUO" for each in (user, item)):
        return
    users, items = (encode(rows[each], each)[0] for each in (user, item))
    pairs = users * (items.max() + 1) + items
    if (np.diff(np.sort(pairs)) > 0).all():
        return
    copies = repeats(pairs)
    pair = f"item {rows[item][copies[0]]} of user {rows[user][copies[0]]} more than once in model {model!r}"
    raise ValueError(f"{str(path)!r} has {pair} ({len(copies):,} such rows): drop the copies.")


def _refuse_ranked_lists(path: Path, columns: dict[str, Array]) -> None:
    """Refuse recommendation lists, which have ranks too: 1, 2, 3, … of each user's items, not the ranks of targets."""
    user, item, rank = (find_column(columns, what) for what in ("user", "item", "rank"))
    if user is None or item is None or rank is None or find_column(columns, "model") is not None:
        return
    _, code, sizes = np.unique(columns[user].astype(str), return_inverse=True, return_counts=True)
    order = np.lexsort((columns[rank], code))
    counted = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    if sizes.max() > 1 and (columns[rank][order] == counted).all():
        hint = "say which items are the targets with --targets FILE, or with a column 'label'"
        raise ValueError(f"{str(path)!r} holds whole ranked lists, 1, 2, 3, …, not the ranks of targets: {hint}.")


def _by_model(path: Path, columns: dict[str, Array]) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield the rows of each model, in the order of the file; all are the file's where no column names models."""
    column = find_column(columns, "model")
    if column is None:
        yield stem(path), columns
        return
    nameless = np.isin(columns[column].astype(str), ("", "None", "nan"))
    if nameless.any():
        raise ValueError(f"{str(path)!r} names no model {place_of(path, first_where(nameless) or 0)}: fill it in.")
    codes, names, _ = encode(columns[column].astype(str), "model", order="first")
    parts = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    for name, rows in zip(names if names is not None else (), parts, strict=True):
        yield str(name), {what: values[rows] for what, values in columns.items() if what != column}


def _scored(path: Path, columns: dict[str, Array], lists: Any, targets: Any, pools: _Pools, about: Any) -> RankCounts:
    """Rank scored candidates: those of the file, or of the lists where there are any."""
    if lists is not None:
        return _listed_candidates(columns, existing(Path(lists)), pools, about)
    if targets is None and find_column(columns, "label") is None:
        hint = "add a column 'label' (1 for the target, 0 for negatives), or give the targets with --targets FILE"
        raise ValueError(f"{str(path)!r} holds scores and does not say which candidate is the target: {hint}.")
    user, pairs = find_column(columns, "user"), None if targets is None else _pairs(Path(targets))
    return counts_from_scores(columns, pools(None if user is None else columns[user]), targets=pairs, **about)


def _listed_candidates(columns: dict[str, Array], path: Path, pools: _Pools, about: dict[str, Any]) -> RankCounts:
    """Rank the listed candidates by a frame of scores: names become positions shared by both."""
    scored = candidate_columns(columns, ("user", "item", "score"), {})
    lists = read_elliot_negatives(path)
    if lists.targets is None:
        raise ValueError(f"{str(path)!r} does not name targets: its lines must begin with (user, target).")
    codes: dict[str, list[Any]] = {}
    for what, parts in {"user": [lists.users], "item": [lists.targets, lists.negatives]}.items():
        together = [scored[what], *parts]
        if len({each.dtype.kind in "UO" for each in together}) > 1:
            together = [each.astype(str) for each in together]
        codes[what] = encode_together(together, what, where="the scores and the lists")[0]
    (users, listed_users), (items, targets, negatives) = codes["user"], codes["item"]
    frame = {"user_id": users, "item_id": items, "score": scored["score"]}
    ranked = CandidateLists(listed_users, targets, negatives, lists.offsets)
    return counts_from_negatives(frame, ranked, _of_cases(pools(lists.users), lists.users), name="scores", **about)


def _of_cases(pools: Any, users: Array | None) -> Any:
    """Return the numbers of candidates by case, where they are by user."""
    if users is None or not isinstance(pools, Mapping):
        return pools
    return np.array([pools[user] for user in users.tolist()])


def _pairs(path: Path) -> tuple[Array, Array]:
    """Read users and items from a table with a header, or from NCF's and eALS' ``.rating`` without one."""
    if path.suffix.lower() == ".rating":
        found = read_rating(existing(path))
        return found.users, found.items
    columns = read_table(path)
    user, item = find_column(columns, "user"), find_column(columns, "item")
    if user is None or item is None:
        raise ValueError(f"{str(path)!r} needs columns 'user_id' and 'item_id'; it has {listed(columns)}.")
    return columns[user], columns[item]
