"""``fullrank reproduce``: where it went."""

from __future__ import annotations

import typer


def reproduce(context: typer.Context) -> None:
    """Say where the papers' tables and figures are: in a package of their own, `fullrank-papers`."""
    typer.echo(
        "`fullrank reproduce` is now `fullrank-papers`, in the folder papers/ of a checkout: pip install ./papers"
    )
    if context.args:  # work that is not done here was asked for
        raise typer.Exit(2)
