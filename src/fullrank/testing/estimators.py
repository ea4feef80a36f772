"""The contract of an estimator: what every one of the package keeps, and yours should."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Sequence

import numpy as np

import fullrank
from fullrank._types import IntArray
from fullrank.estimators.estimate import Estimate, Estimator, RankDistribution
from fullrank.metrics import Metric, Recall, parse_metrics
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL, Adaptive, Design, Exhaustive, Sample, Top
from fullrank.testing._say import check, check_refusal, check_sentence

__all__ = ["check_estimator"]


#: Designs an estimator is tried on by default.
DESIGNS: tuple[Design, ...] = (
    Sample(9),
    Sample(9, replace=False),
    Adaptive(5, 23, stop_at=1),
    Adaptive(5, "all", stop_at=2, replace=False),
    Top(3, 9),
)
METRICS: tuple[str, ...] = ("recall@10", "precision@5", "ndcg@10", "ap@10", "hit@10", "mrr@10", "ndcg", "ap", "auc")


def check_estimator(
    estimator: Estimator,
    *,
    designs: Sequence[Design] = DESIGNS,
    refuses: Sequence[Design] = (),
    metrics: Iterable[str | Metric] = METRICS,
    n_items: int = 60,
    cases: int = 200,
    signed: bool | None = None,
    several_targets: bool = True,
    rng: np.random.Generator | int | None = 0,
) -> None:
    """Check an estimator against the protocol :class:`fullrank.estimators.Estimator`.

    Raises ``AssertionError`` with a sentence on the first breach:

    - a value: compares, hashes, and its ``repr`` evaluates back; fitting changes neither it nor the counts;
    - the same counts give the same numbers; so do cases in another order, and weights all multiplied by one number;
    - every metric is answered by a finite number, or refused by a ValueError of one sentence (Recall never is);
    - where every rank is known (``Exhaustive``) the answer is the truth, with one target per user and with several;
    - where no mass is negative (``signed``: None looks at the masses), Recall@k lies in 0..1 and never falls with k;
    - designs in ``refuses`` are refused by a ValueError of one sentence, the others are not;
    - ``mass``, ``cdf`` and ``expect`` agree where there is a distribution.

    >>> import fullrank as fr
    >>> from fullrank.testing import check_estimator
    >>> check_estimator(fr.BiasVariance(gamma=0.1))
    >>> check_estimator(fr.Naive(), refuses=[fr.Adaptive(5, 23, stop_at=1)], designs=[fr.Sample(9)])

    One of your own, that forgets the exhaustive rule:

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Mine:
    ...     def fit(self, counts):
    ...         return fr.MaxEntropy(eta=0.1).fit(fr.RankCounts.from_ranks([1, 2], n_items=50, design="uni9"))
    >>> check_estimator(Mine())
    Traceback (most recent call last):
    ...
    AssertionError: Mine() on exhaustive counts must give the truth: recall@10 is ..., not ...
    """
    check(isinstance(estimator, Estimator) and not isinstance(estimator, type), f"{estimator!r} has no method `fit`.")
    name = repr(estimator)
    asked = parse_metrics(metrics)
    generator = np.random.default_rng(rng)
    _check_value(estimator, name)
    _check_exhaustive(estimator, name, asked, n_items, cases, several_targets, generator)
    truth = 1 + np.floor((n_items - 1) * generator.random(cases) ** 3).astype(np.int64)
    for design in designs:
        if design in refuses:
            continue
        _check_design(estimator, name, design, asked, truth, n_items, signed, generator)
    for design in refuses:
        counts = _observed(design, truth, n_items, generator)
        check_refusal(lambda counts=counts: estimator.fit(counts), f"{name} on the design '{design}'")  # type: ignore[misc]


def _check_value(estimator: Estimator, name: str) -> None:
    try:
        hash(estimator)
    except TypeError:
        raise AssertionError(f"{name} cannot be hashed: make it a frozen dataclass.") from None
    names = {**vars(fullrank), **vars(fullrank.estimators), type(estimator).__name__: type(estimator)}
    try:
        back = eval(name, {}, names)
    except Exception as error:
        raise AssertionError(f"the repr {name} does not evaluate back: {error}") from None
    check(back == estimator, f"the repr {name} evaluates back to something that does not compare equal.")
    check(hash(back) == hash(estimator), f"{name} and its copy have different hashes.")
    if dataclasses.is_dataclass(estimator):
        for each in dataclasses.fields(estimator):
            try:
                setattr(estimator, each.name, getattr(estimator, each.name))
            except dataclasses.FrozenInstanceError:
                continue
            raise AssertionError(f"`{each.name}` of {name} can be changed: make it a frozen dataclass.")


def _check_exhaustive(
    estimator: Estimator,
    name: str,
    metrics: tuple[Metric, ...],
    n_items: int,
    cases: int,
    several_targets: bool,
    rng: np.random.Generator,
) -> None:
    ranks = rng.integers(1, n_items + 1, cases)
    weights = rng.random(cases) + 0.1
    counts = RankCounts.from_ranks(ranks, n_items, Exhaustive(), weights=weights)
    fitted = estimator.fit(counts)
    for metric in metrics:
        wanted = float(np.average(metric.gain(ranks, n_items), weights=weights))
        _check_truth(fitted, name, metric, wanted, "exhaustive counts")
    if not several_targets:
        return
    T = rng.integers(1, 4, cases // 2)
    targets = np.repeat(T, T)
    users = np.repeat(np.arange(len(T)), T)
    order = np.concatenate([np.arange(1, each + 1) for each in T])
    inner = 1 + np.floor((n_items - 1) * rng.random(len(targets))).astype(np.int64)
    inner = np.concatenate([np.sort(inner[users == user]) for user in range(len(T))])
    fitted = estimator.fit(
        RankCounts.from_ranks(inner, n_items, Exhaustive(), users=users, order=order, targets=targets)
    )
    for metric in metrics:
        wanted = float(metric.gain(inner, n_items, order, targets).sum() / len(T))
        _check_truth(fitted, name, metric, wanted, "exhaustive counts of users with several targets")


def _check_truth(fitted: Estimate, name: str, metric: Metric, wanted: float, what: str) -> None:
    value = _value(fitted, name, metric)
    if value is not None:
        check(
            abs(value - wanted) <= 1e-9 * max(1.0, abs(wanted)),
            f"{name} on {what} must give the truth: {metric} is {value:.6g}, not {wanted:.6g}.",
        )


def _check_design(
    estimator: Estimator,
    name: str,
    design: Design,
    metrics: tuple[Metric, ...],
    truth: IntArray,
    n_items: int,
    signed: bool | None,
    rng: np.random.Generator,
) -> None:
    where = f"{name} on the design '{design}'"
    drawn, hits = _drawn(design, truth, n_items, rng)
    users = rng.integers(0, 10**6, len(hits))
    weights = rng.random(len(hits)) + 0.1

    def counted(order: IntArray, scale: float = 1.0) -> RankCounts:
        return RankCounts.from_outcomes(
            drawn[order], hits[order], n_items, design, users=users[order], weights=scale * weights[order]
        )

    straight = np.arange(len(hits))
    counts = counted(straight)
    try:
        fitted = estimator.fit(counts)
    except ValueError as error:
        raise AssertionError(f"{where} must work, or be named in `refuses`; it says: {error}") from error
    check(repr(estimator) == name, f"{where}: fitting changed the estimator to {estimator!r}.")
    check(counts == counted(straight), f"{where}: fitting changed the counts.")
    answers = _answers(fitted, where, metrics)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check_same(answers, estimator.fit(counts), where, metrics, 0.0, "fitted twice gives different numbers")
        shuffled = counted(rng.permutation(len(hits)))
        _check_same(answers, estimator.fit(shuffled), where, metrics, 1e-7, "depends on the order of the cases")
        scaled = estimator.fit(counted(straight, 7.0))
        _check_same(answers, scaled, where, metrics, 1e-6, "changes when all weights are multiplied by 7")
    _check_curve(fitted, where, n_items, signed)


def _answers(fitted: Estimate, where: str, metrics: tuple[Metric, ...]) -> dict[str, float]:
    found = {str(metric): _value(fitted, where, metric) for metric in metrics}
    return {metric: value for metric, value in found.items() if value is not None}


def _value(fitted: Estimate, where: str, metric: Metric) -> float | None:
    """The answer, or None where the metric is refused as it should be."""
    try:
        value = fitted.expect(metric)
    except ValueError as error:
        check(metric.name != "recall", f"{where} must answer {metric}; it says: {error}")
        check_sentence(error, f"{metric} by {where}")
        return None
    check(isinstance(value, float), f"{where}: `expect({metric})` must be a float, not {type(value).__name__}.")
    check(np.isfinite(value), f"{where}: {metric} is {value}, not a finite number.")
    return value


def _check_same(
    answers: dict[str, float], other: Estimate, where: str, metrics: tuple[Metric, ...], tolerance: float, what: str
) -> None:
    for metric, value in _answers(other, where, metrics).items():
        apart = abs(value - answers[metric])
        check(
            apart <= tolerance * max(abs(value), 1e-3),
            f"{where} {what}: {metric} is {answers[metric]!r} and {value!r}.",
        )


def _check_curve(fitted: Estimate, where: str, n_items: int, signed: bool | None) -> None:
    if isinstance(fitted, RankDistribution):
        mass = fitted.mass(np.arange(1, n_items + 1))
        total = fitted.expect(Recall @ n_items)
        check(
            abs(float(mass.sum()) - total) < 1e-9,
            f"{where}: `mass` adds to {float(mass.sum()):.9f}, and recall@{n_items} is {total:.9f}.",
        )
        check(
            np.allclose(fitted.cdf([1, 3, 10]), np.cumsum(mass)[[0, 2, 9]], atol=1e-9),
            f"{where}: `cdf` is not the running sum of `mass`.",
        )
        if signed is None:
            signed = bool((mass < -1e-12).any())
    if signed is None or signed:
        return
    curve = np.array([fitted.expect(Recall @ k) for k in range(1, n_items + 1)])
    check((curve >= -1e-9).all() and (curve <= 1 + 1e-9).all(), f"{where}: Recall@k leaves 0..1.")
    check((np.diff(curve) >= -1e-9).all(), f"{where}: Recall@k falls as k grows, though no mass is negative.")


def _drawn(design: Design, truth: IntArray, n_items: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """An outcome per case, drawn from the design's law."""
    drawn, hits = (np.asarray(each) for each in design.outcomes(n_items))
    law = np.asarray(design.law(np.arange(1, n_items + 1), n_items, drawn, hits))
    running = np.cumsum(law / law.sum(1, keepdims=True), axis=1)
    at = np.array([np.searchsorted(running[R - 1], u) for R, u in zip(truth, rng.random(len(truth)), strict=True)])
    at = np.minimum(at, len(hits) - 1)
    return drawn[at], hits[at]


def _observed(design: Design, truth: IntArray, n_items: int, rng: np.random.Generator) -> RankCounts:
    drawn, hits = _drawn(design, truth, n_items, rng)
    if (drawn == ALL).all() and not design.exhaustive:
        raise AssertionError(f"'{design}' compares every one of {n_items} items: there is nothing to refuse.")
    return RankCounts.from_outcomes(drawn, hits, n_items, design)
