"""`plan`: what it foretells is what happens."""

import json
import re

import numpy as np
import pytest
from made_up import make_world

import fullrank as fr
from fullrank.evaluation.audit import AUDIT_SHARE, FEWEST_USERS, expected_audit, paid_for
from fullrank.evaluation.plan import sampling_cost
from fullrank.evaluation.planner import Candidate, Guess, Rehearsal, typical


@pytest.fixture(scope="module")
def pilot():
    models, split = make_world(users=2500, items=3000, seed=5)
    return models["good"], split, fr.observe(models["good"], split, "adaptive 99..799 stop 1", rng=9, progress=False)


def test_what_is_planned_is_what_happens(pilot):
    """The rounds and the audit are in the plan: what the run asks for in all is what was planned."""
    model, split, counts = pilot
    plan = fr.plan(metric=["ndcg@10", "recall@10"], precision=0.05, pilot=counts)
    asked, audits = [], []
    for seed in range(3):
        report = fr.evaluate(
            model, split, ["ndcg@10", "recall@10"], design="adaptive", precision=0.05, rng=seed, progress=False
        )
        asked.append(report.rows[0]["items_scored"])
        audits.append(asked[-1] - next(iter(report.estimates.values())).counts.items_scored)
        widest = max((row["high"] - row["low"]) / 2 / row["value"] for row in report.rows)
        assert widest == pytest.approx(plan.half_width, rel=0.25)
    assert np.mean(asked) == pytest.approx(plan.items, rel=0.2)
    assert np.mean(audits) == pytest.approx(plan.recommended.audit, rel=0.3)


def test_the_table_says_what_the_designs_leave_open(pilot):
    _, split, counts = pilot
    plan = fr.plan(metric="ndcg@10", precision=0.05, pilot=counts)
    by_name = {str(each.design): each for each in plan.choices}
    assert by_name["exhaustive"].half_width == 0
    assert by_name["exhaustive"].share == 1
    assert by_name["uni99"].relative > by_name["uni999"].relative > plan.recommended.relative
    assert by_name["uni99"].items == 99 * len(split)
    assert by_name["uni99"].bounds > by_name["uni999"].bounds
    assert plan.recommended.meets
    assert plan.recommended.relative <= 0.05
    shares, halves = zip(*plan.frontier, strict=True)
    assert list(shares) == sorted(shares)
    assert list(halves) == sorted(halves, reverse=True)


@pytest.mark.parametrize("target", ["cases", "population"])
def test_the_line_of_a_plan_leads_through_the_designs_of_its_table(target):
    """What a fit leaves open beyond known ranks is in the line too, and no more is promised than the full ranking gives."""
    plan = fr.plan(n_items=20_000, cases=2_000, metric="ndcg@10", precision=0.05, target=target)
    shares, halves = np.array(plan.frontier).T
    for each in plan.choices:
        if each.design.grows:
            share = each.share * (1 - each.audit / each.items)  # the line is without the audits
            assert np.exp(np.interp(np.log(share), np.log(shares), np.log(np.maximum(halves, 1e-9)))) == (
                pytest.approx(each.relative, rel=0.1)
            )
    assert halves[0] == pytest.approx(max(each.relative for each in plan.choices), rel=0.01)
    assert halves.min() >= plan.choices[0].relative


def test_more_precision_costs_more(pilot):
    counts = pilot[2]
    costs = [fr.plan(metric="ndcg@10", precision=each, pilot=counts).items for each in (0.2, 0.1, 0.05, 0.02)]
    assert costs == sorted(costs)


def test_text_fits_the_screen_and_the_rest_is_well_formed(tmp_path):
    plan = fr.plan(n_items=1_000_000, cases=20_000, metric="recall@20", precision=0.05)
    assert max(len(line) for line in str(plan).splitlines()) <= 80
    assert "Blind spot" in str(plan)
    assert json.loads(plan.to_json()) == json.loads(json.dumps(plan.to_dict()))
    assert "<table>" in plan._repr_html_()
    pytest.importorskip("altair")
    assert plan.plot().to_dict()["layer"]
    pytest.importorskip("vl_convert")
    assert "<svg" in plan.to_html(tmp_path / "plan.html").read_text()


