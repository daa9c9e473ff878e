"""What is said about a faulty value or key: what it is not, what is accepted, what was probably meant. Words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudretry.config.place import dotted, shown
from cloudretry.config.pool_vocabulary import GROUP, MEMBER, POOL, POOL_NAME, POOLS, RATE
from cloudretry.config.sections import BAD_KEY, section_of, setting_of_path, vocabulary_of
from cloudretry.config.vocabulary import (
    ENTRY,
    MATCH_KEYS,
    OVERRIDABLE,
    PROVIDERS,
    SETTINGS,
    SPELLINGS,
    Form,
    Setting,
    Vocabulary,
    did_you_mean,
    unit_alone,
)
from cloudretry.core.proxy_url import masked_url

if TYPE_CHECKING:
    from cloudretry.config.place import KeyPath

__all__ = ["missing", "mistaken", "unknown"]

_ITEMS: Final = {"overrides": ENTRY, "pacing.rates": RATE, "pacing.groups": GROUP, "members": MEMBER}
"""The lists of tables, with what an item may set."""
_ITEM: Final = {
    "overrides": ("an override", "a table with match = {…} and the settings to change"),
    "pacing.rates": ("a known rate", "a table with match = {…}, rate and perhaps burst"),
    "pacing.groups": ("a group", "a table with match = {…}, name and perhaps everywhere"),
    "members": ("a member", "the URL of a proxy, or a table with exactly one of url, connect_to, direct"),
}
_MOST_MILLISECONDS: Final = 86_400_000


def mistaken(path: KeyPath, value: object) -> str:
    """About a known setting with a value that it can't have. An option of a plugin may be a secret and is not shown."""
    noun, accepted = _expected(path)
    return f"{_shown(path, value)} is not {noun}; accepted: {accepted}{_hint(path, value)}"


def missing(path: KeyPath) -> str:
    """About a key that has to be there."""
    return f"is missing; accepted: {_expected(path)[1]}"


def unknown(path: KeyPath) -> str:
    """About a key that stands where it means nothing, with the closest one that does."""
    key = str(path[-1])
    if len(path) == 1:
        return _unknown_section(key)
    if "match" in path[:-1]:
        return f"unknown key; a match has {', '.join(MATCH_KEYS)}{did_you_mean(key, MATCH_KEYS)}"
    section = section_of(path)
    setting, whole = setting_of_path(path)
    if setting == "overrides":
        return _unknown_in_override(key, section)
    if setting in _ITEMS and len(path) > len(whole):
        return f"unknown key of {_ITEM[setting][0]}{did_you_mean(key, _ITEMS[setting].spellings)}"
    vocabulary = vocabulary_of(section)
    if len(path) > len(section) + 1:
        return f"unknown setting{did_you_mean(key, vocabulary.inside(str(path[-2])).spellings)}"
    return f"unknown setting{did_you_mean(key, _names(vocabulary))}"


def _names(vocabulary: Vocabulary) -> set[str]:
    """What may be written directly in a section."""
    return {name for name in vocabulary.spellings if "." not in name} | vocabulary.tables


def _unknown_section(key: str) -> str:
    if key in SPELLINGS or key in ENTRY.tables:
        return f"is a setting of a provider; write it under {' or '.join(f'[{name}]' for name in PROVIDERS)}"
    if key in _names(POOL):
        return f"is a setting of a pool; write it under [{POOLS}.NAME]"
    return f"unknown provider; known: {', '.join(PROVIDERS)}{did_you_mean(key, (*PROVIDERS, POOLS))}"


def _unknown_in_override(key: str, section: KeyPath) -> str:
    if key in SETTINGS or key in ENTRY.tables:
        return f"holds for a whole provider; set it under [{section[0]}]"
    return f"unknown setting of an override{did_you_mean(key, OVERRIDABLE)}"


