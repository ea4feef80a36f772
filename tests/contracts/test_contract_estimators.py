"""The contract over every estimator that can be found, and the check itself against estimators that break it."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

import fullrank as fr
from fullrank.estimators import ESTIMATORS, Estimator
from fullrank.testing import check_estimator
from fullrank.testing.estimators import DESIGNS

ADAPTIVE = [design for design in DESIGNS if isinstance(design, fr.Adaptive)]
UNORDERED = [design for design in DESIGNS if isinstance(design, fr.Adaptive | fr.Top)]
#: Whose outcomes need an order, or one size: the table of estimators and designs.
FIXED_SIZE = ("Naive", "RankEstimate", "CLS", "Mapping")
#: Defined for one target per user where not every rank is known (the exhaustive rule holds all the same).
VARIANTS = [
    fr.RankEstimate(interpolate=True),
    fr.BiasVariance(1.0),
    fr.BiasVariance(0.1, n_items="bins"),
    fr.BiasVariance(0.01, prior=fr.MaxEntropy("authors")),
    fr.MLE(iterations=3),
    fr.MLE(start="log"),
    fr.MLE(n_items="mean"),
    fr.WeightedMLE("ap", 5),
    fr.MaxEntropy("authors"),
    fr.MaxEntropy(1e-4),
    fr.Multinomial(n_items="bins"),
    fr.Multinomial(prior=fr.BiasVariance(0.1)),
    fr.Mapping("beta", 0.5),
    fr.Mapping("beta", 1.0),
]


def discovered() -> list[Estimator]:
    """Those with a word, those exported, and variants: each once."""
    words = [make() for make in ESTIMATORS.values()]
    classes = [
        thing()
        for thing in vars(fr).values()
        if inspect.isclass(thing)
        and hasattr(thing, "fit")
        and dataclasses.is_dataclass(thing)
        and thing is not fr.RankDistribution
    ]
    return list(dict.fromkeys([*words, *classes, *VARIANTS]))


@pytest.mark.parametrize("estimator", discovered(), ids=str)
def test_contract(estimator):
    refuses = UNORDERED if type(estimator).__name__ in FIXED_SIZE else []
    check_estimator(estimator, refuses=refuses)


def test_everything_is_found():
    names = {type(estimator).__name__ for estimator in discovered()}
    assert names >= {
        "Naive",
        "RankEstimate",
        "CLS",
        "BiasVariance",
        "MLE",
        "WeightedMLE",
        "MaxEntropy",
        "Multinomial",
        "Mapping",
    }


@pytest.mark.parametrize("word", ESTIMATORS)
def test_words_mean_estimators(word):
    estimator = fr.parse_estimator(word)
    assert estimator == ESTIMATORS[word]()
    assert fr.parse_estimator(f" {word.upper()} ") == estimator
    assert fr.parse_estimator(estimator) is estimator


def test_words_with_numbers_and_words_that_are_none():
    assert fr.parse_estimator("bv0.1") == fr.BiasVariance(0.1)
    assert fr.parse_estimator("beta0.5") == fr.parse_estimator("beta.5") == fr.Mapping("beta", 0.5)
    assert fr.parse_estimator("bv1e-05") == fr.BiasVariance(1e-05)
    for word in ("bv1.2.3", "beta..", "bv1e"):
        with pytest.raises(ValueError, match=f"unknown estimator '{word}'"):
            fr.parse_estimator(word)
    assert fr.parse_estimator("bv_mle") == fr.BiasVariance(prior=fr.MLE())
    assert fr.parse_estimator("mn_mes") == fr.Multinomial(prior=fr.MaxEntropy())
    with pytest.raises(ValueError, match=r"unknown estimator 'mel'; did you mean 'mle'\?"):
        fr.parse_estimator("mel")
    with pytest.raises(ValueError, match="unknown estimator 'xxxxx': known words are"):
        fr.parse_estimator("xxxxx")
    with pytest.raises(TypeError, match="`estimator` must be an estimator or a word like 'mle'"):
        fr.parse_estimator(fr.MLE)


# ------------------------------------------------------------------------------------- estimators that break the contract


@dataclasses.dataclass(frozen=True)
class Base:
    def fit(self, counts):
        return self.change(fr.MLE(iterations=5).fit(counts), counts)

    def change(self, fitted, counts):
        return fitted


@dataclasses.dataclass(frozen=True)
class Good(Base):
    pass


@dataclasses.dataclass(frozen=True)
class Noisy(Base):
    def change(self, fitted, counts):
        return (
            fitted
            if isinstance(counts.design, fr.Exhaustive)
            else dataclasses.replace(fitted, masses=fitted.masses * np.random.default_rng().random())
        )


@dataclasses.dataclass(frozen=True)
class Undefined(Base):
    def change(self, fitted, counts):
        return (
            fitted
            if isinstance(counts.design, fr.Exhaustive)
            else dataclasses.replace(fitted, masses=fitted.masses * np.nan)
        )


@dataclasses.dataclass(frozen=True)
class Heavy(Base):
    def change(self, fitted, counts):
        return (
            fitted
            if isinstance(counts.design, fr.Exhaustive)
            else dataclasses.replace(fitted, masses=fitted.masses * counts.weight.sum())
        )


@dataclasses.dataclass(frozen=True)
class TooMuch(Base):
    def change(self, fitted, counts):
        return (
            fitted
            if isinstance(counts.design, fr.Exhaustive)
            else dataclasses.replace(fitted, masses=fitted.masses * 2)
        )


@dataclasses.dataclass(frozen=True)
class Blind(Base):
    def change(self, fitted, counts):
        return fr.MLE().fit(fr.RankCounts.from_ranks([1, 2], 50, "uni9"))


@dataclasses.dataclass(unsafe_hash=True)
class Thawed:
    steps: int = 5

    def fit(self, counts):
        return fr.MLE(iterations=self.steps).fit(counts)


@dataclasses.dataclass(frozen=True)
class Remembers(Base):
    seen: int = 0

    def change(self, fitted, counts):
        object.__setattr__(self, "seen", self.seen + 1)
        return fitted


@dataclasses.dataclass(frozen=True)
class Refuses(Base):
    text: str = "no"

    def fit(self, counts):
        if isinstance(counts.design, fr.Adaptive):
            raise ValueError(self.text)
        return super().fit(counts)


class NoValue:
    __hash__ = None

    def fit(self, counts):
        return fr.MLE().fit(counts)


def test_good_estimators_of_ones_own_pass():
    check_estimator(Good())
    check_estimator(Refuses("this one does not do adaptive samples."), refuses=ADAPTIVE)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Noisy(), "fitted twice gives different numbers"),
        (Undefined(), "recall@10 is nan, not a finite number"),
        (Heavy(), "changes when all weights are multiplied by 7"),
        (TooMuch(), r"Recall@k leaves 0..1"),
        (Blind(), "on exhaustive counts must give the truth: recall@10 is"),
        (Remembers(), "fitting changed the estimator"),
        (Thawed(), "Thawed.steps=5. can be changed: make it a frozen dataclass"),
        (NoValue(), "cannot be hashed: make it a frozen dataclass"),
        (Refuses("a good reason."), "must work, or be named in `refuses`, got the error: a good reason"),
        (fr.MLE, "has no method `fit`"),
        ("mle", "has no method `fit`"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_breaches_are_named(estimator, message):
    with pytest.raises(AssertionError, match=message):
        check_estimator(estimator)


def test_refusals_are_checked_too():
    with pytest.raises(AssertionError, match="must be refused in one sentence that ends in a full stop, not 'no'"):
        check_estimator(Refuses("no"), refuses=ADAPTIVE)
    with pytest.raises(AssertionError, match="must be refused with a ValueError, and was not"):
        check_estimator(Good(), refuses=ADAPTIVE)


def test_a_repr_that_does_not_evaluate_back():
    @dataclasses.dataclass(frozen=True)
    class Shy(Base):
        def __repr__(self):
            return "<shy>"

    with pytest.raises(AssertionError, match="the repr <shy> does not evaluate back"):
        check_estimator(Shy())


# ------------------------------------------------------------------------------------------------ the table of the papers


@pytest.mark.parametrize("estimator", discovered(), ids=str)
def test_unequal_sizes_and_pools(estimator, rng):
    """Fixed-size estimators refuse unequal samples in one sentence; pools that differ are no obstacle to any."""
    name = type(estimator).__name__
    unequal = fr.RankCounts.from_ranks([1, 2, 3], 100, "uni9", drawn=[9, 5, 9])
    if name in {"CLS", "Mapping"}:
        with pytest.raises(ValueError, match=f"`{name}` needs the same number of negatives for every case"):
            estimator.fit(unequal)
    else:
        assert np.isfinite(estimator.fit(unequal).expect("recall@10"))
    pools = fr.RankCounts.from_ranks(rng.integers(1, 8, 300), rng.integers(60, 140, 300), "uni9")
    assert np.isfinite(estimator.fit(pools).expect("recall@10"))


@pytest.mark.parametrize("estimator", discovered(), ids=str)
def test_the_extremes(estimator):
    """One case; every target on top; every target last."""
    for ranks in ([1], [10], [1] * 50, [5] * 50, [10] * 50):
        counts = fr.RankCounts.from_ranks(ranks, 100, "uni9")
        try:
            value = estimator.fit(counts).expect("recall@10")
        except ValueError as error:
            if "every target came last in its sample" not in str(error):
                raise
            continue
        assert np.isfinite(value)


@pytest.mark.parametrize("estimator", discovered(), ids=str)
def test_two_items(estimator):
    counts = fr.RankCounts.from_ranks([1, 2, 1], 2, "uni1")
    assert estimator.fit(counts).expect("recall@2") == pytest.approx(1, abs=0.35)
