"""A design from outside, registered by one line, goes through every door of the house."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fullrank as fr
from coin import Coin
from fullrank.observing.observation import Observation
from fullrank.observing.shards import spread
from fullrank.ranks import protocol
from fullrank.ranks.design import ALL, Course
from fullrank.testing import check_design

COINS = [Coin(20), Coin(20, replace=False)]


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(protocol, "_KINDS", dict(protocol._KINDS))
    fr.register_design(Coin)


@pytest.fixture(scope="module")
def world():
    """Whole-number factors, so that ties abound; some users with several targets."""
    rng = np.random.default_rng(5)
    users, items = 700, 300
    train = rng.random((users, items)) < 0.1
    of = np.repeat(np.arange(users), rng.integers(1, 4, users))
    targets = np.concatenate([rng.choice(items, size, replace=False) for size in np.bincount(of)])
    train[of, targets] = False
    U, V = (rng.integers(-3, 4, (n, 6)).astype(np.float32) for n in (users, items))
    return (U, V), fr.Split(sp.csr_matrix(train.astype(np.float32)), of, targets)


@pytest.mark.parametrize("coin", COINS, ids=str)
def test_contract(coin, registered):
    check_design(coin, 60)


def ways(model):
    """The same scores by every way of asking for them."""
    U, V = model
    return {
        "factors": model,
        "pairs": fr.as_scorer(lambda users, items: np.einsum("bk,bmk->bm", U[users], V[items])),
        "rows": U @ V.T,
    }


@pytest.mark.parametrize("coin", COINS, ids=str)
@pytest.mark.parametrize("way", ["factors", "pairs", "rows"])
def test_observe_draws_what_the_design_says(world, coin, way):
    model, split = world
    scorer = ways(model)[way]
    seen = Observation(scorer, split, rng=3, progress=False).advance(coin)
    full = Observation(model, split, rng=3, progress=False).advance("full")
    few = Observation(model, split, rng=3, progress=False).advance(fr.Sample(20, coin.replace))
    whole = seen.drawn == ALL
    assert abs(whole.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(whole))
    assert (seen.drawn[~whole] == 20).all()
    np.testing.assert_array_equal(seen.above, np.where(whole, full.above, few.above))
    np.testing.assert_array_equal(seen.pool, full.pool)
    np.testing.assert_array_equal(seen.order, full.order)
    assert seen.design == coin


def test_neither_batches_nor_shards_nor_a_restart_change_a_digit(world, tmp_path):
    model, split = world
    once = Observation(model, split, rng=3, progress=False).advance(Coin(20))

    def sharded(task, blocks):
        return spread(map, task, blocks, 3)

    def stops(task, blocks):
        yield from (task(block) for block in list(blocks)[:2])

    path = tmp_path / "blocks"
    with pytest.raises(RuntimeError, match="returned"):
        Observation(model, split, rng=3, progress=False, batch=100, map=stops, checkpoint=path).advance(Coin(20))
    runs = [
        Observation(model, split, rng=3, progress=False, batch=100, checkpoint=path).advance(Coin(20)),
        Observation(model, split, rng=3, progress=False, map=sharded).advance(Coin(20)),
    ]
    for run in runs:
        same(run, once)


def same(seen, expected):
    for name in ("ahead", "rest", "drawn", "hits", "pool", "order"):
        np.testing.assert_array_equal(getattr(seen, name), getattr(expected, name))


@pytest.mark.parametrize("way", ["factors", "pairs", "rows"])
def test_a_smaller_sample_is_taken_up(world, way):
    model, split = world
    scorer = ways(model)[way]
    before = Observation(scorer, split, rng=3, progress=False).advance(fr.Sample(7, replace=False))
    further = before.copy().advance(Coin(20, replace=False))
    same(further, Observation(scorer, split, rng=3, progress=False).advance(Coin(20, replace=False)))
    with pytest.raises(ValueError, match="'coin20' cannot continue a sample drawn without replacement"):
        before.copy().advance(Coin(20))


def test_save_and_load(world, tmp_path, registered):
    model, split = world
    counts = fr.observe(model, split, "coin20", progress=False)
    counts.save(tmp_path / "counts.npz")
    again = fr.RankCounts.load(tmp_path / "counts.npz")
    assert again == counts
    assert again.design == Coin(20)
    assert "of coin20 among" in str(again)


def test_files_of_a_design_that_is_not_registered_say_so(world, tmp_path):
    model, split = world
    fr.observe(model, split, Coin(20), progress=False).save(tmp_path / "counts.npz")
    with pytest.raises(ValueError, match=r"unknown design 'coin20'.*must be registered first \(fr\.register_design\)"):
        fr.RankCounts.load(tmp_path / "counts.npz")


def test_evaluate(world, registered):
    model, split = world
    report = fr.evaluate({"model": model}, split, ["recall@10", "ndcg@10"], design="coin20", progress=False)
    counts = fr.observe(model, split, Coin(20), progress=False)
    truth = fr.observe(model, split, "full", progress=False)
    for row in report.rows:
        assert row["design"] == "coin20"
        assert row["naive"] is None  # ranks among 20 and among all do not compare
        assert row["items_scored"] == counts.items_scored
        exact = fr.MLE().fit(truth).expect(row["metric"])
        assert row["low"] < exact < row["high"]
        assert row["value"] == pytest.approx(exact, rel=0.15)
    with pytest.raises(ValueError, match="`precision` and `design` 'coin20' exclude each other"):
        fr.evaluate({"model": model}, split, design="coin20", precision=0.02, progress=False)


def made(cases=3000, N=1000, coin=COINS[0], seed=0):
    rng = np.random.default_rng(seed)
    truth = 1 + np.floor((N - 1) * rng.random(cases) ** 3).astype(int)
    drawn, hits = coin.simulate(truth, N, rng)
    return truth, drawn, hits


@pytest.mark.parametrize("coin", COINS, ids=str)
def test_correct_compare_plan_and_the_page(coin, registered, tmp_path):
    truth, drawn, hits = made(coin=coin)
    report = fr.correct({"A": hits + 1}, 1000, str(coin), ["recall@10", "auc"], drawn=drawn)
    assert report.rows[0]["low"] < np.mean(truth <= 10) < report.rows[0]["high"]
    assert report.rows[1]["value"] == pytest.approx(1 - np.mean((truth - 1) / 999), abs=0.02)
    assert "coin20" in str(report.to_html())
    counts = fr.RankCounts.from_ranks(
        hits + 1, 1000, coin, drawn=np.where(drawn == ALL, 999 * (not coin.replace), drawn)
    )
    # of the cases that were compared with all, the share is known; of the others, as much as their sample says
    known = drawn == ALL
    others = fr.RankCounts.from_ranks(hits[~known] + 1, 1000, fr.Sample(20, coin.replace))
    low, high = fr.bounds(others, "recall@10")
    exact, part = np.mean(known & (truth <= 10)), np.mean(~known)
    assert fr.bounds(counts, "recall@10") == pytest.approx((exact + part * low, exact + part * high), abs=1e-6)
    assert exact + part * low <= np.mean(truth <= 10) <= exact + part * high
    worse = fr.RankCounts.from_ranks([300] * 900, 1000, "full")
    assert fr.compare({"A": counts, "B": worse}, "recall@50").winner == "A"
    assert fr.plan(pilot=counts, metric="ndcg@10", precision=0.1).design is not None


@pytest.mark.parametrize("estimator", [fr.LogSpline(), fr.MLE(), fr.BiasVariance(), fr.Multinomial()], ids=repr)
def test_estimators_use_its_law(estimator):
    truth, drawn, hits = made(cases=8000)
    counts = fr.RankCounts.from_outcomes(drawn, hits, 1000, COINS[0])
    assert estimator.fit(counts).expect("recall@50") == pytest.approx(np.mean(truth <= 50), rel=0.1)


def test_estimators_that_need_an_order_refuse_it_by_name():
    _, drawn, hits = made(cases=50)
    counts = fr.RankCounts.from_outcomes(drawn, hits, 1000, COINS[0])
    for estimator in (fr.Naive(), fr.RankEstimate(), fr.Mapping("linear")):
        with pytest.raises(ValueError, match=f"`{type(estimator).__name__}` is not defined on the design 'coin20'"):
            estimator.fit(counts)


def test_ranks_that_the_design_cannot_have():
    with pytest.raises(ValueError, match="`drawn` is missing: with `Coin` every case has its own number of negatives"):
        fr.RankCounts.from_ranks([1, 2], 1000, Coin(20))
    with pytest.raises(ValueError, match=r"`drawn` is 21 at case 1: it must be one of the sizes of 'coin20': 20, 0"):
        fr.RankCounts.from_ranks([1, 2], 1000, Coin(20), drawn=[20, 21])
    with pytest.raises(ValueError, match="`ranks` is 22 at case 0: with 20 negatives ranks go up to 21"):
        fr.RankCounts.from_ranks([22, 2], 1000, Coin(20), drawn=[20, 20])


def test_accumulator_and_frames():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(64, 100))
    few = np.where(rng.permuted(np.tile(np.arange(99) < 20, (64, 1)), axis=1), scores[:, 1:], -np.inf)
    acc = fr.Accumulator(Coin(20, replace=False), n_items=100)
    acc.update(np.column_stack([scores[:, 0], few]))
    acc.update(scores)
    assert acc.counts.sizes.tolist() == [ALL, 20]
    import pandas as pd

    frame = pd.DataFrame({"rank": [1, 5], "drawn": [20, 0], "n_items": [100, 100]})
    assert fr.RankCounts.from_frame(frame, Coin(20)).sizes.tolist() == [ALL, 20]


def test_the_command_line_takes_designs_of_installed_packages(tmp_path):
    _, drawn, hits = made(cases=400)
    lines = "".join(f"{x + 1},{m}\n" for m, x in zip(drawn, hits, strict=True))
    (tmp_path / "ranks.csv").write_text("rank,drawn\n" + lines)
    site = tmp_path / "site"
    (site / "coin-1.dist-info").mkdir(parents=True)
    (site / "coin-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: coin\nVersion: 1\n")
    (site / "coin-1.dist-info" / "entry_points.txt").write_text("[fullrank.designs]\ncoin = coin:Coin\n")
    (site / "coin.py").write_text(Path(__file__).parents[1].joinpath("coin.py").read_text())
    words = ["correct", str(tmp_path / "ranks.csv"), "--items", "1000", "--design", "coin20", "-m", "ndcg@10", "--json"]
    here = os.pathsep.join([str(site), str(Path(fr.__file__).parents[1])])
    run = subprocess.run(
        [sys.executable, "-m", "fullrank", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": here},
    )
    assert run.returncode == 0, run.stderr
    row = json.loads(run.stdout)["rows"][0]
    assert row["design"] == "coin20"
    assert row["value"] == pytest.approx(
        fr.correct({"A": hits + 1}, 1000, Coin(20), "ndcg@10", drawn=drawn).rows[0]["value"]
    )


def test_nobody_asks_which_design_it_is():
    """What a design is like are its own answers: at most five questions of its type, outside the file of the designs."""
    kinds = "Sample|Adaptive|Exhaustive|Top"
    question = re.compile(rf"isinstance\([^)]*\b(?:{kinds})\b|type\([^)]*\) (?:is|is not|in|==) .*\b(?:{kinds})\b")
    root = Path(fr.__file__).parent
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root) != Path("ranks/design.py")
        for line in path.read_text().splitlines()
        if question.search(line)
    ]
    assert len(found) <= 5, "\n".join(found)


def test_stages_without_courses_are_refused_rather_than_guessed(world):
    class Silent(Coin):
        courses = fr.Design.courses

    model, split = world
    with pytest.raises(NotImplementedError, match="'coin20' has 2 stages and no method `courses`"):
        fr.observe(model, split, Silent(20), progress=False)

    class Uneven(Coin):
        def courses(self, n_items):
            return tuple(replace(course, share=0.4) for course in super().courses(n_items))

    with pytest.raises(AssertionError, match=r"the shares of the `courses` of .* add to 0\.[48]00000000, not to 1"):
        check_design(Uneven(20), parses=False)


def test_courses_and_registrations_that_are_none():
    with pytest.raises(ValueError, match=r"`stages` must increase from at least 1, `ALL` coming last, got \(9, 5\)"):
        Course((9, 5))
    with pytest.raises(ValueError, match=r"`stages` must increase from at least 1, `ALL` coming last, got \(0, 5\)"):
        Course((ALL, 5))
    with pytest.raises(ValueError, match="`replace` must be False in a course that compares every candidate"):
        Course((9, ALL), replace=True)
    with pytest.raises(TypeError, match=r"`kind` must be a class with the methods of fullrank\.Design, got 'coin'"):
        fr.register_design("coin")
    with pytest.raises(ValueError, match="'coin20' cannot be taken up"):
        Coin(20).simulate([1], 100, np.random.default_rng(0), before=(np.array([7]), np.array([0])))
