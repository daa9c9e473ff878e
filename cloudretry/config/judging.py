"""Judges one layer: its values as the core wants them, and a problem for each fault. Layers are not mixed here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cloudretry.config.place import KeyPath, Place, Problem, at, dotted, shown
from cloudretry.config.vocabulary import DURATIONS, MATCH_KEYS, PROVIDERS, SETTINGS, setting_of
from cloudretry.config.wording import mistaken, unknown
from cloudretry.references import find_references

if TYPE_CHECKING:
    from cloudretry.config.documents import Document
    from cloudretry.config.layers import Layer

__all__ = ["Judged", "Written", "judge"]

_KINDS_OF_REFERENCE: Final = frozenset({"env", "file"})
_LARGEST_INTEGER: Final = 2**63
_MOST_FAULTS: Final = 100
_SCHEMA_KEY: Final = "$schema"


@dataclass(frozen=True, slots=True)
class Written:
    """A valid value and where it stands. `places` is filled for overrides: what each of them sets, and where."""

    value: Any
    place: Place
    places: Mapping[KeyPath, Place] = field(default_factory=dict)


@dataclass(slots=True)
class Judged:
    """One layer's valid settings by provider; `broken` names those that are set, but wrongly."""

    entries: dict[str, dict[str, Written]] = field(default_factory=dict)
    broken: set[tuple[str, str]] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


def judge(layer: Layer, users_file: str) -> Judged:
    """Everything that is right and everything that is wrong with a layer. `users_file`: where a refused setting belongs."""
    return _Judge(layer.document, users_file).judge(is_found=layer.kind == "directory")


class _Judge:
    def __init__(self, document: Document, users_file: str) -> None:
        self._document = document
        self._users_file = users_file
        self._judged = Judged()

    def judge(self, *, is_found: bool) -> Judged:
        data = self._document.data
        if isinstance(data, dict):
            self._judge({key: value for key, value in data.items() if key != _SCHEMA_KEY}, is_found=is_found)
        else:
            self._problem((), f"{shown(data)} is not a configuration; accepted: a table of providers ({', '.join(PROVIDERS)})")
        self._judged.problems.sort(key=lambda problem: (problem.place.line or 0, problem.place.column or 0))
        return self._judged

    def _judge(self, data: dict[str, Any], *, is_found: bool) -> None:
        for path, table in _tables(data):
            self._spelt_once(path, table)
            self._options(path, table)
        if is_found:
            self._directory(data)
        for provider, entry in self._valid(data).items():
            self._judged.entries[provider] = dict(self._written(provider, entry))

    def _valid(self, data: dict[str, Any]) -> Mapping[str, Any]:
        """The model's reading of `data`, without the settings that are faulty."""
        try:
            from cloudretry.config.model import read_model
        except ImportError as error:
            self._problem((), f"can't be judged here: {error.name} is not installed; hand compiled settings over instead")
            return {}
        valid, faults = read_model(data)
        for fault in faults[:_MOST_FAULTS]:
            self._fault(fault["loc"], fault["type"], fault["input"])
        if len(faults) > _MOST_FAULTS:
            self._problem((), f"and {len(faults) - _MOST_FAULTS} more")
        if faults:
            valid, _ = read_model(_without(data, [fault["loc"] for fault in faults]))
        return valid

    def _written(self, provider: str, entry: Any) -> Iterator[tuple[str, Written]]:
        for key, value in entry.items():
            name = setting_of(key)
            if name != "overrides":
                yield name, Written(value, self._place((provider, key)))
                continue
            places = {path[2:]: place for path, place in self._document.places.items() if path[:2] == (provider, key)}
            unified = {
                tuple(setting_of(part) if isinstance(part, str) else part for part in path): at_ for path, at_ in places.items()
            }
            changes = [{setting_of(inner): item for inner, item in override.items()} for override in value]
            yield name, Written(changes, self._place((provider, key)), unified)

    def _fault(self, path: KeyPath, kind: str, value: object) -> None:
        if len(path) > 1:
            self._judged.broken.add((str(path[0]), setting_of(str(path[1]))))
        if kind == "extra_forbidden":
            self._problem(path, unknown(path))
        elif kind == "missing":
            self._problem(path, f"is missing; accepted: a table with patterns for {', '.join(MATCH_KEYS)}")
        else:
            self._problem(path, mistaken(path, value))

    def _spelt_once(self, path: KeyPath, table: Mapping[str, Any]) -> None:
        for name in sorted(DURATIONS & table.keys()):
            if f"{name}_ms" in table:
                first, second = self._place((*path, name)), self._place((*path, f"{name}_ms"))
                if (second.line or 0, second.column or 0) < (first.line or 0, first.column or 0):
                    first, second = second, first
                problem = Problem(second, dotted((*path, name)), f"is set twice, as {name} and {name}_ms; first at {first}")
                self._judged.problems.append(problem)

    def _options(self, path: KeyPath, table: Mapping[str, Any]) -> None:
        options = table.get("plugin_options")
        for key, value in options.items() if isinstance(options, dict) else ():
            for inner, fault in _option_faults(value, (*path, "plugin_options", key)):
                self._problem(inner, fault)

    def _directory(self, data: Mapping[str, Any]) -> None:
        """What a file found in the working directory must not decide."""
        for provider in PROVIDERS:
            entry = data.get(provider)
            for key, value in entry.items() if isinstance(entry, dict) else ():
                setting = SETTINGS.get(setting_of(key))
                is_custom = key == "strategy" and value in {"custom", "user_defined"} if isinstance(value, str) else False
                if setting is not None and (is_custom or not setting.in_directory):
                    self._problem((provider, key), f"{_NOT_HERE}; set it in {self._users_file}")

    def _place(self, path: KeyPath) -> Place:
        return at(self._document.places, path, Place(self._document.source))

    def _problem(self, path: KeyPath, text: str) -> None:
        self._judged.problems.append(Problem(self._place(path), dotted(path), text))


