"""What the command line and TOML files name: files of ranks, scores or counts, splits, and models."""

import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._checks import did_you_mean
from fullrank._files import existing
from fullrank._tables import map_npy, read_table
from fullrank.estimators.intervals import check_interval
from fullrank.evaluation.correct import refuse_other_candidates
from fullrank.ranks.counts import MOST_ITEMS, RankCounts
from fullrank.ranks.design import Design, Sample, parse_design

#: What :func:`read_models` is told of files beside the design, as options and `read_counts` call it.
OF_FILES = ("columns", "targets", "lists", "qrels", "train")
#: More models than anybody compares by hand: a column taken for models, most likely.
MOST_MODELS = 1000


def answers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the given options that say how counts are turned into a report."""
    check_interval(given.get("level", 0.95), given.get("target", "cases"))
    return {key: given[key] for key in ("estimator", "level", "target") if key in given}


def read_models(
    files: Sequence[Path], given: Mapping[str, Any], seed: int, names: Iterable[str] = ()
) -> dict[str, RankCounts]:
    """Return counts by model, from all files; an error names its file, and no model may be in two of them.

    ``given`` are the options of the command line; ``names``: what to call the models of files that hold one each.
    """
    items = given.get("items")
    design = _design(given)
    counts: dict[str, RankCounts] = {}
    if items is not None and not 2 <= items <= MOST_ITEMS:
        raise ValueError(f"--items must be a whole number from 2 to 2**50, got {items}.")
    for path, name in zip_longest(files, names):
        try:
            found = _read(existing(path), design, given, seed)
        except (ValueError, TypeError) as error:
            text = str(error)
            raise ValueError(text if str(path) in text or text.startswith("--") else f"{path}: {text}") from None
        if name is not None and len(found) == 1:
            found = {name: next(iter(found.values()))}
        if twice := counts.keys() & found.keys():
            raise ValueError(f"two files hold a model named {min(twice)!r}: rename one.")
        counts |= found
        if len(counts) > MOST_MODELS:
            hint = "is the column 'model' the name of a model, or are there columns that are not ranks?"
            raise ValueError(f"{path} brings the models to {len(counts):,}, more than {MOST_MODELS:,}: {hint}")
    if all(path.suffix.lower() == ".npz" for path in files):
        if unread := [each for each in OF_FILES if each in given]:
            raise ValueError(f"--{unread[0]} has no meaning for saved counts: leave it out.")
        _refuse_otherwise(counts, design, items)
    return counts


def _refuse_otherwise(counts: Mapping[str, RankCounts], design: Design | None, items: int | None) -> None:
    """Refuse what is said of saved counts, which know it themselves, where it is not so."""
    for model, each in counts.items():
        asked = None if design is None else design.resolve(round(each.pool_range[1]))
        known = f"the counts of {model!r} are"
        if asked is not None and asked != each.design:
            raise ValueError(f"{known} of '{each.design}', not of '{asked}': leave --negatives and --design out.")
        if items is not None and not each.varying_pool and items != round(each.n_items):
            raise ValueError(f"{known} among {each.n_items:,.0f} items: leave --items out, got {items:,}.")


def _design(given: Mapping[str, Any]) -> Design | None:
    if "design" in given and "negatives" in given:
        raise ValueError("--negatives and --design exclude each other: give one of them.")
    if "design" in given and "without_replacement" in given:
        raise ValueError(
            "--without-replacement goes with --negatives: write --design 'uni99 without replacement', say."
        )
    if "design" in given:
        return parse_design(given["design"])
    return Sample(given["negatives"], "without_replacement" not in given) if "negatives" in given else None


def _read(path: Path, design: Design | None, given: Mapping[str, Any], seed: int) -> dict[str, RankCounts]:
    """Read saved counts, or whatever :func:`fullrank.reading.tables.read_counts` takes."""
    from fullrank.reading.tables import read_counts

    if path.suffix.lower() == ".npz":
        counts = RankCounts.load(path)
        refuse_other_candidates(counts, given.get("candidates"))
        return {path.stem: counts}
    told: dict[str, Any] = {key: given[key] for key in OF_FILES if key in given}
    if "columns" in told:  # separated by commas, or the option repeated
        told["columns"] = [name.strip() for each in told["columns"] for name in each.split(",")]
    told |= {"distinct": "without_replacement" in given, "candidates": given.get("candidates", "unseen")}
    found = read_counts(path, design, given.get("items"), rng=seed, **told)
    for model, each in found.items():
        most, fewest = int(each.sizes.max()), round(each.pool_range[0])
        if most >= fewest:
            raise ValueError(
                f"model {model!r}: --negatives must be fewer than the candidates, got {most:,} among {fewest:,}: is --items "
                "the size of the full ranking?"
            )
    return found


def named(given: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """Return models by name, from ``NAME=WHAT``, or WHAT alone, which is then named after itself."""
    if isinstance(given, Mapping):
        return dict(given)
    out: dict[str, str] = {}
    for text in given:
        name, equals, what = text.partition("=")
        if not (equals and name) or "/" in name or "," in name:
            name, what = Path(text.split(",")[0].split(":")[-1]).stem, text
        if name in out:
            raise ValueError(f"two models are named {name!r}: rename one, as in --model other={what}.")
        out[name] = what
    return out


def split_and_models(
    models: Mapping[str, str], data: str | None, train: Path | None, test: Path | None, how: str | None, seed: int
) -> tuple[Any, dict[str, Any]]:
    """Return a split, by the name of a data set or from files of interactions, and the models to evaluate on it.

    Row p of a model belongs to user (item) p of the files where their names are such numbers, and to the p-th name in
    sorted order where they are others: what fits neither would be evaluated on the wrong rows, and is refused.
    """
    from fullrank.data import Split, given_test, interactions, load
    from fullrank.data.frames import raw_columns

    if (data is None) == (train is None):
        raise ValueError(
            "--data or --train is missing, or both are there: give --data ml-1m, or --train FILE (and --test FILE)."
        )
    if test is not None and how not in (None, "given"):
        raise ValueError(f"--how {how} has no meaning beside --test FILE: what is held out is in the file.")
    if data is not None:
        split = load(data, how, seed) if how is not None else load(data)
        stored = {name: _stored(what) for name, what in models.items()}
        for what, size in (("user", split.n_users), ("item", split.n_items)):
            rows, model = _most_rows(stored, what)
            if rows > size:  # they are numbered otherwise
                hint = f"rows must be numbered as fullrank does; fit the model on `fullrank.load({data!r}).train`."
                raise ValueError(f"model {model!r} has {rows:,} {what}s, and {data} has {size:,}: {hint}")
    else:
        tables = [read_table(Path(each)) for each in (train, test) if each is not None]
        stored = {name: _stored(what) for name, what in models.items()}
        pairs, name = [raw_columns(each) for each in tables], Path(str(train)).stem
        sizes: Any = {f"n_{what}s": _numbering(what, [one[what] for one in pairs], stored) for what in ("user", "item")}
        if test is not None:
            split = given_test(*tables, name=name, **sizes)
        else:
            split = Split.from_interactions(interactions(*tables, **sizes), how=how or "random", rng=seed, name=name)
    return split, {name: _made(models[name], split) if each is None else each for name, each in stored.items()}


def _numbering(what: str, ids: list[Any], models: Mapping[str, Any]) -> int | None:
    """Return how many positions there are where names are positions; ``None`` where positions are the sorted names."""
    rows, model = _most_rows(models, what)
    names = {each for part in ids for each in np.unique(part).tolist()}
    if rows <= len(names):  # one row for each name, or too few, which is refused elsewhere
        return None
    if all(not isinstance(each, str) and 0 <= each < rows for each in names):
        return rows
    raise ValueError(
        f"model {model!r} has {rows:,} {what}s, and the files name {len(names):,}, not all by a number below that: "
        f"row p must belong to {what} p (0, 1, 2, …), or there must be a row for each {what} in the files, in sorted order."
    )


def _most_rows(models: Mapping[str, Any], what: str) -> tuple[int, str]:
    """Return the largest number of users or items that a model knows, of those that say so, and its name."""
    sizes = ((getattr(model, f"n_{what}s", None), name) for name, model in models.items())
    return max(((size, name) for size, name in sizes if isinstance(size, int)), default=(0, ""))


def _stored(what: str) -> Any:
    """Read a model named on the command line, as its help says; ``None``: it is Python, which :func:`_made` runs."""
    from fullrank.models import load_model, read_factors

    path, parts = Path(what), [Path(each) for each in what.split(",")]
    if len(parts) in (2, 3) and {each.suffix.lower() for each in parts} <= {".npy", ".parquet", ".pq"}:
        users, items, *bias = map(existing, parts)
        return read_factors(users, items, *map(_column, bias))
    if path.suffix.lower() == ".npz":
        return load_model(existing(path))
    if ":" in what and not path.exists():
        return None
    if path.suffix.lower() == ".npy" and len(parts) == 1:
        raise ValueError(f"{what!r} is one table of factors: name both, as in --model users.npy,items.npy.")
    raise ValueError(
        f"cannot tell what model {what!r} is: write users.npy,items.npy (factors), model.npz (a saved model), "
        "module:name (Python), or a .csv or .parquet of scores or ranks."
    )


def _column(path: Path) -> Any:
    return map_npy(path) if path.suffix.lower() == ".npy" else next(iter(read_table(path).values()))


def _made(what: str, split: Any) -> Any:
    """Return a model that Python code holds or makes: ``module:name``."""
    module, _, name = what.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a script beside the caller, as with `python -m`
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"cannot import {module!r} of model {what!r}: {error}.") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{module!r} has no {name!r}{did_you_mean(part, dir(found))}")
        found = getattr(found, part)
    if not callable(found) or hasattr(found, "score"):
        return found() if inspect.isclass(found) else found
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # it does not say, as functions written in C
        return found
    needed = [each for each in parameters if each.default is each.empty and each.kind <= each.POSITIONAL_OR_KEYWORD]
    if len(needed) > 1:
        return found
    try:
        return found(split) if needed else found()
    except Exception as error:  # whatever the user's code does: it was called to make a model
        raise ValueError(f"model {what!r} could not be made: {type(error).__name__}: {error}.") from error
