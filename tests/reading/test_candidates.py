"""Ready candidate files against a brute-force ranking, against the law they are said to follow, and against bad input."""

import io
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fullrank as fr
from fullrank.data import Split, read_negatives
from fullrank.data.readers import Negatives
from fullrank.observing.observe import observe
from fullrank.ranks.design import ALL, Exhaustive, Sample
from fullrank.reading.candidate_files import CandidateLists, read_elliot_negatives, read_trec_qrels, read_trec_run
from fullrank.reading.candidates import (
    counts_from_negatives,
    counts_from_recbole,
    counts_from_scores,
    counts_from_trec,
)

TIES = ("random", "optimistic", "pessimistic")


def cells(counts):
    """Every case as (drawn, hits, order, targets), sorted."""
    rows = np.column_stack([counts.outcomes, counts.column("order"), counts.column("targets")])
    return sorted(row for each, n in zip(rows, counts.cases, strict=True) for row in [tuple(each)] * n)


def brute(rows, targets, n_items, ties):
    """(drawn, hits, order, targets) of every case, by loops; ``rows`` is {user: [(item, score)]}, lists shared."""
    out = []
    for user, mine in targets.items():
        scores = dict(rows[user])
        negatives = {item: score for item, score in scores.items() if item not in mine}
        for target in mine:
            above = sum(score > scores[target] for score in negatives.values())
            equal = sum(score == scores[target] for score in negatives.values())
            hits = above + (equal if ties == "pessimistic" else 0)
            place = 1 + sum(scores[other] > scores[target] for other in mine)
            drawn = ALL if len(negatives) == n_items - 1 else len(negatives)
            out.append((drawn, hits, place, len(mine)))
    return sorted(out)


def long_form(rows, targets):
    users, items, scores, label = [], [], [], []
    for user, pairs in rows.items():
        for item, score in pairs:
            users.append(user)
            items.append(item)
            scores.append(score)
            label.append(item in targets[user])
    return {"user_id": users, "item_id": items, "score": scores, "label": label}


@st.composite
def lists(draw, tied=True, several=True):
    rows, targets = {}, {}
    values = st.integers(0, 3) if tied else st.integers(0, 10**9)
    for user in range(draw(st.integers(1, 6))):
        items = draw(st.lists(st.integers(0, 19), min_size=4, max_size=12, unique=True))
        scores = draw(st.lists(values, min_size=len(items), max_size=len(items), unique=not tied))
        pairs = list(zip(items, map(float, scores), strict=True))
        targets[user] = set(items[: draw(st.integers(1, 3 if several else 1))])
        repeats = draw(st.lists(st.sampled_from(pairs), max_size=4))
        rows[user] = pairs + repeats
    return rows, targets


# ---- the one ranking -------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(lists(tied=False), st.sampled_from(TIES))
def test_a_frame_equals_brute_force_whatever_the_tie_rule(case, ties):
    rows, targets = case
    counts = counts_from_scores(long_form(rows, targets), 30, "uni12", ties=ties)
    assert cells(counts) == brute(rows, targets, 30, ties)
    assert counts.design == Sample(12, replace=False)


@settings(max_examples=60, deadline=None)
@given(lists(several=False), st.sampled_from(TIES[1:]))
def test_tied_scores_equal_brute_force(case, ties):
    rows, targets = case
    assert cells(counts_from_scores(long_form(rows, targets), 30, "uni12", ties=ties)) == brute(rows, targets, 30, ties)


@settings(max_examples=40, deadline=None)
@given(lists(), st.integers(0, 5))
def test_random_ties_lie_between_the_extremes_and_do_not_depend_on_the_order_of_rows(case, seed):
    rows, targets = case
    frame = long_form(rows, targets)
    low, mid, high = (
        counts_from_scores(frame, 30, "uni12", ties=t, rng=seed) for t in ("optimistic", "random", "pessimistic")
    )
    assert low.auc >= mid.auc - 1e-12 >= high.auc - 2e-12
    shuffled = np.random.default_rng(seed).permutation(len(frame["score"]))
    again = counts_from_scores({k: np.asarray(v)[shuffled] for k, v in frame.items()}, 30, "uni12", rng=seed)
    assert again == mid


@settings(max_examples=40, deadline=None)
@given(lists(), st.sampled_from(TIES), st.integers(0, 3))
def test_every_form_of_the_same_lists_gives_the_same_counts(case, ties, seed):
    rows, targets = case
    frame = long_form(rows, targets)
    expected = counts_from_scores(frame, 30, "uni12", ties=ties, rng=seed)
    of = [(user, item) for user, mine in targets.items() for item in sorted(mine)]
    pair = tuple(map(list, zip(*of, strict=True)))
    plain = {key: frame[key] for key in ("user_id", "item_id", "score")}
    assert counts_from_scores(plain, 30, "uni12", targets=pair, ties=ties, rng=seed) == expected
    dense = np.full((len(rows), 20), -np.inf)
    dense[frame["user_id"], frame["item_id"]] = frame["score"]
    assert counts_from_recbole(dense, pair, 30, "uni12", ties=ties, rng=seed) == expected
    run = {user: dict(pairs) for user, pairs in rows.items()}
    qrels = {user: dict.fromkeys(mine, 1) for user, mine in targets.items()}
    assert counts_from_trec(run, qrels, 30, "uni12", ties=ties, rng=seed) == expected


