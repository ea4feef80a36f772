"""evaluate behind a guide: cheaper with a good one, right with a useless one, and always within its budget."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import fullrank as fr
from fullrank.cli import app
from fullrank.evaluation.audit import undecided
from fullrank.evaluation.guided_run import GuidedRun, open_shares

USERS, ITEMS = 300, 4000


@pytest.fixture(scope="module")
def world():
    """Scores with the shape of a recommender's; a guide that nearly knows them; the true ranks."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(USERS, 10)), rng.normal(size=(ITEMS, 10)) * rng.gamma(1.0, 1.0, (ITEMS, 1))
    ranks = np.exp(rng.uniform(0, np.log(ITEMS - 1), USERS)).astype(int)
    scores = U @ V.T
    targets = np.argsort(-scores, axis=1)[np.arange(USERS), ranks - 1]
    split = fr.Split(sp.csr_matrix((USERS, ITEMS)), np.arange(USERS), targets)
    near = V + rng.normal(scale=0.5, size=V.shape)
    return split, (U, V), (U, near), ranks


class Slow:
    """A model that is asked pair by pair, and counts what it is asked for."""

    def __init__(self, factors):
        self.factors, self.asked, self.name = factors, 0, "slow"

    def score(self, users, items):
        self.asked += items.size
        U, V = self.factors
        return np.einsum("bd,bmd->bm", U[users], V[items])


def value(ranks, metric):
    return float(fr.parse_metric(metric).gain(ranks, ITEMS).mean())


def run(model, split, **options):
    return fr.evaluate({"slow": model}, split, ["ndcg@10", "recall@10"], progress=False, **options)


def test_a_good_guide_is_cheap_and_right(world):
    split, factors, guide, ranks = world
    model = Slow(factors)
    report = run(model, split, precision=0.05, design="guided", guide=guide)
    assert "guided" in report.rows[0].design
    assert report.rows[0].items_scored < 0.12 * USERS * ITEMS
    assert model.asked < 1.3 * report.rows[0].items_scored + 10 * USERS
    for row in report.rows:
        assert row.low - 1e-9 <= value(ranks, row["metric"]) <= row.high + 1e-9
        assert (row.high - row.low) / 2 <= 0.05 * row.value * 1.0001
    again = run(Slow(factors), split, precision=0.05, design="guided", guide=guide)
    assert [row.value for row in again.rows] == [row.value for row in report.rows]
    said = " ".join(str(report).split())
    assert "of the items were scored;" in said
    assert "are expected without it" in said
    assert "of them were what the guide put first, compared one by one" in report.to_html()


def test_depth_is_decided_case_by_case(world):
    split, factors, _, ranks = world
    guide = factors[0], factors[1] + np.random.default_rng(1).normal(scale=2.5, size=factors[1].shape)
    report = run(Slow(factors), split, precision=0.02, design="guided", guide=guide)
    assert f" to {ITEMS // 4} stop 10" in report.rows[0].design
    rounds = report.runs["slow"].rounds
    assert " to " not in rounds[0]["design"]  # a first round finds out whether the guide is worth it
    counts = report.estimates["slow"].counts
    left = ~counts.all_compared & ~counts.closed
    depth = counts.compared_weight[left] / counts.weight[left]
    assert depth.max() >= 2 * depth.min()
    for row in report.rows:
        assert row.low - 1e-9 <= value(ranks, row["metric"]) <= row.high + 1e-9


def test_negatives_go_to_cases_that_hold_what_is_open(world, monkeypatch):
    """Near the end not all open cases are sampled on, and those that are had more left open than the others."""
    split, factors, _, ranks = world
    guide = factors[0], factors[1] + np.random.default_rng(1).normal(scale=4.0, size=factors[1].shape)
    chosen = []
    worth = GuidedRun._worth_it

    def watched(self, before, step, fitted):
        out = worth(self, before, step, fitted)
        cases = np.flatnonzero(undecided(self.observation, self.cut))
        if out.first == before.first and len(out.cases) < len(cases):
            metrics = [m for m, goal in fitted.goals.items() if fitted.half[m] > goal]
            shares = open_shares(fitted.estimate, self.observation, cases, metrics)
            chosen.append(len(out.cases))
            for m in metrics:
                assert shares[m][np.isin(cases, out.cases)].mean() > shares[m].mean()
        return out

    monkeypatch.setattr(GuidedRun, "_worth_it", watched)
    report = run(Slow(factors), split, precision=0.02, design="guided", guide=guide)
    assert chosen
    assert report.runs["slow"].stop_reason == "precision"
    counts = report.estimates["slow"].counts
    left = ~counts.all_compared & ~counts.closed
    assert len(np.unique(counts.column("drawn")[left])) > 1
    for row in report.rows:
        assert row.low - 1e-9 <= value(ranks, row["metric"]) <= row.high + 1e-9


