import json

import numpy as np
import pytest

import fullrank as fr


@pytest.fixture
def report():
    return fr.correct(
        {"A": [1, 1, 2, 9] * 50, "B": [1, 2, 3, 9] * 50}, n_items=1000, design="uni99", metrics=["ndcg@10", "recall@5"]
    )


def test_rows_hold_what_is_promised(report):
    promised = {"model", "metric", "value", "low", "high", "naive", "estimator", "design", "items_scored", "cases"}
    for row in report.rows:
        assert promised <= set(row)
        assert row["items_scored"] == 200 * 99
        assert row["cases"] == 200


def test_winner_value_and_flat_dict(report):
    assert report.winner("ndcg@10") == "A"
    assert report.winner(fr.NDCG @ 10) == "A"
    assert report.to_dict()["A/ndcg@10"] == report.value("A", "ndcg@10")
    assert all(isinstance(value, float) for value in report.to_dict().values())
    with pytest.raises(ValueError, match=r"the report has no ap@3: it has ndcg@10, recall@5"):
        report.winner("ap@3")


def test_json_is_strict_and_versioned(report):
    document = json.loads(report.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert document["schema"] == "fullrank.report/1"
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
        fr.correct([1, 2])
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
