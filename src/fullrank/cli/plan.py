"""``fullrank plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fullrank._files import existing
from fullrank.cli._models import read_config
from fullrank.cli._options import (
    Absolute,
    Config,
    Html,
    Items,
    Level,
    MaxItems,
    Metrics,
    Precision,
    Target,
    show_lines,
    show_page,
    width,
)

__all__ = ["plan"]

_KEYS = (
    "items", "cases", "metrics", "precision", "absolute", "target", "level", "max_items", "gather_cost", "pilot", "html",
)  # fmt: skip


def plan(
    config: Config = None,
    items: Items = None,
    cases: Annotated[int | None, typer.Option("--cases", "-c", metavar="N", help="Test cases.")] = None,
    metric: Metrics = None,
    precision: Precision = None,
    absolute: Absolute = None,
    target: Target = None,
    level: Level = None,
    max_items: MaxItems = None,
    gather_cost: Annotated[
        float | None, typer.Option(metavar="X", help="Cost of an item scored alone, in items of a whole row.")
    ] = None,
    pilot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Counts of a small run, saved with counts.save(path).")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="INT", help="As every verb has it; a plan does not depend on it.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines (schema fullrank.plan/1).")] = False,
    html: Html = None,
) -> None:
    """Say what to sample, what it will cost and what it will reach, before anything is scored.

    \b
    Examples:
      fullrank plan --items 1000000 --cases 50000 -m ndcg@10 --precision 0.02
      fullrank plan --pilot pilot.npz -m recall@20 -p 0.05 --target population
    """
    import json as as_json

    from fullrank.evaluation import plan as run
    from fullrank.ranks.counts import RankCounts

    flags = {
        "items": items, "cases": cases, "metrics": metric, "precision": precision, "absolute": absolute, "target": target,
        "level": level, "max_items": max_items, "gather_cost": gather_cost, "pilot": pilot, "html": html,
    }  # fmt: skip
    given = {**read_config(config, _KEYS), **{key: value for key, value in flags.items() if value not in (None, [])}}
    page = given.pop("html", None)
    known = given.pop("pilot", None)
    for name, what in (
        ("items", "how many candidates the full ranking has"),
        ("cases", "how many test cases there are"),
    ):
        if known is None and name not in given:
            raise ValueError(f"--{name} is missing: {what}; or give a small run with --pilot.")
    made = run(
        given.pop("items", None), given.pop("cases", None), given.pop("metrics", "ndcg@10"),
        pilot=None if known is None else RankCounts.load(existing(Path(known))), **given,
    )  # fmt: skip
    if json:
        typer.echo(as_json.dumps(made.to_dict(), indent=2))
    else:
        show_lines(made.lines(width()))
    if page is not None:
        show_page(Path(made.to_html(page)))
