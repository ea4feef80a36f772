"""How accurate is it? Errors, intervals and winners from true ranks, whole families of catalogues left out.

Every number comes from the true ranks of real recommenders (see ``catalogues.py``): samples are drawn from them by the
design's law, corrected, and compared with the truth. LogSpline's prior is the one that has seen no catalogue of the family
under test (``benchmarks/priors/fold-K.json``). Models are sampled independently of one another.

    python benchmarks/accuracy.py                 # everything, some twenty minutes on 2 cores
    python benchmarks/accuracy.py --quick         # a glance
    python benchmarks/accuracy.py --write docs    # also docs/accuracy.md, docs/accuracy.json and docs/accuracy.svg
    python benchmarks/accuracy.py --part several  # one part: unseen, all, several, choices
    python benchmarks/accuracy.py --seen          # under the shipped prior, which has seen every file: the most that more
                                                  # catalogues behind it could bring
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from zlib import crc32

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process per core does better than threads within one

import numpy as np

import fullrank as fr
from catalogues import FOLDS, SEQUENCES, fold_of, kind, rank_files, split_name
from fullrank.estimators.hyperprior import FOLLOWED, HyperPrior, models_in_words
from fullrank.estimators.logspline import LogSpline

KS = range(1, 51)
PAPER = fr.Adaptive(99, 3199, stop_at=1)
DESIGNS = {"99": fr.Sample(99), "499": fr.Sample(499), "adaptive 100-3200": PAPER, "Adaptive()": fr.Adaptive()}
#: Judged models and the least size of a catalogue; others are behind the prior only.
MODELS, LEAST = ("als", "knn", "pop", "ease"), 600
OTHERS = {"BV 0.01": fr.BiasVariance(0.01), "MN_MLE": fr.Multinomial(prior=fr.MLE()), "MES": fr.MaxEntropy()}
SEVERAL_METRICS = ("recall@10", "ndcg@10", "mrr@10", "ndcg@50")
PRIORS = Path(__file__).parent / "priors"
#: Set in the environment of the processes that judge the shipped prior.
SEEN = "FULLRANK_ACCURACY_SEEN"
#: Pools are binned by ⌊log2 N · 2^level⌋: 1 % wide.
POOL_LEVEL = 6


@cache
def _path(file: str) -> Path:
    return next(path for path in rank_files() if path.stem == file)


def truth_of(file: str, protocol: str) -> tuple[np.ndarray, np.ndarray]:
    """True ranks and numbers of candidates."""
    with np.load(_path(file)) as data:
        if protocol == "unseen":
            return data["R_masked"].astype(np.int64), data["N_masked"].astype(np.int64)
        ranks = data["R_unmasked"].astype(np.int64)
        return ranks, np.full(len(ranks), int(data["N"]))


def stream(purpose: int, file: str, sample: int) -> np.random.Generator:
    """Random numbers of one sample of one file, independent of all others."""
    return np.random.default_rng([sample, purpose, crc32(file.encode())])


def draw(
    ranks: np.ndarray, pool: np.ndarray, design: fr.Design, rng: np.random.Generator, *, users: bool = False,
    candidates: str = "unseen",
) -> fr.RankCounts:  # fmt: skip
    """One sample of every case, by the design's own stages, as counts.

    ``users``: keep users apart, for the population and for differences of models. The counts are those of
    ``RankCounts.from_ranks`` but for AUC, which nobody asks for here and which takes most of its time.
    """
    design = design.resolve(int(pool.max()))
    drawn, hits = design.simulate(ranks, pool, rng)
    block = np.arange(len(ranks)) % 256 if users else np.zeros(len(ranks), dtype=np.int64)
    size = np.floor(np.log2(pool) * 2**POOL_LEVEL).astype(np.int64)
    columns = [block, size, drawn, hits]
    packed = columns[0]
    for column in columns[1:]:
        packed = packed * (int(column.max()) + 1) + column
    _, first, which, cases = np.unique(packed, return_index=True, return_inverse=True, return_counts=True)
    one, none = np.ones(len(first), dtype=np.int64), np.zeros(len(first))
    block, size, drawn, hits = (column[first] for column in columns)
    # nothing compared: the rest is the pool
    keys = np.stack([block, size, 0 * one, size, drawn, hits, 0 * one, one, one], axis=1)
    weight = cases.astype(np.float64)
    pools = np.bincount(which, pool)
    return fr.RankCounts(design, POOL_LEVEL, keys, cases, cases * drawn, weight, pools, none, none, weight, candidates)


@cache
def _prior(fold: int, name: str) -> HyperPrior:
    prior = HyperPrior.from_json((PRIORS / f"fold-{fold}.json").read_text(), name)
    return prior.following(_prior(fold, "unseen")) if name in FOLLOWED else prior


def logspline(catalogue: str, prior: str) -> LogSpline:
    """LogSpline under the prior that has not seen the family of the catalogue, or (``--seen``) under the shipped one."""
    return LogSpline() if SEEN in os.environ else LogSpline(_prior(fold_of(catalogue), prior))


def relative_error(estimated: np.ndarray, true: np.ndarray) -> float:
    """|est − true|/true averaged over K = 1..50, skipping K where the truth is 0 (li23's measure)."""
    some = true > 0
    return float(np.mean(np.abs(estimated - true)[some] / true[some])) if some.any() else np.nan


def scored(low: float, high: float, true: float) -> tuple[bool, float]:
    """Whether an interval holds the truth, and its interval score at 95 %: (width + 40 × miss)/truth."""
    miss = max(low - true, true - high, 0.0)
    return miss <= 1e-12, (high - low + 40 * miss) / true if true > 0 else np.nan


def one_target(task: tuple[str, str, str, int]) -> list[dict]:
    """One file, candidates and design: LogSpline's and MLE's errors, and LogSpline's intervals, in every sample."""
    file, protocol, label, samples = task
    catalogue, model = split_name(file)
    ranks, pool = truth_of(file, protocol)
    full = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, pool, "full"))
    true, recall = full.curve("ndcg", KS), full.curve("recall", KS)
    out = []
    for sample in range(samples):
        rng = stream(11, file, sample)
        counts = draw(ranks, pool, DESIGNS[label], rng, candidates=protocol)
        fit = logspline(catalogue, protocol).fit(counts)
        held, score = scored(*fit.interval("ndcg@10"), true[9])
        found = {"LogSpline": fit.curve("ndcg", KS), "MLE": fr.MLE().fit(counts).curve("ndcg", KS)}
        if sample == 0 and protocol == "unseen" and not DESIGNS[label].grows:
            found |= {name: each.fit(counts).curve("ndcg", KS) for name, each in OTHERS.items()}
        out.append({
            "file": file, "catalogue": catalogue, "model": model, "protocol": protocol, "design": label, "sample": sample,
            "errors": {name: relative_error(curve, true) for name, curve in found.items()},
            "recall": relative_error(fit.curve("recall", KS), recall), "held": held, "score": score,
            "warned": fit.posterior.unlike, "items": counts.items_scored / len(ranks),
            "values": {name: curve[9] for name, curve in found.items()}, "truth": true[9],
        })  # fmt: skip
    return out


