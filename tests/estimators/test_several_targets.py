"""Several targets per user: metrics equal brute force on full ranked lists."""

from __future__ import annotations

import numpy as np
import pytest

import fullrank as fr
import naive

NAMES = ("recall", "precision", "ndcg", "ap", "hit", "mrr")
ALL_ESTIMATORS = [
    fr.Naive(),
    fr.RankEstimate(),
    fr.CLS(),
    fr.BiasVariance(),
    fr.MLE(),
    fr.WeightedMLE(),
    fr.MaxEntropy(),
    fr.Multinomial(),
    fr.Mapping("bound"),
]


def lists(rng, users=60, N=40, targets=None):
    """Ranked lists of random scores, and the cases made of them: (user, inner rank, order, T, pool)."""
    ranked, cases = [], []
    for user in range(users):
        T = int(rng.integers(1, 6)) if targets is None else targets
        scores = rng.normal(size=N)
        relevant = np.zeros(N, dtype=bool)
        relevant[rng.choice(N, T, replace=False)] = True
        scores[relevant] += 1.0
        ranked.append(relevant[np.argsort(-scores)])
        places = np.flatnonzero(ranked[-1])
        cases += [(user, place + 1 - j, j + 1, T, N - T + 1) for j, place in enumerate(places)]
    return ranked, np.array(cases).T


def brute(ranked, k):
    per_user = [naive.full_list_metrics(relevant, k) for relevant in ranked]
    return {name: np.mean([each[name] for each in per_user]) for name in per_user[0]}


@pytest.mark.parametrize("estimator", ALL_ESTIMATORS, ids=str)
@pytest.mark.parametrize("k", [1, 2, 5, 10, 40])
def test_exhaustive_equals_brute_force_on_full_lists(estimator, k, rng):
    ranked, (user, inner, order, T, pool) = lists(rng)
    counts = fr.RankCounts.from_ranks(inner, pool, "full", users=user, order=order, targets=T)
    wanted, fitted = brute(ranked, k), estimator.fit(counts)
    for name in NAMES:
        assert fitted.expect(f"{name}@{k}") == pytest.approx(wanted[name], rel=1e-12), name
    assert fitted.expect("auc") == pytest.approx(wanted["auc"], rel=1e-12)


def test_uncut_metrics_equal_brute_force(rng):
    ranked, (user, inner, order, T, pool) = lists(rng)
    counts = fr.RankCounts.from_ranks(inner, pool, "full", users=user, order=order, targets=T)
    wanted, fitted = brute(ranked, None), fr.MLE().fit(counts)
    for name in ("recall", "ndcg", "ap", "hit", "mrr", "auc"):
        assert fitted.expect(name) == pytest.approx(wanted[name], rel=1e-12), name


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize(
    "estimator", [fr.MLE(), fr.BiasVariance(), fr.Multinomial(), fr.RankEstimate(), fr.CLS(), fr.Naive()], ids=str
)
def test_everything_sampled_equals_brute_force(estimator, targets, rng):
    ranked, (user, inner, order, T, pool) = lists(rng, targets=targets)
    design = fr.Sample(int(pool[0]) - 1, replace=False)
    counts = fr.RankCounts.from_ranks(inner, pool, design, users=user, order=order, targets=T)
    wanted, fitted = brute(ranked, 5), estimator.fit(counts)
    for name in NAMES:
        assert fitted.expect(f"{name}@5") == pytest.approx(wanted[name], rel=1e-6), name
    assert fitted.expect("auc") == pytest.approx(wanted["auc"], rel=1e-8)


def test_weights_of_users(rng):
    ranked, (user, inner, order, T, pool) = lists(rng)
    w = rng.random(len(ranked)) + 0.1
    counts = fr.RankCounts.from_ranks(inner, pool, "full", users=user, order=order, targets=T, weights=w[user])
    per_user = [naive.full_list_metrics(relevant, 5) for relevant in ranked]
    fitted = fr.MLE().fit(counts)
    for name in NAMES:
        wanted = np.average([each[name] for each in per_user], weights=w)
        assert fitted.expect(f"{name}@5") == pytest.approx(wanted, rel=1e-12)


def test_mass_and_cdf_speak_of_the_full_list(rng):
    ranked, (user, inner, order, T, pool) = lists(rng)
    counts = fr.RankCounts.from_ranks(inner, pool, "full", users=user, order=order, targets=T)
    fitted = fr.MLE().fit(counts)
    wanted = np.mean(
        [relevant / relevant.sum() for relevant in ranked], axis=0
    )  # a user's targets share the user's one
    np.testing.assert_allclose(fitted.mass(range(1, 41)), wanted, atol=1e-12)
    np.testing.assert_allclose(fitted.cdf(range(1, 41)), np.cumsum(wanted), rtol=1e-12)