@pytest.fixture
def drawn():
    """Six users with one or two targets, scores full of ties."""
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 5, (6, 30)).astype(float)
    cases = [(u, int(t)) for u in range(6) for t in rng.choice(30, 1 + u % 2, replace=False)]
    return rng, scores, cases, Split(sp.csr_matrix((6, 30)), [u for u, _ in cases], [t for _, t in cases])


@pytest.mark.parametrize("ties", TIES[1:])
def test_lists_of_their_own_for_every_target(drawn, ties):
    rng, scores, cases, split = drawn
    negatives = rng.integers(0, 30, (len(cases), 15))
    lists = CandidateLists(split.users, split.items, negatives.ravel(), 15 * np.arange(len(cases) + 1))
    expected = []
    for (user, target), mine in zip(cases, negatives, strict=True):
        others = {t for u, t in cases if u == user}
        own = scores[user, sorted(set(mine.tolist()) - others)]
        hits = (own > scores[user, target]).sum() + (ties == "pessimistic") * (own == scores[user, target]).sum()
        expected.append((len(own), int(hits), len(others)))
    for where in (40, split):
        counts = counts_from_negatives(scores, lists, where, ties=ties)
        assert sorted((m, x, T) for m, x, _, T in cells(counts)) == sorted(expected)
    orders = sorted((T, j) for _, _, j, T in cells(counts))
    assert orders == [(1, 1)] * 3 + [(2, 1)] * 3 + [(2, 2)] * 3


@pytest.mark.parametrize("ties", TIES)
def test_lists_scored_by_a_model_equal_the_same_scores_in_a_frame(drawn, ties):
    rng, scores, cases, split = drawn
    negatives = rng.integers(0, 30, (6, 15))
    lists = CandidateLists(np.arange(6), None, negatives.ravel(), 15 * np.arange(7))
    rows = [(u, i) for u in range(6) for i in {*negatives[u].tolist(), *(t for v, t in cases if v == u)}]
    frame = {"user": [u for u, _ in rows], "item": [i for _, i in rows], "score": [scores[u, i] for u, i in rows]}
    expected = counts_from_scores(frame, split, "uni15", ties=ties)
    as_function = lambda users, items: scores[users[:, None], items]  # noqa: E731
    for model in (scores, as_function, sp.csr_matrix(scores + 1)):
        assert counts_from_negatives(model, lists, split, ties=ties) == expected


def test_ties_fall_as_in_observe_when_the_list_is_everything():
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 3, (20, 40)).astype(float)
    train = sp.csr_matrix(rng.random((20, 40)) < 0.2)
    free = [np.setdiff1d(np.arange(40), train[u].indices) for u in range(20)]
    users, items = np.repeat(np.arange(20), 2), np.concatenate([each[:2] for each in free])
    split = Split(train, users, items)
    lists = CandidateLists(np.arange(20), None, np.concatenate(free), np.r_[0, np.cumsum([len(each) for each in free])])
    full = observe(scores, split, "full", rng=5)
    assert counts_from_negatives(scores, lists, split, "full", rng=5) == full
    sampled = counts_from_negatives(scores, lists, split, rng=5)
    assert (sampled.keys == full.keys).all()
    assert sampled.auc == full.auc


def test_the_users_weight_and_names_of_the_split_are_used():
    train = sp.csr_matrix((2, 50))
    split = Split(train, [0, 1], [0, 0], [1.0, 3.0], user_ids=["ann", "bob"], item_ids=[f"i{k}" for k in range(50)])
    frame = {"user_id": ["ann"] * 3 + ["bob"] * 3, "item_id": ["i0", "i1", "i2"] * 2, "score": [3, 1, 2, 1, 2, 3]}
    counts = counts_from_scores(frame, split, "uni2")
    assert counts.auc == pytest.approx(0.25)
    assert counts.n_items == 50
    with pytest.raises(ValueError, match=r"user 'carl' is not in the split"):
        counts_from_scores({**frame, "user_id": ["ann"] * 3 + ["carl"] * 3}, split, "uni2")
    with pytest.raises(ValueError, match=r"item 'x' is not in the split"):
        counts_from_scores({**frame, "item_id": ["i0", "i1", "x"] * 2}, split, "uni2")


# ---- the law ---------------------------------------------------------------------------------------------------------


def recbole_batch(ranks, N, negatives, rng, T=1):
    """Dense scores as RecBole collects them: T positives per user, T · negatives pooled draws, duplicates swallowed.

    Item k of the N − 1 negatives of a user has score −k, so a target of rank R scores between −(R−2) and −(R−1).
    """
    users = len(ranks) // T
    scores = np.full((users, N - 1 + T), -np.inf, dtype=np.float64)
    rows = np.repeat(np.arange(users), T * negatives)
    items = rng.integers(0, N - 1, len(rows))
    scores[rows, items] = -items.astype(float)
    positive = (np.repeat(np.arange(users), T), N - 1 + np.tile(np.arange(T), users))
    scores[positive] = -(np.asarray(ranks) - 1.5)
    return scores, positive


