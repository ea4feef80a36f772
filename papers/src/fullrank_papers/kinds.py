"""The kinds of table: what each measures, as rows beside the published ones.

A kind is a plain function of (experiment, bench): the bench hands out true ranks and simulated values and collects what
was missing. A row is measured beside published: see :class:`Row`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

from .catalogue import Experiment, published
from .comparing import compare_all
from .keeping import keep, kept, key_of
from .ranks import NotHereError, Ranks, rank_code, recommender, split_of, true_ranks
from .simulate import (
    CODED,
    ESTIMATORS,
    Samples,
    answers,
    column,
    exact,
    expected,
    sampled,
    theory,
    values,
    weighted,
)

__all__ = ["TABLES", "Bench", "Row", "alignment_gaps"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One cell of a table: published and measured, in the unit of the paper; ``theory``: computed, not simulated."""

    data: str
    model: str
    metric: str
    estimator: str
    measured: float
    sd: float | None = None
    published: float | None = None
    published_sd: float | None = None
    theory: float | None = None
    theory_sd: float | None = None

    @property
    def difference(self) -> float | None:
        """Measured minus published, in published standard deviations where these are printed, else as it is."""
        if self.published is None:
            return None
        gap = self.measured - self.published
        return gap / self.published_sd if self.published_sd else gap

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "difference": self.difference}


@dataclass
class Bench:
    """What a kind works with: repeats, data on which to train neural models, what was missing, a tick per piece of work."""

    repeats: int
    neural: frozenset[str] = frozenset()
    progress: bool = True
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tick: Callable[[str], object] = lambda what: None

    def ranks(self, made: Experiment, data: str, model: str, candidates: str | None = None) -> Ranks | None:
        """True ranks, or None and a sentence in ``missing``."""
        self.tick(f"{model} on {data}")
        given = made.options.get("ranks")
        if given is not None:
            ranks = np.array(given[model], dtype=np.int64)
            return Ranks(ranks, np.full(len(ranks), made.options["n_items"], dtype=np.int64), f"{made.name}-{model}")
        try:
            return true_ranks(
                data, model, candidates or made.candidates, neural=data in self.neural, progress=self.progress
            )
        except NotHereError as error:
            if str(error) not in self.missing:
                self.missing.append(str(error))
            return None

    def each(self, made: Experiment) -> Iterator[tuple[str, str, Ranks]]:
        """(data set, model, ranks) of all that are here."""
        for data in made.data:
            for model in made.models:
                found = self.ranks(made, data, model)
                if found is not None:
                    yield data, model, found

    def values(self, made: Experiment, ranks: Ranks, estimator: str) -> tuple[FloatArray, FloatArray]:
        """(repeats × METRICS, sample sizes): adaptive estimators on the adaptive design, others on the fixed one."""
        self.tick(estimator)
        design = _design_of(made, estimator, ranks)
        found, _, size = values(ranks, estimator, design, self.repeats, made.seed, made.options.get("law"))
        return found, size


def _design_of(made: Experiment, estimator: str, ranks: Ranks) -> str:
    if estimator.startswith("adaptive"):
        return str(made.options["adaptive"]) + (CODED if estimator.endswith(CODED) else "")
    return made.design


def _row(
    made: Experiment, key: tuple[str, str, str, str], measured: float, sd: float | None = None, scale: float | None = None,
    computed: tuple[float, float] | None = None,
) -> Row:  # fmt: skip
    """A row, with what was published under the same key; a name after a comma says how we read the estimator."""
    scale = made.scale if scale is None else scale
    data, model, metric, estimator = key
    table = published(made.published)
    value, value_sd = table.get((data, model, metric, estimator.split(",")[0]), (None, None))
    theory, theory_sd = (None, None) if computed is None else (scale * computed[0], scale * computed[1])
    return Row(
        *key, float(scale * measured), None if sd is None else float(scale * sd), value, value_sd, theory, theory_sd
    )


# ------------------------------------------------------------------------------------------------ kinds


