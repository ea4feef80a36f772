"""Progress is shown where somebody looks; elsewhere nothing is imported, locked or printed."""

from __future__ import annotations

import io
import subprocess
import sys
import types

import pytest

from fullrank._progress import bar


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal())
    with bar(True, 3, "counting", delay=0.0, leave=True) as shown:
        shown.update(3)
    assert "counting: 100%" in sys.stderr.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("progress", [True, False])
def test_a_file_or_a_user_who_said_no_does_not(monkeypatch: pytest.MonkeyPatch, progress: bool) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO() if progress else _Terminal())
    with bar(progress, 3, "counting", delay=0.0, leave=True) as shown:
        shown.update(3)
        shown.set_postfix_str("nothing")
    assert not sys.stderr.getvalue()  # type: ignore[attr-defined]


def test_a_notebook_sees_it_though_it_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with bar(True, 3, "counting", delay=60.0) as shown:
        assert type(shown).__module__.startswith("tqdm")


def test_where_nobody_looks_tqdm_and_its_lock_are_not_touched() -> None:
    code = (
        "import sys\nfrom fullrank._progress import bar\nbar(True, 3, 'x').update()\nassert 'tqdm' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