@pytest.mark.parametrize("T", [1, 3])
def test_collapsed_duplicates_follow_the_declared_law(T):
    rng = np.random.default_rng(7)
    N, M, m = 60, 6000, 40  # 40 draws from 59: about a third are repeats, so the law matters
    R = 13
    counts = counts_from_recbole(*recbole_batch(np.full(M, R), N, m, rng, T), N, f"uni{m}")
    assert counts.design == Sample(m, replace=False)
    draws = T * m
    for drawn in counts.sizes:
        mine = counts.column("drawn") == drawn
        hits = np.repeat(counts.above[mine], counts.cases[mine])
        if len(hits) < 300:
            continue
        law = counts.design.law([R], N, np.full(drawn + 1, drawn), np.arange(drawn + 1))[0]
        mean, var = (law * np.arange(drawn + 1)).sum(), None
        var = (law * (np.arange(drawn + 1) - mean) ** 2).sum()
        # T cases of a user share their negatives and, here, their rank: they are one observation
        assert abs(hits.mean() - mean) < 4.5 * np.sqrt(var * T / len(hits))
        assert hits.var() == pytest.approx(var, rel=0.25)
        wrong = drawn * (R - 1) / (N - 1) * (1 - (R - 1) / (N - 1))  # what a binomial would have
        assert wrong > 1.5 * var
    distinct = (N - 1) * (1 - (1 - 1 / (N - 1)) ** draws)
    assert counts.items_scored / M == pytest.approx(distinct, rel=0.01)


def test_the_estimate_from_collapsed_scores_recovers_the_truth():
    rng = np.random.default_rng(3)
    N, M, m = 400, 8000, 300  # heavy collapse: 211 of 300 draws are distinct
    ranks = np.minimum(rng.geometric(0.02, M), N)
    ranks[: M // 2] = rng.integers(1, N + 1, M // 2)
    parts = []
    for first in range(0, M, 1000):
        part = ranks[first : first + 1000]
        scores, positive = recbole_batch(part, N, m, rng)
        parts.append(counts_from_recbole(scores, positive, N, f"uni{m}", users=np.arange(first, first + 1000)))
    counts = sum(parts)
    truth = (N - ranks) / (N - 1)
    assert counts.auc == pytest.approx(truth.mean(), abs=4 * 0.5 / np.sqrt(211 * M))
    estimate = fr.MLE(iterations=300).fit(counts)
    for metric, exact in (
        ("recall@10", (ranks <= 10).mean()),
        ("ndcg@20", np.where(ranks <= 20, 1 / np.log2(ranks + 1), 0).mean()),
        ("recall@50", (ranks <= 50).mean()),
    ):
        assert estimate.expect(metric) == pytest.approx(exact, rel=0.06)


# ---- NCF, Elliot -----------------------------------------------------------------------------------------------------


def test_an_ncf_file_end_to_end():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(50, 4)), rng.normal(size=(200, 4))
    lines = [f"({u},{u})\t" + "\t".join(map(str, rng.choice(np.arange(50, 200), 99))) for u in range(50)]
    negatives = read_negatives(io.BytesIO("\n".join(lines).encode()))
    train = sp.csr_matrix((50, 200))
    with pytest.warns(UserWarning, match="do not look uniform"):  # items 0-49 are never drawn
        split_counts = counts_from_negatives((U, V), negatives, Split(train, np.arange(50), np.arange(50)))
    counts = counts_from_negatives((U, V), negatives, 200)
    assert counts == split_counts
    expected = []
    for u in range(50):
        mine = set(negatives.negatives[99 * u : 99 * (u + 1)].tolist())
        expected.append((len(mine), sum(U[u] @ V[i] > U[u] @ V[u] for i in mine), 1, 1))
    assert cells(counts) == sorted(expected)
    assert counts.design == Sample(99, replace=False)
    assert counts.sizes.max() < 99
    assert counts_from_negatives((U, V), negatives, 200, "uni99 without replacement") == counts


def test_an_elliot_file_end_to_end(tmp_path):
    """Elliot writes a list for every user, test case or not."""
    train = sp.csr_matrix(([1.0], ([0], [9])), shape=(3, 40))
    split = Split(train, [0, 0, 2], [1, 2, 3], user_ids=np.array([10, 20, 30]), item_ids=np.arange(100, 140))
    path = tmp_path / "test_negative.tsv"
    path.write_text("(10,)\t105\t106\t101\t107\n(20,)\t105\t106\n(30,)\t139\t138\t137\t136\n")
    scores = np.tile(np.arange(40.0), (3, 1))
    counts = counts_from_negatives(scores, read_elliot_negatives(path), split)
    # 101 is a target of user 10: no negative; user 10 has 40 − 1 seen − 1 other target candidates
    assert cells(counts) == [(3, 3, 1, 2), (3, 3, 2, 2), (4, 4, 1, 1)]
    pools = sorted(zip(counts.column("targets").tolist(), (counts.pool_weight / counts.weight).tolist(), strict=True))
    assert pools == [(1, 40), (2, 38), (2, 38)]
    assert counts.design == Sample(4, replace=False)


