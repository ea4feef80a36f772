"""What is kept does not outlive the code it rests on."""

import os
import shutil

import numpy as np
import pytest

from fullrank_papers import experiment, keeping, run
from fullrank_papers.catalogue import published
from fullrank_papers.ranks import Ranks, rank_code
from fullrank_papers.simulate import value_code, values

TOY = Ranks(np.arange(1, 41), np.full(40, 100), "toy")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FULLRANK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Copies of both packages' sources, which fingerprints are taken of: a test may change them."""
    for name in ("LIBRARY", "OWN"):
        shutil.copytree(getattr(keeping, name), tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(keeping, name, tmp_path / name)
    forget()
    yield tmp_path
    forget()


def forget():
    keeping.library_code.cache_clear()
    keeping.own_code.cache_clear()


def change(path, more=None):
    """Add to a source: by default a statement, or a space in what is no code."""
    more = more or (" " if path.suffix == ".json" else "\nCHANGED = 1\n")
    path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    forget()


def result_files(folder):
    return sorted(os.listdir(folder / "cache" / "results"))


@pytest.mark.parametrize(
    ("file", "ranks", "network", "value", "result"),
    [
        ("LIBRARY/metrics.py", True, True, True, True),
        ("LIBRARY/ranks/design.py", True, True, True, True),
        ("LIBRARY/models/ease.py", True, True, True, True),
        ("LIBRARY/data/sources.json", True, True, True, True),
        ("LIBRARY/estimators/likelihood.py", False, False, True, True),
        ("LIBRARY/estimators/hyperprior.json", False, False, True, True),
        ("LIBRARY/cli/demo.py", False, False, False, False),
        ("LIBRARY/report/html.py", False, False, False, False),
        ("OWN/simulate.py", False, False, True, True),
        ("OWN/ranks.py", True, True, False, True),
        ("OWN/comparing.py", True, True, True, True),
        ("OWN/neural/training.py", False, True, False, True),
        ("OWN/figures.py", False, False, False, True),
        ("OWN/show.py", False, False, False, False),
    ],
)
def test_a_changed_file_invalidates_what_rests_on_it(sources, file, ranks, network, value, result):
    def keys():
        run(experiment("kr20-table1"), repeats=2, progress=False)
        return rank_code("EASE"), rank_code("NeuMF"), value_code(), result_files(sources)

    before = keys()
    change(sources / file)
    after = keys()
    assert [one != two for one, two in zip(before, after, strict=True)] == [ranks, network, value, result]


def test_comments_and_docstrings_change_nothing(sources):
    before = value_code()
    path = sources / "OWN" / "simulate.py"
    change(path, "\n# a comment\n")
    path.write_text(path.read_text().replace('"""Many samples', '"""More samples'), encoding="utf-8")
    forget()
    assert value_code() == before
    change(path)
    assert value_code() != before


def test_a_new_file_of_the_library_counts_too(sources):
    before = value_code()
    (sources / "LIBRARY" / "anything").mkdir()
    (sources / "LIBRARY" / "anything" / "new.py").write_text("")
    forget()
    assert value_code() != before


def test_values_are_worked_out_anew_when_an_estimator_changed(sources):
    folder = sources / "cache" / "values"
    first = values(TOY, "MLE", "uni9", 2, 0)[0]
    values(TOY, "MLE", "uni9", 2, 0)
    assert len(list(folder.iterdir())) == 1  # read back
    change(sources / "LIBRARY" / "estimators" / "likelihood.py")
    again = values(TOY, "MLE", "uni9", 2, 0)[0]
    assert len(list(folder.iterdir())) == 2
    np.testing.assert_array_equal(again, first)  # the same samples: code is no part of the seed


def test_values_of_ranks_that_were_made_otherwise_are_others(sources):
    values(TOY, "MLE", "uni9", 2, 0)
    values(Ranks(TOY.ranks, TOY.pool, TOY.key, code="other"), "MLE", "uni9", 2, 0)
    assert len(list((sources / "cache" / "values").iterdir())) == 2


def test_a_result_rests_on_its_toml_and_on_the_published_numbers(sources, monkeypatch):
    from dataclasses import replace

    from fullrank_papers import engine

    made = experiment("kr20-table1")
    run(made, repeats=2, progress=False)
    run(replace(made, title="other words"), repeats=2, progress=False)
    assert len(result_files(sources)) == 1
    run(replace(made, metrics=made.metrics[:1]), repeats=2, progress=False)
    assert len(result_files(sources)) == 2
    monkeypatch.setattr(engine, "published", lambda file: dict(list(published(file).items())[1:]))
    run(made, repeats=2, progress=False)
    assert len(result_files(sources)) == 3
