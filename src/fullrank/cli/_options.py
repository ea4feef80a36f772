"""What every verb has: its options, and how its answer is shown."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "DesignText", "Distinct", "Estimator", "Html", "Items", "Json", "Level", "Metrics", "Negatives", "Seed", "Target",
    "checksum", "say_page", "show", "show_lines", "width",
]  # fmt: skip


def _estimators() -> list[str]:
    from fullrank.estimators import ESTIMATORS

    return [*ESTIMATORS, "bv0.01", "mn_mle"]


def _metrics() -> list[str]:
    return [f"{name}@{k}" for name in ("recall", "ndcg", "ap", "mrr", "hr", "precision") for k in (5, 10, 20)] + ["auc"]


Html = Annotated[
    Path | None, typer.Option("--html", metavar="PATH", help="Also write the report as one self-contained page.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines (schema fullrank.report/1).")]
Candidates = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="'unseen': a user's training items are no candidates (usual); 'all': they are; or a name of your own.",
    ),
]
Items = Annotated[
    int | None, typer.Option("--items", "-n", metavar="N", help="Candidates in the full ranking, target included.")
]
Negatives = Annotated[int | None, typer.Option(metavar="M", help="Negatives per case, target not counted.")]
Distinct = Annotated[bool, typer.Option("--without-replacement", help="Negatives are distinct.")]
DesignText = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Instead of --negatives: 'uni99', 'adaptive 99..3199 stop 1', 'full'."),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="WHAT", help="Intervals speak of these 'cases' (default) or of the 'population' behind them."),
]
Level = Annotated[float | None, typer.Option(metavar="P", help="Level of the intervals, 0.95 by default.")]
Seed = Annotated[int, typer.Option("--seed", metavar="INT", help="Seed of everything drawn at random.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        metavar="NAME@K",
        help="Such as ndcg@10 or recall@5,10; may be repeated.",
        autocompletion=_metrics,
    ),
]
Estimator = Annotated[
    str | None,
    typer.Option(
        "--estimator", "-e", metavar="NAME", help="Such as logspline (default), mle, bv0.01, mn_mle, naive.",
        autocompletion=_estimators,
    ),
]  # fmt: skip


def show(report: Any, *, json: bool = False, html: Path | None = None) -> None:
    """Print a report, or its JSON; write its page first where one is asked for, and say so on stderr."""
    if html is not None:
        say_page(report.to_html(html))
    if json:
        typer.echo(report.to_json())
    else:
        show_lines(report.lines(width()))


def say_page(path: Path) -> None:
    """Where a page was written, on stderr: what is piped stays clean."""
    typer.echo(f"page: {path}", err=True)


def checksum(path: Path) -> str:
    """What tells this file from every other: ``sha256:`` and the digest."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def width() -> int:
    """Columns to fill: the terminal's, 80 where there is none; never so few that a number would not fit."""
    return max(shutil.get_terminal_size((80, 24)).columns, 56) if sys.stdout.isatty() else 80


def show_lines(lines: Iterable[str]) -> None:
    """Print lines as they are; on a terminal heads are bold, rules faint and remarks yellow (not with ``NO_COLOR``)."""
    lines = list(lines)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    remark = False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        rule = bool(line) and not line.strip("-")
        remark = line.startswith("! ") or (remark and line.startswith("  "))
        if not colour:
            typer.echo(line)
        elif below and not below.strip("-"):
            typer.secho(line, bold=True)
        elif rule:
            typer.secho(line, dim=True)
        elif remark:
            typer.secho(line, fg="yellow")
        else:
            typer.echo(line)
