"""Check the contract of a design: its law is a law, and it is the law of what is really drawn."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.special import chdtrc

from fullrank._types import FloatArray, IntArray
from fullrank.data.split import Split
from fullrank.observing.observation import Observation
from fullrank.ranks.design import ALL, Design, parse_design
from fullrank.testing._say import check, check_value

_SAMPLES = 2000


def check_design(design: Design, n_items: int = 60, *, parses: bool = True) -> None:
    """Check a design against the protocol :class:`fullrank.Design`; raises ``AssertionError`` on the first breach.

    - a value: compares, hashes, and (unless ``parses=False``) parses back from what it prints;
    - stages increase, and the last is at most all candidates when drawing without replacement;
    - ``outcomes`` are distinct and possible; ``law`` is not negative and its rows add to one, so none is missing;
    - the AUC estimate is unbiased at every rank;
    - what ``simulate`` draws follows the law, and so does what :func:`fullrank.observe` draws unless it needs a guide:
      2,000 cases at several ranks, by a chi-square test;
    - ``check`` lets what is drawn pass.

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
    read = (lambda: parse_design(str(design))) if parses else (lambda: design)
    check_value(design, f"{name} prints as {str(design)!r}, which", "parse", read)
    check(isinstance(design.replace, bool | np.bool_), f"`replace` of {name} must be True or False.")
    _check_stages(design, name, N)
    drawn, hits = (np.asarray(each) for each in design.outcomes(N))
    ranks = np.arange(1, N + 1)
    law = np.asarray(design.law(ranks, N, drawn, hits))
    _check_law(design, name, N, drawn, hits, law)
    auc = law @ np.asarray(design.auc(drawn, hits, np.full(len(hits), N)))
    off = float(np.abs(auc - (N - ranks) / max(N - 1, 1)).max())
    check(off < 1e-8, f"the AUC of {name} is biased: by {off:.2g} at the worst rank.")
    for rank, m, x in _drawings(design, N, np.random.default_rng(0)):
        _check_drawing(design, N, drawn, hits, law, rank, m, x)


def _check_stages(design: Design, name: str, N: int) -> None:
    for n_items in (2, 3, 10, N, 10 * N, 10**6):
        stages = tuple(design.stages(n_items))
        where = f"the stages of {name} among {n_items:,} items, {stages},"
        check(len(stages) > 0, f"{where} must not be empty.")
        check(all(isinstance(m, int | np.integer) and m >= 0 for m in stages), f"{where} must be whole numbers.")
        check(ALL not in stages[:-1], f"{where} go on after every candidate was compared.")
        sizes = [n_items - 1 if m == ALL else m for m in stages]
        check(all(a < b for a, b in pairwise(sizes)), f"{where} must increase.")
        whole = sum(course.share for course in design.courses(n_items))
        check(abs(whole - 1) < 1e-9, f"the shares of the `courses` of {name} add to {whole:.9f}, not to 1.")
        if not design.replace:
            check(sizes[-1] <= n_items - 1, f"{where} exceed the candidates, though nothing is drawn twice.")


