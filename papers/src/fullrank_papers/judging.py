"""Whether a measured number is the published one: three verdicts, and how often a wrong number would have passed.

Models trained here have true values of their own, so that what is compared is what the papers are about: by how much an
estimate misses the exact value of its own model, relative to it, published against ours, in standard errors of both means.
Exact values are judged apart. Where a table prints relative errors, or counts of repeats, these are compared as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from .catalogue import Key, published, steps
from .kinds import Row
from .simulate import OWN

if TYPE_CHECKING:
    from .engine import Result

__all__ = ["VERDICTS", "Cell", "Power", "judge", "overall", "power", "tally"]

VERDICTS = ("reproduced", "close", "differs")
#: Standard errors within which two means are the same, and the relative difference up to which a number is close.
ERRORS, NEAR = 3.0, 0.10
#: Share of a table's cells that decides its verdict.
MOST = 0.8


@dataclass(frozen=True)
class Cell:
    """One published number and ours, made comparable: ``ours`` and ``told`` with their standard errors.

    ``size`` is what a relative difference refers to, ``rounding`` what printing may have changed. ``exact`` cells are true
    values of models, or what depends on nothing else; the others are judged against ``group``, the cells of the same model
    and metric. A cell ``beside`` the table is another reading of one of its columns: judged, and counted nowhere.
    """

    row: Row
    ours: float
    told: float
    ours_error: float = 0.0
    told_error: float = 0.0
    size: float = 1.0
    rounding: float = 0.0
    exact: bool = False
    beside: bool = False
    verdict: str = ""
    reason: str = ""

    @property
    def gap(self) -> float:
        """Ours minus the published one."""
        return self.ours - self.told

    @property
    def errors(self) -> float | None:
        """The gap in standard errors of both; None where there is no error to measure by."""
        error = float(np.hypot(self.ours_error, self.told_error))
        return self.gap / error if error > 0 else None

    @property
    def group(self) -> tuple[str, str, str]:
        """Cells with which it is compared: columns of one table, of the same data set, model and metric."""
        return self.row.data, self.row.model, self.row.metric


def judge(result: Result) -> list[Cell]:
    """Every measured number that was published, with its verdict."""
    cells = _cells(result)
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if not cell.exact and not cell.beside:
            groups.setdefault(cell.group, []).append(cell)
    return [_judged(cell, groups.get(cell.group, []), result) for cell in cells]


def _judged(cell: Cell, group: Sequence[Cell], result: Result) -> Cell:
    if passes(cell, cell):
        verdict = "reproduced"
    elif abs(cell.gap) <= NEAR * cell.size and (cell.exact or _same_order(cell, cell, group)):
        verdict = "close"
    else:
        verdict = "differs"
    return replace(cell, verdict=verdict, reason=_reason(cell, group, result) if verdict == "differs" else "")


def passes(ours: Cell, told: Cell) -> bool:
    """Whether our number of one cell would be taken for the published one of another (or the same)."""
    error = float(np.hypot(ours.ours_error, told.told_error))
    return abs(ours.ours - told.told) <= ERRORS * error + told.rounding + 1e-12


def separate(one: Cell, two: Cell) -> bool:
    """Whether the published numbers themselves tell two columns apart."""
    error = float(np.hypot(one.told_error, two.told_error))
    return abs(one.told - two.told) > ERRORS * error + one.rounding + two.rounding + 1e-12


def _same_order(ours: Cell, told: Cell, group: Iterable[Cell]) -> bool:
    """Whether ours stands to every other column as the published one does, where that tells them apart."""
    taken = {ours.row.estimator.split(",")[0], told.row.estimator.split(",")[0]}
    others = (each for each in group if each.row.estimator not in taken and separate(told, each))
    return all(np.sign(ours.ours - each.ours) == np.sign(told.told - each.told) for each in others)


# ------------------------------------------------------------------------------------------------ power


@dataclass(frozen=True)
class Power:
    """Of ``pairs`` of columns that the published numbers tell apart: how often ours would pass for the wrong one.

    ``passed`` counts as reproduced, ``near`` as reproduced or close, ``either`` those of ``passed`` whose number passes for
    its own column as well: there the comparison cannot tell the two columns apart. In the rest it can, and our number is
    nearer to the wrong one.
    """

    pairs: int = 0
    passed: int = 0
    near: int = 0
    either: int = 0

    @property
    def share(self) -> float:
        """Wrong columns that pass."""
        return self.passed / self.pairs if self.pairs else float("nan")

    def __add__(self, other: Power) -> Power:
        return Power(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def power(cells: Iterable[Cell]) -> Power:
    """Let every column of ours pose for every other that the paper separates from it."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if not cell.exact and not cell.beside:
            groups.setdefault(cell.group, []).append(cell)
    pairs = passed = near = either = 0
    for group in groups.values():
        for ours, told in permutations(group, 2):
            if not separate(ours, told):
                continue
            pairs += 1
            wrong = passes(ours, told)
            passed += wrong
            either += wrong and passes(ours, ours)
            near += wrong or (abs(ours.ours - told.told) <= NEAR * told.size and _same_order(ours, told, group))
    return Power(pairs, passed, near, either)


# ------------------------------------------------------------------------------------------------ totals


def tally(cells: Iterable[Cell]) -> dict[str, int]:
    """How many cells have each verdict."""
    found = [cell.verdict for cell in cells if not cell.beside]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def overall(cells: Sequence[Cell]) -> str:
    """The verdict on a table: the best that four fifths of its cells reach; exact values have no vote unless alone."""
    columns = [cell for cell in cells if not cell.beside]
    voters = [cell for cell in columns if not cell.exact] or columns
    if not voters:
        return "not measured"
    for place, verdict in enumerate(VERDICTS[:-1]):
        if sum(cell.verdict in VERDICTS[: place + 1] for cell in voters) >= MOST * len(voters):
            return verdict
    return "differs"


