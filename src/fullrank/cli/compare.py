"""``fullrank compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fullrank.cli._counts import design_of, read_models
from fullrank.cli._models import read_config
from fullrank.cli._options import (
    Candidates,
    DesignText,
    Distinct,
    Estimator,
    Html,
    Items,
    Level,
    Metrics,
    Negatives,
    Seed,
    Target,
    show_lines,
    show_page,
    width,
)

__all__ = ["compare"]


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Sampled ranks, scored candidates or saved counts, as in `fullrank correct`; or one TOML file.",
        ),
    ],
    items: Items = None,
    negatives: Negatives = None,
    without_replacement: Distinct = False,
    design: DesignText = None,
    metric: Metrics = None,
    candidates: Candidates = None,
    estimator: Estimator = None,
    target: Target = None,
    level: Level = None,
    seed: Seed = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (a list of fullrank.comparison/1).")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    html: Html = None,
) -> None:
    """Compare models: who is best, how sure that is, and which cannot be told apart.

    A file of ranks has a column `rank` (and perhaps `model`, `user_id`, `n_items`, `negatives`), or one column of ranks per
    model. A file of counts is named after its model.

    \b
    Examples:
      fullrank compare ranks.csv --items 3706 --negatives 99 -m ndcg@10
      fullrank compare ease.npz als.npz --latex -m ndcg@10 -m recall@10
      fullrank compare run.toml

    \b
    where run.toml holds (flags win over it)
      files = ["ranks.csv"]
      items = 3706
      design = "uni99"
      metrics = ["ndcg@10"]
    """
    from fullrank.estimators.intervals import check_interval
    from fullrank.evaluation import compare as run
    from fullrank.evaluation import report_on
    from fullrank.metrics import parse_metrics

    if json + latex + markdown > 1:
        raise ValueError("--json, --latex and --markdown exclude one another: give one.")
    flags = {
        "items": items, "negatives": negatives, "without_replacement": without_replacement or None, "design": design,
        "metrics": metric, "candidates": candidates, "estimator": estimator, "target": target, "level": level,
    }  # fmt: skip
    given, paths = _settings(files, {key: value for key, value in flags.items() if value is not None})
    target, level = str(given.get("target", "cases")), float(given.get("level", 0.95))
    check_interval(level, target)
    drawn = design_of(given.get("negatives"), given.get("design"), bool(given.get("without_replacement")))
    counts = read_models(paths, drawn, given.get("items"), given.get("candidates"), seed)
    if len(counts) < 2:
        raise ValueError(f"there is one model, {next(iter(counts))!r}: a comparison needs at least two.")
    wanted = parse_metrics(given.get("metrics") or ["ndcg@10"])
    report = report_on(counts, wanted, estimator=given.get("estimator"), level=level, target=target)
    found = [run(report, each) for each in wanted]
    if latex or markdown:
        typer.echo(report.to_latex() if latex else report.to_markdown())
    elif json:
        typer.echo("[\n" + ",\n".join(each.to_json() for each in found) + "\n]")
    else:
        show_lines([line for each in found for line in ["", *each.lines(width())]][1:])
    if html is not None:
        from fullrank.report.html import comparison_page, write_page

        show_page(write_page(comparison_page(found), html))


_KEYS = (
    "files", "items", "negatives", "without_replacement", "design", "metrics", "candidates", "estimator", "target", "level",
)  # fmt: skip


def _settings(files: list[Path], flags: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
    """Options and files, from flags and, where one is named, a TOML file; flags win."""
    tables = [path for path in files if path.suffix.lower() == ".toml"]
    if not tables:
        return flags, files
    if len(tables) > 1:
        raise ValueError("there are two TOML files: give one.")
    path = tables[0]
    found = read_config(path, _KEYS)
    if {"negatives", "design"} & set(flags):  # the flag's way of saying how negatives were drawn replaces the file's
        found = {key: value for key, value in found.items() if key not in {"negatives", "design"}}
    named = found.pop("files", [])
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise ValueError(f"`files` in {str(path)!r} must be a list of names, as in files = ['ranks.csv'].")
    more = [Path(each) for each in named]
    rest = [each for each in files if each is not path]
    if not more + rest:
        raise ValueError(f"{str(path)!r} names no files: add files = ['ranks.csv'].")
    return {**found, **flags}, [*rest, *more]
