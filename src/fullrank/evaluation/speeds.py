"""What an item costs a model, scored alone or in a whole row: timed, to choose between sampling and ranking everything."""

import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fullrank._files import write_atomically
from fullrank._types import IntArray, Pair
from fullrank.metrics import Metric
from fullrank.models.scorer import Factors
from fullrank.observing.budget import Budget
from fullrank.observing.observation import Observation, file_name
from fullrank.ranks.design import DEFAULT_START, Design, Exhaustive, Sample, Top

#: A measurement of speed lasts at least as long, if there are users enough; all that is done for it, no longer than that,
#: and than this share of a budget.
TIMED_SECONDS, MOST_TIMING, TIMING_SHARE = 0.05, 2.0, 0.02
#: What an exact answer may cost more than a sampled one is guessed to: it leaves nothing open, and guesses tend to be low.
EXACT_SECONDS_ARE_WORTH = 1.5
#: The whole ranking is preferred if it takes no longer than so many seconds, or than so much of the time to rank to K: it
#: answers what was not asked too.
RANKED_SECONDS, RANKED_IS_WORTH = 0.5, 0.7
#: Ranking to K is considered up to here: the deeper, the more there is to score.
MOST_K = 100


class Exact(NamedTuple):
    """The cheaper way to know the asked metrics exactly: everything ranked, or only as far as they look."""

    design: Design
    seconds: float
    within: bool  # the budget
    whole: float  # seconds to rank everything


@dataclass(eq=False)
class Speeds:
    """Seconds per item (or per user, to the top), timed on a few users when first asked for.

    What was measured is kept beside the checkpoint: a resumed run decides alike. What the model was asked for is spent from
    the budget, and counted among the items scored.
    """

    observation: Observation
    metrics: tuple[Metric, ...]
    budget: Budget

    @cached_property
    def gathered(self) -> float:
        """Seconds for an item that is scored alone, for one case."""
        seen = self.observation
        most = 400 if seen.compiled else 16
        return self._kept("gathered", Sample(int(np.clip(seen.split.n_items // 20, 1, most)), replace=False))

    @cached_property
    def product(self) -> float:
        """Seconds for an item in a whole row of a user, whose targets share it; functions are asked for single items."""
        return self.gathered if self.observation.is_function else self._kept("product", Exhaustive())

    @cached_property
    def users(self) -> IntArray:
        """The users of the split's cases."""
        return np.unique(self.observation.split.users)

    @cached_property
    def to_the_top(self) -> tuple[Top, float] | None:
        """The ranks the metrics look at, and seconds per user for these: with factors, whose norms bound their scores."""
        seen, ks = self.observation, [metric.k for metric in self.metrics]
        factors = isinstance(seen.scorer, Factors) and seen.candidates != "given"
        if not factors or np.isfinite(self.budget.items) or any(k is None or k > MOST_K for k in ks):
            return None
        design = Top(max(int(k or 1) for k in ks), int(DEFAULT_START))
        return design, self._kept(f"top-{design.k}", design)

    @property
    def ratio(self) -> str:
        """How many times dearer a gathered item is, in words."""
        return f"an item gathered alone costs {self.gathered / max(self.product, 1e-15):.1f} × one in a whole row"

    @property
    def exact(self) -> Exact:
        """The cheaper exact way, by what was timed; below ``RANKED_SECONDS`` the whole ranking is worth having."""
        split, users, left = self.observation.split, len(self.users), self.budget.seconds
        whole = self.product * split.n_items * users
        if whole > RANKED_SECONDS and self.to_the_top is not None:
            top, seconds = self.to_the_top[0], self.to_the_top[1] * users
            if seconds < RANKED_IS_WORTH * whole:
                return Exact(top, seconds, seconds <= left, whole)
        affordable = split.n_items * len(split.users) <= self.budget.items
        return Exact(Exhaustive(), whole, affordable and whole <= left, whole)

    def _kept(self, what: str, design: Design) -> float:
        seen = self.observation
        path = None if seen.checkpoint is None else seen.checkpoint / file_name(seen.name, what, suffix=".json")
        if path is not None and path.exists():
            found = json.loads(path.read_text())
        else:
            self._asked = 0
            found = {"seconds_per_item": self._per_item(design), "items": self._asked}
            if path is not None:
                write_atomically(path, json.dumps(found).encode())
        seen.items_scored += int(found["items"])
        self.budget.spend(int(found["items"]))
        return float(found["seconds_per_item"])

    def _per_item(self, design: Design) -> float:
        """Time enough users to measure reliably; the fixed cost of a call, measured with two users, is subtracted."""
        users, limited = self.users, np.isfinite(self.budget.items)
        most = min(MOST_TIMING, TIMING_SHARE * self.budget.seconds)
        self._timed(design, users[:2])  # compiles
        before, fewer = self._timed(design, users[:2])
        seconds, items, spent = before, fewer, before
        number = int(TIMING_SHARE * len(users)) if limited else 16
        while number > 2:
            seconds, items = self._timed(design, users[:: max(1, len(users) // number)][:number])  # evenly from all
            spent += seconds
            if limited or number >= len(users) or spent > most or seconds - before >= max(TIMED_SECONDS, before):
                break
            number *= 4 if seconds > 1.5 * before else 16  # few steps where a call costs much anyhow
        whole = seconds / max(items, 1.0)
        return float(np.clip((seconds - before) / max(items - fewer, 1.0), whole / 50, whole))

    def _timed(self, design: Design, users: IntArray) -> Pair:
        seen = self.observation
        probe = seen.fresh(np.flatnonzero(np.isin(seen.split.users, users)))
        begin = time.perf_counter()
        probe.advance(design)
        seconds = time.perf_counter() - begin
        self._asked += probe.items_scored
        if design.beyond is not None:
            return seconds, float(len(users))
        return seconds, float(len(users) * seen.split.n_items if design.exhaustive else probe.compared.sum())
