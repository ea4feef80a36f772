"""How accurate is it? Errors, coverage and winners from true ranks, leaving out the data set under test.

Every number comes from the true ranks of real recommenders (FULLRANK_RANKS): samples are drawn from them by the design's
law, corrected, and compared with the truth. LogSpline's prior is the one fitted without the data set under test
(``benchmarks/priors/without-NAME.json``). Models are sampled independently of one another.

    python benchmarks/accuracy.py                 # everything, a quarter of an hour on 2 cores
    python benchmarks/accuracy.py --quick         # a glance
    python benchmarks/accuracy.py --write docs    # also docs/accuracy.md, docs/accuracy.json and docs/accuracy.svg
    python benchmarks/accuracy.py --only all      # the errors with these candidates alone
    python benchmarks/accuracy.py --choices       # error and cost of Adaptive's settings, behind its defaults
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from zlib import crc32

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process per core does better than threads within one

import numpy as np

import fullrank as fr
from fullrank.estimators.logspline import HyperPrior, LogSpline, shipped

KS = range(1, 51)
METRICS = ("recall", "ndcg", "ap")
PAPER = fr.Adaptive(99, 3199, stop_at=1)
DESIGNS = {
    "99": fr.Sample(99),
    "499": fr.Sample(499),
    "999": fr.Sample(999),
    "adaptive 50-800": fr.Adaptive(49, 799, stop_at=1),
    "adaptive 100-3200": PAPER,
    "Adaptive()": fr.Adaptive(),
}
FIXED = {
    "MLE": fr.MLE(),
    "MN_MLE": fr.Multinomial(prior=fr.MLE()),
    "BV 0.01": fr.BiasVariance(0.01),
    "MES": fr.MaxEntropy(),
}
ADAPTIVE = {"MLE": fr.MLE()}
#: So many samples for these: enough to see how far behind they are.
SLOW, FEWER = ("MN_MLE", "MES"), 8
#: Where one sample differs most from another, the others get this many times the samples.
NOISY, TIMES = (("unseen", "99"), ("all", "adaptive 100-3200")), 3
AT = (1, 10, 50)
PRIORS = Path(__file__).parent / "priors"
#: Pools are binned by ⌊log2 N · 2^level⌋: 1 % wide.
POOL_LEVEL = 6


def folder() -> Path:
    """Where the rank files are."""
    path = os.environ.get("FULLRANK_RANKS")
    if not path or not Path(path).is_dir():
        sys.exit("accuracy.py needs true ranks: set FULLRANK_RANKS to a folder of DATASET__MODEL.npz files.")
    return Path(path)


def truth_of(file: str, protocol: str) -> tuple[np.ndarray, np.ndarray]:
    """True ranks and numbers of candidates."""
    with np.load(folder() / f"{file}.npz") as data:
        if protocol == "unseen":
            return data["R_masked"].astype(np.int64), data["N_masked"].astype(np.int64)
        ranks = data["R_unmasked"].astype(np.int64)
        return ranks, np.full(len(ranks), int(data["N"]))


def stream(purpose: int, file: str, sample: int) -> np.random.Generator:
    """Random numbers of one sample of one file, independent of all others."""
    return np.random.default_rng([sample, purpose, crc32(file.encode())])


def draw(
    ranks: np.ndarray, pool: np.ndarray, design: fr.Design, rng: np.random.Generator, users: bool = False
) -> fr.RankCounts:
    """One sample of every case, by the design's own stages, as counts.

    ``users``: keep users apart, for intervals that resample them. The counts are those of ``RankCounts.from_ranks`` but for
    AUC, which nobody asks for here and which takes most of its time.
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
    keys = np.stack(
        [block, size, 0 * one, size, drawn, hits, one, one], axis=1
    )  # nothing compared: the rest is the pool
    weight = cases.astype(np.float64)
    return fr.RankCounts(design, POOL_LEVEL, keys, cases, cases * drawn, weight, np.bincount(which, pool), none, none)


def logspline(data_set: str, candidates: str) -> LogSpline:
    """LogSpline under the prior that has not seen the data set."""
    path = PRIORS / f"without-{data_set}.json"
    return LogSpline(HyperPrior.from_json(path.read_text(), candidates) if path.exists() else shipped(candidates))


def curves(estimate) -> np.ndarray:
    """Recall, NDCG and AP at K = 1..50."""
    return np.array([estimate.curve(metric, KS) for metric in METRICS])


