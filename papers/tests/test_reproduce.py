"""The engine on toys, the published numbers, and, where the data are, kr20's Table 3."""

import json
import os
import re
import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fullrank as fr
from fullrank_papers import Result, experiment, experiments, run, run_all, time_spent
from fullrank_papers.catalogue import Experiment, published
from fullrank_papers.claims import CLAIMS
from fullrank_papers.cli import app
from fullrank_papers.figures import FIGURES, Panel, Series, stage_costs
from fullrank_papers.keeping import keep, kept
from fullrank_papers.kinds import TABLES, Bench, Row, alignment_gaps, check
from fullrank_papers.neural import NeuMF
from fullrank_papers.ranks import NotHereError, Ranks, rank_key, recipes, split_of, true_ranks
from fullrank_papers.show import aligned, as_html, as_markdown, as_text, listing, pictures
from fullrank_papers.simulate import METRICS, column, exact, fits, sampled, theory

N = 600


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FULLRANK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def ranks():
    rng = np.random.default_rng(1)
    R = 1 + np.floor((N - 1) * rng.random(800) ** 3).astype(np.int64)
    return Ranks(R, np.full(800, N), "toy")


def toy(kind="metrics", **more):
    R = {name: np.maximum(1, (np.arange(1, 301) ** p % N)).tolist() for name, p in (("A", 1), ("B", 2), ("C", 3))}
    given = {
        "kind": kind, "data": ("toy",), "models": ("A", "B", "C"), "design": "uni19", "repeats": 5,
        "metrics": ("recall@10", "ndcg@10"), "estimators": ("sampled", "BV0.1", "MLE"),
    }  # fmt: skip
    options = {"ranks": R, "n_items": N, **more.pop("options", {})}
    return Experiment("kr20-table99", "a toy", **{**given, **more}, options=options)


# ------------------------------------------------------------------------------------------------ catalogue


def test_every_table_and_figure_of_the_papers_is_there():
    wanted = [f"kr20-table{i}" for i in (1, 2, 3, 4)] + [f"kr20-fig{i}" for i in range(1, 7)]
    wanted += [f"li20-table{i}" for i in range(2, 8)] + [f"li20-fig{i}" for i in range(1, 9)]
    wanted += [f"jin21-table{i}" for i in range(2, 11)] + [f"jin21-fig{i}" for i in (1, 2, 3)]
    wanted += [f"li23-table{i}" for i in range(5, 12)] + ["li23-fig1", "li23-fig2"]
    assert {*wanted, "jin21-table2-weights", "kr20-table3-starts"} == set(experiments())
    assert experiment("li23-table1").name == "li23-table6"


@pytest.mark.parametrize("name", sorted(experiments()))
def test_every_toml_loads_and_names_what_exists(name):
    made = experiment(name)
    check(made)
    assert made.kind in (FIGURES if made.is_figure else TABLES)
    assert set(made.models) <= {*recipes(), "A", "B", "C"}
    if made.published:
        found = published(made.published)
        data, models = {key[0] for key in found}, {key[1].split(",")[0] for key in found}
        assert data & set(made.data)
        assert models & {*made.models, "winner"} or models == {""} or all(" or " in model for model in models)


def test_published_numbers_parse_and_keys_are_unique():
    folder = resources.files("fullrank_papers").joinpath("published")
    files = [each.name for each in folder.iterdir() if each.name.endswith(".csv") and "ranks" not in each.name]
    assert len(files) == 28 + 1
    for file in files:
        rows = len(folder.joinpath(file).read_text().splitlines()) - 1
        assert len(published(file)) == rows, file
    assert published("kr20_table3_ml1m_metrics.csv")["ml-1m", "Y", "recall@10", "exact"] == (8.84, None)
    assert published("jin21_table2_ml1m_metrics10.csv")["ml-1m", "EASE", "ap@10", "MES"] == (10.35, 3.13)


