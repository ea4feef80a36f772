"""What was trained, sampled or fitted is kept in a folder, under a key of everything it rests on.

That includes the code: a value is worked out anew when a source file that could have changed it has changed, in the library
or here, in more than its comments and docstrings. The folder is ``FULLRANK_CACHE``, else the platform's cache.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullrank as fr

__all__ = ["cache_folder", "keep", "kept", "key_of", "library_code", "own_code", "write"]

#: Part of every key: raise it when what is kept changes its meaning.
VERSION = 1
LIBRARY = Path(fr.__file__).parent
OWN = Path(__file__).parent
#: The library's front doors: nothing that is kept here rests on them, and by the library's layers nothing below them does.
DOORS = ("backends", "cli", "evaluate", "evaluation", "report", "testing")


def cache_folder() -> Path:
    """`FULLRANK_CACHE`, else `fullrank/papers` in the platform's cache."""
    named = os.environ.get("FULLRANK_CACHE")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_path("fullrank")) / "papers"


def kept(kind: str, key: str) -> dict[str, NDArray[Any]] | None:
    """The arrays kept under this key, or None; a damaged file counts as none."""
    try:
        with np.load(cache_folder() / kind / f"{key}.npz", allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception:  # not there, half there, foreign: made anew either way
        return None


def keep(kind: str, key: str, **arrays: NDArray[Any]) -> None:
    """Keep arrays under a key; whole or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # takes the names for its own options
    write(cache_folder() / kind / f"{key}.npz", buffer.getvalue())


def write(path: Path, content: bytes) -> None:
    """Write a file, in a folder that is made if need be, so that readers see the old one or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def key_of(*parts: Any) -> str:
    """A name for what these parts determine."""
    text = json.dumps([VERSION, *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@cache
def library_code(*without: str) -> str:
    """A fingerprint of the library's source files, but for its front doors and the folders named."""
    return _fingerprint(LIBRARY, (path for path in _sources(LIBRARY) if path.parts[0] not in (*DOORS, *without)))


@cache
def own_code(*parts: str) -> str:
    """A fingerprint of these files and folders of this package."""
    return _fingerprint(OWN, (path for path in _sources(OWN) if path.parts[0] in parts or path.as_posix() in parts))


def _sources(folder: Path) -> Iterator[Path]:
    """Code and the numbers that come with it, relative to a folder."""
    return (path.relative_to(folder) for path in folder.rglob("*") if path.suffix in (".py", ".json"))


def _fingerprint(folder: Path, files: Iterator[Path]) -> str:
    return key_of(
        [(path.as_posix(), _meaning((folder / path).read_text(encoding="utf-8"), path)) for path in sorted(files)]
    )


def _meaning(text: str, path: Path) -> str:
    """A source without comments, layout and docstrings."""
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:]
    return ast.dump(tree)
