"""Streaming scores give what ranking them one by one would."""

import numpy as np
import pytest

import fullrank as fr


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(200, 100))
    scores[:, 7] += 1.5
    return scores


def naive_ranks(scores, column):
    return np.array([1 + sum(other > row[c] for i, other in enumerate(row) if i != c)
                     for row, c in zip(scores, np.broadcast_to(column, len(scores)), strict=True)])  # fmt: skip


def test_ranks_are_those_of_a_loop_whatever_the_form_of_the_target(batch):
    expected = fr.RankCounts.from_ranks(naive_ranks(batch, 7), 3706, "uni99")
    onehot = np.zeros_like(batch)
    onehot[:, 7] = 1
    for target in (7, np.full(200, 7), np.full((200, 1), 7), onehot, onehot.astype(bool)):
        acc = fr.Accumulator("uni99", 3706)
        acc.update(batch, target)
        assert acc.counts == expected


def test_batches_and_merging_change_nothing(batch):
    users = np.arange(200) % 40
    whole = fr.Accumulator("uni99", 3706)
    whole.update(np.round(batch), 7, users=users)  # rounding makes ties, decided at random
    parts = fr.Accumulator("uni99", 3706)
    for first in range(0, 200, 3):
        parts.update(np.round(batch[first : first + 3]), 7, users=users[first : first + 3])
    assert parts.counts == whole.counts
    one, two = fr.Accumulator("uni99", 3706), fr.Accumulator("uni99", 3706)
    one.update(batch[:90], 7, users=users[:90])
    two.update(batch[90:], 7, users=users[90:])
    together = fr.Accumulator("uni99", 3706)
    together.update(batch, 7, users=users)
    assert one.merge(two).counts == together.counts
    assert len(one) == 200
    one.reset()
    assert len(one) == 0


def test_without_users_rows_are_users_of_their_own(batch):
    acc = fr.Accumulator("uni99", 3706)
    for row in batch:
        acc.update(row[None], 7)
    assert len(np.unique(acc.counts.column("block"))) > 100


def test_rows_without_users_are_not_merged_with_others_that_have_none(batch):
    """Both are numbered from 0: the first of each would be taken for one user."""
    one, two, three = (fr.Accumulator("uni99", 3706) for _ in range(3))
    two.update(batch[:3], 7)
    one.merge(two)  # nothing yet: two's rows are the only ones
    one.update(batch[3:6], 7)
    assert len(np.unique(one.counts.column("block"))) == 6
    three.update(batch[:3], 7)
    with pytest.raises(ValueError, match=r"cannot merge what was updated without `users` on both sides: .*give update"):
        one.merge(three)
    three.reset()
    three.update(batch[:3], 7, users=["a", "b", "c"])
    assert len(one.merge(three)) == 9


def test_shares_of_the_items_are_shares_of_the_largest_number(batch):
    acc = fr.Accumulator("adaptive", 1000)
    for pool in (900, 1000):
        acc.update(np.arange(50.0) * np.ones((3, 1)), 7, n_items=[pool] * 3)
    assert str(acc.counts.design) == "adaptive 49..250 stop 1"
    with pytest.raises(
        ValueError, match=r"`n_items` is missing: 'adaptive 49..0.25 stop 1' has sizes that depend on it"
    ):
        fr.Accumulator("adaptive")
    for design in ("adaptive 9..99", "adaptive 9..all without replacement", "full", "uni9"):
        fr.Accumulator(design)


def test_ties():
    scores = np.zeros((3000, 5))
    ranks = {}
    for ties in ("optimistic", "pessimistic", "random"):
        acc = fr.Accumulator("uni4", 100, ties=ties)
        acc.update(scores, 2)
        ranks[ties] = np.repeat(*acc.counts.sampled_ranks()[:1], 1) if ties != "random" else acc.counts.sampled_ranks()
    assert ranks["optimistic"].tolist() == [1]
    assert ranks["pessimistic"].tolist() == [5]
    np.testing.assert_allclose(ranks["random"][1] / 3000, 0.2, atol=0.03)


def test_everything_scored_is_exact_and_seen_items_are_no_candidates(batch):
    masked = batch.copy()
    masked[:, :5] = -np.inf
    acc = fr.Accumulator("full")
    acc.update(masked, 7)
    assert acc.counts.n_items == 95
    exact = np.mean(naive_ranks(batch[:, 5:], 2) <= 10)
    assert acc.report("recall@10").rows[0]["value"] == pytest.approx(exact)


def test_several_targets_per_row_are_cases_of_one_user():
    scores = np.array([[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]])
    acc = fr.Accumulator("full")
    acc.update(scores, [[0, 1, 0, 1, 0, 0]], users=["u"])
    counts = acc.counts
    assert len(counts) == 2
    # ranks among the non-relevant: item 1 behind item 0; item 3 behind items 0 and 2
    assert sorted(zip(counts.column("order"), counts.above, strict=True)) == [(1, 1), (2, 2)]
    # in the full list: places 2 and 4
    ideal = 1 + 1 / np.log2(3)
    value = acc.report("ndcg@10").rows[0]["value"]
    assert value == pytest.approx((1 / np.log2(3) + 1 / np.log2(5)) / ideal)