@pytest.mark.parametrize(
    ("text", "users", "targets", "items"),
    [
        ("(1,)\t2\t3\n(4,)\t5\t6\n", [1, 4], None, [2, 3, 5, 6]),
        ("(1, 7)\t2\t3\n(1,8)\t5\t6", [1, 1], [7, 8], [2, 3, 5, 6]),
        ("1\t2\t3\r\n4\t5\t6\r\n", [1, 4], None, [2, 3, 5, 6]),
        ("\ufeff('ann',)\tx\ty\n(\"o'neil\",)\tz\tx\n", ["ann", "o'neil"], None, ["x", "y", "z", "x"]),
        ("(np.int64(1),)\t2\t3\n(np.int64(4),)\t5\t6\n\n", [1, 4], None, [2, 3, 5, 6]),
        ("<b>u</b>\t<i>x</i>\t<a href=y>\n", ["<b>u</b>"], None, ["<i>x</i>", "<a href=y>"]),
        ("007\t01\t2\n", ["007"], None, ["01", "2"]),
        ("(1,)\t\n(2,)\t3\n", [1, 2], None, [3]),
    ],
)
def test_elliot_in_all_its_guises(text, users, targets, items):
    found = read_elliot_negatives(io.BytesIO(text.encode()))
    assert found.users.tolist() == users
    assert (None if found.targets is None else found.targets.tolist()) == targets
    assert found.negatives.tolist() == items


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", r"n\.tsv` line 1: the file holds no"),
        (b"\n \n", r"n\.tsv` line 1: the file holds no"),
        (b"(1,)\t2\n(1,)\t3\n", r"n\.tsv` line 2: 1 has a list already, in line 1"),
        (b"(1,)\t2\n(3, 4)\t3\n", r"n\.tsv` line 2: expected a user first"),
        (b"(1, 2)\t2\n3\t3\n", r"n\.tsv` line 2: expected a user and an item first"),
        (b"(1,)\t2\n(3,\t3\n", r"n\.tsv` line 2: expected a user, or"),
        (b"(1,)\t2\n((((((((\t3\n", r"n\.tsv` line 2: expected a user, or"),
        (b"(__import__('os'),)\t2\n", r"n\.tsv` line 1: expected a user, or"),
        (b"<!DOCTYPE html>\n<html>\n", r"n\.tsv` line 1: expected a user, or"),
        (b"(1,)\t2\t\t3\n", r"n\.tsv` line 1: expected an item between"),
        (b"(1,)\t2\n\xff\xfe\t3\n", r"n\.tsv` line 2: expected UTF-8"),
        (b"\xff\xfe(\x001\x00", r"n\.tsv` line 1: the file is UTF-16"),
        (b"(1,)\t2\t3\n(2,)\t2\t3\n(4,)\t5", r"n\.tsv` line 3: 1 negatives where every other line has 2.*cut short"),
        (b"(1,)", r"n\.tsv` line 1: expected a user, or"),
    ],
)
def test_a_bad_elliot_file_is_refused_with_its_line(text, message, tmp_path):
    path = tmp_path / "n.tsv"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        read_elliot_negatives(path)


def test_a_file_that_is_not_there():
    for read in (read_elliot_negatives, read_trec_run, read_trec_qrels):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            read("nowhere.tsv")


# ---- TREC ------------------------------------------------------------------------------------------------------------

RUN = "q1 Q0 d1 1 9.5 me\nq1 Q0 d2 2 8 me\nq1\tQ0\td3\t3\t-1e-3\tme\nq2 Q0 d1 9 1 me\nq2 Q0 d9 1 0 me\n"
QRELS = "q1 0 d2 1\nq1 0 d1 0\nq2 0 d1 2\n"


@pytest.mark.parametrize("form", ["plain", "crlf", "bom", "no newline at the end", "blank lines"])
def test_a_trec_run_with_qrels(form, tmp_path):
    change = {
        "plain": lambda t: t, "crlf": lambda t: t.replace("\n", "\r\n"), "bom": lambda t: "\ufeff" + t,
        "no newline at the end": lambda t: t.rstrip("\n"), "blank lines": lambda t: t.replace("\n", "\n\n"),
    }[form]  # fmt: skip
    (tmp_path / "run").write_bytes(change(RUN).encode())
    (tmp_path / "qrels").write_bytes(change(QRELS).encode())
    counts = counts_from_trec(tmp_path / "run", str(tmp_path / "qrels"), 1000, "uni2")
    assert cells(counts) == [(1, 0, 1, 1), (2, 1, 1, 1)]
    run, qrels = read_trec_run(tmp_path / "run"), read_trec_qrels(tmp_path / "qrels")
    assert run["score"].tolist() == [9.5, 8, -0.001, 1, 0]
    assert qrels["relevance"].tolist() == [1, 0, 2]
    assert counts_from_trec(run, qrels, {"q1": 1000, "q2": 1000}, "uni2") == counts
    with pytest.raises(ValueError, match=r"the run has scores for user 'q1', who has no target"):
        counts_from_trec(run, qrels, 1000, "uni2", min_relevance=2)
    dropped = counts_from_trec(run, qrels, 1000, "uni2", min_relevance=2, missing="drop")
    assert cells(dropped) == [(1, 0, 1, 1)]
    with pytest.raises(ValueError, match="judges no document 3 or better"):
        counts_from_trec(run, qrels, 1000, "uni2", min_relevance=3)


