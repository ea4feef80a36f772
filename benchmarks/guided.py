"""What a guide saves: the cost of ±2 % behind every guide, against uniform adaptive sampling; training items; a clock.

Every ordered pair of EASE, ALS, itemKNN and BPR as expensive model and guide, and popularity and a random order as guides
(``guide_pairs.py``; 1,500 cases). ``evaluate`` is left free to leave a guide. Priors have not seen the catalogue's family
(``fit_compared.py``). Cost is in per cent of the catalogue per case. ``at equal cost``: uniform adaptive sampling that is
stopped when it has scored as many items as the model's guides took, on the median. A random order is compared with uniform
sampling of items that are numbered in this order: after it is left, the same ones are drawn.

    python benchmarks/guided.py                         # six catalogues; names choose others
    python benchmarks/guided.py --all                   # training items compared in full, and not
    python benchmarks/guided.py --blind 0.05 ml-1m      # guides that know nothing of a share of the users, only popularity
    python benchmarks/guided.py --rounds citeulike-a als/ease    # where the items of one pair go, round by round
    python benchmarks/guided.py --clock                 # a scorer that sleeps 0.05 ms per item, N = 20,000
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import fullrank as fr
from accuracy import logspline
from catalogues import rank_files, split_name
from fit_compared import compared, guided, patient
from fullrank.models.scorer import Rows
from guide_pairs import beaten_items, pairs_of

METRICS = ("ndcg@10", "recall@10")
CATALOGUES = ("ml-1m", "citeulike-a", "gowalla", "lastfm-hetrec", "yelp-hin", "foursquare-sg")
POOR = ("pop", "rnd")
PRECISION = 0.02
#: Samples of each file with training items compared.
DRAWS = 3


@dataclass(frozen=True)
class Found:
    """What one run gave: its cost as a share of the catalogue, and per metric the relative error and whether it was covered."""

    cost: float
    errors: tuple[float, ...]
    covered: tuple[bool, ...]

    def __str__(self) -> str:
        cells = (f"{100 * e:+.2f} %{'' if c else ' MISSED'}" for e, c in zip(self.errors, self.covered, strict=True))
        return f"{100 * self.cost:.2f} % | {' | '.join(cells)}"


class Unseen(fr.LogSpline):
    """LogSpline under priors that have not seen a catalogue; where a guide was left, the one that is shipped speaks."""

    priors: Mapping[str, fr.HyperPrior]

    @classmethod
    def without(cls, name: str) -> Unseen:
        """The estimator for a catalogue."""
        new = cls()
        object.__setattr__(new, "priors", {"guided": guided(name), "patient": patient(name)})
        return new

    def fit(self, counts: fr.RankCounts) -> fr.RankDistribution:
        """Fit the counts under the prior that is for them."""
        return fr.LogSpline(self.priors.get(self.prior_of(counts))).fit(counts)


class Catalogue:
    """Pairs of models on a catalogue, acted out: the guide's order is 1, 2, 3, …, the target is item 0."""

    def __init__(self, name: str, blind: float = 0.0) -> None:
        self.name, self.found = name, pairs_of(name)
        unknown = np.random.default_rng(3).random(len(self.found["N"])) < blind
        for what, model, guide in (key.split("_") for key in self.found if key.startswith(("first_", "ahead_"))):
            if model != "pop" and guide not in POOR:
                own, popular = self.found[f"{what}_{model}_{guide}"], self.found[f"{what}_{model}_pop"]
                self.found[f"{what}_{model}_{guide}"] = np.where(unknown[:, None], popular, own)
        self.n = int(self.found["n_items"])
        pairs = (key.removeprefix("first_").split("_") for key in self.found if key.startswith("first_"))
        self.pairs = sorted((model, guide) for model, guide in pairs if model != "pop")
        self.estimator = Unseen.without(name)

    def run(
        self, model: str, guide: str | None, seed: int = 0, items: float | None = None, numbered: str = "pop"
    ) -> Found:
        """Evaluate a pair to ±2 %, or without a guide; ``items``: the share of the catalogue that may be scored.

        ``numbered``: without a guide, items are numbered in this one's order, and the same are drawn as where it was left.
        """
        report, ranks = self.evaluate(model, guide, seed, items, numbered)
        true = [float(row.metric.gain(ranks).mean()) for row in report.rows]
        return Found(
            report.rows[0].items_scored / len(ranks) / self.n,
            tuple(row.value / value - 1 for row, value in zip(report.rows, true, strict=True)),
            tuple(row.low - 1e-9 <= value <= row.high + 1e-9 for row, value in zip(report.rows, true, strict=True)),
        )

    def evaluate(
        self, model: str, guide: str | None, seed: int = 0, items: float | None = None, numbered: str = "pop"
    ) -> tuple[fr.Report, np.ndarray]:
        """The report of a run, and the true ranks."""
        beats = beaten_items(self.found, model, guide or numbered, np.random.default_rng(0))
        cases, n = beats.shape
        split = fr.Split(sp.csr_matrix((cases, n)), np.arange(cases), np.zeros(cases, dtype=int))
        order = Rows(lambda users: np.tile(-np.arange(n, dtype=float), (len(users), 1)), n, name=guide or "none")

        def score(users: np.ndarray, asked: np.ndarray) -> np.ndarray:
            return np.where(asked == 0, 0.5, beats[users[:, None], asked])

        # a limit just below everything: ranking in full is no way out, however quick this scorer is
        most = cases * n - 1 if items is None else round(items * cases * n)
        how = {"design": "adaptive"} if guide is None else {"guide": order, "estimator": self.estimator}
        report = fr.evaluate(
            {model: score}, split, METRICS, precision=PRECISION, progress=False, max_items=most, rng=seed, **how
        )
        return report, 1 + beats.sum(1)


