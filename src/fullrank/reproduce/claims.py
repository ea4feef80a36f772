"""What the papers say, as questions to our own results: each claim has a verdict that is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .engine import Result
    from .kinds import Row

__all__ = ["CLAIMS", "Claim", "Verdict"]

Results = Mapping[str, "Result"]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds (None: cannot be told), and the numbers behind it."""

    holds: bool | None
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A claim in our own words, and how it is tested."""

    paper: str
    text: str
    test: Callable[[Results], Verdict]

    def judge(self, results: Results) -> Verdict:
        """The verdict; open where the results it needs are not there."""
        try:
            return self.test(results)
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
    return Verdict(len(right) >= 8, f"mean order right in {len(right)} of 9 (γ = 0.1, 0.01, 0.001 × recall, NDCG, AP)")


def _pairs_resolved(results: Results) -> Verdict:
    plain = [row.measured for row in _rows(results, "kr20-table4", estimator="sampled") if row.metric != "auc"]
    mended = [row.measured for row in _rows(results, "kr20-table4", estimator="BV0.01") if row.metric != "auc"]
    return Verdict(
        np.mean(mended) > np.mean(plain),
        f"right orders of 100: {np.mean(plain):.0f} sampled, {np.mean(mended):.0f} BV 0.01",
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


def _bias(name: str) -> Callable[[Results], Verdict]:
    def test(results: Results) -> Verdict:
        bias = _rank_errors(results, name, ("CLS", "BV0.1", "MLE", "MES"))
        told = ", ".join(f"{word} {value:.0%}" for word, value in bias.items())
        good = max(bias["MLE"], bias["MES"]) < min(bias["CLS"], bias["BV0.1"])
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


def _relative(results: Results, name: str, data: str, estimator: str) -> float:
    return float(np.mean([row.measured for row in _rows(results, name, data=data, estimator=estimator)]))


def _learned_priors(results: Results) -> Verdict:
    parts, good = [], []
    for data in _measured_data(results, "li23-table6"):
        value = {
            word: _relative(results, "li23-table6", data, word)
            for word in ("BV0.01", "MLE", "MN_MLE", "MN_MLE, own prior")
        }
        parts.append(f"{data} " + " / ".join(f"{each:.1f}" for each in value.values()))
        good.append(value["MN_MLE"] < min(value["BV0.01"], value["MLE"]))
    return Verdict(all(good), "BV / MLE / MN_MLE pooled / own, %: " + "; ".join(parts))


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


def _adaptive(results: Results) -> Verdict:
    parts, good = [], []
    for data in _measured_data(results, "li23-table7"):
        fixed = min(_relative(results, "li23-table7", data, word) for word in ("BV_MES", "BV_MLE", "MN_MES", "MN_MLE"))
        found = _relative(results, "li23-table7", data, "adaptive_MLE")
        size = _relative(results, "li23-table7", data, "adaptive size")
        parts.append(f"{data} {found:.1f} % at {size:.0f} against {fixed:.1f} % at 500")
        good.append(found < fixed and size < 500)
    return Verdict(all(good), "; ".join(parts))


def _measured_data(results: Results, name: str) -> list[str]:
    return list(dict.fromkeys(row.data for row in results[name].rows))


CLAIMS: tuple[Claim, ...] = (
    Claim("kr20", "sampled Recall, NDCG and AP order recommenders wrongly, AUC rightly", _inconsistent),
    Claim("kr20", "corrected by BV with γ ≤ 0.1 the mean order is right", _corrected_order),
    Claim("kr20", "corrections resolve most of the wrong pair orders", _pairs_resolved),
    Claim("kr20", "uncorrected Recall@10 needs about 1000 samples for the right order, BV 0.1 about 60", _sizes_needed),
    Claim("li20", "bound and Beta@0.5 align SHR@k with HR@f(k) better than linear and Beta@1", _mappings),
    Claim("li20", "SHR@k names the winner of HR@f(k)", _winners_kept),
    Claim("jin21", "ml-1m: CLS and BV 0.1 are biased, MLE and MES nearly unbiased", _bias("jin21-table2")),
    Claim("jin21", "citeulike: CLS and BV 0.1 are biased, MLE and MES less so", _bias("jin21-table3")),
    Claim("jin21", "ml-1m: MLE and MES vary more than CLS and BV", _spread("jin21-table2")),
    Claim("jin21", "citeulike: MLE and MES vary more than CLS and BV", _spread("jin21-table3")),
    Claim("jin21", "weighting the likelihood helps (citeulike)", _weighted),
    Claim(
        "li23", "MN with a learned prior beats BV 0.01 and MLE at n = 100 (prior pooled over repeats)", _learned_priors
    ),
    Claim("li23", "learned priors still gain over MLE and MES when each evaluation has only its own", _own),
    Claim("li23", "adaptive MLE beats every fixed-size estimator at a smaller mean size", _adaptive),
)
