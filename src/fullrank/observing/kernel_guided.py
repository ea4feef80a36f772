"""Candidates that are compared one by one: their scores, and which of them beat the target."""

from __future__ import annotations

from typing import Any

import numpy as np

from fullrank.observing.compiled import NAN_SCORE, Array, kernel
from fullrank.observing.kernel_scores import close_user, open_user, score_items, score_range
from fullrank.observing.kernel_ties import beats, user_key


@kernel
def score_matrix(model: Any, users: Array, items: Array, work: Array, ids: Array, scores: Array, out: Array) -> None:
    """Score ``items[k]`` for user ``users[k]``, a few at a time."""
    for k in range(len(users)):
        open_user(model, users[k], work)
        done = 0
        while done < items.shape[1]:
            n = min(len(ids), items.shape[1] - done)
            for d in range(n):
                ids[d] = items[k, done + d]
            score_items(model, users[k], work, ids, n, scores)
            for d in range(n):
                out[k, done + d] = scores[d]
            done += n
        close_user(model, users[k], work)


@kernel
def score_rows(model: Any, users: Array, work: Array, scores: Array, out: Array) -> None:
    """Score the whole catalogue for every user."""
    for k in range(len(users)):
        open_user(model, users[k], work)
        done = 0
        while done < out.shape[1]:
            n = min(len(scores), out.shape[1] - done)
            score_range(model, users[k], work, done, n, scores)
            for d in range(n):
                out[k, done + d] = scores[d]
            done += n
        close_user(model, users[k], work)


@kernel
def mark_listed(
    cases: Any, rules: Any, rows: Array, groups: Array, sizes: Array, items: Array, scores: Array, out: Array, status: Array
) -> None:  # fmt: skip
    """Mark in ``out`` which of the ``sizes[k]`` items in row k beat the target in its first column."""
    users, targets, ties, tie_seed = cases.users, cases.targets, rules.ties, rules.tie_seed
    for k in range(len(rows)):
        key = user_key(tie_seed, users[groups[k]])
        if np.isnan(scores[k, 0]):
            status[groups[k]] = NAN_SCORE
        for d in range(1, sizes[k] + 1):
            if scores[k, d] != scores[k, d]:
                status[groups[k]] = NAN_SCORE
            out[k, d - 1] = beats(scores[k, d], scores[k, 0], key, items[k, d], targets[rows[k]], ties)
