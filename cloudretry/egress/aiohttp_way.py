"""Ways out for clients on aiohttp. For Azure's: a twin of the client's transport whose session takes a member's route.

The twin is a copy of the transport, with its timeouts and certificates, whatever its class. No SDK is imported here.
"""

from __future__ import annotations

import asyncio
import copy
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from cloudretry.egress.aiohttp_connections import RecordingConnector, RecordingRequest, RecordingResponse, WatchedBody
from cloudretry.egress.record import CURRENT
from cloudretry.egress.route import Route, route_of
from cloudretry.egress.tls import shared_context, trust
from cloudretry.errors import ConfigurationError

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.egress.record import Record
    from cloudretry.egress.ways import Ways

__all__ = ["AiohttpWay", "LoopWay", "can_serve", "close_all", "proxy_options", "usable_route"]

_CONNECTIONS: Final = 0
"""No bound of the connector's own: waiting for a free connection is pacing's work, and would look like a slow member."""

_closing: Final[set[asyncio.Task[None]]] = set()


def can_serve(transport: Any) -> bool:
    """Whether a transport is one that AiohttpWay can be made from."""
    session = getattr(transport, "session", None)
    known = any(cls.__name__ == "AioHttpTransport" for cls in type(transport).__mro__)
    return known and (session is None or isinstance(session, aiohttp.ClientSession))


class LoopWay:
    """Connections through a member, in the event loop in which they were made.

    Args:
        options: of aiohttp's session; `ssl` as a connector takes it.

    Attributes:
        session: aiohttp's, on the member's route.
    """

    def __init__(
        self, route: Route, settings: PoolSettings, *, ssl: Any, auto_decompress: bool = False, **options: Any
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._proxied = route.proxied
        self._in_flight = 0
        self.session = aiohttp.ClientSession(
            connector=RecordingConnector(route, settings.connect_timeout, limit=_CONNECTIONS, ssl=ssl),
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=RecordingRequest,
            response_class=RecordingResponse,
            auto_decompress=auto_decompress,
            **options,
        )
        self.session._retry_connection = False  # noqa: SLF001 - a silent second request; what may be sent again is decided above

    @contextmanager
    def sending(self, record: Record) -> Iterator[None]:
        """Around one try."""
        record.proxied = self._proxied
        token = CURRENT.set(record)
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            CURRENT.reset(token)

    def close(self) -> None:
        """Close all connections, in the background, where its loop still runs. Thread-safe."""
        if self._loop.is_closed():
            return
        if self._loop is asyncio._get_running_loop():  # noqa: SLF001 - the public one raises where there is none
            self._close_soon()
        else:
            self._loop.call_soon_threadsafe(self._close_soon)

    def _close_soon(self) -> None:
        task = self._loop.create_task(self.aclose())
        _closing.add(task)
        task.add_done_callback(_closing.discard)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.session.close()

    def is_usable(self) -> bool:
        """Whether this is the loop that it was made in."""
        return self._loop is asyncio.get_running_loop()

    def is_busy(self) -> bool:
        """Whether somebody is sending through it, or reading the body of an answer; closing would cut that off."""
        connector: Any = self.session.connector
        return self._in_flight > 0 or bool(connector is not None and connector._acquired)  # noqa: SLF001 - aiohttp keeps it to itself


class AiohttpWay(LoopWay):
    """For a transport of azure-core's.

    Args:
        transport: the client's own; it stays what it is.
        member: of the pool. Raises ConfigurationError where it can't be used.
    """

    def __init__(self, transport: Any, member: Member, settings: PoolSettings) -> None:
        route = usable_route(member)
        own, configuration = transport.session, copy.copy(transport.connection_config)
        super().__init__(
            route,
            settings,
            ssl=_context(configuration.verify, configuration.cert, settings.ca_bundle),
            headers=None if own is None else own.headers,
            auto_decompress=False if own is None else own.auto_decompress,
        )
        self._patience = settings.connect_timeout
        self._proxy = proxy_options(route)
        configuration.timeout = min(configuration.timeout or self._patience, self._patience)
        configuration.verify, configuration.cert = True, None  # so that azure-core does not build a context for every request
        self._twin = copy.copy(transport)
        self._twin.connection_config, self._twin.session = configuration, self.session
        self._twin._session_owner = self._twin._has_been_opened = True  # noqa: SLF001 - azure-core offers no public way

    async def send(self, request: Any, record: Record, **options: Any) -> Any:
        """Send a request of azure-core; takes the transport's own options, returns and raises what it would."""
        options.pop("proxies", None)
        options.update(self._proxy)
        if "connection_timeout" in options:
            options["connection_timeout"] = min(options["connection_timeout"] or self._patience, self._patience)
        with self.sending(record):
            response = await self._twin.send(request, **options)
        if options.get("stream"):
            inner = getattr(response, "_internal_response", None) or response.internal_response
            inner.content = WatchedBody(inner.content, record)
        return response


async def close_all(ways: Ways[Any]) -> None:
    """Close all ways of a client, and wait for it."""
    ways.close()
    here = asyncio.get_running_loop()
    await asyncio.gather(*(task for task in list(_closing) if task.get_loop() is here))


def usable_route(member: Member) -> Route:
    """The route of a member. Raises ConfigurationError where aiohttp can't take it."""
    route = route_of(member)
    if route.http is not None and route.http.scheme == "https" and sys.version_info < (3, 11):
        raise ConfigurationError(f"member {member.name}: https:// proxies for aiohttp need Python 3.11 or later (TLS in TLS)")
    return route


def proxy_options(route: Route) -> dict[str, Any]:
    """What a request of aiohttp's takes in order to go through an HTTP proxy."""
    if route.http is None:
        return {}
    login = route.proxy_headers.get("Proxy-Authorization")  # aiohttp gives it its right name, in a tunnel and without
    return {"proxy": route.proxy_url, "proxy_headers": {"Authorization": login} if login else {}}


def _context(verify: Any, certificate: Any, ca_bundle: str | None) -> Any:
    """What TCPConnector takes as `ssl`."""
    if verify is False and not certificate:
        return False

    def build() -> ssl.SSLContext:
        context = ssl.create_default_context()
        if verify is False:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for place in (verify if isinstance(verify, str) else None, ca_bundle):
            if place is not None:
                trust(context, place)
        if certificate:
            context.load_cert_chain(*([certificate] if isinstance(certificate, str) else certificate))
        return context

    bundle = verify if isinstance(verify, str) else None
    return shared_context(("aiohttp", str(verify), certificate, ca_bundle), build, bundle, ca_bundle)