def relative_error(estimated: np.ndarray, true: np.ndarray) -> np.ndarray:
    """|est − true|/true averaged over K = 1..50, skipping K where the truth is 0 (li23's measure)."""
    return np.array(
        [
            np.mean(np.abs(e - t)[t > 0] / t[t > 0]) if (t > 0).any() else np.nan
            for e, t in zip(estimated, true, strict=True)
        ]
    )


def errors(task: tuple[str, str, str, int]) -> list[tuple]:
    """For one file and design: error and metrics of every estimator, and items scored, for every sample."""
    file, protocol, label, samples = task
    ranks, pool = truth_of(file, protocol)
    design = DESIGNS[label]
    true = curves(fr.MLE().fit(fr.RankCounts.from_ranks(ranks, pool, "full")))
    estimators = {
        "LogSpline": logspline(file.split("__")[0], protocol),
        **(ADAPTIVE if design.grows else FIXED),
    }
    most = {name: min(samples, FEWER) if name in SLOW else samples for name in estimators}
    if (protocol, label) in NOISY:
        most |= {name: TIMES * samples for name in estimators if name not in SLOW}
    out = []
    for sample in range(max(most.values())):
        counts = draw(ranks, pool, design, stream(11, file, sample))
        for name, estimator in estimators.items():
            if sample >= most[name]:
                continue
            found = curves(estimator.fit(counts))
            out.append((file, protocol, label, name, sample, relative_error(found, true), found[:, [0, 4, 9, 19]], true[:, [0, 4, 9, 19]], counts.items_scored / len(counts)))  # fmt: skip
    return out


def coverage(task: tuple[str, str, str, str, int]) -> list[tuple]:
    """For one file and design: how often 95 % intervals hold the truth, and how wide they are.

    The truth is the file; for the ``population`` cases are drawn from it anew, with replacement, in every sample.
    """
    file, protocol, label, name, samples = task
    ranks, pool = truth_of(file, protocol)
    estimator = logspline(file.split("__")[0], protocol) if name == "LogSpline" else FIXED[name]
    asked = [fr.parse_metric(metric) @ k for metric in METRICS for k in AT]
    full = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, pool, "full"))
    true = np.array([full.expect(metric) for metric in asked])
    out = []
    for sample in range(samples):
        rng = stream(12, file, sample)
        users = name != "LogSpline"
        fits = {"cases": estimator.fit(draw(ranks, pool, DESIGNS[label], rng, users))}
        again = rng.integers(len(ranks), size=len(ranks))
        fits["population"] = estimator.fit(draw(ranks[again], pool[again], DESIGNS[label], rng, users))
        for target, fit in fits.items():
            low, high = np.array([fit.interval(metric, target=target) for metric in asked]).T
            value = np.array([fit.expect(metric) for metric in asked])
            # how far the interval would have to be scaled to just reach the truth, per metric
            reach = np.where(
                true >= value,
                (true - value) / np.maximum(high - value, 1e-300),
                (value - true) / np.maximum(value - low, 1e-300),
            )
            out.append((file, protocol, label, name, target, reach, (high - low) / np.maximum(true, 1e-300)))
    return out


