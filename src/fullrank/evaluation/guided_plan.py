"""Plans from a pilot behind a guide: the same part compared, and so many more negatives of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fullrank._types import IntArray
from fullrank.estimators import LogSpline, RankDistribution
from fullrank.evaluation.planner import Planner
from fullrank.evaluation.rehearsal import half_width
from fullrank.metrics import Metric
from fullrank.ranks.counts import NOTHING, RankCounts
from fullrank.ranks.guided import Guided
from fullrank.ranks.laws import ALL

#: Negatives are tried in doublings, so many times.
DOUBLINGS = 12


def rehearsed_behind_guide(
    pilot: RankDistribution, planner: Planner, cases: int
) -> Iterator[tuple[Guided, float, dict[Metric, float]]]:
    """Designs with more and more negatives of the rest: items per case and half-widths, until these are as wanted.

    Each open case of the pilot gets a number of better items in its rest from its own posterior, and is sampled anew.
    """
    counts, fitted = pilot.counts, pilot.fitted
    design = counts.design
    if not isinstance(design, Guided) or fitted is None:
        raise ValueError("`pilot` must have open cases of a guided design: there is nothing to plan.")
    rng = np.random.default_rng(0)
    open_, better = _made_up(pilot, fitted, rng)
    values = {metric: float(pilot.expect(metric)) for metric in planner.metrics}
    goals, largest = planner.goals(values), int(open_["rest"].max())
    negatives = max(int(fitted.column("drawn").max()), 1)
    for _ in range(DOUBLINGS):
        tried = replace(design, negatives=min(negatives, largest), max_negatives=None)
        drawn, hits = tried.simulate(better + 1, open_["rest"] + 1, rng)
        made = _counts(counts, tried, open_, drawn, hits)
        dist = (pilot.estimator if isinstance(pilot.estimator, LogSpline) else LogSpline()).fit(made)
        fewer = float(np.sqrt(len(counts) / cases))
        half = {metric: half_width(dist, metric, planner.level) * fewer for metric in planner.metrics}
        yield tried, made.items_scored / len(made), half
        if negatives >= largest or all(half[metric] <= goal for metric, goal in goals.items()):
            return
        negatives *= 2


def _made_up(
    dist: RankDistribution, fitted: RankCounts, rng: np.random.Generator
) -> tuple[dict[str, IntArray], IntArray]:
    """What is known of the pilot's open cases, and how many of the rest are better, drawn from each one's posterior."""
    outcomes, which = np.unique(fitted.outcomes, axis=0, return_inverse=True)
    law = dist.grid.law(fitted.design, fitted.n_items, outcomes[:, 0], outcomes[:, 1])
    of_cell = np.repeat(np.arange(len(fitted.keys)), fitted.cases)
    rest = np.maximum(np.round(fitted.pool_weight / fitted.weight).astype(np.int64) - 1, 1)
    better = np.empty(len(of_cell), dtype=np.int64)
    row, known = dist.rows[fitted.group_of], fitted.all_compared
    for cell in np.unique(of_cell):
        here = of_cell == cell
        weight = np.cumsum(np.maximum(dist.masses[row[cell]], 0.0) * law[:, which.ravel()[cell]])
        if known[cell] or not weight[-1] > 0:
            better[here] = fitted.column("hits")[cell]
            continue
        place = np.minimum(np.searchsorted(weight, rng.random(here.sum()) * weight[-1]), len(weight) - 1)
        better[here] = rng.integers(dist.grid.lo[place], dist.grid.hi[place] + 1) - 1
    names = ("ahead", "recent", "order", "targets")
    about = {name: fitted.column(name)[of_cell] for name in names} | {"rest": rest[of_cell]}
    return about, np.minimum(better, about["rest"])


def _counts(
    counts: RankCounts, design: Guided, open_: dict[str, IntArray], drawn: IntArray, hits: IntArray
) -> RankCounts:
    """The pilot's counts with these outcomes of its open cases; the others do not change."""
    done = counts.sampled_part()[0]
    columns: dict[str, Any] = {**open_, "drawn": drawn, "hits": hits}
    size = np.full(len(hits), round(counts.n_items))
    if done is not None:
        of_cell = np.repeat(np.arange(len(done.keys)), done.cases)
        left = np.round((done.pool_weight - done.compared_weight) / done.weight).astype(np.int64) - 1
        more = {name: done.column(name) for name in ("ahead", "recent", "order", "targets")}
        more |= {"rest": np.where(done.column("rest") > 0, np.maximum(left, 1), 0), "hits": np.zeros_like(left)}
        more["drawn"] = np.where(more["rest"] > 0, NOTHING, ALL)
        columns = {name: np.concatenate([each, more[name][of_cell]]) for name, each in columns.items()}
        size = np.append(size, np.full(len(of_cell), round(counts.n_items)))
    drawn, hits = columns.pop("drawn"), columns.pop("hits")
    columns["recent"] = np.minimum(columns["recent"], columns["ahead"])
    return RankCounts.from_outcomes(drawn, hits, size, design, candidates=counts.candidates, **columns)
