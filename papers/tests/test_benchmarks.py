"""What the scripts in papers/benchmarks print, worked out a second time."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import fullrank as fr

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def epochs(monkeypatch):
    spec = importlib.util.spec_from_file_location("epochs", FOLDER / "epochs.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "epochs", module)  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


def test_epochs_measures_the_test_by_its_law(epochs, monkeypatch):
    rng = np.random.default_rng(3)
    n_users, n_items = 60, 40
    train = (rng.random((n_users, n_items)) < 0.2).astype(float)
    items = rng.integers(n_items, size=n_users)
    train[np.arange(n_users), items] = 0
    users, table = np.arange(n_users), rng.random((n_users, n_items))
    split = SimpleNamespace(train=sp.csr_matrix(train), users=users, items=items, n_items=n_items)
    monkeypatch.setattr(epochs, "NEGATIVES", 12)
    found = epochs.test_metrics(lambda asked: table[asked], split)

    own = table[users, items][:, None]
    ranks = 1 + (table > own).sum(axis=1)
    expected = [np.mean(ranks <= 10), np.mean(np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0)),
                np.mean(np.where(ranks <= 10, 1 / ranks, 0))]  # fmt: skip
    np.testing.assert_allclose(found[:3], 100 * np.array(expected))

    hits = np.zeros(2)
    for user in users:  # the law of the drawing, by drawing
        open_ = np.flatnonzero((train[user] == 0) & (np.arange(n_items) != items[user]))
        drawn = np.array([rng.choice(open_, 12, replace=False) for _ in range(400)])
        rank = 1 + (table[user, drawn] > own[user]).sum(axis=1)
        hits += [np.mean(rank <= 10), np.mean(rank <= 1)]
    np.testing.assert_allclose(found[3:5], 100 * hits / n_users, atol=1.0)

    told = np.zeros(2)
    for _ in range(400):  # 12 draws with replacement from the 39 others, and each estimator as anyone would call it
        counts = fr.RankCounts.from_ranks(1 + rng.binomial(12, (ranks - 1) / (n_items - 1)), n_items, "uni12")
        told += [each.fit(counts).expect("recall@10") for each in (fr.CLS(), fr.BiasVariance(0.1))]
    np.testing.assert_allclose(found[5:], 100 * told / 400, atol=1.0)


def test_epochs_repeats_what_the_papers_print(epochs):
    assert epochs.printed("ml-1m") == pytest.approx([1.838, 0.708, 0.381, 71.77, 21.19, 4.523, 2.627])
    assert np.isnan(epochs.printed("pinterest-20")).tolist() == [False] * 5 + [True, False]  # no CLS there
    assert epochs.printed("gowalla") == []


def test_epochs_prints_a_row_per_so_many_epochs(epochs, monkeypatch, capsys):
    pytest.importorskip("torch", reason="needs PyTorch")
    rng = np.random.default_rng(3)
    train = (rng.random((40, 30)) < 0.3).astype(float)
    train[:, 0] = 0
    split = SimpleNamespace(train=sp.csr_matrix(train), users=np.arange(40), items=np.zeros(40, int), n_items=30)
    monkeypatch.setattr(epochs.fr, "load", lambda name: split)
    monkeypatch.setattr(epochs, "NEGATIVES", 5)
    settings = ["--epochs", "4", "--every", "2", "--with", "hidden=6", "latent=3", "validation=10", "batch=20"]
    monkeypatch.setattr(sys, "argv", ["epochs.py", "toy", *settings])
    epochs.main()
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0] for line in rows] == ["| epoch", "| published", "| 2", "| 4"]
    assert all(0 <= float(cell) <= 100 for line in rows[2:] for cell in line.strip("| ").split(" | ")[2:])
