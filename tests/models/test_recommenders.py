"""Recommenders against second, naive implementations on toys, and against published numbers on real data."""

import dataclasses
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fullrank as fr
from fullrank._archive import read_archive, write_archive
from fullrank.data import Split, load
from fullrank.models import (
    ALS,
    EASE,
    ImplicitALS,
    ItemCF,
    ItemKNN,
    Popularity,
    Scorer,
    as_scorer,
    fitted,
    load_model,
    register,
    save_model,
)
from fullrank.models.fitted import FittedFactors, FittedItemItem
from fullrank.models.scorer import Factors, ItemItem

OWN = [
    Popularity(),
    ItemCF(),
    ItemCF.kr20_y(),
    ItemCF.kr20_z(),
    ItemCF(history_neighbours=4, scored_neighbours=3),
    ItemKNN(neighbours=3),
    ItemKNN(neighbours=5, weighting="bm25", keep_self=True),
    EASE(l2=3.0),
    ALS(factors=4, regularization=0.5, iterations=5),
]


def toy(n_users=40, n_items=17, share=0.25, seed=5):
    """Random interactions with an item nobody has (the last) and a user without any (the last)."""
    train = (np.random.default_rng(seed).random((n_users, n_items)) < share).astype(float)
    train[-1], train[:, -1] = 0, 0
    return train


def scores(model):
    users = np.arange(model.n_users)
    return np.asarray(model.score(users, np.tile(np.arange(model.n_items), (len(users), 1))))


def labels(recommenders):
    return [str(each) for each in recommenders]


# -------------------------------------------------------------------------------------------------- known answers


def test_popularity_counts_users():
    model = Popularity().fit(np.array([[1, 1, 0], [0, 5, 0], [0, 1, 0]]))
    assert scores(model).tolist() == [[1, 3, 0]] * 3


def naive_item_cf(train, *, power, keep_self, history_neighbours, scored_neighbours, normalise):
    """kr20 eq. 27-29 word by word; s[i, j]: scored item i, item j of the history."""
    n = train.shape[1]
    sets = [set(np.flatnonzero(column)) for column in train.T]
    s = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if sets[i] and sets[j] and (keep_self or i != j):
                s[i, j] = (len(sets[i] & sets[j]) / np.sqrt(len(sets[i]) * len(sets[j]))) ** power

    def nearest(i, k):
        others = [j for j in range(n) if s[i, j] > 0]
        return set(sorted(others, key=lambda j: (-s[i, j], j))[: n if k is None else k])

    t = s.copy()
    for i in range(n):
        for j in range(n):
            if i not in nearest(j, history_neighbours) or j not in nearest(i, scored_neighbours):
                t[i, j] = 0
    if normalise:
        for i in range(n):
            if t[i].any():
                t[i] /= np.sqrt((t[i] ** 2).sum())
    return np.array([[sum(t[i, j] for j in np.flatnonzero(row)) for i in range(n)] for row in train])


@pytest.mark.parametrize(
    "recommender",
    [
        ItemCF.kr20_y(),
        ItemCF(history_neighbours=3),
        ItemCF(scored_neighbours=3),
        ItemCF(history_neighbours=4, scored_neighbours=3, keep_self=True, power=0.5),
        ItemCF(normalise=False),
    ],
    ids=str,
)
def test_item_cf_is_kr20_word_by_word(recommender):
    train = toy()
    knobs = dataclasses.asdict(recommender)
    del knobs["max_gigabytes"]
    np.testing.assert_allclose(scores(recommender.fit(train)), naive_item_cf(train, **knobs), rtol=1e-12, atol=1e-14)


def test_the_presets_are_the_papers():
    assert ItemCF.kr20_y() == ItemCF(power=3.0, keep_self=True)
    assert ItemCF.kr20_z() == ItemCF(history_neighbours=10)
    assert ALS.kr20_x(rng=3) == ALS(factors=16, regularization=10.0, alpha=0.2, iterations=20, rng=3)


