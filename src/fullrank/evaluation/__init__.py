"""Stage 5, the front door: from models, or from sampled ranks, to a report; and what to sample before anything is."""

from fullrank.evaluation.accumulator import Accumulator
from fullrank.evaluation.compare import compare
from fullrank.evaluation.correct import DEFAULT_METRICS, correct, report_on
from fullrank.evaluation.plan import Choice, Plan, plan

__all__ = ["DEFAULT_METRICS", "Accumulator", "Choice", "Plan", "compare", "correct", "plan", "report_on"]
