"""Charts as people ask for them: of a report or a distribution; and how any chart becomes a drawing."""

from collections.abc import Iterator
from itertools import count
from typing import Any
from xml.etree import ElementTree

from fullrank._checks import check_choice
from fullrank.report import panels
from fullrank.report.digest import Digest, rank_bins
from fullrank.report.panels import KINDS, NOTEBOOK, Style, load

#: Numbers for the identifiers inside drawings, which one notebook may show many of.
_SERIAL = count(1)


def svg(chart: Any, style: Style, fit: bool = True) -> str:
    """Return the chart as SVG text, offline; ``fit``: its width includes axes, so that the panels of a page line up."""
    # our own charts: checking each against the whole schema takes longer than drawing them, and so does copying each once
    # for every property that is set on it
    spec = chart.to_dict(validate=False)
    spec["config"] = appearance(style)
    if fit:
        spec["autosize"] = {"type": "fit", "contains": "padding"}
    return str(load("vl_convert").vegalite_to_svg(spec))


def plot_report(report: Any, kind: str = "results") -> Any:
    """Return an Altair chart of the report: ``results``, ``curves`` (metric@K), ``ranks`` or ``budget``."""
    check_choice("kind", kind, KINDS)
    alt = load()
    charts = [each.chart.properties(title=each.title) for each in panels.panels_of(Digest(report), NOTEBOOK, kind)]
    if not charts:
        why = "it carries no estimates, nothing that is finite or has a cut-off, or all cases had samples of the same size"
        raise ValueError(f"the report has nothing to plot as {kind!r}: {why}.")
    return finish(alt.concat(*charts, columns=3) if len(charts) > 1 else charts[0], NOTEBOOK)


def plot_distribution(distribution: Any) -> Any:
    """Draw the estimated rank distribution on a logarithmic axis, the blind spot of its sample shaded."""
    panel = panels.rank_panel(distribution.counts, "model", rank_bins(distribution), NOTEBOOK, NOTEBOOK.series[0])
    return finish(panel.chart, NOTEBOOK)


def finish(chart: Any, style: Style) -> Any:
    """Give the chart the look that all share; a notebook shows it as a drawing, which needs no network."""
    made = chart.configure(**appearance(style))

    def drawing(**_: Any) -> dict[str, str]:
        return {"text/html": inline(svg(made, style, fit=False), "chart", next(_SERIAL))}

    object.__setattr__(made, "_repr_mimebundle_", drawing)  # Altair's own way would make it part of the chart
    return made


def appearance(style: Style) -> dict[str, Any]:
    """Return what all charts have in common, in Vega-Lite's words."""
    return {
        "background": "transparent",
        "padding": 4,
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": style.muted, "titleColor": style.muted, "labelFontSize": 11, "titleFontSize": 11,
            "titleFontWeight": "normal", "gridColor": style.grid, "domainColor": style.grid, "domain": False,
            "ticks": False, "labelPadding": 6, "titlePadding": 8,
        },
        "title": {"color": style.ink, "fontSize": 13, "fontWeight": 600, "anchor": "start", "offset": 10},
    }  # fmt: skip


def inline(drawing: str, about: str, serial: int) -> str:
    """Make the SVG part of a page: one image with a name, titles as tooltips, identifiers of its own, nothing else.

    Elements and attributes are kept by a list of what drawings need, so that nothing in a name can become markup.
    """
    found = ElementTree.fromstring(drawing)
    size = {name: found.get(name, "") for name in ("viewBox", "width", "height")}
    root = ElementTree.Element("svg", {**size, "role": "img", "aria-labelledby": f"about-{serial}"})
    ElementTree.SubElement(root, "desc", {"id": f"about-{serial}"}).text = about
    root.extend(_parts(found, serial))
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _parts(node: ElementTree.Element, serial: int) -> Iterator[ElementTree.Element]:
    """Yield what is kept of the parts of a drawing: no empty background or foreground, of which Vega draws many."""
    for child in node:
        tag = child.tag.rpartition("}")[2]
        empty = child.get("class") in {"background", "foreground"} and not child.get("fill") and not child.get("stroke")
        if tag not in _ELEMENTS or empty:
            continue
        part = ElementTree.Element(tag, {name: value for name, value in child.items() if name in _ATTRIBUTES})
        if "id" in child.attrib:
            part.set("id", f"f{serial}-{child.get('id')}")
        if "clip-path" in child.attrib:
            part.set("clip-path", child.get("clip-path", "").replace("url(#", f"url(#f{serial}-"))
        part.text = child.text
        part.extend(_parts(child, serial))
        if tag == "path" and child.get("aria-label") and child.get("aria-roledescription") != "axis":
            ElementTree.SubElement(part, "title").text = child.get("aria-label")
        yield part


_ELEMENTS = {"svg", "g", "path", "line", "rect", "circle", "text", "tspan", "defs", "clipPath"}
_ATTRIBUTES = {
    "d", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "cx", "cy", "r", "width", "height", "transform", "fill", "stroke",
    "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "opacity", "fill-opacity",
    "stroke-opacity", "text-anchor", "dominant-baseline", "font-size", "font-weight", "font-style", "display", "viewBox",
    "pointer-events",
}  # fmt: skip
