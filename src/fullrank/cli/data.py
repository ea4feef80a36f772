"""``fullrank data``: list, show, import."""

from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from fullrank._checks import did_you_mean
from fullrank.cli._options import show_lines

app = typer.Typer(rich_markup_mode=None)


def _known() -> dict[str, Any]:
    from fullrank.data import available

    return {each["name"]: each for each in available()}


Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set, such as yelp.", autocompletion=_known)]


@app.callback(invoke_without_command=True)
def data(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines: one object per data set.")] = False,
) -> None:
    """List and import the data sets of the papers.

    \b
    Examples:
      fullrank data
      fullrank data show yelp
      fullrank data import ml-1m ~/Downloads/ml-1m.zip
    """
    if context.invoked_subcommand is not None:
        return
    from fullrank.data import data_folder

    found = list(_known().values())
    if json:
        typer.echo(dumps(found, indent=2, default=str))
        return
    lines = [f"data folder: {data_folder()}  (set FULLRANK_DATA to use another)"]
    lines += [f"{'name':<14}{'interactions':>13}{'users':>9}{'items':>9}  here", "-" * 53]
    for each in found:
        here = "yes" if each["present"] else "official files: loads" if each["importable"] else "no"
        lines.append(f"{each['name']:<14}{each['interactions']:>13,}{each['users']:>9,}{each['items']:>9,}  {here}")
    missing = [each["name"] for each in found if not each["present"] and not each["importable"]]
    if missing:
        lines += ["", f"`fullrank data show {missing[0]}` says which file to get and where to put it."]
    show_lines(lines)


@app.command("show")
def data_show(name: Name) -> None:
    """Say which files a data set needs.

    Where they are found, and where to put them.

    \b
    Example:
      fullrank data show yelp
    """
    found = _known()
    if name not in found:
        hint = did_you_mean(name, found, f"; the data sets are {', '.join(found)}.")
        raise ValueError(f"unknown data set {name!r}{hint}")
    each = found[name]
    typer.echo(f"{each['title']}: {', '.join(f'{count:,} {what}' for what, count in each['published'].items())}")
    typer.echo(f"files:  {' or '.join(' + '.join(files) for files in each['files'])}")
    typer.echo(f"find:   {each['find']}")
    typer.echo(f"put in: {each['where']}")


@app.command("import")
def data_import(
    name: Name,
    source: Annotated[Path, typer.Argument(metavar="PATH", help="The official file, folder or zip archive.")],
) -> None:
    """Read the official files of a data set.

    \b
    Example:
      fullrank data import ml-1m ~/Downloads/ml-1m.zip
    """
    from fullrank.data import import_files

    made = import_files(name, source)
    typer.echo(f"{name}: {made['interactions']:,} interactions, {made['users']:,} users, {made['items']:,} items")
