from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np
import observe_oracle as oracle
import pytest
import scipy.sparse as sp
import threadpoolctl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

import fullrank.observing.observation as observation
import fullrank.observing.products as products
import fullrank.observing.task as task
from fullrank._checks import TIES
from fullrank.data.split import Split
from fullrank.models.scorer import ItemItem, Pairs, Rows, as_scorer
from fullrank.observing.observation import Observation
from fullrank.observing.observe import observe
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Adaptive, Exhaustive, Sample, Top

FIELDS = ("ahead", "rest", "drawn", "hits", "pool", "order", "targets")
KINDS = ("float32", "float64", "bias", "sparse", "dense", "table", "matrix", "rows", "function", "item scores")
DESIGNS = (
    Exhaustive(),
    Sample(7),
    Sample(7, replace=False),
    Sample(1000, replace=False),
    Adaptive(3, 13, stop_at=2),
    Adaptive(2, "all", stop_at=3, replace=False),
    Adaptive(2, 9, stop_at=1, replace=False),
    Top(3, 7),
    Top(10, 5, replace=False),
)


def same(seen: Any, expected: Any) -> None:
    for key in FIELDS:
        np.testing.assert_array_equal(getattr(seen, key), getattr(expected, key), err_msg=key)


def make_split(rng: np.random.Generator, n_users: int, n_items: int, most: int = 3, density: float = 0.3) -> Split:
    train = rng.random((n_users, n_items)) < density
    users, items = [], []
    for user in range(n_users):
        some = rng.choice(n_items, size=min(int(rng.integers(1, most + 1)), n_items - 1), replace=False)
        train[user, some] = False
        if train[user].sum() + len(some) >= n_items:  # leave at least one negative
            train[user] = False
        users += [user] * len(some)
        items += some.tolist()
    shuffled = rng.permutation(len(users))
    return Split(sp.csr_matrix(train.astype(np.float32)), np.array(users)[shuffled], np.array(items)[shuffled])


def make_model(rng: np.random.Generator, kind: str, split: Split) -> tuple[Any, Any]:
    """A model and its full matrix of scores. Whole numbers: sums are exact in any order, and ties abound."""
    n, N, d = split.n_users, split.n_items, int(rng.integers(1, 20))
    U, V = rng.integers(-2, 3, (n, d)).astype(float), rng.integers(-2, 3, (N, d)).astype(float)
    scores = U @ V.T
    if kind in ("float32", "float64"):
        return (U.astype(kind), V.astype(kind)), scores
    if kind == "bias":
        bias = rng.integers(-3, 4, N).astype(float)
        return (U, V, bias), scores + bias
    if kind in ("sparse", "dense"):
        similarity = rng.integers(0, 3, (N, N)) * (rng.random((N, N)) < 0.2)
        matrix = sp.csr_matrix(similarity.astype(np.float32)) if kind == "sparse" else similarity.astype(np.float32)
        return ItemItem(matrix, split.train), split.train.toarray() @ similarity
    if kind == "table":
        known = rng.random((n, N)) < 0.5
        table = sp.csr_matrix(np.where(known, scores + 100, 0))  # no stored score is 0
        return table, np.where(known & (scores + 100 != 0), scores + 100, -np.inf)
    if kind == "matrix":
        return scores, scores
    if kind == "rows":
        return Rows(lambda users: scores[users].astype(np.float32), N, n), scores
    if kind == "item scores":
        return V[:, 0].copy(), np.tile(V[:, 0], (n, 1))
    return (lambda users, items: scores[users[:, None], items]), scores


