"""``fullrank evaluate``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fullrank.cli._counts import design_of, read_models
from fullrank.cli._models import named, read_config, split_and_models
from fullrank.cli._options import (
    Absolute,
    Config,
    Estimator,
    Html,
    Json,
    Level,
    MaxItems,
    Metrics,
    Precision,
    Target,
    check_page,
    show,
)

__all__ = ["evaluate"]

_KEYS = (
    "data", "train", "test", "how", "models", "metrics", "precision", "absolute", "design", "estimator", "target",
    "candidates", "guide", "ties", "max_items", "max_seconds", "backend", "checkpoint", "seed", "level", "items", "html",
)  # fmt: skip


_TABLES = (".csv", ".tsv", ".txt", ".inter", ".parquet", ".pq")


def evaluate(
    config: Config = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-M",
            metavar="NAME=WHAT",
            help="NAME=users.npy,items.npy | NAME=model.npz | NAME=module:name | NAME=scores.parquet",
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help="A data set by name, such as ml-1m (see `fullrank data`).")] = None,
    train: Annotated[Path | None, typer.Option(help="Instead: a file of interactions (CSV, TSV, Parquet).")] = None,
    test: Annotated[
        Path | None, typer.Option(help="The held-out interactions; without it, one of each user is held out.")
    ] = None,
    how: Annotated[str | None, typer.Option(help="How to split: last, random, ratio, last-ratio, given.")] = None,
    metric: Metrics = None,
    precision: Precision = None,
    absolute: Absolute = None,
    design: Annotated[
        str | None,
        typer.Option(
            help="full, top10, uni99, adaptive, guided; with --precision, adaptive and guided force sampling."
        ),
    ] = None,
    guide: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=WHAT", help="A cheap model that says where to look, or popularity; for slow models."
        ),
    ] = None,
    estimator: Estimator = None,
    target: Target = None,
    level: Level = None,
    candidates: Annotated[
        str | None, typer.Option(metavar="RULE", help="Items to rank: unseen (default) or all.")
    ] = None,
    ties: Annotated[
        str | None, typer.Option(metavar="RULE", help="Ties: random (default), optimistic, pessimistic.")
    ] = None,
    max_items: MaxItems = None,
    max_seconds: Annotated[float | None, typer.Option(metavar="S", help="Most seconds to take.")] = None,
    backend: Annotated[str | None, typer.Option(help="Where blocks of users run, such as processes or ray.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder to keep progress in, and to resume from.")] = None,
    items: Annotated[
        int | None, typer.Option("--items", "-n", help="For files of ranks: candidates, target included.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of negatives and ties.")] = None,
    json: Json = False,
    html: Html = None,
) -> None:
    """Evaluate models as precisely as you ask, with as little scoring as that takes.

    A model is one of (row p belongs to user or item p of the files; to the p-th of their ids in sorted order, where these
    are not such numbers):

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

    Ctrl-C ends the run with what was reached so far; --checkpoint goes on there.
    """
    from fullrank.evaluation import DEFAULT_METRICS
    from fullrank.evaluation.evaluate import evaluate as run

    flags = {
        "data": data, "train": train, "test": test, "how": how, "models": model, "metrics": metric, "precision": precision,
        "absolute": absolute, "design": design, "estimator": estimator, "target": target, "level": level,
        "candidates": candidates, "guide": guide, "ties": ties, "max_items": max_items, "max_seconds": max_seconds,
        "backend": backend, "checkpoint": checkpoint, "items": items, "seed": seed, "html": html,
    }  # fmt: skip
    given = {**read_config(config, _KEYS), **{key: value for key, value in flags.items() if value not in (None, [])}}
    models = named(given.pop("models", []))
    if not models:
        raise ValueError("--model is missing: what to evaluate, as in --model als=users.npy,items.npy.")
    metrics = given.pop("metrics", list(DEFAULT_METRICS))
    page = check_page(Path(given["html"]) if "html" in given else None)
    given.pop("html", None)
    number = int(given.pop("seed", 0))
    where = {key: given.pop(key, None) for key in ("data", "train", "test", "how")}
    n_items = given.pop("items", None)
    tables = {name: what for name, what in models.items() if _is_table(what)}
    if tables:
        if len(tables) < len(models):
            raise ValueError("files of ranks or scores and models that can be asked do not mix: evaluate each alone.")
        if where["data"] is not None:
            raise ValueError(
                "--data has no meaning for files of ranks or scores: give --items, and --train where needed."
            )
        report = _from_tables(tables, where["train"], n_items, metrics, given, number)
    else:
        split, made = split_and_models(models | _guide(given.get("guide")), **where, seed=number)
        for key in _guide(given.get("guide")):
            given["guide"] = made.pop(key)
        report = run(made, split, metrics, rng=number, **given)
        if where["train"] is not None and where["test"] is None:
            report = replace(report, notes=(_held_out(where, number), *report.notes))
    show(report, json=json, html=page)


def _guide(text: str | None) -> dict[str, str]:
    """A guide among the models, under a name that no model has."""
    if text is None or text == "popularity":
        return {}
    return {f"guide {name}": what for name, what in named([text]).items()}


def _held_out(where: dict[str, Any], seed: int) -> str:
    """Say what was held out where nobody said: a model that learned from the whole file has seen it."""
    how = where["how"] or "random"
    return (
        f"no --test was given, so interactions of {str(where['train'])!r} were held out (--how {how}, seed {seed}); a model "
        "that was trained on the whole file has seen them, and its numbers are too high."
    )


def _is_table(what: str) -> bool:
    """Whether a model is given by a file of ranks, scores or counts."""
    from fullrank.ranks.counts import RankCounts

    if Path(what).suffix.lower() == ".npz" and Path(what).is_file():
        try:
            return len(RankCounts.load(what)) > 0
        except ValueError:  # a saved model
            return False
    return "," not in what and what.lower().removesuffix(".gz").endswith(_TABLES)


def _from_tables(
    tables: dict[str, str], train: Any, n_items: int | None, metrics: Any, options: dict[str, Any], seed: int
) -> Any:
    """Correct scores or ranks that are there already: nothing is left to decide."""
    from fullrank.evaluation import report_on

    extra = sorted(set(options) - {"design", "estimator", "target", "level", "candidates"})
    if extra:
        raise ValueError(f"--{extra[0].replace('_', '-')} has no meaning for files of ranks, scores or counts.")
    design = design_of(None, options.pop("design", None), False)
    candidates = options.pop("candidates", None)
    counts = {}
    for name, what in tables.items():
        found = read_models([Path(what)], design, n_items, candidates, seed, train=train)
        counts.update(found if len(found) > 1 else {name: next(iter(found.values()))})
    return report_on(counts, metrics, **options)