def _expected(path: KeyPath) -> tuple[str, str]:
    """(noun, what is accepted) for a path that the model knows."""
    if path[-1] == BAD_KEY or path == section_of(path):
        return _expected_section(path)
    setting, whole = setting_of_path(path)
    vocabulary, inner = vocabulary_of(section_of(path)), path[len(whole) :]
    if setting in vocabulary.tables:
        return "a table of settings", f"a table of {', '.join(vocabulary.inside(setting).settings)}"
    if setting in _ITEMS and inner:
        return _expected_item(setting, inner)
    return _expected_setting(vocabulary, ".".join(map(str, whole[len(section_of(path)) :])), is_item=bool(inner))


def _expected_section(path: KeyPath) -> tuple[str, str]:
    if path == (POOLS,):
        return "a table of pools", f"a table for each pool, [{POOLS}.NAME]"
    if path[-1] == BAD_KEY:
        return "the name of a pool", POOL_NAME
    kind, example = ("a pool", "members = […]") if path[0] == POOLS else ("an entry", "max_retries = 5")
    return kind, f"a table of settings such as [{dotted(path)}] {example}"


def _expected_item(setting: str, inner: KeyPath) -> tuple[str, str]:
    """Of a list of tables: an item, or what is in it."""
    if len(inner) == 1:
        return _ITEM[setting]
    if inner[1] == "match":
        return _expected_match(is_pattern=len(inner) > 2)  # noqa: PLR2004 - [0].match.service
    return _expected_setting(_ITEMS[setting], str(inner[1]), is_item=len(inner) > 2)  # noqa: PLR2004 - [0].response_codes[1]


def _expected_match(*, is_pattern: bool) -> tuple[str, str]:
    if is_pattern:
        return "a pattern", 'text such as "Describe*", in quotes'
    return "a match", f"a table with at least one of {', '.join(MATCH_KEYS)}"


def _expected_setting(vocabulary: Vocabulary, spelling: str, *, is_item: bool) -> tuple[str, str]:
    setting: Setting = vocabulary.settings[vocabulary.setting_of(spelling)]
    if spelling not in vocabulary.settings:
        bounds = "above 0, at most" if "above 0" in setting.accepted else "from 0 to"
        return "a number of milliseconds", f"a number {bounds} {_MOST_MILLISECONDS}"
    if spelling == "response_codes" and is_item:
        return "a response code", 'a status from 400 to 599, an error code such as "SlowDown", "throttling"'
    if spelling == "bypass" and is_item:
        return "a destination", setting.accepted.removeprefix("a list of ")
    return setting.noun, setting.accepted


def _shown(path: KeyPath, value: object) -> str:
    if "plugin_options" in path:
        return "the value"
    if isinstance(value, str) and ("//" in value or "@" in value):
        return shown(masked_url(value))
    return shown(value)


def _hint(path: KeyPath, value: object) -> str:
    setting, whole = setting_of_path(path)
    vocabulary, key = vocabulary_of(section_of(path)), str(whole[-1])
    if setting == "overrides":
        vocabulary, key = ENTRY, next((part for part in reversed(path) if isinstance(part, str)), "")
        setting = key
    if vocabulary.is_duration(setting) and key in {setting, setting.rpartition(".")[2]} and _is_number(value):
        return unit_alone(key, shown(value))
    if setting == "response_codes" and isinstance(value, str) and value.isdecimal():
        return f"; write {shown(value)[1:-1]} without quotes"
    if setting in vocabulary.settings and vocabulary.settings[setting].form is Form.WORD and isinstance(value, str):
        return _closest_word(vocabulary.settings[setting], value)
    if "match" in path and isinstance(value, int):
        return "; a number needs quotes here"
    return ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _closest_word(setting: Setting, value: str) -> str:
    words = [word.strip('"').partition(" ")[0] for word in setting.accepted.split(", ")]
    return did_you_mean(value, words) if all(map(_is_word, words)) else ""


def _is_word(text: str) -> bool:
    return text.replace("_", "").replace("-", "").isalnum()