def make_pools(rng: np.random.Generator, kind: str, split: Split) -> tuple[Any, Any]:
    if kind in ("unseen", "all"):
        return kind, kind
    mask = rng.random((split.n_users, split.n_items)) < 0.5
    for user, target in zip(split.users, split.items, strict=True):
        others = np.setdiff1d(np.arange(split.n_items), split.items[split.users == user])
        mask[user, others[0]] = True
        mask[user, target] |= rng.random() < 0.5
    pools = [np.flatnonzero(row) for row in mask]
    if kind == "mask":
        return sp.csr_matrix(mask), [set(p.tolist()) for p in pools]
    return [rng.permutation(p) for p in pools], [set(p.tolist()) for p in pools]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(KINDS),
    design=st.sampled_from(DESIGNS),
    ties=st.sampled_from(TIES),
    pools=st.sampled_from(("unseen", "all", "mask", "lists")),
)
def test_any_model_tie_rule_pool_and_design_equals_brute_force(
    seed: int, kind: str, design: Any, ties: str, pools: str
) -> None:
    rng = np.random.default_rng(seed)
    split = make_split(rng, int(rng.integers(1, 7)), int(rng.integers(3, 40)))
    model, scores = make_model(rng, kind, split)
    given_pools, sets = make_pools(rng, pools, split)
    seen = Observation(model, split, candidates=given_pools, ties=ties, rng=seed % 1000, progress=False).advance(design)
    assert seen.candidates == seen.counts().candidates == (pools if pools in ("unseen", "all") else "given")
    same(seen, oracle.observe(scores, split, design, sets, ties, seed % 1000))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_every_kind_of_model_on_every_design(kind: str, design: Any) -> None:
    rng = np.random.default_rng([len(kind), len(str(design))])
    split = make_split(rng, 30, 50)
    model, scores = make_model(rng, kind, split)
    for ties in TIES:
        seen = Observation(model, split, ties=ties, rng=3, progress=False).advance(design)
        same(seen, oracle.observe(scores, split, design, "unseen", ties, 3))


