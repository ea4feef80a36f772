"""What the site does differently from plain MkDocs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Fit the navigation to the pages that are there: absent ones are left out, unnamed ones go last."""
    docs = Path(config["docs_dir"])
    nav, named = _present(config["nav"], docs)
    found = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    config["nav"] = nav + ([{"More": sorted(found - named)}] if found - named else [])
    return config


def _present(nav: list[Any], docs: Path) -> tuple[list[Any], set[str]]:
    """The entries whose pages exist, and those pages."""
    kept: list[Any] = []
    named: set[str] = set()
    for entry in nav:
        title, what = next(iter(entry.items())) if isinstance(entry, dict) else ("", entry)
        if isinstance(what, list):
            below, pages = _present(what, docs)
            kept.append({title: below})
            named |= pages
        elif (docs / what).is_file():
            kept.append(entry)
            named.add(what)
    return kept, named


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """What a page needs is said to the tests, not to readers."""
    return re.sub(r"<!-- needs: .*? -->\n?", "", markdown)
