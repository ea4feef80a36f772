"""The page: one file, complete, well formed; whatever is in the report is escaped and bounded."""

import html
import math
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

import fullrank as fr
from fullrank.evaluation import report_on
from fullrank.report.digest import Digest
from fullrank.report.panels import PAGE, panels_of

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

VOID = {"meta", "link", "br", "hr", "img", "input"}
HTML = {
    "html", "head", "meta", "link", "title", "style", "body", "a", "header", "p", "h1", "h2", "h3", "dl", "div", "dt", "dd",
    "small", "nav", "ul", "li", "main", "section", "figure", "details", "summary", "table", "thead", "tbody", "tr", "th",
    "td", "b", "bdi", "span", "code", "footer", "aside",
}  # fmt: skip
SVG = {"svg", "g", "path", "line", "rect", "circle", "text", "tspan", "defs", "clippath", "desc", "title"}
ATTRIBUTES = {
    "lang", "charset", "name", "content", "http-equiv", "rel", "href", "class", "id", "role", "tabindex", "scope", "style",
    "aria-label", "aria-labelledby", "viewbox", "d", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "cx", "cy", "r", "width",
    "height", "transform", "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
    "stroke-miterlimit", "opacity", "fill-opacity", "stroke-opacity", "text-anchor", "dominant-baseline", "font-size",
    "font-weight", "font-style", "display", "pointer-events", "clip-path",
}  # fmt: skip


class Page(HTMLParser):
    """Reads a page strictly: what opens closes, only what we write ourselves occurs."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.labels, self.links, self.count, self.words = [], [], [], [], {}, []
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))
        assert set(self.labels) <= set(self.ids)
        assert set(self.links) <= {f"#{each}" for each in self.ids} | {"data:,"}
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        assert tag in HTML | SVG, tag
        self.count[tag] = self.count.get(tag, 0) + 1
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            if name == "id":
                self.ids.append(value)
            if name == "aria-labelledby":
                self.labels.append(value)
            if name == "href":
                self.links.append(value)
            if name == "style":
                assert value.startswith("background:var(--")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)


def read(report):
    text = report.to_html()
    assert len(text.encode()) < 2_000_000
    return Page(text)


def test_holds_all_sections_and_all_numbers(two):
    page = read(two)
    for title in ("Results", "By cut-off", "Where targets rank", "Where the budget went", "Model against model",
                  "Design and provenance", "How to read this"):  # fmt: skip
        assert title in page.text
    for row in two.rows:
        assert f"{row['value']:.4f}" in page.text
        assert f"{row['naive']:.4f}" in page.text
    assert page.count["svg"] == 2 + 2 + 2  # metrics, curves, models
    assert page.count["figure"] == page.count["svg"] == page.count["desc"]
    assert page.count["details"] == 2 + 2 + 1  # curves, models, the second metric's pairs
    assert fr.__version__ in page.text
    assert "uni99" in page.text


def test_nothing_is_fetched_and_nothing_runs(two):
    text = two.to_html()
    assert "http:" not in text
    assert "https:" not in text
    assert "<script" not in text
    assert "url(" not in text.replace("url(#f", "")
    assert "default-src 'none'" in text


def test_a_report_of_six_models_is_far_below_the_limit(two):
    counts = {
        f"model {i}": each.counts for i in range(3) for each in two.estimates.values() for i in [f"{i}{id(each)}"]
    }
    text = report_on(counts, ["ndcg@10", "recall@5", "ap@20", "precision@3", "auc"], estimator="mle").to_html()
    assert 100_000 < len(text.encode()) < 900_000


def test_budget_is_drawn_for_adaptive_designs(adaptive):
    page = read(adaptive)
    assert "Rows are sample sizes" in page.text
    assert page.count["svg"] == 1 + 1 + 2 + 2
    assert "adaptive 9..79 stop 1" in page.text


def test_exhaustive_reports_neither_estimate_nor_blind_spot(exact):
    page = read(exact)
    assert "A leads on recall@2" in page.text
    assert "0.5000, exact." in page.text
    assert "every candidate of every case" in page.text
    assert "Shaded" not in page.text
    assert "ncorrected" not in page.text


def test_pairs_show_intervals_where_a_comparison_is_there(two, comparison):
    held = {"ndcg@10": comparison("ndcg@10", "A", "B", 0.05, 0.02, 0.08)}
    report = fr.Report(two.rows, held, estimates=two.estimates)
    text = report.to_html()
    assert '<td class="up"><b>+0.0500</b><small>+0.0200 to&nbsp;+0.0800</small></td>' in text
    assert '<td class="down"><b>−0.0500</b><small>−0.0800 to&nbsp;−0.0200</small></td>' in text


def test_only_significant_differences_are_coloured_as_the_headline_has_it(two, comparison):
    """An interval that excludes 0 is not enough where many pairs were compared: Holm's adjustment decides here too."""
    found = comparison("ndcg@10", "A", "B", 0.05, 0.02, 0.08)
    held = replace(found, pairs=(replace(found.pairs[0], p_holm=0.2),))
    text = fr.Report(two.rows, {"ndcg@10": held}, estimates=two.estimates).to_html()
    assert "A and B cannot be told apart on ndcg@10" in text
    assert "<td><b>+0.0500</b><small>+0.0200 to&nbsp;+0.0800</small></td>" in text
    assert 'class="up"' not in text


