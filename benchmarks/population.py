"""How often intervals for the population hold the truth, from few cases to many and from no hits to nothing but hits.

    python benchmarks/population.py [--repeats 150] [--workers 2] [--check]

Cases are drawn from rank distributions with a known Recall@10: draws of the prior that LogSpline ships with, tilted in log R
until their recall is the wanted one, another draw in every repetition. Each recall has a catalogue in which recommenders of
the prior come near it, so that the table speaks of the step from cases to their population and not of a prior that
meets what it has never seen. Ranks are exact, or sampled with 99 negatives. MLE's own bias is no part of its intervals: its
row says how much that costs, and nothing is asked of it. ``--check`` exits with 1 unless the others hold in 94 % of all
repetitions and in 90 % of each cell, Monte-Carlo error (two standard errors) allowed for.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import fullrank as fr
from fullrank.estimators._grid import Grid
from fullrank.estimators.hyperprior import shipped
from fullrank.estimators.splines import SplineModel

CASES = (30, 100, 300, 1000)
#: Recall@10 and the number of items.
WORLDS = ((0.005, 2000), (0.02, 2000), (0.1, 1000), (0.3, 300), (0.6, 120), (0.9, 120), (0.99, 120))
METRICS = (fr.Recall @ 10, fr.NDCG @ 10)
#: How ranks are seen, the estimator, and its share of the repetitions: exact ranks are cheap, MLE is not.
WAYS = (("full", "logspline", 4.0), ("uni99", "logspline", 1.0), ("uni99", "mle", 0.1))


def laws(recall: float, n_items: int, number: int, rng: np.random.Generator) -> np.ndarray:
    """Rank distributions of the prior (one row each) with this Recall@10."""
    prior, grid = shipped("unseen"), Grid.dense(n_items)
    model = SplineModel.on(grid, prior.coefficients)
    weights, means = prior.mean_coefficients(n_items)
    factors, shares = np.array(prior.scales).T
    kinds, scales = rng.choice(len(weights), 3000, p=weights), rng.choice(factors, 3000, p=shares)
    roots = [np.linalg.cholesky(kind.covariance) for kind in prior.kinds]
    z = rng.standard_normal((3000, prior.coefficients))
    drawn = [means[k] + np.sqrt(f) * roots[k] @ each for k, f, each in zip(kinds, scales, z, strict=True)]
    masses = model.mass(np.array(drawn))
    seen = masses[:, :10].sum(1)
    far = np.abs(np.log(seen / np.maximum(1 - seen, 1e-12)) - np.log(recall / (1 - recall)))
    masses = masses[rng.choice(np.argsort(far)[:60], number)]
    low, high = np.full(number, -20.0), np.full(number, 20.0)
    for _ in range(50):
        tilt = (low + high) / 2
        tilted = masses * np.arange(1.0, n_items + 1) ** -tilt[:, None]
        tilted /= tilted.sum(1, keepdims=True)
        less = tilted[:, :10].sum(1) < recall
        low, high = np.where(less, tilt, low), np.where(less, high, tilt)
    return tilted


def cell(
    design: str, estimator: str, cases: int, recall: float, n_items: int, repeats: int
) -> tuple[np.ndarray, np.ndarray]:
    """Share of intervals that hold the truth, and their mean width, for each metric."""
    rng = np.random.default_rng([cases, round(1000 * recall), design == "full"])
    held, width = np.zeros(len(METRICS)), np.zeros(len(METRICS))
    for law in laws(recall, n_items, repeats, rng):
        ranks = 1 + rng.choice(n_items, cases, p=law)
        if design != "full":
            ranks = 1 + rng.binomial(99, (ranks - 1) / (n_items - 1))
        found = fr.parse_estimator(estimator).fit(fr.RankCounts.from_ranks(ranks, n_items, design))
        for index, metric in enumerate(METRICS):
            truth = float(law @ metric.gain(np.arange(1, n_items + 1)))
            low, high = found.interval(metric, target="population")
            held[index] += low <= truth <= high
            width[index] += high - low
    return held / repeats, width / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of intervals for the population.")
    parser.add_argument("--repeats", type=int, default=150, help="repetitions of each cell with sampled ranks")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="exit with 1 when coverage is not as it should be")
    options = parser.parse_args()
    begin, missed = time.perf_counter(), []
    with ProcessPoolExecutor(options.workers) as pool:
        for design, estimator, part in WAYS:
            repeats = max(round(part * options.repeats), 1)
            jobs = {
                (cases, recall): pool.submit(cell, design, estimator, cases, recall, n_items, repeats)
                for cases in CASES
                for recall, n_items in WORLDS
            }
            for index, metric in enumerate(METRICS):
                name = (
                    "exact ranks" if design == "full" else f"{design}, {type(fr.parse_estimator(estimator)).__name__}"
                )
                print(f"\n{metric}, {name}: coverage in % (mean width), {repeats} repetitions\n")
                print("| cases | " + " | ".join(f"recall {recall:g}, N = {n:,}" for recall, n in WORLDS) + " |")
                print("|---" * (len(WORLDS) + 1) + "|")
                for cases in CASES:
                    found = [jobs[cases, recall].result() for recall, _ in WORLDS]
                    cells = [f"{100 * held[index]:.1f} ({width[index]:.3g})" for held, width in found]
                    print(f"| {cases:,} | " + " | ".join(cells) + " |", flush=True)
                held = np.array([job.result()[0][index] for job in jobs.values()])
                print(f"\nMean {100 * held.mean():.1f} %, least {100 * held.min():.1f} %.")
                slack = 2 * np.sqrt(0.09 / repeats)
                if estimator != "mle" and (held.mean() < 0.94 or held.min() < 0.9 - slack):
                    missed.append(f"{metric}, {name}")
    print(f"\n{time.perf_counter() - begin:.0f} s")
    if missed:
        print("Missed: " + "; ".join(missed))
        sys.exit(options.check)


if __name__ == "__main__":
    main()
