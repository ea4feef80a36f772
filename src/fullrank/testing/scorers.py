"""Check the contract of a scorer: what `observe` relies on when it asks a model for scores."""

from typing import Any

import numpy as np

from fullrank.data.split import Split
from fullrank.models.scorer import Pairs, as_scorer
from fullrank.observing.observation import Observation
from fullrank.ranks.design import Exhaustive, Sample
from fullrank.testing._say import check


def check_scorer(model: Any, split: Split, *, rtol: float = 1e-4) -> None:
    """Check anything :func:`fullrank.as_scorer` takes; raises ``AssertionError`` on the first breach.

    - ``score(users, items)`` gives one finite-or-infinite number per item, never NaN, in the shape of ``items``;
    - it knows every user and item of the split;
    - a score depends on its user and item only: not on the others in the batch, nor on their order, nor on the call
      (up to ``rtol``: large models may round differently in batches of another shape);
    - what it is handed is left unchanged;
    - the fast path, if it has one, ranks as the scores say, up to scores closer than ``rtol``.

    >>> import numpy as np, scipy.sparse as sp
    >>> from fullrank.data import Split
    >>> split = Split(sp.csr_matrix((3, 8)), users=[0, 1, 2], items=[5, 0, 7])
    >>> check_scorer((np.eye(3), np.arange(24.0).reshape(8, 3)), split)
    >>> check_scorer(lambda users, items: items - items.mean(), split)
    Traceback (most recent call last):
    ...
    AssertionError: model `<lambda>` scores an item differently in another batch (user 0, item 0: -3.5, then 0.0): ...
    """
    scorer = as_scorer(model, split)
    name = scorer.name
    for what in ("users", "items"):
        known, needed = getattr(scorer, f"n_{what}", None), getattr(split, f"n_{what}")
        check(known is None or known >= needed, f"model `{name}` knows {known} {what}, but the split has {needed}.")
    rng = np.random.default_rng(0)
    users = np.sort(rng.choice(split.test_users, size=min(8, len(split.test_users)), replace=False))
    some = np.sort(rng.choice(split.n_items, size=min(64, split.n_items), replace=False)).astype(np.int64)
    items = np.tile(some, (len(users), 1))
    given = users.copy(), items.copy()
    scores = _scores(scorer, *given)
    unchanged = np.array_equal(users, given[0]) and np.array_equal(items, given[1])
    check(unchanged, f"model `{name}` changes the arrays it is handed.")
    scale = float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0))

    def agree(scored: Any, place: Any, how: str) -> None:
        first = scores[place]
        far = ~np.isclose(scored, first, rtol=rtol, atol=rtol * 1e-2 * scale)
        if far.any():
            at = tuple(int(x) for x in np.argwhere(far)[0])
            user, item = np.broadcast_to(users[:, None], scores.shape)[place][at], items[place][at]
            raise AssertionError(
                f"model `{name}` scores an item differently in another {how} (user {user}, item {item}: {first[at]}, then "
                f"{scored[at]}): a score may depend on its user and item only."
            )

    agree(_scores(scorer, users, items), np.s_[:, :], "call")
    for row in range(min(3, len(users))):
        agree(_scores(scorer, users[row : row + 1], items[row : row + 1, :1]), np.s_[row : row + 1, :1], "batch")
    agree(_scores(scorer, users[::-1].copy(), items[::-1, ::-1].copy()), np.s_[::-1, ::-1], "order")
    if not isinstance(scorer, Pairs):
        _check_fast_path(scorer, split, rtol)


def _scores(scorer: Any, users: Any, items: Any) -> Any:
    scores = np.asarray(scorer.score(users, items))  # in the shape of the items, whatever kind of scorer it is
    check(scores.dtype.kind in "fiub", f"model `{scorer.name}` returned {scores.dtype}, not numbers.")
    for user in users[np.isnan(scores).any(1)][:1]:
        raise AssertionError(f"model `{scorer.name}` gave a score that is not a number (NaN) for user {user}.")
    return scores


def _check_fast_path(scorer: Any, split: Split, rtol: float) -> None:
    """Check that ranks by the fast path lie between those of the scores, a little lowered and a little raised."""
    cases = np.linspace(0, split.cases - 1, min(16, split.cases)).astype(np.int64)
    kept = np.isin(split.users, split.users[cases])  # all targets of a user, or none
    small = Split(split.train, split.users[kept], split.items[kept])
    catalogue = np.arange(split.n_items, dtype=np.int64)
    for design in (Exhaustive(), Sample(split.n_items, replace=False)):
        above = Observation(scorer, small, progress=False).advance(design).above
        for case, (user, item) in enumerate(zip(small.users, small.items, strict=True)):
            scores = _scores(scorer, np.array([user]), catalogue[None, :])[0].astype(np.float64)
            negative = ~np.isin(catalogue, [*split.seen(int(user)), *small.items[small.users == user]])
            own, others = scores[item], scores[negative]
            finite = scores[(negative | (catalogue == item)) & np.isfinite(scores)]
            slack = rtol * float(np.abs(finite).max(initial=0.0))
            low, high = (others > own + slack).sum(), (others >= own - slack).sum()
            fast = f"by its fast path with {above[case]} items above item {item} of user {user}"
            what = f"model `{scorer.name}` is ranked {fast}, by its scores with {low} to {high}."
            check(low <= above[case] <= high, what)
