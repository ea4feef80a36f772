"""Shared by all tests: one thread, reproducible property tests, and this folder on the path for ``import naive``."""

from __future__ import annotations

import gc
import os

# before NumPy is loaded: the matrices of the tests are small, and workers of pytest-xdist share the cores
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "fullrank",
    deadline=None,  # a shared machine stalls now and then
    derandomize=True,  # the same examples on every machine
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("fullrank")


def pytest_collection_finish() -> None:
    """Thousands of tests and all modules stay until the end: the collector need not go through them over and over."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_200_823)