def test_html_in_trec_ids_is_only_text():
    run = io.BytesIO(b"<q> Q0 <script>alert(1)</script> 1 2.5 t\n<q> Q0 &amp; 2 1.5 t\n")
    qrels = io.BytesIO(b"<q> 0 &amp; 1\n")
    assert cells(counts_from_trec(run, qrels, 10, "uni1")) == [(1, 1, 1, 1)]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_trec_run, b"", r"f` line 1: the file is empty"),
        (
            read_trec_run,
            b"q Q0 d 1 2.5 t\nq Q0 e 2",
            r"f` line 2: expected qid Q0 docno rank score tag, found 'q Q0 e 2'",
        ),
        (read_trec_run, b"q Q0 d 1 high t\n", r"f` line 1: expected a finite score"),
        (read_trec_run, b"q Q0 d 1 nan t\n", r"f` line 1: expected a finite score"),
        (read_trec_run, b"q Q0 d 1 inf t\n", r"f` line 1: expected a finite score"),
        (read_trec_run, b"q Q0 d 1 1_0 t\n", r"f` line 1: expected a finite score"),
        (read_trec_run, b"q Q0 d 1 2 t\n\nq Q0 d 2 1 t\n", r"f` line 3: document 'd' of query 'q' is there already"),
        (read_trec_run, b'q Q0 <a href="x"> 1 2 t\n', r"f` line 1: expected qid"),
        (read_trec_run, QRELS.encode(), r"f` line 1: expected qid Q0 docno rank score tag"),
        (read_trec_run, b"q Q0 d\xff 1 2 t\n", r"f` line 1: expected UTF-8"),
        (read_trec_qrels, b"\n\n", r"f` line 1: the file is empty"),
        (read_trec_qrels, b"q 0 d 1\nq 0 e yes\n", r"f` line 2: expected a whole number"),
        (read_trec_qrels, b"q 0 d 1.5\n", r"f` line 1: expected a whole number"),
        (read_trec_qrels, b"q 0 d 99999999999999999999\n", r"f` line 1: expected a whole number"),
        (read_trec_qrels, b"q 0 d 1\nq 0 d 1\n", r"f` line 2: document 'd' of query 'q' is there already"),
        (read_trec_qrels, RUN.encode(), r"f` line 1: expected qid 0 docno relevance"),
    ],
)
def test_a_bad_trec_file_is_refused_with_its_line(read, text, message, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        read(path)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused_with_the_line(content):
    for read in (read_elliot_negatives, read_trec_run, read_trec_qrels):
        try:
            read(io.BytesIO(content))
        except ValueError as error:
            assert "` line " in str(error)  # noqa: PT017


def test_queries_that_only_one_file_has():
    run = {"a": {"x": 1.0, "y": 2.0}, "b": {"x": 1.0, "y": 2.0}}
    qrels = {"a": {"x": 1}, "c": {"x": 1}}
    with pytest.raises(ValueError, match=r"the run has nothing for user 'c', who has a target"):
        counts_from_trec(run, qrels, 9, "uni1")
    with pytest.raises(ValueError, match=r"the run has scores for user 'b', who has no target"):
        counts_from_trec(run, {"a": {"x": 1}}, 9, "uni1")
    assert cells(counts_from_trec(run, qrels, [9, 9], "uni1", missing="drop")) == [(1, 1, 1, 1)]
    with pytest.raises(ValueError, match=r"no user of the run has a target"):
        counts_from_trec(run, {"z": {"x": 1}}, 9, "uni1", missing="drop")
    with pytest.raises(ValueError, match=r"the run has no score for item 'z', a target of user 'a'"):
        counts_from_trec(run, {"a": {"z": 1}, "b": {"x": 1}}, 9, "uni1")


# ---- frames ----------------------------------------------------------------------------------------------------------

FRAME = {
    "user_id": [0, 0, 0, 1, 1, 1],
    "item_id": [1, 2, 3, 1, 2, 3],
    "score": [1, 2, 3, 3, 2, 1],
    "label": [1, 0, 0] * 2,
}


@pytest.mark.parametrize("kind", ["pandas", "polars", "polars lazy", "pyarrow", "dict"])
@pytest.mark.parametrize(
    "names",
    [
        ("user_id", "item_id", "score", "label"),
        ("userID", "itemID", "prediction", "target"),
        ("q_id", "doc_id", "score", "relevance"),
        ("qid", "docno", "score", "rel"),
        ("query_id", "item_id", "Score", "is_target"),
    ],
)
def test_frames_of_every_kind_and_naming(kind, names):
    columns = dict(zip(names, FRAME.values(), strict=True))
    columns["label" if kind == "dict" else names[3]] = [bool(x) for x in columns.pop(names[3])]
    if kind == "pandas":
        columns = pytest.importorskip("pandas").DataFrame(columns)
    elif kind.startswith("polars"):
        columns = pytest.importorskip("polars").DataFrame(columns)
        columns = columns.lazy() if kind.endswith("lazy") else columns
    elif kind == "pyarrow":
        columns = pytest.importorskip("pyarrow").table(columns)
    assert counts_from_scores(columns, 100, "uni2") == counts_from_scores(FRAME, 100, "uni2")


def test_columns_can_be_named_outright():
    odd = dict(zip("abcd", FRAME.values(), strict=True))
    counts = counts_from_scores(odd, 100, "uni2", user="a", item="b", score="c", label="d")
    assert counts == counts_from_scores(FRAME, 100, "uni2")
    with pytest.raises(ValueError, match=r"`score='z'` is not a column"):
        counts_from_scores(odd, 100, user="a", item="b", score="z")
    with pytest.raises(ValueError, match=r"no column looks like the score.*name one with `score=`"):
        counts_from_scores(odd, 100, user="a", item="b")
    with pytest.raises(ValueError, match=r"no column looks like the label.*or give `targets=`"):
        counts_from_scores(odd, 100, user="a", item="b", score="c")


def test_targets_in_a_frame_of_their_own():
    plain = {key: FRAME[key] for key in ("user_id", "item_id", "score")}
    counts = counts_from_scores(plain, 100, "uni2", targets={"user": [0, 1], "item": [1, 1]})
    assert counts == counts_from_scores(FRAME, 100, "uni2")


def test_n_items_in_all_its_forms():
    expected = counts_from_scores(FRAME, 100, "uni2")
    assert counts_from_scores(FRAME, [100, 100], "uni2") == expected
    assert counts_from_scores(FRAME, {0: 100, 1: 100}, "uni2") == expected
    assert counts_from_scores(FRAME, {0: 50, 1: 100}, "uni2").pool_range == (50, 100)
    assert counts_from_scores(FRAME, Split(sp.csr_matrix((2, 100)), [0, 1], [1, 1]), "uni2") == expected
    full = counts_from_scores(FRAME, design="full")
    assert full.design == Exhaustive()
    assert full == counts_from_scores(FRAME, 3, "full")
    assert cells(full) == [(ALL, 0, 1, 1), (ALL, 2, 1, 1)]
    assert (counts_from_scores(FRAME, 3, "uni2").keys == full.keys).all()  # the sample is everything: the rank is known
    with pytest.raises(ValueError, match=r"user 0 \(and 1 more\) has 2 distinct negatives of 99: that is not 'full'"):
        counts_from_scores(FRAME, 100, "full")
    with pytest.raises(ValueError, match=r"`n_items` is missing"):
        counts_from_scores(FRAME, design="uni2")
    with pytest.raises(ValueError, match=r"`n_items` has 3 entries for 2 cases"):
        counts_from_scores(FRAME, [5, 5, 5], "uni2")
    with pytest.raises(ValueError, match=r"`n_items` has no entry for user 1"):
        counts_from_scores(FRAME, {0: 9}, "uni2")
    with pytest.raises(ValueError, match=r"more than the 1 that `n_items` leaves room for"):
        counts_from_scores(FRAME, 2, "uni2")
    with pytest.raises(ValueError, match=r"`n_items`, .*must be at least 2, got 0 for user 0"):
        counts_from_scores(FRAME, 0, "uni2")


def changed(column, place, value):
    values = list(FRAME[column])
    values[place] = value
    return {**FRAME, column: values}


@pytest.mark.parametrize(
    ("frame", "keywords", "error", "message"),
    [
        (FRAME, {"design": "pop100"}, ValueError, r"draws negatives by popularity"),
        (FRAME, {"design": "adaptive 2..9 stop 1"}, ValueError, r"`design` must be one sample"),
        (
            FRAME,
            {"design": "uni1"},
            ValueError,
            r"user 0 \(and 1 more\) has 2 distinct negatives, but `design` is 'uni1'",
        ),
        (FRAME, {"ties": "mean"}, ValueError, r"`ties` must .*got 'mean'"),
        (FRAME, {"candidates": ""}, ValueError, r"`candidates` must be 'unseen', 'all' or a name of your own"),
        (FRAME, {"missing": "skip"}, ValueError, r"`missing` must .*got 'skip'"),
        (changed("score", 4, np.nan), {}, ValueError, r"NaN\) for user 1 and item 2"),
        (changed("score", 4, None), {}, ValueError, r"row 4 has no score"),
        (changed("user_id", 4, None), {}, ValueError, r"row 4 has no user"),
        ({**FRAME, "score": list("abcdef")}, {}, TypeError, r"`score` must hold numbers, got 'a'"),
        ({**FRAME, "label": [1, 0, 7, 1, 0, 0]}, {}, ValueError, r"labels must be 0 and 1.*got 7"),
        ({**FRAME, "label": [0] * 6}, {}, ValueError, r"there are no targets"),
        ({**FRAME, "label": [1, 0, 0, 0, 0, 0]}, {}, ValueError, r"has scores for user 1, who has no target"),
        ({**FRAME, "label": [1] * 6}, {}, ValueError, r"user 0 \(and 5 more\) has no negatives beside the target"),
        (changed("item_id", 2, 2), {}, ValueError, r"scores item 2 of user 0 twice and differently, 2 and 3"),
        ({**FRAME, "user_id": [0, 0, 0, 1, 1]}, {}, ValueError, r"different lengths: `user` 5, `item` 6, `score` 6"),
        ({key: [] for key in FRAME}, {}, ValueError, r"the frame has no rows"),
        (FRAME, {"targets": ([0], ["a"])}, TypeError, r"`item` holds strings in one of the frame and its targets"),
        (FRAME, {"targets": ([0, 0, 1], [1, 1, 1])}, ValueError, r"item 1, a target of user 0, is listed twice"),
        (FRAME, {"targets": ([0, 1], [1])}, ValueError, r"different lengths: `user` 2, `item` 1"),
        (FRAME, {"targets": ([0, 1], [1, 77])}, ValueError, r"no score for item 77, a target of user 1"),
        (7, {}, TypeError, r"got a int"),
    ],
)
def test_bad_frames_are_refused_in_one_sentence(frame, keywords, error, message):
    with pytest.raises(error, match=message):
        counts_from_scores(frame, 100, **{"design": "uni2", **keywords})


def test_counts_are_told_their_candidates():
    split = toy()
    for candidates in ("unseen", "all", "the shop"):
        counts = counts_from_scores(FRAME, 100, "uni2", candidates=candidates)
        assert counts.candidates == candidates
        if candidates == "the shop":  # a split counts candidates by a rule
            with pytest.raises(ValueError, match="`candidates` must be 'unseen' or 'all', got 'the shop'"):
                counts_from_scores(FRAME, split, "uni2", candidates=candidates)
        else:
            assert counts_from_scores(FRAME, split, "uni2", candidates=candidates).candidates == candidates
    matrix = np.array([[0.3, 0.1, -np.inf, 0.2]])
    assert counts_from_recbole(matrix, ([0], [1]), 100, "uni2", candidates="all").candidates == "all"
    run, qrels = {"q": {"a": 1.0, "b": 2.0, "c": 3.0}}, {"q": {"a": 1}}
    assert counts_from_trec(run, qrels, 100, "uni2", candidates="all").candidates == "all"
    assert counts_from_trec(run, qrels, 100, "uni2").candidates == "unseen"


def test_lists_far_shorter_than_declared_are_warned_about():
    with pytest.warns(UserWarning, match=r"2 distinct negatives where 'uni99' gives about 94.*cut by score"):
        counts_from_scores(FRAME, 1000)


# ---- splits ----------------------------------------------------------------------------------------------------------


def toy(users=(0, 1), items=(1, 1)):
    return Split(sp.csr_matrix(([1.0], ([0], [5])), shape=(2, 30)), users, items)


def test_negatives_in_train_are_refused_or_belong_to_candidates_all():
    lists = Negatives(np.array([0, 1]), np.array([1, 1]), np.array([5, 6, 7, 5, 6, 7]), np.array([0, 3, 6]))
    with pytest.raises(ValueError, match=r"item 5 is a negative of user 0 and in the user's training items.*'all'"):
        counts_from_negatives(np.arange(30.0), lists, toy())
    counts = counts_from_negatives(np.arange(30.0), lists, toy(), candidates="all")
    assert counts.pool_range == (30, 30)
    assert cells(counts) == [(3, 3, 1, 1)] * 2


def make(users=(0, 1), targets=(1, 1), negatives=(6, 7, 8, 6, 7, 8)):
    return Negatives(np.array(users), np.array(targets), np.array(negatives), 3 * np.arange(len(users) + 1))


@pytest.mark.parametrize(
    ("lists", "where", "message"),
    [
        (make(targets=(1, 2)), toy(), r"item 2, a target of user 1, is not among the split's"),
        (make(), toy((0, 1, 1), (1, 1, 2)), r"the targets of user 1 number 1 here and 2 in the split"),
        (make(users=(0,), targets=(1,), negatives=(6, 7, 8)), toy(), r"no negatives for user 1, who has a target"),
        (make(users=(0, 7)), toy(), r"user 7 is not in the split, which has 2 users"),
        (make(negatives=(6, 7, 8, 6, 7, 88)), toy(), r"item 88 is not in the split, which has 30 items"),
        (make(users=(0, 2)), 30, r"user 2 is unknown to model `m`, which knows 2 users"),
        (make(negatives=(6, 7, 8, 6, 7, 31)), 30, r"item 31 is unknown to model `m`, which knows 30 items"),
        (make(negatives=(6, 7, 8, 1, 1, 1)), 30, r"user 1 has no negatives beside the target"),
        (make(users=(0, 0)), 30, r"item 1, a target of user 0, is listed twice"),
        (make(users=(-1, 0)), 30, r"user -1 is not a position"),
    ],
)
def test_bad_lists_are_refused_in_one_sentence(lists, where, message):
    with pytest.raises(ValueError, match=message):
        counts_from_negatives(np.zeros((2, 30)), lists, where, name="m")


def test_a_subset_of_users_is_allowed_when_asked_for():
    lists = make(users=(0,), targets=(1,), negatives=(6, 7, 8))
    assert len(counts_from_negatives(np.zeros((2, 30)), lists, toy(), missing="drop")) == 1


def test_a_target_among_its_negatives_is_dropped():
    counts = counts_from_negatives(np.arange(30.0), make(negatives=(1, 7, 7, 6, 7, 8)), toy())
    assert cells(counts) == [(1, 1, 1, 1), (3, 3, 1, 1)]


def test_names_need_a_split():
    lists = read_elliot_negatives(io.BytesIO(b"ann\tx\ty\n"))
    with pytest.raises(ValueError, match=r"user 'ann' is unknown: there is no split with names"):
        counts_from_negatives(np.zeros((2, 30)), lists, 30)
    numbers = read_elliot_negatives(io.BytesIO(b"0\t6\t7\n"))
    with pytest.raises(ValueError, match=r"no targets: give a Split"):
        counts_from_negatives(np.zeros((2, 30)), numbers, 30)
    with pytest.raises(TypeError, match=r"`negatives` must be what `read_negatives`.*got a str"):
        counts_from_negatives(np.zeros((2, 30)), "file.negative", 30)
    with pytest.raises(ValueError, match=r"`offsets` must rise"):
        CandidateLists(np.array([0]), None, np.array([1, 2]), np.array([0, 3]))


def test_scores_that_a_model_lacks_or_spoils():
    frame = {"user_id": [0, 0, 0, 0, 1, 1, 1], "item_id": [1, 6, 7, 8, 1, 6, 7], "score": np.arange(7.0)}
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"model `m` has no score for user 1 and item 8"):
        counts_from_negatives(pandas.DataFrame(frame), make(), toy(), name="m")
    with pytest.raises(ValueError, match=r"model `m` has a score .*NaN\) for user 0 and item 7"):
        counts_from_negatives(lambda users, items: np.where(items == 7, np.nan, 1.0), make(), toy(), name="m")