def test_population_says_how_many_cases_it_takes():
    plan = fr.plan(n_items=5000, cases=1000, metric="recall@10", precision=0.02, target="population")
    floor = plan.choices[0].relative
    assert floor > 0.02
    assert f"{int(np.ceil(1000 * (floor / 0.02) ** 2)):,}"[:3] in " ".join(plan.notes)
    enough = fr.plan(n_items=5000, cases=100_000, metric="recall@10", precision=0.05, target="population")
    assert enough.recommended.cases < 100_000
    assert enough.recommended.relative <= 0.055


def test_within_a_budget_fewer_users_are_better_than_no_depth():
    plan = fr.plan(
        n_items=40_000, cases=100_000, metric="ndcg@10", precision=0.02, target="population", max_items=10_000_000
    )
    assert plan.items <= 10_000_000
    assert plan.recommended.cases < 50_000
    assert plan.recommended.relative < next(each.relative for each in plan.choices if str(each.design) == "uni99")


def test_dear_items_make_exact_the_choice(pilot):
    plan = fr.plan(metric="ndcg@10", precision=0.02, pilot=pilot[2], gather_cost=50)
    assert plan.design == fr.Exhaustive()
    assert any("cheaper" in note for note in plan.notes)


def test_a_pilot_may_be_counts_an_estimate_or_a_report(pilot):
    counts = pilot[2]
    report = fr.correct({"a": counts}, metrics="ndcg@10")
    plans = [fr.plan(pilot=each, precision=0.1) for each in (counts, fr.LogSpline().fit(counts), report)]
    assert len({plan.items for plan in plans}) == 1


def test_misuse_is_one_sentence(pilot):
    with pytest.raises(ValueError, match="`n_items` and `cases` are needed"):
        fr.plan(n_items=100)
    with pytest.raises(ValueError, match=r"`precision` must be .* got 0"):
        fr.plan(100, 100, precision=0)
    with pytest.raises(ValueError, match="`cases` must be a whole number of at least 1, got 0"):
        fr.plan(100, 0)
    with pytest.raises(ValueError, match="`n_items` must be the pilot's"):
        fr.plan(n_items=10, pilot=pilot[2])
    with pytest.raises(TypeError, match=r"`pilot` must be .* got a int"):
        fr.plan(100, 100, pilot=3)


# ------------------------------------------------------------------------------------------------- the rehearsal


@pytest.fixture(scope="module")
def rehearsal():
    metrics = [fr.NDCG @ 5, fr.Recall @ 10]
    return Rehearsal(Guess.prior(300), 4000, metrics, start=9), metrics


def test_rehearsed_designs_follow_their_law(rehearsal):
    """Shares of outcomes against P(outcome) = Σ_R P(R) P(outcome | R) of the design itself."""
    acted, _ = rehearsal
    counts = acted.counts(3, 79)
    design = counts.design
    drawn, hits = design.outcomes(300)
    ranks = np.arange(1, 301)
    mass = np.bincount(acted.guess.ranks(4000), minlength=301)[1:] / 4000
    expected = mass @ design.law(ranks, 300, drawn, hits)
    seen = {(m, x): w for m, x, w in zip(counts.column("drawn"), counts.column("hits"), counts.weight, strict=True)}
    for m in np.unique(drawn):
        for x in range(4):
            here = (drawn == m) & (hits == x)
            if here.any():
                total = sum(w for (a, b), w in seen.items() if (a, b) == (m, x)) if (m, x) in seen else 0.0
                observed = counts.weight[(counts.column("drawn") == m) & (counts.column("hits") == x)].sum() / 4000
                assert observed == pytest.approx(expected[here].sum(), abs=4 * np.sqrt(0.25 / 4000) + 1e-9), total


