"""Small worlds with known truth: factor models that are asked for items their users really like."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import fullrank as fr


def make_world(users=900, items=2500, factors=12, targets=1, seed=0, noise=2.2):
    """Two models, the better one with all factors, and a split whose targets the first one ranks high."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(users, factors)).astype(np.float32)
    V = rng.normal(size=(items, factors)).astype(np.float32)
    liked = U @ V.T + noise * rng.gumbel(size=(users, items)).astype(np.float32)
    best = np.argsort(-liked, axis=1)[:, : 5 + targets]
    train = sp.csr_matrix((np.ones(users * 5), best[:, :5].ravel(), np.arange(0, 5 * users + 1, 5)), (users, items))
    split = fr.Split(train, np.repeat(np.arange(users), targets), best[:, 5:].ravel(), name="made up")
    half = factors // 2
    return {"good": (U, V), "half": (U[:, :half].copy(), V[:, :half].copy())}, split
