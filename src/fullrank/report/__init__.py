"""Stage 6: what people see: tables, JSON, pages."""

from .comparison import Comparison, Difference
from .report import Report, Run, Winner
from .row import Row

__all__ = ["Comparison", "Difference", "Report", "Row", "Run", "Winner"]
