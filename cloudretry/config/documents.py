"""Files and texts to plain data with a place for each key. Knows formats, not settings; every fault is a ConfigurationError."""

from __future__ import annotations

import bisect
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from cloudretry.config.place import KeyPath, Place, Problem, dotted, printable
from cloudretry.errors import ConfigurationError

__all__ = ["FORMATS", "LARGEST_FILE", "Document", "read_file", "read_json", "read_text", "read_toml"]

LARGEST_FILE: Final = 1_048_576
FORMATS: Final = (".toml", ".json", ".yaml", ".yml")

_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_BARE_DURATION: Final = re.compile(r"=\s*(\d+(?:\.\d+)?(?:ms|s|m|h))\b")
# The parser takes the square of the number of a key's parts: half a megabyte of "a.a.a…" would stop a program for hours.
_LONG_KEY = re.compile(r"""(?:(?:(?<![\w-])[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){64}""")
_TOO_DEEP = "nested too deeply"


@dataclass(frozen=True, slots=True)
class Document:
    """What a source says: `data` is whatever stands at its top; `places` may lack some keys of a very large document."""

    source: str
    data: Any
    places: Mapping[KeyPath, Place] = field(default_factory=dict)

    def inside(self, *path: str) -> Document | None:
        """The table at `path` as a document of its own, or None."""
        data = self.data
        for key in path:
            if not isinstance(data, dict) or key not in data:
                return None
            data = data[key]
        places = {key[len(path) :]: place for key, place in self.places.items() if key[: len(path)] == path}
        return Document(self.source, data, places)


def read_file(path: str) -> Document:
    """The document in a file, by its suffix. Raises ConfigurationError, or MissingExtra for YAML without PyYAML."""
    source = printable(path)
    suffix = os.path.splitext(path)[1].lower()  # noqa: PTH122 - a Path would refuse what the system refuses anyway, differently
    if suffix not in FORMATS:
        raise _refused(Place(source), f"the suffix {suffix!r} is no known format; accepted: {', '.join(FORMATS)}")
    return read_text(_load(path, source), suffix, source)


def read_text(text: str, suffix: str, source: str) -> Document:
    """The document in `text`, whose format `suffix` names."""
    if suffix == ".toml":
        return read_toml(text, source)
    if suffix == ".json":
        return read_json(text, source)
    from cloudretry.config.yaml_documents import read_yaml

    return read_yaml(text, source)


def read_toml(text: str, source: str) -> Document:
    """A TOML document; of a table or key that is declared twice both places are named."""
    from cloudretry.config.toml_places import TomlPlaces

    lines = _Lines(text, source)
    hostile = _LONG_KEY.search(text)
    if hostile:
        raise _refused(lines.place(hostile.start()), _TOO_DEEP)
    try:
        data = _toml().loads(text)
    except RecursionError:
        raise _refused(Place(source), _TOO_DEEP) from None
    except ValueError as error:
        located = TomlPlaces(text, _unquote)
        raise _toml_error(str(error), lines, located.repeats) from None
    return Document(source, data, lines.places(TomlPlaces(text, _unquote).found))


def read_json(text: str, source: str) -> Document:
    """A JSON document; a key that is there twice is an error, as are NaN and Infinity."""
    from cloudretry.config.json_places import JsonPlaces

    lines = _Lines(text, source)
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise _refused(Place(source), _TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise _refused(Place(source, error.lineno, error.colno), f"not JSON: {error.msg}") from None
    except ValueError as error:  # NaN, or an integer of more digits than Python reads
        raise _refused(Place(source), f"not JSON: {printable(str(error))}") from None
    located = JsonPlaces(text)
    if located.repeats:
        raise ConfigurationError(*(str(_repeated(path, lines, *offsets)) for path, *offsets in located.repeats))
    return Document(source, data, lines.places(located.found))


def _toml() -> Any:
    """The same parser under two names."""
    return import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


class _Lines:
    """Offsets of a text as places in its source."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._text = text
        self._length = len(text)
        self._starts = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def place(self, offset: int) -> Place:
        line = bisect.bisect_right(self._starts, offset)
        return Place(self._source, line, offset - self._starts[line - 1] + 1)

    def text(self, number: int) -> str:
        """The line with this number, counted from 1."""
        return self._text[self._starts[number - 1] : self._starts[number] if number < len(self._starts) else self._length]

    def places(self, offsets: Mapping[KeyPath, int]) -> dict[KeyPath, Place]:
        return {path: self.place(offset) for path, offset in offsets.items()}

    @property
    def end(self) -> Place:
        return self.place(self._length)


def _load(path: str, source: str) -> str:
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):  # noqa: PTH116 - as above
            raise _refused(Place(source), "a pipe, whose writer one could wait for")
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            raw = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise _refused(Place(source), getattr(error, "strerror", None) or "not a file name") from None
    if len(raw) > LARGEST_FILE:
        raise _refused(Place(source), f"larger than {LARGEST_FILE} bytes")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise _refused(Place(source, line, column), "not UTF-8 text") from None


def _toml_error(message: str, lines: _Lines, repeats: Iterable[tuple[KeyPath, int, int]]) -> ConfigurationError:
    """The parser stops at the first fault; where that is a repetition, the locator knows both places."""
    found = _TOML_PLACE.search(message)
    place = Place(lines.end.source, int(found[1]), int(found[2])) if found and found[1] else lines.end
    for path, first, second in repeats:
        if lines.place(second).line == place.line:
            return ConfigurationError(str(_repeated(path, lines, first, second)))
    bare = _BARE_DURATION.search(lines.text(place.line)) if place.line else None
    hint = f'; a duration needs quotes: "{bare[1]}"' if bare else ""
    return _refused(place, f"not TOML: {printable(_TOML_PLACE.sub('', message))}{hint}")


def _repeated(path: KeyPath, lines: _Lines, first: int, second: int) -> Problem:
    return Problem(lines.place(second), dotted(path), f"is there twice; first at {lines.place(first)}")


def _refused(place: Place, text: str) -> ConfigurationError:
    return ConfigurationError(str(Problem(place, "", text)))


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def _unquote(raw: str) -> str:
    (key,) = _toml().loads(f"{raw} = 0")
    return str(key)
