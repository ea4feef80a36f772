"""`fr.from_recbole` against RecBole itself, in an environment of its own (`.ci/recbole`); skipped where RecBole is not."""

from __future__ import annotations

import importlib.util
import runpy
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fullrank as fr

needs_recbole = pytest.mark.skipif(
    importlib.util.find_spec("recbole") is None, reason="needs RecBole 1.2.1, which .ci/recbole installs"
)
pytestmark = pytest.mark.filterwarnings("ignore")
RECIPE = Path(__file__).parents[2] / "docs" / "recipes" / "recbole_ml100k.py"
RATIO, LEAVE_ONE_OUT = {"RS": [0.6, 0.2, 0.2]}, {"LS": "valid_and_test"}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """80 users, 150 items, 20 interactions each in a known order; some pairs twice."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["recbole"])
    rng = np.random.default_rng(0)
    weight = 1 / (5 + np.arange(150))
    lines = ["user_id:token\titem_id:token\ttimestamp:float"]
    for user in range(80):
        items = rng.choice(150, 20, replace=False, p=weight / weight.sum())
        items[1] = items[0] if user % 4 == 0 else items[1]
        lines += [f"u{user}\ti{item}\t{time}" for time, item in enumerate(items)]
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.inter").write_text("\n".join(lines) + "\n")
    return str(tmp_path)


def prepare(folder, model="BPR", dataset="toy", split=RATIO, mode="uni7", order="RO", **more):
    """A trainer after one epoch, and RecBole's data loaders."""
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    settings = {
        "eval_args": {"split": split, "mode": mode, "order": order},
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "topk": [5],
        "epochs": 1,
        "metric_decimal_place": 12,
        "data_path": folder,
        "checkpoint_dir": folder,
        "show_progress": False,
        **more,
    }
    config = Config(model, dataset, config_dict=settings)
    init_seed(0, True)
    train, valid, test = data_preparation(config, create_dataset(config))
    trainer = get_trainer(config["MODEL_TYPE"], model)(config, get_model(model)(config, train.dataset))
    trainer.fit(train, verbose=False, saved=False)
    return SimpleNamespace(trainer=trainer, train=train, valid=valid, test=test)


def cases(made, monkeypatch, rng=0, data=None):
    """The report, and of every case (user, target, drawn, hits, N, j, T) as it went into the counts."""
    from fullrank.evaluation import recbole

    kept, rank, count = [], recbole.rank_lists, fr.RankCounts.from_outcomes

    def rank_lists(rows, listed, how):
        kept.append([listed.user_ids(), listed.targets])
        return rank(rows, listed, how)

    def from_outcomes(drawn, hits, n_items, design, **more):
        kept[-1] += [drawn, hits, n_items, more["order"], more["targets"]]
        return count(drawn, hits, n_items, design, **more)

    with monkeypatch.context() as patch:
        patch.setattr(recbole, "rank_lists", rank_lists)
        patch.setattr(fr.RankCounts, "from_outcomes", from_outcomes)
        report = fr.from_recbole(made.trainer, made.test if data is None else data, rng=rng)
    return report, [np.concatenate(each) for each in zip(*kept, strict=True)]


def pairs(data):
    table = data._dataset.inter_feat
    return list(zip(table["user_id"].numpy().tolist(), table["item_id"].numpy().tolist(), strict=True))


def truth(made):
    """From RecBole's own data sets and scores: of each (user, target) R′, j, T and N, by plain loops."""
    import torch
    from recbole.data.interaction import Interaction

    model, data = made.trainer.model.eval(), made.test._dataset
    with torch.no_grad():
        asked = Interaction({"user_id": torch.arange(data.user_num)}).to(made.trainer.device)
        scores = model.full_sort_predict(asked).reshape(data.user_num, data.item_num).cpu().numpy()
    seen, targets = {}, {}
    for part in (made.train, made.valid):
        for user, item in pairs(part):
            seen.setdefault(user, set()).add(item)
    for user, item in pairs(made.test):
        targets.setdefault(user, set()).add(item)
    out = {}
    for user, mine in targets.items():
        others = [item for item in range(1, data.item_num) if item not in mine and item not in seen[user]]
        for item in mine:
            better = int((scores[user][others] > scores[user][item]).sum())
            place = 1 + sum(scores[user][other] > scores[user][item] for other in mine)
            out[user, item] = (better + 1, place, len(mine), len(others) + 1)
    return out


