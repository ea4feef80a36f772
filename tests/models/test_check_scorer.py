from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fullrank.data.split import Split
from fullrank.models.scorer import Factors, ItemItem, Rows
from fullrank.testing import check_scorer


@pytest.fixture
def split() -> Split:
    rng = np.random.default_rng(0)
    train = rng.random((10, 40)) < 0.2
    train[:, 7] = train[:, 9] = False
    return Split(sp.csr_matrix(train.astype(float)), np.repeat(np.arange(10), 2), np.tile([7, 9], 10))


def test_good_models_pass(split: Split) -> None:
    rng = np.random.default_rng(1)
    U, V = rng.normal(size=(10, 5)).astype(np.float32), rng.normal(size=(40, 5)).astype(np.float32)
    similarity = rng.random((40, 40))
    for model in (
        (U, V),
        (U, V, rng.normal(size=40)),
        ItemItem(similarity, split.train),
        ItemItem(sp.csr_matrix(similarity * (similarity > 0.8)), split.train),
        U @ V.T,
        sp.csr_matrix(U @ V.T),
        np.arange(40),
        Rows(lambda users: U[users] @ V.T, 40, 10),
        lambda users, items: np.einsum("bd,bmd->bm", U[users], V[items]),
    ):
        check_scorer(model, split)


class WrongPath(Factors):
    def score(self, users: Any, items: Any) -> Any:
        return -super().score(users, items)


def test_bad_models_are_told_what_is_wrong(split: Split) -> None:
    rng = np.random.default_rng(1)
    U, V = rng.normal(size=(10, 5)), rng.normal(size=(40, 5))

    def writes(users: Any, items: Any) -> Any:
        out = items * 1.0
        items[:] = 0
        return out

    for model, match in (
        (lambda users, items: items[:, :1], "returned scores of shape|scores of shape"),
        (lambda users, items: np.where(items == 7, np.nan, items) if items.shape[1] > 40 else items * np.nan, "NaN"),
        (lambda users, items: items.astype(str), "not numbers"),
        (lambda users, items: items - items.mean(), "another batch"),
        (lambda users, items: rng.random(items.shape), "must be the same whenever it is asked for"),
        (Rows(lambda users: rng.random((len(users), 40)), 40, 10), "another call"),
        (lambda users, items: np.argsort(items, axis=1) + np.arange(items.shape[1]), "another"),
        ((U, V[:-1]), "knows 39 items, but the split has 40"),
        (writes, "changes the arrays"),
        (WrongPath(U, V), "by its fast path"),
    ):
        with pytest.raises((AssertionError, ValueError), match=match):
            check_scorer(model, split)
