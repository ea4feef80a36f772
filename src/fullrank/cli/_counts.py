"""Files of ranks, scores or counts named on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullrank._files import existing

if TYPE_CHECKING:
    from fullrank.ranks.counts import RankCounts
    from fullrank.ranks.design import Design

__all__ = ["design_of", "read_models"]

#: More models than anybody compares by hand: a column taken for models, most likely.
MOST_MODELS = 1000


def design_of(negatives: int | None, design: str | None, distinct: bool) -> Design | None:
    """How negatives were drawn, from the two ways of saying it; ``None``: nobody said."""
    from fullrank.ranks.design import Sample, parse_design

    if design is not None and negatives is not None:
        raise ValueError("--negatives and --design exclude each other: say how negatives were drawn once.")
    if design is not None:
        return parse_design(design)
    return None if negatives is None else Sample(negatives, not distinct)


def read_models(
    files: Iterable[Path], design: Design | None, items: int | None, candidates: str | None, seed: int, **how: Any
) -> dict[str, RankCounts]:
    """Counts by model, from all files; an error names its file, and no model may be in two of them."""
    from fullrank.ranks.counts import MOST_ITEMS

    counts: dict[str, RankCounts] = {}
    if items is not None and not 2 <= items <= MOST_ITEMS:
        raise ValueError(f"--items must be a whole number from 2 to 2**50, got {items}.")
    for path in files:
        try:
            found = _read(existing(path), design, items, candidates, seed, how)
        except (ValueError, TypeError) as error:
            text = str(error)
            raise ValueError(text if str(path) in text or text.startswith("--") else f"{path}: {text}") from None
        if len(counts) + len(found) > MOST_MODELS:
            raise ValueError(
                f"{path} brings the models to {len(counts) + len(found):,}, more than {MOST_MODELS:,}: is the column "
                "'model' the name of a model, or are there columns that are not ranks?"
            )
        for model, each in found.items():
            if model in counts:
                raise ValueError(f"two files hold a model named {model!r}: rename one.")
            counts[model] = each
    return counts


def _read(
    path: Path, design: Design | None, items: int | None, candidates: str | None, seed: int, how: dict[str, Any]
) -> dict[str, RankCounts]:
    """Saved counts, or whatever :func:`fullrank.reading.tables.read_counts` takes."""
    from fullrank.evaluation.correct import refuse_other_candidates
    from fullrank.ranks.counts import RankCounts
    from fullrank.reading.tables import read_counts

    if path.suffix.lower() == ".npz":
        counts = RankCounts.load(path)
        refuse_other_candidates(counts, candidates)
        return {path.stem: counts}
    if design is None:
        raise ValueError("--negatives or --design is missing: how negatives were drawn, such as --negatives 99.")
    found = read_counts(path, design, items, candidates="unseen" if candidates is None else candidates, rng=seed, **how)
    for model, each in found.items():
        most, fewest = int(each.sizes.max()), round(each.pool_range[0])
        if most >= fewest:
            raise ValueError(
                f"model {model!r}: --negatives must be fewer than the candidates, got {most:,} among {fewest:,}: is --items "
                "the size of the full ranking?"
            )
    return found