def compare(name: str) -> tuple[dict[tuple[str, str], Found], dict[tuple[str, str], Found], list[tuple[float, float]]]:
    """Print every pair of a catalogue; return what was found behind guides, without, and errors at equal cost."""
    catalogue, behind, plain, equal = Catalogue(name), {}, {}, []
    for model in sorted({model for model, _ in catalogue.pairs}):
        for order in POOR:
            plain[model, order] = catalogue.run(model, None, numbered=order)
            words = "uniform" if order == "pop" else "uniform, items numbered at random"
            print(f"| {name} | {model}, {words} | {plain[model, order]} | |", flush=True)
        for guide in (guide for each, guide in catalogue.pairs if each == model):
            found = behind[model, guide] = catalogue.run(model, guide)
            same = plain[model, "rnd" if guide == "rnd" else "pop"]
            print(f"| {name} | {model} / {guide} | {found} | {found.cost / same.cost:.2f} |", flush=True)
        own = [found for (each, guide), found in behind.items() if each == model and guide not in POOR]
        same = catalogue.run(model, None, items=float(np.median([found.cost for found in own])))
        print(f"| {name} | {model}, uniform at equal cost | {same} | |", flush=True)
        equal += [(np.mean(np.abs([found.errors for found in own])), np.mean(np.abs(same.errors)))]
    return behind, plain, equal


def summary(name: str, behind: dict[tuple[str, str], Found], plain: dict[tuple[str, str], Found], equal: list) -> str:
    """One line of the table of catalogues."""
    models = [found.cost for (_, guide), found in behind.items() if guide not in POOR]
    poor = [behind[pair].cost / plain[pair].cost for pair in plain]
    covered = np.concatenate([found.covered for found in behind.values()])
    own, same = np.mean(equal, axis=0)
    uniform = np.median([found.cost for found in plain.values()])
    return (
        f"| {name} | {100 * np.median(models):.1f} % ({100 * min(models):.1f} to {100 * max(models):.1f}) | "
        f"{100 * uniform:.1f} % | {own / same:.2f} | {covered.sum()} of {len(covered)} | {max(poor):.2f} |"
    )