def test_item_knn_is_item_cf_without_norms():
    train = toy()
    plain = ItemCF(history_neighbours=4, normalise=False).fit(train)
    np.testing.assert_array_equal(scores(ItemKNN(neighbours=4).fit(train)), scores(plain))


def test_strips_change_nothing(monkeypatch):
    from fullrank.models import ease, itemknn

    train = toy()
    each = [ItemKNN(neighbours=3), ItemCF.kr20_y(), ItemCF(scored_neighbours=2, history_neighbours=3), EASE(l2=2.0)]
    whole = [scores(recommender.fit(train)) for recommender in each]
    monkeypatch.setattr(itemknn, "_STRIP_CELLS", 5 * train.shape[1])
    monkeypatch.setattr(ease, "_STRIP", 5)
    for recommender, expected in zip(each, whole, strict=True):
        np.testing.assert_array_equal(scores(recommender.fit(train)), expected)


@pytest.mark.filterwarnings("ignore:Method expects CSR input")  # implicit about its own transposing
@pytest.mark.parametrize("weighting", ["cosine", "bm25"])
def test_item_knn_agrees_with_implicit(weighting):
    neighbours = pytest.importorskip("implicit.nearest_neighbours", reason="needs the package implicit")
    train = toy(n_users=200, n_items=60)[:-1, :-1]  # implicit divides by 0 for an item nobody has
    make = {"cosine": neighbours.CosineRecommender, "bm25": neighbours.BM25Recommender}[weighting]
    other = make(K=60)
    other.fit(sp.csr_matrix(train), show_progress=False)
    ours = ItemKNN(neighbours=60, weighting=weighting, keep_self=True).fit(train)
    np.testing.assert_allclose(scores(ours), train @ other.similarity.toarray(), rtol=1e-9)


def test_ease_satisfies_its_normal_equations():
    # the gradient of the loss must vanish wherever B is free, that is off the diagonal
    train, l2 = toy(), 3.0
    model = EASE(l2=l2).fit(train)
    B = model.similarity.astype(float)
    assert not np.diag(B).any()
    gradient = train.T @ (train @ B - train) + l2 * B
    np.fill_diagonal(gradient, 0)
    np.testing.assert_allclose(gradient, 0, atol=2e-5)
    np.testing.assert_allclose(scores(model), train @ B, atol=1e-5)


def test_als_goes_down_to_a_point_where_the_gradient_vanishes():
    train, weight, alpha = toy(), 0.5, 0.2

    def loss_of(recommender):
        model = recommender.fit(train)
        users, items = model.user_factors.astype(float), model.item_factors.astype(float)
        y = users @ items.T
        loss = (train * (y - 1) ** 2).sum() + alpha * (y**2).sum() + weight * ((users**2).sum() + (items**2).sum())
        pull = train * (y - 1) + alpha * y
        return loss, max(abs(pull @ items + weight * users).max(), abs(pull.T @ users + weight * items).max())

    runs = [loss_of(ALS(factors=3, regularization=weight, alpha=alpha, iterations=n)) for n in (1, 2, 5, 20, 500)]
    losses = [loss for loss, _ in runs]
    assert losses == sorted(losses, reverse=True)
    assert runs[-1][1] < 1e-4


def test_als_finds_two_tastes():
    train = np.kron(np.eye(2), np.ones((6, 4)))
    train[0, 0] = 0
    row = scores(ALS(factors=2, regularization=0.1, iterations=10).fit(train))[0]
    assert row[0] > 10 * np.abs(row[4:]).max()


@pytest.mark.parametrize(("name", "value"), [("_CELLS", 50), ("_SHORT", 0), ("_SHORT", 9)])
def test_als_solves_the_same_systems_in_any_way(name, value, monkeypatch):
    from fullrank.models import als

    recommender = ALS(factors=6, regularization=0.5, iterations=3)
    expected = scores(recommender.fit(toy()))
    monkeypatch.setattr(als, name, value)
    np.testing.assert_allclose(scores(recommender.fit(toy())), expected, rtol=1e-5, atol=1e-6)


