"""Options that every verb has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Html", "Json"]

Html = Annotated[Path | None, typer.Option("--html", help="Also write a self-contained page to this file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines (schema fullrank.report/1).")]
