"""The comparison that can fail: verdicts, what they refuse, and the claims."""

from dataclasses import replace

import numpy as np
import pytest

from fullrank_papers import Result, experiment, experiments
from fullrank_papers.catalogue import published, steps
from fullrank_papers.claims import CLAIMS
from fullrank_papers.facts import FACTS
from fullrank_papers.judging import judge, overall, power, tally
from fullrank_papers.kinds import Row
from fullrank_papers.show import summary

METRICS = experiment("jin21-table2")


def told(model="EASE", metric="recall@10", **by):
    """The published rows of a model, measured as ``by`` says: estimator → factor on the published value, or (value, sd)."""
    table = published(METRICS.published)
    rows = []
    for (data, name, at, estimator), (value, sd) in table.items():
        if (name, at) == (model, metric):
            given = by.get(estimator.replace(".", "_"), 1.0)
            rows.append(Row(data, name, at, estimator, value * given, sd, value, sd))
    return Result(METRICS, 100, tuple(rows))


def verdict(result, estimator):
    return next(cell.verdict for cell in judge(result) if cell.row.estimator == estimator)


def test_the_paper_reproduces_itself():
    for made in experiments().values():
        if not made.published:
            continue
        rows = tuple(
            Row(*key, value, sd if sd is not None or key[3] in ("exact", "SHR") else 0.001, value, sd)
            for key, (value, sd) in published(made.published).items()
        )
        cells = judge(Result(made, made.repeats, rows))
        assert len(cells) == len(rows)
        assert tally(cells) == {"reproduced": len(rows), "close": 0, "differs": 0}, made.name
        assert overall(cells) == "reproduced"


def test_other_exact_values_do_not_matter_where_estimates_miss_them_by_the_same():
    every = dict.fromkeys(("exact", "CLS", "BV0_1", "BV0_01", "MLE", "WMLE", "MES"), 1.3)
    cells = judge(told(**every))
    assert {cell.verdict for cell in cells if not cell.exact} == {"reproduced"}
    assert [cell.verdict for cell in cells if cell.exact] == ["differs"]  # judged apart


def test_three_standard_errors_and_ten_percent():
    value, sd = published(METRICS.published)["ml-1m", "EASE", "recall@10", "CLS"]
    error = np.sqrt(2) * sd / 10 / value
    assert verdict(told(CLS=1 + 2.5 * error), "CLS") == "reproduced"
    assert verdict(told(CLS=1 + 5 * error), "CLS") == "close"
    assert verdict(told(CLS=1.12), "CLS") == "differs"


def test_near_but_in_another_order_is_not_close():
    rows = [
        Row("d", "m", "recall@10", "exact", 10.0, None, 10.0),
        Row("d", "m", "recall@10", "MLE", 10.6, 0.1, 10.0, 0.1),
        Row("d", "m", "recall@10", "MES", 10.2, 0.1, 10.4, 0.1),
    ]
    table = {(row.data, row.model, row.metric, row.estimator): (row.published, row.published_sd) for row in rows}
    cells = judge_with(table, rows)
    assert {cell.row.estimator: cell.verdict for cell in cells if not cell.exact} == {
        "MLE": "differs",
        "MES": "differs",
    }
    assert all("order" in cell.reason for cell in cells if cell.verdict == "differs")
    rows[2] = replace(rows[2], measured=11.0)
    cells = judge_with(table, rows)
    assert {cell.row.estimator: cell.verdict for cell in cells if not cell.exact} == {"MLE": "close", "MES": "close"}


def judge_with(table, rows):
    from fullrank_papers import judging

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "published", lambda file: table)
        patch.setattr(judging, "steps", lambda file: dict.fromkeys(table, 0.005))
        return judge(Result(METRICS, 100, tuple(rows)))