def test_the_head_of_a_table_says_what_its_lines_are(two, exact):
    head = 'Full catalogue<small>95% interval</small><small class="faint">bounds</small></th>'
    assert two.to_html().count(head) == 2
    assert ">Value</th>" in exact.to_html()


def test_the_budget_is_that_of_all_models(two):
    many = {f"model {place}": two.estimates["A"].counts for place in range(8)}
    assert f"{8 * 400 * 99:,} items were scored for these 8 models" in read(report_on(many, "ndcg@10")).text


def test_metrics_are_explained_that_are_there(two):
    text = read(two).text
    assert "ndcg@K is 1 / log2(R + 1) if R ≤ K, else 0; recall@K is 1 if R ≤ K, else 0. Each" in text
    assert "auc is" not in text
    counts = two.estimates["A"].counts
    assert "mrr is 1 / R; auc is the share" in read(report_on({"A": counts}, ["mrr", "auc"])).text


def test_the_same_report_gives_the_same_page(two):
    assert two.to_html() == two.to_html()


# ------------------------------------------------------------------------------------------------ files


def test_is_written_atomically(two, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    assert two.to_html(path) == path
    before = path.read_text(encoding="utf-8")
    assert before == two.to_html()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        two.to_html(path)
    assert path.read_text(encoding="utf-8") == before
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_others_may_read_it_as_far_as_the_umask_allows(tmp_path):
    before = os.umask(0o027)
    try:
        path = fr.Report([]).to_html(tmp_path / "report.html")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o604)
    assert fr.Report([]).to_html(path).stat().st_mode & 0o777 == 0o604


def test_bad_paths(two, tmp_path):
    with pytest.raises(ValueError, match=r"`path` must lie in a folder that exists, got .*: make .* first"):
        two.to_html(tmp_path / "no" / "report.html")
    with pytest.raises(ValueError, match=r"`path` must be a file, got the folder .*: name one in it"):
        two.to_html(str(tmp_path))


def test_import_loads_no_charts():
    code = "import sys, fullrank; fullrank.Report([]); print(sorted({'altair', 'vl_convert', 'pandas'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


# ------------------------------------------------------------------------------------------------ hostile input

ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></title></svg><iframe src=javascript:alert(1)>",
    "<!-- ",
    "]]>",
    "&lt;b&gt;&#x3c;",
    "$body ${title} $$ {{7*7}} %s {0}",
    "\u202eabc\u2066",
    "\ud800\udfff\x00\x1b[31m",
    "Ωmega 🦊 हिन्दी العربية",
    "a" * 100_000,
    "Z" + "\u0335" * 500,
    "url(#x) var(--ink) #f1-clip0",
    "datum.value; format('x')",
    "line\nbreak\r\ttab",
]


def test_names_are_only_ever_text(two):
    counts = two.estimates["A"].counts
    for group in (ATTACKS[:6], ATTACKS[5:11], ATTACKS[10:]):
        report = report_on(dict.fromkeys(group, counts), ["ndcg@10"], estimator="mle")
        page = read(report)
        for attack in group:
            if attack.isascii() and attack.isprintable() and len(attack) < 30:
                assert attack in page.text


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_other_field_is_only_ever_text(rows, comparison, attack):
    hostile = rows({attack: 0.1, "B": 0.2}, metric=attack, naive=0.3, estimator=attack, design=attack)
    keys = (attack, "data", "title", "level", "target", "about")
    provenance = {**dict.fromkeys(keys, attack), "nested": {attack: [attack, {"x": attack}]}}
    held = comparison("ndcg@10", str(attack), "B", 0.1, -math.inf, math.inf)
    runs = {str(attack): fr.report.Run(attack, ({attack: attack},), {attack: 1})}
    page = read(
        fr.Report(hostile, {str(attack): held}, runs, tuple(f"{i} {attack}" for i in range(50)), provenance=provenance)
    )
    assert "and 38 more." in page.text


