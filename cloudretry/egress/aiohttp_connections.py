"""Connections of aiohttp that note where a try is, and that take a member's route.

They are subclasses of aiohttp's own and raise what those raise. A try is one task, so the record is found through the context.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any, Final

import aiohappyeyeballs
import aiohttp
from aiohttp import client_exceptions, client_reqrep
from multidict import CIMultiDict, CIMultiDictProxy

from cloudretry.core.outcome import Phase
from cloudretry.core.tries import Hop
from cloudretry.egress.ends import tell_of_body
from cloudretry.egress.record import CURRENT, Record
from cloudretry.egress.socks import Dialogue, SocksError, handshake

if TYPE_CHECKING:
    from cloudretry.core.proxy_url import ProxyUrl
    from cloudretry.egress.route import Route

__all__ = ["RecordingConnector", "RecordingRequest", "RecordingResponse", "WatchedBody"]

_SECRET: Final = frozenset({"proxy-authorization", "authorization"})


class RecordingConnector(aiohttp.TCPConnector):
    """To be made inside the running loop.

    Args:
        patience: seconds that all of making one connection may take, its proxy's part included.
    """

    def __init__(self, route: Route, patience: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._route = route
        self._patience = patience

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        """As aiohttp does; the record is told whether it is a kept connection."""
        record = CURRENT.get() or Record()
        record.reused = True
        record.forwarded = self._route.http is not None and not req.is_ssl()
        if record.forwarded:
            req.headers.update(self._route.proxy_headers)  # which an older aiohttp says to a new connection alone
        connection = await super().connect(req, traces, timeout)
        record.at(Phase.SEND, Hop.MEMBER if record.forwarded else Hop.DESTINATION)
        return connection

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        record = CURRENT.get() or Record()
        record.reused, record.error = False, None
        record.at(Phase.CONNECT, self._route.first_hop)
        try:
            return await self._patiently(super()._create_connection(req, traces, timeout), req)
        except client_exceptions.ClientHttpProxyError as error:
            _hide_login(error)
            record.status = error.status
            record.challenge = None if error.headers is None else error.headers.get("Proxy-Authenticate")
            raise
        except BaseException as error:
            record.error = record.error or error
            raise

    async def _patiently(self, connecting: Any, req: Any) -> Any:
        try:
            return await asyncio.wait_for(connecting, self._patience)
        except client_exceptions.ServerTimeoutError:
            raise
        except asyncio.TimeoutError as error:
            raise client_exceptions.ConnectionTimeoutError(f"Connection timeout to host {req.url}") from error

    async def _resolve_host(self, host: str, port: int, traces: Any = None) -> Any:
        record = CURRENT.get() or Record()
        if self._route.address is not None:
            host, port = self._route.address[0], self._route.address[1] or port
        if self._route.socks is not None:
            return await self._resolve_for_socks(self._route.socks, host, port, record)
        record.phase = Phase.DNS
        found = await super()._resolve_host(host, port, traces)
        record.phase = Phase.CONNECT
        return found

    async def _resolve_for_socks(self, proxy: ProxyUrl, host: str, port: int, record: Record) -> Any:
        if proxy.scheme == "socks5h":
            return [_address(host, port)]
        record.at(Phase.DNS, Hop.DESTINATION)
        return await super()._resolve_host(host, port)

    async def _create_direct_connection(self, req: Any, *args: Any, **kwargs: Any) -> Any:
        made = await super()._create_direct_connection(req, *args, **kwargs)
        record = CURRENT.get()
        if record is not None and self._route.http is not None:
            record.at(Phase.PROXY_HANDSHAKE, Hop.MEMBER)
        return made

    async def _wrap_create_connection(self, *args: Any, addr_infos: Any, **kwargs: Any) -> Any:
        record = CURRENT.get() or Record()
        factory = args[0]

        def connected() -> Any:
            record.phase = Phase.TLS  # what comes next where there is TLS
            return factory()

        if self._route.socks is not None:
            return await self._through_socks(self._route.socks, factory, record, addr_infos, **kwargs)
        record.phase = Phase.CONNECT  # again, where there is a second address
        return await super()._wrap_create_connection(connected, *args[1:], addr_infos=addr_infos, **kwargs)

    async def _through_socks(
        self,
        proxy: ProxyUrl,
        factory: Any,
        record: Record,
        addr_infos: Any,
        *,
        req: Any,
        timeout: Any,
        **kwargs: Any,
    ) -> Any:
        host, port = addr_infos[0][4][:2]
        kwargs.pop("client_error", None)
        try:
            connected = await self._dialled(proxy, record)
            try:
                record.phase = Phase.PROXY_HANDSHAKE
                await _shake_hands(self._loop, connected, handshake(host, port, proxy.user, proxy.password))
            except BaseException:
                connected.close()
                raise
        except OSError as error:
            record.reply = error.reply if isinstance(error, SocksError) else None
            raise client_exceptions.ClientProxyConnectionError(req.connection_key, error) from error
        record.at(Phase.TLS, Hop.DESTINATION)
        return await self._wrap_existing_connection(factory, sock=connected, req=req, timeout=timeout, **kwargs)

    async def _dialled(self, proxy: ProxyUrl, record: Record) -> socket.socket:
        record.at(Phase.DNS, Hop.MEMBER)
        found = await super()._resolve_host(proxy.host, proxy.port)
        record.phase = Phase.CONNECT
        return await aiohappyeyeballs.start_connection(self._convert_hosts_to_addr_infos(found), loop=self._loop)

    async def _start_tls_connection(self, *args: Any, **kwargs: Any) -> Any:
        record = CURRENT.get() or Record()
        record.at(Phase.TLS, Hop.DESTINATION)
        try:
            return await super()._start_tls_connection(*args, **kwargs)
        except client_exceptions.ClientConnectionError as error:
            if isinstance(error.__cause__, TypeError):  # Python 3.11's TLS in TLS stumbles over whatever goes wrong in it
                record.error = error.__cause__.__context__
            raise


class RecordingRequest(client_reqrep.ClientRequest):
    """Notes when all of it is written."""

    async def send(self, conn: Any) -> Any:
        """As aiohttp does."""
        response = await super().send(conn)
        if not self.body:
            _written(conn)
        return response

    async def write_bytes(self, writer: Any, conn: Any, *args: Any, **kwargs: Any) -> None:
        """As aiohttp does."""
        await super().write_bytes(writer, conn, *args, **kwargs)
        _written(conn)


class RecordingResponse(client_reqrep.ClientResponse):
    """Notes when its head is there."""

    async def start(self, connection: Any) -> Any:
        """As aiohttp does."""
        try:
            response = await super().start(connection)
        except client_exceptions.ClientResponseError as error:
            _hide_login(error)
            raise
        record = CURRENT.get()
        if record is not None:
            record.phase = Phase.BODY
            record.first_byte = time.monotonic() - record.sent_at if record.sent_at else 0.0
        return response


class WatchedBody:
    """In the place of a response's `content`: the record is told if reading it fails once its try has ended."""

    def __init__(self, content: Any, record: Record) -> None:
        self._content = content
        self._record = record

    async def read(self, count: int = -1) -> bytes:
        """As aiohttp does; azure-core reads by this alone."""
        try:
            data: bytes = await self._content.read(count)
        except Exception as error:
            tell_of_body(self._record, error)
            raise
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)


