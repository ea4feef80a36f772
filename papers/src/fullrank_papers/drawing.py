"""One way to draw the panels of every figure, as PNG and as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .figures import Panel, Series

__all__ = ["draw", "png", "svg"]

_COLOURS = ("#1b1b1b", "#2a7fbf", "#d2601a", "#1f9e79", "#c45a9a", "#a67c00", "#7a74c9", "#b03030")


def draw(panels: Iterable[Panel], small: bool = False) -> Any:
    """The panels as one Altair chart, two beside each other, with the names below each; ``small``: fewer points."""
    alt = _drawn_with("altair")
    charts = []
    panels = list(panels)
    # a name has one colour in all panels
    every = list(dict.fromkeys(each.name for panel in panels for each in panel.series))
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(every)}
    width, height = (290, 160) if small else (330, 200)
    for panel in panels:
        rows = [
            {"name": each.name, "x": x, "y": y, "place": place}
            for place, each in enumerate(panel.series)
            for x, y in _points(each, panel, 60 if small else 400)
            if np.isfinite(y) and not (panel.log_x and x <= 0) and not (panel.log_y and y <= 0)
        ]
        names = [each.name for each in panel.series]
        colour = alt.Color(
            "name:N", sort=names, title=None, scale=alt.Scale(domain=names, range=[colours[name] for name in names]),
            legend=alt.Legend(orient="bottom", columns=_columns(names, width), labelLimit=width) if len(names) > 1 else None,
        )  # fmt: skip
        x = alt.X("x:Q", title=panel.x, scale=alt.Scale(type="log" if panel.log_x else "linear", nice=False))
        scale = {"type": "log"} if panel.log_y else {"type": "linear", "zero": panel.from_zero}
        y = alt.Y("y:Q", title=panel.y, scale=alt.Scale(**scale))
        base = alt.Chart(alt.Data(values=rows))
        if panel.bars:
            mark = base.mark_bar(size=max(2, 300 // max(len(rows), 1) - 1))
        else:
            mark = base.mark_line(strokeWidth=1.6, point=len(rows) <= 12 * len(names))
        charts.append(mark.encode(x=x, y=y, color=colour).properties(width=width, height=height, title=panel.title))
    together = alt.concat(*charts, columns=2).resolve_scale(color="independent")
    return together.configure(background="white", padding=8).configure_view(stroke="#ddd").configure_axis(
        grid=not small, gridColor="#eee", labelFontSize=10, titleFontSize=10, titleFontWeight="normal", tickCount=5
    )  # fmt: skip


def _points(line: Series, panel: Panel, most: int) -> list[tuple[float, float]]:
    """The points of a line, thinned evenly on the scale it is drawn on; bars keep all."""
    points = list(zip(line.x, line.y, strict=True))
    if panel.bars or len(points) <= most:
        return points
    x = np.log(np.maximum(line.x, 1e-9)) if panel.log_x else np.array(line.x)
    places = np.unique(np.searchsorted(x, np.linspace(x[0], x[-1], most)))
    return [points[min(place, len(points) - 1)] for place in places]


def png(panels: Iterable[Panel], scale: float = 1.5) -> bytes:
    """The figure as PNG."""
    return bytes(_drawn_with("vl_convert").vegalite_to_png(draw(panels).to_dict(validate=False), scale=scale))


def svg(panels: Iterable[Panel], small: bool = False) -> str:
    """The figure as SVG text; ``small``: with fewer points and digits, for a page that keeps many."""
    text = str(_drawn_with("vl_convert").vegalite_to_svg(draw(panels, small).to_dict(validate=False)))
    if small:  # nothing reads the labels of single marks
        text = re.sub(r' (aria-[a-z]+|role|class|pointer-events|opacity|font-family)="[^"]*"', "", text)
        text = re.sub(
            r"<[^>]*>", lambda tag: _rounded(tag[0]), text
        )  # and not what stands between tags: numbers at axes
        text = text.replace("<svg ", '<svg font-family="sans-serif" ', 1)
    return text


def _rounded(tag: str) -> str:
    """A tag with its coordinates to a tenth of a pixel."""
    return re.sub(r"-?\d+\.\d\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), tag)


def _columns(names: Sequence[str], width: int) -> int:
    """How many names fit beside each other below a chart."""
    return max(1, min(3, width // (6 * max(map(len, names)) + 28)))


def _drawn_with(module: str) -> Any:
    """A module that figures are made with, or a sentence that says how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f"figures need {module}: pip install 'fullrank[report]'.") from None
