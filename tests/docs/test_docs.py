"""The pages say what is true: fields of the JSON, lengths of recipes, links, and a site that needs no network."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from page_scripts import outputs

import fullrank as fr

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
NEEDS = re.compile(r"<!-- needs: ([\w., -]+) -->")
TYPES = {"string": str, "number": (int, float), "integer": int, "null": type(None), "object": dict, "array": list}


def documented(head):
    """Field → type, from the table of `docs/cli.md` that begins with this head."""
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    table = text.split(f"| {head} |", 1)[1].split("\n\n", 1)[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", table, re.MULTILINE))


def allowed(told):
    return tuple(kind for word in told.split(" or ") for kind in [TYPES[word.split()[0]]] for kind in _flat(kind))


def _flat(kind):
    return kind if isinstance(kind, tuple) else (kind,)


@pytest.mark.parametrize(("design", "estimator"), [("uni99", None), ("uni99", "cls"), ("adaptive 9..39 stop 1", "mle")])
def test_the_json_has_the_documented_fields_and_no_other(design, estimator):
    ranks, drawn = ([1, 4, 2], [39, 9, 39]) if "adaptive" in design else ([1, 4, 2], None)
    report = fr.correct(
        {"EASE": ranks}, n_items=500, design=design, drawn=drawn, metrics="ndcg@10", estimator=estimator
    )
    document = json.loads(report.to_json())
    fields, rows = documented("field"), documented("field of a row")
    assert document["schema"] == "fullrank.report/2"
    assert list(document) == list(fields)
    assert list(document["rows"][0]) == list(rows)
    for found, told in [(document, fields), (document["rows"][0], rows)]:
        for name, value in found.items():
            assert isinstance(value, allowed(told[name])), name
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in document["provenance"])


def test_the_json_of_comparisons_and_plans_is_documented():
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    counts = {
        name: fr.RankCounts.from_ranks([1, 4, 2, top] * 20, 500, "uni99") for name, top in {"A": 9, "B": 1}.items()
    }
    found = [fr.compare(counts).to_dict()]
    if hasattr(fr, "plan"):
        found.append(fr.plan(n_items=500, cases=100, metric="recall@10", precision=0.1).to_dict())
    for document in found:
        assert f"`{document['schema']}`" in text
        inner = [each[0] for each in document.values() if isinstance(each, list) and each and isinstance(each[0], dict)]
        for one in [document, *(each for each in inner if "cost" not in each)]:
            assert [name for name in one if f"`{name}`" not in text] == []


def test_recipes_are_at_most_forty_lines():
    for page in (ROOT / "docs/recipes").glob("*.md"):
        text = re.sub(r"^```text\n.*?^```\n", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert len(text.splitlines()) <= 40, page.name  # what a script prints is not what one has to read


LIBRARIES = [page for page in (ROOT / "docs/recipes").glob("*.md") if page.stem not in {"index", "expensive_rankers"}]


@pytest.mark.parametrize("page", LIBRARIES, ids=lambda page: page.stem)
def test_recipes_are_two_lines_first_then_a_whole_script_with_its_output(page):
    """Of the library and fullrank alone, `fr` is imported by the reader's own hand, and nothing is typed at a prompt."""
    text = page.read_text(encoding="utf-8")
    assert ">>>" not in text
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    kinds = [kind for kind, _ in blocks]
    assert kinds[:3] == ["text", "python", "text"]
    assert len(blocks[0][1].splitlines()) == 2
    assert "fr." in blocks[0][1] or "report." in blocks[0][1]
    assert "fullrank as fr" in blocks[1][1]
    assert not re.search(r"from fullrank|import fullrank\.", blocks[1][1])
    assert blocks[2][1].strip()
    assert "hand" in text or page.stem in {"mlflow", "rectools"}  # the model handed over, the other way


def is_script(page):
    """Whether a page holds scripts with their outputs; RecBole's is run by `.ci/recbole`, in an environment of its own."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return page.name != "recbole.md" and any(not block.startswith(">>>") for block in blocks)


SCRIPTS = [page for page in PAGES if is_script(page)]
NUMBER = re.compile(r"\d+\.\d+")


@pytest.mark.parametrize("page", SCRIPTS, ids=lambda page: page.stem)
def test_scripts_print_what_the_page_shows(page, tmp_path, monkeypatch):
    """Layout to the character, numbers to two hundredths: a better prior may move them a little."""
    text = page.read_text(encoding="utf-8")
    for name in (NEEDS.search(text) or ["", ""])[1].replace(" ", "").split(","):
        if name:
            pytest.importorskip(name)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    found = outputs(text)
    assert found
    for shown, printed, _ in found:
        assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
        for ours, theirs in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
            assert float(ours) == pytest.approx(float(theirs), abs=0.02)


def test_every_python_block_of_every_page_is_run():
    """Blocks are doctests, scripts of a page that is run, or of `.ci/recbole`; other code would only look tested."""
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/recipes").glob("recbole_*.py")]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^[ ]*```(?:python|py)\n(.*?)^[ ]*```", text, re.MULTILINE | re.DOTALL):
            assert block.lstrip().startswith(">>> ") or block in scripts or page in SCRIPTS, (page.name, block[:80])


def test_the_readme_stands_alone():
    """Where it is shown without the rest of the checkout, as on PyPI, no link and no picture of it is broken."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target] == []
    assert f'version = "{fr.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"## [{fr.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_picture_and_the_readme_show_what_the_demo_prints():
    """`docs/make_picture.py` draws the picture anew; what the demo prints is a golden file with a test of its own."""
    demo = (ROOT / "tests/golden/cli/demo.txt").read_text(encoding="utf-8")
    bars = demo.split("recall@10\n")[1].split("\n\n")[0]
    assert bars in (ROOT / "README.md").read_text(encoding="utf-8")
    drawn = re.search(r"<desc[^>]*>(.*?)</desc>", (ROOT / "docs/picture.svg").read_text(encoding="utf-8"))
    assert re.findall(r"\d\.\d{3}", drawn[1]) == re.findall(r"(?:Broad|Sharp) +(\d\.\d{3})", bars)


def test_no_recipe_imports_from_inside():
    for page in (ROOT / "docs/recipes").glob("*.md"):
        found = re.findall(r"(?:from|import) (fullrank\.[\w.]+)", page.read_text(encoding="utf-8"))
        assert found == [], page.name


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)


@pytest.mark.skipif(importlib.util.find_spec("mkdocstrings") is None, reason="make docs builds the site in .ci/run")
def test_the_site_builds_strictly_and_asks_for_nothing_outside(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|img|iframe)[^>]+src=\"?https?:", text)
        assert not re.search(r"<link[^>]+href=\"?https?:[^>]*stylesheet", text)
        assert "fonts.g" not in text
    assert "Metric" in (tmp_path / "site/api.html").read_text(encoding="utf-8")