@pytest.mark.parametrize("estimator", [fr.BiasVariance(0.01), fr.MLE(), fr.Multinomial()], ids=str)
def test_sampled_lists_are_close_to_the_truth(estimator, rng):
    ranked, (user, inner, order, T, pool) = lists(rng, users=4000, targets=2)
    r = naive.draw(inner, pool, 12, False, rng)
    counts = fr.RankCounts.from_ranks(r, pool, fr.Sample(12, replace=False), users=user, order=order, targets=T)
    wanted, fitted = brute(ranked, 10), estimator.fit(counts)
    uncorrected = fr.Naive().fit(counts)
    for name in ("recall", "ndcg", "ap", "hit", "mrr"):
        own = abs(fitted.expect(f"{name}@10") - wanted[name])
        assert own < 0.5 * abs(uncorrected.expect(f"{name}@10") - wanted[name]), name
        assert own < 0.05
    assert fitted.expect("auc") == pytest.approx(wanted["auc"], abs=0.01)


def test_each_order_is_estimated_from_its_own_cases(rng):
    """EM per (j, T) group equals EM on the group's cases alone."""
    _, (user, inner, order, T, pool) = lists(rng, users=80, targets=2)
    r = naive.draw(inner, pool, 9, True, rng)
    both = fr.MLE().fit(fr.RankCounts.from_ranks(r, pool, "uni9", users=user, order=order, targets=T))
    for row, j in enumerate((1, 2)):
        alone = fr.MLE().fit(fr.RankCounts.from_ranks(r[order == j], pool[order == j], "uni9"))
        np.testing.assert_allclose(both.masses[row], alone.masses[0], rtol=1e-10, atol=1e-15)


def shared_lists(rng, users, T, N, negatives):
    """Cases of users with one to T targets, ranked among negatives that all targets of a user share."""
    rows = []
    for user in range(users):
        number = int(rng.integers(1, T + 1))
        better = np.sort(np.minimum(rng.geometric(0.02 + 0.1 * rng.random(), number) * (1 + user % 3), N) - 1)
        drawn = rng.choice(N - 1, negatives, replace=False)
        rows += [(user, r + 1, j + 1, number, 1 + (drawn < r).sum()) for j, r in enumerate(better)]
    return np.array(rows).T


def test_each_case_has_the_gain_of_its_own_order_and_targets(rng):
    N, m = 400, 60
    user, _, order, T, sampled = shared_lists(rng, 400, 40, N, m)
    counts = fr.RankCounts.from_ranks(sampled, N, fr.Sample(m, replace=False), users=user, order=order, targets=T)
    dist = fr.LogSpline().fit(counts)
    posterior = dist.posterior
    assert len(dist.masses) < len(counts.groups[0])
    law = dist.grid.law(counts.design, N, np.full(len(sampled), m), sampled - 1)
    stratum = dict(
        zip(zip(*(each.tolist() for each in counts.groups[:2]), strict=True), dist.rows.tolist(), strict=True)
    )
    cases = np.zeros(N)  # expected at each rank, before they are lowered
    for case in range(len(sampled)):
        π = posterior.typical[stratum[int(order[case]), int(T[case])]] * law[:, case]
        cases += π / π.sum()
    kept = posterior.data.seen.sum(1) @ posterior.mass / cases
    assert np.all((kept[:20] > 0.9) & (kept[:20] < 1.1))
    for metric in (fr.Recall @ 10, fr.NDCG @ 20, fr.AP @ 10):
        total = 0.0
        for case in range(len(sampled)):
            π = posterior.typical[stratum[int(order[case]), int(T[case])]] * law[:, case]
            total += float(π @ (kept * metric.gain(np.arange(1, N + 1), N, order[case], T[case]))) / π.sum()
        assert dist.expect(metric) == pytest.approx(total / 400, rel=1e-6), metric
    assert dist.mass(np.arange(1, 11)).sum() == pytest.approx(dist.cdf(10), rel=1e-9)


def test_shared_negatives_widen_what_is_open_within_cases(rng):
    user, _, order, T, sampled = shared_lists(rng, 300, 8, 500, 60)
    about = {"users": user, "order": order, "targets": T}
    dist = fr.LogSpline().fit(fr.RankCounts.from_ranks(sampled, 500, fr.Sample(60, replace=False), **about))
    assert 1 < dist.posterior.shared_negatives(fr.Recall @ 10, 500) < 8
    single = fr.LogSpline().fit(fr.RankCounts.from_ranks(sampled, 500, fr.Sample(60, replace=False)))
    assert single.posterior.shared_negatives(fr.Recall @ 10, 500) == 1
