"""RecBole in one line: a trained `Trainer` and its test data become a report, whatever its `eval_args` say.

What RecBole 1.2 does, and what is made of it:

* ``uniN``: N negatives per positive, uniform with replacement, put together for the positives of a user. They never hold
  what the sampler calls used (the user's items in train, validation and test). Repeats collapse, so what counts is the
  number of distinct negatives; they are shared by the user's targets, whose ranks are among them and not among each other.
* Sequential models have a history per positive: each positive is a case of its own, ranked among its own N negatives, all
  items but the target being candidates (``repeatable``). That is also what RecBole's full ranking of them means.
* ``full``: every candidate is compared, and the report is exact.
* ``popN`` draws by popularity, which has no law in the rank alone; ``labeled`` ranks nothing. Both are refused.
"""

import contextlib
import functools
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fullrank._types import FloatArray, IntArray
from fullrank.estimators import Estimator
from fullrank.evaluation.correct import DEFAULT_METRICS, report_on
from fullrank.metrics import Metric
from fullrank.models.adapters.torch import evaluating
from fullrank.models.scorer import to_numpy
from fullrank.observing.inputs import seed_of
from fullrank.ranks.counts import RankCounts
from fullrank.ranks.design import Design, Exhaustive, Sample
from fullrank.reading.candidate_ranking import Cases, How, Listed, rank_lists
from fullrank.report import Report

#: RecBole's metrics that are a function of ranks; they mean the same here.
_METRICS = ("recall", "mrr", "ndcg", "hit", "precision", "map")
#: Scores that are ranked at once.
_SCORES = 1 << 22


def from_recbole(
    trainer: Any,
    test_data: Any,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    *,
    estimator: Estimator | str | None = None,
    level: float = 0.95,
    target: str = "cases",
    ties: str = "random",
    rng: int | np.random.Generator | None = 0,
) -> Report:
    """Evaluate RecBole's trained model on its test data: sampled evaluation is corrected, full ranking is exact.

    ``trainer`` is RecBole's, or a mapping from names to trainers, all for the same ``test_data``; what ``data_preparation``
    returned for validation will do as well. ``metrics``: by default what the trainer's config says (``metrics``, ``topk``).
    The model is evaluated with the weights it has: load a checkpoint before, if you want another than the last epoch's.

    RecBole draws negatives from NumPy's global generator. It is seeded by ``rng`` for each model, so that all are ranked
    among the same negatives, and put back afterwards. ``ties`` as in ``observe``; the rest as in ``correct``.
    """
    name = type(getattr(trainer, "model", trainer)).__name__
    trainers = dict(trainer) if isinstance(trainer, Mapping) else {name: trainer}
    if not trainers:
        raise ValueError("`trainer` is empty: give a RecBole trainer, or trainers by name.")
    for each in trainers.values():
        _refuse_other(each, test_data)
    notes: tuple[str, ...] = ()
    if metrics is None:
        config = next(iter(trainers.values())).config
        asked = [str(each) for each in config["metrics"]]
        wanted = [f"{each.lower()}@{k}" for each in asked if each.lower() in _METRICS for k in config["topk"]]
        metrics = wanted or DEFAULT_METRICS
        left = [each for each in asked if each.lower() not in _METRICS]
        if left:  # no functions of the rank
            verb = "is" if len(left) == 1 else "are"
            notes = (f"RecBole's {', '.join(left)} cannot be corrected and {verb} left out.",)
    seed = seed_of(rng)
    counts = {str(name): _counts(each, test_data, ties, seed) for name, each in trainers.items()}
    about = {"recbole": _Data(next(iter(trainers.values())), test_data).settings}
    report = report_on(counts, metrics, estimator=estimator, level=level, target=target, provenance=about)
    return replace(report, notes=(*report.notes, *notes))


class _Data:
    """What RecBole's data loader is about to do."""

    def __init__(self, trainer: Any, test_data: Any) -> None:
        data, config = test_data._dataset, trainer.config
        args, sampler = getattr(test_data, "neg_sample_args", None), getattr(test_data, "_sampler", None)
        self.design: Design = Exhaustive() if args is None else Sample(int(args["sample_num"]))
        self.items = int(data.item_num) - 1  # without the padding, item 0
        self.user_field, self.item_field = data.uid_field, data.iid_field
        self.sequential = str(config["MODEL_TYPE"]).endswith("SEQUENTIAL")
        self.settings = {"dataset": str(config["dataset"]), "eval_args": str(config["eval_args"])}
        repeatable = type(sampler).__name__ == "RepeatableSampler" or (self.sequential and args is None)
        #: The items of each user that are never drawn; None: only the target itself.
        self.used = None if repeatable else getattr(sampler, "used_ids", None)


class _Batch(NamedTuple):
    """Rows (list, item, score) and cases (list, user, target, number of candidates) of a batch."""

    lists: IntArray
    items: IntArray
    scores: FloatArray
    of: IntArray
    users: IntArray
    targets: IntArray
    pools: IntArray


def _counts(trainer: Any, test_data: Any, ties: str, seed: int) -> RankCounts:
    """Go through the test data as `Trainer.evaluate` does, and rank what it scores."""
    data = _Data(trainer, test_data)
    parts: list[RankCounts] = []
    waiting: list[_Batch] = []
    with evaluating(trainer.model), _seeded(seed):
        trainer.tot_item_num = data.items + 1
        if data.design.exhaustive and trainer.item_tensor is None:
            trainer.item_tensor = test_data._dataset.get_item_feature().to(trainer.device)
        for batch in test_data:
            waiting.append((_compared if data.design.exhaustive else _drawn)(trainer, data, batch))
            if sum(len(each.items) for each in waiting) >= _SCORES:
                parts.append(_ranked(waiting, data, ties, seed))
                waiting = []
    if waiting:
        parts.append(_ranked(waiting, data, ties, seed))
    if not parts:
        raise ValueError("`test_data` has no batches, so there is nothing to rank.")
    return functools.reduce(operator.add, parts)


