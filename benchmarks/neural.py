"""What the neural recommenders take to train and what they are worth, beside popularity and EASE.

    python benchmarks/neural.py                           # ml-1m, all three, as they come
    python benchmarks/neural.py citeulike-a --only MultiVAE NGCF
    python benchmarks/neural.py --epochs 3 --verbose      # a glance: loss and validation of every epoch

Data sets are those of `fullrank.load`, from the folder FULLRANK_DATA. Prints a markdown table: seconds of training (of the
clock and of the processor), seconds of ranking all test cases among all items, and metrics in percent: among unseen items,
with 99 of them drawn as He et al. (2017) did, and among all items as jin21 and li20 do.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import platform
import time
from typing import Any

import fullrank as fr
from fullrank.models import EASE, NGCF, MultiVAE, NeuMF, Popularity

MODELS = {"Popularity": Popularity, "EASE": EASE, "NeuMF": NeuMF, "MultiVAE": MultiVAE, "NGCF": NGCF}


def measure(recommender: Any, split: fr.Split) -> str:
    clock, processor = time.perf_counter(), time.process_time()
    model = recommender.fit(split.train)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    start = time.perf_counter()
    unseen, everything = (
        fr.Naive().fit(fr.observe(model, split, fr.Exhaustive(), candidates=pool, progress=False))
        for pool in ("unseen", "all")
    )
    ranking = (time.perf_counter() - start) / 2
    drawn = fr.Naive().fit(fr.observe(model, split, fr.Sample(99), progress=False))
    cells = [f"{recommender}", f"{clock:.0f}", f"{processor:.0f}", f"{ranking:.1f}"]
    for distribution, metrics in (
        (unseen, (fr.Recall @ 10, fr.NDCG @ 10, fr.AUC)),
        (drawn, (fr.Recall @ 10, fr.NDCG @ 10)),
        (everything, (fr.Recall @ 10, fr.NDCG @ 10)),
    ):
        cells += [f"{100 * distribution.expect(metric):.2f}" for metric in metrics]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default="ml-1m")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--epochs", type=int, help="at most so many, for the neural models")
    parser.add_argument("--rng", type=int, default=0)
    parser.add_argument("--threads", type=int, help="of torch; all cores otherwise")
    parser.add_argument("--verbose", action="store_true", help="say loss and validation of every epoch")
    asked = parser.parse_args()
    if asked.verbose:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
    import torch

    if asked.threads:
        torch.set_num_threads(asked.threads)
    split = fr.load(asked.dataset)
    print(f"{split}; torch {torch.__version__} on {torch.get_num_threads()} threads, {platform.machine()}\n")
    print(
        "| model | train, s | of CPU | rank, s | Recall@10 | NDCG@10 | AUC | of 99: Recall@10 | NDCG@10 | all: Recall@10 | NDCG@10 |"
    )
    print(f"|---|{'--:|' * 10}")
    for name in asked.only:
        recommender = MODELS[name]()
        if hasattr(recommender, "epochs"):
            recommender = dataclasses.replace(recommender, rng=asked.rng, epochs=asked.epochs or recommender.epochs)
        print(measure(recommender, split), flush=True)


if __name__ == "__main__":
    main()
