"""What an item costs a model, scored alone or in a whole row: timed, to choose between sampling and ranking everything."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fullrank._files import write_atomically
from fullrank.evaluation.job import Job, slug
from fullrank.evaluation.looking import Ints, only
from fullrank.ranks.design import DEFAULT_START, Design, Exhaustive, Sample, Top

__all__ = ["EXACT_SECONDS_ARE_WORTH", "Exact", "Speeds", "exact_is_cheaper"]

#: A measurement of speed lasts at least as long, if there are users enough; all that is done for it, no longer than that.
TIMED_SECONDS, MOST_TIMING = 0.05, 2.0
#: What an exact answer may cost more than a sampled one is guessed to: it leaves nothing open, and guesses tend to be low.
EXACT_SECONDS_ARE_WORTH = 1.5
#: The whole ranking is preferred if it takes no longer than so many seconds, or than so much of the time to rank to K: it
#: answers what was not asked too.
RANKED_SECONDS, RANKED_IS_WORTH = 0.5, 0.7
#: Ranking to K is considered up to here: the deeper, the more there is to score.
MOST_K = 100


@dataclass(frozen=True, eq=False)
class Speeds:
    """Seconds per item (or per user, to the top), timed on a few users when first asked for.

    What was measured is kept beside the checkpoint: a resumed run decides alike.
    """

    job: Job
    scorer: Any
    name: str

    @cached_property
    def gathered(self) -> float:
        """Of an item scored alone, for one case."""
        return self._kept("gathered", Sample(int(np.clip(self.job.split.n_items // 20, 1, 400)), replace=False))

    @cached_property
    def product(self) -> float:
        """Of an item in a user's whole row, however many targets he has."""
        return self._kept("product", Exhaustive())

    @cached_property
    def users(self) -> Ints:
        """Those of the split's cases."""
        return np.unique(self.job.split.users)

    @cached_property
    def to_the_top(self) -> tuple[Top, float] | None:
        """The ranks the metrics look at, and seconds per user for these: with factors, whose norms bound their scores."""
        from fullrank.models.scorer import Factors

        job, ks = self.job, [metric.k for metric in self.job.metrics]
        factors = isinstance(self.scorer, Factors) and isinstance(job.candidates, str)
        if not factors or job.max_items is not None or any(k is None or k > MOST_K for k in ks):
            return None
        design = Top(max(int(k or 1) for k in ks), int(DEFAULT_START))
        return design, self._kept(f"top-{design.k}", design)

    @property
    def ratio(self) -> str:
        """How many times dearer a gathered item is, in words."""
        return f"an item gathered alone costs {self.gathered / max(self.product, 1e-15):.1f} × one in a whole row"

    def _kept(self, what: str, design: Design) -> float:
        folder = self.job.folder
        if folder is None:
            return self._per_item(design)
        path = folder / f"{slug(self.name)}-{what}.json"
        if not path.exists():
            write_atomically(path, json.dumps({"seconds_per_item": self._per_item(design)}).encode())
        return float(json.loads(path.read_text())["seconds_per_item"])

    def _per_item(self, design: Design) -> float:
        """From users enough to be timed; what a call costs anyhow is told by one with two users and left out."""
        users = self.users
        self._timed(design, users[:2])  # compiles
        before, fewer = self._timed(design, users[:2])
        number, spent = 16, before
        while True:
            seconds, items = self._timed(design, _spread(users, number))
            spent += seconds
            if seconds - before >= max(TIMED_SECONDS, before) or number >= len(users) or spent > MOST_TIMING:
                break
            number *= 4 if seconds > 1.5 * before else 16  # few steps where a call costs much anyhow
        whole = seconds / max(items, 1.0)
        return float(np.clip((seconds - before) / max(items - fewer, 1.0), whole / 50, whole))

    def _timed(self, design: Design, users: Ints) -> tuple[float, float]:
        from fullrank.observing.observe import observe_cases

        job = self.job
        part = only(job.split, np.flatnonzero(np.isin(job.split.users, users)))
        begin = time.perf_counter()
        seen = observe_cases(
            self.scorer, part, design, candidates=job.candidates, ties=job.ties, rng=job.seed, map=job.map,
            progress=False, name=self.name,
        )  # fmt: skip
        seconds = time.perf_counter() - begin
        if design.beyond is not None:
            return seconds, float(len(users))
        return seconds, len(users) * float(job.split.n_items) if design.exhaustive else float(seen.compared.sum())


def _spread(users: Ints, number: int) -> Ints:
    """So many of the users, evenly from all of them."""
    return users[:: max(1, len(users) // number)][:number]


@dataclass(frozen=True)
class Exact:
    """The cheaper way to know the asked metrics exactly: everything ranked, or only as far as they look."""

    design: Design
    seconds: float
    within: bool  # the budget
    whole: float  # seconds to rank everything

    @classmethod
    def of(cls, job: Job, speeds: Speeds) -> Exact:
        """By what was timed. Below ``RANKED_SECONDS`` the whole ranking is worth having."""
        N, users = float(job.split.n_items), len(speeds.users)
        whole = speeds.product * N * users
        left = job.seconds_end - time.perf_counter()
        if whole > RANKED_SECONDS and speeds.to_the_top is not None:
            top, seconds = speeds.to_the_top[0], speeds.to_the_top[1] * users
            if seconds < RANKED_IS_WORTH * whole:
                return cls(top, seconds, seconds <= left, whole)
        return cls(Exhaustive(), whole, N * len(job.split.users) <= job.items_left and whole <= left, whole)

    @property
    def what(self) -> str:
        """What is done, in words."""
        return "ranking everything" if self.design.exhaustive else f"ranking to {self.design.exact_to}"


def exact_is_cheaper(exact: Exact, speeds: Speeds, more_items: float, fitting: float) -> bool:
    """Than another round: its items, its fit, and a report's."""
    return exact.within and exact.seconds < EXACT_SECONDS_ARE_WORTH * (speeds.gathered * more_items + 2 * fitting)
