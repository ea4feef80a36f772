"""Run an experiment: its kind does the work, its result is kept, a second run reads it back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from .._files import write_atomically
from .._progress import bar
from .._version import __version__
from .catalogue import Experiment, experiments
from .figures import FIGURES, Panel
from .kinds import TABLES, Bench, Row, check
from .ranks import NotHereError, cache_folder, code_key, kept, key_of, recipes, recommender, split_of

__all__ = ["Result", "run", "run_all"]


@dataclass(frozen=True)
class Result:
    """What came out: rows of a table or panels of a figure, what was missing, and what to know."""

    experiment: Experiment
    repeats: int
    rows: tuple[Row, ...] = ()
    panels: tuple[Panel, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON (schema fullrank.reproduce/1)."""
        return {
            "schema": "fullrank.reproduce/1",
            "name": self.experiment.name,
            "title": self.experiment.title,
            "unit": self.experiment.unit,
            "repeats": self.repeats,
            "rows": [row.to_dict() for row in self.rows],
            "panels": [panel.to_dict() for panel in self.panels],
            "missing": list(self.missing),
            "notes": list(self.notes),
            "remarks": list(self.experiment.remarks),
            "seconds": round(self.seconds, 2),
        }


def run(made: Experiment, *, repeats: int | None = None, neural: Iterable[str] = (), progress: bool = True) -> Result:
    """One experiment, from the cache where nothing it depends on has changed.

    ``neural`` names data sets to train neural models on; elsewhere rows need kept ranks. Interrupted,
    it leaves what was finished (models, ranks, fits), and the next run goes on from there.
    """
    repeats = made.repeats if repeats is None else repeats
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 2:
        raise ValueError(f"`repeats` is {repeats!r}; allowed is a whole number from 2.")
    check(made)
    trained = frozenset(neural)
    key = key_of("result", __version__, _told(made), repeats, _state(made, trained))
    path = cache_folder() / "results" / f"{made.name}-{key}.json"
    if (found := _read(path, made)) is not None:
        return found
    start = time.perf_counter()
    with _bar(made.name, progress) as tick:
        bench = Bench(repeats, trained, progress, tick=tick)
        rows: list[Row] = []
        panels: list[Panel] = []
        if made.kind in TABLES:
            rows = TABLES[made.kind](made, bench)
        elif made.kind in FIGURES:
            panels = FIGURES[made.kind](made, bench)
        else:
            raise ValueError(
                f"{made.name}.toml: `kind` is {made.kind!r}; allowed are {', '.join((*TABLES, *FIGURES))}."
            )
    seconds = time.perf_counter() - start
    result = Result(made, repeats, tuple(rows), tuple(panels), tuple(bench.missing), tuple(bench.notes), seconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    # models that were trained on the way change the state the result is kept under
    key = key_of("result", __version__, _told(made), repeats, _state(made, trained))
    path = path.with_name(f"{made.name}-{key}.json")
    write_atomically(path, json.dumps(result.to_dict()).encode())
    return result


def run_all(
    names: Iterable[str] | None = None,
    *,
    repeats: int | None = None,
    seed: int | None = None,
    neural: Iterable[str] = (),
    progress: bool = True,
) -> Iterator[Result]:
    """Experiments one after the other, each as soon as it is done; ``seed`` replaces their own."""
    wanted = experiments().values() if names is None else [experiments()[name] for name in names]
    for made in wanted:
        yield run(made if seed is None else replace(made, seed=seed), repeats=repeats, neural=neural, progress=progress)


def _told(made: Experiment) -> dict[str, Any]:
    """What decides the result: everything but the words."""
    return {key: str(value) for key, value in vars(replace(made, title="", remarks=(), also=())).items()}


def _state(made: Experiment, neural: frozenset[str]) -> list[str]:
    """Which data and models the experiment would find: a result without them must not stand when they have come."""
    out = []
    for data in made.data:
        try:
            split = split_of(data)
        except NotHereError as error:
            out.append(str(error))
            continue
        except ValueError:  # a toy whose ranks are in its TOML
            continue
        out.append(split.checksum)
        for model in made.models:
            try:
                unfitted = recommender(data, model)
            except NotHereError as error:
                out.append(str(error))
                continue
            there = not recipes()[model].get("neural") or kept("ranks", key_of("ranks", split.checksum, repr(unfitted)))
            out.append(f"{unfitted!r} {'there' if there else 'to train' if data in neural else 'not trained'}")
    return [*out, code_key("reproduce"), code_key("estimators")]


def _read(path: Any, made: Experiment) -> Result | None:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(Row(**{key: value for key, value in row.items() if key != "difference"}) for row in told["rows"])
        panels = tuple(Panel.from_dict(panel) for panel in told["panels"])
        missing, notes = tuple(told["missing"]), tuple(told["notes"])
        return Result(made, int(told["repeats"]), rows, panels, missing, notes, float(told["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _bar(name: str, progress: bool) -> Iterator[Any]:
    """What is being done, where somebody looks."""
    with bar(progress, None, name, bar_format="{desc}: {postfix} [{elapsed}]") as shown:

        def tick(what: str) -> None:
            shown.set_postfix_str(what)
            shown.update()

        yield tick
