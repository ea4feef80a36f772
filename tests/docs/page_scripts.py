"""Scripts of the documentation and what they print: `python tests/docs/page_scripts.py docs/index.md` writes outputs anew.

On a page, blocks of Python that are no doctests make one script, top to bottom, and blocks of `sh` are typed in the same
folder; the block of text that follows is what they print.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```(python|text|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def outputs(page: str) -> list[tuple[str, str, tuple[int, int]]]:
    """What each block of text says, what running the blocks before it prints, and where it stands on the page."""
    found, printed, namespace = [], "", {"__name__": "page"}
    for block in BLOCK.finditer(page):
        kind, body = block.groups()
        if kind == "python" and not body.startswith(">>>"):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, "page", "exec"), namespace)
            printed += out.getvalue()
        elif kind == "sh":
            printed += "".join(map(typed, body.replace("\\\n", " ").splitlines()))
        elif kind == "text" and printed:
            found.append((body, printed, block.span(2)))
            printed = ""
    return found


def typed(line: str) -> str:
    """What a command of fullrank prints."""
    from fullrank.cli import main

    words = shlex.split(line, comments=True)
    if words[:1] != ["fullrank"]:
        return ""
    out, before = io.StringIO(), sys.argv
    sys.argv = words
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main()
    finally:
        sys.argv = before
    return out.getvalue()


if __name__ == "__main__":
    for name in map(Path, sys.argv[1:]):
        text, home = name.read_text(encoding="utf-8"), Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "docs").symlink_to(home / "docs")
            os.environ.update(MLFLOW_TRACKING_URI=f"file://{folder}/mlruns", MLFLOW_ALLOW_FILE_STORE="true")
            os.chdir(folder)
            for _, printed, (first, last) in reversed(outputs(text)):
                text = text[:first] + printed.rstrip("\n") + "\n" + text[last:]
            os.chdir(home)
        name.write_text(text, encoding="utf-8")
