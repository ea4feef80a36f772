"""Neural matrix factorisation (He, Liao, Zhang, Nie, Hu & Chua, "Neural Collaborative Filtering", WWW 2017)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

from .training import Task, batches, need_torch, negatives, number, train, weights, whole, zeros

__all__ = ["FittedNeuMF", "NeuMF"]

Array = NDArray[Any]
Ints = NDArray[np.int64]

_PAIRS = 1 << 11  # scored at once: what the layers make of them stays in the cache


@dataclass(frozen=True, repr=False)
class NeuMF:
    """A product of embeddings and a network over other embeddings, joined in one logistic output.

    score(u, i) = h · [p_u ∘ q_i, φ(p'_u, q'_i)] (eq. 12): p, q have ``factors`` dimensions; φ is a tower of ReLU layers over
    p' and q' side by side, together of ``width`` dimensions, then width/2, then factors. Minimised is the binary
    cross-entropy of each interaction against ``negatives`` items that the user does not have, drawn anew in every epoch.

    With ``pretrain`` the product alone (GMF) and the tower alone (MLP) are trained first, and the whole goes on from their
    parameters, each half weighing ½ (§3.4.1 of the paper). The sizes are those of the code behind li23: 64 factors, a tower
    512-256-64, 2 negatives, batches of 1,024, Adam at 0.001, 20 epochs for each of the three, of which the best by sampled
    Recall@10 of a held-out interaction of every user is kept.

    Unlike that code: an interaction stands in the same batch as its negatives; Adam is the lazy one for embeddings, whose
    moments change only where a batch looks; training stops after ``patience`` epochs that brought no better Recall.

    A fitted model scores pairs, in NumPy: the first layer is linear in p' and q', so that both tables pass through it once.
    ``epochs`` at most, exactly as many if ``validation``, the most users to hold an interaction out of, is 0. ``rng`` is a
    whole number.
    """

    factors: int = 64
    width: int = 512
    pretrain: bool = True
    negatives: int = 2
    learning_rate: float = 1e-3
    batch: int = 1024
    epochs: int = 20
    patience: int = 2
    validation: int = 100_000
    rng: int = 0

    def __post_init__(self) -> None:
        for name in ("factors", "negatives", "batch", "epochs", "patience"):
            whole(getattr(self, name), name, 1)
        whole(self.width, "width", 4)
        if self.width % 4:
            raise ValueError(f"`width` must be a multiple of 4, got {self.width}.")
        number(self.learning_rate, "learning_rate")
        whole(self.validation, "validation", 0)
        whole(self.rng, "rng", 0)

    def fit(self, train: Any, *, progress: bool = True) -> FittedNeuMF:
        """Train GMF and MLP, then both together, each until validation says stop."""
        torch = need_torch("NeuMF")
        rng = np.random.default_rng(self.rng)
        task = Task.of(train, self.validation, rng, "NeuMF")
        network = _Network.start(torch, task.train.shape, self.factors, self.width, rng)
        if self.pretrain:
            network.learn(self, task, rng, progress, ("product",))
            network.learn(self, task, rng, progress, ("tower",))
            network.halve()
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


#: The halves of the model, by the tables and weights each has of its own.
_HALVES = {
    "product": ("user_product", "item_product", "out_product", "out_product_bias"),
    "tower": ("user_tower", "item_tower", "user_in", "item_in", "in_bias", "layer", "layer_bias", "out", "out_bias"),
}
_TABLES = ("user_product", "item_product", "user_tower", "item_tower")


@dataclass(frozen=True, eq=False)
class _Network:
    torch: Any
    values: dict[str, Any]

    @classmethod
    def start(cls, torch: Any, shape: tuple[int, int], factors: int, width: int, rng: np.random.Generator) -> _Network:
        half = width // 2
        values = {}
        for name, size in zip(("user", "item"), shape, strict=True):
            values[f"{name}_product"] = weights(torch, rng, size, factors, scale=0.01)
            values[f"{name}_tower"] = weights(torch, rng, size, half, scale=0.01)
            # one layer over both side by side: in-width `width`, not `half`
            values[f"{name}_in"] = weights(torch, rng, half, half, scale=float(np.sqrt(2 / (width + half))))
        values["in_bias"] = zeros(torch, half)
        values["layer"] = weights(torch, rng, half, factors)
        values["layer_bias"] = zeros(torch, factors)
        values["out_product"] = torch.ones(factors, requires_grad=True)
        values["out_product_bias"] = zeros(torch, 1)
        values["out"] = weights(torch, rng, factors)
        values["out_bias"] = zeros(torch, 1)
        return cls(torch, values)

    def halve(self) -> None:
        """Let each half weigh ½ in the output."""
        with self.torch.no_grad():
            for name in ("out_product", "out_product_bias", "out", "out_bias"):
                self.values[name] *= 0.5

    def logits(self, users: Any, items: Any, halves: Iterable[str] = tuple(_HALVES), rows: Any = None) -> Any:
        """Of every user with each of its items: shape (items per user, users) for items of that shape.

        ``rows`` replaces the tables of embeddings by some of their rows, which `users` and `items` then count.
        """
        torch, v = self.torch, {**self.values, **(rows or {})}
        look = torch.nn.functional.embedding
        out: Any = 0.0
        if "product" in halves:
            product = look(users, v["user_product"]) * look(items, v["item_product"])
            out = out + product @ v["out_product"] + v["out_product_bias"]
        if (
            "tower" in halves
        ):  # the first layer is linear: each row passes through it once, however often it is looked up
            user, item = (v[f"{name}_tower"] @ v[f"{name}_in"] for name in ("user", "item"))
            x = look(users, user + v["in_bias"]) + look(items, item)
            x = torch.relu(torch.relu(x) @ v["layer"] + v["layer_bias"])
            out = out + x @ v["out"] + v["out_bias"]
        return out

    def learn(
        self, how: NeuMF, task: Task, rng: np.random.Generator, progress: bool, halves: tuple[str, ...] = tuple(_HALVES)
    ) -> None:
        torch = self.torch
        v = {name: self.values[name] for half in halves for name in _HALVES[half]}
        lazy = {name: _LazyAdam(torch, each.data, how.learning_rate) for name, each in v.items() if name in _TABLES}
        plain = torch.optim.Adam([each for name, each in v.items() if name not in _TABLES], lr=how.learning_rate)
        owners = np.repeat(np.arange(task.train.shape[0]), np.diff(task.train.indptr))
        liked = task.train.indices.astype(np.int64)
        loss_of = torch.nn.functional.binary_cross_entropy_with_logits
        who = "NeuMF" if len(halves) > 1 else {"product": "GMF", "tower": "MLP"}[halves[0]]

        def epoch(number: int) -> float:
            losses = []
            others = negatives(task.train, np.tile(owners, how.negatives), rng).reshape(how.negatives, -1)
            for part in batches(len(liked), max(1, how.batch // (1 + how.negatives)), rng):
                items = np.concatenate([liked[None, part], others[:, part]])
                (users, user_at), (items, item_at) = (
                    torch.unique(torch.from_numpy(each), return_inverse=True) for each in (owners[part], items)
                )
                index = {name: users if name.startswith("user") else items for name in lazy}
                rows = {name: each.table[index[name]].requires_grad_() for name, each in lazy.items()}
                wanted = torch.zeros(item_at.shape)
                wanted[0] = 1.0
                plain.zero_grad()
                loss = loss_of(self.logits(user_at, item_at, halves, rows), wanted)
                loss.backward()
                plain.step()
                for name, each in lazy.items():
                    each.step(index[name], rows[name].grad)
                losses.append(loss.item())
            return float(np.mean(losses))

        asked = task.asked(rng)

        def quality() -> float:
            return task.sampled_recall(lambda users, items: self.fitted(how, halves).score(users, items), asked)

        train(v, task, epoch, quality, epochs=how.epochs, patience=how.patience, who=who, progress=progress)

    def fitted(self, how: NeuMF, halves: Iterable[str] = tuple(_HALVES)) -> FittedNeuMF:
        """The arrays that score; a half that is not asked for weighs nothing."""
        v = {name: value.detach().numpy().copy() for name, value in self.values.items()}
        return FittedNeuMF(
            how,
            v["user_product"] * v["out_product"] * np.float32("product" in halves),
            v["item_product"],
            v["user_tower"] @ v["user_in"] + v["in_bias"],
            v["item_tower"] @ v["item_in"],
            ((v["layer"], v["layer_bias"]),),
            v["out"] * np.float32("tower" in halves),
        )


class _LazyAdam:
    """Adam for a table of which each step sees a few rows: the moments of the others stay as they are.

    The same numbers as `torch.optim.SparseAdam`, without sorting what is sorted already.
    """

    def __init__(self, torch: Any, table: Any, rate: float) -> None:
        self.table, self.rate, self.steps = table, rate, 0
        self.first, self.second = torch.zeros_like(table), torch.zeros_like(table)

    def step(self, index: Any, gradient: Any, decay: tuple[float, float] = (0.9, 0.999), tiny: float = 1e-8) -> None:
        """Move the rows of ``index``, each named once, by their gradient."""
        self.steps += 1
        first = self.first[index].mul_(decay[0]).add_(gradient, alpha=1 - decay[0])
        second = self.second[index].mul_(decay[1]).addcmul_(gradient, gradient, value=1 - decay[1])
        self.first[index], self.second[index] = first, second
        rate = self.rate * float(np.sqrt(1 - decay[1] ** self.steps)) / (1 - decay[0] ** self.steps)
        self.table.index_add_(0, index, first.div_(second.sqrt_().add_(tiny)), alpha=-rate)