def reported(made, data, **more):
    np.random.seed(0)  # noqa: NPY002  # as `from_recbole` does
    return made.trainer.evaluate(data, load_best_model=False, **more)


# ---- what RecBole says, to the digit -----------------------------------------------------------------------------------


@needs_recbole
@pytest.mark.parametrize("split", [RATIO, LEAVE_ONE_OUT], ids=["ratio", "leave one out"])
@pytest.mark.parametrize("size", [50, 100_000], ids=["small batches", "one batch"])
def test_uncorrected_and_exact_values_are_recboles_own(toy, split, size):
    made = prepare(toy, split=split, eval_batch_size=size)
    report, told = fr.from_recbole(made.trainer, made.test), reported(made, made.test)
    assert [row["metric"] for row in report.rows] == ["recall@5", "mrr@5", "ndcg@5", "hit@5", "precision@5"]
    if split is LEAVE_ONE_OUT:  # else a pair that the test data hold twice brings its negatives once here, twice there
        for row in report.rows:
            assert row["naive"] == pytest.approx(told[row["metric"]], rel=1e-9)
    full = prepare(toy, split=split, mode="full", eval_batch_size=size)
    exact, told = fr.from_recbole(made.trainer, full.test), reported(made, full.test)
    for row in exact.rows:
        assert row["value"] == pytest.approx(told[row["metric"]], rel=1e-6), row["metric"]
        assert row["low"] == row["high"] == pytest.approx(row["value"])


@needs_recbole
@pytest.mark.parametrize("split", [RATIO, LEAVE_ONE_OUT], ids=["ratio", "leave one out"])
def test_sequential_models_rank_each_positive_among_all_items(toy, split):
    made = prepare(toy, "SASRec", split=split, order="TO", train_neg_sample_args=None)
    full = prepare(toy, "SASRec", split=split, mode="full", order="TO", train_neg_sample_args=None)
    report = fr.from_recbole(made.trainer, made.test)
    assert report.rows[0]["cases"] == len(made.test._dataset)
    counts = report.estimates["SASRec"].counts
    assert counts.pool_range == (150.0, 150.0)
    assert not counts.several_targets
    if split is LEAVE_ONE_OUT:
        told = reported(made, made.test)
        assert report.rows[2]["naive"] == pytest.approx(told["ndcg@5"], rel=1e-9)
    exact, told = fr.from_recbole(made.trainer, full.test), reported(made, full.test)
    for row in exact.rows:
        assert row["value"] == pytest.approx(told[row["metric"]], rel=1e-6), row["metric"]


@needs_recbole
def test_validation_data_and_repeatable_recommendation(toy, monkeypatch):
    made = prepare(toy)
    _, (users, targets, *_, pools, _, many) = cases(made, monkeypatch, data=made.valid)
    used = made.valid._sampler.used_ids
    assert sorted(zip(users.tolist(), targets.tolist(), strict=True)) == sorted(set(pairs(made.valid)))
    assert pools.tolist() == [150 - len(used[user]) + 1 for user in users]
    again = prepare(toy, repeatable=True)
    _, (*_, pools, _, many) = cases(again, monkeypatch)
    assert (pools + many == 151).all()  # nothing is left out but the user's other targets


# ---- the law -------------------------------------------------------------------------------------------------------------