@pytest.mark.parametrize(
    ("printed", "part"),
    [("li20_table5_shr_hr_ml1m_multivae_n100.csv", "n=100"), ("li20_table6_shr_hr_ml1m_multivae_n1000.csv", "n=1000")],
)
def test_the_repository_of_li20_prints_what_the_paper_prints_and_more(printed, part):
    paper, repository = published(printed), published(f"li20x_table1_shr_hr_mapping.csv, {part}")
    assert {key: repository[key] for key in paper} == paper
    more = set(repository) - set(paper)
    assert {key[3] for key in more if key[0] == "ml-1m"} == {"linear"}
    assert len(repository) == 180


def test_statistics_count_train_and_test(monkeypatch):
    from fullrank_papers import kinds

    train = np.zeros((2, 5))
    train[0, :3] = train[1, 0] = 1
    small = fr.Split(train, np.array([0, 1]), np.array([4, 4]))
    monkeypatch.setattr(kinds, "split_of", lambda data: small)
    made = replace(experiment("jin21-table5"), data=("ml-1m",))
    found = {row.metric: row.measured for row in kinds.statistics_table(made, Bench(2))}
    assert found == {"interactions": 6, "users": 2, "items": 5, "sparsity_pct": pytest.approx(40.0)}


def test_an_unknown_name_is_refused_with_a_hint():
    with pytest.raises(ValueError, match="did you mean 'kr20-table3'"):
        experiment("kr20-tabel3")


# ------------------------------------------------------------------------------------------------ simulation


def test_batched_fits_are_the_fits_one_by_one(ranks):
    samples = sampled(ranks, "uni19", 3, 0)
    for name, estimator in {
        "sampled": fr.Naive(), "rank_estimate": fr.RankEstimate(), "CLS": fr.CLS(), "BV0.01": fr.BiasVariance(0.01),
        "MLE": fr.MLE(), "MES": fr.MaxEntropy("authors"), "MN_MLE, own prior": fr.Multinomial(prior=fr.MLE()),
        "BV_MES, own prior": fr.BiasVariance(0.01, prior=fr.MaxEntropy("authors")), "LogSpline": fr.LogSpline(),
    }.items():  # fmt: skip
        found, _ = fits(name, samples)
        for repeat in range(3):
            fitted = estimator.fit(samples.counts(repeat))
            for metric in ("recall@10", "ndcg@20", "ap"):
                assert found[repeat, column(metric)] == pytest.approx(fitted.expect(metric), rel=1e-6, abs=1e-9), name


def test_the_pooled_prior_is_the_mean_of_all_repeats(ranks):
    samples = sampled(ranks, "uni19", 4, 0)
    pooled, own = (fits(name, samples)[0] for name in ("BV_MLE", "BV_MLE, own prior"))
    assert not np.allclose(pooled, own)
    one = replace(samples, seen=samples.seen[:1])
    assert fits("BV_MLE", one)[0] == pytest.approx(fits("BV_MLE, own prior", one)[0])


@pytest.mark.parametrize("design", ["uni19", "uni19 without replacement", "adaptive 9..79 stop 1"])
def test_draws_follow_the_law_of_the_design(ranks, design):
    samples = sampled(ranks, design, 200, 0)
    law = samples.design.law(ranks.ranks, N, samples.drawn, samples.hits).sum(0)
    sd = np.sqrt(np.maximum(law, 1) / 200)
    assert (np.abs(samples.seen.mean(0) - law) < 5 * sd).all()


def test_counts_of_a_sample_know_their_candidates(ranks):
    for candidates in ("all", "unseen"):
        samples = sampled(replace(ranks, candidates=candidates), "uni19", 1, 0)
        assert samples.counts().candidates == candidates


def test_samples_may_be_corrected_with_another_law(ranks):
    samples = sampled(ranks, "uni19 without replacement", 2, 0, law="uni19")
    assert samples.design == fr.Sample(19)


