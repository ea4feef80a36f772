"""What the papers say, as questions to our own results: each claim has a verdict that is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import fullrank as fr

from .kinds import alignment_gaps

if TYPE_CHECKING:
    from .engine import Result
    from .kinds import Row

__all__ = ["CLAIMS", "Claim", "Verdict"]

Results = Mapping[str, "Result"]
#: A paper is judged on the data it used; what stands beside it here is told, and decides nothing.
PAPER_DATA = {"li23": ("pinterest-20", "yelp", "ml-20m")}


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds (None: cannot be told), and the numbers behind it."""

    holds: bool | None
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A claim in our own words, how it is tested, and what would have made it fail.

    ``caveat`` is for a claim that holds for another reason than the paper's, or only in a weaker form.
    """

    paper: str
    text: str
    fails: str
    test: Callable[[Results], Verdict]
    caveat: str = ""

    def judge(self, results: Results) -> Verdict:
        """The verdict; open where the results it needs are not there."""
        try:
            found = self.test(results)
            return Verdict(None if found.holds is None else bool(found.holds), found.evidence)
        except (KeyError, ValueError, ZeroDivisionError, IndexError):
            return Verdict(None, "not run")


def _rows(results: Results, name: str, **where: str) -> list[Row]:
    found = [row for row in results[name].rows if all(getattr(row, key) == value for key, value in where.items())]
    if not found:
        raise KeyError(name)
    return found


def _value(results: Results, name: str, **where: str) -> float:
    return _rows(results, name, **where)[0].measured


def _order(results: Results, name: str, metric: str, estimator: str) -> list[str]:
    rows = _rows(results, name, metric=metric, estimator=estimator)
    return [row.model for row in sorted(rows, key=lambda row: -row.measured)]


def _inconsistent(results: Results) -> Verdict:
    wrong = [
        metric for metric in ("recall@10", "ndcg@10", "ap")
        if _order(results, "kr20-table3", metric, "exact") != _order(results, "kr20-table3", metric, "sampled")
    ]  # fmt: skip
    auc = _order(results, "kr20-table3", "auc", "exact") == _order(results, "kr20-table3", "auc", "sampled")
    return Verdict(
        len(wrong) == 3 and auc, f"order wrong for {', '.join(wrong) or 'none'}; AUC {'right' if auc else 'wrong'}"
    )


def _corrected_order(results: Results) -> Verdict:
    right = [
        f"{estimator} {metric}" for estimator in ("BV0.1", "BV0.01", "BV0.001") for metric in ("recall@10", "ndcg@10", "ap")
        if _order(results, "kr20-table3", metric, "exact") == _order(results, "kr20-table3", metric, estimator)
    ]  # fmt: skip
    return Verdict(len(right) == 9, f"mean order right in {len(right)} of 9 (γ = 0.1, 0.01, 0.001 × recall, NDCG, AP)")


def _pairs_resolved(results: Results) -> Verdict:
    plain = [row.measured for row in _rows(results, "kr20-table4", estimator="sampled") if row.metric != "auc"]
    mended = [row.measured for row in _rows(results, "kr20-table4", estimator="BV0.01") if row.metric != "auc"]
    wrong = [(one, two) for one, two in zip(plain, mended, strict=True) if one < 50]
    better = sum(two > 50 for _, two in wrong)
    return Verdict(
        2 * better > len(wrong),
        f"of {len(wrong)} pairs that sampling orders wrongly more often than not, BV 0.01 orders {better} rightly; "
        f"right orders of 100 on the mean: {np.mean(plain):.0f} sampled, {np.mean(mended):.0f} BV 0.01",
    )


def _sizes_needed(results: Results) -> Verdict:
    """From kr20-fig6: the least sample size of those tried from which X, Y and Z stand in their true order."""
    needed = {}
    for panel in results["kr20-fig6"].panels:
        x, y, z = (next(each for each in panel.series if each.name == name) for name in "XYZ")
        right = [c > b > a for a, b, c in zip(x.y, y.y, z.y, strict=True)]
        last_wrong = max((place for place, fine in enumerate(right) if not fine), default=-1)
        needed[panel.title.split(", ")[1]] = x.x[last_wrong + 1] if last_wrong + 1 < len(right) else np.inf
    told = ", ".join(f"{word} from {size:.0f}" for word, size in needed.items())
    return Verdict(
        needed["BV0.1"] <= 100 and needed["uncorrected"] >= 700, f"expected order of X, Y, Z right: {told} negatives"
    )


def _rank_errors(results: Results, name: str, estimators: tuple[str, ...]) -> dict[str, float]:
    """Mean |bias| of recall@10 relative to the exact one, over models."""
    out = {}
    for estimator in estimators:
        gaps = []
        for row in _rows(results, name, metric="recall@10", estimator=estimator):
            truth = _value(results, name, model=row.model, metric="recall@10", estimator="exact")
            gaps.append(abs(row.measured - truth) / truth)
        out[estimator] = float(np.mean(gaps))
    return out


def _bias(name: str, factor: float) -> Callable[[Results], Verdict]:
    def test(results: Results) -> Verdict:
        bias = _rank_errors(results, name, ("CLS", "BV0.1", "MLE", "MES"))
        told = ", ".join(f"{word} {value:.0%}" for word, value in bias.items())
        good = factor * max(bias["MLE"], bias["MES"]) < min(bias["CLS"], bias["BV0.1"])
        return Verdict(good, f"mean relative bias of recall@10: {told}")

    return test


def _spread(name: str) -> Callable[[Results], Verdict]:
    def test(results: Results) -> Verdict:
        sd = {
            word: float(np.mean([row.sd or 0.0 for row in _rows(results, name, metric="recall@10", estimator=word)]))
            for word in ("CLS", "BV0.1", "BV0.01", "MLE", "MES")
        }
        told = ", ".join(f"{word} {value:.1f}" for word, value in sd.items())
        return Verdict(
            min(sd["MLE"], sd["MES"]) > max(sd["CLS"], sd["BV0.1"], sd["BV0.01"]), f"standard deviations: {told}"
        )

    return test


def _weighted(results: Results) -> Verdict:
    bias = _rank_errors(results, "jin21-table3", ("MLE", "WMLE"))
    return Verdict(
        bias["WMLE"] <= bias["MLE"], f"mean relative bias: MLE {bias['MLE']:.0%}, WMLE as printed {bias['WMLE']:.0%}"
    )


def _fooled(results: Results) -> Verdict:
    """jin21 Table 8: on citeulike BV 0.1 takes MultiVAE for better than EASE, which it is not."""
    parts = []
    found: dict[str, tuple[Row, Row]] = {}
    for word in ("exact", "BV0.1"):
        ease, other = (
            _rows(results, "jin21-table3", model=model, metric="recall@10", estimator=word)[0]
            for model in ("EASE", "MultiVAE")
        )
        found[word] = ease, other
        told = "" if None in (ease.published, other.published) else f" ({ease.published:.1f} and {other.published:.1f})"
        parts.append(f"{word} {ease.measured:.1f} and {other.measured:.1f}{told}")
    (counted,) = _rows(results, "jin21-table8", metric="recall@10", estimator="BV0.1")
    right, wrong = found["exact"], found["BV0.1"]
    return Verdict(
        right[0].measured > right[1].measured and wrong[0].measured < wrong[1].measured,
        f"Recall@10 in thousandths of EASE and MultiVAE, measured (published): {'; '.join(parts)}; BV0.1 finds the best in "
        f"{counted.measured:.0f} of 100" + ("" if counted.published is None else f" ({counted.published:.0f})"),
    )


def _mappings(results: Results) -> Verdict:
    error = {
        word: float(
            np.mean([row.measured for row in _rows(results, "li20-table7", estimator=word, metric="abs k=1-n")])
        )
        for word in ("linear", "bound", "beta@1", "beta@0.5", "beta@P")
    }
    told = ", ".join(f"{word} {value:.4f}" for word, value in error.items())
    best = max(error["bound"], error["beta@0.5"]) < min(error["linear"], error["beta@1"])
    return Verdict(best, f"mean |HR@f(k) − SHR@k|: {told}")


def _winners_kept(results: Results) -> Verdict:
    rows = _rows(results, "li20-table3", estimator="SHR")
    right = total = 0
    for data in dict.fromkeys(row.data for row in rows):
        for metric in dict.fromkeys(row.metric for row in rows):
            here = [row for row in rows if (row.data, row.metric) == (data, metric)]
            if len(here) < 2:
                continue
            full = {row.model: _value(results, "li20-table3", data=data, model=row.model, metric=metric, estimator="bound")
                    for row in here}  # fmt: skip
            total += 1
            right += max(here, key=lambda row: row.measured).model == max(full, key=lambda model: full[model])
    return Verdict(
        right == total if total else None, f"same winner by SHR@k and HR@f(k) in {right} of {total} comparisons"
    )


def _gaps(results: Results, name: str) -> dict[tuple[str, str], tuple[float, float]]:
    """(scheme, mapping): mean |SHR@k − HR@f(k)| of MultiVAE, measured and published."""
    found = {
        (model.split(", ")[1], word): (measured, told)
        for (_, model), words in alignment_gaps(_rows(results, name)).items()
        for word, (measured, told) in words.items() if told is not None
    }  # fmt: skip
    if not found:
        raise KeyError(name)
    return found


def _published_size(name: str) -> Callable[[Results], Verdict]:
    def test(results: Results) -> Verdict:
        gaps = _gaps(results, name)
        apart = {key: abs(measured - told) for key, (measured, told) in gaps.items()}
        (scheme, word), most = max(apart.items(), key=lambda each: each[1])
        told = ", ".join(
            f"{word} {np.mean([m for (_, w), (m, _) in gaps.items() if w == word]):.4f} "
            f"({np.mean([p for (_, w), (_, p) in gaps.items() if w == word]):.4f})"
            for word in dict.fromkeys(w for _, w in gaps)
        )
        return Verdict(
            most < 0.01, f"over three schemes, measured (published): {told}; most apart {scheme}, {word}: {most:.4f}"
        )

    return test


def _schemes(results: Results) -> Verdict:
    """With and without replacement; among unseen items only."""
    rows = [row for row in _rows(results, "li20-table5", estimator="SHR") if row.model.startswith("MultiVAE")]
    by = {(row.model.split(", ")[1], row.metric): row.measured for row in rows}
    ks = [k for scheme, k in by if scheme == "binom"]
    near = max(abs(by["binom", k] - by["hyper", k]) for k in ks)
    lift = min(by["actual", k] - by["hyper", k] for k in ks)
    return Verdict(near < lift, f"binom and hyper at most {near:.4f} apart; unseen items add at least {lift:.3f}")


def _larger_samples(results: Results) -> Verdict:
    means = [np.mean([m for m, _ in _gaps(results, name).values()]) for name in ("li20-table5", "li20-table6")]
    lines = []
    for panel in results["li20-fig8"].panels:
        full, *curves = panel.series
        gap = [float(np.mean(np.abs(np.interp(each.x, full.x, full.y) - each.y))) for each in curves]
        lines.append((panel.title, gap))
    told = "; ".join(f"{title}: {gap[0]:.4f} to {gap[-1]:.4f} from n = 50 to 1000" for title, gap in lines)
    fine = means[1] < means[0] and all(gap[-1] < gap[0] for _, gap in lines)
    return Verdict(fine, f"ml-1m MultiVAE {means[0]:.4f} at n = 100, {means[1]:.4f} at 1000; {told}")


def _winners_by(results: Results, names: tuple[str, ...], words: tuple[str, ...]) -> dict[str, float]:
    """Mean count of right winners by estimator."""
    return {
        word: float(np.mean([row.measured for name in names for row in _rows(results, name, estimator=word)]))
        for word in words
    }


def _winners_likelihood(name: str) -> Callable[[Results], Verdict]:
    def test(results: Results) -> Verdict:
        found = _winners_by(results, (name,), ("BV0.01", "MLE", "MES", "WMLE"))
        told = ", ".join(f"{word} {value:.0f}" for word, value in found.items())
        notes = " ".join(note for note in results[name].notes if "only" in note)
        return Verdict(
            min(found["MLE"], found["MES"]) >= found["BV0.01"] and found["WMLE"] == max(found.values()),
            f"right winners of 100, mean over metrics: {told}" + (f" ({notes.rstrip('.')})" if notes else ""),
        )

    return test


def _winners_adaptive(results: Results) -> Verdict:
    parts, good = [], []
    for data in _measured_data(results, "li23-table8"):
        mean = {
            word: float(np.mean([row.measured for row in _rows(results, "li23-table8", data=data, estimator=word)]))
            for word in ("BV_MES", "BV_MLE", "MN_MES", "MN_MLE", "adaptive_MLE")
        }
        found = mean.pop("adaptive_MLE")
        where = data if data in PAPER_DATA["li23"] else f"(not in the paper: {data})"
        parts.append(f"{where} {found:.0f} against {max(mean.values()):.0f} of 100")
        if data in PAPER_DATA["li23"]:
            good.append(found >= max(mean.values()))
    return Verdict(
        all(good) if good else None, "right winners, adaptive MLE against the best of fixed size: " + "; ".join(parts)
    )


def _blind(results: Results) -> Verdict:
    """li23-fig1: the first sampled rank is the fullest, and the error of MLE falls with K."""
    parts, good = [], []
    panels = results["li23-fig1"].panels
    for bars, errors in zip(panels[::2], panels[1::2], strict=True):
        share = bars.series[0].y
        line = next(each for each in errors.series if each.name == "MLE, recall")
        where = bars.title.split(", ")[1]
        parts.append(
            f"{where}: {share[0]:.0%} at r = 1, error {line.y[0]:.0f} % at K = {line.x[0]:.0f}, {line.y[-1]:.0f} % at 50"
        )
        good.append(share[0] == max(share) and line.y[0] > line.y[-1])
    return Verdict(all(good) if good else None, "; ".join(parts))


def _cost(results: Results) -> Verdict:
    """li23-fig2: how C_j grows per doubling of the sample, up to an eighth of the items and beyond."""
    parts, good = [], []
    (panel,) = results["li23-fig2"].panels
    for line in panel.series:
        x, growth = np.array(line.x), np.diff(np.log2(line.y))
        small, large = growth[x[1:] <= 12.5], growth[x[1:] > 12.5]
        if not len(small) or not len(large):
            continue
        parts.append(f"{line.name}: ×{2 ** small.mean():.1f} per doubling to 12.5 %, ×{2 ** large.mean():.1f} beyond")
        good.append(bool(large.mean() >= 2 * small.mean()))
    return Verdict(all(good) if good else None, "; ".join(parts))


def _cost_softened(results: Results) -> Verdict:
    """li23-fig2: whether C_j grows faster beyond an eighth of the items than before, if only a little."""
    (panel,) = results["li23-fig2"].panels
    good, parts = [], []
    for line in panel.series:
        x, growth = np.array(line.x), np.diff(np.log2(line.y))
        small, large = growth[x[1:] <= 12.5], growth[x[1:] > 12.5]
        if len(small) and len(large):
            good.append(bool(large.mean() > small.mean()))
            parts.append(f"{line.name} {2 ** (large.mean() - small.mean()):.2f} ×")
    return Verdict(all(good) if good else None, "growth per doubling beyond, relative to before: " + "; ".join(parts))


def _relative(results: Results, name: str, data: str, estimator: str) -> float:
    return float(np.mean([row.measured for row in _rows(results, name, data=data, estimator=estimator)]))


def _learned_priors(results: Results) -> Verdict:
    parts, good = [], []
    for data in _measured_data(results, "li23-table6"):
        value = {
            word: _relative(results, "li23-table6", data, word)
            for word in ("BV0.01", "MLE", "MN_MLE", "MN_MLE, own prior")
        }
        where = data if data in PAPER_DATA["li23"] else f"(not in the paper: {data})"
        parts.append(f"{where} " + " / ".join(f"{each:.1f}" for each in value.values()))
        if data in PAPER_DATA["li23"]:
            good.append(value["MN_MLE"] < min(value["BV0.01"], value["MLE"]))
    return Verdict(all(good) if good else None, "BV / MLE / MN_MLE pooled / own, %: " + "; ".join(parts))


def _own(results: Results) -> Verdict:
    parts, good = [], []
    for data in _measured_data(results, "li23-table6"):
        pooled = np.mean(
            [_relative(results, "li23-table6", data, word) for word in ("MN_MLE", "MN_MES", "BV_MLE", "BV_MES")]
        )
        own = np.mean(
            [
                _relative(results, "li23-table6", data, f"{word}, own prior")
                for word in ("MN_MLE", "MN_MES", "BV_MLE", "BV_MES")
            ]
        )
        plain = np.mean([_relative(results, "li23-table6", data, word) for word in ("MLE", "MES")])
        parts.append(f"{data} {plain:.1f} / {pooled:.1f} / {own:.1f}")
        good.append(bool(own < plain))
    return Verdict(all(good), "MLE, MES / pooled / own, %: " + "; ".join(parts))


def _adaptive(name: str) -> Callable[[Results], Verdict]:
    def test(results: Results) -> Verdict:
        parts, good = [], []
        for data in _measured_data(results, name):
            fixed, own = (
                min(_relative(results, name, data, word + more) for word in ("BV_MES", "BV_MLE", "MN_MES", "MN_MLE"))
                for more in ("", ", own prior")
            )
            found = _relative(results, name, data, "adaptive_MLE")
            size = _relative(results, name, data, "adaptive size")
            where = data if data in PAPER_DATA["li23"] else f"(not in the paper: {data})"
            parts.append(f"{where} {found:.1f} % at {size:.0f} against {fixed:.1f} % pooled, {own:.1f} % own at 500")
            if data in PAPER_DATA["li23"]:
                good.append(found < fixed and size < 500)
        return Verdict(all(good) if good else None, "; ".join(parts))

    return test


def _measured_data(results: Results, name: str) -> list[str]:
    return list(dict.fromkeys(row.data for row in results[name].rows))


def _monotone(results: Results) -> Verdict:
    """f(k; a) on a grid of a: needs no result."""
    k, grid = np.arange(1, 101), np.arange(0.05, 2.001, 0.05)
    curves = np.stack([fr.Mapping("beta", float(a)).f(k, 99, 3706) for a in grid])
    step = np.diff(curves, axis=0)
    rises = bool((step >= -1e-6).all())
    return Verdict(rises, f"least step from one `a` to the next {step.min():.1e}; f(1; a) rises from "
                          f"{curves[0, 0]:.1f} at a = 0.05 to {curves[-1, 0]:.1f} at 2; f(n; a) = {curves[:, -1].min():.0f} "
                          "for every `a` (Lemma 3.1)")  # fmt: skip


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "kr20",
        "sampled Recall, NDCG and AP order recommenders wrongly, AUC rightly",
        "one of the three is ordered as the exact metric orders it, or AUC is not",
        _inconsistent,
    ),
    Claim(
        "kr20",
        "corrected by BV with γ ≤ 0.1 the mean order is right",
        "one of nine mean orders is wrong",
        _corrected_order,
    ),
    Claim(
        "kr20",
        "corrections resolve most of the wrong pair orders",
        "BV 0.01 orders half or fewer of the pairs rightly that sampling orders wrongly",
        _pairs_resolved,
    ),
    Claim(
        "kr20",
        "uncorrected Recall@10 needs about 1000 samples for the right order, BV 0.1 about 60",
        "BV 0.1 needs more than 100, or the uncorrected one fewer than 700",
        _sizes_needed,
    ),
    Claim(
        "li20",
        "bound and Beta@0.5 align SHR@k with HR@f(k) better than linear and Beta@1",
        "the worse of the first two has a larger mean error than the better of the others",
        _mappings,
    ),
    Claim("li20", "SHR@k names the winner of HR@f(k)", "one of the comparisons names another", _winners_kept),
    Claim(
        "li20",
        "ml-1m MultiVAE, n = 100: |SHR@k − HR@f(k)| as published",
        "one mean over k lies 0.01 or more from the published one",
        _published_size("li20-table5"),
    ),
    Claim("li20", "the same at n = 1000", "the same", _published_size("li20-table6")),
    Claim(
        "li20",
        "with or without replacement is the same; among unseen items hit ratios are higher",
        "the first two lie further apart than the third from them",
        _schemes,
    ),
    Claim(
        "li20",
        "the sampled curve converges to the full one as the sample grows",
        "one gap at n = 1000 is no smaller than at the smallest n",
        _larger_samples,
    ),
    Claim(
        "li20",
        "a smaller `a` gives a smaller f(k; a) at every k (Remedy 3, found numerically in the paper)",
        "f falls with `a` anywhere on the grid a = 0.05..2, k = 1..n, N = 3706, n = 100",
        _monotone,
        "the paper also prints the opposite inequality, f(k; a) ≤ f(k; b) for a > b: that one is false",
    ),
    Claim(
        "jin21",
        "ml-1m: CLS and BV 0.1 are biased, MLE and MES nearly unbiased",
        "the larger bias of MLE and MES is more than half the smaller of CLS and BV 0.1",
        _bias("jin21-table2", 2),
    ),
    Claim(
        "jin21",
        "citeulike: CLS and BV 0.1 are biased, MLE and MES less so",
        "the larger bias of MLE and MES is no smaller than the smaller of CLS and BV 0.1",
        _bias("jin21-table3", 1),
    ),
    Claim(
        "jin21",
        "ml-1m: MLE and MES vary more than CLS and BV",
        "the smaller deviation of MLE and MES is no larger than the largest of the others",
        _spread("jin21-table2"),
    ),
    Claim("jin21", "citeulike: MLE and MES vary more than CLS and BV", "the same", _spread("jin21-table3")),
    Claim("jin21", "weighting the likelihood helps (citeulike)", "WMLE is more biased than MLE", _weighted),
    Claim(
        "jin21",
        "ml-1m: MLE and MES find the best model no less often than BV 0.01, WMLE most often",
        "one of the two inequalities fails on the mean over metrics",
        _winners_likelihood("jin21-table4"),
        "WMLE, as printed, is several times too high for every model: it finds the winner without being "
        "near the truth. It varies less relative to its size, which may be why; that was not tested",
    ),
    Claim("jin21", "citeulike: the same", "the same", _winners_likelihood("jin21-table8")),
    Claim(
        "jin21",
        "citeulike: BV 0.1 takes MultiVAE for better than the true best, EASE (Tables 3 and 8)",
        "MultiVAE is the better one, or the mean estimate by BV 0.1 has them in the right order",
        _fooled,
    ),
    Claim(
        "li23",
        "blind spot: targets come first in the sample more than anywhere else, and small K is estimated worst",
        "r = 1 is not the fullest rank, or the error of MLE is no larger at the smallest K than at 50",
        _blind,
    ),
    Claim(
        "li23",
        "MN with a learned prior beats BV 0.01 and MLE at n = 100 (prior pooled over repeats)",
        "MN_MLE has a larger mean error than one of them on a data set of the paper",
        _learned_priors,
    ),
    Claim(
        "li23",
        "learned priors still gain over MLE and MES when each evaluation has only its own",
        "with their own priors the mean error of the four is no smaller",
        _own,
    ),
    Claim(
        "li23",
        "NDCG: adaptive MLE beats every fixed-size estimator at a smaller mean size",
        "on a data set of the paper one has a smaller error, or the mean size is 500 or more",
        _adaptive("li23-table7"),
    ),
    Claim("li23", "Recall: the same", "the same", _adaptive("li23-table11")),
    Claim(
        "li23",
        "adaptive MLE finds the best model at least as often",
        "a fixed-size estimator finds it more often on a data set of the paper",
        _winners_adaptive,
    ),
    Claim(
        "li23",
        "C_j turns a corner at 10 to 15 % of the items: beyond it, costs rise fast",
        "per doubling log C_j grows less than twice as fast beyond 12.5 % as before",
        _cost,
    ),
    Claim(
        "li23",
        "the same, softened: beyond 12.5 % costs grow faster than before",
        "they grow no faster",
        _cost_softened,
        "this is less than the paper says; there is no corner to find a ceiling by",
    ),
)
