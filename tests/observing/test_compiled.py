from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import fullrank.observing.compiled as compiled

RUN = """
import numpy as np
from fullrank.observing import kernels as k
out = np.zeros(2)
k.row_norms(np.eye(2), 0, 2, out)
print(sum(k.row_norms.stats.cache_hits.values()), k.row_norms.__wrapped__.__module__)
"""


def test_compiled_code_is_kept_until_any_of_its_files_changes(tmp_path: Path) -> None:
    # `row_norms` stands in one file and calls what stands in another: numba by itself would not look at the second.
    package = Path(compiled.__file__).parents[1]
    shutil.copytree(package, tmp_path / "fullrank", ignore=shutil.ignore_patterns("__pycache__"))

    def hits() -> list[str]:
        env = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""}
        return subprocess.run(
            [sys.executable, "-c", RUN], env=env, check=True, capture_output=True, text=True
        ).stdout.split()

    assert hits() == ["0", "fullrank.observing.kernels"]
    assert hits()[0] == "1"
    scores = tmp_path / "fullrank" / "observing" / "kernel_scores.py"
    scores.write_text(scores.read_text() + "\n# changed\n")
    assert hits()[0] == "0"
    assert hits()[0] == "1"
