"""``fullrank compare``."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from fullrank import evaluation
from fullrank.cli import _options as o
from fullrank.cli._inputs import answers, read_models
from fullrank.metrics import parse_metrics
from fullrank.report.html import comparison_page, write_page


def compare(
    files: Annotated[list[Path], Argument(metavar="FILE", help="Files as in `fullrank correct`; or one TOML file.")],
    items: o.Items = None,
    negatives: o.Negatives = None,
    without_replacement: o.Distinct = False,
    design: o.DesignText = None,
    metric: o.Metrics = None,
    candidates: o.Candidates = None,
    estimator: o.Estimator = None,
    target: o.Target = None,
    level: o.Level = None,
    columns: o.Columns = None,
    targets: o.Targets = None,
    lists: o.Lists = None,
    qrels: o.Qrels = None,
    train: o.TrainPairs = None,
    seed: o.Seed = 0,
    json: Annotated[bool, Option("--json", help="Print JSON (a list of fullrank.comparison/1).")] = False,
    latex: Annotated[bool, Option("--latex", help="Print a LaTeX table.")] = False,
    markdown: Annotated[bool, Option("--markdown", help="Print a Markdown table.")] = False,
    html: o.Html = None,
) -> None:
    """Compare models: who is best, how sure that is, and which cannot be told apart.

    A file holds ranks, scores, a TREC run or saved counts, as `fullrank correct --help` says. It is named after its model,
    unless a column `model`, or one column of ranks per model, names them.

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
    tables = [path for path in files if path.suffix.lower() == ".toml"]
    given = o.settings(
        tables[0] if tables else None, {**locals(), "files": None}, "tables", "seed", "latex", "markdown", "html"
    )
    if json + latex + markdown > 1:
        raise ValueError("--json, --latex and --markdown exclude one another: give one.")
    chosen = answers(given)
    counts = read_models(_files(files, tables, given.pop("files", [])), given, seed)
    if len(counts) < 2:
        raise ValueError(f"there is one model, {next(iter(counts))!r}: a comparison needs at least two.")
    wanted = parse_metrics(given.get("metrics", "ndcg@10"))
    report = evaluation.report_on(counts, wanted, **chosen)
    found = [evaluation.compare(report, each) for each in wanted]
    if json:
        typer.echo("[\n" + ",\n".join(each.to_json() for each in found) + "\n]")
    elif latex or markdown:
        o.show_lines((report.to_latex() if latex else report.to_markdown()).splitlines())
    else:
        o.show_lines([line for each in found for line in ["", *each.lines(o.width())]][1:])
    if html is not None:
        typer.echo(f"page: {write_page(comparison_page(found), html)}", err=True)


def _files(files: list[Path], tables: list[Path], named: Any) -> list[Path]:
    """Return the files to compare: those on the command line, and those that a TOML file names."""
    if len(tables) > 1:
        raise ValueError("there are two TOML files: give one.")
    found = [path for path in files if path not in tables]
    if not (isinstance(named, list) and all(isinstance(each, str) for each in named) and (named or found)):
        raise ValueError(f"`files` in {str(tables[0])!r} must be a list of names, as in files = ['ranks.csv'].")
    return [*found, *map(Path, named)]
