from __future__ import annotations

import pickle
import sys
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fullrank.data.split import Split
from fullrank.models.scorer import Factors, ItemItem, Pairs, Rows, Scorer, Table, as_scorer
from fullrank.observing.observation import Observation
from fullrank.ranks.design import Exhaustive, Sample
from fullrank.ranks.guided import Guided

N_USERS, N_ITEMS = 12, 25


@pytest.fixture
def split() -> Split:
    rng = np.random.default_rng(0)
    train = rng.random((N_USERS, N_ITEMS)) < 0.25
    items = np.array([int(np.flatnonzero(~row)[3]) for row in train])
    train[np.arange(N_USERS), (items + 1) % N_ITEMS] = True
    return Split(sp.csr_matrix(train.astype(np.float32)), np.arange(N_USERS), items)


@pytest.fixture
def named(split: Split) -> Split:
    """The same, with names that are not positions."""
    users = np.array([f"u{k}" for k in range(N_USERS)])[::-1].copy()
    items = np.array([f"i{(k * 7) % N_ITEMS}" for k in range(N_ITEMS)])
    return Split(split.train, split.users, split.items, user_ids=users, item_ids=items)


@pytest.fixture
def factors() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(N_USERS, 4)).astype(np.float32), rng.normal(size=(N_ITEMS, 4)).astype(np.float32)


def all_scores(scorer: Any) -> Any:
    return scorer.score(np.arange(N_USERS), np.tile(np.arange(N_ITEMS), (N_USERS, 1)))


def agree(scorer: Any, expected: Any, split: Split) -> None:
    """The scorer gives the expected scores, and the same ranks through its own path as through its scores."""
    np.testing.assert_allclose(all_scores(scorer), expected, rtol=1e-4, atol=1e-5)
    assert isinstance(scorer, Scorer)
    for design in (Exhaustive(), Sample(20, replace=False)):
        fast = Observation(scorer, split, progress=False).advance(design)
        plain = Observation(np.asarray(expected, dtype=np.float64), split, progress=False).advance(design)
        np.testing.assert_array_equal(fast.above, plain.above)


# ---------------------------------------------------------------------------------------------------- arrays


def test_factors(factors: Any, split: Split) -> None:
    U, V = factors
    scorer = as_scorer((U, V), split)
    assert isinstance(scorer, Factors)
    assert scorer.items is V  # no copy
    agree(scorer, U @ V.T, split)
    agree(as_scorer([U, V]), U @ V.T, split)
    bias = np.arange(N_ITEMS) / 10
    agree(as_scorer((U, V, bias)), U @ V.T + bias, split)
    assert as_scorer((U.astype(np.float16), V.astype(np.float16))).items.dtype == np.float32
    assert as_scorer((U, V.astype(np.float64))).users.dtype == np.float64
    assert as_scorer((np.ones((3, 2), int), np.ones((4, 2), int))).users.dtype == np.float64


def test_memory_mapped_factors_are_not_copied(factors: Any, split: Split, tmp_path: Any) -> None:
    for name, table in zip("UV", factors, strict=True):
        np.save(tmp_path / f"{name}.npy", table)
    U, V = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "UV")
    scorer = as_scorer((U, V))
    assert np.shares_memory(scorer.items, V)
    agree(scorer, factors[0] @ factors[1].T, split)


def test_other_arrays(factors: Any, split: Split) -> None:
    scores = factors[0] @ factors[1].T
    dense = as_scorer(scores)
    assert isinstance(dense, Rows)
    agree(dense, scores, split)
    table = as_scorer(sp.csr_matrix(scores))
    assert isinstance(table, Table)
    agree(table, scores, split)
    agree(as_scorer(scores[0]), np.tile(scores[0], (N_USERS, 1)), split)


