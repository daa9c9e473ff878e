"""Which destinations skip the pool: those that a proxy must never see, NO_PROXY, and what the pool's `bypass` says."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

__all__ = ["Bypass"]

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_ALWAYS: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "127.0.0.0/8",
        "::1/128",
        "169.254.0.0/16",  # link-local: instance metadata (169.254.169.254), ECS and EKS credentials (169.254.170.2, .23)
        "fe80::/10",
        "fd00:ec2::254/128",  # the instance metadata of AWS
        "fd00:ec2::23/128",  # EKS credentials
        "168.63.129.16/32",  # Azure's own, in every virtual network
    )
)
_ALWAYS_NAMES: Final = frozenset({"localhost", "metadata.google.internal"})
_REMEMBERED: Final = 4096


class Bypass:
    """Thread-safe. Reads NO_PROXY when it is made.

    Args:
        patterns: as in NO_PROXY: a name matches itself and all below it, a leading dot or `*.` only those below; an address,
            a network such as `10.0.0.0/8`; `*` matches everything. A port (`host:8080`) narrows it down to that port.
        environ: whose NO_PROXY; None for this process's.
    """

    def __init__(self, patterns: Iterable[str] = (), environ: dict[str, str] | None = None) -> None:
        no_proxy = _no_proxy(environ)
        cleaned = [pattern.strip().lower().rstrip(".") for pattern in (*patterns, *no_proxy.split(","))]
        self._all = "*" in cleaned
        parsed = [(pattern, _network(pattern)) for pattern in cleaned if pattern]
        self._networks: tuple[_Network, ...] = (*_ALWAYS, *(network for _, network in parsed if network is not None))
        self._names = [_name_and_port(pattern) for pattern, network in parsed if network is None]
        self._known: dict[str, bool] = {}

    def covers(self, destination: str) -> bool:
        """Whether this destination skips the pool: a host, or a host and port, as they stand in a URL."""
        known = self._known.get(destination)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            parts = urlsplit(f"//{destination}")
            host = (parts.hostname or "").rstrip(".")
            known = self._known[destination] = self._all or self._matches(host, parts.port)
        return known

    def _matches(self, host: str, port: int | None) -> bool:
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return host in _ALWAYS_NAMES or host.endswith(".localhost") or self._is_named(host, port)
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._networks) or self._is_named(host, port)

    def _is_named(self, host: str, port: int | None) -> bool:
        for name, wanted_port in self._names:
            if wanted_port is not None and wanted_port != port:
                continue
            if host == name or host.endswith(name if name.startswith(".") else f".{name}"):
                return True
        return False


def _no_proxy(environ: dict[str, str] | None) -> str:
    if environ is None:
        return str(getproxies_environment().get("no", ""))
    return environ.get("no_proxy") or environ.get("NO_PROXY") or ""


def _network(pattern: str) -> _Network | None:
    try:
        return ipaddress.ip_network(pattern.strip("[]"), strict=False)
    except ValueError:
        return None


def _name_and_port(pattern: str) -> tuple[str, int | None]:
    name, colon, port = pattern.rpartition(":")
    if not colon or not port.isdecimal():
        name, port = pattern, ""
    return name.removeprefix("*").strip("[]"), int(port) if port else None
