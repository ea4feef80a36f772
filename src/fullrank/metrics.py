"""Ranking metrics as values: ``NDCG @ 10`` prints, hashes, and parses back.

A metric is a function of the rank of a held-out item, averaged over users and cut at ``K`` by 1[R ≤ K]
(kr20 eq. 2-13). With one target per user it is M(R). With several (T > 1) a case is one (user, target): it carries
``order`` j, its place among the user's T targets, and the rank R′ among the *non-relevant* candidates plus itself; its
rank in the full list is R = R′ + j − 1, and the contributions of a user's cases add up to the user's metric.

>>> NDCG @ 10
ndcg@10
>>> parse_metric("HR@20") == Recall @ 20
True
>>> (AP @ 10).gain([1, 2, 11])
array([1. , 0.5, 0. ])
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from fullrank._checks import did_you_mean
from fullrank._types import FloatArray

#: Every word a user may write, and the metric it means when each user has one target.
ALIASES = {
    **dict.fromkeys(("recall", "hr", "hit", "hit_rate", "hitrate", "hit_ratio", "success"), "recall"),
    **dict.fromkeys(("precision", "prec", "p"), "precision"),
    **dict.fromkeys(("ap", "map", "mrr", "rr"), "ap"),
    "ndcg": "ndcg",
    "auc": "auc",
}
#: Words that mean "the user's first hit" once a user has several targets (SPEC: the aliases hold for T = 1 only).
_FIRST_HIT = {"hr", "hit", "hit_rate", "hitrate", "hit_ratio", "success", "mrr", "rr"}


@dataclass(frozen=True, repr=False)
class Metric:
    """A ranking metric: a name, a function of the rank, and a cut-off ``k`` (``None``: uncut).

    ``Metric("mine", lambda R: 1 / R**2) @ 20`` makes one of your own from any function of an array of one-based ranks;
    with several targets per user it is averaged over the user's targets. The function is asked about ranks up to the
    cut-off, as floating-point numbers, so that no power of them overflows, and returns a finite number for each; one that
    fails on these, such as the index of a table, ``lambda R: table[R]``, is given integers.

    Two metrics are equal when they are the same number for users with one target each: ``hr@10 == recall@10``. With
    several targets per user the words part: ``hr`` and ``mrr`` then look at the user's first hit only.
    """

    name: str
    function: Callable[[FloatArray], Any] | None = None
    k: int | None = None
    #: The word the metric was written with; decides nothing unless users have several targets.
    word: str = field(default="", compare=False)
    #: Set by :meth:`kept_apart` where users have several targets: equal words are then equal numbers.
    _apart: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.function is None and self.name not in set(ALIASES.values()):
            raise ValueError(
                f"`Metric({self.name!r})` needs a function of the rank, as in Metric({self.name!r}, lambda R: 1 / R); "
                f"for a built-in metric use fr.parse_metric({self.name!r})."
            )
        if self.function is not None and not callable(self.function):
            raise TypeError(f"`function` must be a function of the rank, as in lambda R: 1 / R, got {self.function!r}.")
        if self.k is not None:
            if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or not 1 <= self.k < 2**63:
                raise ValueError(f"`k` must be a positive whole number, got {self.k!r}: write {self.name}@10.")
            object.__setattr__(self, "k", int(self.k))

    @overload
    def __matmul__(self, k: int) -> "Metric": ...
    @overload
    def __matmul__(self, k: Iterable[int]) -> tuple["Metric", ...]: ...
    def __matmul__(self, k: int | Iterable[int]) -> "Metric | tuple[Metric, ...]":
        """``NDCG @ 10`` is one metric, ``NDCG @ [5, 10]`` a tuple of them."""
        if isinstance(k, Iterable) and not isinstance(k, str):
            return tuple(self @ each for each in k)
        return replace(self, k=k)

    def __str__(self) -> str:
        word = self.word or self.name
        return word if self.k is None else f"{word}@{self.k}"

    __repr__ = __str__

    def gain(
        self,
        ranks: ArrayLike,
        n_items: ArrayLike | None = None,
        order: ArrayLike = 1,
        targets: ArrayLike = 1,
        ahead: ArrayLike = 0,
    ) -> FloatArray:
        """Return what a case at rank ``ranks`` adds to its user's metric.

        ``ranks`` is R′, the rank among non-relevant candidates plus the target itself (the rank, when T = 1); where
        ``ahead`` others, compared one by one, beat the target as well, the rank among the rest.
        ``n_items`` the number N′ of all those candidates, needed by AUC and uncut Precision only. Per user (SPEC §2):
        Recall Σ1[R≤K]/T · Precision Σ1[R≤K]/K · NDCG Σ1[R≤K]/log2(R+1) / IDCG(min(T,K)) · AP Σ1[R≤K](j/R)/min(T,K) ·
        AUC mean (N′−R′)/(N′−1) · Hit and MRR from the first target (j = 1) only.

        >>> (NDCG @ 10).gain([1, 3])
        array([1. , 0.5])
        """
        inner, j, T, beaten = (np.asarray(each, dtype=np.float64) for each in (ranks, order, targets, ahead))
        if not inner.min(initial=1.0) > 0:
            raise ValueError(f"`ranks` must be one-based, 1 for the first place, got {inner[~(inner > 0)][0]:g}.")
        R = inner + rank_offset(j, beaten)
        top = np.ones(np.broadcast_shapes(R.shape, T.shape)) if self.k is None else (self.k >= R) * np.ones(T.shape)
        kept = T if self.k is None else np.minimum(T, self.k)
        if self.function is not None:
            gain = top * _own_gain(self, self.function, R) / T
        elif self.name == "auc":
            N = _needed(n_items, "AUC")
            gain = top * np.where(N > 1, (N - (inner + beaten)) / np.maximum(N - 1, 1), 1.0) / T
        elif self.name == "precision":
            gain = top / (_needed(n_items, "Precision without @k") + T - 1 if self.k is None else float(self.k))
        elif self.name == "recall":
            gain = top * (j == 1) if self.first_hit else top / T
        elif self.name == "ap":
            gain = top * (j == 1) / R if self.first_hit else top * (j / R) / kept
        else:
            gain = top / np.log2(R + 1) / _ideal_dcg(kept)
        return np.asarray(gain, dtype=np.float64)

    @property
    def first_hit(self) -> bool:
        """Whether only the best of a user's targets counts, as in ``hr`` and ``mrr``; with one target all words agree."""
        return self.word in _FIRST_HIT

    def kept_apart(self, several_targets: bool) -> "Metric":
        """Return the metric as a key among others, equal to those that are the same number for such users as well.

        >>> (Hit @ 10).kept_apart(several_targets=True) == Recall @ 10
        False
        """
        return replace(self, _apart=several_targets and self.first_hit)

    @property
    def uncut(self) -> bool:
        """Whether the metric looks at the whole ranking (no ``@k``)."""
        return self.k is None

    @property
    def whole_auc(self) -> bool:
        """Whether this is AUC itself, uncut: the one metric that counts answer without an estimate of P(R)."""
        return self.name == "auc" and self.function is None and self.uncut


