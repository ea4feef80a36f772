"""What the pages take for granted: a small data set, recorded outputs, and no page run without the package it is about."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
NEEDS = re.compile(r"<!-- needs: ([\w., -]+) -->")


def there(name):
    """Whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package it would be in
        return False


def pytest_collection_modifyitems(items):
    """A page that says `<!-- needs: implicit -->` is skipped where that is not installed; `.ci/run` installs them all."""
    for item in items:
        if item.path.suffix == ".md" and ROOT / "docs" in item.path.parents:
            found = NEEDS.search(item.path.read_text(encoding="utf-8"))
            names = found[1].replace(" ", "").split(",") if found else []
            missing = [name for name in names if not there(name)]
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"the page needs {', '.join(missing)}, which .ci/run installs"))


def make_split():
    """300 users, 400 items, popular ones more often; one interaction of each user held out; every item is in train."""
    from fullrank.data.split import given_test

    rng = np.random.default_rng(0)
    taste = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 400)) - 1.2 * np.log1p(np.arange(400))
    chosen = np.argsort(-(taste + rng.gumbel(size=taste.shape)), axis=1)[:, :20]
    train = [(user, item) for user in range(300) for item in chosen[user, 1:]]
    train += [(item % 300, item) for item in range(400) if item not in chosen[item % 300]]
    users, items = np.array(train).T
    return given_test((users, items), (np.arange(300), chosen[:, 0]))


@pytest.fixture(autouse=True)
def page(request, monkeypatch, tmp_path):
    """Names the recipes start from; files they write go to a folder that is thrown away."""
    if request.node.path.suffix != ".md":
        return
    namespace = request.getfixturevalue("doctest_namespace")
    if request.node.path.parent.name == "recipes":
        namespace.update(split=make_split(), recorded=ROOT / "docs" / "recipes" / "recorded")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
