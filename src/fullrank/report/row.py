"""Row: one metric of one model, with all that is known about it."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from fullrank._types import Pair
from fullrank.metrics import Metric, parse_metric
from fullrank.report.words import NOTHING

#: Keys of a row, in the order of JSON and frames; ``truth`` follows where it is known.
KEYS = (
    "model", "metric", "value", "low", "high", "bounds", "naive", "estimator", "design", "items_scored", "cases",
    "stop_reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Row(Mapping[str, Any]):
    """One metric of one model.

    Attributes are typed: ``row.metric`` is a :class:`fullrank.Metric`, ``row.interval`` and ``row.bounds`` are pairs or
    ``None``. As a mapping a row is flat, the way JSON and frames have it: ``row["metric"]`` is the metric's name, and
    ``row["low"]`` and ``row["high"]`` are the ends of the interval. A row equals any mapping that says the same.

    >>> row = Row("EASE", parse_metric("ndcg@10"), 0.12, (0.11, 0.13), (0.02, 0.4))
    >>> row.metric.k, row["metric"], row.low, row["high"], row["bounds"]
    (10, 'ndcg@10', 0.11, 0.13, (0.02, 0.4))
    """

    model: str
    metric: Metric
    #: On the full catalogue, estimated or exact; NaN: there is none.
    value: float
    #: What full evaluation would show, given what the estimator assumes.
    interval: Pair | None = None
    #: What the data alone allow.
    bounds: Pair | None = None
    #: The naive metric, "uncorrected" in words: the same formula on the sampled ranks, as if they were full ranks.
    naive: float | None = None
    estimator: str = ""
    design: str = ""
    items_scored: int = 0
    cases: int = 0
    #: Why ``evaluate`` stopped: ``precision``, ``budget``, ``exact``, ``design``, ``cases`` or ``interrupted``.
    stop_reason: str | None = None
    #: The value of the full ranking, where a demonstration or a test knows it.
    truth: float | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Row":
        """Make a row from a flat mapping, as another tool may have made it: what is not a finite number is missing."""
        if isinstance(row, cls):
            return row
        metric, reason = row["metric"], row.get("stop_reason")
        value = finite(row.get("value"))
        return cls(
            str(row["model"]), metric if isinstance(metric, Metric) else metric_called(str(metric)),
            math.nan if value is None else value, pair((row.get("low"), row.get("high"))), pair(row.get("bounds")),
            finite(row.get("naive")), str(row.get("estimator", "")), str(row.get("design", "")),
            int(finite(row.get("items_scored")) or 0), int(finite(row.get("cases")) or 0),
            None if reason is None else str(reason), finite(row.get("truth")),
        )  # fmt: skip

    @property
    def exact(self) -> bool:
        """Whether the value is known: its interval is a point, and the data allow nothing else."""
        return self.interval is not None and self.interval[0] == self.interval[1] and self.wider_bounds is None

    @property
    def wider_bounds(self) -> Pair | None:
        """The bounds, unless they are the interval itself but for rounding."""
        if self.bounds is None or self.interval is None:
            return self.bounds
        same = all(abs(one - two) < 1e-9 for one, two in zip(self.bounds, self.interval, strict=True))
        return None if same else self.bounds

    @property
    def spread(self) -> Pair | None:
        """The interval where it is more than a point."""
        return None if self.low == self.high else self.interval

    def shown(self) -> "Row":
        """Return the row without what says nothing: bounds that are the interval, the naive metric of an exact value."""
        value = 0.0 if abs(self.value) < NOTHING else self.value
        # a point that is not exact is one only because the value is zero but for rounding
        interval, naive = (self.interval, None) if self.exact else (self.spread, self.naive)
        bounds = self.wider_bounds
        if value is self.value and interval is self.interval and bounds is self.bounds and naive is self.naive:
            return self  # as most rows: a copy of each takes longer than all that is done with them
        return replace(self, value=value, interval=interval, bounds=bounds, naive=naive)

    def flat(self) -> dict[str, Any]:
        """Return the row with a column for each end of its bounds, as frames want them."""
        least, most = self.bounds or (None, None)
        return {key: self[key] for key in self if key != "bounds"} | {"bounds_low": least, "bounds_high": most}

    @property
    def low(self) -> float | None:
        """The lower end of the interval."""
        return None if self.interval is None else self.interval[0]

    @property
    def high(self) -> float | None:
        """The upper end of the interval."""
        return None if self.interval is None else self.interval[1]

    def __getitem__(self, key: str) -> Any:
        if key not in KEYS and (key != "truth" or self.truth is None):
            raise KeyError(key)
        return str(self.metric) if key == "metric" else getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(KEYS if self.truth is None else (*KEYS, "truth"))

    def __len__(self) -> int:
        return len(KEYS) + (self.truth is not None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        # JSON has lists for pairs
        return dict(self) == {key: tuple(each) if isinstance(each, list) else each for key, each in other.items()}

    __hash__ = None  # type: ignore[assignment]  # equal to dicts, which have none


def pair(ends: Any) -> Pair | None:
    """Return two finite numbers, or ``None``."""
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        return None
    low, high = finite(ends[0]), finite(ends[1])
    return None if low is None or high is None else (low, high)


def finite(value: object) -> float | None:
    """Return the number, or ``None`` for anything that is not a finite one."""
    try:
        number = float(value)  # type: ignore[arg-type]  # anything may come
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@lru_cache(maxsize=1024)
def metric_called(name: str) -> Metric:
    """Return the metric of this name; one of the user's own, whose function a file does not hold, has its name alone."""
    try:
        return parse_metric(name)
    except ValueError:
        match = re.fullmatch(r"(.*)@([1-9][0-9]{0,17})", name, re.DOTALL)
        word, cut = (name, None) if match is None else (match[1], int(match[2]))

        def unknown(ranks: Any) -> np.ndarray[Any, Any]:
            raise ValueError(f"the function of metric `{word}` is not known here: a loaded report knows its name only.")

        return Metric(word, unknown, cut)
