"""``fullrank correct``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fullrank.cli._counts import design_of, read_models
from fullrank.cli._options import (
    Candidates,
    DesignText,
    Distinct,
    Estimator,
    Html,
    Items,
    Json,
    Level,
    Metrics,
    Negatives,
    Seed,
    Target,
    checksum,
    show,
)

__all__ = ["correct"]


def correct(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Sampled ranks, or scored candidates.")],
    items: Items = None,
    negatives: Negatives = None,
    without_replacement: Distinct = False,
    design: DesignText = None,
    metric: Metrics = None,
    candidates: Candidates = None,
    estimator: Estimator = None,
    target: Target = None,
    level: Level = None,
    targets: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Scores without a label: each user's target (user_id,item_id; .rating)."),
    ] = None,
    lists: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The candidates to rank by the scores: NCF's .test.negative, or Elliot's."),
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="FILEs are TREC runs, and these the judgements.")
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Training pairs: they are no candidates, --items is the catalogue."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    html: Html = None,
) -> None:
    """Correct the sampled metrics you already have.

    A FILE (.csv, .tsv, .csv.gz, .parquet, .npy, RecBole's .inter, .npz of counts) holds one of:

    \b
      ranks        a column 'rank', one-based, and perhaps 'model', 'user_id',
                   'n_items', 'negatives', 'weight'; or one column per model;
                   or nothing but one rank per line
      counts       saved by RankCounts.save (.npz): they know their design
      scores       'user_id', 'item_id', 'score' of each candidate, and a
                   'label' that is 1 for the target (or see --targets, --lists)
      a TREC run   with --qrels

    \b
    Examples:
      fullrank correct ranks.csv --items 3706 --negatives 99 -m ndcg@10
      fullrank correct ease.csv als.csv -n 16980 --negatives 100 --html page.html
      fullrank correct recbole.inter --items 3706 --design uni100
      fullrank correct scores.csv --lists ml-1m.test.negative \\
          --train ml-1m.train.rating --items 3706 --negatives 99
      fullrank correct run.trec --qrels qrels.txt --items 50000 --negatives 999
    """
    from fullrank.evaluation import DEFAULT_METRICS, report_on

    chosen = design_of(negatives, design, without_replacement)
    how = {"targets": targets, "lists": lists, "qrels": qrels, "train": train}
    counts = read_models(files, chosen, items, candidates, seed, **how)
    report = report_on(
        counts, metric or DEFAULT_METRICS, estimator=estimator,
        level=0.95 if level is None else level, target=target or "cases",
        provenance={"files": {path.name: checksum(path) for path in files}, "seed": seed},
    )  # fmt: skip
    show(report, json=json, html=html)