def pairs(names: list[str]) -> None:
    """Every pair on every catalogue, then a line for each catalogue."""
    print(
        "| catalogue | model / guide | cost | ndcg@10 | recall@10 | ÷ uniform |\n|---|---|---|---|---|---|", flush=True
    )
    lines, every = [], []
    for name in names:
        behind, plain, equal = compare(name)
        lines.append(summary(name, behind, plain, equal))
        every += [covered for found in behind.values() for covered in found.covered]
    print(
        "\n| catalogue | cost behind models, median (range) | uniform, median | error ÷ uniform's at equal cost | covered | "
        "poor guides ÷ uniform, worst |\n|---|---|---|---|---|---|"
    )
    print("\n".join(lines))
    print(f"\nCoverage over all pairs: {np.mean(every):.1%} of {len(every)} intervals.")


def blind_guides(share: float, names: list[str]) -> None:
    """Print every pair of models where the guide knows nothing of a share of the users, and puts popular items first."""
    print("| catalogue | model / guide | cost | ndcg@10 | recall@10 |\n|---|---|---|---|---|", flush=True)
    every: list[bool] = []
    for name in names:
        catalogue = Catalogue(name, share)
        for model, guide in (pair for pair in catalogue.pairs if pair[1] not in POOR):
            found = catalogue.run(model, guide)
            every += found.covered
            print(f"| {name} | {model} / {guide} | {found} |", flush=True)
    print(f"\nCoverage: {sum(every)} of {len(every)} intervals.")


def rounds(name: str, pair: str) -> None:
    """Print what every round of a pair took and brought, and where the items went."""
    model, guide = pair.split("/")
    catalogue = Catalogue(name)
    report, ranks = catalogue.evaluate(model, guide)
    whole = len(ranks) * catalogue.n / 100
    print("| round | cost | half-width ÷ asked: ndcg@10 | recall@10 |\n|---|---|---|---|")
    values = {str(row.metric): row.value for row in report.rows}
    for each in report.runs[model].rounds:
        widths = [f"{each['half_widths'][metric] / PRECISION / values[metric]:.2f}" for metric in METRICS]
        print(f"| {each['design']} | {each['items'] / whole:.2f} % | {' | '.join(widths)} |")
    counts = report.estimates[model].counts
    drawn, open_ = counts.cases @ np.maximum(counts.column("drawn"), 0), ~counts.closed & ~counts.all_compared
    known = counts.all_compared
    parts = {
        "compared until closed": counts.compared_weight[counts.closed].sum(),
        f"compared of {counts.cases[open_].sum()} cases that are open": counts.compared_weight[open_].sum(),
        "drawn of their rests": drawn,
        f"{counts.cases[known].sum()} cases taken to the end": (counts.pool_weight - counts.weight)[known].sum(),
    }
    parts["the audit, and what was asked twice"] = report.rows[0].items_scored - sum(parts.values())
    print("\n" + "; ".join(f"{what}: {items / whole:.2f} %" for what, items in parts.items()))