def metric_table(made: Experiment, bench: Bench) -> list[Row]:
    """Metrics: the exact one, then mean and standard deviation of each estimator over the repeats."""
    rows = []
    for data, model, ranks in bench.each(made):
        truth = exact(ranks)
        rows += [_row(made, (data, model, metric, "exact"), truth[column(metric)]) for metric in made.metrics]
        for estimator in made.estimators:
            found, _ = bench.values(made, ranks, estimator)
            mean, sd = found.mean(0), found.std(0, ddof=1)
            told = (
                theory(ranks, estimator, made.design)
                if made.options.get("theory") and estimator != "LogSpline"
                else None
            )
            for metric in made.metrics:
                at = column(metric)
                computed = None if told is None else (float(told[0][at]), float(told[1][at]))
                rows.append(_row(made, (data, model, metric, estimator), mean[at], sd[at], computed=computed))
    return _by_metric(made, rows)


def pair_table(made: Experiment, bench: Bench) -> list[Row]:
    """In how many of 100 repeats a pair of models is ordered as the exact metric orders it (kr20 Table 4)."""
    rows = []
    for data in made.data:
        ranks = {model: found for model in made.models if (found := bench.ranks(made, data, model)) is not None}
        truth = {model: exact(found) for model, found in ranks.items()}
        for estimator in made.estimators:
            seen = {model: _to_compare(bench.values(made, found, estimator)[0]) for model, found in ranks.items()}
            for first, second in made.options["pairs"]:
                if first not in seen or second not in seen:
                    continue
                for metric in made.metrics:
                    at = column(metric)
                    order = np.sign(truth[first][at] - truth[second][at])
                    right = np.mean(np.sign(seen[first][:, at] - seen[second][:, at]) == order)
                    rows.append(_row(made, (data, f"{first} or {second}", metric, estimator), 100 * right))
    return _by_metric(made, rows)


def winner_table(made: Experiment, bench: Bench) -> list[Row]:
    """In how many of 100 repeats the best model by the estimate is the best by the exact metric."""
    rows = []
    for data in made.data:
        ranks = {model: found for model in made.models if (found := bench.ranks(made, data, model)) is not None}
        if len(ranks) < 2:
            continue
        truth = np.stack([exact(found) for found in ranks.values()])
        if len(ranks) < len(made.models):
            bench.notes.append(
                f"{data}: winners among {', '.join(ranks)} only; the paper has {', '.join(made.models)}."
            )
        for estimator in made.estimators:
            seen = _to_compare(np.stack([bench.values(made, found, estimator)[0] for found in ranks.values()]))
            for metric in made.metrics:
                at = column(metric)
                right = np.mean(seen[:, :, at].argmax(0) == truth[:, at].argmax())
                rows.append(_row(made, (data, "winner", metric, estimator), 100 * right))
        best = {metric: list(ranks)[int(truth[:, column(metric)].argmax())] for metric in made.metrics}
        names = sorted(set(best.values()))
        told = f"is {names[0]} by every metric" if len(names) == 1 else "depends on the metric: " + ", ".join(names)
        bench.notes.append(f"{data}: the true best {told}.")
    return _by_metric(made, rows)


def _to_compare(values: FloatArray) -> FloatArray:
    """Values without their last digits: two samples that say the same are a tie, whatever the grids they were fitted on."""
    return np.asarray(np.round(values, 9))


def relative_error_table(made: Experiment, bench: Bench) -> list[Row]:
    """|estimate − truth| / truth averaged over K = 1..50 (K with a truth of 0 left out), in percent, over the repeats."""
    rows = []
    (name,) = made.metrics
    at = [column(f"{name}@{k}") for k in range(1, 51)]
    for data, model, ranks in bench.each(made):
        truth = exact(ranks)[at]
        fine = truth > 0
        for estimator in made.estimators:
            found, size = bench.values(made, ranks, estimator)
            error = (np.abs(found[:, at] - truth)[:, fine] / truth[fine]).mean(1)
            rows.append(_row(made, (data, model, f"{name}@1-50", estimator), error.mean(), error.std(ddof=1), 100.0))
            if estimator.startswith("adaptive_MLE"):
                key = (data, model, f"{name}@1-50", "adaptive size" + estimator.removeprefix("adaptive_MLE"))
                rows.append(_row(made, key, size.mean(), size.std(ddof=1), 1.0))
    return rows


