"""What every verb has: its options, and how its answer is shown."""

import codecs
import io
import json
import os
import shutil
import sys
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer import Argument, Option

from fullrank._checks import did_you_mean
from fullrank._files import existing, writable
from fullrank.estimators import ESTIMATORS
from fullrank.report.panels import load

#: Flags that may be repeated, as a TOML file and the library name them.
_PLURAL = {"metric": "metrics", "model": "models"}
#: What shells complete.
_METRICS = [f"{name}@{k}" for name in ("recall", "ndcg", "ap", "mrr", "hr", "precision") for k in (5, 10, 20)] + ["auc"]


Text: TypeAlias = str | None
File: TypeAlias = Path | None
Whole: TypeAlias = int | None

Html = Annotated[File, Option("--html", metavar="PATH", help="Also write the report as one self-contained page.")]
Json = Annotated[bool, Option("--json", help="Print JSON for machines (schema fullrank.report/2).")]
Candidates = Annotated[Text, Option(
    metavar="RULE",
    help="'unseen': a user's training items are no candidates (usual); 'all': they are; or a name of your own.",
)]  # fmt: skip
# what else a verb that reads files of ranks and scores may be told, under the names of `read_counts`
Columns = Annotated[list[str] | None, Option(
    "--columns", metavar="NAMES", help="Columns of ranks, one per model, such as EASE,ALS; else found by their names."
)]  # fmt: skip
Targets = Annotated[File, Option(metavar="FILE", help="Each user's target, where scores have no label.")]
Lists = Annotated[File, Option(metavar="FILE", help="Candidates to rank: NCF's .test.negative, or Elliot's.")]
Qrels = Annotated[File, Option(metavar="FILE", help="Judgements: the FILEs are TREC runs.")]
TrainPairs = Annotated[File, Option(
    "--train", metavar="FILE", help="Training pairs, which are no candidates; --items then counts all items."
)]  # fmt: skip
Items = Annotated[Whole, Option("--items", "-n", metavar="N", help="Candidates in the full ranking, target included.")]
Negatives = Annotated[Whole, Option(metavar="M", help="Negatives per case, target not counted.")]
Distinct = Annotated[bool, Option("--without-replacement", help="Negatives are distinct.")]
DesignText = Annotated[Text, Option(
    metavar="TEXT", help="Instead of --negatives: 'uni99', 'adaptive 99..3199 stop 1', 'full'."
)]  # fmt: skip
Target = Annotated[Text, Option(
    metavar="WHAT", help="Intervals are for these 'cases' (default) or for the 'population' behind them."
)]  # fmt: skip
Level = Annotated[float | None, Option(metavar="P", help="Level of the intervals, 0.95 by default.")]
Precision = Annotated[float | None, Option(
    "--precision", "-p", metavar="P", help="Half-width asked for, as a share of the value, such as 0.02."
)]  # fmt: skip
Absolute = Annotated[bool | None, Option("--absolute", help="The precision is in units of the metric, not a share.")]
MaxItems = Annotated[Whole, Option(metavar="N", help="The most negatives to score, over all models.")]
Config = Annotated[File, Argument(metavar="TOML", help="A file with the options below; flags win over it.")]
Seed = Annotated[int, Option("--seed", min=0, metavar="INT", help="Seed of everything drawn at random.")]
Metrics = Annotated[list[str] | None, Option(
    "--metric", "-m", metavar="NAME@K", help="Such as ndcg@10 or recall@5,10; may be repeated.",
    autocompletion=lambda: _METRICS,
)]  # fmt: skip
Models = Annotated[list[str] | None, Option(
    "--model", "-M", metavar="NAME=WHAT",
    help="NAME=users.npy,items.npy | NAME=model.npz | NAME=module:name | NAME=scores.parquet",
)]  # fmt: skip
Estimator = Annotated[Text, Option(
    "--estimator", "-e", metavar="NAME", help="Such as logspline (default), mle, bv0.01, mn_mle, naive.",
    autocompletion=lambda: [*ESTIMATORS, "bv0.01"],
)]  # fmt: skip