def several(task: tuple[str, int, int]) -> list[dict]:
    """One file with several targets per user: errors and intervals of LogSpline by metric, in every sample."""
    path, negatives, samples = task
    catalogue, model = split_name(path)
    with np.load(path) as data:
        ranks, pool = data["R"].astype(np.int64), data["N_pool"].astype(np.int64)
        about = {"users": data["user"], "order": data["order"], "targets": data["targets"]}
    full = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, pool, "full", **about))
    out = []
    for sample in range(samples):
        rng = stream(15, Path(path).stem, sample)
        sampled = 1 + rng.binomial(negatives, (ranks - 1) / np.maximum(pool - 1, 1))
        counts = fr.RankCounts.from_ranks(sampled, pool, fr.Sample(negatives), **about)
        began = time.perf_counter()
        fit = logspline(catalogue, "several").fit(counts)
        spans = [fit.interval(metric) for metric in SEVERAL_METRICS]
        seconds = time.perf_counter() - began
        for metric, span in zip(SEVERAL_METRICS, spans, strict=True):
            true = full.expect(metric)
            held, score = scored(*span, true)
            out.append({
                "file": Path(path).stem, "catalogue": catalogue, "model": model, "design": str(negatives), "metric": metric,
                "error": abs(fit.expect(metric) - true) / true, "held": held, "score": score, "sample": sample,
                "warned": fit.posterior.unlike, "seconds": seconds,
            })  # fmt: skip
    return out


# -------------------------------------------------------------------------------------------------- tables


