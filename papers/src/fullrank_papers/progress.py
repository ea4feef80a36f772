"""Progress bars, where somebody looks."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["bar"]


def bar(progress: bool, total: int | None, what: str, **look: Any) -> Any:
    """A bar in a terminal, only for what takes longer than a second; ``look`` is tqdm's."""
    from tqdm import tqdm

    return tqdm(total=total, desc=what, delay=1.0, leave=False, disable=not (progress and sys.stderr.isatty()), **look)