_NOT_HERE: Final = (
    "not accepted in a file found in the working directory, which may come with somebody else's checkout"
    " (accepted there: numbers, durations, and strategy response_header or exponential)"
)


def _tables(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Every entry and every override."""
    for provider, entry in data.items():
        if isinstance(entry, dict):
            yield (provider,), entry
            overrides = entry.get("overrides")
            for index, override in enumerate(overrides if isinstance(overrides, list) else ()):
                if isinstance(override, dict):
                    yield (provider, "overrides", index), override


def _without(data: Mapping[str, Any], paths: list[KeyPath]) -> dict[str, Any]:
    """`data` without the settings that are faulty, so that the others can be used for further checks."""
    gone = {path[:2] for path in paths}
    return {
        provider: {key: value for key, value in entry.items() if (provider, key) not in gone}
        if isinstance(entry, dict)
        else entry
        for provider, entry in data.items()
        if (provider,) not in gone
    }


def _option_faults(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """What can't be handed to another process as JSON, and references of an unknown kind. Never tells a value."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _option_faults(item, (*path, key))
    elif isinstance(value, str):
        kinds = sorted({kind for kind, _ in find_references(value)} - _KINDS_OF_REFERENCE)
        if kinds:
            yield path, f"refers to ${{{shown(kinds[0])[1:-1]}:…}}; accepted: ${{env:NAME}}, ${{file:PATH}}"
        elif any("\ud800" <= char <= "\udfff" for char in value):
            yield path, "half a character (a lone surrogate) is no text"
    elif not _is_plain(value):
        yield path, f"{type(value).__name__} is not an option; accepted: {SETTINGS['plugin_options'].accepted}"


def _is_plain(value: object) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, int):
        return -_LARGEST_INTEGER <= value < _LARGEST_INTEGER
    return isinstance(value, float) and math.isfinite(value)