@pytest.mark.parametrize("kind", ["popularity", "half", "one list", "uniform", "uniform from all"])
def test_negatives_that_were_not_drawn_uniformly_are_noticed(kind):
    rng = np.random.default_rng(2)
    train = sp.csr_matrix(rng.random((300, 400)) < np.linspace(0.3, 0.01, 400))
    free = [np.setdiff1d(np.arange(1, 400), train[u].indices) for u in range(300)]
    train = train.tolil()
    train[:, 0] = 0
    split = Split(train.tocsr(), np.arange(300), np.zeros(300, dtype=int))
    popularity = np.linspace(0.3, 0.01, 400)

    def draw(u):
        if kind == "popularity":
            weight = popularity[free[u]]
            return rng.choice(free[u], 50, p=weight / weight.sum())
        if kind == "half":
            return rng.choice(free[u][free[u] < 200], 50)
        if kind == "one list":
            return np.random.default_rng(0).choice(np.arange(1, 400), 50)
        return rng.choice(np.arange(1, 400) if kind == "uniform from all" else free[u], 50)

    drawn = np.concatenate([draw(u) for u in range(300)])
    lists = Negatives(np.arange(300), np.zeros(300, dtype=np.int64), drawn, 50 * np.arange(301))
    pool = "all" if kind in ("one list", "uniform from all") else "unseen"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counts_from_negatives(np.zeros(400), lists, split, candidates=pool)
    assert bool(caught) == (not kind.startswith("uniform"))
    assert all("do not look uniform" in str(each.message) for each in caught)