@pytest.mark.parametrize("name", ["sampled", "CLS", "BV0.1", "BV0.01", "MLE", "MES"])
def test_theory_gives_mean_and_spread_of_the_simulation(ranks, name):
    mean, sd = theory(ranks, name, "uni19")
    found, _ = fits(name, sampled(ranks, "uni19", 600, 0))
    at = [column(metric) for metric in ("recall@10", "ndcg@10", "ap")]
    z = (found.mean(0) - mean)[at] / (sd[at] / np.sqrt(600))
    assert np.abs(z).max() < 4
    assert found.std(0, ddof=1)[at] / sd[at] == pytest.approx(1, abs=0.15)


def test_exact_metrics_are_those_of_the_full_ranking(ranks):
    counts = fr.RankCounts.from_ranks(ranks.ranks, N, "full")
    truth = fr.Naive().fit(counts)
    assert exact(ranks)[[column("recall@10"), column("auc")]] == pytest.approx(
        [truth.expect("recall@10"), truth.expect("auc")]
    )
    assert len(exact(ranks)) == len(METRICS)


def test_stage_costs_follow_equation_13():
    R = np.array([1, 1, 300, 600])
    sizes, cost = stage_costs(Ranks(R, np.full(4, 601), "x"), 100, 601)
    assert sizes.tolist() == [100, 200, 400]
    # at the first stage nearly all of the two low targets are beaten: C_0 = M n_0 / m_0 = 4 · 100 / 2
    assert cost[0] == pytest.approx(200, rel=1e-3)
    assert cost[1] > 1e6


# ------------------------------------------------------------------------------------------------ engine


def test_models_that_differ_by_rounding_are_a_tie(monkeypatch):
    made = toy("pairs", options={"pairs": [["A", "B"]]}, metrics=("recall@10",), estimators=("CLS",))
    bench = Bench(5)
    base = np.full((5, len(METRICS)), 0.1)
    noise = {"A": 0.0, "B": 1e-13, "C": -0.05}
    truth = {model: exact(bench.ranks(made, "toy", model))[column("recall@10")] for model in "AB"}
    assert truth["A"] < truth["B"]
    monkeypatch.setattr(Bench, "values", lambda self, made, ranks, word: (base + noise[ranks.key[-1]], None))
    assert [row.measured for row in TABLES["pairs"](made, bench)] == [0]


def test_kinds_of_tables_on_a_toy():
    rows = TABLES["metrics"](toy(), Bench(5))
    assert [row.estimator for row in rows[:4]] == ["exact", "sampled", "BV0.1", "MLE"]
    assert rows[0].metric == rows[3].metric == "recall@10"
    pairs = TABLES["pairs"](toy("pairs", options={"pairs": [["A", "B"]]}), Bench(5))
    assert {row.model for row in pairs} == {"A or B"}
    assert all(0 <= row.measured <= 100 for row in pairs)
    winners = TABLES["winners"](toy("winners"), Bench(5))
    assert {row.model for row in winners} == {"winner"}
    errors = TABLES["relative errors"](
        toy("relative errors", metrics=("recall",), estimators=("MLE", "adaptive_MLE"),
            options={"adaptive": "adaptive 9..79 stop 1"}), Bench(5))  # fmt: skip
    assert {row.estimator for row in errors} == {"MLE", "adaptive_MLE", "adaptive size"}
    assert all(10 <= row.measured <= 80 for row in errors if row.estimator == "adaptive size")
    beta = TABLES["beta"](toy("beta"), Bench(5))
    assert all(row.measured > 0 for row in beta)
    gaps = TABLES["mapping errors"](toy("mapping errors", estimators=("bound", "beta@0.5", "beta@P")), Bench(5))
    assert all(row.measured >= 0 for row in gaps)


