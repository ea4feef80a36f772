"""Run an experiment: its kind does the work, its result is kept, a second run reads it back.

Several processes share the work by (data set, model): what experiments have in common (training, samples, fits) belongs to
one of these pairs, is done by one process and kept; experiments are then put together from what is kept.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from .catalogue import Experiment, experiments, published
from .figures import FIGURES, Panel
from .keeping import cache_folder, key_of, library_code, own_code, write
from .kinds import TABLES, Bench, Row, check
from .progress import bar
from .ranks import NotHereError, is_kept, recipes, recommender, split_of

__all__ = ["Result", "run", "run_all", "time_spent"]

#: Kinds whose work is kept by (data set, model), and so can be done ahead by several processes.
SHARED = ("metrics", "pairs", "winners", "relative errors", "rank distributions", "blind spot", "expected by size")
#: Files that decide what a result holds; the others show it.
CODE = ("catalogue.py", "comparing.py", "figures.py", "kinds.py", "neural", "ranks.py", "simulate.py")


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
    #: worked out just now, not read back
    fresh: bool = False

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
    if (found := _read(_path(made, repeats, trained), made)) is not None:
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
    result = Result(made, repeats, tuple(rows), tuple(panels), tuple(bench.missing), tuple(bench.notes), seconds,
                    fresh=True)  # fmt: skip
    # models that were trained on the way change the state the result is kept under
    write(_path(made, repeats, trained), json.dumps(result.to_dict()).encode())
    return result


def run_all(
    names: Iterable[str] | None = None,
    *,
    repeats: int | None = None,
    seed: int | None = None,
    neural: Iterable[str] = (),
    jobs: int = 1,
    progress: bool = True,
) -> Iterator[Result]:
    """Experiments one after the other, each as soon as it is done; ``seed`` replaces their own.

    With ``jobs`` > 1, so many processes first share what the experiments need of each (data set, model), then the
    experiments. What it took is added to :func:`time_spent`.
    """
    wanted = list(experiments().values()) if names is None else [experiments()[name] for name in names]
    wanted = wanted if seed is None else [replace(made, seed=seed) for made in wanted]
    trained = frozenset(neural)
    one = partial(_timed, repeats=repeats, neural=trained)
    watch = _Watch("neural" if trained else "plain", jobs)
    if jobs == 1:
        for made in wanted:
            yield watch.took(*one(made, progress=progress))
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    ahead = partial(_ahead, wanted=wanted, repeats=repeats, neural=trained)
    # spawned, not forked: compiled loops and BLAS have threads of their own
    with ProcessPoolExecutor(jobs, get_context("spawn"), _share_cores, (jobs,)) as pool:
        with _bar("models", progress) as tick:
            pairs = _pairs(wanted, trained)
            for (data, model), cpu in zip(pairs, pool.map(ahead, pairs), strict=True):
                tick(f"{model} on {data}")
                watch.took(None, cpu)
        for result, cpu in pool.map(one, wanted):
            yield watch.took(result, cpu)


def _timed(
    made: Experiment, repeats: int | None, neural: frozenset[str], progress: bool = False
) -> tuple[Result, float]:
    """An experiment and the processor time it took."""
    before = time.process_time()
    result = run(made, repeats=repeats, neural=neural, progress=progress)
    return result, time.process_time() - before


def _ahead(pair: tuple[str, str], wanted: Iterable[Experiment], repeats: int | None, neural: frozenset[str]) -> float:
    """Everything that is kept about one model on one data set; processor time it took, 0 if results were there already."""
    data, model = pair
    before = time.process_time()
    for made in wanted:
        if data not in made.data or model not in made.models or _found(made, repeats, neural):
            continue
        bench = Bench(repeats or made.repeats, neural, progress=False)
        if made.kind in SHARED:
            (TABLES | FIGURES)[made.kind](replace(made, data=(data,), models=(model,)), bench)
        else:
            bench.ranks(made, data, model)
    return time.process_time() - before


def _pairs(wanted: Iterable[Experiment], neural: frozenset[str]) -> list[tuple[str, str]]:
    """(data set, model) of all that can be had, large data sets first: the last to finish should be short."""
    found = {}
    for made in wanted:
        if "ranks" not in made.options:
            for data in made.data:
                try:
                    found[data] = split_of(data).train.nnz
                except NotHereError:
                    continue
    return [
        (data, model) for data in sorted(found, key=lambda data: -found[data]) for model in recipes()
        if any(data in made.data and model in made.models for made in wanted)
        and (not recipes()[model].get("neural") or data in neural or is_kept(data, model))
    ]  # fmt: skip


def _share_cores(jobs: int) -> None:
    """In a process of several: threads for its share of the cores."""
    import numba
    from threadpoolctl import threadpool_limits

    cores = max(1, (os.cpu_count() or 1) // jobs)
    threadpool_limits(cores)
    os.environ.setdefault("OMP_NUM_THREADS", str(cores))  # for what is not loaded yet: torch
    numba.set_num_threads(min(cores, numba.config.NUMBA_NUM_THREADS))


# ------------------------------------------------------------------------------------------------ time


class _Watch:
    """Adds what runs take to a file in the cache: an interrupted run that goes on is one sum."""

    def __init__(self, kind: str, jobs: int) -> None:
        self.kind, self.jobs, self.since = kind, jobs, time.perf_counter()

    def took(self, result: Any, cpu: float) -> Any:
        """Count the time since the last call, unless all that was done is reading a result back."""
        now = time.perf_counter()
        if cpu > 1 if result is None else result.fresh:
            spent = time_spent()
            clock, processor, _ = spent.get(self.kind, (0.0, 0.0, 0))
            spent[self.kind] = clock + now - self.since, processor + cpu, self.jobs
            write(cache_folder() / "time.json", json.dumps(spent).encode())
        self.since = now
        return result


def time_spent() -> dict[str, tuple[float, float, int]]:
    """Seconds by the clock, seconds of processors, and processes behind what is kept; "neural": with such models trained."""
    try:
        told = json.loads((cache_folder() / "time.json").read_text(encoding="utf-8"))
        return {kind: (float(clock), float(cpu), int(jobs)) for kind, (clock, cpu, jobs) in told.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


# ------------------------------------------------------------------------------------------------ what is kept


def _path(made: Experiment, repeats: int, neural: frozenset[str]) -> Path:
    printed = [sorted(published(file).items()) for file in (made.published, *made.options.get("tables", ()))]
    key = key_of("result", _told(made), printed, repeats, _state(made, neural))
    return cache_folder() / "results" / f"{made.name}-{key}.json"


def _found(made: Experiment, repeats: int | None, neural: frozenset[str]) -> bool:
    return _path(made, repeats or made.repeats, neural).exists()


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
            there = not recipes()[model].get("neural") or is_kept(data, model)
            state = "there" if there else "to train" if data in neural else "not trained"
            out.append(f"{recommender(data, model)!r} {state}")
    return [*out, library_code(), own_code(*CODE)]


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
def _bar(name: str, progress: bool) -> Iterator[Callable[[str], None]]:
    """What is being done."""
    with bar(progress, None, name, bar_format="{desc}: {postfix} [{elapsed}]") as shown:

        def tick(what: str) -> None:
            shown.set_postfix_str(what)
            shown.update()

        yield tick
