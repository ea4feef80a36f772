"""``fullrank demo``."""

import fullrank.demo
from fullrank.cli import _options as o
from fullrank.report.words import wrapped


def demo(seed: o.Seed = 0, json: o.Json = False, html: o.Html = None) -> None:
    """See in seconds why sampled metrics mislead.

    Nothing is downloaded: the catalogue (20,000 items, 4,000 users, two recommenders) is drawn from the seed.

    \b
    Examples:
      fullrank demo
      fullrank demo --seed 7 --html demo.html
    """
    result = fullrank.demo.run(seed)
    o.show(result.corrected, json=json, html=html, lines=demo_lines(result))


def demo_lines(result: fullrank.demo.Demo) -> list[str]:
    """Write the demo as text: the verdict, then a block per metric with bars to compare by eye."""
    about = (
        "Two recommenders, 4,000 users, 20,000 items. Each user's held-out item is ranked (a) among all items: the truth, "
        "(b) among 99 sampled ones: what is usually reported, (c) by fullrank, from the very same 99."
    )
    lines = [*wrapped(str(result.corrected.verdict), 80), *wrapped(about, 80)]
    for metric in result.corrected.metrics:
        lines += ["", metric]
        rows = [row for row in result.corrected.rows if str(row.metric) == metric]
        for label, part in (("full ranking", "truth"), ("uncorrected", "naive"), ("fullrank", "value")):
            best = max(rows, key=lambda row: row[part])  # used at once
            for row in rows:
                bar = "█" * round(34 * row[part])
                if part == "value":
                    bar += f"  95%: {row['low']:.3f} to {row['high']:.3f}"
                mark = "<- winner" if row is best else ""
                lines.append(f"  {label:<12} {row.model:<6} {row[part]:.3f} {bar:<34} {mark}".rstrip())
                label = ""
    return lines
