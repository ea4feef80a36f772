"""Turn files of sampled ranks or scored candidates, as evaluation tools write them, into counts by model.

Three kinds are known by their columns: ranks (``rank``, or one column of ranks per model), scored candidates
(``user_id, item_id, score`` and which of them is the target), and TREC runs (when judgements are given).
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fullrank._checks import did_you_mean, first_where
from fullrank._columns import ALIASES, find_column, frame_columns, listed, named_columns, plain_name
from fullrank._files import existing
from fullrank._tables import is_number, place_of, read_table, stem, table_batches
from fullrank._types import Array
from fullrank.data.frames import encode, encode_together, repeats
from fullrank.data.readers import read_rating
from fullrank.metrics import ALIASES as METRICS
from fullrank.models.scorer import to_numpy
from fullrank.ranks.cells import number_of_users
from fullrank.ranks.counts import MOST_ITEMS, RankCounts
from fullrank.ranks.design import Design, Sample, parse_design
from fullrank.reading.candidate_files import CandidateLists, read_elliot_negatives, read_trec_run
from fullrank.reading.candidates import candidate_columns, counts_from_negatives, counts_from_scores, counts_from_trec

#: What a file of ranks may say about each case, as :meth:`RankCounts.from_ranks` takes it.
_ABOUT_CASES = {
    "users": "user", "n_items": "n_items", "drawn": "drawn", "weights": "weight", "order": "order", "targets": "targets"
}  # fmt: skip
#: Numbers that stand beside ranks in files and are no model's: other columns of numbers are taken for models' ranks.
_NO_RANKS = frozenset(
    ["fold", "foldid", "cv", "split", "seed", "trial", "repeat", "epoch", "step", "batch", "row", "rowid", "line", "id",
     "case", "caseid", "k", "topk", "session", "sessionid", "order", "orderid", "age", "gender", "year", "month", "day"]
).union(*(ALIASES[what] for what in ("user", "item", "rating", "timestamp", "score", "label")))  # fmt: skip
#: So many rows that come again in the same order, without the items that would tell them apart, are no chance.
ENOUGH_TO_BE_COPIES = 10
#: From the users of cases to the numbers of their candidates.
_Pools: TypeAlias = Callable[[Array | None], Any]
#: Names that pandas gives to the index of a frame when it is saved with it.
_INDEX = re.compile(r"|index|__index_level_\d+__|Unnamed: \d+")


def read_counts(
    path: str | Path,
    design: Design | str | None,
    n_items: int | None = None,
    *,
    columns: Collection[str] = (),
    distinct: bool = False,
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

    ``columns`` names those of ranks, one per model, where they cannot be told from others. Without a ``design`` a column
    ``negatives`` must say how many each case has, ``distinct`` or not. ``n_items`` is the number of candidates, target
    included, unless the file has a column of it. With ``train`` (a file of ``user_id, item_id``) it is the size of the
    catalogue, and a user's training items are no candidates. ``candidates`` is what the counts will say, as in
    :meth:`RankCounts.from_ranks`. ``rng`` decides ties between scores.
    """
    path = Path(path)
    if train is not None and candidates == "all":
        raise ValueError("--train and --candidates all exclude each other: training items are left out, or not.")
    pools = partial(_pools, n_items, train)
    about: dict[str, Any] = {"design": design, "candidates": candidates}
    if qrels is not None:
        run, judged = read_trec_run(existing(path)), str(existing(Path(qrels)))
        about["design"] = _declared(design)
        return {stem(path): counts_from_trec(run, judged, pools(run["query_id"]), rng=rng, **about)}
    batches = table_batches(path)
    first = next(batches)
    if not columns and _holds_scores(first, lists is not None or targets is not None):
        about |= {"design": _declared(design), "rng": rng}
        table = read_table(path)
        return {m: _scored(path, each, lists, targets, pools, about) for m, each in _by_model(path, table)}
    if lists is not None or targets is not None:
        given = "--targets" if lists is None else "--lists"
        raise ValueError(f"{given} is for scored candidates, and {str(path)!r} has no scores but {listed(first)}.")
    if not columns:
        for _, rows in _by_model(path, first):
            _refuse_ranked_lists(path, rows)
    return _ranked(path, chain([first], batches), columns, distinct, n_items, train, about)


def _declared(design: Design | str | None, drawn: Any = None, distinct: bool = False) -> Design | str:
    """Return the design as it was given, or as the numbers of negatives of the cases tell."""
    if design is not None:
        return design
    if drawn is None:
        raise ValueError("--negatives or --design is missing: how negatives were drawn, such as --negatives 99.")
    # what is no number is refused later, with its line
    numbers = drawn[np.isfinite(drawn)] if drawn.dtype.kind in "iuf" else drawn[:0]
    return Sample(max(int(numbers.max(initial=1)), 1), not distinct)


