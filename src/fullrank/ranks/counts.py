"""RankCounts: how often each outcome was seen. The sufficient statistic: small, additive, saved without pickle.

Counts are keyed by (block of users, pool-size bin, outcome, order j, targets T):

- the *block* is a hash of the user into 256, the same for every model, so that models can be compared in pairs, users
  clustered and everything resampled without scoring again;
- the *pool* is the number N_u of candidates of the case, kept in at most 64 geometric bins that grow coarser only when
  there are more (nested powers of two, so that adding counts never depends on the order);
- the *outcome* is (ahead, rest, drawn, hits): ``ahead`` of the candidates that were compared one by one beat the target,
  and of ``drawn`` among the ``rest`` others ``hits`` do. With B of the rest better than the target its rank among the
  non-relevant candidates is R′ = 1 + ahead + B. All were compared, so that R′ is known, where rest = 0. The rest is binned
  like the pool. Of a guide's order it is also kept how many of those ahead came late (``recent``), which tells how many
  more to expect; a rest that was compared after all stays a rest, with ``drawn`` = −1, because it tells what others hide;
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

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fullrank._archive import read_archive, write_archive
from fullrank._checks import plural
from fullrank._types import Array, BoolArray, FloatArray, IntArray
from fullrank.ranks import cells, checks
from fullrank.ranks.cells import BLOCKS, EVERY, KEYS, MAX_POOLS, SUMS, unique_rows, user_blocks
from fullrank.ranks.checks import MOST_ITEMS, check_candidates
from fullrank.ranks.design import ALL, Design, parse_design
from fullrank.ranks.groups import LEAD_BINS, Groups, PoolTable, lead_bins, strata_of, tables_of
from fullrank.ranks.laws import NOTHING

__all__ = [
    "BLOCKS", "LEAD_BINS", "MAX_POOLS", "MOST_ITEMS", "NOTHING", "NO_RANK_LAW", "Groups", "PoolTable", "RankCounts",
    "check_candidates", "unique_rows", "user_blocks",
]  # fmt: skip

_FORMAT, _VERSION = "fullrank.RankCounts", 5


class _Later:
    """A way to make counts that stands in a later stage, loaded when it is first asked for."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __get__(self, instance: Any, owner: type) -> Any:
        # by name: later stages build on this one, and this one does not depend on them
        return getattr(import_module(self.module), self.name)


