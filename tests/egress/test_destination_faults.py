"""What the destination does wrong, through every kind of member and every transport: the phase, at whose door, and why."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from cloudretry.core.outcome import Phase
from cloudretry.core.pool_settings import Member
from cloudretry.core.tries import Hop, Reason
from tests.egress import faults
from tests.egress.conftest import HOST, Ask

if TYPE_CHECKING:
    import ssl

pytestmark = [
    pytest.mark.wire,
    # ssl forgets to close a socket that is reset before its handshake; a loop may end before asyncio has closed its own
    pytest.mark.filterwarnings("ignore:unclosed <(ssl|socket):ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Sending a large body"),
]

PATIENT = 3.0
LARGE = b"x" * 12_000_000
ESTABLISHING = {Phase.CONNECT, Phase.TLS}
SENT = {Phase.SEND, Phase.WAIT}

KINDS: dict[str, dict[str, Any]] = {
    "direct": {"direct": True},
    "connect_to": {"connect_to": "127.0.0.1:{port}"},
    "http": {"url": "http://user:p%40ss@127.0.0.1:{port}"},
    "https": {"url": "https://127.0.0.1:{port}"},
    "socks5": {"url": "socks5://127.0.0.1:{port}"},
    "socks5h": {"url": "socks5h://user:secret@127.0.0.1:{port}"},
}


@dataclass(frozen=True)
class Row:
    """`behave(tls, other)` makes the destination; `other` is TLS that nobody should trust."""

    behave: Callable[[Any], faults.Behaviour]
    phases: set[Phase]
    reason: Reason | None
    method: str = "GET"
    body: bytes | None = None
    patience: float = 5.0
    random: bool = False  # the class of the SDK's exception is, from run to run


def chunked(data: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data


HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"

ROWS = {
    "rst after accept": Row(lambda _: faults.reset, ESTABLISHING, Reason.RESET, "POST", b"{}", random=True),
    "fin after accept": Row(lambda _: faults.close, ESTABLISHING, Reason.RESET, "POST", b"{}", random=True),
    "rst after client hello": Row(lambda _: faults.after_read(faults.reset), {Phase.TLS}, Reason.RESET, "POST", b"{}"),
    "fin after client hello": Row(lambda _: faults.after_read(faults.close), {Phase.TLS}, Reason.RESET, "POST", b"{}"),
    "tls alert": Row(
        lambda _: faults.after_read(faults.saying(faults.TLS_ALERT, faults.close)), {Phase.TLS}, Reason.PROTOCOL_ERROR
    ),
    "plain answer to tls": Row(
        lambda _: faults.after_read(faults.saying(b"HTTP/1.1 400 Bad Request\r\n\r\n", faults.close)),
        {Phase.TLS},
        Reason.PROTOCOL_ERROR,
    ),
    "handshake hangs": Row(lambda _: faults.hang, {Phase.TLS}, Reason.TIMEOUT, patience=0.2),
    "rst after request": Row(
        lambda tls: faults.in_tls(tls, faults.after_request(faults.reset)), SENT, Reason.RESET, "POST", b"{}", random=True
    ),
    "fin after request": Row(
        lambda tls: faults.in_tls(tls, faults.after_request(faults.close)), SENT, Reason.RESET, random=True
    ),
    "half-close after request": Row(
        lambda tls: faults.in_tls(tls, faults.after_request(faults.half_close)), SENT, Reason.RESET, random=True
    ),
    "silence after request": Row(
        lambda tls: faults.in_tls(tls, faults.after_request(faults.hang)), {Phase.WAIT}, Reason.TIMEOUT, patience=0.2
    ),
    "rst in a large body": Row(
        lambda tls: faults.in_tls(tls, faults.after_read(faults.reset)), SENT, Reason.RESET, "POST", LARGE, random=True
    ),
    "body stalls": Row(
        lambda tls: faults.in_tls(tls, faults.after_request(faults.saying(HALF, faults.hang))),
        {Phase.BODY},
        Reason.TIMEOUT,
        patience=0.2,
    ),
    "junk status line": Row(
        lambda tls: faults.in_tls(tls, faults.after_request(faults.saying(b"HTTQ garbage\r\n\r\n", faults.close))),
        {Phase.WAIT},
        Reason.PROTOCOL_ERROR,
    ),
    "bad chunking": Row(
        lambda tls: faults.in_tls(tls, faults.after_request(faults.saying(chunked(b"zz\r\nabc"), faults.hang))),
        {Phase.WAIT, Phase.BODY},  # aiohttp reads ahead
        Reason.PROTOCOL_ERROR,
    ),
}


def member(kind: str, port: int) -> Member:
    """The member of that kind whose proxy or address is at this port."""
    settings: dict[str, Any] = {key: place if place is True else place.format(port=port) for key, place in KINDS[kind].items()}
    return Member(name=kind, **settings)


def behind(kind: str, destination: faults.Behaviour, tls: ssl.SSLContext) -> faults.Behaviour:
    """What a member of this kind is, before it passes everything on to the destination."""
    if kind == "http":
        return faults.as_proxy(destination)
    if kind == "https":
        return faults.in_tls(tls, faults.as_proxy(destination))
    if kind == "socks5":
        return faults.as_socks(destination)
    if kind == "socks5h":
        return faults.as_socks(destination, login=("user", "secret"))
    return destination


def url(kind: str, port: int, scheme: str = "https") -> str:
    host = "localhost" if kind in {"direct", "socks5"} else HOST
    return f"{scheme}://{host}:{port}/"


def proxy(kind: str, port: int) -> str | None:
    """How the SDK itself would be told."""
    return str(KINDS[kind]["url"]).format(port=port) if kind == "http" else None


@pytest.mark.parametrize("kind", ["direct", "connect_to", "http", "socks5", "socks5h"])
@pytest.mark.parametrize("name", ROWS)
def test_the_table(rig: Any, kind: str, name: str, tls: ssl.SSLContext) -> None:
    row = ROWS[name]
    try:
        for _ in range(3 if row.random else 1):
            check(rig, kind, row, tls)
    except AssertionError:
        if row.patience >= PATIENT:
            raise
        check(rig, kind, replace(row, patience=PATIENT), tls)  # a busy machine may take longer than that to get so far


@pytest.mark.long
@pytest.mark.parametrize("kind", ["direct", "connect_to", "http", "socks5h"])
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.random])
def test_the_table_often(rig: Any, kind: str, name: str, tls: ssl.SSLContext) -> None:
    for _ in range(40):
        check(rig, kind, ROWS[name], tls)


def check(rig: Any, kind: str, row: Row, tls: ssl.SSLContext) -> None:
    with faults.FaultServer(behind(kind, row.behave(tls), tls)) as server:
        ask = Ask(url(kind, server.port), row.method, row.body, row.patience)
        sent = rig.through(member(kind, server.port), ask)[0]
        assert isinstance(sent.answer, Exception)
        end = sent.end
        assert end.phase in row.phases, (end, sent.record.error, sent.answer)
        assert end.reason is row.reason, (end, sent.record.error, sent.answer)
        assert end.hop is expected_hop(kind, end.phase), end
        assert end.written == (end.phase in {Phase.SEND, Phase.WAIT, Phase.BODY})
        assert not end.reused
        if kind in {"direct", "http"} and not row.random:
            assert type(rig.plainly(ask, proxy(kind, server.port))) is type(sent.answer)


def expected_hop(kind: str, phase: Phase) -> Hop:
    if phase is Phase.CONNECT:
        return Hop.DESTINATION if kind == "direct" else Hop.MEMBER
    return Hop.MEMBER if kind == "connect_to" and phase is Phase.TLS else Hop.DESTINATION


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [["other.test"], ["untrusted"]])
def test_certificates(
    rig: Any, kind: str, names: list[str], tls: ssl.SSLContext, certified: Callable[..., ssl.SSLContext]
) -> None:
    bad = certified(HOST, "localhost", by=trustme.CA()) if names == ["untrusted"] else certified(*names)
    with faults.FaultServer(behind(kind, faults.in_tls(bad, faults.answering()), tls)) as server:
        ask = Ask(url(kind, server.port))
        sent = rig.through(member(kind, server.port), ask)[0]
        assert (sent.end.phase, sent.end.reason) == (Phase.TLS, Reason.CERTIFICATE), sent.answer
        assert sent.end.hop is (Hop.MEMBER if kind == "connect_to" else Hop.DESTINATION)
        if kind in {"direct", "http"}:
            assert type(rig.plainly(ask, proxy(kind, server.port))) is type(sent.answer)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_answer(rig: Any, kind: str, scheme: str, tls: ssl.SSLContext) -> None:
    destination = faults.answering() if scheme == "http" else faults.in_tls(tls, faults.answering())
    with faults.FaultServer(behind(kind, destination, tls)) as server:
        ask = Ask(url(kind, server.port, scheme), "POST", b"{}")
        first, second = rig.through(member(kind, server.port), ask, ask)
        for sent in (first, second):
            assert (sent.end.phase, sent.end.reason, sent.end.status) == (Phase.DONE, None, 200), sent.answer
            assert sent.end.first_byte is not None
        assert (first.end.reused, second.end.reused) == (False, True)
        assert server.connections == 1


@pytest.mark.parametrize("kind", ["direct", "connect_to", "http", "socks5h"])
def test_a_reset_after_accept_on_plain_http_is_ambiguous(rig: Any, kind: str, tls: ssl.SSLContext) -> None:
    with faults.FaultServer(behind(kind, faults.after_read(faults.reset), tls)) as server:
        sent = rig.through(member(kind, server.port), Ask(url(kind, server.port, "http"), "POST", b"{}"))[0]
        assert sent.end.phase in SENT
        assert (sent.end.reason, sent.end.written) == (Reason.RESET, True)
        assert sent.end.hop is (Hop.MEMBER if kind == "http" else Hop.DESTINATION)


@pytest.mark.parametrize("kind", ["direct", "http", "socks5h"])
def test_a_kept_connection_that_is_reset_on_use_may_have_been_seen(rig: Any, kind: str, tls: ssl.SSLContext) -> None:
    """The second request arrives, and the answer is a reset: GET too, and nothing is sent again in silence."""
    seen: list[bytes] = []

    def once(connection: Any) -> None:
        seen.append(faults.read_request(connection))
        connection.sendall(faults.OK)
        seen.append(faults.read_request(connection))
        faults.reset(connection)

    with faults.FaultServer(behind(kind, faults.in_tls(tls, once), tls)) as server:
        ask = Ask(url(kind, server.port))
        first, second = rig.through(member(kind, server.port), ask, ask)
        assert first.end.reason is None
        assert second.end.phase in SENT
        assert (second.end.reason, second.end.reused) == (Reason.RESET, True)
        assert len(seen) == 2


@pytest.mark.parametrize("kind", ["direct", "http", "socks5h"])
def test_a_close_that_is_seen_before_writing_costs_a_new_connection_and_no_more(
    rig: Any, kind: str, tls: ssl.SSLContext
) -> None:
    read, closed = threading.Event(), threading.Event()

    def once(connection: Any) -> None:
        faults.read_request(connection)
        connection.sendall(faults.OK)
        if not closed.is_set():
            read.wait(5)
            faults.reset(connection)
            closed.set()

    def wait() -> None:
        read.set()
        assert closed.wait(5)

    with faults.FaultServer(behind(kind, faults.in_tls(tls, once), tls)) as server:
        ask = Ask(url(kind, server.port), between=wait)
        first, second = rig.through(member(kind, server.port), ask, ask)
        assert (first.end.reason, second.end.reason) == (None, None), second.answer
        assert not second.end.reused
        assert server.connections == 2


@pytest.mark.parametrize("end", [faults.close, faults.reset])
def test_a_body_that_is_cut(rig: Any, end: faults.Behaviour, tls: ssl.SSLContext) -> None:
    """botocore lets some pass; the AWS transport compares the lengths and says so."""
    with faults.FaultServer(faults.in_tls(tls, faults.after_request(faults.saying(HALF, faults.after(0.05, end))))) as server:
        sent = rig.through(member("direct", server.port), Ask(url("direct", server.port)))[0]
        if isinstance(sent.answer, Exception):
            assert sent.end.reason is Reason.RESET
            assert sent.end.phase is Phase.BODY or (end is faults.reset and sent.end.written)  # a reset overtakes what was sent
        else:
            assert type(rig).__name__ == "_Botocore"
            assert sent.end.phase is Phase.DONE
