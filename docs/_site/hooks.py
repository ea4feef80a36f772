"""What the site does differently from plain MkDocs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Leave pages out of the navigation that are not there, so that one page less does not break the build."""
    config["nav"] = _present(config["nav"], Path(config["docs_dir"]))
    return config


def _present(nav: list[Any], docs: Path) -> list[Any]:
    kept: list[Any] = []
    for entry in nav:
        if isinstance(entry, str):
            kept += [entry] if (docs / entry).is_file() else []
            continue
        ((title, what),) = entry.items()
        if isinstance(what, list):
            kept.append({title: _present(what, docs)})
        elif (docs / what).is_file():
            kept.append(entry)
    return kept


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Comments are for the tests; links to files outside the site lead to the repository's text instead of nowhere."""
    return re.sub(r"<!-- needs: .*? -->\n?", "", markdown)
