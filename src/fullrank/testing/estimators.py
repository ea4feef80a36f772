"""Check the contract of an estimator: what every one of the package keeps, and yours should."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import fullrank
from fullrank._types import IntArray
from fullrank.estimators import Estimate, Estimator, RankDistribution
from fullrank.metrics import Recall, parse_metrics
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import ALL, Adaptive, Design, Exhaustive, Sample, Top
from fullrank.testing._say import check, check_value

#: Designs an estimator is tried on by default.
DESIGNS: tuple[Design, ...] = (
    Sample(9), Sample(9, replace=False), Adaptive(5, 23, stop_at=1), Adaptive(5, "all", stop_at=2, replace=False), Top(3, 9),
)  # fmt: skip
_METRICS = parse_metrics("recall@10, precision@5, ndcg@10, ap@10, hit@10, mrr@10, ndcg, ap, auc")
_ITEMS, _CASES = 60, 200


def check_estimator(
    estimator: Estimator, *, designs: Sequence[Design] = DESIGNS, refuses: Sequence[Design] = ()
) -> None:
    """Check an estimator against the protocol :class:`fullrank.estimators.Estimator`.

    Raises ``AssertionError`` with a sentence on the first breach:

    - a value: compares, hashes, and its ``repr`` evaluates back; fitting changes neither it nor the counts;
    - the same counts give the same numbers; so do cases in another order, and weights all multiplied by one number;
    - every metric is answered by a finite number, or refused by a ValueError of one sentence (Recall never is);
    - where every rank is known (``Exhaustive``) the answer is the truth, with one target per user and with several;
    - where there is a distribution and no mass is negative, Recall@k lies in 0..1 and never falls with k;
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
    known = {**vars(fullrank), **vars(fullrank.estimators), type(estimator).__name__: type(estimator)}
    check_value(estimator, f"the repr {estimator!r}", "evaluate", lambda: eval(repr(estimator), {}, known))
    frozen = getattr(getattr(estimator, "__dataclass_params__", None), "frozen", True)
    check(frozen, f"{estimator!r} can be changed: make it a frozen dataclass.")
    rng = np.random.default_rng(0)
    _check_exhaustive(estimator, rng)
    truth = 1 + np.floor((_ITEMS - 1) * rng.random(_CASES) ** 3).astype(np.int64)
    for design in designs:
        if design not in refuses:
            _check_design(estimator, design, truth, rng)
    for design in refuses:
        where = f"{estimator!r} on the design '{design}'"
        drawn, hits = design.simulate(truth, _ITEMS, rng)
        nothing = (drawn == ALL).all() and not design.exhaustive
        check(not nothing, f"'{design}' compares every one of {_ITEMS} items: there is nothing to refuse.")
        try:
            estimator.fit(RankCounts.from_outcomes(drawn, hits, _ITEMS, design))
        except ValueError as error:
            _check_sentence(error, where)
        else:
            raise AssertionError(f"{where} must be refused with a ValueError, and was not.")


