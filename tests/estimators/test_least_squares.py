"""BiasVariance, Multinomial and CLS against the papers' matrix formulas on dense ranks."""

from __future__ import annotations

import numpy as np
import pytest

import fullrank as fr
import naive

N, m = 300, 15


def sample(rng, cases=2000, N=N, m=m, replace=True):
    R = naive.power_law_ranks(cases, N, rng)
    r = naive.draw(R, N, m, replace, rng)
    return r, fr.RankCounts.from_ranks(r, N, fr.Sample(m, replace))


def close(mass, wanted, tolerance=1e-8):
    np.testing.assert_allclose(mass, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


def corrected(estimator, metric, N=N, m=m, replace=True):
    """M̂(r): the estimate when every case has sampled rank r."""
    return np.array(
        [estimator.fit(fr.RankCounts.from_ranks([r], N, fr.Sample(m, replace))).expect(metric) for r in range(1, m + 2)]
    )


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01, 0.001])
def test_bias_variance_equals_the_textbook_inverse(gamma, replace, rng):
    r, counts = sample(rng, replace=replace)
    A = naive.law(N, m, replace)
    wanted = naive.bias_variance(A, np.full(N, 1 / N), naive.shares(r, m), gamma)
    fitted = fr.BiasVariance(gamma).fit(counts)
    close(fitted.mass(range(1, N + 1)), wanted)
    for metric in ("recall@10", "ndcg@10", "ap", "auc"):
        metric = fr.parse_metric(metric)
        b = [naive.gain(metric.name, R, metric.k, N) for R in range(1, N + 1)]
        assert fitted.expect(metric) == pytest.approx(wanted @ b, rel=1e-8)


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("cases", [1, 40, 2000])
def test_multinomial_equals_the_textbook_inverse(cases, replace, rng):
    r, counts = sample(rng, cases, replace=replace)
    A = naive.law(N, m, replace)
    wanted = naive.multinomial(A, np.full(N, 1 / N), naive.shares(r, m), cases)
    close(fr.Multinomial().fit(counts).mass(range(1, N + 1)), wanted)


def test_weights_are_shares_and_cases_are_cases(rng):
    r = rng.integers(1, m + 2, 200)
    w = rng.random(200)
    counts = fr.RankCounts.from_ranks(r, N, fr.Sample(m), weights=w)
    A, p = naive.law(N, m), naive.shares(r, m, w)
    close(fr.BiasVariance(0.05).fit(counts).mass(range(1, N + 1)), naive.bias_variance(A, np.full(N, 1 / N), p, 0.05))
    close(fr.Multinomial().fit(counts).mass(range(1, N + 1)), naive.multinomial(A, np.full(N, 1 / N), p, 200))


def test_gamma_1_is_the_posterior_mean_of_eq_26(rng):
    r, counts = sample(rng)
    A = naive.law(N, m)
    posterior = A / A.sum(0)  # p(R | r) under the uniform prior
    wanted = posterior @ naive.shares(r, m)
    close(fr.BiasVariance(1.0).fit(counts).mass(range(1, N + 1)), wanted, 1e-12)
    near = fr.BiasVariance(1 - 1e-9).fit(counts).mass(range(1, N + 1))
    close(near, wanted, 1e-6)


def bias(A, P, M_hat, b):
    return float(P @ (A @ M_hat - b) ** 2)


def spread(A, P, M_hat):
    return float(P @ (A @ M_hat**2 - (A @ M_hat) ** 2))


@pytest.mark.parametrize("metric", ["recall@10", "ap", "ndcg@30"])
def test_gamma_0_reaches_the_least_bias(metric):
    metric = fr.parse_metric(metric)
    A, P = naive.law(N, m), np.full(N, 1 / N)
    b = np.array([naive.gain(metric.name, R, metric.k, N) for R in range(1, N + 1)])
    best = np.linalg.lstsq(A, b, rcond=None)[0]
    reached = bias(A, P, corrected(fr.BiasVariance(0.0), metric), b)
    assert reached == pytest.approx(bias(A, P, best, b), rel=1e-6)


