"""Check the contract of an estimator: what every one of the package keeps, and yours should."""

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

import fullrank
from fullrank._types import IntArray
from fullrank.estimators import Estimate, Estimator, RankDistribution
from fullrank.metrics import Metric, Recall, parse_metrics
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL, Adaptive, Design, Exhaustive, Sample, Top
from fullrank.testing._say import check, check_refusal, check_sentence, check_value

#: Designs an estimator is tried on by default.
DESIGNS: tuple[Design, ...] = (
    Sample(9), Sample(9, replace=False), Adaptive(5, 23, stop_at=1), Adaptive(5, "all", stop_at=2, replace=False), Top(3, 9),
)  # fmt: skip
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
    generator = np.random.default_rng(rng)
    known = {**vars(fullrank), **vars(fullrank.estimators), type(estimator).__name__: type(estimator)}
    check_value(estimator, f"the repr {estimator!r}", "evaluate", lambda: eval(repr(estimator), {}, known))
    for name in getattr(estimator, "__dataclass_fields__", ()):
        try:
            setattr(estimator, name, getattr(estimator, name))
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError(f"`{name}` of {estimator!r} can be changed: make it a frozen dataclass.")
    asked = parse_metrics(metrics)
    _check_exhaustive(estimator, asked, n_items, cases, several_targets, generator)
    truth = 1 + np.floor((n_items - 1) * generator.random(cases) ** 3).astype(np.int64)
    for design in designs:
        if design not in refuses:
            fitted = _check_design(estimator, asked, n_items, design, truth, generator)
            _check_curve(fitted, f"{estimator!r} on the design '{design}'", n_items, signed)
    for design in refuses:
        drawn, hits = design.simulate(truth, n_items, generator)
        if (drawn == ALL).all() and not design.exhaustive:
            raise AssertionError(f"'{design}' compares every one of {n_items} items: there is nothing to refuse.")
        counts = RankCounts.from_outcomes(drawn, hits, n_items, design)
        check_refusal(partial(estimator.fit, counts), f"{estimator!r} on the design '{design}'")


def _check_exhaustive(
    estimator: Estimator, metrics: Sequence[Metric], n_items: int, cases: int, several_targets: bool, rng: Any
) -> None:
    """Check that the answer is the truth where every rank is known."""
    where = f"{estimator!r} on exhaustive counts"
    for T in (np.ones(cases, dtype=np.int64), rng.integers(1, 4, cases // 2))[: 1 + several_targets]:
        users, targets = np.repeat(np.arange(len(T)), T), np.repeat(T, T)
        order = np.arange(len(users)) - np.repeat(np.cumsum(T) - T, T) + 1
        ranks = rng.integers(1, n_items + 1, len(users))
        ranks = ranks[np.lexsort((ranks, users))]  # among the non-relevant, a user's best target first
        weights = rng.random(len(T)) + 0.1
        about: dict[str, Any] = {"users": users, "weights": weights[users], "order": order, "targets": targets}
        fitted = estimator.fit(RankCounts.from_ranks(ranks, n_items, Exhaustive(), **about))
        for metric in metrics:
            gain = weights[users] * metric.gain(ranks, n_items, order, targets)
            _check_truth(fitted, where, metric, gain.sum() / weights.sum())
        where = f"{where} of users with several targets"


def _check_design(
    estimator: Estimator, metrics: Sequence[Metric], n_items: int, design: Design, truth: IntArray, rng: Any
) -> Estimate:
    """Check what must hold on counts of a design that draws; return the estimate."""
    where = f"{estimator!r} on the design '{design}'"
    drawn, hits = design.simulate(truth, n_items, rng)
    users = rng.integers(0, 10**6, len(hits))
    weights = rng.random(len(hits)) + 0.1

    def counted(order: IntArray, scale: float = 1.0) -> RankCounts:
        return RankCounts.from_outcomes(
            drawn[order], hits[order], n_items, design, users=users[order], weights=scale * weights[order]
        )

    straight, name = np.arange(len(hits)), repr(estimator)
    counts = counted(straight)
    try:
        fitted = estimator.fit(counts)
    except ValueError as error:
        raise AssertionError(f"{where} must work, or be named in `refuses`, got the error: {error}") from error
    check(repr(estimator) == name, f"{where}: fitting changed the estimator to {estimator!r}.")
    check(counts == counted(straight), f"{where}: fitting changed the counts.")
    answers = _answers(fitted, metrics, where)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for again, tolerance, what in (
            (counts, 0.0, "fitted twice gives different numbers"),
            (counted(rng.permutation(len(hits))), 1e-7, "depends on the order of the cases"),
            (counted(straight, 7.0), 1e-6, "changes when all weights are multiplied by 7"),
        ):
            for metric, value in _answers(estimator.fit(again), metrics, where).items():
                near = abs(value - answers[metric]) <= tolerance * max(abs(value), 1e-3)
                check(near, f"{where} {what}: {metric} is {answers[metric]!r} and {value!r}.")
    return fitted


def _answers(fitted: Estimate, metrics: Sequence[Metric], where: str) -> dict[str, float]:
    found = {str(metric): _value(fitted, where, metric) for metric in metrics}
    return {metric: value for metric, value in found.items() if value is not None}


def _check_truth(fitted: Estimate, where: str, metric: Metric, wanted: float) -> None:
    value = _value(fitted, where, metric)
    if value is not None:
        right = abs(value - wanted) <= 1e-9 * max(1.0, abs(wanted))
        check(right, f"{where} must give the truth: {metric} is {value:.6g}, not {wanted:.6g}.")


def _value(fitted: Estimate, where: str, metric: Metric) -> float | None:
    """Return the answer, or None where the metric is refused by a sentence."""
    try:
        value = fitted.expect(metric)
    except ValueError as error:
        check(metric.name != "recall", f"{where} must answer {metric}, got the error: {error}")
        check_sentence(error, f"{metric} by {where}")
        return None
    check(isinstance(value, float), f"{where}: `expect({metric})` must be a float, not {type(value).__name__}.")
    check(np.isfinite(value), f"{where}: {metric} is {value}, not a finite number.")
    return value


def _check_curve(fitted: Estimate, where: str, n_items: int, signed: bool | None) -> None:
    if isinstance(fitted, RankDistribution):
        mass = fitted.mass(np.arange(1, n_items + 1))
        sums, all_ = np.cumsum(mass), fitted.expect(Recall @ n_items)
        check(
            abs(sums[-1] - all_) < 1e-9, f"{where}: `mass` adds to {sums[-1]:.9f}, and recall@{n_items} is {all_:.9f}."
        )
        adds = np.allclose(fitted.cdf([1, 3, 10]), sums[[0, 2, 9]], atol=1e-9)
        check(adds, f"{where}: `cdf` is not the running sum of `mass`.")
        if signed is None:
            signed = bool((mass < -1e-12).any())
    if signed is None or signed:
        return
    curve = np.array([fitted.expect(Recall @ k) for k in range(1, n_items + 1)])
    check((curve >= -1e-9).all() and (curve <= 1 + 1e-9).all(), f"{where}: Recall@k leaves 0..1.")
    check((np.diff(curve) >= -1e-9).all(), f"{where}: Recall@k falls as k grows, though no mass is negative.")
