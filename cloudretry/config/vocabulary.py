"""The words of a provider's entry: every setting, what it accepts, and who may set it. Data alone.

Settings of inner tables are named with a dot: `pacing.reserve`.

A file found in the working directory comes with whatever was checked out there. It may change how long we wait and how often we
try, nothing else: not what counts as a throttle, not which header is believed, not by which way calls leave, not which code
runs, not whether cloudretry is active (`mode`). `overrides` are kept out too, because an override beats the entry of a higher
layer.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from cloudretry.core.headers import Unit

__all__ = [
    "ENTRY",
    "MATCH_KEYS",
    "MOST_RETRIES",
    "OVERRIDABLE",
    "PROVIDERS",
    "SETTINGS",
    "SPELLINGS",
    "Form",
    "Setting",
    "Vocabulary",
    "count",
    "did_you_mean",
    "duration",
    "number",
    "unit_alone",
]

PROVIDERS: Final = ("aws", "azure")
MATCH_KEYS: Final = ("service", "operation", "region", "account")
MOST_RETRIES: Final = 100


class Form(Enum):
    """What a value looks like; decides how the text of a variable is read."""

    COUNT = "count"
    NUMBER = "number"
    DURATION = "duration"
    FLAG = "flag"
    WORD = "word"
    LIST = "list"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a provider's entry.

    Args:
        noun: completes "… is not".
        accepted: completes "accepted: …".
        overridable: whether an override may change it.
        in_directory: whether a file found in the working directory may set it.
    """

    form: Form
    noun: str
    accepted: str
    meaning: str
    overridable: bool = True
    in_directory: bool = False


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The settings of one kind of table.

    Args:
        tables: names of its inner tables, whose settings are named `table.setting`.
        spellings: every name that may be written: a duration has a second one, in milliseconds.
    """

    settings: Mapping[str, Setting]
    tables: frozenset[str] = field(init=False)
    spellings: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        durations = [name for name, setting in self.settings.items() if setting.form is Form.DURATION]
        object.__setattr__(self, "spellings", frozenset(self.settings) | {f"{name}_ms" for name in durations})
        object.__setattr__(self, "tables", frozenset(name.partition(".")[0] for name in self.settings if "." in name))

    def setting_of(self, spelling: str) -> str:
        """The setting that is meant: `base_delay_ms` is base_delay; an unknown spelling is itself."""
        known = spelling in self.spellings and spelling not in self.settings
        return spelling.removesuffix("_ms") if known else spelling

    def inside(self, table: str) -> Vocabulary:
        """The settings of an inner table, by the names that they have there."""
        prefix = f"{table}."
        return Vocabulary({name.removeprefix(prefix): item for name, item in self.settings.items() if name.startswith(prefix)})

    def is_duration(self, name: str) -> bool:
        """Whether the setting is one."""
        return name in self.settings and self.settings[name].form is Form.DURATION


def duration(meaning: str, *, above_zero: bool = False, in_directory: bool = True) -> Setting:
    """A setting that is a duration."""
    accepted = f'a duration in quotes such as "400ms", "5s", "5m" or "1h", {"above 0, " if above_zero else ""}at most 24h'
    return Setting(
        form=Form.DURATION, noun="a duration", accepted=accepted, meaning=meaning, overridable=False, in_directory=in_directory
    )


def count(noun: str, least: int, most: int, meaning: str, *, in_directory: bool = False) -> Setting:
    """A setting that is a whole number."""
    accepted = f"a whole number from {least} to {most}"
    return Setting(form=Form.COUNT, noun=noun, accepted=accepted, meaning=meaning, overridable=False, in_directory=in_directory)


def number(noun: str, accepted: str, meaning: str, *, in_directory: bool = False) -> Setting:
    """A setting that is a number with a fraction."""
    return Setting(
        form=Form.NUMBER, noun=noun, accepted=accepted, meaning=meaning, overridable=False, in_directory=in_directory
    )


def _duration(meaning: str) -> Setting:
    return replace(duration(meaning), overridable=True)


def _count(meaning: str) -> Setting:
    return replace(count("a number of retries", 0, MOST_RETRIES, meaning, in_directory=True), overridable=True)


SETTINGS: Final[Mapping[str, Setting]] = {
    "preset": Setting(
        form=Form.WORD,
        noun="a preset",
        accepted="builtin, example, azure-core (for azure)",
        meaning="The entry to start from; every setting that is written, in any layer, wins over it.",
        overridable=False,
    ),
    "mode": Setting(
        form=Form.WORD,
        noun="a mode",
        accepted="enforce, observe",
        meaning="enforce; observe leaves the SDK's own retry in place and only records.",
        overridable=False,
    ),
    "strategy": Setting(
        form=Form.WORD,
        noun="a strategy",
        accepted="response_header, exponential, custom (or user_defined)",
        meaning="How long to wait before the next attempt of a throttled call.",
        in_directory=True,  # the built-in ones
    ),
    "max_retries": _count("Retries after the first attempt."),
    "response_codes": Setting(
        form=Form.LIST,
        noun="a list of response codes",
        accepted='a list of statuses from 400 to 599, error codes as text, and the word "throttling" for our own classifier',
        meaning='Statuses and error codes that count as throttled; a list without "throttling" replaces our classifier.',
    ),
    "base_delay": _duration("Base of the exponential backoff."),
    "max_delay": _duration("Cap of the exponential backoff, before the jitter is added."),
    "additional_delay_window": _duration("The jitter window: each delay gets a uniform draw from it on top."),
    "response_header": Setting(
        form=Form.LIST,
        noun="a header to read a delay from",
        accepted="a header name, or an ordered list of names and tables {name, unit}",
        meaning="The response headers that tell a delay; the first that can be read wins.",
    ),
    "response_header_delay_unit": Setting(
        form=Form.WORD,
        noun="a unit",
        accepted=", ".join(unit.value for unit in Unit),
        meaning="Unit of the headers that neither carry one of their own nor have one in the list; seconds.",
    ),
    "max_header_delay": _duration("The longest wait that a header may ask for; above it the call stops at once."),
    "plugin": Setting(
        form=Form.WORD,
        noun="the name of a plugin",
        accepted="the name of an entry point of the group cloudretry.backoff",
        meaning="The getDelay() plugin of the strategy custom.",
    ),
    "plugin_options": Setting(
        form=Form.TABLE,
        noun="a table of options",
        accepted="a table of text, numbers, true, false, lists and tables",
        meaning="What the plugin is built with; secrets as ${env:NAME} or ${file:PATH}.",
    ),
    "time_budget": _duration("Bound on the sum of all waits between the attempts of a call."),
    "transient_errors": Setting(
        form=Form.FLAG,
        noun="a switch",
        accepted="true, false",
        meaning="Whether 500, 502, 503, 504 and lost connections are retried too, as far as safe.",
    ),
    "transient_retries": _count("How many of the retries may be for transient errors."),
    "pool": Setting(
        form=Form.WORD,
        noun="the name of a pool",
        accepted='the NAME of a table [pools.NAME], or "" for none',
        meaning='The egress pool by which calls leave; "" for none.',
    ),
    "pacing.mode": Setting(
        form=Form.WORD,
        noun="a mode",
        accepted="adaptive, off",
        meaning="adaptive learns what the provider grants and hands out turns; off: nobody waits for a turn.",
        overridable=False,
    ),
    "pacing.reserve": number(
        "a share",
        "a number from 0 to 0.9",
        "The share of the learned rate that is left to the other workloads of the account.",
        in_directory=True,
    ),
    "pacing.max_rate": number(
        "a rate",
        "a number of calls per second above 0, at most 1000000",
        "A cap on the calls per second of each quota, whatever was learned.",
        in_directory=True,
    ),
    "pacing.max_in_flight": count(
        "a number of calls", 1, 1_000_000, "A cap on the calls in flight of each quota.", in_directory=True
    ),
    "pacing.rates": Setting(
        form=Form.LIST,
        noun="a list of known rates",
        accepted="a list of tables, each with match = {service, operation, region, account}, rate and perhaps burst",
        meaning="Limits that are known beforehand, where learning starts; the last that matches a call holds.",
        overridable=False,
    ),
    "pacing.groups": Setting(
        form=Form.LIST,
        noun="a list of groups",
        accepted="a list of tables, each with match = {service, operation, region, account}, name and perhaps everywhere",
        meaning="Calls that the provider meters together, before our own rules; the first that matches a call holds.",
        overridable=False,
    ),
    "pacing.queue_timeout": duration("The longest that a call may wait for its turns."),
    "pacing.remember": Setting(
        form=Form.FLAG,
        noun="a switch",
        accepted="true, false",
        meaning="Whether measured limits are kept in the state folder, for later runs to start at; they are verified.",
        overridable=False,
    ),
    "overrides": Setting(
        form=Form.LIST,
        noun="a list of overrides",
        accepted="a list of tables, each with match = {service, operation, region, account} and the settings to change",
        meaning="Settings for the calls that match; all that match apply in order, the last wins.",
        overridable=False,
    ),
}

ENTRY: Final = Vocabulary(SETTINGS)
SPELLINGS: Final = ENTRY.spellings
OVERRIDABLE: Final = frozenset(key for key in SPELLINGS if SETTINGS[ENTRY.setting_of(key)].overridable)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` with the closest of `known`, or nothing."""
    words = sorted(known)
    close = difflib.get_close_matches(word[:64].lower().replace("-", "_"), words, n=1) or difflib.get_close_matches(
        word[:64].lower(), words, n=1
    )
    return f"; did you mean {close[0]}?" if close else ""


def unit_alone(setting: str, number: object) -> str:
    """What to write instead of a bare number, which has no unit."""
    return f'; a number alone has no unit: write {setting} = "{number}s" or {setting}_ms = {number}'
