"""Neural graph collaborative filtering (Wang, He, Wang, Feng & Chua, SIGIR 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import fullrank as fr

from .training import Task, adam, batches, need_torch, negatives, number, share, train, weights, whole, zeros

__all__ = ["NGCF"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class NGCF:
    """Embeddings of users and items that are passed on ``layers`` times along the graph of who has what.

    With L = D^(−½) A D^(−½) the normalised graph of users and items (no self-loops), and E₀ the embeddings, width
    ``factors``: E_{l+1} = LeakyReLU((L + I) E_l W₁ + (L E_l ∘ E_l) W₂ + biases) (eq. 7), a share ``dropout`` of it set to 0
    while training; each layer's rows are divided by their length, and all layers stand side by side: score = their dot
    product (eq. 9-10). Minimised by Adam is the BPR loss −log σ(score(u, i) − score(u, j)), i in the history of u and j
    drawn from the rest, plus ``regularization`` × ½‖E₀‖² of the rows in the batch (eq. 11).

    What the graph made of the embeddings is all that scoring needs: the fitted model is factors, of width
    (1 + layers) × factors. Users without interactions get factors of 0.

    Unlike the paper: a batch is all interactions of ``batch`` users, far more than there, and the learning rate is higher
    (each step passes over the whole graph, so that few and large steps are what one or two cores can afford), messages are
    dropped but not nodes, all layers have the width
    of the embeddings, the embeddings start at random rather than from a trained matrix factorisation, and early stopping
    looks at NDCG@100 of one held-out interaction of each of ``validation`` users of train. Dividing by the length is in
    the authors' code, not in the paper.

    ``epochs`` at most, stopped when ``patience`` of them have brought no better NDCG@100; exactly as many if ``validation``
    is 0. ``rng`` is a whole number.
    """

    factors: int = 64
    layers: int = 3
    dropout: float = 0.3
    regularization: float = 1e-3
    learning_rate: float = 0.02
    batch: int = 256
    epochs: int = 60
    patience: int = 8
    validation: int = 5000
    rng: int = 0

    def __post_init__(self) -> None:
        for name in ("factors", "layers", "batch", "epochs", "patience"):
            whole(getattr(self, name), name, 1)
        share(self.dropout, "dropout")
        number(self.regularization, "regularization", positive=False)
        number(self.learning_rate, "learning_rate")
        whole(self.validation, "validation", 0)
        whole(self.rng, "rng", 0)

    def fit(self, train: Any, *, progress: bool = True) -> fr.models.FittedFactors:
        """Train until validation says stop."""
        torch = need_torch("NGCF")
        rng = np.random.default_rng(self.rng)
        task = Task.of(train, self.validation, rng, "NGCF")
        network = _Network.start(torch, task.train, self.factors, self.layers, rng)
        network.learn(self, task, rng, progress)
        table = network.table()
        n_users = task.history.shape[0]
        users = table[:n_users] * (np.diff(task.history.indptr) > 0)[:, None]
        return fr.models.FittedFactors(self, users, table[n_users:].copy())

    def __repr__(self) -> str:
        return fr.models.describe(self)


def normalised_graph(history: Any) -> Any:
    """D^(−½) A D^(−½), A the symmetric 0-1 matrix of users and then items; rows without neighbours stay 0."""
    graph = sp.bmat([[None, history], [history.T, None]], format="csr", dtype=np.float32)
    scale = 1 / np.sqrt(np.maximum(np.diff(graph.indptr), 1))
    return sp.csr_matrix(sp.diags(scale) @ graph @ sp.diags(scale), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class _Network:
    torch: Any
    pass_on: Callable[[Any], Any]
    layers: int
    values: dict[str, Any]

    @classmethod
    def start(cls, torch: Any, history: Any, factors: int, layers: int, rng: np.random.Generator) -> _Network:
        n = sum(history.shape)
        values = {"embeddings": weights(torch, rng, n, factors, scale=0.1)}
        for layer in range(layers):
            for each in ("sum", "product"):
                values[f"{each}_{layer}"] = weights(torch, rng, factors, factors)
                values[f"{each}_bias_{layer}"] = zeros(torch, factors)
        return cls(torch, passing_on(torch, normalised_graph(history)), layers, values)

    def forward(self, dropout: float, rng: np.random.Generator | None) -> Any:
        """All layers side by side, one row per user and then per item."""
        torch, v = self.torch, self.values
        now = v["embeddings"]
        out = [now]
        for layer in range(self.layers):
            near = self.pass_on(now)
            summed = (near + now) @ v[f"sum_{layer}"] + v[f"sum_bias_{layer}"]
            product = (near * now) @ v[f"product_{layer}"] + v[f"product_bias_{layer}"]
            now = torch.nn.functional.leaky_relu(summed + product, 0.2)
            if rng is not None and dropout > 0:
                keep = (rng.random(tuple(now.shape), dtype=np.float32) >= dropout) / np.float32(1 - dropout)
                now = now * torch.from_numpy(keep)
            out.append(torch.nn.functional.normalize(now, dim=1))
        return torch.cat(out, dim=1)

    def table(self) -> Any:
        with self.torch.no_grad():
            return self.forward(0.0, None).numpy()

    def learn(self, how: NGCF, task: Task, rng: np.random.Generator, progress: bool) -> None:
        torch, v = self.torch, self.values
        optimiser = adam(torch, v.values(), how.learning_rate)
        n_users = task.train.shape[0]
        learners = np.flatnonzero(np.diff(task.train.indptr))
        latest: dict[str, Any] = {}

        def epoch(number: int) -> float:
            losses = []
            for part in batches(len(learners), how.batch, rng):
                optimiser.zero_grad()
                loss = self.loss(task.train, learners[part], how, rng)
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
            latest["table"] = self.table()
            return float(np.mean(losses))

        def rows(users: Ints) -> Any:
            return latest["table"][users] @ latest["table"][n_users:].T

        train(
            v,
            task,
            epoch,
            lambda: task.ndcg(rows),
            epochs=how.epochs,
            patience=how.patience,
            who="NGCF",
            progress=progress,
        )

    def loss(self, history: Any, users: Ints, how: NGCF, rng: np.random.Generator) -> Any:
        """BPR over all interactions of `users`, one negative each, and the penalty.

        Scores come from one product of users × all items: cheaper than looking up wide rows for every interaction.
        """
        torch = self.torch
        asked, n_users = history[users], history.shape[0]
        owners = np.repeat(np.arange(len(users)), np.diff(asked.indptr))
        pairs = asked.indices.astype(np.int64), negatives(history, users[owners], rng)
        table = self.forward(how.dropout, rng)
        scores = (table[torch.from_numpy(users)] @ table[n_users:].T).flatten()
        liked, other = (scores[torch.from_numpy(owners * history.shape[1] + items)] for items in pairs)
        loss = torch.nn.functional.softplus(other - liked).mean()
        if how.regularization:
            rows = np.concatenate([users[owners], *(n_users + items for items in pairs)])
            times = torch.from_numpy(np.bincount(rows, minlength=len(table)).astype(np.float32))
            penalty = times @ (self.values["embeddings"] ** 2).sum(dim=1)
            loss = loss + how.regularization * 0.5 * penalty / len(owners)
        return loss


def passing_on(torch: Any, graph: Any) -> Callable[[Any], Any]:
    """``values → graph @ values`` for a symmetric graph, so that the gradient is the same product again.

    SciPy's product is as fast as torch's, needs no second copy of the graph, and gives the same digits on any number of
    threads.
    """

    class PassOn(torch.autograd.Function):  # type: ignore[misc]  # torch comes late and untyped
        @staticmethod
        def forward(ctx: Any, given: Any) -> Any:
            return torch.from_numpy(graph @ given.detach().numpy())

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return torch.from_numpy(graph @ np.ascontiguousarray(gradient.numpy()))

    return PassOn.apply  # type: ignore[no-any-return]
