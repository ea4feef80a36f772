"""What a guide saves: cost of ±2 % behind every guide, against uniform adaptive sampling, and a clock.

Every ordered pair of EASE, ALS, itemKNN and BPR as expensive model and guide, and popularity and a random order as guides
(``guide_pairs.py``; 1,500 cases). The prior has not seen the catalogue. Cost is in per cent of the catalogue per case.

    python benchmarks/guided.py citeulike-a gowalla     # the named catalogues
    python benchmarks/guided.py --clock                 # a scorer that sleeps 0.05 ms per item, N = 20,000
"""

from __future__ import annotations

import sys
import time

import numpy as np
import scipy.sparse as sp

import fullrank as fr
from fit_compared import guided
from fullrank.models.scorer import Rows
from guide_pairs import beaten_items, pairs_of

METRICS = ("ndcg@10", "recall@10")


def one(found: dict, model: str, guide: str, estimator: fr.LogSpline | None, **options: object) -> str:
    """Evaluate a pair: the guide's order is 1, 2, 3, …, the target is item 0, and the model knows what beats it."""
    beats = beaten_items(found, model, guide, np.random.default_rng(0))
    cases, n = beats.shape
    split = fr.Split(sp.csr_matrix((cases, n)), np.arange(cases), np.zeros(cases, dtype=int))
    order = Rows(lambda users: np.tile(-np.arange(n, dtype=float), (len(users), 1)), n)

    def score(users: np.ndarray, items: np.ndarray) -> np.ndarray:
        return np.where(items == 0, 0.5, beats[users[:, None], items])

    if "design" in options and options["design"] == "guided":
        options |= {"guide": order, "estimator": estimator}
    report = fr.evaluate({model: score}, split, METRICS, precision=0.02, progress=False, **options)
    R, cells = 1 + beats.sum(1), []
    for row in report.rows:
        true = float(row.metric.gain(R).mean())
        inside = row.low - 1e-9 <= true <= row.high + 1e-9
        cells.append(f"{100 * (row.value / true - 1):+.2f} % {'in' if inside else 'OUT'}")
    return f"{100 * report.rows[0].items_scored / cases / n:.2f} % | {' | '.join(cells)}"


def clock() -> None:
    """Wall time with a guide, without, and of a full ranking, of a scorer that sleeps."""
    rng = np.random.default_rng(0)
    users, n, wait = 1000, 20_000, 5e-5
    U, V = rng.normal(size=(users, 16)), rng.normal(size=(n, 16)) * rng.gamma(1.0, 1.0, (n, 1))
    ranks = np.exp(rng.uniform(0, np.log(n - 1), users)).astype(int)
    targets = np.argsort(-(U @ V.T), axis=1)[np.arange(users), ranks - 1]
    split = fr.Split(sp.csr_matrix((users, n)), np.arange(users), targets)
    near = U, V + rng.normal(scale=0.3, size=V.shape)

    def slow(asked: np.ndarray, items: np.ndarray) -> np.ndarray:
        time.sleep(wait * items.size)
        return np.einsum("bd,bmd->bm", U[asked], V[items])

    print(f"full ranking, extrapolated: {users * n * wait:,.0f} s")
    for name, options in (("guide", {"guide": near}), ("adaptive", {"design": "adaptive"})):
        begin = time.perf_counter()
        report = fr.evaluate({"slow": slow}, split, METRICS, precision=0.05, progress=False, **options)
        share = report.rows[0].items_scored / users / n
        print(f"{name}: {time.perf_counter() - begin:,.0f} s, {share:.2%} of the items; {report.rows[0].value:.4f} "
              f"[{report.rows[0].low:.4f}, {report.rows[0].high:.4f}], true {float((fr.NDCG @ 10).gain(ranks).mean()):.4f}", flush=True)  # fmt: skip


def main() -> None:
    if "--clock" in sys.argv:
        clock()
        return
    print("| catalogue | model / guide | cost | ndcg@10 | recall@10 |\n|---|---|---|---|---|", flush=True)
    for name in sys.argv[1:]:
        found, estimator = pairs_of(name), fr.LogSpline(guided(name))
        pairs = sorted(key.removeprefix("first_").split("_") for key in found if key.startswith("first_"))
        for model, guide in pairs:
            if model != "pop":
                print(
                    f"| {name} | {model} / {guide} | {one(found, model, guide, estimator, design='guided')} |",
                    flush=True,
                )
        for model in sorted({model for model, _ in pairs} - {"pop"}):
            print(f"| {name} | {model}, uniform | {one(found, model, 'pop', None, design='adaptive')} |", flush=True)


if __name__ == "__main__":
    main()
