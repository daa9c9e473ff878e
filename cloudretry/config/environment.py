"""The layer of environment variables: `CLOUDRETRY__AWS__MAX_RETRIES=5`. Text becomes data here; it is judged later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cloudretry.config.documents import Document, read_json
from cloudretry.config.place import KeyPath, Place, Problem, printable, shown
from cloudretry.config.vocabulary import LATER, PROVIDERS, SETTINGS, SPELLINGS, Form, did_you_mean
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
        provider, setting = path
        places[path] = place
        value = _value(setting, environ[variable], place, problems)
        if value is not _UNREADABLE:
            data.setdefault(provider, {})[setting] = value
    return Document("environment", data, places) if places else None


def misspelt_variables(environ: Mapping[str, str]) -> list[str]:
    """One warning for each variable with a single underscore where two belong."""
    misspelt = re.compile(rf"CLOUDRETRY_+({'|'.join(PROVIDERS)})_+(\w+)", re.IGNORECASE)
    found = ((name, misspelt.fullmatch(name)) for name in sorted(environ) if not name.startswith(PREFIX))
    return [
        f"{printable(name)}: not read; write {PREFIX}{match[1].upper()}__{match[2].upper()}" for name, match in found if match
    ]


def _path(variable: str, place: Place, problems: list[Problem]) -> tuple[str, str] | None:
    provider, _, setting = variable.removeprefix(PREFIX).lower().partition("__")
    fault = _fault(provider, setting)
    if fault:
        problems.append(Problem(place, "", fault))
        return None
    return provider, setting


def _fault(provider: str, setting: str) -> str:
    if provider in LATER or setting.partition("__")[0] in LATER:
        return "names a setting that is not in this version yet"
    if provider not in PROVIDERS:
        suggestion = did_you_mean(provider, PROVIDERS)
        return f"names no provider: {shown(provider)}; known: {', '.join(PROVIDERS)}{suggestion}"
    outer, _, inner = setting.partition("__")
    if inner and outer in SETTINGS and SETTINGS[outer].form in {Form.TABLE, Form.LIST}:
        return f"sets a part of a setting; write the whole as JSON in {PREFIX}{provider.upper()}__{outer.upper()}"
    if setting not in SPELLINGS:
        return f"names no setting of {provider}: {shown(setting)}{_closest_variable(provider, setting)}"
    return ""


def _closest_variable(provider: str, setting: str) -> str:
    suggestion = did_you_mean(setting, SPELLINGS)
    known = suggestion.removeprefix("; did you mean ").removesuffix("?")
    return f"; did you mean {PREFIX}{provider.upper()}__{known.upper()}?" if known else ""


def _value(setting: str, text: str, place: Place, problems: list[Problem]) -> Any:
    """What the text stands for; text that stands for nothing stays as it is and is judged with the rest."""
    text = text.strip()
    form = SETTINGS[setting].form if setting in SETTINGS else Form.COUNT  # `_ms`
    if text[:1] in {"[", "{"} and form in {Form.LIST, Form.TABLE}:
        return _json(text, place, problems)
    if form is Form.LIST:
        return [_number(item.strip()) for item in text.split(",")]
    if form is Form.COUNT:
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
