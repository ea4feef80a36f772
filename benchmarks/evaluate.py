"""What `fr.evaluate` and `fr.plan` promise, measured.

    python benchmarks/evaluate.py precision --models citeulike-a/als,gowalla/knn --runs 30
    python benchmarks/evaluate.py honest --precision 0.05
    python benchmarks/evaluate.py plan
    python benchmarks/evaluate.py free
    python benchmarks/evaluate.py speed

`precision` and `plan` take true ranks of real recommenders (FULLRANK_RANKS): drawing negatives for a target of known rank is
a hypergeometric draw, which is exactly what scoring would give, so that hundreds of runs are possible. Everything else of
`evaluate` runs as it does for users. `free` and `speed` score real models on real data (FULLRANK_DATA).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fullrank as fr
from accuracy import logspline
from catalogues import rank_files, split_name
from fullrank.ranks.design import Adaptive
from shapes import SHAPES, UNSEEN
from shapes import N as SHAPE_ITEMS

MODELS = (
    "citeulike-a/als",
    "citeulike-a/bpr",
    "citeulike-a/knn",
    "citeulike-a/ease",
    "gowalla/als",
    "gowalla/bpr",
    "gowalla/knn",
)
PLANNED = (
    "ml-100k/als",
    "ml-100k/bpr",
    "ml-1m/als",
    "ml-1m/ease",
    "citeulike-a/als",
    "citeulike-a/knn",
    "pinterest-20/als",
    "pinterest-20/bpr",
    "gowalla/als",
    "gowalla/bpr",
)
#: Runs of more cases than this take long, and show no more of what a plan foresees.
MOST_PLANNED = 60_000
METRICS = ("ndcg@10", "recall@10")


def ranks_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    stem = name.replace("/", "__")
    with np.load(next(path for path in rank_files() if path.stem == stem)) as file:
        return file["R_masked"].astype(np.int64), file["N_masked"].astype(np.int64)


class World:
    """Cases whose true ranks are known, as a function that scores items and a split: any code can evaluate it.

    The target of every user is item 0; item i beats it if i < R. Negatives are drawn at random, so that this order is as
    good as any. Users with smaller pools than the largest have seen the last items.
    """

    def __init__(self, ranks: np.ndarray, pools: np.ndarray) -> None:
        self.ranks, self.pools = ranks, pools
        n, largest = len(ranks), int(pools.max())
        missing = largest - pools
        ends = np.cumsum(missing)
        seen = np.arange(ends[-1]) - np.repeat(ends - missing, missing) + np.repeat(pools, missing)
        train = sp.csr_matrix((np.ones(len(seen), dtype=np.float32), seen, np.append(0, ends)), shape=(n, largest))
        self.split = fr.Split(train, np.arange(n), np.zeros(n, dtype=np.int64))
        self.asked = 0

    def model(self, users: Any, items: Any) -> Any:
        self.asked += items.size
        return -np.where(items == 0, self.ranks[users][:, None] - 0.5, items)

    def evaluate(self, **options):
        self.asked = 0
        return fr.evaluate({"model": self.model}, self.split, METRICS, progress=False, **options)

    def truth(self, metric: str) -> float:
        return float(fr.parse_metric(metric).gain(self.ranks, self.pools.mean()).mean())


def precision(models: list[str], runs: int, first: int, wanted: float, out: Path | None) -> None:
    """Coverage, half-width and cost of sampling in rounds until ±2 % is met."""
    print(f"sampling forced, precision {wanted} for the cases, {', '.join(METRICS)}; {runs} runs per model")
    print(
        f"{'model':<18}{'items':>8}{'rounds':>8}{'seconds':>9}{'met':>6}  "
        + "".join(f"{m + ' half':>16}{'covered':>9}" for m in METRICS)
    )
    rows = []
    for name in models:
        world = World(*ranks_of(name))
        full = float((world.pools - 1).sum())
        found = []
        for seed in range(first, first + runs):
            begin = time.perf_counter()
            report = world.evaluate(design="adaptive", precision=wanted, rng=seed)
            row = {"model": name, "seed": seed, "seconds": time.perf_counter() - begin}
            row["share"] = report.rows[0]["items_scored"] / full
            row["rounds"] = [each["design"] for each in report.runs["model"].rounds]
            row["stopped"] = report.runs["model"].stop_reason
            for each in report.rows:
                row[each["metric"]] = {
                    "half": (each["high"] - each["low"]) / 2 / each["value"],
                    "error": each["value"] / world.truth(each["metric"]) - 1,
                    "covered": bool(each["low"] <= world.truth(each["metric"]) <= each["high"]),
                }
            found.append(row)
            if out is not None:
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        rows += found
        show(name, found)
    show("all (mean of models)", rows)


def show(name: str, rows: list[dict]) -> None:
    met = np.mean([row["stopped"] in ("precision", "exact") for row in rows])
    line = f"{name:<18}{np.mean([row['share'] for row in rows]):>8.1%}{np.mean([len(row['rounds']) for row in rows]):>8.1f}"
    line += f"{np.mean([row['seconds'] for row in rows]):>9.1f}{met:>6.0%}  "
    for metric in METRICS:
        line += f"{np.mean([row[metric]['half'] for row in rows]):>16.4f}{np.mean([row[metric]['covered'] for row in rows]):>9.1%}"
    print(line, flush=True)


def honest(runs: int, first: int, wanted: float, files: int, out: Path | None) -> None:
    """Coverage and cost of sampling until ±5 % is met: shapes of no recommender, and real ranks under left-out priors."""
    cases = 1000
    print(f"sampling forced, precision {wanted}, {cases:,} cases; {runs} runs per shape, one per file of real ranks")
    print(f"{'shape':<40}{'items':>8}{'rounds':>8}{'seconds':>9}{'met':>6}  " + "".join(f"{m:>14}" for m in METRICS))
    for name, shape in (SHAPES | UNSEEN).items():
        rows = []
        for seed in range(first, first + runs):
            ranks = shape(np.random.default_rng([seed, 5]), cases)
            world = World(ranks, np.full(cases, SHAPE_ITEMS, dtype=np.int64))
            rows.append(one_run(world, name, seed, wanted, None, out))
        show_honest(name, rows)
    every = [path for path in rank_files() if split_name(path)[1] in ("als", "knn", "pop", "ease")]
    chosen = np.random.default_rng(0).permutation(len(every))[:files]
    rows = []
    for place in chosen:
        path = every[place]
        with np.load(path) as file:
            ranks, pools = file["R_masked"].astype(np.int64), file["N_masked"].astype(np.int64)
        if pools.mean() < 600:
            continue
        some = np.random.default_rng([first, int(place)]).permutation(len(ranks))[:cases]
        prior = logspline(split_name(path)[0], "unseen")
        rows.append(one_run(World(ranks[some], pools[some]), path.stem, first, wanted, prior, out))
        if len(rows) % 10 == 0:
            show_honest(f"{len(rows)} real files", rows)
    show_honest("real ranks, left-out priors", rows)


def one_run(world: World, name: str, seed: int, wanted: float, estimator: Any, out: Path | None) -> dict:
    begin = time.perf_counter()
    report = world.evaluate(design="adaptive", precision=wanted, rng=seed, estimator=estimator)
    row = {"name": name, "seed": seed, "seconds": time.perf_counter() - begin}
    full = float((world.pools - 1).sum())
    row |= {"share": world.asked / full, "counted": report.rows[0]["items_scored"] / full}
    run = report.runs["model"]
    audits = [(each["audited"], each["refuted"]) for each in run.rounds if "audited" in each]
    row |= {"stopped": run.stop_reason, "rounds": len(run.rounds), "before_audit": run.rounds[-1]["items"] / full}
    row |= {
        "audited": max((number for number, _ in audits), default=0),
        "refuted": sum(bool(each) for _, each in audits),
    }
    for each in report.rows:
        true = world.truth(each["metric"])
        inside = bool(each["low"] - 1e-9 <= true <= each["high"] + 1e-9)
        row[each["metric"]] = {
            "value": each["value"],
            "low": each["low"],
            "high": each["high"],
            "truth": true,
            "covered": inside,
        }
    if out is not None:
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")
    return row


def show_honest(name: str, rows: list[dict]) -> None:
    if not rows:
        return
    met = np.mean([row["stopped"] in ("precision", "exact") for row in rows])
    line = f"{name:<40}{np.mean([row['share'] for row in rows]):>8.1%}{np.mean([row['rounds'] for row in rows]):>8.1f}"
    line += f"{np.mean([row['seconds'] for row in rows]):>9.1f}{met:>6.0%}  "
    print(line + "".join(f"{np.mean([row[m]['covered'] for row in rows]):>14.1%}" for m in METRICS), flush=True)


def plans(models: list[str], wanted: float, files: int) -> None:
    """What `plan` says from a small pilot, and without one, against what the run then takes."""
    print(f"plan from a pilot (adaptive 99..799 stop 1), and from the prior, against the run; precision {wanted}")
    print(
        f"{'model':<32}{'items: planned':>16}{'taken':>8}{'×':>6}{'by the prior':>14}{'×':>6}"
        f"{'half-width: planned':>21}{'reached':>9}"
    )
    chosen = [name.replace("/", "__") for name in models]
    every = [path.stem for path in rank_files() if split_name(path)[1] in ("als", "knn", "bpr", "bm25", "pop", "ease")]
    more = [stem for stem in np.random.default_rng(1).permutation(every).tolist() if stem not in chosen]
    times: list[tuple[float, float]] = []
    refuted: list[bool] = []
    for stem in [*chosen, *more[:files]]:
        world = World(*ranks_of(stem))
        n_items, cases = round(world.pools.mean()), len(world.ranks)
        if n_items < 600 or cases > MOST_PLANNED:
            continue
        full = float((world.pools - 1).sum())
        pilot = fr.observe(world.model, world.split, Adaptive(99, 799, 1, replace=False), rng=11, progress=False)
        made = fr.plan(metric=METRICS, precision=wanted, pilot=pilot)
        blind = fr.plan(n_items=n_items, cases=cases, metric=METRICS, precision=wanted)
        report = world.evaluate(design="adaptive", precision=wanted, rng=3)
        half = max((row["high"] - row["low"]) / 2 / row["value"] for row in report.rows)
        items = report.rows[0]["items_scored"]
        times.append((items / made.items, items / blind.items))
        refuted.append(any(each.get("refuted") for each in report.runs["model"].rounds))
        print(
            f"{stem:<32}{made.items / full:>16.1%}{items / full:>8.1%}{times[-1][0]:>6.2f}{blind.items / full:>14.1%}"
            f"{times[-1][1]:>6.2f}{made.half_width:>21.4f}{half:>9.4f}",
            flush=True,
        )
    for name, found in zip(("with a pilot", "without one"), np.transpose(times), strict=True):
        low, middle, high = np.quantile(found, [0.05, 0.5, 0.95])
        print(
            f"taken/planned {name}, {len(found)} runs: median {middle:.2f}, nine in ten {low:.2f} to {high:.2f}, all "
            f"{found.min():.2f} to {found.max():.2f}; {np.mean((found >= 0.75) & (found <= 1.35)):.0%} within 0.75 to 1.35"
        )
    beyond = np.array(refuted)[np.array(times)[:, 0] > 1.3]
    print(
        f"of {len(beyond)} runs beyond 1.3 times a pilot's plan, {beyond.sum()} had an audit that refuted an estimate"
    )


def free(datas: tuple[str, ...] = ("citeulike-a", "gowalla"), precision: float = 0.02) -> None:
    """Left free: which way is taken, and what both ways take when they are forced."""
    from fullrank.models import ALS, ItemKNN

    print("| data, model | left free | all ways forced: everything | to 10 | sampled | the cheapest was taken |")
    print("|---|---|---|---|---|---|")
    for data in datas:
        split = fr.load(data)
        als = ALS(64, iterations=5).fit(split.train, progress=False)
        function = SlowFunction(als)
        # a function takes long: a part of the cases shows as much
        few = replace(split, users=split.users[:2000], items=split.items[:2000])
        for name, model, part in (
            ("64 factors", als, split),
            ("item-item", ItemKNN().fit(split.train, progress=False), split),
            ("a function", function, few),
        ):
            fr.evaluate({name: model}, few, METRICS, design="uni99", progress=False)  # compiled
            took, seen = {}, {}
            for way, how in {
                "free": {},
                "everything": {"design": "full", "precision": None},
                "to 10": {"design": "top10", "precision": None},
                "sampled": {"design": "adaptive"},
            }.items():
                begin = time.perf_counter()
                seen[way] = fr.evaluate({name: model}, part, METRICS, **{"precision": precision, **how}, progress=False)
                took[way] = time.perf_counter() - begin
            design = fr.parse_design(seen["free"].rows[0]["design"])
            chosen = "everything" if design.exhaustive else "to 10" if design.exact_to else "sampled"
            least = min(took[way] for way in ("everything", "to 10", "sampled"))
            right = took[chosen] <= max(1.2 * least, 0.5)  # clocks vary; so quick, the whole ranking is worth having
            print(f"| {data}, {name} ({len(part):,} cases) | {chosen}, {took['free']:.1f} s | {took['everything']:.1f} s | "
                  f"{took['to 10']:.1f} s | {took['sampled']:.1f} s | {'yes' if right else 'no'} |", flush=True)  # fmt: skip
            print(f"  {' '.join(seen['free'].remarks)}", flush=True)


class SlowFunction:
    """A model whose every score costs the same, in a row or alone."""

    def __init__(self, model: Any) -> None:
        scorer = fr.as_scorer(model)
        self.users, self.items = np.asarray(scorer.users), np.asarray(scorer.items)

    def __call__(self, users: Any, items: Any) -> Any:
        return np.einsum("bd,bmd->bm", self.users[users], self.items[items])


def speed(data: str = "gowalla", factors: int = 64) -> None:
    """`evaluate` of a factor model, from call to report, against implicit's full evaluation of the same model."""
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k

    split = fr.load(data)
    model = AlternatingLeastSquares(factors=factors, iterations=2, random_state=0)
    model.fit(split.train.astype(np.float32), show_progress=False)
    test = sp.csr_matrix(
        (np.ones(len(split.users), dtype=np.float32), (split.users, split.items)), shape=split.train.shape
    )
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        report = fr.evaluate({"als": model}, split, METRICS, progress=False)
        seconds.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    theirs = ranking_metrics_at_k(model, split.train.astype(np.float32), test, K=10, show_progress=False)
    peer = time.perf_counter() - begin
    print(f"{data}, {split.n_users:,} users × {split.n_items:,} items × {factors} factors, {len(split.users):,} cases")
    print(
        f"implicit {peer:.2f} s; fr.evaluate {min(seconds[1:]):.2f} s = {min(seconds[1:]) / peer:.2f} of it; cold start {seconds[0]:.2f} s"
    )
    print(
        f"ndcg@10: implicit {theirs['ndcg']:.5f}, fr.evaluate {report.value('als', 'ndcg@10'):.5f} ({report.rows[0]['design']})"
    )
    whole, everything = products(model, split, "full")
    print(f"fr.observe 'full': {whole:.2f} s")
    for k in (10, 20, 50, 100):
        seconds, scores = products(model, split, f"top{k}")
        print(f"fr.observe 'top{k}': {seconds:.2f} s, {scores / everything:.1%} of the products of 'full'")


