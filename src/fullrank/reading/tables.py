"""Files of sampled ranks or scored candidates, as evaluation tools write them, become counts by model.

Three kinds are known by their columns: ranks (``rank``, or one column of ranks per model), scored candidates
(``user_id, item_id, score`` and which of them is the target), and TREC runs (when judgements are given).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._columns import find_column, frame_columns, listed
from fullrank._files import existing
from fullrank._tables import is_number, place_of, read_table, stem, table_batches
from fullrank._types import Array
from fullrank.models.scorer import to_numpy
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Design, parse_design

__all__ = ["RankTable", "counts_from_frame", "read_counts", "read_ranks"]


@dataclass(frozen=True)
class RankTable:
    """The ranks of one model, and what the file says about each case (``None``: nothing)."""

    model: str
    ranks: Array
    users: Array | None = None
    n_items: Array | None = None
    drawn: Array | None = None
    weights: Array | None = None


def read_counts(
    path: str | Path,
    design: Design | str | None,
    n_items: int | None = None,
    *,
    targets: str | Path | None = None,
    lists: str | Path | None = None,
    qrels: str | Path | None = None,
    train: str | Path | None = None,
    candidates: str = "unseen",
    rng: int = 0,
) -> dict[str, RankCounts]:
    """Counts by model from a file of ranks, of scored candidates, of counts, or a TREC run.

    * Saved counts (``.npz``), which know their design and their candidates.
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
        raise ValueError(
            "--train and --candidates all exclude each other: training items are left out, or they are not."
        )
    if path.suffix.lower() == ".npz":
        return {path.stem: _saved(path, design)}
    if design is None:
        raise ValueError("`design` is missing: how the negatives were drawn, such as 'uni99'.")
    if qrels is not None:
        from fullrank.reading.candidates import counts_from_trec, read_trec_run

        run = read_trec_run(existing(path))
        pool = _pools(n_items, train, run["query_id"])
        return {
            stem(path): counts_from_trec(run, str(existing(Path(qrels))), pool, design, candidates=candidates, rng=rng)
        }
    batches = table_batches(path)
    columns = next(batches)
    names = list(columns)
    labelled = find_column(names, "label") is not None and find_column(names, "item") is not None
    if find_column(names, "score") is not None and (lists or targets or labelled or find_column(names, "rank") is None):
        columns = read_table(path)
        return {
            model: _scored(path, each, design, n_items, targets, lists, train, candidates, rng)
            for model, each in _by_model(path, columns)
        }
    _refuse_ranked_lists(path, columns)
    counts: dict[str, RankCounts] = {}
    above = 0  # rows in earlier batches
    for batch in chain([columns], batches):
        for table in read_ranks(path, batch):
            pool = table.n_items if table.n_items is not None else _pools(n_items, train, table.users)
            if isinstance(pool, Mapping):
                pool = np.array([pool[user] for user in table.users.tolist()])  # type: ignore[union-attr]  # _pools saw them
            before = len(counts[table.model]) if table.model in counts else 0
            users = np.arange(before, before + len(table.ranks)) if table.users is None else table.users
            try:
                found = RankCounts.from_ranks(
                    table.ranks, pool, design, drawn=table.drawn, users=users, weights=table.weights,
                    candidates=candidates,
                )  # fmt: skip
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"model {table.model!r}: {_by_line(str(error), path, batch, table.model, above)}"
                ) from None
            counts[table.model] = found if not before else counts[table.model] + found
        above += len(next(iter(batch.values())))
    return counts


def _saved(path: Path, design: Design | str | None) -> RankCounts:
    """Counts that were saved, which know their design; another one is refused."""
    counts = RankCounts.load(existing(path))
    if design is not None and parse_design(design) != counts.design:
        raise ValueError(f"{str(path)!r} holds counts of '{counts.design}', and `design` is '{parse_design(design)}'.")
    return counts


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
    """Counts from a pandas, polars or Arrow frame, or a mapping of arrays, with one row per case.

    Columns are found under their usual names (``rank``; ``user_id``, ``userID``, ``query_id``, …; ``n_items`` when it is
    not given as a number; ``drawn`` where the design needs it) or named outright. Weights are used only where ``weight``
    names them. ``candidates`` as in :meth:`fullrank.RankCounts.from_ranks`.
    """
    needed, optional = ["rank"], ["user"]
    needed += ["n_items"] if n_items is None else []
    needed += ["drawn"] if drawn is not None or not parse_design(design).plain else []
    needed += ["weight"] if weight is not None else []
    named = {"rank": rank, "user": user, "drawn": drawn, "weight": weight}
    found = {what: to_numpy(each) for what, each in frame_columns(frame, needed, optional, named).items()}
    return RankCounts.from_ranks(
        found["rank"], found.get("n_items", n_items), design, drawn=found.get("drawn"), users=found.get("user"),
        weights=found.get("weight"), candidates=candidates,
    )  # fmt: skip


