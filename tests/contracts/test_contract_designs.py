"""The contract over designs, and the check itself against designs that break it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import fullrank as fr
from fullrank.testing import check_design

DESIGNS = [
    (fr.Exhaustive(), 25),
    (fr.Sample(1), 10),
    (fr.Sample(9), 60),
    (fr.Sample(99), 40),
    (fr.Sample(9, replace=False), 60),
    (fr.Sample(39, replace=False), 40),
    (fr.Adaptive(5, 47, stop_at=1), 60),
    (fr.Adaptive(5, 47, stop_at=3), 60),
    (fr.Adaptive(5, 30, stop_at=2, replace=False), 60),
    (fr.Adaptive(5, "all", stop_at=1, replace=False), 60),
    (fr.Adaptive(4, "all", stop_at=10, replace=False), 40),
    (fr.Adaptive(0.1, 0.5, stop_at=2), 61),
    (fr.Adaptive(20, "all", stop_at=1), 50),
]


@pytest.mark.parametrize(("design", "n_items"), DESIGNS, ids=str)
def test_contract(design, n_items):
    check_design(design, n_items)


def one_by_one(draw):
    """Let a design simulate itself by ``draw(design, rank, n_items, rng)``, which gives (drawn, hits) of one case."""

    def simulate(self, ranks, n_items, rng):
        return np.array([draw(self, rank, n_items, rng) for rank in ranks], dtype=np.int64).T

    return simulate


@dataclass(frozen=True)
class DrawnTop(fr.Top):
    @one_by_one
    def simulate(self, rank, n_items, rng):
        if rank <= self.k or self.negatives >= n_items - 1:
            return 0, rank - 1
        others = rng.choice(n_items - 1, self.negatives, replace=self.replace)
        return self.negatives, int((others < rank - 1).sum())


@pytest.mark.parametrize("given", [(3, 9), (10, 5, False), (70, 9), (4, 99)])
def test_contract_of_top(given):
    check_design(DrawnTop(*given), 60, parses=False)
    check_design(fr.Top(*given), 60)


@dataclass(frozen=True)
class Biased(fr.Sample):
    def auc(self, drawn, hits, n_items):
        return 1 - (np.asarray(hits) + 1) / (np.asarray(drawn) + 1)


@dataclass(frozen=True)
class Halved(fr.Sample):
    def law(self, *args):
        return super().law(*args) / 2


@dataclass(frozen=True)
class Short(fr.Sample):
    def outcomes(self, n_items):
        drawn, hits = super().outcomes(n_items)
        return drawn[:-1], hits[:-1]


@dataclass(frozen=True)
class Twice(fr.Sample):
    def outcomes(self, n_items):
        drawn, hits = super().outcomes(n_items)
        return np.append(drawn, drawn[0]), np.append(hits, hits[0])


@dataclass(frozen=True)
class Plain(fr.Adaptive):
    """Forgets the constant of the stage: fine for a likelihood, wrong as a law."""

    def law(self, ranks, n_items, drawn, hits):
        return fr.Sample(1, self.replace).law(ranks, n_items, drawn, hits)


@dataclass(frozen=True)
class Falling(fr.Sample):
    def stages(self, n_items):
        return (9, 5)


@dataclass(frozen=True)
class Greedy(fr.Sample):
    def stages(self, n_items):
        return (self.negatives,)


@pytest.mark.parametrize(
    ("design", "message"),
    [
        (Biased(9), "the AUC of .* is biased"),
        (Halved(9), r"adds to 0\.500000000 at rank"),
        (Short(9), "not to 1: an outcome is missing or miscounted"),
        (Twice(9), "names an outcome twice"),
        (Plain(5, 47, 2), "adds to .* not to 1"),
        (Falling(9), "must increase"),
        (Greedy(99, replace=False), "exceed the candidates, though nothing is drawn twice"),
        ("uni9", "lacks a method of the protocol"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_breaches_are_named(design, message):
    with pytest.raises(AssertionError, match=message):
        check_design(design, parses=False)


def test_a_law_that_is_not_that_of_the_drawing():
    class Lazy(fr.Sample):
        @one_by_one
        def simulate(self, rank, n_items, rng):  # draws from the upper half of the catalogue only
            return 9, int((rng.integers(0, (n_items - 1) // 2, 9) < rank - 1).sum())

    with pytest.raises(AssertionError, match="is not that of what is drawn"):
        check_design(Lazy(9), parses=False)

    class Odd(fr.Sample):
        @one_by_one
        def simulate(self, rank, n_items, rng):
            return 8, 0

    with pytest.raises(
        AssertionError, match=r"draws the outcome \(drawn, hits\) = \(8, 0\), which its `outcomes` leave out"
    ):
        check_design(Odd(9), parses=False)


def test_prints_that_do_not_parse_back():
    with pytest.raises(AssertionError, match="prints as 'uni9', which parses back as Sample"):
        check_design(Greedy(9))

    @dataclass(frozen=True)
    class Silent(fr.Sample):
        def __str__(self):
            return "mine"

    with pytest.raises(AssertionError, match="prints as 'mine', which does not parse back: unknown design"):
        check_design(Silent(9))
    check_design(Silent(9), parses=False)


def test_a_design_of_ones_own_works_end_to_end(rng):
    """Estimators know nothing of the drawing: a design with its law is enough."""

    @dataclass(frozen=True)
    class Half(fr.Sample):
        """Negatives come from the better half of the candidates only."""

        def law(self, ranks, n_items, drawn, hits):
            inner = np.minimum(np.asarray(ranks, float), n_items // 2 + 1)
            return fr.Sample(self.negatives).law(inner, n_items // 2 + 1, drawn, hits)

    N = 200
    R = 1 + np.floor(100 * rng.random(4000) ** 3).astype(int)
    r = 1 + rng.binomial(30, (R - 1) / 100)
    counts = fr.RankCounts.from_ranks(r, N, Half(30))
    own = fr.MLE(iterations=500).fit(counts).expect("recall@10")
    assert own == pytest.approx(np.mean(R <= 10), rel=0.1)
