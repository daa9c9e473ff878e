"""What is said about a faulty value or key: what it is not, what is accepted, what was probably meant. Words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudretry.config.place import shown
from cloudretry.config.vocabulary import (
    DURATIONS,
    LATER,
    MATCH_KEYS,
    OVERRIDABLE,
    PROVIDERS,
    SETTINGS,
    SPELLINGS,
    Form,
    did_you_mean,
    setting_of,
    unit_alone,
)

if TYPE_CHECKING:
    from cloudretry.config.place import KeyPath

__all__ = ["mistaken", "unknown"]

_LATER: Final = "not in this version yet"
_PROVIDER, _SETTING, _ITEM, _INNER, _LEAF = range(5)  # what the parts of a path are, by position


def mistaken(path: KeyPath, value: object) -> str:
    """About a known setting with a value that it can't have. An option of a plugin may be a secret and is not shown."""
    noun, accepted = _expected(path)
    text = "the value" if "plugin_options" in path else shown(value)
    return f"{text} is not {noun}; accepted: {accepted}{_hint(path, value)}"


def unknown(path: KeyPath) -> str:
    """About a key that stands where it means nothing, with the closest one that does."""
    key = str(path[-1])
    if len(path) == 1:
        return _unknown_provider(key)
    if path[-2] == "match":
        return f"unknown key; a match has {', '.join(MATCH_KEYS)}{did_you_mean(key, MATCH_KEYS)}"
    if key in LATER:
        return _LATER
    if len(path) == _SETTING + 1:
        return f"unknown setting{did_you_mean(key, SPELLINGS)}"
    if key in SETTINGS:
        return f"holds for a whole provider; set it under [{path[_PROVIDER]}]"
    return f"unknown setting of an override{did_you_mean(key, OVERRIDABLE)}"


def _unknown_provider(key: str) -> str:
    if key in LATER:
        return _LATER
    if key in SPELLINGS:
        return f"is a setting of a provider; write it under {' or '.join(f'[{name}]' for name in PROVIDERS)}"
    return f"unknown provider; known: {', '.join(PROVIDERS)}{did_you_mean(key, PROVIDERS)}"


def _expected(path: KeyPath) -> tuple[str, str]:
    """(noun, what is accepted) for a path that the model knows."""
    if len(path) == 1:
        return "an entry", f"a table of settings such as [{path[0]}] max_retries = 5"
    if path[_SETTING] != "overrides" or len(path) == _SETTING + 1:
        return _expected_setting(str(path[_SETTING]), is_item=len(path) > _SETTING + 1)
    if len(path) == _ITEM + 1:
        return "an override", "a table with match = {…} and the settings to change"
    if path[_INNER] == "match":
        patterns = (
            'text such as "Describe*", in quotes'
            if len(path) > _LEAF
            else f"a table with at least one of {', '.join(MATCH_KEYS)}"
        )
        return ("a pattern" if len(path) > _LEAF else "a match"), patterns
    return _expected_setting(str(path[_INNER]), is_item=len(path) > _LEAF)


def _expected_setting(key: str, *, is_item: bool) -> tuple[str, str]:
    setting = SETTINGS[setting_of(key)]
    if key not in SETTINGS:
        return "a number of milliseconds", "a number from 0 to 86400000"
    if key == "response_codes" and is_item:
        return "a response code", 'a status from 400 to 599, an error code such as "SlowDown", "throttling"'
    return setting.noun, setting.accepted


def _hint(path: KeyPath, value: object) -> str:
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    if key in DURATIONS and isinstance(value, int | float) and not isinstance(value, bool):
        return unit_alone(key, shown(value))
    if key == "response_codes" and isinstance(value, str) and value.isdecimal():
        return f"; write {shown(value)[1:-1]} without quotes"
    if key in SETTINGS and SETTINGS[key].form is Form.WORD and isinstance(value, str):
        words = [word.partition(" ")[0] for word in SETTINGS[key].accepted.split(", ")]
        return did_you_mean(value, words) if key != "plugin" else ""
    if "match" in path and isinstance(value, int):
        return "; a number needs quotes here"
    return ""
