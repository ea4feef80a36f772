"""Refusals in the same words everywhere: of parameters that cannot be, and of packages that are not installed."""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

#: How an item that scores the same as the target is ranked.
TIES = ("random", "optimistic", "pessimistic")


def check_whole(name: str, value: Any, least: int, *, none: bool = False) -> None:
    """Refuse anything but a whole number of at least ``least``, or None where ``none`` allows it."""
    if none and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        also = " or None" if none else ""
        raise ValueError(f"`{name}` must be a whole number of at least {least}{also}, got {value!r}.")


def check_number(name: str, value: Any, *, above: float | None = None, most: float = math.inf) -> None:
    """Refuse anything but a finite number above ``above`` (from 0 without it) and of at most ``most``."""
    fine = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not fine or not math.isfinite(value) or value > most or (value < 0 if above is None else value <= above):
        least = "at least 0" if above is None else f"above {above}"
        allowed = f"between {above or 0} and {most}" if most < math.inf else least
        raise ValueError(f"`{name}` must be a finite number {allowed}, got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False, got {value!r}.")


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuse anything but one of the ``allowed`` words."""
    if value not in allowed:
        words = ", ".join(map(repr, allowed[:-1])) + f" or {allowed[-1]!r}"
        raise ValueError(f"`{name}` must be {words}, got {value!r}{did_you_mean(value, allowed)}")


def by_name(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what models are given, their names as text; names that read the same, such as 1 and '1', are refused."""
    names = [str(name) for name in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two models are named {twice!r} when their names are written as text: rename one.")
    return dict(zip(names, given.values(), strict=True))


def did_you_mean(word: Any, known: Iterable[str], otherwise: str = ".", within: str = "{}") -> str:
    """End a message about an unknown word: with the one that was probably meant, else with ``otherwise``.

    ``within`` is what the word is a part of, such as ``"{}@10"``.
    """
    short = len(str(word)) <= 5  # two letters that changed places are half of a short word
    near = difflib.get_close_matches(str(word), list(known), 1, 0.5 if short else 0.6)
    return f"; did you mean {within.format(near[0])!r}?" if near else otherwise


def plural(count: Any, noun: str) -> str:
    """Write how many there are of something, as in "1 case" and "2 cases"."""
    return f"{int(count):,} {noun}{'s' * (int(count) != 1)}"


def first_where(bad: Any) -> int | None:
    """Return the first place where ``bad`` holds, or None where it holds nowhere."""
    places = np.flatnonzero(bad)
    return int(places[0]) if len(places) else None


def more(count: Any) -> str:
    """Say in brackets how many more of the same there are."""
    return "" if count <= 1 else f" (and {int(count) - 1:,} more)"


def require(package: str, what: str, install: str = "") -> Any:
    """Import a package, or say what needs it and how to install it."""
    try:
        return import_module(package)
    except ImportError:
        raise ImportError(f"{what} needs {package}: pip install {install or package}.") from None
