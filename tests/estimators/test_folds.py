"""Which prior the benchmarks take for a catalogue: one that has not seen its family, whatever files a run is given."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def catalogues(of_benchmarks, monkeypatch, tmp_path):
    """The benchmarks' module, given a single rank file."""
    (tmp_path / "ml-1m__als.npz").touch()
    monkeypatch.setenv("FULLRANK_RANKS", str(tmp_path))
    monkeypatch.setenv("FULLRANK_RANKS_SEVERAL", "")
    return of_benchmarks("catalogues")


def test_folds_are_those_of_the_priors_and_not_of_the_files_at_hand(catalogues):
    folds = catalogues.folds()
    assert catalogues.fold_of("ml-1m") == catalogues.fold_of("ml-100k") == folds["ml-1m"]
    assert catalogues.fold_of("gowalla") == folds["gowalla"]  # of which there is no file here
    assert catalogues.fold_of("seen-by-no-prior") == catalogues.FOLDS
    whole = json.loads((BENCHMARKS.parent / "src/fullrank/estimators/hyperprior.json").read_text())["priors"]["unseen"]
    for fold in range(catalogues.FOLDS + 1):
        prior = json.loads((BENCHMARKS / f"priors/fold-{fold}.json").read_text())["priors"]["unseen"]
        left_out = [name for name, each in folds.items() if each == fold]
        fewer = whole["card"]["catalogues"] - prior["card"]["catalogues"]
        assert len(left_out) - 1 <= fewer <= len(left_out), fold  # one may have been ranked with several targets only
