"""The kinds of figure: what each shows, as panels of lines or bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import fullrank as fr

from .catalogue import Experiment
from .keeping import keep, kept, key_of
from .kinds import Bench, _curves, _hit_ratio, _mapping
from .ranks import Ranks
from .simulate import ESTIMATORS, answers, column, corrected, exact, sampled, value_code, values, weighted

__all__ = ["FIGURES", "Panel", "Series"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One named line (or set of bars)."""

    name: str
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Panel:
    """One chart: titles, scales, and its series."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    bars: bool = False
    #: whether the axis of y begins at 0; not so for a closer look
    from_zero: bool = True

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Panel:
        """Back from JSON."""
        return cls(**{**told, "series": tuple(Series(**each) for each in told["series"])})


def _series(name: str, x: ArrayLike, y: ArrayLike, most: int = 400) -> Series:
    """A line, thinned to what can be seen."""
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(xs) > most:
        places = np.unique(np.round(np.geomspace(1, len(xs), most)).astype(int)) - 1
        even = np.linspace(0, len(xs) - 1, most).astype(int)
        kept = np.unique(np.concatenate([places, even]))
        xs, ys = xs[kept], ys[kept]
    return Series(name, [float(f"{each:.6g}") for each in xs], [float(f"{each:.6g}") for each in ys])


# ------------------------------------------------------------------------------------------------ kr20


def metric_shapes(made: Experiment, bench: Bench) -> list[Panel]:
    """What each metric gives a rank (kr20 Figure 1)."""
    N = int(made.options["n_items"])
    panels = []
    for last in made.options["to"]:
        R = np.arange(1, last + 1)
        lines = [_series(name, R, fr.parse_metric(name).gain(R, N)) for name in made.metrics]
        panels.append(Panel(f"ranks 1 to {last:,}", "rank", "metric", tuple(lines)))
    return panels


def expected_by_size(made: Experiment, bench: Bench) -> list[Panel]:
    """The expected metric as the sample grows, uncorrected and, where estimators are named, corrected (kr20 Fig. 2, 6)."""
    sizes = [int(m) for m in made.options["sizes"]]
    panels = []
    for name in made.metrics:
        metric = fr.parse_metric(name)
        lines: dict[str, list[Series]] = {"uncorrected": [], **{word: [] for word in made.estimators}}
        for _, model, ranks in bench.each(made):
            N = round(ranks.n_items)
            R, share = _distribution(ranks, N)
            plain = [float(share @ fr.expected_naive(metric, R, N, fr.Sample(m, replace=False))) for m in sizes]
            lines["uncorrected"].append(_series(model, sizes, plain))
            for word in made.estimators:
                fine = [m for m in sizes if m <= made.options.get("largest_corrected", 10**9)]
                lines[word].append(_series(model, fine, [_expected(ranks, word, m)[column(metric)] for m in fine]))
                bench.tick(f"{word}, {model}")
        for word, found in lines.items():
            title = str(metric) if not made.estimators else f"{metric}, {word}"
            panels.append(Panel(title, "negatives", f"expected {metric}", tuple(found), log_x=True))
    return panels


def _distribution(ranks: Ranks, N: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Distinct ranks and their shares; where pools differ, the rank the same distance along a list of N."""
    scaled = 1 + np.round((ranks.ranks - 1) / np.maximum(ranks.pool - 1, 1) * (N - 1)).astype(np.int64)
    R, times = np.unique(np.where(ranks.pool == N, ranks.ranks, scaled), return_counts=True)
    return R, times / times.sum()


def _expected(ranks: Ranks, word: str, negatives: int) -> FloatArray:
    """The estimator's answer to the expected shares of outcomes: its expectation, as it is linear."""
    key = key_of("expected", ranks.key, ranks.code, word, negatives, value_code())
    if (found := kept("values", key)) is not None:
        return np.asarray(found["values"])
    law, N = fr.Sample(negatives), round(ranks.n_items)
    R, share = _distribution(ranks, N)
    drawn, hits = law.outcomes(N)
    mean = np.zeros(len(drawn))
    for first in range(0, len(R), 512):
        part = slice(first, first + 512)
        mean += share[part] @ fr.Sample(negatives, replace=False).law(R[part], N, drawn, hits)
    values = answers(ESTIMATORS[word].fit(weighted(drawn, hits, mean, N, law)))
    keep("values", key, values=values)
    return values