def test_als_leaves_who_has_nothing_at_zero():
    model = ALS(factors=4, iterations=3).fit(toy())
    assert not model.user_factors[-1].any()
    assert not model.item_factors[-1].any()


def test_implicit_als():
    pytest.importorskip("implicit", reason="needs the package implicit")
    recommender = ImplicitALS(factors=4, iterations=5)
    one, two = recommender.fit(toy()), recommender.fit(toy())
    assert scores(one)[toy() > 0].mean() > 2 * scores(one)[toy() == 0].mean()
    np.testing.assert_allclose(scores(one), scores(two), rtol=1e-4, atol=1e-5)


def test_implicit_als_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "implicit.als", None)
    with pytest.raises(ImportError, match=r"fullrank\[implicit\]"):
        ImplicitALS().fit(toy())


# -------------------------------------------------------------------------------------------------- every recommender


@pytest.mark.parametrize("recommender", OWN, ids=labels(OWN))
def test_contract(recommender):
    train = sp.csr_matrix(toy())
    before = train.copy()
    said = str(recommender)
    model = recommender.fit(train, progress=False)
    assert (train != before).nnz == 0
    assert model.recommender is recommender
    assert str(recommender) == said
    assert eval(said) == recommender  # prints as it is written
    assert str(model).startswith(f"{said} fitted on 40 users × 17 items")
    assert isinstance(model, Scorer)
    assert (model.n_users, model.n_items) == train.shape
    fast = as_scorer(model)
    assert isinstance(fast, Factors if isinstance(model, FittedFactors) else ItemItem)
    assert fast.name == said
    assert np.isfinite(scores(model)).all()
    np.testing.assert_array_equal(scores(model), scores(fast))
    again = recommender.fit(train, progress=False)  # the same to the digit
    np.testing.assert_array_equal(scores(model), scores(again))


@pytest.mark.parametrize("recommender", OWN, ids=labels(OWN))
def test_only_the_pairs_count(recommender):
    train = toy()
    weighted = train * np.random.default_rng(0).integers(1, 6, size=train.shape)
    untidy = sp.coo_matrix(weighted)
    untidy = sp.coo_matrix(
        (np.append(untidy.data, 0.0), (np.append(untidy.row, 0), np.append(untidy.col, 0))), shape=train.shape
    )  # with an explicit zero
    expected = scores(recommender.fit(train))
    for given in (sp.csr_matrix(weighted), sp.csc_array(train), untidy, train.astype(bool)):
        np.testing.assert_array_equal(scores(recommender.fit(given)), expected)


@pytest.mark.parametrize("recommender", OWN, ids=labels(OWN))
def test_without_any_interaction_all_are_equal(recommender):
    assert not scores(recommender.fit(np.zeros((3, 5)))).any()


@pytest.mark.parametrize("recommender", OWN, ids=labels(OWN))
@pytest.mark.parametrize(
    ("train", "error", "message"),
    [
        ([[1, 0]], TypeError, "`train` must .*got a list"),
        (np.ones(3), ValueError, "shape"),
        (np.zeros((0, 3)), ValueError, "at least one"),
        (np.array([[1.0, np.nan]]), ValueError, "not finite"),
        (np.array([["a", "b"]]), TypeError, "numbers"),
    ],
)
def test_bad_train(recommender, train, error, message):
    with pytest.raises(error, match=message):
        recommender.fit(train)


