from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fullrank as fr
import naive
from fullrank.ranks.design import ALL

ADAPTIVE = [
    (fr.Adaptive(3, 40, 1), 50),
    (fr.Adaptive(3, 40, 2), 50),
    (fr.Adaptive(5, 23, 4, replace=False), 30),
    (fr.Adaptive(3, "all", 1, replace=False), 30),
    (fr.Adaptive(4, "all", 3, replace=False), 25),
    (fr.Adaptive(7, 7, 2), 20),
    (fr.Adaptive(0.1, 0.9, 2), 31),
]


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize(("N", "m"), [(2, 1), (11, 10), (40, 7), (100, 50)])
def test_sample_law_equals_scipy(N, m, replace):
    design = fr.Sample(m, replace)
    drawn, hits = design.outcomes(N)
    A = design.law(np.arange(1, N + 1), N, drawn, hits)
    np.testing.assert_allclose(A, naive.law(N, m, replace), rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("subset", [False, True])
@pytest.mark.parametrize(("N", "m"), [(10**9, 99), (10**8, 299), (3706, 99), (120, 100)])
def test_hypergeometric_keeps_its_digits(N, m, subset):
    ranks = [1, 2, 5, N // 1000 + 1, N // 100, N // 3, N - 1, N]
    hits = np.array([0, 1, 3, m // 2, m]) if subset else np.arange(m + 1)
    A = fr.Sample(m, replace=False).law(ranks, N, np.full(len(hits), m), hits)
    wanted = [[naive.hypergeometric_exact(int(x), N - 1, R - 1, m) for x in hits] for R in ranks]
    np.testing.assert_allclose(A, wanted, rtol=1e-9, atol=1e-290)


@pytest.mark.parametrize("N", [10**6, 10**8])
def test_binomial_at_large_catalogues(N):
    from scipy import stats

    ranks = np.array([1, 2, N // 1000, N // 2, N])
    A = fr.Sample(999).law(ranks, N, np.full(1000, 999), np.arange(1000))
    wanted = stats.binom.pmf(np.arange(1000)[None, :], 999, ((ranks - 1) / (N - 1))[:, None])
    np.testing.assert_allclose(A, wanted, rtol=1e-9, atol=1e-290)


@pytest.mark.parametrize(("design", "N"), ADAPTIVE, ids=str)
def test_adaptive_law_equals_a_walk_through_the_drawing(design, N):
    fixed = design.resolve(N)
    drawn, hits = design.outcomes(N)
    A = design.law(np.arange(1, N + 1), N, drawn, hits)
    for R in range(1, N + 1):
        walk = naive.adaptive_law(R, N, fixed.negatives, fixed.max_negatives, fixed.stop_at, fixed.replace)
        for column, key in enumerate(zip(drawn.tolist(), hits.tolist(), strict=True)):
            assert A[R - 1, column] == pytest.approx(walk.pop(key, 0.0), rel=1e-10, abs=1e-14), (R, key)
        assert sum(walk.values()) < 1e-11, "an outcome that can happen is not listed"


@pytest.mark.parametrize(
    ("design", "N"),
    [*ADAPTIVE, (fr.Sample(9), 50), (fr.Sample(9, False), 10), (fr.Sample(1), 7), (fr.Exhaustive(), 12)],
    ids=str,
)
def test_auc_is_unbiased_at_every_rank(design, N):
    drawn, hits = design.outcomes(N)
    ranks = np.arange(1, N + 1)
    A = design.law(ranks, N, drawn, hits)
    np.testing.assert_allclose(A @ design.auc(drawn, hits, np.full(len(hits), N)), (N - ranks) / (N - 1), atol=1e-11)


@given(st.integers(1, 12), st.integers(0, 60), st.integers(1, 5), st.integers(3, 60), st.booleans())
def test_adaptive_laws_are_laws_and_auc_unbiased(start, more, stop, N, replace):
    design = fr.Adaptive(start, start + more, stop, replace)
    drawn, hits = design.outcomes(N)
    ranks = np.arange(1, N + 1)
    A = design.law(ranks, N, drawn, hits)
    assert (A >= 0).all()
    np.testing.assert_allclose(A.sum(1), 1, atol=1e-11)
    np.testing.assert_allclose(A @ design.auc(drawn, hits, N), (N - ranks) / (N - 1), atol=1e-10)
    assert list(design.stages(N)) == naive.stages(N, start, start + more, replace)


def test_ranks_past_the_pool_cannot_be():
    for design in (fr.Sample(3), fr.Sample(3, False)):
        A = design.law([9, 10, 11, 12], 10, [3, 3, 3, 3], [0, 1, 2, 3])
        np.testing.assert_allclose(A.sum(1), [1, 1, 0, 0], atol=1e-12)


def test_stages():
    assert fr.Exhaustive().stages(10) == (ALL,)
    assert fr.Sample(99).stages(10_000) == (99,)
    assert fr.Sample(99).stages(50) == (99,)
    assert fr.Sample(99, replace=False).stages(50) == (49,)
    assert fr.Adaptive(99, 3199, 1).stages(10_000) == (99, 199, 399, 799, 1599, 3199)  # li23: n = 100, 200, … 3200
    assert fr.Adaptive(99, 500, 1).stages(10_000) == (99, 199, 399, 500)
    assert fr.Adaptive(0.01, 0.1, 1).stages(10_001) == (100, 201, 403, 807, 1000)
    assert fr.Adaptive(99, "all", 1, replace=False).stages(300) == (99, 199, ALL)
    assert fr.Adaptive(99, 3199, 1, replace=False).stages(50) == (ALL,)


def test_resolve_turns_shares_into_numbers_and_leaves_numbers_alone():
    assert fr.Adaptive(0.01, 0.1, 2).resolve(10_001) == fr.Adaptive(100, 1000, 2)
    assert fr.Adaptive(9, 150, 1, replace=False).resolve(100) == fr.Adaptive(9, 150, 1, replace=False)
    assert fr.Adaptive(9, "all", 1, replace=False).resolve(100) == fr.Adaptive(9, "all", 1, replace=False)
    assert fr.Adaptive(9, "all", 1).resolve(100) == fr.Adaptive(9, 99, 1)
    assert fr.Adaptive(9, 1.0, 1, replace=False).resolve(100).stages(100)[-1] == ALL


DESIGNS = [
    fr.Exhaustive(),
    fr.Sample(99),
    fr.Sample(1, replace=False),
    fr.Adaptive(),
    fr.Adaptive(99, 3199, 1),
    fr.Adaptive(9, "all", 10, replace=False),
    fr.Adaptive(0.01, 0.15, 2),
    fr.Adaptive(1e-05, 0.0001, 2, replace=False),
    fr.Adaptive(99, 0.125),
]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_designs_are_values(design):
    assert fr.parse_design(str(design)) == design
    assert fr.parse_design(f"  {str(design).upper()} ") == design
    assert fr.parse_design(design) is design
    assert eval(repr(design), vars(fr)) == design
    assert hash(eval(repr(design), vars(fr))) == hash(design)
    assert isinstance(design, fr.Design)
    assert pickle.loads(pickle.dumps(design)) == design  # workers get them this way
    with pytest.raises(AttributeError):
        design.replace = True


COUNTS = st.integers(1, 10**12)
SHARES = st.floats(0, 1, exclude_min=True)
SIZES = st.one_of(COUNTS, SHARES, SHARES.map(np.float32).filter(bool), COUNTS.map(np.int64))
STOPS, FLAGS = st.integers(1, 10**6), st.booleans()


def _made(kind, *fields):
    """Designs of this kind, without the few whose sizes do not go together."""

    def make(values):
        try:
            return kind(*values)
        except ValueError as error:
            assert "below" in str(error)  # noqa: PT017 (`max_negatives` or `deepest`)
            return None

    return st.tuples(*fields).map(make).filter(lambda design: design is not None)


@given(
    st.one_of(
        st.just(fr.Exhaustive()),
        _made(fr.Sample, COUNTS, FLAGS),
        _made(fr.Top, st.integers(1, 1000), COUNTS, FLAGS),
        _made(fr.Adaptive, SIZES, st.one_of(SIZES, st.just("all")), STOPS, FLAGS),
        _made(fr.Guided, STOPS, COUNTS, st.none(), st.none() | STOPS, st.floats(0, 1), st.none() | STOPS),
        _made(fr.Guided, STOPS, SIZES, st.one_of(SIZES, st.just("all")), st.none() | STOPS, st.floats(0, 1)),
    )
)
def test_whatever_its_numbers_a_design_prints_and_parses_back(design):
    again = fr.parse_design(str(design))
    assert again == design
    assert hash(again) == hash(design)
    assert eval(repr(design), vars(fr)) == design
    assert str(again) == str(design)


def test_words():
    assert fr.parse_design("uni99") == fr.parse_design("uniform99") == fr.parse_design("uni_99") == fr.Sample(99)
    assert fr.parse_design("uni99 without replacement") == fr.Sample(99, replace=False)
    assert fr.parse_design("full") == fr.parse_design("all") == fr.Exhaustive()
    assert fr.parse_design("adaptive") == fr.Adaptive()


@pytest.mark.parametrize("word", ["pop99", "popularity 100", "pop100"])
def test_popularity_is_refused(word):
    with pytest.raises(ValueError, match=r"draws negatives by popularity.*sample uniformly \('uni99'\) instead\.$"):
        fr.parse_design(word)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fr.Sample(0), "`negatives` must be a whole number of at least 1, got 0"),
        (lambda: fr.Sample(-5), "`negatives` must be a whole number of at least 1, got -5"),
        (lambda: fr.Sample(9.5), "`negatives` must be a whole number of at least 1, got 9.5"),
        (lambda: fr.Sample(True), "`negatives` must be a whole number of at least 1, got True"),
        (lambda: fr.parse_design("uni0"), "`negatives` must be a whole number of at least 1, got 0"),
        (lambda: fr.parse_design("random"), "unknown design 'random': write 'full', 'top10', 'uni99'"),
        (lambda: fr.Adaptive(99, 50), "`max_negatives` is 50, below `negatives` = 99: raise it"),
        (lambda: fr.Adaptive(0), "`negatives` must be a whole number of at least 1, got 0"),
        (lambda: fr.Adaptive(1.5), r"`negatives` as a share of the items must lie in \(0, 1\], not 1.5"),
        (lambda: fr.Adaptive(9, "most"), r"`max_negatives` must be a whole number, a share in \(0, 1\] or 'all'"),
        (lambda: fr.Adaptive(np.int64(9), np.int64(5)), "`max_negatives` is 5, below `negatives` = 9: raise it"),
        (lambda: fr.Sample(99, 3706), "`replace` must be True or False, got 3706"),
        (lambda: fr.Sample(99, replace="no"), "`replace` must be True or False, got 'no'"),
        (lambda: fr.Adaptive(9, 99, 1, 3706), "`replace` must be True or False, got 3706"),
        (lambda: fr.Top(9, 99, replace=None), "`replace` must be True or False, got None"),
        (lambda: fr.parse_design("guided 200 keep 1.2.3, then uni99"), "unknown design 'guided 200 keep 1.2.3, then"),
        (lambda: fr.Adaptive(9, 99, 0), "`stop_at` must be a whole number of at least 1, got 0"),
    ],
)
def test_sizes_that_are_none(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("thing", [3, None, fr.Sample])
def test_what_is_no_design(thing):
    with pytest.raises(TypeError, match="`design` must be a Design or a word like 'uni99'"):
        fr.parse_design(thing)