def test_starts_tell_how_far_a_random_start_moves_the_exact_values(monkeypatch):
    from fullrank_papers import kinds

    rng = np.random.default_rng(0)
    train, targets = rng.random((40, 30)) < 0.2, rng.integers(30, size=40)
    train[np.arange(40), targets] = False
    split = fr.Split(train, np.arange(40), targets)
    monkeypatch.setattr(kinds, "split_of", lambda data: split)
    made = experiment("kr20-table3-starts")
    made = replace(made, options={**made.options, "starts": 3, "iterations": [1, 2]})
    bench = Bench(2)
    rows = TABLES["starts"](made, bench)
    assert [(row.model, row.metric) for row in rows[:2]] == [("X, 1 rounds", "recall@10"), ("X, 1 rounds", "ndcg@10")]
    assert len(rows) == 8
    recall = rows[0]
    assert recall.published == 7.60
    assert recall.sd > 0
    assert bench.notes[0].endswith("published 7.60, outside.")
    again = TABLES["starts"](made, Bench(2))
    assert again == rows  # kept


def test_every_kind_of_figure_gives_finite_lines():
    common = {"to": 50, "n": 20, "k": 5, "sizes": [5, 10], "a": [0.3, 0.5], "base": 1.0, "relative": True, "width": 50,
              "full": [[1, 50]], "sample": [[1, 10]]}  # fmt: skip
    for kind, make in FIGURES.items():
        options = dict(common)
        estimators = ("BV0.1", "MLE")
        if kind == "alignment":
            options |= {"full": [N], "sample": [10]}
            estimators = ("bound", "beta@0.5")
        if kind == "sizes compared":
            options |= {"n": [10, 20], "to": 400}
        if kind == "metric shapes":
            options |= {"to": [50, 10]}
        metrics = ("recall",) if kind == "blind spot" else ("ap",) if kind == "corrected metric" else ("recall@10",)
        panels = make(toy(kind, options=options, estimators=estimators, metrics=metrics), Bench(3))
        assert panels, kind
        for panel in panels:
            for series in panel.series:
                assert len(series.x) == len(series.y) > 0, kind
                assert np.isfinite(series.y).all(), kind


def test_results_are_kept_and_read_back():
    made = experiment("kr20-table2")
    first = run(made, repeats=20, progress=False)
    again = run(made, repeats=20, progress=False)
    assert again.rows == first.rows
    assert again.seconds == pytest.approx(first.seconds, abs=0.006)  # read, not run
    exact_rows = run(experiment("kr20-table1"), progress=False).rows
    assert all(abs(row.measured - row.published) < 0.0006 for row in exact_rows)


def test_kept_arrays_survive_and_damage_counts_as_nothing(tmp_path):
    keep("ranks", "k", a=np.arange(3))
    assert kept("ranks", "k")["a"].tolist() == [0, 1, 2]
    (tmp_path / "cache" / "ranks" / "k.npz").write_bytes(b"half a file")
    assert kept("ranks", "k") is None


def test_missing_data_is_one_sentence_and_the_rest_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("FULLRANK_DATA", str(tmp_path))
    from fullrank_papers import ranks as module

    module.split_of.cache_clear()
    result = run(experiment("kr20-table3"), repeats=2, progress=False)
    assert not result.rows
    assert len(result.missing) == 1
    assert "ml-1m.train.rating" in result.missing[0]
    assert any("missing:" in line for line in as_text(result))
    module.split_of.cache_clear()


def test_text_fits_80_columns_and_pages_are_made():
    result = run(experiment("kr20-table2"), repeats=5, progress=False)
    figure = run(experiment("li20-fig4"), repeats=5, progress=False)
    other = run(experiment("li20-fig5"), repeats=5, progress=False)
    assert max(len(line) for line in as_text(result) if not line.startswith(("note", "missing"))) <= 80
    page = as_markdown([result, figure, other])
    assert "### kr20-table2" in page
    assert "| kr20 |" in page
    assert "| kr20-table2 | reproduced | 12 of 12 |" in page
    assert "![" in page
    assert "(reproduction/li20-fig4.svg)" in page
    assert "does not hold" in page  # 1.06 ranks are not less than one
    assert max(map(len, listing())) <= 96
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    small = pictures([result, figure])
    assert list(small) == ["li20-fig4.svg"]
    assert small["li20-fig4.svg"].startswith("<svg ")
    assert len(small["li20-fig4.svg"]) < 20_000
    whole = as_html([result, figure])
    assert "<svg" in whole
    assert "0.990" in whole
    assert "<a href='#li20-fig4'>" in whole
    assert "<td>kr20<td>" in whole
    assert "e-15" not in whole