def resampled(cover: int) -> int:
    """Samples for the intervals of estimators that are refitted to a hundred resampled counts for each."""
    return max(cover // 80, 2)


def bound_coverage(task: tuple[str, str, int]) -> tuple[str, int, int]:
    """How often the assumption-free bounds hold the truth."""
    file, label, samples = task
    ranks, pool = truth_of(file, "unseen")
    full = fr.MLE().fit(fr.RankCounts.from_ranks(ranks, pool, "full"))
    held = asked = 0
    for sample in range(samples):
        counts = draw(ranks, pool, DESIGNS[label], stream(13, file, sample))
        for metric in ("recall@10", "ndcg@50"):
            low, high = fr.bounds(counts, metric)
            held += low - 1e-9 <= full.expect(metric) <= high + 1e-9
            asked += 1
    return file, held, asked


#: (negatives, max_negatives, stop_at) of adaptive designs to choose the defaults from
CHOICES = (
    *((start, ceiling, 1) for start in (24, 49, 99) for ceiling in (0.1, 0.25, 0.5)),
    *((49, ceiling, stop) for stop in (2, 4) for ceiling in (0.1, 0.25)),
    (99, 3199, 1),
)
CHOICE_SAMPLES = 3


def choice(task: tuple[str, tuple, int]) -> tuple[float, float]:
    """NDCG's error in percent and the share of the catalogue scored, for one file and adaptive setting."""
    file, setting, samples = task
    ranks, pool = truth_of(file, "unseen")
    true = curves(fr.MLE().fit(fr.RankCounts.from_ranks(ranks, pool, "full")))
    rows = []
    for sample in range(samples):
        counts = draw(ranks, pool, fr.Adaptive(*setting), stream(14, file, sample))
        error = relative_error(curves(logspline(file.split("__")[0], "unseen").fit(counts)), true)[1]
        rows.append((100 * error, counts.items_scored / pool.sum()))
    return tuple(np.mean(rows, axis=0))


def choices(files: list[str], samples: int, pool: ProcessPoolExecutor) -> list[dict]:
    """Error, cost and error · √cost (what sampling error keeps constant) of the settings."""
    found = pool.map(choice, [(file, setting, samples) for setting in CHOICES for file in files])
    by_setting = np.array(list(found)).reshape(len(CHOICES), len(files), 2).mean(axis=1)
    return [
        {"start": start, "ceiling": ceiling, "stop_at": stop, "ndcg": error, "scored": 100 * share}
        for (start, ceiling, stop), (error, share) in zip(CHOICES, by_setting.tolist(), strict=True)
    ]


def choices_table(rows: list[dict], samples: int) -> list[str]:
    """The scan as Markdown."""
    default = fr.Adaptive()
    lines = [
        f"LogSpline's NDCG error and cost by the settings of `Adaptive` ({samples} samples per file); error · √scored is what plain "
        "sampling keeps constant, so that less of it is better at any budget. The default is in bold. "
        "A higher ceiling can earn more per item, and asks for more of them: the default stays cheap, and a wanted precision "
        "is what `fr.evaluate` is for.",
        "",
        "| start | ceiling | stop_at | NDCG error % | scored, % of the catalogue | error · √scored |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        top = f"{row['ceiling']} N" if isinstance(row["ceiling"], float) else f"{row['ceiling']:,}"
        cells = [str(row["start"]), top, str(row["stop_at"]), f"{row['ndcg']:.2f}", f"{row['scored']:.2f}"]
        cells.append(f"{row['ndcg'] * np.sqrt(row['scored']):.2f}")
        usual = (row["start"], row["ceiling"], row["stop_at"]) == (
            default.negatives,
            default.max_negatives,
            default.stop_at,
        )
        lines.append("| " + " | ".join(f"**{cell}**" if usual else cell for cell in cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few samples")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--coverage", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--write", type=Path, help="folder for accuracy.md, accuracy.json, accuracy.svg")
    parser.add_argument("--choices", action="store_true", help="only error and cost of Adaptive's settings")
    parser.add_argument("--only", choices=("unseen", "all"), help="only the table of errors with these candidates")
    options = parser.parse_args()
    samples, cover = (3, 20) if options.quick else (options.samples, options.coverage)
    files = sorted(path.stem for path in folder().glob("*__*.npz"))
    judged = [file for file in files if not file.startswith("ml-100k")]
    began = time.time()
    tasks = [(file, "unseen", label, samples) for file in judged for label in DESIGNS]
    tasks += [(file, "all", label, samples) for file in judged for label in ("99", "499", "adaptive 100-3200")]
    with ProcessPoolExecutor(options.jobs) as pool:
        if options.only:
            some = [task for task in tasks if task[1] == options.only]
            table, numbers = error_table([row for rows in pool.map(errors, some) for row in rows], options.only)
            print("\n".join(table))
            for row in numbers:
                print(
                    f"{row['design']}, {row['estimator']}: median over files ÷ MLE's {row['median_to_mle']:.3f}, "
                    f"median over files of error ÷ MLE's {row['median_of_ratios']:.3f}"
                )
            return
        scan = choices(judged, min(samples, CHOICE_SAMPLES), pool)
        if options.choices:
            print("\n".join(choices_table(scan, min(samples, CHOICE_SAMPLES))))
            return
        found = [row for rows in pool.map(errors, tasks) for row in rows]
        spans = [
            (file, "unseen", label, "LogSpline", cover) for file in judged for label in ("99", "adaptive 100-3200")
        ]
        spans += [(file, "unseen", "99", name, resampled(cover)) for file in judged for name in ("MLE", "BV 0.01")]
        covered = [row for rows in pool.map(coverage, spans) for row in rows]
        held = list(pool.map(bound_coverage, [(file, "99", 2) for file in judged]))
    spent = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    text, document = summary(found, covered, held, scan, samples, cover, (time.time() - began, spent))
    print(text)
    if options.write:
        (options.write / "accuracy.md").write_text(text)
        (options.write / "accuracy.json").write_text(json.dumps(document, indent=1))
        chart(document, options.write / "accuracy.svg")


def summary(found, covered, held, scan, samples, cover, seconds) -> tuple[str, dict]:
    """The tables, as Markdown and as numbers."""
    lines = [
        "# How accurate is it?",
        "",
        "Relative error |estimate − truth| / truth, averaged over K = 1..50 (li23's measure), in percent, from the true ranks of "
        f"{len({row[0] for row in found})} recommenders on {len({row[0].split('__')[0] for row in found})} data sets; {samples} samples "
        f"each ({min(samples, FEWER)} for {', '.join(SLOW)}; {TIMES * samples} for the others where samples differ most: 99 negatives with `unseen`, adaptive with `all`), models sampled independently. LogSpline's prior is fitted without the data set under test (for ml-1m it knows ml-100k, the smaller MovieLens). "
        f"`python benchmarks/accuracy.py --samples {samples} --coverage {cover}` printed this in {seconds[0] / 60:.0f} minutes, of {seconds[1] / 60:.0f} minutes of processor time ({platform.machine()}, {os.cpu_count()} cores).",
        "",
        "![NDCG error against items scored, by estimator](accuracy.svg)",
    ]
    document: dict = {"errors": [], "coverage": [], "winners": [], "samples": samples}
    for protocol in ("unseen", "all"):
        table, rows = error_table(found, protocol)
        lines += ["", f"## Candidates `{protocol}`", "", *table]
        document["errors"] += rows
    cell = {(row["design"], row["estimator"]): row for row in document["errors"] if row["protocol"] == "unseen"}
    small, paper = cell["adaptive 50-800", "LogSpline"], cell["adaptive 100-3200", "MLE"]
    lines += ["", f"On a smaller adaptive sample (50 to 800) LogSpline scores {small['items']:,.0f} items per case for an NDCG error of {small['ndcg']:.1f} %; adaptive MLE needs {paper['items']:,.0f} items (100 to 3200) for {paper['ndcg']:.1f} %: {small['items'] / paper['items']:.2f} of the items."]  # fmt: skip
    lines += ["", "## Intervals", "", f"95 % intervals for Recall, NDCG and AP at K = 1, 10, 50; {cover} samples per file for LogSpline, {resampled(cover)} for the others, which resample. *Excess*: mean width over the width that would just cover 95 % on the mean, all intervals scaled by one factor.", "", "| negatives | estimator | target | coverage | lowest file | mean relative width | excess |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    groups = defaultdict(list)
    for file, _, label, name, target, reach, width in covered:
        groups[label, name, target].append((file, reach, width))
    for (label, name, target), rows in groups.items():
        reach = np.array([row[1] for row in rows])
        width = float(np.mean([row[2] for row in rows]))
        per_file = {
            file: float(np.mean([row[1] <= 1 for row in rows if row[0] == file]))
            for file in sorted({row[0] for row in rows})
        }
        lowest = min(per_file, key=lambda file: per_file[file])
        excess = 1 / max(float(np.quantile(reach, 0.95)), 1e-9)
        lines.append(
            f"| {label} | {name} | {target} | {100 * np.mean(reach <= 1):.1f} % | {100 * per_file[lowest]:.0f} % ({lowest}) | {width:.2f} | {excess:.2f} |"
        )
        document["coverage"].append({"design": label, "estimator": name, "target": target, "coverage": float(np.mean(reach <= 1)), "lowest": per_file[lowest], "lowest_file": lowest, "width": width, "excess": excess})  # fmt: skip
    total, asked = sum(row[1] for row in held), sum(row[2] for row in held)
    lines += ["", f"The assumption-free bounds (`fr.bounds`, 99 negatives) held the truth in {total} of {asked} cases."]
    lines += ["", "## Winners", "", "How often the best model of a data set is found (percent; mean over data sets, metrics, K = 1, 5, 10, 20).", "", "| negatives | " + " | ".join(("BV 0.01", "MLE", "MN_MLE", "LogSpline")) + " |", "|---|---|---|---|---|"]  # fmt: skip
    for label in DESIGNS:
        cells = []
        for name in ("BV 0.01", "MLE", "MN_MLE", "LogSpline"):
            right = winners([row for row in found if row[1:4] == ("unseen", label, name)])
            cells.append("-" if right is None else f"{100 * right:.1f}")
            if right is not None:
                document["winners"].append({"design": label, "estimator": name, "right": right})
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += ["", "## Adaptive's defaults", "", *choices_table(scan, min(samples, CHOICE_SAMPLES))]
    document["choices"] = scan
    return "\n".join(lines) + "\n", document


def error_table(found, protocol: str) -> tuple[list[str], list[dict]]:
    """Errors by design and estimator, as a table and as numbers."""
    lines = ["| negatives | estimator | items scored | Recall | NDCG | AP | NDCG median | NDCG ÷ MLE | worst file ÷ MLE (NDCG) |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    numbers = []
    by = defaultdict(list)
    for file, candidates, label, name, _, error, *_, cost in found:
        by[candidates, label, name, file].append((error, cost))
    for label in DESIGNS:
        names = [
            name
            for name in ("Naive", "BV 0.01", "MES", "MLE", "MN_MLE", "LogSpline")
            if any(key[:3] == (protocol, label, name) for key in by)
        ]
        means = {
            name: {
                key[3]: np.mean([error for error, _ in rows], axis=0)
                for key, rows in by.items()
                if key[:3] == (protocol, label, name)
            }
            for name in names
        }
        for name in names:
            table = np.array(list(means[name].values()))
            mle = np.array([means["MLE"][file] for file in means[name]])
            cost = np.mean([cost for key, rows in by.items() if key[:3] == (protocol, label, name) for _, cost in rows])
            recall, ndcg, ap = 100 * np.nanmean(table, axis=0)
            ratio, worst = np.nanmean(table[:, 1]) / np.nanmean(mle[:, 1]), np.nanmax(table[:, 1] / mle[:, 1])
            median = 100 * np.nanmedian(table[:, 1])
            at = list(means[name])[int(np.nanargmax(table[:, 1] / mle[:, 1]))]
            lines.append(
                f"| {label} | {name} | {cost:,.0f} | {recall:.1f} | {ndcg:.1f} | {ap:.1f} | {median:.1f} | {ratio:.2f} | {worst:.2f} ({at}) |"
            )
            numbers.append({"protocol": protocol, "design": label, "estimator": name, "items": cost, "recall": recall, "ndcg": ndcg, "ap": ap, "ndcg_median": median, "recall_to_mle": float(np.nanmean(table[:, 0]) / np.nanmean(mle[:, 0])), "ndcg_to_mle": float(ratio), "median_to_mle": float(np.nanmedian(table[:, 1]) / np.nanmedian(mle[:, 1])), "median_of_ratios": float(np.nanmedian(table[:, 1] / mle[:, 1])), "worst": float(worst), "worst_file": at})  # fmt: skip
    return lines, numbers


def winners(rows) -> float | None:
    """Share of (data set, sample, metric, K) whose best model is found."""
    if not rows:
        return None
    cells = defaultdict(dict)
    for file, *_, sample, _, found, true, _ in rows:
        data_set, model = file.split("__")
        cells[data_set, sample][model] = (found, true)
    by_set = defaultdict(list)
    for (data_set, _), models in cells.items():
        found = np.array([pair[0] for pair in models.values()])
        true = np.array([pair[1] for pair in models.values()])
        by_set[data_set].append(np.mean(found.argmax(0) == true.argmax(0)))
    return float(np.mean([np.mean(each) for each in by_set.values()]))


def chart(document: dict, path: Path) -> None:
    """NDCG error against items scored: one colour per estimator, fixed and adaptive samples joined apart."""
    import altair as alt

    rows = [
        {**row, "sample": "adaptive" if "dapt" in row["design"] else "fixed"}
        for row in document["errors"]
        if row["protocol"] == "unseen"
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "items:Q",
            scale=alt.Scale(type="log", domain=[80, 1250]),
            axis=alt.Axis(values=[100, 200, 500, 1000], grid=False),
            title="items scored per case",
        ),
        y=alt.Y(
            "ndcg:Q",
            scale=alt.Scale(type="log", domain=[1, 60]),
            axis=alt.Axis(values=[1, 2, 5, 10, 20, 50]),
            title="relative error of NDCG@1..50, %",
        ),
        color=alt.Color("estimator:N", title=None),
    )
    dashes = alt.Legend(title="negatives", symbolType="stroke", symbolSize=300)
    lines = base.mark_line().encode(strokeDash=alt.StrokeDash("sample:N", sort=["fixed", "adaptive"], legend=dashes))
    points = base.mark_point(size=80, filled=True, opacity=1).encode(shape=alt.Shape("estimator:N", legend=None))
    (lines + points).properties(width=560, height=320, background="white").save(str(path))


if __name__ == "__main__":
    main()
