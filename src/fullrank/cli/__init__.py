"""The command line: the same words as the library; a verb is a file."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .._version import __version__
from . import compare, correct, data, demo

__all__ = ["app", "main"]

app = typer.Typer(
    name="fullrank",
    help="From sampled ranks to full-catalogue recommendation metrics.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"fullrank {__version__}")
        raise typer.Exit


app.command()(demo.demo)
app.command()(correct.correct)
app.command()(compare.compare)
app.add_typer(data.app, name="data")


def main() -> None:
    """Entry point: bad input ends with one line and exit code 2."""
    try:
        app()
    except (ValueError, TypeError, FileNotFoundError, ImportError) as error:
        typer.echo(f"fullrank: {error}", err=True)
        sys.exit(2)