def test_command_line(tmp_path):
    runner = CliRunner()
    assert "kr20-table3" in runner.invoke(app, ["--list"]).output
    out = runner.invoke(app, ["kr20-table1", "--out", str(tmp_path / "out")])
    assert out.exit_code == 0
    assert "published" in out.output
    told = json.loads((tmp_path / "out" / "kr20-table1.json").read_text())
    assert told["schema"] == "fullrank.reproduce/1"
    assert len(told["rows"]) == 12
    machine = runner.invoke(app, ["kr20-table1", "--json"])
    assert json.loads(machine.output)[0]["name"] == "kr20-table1"
    pytest.importorskip("vl_convert")
    page = tmp_path / "docs" / "reproduction.md"
    assert runner.invoke(app, ["li20-fig4", "--doc", str(page)]).exit_code == 0
    assert (tmp_path / "docs" / "reproduction" / "li20-fig4.svg").exists()
    assert "(reproduction/li20-fig4.svg)" in page.read_text()


# ------------------------------------------------------------------------------------------------ official files


def small_files(folder: Path, name: str) -> None:
    """A few dozen users in the official format of a data set that is not here."""
    rng = np.random.default_rng(3)
    (folder / name).mkdir(parents=True)
    pairs = [(u, i) for u in range(60) for i in rng.choice(40, 12, replace=False)]
    if name == "yelp":
        text = "".join(f"{u}\t{i}\t1.0\t{t}\n" for t, (u, i) in enumerate(pairs))
        (folder / name / "yelp.rating").write_text(text)
    elif name == "ml-20m":
        text = "userId,movieId,rating,timestamp\n" + "".join(
            f"{u + 1},{i + 1},5.0,{t}\n" for t, (u, i) in enumerate(pairs)
        )
        (folder / name / "ratings.csv").write_text(text)
    else:
        text = '"User-ID";"ISBN";"Book-Rating"\r\n' + "".join(f'"{u}";"{i:09d}X";"8"\r\n' for u, i in pairs)
        (folder / name / "BX-Book-Ratings.csv").write_text(text, encoding="latin-1")


@pytest.mark.parametrize("name", ["yelp", "ml-20m", "book-x"])
def test_experiments_run_as_soon_as_the_official_files_are_there(name, tmp_path, monkeypatch):
    from fullrank_papers import ranks as module

    monkeypatch.setenv("FULLRANK_DATA", str(tmp_path / "data"))
    small_files(tmp_path / "data", name)
    module.split_of.cache_clear()
    wanted = {
        "yelp": ("jin21-table7", "li20-table2", "li23-fig2"),
        "ml-20m": ("li23-table6",),
        "book-x": ("li20-fig8",),
    }
    for each in wanted[name]:
        made = experiment(each)
        small = {"design": "uni9", "models": ("EASE", "itemKNN"), "estimators": made.estimators[:2]}
        options = dict(made.options)
        if each == "li20-fig8":
            options |= {"n": [5, 10], "to": 40}
        if each == "li23-fig2":
            options |= {"n": 4}
        result = run(replace(made, **small, options=options), repeats=3, progress=False)
        assert any(row.data == name for row in result.rows) or result.panels, each
        assert not any(f"{name} is not here" in line for line in result.missing)
    module.split_of.cache_clear()


