"""The usual names of columns, in one place: every reader of frames and files finds them here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

__all__ = ["ALIASES", "find_column", "listed"]

#: The usual names of each column, best first: letters and digits only, so that `userId`, `user_id` and `User-ID` are one.
ALIASES: dict[str, tuple[str, ...]] = {
    "user": ("userid", "user", "uid", "queryid", "qid", "query"),
    "item": ("itemid", "item", "iid", "movieid", "docid", "docno", "productid", "businessid", "isbn"),
    "rating": ("rating", "ratings", "bookrating", "stars", "score", "relevance"),
    "timestamp": ("timestamp", "time", "datetime", "ts", "unixtime", "date"),
    "score": ("score", "scores", "prediction", "predictions", "rating"),
    "label": ("label", "target", "istarget", "positive", "ispositive", "relevant", "relevance", "rel"),
    "rank": ("rank", "sampledrank", "r"),
    "drawn": ("negatives", "drawn", "nnegatives"),
    "n_items": ("nitems", "candidates", "ncandidates"),
    "weight": ("weight", "weights"),
    "model": ("model", "modelname", "run"),
}


def plain(name: str) -> str:
    """A column's name as it is compared; RecBole's types (``user_id:token``) are not part of it.

    >>> plain("User-ID"), plain("user_id:token")
    ('userid', 'userid')
    """
    return re.sub(r"[^a-z0-9]", "", name.split(":")[0].lower())


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names for a message: the first so many, each cut to what a line bears."""
    shown = [repr(name if len(name) <= 40 else name[:39] + "…") for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def find_column(names: Sequence[str], what: str, override: str | None = None) -> str | None:
    """The column that holds ``what`` (a key of :data:`ALIASES`), or ``None``; ``override`` names it outright.

    Two columns that could both be it are an error, and so is an override that is no column.

    >>> find_column(["userId", "movieId", "rating"], "item")
    'movieId'
    """
    if override is not None:
        if override in names:
            return override
        near = difflib.get_close_matches(override, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"`{what}={override!r}` is not a column; the columns are {listed(names)}{hint}")
    called = {name: plain(name) for name in names}
    for alias in ALIASES[what]:
        matches = [name for name in names if called[name] == alias]
        if len(matches) > 1:
            raise ValueError(
                f"the columns {' and '.join(map(repr, matches[:2]))} could both be the {what}; say which with `{what}=`."
            )
        if matches:
            return matches[0]
    return None
