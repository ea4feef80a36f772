"""The torchmetrics metric: the same counts as the accumulator, summed across processes."""

import numpy as np
import pytest

import fullrank as fr

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")

from fullrank.evaluation.torchmetrics import FullRankMetric  # noqa: E402 - after the check that torch is there


@pytest.fixture
def scores():
    torch.manual_seed(0)
    scores = torch.randn(300, 100)
    scores[:, 0] += 1.5
    return scores


@pytest.mark.parametrize("design", ["uni99", "full", fr.Adaptive(99, 399, stop_at=1)])
def test_counts_are_those_of_the_accumulator(scores, design):
    if isinstance(design, fr.Adaptive):  # rows that would go on are given their further negatives
        scores[(scores[:, 1:] > scores[:, :1]).sum(1) == 0, 1] = 9.0
    n_items = 100 if design == "full" else 3706
    metric, acc = FullRankMetric(design, n_items), fr.Accumulator(design, n_items)
    for part in scores.split(64):
        metric.update(part, 0)
        acc.update(part, 0)
    assert metric.counts == acc.counts
    assert float(metric.compute()) == pytest.approx(fr.LogSpline().fit(acc.counts).expect("ndcg@10"), rel=1e-6)


def test_counts_are_told_their_candidates(scores):
    metric, acc = (make("uni99", 3706, candidates="all") for make in (FullRankMetric, fr.Accumulator))
    metric.update(scores, 0)
    acc.update(scores, 0)
    assert metric.counts == acc.counts
    assert metric.counts.candidates == "all"
    assert FullRankMetric("uni99", 3706).candidates == "unseen"
    with pytest.raises(ValueError, match=r"`candidates` must be 'unseen', 'all' or a name of your own .*, got 'All'"):
        FullRankMetric("uni99", 3706, candidates="All")


def test_forms_of_targets_users_and_reset(scores):
    onehot = torch.zeros_like(scores)
    onehot[:, 0] = 1
    users = torch.arange(300) % 50
    states = []
    for target in (0, torch.zeros(300, dtype=torch.long), onehot):
        metric = FullRankMetric("uni99", 3706)
        metric.update(scores, target, users)
        states.append(metric.counts)
    assert states[0] == states[1] == states[2]
    acc = fr.Accumulator("uni99", 3706)
    acc.update(scores, 0, users=users)
    assert states[0] == acc.counts
    metric.reset()
    with pytest.raises(ValueError, match="seen nothing yet"):
        metric.compute()


def test_several_metrics_forward_and_collections(scores):
    metric = FullRankMetric("uni99", 3706, ["ndcg@10", "recall@5"])
    now = metric(scores, 0)
    assert set(now) == {"ndcg@10", "recall@5"}
    members = {"a": FullRankMetric("uni99", 3706), "b": FullRankMetric("uni99", 3706, "recall@5")}
    collection = torchmetrics.MetricCollection(members)
    collection.update(scores, 0)
    assert float(collection.compute()["b"]) == pytest.approx(float(now["recall@5"]))
    report = metric.report()
    assert report.metrics == ["ndcg@10", "recall@5"]
    assert report.rows[0]["low"] < report.rows[0]["value"] < report.rows[0]["high"]


def test_states_of_two_processes_sum(scores, monkeypatch):
    """torchmetrics gathers states and reduces them by our function: here by hand, with its own machinery."""
    one, two, both = (FullRankMetric("uni99", 3706) for _ in range(3))
    one.update(scores[:100], 0, torch.arange(100))
    two.update(scores[100:], 0, torch.arange(100, 300))
    both.update(scores, 0, torch.arange(300))

    def gathered(state, group=None):
        name = "cells" if state.ndim else "seen"
        return [getattr(one, name).clone(), getattr(two, name).clone()]

    one.sync(dist_sync_fn=gathered, distributed_available=lambda: True, should_sync=True)
    assert one.counts == both.counts
    one.unsync()
    assert len(one.counts) == 100


def test_real_processes_sum(tmp_path, scores):
    import subprocess
    import sys

    torch.save(scores, tmp_path / "scores.pt")
    code = """
import sys, torch, torch.distributed as dist
from fullrank.evaluation.torchmetrics import FullRankMetric
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
scores = torch.load(f"{folder}/scores.pt")
metric = FullRankMetric("uni99", 3706)
metric.update(scores[rank::2], 0, torch.arange(300)[rank::2])
value = float(metric.compute())
if rank == 0:
    print(value)
dist.destroy_process_group()
"""
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(rank), str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    out = [run.communicate(timeout=120)[0] for run in runs]
    whole = FullRankMetric("uni99", 3706)
    whole.update(scores, 0, torch.arange(300))
    assert float(out[0]) == pytest.approx(float(whole.compute()), rel=1e-6)


def test_ties_are_even_and_the_state_is_bounded():
    metric = FullRankMetric("uni4", 100)
    metric.update(torch.zeros(1000, 5), 2)
    np.testing.assert_allclose(metric.counts.sampled_ranks()[1], 200, atol=5)
    for ties, rank in (("optimistic", 1), ("pessimistic", 5)):
        metric = FullRankMetric("uni4", 100, ties=ties)
        metric.update(torch.zeros(10, 5), 2)
        assert metric.counts.sampled_ranks()[0].tolist() == [rank]
    assert FullRankMetric("full", 1_000_000).cells.numel() <= 1 << 22


@pytest.mark.parametrize(
    ("scores", "target", "message"),
    [
        (torch.tensor([[0.0, float("nan"), 0.0]]), 0, "`scores` has NaN"),
        (torch.zeros(3), 0, "must have shape .rows, candidates."),
        (torch.zeros(2, 4), 0, "a row with 3 negatives beside its target; 'uni2' draws 2"),
        (torch.zeros(2, 3), 3, "`target` is column 3 in row 0: there are 3 candidates"),
        (torch.zeros(2, 3), torch.zeros(2), "must be a column, one per row"),
        (torch.zeros(2, 3), torch.ones(2, 3), "one candidate per row"),
        (torch.tensor([[-torch.inf, 0.0, 0.0]]), 0, "−inf for a target"),
    ],
)
def test_bad_batches(scores, target, message):
    with pytest.raises(ValueError, match=message):
        FullRankMetric("uni2", 100).update(scores, target)


def test_bad_settings():
    with pytest.raises(ValueError, match=r"`n_items` must be a whole number of at least 2, got 1\.5"):
        FullRankMetric("uni2", 1.5)
    with pytest.raises(ValueError, match="`ties` must be 'random', 'optimistic' or 'pessimistic', got 'fair'"):
        FullRankMetric("uni2", 10, ties="fair")