def test_two_processes_find_what_one_finds_and_the_time_is_kept(tmp_path, monkeypatch):
    from fullrank_papers import ranks as module

    monkeypatch.setenv("FULLRANK_DATA", str(tmp_path / "data"))
    small_files(tmp_path / "data", "yelp")
    module.split_of.cache_clear()
    names = ["kr20-table1", "li23-fig2"]
    together = list(run_all(names, repeats=3, jobs=2, progress=False))
    spent = time_spent()
    assert spent["plain"][0] > 0
    assert spent["plain"][2] == 2
    again = list(run_all(names, repeats=3, progress=False))
    assert [result.to_dict() for result in again] == [result.to_dict() for result in together]
    assert not any(result.fresh for result in again)
    assert time_spent() == spent  # reading back is not counted
    monkeypatch.setenv("FULLRANK_CACHE", str(tmp_path / "other"))
    alone = list(run_all(names, repeats=3, progress=False))
    assert [(result.rows, result.panels) for result in alone] == [(result.rows, result.panels) for result in together]
    assert "What it took from an empty cache" in as_markdown(alone, spent)
    module.split_of.cache_clear()


def test_work_is_shared_by_data_set_and_model(tmp_path, monkeypatch):
    from fullrank_papers import engine
    from fullrank_papers import ranks as module

    monkeypatch.setenv("FULLRANK_DATA", str(tmp_path / "data"))
    small_files(tmp_path / "data", "yelp")
    module.split_of.cache_clear()
    made = replace(
        experiment("jin21-table7"), design="uni9", estimators=("BV0.1", "MLE"), models=("EASE", "NeuMF", "itemKNN")
    )
    pairs = engine._pairs([made], frozenset())
    assert pairs == [("yelp", "EASE"), ("yelp", "itemKNN")]  # NeuMF is not trained
    assert ("yelp", "NeuMF") in engine._pairs([made], frozenset({"yelp"}))
    for pair in pairs:
        engine._ahead(pair, [made], 3, frozenset())
    files = {each.name: each.stat().st_mtime_ns for each in (tmp_path / "cache").rglob("*.npz")}
    assert run(made, repeats=3, progress=False).rows
    after = {each.name: each.stat().st_mtime_ns for each in (tmp_path / "cache").rglob("*.npz")}
    assert after == files  # put together from what was kept
    module.split_of.cache_clear()


def mapped(scheme, mapping, shr, hr, told):
    return [
        Row("ml-1m", f"MultiVAE, {scheme}", "k=1", "SHR", shr, published=told[0]),
        Row("ml-1m", f"MultiVAE, {scheme}", "k=1", mapping, hr, published=told[1]),
    ]


def test_alignment_gaps_and_their_claims():
    rows = mapped("binom", "bound", 0.3, 0.28, (0.31, 0.28)) + mapped("hyper", "bound", 0.301, 0.28, (0.31, 0.28))
    rows += mapped("actual", "bound", 0.4, 0.37, (0.4, 0.36))
    gaps = alignment_gaps(rows)
    assert gaps["ml-1m", "MultiVAE, binom"]["bound"] == pytest.approx((0.02, 0.03))
    result = Result(experiment("li20-table5"), 100, tuple(rows))
    told = {claim.text: claim.judge({"li20-table5": result}) for claim in CLAIMS if claim.paper == "li20"}
    assert told["with or without replacement is the same; among unseen items hit ratios are higher"].holds
    size = told["ml-1m MultiVAE, n = 100: |SHR@k − HR@f(k)| as published"]
    assert size.holds is False  # 0.01 apart where it is most
    assert "binom" in size.evidence
    assert any("bound 0.0200 (0.0300)" in line for line in aligned(result))
    assert told["the sampled curve converges to the full one as the sample grows"].holds is None  # not run