def _ranked(parts: list[_Batch], data: _Data, ties: str, seed: int) -> RankCounts:
    """Rank several batches as one; their lists are told apart."""
    first = np.cumsum([0, *(int(part.of.max(initial=-1)) + 1 for part in parts)])
    apart = [part._replace(lists=part.lists + by, of=part.of + by) for part, by in zip(parts, first, strict=False)]
    batch = _Batch(*map(np.concatenate, zip(*apart, strict=True)))
    # a list is one user's, or, of a sequential model, one positive's: its number is the user, and knows the user's name
    owners = np.zeros(int(batch.of.max()) + 1, dtype=np.int64)
    owners[batch.of] = batch.users
    cases = Cases(batch.of, batch.of, batch.targets, owners)
    rows = Listed(batch.lists, batch.items, batch.scores, f"RecBole's model of {data.settings['dataset']}")
    candidates = "all" if data.used is None else "unseen"
    return rank_lists(rows, cases, How(batch.pools, data.design, candidates, ties, seed, "error"))


def _compared(trainer: Any, data: _Data, batch: Any) -> _Batch:
    """A batch of full ranking: all items but the padding and those that RecBole takes out."""
    interaction, history, positive_u, positive_i = batch
    users = to_numpy(interaction[data.user_field])
    scores = to_numpy(trainer._full_sort_batch_eval(batch)[1])
    there = np.ones(scores.shape, dtype=bool)
    there[:, 0] = False
    if history is not None:
        there[tuple(to_numpy(each) for each in history)] = False
    lists, items = there.nonzero()
    of, targets = to_numpy(positive_u), to_numpy(positive_i)
    others = np.bincount(of, minlength=len(users))[of] - 1
    return _Batch(lists, items, scores[there].astype(np.float64), of, users[of], targets, there.sum(1)[of] - others)


def _drawn(trainer: Any, data: _Data, batch: Any) -> _Batch:
    """A batch of sampled evaluation: of each user the positives, then, N times over, a negative for each of them."""
    interaction, row, of, targets = batch
    size = len(interaction)
    if size <= trainer.test_batch_size:
        scores = to_numpy(trainer.model.predict(interaction.to(trainer.device)))
    else:
        scores = to_numpy(trainer._spilt_predict(interaction, size))
    row, of, targets = to_numpy(row), to_numpy(of), to_numpy(targets)
    items, names = to_numpy(interaction[data.item_field]), to_numpy(interaction[data.user_field])
    positives, begin = np.bincount(of), np.searchsorted(row, np.arange(int(of[-1]) + 1))
    place = np.arange(size) - begin[row]
    owner = (np.cumsum(positives) - positives)[row] + place % positives[row]  # the positive that a row belongs to
    own = place < positives[row]
    if (np.bincount(row) % positives).any() or not np.array_equal(items[own], targets):
        raise ValueError(
            f"`test_data` has a batch of {size:,} rows in which users do not begin with their positives, as in RecBole 1.2: "
            "use that version, or `mode: full`."
        )
    users = names[begin[of]]
    if data.sequential:
        lists, of, kept = owner, np.arange(len(targets)), np.ones(size, dtype=bool)
    else:  # a positive that the test data hold twice is one case, and brings its negatives once
        once = np.sort(np.unique(of * (data.items + 1) + targets, return_index=True)[1])
        lists, kept = row, np.isin(owner, once)
        of, users, targets = of[once], users[once], targets[once]
    # an item that was drawn again counts once; RecBole keeps any of its scores, which differ by rounding at most
    first = np.zeros(size, dtype=bool)
    first[np.flatnonzero(kept)[np.unique((lists * (data.items + 1) + items)[kept], return_index=True)[1]]] = True
    others = np.bincount(of)[of] - 1
    gone = others if data.used is None else np.array([len(each) for each in data.used[users]]) - 1
    return _Batch(lists[first], items[first], scores[first].astype(np.float64), of, users, targets, data.items - gone)


def _refuse_other(trainer: Any, test_data: Any) -> None:
    """Refuse what is not RecBole's, and evaluation that has no ranks to correct."""
    needed = ("config", "model", "_full_sort_batch_eval", "_spilt_predict")
    for what, given, names, expected in (
        ("trainer", trainer, needed, "a trained RecBole `Trainer`"),
        ("test_data", test_data, ("_dataset", "_sampler"), "RecBole's data loader of the test data"),
    ):
        if not all(hasattr(given, name) for name in names):
            raise TypeError(f"`{what}` is a {type(given).__name__}; {expected} was expected.")
    args = getattr(test_data, "neg_sample_args", None)
    kind = "none" if args is None else str(args["distribution"])
    if not str(trainer.config["eval_type"]).endswith("RANKING") or (args is not None and kind == "none"):
        raise ValueError("`test_data` is evaluated by labels (`mode: labeled`), not ranks: use `uni100` or `full`.")
    if args is not None and kind != "uniform":
        raise ValueError(
            f"`test_data` draws its negatives by {kind} (`mode: pop{args['sample_num']}`), which has no law in the rank "
            "alone and cannot be corrected: use `uni100` or `full`."
        )
    if not trainer.config["single_spec"]:
        raise ValueError("`trainer` is one of several processes, and sees a part of the test data: evaluate in one.")


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator, which RecBole draws from, and put it back as it was."""
    state = np.random.get_state()  # noqa: NPY002  # RecBole's, not ours
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
