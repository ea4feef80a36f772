"""What people hand over by mistake, found by trying: one clear sentence, or the right number; never a silent wrong one."""

import os

import numpy as np
import pytest

import fullrank as fr
from fullrank._files import write_atomically


@pytest.fixture(scope="module")
def ranks():
    rng = np.random.default_rng(0)
    true = (5000 ** rng.beta(1.0, 1.2, size=(2, 400))).astype(int)
    return 1 + rng.binomial(99, (true - 1) / 4999)


# ------------------------------------------------------------------------------------------------------- files


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path, ranks):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # as /dev/stdout or /dev/null would be
    counts = fr.RankCounts.from_ranks(ranks[0], 5000, "uni99")
    for write in (counts.save, fr.correct(counts, metrics="ndcg@10").to_html, lambda path: write_atomically(path, b"")):
        with pytest.raises(ValueError, match="must be a file, got .*pipe"):
            write(pipe)
    assert pipe.is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["pipe"]


def test_a_link_stays_a_link(tmp_path, ranks):
    (tmp_path / "there").mkdir()
    link = tmp_path / "counts.npz"
    link.symlink_to(tmp_path / "there" / "counts.npz")
    counts = fr.RankCounts.from_ranks(ranks[0], 5000, "uni99")
    for _ in range(2):  # a link to nothing, and to a file
        counts.save(link)
        assert link.is_symlink()
        assert fr.RankCounts.load(tmp_path / "there" / "counts.npz") == counts


def test_a_file_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path):
    with pytest.raises(OSError) as caught:
        write_atomically(tmp_path / "no such folder" / "page.html", b"")
    assert caught.value.filename == str(tmp_path / "no such folder" / "page.html")
