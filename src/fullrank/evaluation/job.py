"""What a call of ``evaluate`` asks for, checked once, and what is left of its budget."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fullrank.estimators import DEFAULT_ESTIMATOR, MLE, Estimator, LogSpline, WeightedMLE, parse_estimator
from fullrank.estimators.intervals import check_interval
from fullrank.metrics import Metric, parse_metrics
from fullrank.ranks.design import Design, parse_design

if TYPE_CHECKING:
    from fullrank.data.split import Split
    from fullrank.evaluation.looking import Seen

__all__ = ["DEFAULT_PRECISION", "Job", "slug"]

#: Half-width, relative to the value, that is aimed at when none is named.
DEFAULT_PRECISION = 0.02


@dataclass
class Job:
    """What is asked, checked once; and what is left of the budget."""

    split: Split
    metrics: tuple[Metric, ...]
    design: Design | None
    estimator: Estimator
    precision: float | None
    target: str
    candidates: Any
    ties: str
    max_items: int | None
    max_seconds: float | None
    map: Callable[..., Any]
    folder: Path | None
    seed: int
    absolute: bool
    level: float
    progress: bool
    started: float
    spent_items: int = 0
    latest: Seen | None = None  # what an interrupt leaves of the model at hand
    items_left: float = np.inf
    seconds_end: float = np.inf

    @classmethod
    def of(
        cls, split: Any, metrics: Any, design: Any, estimator: Any, precision: Any, target: str, candidates: Any,
        ties: str, max_items: Any, max_seconds: Any, backend: Any, checkpoint: Any, rng: Any, absolute: bool,
        level: float, progress: bool, started: float,
    ) -> Job:  # fmt: skip
        """From the arguments of ``evaluate``."""
        from fullrank.data import Split, load
        from fullrank.observing.observe import seed_of

        if isinstance(split, str):
            split = load(split)
        if not isinstance(split, Split):
            raise TypeError(f"`split` is a {type(split).__name__}; allowed are a Split or the name of a data set.")
        check_interval(level, target)
        for name, value in (("precision", precision), ("max_items", max_items), ("max_seconds", max_seconds)):
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if value is not None and not (number and value > 0):
                raise ValueError(f"`{name}` is {value!r}; allowed are None and numbers above zero.")
        if precision is not None and not absolute and precision >= 1:
            raise ValueError(f"`precision` is {precision!r}; it is relative, so below 1 (2 % is 0.02).")
        chosen = None if design is None else parse_design(design)
        if chosen is None and precision is None:
            precision = DEFAULT_PRECISION
        if chosen is not None and precision is not None and not chosen.grows:
            raise ValueError(
                f"`precision` and `design` '{chosen}' exclude each other: a fixed design reaches what it reaches; "
                "leave one out, or write design='adaptive' to sample in rounds."
            )
        folder = None if checkpoint is None else Path(checkpoint)
        if folder is not None:
            if folder.is_file():
                raise ValueError(f"`checkpoint` {str(folder)!r} is a file; `evaluate` keeps several: name a folder.")
            folder.mkdir(parents=True, exist_ok=True)
        if isinstance(backend, str):
            backend = import_module("fullrank.backends").resolve(backend)
        fitted = parse_estimator(DEFAULT_ESTIMATOR if estimator is None else estimator)
        return cls(
            split, parse_metrics(metrics), chosen, fitted, precision, target, candidates, ties,
            max_items, max_seconds, map if backend is None else getattr(backend, "map", backend), folder, seed_of(rng),
            absolute, level, progress, started,
        )  # fmt: skip

    def share_budget(self, models: int) -> None:
        """What the next of so many models may spend."""
        if self.max_items is not None:
            self.items_left = max(self.max_items - self.spent_items, 0) / models
        if self.max_seconds is not None:
            now = time.perf_counter()
            self.seconds_end = now + max(self.started + self.max_seconds - now, 0.0) / models

    @property
    def candidates_name(self) -> str:
        """What the counts will call the candidates."""
        from fullrank.observing.observe import candidates_name

        return candidates_name(self.candidates)

    @property
    def likelihood(self) -> bool:
        """Whether the estimator may be given outcomes of a round that was cut short."""
        return isinstance(self.estimator, LogSpline | MLE | WeightedMLE)

    def goals(self, values: MappingType[Metric, float]) -> dict[Metric, float]:
        """The half-width that is wanted of each metric."""
        wanted = self.precision or DEFAULT_PRECISION
        return {metric: wanted if self.absolute else wanted * max(abs(v), 1e-12) for metric, v in values.items()}


def slug(text: str) -> str:
    """A name that can be part of a file's."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60] or "model"
