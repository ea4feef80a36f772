"""The contract of a design: its law is a law, and it is the law of what is really drawn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..ranks.design import ALL, Design, parse_design
from ._say import check

__all__ = ["check_design"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Draw = Callable[[int, int, np.random.Generator], tuple[int, int]]


def check_design(
    design: Design,
    n_items: int = 60,
    *,
    draw: Draw | None = None,
    parses: bool = True,
    samples: int = 2000,
    rng: np.random.Generator | int | None = 0,
) -> None:
    """Check a design against the protocol :class:`fullrank.Design`; raises ``AssertionError`` on the first breach.

    - a value: compares, hashes, and (unless ``parses=False``) parses back from what it prints;
    - stages increase, and the last is at most all candidates when drawing without replacement;
    - ``outcomes`` are distinct and possible; ``law`` is not negative and its rows add to one, so none is missing;
    - the AUC estimate is unbiased at every rank;
    - what is drawn follows the law: ``samples`` cases at several ranks, by a chi-square test. The drawing is the design's
      ``stages`` and ``stop_at`` acted out item by item, or your own ``draw(rank, n_items, rng) -> (drawn, hits)``.

    >>> from dataclasses import dataclass
    >>> import numpy as np, fullrank as fr
    >>> from fullrank.testing import check_design
    >>> check_design(fr.Adaptive(5, 23, stop_at=2, replace=False))

    A design of one's own, whose author forgot that nothing is drawn twice:

    >>> @dataclass(frozen=True)
    ... class Few(fr.Sample):
    ...     def law(self, ranks, n_items, drawn, hits):
    ...         return fr.Sample(self.negatives, replace=True).law(ranks, n_items, drawn, hits)
    >>> check_design(Few(20, replace=False), parses=False)
    Traceback (most recent call last):
    ...
    AssertionError: the law of Few(negatives=20, replace=False) is not that of what is drawn: at rank ...
    """
    check(isinstance(design, Design), f"{design!r} lacks a method of the protocol fullrank.Design.")
    name = repr(design)
    N = int(n_items)
    _check_value(design, name, parses)
    _check_stages(design, name, N)
    drawn, hits = (np.asarray(each) for each in design.outcomes(N))
    ranks = np.arange(1, N + 1)
    law = np.asarray(design.law(ranks, N, drawn, hits))
    _check_law(design, name, N, drawn, hits, law)
    auc = law @ np.asarray(design.auc(drawn, hits, np.full(len(hits), N)))
    off = float(np.abs(auc - (N - ranks) / max(N - 1, 1)).max())
    check(off < 1e-8, f"the AUC of {name} is biased: by {off:.2g} at the worst rank.")
    _check_drawing(design, name, N, drawn, hits, law, draw, samples, np.random.default_rng(rng))


def _check_value(design: Design, name: str, parses: bool) -> None:
    try:
        same = hash(design) == hash(design)
    except TypeError:
        raise AssertionError(f"{name} cannot be hashed: make it a frozen dataclass.") from None
    check(same and design == design, f"{name} does not equal itself: make it a frozen dataclass.")
    check(isinstance(design.replace, bool | np.bool_), f"`replace` of {name} must be True or False.")
    if parses:
        try:
            back = parse_design(str(design))
        except ValueError as error:
            raise AssertionError(f"{name} prints as {str(design)!r}, which does not parse back: {error}") from None
        check(back == design, f"{name} prints as {str(design)!r}, which parses back as {back!r}.")


def _check_stages(design: Design, name: str, N: int) -> None:
    for n_items in (2, 3, 10, N, 10 * N, 10**6):
        stages = tuple(design.stages(n_items))
        where = f"the stages of {name} among {n_items:,} items, {stages},"
        check(len(stages) > 0, f"{where} must not be empty.")
        check(all(isinstance(m, int | np.integer) and m >= 0 for m in stages), f"{where} must be whole numbers.")
        check(ALL not in stages[:-1], f"{where} go on after every candidate was compared.")
        sizes = [n_items - 1 if m == ALL else m for m in stages]
        check(all(a < b for a, b in pairwise(sizes)), f"{where} must increase.")
        if not design.replace:
            check(sizes[-1] <= n_items - 1, f"{where} exceed the candidates, though nothing is drawn twice.")


def _check_law(design: Design, name: str, N: int, drawn: IntArray, hits: IntArray, law: FloatArray) -> None:
    check(drawn.shape == hits.shape and drawn.ndim == 1, f"`outcomes` of {name} must be two arrays of one length.")
    pairs = {(int(m), int(x)) for m, x in zip(drawn, hits, strict=True)}
    check(len(pairs) == len(hits), f"`outcomes` of {name} names an outcome twice.")
    size = np.where(drawn == ALL, N - 1, drawn)
    check(((hits >= 0) & (hits <= size)).all(), f"`outcomes` of {name} has more hits than negatives.")
    check(
        np.isin(drawn, design.stages(N)).all(),
        f"`outcomes` of {name} has numbers of negatives that are no stage of it.",
    )
    check(law.shape == (N, len(hits)), f"`law` of {name} must have a row per rank and a column per outcome.")
    check(np.isfinite(law).all() and (law >= 0).all(), f"`law` of {name} has negative or undefined probabilities.")
    total = law.sum(1)
    worst = int(np.abs(total - 1).argmax())
    check(
        abs(total[worst] - 1) < 1e-8,
        f"the law of {name} adds to {total[worst]:.9f} at rank {worst + 1}, not to 1: an outcome is missing or miscounted.",
    )
    few = np.arange(0, len(hits), max(1, len(hits) // 7))
    part = np.asarray(design.law([2, N], N, drawn[few], hits[few]))
    check(
        np.allclose(part, law[[1, N - 1]][:, few], rtol=1e-9, atol=1e-12),
        f"`law` of {name} gives other probabilities when asked for some outcomes only.",
    )
    top = hits[law[0] > 1e-12]
    check((top == 0).all(), f"the law of {name} lets a target of rank 1 be beaten.")


def _check_drawing(
    design: Design,
    name: str,
    N: int,
    drawn: IntArray,
    hits: IntArray,
    law: FloatArray,
    draw: Draw | None,
    samples: int,
    rng: np.random.Generator,
) -> None:
    from scipy.special import chdtrc

    column = {(int(m), int(x)): i for i, (m, x) in enumerate(zip(drawn, hits, strict=True))}
    for rank in sorted({1, 2, max(2, N // 20), max(2, N // 4), max(2, N // 2), N}):
        seen = np.zeros(len(hits))
        for _ in range(samples):
            outcome = draw(rank, N, rng) if draw is not None else _act_out(design, rank, N, rng)
            check(
                outcome in column,
                f"at rank {rank} among {N} items {name} draws the outcome (drawn, hits) = {outcome}, "
                "which its `outcomes` leave out.",
            )
            seen[column[outcome]] += 1
        wanted = samples * law[rank - 1]
        # outcomes that are rare are thrown together, so that the chi-square law holds
        order = np.argsort(wanted)
        group = np.floor(np.cumsum(wanted[order]) / 10.0).astype(np.int64)
        expected, found = np.bincount(group, wanted[order]), np.bincount(group, seen[order])
        kept = expected > 0
        impossible = found[~kept].sum()
        statistic = float(((found[kept] - expected[kept]) ** 2 / np.maximum(expected[kept], 1e-300)).sum())
        chance = float(chdtrc(max(int(kept.sum()) - 1, 1), statistic))
        check(
            chance > 1e-7 and impossible == 0,
            f"the law of {name} is not that of what is drawn: at rank {rank} among {N} items {samples} cases differ "
            f"from it as they would by chance once in {1 / max(chance, 1e-300):.1g} times.",
        )


def _act_out(design: Design, rank: int, n_items: int, rng: np.random.Generator) -> tuple[int, int]:
    """One case: items 0..rank−2 are above the target; draw to each stage, stop when beaten ``stop_at`` times."""
    others = n_items - 1
    stop = getattr(design, "stop_at", None)
    stages = tuple(design.stages(n_items))
    sizes = [others if m == ALL else int(m) for m in stages]
    items = rng.integers(0, others, sizes[-1]) if design.replace else rng.permutation(others)[: sizes[-1]]
    above = np.cumsum(items < rank - 1)
    hits = [int(above[size - 1]) for size in sizes]
    last = len(sizes) - 1
    end = last if stop is None else next((stage for stage in range(last) if hits[stage] >= stop), last)
    return int(stages[end]), hits[end]
