"""fullrank: from sampled ranks to full-catalogue recommendation metrics.

The flow: ``Split + Scorer → observe(Design) → RankCounts → Estimator.fit → RankDistribution → expect(Metric) → Report``

>>> import fullrank as fr
>>> counts = fr.RankCounts.from_ranks([1, 1, 3, 60], n_items=3706, design=fr.Sample(99))
>>> fr.MLE().fit(counts).expect(fr.AUC)
0.84...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fullrank._version import __version__ as __version__
from fullrank.metrics import AP, AUC, MRR, NDCG, Hit, Metric, Precision, Recall, parse_metric, parse_metrics
from fullrank.ranks.design import Adaptive, Design, Exhaustive, Sample, Top, parse_design, register_design
from fullrank.ranks.guided import Guided
from fullrank.ranks.counts import RankCounts
from fullrank.estimators import (
    CLS, MLE, BiasVariance, Estimator, HyperPrior, LogSpline, Mapping, MaxEntropy, Multinomial, Naive, RankDistribution,
    RankEstimate, WeightedMLE, bounds, parse_estimator,
)  # fmt: skip
from fullrank.ranks.theory import expected_naive, hoeffding, optimal_mapping, sampled_recall
from fullrank.report import Comparison, Report
from fullrank.evaluation import Accumulator, compare, correct, plan

if TYPE_CHECKING:  # loaded when first asked for: they bring SciPy's sparse matrices, files and models
    from fullrank import models
    from fullrank.data import Split, load
    from fullrank.models import as_scorer
    from fullrank.evaluation.evaluate import evaluate
    from fullrank.evaluation.recbole import from_recbole
    from fullrank.evaluation.torchmetrics import FullRankMetric as FullRankMetric
    from fullrank.observing.observation import Observation
    from fullrank.observing.observe import observe


#: Public names by the module that holds them; FullRankMetric needs torchmetrics, so it is not in __all__.
_LATER = {
    "models": ".models", "as_scorer": ".models", "Split": ".data", "load": ".data", "observe": ".observing.observe",
    "Observation": ".observing.observation", "evaluate": ".evaluation.evaluate", "from_recbole": ".evaluation.recbole",
    "FullRankMetric": ".evaluation.torchmetrics",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'fullrank' has no attribute {name!r}")
    module = import_module(_LATER[name], __name__)
    return module if name == "models" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Split", "load", "models", "as_scorer", "observe", "Observation",
    "AP", "AUC", "MRR", "NDCG", "Hit", "Metric", "Precision", "Recall", "parse_metric", "parse_metrics",
    "Adaptive", "Design", "Exhaustive", "Sample", "Top", "Guided", "parse_design", "register_design", "RankCounts",
    "CLS", "MLE", "BiasVariance", "HyperPrior", "LogSpline", "Mapping", "MaxEntropy", "Multinomial", "Naive",
    "Estimator", "RankDistribution", "RankEstimate", "WeightedMLE", "parse_estimator",
    "bounds", "expected_naive", "sampled_recall", "hoeffding", "optimal_mapping",
    "Report", "correct", "from_recbole", "compare", "Comparison", "Accumulator", "evaluate", "plan",
]  # fmt: skip
