"""The command line: the same words as the library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._version import __version__

if TYPE_CHECKING:
    from .demo import Demo

__all__ = ["app", "main"]

app = typer.Typer(
    name="fullrank",
    help="From sampled ranks to full-catalogue recommendation metrics.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

Html = Annotated[Path | None, typer.Option("--html", help="Also write a self-contained page to this file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines (schema fullrank.report/1).")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"fullrank {__version__}")
        raise typer.Exit


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of the made-up catalogue.")] = 0,
    json: Json = False,
    html: Html = None,
) -> None:
    """See in a few seconds why sampled metrics mislead, and what correction gives.

    Nothing is downloaded: the catalogue (20,000 items, 4,000 users, two recommenders) is drawn from the seed.
    """
    from .demo import run

    result = run(seed)
    if html is not None:
        result.corrected.to_html(html)
    if json:
        typer.echo(result.corrected.to_json())
        return
    for line in demo_lines(result):
        typer.echo(line)


def demo_lines(result: Demo) -> list[str]:
    """The demo as text: one block per metric, bars to compare by eye."""
    lines = [
        "Two recommenders, 4,000 users, 20,000 items. Each user's held-out item is ranked",
        "(a) among all items: the truth, (b) among 99 sampled ones: what is usually",
        "reported, (c) by fullrank, from the very same 99.",
    ]
    for metric in result.truth.metrics:
        lines += ["", metric]
        for label, report, part in (
            ("full ranking", result.truth, "value"),
            ("99 sampled", result.corrected, "naive"),
            ("fullrank", result.corrected, "value"),
        ):
            values = {row["model"]: row[part] for row in report.rows if row["metric"] == metric}
            best = max(values, key=lambda name: values[name])
            for model, value in values.items():
                bar = "█" * round(34 * value)
                row = next(row for row in report.rows if (row["model"], row["metric"]) == (model, metric))
                if part == "value" and row["high"] > row["low"]:
                    bar += f"  95 %: {row['low']:.3f} .. {row['high']:.3f}"
                mark = "<- winner" if model == best else ""
                lines.append(f"  {label:<12} {model:<6} {value:.3f} {bar:<34} {mark}".rstrip())
                label = ""
    return lines


@app.command()
def correct(
    files: Annotated[list[Path], typer.Argument(help="CSV, TSV or Parquet of sampled ranks (one-based).")],
    items: Annotated[
        int | None, typer.Option("--items", "-n", help="Candidates in the full ranking, target included.")
    ] = None,
    negatives: Annotated[int | None, typer.Option(help="Negatives per case, target not counted.")] = None,
    without_replacement: Annotated[bool, typer.Option("--without-replacement", help="Negatives are distinct.")] = False,
    design: Annotated[
        str | None, typer.Option(help="Instead of --negatives: 'uni99', 'adaptive 99..3199 stop 1'.")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="Such as ndcg@10 or recall@5,10.")] = None,
    estimator: Annotated[str | None, typer.Option("--estimator", "-e", help="Such as mle, bv0.01, mn_mle.")] = None,
    json: Json = False,
    html: Html = None,
) -> None:
    """Correct the sampled metrics you already have.

    The file has a column `rank` (and perhaps `model`, `user_id`, `n_items`, `negatives`), or one column of ranks per model.

    Examples:

    `fullrank correct ranks.csv --items 3706 --negatives 99 -m ndcg@10 -m recall@10`

    `fullrank correct ease.parquet als.parquet --items 16980 --negatives 100 --without-replacement`
    """
    from .evaluate import DEFAULT_METRICS, report_on
    from .ranks.counts import RankCounts
    from .ranks.design import Sample, parse_design
    from .ranks.tables import read_ranks

    if (design is None) == (negatives is None):
        raise ValueError("say how negatives were drawn: either --negatives 99 or --design 'uni99'.")
    chosen = parse_design(design) if design is not None else Sample(negatives or 0, not without_replacement)
    counts: dict[str, RankCounts] = {}
    for path in files:
        for table in read_ranks(path):
            n_items = items if table.n_items is None else table.n_items
            if n_items is None:
                raise ValueError("--items is missing: how many candidates (target included) the full ranking has.")
            if table.model in counts:
                raise ValueError(f"two files hold a model named {table.model!r}: rename one.")
            try:
                counts[table.model] = RankCounts.from_ranks(
                    table.ranks, n_items, chosen, drawn=table.drawn, users=table.users, weights=table.weights
                )
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}, model {table.model!r}: {error}") from None
    report = report_on(counts, metric or DEFAULT_METRICS, estimator=estimator)
    if html is not None:
        report.to_html(html)
    typer.echo(report.to_json() if json else str(report))


data_app = typer.Typer(help="List the data sets of the papers, and import their official files.")
app.add_typer(data_app, name="data")


@data_app.callback(invoke_without_command=True)
def data(context: typer.Context, json: Json = False) -> None:
    """List the data sets of the papers: which are here, and what is missing.

    Examples:

    `fullrank data`

    `fullrank data import ml-1m ~/Downloads/ml-1m.zip`
    """
    if context.invoked_subcommand is not None:
        return
    import json as as_json

    from .data import available, data_folder

    found = available()
    if json:
        typer.echo(as_json.dumps(found, indent=2, default=str))
        return
    typer.echo(f"data folder: {data_folder()}  (set FULLRANK_DATA to use another)")
    typer.echo(f"{'name':<14}{'interactions':>13}{'users':>9}{'items':>9}  here")
    for each in found:
        here = "yes" if each["present"] else "official files are there: loads" if each["importable"] else "no"
        typer.echo(f"{each['name']:<14}{each['interactions']:>13,}{each['users']:>9,}{each['items']:>9,}  {here}")
    missing = [each["name"] for each in found if not each["present"] and not each["importable"]]
    if missing:
        typer.echo(f"\n`fullrank data show {missing[0]}` says which file to get and where to put it.")


@data_app.command("show")
def data_show(name: Annotated[str, typer.Argument(help="Name of a data set, such as yelp.")]) -> None:
    """Say which official files a data set needs, where they are found and where to put them."""
    import difflib

    from .data import available

    found = {each["name"]: each for each in available()}
    if name not in found:
        close = difflib.get_close_matches(name, found, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(found)}."
        raise ValueError(f"unknown data set {name!r}: {hint}")
    each = found[name]
    typer.echo(f"{each['title']}: {', '.join(f'{count:,} {what}' for what, count in each['published'].items())}")
    typer.echo(f"files:  {' or '.join(' + '.join(files) for files in each['files'])}")
    typer.echo(f"find:   {each['find']}")
    typer.echo(f"put in: {each['where']}")


@data_app.command("import")
def data_import(
    name: Annotated[str, typer.Argument(help="Name of a data set, such as yelp.")],
    source: Annotated[Path, typer.Argument(help="The official file, folder or zip archive.")],
) -> None:
    """Read the official files of a data set into the data folder."""
    from .data import import_files

    made = import_files(name, source)
    typer.echo(f"{name}: {made['interactions']:,} interactions, {made['users']:,} users, {made['items']:,} items")


def main() -> None:
    """Entry point: bad input ends with one line and exit code 2."""
    try:
        app()
    except (ValueError, TypeError, FileNotFoundError, ImportError) as error:
        typer.echo(f"fullrank: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