def statistics_table(made: Experiment, bench: Bench) -> list[Row]:
    """Interactions (train and test), users, items, and the share of cells of the users × items matrix that are empty."""
    rows = []
    for data in made.data:
        try:
            split = split_of(data)
        except NotHereError as error:
            bench.missing.append(str(error))
            continue
        users, items = split.train.shape
        interactions = split.train.nnz + len(split.users)
        found = {"interactions": interactions, "users": users, "items": items,
                 "sparsity_pct": 100 * (1 - interactions / (users * items))}  # fmt: skip
        rows += [_row(made, (data, "", name, "exact"), value) for name, value in found.items()]
    return rows


def starts_table(made: Experiment, bench: Bench) -> list[Row]:
    """Exact metrics of one model from several random starts, by rounds of training: mean and deviation over the starts."""
    rows = []
    (data,), (model,) = made.data, made.models
    try:
        split = split_of(data)
    except NotHereError as error:
        bench.missing.append(str(error))
        return []
    for iterations in made.options["iterations"]:
        found = []
        for start in range(made.options["starts"]):
            bench.tick(f"{iterations} rounds, start {start}")
            unfitted = replace(recommender(data, model), iterations=iterations, rng=start)
            key = key_of("start", split.checksum, repr(unfitted), made.candidates, rank_code(model))
            truth = kept("values", key)
            if truth is None:
                cases = compare_all(unfitted.fit(split.train, progress=False), split)
                truth = {"exact": exact(Ranks(*cases.ranks(made.candidates), key, made.candidates))}
                keep("values", key, **truth)
            found.append(truth["exact"])
        name, each = f"{model}, {iterations} rounds", made.scale * np.array(found)
        for metric in made.metrics:
            told, _ = published(made.options["tables"][0])[data, model, metric, "exact"]
            values = each[:, column(metric)]
            low, high = values.min(), values.max()
            rows.append(Row(data, name, metric, "exact", float(values.mean()), float(values.std(ddof=1)), told))
            where = "inside" if low <= told <= high else "outside"
            bench.notes.append(f"{name}: {metric} from {low:.2f} to {high:.2f}; published {told:.2f}, {where}.")
    return rows


def beta_table(made: Experiment, bench: Bench) -> list[Row]:
    """Beta@P: the parameter a fitted to each repeat by eq. 19 (li20 Table 2)."""
    rows = []
    for data, model, ranks in bench.each(made):
        samples = sampled(ranks, made.design, bench.repeats, made.seed)
        found = np.array(
            [fr.Mapping("beta").fitted(samples.counts(repeat)).a for repeat in range(bench.repeats)], dtype=float
        )
        rows.append(_row(made, (data, model, "a", "beta@P"), found.mean(), found.std(ddof=1)))
    return rows


#: li20's three schemes: candidates and design; f keeps N = all items in each (SPEC §5).
SCHEMES = {"binom": ("all", ""), "hyper": ("all", " without replacement"), "actual": ("unseen", " without replacement")}


def mapped_table(made: Experiment, bench: Bench) -> list[Row]:
    """SHR@k, mean over the repeats, beside HR@f(k) of the full ranking (li20 Tables 3, 5, 6)."""
    rows = []
    for data in made.data:
        for model in made.models:
            for scheme in made.options["schemes"]:
                candidates, how = SCHEMES[scheme]
                found = bench.ranks(made, data, model, candidates)
                everything = bench.ranks(made, data, model, "all")
                if found is None or everything is None:
                    break
                N = everything.n_items
                shr = _sampled_recall(found, made.design + how, bench.repeats, made.seed)
                name = model if len(made.options["schemes"]) == 1 else f"{model}, {scheme}"
                for k in made.options["k"]:
                    rows.append(
                        _row(made, (data, name, f"k={k}", "SHR"), shr[:, k - 1].mean(), shr[:, k - 1].std(ddof=1))
                    )
                    for word in made.estimators:
                        f = _mapping(word).f(k, shr.shape[1] - 1, N)
                        rows.append(_row(made, (data, name, f"k={k}", word), float(np.mean(found.ranks <= f))))
    return rows


