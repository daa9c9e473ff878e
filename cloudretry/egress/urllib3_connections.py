"""Connections of urllib3 that note where a try is, and that take a member's route. Serves boto3 and requests.

They are subclasses of the SDK's own connections and raise what those raise.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import time
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from cloudretry.core.outcome import Phase
from cloudretry.core.tries import Hop
from cloudretry.egress.ends import tell_of_body
from cloudretry.egress.record import CURRENT, Record
from cloudretry.egress.route import DIRECT, Route
from cloudretry.egress.socks import SocksError, handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudretry.core.proxy_url import ProxyUrl

__all__ = ["close_pools", "recorded_pools", "watch_body"]


_MOST_HEADERS: Final = 100
_LONGEST_HEADER: Final = 65_536


def recorded_pools(pools: dict[str, Any], route: Route) -> dict[str, Callable[..., Any]]:
    """What a PoolManager takes as `pool_classes_by_scheme`: the pools that it has, with connections of ours."""
    return {scheme: partial(_make_pool, _recorded_pool(pool), route) for scheme, pool in pools.items()}


def close_pools(manager: Any) -> None:
    """Close the connections that nobody uses, which urllib3 leaves to the garbage collector. Those in use follow after use."""
    with manager.pools.lock:
        pools = list(manager.pools._container.values())  # noqa: SLF001 - it can't be iterated over
    manager.clear()
    for pool in pools:
        pool.close()


def watch_body(response: Any, record: Record) -> None:
    """Let the record know if reading this body fails once its try has ended. Nothing, where urllib3 reads otherwise."""
    if hasattr(response, "_error_catcher"):
        kind: Any = type(response)
        response.__class__ = _watched(kind)
        response.record = record


@cache
def _watched(response_class: Any) -> Any:
    return type(response_class.__name__, (_Watched, response_class), {"__module__": response_class.__module__})


class _Watched:
    """Goes before a response class."""

    record: Record

    # What the response class has:
    closed: bool
    _fp: Any

    @contextlib.contextmanager
    def _error_catcher(self) -> Iterator[None]:
        """Whatever reads the body goes through here."""
        was_closed = self.closed
        try:
            with super()._error_catcher():  # type: ignore[misc]  # of the response class
                yield
        except Exception as error:
            tell_of_body(self.record, error)
            raise
        missing = getattr(self._fp, "length", None)
        if missing and self.closed and not was_closed:  # http.client ends such a body without a word
            tell_of_body(self.record, http.client.IncompleteRead(b"", missing))


def _make_pool(pool_class: Any, route: Route, *args: Any, **kwargs: Any) -> Any:
    pool = pool_class(*args, **kwargs)
    pool.route = route
    return pool


@cache
def _recorded_pool(pool_class: Any) -> Any:
    connection_class = type(f"Recorded{pool_class.ConnectionCls.__name__}", (_Recorded, pool_class.ConnectionCls), {})
    return type(f"Recorded{pool_class.__name__}", (_Routed, pool_class), {"ConnectionCls": connection_class})


class _Routed:
    """Goes before a pool class: its connections take the route of the pool."""

    route: Route = DIRECT

    def _new_conn(self) -> Any:
        connection = super()._new_conn()  # type: ignore[misc]  # of the pool class
        connection.route = self.route
        return connection


class _Recorded:
    """Goes before a connection class."""

    route: Route = DIRECT
    _kept_alive = False

    # What the connection class has:
    proxy: Any
    sock: Any
    timeout: Any
    host: str
    port: int
    _dns_host: str
    _tunnel_host: str | None
    response_class: Any

    def connect(self) -> None:
        record = CURRENT.get()
        if record is None:
            super().connect()  # type: ignore[misc]
            return
        record.at(Phase.CONNECT, self.route.first_hop)
        record.error = None
        try:
            super().connect()  # type: ignore[misc]
        except BaseException as error:
            record.error = record.error or error
            raise
        self._kept_alive = False
        record.at(Phase.SEND, Hop.MEMBER if record.forwarded else Hop.DESTINATION)

    def request(self, *args: Any, **kwargs: Any) -> None:
        record = CURRENT.get()
        if record is None:
            super().request(*args, **kwargs)  # type: ignore[misc]
            return
        record.forwarded = self.proxy is not None and self._tunnel_host is None
        if self.sock is not None:  # else connect() is called by the first write
            record.phase, record.hop = Phase.SEND, Hop.MEMBER if record.forwarded else Hop.DESTINATION
            record.reused = self._kept_alive
        try:
            super().request(*args, **kwargs)  # type: ignore[misc]
        except BaseException as error:
            record.error = record.error or error  # urllib3 may go on, to read an answer that came early
            raise
        record.phase = Phase.WAIT
        record.sent_at = time.monotonic()

    def getresponse(self) -> Any:
        record = CURRENT.get()
        if record is None:
            return super().getresponse()  # type: ignore[misc]
        try:
            response = super().getresponse()  # type: ignore[misc]
        except BaseException as error:
            record.error = record.error or error
            raise
        if record.sent_at:
            record.first_byte = time.monotonic() - record.sent_at
        record.phase = Phase.BODY
        record.error = None
        self._kept_alive = True
        return response

    def _new_conn(self) -> socket.socket:
        record = CURRENT.get() or Record()
        route = self.route
        if route.socks is not None:
            return self._through_socks(route.socks, record)
        if route.address is not None:
            return self._dial(route.address[0], route.address[1] or self.port, record)
        return self._dial(self._dns_host, self.port, record)

    def _dial(self, host: str, port: int, record: Record) -> socket.socket:
        """Connect to this, whatever the connection is named for: SNI, Host and certificate stay the destination's."""
        own = self._dns_host, self.port
        self._dns_host, self.port = host, port
        try:
            connected: socket.socket = super()._new_conn()  # type: ignore[misc]
        except NewConnectionError as error:
            record.error = error.__cause__ or error.__context__  # urllib3 1 links no cause
            if isinstance(record.error, socket.gaierror):
                record.phase = Phase.DNS
            raise
        finally:
            self._dns_host, self.port = own
        record.phase = Phase.TLS  # what comes next where there is TLS
        return connected

    def _through_socks(self, proxy: ProxyUrl, record: Record) -> socket.socket:
        target = self._dns_host if proxy.scheme == "socks5h" else self._resolved(record)
        record.at(Phase.CONNECT, Hop.MEMBER)
        connected = self._dial(proxy.host, proxy.port, record)
        record.phase = Phase.PROXY_HANDSHAKE
        try:
            _shake_hands(connected, handshake(target, self.port, proxy.user, proxy.password))
        except (OSError, SocksError) as error:
            connected.close()
            record.reply = error.reply if isinstance(error, SocksError) else None
            raise self._as_urllib3_says(error) from error
        except BaseException:
            connected.close()
            raise
        record.at(Phase.TLS, Hop.DESTINATION)
        return connected

    def _resolved(self, record: Record) -> str:
        record.at(Phase.DNS, Hop.DESTINATION)
        try:
            return str(socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)[0][4][0])
        except socket.gaierror as error:
            raise NewConnectionError(self, f"Failed to resolve {self.host!r} ({error})") from error  # type: ignore[arg-type]

    def _as_urllib3_says(self, error: Exception) -> Exception:
        if isinstance(error, TimeoutError):
            return ConnectTimeoutError(self, f"Connection to {self.host} timed out. (connect timeout={self.timeout})")
        return NewConnectionError(self, f"Failed to establish a new connection: {error}")  # type: ignore[arg-type]

    def _connect_tls_proxy(self, *args: Any, **kwargs: Any) -> Any:
        record = CURRENT.get()
        if record is not None:
            record.at(Phase.TLS, Hop.MEMBER)
        return super()._connect_tls_proxy(*args, **kwargs)  # type: ignore[misc]

    def _tunnel(self) -> None:
        record = CURRENT.get()
        if record is None:
            super()._tunnel()  # type: ignore[misc]
            return
        record.at(Phase.PROXY_HANDSHAKE, Hop.MEMBER)
        own, self.response_class = self.response_class, partial(_TunnelResponse, record)
        try:
            super()._tunnel()  # type: ignore[misc]
        finally:
            self.response_class = own
        record.at(Phase.TLS, Hop.DESTINATION)


