"""True ranks of our own recommenders, trained once and kept: an experiment starts from here.

What is kept of a (data set, model with its settings) is the rank of every test case's target among all items and among the
user's unseen ones. A model is trained when its ranks are not there; neural ones only when asked to.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

from . import neural as networks
from .keeping import keep, kept, key_of, library_code, own_code

__all__ = ["NotHereError", "Ranks", "is_kept", "recipes", "recommender", "split_of", "true_ranks"]

Ints = NDArray[np.int64]
#: The papers hold out one item per user; gowalla's published split holds out a fifth, so it is split anew.
SPLITS: dict[str, dict[str, Any]] = {"gowalla": {"how": "random", "min_items": 3}}


class NotHereError(Exception):
    """Data or a model that is not there; the sentence says which and how to get it."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where every target stands among ``candidates`` (`all` or `unseen`): ``ranks`` in 1..``pool`` (one number per case).

    ``key`` names data, model and candidates, and seeds what is drawn from them; ``code`` is a fingerprint of the code that
    the ranks rest on, part of the key of all that is kept of them.
    """

    ranks: Ints
    pool: Ints
    key: str
    candidates: str = "all"
    code: str = ""

    @property
    def n_items(self) -> float:
        """Mean number of candidates."""
        return float(self.pool.mean())


@cache
def split_of(data: str) -> fr.Split:
    """The split of a data set, or a sentence that says which file is missing."""
    try:
        return fr.load(data, progress=False, **SPLITS.get(data, {}))
    except FileNotFoundError as error:
        raise NotHereError(str(error)) from None


@cache
def recipes() -> dict[str, dict[str, Any]]:
    """The models of the papers, as models.toml has them."""
    return tomllib.loads(resources.files("fullrank_papers").joinpath("models.toml").read_text(encoding="utf-8"))


def recommender(data: str, name: str) -> Any:
    """The unfitted model of that name, with its settings for a data set."""
    recipe = recipes().get(name)
    if recipe is None:
        raise ValueError(f"there is no model {name!r} in models.toml; known are {', '.join(recipes())}.")
    made = getattr(networks if recipe.get("neural") else fr.models, recipe["class"])
    if "preset" in recipe:
        return getattr(made, recipe["preset"])()
    return made(**{**recipe.get("settings", {}), **recipe.get("data", {}).get(data, {})})


def rank_key(data: str, model: str) -> str:
    """What names the ranks of a model; of a neural one all parameters, as its defaults come from trials."""
    unfitted = recommender(data, model)
    told = [repr(unfitted), vars(unfitted)] if recipes()[model].get("neural") else [repr(unfitted)]
    return key_of("ranks", split_of(data).checksum, *told)


def rank_code(model: str) -> str:
    """A fingerprint of the code that the ranks of a model rest on: estimators come after."""
    own = ("ranks.py", "neural") if recipes()[model].get("neural") else ("ranks.py",)
    return key_of(library_code("estimators"), own_code(*own))


def is_kept(data: str, model: str) -> bool:
    """Whether the ranks of a model are kept."""
    try:
        return kept("ranks", key_of(rank_key(data, model), rank_code(model))) is not None
    except NotHereError:
        return False


def true_ranks(data: str, model: str, candidates: str = "all", *, neural: bool = False, progress: bool = True) -> Ranks:
    """Ranks among `all` or `unseen` candidates, from the cache or by training; `NotHereError` where neither can be."""
    name, code = rank_key(data, model), rank_code(model)
    key = key_of(name, code)
    found = kept("ranks", key)
    if found is None:
        if recipes()[model].get("neural") and not neural:
            raise NotHereError(_not_trained(data, model))
        found = _train(split_of(data), recommender(data, model), f"{model} on {data}", progress)
        keep("ranks", key, **found)
    return Ranks(found[f"{candidates}_ranks"], found[f"{candidates}_pool"], f"{name}-{candidates}", candidates, code)


def _train(split: fr.Split, unfitted: Any, label: str, progress: bool) -> dict[str, Ints]:
    try:
        fitted = unfitted.fit(split.train, progress=progress)
    except (ImportError, ValueError, MemoryError) as error:
        raise NotHereError(f"{label}: {error}") from None
    out = {}
    for candidates in ("all", "unseen"):
        seen = fr.Observation(fitted, split, candidates=candidates, progress=progress, name=label).advance("full")
        out[f"{candidates}_ranks"], out[f"{candidates}_pool"] = seen.above + 1, seen.pool
    return out


def _not_trained(data: str, model: str) -> str:
    more = "" if data == "ml-1m" else f" NEURAL={data}"
    return f"{model} on {data} is not trained: make reproduce-neural{more}."