def settings(config: Path | None, flags: Mapping[str, Any], *unsaved: str) -> dict[str, Any]:
    """Return the options of a verb: those of a TOML file, and over them the flags that were given.

    ``flags`` are the ``locals()`` of a verb before it does anything. A file may hold all of them but the ``unsaved`` ones;
    another key is an error.
    """
    known = {_PLURAL.get(key, key): value for key, value in flags.items() if key not in {"config", "json", *unsaved}}
    given = {key: value for key, value in known.items() if value is not None and value is not False and value != []}
    found = {} if config is None else read_toml(config, known)
    if {"negatives", "design"} & given.keys():  # the flag's way of saying how negatives were drawn replaces the file's
        found = {key: value for key, value in found.items() if key not in {"negatives", "design"}}
    return {**found, **given}


#: What the values of a file must be, where it is not a word: the type, in words, and the options.
_KINDS: tuple[tuple[Any, str, tuple[str, ...]], ...] = (
    (int, "a whole number", ("items", "negatives", "seed", "n_items", "cases")),
    (int | float, "a number", ("precision", "level", "max_items", "max_seconds")),
    (bool, "true or false", ("without_replacement",)),
    (str | list, "a name or a list of them", ("metrics", "columns")),
    (dict | list, "a table or a list of names", ("models",)),
)


def read_toml(path: Path, known: Iterable[str]) -> dict[str, Any]:
    """Read options from a TOML file; an unknown key is an error with the one that was probably meant."""
    try:
        document = tomllib.loads(existing(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} is not TOML: {error}.") from None
    words = [each.replace("_", "-") for each in known]
    for key in document:
        if key.replace("_", "-") not in words:
            hint = did_you_mean(key.replace("_", "-"), words, f"; the keys are {', '.join(words)}.")
            raise ValueError(f"{str(path)!r} has an unknown key {key!r}{hint}")
    found = {key.replace("-", "_"): value for key, value in document.items()}
    for key, value in found.items():
        kinds, what = next((each for each in _KINDS if key in each[2]), (object, "", ()))[:2]
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds not in (bool, object)):
            raise ValueError(f"{str(path)!r}: `{key}` must be {what}, got {value!r}.")
    models = found.get("models", {})
    for name, value in models.items() if isinstance(models, dict) else [("", each) for each in models]:
        if not isinstance(value, str):
            raise ValueError(f"{str(path)!r}: model `{name}` must be a file or a function, in quotes, got {value!r}.")
    return {key: value for key, value in found.items() if value is not False}  # as a flag that was not given


def check_page(path: str | Path | None) -> Path | None:
    """Refuse a page that could not be made, before the work whose result it is to show."""
    if path is None:
        return None
    load("altair"), load("vl_convert")
    return writable(path)


def show(result: Any, *, json: bool = False, html: Path | None = None, lines: Iterable[str] | None = None) -> None:
    """Print a result (or the lines that stand for it), or its JSON, then write its page where one is asked for.

    In this order, so that a page that cannot be written takes nothing else away. Where the page is goes to stderr: what is
    piped stays clean.
    """
    if json:
        typer.echo(result.to_json())
    else:
        show_lines(result.lines(width()) if lines is None else lines)
    if html is not None:
        typer.echo(f"page: {result.to_html(html)}", err=True)


#: What a terminal without Unicode is given for the signs of numbers and bars; a lost minus would be another number.
_PLAIN = {"−": "-", "–": "-", "…": "...", "×": "x", "█": "#", "±": "+/-", "’": "'"}


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Write what an encoding lacks by plain characters, and the rest as JSON does."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    out = ""
    for lost in error.object[error.start : error.end]:
        plain = _PLAIN.get(lost) or unicodedata.normalize("NFKC", lost)
        out += plain if plain.isascii() else json.dumps(lost)[1:-1]
    return out, error.end


def write_any_terminal() -> None:
    """Let what is printed pass through terminals and pipes that are not Unicode, such as Windows' in Western Europe."""
    codecs.register_error("plainly", _plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors="plainly")


def width() -> int:
    """Return the columns to fill: the terminal's, 80 where there is none; never too few for a number."""
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