@needs_recbole
def test_counts_follow_the_law_given_the_true_ranks(toy, monkeypatch):
    """Given R′, N and the number of distinct negatives the hits are hypergeometric; j, T and N are RecBole's data's."""
    made = prepare(toy, "EASE")
    true, excess, distinct = truth(made), [], []
    for rng in range(40):
        _, (users, targets, drawn, hits, pools, order, many) = cases(made, monkeypatch, rng)
        assert sorted(zip(users.tolist(), targets.tolist(), strict=True)) == sorted(true)
        of_user = {}
        for user, target, m, x, N, j, T in zip(users, targets, drawn, hits, pools, order, many, strict=True):
            R, place, several, candidates = true[user, target]
            assert (place, several, candidates) == (j, T, N)
            expected = m * (R - 1) / (N - 1)
            of_user.setdefault(user, []).append(x - expected)
            if j == 1:
                distinct.append(m - (N - 1) * (1 - (1 - 1 / (N - 1)) ** (7 * T)))
        excess += [sum(each) for each in of_user.values()]  # a user's targets share their negatives
    for each in (excess, distinct):
        z = np.mean(each) / np.std(each) * len(each) ** 0.5
        assert abs(z) < 4


@needs_recbole
def test_models_share_their_negatives_and_everything_is_put_back(toy):
    made = prepare(toy)
    made.trainer.model.train()
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    both = fr.from_recbole({"A": made.trainer, "B": made.trainer}, made.test, "ndcg@5", rng=3)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    assert made.trainer.model.training
    assert both.models == ["A", "B"]
    assert both.rows[0]["naive"] == both.rows[1]["naive"]
    assert both.estimates["A"].counts == both.estimates["B"].counts
    assert both.rows[0]["naive"] != fr.from_recbole(made.trainer, made.test, "ndcg@5", rng=4).rows[0]["naive"]


@needs_recbole
def test_what_cannot_be_corrected_is_refused_or_noted(toy):
    made = prepare(toy, mode="pop7")
    with pytest.raises(ValueError, match=r"by popularity \(`mode: pop7`\), which has no law in the rank alone"):
        fr.from_recbole(made.trainer, made.test)
    made = prepare(toy, metrics=["NDCG", "ItemCoverage", "GiniIndex"], valid_metric="NDCG@5")
    report = fr.from_recbole(made.trainer, made.test)
    assert [row["metric"] for row in report.rows] == ["ndcg@5"]
    assert report.notes[-1] == "RecBole's ItemCoverage, GiniIndex cannot be corrected and are left out."
    with pytest.raises(TypeError, match="`test_data` is a list; RecBole's data loader of the test data was expected"):
        fr.from_recbole(made.trainer, [])


def test_what_is_not_recboles_is_refused():
    with pytest.raises(TypeError, match="`trainer` is a int; a trained RecBole `Trainer` was expected"):
        fr.from_recbole(3, None)
    with pytest.raises(ValueError, match="`trainer` is empty"):
        fr.from_recbole({}, None)


# ---- the recipe ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Run the recipe as it stands; keep what it prints, and a few more draws of what it corrects."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.chdir(tmp_path_factory.mktemp("recipe"))
        patch.setattr("sys.argv", ["recipe"])
        corrected, found = fr.from_recbole, []

        def more_draws(trainer, test_data):
            draws = 4 if "LS" in trainer.config["eval_args"]["split"] else 2
            reports = [corrected(trainer, test_data, rng=rng) for rng in range(draws)]
            found.append((str(trainer.config["eval_args"]["split"]), reports))
            return reports[0]

        def keep(report, line, **_):
            assert report is found[-1][1][0]
            found[-1] += (eval(line.partition(": ")[2]),)

        patch.setattr(fr, "from_recbole", more_draws)
        runpy.run_path(str(RECIPE), init_globals={"print": keep})
    return found


def inside(found, split):
    """Of how many values RecBole's full ranking lies in the interval, and of how many there are."""
    hits = [
        row["low"] <= full[row["metric"]] <= row["high"]
        for where, reports, full in found
        if split in where
        for report in reports
        for row in report.rows
        if row["metric"] in ("recall@10", "ndcg@10", "mrr@10")
    ]
    return sum(hits), len(hits)


@needs_recbole
@pytest.mark.parametrize("split", ["RS", "LS"])
def test_recboles_full_ranking_lies_in_the_corrected_intervals(recipe, split):
    hits, total = inside(recipe, split)
    print(f"{split}: {hits} of {total} inside")
    assert total == (36 if split == "LS" else 18)
    assert hits >= 0.85 * total
