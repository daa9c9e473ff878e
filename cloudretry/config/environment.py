"""The layer of environment variables: `CLOUDRETRY__AWS__MAX_RETRIES=5`, `CLOUDRETRY__POOLS__CORP__COOLDOWN__INITIAL=5s`.

Text becomes data here; it is judged later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cloudretry.config.documents import Document, read_json
from cloudretry.config.place import KeyPath, Place, Problem, printable, shown
from cloudretry.config.pool_vocabulary import POOLS
from cloudretry.config.sections import section_of, vocabulary_of
from cloudretry.config.vocabulary import PROVIDERS, Form, Vocabulary, did_you_mean
from cloudretry.errors import ConfigurationError

__all__ = ["PREFIX", "misspelt_variables", "read_environment"]

PREFIX: Final = "CLOUDRETRY__"

_UNREADABLE: Final = object()
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}\.[0-9]{1,18}", re.ASCII)
_SWITCHES: Final = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def read_environment(environ: Mapping[str, str], problems: list[Problem]) -> Document | None:
    """All variables of ours as one document, or None where there is none."""
    data: dict[str, Any] = {}
    places: dict[KeyPath, Place] = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        place = Place(printable(variable))
        path = _path(variable, place, problems)
        if path is None:
            continue
        if path in places:
            problems.append(Problem(place, "", f"is there twice; first as {places[path]}"))
            continue
        places[path] = place
        places.setdefault(section_of(path), place)
        value = _value(path, environ[variable], place, problems)
        if value is not _UNREADABLE:
            _put(data, path, value)
    return Document("environment", data, places) if places else None


def misspelt_variables(environ: Mapping[str, str]) -> list[str]:
    """One warning for each variable with a single underscore where two belong."""
    misspelt = re.compile(rf"CLOUDRETRY_+({'|'.join(PROVIDERS)}|{POOLS})_+(\w+)", re.IGNORECASE)
    found = ((name, misspelt.fullmatch(name)) for name in sorted(environ) if not name.startswith(PREFIX))
    return [f"{printable(name)}: not read; write {_corrected(match[1], match[2])}" for name, match in found if match]


def _corrected(section: str, setting: str) -> str:
    if section.lower() == POOLS:
        return f"{PREFIX}{POOLS.upper()}__NAME__SETTING"
    table, _, inner = setting.lower().partition("_")
    spelling = f"{table}__{inner}" if table in vocabulary_of((section.lower(),)).tables else setting
    return _variable((section, spelling))


def _put(data: dict[str, Any], path: KeyPath, value: object) -> None:
    *outer, last = map(str, path)
    for key in outer:
        data = data.setdefault(key, {})
    data[last] = value


def _path(variable: str, place: Place, problems: list[Problem]) -> KeyPath | None:
    path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
    fault = _fault(path)
    if fault:
        problems.append(Problem(place, "", fault))
        return None
    return path


def _fault(path: tuple[str, ...]) -> str:
    if path[0] not in {*PROVIDERS, POOLS}:
        suggestion = did_you_mean(path[0], (*PROVIDERS, POOLS))
        return f"names no provider: {shown(path[0])}; known: {', '.join(PROVIDERS)}{suggestion}"
    section = path[: len(section_of(path))]
    inner = path[len(section) :]
    if path[0] == POOLS and not inner:
        return f"sets no setting of a pool; write {PREFIX}{POOLS.upper()}__NAME__SETTING"
    return _fault_inside(section, inner, vocabulary_of(section))


def _fault_inside(section: tuple[str, ...], inner: tuple[str, ...], vocabulary: Vocabulary) -> str:
    setting, known = ".".join(inner), vocabulary.settings
    if setting in vocabulary.spellings:
        return ""
    if setting in vocabulary.tables:
        return f"sets a whole table; set its settings one by one, such as {_variable((*section, setting, 'SETTING'))}"
    for length in range(1, len(inner)):
        outer = ".".join(inner[:length])
        if outer in known and known[outer].form in {Form.TABLE, Form.LIST}:
            return f"sets a part of a setting; write the whole as JSON in {_variable((*section, *inner[:length]))}"
    suggestion = did_you_mean(setting, vocabulary.spellings).removeprefix("; did you mean ").removesuffix("?")
    closest = f"; did you mean {_variable((*section, *suggestion.split('.')))}?" if suggestion else ""
    return f"names no setting of {'.'.join(section)}: {shown(setting)}{closest}"


def _variable(parts: Iterable[str]) -> str:
    return printable(PREFIX + "__".join(part.upper() for part in parts))


def _value(path: KeyPath, text: str, place: Place, problems: list[Problem]) -> Any:
    """What the text stands for; text that stands for nothing stays as it is and is judged with the rest."""
    text = text.strip()
    section = section_of(path)
    setting, settings = ".".join(map(str, path[len(section) :])), vocabulary_of(section).settings
    form = settings[setting].form if setting in settings else Form.COUNT  # `_ms`
    if text[:1] in {"[", "{"} and form in {Form.LIST, Form.TABLE}:
        return _json(text, place, problems)
    if form is Form.LIST:
        return [_number(item.strip()) for item in text.split(",")]
    if form in {Form.COUNT, Form.NUMBER}:
        return _number(text)
    if form is Form.FLAG:
        return _SWITCHES.get(text.lower(), text)
    return text


def _number(text: str) -> int | float | str:
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _json(text: str, place: Place, problems: list[Problem]) -> Any:
    try:
        return read_json(text, place.source).data
    except ConfigurationError as error:
        problems.extend(Problem(place, "", problem.removeprefix(f"{place}:")) for problem in error.problems)
        return _UNREADABLE
