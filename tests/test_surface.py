"""The public names and their keywords are a promise: what is listed here may be added to, never taken away."""

from __future__ import annotations

import inspect
import subprocess
import sys
import time

import pytest

import fullrank as fr

#: Present now, in the order of the flow. Move a name here from SOON when it arrives.
SURFACE = [
    *("Split", "load", "models", "as_scorer", "observe", "Observation"),
    *("Recall", "NDCG", "AP", "Precision", "AUC", "Hit", "MRR", "Metric", "parse_metric", "parse_metrics"),
    *("Exhaustive", "Top", "Sample", "Adaptive", "Guided", "Design", "parse_design", "register_design", "RankCounts"),
    *("expected_naive", "sampled_recall", "hoeffding", "optimal_mapping", "bounds"),
    *("Naive", "RankEstimate", "CLS", "BiasVariance", "MLE", "WeightedMLE", "MaxEntropy", "Multinomial", "Mapping"),
    *("LogSpline", "parse_estimator", "RankDistribution", "Estimator"),
    *("evaluate", "plan", "correct", "from_recbole", "Report", "compare", "Comparison", "Accumulator"),
]
#: Promised, allowed to appear.
SOON = [
    *("HyperPrior", "data", "backends", "demo", "testing"),
    *("Scorer", "Estimate", "PointEstimate"),
]

#: name → parameters that must exist, in this order among themselves.
KEYWORDS = {
    "Sample": ["negatives", "replace"],
    "Adaptive": ["negatives", "max_negatives", "stop_at", "replace"],
    "Guided": ["first", "negatives", "max_negatives", "stop_at"],
    "Top": ["k", "negatives", "replace"],
    "RankCounts.from_ranks": ["ranks", "n_items", "design", "drawn", "users", "weights", "candidates"],
    "RankCounts.from_scores": ["frame", "n_items", "design", "targets", "candidates", "ties", "rng", "missing"],
    "RankCounts.from_trec": ["run", "qrels", "n_items", "design", "candidates", "ties", "rng", "min_relevance"],
    "RankCounts.from_recbole": ["scores", "positives", "n_items", "design", "users", "candidates", "ties", "rng"],
    "RankCounts.from_negatives": ["model", "negatives", "n_items", "design", "candidates", "ties", "rng", "missing"],
    "RankCounts.from_frame": ["frame", "design", "n_items", "rank", "user", "drawn", "weight", "candidates"],
    "BiasVariance": ["gamma", "prior"],
    "Multinomial": ["prior"],
    "MLE": ["iterations", "start"],
    "WeightedMLE": ["weight", "c"],
    "MaxEntropy": ["eta"],
    "Mapping": ["kind", "a"],
    "RankDistribution.expect": ["metric"],
    "RankDistribution.mass": ["ranks"],
    "RankDistribution.cdf": ["k"],
    "parse_metric": ["text"],
    "observe": ["scorer", "split", "design", "candidates", "ties", "rng", "map", "checkpoint"],
    "Observation": ["model", "split", "candidates", "ties", "rng", "map", "checkpoint"],
    "evaluate": [
        "metrics",
        "design",
        "estimator",
        "precision",
        "target",
        "candidates",
        "ties",
        "max_items",
        "max_seconds",
        "backend",
        "checkpoint",
        "rng",
    ],
    "correct": ["n_items", "design", "metrics"],
    "Split": ["train", "users", "items", "weights"],
    "Split.from_frames": ["train", "test"],
    "from_recbole": ["trainer", "test_data", "metrics"],
    "plan": ["n_items", "cases", "metric", "precision"],
    "Accumulator": ["design", "n_items"],
    "Accumulator.update": ["scores", "target"],
    "Accumulator.merge": ["other"],
    "Accumulator.report": ["metrics"],
    "compare": ["metric", "level", "target", "estimator"],
}
DEFAULTS = [
    (fr.Sample(negatives=99), fr.Sample(99, replace=True)),
    (fr.BiasVariance(), fr.BiasVariance(gamma=0.01, prior=None)),
    (fr.MLE(), fr.MLE(iterations=None, start="uniform")),
    (fr.WeightedMLE(), fr.WeightedMLE(weight="ndcg", c=10)),
    (fr.MaxEntropy(), fr.MaxEntropy(eta=0.001)),
    (fr.Multinomial(), fr.Multinomial(prior=None)),
]


def test_every_promised_name_is_there():
    missing = [name for name in SURFACE if not hasattr(fr, name) or name not in fr.__all__]
    assert not missing


def test_nothing_else_is_exported():
    assert set(fr.__all__) <= {*SURFACE, *SOON, "__version__"}, "a new public name: add it to the lists above"
    assert len(fr.__all__) == len(set(fr.__all__))
    assert all(hasattr(fr, name) for name in fr.__all__)


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_are_kept(name):
    head, *rest = name.split(".")
    if head not in fr.__all__:
        pytest.skip(f"{head} is not there yet")
    thing = getattr(fr, head)
    for part in rest:
        thing = getattr(thing, part)
    there = list(inspect.signature(thing).parameters)
    if name == "observe":  # the first parameter's word is not promised
        there = ["scorer", *there[1:]]
    assert [each for each in there if each in KEYWORDS[name]] == KEYWORDS[name]


@pytest.mark.parametrize(("short", "long"), DEFAULTS, ids=lambda value: str(value)[:20])
def test_defaults_are_kept(short, long):
    assert short == long


def test_public_things_are_documented():
    assert fr.__doc__
    assert not [name for name in fr.__all__ if not getattr(fr, name).__doc__]


HEAVY = (
    "torch",
    "ray",
    "altair",
    "pandas",
    "polars",
    "numba",
    "implicit",
    "scipy.stats",
    "cvxpy",
    "matplotlib",
    "pyarrow",
)


def test_import_is_light():
    code = f"import sys, fullrank; print([name for name in {HEAVY!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_import_is_quick():
    def seconds() -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import fullrank"], check=True)
        return time.perf_counter() - begin

    assert min(seconds() for _ in range(2)) < 4.0  # half a second on an idle machine


def test_no_pickle_in_the_package():
    import pathlib

    root = pathlib.Path(fr.__file__).parent
    found = [path for path in root.rglob("*.py") if "import pickle" in path.read_text(encoding="utf-8")]
    assert [path.name for path in found] == ["processes.py"]  # a pipe to workers it started itself; no file


def test_recipes_import_nothing_from_inside():
    import pathlib
    import re

    recipes = pathlib.Path(__file__).parents[1] / "docs" / "recipes"
    inside = re.compile(r"^\W*(?:from|import) fullrank\.", re.MULTILINE)
    found = [
        path.name for path in recipes.iterdir() if path.suffix in (".md", ".py") and inside.search(path.read_text())
    ]
    assert found == []


def test_testing_is_public_too():
    from fullrank import testing

    assert {"check_estimator", "check_design"} <= set(testing.__all__)
    assert not hasattr(testing, "nothing_of_the_kind")