def test_adaptive_rows_are_checked_against_the_stages():
    acc = fr.Accumulator(fr.Adaptive(3, 7, stop_at=1), 1000)
    acc.update(np.array([[0.0, 1.0, -1.0, -1.0], [0.0, 1.0, 2.0, -1.0]]), 0)
    acc.update(np.array([[0.0, *[-1.0] * 7]]), 0)
    assert acc.counts.sizes.tolist() == [3, 7]
    with pytest.raises(ValueError, match="would have gone on"):
        acc.update(np.array([[0.0, -1.0, -1.0, -1.0]]), 0)


def test_pools_per_row_and_padding(batch):
    acc = fr.Accumulator("uni99")
    padded = batch.copy()
    padded[0, 90:] = -np.inf
    acc.update(padded, 7, n_items=np.arange(1000, 1200))
    assert acc.counts.pool_range[0] < 1010 < acc.counts.pool_range[1]
    assert acc.counts.sizes.tolist() == [89, 99]


def test_torch_tensors_come_off_their_graph(batch):
    torch = pytest.importorskip("torch")
    acc, plain = fr.Accumulator("uni99", 3706), fr.Accumulator("uni99", 3706)
    acc.update(torch.tensor(batch, requires_grad=True), torch.full((200,), 7))
    plain.update(batch, 7)
    assert acc.counts == plain.counts
    acc.update(torch.tensor(batch).bfloat16(), 7)
    assert len(acc) == 400


def test_report_and_text(batch):
    acc = fr.Accumulator("uni99", 3706, name="EASE")
    assert repr(acc) == "<Accumulator: nothing yet of uni99>"
    acc.update(batch, 7)
    assert repr(acc) == "<Accumulator: 200 cases of uni99 among 3,706 items (unseen)>"
    report = acc.report(["ndcg@10", "recall@5"])
    assert report.models == ["EASE"]
    assert report.value("EASE", "ndcg@10") == fr.LogSpline().fit(acc.counts).expect("ndcg@10")


def test_counts_are_told_their_candidates(batch):
    one, two = (fr.Accumulator("uni99", 3706, candidates="all") for _ in range(2))
    one.update(batch, 7, users=np.arange(200))
    two.update(batch, 7)
    assert one.merge(two).counts.candidates == two.counts.candidates == "all"
    assert one.report("ndcg@10").provenance["prior"] == "all"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.zeros(5)}, r"`scores` must have shape \(rows, candidates\), one row per case, got \(5,\)"),
        ({"scores": np.array([[0.0, np.nan]])}, "NaN in row 0"),
        ({"scores": np.array([[-np.inf, 0.0]])}, "−inf for the target of row 0"),
        ({"target": 5}, "`target` is column 5 in row 0: there are 3 candidates"),
        ({"target": [0, 1, 2]}, r"`target` must be a column, .*, got shape \(3,\)"),
        ({"target": [[0, 0, 0], [0, 1, 0]]}, "no relevant candidate in row 0"),
        ({"target": [[0, 2, 0], [0, 1, 0]]}, "0 and 1 only"),
        ({"target": [0.5, 0.1]}, r"`target` must be a column, one per row, .* type float64"),
        ({"users": [1]}, r"`users` must hold one id per row, got shape \(1,\) for 2 rows"),
        ({"n_items": [5, 5, 5]}, r"`n_items` must be one number, or one per row, got shape \(3,\) for 2 rows"),
        ({"scores": np.zeros((2, 4))}, r"must hold the 2 negatives of 'uni2' beside its target, got 3: .*Sample\(3\)"),
    ],
)
def test_bad_batches_are_one_sentence(change, message):
    acc = fr.Accumulator("uni2", 100)
    with pytest.raises(ValueError, match=message):
        acc.update(**{"scores": np.zeros((2, 3)), "target": 0, **change})
    with pytest.raises(ValueError, match="seen nothing yet"):
        _ = acc.counts


def test_other_bad_calls():
    with pytest.raises(ValueError, match=r"`ties` must be 'random', 'optimistic' or 'pessimistic', got 'fair'"):
        fr.Accumulator("uni9", ties="fair")
    with pytest.raises(ValueError, match="`n_items` is missing"):
        fr.Accumulator("uni2").update(np.zeros((1, 3)), 0)
    with pytest.raises(ValueError, match="cannot merge design 'uni9' into 'uni2'"):
        fr.Accumulator("uni2").merge(fr.Accumulator("uni9"))
    with pytest.raises(ValueError, match=r"`candidates` must be 'unseen', 'all' or a name of your own .*, got 'All'"):
        fr.Accumulator("uni2", candidates="All")
    with pytest.raises(ValueError, match="cannot merge candidates 'all' into 'unseen'"):
        fr.Accumulator("uni2").merge(fr.Accumulator("uni2", candidates="all"))
    with pytest.raises(TypeError, match="must be an Accumulator, got int"):
        fr.Accumulator("uni2").merge(3)
