from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import fullrank.observing.compiled as compiled

RUN = """
import numpy as np
from fullrank.observing import kernels as k
from fullrank.observing.kernel_inputs import RowModel
k.score_matrix(RowModel(np.eye(2)), np.arange(2), np.zeros((2, 1), dtype=np.int64), np.zeros(0), np.zeros((2, 1)))
print(sum(k.score_matrix.stats.cache_hits.values()), k.score_matrix.__wrapped__.__module__)
"""


def test_compiled_code_is_kept_until_any_of_its_files_changes(tmp_path: Path) -> None:
    # `score_matrix` stands in one file and calls what stands in another: numba by itself would not look at the second.
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
