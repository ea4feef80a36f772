"""From a model and a split to rank counts: exactly or by sampling, in bounded memory, resumable.

A test case is one (user, target). Cases are grouped by user, users are taken in blocks, and what a block gives is a pure
function of (model, block, design, seed): so blocks may run anywhere (``map``), in any order, and be kept (``checkpoint``),
and the result is the same to the digit. How items are compared, drawn and scored is in :mod:`fullrank.observing.kernels`.
"""

import os
from typing import Any

from fullrank._types import RNG
from fullrank.data.split import Split
from fullrank.observing.observation import Observation
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Design, parse_design


def observe(
    model: Any,
    split: Split,
    design: Design | str,
    *,
    candidates: Any = "unseen",
    compare_train: bool = False,
    guide: Any = None,
    ties: str = "random",
    rng: RNG = 0,
    map: Any = map,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    batch: int | None = None,
    name: str | None = None,
) -> RankCounts:
    """Rank every test case's target among all candidates or a sample of them, and count the outcomes.

    ``model`` is anything :func:`fullrank.as_scorer` takes. ``candidates``: ``"unseen"`` leaves the user's training items
    out (kr20), ``"all"`` does not (jin21, li23); or one pool per user: a sparse users × items mask, a dict or a sequence of
    item lists, to which the targets are added (the counts call these candidates ``"given"``). The other targets of a user
    are never negatives.

    ``guide``: for :class:`fullrank.Guided`, what orders each user's candidates: any scorer, ``"popularity"``, or lists of
    items, such as those a retrieval stage returned: one per user, a dict, a function of a user, or a frame or file with
    columns of users and items (and ranks, if rows do not follow them). A scorer is asked for whole rows, and what it scores
    is not counted; after every two of its items comes the next of the most popular ones in the training data, which also
    come first among items that it scores alike. A list is taken as it is given.
    ``compare_train``: among ``"all"`` candidates, compare a user's training items one by one, and sample the others.

    ``ties``: an item whose score equals the target's ranks above it never (``"optimistic"``), always
    (``"pessimistic"``), or by a seeded key per user and item (``"random"``), the same in every design. NaN is refused.

    ``rng`` seeds ties and negatives. Negatives depend on (seed, user, target) only: every model sees the same ones, and a
    longer sample begins with the shorter one. Neither ``batch`` (users per block), threads, ``map`` (anything like the
    built-in, or an object with ``.map``), nor a restart from ``checkpoint`` changes a digit. Threads: as many as the
    machine has, or ``NUMBA_NUM_THREADS``.

    ``Top(K)`` gives exact metrics@K for less than ``Exhaustive()``, for much less with factors. So does
    ``Adaptive(stop_at=K, max_negatives="all", replace=False)``, item by item: a case that was compared with all its
    candidates has its exact rank.
    """
    if not (checkpoint is None or isinstance(checkpoint, str | os.PathLike)):
        raise TypeError(f"`checkpoint` must be the name of a file or None, got {checkpoint!r}.")
    if checkpoint is not None and os.path.isdir(checkpoint):
        raise ValueError(f"`checkpoint` must be a file, got the folder {str(checkpoint)!r}: name a file in it.")
    design = parse_design(design)
    if guide is not None and not design.compares:
        raise ValueError(
            f"`guide` is for guided designs, such as 'guided 200, then uni99', got '{design}': leave it out."
        )
    seen = Observation(
        model, split, candidates=candidates, compare_train=compare_train, guide=guide, ties=ties, rng=rng, map=map,
        checkpoint=checkpoint, progress=progress, batch=batch, name=name,
    )  # fmt: skip
    return seen.advance(design).counts()
