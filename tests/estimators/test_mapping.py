"""li20's mapping functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fullrank as fr
import naive

SIZES = [(100, 3706), (100, 16_980), (10, 50), (2, 10)]


@pytest.mark.parametrize(("n", "N"), SIZES)
@pytest.mark.parametrize("a", [0.05, 0.25, 0.5, 0.9, 1.0, 1.7])
def test_beta_equals_the_recurrence(n, N, a):
    f = fr.Mapping("beta", a).f(np.arange(1, n + 1), n - 1, N)
    np.testing.assert_allclose(f, naive.beta_mapping(n, N, a), rtol=1e-8)


@given(st.floats(0.02, 5), st.integers(1, 1000), st.integers(1001, 10**8))
def test_lemma_3_1_the_last_point_is_the_last_item(a, m, N):
    f = fr.Mapping("beta", a).f(np.arange(1, m + 2), m, N)
    assert f[-1] == pytest.approx(N, rel=1e-9)
    assert (np.diff(f) >= -1e-6 * N).all()
    assert f[0] >= 1


@pytest.mark.parametrize(("n", "N"), SIZES)
def test_eq_18_is_the_case_a_1(n, N):
    k = np.arange(1, n + 1)
    np.testing.assert_allclose(fr.Mapping("beta", 1.0).f(k, n - 1, N), k * (N - 1) / n + 1, rtol=1e-10)


@pytest.mark.parametrize(("n", "N"), SIZES)
def test_linear_and_bound_as_printed(n, N):
    k = np.arange(1, n + 1)
    np.testing.assert_allclose(fr.Mapping("linear").f(k, n - 1, N), (k - 1) / (n - 1) * (N - 1) + 1, rtol=1e-13)
    wanted = [((2 * int(each) - 1) * (N - 1) + (n - 1)) // (2 * (n - 1)) for each in k]  # eq. 13 in whole numbers
    assert fr.Mapping("bound").f(k, n - 1, N).tolist() == wanted
    assert fr.Mapping("linear").f(n, n - 1, N) == pytest.approx(N)


def test_the_aligned_curve_joins_the_points():
    r = np.array([1, 1, 2, 4, 10])
    counts = fr.RankCounts.from_ranks(r, 1000, "uni9")
    mapping = fr.Mapping("beta", 0.5)
    fitted = mapping.fit(counts)
    f = mapping.f(np.arange(1, 11), 9, 1000)
    recall = [np.mean(r <= k) for k in range(1, 11)]
    for k in (1, 3, 50, 500, 1000, 5000):
        assert fitted.expect(fr.Recall @ k) == pytest.approx(np.interp(k, [0, *f], [0, *recall]))
        assert fitted.expect(fr.Precision @ k) == pytest.approx(fitted.expect(fr.Recall @ k) / k)
    np.testing.assert_allclose(fitted.curve("recall", 3), [fitted.expect(fr.Recall @ k) for k in (1, 2, 3)])


def test_beta_at_p_is_a_fixed_point_of_eq_19(rng):
    R = naive.power_law_ranks(3000, 3706, rng, a=0.37)
    r = naive.draw(R, 3706, 99, True, rng)
    counts = fr.RankCounts.from_ranks(r, 3706, "uni99")
    a = fr.Mapping("beta").fitted(counts).a
    f = np.array(naive.beta_mapping(100, 3706, a))
    assert a == pytest.approx(-3000 / np.log((f[r - 1] - 1) / 3705).sum(), rel=1e-7)
    assert 0.3 < a < 0.55  # not a consistent estimate: f(r) stands for all ranks seen as r
    assert fr.Mapping("beta").fitted(counts, start=1.0).a == pytest.approx(a, rel=1e-6)
    assert fr.Mapping("beta").fit(counts).estimator.a == pytest.approx(a)


def test_one_a_shared_by_several_models(rng):
    parts = [
        fr.RankCounts.from_ranks(
            naive.draw(naive.power_law_ranks(500, 2000, rng, a), 2000, 99, True, rng), 2000, "uni99"
        )
        for a in (0.2, 0.6)
    ]
    own = [fr.Mapping("beta").fitted(part).a for part in parts]
    shared = fr.Mapping("beta").fitted(parts).a
    assert min(own) < shared < max(own)
    assert shared == pytest.approx(fr.Mapping("beta").fitted(parts[0] + parts[1]).a, rel=1e-9)


def test_beta_recovers_a_power_law(rng):
    R = naive.power_law_ranks(40_000, 2000, rng, a=0.4)
    counts = fr.RankCounts.from_ranks(naive.draw(R, 2000, 99, True, rng), 2000, "uni99")
    fitted = fr.Mapping("beta").fit(counts)
    for k in (20, 50, 200, 1000):
        assert fitted.expect(fr.Recall @ k) == pytest.approx(np.mean(k >= R), rel=0.05)


def test_misuse():
    counts = fr.RankCounts.from_ranks([1, 2], 100, "uni9")
    with pytest.raises(ValueError, match="`Mapping` estimates recall and precision only, not ndcg@10"):
        fr.Mapping("bound").fit(counts).expect("ndcg@10")
    with pytest.raises(ValueError, match="`kind` must be 'linear', 'bound' or 'beta', got 'gamma'"):
        fr.Mapping("gamma")
    with pytest.raises(ValueError, match="`a` must be positive, or None to fit it to the sample, got 0"):
        fr.Mapping("beta", 0)
    with pytest.raises(ValueError, match="`a` is None: Beta@P fits it to a sample"):
        fr.Mapping("beta").f(1, 9, 100)
    with pytest.raises(ValueError, match=r"`k` must be between 1 and negatives \+ 1 = 10, got 0"):
        fr.Mapping("beta", 0.5).f([1, 0], 9, 100)
    with pytest.raises(ValueError, match="every target came last in its sample"):
        fr.Mapping("beta").fit(fr.RankCounts.from_ranks([10, 10], 100, "uni9"))
    with pytest.raises(ValueError, match="`Mapping` is defined for one target per user"):
        fr.Mapping("bound").fit(fr.RankCounts.from_ranks([1, 2], 100, "uni9", order=[1, 2], targets=[2, 2]))
