"""Guides: in which order a user's candidates are compared with the target one by one, before the rest is sampled.

A guide is a scorer, asked for whole rows and never counted as scored; or lists of items, those a retrieval stage returned or
the user's training items. Popular items come between those of a scorer, as most models rank some of them high, which a guide
of another kind misses. What a block gives stays a pure function of (model, guide, block, design, seed).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fullrank._columns import checked_columns, frame_columns
from fullrank._tables import read_table
from fullrank._types import Array, BoolArray, IntArray
from fullrank.data.split import Split
from fullrank.models.adapters.structure import places_of_rows
from fullrank.models.scorer import as_scorer, digest_of, is_frame
from fullrank.observing.blocks import Block, Result
from fullrank.observing.inputs import check_sizes, lists_of
from fullrank.observing.kernel_inputs import State, scores_of, scratch_of, whole_rows
from fullrank.ranks.design import Design

if TYPE_CHECKING:
    from fullrank.observing.task import Task

#: Users that are observed together behind a guide, and whose rows a guide is asked for together.
TILE, ROWS = 512, 64
#: After so many items of a guide comes the next of the popular ones.
BETWEEN_POPULAR = 2
#: More negatives than any case has: a case that comes with so many draws none.
_NO_MORE = 1 << 40


@dataclass(frozen=True, eq=False)
class Guide:
    """An order of each user's candidates: by a scorer's rows, or as lists give it."""

    name: str
    scorer: Any = None
    lists: Any = None  # CSR, the items of each user in their order
    ordered: bool = True  # whether those that come first are the more likely to beat the target
    popular: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # items by popularity

    def first(self, task: Task, block: Block, places: IntArray, depth: IntArray) -> list[IntArray]:
        """The first ``depth`` candidates of the users at these places of the block, targets left out."""
        lists: list[IntArray] = []
        key = np.random.default_rng(task.seed).permutation(task.n_items)
        key[self.popular] = np.arange(len(self.popular)) - task.n_items
        for start in range(0, len(places), ROWS):
            here = places[start : start + ROWS]
            users = np.array(block.users)[here]
            rows = None if self.scorer is None else self._rows(task, users)
            for row, (g, user, most) in enumerate(zip(here, users, depth[start : start + ROWS], strict=True)):
                allowed = np.full(task.n_items, not block.explicit)
                allowed[block.listed[block.lo[g] : block.hi[g]]] = block.explicit
                allowed[block.targets[block.ptr[g] : block.ptr[g + 1]]] = False
                if rows is not None:
                    own = _top(rows[row], np.flatnonzero(allowed), key, most)
                    popular = self.popular[: most + np.count_nonzero(~allowed)]  # more are not needed
                    lists.append(with_popular(own, popular[allowed[popular]], most))
                else:
                    items = self.lists.indices[self.lists.indptr[user] : self.lists.indptr[user + 1]]
                    lists.append(items[allowed[items]][:most].astype(np.int64))
        return lists

    def _rows(self, task: Task, users: IntArray) -> Array:
        scores = whole_rows(replace(task, scorer=self.scorer), users, f"guide `{self.name}`")
        wrong = np.flatnonzero(np.isnan(scores[:, : task.n_items]).any(1))
        if len(wrong):
            raise ValueError(f"guide `{self.name}` gave a score that is not a number (NaN) for user {users[wrong[0]]}.")
        return scores

    @property
    def identity(self) -> Any:
        """What a checkpoint must agree on."""
        digest = getattr(self.scorer, "digest", None)
        if self.lists is not None:
            return digest_of(self.lists.indptr, self.lists.indices)
        return [self.name, None if digest is None else digest(), BETWEEN_POPULAR]


def with_popular(items: IntArray, popular: IntArray, depth: int) -> IntArray:
    """The first ``depth`` of a guide's items and of popular ones in turn, each item once.

    >>> with_popular(np.array([7, 3, 9, 1, 4]), np.array([3, 0, 1]), depth=5)
    array([7, 3, 9, 1, 0])
    """
    every = BETWEEN_POPULAR + 1
    own, popular = np.arange(len(items)), popular[: depth // BETWEEN_POPULAR + 1]
    turn = np.concatenate([own + own // BETWEEN_POPULAR, np.arange(BETWEEN_POPULAR, every * len(popular), every)])
    both = np.concatenate([items, popular])[np.argsort(turn)]
    return both[np.sort(np.unique(both, return_index=True)[1])][:depth]


def _top(scores: Array, items: IntArray, key: IntArray, depth: int) -> IntArray:
    """The items with the highest scores, in order; a key decides between equal ones."""
    own = scores[items]
    if len(items) > depth:
        least = np.partition(own, len(own) - depth)[len(own) - depth]
        items, own = items[own >= least], own[own >= least]
    return items[np.lexsort((key[items], -own))][:depth]


def guide_of(given: Any, split: Split) -> Guide | None:
    """Return the guide that is meant: a scorer, ``"popularity"``, or lists of items, in any form that users have them in."""
    if given is None or isinstance(given, Guide):
        return given
    if isinstance(given, str) and given == "popularity":
        from fullrank.models.popularity import Popularity

        return Guide(given, as_scorer(Popularity().fit(split.train), split))
    if isinstance(given, str | Path):
        if not Path(given).is_file():
            raise ValueError(
                f"`guide` must be a scorer, lists of items or 'popularity', got {str(given)!r}, which is no file either."
            )
        given = read_table(Path(given))
    if (lists := _lists_in(given, split)) is not None:
        listed = lists_of(lists, "guide", split)
        if not np.diff(listed.indptr)[split.test_users].any():
            raise ValueError(
                "`guide` lists no item for any user with a test case: it would guide nowhere; leave it out."
            )
        return Guide("lists", lists=listed)
    scorer = as_scorer(given, split, name=None)
    name = str(getattr(scorer, "name", "guide"))
    check_sizes(scorer, split, f"guide `{name}`")
    return Guide(name, scorer, popular=by_popularity(split.train))


def by_popularity(train: Any) -> IntArray:
    """The items that occur in training data, a CSR matrix of users × items, those that occur most often first."""
    times = np.bincount(train.indices, minlength=train.shape[1])
    return np.argsort(-times, kind="stable")[: np.count_nonzero(times)]


def _lists_in(given: Any, split: Split) -> Any:
    """The items of every user, or of those in a dict; ``None`` for a scorer, which a frame with scores is too."""
    if isinstance(given, Mapping) and not (given and all(isinstance(name, str) for name in given)):
        return given
    if is_frame(given):
        columns = frame_columns(given, ("user", "item"), ("score", "rank"))
        if "score" in columns:
            return None
        found = checked_columns(columns)
        ranks = found.get("rank", np.zeros(0))
        if ranks.dtype.kind not in "iuf" or np.isnan(ranks).any():
            got = "a missing one" if ranks.dtype.kind == "f" else f"{ranks[:1].tolist()[0]!r}"
            raise TypeError(f"`guide` must have a number as the rank of every row, got {got}.")
        users, items, known = places_of_rows(found, split, "guide")
        order = np.lexsort((found["rank"][known] if "rank" in found else np.arange(len(users)), users))
        return np.split(items[order], np.cumsum(np.bincount(users[order], minlength=split.n_users))[:-1])
    if _is_of_one_user(given):
        return {user: given(user) for user in np.unique(split.users).tolist()}
    return given if isinstance(given, Sequence) and not isinstance(given, tuple) else None


def _is_of_one_user(given: Any) -> bool:
    """Whether something is called with one argument, a user; what is called with users and items is a scorer."""
    if not callable(given) or hasattr(given, "score"):
        return False
    try:
        each = list(inspect.signature(given).parameters.values())
    except (TypeError, ValueError):
        return False
    return len(each) == 1 and each[0].kind in (each[0].POSITIONAL_ONLY, each[0].POSITIONAL_OR_KEYWORD)


def continues(before: Design, after: Design) -> bool:
    """Whether a case that was observed under one design keeps what was compared and drawn under another.

    How many of the hits came late is known again if all that was compared is now early: twice as many are. Where cases go on
    by themselves, those that stopped have no late hits, and stand at a mark of the other design if it has the same marks.
    They may begin to do so where all stood at half the first mark.
    """
    same = before.compares == after.compares
    stops = {int(np.argmax(design.closed(np.arange(1 << 12)))) for design in (before, after)}
    kept = before.steps[:1] == after.steps[:1] and len(stops) == 1
    deeper = after.compares >= 2 * before.compares > 0
    if before.goes_on:
        kept = kept and before.reach == after.reach
        deeper = after.compares in before.marks
    elif after.goes_on:
        same, deeper = False, after.compares == 2 * before.compares
    return kept and (same or deeper)


def observe_behind(task: Task, block: Block) -> Result:
    """Compare the guide's first items of every case of a tile, then sample the rest of those that are open."""
    walk = Walk(task, block)
    state, ahead, before = walk.state, walk.ahead, walk.depth.copy()
    scored = walk.compare()
    state.complain(task.name)
    if "compared" in block.before and (walk.depth > before).any():
        walk.keep_sample(before)
    rest = state.pool - 1 - walk.depth
    drawn, hits = np.zeros_like(rest), np.zeros_like(rest)
    more = np.flatnonzero(walk.on & (rest > 0))
    if len(more):
        cases, (beaten, left, number, seen, *_), asked = walk.sample_rest(more)
        known = left == 0
        drawn[cases], hits[cases] = np.where(known, rest[cases], number), np.where(known, beaten, seen)
        if not task.design.compares:  # nothing is learned from a rest that is known: the rank is
            whole = cases[known]
            ahead[whole] += beaten[known]
            rest[whole] = drawn[whole] = hits[whole] = 0
        scored += asked
    outcome = (ahead, rest, drawn, hits, state.pool, state.order, walk.recent if walk.guide.ordered else ahead)
    return Result(block.first, block.last, outcome, scored)


