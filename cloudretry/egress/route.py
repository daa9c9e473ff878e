"""Where the connections of a pool's member go: its URL or address taken apart, once. Holds secrets: never shown."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cloudretry.core.proxy_url import ProxyUrl, parse_proxy_url
from cloudretry.core.tries import Hop
from cloudretry.errors import ConfigurationError
from cloudretry.references import resolve_url

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member

__all__ = ["DIRECT", "Route", "route_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How to get out. At most one of its fields is set; none of them: straight to the destination.

    Args:
        http: a proxy that speaks HTTP, itself in TLS or not.
        socks: a proxy that speaks SOCKS5.
        address: (host, port) to connect to in the place of the destination's; no port: the destination's.
    """

    http: ProxyUrl | None = field(default=None, repr=False)
    socks: ProxyUrl | None = field(default=None, repr=False)
    address: tuple[str, int | None] | None = None

    @property
    def first_hop(self) -> Hop:
        """Whose door the connection knocks at first."""
        return Hop.DESTINATION if self == DIRECT else Hop.MEMBER

    @property
    def proxied(self) -> bool:
        """Whether somebody in between could answer in the destination's place."""
        return self.http is not None or self.socks is not None

    @property
    def proxy_url(self) -> str | None:
        """Of the HTTP proxy, without credentials, so that no message of an SDK can show them."""
        if self.http is None:
            return None
        host = f"[{self.http.host}]" if ":" in self.http.host else self.http.host
        return f"{self.http.scheme}://{host}:{self.http.port}"

    @property
    def proxy_headers(self) -> dict[str, str]:
        """What only the HTTP proxy gets to see."""
        if self.http is None or self.http.user is None:
            return {}
        login = f"{self.http.user}:{self.http.password or ''}"
        return {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}


DIRECT: Final = Route()


def route_of(member: Member) -> Route:
    """The route of a member; its references are resolved. Raises ConfigurationError, which never shows the URL."""
    if member.url is not None:
        url = parse_proxy_url(resolve_url(member.url))
        return Route(socks=url) if url.scheme.startswith("socks") else Route(http=url)
    if member.connect_to is not None:
        return Route(address=_address(member.connect_to))
    return DIRECT


def _address(text: str) -> tuple[str, int | None]:
    """`host`, `host:port`, `[v6]` or `[v6]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    if not host or (port and not port.isdecimal()):
        raise ConfigurationError(f"connect_to = {text!r}: not an address and a port")
    return host.strip("[]"), int(port) if port else None
