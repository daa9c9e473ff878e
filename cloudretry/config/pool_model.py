"""What a pool may look like, for pydantic. Whether its members fit together is judged when the layers are mixed."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from typing_extensions import TypedDict

from cloudretry.config.members import (
    CONNECT_TO_PATTERN,
    MEMBER_NAME_PATTERN,
    check_bypass,
    check_ca_bundle,
    check_connect_to,
    check_member,
    check_probe_url,
    check_proxy_url,
)
from cloudretry.config.model_types import STRICT, PositiveDuration, PositiveMilliseconds
from cloudretry.config.pool_vocabulary import MOST_TRIES

__all__ = ["Pool"]

_MOST_MEMBERS: Final = 20_000

Few = Annotated[int, Field(ge=1, le=100)]
Many = Annotated[int, Field(ge=1, le=1000)]


class Member(TypedDict, total=False):
    """One way out: exactly one of url, connect_to and direct."""

    __pydantic_config__ = STRICT  # type: ignore[misc]  # pydantic's own way to configure a TypedDict
    url: Annotated[str, AfterValidator(check_proxy_url)]
    connect_to: Annotated[str, Field(pattern=CONNECT_TO_PATTERN), AfterValidator(check_connect_to)]
    direct: Literal[True]
    name: Annotated[str, Field(pattern=MEMBER_NAME_PATTERN)]
    weight: Many
    backup: bool
    disabled: bool


class Cooldown(TypedDict, total=False):
    """How long a member is withheld."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    initial: PositiveDuration
    initial_ms: PositiveMilliseconds
    factor: Annotated[float, Field(ge=1, le=100)]
    max: PositiveDuration
    max_ms: PositiveMilliseconds
    jitter: Annotated[float, Field(ge=0, le=1)]
    failures: Few
    timeouts: Few
    destinations: Few
    auth_recheck: PositiveDuration
    auth_recheck_ms: PositiveMilliseconds


class Probe(TypedDict, total=False):
    """The trial that judges recovery."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    kind: Literal["request", "https_get"]
    url: Annotated[str, AfterValidator(check_probe_url)]
    concurrency: Few
    successes: Few
    lease: PositiveDuration
    lease_ms: PositiveMilliseconds
    timeout: PositiveDuration
    timeout_ms: PositiveMilliseconds


class Slow(TypedDict, total=False):
    """What counts as slow."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    first_byte: PositiveDuration
    first_byte_ms: PositiveMilliseconds
    per_mib: PositiveDuration
    per_mib_ms: PositiveMilliseconds
    threshold: Many


def _as_table(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


class Pool(TypedDict, total=False):
    """An egress pool."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    members: Annotated[
        list[Annotated[Member, BeforeValidator(_as_table), AfterValidator(check_member)]],
        Field(min_length=1, max_length=_MOST_MEMBERS),
    ]
    algorithm: Literal["least_connections", "round_robin", "least_response_time", "hash"]
    retries: Annotated[int, Field(ge=0, le=MOST_TRIES)]
    connect_timeout: PositiveDuration
    connect_timeout_ms: PositiveMilliseconds
    exhausted_answer: Literal["500", "connection_error"]
    when_unavailable: Literal["wait", "fail"]
    bypass: Annotated[list[Annotated[str, AfterValidator(check_bypass)]], Field(max_length=10_000)]
    ca_bundle: Annotated[str, AfterValidator(check_ca_bundle)]
    cooldown: Cooldown
    probe: Probe
    slow: Slow