def products(model: Any, split: fr.Split, design: str) -> tuple[float, int]:
    """Seconds of an observation, and how many scores its matrix products gave."""
    asked: list[int] = []
    dot = np.dot

    def counting(a: Any, b: Any, out: Any) -> Any:
        asked.append(out.size)
        return dot(a, b, out=out)

    begin = time.perf_counter()
    fr.observe(model, split, design, progress=False)
    seconds = time.perf_counter() - begin
    np.dot = counting
    try:
        fr.observe(model, split, design, progress=False)
    finally:
        np.dot = dot
    return seconds, sum(asked)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["precision", "honest", "plan", "free", "speed"])
    parser.add_argument("--models", help="of MODELS, or PLANNED for `plan`, by default")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--precision", type=float, default=0.02)
    parser.add_argument(
        "--files", type=int, help="files of real ranks: 120 for `honest`, 30 beside the models for `plan`"
    )
    parser.add_argument("--out", type=Path, help="append one JSON line per run")
    given = parser.parse_args()
    if given.what == "precision":
        precision((given.models or ",".join(MODELS)).split(","), given.runs, given.first, given.precision, given.out)
    elif given.what == "honest":
        honest(given.runs, given.first, given.precision, 120 if given.files is None else given.files, given.out)
    elif given.what == "plan":
        named = (given.models or ",".join(PLANNED)).split(",")
        plans(named, given.precision, 30 if given.files is None else given.files)
    elif given.what == "free":
        free()
    else:
        speed()