def read_ranks(path: str | Path, columns: dict[str, Array] | None = None) -> list[RankTable]:
    """Sampled ranks from a file, one :class:`RankTable` per model; ``columns``: what :func:`read_table` found in it.

    Long form: a column ``rank``, and optionally ``model``, ``user_id``, ``n_items``, ``negatives``, ``weight``. Wide form,
    when there is no ``rank``: one column of ranks per model, beside an optional user column. Without a ``model`` column, and
    for a bare list of ranks (one number per line, or ``.npy``), the model is named after the file.
    """
    path = Path(path)
    columns = read_table(path) if columns is None else columns
    rank, user = find_column(list(columns), "rank"), find_column(list(columns), "user")
    if rank is not None:
        return list(_long(path, columns, rank, user))
    wide = [name for name in columns if name != user and columns[name].dtype.kind in "iuf"]
    for name in columns:
        if name != user and name not in wide:
            _refuse_words_among_ranks(path, name, columns[name])
    if not wide:
        raise ValueError(
            f"{str(path)!r} has no column of ranks: name it 'rank', or give one column of ranks per model; "
            f"it has {listed(list(columns))}."
        )
    users = None if user is None else columns[user]
    return [RankTable(name, columns[name], users) for name in wide]


def _refuse_words_among_ranks(path: Path, name: str, column: Array) -> None:
    """Refuse a column of ranks in which a cell is text: it would be taken for no model, and lost."""
    numbers = np.array([is_number(str(each)) for each in column.tolist()])
    if numbers.any():
        first = int(np.flatnonzero(~numbers)[0]) if not numbers.all() else 0
        raise ValueError(
            f"{str(path)!r} has {str(column[first])!r} in column {name!r} {place_of(path, first)}: ranks are whole numbers."
        )


def _by_line(message: str, path: Path, columns: dict[str, Array], model: str, above: int) -> str:
    """Name the line of the file where a message names the case of a model, ``above`` rows having come before."""
    found = re.search(r"at case (\d+)", message)
    if found is None:
        return message
    column = find_column(list(columns), "model")
    rows = None if column is None else np.flatnonzero(columns[column].astype(str) == model)
    place = int(found[1]) if rows is None else int(rows[int(found[1])])
    return message.replace(found[0], place_of(path, above + place))


def _long(path: Path, columns: dict[str, Array], rank: str, user: str | None) -> Iterator[RankTable]:
    for model, rows in _by_model(path, columns):
        more = {what: name for what in ("n_items", "drawn", "weight") if (name := find_column(list(rows), what))}
        yield RankTable(
            model,
            rows[rank],
            None if user is None else rows[user],
            rows[more["n_items"]] if "n_items" in more else None,
            rows[more["drawn"]] if "drawn" in more else None,
            rows[more["weight"]] if "weight" in more else None,
        )


def _refuse_ranked_lists(path: Path, columns: dict[str, Array]) -> None:
    """Recommendation lists have ranks too: 1, 2, 3, … of each user's items, which are not the ranks of targets."""
    user, item, rank = (find_column(list(columns), what) for what in ("user", "item", "rank"))
    if user is None or item is None or rank is None or find_column(list(columns), "model") is not None:
        return
    _, code, sizes = np.unique(columns[user].astype(str), return_inverse=True, return_counts=True)
    order = np.lexsort((columns[rank], code))
    counted = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    if sizes.max() > 1 and (columns[rank][order] == counted).all():
        raise ValueError(
            f"{str(path)!r} holds whole ranked lists, 1, 2, 3, … for every user, not the ranks of targets: say which items "
            "are the targets with --targets FILE, or with a column 'label'."
        )