def _check_exhaustive(estimator: Estimator, rng: np.random.Generator) -> None:
    """Check that the answer is the truth where every rank is known."""
    where = f"{estimator!r} on exhaustive counts"
    for T in (np.ones(_CASES, dtype=np.int64), rng.integers(1, 4, _CASES // 2)):
        users, targets = np.repeat(np.arange(len(T)), T), np.repeat(T, T)
        order = np.arange(len(users)) - np.repeat(np.cumsum(T) - T, T) + 1
        ranks = rng.integers(1, _ITEMS + 1, len(users))
        ranks = ranks[np.lexsort((ranks, users))]  # among the non-relevant, a user's best target first
        weights = rng.random(len(T)) + 0.1
        about: dict[str, Any] = {"users": users, "weights": weights[users], "order": order, "targets": targets}
        fitted = estimator.fit(RankCounts.from_ranks(ranks, _ITEMS, Exhaustive(), **about))
        answers = _answers(fitted, where)
        for metric in (each for each in _METRICS if str(each) in answers):
            gain = weights[users] * metric.gain(ranks, _ITEMS, order, targets)
            value, wanted = answers[str(metric)], gain.sum() / weights.sum()
            right = abs(value - wanted) <= 1e-9 * max(1.0, abs(wanted))
            check(right, f"{where} must give the truth: {metric} is {value:.6g}, not {wanted:.6g}.")
        where = f"{where} of users with several targets"


def _check_design(estimator: Estimator, design: Design, truth: IntArray, rng: np.random.Generator) -> None:
    """Check what must hold on counts of a design that draws."""
    where, name = f"{estimator!r} on the design '{design}'", repr(estimator)
    drawn, hits = design.simulate(truth, _ITEMS, rng)
    users, weights = rng.integers(0, 10**6, len(hits)), rng.random(len(hits)) + 0.1

    def counted(order: Any = np.s_[:], scale: float = 1.0) -> RankCounts:
        about = {"users": users[order], "weights": scale * weights[order]}
        return RankCounts.from_outcomes(drawn[order], hits[order], _ITEMS, design, **about)

    counts = counted()
    try:
        fitted = estimator.fit(counts)
    except ValueError as error:
        raise AssertionError(f"{where} must work, or be named in `refuses`, got the error: {error}") from error
    check(repr(estimator) == name, f"{where}: fitting changed the estimator to {estimator!r}.")
    check(counts == counted(), f"{where}: fitting changed the counts.")
    answers = _answers(fitted, where)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for again, tolerance, what in (
            (counts, 0.0, "fitted twice gives different numbers"),
            (counted(rng.permutation(len(hits))), 1e-7, "depends on the order of the cases"),
            (counted(scale=7.0), 1e-6, "changes when all weights are multiplied by 7"),
        ):
            for metric, value in _answers(estimator.fit(again), where).items():
                near = abs(value - answers[metric]) <= tolerance * max(abs(value), 1e-3)
                check(near, f"{where} {what}: {metric} is {answers[metric]!r} and {value!r}.")
    if isinstance(fitted, RankDistribution):
        _check_curve(fitted, where)


def _answers(fitted: Estimate, where: str) -> dict[str, float]:
    """Return the answers to all metrics, without those that are refused by a sentence."""
    answers = {}
    for metric in _METRICS:
        try:
            value = fitted.expect(metric)
        except ValueError as error:
            check(metric.name != "recall", f"{where} must answer {metric}, got the error: {error}")
            _check_sentence(error, f"{metric} by {where}")
            continue
        check(isinstance(value, float), f"{where}: `expect({metric})` must be a float, not {type(value).__name__}.")
        check(np.isfinite(value), f"{where}: {metric} is {value}, not a finite number.")
        answers[str(metric)] = value
    return answers


def _check_sentence(error: Exception, what: str) -> None:
    """Check the message of a refusal: one line, not empty, ended by a full stop."""
    fits = re.fullmatch(r"[^\n]{10,}[.?]", str(error))
    check(fits, f"{what} must be refused in one sentence that ends in a full stop, not {str(error)!r}.")


def _check_curve(fitted: RankDistribution, where: str) -> None:
    mass = fitted.mass(np.arange(1, _ITEMS + 1))
    sums, recall = np.cumsum(mass), fitted.expect(Recall @ _ITEMS)
    adds = abs(sums[-1] - recall) < 1e-9
    check(adds, f"{where}: `mass` adds to {sums[-1]:.9f}, and recall@{_ITEMS} is {recall:.9f}.")
    follows = np.allclose(fitted.cdf([1, 3, 10]), sums[[0, 2, 9]], atol=1e-9)
    check(follows, f"{where}: `cdf` is not the running sum of `mass`.")
    if (mass >= -1e-12).all():
        curve = np.array([fitted.expect(Recall @ k) for k in range(1, _ITEMS + 1)])
        check((curve >= -1e-9).all() and (curve <= 1 + 1e-9).all(), f"{where}: Recall@k leaves 0..1.")
        check((np.diff(curve) >= -1e-9).all(), f"{where}: Recall@k falls as k grows, though no mass is negative.")