def test_one_score_per_item_is_for_everybody_however_they_are_numbered(factors: Any, named: Split) -> None:
    scores = (factors[0] @ factors[1].T)[0]
    for scorer in (as_scorer(scores, named), as_scorer(scores), pickle.loads(pickle.dumps(as_scorer(scores)))):
        assert repr(scorer) == "Factors(item scores, 25 items)"
        agree(scorer, np.tile(scores, (N_USERS, 1)), named)
    model, quiet = factors, {"progress": False}
    by_guide = Observation(model, named, guide=scores, **quiet).advance(Guided(5, 9))
    rows = Observation(model, named, guide=np.tile(scores, (N_USERS, 1)), **quiet).advance(Guided(5, 9))
    np.testing.assert_array_equal(by_guide.ahead, rows.ahead)


def test_shapes_that_do_not_fit_are_refused(factors: Any) -> None:
    U, V = factors
    with pytest.raises(ValueError, match=r"shape \(12, 4\) and item factors of shape \(4, 25\).*transpose"):
        as_scorer((U, V.T))
    with pytest.raises(ValueError, match="one item bias per item"):
        as_scorer((U, V, np.zeros(3)))
    with pytest.raises(ValueError, match="must be a matrix, got shape"):
        as_scorer((U, V[0]))
    with pytest.raises(TypeError, match="of 4"):
        as_scorer((U, V, U, V))
    with pytest.raises(TypeError, match="must be numbers, got"):
        as_scorer((U.astype(str), V))
    assert as_scorer((U, V, None)).bias is None
    for what, model in (
        ("the scores", np.ones(N_ITEMS, complex)),
        ("the scores", sp.csr_matrix(np.ones((N_USERS, N_ITEMS), complex))),
        ("the item bias of model `factors`", (U, V, ["a"] * N_ITEMS)),
    ):
        with pytest.raises(TypeError, match=f"{what} must be numbers, got "):
            as_scorer(model)
    table = {"user_id": [0], "item_id": [1], "score": [0.5]}
    for models in ([Factors(U, V), Factors(U, V)], [(U, V), (U, V)], [(U, V), (U[:, :2], V)], [table, table], []):
        with pytest.raises(TypeError, match=r"must be a pair of factors \(U, V\), or .* got a list of "):
            as_scorer(models)
    with pytest.raises(TypeError, match=r"shape \(1, 2, 3\)"):
        as_scorer(np.zeros((1, 2, 3)))


