"""The types that annotations share: arrays, pairs such as the ends of an interval, and what seeds randomness."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Pair: TypeAlias = tuple[float, float]
RNG: TypeAlias = int | np.random.Generator | None
