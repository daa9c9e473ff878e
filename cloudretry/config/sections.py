"""The tables that settings stand in, `[aws]` and `[pools.corp]`, and how a path leads through one of them to a setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from cloudretry.config.pool_vocabulary import POOL, POOLS
from cloudretry.config.vocabulary import ENTRY, PROVIDERS, Vocabulary

if TYPE_CHECKING:
    from cloudretry.config.place import KeyPath

__all__ = ["BAD_KEY", "leaves", "section_of", "sections", "setting_of_path", "tables", "vocabulary_of"]

BAD_KEY: Final = "[key]"
"""What the model puts behind the path of a key that is none."""


def vocabulary_of(section: KeyPath) -> Vocabulary:
    """Of a provider's entry or a pool."""
    return POOL if section[0] == POOLS else ENTRY


def section_of(path: KeyPath) -> KeyPath:
    """The section that a path leads into."""
    return path[:2] if path[0] == POOLS else path[:1]


def setting_of_path(path: KeyPath) -> tuple[str, KeyPath]:
    """(setting, path down to it) for a path inside a section; an empty setting for the section itself."""
    section = section_of(path)
    inner = path[len(section) :]
    if not inner or inner[0] == BAD_KEY:
        return "", section
    vocabulary = vocabulary_of(section)
    length = 2 if inner[0] in vocabulary.tables and len(inner) > 1 else 1
    return vocabulary.setting_of(".".join(map(str, inner[:length]))), (*section, *inner[:length])


def sections(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Every section that is a table, with its path."""
    for provider in PROVIDERS:
        if isinstance(data.get(provider), dict):
            yield (provider,), data[provider]
    pools = data.get(POOLS)
    for name, pool in pools.items() if isinstance(pools, dict) else ():
        if isinstance(pool, dict):
            yield (POOLS, name), pool


def leaves(section: KeyPath, table: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """(path, value) of everything that a section sets, its inner tables opened."""
    inner = vocabulary_of(section).tables
    for key, value in table.items():
        if key in inner and isinstance(value, dict):
            yield from (((*section, key, name), item) for name, item in value.items())
        else:
            yield (*section, key), value


def tables(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Every section, inner table and override."""
    for section, table in sections(data):
        yield section, table
        inner = vocabulary_of(section).tables
        yield from (((*section, key), value) for key, value in table.items() if key in inner and isinstance(value, dict))
        overrides = table.get("overrides")
        for index, override in enumerate(overrides if isinstance(overrides, list) else ()):
            if isinstance(override, dict):
                yield (*section, "overrides", index), override
