"""The audit: it agrees with estimates that are right, and exposes those that are not."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp

import fullrank as fr
from fullrank.evaluation.audit import Audit, predicted_gains, to_audit, undecided
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
    last: int = 15

    def fit(self, counts):
        dist = fr.LogSpline().fit(counts)
        if dist.fitted is None:
            return dist
        masses = dist.masses.copy()
        head = dist.grid.hi <= self.last
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
            audit.extend(seen, undecided(seen, 10), Budget())
        assert len(audit.cases) >= 30
        assert seen.items_scored > before
        dist = Shifted(factor).fit(seen.counts())
        about = dict.fromkeys(METRICS, undecided(seen, 10))
        refuted.append(bool(audit.corrected(seen, dist, about, dict.fromkeys(METRICS, 0.005), 0.95)))
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


@pytest.mark.parametrize("metric", ["ap", "ndcg", fr.Metric("root", lambda R: R**-0.5)], ids=str)
def test_metrics_without_a_cut_off_are_audited_too(rng, metric):
    model, split = world(usual(rng, 800))
    run = fr.evaluate({"m": model}, split, metric, design="adaptive", precision=0.1, progress=False).runs["m"]
    assert run.stop_reason == "precision"
    assert run.rounds[-1]["audited"] >= 4
    assert run.rounds[-1]["refuted"] == []


def test_a_wrong_average_precision_is_refuted_more_often_than_not():
    """The first ranks look alike to a sample: which of them a case has is for the prior to say, or the audit."""
    refuted = []
    for seed in range(10):
        model, split = world(usual(np.random.default_rng(seed), 800))
        options = {"design": "adaptive", "precision": 0.08, "progress": False, "rng": seed}
        rounds = fr.evaluate({"m": model}, split, "ap", estimator=Shifted(0.05, 3), **options).runs["m"].rounds
        refuted.append(["ap"] in [each.get("refuted") for each in rounds])
    assert np.mean(refuted) > 0.5


def test_an_estimate_that_is_always_refuted_ends_in_the_full_ranking(rng, monkeypatch):
    """Cases beaten more often than any cut-off are open as well: without going on with them it would never end."""
    monkeypatch.setattr(Audit, "corrected", lambda *_: {fr.NDCG: (0.5, 0.1)})
    ranks = usual(rng, 200)
    model, split = world(ranks)
    report = fr.evaluate({"m": model}, split, "ndcg", design="adaptive", precision=0.3, progress=False)
    assert report.rows[0].value == pytest.approx(float(fr.NDCG.gain(ranks).mean()))
    assert len(report.runs["m"].rounds) <= 12


def test_an_audit_without_a_cut_off_is_about_the_cases_that_matter(rng):
    model, split = world(usual(rng, 800))
    seen = fr.Observation(model, split, progress=False).advance(fr.Adaptive(15, 255, 1, replace=False))
    dist = fr.LogSpline().fit(seen.counts())
    unknown = seen.begun & ~seen.known
    variance = np.zeros(len(unknown))
    variance[unknown] = predicted_gains(dist, seen, np.flatnonzero(unknown), fr.AP)[1]
    chosen = to_audit(seen, dist, fr.AP, 10)
    assert not chosen[~unknown].any()
    assert variance[chosen].sum() >= 0.9 * variance.sum()
    assert chosen.sum() < 0.5 * unknown.sum()
    assert variance[chosen].min() > variance[unknown & ~chosen].max()
    np.testing.assert_array_equal(to_audit(seen, dist, fr.AP @ 10, 10), undecided(seen, 10))


def test_auc_is_not_audited(rng):
    """A sample shows it by itself: ranks in full would only make it dear."""
    model, split = world(usual(rng, 800))
    options = {"design": "adaptive", "precision": 0.1, "progress": False}
    report = fr.evaluate({"m": model}, split, "auc", **options)
    assert report.runs["m"].stop_reason == "precision"
    assert "audited" not in report.runs["m"].rounds[-1]
    assert "audited" in fr.evaluate({"m": model}, split, ["auc", "ap"], **options).runs["m"].rounds[-1]


def test_cases_of_one_user_are_audited_together(rng):
    users = np.repeat(np.arange(60), 2)
    items = np.tile([0, 1], 60)
    split = fr.Split(sp.csr_matrix((60, N)), users, items)
    scores = np.append([9.0, 8.0], rng.normal(size=N - 2))  # all cases stay open
    seen = fr.Observation(scores, split, progress=False).advance(fr.Adaptive(199, 399, 1, replace=False))
    audit = Audit(np.repeat(rng.permutation(60), 2))
    audit.extend(seen, undecided(seen, 10), Budget())
    assert len(audit.cases) >= 4
    assert len(audit.cases) == 2 * len(np.unique(users[audit.cases]))