def test_what_is_left_open_against_bayes_by_hand(rehearsal):
    acted, metrics = rehearsal
    place = int(np.flatnonzero(acted.sizes == 39)[0])
    ranks = np.arange(1, 301)
    mass = acted.guess.mass / acted.guess.grid.width
    mass = np.repeat(mass, acted.guess.grid.width.astype(int))
    for metric in metrics:
        gain = metric.gain(ranks, 300)
        for x in range(4):
            law = fr.Sample(39, replace=False).law(ranks, 300, [39], [x])[:, 0]
            after = mass * law / (mass @ law)
            variance = after @ gain**2 - (after @ gain) ** 2
            assert acted.left_open(metric)[place, x] == pytest.approx(variance, rel=0.02)


def test_going_to_the_end_leaves_nothing_open(rehearsal):
    acted, metrics = rehearsal
    tried, screen = acted.candidates(metrics)
    deepest = [place for place, (_, stop, _) in enumerate(tried) if stop == 10]
    deepest.sort(key=lambda place: tried[place][2])
    assert tried[deepest[-1]][2] == 299
    for metric in metrics:
        wide = screen[metric][deepest]
        assert wide[-1] == 0
        assert np.all(np.diff(wide) <= 0.1 * wide[0])


def test_cheapest_reaches_its_goals(rehearsal):
    acted, metrics = rehearsal
    goals = {metric: 0.05 * acted.guess.value(metric) for metric in metrics}
    found = acted.cheapest(goals)
    assert all(found.half_widths[metric] <= goals[metric] for metric in metrics)
    assert found.items < 299


def test_a_plan_rehearses_among_the_candidates_of_its_pilot():
    ranks = 1 + np.random.default_rng(0).binomial(99, np.random.default_rng(1).beta(0.3, 3, 1000))
    values = {}
    for candidates in ("unseen", "all"):
        counts = fr.RankCounts.from_ranks(ranks, 5000, "uni99", candidates=candidates)
        guess = Guess.of(fr.LogSpline().fit(counts))
        rehearsal = Rehearsal(guess, 500, [fr.NDCG @ 10])
        assert guess.candidates == rehearsal.counts(1, 999).candidates == candidates
        values[candidates] = fr.plan(pilot=counts, precision=0.2).values["ndcg@10"]
        assert Guess.prior(5000, candidates).candidates == candidates
    assert values["unseen"] != values["all"]
    assert Guess.prior(5000, "all").value(fr.NDCG @ 10) != Guess.prior(5000).value(fr.NDCG @ 10)
    assert Guess.prior(5000, "given").value(fr.NDCG @ 10) == Guess.prior(5000).value(fr.NDCG @ 10)


@pytest.mark.parametrize(
    "design",
    [fr.Sample(49), fr.Sample(49, replace=False), fr.Adaptive(9, 199, 2), fr.Adaptive(9, "all", 2, False)],
    ids=str,
)
def test_typical_counts_are_those_of_the_design_without_chance(design):
    guess, cases = Guess.prior(500), 3000
    counts = typical(design, guess, cases)
    assert len(counts) == cases
    ranks = guess.ranks(200_000)  # acted out many times
    drawn, hits = design.simulate(ranks, 500, np.random.default_rng(0))
    for m in np.unique(drawn):
        here = (counts.column("drawn") == m) | ((m == 0) & (counts.column("drawn") == 499))
        assert counts.weight[here].sum() / cases == pytest.approx(np.mean(drawn == m), abs=0.005)
        for x in range(4):
            seen = counts.weight[here & (counts.column("ahead") + counts.column("hits") == x)].sum() / cases
            assert seen == pytest.approx(np.mean((drawn == m) & (hits == x)), abs=0.005)


def test_sampling_cost_is_li23_eq_13(rehearsal):
    acted, _ = rehearsal
    rows, efficient = sampling_cost(acted)
    counts = acted.counts(1, 299)
    left, before = 4000.0, 0
    for size, share, cost in rows:
        m = counts.weight[counts.column("drawn") == (0 if size == 299 else size)].sum()
        assert share == pytest.approx(m / 4000)
        assert cost == pytest.approx(left * (size - before) / m)
        left, before = left - m, size
    assert efficient in [size for size, *_ in rows]


