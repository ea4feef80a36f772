"""Raise ``AssertionError`` with one sentence where a check fails, also under ``python -O``."""

import re
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


def check_refusal(call: Callable[[], object], what: str) -> None:
    """Check that ``call`` raises ValueError with one sentence: a single line that ends in a full stop."""
    try:
        call()
    except ValueError as error:
        check_sentence(error, what)
    except Exception as error:
        raise AssertionError(
            f"{what} must be refused with a ValueError, not {type(error).__name__}: {error}"
        ) from error
    else:
        raise AssertionError(f"{what} must be refused with a ValueError, and was not.")


def check_sentence(error: Exception, what: str) -> None:
    """Check the message of a refusal: one line, not empty, ended by a full stop."""
    fits = re.fullmatch(r"[^\n]{10,}[.?]", str(error))
    check(fits, f"{what} must be refused in one sentence that ends in a full stop, not {str(error)!r}.")
