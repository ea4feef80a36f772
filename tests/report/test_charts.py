"""Charts: valid Vega-Lite, distinct colours, labels that keep apart."""

import itertools
import re
import sys
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fullrank as fr
from fullrank.report.charts import finish
from fullrank.report.digest import Digest
from fullrank.report.panels import KINDS, NOTEBOOK, PAGE, panels_of, spread

alt = pytest.importorskip("altair")


@pytest.mark.parametrize("kind", ["two", "adaptive", "exact"])
def test_every_panel_is_valid_vega_lite(request, kind):
    report = request.getfixturevalue(kind)
    for style in (PAGE, NOTEBOOK):
        for name in KINDS:
            for panel in panels_of(Digest(report), style, name):
                finish(panel.chart, style).to_dict(validate=True)
                assert panel.about
                assert all(len(row) == len(panel.head) for row in panel.body)


def test_plots_are_altair_charts(two, adaptive):
    for kind in ("results", "curves", "ranks"):
        assert isinstance(two.plot(kind), alt.TopLevelMixin)
        two.plot(kind).to_dict()
    adaptive.plot("budget").to_dict()
    two.estimates["A"].plot().to_dict()


def test_notebooks_show_charts_without_a_network(two):
    pytest.importorskip("vl_convert")
    for chart in (two.plot("results"), two.plot("ranks"), two.estimates["A"].plot()):
        (drawing,) = chart._repr_mimebundle_().values()
        assert drawing.startswith("<svg ")
        assert "<title>" in drawing
        assert "http" not in drawing
        assert "script" not in drawing


def test_plots_say_what_they_cannot_draw(two, rows):
    with pytest.raises(ValueError, match=r"`kind` must be 'results', 'curves', 'ranks' or 'budget', got 'pie'"):
        two.plot("pie")
    with pytest.raises(ValueError, match="all cases had samples of the same size"):
        two.plot("budget")
    with pytest.raises(ValueError, match="it carries no estimates"):
        fr.Report(rows({"A": 0.1})).plot("ranks")


def test_without_the_extra_a_sentence_names_it(two, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ImportError, match=r"pip install 'fullrank\[report\]'"):
        two.plot()
    with pytest.raises(ImportError, match=r"pip install 'fullrank\[report\]'"):
        two.estimates["A"].plot()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ImportError, match=r"pip install 'fullrank\[report\]'"):
        two.to_html()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0.001, 0.2))
def test_labels_keep_their_order_and_their_distance(values, gap):
    places = spread(values, gap)
    order = np.argsort(values, kind="stable")
    assert (np.diff(np.array(places)[order]) >= gap - 1e-9).all()
    if len(values) > 1 and np.diff(np.sort(values)).min() >= gap:
        np.testing.assert_allclose(places, values)


# ------------------------------------------------------------------------------------------------ colours


def palettes():
    text = files("fullrank.report").joinpath("page.html").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    assert len(blocks) == 3
    names = ("light", "dark", "print")
    return {
        name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for name, block in zip(names, blocks, strict=True)
    }


def linear(colour):
    share = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    """WCAG 2: (L₁ + 0.05) / (L₂ + 0.05)."""
    first, second = sorted((linear(each) @ [0.2126, 0.7152, 0.0722] for each in (a, b)), reverse=True)
    return (first + 0.05) / (second + 0.05)


# Machado, Oliveira and Fernandes 2009, severity 1
SIGHT = {
    "usual": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(rgb):
    """CIE L*a*b* under D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("name", ["light", "dark", "print"])
def test_text_and_marks_stand_out(name):
    colours = palettes()[name]
    for ink in ("ink", "muted", "link", "good", "bad"):
        assert contrast(colours[ink], colours["paper"]) >= 4.5
    assert contrast(colours["ink"], colours["warn"]) >= 4.5
    for i in range(1, 7):  # names of lines are written in these
        assert contrast(colours[f"s{i}"], colours["paper"]) >= 4.5


@pytest.mark.parametrize("name", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_series_are_told_apart_by_every_kind_of_sight(name, sight):
    colours = palettes()[name]
    seen = [lab(np.array(SIGHT[sight]) @ linear(colours[f"s{i}"])) for i in range(1, 7)]
    for count, least in ((3, 20), (4, 14), (6, 9)):  # the first are used most
        closest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen[:count], 2))
        assert closest >= least, (count, closest)