def test_frames(factors: Any, split: Split, named: Split) -> None:
    pd, pl, pa = pytest.importorskip("pandas"), pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    scores = (factors[0] @ factors[1].T).astype(np.float64)
    scores[0, :5] = 0  # a score like any other, not an absent one
    users, items = np.divmod(np.random.default_rng(0).permutation(N_USERS * N_ITEMS), N_ITEMS)
    columns = {"user_id": users, "item_id": items, "score": scores[users, items]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        agree(as_scorer(frame, split), scores, split)
        agree(as_scorer(frame), scores, split)
    byname = {"user_id": named.user_ids[users], "item_id": named.item_ids[items], "score": scores[users, items]}
    agree(as_scorer(pd.DataFrame(byname), named), scores, named)
    agree(as_scorer(pl.DataFrame(byname), named), scores, named)
    half = pd.DataFrame(columns).iloc[::2]
    found = all_scores(as_scorer(half, split))
    assert np.isneginf(found).sum() == N_USERS * N_ITEMS // 2
    with pytest.raises(ValueError, match="no column looks like the score; the columns are 'user_id', 'item_id'"):
        as_scorer(pd.DataFrame(columns)[["user_id", "item_id"]], split)
    with pytest.raises(ValueError, match="more than once"):
        as_scorer(pd.concat([half, half.head(2)]), split)
    with pytest.raises(ValueError, match="holds item 99; the split has 25"):
        as_scorer(pd.DataFrame({"user_id": [0], "item_id": [99], "score": [1.0]}), split)
    with pytest.raises(
        TypeError, match=r"has users with names such as 'u\d+', and the split has no `user_ids` to transl"
    ):
        as_scorer(pd.DataFrame(byname), split)


def test_frames_whose_names_are_not_those_of_the_split(factors: Any, split: Split, named: Split) -> None:
    scores = factors[0] @ factors[1].T
    places = np.repeat(np.arange(N_USERS), N_ITEMS), np.tile(np.arange(N_ITEMS), N_USERS)
    users, items, values = named.user_ids[places[0]], named.item_ids[places[1]], scores.ravel()

    def columns(**other: Any) -> dict[str, Any]:
        return {"user": users, "item": items, "score": values, **other}

    with pytest.raises(
        ValueError, match=r"knows none of the split's users: it has names such as 0, and .* 'u11'; take"
    ):
        as_scorer(columns(user=places[0]), named)
    with pytest.raises(ValueError, match="`EASE` knows none of the split's items: it has names such as 0"):
        as_scorer(columns(item=places[1]), named, name="EASE")
    fewer = {what: column[2 * N_ITEMS :] for what, column in columns().items()}
    with pytest.raises(
        ValueError, match=r"`scores` has no row for user 'u11' \(and 1 more\), who has a test case: score"
    ):
        as_scorer(fewer, named)
    strange = np.where(places[1] == 3, "x", items), np.where(places[0] == 5, "y", users)
    with pytest.warns(UserWarning, match="names 1 of 25 items that the split does not have: 12 rows of 300 left out"):
        found = as_scorer(columns(item=strange[0]), named)
    np.testing.assert_array_equal(np.isneginf(all_scores(found)).sum(0), np.where(np.arange(N_ITEMS) == 3, N_USERS, 0))
    fewer_cases = replace(named, users=named.users[:5], items=named.items[:5])
    with pytest.warns(UserWarning, match="names 1 of 12 users and 1 of 25 items that"):
        as_scorer(columns(user=strange[1], item=strange[0]), fewer_cases)
    with pytest.raises(ValueError, match=r"`split.item_ids` has 'i0' at two positions"):
        as_scorer(columns(), replace(named, item_ids=np.where(named.item_ids == "i1", "i0", named.item_ids)))
    with pytest.raises(ValueError, match="`scores` has no rows"):
        as_scorer(columns(user=[], item=[], score=[]), named)
    with pytest.raises(TypeError, match="`scores` must hold numbers as scores, got 'good'"):
        as_scorer(columns(score=["good"] * len(values)), named)
    with pytest.raises(ValueError, match="`scores` holds user -1; positions start at 0"):
        as_scorer({"user": [0, -1], "item": [0, 1], "score": [1.0, 2.0]})
    agree(as_scorer({"user": places[0].astype(float), "item": places[1], "score": values}, split), scores, split)


def test_what_is_no_split_is_refused(factors: Any, split: Split) -> None:
    for what in (lambda: as_scorer(factors, split.train), lambda: Observation(factors, split.train)):
        with pytest.raises(TypeError, match=r"`split` must be a Split, got a csr_matrix: make one with `fr.Split\("):
            what()
    with pytest.raises(TypeError, match=r"got the string 'ml-1m': load it with `fr.load\('ml-1m'\)`"):
        Observation(factors, "ml-1m")  # type: ignore[arg-type]


def test_item_item_models(split: Split) -> None:
    rng = np.random.default_rng(2)
    dense = rng.random((N_ITEMS, N_ITEMS))
    expected = split.train @ dense

    class Neighbours:
        similarity = sp.csr_matrix(dense)

    class Ease:
        similarity = dense

        def score(self, users: Any, items: Any) -> Any:
            raise AssertionError("the structure is faster")

    for model in (Neighbours(), Ease()):
        scorer = as_scorer(model, split)
        assert isinstance(scorer, ItemItem)
        agree(scorer, expected, split)
    with pytest.raises(ValueError, match="histories: give `split`"):
        as_scorer(Ease())
    with pytest.raises(ValueError, match="items × items"):
        ItemItem(dense[:3], split.train)
    with pytest.raises(ValueError, match="knows 20 items, but its users' histories hold 25"):
        ItemItem(dense[:20, :20], split.train)
    narrow = ItemItem(dense, split.train[:, :20])  # its users have not met the last five items
    expected = split.train[:, :20] @ dense[:20]
    agree(narrow, expected, split)
    assert np.shares_memory(narrow.history.indices, ItemItem(dense, narrow.history).history.indices)


# ---------------------------------------------------------------------------------------------------- functions


def test_functions_and_objects_with_score(factors: Any, split: Split) -> None:
    U, V = factors
    expected = U @ V.T

    def score(users: Any, items: Any) -> Any:
        assert users.ndim == 1
        assert items.ndim == 2
        return np.einsum("bd,bmd->bm", U[users], V[items])

    class Mine:
        name = "mine"
        n_items = N_ITEMS

        def score(self, users: Any, items: Any) -> Any:
            return score(users, items).tolist()

    for model in (score, Mine()):
        scorer = as_scorer(model)
        assert isinstance(scorer, Pairs)
        agree(scorer, expected, split)
    assert as_scorer(Mine()).name == "mine"
    assert as_scorer(score).name == "score"
    assert as_scorer(Mine()).n_items == N_ITEMS
    assert as_scorer(scorer) is scorer


def test_functions_of_flat_pairs(factors: Any, split: Split) -> None:
    U, V = factors
    expected = U @ V.T
    flat = [
        lambda u, i: (U[u] * V[i]).sum(-1),
        lambda u, i: (U[u] * V[i]).sum(1),
        lambda u, i: (U[u] * V[i]).sum(-1, keepdims=True),  # as a last layer of one unit gives them
        lambda u, i: np.einsum("bd,bd->b", U[u], V[i]),
    ]
    for model in flat:
        scorer = as_scorer(model)
        agree(scorer, expected, split)
        assert scorer.flat is True
        # as many users as items, one user, one item: shapes in which the wrong form would look right, asked first
        for b, m in ((5, 5), (1, 4), (4, 1), (1, 1)):
            users, items = np.arange(b), np.arange(b * m).reshape(b, m)
            np.testing.assert_allclose(as_scorer(model).score(users, items), expected[users[:, None], items], rtol=1e-5)
    assert as_scorer(lambda users, items: -items).score(np.arange(1), np.arange(3)[None]).tolist() == [[0, -1, -2]]


def test_the_form_is_found_once_and_by_a_few_pairs() -> None:
    asked: list[tuple[Any, Any]] = []

    def model(u: Any, i: Any) -> Any:
        asked.append((u.shape, i.shape))
        if u.shape != i.shape:
            raise RuntimeError("not flat")
        return u + i

    scorer = as_scorer(model)
    for _ in range(2):
        scorer.score(np.arange(3), np.zeros((3, 4), dtype=np.int64))
    assert asked == [((2,), (2, 3)), ((6,), (6,)), ((12,), (12,)), ((12,), (12,))]


def test_wrong_shapes_and_failures_are_told_in_both_forms() -> None:
    users, items = np.arange(2), np.arange(6).reshape(2, 3)
    with pytest.raises(
        ValueError, match=r"shape \(2,\) for users of shape \(2,\) and items of shape \(2, 3\).*\(6, 6\)"
    ):
        as_scorer(lambda u, i: u if i.ndim == 2 else np.zeros((6, 6))).score(users, items)

    def broken(u: Any, i: Any) -> Any:
        raise KeyError(f"no such user in {u.shape}")

    with pytest.raises(KeyError, match=r"no such user in \(2,\)") as caught:
        as_scorer(broken).score(users, items)
    assert "flat pairs" in caught.value.__notes__[0]


def test_a_torch_module_of_flat_pairs(factors: Any, split: Split) -> None:
    torch = pytest.importorskip("torch")
    U, V = (torch.as_tensor(each) for each in factors)

    class Dot(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, users: Any, items: Any) -> Any:
            return torch.cat([U[users] * V[items]], dim=-1).sum(1)

    agree(as_scorer(Dot()), factors[0] @ factors[1].T, split)


def test_a_mapping_of_arrays_is_a_frame_of_scores() -> None:
    scorer = as_scorer({"user_id": np.array([0, 1]), "item_id": np.array([1, 0]), "score": np.array([0.5, 2.0])})
    assert isinstance(scorer, Table)
    assert scorer.score(np.array([1]), np.array([[0, 1]])).tolist() == [[2.0, -np.inf]]


def test_what_is_no_model_is_refused_with_what_is() -> None:
    class Unfitted:
        def fit(self) -> None: ...

    for model, match in (
        (3, "must be a pair of factor arrays.*got a builtins.int"),
        ("ease", "got the string 'ease'. Load the model first"),
        (Unfitted, r"the class `Unfitted`.* did you mean an instance, `Unfitted\(...\)`"),
        (Unfitted(), "Is it fitted"),
        (None, "NoneType"),
    ):
        with pytest.raises(TypeError, match=match) as caught:
            as_scorer(model)
        assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------------------------------------- other libraries


def test_implicit_factors(split: Split) -> None:
    als = pytest.importorskip("implicit.als")
    model = als.AlternatingLeastSquares(factors=4, iterations=2, random_state=0, use_gpu=False, num_threads=1)
    model.fit(split.train, show_progress=False)
    scorer = as_scorer(model, split)
    assert isinstance(scorer, Factors)
    assert scorer.name == "AlternatingLeastSquares"
    agree(scorer, model.user_factors @ model.item_factors.T, split)
    ids, scores = model.recommend(0, split.train[0], N=N_ITEMS, filter_already_liked_items=False)
    np.testing.assert_allclose(all_scores(scorer)[0][ids], scores, rtol=1e-4)


def test_implicit_neighbours(split: Split) -> None:
    nearest = pytest.importorskip("implicit.nearest_neighbours")
    model = nearest.CosineRecommender(K=6, num_threads=1)
    model.fit(split.train, show_progress=False)
    scorer = as_scorer(model, split)
    assert isinstance(scorer, ItemItem)
    agree(scorer, (split.train @ model.similarity).toarray(), split)
    ids, scores = model.recommend(3, split.train[3], N=N_ITEMS, filter_already_liked_items=False)
    real = ids >= 0
    np.testing.assert_allclose(all_scores(scorer)[3][ids[real]], scores[real], rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_cornac(named: Split, split: Split) -> None:
    cornac = pytest.importorskip("cornac")
    rows, columns = named.train.nonzero()
    # Cornac numbers users and items as they appear: not as the split does
    shuffled = np.random.default_rng(0).permutation(len(rows))
    names = [
        (named.user_ids[u], named.item_ids[i], 1.0) for u, i in zip(rows[shuffled], columns[shuffled], strict=True)
    ]
    data = cornac.data.Dataset.from_uir(names, seed=1)
    model = cornac.models.MF(k=3, max_iter=3, seed=1, verbose=False).fit(data)
    if data.num_items < N_ITEMS:
        with pytest.raises(ValueError, match=r"knows .* of the split's 25 items"):
            as_scorer(model, named)
    everything = [(u, i, 1.0) for u in named.user_ids for i in named.item_ids]
    data = cornac.data.Dataset.from_uir(
        [everything[k] for k in np.random.default_rng(0).permutation(len(everything))], seed=1
    )
    model = cornac.models.MF(k=3, max_iter=3, seed=1, verbose=False).fit(data)
    scorer = as_scorer(model, named)
    expected = np.empty((N_USERS, N_ITEMS))
    for u, user in enumerate(named.user_ids):
        for i, item in enumerate(named.item_ids):
            expected[u, i] = model.score(data.uid_map[user], data.iid_map[item])
    agree(scorer, expected, named)
    assert as_scorer(model).n_items == N_ITEMS  # without a split, its own order


class _FakeRecBole:
    """The parts of a RecBole model that are called: ids from 1, place 0 for padding."""

    USER_ID, ITEM_ID, device = "user_id", "item_id", "cpu"

    def __init__(self, U: Any, V: Any) -> None:
        import torch

        self.U = torch.cat([torch.full((1, U.shape[1]), 9.0), torch.as_tensor(U)])
        self.V = torch.cat([torch.full((1, V.shape[1]), 9.0), torch.as_tensor(V)])
        self.n_users, self.n_items, self.training = len(self.U), len(self.V), True

    def predict(self, interaction: Any) -> Any:
        return (self.U[interaction[self.USER_ID]] * self.V[interaction[self.ITEM_ID]]).sum(-1)

    def eval(self) -> None:
        self.training = False

    def train(self) -> None:
        self.training = True


_FakeRecBole.__module__ = "recbole.model.fake"


class _Interaction(dict):  # type: ignore[type-arg]
    """What a model sees of RecBole's batches."""

    def to(self, device: Any) -> _Interaction:
        return self


def test_recbole(factors: Any, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    for name in ("recbole", "recbole.data", "recbole.data.interaction"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr(sys.modules["recbole.data.interaction"], "Interaction", _Interaction, raising=False)

    class FullSort(_FakeRecBole):
        def full_sort_predict(self, interaction: Any) -> Any:
            assert not self.training
            return (self.U[interaction[self.USER_ID]] @ self.V.T).view(-1)

    expected = factors[0] @ factors[1].T
    full, pairs = FullSort(*factors), _FakeRecBole(*factors)
    assert isinstance(as_scorer(full, split), Rows)
    assert isinstance(as_scorer(pairs, split), Pairs)
    agree(as_scorer(full, split), expected, split)
    agree(as_scorer(pairs, split), expected, split)
    assert full.training


def test_lenskit(split: Split) -> None:
    named = Split(  # LensKit takes whole numbers or strings; strings of pandas 3 it does not
        split.train, split.users, split.items,
        user_ids=1000 - 10 * np.arange(N_USERS), item_ids=(np.arange(N_ITEMS) * 7) % N_ITEMS + 500,
    )  # fmt: skip
    lk = pytest.importorskip("lenskit")
    pd = pytest.importorskip("pandas")
    try:
        from lenskit.basic import BiasScorer
        from lenskit.data import from_interactions_df
        from lenskit.pipeline import topn_pipeline
    except ImportError as error:  # pragma: no cover - another LensKit
        pytest.skip(f"LensKit {lk.__version__}: {error}")
    users, items = np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
    ratings = np.random.default_rng(3).integers(1, 6, N_USERS * N_ITEMS)
    frame = pd.DataFrame({"user_id": named.user_ids[users], "item_id": named.item_ids[items], "rating": ratings})
    pipeline = topn_pipeline(BiasScorer())
    pipeline.train(from_interactions_df(frame))
    scorer = as_scorer(pipeline, named)
    from lenskit import operations
    from lenskit.data import ItemList

    expected = np.stack(
        [
            operations.score(pipeline, user, ItemList(item_ids=named.item_ids)).scores()
            for user in named.user_ids.tolist()
        ]
    )
    agree(scorer, expected, named)


def test_torch_modules_tensors_and_embeddings(factors: Any, split: Split) -> None:
    torch = pytest.importorskip("torch")
    U, V = factors
    expected = U @ V.T

    class Dot(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.users = torch.nn.Embedding.from_pretrained(torch.tensor(U), freeze=False)
            self.items = torch.nn.Embedding.from_pretrained(torch.tensor(V), freeze=False)
            self.drop = torch.nn.Dropout(0.9)

        def forward(self, users: Any, items: Any) -> Any:
            assert users.dtype == items.dtype == torch.long
            return (self.drop(self.users(users))[:, None, :] * self.items(items)).sum(-1)

    module = Dot().train()
    scorer = as_scorer(module)
    assert isinstance(scorer, Pairs)
    agree(scorer, expected, split)
    assert module.training
    agree(as_scorer((module.users, module.items)), expected, split)
    agree(as_scorer((torch.tensor(U, requires_grad=True), torch.tensor(V))), expected, split)
    half = as_scorer((torch.tensor(U).bfloat16(), torch.tensor(V).bfloat16()))
    np.testing.assert_allclose(all_scores(half), expected, atol=0.1)
    agree(as_scorer(torch.tensor(expected)), expected, split)
    agree(
        as_scorer(lambda users, items: module.eval()(torch.as_tensor(users), torch.as_tensor(items))), expected, split
    )


def test_torch_is_not_needed(monkeypatch: pytest.MonkeyPatch, factors: Any, split: Split) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    agree(as_scorer(factors), factors[0] @ factors[1].T, split)
    module = types.SimpleNamespace(user_factors=factors[0], item_factors=factors[1])
    agree(as_scorer(module), factors[0] @ factors[1].T, split)
