"""Archives: one `.npz` of plain arrays and a JSON header. Nothing is pickled, and nothing half-written is ever seen.

They know nothing of what they hold: a header and named arrays go in and come out, or the file is refused with one sentence.
"""

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fullrank._files import replacing, writable
from fullrank._types import Array

#: Archives that unfold to more bytes than this must not have been compressed to less than a 200th: honest ones never are.
_LARGE, _DENSEST = 1 << 28, 200


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Array], *, compress: bool = False
) -> None:
    """Write atomically: readers see the old file or the whole new one, never a part.

    The name is taken as given, no ending is added. The header must hold ``format`` and ``version``.
    """
    plain = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
    for name, values in plain.items():
        if values.dtype.kind not in "fiub":
            raise TypeError(f"array `{name}` must hold numbers to be saved, got {values.dtype}.")
    text = np.frombuffer(json.dumps({**header, "sha256": _digest(plain)}).encode(), dtype=np.uint8)
    save: Any = np.savez_compressed if compress else np.savez
    with replacing(writable(path)) as file:
        save(file, header=text, **plain)


def read_archive(
    path: str | os.PathLike[str], form: str, newest: int, what: str
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read header and arrays of a file made by :func:`write_archive`; any other, newer or damaged one is a ValueError.

    ``form`` and ``newest`` are the format and the last version that can be read; ``what`` is what the file should be, for
    messages.
    """
    path = Path(path)
    try:
        _refuse_bombs(path)
        with np.load(path, allow_pickle=False) as file:
            if "header" not in file.files:
                raise ValueError("it has no fullrank header")
            header = json.loads(file["header"].tobytes().decode())
            if not isinstance(header, dict) or header.get("format") != form:
                raise ValueError(f"its format is not {form!r}")
            if header.get("version") not in range(1, newest + 1):
                raise ValueError(f"its version is {header.get('version')}, this fullrank reads 1 to {newest}")
            arrays = {name: file[name] for name in file.files if name != "header"}
        if header.get("sha256") not in (_digest(arrays), _digest(arrays, "{}{}{}")):  # the second: counts until 0.1
            raise ValueError("its checksum does not match: the file is damaged")
    except (FileNotFoundError, PermissionError, MemoryError):
        raise
    except Exception as error:  # a flipped bit can surface anywhere: zipfile, zlib, tokenize, json, NumPy
        raise ValueError(f"{str(path)!r} is not {what}, or is damaged: {str(error).rstrip('.')}.") from None
    return header, arrays


def _refuse_bombs(path: Path) -> None:
    """Refuse an archive that claims to unfold to far more than it holds, before any memory is taken."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        size = sum(each.file_size for each in members)
        if size > max(_LARGE, _DENSEST * path.stat().st_size):
            raise ValueError(f"it would unfold from {path.stat().st_size:,} to {size:,} bytes")
        for each in members:
            with archive.open(each) as member:
                version = np.lib.format.read_magic(member)
                read: Any = getattr(np.lib.format, f"read_array_header_{1 if version == (1, 0) else 2}_0")
                shape, _, kind = read(member)
                if math.prod(shape) * kind.itemsize > each.file_size:
                    raise ValueError(f"its array {each.filename!r} claims shape {shape} in {each.file_size:,} bytes")


def _digest(arrays: Mapping[str, Array], form: str = "{} {} {}\n") -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name])
        digest.update(form.format(name, values.dtype.str, values.shape).encode())
        digest.update(values.reshape(-1).view(np.uint8).data if values.size else b"")
    return digest.hexdigest()
