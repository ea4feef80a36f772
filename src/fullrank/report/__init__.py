"""Stage 6: what people see: tables, JSON, pages."""

from fullrank.report.comparison import Comparison, Difference
from fullrank.report.report import Report, Run, Winner
from fullrank.report.row import Row

__all__ = ["Comparison", "Difference", "Report", "Row", "Run", "Winner"]