# ---- RecBole ---------------------------------------------------------------------------------------------------------


def test_recbole_tensors_and_padding():
    torch = pytest.importorskip("torch")
    scores = torch.full((2, 31), -torch.inf)
    scores[0, [2, 7, 8, 9]] = torch.tensor([1.0, 0.0, 2.0, 3.0])
    scores[1, [2, 7, 8, 9]] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    positives = (torch.tensor([0, 1]), torch.tensor([2, 2]))
    plain = counts_from_recbole(scores, positives, 30, "uni3")
    assert cells(plain) == [(3, 0, 1, 1), (3, 2, 1, 1)]
    with_split = counts_from_recbole(scores, positives, toy(), "uni3")  # RecBole's item 2 is the split's item 1
    assert cells(with_split) == cells(plain)
    assert with_split.pool_range == (29, 30)
    scores[0, 0] = 1.0
    with pytest.raises(ValueError, match=r"column 0, which is padding"):
        counts_from_recbole(scores, positives, toy(), "uni4")


def test_batches_add_up_under_the_names_of_their_users():
    rng = np.random.default_rng(0)
    scores, positive = recbole_batch(rng.integers(1, 50, 20), 50, 9, rng)
    whole = counts_from_recbole(scores, positive, 50, "uni9", users=np.arange(100, 120))
    halves = [
        counts_from_recbole(
            scores[part], (positive[0][:10], positive[1][part]), 50, "uni9", users=np.arange(100, 120)[part]
        )
        for part in (slice(0, 10), slice(10, 20))
    ]
    assert halves[0] + halves[1] == whole


