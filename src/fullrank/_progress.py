"""Progress bars, in terminals and notebooks only."""

import sys
from typing import Any


class _Silent:
    """A bar that shows nothing: tqdm's own takes a lock, which a forked process killed meanwhile would never give back."""

    def __enter__(self) -> "_Silent":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, *ignored: Any) -> None:
        pass

    set_postfix_str = update


def bar(progress: bool, total: float | None, what: str, *, delay: float = 1.0, **options: Any) -> Any:
    """Return a bar in a terminal or notebook, only for what takes longer than ``delay`` seconds; ``options`` are tqdm's."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    in_notebook = "IPKernelApp" in getattr(shell, "config", {})
    if not progress or not (in_notebook or sys.stderr.isatty()):
        return _Silent()
    from tqdm.auto import tqdm

    return tqdm(total=total, desc=what, delay=delay, **{"leave": False, **options})
