from __future__ import annotations

import io
import json
import os
import pickle
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fullrank as fr
import naive
from fullrank._archive import _digest
from fullrank.estimators.problem import pool_bins
from fullrank.ranks.cells import EVERY
from fullrank.ranks.counts import BLOCKS, MAX_POOLS, RankCounts, unique_rows, user_blocks
from fullrank.ranks.design import ALL
from fullrank.ranks.groups import with_like_hits, with_like_samples


def some_counts(rng, cases=300, design="uni9", N=100, **more):
    return RankCounts.from_ranks(rng.integers(1, 11, cases), N, design, **more)


# --------------------------------------------------------------------------------------------------------- looking


def test_what_counts_say_about_themselves(rng):
    counts = some_counts(rng)
    assert len(counts) == 300
    assert str(counts) == "300 cases of uni9 among 100 items (unseen)"
    assert repr(counts) == "<RankCounts: 300 cases of uni9 among 100 items (unseen)>"
    assert counts.items_scored == 2700
    assert counts.n_items == 100
    assert counts.pool_range == (100, 100)
    assert not counts.varying_pool
    assert not counts.several_targets
    assert counts.sizes.tolist() == [9]
    assert str(RankCounts.from_ranks([1], 5, "full")) == "1 case of exhaustive among 5 items (unseen)"
    varying = RankCounts.from_ranks([1, 2], [1000, 2000], "uni9")
    assert str(varying) == "2 cases of uni9 among 1,000-2,000 items (unseen)"
    assert varying.varying_pool
    assert varying.n_items == 1500


def test_counts_say_how_many_users_there_are_where_cases_are_more(tmp_path):
    repeated = RankCounts.from_ranks([1, 2, 3, 4], 100, "uni9", users=["a", "b", "a", "a"])
    assert repeated.n_users == 2
    assert str(repeated) == "4 cases (2 users) of uni9 among 100 items (unseen)"
    repeated.save(tmp_path / "a.npz")
    assert RankCounts.load(tmp_path / "a.npz").n_users == 2
    assert (repeated + RankCounts.from_ranks([1], 100, "uni9", users=["c"])).n_users == 3
    once = RankCounts.from_ranks([1, 2], 100, "uni9", users=[2**63, 0])
    assert once.n_users is None
    assert (once + once).n_users is None
    about = {"users": [0, 0, 1], "order": [1, 2, 1], "targets": [2, 2, 1]}
    ordered = RankCounts.from_ranks([1, 2, 3], 100, "uni9", **about)
    assert str(ordered) == "3 cases (2 users) of uni9 among 100 items (unseen)"
    part = RankCounts.from_ranks([1, 2], 100, "uni9", users=[0, 1], order=[2, 1], targets=[2, 1])
    assert str(part) == "2 cases of uni9 among 100 items (unseen)"  # the other target of user 0 is elsewhere


def test_counts_say_how_many_negatives_cases_have_that_differ():
    own = RankCounts.from_ranks([1, 2], 1000, "uni99", drawn=[49, 99])
    assert str(own) == "2 cases of uni99 (49 to 99 negatives) among 1,000 items (unseen)"
    collapsed = RankCounts.from_ranks([1, 2], 1000, "uni100 without replacement", drawn=[97, 100])
    assert str(collapsed) == "2 cases of uni100 without replacement among 1,000 items (unseen)"
    few = RankCounts.from_ranks([1, 2], 1000, "uni99 without replacement", drawn=[49, 99])
    assert str(few) == "2 cases of uni99 without replacement (49 to 99 negatives) among 1,000 items (unseen)"


def test_cells_hold_the_sums(rng):
    cases = 500
    r, N = rng.integers(1, 11, cases), rng.integers(50, 60, cases)
    w, users = rng.random(cases) + 0.1, rng.integers(0, 40, cases)
    counts = RankCounts.from_ranks(r, N, "uni9", users=users, weights=w)
    assert counts.weight.sum() == pytest.approx(w.sum())
    assert counts.n_items == pytest.approx((w * N).sum() / w.sum())
    assert counts.auc == pytest.approx((w * (1 - (r - 1) / 9)).sum() / w.sum())
    ranks, weight = counts.sampled_ranks()
    for rank, total in zip(ranks, weight, strict=True):
        assert total == pytest.approx(w[r == rank].sum())
    tables = counts.tables()
    assert [table.n_items for table in tables] == pytest.approx(sorted(set(N.tolist())))
    for table in tables:
        here = table.n_items.__round__() == N
        for x, total in zip(table.hits, table.weight[0], strict=True):
            assert total == pytest.approx(w[here & (r == x + 1)].sum())
    (one,) = counts.tables(np.zeros(len(counts.keys), dtype=int))
    assert one.n_items == pytest.approx(counts.n_items)
    assert one.weight.sum() == pytest.approx(w.sum())


