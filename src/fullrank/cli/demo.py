"""``fullrank demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from fullrank.cli._options import Html, Json, Seed, say_page, show_lines

if TYPE_CHECKING:
    from fullrank.demo import Demo

__all__ = ["demo", "demo_lines"]


def demo(
    seed: Seed = 0,
    json: Json = False,
    html: Html = None,
) -> None:
    """See in seconds why sampled metrics mislead.

    Nothing is downloaded: the catalogue (20,000 items, 4,000 users, two recommenders) is drawn from the seed.

    \b
    Examples:
      fullrank demo
      fullrank demo --seed 7 --html demo.html
    """
    from fullrank.demo import run

    result = run(seed)
    if html is not None:
        say_page(result.corrected.to_html(html))
    if json:
        typer.echo(result.corrected.to_json())
        return
    show_lines(demo_lines(result))


def demo_lines(result: Demo) -> list[str]:
    """The demo as text: one block per metric, bars to compare by eye."""
    lines = [
        "Two recommenders, 4,000 users, 20,000 items. Each user's held-out item is ranked",
        "(a) among all items: the truth, (b) among 99 sampled ones: what is usually",
        "reported, (c) by fullrank, from the very same 99.",
    ]
    for metric in result.truth.metrics:
        lines += ["", metric]
        for label, report, part in (
            ("full ranking", result.truth, "value"),
            ("99 sampled", result.corrected, "naive"),
            ("fullrank", result.corrected, "value"),
        ):
            values = {row["model"]: row[part] for row in report.rows if row["metric"] == metric}
            best = max(values, key=lambda name: values[name])
            for model, value in values.items():
                bar = "█" * round(34 * value)
                row = next(row for row in report.rows if (row["model"], row["metric"]) == (model, metric))
                if part == "value" and row["high"] > row["low"]:
                    bar += f"  95 %: {row['low']:.3f} .. {row['high']:.3f}"
                mark = "<- winner" if model == best else ""
                lines.append(f"  {label:<12} {model:<6} {value:.3f} {bar:<34} {mark}".rstrip())
                label = ""
    return lines
