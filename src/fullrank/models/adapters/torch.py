"""torch: modules called with LongTensors, and the state in which any of them is asked."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from fullrank._types import Array, IntArray
from fullrank.models.scorer import Pairs, to_numpy

__all__ = ["evaluating", "recognise"]


def recognise(model: Any, split: Any, name: str) -> Pairs | None:
    """Take a torch module as a function of users and items; ``None`` for anything else."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return None
    return Pairs(_Module(model), name=name)


class _Module:
    """A torch module called with LongTensors on its own device, in eval mode, without gradients."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, users: IntArray, items: IntArray) -> Array:
        import torch

        first = next(self.module.parameters(), None)
        device = "cpu" if first is None else first.device
        with evaluating(self.module):
            tensors = (torch.as_tensor(np.ascontiguousarray(part)).to(device) for part in (users, items))
            return to_numpy(self.module(*tensors))


@contextlib.contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put a module in eval mode, without gradients, and back as it was afterwards."""
    import torch

    training = bool(getattr(module, "training", False))
    if training:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if training:
            module.train()
