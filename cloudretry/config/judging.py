"""Judges one layer: its values as the core wants them, and a problem for each fault. Layers are not mixed here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cloudretry.config.place import KeyPath, Place, Problem, at, dotted, shown
from cloudretry.config.pool_vocabulary import POOLS
from cloudretry.config.sections import BAD_KEY, leaves, section_of, sections, setting_of_path, tables
from cloudretry.config.vocabulary import ENTRY, PROVIDERS, SETTINGS
from cloudretry.config.wording import missing, mistaken, unknown
from cloudretry.references import KINDS, find_references

if TYPE_CHECKING:
    from cloudretry.config.documents import Document
    from cloudretry.config.layers import Layer

__all__ = ["Judged", "Written", "judge"]

_LARGEST_INTEGER: Final = 2**63
_MOST_FAULTS: Final = 100
_DEEPEST_SETTING: Final = 4  # pools.corp.cooldown.initial
_SCHEMA_KEY: Final = "$schema"


@dataclass(frozen=True, slots=True)
class Written:
    """A valid value and where it stands. `places` is filled for lists of tables: what each of them sets, and where."""

    value: Any
    place: Place
    places: Mapping[KeyPath, Place] = field(default_factory=dict)


@dataclass(slots=True)
class Judged:
    """One layer's valid settings by section; `broken` names those that are set, but wrongly.

    Args:
        pools: names of all pools, be they right or wrong.
        are_variables: it comes from the environment, where names have lost their case.
    """

    entries: dict[KeyPath, dict[str, Written]] = field(default_factory=dict)
    broken: set[tuple[KeyPath, str]] = field(default_factory=set)
    pools: dict[str, Place] = field(default_factory=dict)
    are_variables: bool = False
    problems: list[Problem] = field(default_factory=list)


def judge(layer: Layer, users_file: str) -> Judged:
    """Everything that is right and everything that is wrong with a layer. `users_file`: where a refused setting belongs."""
    judged = _Judge(layer.document, users_file).judge(is_found=layer.kind == "directory")
    judged.are_variables = layer.kind == "environment"
    return judged


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
            accepted = f"a table of providers ({', '.join(PROVIDERS)}) and {POOLS}"
            self._problem((), f"{shown(data)} is not a configuration; accepted: {accepted}")
        self._judged.problems.sort(key=lambda problem: (problem.place.line or 0, problem.place.column or 0))
        return self._judged

    def _judge(self, data: dict[str, Any], *, is_found: bool) -> None:
        for path, table in tables(data):
            self._spelt_once(path, table)
            self._options(path, table)
        if is_found:
            self._directory(data)
        pools = data.get(POOLS)
        self._judged.pools = {name: self._place((POOLS, name)) for name in (pools if isinstance(pools, dict) else ())}
        for section, table in sections(self._valid(data)):
            self._judged.entries[section] = dict(self._written(section, table))

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
            valid, _ = read_model(_without(data, (fault["loc"] for fault in faults)))
        return valid

    def _written(self, section: KeyPath, table: Mapping[str, Any]) -> Iterator[tuple[str, Written]]:
        for path, value in leaves(section, table):
            name, _ = setting_of_path(path)
            if not (isinstance(value, list) and value and isinstance(value[0], dict)):
                yield name, Written(value, self._place(path))
                continue
            within = {key[len(path) :]: place for key, place in self._document.places.items() if key[: len(path)] == path}
            unified = {
                tuple(ENTRY.setting_of(part) if isinstance(part, str) else part for part in key): place
                for key, place in within.items()
            }
            items = [{ENTRY.setting_of(key): item for key, item in inner.items()} for inner in value]
            yield name, Written(items, self._place(path), unified)

    def _fault(self, path: KeyPath, kind: str, value: object) -> None:
        if path[0] in {POOLS, *PROVIDERS}:
            self._judged.broken.add((section_of(path), setting_of_path(path)[0]))
        if kind == "extra_forbidden":
            self._problem(path, unknown(path))
        elif kind == "missing":
            self._problem(path, missing(path))
        else:
            self._problem(path[:-1] if path[-1] == BAD_KEY else path, mistaken(path, value))

    def _spelt_once(self, path: KeyPath, table: Mapping[str, Any]) -> None:
        for name in sorted(table):
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
        if POOLS in data:
            self._problem((POOLS,), f"{_NOT_HERE}; set it in {self._users_file}")
        for section, table in sections({name: data[name] for name in PROVIDERS if name in data}):
            for path, value in leaves(section, table):
                setting = SETTINGS.get(setting_of_path(path)[0])
                is_custom = setting is SETTINGS["strategy"] and value in ("custom", "user_defined")
                if setting is not None and (is_custom or not setting.in_directory):
                    self._problem(path, f"{_NOT_HERE}; set it in {self._users_file}")

    def _place(self, path: KeyPath) -> Place:
        return at(self._document.places, path, Place(self._document.source))

    def _problem(self, path: KeyPath, text: str) -> None:
        self._judged.problems.append(Problem(self._place(path), dotted(path), text))


_NOT_HERE: Final = (
    "not accepted in a file found in the working directory, which may come with somebody else's checkout"
    " (accepted there: numbers, durations, and strategy response_header or exponential)"
)


def _without(data: Mapping[str, Any], paths: Iterable[KeyPath]) -> dict[str, Any]:
    """`data` without the settings that are faulty, so that the others can be used for further checks."""
    gone = {path[:1] if path[0] not in {POOLS, *PROVIDERS} else setting_of_path(path)[1] for path in paths}
    return {key: _kept(value, (key,), gone) for key, value in data.items() if (key,) not in gone}


def _kept(value: Any, path: KeyPath, gone: AbstractSet[KeyPath]) -> Any:
    if not isinstance(value, dict) or len(path) >= _DEEPEST_SETTING:
        return value
    return {key: _kept(item, (*path, key), gone) for key, item in value.items() if (*path, key) not in gone}


def _option_faults(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """What can't be handed to another process as JSON, and references of an unknown kind. Never tells a value."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _option_faults(item, (*path, key))
    elif isinstance(value, str):
        kinds = sorted({kind for kind, _ in find_references(value)} - KINDS)
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
