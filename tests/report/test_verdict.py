"""One sentence says it all, and the same one everywhere."""

import math
import re

import numpy as np
import pytest

import fullrank as fr
from fullrank.report import Row, Run
from fullrank.report.comparison import verdict
from fullrank.report.words import joined, merged_notes, named, ratio, short_design


def plain(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


@pytest.fixture(scope="module")
def close():
    """Two models that hardly differ, sampled."""
    rng = np.random.default_rng(0)
    ranks = (3000 ** rng.beta(1.0, 1.2, size=(2, 400))).astype(int)
    sampled = 1 + rng.binomial(99, (ranks - 1) / 2999)
    return fr.correct({"A": sampled[0], "B": sampled[1]}, 3000, "uni99", ["ndcg@10", "recall@20"])


def test_the_same_words_in_terminal_page_notebook_and_comparison(two, close, exact):
    for report in (two, close, exact):
        said = report.verdict
        comparison = fr.compare(report)
        assert comparison.verdict == said
        for text in ("\n".join(report.lines(400)), "\n".join(comparison.lines(400))):
            assert text.startswith(f"{said}\n")
        for html in (report._repr_html_(), comparison._repr_html_()):
            assert str(said) in plain(html)
        pytest.importorskip("vl_convert")
        for page in (report.to_html(), comparison.to_html()):
            assert f"<h1>{said.headline}</h1>" in page
            assert f"{said.detail}." in plain(page)


def test_the_leader_is_named_with_its_interval_and_whom_uncorrected_ranks_would_have_named(rows):
    report = fr.Report(
        [*rows({"A": 0.2}, naive=0.5, low=0.18, high=0.22), *rows({"B": 0.1}, naive=0.9, low=0.08, high=0.12)]
    )
    assert str(report.verdict) == (
        "A leads on ndcg@10: 0.2000, 95% interval 0.1800 to 0.2200; uncorrected ranks would have named B."
    )
    right = fr.Report([*rows({"A": 0.2}, naive=0.9), *rows({"B": 0.1}, naive=0.5)])
    assert str(right.verdict) == "A leads on ndcg@10: 0.2000."


def test_low_p_best_cannot_be_told_apart(close):
    held = close.comparison["ndcg@10"]
    assert held.best[held.winner] < 0.95
    other = next(model for model in "AB" if model != held.winner)
    assert close.verdict.headline == f"{held.winner} and {other} cannot be told apart on ndcg@10"
    assert close.verdict.detail.endswith(f"is best with probability {held.best[held.winner]:.2f}")
    assert "seems" not in str(close)


def test_without_a_comparison_overlapping_intervals_decide(rows):
    def said(low):
        return str(fr.Report([*rows({"A": 0.2}, low=low, high=0.3), *rows({"B": 0.1}, low=0.08, high=0.12)]).verdict)

    assert said(0.11).startswith(
        "A and B cannot be told apart on ndcg@10: A has 0.2000, 95% interval 0.1100 to 0.3000."
    )
    assert said(0.18).startswith("A leads on ndcg@10")


def test_a_comparison_decides_where_there_is_one(rows, comparison):
    held = {"ndcg@10": comparison("ndcg@10", "A", "B", 0.1, 0.05, 0.15)}
    assert fr.Report(rows({"A": 0.2, "B": 0.1}, low=0.0, high=0.5), held).verdict.headline == "A leads on ndcg@10"


def test_exact_where_it_is_exact(exact):
    assert str(exact.verdict) == "A leads on recall@2: 0.5000, exact."
    text = str(exact)
    assert "uncorrected" not in text
    assert "0.5000 to 0.5000" not in text
    assert text.splitlines()[-2].split()[-1] == "exact"
    pytest.importorskip("vl_convert")
    page = plain(exact.to_html())
    assert "Uncorrected" not in page
    assert "Bands are" not in page
    assert "exact" in page


def test_part_of_the_numbers_may_be_exact():
    counts = fr.RankCounts.from_ranks([1, 7, 50] * 40, 20_000, "top10", drawn=[0, 0, 99] * 40)
    lines = fr.correct({"A": counts}, metrics=["recall@10", "recall@50"]).lines()
    found = {line.split()[1]: line for line in lines if line.startswith("A  ")}
    assert "exact" in found["recall@10"]
    assert "exact" not in found["recall@50"]


def test_one_model_ties_and_nothing(rows):
    one = fr.Report(rows({"A": 0.25}, low=0.2, high=0.3, naive=0.75))
    assert str(one.verdict) == "A has ndcg@10 of 0.2500: 95% interval 0.2000 to 0.3000; uncorrected 0.7500."
    assert str(fr.Report(rows({"A": 0.25, "B": 0.25})).verdict) == "A and B tie on ndcg@10: 0.2500."
    assert str(fr.Report(rows(dict.fromkeys("ABCDE", 0.25))).verdict).startswith("A, B and 3 others tie on ndcg@10")
    assert str(fr.Report([]).verdict) == "Nothing was evaluated."
    assert str(fr.Report(rows({"A": math.nan, "B": None})).verdict) == "No model has a finite ndcg@10."
    assert verdict([Row("A", fr.NDCG @ 10, 0.25)]).detail == ""


def test_repr_fits_a_screen(two, close):
    for value in (two, close, fr.compare(close), fr.Report([])):
        assert len(repr(value)) < 400
        assert repr(value).count("\n") == 0
        assert str(value.verdict)[:100] in repr(value)
    assert "2 models × 2 metrics" in repr(two)


def test_met_precision_is_good_news_and_not_a_warning(two):
    from dataclasses import replace

    runs = {name: Run("precision", remarks=("the precision of ±5% was met.",)) for name in "AB"}
    report = replace(two, runs=runs, notes=("A: mind this.",))
    assert "A and B: the precision of ±5% was met." in report.lines()
    assert "! A: mind this." in report.lines()
    assert not any(line.startswith("!") and "precision" in line for line in report.lines())
    assert "was met" in report._repr_html_()
    pytest.importorskip("vl_convert")
    page = report.to_html()
    assert '<aside class="good" aria-label="How it went"><ul><li>A and B: the precision' in page
    assert "was met" not in page.split('class="notes"')[1].split("</aside>")[0]


def test_latex_and_markdown_carry_intervals(two, exact):
    low, high = two.row("A", "ndcg@10").interval
    assert f" [{low:.3f}, {high:.3f}]" in two.to_markdown()
    assert f" {{\\scriptsize [{low:.3f}, {high:.3f}]}}" in two.to_latex()
    assert "with 95\\% intervals" in two.to_latex()
    assert f" [{low:.3f}, {high:.3f}]" in fr.compare(two).to_markdown()
    assert "[0.500" not in exact.to_markdown()
    assert "intervals" not in exact.to_markdown()


def test_flat_names_are_safe_for_mlflow():
    ranks = [1, 1, 2, 9] * 50
    report = fr.correct({"EASE λ=1": ranks, "EASE μ=1": ranks, "ALS": ranks}, 1000, "uni99", ["ndcg@10", "auc"])
    flat = report.to_dict(flat=True)
    assert len(flat) == len(report.to_dict())
    assert all(re.fullmatch(r"[A-Za-z0-9_./ -]+", name) for name in flat)
    assert flat["ALS/ndcg_at_10"] == report.value("ALS", "ndcg@10")
    assert flat["ALS/ndcg_at_10_low"] == report.row("ALS", "ndcg@10").low
    assert "ALS/ndcg_at_10_bounds_high" in flat


def test_words():
    assert joined(["A", "B"]) == "A and B"
    assert joined(["A", "B", "C"]) == "A, B and C"
    assert joined(["A", "B", "C", "D", "E"]) == "A, B and 3 others"
    assert (named("ALS"), named("ALS, 64 factors")) == ("ALS", "'ALS, 64 factors'")
    assert [ratio(each) for each in (1.0, 1.234, 2.04, 3.44, 23.4, 37716.8)] == [
        "1.00", "1.23", "2.0", "3.4", "23", "38,000",
    ]  # fmt: skip
    assert short_design("adaptive 99..4799 stop 2 without replacement") == "adaptive, up to 4,799"
    assert short_design("adaptive") == "adaptive"
    assert short_design("uni99 without replacement") == "uni99"
    notes = ["A: few cases.", "B: few cases.", "interrupted."]
    assert merged_notes(notes, ["A", "B"]) == ["A and B: few cases.", "interrupted."]
    assert short_design("adaptive 99..all stop 10 without replacement") == "adaptive, up to all"
    assert short_design("exhaustive to 10, then uni99") == "exhaustive to 10, then uni99"
    assert merged_notes(["a: b: few.", "c: few.", "few."], ["a: b", "c"]) == ["a: b and c: few."]


def test_a_name_with_a_comma_is_not_read_as_two():
    rows = [
        Row(model, fr.NDCG @ 10, 0.2 - place / 100, (0.1, 0.3)) for place, model in enumerate(("A", "B, tuned", "C"))
    ]
    assert str(verdict(rows)).startswith("A, 'B, tuned' and C cannot be told apart on ndcg@10")
    assert str(verdict(rows[1:2])).startswith("'B, tuned' has ndcg@10 of 0.19")
