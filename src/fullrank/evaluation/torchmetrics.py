"""The accumulator as a torchmetrics metric: its state is the counts, one tensor that is summed across devices.

Not imported by ``import fullrank``; needs the extra ``torch``: ``pip install 'fullrank[torch]'``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fullrank._checks import TIES, check_choice, check_whole, first_where, require
from fullrank.estimators import Estimator, parse_estimator
from fullrank.evaluation.accumulator import rank_batch, refuse_top
from fullrank.evaluation.correct import DEFAULT_METRICS, report_on
from fullrank.metrics import Metric, metrics_to_report
from fullrank.ranks.counts import BLOCKS, RankCounts, check_candidates, user_blocks
from fullrank.ranks.design import ALL, Design, parse_design
from fullrank.report import Report

try:
    import torch
    from torchmetrics import Metric as _Base
except ImportError:  # the class below is there all the same, and says, when made, what is missing
    _Base = object

#: The state holds at most this many numbers: with very many outcomes there are fewer user blocks.
MOST_NUMBERS = 1 << 22
GOLDEN = 0.6180339887498949


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
        check_choice("ties", ties, TIES)
        self.design = refuse_top(parse_design(design)).resolve(int(n_items))
        self.n_items = int(n_items)
        self.candidates = check_candidates(candidates)
        self.ties = ties
        self.estimator = parse_estimator(estimator)
        self.metrics = metrics_to_report(metric)
        self._single = isinstance(metric, str | Metric) and len(self.metrics) == 1
        stages = self.design.stages(self.n_items)
        self._sizes = tuple(self.n_items - 1 if size == ALL else size for size in stages)
        self._codes = stages
        self._starts = np.concatenate([[0], np.cumsum([size + 1 for size in self._sizes])])
        self._blocks = int(np.clip(MOST_NUMBERS // self._starts[-1], 1, BLOCKS))
        empty = torch.zeros(self._blocks, int(self._starts[-1]), dtype=torch.int64)
        self.add_state("cells", default=empty, dist_reduce_fx="sum")
        self.add_state("seen", default=torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, scores: torch.Tensor, target: torch.Tensor | int = 0, users: Any = None) -> None:
        """Take in a batch: ``scores`` (rows, candidates); ``target`` a column, one per row, or one-hot like ``scores``.

        A candidate at −∞ is none. Under ``Adaptive`` every row must have as many negatives as one of the design's stages.
        """
        if not len(scores):
            return
        seen = int(self.seen)
        # chance is a golden-ratio sequence: even over rows, the same on every device, no state
        batch = rank_batch(scores, target, users, seen, self.ties, lambda n: (np.arange(seen, seen + n) * GOLDEN) % 1)
        if len(batch.row) > batch.shape[0]:
            raise ValueError("`target` must mark one candidate per row: for several use fullrank.Accumulator.")
        block = user_blocks(batch.users) % self._blocks
        fits = batch.drawn[:, None] == np.array(self._sizes)  # the stage that drew as many negatives
        if self._codes == (ALL,):
            fits |= batch.drawn[:, None] <= self._sizes[0]
        if (wrong := first_where(~fits.any(1))) is not None:
            found, sizes = batch.drawn[wrong], ", ".join(map(str, self._sizes))
            raise ValueError(
                f"`scores` has a row with {found} negatives beside its target; '{self.design}' draws {sizes}."
            )
        cell = block * self.cells.shape[1] + self._starts[fits.argmax(1)] + batch.above
        cell = torch.as_tensor(cell, device=self.cells.device)
        self.cells.view(-1).index_add_(0, cell, torch.ones_like(cell))
        self.seen += batch.shape[0]

    def compute(self) -> Any:
        """Return the metric, or a dict of metrics, as scalars."""
        fit = self.estimator.fit(self.counts)
        form = {"dtype": torch.float32, "device": self.cells.device}
        values = {str(metric): torch.tensor(fit.expect(metric), **form) for metric in self.metrics}
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
        drawn = np.asarray(self._codes)[stage]
        ids = np.arange(BLOCKS * 32)
        in_block = ids[
            np.unique(user_blocks(ids), return_index=True)[1]
        ]  # for every block a user that is hashed into it
        return RankCounts.from_outcomes(
            np.repeat(drawn, number), np.repeat(hits, number), self.n_items, self.design,
            users=np.repeat(in_block[block], number), candidates=self.candidates,
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
        asked = (self.metrics or DEFAULT_METRICS) if metrics is None else metrics
        return report_on({name: self.counts}, asked, estimator=self.estimator, level=level, target=target)
