"""What an estimate costs as the catalogue and the sample grow: MLE against bias-variance least squares.

    python papers/benchmarks/cost.py                      # about a minute
    python papers/benchmarks/cost.py --items 2000 20000 --negatives 99 499

jin21 (below eq. 21) counts O(k N n) for k rounds of MLE and at least O(n² N) for BV, which is more once n exceeds k. Both are
timed here on dense matrices, as the papers write them, and as the library does them, which keeps every rank up to about a
thousand and geometric bins beyond: there the cost hardly depends on N at all. Prints a markdown table, in milliseconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

FloatArray = NDArray[np.float64]
ROUNDS = 100


def dense_mle(A: FloatArray, shares: FloatArray) -> FloatArray:
    """π ← π ∘ A(p̃ / Aᵀπ), `ROUNDS` times: two products of N × n each."""
    mass = np.full(len(A), 1 / len(A))
    for _ in range(ROUNDS):
        mass = mass * (A @ (shares / np.maximum(A.T @ mass, 1e-300)))
    return np.asarray(mass)


def dense_bv(A: FloatArray, shares: FloatArray, gamma: float = 0.01) -> FloatArray:
    """[(1−γ)AᵀDA + γ diag(1ᵀDA)]⁻¹ AᵀD b with a uniform D: one product of n × N × n."""
    N = len(A)
    left = (1 - gamma) * A.T @ A / N + gamma * np.diag(A.sum(0) / N)
    return np.asarray(shares @ np.linalg.solve(left, A.T / N))


def milliseconds(work: Callable[[], Any], least: float = 0.3) -> float:
    """The best of several runs."""
    best, spent = np.inf, 0.0
    while spent < least:
        start = time.perf_counter()
        work()
        took = time.perf_counter() - start
        best, spent = min(best, took), spent + took
    return 1000 * float(best)


def main() -> None:
    """Time every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, nargs="+", default=[2_000, 8_000, 32_000])
    parser.add_argument("--negatives", type=int, nargs="+", default=[49, 99, 199, 499])
    parser.add_argument("--cases", type=int, default=5_000)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    print(
        f"| items | negatives | MLE dense ({ROUNDS} rounds) | BV dense | ratio BV / MLE | n / k | MLE, library | BV, library |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for n_items in given.items:
        ranks = 1 + np.floor((n_items - 1) * rng.random(given.cases) ** 4).astype(np.int64)
        for negatives in given.negatives:
            design = fr.Sample(negatives)
            _, hits = design.simulate(ranks, np.full(len(ranks), n_items), rng)
            counts = fr.RankCounts.from_ranks(hits + 1, n_items, design)
            A = design.law(np.arange(1, n_items + 1), n_items, *design.outcomes(n_items))
            shares = np.bincount(hits, minlength=negatives + 1) / len(hits)
            mle, bv = (milliseconds(partial(work, A, shares)) for work in (dense_mle, dense_bv))
            ours = [milliseconds(partial(each.fit, counts)) for each in (fr.MLE(), fr.BiasVariance(0.01))]
            print(
                f"| {n_items:,} | {negatives} | {mle:.1f} | {bv:.1f} | {bv / mle:.2f} | {(negatives + 1) / ROUNDS:.2f} | "
                f"{ours[0]:.1f} | {ours[1]:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
