"""``fullrank correct``."""

import hashlib
from pathlib import Path
from typing import Annotated

from typer import Argument

from fullrank.cli import _options as o
from fullrank.cli._inputs import answers, read_models
from fullrank.evaluation import DEFAULT_METRICS, report_on


def correct(
    files: Annotated[list[Path], Argument(metavar="FILE", help="Sampled ranks, or scored candidates.")],
    items: o.Items = None,
    negatives: o.Negatives = None,
    without_replacement: o.Distinct = False,
    design: o.DesignText = None,
    metric: o.Metrics = None,
    candidates: o.Candidates = None,
    estimator: o.Estimator = None,
    target: o.Target = None,
    level: o.Level = None,
    columns: o.Columns = None,
    targets: o.Targets = None,
    lists: o.Lists = None,
    qrels: o.Qrels = None,
    train: o.TrainPairs = None,
    seed: o.Seed = 0,
    json: o.Json = False,
    html: o.Html = None,
) -> None:
    """Correct the sampled metrics you already have.

    A FILE (.csv, .tsv, .csv.gz, .parquet, .npy, RecBole's .inter, .npz of counts) holds one of:

    \b
      ranks        a column 'rank' or 'position', one-based, and perhaps
                   'model', 'user_id', 'n_items', 'negatives', 'weight', and
                   'order' and 'targets' where users have several; or one
                   column per model; or nothing but one rank per line
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
    given = o.settings(None, locals())
    chosen = answers(given)
    counts = read_models(files, given, seed)
    about = {"files": {path.name: _checksum(path) for path in files}, "seed": seed}
    report = report_on(counts, metric or DEFAULT_METRICS, provenance=about, **chosen)
    o.show(report, json=json, html=html)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