def test_auc_is_known_behind_a_guide(world):
    split, factors, guide, ranks = world
    report = fr.evaluate(
        {"slow": Slow(factors)}, split, ["ndcg@10", "auc"], precision=0.1, design="guided", guide=guide, progress=False
    )
    assert "keep 0.333" in report.rows[0].design  # of few cases more than a tenth
    assert report.rows[0].items_scored < 0.2 * USERS * ITEMS
    for row in report.rows:
        assert row.low - 1e-9 <= value(ranks, row["metric"]) <= row.high + 1e-9
        assert row.interval == pytest.approx(report.estimates["slow"].interval(row.metric))


def test_a_guide_that_leads_nowhere_is_left(world):
    split, factors, _, ranks = world
    random = fr.models.scorer.Rows(
        lambda users: np.random.default_rng(5).random((len(users), ITEMS)), ITEMS, USERS, name="dice"
    )
    report = run(Slow(factors), split, precision=0.2, guide=random, max_items=USERS * ITEMS // 2)
    assert "the guide `dice` found hardly more than chance does" in " ".join(str(report).split())
    assert "guided" not in report.rows[0].design
    for row in report.rows:
        assert row.low <= value(ranks, row["metric"]) <= row.high


def test_budgets_and_fixed_designs(world):
    split, factors, guide, ranks = world
    report = run(Slow(factors), split, precision=0.001, design="guided", guide=guide, max_items=60_000)
    assert report.rows[0].items_scored <= 60_000 * 1.05
    assert report.runs["slow"].stop_reason in ("budget", "exact", "precision")
    fixed = run(Slow(factors), split, design="guided 100 stop 10, then uni99", guide="popularity")
    assert fixed.rows[0].design == "guided 100 stop 10, then uni99"
    assert fixed.rows[0].bounds[0] <= value(ranks, "ndcg@10") <= fixed.rows[0].bounds[1]
    compiled = run(factors, split, precision=0.05, guide=guide)  # whole rows are cheap: no guide is needed
    assert "guided" not in compiled.rows[0].design
    with pytest.raises(ValueError, match="`guide` is missing: a guided design needs a scorer"):
        run(factors, split, design="guided")
    with pytest.raises(ValueError, match="`guide` is missing"):
        run(factors, split, design=fr.Guided(100))


def test_training_items_are_compared_among_all_candidates(world):
    split, factors, _, _ = world
    train = sp.random(USERS, ITEMS, 0.005, format="lil", random_state=2)
    train[split.users, split.items] = 0
    held = fr.Split(train.tocsr(), split.users, split.items)
    exact = run(factors, held, design="full", candidates="all")
    report = run(factors, held, design="uni499", candidates="all")
    for row, true in zip(report.rows, exact.rows, strict=True):
        assert row.low <= true.value <= row.high
        assert row.naive is None


def test_auc_is_known_where_few_cases_are_closed(world):
    _, factors, _, _ = world
    scores = factors[0] @ factors[1].T
    order = np.argsort(-scores, axis=1)
    for far in range(4):  # the only case that is closed, whether it is one of those kept open or not
        ranks = np.full(USERS, 3)
        ranks[far] = 300
        split = fr.Split(sp.csr_matrix(scores.shape), np.arange(USERS), order[np.arange(USERS), ranks - 1])
        report = fr.evaluate(
            {"slow": Slow(factors)},
            split,
            ["ndcg@10", "auc"],
            precision=0.1,
            design="guided",
            guide=factors,
            progress=False,
        )
        assert report.rows[-1].metric.whole_auc
        for row in report.rows:
            assert row.low - 1e-9 <= value(ranks, row["metric"]) <= row.high + 1e-9


def test_a_retrieval_stage_is_asked_once_for_every_user(world):
    split, factors, near, _ = world
    order, asked = np.argsort(-(near[0] @ near[1].T), axis=1), []

    def retrieved(user):
        asked.append(user)
        return order[user, :200]

    models = {"one": Slow(factors), "two": Slow(near)}
    fr.evaluate(models, split, "ndcg@10", precision=0.2, design="guided", guide=retrieved, progress=False)
    assert asked == list(range(USERS))


def test_the_command_line(world, tmp_path):
    split, (U, V), (_, near), _ = world
    files = {name: tmp_path / f"{name}.npy" for name in ("U", "V", "near")}
    for name, table in (("U", U), ("V", V), ("near", near)):
        np.save(files[name], table)
    rows = [f"{u},{i}" for u, i in zip(split.users, split.items, strict=True)]
    (tmp_path / "test.csv").write_text("user,item\n" + "\n".join(rows))
    others = [f"{u},{(i + 1) % ITEMS}" for u, i in zip(split.users, split.items, strict=True)]
    (tmp_path / "train.csv").write_text("user,item\n" + "\n".join(others) + f"\n0,{ITEMS - 1}")
    words = [
        "evaluate", "--train", str(tmp_path / "train.csv"), "--test", str(tmp_path / "test.csv"),
        "-M", f"mf={files['U']},{files['V']}", "--design", "guided 100 stop 10, then uni99", "-m", "ndcg@10", "--json",
    ]  # fmt: skip
    lists = "\n".join(f"{u},{(u + k) % ITEMS}" for u in range(USERS) for k in range(50))
    (tmp_path / "retrieved.csv").write_text("user,item\n" + lists)
    retrieved = str(tmp_path / "retrieved.csv")
    for guide in (f"near={files['U']},{files['near']}", "popularity", retrieved, f"stage={retrieved}"):
        done = CliRunner().invoke(app, [*words, "--guide", guide])
        assert json.loads(done.stdout)["rows"][0]["design"] == "guided 100 stop 10, then uni99"
    failed = CliRunner().invoke(app, words)
    assert "`guide` is missing" in str(failed.exception) + failed.output


def test_a_plan_from_a_pilot_behind_a_guide(world):
    split, factors, _, ranks = world
    guide = factors[0], factors[1] + np.random.default_rng(1).normal(scale=1.5, size=factors[1].shape)
    pilot = fr.observe(factors, split, fr.Guided(30, 20, stop_at=10), guide=guide, progress=False)
    plan = fr.plan(pilot=pilot, metric=["ndcg@10", "recall@10"], precision=0.03)
    assert plan.source == "a pilot behind a guide"
    assert plan.design.first == 30
    assert plan.design.negatives > 20
    assert plan.recommended.meets
    shares = [each.share for each in plan.choices[1:]]
    assert shares == sorted(shares)
    assert plan.choices[1].items == pytest.approx(pilot.items_scored, rel=0.02)  # the pilot's own design comes first
    assert "also goes deeper" in " ".join(str(plan).split())
    done = fr.LogSpline().fit(fr.observe(factors, split, plan.design, guide=guide, progress=False))
    assert done.counts.items_scored == pytest.approx(plan.items, rel=0.1)
    low, high = done.interval("ndcg@10")
    assert (high - low) / 2 <= 1.7 * plan.precision * done.expect("ndcg@10")
    assert low <= value(ranks, "ndcg@10") <= high
    again = fr.plan(pilot=fr.LogSpline().fit(pilot), metric="ndcg@10", precision=0.3)
    assert again.items <= plan.items


def test_an_audit_never_takes_more_than_the_run_itself():
    """A guide makes a case cost a few dozen items: ranking four of 60,000 in full would be nearly all of the work."""
    rng = np.random.default_rng(4)
    users, items = rng.normal(size=(60, 8)), rng.normal(size=(60_000, 8))
    scores = users @ items.T
    targets = np.argsort(-scores, axis=1)[np.arange(60), rng.integers(0, 30, 60)]
    split = fr.Split(sp.csr_matrix((60, 60_000)), users=np.arange(60), items=targets)
    guide = users, items + rng.normal(scale=0.02, size=items.shape)
    report = run(Slow((users, items)), split, precision=0.1, design="guided", guide=guide)
    row = report.rows[0]
    assert row.stop_reason == "precision"
    assert row.items_scored < 60_000
    assert report.runs["slow"].rounds[-1]["audited"] == 0
    assert "nothing was ranked in full to check the estimate" in " ".join(report.remarks)