def test_enormous_catalogues_are_planned_or_refused():
    plan = fr.plan(n_items=2**40, cases=1000, metric="recall@10", precision=0.5)
    assert plan.n_items == 2**40
    with pytest.raises(
        ValueError, match=r"`n_items` must be a whole number from 2 to 2\*\*50, got 9223372036854775808"
    ):
        fr.plan(n_items=2**63, cases=1000, metric="recall@10", precision=0.5)


# ------------------------------------------------------------------------------------------------ budgets and audits


@pytest.mark.parametrize("target", ["cases", "population"])
@pytest.mark.parametrize("max_items", [20_000, 50_000, 99_000, 600_000, 2_000_000, 10**9])
def test_within_a_budget_the_best_that_it_pays_for_is_recommended(max_items, target):
    plan = fr.plan(20_000, 1000, "recall@10", max_items=max_items, target=target, precision=0.1)
    fitting = [each for each in plan.choices if each.items <= max_items]
    best = plan.recommended
    assert best in fitting
    meeting = [each for each in fitting if each.meets]
    if meeting:
        assert best.items == min(each.items for each in meeting)
    elif target == "cases":  # what 1,000 cases leave open of the population no design narrows
        assert best.relative == min(each.relative for each in fitting)
        assert "The budget does not reach the precision" in " ".join(plan.notes)


def test_where_no_design_fits_the_least_is_shown():
    plan = fr.plan(20_000, 1000, "recall@10", max_items=600)
    assert str(plan.verdict).startswith(
        "No design fits 600 items: the least that can be done is to compare each case with"
    )
    assert "with 1 random item, which scores 1,000 items" in str(plan.verdict)
    assert plan.items == min(each.items for each in plan.choices) == 1000
    assert " ".join(str(plan).split()).count("No design fits") == 1


def test_what_does_not_go_on_is_a_plain_sample():
    """And designs that are as good as each other are found to be, with replacement or without."""
    plan = fr.plan(1_000_000, 50_000, "ndcg@10", max_items=5_000_000)
    assert plan.design == fr.Sample(100, replace=False)
    assert not plan.recommended.rounds
    assert "uni99" not in {str(each.design) for each in plan.choices}  # as good as the recommended
    other = fr.plan(1_000_000, 50_000, "ndcg@10")
    plain = next(each for each in other.choices if str(each.design) == "uni99")
    assert plan.recommended.relative == pytest.approx(plain.relative, rel=0.02)
    assert other.recommended.rounds
    assert fr.plan(5, 10).design == fr.Exhaustive()  # all that there is


def test_what_a_sample_shows_by_itself_needs_no_audit():
    narrow = fr.plan(3000, 100_000, "auc", precision=0.02)
    assert narrow.recommended.audit == 0
    assert next(each for each in narrow.choices if str(each.design) == "uni999").meets
    plan = fr.plan(3000, 100_000, "ndcg@10", precision=0.2)
    assert plan.recommended.audit > 0
    assert not next(each for each in plan.choices if str(each.design) == "uni999").meets
    assert any("no audit checks" in note for note in plan.notes)