def _check_law(design: Design, name: str, N: int, drawn: IntArray, hits: IntArray, law: FloatArray) -> None:
    check(drawn.shape == hits.shape and drawn.ndim == 1, f"`outcomes` of {name} must be two arrays of one length.")
    pairs = {(int(m), int(x)) for m, x in zip(drawn, hits, strict=True)}
    check(len(pairs) == len(hits), f"`outcomes` of {name} names an outcome twice.")
    size = np.where(drawn == ALL, N - 1, drawn)
    check(((hits >= 0) & (hits <= size)).all(), f"`outcomes` of {name} has more hits than negatives.")
    check(np.isin(drawn, design.stages(N)).all(), f"`outcomes` of {name} has numbers of negatives that are no stage.")
    check(law.shape == (N, len(hits)), f"`law` of {name} must have a row per rank and a column per outcome.")
    check(np.isfinite(law).all() and (law >= 0).all(), f"`law` of {name} has negative or undefined probabilities.")
    total = law.sum(1)
    worst = int(np.abs(total - 1).argmax())
    adds = f"adds to {total[worst]:.9f} at rank {worst + 1}, not to 1"
    check(abs(total[worst] - 1) < 1e-8, f"the law of {name} {adds}: an outcome is missing or miscounted.")
    few = np.arange(0, len(hits), max(1, len(hits) // 7))
    part = np.asarray(design.law([2, N], N, drawn[few], hits[few]))
    same = np.allclose(part, law[[1, N - 1]][:, few], rtol=1e-9, atol=1e-12)
    check(same, f"`law` of {name} gives other probabilities when asked for some outcomes only.")
    top = hits[law[0] > 1e-12]
    check((top == 0).all(), f"the law of {name} lets a target of rank 1 be beaten.")


def _drawings(design: Design, N: int, rng: np.random.Generator) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Yield ranks, each with what was drawn for cases of that rank."""
    ranks = sorted({1, 2, max(2, N // 20), max(2, N // 4), max(2, N // 2), N})
    for rank in ranks:
        yield rank, *design.simulate(np.full(_SAMPLES, rank), N, rng)
    if design.compares:
        return
    # observe cases of these ranks, of a model that scores every item below the one before
    targets = np.repeat(ranks, _SAMPLES) - 1
    model = np.ones((len(targets), 1)), -np.arange(N, dtype=np.float64)[:, None]
    split = Split(sp.csr_matrix((len(targets), N)), np.arange(len(targets)), targets)
    seed = int(rng.integers(1 << 31))
    seen = Observation(model, split, candidates="all", rng=seed, progress=False).advance(design)
    yield from zip(ranks, seen.drawn.reshape(-1, _SAMPLES), seen.above.reshape(-1, _SAMPLES), strict=True)


def _check_drawing(
    design: Design, N: int, drawn: IntArray, hits: IntArray, law: FloatArray, rank: int, m: IntArray, x: IntArray
) -> None:
    name = repr(design)

    def pairs(sizes: IntArray, beaten: IntArray) -> list[tuple[int, int]]:
        # a sample of all there are, drawn without replacement, is everything
        sizes = sizes if design.replace else np.where(sizes == ALL, N - 1, sizes)
        return list(zip(sizes.tolist(), beaten.tolist(), strict=True))

    column = {outcome: i for i, outcome in enumerate(pairs(drawn, hits))}
    seen = np.zeros(len(hits))
    for outcome in pairs(m, x):
        what = f"at rank {rank} among {N} items {name} draws the outcome (drawn, hits) = {outcome}"
        check(outcome in column, f"{what}, which its `outcomes` leave out.")
        seen[column[outcome]] += 1
    wanted = len(m) * law[rank - 1]
    # rare outcomes are pooled, so that the chi-square law holds
    order = np.argsort(wanted)
    group = np.floor(np.cumsum(wanted[order]) / 10.0).astype(np.int64)
    expected, found = np.bincount(group, wanted[order]), np.bincount(group, seen[order])
    statistic = float(((found - expected) ** 2 / np.maximum(expected, 1e-300)).sum())
    chance = float(chdtrc(max(np.count_nonzero(expected) - 1, 1), statistic))
    check(
        chance > 1e-7,
        f"the law of {name} is not that of what is drawn: at rank {rank} among {N} items {len(m)} cases differ "
        f"from it as they would by chance once in {1 / max(chance, 1e-300):.1g} times.",
    )
    given = None if design.exhaustive else np.where(m == ALL, N - 1, m) if design.plain else m
    try:
        same = design.check(given, x, np.full(len(m), N))
    except ValueError as error:
        raise AssertionError(f"`check` of {name} refuses what it draws: {error}") from None
    sizes = [np.where(each == ALL, N - 1, each) for each in (same, m)]
    check((sizes[0] == sizes[1]).all(), f"`check` of {name} changes the number of negatives of what it draws.")
