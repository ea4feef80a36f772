"""True ranks of our own recommenders, trained once and kept: an experiment starts from here.

What is kept of a (data set, model with its settings) is which items stand before each test case's target, hence its rank
among all items and among the user's unseen ones, and what any sample of them shows. A model is trained when that is not
there; neural ones only when asked to, and they are kept themselves, as training takes longer than all the rest.
"""

from __future__ import annotations

import contextlib
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

from . import neural as networks
from .comparing import Comparisons, compare_all
from .keeping import cache_folder, keep, kept, key_of, library_code, own_code
from .neural.training import Task

__all__ = ["NotHereError", "Ranks", "is_kept", "recipes", "recommender", "split_of", "true_ranks"]

Ints = NDArray[np.int64]
#: The papers hold out one item per user; gowalla's published split holds out a fifth, so it is split anew.
SPLITS: dict[str, dict[str, Any]] = {"gowalla": {"how": "random", "min_items": 3}}
#: Comparisons of more cells than this are not kept: samples are then drawn from the ranks, for each model on its own.
MOST_CELLS = 5e8


class NotHereError(Exception):
    """Data or a model that is not there; the sentence says which and how to get it."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where every target stands among ``candidates`` (`all` or `unseen`): ``ranks`` in 1..``pool`` (one number per case).

    ``key`` names data, model and candidates, and seeds what is drawn from them; ``code`` is a fingerprint of the code that
    the ranks rest on, part of the key of all that is kept of them. ``cases``, where the catalogue is not too large, tells
    which items stand before each target.
    """

    ranks: Ints
    pool: Ints
    key: str
    candidates: str = "all"
    code: str = ""
    cases: Comparisons | None = None

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
        return getattr(made, recipe["preset"])(**recipe.get("settings", {}))
    return made(**{**recipe.get("settings", {}), **recipe.get("data", {}).get(data, {})})


def holds_out(data: str, model: str) -> bool:
    """Whether a model is trained without one interaction of every user, as the authors did who chose settings by it.

    Neural models hold out their own.
    """
    recipe = recipes()[model]
    return data in recipe.get("hold_out", ()) and not recipe.get("neural")


def rank_key(data: str, model: str) -> str:
    """What names the ranks of a model; of a neural one all parameters, as its defaults come from trials."""
    unfitted = recommender(data, model)
    told = [repr(unfitted), vars(unfitted)] if recipes()[model].get("neural") else [repr(unfitted)]
    return key_of("ranks", split_of(data).checksum, *told, *(["held out"] if holds_out(data, model) else []))


def rank_code(model: str) -> str:
    """A fingerprint of the code that the ranks of a model rest on: estimators come after."""
    own = ("ranks.py", "comparing.py", "neural") if recipes()[model].get("neural") else ("ranks.py", "comparing.py")
    return key_of(library_code("estimators"), own_code(*own))


def is_kept(data: str, model: str) -> bool:
    """Whether a model needs no training any more: its ranks are kept, or, of a neural one, the model itself."""
    try:
        kept_ranks = kept("ranks", key_of(rank_key(data, model), rank_code(model)))
        return kept_ranks is not None or (bool(recipes()[model].get("neural")) and _model_path(data, model).exists())
    except NotHereError:
        return False


def true_ranks(data: str, model: str, candidates: str = "all", *, neural: bool = False, progress: bool = True) -> Ranks:
    """Ranks among `all` or `unseen` candidates, from the cache or by training; `NotHereError` where neither can be."""
    name, code = rank_key(data, model), rank_code(model)
    found = _kept_ranks(data, model, key_of(name, code), neural, progress)
    return Ranks(
        found[f"{candidates}_ranks"], found[f"{candidates}_pool"], f"{name}-{candidates}", candidates, code,
        found.get("cases"),
    )  # fmt: skip


@lru_cache(maxsize=8)
def _kept_ranks(data: str, model: str, key: str, neural: bool, progress: bool) -> dict[str, Any]:
    found: dict[str, Any] | None = kept("ranks", key)
    split = split_of(data)
    if found is None:
        if recipes()[model].get("neural") and not neural and not is_kept(data, model):
            raise NotHereError(_not_trained(data, model))
        cases = compare_all(fitted(data, model, progress), split)
        found = {}
        for candidates in ("all", "unseen"):
            found[f"{candidates}_ranks"], found[f"{candidates}_pool"] = cases.ranks(candidates)
        if len(cases.users) * cases.n_items <= MOST_CELLS:
            found |= {"ahead": cases.ahead, "tied": cases.tied}
        keep("ranks", key, **found)
    if "ahead" in found:
        history = split.train.tocsr().copy()
        history.sort_indices()
        users, targets = (np.asarray(each, dtype=np.int64) for each in (split.users, split.items))
        found["cases"] = Comparisons(found["ahead"], found["tied"], users, targets, history, split.n_items)
    return found


def fitted(data: str, model: str, progress: bool = True) -> Any:
    """The trained model, of a neural one the kept one if there is."""
    split, unfitted, label = split_of(data), recommender(data, model), f"{model} on {data}"
    keeps = bool(recipes()[model].get("neural"))
    path = _model_path(data, model) if keeps else Path()
    if keeps:
        with contextlib.suppress(OSError, ValueError):  # not there, or damaged
            return fr.models.load_model(path)
    train = split.train
    if holds_out(data, model):
        train = Task.of(train, len(split.users), np.random.default_rng(0), model).train
    try:
        made = unfitted.fit(train, progress=progress)
    except (ImportError, ValueError, MemoryError) as error:
        raise NotHereError(f"{label}: {error}") from None
    if keeps:
        path.parent.mkdir(parents=True, exist_ok=True)
        made.save(path)
    return made


def _model_path(data: str, model: str) -> Path:
    """Where a trained neural model is kept: under its settings, its data and the code that trained it, and nothing else."""
    code = own_code(f"neural/{recipes()[model]['class'].lower()}.py", "neural/training.py")
    return cache_folder() / "models" / f"{model}-{data}-{key_of(rank_key(data, model), code)}.npz"


def _not_trained(data: str, model: str) -> str:
    return f"{model} on {data} is not trained: make reproduce-neural NEURAL={data}."
