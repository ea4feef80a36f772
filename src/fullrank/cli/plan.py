"""``fullrank plan``."""

from pathlib import Path
from typing import Annotated

from typer import Option

from fullrank import evaluation
from fullrank._files import existing
from fullrank.cli import _options as o
from fullrank.ranks.counts import RankCounts


def plan(
    config: o.Config = None,
    items: o.Items = None,
    cases: Annotated[o.Whole, Option("--cases", "-c", metavar="N", help="How many test cases there are.")] = None,
    metric: o.Metrics = None,
    precision: o.Precision = None,
    absolute: o.Absolute = None,
    target: o.Target = None,
    level: o.Level = None,
    max_items: o.MaxItems = None,
    gather_cost: Annotated[
        float | None, Option(metavar="X", help="How many times as much an item costs alone as in a row.")
    ] = None,
    pilot: Annotated[o.File, Option(metavar="FILE", help="Counts of a small run, saved by counts.save(path).")] = None,
    seed: Annotated[int, Option(metavar="INT", help="Taken by every verb; a plan does not depend on it.")] = 0,
    json: Annotated[bool, Option("--json", help="Print JSON for machines (schema fullrank.plan/1).")] = False,
    html: o.Html = None,
) -> None:
    """Say what to sample, what it will cost and what it will reach, before anything is scored.

    \b
    Examples:
      fullrank plan --items 1000000 --cases 50000 -m ndcg@10 --precision 0.02
      fullrank plan --pilot pilot.npz -m recall@20 -p 0.05 --target population
    """
    given = o.settings(config, locals(), "seed")
    page, known = given.pop("html", None), given.pop("pilot", None)
    wanted = {"items": "how many candidates the full ranking has", "cases": "how many test cases there are"}
    for name, what in wanted.items():
        if known is None and name not in given:
            raise ValueError(f"--{name} is missing: {what}; or give a small run with --pilot.")
    counts = None if known is None else RankCounts.load(existing(Path(known)))
    about = (given.pop("items", None), given.pop("cases", None), given.pop("metrics", "ndcg@10"))
    o.show(evaluation.plan(*about, pilot=counts, **given), json=json, html=page)
