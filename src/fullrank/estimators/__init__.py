"""Stage 4: from counts to estimates. One file per idea; the table of words is here."""

import re
from collections.abc import Callable

from fullrank._checks import did_you_mean
from fullrank.estimators.bounds import bounds
from fullrank.estimators.estimate import PointEstimate, RankDistribution, describe
from fullrank.estimators.hyperprior import HyperPrior
from fullrank.estimators.least_squares import CLS, BiasVariance, Multinomial
from fullrank.estimators.likelihood import MLE, WeightedMLE
from fullrank.estimators.logspline import LogSpline
from fullrank.estimators.mapping import Mapping
from fullrank.estimators.maxent import MaxEntropy
from fullrank.estimators.naive import Naive, RankEstimate
from fullrank.estimators.problem import Estimate, Estimator, Fit

__all__ = [
    "CLS", "ESTIMATORS", "MLE", "BiasVariance", "Estimate", "Estimator", "Fit", "HyperPrior", "LogSpline", "Mapping",
    "MaxEntropy", "Multinomial", "Naive", "PointEstimate", "RankDistribution", "RankEstimate", "WeightedMLE", "bounds",
    "describe", "parse_estimator",
]  # fmt: skip

#: Words for the command line, and where each is from. Add yours with one line.
ESTIMATORS: dict[str, Callable[[], Estimator]] = {
    "logspline": LogSpline,  # the default: smooth in log-rank, learned prior
    "naive": Naive,  # what sampled evaluation reports, kr20 §4
    "rank-estimate": RankEstimate,  # metric at the rescaled rank, kr20 eq. 20
    "cls": CLS,  # constrained least squares, kr20 §5.2
    "bv": BiasVariance,  # bias-variance, γ = 0.01 or, in bv0.1, as written; kr20 eq. 25
    "mle": MLE,  # EM, jin21 eq. 19-21
    "wmle": WeightedMLE,  # weighted EM, jin21 eq. 22-23
    "mes": MaxEntropy,  # maximum entropy, jin21 eq. 25-27
    "mn": Multinomial,  # li23 eq. 11
    "bv_mle": lambda: BiasVariance(prior=MLE()),  # with another estimator's P̂ as prior, li23 §3.2
    "bv_mes": lambda: BiasVariance(prior=MaxEntropy()),
    "mn_mle": lambda: Multinomial(prior=MLE()),
    "mn_mes": lambda: Multinomial(prior=MaxEntropy()),
    "linear": lambda: Mapping("linear"),  # mappings, li20
    "bound": lambda: Mapping("bound"),
    "beta": lambda: Mapping("beta"),  # a fitted to the sample or, in beta0.5, as written
}


def parse_estimator(text: str | Estimator | None) -> Estimator:
    """Return the estimator a word means; ``bv0.1`` and ``beta0.5`` carry their number. Without a word it is LogSpline.

    >>> parse_estimator("bv0.1")
    BiasVariance(gamma=0.1, prior=None, n_items='mean')
    """
    if text is None:
        return LogSpline()
    if not isinstance(text, str):
        if isinstance(text, Estimator) and not isinstance(text, type):
            return text
        raise TypeError(f"`estimator` must be an estimator or a word like 'mle', got {text!r}.")
    word = text.strip().lower()
    if word in ESTIMATORS:
        return ESTIMATORS[word]()
    if found := re.fullmatch(r"(bv|beta)[ @_-]?(\d+\.?\d*(?:e-?\d+)?|\.\d+)", word):
        number = float(found[2])
        return BiasVariance(number) if found[1] == "bv" else Mapping("beta", number)
    known = f": known words are {', '.join(ESTIMATORS)}."
    raise ValueError(f"unknown estimator {text!r}{did_you_mean(word, ESTIMATORS, known)}")
