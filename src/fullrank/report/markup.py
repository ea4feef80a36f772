"""The elements that pages are made of: whatever is not markup yet is escaped here, and nowhere else."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from fullrank.report.charts import inline, svg
from fullrank.report.panels import PAGE, Panel
from fullrank.report.words import clean

#: A tile below the headline: its name, its value and a word on it.
Fact = tuple[str, str, str]


def paragraph(words: str, kind: str = "say") -> str:
    """Write a paragraph of words that are markup already."""
    return f'<p class="{kind}">{words}</p>'


def side_by_side(figures: str) -> str:
    """Put figures beside one another where the screen is wide enough."""
    return f'<div class="panels">{figures}</div>'


def details(summary: str, inner: str) -> str:
    """Hide something behind a line that opens it."""
    return f"<details><summary>{text(summary)}</summary>{inner}</details>"


def definitions(kind: str, entries: Iterable[tuple[str, str]]) -> str:
    """Write a list of terms, each with its explanation."""
    items = "".join(f"<dt>{name(term)}</dt><dd>{text(words)}</dd>" for term, words in entries)
    return f'<dl class="{kind}">{items}</dl>'


def tiles(facts: Sequence[Fact]) -> str:
    """Write facts as tiles: a name, a value and a word on it."""
    items = "".join(
        f"<div><dt>{text(what)}</dt><dd>{text(value)}{f'<small>{text(more)}</small>' if more else ''}</dd></div>"
        for what, value, more in facts
    )
    return f'<dl class="facts">{items}</dl>' if items else ""


def bullets(texts: Sequence[str]) -> str:
    """Write texts as a list with bullets."""
    return f"<ul>{''.join(f'<li>{text(each)}</li>' for each in texts)}</ul>"


def figures(panels: Sequence[Panel], serial: Iterator[int]) -> str:
    """Draw panels, each with its numbers in a table behind it."""
    tables = (table(each.head, each.body, f"numbers of {each.title}") for each in panels)
    drawn = (
        figure(each, each.title, details("Numbers", t), next(serial)) for each, t in zip(panels, tables, strict=True)
    )
    return side_by_side("".join(drawn))


def figure(panel: Panel | None, title: str, numbers: str, serial: int) -> str:
    """Draw a panel with its title, its legend and its numbers."""
    drawing = "" if panel is None else inline(svg(panel.chart, PAGE), clean(panel.about, 600), serial)
    keys = "".join(
        f'<li><span class="key" style="background:{colour}"></span>{text(words)}</li>'
        for words, colour in (() if panel is None else panel.legend)
    )
    legend = f'<ul class="legend">{keys}</ul>' if keys else ""
    named = f"figure-{serial}"
    top = f'<h3 id="{named}">{name(title)}</h3>' if title else ""
    label = f'aria-labelledby="{named}"' if title else 'aria-label="chart"'
    return f"<figure {label}>{top}{legend}{drawing}{numbers}</figure>"


def table(head: Sequence[str], body: Sequence[Sequence[str]], about: str, kind: str = "") -> str:
    """Write a table of plain texts whose first column is a name."""
    lines = (table_row(name(row[0]), "".join(f"<td>{text(cell)}</td>" for cell in row[1:])) for row in body)
    return table_of(map(name, head), lines, about, kind)


def table_row(label: str, cells: str, kind: str = "") -> str:
    """Write a row of a table from its label and its cells, which are markup already."""
    return f'<tr{kind}><th scope="row">{label}</th>{cells}</tr>'


def table_of(head: Iterable[str], lines: Iterable[str], about: str, kind: str = "") -> str:
    """Write a table that scrolls by itself where the screen is narrow; focusable, so that the keyboard can scroll it too."""
    top = "".join(f"<th scope=col>{cell}</th>" for cell in head)
    inner = f"<table{kind}><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll" role="group" tabindex="0" aria-label="{text(about)}">{inner}</div>'


def text(value: object) -> str:
    """Escape a text for the page."""
    return escape(str(value), quote=True)


def name(chosen: object) -> str:
    """Write a name that somebody chose: its writing direction stays its own."""
    return f"<bdi>{text(chosen)}</bdi>"
