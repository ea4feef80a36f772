"""Refusals of numbers that cannot be: one sentence, with the first case that is wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["check_weights", "per_case", "refuse", "whole_numbers"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def whole_numbers(name: str, values: ArrayLike) -> IntArray:
    """The values as whole numbers, one per case."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one-dimensional, one entry per case; it has shape {array.shape}.")
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    try:
        floats = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be whole numbers, not {array.dtype}.") from None
    if len(floats) and np.isnan(floats).any():
        first = int(np.flatnonzero(np.isnan(floats))[0])
        raise ValueError(f"`{name}` has a missing value (NaN) at case {first}: drop such cases or give their rank.")
    odd = (floats != np.round(floats)) | (np.abs(floats) >= 2.0**63)
    if odd.any():
        first = int(np.flatnonzero(odd)[0])
        raise ValueError(f"`{name}` must be whole numbers; case {first} has {float(floats[first])!r}.")
    return floats.astype(np.int64)


def per_case(name: str, values: ArrayLike, cases: int) -> IntArray:
    """A whole number per case; one number stands for all."""
    array = np.asarray(values)
    numbers = whole_numbers(name, np.atleast_1d(array) if array.ndim == 0 else array)
    if array.ndim == 0:
        return np.full(cases, numbers[0], dtype=np.int64)
    if len(numbers) != cases:
        raise ValueError(f"`{name}` has {len(numbers)} entries for {cases} cases: give one number, or one per case.")
    return numbers


def check_weights(values: ArrayLike, cases: int) -> FloatArray:
    """The weights of the cases."""
    weights = np.asarray(values, dtype=np.float64)
    if weights.shape != (cases,):
        raise ValueError(f"`weights` has shape {weights.shape} for {cases} cases: give one per case.")
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise ValueError("`weights` must be finite, not negative, and not all zero.")
    return weights


def refuse(bad: NDArray[np.bool_], name: str, values: IntArray, allowed: str) -> None:
    """Raise a ValueError that names the first case where ``bad`` holds."""
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        more = f" ({int(bad.sum()):,} cases in all)" if bad.sum() > 1 else ""
        raise ValueError(f"`{name}` is {int(values[first])} at case {first}{more}: it must be {allowed}.")
