"""Mixes judged layers, setting by setting, into frozen settings, and checks what only the whole can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from cloudretry.config.place import BUILT_IN, Place, Problem, dotted
from cloudretry.config.vocabulary import ENTRY, SETTINGS
from cloudretry.core.builtin import PRESETS
from cloudretry.core.headers import KNOWN_UNITS, HeaderSource, Unit
from cloudretry.core.match import Match
from cloudretry.core.pacing_settings import KnownRate, PacingSettings
from cloudretry.core.quota import GroupRule
from cloudretry.core.settings import Mode, Override, ProviderSettings, RetrySettings

if TYPE_CHECKING:
    from cloudretry.config.judging import Judged, Written

__all__ = ["Merged", "merge", "origins_of_builtin"]

_DEFAULT_PRESET: Final = "builtin"
_RETRY_NAMES: Final = tuple(name for name in SETTINGS if name in RetrySettings.__dataclass_fields__)
_PACING_NAMES: Final = tuple(ENTRY.inside("pacing").settings)


@dataclass(frozen=True, slots=True)
class Merged:
    """One provider's entry.

    Args:
        origins: dotted name of a setting → where it was set.
        written: what was set in any layer, the winners.
        broken: what was set wrongly in any layer.
        problems: of the mixture.
    """

    settings: ProviderSettings
    origins: Mapping[str, Place]
    written: Mapping[str, Written]
    broken: AbstractSet[str]
    problems: Sequence[Problem]


def origins_of_builtin(provider: str) -> dict[str, Place]:
    """Every setting of an entry that nobody has changed."""
    names = {(provider, name) for name in (*_RETRY_NAMES, "mode")} | {(provider, "pacing", name) for name in _PACING_NAMES}
    return {dotted(path): BUILT_IN for path in names}


def merge(provider: str, layers: Iterable[Judged]) -> Merged:
    """The first layer that sets a setting wins; a preset gives what no layer sets."""
    written: dict[str, Written] = {}
    broken: set[str] = set()
    for layer in layers:
        broken |= {setting for section, setting in layer.broken if section == (provider,)}
        for setting, value in layer.entries.get((provider,), {}).items():
            written.setdefault(setting, value)
    return _Entry(provider, written, broken).merged()


class _Entry:
    def __init__(self, provider: str, written: Mapping[str, Written], broken: set[str]) -> None:
        self._provider = provider
        self._written = written
        self._broken = broken
        self._problems: list[Problem] = []
        self._origins = origins_of_builtin(provider)

    def merged(self) -> Merged:
        unit = self._written.get("response_header_delay_unit")
        explicit = {name: item.value for name, item in self._written.items() if name in _RETRY_NAMES}
        retry = replace(self._preset(), **_frozen(explicit, Unit(unit.value) if unit else Unit.SECONDS))
        for name, item in self._written.items():
            self._origins[dotted((self._provider, *name.split(".")))] = item.place
        mode: Mode = self._written["mode"].value if "mode" in self._written else "enforce"
        settings = ProviderSettings(
            retry=retry, overrides=tuple(self._overrides(unit)), mode=mode, pacing=_pacing(self._provider, self._written)
        )
        return Merged(settings, self._origins, self._written, self._broken, self._problems)

    def _preset(self) -> RetrySettings:
        chosen = self._written.get("preset")
        if chosen is None:
            return PRESETS[_DEFAULT_PRESET][self._provider]
        if self._provider not in PRESETS[chosen.value]:
            known = ", ".join(name for name in PRESETS if self._provider in PRESETS[name])
            text = f"{chosen.value!r} is not a preset for {self._provider}; accepted: {known}"
            self._problems.append(Problem(chosen.place, dotted((self._provider, "preset")), text))
            return PRESETS[_DEFAULT_PRESET][self._provider]
        for name in _RETRY_NAMES:
            self._origins[dotted((self._provider, name))] = replace(chosen.place, preset=chosen.value)
        return PRESETS[chosen.value][self._provider]

    def _overrides(self, entry_unit: Written | None) -> Iterable[Override]:
        listed = self._written.get("overrides")
        if listed is not None:
            for index, raw in enumerate(listed.value):
                self._place_override(index, raw, listed)
                yield self._override(index, dict(raw), entry_unit)

    def _override(self, index: int, changes: dict[str, Any], entry_unit: Written | None) -> Override:
        match = Match(**changes.pop("match"))
        own_unit = changes.pop("response_header_delay_unit", None)
        if own_unit is not None and "response_header" not in changes:
            name = dotted((self._provider, "overrides", index, "response_header_delay_unit"))
            text = "belongs beside response_header: write both in the override"
            self._problems.append(Problem(self._origins[name], name, text))
        unit = own_unit or (entry_unit.value if entry_unit else Unit.SECONDS)
        return Override(match, _frozen(changes, Unit(unit)))

    def _place_override(self, index: int, raw: Mapping[str, Any], listed: Written) -> None:
        path = (self._provider, "overrides", index)
        whole = listed.places.get((index,), listed.place)
        self._origins[dotted(path)] = whole
        for name in raw:
            self._origins[dotted((*path, name))] = listed.places.get((index, name), whole)


def _pacing(provider: str, written: Mapping[str, Written]) -> PacingSettings:
    values = {name: written[f"pacing.{name}"].value for name in _PACING_NAMES if f"pacing.{name}" in written}
    if "rates" in values:
        values["rates"] = tuple(_known_rate(**raw) for raw in values["rates"])
    if "groups" in values:
        values["groups"] = tuple(_group(provider, **raw) for raw in values["groups"])
    return PacingSettings(**values)


def _known_rate(match: Mapping[str, str], rate: float, burst: float | None = None) -> KnownRate:
    return KnownRate(match=Match(**match), rate=rate, burst=max(1.0, rate) if burst is None else burst)


def _group(provider: str, match: Mapping[str, str], name: str, everywhere: bool = False) -> GroupRule:  # noqa: FBT001, FBT002
    return GroupRule(match=Match(**match), group=name, provider=provider, everywhere=everywhere)


def _frozen(changes: Mapping[str, Any], unit: Unit) -> dict[str, Any]:
    """Values as the core wants them; a header's unit is its own, else the one it is known for, else `unit`."""
    frozen = dict(changes)
    if "pool" in frozen:
        frozen["pool"] = frozen["pool"] or None
    if "response_codes" in frozen:
        frozen["response_codes"] = frozenset(frozen["response_codes"])
    if "response_header" in frozen:
        headers = frozen["response_header"]
        frozen["response_header"] = tuple(HeaderSource(name, own or KNOWN_UNITS.get(name, unit)) for name, own in headers)
    return frozen