def expected_by_rank(made: Experiment, bench: Bench) -> list[Panel]:
    """What a sampled metric gives a true rank on average (kr20 Figure 3)."""
    N, last = int(made.options["n_items"]), int(made.options["to"])
    R = np.arange(1, last + 1)
    panels = []
    for name in made.metrics:
        metric = fr.parse_metric(name)
        lines = [
            _series(f"m = {m:,}", R, fr.expected_naive(metric, R, N, fr.Sample(int(m)))) for m in made.options["sizes"]
        ]
        panels.append(
            Panel(str(metric), "true rank", "expected metric", (_series("exact", R, metric.gain(R, N)), *lines))
        )
    return panels


def corrected_metric(made: Experiment, bench: Bench) -> list[Panel]:
    """M̂ by sampled rank, and its expectation by true rank (kr20 Figure 4)."""
    N, last = int(made.options["n_items"]), int(made.options["to"])
    design = fr.parse_design(made.design)
    drawn, hits = design.outcomes(N)
    metric = fr.parse_metric(made.metrics[0])
    R = np.arange(1, last + 1)
    law = design.law(R, N, drawn, hits)
    left, right = [], [_series("exact", R, metric.gain(R, N))]
    for word in made.estimators:
        M = corrected(word, design, N)[:, column(metric)]
        left.append(_series(word, hits + 1, M))
        right.append(_series(word, R, law @ M))
    return [
        Panel("on the sample", "sampled rank", f"corrected {metric}", tuple(left), log_x=True),
        Panel("in expectation", "true rank", f"expected {metric}", tuple(right), log_x=True),
    ]