def test_power_counts_wrong_columns_that_pass():
    rows = [Row("d", "m", "recall@10", "exact", 10.0, None, 10.0)]
    rows += [
        Row("d", "m", "recall@10", word, value, sd, value, sd)
        for word, value, sd in (("CLS", 5.0, 0.1), ("MLE", 9.0, 0.1), ("MES", 9.01, 0.1))
    ]
    table = {(row.data, row.model, row.metric, row.estimator): (row.published, row.published_sd) for row in rows}
    found = power(judge_with(table, rows))
    assert (found.pairs, found.passed) == (4, 0)  # MLE and MES are not told apart by the paper, so no pair
    vague = [replace(row, sd=100.0) if row.sd else row for row in rows]
    found = power(judge_with(table, vague))
    assert found.share == 1.0  # an estimate that says nothing passes for anything
    assert found.either == found.passed  # its own column too
    assert (power([]) + found).pairs == 4
    swapped = [replace(row, measured=9.0) if row.estimator == "CLS" else row for row in rows]
    found = power(judge_with(table, swapped))
    assert (found.passed, found.either) == (2, 0)  # CLS passes for MLE and MES, and is told from itself


def test_within_two_deviations_of_single_runs_would_have_had_no_power():
    """The rule this one replaces let nearly every estimator of li23's Table 10 pass for every other."""
    made = experiment("li23-table10")
    table = {key: each for key, each in published(made.published).items() if key[0] == "pinterest-20"}
    rows = tuple(Row(*key, value, sd, value, sd) for key, (value, sd) in table.items())
    cells = judge(Result(made, 100, rows))
    before = [
        abs(one.told - two.told) <= 2 * two.row.published_sd
        for one in cells for two in cells if one is not two and one.group == two.group
    ]  # fmt: skip
    assert np.mean(before) > 0.5
    assert power(cells).share < 0.2


def test_counts_are_binomial():
    made = experiment("jin21-table4")

    def count(ours, theirs):
        row = Row("ml-1m", "winner", "recall@1", "MLE", ours, None, theirs)
        key = ("ml-1m", "winner", "recall@1", "MLE")
        from fullrank_papers import judging

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judging, "published", lambda file: {key: (theirs, None)})
            patch.setattr(judging, "steps", lambda file: {key: 0.5})
            return judge(Result(made, 100, (row,)))[0].verdict

    assert count(60, 50) == "reproduced"
    assert count(80, 50) == "differs"
    assert count(90, 100) == "close"
    assert count(0, 0) == "reproduced"


def test_rows_beside_the_table_are_judged_and_not_counted():
    made = experiment("kr20-table3")
    value, sd = published(made.published)["ml-1m", "Y", "auc", "rank_estimate"]
    exact, _ = published(made.published)["ml-1m", "Y", "auc", "exact"]
    rows = (
        Row("ml-1m", "Y", "auc", "exact", exact, None, exact),
        Row("ml-1m", "Y", "auc", "rank_estimate", value + 10 * sd, sd, value, sd),
        Row("ml-1m", "Y", "auc", "rank_estimate, m+1", value, sd, value, sd),
    )
    cells = judge(Result(made, 100, rows))
    assert [cell.verdict for cell in cells][2] == "reproduced"
    assert sum(tally(cells).values()) == 2
    assert overall(cells) != "reproduced"
    assert "rank_estimate" not in summary(Result(made, 100, rows))
    told = next(cell for cell in cells if cell.row.estimator == "rank_estimate")
    assert told.verdict != "differs" or "eq. 20" in told.reason
    own = Row("pinterest-20", "EASE", "recall@1-50", "BV_MLE, own prior", 5.0, 1.0, 5.0, 1.0)
    assert judge(Result(experiment("li23-table6"), 100, (own,))) == []


def test_printed_digits_are_known():
    found = steps("kr20_table3_ml1m_metrics.csv")
    assert found["ml-1m", "Y", "recall@10", "exact"] == pytest.approx(0.005)
    assert set(found) == set(published("kr20_table3_ml1m_metrics.csv"))


def test_every_claim_says_how_it_could_fail():
    figures = [claim for each in FACTS.values() for claim in each]
    for claim in (*CLAIMS, *figures):
        assert claim.fails, claim.text
        assert claim.judge({}).holds in (None, True)  # True: needs no result
    assert set(FACTS) == {name for name, made in experiments().items() if made.is_figure}