def test_full_sort_matrices_are_full():
    scores = np.array([[-np.inf, 3.0, 2.0, 1.0], [-np.inf, -np.inf, 2.0, 5.0]])
    counts = counts_from_recbole(scores, ([0, 1], [2, 2]), design="full")
    assert cells(counts) == [(ALL, 1, 1, 1), (ALL, 1, 1, 1)]
    assert counts.n_items == 2.5


@pytest.mark.parametrize(
    ("scores", "positives", "keywords", "error", "message"),
    [
        (np.zeros(3), ([0], [0]), {}, ValueError, r"`scores` must .*shape \(3,\)"),
        (np.array([[1.0, 2.0]]), ([0], [0, 1]), {}, ValueError, r"different lengths: `user` 1, `item` 2"),
        (np.array([[1.0, np.nan, -np.inf]]), ([0], [0]), {}, ValueError, r"NaN\) for user 0 and item 1"),
        (np.array([[1.0, 2.0, -np.inf]]), ([0], [2]), {}, ValueError, r"no score for item 2, a target of user 0"),
        (np.array([[1.0, 2.0], [1.0, 2.0]]), ([0], [0]), {}, ValueError, r"has scores for user 1, who has no target"),
        (np.array([[1.0, 2.0]]), 5, {}, TypeError, r"`positives` must .*got a int"),
        (np.array([[1.0, 2.0]]), ([0], [0]), {"users": []}, ValueError, r"`users` names 0 rows"),
        (np.array([[1.0, 2.0]]), ([0], [0]), {"design": "pop100"}, ValueError, r"by popularity"),
        (np.array([["a", "b"]]), ([0], [0]), {}, TypeError, r"must be numbers, got"),
    ],
)
def test_bad_recbole_scores_are_refused(scores, positives, keywords, error, message):
    with pytest.raises(error, match=message):
        counts_from_recbole(scores, positives, 100, **{"design": "uni1", **keywords})
