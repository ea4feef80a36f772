"""``fullrank plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fullrank._files import existing
from fullrank.cli._models import read_config
from fullrank.cli._options import Html, Level, Metrics, Target, show_lines, show_page, width

__all__ = ["plan"]

_KEYS = (
    "items", "cases", "metrics", "precision", "absolute", "target", "level", "max_items", "gather_cost", "pilot", "html",
)  # fmt: skip


def plan(
    config: Annotated[Path | None, typer.Argument(help="TOML file with the options below; flags win over it.")] = None,
    items: Annotated[int | None, typer.Option("--items", "-n", help="Candidates, target included.")] = None,
    cases: Annotated[int | None, typer.Option("--cases", "-c", help="Test cases.")] = None,
    metric: Metrics = None,
    precision: Annotated[
        float | None, typer.Option("--precision", "-p", help="Wanted half-width, relative: 0.02.")
    ] = None,
    absolute: Annotated[bool | None, typer.Option("--absolute", help="The precision is not relative.")] = None,
    target: Target = None,
    level: Level = None,
    max_items: Annotated[int | None, typer.Option(help="Score no more negatives than this, in all.")] = None,
    gather_cost: Annotated[
        float | None, typer.Option(help="An item scored alone costs so many in a whole row.")
    ] = None,
    pilot: Annotated[Path | None, typer.Option(help="Counts of a small run, saved with counts.save(path).")] = None,
    seed: Annotated[int, typer.Option(help="Nothing is drawn that depends on it; every verb has it.")] = 0,
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
    if known is None and ("items" not in given or "cases" not in given):
        raise ValueError(
            "--items and --cases are missing: how large the catalogue is, and how many test cases there are."
        )
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
