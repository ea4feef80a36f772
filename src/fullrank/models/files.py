"""Fitted models on disk: one `.npz` of plain arrays and a JSON header. Nothing is pickled, nothing half-written is seen.

`write` and `read` know nothing of models: a header (what this is, with which parameters) and named arrays go in and come
out, or the file is refused with one sentence.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._files import replacing
from fullrank._types import Array

__all__ = ["read", "write"]


_FORMAT = "fullrank model"
_VERSION = 1


def write(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write atomically: readers see the old file or the whole new one, never a part.

    Arrays are stored as they are: similarities and factors hardly compress. The name is taken as given, no ending is added.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"`path` {str(path)!r} is a folder; name a file in it.")
    plain = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
    for name, values in plain.items():
        if values.dtype.kind not in "fiub":
            raise TypeError(f"array `{name}` is of type {values.dtype}; only arrays of numbers can be saved.")
    full = {"format": _FORMAT, "version": _VERSION, **header, "sha256": _digest(plain)}
    text = np.frombuffer(json.dumps(full).encode(), dtype=np.uint8)
    with replacing(path) as file:
        np.savez(file, header=text, **plain)  # type: ignore[arg-type]  # takes the names for its own options


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a file made by `write`; a foreign, newer or damaged file is a ValueError that says which."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile) or "header" not in file.files:
                raise ValueError("it has no fullrank header")
            header = json.loads(file["header"].tobytes().decode())
            if not isinstance(header, dict) or header.get("format") != _FORMAT:
                raise ValueError("its header is not that of a model")
            if header.get("version") != _VERSION:
                raise ValueError(f"its version is {header.get('version')}, this fullrank reads {_VERSION}")
            arrays = {name: file[name] for name in file.files if name != "header"}
        if _digest(arrays) != header.get("sha256"):
            raise ValueError("its checksum does not match")
    except (FileNotFoundError, IsADirectoryError, PermissionError, MemoryError):
        raise
    except Exception as error:  # a damaged archive fails in more ways than zipfile and NumPy name
        raise ValueError(f"{str(path)!r} is not a saved model, or is damaged: {str(error).rstrip('.')}.") from None
    return header, arrays


def _digest(arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(values.reshape(-1).view(np.uint8).data if values.size else b"")
    return digest.hexdigest()
