"""Splits and models named on the command line or in a TOML file."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["model_from", "named", "read_config", "split_from", "table_from"]


def read_config(path: Path | None, allowed: Iterable[str]) -> dict[str, Any]:
    """A TOML file as options; a key that nobody knows is an error with the one that was probably meant."""
    if path is None:
        return {}
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{str(path)!r} is not TOML: {error}.") from None
    known = [each.replace("_", "-") for each in allowed]
    found = {}
    for key, value in document.items():
        name = key.replace("_", "-")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}."
            raise ValueError(f"{str(path)!r} has an unknown key {key!r}: {hint}")
        found[name.replace("-", "_")] = value
    return found


def named(given: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """``NAME=WHAT``, or WHAT alone, which then lends its own name."""
    pairs = given.items() if isinstance(given, Mapping) else (_pair(each) for each in given)
    out: dict[str, str] = {}
    for name, what in pairs:
        if name in out:
            raise ValueError(f"two models are named {name!r}: rename one, as in --model other={what}.")
        out[name] = what
    return out


def _pair(text: str) -> tuple[str, str]:
    name, equals, what = text.partition("=")
    if equals and name and "/" not in name and "," not in name:
        return name, what
    return Path(text.split(",")[0].split(":")[-1]).stem, text


def split_from(data: str | None, train: Path | None, test: Path | None, how: str | None, seed: int) -> Any:
    """A split by the name of a data set, or from files of interactions."""
    from ..data import Split, given_test, interactions, load

    if (data is None) == (train is None):
        raise ValueError("say what to evaluate on: either --data ml-1m, or --train FILE (and --test FILE).")
    if data is not None:
        return load(data, how, seed) if how is not None else load(data)
    known = table_from(Path(str(train)))
    name = Path(str(train)).stem
    if test is not None:
        return given_test(known, table_from(Path(test)), name=name)
    return Split.from_interactions(interactions(known), how=how or "random", rng=seed, name=name)


def table_from(path: Path) -> Any:
    """A CSV, TSV or Parquet file as an Arrow table."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    ending = path.suffix.lower()
    try:
        if ending in {".parquet", ".pq"}:
            return parquet.read_table(path)
        if ending in {".csv", ".tsv", ".txt"}:
            return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="," if ending == ".csv" else "\t"))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise ValueError(f"cannot read {str(path)!r}: {str(error).splitlines()[0]}.") from None
    raise ValueError(f"cannot read {str(path)!r}: it must end in .csv, .tsv or .parquet.")


def model_from(what: str, split: Any) -> Any:
    """A model as it is written on the command line.

    ``users.npy,items.npy[,bias.npy]`` (or Parquet): factors; ``model.npz``: a saved fullrank model; ``module:name``: a
    function of (users, items), a model, or a function of nothing or of the split that makes one; ``scores.csv`` or
    ``.parquet`` with a column ``score``: candidates that were scored elsewhere; with a column ``rank``: their ranks.
    """
    parts = what.split(",")
    if len(parts) in (2, 3):
        return tuple(_array(Path(each)) for each in parts)
    path = Path(what)
    if path.suffix.lower() == ".npz":
        from ..models import load_model

        if not path.exists():
            raise FileNotFoundError(f"there is no file {what!r}.")
        return load_model(path)
    if ":" in what and not path.exists():
        return _imported(what, split)
    if path.suffix.lower() == ".npy":
        raise ValueError(f"{what!r} is one table of factors: name both, as in --model users.npy,items.npy.")
    raise ValueError(
        f"cannot tell what model {what!r} is: write users.npy,items.npy (factors), model.npz (a saved model), "
        "module:name (Python), or a .csv or .parquet of scores or ranks."
    )


def _array(path: Path) -> Any:
    import numpy as np

    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    if path.suffix.lower() == ".npy":
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise ValueError(f"cannot read {str(path)!r}: {error}") from None
    table = table_from(path)
    columns = [table[name].to_numpy() for name in table.column_names]
    if len(columns) == 1 and columns[0].dtype == object:  # one column of lists
        return np.stack(columns[0])
    if len(columns) == 1:
        return columns[0]
    if any(each.dtype.kind not in "fiu" for each in columns):
        raise ValueError(f"{str(path)!r} has columns that are not numbers: a factor table has one column per factor.")
    return np.stack(columns, axis=1)


def _imported(what: str, split: Any) -> Any:
    module, _, name = what.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a script beside the caller, as with `python -m`
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"cannot import {module!r} of model {what!r}: {error}.") from None
    for part in name.split("."):
        if not hasattr(found, part):
            close = difflib.get_close_matches(part, dir(found), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ValueError(f"{module!r} has no {name!r}{hint}")
        found = getattr(found, part)
    if not callable(found) or hasattr(found, "score"):
        return found() if inspect.isclass(found) else found
    try:
        needed = [
            each
            for each in inspect.signature(found).parameters.values()
            if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return found
    if not needed:
        return found()
    return found(split) if len(needed) == 1 else found
