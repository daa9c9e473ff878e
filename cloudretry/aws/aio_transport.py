"""Stands before an aiobotocore client's HTTP session, be it aiohttp's or httpx's, as Transport does before botocore's."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

from cloudretry.aws.causes import causes_of
from cloudretry.aws.egress import Exhausted, in_place_of_an_answer, no_page
from cloudretry.aws.transport import BOTOCORES_OWN, Transport, has_own_proxies, watch
from cloudretry.runtime import reach
from cloudretry.runtime.current import CURRENT
from cloudretry.runtime.place import turn_of
from cloudretry.runtime.reach import REACH, host_of

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.client import BaseClient

    from cloudretry.core.machine import RetryMachine
    from cloudretry.egress.passage import Passage
    from cloudretry.egress.passages import Passages
    from cloudretry.runtime.current import Current

__all__ = ["AioTransport", "put_before"]

_NO_SIGN_OF_THE_HOST: Final = frozenset({"PoolTimeout", "ReadTimeout", "WriteTimeout"})
"""httpx's, which aiobotocore takes for connections that can't be made: all of a client's may be busy."""


class AioTransport(Transport):
    """The same for sessions that are awaited. Lives in an event loop, as the session does."""

    @cached_property
    def _passages(self) -> Passages[Any]:
        from cloudretry.aws.aio_egress import get, way_of, why_unfit
        from cloudretry.egress.passages import Passages

        self._why_not = self._why_not or why_unfit(self._inner)
        return Passages(lambda member, settings: way_of(self._inner, member, settings), get)

    async def send(self, request: AWSPreparedRequest) -> Any:
        """Send with the call's turn, through the pool if there is one. Raises as Transport does."""
        current = CURRENT.get()
        if current is None:
            return await self._send_directly(request)
        try:
            return await self._send(current, request)
        except Exception:
            raise
        except BaseException:
            current.machine.interrupt()
            raise

    async def _send(self, current: Current, request: AWSPreparedRequest) -> Any:
        machine = current.machine
        with turn_of(machine):
            passage = self._passage(current, request.url)
            if passage is None:
                return await self._send_directly(request)
            return await _send_through(passage, machine, request)

    async def _send_directly(self, request: AWSPreparedRequest) -> Any:
        self._refuse_unreachable(request.url)
        try:
            response = await self._inner.send(request)
        except (ConnectTimeoutError, EndpointConnectionError) as error:
            self._missed(error, request.url)
            raise
        REACH.reached(host_of(request.url))
        watch(request, response)
        return response

    def _missed(self, error: Exception, url: str) -> None:
        if all(type(cause).__name__ not in _NO_SIGN_OF_THE_HOST for cause in causes_of(error)):
            super()._missed(error, url)

    async def close(self) -> None:
        """Close all connections."""
        try:
            await self._inner.close()
        finally:
            await self._close_ways()

    async def __aenter__(self) -> AioTransport:  # noqa: PYI034 - Self is not in typing before 3.11
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *why: object) -> None:
        try:
            await self._inner.__aexit__(*why)
        finally:
            await self._close_ways()

    async def _close_ways(self) -> None:
        if "_passages" not in vars(self):
            return
        from cloudretry.egress.aiohttp_way import close_all

        for ways in self._passages.ways():
            await close_all(ways)


class AioExhausted(Exhausted):
    """Exhausted, with a body to be awaited."""

    @property
    def content(self) -> Any:
        """Empty."""
        return _nothing()


async def _nothing() -> bytes:
    return b""


async def _send_through(passage: Passage[Any], machine: RetryMachine, request: AWSPreparedRequest) -> Any:
    """As `send_through`."""
    destination = host_of(request.url).lower()
    try:
        response = await passage.send_async(machine, destination, lambda way, record: way.send(request, record))
    except passage.nothing as nothing:
        return in_place_of_an_answer(nothing, request.url, AioExhausted)
    return no_page(machine, response)


def put_before(client: BaseClient) -> None:
    """Put a transport before a client's session, once, and shorten the time that one connection may take.

    It is of the session's class, too: aiobotocore chooses its paginators and locks by that.
    """
    endpoint = client._endpoint  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
    session = endpoint.http_session
    if not isinstance(session, Transport):
        patience = _shorten_connect_timeout(client, session)
        kind = type("AioTransport", (AioTransport, type(session)), {"__module__": __name__})
        endpoint.http_session = kind(session, patience, own_proxies=has_own_proxies(client))


def _shorten_connect_timeout(client: BaseClient, session: Any) -> float:
    """Seconds that a connection of this client may take from now on."""
    config: Any = client.meta.config
    own = getattr(session, "_timeout", None)
    if own is None or config.connect_timeout != BOTOCORES_OWN:
        return float(config.connect_timeout or 0)
    session._timeout = shorter = copy.copy(own)  # noqa: SLF001 - there is no public way
    name = "sock_connect" if hasattr(own, "sock_connect") else "connect"  # as aiohttp and httpx call it
    object.__setattr__(shorter, name, reach.CONNECT_TIMEOUT)  # aiohttp's is frozen
    opened = [*(getattr(session, "_sessions", None) or {}).values(), getattr(session, "_session", None)]
    for each in filter(None, opened):  # by calls before
        each._timeout = shorter  # noqa: SLF001 - as above
    return reach.CONNECT_TIMEOUT
