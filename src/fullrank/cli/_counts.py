"""Files of counts named on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from fullrank._files import existing

if TYPE_CHECKING:
    from fullrank.ranks.counts import RankCounts

__all__ = ["counts_from"]

#: More models than anybody compares by hand: a column taken for models, most likely.
MOST_MODELS = 1000


def counts_from(files: Iterable[Path], read: Callable[[Path], dict[str, RankCounts]]) -> dict[str, RankCounts]:
    """Counts by model, from all files; an error names its file, and no model may be in two of them."""
    counts: dict[str, RankCounts] = {}
    for path in files:
        try:
            found = read(existing(path))
        except (ValueError, TypeError) as error:
            told = str(error)
            raise ValueError(told if str(path) in told or told.startswith("--") else f"{path}: {told}") from None
        if len(counts) + len(found) > MOST_MODELS:
            raise ValueError(
                f"{path} brings the models to {len(counts) + len(found):,}, and {MOST_MODELS:,} are allowed: is the column "
                "'model' the name of a model, or are there columns that are not ranks?"
            )
        for model, each in found.items():
            if model in counts:
                raise ValueError(f"two files hold a model named {model!r}: rename one.")
            counts[model] = each
    return counts