def test_few_bins_are_merged_bins(rng):
    N = rng.integers(100, 5000, 2000)
    counts = RankCounts.from_ranks(rng.integers(1, 11, 2000), N, "uni9")
    assert len(counts.tables()) <= MAX_POOLS
    assert counts.n_items == pytest.approx(N.mean(), rel=1e-12)
    for most in (1, 2, 7, 30):
        tables = counts.tables(pool_bins(counts, most))
        assert 1 <= len(tables) <= most
        assert sum(table.weight.sum() for table in tables) == pytest.approx(2000)
        assert sum(table.weight.sum() * table.n_items for table in tables) == pytest.approx(N.sum())


def test_pools_are_told_apart_while_there_are_few_of_them():
    N = np.arange(10_000_000, 10_000_000 + MAX_POOLS)
    counts = RankCounts.from_ranks(np.ones(MAX_POOLS, dtype=int), N, "uni9")
    assert [table.n_items for table in counts.tables()] == N.tolist()


def test_groups_and_users(rng):
    counts = RankCounts.from_ranks(
        [1, 2, 3, 4], 50, "uni9", users=[0, 0, 1, 2], order=[1, 2, 1, 1], targets=[2, 2, 1, 1], weights=[2, 2, 1, 1]
    )
    order, targets, ahead, weight = counts.groups
    assert not ahead.any()
    assert list(zip(order.tolist(), targets.tolist(), weight.tolist(), strict=True)) == [
        (1, 1, 2),
        (1, 2, 2),
        (2, 2, 2),
    ]
    assert counts.users_weight == pytest.approx(4)  # one user of weight 2, two of weight 1
    assert counts.several_targets


@pytest.mark.parametrize("unit", [1e-100, 1e99])
def test_the_unit_of_weights_is_of_no_importance(rng, unit):
    ranks, w = rng.integers(1, 11, 300), rng.random(300) + 1
    one, two = (
        fr.LogSpline().fit(RankCounts.from_ranks(ranks, 100, "uni9", weights=weights)) for weights in (w, w * unit)
    )
    for target in ("cases", "population"):
        assert two.interval("ndcg@10", target=target) == pytest.approx(one.interval("ndcg@10", target=target), rel=1e-9)
    assert two.bounds("ndcg@10") == pytest.approx(one.bounds("ndcg@10"), rel=1e-9)


def test_one_item_and_one_case_are_said_so():
    assert str(RankCounts.from_ranks([1], 1, "full")) == "1 case of exhaustive among 1 item (unseen)"


def test_cases_of_weight_zero_say_nothing(rng):
    counts = RankCounts.from_ranks([1, 2, 3], [100, 200, 200], "uni9", users=[5, 6, 7], weights=[0, 1, 2])
    assert counts == RankCounts.from_ranks([2, 3], 200, "uni9", users=[6, 7], weights=[1, 2])
    assert str(counts) == "2 cases of uni9 among 200 items (unseen)"


@pytest.mark.parametrize("chunk", [1, 7, 64, 10_000])
def test_counts_do_not_depend_on_how_many_cases_are_grouped_at_once(rng, monkeypatch, chunk):
    M = 500
    ranks, n_items = rng.integers(1, 11, M), rng.integers(50, 5000, M)  # far more pool sizes than bins
    T = rng.integers(1, 4, M)
    more = {
        "users": np.array([f"user {k % 90}" for k in range(M)], dtype=object),
        "weights": np.where(np.arange(M) < 100, 0.0, rng.random(M)),  # whole chunks that say nothing
        "targets": T,
        "order": rng.integers(1, T + 1),
    }
    whole = RankCounts.from_ranks(ranks, n_items, "uni9", **more), RankCounts.from_ranks(ranks, 70, "uni9")
    monkeypatch.setattr("fullrank.ranks.cells.CHUNK", chunk)
    assert RankCounts.from_ranks(ranks, n_items, "uni9", **more) == whole[0]
    assert RankCounts.from_ranks(ranks, 70, "uni9") == whole[1]
    assert len(whole[0].pools[0]) <= 64


def test_ranks_are_not_copied_case_by_case():
    ranks = np.ones(5_000_000, dtype=np.int64)
    tracemalloc.start()
    try:
        RankCounts.from_ranks(ranks, 1000, "uni9")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * ranks.nbytes  # 25 times as much when every column was made for all cases at once


