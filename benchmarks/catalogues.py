"""Files of true ranks: where they are, which family and kind of catalogue they belong to, and how families are left out.

``FULLRANK_RANKS`` and ``FULLRANK_RANKS_SEVERAL`` name folders (several, separated as in PATH) of CATALOGUE__MODEL.npz files.
An ``INDEX.md`` in a folder may have a table with the columns ``catalogue``, ``family`` and ``kind``. Catalogues of one
platform are one family: what is reported about a catalogue comes from a prior that has seen no catalogue of its family.
"""

from __future__ import annotations

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


@cache
def folds() -> dict[str, int]:
    """The fold of every family: families share out among ten folds by their number of files; the last fold is :data:`LAST`."""
    sizes = Counter(family(split_name(path)[0]) for path in rank_files())
    load = [0] * FOLDS
    out = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        fold = FOLDS if name in LAST else load.index(min(load))
        out[name] = fold
        if fold < FOLDS:
            load[fold] += sizes[name]
    return out


def fold_of(catalogue: str) -> int:
    """The fold whose prior has not seen this catalogue's family."""
    return folds().get(family(catalogue), FOLDS)
