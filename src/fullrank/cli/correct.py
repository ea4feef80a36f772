"""``fullrank correct``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import Html, Json

__all__ = ["correct"]


def correct(
    files: Annotated[list[Path], typer.Argument(help="CSV, TSV or Parquet of sampled ranks (one-based).")],
    items: Annotated[
        int | None, typer.Option("--items", "-n", help="Candidates in the full ranking, target included.")
    ] = None,
    negatives: Annotated[int | None, typer.Option(help="Negatives per case, target not counted.")] = None,
    without_replacement: Annotated[bool, typer.Option("--without-replacement", help="Negatives are distinct.")] = False,
    design: Annotated[
        str | None, typer.Option(help="Instead of --negatives: 'uni99', 'adaptive 99..3199 stop 1'.")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="Such as ndcg@10 or recall@5,10.")] = None,
    candidates: Annotated[
        str, typer.Option(help="'unseen': a user's training items are no candidates (usual), or 'all'.")
    ] = "unseen",
    estimator: Annotated[str | None, typer.Option("--estimator", "-e", help="Such as mle, bv0.01, mn_mle.")] = None,
    json: Json = False,
    html: Html = None,
) -> None:
    """Correct the sampled metrics you already have.

    The file has a column `rank` (and perhaps `model`, `user_id`, `n_items`, `negatives`), or one column of ranks per model.

    Examples:

    `fullrank correct ranks.csv --items 3706 --negatives 99 -m ndcg@10 -m recall@10`

    `fullrank correct ease.parquet als.parquet --items 16980 --negatives 100 --without-replacement`
    """
    from ..estimators import LogSpline
    from ..evaluate import DEFAULT_METRICS, report_on
    from ..ranks.counts import RankCounts
    from ..ranks.design import Sample, parse_design
    from ..ranks.tables import read_ranks

    if (design is None) == (negatives is None):
        raise ValueError("say how negatives were drawn: either --negatives 99 or --design 'uni99'.")
    chosen = parse_design(design) if design is not None else Sample(negatives or 0, not without_replacement)
    counts: dict[str, RankCounts] = {}
    for path in files:
        for table in read_ranks(path):
            n_items = items if table.n_items is None else table.n_items
            if n_items is None:
                raise ValueError("--items is missing: how many candidates (target included) the full ranking has.")
            if table.model in counts:
                raise ValueError(f"two files hold a model named {table.model!r}: rename one.")
            try:
                counts[table.model] = RankCounts.from_ranks(
                    table.ranks, n_items, chosen, drawn=table.drawn, users=table.users, weights=table.weights
                )
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}, model {table.model!r}: {error}") from None
    report = report_on(counts, metric or DEFAULT_METRICS, estimator=estimator or LogSpline(candidates))
    if html is not None:
        report.to_html(html)
    typer.echo(report.to_json() if json else str(report))
