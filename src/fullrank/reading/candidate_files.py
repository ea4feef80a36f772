"""Files of candidates: Elliot's lists of negatives, TREC runs and judgements."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullrank._checks import more
from fullrank._types import Array, IntArray
from fullrank.data.frames import encode, repeats
from fullrank.data.readers import Source, _blocks, _empty, _name, _unreadable

__all__ = ["WHOLE_NUMBER", "CandidateLists", "read_elliot_negatives", "read_trec_qrels", "read_trec_run"]


WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})")


@dataclass(frozen=True, eq=False)
class CandidateLists:
    """Lists of negatives by name: list l belongs to ``users[l]`` (and ``targets[l]``, where the file says it).

    Its negatives are ``negatives[offsets[l]:offsets[l + 1]]``, as they stand in the file.
    """

    users: Array
    targets: Array | None
    negatives: Array
    offsets: IntArray

    def __post_init__(self) -> None:
        users, offsets = len(self.users), np.asarray(self.offsets)
        fits = len(offsets) == users + 1 and offsets[0] == 0 and offsets[-1] == len(self.negatives)
        if not fits or (np.diff(offsets) < 0).any() or (self.targets is not None and len(self.targets) != users):
            raise ValueError(
                f"`offsets` must rise from 0 to the {len(self.negatives)} negatives in {users} steps, one per user, and "
                "`targets`, if given, must be one per user."
            )

    def __len__(self) -> int:
        return len(self.users)


def read_elliot_negatives(source: Source, *, progress: bool = False) -> CandidateLists:
    """Read Elliot's negatives: a user, or a tuple (user,) or (user, item), then the negatives, separated by tabs.

    Elliot writes ``str((user,))``, so names may be quoted, and wrapped (``np.int64(7)``) by recent versions of NumPy. Names
    that are all whole numbers are read as such. A last line that is shorter than all the others, which agree, and has no
    line end is taken for a file cut short.
    """
    heads: list[tuple[str, ...]] = []
    lines: list[int] = []
    sizes: list[int] = []
    items: list[str] = []
    ended = True  # whether the last line has a line end
    for number, line, whole in _text_lines(source, progress):
        ended = whole
        head, tab, tail = line.partition("\t")
        names = _head(head)
        if not tab or names is None:
            raise _unreadable(
                source, number, line.encode(), "a user, or (user,) or (user, item), and negatives separated by tabs"
            )
        found = tail.rstrip("\t ").split("\t") if tail.strip() else []
        if not all(found):
            raise _unreadable(source, number, line.encode(), "an item between every two tabs")
        if heads and len(names) != len(heads[0]):
            raise _unreadable(
                source, number, line.encode(), f"{'a user and an item' if len(heads[0]) == 2 else 'a user'} first"
            )
        heads.append(names)
        lines.append(number)
        sizes.append(len(found))
        items += found
    if not heads:
        raise _empty(source)
    first: dict[tuple[str, ...], int] = {}
    for head_, number in zip(heads, lines, strict=True):
        if first.setdefault(head_, number) != number:
            raise ValueError(
                f"`{_name(source)}` line {number}: {', '.join(head_)} has a list already, in line {first[head_]}."
            )
    if not ended and len(set(sizes[:-1])) == 1 and sizes[-1] < sizes[0]:
        raise ValueError(
            f"`{_name(source)}` line {lines[-1]}: {sizes[-1]} negatives where every other line has {sizes[0]}, and no line "
            "end; is the file cut short?"
        )
    offsets = np.r_[0, np.cumsum(sizes)].astype(np.int64)
    targets = _typed([head[1] for head in heads]) if len(heads[0]) == 2 else None
    return CandidateLists(_typed([head[0] for head in heads]), targets, _typed(items), offsets)


def read_trec_run(source: Source, *, progress: bool = False) -> dict[str, Array]:
    """Read a TREC run, ``qid Q0 docno rank score tag``, as columns ``query_id``, ``doc_id``, ``score``; ids stay strings.

    The rank column is not used (trec_eval does not either). A document twice in a query is an error.
    """
    found = _read_trec(source, progress, "qid Q0 docno rank score tag", 4, _finite, "a finite score")
    return {"query_id": found[0], "doc_id": found[1], "score": np.array(found[2], dtype=np.float64)}


def read_trec_qrels(source: Source, *, progress: bool = False) -> dict[str, Array]:
    """Read TREC judgements, ``qid 0 docno relevance``, as columns ``query_id``, ``doc_id``, ``relevance``."""
    found = _read_trec(source, progress, "qid 0 docno relevance", 3, _whole, "a whole number as relevance")
    return {"query_id": found[0], "doc_id": found[1], "relevance": np.array(found[2], dtype=np.int64)}


def _read_trec(
    source: Source, progress: bool, form: str, value: int, read: Callable[[str], Any], expected: str
) -> tuple[Array, Array, list[Any]]:
    queries: list[str] = []
    documents: list[str] = []
    values: list[Any] = []
    lines: list[int] = []
    width = len(form.split())
    for number, line, _ in _text_lines(source, progress):
        fields = line.split()
        if len(fields) != width:
            raise _unreadable(source, number, line.encode(), form)
        number_read = read(fields[value])
        if number_read is None:
            raise _unreadable(source, number, line.encode(), expected)
        queries.append(fields[0])
        documents.append(fields[2])
        values.append(number_read)
        lines.append(number)
    if not lines:
        raise ValueError(f"`{_name(source)}` line 1: the file is empty; expected lines of {form}.")
    names, docs = np.array(queries, dtype=object), np.array(documents, dtype=object)
    query, document = encode(names, "user")[0], encode(docs, "item")[0]
    repeated = repeats(query * (int(document.max()) + 1) + document)
    if len(repeated):
        r = int(repeated.min())
        raise ValueError(
            f"`{_name(source)}` line {lines[r]}: document {documents[r]!r} of query {queries[r]!r} is there already"
            f"{more(len(repeated))}."
        )
    return names, docs, values


def _text_lines(source: Source, progress: bool) -> Iterator[tuple[int, str, bool]]:
    """Yield (number, text, whether it is ended) of every line that is not blank."""
    for block, first in _blocks(source, progress):
        for number, line in enumerate(block.splitlines(keepends=True), first):
            if not line.strip():
                continue
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise _unreadable(source, number, line, "UTF-8 text") from None
            yield number, text.rstrip("\r\n"), line.endswith((b"\n", b"\r"))


_NAME = r"""(?:np\.\w+\()?(-?\d+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)?"""
_TUPLE = re.compile(rf"\(\s*{_NAME}\s*,\s*(?:{_NAME}\s*)?,?\s*\)")


def _head(text: str) -> tuple[str, ...] | None:
    """The names in the first field: ``(7,)``, ``('ann', 'x')``, ``7``, ``ann``; None if there are none."""
    text = text.strip()
    if not text.startswith("("):
        return (text,) if text else None
    found = _TUPLE.fullmatch(text)
    if found is None:
        return None
    return tuple(ast.literal_eval(name) if name[0] in "'\"" else name for name in found.groups() if name is not None)


def _typed(names: list[str]) -> Array:
    """Integers if all names are written as such, else strings."""
    if all(WHOLE_NUMBER.fullmatch(name) for name in names):
        return np.array(names, dtype=np.int64) if names else np.zeros(0, dtype=np.int64)
    return np.array(names, dtype=object)


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) and "_" not in text else None


def _whole(text: str) -> int | None:
    return int(text) if WHOLE_NUMBER.fullmatch(text) else None
