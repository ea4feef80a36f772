"""The accumulator as a torchmetrics metric: its state is the counts, one tensor that is summed across devices.

Not imported by ``import fullrank``; needs the extra ``torch``: ``pip install 'fullrank[torch]'``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fullrank._checks import TIES, check_choice, check_whole, require
from fullrank.estimators import Estimator, parse_estimator
from fullrank.evaluation.accumulator import beaten_by, refuse_top, target_columns
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
        if scores.ndim != 2:
            raise ValueError(f"`scores` must have shape (rows, candidates), got {tuple(scores.shape)}.")
        scores = scores.detach()
        if bool(torch.isnan(scores).any()):
            raise ValueError("`scores` has NaN: such a score cannot be ranked.")
        relevant = self._relevant(scores, target)
        own = scores[relevant]
        if bool((own == -torch.inf).any()):
            raise ValueError("`scores` is −inf for a target: a target must be a candidate.")
        negative = ~relevant & (scores != -torch.inf)
        rows = torch.arange(len(scores), device=scores.device) + self.seen
        # chance is a golden-ratio sequence: even over rows, the same on every device, no state
        above = beaten_by(scores, own, negative, self.ties, (rows.double() * GOLDEN).frac()).long()
        block = self._block(rows, users)
        self.cells.view(-1).index_add_(
            0, block * self.cells.shape[1] + self._outcome(negative.sum(1), above), torch.ones_like(above)
        )
        self.seen += len(scores)

    def compute(self) -> Any:
        """Return the metric, or a dict of metrics, as scalars."""
        fit = self.estimator.fit(self.counts)
        values = {
            str(metric): torch.tensor(fit.expect(metric), dtype=torch.float32, device=self.cells.device)
            for metric in self.metrics
        }
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
        return RankCounts.from_outcomes(
            np.repeat(drawn, number), np.repeat(hits, number), self.n_items, self.design,
            users=np.repeat(_user_of_block()[block], number), candidates=self.candidates,
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

    def _relevant(self, scores: torch.Tensor, target: torch.Tensor | int) -> torch.Tensor:
        marks = torch.as_tensor(target, device=scores.device)
        if marks.shape == scores.shape and scores.shape[1] > 1:
            relevant = marks.bool()
            if not bool((relevant.sum(1) == 1).all()):
                raise ValueError("`target` must mark one candidate per row: for several use fullrank.Accumulator.")
            return relevant
        column = torch.as_tensor(target_columns(marks.cpu().numpy(), *scores.shape).copy(), device=scores.device)
        relevant = torch.zeros_like(scores, dtype=torch.bool)
        relevant[torch.arange(len(scores), device=scores.device), column] = True
        return relevant

    def _block(self, rows: torch.Tensor, users: Any) -> torch.Tensor:
        ids = rows if users is None else torch.as_tensor(users)
        if ids.shape != rows.shape:
            raise ValueError(f"`users` must hold one id per row, got shape {tuple(ids.shape)} for {len(rows)} rows.")
        return torch.as_tensor(user_blocks(ids.cpu().numpy()) % self._blocks, device=rows.device)

    def _outcome(self, drawn: torch.Tensor, hits: torch.Tensor) -> torch.Tensor:
        """Return the column of each case: the stage that drew as many negatives, then the hits."""
        place = torch.full_like(hits, -1)
        for start, size, code in zip(self._starts[:-1].tolist(), self._sizes, self._codes, strict=True):
            fits = drawn <= size if code == ALL and len(self._sizes) == 1 else drawn == size
            place = torch.where(fits, start + hits, place)
        if bool((place < 0).any()):
            wrong, sizes = int(drawn[place < 0][0]), ", ".join(map(str, self._sizes))
            raise ValueError(
                f"`scores` has a row with {wrong} negatives beside its target; '{self.design}' draws {sizes}."
            )
        return place


def _user_of_block() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return for every block a whole number that is hashed into it."""
    ids = np.arange(BLOCKS * 32)
    _, first = np.unique(user_blocks(ids), return_index=True)
    return np.asarray(ids[first])