def alignment_gaps(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, tuple[float, float | None]]]:
    """By (data set, model with its scheme) and mapping: mean over k of |SHR@k − HR@f(k)|, measured and published."""
    groups: dict[tuple[str, str], dict[str, dict[str, Row]]] = {}
    for row in rows:
        groups.setdefault((row.data, row.model), {}).setdefault(row.estimator, {})[row.metric] = row
    out: dict[tuple[str, str], dict[str, tuple[float, float | None]]] = {}
    for key, found in groups.items():
        shr = found.pop("SHR")
        for word, cells in found.items():
            told = [abs(shr[k].published - row.published) for k, row in cells.items()  # type: ignore[operator]
                    if row.published is not None]  # fmt: skip
            measured = float(np.mean([abs(shr[k].measured - row.measured) for k, row in cells.items()]))
            out.setdefault(key, {})[word] = measured, float(np.mean(told)) if told else None
    return out


def mapping_error_table(made: Experiment, bench: Bench) -> list[Row]:
    """|HR@f(k) − SHR@k| and the same over SHR@k, averaged over ranges of k and over the repeats (li20 Table 7)."""
    rows = []
    for data, model, ranks in bench.each(made):
        samples = sampled(ranks, made.design, bench.repeats, made.seed)
        shr = _curves(samples)
        n = shr.shape[1]
        ks = np.arange(1, n + 1)
        spans = {"1-n": ks, "1": ks[:1], "2-10": ks[1:10]}
        for word in made.estimators:
            if word == "beta@P":
                fitted = [fr.Mapping("beta").fitted(samples.counts(repeat)) for repeat in range(bench.repeats)]
                hr = np.stack([_hit_ratio(ranks, each.f(ks, n - 1, ranks.n_items)) for each in fitted])
            elif word == "optimal":
                hr = _hit_ratio(ranks, fr.optimal_mapping(ks, ranks.ranks, round(ranks.n_items), made.design))[None]
            else:
                hr = _hit_ratio(ranks, _mapping(word).f(ks, n - 1, ranks.n_items))[None]
            gap = np.abs(hr - shr)
            for span, which in spans.items():
                for error, found in (("abs", gap), ("rel", gap / np.maximum(shr, 1e-12))):
                    each = found[:, which - 1].mean(1)
                    rows.append(_row(made, (data, model, f"{error} k={span}", word), each.mean(), each.std(ddof=1)))
    return rows


def _ndcg(x: FloatArray) -> FloatArray:
    return np.asarray(1 / np.log2(x + 1))


#: Ways to read "w = M_NDCG(r/C), C = 10" of jin21: functions of the sampled rank r and the rank R̂ it speaks for (eq. 20).
READINGS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "M(r/C), printed": lambda r, R: _ndcg(r / 10),
    "M(ceil(r/C))": lambda r, R: _ndcg(np.ceil(r / 10)),
    "M(1 + r/C)": lambda r, R: _ndcg(1 + r / 10),
    "M(r + C)": lambda r, R: _ndcg(r + 10),
    "M(r C)": lambda r, R: _ndcg(r * 10),
    "M(r)^(1/C)": lambda r, R: _ndcg(r) ** 0.1,
    "M(R/C)": lambda r, R: _ndcg(R / 10),
    "M(R C)": lambda r, R: _ndcg(R * 10),
    "min(1, M(r/C))": lambda r, R: np.minimum(1.0, _ndcg(r / 10)),
    "min(1,M(r/C))^1/C": lambda r, R: np.minimum(1.0, _ndcg(r / 10)) ** 0.1,
    "1 + M(r)/C": lambda r, R: 1 + _ndcg(r) / 10,
    "1 + [r<=C]/C": lambda r, R: 1 + (r <= 10) / 10,
    "M(1 + r/(nC))": lambda r, R: _ndcg(1 + r / (10 * len(r))),
}