@pytest.mark.parametrize("n_items", [2**50 + 1, 2**63 - 1, 2**63, 2**64, 10**30, 1e19])
def test_more_items_than_floats_can_tell_apart_are_refused(n_items):
    with pytest.raises(
        ValueError, match=r"`n_items` (is \d+ at case 0.*at most 2\*\*50|must be whole numbers below 2\*\*63)"
    ):
        RankCounts.from_ranks([1, 2], n_items, "uni9")


def test_the_largest_catalogue_has_an_answer():
    counts = RankCounts.from_ranks([1, 1, 2, 7] * 50, 2**50, "uni99")
    low, high = fr.LogSpline().fit(counts).interval("ndcg@10")
    assert 0 <= low < high < 1


def test_user_blocks_do_not_depend_on_the_machine():
    # fixed for good: counts saved yesterday must pair with counts of today
    assert user_blocks([0, 1, 2, 10**12]).tolist() == [175, 193, 206, 120]
    assert user_blocks(["a", "b", "user 7"]).tolist() == [222, 171, 120]
    assert (
        user_blocks(["a", "b", "user 7"]).tolist() == user_blocks(np.array(["a", "b", "user 7"], dtype=object)).tolist()
    )
    assert user_blocks([-1, 1, 2**63 - 1]).tolist() == user_blocks(np.array([-1, 1, 2**63 - 1], dtype=object)).tolist()
    blocks = user_blocks(np.arange(100_000))
    assert blocks.min() >= 0
    assert blocks.max() < BLOCKS
    spread = np.bincount(blocks, minlength=BLOCKS)
    assert abs(spread - 100_000 / BLOCKS).max() < 6 * np.sqrt(100_000 / BLOCKS)


@given(st.integers(0, 5), st.sampled_from([3, 10**6, 10**13, 2**62]))
def test_unique_rows_equals_numpy(seed, top):
    keys = np.random.default_rng(seed).integers(0, top, (200, 3))
    keys = np.concatenate([keys, keys[:50]])
    rows, inverse = unique_rows(keys)
    wanted, back = np.unique(keys, axis=0, return_inverse=True)
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(inverse, back.ravel())


# ------------------------------------------------------------------------------------------------------ resampling


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32, np.float64, object])
def test_a_user_s_block_does_not_depend_on_the_type_of_the_ids(dtype):
    """Nor on what stands beside it: else models would silently not pair."""
    assert user_blocks(np.array([5, 6, 7], dtype=dtype)).tolist() == user_blocks([5, 6, 7]).tolist()
    assert user_blocks([5]) == user_blocks(np.array([5, "a"], dtype=object))[:1]
    assert user_blocks([5]) == user_blocks(np.array([5.0, 6.5]))[:1]
    assert user_blocks(["6.5", "a"]).tolist() == user_blocks(np.array([6.5, "a"], dtype=object)).tolist()
    import pandas as pd

    assert user_blocks(pd.array([5, 6], dtype="Int64")).tolist() == user_blocks([5, 6]).tolist()


def test_resample_draws_whole_blocks(rng):
    users = rng.integers(0, 2000, 5000)
    counts = RankCounts.from_ranks(rng.integers(1, 11, 5000), 100, "uni9", users=users)
    again = counts.resample(7)
    assert again == counts.resample(7)
    assert again != counts.resample(8)
    assert again != counts
    own = np.bincount(counts.keys[:, 0], counts.cases, BLOCKS)
    new = np.bincount(again.keys[:, 0], again.cases, BLOCKS)
    times = new[own > 0] / own[own > 0]
    np.testing.assert_allclose(times, np.round(times))
    assert times.sum() == (own > 0).sum()


def test_resampling_reproduces_the_spread_of_the_mean(rng):
    r = rng.integers(1, 11, 4000)
    counts = RankCounts.from_ranks(r, 100, "uni9")
    means = [counts.resample(seed).auc for seed in range(300)]
    assert np.mean(means) == pytest.approx(counts.auc, abs=4 * np.std(means) / np.sqrt(300))
    assert np.std(means) == pytest.approx((r / 9).std() / np.sqrt(4000), rel=0.2)


