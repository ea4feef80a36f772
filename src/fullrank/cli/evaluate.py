"""``fullrank evaluate``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import fullrank as fr
from fullrank._tables import is_text_or_parquet
from fullrank.cli import _options as o
from fullrank.cli._inputs import answers, named, read_models, split_and_models
from fullrank.evaluation import DEFAULT_METRICS, report_on
from fullrank.ranks.counts import RankCounts
from fullrank.report import Report


def evaluate(
    config: o.Config = None,
    model: o.Models = None,
    data: Annotated[o.Text, Option(metavar="NAME", help="A data set, such as ml-1m (see `fullrank data`).")] = None,
    train: Annotated[o.File, Option(metavar="FILE", help="Instead: interactions (CSV, TSV, Parquet).")] = None,
    test: Annotated[
        o.File, Option(metavar="FILE", help="The held-out interactions; without it, one of each user is held out.")
    ] = None,
    how: Annotated[o.Text, Option(metavar="RULE", help="How to split: last, random, ratio, last-ratio, given.")] = None,
    metric: o.Metrics = None,
    precision: o.Precision = None,
    absolute: o.Absolute = None,
    design: Annotated[
        o.Text, Option(metavar="TEXT", help="full, top10, uni99, adaptive or guided; the last two force sampling.")
    ] = None,
    guide: Annotated[
        o.Text,
        Option(metavar="NAME=WHAT", help="A cheap model or a file of candidates to guide slow ones, or popularity."),
    ] = None,
    estimator: o.Estimator = None,
    target: o.Target = None,
    level: o.Level = None,
    candidates: Annotated[o.Text, Option(metavar="RULE", help="Items to rank: unseen (default) or all.")] = None,
    ties: Annotated[o.Text, Option(metavar="RULE", help="Ties: random (default), optimistic, pessimistic.")] = None,
    max_items: o.MaxItems = None,
    max_seconds: Annotated[float | None, Option(metavar="S", help="The most seconds to take.")] = None,
    backend: Annotated[o.Text, Option(metavar="NAME", help="Where to run: processes or ray.")] = None,
    checkpoint: Annotated[o.File, Option(metavar="FOLDER", help="Keep progress here, and resume from it.")] = None,
    items: Annotated[
        o.Whole, Option("--items", "-n", metavar="N", help="For files of ranks: candidates, target included.")
    ] = None,
    seed: Annotated[o.Whole, Option(min=0, metavar="INT", help="Seed of negatives and ties.")] = None,
    json: o.Json = False,
    html: o.Html = None,
) -> None:
    """Evaluate models as precisely as you ask, with as little scoring as that takes.

    A model is one of the following. Row p of a table belongs to user or item p of the files; where ids are not 0, 1, 2, and
    so on, to the p-th of them in sorted order.

    \b
      users.npy,items.npy   two tables of factors (and perhaps biases), or Parquet
      model.npz             a model saved by fullrank
      module:name           Python: a function of (users, items), a model, or a
                            function of nothing or of the split that makes one
      scores.parquet        scored candidates, or ranks (see fullrank correct)

    \b
    Examples:
      fullrank evaluate --data ml-1m -M als=users.npy,items.npy -p 0.02
      fullrank evaluate --train train.csv --test test.csv -M mine=my:score \\
          -M ease=ease.npz -m ndcg@10 --html report.html
      fullrank evaluate run.toml --seed 7

    \b
    where run.toml holds
      data = "ml-1m"
      metrics = ["ndcg@10", "recall@10"]
      precision = 0.02
      [models]
      als = "users.npy,items.npy"

    Ctrl-C ends the run with what was reached so far; with --checkpoint, the next run goes on from there.
    """
    given = o.settings(config, locals())
    page = o.check_page(given.pop("html", None))
    o.show(_report(given), json=json, html=page)


def _report(given: dict[str, Any]) -> Report:
    """Evaluate the models that can be asked for scores, or correct files of ranks or scores."""
    models = named(given.pop("models", []))
    if not models:
        raise ValueError("--model is missing: what to evaluate, as in --model als=users.npy,items.npy.")
    metrics, seed = given.pop("metrics", list(DEFAULT_METRICS)), int(given.pop("seed", 0))
    tables = {name: what for name, what in models.items() if _is_table(what)}
    if tables:
        if len(tables) < len(models):
            raise ValueError("files of ranks or scores and models that can be asked do not mix: evaluate each alone.")
        return _from_tables(tables, metrics, given, seed)
    if "items" in given:
        raise ValueError(
            "--items goes with files of ranks or scores: the catalogue of a model that is asked is the data's."
        )
    where = {key: given.pop(key, None) for key in ("data", "train", "test", "how")}
    guides = {}  # made with the models, under a name that no model has
    if given.get("guide", "popularity") != "popularity":
        [(name, what)] = named([given["guide"]]).items()
        if Path(what).is_file() and _is_table(what):  # lists of users' items
            given["guide"] = what
        else:
            guides = {f"guide {name}": what}
    split, made = split_and_models(models | guides, **where, seed=seed)
    for key in guides:
        given["guide"] = made.pop(key)
    report = fr.evaluate(made, split, metrics, rng=seed, **given)
    if where["train"] is None or where["test"] is not None:
        return report
    held_out = (
        f"no --test was given, so interactions of {str(where['train'])!r} were held out (--how {where['how'] or 'random'}, "
        f"seed {seed}); a model that was trained on the whole file has seen them, and its numbers are too high."
    )
    return replace(report, notes=(held_out, *report.notes))


def _is_table(what: str) -> bool:
    """Tell whether a model is given by a file of ranks, scores or counts."""
    if Path(what).suffix.lower() == ".npz" and Path(what).is_file():
        try:
            return len(RankCounts.load(what)) > 0
        except ValueError:  # a saved model
            return False
    return "," not in what and is_text_or_parquet(Path(what))


def _from_tables(tables: dict[str, str], metrics: Any, given: dict[str, Any], seed: int) -> Report:
    """Correct scores or ranks that are there already: nothing is left to decide."""
    extra = sorted(set(given) - {"design", "estimator", "target", "level", "candidates", "items", "train"})
    if extra:
        raise ValueError(f"--{extra[0].replace('_', '-')} has no meaning for files of ranks, scores or counts.")
    if "design" not in given and any(Path(what).suffix.lower() != ".npz" for what in tables.values()):
        raise ValueError("--design is missing: how negatives were drawn, such as --design uni99.")
    files = [Path(what) for what in tables.values()]
    counts = read_models(files, given, seed, tables)
    return report_on(counts, metrics, **answers(given))
