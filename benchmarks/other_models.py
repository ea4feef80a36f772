"""Does LogSpline's prior hold for recommenders of kinds that it was not learned from?

Behind the prior are popularity, item kNN, BM25, ALS, BPR, EASE and, for one target, recommenders of sequences. Here user kNN,
RP3beta (a random walk), a truncated SVD and, where interactions have times, a Markov chain of items are trained on the
catalogues of FULLRANK_MORE_DATA and observed with `fr.observe`, in full and with samples. LogSpline's prior has seen no
catalogue of the family either (priors/fold-*.json, see fit_hyperprior.py). Printed: coverage of the 95 % intervals of NDCG@10
and Recall@10 by model, the errors of NDCG@10, and the intervals that miss by most.

    python benchmarks/other_models.py                            # some twenty minutes on one core
    python benchmarks/other_models.py --write docs               # also docs/other_models.md
    python benchmarks/other_models.py --catalogues filmtrust     # some catalogues only
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import polars as pl
import scipy.sparse as sp

import fullrank as fr
from accuracy import LEAST, logspline
from catalogues import folders
from sequence_ranks import from_the_end, interactions, markov

#: Users that are observed, and the largest table of their scores.
USERS, ROOM = 2000, 6e7
#: User kNN: neighbours; RP3beta: power of an item's degree; SVD: factors.
NEIGHBOURS, BETA, FACTORS = 100, 0.5, 50
METRICS = ("ndcg@10", "recall@10")
DESIGNS = ("uni99", "uni499", "adaptive 99..3199 stop 1")
#: What `evaluate` is asked for when it samples in rounds, and how that is called in the table.
PRECISION = 0.05
IN_ROUNDS = f"in rounds, to ±{PRECISION:.0%}"
#: Candidates of the observation, and whether a fifth of a user's interactions is held out instead of one.
PROTOCOLS = {"unseen": ("unseen", False), "all": ("all", False), "several": ("unseen", True)}
WORDS = {"unseen": "`unseen`, one", "all": "`all`, one", "several": "`unseen`, several"}
SEED = 3


def split_of(users: np.ndarray, items: np.ndarray, held: np.ndarray) -> tuple[fr.Split, sp.csr_array, np.ndarray]:
    """The split of some users by the interactions ``held`` out, the training interactions of all, and those users."""
    number = np.bincount(users)
    shape = len(number), int(items.max()) + 1
    train = sp.csr_array((np.ones((~held).sum(), dtype=np.float32), (users[~held], items[~held])), shape=shape)
    enough = np.flatnonzero(number >= 3)
    chosen = np.sort(np.random.default_rng(SEED).choice(enough, min(USERS, len(enough)), replace=False))
    place = np.full(len(number), -1)
    place[chosen] = np.arange(len(chosen))
    cases = held & (place[users] >= 0)
    return fr.Split(train[chosen], place[users[cases]], items[cases]), train, chosen


def models_of(
    train: sp.csr_array, chosen: np.ndarray, in_order: tuple[np.ndarray, np.ndarray] | None
) -> Iterator[tuple[str, np.ndarray]]:
    """Scores of all items for the chosen users, model by model.

    ``in_order``: users and items of the training interactions, each user's in the order of time, where there are times.
    """
    for name, make in (("user kNN", user_knn), ("RP3beta", rp3beta), ("SVD", svd)):
        yield name, make(train, chosen)
    if in_order is not None:
        popularity = np.asarray(train.sum(0), dtype=np.float64).ravel()
        yield "Markov chain", markov(*in_order, popularity)(chosen)


def user_knn(train: sp.csr_array, chosen: np.ndarray) -> np.ndarray:
    """What the users with the most similar histories (by cosine) took."""
    rows = sp.diags_array(1 / np.sqrt(np.maximum(train.sum(1), 1))) @ train
    return in_parts(chosen, lambda users: best_of_rows((rows[users] @ rows.T).toarray()) @ train, train.shape[1])


def best_of_rows(similarity: np.ndarray) -> sp.csr_array:
    """The largest values of every row, the others set to zero."""
    if similarity.shape[1] > NEIGHBOURS:
        similarity = np.where(similarity < np.partition(similarity, -NEIGHBOURS)[:, -NEIGHBOURS, None], 0, similarity)
    return sp.csr_array(similarity)


def rp3beta(train: sp.csr_array, chosen: np.ndarray) -> np.ndarray:
    """The chance of a walk over three edges to end at an item, over a power of how often it was taken (Paudel et al. 2017)."""
    of_users, of_items = (np.maximum(np.asarray(train.sum(axis)).ravel(), 1) for axis in (1, 0))
    there, back = sp.diags_array(1 / of_users) @ train, sp.diags_array(1 / of_items) @ train.T
    return in_parts(chosen, lambda users: there[users] @ back @ there, train.shape[1]) / of_items**BETA


def svd(train: sp.csr_array, chosen: np.ndarray) -> np.ndarray:
    """The matrix of interactions, rebuilt from its largest singular vectors (Cremonesi et al. 2010)."""
    from scipy.sparse.linalg import svds

    u, s, v = svds(train, k=FACTORS, random_state=SEED)
    return np.asarray((u[chosen] * s) @ v)


def in_parts(users: np.ndarray, make: Callable[[np.ndarray], sp.sparray], n_items: int) -> np.ndarray:
    """Sparse scores of users as one dense table, made a hundred users at a time."""
    out = np.empty((len(users), n_items), dtype=np.float32)
    for first in range(0, len(users), 100):
        out[first : first + 100] = make(users[first : first + 100]).toarray()
    return out


def measured(path: Path, protocol: str) -> Iterator[dict]:
    """Every model of a catalogue under one protocol: truth, estimate and interval by design and metric."""
    candidates, several = PROTOCOLS[protocol]
    users, items, timed = interactions(path, SEED)
    held = from_the_end(users) <= (np.maximum(np.bincount(users) // 5, 1)[users] if several else 1)
    split, train, chosen = split_of(users, items, held)
    if len(chosen) * train.shape[1] > ROOM or train.shape[1] < LEAST:
        return
    estimator = logspline(path.stem, protocol)
    for model, scores in models_of(train, chosen, (users[~held], items[~held]) if timed else None):
        # one seed for all: the truth depends on how ties are broken
        exact = fr.MLE().fit(fr.observe(scores, split, "full", candidates=candidates, rng=SEED, progress=False))
        for design in DESIGNS:
            counts = fr.observe(scores, split, design, candidates=candidates, rng=SEED, progress=False)
            found = estimator.fit(counts)
            about = {"catalogue": path.stem, "model": model, "protocol": protocol, "design": design}
            for metric in METRICS:
                span = found.interval(metric)
                yield from judged(about, metric, exact, found.expect(metric), span, bool(found.fit_info.notes))
        if candidates == "unseen":
            report = fr.evaluate(
                scores, split, METRICS, "adaptive", estimator, precision=PRECISION, rng=SEED, progress=False
            )
            about = {"catalogue": path.stem, "model": model, "protocol": protocol, "design": IN_ROUNDS}
            for row in report.rows:
                yield from judged(about, str(row.metric), exact, row.value, row.interval, bool(report.notes))


def judged(
    about: dict, metric: str, exact: fr.RankDistribution, value: float, span: tuple[float, float], warned: bool
) -> Iterator[dict]:
    """One interval beside the truth, where that is not zero."""
    truth, (low, high) = exact.expect(metric), span
    if truth > 0:
        held = low - 1e-9 <= truth <= high + 1e-9
        found = {
            "held": held,
            "warned": warned,
            "truth": truth,
            "error": abs(value / truth - 1),
            "low": low,
            "high": high,
        }
        yield {**about, "metric": metric, **found}


def page(rows: list[dict]) -> str:
    """Write what was found as a page: coverage by protocol, design and model, and the intervals that miss most."""
    table = pl.DataFrame(rows)
    models = table["model"].unique(maintain_order=True).to_list()
    covered = " | ".join(f"{model}, covered" for model in models)
    lines = [
        "# Recommenders of other kinds", "",
        "LogSpline's prior was learned from popularity, item kNN, BM25, ALS, BPR, EASE and, for one target, recommenders of sequences. Does it hold for others? User kNN, RP3beta (a random walk), a truncated SVD and, "
        "where interactions have times, a Markov chain of items were trained on the catalogues of a folder and ranked in full and by samples; the prior has seen no "
        "catalogue of the same family either. 95 % intervals of NDCG@10 and Recall@10, percent; written by `python benchmarks/other_models.py --write docs`.", "",
        f"| candidates, targets | design | files | covered | {covered} | NDCG@10: error, mean (median) |",
        f"|---|---|--:|--:|{'--:|' * len(models)}--:|",
    ]  # fmt: skip
    for (protocol, design), part in table.group_by("protocol", "design", maintain_order=True):
        each = dict(part.group_by("model").agg(pl.col("held").mean()).iter_rows())
        error = 100 * part.filter(pl.col("metric") == "ndcg@10")["error"]
        shares = " | ".join(f"{100 * each[model]:.0f}" if model in each else "" for model in models)
        lines.append(
            f"| {WORDS[protocol]} | {design} | {len(error)} | {100 * part['held'].mean():.1f} | {shares} | "
            f"{error.mean():.1f} ({error.median():.1f}) |"
        )
    silent = table.filter(~pl.col("held") & ~pl.col("warned"))
    miss = pl.max_horizontal(pl.col("low") - pl.col("truth"), pl.col("truth") - pl.col("high")) / pl.col("truth")
    lines += [
        "",
        f"Of {len(table):,} intervals {len(silent)} miss without a warning. Farthest from the truth, relative to it:",
        "",
    ]
    lines += [
        f"- {row['catalogue']}, {row['model']}, {WORDS[row['protocol']]}, {row['design']}, {row['metric']}: "
        f"{row['truth']:.4f}, interval {row['low']:.4f} to {row['high']:.4f}"
        for row in silent.with_columns(miss=miss).sort("miss", descending=True).head(10).iter_rows(named=True)
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument(
        "--catalogues", nargs="+", default=[], help="names, without .parquet; all of the folder if left out"
    )
    ask.add_argument("--protocols", nargs="+", default=list(PROTOCOLS), choices=list(PROTOCOLS))
    ask.add_argument("--write", type=Path, help="folder for other_models.md")
    asked = ask.parse_args()
    paths = sorted(path for folder in folders("FULLRANK_MORE_DATA") for path in folder.glob("*.parquet"))
    paths = [path for path in paths if not asked.catalogues or path.stem in asked.catalogues]
    if not paths:
        raise SystemExit("other_models.py needs catalogues to train on: set FULLRANK_MORE_DATA to a folder of them.")
    rows = []
    for path in paths:
        for protocol in asked.protocols:
            found = list(measured(path, protocol))
            rows += found
            if found:
                held = 100 * np.mean([row["held"] for row in found])
                print(f"{path.stem}, {protocol}: {len(found)} intervals, {held:.0f} % hold", flush=True)
    text = page(rows)
    print(f"\n{text}")
    if asked.write is not None:
        (asked.write / "other_models.md").write_text(text)


if __name__ == "__main__":
    main()
