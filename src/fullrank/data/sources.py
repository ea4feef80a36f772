"""Load the eight data sets by name: found in the data folder, or made there once from their official files.

The folder (`FULLRANK_DATA`, else the platform's cache) holds per data set `interactions.parquet` (`user`, `item`,
zero-based; `rating` and `timestamp` where known; every pair once, held-out ones included) and `test.parquet` where a
published split exists. What the data sets are called, where they come from and how large they should be is in
`sources.json`.
"""

import functools
import json
import os
import zipfile
from contextlib import ExitStack, suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._checks import did_you_mean, first_where
from fullrank._types import RNG
from fullrank.data import readers
from fullrank.data.folder import INTERACTIONS, TEST, read_folder, read_provenance, sha256, write_folder
from fullrank.data.frames import Interactions, among, k_core
from fullrank.data.split import Split, given_test


@functools.cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Return what `sources.json` says of every data set, by name."""
    text = resources.files("fullrank.data").joinpath("sources.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def data_folder() -> Path:
    """Return the folder of all data sets: `FULLRANK_DATA`, else `fullrank` in the platform's cache."""
    import platformdirs

    named = os.environ.get("FULLRANK_DATA")
    return Path(named).expanduser() if named else platformdirs.user_cache_path("fullrank")


def canonical_name(name: str) -> str:
    """Return the name a data set goes by here (`"CiteULike"` → `"citeulike-a"`), whatever the case."""
    if not isinstance(name, str):
        raise TypeError(f"`name` must be the name of a data set, such as 'ml-1m', got {name!r}.")
    wanted = name.strip().lower()
    by_alias = {alias: known for known, source in catalogue().items() for alias in (known, *source["aliases"])}
    if wanted in by_alias:
        return by_alias[wanted]
    raise ValueError(f"`name` must be one of {', '.join(catalogue())}, got {name!r}{did_you_mean(wanted, by_alias)}")


def load(
    name: str,
    how: str | None = None,
    rng: RNG = 0,
    *,
    share: float = 0.2,
    min_items: int | None = None,
    progress: bool | None = None,
) -> Split:
    """Load a data set as a `Split`, from the data folder.

    `how=None` takes the published split where there is one (ml-1m, pinterest-20, gowalla), else what the papers did:
    the last item by time (ml-100k, yelp, ml-20m) or one item at random (citeulike-a with users of at least 3 items,
    book-x). `"last"`, `"random"`, `"ratio"`, `"last-ratio"` split anew (see `Split.from_interactions`), `"given"`
    insists on the published split. When only the official files are in the data set's folder, they are read once and
    kept as parquet.
    Anything worth knowing, such as counts that differ from the published ones, is in `notes` of the split.
    """
    name = canonical_name(name)
    source, folder = catalogue()[name], data_folder() / name
    if not (folder / INTERACTIONS).is_file():
        if not folder.is_dir() or _find(folder, source) is None:
            raise FileNotFoundError(_missing(name))
        import_files(name, folder, progress=progress)
    data, test, provenance = read_folder(folder)
    here, published = {"interactions": len(data), "users": data.n_users, "items": data.n_items}, source["counts"]
    unlike = (f"{what}: {n:,} here, {published[what]:,} published" for what, n in here.items() if n != published[what])
    notes = (*map(str, provenance.get("notes", ())), *unlike)
    default = source.get("split") or {}
    how = how or ("given" if test is not None else default.get("how"))
    if test is None and how in (None, "given"):
        raise ValueError(f"{folder} has no {TEST}; say how to split: how='random', 'ratio' or, with time, 'last'.")
    if test is not None and how == "given":
        if (row := first_where(~among(test.keys, np.sort(data.keys)))) is not None:
            pair = f"item {test.items[row]} of user {test.users[row]}, which {INTERACTIONS} does not have"
            raise ValueError(f"{folder / TEST} holds out {pair}: the two files do not belong together.")
        return given_test(data, test, name=name, notes=notes)
    notes = (*notes, f"split: {how}" + (f", rng={rng}" if how in ("random", "ratio") and isinstance(rng, int) else ""))
    least = default.get("min_items", 2) if min_items is None else min_items
    return Split.from_interactions(data, str(how), share=share, min_items=least, rng=rng, name=name, notes=notes)


def available() -> list[dict[str, Any]]:
    """List the data sets: what is here, how much was imported (else published), which files are needed, and where.

    Each entry has `name`, `title`, `present`, `importable` (the official files are there, not yet read),
    `interactions`, `users`, `items`, `published` (the three published counts), `test` (cases of the published split
    here, or None), `files` (alternatives, each a list of names), `find` (where to look, in words), `homepage`, `where`.
    """
    return [_listed(name, source, data_folder() / name) for name, source in catalogue().items()]


