"""The audit: it agrees with estimates that are right, and exposes those that are not."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp

import fullrank as fr
from fullrank.evaluation.audit import Audit, predicted_gains, undecided
from fullrank.observing.budget import Budget

METRICS = (fr.NDCG @ 10, fr.Recall @ 10)
N = 600


def world(ranks):
    """Every user's target is item 0, and item i beats it if i < R."""
    ranks = np.asarray(ranks)

    def score(users, items):
        return -np.where(items == 0, ranks[users][:, None] - 0.5, items)

    return score, fr.Split(sp.csr_matrix((len(ranks), N)), np.arange(len(ranks)), np.zeros(len(ranks), dtype=np.int64))


def usual(rng, cases):
    return np.clip(np.round(np.exp(rng.uniform(0, np.log(N), cases))), 1, N).astype(np.int64)


@dataclass(frozen=True)
class Shifted:
    """LogSpline, but for the mass of the first ranks: a wrong estimate with a narrow interval."""

    factor: float

    def fit(self, counts):
        dist = fr.LogSpline().fit(counts)
        if dist.fitted is None:
            return dist
        masses = dist.masses.copy()
        head = dist.grid.hi <= 15
        masses[:, head] *= self.factor
        masses[:, ~head] *= (1 - masses[:, head].sum(1)) / masses[:, ~head].sum(1)
        return replace(dist, masses=masses, estimator=self)


def test_predicted_gains_against_bayes_by_hand(rng):
    model, split = world(usual(rng, 500))
    seen = fr.Observation(model, split, progress=False).advance(fr.Adaptive(9, 79, 2, replace=False))
    dist = fr.LogSpline().fit(seen.counts())
    ranks = np.arange(1, N + 1)
    mass = dist.mass(ranks)
    cases = np.flatnonzero(undecided(seen, 10))[:40]
    assert (seen.above[undecided(seen, 10)] < 10).all()
    for metric in METRICS:
        mean, variance = predicted_gains(dist, seen, cases, metric)
        for case, expected, spread in zip(cases, mean, variance, strict=True):
            after = mass * seen.design.law(ranks, N, [seen.drawn[case]], [seen.hits[case]])[:, 0]
            after, gain = after / after.sum(), metric.gain(ranks, N)
            assert expected == pytest.approx(after @ gain, rel=0.02, abs=1e-6)
            assert spread == pytest.approx(after @ gain**2 - (after @ gain) ** 2, rel=0.03, abs=1e-5)


@pytest.mark.parametrize(("factor", "least", "most"), [(1.0, 0.0, 0.2), (0.2, 0.8, 1.0), (4.0, 0.8, 1.0)])
def test_residuals_tell_right_from_wrong(factor, least, most):
    refuted = []
    for seed in range(12):
        model, split = world(usual(np.random.default_rng(seed), 600))
        seen = fr.Observation(model, split, rng=seed, progress=False).advance(fr.Adaptive(14, 29, 1, replace=False))
        before = seen.items_scored
        audit = Audit(np.random.default_rng(seed).permutation(600))
        audit.above[:] = -1
        for _ in range(6):  # the audit may grow with what is spent; here it takes what there is
            seen.items_scored += 60 * N
            audit.extend(seen, 10, Budget())
        assert len(audit.cases) >= 30
        assert seen.items_scored > before
        dist = Shifted(factor).fit(seen.counts())
        refuted.append(bool(audit.corrected(seen, dist, dict.fromkeys(METRICS, 0.005), 0.95, 10)))
    assert least <= np.mean(refuted) <= most


def test_a_narrow_interval_that_is_wrong_is_not_met(rng):
    model, split = world(usual(rng, 800))
    options = {"design": "adaptive", "precision": 0.15, "progress": False}
    right = fr.evaluate({"m": model}, split, METRICS, **options)
    audited = right.runs["m"].rounds[-1]
    assert right.runs["m"].stop_reason == "precision"
    assert audited["audited"] >= 4
    assert audited["refuted"] == []
    assert right.rows[0]["items_scored"] > right.estimates["m"].counts.items_scored  # the audit is counted
    wrong = fr.evaluate({"m": model}, split, METRICS, estimator=Shifted(4.0), **options)
    rounds = wrong.runs["m"].rounds
    assert any(each.get("refuted") for each in rounds), rounds
    first = next(each for each in rounds if "refuted" in each)
    cut = fr.evaluate(
        {"m": model}, split, METRICS, estimator=Shifted(4.0), max_items=first["items"] + 100 * N, **options
    )
    for row in cut.rows:  # rows and estimates say the same
        assert row.interval == pytest.approx(cut.estimates["m"].interval(row.metric))
    if cut.runs["m"].stop_reason == "budget" and cut.runs["m"].rounds[-1].get("refuted"):
        assert any("disagree with the estimate" in note for note in cut.notes)


def test_cases_of_one_user_are_audited_together(rng):
    users = np.repeat(np.arange(60), 2)
    items = np.tile([0, 1], 60)
    split = fr.Split(sp.csr_matrix((60, N)), users, items)
    seen = fr.Observation(rng.normal(size=N), split, progress=False).advance(fr.Adaptive(9, 19, 1, replace=False))
    audit = Audit(np.repeat(rng.permutation(60), 2))
    audit.extend(seen, 10, Budget())
    assert len(audit.cases) >= 4
    assert len(audit.cases) == 2 * len(np.unique(users[audit.cases]))
