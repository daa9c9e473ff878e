"""Mixes the layers' pools, setting by setting, into frozen settings, and checks what only the whole can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cloudretry.config.durations import write_duration
from cloudretry.config.members import named, repeated
from cloudretry.config.place import BUILT_IN, Place, Problem, at, dotted
from cloudretry.config.pool_vocabulary import POOL, POOLS, USUAL_TRIES
from cloudretry.core.pool_settings import Cooldown, Member, PoolSettings, Probe, Slow
from cloudretry.core.proxy_url import holds_secret

if TYPE_CHECKING:
    from cloudretry.config.judging import Judged, Written
    from cloudretry.config.place import KeyPath

__all__ = ["MergedPools", "merge_pools", "pool_warnings"]

_TABLES: Final = {"cooldown": Cooldown, "probe": Probe, "slow": Slow}


@dataclass(slots=True)
class MergedPools:
    """All pools.

    Args:
        known: every name, that of a faulty pool too.
        origins: dotted name of a setting → where it was set.
    """

    settings: dict[str, PoolSettings] = field(default_factory=dict)
    known: AbstractSet[str] = frozenset()
    origins: dict[str, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def merge_pools(layers: Sequence[Judged]) -> MergedPools:
    """The first layer that sets a setting of a pool wins."""
    places: dict[str, Place] = {}
    written: dict[str, dict[str, Written]] = {}
    broken: dict[str, set[str]] = {}
    names = _Names(layers)
    for layer in layers:
        for name, place in layer.pools.items():
            places[names.of(name, layer)] = place  # the lowest layer's, which is where the pool stands rather than one setting
        for section, entry in layer.entries.items():
            if section[0] == POOLS:
                own = written.setdefault(names.of(str(section[1]), layer), {})
                own.update({setting: value for setting, value in entry.items() if setting not in own})
        for section, setting in layer.broken:
            if section[0] == POOLS and len(section) > 1:
                broken.setdefault(names.of(str(section[1]), layer), set()).add(setting)
    merged = MergedPools(known=places.keys())
    for name, place in places.items():
        _Pool(name, place, written.get(name, {}), merged).add(broken.get(name, frozenset()))
    return merged


class _Names:
    """Variables have lost the case of a name and can't hold a `-`: they mean the pool of another layer that looks the same."""

    def __init__(self, layers: Iterable[Judged]) -> None:
        written = (name for layer in layers if not layer.are_variables for name in layer.pools)
        self._written = {self._folded(name): name for name in written}

    def of(self, name: str, layer: Judged) -> str:
        return self._written.get(self._folded(name), name) if layer.are_variables else name

    @staticmethod
    def _folded(name: str) -> str:
        return name.lower().replace("-", "_")


class _Pool:
    def __init__(self, name: str, place: Place, written: Mapping[str, Written], merged: MergedPools) -> None:
        self._name = name
        self._place = place
        self._written = written
        self._merged = merged

    def add(self, broken: AbstractSet[str]) -> None:
        """To the merged ones, if it is whole."""
        self._merged.origins.update(self._origins())
        if "members" not in self._written:
            if not {"members", ""} & broken:
                self._problem("members", "is missing; a pool needs at least one member")
            return
        self._merged.problems.extend(self._repeated())
        probe = self._inner("probe", Probe)
        if probe.kind == "https_get" and probe.url is None and "probe.url" not in broken:
            self._problem("probe.kind", "https_get needs probe.url, what to ask for")
        self._merged.settings[self._name] = self._settings(probe)

    def _settings(self, probe: Probe) -> PoolSettings:
        plain = {name: item.value for name, item in self._written.items() if "." not in name}
        members = plain.pop("members")
        bypass = tuple(plain.pop("bypass", ()))
        return PoolSettings(
            name=self._name,
            members=tuple(Member(**{**raw, "name": name}) for raw, name in zip(members, named(members), strict=True)),
            bypass=bypass,
            cooldown=self._inner("cooldown", Cooldown),
            probe=probe,
            slow=self._inner("slow", Slow),
            **plain,
        )

    def _inner(self, table: str, kind: Any) -> Any:
        return kind(**{name: self._written[f"{table}.{name}"].value for name in self._inner_names(table)})

    def _inner_names(self, table: str) -> Iterator[str]:
        return (name for name in POOL.inside(table).settings if f"{table}.{name}" in self._written)

    def _origins(self) -> dict[str, Place]:
        origins = {dotted((POOLS, self._name)): self._place}
        origins |= {self._dotted(name): BUILT_IN for name in POOL.settings}
        origins |= {self._dotted(name): item.place for name, item in self._written.items()}
        listed = self._written.get("members")
        for index in range(len(listed.value) if listed else 0):
            origins[dotted((POOLS, self._name, "members", index))] = self._place_of_member((index,))
        return origins

    def _repeated(self) -> Iterator[Problem]:
        for path, text in repeated(self._written["members"].value):
            yield Problem(self._place_of_member(path), dotted((POOLS, self._name, "members", *path)), text)

    def _place_of_member(self, path: KeyPath) -> Place:
        listed = self._written["members"]
        return at(listed.places, path, listed.place)

    def _problem(self, setting: str, text: str) -> None:
        place = self._written[setting].place if setting in self._written else self._place
        self._merged.problems.append(Problem(place, self._dotted(setting), text))

    def _dotted(self, setting: str) -> str:
        return dotted((POOLS, self._name, *setting.split(".")))


def pool_warnings(pools: MergedPools, used: AbstractSet[str | None]) -> Iterator[str]:
    """One line for each thing that is allowed and probably not meant."""
    for name, pool in pools.settings.items():
        doubts = [*_doubts(pool), *_doubts_of_members(pool)]
        if name not in used:
            doubts.append(((), f'no provider uses it; write pool = "{name}" under one'))
        for path, text in doubts:
            setting = dotted((POOLS, name, *path))
            yield str(Problem(pools.origins[setting], setting, text))


def _doubts(pool: PoolSettings) -> Iterator[tuple[KeyPath, str]]:
    """(path in the pool, what is doubtful about it)."""
    if pool.retries > USUAL_TRIES:
        yield ("retries",), f"{pool.retries} is more than {USUAL_TRIES}: a call may be long on its way before it fails"
    if pool.cooldown.max < pool.cooldown.initial:
        longest = write_duration(pool.cooldown.max)
        yield ("cooldown", "max"), f"is below initial {write_duration(pool.cooldown.initial)}: every cooldown is {longest}"
    if pool.probe.url is not None and pool.probe.kind != "https_get":
        yield ("probe", "url"), 'has no effect without probe.kind = "https_get"'
    if pool.slow.threshold is not None and pool.slow.first_byte is None and pool.slow.per_mib is None:
        yield ("slow", "threshold"), "has no effect without first_byte or per_mib"


def _doubts_of_members(pool: PoolSettings) -> Iterator[tuple[KeyPath, str]]:
    if all(member.disabled for member in pool.members):
        yield ("members",), "all of them are disabled: no call can leave"
    for index, member in enumerate(pool.members):
        if member.url is not None and holds_secret(member.url):
            yield ("members", index), "credentials are written out; write them as ${env:NAME} or ${file:PATH}"