# ----------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: some_counts(rng),
        lambda rng: some_counts(rng, N=rng.integers(50, 5000, 300), weights=rng.random(300) + 0.1),
        lambda rng: RankCounts.from_ranks(rng.integers(1, 90, 100), 90, "full"),
        lambda rng: RankCounts.from_ranks([2, 1], 1000, fr.Adaptive(0.01, 0.1), drawn=[10, 100]),
        lambda rng: RankCounts.from_ranks([2, 1], 50, fr.Adaptive(9, "all", 2, replace=False), drawn=[49, 49]),
        lambda rng: RankCounts.from_ranks([2, 1, 9], 50, fr.Top(2, 9), drawn=[0, 9, 9]),
        lambda rng: some_counts(rng, order=[1] * 300, targets=[3] * 300),
        lambda rng: some_counts(rng, candidates="all"),
        lambda rng: some_counts(rng, candidates="größer als 1 €"),
    ],
)
def test_files_round_trip(make, rng, tmp_path):
    counts = make(rng)
    path = tmp_path / "counts.npz"
    counts.save(path)
    assert RankCounts.load(path) == counts
    assert RankCounts.load(str(path)).design == counts.design
    for name in ("keys", "cases", "scored", "weight", "pool_weight", "auc_weight"):
        np.testing.assert_array_equal(getattr(RankCounts.load(path), name), getattr(counts, name))
    counts.save(path)  # over itself
    assert os.listdir(tmp_path) == ["counts.npz"], "a temporary file was left behind"


def test_saving_leaves_the_old_file_when_it_fails(rng, tmp_path, monkeypatch):
    path = tmp_path / "counts.npz"
    counts = some_counts(rng)
    counts.save(path)

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        (counts + counts).save(path)
    assert RankCounts.load(path) == counts
    assert os.listdir(tmp_path) == ["counts.npz"]


def refused(path):
    with pytest.raises(ValueError, match="is not a file of rank counts, or is damaged"):
        RankCounts.load(path)


def test_damaged_files_are_refused(rng, tmp_path):
    counts, path = some_counts(rng), tmp_path / "counts.npz"
    counts.save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 61):
        path.write_bytes(whole[:length])
        refused(path)
    flips = 0
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            loaded = RankCounts.load(path)
        except ValueError as error:
            flips += "is not a file of rank counts, or is damaged" in str(error)
        else:
            assert loaded == counts  # a bit of the archive's own bookkeeping (a date, say)
    assert flips > 0.5 * len(range(0, len(whole), 7))


def test_foreign_files_are_refused(rng, tmp_path):
    path = tmp_path / "other.npz"
    path.write_text("rank\n1\n2\n")
    refused(path)
    np.savez(path, ranks=np.arange(3))
    refused(path)
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", b"nothing")
    refused(path)
    refused(tmp_path)
    with pytest.raises(FileNotFoundError):
        RankCounts.load(tmp_path / "nowhere.npz")


def test_other_versions_formats_and_designs_are_refused(rng, tmp_path):
    counts, path = some_counts(rng), tmp_path / "counts.npz"
    counts.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    for change in (
        {"version": 99},
        {"format": "something"},
        {"design": "pop99"},
        {"sha256": "0" * 64},
        {"level": None},
        {"candidates": ""},
        {"candidates": 7},
    ):
        arrays["header"] = np.frombuffer(json.dumps({**header, **change}).encode(), dtype=np.uint8)
        np.savez(path, **arrays)
        refused(path)
    arrays["header"] = np.frombuffer(b"[1, 2]", dtype=np.uint8)
    np.savez(path, **arrays)
    refused(path)


@pytest.mark.parametrize(
    ("pools", "targets", "meant"),
    [
        (5000, 1, "all"),
        ([4990, 5000], 1, "unseen"),
        ([4999, 5000], 2, "all"),  # several targets shorten the pool under `all` too: N' = N − T + 1
        ([4997, 5000], 2, "unseen"),
    ],
)
def test_files_that_do_not_name_candidates_load_as_what_they_meant(pools, targets, meant, tmp_path):
    counts = RankCounts.from_ranks([1, 2], pools, "uni9", order=[1, 1], targets=[1, targets])
    path = tmp_path / "old.npz"
    save_as_before(counts, path, 1)
    assert RankCounts.load(path) == replace(counts, candidates=meant)
    save_as_before(counts, path, 2)
    assert RankCounts.load(path) == counts
    save_as_before(counts, path, 2, named=False)  # version 2 must say
    refused(path)


def save_as_before(counts, path, version, named=True):
    """Files of versions 1 and 2: keys (block, pool, drawn, hits, order, targets), and 0 drawn where all were compared."""
    outside = (counts.column(name) for name in ("block", "pool"))
    keys = np.column_stack([*outside, counts.outcomes, counts.column("order"), counts.column("targets")])
    order = np.lexsort(keys.T[::-1])
    names = ("cases", "scored", "weight", "pool_weight", "auc_weight")
    arrays = {"keys": keys[order], **{name: getattr(counts, name)[order] for name in names}}
    header = {
        "format": "fullrank.RankCounts",
        "version": version,
        "design": str(counts.design),
        "level": counts.level,
        "sha256": _digest(arrays, "{}{}{}"),
        **({"candidates": counts.candidates} if version == 2 and named else {}),
    }
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RankCounts.from_ranks([1, 7, 7], [50, 60, 50], "full"),
        lambda: RankCounts.from_ranks([2, 1, 9], [50, 60, 60], fr.Top(2, 9), drawn=[0, 9, 9], candidates="mine"),
        lambda: RankCounts.from_ranks([3, 1, 20], 50, fr.Adaptive(9, "all", 2, replace=False), drawn=[9, 49, 49]),
    ],
)
def test_known_ranks_of_files_from_before_stay_known(make, tmp_path):
    counts, path = make(), tmp_path / "old.npz"
    save_as_before(counts, path, 2)
    again = RankCounts.load(path)
    assert again == counts
    assert fr.MLE().fit(again).expect("recall@5") == fr.MLE().fit(counts).expect("recall@5")
    assert again + counts == counts + again


