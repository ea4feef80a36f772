"""What the neural recommenders share: a validation set taken from train, negatives, and epochs until they stop helping.

All randomness comes from one NumPy generator, so torch's global state is neither read nor changed: the same seed gives the
same model, to the digit on one thread (several threads add up in another order).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

from ..progress import bar

__all__ = [
    "Task",
    "adam",
    "batches",
    "need_torch",
    "negatives",
    "number",
    "share",
    "train",
    "weights",
    "whole",
    "zeros",
]

Array = NDArray[Any]
Ints = NDArray[np.int64]

_ASKED = 100  # items that a held-out one is compared with where that is sampled, and
_TOP = 10  # how far up it must stand: the authors of li23 choose epochs by Recall@10 of 100
_CUT = 100  # of the validation NDCG: less noisy than a cut at 10, and what Liang et al. (2018) stop by
_CELLS = 1 << 22  # scores ranked at once when validating
_REDRAWS = 20  # of negatives that are interactions; a user who has nearly everything keeps a few
_log = logging.getLogger(__name__)


def need_torch(who: str) -> Any:
    """The module torch, or an error that says how to get it."""
    try:
        import torch
    except ImportError:
        raise ImportError(f"`{who}` needs PyTorch: pip install 'fullrank-papers[neural]'.") from None
    return torch


@dataclass(frozen=True, eq=False)
class Task:
    """Histories, and what of them is learned from: all but one interaction of each of some users, the validation set.

    Lenders are drawn among the users with at least three interactions, and never more than `most` of them. Where there is
    none, training runs through all its epochs. What was lent counts as not had: it may be drawn as a negative.
    """

    history: Any
    train: Any
    users: Ints
    items: Ints

    @classmethod
    def of(cls, train: Any, most: int, rng: np.random.Generator, who: str) -> Task:
        """Take the validation set from a users × items matrix."""
        history = fr.models.history_of(train)
        if not history.nnz:
            raise ValueError(f"`train` holds no interaction; `{who}` has nothing to learn from.")
        sizes = np.diff(history.indptr)
        able = np.flatnonzero(sizes >= 3)
        users = np.sort(rng.choice(able, size=min(most, len(able)), replace=False)).astype(np.int64)
        places = history.indptr[users] + rng.integers(sizes[users])
        items = history.indices[places].astype(np.int64)
        rest = history.copy()
        rest.data[places] = 0.0
        rest.eliminate_zeros()
        return cls(history, rest, users, items)

    def ndcg(self, rows: Callable[[Ints], Array]) -> float:
        """Mean NDCG@100 of the held-out items among all items the user does not learn from; ties rank in the middle.

        NaN if a held-out item's score is.
        """
        gains = 0.0
        step = max(1, _CELLS // self.train.shape[1])
        for first in range(0, len(self.users), step):
            users, items = self.users[first : first + step], self.items[first : first + step]
            scores = np.array(rows(users))  # a copy, to be written to
            own = scores[np.arange(len(users)), items][:, None]
            seen = self.train[users]
            scores[np.repeat(np.arange(len(users)), np.diff(seen.indptr)), seen.indices] = -np.inf
            if np.isnan(own).any():
                return np.nan
            ranks = 0.5 + (scores > own).sum(axis=1) + 0.5 * (scores == own).sum(axis=1)
            gains += float((1 / np.log2(1 + ranks))[ranks <= _CUT].sum())
        return gains / max(1, len(self.users))

    def asked(self, rng: np.random.Generator) -> Array:
        """Each held-out item and the items it is compared with in `sampled_recall`, a row per lender."""
        others = negatives(self.history, np.repeat(self.users, _ASKED), rng).reshape(-1, _ASKED)
        return np.concatenate([self.items[:, None], others], axis=1)

    def sampled_recall(self, score: Callable[[Ints, Ints], Array], asked: Array) -> float:
        """Share of held-out items that stand in the first ten of ``asked``; ties rank in the middle. NaN if a score is."""
        scores = np.asarray(score(self.users, asked), dtype=np.float64)
        if np.isnan(scores).any():
            return np.nan
        own = scores[:, :1]
        ranks = 0.5 + (scores > own).sum(axis=1) + 0.5 * (scores == own).sum(axis=1)
        return float((ranks <= _TOP).sum() / max(1, len(ranks)))


def train(
    parameters: dict[str, Any],
    task: Task,
    epoch: Callable[[int], float],
    quality: Callable[[], float],
    *,
    epochs: int,
    patience: int,
    who: str,
    progress: bool,
) -> None:
    """Run epochs until the quality has not risen for `patience` of them; leave the parameters of the best.

    ``epoch(n)`` runs the n-th, from 0, and returns its loss; ``quality()`` is what the present parameters reach on the
    validation set: `Task.ndcg` or `Task.sampled_recall`.
    """
    best, since, kept = -1.0, 0, {}
    with bar(progress, epochs, who) as rounds:
        for each in range(epochs):
            with np.errstate(all="ignore"):  # said below, in words
                loss = epoch(each)
                reached = quality()
            if not np.isfinite(loss + reached):
                raise ValueError(f"`{who}` diverged in epoch {each + 1}: lower `learning_rate`.")
            _log.info("%s: epoch %d, loss %.4f, validation %.4f", who, each + 1, loss, reached)
            rounds.set_postfix_str(f"loss={loss:.3f}, validation={reached:.4f}")
            rounds.update()
            since = 0 if reached > best or not len(task.users) else since + 1
            if since == 0:
                best, kept = reached, {name: tensor.detach().clone() for name, tensor in parameters.items()}
            elif since >= patience:
                break
    for name, tensor in kept.items():
        parameters[name].data.copy_(tensor)


def adam(torch: Any, parameters: Iterable[Any], rate: float) -> Any:
    """Adam, in one pass over every tensor: with thousands of items its steps would else take longer than the gradients."""
    return torch.optim.Adam(list(parameters), lr=rate, fused=True)


def batches(n: int, size: int, rng: np.random.Generator) -> Iterator[Ints]:
    """0 to n − 1 in random order, in as few nearly equal parts of at most `size` as possible."""
    yield from np.array_split(rng.permutation(n), -(-n // size))


def negatives(history: Any, users: Ints, rng: np.random.Generator) -> Ints:
    """For each of `users` an item drawn uniformly from those not in its history."""
    n_items = history.shape[1]
    items = rng.integers(n_items, size=len(users))
    open_ = np.arange(len(users))
    for _ in range(_REDRAWS):
        if not len(open_):
            break
        open_ = open_[np.asarray(history[users[open_], items[open_]]).ravel() > 0]
        items[open_] = rng.integers(n_items, size=len(open_))
    return items


def weights(torch: Any, rng: np.random.Generator, *shape: int, scale: float | None = None) -> Any:
    """A trainable tensor, normal with standard deviation `scale` (default: Glorot's √(2 / (in + out)))."""
    deviation = np.sqrt(2 / sum(shape)) if scale is None else scale
    values = rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
    return torch.from_numpy(values).requires_grad_()


def zeros(torch: Any, *shape: int) -> Any:
    """A trainable tensor of zeros."""
    return torch.zeros(shape, dtype=torch.float32, requires_grad=True)


def whole(value: Any, name: str, least: int) -> None:
    """Check that a parameter is a whole number from ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"`{name}` is {value!r}; allowed is a whole number from {least}.")


def number(value: Any, name: str, *, positive: bool = True) -> None:
    """Check that a parameter is a finite number above 0, or from 0 unless ``positive``."""
    fine = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not fine or not np.isfinite(value) or value < 0 or (positive and value == 0):
        raise ValueError(f"`{name}` is {value!r}; allowed is a finite number {'above' if positive else 'from'} 0.")


def share(value: Any, name: str) -> None:
    """Check that a parameter is a number from 0 to below 1."""
    number(value, name, positive=False)
    if value >= 1:
        raise ValueError(f"`{name}` is {value!r}; allowed is a share from 0 to below 1.")