def rank_offset(order: Any, ahead: Any = 0) -> Any:
    """Return what is added to a rank among the rest, B + 1, to give the rank in the full list, R = j + ahead + B."""
    return ahead + (order - 1)


def _needed(n_items: ArrayLike | None, who: str) -> FloatArray:
    if n_items is None:
        raise ValueError(f"{who} depends on the number of candidates: pass `n_items`.")
    return np.asarray(n_items, dtype=np.float64)


def _own_gain(metric: Metric, function: Callable[[Any], Any], R: FloatArray) -> FloatArray:
    """Return what the function of a metric of one's own says of ranks up to the cut-off, the only ones it need know."""
    value = _answer(metric, function, R if metric.k is None else np.minimum(R, metric.k))
    if value.shape not in ((), R.shape):
        raise ValueError(
            f"the function of metric `{metric.name}` returned shape {value.shape} for ranks of shape {R.shape}: "
            "it must return one number per rank."
        )
    value = np.broadcast_to(value, R.shape)
    asked = np.full(R.shape, True) if metric.k is None else metric.k >= R
    if (wrong := asked & ~np.isfinite(value)).any():
        raise ValueError(
            f"the function of metric `{metric.name}` returned {value[wrong][0]} for rank {R[wrong][0]:.0f}: it must return "
            "a finite number for every rank up to the cut-off."
        )
    return np.where(asked, value, 0.0)


def _answer(metric: Metric, function: Callable[[Any], Any], ranks: FloatArray) -> FloatArray:
    """Return what a function says of ranks: of numbers with a fraction or, if it fails on these, of integers."""
    try:
        return np.asarray(function(ranks), dtype=np.float64)
    except Exception as error:
        failure = error
    whole = ranks.astype(np.int64)
    if np.array_equal(whole, ranks):
        try:
            return np.asarray(function(whole), dtype=np.float64)
        except Exception as error:
            failure = error
    raise ValueError(
        f"the function of metric `{metric.name}` failed ({type(failure).__name__}: {str(failure).rstrip('.')}): it must "
        "take an array of one-based ranks and return a number for each, as in lambda R: np.where(R < 5, 1.0, 0.0)."
    ) from failure


