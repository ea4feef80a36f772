"""Neural recommenders: known answers on toys, second implementations, and sane quality on real data. Needs PyTorch."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fullrank as fr
from fullrank.models import Factors, FittedFactors, Pairs, Popularity, Scorer, load_model
from fullrank.testing import check_scorer
from fullrank_papers.neural import NGCF, FittedNeuMF, MultiVAE, NeuMF, training

SMALL = [
    NeuMF(factors=4, width=16, epochs=3, batch=64, validation=10),
    MultiVAE(hidden=12, latent=6, epochs=3, batch=16, validation=10),
    NGCF(factors=6, layers=2, epochs=3, batch=16, validation=10),
]


@pytest.fixture(autouse=True)
def one_thread():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(before)


def toy(n_users=40, n_items=17, share=0.25, seed=5):
    """Random interactions with an item nobody has (the last) and a user without any (the last)."""
    train = (np.random.default_rng(seed).random((n_users, n_items)) < share).astype(float)
    train[-1], train[:, -1] = 0, 0
    return train


def tastes(kinds=3, users=20, items=8):
    """Users of one kind have all items of that kind and no other."""
    return np.kron(np.eye(kinds), np.ones((users, items)))


def scores(model):
    users = np.arange(model.n_users)
    return np.asarray(model.score(users, np.tile(np.arange(model.n_items), (len(users), 1))))


# -------------------------------------------------------------------------------------------------- known answers


def test_multivae_finds_the_distribution_of_each_taste():
    # the likelihood is greatest where softmax(scores) is what the users of a taste draw from: even over its items
    train = tastes()
    model = MultiVAE(
        hidden=24, latent=8, dropout=0.2, beta=0.01, learning_rate=0.01, batch=20, epochs=100, validation=0
    ).fit(train)
    share = np.exp(scores(model))
    share /= share.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(share, train / train.sum(axis=1, keepdims=True), atol=0.02)


def test_neumf_tells_what_is_from_what_is_not():
    # the cross-entropy is 0 where interactions score +∞ and everything else −∞
    train = tastes()
    model = NeuMF(factors=4, width=16, learning_rate=0.01, batch=256, epochs=40, validation=0).fit(train)
    found = scores(model)
    assert found[train > 0].min() > found[train == 0].max() + 4


def test_ngcf_ranks_every_taste_on_top():
    train = tastes()
    held = train.copy()
    held[1::2, ::8] = 0  # every other user lacks the first item of its taste, and learns of it from the rest
    found = scores(NGCF(factors=8, learning_rate=0.02, batch=20, epochs=40, validation=0).fit(held))
    for user, row in enumerate(found):
        assert row[train[user] > 0].min() > row[train[user] == 0].max()


def test_ngcf_passes_on_as_the_paper_says(one_thread):
    from fullrank_papers.neural.ngcf import _Network

    train = toy()
    network = _Network.start(one_thread, sp.csr_matrix(train), 5, 2, np.random.default_rng(3))
    for name, value in network.values.items():
        if "bias" in name:
            value.data.uniform_(-1, 1, generator=one_thread.Generator().manual_seed(1))
    v = {name: value.detach().numpy().astype(float) for name, value in network.values.items()}
    n_users, n_items = train.shape
    sizes = np.concatenate([train.sum(1), train.sum(0)])
    now = v["embeddings"]
    out = [now]
    for layer in range(2):
        after = np.zeros_like(now)
        for a in range(n_users + n_items):
            near = now[a] @ v[f"sum_{layer}"] + v[f"sum_bias_{layer}"] + v[f"product_bias_{layer}"]
            for b in range(n_users + n_items):
                user, item = min(a, b), max(a, b) - n_users
                if user < n_users <= max(a, b) and train[user, item]:
                    weight = 1 / np.sqrt(sizes[a] * sizes[b])
                    near += weight * (now[b] @ v[f"sum_{layer}"] + (now[a] * now[b]) @ v[f"product_{layer}"])
            after[a] = np.where(near > 0, near, 0.2 * near)
        now = after
        out.append(now / np.linalg.norm(now, axis=1, keepdims=True))
    np.testing.assert_allclose(network.table(), np.hstack(out), rtol=1e-4, atol=1e-5)


def test_the_gradient_through_the_graph(one_thread):
    from fullrank_papers.neural.ngcf import normalised_graph, passing_on

    graph = normalised_graph(sp.csr_matrix(toy()))
    given = one_thread.from_numpy(np.random.default_rng(0).normal(size=(57, 3)).astype(np.float32)).requires_grad_()
    dense = one_thread.from_numpy(graph.toarray())
    ours, theirs = (
        one_thread.autograd.grad((product**3).sum(), given)[0]
        for product in (passing_on(one_thread, graph)(given), dense @ given)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_multivae_scores_by_its_network(one_thread):
    from fullrank_papers.neural.multivae import _Network

    train = toy()
    network = _Network.start(one_thread, 17, 12, 6, np.random.default_rng(2))
    v = {name: value.detach().numpy().astype(float) for name, value in network.values.items()}
    x = train / np.sqrt(np.maximum(train.sum(axis=1, keepdims=True), 1))
    mean = np.tanh(x @ v["in"] + v["in_bias"]) @ v["mean"] + v["mean_bias"]
    expected = np.tanh(mean @ v["back"] + v["back_bias"])
    with one_thread.no_grad():
        np.testing.assert_allclose(network.hidden(sp.csr_matrix(train)), expected, rtol=1e-4, atol=1e-5)


def test_the_loss_of_multivae_is_the_bound(one_thread):
    from fullrank_papers.neural.multivae import _Network

    train = toy()[:6]
    network = _Network.start(one_thread, 17, 12, 6, np.random.default_rng(2))
    v = {name: value.detach().numpy().astype(float) for name, value in network.values.items()}
    got = network.loss(sp.csr_matrix(train), 0.3, 0.5, np.random.default_rng(9)).item()
    same = np.random.default_rng(9)  # the draws of the loss, in their order
    x = train / np.sqrt(train.sum(axis=1, keepdims=True))
    x[train > 0] *= 2 * (same.random(int(train.sum()), dtype=np.float32) >= 0.5)
    first = np.tanh(x @ v["in"])
    mean, spread = first @ v["mean"], first @ v["spread"]
    z = mean + np.exp(spread / 2) * same.standard_normal((6, 6), dtype=np.float32)
    logits = np.tanh(z @ v["back"]) @ v["out"].T
    log_softmax = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    divergence = -0.5 * (1 + spread - mean**2 - np.exp(spread)).sum(axis=1)
    expected = (0.3 * divergence - (train * log_softmax).sum(axis=1)).mean()
    assert got == pytest.approx(expected, rel=1e-5)


def test_lazy_adam_is_that_of_torch(one_thread):
    from fullrank_papers.neural.neumf import _LazyAdam

    torch, rng = one_thread, np.random.default_rng(4)
    start = torch.from_numpy(rng.standard_normal((9, 3), dtype=np.float32))
    theirs = start.clone().requires_grad_()
    ours, optimiser = _LazyAdam(torch, start.clone(), 0.05), torch.optim.SparseAdam([theirs], lr=0.05)
    for _ in range(12):
        index = torch.from_numpy(np.sort(rng.choice(9, size=4, replace=False)))
        gradient = torch.from_numpy(rng.standard_normal((4, 3), dtype=np.float32))
        theirs.grad = torch.sparse_coo_tensor(index[None], gradient, (9, 3), check_invariants=True)
        optimiser.step()
        ours.step(index, gradient)
    np.testing.assert_allclose(ours.table.numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_neumf_learns_from_rows_as_from_whole_tables(one_thread):
    from fullrank_papers.neural import neumf

    torch = one_thread
    network = neumf._Network.start(torch, (9, 7), 4, 16, np.random.default_rng(0))
    users, items = torch.tensor([3, 8, 3]), torch.tensor([[1, 1, 6], [0, 6, 6]])
    which, at = {}, {}
    for name, index in (("user", users), ("item", items)):
        which[name], at[name] = torch.unique(index, return_inverse=True)
    rows = {name: network.values[name].detach()[which[name[:4]]] for name in neumf._TABLES}
    with torch.no_grad():
        whole, part = network.logits(users, items), network.logits(at["user"], at["item"], rows=rows)
    np.testing.assert_allclose(part.numpy(), whole.numpy(), rtol=1e-5, atol=1e-7)


def test_neumf_scores_by_its_network(one_thread, monkeypatch):
    from fullrank_papers.neural import neumf

    network = neumf._Network.start(one_thread, (9, 7), 4, 16, np.random.default_rng(0))
    users, items = np.repeat(np.arange(9), 7), np.tile(np.arange(7), 9)

    def logits(*halves):
        with one_thread.no_grad():
            return network.logits(*(one_thread.from_numpy(each) for each in (users, items)), halves).numpy()

    expected = logits("product", "tower")
    np.testing.assert_allclose(logits("product") + logits("tower"), expected, rtol=1e-4, atol=1e-6)
    for half in ("product", "tower"):
        alone = scores(network.fitted(NeuMF(factors=4), (half,))).ravel()
        np.testing.assert_allclose(alone, logits(half), rtol=1e-4, atol=1e-6)
    fitted = network.fitted(NeuMF(factors=4))
    np.testing.assert_allclose(scores(fitted).ravel(), expected, rtol=1e-4, atol=1e-6)
    network.halve()
    np.testing.assert_allclose(logits("product", "tower"), expected / 2, rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(neumf, "_PAIRS", 5)
    np.testing.assert_allclose(scores(fitted).ravel(), expected, rtol=1e-4, atol=1e-6)


# -------------------------------------------------------------------------------------------------- validation


def test_the_validation_set_is_taken_from_train():
    history = sp.csr_matrix(toy())
    task = training.Task.of(history, 10, np.random.default_rng(0), "x")
    assert len(task.users) == len(set(task.users.tolist())) == 10
    assert (task.history != history).nnz == 0
    assert task.train.nnz == history.nnz - 10
    assert (np.asarray(history[task.users, task.items]) == 1).all()
    assert (np.asarray(task.train[task.users, task.items]) == 0).all()
    assert np.diff(task.train.indptr)[task.users].min() >= 2
    everyone = training.Task.of(history, 1000, np.random.default_rng(0), "x")
    assert len(everyone.users) == (np.diff(history.indptr) >= 3).sum()


def test_validation_ranks_as_observe_does(monkeypatch):
    task = training.Task.of(toy(), 30, np.random.default_rng(0), "x")
    table = np.random.default_rng(1).normal(size=(40, 17))
    split = fr.Split(task.train, task.users, task.items)
    expected = fr.Naive().fit(fr.observe(table, split, fr.Exhaustive(), progress=False)).expect(fr.NDCG @ 100)
    assert task.ndcg(lambda users: table[users]) == pytest.approx(expected)
    monkeypatch.setattr(training, "_CELLS", 50)
    assert task.ndcg(lambda users: table[users]) == pytest.approx(expected)


def test_sampled_recall_compares_with_items_the_user_does_not_have():
    task = training.Task.of(toy(), 30, np.random.default_rng(0), "x")
    asked = task.asked(np.random.default_rng(0))
    assert (asked[:, 0] == task.items).all()
    assert not toy()[task.users[:, None], asked[:, 1:]].any()
    table = np.random.default_rng(1).normal(size=(40, 17))
    ranks = [
        1 + sum(table[u, j] > table[u, i] for j in row)
        for u, i, row in zip(task.users, task.items, asked[:, 1:], strict=True)
    ]
    found = task.sampled_recall(lambda users, items: table[users[:, None], items], asked)
    assert found == pytest.approx(np.mean(np.array(ranks) <= 10))
    assert task.sampled_recall(lambda users, items: np.zeros(items.shape), asked) == 0  # equal scores are no success
    assert np.isnan(task.sampled_recall(lambda users, items: np.full(items.shape, np.nan), asked))


def test_pretraining_hands_over_what_it_learned(one_thread):
    train = sp.csr_matrix(toy())
    given = {"factors": 4, "width": 16, "batch": 64, "epochs": 1, "validation": 0}
    with_it, without = (NeuMF(**given, pretrain=pretrain).fit(train, progress=False) for pretrain in (True, False))
    assert not np.allclose(scores(with_it), scores(without))


def test_equal_scores_are_no_success():
    task = training.Task.of(np.tile(toy(), 60), 30, np.random.default_rng(0), "x")
    assert task.ndcg(lambda users: np.zeros((len(users), 17 * 60))) == 0


def test_training_stops_early_and_keeps_the_best(one_thread):
    task = training.Task.of(toy(), 30, np.random.default_rng(0), "x")
    quality = [0.0, 2.0, 5.0, 4.0, 3.0, 9.0]  # the sixth epoch is never reached
    value, wanted = one_thread.zeros(1), (np.arange(17) == task.items[:, None])
    ran = []

    def epoch(number):
        ran.append(number)
        value[0] = quality[number]
        return 1.0

    def rows(users):  # with quality 0 the held-out item is the last of its row, with 5 the first of all
        lift = np.linspace(-2, 2, 6)[int(value[0])]
        return np.random.default_rng(0).random((len(users), 17)) + lift * wanted

    training.train({"v": value}, task, epoch, lambda: task.ndcg(rows), epochs=6, patience=2, who="x", progress=False)
    assert ran == [0, 1, 2, 3, 4]
    assert value.item() == 5.0


def test_where_nobody_can_lend_all_epochs_run(one_thread):
    task = training.Task.of(np.eye(4), 30, np.random.default_rng(0), "x")
    value, ran = one_thread.zeros(1), []

    def epoch(number):
        ran.append(number)
        value[0] = number
        return 1.0

    training.train({"v": value}, task, epoch, lambda: 0.0, epochs=5, patience=2, who="x", progress=False)
    assert ran == list(range(5))
    assert value.item() == 4


def test_negatives_are_uniform_over_what_the_user_does_not_have():
    history = sp.csr_matrix(toy())
    users = np.repeat(np.arange(40), 2000)
    drawn = np.zeros((40, 17))
    np.add.at(drawn, (users, training.negatives(history, users, np.random.default_rng(0))), 1)
    assert not drawn[toy() > 0].any()
    expected = 2000 / (toy() == 0).sum(axis=1)
    assert (np.abs(drawn - expected[:, None])[toy() == 0] < 6 * np.sqrt(expected.max())).all()


def test_who_has_everything_still_gets_a_negative():
    assert len(training.negatives(sp.csr_matrix(np.ones((2, 3))), np.array([0, 1]), np.random.default_rng(0))) == 2


def test_batches_hold_everything_once():
    parts = list(training.batches(103, 25, np.random.default_rng(0)))
    assert sorted(np.concatenate(parts).tolist()) == list(range(103))
    assert [len(part) for part in parts] == [21, 21, 21, 20, 20]


# -------------------------------------------------------------------------------------------------- every recommender


@pytest.mark.parametrize("recommender", SMALL, ids=str)
def test_contract(recommender, tmp_path):
    train = sp.csr_matrix(toy())
    before = train.copy()
    model = recommender.fit(train, progress=False)
    assert (train != before).nnz == 0
    assert eval(str(recommender)) == recommender
    assert str(model) == f"{recommender} fitted on 40 users × 17 items"
    assert isinstance(model, Scorer)
    fast = fr.as_scorer(model)
    assert isinstance(fast, Pairs if isinstance(recommender, NeuMF) else Factors)
    assert fast.name == str(recommender)
    assert (fast.n_users, fast.n_items) == (40, 17)
    assert np.isfinite(scores(model)).all()
    check_scorer(model, fr.Split(train, [0, 1, 2], [16, 16, 16]))
    np.testing.assert_array_equal(scores(recommender.fit(train)), scores(model))  # the same to the digit
    other = dataclasses.replace(recommender, rng=1)
    assert (scores(other.fit(train)) != scores(model)).any()
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.recommender == recommender
    assert str(loaded) == str(model)
    np.testing.assert_array_equal(scores(loaded), scores(model))


@pytest.mark.parametrize("recommender", SMALL, ids=str)
def test_torch_is_left_as_it_was(recommender, one_thread):
    before = one_thread.get_rng_state()
    recommender.fit(toy())
    assert one_thread.equal(one_thread.get_rng_state(), before)
    assert one_thread.is_grad_enabled()


@pytest.mark.parametrize("recommender", SMALL, ids=str)
def test_only_the_pairs_count(recommender):
    weighted = toy() * np.random.default_rng(0).integers(1, 6, size=toy().shape)
    np.testing.assert_array_equal(scores(recommender.fit(sp.csc_array(weighted))), scores(recommender.fit(toy())))


@pytest.mark.parametrize("recommender", SMALL, ids=str)
def test_users_without_anything(recommender):
    train = np.vstack([toy(), np.zeros((100, 17))])
    found = scores(recommender.fit(train))
    assert np.isfinite(found).all()
    if isinstance(recommender, NGCF):
        assert not found[40:].any()
    if isinstance(recommender, MultiVAE):  # the same for all of them: nothing is known
        np.testing.assert_allclose(found[40:], np.tile(found[40], (100, 1)), rtol=1e-5)


@pytest.mark.parametrize("recommender", SMALL, ids=str)
def test_nothing_to_learn_from(recommender):
    with pytest.raises(ValueError, match="no interaction"):
        recommender.fit(np.zeros((3, 5)))
    with pytest.raises(TypeError, match=r"did you mean `split\.train`"):
        recommender.fit(fr.Split(sp.csr_matrix([[1, 0]]), [0], [1]))


@pytest.mark.parametrize("recommender", [NeuMF(), MultiVAE(), NGCF()], ids=str)
def test_a_learning_rate_too_high_is_said(recommender):
    with pytest.raises(ValueError, match="diverged in epoch"):
        dataclasses.replace(recommender, learning_rate=1e30, epochs=20).fit(toy())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NeuMF(factors=0), "`factors`"),
        (lambda: NeuMF(negatives=0), "`negatives`"),
        (lambda: NeuMF(width=6), "`width`"),
        (lambda: MultiVAE(hidden=2.5), "`hidden`"),
        (lambda: MultiVAE(dropout=1), "`dropout` is 1"),
        (lambda: MultiVAE(beta=float("nan")), "`beta`"),
        (lambda: MultiVAE(rng=None), "`rng`"),
        (lambda: NGCF(layers=0), "`layers`"),
        (lambda: NGCF(dropout=1.5), "`dropout`"),
        (lambda: NGCF(learning_rate=0), "`learning_rate`"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert str(caught.value).count(". ") == 0  # one sentence


@pytest.mark.parametrize("recommender", SMALL, ids=str)
def test_without_torch_it_says_what_to_install(recommender, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"fullrank-papers\[neural\]"):
        recommender.fit(toy())


def test_scoring_and_loading_need_no_torch(tmp_path):
    for each in SMALL:
        each.fit(toy()).save(tmp_path / type(each).__name__)
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, fullrank_papers.neural; from fullrank.models import load_model\n"
        f"for name in {[type(each).__name__ for each in SMALL]}:\n"
        f"    print(load_model({str(tmp_path)!r} + '/' + name).score(np.array([0]), np.array([[1, 2]])).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["(1, 2)"] * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.update(user_input=a["user_input"][:, 1:]), "do not fit together"),
        (lambda a: a.update(item_input=a["item_input"][1:]), "do not fit together"),
        (lambda a: a.update(out=a["out"][1:]), "do not fit together"),
        (lambda a: a.update(layer_0=a["layer_0"].ravel()), "do not fit together"),
        (lambda a: a.update(user_input=a["user_input"].ravel()), "do not fit together"),
        (lambda a: a.pop("layer_0"), "layer_0"),
        (lambda a: a.pop("user_products"), "user_products"),
    ],
)
def test_a_damaged_neumf_is_refused(change, message, tmp_path):
    path = tmp_path / "model"
    SMALL[0].fit(toy()).save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name != "header"}
    change(arrays)
    fr.models.save_model(path, "neumf", SMALL[0], arrays)
    with pytest.raises(ValueError, match=message):
        load_model(path)


def test_types_of_models():
    for each, kind in zip(SMALL, (FittedNeuMF, FittedFactors, FittedFactors), strict=True):
        assert isinstance(each.fit(toy()), kind)


# -------------------------------------------------------------------------------------------------- real data


@pytest.fixture(scope="module")
def ml_1m():
    folder = os.environ.get("FULLRANK_DATA")
    if not folder or not (Path(folder) / "ml-1m" / "interactions.parquet").is_file():
        pytest.skip("needs the data set ml-1m in the folder FULLRANK_DATA")
    return fr.load("ml-1m")


# A few epochs of small models on a third of the users: far from their best, and better than the same for everybody.
@pytest.mark.slow
@pytest.mark.parametrize(
    "recommender",
    [
        NeuMF(factors=8, negatives=2, batch=2048, learning_rate=5e-3, epochs=3, validation=200),
        MultiVAE(hidden=200, latent=64, batch=100, learning_rate=3e-3, epochs=12, validation=500),
        NGCF(factors=32, layers=1, dropout=0.1, batch=64, regularization=1e-5, epochs=6, validation=500),
    ],
    ids=str,
)
def test_sane_quality_on_ml_1m(recommender, ml_1m):
    third = ml_1m.users % 3 == 0
    kept = sp.diags((np.arange(ml_1m.n_users) % 3 == 0).astype(float)) @ ml_1m.train
    split = fr.Split(kept, ml_1m.users[third], ml_1m.items[third])

    def ndcg(model):
        counts = fr.observe(model, split, fr.Exhaustive(), rng=0, progress=False)
        return 100 * fr.Naive().fit(counts).expect(fr.NDCG @ 10)

    popular = ndcg(Popularity().fit(split.train))
    assert 2.4 < popular < 2.8
    assert ndcg(recommender.fit(split.train)) > 1.15 * popular
