"""Settings back to text that can be loaded again, with the place of each; for everything or for one operation. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from cloudretry.config.durations import write_duration
from cloudretry.config.place import dotted
from cloudretry.config.vocabulary import DURATIONS, MATCH_KEYS, PROVIDERS, SETTINGS
from cloudretry.core.call import Call
from cloudretry.core.headers import KNOWN_UNITS, HeaderSource
from cloudretry.core.settings import ProviderSettings, RetrySettings

if TYPE_CHECKING:
    from cloudretry.config.configuration import Configuration

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
        for provider, entry in self.document.items():
            lines += ["", *self._table((provider,), f"[{provider}]", entry, with_origins=with_origins)]
            for index, override in enumerate(entry.get("overrides", ())):
                path = (provider, "overrides", index)
                lines += ["", *self._table(path, f"[[{provider}.overrides]]", override, with_origins=with_origins)]
        return "\n".join(lines).strip("\n") + "\n"

    def _table(
        self, path: tuple[str | int, ...], header: str, table: Mapping[str, Any], *, with_origins: bool
    ) -> Iterator[str]:
        yield header
        for name, value in table.items():
            if name == "overrides":
                continue
            first, *rest = _assignment(name, value)
            origin = self.origins.get(dotted((*path, name)), "") if with_origins else ""
            yield f"{first:<{_COMMENT_COLUMN}}  # {origin}" if origin else first
            yield from rest


def show(configuration: Configuration) -> Shown:
    """Every provider's effective entry."""
    document = {provider: _entry(entry) for provider, entry in configuration.settings.providers.items()}
    return Shown(document, {name: str(place) for name, place in configuration.origins.items()})


def show_call(configuration: Configuration, call: Call) -> Shown:
    """What holds for one operation, and which overrides made it so."""
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
    settings = ProviderSettings(retry=entry.for_call(call), mode=entry.mode)
    return Shown({call.provider: _entry(settings)}, origins, notes)


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
    values = {name: value for name, value in values.items() if value not in ({}, ())}
    document = {"mode": entry.mode, **_settings(values)}
    if entry.overrides:
        document["overrides"] = [
            {"match": _match(override.match), **_settings(override.changes)} for override in entry.overrides
        ]
    return document


def _match(match: Any) -> dict[str, str]:
    patterns = {name: getattr(match, name) for name in MATCH_KEYS if getattr(match, name) != "*"}
    return patterns or {MATCH_KEYS[0]: "*"}


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """In the order of the vocabulary, as a file would write them."""
    document = {}
    for name in SETTINGS:
        if name == "strategy" and values.get(name) == "sdk":
            document["preset"] = _SDK_PRESET
        elif values.get(name) is not None:
            document[name] = _written(name, values[name])
    return document


def _written(name: str, value: Any) -> Any:
    if name in DURATIONS:
        return write_duration(value)
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
