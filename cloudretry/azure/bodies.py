"""Reads what an Azure error body says, whatever its shape. Pure; nothing here raises, whatever a server sends.

Shapes: `{"error": {code, message, details, innererror}}`; the same without the wrapper (Compute); the token endpoint's
`{"error": code, "error_description": …}`; any of them as JSON inside a string; storage's XML; a page; nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

__all__ = ["NOTHING_SAID", "ErrorBody", "read_error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    """What an error body says. `codes` and `messages` begin with the outermost; `page`: it is somebody's HTML."""

    codes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    page: bool = False


NOTHING_SAID: Final = ErrorBody()

_LONGEST_BODY: Final = 65_536  # real ones have under 4 KiB; what does not fit is judged by its status
_DEEPEST: Final = 8
_MOST_FACTS: Final = 32
_CODE_NAMES: Final = frozenset({"code", "internalerrorcode"})
_MESSAGE_NAMES: Final = frozenset({"message", "error_description"})
_INNER_NAMES: Final = frozenset({"error", "odata.error", "details", "innererror", "message"})
_PAGE: Final = re.compile(r"<!doctype html|<html", re.IGNORECASE)
_CODE: Final = re.compile(r"[\w.:-]{1,128}", re.ASCII)
_XML_CODE: Final = re.compile(r"<Code>([\w.:-]{1,128})</Code>", re.ASCII)
_XML_MESSAGE: Final = re.compile(r"<Message>([^<]{1,4096})</Message>")


def read_error(body: bytes) -> ErrorBody:
    """The codes and messages of an error body."""
    text = body[: _LONGEST_BODY + 1].decode("utf-8-sig", errors="replace").strip()
    if text.startswith("<"):
        return _of_markup(text)
    if len(body) > _LONGEST_BODY:
        return NOTHING_SAID
    facts = list(islice(_facts(_parsed(text), 0), _MOST_FACTS))
    codes = tuple(value for is_code, value in facts if is_code)
    return ErrorBody(codes=codes, messages=tuple(value for is_code, value in facts if not is_code))


def _of_markup(text: str) -> ErrorBody:
    if _PAGE.search(text[:1024]):
        return ErrorBody(page=True)
    return ErrorBody(codes=tuple(_XML_CODE.findall(text)[:1]), messages=tuple(_XML_MESSAGE.findall(text)[:1]))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _facts(node: object, depth: int) -> Iterator[tuple[bool, str]]:
    """(is a code, text) for every code and message beneath a node, outermost first."""
    if depth > _DEEPEST:
        return
    if isinstance(node, str) and node.lstrip().startswith("{"):
        yield from _facts(_parsed(node), depth + 1)
    elif isinstance(node, list):
        for item in node:
            yield from _facts(item, depth + 1)
    elif isinstance(node, dict):
        yield from _own_facts(node)
        for name, value in node.items():
            if name.lower() in _INNER_NAMES:
                yield from _facts(value, depth + 1)


def _own_facts(node: dict[str, object]) -> Iterator[tuple[bool, str]]:
    for name, value in node.items():
        key = name.lower()
        is_code = key in _CODE_NAMES or (key == "error" and isinstance(value, str))
        if is_code and isinstance(value, (str, int)) and _CODE.fullmatch(str(value)):
            yield True, str(value)
        elif key in _MESSAGE_NAMES and isinstance(value, str):
            yield False, value
