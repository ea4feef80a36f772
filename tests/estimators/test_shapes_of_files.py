"""How the prior's script tells rank distributions apart by their shapes."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def fitting(monkeypatch):
    """The script that fits the prior, as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import fit_hyperprior

    yield fit_hyperprior
    for name in ("fit_hyperprior", "catalogues"):  # which keeps what it read of the environment
        sys.modules.pop(name)


def test_files_of_like_shape_are_one_kind_whatever_the_size_of_their_catalogue(fitting):
    rng = np.random.default_rng(0)
    size = fitting.COEFFICIENTS
    x = np.linspace(0, 1, size)
    shapes = np.stack([np.exp(-8 * x), x**3, np.sin(6 * x)]) * 3
    larger = rng.standard_normal(size)  # what a larger catalogue changes, which is more than shapes differ by
    files = []
    for index in range(90):
        n_items = float(np.exp(rng.uniform(6, 12)))
        β = shapes[index % 3] + (np.log(n_items) - 9) * larger + 0.1 * rng.standard_normal(size)
        none = np.zeros((1, size))
        files.append(fitting.File(f"c{index}", "als", n_items, none, none, (β - β.mean())[None], np.ones(1)))
    groups = fitting.by_shape(files, 3)
    assert sorted(len(group) for group in groups) == [30, 30, 30]
    for group in groups:
        assert len({int(file.catalogue[1:]) % 3 for file in group}) == 1
