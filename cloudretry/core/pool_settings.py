"""The frozen settings of egress pools (SPEC C5). Standard library alone; all durations in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Algorithm", "Cooldown", "Member", "PoolSettings", "Probe", "Slow"]

Algorithm = Literal["least_connections", "round_robin", "least_response_time", "hash"]
ExhaustedAnswer = Literal["500", "connection_error"]
WhenUnavailable = Literal["wait", "fail"]
ProbeKind = Literal["request", "https_get"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One way out: exactly one of `url`, `connect_to` and `direct` is set.

    Args:
        name: unique in its pool; what is shown, never the URL with its credentials.
        url: of a proxy: http, https, socks5 or socks5h, with credentials where it needs them.
        connect_to: `address:port` to connect to in the place of the destination's own.
        direct: no proxy at all, whatever the environment says.
        weight: how much more of the work than a member of weight 1.
        backup: used only while no other member is available.
        disabled: taken out by an operator.
    """

    name: str
    url: str | None = field(default=None, repr=False)
    connect_to: str | None = None
    direct: bool = False
    weight: int = 1
    backup: bool = False
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """How long a member is withheld: `min(max, initial * factor ** (n - 1))` for the n-th time in a row, spread by ±jitter.

    Args:
        failures: consecutive failures that cool; `timeouts` where they are timeouts, which may be one lost packet.
        destinations: how many different ones must fail through a member, without a success between, to cool the member itself.
        auth_recheck: when rejected credentials may be tried again.
    """

    initial: float = 5.0
    factor: float = 2.0
    max: float = 300.0
    jitter: float = 0.2
    failures: int = 1
    timeouts: int = 3
    destinations: int = 3
    auth_recheck: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The trial that judges recovery.

    Args:
        kind: `request`: the first real request is the trial; `https_get`: a complete exchange with `url`, through the member.
        concurrency: most requests admitted and unfinished since a member left eligible.
        successes: how many trials in a row must succeed.
        lease: seconds after which a trial that nobody ended no longer blocks the next one.
        timeout: seconds that an https_get may take.
    """

    kind: ProbeKind = "request"
    url: str | None = None
    concurrency: int = 1
    successes: int = 1
    lease: float = 60.0
    timeout: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """What counts as slow, and how many slow answers in a row cool a member; None: it is not measured.

    Args:
        first_byte: seconds from the last byte written to the first byte of the answer.
        per_mib: seconds for each MiB of a body.
    """

    first_byte: float | None = None
    per_mib: float | None = None
    threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """One pool.

    Args:
        retries: R of SPEC C1: how many further members one call may try when establishing a connection fails.
        connect_timeout: seconds for one connection.
        bypass: patterns of destinations that skip the pool, as in NO_PROXY, besides those that always do.
        ca_bundle: a file with certificates to trust in addition, for proxies that inspect TLS.
    """

    name: str
    members: tuple[Member, ...]
    algorithm: Algorithm = "least_connections"
    retries: int = 3
    connect_timeout: float = 5.0
    exhausted_answer: ExhaustedAnswer = "500"
    when_unavailable: WhenUnavailable = "wait"
    bypass: tuple[str, ...] = ()
    ca_bundle: str | None = None
    cooldown: Cooldown = field(default_factory=Cooldown)
    probe: Probe = field(default_factory=Probe)
    slow: Slow = field(default_factory=Slow)