def _hide_login(error: client_exceptions.ClientResponseError) -> None:
    """Aiohttp shows all headers in the error's repr."""
    headers = {name: value for name, value in error.request_info.headers.items() if name.lower() not in _SECRET}
    error.request_info = error.request_info._replace(headers=CIMultiDictProxy(CIMultiDict(headers)))
    error.args = (error.request_info, *error.args[1:])


def _written(connection: Any) -> None:
    record = CURRENT.get()
    protocol = connection.protocol
    if record is None or record.phase is not Phase.SEND or protocol is None or protocol.exception() is not None:
        return
    record.phase = Phase.WAIT
    record.sent_at = time.monotonic()


def _address(host: str, port: int) -> Any:
    """A name in the place of an address: it is the SOCKS proxy that resolves it."""
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return {"hostname": host, "host": host, "port": port, "family": socket.AF_INET, "proto": 0, "flags": flags}


async def _shake_hands(loop: asyncio.AbstractEventLoop, connected: socket.socket, dialogue: Dialogue) -> None:
    answer = None
    with contextlib.suppress(StopIteration):
        while True:
            step = dialogue.send(answer)
            answer = None
            if isinstance(step, bytes):
                await loop.sock_sendall(connected, step)
            else:
                answer = await _read_exactly(loop, connected, step)


async def _read_exactly(loop: asyncio.AbstractEventLoop, connected: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = await loop.sock_recv(connected, count - len(data))
        if not chunk:
            raise ConnectionResetError("the SOCKS proxy closed the connection")
        data += chunk
    return data
