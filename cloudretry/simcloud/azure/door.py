"""One port of 127.0.0.1 for all: TLS, plain HTTP, and an HTTPS proxy whose tunnels end here, as if this were Azure's hosts.

Nothing is forwarded: a tunnel to any other host is refused. The certificates come from an authority that is made anew for
every server, whose key never leaves the process's memory.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final

import trustme

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

__all__ = ["HOSTS", "Door", "make_authority"]

HOSTS: Final = (
    "management.azure.com",
    "login.microsoftonline.com",
    "login.microsoft.com",
    "login.windows.net",
    "sts.windows.net",
)
"""Those that a tunnel may lead to."""

_TARGETS: Final = [[f"{host}:443".encode()] for host in HOSTS]
_HELLO: Final = 0x16  # the first byte of TLS
_LONGEST_HEAD: Final = 65_536
_REFUSED: Final = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_OPENED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


def make_authority() -> tuple[str, ssl.SSLContext]:
    """A new authority's certificate, as PEM, and a context of a server that it vouches for."""
    authority = trustme.CA(organization_name="Simulated Azure of cloudretry", key_type=trustme.KeyType.ECDSA)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost", *HOSTS, key_type=trustme.KeyType.ECDSA).configure_cert(context)
    context.set_alpn_protocols(["http/1.1"])
    return authority.cert_pem.bytes().decode(), context


class Door:
    """Lets connections in, and gives each the protocol of the factory."""

    def __init__(self, factory: Callable[[], asyncio.Protocol], context: ssl.SSLContext) -> None:
        self._factory = factory
        self._context = context
        self._welcoming: set[asyncio.Task[None]] = set()

    async def open(self, listener: socket.socket) -> None:
        """Accept at this socket for ever."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            connection, _ = await loop.sock_accept(listener)
            task = loop.create_task(self._welcome(connection))
            self._welcoming.add(task)
            task.add_done_callback(self._welcoming.discard)

    async def _welcome(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._let_in(connection)
        except OSError:  # of TLS too: a caller who does not trust us, or is gone
            connection.close()

    async def _let_in(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        first = await _peek(connection)
        while first == b"C":  # of CONNECT: no other method begins so
            if not await _open_tunnel(connection):
                connection.close()
                return
            first = await _peek(connection)
        if not first:
            connection.close()
            return
        context = self._context if first[0] == _HELLO else None
        await loop.connect_accepted_socket(self._factory, connection, ssl=context)


async def _open_tunnel(connection: socket.socket) -> bool:
    loop = asyncio.get_running_loop()
    head = b""
    while not head.endswith(b"\r\n\r\n"):  # the client says no more until it is answered
        more = await loop.sock_recv(connection, 4096)
        head += more
        if not more or len(head) > _LONGEST_HEAD:
            return False
    known = head.split()[1:2] in _TARGETS
    await loop.sock_sendall(connection, _OPENED if known else _REFUSED)
    return known


async def _peek(connection: socket.socket) -> bytes:
    """The first byte, left where it is; empty when the other side is gone."""
    import socket

    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
    return connection.recv(1, socket.MSG_PEEK)
