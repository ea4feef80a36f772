"""How the inner loops of observing are compiled.

Kernels release the GIL and hold no state; threads are the caller's. Nothing is compiled before it is first used, and
what is compiled is kept on disk.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

Array = Any  # numba sees the concrete type; mypy cannot

# Kernels own no memory (callers pass in what they work on), so nothing is reference-counted: with it, a third of the time
# went into atomic increments. Helpers that are called once per case are folded in, which halves the compilation.
LEAN = {"nogil": True, "error_model": "numpy", "_nrt": False}
helper = njit(**LEAN)
folded = njit(inline="always", **LEAN)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, and keep the result on disk until one of the compiled files changes.

    numba looks only at the file of the function itself; what it calls stands in others.
    """
    compiled = njit(cache=True, **LEAN)(function)
    kept = getattr(compiled, "_cache", None)  # there is none where compilation is switched off
    if kept is not None:
        files = [Path(__file__), *sorted(Path(__file__).parent.glob("*kernel*.py"))]
        stamp = tuple((file.name, file.stat().st_mtime, file.stat().st_size) for file in files)
        kept._cache_file._source_stamp = stamp
    return compiled
