"""Read files of candidates: Elliot's lists of negatives, TREC runs and judgements."""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from fullrank._checks import more
from fullrank._types import Array
from fullrank.data.frames import encode, repeats
from fullrank.data.readers import Negatives, Source, lines_of, no_interactions, source_name, unreadable

WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})")
DECIMAL_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class CandidateLists(Negatives):
    """Lists of negatives by name: list l belongs to ``users[l]`` (and ``targets[l]``, where the file has targets)."""


def read_elliot_negatives(source: Source, *, progress: bool = False) -> CandidateLists:
    """Read Elliot's negatives: a user, or a tuple (user,) or (user, item), then the negatives, separated by tabs.

    Elliot writes ``str((user,))``, so names may be quoted, and wrapped (``np.int64(7)``) by recent versions of NumPy. Names
    that are all whole numbers are read as such. A last line that is shorter than all the others, which agree, and has no
    line end is taken for a file cut short.
    """
    lists: dict[tuple[str, ...], tuple[int, list[str]]] = {}  # of each head: the line, and the negatives
    number, line = 0, ""
    for number, line in _text_lines(source, progress):
        head, tab, tail = line.rstrip("\r\n").partition("\t")
        names = _head(head)
        if not tab or names is None:
            expected = "a user, or (user,) or (user, item), and negatives separated by tabs"
            raise unreadable(source, number, line.encode(), expected)
        if names in lists:
            already = f"{', '.join(names)} has a list already, in line {lists[names][0]}"
            raise ValueError(f"`{source_name(source)}` line {number}: {already}.")
        width = len(next(iter(lists), names))
        if len(names) != width:
            raise unreadable(source, number, line.encode(), f"{'a user and an item' if width == 2 else 'a user'} first")
        lists[names] = number, tail.rstrip("\t ").split("\t") if tail.strip() else []
        if not all(lists[names][1]):
            raise unreadable(source, number, line.encode(), "an item between every two tabs")
    if not lists:
        raise no_interactions(source)
    sizes = [len(items) for _, items in lists.values()]
    if not line.endswith(("\n", "\r")) and len(set(sizes[:-1])) == 1 and sizes[-1] < sizes[0]:
        short = f"{sizes[-1]} negatives where every other line has {sizes[0]}, and no line end"
        raise ValueError(f"`{source_name(source)}` line {number}: {short}; is the file cut short?")
    users, *targets = (_typed(column) for column in zip(*lists, strict=True))
    items = _typed(list(chain.from_iterable(items for _, items in lists.values())))
    return CandidateLists(users, targets[0] if targets else None, items, np.cumsum([0, *sizes]))


def read_trec_run(source: Source, *, progress: bool = False) -> dict[str, Array]:
    """Read a TREC run, ``qid Q0 docno rank score tag``, as columns ``query_id``, ``doc_id``, ``score``; ids stay strings.

    The rank column is not used (trec_eval does not either). A document twice in a query is an error.
    """
    return _read_trec(source, progress, "qid Q0 docno rank score tag", "score", float, "a finite score")


def read_trec_qrels(source: Source, *, progress: bool = False) -> dict[str, Array]:
    """Read TREC judgements, ``qid 0 docno relevance``, as columns ``query_id``, ``doc_id``, ``relevance``."""
    return _read_trec(source, progress, "qid 0 docno relevance", "relevance", int, "a whole number as relevance")


def _read_trec(
    source: Source, progress: bool, form: str, value: str, kind: type[int | float], expected: str
) -> dict[str, Array]:
    rows: list[tuple[str, str, int | float, int]] = []
    wanted = form.split()
    number_form = WHOLE_NUMBER if kind is int else DECIMAL_NUMBER
    for number, line in _text_lines(source, progress):
        fields = line.split()
        if len(fields) != len(wanted):
            raise unreadable(source, number, line.encode(), form)
        text = fields[wanted.index(value)]
        if not number_form.fullmatch(text) or not np.isfinite(kind(text)):
            raise unreadable(source, number, line.encode(), expected)
        rows.append((fields[0], fields[2], kind(text), number))
    if not rows:
        raise ValueError(f"`{source_name(source)}` line 1: the file is empty; expected lines of {form}.")
    names, documents, values, lines = zip(*rows, strict=True)
    queries, docs = np.array(names, dtype=object), np.array(documents, dtype=object)
    query, document = encode(queries, "user")[0], encode(docs, "item")[0]
    repeated = repeats(query * (int(document.max()) + 1) + document)
    if len(repeated):
        r = int(repeated.min())
        pair = f"document {documents[r]!r} of query {names[r]!r}"
        raise ValueError(f"`{source_name(source)}` line {lines[r]}: {pair} is there already{more(len(repeated))}.")
    return {"query_id": queries, "doc_id": docs, value: np.array(values)}


def _text_lines(source: Source, progress: bool) -> Iterator[tuple[int, str]]:
    """Yield the number and the text, end included, of every line that is not blank."""
    for number, line in lines_of(source, progress):
        try:
            yield number, line.decode()
        except UnicodeDecodeError:
            raise unreadable(source, number, line, "UTF-8 text") from None


_NAME = r"""(?:np\.\w+\()?(-?\d+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)?"""
_TUPLE = re.compile(rf"\(\s*{_NAME}\s*,\s*(?:{_NAME}\s*)?,?\s*\)")


def _head(text: str) -> tuple[str, ...] | None:
    """Return the names in the first field: ``(7,)``, ``('ann', 'x')``, ``7``, ``ann``; None if there are none."""
    text = text.strip()
    if not text.startswith("("):
        return (text,) if text else None
    found = _TUPLE.fullmatch(text)
    if found is None:
        return None
    return tuple(ast.literal_eval(name) if name[0] in "'\"" else name for name in found.groups() if name is not None)


def _typed(names: Sequence[str]) -> Array:
    """Read names as integers if all are written as such, else as strings."""
    whole = all(WHOLE_NUMBER.fullmatch(name) for name in names)
    return np.array(names, dtype=np.int64 if whole else object)
