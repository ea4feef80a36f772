"""Small evaluations, and models that make trouble, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank.data.split import Split
from fullrank.models.scorer import ItemItem, Rows
from fullrank.ranks.design import Adaptive, Exhaustive, Sample, Top
from fullrank.ranks.guided import Guided

FIELDS = ("ahead", "rest", "drawn", "hits", "pool", "order", "targets")
DESIGNS = (
    Exhaustive(),
    Sample(7),
    Sample(7, replace=False),
    Adaptive(3, 13, stop_at=2),
    Adaptive(2, "all", stop_at=3, replace=False),
    Top(4, 7),
)
GUIDED = (Guided(12, 5, stop_at=3), Guided(9, 3, "all", stop_at=4), Guided(10, 4, stop_at=2, keep_open=0.3))
KINDS = ("factors", "bias", "item-item", "dense item-item", "table", "matrix", "rows", "function")
USERS, ITEMS = 60, 45


def same(seen: Any, expected: Any) -> None:
    for key in FIELDS:
        np.testing.assert_array_equal(getattr(seen, key), getattr(expected, key), err_msg=key)


def make_split(users: int = USERS, items: int = ITEMS, seed: int = 0, most: int = 3) -> Split:
    """Several targets for some users, cases in no order."""
    rng = np.random.default_rng(seed)
    train = rng.random((users, items)) < 0.2
    pairs = [(u, int(i)) for u in range(users) for i in rng.choice(items, rng.integers(1, most + 1), replace=False)]
    of, targets = (np.array(each) for each in zip(*[pairs[k] for k in rng.permutation(len(pairs))], strict=True))
    train[of, targets] = False
    return Split(sp.csr_matrix(train.astype(np.float32)), of, targets)


@dataclass(frozen=True)
class Function:
    """Scores with many ties; NumPy only, so that a process holds the GIL."""

    items: int = ITEMS

    def __call__(self, users: Any, items: Any) -> Any:
        return ((users[:, None] * 31 + items * 17) % 23).astype(float)

    def rows(self, users: Any) -> Any:
        return self(users, np.tile(np.arange(self.items), (len(users), 1)))


def make_model(kind: str, split: Split, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    U = rng.integers(-2, 3, (split.n_users, 9)).astype(np.float32)
    V = rng.integers(-2, 3, (split.n_items, 9)).astype(np.float32)
    if kind == "factors":
        return U, V
    if kind == "bias":
        return U, V, rng.integers(-3, 4, split.n_items).astype(np.float32)
    similarity = rng.integers(0, 3, (split.n_items,) * 2) * (rng.random((split.n_items,) * 2) < 0.2)
    if kind == "item-item":
        return ItemItem(sp.csr_matrix(similarity.astype(np.float32)), split.train)
    if kind == "dense item-item":
        return ItemItem(similarity.astype(np.float64), split.train)
    if kind == "table":
        return sp.csr_matrix(np.where(rng.random((split.n_users, split.n_items)) < 0.5, U @ V.T + 100, 0))
    if kind == "matrix":
        return U @ V.T
    if kind == "rows":
        return Rows(Function(split.n_items).rows, split.n_items, split.n_users)
    return Function(split.n_items)


@dataclass(frozen=True)
class Trouble:
    """The function, except that something happens when it is asked for ``user`` (the first time, if ``flag`` is a path)."""

    user: int
    how: str
    flag: str = ""
    table: Any = None  # something that takes room

    def __call__(self, users: Any, items: Any) -> Any:
        if self.user in users and self._first():
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "raise":
                raise ZeroDivisionError("no luck")
            if self.how == "nan":
                return np.full(items.shape, np.nan)
            if self.how == "sleep":
                time.sleep(600)
        return Function()(users, items)

    def _first(self) -> bool:
        if not self.flag:
            return True
        try:
            Path(self.flag).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Unreadable:
    """Pickles here, cannot be opened there."""

    def __call__(self, users: Any, items: Any) -> Any:
        return np.zeros(items.shape)

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise ImportError("no such library on this machine")


@dataclass(frozen=True)
class Spy:
    """Writes down, per process, how much memory it filled itself (no page of a file), after reading a large array."""

    table: Any
    folder: str

    def __call__(self, users: Any, items: Any) -> Any:
        total = float(self.table.sum())
        own = next(
            int(line.split()[1])
            for line in Path("/proc/self/smaps_rollup").read_text().splitlines()
            if line.startswith("Anonymous:")
        )
        Path(self.folder, str(os.getpid())).write_text(f"{total} {own}")
        time.sleep(0.02)
        return Function()(users, items)


@dataclass(frozen=True)
class Telling:
    """A task that also says on which of Ray's nodes it ran; elsewhere it waits until one has begun on ``node``."""

    task: Any
    node: str
    begun: str
    name: str = "telling"

    def __call__(self, block: Any) -> Any:
        import ray

        here = ray.get_runtime_context().get_node_id()
        if here == self.node:
            Path(self.begun).touch()
        for _ in range(200):
            if Path(self.begun).exists():
                break
            time.sleep(0.1)
        time.sleep(0.3)  # so that others have blocks too
        return self.task(block), here


@dataclass(frozen=True)
class Piece:
    """A block that only the keeper of a range may do."""

    users: tuple[int, ...]
    shard: int


@dataclass(frozen=True)
class Keeping:
    """A task of pieces: something happens at one user (the first time, if ``flag`` is a path)."""

    trouble: Trouble
    name: str = "keeping"

    def __call__(self, piece: Piece) -> Any:
        time.sleep(0.02)
        self.trouble(np.array(piece.users), np.zeros((1, 1), dtype=int))
        return piece.users[0]
