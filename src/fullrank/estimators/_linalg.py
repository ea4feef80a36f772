"""The one matrix solve that estimators share."""

from __future__ import annotations

import numpy as np

from fullrank._types import FloatArray


def positive_solve(gram: FloatArray, right: FloatArray) -> FloatArray:
    """Solve with a matrix that is positive definite up to rounding: a ridge at the level of rounding where it is not.

    SciPy is imported here, when first needed: `import fullrank` stays fast.
    """
    from scipy.linalg import cho_factor, cho_solve

    ridge = 0.0
    for _ in range(8):
        try:
            factor = cho_factor(gram if ridge == 0 else gram + ridge * np.eye(len(gram)), check_finite=False)
            return np.asarray(cho_solve(factor, right, check_finite=False))
        except np.linalg.LinAlgError:
            ridge = max(10 * ridge, 1e-15 * float(np.trace(gram)) / len(gram))
    return np.asarray(np.linalg.lstsq(gram, right, rcond=None)[0])
