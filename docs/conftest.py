"""What the pages take for granted: a folder of their own, and no page run without the package it is about."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

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


@pytest.fixture(autouse=True)
def page(request, monkeypatch, tmp_path):
    """Files that a page writes go to a folder that is thrown away."""
    if request.node.path.suffix != ".md":
        return
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