# ------------------------------------------------------------------------------------------------ what is compared


def _cells(result: Result) -> list[Cell]:
    made = result.experiment
    make = _MAKERS.get(made.kind)
    if make is None:
        return []
    told, step = published(made.published), steps(made.published)
    by = {(row.data, row.model, row.metric, row.estimator): row for row in result.rows}
    repeats = (made.repeats, result.repeats)
    cut = 2.0 if made.options.get("printed") == "cut" else 1.0
    cells = []
    for row in result.rows:
        key = _key(row)
        # each repeat's own prior is not what was published, though its row stands beside it
        if key in told and not row.estimator.endswith(OWN):
            cell = make(row, by, repeats, cut * step[key])
            cells.append(replace(cell, beside=row.estimator != key[3]))
    return cells


def _key(row: Row) -> Key:
    """What it was published under: a name after a comma says how we read the estimator."""
    return row.data, row.model, row.metric, row.estimator.split(",")[0]


def _spread(row: Row, repeats: tuple[int, int]) -> tuple[float, float]:
    """Standard errors of the published mean and of ours; one run's, where the paper has one."""
    told, ours = repeats
    own = (row.sd or 0.0) / np.sqrt(ours)
    return (row.published_sd / np.sqrt(told) if row.published_sd is not None else 0.0), own


def _metric(row: Row, by: Mapping[Key, Row], repeats: tuple[int, int], step: float) -> Cell:
    """(estimate − exact) / exact, each with its own exact value; as it is where no exact value is printed, or it is 0."""
    told, ours = float(row.published or 0.0), row.measured
    if row.estimator == "exact":
        return Cell(row, ours, told, size=abs(told), rounding=step, exact=True)
    told_error, own_error = _spread(row, repeats)
    truth = by.get((row.data, row.model, row.metric, "exact"))
    if truth is None or not truth.measured or not truth.published:
        return Cell(row, ours, told, own_error, told_error, max(abs(told), 1e-9), step)
    # the exact value is printed with as many digits
    rounding = step / truth.published * (1 + told / truth.published)
    return Cell(row, ours / truth.measured - 1, told / truth.published - 1, own_error / truth.measured,
                told_error / truth.published, told / truth.published, rounding)  # fmt: skip


def _plain(row: Row, by: Mapping[Key, Row], repeats: tuple[int, int], step: float) -> Cell:
    told_error, own_error = _spread(row, repeats)
    told = float(row.published or 0.0)
    return Cell(row, row.measured, told, own_error, told_error, abs(told), step)


def _count(row: Row, by: Mapping[Key, Row], repeats: tuple[int, int], step: float) -> Cell:
    """Counts of 100 repeats: binomial; a count at either end errs by half a repeat, not by nothing."""
    told = float(row.published or 0.0)

    def error(count: float, of: int) -> float:
        share = np.clip(count / 100, 0.5 / of, 1 - 0.5 / of)
        return float(100 * np.sqrt(share * (1 - share) / of))

    return Cell(row, row.measured, told, error(row.measured, repeats[1]), error(told, repeats[0]), 100.0, 0.0)


def _one_run(row: Row, by: Mapping[Key, Row], repeats: tuple[int, int], step: float) -> Cell:
    """The paper has one run: it varies as one of ours does."""
    told = float(row.published or 0.0)
    sd = row.sd or 0.0
    return Cell(row, row.measured, told, sd / np.sqrt(repeats[1]), sd, abs(told), step)


def _mapped(row: Row, by: Mapping[Key, Row], repeats: tuple[int, int], step: float) -> Cell:
    """(HR@f(k) − SHR@k) / SHR@k; SHR itself is a value of the model, and the paper has one run of it."""
    if row.estimator == "SHR":
        return replace(_one_run(row, by, repeats, step), exact=True)
    shr = by[row.data, row.model, row.metric, "SHR"]
    told, ours = float(row.published or 0.0), row.measured
    base = float(shr.published or np.nan)
    vary = (shr.sd or 0.0) / shr.measured
    ratio = told / base
    return Cell(row, ours / shr.measured - 1, ratio - 1, ours / shr.measured * vary / np.sqrt(repeats[1]), ratio * vary,
                ratio, step / base * (1 + ratio))  # fmt: skip


_MAKERS = {
    "metrics": _metric,
    "statistics": _metric,
    "relative errors": _plain,
    "pairs": _count,
    "winners": _count,
    "beta": _one_run,
    "mapping errors": _one_run,
    "mapped": _mapped,
}


# ------------------------------------------------------------------------------------------------ why


def _reason(cell: Cell, group: Sequence[Cell], result: Result) -> str:
    """Why a number differs: what the TOML says of its estimator or data set, else what the numbers say."""
    told = result.experiment.options.get("reasons", {})
    for name in (cell.row.estimator, cell.row.data, cell.row.model):
        if name in told:
            return str(told[name])
    row = cell.row
    truth = next((each for each in result.rows if (each.data, each.model, each.metric, each.estimator)
                  == (row.data, row.model, row.metric, "exact")), None)  # fmt: skip
    if truth is not None and truth.published and abs(truth.measured / truth.published - 1) > 0.05:
        return f"our {row.model} is another model: its exact values are {truth.measured / truth.published:.2f} × theirs"
    if cell.exact:
        return "our model is not theirs"
    if abs(cell.gap) <= NEAR * cell.size:
        return "columns come in another order"
    return str(told.get("", "the bias follows the ranks of a model, and ours are not theirs"))