def test_gamma_trades_bias_for_variance():
    metric = fr.Recall @ 10
    A, P = naive.law(N, m), np.full(N, 1 / N)
    b = np.array([naive.gain("recall", R, 10, N) for R in range(1, N + 1)])
    hats = [corrected(fr.BiasVariance(gamma), metric) for gamma in (1e-4, 0.01, 0.1, 1.0)]
    biases, spreads = [bias(A, P, hat, b) for hat in hats], [spread(A, P, hat) for hat in hats]
    assert biases == sorted(biases)
    assert spreads == sorted(spreads, reverse=True)
    for gamma, hat in zip((1e-4, 0.01, 0.1, 1.0), hats, strict=True):  # eq. 24: no other M̂ does better
        own = bias(A, P, hat, b) + gamma * spread(A, P, hat)
        for scale in (1e-3, 1e-2):
            other = hat + scale * np.random.default_rng(0).normal(size=m + 1) * np.abs(hat).max()
            assert own <= bias(A, P, other, b) + gamma * spread(A, P, other)


@pytest.mark.parametrize("prior", [fr.MLE(), fr.MaxEntropy(), fr.MLE(iterations=5)], ids=str)
def test_multinomial_with_another_estimate_as_prior(prior, rng):
    r, counts = sample(rng)
    P = prior.fit(counts).mass(range(1, N + 1))
    wanted = naive.multinomial(naive.law(N, m), P, naive.shares(r, m), 2000)
    close(fr.Multinomial(prior=prior).fit(counts).mass(range(1, N + 1)), wanted)


def test_multinomial_prior_is_the_papers_em(rng):
    r, counts = sample(rng, 300)
    likelihood = naive.law(N, m)[:, r - 1].T
    P, _ = naive.per_user_em(likelihood, 100)
    wanted = naive.multinomial(naive.law(N, m), P, naive.shares(r, m), 300)
    close(fr.Multinomial(prior=fr.MLE()).fit(counts).mass(range(1, N + 1)), wanted, 1e-7)


@pytest.mark.parametrize("prior", [fr.MLE(), fr.MaxEntropy(), fr.MLE(iterations=3000)], ids=str)
def test_bias_variance_with_a_peaked_prior_reaches_the_objective(prior, rng):
    """The system is close to singular, so M̂ is not unique to 1e-8: what it minimises (kr20 eq. 24) is."""
    r, counts = sample(rng)
    gamma, A = 0.01, naive.law(N, m)
    P = prior.fit(counts).mass(range(1, N + 1))
    metric = fr.NDCG @ 10
    b = np.array([naive.gain("ndcg", R, 10, N) for R in range(1, N + 1)])
    gram = (1 - gamma) * (A.T * P) @ A + gamma * np.diag(P @ A)
    best = np.linalg.lstsq(gram, (A.T * P) @ b, rcond=1e-14)[0]

    def objective(hat):
        return bias(A, P, hat, b) + gamma * spread(A, P, hat)

    class Fixed:  # the same prior for every sampled rank
        def fit(self, _):
            return prior.fit(counts)

    reached = objective(corrected(fr.BiasVariance(gamma, prior=Fixed()), metric))
    assert reached == pytest.approx(objective(best), rel=1e-6)
    estimate = fr.BiasVariance(gamma, prior=prior).fit(counts).expect(metric)
    assert estimate == pytest.approx(naive.shares(r, m) @ best, rel=1e-5)


def test_outcomes_the_prior_deems_impossible_are_named():
    class Top:  # a prior that knows rank 1 only
        def fit(self, counts):
            return fr.MLE().fit(fr.RankCounts.from_ranks([1], counts.n_items, "full"))

    counts = fr.RankCounts.from_ranks([1, 1, 1, 5], 100, "uni9")
    fitted = fr.BiasVariance(prior=Top()).fit(counts)
    assert fitted.fit_info.notes == (
        "25.00% of the cases have outcomes that the prior deems impossible: they are left out.",
    )
    assert fr.BiasVariance().fit(counts).fit_info.notes == ()


def test_a_prior_of_single_ranks_stays_on_them(rng):
    counts = fr.RankCounts.from_ranks([1, 5, 10], 100, "uni9")
    mass = fr.BiasVariance(1.0, prior=fr.RankEstimate()).fit(counts).mass(range(1, 101))
    assert np.flatnonzero(np.abs(mass) > 1e-12).tolist() == [0, 44, 99]
    signed = fr.Multinomial(prior=fr.BiasVariance(0.001)).fit(counts)  # clipped, not refused
    assert np.isfinite(signed.expect("recall@10"))


