"""Files of true ranks: where they are, which family and kind of catalogue they belong to, and how families are left out.

``FULLRANK_RANKS`` and ``FULLRANK_RANKS_SEVERAL`` name folders (several, separated as in PATH) of CATALOGUE__MODEL.npz files.
An ``INDEX.md`` in a folder may have a table with the columns ``catalogue``, ``family`` and ``kind``. Catalogues of one
platform are one family: what is reported about a catalogue comes from a prior that has seen no catalogue of its family.
Which prior that is stands beside the priors, in ``priors/folds.json``, whatever files a run is given.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from functools import cache
from pathlib import Path

#: Families of the catalogues whose folder has no table of them.
KNOWN = {
    "ml-1m": ("movielens", "films"),
    "ml-100k": ("movielens", "films"),
    "citeulike-a": ("citeulike", "books and papers"),
    "gowalla": ("gowalla", "places"),
    "pinterest-20": ("pinterest", "web, news, images, tags"),
    "pinterest-37k": ("pinterest", "web, news, images, tags"),
}
#: Families kept out of all development; their fold is reported on its own.
LAST = ("diginetica-sessions", "facebook-books", "flickr-social", "lastfm", "pinterest")
FOLDS = 10
FOLD_FILE = Path(__file__).parent / "priors/folds.json"
#: Recommenders of sequences, whose ranks ``sequence_ranks.py`` makes.
SEQUENCES = ("attention", "gru", "markov")


def folders(variable: str) -> list[Path]:
    """The folders that an environment variable names, separated as in PATH."""
    return [Path(each) for each in os.environ.get(variable, "").split(os.pathsep) if each]


def rank_files(variable: str = "FULLRANK_RANKS") -> list[Path]:
    """All rank files of a variable's folders; ends the script with one sentence where there are none."""
    found = sorted(
        (path for folder in folders(variable) for path in folder.glob("*__*.npz")), key=lambda path: path.stem
    )
    if not found:
        sys.exit(f"{Path(sys.argv[0]).name} needs true ranks: set {variable} to folders of CATALOGUE__MODEL.npz files.")
    return found


def split_name(path: Path | str) -> tuple[str, str]:
    """Catalogue and model of a file."""
    catalogue, model = Path(path).stem.split("__")
    return catalogue, model


@cache
def _index() -> dict[str, tuple[str, str]]:
    found = dict(KNOWN)
    for folder in [*folders("FULLRANK_RANKS"), *folders("FULLRANK_RANKS_SEVERAL")]:
        columns: list[str] = []
        lines = (folder / "INDEX.md").read_text().splitlines() if (folder / "INDEX.md").exists() else []
        for line in lines:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if "catalogue" in cells and "family" in cells:
                columns = cells
            elif columns and len(cells) == len(columns) and not cells[0].startswith("-"):
                row = dict(zip(columns, cells, strict=True))
                before = found.get(row["catalogue"], (row["family"], "other"))
                found[row["catalogue"]] = KNOWN.get(row["catalogue"], (row["family"], row.get("kind", before[1])))
    return found


def family(catalogue: str) -> str:
    """The family of a catalogue; its own name where nothing is known of it."""
    return _index().get(catalogue, (catalogue, "other"))[0]


def kind(catalogue: str) -> str:
    """What the catalogue is of: films, shops, …"""
    return _index().get(catalogue, (catalogue, "other"))[1]


def share_out() -> dict[str, int]:
    """A fold for every catalogue: families share out among ten folds by their number of files; the last is :data:`LAST`."""
    catalogues = [split_name(path)[0] for path in rank_files()]
    sizes = Counter(family(name) for name in catalogues)
    load = [0] * FOLDS
    fold = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        fold[name] = FOLDS if name in LAST else load.index(min(load))
        if fold[name] < FOLDS:
            load[fold[name]] += sizes[name]
    several = (split_name(path)[0] for path in rank_files("FULLRANK_RANKS_SEVERAL"))
    return {name: fold.get(family(name), FOLDS) for name in sorted({*catalogues, *several})}


@cache
def folds() -> dict[str, int]:
    """The folds that the priors in ``priors/`` were fitted with: catalogue by catalogue."""
    found: dict[str, int] = json.loads(FOLD_FILE.read_text())
    return found


@cache
def fold_of(catalogue: str) -> int:
    """The fold whose prior has not seen this catalogue's family; the last one for a family that is behind no prior."""
    found = folds()
    if catalogue in found:
        return found[catalogue]
    return next((fold for name, fold in found.items() if family(name) == family(catalogue)), FOLDS)
