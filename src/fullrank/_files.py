"""Files that are whole or not there: the one way this package writes them, and says that one is missing."""

from __future__ import annotations

import contextlib
import difflib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["existing", "replacing", "write_atomically"]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of ``path`` when the block ends well, and goes away when it does not.

    It has a name of its own in the same folder, where renaming is atomic; its mode is that of the file it replaces, or what
    the user's umask gives a new one.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            part.chmod(path.stat().st_mode & 0o777)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside ``path``, sync, then rename over it."""
    with replacing(path) as file:
        file.write(content)


def existing(path: Path) -> Path:
    """The path of a file that is there; else what was probably meant."""
    if not path.exists():
        there = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, there, 1)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else "."
        raise FileNotFoundError(f"there is no file {str(path)!r}{hint}")
    return path