def test_a_metric_of_ones_own_has_results_and_a_curve(two):
    metric = fr.Metric("<b>mine</b>", lambda R: 1 / R**2) @ 20
    page = read(report_on({"A": two.estimates["A"].counts}, [metric], estimator="mle"))
    assert "<b>mine</b>@20" in page.text
    assert "<b>mine</b>@K" in page.text
    uncut = fr.Metric("mine", lambda R: 1 / R**2)
    assert "By cut-off" not in read(report_on({"A": two.estimates["A"].counts}, [uncut], estimator="mle")).text


class Rows:
    """Very many rows that need no memory."""

    def __init__(self, size, key):
        self.size, self.key = size, key

    def __len__(self):
        return self.size

    def __getitem__(self, place):
        if not 0 <= place < self.size:
            raise IndexError(place)
        row = {"model": "m", "metric": "ndcg@10", "value": place / self.size, "low": 0.0, "high": 1.0, "naive": 0.5,
               "estimator": "MLE", "design": "uni99", "items_scored": 99, "cases": 1}  # fmt: skip
        row[self.key] = f"{row[self.key]}{place}"
        return row


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("model", "The best 40 of 200,000 models are shown."),
        ("metric", "The first 6 of 200,000 metrics are shown."),
        ("design", "…"),
    ],
)
def test_very_many_rows_are_bounded_and_said_to_be(key, words):
    report = fr.Report(Rows(200_000, key))
    start = time.perf_counter()
    page = read(report)
    assert time.perf_counter() - start < 120
    assert words in page.text
    assert page.count["tr"] < 800
    assert len(report._repr_html_()) < 100_000


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "text", 10**400, -1e300, 1e-300, 0.0])
def test_any_value_can_be_shown(rows, value):
    read(fr.Report(rows({"A": value, "B": 0.1}, naive=value)))
    read(fr.Report(rows({"A": value})))
    read(fr.Report(rows({"A": 0.1}, low=value, high=value)))


def test_huge_catalogues_and_huge_cut_offs():
    counts = fr.RankCounts.from_ranks([1, 1, 2, 7], n_items=10**8, design="uni99")
    page = read(report_on({"A": counts}, ["recall@999999999999", "ndcg@1"], estimator="mle"))
    assert "100,000,000" in page.text
    assert "recall@999999999999" in page.text


@pytest.mark.parametrize("n_items", [1, 2, 3])
def test_tiny_catalogues(n_items):
    read(fr.correct([1], n_items=n_items, design="full", metrics=["recall@1", "auc"]))
    if n_items > 1:
        read(fr.correct([1, 2], n_items=n_items, design="uni9", metrics="ndcg@10", estimator="mle"))


def test_signed_mass_and_estimates_without_a_distribution(two):
    counts = {name: each.counts for name, each in two.estimates.items()}
    for estimator in ("bv0.001", "cls", "linear", "naive"):
        page = read(report_on(counts, ["recall@10"], estimator=estimator))
        assert "By cut-off" in page.text
        assert ("Where targets rank" in page.text) == (estimator in {"bv0.001", "naive"})


def test_pools_that_vary_and_several_targets():
    ranks, order = np.tile([1, 2, 9, 4], 50), np.tile([1, 2], 100)
    counts = fr.RankCounts.from_ranks(ranks, n_items=np.repeat([50, 5000], 100), design="uni9")
    assert "50–5,000" in read(report_on({"A": counts}, estimator="mle")).text
    users = np.repeat(np.arange(100), 2)
    several = fr.RankCounts.from_ranks(ranks, 500, "uni9", users=users, order=order, targets=[2] * 200)
    read(report_on({"A": several}, estimator="mle"))


