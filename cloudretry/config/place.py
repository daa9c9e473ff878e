"""Where a setting was written, and how paths and values are shown to people. No parsing, no settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["BUILT_IN", "KeyPath", "Place", "Problem", "at", "dotted", "printable", "shown"]

KeyPath = tuple[str | int, ...]
"""Keys and list indexes from the top of a document down to a value."""

_LONGEST_SHOWN = 80
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_CREDENTIALS = re.compile(r"//[^\s'\"]*@")


@dataclass(frozen=True, slots=True)
class Place:
    """A file, a variable, `argument` or `built-in`; lines and columns count from 1. `preset`: the value came with it."""

    source: str
    line: int | None = None
    column: int | None = None
    preset: str | None = None

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}:{self.column}"
        return place if self.preset is None else f"{place} (preset {self.preset})"


BUILT_IN: Final = Place("built-in")


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a configuration. `missing_plugin`: nothing is written wrongly, a package is not installed."""

    place: Place
    setting: str
    text: str
    missing_plugin: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.setting}: {self.text}" if self.setting else f"{self.place}: {self.text}"


def at(places: Mapping[KeyPath, Place], path: KeyPath, otherwise: Place) -> Place:
    """The place of `path`, or of the nearest table around it that has one."""
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return otherwise


def dotted(path: KeyPath) -> str:
    """`("aws", "overrides", 0)` → `aws.overrides[0]`; names that TOML would quote are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if _BARE.fullmatch(part) else f".{printable(json.dumps(part))}"
    return text.removeprefix(".")


def printable(text: str) -> str:
    """`text` on one line, with everything that a terminal or an encoding could trip over escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def shown(value: object) -> str:
    """A short repr for a message; credentials in a URL are masked."""
    if isinstance(value, dict | list):
        return f"a {'table' if isinstance(value, dict) else 'list'} of {len(value)}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - an integer of more digits than Python prints, or whatever a caller's object raises
        text = f"something of type {type(value).__name__}"
    text = _CREDENTIALS.sub("//***@", text)
    return printable(text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…")