def _holds_scores(columns: Collection[str], told: bool) -> bool:
    """Tell scored candidates from ranks; ``told``: whether the targets, or the candidates, are in another file."""
    item, rank = find_column(columns, "item"), find_column(columns, "rank")
    if find_column(columns, "score") is None:
        return False
    labelled = find_column(columns, "label") is not None and item is not None
    # the place of every candidate is often there as well; only 'rank' itself may be that of the target
    return told or labelled or rank is None or (item is not None and plain_name(rank) != "rank")


def _ranked(
    path: Path, batches: Iterable[dict[str, Array]], columns: Collection[str], distinct: bool, n_items: int | None,
    train: Any, about: Any,
) -> dict[str, RankCounts]:  # fmt: skip
    """Count the ranks of every model, batch by batch."""
    counts: dict[str, RankCounts] = {}
    design, pools = about["design"], partial(_pools, n_items, train)
    above = 0  # rows in earlier batches
    for batch in batches:
        for model, given in read_ranks(path, batch, columns).items():
            users = given.get("users")
            about["design"] = _declared(design, given.get("drawn"), distinct)
            if "n_items" not in given:
                given["n_items"] = _of_cases(pools(users), users)
            elif n_items is not None and (given["n_items"] != n_items).any():
                two = f"{find_column(batch, 'n_items')!r} of the numbers of candidates, and --items says {n_items:,}"
                raise ValueError(f"{str(path)!r} has a column {two}: leave --items out, or drop the column.")
            before = len(counts[model]) if model in counts else 0
            if users is None:
                given["users"] = np.arange(before, before + len(given["ranks"]))
            try:
                found = RankCounts.from_ranks(**given, **about)
            except (ValueError, TypeError) as error:
                raise ValueError(_by_line(str(error), path, batch, columns, model, above)) from None
            if before and found.design != counts[model].design:  # read off other parts of a column
                most = max(found.design, counts[model].design, key=lambda each: each.stages(MOST_ITEMS))
                found, counts[model] = (replace(each, design=most) for each in (found, counts[model]))
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
    order: str | None = None,
    targets: str | None = None,
    candidates: str = "unseen",
) -> RankCounts:
    """Make counts from a pandas, polars or Arrow frame, or a mapping of arrays, with one row per case.

    Columns are found under their usual names (``rank``, ``position``; ``user_id``, ``userID``, ``query_id``, …; ``n_items``
    when it is not given as a number; ``negatives`` where there is such a column; ``order`` and ``targets`` where both are)
    or named outright. Weights are used only where ``weight`` names them. The rows must be of one model. ``candidates`` as in
    :meth:`fullrank.RankCounts.from_ranks`.
    """
    table, names = named_columns(frame)
    if rank is None:
        _named_ranks(names, "could both be the ranks: name one with `rank=`")
    needed, optional = ["rank"], ["user", "model"]
    needed += ["n_items"] if n_items is None else []
    (needed if drawn is not None or not parse_design(design).plain else optional).append("drawn")
    needed += ["weight"] if weight is not None else []
    if order is not None or targets is not None or all(find_column(names, what) for what in ("order", "targets")):
        needed += ["order", "targets"]
    named = {"rank": rank, "user": user, "drawn": drawn, "weight": weight, "order": order, "targets": targets}
    found = {what: to_numpy(each) for what, each in frame_columns(table, needed, optional, named).items()}
    models = np.unique(found.get("model", np.zeros(0)).astype(str)).tolist()
    if len(models) > 1:
        raise ValueError(f"the frame holds {len(models)} models, {listed(models, 3)}: make counts of each one's rows.")
    used = {what: find_column(names, what, named.get(what)) for what in found}
    _refuse_lost_words("the frame", names, lambda name: to_numpy(table[name]), used.values(), used.get("user"))
    return RankCounts.from_ranks(
        found["rank"], found.get("n_items", n_items), design, drawn=found.get("drawn"), users=found.get("user"),
        weights=found.get("weight"), order=found.get("order"), targets=found.get("targets"), candidates=candidates,
    )  # fmt: skip


