"""True ranks of our own recommenders, trained once and kept: an experiment starts from here.

The cache folder (``FULLRANK_CACHE``, else the platform's) holds one `.npz` per (data, model with its settings): the rank of
every test case's target among all items and among the user's unseen ones. A model is trained when its ranks are not
there; neural ones only when asked to.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._files import write_atomically

if TYPE_CHECKING:
    from ..data import Split

__all__ = ["NotHereError", "Ranks", "cache_folder", "keep", "kept", "rank_key", "true_ranks"]

Ints = NDArray[np.int64]
#: The papers hold out one item per user; gowalla's published split holds out a fifth, so it is split anew.
SPLITS: dict[str, dict[str, Any]] = {"gowalla": {"how": "random", "min_items": 3}}
#: Part of every key: raise it when what is kept changes its meaning.
VERSION = 1


class NotHereError(Exception):
    """Data or a model that is not there; the sentence says which and how to get it."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where every target stands, under one kind of candidates: ``ranks`` in 1..``pool`` (one number per case)."""

    ranks: Ints
    pool: Ints
    key: str

    @property
    def n_items(self) -> float:
        """Mean number of candidates."""
        return float(self.pool.mean())


def cache_folder() -> Path:
    """`FULLRANK_CACHE`, else `fullrank/reproduce` in the platform's cache."""
    named = os.environ.get("FULLRANK_CACHE")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_path("fullrank")) / "reproduce"


def kept(kind: str, key: str) -> dict[str, NDArray[Any]] | None:
    """The arrays kept under this key, or None; a damaged file counts as none."""
    try:
        with np.load(cache_folder() / kind / f"{key}.npz", allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception:  # not there, half there, foreign: made anew either way
        return None


def keep(kind: str, key: str, **arrays: NDArray[Any]) -> None:
    """Keep arrays under a key; whole or not at all."""
    folder = cache_folder() / kind
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # takes the names for its own options
    write_atomically(folder / f"{key}.npz", buffer.getvalue())


def key_of(*parts: Any) -> str:
    """A name for what these parts determine."""
    text = json.dumps([VERSION, *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@cache
def code_key(folder: str, *names: str) -> str:
    """A fingerprint of files of this package (all, unless named): what was kept does not outlive the code that made it."""
    found = sorted(resources.files("fullrank").joinpath(folder).iterdir(), key=lambda each: each.name)
    wanted = [each for each in found if (each.name in names if names else each.name.endswith((".py", ".json")))]
    return key_of([each.read_text(encoding="utf-8") for each in wanted])


# ------------------------------------------------------------------------------------------------ data and models


@cache
def split_of(data: str) -> Split:
    """The split of a data set, or a sentence that says which file is missing."""
    from ..data import load

    try:
        return load(data, progress=False, **SPLITS.get(data, {}))
    except FileNotFoundError as error:
        raise NotHereError(str(error)) from None


@cache
def recipes() -> dict[str, dict[str, Any]]:
    """The models of the papers, as models.toml has them."""
    text = resources.files("fullrank.reproduce").joinpath("models.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def recommender(data: str, name: str) -> Any:
    """The unfitted model of that name, with its settings for a data set."""
    recipe = recipes().get(name)
    if recipe is None:
        raise ValueError(f"there is no model {name!r} in models.toml; known are {', '.join(recipes())}.")
    from .. import models

    try:
        made = getattr(models, recipe["class"], None)
    except ImportError as error:
        raise NotHereError(f"{name} on {data}: {error}") from None
    if made is None:
        raise NotHereError(_not_trained(data, name))
    if "preset" in recipe:
        return getattr(made, recipe["preset"])()
    return made(**{**recipe.get("settings", {}), **recipe.get("data", {}).get(data, {})})


def rank_key(data: str, model: str) -> str:
    """What the ranks of a model are kept under; of a neural one all parameters, as its defaults come from trials."""
    unfitted = recommender(data, model)
    told = [repr(unfitted), vars(unfitted)] if recipes()[model].get("neural") else [repr(unfitted)]
    return key_of("ranks", split_of(data).checksum, *told)


def true_ranks(data: str, model: str, candidates: str = "all", *, neural: bool = False, progress: bool = True) -> Ranks:
    """Ranks among `all` or `unseen` candidates, from the cache or by training; `NotHereError` where neither can be."""
    key = rank_key(data, model)
    found = kept("ranks", key)
    if found is None:
        if recipes()[model].get("neural") and not neural:
            raise NotHereError(_not_trained(data, model))
        found = _train(split_of(data), recommender(data, model), f"{model} on {data}", progress)
        keep("ranks", key, **found)
    return Ranks(found[f"{candidates}_ranks"], found[f"{candidates}_pool"], f"{key}-{candidates}")


def _train(split: Split, unfitted: Any, label: str, progress: bool) -> dict[str, Ints]:
    from ..ranks.observe import observe_cases

    try:
        fitted = unfitted.fit(split.train, progress=progress)
    except (ImportError, ValueError, MemoryError) as error:
        raise NotHereError(f"{label}: {error}") from None
    out = {}
    for candidates in ("all", "unseen"):
        seen = observe_cases(fitted, split, "full", candidates=candidates, progress=progress, name=label)
        out[f"{candidates}_ranks"], out[f"{candidates}_pool"] = seen.hits + 1, seen.n_items
    return out


def _not_trained(data: str, model: str) -> str:
    more = "" if data == "ml-1m" else f" NEURAL={data}"
    return f"{model} on {data} is not trained: make reproduce-neural{more}."
