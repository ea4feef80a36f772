"""Counts on disk: what :meth:`fullrank.RankCounts.save` writes, and every version that was ever written."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fullrank._archive import read_archive, write_archive
from fullrank._types import Array
from fullrank.ranks.cells import SUMS, grouped
from fullrank.ranks.design import ALL, parse_design

if TYPE_CHECKING:
    from fullrank.ranks.counts import RankCounts

_FORMAT = "fullrank.RankCounts"
_VERSION = 4


def write_counts(counts: RankCounts, path: str | os.PathLike[str]) -> None:
    """Write counts to a file, atomically."""
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "design": str(counts.design),
        "candidates": counts.candidates,
        "level": counts.level,
    }
    write_archive(path, header, {"keys": counts.keys, **{name: getattr(counts, name) for name in SUMS}}, compress=True)


def read_counts(kind: type[RankCounts], path: str | os.PathLike[str]) -> RankCounts:
    """Make counts of class ``kind`` from a file; a file of an older version is brought up to date."""
    what = "a file of rank counts"
    header, arrays = read_archive(path, _FORMAT, _VERSION, what)
    try:
        if header["version"] < 3:
            arrays = _of_version_2(arrays)
        if header["version"] < 4:  # what was compared had no order
            keys = arrays["keys"]
            arrays["keys"] = np.insert(keys, 6, np.where(keys[:, 3] == 0, 0, keys[:, 2]), axis=1)
        sums: list[Any] = [arrays[name] for name in SUMS]
        counts = kind(parse_design(header["design"]), int(header["level"]), arrays["keys"], *sums)
        if header["version"] > 1:
            return replace(counts, candidates=header["candidates"])
        # files that did not say: "unseen" where pools vary by more than the number of targets does
        low, high = counts.pool_range
        varies = high - low > float(counts.column("targets").max()) - 0.5
        return replace(counts, candidates="unseen" if varies else "all")
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not {what}, or is damaged: {str(error).rstrip('.')}.") from None


def _of_version_2(arrays: dict[str, Array]) -> dict[str, Array]:
    """Return the arrays of files before a part could be compared: ``drawn`` = 0 meant that every candidate was."""
    block, pool, drawn, hits, order, targets = arrays["keys"].T
    known, none = drawn == ALL, np.zeros_like(drawn)
    ahead, rest, hits = np.where(known, hits, 0), np.where(known, 0, pool), np.where(known, 0, hits)
    keys = [block, pool, ahead, rest, drawn, hits, order, targets]
    sums = [arrays[name] for name in SUMS[:5]]
    columns, *sums = grouped(keys, [*sums, none.astype(np.float64)])
    return dict(zip(("keys", *SUMS), (columns.T, *sums), strict=True))
