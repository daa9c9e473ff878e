"""A server that breaks in every way: behaviours that are put together, each of which gets a connection and what to do next."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import ssl

    from typing_extensions import Self

Behaviour: TypeAlias = Callable[[Any], None]

TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x28"  # fatal, handshake_failure
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx-amzn-RequestId: 1\r\n\r\n{}"


class FaultServer:
    """Runs a behaviour for each connection, in a thread of its own; closes what it leaves open. `connections` counts them."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = [threading.Thread(target=self._accept, daemon=True)]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.behaviour(connection)
        with contextlib.suppress(OSError):
            connection.close()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(1)


def refused_port() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port where SYNs go unanswered: its backlog is full, and nobody accepts."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port: int = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        try:
            yield port
        finally:
            for filler in fillers:
                filler.close()


# What ends a connection


def reset(connection: Any) -> None:
    plain = socket.socket(fileno=connection.detach()) if hasattr(connection, "context") else connection
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()


def close(connection: Any) -> None:
    """FIN, with all read that was to be read: else the kernel sends RST."""
    plain = socket.socket(fileno=connection.detach()) if hasattr(connection, "context") else connection
    with contextlib.suppress(OSError):
        plain.setblocking(False)
        while plain.recv(65_536):
            pass
    plain.close()


def half_close(connection: Any) -> None:
    """FIN, and go on reading."""
    socket.socket.shutdown(connection, socket.SHUT_WR)
    hang(connection)


def hang(connection: Any) -> None:
    """Say nothing until the other side, or the end of the test, closes."""
    with contextlib.suppress(OSError):
        while connection.recv(65_536):
            pass


# What comes before that


def after_read(then: Behaviour) -> Behaviour:
    """Read what comes first, then…"""

    def behave(connection: Any) -> None:
        connection.recv(65_536)
        then(connection)

    return behave


def after(seconds: float, then: Behaviour) -> Behaviour:
    def behave(connection: Any) -> None:
        time.sleep(seconds)
        then(connection)

    return behave


def saying(data: bytes, then: Behaviour) -> Behaviour:
    def behave(connection: Any) -> None:
        connection.sendall(data)
        then(connection)

    return behave


def after_request(then: Behaviour) -> Behaviour:
    """Read a whole request, then…"""

    def behave(connection: Any) -> None:
        if read_request(connection):
            then(connection)

    return behave


def answering(answer: bytes = OK) -> Behaviour:
    """Answer each request of a connection."""

    def behave(connection: Any) -> None:
        while read_request(connection):
            connection.sendall(answer)

    return behave


def in_tls(context: ssl.SSLContext, then: Behaviour) -> Behaviour:
    """TLS first; inside of it, `then`. TLS in TLS goes through a pair of sockets."""

    def behave(connection: Any) -> None:
        if hasattr(connection, "context"):
            connection = _plain_end(connection)
        with context.wrap_socket(connection, server_side=True) as inside:
            then(inside)

    return behave


def as_proxy(then: Behaviour, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> Behaviour:
    """Answer CONNECT, then be the destination. Without CONNECT: be a destination that is asked by absolute URL."""

    def behave(connection: Any) -> None:
        head = read_request(connection)
        if head.startswith(b"CONNECT"):
            connection.sendall(answer)
            then(connection)
        elif head:
            then(_Unread(connection, head))

    return behave


def as_socks(then: Behaviour, reply: int = 0, login: tuple[str, str] | None = None) -> Behaviour:
    """Be a SOCKS 5 proxy that gives this reply, then the destination."""

    def behave(connection: Any) -> None:
        methods = _exactly(connection, _exactly(connection, 2)[1])
        if login is None:
            connection.sendall(b"\x05\x00")
        elif 2 not in methods:
            connection.sendall(b"\x05\xff")
            return
        else:
            connection.sendall(b"\x05\x02")
            user = _exactly(connection, _exactly(connection, 2)[1])
            password = _exactly(connection, _exactly(connection, 1)[0])
            right = (user.decode(), password.decode()) == login
            connection.sendall(b"\x01\x00" if right else b"\x01\x01")
            if not right:
                return
        kind = _exactly(connection, 4)[3]
        _exactly(connection, {1: 4, 4: 16}.get(kind) or _exactly(connection, 1)[0])
        _exactly(connection, 2)
        connection.sendall(bytes([5, reply, 0, 1, 127, 0, 0, 1, 0, 0]))
        if not reply:
            then(connection)

    return behave


def _exactly(connection: Any, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise OSError("closed")
        data += chunk
    return data


def read_request(connection: Any) -> bytes:
    """A request, its body with it; empty where there is none any more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte:
            return b""
        head += byte
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + _exactly(connection, int(line.partition(b":")[2]))
    return head


class _Unread:
    """A connection whose first bytes were read already."""

    def __init__(self, connection: Any, head: bytes) -> None:
        self._connection = connection
        self._head = head

    def recv(self, count: int) -> bytes:
        if self._head:
            data, self._head = self._head[:count], self._head[count:]
            return data
        return bytes(self._connection.recv(count))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def _plain_end(outer: Any) -> socket.socket:
    """A plain socket whose bytes come from, and go to, `outer`."""
    here, there = socket.socketpair()

    def pump(source: Any, target: Any) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := source.recv(65_536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        if source is there:
            there.close()

    for pair in ((outer, there), (there, outer)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
    return here