def test_small_pictures_round_coordinates_and_no_number_that_is_read():
    pytest.importorskip("vl_convert")
    from fullrank_papers.drawing import _columns, svg

    panel = Panel("t", "K", "P(R)", (Series("a", [1.0, 2.0, 3.0], [0.0, 0.021, 0.08]),))
    small, whole = svg([panel], small=True), svg([panel])
    labels = {label for label in re.findall(r">([\d.]+)</text>", whole) if label.startswith("0.0")}
    assert {"0.02", "0.04"} <= labels
    assert labels <= set(re.findall(r">([\d.]+)</text>", small))
    assert not re.search(r'="[^"]*\d\.\d\d', small)
    assert len(small) < len(whole)
    assert _columns(["n = 50", "n = 100"], 290) == 3
    assert _columns(["itemKNN on gowalla (stand-in)"], 290) == 1


def test_what_is_missing_is_told_in_a_few_words():
    from fullrank_papers.show import _absent_in_short

    missing = ["Yelp, as prepared for eALS is not here: put `yelp.rating` somewhere.",
               "NeuMF on ml-1m is not trained: make reproduce-neural NEURAL=ml-1m.",
               "NeuMF on citeulike is not trained: make reproduce-neural NEURAL=citeulike.",
               "EASE on gowalla: `EASE` on 40,981 items needs 20.2 GB."]  # fmt: skip
    assert _absent_in_short(missing) == [
        "without Yelp", "untrained: NeuMF (ml-1m, citeulike)", "not run: EASE on gowalla"
    ]  # fmt: skip
    assert _absent_in_short([]) == []


def test_models_cut_short_and_models_without_validation_are_told_apart(monkeypatch):
    from fullrank_papers import ranks, show

    told = {"MultiVAE": {"class": "MultiVAE", "neural": True,
                         "data": {"ml-1m": {"epochs": 28, "validation": 0}, "citeulike": {"epochs": 15}}},
            "EASE": {"class": "EASE"}}  # fmt: skip
    for module in (ranks, show):
        monkeypatch.setattr(module, "recipes", lambda: told)
    assert show._cut("citeulike", "MultiVAE") == "MultiVAE on citeulike after at most 15 epochs, not 100"
    assert show._cut("pinterest-20", "MultiVAE") == show._cut("ml-1m", "MultiVAE") == show._cut("ml-1m", "EASE") == ""
    assert show._unwatched("ml-1m", "MultiVAE")
    assert not show._unwatched("citeulike", "MultiVAE")
    assert not show._unwatched("ml-1m", "EASE")


def test_time_names_what_it_was_spent_on():
    from fullrank_papers.show import _times

    assert (
        "everything, with the neural models trained on the way, 2 minutes" in _times({"neural": (180.0, 120.0, 1)})[0]
    )
    both = _times({"plain": (60.0, 60.0, 2), "neural": (180.0, 120.0, 1)})[0]
    assert "all that needs no neural model, 1 minutes" in both
    assert "training the neural models, and their rows, 2 minutes" in both


def test_claims_about_figures_read_their_panels():
    cost = Panel("C_j", "", "", (Series("EASE on yelp", [1, 2, 4, 8, 16, 32], [10, 12, 15, 20, 60, 200]),))
    bars = Panel("sampled rank, EASE on x", "", "", (Series("share", [1, 2], [0.4, 0.1]),))
    error = Panel("relative error, EASE on x", "", "", (Series("MLE, recall", [1, 50], [40.0, 3.0]),))
    results = {
        name: Result(experiment(name), 2, panels=panels)
        for name, panels in (("li23-fig1", (bars, error)), ("li23-fig2", (cost,)))
    }
    told = [claim.judge(results) for claim in CLAIMS if claim.paper == "li23"]
    # the corner: log C_j grows from 0.3 to 1.7 per doubling; softened, that is enough too
    assert [each.holds for each in told if each.evidence != "not run"] == [True, True, True]
    assert any("40 % at K = 1, 3 % at 50" in each.evidence for each in told)