class Walk:
    """The cases of a tile on their way along the guide's order, from where the block says that they have come."""

    def __init__(self, task: Any, block: Block) -> None:
        self.guide: Guide = task.guide
        self.task, self.block, self.state = task, block, State.of(task, block)
        self.state.find_pools(task)
        self.group, self.targets = self.state.group, np.asarray(block.targets, dtype=np.int64)
        self.users = block.users[self.group]
        self.ahead, self.recent, self.depth = (block.so_far(name) for name in ("ahead", "recent", "depth"))
        self.late = np.zeros_like(self.depth)  # hits in the last half, of what was compared just now
        self.kept = np.zeros(len(self.group), dtype=bool)  # which cases are never closed: a random share of them
        # the same whatever the model, the guide and the batch
        if share := float(getattr(task.design, "keep_open", 0.0)):
            pairs = np.stack([self.users, self.targets], axis=1).tolist()
            self.kept[:] = [np.random.default_rng([task.seed, 11, *pair]).random() < share for pair in pairs]
        deepest = np.maximum(task.design.compares or task.n_items, np.maximum.reduceat(self.depth, block.ptr[:-1]))
        #: The guide's first items of every user.
        self.lists = self.guide.first(task, block, np.arange(len(block.users)), deepest)
        #: Cases, and items seen to beat them just now.
        self.beaten_by: list[tuple[IntArray, IntArray]] = []
        #: How many items every case is compared with unless it is closed.
        self.base = np.minimum(task.design.compares or task.n_items, self.size)
        half = self.base // 2
        if task.design.goes_on:
            # what came after the first half stands after the first quarter of twice as much
            self.recent[self.depth < half] = 0
        else:
            self.recent[(self.depth <= half) & (self.depth < self.base)] = 0  # what was late has become early
        if "order" not in block.before:
            self.state.order_targets(scores_of(task, self.users, self.targets[:, None])[:, 0].astype(np.float64))

    @property
    def size(self) -> IntArray:
        """How many of the guide's items are at hand, of every case."""
        return np.array([len(each) for each in self.lists], dtype=np.int64)[self.group]

    @property
    def on(self) -> BoolArray:
        """Which cases are open, or kept open."""
        return np.asarray(~self.task.design.closed(self.ahead) | self.kept)

    def compare(self) -> int:
        """Compare cases step by step until they are closed, or as deep as the design says; return the scores it took."""
        design, base = self.task.design, self.base
        early = base // 4 if design.goes_on else base // 2
        scored = sum(
            self.to(np.minimum(goal, base), self.on, early, base // 2) for goal in design.steps or (self.task.n_items,)
        )
        for mark in design.marks[:-1]:
            # cases of a user are sampled from one rest, and go on together
            eager = ~design.closed(self.ahead) & (self.late > 0) & (self.depth == mark)
            on = np.isin(self.group, self.group[eager]) & (self.depth == mark)
            if not on.any():
                continue
            self.recent[on], self.late[on] = self.late[on], 0
            users = np.unique(self.group[on])
            more = self.guide.first(self.task, self.block, users, np.full(len(users), 2 * mark))
            for g, items in zip(users, more, strict=True):
                self.lists[g] = items
            none = np.zeros_like(base)
            for goal in (mark + mark // 2, 2 * mark):
                scored += self.to(np.minimum(goal, self.size), on & self.on, none, none)
        return scored

    def to(self, goal: IntArray, on: BoolArray, early: IntArray, half: IntArray) -> int:
        """Compare cases up to a place; hits from ``early`` on are recent, those from ``half`` on late."""
        task, scored = self.task, 0
        rows = np.flatnonzero(on & (self.depth < goal))
        while len(rows):
            left, begin = (goal - self.depth)[rows], self.depth[rows]
            width = int(min(left.max(), max(task.scores_per_call // len(rows), 1)))
            left = np.minimum(left, width)
            asked = np.repeat(self.targets[rows, None], width + 1, axis=1)
            for row, (g, place, number) in enumerate(zip(self.group[rows], begin, left, strict=True)):
                asked[row, 1 : number + 1] = self.lists[g][place : place + number]
            won = self.state.beaten_by(rows, left, asked, scores_of(task, self.users[rows], asked))
            place = begin[:, None] + np.arange(width)
            self.ahead[rows] += won.sum(1)
            self.recent[rows] += (won & (place >= early[rows, None])).sum(1)
            self.late[rows] += (won & (place >= half[rows, None])).sum(1)
            case, column = np.nonzero(won)
            self.beaten_by.append((rows[case], asked[case, column + 1]))
            scored += int(left.sum())
            self.depth[rows] += left
            rows = rows[self.depth[rows] < goal[rows]]
        return scored

    def keep_sample(self, before: IntArray) -> None:
        """Keep what can be kept of a sample that was drawn of a rest before more of it was compared.

        Less those that are compared now, it is a sample still; which of these were hits is known, as they have just been
        compared. Negatives come in the same order whatever is left out, so that the sample goes on from there.
        """
        task, block, depth = self.task, self.block, self.depth
        drawn, hits = block.so_far("compared"), block.so_far("hits")
        if block.explicit or (4 * (self.state.pool - 1 - depth) < task.n_items).any():
            drawn[:] = hits[:] = 0
        elif len(rows := np.flatnonzero((drawn > 0) & (depth > before))):
            cut = np.maximum.reduceat(before, block.ptr[:-1])  # that of the open cases
            old = State.of(task, replace(block, **self.leave_out(np.arange(len(block.users)), cut)))
            scratch, none = scratch_of(task, old, np.zeros(0)), np.zeros_like(rows)
            out = old.draws(scratch, rows, none, drawn[rows], int(drawn[rows].max()))
            cases, items = (np.concatenate(each) for each in zip(*self.beaten_by, strict=True))
            for c, own in zip(rows, out, strict=True):
                sample = own[1 : drawn[c] + 1]
                drawn[c] -= np.isin(sample, self.lists[self.group[c]][before[c] : depth[c]]).sum()
                hits[c] -= np.isin(sample, items[cases == c]).sum()
        self.block = replace(block, before={**block.before, "compared": drawn, "hits": hits})

    def leave_out(self, users: IntArray, size: IntArray) -> dict[str, Any]:
        """What is listed of some users when the first ``size`` of their guide's items are no longer candidates."""
        block, listed = self.block, []
        for g, n in zip(users, size, strict=True):
            own, first = block.listed[block.lo[g] : block.hi[g]], self.lists[g][:n]
            listed.append((np.setdiff1d if block.explicit else np.union1d)(own, first).astype(np.int32))
        hi = np.cumsum([len(each) for each in listed])
        return {"lo": np.append(0, hi[:-1]), "hi": hi, "listed": np.concatenate(listed)}

    def sample_rest(self, more: IntArray) -> tuple[IntArray, list[IntArray], int]:
        """Sample the rest of open cases, ``more``; return them by user, what was seen of them, and the scores it took."""
        block = self.block
        users = np.unique(self.group[more])
        cases = np.flatnonzero(np.isin(self.group, users))
        on = np.isin(cases, more)
        before = {name: block.so_far(name)[cases] for name in ("compared", "hits")}
        before["compared"][~on] = _NO_MORE
        depth = np.zeros(len(block.users), dtype=np.int64)
        depth[self.group[more]] = self.depth[more]  # the same for all of a user's
        part = replace(
            block, users=block.users[users], ptr=np.append(0, np.cumsum(np.diff(block.ptr)[users])),
            targets=block.targets[cases], before={**before, "order": self.state.order[cases]},
            **self.leave_out(users, depth[users]),
        )  # fmt: skip
        sample = replace(self.task, guide=None)._observe(part)
        return cases[on], [each[on] for each in sample.outcome], sample.scored