def rank_histogram(made: Experiment, bench: Bench) -> list[Panel]:
    """How many targets stand at which ranks (kr20 Figure 5)."""
    panels = []
    for _, model, ranks in bench.each(made):
        width = int(made.options["width"])
        times = np.bincount((ranks.ranks - 1) // width)
        panels.append(Panel(model, f"rank, in buckets of {width}", "cases",
                            (_series(model, np.arange(len(times)) * width + 1, times),), bars=True))  # fmt: skip
    return panels


# ------------------------------------------------------------------------------------------------ li20


def hit_ratio_curves(made: Experiment, bench: Bench) -> list[Panel]:
    """HR@K of the full ranking and SHR@k of a sample, at the ranges named (li20 Figure 1)."""
    found = list(bench.each(made))
    panels = []
    for what, title in (("full", "full ranking, HR@K"), ("sample", "sample, SHR@k")):
        for first, last in made.options[what]:
            lines = []
            for _, model, ranks in found:
                ks = np.arange(first, last + 1)
                y = _hit_ratio(ranks, ks.astype(float)) if what == "full" else _shr(made, bench, ranks)[ks - 1]
                lines.append(_series(model, ks, y))
            name = f"{title}, {first} to {last:,}"
            x = "K" if what == "full" else "k"
            panels.append(Panel(name, x, "hit ratio", tuple(lines), from_zero=first == 1))
    return panels


def _shr(made: Experiment, bench: Bench, ranks: Ranks, design: str | None = None) -> FloatArray:
    design = design or made.design
    return np.asarray(_curves(sampled(ranks, design, bench.repeats, made.seed)).mean(0))


def curve_relationship(made: Experiment, bench: Bench) -> list[Panel]:
    """HR@K, SHR@k laid onto the full scale, P(R), the step of HR and the probability that makes SHR (li20 Figure 2)."""
    panels = []
    for data, model, ranks in bench.each(made):
        N, k = round(ranks.n_items), int(made.options["k"])
        shr = _shr(made, bench, ranks)
        f = fr.Mapping("beta", 0.5).f(np.arange(1, len(shr) + 1), len(shr) - 1, N)
        K = np.arange(1, N + 1)
        R, times = np.unique(ranks.ranks, return_counts=True)
        pmf = np.zeros(N)
        pmf[R - 1] = times / times.sum()
        smooth = np.convolve(pmf, np.ones(25) / 25, mode="same")
        p = fr.expected_naive(f"recall@{k}", K, N, made.design)
        lines = (
            _series("HR@K", K, _hit_ratio(ranks, K.astype(float))),
            _series("SHR@k at f(k)", f, shr),
            _series("W_R × 100, smoothed", K, 100 * smooth),
            _series(f"1[R ≤ f({k})]", K, (f[k - 1] >= K).astype(float)),
            _series(f"P(r ≤ {k} | R)", K, p),
        )
        panels.append(Panel(f"{model} on {data}", "rank", "", lines, log_x=True))
    return panels


def beta_fits(made: Experiment, bench: Bench) -> list[Panel]:
    """Beta(a, 1) densities beside the distribution of ranks (li20 Figure 3)."""
    panels = []
    for data, model, ranks in bench.each(made):
        N = round(ranks.n_items)
        edges = np.unique(np.round(np.geomspace(1, N + 1, 40)).astype(int))
        middle = np.sqrt(edges[:-1] * (edges[1:] - 1.0))
        share = np.histogram(ranks.ranks, edges)[0] / len(ranks.ranks)
        fitted = fr.Mapping("beta").fitted(sampled(ranks, made.design, 1, made.seed).counts()).a
        lines = [_series("empirical", middle, share)]
        for a in (*made.options["a"], fitted):
            cdf = (np.clip(edges - 1, 0, N) / N) ** float(a or 1)
            name = f"Beta({a:.2f}, 1)" + (", fitted" if a is fitted else "")
            lines.append(_series(name, middle, np.diff(cdf)))
        panels.append(Panel(f"{model} on {data}", "rank", "share of cases per cell (cells equal in log rank)",
                            tuple(lines), log_x=True))  # fmt: skip
    return panels


def mapping_differences(made: Experiment, bench: Bench) -> list[Panel]:
    """f(k; a) against f(k; a₀): relative or in ranks (li20 Figures 4, 5)."""
    N, n = int(made.options["n_items"]), int(made.options["n"])
    k = np.arange(1, n + 1)
    base = fr.Mapping("beta", float(made.options["base"])).f(k, n - 1, N)
    relative = bool(made.options["relative"])
    lines = []
    for a in made.options["a"]:
        gap = fr.Mapping("beta", float(a)).f(k, n - 1, N) - base
        lines.append(_series(f"a = {a:g}", k, gap / base if relative else gap))
    base_name = f"f(k; {made.options['base']:g})"
    y = f"[f(k; a) − {base_name}] / {base_name}" if relative else f"f(k; a) − {base_name}"
    return [Panel(made.title, "k", y, tuple(lines))]


def sampling_effect(made: Experiment, bench: Bench) -> list[Panel]:
    """Two rank distributions Beta(a, 1): a sampled k stands for an earlier rank of the better one (li20 Figure 6)."""
    N, n = int(made.options["n_items"]), int(made.options["n"])
    K = np.arange(1, int(made.options["to"]) + 1)
    lines = []
    for a in made.options["a"]:
        f = fr.Mapping("beta", float(a)).f(np.arange(1, n + 1), n - 1, N)
        near = f <= K[-1]
        lines.append(_series(f"HR@K, a = {a:g}", K, ((K - 1) / (N - 1)) ** a))
        lines.append(_series(f"SHR@k at f(k; {a:g})", f[near], (((f - 1) / (N - 1)) ** a)[near]))
    return [Panel(made.title, "K", "hit ratio", tuple(lines))]


def alignment(made: Experiment, bench: Bench) -> list[Panel]:
    """SHR@k laid onto the full scale by each mapping, and HR@f(k) onto the sample's (li20 Figure 7)."""
    panels = []
    for data, model, ranks in bench.each(made):
        N = ranks.n_items
        shr = _shr(made, bench, ranks)
        k = np.arange(1, len(shr) + 1)
        for last in made.options["full"]:
            K = np.arange(1, last + 1)
            lines = [_series("full ranking", K, _hit_ratio(ranks, K.astype(float)))]
            for word in made.estimators:
                f = _mapping(word).f(k, len(shr) - 1, N)
                lines.append(_series(word, f[f <= last], shr[f <= last]))
            panels.append(Panel(f"{model} on {data}, full scale to {last:,}", "K", "hit ratio", tuple(lines)))
        for last in made.options["sample"]:
            lines = [_series("sample", k[:last], shr[:last])]
            for word in made.estimators:
                f = _mapping(word).f(k[:last], len(shr) - 1, N)
                lines.append(_series(word, k[:last], _hit_ratio(ranks, f)))
            panels.append(Panel(f"{model} on {data}, sample scale to {last}", "k", "hit ratio", tuple(lines)))
    return panels


def sizes_compared(made: Experiment, bench: Bench) -> list[Panel]:
    """The full hit-ratio curve beside those of samples of several sizes (li20 Figure 8)."""
    panels = []
    for data, model, ranks in bench.each(made):
        N, last = ranks.n_items, int(made.options["to"])
        K = np.arange(1, last + 1)
        lines = [_series("full ranking", K, _hit_ratio(ranks, K.astype(float)))]
        for n in made.options["n"]:
            shr = _shr(made, bench, ranks, f"uni{n - 1}")
            f = fr.Mapping("beta", 1.0).f(np.arange(1, len(shr) + 1), len(shr) - 1, N)  # Beta@1, as in the paper
            lines.append(_series(f"n = {n}", f[f <= last], shr[f <= last]))
        panels.append(Panel(f"{model} on {data}{_stand_in(made, data)}", "K", "hit ratio", tuple(lines), log_x=True))
    return panels


def _stand_in(made: Experiment, data: str) -> str:
    return " (stand-in)" if data in made.options.get("stand_ins", []) else ""


# ------------------------------------------------------------------------------------------------ jin21, li23


def rank_distributions(made: Experiment, bench: Bench) -> list[Panel]:
    """P̂(R), mean over the repeats, and its running sum beside the truth (jin21 Figures 1-3)."""
    panels = []
    last = int(made.options["to"])
    K = np.arange(1, last + 1)
    for data, model, ranks in bench.each(made):
        truth = np.bincount(np.minimum(ranks.ranks, last + 1), minlength=last + 2)[1 : last + 1] / len(ranks.ranks)
        for design in made.options.get("designs", [made.design]):
            heads = {"empirical": truth}
            for word in made.estimators:
                bench.tick(word)
                heads[word] = values(ranks, word, design, bench.repeats, made.seed)[1][:last]
            title = f"{model} on {data}, {fr.parse_design(design)}"
            panels.append(Panel(f"P(R), {title}", "rank", "P(R)", tuple(_series(n, K, h) for n, h in heads.items())))
            if made.options.get("cdf", True):
                sums = tuple(_series(name, K, np.cumsum(head)) for name, head in heads.items())
                panels.append(Panel(f"Recall@K, {title}", "K", "Recall@K", sums))
    return panels


def blind_spot(made: Experiment, bench: Bench) -> list[Panel]:
    """The sampled ranks, and the relative error of an estimate by K (li23 Figure 1)."""
    panels = []
    for data, model, ranks in bench.each(made):
        label = f"{model} on {data}{_stand_in(made, data)}"
        samples = sampled(ranks, made.design, bench.repeats, made.seed)
        share = np.bincount(samples.hits, samples.seen.mean(0) / samples.cases)
        bars = (_series("share", np.arange(1, len(share) + 1)[:30], share[:30]),)
        panels.append(Panel(f"sampled rank, {label}", "sampled rank", "share of cases", bars, bars=True))
        truth = exact(ranks)
        lines = []
        for word in made.estimators:
            found = values(ranks, word, made.design, bench.repeats, made.seed)[0]
            for name in made.metrics:
                at = [column(f"{name}@{k}") for k in range(1, 51)]
                fine = truth[at] > 0
                error = np.abs(found[:, at] - truth[at])[:, fine].mean(0) / truth[at][fine]
                lines.append(_series(f"{word}, {name}", np.arange(1, 51)[fine], 100 * error))
        panels.append(Panel(f"relative error, {label}", "K", "percent", tuple(lines)))
    return panels


def sampling_cost(made: Experiment, bench: Bench) -> list[Panel]:
    """C_j, items sampled per case that is beaten at stage j (li23 eq. 13), by the stage's size over N (Figure 2)."""
    lines = []
    for data, model, ranks in bench.each(made):
        N = round(ranks.n_items)
        sizes, cost = stage_costs(ranks, int(made.options["n"]), N)
        lines.append(_series(f"{model} on {data}{_stand_in(made, data)}", 100 * sizes / N, cost))
    return (
        [Panel("C_j", "sample set size, percent of all items", "C_j", tuple(lines), log_x=True, log_y=True)]
        if lines
        else []
    )


def stage_costs(ranks: Ranks, n: int, n_items: int) -> tuple[FloatArray, FloatArray]:
    """(n_j, C_j) by eq. 13, expected: at size n_j a case of rank R is still unbeaten with probability (1 − θ)^(n_j − 1)."""
    sizes = [n]
    while 2 * sizes[-1] <= n_items:
        sizes.append(2 * sizes[-1])
    θ = (ranks.ranks - 1) / (ranks.pool - 1)
    left = np.array([((1 - θ) ** (size - 1)).sum() for size in sizes])
    before = np.append(len(θ), left[:-1])
    beaten = before - left
    more = np.diff(np.append(0, sizes))
    return np.array(sizes, dtype=np.float64), before * more / np.maximum(beaten, 1e-9)


#: The words of `kind` in a TOML that make figures.
FIGURES: dict[str, Callable[[Experiment, Bench], list[Panel]]] = {
    "metric shapes": metric_shapes,
    "expected by size": expected_by_size,
    "expected by rank": expected_by_rank,
    "corrected metric": corrected_metric,
    "rank histogram": rank_histogram,
    "hit ratio curves": hit_ratio_curves,
    "curve relationship": curve_relationship,
    "beta fits": beta_fits,
    "mapping differences": mapping_differences,
    "sampling effect": sampling_effect,
    "alignment": alignment,
    "sizes compared": sizes_compared,
    "rank distributions": rank_distributions,
    "blind spot": blind_spot,
    "sampling cost": sampling_cost,
}
