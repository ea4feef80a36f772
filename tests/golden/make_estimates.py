"""Write estimates.csv: every estimator on one small set of counts, by the dense textbook formulas of tests/naive.py.

python tests/golden/make_estimates.py
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import naive  # noqa: E402

#: Sampled ranks among 9 negatives, 50 candidates.
N, M = 50, 9
RANKS = [1] * 18 + [2] * 7 + [3] * 5 + [4] * 2 + [5] * 3 + [6] + [7] * 2 + [9] + [10]
METRICS = [("recall", 5), ("ndcg", 10), ("ap", None), ("precision", 3), ("auc", None)]


def masses() -> dict[str, np.ndarray]:
    A, p, P = naive.law(N, M), naive.shares(np.array(RANKS), M), np.full(N, 1 / N)
    likelihood = A[:, np.array(RANKS) - 1].T
    mle, _ = naive.per_user_em(likelihood, 100)
    r = np.array(RANKS)
    out = {
        "BiasVariance(gamma=1.0)": naive.bias_variance(A, P, p, 1.0),
        "BiasVariance(gamma=0.1)": naive.bias_variance(A, P, p, 0.1),
        "BiasVariance()": naive.bias_variance(A, P, p, 0.01),
        "Multinomial()": naive.multinomial(A, P, p, len(RANKS)),
        "MLE()": mle,
        "MLE(iterations=10)": naive.per_user_em(likelihood, 10)[0],
        "WeightedMLE()": naive.per_user_em(likelihood, 100, weights=1 / np.log2(r / 10 + 1))[0],
        "WeightedMLE(weight='ap')": naive.per_user_em(likelihood, 100, weights=10 / r)[0],
        "Multinomial(prior=MLE())": naive.multinomial(A, mle, p, len(RANKS)),
    }
    floor = np.zeros(N)
    for rank in RANKS:
        floor[(N - 1) * (rank - 1) // M] += 1 / len(RANKS)
    return {"RankEstimate()": floor, **out}


def main() -> None:
    with (HERE / "estimates.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["estimator", "metric", "value"])
        for estimator, mass in masses().items():
            for name, k in METRICS:
                value = sum(mass[R - 1] * naive.gain(name, R, k, N) for R in range(1, N + 1))
                table.writerow([estimator, name if k is None else f"{name}@{k}", f"{value:.12g}"])


if __name__ == "__main__":
    main()
