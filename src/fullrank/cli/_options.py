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
    "Absolute",
    "Config",
    "DesignText",
    "Distinct",
    "Estimator",
    "Html",
    "Items",
    "Json",
    "Level",
    "MaxItems",
    "Metrics",
    "Negatives",
    "Precision",
    "Seed",
    "Target",
    "check_page",
    "checksum",
    "show",
    "show_lines",
    "show_page",
    "width",
]  # fmt: skip


def _estimators() -> list[str]:
    from fullrank.estimators import ESTIMATORS

    return [*ESTIMATORS, "bv0.01", "mn_mle"]


def _metrics() -> list[str]:
    return [f"{name}@{k}" for name in ("recall", "ndcg", "ap", "mrr", "hr", "precision") for k in (5, 10, 20)] + ["auc"]


Html = Annotated[
    Path | None, typer.Option("--html", metavar="PATH", help="Also write the report as one self-contained page.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines (schema fullrank.report/2).")]
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
Precision = Annotated[
    float | None,
    typer.Option("--precision", "-p", metavar="P", help="Half-width asked for, as a share of the value, such as 0.02."),
]
Absolute = Annotated[
    bool | None, typer.Option("--absolute", help="The precision is in units of the metric, not a share of it.")
]
MaxItems = Annotated[int | None, typer.Option(metavar="N", help="Most negatives to score, all models together.")]
Config = Annotated[
    Path | None, typer.Argument(metavar="TOML", help="A file with the options below; flags win over it.")
]
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


def check_page(path: Path | None) -> Path | None:
    """Refuse a page that could not be made, before the work whose result it is to show."""
    if path is not None:
        from fullrank.report.charts import load_altair, load_vl_convert
        from fullrank.report.html import check_page_path

        check_page_path(path)
        load_altair(), load_vl_convert()
    return path


def show(result: Any, *, json: bool = False, html: Path | None = None) -> None:
    """Print a result, or its JSON, then write its page where one is asked for, and say so on stderr.

    In this order, so that a page that cannot be written takes nothing else away.
    """
    if json:
        typer.echo(result.to_json())
    else:
        show_lines(result.lines(width()))
    if html is not None:
        show_page(result.to_html(html))


def show_page(path: Path) -> None:
    """Say where a page was written, on stderr: what is piped stays clean."""
    typer.echo(f"page: {path}", err=True)


def checksum(path: Path) -> str:
    """What tells this file from every other: ``sha256:`` and the digest."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def width() -> int:
    """Columns to fill: the terminal's, 80 where there is none; never so few that a number would not fit."""
    return max(shutil.get_terminal_size((80, 24)).columns, 56) if sys.stdout.isatty() else 80


def show_lines(lines: Iterable[str]) -> None:
    """Print lines; on a terminal the verdict and heads are bold, rules faint, warnings yellow (not with ``NO_COLOR``)."""
    lines = list(lines)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    warning = False
    for place, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        rule, head = bool(line) and not line.strip("-"), bool(below) and not below.strip("-")
        warning = line.startswith("! ") or (warning and line.startswith("  "))
        if not colour:
            typer.echo(line)
        else:
            typer.secho(line, bold=head or place == 0, dim=rule, fg="yellow" if warning else None)
