"""Observing behind a guide: what is compared, what is left, and what is drawn from it, against a stupid second way."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing.pool import ThreadPool

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import fullrank as fr
from fullrank.observing.observation import Observation

USERS, ITEMS, FACTORS = 90, 120, 5
QUIET = {"progress": False}


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(USERS, FACTORS)), rng.normal(size=(ITEMS, FACTORS))
    near = V + rng.normal(scale=0.5, size=V.shape)
    train = sp.random(USERS, ITEMS, 0.08, format="csr", random_state=1, data_rvs=lambda n: np.ones(n))
    users = np.repeat(np.arange(USERS), 2)  # two targets each
    items = np.concatenate(
        [rng.choice(np.setdiff1d(np.arange(ITEMS), train[u].indices), 2, False) for u in range(USERS)]
    )
    return fr.Split(train, users, items), (U, V), (U, near)


def times_of(split):
    """How often each item occurs."""
    return [split.train[:, [item]].nnz for item in range(ITEMS)]


def in_turn(times, others, scores):
    """The candidates in the order in which they are compared: two of the guide's, then a popular one, each once."""
    own = sorted(others, key=lambda item: -scores[item])
    popular = sorted((item for item in others if times[item]), key=lambda item: (-times[item], item))
    out = []
    for turn in range(3 * ITEMS):
        items, place = (popular, turn // 3) if turn % 3 == 2 else (own, turn - turn // 3)
        out += [item for item in items[place : place + 1] if item not in out]
    return np.array(out)


def expected(split, model, guide, design, candidates="unseen"):
    """(ahead, rest, recent, B of the rest) of every case, by sorting."""
    scores, order, times = model[0] @ model[1].T, guide[0] @ guide[1].T, times_of(split)
    out = []
    for u, target in zip(split.users, split.items, strict=True):
        left_out = set(split.train[u].indices if candidates == "unseen" else ()) | set(split.items[split.users == u])
        others = in_turn(times, [i for i in range(ITEMS) if i not in left_out], order[u])
        beats = scores[u, others] > scores[u, target]
        limit = min(design.first, len(others))
        depth = limit
        for step in design.steps:
            if beats[: min(step, limit)].sum() >= (design.stop_at or 1 << 30):
                depth = min(step, limit)
                break
        ahead = beats[:depth].sum()
        out.append((ahead, len(others) - depth, beats[limit // 2 : depth].sum(), beats.sum() - ahead, len(others) + 1))
    return np.array(out).T


def expected_where_cases_go_on(split, model, guide, design):
    """(ahead, rest, recent, closed) of every case of users that go on together, by sorting."""
    scores, order, times = model[0] @ model[1].T, guide[0] @ guide[1].T, times_of(split)
    out = []
    for u in range(USERS):
        targets = split.items[split.users == u]
        left_out = set(split.train[u].indices) | set(targets)
        others = in_turn(times, [i for i in range(ITEMS) if i not in left_out], order[u])
        beats = [scores[u, others] > scores[u, target] for target in targets]
        depth, shut = [0] * len(targets), [False] * len(targets)

        def walk(goals, depth=depth, shut=shut, beats=beats):
            for goal in goals:
                for c, own in enumerate(beats):
                    if not shut[c]:
                        depth[c] = goal
                        shut[c] = own[:goal].sum() >= design.stop_at

        walk(design.steps)
        for mark in design.marks[:-1]:
            late = [own[mark // 2 : mark].any() for own in beats]
            if not any(late[c] and not shut[c] and depth[c] == mark for c in range(len(beats))):
                break
            walk((mark + mark // 2, 2 * mark))
        for c, own in enumerate(beats):
            out.append((own[: depth[c]].sum(), len(others) - depth[c], own[depth[c] // 4 : depth[c]].sum(), shut[c]))
    return np.array(out).T


@pytest.mark.parametrize("form", ["factors", "rows", "function"])
@pytest.mark.parametrize(("stop", "depths"), [(6, [32, 16]), (20, [64, 32])])
def test_cases_go_on_where_something_is_found(world, form, stop, depths):
    split, model, guide = world
    design = fr.Guided(16, 10, stop_at=stop, deepest=64)
    seen = Observation(forms(model)[form], split, guide=guide, **QUIET).advance(design)
    ahead, rest, recent, closed = expected_where_cases_go_on(split, model, guide, design)
    np.testing.assert_array_equal(seen.ahead, ahead)
    np.testing.assert_array_equal(seen.rest, rest)
    opened = closed == 0
    np.testing.assert_array_equal(seen.recent[opened], recent[opened])
    assert np.unique(rest[opened] + 1 - seen.pool[opened]).tolist() == [-depth for depth in depths]
    assert (seen.drawn[opened] == 10).all()
    assert (seen.drawn[~opened] == 0).all()
    # what was drawn is of the rest: all of it leaves nothing unknown
    full = Observation(model, split, **QUIET).advance("full")
    every = Observation(forms(model)[form], split, guide=guide, **QUIET).advance(
        fr.Guided(16, ITEMS, stop_at=stop, deepest=64)
    )
    np.testing.assert_array_equal(every.above[opened], full.above[opened])


@pytest.mark.parametrize("form", ["factors", "function"])
def test_going_on_case_by_case_is_the_same_however_it_is_done(world, form, tmp_path):
    split, model, guide = world
    scorer = forms(model)[form]
    first, more, deeper, other = (
        fr.Guided(n, m, 40, stop_at=20, deepest=64) for n, m in ((16, 5), (16, 20), (32, 20), (24, 20))
    )
    whole = fr.observe(scorer, split, deeper, guide=guide, **QUIET)
    assert fr.observe(scorer, split, deeper, guide=guide, batch=7, **QUIET) == whole
    path = tmp_path / "kept"
    assert fr.observe(scorer, split, deeper, guide=guide, checkpoint=path, **QUIET) == whole
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 10)
    assert fr.observe(scorer, split, deeper, guide=guide, checkpoint=path, **QUIET) == whole
    seen = Observation(scorer, split, guide=guide, **QUIET)
    designs = (
        first,
        more,
        deeper,
        other,
        fr.Guided(20, 5, 40, stop_at=20),
        fr.Guided(40, 5, 40, stop_at=20, deepest=80),
    )
    for design in designs:
        anew = Observation(scorer, split, guide=guide, **QUIET).advance(design)
        seen.advance(design)
        opened = ~design.closed(anew.ahead)
        for name in ("ahead", "rest", "recent"):
            np.testing.assert_array_equal(getattr(seen, name)[opened], getattr(anew, name)[opened])
        assert (design.closed(seen.ahead) == ~opened).all()
    asked = Observation(scorer, split, guide=guide, **QUIET).advance(first)
    before = asked.items_scored
    assert (
        asked.advance(deeper).items_scored - before
        < 0.8 * fr.observe(scorer, split, deeper, guide=guide, **QUIET).items_scored
    )


def forms(model):
    U, V = model
    return {
        "factors": model,
        "rows": fr.models.scorer.Rows(lambda users: U[users] @ V.T, ITEMS, USERS),
        "function": lambda users, items: np.einsum("bd,bmd->bm", U[users], V[items]),
    }


@pytest.mark.parametrize("form", ["factors", "rows", "function"])
@pytest.mark.parametrize(
    "design", [fr.Guided(30, 10, stop_at=4), fr.Guided(50, 10), fr.Guided(20, 5, 40, stop_at=4)], ids=str
)
def test_what_is_compared_and_what_is_left(world, form, design):
    split, model, guide = world
    seen = Observation(forms(model)[form], split, guide=guide, **QUIET).advance(design)
    ahead, rest, recent, B, pool = expected(split, model, guide, design)
    np.testing.assert_array_equal(seen.ahead, ahead)
    np.testing.assert_array_equal(seen.rest, rest)
    np.testing.assert_array_equal(seen.pool, pool)
    opened = ~design.closed(ahead)
    np.testing.assert_array_equal(seen.recent[opened], recent[opened])
    assert (seen.drawn[~opened] == 0).all()
    assert (seen.drawn[opened] >= min(design.negatives, 5)).all()
    assert (seen.hits <= B).all()
    np.testing.assert_array_equal(seen.order, Observation(model, split, **QUIET).advance("full").order)
    assert seen.items_scored >= (pool - 1 - rest).sum() + (seen.drawn if form != "rows" else 0 * rest).sum()
    counts = seen.counts()
    assert counts.has_compared_part
    assert len(counts) == len(split.users)


def test_items_that_a_guide_does_not_tell_apart_come_by_their_popularity(world):
    split, model, _ = world
    times = np.bincount(split.train.indices, minlength=ITEMS)
    popular = np.argsort(-times, kind="stable")[:40]  # each of them occurs
    few = np.zeros((USERS, ITEMS))
    few[:, 7] = 1.0  # as of item kNN, whose scores are zero but for few items
    design = fr.Guided(20, 10, stop_at=30)
    seen = fr.observe(model, split, design, guide=fr.models.scorer.Rows(lambda users: few[users], ITEMS), **QUIET)
    lists = [np.append(7, popular[popular != 7])] * USERS
    assert times[popular].min() > 0
    np.testing.assert_array_equal(
        seen.column("ahead"), fr.observe(model, split, design, guide=lists, **QUIET).column("ahead")
    )


def test_candidates_of_a_retrieval_stage_come_in_any_form(world, tmp_path):
    split, model, guide = world
    order = np.argsort(-(guide[0] @ guide[1].T), axis=1)[:, :25]
    design = fr.Guided(20, 10, stop_at=6)
    wanted = fr.observe(model, split, design, guide=list(order), **QUIET)
    users, ranks = np.repeat(np.arange(USERS), 25), np.tile(np.arange(1, 26), USERS)
    rows = np.random.default_rng(2).permutation(len(users))
    ranked = {"user_id": users[rows], "item_id": order.ravel()[rows], "rank": ranks[rows]}
    in_order = pl.DataFrame({"user": users, "item": order.ravel()})
    path = tmp_path / "retrieved.csv"
    in_order.write_csv(path)
    by_user = dict(enumerate(order.tolist()))
    for given in (by_user, lambda user: order[user], ranked, in_order, path, str(path)):
        assert fr.observe(model, split, design, guide=given, **QUIET) == wanted
    names = np.array([f"user {u}" for u in range(USERS)]), np.array([f"item {i}" for i in range(ITEMS)])
    known = replace(split, user_ids=names[0], item_ids=names[1])
    table = {"user": [*names[0][users], "nobody"], "item": [*names[1][order.ravel()], "item 3"]}
    with pytest.warns(
        UserWarning, match=r"`guide` names 1 of 91 users that the split does not have: 1 row of 2,251 left out"
    ):
        assert fr.observe(model, known, design, guide=table, **QUIET) == wanted
    with pytest.raises(
        ValueError, match=r"`guide` knows none of the split's users: it has names such as \d+, and .* 'user 0'"
    ):
        fr.observe(model, known, design, guide=ranked, **QUIET)
    scored = {"user": users, "item": order.ravel(), "score": -ranks}  # a scorer: popular items come between
    assert fr.observe(model, split, design, guide=scored, **QUIET) != wanted
    for wrong, said in ((list(map(str, ranks)), "got '1'"), (np.where(ranks == 3, np.nan, ranks), "got a missing one")):
        with pytest.raises(TypeError, match=f"`guide` must have a number as the rank of every row, {said}"):
            fr.observe(model, split, design, guide={**ranked, "rank": wrong}, **QUIET)
    with pytest.raises(ValueError, match="no column looks like the item"):
        fr.observe(model, split, design, guide={"user": users}, **QUIET)


def test_what_is_drawn_follows_the_law_of_the_rest(world):
    split, model, guide = world
    design = fr.Guided(30, 10, stop_at=6)
    ahead, rest, _, B, _ = expected(split, model, guide, design)
    opened = ~design.closed(ahead) & (rest > 0)
    hits = np.array(
        [Observation(model, split, guide=guide, rng=seed, **QUIET).advance(design).hits for seed in range(60)]
    )
    mean = 10 * B / np.maximum(rest, 1)
    spread = np.sqrt(np.maximum(mean * (1 - B / np.maximum(rest, 1)) * (rest - 10) / np.maximum(rest - 1, 1), 1e-9))
    z = (hits.mean(0) - mean)[opened] / np.maximum(spread[opened] / np.sqrt(60), 0.02)
    assert np.abs(z).max() < 5
    assert abs(z.mean()) < 0.4


def test_a_guide_that_covers_everything_gives_the_ranks(world):
    split, model, guide = world
    full = fr.observe(model, split, "full", **QUIET)
    counts = fr.observe(model, split, fr.Guided(ITEMS), guide=guide, **QUIET)
    for metric in ("ndcg@10", "recall@5", "auc"):
        assert fr.LogSpline().fit(counts).expect(metric) == pytest.approx(fr.LogSpline().fit(full).expect(metric))
    deep = fr.observe(model, split, fr.Guided(10, 10, "all", stop_at=5), guide="popularity", **QUIET)
    assert fr.LogSpline().fit(deep).expect("recall@5") == pytest.approx(fr.LogSpline().fit(full).expect("recall@5"))


@pytest.mark.parametrize("form", ["factors", "function"])
def test_cases_that_are_kept_open(world, form):
    split, model, guide = world
    closing, keeping = fr.Guided(30, 10, stop_at=4), fr.Guided(30, 10, stop_at=4, keep_open=0.3)
    seen = Observation(forms(model)[form], split, guide=guide, **QUIET).advance(keeping)
    other = Observation(forms(model)[form], split, guide=guide, **QUIET).advance(closing)
    closed = closing.closed(other.ahead)
    kept = closed & (seen.drawn > 0)
    assert 0.1 * closed.sum() < kept.sum() < 0.5 * closed.sum()
    for name in ("ahead", "rest", "drawn", "hits", "recent"):
        np.testing.assert_array_equal(getattr(seen, name)[~kept], getattr(other, name)[~kept])
    ahead, rest, *_ = expected(split, model, guide, fr.Guided(30, 10))
    np.testing.assert_array_equal(seen.ahead[kept], ahead[kept])
    np.testing.assert_array_equal(seen.rest[kept], rest[kept])
    again = Observation(model, split, guide="popularity", **QUIET).advance(keeping)
    assert ((again.drawn > 0) & (again.ahead >= 4) <= (kept | ~closed)).all()  # the same cases, whatever the guide
    low, high = fr.LogSpline().fit(seen.counts()).interval("auc")
    assert low <= fr.LogSpline().fit(fr.observe(model, split, "full", **QUIET)).expect("auc") <= high
    with pytest.raises(ValueError, match="AUC is unknown"):
        fr.LogSpline().fit(other.counts()).expect("auc")


@pytest.mark.parametrize("form", ["factors", "function"])
def test_batches_maps_and_restarts_change_nothing(world, form, tmp_path):
    split, model, guide = world
    design, scorer = fr.Guided(30, 10, 40, stop_at=4), forms(model)[form]
    whole = fr.observe(scorer, split, design, guide=guide, **QUIET)
    assert fr.observe(scorer, split, design, guide=guide, batch=7, **QUIET) == whole
    with ThreadPool(3) as pool:
        assert fr.observe(scorer, split, design, guide=guide, batch=20, map=pool.imap_unordered, **QUIET) == whole
    path = tmp_path / "kept"
    assert fr.observe(scorer, split, design, guide=guide, checkpoint=path, **QUIET) == whole
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 10)
    assert fr.observe(scorer, split, design, guide=guide, checkpoint=path, **QUIET) == whole
    with pytest.raises(ValueError, match="another guide"):
        fr.observe(scorer, split, design, guide="popularity", checkpoint=path, **QUIET)


def test_going_on_is_as_good_as_beginning_there(world):
    split, model, guide = world
    first, more, deeper = fr.Guided(10, 5, stop_at=6), fr.Guided(10, 20, stop_at=6), fr.Guided(40, 20, stop_at=6)
    seen = Observation(model, split, guide=guide, **QUIET).advance(first)
    at_first = seen.items_scored
    for design in (more, deeper):
        anew = Observation(model, split, guide=guide, **QUIET).advance(design)
        assert seen.advance(design).counts() == anew.counts()
    assert (
        seen.items_scored
        < at_first + Observation(model, split, guide=guide, **QUIET).advance(deeper).items_scored * 1.5
    )
    again = seen.advance(fr.Guided(60, 20, stop_at=6))  # not twice as many: compared again
    assert (
        again.counts() == Observation(model, split, guide=guide, **QUIET).advance(fr.Guided(60, 20, stop_at=6)).counts()
    )
    with pytest.raises(ValueError, match="cannot continue what was observed under 'guided"):
        seen.advance("uni99 without replacement")


def test_what_was_just_compared_is_not_asked_for_again(world):
    """Negatives that a deeper comparison reaches are compared with the rest of the guide's items, once."""
    split, (U, V), guide = world
    asked = []

    def score(users, items):
        asked.extend((int(u), int(i)) for u, row in zip(users, items, strict=True) for i in row[1:])
        return np.einsum("bd,bmd->bm", U[users], V[items])

    one = fr.Split(split.train, split.users[::2], split.items[::2])  # a target each
    seen = Observation(score, one, guide=guide, **QUIET).advance(fr.Guided(8, 30, stop_at=4))
    before, drawn = seen.items_scored, seen.drawn.sum()
    asked.clear()
    seen.advance(fr.Guided(16, 30, stop_at=4))
    assert drawn
    assert len(asked) == len(set(asked)) == seen.items_scored - before


def test_pools_lists_and_ties(world):
    split, model, guide = world
    pools = [np.arange(u % 7, ITEMS, 3) for u in range(USERS)]
    lists = {u: [5, 3, 3, 90, 61, 8] for u in range(USERS)}
    seen = Observation(model, split, guide=lists, candidates=pools, **QUIET).advance(fr.Guided(4, 9))
    known = Observation(model, split, candidates=pools, **QUIET).advance("full")
    assert (seen.pool == known.pool).all()
    assert (seen.above <= known.above).all()
    sizes = seen.pool - 1 - seen.rest
    assert sizes.max() <= 4
    tied = np.zeros((USERS, ITEMS))
    for ties, share in (("optimistic", 0.0), ("pessimistic", 1.0)):
        same = Observation(tied, split, guide=guide, ties=ties, **QUIET).advance(fr.Guided(20, 9))
        assert (same.ahead == share * 20).all()


def test_training_items_compared_in_full(world):
    split, model, _ = world
    seen = Observation(model, split, candidates="all", compare_train=True, **QUIET).advance("uni30")
    scores = model[0] @ model[1].T
    for case in (0, 50, 170):
        u, target = split.users[case], split.items[case]
        train = split.train[u].indices
        assert seen.ahead[case] == (scores[u, train] > scores[u, target]).sum()
        assert seen.pool[case] - 1 - seen.rest[case] == len(train)
    np.testing.assert_array_equal(seen.recent, seen.ahead)
    dist = fr.LogSpline().fit(seen.counts())
    low, high = dist.interval("recall@10")
    assert (
        low
        <= fr.LogSpline().fit(fr.observe(model, split, "full", candidates="all", **QUIET)).expect("recall@10")
        <= high
    )
    plain = fr.observe(model, split, "uni30", candidates="all", **QUIET)
    assert not plain.has_compared_part
    exact = fr.observe(model, split, "full", candidates="all", compare_train=True, **QUIET)
    assert exact.all_compared.all()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "`guide` is missing: 'guided 20, then uni9' compares what a guide puts first"),
        ({"guide": "best"}, "`guide` must be a scorer, lists of items or 'popularity', got 'best'"),
        ({"guide": [[1]]}, "`guide` must have a list for each of the split's 90 users, got 1 lists"),
        ({"guide": {0: [500]}}, "`guide` of user 0 must be items from 0 to 119, got 500"),
        (
            {"guide": {0: [1], 700: [2], 800: []}},
            r"`guide` has a list for 700 \(and 1 more\), which is no user of the split",
        ),
        ({"guide": {}}, "`guide` lists no item for any user with a test case"),
        ({"guide": (np.ones((20, 2)), np.ones((ITEMS, 2)))}, "guide `.*` knows 20 users, but the split has 90"),
        ({"guide": (np.ones((USERS, 2)), np.ones((9, 2)))}, "guide `.*` knows 9 items, but the split has 120"),
        (
            {"guide": np.full((USERS, ITEMS), np.nan)},
            r"guide `.*` gave a score that is not a number \(NaN\) for user 0",
        ),
        (
            {"guide": fr.models.scorer.Rows(lambda u: np.ones((len(u), 7)), ITEMS)},
            "guide `rows` must give a score for each",
        ),
        ({"compare_train": True}, "`compare_train` must be False unless `candidates` is 'all'"),
    ],
)
def test_guides_that_cannot_be(world, given, error):
    split, model, _ = world
    with pytest.raises(ValueError, match=error):
        fr.observe(model, split, fr.Guided(20, 9), **given, **QUIET)


def test_a_model_that_gives_no_number(world):
    split, _, guide = world
    with pytest.raises(ValueError, match=r"model `.*` gave a score that is not a number \(NaN\) for user"):
        fr.observe(lambda users, items: np.full(items.shape, np.nan), split, fr.Guided(20, 9), guide=guide, **QUIET)
