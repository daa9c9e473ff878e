"""What this process knows of hosts; one for all clients, because a blocked region is blocked for each of them.

Also what both clouds' edges judge alike: which failures say that a host can't be reached at all.
"""

from __future__ import annotations

import errno
import ipaddress
import math
import socket
from typing import TYPE_CHECKING, Final, TypeVar

from cloudretry.core.reach import Reachability
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CONNECT_TIMEOUT", "REACH", "host_of", "is_held_unreachable", "is_unreachable", "marked", "missed", "patience_shown"]

E = TypeVar("E", bound=BaseException)

REACH: Final = Reachability()

CONNECT_TIMEOUT: Final = 5.0
"""Seconds for one connection; the SDKs' own minutes make a blocked region cost as much. Any other that is set is kept."""

_UNREACHABLE: Final = "_cloudretry_unreachable"
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
_NO_SUCH_NAME_IN_ARES: Final = frozenset({1, 4})  # no data, not found: the resolver that aiohttp uses where aiodns is installed
_NO_WAY: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})


def host_of(url: str) -> str:
    """Host and port of a URL, without the user and password that may stand before them."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def is_held_unreachable(host: str, patience: float) -> bool:
    """Whether a call that would wait `patience` seconds for a connection should not even try."""
    return REACH.is_doubted(host) and REACH.is_unreachable(host, current_clock().monotonic(), patience)


def missed(error: E, host: str, patience: float) -> E:
    """Note a connection that was waited for in vain for `patience` seconds, and mark its error where that says enough."""
    return marked(error) if REACH.missed(host, current_clock().monotonic(), patience) else error


def marked(error: E) -> E:
    """`is_unreachable` knows it again."""
    vars(error)[_UNREACHABLE] = True
    return error


def is_unreachable(error: BaseException) -> bool:
    """Whether an error says that a host is held to be unreachable, so that trying again soon is of no use."""
    return _UNREACHABLE in vars(error)


def patience_shown(host: str, causes: Iterable[BaseException], patience: float, *, timed_out: bool) -> float | None:
    """How long we have waited in vain for a host, by an error with these causes; None where that says little.

    A refused connection costs nothing and may be a server that is just starting; so may anything on an address that somebody
    wrote down. Less than our own CONNECT_TIMEOUT may be one lost packet.
    """
    if _is_local(host):
        return None
    known = list(causes)
    if any(_is_of_names(cause) for cause in known):
        return math.inf if any(_has_no_name(cause) for cause in known) else None
    if timed_out:
        return patience if patience >= CONNECT_TIMEOUT else None
    return math.inf if any(isinstance(cause, OSError) and cause.errno in _NO_WAY for cause in known) else None


def _is_of_names(cause: BaseException) -> bool:
    return isinstance(cause, socket.gaierror) or type(cause).__name__ == "DNSError"


def _has_no_name(cause: BaseException) -> bool:
    if isinstance(cause, socket.gaierror):
        return cause.errno in _NO_SUCH_NAME
    return type(cause).__name__ == "DNSError" and cause.args[:1] != () and cause.args[0] in _NO_SUCH_NAME_IN_ARES


def _is_local(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name == "localhost" or "." not in name
    return True
