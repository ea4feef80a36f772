"""The accumulator as a torchmetrics metric: its state is the counts, one tensor that is summed across devices.

Not imported by ``import fullrank``; needs the extra ``torch``: ``pip install 'fullrank[torch]'``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fullrank._checks import check_whole, first_where, require
from fullrank.estimators import Estimator, parse_estimator
from fullrank.evaluation.accumulator import Accumulator, as_array
from fullrank.evaluation.correct import report_on
from fullrank.metrics import Metric, metrics_to_report
from fullrank.ranks.counts import BLOCKS, RankCounts, user_blocks
from fullrank.ranks.design import ALL, Design, parse_design
from fullrank.report import Report

try:
    import torch
    from torchmetrics import Metric as _Base
except ImportError:  # the class below is there all the same, and says, when made, what is missing
    _Base = object

#: The state holds at most this many numbers: with very many outcomes there are fewer user blocks.
MOST_NUMBERS = 1 << 22


class FullRankMetric(_Base):  # type: ignore[misc]  # a class of another package, known when it is there
    """Full-catalogue metrics from sampled candidates: ``update(scores, target)``, ``compute()``, ``reset()``.

    ``design``, ``n_items``, ``candidates`` and ``ties`` as in :class:`fullrank.Accumulator`, except that ``n_items`` is one
    number and that each row has one target. ``metric``: one, and ``compute()`` is a scalar; or several, and it is a dict of
    scalars. :meth:`report` has intervals and all else. The state is a table of user block × outcome.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def __init__(
        self,
        design: Design | str,
        n_items: int,
        metric: str | Metric | Iterable[str | Metric] = "ndcg@10",
        *,
        estimator: Estimator | str | None = None,
        candidates: str = "unseen",
        ties: str = "random",
        **kwargs: Any,
    ) -> None:
        for package in ("torch", "torchmetrics"):
            require(package, "FullRankMetric", "'fullrank[torch]'")
        super().__init__(**kwargs)
        check_whole("n_items", n_items, 2)
        Accumulator(design, n_items, candidates=candidates, ties=ties)  # refuses what cannot be
        self.design = parse_design(design).resolve(int(n_items))
        self.n_items, self.candidates, self.ties = int(n_items), candidates, ties
        self.estimator = parse_estimator(estimator)
        self.metrics = metrics_to_report(metric)
        self._single = isinstance(metric, str | Metric) and len(self.metrics) == 1
        self._codes = self.design.stages(self.n_items)
        self._sizes = tuple(self.n_items - 1 if size == ALL else size for size in self._codes)
        self._starts = np.concatenate([[0], np.cumsum([size + 1 for size in self._sizes])])
        self._blocks = int(np.clip(MOST_NUMBERS // self._starts[-1], 1, BLOCKS))
        empty = torch.zeros(self._blocks, int(self._starts[-1]), dtype=torch.int64)
        self.add_state("cells", default=empty, dist_reduce_fx="sum")
        self.add_state("seen", default=torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, scores: torch.Tensor, target: torch.Tensor | int = 0, users: Any = None) -> None:
        """Take in a batch: ``scores`` (rows, candidates); ``target`` a column, one per row, or one-hot like ``scores``.

        A candidate at −∞ is none. Every row must have as many negatives as the design, or one of its stages, draws.
        """
        marks, seen = as_array(target), int(self.seen)
        if marks.ndim == 2 and marks.shape[1] > 1 and (marks.sum(1) > 1).any():
            raise ValueError("`target` must mark one candidate per row: for several use fullrank.Accumulator.")
        batch = Accumulator(self.design, self.n_items, candidates=self.candidates, ties=self.ties, rng=seen)
        batch.update(scores, marks, users=np.arange(seen, seen + len(scores)) if users is None else users)
        counts, cells = batch.counts, self.cells.view(-1)
        drawn = counts.column("drawn")
        stages = drawn[:, None] == np.asarray(self._codes)
        if (wrong := first_where(~stages.any(1))) is not None:
            sizes = ", ".join(map(str, self._sizes))
            raise ValueError(
                f"`scores` has a row with {drawn[wrong]} negatives beside its target; '{self.design}' draws {sizes}."
            )
        outcome = self._starts[stages.argmax(1)] + counts.above
        place = counts.column("block") % self._blocks * int(self._starts[-1]) + outcome
        added = (torch.as_tensor(each.astype(np.int64), device=cells.device) for each in (place, counts.cases))
        cells.index_add_(0, *added)
        self.seen += len(scores)

    def compute(self) -> Any:
        """Return the metric, or a dict of metrics, as scalars."""
        fit, how = self.estimator.fit(self.counts), {"dtype": torch.float32, "device": self.cells.device}
        values = {str(metric): torch.tensor(fit.expect(metric), **how) for metric in self.metrics}
        return next(iter(values.values())) if self._single else values

    @property
    def counts(self) -> RankCounts:
        """The state as :class:`fullrank.RankCounts`."""
        cells = self.cells.cpu().numpy()
        block, outcome = np.nonzero(cells)
        if not len(block):
            raise ValueError("the metric has seen nothing yet: call update(scores, target) first.")
        number = cells[block, outcome]
        stage = np.searchsorted(self._starts, outcome, side="right") - 1
        hits = outcome - self._starts[stage]
        drawn, ids = np.asarray(self._codes)[stage], np.arange(BLOCKS * 32)
        user_of_block = ids[
            np.unique(user_blocks(ids), return_index=True)[1]
        ]  # a whole number that is hashed into each
        return RankCounts.from_outcomes(
            np.repeat(drawn, number), np.repeat(hits, number), self.n_items, self.design,
            users=np.repeat(user_of_block[block], number), candidates=self.candidates,
        )  # fmt: skip

    def report(
        self,
        metrics: str | Metric | Iterable[str | Metric] | None = None,
        *,
        name: str = "model",
        level: float = 0.95,
        target: str = "cases",
    ) -> Report:
        """Report on the state of this process so far."""
        asked = self.metrics if metrics is None else metrics
        return report_on({name: self.counts}, asked, estimator=self.estimator, level=level, target=target)
