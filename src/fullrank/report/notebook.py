"""How reports, distributions and counts look at the end of a notebook cell: small, quick, without extras.

Colours are the notebook's own (``currentColor``), so light and dark both work. Everything is cleaned, bounded, escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any, TypeAlias

from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL
from fullrank.report.digest import blind_spot, last_rank, rank_bins, sizes
from fullrank.report.words import clean, number, percent, ranged

MOST_ROWS = 60
BARS = "▁▂▃▄▅▆▇█"
Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]  # head and body


def distribution_html(distribution: Any) -> str:
    """Write a rank distribution: its shape on a log axis and a few metrics."""
    counts: RankCounts = distribution.counts
    facts = {"from": str(counts), "by": clean(str(distribution)[1:].partition(" by ")[2].partition(":")[0] or "–")}
    last = last_rank(counts)
    for name in ("recall@1", "recall@10", "recall@100", "ndcg@10"):
        if int(name.partition("@")[2]) <= last:
            facts[name] = number(distribution.expect(name), 4)
    if (blind := blind_spot(counts)) is not None:
        facts["blind spot"] = f"ranks {blind[0]:,} to {blind[1]:,}"
    shares = [max(each.share, 0.0) for each in rank_bins(distribution)]
    bars = (BARS[round((len(BARS) - 1) * share / max(*shares, 1e-12))] for share in shares)
    facts[f"cases at ranks 1 to {last:,}, each bar a doubling"] = "".join(bars)
    return card("Rank distribution", facts, notes=distribution.fit_info.notes)


def counts_html(counts: RankCounts) -> str:
    """Write what was seen: cases, design, cost, and the sizes of samples where they differ."""
    low, high = (round(each) for each in counts.pool_range)
    full = len(counts) * max(counts.n_items - 1, 1)
    facts = {
        "cases": f"{len(counts):,}",
        "design": str(counts.design),
        "candidates": f"{ranged(low, high, ' to ')} ({counts.candidates})",
        "items scored": f"{counts.items_scored:,} ({percent(min(counts.items_scored / full, 1))} of a full evaluation)",
    }
    with suppress(ValueError):  # behind a guide it may not be known
        facts["auc"] = number(counts.auc, 4)
    cases, found = len(counts), sizes(counts)
    body = [["all" if s.drawn == ALL else f"{s.drawn:,}", f"{s.cases:,}", percent(s.cases / cases)] for s in found]
    table = (["negatives", "cases", "share"], body[:MOST_ROWS])
    return card("Rank counts", facts, table=table if len(found) > 1 else None)


def card(title: str, facts: Mapping[str, object], *, table: Table | None = None, notes: Iterable[str] = ()) -> str:
    """Write a titled block of facts, with a table below: what every value shows of itself in a notebook."""
    parts = [f"<strong>{escape(clean(title, 240))}</strong>"]
    if facts:
        parts.append(_table((), [(clean(key), clean(value, 200)) for key, value in facts.items()], words=2))
    if table is not None:
        parts.append(_table(*table))
    parts += [f"<p>{escape(clean(note, 400))}</p>" for note in notes]
    return f"<div>{''.join(parts)}</div>"


def _table(head: Sequence[str], body: Sequence[Sequence[str]], words: int = 1) -> str:
    """Write a table as HTML with its own alignment, for places that have no style sheet."""

    def line(tag: str, cells: Sequence[str]) -> str:
        sides = ("left" if place < words else "right" for place in range(len(cells)))
        return "".join(f'<{tag} style="text-align:{a}">{escape(c)}</{tag}>' for a, c in zip(sides, cells, strict=True))

    rows = "".join(f"<tr>{line('td', cells)}</tr>" for cells in body)
    top = f"<thead><tr>{line('th', head)}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{rows}</tbody></table>"
