"""The prior of LogSpline: what rank distributions of recommenders look like, learned from the true ranks of many.

A prior is a mixture over *kinds* of rank distributions (of popularity, of factor models, …) and *scales*: each kind is a
Gaussian on the spline coefficients, N(mean + slope · z, scale · covariance) with z = log N − 9, and scales above one give it
heavy tails, so that a catalogue unlike those seen is not forced into their shape. What a sample shows decides between them,
by the power ``trust`` of the evidence. There may be several *views* of the same files, such as recommenders by their kinds
and rank distributions by their shapes: their errors are only partly the same, so views weigh alike, whatever the evidence.

With several targets per user, the rank distribution of the j-th best of T targets depends on (j, T): every *bin* of (j, T)
has its own mean, and the coefficients of bins b and c covary as coupling[b, c] · covariance, so that bins share what they
learn and an error they share stays in the interval.

Models of one catalogue have much in common: what each of them is, beyond that, differs less than any two models do. Where
several are compared, their coefficients covary by what they share (:meth:`HyperPrior.for_models`).

Behind a compared part the law is that of how many of the rest are better, and its bins say how many of those compared
were, and how late. Means then move with what the compared part shows (:func:`compared_trend`).

``hyperprior.json`` is made by ``benchmarks/fit_hyperprior.py``, ``hyperprior_compared.json`` by
``benchmarks/fit_compared.py``; they hold means and covariances, no data.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any

import numpy as np

from fullrank._types import FloatArray, IntArray
from fullrank.ranks.counts import RankCounts

FORMAT = "fullrank.HyperPrior/6"
#: The first j or T of each octave; the last octave has no end.
OCTAVES = np.array([1, 2, 3, 5, 9, 17, 33])
#: Bins of (j, T): an octave of T and one of j, not beyond T's.
BINS = tuple((j, T) for T in range(len(OCTAVES)) for j in range(T + 1))
#: Gaussians for shapes of any kind: weights of a penalty on curvature (smooth, rough) and on size.
ANYTHING = ((0.3, 0.003), (0.02, 0.003))
#: Prior probability of each of them.
ANYTHING_WEIGHT = 0.0005
#: Of the hits in a compared part whose places are not known, so many are taken to have come late.
LATE_SHARE = 0.4
#: How far, in logs, laws given (j, T) or what is ahead follow the prior for unseen items, which has seen them all together.
#: Chosen on ten folds of ``benchmarks/accuracy.py`` without the last, and on families outside ``benchmarks/guided.py``.
FOLLOWED = {"several": 0.45, "compared": 0.65}


def bins_of(order: IntArray, targets: IntArray) -> IntArray:
    """Return the bin of each (j, T), a place in :data:`BINS`.

    >>> BINS[bins_of(np.array([3]), np.array([10]))[0]]  # the third octave of j, the fifth of T
    (2, 4)
    """
    j, T = (np.searchsorted(OCTAVES, each, side="right") - 1 for each in (order, targets))
    return np.asarray(T * (T + 1) // 2 + j)


#: How people name the recommenders of rank files.
_MODELS = {
    "als": "ALS", "attention": "self-attention", "bm25": "BM25", "bpr": "BPR", "ease": "EASE", "gru": "GRU",
    "knn": "item kNN", "markov": "Markov chains", "pop": "popularity",
}  # fmt: skip


def models_in_words(names: Iterable[str]) -> str:
    """Write a list of recommenders as people name them; X, Y and Z are the three that kr20 published the ranks of.

    >>> models_in_words(["X", "Y", "Z", "als", "knn"])
    'ALS, item kNN, and X, Y and Z of kr20'
    """
    known = set(names)
    published = {"X", "Y", "Z"} <= known
    kept = [_MODELS.get(name, name) for name in sorted(known - {"X", "Y", "Z"} if published else known)]
    return ", ".join([*kept, *["and X, Y and Z of kr20"] * published])


@dataclass(frozen=True, eq=False)
class Kind:
    """A population of rank distributions: a Gaussian on the spline coefficients of every bin of (j, T)."""

    name: str
    weight: float
    means: FloatArray  # bins × coefficients
    slope: FloatArray  # how means move with log N − 9; behind a compared part, with each entry of compared_trend
    covariance: FloatArray
    coupling: FloatArray  # bins × bins: factors of the covariance within and between bins
    view: int = 0
    shared: FloatArray | None = None  # covariance of what all bins have in common, beside their own

    @cached_property
    def precision(self) -> tuple[FloatArray, float]:
        """The inverse covariance and its log-determinant."""
        inverse = np.linalg.inv(self.covariance)
        return (inverse + inverse.T) / 2, -float(np.linalg.slogdet(self.covariance)[1])

    def joint_precision(self, bins: IntArray) -> tuple[FloatArray, float]:
        """The inverse covariance of the coefficients of these bins, all in a row, and its log-determinant."""
        coupling = self.coupling[np.ix_(bins, bins)]
        if self.shared is not None:
            joint = np.kron(coupling, self.covariance) + np.kron(np.ones_like(coupling), self.shared)
            inverse = np.linalg.inv(joint)
            return (inverse + inverse.T) / 2, -float(np.linalg.slogdet(joint)[1])
        between = np.linalg.inv(coupling)
        precision, log_det = self.precision
        log_det = len(bins) * log_det + len(precision) * float(np.linalg.slogdet(between)[1])
        return np.asarray(np.kron((between + between.T) / 2, precision)), log_det


@dataclass(frozen=True, eq=False)
class HyperPrior:
    """A mixture of kinds and scales on spline coefficients; see the module's docstring."""

    name: str
    kinds: tuple[Kind, ...]
    scales: tuple[tuple[float, float], ...]  # (factor of the covariance, weight)
    #: The smallest and the largest catalogue behind the prior.
    sizes: tuple[float, float]
    #: Calibration: what π says of a metric is taken to lie so many times as far from its middle, in logs, below and above.
    spread: tuple[float, float] = (1.0, 1.0)
    #: Beyond this distance in logs, only the root of the distance counts: heavy tails serve to find the right member, and
    #: real rank distributions do not fill them.
    far: float | None = None
    #: What it was learned from: families, catalogues, files, models, date.
    card: Mapping[str, Any] = field(default_factory=dict)
    #: Power of the evidence by which members are weighed: below one, since a real rank distribution is a draw from none of
    #: them, and thousands of cases would otherwise be sure of one that is merely the least unlike.
    trust: float = 1.0
    #: The prior of all strata together that laws by strata follow, and how far in logs.
    follows: "tuple[HyperPrior, float] | None" = None
    #: What models of one catalogue share, and how each differs from the others.
    common: Kind | None = None

    @classmethod
    def from_json(cls, text: str, name: str = "unseen") -> "HyperPrior":
        """Read one of the priors of a file that :func:`priors_to_json` wrote."""
        document = json.loads(text)
        if document.get("format") != FORMAT:
            raise ValueError(
                f"this is not a hyper-prior of fullrank: its format is {document.get('format')!r}, not {FORMAT!r}."
            )
        found = document["priors"][name]
        kinds = tuple(map(_read_kind, found["kinds"]))
        about = {key: found[key] for key in _PLAIN if key in found}
        about["spread"] = tuple(about["spread"])
        if "common" in found:
            about["common"] = _read_kind(found["common"])
        return cls(name, kinds, tuple(map(tuple, found["scales"])), tuple(found["sizes"]), **about)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, rounded to what matters."""
        out = {key: getattr(self, key) for key in (*_PLAIN, "sizes", "scales")}
        out["kinds"] = [_written_kind(kind) for kind in self.kinds]
        return out if self.common is None else out | {"common": _written_kind(self.common)}

    def describe(self) -> str:
        """What the prior was learned from, in one line.

        >>> shipped("several").describe().startswith("true ranks of")
        True
        """
        low, high = self.sizes
        if not self.card:
            return f"a prior of your own for {low:,.0f} to {high:,.0f} items"
        shapes = self.card.get("one_target_files", 0)
        more = f" and of {shapes} with one target per user" if shapes else ""
        return (
            f"true ranks of {self.card['files']} recommenders ({models_in_words(self.card['models'])}) on "
            f"{self.card['catalogues']} catalogues of {self.card['families']} families{more}, "
            f"of {low:,.0f} to {high:,.0f} items; made on {self.card['made']}"
        )

    @property
    def coefficients(self) -> int:
        """Number of spline coefficients."""
        return int(self.kinds[0].slope.shape[-1])

    def beyond(self, n_items: float) -> float:
        """How far a catalogue lies beyond the sizes seen, in log N; zero within them.

        >>> shipped("unseen").beyond(5000)
        0.0
        """
        low, high = np.log(self.sizes)
        return float(max(low - np.log(n_items), np.log(n_items) - high, 0.0))

    def calibrated(self, ratio: FloatArray) -> FloatArray:
        """Take values relative to their middle as far from it as left-out catalogues are (``spread`` and ``far``).

        >>> prior = HyperPrior("mine", (), (), (100, 10_000), spread=(1.0, 2.0), far=1.0)
        >>> np.log(prior.calibrated(np.exp([-4.0, -0.5, 0.25, 2.0]))).round(3).tolist()
        [-2.0, -0.5, 0.5, 2.0]
        """
        with np.errstate(divide="ignore"):
            distance = np.log(np.maximum(ratio, 0.0))
        below = distance < 0
        distance = np.abs(distance) * np.where(below, *self.spread)
        if self.far is not None:
            distance = np.where(distance > self.far, np.sqrt(distance * self.far), distance)
        return np.asarray(np.exp(np.where(below, -distance, distance)))

    def trend(self, n_items: float) -> float:
        """Return z = log N − 9, taken at the edge for sizes beyond those seen."""
        return float(np.log(np.clip(n_items, *self.sizes)) - 9)

    def members(
        self, bins: IntArray, n_items: float, trend: FloatArray | None = None
    ) -> list[tuple[float, FloatArray, FloatArray, float]]:
        """Log weight, mean (bins × coefficients), precision and its log-determinant of every member, for these bins.

        ``trend``: what means move with, if it is not z = log N − 9. Beyond the sizes seen all covariances grow, by as much
        as log N lies beyond: wider, not braver.
        """
        wider, z = 1 + self.beyond(n_items), self.trend(n_items)
        views = len({kind.view for kind in self.kinds})
        out = []
        for number, kind in enumerate(self.kinds):
            mean = kind.means[bins] + (z * kind.slope if trend is None else trend @ kind.slope)
            joint, log_det = kind.joint_precision(bins)
            # to and fro: the modes of neighbours in the list are near one another, and each is found from the one before
            for factor, weight in self.scales[:: (1, -1)[number % 2]]:
                scale = factor * wider
                constant = log_det - mean.size * float(np.log(scale))
                out.append((float(np.log(kind.weight * weight / views)), mean, np.asarray(joint / scale), constant))
        return out

    def mean_coefficients(self, n_items: float) -> tuple[FloatArray, FloatArray]:
        """Return weight and mean coefficients of every kind for one target per user."""
        weights = np.array([kind.weight for kind in self.kinds])
        means = np.stack([kind.means[0] + self.trend(n_items) * kind.slope for kind in self.kinds])
        return weights / weights.sum(), means

    def following(self, together: "HyperPrior") -> "HyperPrior":
        """Return this prior of laws by strata as one that follows another of all strata together."""
        return replace(self, follows=(together, FOLLOWED[self.name]))

    def for_models(self, number: int) -> "HyperPrior":
        """Return a prior of so many models of one catalogue, a bin for each of them, from what is known to be common."""
        if self.common is None:
            raise ValueError("this prior does not say what models of one catalogue have in common.")
        means = np.repeat(self.common.means, number, axis=0)
        return replace(self, kinds=(replace(self.common, means=means, coupling=np.eye(number)),), common=None)

    def for_several(self, several: "HyperPrior") -> "HyperPrior":
        """Return the kinds of this prior for one target, with the bins of (j, T) of one learned from several targets.

        For candidates from which ranks of several targets have not been seen: how the j-th best of T differs from the only
        one, and how bins go together, is taken over from the other prior's first kind.
        """
        pattern = several.kinds[0]
        offsets = pattern.means - pattern.means[0]
        coupling = pattern.coupling / pattern.coupling[0, 0]
        kinds = tuple(replace(kind, means=kind.means[0] + offsets, coupling=coupling) for kind in self.kinds)
        return replace(self, name=f"{self.name}, several targets", kinds=kinds, scales=several.scales)


def compared_trend(counts: RankCounts) -> FloatArray:
    """What the compared part shows of what to expect behind it, over all cases that have a rest.

    The size of the rest, how often it holds what was compared, how many of the hits came late, and how they compare with
    those that came early: hits that thin out along the guide's order leave few behind.
    """
    left = (counts.column("rest") > 0) & ~counts.closed
    weight, ahead = counts.weight[left], counts.column("ahead")[left]
    late = counts.column("recent")[left]
    late = np.where(late < 0, LATE_SHARE * ahead, late)
    compared = max(float(counts.compared_weight[left].sum()), 1.0)
    rest = max(float((counts.pool_weight - counts.weight - counts.compared_weight)[left].sum()), 1.0)
    recent, early = (float(np.average(each, weights=weight)) + 0.02 for each in (late, ahead - late))
    return np.array(
        [np.log(rest / weight.sum()) - 9, np.log(rest / compared) - 3, np.log(recent) + 1, np.log(recent / early) + 1]
    )


def guide_lift(counts: RankCounts, late: bool = False) -> float:
    """How many times as often the guide's items (``late``: the last half) beat the target as random ones of the rest do.

    Over open cases; ``inf`` where no random one did: a sample that small says nothing against the guide.
    """
    left = (counts.column("rest") > 0) & ~counts.closed
    drawn, hits = (counts.column(name)[left] for name in ("drawn", "hits"))
    weight, ahead, recent = counts.weight[left], counts.column("ahead")[left], counts.column("recent")[left]
    compared = float(counts.compared_weight[left].sum())
    if late:  # where cases go on, what is recent came after the first quarter
        share = 0.75 if counts.design.goes_on else 0.5
        ahead, compared = np.where(recent < 0, LATE_SHARE * ahead, recent), compared * share
    sampled, found = drawn > 0, float(weight @ np.where(drawn > 0, hits, 0))
    if not found or not compared:
        return np.inf
    return float(weight @ ahead) / compared * float(weight[sampled] @ drawn[sampled]) / found


#: What is written of a kind, and of a prior, beside its sizes, scales and kinds.
_ARRAYS = ("means", "slope", "covariance", "coupling")
_PLAIN = ("card", "spread", "far", "trust")


def anything(bins: int, coefficients: int) -> list[tuple[float, FloatArray, FloatArray, float]]:
    """Members for rank distributions of any shape, as :meth:`HyperPrior.members` gives them; bins are nearly alike."""
    second = np.diff(np.eye(coefficients), 2, axis=0)
    coupling = np.linalg.inv(0.9 * np.ones((bins, bins)) + 0.1 * np.eye(bins))
    out = []
    for curvature, size in ANYTHING:
        precision = curvature * second.T @ second + size * np.eye(coefficients)
        log_det = bins * float(np.linalg.slogdet(precision)[1]) + coefficients * float(np.linalg.slogdet(coupling)[1])
        mean = np.zeros((bins, coefficients))
        out.append((float(np.log(ANYTHING_WEIGHT)), mean, np.kron(coupling, precision), log_det))
    return out


def priors_to_json(priors: Mapping[str, HyperPrior]) -> str:
    """Write priors by name: ``unseen``, ``all``, ``several``."""
    return json.dumps({"format": FORMAT, "priors": {name: prior.to_dict() for name, prior in priors.items()}})


def _read_kind(found: Mapping[str, Any]) -> Kind:
    return Kind(**{**found, **{key: np.array(found[key], float) for key in (*_ARRAYS, "shared") if key in found}})


def _written_kind(kind: Kind) -> dict[str, Any]:
    arrays = _ARRAYS if kind.shared is None else (*_ARRAYS, "shared")
    about = {"name": kind.name, "view": kind.view, "weight": round(kind.weight, 6)}
    return about | {key: _rounded(getattr(kind, key)) for key in arrays}


def _rounded(values: FloatArray) -> Any:
    return [_rounded(row) for row in values] if values.ndim > 1 else [float(f"{value:.5g}") for value in values]


@lru_cache(maxsize=8)
def shipped(name: str = "unseen") -> HyperPrior:
    """Return a prior that comes with fullrank, by its name.

    ``unseen``, ``all`` and ``several``, and those behind a compared part: ``guided``, ``patient``, ``compared``.
    """
    file = "hyperprior_compared.json" if name in ("guided", "patient", "compared") else "hyperprior.json"
    prior = HyperPrior.from_json(resources.files(__package__).joinpath(file).read_text(), name)
    return prior.following(shipped("unseen")) if name in FOLLOWED else prior