def _listed(name: str, source: dict[str, Any], folder: Path) -> dict[str, Any]:
    known, present = {**source["counts"], "test": None}, False
    if (folder / INTERACTIONS).is_file():
        with suppress(ValueError):  # a data set that is damaged is not here
            known |= read_provenance(folder)
            present = True
    here = {what: known[what] for what in ("interactions", "users", "items", "test")}
    importable = not present and folder.is_dir() and _find(folder, source) is not None
    about = {what: source[what] for what in ("title", "find", "homepage")}
    files = [list(option["files"]) for option in source["sources"]]
    state = {"present": present, "importable": importable, "where": str(folder)}
    return {"name": name, **about, **here, **state, "published": dict(source["counts"]), "files": files}


def import_files(
    name: str, source: str | os.PathLike[str], *, verify: bool = True, progress: bool | None = None
) -> dict[str, Any]:
    """Read the official files of a data set once and write them to the data folder as parquet.

    `source` is the folder that holds the files (or a zip archive of them), the archive, or the file itself. Files of
    known size and checksum are verified (`verify=False` accepts any). Writing is atomic: a crash leaves
    either no data set or one whose change is noticed. Returns what was written, as in `provenance.json`.
    """
    name = canonical_name(name)
    entry = catalogue()[name]
    path = Path(source).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"`source` is {path}, which does not exist; {_missing(name)}")
    found = _find(path, entry)
    if found is None:
        raise FileNotFoundError(f"{path} does not hold the files of {name}; {_missing(name)}")
    option, files = found
    origins = [_verified(origin, option, verify) for origin in dict.fromkeys(origin for origin, _ in files)]
    read, shown = getattr(readers, f"read_{option['reader']}"), progress is not False
    test: Interactions | None = None
    with ExitStack() as stack:
        opened: list[Any] = []
        for origin, member in files:
            archive = None if member is None else stack.enter_context(zipfile.ZipFile(origin))
            opened.append(stack.enter_context(origin.open("rb") if archive is None else archive.open(str(member))))
        if len(opened) == 1:
            data: Interactions = read(*opened, progress=shown)
        else:
            data, test = readers.read_both(read, *opened, progress=shown)
    if test is not None and data.timestamps is not None and not np.ptp(data.timestamps):
        data = replace(data, timestamps=None)  # a column that says the same everywhere is no time
    data = data.distinct()
    for step in entry["filter"]:
        if "min_rating" in step:
            data = data.take(np.asarray(data.ratings) >= step["min_rating"])
        else:
            data = k_core(data, users=step.get("users", 0), items=step.get("items", 0), iterate=False)
    notes = [note for note in (entry.get("note"), option.get("note")) if note]
    return write_folder(data_folder() / name, name, data, test, {"sources": origins, "notes": notes})


def _missing(name: str) -> str:
    """Say in one sentence which file goes where."""
    source = catalogue()[name]
    files = " or ".join(" and ".join(f"`{file}`" for file in option["files"]) for option in source["sources"])
    addresses = " and ".join(file["url"] for file in source["sources"][0]["downloads"])
    find = source["find"] + (f" ({addresses})" if addresses else "")
    here = f"{source['title']} is not here: put {files} (or the zip archive that holds it) into {data_folder() / name}"
    return f"{here}; look for {find}."


#: An official file: where it is on disk, and its name inside if that is a zip archive.
_File = tuple[Path, str | None]


def _find(path: Path, source: dict[str, Any]) -> tuple[dict[str, Any], list[_File]] | None:
    """Find the first complete set of official files in a folder, an archive or beside a file."""
    plain = path.is_file() and path.suffix.lower() != ".zip" and not zipfile.is_zipfile(path)
    for option in source["sources"]:
        if plain and path.name not in option["files"]:
            continue
        where = path.parent if plain else path
        files = [found for name in option["files"] if (found := _look(where, name)) is not None]
        if len(files) == len(option["files"]):
            return option, files
    return None


def _look(path: Path, name: str) -> _File | None:
    for direct in (path / name, *sorted(path.glob(f"*/{name}"))):
        if direct.is_file():
            return direct, None
    for archive in sorted(path.glob("*.zip")) if path.is_dir() else [path]:
        try:
            with zipfile.ZipFile(archive) as opened:
                # macOS archives carry a shadow of every file
                names = [each for each in opened.namelist() if not each.startswith("__MACOSX/")]
                members = [each for each in names if each.rsplit("/", 1)[-1] == name]
        except (zipfile.BadZipFile, OSError) as error:
            raise ValueError(f"{archive} is not a readable zip archive ({error}); fetch it again.") from None
        if members:
            return archive, min(members, key=len)
    return None


def _verified(origin: Path, option: dict[str, Any], verify: bool) -> dict[str, Any]:
    """Return name, size and checksum of a source file, checked against `sources.json` where that knows them."""
    facts = {"name": origin.name, "bytes": origin.stat().st_size, "sha256": sha256(origin)}
    known: dict[str, Any] = next((each for each in option["downloads"] if verify and each["name"] == origin.name), {})
    for what in ("bytes", "sha256"):
        if known.get(what) not in (None, facts[what]):
            found = f"{what} {facts[what]}, the official file {known[what]}"
            raise ValueError(f"{origin} has {found}: fetch it again, or accept it with verify=False.")
    return facts