def test_an_empty_report_needs_no_charts(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    page = read(fr.Report([], provenance={"seed": 3}))
    assert "Nothing was evaluated" in page.text
    assert "figure" not in page.count


def test_what_top_knows_is_called_exact_and_what_it_does_not_is_shown():
    ranks, drawn = [1, 4, 9] * 30 + [1, 3] * 30, [0, 0, 0] * 30 + [99, 99] * 30
    counts = {
        name: fr.RankCounts.from_ranks(ranks[at:], 20_000, "top10", drawn=drawn[at:])
        for name, at in (("A", 0), ("B", 1))
    }
    text = fr.correct(counts, metrics=["recall@10", "recall@50"]).to_html()
    said = re.sub(r"<[^>]*>", "", text)
    assert re.search(r"0\.\d+, exact\.", said)
    assert "Ranks up to 10 are exact, and with them metrics up to @10" in said
    assert "Shaded: the blind spot, ranks 11 to 140" in said
    assert "exact to 10" in text
    assert "none of its sampled negatives beats a target there" in " ".join(said.split())
    assert "first negatives beat" not in said  # that is how adaptive samples are spent
    recall_50 = text.split('id="figure-2"')[1].split("</figure>")[0]
    assert "<small>exact</small>" in text.split('id="figure-1"')[1].split("</figure>")[0]
    assert "<small>exact</small>" not in recall_50


def test_dust_is_zero_and_has_no_sign():
    report = fr.correct({"A": [100] * 500, "B": [100] * 500}, 1000, "uni99", "recall@10")
    text = report.to_html()
    assert "A and B tie on recall@10" in text
    assert not re.search(r"\de[−-]\d", re.sub(r"<svg.*?</svg>", "", text, flags=re.S))
    assert "+−" not in text


def test_equal_values_are_written_once_in_a_chart(rows):
    text = fr.Report(rows({"A": 0.5}, naive=0.50001)).to_html()
    assert "uncorrected" not in text.split("<desc")[1].split("</desc>")[0]
    other = fr.Report(rows({"A": 0.5}, naive=0.6)).to_html()
    assert "uncorrected 0.6000" in other.split("<desc")[1].split("</desc>")[0]


def test_names_with_one_beginning_are_told_apart_by_their_ends():
    names = [f"SASRec (dim={dim}, lr=0.01)" for dim in (128, 129, 256)]
    report = fr.correct({name: [1, 2, 3 + i] * 50 for i, name in enumerate(names)}, 1000, "uni99", "recall@10")
    drawn = set(re.findall(r">(…[^<]*)<", report.to_html()))
    assert drawn == {"…128, lr=0.01)", "…129, lr=0.01)", "…256, lr=0.01)"}


def test_the_page_says_which_data_and_which_seed():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(40, 4)), rng.normal(size=(90, 4))
    split = fr.Split(sp.csr_matrix((40, 90)), users=np.arange(40), items=(U @ V.T).argmax(1), name="toy")
    text = fr.evaluate({"A": (U, V)}, split, "recall@10", progress=False).to_html()
    assert split.checksum in text
    assert "fullrank report · toy" in text
    assert "<bdi>seed</bdi></dt><dd>0</dd>" in text
    assert "null" not in text
    assert "{" not in text.split('id="design"')[1]


def test_what_metrics_mean_and_how_many_users_there_are_is_said_of_several_targets_per_user():
    rng = np.random.default_rng(0)
    about = {"users": np.repeat(np.arange(300), 2), "order": np.tile([1, 2], 300), "targets": np.full(600, 2)}
    ranks = np.sort(rng.integers(1, 60, (300, 2)), axis=1).ravel()
    counts = fr.RankCounts.from_ranks(ranks, 5000, "uni99", **about)
    report = fr.correct({"A": counts}, metrics=["hit@10", "recall@10", "mrr@10", "ndcg@10"])
    said = html.unescape(" ".join(re.sub(r"<[^>]*>", "", report.to_html()).split()))
    assert "held-out items of 300 users" in said
    assert "hit@K is 1 if the user's best item has R ≤ K, else 0" in said
    assert "recall@K is the share of the user's items with R ≤ K" in said
    assert "With one held-out item per user" not in said
    titles = [panel.title for panel in panels_of(Digest(report), PAGE, "curves")]
    assert titles == ["hit@K", "recall@K", "mrr@K", "ndcg@K"]
    one = fr.correct({"A": [1, 2, 3, 9] * 90}, 1000, "uni99", ["hit@10", "recall@10"])
    assert [panel.title for panel in panels_of(Digest(one), PAGE, "curves")] == ["hit@K"]


def test_the_items_of_the_page_are_those_of_the_rows_and_bounds_beyond_the_chart_have_an_arrow():
    true = np.random.default_rng(0).beta(0.3, 1.5, 2000) ** 3
    sampled = {name: 1 + np.random.default_rng(seed).binomial(99, true) for seed, name in enumerate("AB")}
    report = fr.correct(sampled, 20_000, "uni99", "recall@10")
    rows = [replace(row, items_scored=1_000_000) for row in report.rows]  # audits and timing are in the rows
    told = replace(report, rows=rows)
    assert "2,000,000 items were scored" in told.to_html()
    arrow = "reaches beyond the chart where there is an arrow"
    for shown, cut in ((told, False), (replace(told, rows=[replace(row, naive=None) for row in rows]), True)):
        [panel] = panels_of(Digest(shown), PAGE, "results")  # uncorrected values lie beyond the bounds
        ends = [row["further"] for row in panel.chart.layer[0].to_dict()["data"]["values"]]
        assert [each is not None for each in ends] == [cut, cut]
        assert (arrow in shown.to_html()) == cut
