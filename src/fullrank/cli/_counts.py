"""Files of ranks, scores or counts named on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullrank._files import existing

if TYPE_CHECKING:
    from fullrank.ranks.counts import RankCounts
    from fullrank.ranks.design import Design

#: More models than anybody compares by hand: a column taken for models, most likely.
MOST_MODELS = 1000


def answers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the given options that say how counts are turned into a report."""
    from fullrank.estimators.intervals import check_interval

    check_interval(given.get("level", 0.95), given.get("target", "cases"))
    return {key: given[key] for key in ("estimator", "level", "target") if key in given}


def read_models(files: Iterable[Path], given: Mapping[str, Any], seed: int, **how: Any) -> dict[str, RankCounts]:
    """Return counts by model, from all files; an error names its file, and no model may be in two of them.

    ``given`` are the options of the command line, ``how`` the files that say more about scores.
    """
    from fullrank.ranks.counts import MOST_ITEMS

    items = given.get("items")
    design = _design(given.get("negatives"), given.get("design"), "without_replacement" in given)
    counts: dict[str, RankCounts] = {}
    if items is not None and not 2 <= items <= MOST_ITEMS:
        raise ValueError(f"--items must be a whole number from 2 to 2**50, got {items}.")
    files = list(files)
    for path in files:
        try:
            found = _read(existing(path), design, items, given.get("candidates"), seed, how)
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
    if all(path.suffix.lower() == ".npz" for path in files):
        _refuse_otherwise(counts, design, items)
    return counts


def _refuse_otherwise(counts: Mapping[str, RankCounts], design: Design | None, items: int | None) -> None:
    """Refuse what is said of saved counts, which know it themselves, where it is not so."""
    for model, each in counts.items():
        asked = design if design is None else design.resolve(round(each.pool_range[1]))
        if asked is not None and asked != each.design:
            raise ValueError(
                f"the counts of {model!r} are of '{each.design}', not of '{asked}': leave --negatives and --design out."
            )
        if items is not None and not each.varying_pool and items != round(each.n_items):
            raise ValueError(
                f"the counts of {model!r} are among {each.n_items:,.0f} items: leave --items out, got {items:,}."
            )


def _design(negatives: int | None, design: str | None, distinct: bool) -> Design | None:
    from fullrank.ranks.design import Sample, parse_design

    if design is not None and negatives is not None:
        raise ValueError("--negatives and --design exclude each other: give one of them.")
    if design is not None:
        return parse_design(design)
    return None if negatives is None else Sample(negatives, not distinct)


def _read(
    path: Path, design: Design | None, items: int | None, candidates: str | None, seed: int, how: dict[str, Any]
) -> dict[str, RankCounts]:
    """Read saved counts, or whatever :func:`fullrank.reading.tables.read_counts` takes."""
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
