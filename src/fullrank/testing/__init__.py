"""Contract checks for your own estimator, design or scorer: the same that run over those of the package.

Each raises ``AssertionError`` with a sentence on what is wrong, and returns ``None`` when all is well.

>>> import fullrank as fr
>>> from fullrank.testing import check_design, check_estimator
>>> check_estimator(fr.MLE())
>>> check_design(fr.Sample(9))
"""

from importlib import import_module
from typing import Any

from fullrank.testing.designs import check_design
from fullrank.testing.estimators import check_estimator

__all__ = ["check_design", "check_estimator", "check_scorer"]


def __getattr__(name: str) -> Any:
    """Load ``check_scorer`` when it is asked for: scorers bring more with them than counts do."""
    if name == "check_scorer":
        return import_module("fullrank.testing.scorers").check_scorer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
