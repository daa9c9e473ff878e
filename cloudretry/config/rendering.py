"""Settings back to text that can be loaded again, with the place of each; for everything or for one operation. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from cloudretry.config.durations import write_duration
from cloudretry.config.place import dotted
from cloudretry.config.pool_rendering import pool_document
from cloudretry.config.pool_vocabulary import POOLS
from cloudretry.config.sections import sections, vocabulary_of
from cloudretry.config.vocabulary import ENTRY, MATCH_KEYS, PROVIDERS, SETTINGS
from cloudretry.core.call import Call
from cloudretry.core.headers import KNOWN_UNITS, HeaderSource
from cloudretry.core.settings import ProviderSettings, RetrySettings

if TYPE_CHECKING:
    from cloudretry.config.configuration import Configuration
    from cloudretry.config.place import KeyPath
    from cloudretry.core.pacing_settings import PacingSettings
    from cloudretry.core.quota import GroupRule

__all__ = ["Shown", "parse_call", "show", "show_call"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_CALL = re.compile(
    r"(?:(?P<provider>aws|azure)/)?(?P<service>[^:@]+):(?P<operation>[^@]+)(?:@(?P<account>[^/]*)(?:/(?P<region>.*))?)?"
)
_WIDE = 100
_COMMENT_COLUMN = 44
_SDK_PRESET: Final = "azure-core"  # the only way to the internal strategy


@dataclass(frozen=True, slots=True)
class Shown:
    """What is to be shown. `document` can be loaded; `origins`: dotted name → place; `notes` are comments above it."""

    document: Mapping[str, Mapping[str, Any]]
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def as_json(self) -> str:
        """The document alone."""
        return json.dumps(self.document, indent=2)

    def as_toml(self, *, with_origins: bool = False) -> str:
        """The document with its notes, and behind each line where the setting comes from."""
        lines = [f"# {note}" for note in self.notes]
        for path, header, table in _toml_tables(self.document):
            lines += ["", header, *self._lines(path, table, with_origins=with_origins)]
        return "\n".join(lines).strip("\n") + "\n"

    def _lines(self, path: KeyPath, table: Mapping[str, Any], *, with_origins: bool) -> Iterator[str]:
        for name, value in table.items():
            first, *rest = _assignment(name, value)
            origin = self.origins.get(dotted((*path, name)), "") if with_origins else ""
            yield f"{first:<{_COMMENT_COLUMN}}  # {origin}" if origin else first
            yield from rest


def _toml_tables(document: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str, Mapping[str, Any]]]:
    """(path, header, what stands under it) of every table that is written with a header."""
    for section, table in sections(document):
        inner = [name for name in table if name in vocabulary_of(section).tables]
        own = {name: value for name, value in table.items() if name not in {*inner, "overrides"}}
        yield section, f"[{dotted(section)}]", own
        yield from (((*section, name), f"[{dotted((*section, name))}]", table[name]) for name in inner)
        for index, override in enumerate(table.get("overrides", ())):
            path = (*section, "overrides")
            yield (*path, index), f"[[{dotted(path)}]]", override


def show(configuration: Configuration) -> Shown:
    """Every provider's effective entry and every pool."""
    settings = configuration.settings
    document = {provider: _entry(entry) for provider, entry in settings.providers.items()}
    if settings.pools:
        document[POOLS] = {name: pool_document(pool) for name, pool in settings.pools.items()}
    return Shown(document, {name: str(place) for name, place in configuration.origins.items()})


def show_call(configuration: Configuration, call: Call) -> Shown:
    """What holds for one operation, which overrides made it so, and the pool by which it leaves."""
    entry = configuration.settings.providers[call.provider]
    matching = [index for index, override in enumerate(entry.overrides) if override.match.matches(call)]
    origins = {name: str(place) for name, place in configuration.origins.items()}
    listed = []
    for index in matching:
        override = (call.provider, "overrides", index)
        listed.append(f"{dotted(override)} ({origins.get(dotted(override), '?')})")
        for name in entry.overrides[index].changes:
            origins[dotted((call.provider, name))] = origins.get(dotted((*override, name)), "?")
    notes = (f"{call.provider}/{call}", f"overrides that match: {', '.join(listed) or 'none'}")
    retry, known = entry.for_call(call), entry.pacing.known_rate(call)
    group = [rule for rule in entry.pacing.groups if rule.fits(call, unfiltered=False)][:1]
    pacing = replace(entry.pacing, rates=() if known is None else (known,), groups=tuple(group))
    document = {call.provider: _entry(ProviderSettings(retry=retry, mode=entry.mode, pacing=pacing))}
    if retry.pool is not None:
        document[POOLS] = {retry.pool: pool_document(configuration.settings.pools[retry.pool])}
    return Shown(document, origins, notes)


