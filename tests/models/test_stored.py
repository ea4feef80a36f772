from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from fullrank.data.split import Split
from fullrank.models.stored import StoredFactors, read_factors
from fullrank.observing.observation import Observation
from fullrank.observing.shards import spread

RNG = np.random.default_rng(3)
U, V = RNG.normal(size=(50, 6)).astype(np.float32), RNG.normal(size=(300, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullrank.models.stored.BATCH", 16)


def vectors(values: Any) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def shards(folder: Path, values: Any, n: int = 3, ids: Any = None, form: str = "list") -> Path:
    """Files part-0…: a list per row or a column per factor, with or without a column of positions."""
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(values)), n)):
        if form == "list":
            columns = {"embedding": vectors(values[rows])}
        elif form == "ragged":
            columns = {"embedding": pa.array(list(values[rows]), type=pa.list_(pa.float32()))}
        else:
            columns = {f"f{d}": pa.array(values[rows, d]) for d in range(values.shape[1])}
        if ids is not None:
            columns["item_id"] = pa.array(ids[rows])
        pq.write_table(pa.table(columns), folder / f"part-{k}.parquet", row_group_size=20)
    return folder


@pytest.mark.parametrize("form", ["list", "ragged", "columns"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_sharded_parquet_is_the_table(form: str, shuffled: bool, tmp_path: Path) -> None:
    order = RNG.permutation(len(V)) if shuffled else np.arange(len(V))
    items = shards(tmp_path / "items", V[order], ids=order if shuffled else None, form=form)
    model = read_factors(shards(tmp_path / "users", U, form=form), items, cache=tmp_path / "cache")
    assert (model.n_users, model.n_items, repr(model)) == (50, 300, "StoredFactors(factors, 50 users, 300 items)")
    np.testing.assert_array_equal(model.users, U)
    np.testing.assert_array_equal(model.items, V)
    assert isinstance(model.items, np.memmap)


def test_any_file_and_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "users.npy", U)
    feather.write_feather(pa.table({"vector": vectors(V)}), tmp_path / "items.feather")
    shards(tmp_path / "items", V)
    local = fs.LocalFileSystem()
    below = fs.SubTreeFileSystem(str(tmp_path), local)
    kinds: list[tuple[Any, dict[str, Any]]] = [
        (tmp_path / "items.feather", {}),
        (str(tmp_path / "items" / "part-0.parquet"), {}),
        ("items", {"filesystem": below}),
        (f"file://{tmp_path}/items", {}),
        ([str(path) for path in sorted((tmp_path / "items").iterdir())], {}),
        (ds.dataset(tmp_path / "items"), {}),
        (V, {}),
    ]
    try:
        import fsspec

        memory = fsspec.filesystem("memory")
        for path in (tmp_path / "items").iterdir():
            memory.pipe(f"/items/{path.name}", path.read_bytes())
        kinds.append(("memory://items", {}))
        kinds.append(("/items", {"filesystem": memory}))
    except ImportError:
        pass
    for source, options in kinds:
        model = read_factors(tmp_path / "users.npy", source, cache=tmp_path / "cache", **options)
        expected = V[:100] if isinstance(source, str) and source.endswith("part-0.parquet") else V
        np.testing.assert_array_equal(model.items, expected)
        np.testing.assert_array_equal(model.users, U)


def test_copies_are_made_once_and_again_when_the_files_change(tmp_path: Path) -> None:
    users = tmp_path / "users.npy"
    np.save(users, U)
    items = shards(tmp_path / "items", V)
    first = read_factors(users, items, cache=tmp_path / "cache")
    assert first.items[7, 0] == V[7, 0]
    (copy,) = (tmp_path / "cache").iterdir()
    made = copy.stat().st_mtime_ns
    assert read_factors(users, items, cache=tmp_path / "cache").digest() == first.digest()
    assert read_factors(users, items, cache=tmp_path / "cache").items[7, 0] == V[7, 0]
    assert copy.stat().st_mtime_ns == made
    pq.write_table(pa.table({"embedding": vectors(-V[:100])}), items / "part-0.parquet")
    os.utime(items / "part-0.parquet", (1, 1))
    second = read_factors(users, items, cache=tmp_path / "cache")
    assert second.items[7, 0] == -V[7, 0]
    assert second.digest() != first.digest()


def test_it_is_a_model_like_any_other_and_travels_as_an_address(tmp_path: Path) -> None:
    split = Split(sp.csr_matrix((50, 300), dtype=np.float32), np.arange(50), RNG.integers(0, 300, 50))
    bias = np.arange(300) % 5
    model = read_factors(shards(tmp_path / "users", U), shards(tmp_path / "items", V), bias, cache=tmp_path / "cache")
    expected = Observation((U, V, bias.astype(np.float32)), split, progress=False).advance("uni20")
    letter = pickle.dumps(model)
    assert len(letter) < 8000
    for each in (model, pickle.loads(letter)):
        assert isinstance(each, StoredFactors)
        seen = Observation(each, split, progress=False, checkpoint=tmp_path / "kept").advance("uni20")
        np.testing.assert_array_equal(seen.above, expected.above)


@pytest.mark.parametrize("ids", [False, True])
def test_a_range_of_items_reads_and_keeps_that_range_only(ids: bool, tmp_path: Path) -> None:
    order = RNG.permutation(300) if ids else np.arange(300)
    items = shards(tmp_path / "items", V[order], n=6, ids=order if ids else None)
    model = read_factors(U, items, cache=tmp_path / "cache")
    part = pickle.loads(pickle.dumps(model.for_items(100, 150)))
    np.testing.assert_array_equal(part.items[100:150], V[100:150])
    assert part.items.shape == V.shape
    assert not part.items[:100].any()
    split = Split(sp.csr_matrix((50, 300), dtype=np.float32), np.arange(50), RNG.integers(0, 300, 50))
    for design in ("full", "uni20"):
        seen = Observation(model, split, progress=False, map=lambda t, b: spread(map, t, b, 4)).advance(design)
        np.testing.assert_array_equal(seen.above, Observation((U, V), split, progress=False).advance(design).above)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    np.save(tmp_path / "object.npy", np.array([{}]), allow_pickle=True)
    twice = np.arange(300)
    twice[5] = 4
    beyond = np.arange(300)
    beyond[5] = 300
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "names.parquet")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.parquet").write_text("no")
    for source, words in (
        (tmp_path / "object.npy", "no array of numbers in NumPy's format"),
        (tmp_path / "names.parquet", "columns of floats alone, or `vectors` must name one; it has 'name'"),
        (tmp_path / "nowhere.parquet", "cannot be read as a dataset"),
        (tmp_path / "text.parquet", "cannot be read as a dataset"),
        (tmp_path / "empty", "holds no files"),
        (np.zeros(3), "must be a matrix of numbers"),
        (V[:, :4], "width 6 and item factors of width 4"),
        (shards(tmp_path / "twice", V, ids=twice), "holds a position twice"),
        (
            shards(tmp_path / "beyond", V, ids=beyond),
            "must have a vector for every position below 300, and have none for 5",
        ),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=words):
            read_factors(U, source, cache=tmp_path / "cache").items  # noqa: B018
    good = shards(tmp_path / "good", V)
    with pytest.raises(ValueError, match="no column of lists 'vec'; it has 'embedding'"):
        read_factors(U, good, vectors="vec")
    with pytest.raises(ValueError, match="no column of whole numbers 'number'; it has 'embedding'"):
        read_factors(U, good, ids="number")
    with pytest.raises(ValueError, match=r"must have one item bias per item, \(300,\), got shape \(2,\)"):
        read_factors(U, good, [1, 2])