# ------------------------------------------------------------------------------------------------------ candidates


def test_candidates_are_printed_compared_and_kept(rng):
    N = rng.integers(50, 5000, 300)
    unseen, every = (some_counts(rng, N=100, candidates=each) for each in ("unseen", "all"))
    assert some_counts(rng).candidates == "unseen"
    assert str(every) == "300 cases of uni9 among 100 items (all)"
    assert unseen != replace(unseen, candidates="all")
    assert replace(unseen, candidates="all") == replace(unseen, candidates="all")
    mine = some_counts(rng, N=N, candidates="mine")
    exact = RankCounts.from_ranks([1, 2, 9], [50, 60, 50], fr.Top(2, 9), drawn=[0, 0, 9], candidates="mine")
    derived = {
        "+": mine + mine,
        "sum": sum([mine, mine]),
        "coarsened": mine._at(mine.level - 1),
        "resample": mine.resample(0),
        "with_mean_pool": mine.with_mean_pool(),
        "with_like_samples": with_like_samples(mine, 0.05),
        "with_like_hits": with_like_hits(mine, 0.05),
        "known": exact.known()[0],
        "unknown": exact.known()[1],
        "at_ranks": mine.at_ranks(np.ones(len(mine.keys), int), np.full(len(mine.keys), 0.5)),
    }
    assert {name: each.candidates for name, each in derived.items()} == dict.fromkeys(derived, "mine")
    assert len(np.unique(mine.column("pool"))) <= 64 < len(np.unique(N)), "these counts were coarsened"


def test_counts_of_other_candidates_are_not_added(rng):
    with pytest.raises(
        ValueError, match="cannot add counts among candidates 'all' to counts among candidates 'unseen'"
    ):
        some_counts(rng, candidates="all") + some_counts(rng)


@pytest.mark.parametrize("candidates", ["", "  ", "ALL", " unseen", None, 7])
def test_candidates_need_a_name(candidates):
    with pytest.raises(ValueError, match=r"`candidates` must be 'unseen', 'all' or a name of your own .*, got "):
        RankCounts.from_ranks([1], 100, "uni9", candidates=candidates)


class Bomb:
    gone_off = False

    def __reduce__(self):
        return (setattr, (Bomb, "gone_off", True))


def test_nothing_is_unpickled(rng, tmp_path):
    path = tmp_path / "counts.npz"
    path.write_bytes(pickle.dumps(Bomb()))
    refused(path)
    some_counts(rng).save(path)
    with np.load(path) as file:
        arrays = dict(file)
    for name in ("header", "keys", "weight"):
        evil = {**arrays, name: np.array([Bomb()], dtype=object)}
        buffer = io.BytesIO()
        np.savez(buffer, **evil)
        path.write_bytes(buffer.getvalue())
        refused(path)
    assert not Bomb.gone_off


# ---------------------------------------------------------------------------------------------------------- frames


