"""``fullrank-papers``: one command."""

from __future__ import annotations

import json as as_json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["main"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def papers(
    names: Annotated[list[str] | None, typer.Argument(help="Tables or figures, such as kr20-table3.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name everything there is, and leave.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Everything the data at hand allow.")] = False,
    repeats: Annotated[int | None, typer.Option(min=2, help="Repeats, instead of the papers' 100.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the samples, instead of each experiment's own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write figures (PNG) and results (JSON) to this folder.")
    ] = None,
    doc: Annotated[
        Path | None,
        typer.Option(
            "--doc", help="Write the page of the documentation to this file, its pictures to a folder beside it."
        ),
    ] = None,
    neural: Annotated[
        list[str] | None,
        typer.Option("--neural", help="Data set to train NeuMF, MultiVAE and NGCF on (long); repeatable."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes that share the work.")] = 1,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines (a list of fullrank.reproduce/1).")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="PATH", help="Also write everything as one self-contained page.")
    ] = None,
) -> None:
    """Reproduce the papers' tables and figures: measured beside published.

    What was trained or fitted is kept (in `FULLRANK_CACHE`, else the platform's cache), so a second run takes seconds, and
    an interrupted one goes on. Missing data are named, and the rest runs.

    \b
    Examples:
      fullrank-papers --list
      fullrank-papers kr20-table3
      fullrank-papers --all --jobs 2 --out out --html out/all.html
    """
    from . import experiment, run_all, time_spent
    from .drawing import png
    from .keeping import write
    from .show import as_html, as_markdown, as_text, listing, pictures

    if list_:
        typer.echo("\n".join(listing()))
        return
    if not names and not all_:
        raise ValueError("say what to reproduce: a name such as kr20-table3, --all, or --list to see the names.")
    if names and all_:
        raise ValueError("give names or --all, not both.")
    wanted = None if all_ else [experiment(name).name for name in dict.fromkeys(names or [])]
    results = []
    for result in run_all(wanted, repeats=repeats, seed=seed, neural=neural or (), jobs=jobs, progress=not json):
        results.append(result)
        if not json:
            typer.echo("\n".join([*as_text(result), ""]))
        if out is not None:
            name = result.experiment.name
            write(out / f"{name}.json", as_json.dumps(result.to_dict(), indent=1).encode())
            if result.panels:
                write(out / f"{name}.png", png(result.panels))
                if not json:
                    typer.echo(f"wrote {out / f'{name}.png'}\n")
    if json:
        typer.echo(as_json.dumps([result.to_dict() for result in results], indent=1))
    if html is not None:
        write(html, as_html(results).encode())
        typer.echo(f"page: {html}", err=True)
    if doc is not None:
        for name, picture in pictures(results).items():
            write(doc.with_suffix("") / name, picture.encode())
        write(doc, as_markdown(results, time_spent(), doc.stem).encode())


def main() -> None:
    """Entry point: bad input ends with one line and exit code 2."""
    try:
        app(prog_name="fullrank-papers")
    except (ValueError, TypeError, ImportError, OSError) as error:
        typer.echo(f"fullrank-papers: {' '.join(str(error).split())}", err=True)
        raise SystemExit(2) from None
