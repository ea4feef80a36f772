"""What can be reproduced: one TOML per table or figure, and the published numbers as CSV.

Numbers are as printed in the papers (jin21 prints its tables in units of 0.001); keys are (data set, model, metric,
estimator), whatever the columns of a file are called.
"""

from __future__ import annotations

import csv
import difflib
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["Experiment", "Key", "Published", "experiment", "experiments", "published", "steps"]

#: (data set, model, metric, estimator)
Key = tuple[str, str, str, str]
#: (value, standard deviation or None)
Published = tuple[float, float | None]

PAPERS = {
    "kr20": "Krichene & Rendle, On Sampled Metrics for Item Recommendation, KDD 2020",
    "li20": "Li et al., On Sampling Top-K Recommendation Evaluation, KDD 2020",
    "jin21": "Jin et al., On Estimating Recommendation Evaluation Metrics under Sampling, AAAI 2021",
    "li23": "Li et al., Towards Reliable Item Sampling for Recommendation Evaluation, AAAI 2023",
}
#: How a printed number relates to a fraction.
UNITS = {"fraction": 1.0, "percent": 100.0, "0.001": 1000.0, "of 100": 1.0, "": 1.0}


@dataclass(frozen=True)
class Experiment:
    """One table or figure: what its TOML says."""

    name: str
    title: str
    kind: str
    #: other names of the same numbers (li23's Table 1 is the beginning of its Table 6)
    also: tuple[str, ...] = ()
    published: str = ""
    unit: str = "fraction"
    data: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    estimators: tuple[str, ...] = ()
    candidates: str = "all"
    design: str = "uni99"
    repeats: int = 100
    seed: int = 0
    #: what the comparison cannot show, and why: data, training, protocol
    remarks: tuple[str, ...] = ()
    #: everything else is for the kind
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def paper(self) -> str:
        """Key of the paper."""
        return self.name.split("-")[0]

    @property
    def is_figure(self) -> bool:
        """Whether it draws rather than counts."""
        return "-fig" in self.name

    @property
    def scale(self) -> float:
        """What a fraction is multiplied by to be printed as in the paper."""
        return UNITS[self.unit]


@cache
def experiments() -> dict[str, Experiment]:
    """All of them, in the order of the papers."""
    folder = resources.files("fullrank_papers").joinpath("experiments")
    found = [_read(each.name.removesuffix(".toml"), each.read_text(encoding="utf-8")) for each in folder.iterdir()
             if each.name.endswith(".toml")]  # fmt: skip
    return {each.name: each for each in sorted(found, key=_place)}


def experiment(name: str) -> Experiment:
    """The experiment of that name, or of that other name."""
    found = experiments()
    names = {other: each for each in found.values() for other in (each.name, *each.also)}
    if name.lower() in names:
        return names[name.lower()]
    close = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "`fullrank-papers --list` names them all."
    raise ValueError(f"there is nothing to reproduce by the name of {name!r}: {hint}")


def _read(name: str, text: str) -> Experiment:
    told = tomllib.loads(text)
    known = {each for each in Experiment.__dataclass_fields__ if each not in ("name", "options")}
    named: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in told.items() if key in known
    }
    options = {key: value for key, value in told.items() if key not in known}
    made = Experiment(name, **named, options=options)
    if made.unit not in UNITS:
        raise ValueError(f"{name}.toml: `unit` is {made.unit!r}; allowed are {', '.join(map(repr, UNITS))}.")
    return made


def _place(each: Experiment) -> tuple[int, bool, int, str]:
    paper, what = each.name.split("-", 1)
    digits = "".join(letter for letter in what if letter.isdigit())
    return list(PAPERS).index(paper), what.startswith("fig"), int(digits), what


# ------------------------------------------------------------------------------------------------ published numbers


@cache
def published(file: str) -> dict[Key, Published]:
    """The numbers of one CSV by (data set, model, metric, estimator).

    ``"name.csv, n=100"`` is the part of a file whose models end in ", n=100", without that ending.
    """
    out: dict[Key, Published] = {}
    for key, row in _printed(file):
        sd = row.get("std") or None
        out[key] = float(row["value"]), None if sd is None else float(sd)
    return out


@cache
def steps(file: str) -> dict[Key, float]:
    """Half a unit of the last digit printed, by the same keys: what rounding may have changed."""
    return {key: 0.5 * 10.0 ** -len(row["value"].partition(".")[2]) for key, row in _printed(file)}


def _printed(file: str) -> Iterator[tuple[Key, dict[str, str]]]:
    name, _, part = file.partition(", ")
    if not name:
        return
    text = resources.files("fullrank_papers").joinpath("published").joinpath(name).read_text(encoding="utf-8")
    ending = f", {part}" if part else ""
    for row in csv.DictReader(text.splitlines()):
        data, model, metric, estimator = _key(row)
        if model.endswith(ending):
            yield (data, model.removesuffix(ending), metric, estimator), row


def _key(row: dict[str, str]) -> Key:
    """The key of a row, from whichever columns its file has."""
    for columns, make in _KEYS:
        if columns <= row.keys():
            return make(row)
    raise ValueError(f"a published table has columns this reader does not know: {', '.join(row)}.")


def _at(row: dict[str, str]) -> str:
    return row["metric"].lower() + (f"@{row['k']}" if row["k"] else "")


def _mapped(row: dict[str, str]) -> Key:
    model = row["model"] + (f", {row['scheme']}" if row.get("scheme") else "")
    if "k_printed" in row:  # the repository's table has two sample sizes
        model += f", n={int(row['n_negatives']) + 1}"
    return row["dataset"], model, f"k={row['k']}", "SHR" if row["metric"] == "SHR" else row["mapping"]


def _relative(row: dict[str, str]) -> Key:
    label = row["estimator"] if row["quantity"] == "mean_rel_error_pct" else "adaptive size"
    return row["dataset"], row["model"], _at(row), label


#: Which columns tell a file, and how its keys are made; the first that fits.
_KEYS: tuple[tuple[set[str], Callable[[dict[str, str]], Key]], ...] = (
    ({"model_a"}, lambda row: (row["dataset"], f"{row['model_a']} or {row['model_b']}", _at(row), row["estimator"])),
    ({"k_range"}, lambda row: (row["dataset"], row["model"], f"{row['error']} k={row['k_range']}", row["mapping"])),
    ({"mapping"}, _mapped),
    ({"parameter"}, lambda row: (row["dataset"], row["model"], "a", "beta@P")),
    ({"quantity", "model"}, _relative),
    ({"estimator", "model"}, lambda row: (row["dataset"], row["model"], _at(row), row["estimator"])),
    ({"estimator"}, lambda row: (row["dataset"], "winner", _at(row), row["estimator"])),
    ({"quantity"}, lambda row: (row["dataset"], "", row["quantity"], "exact")),
)
