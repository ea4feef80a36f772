"""Write files that are whole or not there, and say which file is missing."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fullrank._checks import did_you_mean


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write to that takes the place of ``path`` when the block ends well, and goes away when it does not.

    It has a name of its own in the same folder, where renaming is atomic; its mode is that of the file it replaces, or what
    the user's umask gives a new one. A link stays a link: the file that it points to is replaced.
    """
    asked, path = path, _plain_file(path).resolve()
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            part.chmod(path.stat().st_mode & 0o777)
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(part):  # a name that nobody asked for
            error.filename, error.filename2 = str(asked), None
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside ``path``, sync, then rename over it."""
    with replacing(path) as file:
        file.write(content)


def writable(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that can be written; a folder, a device, or a file in no folder, is refused."""
    target = Path(path)
    if not target.parent.is_dir():
        folder = str(target.parent)
        raise ValueError(f"`path` must lie in a folder that exists, got {str(target)!r}: make {folder!r} first.")
    if target.is_dir():
        raise ValueError(f"`path` must be a file, got the folder {str(target)!r}: name one in it.")
    return _plain_file(target)


def _plain_file(path: Path) -> Path:
    """Refuse devices and pipes: a new file renamed over /dev/null would take its place for everybody."""
    if path.exists() and not path.is_file():
        raise ValueError(f"`path` must be a file, got {str(path)!r}, which is a folder, a device or a pipe.")
    return path


def existing(path: Path) -> Path:
    """Return the path of a file that is there; a missing one is an error with what was probably meant."""
    if not path.exists():
        there = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, there, within=str(path.with_name("{}")))
        raise FileNotFoundError(f"there is no file {str(path)!r}{hint}")
    return path
