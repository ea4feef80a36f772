"""Docstrings are written for `help()`: turn their doctests and Sphinx roles into Markdown for the API page."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*\n?)+", re.MULTILINE)
_NO_LINK = re.compile(r"(```.*?```|``.*?``|`.*?`)|\]\(", re.DOTALL)
_ROLE = re.compile(r":\w+:`~?\.?([^`]+)`")


def markdown(text: str) -> str:
    """Doctests become fenced code, ``:func:`f` `` becomes `f`, and 1[R ≤ K](j/R) stays a formula rather than a link."""
    fenced = _DOCTEST.sub(lambda found: f"\n```python\n{found[0].strip()}\n```\n\n", text)
    return _NO_LINK.sub(lambda found: found[1] or r"]\(", _ROLE.sub(r"`\1`", fenced))


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each object once it is read."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
