"""Finds where each key of a TOML document stands, because the parser does not tell. Reads no values.

The text is expected to be valid, as the parser has read it. On text that is not, the locator stops where it gets lost: what it
found until then still says where a table was declared first.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cloudretry.config.place import KeyPath

__all__ = ["DEEPEST_PLACE", "MOST_PLACES", "TomlPlaces"]

MOST_PLACES: Final = 20_000
"""Beyond it values are located by the table around them."""
DEEPEST_PLACE: Final = 64
"""No setting is nested that deep; paths of hostile depth would cost the square of it."""

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_BASIC = re.compile(r'"(?:\\.|[^"\\\n])*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:\\.|[^\\])*?"""(?!")', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'''(?!')", re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}#=][^,\]}#\n]*")


class _LostError(Exception):
    """The text is no TOML from here on."""


class TomlPlaces:
    """Offsets of all keys and list items of a document.

    Args:
        text: the document.
        unquote: the value of a quoted key, by the real parser.

    `found`: path → offset. `repeats`: (path, first offset, second offset) of what is declared twice.
    """

    def __init__(self, text: str, unquote: Callable[[str], str]) -> None:
        self.found: dict[KeyPath, int] = {}
        self.repeats: list[tuple[KeyPath, int, int]] = []
        self._text = text
        self._unquote = unquote
        self._at = 0
        self._declared: dict[KeyPath, int] = {}
        self._items: dict[KeyPath, int] = {}  # array of tables → how many so far
        with contextlib.suppress(_LostError, RecursionError, ValueError):
            self._document()

    def _document(self) -> None:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._peek() == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _header(self) -> KeyPath:
        is_item = self._text.startswith("[[", self._at)
        self._at += 2 if is_item else 1
        parts = self._key()
        self._expect("]]" if is_item else "]")
        path = self._walk((), parts[:-1])
        name, offset = parts[-1]
        path = (*path, name)
        if is_item:
            return self._item(path, offset)
        if path in self._items:  # a table cannot follow an array of tables of the same name
            self.repeats.append((path, self.found.get(path, offset), offset))
        else:
            self._declare(path, offset)
        self._record(path, offset)
        return path

    def _item(self, path: KeyPath, offset: int) -> KeyPath:
        index = self._items.get(path, 0)
        self._items[path] = index + 1
        self._record(path, offset)
        self._record((*path, index), offset)
        return (*path, index)

    def _walk(self, path: KeyPath, parts: list[tuple[str, int]]) -> KeyPath:
        """The table that `parts` leads to from `path`, entering the last item of arrays of tables."""
        for name, offset in parts:
            path = (*path, name)
            self._record(path, offset)
            if path in self._items:
                path = (*path, self._items[path] - 1)
        return path

    def _pair(self, table: KeyPath) -> None:
        parts = self._key()
        name, offset = parts[-1]
        path = (*self._walk(table, parts[:-1]), name)
        self._declare(path, offset)
        self._record(path, offset)
        self._expect("=")
        self._value(path)

    def _key(self) -> list[tuple[str, int]]:
        parts = [self._key_part()]
        while self._peek() == ".":
            self._at += 1
            parts.append(self._key_part())
        return parts

    def _key_part(self) -> tuple[str, int]:
        self._skip(_SPACE)
        offset = self._at
        quote = self._peek()
        raw = self._take({'"': _BASIC, "'": _LITERAL}.get(quote, _BARE_KEY))
        self._skip(_SPACE)
        return (self._unquote(raw) if quote in {'"', "'"} else raw), offset

    def _value(self, path: KeyPath) -> None:
        self._skip(_SPACE)
        if self._peek() == "[":
            self._array(path)
        elif self._peek() == "{":
            self._inline_table(path)
        else:
            self._take(self._scalar_pattern())

    def _scalar_pattern(self) -> re.Pattern[str]:
        for opening, pattern in (('"""', _LONG_BASIC), ("'''", _LONG_LITERAL), ('"', _BASIC), ("'", _LITERAL)):
            if self._text.startswith(opening, self._at):
                return pattern
        return _SCALAR

    def _array(self, path: KeyPath) -> None:
        index = 0
        self._at += 1
        while not self._closes("]"):
            self._record((*path, index), self._at)
            self._value((*path, index))
            index += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while not self._closes("}"):
            self._pair(path)

    def _closes(self, mark: str) -> bool:
        """Skip to the next element; whether there is none."""
        self._skip(_BLANK)
        if self._peek() == ",":
            self._at += 1
            self._skip(_BLANK)
        if self._peek() != mark:
            return False
        self._at += 1
        return True

    def _declare(self, path: KeyPath, offset: int) -> None:
        if path in self._declared:
            self.repeats.append((path, self._declared[path], offset))
        self._declared.setdefault(path, offset)

    def _record(self, path: KeyPath, offset: int) -> None:
        if len(path) > DEEPEST_PLACE:
            raise _LostError
        if len(self.found) < MOST_PLACES:
            self.found.setdefault(path, offset)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        skipped = pattern.match(self._text, self._at)
        self._at = skipped.end() if skipped else self._at

    def _take(self, pattern: re.Pattern[str]) -> str:
        taken = pattern.match(self._text, self._at)
        if taken is None:
            raise _LostError
        self._at = taken.end()
        return taken[0]

    def _expect(self, mark: str) -> None:
        self._skip(_SPACE)
        if not self._text.startswith(mark, self._at):
            raise _LostError
        self._at += len(mark)