def read_ranks(path: Path, columns: dict[str, Array], chosen: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """Find sampled ranks among the columns of a file: by model, the ``ranks`` and what it says about each case.

    Long form: a column ``rank``, and optionally ``model``, ``user_id``, ``n_items``, ``negatives``, ``weight``, and both
    ``order`` and ``targets``. Wide form, when there is no ``rank``: one column of ranks per model, the ``chosen`` ones if
    any are, beside the same optional columns but ``model``, ``order`` and ``targets``. Without a ``model`` column, and for
    a bare list of ranks (one number per line, or ``.npy``), the model is named after the file.
    """
    rank, about = _case_columns(path, columns, chosen)
    user = about.get("users")
    if rank is not None:
        found = {}
        for model, rows in _by_model(path, columns):
            _refuse_lost_words(repr(str(path)), rows, rows.__getitem__, about.values(), user)
            _refuse_copies(path, model, rows, user, about.get("order"))
            found[model] = {"ranks": rows[rank], **{key: rows[name] for key, name in about.items()}}
        return found
    beside = {name for name in columns if _is_no_rank(name)}.union(about.values())
    wide = chosen or [name for name in columns if name not in beside and columns[name].dtype.kind in "iuf"]
    for name in [each for each in columns if not chosen and each not in {*beside, *wide}]:
        numbers = np.array([is_number(str(each)) for each in columns[name].tolist()])
        if numbers.any():  # a column of ranks with a word among them would be taken for no model, and lost
            first = first_where(~numbers) or 0
            where = f"in column {name!r} {place_of(path, first)}"
            raise ValueError(f"{str(path)!r} has {str(columns[name][first])!r} {where}: ranks are whole numbers.")
    if not wide:
        hint = "name it 'rank', or give one column of ranks per model, or say which they are with --columns"
        raise ValueError(f"{str(path)!r} has no column of ranks: {hint}; it has {listed(columns)}.")
    if not chosen and len(beside) == 0 and any(map(is_number, wide)):
        raise ValueError(f"{str(path)!r} has no header: name the columns in its first line, such as 'user_id,rank'.")
    _refuse_lost_words(repr(str(path)), columns, columns.__getitem__, about.values(), user)
    given = {key: columns[name] for key, name in about.items()}
    return {name: {"ranks": columns[name], **given} for name in wide}


def _case_columns(path: Path, columns: Collection[str], chosen: Collection[str]) -> tuple[str | None, dict[str, str]]:
    """Return the column of ranks, ``None`` where each model has its own, and those that say more about the cases."""
    for name in chosen:
        if name not in columns:
            hint = did_you_mean(name, columns, f"; it has {listed(columns)}.")
            raise ValueError(f"--columns names {name!r}, which {str(path)!r} does not have{hint}")
    others = [name for name in columns if name not in chosen]
    named = {key: find_column(others, what) for key, what in _ABOUT_CASES.items()}
    about = {key: name for key, name in named.items() if name is not None}
    if "targets" not in about:
        about.pop("order", None)  # of purchases, say
    model = find_column(others, "model")
    fault = f"of {str(path)!r} could both be the ranks: say which with --columns"
    ranks = [*chosen] if chosen else _named_ranks(columns, fault)
    if len(ranks) == 1 and (model is not None or not chosen):
        return ranks[0], about
    if model is not None:
        fault = f"{len(ranks)} columns of ranks" if ranks else "no column of ranks"
        hint = "name it 'rank', or say which it is with --columns"
        hint = f"name one of --columns {','.join(ranks)}" if ranks else hint
        fault = f"names models in column {model!r} and has {fault}"
        raise ValueError(f"{str(path)!r} {fault}: {hint}; it has {listed(columns)}.")
    if "targets" in about:
        hint = "give each its own rows, with columns 'model', 'rank', 'order' and 'targets'"
        fault = "has a column of ranks per model; the order of a user's targets differs"
        raise ValueError(f"{str(path)!r} {fault}: {hint}.")
    return None, about


def _named_ranks(names: Iterable[str], fault: str) -> list[str]:
    """Return the column that is named as ranks are, if there is one, and refuse two."""
    found = [name for name in names if plain_name(name) in ALIASES["rank"]]
    if len(found) > 1:
        raise ValueError(f"the columns {found[0]!r} and {found[1]!r} {fault}.")
    return found


def _is_no_rank(name: str) -> bool:
    """Tell by its name whether a column stands beside ranks and is never that of a model: `fold`, or the metric `hit@10`."""
    plain = plain_name(name)
    return plain in _NO_RANKS or plain.rstrip("0123456789") in METRICS or _INDEX.fullmatch(name) is not None


def _refuse_lost_words(
    where: str, names: Collection[str], column: Callable[[str], Array], used: Iterable[str | None], user: str | None
) -> None:
    """Refuse words, read as nothing else, that tell a user's rows apart: of models, most likely, which would become one.

    A ``column`` is asked for only where a user has several rows, or nothing says which rows are whose.
    """
    item, read = find_column(names, "item"), set(used)
    if user is not None and number_of_users(users := column(user)) == len(users):
        return
    for name in names:
        values = column(name)
        words = values.tolist() if values.dtype.kind in "OU" else []
        known = name in read or name == item or plain_name(name) in ALIASES["timestamp"]
        if known or not words or not all(isinstance(each, str | float | None) for each in words):
            continue
        if user is not None:
            lost, how = _differ(users, words), "tells rows of one user apart"
        else:
            sizes = set(Counter(map(str, words)).values())
            lost, how = len(sizes) == 1 and 1 < min(sizes) < len(words), "divides the rows into equal parts"
        if lost and (item is None or _differ(column(item), words)):  # else it says more of the items
            such = listed(sorted(set(map(str, words))), 2)
            fault = f"{where}: column {name!r} ({such}) {how}"
            raise ValueError(f"{fault}; name it 'model' if it names models, else drop it.")


def _differ(keys: Array, words: list[Any]) -> bool:
    """Tell whether two rows of the same key have different words."""
    first: dict[Any, Any] = {}
    return any(first.setdefault(key, word) != word for key, word in zip(keys.tolist(), words, strict=True))


def _by_line(
    message: str, path: Path, columns: dict[str, Array], chosen: Collection[str], model: str, above: int
) -> str:
    """Say a message of :meth:`RankCounts.from_ranks` in the words of a file: its columns, and the line for the case.

    ``above`` rows came before these.
    """
    rank, about = _case_columns(path, columns, chosen)
    names = {"drawn": "negatives", **about, "ranks": rank or model}
    message = re.sub(r"`(\w+)`", lambda found: f"`{names.get(found[1], found[1])}`", message)
    message = message.replace(" cases in all)", " rows in all)").replace("the design 'full'", "--design full")
    column = None if rank is None else find_column(columns, "model")
    of = "" if column is None else f"model {model!r}: "
    found = re.search(r"at case (\d+)", message)
    if found is not None:
        rows = None if column is None else np.flatnonzero(columns[column].astype(str) == model)
        place = int(found[1]) if rows is None else int(rows[int(found[1])])
        message = message.replace(found[0], place_of(path, above + place))
    if rank is None and not chosen:
        message = f"{message.rstrip('.')}; if column {model!r} holds no ranks, say which do with --columns."
    return f"{of}{message}"


def _refuse_copies(path: Path, model: str, rows: dict[str, Array], user: str | None, order: str | None) -> None:
    """Refuse a target that a user has twice: the file was put together twice, and intervals would be too narrow."""
    item, half = find_column(rows, "item"), len(next(iter(rows.values()))) // 2
    again = (len(each) == 2 * half and (each[:half] == each[half:]).all() for each in rows.values())
    if user is not None and item is None and half >= ENOUGH_TO_BE_COPIES and all(again):
        raise ValueError(f"{str(path)!r} has the same {half:,} rows twice in model {model!r}: drop the copies.")
    for what, each in (("item", item), ("order", order)):
        if user is None or each is None or not all(rows[column].dtype.kind in "iuUO" for column in (user, each)):
            continue
        users, others = (encode(rows[column], column)[0] for column in (user, each))
        pairs = users * (others.max() + 1) + others
        if (np.diff(np.sort(pairs)) > 0).all():
            continue
        copies = repeats(pairs)
        pair = f"{what} {rows[each][copies[0]]} of user {rows[user][copies[0]]} more than once in model {model!r}"
        raise ValueError(f"{str(path)!r} has {pair} ({len(copies):,} such rows): drop the copies.")


def _refuse_ranked_lists(path: Path, columns: dict[str, Array]) -> None:
    """Refuse recommendation lists, which have ranks too: of each user's items, 1, 2, 3, …, not of the targets alone."""
    user, item, rank, label = (find_column(columns, what) for what in ("user", "item", "rank", "label"))
    if rank is not None and label is not None and columns[label].dtype.kind in "biuf":
        values = columns[label]
        if np.isin(values, (0, 1)).all() and not values.all():
            others = f"rows whose {label!r} is 0, which are not of targets"
            raise ValueError(f"{str(path)!r} has the ranks of {others}: keep those where it is 1.")
    if user is None or item is None or rank is None:
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
        hint = "add a column 'label' (1 for the target, 0 for negatives), or give `correct` or `compare` --targets FILE"
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
