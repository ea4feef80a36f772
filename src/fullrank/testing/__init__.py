"""Contract checks for your own estimator, design or scorer: the same that run over those of the package.

Each raises ``AssertionError`` with a sentence on what is wrong, and returns ``None`` when all is well.

>>> import fullrank as fr
>>> from fullrank.testing import check_design, check_estimator
>>> check_estimator(fr.MLE())
>>> check_design(fr.Sample(9))
"""

from fullrank.testing.designs import check_design
from fullrank.testing.estimators import check_estimator
from fullrank.testing.scorers import check_scorer

__all__ = ["check_design", "check_estimator", "check_scorer"]
