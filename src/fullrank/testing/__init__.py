"""Contract checks for your own estimator, design or scorer: the same that run over those of the package.

Each raises ``AssertionError`` with a sentence on what is wrong, and returns ``None`` when all is well.

>>> import fullrank as fr
>>> from fullrank.testing import check_design, check_estimator
>>> check_estimator(fr.MLE())
>>> check_design(fr.Sample(9))
"""

from __future__ import annotations

from typing import Any

from fullrank.testing.designs import check_design
from fullrank.testing.estimators import check_estimator

__all__ = ["check_design", "check_estimator", "check_scorer"]


def __getattr__(name: str) -> Any:
    """``check_scorer`` is loaded when asked for: scorers bring more with them than counts do."""
    if name == "check_scorer":
        from importlib import import_module

        return import_module(".scorers", __name__).check_scorer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
