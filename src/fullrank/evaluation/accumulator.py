"""Accumulator: rank counts from scores as they stream by, in a loop of one's own. Nothing but counts is kept."""

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fullrank._checks import TIES, check_choice, check_whole, first_where
from fullrank._types import Array, BoolArray, IntArray
from fullrank.estimators import Estimator
from fullrank.estimators.intervals import check_interval
from fullrank.evaluation.correct import DEFAULT_METRICS, report_on
from fullrank.metrics import Metric
from fullrank.ranks.counts import RankCounts, check_candidates
from fullrank.ranks.design import Design, parse_design
from fullrank.report import Report


def refuse_top(design: Design) -> Design:
    """Refuse `Top`: a row of scores is a sample or everything, and cannot show that a rank is beyond k."""
    if design.beyond is not None:
        raise ValueError(
            f"`design` must be 'full', 'uni99' or the like, or 'adaptive' with rows of scores, got '{design}'."
        )
    return design


def beaten_by(scores: Any, own: Any, negative: Any, ties: str, chance: Any) -> Any:
    """Count the negatives of every row that are ranked above its target; NumPy arrays or tensors, wherever they are.

    ``own`` are the targets' scores. Of t negatives that score the same, all count (``"pessimistic"``), none
    (``"optimistic"``), or, at random, 0 to t of them, as ``chance``, uniform in [0, 1), has it.
    """
    above = (negative & (scores > own[:, None])).sum(1)
    if ties == "optimistic":
        return above
    tied = (negative & (scores == own[:, None])).sum(1)
    return above + (tied if ties == "pessimistic" else (chance * (tied + 1)) // 1)


class Accumulator:
    """Take in batches of scores, give a report.

    ``design``: how the candidates of a row were drawn; ``n_items``: candidates of the full ranking, target included (not
    needed with ``Exhaustive()``, where every row is the full ranking). Sizes of a design that are shares of the items are
    shares of ``n_items``; where rows differ, that is the largest number, and each row's own goes to :meth:`update`.
    ``ties``: an item that scores the same as the target ranks above it at random (seeded by ``rng``), never
    (``"optimistic"``) or always (``"pessimistic"``). ``candidates``: among which items, as in
    :meth:`fullrank.RankCounts.from_ranks`.

    >>> import fullrank as fr
    >>> import numpy as np
    >>> acc = fr.Accumulator("uni99", n_items=3706)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(10):
    ...     scores = rng.normal(size=(64, 100))
    ...     scores[:, 0] += 2.0  # the held-out item is in column 0
    ...     acc.update(scores, target=0)
    >>> len(acc), str(acc.counts)
    (640, '640 cases of uni99 among 3,706 items (unseen)')
    >>> acc.report("ndcg@10").rows[0]["value"] < acc.report("ndcg@10").rows[0]["naive"]
    True
    """

    def __init__(
        self,
        design: Design | str,
        n_items: int | None = None,
        *,
        candidates: str = "unseen",
        ties: str = "random",
        rng: int | np.random.Generator | None = 0,
        name: str = "model",
    ) -> None:
        self.design = refuse_top(parse_design(design))
        check_choice("ties", ties, TIES)
        check_whole("n_items", n_items, 1, none=True)
        if n_items is not None:
            self.design = self.design.resolve(int(n_items))
        elif self.design.resolve(2) != self.design:  # each batch would have numbers of its own, which do not add
            raise ValueError(
                f"`n_items` is missing: '{self.design}' has sizes that depend on it; give the number of candidates, the "
                "largest if rows differ (each row's own goes to update), or sizes as numbers."
            )
        self.candidates = check_candidates(candidates)
        self.n_items, self.ties, self.name = n_items, ties, name
        self._rng = np.random.default_rng(rng)
        self.reset()

    def update(
        self,
        scores: Any,
        target: Any = 0,
        *,
        users: ArrayLike | None = None,
        n_items: ArrayLike | None = None,
    ) -> None:
        """Take in a batch: ``scores`` of shape (rows, candidates), an array or tensor.

        ``target`` says which candidate is the held-out one: a column, or one per row (whole numbers); or 0/1 relevance in
        the shape of ``scores`` (several targets per row are several cases of one user). A candidate at −∞ is none: items a
        user has seen, or padding of rows with fewer negatives. NaN is refused.

        ``users``: ids, so that cases of one user stay together and models can be compared in pairs; without them every row
        is its own user. ``n_items``: candidates of the full ranking per row, where they differ.
        """
        values = as_array(scores)
        if values.ndim != 2 or values.shape[0] == 0:
            raise ValueError(f"`scores` must have shape (rows, candidates), one row per case, got {values.shape}.")
        if values.dtype.kind not in "iufb":
            raise TypeError(f"`scores` must be numbers, got {values.dtype} values.")
        relevant = _relevance(as_array(target), *values.shape)
        if (bad := first_where(np.isnan(values).any(1))) is not None:
            raise ValueError(f"`scores` has NaN in row {bad}: such a score cannot be ranked.")
        row, column = np.nonzero(relevant)
        own = values[row, column]
        if (bad := first_where(own == -np.inf)) is not None:
            raise ValueError(f"`scores` is −inf for the target of row {row[bad]}: a target must be a candidate.")
        targets = relevant.sum(1)
        negative = ~relevant & (values != -np.inf)
        drawn = negative.sum(1)[row]
        chance = self._rng.random(len(values))[row]
        above = beaten_by(values[row], own, negative[row], self.ties, chance).astype(np.int64)
        ids = np.arange(self._rows, self._rows + len(values)) if users is None else as_array(users)
        if ids.shape != (len(values),):
            raise ValueError(f"`users` must hold one id per row, got shape {ids.shape} for {len(values)} rows.")
        several = bool((targets > 1).any())
        pools = self._pool(n_items, drawn, row, len(values))
        if self.design.plain and not self.design.exhaustive:
            self._check_drawn(drawn, row, pools, values.shape[1] - 1)
        self._parts.append(RankCounts.from_ranks(
            above + 1, pools, self.design, drawn=None if self.design.exhaustive else drawn, users=ids[row],
            order=_places(row, own) if several else None, targets=targets[row] if several else None,
            candidates=self.candidates,
        ))  # fmt: skip
        self._rows += len(values)
        self._unnamed |= users is None
        if len(self._parts) >= 64:
            self._gather()

    def merge(self, other: "Accumulator") -> "Accumulator":
        """Take in what another one has seen (of other cases); returns itself.

        At least one of the two must have been given ``users``: without them rows are numbered from 0, so that strangers
        would be taken for one user, and a model merged from parts would not pair with one that was not.
        """
        if not isinstance(other, Accumulator):
            raise TypeError(f"`other` must be an Accumulator, got {type(other).__name__}.")
        for what in ("design", "candidates"):
            mine, its = getattr(self, what), getattr(other, what)
            if mine != its:
                raise ValueError(f"cannot merge {what} '{its}' into '{mine}': ranks follow different laws.")
        if self._unnamed and other._unnamed:
            raise ValueError(
                "cannot merge what was updated without `users` on both sides: the first row of each would count as one "
                "user; give update the `users` of its rows (any ids, the same for every model)."
            )
        if other._gather() is not None:
            self._parts.append(other.counts)
            self._rows += other._rows
            self._unnamed |= other._unnamed
        return self

    def reset(self) -> None:
        """Forget what was seen."""
        self._parts: list[RankCounts] = []
        self._rows, self._unnamed = 0, False

    def __len__(self) -> int:
        return len(self._gather() or ())

    @property
    def counts(self) -> RankCounts:
        """What was seen so far, as counts: to save, add, compare or fit."""
        counts = self._gather()
        if counts is None:
            raise ValueError("the accumulator has seen nothing yet: call update(scores, target) first.")
        return counts

    def report(
        self,
        metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
        *,
        estimator: Estimator | str | None = None,
        level: float = 0.95,
        target: str = "cases",
    ) -> Report:
        """Report on what was seen so far; updates may go on. Without an estimator: LogSpline."""
        level = check_interval(level, target)
        return report_on({self.name: self.counts}, metrics, estimator=estimator, level=level, target=target)

    def __repr__(self) -> str:
        counts = self._gather()
        return f"<Accumulator: {f'nothing yet of {self.design}' if counts is None else counts}>"

    def _gather(self) -> RankCounts | None:
        while len(self._parts) > 1:  # halves first: each count is touched a few times however many parts there are
            pairs = zip_longest(self._parts[::2], self._parts[1::2])
            self._parts = [one if two is None else one + two for one, two in pairs]
        return self._parts[0] if self._parts else None

    def _pool(self, n_items: ArrayLike | None, drawn: Array, row: Array, rows: int) -> Array:
        if self.design.exhaustive:
            return np.asarray(drawn + 1)
        given = self.n_items if n_items is None else n_items
        if given is None:
            raise ValueError(
                "`n_items` is missing: how many candidates (target included) the full ranking has; "
                "give it to Accumulator or, one per row, to update."
            )
        pools = np.asarray(as_array(given))
        if pools.ndim and pools.shape != (rows,):
            raise ValueError(f"`n_items` must be one number, or one per row, got shape {pools.shape} for {rows} rows.")
        return np.asarray(np.broadcast_to(pools, (rows,))[row])

    def _check_drawn(self, drawn: Array, row: Array, pools: Array, room: int) -> None:
        """Refuse rows with other numbers of negatives than the design's; fewer are fine where rows are padded to it."""
        least, most = (int(self.design.stages(int(size))[0]) for size in (pools.min(), pools.max()))
        if (place := first_where((drawn > most) | (room < least))) is not None:
            raise ValueError(
                f"row {row[place]} of `scores` must hold the {most} negatives of '{self.design}' beside its target, got "
                f"{drawn[place]}: if that many were drawn, write Sample({drawn[place]}); where some are missing, pad the "
                "row with −inf."
            )


def as_array(values: Any) -> Array:
    """Return a NumPy array; tensors leave their device and their graph."""
    from fullrank.models.scorer import to_numpy  # late: it brings SciPy's sparse matrices

    return to_numpy(values)


def _relevance(target: Array, rows: int, columns: int) -> BoolArray:
    """Return which of the scores are those of targets, given as one column for all, one per row, or marked by 0 and 1."""
    if target.shape == (rows, columns) and columns > 1:
        if not np.isin(target, (0, 1)).all():
            raise ValueError("`target` in the shape of `scores` must hold 0 and 1 only: which candidates are relevant.")
        relevant = target.astype(bool)
        if (row := first_where(~relevant.any(1))) is not None:
            raise ValueError(f"`target` has no relevant candidate in row {row}: leave such rows out.")
        return relevant
    relevant = np.zeros((rows, columns), dtype=bool)
    relevant[np.arange(rows), target_columns(target, rows, columns)] = True
    return relevant


def target_columns(target: Array, rows: int, columns: int) -> Array:
    """Return the column of each row's target, given as one for all or one per row."""
    if target.dtype.kind not in "iu" or target.shape not in {(), (rows,), (rows, 1)}:
        raise ValueError(
            f"`target` must be a column, one per row, or 0/1 in the shape of `scores` {rows, columns}, got shape "
            f"{target.shape} and type {target.dtype}."
        )
    column = np.broadcast_to(target.reshape(-1), (rows,))
    if (row := first_where((column < -columns) | (column >= columns))) is not None:
        raise ValueError(f"`target` is column {column[row]} in row {row}: there are {columns} candidates.")
    return column


def _places(row: Array, own: Array) -> IntArray:
    """Return the place of each target among those of its row, best first; equal ones in the order of their columns."""
    out = np.empty(len(row), dtype=np.int64)
    out[np.lexsort((-own, row))] = np.arange(len(row)) - np.searchsorted(row, row) + 1
    return out