def _by_model(path: Path, columns: dict[str, Array]) -> Iterator[tuple[str, dict[str, Array]]]:
    """The rows of each model, one after the other; all are the file's where no column says whose they are."""
    column = find_column(list(columns), "model")
    if column is None:
        yield stem(path), columns
        return
    names = columns[column].astype(str)
    found, code = np.unique(names, return_inverse=True)
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(np.bincount(code))
    first = {name: order[end - size] for name, end, size in zip(found, ends, np.diff(ends, prepend=0), strict=True)}
    for name in sorted(first, key=lambda each: int(first[each])):  # in the order of the file
        k = int(np.searchsorted(found, name))
        rows = order[ends[k - 1] if k else 0 : ends[k]]
        yield str(name), {what: values[rows] for what, values in columns.items() if what != column}


def _scored(
    path: Path,
    columns: dict[str, Array],
    design: Design | str,
    n_items: int | None,
    targets: str | Path | None,
    lists: str | Path | None,
    train: str | Path | None,
    candidates: str,
    rng: int,
) -> RankCounts:
    from fullrank.reading.candidates import counts_from_scores

    if lists is not None:
        return _listed_candidates(columns, Path(lists), design, n_items, train, candidates, rng)
    names = list(columns)
    if targets is None and find_column(names, "label") is None:
        raise ValueError(
            f"{str(path)!r} holds scores and does not say which candidate is the target: add a column 'label' "
            "(1 for the target, 0 for negatives), or give the targets with --targets FILE."
        )
    user = find_column(names, "user")
    pool = _pools(n_items, train, None if user is None else columns[user])
    return counts_from_scores(
        columns,
        pool,
        design,
        targets=None if targets is None else _pairs(Path(targets)),
        candidates=candidates,
        rng=rng,
    )


def _listed_candidates(
    columns: dict[str, Array],
    lists: Path,
    design: Design | str,
    n_items: int | None,
    train: str | Path | None,
    candidates: str,
    rng: int,
) -> RankCounts:
    """Rank the listed candidates by a frame of scores: names become positions shared by both."""
    from fullrank.data.frames import encode
    from fullrank.reading.candidates import CandidateLists, _columns, counts_from_negatives, read_elliot_negatives

    scored = _columns(columns, ("user", "item", "score"), {})
    listed = read_elliot_negatives(existing(lists))
    if listed.targets is None:
        raise ValueError(f"{str(lists)!r} does not name targets: its lines must begin with (user, target).")
    codes: dict[str, Array] = {}
    for what, parts in {"user": (listed.users,), "item": (listed.targets, listed.negatives)}.items():
        given = scored[what]
        if (given.dtype.kind in "UO") != (parts[0].dtype.kind in "UO"):
            given, parts = given.astype(str), tuple(part.astype(str) for part in parts)
        together = encode(np.concatenate([given, *parts]), what)[0]
        codes[what], *rest = np.split(together, np.cumsum([len(given), *map(len, parts)])[:-1])
        codes[f"listed {what}"] = rest[0]
        if what == "item":
            codes["negatives"] = rest[1]
    pool = _pools(n_items, train, listed.users)
    if isinstance(pool, Mapping):
        pool = np.array([pool[user] for user in listed.users.tolist()])
    frame = {"user_id": codes["user"], "item_id": codes["item"], "score": scored["score"]}
    ranked = CandidateLists(codes["listed user"], codes["listed item"], codes["negatives"], listed.offsets)
    return counts_from_negatives(frame, ranked, pool, design, candidates=candidates, rng=rng, name="scores")


def _pools(n_items: int | None, train: str | Path | None, users: Array | None) -> Any:
    """The number of candidates: one for all, or by user where training items are left out."""
    if n_items is None:
        raise ValueError("--items is missing: how many candidates (target included) the full ranking has.")
    if train is None:
        return n_items
    if users is None:
        raise ValueError("with --train every case needs its user: add a column 'user_id'.")
    seen: dict[str, int] = {}
    pairs = _pairs(Path(train))
    for user in np.unique(np.stack([each.astype(str) for each in pairs]), axis=1)[0].tolist():
        seen[user] = seen.get(user, 0) + 1
    return {user: n_items - seen.get(str(user), 0) for user in dict.fromkeys(users.tolist())}


def _pairs(path: Path) -> tuple[Array, Array]:
    """Users and items of a file: a table with a header, or NCF's and eALS' ``.rating`` without one."""
    if path.suffix.lower() == ".rating":
        from fullrank.data.readers import read_rating

        found = read_rating(existing(path))
        return found.users, found.items
    columns = read_table(path)
    user, item = find_column(list(columns), "user"), find_column(list(columns), "item")
    if user is None or item is None:
        raise ValueError(f"{str(path)!r} needs columns 'user_id' and 'item_id'; it has {listed(list(columns))}.")
    return columns[user], columns[item]
