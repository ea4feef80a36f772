"""Stage 6: what people see: tables, JSON, pages."""

from .report import Report

__all__ = ["Report"]
