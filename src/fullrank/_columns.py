"""The columns of frames, by their usual names: every reader of frames and files finds them here."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from fullrank._checks import did_you_mean
from fullrank._types import Array

#: The usual names of each column, best first: letters and digits only, so that `userId`, `user_id` and `User-ID` are one.
ALIASES: dict[str, tuple[str, ...]] = {
    "user": ("userid", "user", "uid", "queryid", "qid", "query"),
    "item": ("itemid", "item", "iid", "movieid", "docid", "docno", "productid", "businessid", "isbn"),
    "rating": ("rating", "ratings", "bookrating", "stars", "score", "relevance"),
    "timestamp": ("timestamp", "time", "datetime", "ts", "unixtime", "date"),
    "score": ("score", "scores", "prediction", "predictions", "rating"),
    "label": ("label", "target", "istarget", "positive", "ispositive", "relevant", "relevance", "rel"),
    "rank": (
        "rank", "ranks", "sampledrank", "targetrank", "rankoftarget", "itemrank", "position", "pos", "targetposition",
        "rankposition", "ranking", "r",
    ),
    "order": ("order",),
    "targets": ("targets", "ntargets", "numtargets"),
    "drawn": ("negatives", "drawn", "nnegatives", "numnegatives", "nneg", "numneg"),
    "n_items": ("nitems", "numitems", "candidates", "ncandidates", "numcandidates"),
    "weight": ("weight", "weights"),
    "model": (
        "model", "modelname", "modelid", "algorithm", "algorithmname", "algo", "algoname", "method", "methodname",
        "recommender", "recommendername", "system", "systemname", "approach", "run", "runname",
    ),
}  # fmt: skip


def listed(names: Collection[str], most: int = 12) -> str:
    """List names for a message: the first so many, each cut to what fits a line."""
    shown = [repr(name if len(name) <= 40 else name[:39] + "…") for name in islice(names, most)]
    return ", ".join(shown) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def plain_name(name: str) -> str:
    """Return a name as :data:`ALIASES` has it; RecBole's types (`user_id:token`) are no part of it."""
    return re.sub(r"[^a-z0-9]", "", name.split(":")[0].lower())


def find_column(names: Collection[str], what: str, override: str | None = None) -> str | None:
    """Find the column that holds ``what`` (a key of :data:`ALIASES`), or ``None``; ``override`` names it outright.

    Two columns that could both be it are an error, and so is an override that is not a column.

    >>> find_column(["userId", "movieId", "rating"], "item")
    'movieId'
    """
    if override is not None:
        if override in names:
            return override
        known = f"the columns are {listed(names)}{did_you_mean(override, names)}"
        raise ValueError(f"`{what}={override!r}` is not a column; {known}")
    called = {name: plain_name(name) for name in names}
    for alias in ALIASES[what]:
        matches = [name for name in names if called[name] == alias]
        if len(matches) > 1:
            both = " and ".join(map(repr, matches[:2]))
            raise ValueError(f"the columns {both} could both be the {what}: name one with `{what}=`.")
        if matches:
            return matches[0]
    return None


