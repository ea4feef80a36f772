"""What was already seen, on disk: a file that can be cut off at any byte and still be continued.

The file is a header line (JSON: what the run is) followed by records, one per finished block, each with its length and a
checksum. What a kill cut short, a record or the header itself, is recognised and written anew; a record damaged in any
other way, or a header of another run, is refused with the reason. The file is locked before anything is read or written.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fullrank._files import writable
from fullrank._types import IntArray
from fullrank.observing.blocks import OUTCOME, Result

_FORMAT, _VERSION = "fullrank observations", 3
_HEAD = struct.Struct("<4sqqqqI")  # mark, first user, end, scores asked for, cases, checksum of all of it
_MARK = b"BLK2"
_MOST_HEADER = 1 << 20  # a header is shorter than this many bytes
_WORDS = {"ties": "another tie rule", "previous": "other earlier outcomes"} | {
    key: f"other {key}" for key in ("cases", "candidates")
}


class Checkpoint:
    """Finished blocks of one run; a context manager that holds the file, and its lock, while the run lasts.

    Without a path it keeps nothing, and never asks for the identity of the run.
    """

    def __init__(self, path: Path | None, identity: Callable[[], dict[str, Any]]) -> None:
        self._path, self._name, self._identity = path, repr(str(path)), {} if path is None else identity()
        self._file: BinaryIO | None = None

    def __enter__(self) -> Checkpoint:
        if self._path is None:
            return self
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # opened without being cut or replaced: another run may hold it
        self._file = file = writable(self._path).open("a+b")
        try:
            self._lock()
            header = {"format": _FORMAT, "version": _VERSION, "run": self._identity}
            whole = json.dumps(header).encode() + b"\n"
            file.seek(0)
            kept = file.readline(_MOST_HEADER)
            if kept != whole and whole.startswith(kept):  # the file is new, or was cut off in its first line
                file.truncate(0)
                file.write(whole)
                file.flush()
            else:
                self._check(kept)
        except BaseException:
            file.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def restore(self, users: int, ptr: IntArray) -> Iterator[Result]:
        """Yield the finished blocks, and leave the file ready for the next one.

        ``ptr`` says where each user's cases begin. A block must hold as many cases as its users have: what it claims is
        checked before it is read.
        """
        if self._file is None:
            return
        file, end = self._file, os.fstat(self._file.fileno()).st_size
        while (at := file.tell()) < end:
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                break
            mark, first, last, scored, cases, checksum = _HEAD.unpack(head)
            if mark != _MARK or not 0 <= first < last <= users or scored < 0 or cases != ptr[last] - ptr[first]:
                raise self._damaged(at)
            body = file.read(8 * len(OUTCOME) * cases)
            if len(body) < 8 * len(OUTCOME) * cases:
                break  # cut off while it was written: the block is done again
            if zlib.crc32(body, zlib.crc32(head[:-4])) != checksum:
                raise self._damaged(at)
            outcome = np.frombuffer(body, dtype="<i8").astype(np.int64).reshape(len(OUTCOME), cases)
            yield Result(first, last, tuple(outcome), scored)
        else:
            return
        file.seek(at)
        file.truncate()

    def keep(self, result: Result) -> None:
        """Append a finished block."""
        if self._file is None:
            return
        body = b"".join(np.ascontiguousarray(values, dtype="<i8").tobytes() for values in result.outcome)
        head = _HEAD.pack(_MARK, result.first, result.last, result.scored, len(result.outcome[0]), 0)[:-4]
        checksum = zlib.crc32(body, zlib.crc32(head))
        self._file.write(head + struct.pack("<I", checksum) + body)
        self._file.flush()  # a killed process loses nothing that reached the system; a power cut, the last seconds

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # no such lock on this system: two runs at once are then the user's to avoid
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[arg-type]
        except OSError:
            raise ValueError(f"checkpoint {self._name} is in use by another run: give each run its own file.") from None

    def _check(self, line: bytes) -> None:
        try:
            header = json.loads(line)
            known = header["format"] == _FORMAT and ("run" in header or header.get("version") != _VERSION)
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            raise ValueError(f"{self._name} is not a checkpoint of observations, or is damaged: choose another path.")
        if (version := header.get("version")) != _VERSION:
            raise ValueError(
                f"checkpoint {self._name} has version {version}; this fullrank reads {_VERSION}: delete it."
            )
        kept = header["run"]
        for key, now in self._identity.items():
            if not _same(key, kept.get(key), now):
                both = f" ({kept.get(key)!r} there, {now!r} here)" if key in {"design", "ties", "seed"} else ""
                raise ValueError(
                    f"checkpoint {self._name} belongs to a run with {_WORDS.get(key, f'another {key}')}{both}: "
                    "delete it or choose another path."
                )

    def _damaged(self, at: int) -> ValueError:
        return ValueError(f"checkpoint {self._name} is damaged at byte {at}: delete it to start again.")


def _same(key: str, kept: Any, now: Any) -> bool:
    if key != "model" or not isinstance(kept, dict):
        return bool(kept == now)
    a, b = (np.array([float(x) for x in side["scores"]]) for side in (kept, now))
    if any(kept.get(key) != now[key] for key in ("kind", "content")) or len(a) != len(b):
        return False
    # another machine may round differently; another model differs by more. No finished block rests on a NaN
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0))
    return bool((np.isclose(a, b, rtol=1e-3, atol=1e-5 * scale) | np.isnan(a)).all())
