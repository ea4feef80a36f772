"""RankCounts: how often each outcome was seen. The sufficient statistic: small, additive, saved without pickle.

Counts are keyed by (block of users, pool-size bin, outcome, order j, targets T):

- the *block* is a hash of the user into 256, the same for every model, so that models can be compared in pairs, users
  clustered and everything resampled without scoring again;
- the *pool* is the number N_u of candidates of the case, kept in at most 64 geometric bins that grow coarser only when
  there are more (nested powers of two, so that adding counts never depends on the order);
- the *outcome* is (ahead, rest, drawn, hits): ``ahead`` of the candidates that were compared one by one beat the target,
  and of ``drawn`` among the ``rest`` others ``hits`` do. With B of the rest better than the target its rank among the
  non-relevant candidates is R′ = 1 + ahead + B. All were compared, so that R′ is known, where rest = 0. The rest is binned
  like the pool;
- (j, T) is the target's place among its user's T targets.

Beside them stands among which ``candidates`` the targets were ranked: ``"unseen"`` (a user's training items left out),
``"all"``, or a name of one's own. Ranks among different candidates follow different laws, so such counts do not add.

>>> a = RankCounts.from_ranks([1, 1, 4], n_items=1000, design="uni9")
>>> b = RankCounts.from_ranks([2], n_items=1000, design="uni9", users=[7])
>>> print(a + b)
4 cases of uni9 among 1,000 items (unseen)
>>> len(a + b)
4
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fullrank._columns import find_column
from fullrank._files import write_atomically
from fullrank.ranks.checks import check_weights, constant, per_case, refuse, whole_numbers
from fullrank.ranks.design import ALL, Design, parse_design

__all__ = ["BLOCKS", "NOTHING", "PoolTable", "RankCounts"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Number of user blocks. 256 keeps counts small and leaves 255 degrees of freedom for resampling.
BLOCKS = 256
#: Pools are binned by ⌊log2 N · 2^level⌋ at the finest level that keeps at most this many bins.
MAX_POOLS = 64
#: Laws of R′ are estimated for at most this many strata of (j, T).
MAX_STRATA = 64
#: More candidates than this are refused: ranks near 2**53 are no longer told apart as floating-point numbers.
MOST_ITEMS = 2**50
#: Cases that are grouped at once: many ranks become counts in the memory of this many.
_CHUNK = 1 << 20
_FINEST = 24
#: ``drawn`` of a case whose rest nothing was drawn from.
NOTHING = -1
_KEYS = ("block", "pool", "ahead", "rest", "drawn", "hits", "order", "targets")
_SUMS = ("cases", "scored", "weight", "pool_weight", "auc_weight", "compared_weight")
_MAGIC = "fullrank.RankCounts"
_VERSION = 3


@dataclass(frozen=True)
class PoolTable:
    """The counts of one pool-size bin, as estimators want them: outcomes and a weight per (j, T) stratum and outcome."""

    n_items: float
    drawn: IntArray
    hits: IntArray
    weight: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class RankCounts:
    """How often each outcome was seen under one design. Make it with :meth:`from_ranks`; add with ``+``."""

    design: Design
    level: int
    keys: IntArray  # one row per cell, columns as in _KEYS, in the order of `_grouped` and unique
    cases: IntArray
    scored: IntArray  # items compared with targets, in all
    weight: FloatArray
    pool_weight: FloatArray  # Σ weight · N_u
    auc_weight: FloatArray  # Σ weight · unbiased AUC of the case; NaN where nothing of the rest was drawn
    compared_weight: FloatArray  # Σ weight · candidates compared one by one, of cases that have a rest
    #: Among which items targets were ranked: "unseen" (a user's training items left out), "all", or a name of one's own.
    candidates: str = "unseen"

    def __post_init__(self) -> None:
        check_candidates(self.candidates)

    # ---------------------------------------------------------------------------------------------- making

    @classmethod
    def from_ranks(
        cls,
        ranks: ArrayLike,
        n_items: ArrayLike,
        design: Design | str,
        *,
        drawn: ArrayLike | None = None,
        users: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        order: ArrayLike | None = None,
        targets: ArrayLike | None = None,
        candidates: str = "unseen",
        ahead: ArrayLike | None = None,
        rest: ArrayLike | None = None,
    ) -> RankCounts:
        """Counts from one-based sampled ranks, one per case, whatever tool made them.

        ``n_items``: number of candidates, target included (N), one for all or one per case. ``drawn``: negatives per case,
        when they differ (needed for ``Adaptive``, and for ``Top``, where 0 says that the rank is exact; with ``Sample``,
        sizes that do not depend on the rank). ``users`` groups cases by user (any ids) for resampling and pairing; without
        it every case is its own user. ``order`` and ``targets`` (j, T) for users with several targets; ranks are then among
        the non-relevant candidates plus the target. ``candidates``: ``"unseen"`` when a user's training items were left
        out, as nearly every library does; ``"all"`` when they were ranked too; or a name of your own for another pool.

        Where some candidates were compared with the target one by one and others sampled, ``ahead`` of the compared ones
        beat it, ``rest`` were left to sample from (``n_items`` = compared + rest + 1), and ``ranks`` is the rank among those
        drawn. ``drawn`` = 0 then says that nothing was drawn: with a rest, all that is known is R′ > ``ahead``.

        >>> print(RankCounts.from_ranks([1, 3], 1000, "uni9", ahead=[4, 0], rest=[900, 990]))
        2 cases of uni9 among 1,000 items (unseen)
        """
        design = parse_design(design)
        r = whole_numbers("ranks", ranks)
        M = len(r)
        if M == 0:
            raise ValueError("`ranks` is empty: there is nothing to estimate from.")
        N = per_case("n_items", n_items, M)
        refuse(N < 1, "n_items", N, "a positive number of candidates (target included)")
        refuse(N > MOST_ITEMS, "n_items", N, f"at most 2**50, that is {MOST_ITEMS:,}")
        hits = r - 1
        m = None if drawn is None else per_case("drawn", drawn, M)
        if ahead is None and rest is None:
            design = design.resolve(int(N.max()))
            m = design.check(m, hits, N)
        else:
            ahead, rest = _compared_part(ahead, rest, N)
            design = design.resolve(int(rest.max()) + 1)
            m = _check_rest(design, m, hits, rest)
        return cls.from_outcomes(
            m, hits, N, design, users=users, weights=weights, order=order, targets=targets, candidates=candidates,
            ahead=ahead, rest=rest,
        )  # fmt: skip

    @classmethod
    def from_outcomes(
        cls,
        drawn: ArrayLike,
        hits: ArrayLike,
        n_items: ArrayLike,
        design: Design,
        *,
        users: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        order: ArrayLike | None = None,
        targets: ArrayLike | None = None,
        candidates: str = "unseen",
        ahead: ArrayLike | None = None,
        rest: ArrayLike | None = None,
    ) -> RankCounts:
        """Counts from outcomes that are known to be right.

        ``ahead`` of the candidates that were compared one by one beat the target, and ``rest`` were left to draw from
        (``None``: none was compared, all are left). ``drawn`` and ``hits`` as the design gives them: ``ALL`` where every one
        of the rest was compared; ``NOTHING`` where none of them was.
        """
        m, x = np.asarray(drawn, dtype=np.int64), np.asarray(hits, dtype=np.int64)
        M = len(x)
        if not M:
            raise ValueError("`hits` is empty: there is nothing to estimate from.")
        N = per_case("n_items", n_items, M)
        w = constant(1.0, M) if weights is None else check_weights(weights, M)
        ids = None if users is None else np.asarray(users)
        if ids is not None and len(ids) != M:
            raise ValueError(f"`users` has {len(ids)} entries for {M} cases: give one per case.")
        j = constant(1, M) if order is None else per_case("order", order, M)
        T = constant(1, M) if targets is None else per_case("targets", targets, M)
        if order is None and (T > 1).any():
            raise ValueError("`order` is missing: with several targets per user every case needs its place among them.")
        refuse((j < 1) | (j > T), "order", j, "a place in 1..targets")
        a = constant(0, M) if ahead is None else np.asarray(ahead, dtype=np.int64)
        left = None if rest is None else np.asarray(rest, dtype=np.int64)
        chunks = [slice(first, min(first + _CHUNK, M)) for first in range(0, M, _CHUNK)]
        # a case of weight zero says nothing, and a pool of such cases has no mean size
        some = [slice(None) if w[part].all() else w[part] > 0 for part in chunks]
        pools = _distinct_bins(N[part][on] for part, on in zip(chunks, some, strict=True))
        rests = (
            pools if left is None else _distinct_bins(left[part][on] + 1 for part, on in zip(chunks, some, strict=True))
        )
        level = _level(_FINEST, pools, rests)
        known, cells = _StringBlocks(), list[tuple[Any, ...]]()
        for part, on in zip(chunks, some, strict=True):
            block = user_blocks(np.arange(part.start, part.stop) if ids is None else ids[part], known)
            over = N[part] - 1 if left is None else left[part]
            if w[part].any():
                ints = (each[on] for each in (block, a[part], over, m[part], x[part], N[part], j[part], T[part]))
                cells.append(_cells(design, level, left is None, w[part][on], *ints))
            if sum(len(keys) for keys, *_ in cells) > 2 * _CHUNK:
                cells = [_joined(cells)]
        return replace(cls(design, level, *_joined(cells)), candidates=candidates)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        design: Design | str,
        n_items: ArrayLike | None = None,
        *,
        rank: str = "rank",
        user: str | None = None,
        drawn: str | None = None,
        weight: str | None = None,
        candidates: str = "unseen",
    ) -> RankCounts:
        """Counts from a pandas, polars or Arrow frame with one row per case.

        Columns are found by name: ``rank``, ``user_id`` (or ``user``, ``userID``, ``query_id``, ``q_id``, ``qid``),
        ``n_items`` when not given as a number, and, where asked for, ``drawn`` and ``weight``. ``candidates`` as in
        :meth:`from_ranks`.
        """
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        names = list(table.columns)

        def column(name: str) -> Any:
            if name not in names:
                raise ValueError(f"the frame has no column {name!r}: it has {', '.join(map(repr, names))}.")
            return table[name].to_numpy()

        if user is None:
            user = find_column(names, "user")
        if n_items is None:
            n_items = column("n_items")
        if drawn is None and not parse_design(design).plain:
            drawn = "drawn"
        return cls.from_ranks(
            column(rank),
            n_items,
            design,
            drawn=None if drawn is None else column(drawn),
            users=None if user is None else column(user),
            weights=None if weight is None else column(weight),
            candidates=candidates,
        )

    # ---------------------------------------------------------------------------------------------- algebra

    def __add__(self, other: RankCounts) -> RankCounts:
        if not isinstance(other, RankCounts):
            return NotImplemented
        if self.design != other.design:
            raise ValueError(
                f"cannot add counts of '{self.design}' to counts of '{other.design}': "
                "outcomes of different designs follow different laws; fit each on its own."
            )
        if self.candidates != other.candidates:
            raise ValueError(
                f"cannot add counts among candidates '{self.candidates}' to counts among candidates '{other.candidates}': "
                "ranks among different candidates follow different laws; fit each on its own."
            )
        level = min(self.level, other.level)
        keys = np.concatenate([self._keys_at(level), other._keys_at(level)])
        sums = tuple(np.concatenate([getattr(self, name), getattr(other, name)]) for name in _SUMS)
        return self._holding(*_grouped(keys.T, sums), level=level)._coarsened()

    def __radd__(self, other: object) -> RankCounts:
        """So that ``sum(list_of_counts)`` works."""
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RankCounts):
            return NotImplemented
        return (
            self.design == other.design
            and self.candidates == other.candidates
            and self.level == other.level
            and self.keys.shape == other.keys.shape
            and bool((self.keys == other.keys).all())
            and all(
                np.allclose(getattr(self, name), getattr(other, name), rtol=1e-9, atol=1e-12, equal_nan=True)
                for name in _SUMS
            )
        )

    __hash__ = None  # type: ignore[assignment]  # equality is up to rounding of weighted sums

    def __len__(self) -> int:
        return int(self.cases.sum())

    def __str__(self) -> str:
        low, high = self.pool_range
        items = f"{low:,.0f}" if round(low) == round(high) else f"{low:,.0f}-{high:,.0f}"
        return f"{len(self):,} case{'s' * (len(self) != 1)} of {self.design} among {items} items ({self.candidates})"

    def __repr__(self) -> str:
        return f"<RankCounts: {self}>"

    # ---------------------------------------------------------------------------------------------- looking

    @property
    def items_scored(self) -> int:
        """How many negatives were compared with a target, over all cases."""
        return int(self.scored.sum())

    @property
    def effective_cases(self) -> float:
        """Kish's number of equally weighted cases that vary as much, (Σw)²/Σw²: the number of cases when weights are equal.

        Weights are taken as equal within a cell, so it may be a little high.
        """
        return float(self.weight.sum()) ** 2 / float((self.weight**2 / self.cases).sum())

    @property
    def n_items(self) -> float:
        """Mean number of candidates per case."""
        return float(self.pool_weight.sum() / self.weight.sum())

    @property
    def pool_range(self) -> tuple[float, float]:
        """Smallest and largest number of candidates (means of the outermost bins)."""
        sizes = self.pools[0]
        return float(sizes.min()), float(sizes.max())

    @property
    def varying_pool(self) -> bool:
        """Whether cases differ in their number of candidates."""
        low, high = self.pool_range
        return high - low > 1e-6

    @property
    def several_targets(self) -> bool:
        """Whether any user has more than one target."""
        return bool((self.column("targets") > 1).any())

    @property
    def sizes(self) -> IntArray:
        """The distinct numbers of negatives drawn (``0``: none, because all were compared one by one)."""
        return np.unique(self.column("drawn"))

    @property
    def all_compared(self) -> NDArray[np.bool_]:
        """Of every cell, whether all candidates were compared: nothing is left to sample from, and the rank is known."""
        return np.asarray(self.column("rest") == 0)

    @property
    def has_compared_part(self) -> bool:
        """Whether in some cases a part of the candidates was compared one by one and the rest was not."""
        return bool((self.compared_weight > 0).any())

    @property
    def above(self) -> IntArray:
        """Of every cell, how many items were seen to beat the target: R′ − 1 where all were compared."""
        return self.column("ahead") + self.column("hits")

    @property
    def outcomes(self) -> IntArray:
        """Of every cell, (drawn, hits) as laws of designs take them: ``ALL`` and R′ − 1 where all were compared."""
        return np.stack([np.where(self.all_compared, ALL, self.column("drawn")), self.above], axis=1)

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        return unique_rows(self.keys[:, -2:])

    @cached_property
    def groups(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The distinct (j, T), and the weight of the cases of each."""
        pairs, _ = self._pairs
        return pairs[:, 0], pairs[:, 1], _sum_by(self.group_of, self.weight, len(pairs))

    @property
    def group_of(self) -> IntArray:
        """For each cell of the counts, its place in :attr:`groups`."""
        return self._pairs[1]

    @cached_property
    def strata(self) -> IntArray:
        """For each (j, T) of :attr:`groups`, the row of :meth:`tables` it is in.

        Up to 64 groups have a row each; more are put together by (⌊log2 j · 2^l⌋, ⌊log2 T · 2^l⌋) at the finest level l that
        leaves at most 64: neighbouring (j, T) share a law of R′, and each keeps its own gain.
        """
        order, targets, _ = self.groups
        if len(order) <= MAX_STRATA:
            return np.arange(len(order))
        pairs = np.stack([_pool_key(order), _pool_key(targets)], axis=1)
        while len(unique_rows(pairs)[0]) > MAX_STRATA:
            pairs = pairs >> 1
        return unique_rows(pairs)[1]

    @property
    def users_weight(self) -> float:
        """Σ weight / T: what a sum over cases is divided by to become a mean over users."""
        return float((self.weight / self.column("targets")).sum())

    @property
    def auc(self) -> float:
        """AUC, straight from the counts: unbiased for any sample and any pool sizes."""
        unknown = np.isnan(self.auc_weight)
        if unknown.any():
            raise ValueError(
                f"AUC is not known: of {int(self.cases[unknown].sum()):,} cases nothing of the rest was drawn; draw from it."
            )
        return float((self.auc_weight / self.column("targets")).sum() / self.users_weight)

    def sampled_ranks(self) -> tuple[IntArray, FloatArray]:
        """Sampled ranks r and the weight of each, over all cells."""
        ranks, inverse = np.unique(self.above + 1, return_inverse=True)
        return ranks, _sum_by(inverse, self.weight, len(ranks))

    def tables(self, pools: IntArray | None = None, strata: IntArray | None = None) -> list[PoolTable]:
        """Outcome tables, one per bin of pool sizes.

        ``pools``: the bin of every cell; ``strata``: the row of every (j, T); None: as the counts have them.
        """
        if self.has_compared_part:
            raise ValueError(f"there are no tables of these counts: {NO_RANK_LAW}")
        rows = self.strata if strata is None else strata
        bins = self.pools[1] if pools is None else pools
        stratum, seen = rows[self.group_of], self.outcomes
        out = []
        for each in np.unique(bins):
            here = bins == each
            outcomes, column = unique_rows(seen[here])
            weight = np.zeros((int(rows.max()) + 1, len(outcomes)))
            np.add.at(weight, (stratum[here], column), self.weight[here])
            N = self.pool_weight[here].sum() / self.weight[here].sum()
            out.append(PoolTable(float(N), outcomes[:, 0], outcomes[:, 1], weight))
        return out

    def resample(self, rng: np.random.Generator | int | None = None) -> RankCounts:
        """Counts of as many user blocks drawn with replacement: one bootstrap sample, no scoring needed.

        With fewer than 256 users a block is a user; with more, a random group of them, which leaves the bootstrap valid
        (255 degrees of freedom) and the counts small.
        """
        generator = np.random.default_rng(rng)
        blocks, inverse = np.unique(self.column("block"), return_inverse=True)
        times = generator.multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)))[inverse]
        kept = times > 0
        return self._holding(self.keys[kept], *((getattr(self, name)[kept] * times[kept]) for name in _SUMS))

    def at_ranks(self, ranks: IntArray, share: FloatArray) -> RankCounts:
        """The same cases put at the given ranks (one per cell) as if these were known, with a share of their weight."""
        keys = self.keys.copy()
        keys[:, 2:6] = 0
        keys[:, 2] = ranks - 1
        weights = (self.weight * share, self.pool_weight * share, self.auc_weight * share)
        sums = (self.cases, self.scored, *weights, np.zeros(len(keys)))
        kept = share > 0  # a cell without weight has no mean pool
        return self._holding(*_grouped(keys[kept].T, [each[kept] for each in sums]))

    def with_mean_pool(self) -> RankCounts:
        """The same counts as if every case had the mean number of candidates (kr20's way)."""
        N = self.n_items
        keys = self.keys.copy()
        left = np.where(self.all_compared, 0.0, N - 1 - self.compared_weight / self.weight)
        for column, size in ((1, np.full(len(keys), N)), (3, left + 1)):
            keys[:, column] = _pool_key(np.round(size)) >> (_FINEST - self.level)
        sums = (self.cases, self.scored, self.weight, self.weight * N, self.auc_weight, self.compared_weight)
        return self._holding(*_grouped(keys.T, sums))

    def with_like_samples(self, width: float) -> RankCounts:
        """Return the counts at the mean number of candidates, samples of a like share of the candidates made equal.

        What hits say of a rank that is small beside N depends on the share drawn, m/(N − 1). Every case keeps its hits and,
        but for ``width`` of its logarithm, its share.
        """
        N, m = self.n_items, self.column("drawn")
        share = m / np.maximum(self.pool_weight / self.weight - 1, 1.0)
        bins = np.round(np.log(np.maximum(share, 1e-12)) / width).astype(np.int64)
        bins = np.unique(bins, return_inverse=True)[1].ravel()
        mean = (np.bincount(bins, self.weight * share) / np.bincount(bins, self.weight))[bins]
        keys = self.keys.copy()
        keys[:, 4] = np.where(m > 0, np.maximum(np.round(mean * (N - 1)), 1), m)
        keys[:, 5] = np.minimum(keys[:, 5], keys[:, 4])
        sums = tuple(getattr(self, name) for name in _SUMS)
        return self._holding(*_grouped(keys.T, sums)).with_mean_pool()

    def select(self, blocks: ArrayLike) -> RankCounts:
        """The counts of the given user blocks (0..255) only."""
        kept = np.isin(self.column("block"), np.asarray(blocks))
        if not kept.any():
            raise ValueError("`blocks` holds no case of these counts: there is nothing left to estimate from.")
        return self._where(kept)

    def known(self) -> tuple[RankCounts | None, RankCounts | None]:
        """The cases whose rank is known, because all candidates were compared, and the others (``None``: no such case)."""
        exact = self.all_compared
        return self._where(exact) if exact.any() else None, self._where(~exact) if not exact.all() else None

    def plot(self) -> Any:
        """An Altair chart of what was seen: sampled ranks, or the sizes of the samples. Needs the extra ``report``."""
        return import_module("fullrank.report.charts").plot_counts(self)

    def _repr_html_(self) -> str:
        # by name: the stage above shows what this one makes, and this one does not depend on it
        return str(import_module("fullrank.report.notebook").counts_html(self))

    # ---------------------------------------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to ``path`` atomically: readers see the old file or the whole new one, never a part."""
        arrays = {"keys": self.keys, **{name: getattr(self, name) for name in _SUMS}}
        header = {
            "format": _MAGIC,
            "version": _VERSION,
            "design": str(self.design),
            "candidates": self.candidates,
            "level": self.level,
            "sha256": _digest(arrays),
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
        write_atomically(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RankCounts:
        """Read counts written by :meth:`save`; anything else, or a damaged file, is refused. Nothing is unpickled."""
        path = Path(path)
        try:
            with np.load(path, allow_pickle=False) as file:
                if "header" not in file.files:
                    raise ValueError("it has no fullrank header")
                header = json.loads(bytes(file["header"].tobytes()).decode())
                if header.get("format") != _MAGIC:
                    raise ValueError(f"its format is {header.get('format')!r}")
                if header.get("version") not in range(1, _VERSION + 1):
                    raise ValueError(f"its version is {header.get('version')}, this fullrank reads 1 to {_VERSION}")
                arrays = {name: file[name] for name in ("keys", *(_SUMS if header["version"] > 2 else _SUMS[:5]))}
                if _digest(arrays) != header["sha256"]:
                    raise ValueError("its checksum does not match: the file is damaged")
                design = parse_design(header["design"])
                level = int(header["level"])
                if header["version"] < 3:
                    arrays = _of_version_2(arrays)
                counts = cls(design, level, arrays["keys"], *(arrays[name] for name in _SUMS))
                named = _candidates_of_version_1(counts) if header["version"] == 1 else header["candidates"]
                return replace(counts, candidates=named)
        except FileNotFoundError:
            raise
        except Exception as error:  # a flipped bit can surface anywhere: zipfile, zlib, tokenize, json, numpy
            raise ValueError(f"{str(path)!r} is not a file of rank counts, or is damaged: {error}.") from None

    # ---------------------------------------------------------------------------------------------- inside

    def _where(self, kept: NDArray[np.bool_]) -> RankCounts:
        return self._holding(self.keys[kept], *(getattr(self, name)[kept] for name in _SUMS))

    def _holding(self, keys: IntArray, *sums: NDArray[Any], level: int | None = None) -> RankCounts:
        """Counts of other cells that are otherwise what these are."""
        changed: dict[str, Any] = {"keys": keys, **dict(zip(_SUMS, sums, strict=True))}
        return replace(self, level=self.level if level is None else level, **changed)

    def column(self, name: str) -> IntArray:
        """One of the keys (block, pool, ahead, rest, drawn, hits, order, targets) of every cell."""
        return self.keys[:, _KEYS.index(name)]

    @property
    def pools(self) -> tuple[FloatArray, IntArray]:
        """Mean number of candidates of each pool-size bin, and the bin of every cell."""
        _, inverse = np.unique(self.column("pool"), return_inverse=True)
        inverse = inverse.ravel()
        return np.bincount(inverse, self.pool_weight) / np.bincount(inverse, self.weight), inverse

    def _keys_at(self, level: int) -> IntArray:
        if level == self.level:
            return self.keys
        keys = self.keys.copy()
        for column in (1, 3):  # a rest, however small, stays one
            keys[:, column] >>= self.level - level
        return keys

    def _coarsened(self) -> RankCounts:
        """The same counts, their pools and rests in at most 64 bins each."""
        level = _level(self.level, _codes(self.column("pool"))[0], _codes(self.column("rest"))[0])
        if level == self.level:
            return self
        sums = tuple(getattr(self, name) for name in _SUMS)
        return self._holding(*_grouped(self._keys_at(level).T, sums), level=level)


def check_candidates(candidates: object) -> str:
    """Return the name of candidates, or refuse what is no name."""
    plain = candidates.strip().lower() if isinstance(candidates, str) else ""
    if not isinstance(candidates, str) or not plain or (plain in ("unseen", "all") and plain != candidates):
        raise ValueError(  # 'ALL' too: it would be a name of one's own, and mean something else
            f"`candidates` must be 'unseen', 'all' or a name of your own for another pool, got {candidates!r}."
        )
    return candidates


#: Why estimators of P(R) refuse counts with a compared part.
NO_RANK_LAW = (
    "a part of the candidates was compared one by one and the rest sampled, so that no law of the rank alone holds: sample "
    "from all candidates alike, or compare them all."
)


def _compared_part(ahead: ArrayLike | None, rest: ArrayLike | None, N: IntArray) -> tuple[IntArray, IntArray]:
    """``ahead`` and ``rest`` of every case, checked."""
    if ahead is None or rest is None:
        given, missing = ("rest", "ahead") if ahead is None else ("ahead", "rest")
        raise ValueError(f"`{missing}` is missing: `{given}` alone does not say how much was compared.")
    a, left = per_case("ahead", ahead, len(N)), per_case("rest", rest, len(N))
    refuse((left < 0) | (left > N - 1), "rest", left, "between 0 and n_items − 1")
    refuse((a < 0) | (a > N - 1 - left), "ahead", a, "between 0 and the number compared, n_items − 1 − rest")
    return a, left


def _check_rest(design: Design, m: IntArray | None, hits: IntArray, left: IntArray) -> IntArray:
    """``drawn`` of every case, as designs give it, after the design has checked those that it drew from."""
    nothing = left == 0 if m is None else (left == 0) | (m == 0)
    refuse(nothing & (hits != 0), "ranks", hits + 1, "1 where nothing was drawn")
    if m is not None:
        refuse((left == 0) & (m != 0), "drawn", m, "0 where `rest` is 0")
    drawn = np.where(left == 0, ALL, NOTHING)
    if not nothing.all():
        on = ~nothing
        drawn[on] = design.check(None if m is None else m[on], hits[on], left[on] + 1)
    return drawn


def _auc(design: Design, a: IntArray, left: IntArray, m: IntArray, x: IntArray, N: IntArray) -> FloatArray:
    """1 − (a + B)/(N−1), with the design's unbiased estimate of B; NaN where nothing says what B is."""
    B = np.where(left == 0, 0.0, np.nan)
    on = (left > 0) & (m != NOTHING)
    if on.any():
        B[on] = left[on] * (1.0 - design.auc(m[on], x[on], left[on] + 1))
    return np.asarray(1.0 - (a + B) / np.maximum(N - 1, 1))


def _of_version_2(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of files before a part could be compared: ``drawn`` = 0 said that every candidate was."""
    block, pool, drawn, hits, order, targets = arrays["keys"].T
    known, none = drawn == ALL, np.zeros_like(drawn)
    keys = [
        block,
        pool,
        np.where(known, hits, 0),
        np.where(known, 0, pool),
        drawn,
        np.where(known, 0, hits),
        order,
        targets,
    ]
    sums = [arrays[name] for name in _SUMS[:5]]
    grouped = _grouped(keys, [*sums, none.astype(np.float64)])
    return dict(zip(("keys", *_SUMS), grouped, strict=True))


def _candidates_of_version_1(counts: RankCounts) -> str:
    """What old files meant: ``unseen`` where pools vary by more than the number of targets does, else ``all``."""
    low, high = counts.pool_range
    return "unseen" if high - low > float(counts.column("targets").max()) - 0.5 else "all"


class _StringBlocks(dict[str, int]):
    """The block of each name, hashed when it is first asked for."""

    def __missing__(self, name: str) -> int:
        block = self[name] = hashlib.blake2b(name.encode(), digest_size=1).digest()[0]
        return block


def user_blocks(users: ArrayLike, known: _StringBlocks | None = None) -> IntArray:
    """A block in 0..255 per user id, by a hash that does not change between processes, machines or models.

    ``known``: names that were hashed before, to which these are added.
    """
    ids = np.asarray(users)
    if ids.dtype.kind in "iub":
        with np.errstate(over="ignore"):
            z = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)  # splitmix64
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
        return np.asarray(z % np.uint64(BLOCKS), dtype=np.int64)
    block_of = _StringBlocks() if known is None else known
    return np.fromiter(map(block_of.__getitem__, ids.astype(str).tolist()), np.int64, len(ids))


def _grouped(columns: Sequence[IntArray] | IntArray, sums: Sequence[NDArray[Any]]) -> tuple[Any, ...]:
    """Cases with equal keys, summed: the keys, one row per cell and in a fixed order, and the sums."""
    block, pool, ahead, rest, *others = columns
    # sorted by pool, then rest, known ranks first; a rest of the whole pool, the usual one, takes no room in that
    less = rest - pool
    known = rest == 0
    if known.any():
        less = np.where(known, less.min(where=~known, initial=0) - 1, less)
    first, inverse = _distinct([block, pool, less, ahead, *others])
    keys = np.stack([column[first] for column in columns], axis=1)
    return (keys, *(np.bincount(inverse, each, len(keys)).astype(each.dtype, copy=False) for each in sums))


def _cells(
    design: Design, level: int, nothing_compared: bool, w: FloatArray, block: IntArray, a: IntArray, left: IntArray,
    m: IntArray, x: IntArray, N: IntArray, j: IntArray, T: IntArray,
) -> tuple[Any, ...]:  # fmt: skip
    """Cases as cells: their keys and sums."""
    auc = design.auc(m, x, N) if nothing_compared else _auc(design, a, left, m, x, N)
    every = m == ALL  # then nothing is left
    a, left, x = np.where(every, a + x, a), np.where(every, 0, left), np.where(every, 0, x)
    m = np.where(m == NOTHING, 0, m)
    compared = N - 1 - left
    partly = np.where(left > 0, w * compared, 0.0)
    coarser = _FINEST - level
    pool = _bins(N) >> coarser
    rest = np.where(every, 0, pool) if nothing_compared else _bins(left + 1) >> coarser
    sums = (np.ones(len(w), dtype=np.int64), compared + m, w, w * N, w * auc, partly)
    return _grouped([block, pool, a, rest, m, x, j, T], sums)


def _joined(cells: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Several lots of cells as one."""
    if len(cells) == 1:
        return cells[0]
    keys, *sums = (np.concatenate(each) for each in zip(*cells, strict=True))
    return _grouped(keys.T, sums)


def _distinct_bins(parts: Iterable[IntArray]) -> IntArray:
    """The distinct finest bins of sizes that come in parts."""
    found = np.empty(0, dtype=np.int64)
    for part in parts:
        if len(part):
            found = np.union1d(found, _codes(part)[0])
    return np.unique(_pool_key(found))


def unique_rows(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct rows, sorted, and where each row went: np.unique(axis=0), without comparing rows if ranges allow."""
    first, inverse = _distinct(keys.T)
    return keys[first], inverse


def _distinct(columns: Sequence[IntArray] | IntArray) -> tuple[IntArray, IntArray]:
    """Where the distinct rows of a table are, in sorted order, and which of them each row is.

    Columns are packed into one integer (mixed radix), as they are where their ranges leave room, else as codes.
    """
    ranges = map(_range, columns)
    packed, room = _packed([(column - low if high > low else column, high - low + 1) for column, low, high in ranges])
    if room >= 2.0**40:
        packed, room = _packed([(code, len(distinct)) for distinct, code in map(_codes, columns)])
    if room >= 2.0**62:
        _, first, inverse = np.unique(np.asarray(columns).T, axis=0, return_index=True, return_inverse=True)
        return first, inverse.ravel()
    distinct, inverse = _codes(packed)
    first = np.empty(len(distinct), dtype=np.int64)
    first[inverse] = np.arange(len(inverse))
    return first, inverse


def _range(column: IntArray) -> tuple[IntArray, int, int]:
    return column, int(column.min()), int(column.max())


def _packed(digits: Sequence[tuple[IntArray, int]]) -> tuple[IntArray, float]:
    """Numbers of mixed radix, and how many there could be."""
    packed, room = np.zeros(len(digits[0][0]), dtype=np.int64), 1.0
    for digit, radix in digits:
        if radix > 1:
            packed, room = packed * radix + digit, room * radix
    return packed, room


def _codes(values: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values, sorted, and each value's place among them: np.unique, by a table or one plain sort if it can."""
    n, low = len(values), int(values.min())
    span = int(values.max()) - low + 1
    if span == 1:
        return values[:1], np.zeros(n, dtype=np.int64)
    if span <= 4 * n:
        present = np.zeros(span, dtype=bool)
        present[values - low] = True
        place = np.cumsum(present, dtype=np.int32)
        return np.flatnonzero(present) + low, place[values - low].astype(np.int64) - 1
    bits = n.bit_length()
    if span.bit_length() + bits > 63:
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct, inverse.ravel()
    both = np.sort((values - low) << bits | np.arange(n))  # each value with its place: sorting it is sorting both
    ordered = both >> bits
    fresh = np.diff(ordered, prepend=-1) > 0
    inverse = np.empty(n, dtype=np.int64)
    inverse[both & ((1 << bits) - 1)] = np.cumsum(fresh) - 1
    return ordered[fresh] + low, inverse


def _sum_by(which: IntArray, values: FloatArray, size: int) -> FloatArray:
    return np.bincount(which, values, size).astype(np.float64)


def _bins(sizes: IntArray) -> IntArray:
    """The finest bin of every size; few sizes are many cases, so there is one logarithm for each."""
    distinct, which = _codes(sizes)
    return _pool_key(distinct)[which]


def _level(level: int, pools: IntArray, rests: IntArray) -> int:
    """The finest level with at most 64 bins; a function of the sets of pools and rests alone, so addition commutes."""
    rests = rests[rests > 0]
    while max(len(pools), len(rests)) > MAX_POOLS:
        level, pools, rests = level - 1, np.unique(pools >> 1), np.unique(rests >> 1)
    return level


def _pool_key(N: NDArray[Any]) -> IntArray:
    return np.asarray(np.floor(np.log2(np.maximum(N, 1).astype(np.float64)) * 2.0**_FINEST), dtype=np.int64)


def _digest(arrays: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype.str}{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