def test_unequal_sizes_take_the_size_into_the_outcome(rng):
    sizes = np.array([5, 12])
    drawn = rng.choice(sizes, 500, p=[0.3, 0.7])
    R = naive.power_law_ranks(500, N, rng)
    x = rng.binomial(drawn, (R - 1) / (N - 1))
    counts = fr.RankCounts.from_ranks(x + 1, N, fr.Sample(12), drawn=drawn)
    share = [np.mean(drawn == size) for size in sizes]
    A = np.concatenate([s * naive.law(N, size) for s, size in zip(share, sizes, strict=True)], axis=1)
    p = np.concatenate([np.bincount(x[drawn == size], minlength=size + 1) for size in sizes]) / 500
    P = np.full(N, 1 / N)
    close(fr.BiasVariance(0.01).fit(counts).mass(range(1, N + 1)), naive.bias_variance(A, P, p, 0.01))
    close(fr.Multinomial().fit(counts).mass(range(1, N + 1)), naive.multinomial(A, P, p, 500))


@pytest.mark.parametrize(
    "design",
    [
        fr.Adaptive(4, 40, 1),
        fr.Adaptive(4, 40, 3),
        fr.Adaptive(5, "all", 2, replace=False),
        fr.Adaptive(6, 30, 2, replace=False),
    ],
    ids=str,
)
def test_adaptive_with_the_exact_law(design, rng):
    n_items, cases = 60, 400
    parts = (design.negatives, design.max_negatives, design.stop_at, design.replace)
    laws = [naive.adaptive_law(R, n_items, *parts) for R in range(1, n_items + 1)]
    keys = sorted({key for law in laws for key, chance in law.items() if chance > 0})
    A = np.array([[law.get(key, 0.0) for key in keys] for law in laws])
    R = naive.power_law_ranks(cases, n_items, rng)
    seen = np.array([naive.draw_adaptive(each, n_items, *parts, rng) for each in R])
    counts = fr.RankCounts.from_ranks(seen[:, 1] + 1, n_items, design, drawn=seen[:, 0])
    p = np.zeros(len(keys))
    for size, x in seen:
        p[keys.index((0 if size == n_items - 1 and not design.replace else int(size), int(x)))] += 1 / cases
    kept = A.sum(0) > 1e-11  # the package leaves practically impossible outcomes out
    A, p = A[:, kept], p[kept]
    P = np.full(n_items, 1 / n_items)
    close(fr.BiasVariance(0.01).fit(counts).mass(range(1, n_items + 1)), naive.bias_variance(A, P, p, 0.01), 1e-7)
    close(fr.Multinomial().fit(counts).mass(range(1, n_items + 1)), naive.multinomial(A, P, p, cases), 1e-7)


def test_pool_bins_are_solved_each_on_its_own(rng):
    cases = 600
    pools = rng.choice([120, 200, N], cases)
    R = 1 + (rng.random(cases) ** 3 * pools).astype(int)
    r = 1 + rng.binomial(m, (R - 1) / (pools - 1))
    counts = fr.RankCounts.from_ranks(r, pools, fr.Sample(m))
    wanted = np.zeros(N)
    for pool in (120, 200, N):
        here = pools == pool
        part = naive.bias_variance(naive.law(pool, m), np.full(pool, 1 / pool), naive.shares(r[here], m), 0.01)
        wanted[:pool] += here.mean() * part
    close(fr.BiasVariance(0.01, n_items="bins").fit(counts).mass(range(1, N + 1)), wanted)


def test_the_mean_pool_is_kr20s_way(rng):
    pools = rng.choice([90, 110], 400)
    pools[:2] = [90, 110]
    pools = np.concatenate([pools, 200 - pools])  # mean exactly 100
    r = rng.integers(1, 8, 800)
    counts = fr.RankCounts.from_ranks(r, pools, "uni9")
    same = fr.RankCounts.from_ranks(r, 100, "uni9")
    for estimator in (fr.BiasVariance(), fr.Multinomial(), fr.MaxEntropy(), fr.CLS(), fr.MLE(n_items="mean")):
        assert estimator.fit(counts).expect("recall@10") == pytest.approx(
            estimator.fit(same).expect("recall@10"), rel=1e-9
        )


