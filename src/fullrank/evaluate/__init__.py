"""Stage 5, the front door: from models, or from sampled ranks, to a report; and what to sample before anything is."""

from .accumulator import Accumulator
from .compare import compare
from .correct import DEFAULT_METRICS, correct, report_on
from .evaluate import evaluate
from .plan import Choice, Plan, plan

__all__ = [
    "DEFAULT_METRICS",
    "Accumulator",
    "Choice",
    "Plan",
    "compare",
    "correct",
    "evaluate",
    "plan",
    "report_on",
]
