"""What MultiVAE reaches on the test after each epoch, beside what the papers print: is their model one that ours passes through?

    python papers/benchmarks/epochs.py                                       # ml-1m, as it comes, but never stopped
    python papers/benchmarks/epochs.py --with batch=100 anneal=2000 --epochs 60
    python papers/benchmarks/epochs.py citeulike --with batch=100 validation=0 --every 2

Data sets are those of `fullrank.load`, from the folder FULLRANK_DATA. Prints a markdown table, a row per ``--every`` epochs:
processor seconds so far; on the validation set that training takes from `train` NDCG@100, which epochs are chosen by here, and
Recall@10 among 100 drawn items, which the authors of li23 choose them by; on the test Recall, NDCG and AP@10 among all items
(jin21), SHR@10 and SHR@1 among 99 unseen items (li20's scheme `actual`), and what CLS and BV 0.1 make of Recall@10 when 99
items are drawn among all (jin21), both by their laws rather than by drawing; all in percent. The first row is printed in the
papers. Histories are fed without the validation item; ``validation=0`` holds none out, as where a model is trained for a
number of epochs that is given.
"""

from __future__ import annotations

import argparse
import ast
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

import fullrank as fr
from fullrank_papers.catalogue import published
from fullrank_papers.neural.multivae import MultiVAE, _Network
from fullrank_papers.neural.training import Task
from fullrank_papers.ranks import Ranks
from fullrank_papers.simulate import column, corrected, expected

#: Where metrics@10 among all items are printed, and hit ratios of samples.
EXACT = {
    "ml-1m": "jin21_table2_ml1m_metrics10.csv",
    "citeulike": "jin21_table3_citeulike_metrics10.csv",
    "pinterest-20": "jin21_table6_pinterest20_metrics10.csv",
}
SAMPLED = "li20x_table3_winners.csv"
NEGATIVES = 99
ESTIMATED = ("CLS", "BV0.1")
COLUMNS = ("epoch", "CPU, s", "validation NDCG@100", "validation Recall@10 of 100", "all: Recall@10", "NDCG@10", "AP@10",
           "unseen: SHR@10", "SHR@1", "all: CLS", "BV 0.1")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Watched(Task):
    """A task that looks at the test whenever validation is asked for."""

    told: dict[str, Any] = field(default_factory=dict)

    def ndcg(self, rows: Any) -> float:
        told = self.told
        told["epoch"] = told.get("epoch", 0) + 1
        reached = super().ndcg(rows)
        if told["epoch"] % told["every"] == 0:
            told.setdefault("asked", self.asked(np.random.default_rng(0)))
            sampled = self.sampled_recall(lambda users, items: np.take_along_axis(rows(users), items, axis=1),
                                          told["asked"])  # fmt: skip
            spent = time.process_time() - told["start"]
            cells = [f"{told['epoch']}", f"{spent:.0f}", f"{100 * reached:.2f}", f"{100 * sampled:.2f}"]
            print(row(cells, test_metrics(rows, told["split"])), flush=True)
        return reached


def printed(data: str) -> list[float]:
    """The papers' percentages of MultiVAE, in the order of `test_metrics`; jin21 prints thousandths."""
    if data not in EXACT:
        return []
    table = published(EXACT[data])
    exact = [table[data, "MultiVAE", f"{metric}@10", "exact"][0] / 10 for metric in ("recall", "ndcg", "ap")]
    keys = [(data, "MultiVAE", "recall@10", estimator) for estimator in ESTIMATED]
    exact += [100 * published(SAMPLED)[data, "MultiVAE", f"k={k}", "SHR"][0] for k in (10, 1)]
    return exact + [table[key][0] / 10 if key in table else np.nan for key in keys]


@cache
def weights(estimator: str, design: fr.Design, n_items: int) -> NDArray[np.float64]:
    """What a linear estimator says of Recall@10 to each outcome."""
    return corrected(estimator, design, n_items)[:, column("recall@10")]


def test_metrics(rows: Any, split: fr.Split) -> list[float]:
    """Percentages of the test: Recall, NDCG, AP@10 among all items, SHR@10 and SHR@1 among unseen ones, estimates of Recall@10.

    Ties rank in the middle, for the estimates rounded down.
    """
    history = split.train.tocsr()
    users, items = np.asarray(split.users), np.asarray(split.items)
    among: dict[str, list[NDArray[Any]]] = {"all": [], "unseen": []}
    for first in range(0, len(users), 1000):
        who, what = users[first : first + 1000], items[first : first + 1000]
        scores = np.array(rows(who))
        own = scores[np.arange(len(who)), what][:, None]
        for pool in among:
            if pool == "unseen":
                seen = history[who]
                scores[np.repeat(np.arange(len(who)), np.diff(seen.indptr)), seen.indices] = -np.inf
            among[pool].append(0.5 + (scores > own).sum(axis=1) + 0.5 * (scores == own).sum(axis=1))
    ranks, unseen = (np.concatenate(among[pool]) for pool in ("all", "unseen"))
    top = ranks[ranks <= 10]
    metrics = [len(top), (1 / np.log2(1 + top)).sum(), (1 / top).sum()]
    others = split.n_items - 1 - np.diff(history.indptr)[users]
    ahead = np.floor(unseen).astype(np.int64) - 1
    metrics += [hypergeom.cdf(k - 1, others, ahead, NEGATIVES).sum() for k in (10, 1)]
    design = fr.parse_design(f"uni{NEGATIVES}")
    known = Ranks(np.floor(ranks).astype(np.int64), np.full(len(ranks), split.n_items), "")
    shares = expected(known, design)[2]
    metrics += [len(ranks) * shares @ weights(estimator, design, split.n_items) for estimator in ESTIMATED]
    return [100 * float(value) / len(ranks) for value in metrics]


def row(cells: list[str], metrics: Any) -> str:
    return f"| {' | '.join([*cells, *(f'{value:.3f}' for value in metrics)])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default="ml-1m")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--with", dest="settings", nargs="+", default=[], metavar="NAME=VALUE", help="other settings")
    asked = parser.parse_args()
    import torch

    split = fr.load(asked.dataset)
    settings = {key: ast.literal_eval(value) for key, value in (each.split("=", 1) for each in asked.settings)}
    how = MultiVAE(**{"epochs": asked.epochs, "patience": asked.epochs, **settings})
    rng = np.random.default_rng(how.rng)
    task = Watched.of(split.train, how.validation, rng, "MultiVAE")
    task.told.update(every=asked.every, split=split, start=time.process_time())
    print(f"{how!r} on {asked.dataset}\n\n| {' | '.join(COLUMNS)} |\n|{'--:|' * len(COLUMNS)}")
    print(row(["published", "", "", ""], printed(asked.dataset)), flush=True)
    _Network.start(torch, task.train.shape[1], how.hidden, how.latent, rng).learn(how, task, rng, progress=False)


if __name__ == "__main__":
    main()
