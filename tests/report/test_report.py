import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

import fullrank as fr
from fullrank.report import Row, Run


@pytest.fixture
def report():
    return fr.correct(
        {"A": [1, 1, 2, 9] * 50, "B": [1, 2, 3, 9] * 50}, n_items=1000, design="uni99", metrics=["ndcg@10", "recall@5"]
    )


def test_rows_hold_what_is_promised(report):
    promised = {
        "model", "metric", "value", "low", "high", "bounds", "naive", "estimator", "design", "items_scored", "cases",
    }  # fmt: skip
    for row in report.rows:
        assert promised <= set(row)
        assert all(getattr(row, name) == row[name] for name in promised - {"metric"})
        assert str(row.metric) == row["metric"]
        assert row.interval == (row["low"], row["high"])
        assert row["items_scored"] == 200 * 99
        assert row["cases"] == 200


def test_winner_value_and_flat_dict(report):
    assert report.winner("ndcg@10") == "A"
    assert report.winner(fr.NDCG @ 10) == "A"
    assert report.to_dict()["A/ndcg@10"] == report.value("A", "ndcg@10")
    assert all(isinstance(value, float) for value in report.to_dict().values())
    with pytest.raises(ValueError, match=r"the report has no ap@3: its metrics are ndcg@10, recall@5"):
        report.winner("ap@3")


