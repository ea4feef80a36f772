"""On the real data, where it is: the exact metrics of kr20's model Y (Table 2)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fullrank.observing.observation import Observation
from fullrank.ranks.design import Exhaustive, Sample

FOLDER = Path(os.environ.get("FULLRANK_DATA", "")) / "ml-1m"


@pytest.mark.slow
@pytest.mark.skipif("FULLRANK_DATA" not in os.environ or not FOLDER.is_dir(), reason="`FULLRANK_DATA` has no ml-1m")
def test_exhaustive_counts_give_the_published_exact_metrics() -> None:
    from fullrank.data import load
    from fullrank.models import ItemCF

    split = load("ml-1m")
    model = ItemCF.kr20_y().fit(split.train, progress=False)
    seen = Observation(model, split, progress=False).advance(Exhaustive())
    R, N = seen.above + 1, seen.pool
    found = [np.mean(R <= 10), np.mean((R <= 10) / np.log2(R + 1)), np.mean(1 / R), np.mean((N - R) / (N - 1))]
    assert [round(100 * float(x), 2) for x in found] == [8.84, 4.59, 4.32, 85.33]
    sampled = Observation(model, split, progress=False).advance(Sample(100, replace=False))
    assert abs(100 * np.mean(sampled.hits < 10) - 56.51) < 1.5  # the paper's uncorrected Recall@10