def _ideal_dcg(depth: FloatArray) -> FloatArray:
    """Return Σ_{i ≤ depth} 1/log2(i+1), the best DCG that ``depth`` relevant items can reach."""
    flat = np.atleast_1d(depth).astype(np.int64)
    table = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, max(int(flat.max(initial=1)), 1) + 2)))])
    return np.asarray(table[flat].reshape(np.shape(depth)))


Recall = Metric("recall")
Precision = Metric("precision")
NDCG = Metric("ndcg")
AP = Metric("ap")
AUC = Metric("auc")
Hit = Metric("recall", word="hit")
MRR = Metric("ap", word="mrr")

_PATTERN = re.compile(r"\s*([a-z_ -]+?)\s*(?:@\s*([0-9,\s]+))?\s*", re.IGNORECASE)


def parse_metrics(text: str | Metric | Iterable[str | Metric]) -> tuple[Metric, ...]:
    """Read metrics from words, values or a list of either, each once; ``"ndcg@5,10"`` and ``"ndcg@5,auc"`` are two.

    >>> parse_metrics(["ndcg@5,10", "auc", AP @ 3])
    (ndcg@5, ndcg@10, auc, ap@3)
    >>> parse_metrics("ndcg@5,10, recall@20")
    (ndcg@5, ndcg@10, recall@20)
    """
    if isinstance(text, Metric):
        return (text,)
    if not isinstance(text, str):
        if not isinstance(text, Iterable):
            raise TypeError(f"`metrics` must be words like 'ndcg@10' or fr.NDCG @ 10, got {text!r}.")
        found: dict[str, Metric] = {}
        for metric in (metric for each in text for metric in parse_metrics(each)):
            if found.setdefault(str(metric), metric) != metric:
                raise ValueError(f"`metrics` has two different metrics called {metric}: give one of them another name.")
        if not found:
            raise ValueError("`metrics` is empty: name at least one, for example 'ndcg@10'.")
        return tuple(found.values())
    words = re.split(r",(?=\s*[^\W\d])", text)  # a comma before a number only adds a cut-off
    if len(words) > 1:
        return parse_metrics(words)
    match = _PATTERN.fullmatch(text)
    cuts = [] if match is None or match[2] is None else [cut.strip() for cut in match[2].split(",")]
    if match is None or not all(cut.isdigit() and len(cut) < 20 for cut in cuts):
        raise ValueError(f"cannot read metric {text!r}: write a name and a cut-off, for example 'ndcg@10'.")
    word = match[1].strip().lower().replace("-", "_").replace(" ", "_")
    if word not in ALIASES:
        cut = "".join(f"@{each}" for each in cuts[:1])
        names = f"; the names are {', '.join(sorted(ALIASES))}."
        raise ValueError(f"unknown metric {text!r}{did_you_mean(word, ALIASES, names, '{}' + cut)}")
    metric = Metric(ALIASES[word], word="" if word == ALIASES[word] else word)
    return tuple(metric @ int(cut) for cut in cuts) or (metric,)


def metrics_to_report(text: str | Metric | Iterable[str | Metric]) -> tuple[Metric, ...]:
    """Read metrics to report, and refuse those that are the same for every model: recall and precision without a cut-off."""
    found = parse_metrics(text)
    for metric in found:
        if metric.uncut and metric.function is None and metric.name in ("recall", "precision"):
            raise ValueError(
                f"`{metric}` needs a cut-off, as in {metric}@10: over the whole ranking it is the same for every model."
            )
    return found


def parse_metric(text: str | Metric) -> Metric:
    """Read a metric from a word; case does not matter.

    Aliases: hr = hit = hit_rate = success = recall and mrr = rr = map = ap (one target per user).

    >>> parse_metric("nDCG@10")
    ndcg@10
    >>> parse_metric("ngcd@10")
    Traceback (most recent call last):
    ...
    ValueError: unknown metric 'ngcd@10'; did you mean 'ndcg@10'?
    """
    found = parse_metrics(text)
    if len(found) != 1:
        raise ValueError(f"{text!r} names {len(found)} metrics: use fr.parse_metrics for a list of cut-offs.")
    return found[0]