def parse_call(text: str) -> Call:
    """`[provider/]service:operation[@account[/region]]`; `-` or nothing for an unknown account or region, aws if not said.

    Raises ValueError that says what is accepted.
    """
    found = _CALL.fullmatch(text)
    if found is None:
        accepted = (
            "ec2:DescribeInstances@111122223333/eu-west-1, azure/compute:virtual_machines.list, account and region optional"
        )
        raise ValueError(f"{text!r} is not an operation; accepted: {accepted}")
    account, region = (None if part in {None, "", "-"} else part for part in (found["account"], found["region"]))
    provider = found["provider"] or PROVIDERS[0]
    if provider == "aws" and (found["operation"][:1].islower() or "_" in found["operation"]):
        raise ValueError(f"{found['operation']!r} is no operation of AWS; they are written like DescribeInstances")
    return Call(provider=provider, service=found["service"], operation=found["operation"], account=account, region=region)


def _entry(entry: ProviderSettings) -> dict[str, Any]:
    values = {item.name: getattr(entry.retry, item.name) for item in fields(RetrySettings)}
    values = {name: value for name, value in values.items() if value not in ({}, (), None)}
    document = {"mode": entry.mode, **_settings(values), "pacing": _pacing(entry.pacing)}
    if entry.overrides:
        document["overrides"] = [
            {"match": _match(override.match), **_settings(override.changes)} for override in entry.overrides
        ]
    return document


def _pacing(pacing: PacingSettings) -> dict[str, Any]:
    document: dict[str, Any] = {"mode": pacing.mode, "reserve": pacing.reserve}
    caps = {"max_rate": pacing.max_rate, "max_in_flight": pacing.max_in_flight}
    document |= {name: cap for name, cap in caps.items() if cap is not None}
    if pacing.rates:
        document["rates"] = [{"match": _match(known.match), "rate": known.rate, "burst": known.burst} for known in pacing.rates]
    if pacing.groups:
        document["groups"] = [_group(rule) for rule in pacing.groups]
    return {**document, "queue_timeout": write_duration(pacing.queue_timeout), "remember": pacing.remember}


def _group(rule: GroupRule) -> dict[str, Any]:
    everywhere = {"everywhere": True} if rule.everywhere else {}
    return {"match": _match(rule.match), "name": rule.group, **everywhere}


def _match(match: Any) -> dict[str, str]:
    patterns = {name: getattr(match, name) for name in MATCH_KEYS if getattr(match, name) != "*"}
    return patterns or {MATCH_KEYS[0]: "*"}


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """In the order of the vocabulary, as a file would write them."""
    document = {}
    for name in SETTINGS:
        if name == "strategy" and values.get(name) == "sdk":
            document["preset"] = _SDK_PRESET
        elif name in values:
            document[name] = _written(name, values[name])
    return document


def _written(name: str, value: Any) -> Any:
    if ENTRY.is_duration(name):
        return write_duration(value)
    if name == "pool":
        return value or ""
    if name == "response_codes":
        return sorted(item for item in value if isinstance(item, int)) + sorted(item for item in value if isinstance(item, str))
    if name == "response_header":
        return [_header(source) for source in value]
    return value


def _header(source: HeaderSource) -> Any:
    is_known = KNOWN_UNITS.get(source.name) is source.unit
    return source.name if is_known else {"name": source.name, "unit": source.unit.value}


def _assignment(name: str, value: Any) -> Iterable[str]:
    """One line, or one line for each item of a long list."""
    line = f"{_key(name)} = {_toml(value)}"
    if len(line) <= _WIDE or not isinstance(value, list):
        return [line]
    return [f"{_key(name)} = [", *(f"  {_toml(item)}," for item in value), "]"]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """JSON's escapes are TOML's, but for DEL, which TOML wants escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
