"""Draw docs/picture.svg, the first thing the README shows, from the demo: truth, 99 sampled, fullrank.

Run again whenever an estimator changes: ``python docs/make_picture.py``. Written by hand rather than by a chart library,
so that one file follows the reader's colour scheme on GitHub (an SVG in an <img> may carry its own media query).
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

from fullrank.demo import Demo, run

METRIC = "recall@10"
WIDTH, LEFT, RIGHT, TOP, ROW, BAR, GAP = 760, 24, 118, 64, 104, 24, 6

STYLE = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif }
  text { fill: #1f2328 }
  .h { font-weight: 600; font-size: 15px } .q { fill: #59636e; font-size: 13px } .n { font-variant-numeric: tabular-nums }
  .w { font-weight: 600 } .a { fill: #104b89 } .b { fill: #b94300 } .l { opacity: .45 } .s { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .q { fill: #9198a1 } .a { fill: #3087c0 } .b { fill: #f0884a } .s { stroke: #3d444d }
  }
"""


def values(demo: Demo) -> list[tuple[str, str, dict[str, float]]]:
    """Rows of the picture: what it is, what it took, and the value of each model."""
    items = next(iter(demo.truth.estimates.values())).counts.n_items
    rows = [
        ("Full ranking", f"all {items:,.0f} items scored: the truth", demo.truth, "value"),
        ("Sampled metric", "99 random items scored: what is usually reported", demo.corrected, "naive"),
        ("fullrank", "the same 99 items, corrected", demo.corrected, "value"),
    ]
    return [
        (title, more, {row["model"]: row[part] for row in report.rows if row["metric"] == METRIC})
        for title, more, report, part in rows
    ]


def draw(demo: Demo) -> str:
    """The picture as SVG text."""
    rows = values(demo)
    top = max(value for *_, by_model in rows for value in by_model.values())
    height = TOP + ROW * len(rows) + 4
    told = "; ".join(
        f"{title}: " + ", ".join(f"{model} {value:.3f}" for model, value in by_model.items())
        for title, _, by_model in rows
    )
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="t d">',
        f'<title id="t">{METRIC} of two recommenders: truth, sampled, corrected</title><desc id="d">{escape(told)}</desc>',
        f"<style>{STYLE}</style>",
        f'<text class="h" x="{LEFT}" y="26">{METRIC.capitalize()} of two recommenders. Which one is better?</text>',
    ]
    for i, (title, more, by_model) in enumerate(rows):
        y = TOP + ROW * i
        best = max(by_model, key=lambda model: by_model[model])
        out.append(f'<line class="s" x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{y - 18}" y2="{y - 18}"/>')
        out.append(
            f'<text x="{LEFT}" y="{y + 4}"><tspan class="w">{title}</tspan><tspan class="q" dx="8">{more}</tspan></text>'
        )
        for j, (model, value) in enumerate(by_model.items()):
            at, long = y + 16 + j * (BAR + GAP), (WIDTH - LEFT - RIGHT - 150) * value / top
            won = model == best
            bold, pale = ("w", "") if won else ("", "l")
            out.append(
                f'<text class="{bold}" x="{LEFT}" y="{at + 17}">{escape(model)}</text>'
                f'<rect class="{"ab"[j % 2]} {pale}" x="{LEFT + 62}" y="{at}" width="{long:.1f}" height="{BAR}" rx="2"/>'
                f'<text class="n {bold}" x="{LEFT + 62 + long + 8:.1f}" y="{at + 17}">{value:.3f}'
                f"{_mark(won, i, best, rows)}</text>"
            )
    return "\n".join([*out, "</svg>", ""])


def _mark(won: bool, row: int, best: str, rows: list[tuple[str, str, dict[str, float]]]) -> str:
    """Whether the row names the winner that the full ranking names."""
    if not won:
        return ""
    truth = rows[0][2]
    right = best == max(truth, key=lambda model: truth[model])
    return '<tspan dx="8">wins</tspan>' if row == 0 else f'<tspan dx="8">{"right" if right else "wrong"} winner</tspan>'


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("picture.svg")
    target.write_text(draw(run(0)), encoding="utf-8")
    print(f"wrote {target}")
