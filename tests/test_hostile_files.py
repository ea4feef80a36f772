"""Every reader of files: whatever is in them, the answer is data or one sentence, in bounded time and memory."""

import numpy as np
import pytest

import fullrank as fr
from fullrank.data import readers
from fullrank.models.fitted import load_model
from fullrank.reading import candidate_files, tables

READERS = {
    "ratings.dat": readers.read_ratings_dat,
    "ratings.csv": readers.read_ratings_csv,
    "u.data": readers.read_u_data,
    "yelp.rating": readers.read_rating,
    "ml-1m.test.negative": readers.read_negatives,
    "users.dat": readers.read_users_dat,
    "train.txt": readers.read_adjacency,
    "BX-Book-Ratings.csv": readers.read_book_ratings,
    "elliot.tsv": candidate_files.read_elliot_negatives,
    "run.trec": candidate_files.read_trec_run,
    "qrels.txt": candidate_files.read_trec_qrels,
    "ranks.csv": lambda path: tables.read_counts(path, "uni9", 1000),
    "ranks.tsv": lambda path: tables.read_counts(path, "uni9", 1000),
    "ranks.parquet": lambda path: tables.read_counts(path, "uni9", 1000),
    "ranks.npy": lambda path: tables.read_counts(path, "uni9", 1000),
    "scores.inter": lambda path: tables.read_counts(path, "uni9", 1000),
    "counts.npz": fr.RankCounts.load,
    "model.npz": load_model,
}
CONTENT = {
    "empty": b"",
    "newlines": b"\n" * 5000,
    "zeros": b"\0" * 5000,
    "every byte": bytes(range(256)) * 50,
    "utf-16": "rank\n1\n2\n".encode("utf-16"),
    "bom": b"\xef\xbb\xbfrank\n1\n2\n",
    "a line without end": b"7" * 2_000_000,
    "many columns": b",".join(b"c%d" % i for i in range(2_000)) + b"\n" + b",".join([b"1"] * 2_000),
    "markup": b"<script>alert(1)</script>\t<b>2</b>\n",
    "a formula": b'=cmd|"/c calc"!A1,1\n',
    "escapes": b"rank\x1b[2J\n\x1b]0;title\x07\n",
    "direction": "rank\u202e\n1\n".encode(),
    "huge numbers": b"user_id,rank\n99999999999999999999999,1e400\n",
    "negative": b"-1\t-1\t-1\t-1\n",
    "nan": b"nan\tnan\tnan\tnan\n",
    "a zip": b"PK\x03\x04" + b"\0" * 100,
    "deep brackets": b"(" * 50_000 + b"\t1\n",
}


@pytest.mark.parametrize("content", CONTENT)
@pytest.mark.parametrize("name", READERS)
def test_hostile_content_is_data_or_one_sentence(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(CONTENT[content])
    try:
        READERS[name](path)
    except (ValueError, TypeError) as error:
        told = str(error)
        assert told, "an error must say something"
        assert "\n" not in told
        assert len(told) < 2000
        assert "zero-size" not in told  # a sentence of ours, not of NumPy's
        assert "\x1b" not in told


def test_a_zip_bomb_of_arrays_is_not_unpacked_before_it_is_looked_at(tmp_path):
    """An .npz whose members are not what counts consist of is refused by its names."""
    np.savez_compressed(tmp_path / "counts.npz", bomb=np.zeros(10_000_000, dtype=np.int8))
    with pytest.raises(ValueError, match=r"counts|missing|not"):
        fr.RankCounts.load(tmp_path / "counts.npz")