@dataclass(frozen=True, eq=False, repr=False)
class RankCounts:
    """How often each outcome was seen under one design. Make it with :meth:`from_ranks`; add with ``+``."""

    design: Design
    level: int
    keys: IntArray  # one row per cell, columns as in KEYS, in the order of `grouped` and unique
    cases: IntArray
    scored: IntArray  # items compared with targets, in all
    weight: FloatArray
    pool_weight: FloatArray  # Σ weight · N_u
    auc_weight: FloatArray  # Σ weight · unbiased AUC of the case; NaN where nothing of the rest was drawn
    compared_weight: FloatArray  # Σ weight · candidates compared one by one, of cases that have a rest
    square_weight: FloatArray  # Σ weight²
    #: Among which items targets were ranked: "unseen" (a user's training items left out), "all", or a name of one's own.
    candidates: str = "unseen"
    #: How many users the cases are of, where ranks without their order were seen to be several of one user.
    n_users: int | None = None

    def __post_init__(self) -> None:
        check_candidates(self.candidates)

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
        recent: ArrayLike | None = None,
    ) -> RankCounts:
        """Counts from one-based sampled ranks, one per case, whatever tool made them.

        ``n_items``: number of candidates, target included (N), one for all or one per case. ``drawn``: negatives per case,
        when they differ (needed for ``Adaptive``, and for ``Top``, where 0 says that the rank is exact; with ``Sample``,
        sizes that do not depend on the rank). Sizes of a design that are shares of the items are shares of the largest
        ``n_items``; for parts to be added, write them as numbers, ``design.resolve(largest)``. ``users`` groups cases by
        user (any ids) for resampling and pairing; without it every case is its own user, numbered from 0, which does not
        tell the cases of parts that are added apart. ``order`` and ``targets`` (j, T) for users with several targets; ranks
        are then among the non-relevant candidates plus the target. Without them each rank is a case with one target,
        whatever its user, and metrics are means over cases, not over users. ``candidates``: ``"unseen"`` when a user's
        training items were left out, as nearly every library does; ``"all"`` when they were ranked too; or a name of your
        own for another pool.

        Where some candidates were compared with the target one by one and others sampled, ``ahead`` of the compared ones
        beat it, ``rest`` were left to sample from (``n_items`` = compared + rest + 1), and ``ranks`` is the rank among those
        drawn. ``drawn`` = 0 then says that nothing was drawn: with a rest, all that is known is R′ > ``ahead``. With
        ``Guided``, ``recent`` says how many of those ahead came after the first half of those compared (with ``deepest``,
        the first quarter); without it estimates are less certain.

        >>> print(RankCounts.from_ranks([1, 3], 1000, "uni9", ahead=[4, 0], rest=[900, 990]))
        2 cases of uni9 among 1,000 items (unseen)
        """
        *outcome, ahead, rest = checks.check_ranks(parse_design(design), ranks, n_items, drawn, ahead, rest)
        counts = cls.from_outcomes(
            *outcome, users=users, weights=weights, order=order, targets=targets, candidates=candidates, ahead=ahead,
            rest=rest, recent=recent,
        )  # fmt: skip
        if users is None or counts.several_targets:
            return counts
        found = cells.number_of_users(users)
        return counts if found == len(outcome[1]) else replace(counts, n_users=found)

    @classmethod
    def from_outcomes(
        cls,
        drawn: ArrayLike,
        hits: ArrayLike,
        n_items: ArrayLike,
        design: Design,
        *,
        candidates: str = "unseen",
        **about: ArrayLike | None,
    ) -> RankCounts:
        """Counts from outcomes that are known to be right.

        ``drawn`` and ``hits`` as the design gives them: ``ALL`` where every one of the rest was compared; ``NOTHING`` where
        none of them was. ``about`` the cases: any of ``users``, ``weights``, ``order``, ``targets``, ``ahead``, ``rest``
        (``None``: none was compared, all are left) and ``recent`` (``None``: they have no order), as in :meth:`from_ranks`.
        """
        return replace(cls(design, *cells.cells_of(drawn, hits, n_items, design, **about)), candidates=candidates)

    #: Counts from what other tools leave behind; see the functions of these names for what they take.
    from_frame = _Later("fullrank.reading.tables", "counts_from_frame")
    from_negatives = _Later("fullrank.reading.candidates", "counts_from_negatives")
    from_recbole = _Later("fullrank.reading.candidates", "counts_from_recbole")
    from_scores = _Later("fullrank.reading.candidates", "counts_from_scores")
    from_trec = _Later("fullrank.reading.candidates", "counts_from_trec")

    def __add__(self, other: RankCounts) -> RankCounts:
        if not isinstance(other, RankCounts):
            return NotImplemented
        for what, different, mine, its in (
            ("of", "outcomes of different designs", self.design, other.design),
            ("among candidates", "ranks among different candidates", self.candidates, other.candidates),
        ):
            if mine != its:
                hint = "fit each on its own"
                if isinstance(mine, Design) and type(mine) is type(its) and type(mine).resolve is not Design.resolve:
                    hint += ", or, if sizes are shares of the items, write them as numbers, the same for all"
                raise ValueError(
                    f"cannot add counts {what} '{mine}' to counts {what} '{its}': {different} follow different laws; {hint}."
                )
        one, two = (each._at(min(self.level, other.level)) for each in (self, other))
        sums = [np.concatenate(both) for both in zip(one._sums, two._sums, strict=True)]
        added = one._grouped(np.concatenate([one.keys, two.keys]), sums)
        if one.n_users is not None or two.n_users is not None:  # as if nobody were in both
            added = replace(
                added, n_users=sum(len(each) if each.n_users is None else each.n_users for each in (one, two))
            )
        bins = (each[cells.codes(each)[0]] for each in (added.column("pool"), added.column("rest")))
        return added._at(cells.finest_level(added.level, *bins))

    def __radd__(self, other: object) -> RankCounts:
        """Add to the 0 that ``sum(list_of_counts)`` begins with."""
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RankCounts):
            return NotImplemented
        if (self.design, self.candidates, self.level) != (other.design, other.candidates, other.level):
            return False
        pairs = zip(self._sums, other._sums, strict=True)
        return np.array_equal(self.keys, other.keys) and all(
            np.allclose(*both, rtol=1e-9, atol=1e-12, equal_nan=True) for both in pairs
        )

    __hash__ = None  # type: ignore[assignment]  # equality is up to rounding of weighted sums

    def __len__(self) -> int:
        return int(self.cases.sum())

    def __str__(self) -> str:
        low, high = self.pool_range
        items = f"{low:,.0f}" if round(low) == round(high) else f"{low:,.0f}-{high:,.0f}"
        which = f"{plural(len(self), 'case')}{self._of_users} of {self.design}{self._own_sizes}"
        return f"{which} among {items} item{'s' * (round(high) != 1)} ({self.candidates})"

    @property
    def _of_users(self) -> str:
        """Say how many users there are, where they are known to be fewer than the cases."""
        users = self.n_users
        if self.several_targets:
            pairs, inverse = unique_rows(self.keys[:, -2:])
            cases, first = cells.sum_by(inverse, self.cases.astype(np.float64)), pairs[:, 0] == 1
            firsts = dict(zip(pairs[first, 1].tolist(), cases[first].tolist(), strict=True))
            whole = all(number == firsts.get(T) for number, T in zip(cases.tolist(), pairs[:, 1].tolist(), strict=True))
            if whole and len(pairs) == sum(firsts):  # of every user all targets are here
                users = round(sum(firsts.values()))
        return "" if users is None or users >= len(self) else f" ({plural(users, 'user')})"

    @property
    def _own_sizes(self) -> str:
        """Say how many negatives there were, where cases have numbers of their own; repeats that collapse do not count."""
        if not self.design.plain or self.design.exhaustive:
            return ""
        drawn = self.column("drawn")[self.column("drawn") > 0]
        few, many = int(drawn.min(initial=MOST_ITEMS)), int(drawn.max(initial=0))
        usual = self.design.stages(round(self.n_items))[0]
        if not len(drawn) or (few >= 0.9 * usual and (not self.design.replace or few == many == usual)):
            return ""
        return f" ({few:,} to {many:,} negatives)" if few < many else f" ({few:,} negatives)"

    def __repr__(self) -> str:
        return f"<RankCounts: {self}>"

    @property
    def items_scored(self) -> int:
        """Return how many negatives were compared with a target, over all cases."""
        return int(self.scored.sum())

    @property
    def items_compared(self) -> int:
        """How many of them were compared one by one before the rest was sampled, weights taken as equal within a cell."""
        return int(np.round(self.compared_weight / self.weight * self.cases).sum())

    @property
    def effective_cases(self) -> float:
        """Kish's number of equally weighted cases, (Σw)²/Σw²."""
        return float(self.weight.sum()) ** 2 / float(self.square_weight.sum())

    @property
    def mean_weight(self) -> float:
        """Σw²/Σw, the weight of a case where they are equal: a sum of w · variance times this is one of w² · variance."""
        return float(self.square_weight.sum()) / float(self.weight.sum())

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
        """Return whether cases differ in their number of candidates."""
        low, high = self.pool_range
        return high - low > 1e-6

    @property
    def several_targets(self) -> bool:
        """Return whether any user has more than one target."""
        return bool((self.column("targets") > 1).any())

    @property
    def sizes(self) -> IntArray:
        """Return the distinct numbers of negatives drawn (``0``: none, because all were compared one by one)."""
        return np.unique(self.column("drawn"))

    @property
    def all_compared(self) -> BoolArray:
        """Of every cell, whether all candidates were compared, so that the rank is known."""
        return np.asarray((self.column("rest") == 0) | (self.column("drawn") == EVERY))

    @property
    def closed(self) -> BoolArray:
        """Of every cell, whether its cases are closed: so many of those compared beat the target that no more was asked."""
        return np.asarray(~self.all_compared & self.design.closed(self.column("ahead")))

    @property
    def closed_early(self) -> BoolArray:
        """Of every cell, whether its cases are closed or would be if they had not been kept open (``Guided.keep_open``)."""
        return np.asarray((self.column("rest") > 0) & self.design.closed(self.column("ahead")))

    @property
    def known_to(self) -> float:
        """Return the largest cut-off of metrics that can be known: closed cases lie beyond it, at an unknown rank."""
        offset = self.column("ahead") + self.column("order") - 1
        return float(offset[self.closed].min(initial=MOST_ITEMS))

    @property
    def leads(self) -> IntArray:
        """Of every cell, how many compared candidates are ahead of the ranks among the rest, of which its outcome speaks."""
        return np.where(self.column("rest") == 0, 0, self.column("ahead"))

    @property
    def has_compared_part(self) -> bool:
        """Return whether in some cases a part of the candidates was compared one by one and the rest was not."""
        return bool((self.compared_weight > 0).any())

    @property
    def above(self) -> IntArray:
        """Of every cell, how many items were seen to beat the target: R′ − 1 where all were compared."""
        return self.column("ahead") + self.column("hits")

    @property
    def outcomes(self) -> IntArray:
        """Of every cell, (drawn, hits) as laws of designs take them, of ranks past those that lead.

        ``ALL`` and the rank less one where all were compared, ``NOTHING`` where nothing of the rest was drawn.
        """
        drawn = self.column("drawn")
        size = np.where(self.all_compared, ALL, np.where(drawn == 0, NOTHING, drawn))
        return np.stack([size, self.above - self.leads], axis=1)

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        late = np.where(self.column("rest") == 0, 0, self.column("recent"))
        return unique_rows(np.column_stack([self.keys[:, -2:], self.leads, late]))

    @cached_property
    def groups(self) -> Groups:
        """Return the distinct (j, T), with what leads there, and the weight of the cases of each."""
        order, targets, ahead, _ = self.group_keys.T
        return Groups(order, targets, ahead, cells.sum_by(self.group_of, self.weight))

    @property
    def group_keys(self) -> IntArray:
        """Of each of :attr:`groups`, (j, T, ahead, recent)."""
        return self._pairs[0]

    @property
    def lead_bins(self) -> IntArray:
        """Of each of :attr:`groups`, the bin of those ahead: how many there are, and how many came late."""
        return lead_bins(*self.group_keys.T[2:])

    @property
    def group_of(self) -> IntArray:
        """For each cell of the counts, its place in :attr:`groups`."""
        return self._pairs[1]

    @cached_property
    def strata(self) -> IntArray:
        """For each (j, T) of :attr:`groups`, the row of :meth:`tables` it is in."""
        if self.lead_bins.any():
            return np.unique(self.lead_bins, return_inverse=True)[1]
        return strata_of(self.groups.order, self.groups.targets)

    @property
    def users_weight(self) -> float:
        """Σ weight / T: what a sum over cases is divided by to become a mean over users."""
        return float((self.weight / self.column("targets")).sum())

    @property
    def auc(self) -> float:
        """AUC, straight from the counts: unbiased for any sample and any pool sizes.

        Closed cases of which nothing was drawn count as those closed ones do that were drawn from, a random part of them.
        """
        unknown, closed = np.isnan(self.auc_weight), self.closed_early
        users, drawn = self.weight / self.column("targets"), closed & ~unknown
        if (unknown & ~closed).any() or (unknown.any() and not drawn.any()):
            cases = int(self.cases[unknown].sum())
            how = ", in a share of them at least (`keep_open`)" if self.design.compares else ""
            raise ValueError(
                f"AUC is unknown: in {cases:,} case{'s' * (cases != 1)} no negative was sampled from the rest; sample it "
                f"too{how}."
            )
        each = np.where(unknown, 0.0, self.auc_weight / self.column("targets"))
        if unknown.any():
            each[drawn] *= users[closed].sum() / users[drawn].sum()
        return float(each.sum() / self.users_weight)

    def sampled_ranks(self) -> tuple[IntArray, FloatArray]:
        """Sampled ranks r and the weight of each, over all cells."""
        ranks, inverse = np.unique(self.above + 1, return_inverse=True)
        return ranks, cells.sum_by(inverse, self.weight)

    def tables(self, pools: IntArray | None = None, strata: IntArray | None = None) -> list[PoolTable]:
        """Outcome tables, one per bin of pool sizes.

        ``pools``: the bin of every cell; ``strata``: the row of every (j, T); None: as the counts have them.
        """
        if self.has_compared_part:
            raise ValueError(f"there are no tables of these counts: {NO_RANK_LAW}")
        return tables_of(self, self.pools[1] if pools is None else pools, self.strata if strata is None else strata)

    def resample(self, rng: np.random.Generator | int | None = None) -> RankCounts:
        """Counts of as many user blocks drawn with replacement: one bootstrap sample, no scoring needed.

        With fewer than 256 users a block is a user; with more, a random group of them, which leaves the bootstrap valid
        (255 degrees of freedom) and the counts small.
        """
        blocks, inverse = np.unique(self.column("block"), return_inverse=True)
        times = np.random.default_rng(rng).multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)))[inverse]
        kept = times > 0
        return self._holding(self.keys[kept], [each[kept] * times[kept] for each in self._sums])

    def at_ranks(self, ranks: IntArray, share: FloatArray) -> RankCounts:
        """The same cases put at the given ranks (one per cell) as if these were known, with a share of their weight."""
        keys = self._keys_with(ahead=ranks - 1, rest=0, drawn=0, hits=0, recent=0)
        weights = (self.weight * share, self.pool_weight * share, self.auc_weight * share)
        sums = (self.cases, self.scored, *weights, np.zeros(len(keys)), self.square_weight * share**2)
        kept = share > 0  # a cell without weight has no mean pool
        return self._grouped(keys[kept], [each[kept] for each in sums])

    def with_mean_pool(self) -> RankCounts:
        """Return the same counts as if every case had the mean number of candidates (kr20's way)."""
        N, coarser = self.n_items, cells.FINEST - self.level
        left = np.where(self.all_compared, 0.0, N - 1 - self.compared_weight / self.weight)
        pool, rest = (cells.pool_key(np.round(size)) >> coarser for size in (N, left + 1))
        return replace(self, pool_weight=self.weight * N).with_keys(pool=pool, rest=rest)

    def with_keys(self, **columns: ArrayLike) -> RankCounts:
        """Return the counts with other values of some keys (see :meth:`column`); cells that become equal are one."""
        return self._grouped(self._keys_with(**columns), self._sums)

    def known(self) -> tuple[RankCounts | None, RankCounts | None]:
        """The cases whose rank is known, because all candidates were compared, and the others (``None``: no such case)."""
        return self._split(self.all_compared)

    def sampled_part(self) -> tuple[RankCounts | None, RankCounts | None]:
        """Return the cases of which nothing is to be estimated, and the others as if their rest were all there is.

        The first are closed, or without a rest. The others rank their target, B + 1, among the rest; those compared lead.
        """
        done, others = self._split((self.column("rest") == 0) | self.closed)
        if others is None:
            return done, None
        keys, size = others._keys_with(pool=others.column("rest")), others.pool_weight - others.compared_weight
        return done, replace(others, keys=keys, pool_weight=size, compared_weight=np.zeros(len(keys)))

    def drawn_from(self) -> tuple[RankCounts | None, RankCounts | None]:
        """Of cases whose rank is not known: those of which no sample speaks, and the others, as if the rest were all."""
        silent, drawn = self._split(self.closed | (self.column("drawn") == 0))
        return silent, drawn if drawn is None or not drawn.has_compared_part else drawn.sampled_part()[1]

    def _split(self, first: BoolArray) -> tuple[RankCounts | None, RankCounts | None]:
        return self._where(first), self._where(~first)

    def _repr_html_(self) -> str:
        # by name: the stage above shows what this one makes, and this one does not depend on it
        return str(import_module("fullrank.report.notebook").counts_html(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to ``path`` atomically: readers see the old file or the whole new one, never a part."""
        header = {"format": _FORMAT, "version": _VERSION, "design": str(self.design), "candidates": self.candidates}
        header |= {} if self.n_users is None else {"n_users": self.n_users}
        arrays = {"keys": self.keys, **dict(zip(SUMS, self._sums, strict=True))}
        write_archive(path, {**header, "level": self.level}, arrays, compress=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RankCounts:
        """Read counts written by :meth:`save`; anything else, or a damaged file, is refused. Nothing is unpickled."""
        what = "a file of rank counts"
        header, arrays = read_archive(path, _FORMAT, _VERSION, what)
        try:
            keys, *sums = cells.from_version(header["version"], arrays)
            counts = cls(parse_design(header["design"]), int(header["level"]), keys, *sums)
            if header["version"] > 1:
                users = int(header["n_users"]) if "n_users" in header else None
                return replace(counts, candidates=header["candidates"], n_users=users)
            # files that did not say: "unseen" where pools vary by more than the number of targets does
            low, high = counts.pool_range
            varies = high - low > float(counts.column("targets").max()) - 0.5
            return replace(counts, candidates="unseen" if varies else "all")
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"{os.fspath(path)!r} is not {what}, or is damaged: {str(error).rstrip('.')}.") from None

    @property
    def _sums(self) -> list[Array]:
        return [getattr(self, name) for name in SUMS]

    def _where(self, kept: BoolArray) -> RankCounts | None:
        return self._holding(self.keys[kept], [each[kept] for each in self._sums]) if kept.any() else None

    def _grouped(self, keys: IntArray, sums: Sequence[Array]) -> RankCounts:
        """Return counts of cells with other keys, equal ones put together."""
        columns, *sums = cells.grouped(keys.T, sums)
        return self._holding(np.ascontiguousarray(columns.T), sums)

    def _holding(self, keys: IntArray, sums: Sequence[Array]) -> RankCounts:
        """Return counts of other cells that are otherwise what these are."""
        changed: dict[str, Any] = dict(zip(SUMS, sums, strict=True))
        return replace(self, keys=keys, **changed)

    def column(self, name: str) -> IntArray:
        """One of the keys (block, pool, ahead, rest, drawn, hits, recent, order, targets) of every cell."""
        return self.keys[:, KEYS.index(name)]

    @property
    def pools(self) -> tuple[FloatArray, IntArray]:
        """Mean number of candidates of each pool-size bin, and the bin of every cell."""
        inverse = np.unique(self.column("pool"), return_inverse=True)[1].ravel()
        return cells.sum_by(inverse, self.pool_weight) / cells.sum_by(inverse, self.weight), inverse

    def _at(self, level: int) -> RankCounts:
        """Return the same counts with coarser bins of pools and rests; a rest, however small, stays one."""
        pool, rest = (self.column(name) >> (self.level - level) for name in ("pool", "rest"))
        return self if level == self.level else replace(self.with_keys(pool=pool, rest=rest), level=level)

    def _keys_with(self, **columns: ArrayLike) -> IntArray:
        """Return the keys with some of their columns replaced."""
        keys = self.keys.copy()
        for name, values in columns.items():
            keys[:, KEYS.index(name)] = values
        return keys


#: Why estimators of P(R) refuse counts with a compared part.
NO_RANK_LAW = (
    "a part of the candidates was compared one by one and the rest sampled, so that no law of the rank alone holds: sample "
    "from all candidates alike, or compare them all."
)