def frames():
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_of_every_kind(kind):
    make = frames()[kind]
    data = {
        "user_id": ["a", "b", "b"],
        "rank": [1, 5, 10],
        "n_items": [100, 90, 90],
        "w": [1.0, 2.0, 0.5],
        "m": [9, 9, 12],
    }
    wanted = RankCounts.from_ranks([1, 5, 10], [100, 90, 90], "uni9", users=["a", "b", "b"])
    assert RankCounts.from_frame(make(data), "uni9") == wanted
    assert RankCounts.from_frame(make(data), "uni9", candidates="all") == replace(wanted, candidates="all")
    one = RankCounts.from_frame(make(data), "uni9", 100, user="user_id", weight="w", drawn="m")
    assert one == RankCounts.from_ranks(
        [1, 5, 10], 100, "uni9", users=["a", "b", "b"], weights=[1, 2, 0.5], drawn=[9, 9, 12]
    )
    top = make({"rank": [1, 5], "n_items": [100, 90], "drawn": [0, 9]})
    assert RankCounts.from_frame(top, "top3, then uni9") == RankCounts.from_ranks(
        [1, 5], [100, 90], fr.Top(3, 9), drawn=[0, 9]
    )
    renamed = {"query_id": data["user_id"], "place": data["rank"]}
    assert RankCounts.from_frame(make(renamed), "uni9", [100, 90, 90], rank="place") == wanted
    with pytest.raises(ValueError, match="no column looks like the rank; the columns are 'query_id', 'place'"):
        RankCounts.from_frame(make(renamed), "uni9", 100)
    with pytest.raises(ValueError, match=r"the frame: column 'variant' \('x', 'y'\) tells rows of one user apart"):
        RankCounts.from_frame(make({**data, "variant": ["x", "x", "y"]}), "uni9")
    with pytest.raises(ValueError, match="the columns 'rank' and 'pos' could both be the ranks: name one with `rank=`"):
        RankCounts.from_frame(make({**data, "pos": [1, 1, 1]}), "uni9")
    assert RankCounts.from_frame(make({**data, "pos": [1, 1, 1]}), "uni9", rank="rank") == wanted
    with pytest.raises(ValueError, match="no column looks like the drawn"):
        RankCounts.from_frame(make(data), fr.Adaptive(9, 19), 100)
    with pytest.raises(ValueError, match=r"`ranks` has a missing value \(NaN\) at case 1"):
        RankCounts.from_frame(make({"rank": [1.0, float("nan")]}), "uni9", 100)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_missing_ranks_in_frames(kind):
    with pytest.raises(ValueError, match=r"`ranks` has a missing value \(NaN\) at case 1"):
        RankCounts.from_frame(frames()[kind]({"rank": [1, None, 3]}), "uni9", 100)


# ------------------------------------------------------------------------------------------------------- bad input


def make(ranks=(1, 2, 3), n_items=100, design="uni9", **more):
    return lambda: RankCounts.from_ranks(ranks, n_items, design, **more)


