"""What the neural recommenders take to train and what they are worth, beside popularity and EASE.

    python papers/benchmarks/neural.py                           # ml-1m, all three, as they come
    python papers/benchmarks/neural.py citeulike-a --only MultiVAE NGCF
    python papers/benchmarks/neural.py --epochs 3 --verbose      # a glance: loss and validation of every epoch
    python papers/benchmarks/neural.py --only MultiVAE --with beta=0.2    # another setting: compare the column `validation`

Data sets are those of `fullrank.load`, from the folder FULLRANK_DATA. Prints a markdown table: seconds of training (of the
clock and of the processor), seconds of ranking all test cases among all items, the best NDCG@100 on the validation set that
training takes from `train` (what settings are to be chosen by), and metrics of the test in percent: among unseen items, 99 of them drawn as He et al. (2017) did, and among all items as jin21 and li20 do.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import logging
import platform
import time
from typing import Any

import fullrank as fr
from fullrank_papers.neural import NGCF, MultiVAE, NeuMF

MODELS = {
    "Popularity": fr.models.Popularity,
    "EASE": fr.models.EASE,
    "NeuMF": NeuMF,
    "MultiVAE": MultiVAE,
    "NGCF": NGCF,
}


class Best(logging.Handler):
    """The best validation that training logs."""

    value = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and "validation" in record.msg:
            self.value = max(self.value, float(record.args[-1]))


def measure(recommender: Any, split: fr.Split) -> str:
    best, log = Best(), logging.getLogger("fullrank_papers.neural.training")
    log.addHandler(best)
    log.setLevel(logging.INFO)
    clock, processor = time.perf_counter(), time.process_time()
    model = recommender.fit(split.train)
    log.removeHandler(best)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    start = time.perf_counter()
    unseen, everything = (
        fr.Naive().fit(fr.observe(model, split, fr.Exhaustive(), candidates=pool, progress=False))
        for pool in ("unseen", "all")
    )
    ranking = (time.perf_counter() - start) / 2
    drawn = fr.Naive().fit(fr.observe(model, split, fr.Sample(99), progress=False))
    cells = [
        f"{recommender}",
        f"{clock:.0f}",
        f"{processor:.0f}",
        f"{ranking:.1f}",
        f"{100 * best.value:.2f}" if best.value else "",
    ]
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
    parser.add_argument("--with", dest="settings", nargs="+", default=[], metavar="NAME=VALUE", help="other settings")
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
        "| model | train, s | of CPU | rank, s | validation | Recall@10 | NDCG@10 | AUC | of 99: Recall@10 | NDCG@10 | all: Recall@10 | NDCG@10 |"
    )
    print(f"|---|{'--:|' * 11}")
    for name in asked.only:
        recommender = MODELS[name]()
        if hasattr(recommender, "epochs"):
            recommender = dataclasses.replace(recommender, rng=asked.rng, epochs=asked.epochs or recommender.epochs)
            told = (each.split("=", 1) for each in asked.settings)
            recommender = dataclasses.replace(recommender, **{key: ast.literal_eval(value) for key, value in told})
        print(measure(recommender, split), flush=True)


if __name__ == "__main__":
    main()
