"""The command line prints what `tests/golden/cli` shows: layout to the character, numbers to two hundredths.

Numbers are the business of other tests; here a better prior may move them a little.
"""

import re

import pytest
from make_cli import COMMANDS, HERE, said, write_inputs

NUMBER = re.compile(r"\d+\.\d+")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.mark.parametrize("golden", COMMANDS)
def test_prints_the_golden_output(golden, folder, monkeypatch):
    monkeypatch.setenv("FULLRANK_DATA", "")  # undone after the test, whatever the command sets
    if "--html" in COMMANDS[golden]:
        pytest.importorskip("vl_convert")
    found, expected = said(COMMANDS[golden], folder), (HERE / f"{golden}.txt").read_text(encoding="utf-8")
    if "--markdown" not in COMMANDS[golden]:  # a table for a file, whatever the terminal
        assert max(len(line) for line in found.splitlines()[1:]) <= 80
    assert "\x1b" not in found
    if golden == "demo":  # the bars are numbers too
        found, expected = (re.sub(r"█+ *", "█ ", text) for text in (found, expected))
    found, expected = (re.sub(r"LogSpline\([^)]*\)", "LogSpline", text) for text in (found, expected))
    assert NUMBER.sub("#", found) == NUMBER.sub("#", expected)
    for ours, theirs in zip(NUMBER.findall(found), NUMBER.findall(expected), strict=True):
        assert float(ours) == pytest.approx(float(theirs), abs=0.02)
