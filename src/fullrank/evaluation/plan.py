"""``plan``: before anything is scored, what to sample, what it will cost and what it will reach."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._checks import check_flag, check_number, check_whole
from fullrank._types import IntArray, Pair
from fullrank.estimators import LogSpline, RankDistribution
from fullrank.estimators.intervals import check_interval
from fullrank.evaluation.audit import expected_audit
from fullrank.evaluation.planner import (
    AIM,
    MOST_CASES,
    ByMetric,
    Guess,
    Planner,
    Rehearsal,
    check_precision,
    half_widths,
    typical,
)
from fullrank.metrics import Metric, metrics_to_report
from fullrank.ranks.counts import MOST_ITEMS, RankCounts
from fullrank.ranks.design import Adaptive, Design, Exhaustive, Sample
from fullrank.ranks.guided import Guided
from fullrank.report import Report
from fullrank.report.comparison import Verdict
from fullrank.report.notebook import card
from fullrank.report.panels import NOTEBOOK, PAGE, WIDTH, Panel, by_colour, chart_of, load, spread, tips
from fullrank.report.tables import text_table
from fullrank.report.words import as_json, joined, wrapped

#: Behind a guide negatives are tried in doublings, so many times.
DOUBLINGS = 12
#: How far runs were from what was planned, with a pilot and without one, for ±2, 5 and 10 %: `benchmarks/evaluate.py plan`.
TOOK = {
    True: "Planned from a pilot, nine in ten runs on real recommenders took 0.8 to 2.0 times the planned items (median "
    "1.0); above all, an audit that refutes an estimate sends a run further.",
    False: "Planned without a pilot, nine in ten runs on real recommenders took 0.3 to 3.1 times the planned items (median "
    "1.1): a pilot, the counts of a small run, tells more.",
}
#: What a plan does not know is the model.
EXACT = (
    "If the model is a factor or an item-item model, ranking exactly may cost less than any sample: without `design` and "
    "`max_items`, fr.evaluate times both and takes the cheaper."
)
#: A design is blind where the outcomes alone would leave the value open by more than this share of it.
BLIND = 1.0


@dataclass(frozen=True)
class Choice:
    """A design, what it scores and what it leaves open."""

    design: Design
    cases: int
    items: int  # scored in all, by its audit too
    share: float  # of the full ranking
    half_width: float  # of the interval that is widest for its value
    relative: float  # the same, relative to the value
    bounds: float | None  # what the outcomes alone would allow, as a half-width relative to the value
    meets: bool  # whether the precision is met, and an audit checks it where a sample does not show it by itself
    audit: int = 0  # items of the cases that are ranked in full before the precision counts as met
    rounds: bool = False  # whether ``evaluate`` gets there in rounds, to the precision
    recommended: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """What can be done, and what is best done. ``print`` it; :meth:`plot` draws cost against precision."""

    n_items: int
    cases: int
    metrics: tuple[str, ...]
    precision: float
    absolute: bool
    target: str
    level: float
    source: str
    values: Mapping[str, float]  # what the guess of the ranks makes of every metric
    choices: tuple[Choice, ...]
    frontier: tuple[Pair, ...]  # (share of the full ranking, relative half-width) of the best designs, cheapest first
    stages: tuple[
        tuple[int, float, float], ...
    ]  # li23 eq. 13: (negatives, share of cases that come to rest there, C_j)
    efficient_ceiling: int  # beyond it, telling one more case apart costs more than ranking one in full
    notes: tuple[str, ...] = ()
    max_items: int | None = None

    @property
    def recommended(self) -> Choice:
        """The cheapest choice that is expected to reach the precision; within a budget that is too small, the narrowest."""
        return next(each for each in self.choices if each.recommended)

    @property
    def design(self) -> Design:
        """The recommended design."""
        return self.recommended.design

    @property
    def items(self) -> int:
        """Items that the recommended design and its audit score."""
        return self.recommended.items

    @property
    def half_width(self) -> float:
        """Its relative half-width, of the metric where that is widest."""
        return self.recommended.relative

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "schema": "fullrank.plan/1",
            **vars(self),
            "choices": [{**vars(each), "design": str(each.design)} for each in self.choices],
            "stages": [{"negatives": m, "share": share, "cost": cost} for m, share, cost in self.stages],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Write :meth:`to_dict` as strict JSON, as ``fullrank plan --json`` prints it."""
        return as_json(self.to_dict(), indent)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def verdict(self) -> Verdict:
        """What is best done, what it reaches and what it costs, in one sentence."""
        best, names = self.recommended, ", ".join(self.metrics)
        half = "exactly" if best.half_width == 0 else f"to ±{best.relative:.1%}"
        part = f" for {best.cases:,} of the cases" if best.cases < self.cases else ""
        audit = f", {best.audit:,} of them to audit the result" if best.audit else ""
        what = f"{_in_words(best.design)}, which scores {best.items:,} items{part}{audit}"
        if self.max_items is not None and best.items > self.max_items:
            few = f"{self.max_items:,} item{'s' * (self.max_items != 1)}"
            return Verdict(f"No design fits {few}", f"the least that can be done is to {what} ({names} {half})")
        return Verdict(f"{names} {half} from {_share(best.share)} of the full ranking", what)

    @property
    def advice(self) -> str:
        """Which design is recommended, and the call that carries it out, in one sentence."""
        best = self.recommended
        asked: dict[str, Any] = {"design": str(best.design)}
        if best.rounds:
            asked = {"design": "guided" if best.design.compares else "adaptive", "precision": self.precision}
            asked |= {"absolute": True} if self.absolute else {}
            asked |= {} if self.max_items is None else {"max_items": self.max_items}
        asked |= {} if self.target == "cases" else {"target": self.target}
        asked |= {} if self.level == 0.95 else {"level": self.level}
        given = ", ".join(f"{name}={value!r}" for name, value in asked.items())
        return f"Recommended (marked >) is '{best.design}': fr.evaluate(…, {given})."

    @property
    def asked(self) -> tuple[str, str]:
        """The precision asked for, and what for."""
        wanted = f"±{self.precision:g}" if self.absolute else f"±{100 * self.precision:g}%"
        whom = "these cases" if self.target == "cases" else "the population"
        return wanted, f"{self.level:.0%} interval, for {whom}"

    def lines(self, width: int = 80) -> list[str]:
        """The verdict, the choices and what is recommended of them as lines of at most ``width`` columns."""
        wanted, what = self.asked
        about = (
            f"Asked for: {wanted} ({what}), {self.cases:,} case{'s' * (self.cases != 1)}, {self.n_items:,} items. "
            f"Ranks are assumed to be like those of {self.source}."
        )
        notes = [line for note in self.notes for line in wrapped(note, width, "! ")]
        table = text_table(*self.table(), width, wraps=True)
        return [
            *wrapped(str(self.verdict), width),
            *wrapped(about, width),
            *table,
            *wrapped(self.advice, width),
            *notes,
        ]

    def _repr_html_(self) -> str:
        facts = {
            "asked for": " ".join(self.asked),
            "cases": f"{self.cases:,}",
            "items": f"{self.n_items:,}",
            "ranks like those of": self.source,
        }
        return card(str(self.verdict), facts, table=self.table(), notes=(self.advice, *self.notes))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return head and body of the table of choices."""
        body = [
            [
                ("> " if each.recommended else "  ") + str(each.design),
                _share(each.share),
                f"{each.items / max(each.cases, 1):,.0f}",
                "exact" if each.half_width == 0 else f"±{each.relative:.1%}",
                "–" if each.bounds is None else f"±{100 * each.bounds:,.0f}%",
            ]
            for each in self.choices
        ]
        return ["  design (> recommended)", "of full", "per case", "half-width", "bounds"], body

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """The plan as a small self-contained page: written to ``path`` atomically, or returned as text. Needs ``report``."""
        from fullrank.report.html import render, write_page

        panel = Panel(self._chart(PAGE), "", "") if self.frontier else None
        text = render("plan.html", plan=self, panel=panel)
        return text if path is None else write_page(text, path)

    def plot(self) -> Any:
        """An Altair chart of cost against precision: the best designs as a line, the choices as points."""
        from fullrank.report.charts import finish

        return finish(self._chart(NOTEBOOK), NOTEBOOK)

    def _chart(self, style: Any) -> Any:
        alt = load()
        line = [{"items": 100 * share, "half": 100 * half} for share, half in self.frontier if half > 0 and share > 0]
        points = [
            {"items": 100 * each.share, "half": 100 * each.relative,
             "name": str(each.design).replace(" without replacement", ""),
             "tip": f"{each.design}: {_share(each.share)} of the items, ±{each.relative:.1%}",
             "colour": style.series[1] if each.recommended else style.muted}
            for each in self.choices
            if each.relative > 0 and each.share > 0
        ]  # fmt: skip
        every = [*line, *points]
        low = 0.7 * min(each["items"] for each in every)
        names = "datum.value >= 0.01 ? format(datum.value, '~r') + '%' : format(datum.value, '~e') + '%'"
        axis = alt.Axis(values=[each for each in _TICKS[::2] if each >= low], labelExpr=names, grid=False)
        reach = alt.Scale(type="log", domain=[low, 100], nice=False)
        x_of = alt.X("items:Q", title="items scored, of the full ranking", axis=axis, scale=reach)
        bottom, top = 0.8 * min(each["half"] for each in every), 1.4 * max(each["half"] for each in every)
        up = alt.Axis(values=_TICKS, labelExpr="format(datum.value, '~r') + '%'")
        reach = alt.Scale(type="log", domain=[bottom, top], nice=False)
        y_of = alt.Y("half:Q", title="half-width, of the value", axis=up, scale=reach)
        goal, dots = chart_of([{"half": 100 * self.precision}]), chart_of(points)
        layers = [
            *([] if self.absolute else [goal.mark_rule(strokeDash=[4, 3], color=style.muted).encode(y=y_of)]),
            chart_of(line).mark_line(color=style.series[0]).encode(x=x_of, y=y_of),
            dots.mark_point(filled=True, size=70, opacity=1).encode(x=x_of, y=y_of, color=by_colour(), **tips()),
        ]
        # the line falls to the right: names stand above it, or below it where there is no room to the right
        gap = np.log(top / bottom) * 14 / 170  # a line of text; the axis below takes its part of the height
        for point, at in zip(points, spread([np.log(each["half"]) for each in points], gap), strict=True):
            across = np.log(point["items"] / low) / np.log(100 / low)
            left = across > (0.45 if len(point["name"]) > 10 else 0.8)
            words = chart_of([{**point, "half": np.exp(at)}]).mark_text(
                align="right" if left else "left", dx=-8 if left else 10, dy=13 if left else -8, color=style.ink
            )
            layers.append(words.encode(x=x_of, y=y_of, text=alt.Text("name:N")))
        return alt.layer(*layers).properties(width=WIDTH, height=220)


def plan(
    n_items: int | None = None,
    cases: int | None = None,
    metric: str | Metric | Iterable[str | Metric] = "ndcg@10",
    precision: float = 0.02,
    *,
    pilot: RankDistribution | RankCounts | Report | None = None,
    target: str = "cases",
    absolute: bool = False,
    level: float = 0.95,
    max_items: int | None = None,
    gather_cost: float = 1.0,
) -> Plan:
    """What to sample so that the interval's half-width comes to ``precision``, and what that costs.

    Cost and precision depend on the ranks, of which there is only a guess: a ``pilot`` (counts of a small run, an
    estimate, a report), else what recommenders usually show. Cases are made up from the guess and designs are rehearsed
    on them (:mod:`fullrank.evaluation.planner`). ``gather_cost``: how many times dearer an item scored alone is than one
    in a whole row; where sampling then costs more than ranking everything, the plan says so.

    ``fr.evaluate(…, design="adaptive", precision=…)`` carries the plan out: in rounds, of which the first has its price, and
    with an audit of the result; both are in the plan, and nothing is timed. From a pilot, nine in ten runs on real
    recommenders took 0.9 to 1.1 times the planned items for ±2 %, and 0.8 to 2.0 times for ±5 and ±10 %, where an audit that
    refutes an estimate weighs more; without one, 0.3 to 3.1 times (``benchmarks/evaluate.py plan``). What is observed once
    is not audited, and is recommended only where a budget (``max_items``) pays for nothing better.

    >>> import fullrank as fr
    >>> plan = fr.plan(n_items=20_000, cases=3_000, metric="ndcg@10", precision=0.1)
    >>> plan.recommended.share < 0.2
    True
    """
    wanted = metrics_to_report(metric)
    level = check_interval(level, target)
    precision = check_precision(precision, absolute)
    check_number("max_items", 1 if max_items is None else max_items, above=0)
    check_number("gather_cost", gather_cost, above=0)
    check_flag("absolute", absolute)
    if isinstance(pilot, Report):
        pilot = next((each.counts for each in pilot.estimates.values()), None)
        if pilot is None:
            raise ValueError("`pilot` is a report without estimates (was it read from a file?): give its counts.")
    if isinstance(pilot, RankCounts):
        pilot = LogSpline().fit(pilot)
    several = isinstance(pilot, RankDistribution) and pilot.counts.several_targets
    wanted = tuple(each.kept_apart(several) for each in wanted)
    planner = Planner(wanted, precision, absolute, level, target)
    guess, cases = _guess(pilot, n_items, cases)
    behind = pilot if pilot is not None and pilot.counts.design.compares else None
    expected = {m: guess.value(m) if behind is None else float(behind.expect(m)) for m in wanted}
    draft = _Draft(
        planner, guess, cases, expected, planner.goals(expected), planner.floors(guess, cases), pilot is not None
    )
    found = _in_rounds(draft, max_items, gather_cost) if behind is None else _behind_guide(behind, draft, max_items)
    piloted = "a pilot" if behind is None else "a pilot behind a guide"
    source = "recommenders seen before (the prior)" if pilot is None else piloted
    values = {str(m): value for m, value in expected.items()}
    return Plan(
        guess.n_items, cases, tuple(values), planner.precision, absolute, target, level, source, values,
        max_items=max_items, **found,
    )  # fmt: skip


@dataclass(frozen=True)
class _Draft:
    """What every choice of a plan is measured by."""

    planner: Planner
    guess: Guess
    cases: int
    values: ByMetric
    goals: ByMetric  # the half-widths that are wanted
    floors: ByMetric  # those that ranking everything leaves open
    piloted: bool = False

    @property
    def everything(self) -> Choice:
        """The full ranking, as a choice."""
        return self.choice(Exhaustive(), self.guess.n_items - 1, dict.fromkeys(self.values, 0.0))

    def choice(
        self, design: Design, per_case: float, half: ByMetric, bounds: float | None = None, part: float = 1.0,
        audit: float = 0.0, rounds: bool = False,
    ) -> Choice:  # fmt: skip
        """Describe a design by the items it scores per case and the half-widths it leaves open, for a part of the cases."""
        widths = {m: float(np.hypot(half[m], self.floors[m] / np.sqrt(part))) for m in self.goals}
        ratios = {m: widths[m] / max(abs(self.values[m]), 1e-12) for m in widths}
        worst = max(ratios, key=lambda m: ratios[m])
        meets = all(widths[m] <= goal * 1.0001 for m, goal in self.goals.items())
        audit = round(audit) if meets else 0
        items, full = round(per_case * part * self.cases) + audit, float(self.cases) * (self.guess.n_items - 1)
        return Choice(
            design,
            round(part * self.cases),
            items,
            items / full,
            widths[worst],
            ratios[worst],
            bounds,
            meets,
            audit,
            rounds,
        )

    def once(self, design: Design) -> Choice:
        """Describe a design that is observed once: no audit checks it, so that the precision counts as met of AUC alone."""
        guess, planner = self.guess, self.planner
        counts = typical(design, guess, min(self.cases, MOST_CASES))
        dist, half = guess.fitted(counts, self.goals, planner.level, self.cases)
        bounds = self.bounds(dist)
        found = self.choice(design, counts.items_scored / len(counts), half, bounds)
        return replace(found, meets=found.meets and all(m.whole_auc for m in self.goals))

    def in_rounds(self, rehearsal: Rehearsal, least: tuple[int, int], max_items: float) -> Choice:
        """Describe where a run in rounds is expected to end, within a budget or without."""
        planner, guess = self.planner, self.guess
        found = planner.choose(rehearsal, max_items, least)
        counts = rehearsal.counts(found.stop, found.ceiling)
        bounds = self.bounds(guess.estimator.fit(counts))
        left = max_items - found.items * found.part * self.cases
        audit = expected_audit(rehearsal, planner.metrics, found, planner.cut, max(left, 0.0))
        plain = found.ceiling <= rehearsal.start  # and no case goes on
        design = Sample(rehearsal.start, replace=False) if plain else counts.design
        return self.choice(design, found.items, found.half_widths, bounds, found.part, audit, rounds=True)

    def bounds(self, dist: RankDistribution) -> float | None:
        """The widest of the assumption-free bounds, as a half-width relative to the value."""
        spans = [(dist.bounds(m, self.planner.level), value) for m, value in self.values.items() if m.k is not None]
        return max(((high - low) / 2 / max(abs(value), 1e-12) for (low, high), value in spans), default=None)

    def familiar(self, best: Choice) -> Iterator[Choice]:
        """Describe the designs that people know, where the catalogue is larger than their samples.

        Not those that are as good as the ``best`` is: a plain sample of about as many negatives, drawn without replacement.
        """
        n_items, own = self.guess.n_items, best.design
        for design in (Sample(99), Sample(999), Adaptive(99, 3199, 1)):
            alike = (
                isinstance(design, Sample) and isinstance(own, Sample) and 0.9 < design.negatives / own.negatives < 1.1
            )
            if design.stages(n_items)[-1] < n_items - 1 and not alike:
                yield self.once(design)

    def recommended(self, choices: Sequence[Choice], max_items: int | None, gather_cost: float) -> int:
        """The place of the choice to recommend, the last being where a run in rounds ends.

        Of those that fit the budget and meet the precision the cheapest. Where none meets it, where a run ends, or within a
        budget whatever is narrowest; where none fits, the cheapest.
        """

        def cost(place: int) -> float:
            return choices[place].items * (1.0 if choices[place].design.exhaustive else gather_cost)

        places = list(range(len(choices)))[::-1]  # of equals, the last
        fitting = [place for place in places if max_items is None or choices[place].items <= max_items]
        if not fitting:
            return min(places, key=lambda place: choices[place].items)
        if meeting := [place for place in fitting if choices[place].meets]:
            return min(meeting, key=lambda place: (cost(place), place > 0))
        if max_items is None:
            return places[0]
        sampled = [place for place in fitting if not choices[place].design.exhaustive]
        return min(sampled or fitting, key=lambda place: choices[place].relative)

    def notes(self, choices: Sequence[Choice], max_items: int | None) -> list[str]:
        """Say what no plan reaches, and which of the choices rest on the prior."""
        out = []
        beyond = [m for m, goal in self.goals.items() if goal <= self.floors[m]]
        for m in beyond:
            needed = int(np.ceil(self.cases * (self.floors[m] / self.goals[m]) ** 2))
            out.append(
                f"{self.cases:,} cases are too few to estimate {m} of the population that precisely, even ranked in full "
                f"(±{self.floors[m] / max(abs(self.values[m]), 1e-12):.1%}); it would take about {needed:,} cases."
            )
        best = next(each for each in choices if each.recommended)
        if max_items is not None and best.items <= max_items and not best.meets and not beyond:
            out.append(
                "The budget does not reach the precision and its audit; what comes nearest within it is recommended."
            )
        wanted = min(goal / max(abs(self.values[m]), 1e-12) for m, goal in self.goals.items())
        unchecked = [each for each in choices if each.items < best.items and each.relative <= wanted and not each.meets]
        if best.meets and unchecked:
            names = joined([str(each.design) for each in unchecked])
            out.append(f"{names} would be as narrow for less, but no audit checks what the prior fills in there.")
        blind = [str(each.design) for each in choices if (each.bounds or 0.0) > BLIND]
        if blind:
            out.append(
                f"Blind spot: with {joined(blind, 4)} the outcomes alone say little (see the bounds); most of the precision "
                "is the prior's."
            )
        return out


def _in_rounds(draft: _Draft, max_items: int | None, gather_cost: float) -> dict[str, Any]:
    """What a plan says of sampling in rounds, beside ranking everything and the designs that people know."""
    planner, n_items, cases = draft.planner, draft.guess.n_items, draft.cases
    room = np.inf if max_items is None else max_items / planner.first_users(cases)
    start, ceiling = planner.first_round(n_items, AIM * room)
    if ceiling == start < n_items - 1 and planner.target == "cases":  # no round can follow: all that there is room for
        start = ceiling = max(int(min(room, n_items - 1)), 1)
    rehearsal = planner.rehearse(draft.guess, cases, start)
    if start >= n_items - 1:
        best = draft.everything
    elif start == ceiling and planner.target == "cases":
        best = draft.once(Sample(start, replace=False))
    else:
        best = draft.in_rounds(rehearsal, (1, ceiling), np.inf if max_items is None else max_items)
    choices = [draft.everything, *draft.familiar(best), *([] if best.design.exhaustive else [best])]
    place = draft.recommended(choices, max_items, gather_cost)
    choices[place] = replace(choices[place], recommended=True)
    stages, ceiling = sampling_cost(rehearsal)
    notes = draft.notes(choices, max_items)
    if choices[place].design.exhaustive and best.meets and best.share < 1:
        notes.append(
            f"An item scored alone costs {gather_cost:g} times as much as one in a whole row: ranking everything is cheaper "
            f"than scoring {_share(best.share)} of the items one by one."
        )
    if not choices[place].design.exhaustive:
        notes.append(EXACT)
    if choices[place].rounds:
        notes.append(TOOK[draft.piloted])
    notes.append(
        f"Beyond {ceiling:,} negatives, telling one more case apart costs more than ranking one in full (C_j of li23 "
        "eq. 13)."
    )
    return {
        "choices": tuple(choices), "frontier": _frontier(rehearsal, choices, draft.values), "stages": stages,
        "efficient_ceiling": ceiling, "notes": tuple(notes),
    }  # fmt: skip


def sampling_cost(rehearsal: Rehearsal) -> tuple[tuple[tuple[int, float, float], ...], int]:
    """li23 eq. 13: at stage j, (M − Σ_{p<j} m_p)(n_j − n_{j−1})/m_j items are sampled for each case that comes to rest.

    Returned with the largest stage at which that is less than N, the price of ranking a case in full.
    """
    stages, sizes = np.flatnonzero(rehearsal.doublings), rehearsal.sizes[rehearsal.doublings]
    rests = np.bincount(rehearsal.outcomes(1, int(sizes[-1]))[0], minlength=len(rehearsal.sizes))[stages]
    alive = rests.sum() - np.concatenate([[0], np.cumsum(rests)[:-1]])
    cost = alive * np.diff(sizes, prepend=0) / np.maximum(rests, 1e-9)
    good = np.flatnonzero((cost <= rehearsal.guess.n_items) & (rests > 0) & (sizes < sizes[-1]))
    efficient = int(sizes[good[-1]]) if len(good) else int(sizes[0])
    rows = [(int(m), float(r / rests.sum()), float(c)) for m, r, c in zip(sizes, rests, cost, strict=True) if r > 0]
    return tuple(rows), efficient


def _choices_behind_guide(pilot: RankDistribution, draft: _Draft) -> Iterator[Choice]:
    """Designs with more and more negatives of the rest, until the half-widths are as wanted.

    Each open case of the pilot gets a number of better items in its rest from its own posterior, and is sampled anew.
    """
    counts, fitted = pilot.counts, pilot.fitted
    design = counts.design
    if not isinstance(design, Guided) or fitted is None:
        raise ValueError("`pilot` must have open cases of a guided design: there is nothing to plan.")
    rng, done = np.random.default_rng(0), counts.sampled_part()[0]
    open_, better = _made_up(pilot, fitted, rng)
    negatives, largest = max(int(fitted.column("drawn").max()), 1), int(open_["rest"].max())
    for _ in range(DOUBLINGS):
        tried = replace(design, negatives=min(negatives, largest), max_negatives=None)
        drawn, hits = tried.simulate(better + 1, open_["rest"] + 1, rng)
        made = RankCounts.from_outcomes(
            drawn, hits, np.full(len(hits), round(counts.n_items)), tried, candidates=counts.candidates, **open_
        )
        if done is not None:  # cases that are closed, or compared with all, do not change
            made += replace(done, design=tried)
        dist = draft.guess.estimator.fit(made)
        half = half_widths(dist, draft.goals, draft.planner.level, cases=draft.cases)
        yield draft.choice(tried, made.items_scored / len(made), half, rounds=True)
        if negatives >= largest or all(half[metric] <= goal for metric, goal in draft.goals.items()):
            return
        negatives *= 2


def _made_up(
    dist: RankDistribution, fitted: RankCounts, rng: np.random.Generator
) -> tuple[dict[str, IntArray], IntArray]:
    """What is known of the pilot's open cases, and how many of the rest are better, drawn from each one's posterior."""
    outcomes, which = np.unique(fitted.outcomes, axis=0, return_inverse=True)
    law = dist.grid.law(fitted.design, fitted.n_items, outcomes[:, 0], outcomes[:, 1])
    rest = np.maximum(np.round(fitted.pool_weight / fitted.weight).astype(np.int64) - 1, 1)
    row, known, hits = dist.rows[fitted.group_of], fitted.all_compared, fitted.column("hits")
    better = []
    for cell, number in enumerate(fitted.cases):
        weight = np.cumsum(np.maximum(dist.masses[row[cell]], 0.0) * law[:, which.ravel()[cell]])
        if known[cell] or not weight[-1] > 0:
            better.append(np.full(number, hits[cell]))
            continue
        place = np.minimum(np.searchsorted(weight, rng.random(number) * weight[-1]), len(weight) - 1)
        better.append(rng.integers(dist.grid.lo[place], dist.grid.hi[place] + 1) - 1)
    about = {name: np.repeat(fitted.column(name), fitted.cases) for name in ("ahead", "recent", "order", "targets")}
    about |= {"rest": np.repeat(rest, fitted.cases), "recent": np.minimum(about["recent"], about["ahead"])}
    return about, np.minimum(np.concatenate(better), about["rest"])


def _behind_guide(pilot: RankDistribution, draft: _Draft, max_items: int | None) -> dict[str, Any]:
    """What a plan says of more negatives of the rest, behind the part that the pilot compared."""
    choices = [draft.everything, *_choices_behind_guide(pilot, draft)]
    best = draft.recommended(choices, max_items, 1.0)
    best = best if choices[best].share < 1 else 0  # ranking everything costs no more
    choices[best] = replace(choices[best], recommended=True)
    frontier = tuple((each.share, each.relative) for each in choices[1:])
    note = "Planned behind the part that the pilot compared; `evaluate(…, guide=…)` also goes deeper where that finds more."
    return {"choices": tuple(choices), "frontier": frontier, "stages": (), "efficient_ceiling": 0, "notes": (note,)}


def _guess(pilot: RankDistribution | None, n_items: int | None, cases: int | None) -> tuple[Guess, int]:
    """Return the ranks to plan with, and the number of cases."""
    if pilot is None:
        if n_items is None or cases is None:
            raise ValueError("`n_items` and `cases` are needed: the size of the catalogue, and how many test cases.")
        if isinstance(n_items, bool) or not isinstance(n_items, int | np.integer) or not 2 <= n_items <= MOST_ITEMS:
            raise ValueError(f"`n_items` must be a whole number from 2 to 2**50, got {n_items!r}.")
        check_whole("cases", cases, 1)
        return Guess.prior(int(n_items)), cases
    if not isinstance(pilot, RankDistribution):
        raise TypeError(f"`pilot` must be RankCounts, an estimate of ranks or a Report, got a {type(pilot).__name__}.")
    N = round(pilot.counts.n_items)
    if n_items is not None and abs(n_items - N) > 0.05 * N:
        raise ValueError(f"`n_items` must be the pilot's {N:,} candidates or left out, got {n_items!r}.")
    check_whole("cases", cases, 1, none=True)
    return Guess.of(pilot), len(pilot.counts) if cases is None else cases


def _frontier(rehearsal: Rehearsal, choices: Sequence[Choice], values: ByMetric) -> tuple[Pair, ...]:
    """Return (share of the full ranking, relative half-width) of the best that sampling in rounds reaches, cheapest first.

    Candidates are screened with P(R) taken as known. What a fit leaves open beyond that is known at the choices, which were
    fitted: along the line it is interpolated between those that sample in rounds, and the cheapest, where these begin. The
    line is without audits.
    """
    tried, screen = rehearsal.candidates(values)
    share = np.array([items for items, *_ in tried]) / (rehearsal.guess.n_items - 1)
    half = np.minimum.accumulate(np.max([screen[m] / max(abs(value), 1e-12) for m, value in values.items()], axis=0))
    full = rehearsal.cases * (rehearsal.guess.n_items - 1)
    sampled = [((each.items - each.audit) / full, each) for each in choices if 0 < each.share < 1 and each.relative > 0]
    sampled.sort(key=lambda each: each[0])
    known = [each for place, each in enumerate(sampled) if place == 0 or each[1].design.grows]
    if known and half.any():
        some = half > 0
        at = np.log([sampled_share for sampled_share, _ in known])
        screened = np.interp(at, np.log(share[some]), np.log(half[some]))
        beyond = np.maximum(np.log([each.relative for _, each in known]) - screened, 0.0)
        half = np.minimum.accumulate(half * np.exp(np.interp(np.log(share), at, beyond)))
    half = np.maximum(half, choices[0].relative)  # what even the full ranking leaves open
    kept = np.flatnonzero(np.diff(half, prepend=np.inf) < 0)
    return tuple((float(share[place]), float(half[place])) for place in kept)


#: Ticks of logarithmic axes in percent: every power of ten is at an even place.
_TICKS = [float(f"{digit}e{power}") for power in range(-9, 4) for digit in (1, 3)]


def _in_words(design: Design) -> str:
    """Say in words what a design compares each case with."""
    if design.exhaustive:
        return "rank everything"
    if isinstance(design, Sample):
        return f"compare each case with {design.negatives:,} random item{'s' * (design.negatives != 1)}"
    if not isinstance(design, Adaptive):
        return f"sample in rounds, about as far as '{design}'"
    top = "if need be all" if design.max_negatives == "all" else f"up to {design.max_negatives:,}"
    beaten = "one of them beats" if design.stop_at == 1 else f"{design.stop_at} of them beat"
    return f"compare each case with {design.negatives:,} random items, and with more, {top}, until {beaten} its target"


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.9995 else f"{share:.1%}" if share >= 0.01 else f"{100 * share:.2g}%"