def test_bv_is_fooled_only_by_a_worse_model_that_it_takes_for_the_better():
    def judged(exact, estimated):
        rows = [
            Row("citeulike", model, "recall@10", word, value, published=value)
            for word, values in (("exact", exact), ("BV0.1", estimated))
            for model, value in zip(("EASE", "MultiVAE"), values, strict=True)
        ]
        counts = [Row("citeulike", "winner", "recall@10", "BV0.1", 7.0, published=0.0)]
        results = {
            name: Result(experiment(name), 2, rows=tuple(each))
            for name, each in (("jin21-table3", rows), ("jin21-table8", counts))
        }
        (claim,) = (claim for claim in CLAIMS if "takes MultiVAE for better" in claim.text)
        return claim.judge(results)

    fooled = judged((80.0, 50.0), (49.0, 52.0))
    assert fooled.holds
    assert "exact 80.0 and 50.0 (80.0 and 50.0); BV0.1 49.0 and 52.0" in fooled.evidence
    assert fooled.evidence.endswith("finds the best in 7 of 100 (0)")
    assert not judged((80.0, 50.0), (52.0, 49.0)).holds
    assert not judged((50.0, 80.0), (49.0, 52.0)).holds


def test_cells_that_are_not_measured_are_told_apart_by_whether_their_data_are_here(tmp_path, monkeypatch):
    from fullrank_papers.show import _overview

    monkeypatch.setenv("FULLRANK_DATA", str(tmp_path / "data"))
    small_files(tmp_path / "data", "yelp")
    split_of.cache_clear()
    made = experiment("li20-table2")  # four models on each of four data sets
    told = "\n".join(_overview({made.name: Result(made, 2)}, {made.name: []}))
    assert (
        "0 of 16 published cells are measured; of the others 12 are of data sets that are not at hand, and 4 of" in told
    )
    split_of.cache_clear()


def test_neural_rows_say_how_to_get_them_and_run_once_ranks_are_kept(tmp_path, monkeypatch):
    from fullrank_papers import ranks as module

    monkeypatch.setenv("FULLRANK_DATA", str(tmp_path / "data"))
    small_files(tmp_path / "data", "yelp")
    module.split_of.cache_clear()
    with pytest.raises(NotHereError, match=r"NeuMF on yelp is not trained: make reproduce-neural NEURAL=yelp\."):
        true_ranks("yelp", "NeuMF")

    class Trained:
        def fit(self, train, *, progress=True):
            users, items = np.ones((train.shape[0], 1)), np.linspace(0, 1, train.shape[1])[:, None]
            return fr.models.FittedFactors(NeuMF(), users, items)

        def __repr__(self):
            return "NeuMF()"

    before = rank_key("yelp", "NeuMF")
    monkeypatch.setattr(module, "recommender", lambda data, name: NeuMF(factors=8, width=16))
    assert rank_key("yelp", "NeuMF") != before
    monkeypatch.setattr(module, "recommender", lambda data, name: Trained())
    found = true_ranks("yelp", "NeuMF", neural=True, progress=False)
    assert len(found.ranks) == 60
    assert (true_ranks("yelp", "NeuMF").ranks == found.ranks).all()  # kept: no training, no `neural`
    module.split_of.cache_clear()


@pytest.mark.skipif("FULLRANK_DATA" not in os.environ, reason="needs ml-1m in FULLRANK_DATA")
def test_kr20_table_3_exact_values_of_y_and_z():
    try:
        fr.load("ml-1m")
    except FileNotFoundError:
        pytest.skip("needs ml-1m in FULLRANK_DATA")
    truth = published("kr20_table3_ml1m_metrics.csv")
    for model, metrics, tolerance in (
        ("Y", ("recall@10", "ndcg@10", "ap", "auc"), 0.01),
        ("Z", ("recall@10", "ndcg@10", "ap"), 0.02),
    ):
        found = 100 * exact(true_ranks("ml-1m", model, "unseen", progress=False))
        for metric in metrics:
            assert found[column(metric)] == pytest.approx(truth["ml-1m", model, metric, "exact"][0], abs=tolerance)


def test_models_toml_is_plain():
    text = resources.files("fullrank_papers").joinpath("models.toml").read_text()
    assert set(tomllib.loads(text)) == set(recipes())