def weight_readings(made: Experiment, bench: Bench) -> list[Row]:
    """WMLE over MLE at the expected counts, for several readings of its weight, beside the ratio of the published means."""
    rows = []
    design = fr.parse_design(made.design)
    for data, model, ranks in bench.each(made):
        drawn, hits, mean, _ = expected(ranks, design)
        N = ranks.n_items
        r, R = (hits + 1).astype(np.float64), np.asarray(1 + (N - 1) * hits / drawn, dtype=np.float64)
        weights = [np.ones(len(r)), *(w(r, R) for w in READINGS.values())]
        found = np.stack([answers(fr.MLE().fit(weighted(drawn, hits, mean * w, round(N), design))) for w in weights])
        tables = {key: value for file in made.options["tables"] for key, value in published(file).items()}
        for metric in made.metrics:
            told = [tables.get((data, model, metric, word), (np.nan, None))[0] for word in ("WMLE", "MLE")]
            ratio = None if np.isnan(told).any() else told[0] / told[1]
            at = column(metric)
            rows += [
                Row(data, model, metric, name, float(value / found[0, at]), published=ratio)
                for name, value in zip(READINGS, found[1:, at], strict=True)
            ]
    return rows


def _mapping(word: str) -> fr.Mapping:
    if word.startswith("beta@"):
        return fr.Mapping("beta", float(word.split("@")[1]))
    return fr.Mapping(word)  # type: ignore[arg-type]


def _hit_ratio(ranks: Ranks, cuts: NDArray[Any]) -> FloatArray:
    """HR at each cut-off, which need not be whole."""
    return np.searchsorted(np.sort(ranks.ranks), np.floor(cuts + 1e-9), side="right") / len(ranks.ranks)


def _curves(samples: Samples) -> FloatArray:
    """SHR@k for k = 1..n, a row per repeat."""
    size = int(samples.drawn.max()) + 1
    shares = np.zeros((len(samples.seen), size))
    shares[:, samples.hits] = samples.seen / samples.seen.sum(1, keepdims=True)
    return np.cumsum(shares, axis=1)


def _sampled_recall(ranks: Ranks, design: str, repeats: int, seed: int) -> FloatArray:
    return _curves(sampled(ranks, design, repeats, seed))


def _by_metric(made: Experiment, rows: list[Row]) -> list[Row]:
    """Rows of one metric together, as the papers print them."""
    place = {metric: at for at, metric in enumerate(made.metrics)}
    order = {(row.data, row.model): at for at, row in reversed(list(enumerate(rows)))}
    return sorted(rows, key=lambda row: (order[row.data, row.model], place[row.metric]))


#: The words of `kind` in a TOML that make tables.
TABLES: dict[str, Callable[[Experiment, Bench], list[Row]]] = {
    "metrics": metric_table,
    "pairs": pair_table,
    "winners": winner_table,
    "relative errors": relative_error_table,
    "statistics": statistics_table,
    "starts": starts_table,
    "beta": beta_table,
    "mapped": mapped_table,
    "mapping errors": mapping_error_table,
    "weight readings": weight_readings,
}


def check(made: Experiment) -> None:
    """Refuse a TOML that names what does not exist, before anything is trained."""
    for metric in made.metrics:
        fr.parse_metric(metric)
    if made.kind in {"metrics", "pairs", "winners", "relative errors"}:
        for estimator in made.estimators:
            if estimator not in ESTIMATORS and estimator.split(",")[0] not in ESTIMATORS:
                raise ValueError(
                    f"{made.name}.toml: there is no estimator {estimator!r}; known are {', '.join(ESTIMATORS)}."
                )
