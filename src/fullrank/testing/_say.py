"""Raise ``AssertionError`` with one sentence where a check fails, also under ``python -O``."""

from collections.abc import Callable


def check(holds: object, sentence: str) -> None:
    """Raise ``AssertionError(sentence)`` unless ``holds``."""
    if not holds:
        raise AssertionError(sentence)


def check_value(value: object, printed: str, verb: str, read: Callable[[], object]) -> None:
    """Check that something is a value: it can be hashed, and what is ``printed`` of it reads back as its equal."""
    try:
        hash(value)
    except TypeError:
        raise AssertionError(f"{value!r} cannot be hashed: make it a frozen dataclass.") from None
    try:
        back = read()
    except Exception as error:
        raise AssertionError(f"{printed} does not {verb} back: {error}") from None
    check(back == value and hash(back) == hash(value), f"{printed} {verb}s back as {back!r}.")
