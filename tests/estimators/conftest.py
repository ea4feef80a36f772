"""The benchmarks' modules, for tests of how the prior is made and of which prior a benchmark takes."""

import importlib
import sys
from pathlib import Path

import pytest


@pytest.fixture
def of_benchmarks(monkeypatch):
    """Import a module of ``benchmarks/`` by its name; afterwards those modules are forgotten again."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    before = set(sys.modules)
    yield importlib.import_module
    for name in {"catalogues", "fit_hyperprior"} & (set(sys.modules) - before):
        sys.modules.pop(name)  # which keeps what it read of the environment