def by_file(rows: list[dict], value) -> dict[str, float]:
    """The mean of a value over the samples of each file."""
    found = defaultdict(list)
    for row in rows:
        found[row["file"]].append(value(row))
    return {file: float(np.nanmean(each)) if not np.isnan(each).all() else np.nan for file, each in found.items()}


def summary_row(rows: list[dict]) -> dict:
    """What the goals are about, over the files of one condition."""
    mine, mle = by_file(rows, lambda row: row["errors"]["LogSpline"]), by_file(rows, lambda row: row["errors"]["MLE"])
    held, score = by_file(rows, lambda row: row["held"]), by_file(rows, lambda row: row["score"])
    ratios = {file: mine[file] / max(mle[file], 1e-9) for file in mine}
    kinds = defaultdict(list)
    for file in held:
        kinds[kind(split_name(file)[0])].append(held[file])
    lowest = min(kinds, key=lambda name: np.mean(kinds[name]))
    worst = sorted(ratios, key=lambda file: -ratios[file] if ratios[file] == ratios[file] else 0)[:3]
    missed = sorted(held, key=lambda file: held[file])[:3]
    values, others = np.array(list(mine.values())), np.array(list(mle.values()))
    scores = np.array(list(score.values()))
    return {
        "files": len(mine), "items": float(np.mean([row["items"] for row in rows])),
        "error": 100 * float(np.nanmean(values)), "median": 100 * float(np.nanmedian(values)),
        "mle": 100 * float(np.nanmean(others)), "mle_median": 100 * float(np.nanmedian(others)),
        "recall": 100 * float(np.nanmean([row["recall"] for row in rows])),
        "coverage": float(np.mean(list(held.values()))),
        "score": float(np.nanmean(scores)), "score_median": float(np.nanmedian(scores)),
        "lowest_kind": [lowest, float(np.mean(kinds[lowest]))],
        "kinds": {name: [len(each), float(np.mean(each))] for name, each in sorted(kinds.items())},
        "worst": [[file, ratios[file]] for file in worst], "above_3": int(np.sum(np.array(list(ratios.values())) > 3)),
        "missed": [[file, held[file]] for file in missed], "warned": float(np.mean([row["warned"] for row in rows])),
    }  # fmt: skip


HEAD = "| negatives | files | items scored | NDCG error, mean (median) | MLE | coverage | interval score, mean (median) | lowest kind | warned | above 3 × MLE | worst ÷ MLE | least covered |"  # fmt: skip


def condition_line(label: str, row: dict) -> str:
    """One condition as a line of Markdown."""
    worst = ", ".join(f"{file} {ratio:.1f}" for file, ratio in row["worst"])
    missed = ", ".join(f"{file} {100 * share:.0f} %" for file, share in row["missed"] if share < 1)
    lowest, share = row["lowest_kind"]
    return (
        f"| {label} | {row['files']} | {row['items']:,.0f} | {row['error']:.1f} % ({row['median']:.1f}) | {row['mle']:.1f} % ({row['mle_median']:.1f}) | "
        f"{100 * row['coverage']:.1f} % | {row['score']:.2f} ({row['score_median']:.2f}) | {lowest}: {100 * share:.0f} % | "
        f"{100 * row['warned']:.1f} % | {row['above_3']} | {worst} | {missed} |"
    )


def one_target_part(rows: list[dict], protocol: str) -> tuple[list[str], dict]:
    """Tables of one protocol: all families left out in turn, by kind of catalogue, and the fold kept out of development."""
    lines, numbers = (
        ["", f"## One target per user, candidates `{protocol}`", "", HEAD, "|---" * (HEAD.count("|") - 1) + "|"],
        {},
    )
    for label in DESIGNS:
        here = [row for row in rows if row["design"] == label]
        if here:
            numbers[label] = summary_row(here)
            lines.append(condition_line(label, numbers[label]))
    last = [row for row in rows if fold_of(row["catalogue"]) == FOLDS]
    for label in DESIGNS:
        here = [row for row in last if row["design"] == label]
        if here:
            numbers[f"{label}, last fold"] = summary_row(here)
            lines.append(
                condition_line(f"{label}: families kept out of all development", numbers[f"{label}, last fold"])
            )
    kinds = sorted({name for row in numbers.values() for name in row["kinds"]})
    lines += ["", "Coverage by kind of catalogue:", "", "| kind | files | " + " | ".join(label for label in DESIGNS if label in numbers) + " |", "|---" * (2 + sum(label in numbers for label in DESIGNS)) + "|"]  # fmt: skip
    for name in kinds:
        cells = [numbers[label]["kinds"].get(name, [0, np.nan]) for label in DESIGNS if label in numbers]
        lines.append(f"| {name} | {cells[0][0]} | " + " | ".join(f"{100 * share:.0f} %" for _, share in cells) + " |")
    return lines, numbers


