"""Finds where each key of a JSON document stands, and keys that are there twice. Reads no values.

The text has to be valid: `json` has read it before. Without recursion, so depth is no concern here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cloudretry.config.toml_places import DEEPEST_PLACE, MOST_PLACES

if TYPE_CHECKING:
    from cloudretry.config.place import KeyPath

__all__ = ["JsonPlaces"]

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]]|[^\s{}\[\],:"]+')


@dataclass(slots=True)
class _Container:
    path: KeyPath
    is_object: bool
    index: int = 0
    key: str | None = None  # set between a key and its value
    keys: dict[str, int] = field(default_factory=dict)


class JsonPlaces:
    """Offsets of all keys and list items: `found`, path → offset; `repeats`, (path, first offset, second offset)."""

    def __init__(self, text: str) -> None:
        self.found: dict[KeyPath, int] = {}
        self.repeats: list[tuple[KeyPath, int, int]] = []
        self._open: list[_Container] = []
        for token in _TOKEN.finditer(text):
            self._take(token[0], token.start())

    def _take(self, mark: str, offset: int) -> None:
        if mark in {"}", "]"}:
            self._open.pop()
            return
        around = self._open[-1] if self._open else None
        if around is not None and around.is_object and around.key is None:
            self._begin_pair(around, json.loads(mark), offset)
            return
        path = () if around is None else self._begin_value(around, offset)
        if mark in {"{", "["}:
            self._open.append(_Container(path[:DEEPEST_PLACE], is_object=mark == "{"))

    def _begin_pair(self, around: _Container, key: str, offset: int) -> None:
        around.key = key
        path = (*around.path, key)
        if key in around.keys:
            self.repeats.append((path, around.keys[key], offset))
        around.keys.setdefault(key, offset)
        self._record(path, offset)

    def _begin_value(self, around: _Container, offset: int) -> KeyPath:
        if around.key is not None:
            path = (*around.path, around.key)
            around.key = None
            return path
        path = (*around.path, around.index)
        around.index += 1
        self._record(path, offset)
        return path

    def _record(self, path: KeyPath, offset: int) -> None:
        if len(self.found) < MOST_PLACES and len(path) <= DEEPEST_PLACE:
            self.found.setdefault(path, offset)
