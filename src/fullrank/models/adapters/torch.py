"""Takes modules of torch, called with LongTensors, and puts any of them in the state in which it is asked."""

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from fullrank._types import Array, IntArray
from fullrank.models.scorer import Pairs, to_numpy


def recognise(model: Any, split: Any, name: str) -> Pairs | None:
    """Take a torch module as a function of users and items; ``None`` for anything else."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return None
    return Pairs(partial(_scores, model), name=name)


def _scores(module: Any, users: IntArray, items: IntArray) -> Array:
    """Call a torch module with LongTensors on its own device, in eval mode, without gradients."""
    import torch

    first = next(module.parameters(), None)
    device = "cpu" if first is None else first.device
    with evaluating(module):
        return to_numpy(module(*(torch.as_tensor(np.ascontiguousarray(part)).to(device) for part in (users, items))))


@contextlib.contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put a module in eval mode, without gradients, and back into its own mode afterwards."""
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