@pytest.mark.parametrize("metric", ["recall@10", "ap"])
@pytest.mark.parametrize(("cases", "left"), [(50, np.inf), (4000, np.inf), (300_000, np.inf), (4000, 9000.0)])
def test_the_expected_audit_is_the_audit_case_by_case(metric, cases, left):
    """Against ranking open cases in full one after the other until the share is spent, in many random orders."""
    wanted = [fr.parse_metric(metric)]
    acted = Rehearsal(Guess.prior(2000), cases, wanted, start=49)
    found = Candidate(2, 799, acted.items(2, 799), {})
    place, hits = acted.outcomes(2, 799)
    rest = 1999 - acted.sizes[place]
    if metric == "ap":
        table = acted.left_open(fr.AP)
        open_ = table[place, np.minimum(hits, table.shape[1] - 1)]
        order = np.argsort(-open_)
        enough = np.searchsorted(np.cumsum(open_[order]), 0.9 * open_.sum())
        chosen = open_ >= open_[order[enough]]
    else:
        chosen = (rest > 0) & (hits < 10)
    room, spent = min(AUDIT_SHARE * found.items * cases, left), []
    for seed in range(100):
        total = number = 0
        for case in np.random.default_rng(seed).permutation(np.tile(np.flatnonzero(chosen), -(-cases // len(rest)))):
            if total + rest[case] > room and (number >= FEWEST_USERS or np.isfinite(left)):
                break
            total, number = total + rest[case], number + 1
        spent.append(total)
    assert expected_audit(acted, wanted, found, 10, left) == pytest.approx(np.mean(spent), rel=0.15)


def test_an_audit_takes_what_it_is_paid_for_and_no_fewer_than_the_fewest():
    assert paid_for(np.array([5, 5, 5, 5, 5]), 14, 0, 99) == 2
    assert paid_for(np.array([5, 5, 5, 5, 5]), 15, 0, 99) == 3
    assert paid_for(np.array([5, 5, 5, 5, 5]), 4, 4, 99) == 4
    assert paid_for(np.array([5, 5, 5, 5, 5]), 4, 4, 11) == 2  # no more than the run itself took
    assert paid_for(np.array([500, 500]), 4, 4, 11) == 0


def test_a_metric_that_is_negative_has_half_widths_like_others():
    plan = fr.plan(n_items=1000, cases=100, metric=fr.Metric("loss", lambda R: -np.minimum(R, 50.0)), precision=0.1)
    assert all(0 <= each.relative < 10 for each in plan.choices)


# ----------------------------------------------------------------------------------------------------- how it reads


@pytest.mark.parametrize("max_items", [None, 10**5, 10**8])
@pytest.mark.parametrize("n_items", [20_000, 1_000_000, 2**40])
def test_the_recommended_design_is_legible_and_parses_back(n_items, max_items):
    plan = fr.plan(n_items, 20_000, "recall@10", 0.05, max_items=max_items)
    lines = str(plan).splitlines()
    assert max(map(len, lines)) <= 80
    start = next(place for place, line in enumerate(lines) if line.startswith("> "))
    below = lines[start + 1] if lines[start + 1].startswith("    ") else ""
    name = re.split(r"\s{2,}", lines[start][2:])[0] + " " + below.strip()
    assert fr.parse_design(name) == plan.design
    said = " ".join(" ".join(lines).split())
    assert f"Recommended (marked >) is '{plan.design}': fr.evaluate(…, " in said
    if plan.design.grows:
        assert f"with {plan.design.negatives} random items, and with more" in said
        assert "design='adaptive', precision=0.05" in said
    pytest.importorskip("jinja2")
    assert "Recommended (marked &gt;) is" in plan.to_html()


def test_a_plan_says_that_some_models_are_ranked_exactly_for_less():
    plan = fr.plan(20_000, 2_000, "ndcg@10", 0.05)
    assert any("ranking exactly may cost less" in note for note in plan.notes)
    assert not any("ranking exactly may cost less" in note for note in fr.plan(5, 10).notes)
    assert all(each.design.beyond is None for each in plan.choices)  # never recommended: the model is not known


def test_a_plan_says_how_far_it_may_be_off(pilot):
    guessed, piloted = fr.plan(20_000, 2_000, precision=0.05), fr.plan(pilot=pilot[2], precision=0.05)
    assert any("without a pilot" in note for note in guessed.notes)
    assert any("from a pilot" in note for note in piloted.notes)


def test_hits_and_recall_of_several_targets_are_planned_as_two_metrics():
    rng = np.random.default_rng(0)
    about = {"users": np.repeat(np.arange(400), 3), "order": np.tile([1, 2, 3], 400), "targets": np.full(1200, 3)}
    ranks = np.sort(1 + rng.binomial(99, rng.beta(0.4, 3, (400, 3))), axis=1).ravel()
    pilot = fr.RankCounts.from_ranks(ranks, 5000, "uni99", **about)
    both = fr.plan(pilot=pilot, metric=["recall@10", "hr@10"], precision=0.2)
    for name in ("recall@10", "hr@10"):
        assert both.values[name] == pytest.approx(fr.plan(pilot=pilot, metric=name, precision=0.2).values[name])
    assert both.values["hr@10"] > 1.5 * both.values["recall@10"]
