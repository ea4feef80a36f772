"""Small reports of every kind."""

import numpy as np
import pytest

import fullrank as fr
from fullrank.evaluation import report_on

N = 1200


def sampled_counts(shape, seed=0, cases=400, n_items=N, negatives=99):
    rng = np.random.default_rng(seed)
    ranks = np.minimum(np.exp(rng.gamma(shape, 1.5, size=cases)), n_items).astype(int)
    return fr.RankCounts.from_ranks(
        1 + rng.binomial(negatives, (ranks - 1) / (n_items - 1)), n_items, f"uni{negatives}"
    )


def adaptive_counts(shape, seed=0, cases=400):
    rng = np.random.default_rng(seed)
    design = fr.Adaptive(9, 79, stop_at=1)
    θ = (np.minimum(np.exp(rng.gamma(shape, 1.5, size=cases)), N).astype(int) - 1) / (N - 1)
    m, x = np.full(cases, 9), rng.binomial(9, θ)
    for size in design.stages(N)[1:]:
        more = (x == 0) & (size > m) & (size <= 2 * m + 1)
        x, m = np.where(more, rng.binomial(size - m, θ), x), np.where(more, size, m)
    return fr.RankCounts.from_ranks(x + 1, N, design, drawn=m)


@pytest.fixture(scope="session")
def two():
    """Two models, two metrics, 99 negatives."""
    return report_on({"A": sampled_counts(3.0), "B": sampled_counts(4.5, 1)}, ["ndcg@10", "recall@5"], estimator="mle")


@pytest.fixture(scope="session")
def adaptive():
    return report_on({"A": adaptive_counts(3.0), "B": adaptive_counts(4.5, 1)}, ["ndcg@10"], estimator="mle")


@pytest.fixture(scope="session")
def exact():
    return fr.correct({"A": [1, 2, 3, 30], "B": [2, 3, 4, 30]}, n_items=50, design="full", metrics="recall@2")


def plain_rows(values, metric="ndcg@10", **more):
    """Rows as some other tool might make them: no estimates behind them."""
    base = {"metric": metric, "low": None, "high": None, "naive": None, "estimator": "MLE", "design": "uni99",
            "items_scored": 99, "cases": 1}  # fmt: skip
    return [{"model": model, "value": value, **base, **more} for model, value in values.items()]


def compared(metric, better, worse, difference, low, high):
    """A comparison of two models as it might have come out."""
    pair = fr.report.Difference(better, worse, difference, low, high, 0.9, 0.01, 0.01)
    values = {better: 0.1 + difference, worse: 0.1}
    return fr.Comparison(
        fr.parse_metric(metric), (better, worse), values, dict.fromkeys(values, (0.0, 0.5)),
        {better: 0.9, worse: 0.1}, (pair,), ((better,), (worse,)),
    )  # fmt: skip


@pytest.fixture(scope="session")
def comparison():
    return compared


@pytest.fixture(scope="session")
def rows():
    return plain_rows
