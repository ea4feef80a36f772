"""The command line: the same words as the library; a verb is a file."""

import re
import sys
from typing import Annotated, Any

import typer

from fullrank._checks import did_you_mean
from fullrank._version import __version__
from fullrank.cli import compare, correct, data, demo, evaluate, plan
from fullrank.cli._options import write_any_terminal
from fullrank.report.words import clean

app = typer.Typer(
    name="fullrank",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help as plain text: it fits 80 columns, and examples can be copied
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """From sampled ranks to full-catalogue recommendation metrics, with intervals.

    \b
    Examples:
      fullrank demo                     see what it is for; nothing to download
      fullrank correct ranks.csv --items 3706 --negatives 99 -m ndcg@10
      fullrank evaluate --data ml-1m -M als=users.npy,items.npy --precision 0.02
      fullrank correct --help           every verb explains itself by example

    Verbs take --json for machines and --html PATH for a page. Exit codes: 0 for success,
    1 for a fault of fullrank itself, 2 for bad input (one line says what), 130 for an interrupt.
    """
    if version:
        typer.echo(f"fullrank {__version__}")
        raise typer.Exit


app.command(short_help="See why sampled metrics mislead.")(demo.demo)
app.command(short_help="Correct sampled ranks you already have.")(correct.correct)
app.command(short_help="Evaluate models, as precisely as you ask.")(evaluate.evaluate)
app.command(short_help="Say who is best, and how sure that is.")(compare.compare)
app.command(short_help="Say what to sample, and what it costs.")(plan.plan)
app.add_typer(data.app, name="data", short_help="List and import data sets.")


@app.command(
    hidden=True,  # for those who remember it
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def reproduce(context: typer.Context) -> None:
    """Say where the papers' tables and figures are: in a package of their own, `fullrank-papers`."""
    typer.echo("`fullrank reproduce` is now `fullrank-papers`, in papers/ of a checkout: pip install ./papers")
    if context.args:  # work that is not done here was asked for
        raise typer.Exit(2)


def main() -> None:
    """Entry point: bad input ends with one line and exit code 2, ctrl-C with 130."""
    code = 2
    write_any_terminal()
    try:
        done = app(standalone_mode=False, prog_name="fullrank") or 0
        if done != 130:  # which is how some versions of Typer report a ctrl-C
            sys.exit(done)
        code, message = 130, "interrupted."
    except (ValueError, TypeError, ImportError) as error:
        message = str(error)
    except OSError as error:  # a folder for a file, no permission, a full disk
        named = "" if error.filename is None else f"{str(error.filename)!r}: "
        message = str(error) if error.strerror is None else f"{named}{error.strerror.lower()}."
    except MemoryError as error:
        message = f"not enough memory: {error}"
    except (KeyboardInterrupt, typer.Abort):
        code, message = 130, "interrupted."
    except Exception as error:
        if not hasattr(error, "format_message"):  # a mistake of ours: the traceback is what helps
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())
            sys.exit(2)
        message = _usage(error)
    typer.echo(f"fullrank: {clean(message, 600)}", err=True)
    sys.exit(code)


def _usage(error: Any) -> str:
    """Explain a mistyped verb or option in one sentence, with what was probably meant and where help is."""
    context = getattr(error, "ctx", None)
    command = "fullrank" if context is None else context.command_path
    text = str(error.format_message()).split(" (Possible options")[0].rstrip(".")
    text = text[:1].lower() + text[1:]
    text = re.sub(r"Input should be a valid integer\b.*", "it must be a whole number", text)  # in Pydantic's words
    text = re.sub(r"Input should be a valid number\b.*", "it must be a number", text)
    text = re.sub(
        r"Input should be greater than or equal to (\S+)|\S+ is not in the range x>=(\S+)",
        r"it must be at least \1\2",
        text,
    )
    mistyped = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and context is not None:
        known = [name for option in context.command.params for name in option.opts if name.startswith("--")]
        text = f"no such option {mistyped}{did_you_mean(mistyped, known, '')}"
    text = re.sub(r"\. Did you mean ('[^']*').*", r"; did you mean \1?", text)  # the nearest is enough
    return f"{text}{';' * (not text.endswith('?'))} see `{command} --help`."
