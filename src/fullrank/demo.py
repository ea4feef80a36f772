"""The demo: a made-up catalogue on which sampled evaluation picks the wrong winner, and fullrank the right one.

Nothing is downloaded. A world of users and items with latent tastes is drawn from a seed; two recommenders know it in
different ways. *Broad* knows everyone roughly: it nearly always beats 99 random items and seldom finds the top 10 of
20,000. *Sharp* knows two users in five well and the rest not at all.
"""

from dataclasses import dataclass, replace

import numpy as np

from fullrank._types import Array, IntArray
from fullrank.evaluation import report_on
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Exhaustive, Sample
from fullrank.report import Report


@dataclass(frozen=True)
class Demo:
    """Truth (the full ranking), what 99 sampled negatives show, and what fullrank makes of them."""

    truth: Report
    corrected: Report


def world(rng: np.random.Generator) -> tuple[IntArray, dict[str, tuple[Array, Array]]]:
    """Held-out items, and two models as (user factors, item factors)."""
    users, items = 4000, 20_000
    tastes, traits = (rng.normal(size=(n, 16)).astype(np.float32) for n in (users, items))
    # where a perfect model would rank each user's held-out item: near a power law, as with real recommenders (li20)
    ranks = (items ** rng.beta(1.0, 2.5, size=users)).astype(np.int64)
    targets = np.array([_item_at(rank, traits @ -taste) for taste, rank in zip(tastes, ranks, strict=True)])
    noise = rng.normal(size=tastes.shape).astype(np.float32)
    broad = tastes + np.float32(0.9) * noise
    sharp = np.where(rng.random((users, 1)) < 0.4, tastes, noise).astype(np.float32)
    return targets, {"Broad": (broad, traits), "Sharp": (sharp, traits)}


def _item_at(rank: int, losses: Array) -> int:
    """Return the item at this place, from 1, by rising loss: sought by value, among the few that a sample says suffice."""
    some = np.sort(losses[::40])
    guess = rank // 30 + 10
    few = losses[losses <= some[guess]] if guess < len(some) else losses
    few = few if len(few) >= rank else losses
    return int((losses == np.partition(few, rank - 1)[rank - 1]).argmax())


def full_ranks(factors: tuple[Array, Array], targets: IntArray) -> IntArray:
    """Return the rank of every user's target: 1 + how many items score above it."""
    users, items = factors
    ranks = np.empty(len(users), dtype=np.int64)
    for first in range(0, len(users), 256):
        block = slice(first, first + 256)
        scores = users[block] @ items.T
        own = np.take_along_axis(scores, targets[block, None], axis=1)
        ranks[block] = 1 + np.count_nonzero(scores > own, axis=1)
    return ranks


def run(seed: int = 0) -> Demo:
    """Rank everything once for the truth, then pretend only 99 negatives per user were affordable."""
    rng = np.random.default_rng(seed)
    targets, models = world(rng)
    truth, sampled = {}, {}  # there is no training data, so all candidates are `unseen`, the default of counts
    for name, factors in models.items():
        N, ranks = len(factors[1]), full_ranks(factors, targets)
        truth[name] = RankCounts.from_ranks(ranks, N, Exhaustive())
        hits = rng.binomial(99, (ranks - 1) / (N - 1))
        sampled[name] = RankCounts.from_ranks(hits + 1, N, Sample(99))
    about = {"data": "a made-up catalogue", "seed": seed}
    full, corrected = (report_on(each, ("recall@10", "ndcg@10"), provenance=about) for each in (truth, sampled))
    rows = [replace(row, truth=full.value(row.model, row.metric)) for row in corrected.rows]
    return Demo(full, replace(corrected, rows=rows))
