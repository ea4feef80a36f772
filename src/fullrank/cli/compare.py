"""``fullrank compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fullrank.cli._counts import counts_from
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
    say_page,
    show_lines,
    width,
)

if TYPE_CHECKING:
    from fullrank.ranks.counts import RankCounts
    from fullrank.ranks.design import Design

__all__ = ["compare"]


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="CSV, TSV or Parquet of sampled ranks, counts saved by RankCounts.save, or one TOML file.",
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
        raise ValueError("--json, --latex and --markdown exclude one another: ask for one.")
    flags = {
        "items": items, "negatives": negatives, "without_replacement": without_replacement or None, "design": design,
        "metrics": metric, "candidates": candidates, "estimator": estimator, "target": target, "level": level,
    }  # fmt: skip
    given, paths = _settings(files, {key: value for key, value in flags.items() if value is not None})
    target, level = str(given.get("target", "cases")), float(given.get("level", 0.95))
    check_interval(level, target)
    drawn = _design(given)
    counts = counts_from(paths, lambda path: _read(path, given.get("items"), drawn, given.get("candidates"), seed))
    if len(counts) < 2:
        raise ValueError(f"there is one model, {next(iter(counts))!r}: a comparison needs at least two.")
    wanted = parse_metrics(given.get("metrics") or ["ndcg@10"])
    report = report_on(counts, wanted, estimator=given.get("estimator"), level=level, target=target)
    if html is not None:
        say_page(report.to_html(html))
    if latex or markdown:
        typer.echo(report.to_latex() if latex else report.to_markdown())
        return
    found = [run(report, each) for each in wanted]
    if json:
        typer.echo("[\n" + ",\n".join(each.to_json() for each in found) + "\n]")
        return
    show_lines([line for each in found for line in ["", *each.lines(width())]][1:])


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
    told = found.pop("files", [])
    if not isinstance(told, list) or not all(isinstance(each, str) for each in told):
        raise ValueError(f"`files` in {str(path)!r} must be a list of names, as in files = ['ranks.csv'].")
    more = [Path(each) for each in told]
    rest = [each for each in files if each is not path]
    if not more + rest:
        raise ValueError(f"{str(path)!r} names no files: add files = ['ranks.csv'].")
    return {**found, **flags}, [*rest, *more]


def _design(given: dict[str, Any]) -> Design | None:
    from fullrank.ranks.design import Sample, parse_design

    design, negatives = given.get("design"), given.get("negatives")
    if design is not None and negatives is not None:
        raise ValueError("say how negatives were drawn once: either --negatives 99 or --design 'uni99'.")
    if design is not None:
        return parse_design(design)
    return None if negatives is None else Sample(negatives, not given.get("without_replacement", False))


def _read(
    path: Path, items: int | None, design: Design | None, candidates: str | None, seed: int
) -> dict[str, RankCounts]:
    """Saved counts, or whatever :func:`read_counts` takes."""
    from fullrank.evaluation.correct import refuse_other_candidates
    from fullrank.ranks.counts import RankCounts
    from fullrank.reading.tables import read_counts

    if path.suffix.lower() == ".npz":
        counts = RankCounts.load(path)
        refuse_other_candidates(counts, candidates)
        return {path.stem: counts}
    if design is None:
        raise ValueError("say how negatives were drawn: either --negatives 99 or --design 'uni99'.")
    return read_counts(path, design, items, candidates="unseen" if candidates is None else candidates, rng=seed)