def sequences_part(rows: list[dict]) -> tuple[list[str], dict]:
    """The table of recommenders of sequences."""
    catalogues = len({row["catalogue"] for row in rows})
    lines = ["", "## Recommenders of sequences", "", f"A GRU, self-attention and Markov chains on {catalogues} catalogues with times (`benchmarks/sequence_ranks.py`), one target, candidates `unseen`, families left out.", "", HEAD, "|---" * (HEAD.count("|") - 1) + "|"]  # fmt: skip
    numbers = {}
    for label in DESIGNS:
        numbers[label] = summary_row([row for row in rows if row["design"] == label])
        lines.append(condition_line(label, numbers[label]))
    return lines, numbers


def others_part(rows: list[dict]) -> list[str]:
    """The published estimators on the same samples."""
    lines = ["", "The published estimators on the first sample of every file (NDCG error, mean and median, %):", "", "| negatives | " + " | ".join(["LogSpline", "MLE", *OTHERS]) + " |", "|---" * (3 + len(OTHERS)) + "|"]  # fmt: skip
    for label in DESIGNS:
        here = [row for row in rows if row["design"] == label and set(OTHERS) <= set(row["errors"])]
        if here:
            cells = []
            for name in ["LogSpline", "MLE", *OTHERS]:
                each = 100 * np.array([row["errors"][name] for row in here])
                cells.append(f"{np.nanmean(each):.1f} ({np.nanmedian(each):.1f})")
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def winners_part(rows: list[dict]) -> list[str]:
    """How often the best model of a catalogue has the highest NDCG@10."""
    lines = ["", "## Winners", "", "How often the best of a catalogue's models by NDCG@10 is found (candidates `unseen`).", "", "| negatives | LogSpline | MLE |", "|---|---|---|"]  # fmt: skip
    for label in DESIGNS:
        cells = defaultdict(dict)
        for row in rows:
            if row["design"] == label and row["protocol"] == "unseen":
                cells[row["catalogue"], row["sample"]][row["model"]] = row
        cells = {key: each for key, each in cells.items() if len(each) > 1}
        if cells:
            right = {
                name: np.mean([
                    max(each.values(), key=lambda row: row["values"][name]) is max(each.values(), key=lambda row: row["truth"])
                    for each in cells.values()
                ])
                for name in ("LogSpline", "MLE")
            }  # fmt: skip
            lines.append(f"| {label} | {100 * right['LogSpline']:.1f} % | {100 * right['MLE']:.1f} % |")
    return lines


