"""How much a run may still ask of its models: items, seconds, or both."""

from __future__ import annotations

import time

import numpy as np


class Budget:
    """Items and seconds that are left. Whatever asks a model spends from it, blocks and timing probes alike."""

    def __init__(self, items: float | None = None, seconds: float | None = None, parent: Budget | None = None) -> None:
        self.items = np.inf if items is None else float(items)
        self.deadline = np.inf if seconds is None else time.perf_counter() + seconds
        self.reserve = 0.0  # seconds at the end that are needed for something else, such as a report
        self._parent = parent

    @property
    def seconds(self) -> float:
        """Seconds that are left for asking models."""
        return self.deadline - self.reserve - time.perf_counter()

    @property
    def limited(self) -> bool:
        """Return whether there is any limit at all."""
        return bool(np.isfinite(self.items) or np.isfinite(self.deadline))

    def share(self, parts: int) -> Budget:
        """Return an equal part of what is left; what is spent from it is spent from the whole."""
        seconds = max(self.deadline - time.perf_counter(), 0.0)
        part = Budget(max(self.items, 0.0) / parts, seconds / parts, parent=self)
        part.reserve = self.reserve / parts
        return part

    def spend(self, items: float) -> None:
        """Take away items that a model was asked for."""
        self.items -= items
        if self._parent is not None:
            self._parent.spend(items)

    def affordable(self, seconds_per_item: float) -> float:
        """Return how many more items can be asked for, at this rate."""
        by_clock = max(self.seconds, 0.0) / seconds_per_item if seconds_per_item > 0 else np.inf
        return float(max(min(self.items, by_clock), 0.0))
