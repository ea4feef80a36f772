"""A variational autoencoder with a multinomial likelihood (Liang, Krishnan, Hoffman & Jebara, WWW 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

from .training import Task, adam, batches, need_torch, number, share, train, weights, whole, zeros

__all__ = ["MultiVAE"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class MultiVAE:
    """Items of a user as draws from softmax(f(z)), z ~ Normal(0, I), the posterior of z read from the history by a network.

    The history x, divided by its length ‖x‖ and with a share ``dropout`` of it forgotten, passes through tanh layers
    items → ``hidden`` → (μ, log σ²) in ``latent`` dimensions; z = μ + σε passes through ``latent`` → ``hidden`` → items.
    Maximised per user is Σ_i x_i log softmax(f(z))_i − β KL(Normal(μ, σ²) ‖ Normal(0, 1)), by Adam. In step s, β is
    s / ``anneal`` and at most ``beta``: as in the authors' code, whose 200,000 is so much that a data set of a few thousand
    users ends with β near 0. A fitted model scores with z = μ of the whole history.

    The last layer is linear, and a softmax changes no order: the fitted model is factors, with a bias per item.

    Unlike the paper: users of the test are users of the training (there, they are others), and early stopping looks at
    one held-out interaction of each of ``validation`` users of train (there, at held-out users).

    ``epochs`` at most, stopped when ``patience`` of them have brought no better NDCG@100; exactly as many if ``validation``
    is 0. ``rng`` is a whole number.
    """

    hidden: int = 600
    latent: int = 200
    dropout: float = 0.5
    beta: float = 0.2
    anneal: int = 200_000
    learning_rate: float = 1e-3
    batch: int = 500
    epochs: int = 100
    patience: int = 10
    validation: int = 5000
    rng: int = 0

    def __post_init__(self) -> None:
        for name in ("hidden", "latent", "anneal", "batch", "epochs", "patience"):
            whole(getattr(self, name), name, 1)
        share(self.dropout, "dropout")
        number(self.beta, "beta", positive=False)
        number(self.learning_rate, "learning_rate")
        whole(self.validation, "validation", 0)
        whole(self.rng, "rng", 0)

    def fit(self, train: Any, *, progress: bool = True) -> fr.models.FittedFactors:
        """Train until validation says stop."""
        torch = need_torch("MultiVAE")
        rng = np.random.default_rng(self.rng)
        task = Task.of(train, self.validation, rng, "MultiVAE")
        network = _Network.start(torch, task.train.shape[1], self.hidden, self.latent, rng)
        network.learn(self, task, rng, progress)
        with torch.no_grad():
            hidden = [network.hidden(task.history[rows]) for rows in _strips(task.history.shape[0], self.batch)]
        out, bias = (network.values[name].detach().numpy().copy() for name in ("out", "out_bias"))
        return fr.models.FittedFactors(self, np.concatenate(hidden), out, bias)

    def __repr__(self) -> str:
        return fr.models.describe(self)


def _strips(n: int, size: int) -> list[slice]:
    return [slice(first, first + size) for first in range(0, n, size)]


@dataclass(frozen=True, eq=False)
class _Network:
    torch: Any
    values: dict[str, Any]

    @classmethod
    def start(cls, torch: Any, n_items: int, hidden: int, latent: int, rng: np.random.Generator) -> _Network:
        values = {
            "in": weights(torch, rng, n_items, hidden),
            "in_bias": zeros(torch, hidden),
            "mean": weights(torch, rng, hidden, latent),
            "mean_bias": zeros(torch, latent),
            "spread": weights(torch, rng, hidden, latent),
            "spread_bias": zeros(torch, latent),
            "back": weights(torch, rng, latent, hidden),
            "back_bias": zeros(torch, hidden),
            "out": weights(torch, rng, n_items, hidden),
            "out_bias": zeros(torch, n_items),
        }
        return cls(torch, values)

    def encode(self, rows: Any, keep: Any = None) -> Any:
        """The first layer for sparse rows of ones; `keep` are the factors that dropout puts on the interactions."""
        torch, v = self.torch, self.values
        sizes = np.diff(rows.indptr)
        values = np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)
        if keep is not None:
            values *= keep
        summed = torch.nn.functional.embedding_bag(
            torch.from_numpy(rows.indices.astype(np.int64)),
            v["in"],
            torch.from_numpy(rows.indptr[:-1].astype(np.int64)),
            mode="sum",
            per_sample_weights=torch.from_numpy(values),
        )
        return torch.tanh(summed + v["in_bias"])

    def decode(self, z: Any) -> Any:
        return self.torch.tanh(z @ self.values["back"] + self.values["back_bias"])

    def hidden(self, rows: Any) -> Any:
        """The last hidden layer at z = μ: with `out` and `out_bias`, the scores."""
        v = self.values
        return self.decode(self.encode(rows) @ v["mean"] + v["mean_bias"]).numpy()

    def loss(self, rows: Any, beta: float, dropout: float, rng: np.random.Generator) -> Any:
        """Minus the bound, as a mean over users."""
        torch, v = self.torch, self.values
        keep = (rng.random(rows.nnz, dtype=np.float32) >= dropout) / np.float32(1 - dropout)
        first = self.encode(rows, keep)
        mean, spread = first @ v["mean"] + v["mean_bias"], first @ v["spread"] + v["spread_bias"]
        noise = torch.from_numpy(rng.standard_normal(tuple(mean.shape), dtype=np.float32))
        logits = torch.addmm(v["out_bias"], self.decode(mean + torch.exp(0.5 * spread) * noise), v["out"].T)
        sizes = np.diff(rows.indptr)
        at = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes) * logits.shape[1] + rows.indices)
        liked = logits.flatten()[at].sum() - torch.from_numpy(sizes.astype(np.float32)) @ torch.logsumexp(logits, 1)
        divergence = 0.5 * (mean**2 + torch.exp(spread) - 1 - spread).sum()
        return (beta * divergence - liked) / len(sizes)

    def learn(self, how: MultiVAE, task: Task, rng: np.random.Generator, progress: bool) -> None:
        torch, v = self.torch, self.values
        optimiser = adam(torch, v.values(), how.learning_rate)
        learners = np.flatnonzero(np.diff(task.train.indptr))

        steps = count()

        def epoch(number: int) -> float:
            losses = []
            for part in batches(len(learners), how.batch, rng):
                beta = min(how.beta, next(steps) / how.anneal)
                optimiser.zero_grad()
                loss = self.loss(task.train[learners[part]], beta, how.dropout, rng)
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
            return float(np.mean(losses))

        def rows(users: Ints) -> Any:
            with torch.no_grad():
                hidden = torch.from_numpy(self.hidden(task.train[users]))
                return torch.addmm(v["out_bias"], hidden, v["out"].T).numpy()

        train(
            v,
            task,
            epoch,
            lambda: task.ndcg(rows),
            epochs=how.epochs,
            patience=how.patience,
            who="MultiVAE",
            progress=progress,
        )
