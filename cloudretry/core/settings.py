"""The frozen settings that decisions read, and their compiled JSON. Standard library alone; all durations in seconds.

`cloudretry.config` makes these from text. A process without pydantic loads them with `Settings.from_json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from cloudretry.core.headers import HeaderSource, Unit
from cloudretry.core.match import Match
from cloudretry.core.pacing_settings import KnownRate, PacingSettings
from cloudretry.core.quota import GroupRule
from cloudretry.errors import ConfigurationError

if TYPE_CHECKING:
    from cloudretry.core.call import Call
    from cloudretry.core.pool_settings import PoolSettings

__all__ = [
    "FORMAT",
    "THROTTLING",
    "Match",
    "Mode",
    "Override",
    "ProviderSettings",
    "RetrySettings",
    "Settings",
    "Strategy",
    "for_credentials",
    "single_attempt",
]

FORMAT: Final = 2
"""Version of the compiled JSON; another one is refused."""

THROTTLING: Final = "throttling"
"""The word in `response_codes` that stands for our own classifier."""

Strategy = Literal["exponential", "response_header", "custom", "sdk"]
"""`sdk` is internal, set by the preset azure-core alone: the SDK's own counters and pauses decide."""
Mode = Literal["enforce", "observe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """How one call is retried. Defaults are the built-in entry's, except `response_header`, which each provider has its own of.

    Args:
        response_codes: statuses and provider error codes that count as throttled; `THROTTLING` stands for our classifier.
        max_header_delay: longest wait that a header may ask for; above it the call stops.
        time_budget: bound on the sum of all waits between the attempts of a call.
        transient_retries: how many of the retries may be for lost connections and 500, 502, 503, 504.
        pool: name of the egress pool by which the call leaves; None: by the SDK's own connections.
    """

    strategy: Strategy = "response_header"
    max_retries: int = 8
    response_codes: frozenset[int | str] = frozenset({THROTTLING})
    base_delay: float = 0.5
    max_delay: float = 20.0
    additional_delay_window: float = 0.5
    response_header: tuple[HeaderSource, ...] = ()
    max_header_delay: float = 300.0
    plugin: str | None = None
    plugin_options: Mapping[str, Any] = field(default_factory=dict)
    time_budget: float = 330.0
    transient_errors: bool = True
    transient_retries: int = 3
    pool: str | None = None


def single_attempt(retry: RetrySettings) -> RetrySettings:
    """For a caller who told the SDK to try once."""
    return replace(retry, max_retries=0)


def for_credentials(retry: RetrySettings) -> RetrySettings:
    """For calls that fetch credentials: everybody waits for them, so they end soon, one way or the other."""
    return replace(
        retry,
        max_retries=min(3, retry.max_retries),
        max_delay=min(2.0, retry.max_delay),
        max_header_delay=min(10.0, retry.max_header_delay),
        time_budget=min(10.0, retry.time_budget),
    )


@dataclass(frozen=True, slots=True)
class Override:
    """Settings that hold where `match` fits: names of RetrySettings with their new values."""

    match: Match
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """One provider's entry. `mode` holds for whole clients and `pacing` for whole quotas, so no override changes them."""

    retry: RetrySettings = field(default_factory=RetrySettings)
    overrides: tuple[Override, ...] = ()
    mode: Mode = "enforce"
    pacing: PacingSettings = field(default_factory=PacingSettings)

    def all_retry_settings(self) -> Iterator[RetrySettings]:
        """The entry's own, and what each override alone makes of it."""
        yield self.retry
        yield from (replace(self.retry, **override.changes) for override in self.overrides)

    def for_call(self, call: Call) -> RetrySettings:
        """What holds for one operation: all overrides that match, in order, setting by setting."""
        retry = self.retry
        for override in self.overrides:
            if override.match.matches(call):
                retry = replace(retry, **override.changes)
        return retry


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every provider's entry and every pool, frozen. Safe to share between threads and to pickle.

    Every pool that an entry or an override names is in `pools`. Secrets are still references, unless somebody wrote them out.
    `origins`: where the settings that end calls were written, by their dotted names, where that is known; they change nothing.
    """

    providers: Mapping[str, ProviderSettings]
    pools: Mapping[str, PoolSettings] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def all_retry_settings(self) -> Iterator[RetrySettings]:
        """Each entry's own, and what each override alone makes of it."""
        for entry in self.providers.values():
            yield from entry.all_retry_settings()

    def to_json(self) -> str:
        """The compiled form; `from_json` reads it back to an equal value."""
        document = {
            "format": FORMAT,
            "providers": {name: asdict(entry) for name, entry in self.providers.items()},
            "pools": {name: asdict(pool) for name, pool in self.pools.items()},
            "origins": dict(self.origins),
        }
        return json.dumps(document, default=_plain, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what `to_json` wrote. Raises ConfigurationError for anything else; the types of values are not checked again."""
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise ConfigurationError(f"compiled settings have format {document['format']!r}; this version reads {FORMAT}")
            return cls(
                providers={name: _provider(entry) for name, entry in document["providers"].items()},
                pools={name: _pool(pool) for name, pool in document["pools"].items()},
                origins=dict(document.get("origins", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigurationError(f"not compiled settings: {error!r}") from error


_RETRY_FIELDS: Final = frozenset(item.name for item in fields(RetrySettings))


def _plain(value: object) -> object:
    """Frozenset → list, in an order that does not depend on the hash seed."""
    if isinstance(value, frozenset):
        return sorted(value, key=str)
    raise TypeError(f"{type(value).__name__} has no place in compiled settings")


def _provider(entry: Mapping[str, Any]) -> ProviderSettings:
    overrides = tuple(Override(Match(**item["match"]), _changes(item["changes"])) for item in entry["overrides"])
    return ProviderSettings(
        retry=RetrySettings(**_changes(entry["retry"])),
        overrides=overrides,
        mode=entry["mode"],
        pacing=_pacing(entry["pacing"]),
    )


def _pacing(raw: Mapping[str, Any]) -> PacingSettings:
    rates = tuple(KnownRate(**{**known, "match": Match(**known["match"])}) for known in raw["rates"])
    groups = tuple(
        GroupRule(**{**rule, "match": Match(**rule["match"]), "names": frozenset(rule["names"])})
        for rule in raw.get("groups", ())
    )
    return PacingSettings(**{**raw, "rates": rates, "groups": groups})


def _pool(raw: Mapping[str, Any]) -> PoolSettings:
    from cloudretry.core.pool_settings import Cooldown, Member, PoolSettings, Probe, Slow  # a program without pools needs none

    inner = {
        "members": tuple(Member(**member) for member in raw["members"]),
        "bypass": tuple(raw["bypass"]),
        "cooldown": Cooldown(**raw["cooldown"]),
        "probe": Probe(**raw["probe"]),
        "slow": Slow(**raw["slow"]),
    }
    return PoolSettings(**{**raw, **inner})


def _changes(raw: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(raw.keys() - _RETRY_FIELDS)
    if unknown:
        raise ConfigurationError(f"compiled settings have unknown names: {', '.join(unknown)}")
    changes = dict(raw)
    if "response_codes" in changes:
        changes["response_codes"] = frozenset(changes["response_codes"])
    if "response_header" in changes:
        changes["response_header"] = tuple(
            HeaderSource(item["name"], Unit(item["unit"])) for item in changes["response_header"]
        )
    return changes