def several_part(rows: list[dict]) -> tuple[list[str], dict]:
    """Tables of several targets per user."""
    lines = ["", "## Several targets per user", "", "20 % of each user's items held out, candidates `unseen`.", "", "| negatives | metric | error | median | coverage | interval score, mean (median) | warned |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    numbers = {}
    for label in dict.fromkeys(row["design"] for row in rows):
        for metric in (*SEVERAL_METRICS, "all four"):
            here = [row for row in rows if row["design"] == label and metric in (row["metric"], "all four")]
            error, held, score = (
                np.array([row[key] for row in here], dtype=float) for key in ("error", "held", "score")
            )
            numbers[f"{label} {metric}"] = {"error": 100 * error.mean(), "coverage": held.mean(), "score": score.mean()}
            lines.append(f"| {label} | {metric} | {100 * error.mean():.1f} % | {100 * np.median(error):.1f} % | {100 * held.mean():.1f} % | {score.mean():.2f} ({np.median(score):.2f}) | {100 * np.mean([row['warned'] for row in here]):.1f} % |")  # fmt: skip
        last = [row for row in rows if row["design"] == label and fold_of(row["catalogue"]) == FOLDS]
        if last:
            lines.append(f"| {label} | all four, families kept out of all development | {100 * np.mean([row['error'] for row in last]):.1f} % | {100 * np.median([row['error'] for row in last]):.1f} % | {100 * np.mean([row['held'] for row in last]):.1f} % | {np.mean([row['score'] for row in last]):.2f} | {100 * np.mean([row['warned'] for row in last]):.1f} % |")  # fmt: skip
    worst = by_file(rows, lambda row: row["error"])
    lines += ["", "Largest errors: " + ", ".join(f"{file} {100 * worst[file]:.0f} %" for file in sorted(worst, key=lambda file: -worst[file])[:5]) + "."]  # fmt: skip
    return lines, numbers


# -------------------------------------------------------------------------------------------------- Adaptive's defaults

#: (negatives, max_negatives, stop_at) of adaptive designs to choose the defaults from
CHOICES = (
    *((start, ceiling, 1) for start in (24, 49, 99) for ceiling in (0.1, 0.25, 0.5)),
    *((49, ceiling, stop) for stop in (2, 4) for ceiling in (0.1, 0.25)),
    (99, 3199, 1),
)


def choice(task: tuple[str, tuple]) -> tuple[float, float]:
    """NDCG's error in percent and the share of the catalogue scored, for one file and adaptive setting."""
    file, setting = task
    ranks, pool = truth_of(file, "unseen")
    true = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, pool, "full")).curve("ndcg", KS)
    counts = draw(ranks, pool, fr.Adaptive(*setting), stream(14, file, 0))
    error = relative_error(logspline(split_name(file)[0], "unseen").fit(counts).curve("ndcg", KS), true)
    return 100 * error, 100 * counts.items_scored / pool.sum()


