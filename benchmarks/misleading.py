"""How far are sampled metrics from the full ranking's, and how often do they name another winner? docs/why.md quotes this.

Nothing is drawn: the metric to be expected of a sample follows from the true ranks (kr20 eq. 16).

    FULLRANK_RANKS=... python benchmarks/misleading.py [--metric recall@10] [--negatives 99]
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

import fullrank as fr
from catalogues import rank_files, split_name

FINE = 10**9


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--metric", default="recall@10")
    ask.add_argument("--negatives", type=int, default=99, help="drawn with replacement")
    asked = ask.parse_args()
    metric = fr.parse_metric(asked.metric)
    catalogues: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for path in rank_files():
        with np.load(path) as data:
            ranks, pool = data["R_masked"].astype(np.int64), data["N_masked"].astype(np.int64)
        # with replacement only the share of better items matters: that of each case, of as many items as resolve it
        alike = 1 + np.round((ranks - 1) / np.maximum(pool - 1, 1) * FINE).astype(np.int64)
        sampled = np.mean(fr.expected_naive(metric, ranks=alike, n_items=FINE + 1, design=f"uni{asked.negatives}"))
        catalogues[split_name(path)[0]].append((float(metric.gain(ranks, pool).mean()), float(sampled)))
    factors = {name: [sampled / true for true, sampled in models if true > 0] for name, models in catalogues.items()}
    every = np.concatenate([each for each in factors.values() if each])
    low, middle, high = np.quantile(every, [0.05, 0.5, 0.95])
    apart = [max(each) / min(each) for each in factors.values() if len(each) > 1]
    other = [np.argmax([t for t, _ in models]) != np.argmax([s for _, s in models]) for models in catalogues.values()]
    print(f"{len(every)} recommenders on {len(catalogues)} catalogues, {metric} among {asked.negatives} negatives:")
    print(f"{low:.1f} to {high:.0f} times the true one (5th to 95th percentile), median {middle:.1f}")
    print(f"the largest factor on a catalogue is {np.median(apart):.1f} times the smallest, on the median")
    print(f"another winner on {sum(other)} of {len(other)} catalogues")


if __name__ == "__main__":
    main()