def frame_columns(
    frame: Any, needed: Sequence[str], optional: Sequence[str] = (), overrides: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """Return the columns of a frame that hold what is needed, and what is optional where there is any, unchanged.

    ``frame`` is pandas, polars, pyarrow or anything else narwhals knows, or a mapping of names to arrays; ``overrides``
    names columns outright.
    """
    table, names = named_columns(frame)
    found = {}
    for what in (*needed, *optional):
        name = find_column(names, what, (overrides or {}).get(what))
        if name is not None:
            found[what] = table[name]
        elif what in needed:
            hint = f"name one with `{what}=`" + (", or give `targets=`, or a Split as `n_items`" * (what == "label"))
            raise ValueError(f"no column looks like the {what}; the columns are {listed(names)}: {hint}.")
    return found


def named_columns(frame: Any) -> tuple[Any, list[str]]:
    """Return what gives the columns of a frame by their names, and the names; see :func:`frame_columns`."""
    if isinstance(frame, Mapping):
        return {str(name): values for name, values in frame.items()}, [str(name) for name in frame]
    import narwhals.stable.v1 as nw  # imported here: arrays and mappings never need it

    try:
        table: Any = nw.from_native(frame, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise ValueError("the frame has two columns of the same name: rename one.") from None
    table = table.collect() if isinstance(table, nw.LazyFrame) else table
    if not isinstance(table, nw.DataFrame):
        got = type(frame).__name__
        raise TypeError(f"`data` must be a pandas, polars or pyarrow frame, or a mapping of arrays, got a {got}.")
    names = table.columns
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"the columns of the frame must have names, got {listed([*map(str, names)])}.")
    return table, list(names)


def checked_columns(found: Mapping[str, Any]) -> dict[str, Array]:
    """Return columns as arrays of one length; see :func:`column_values`."""
    columns = {what: column_values(values, what) for what, values in found.items()}
    if len({len(values) for values in columns.values()}) > 1:
        sizes = ", ".join(f"`{what}` {len(values):,}" for what, values in columns.items())
        raise ValueError(f"the columns have different lengths: {sizes}.")
    return columns


def column_values(values: Any, what: str) -> Array:
    """Return one column as int64, float64 or strings; dates become nanoseconds; a missing value is an error."""
    try:
        array = series_to_numpy(values)
    except (ValueError, TypeError) as error:
        raise TypeError(f"`{what}` mixes kinds of values, or holds none of numbers, strings and dates.") from error
    if array.ndim != 1:
        raise ValueError(f"`{what}` must have one dimension, got {array.ndim}.")
    kind = array.dtype.kind
    # ratings and times have their own sentence for NaN; a NaN user is a user that is missing
    if kind in "MO" or (kind == "f" and what in ("user", "item")):
        missing = np.array([value is None or value != value for value in array]) if kind == "O" else array != array
        if missing.any():
            raise ValueError(f"row {int(np.argmax(missing))} has no {what}; fill or drop rows with missing values.")
    if kind == "M":
        return array.astype("datetime64[ns]").astype(np.int64)
    if kind == "U" or (kind == "O" and all(isinstance(value, str) for value in array)):
        return array
    if what == "label" and (kind == "b" or (kind == "O" and all(isinstance(each, bool | np.bool_) for each in array))):
        return array.astype(np.int64)
    if kind in "iu" or (kind == "O" and all(isinstance(each, int) and not isinstance(each, bool) for each in array)):
        largest = max((int(array.min()), int(array.max())), key=abs) if kind in "uO" and len(array) else 0
        if abs(largest) > np.iinfo(np.int64).max:
            raise ValueError(f"`{what}` holds {largest}, beyond 2**63 - 1: write such names as strings.")
        return array.astype(np.int64, copy=False)
    if kind == "f":
        return array.astype(np.float64, copy=False)
    if kind == "S":
        return np.char.decode(array, "utf-8")
    raise TypeError(f"`{what}` must hold integers, strings, or numbers or dates for time, got {array.dtype} values.")


def series_to_numpy(values: Any) -> Array:
    """Return a narwhals series, a list or any array-like as a NumPy array (missing values as None, NaN or NaT)."""
    if not hasattr(values, "to_arrow"):
        array = np.asarray(values)
        # NumPy writes ["a", 3] as two strings; a list that mixes kinds is more likely a mistake
        if array.dtype.kind == "U" and array is not values and not all(isinstance(value, str) for value in values):
            raise TypeError("mixed")
        return array
    import narwhals.stable.v1 as nw

    kind, missing = values.dtype, values.is_null()
    if not kind.is_float() and missing.any():
        return np.array([None if gone else value for value, gone in zip(values, missing, strict=True)], object)
    if kind in (nw.Categorical, nw.Enum):
        values = values.cast(nw.String)
    elif kind in (nw.Date, nw.Datetime):  # a time zone changes how an instant is printed, not which comes first
        values = values.dt.timestamp("ns")
    elif kind == nw.Duration:
        values = values.dt.total_nanoseconds()
    return np.asarray(values.to_numpy())
