from __future__ import annotations

import csv
from pathlib import Path

import pytest

import fullrank as fr

HERE = Path(__file__).parent
RANKS = [1] * 18 + [2] * 7 + [3] * 5 + [4] * 2 + [5] * 3 + [6] + [7] * 2 + [9] + [10]

with (HERE / "estimates.csv").open(encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))


@pytest.mark.parametrize("estimator", dict.fromkeys(row["estimator"] for row in ROWS))
def test_golden_estimates(estimator):
    fitted = eval(estimator, vars(fr)).fit(fr.RankCounts.from_ranks(RANKS, 50, "uni9"))
    for row in ROWS:
        if row["estimator"] == estimator:
            assert fitted.expect(row["metric"]) == pytest.approx(float(row["value"]), rel=1e-8), row["metric"]
