"""What only a merged entry shows: plugins that are not there (errors), settings that surprise (warnings)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from cloudretry.config.durations import write_duration
from cloudretry.config.place import KeyPath, Problem, dotted
from cloudretry.config.vocabulary import did_you_mean
from cloudretry.core.headers import KNOWN_UNITS
from cloudretry.core.settings import THROTTLING, RetrySettings

if TYPE_CHECKING:
    from cloudretry.config.merging import Merged

__all__ = ["plugin_problems", "pool_problems", "warnings_of"]

_SECRET_NAME = re.compile(r"passw|secret|token|api_?key|credential", re.IGNORECASE)
_LOST: Final = {
    "aws": "throttles by error code (Throttling, ThrottlingException, RequestLimitExceeded, SlowDown and the like, most of them"
    " with status 400) are retried only as far as the list names them",
    "azure": "429 is retried only if the list names it, and quota errors with a listed status are retried too",
}


@dataclass(frozen=True, slots=True)
class _Part:
    """An entry, or one of its overrides: what was written there, and what holds because of it."""

    merged: Merged
    path: KeyPath
    written: Mapping[str, Any]
    retry: RetrySettings

    def problem(self, setting: str, text: str, *, missing_plugin: bool = False) -> Problem:
        """At the setting, else at the override, else where the entry has it from."""
        origins = self.merged.origins
        names = (dotted((*self.path, setting)), dotted(self.path), dotted((self.path[0], setting)))
        place = next(origins[name] for name in names if name in origins)
        return Problem(place, names[0], text, missing_plugin)


def plugin_problems(provider: str, merged: Merged, installed: Callable[[], Iterable[str]]) -> Iterator[Problem]:
    """A problem for each place where the strategy custom has no plugin, or one that is not installed."""
    entry, *overrides = _parts(provider, merged)
    touching = [entry, *(part for part in overrides if {"strategy", "plugin"} & part.written.keys())]
    for part in touching:
        if part.retry.strategy != "custom" or "plugin" in merged.broken:
            continue
        if part.retry.plugin is None:
            yield part.problem("strategy", "custom needs plugin, the name of an entry point in cloudretry.backoff")
        elif part.retry.plugin not in (names := sorted(installed())):
            known = f"installed: {', '.join(names) or 'none'}{did_you_mean(part.retry.plugin, names)}"
            yield part.problem("plugin", f"{part.retry.plugin!r} is not installed; {known}", missing_plugin=True)


def pool_problems(provider: str, merged: Merged, known: Iterable[str]) -> Iterator[Problem]:
    """A problem for each place that names a pool which is nowhere."""
    names = sorted(filter(str.isprintable, known))
    for part in _parts(provider, merged):
        pool = part.retry.pool
        if "pool" in part.written and pool is not None and pool not in names:
            text = f"there is no table [pools.{pool}]; known: {', '.join(names) or 'none'}{did_you_mean(pool, names)}"
            yield part.problem("pool", text)


def warnings_of(provider: str, merged: Merged) -> Iterator[str]:
    """One line for each thing that is allowed and probably not meant."""
    entry, *overrides = _parts(provider, merged)
    yield from (str(entry.problem(setting, text)) for setting, text in _doubts(provider, entry))
    if "response_header_delay_unit" in merged.written and not _uses_unit(merged):
        text = "has no effect: every header in response_header has a unit of its own"
        yield str(entry.problem("response_header_delay_unit", text))
    for part in overrides:
        told = (*_doubts(provider, part), *_doubts_of_override(provider, part))
        yield from (str(part.problem(setting, text)) for setting, text in told if setting == "match" or setting in part.written)


def _parts(provider: str, merged: Merged) -> Iterator[_Part]:
    """The entry itself first, then its overrides."""
    retry = merged.settings.retry
    yield _Part(merged, (provider,), merged.written, retry)
    for index, override in enumerate(merged.settings.overrides):
        changes = dict(override.changes)
        yield _Part(merged, (provider, "overrides", index), changes, replace(retry, **changes))


def _doubts(provider: str, part: _Part) -> Iterator[tuple[str, str]]:
    """(setting, what is doubtful about it)."""
    retry = part.retry
    if THROTTLING not in retry.response_codes:
        yield "response_codes", f'without "{THROTTLING}" our classifier is off: {_LOST[provider]}'
    if retry.max_delay < retry.base_delay:
        cap = write_duration(retry.max_delay)
        setting = "base_delay" if "base_delay" in part.written and "max_delay" not in part.written else "max_delay"
        yield setting, f"max_delay {cap} is below base_delay {write_duration(retry.base_delay)}: nearly every delay is {cap}"
    if retry.pool is not None and part.merged.settings.mode == "observe":
        yield "pool", "has no effect in mode observe"
    if retry.plugin is not None and retry.strategy != "custom" and not _custom_somewhere(part.merged):
        yield "plugin", f"{retry.plugin!r} is not used: strategy is {retry.strategy}, not custom"
    secrets = [name for name, value in retry.plugin_options.items() if _SECRET_NAME.search(name) and _is_written_out(value)]
    if secrets:
        yield "plugin_options", f"{', '.join(map(repr, secrets))}: write a secret as ${{env:NAME}} or ${{file:PATH}}"


def _doubts_of_override(provider: str, part: _Part) -> Iterator[tuple[str, str]]:
    if not part.written:
        yield "match", "the override changes nothing"
    operation = part.merged.settings.overrides[int(part.path[-1])].match.operation
    if provider == "aws" and "_" in operation:
        yield "match", f"operation {operation!r} matches nothing: operations of AWS are written like DescribeInstances"


def _is_written_out(value: object) -> bool:
    return isinstance(value, str) and "${" not in value


def _custom_somewhere(merged: Merged) -> bool:
    entry = merged.settings
    return entry.retry.strategy == "custom" or any(item.changes.get("strategy") == "custom" for item in entry.overrides)


def _uses_unit(merged: Merged) -> bool:
    """Whether the entry's unit decides for any header, in the entry or in an override without a unit of its own."""
    lists = [merged.written["response_header"].value] if "response_header" in merged.written else []
    overrides = merged.written["overrides"].value if "overrides" in merged.written else []
    lists += [item.get("response_header", ()) for item in overrides if "response_header_delay_unit" not in item]
    return any(unit is None and name not in KNOWN_UNITS for headers in lists for name, unit in headers)