def ranks_of(path: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Of some cases of a file: ranks among unseen items and how many these are, training items ahead; and all items."""
    with np.load(path) as data:
        masked, whole, pool = (data[key].astype(int) for key in ("R_masked", "R_unmasked", "N_masked"))
        total = int(data["N"])
    some = rng.choice(len(masked), min(5000, len(masked)), replace=False)
    masked, whole, pool = masked[some], whole[some], pool[some]
    return masked, pool, np.clip(whole - masked, 0, total - pool), total


def training_items(name: str) -> Iterator[tuple[str, int, list[float], list[bool]]]:
    """Per model, negatives and draw: NDCG@10's error among unseen items, and among all with training items compared.

    Neither prior has seen the catalogue's family.
    """
    plain = logspline(name, "unseen")
    estimators = {"unseen": plain, "all": fr.LogSpline(compared(name).following(plain.prior))}
    for path in (path for path in rank_files() if split_name(path)[0] == name):
        rng = np.random.default_rng(0)
        masked, pool, ahead, total = ranks_of(path, rng)
        true = {
            among: float((fr.NDCG @ 10).gain(ranks).mean())
            for among, ranks in (("unseen", masked), ("all", masked + ahead))
        }
        if true["all"] < 0.001:
            continue  # training items fill the head: nothing is left to be wrong about
        for m in [99, 499] * DRAWS:
            hits = rng.hypergeometric(masked - 1, pool - masked, np.minimum(m, pool - 1))
            errors, inside = [], []
            for among, estimator in estimators.items():
                about = {"ahead": ahead, "rest": pool - 1} if among == "all" else {}
                size = np.full(len(pool), total) if among == "all" else pool
                design = fr.Sample(m, replace=False)
                dist = estimator.fit(fr.RankCounts.from_ranks(hits + 1, size, design, candidates=among, **about))
                low, high = dist.interval("ndcg@10")
                errors.append(abs(dist.expect("ndcg@10") / true[among] - 1))
                inside.append(low <= true[among] <= high)
            yield split_name(path)[1], m, errors, inside


def compared_train(names: list[str]) -> None:
    """Print the errors with training items compared in full, against those among unseen items."""
    print(
        "| catalogue | model | negatives | error, unseen | error, all with training items compared |\n|---|---|---|---|---|"
    )
    every: dict[int, list[list[float]]] = {99: [], 499: []}
    held: dict[int, list[bool]] = {99: [], 499: []}
    for name in names:
        found = list(training_items(name))
        for model, m in dict.fromkeys((model, m) for model, m, _, _ in found):
            own = [(errors, inside) for each, number, errors, inside in found if (each, number) == (model, m)]
            means = np.mean([errors for errors, _ in own], axis=0)
            misses = sum(not inside[1] for _, inside in own)
            note = f", {misses} of {len(own)} MISSED" if misses else ""
            print(f"| {name} | {model} | {m} | {100 * means[0]:.1f} % | {100 * means[1]:.1f} %{note} |", flush=True)
            every[m] += [errors for errors, _ in own]
            held[m] += [inside[1] for _, inside in own]
    for m, errors in every.items():
        mean, middle = np.mean(errors, axis=0), np.median(errors, axis=0)
        print(
            f"\n{m} negatives: mean error {100 * mean[0]:.1f} % and {100 * mean[1]:.1f} %, a ratio of "
            f"{mean[1] / mean[0]:.2f} (medians: {middle[1] / middle[0]:.2f}); {sum(held[m])} of {len(held[m])} intervals hold among all."
        )


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
    true = float((fr.NDCG @ 10).gain(ranks).mean())
    for name, options in (("guide", {"guide": near}), ("adaptive", {"design": "adaptive"})):
        begin = time.perf_counter()
        row = fr.evaluate({"slow": slow}, split, METRICS, precision=0.05, progress=False, **options).rows[0]
        print(
            f"{name}: {time.perf_counter() - begin:,.0f} s, {row.items_scored / users / n:.2%} of the items; "
            f"{row.value:.4f} [{row.low:.4f}, {row.high:.4f}], true {true:.4f}",
            flush=True,
        )


def main() -> None:
    if "--clock" in sys.argv:
        clock()
    elif "--blind" in sys.argv:
        _, _, share, *names = sys.argv
        blind_guides(float(share), names or list(CATALOGUES))
    elif "--rounds" in sys.argv:
        rounds(*sys.argv[2:])
    elif "--all" in sys.argv:
        compared_train([each for each in sys.argv[1:] if each != "--all"] or list(CATALOGUES))
    else:
        pairs(sys.argv[1:] or list(CATALOGUES))


if __name__ == "__main__":
    main()
