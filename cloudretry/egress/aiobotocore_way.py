"""A way out for aiobotocore's clients on aiohttp: a twin of the client's HTTP session that takes a member's route.

The twin is a copy of the session, with its timeouts and certificates, whatever its class. No SDK is imported here.
"""

from __future__ import annotations

import copy
import ssl
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp

from cloudretry.egress.aiohttp_connections import WatchedBody
from cloudretry.egress.aiohttp_way import LoopWay, proxy_options, usable_route
from cloudretry.egress.tls import shared_context, trust

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.egress.record import Record
    from cloudretry.egress.route import Route

__all__ = ["AiobotocoreWay", "can_serve"]

_NEEDED = ("_get_session", "_get_ssl_context", "_proxy_config", "_verify", "_cert_file", "_key_file")


def can_serve(session: Any) -> bool:
    """Whether a client's HTTP session is one that AiobotocoreWay can be made from; the one on httpx is not."""
    timeout = getattr(session, "_timeout", None)
    return isinstance(timeout, aiohttp.ClientTimeout) and all(hasattr(session, name) for name in _NEEDED)


class AiobotocoreWay(LoopWay):
    """Lives in the event loop in which it was made.

    Args:
        session: the client's own; it stays what it is.
        member: of the pool. Raises ConfigurationError where it can't be used.
        trusted: the certificates that the session trusts, a file or a folder; None: it does not look at any.
    """

    def __init__(self, session: Any, member: Member, settings: PoolSettings, *, trusted: str | None) -> None:
        route = usable_route(member)
        context = _context(session, trusted, settings.ca_bundle)
        super().__init__(route, settings, ssl=context, timeout=session._timeout, skip_auto_headers={"CONTENT-TYPE"})  # noqa: SLF001 - aiobotocore offers no public way
        self._twin = self._made_like(session, route)

    def _made_like(self, session: Any, route: Route) -> Any:
        twin, proxy = copy.copy(session), proxy_options(route)
        twin._proxy_config = SimpleNamespace(  # noqa: SLF001 - as above
            proxy_url_for=lambda _: proxy.get("proxy"), proxy_headers_for=lambda _: dict(proxy.get("proxy_headers", {}))
        )
        twin._get_session = self._given  # noqa: SLF001 - as above
        return twin

    async def _given(self, _: object) -> aiohttp.ClientSession:
        return self.session

    async def send(self, request: Any, record: Record) -> Any:
        """Send an AWSPreparedRequest; returns and raises what the client's own session would."""
        with self.sending(record):
            response = await self._twin.send(request)
        if request.stream_output:
            response.raw.content = WatchedBody(response.raw.content, record)
        return response


def _context(session: Any, trusted: str | None, ca_bundle: str | None) -> ssl.SSLContext:
    certificate = session._cert_file, session._key_file  # noqa: SLF001 - as above

    def build() -> ssl.SSLContext:
        context: ssl.SSLContext = session._get_ssl_context()  # noqa: SLF001 - as above
        context.check_hostname = trusted is not None
        if trusted is None:
            context.verify_mode = ssl.CERT_NONE
        else:
            for place in filter(None, (trusted, ca_bundle)):
                trust(context, place)
        if certificate[0] is not None:
            context.load_cert_chain(*certificate)
        return context

    return shared_context(("aiobotocore", type(session), trusted, certificate, ca_bundle), build, trusted, ca_bundle)