def test_a_split_instead_of_its_train():
    split = Split(sp.csr_matrix([[1, 0]]), [0], [1])
    with pytest.raises(TypeError, match=r"did you mean `split\.train`"):
        EASE().fit(split)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EASE(l2=0), "`l2` must .*got 0"),
        (lambda: EASE(l2=float("nan")), "`l2`"),
        (lambda: EASE(l2="big"), "`l2`"),
        (lambda: EASE(max_gigabytes=0), "`max_gigabytes`"),
        (lambda: ItemCF(power=-1), "`power`"),
        (lambda: ItemCF(history_neighbours=0), "`history_neighbours` must .*got 0"),
        (lambda: ItemCF(scored_neighbours=2.5), "whole number of at least 1 or None"),
        (lambda: ItemCF(keep_self="yes"), "must be True or False"),
        (lambda: ItemKNN(neighbours=None), "`neighbours` must .*got None"),
        (lambda: ItemKNN(weighting="tfidf"), "'cosine' or 'bm25'"),
        (lambda: ItemKNN(b=1.5), "`b`"),
        (lambda: ALS(factors=0), "`factors`"),
        (lambda: ALS(regularization=0), "`regularization`"),
        (lambda: ALS(alpha=-0.1), "`alpha`"),
        (lambda: ALS(iterations=True), "`iterations`"),
        (lambda: ALS(rng=None), "`rng`"),
        (lambda: ImplicitALS(alpha=0), "`alpha`"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert str(caught.value).count(". ") == 0  # one sentence


def test_too_large_is_refused_before_anything_is_allocated():
    gowalla_like = sp.csr_matrix(([1.0], ([0], [0])), shape=(3, 40_981))
    with pytest.raises(ValueError, match=r"40,981 items needs 20\.2 GB.*`max_gigabytes` is 4"):
        EASE().fit(gowalla_like)
    everything = sp.csr_matrix(np.ones((2, 2000)))
    with pytest.raises(ValueError, match=r"set `history_neighbours`"):
        ItemCF(max_gigabytes=0.01).fit(everything)
    assert ItemCF(max_gigabytes=0.01, history_neighbours=2).fit(everything).similarity.nnz == 4000


def test_parameters_are_frozen_values():
    assert len({EASE(), EASE(l2=500.0), EASE(l2=1.0)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        EASE().l2 = 3  # type: ignore[misc]


def test_other_seeds_are_other_models():
    assert (scores(ALS(factors=4, rng=1).fit(toy())) != scores(ALS(factors=4, rng=2).fit(toy()))).any()


# -------------------------------------------------------------------------------------------------- on disk


@pytest.mark.parametrize("recommender", OWN, ids=labels(OWN))
def test_saved_and_loaded(recommender, tmp_path):
    model = recommender.fit(toy())
    path = tmp_path / "some.model"
    model.save(path)
    loaded = load_model(path)
    assert type(loaded) is type(model)
    assert loaded.recommender == recommender
    assert str(loaded) == str(model)
    np.testing.assert_array_equal(scores(loaded), scores(model))
    assert as_scorer(loaded).digest() == as_scorer(model).digest()
    model.save(path)  # over an older one
    assert os.listdir(tmp_path) == ["some.model"]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.npz"
    ItemKNN(neighbours=3).fit(toy()).save(path)
    return path


def test_a_cut_file_is_refused(saved):
    content = saved.read_bytes()
    for size in range(0, len(content), max(1, len(content) // 40)):
        saved.write_bytes(content[:size])
        with pytest.raises(ValueError, match="not a saved model, or is damaged"):
            load_model(saved)


def test_a_changed_byte_is_refused_or_harmless(saved):
    content = saved.read_bytes()
    expected, said = scores(load_model(saved)), set()
    for place in range(0, len(content), max(1, len(content) // 200)):
        saved.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            model = load_model(saved)
        except ValueError as error:
            said.add(str(error).split(" or is damaged: ")[0])
        else:  # a byte of the archive that says nothing, such as a date
            np.testing.assert_array_equal(scores(model), expected)
    assert said == {f"{str(saved)!r} is not a saved model,"}


def rewrite(path, change):
    header, arrays = read_archive(path, "fullrank model", 1, "a saved model")
    change(header, arrays)
    write_archive(path, header, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, a: h.update(version=99), "version is 99"),
        (lambda h, a: h.update(format="other"), "its format is not 'fullrank model'"),
        (lambda h, a: h.update(recommender="os"), "does not know"),
        (lambda h, a: h.update(kind="tree"), "kind is 'tree'"),
        (lambda h, a: h["parameters"].update(neighbours=-1), "`neighbours` must .*got -1"),
        (lambda h, a: h["parameters"].update(colour=1), "colour"),
        (lambda h, a: h.update(parameters=None), "damaged"),
        (lambda h, a: a.pop("history_indices"), "history_indices"),
        (lambda h, a: a["history_indices"].__setitem__(0, 99), "damaged"),
        (lambda h, a: a["similarity_indices"].__setitem__(0, -5), "damaged"),
        (lambda h, a: a["similarity_indptr"].__setitem__(-1, 10**6), "damaged"),
    ],
)
def test_a_file_that_says_something_else_is_refused(saved, change, message):
    rewrite(saved, change)
    with pytest.raises(ValueError, match=message):
        load_model(saved)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    for write in (
        lambda: path.write_text("hello"),
        lambda: np.savez(path, a=np.ones(3)),
        lambda: np.savez(path, header=np.frombuffer(b"[1]", dtype=np.uint8)),
        lambda: np.savez(path, header=np.frombuffer(b"\xff\xfe", dtype=np.uint8)),
        lambda: np.save(path.open("wb"), np.ones(3)),
        lambda: np.savez(path, header=np.array([{"pickled": 1}], dtype=object)),
        lambda: zipfile.ZipFile(path, "w").close(),
    ):
        write()
        with pytest.raises(ValueError, match="not a saved model, or is damaged"):
            load_model(path)
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nowhere.npz")


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        ItemKNN(neighbours=2).fit(toy()).save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="must be a file, got the folder"):
        Popularity().fit(toy()).save(tmp_path)
    with pytest.raises(TypeError, match="must hold numbers to be saved"):
        write_archive(tmp_path / "x", {}, {"a": np.array([None])})
    with pytest.raises(TypeError, match="cannot be saved"):
        FittedFactors(Mine(), np.ones((2, 1)), np.ones((3, 1))).save(tmp_path / "x")


@dataclasses.dataclass(frozen=True)
class Mine:
    size: int = 1


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(fitted, "_RECOMMENDERS", dict(fitted._RECOMMENDERS))
    monkeypatch.setattr(fitted, "_KINDS", dict(fitted._KINDS))


def test_a_recommender_from_elsewhere_is_saved_and_loaded_once_registered(tmp_path, registry):
    register(Mine, doubled=lambda recommender, arrays: (recommender, 2 * arrays["a"]))
    FittedFactors(Mine(3), np.ones((2, 1)), np.ones((3, 1))).save(tmp_path / "factors")
    assert load_model(tmp_path / "factors").recommender == Mine(3)
    save_model(tmp_path / "other", "doubled", Mine(), {"a": np.arange(3)})
    recommender, values = load_model(tmp_path / "other")
    assert recommender == Mine()
    assert values.tolist() == [0, 2, 4]
    save_model(tmp_path / "nothing", "unheard of", Mine(), {"a": np.arange(3)})
    with pytest.raises(ValueError, match="its kind is 'unheard of'"):
        load_model(tmp_path / "nothing")


def test_what_cannot_be_registered(registry):
    with pytest.raises(TypeError, match="must be dataclasses, got <class 'int'>"):
        register(int)
    with pytest.raises(ValueError, match="a recommender 'EASE' already, in fullrank"):
        register(dataclasses.make_dataclass("EASE", ["l2"]))
    with pytest.raises(ValueError, match="kind of fullrank's own"):
        register(factors=lambda recommender, arrays: None)


def test_files_hold_json_and_numbers_only(saved):
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist():
            array = np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            assert array.dtype.kind in "fiu"
        header = json.loads(np.load(io.BytesIO(archive.read("header.npy"))).tobytes())
    assert header["recommender"] == "ItemKNN"
    assert header["parameters"]["neighbours"] == 3


# -------------------------------------------------------------------------------------------------- real data


@pytest.fixture(scope="module")
def ml_1m():
    folder = os.environ.get("FULLRANK_DATA")
    if not folder or not (Path(folder) / "ml-1m" / "interactions.parquet").is_file():
        pytest.skip("needs the data set ml-1m in the folder FULLRANK_DATA")
    return load("ml-1m")


def percent(model, split, candidates="unseen"):
    from fullrank.observing.observe import observe

    dist = fr.Naive().fit(observe(model, split, fr.Exhaustive(), candidates=candidates, rng=0, progress=False))
    return [100 * dist.expect(metric) for metric in (fr.Recall @ 10, fr.NDCG @ 10, fr.AP, fr.AUC)]


# kr20 Table 3, column Exact, percent. Y has no randomness; in Z 43 % of the targets are tied, which decides its AUC.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("recommender", "published", "within"),
    [
        (ItemCF.kr20_y(), (8.84, 4.59, 4.32, 85.33), (0.01, 0.01, 0.01, 0.01)),
        (ItemCF.kr20_z(), (9.42, 4.79, 4.44, 74.73), (0.02, 0.02, 0.02, 0.8)),
        (ALS.kr20_x(), (7.60, 3.76, 3.75, 89.13), (0.3, 0.3, 0.3, 0.3)),
    ],
    ids=["Y", "Z", "X"],
)
def test_kr20_table_3_exact(recommender, published, within, ml_1m):
    measured = percent(recommender.fit(ml_1m.train, progress=False), ml_1m)
    for got, wanted, most in zip(measured, published, within, strict=True):
        assert abs(got - wanted) <= most


@pytest.mark.slow
def test_y_by_brute_force(ml_1m):
    # the same numbers without fullrank's ranking: no ties to speak of, so R is one more than the number above
    model = ItemCF.kr20_y().fit(ml_1m.train, progress=False)
    ranks = np.empty(ml_1m.cases)
    for first in range(0, ml_1m.cases, 500):
        users, targets = ml_1m.users[first : first + 500], ml_1m.items[first : first + 500]
        rows = ml_1m.train[users] @ model.similarity
        wanted = rows[np.arange(len(users)), targets]
        rows[ml_1m.train[users].nonzero()] = -np.inf
        ranks[first : first + 500] = 1 + (rows > wanted[:, None]).sum(axis=1)
    assert abs(100 * (ranks <= 10).mean() - 8.84) < 0.01
    assert abs(100 * ((ranks <= 10) / np.log2(ranks + 1)).mean() - 4.59) < 0.01


@pytest.mark.slow
def test_sane_quality_on_ml_1m(ml_1m):
    ndcg = {str(each): percent(each.fit(ml_1m.train, progress=False), ml_1m)[1] for each in (
        Popularity(), ItemKNN(), ItemKNN(weighting="bm25"), ALS(factors=32, iterations=10), EASE(),
    )}  # fmt: skip
    popular = ndcg.pop("Popularity()")
    assert 1.9 < popular < 2.2
    assert all(value > 1.7 * popular for value in ndcg.values()), ndcg
    assert max(ndcg, key=ndcg.get) == "EASE()"


@pytest.mark.slow
def test_item_knn_over_all_candidates_is_the_papers(ml_1m):
    # jin21 Table 2, itemKNN: Recall@10 0.0427 among all items
    recall = percent(ItemKNN().fit(ml_1m.train, progress=False), ml_1m, candidates="all")[0]
    assert abs(recall - 4.27) < 0.15


def test_types_of_models():
    assert isinstance(Popularity().fit(toy()), FittedFactors)
    assert isinstance(EASE().fit(toy()), FittedItemItem)
    assert isinstance(ItemCF.kr20_y().fit(toy()).similarity, np.ndarray)  # full similarities: dense is smaller
    assert sp.issparse(ItemCF.kr20_z().fit(np.tile(toy(), 10)).similarity)


def test_ease_by_way_of_the_users_is_the_same():
    train = (np.random.default_rng(0).random((20, 60)) < 0.2).astype(float)
    inverse = np.linalg.inv(train.T @ train + 7.0 * np.eye(60))
    expected = -inverse / np.diag(inverse)
    np.fill_diagonal(expected, 0.0)
    assert np.allclose(EASE(l2=7.0).fit(train).similarity, expected, atol=1e-6)