def test_json_is_strict_and_versioned(report):
    document = json.loads(report.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert document["schema"] == "fullrank.report/2"
    assert document["rows"] == report.rows
    assert document["provenance"]["fullrank"] == fr.__version__


def test_text_fits_a_terminal_whatever_the_name():
    report = fr.correct({"model " * 40: [1, 2, 3] * 20}, n_items=1000, design="uni9", metrics="ndcg@10")
    assert max(map(len, report.lines())) <= 80


def test_frames(report):
    assert report.to_pandas().shape[0] == 4
    assert report.to_polars().shape[0] == 4


def test_exhaustive_counts_give_the_truth_with_no_correction():
    report = fr.correct({"A": [1, 2, 30]}, n_items=50, design="full", metrics="recall@10")
    assert report.rows[0]["value"] == report.rows[0]["naive"] == pytest.approx(2 / 3)


def test_bad_calls():
    with pytest.raises(ValueError, match="`n_items` is missing"):
        fr.correct([1, 2], design="uni99")
    with pytest.raises(ValueError, match="model 'A': `ranks` is 101 at case 1"):
        fr.correct({"A": [1, 101]}, n_items=1000, design="uni99")
    with pytest.raises(ValueError, match="`ranks` is empty"):
        fr.correct({}, n_items=1000)


def test_small_numbers_keep_digits_in_the_table():
    rng = np.random.default_rng(0)
    report = fr.correct({"A": 1 + rng.integers(0, 1000, size=2000)}, 1_000_000, "uni999", "recall@100")
    value = report.rows[0]["value"]
    assert 1e-9 < value < 1e-3
    assert f"{value:.6f}" in str(report)
    assert max(map(len, str(report).splitlines())) <= 80


# ------------------------------------------------------------------------------------------------ rows


def test_a_row_is_typed_by_attribute_and_flat_by_key(report):
    row = report.row("A", "ndcg@10")
    assert row.metric == fr.NDCG @ 10
    assert {**row}["metric"] == "ndcg@10"
    assert row == json.loads(json.dumps(dict(row)))
    assert row != replace(row, value=0.5)
    assert "truth" not in row
    assert replace(row, truth=0.4)["truth"] == 0.4
    with pytest.raises(KeyError):
        row["price"]


def test_what_is_no_number_is_missing():
    row = Row.of({"model": "A", "metric": "mine@20", "value": "text", "low": 0.1, "high": math.nan, "bounds": [0, 1]})
    assert math.isnan(row.value)
    assert row.interval is None
    assert row.bounds == (0.0, 1.0)
    assert row.metric.k == 20
    with pytest.raises(ValueError, match="the function of metric `mine` is not known here"):
        row.metric.gain([1, 2])
    assert json.loads(fr.Report([row]).to_json())["rows"][0]["value"] is None


# ------------------------------------------------------------------------------------------------ bounds


def test_rows_estimates_and_counts_agree_on_bounds(report):
    for row in report.rows:
        estimate = report.estimates[row.model]
        assert row.bounds == estimate.bounds(row.metric) == fr.bounds(estimate.counts, row.metric)
        assert row.interval == estimate.interval(row.metric)
    flat = report.to_dict()
    assert (flat["A/ndcg@10_bounds_low"], flat["A/ndcg@10_bounds_high"]) == report.row("A", "ndcg@10").bounds
    assert report.to_pandas()["bounds_high"][0] == report.rows[0].bounds[1]


def test_auc_has_its_interval_for_bounds_and_known_ranks_their_value():
    report = fr.correct({"A": [1, 3, 9] * 60}, 1000, "uni99", ["auc", "recall@10"])
    assert report.row("A", "auc").bounds == report.row("A", "auc").interval
    exact = fr.correct({"A": [1, 3, 30] * 60}, 50, "full", "recall@10")
    assert exact.rows[0].bounds == exact.rows[0].interval == pytest.approx((2 / 3, 2 / 3))
    assert "bounds" not in str(exact)
    population = fr.correct({"A": [1, 3, 30] * 60}, 50, "full", "recall@10", target="population")
    assert population.rows[0].bounds == population.rows[0].interval


def sampled(cases=400, n_items=3000, seed=0):
    rng = np.random.default_rng(seed)
    ranks = np.minimum(np.exp(rng.gamma(3.0, 1.5, size=cases)), n_items).astype(int)
    return 1 + rng.binomial(99, (ranks - 1) / (n_items - 1))


def test_what_intervals_assume_is_said_once_where_the_data_alone_allow_much_more():
    report = fr.correct({"A": sampled(), "B": sampled(seed=1)}, 3000, "uni99", metrics=["ndcg@10", "recall@5"])
    assert str(report).count("Intervals assume rank distributions like those of recommenders seen before") == 1
    assert report.notes == ()
    assert "the data alone say no more than the bounds" in report.to_html()
    assert report.to_html().count("Intervals assume") == 1
    assert "the data alone say" in report._repr_html_()
    other = fr.correct({"A": sampled()}, 3000, "uni99", metrics="ndcg@10", estimator="mle")
    assert other.assumption.startswith("Intervals show what chance leaves open, not the bias of the estimator")
    assert fr.correct({"A": [1, 2, 30]}, n_items=50, design="full", metrics="recall@10").assumption == ""
    narrow = replace(report, rows=[replace(row, bounds=row.interval) for row in report.rows])
    assert narrow.assumption == ""


def test_bounds_are_a_column_where_they_fit():
    short, long = (
        fr.correct({name: sampled()}, 3000, "uni99", metrics="ndcg@10") for name in ("A", "a model, 64 factors, seed 1")
    )
    low, high = short.rows[0].bounds
    assert f"{low:.4f} to {high:.4f}" in str(short)
    assert "bounds  " not in str(long)
    assert "on the page and in the JSON" in " ".join(str(long).split())
    assert max(map(len, [*short.lines(), *long.lines()])) <= 80
    assert f"{low:.4f} to {high:.4f}" in "\n".join(long.lines(120))


@dataclass(frozen=True)
class Doubtful:
    """An estimator that warns."""

    def fit(self, counts):
        found = fr.MLE().fit(counts)
        return replace(found, fit_info=replace(found.fit_info, notes=("these ranks look like no recommender's.",)))


def test_warnings_come_from_the_fit_and_name_the_model():
    report = fr.correct({"A": sampled()}, 3000, "uni99", metrics="ndcg@10", estimator=Doubtful())
    assert report.notes == ("A: these ranks look like no recommender's.",)
    assert "! A: these ranks look like no recommender's." in report.lines()


# ------------------------------------------------------------------------------------------------ metrics of one's own


@pytest.mark.parametrize("function", [lambda R: -R, lambda R: -1 / R, lambda R: np.where(R < 5, 1.0, -1.0)])
@pytest.mark.parametrize("cut", [None, 20])
def test_metrics_of_ones_own_go_everywhere(function, cut, tmp_path):
    metric = fr.Metric("mine", function) if cut is None else fr.Metric("mine", function) @ cut
    report = fr.correct({"A": sampled(), "B": sampled(seed=1)}, 3000, "uni99", metrics=[metric, "ndcg@10"])
    name = str(metric)
    assert report.value("A", metric) == report.value("A", name) == report.estimates["A"].expect(metric)
    best = report.winner(name)
    assert best == max("AB", key=lambda model: report.value(model, metric))
    assert 0 <= best.probability <= 1
    found = fr.compare(report, name)
    assert found is fr.compare(report, metric) is report.comparison[name]
    assert all(math.isfinite(end) for pair in found.pairs for end in (pair.low, pair.high, pair.probability))
    row = report.row("A", name)
    assert row.bounds[0] <= row.bounds[1]
    assert row.interval[0] <= row.value <= row.interval[1]
    json.loads(report.to_json(), parse_constant=lambda constant: pytest.fail(constant))
    assert name in report.to_html()
    assert load(report, tmp_path).winner(name) == best


def test_another_function_of_the_same_name_is_compared_anew():
    mine, other = (fr.Metric("mine", function) @ 5 for function in (lambda R: 1 / R, lambda R: 1 / R**2))
    report = fr.correct({"A": sampled(), "B": sampled(seed=1)}, 3000, "uni99", metrics=[mine])
    assert fr.compare(report, other).values["A"] == report.estimates["A"].expect(other) < report.value("A", mine)


def test_first_hits_are_not_taken_for_recall_with_several_targets():
    order, users = np.tile([1, 2], 200), np.repeat(np.arange(200), 2)
    counts = {
        name: fr.RankCounts.from_ranks(sampled(seed=seed), 3000, "uni99", users=users, order=order, targets=[2] * 400)
        for seed, name in enumerate("AB")
    }
    report = fr.correct(counts, metrics="recall@10")
    assert (
        fr.compare(report, "hr@10").values["A"]
        == report.estimates["A"].expect("hr@10")
        != report.value("A", "recall@10")
    )


def test_two_metrics_of_one_name_are_refused_and_one_that_comes_twice_counts_once():
    mine = fr.Metric("mine", lambda R: 1 / R) @ 5
    with pytest.raises(
        ValueError, match="`metrics` has two different metrics called mine@5: give one of them another name"
    ):
        fr.correct({"A": sampled()}, 3000, "uni99", metrics=[mine, fr.Metric("mine", lambda R: 1 / R**2) @ 5])
    assert fr.correct({"A": sampled()}, 3000, "uni99", metrics=["ndcg@5", mine, "ndcg@5,10"]).metrics == [
        "ndcg@5",
        "mine@5",
        "ndcg@10",
    ]


# ------------------------------------------------------------------------------------------------ and back


def load(report, folder):
    (folder / "report.json").write_text(report.to_json(), encoding="utf-8")
    return fr.Report.load(folder / "report.json")


def test_load_gives_back_what_was_written(report, tmp_path):
    runs = {"A": Run("budget", ({"design": "uni99", "items": 3},), {"ndcg@10": 900})}
    whole = replace(report, runs=runs, notes=("A: mind this.",))
    back = load(whole, tmp_path)
    assert back.to_json() == whole.to_json()
    assert back.rows == whole.rows
    assert back.runs == runs
    assert back.notes == whole.notes
    assert back.provenance == whole.provenance
    assert str(back) == str(whole)
    assert back.to_latex() == whole.to_latex()
    assert back.winner("ndcg@10").tied == whole.winner("ndcg@10").tied
    held, mine = back.comparison["recall@5"], whole.comparison["recall@5"]
    assert held.to_dict() == mine.to_dict()
    assert fr.compare(back, "recall@5") is held
    assert held.more("A", "B") == ""
    with pytest.raises(ValueError, match="holds no estimates"):
        fr.compare(back, "recall@5", target="population")
    assert "Model against model" in back.to_html()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "has the schema None"),
        (
            '{"schema": "fullrank.report/1"}',
            "has the schema 'fullrank.report/1': `Report.load` reads 'fullrank.report/2'",
        ),
        ('{"schema": "fullrank.report/2", "rows": 3}', "is not a whole report"),
        ('{"schema": "fullrank.report/2", "rows": [{}], "comparison": [], "runs": {}}', "is not a whole report"),
    ],
)
def test_files_that_are_no_report_are_refused(tmp_path, content, said):
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=said):
        fr.Report.load(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fr.Report.load(tmp_path / "no.json")
