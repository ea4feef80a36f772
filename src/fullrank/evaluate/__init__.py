"""Stage 5, the front door: from models, or from sampled ranks, to a report; and what to sample before anything is."""

from .accumulator import Accumulator
from .compare import Comparison, compare
from .correct import DEFAULT_METRICS, blind_spot, correct, report_on
from .evaluate import evaluate
from .plan import Choice, Plan, plan

__all__ = [
    "DEFAULT_METRICS",
    "Accumulator",
    "Choice",
    "Comparison",
    "Plan",
    "blind_spot",
    "compare",
    "correct",
    "evaluate",
    "plan",
    "report_on",
]
