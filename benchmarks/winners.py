"""Who wins, and is that certain? Comparisons checked against the full ranking.

A run is a set of models, a metric, a design and a seed. It is *right* when the best model has the highest value, and
*sure* when the model with the highest value has P(best) >= 0.95 and no interval of its lead over another model holds
zero (`Comparison.sure`). It is *wrong and sure* when it is sure of a model that is not the best. Sets: all models of a
data set, and every pair of models less than 25 % apart (the hard ones).

Two sources:
- true ranks of real recommenders (FULLRANK_RANKS): models are sampled independently of one another; LogSpline's prior is the
  one fitted without the data set under test;
- models fitted here and observed with the same negatives (FULLRANK_DATA): variants of ALS, item-based models, EASE.

    python benchmarks/winners.py                 # some ten minutes on one core
    python benchmarks/winners.py --quick         # a glance
    python benchmarks/winners.py --part shared   # one part: cases, population, shared
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import fullrank as fr
from accuracy import draw, logspline, truth_of
from catalogues import rank_files
from fullrank.evaluation.compare import comparisons
from fullrank.report import Difference

METRICS = [fr.NDCG @ 10, fr.Recall @ 10]
DESIGNS = {"99": fr.Sample(99), "499": fr.Sample(499), "adaptive 99..3199": fr.Adaptive(99, 3199, stop_at=1)}
CLOSE = 0.25
#: P(best) of the leader is compared with how often it is best within these.
BINS = [0.0, 0.5, 0.65, 0.85, 0.97]


class Score:
    """Runs, and how they went."""

    def __init__(self) -> None:
        self.runs = self.right = self.sure = self.wrong_and_sure = self.pairs = self.covered = 0
        self.apart = self.apart_wrongly = 0
        self.rival_runs = self.rival_right = self.beside_right = 0
        self.leaders: list[tuple[float, bool]] = []

    def add(self, found: fr.Comparison, truth: dict[str, float], rival: dict[str, float] | None) -> None:
        """One run: the comparison of its models, and the truth."""
        right, winner, best = max(truth, key=truth.__getitem__), found.winner, found.best
        self.runs += 1
        self.right += winner == right
        leader = max(best, key=best.__getitem__)
        self.leaders.append((best[leader], truth[leader] >= truth[right]))
        self.sure += found.sure
        self.wrong_and_sure += found.sure and truth[winner] < truth[right]
        for pair in found.pairs:
            true = truth[pair.model] - truth[pair.other]
            self.pairs += 1
            self.covered += pair.low <= true <= pair.high
            if pair.p_holm <= 0.05:
                self.apart += 1
                self.apart_wrongly += true <= 0
        if rival is not None:
            self.rival_runs += 1
            self.rival_right += max(rival, key=rival.__getitem__) == right
            self.beside_right += winner == right

    def line(self, *names: str) -> str:
        share = lambda part, whole: f"{100 * part / whole:5.1f}" if whole else "    -"  # noqa: E731 - a short form
        rival = f"{share(self.beside_right, self.rival_runs)} / {share(self.rival_right, self.rival_runs)}"
        return " | ".join([*names, f"{self.runs:5d}", share(self.wrong_and_sure, self.runs), share(self.sure, self.runs), share(self.right, self.runs), rival, share(self.covered, self.pairs), share(self.apart, self.pairs), share(self.apart_wrongly, self.apart)])  # fmt: skip


def calibration(leaders: list[tuple[float, bool]]) -> list[str]:
    """How often the model with the highest P(best) is the best one, by that probability."""
    p, right = np.array(leaders, dtype=float).T
    lines = ["P(best) of the leader | runs | its mean | the leader is best"]
    for low, high in zip(BINS, [*BINS[1:], 1.01], strict=True):
        here = (p >= low) & (p < high)
        if here.any():
            lines.append(
                f"{low:.2f} to {min(high, 1):.2f} | {here.sum():5d} | {p[here].mean():.3f} | {right[here].mean():.3f}"
            )
    return lines


HEAD = "part | design | sets | runs | wrong and sure % | sure % | right % | right: LogSpline / MLE % | differences covered % | told apart % | of these wrongly %"


def judged(scores, label, estimates, truths, target, rivals) -> None:
    """Compare all models, and every two that are close, and note how it went."""
    for found in comparisons(estimates, METRICS, 0.95, target):
        truth = {name: truths[name][found.metric] for name in estimates}
        rival = None if rivals is None else {name: rivals[name].expect(found.metric) for name in estimates}
        scores[label, "all"].add(found, truth, rival)
        for pair in found.pairs:
            two = (pair.model, pair.other)
            if abs(truth[two[0]] - truth[two[1]]) >= CLOSE * max(truth[name] for name in two):
                continue
            beside = None if rival is None else {name: rival[name] for name in two}
            scores[label, "close pairs"].add(of_two(found, pair), {name: truth[name] for name in two}, beside)


def of_two(found: fr.Comparison, pair: Difference) -> fr.Comparison:
    """The comparison of two of the models alone, as far as runs are judged by it; no p-value is adjusted."""
    best = {pair.model: pair.probability, pair.other: 1 - pair.probability}
    return replace(found, models=tuple(best), best=best, pairs=(replace(pair, p_holm=pair.p_value),))


def from_ranks(samples: int, target: str, only: list[str]) -> dict:
    """Independent samples from true ranks."""
    scores: dict = defaultdict(Score)
    files = [path.stem for path in rank_files()]
    for data_set in sorted({file.split("__")[0] for file in files}):
        known = {file.split("__")[1]: truth_of(file, "unseen") for file in files if file.startswith(data_set + "__")}
        truths = {}
        for name, (ranks, pool) in known.items():
            full = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, pool, "full"))
            truths[name] = {metric: full.expect(metric) for metric in METRICS}
        for label in only:
            for sample in range(samples):
                rng = np.random.default_rng([sample, 21])
                cases = len(next(iter(known.values()))[0])
                pick = rng.integers(cases, size=cases) if target == "population" else np.arange(cases)
                counts = {
                    name: draw(ranks[pick], pool[pick], DESIGNS[label], rng, users=True)
                    for name, (ranks, pool) in known.items()
                }
                estimates = {name: logspline(data_set, "unseen").fit(each) for name, each in counts.items()}
                rivals = None
                if label.startswith("adaptive") and target == "cases":
                    rivals = {name: fr.MLE().fit(each) for name, each in counts.items()}
                judged(scores, label, estimates, truths, target, rivals)
    return scores


def with_shared_negatives(samples: int, data_sets: list[str]) -> dict:
    """Models fitted here, the same negatives for all of them."""
    scores: dict = defaultdict(Score)
    for data_set in data_sets:
        split = fr.load(data_set)
        models = {f"ALS {d}": fr.models.ALS(factors=d).fit(split.train) for d in (24, 32, 48, 64)}
        models["ALS 64 again"] = fr.models.ALS(factors=64, rng=1).fit(split.train)
        models |= {f"KNN {k}": fr.models.ItemKNN(neighbours=k).fit(split.train) for k in (50, 100, 200)}
        truths = {}
        for name, model in models.items():
            full = fr.MLE().fit(fr.observe(model, split, "full", progress=False))
            truths[name] = {metric: full.expect(metric) for metric in METRICS}
        for label, design in DESIGNS.items():
            for seed in range(samples):
                counts = {name: fr.observe(m, split, design, rng=seed, progress=False) for name, m in models.items()}
                estimates = {name: logspline(data_set, "unseen").fit(each) for name, each in counts.items()}
                rivals = None
                if label.startswith("adaptive"):
                    rivals = {name: fr.MLE().fit(each) for name, each in counts.items()}
                judged(scores, label, estimates, truths, "cases", rivals)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few samples")
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--part", choices=["cases", "population", "shared", "all"], default="all")
    parser.add_argument("--design", choices=[*DESIGNS], action="append", help="of the parts from rank files")
    asked = parser.parse_args()
    samples = 2 if asked.quick else asked.samples
    begin = time.perf_counter()
    print(HEAD)
    total = Score()
    for part in ("cases", "population", "shared"):
        if asked.part not in {part, "all"}:
            continue
        if part == "shared":
            scores = with_shared_negatives(samples, ["ml-100k"] if asked.quick else ["ml-100k", "citeulike-a"])
        else:
            scores = from_ranks(samples, part, asked.design or list(DESIGNS))
        for (label, kind), score in scores.items():
            print(score.line(part, label, kind), flush=True)
            for name, value in vars(score).items():
                setattr(total, name, getattr(total, name) + value)
    print(total.line("in all", "", ""))
    print("\n".join(["", *calibration(total.leaders)]))
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
