"""Is it honest about ranks that no recommender shows? Twelve unlike shapes, small and large samples, three designs.

For each shape, number of cases and design: whether the 95 % interval of NDCG@10 and Recall@10 holds the truth of the cases,
whether the assumption-free bounds do, and whether the fit warned that the ranks look like no recommender seen before.

    python benchmarks/shapes.py                 # some five minutes on one core
    python benchmarks/shapes.py --quick
"""

from __future__ import annotations

import argparse
import os
from collections import Counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import fullrank as fr
from accuracy import draw

N = 10_000
DESIGNS = {"99": fr.Sample(99), "499": fr.Sample(499), "adaptive 100-3200": fr.Adaptive(99, 3199, stop_at=1)}
CASES = (50, 500, 5_000, 50_000, 1_000_000)


def log_uniform(rng: np.random.Generator, M: int, first: int = 1) -> np.ndarray:
    return np.clip(np.floor(np.exp(rng.uniform(np.log(first), np.log(N + 1), M))), 1, N).astype(np.int64)


def either(rng: np.random.Generator, share: float, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(rng.random(len(one)) < share, one, other)


SHAPES = {
    "everything at rank 1": lambda rng, M: np.ones(M, dtype=np.int64),
    "60 % at rank 1, the rest log-uniform": lambda rng, M: either(rng, 0.6, np.ones(M, dtype=np.int64), log_uniform(rng, M)),
    "30 % in 1-5, the rest beyond N/3": lambda rng, M: either(rng, 0.3, rng.integers(1, 6, M), rng.integers(N // 3, N + 1, M)),
    "ranks 11-30 only": lambda rng, M: rng.integers(11, 31, M),
    "a spike at 37": lambda rng, M: np.full(M, 37),
    "half at 37, half log-uniform": lambda rng, M: either(rng, 0.5, np.full(M, 37), log_uniform(rng, M)),
    "uniform (a random order)": lambda rng, M: rng.integers(1, N + 1, M),
    "the worse half only": lambda rng, M: rng.integers(N // 2, N + 1, M),
    "log-normal about √N": lambda rng, M: np.clip(np.round(np.exp(rng.normal(0.5 * np.log(N), 0.4, M))), 1, N).astype(np.int64),
    "stairs at 1, 10, 100, 1000, N": lambda rng, M: rng.choice([1, 10, 100, 1000, N], M),
    "the first three or the last": lambda rng, M: either(rng, 0.5, rng.integers(1, 4, M), np.full(M, N)),
    "1 % at rank 1, the rest in 200-400": lambda rng, M: either(rng, 0.01, np.ones(M, dtype=np.int64), rng.integers(200, 401, M)),
}  # fmt: skip
#: A hole that samples of this size cannot see: shown for itself, because only bounds can be honest about it.
UNSEEN = {"nothing in 1-10, else log-uniform": lambda rng, M: log_uniform(rng, M, 11)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no more than 5,000 cases")
    sizes = CASES[:3] if parser.parse_args().quick else CASES
    total = Counter()
    for name, shape in (SHAPES | UNSEEN).items():
        print(f"\n{name}")
        for label, design in DESIGNS.items():
            cells = []
            for M in sizes:
                rng = np.random.default_rng([M, list(DESIGNS).index(label)])
                ranks = shape(rng, M)
                counts = draw(ranks, np.full(M, N), design, rng)
                fit = fr.LogSpline().fit(counts)
                warned = fit.posterior.unlike
                marks = ""
                for metric in (fr.NDCG @ 10, fr.Recall @ 10):
                    true = float(metric.gain(ranks).mean())
                    low, high = fit.interval(metric)
                    least, most = fr.bounds(counts, metric)
                    held, bound = low - 1e-9 <= true <= high + 1e-9, least - 1e-9 <= true <= most + 1e-9
                    marks += "o" if held else "x"
                    if name in SHAPES:
                        total.update(asked=1, held=held, bounds=bound, large=M >= 500 and not held)
                        total.update(large_warned=M >= 500 and not held and warned, warned=warned)
                cells.append(f"{M:>9,}: {marks}{' warned' if warned else '':8s}")
            print(f"  {label:18s}" + "  ".join(cells))
    print(
        f"\nBounds hold in {total['bounds']} of {total['asked']}, intervals in {total['held']} ({total['held'] / total['asked']:.0%}); "
        f"warned in {total['warned'] / total['asked']:.0%}; of {total['large']} misses with 500 cases or more, {total['large_warned']} were warned of. "
        "(o: NDCG@10, Recall@10 held; x: missed; the last shape is not counted.)"
    )


if __name__ == "__main__":
    main()
