"""Files from elsewhere, and many deaths."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worlds

from fullrank.models import EASE, load_model, read_factors
from fullrank.observing.checkpoint import _MARK as MARK
from fullrank.observing.observation import Observation
from fullrank.ranks.counts import RankCounts


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_two_hundred_random_kills_end_in_the_right_counts() -> None:
    folder = Path(worlds.__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, str(folder / "soak.py"), "200", "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    found = re.search(r"(\d+) runs, (\d+) kills", done.stdout)
    assert found, done.stdout
    assert int(found[2]) >= 200


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


def evil_npy(bomb: Path) -> bytes:
    out = io.BytesIO()
    array = np.empty(1, dtype=object)
    array[0] = Bomb(bomb)
    np.lib.format.write_array(out, array, allow_pickle=True)
    return out.getvalue()


def with_evil_members(path: Path, bomb: Path) -> list[bytes]:
    """The archive with each of its members, in turn, replaced by pickled objects; and all of them; and a bare pickle."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    out = []
    for wrong in [[name] for name in members] + [list(members)]:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, evil_npy(bomb) if name in wrong else content)
        out.append(buffer.getvalue())
    return [*out, evil_npy(bomb), pickle.dumps(Bomb(bomb))]


def test_the_bomb_works(tmp_path: Path) -> None:
    np.load(io.BytesIO(evil_npy(tmp_path / "gone")), allow_pickle=True)
    assert (tmp_path / "gone").exists()


def test_files_from_elsewhere_cannot_execute_code(tmp_path: Path) -> None:
    split, bomb, path = worlds.make_split(), tmp_path / "bomb", tmp_path / "file.npz"
    good: list[tuple[Any, Any]] = []
    RankCounts.from_ranks([1, 2, 3], n_items=100, design="uni9").save(tmp_path / "counts.npz")
    good.append((tmp_path / "counts.npz", RankCounts.load))
    EASE(1.0).fit(split.train).save(tmp_path / "model.npz")
    good.append((tmp_path / "model.npz", load_model))
    for source, load in good:
        load(source)
        for content in with_evil_members(source, bomb):
            path.write_bytes(content)
            with pytest.raises(ValueError, match=r"file\.npz"):
                load(path)
    for content in (evil_npy(bomb), pickle.dumps(Bomb(bomb))):
        path = tmp_path / "table.npy"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"table\.npy"):
            read_factors(path, np.zeros((3, 2)))
    assert not bomb.exists()


def test_a_checkpoint_from_elsewhere_cannot_execute_code(tmp_path: Path) -> None:
    split, bomb, path = worlds.make_split(), tmp_path / "bomb", tmp_path / "run"
    model = worlds.make_model("factors", split)
    Observation(model, split, progress=False, checkpoint=path).advance("uni7")
    header = path.read_bytes().split(b"\n")[0] + b"\n"

    def record(cases: int, body: bytes) -> bytes:
        """Well-formed, checksum and all, whatever is in it."""
        head = struct.pack("<4sqqqq", MARK, 0, 5, 35, cases)
        return head + struct.pack("<I", zlib.crc32(body, zlib.crc32(head))) + body

    letter = pickle.dumps(Bomb(bomb))
    contents = [letter, evil_npy(bomb), header.replace(b'"seed": 0', b'"seed": {"__reduce__": 1}')]
    contents += [header + b"BLK0" + record(0, letter)[4:], header + record(0, letter), header + record(-1, b"\0" * 56)]
    contents += [header + record(3, b"\0" * 168)]  # three cases instead of all of five users
    contents += [header + record(1 << 62, b"\0" * 56)]
    contents += [json.dumps({"format": "fullrank observations", "version": 1}).encode() + b"\n"]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match="checkpoint") as caught:
            Observation(model, split, progress=False, checkpoint=path).advance("uni7")
        assert "\n" not in str(caught.value)
    assert not bomb.exists()
