"""Stage 5, the front door: from sampled ranks to a report."""

from .accumulator import Accumulator
from .compare import Comparison, compare
from .correct import DEFAULT_METRICS, blind_spot, correct, report_on

__all__ = ["DEFAULT_METRICS", "Accumulator", "Comparison", "blind_spot", "compare", "correct", "report_on"]