class _TunnelResponse(http.client.HTTPResponse):
    """A proxy's answer to CONNECT; http.client keeps its status in a text alone."""

    def __init__(self, record: Record, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._record = record

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        if status != http.HTTPStatus.OK:
            self._record.status = status
            self._note_challenge()
        return version, status, reason

    def _note_challenge(self) -> None:
        """Read the headers; whoever reads on finds them again, and nothing behind them, since the connection is given up."""
        lines: list[bytes] = []
        with contextlib.suppress(OSError):  # what the proxy asks for is good to know, no more
            while len(lines) < _MOST_HEADERS and (not lines or lines[-1].strip()):
                lines.append(self.fp.readline(_LONGEST_HEADER))
        self.fp.close()
        self.fp = io.BytesIO(b"".join(lines))  # type: ignore[assignment]  # reads the same
        challenges = [line.partition(b":")[2] for line in lines if line.lower().startswith(b"proxy-authenticate:")]
        self._record.challenge = b", ".join(text.strip() for text in challenges).decode("latin-1") or None


def _shake_hands(connected: socket.socket, dialogue: Any) -> None:
    """Run a dialogue, which yields bytes to send or the number of bytes to be read."""
    answer = None
    with contextlib.suppress(StopIteration):
        while True:
            step = dialogue.send(answer)
            answer = None
            if isinstance(step, bytes):
                connected.sendall(step)
            else:
                answer = _read_exactly(connected, step)


def _read_exactly(connected: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connected.recv(count - len(data))
        if not chunk:
            raise ConnectionResetError("the SOCKS proxy closed the connection")
        data += chunk
    return data
