"""What an item costs a model, scored alone or in a whole row: timed, to choose between sampling and ranking everything."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._files import write_atomically
from ..ranks.design import Design, Exhaustive, Sample
from .job import Job, slug
from .looking import Ints, only

__all__ = ["EXACT_SECONDS_ARE_WORTH", "Speeds", "exact_is_cheaper", "exact_seconds"]

#: A measurement of speed lasts at least as long, if there are users enough.
TIMED_SECONDS = 0.05
#: What an exact answer may cost more than a sampled one is guessed to: it leaves nothing open, and guesses tend to be low.
EXACT_SECONDS_ARE_WORTH = 1.5


@dataclass(frozen=True, eq=False)
class Speeds:
    """Seconds per item, timed on a few users when first asked for.

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
        """From users enough to be timed; what a call costs anyhow is told by a smaller one and left out."""
        users = np.unique(self.job.split.users)
        self._timed(design, users[:2])  # compiles
        number, before, fewer = 16, 0.0, 0.0
        seconds, items = self._timed(design, _spread(users, number))
        while seconds < TIMED_SECONDS and number < len(users):
            number *= 4
            before, fewer = seconds, items
            seconds, items = self._timed(design, _spread(users, number))
        whole = seconds / max(items, 1.0)
        return float(np.clip((seconds - before) / max(items - fewer, 1.0), whole / 4, whole))

    def _timed(self, design: Design, users: Ints) -> tuple[float, float]:
        from ..ranks.observe import observe_cases

        job = self.job
        part = only(job.split, np.flatnonzero(np.isin(job.split.users, users)))
        begin = time.perf_counter()
        seen = observe_cases(
            self.scorer, part, design, candidates=job.candidates, ties=job.ties, rng=job.seed, map=job.map,
            progress=False, name=self.name,
        )  # fmt: skip
        seconds = time.perf_counter() - begin
        whole = isinstance(design, Exhaustive)
        return seconds, len(users) * float(job.split.n_items) if whole else float(seen.compared.sum())


def _spread(users: Ints, number: int) -> Ints:
    """So many of the users, evenly from all of them."""
    return users[:: max(1, len(users) // number)][:number]


def exact_seconds(job: Job, speeds: Speeds) -> tuple[float, bool]:
    """What ranking everything would take, and whether the budget has room for it."""
    N, users = float(job.split.n_items), len(np.unique(job.split.users))
    exact = speeds.product * N * users
    within = N * len(job.split.users) <= job.items_left and time.perf_counter() + exact <= job.seconds_end
    return exact, within


def exact_is_cheaper(job: Job, speeds: Speeds, more_items: float, fitting: float) -> bool:
    """Than another round: its items, its fit, and a report's."""
    exact, within = exact_seconds(job, speeds)
    return within and exact < EXACT_SECONDS_ARE_WORTH * (speeds.gathered * more_items + 2 * fitting)
