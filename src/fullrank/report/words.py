"""Numbers, names and sentences as people read them: the terminal, the page, notebooks and charts all write from here."""

import json
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fullrank._types import Pair

#: What is smaller than this is what arithmetic leaves of zero.
NOTHING = 1e-12
#: What is smaller than this share of the largest number does not decide how many digits all of them have.
NEGLIGIBLE = 1e-6
_UNFIT = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # part of emoji and of Indic and Persian spelling


def as_json(document: object, indent: int | None) -> str:
    """Write strict JSON: null for what is no finite number; a path is refused, where `json` would indent by it."""

    def strict(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): strict(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [strict(each) for each in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    if not (indent is None or isinstance(indent, int)):
        hint = "`to_json` returns the text, to be written by pathlib.Path(…).write_text(…)."
        raise TypeError(f"`indent` must be a whole number or None, got {indent!r}: {hint}")
    return json.dumps(strict(document), indent=indent, ensure_ascii=False, allow_nan=False)


def clean(text: object, most: int = 60) -> str:
    """Make text fit for one line: no controls, no overrides of direction, no lone surrogates, at most ``most`` long."""
    whole = str(text)[: 8 * most]
    kept = "".join(" " if unicodedata.category(c) in _UNFIT and c not in _JOINERS else c for c in whole)
    line = " ".join(kept.split())
    return (line if len(line) <= most else line[: most - 1] + "…") or "(no name)"


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with a true minus sign; a dash for none and for NaN."""
    if value is None or math.isnan(value):
        return "–"
    value = 0.0 if abs(value) < NOTHING else value
    if value and (abs(value) >= 1e9 or abs(value) < 0.5 * 10**-digits):
        return f"{value:.2g}".replace("-", "−")
    return f"{value:,.{digits}f}".replace("-", "−")


def interval_text(ends: Pair | None, digits: int = 4) -> str:
    """Write an interval: ``0.120 to 0.145``; ``exact`` where both ends are one; a dash where there are none."""
    if ends is None:
        return "–"
    return "exact" if ends[0] == ends[1] else " to ".join(number(end, digits) for end in ends)


def signed(value: float, digits: int = 4) -> str:
    """Write a difference with its sign, unless there is none."""
    return "+" * (value > NOTHING) + number(value, digits)


def decimals(values: Iterable[float]) -> int:
    """Return the decimals that give the smallest value three digits: four to six for shares, fewer for large numbers.

    A value that is next to nothing beside the largest asks for no digits of its own.
    """
    sizes = [abs(value) for value in values if abs(value) > NOTHING] or [1.0]  # none of NaN
    largest = max(sizes)
    smallest = min(size for size in sizes if size > NEGLIGIBLE * largest)
    return min(max(2 - math.floor(math.log10(smallest)), 4 if largest <= 1 else 0), 6)


def ratio(times: float) -> str:
    """Write how many times as much, without false digits: ``1.23``, ``3.4``, ``12``, ``38,000``."""
    if times < 1.95:
        return f"{times:.2f}"
    return f"{times:.1f}" if times < 10 else f"{float(f'{times:.2g}'):,.0f}"


def percent(share: float) -> str:
    """Write a share in percent, with a digit more where it is small."""
    if share and abs(share) < 0.0005:
        return f"{100 * share:.1g}%".replace("-", "−")
    return f"{100 * share:.0f}%" if abs(share) >= 0.1 else f"{100 * share:.1f}%".replace("-", "−")


def ranged(low: int, high: int, between: str = "–") -> str:
    """Write a range of whole numbers; one number where both ends are the same."""
    return f"{low:,}" if low == high else f"{low:,}{between}{high:,}"


def named(name: object) -> str:
    """Write a name inside a sentence: in quotes where it holds a comma or an "and", which would read as two names."""
    word = clean(name)
    return f"'{word}'" if re.search(r",| and | minus ", word) else word


def joined(names: Sequence[str], most: int = 3) -> str:
    """Write a few names as a list, and count the rest: ``A, B and 3 others``."""
    kept = [named(name) for name in names[: most if len(names) <= most else most - 1]]
    if len(names) > most:
        kept.append(f"{len(names) - most + 1:,} others")
    return kept[0] if len(kept) == 1 else f"{', '.join(kept[:-1])} and {kept[-1]}"


def short_design(design: str) -> str:
    """Name a design in the few words that fit a tile: ``adaptive, up to 4,799`` or ``uni99``."""
    if found := re.match(r"adaptive \S+\.\.(\S+)", design):
        return "adaptive, up to " + (f"{int(found[1]):,}" if found[1].isdigit() else found[1])
    return design.partition(" without")[0]


def assumed(own_prior: bool) -> str:
    """Say what intervals under a prior assume, as the beginning of a sentence."""
    whose = "the prior that was given" if own_prior else "recommenders seen before"
    return f"Intervals assume rank distributions like those of {whose}"


def merged_notes(notes: Iterable[object], models: Sequence[str]) -> list[str]:
    """Merge notes that several models share: ``A: few.`` and ``B: few.`` become ``A and B: few.``"""
    about: dict[str, list[str]] = {}
    known = set(models)
    for note in map(str, notes):
        ends = (match.start() for match in re.finditer(": ", note))
        owners = [note[:end] for end in ends if note[:end] in known][:1]
        about.setdefault(note[len(owners[0]) + 2 :] if owners else note, []).extend(owners)
    return [f"{joined(owners)}: {text}" if owners else text for text, owners in about.items()]


def wrapped(text: str, width: int, mark: str = "") -> list[str]:
    """Break a paragraph into lines; a mark before the first indents the others."""
    return textwrap.wrap(mark + text, width, subsequent_indent=" " * len(mark))