BAD = {
    "empty": (make([]), "`ranks` is empty: there is nothing to estimate from"),
    "no outcome": (lambda: RankCounts.from_outcomes([], [], 100, fr.Sample(9)), "`hits` is empty: there is nothing"),
    "rank 0": (make([1, 0]), "`ranks` is 0 at case 1: ranks are one-based, from 1 to 10; if yours start at 0, add 1."),
    "negative rank": (make([-4]), r"`ranks` is -4 at case 0: ranks are one-based, from 1 to 10\.$"),
    "rank past the sample": (
        make([1, 11, 12]),
        r"`ranks` is 11 at case 1 \(2 cases in all\): with 9 negatives ranks go up to 10; ranks among all items want the "
        "design 'full'.",
    ),
    "rank past the items": (make([101], 100, "full"), "`ranks` is 101 at case 0: among 100 items ranks go up to 100."),
    "rank 0 in full": (make([0], 100, "full"), "`ranks` is 0 at case 0: ranks are one-based, from 1 to 100;"),
    "NaN": (make([1.0, np.nan]), r"`ranks` has a missing value \(NaN\) at case 1"),
    "half a rank": (make([1.5]), "`ranks` must be whole numbers, got 1.5 at case 0"),
    "infinite": (make([np.inf]), "`ranks` must be whole numbers, got inf at case 0"),
    "matrix": (make([[1, 2], [3, 4]]), r"`ranks` must be one-dimensional, one entry per case; it has shape \(2, 2\)"),
    "one number": (make(3), "`ranks` must be one-dimensional"),
    "no items": (
        make(n_items=0),
        "`n_items` is 0 at case 0 .3 cases in all.: it must be a positive number of candidates",
    ),
    "negative items": (make(n_items=[5, -1, 3]), "`n_items` is -1 at case 1: it must be a positive number"),
    "NaN items": (make(n_items=[100, np.nan, 3]), "`n_items` has a missing value"),
    "one item": (make([1], 1), "`n_items` is 1 at case 0: it must be at least 2 candidates to draw negatives from"),
    "items of other length": (
        make(n_items=[100, 100]),
        "`n_items` has 2 entries for 3 cases: give one number, or one per case",
    ),
    "too many negatives": (
        make([1], 8, fr.Sample(9, replace=False)),
        "`drawn` is 9 at case 0: it must be no more than n_items − 1 when drawing without replacement",
    ),
    "too many drawn": (
        make(design=fr.Sample(9, replace=False), n_items=20, drawn=[9, 19, 20]),
        "`drawn` is 20 at case 2: it must be no more than n_items − 1",
    ),
    "zero drawn": (make(drawn=[9, 0, 9]), "`drawn` is 0 at case 1: it must be a number of negatives of at least 1"),
    "drawn of other length": (make(drawn=[9]), "`drawn` has 1 entries for 3 cases"),
    "rank past its own sample": (make([3], drawn=[1]), "`ranks` is 3 at case 0: with 1 negative ranks go up to 2;"),
    "drawn with full": (make(design="full", drawn=[9, 9, 9]), "`drawn` has no meaning with `Exhaustive"),
    "adaptive without drawn": (make(design=fr.Adaptive(9, 19)), "`drawn` is missing: with `Adaptive` every case"),
    "no stage": (
        make([1], design=fr.Adaptive(9, 39, 1), drawn=[20]),
        "`drawn` is 20 at case 0: it must be one of the stages of 'adaptive 9..39 stop 1': 9, 19, 39",
    ),
    "should have gone on": (
        make([1], design=fr.Adaptive(9, 39, 1), drawn=[9]),
        "`drawn` is 9 at case 0: it must be a later stage: the case was beaten fewer than 1 times",
    ),
    "top without drawn": (make(design=fr.Top(3, 9)), "`drawn` is missing: with `Top` every case"),
    "top of another size": (
        make([5], design=fr.Top(3, 9), drawn=[8]),
        "`drawn` is 8 at case 0: it must be 9, or 0 where the rank is exact",
    ),
    "top past its end": (
        make([4], design=fr.Top(3, 9), drawn=[0]),
        "`ranks` is 4 at case 0: it must be at most 3 where it is exact",
    ),
    "top among few": (
        make([4], n_items=10, design=fr.Top(3, 9), drawn=[9]),
        r"`drawn` is 9 at case 0: it must be 0 \(the rank is exact\) among no more than 10 items",
    ),
    "too far a top": (lambda: fr.Top(2000), "`k` must be from 1 to 1000, got 2000: to rank further, use `Exhaustive"),
    "popularity": (make(design="pop99"), "draws negatives by popularity"),
    "unknown design": (make(design="unl9"), "unknown design 'unl9'"),
    "weights of other length": (make(weights=[1, 2]), r"`weights` has shape \(2,\) for 3 cases"),
    "negative weight": (make(weights=[1, -1, 1]), "`weights` must be finite, not negative, and not all zero"),
    "NaN weight": (make(weights=[1, np.nan, 1]), "`weights` must be finite"),
    "lost weight": (make(weights=[1e-200, 1, 1]), "`weights` must be between 1e-100 and 1e100, or 0, got 1e-200: "),
    "huge weight": (make(weights=[1, 0, 1e200]), "`weights` must be between 1e-100 and 1e100, or 0, got 1e.200: "),
    "zero weights": (make(weights=[0, 0, 0]), "`weights` must be finite, not negative, and not all zero"),
    "users of other length": (make(users=[1]), "`users` has 1 entries for 3 cases: give one per case"),
    "order past targets": (
        make(order=[1, 2, 3], targets=[1, 2, 2]),
        "`order` is 3 at case 2: it must be a place in 1..targets",
    ),
    "order without targets": (make(order=[1, 2, 1]), "`order` is 2 at case 1: it must be a place in 1..targets"),
    "targets without order": (make(targets=[2, 2, 1]), "`order` is missing: with several targets per user"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_sentence(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message) as caught:
        call()
    text = str(caught.value)
    assert text.endswith((".", "instead."))
    assert "\n" not in text


def test_words_are_no_ranks():
    with pytest.raises(TypeError, match="`ranks` must be whole numbers"):
        RankCounts.from_ranks(["first", "second"], 100, "uni9")
    with pytest.raises(TypeError, match="`design` must be a Design or a word"):
        RankCounts.from_ranks([1], 100, 9)


@pytest.mark.parametrize("other", ["uni10", "uni9 without replacement", "full"])
def test_mixed_designs_do_not_add(rng, other):
    a = some_counts(rng, N=20)
    b = RankCounts.from_ranks([1, 2], 20, other)
    with pytest.raises(ValueError, match=f"cannot add counts of 'uni9' to counts of '{b.design}'.*fit each on its own"):
        a + b
    with pytest.raises(TypeError):
        a + 1
    assert a != b
    assert a != "uni9"
    with pytest.raises(TypeError):
        hash(a)


def test_parts_whose_shares_are_of_different_catalogues_say_what_to_write():
    parts = [RankCounts.from_ranks([3, 3], N, fr.Adaptive(), drawn=[49, 49]) for N in (1000, 900)]
    with pytest.raises(
        ValueError, match=r"'adaptive 49\.\.225 stop 1': .*, if sizes are shares of the items, write them as"
    ):
        sum(parts)
    same = fr.Adaptive().resolve(1000)
    assert len(sum(RankCounts.from_ranks([3, 3], N, same, drawn=[49, 49]) for N in (1000, 900))) == 4


def test_cases_that_saw_every_candidate_have_known_ranks():
    counts = RankCounts.from_ranks([5, 3], [50, 20], fr.Adaptive(9, "all", 10, replace=False), drawn=[49, 19])
    assert counts.sizes.tolist() == [ALL]
    assert counts.items_scored == 68
    assert fr.MLE().fit(counts).mass([3, 5]).tolist() == [0.5, 0.5]


def test_a_complete_sample_without_replacement_is_a_known_rank_whichever_way_it_comes(rng):
    """Observed, counted elsewhere, or streamed by: the same ranks are the same counts."""
    R = rng.integers(1, 51, 40)
    design, model = fr.Sample(49, replace=False), (np.ones((40, 1)), -np.arange(50.0)[:, None])
    split = fr.Split(sp.csr_matrix((40, 50)), users=np.arange(40), items=R - 1)
    observed = fr.observe(model, split, design, progress=False)
    assert observed.all_compared.all()
    assert RankCounts.from_ranks(R, 50, design) == observed
    acc = fr.Accumulator(design, 50)
    acc.update(-np.arange(50.0) * np.ones((40, 1)), R - 1)
    assert acc.counts == observed
    # with replacement some items may have been drawn twice and others never
    assert not RankCounts.from_ranks(R, 50, "uni49").all_compared.any()


def test_of_other_pools_only_those_that_were_drawn_in_full_are_known():
    counts = RankCounts.from_ranks([5, 5, 5], [50, 51, 50], fr.Sample(49, replace=False), drawn=[49, 49, 48])
    seen = zip(counts.column("drawn").tolist(), counts.all_compared.tolist(), strict=True)
    assert sorted(seen) == [(ALL, True), (48, False), (49, False)]
    assert counts.items_scored == 49 + 49 + 48
    behind = RankCounts.from_ranks([2, 2], 50, fr.Guided(9, 40), ahead=[3, 3], rest=40, drawn=[40, 40])
    assert behind.all_compared.all()
    assert behind.column("drawn").tolist() == [EVERY, EVERY]


def test_adaptive_paths_make_valid_counts(rng):
    design = fr.Adaptive(4, 40, 2, replace=False)
    R, N = rng.integers(1, 31, 200), rng.integers(31, 60, 200)
    seen = [naive.draw_adaptive(r, n, 4, 40, 2, False, rng) for r, n in zip(R, N, strict=True)]
    drawn, hits = np.array(seen).T
    counts = RankCounts.from_ranks(hits + 1, N, design, drawn=drawn)
    assert len(counts) == 200
    assert counts.items_scored == drawn.sum()
    assert counts.design == design


def test_what_other_tools_leave_behind_comes_in_by_the_front_door():
    frame = {"user_id": [0, 0, 0], "item_id": [5, 7, 9], "score": [0.4, 0.9, 0.1], "label": [1, 0, 0]}
    expected = RankCounts.from_ranks([2], 1000, fr.Sample(2, replace=False), users=[0])
    assert RankCounts.from_scores(frame, 1000, "uni2") == expected
    scores = np.full((1, 10), -np.inf)
    scores[0, [5, 7, 9]] = [0.4, 0.9, 0.1]
    assert RankCounts.from_recbole(scores, (np.array([0]), np.array([5])), 1000, "uni2") == expected
    run = {"0": {"5": 0.4, "7": 0.9, "9": 0.1}}
    named = RankCounts.from_ranks([2], 1000, fr.Sample(2, replace=False), users=["0"])
    assert RankCounts.from_trec(run, {"0": {"5": 1}}, 1000, "uni2") == named


def test_an_archive_that_claims_too_much_is_refused_before_memory_is_taken(rng, tmp_path):
    path = tmp_path / "counts.npz"
    np.savez_compressed(path, header=np.zeros(300 << 20, dtype=np.uint8))  # 300 MiB of zeros in 300 kB
    with pytest.raises(ValueError, match="would unfold from"):
        RankCounts.load(path)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<i8", "fortran_order": False, "shape": (10**14,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", head.getvalue())
    with pytest.raises(ValueError, match=r"claims shape \(100000000000000,\) in 128 bytes"):
        RankCounts.load(path)


def test_few_cases_take_little_memory_however_many_keys_could_occur():
    rng = np.random.default_rng(0)
    pools = rng.integers(900_000, 1_000_000, 1000)
    ranks = rng.integers(1, 101, 1000)
    tracemalloc.start()
    counts = RankCounts.from_ranks(ranks, pools, "uni99", users=np.arange(1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(counts) == 1000
    assert peak < 3e6
