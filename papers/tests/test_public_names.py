"""The papers use the library as anyone would, by public names; and the library does not know of the papers."""

import ast
import importlib
from pathlib import Path

import pytest

import fullrank as fr
import fullrank_papers

SOURCES = sorted(Path(fullrank_papers.__file__).parent.rglob("*.py"))
#: Modules of the library whose names are public, besides those of `fullrank` itself.
MODULES = ("models", "testing")


def private_uses(text):
    """What a source says of the library that is not public: every import but `import fullrank as fr`, every such `fr.…`."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "fullrank":
            yield f"from {node.module} import …"
        elif isinstance(node, ast.Import):
            told = ((each.name, each.asname) for each in node.names if each.name.split(".")[0] == "fullrank")
            yield from (f"import {name}" for name, short in told if (name, short) != ("fullrank", "fr"))
        elif isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            private = node.attr.startswith("_") and not node.attr.endswith("__") and first not in ("self", "cls")
            of_library = first == "fr" and all(name.isidentifier() for name in rest)  # not what a call returned
            if private or (of_library and not public(rest)):
                yield ast.unparse(node)


def public(names):
    if names[0] in MODULES and len(names) > 1:
        return names[1] in importlib.import_module(f"fullrank.{names[0]}").__all__
    return names[0] in (*fr.__all__, "__version__", "__file__")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_only_public_names_are_used(path):
    assert list(private_uses(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "from fullrank.estimators.estimate import Problem",
        "from fullrank import _files",
        "import fullrank.ranks.counts",
        "import fullrank",
        "import fullrank as fr\nfr.ranks.counts",
        "import fullrank as fr\nfr.models.fitted.whole",
        "import fullrank as fr\nfr.RankCounts([1])._pairs",
    ],
)
def test_a_private_name_would_be_found(text):
    assert len(list(private_uses(text))) >= 1


def test_the_library_does_not_import_the_papers():
    for path in Path(fr.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("fullrank_papers") for name in names), path
