"""What values show of themselves in a notebook: without extras, escaped, bounded."""

import re
import sys
from html.parser import HTMLParser

import pytest

import fullrank as fr
from fullrank.report.notebook import card


@pytest.fixture(autouse=True)
def _without_extras(monkeypatch):
    for name in ("altair", "vl_convert"):
        monkeypatch.setitem(sys.modules, name, None)


def tags(text):
    found = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.append(tag)
    parser.feed(text)
    return found


def test_report(two):
    text = two._repr_html_()
    assert tags(text).count("tr") == 1 + 4
    assert f"{two.value('A', 'ndcg@10'):.4f}" in text
    assert "uncorrected" in text
    assert str(two.verdict) in text


def test_distribution(two):
    text = two.estimates["A"]._repr_html_()
    assert "recall@10" in text
    assert "blind spot" in text
    assert len(re.search("[▁▂▃▄▅▆▇█]+", text)[0]) == 11  # doublings up to 1200


def test_counts(two, adaptive):
    assert "uni99" in two.estimates["A"].counts._repr_html_()
    text = adaptive.estimates["A"].counts._repr_html_()
    assert "<td" in text
    assert "79" in text
    assert tags(text).count("tr") == 5 + 1 + 4  # facts, head, sizes 9, 19, 39, 79


def test_hostile_names_are_text(rows):
    attack = "<script>alert(1)</script>"
    text = fr.Report(rows({attack: 0.1}, metric=attack, design=attack), notes=(attack,))._repr_html_()
    assert "script" not in tags(text)
    assert "&lt;script&gt;" in text


def test_many_rows_are_bounded(rows):
    text = fr.Report(rows({f"m{i}": i for i in range(5000)}))._repr_html_()
    assert tags(text).count("tr") < 80
    assert "5,000 models" in text


def test_nothing(rows):
    assert "Nothing was evaluated" in fr.Report([])._repr_html_()


def test_card_for_any_value():
    text = card("Plan", {"negatives": 99, "<b>": "<i>"}, table=(["a"], [["1"]]), notes=["mind <this>"])
    head, body = "div strong table tbody tr td td tr td td", "table thead tr th tbody tr td p"
    assert tags(text) == f"{head} {body}".split()
    assert "negatives</td>" in text


def test_frames(two, rows):
    late = fr.Report([*rows({f"m{i}": 0.1 for i in range(200)}), *rows({"last": 0.2}, low=0.1, high=0.3)])
    assert late.to_polars().shape == (201, 13)
    assert late.to_pandas().shape == (201, 13)
    assert late.to_polars()["low"][-1] == 0.1


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_frames_without_the_package(two, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"`to_{name}` needs {name}"):
        getattr(two, f"to_{name}")()


def test_of_cases_that_a_guide_closed_nothing_is_shown_that_is_not_known():
    """Neither metrics beyond where they were closed, nor AUC, of which nothing was drawn there."""
    outcomes = {"ranks": [1, 2, 1, 1] * 50, "drawn": [30, 30, 30, 0] * 50, "ahead": [0, 2, 5, 10] * 50}
    counts = fr.RankCounts.from_ranks(n_items=1000, design=fr.Guided(20, 30, stop_at=10), rest=979, **outcomes)
    assert "auc" not in counts._repr_html_()
    text = fr.LogSpline().fit(counts)._repr_html_()
    assert "recall@10<" in text
    assert "recall@100" not in text