# ------------------------------------------------------------------------------------------------------------- CLS


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("metric", ["recall@10", "ap", "ndcg@30", "auc"])
def test_cls_reaches_the_constrained_optimum(metric, replace):
    import cvxpy as cp

    metric = fr.parse_metric(metric)
    A, P = naive.law(N, m, replace), np.full(N, 1 / N)
    b = np.array([naive.gain(metric.name, R, metric.k, N) for R in range(1, N + 1)])
    hat = corrected(fr.CLS(), metric, replace=replace)
    assert (np.diff(hat) <= 1e-10).all()
    assert (hat >= 0).all()
    free = cp.Variable(m + 1)
    q, upper = np.linalg.qr(A / np.sqrt(N))
    problem = cp.Problem(
        cp.Minimize(cp.sum_squares(upper @ free - q.T @ b / np.sqrt(N))), [cp.diff(free) <= 0, free >= 0]
    )
    problem.solve(solver=cp.CLARABEL)
    best = bias(A, P, free.value, b)
    assert bias(A, P, hat, b) <= best * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize(("n_items", "weight"), [(3706, 0.465), (16_980, 0.114)])
def test_cls_weight_of_sampled_rank_1(n_items, weight):
    """Recall@10 with 99 negatives rests on sampled rank 1 alone: what a case at rank 1 counts for."""
    hats = [
        fr.CLS().fit(fr.RankCounts.from_ranks([r], n_items, "uni99")).expect("recall@10") for r in (1, 2, 3, 50, 100)
    ]
    assert hats[0] == pytest.approx(weight, abs=0.0005)
    np.testing.assert_allclose(hats[1:], 0, atol=1e-12)


@pytest.mark.parametrize(("metric", "published"), [("recall@10", 8.42), ("ndcg@10", 3.94), ("ap", 3.54)])
def test_cls_is_the_one_of_kr20_table_3(metric, published):
    """Y of Table 3: 17.28 % of the cases at sampled rank 1 of 100 negatives, 3541 candidates on the mean.

    Where M̂ might fall below zero, Recall would come to 8.29 and NDCG to 3.88.
    """
    first, last = (fr.CLS().fit(fr.RankCounts.from_ranks([r], 3541, "uni100")).expect(metric) for r in (1, 50))
    assert 17.28 * first + 82.72 * last == pytest.approx(published, abs=0.02)


def test_cls_of_a_metric_below_zero():
    mine = fr.Metric("mine", lambda R: -np.log(R))
    hat = corrected(fr.CLS(), mine)
    assert (np.diff(hat) <= 1e-10).all()
    assert (hat >= -np.log(N)).all()
    assert hat[-1] < -5


def test_cls_is_linear_in_the_shares(rng):
    r, counts = sample(rng, 300)
    for metric in ("recall@10", "ndcg@20", "ap"):
        wanted = naive.shares(r, m) @ corrected(fr.CLS(), metric)
        assert fr.CLS().fit(counts).expect(metric) == pytest.approx(wanted, rel=1e-10)


def test_cls_tells_hit_from_recall_with_several_targets(rng):
    r = rng.integers(1, 11, 200)
    counts = fr.RankCounts.from_ranks(r, 100, "uni9", order=np.tile([1, 2], 100), targets=[2] * 200)
    both = fr.CLS().fit(counts)
    recall = both.expect("recall@10")
    assert both.expect("hit@10") == fr.CLS().fit(counts).expect("hit@10") != recall
    np.testing.assert_allclose(both.curve("recall", [10]), [recall])


def test_cls_has_no_distribution(rng):
    _, counts = sample(rng, 50)
    with pytest.raises(ValueError, match="has no rank distribution to offer: use MLE"):
        fr.BiasVariance(prior=fr.CLS()).fit(counts)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_gamma_out_of_range(gamma):
    with pytest.raises(ValueError, match=r"`gamma` must be a finite number between 0 and 1"):
        fr.BiasVariance(gamma)


@pytest.mark.parametrize("prior", ["mle", fr.MLE, 3])
def test_what_is_no_prior(prior):
    for make in (lambda: fr.BiasVariance(prior=prior), lambda: fr.Multinomial(prior=prior)):
        with pytest.raises(TypeError, match="`prior` must be an estimator such as MLE"):
            make()