def choices_part(files: list[str], pool: ProcessPoolExecutor) -> list[str]:
    """Error, cost and error · √cost (what sampling error keeps constant) of the settings."""
    found = pool.map(choice, [(file, setting) for setting in CHOICES for file in files], chunksize=8)
    by_setting = np.array(list(found)).reshape(len(CHOICES), len(files), 2).mean(axis=1)
    default = fr.Adaptive()
    lines = [
        "", "## Adaptive's defaults", "",
        f"LogSpline's NDCG error and cost by the settings of `Adaptive`, on {len(files)} files; error · √scored is what plain sampling keeps "
        "constant, so that less of it is better at any budget. The default is in bold. A higher ceiling can earn more per item, and "
        "asks for more of them: the default stays cheap, and a wanted precision is what `fr.evaluate` is for.",
        "", "| start | ceiling | stop_at | NDCG error % | scored, % of the catalogue | error · √scored |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for (start, ceiling, stop), (error, share) in zip(CHOICES, by_setting.tolist(), strict=True):
        top = f"{ceiling} N" if isinstance(ceiling, float) else f"{ceiling:,}"
        cells = [str(start), top, str(stop), f"{error:.2f}", f"{share:.2f}", f"{error * np.sqrt(share):.2f}"]
        usual = (start, ceiling, stop) == (default.negatives, default.max_negatives, default.stop_at)
        lines.append("| " + " | ".join(f"**{cell}**" if usual else cell for cell in cells) + " |")
    return lines


# -------------------------------------------------------------------------------------------------- the run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one sample, every third file")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--write", type=Path, help="folder for accuracy.md, accuracy.json, accuracy.svg")
    parser.add_argument("--part", choices=("unseen", "all", "several", "choices"), help="only this part")
    parser.add_argument("--seen", action="store_true", help="judge the shipped prior, which has seen every file")
    options = parser.parse_args()
    if options.seen and options.write:
        parser.error("--seen is for comparison: the page shows left-out families.")
    if options.seen:
        os.environ[SEEN] = "yes"
    samples = 1 if options.quick else options.samples
    every = 3 if options.quick else 1
    judged = [path.stem for path in rank_files() if split_name(path)[1] in MODELS and int(np.load(path)["N"]) > LEAST]
    judged = judged[::every]
    began = time.time()
    parts = [options.part] if options.part else ["unseen", "all", "several", "choices"]
    lines, document = [], {"samples": samples, "files": len(judged)}
    rows: list[dict] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for protocol in ("unseen", "all"):
            if protocol in parts:
                labels = DESIGNS if protocol == "unseen" else ("99", "499", "adaptive 100-3200")
                tasks = [(file, protocol, label, samples) for label in labels for file in judged]
                here = [row for each in pool.map(one_target, tasks, chunksize=4) for row in each]
                table, document[protocol] = one_target_part(here, protocol)
                lines += table + (others_part(here) if protocol == "unseen" else [])
                rows += here
        ordered = [path.stem for path in rank_files() if split_name(path)[1] in SEQUENCES][::every]
        if "unseen" in parts and ordered:
            tasks = [(file, "unseen", label, samples) for label in DESIGNS for file in ordered]
            here = [row for each in pool.map(one_target, tasks, chunksize=4) for row in each]
            table, document["sequences"] = sequences_part(here)
            lines += table
        if "several" in parts:
            files = rank_files("FULLRANK_RANKS_SEVERAL")[::every]
            tasks = [(str(path), negatives, max(samples // 2, 1)) for negatives in (99, 499) for path in files]
            here = [row for each in pool.map(several, tasks, chunksize=4) for row in each]
            table, document["several"] = several_part(here)
            lines += table
        if "unseen" in parts:
            lines += winners_part(rows)
        if "choices" in parts:
            lines += choices_part(judged[:: max(len(judged) // 40, 1)], pool)
    head = [
        "# How accurate is it?", "",
        f"From the true ranks of {len(judged)} recommenders ({models_in_words(MODELS)}) on {len({split_name(file)[0] for file in judged})} catalogues of more than "
        f"{LEAST} items; {samples} sample{'s' * (samples != 1)} of each, models sampled independently. LogSpline's prior has seen no catalogue of the family under "
        f"test (eleven folds of whole families; the settings of the prior were chosen on ten of them, the last is reported on its own). "
        "*Error*: |estimate − truth| / truth of NDCG@K averaged over K = 1..50 (li23's measure). *Coverage*: how often the 95 % interval of NDCG@10 holds the "
        "truth, for these cases (for the population see `benchmarks/population.py`). *Interval score*: (width + 40 × distance by which the truth is missed) / truth. "
        "*Warned*: share of fits that said their ranks look like no recommender seen before. "
        f"`python benchmarks/accuracy.py --samples {samples}` printed this in {(time.time() - began) / 60:.0f} minutes ({platform.machine()}, {os.cpu_count()} cores).",
        "", "![NDCG error by design, LogSpline beside MLE](accuracy.svg)",
    ]  # fmt: skip
    text = "\n".join(head + lines) + "\n"
    print(text)
    if options.write:
        (options.write / "accuracy.md").write_text(text)
        (options.write / "accuracy.json").write_text(json.dumps(document, indent=1))
        chart(document, options.write / "accuracy.svg")


def chart(document: dict, path: Path) -> None:
    """NDCG error by design, LogSpline and MLE, mean and median over files."""
    import altair as alt

    designs = {label: row for label, row in document["unseen"].items() if label in DESIGNS}
    titles = {
        label: f"{label} negatives" if label.isdigit() else f"{label}, {row['items']:,.0f} items on the mean"
        for label, row in designs.items()
    }
    rows = [
        {"design": titles[label], "error": row[key], "estimator": name, "over files": over}
        for label, row in designs.items()
        for name, over, key in (("LogSpline", "mean", "error"), ("LogSpline", "median", "median"), ("MLE", "mean", "mle"), ("MLE", "median", "mle_median"))
    ]  # fmt: skip
    y = alt.Y("design:N", sort=list(titles.values()), title=None, axis=alt.Axis(labelLimit=300, grid=False))
    x = alt.X("error:Q", scale=alt.Scale(domainMin=0), title="relative error of NDCG@1..50, % (less is better)")
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    color = alt.Color("estimator:N", title=None, scale=alt.Scale(range=["#3b6ea5", "#d9822b"]))
    span = base.mark_rule(strokeWidth=2, opacity=0.5).encode(x="min(error):Q", x2="max(error):Q", color=color)
    points = base.mark_point(size=110, filled=True, opacity=1).encode(
        x=x, color=color, shape=alt.Shape("over files:N", scale=alt.Scale(range=["circle", "diamond"]))
    )
    names = base.mark_text(dy=-13, fontSize=11).encode(x=x, color=color, text=alt.Text("error:Q", format=".1f"))
    split = alt.YOffset("estimator:N")
    layers = (each.encode(yOffset=split) for each in (span, points, names))
    (alt.layer(*layers).properties(width=560, height=260, background="white")).save(str(path))


if __name__ == "__main__":
    main()
