"""Stage 5, the front door: from sampled ranks to a report."""

from .correct import DEFAULT_METRICS, blind_spot, correct, report_on

__all__ = ["DEFAULT_METRICS", "blind_spot", "correct", "report_on"]
