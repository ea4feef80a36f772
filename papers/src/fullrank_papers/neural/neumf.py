"""Neural matrix factorisation (He, Liao, Zhang, Nie, Hu & Chua, "Neural Collaborative Filtering", WWW 2017)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

from .training import Task, batches, need_torch, negatives, number, train, weights, whole, zeros

__all__ = ["FittedNeuMF", "NeuMF"]

Array = NDArray[Any]
Ints = NDArray[np.int64]

_PAIRS = 1 << 15  # scored at once: what the layers make of them stays in the cache


@dataclass(frozen=True, repr=False)
class NeuMF:
    """A product of embeddings and a network over other embeddings, joined in one logistic output.

    score(u, i) = h · [p_u ∘ q_i, φ(p'_u, q'_i)] (eq. 12): p, q have ``factors`` dimensions; φ is a tower of ReLU layers
    over p' and q' side by side, of width 4·factors, 2·factors, factors, p' and q' having 4·factors dimensions each.
    Minimised by Adam is the binary cross-entropy of each interaction against ``negatives`` items that the user does not
    have, drawn anew in every epoch.

    Unlike the paper: both halves are trained together from a random start, not from two models trained before; batches are
    far larger and the learning rate higher; early stopping looks at NDCG@100 of one held-out interaction of each of
    ``validation`` users of train.

    A fitted model scores pairs, in NumPy: the first layer is linear in p' and q', so that both tables pass through it once.
    ``epochs`` at most, stopped when ``patience`` of them have brought no better NDCG@100; exactly as many if ``validation``
    is 0. ``rng`` is a whole number.
    """

    factors: int = 16
    negatives: int = 4
    regularization: float = 0.0
    learning_rate: float = 3e-3
    batch: int = 1 << 13
    epochs: int = 25
    patience: int = 3
    validation: int = 1000
    rng: int = 0

    def __post_init__(self) -> None:
        for name in ("factors", "negatives", "batch", "epochs", "patience"):
            whole(getattr(self, name), name, 1)
        number(self.regularization, "regularization", positive=False)
        number(self.learning_rate, "learning_rate")
        whole(self.validation, "validation", 0)
        whole(self.rng, "rng", 0)

    def fit(self, train: Any, *, progress: bool = True) -> FittedNeuMF:
        """Train until validation says stop."""
        torch = need_torch("NeuMF")
        rng = np.random.default_rng(self.rng)
        task = Task.of(train, self.validation, rng, "NeuMF")
        network = _Network.start(torch, task.train.shape, self.factors, rng)
        network.learn(self, task, rng, progress)
        return network.fitted(self)

    def __repr__(self) -> str:
        return fr.models.describe(self)


@dataclass(frozen=True, eq=False, repr=False)
class FittedNeuMF:
    """What a trained NeuMF scores with: plain arrays, in single precision.

    score(u, i) = user_products[u] · item_products[i] + out · φ(user_input[u] + item_input[i]), where φ is ReLU and then, for
    each pair (weights, bias) of ``layers``, ReLU(x @ weights + bias). The weights of the output's first half are
    in ``user_products`` already; its bias would change no rank and is left out.
    """

    recommender: Any
    user_products: Array
    item_products: Array
    user_input: Array
    item_input: Array
    layers: tuple[tuple[Array, Array], ...]
    out: Array

    def __post_init__(self) -> None:
        width = self.user_input.shape[1:]
        fine = (
            self.user_products.ndim == self.item_products.ndim == self.user_input.ndim == self.item_input.ndim == 2
            and self.user_products.shape[1] == self.item_products.shape[1]
            and len(self.user_products) == len(self.user_input)
            and len(self.item_products) == len(self.item_input)
            and self.item_input.shape[1:] == width
        )
        for matrix, bias in self.layers:
            fine = fine and matrix.ndim == 2 and matrix.shape[:1] == width and bias.shape == matrix.shape[1:]
            width = bias.shape
        if not fine or self.out.shape != width:
            raise ValueError("the arrays of `NeuMF` do not fit together.")

    @property
    def name(self) -> str:
        """How the recommender is written."""
        return fr.models.describe(self.recommender)

    @property
    def n_users(self) -> int:
        """Number of users it knows."""
        return len(self.user_input)

    @property
    def n_items(self) -> int:
        """Number of items it knows."""
        return len(self.item_input)

    def score(self, users: Ints, items: Ints) -> Array:
        """Scores of shape (b, m) for users (b,) and items (b, m)."""
        users, items = np.asarray(users), np.asarray(items)
        out = np.empty(items.size, dtype=np.float32)
        who, what = np.repeat(users, items.shape[1]), items.ravel()
        for first in range(0, len(out), _PAIRS):
            u, i = who[first : first + _PAIRS], what[first : first + _PAIRS]
            x = self.user_input[u]
            x += self.item_input[i]
            np.maximum(x, 0, out=x)
            for matrix, bias in self.layers:
                x = x @ matrix
                x += bias
                np.maximum(x, 0, out=x)
            product = np.einsum("pd,pd->p", self.user_products[u], self.item_products[i])
            out[first : first + _PAIRS] = x @ self.out + product
        return out.reshape(items.shape)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to ``path``, atomically and without pickle; `fullrank.models.load_model` reads it."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        for each, (matrix, bias) in enumerate(self.layers):
            arrays[f"layer_{each}"], arrays[f"layer_bias_{each}"] = matrix, bias
        fr.models.save_model(path, "neumf", self.recommender, arrays)

    @classmethod
    def loaded(cls, recommender: Any, arrays: dict[str, Array]) -> FittedNeuMF:
        """From what `save` wrote."""
        n = sum(name.startswith("layer_bias_") for name in arrays)
        layers = tuple((arrays[f"layer_{each}"], arrays[f"layer_bias_{each}"]) for each in range(n))
        return cls(recommender, **{name: arrays[name] for name in _ARRAYS}, layers=layers)

    def __repr__(self) -> str:
        return f"{self.name} fitted on {self.n_users:,} users × {self.n_items:,} items"


_ARRAYS = ("user_products", "item_products", "user_input", "item_input", "out")


@dataclass(frozen=True, eq=False)
class _Network:
    torch: Any
    values: dict[str, Any]

    @classmethod
    def start(cls, torch: Any, shape: tuple[int, int], factors: int, rng: np.random.Generator) -> _Network:
        wide = 4 * factors
        values = {}
        for name, size in zip(("user", "item"), shape, strict=True):
            values[f"{name}_product"] = weights(torch, rng, size, factors, scale=0.01)
            values[f"{name}_tower"] = weights(torch, rng, size, wide, scale=0.01)
            values[f"{name}_in"] = weights(torch, rng, wide, wide)
        values["in_bias"] = zeros(torch, wide)
        for layer, width in enumerate((wide // 2, wide // 4)):
            values[f"layer_{layer}"] = weights(torch, rng, 2 * width, width)
            values[f"layer_bias_{layer}"] = zeros(torch, width)
        values["out_product"] = torch.ones(factors, requires_grad=True)
        values["out"] = weights(torch, rng, factors)
        values["out_bias"] = zeros(torch, 1)
        return cls(torch, values)

    def logits(self, users: Any, items: Any) -> Any:
        """Of pairs. Whole tables pass through the first layer where they are shorter than the batch."""
        torch, v = self.torch, self.values
        look = torch.nn.functional.embedding
        x = v["in_bias"]
        for name, index in (("user", users), ("item", items)):
            table, matrix = v[f"{name}_tower"], v[f"{name}_in"]
            x = x + (look(index, table @ matrix) if len(table) < len(index) else look(index, table) @ matrix)
        x = torch.relu(x)
        for layer in range(2):
            x = torch.relu(x @ v[f"layer_{layer}"] + v[f"layer_bias_{layer}"])
        product = look(users, v["user_product"]) * look(items, v["item_product"])
        return product @ v["out_product"] + x @ v["out"] + v["out_bias"]

    def learn(self, how: NeuMF, task: Task, rng: np.random.Generator, progress: bool) -> None:
        torch, v = self.torch, self.values
        optimiser = torch.optim.Adam(v.values(), lr=how.learning_rate, weight_decay=how.regularization)
        owners = np.repeat(np.arange(task.train.shape[0]), np.diff(task.train.indptr))
        liked = task.train.indices.astype(np.int64)
        loss_of = torch.nn.functional.binary_cross_entropy_with_logits

        def epoch(number: int) -> float:
            losses = []
            for part in batches(len(liked), max(1, how.batch // (1 + how.negatives)), rng):
                users = np.tile(owners[part], 1 + how.negatives)
                items = np.concatenate([liked[part], negatives(task.train, users[len(part) :], rng)])
                wanted = torch.zeros(len(users))
                wanted[: len(part)] = 1.0
                optimiser.zero_grad()
                loss = loss_of(self.logits(torch.from_numpy(users), torch.from_numpy(items)), wanted)
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
            return float(np.mean(losses))

        def rows(users: Ints) -> Array:
            return self.fitted(how).score(users, np.tile(np.arange(task.train.shape[1]), (len(users), 1)))

        train(v, task, epoch, rows, epochs=how.epochs, patience=how.patience, who="NeuMF", progress=progress)

    def fitted(self, how: NeuMF) -> FittedNeuMF:
        """The arrays that score."""
        v = {name: value.detach().numpy().copy() for name, value in self.values.items()}
        return FittedNeuMF(
            how,
            v["user_product"] * v["out_product"],
            v["item_product"],
            v["user_tower"] @ v["user_in"] + v["in_bias"],
            v["item_tower"] @ v["item_in"],
            tuple((v[f"layer_{each}"], v[f"layer_bias_{each}"]) for each in range(2)),
            v["out"],
        )
