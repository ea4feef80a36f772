"""Counts on disk: what :meth:`fullrank.RankCounts.save` writes, and every version that was ever written."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from fullrank._archive import read_archive, write_archive
from fullrank._types import Array, IntArray
from fullrank.ranks.cells import SUMS, grouped
from fullrank.ranks.design import ALL, parse_design

__all__ = ["read_counts", "write_counts"]

_FORMAT = "fullrank.RankCounts"
_VERSION = 4


def write_counts(counts: Any, path: str | os.PathLike[str]) -> None:
    """Write counts to a file, atomically."""
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "design": str(counts.design),
        "candidates": counts.candidates,
        "level": counts.level,
    }
    write_archive(path, header, {"keys": counts.keys, **{name: getattr(counts, name) for name in SUMS}}, compress=True)


def read_counts(kind: Any, path: str | os.PathLike[str]) -> Any:
    """Make counts of class ``kind`` from a file; a file of an older version is brought up to date."""
    what = "a file of rank counts"
    header, arrays = read_archive(path, _FORMAT, _VERSION, what)
    try:
        if header["version"] < 3:
            arrays = _of_version_2(arrays)
        if header["version"] < 4:  # what was compared had no order
            keys = arrays["keys"]
            arrays["keys"] = np.insert(keys, 6, np.where(keys[:, 3] == 0, 0, keys[:, 2]), axis=1)
        sums = [arrays[name] for name in SUMS]
        counts = kind(parse_design(header["design"]), int(header["level"]), arrays["keys"], *sums)
        pools = None if header["version"] > 1 else counts.pool_range
        named = header["candidates"] if pools is None else _candidates_of_version_1(pools, arrays["keys"])
        return replace(counts, candidates=named)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not {what}, or is damaged: {str(error).rstrip('.')}.") from None


def _of_version_2(arrays: dict[str, Array]) -> dict[str, Array]:
    """Return the arrays of files before a part could be compared: ``drawn`` = 0 meant that every candidate was."""
    block, pool, drawn, hits, order, targets = arrays["keys"].T
    known, none = drawn == ALL, np.zeros_like(drawn)
    keys = [
        block,
        pool,
        np.where(known, hits, 0),
        np.where(known, 0, pool),
        drawn,
        np.where(known, 0, hits),
        order,
        targets,
    ]
    sums = [arrays[name] for name in SUMS[:5]]
    return dict(zip(("keys", *SUMS), grouped(keys, [*sums, none.astype(np.float64)]), strict=True))


def _candidates_of_version_1(pools: tuple[float, float], keys: IntArray) -> str:
    """Return what old files meant: ``unseen`` where pools vary by more than the number of targets does, else ``all``."""
    return "unseen" if pools[1] - pools[0] > float(keys[:, -1].max()) - 0.5 else "all"