@pytest.mark.parametrize("copied", [0, 1 << 30])
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("biased", [False, True])
def test_cases_closed_early_have_the_rank_they_would_have(
    copied: int, ties: str, biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Norms from nothing to thousands, small tiles, ties: what is never scored would have changed nothing."""
    for key, value in (("COPIED_BYTES", copied), ("FIRST_ITEMS", 4), ("MOST_ITEMS", 64), ("TILE_USERS", 7)):
        monkeypatch.setattr(products, key, value)
    rng = np.random.default_rng(11)
    split = make_split(rng, 40, 300)
    U, V = (rng.integers(-2, 3, (n, 6)) * 2.0 ** rng.integers(0, 10, (n, 1)) for n in (40, 300))
    U[3] = V[5] = V[9] = 0
    bias = rng.integers(-40, 40, 300) * 1.0 if biased else np.zeros(300)
    model = (U, V, bias) if biased else (U, V)
    for design in (Exhaustive(), Top(1, 5), Top(8, 5), Top(50, 5), Top(5, 500)):
        seen = Observation(model, split, ties=ties, rng=2, progress=False).advance(design)
        same(seen, oracle.observe(U @ V.T + bias, split, design, "unseen", ties, 2))


def test_most_items_need_no_score_where_the_top_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    split = make_split(rng, 200, 3000, density=0.01)
    V = rng.normal(size=(3000, 8)) * rng.pareto(1.5, (3000, 1))
    model = (rng.normal(size=(200, 8)).astype(np.float32), V.astype(np.float32))
    asked: list[int] = []
    dot = np.dot
    monkeypatch.setattr(products.np, "dot", lambda a, b, out: asked.append(out.size) or dot(a, b, out=out))
    Observation(model, split, progress=False).advance("full")
    everything, asked[:] = sum(asked), []
    Observation(model, split, progress=False).advance(Top(10))
    assert sum(asked) < 0.2 * everything


def test_catalogues_longer_than_a_chunk() -> None:
    rng = np.random.default_rng(5)
    split = make_split(rng, 4, 2600)
    for kind in ("float32", "sparse", "dense", "matrix", "function"):
        model, scores = make_model(rng, kind, split)
        for design in (
            Exhaustive(),
            Sample(1500),
            Sample(1500, replace=False),
            Adaptive(700, "all", 2000, replace=False),
            Top(20, 99),
        ):
            seen = Observation(model, split, rng=1, progress=False).advance(design)
            same(seen, oracle.observe(scores, split, design, "unseen", "random", 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 7, 64, 130])
def test_matrix_products_decide_nothing_that_dot_products_would_decide_otherwise(
    dtype: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(width)
    n, N = 60, 3000
    U, V = rng.normal(size=(n, width)), rng.normal(size=(N, width)) * rng.lognormal(sigma=2, size=(N, 1))
    V[1000:2000] = V[:1000]  # exact ties
    V[2000:2500] = V[:500] * (1 + rng.normal(size=(500, 1)) * np.finfo(dtype).eps)  # ties but for rounding
    V[2500:2700] = 0  # items never trained
    U[3] = 0
    split = make_split(rng, n, N, density=0.02)
    monkeypatch.setattr(products, "TILE_USERS", 17)
    monkeypatch.setattr(products, "TILE_SCORES", 17 * 1100)
    for bias in (None, rng.normal(size=N)):
        model = (U.astype(dtype), V.astype(dtype)) if bias is None else (U.astype(dtype), V.astype(dtype), bias)
        by_products = {t: Observation(model, split, ties=t, progress=False).advance(Exhaustive()) for t in TIES}
        with monkeypatch.context() as patch:
            patch.setattr(task, "count_products", lambda *_: False)
            for ties, seen in by_products.items():
                same(seen, Observation(model, split, ties=ties, progress=False).advance(Exhaustive()))
        # drawing all of the pool without replacement is another way to compare every candidate
        same(by_products["random"], Observation(model, split, progress=False).advance(Sample(N, replace=False)))
    assert (by_products["optimistic"].above <= by_products["random"].above).all()
    assert (by_products["random"].above <= by_products["pessimistic"].above).all()


@pytest.mark.parametrize("scale", [1e-25, 1e-19, 1e15])
def test_very_small_and_very_large_factors(scale: float) -> None:
    rng = np.random.default_rng(0)
    split = make_split(rng, 20, 300)
    model = (
        (rng.normal(size=(20, 9)) * scale).astype(np.float32),
        (rng.normal(size=(300, 9)) * scale).astype(np.float32),
    )
    same(
        Observation(model, split, progress=False).advance(Exhaustive()),
        Observation(model, split, progress=False).advance(Sample(300, replace=False)),
    )


# --------------------------------------------------------------------------------------------------- nothing matters


@pytest.fixture(scope="module")
def world() -> tuple[Split, Any]:
    rng = np.random.default_rng(11)
    split = make_split(rng, 300, 400, density=0.1)
    return split, (rng.normal(size=(300, 12)).astype(np.float32), rng.normal(size=(400, 12)).astype(np.float32))


def slow_dot(users: Any, items: Any) -> Any:
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(300, 5)), rng.normal(size=(400, 5))
    return np.einsum("bd,bmd->bm", U[users], V[items])


@pytest.mark.parametrize("design", [Exhaustive(), Sample(7), Top(5, 7)], ids=str)
def test_a_function_is_asked_the_same_whatever_the_batch(
    world: tuple[Split, Any], design: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a model whose last digit depends on who is asked together gives the same ones."""
    split, _ = world
    monkeypatch.setattr(task, "ROWS_PER_CALL", 16)
    monkeypatch.setattr(task, "SCORES_PER_CALL", 100)
    asked: dict[int, set[Any]] = {}
    for batch in (1, 50, 10_000):
        calls = asked.setdefault(batch, set())

        def spying(users: Any, items: Any, calls: set[Any] = calls) -> Any:
            calls.add((tuple(users.tolist()), items.shape))
            return slow_dot(users, items)

        Observation(spying, split, progress=False, batch=batch).advance(design)
    assert asked[1] == asked[50] == asked[10_000]


def test_a_top_takes_up_nothing(world: tuple[Split, Any]) -> None:
    split, model = world
    seen = Observation(model, split, progress=False).advance("uni7")
    with pytest.raises(ValueError, match="'exhaustive to 5, then uni99' cannot continue a sample"):
        seen.copy().advance("top5")


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("kind", ["factors", "function", "rows"])
def test_batches_threads_and_maps_change_nothing(
    world: tuple[Split, Any], design: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, factors = world
    monkeypatch.setattr(task, "ROWS_PER_CALL", 16)
    model = {
        "factors": factors,
        "function": slow_dot,
        "rows": Rows(lambda u: slow_dot(u, np.tile(np.arange(400), (len(u), 1))), 400, 300),
    }[kind]
    reference = Observation(model, split, progress=False).advance(design)

    class Backwards:
        def map(self, function: Any, blocks: Any) -> Any:
            return [function(block) for block in reversed(list(blocks))]

    with ThreadPoolExecutor(3) as pool:
        for options in (
            {"batch": 1},
            {"batch": 37},
            {"batch": 10_000},
            {"map": pool.map, "batch": 20},
            {"map": Backwards(), "batch": 50},
        ):
            same(Observation(model, split, progress=False, **options).advance(design), reference)
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
        same(Observation(model, split, progress=False).advance(design), reference)


def test_the_number_of_blas_threads_is_put_back(world: tuple[Split, Any]) -> None:
    split, model = world

    def limits() -> list[int]:
        return [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = limits()
        with ThreadPoolExecutor(3) as pool:
            Observation(model, split, progress=False, map=pool.map, batch=30).advance(Exhaustive())
        assert limits() == before


def test_progress_is_for_people_who_look(world: tuple[Split, Any], capfd: pytest.CaptureFixture[str]) -> None:
    split, model = world
    Observation(model, split, progress=True, batch=10).advance(Sample(5))
    assert capfd.readouterr() == ("", "")


def test_processes_change_nothing(world: tuple[Split, Any], tmp_path: Any) -> None:
    split, (U, V) = world
    np.save(tmp_path / "U.npy", U)
    mapped = np.load(tmp_path / "U.npy", mmap_mode="r")
    for model, design in (
        ((mapped, V), Sample(9)),
        ((U, V), Exhaustive()),
        (slow_dot, Adaptive(3, 20, 2, replace=False)),
    ):
        reference = Observation(model, split, progress=False).advance(design)
        with ProcessPoolExecutor(2) as pool:
            same(Observation(model, split, progress=False, map=pool.map, batch=60).advance(design), reference)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own(world: tuple[Split, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    split, factors = world
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    reference = Observation(factors, split, progress=False).advance(Sample(50))  # the threads now wait for more
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same(Observation(factors, split, progress=False).advance(Sample(50)), reference)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_memory_mapped_table_travels_as_its_address(tmp_path: Any) -> None:
    np.save(tmp_path / "V.npy", np.random.default_rng(0).normal(size=(5000, 16)).astype(np.float32))
    mapped = np.load(tmp_path / "V.npy", mmap_mode="r")
    scorer = as_scorer((np.zeros((3, 16), np.float32), mapped))
    packed = pickle.dumps(scorer)
    assert len(packed) < 2000
    np.testing.assert_array_equal(pickle.loads(packed).items, mapped)
    part = as_scorer((np.zeros((3, 16), np.float32), mapped[10:]))  # not the whole file: content travels
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(part)).items, mapped[10:])


def test_negatives_depend_on_the_case_and_the_seed_only(world: tuple[Split, Any]) -> None:
    split, _ = world
    asked: dict[tuple[int, str], Any] = {}

    def spy(name: str) -> Any:
        def score(users: Any, items: Any) -> Any:
            for user, row in zip(users, items, strict=True):
                asked.setdefault((int(user) * 1000 + int(row[0]), name), []).append(row[1:].tolist())
            return items * (1.0 if name == "up" else -1.0)

        return Pairs(score, flat=False)  # asked for nothing but its cases

    for name in ("up", "down"):
        Observation(spy(name), split, progress=False).advance(Sample(20))
    some = Split(split.train, split.users[::-3], split.items[::-3])  # fewer cases, in another order
    single = np.bincount(some.users, minlength=300) == np.bincount(split.users, minlength=300)
    Observation(spy("some"), some, progress=False).advance(Sample(20))
    for (case, name), rows in asked.items():
        if name == "up":
            assert asked[case, "down"] == rows
        if name == "some" and single[case // 1000]:  # the same pool: the same negatives
            assert asked[case, "up"] == rows
    assert len({str(rows) for (_, name), rows in asked.items() if name == "up"}) == split.cases


@pytest.mark.parametrize("kind", ["factors", "function"])
@pytest.mark.parametrize("replace", [True, False])
def test_a_sample_taken_up_again_is_the_longer_sample(world: tuple[Split, Any], kind: str, replace: bool) -> None:
    split, factors = world
    model = factors if kind == "factors" else slow_dot
    short = Observation(model, split, progress=False).advance(Sample(9, replace))
    scored: list[int] = []

    def counting(users: Any, items: Any) -> Any:
        scored.append(items.shape[0] * (items.shape[1] - 1))
        return slow_dot(users, items)

    for longer in (
        Sample(40, replace),
        Adaptive(9, 79, 2, replace),
        Adaptive(20, 79, 2, replace),
        Sample(1000, replace),
    ):
        fresh = Observation(model, split, progress=False).advance(longer)
        same(short.copy().advance(longer), fresh)
    first = Observation(model, split, progress=False).advance(Adaptive(9, 19, 2, replace))
    same(
        first.copy().advance(Adaptive(9, 79, 2, replace)),
        Observation(model, split, progress=False).advance(Adaptive(9, 79, 2, replace)),
    )
    if kind == "function":
        spied = Observation(counting, split, progress=False).advance(Sample(9, replace))
        scored.clear()
        spied.advance(Sample(40, replace))
        assert sum(scored) == 31 * split.cases  # only what is new
        assert spied.items_scored == 40 * split.cases


def test_a_function_is_asked_for_hardly_more_than_is_compared(world: tuple[Split, Any]) -> None:
    """Cases that are taken further from different depths, by different numbers of items, do not pay for one another."""
    split = world[0]
    seen = Observation(slow_dot, split, progress=False)
    for design in (Adaptive(9, 149, 1, False), Adaptive(9, 299, 3, False), Adaptive(9, "all", 5, False)):
        seen.advance(design)
    assert len(np.unique(seen.compared)) > 4
    assert seen.compared.sum() <= seen.items_scored <= 1.02 * seen.compared.sum()


def test_stop_at_without_a_ceiling_gives_exact_metrics_for_less(world: tuple[Split, Any]) -> None:
    split, model = world
    truth = Observation(model, split, progress=False).advance(Exhaustive())
    seen = Observation(model, split, progress=False).advance(Adaptive(20, "all", stop_at=10, replace=False))
    top = truth.above < 10
    assert (seen.drawn[top] == 0).all()
    np.testing.assert_array_equal(seen.above[top], truth.above[top])
    assert (seen.above[~top] >= 10).all()
    assert seen.compared.sum() < 0.8 * truth.compared.sum()


def test_counts_are_made_from_the_outcomes(world: tuple[Split, Any]) -> None:
    split, model = world
    counts = observe(model, split, "uni9", progress=False)
    assert isinstance(counts, RankCounts)
    assert len(counts) == split.cases
    assert counts.items_scored == 9 * split.cases
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observation, "CASES_PER_PART", 50)
        parts = observe(model, split, "uni9", progress=False)
    assert len(parts) == len(counts)
    np.testing.assert_array_equal(parts.keys, counts.keys)
    np.testing.assert_array_equal(parts.weight, counts.weight)
    np.testing.assert_allclose(parts.auc_weight, counts.auc_weight)
    weighted = Split(split.train, split.users, split.items, np.where(split.users < 5, 0.0, 2.0))
    assert observe(model, weighted, "uni9", progress=False).weight.sum() == 2.0 * (split.users >= 5).sum()


def test_rng_is_a_number_a_generator_or_none(world: tuple[Split, Any]) -> None:
    split, model = world
    first, second = (
        Observation(model, split, rng=np.random.default_rng(4), progress=False).advance(Sample(9)) for _ in range(2)
    )
    same(first, second)
    other = Observation(model, split, rng=5, progress=False).advance(Sample(9))
    assert (other.above != first.above).any()
    unseeded = [Observation(model, split, rng=None, progress=False).advance(Sample(9)).above for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).any()
    for bad in (-1, 1.5, "0", True):
        with pytest.raises(TypeError, match="`rng`"):
            Observation(model, split, rng=bad, progress=False).advance(Sample(9))  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------- laws


def chi_square(observed: Any, expected: Any) -> float:
    """p-value, rare outcomes pooled."""
    order = np.argsort(expected)
    pooled = np.cumsum(expected[order]) <= 5
    pooled[: pooled.sum() + 1] = True
    o = np.append(observed[order][~pooled], observed[order][pooled].sum())
    e = np.append(expected[order][~pooled], expected[order][pooled].sum())
    return float(stats.chisquare(o, e * o.sum() / e.sum()).pvalue)


@pytest.mark.parametrize("kind", ["factors", "function"])
@pytest.mark.parametrize(
    "design",
    [
        Sample(12),
        Sample(12, replace=False),
        Adaptive(4, 19, 2),
        Adaptive(4, 19, 2, replace=False),
        Adaptive(4, "all", 3, replace=False),
    ],
    ids=str,
)
def test_outcomes_follow_the_law_of_the_design(design: Any, kind: str) -> None:
    n, N = 4000, 40
    rng = np.random.default_rng(8)
    train = sp.csr_matrix((np.ones(n), (np.arange(n), rng.integers(10, N, n))), shape=(n, N))
    items = np.where(np.arange(n) % 2, 3, 6)
    split = Split(train, np.arange(n), items)
    scores = -np.arange(N, dtype=np.float32)  # R = 4 or 7 among 39
    model = scores if kind == "factors" else (lambda users, items: scores[items])
    seen = Observation(model, split, rng=1, progress=False).advance(design)
    assert (seen.pool == N - 1).all()
    resolved = design.resolve(N) if isinstance(design, Adaptive) else design
    drawn, hits = resolved.outcomes(N - 1)
    for item in (3, 6):
        law = resolved.law([item + 1], N - 1, drawn, hits)[0]
        mine = items == item
        found = np.array(
            [((seen.drawn == m) & (seen.above == x) & mine).sum() for m, x in zip(drawn, hits, strict=True)]
        )
        assert found.sum() == mine.sum()
        assert chi_square(found, law * mine.sum()) > 1e-3


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("pool", ["unseen", "lists"])
def test_every_candidate_is_as_likely_and_pairs_are_too(replace: bool, pool: str) -> None:
    n, N, m = 3000, 12, 4
    train = sp.csr_matrix(np.tile([0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1], (n, 1)))
    split = Split(train, np.arange(n), np.full(n, 4))
    allowed = np.setdiff1d(np.arange(N), [1, 5, 11, 4])
    rows: list[Any] = []

    def spy(users: Any, items: Any) -> Any:
        rows.append(items[:, 1:].copy())
        return items

    candidates: Any = "unseen" if pool == "unseen" else [allowed.tolist()] * n
    model = Pairs(spy, flat=False)  # asked for nothing but its cases
    Observation(model, split, candidates=candidates, rng=2, progress=False).advance(Sample(m, replace))
    drawn = np.searchsorted(allowed, np.concatenate(rows))
    assert (allowed[drawn] == np.concatenate(rows)).all()
    for place in range(m):
        assert stats.chisquare(np.bincount(drawn[:, place], minlength=8)).pvalue > 1e-3
    for a, b in ((0, 1), (0, 3), (2, 3)):
        table = np.bincount(drawn[:, a] * 8 + drawn[:, b], minlength=64).reshape(8, 8)
        if replace:
            assert stats.chisquare(table.ravel()).pvalue > 1e-3
        else:
            assert np.trace(table) == 0
            assert stats.chisquare(table[~np.eye(8, dtype=bool)]).pvalue > 1e-3
    across = np.bincount(drawn[:-1, 0] * 8 + drawn[1:, 0], minlength=64)  # neighbouring users
    assert stats.chisquare(across).pvalue > 1e-3


def test_random_ties_are_uniform_and_the_same_in_every_design() -> None:
    n, N = 3000, 9
    split = Split(sp.csr_matrix((n, N)), np.arange(n), np.full(n, 2))
    flat = np.zeros(N)
    truth = Observation(flat, split, progress=False).advance(Exhaustive())
    assert stats.chisquare(np.bincount(truth.above, minlength=N)).pvalue > 1e-3
    same(Observation(flat, split, progress=False).advance(Sample(N - 1, replace=False)), truth)
    assert (Observation(flat, split, ties="optimistic", progress=False).advance(Exhaustive()).above == 0).all()
    assert (Observation(flat, split, ties="pessimistic", progress=False).advance(Exhaustive()).above == N - 1).all()


def test_tied_targets_take_different_places() -> None:
    split = Split(sp.csr_matrix((1, 6)), [0, 0, 0], [1, 4, 5])
    for ties in TIES:
        seen = Observation(np.zeros(6), split, ties=ties, progress=False).advance(Exhaustive())
        assert sorted(seen.order) == [1, 2, 3]
        assert (seen.pool == 4).all()


# --------------------------------------------------------------------------------------------------- bad input


def refused(error: type[Exception], match: str, *args: Any, **options: Any) -> None:
    model, split, design = args
    with pytest.raises(error, match=match) as caught:
        Observation(model, split, progress=False, **options).advance(design)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("design", [Exhaustive(), Sample(5), Sample(500, replace=False)], ids=str)
@pytest.mark.parametrize("kind", ["factors", "sparse", "dense", "matrix", "rows", "function", "table"])
def test_nan_names_the_user_and_the_model(design: Any, kind: str, world: tuple[Split, Any]) -> None:
    split, (U, V) = world
    scores = (U @ V.T).astype(np.float64)
    scores[7] = np.nan
    similarity = np.full((400, 400), 1.0, dtype=np.float32)
    history = split.train.tolil()
    history[7, 0] = np.nan
    bad = U.copy()
    bad[7, 3] = np.nan
    model: Any = {
        "factors": (bad, V),
        "sparse": ItemItem(sp.csr_matrix(similarity), history.tocsr()),
        "dense": ItemItem(similarity, history.tocsr()),
        "matrix": scores,
        "rows": Rows(lambda users: scores[users], 400, 300),
        "function": lambda users, items: scores[users[:, None], items],
        "table": sp.csr_matrix(scores),
    }[kind]
    refused(
        ValueError,
        r"model `mine` gave a score that is not a number \(NaN\) for user 7",
        model,
        split,
        design,
        name="mine",
    )


def test_nan_of_one_item_is_seen_by_exhaustive(world: tuple[Split, Any]) -> None:
    split, (U, V) = world
    bad = V.copy()
    bad[5, 0] = np.nan
    refused(ValueError, "NaN", (U, bad), split, Exhaustive())
    bad[5, 0] = np.inf
    refused(ValueError, "NaN", (U * 0, bad), split, Exhaustive())  # 0 · ∞


def test_models_that_know_too_little_are_refused(world: tuple[Split, Any]) -> None:
    split, (U, V) = world
    refused(ValueError, "model `als` knows 399 items, but the split has 400", (U, V[:-1]), split, Sample(5), name="als")
    refused(ValueError, "knows 10 users, but the split has 300", (U[:10], V), split, Sample(5))
    refused(ValueError, "knows 350 items", U @ V[:350].T, split, Sample(5))
    refused(ValueError, "returned scores of shape", lambda users, items: items[:, 0], split, Sample(5))
    short = Rows(lambda users: np.zeros((len(users), 3)), 400)
    refused(ValueError, "must give a score for each of 400 items, got rows of shape", short, split, Sample(5))


def test_a_user_with_no_candidate_left_is_named() -> None:
    train = sp.csr_matrix(np.array([[0, 1, 0], [1, 1, 0]]))
    split = Split(train, [0, 1], [0, 2])
    for model in (np.arange(3.0), lambda users, items: items):
        for design in (Sample(3), Exhaustive(), Sample(3, replace=False)):
            refused(ValueError, "user 1 has no candidate left beside the target", model, split, design)


def test_bad_options_are_refused(world: tuple[Split, Any]) -> None:
    split, model = world
    refused(
        ValueError,
        "`ties` must be 'random', 'optimistic' or 'pessimistic', got 'coin'",
        model,
        split,
        Sample(5),
        ties="coin",
    )
    refused(
        ValueError,
        "`candidates` must be 'unseen', 'all', or a pool of items per user, got 'seen'",
        model,
        split,
        Sample(5),
        candidates="seen",
    )
    refused(
        ValueError,
        "a list for each of the split's 300 users, got 2 lists",
        model,
        split,
        Sample(5),
        candidates=[[1], [2]],
    )
    refused(
        ValueError,
        "of user 3 must be items from 0 to 399, got 400",
        model,
        split,
        Sample(5),
        candidates=[[1]] * 3 + [[400]] + [[1]] * 296,
    )
    refused(
        ValueError,
        "`candidates` must have the shape of the split",
        model,
        split,
        Sample(5),
        candidates=sp.csr_matrix((3, 3)),
    )
    strange = {str(user): [1] for user in range(300)}
    refused(
        ValueError, r"a list for '0' \(and 299 more\), which is no user", model, split, Sample(5), candidates=strange
    )
    for items in ([0.5, 1.7], [True] * 400, ["1", "2"]):
        said = "`candidates` must list items by their positions"
        refused(TypeError, said, model, split, Sample(5), candidates=[items] * 300)
    mask = np.ones((300, 400), dtype=int)
    refused(TypeError, "holds 0 and 1 .* give a mask as booleans", model, split, Sample(5), candidates=mask)
    refused(ValueError, "`compare_train` must be True or False, got 'no'", model, split, Sample(5), compare_train="no")
    refused(TypeError, "`candidates` must be .* got a int", model, split, Sample(5), candidates=3)
    refused(ValueError, "`batch` must be a whole number of at least 1 or None, got 0", model, split, Sample(5), batch=0)
    refused(TypeError, "`map` must be a function like the built-in `map`.* got 3", model, split, Sample(5), map=3)
    refused(RuntimeError, "must call the function on every block", model, split, Sample(5), map=lambda f, blocks: [])


def test_sampling_does_not_load_numba_before_it_is_needed() -> None:
    code = (
        "import sys, fullrank.observing.observe, fullrank.models; print('numba' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.split() == ["False", "False"]


def test_a_model_that_raises_keeps_its_error_and_the_block_is_named(
    world: tuple[Split, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    split, _ = world
    monkeypatch.setattr(task, "ROWS_PER_CALL", 5)

    def broken(users: Any, items: Any) -> Any:
        if 7 in users:
            raise KeyError("no embedding")
        return np.zeros(np.shape(items))

    with pytest.raises(KeyError, match="no embedding") as caught:
        observe(broken, split, "uni9", progress=False, batch=5, name="mine")
    assert caught.value.__notes__ == ["(model `mine`, the block of users 5 to 9)"]


def test_factors_trained_on_in_place_are_ranked_as_they_are_now(world: tuple[Split, Any]) -> None:
    split, _ = world
    rng = np.random.default_rng(3)
    users, items = (rng.normal(size=(n, 8)).astype(np.float32) for n in (split.n_users, split.n_items))
    scorer = as_scorer((users * np.float32(1e-3), items * np.float32(1e-3)))
    Observation(scorer, split, progress=False).advance("full")
    scorer.users[:], scorer.items[:] = users * 50, np.round(items * 50)
    seen = Observation(scorer, split, progress=False).advance("full")
    fresh = Observation((scorer.users.copy(), scorer.items.copy()), split, progress=False).advance("full")
    np.testing.assert_array_equal(seen.above, fresh.above)
    for _ in range(100):  # nothing is kept past a call, but for a thread that has not yet thrown away work it is spared
        if not any(each.scorer is scorer for each in products._BOUNDS):
            return
        time.sleep(0.1)
    raise AssertionError("the order of a model's items is kept past a call")


def test_a_model_of_items_that_the_split_has_numbered_anew_is_refused():
    split = Split.from_interactions({"user": [0, 0, 1, 1, 2, 2], "item": [7, 9, 9, 4, 4, 7]}, "random")
    items = np.eye(10, dtype=np.float32)
    users = np.zeros((3, 10), dtype=np.float32)
    with pytest.raises(ValueError, match=r"knows 10 items, but the split numbers its 3 anew: .* `split.item_ids`"):
        observe((users, items), split, "full", progress=False)
    assert len(observe((users, items[split.item_ids]), split, "full", progress=False)) == 3
