"""What a member does wrong, for every kind and every transport: the phase, at whose door, why, and the SDK's own class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry.core.outcome import Phase
from cloudretry.core.pool_settings import Member
from cloudretry.core.tries import Hop, Reason
from cloudretry.egress.causes import causes_of
from tests.egress import faults
from tests.egress.conftest import HOST, Ask

if TYPE_CHECKING:
    import ssl

pytestmark = [  # as in test_destination_faults.py
    pytest.mark.wire,
    pytest.mark.filterwarnings("ignore:unclosed <(ssl|socket):ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
]

NEAR: dict[str, Callable[[str, int], dict[str, Any]]] = {  # kind → the member at that address
    "connect_to": lambda host, port: {"connect_to": f"{host}:{port}"},
    "http": lambda host, port: {"url": f"http://{host}:{port}"},
    "https": lambda host, port: {"url": f"https://{host}:{port}"},
    "socks5h": lambda host, port: {"url": f"socks5h://{host}:{port}"},
}


def at(kind: str, port: int, host: str = "127.0.0.1") -> Member:
    return Member(name=kind, **NEAR[kind](host, port))


@pytest.mark.parametrize("kind", NEAR)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_member_that_refuses(rig: Any, kind: str, scheme: str) -> None:
    port = faults.refused_port()
    ask = Ask(f"{scheme}://{HOST}/", "POST", b"{}")
    sent = rig.through(at(kind, port), ask)[0]
    assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.CONNECT, Hop.MEMBER, Reason.REFUSED)
    if kind == "http":
        assert type(rig.plainly(ask, f"http://127.0.0.1:{port}")) is type(sent.answer)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_destination_that_refuses_without_a_proxy(rig: Any, scheme: str) -> None:
    ask = Ask(f"{scheme}://127.0.0.1:{faults.refused_port()}/", "POST", b"{}")
    sent = rig.through(Member(name="direct", direct=True), ask)[0]
    assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.CONNECT, Hop.DESTINATION, Reason.REFUSED)
    assert type(rig.plainly(ask)) is type(sent.answer)


@pytest.mark.parametrize("kind", NEAR)
def test_a_member_whose_name_is_not_known(rig: Any, kind: str) -> None:
    ask = Ask(f"https://{HOST}/", "POST", b"{}")
    sent = rig.through(at(kind, 3128, "nowhere.invalid"), ask)[0]
    assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.DNS, Hop.MEMBER, Reason.UNRESOLVED), sent.answer
    if kind == "http":
        assert type(rig.plainly(ask, "http://nowhere.invalid:3128")) is type(sent.answer)


@pytest.mark.parametrize("member", [Member(name="direct", direct=True), Member(name="socks", url="socks5://127.0.0.1:1")])
def test_a_destination_whose_name_is_not_known(rig: Any, member: Member) -> None:
    ask = Ask("https://nowhere.invalid/", "POST", b"{}")
    sent = rig.through(member, ask)[0]
    assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.DNS, Hop.DESTINATION, Reason.UNRESOLVED), sent.answer
    if member.direct:
        assert type(rig.plainly(ask)) is type(sent.answer)


@pytest.mark.parametrize("kind", NEAR)
def test_a_member_that_does_not_answer(rig: Any, kind: str) -> None:
    with faults.black_hole() as port:
        ask = Ask(f"https://{HOST}/", "POST", b"{}", patience=0.2)
        sent = rig.through(at(kind, port), ask)[0]
        assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.CONNECT, Hop.MEMBER, Reason.TIMEOUT), sent.answer
        if kind == "http":
            assert type(rig.plainly(ask, f"http://127.0.0.1:{port}")) is type(sent.answer)


def test_a_destination_that_does_not_answer_without_a_proxy(rig: Any) -> None:
    with faults.black_hole() as port:
        ask = Ask(f"https://127.0.0.1:{port}/", patience=0.2)
        sent = rig.through(Member(name="direct", direct=True), ask)[0]
        assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.CONNECT, Hop.DESTINATION, Reason.TIMEOUT)
        assert type(rig.plainly(ask)) is type(sent.answer)


@pytest.mark.parametrize("kind", ["http", "https"])
@pytest.mark.parametrize(
    ("status", "hop", "reason"),
    [
        (400, Hop.MEMBER, Reason.PROTOCOL_ERROR),
        (401, Hop.MEMBER, Reason.AUTH_REJECTED),
        (403, Hop.DESTINATION, Reason.FORBIDDEN),
        (404, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (407, Hop.MEMBER, Reason.AUTH_REJECTED),
        (429, Hop.MEMBER, Reason.TUNNEL_REFUSED),
        (502, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (503, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (504, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
    ],
)
def test_a_proxy_that_opens_no_tunnel(rig: Any, kind: str, status: int, hop: Hop, reason: Reason, tls: ssl.SSLContext) -> None:
    says = f"HTTP/1.1 {status} No\r\nProxy-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n".encode()
    proxy = faults.as_proxy(faults.hang, says)
    with faults.FaultServer(faults.in_tls(tls, proxy) if kind == "https" else proxy) as server:
        ask = Ask(f"https://{HOST}/", "POST", b"{}")
        sent = rig.through(at(kind, server.port), ask)[0]
        assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.PROXY_HANDSHAKE, hop, reason), sent.answer
        assert sent.end.status == status
        assert not sent.end.written
        assert sent.record.challenge == "NTLM"
        if kind == "http":
            assert type(rig.plainly(ask, f"http://127.0.0.1:{server.port}")) is type(sent.answer)


BREAKING = {
    "rst after accept": (faults.reset, {Phase.CONNECT, Phase.PROXY_HANDSHAKE}, Reason.RESET),
    "rst on connect": (faults.after_read(faults.reset), {Phase.PROXY_HANDSHAKE}, Reason.RESET),
    "fin on connect": (faults.after_read(faults.close), {Phase.PROXY_HANDSHAKE}, Reason.RESET),
    "slow": (faults.hang, {Phase.PROXY_HANDSHAKE}, Reason.TIMEOUT),
    "junk": (
        faults.after_read(faults.saying(b"gibberish\r\n\r\n", faults.close)),
        {Phase.PROXY_HANDSHAKE},
        Reason.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("kind", ["http", "socks5h"])
@pytest.mark.parametrize("name", BREAKING)
def test_a_proxy_that_breaks_before_it_has_accepted_us(rig: Any, kind: str, name: str) -> None:
    behaviour, phases, reason = BREAKING[name]
    with faults.FaultServer(behaviour) as server:
        ask = Ask(f"https://{HOST}/", "POST", b"{}", patience=0.2 if name == "slow" else 5.0)
        for _ in range(3 if "rst" in name else 1):
            sent = rig.through(at(kind, server.port), ask)[0]
            assert sent.end.phase in phases, (sent.end, sent.answer)
            assert (sent.end.hop, sent.end.reason, sent.end.written) == (Hop.MEMBER, reason, False), sent.answer


@pytest.mark.parametrize(
    ("behaviour", "reason", "patience"),
    [
        (faults.after_read(faults.reset), Reason.RESET, 5.0),
        (faults.after_read(faults.close), Reason.RESET, 5.0),
        (faults.after_read(faults.saying(faults.TLS_ALERT, faults.close)), Reason.PROTOCOL_ERROR, 5.0),
        (faults.hang, Reason.TIMEOUT, 0.2),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_breaks_in_its_own_tls(
    rig: Any, behaviour: faults.Behaviour, reason: Reason, patience: float, scheme: str
) -> None:
    with faults.FaultServer(behaviour) as server:
        sent = rig.through(at("https", server.port), Ask(f"{scheme}://{HOST}/", "POST", b"{}", patience))[0]
        assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.TLS, Hop.MEMBER, reason), sent.answer


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_whose_certificate_is_not_for_it(rig: Any, scheme: str, certified: Callable[..., ssl.SSLContext]) -> None:
    with faults.FaultServer(faults.in_tls(certified("other.test"), faults.answering())) as server:
        sent = rig.through(at("https", server.port), Ask(f"{scheme}://{HOST}/", "POST", b"{}"))[0]
        assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.TLS, Hop.MEMBER, Reason.CERTIFICATE), sent.answer


@pytest.mark.parametrize(
    ("reply", "hop", "reason"),
    [
        (1, Hop.MEMBER, Reason.TUNNEL_REFUSED),
        (2, Hop.DESTINATION, Reason.FORBIDDEN),
        (3, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (4, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (5, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (6, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (7, Hop.MEMBER, Reason.PROTOCOL_ERROR),
        (8, Hop.MEMBER, Reason.PROTOCOL_ERROR),
    ],
)
def test_what_a_socks_proxy_replies(rig: Any, reply: int, hop: Hop, reason: Reason) -> None:
    with faults.FaultServer(faults.as_socks(faults.answering(), reply)) as server:
        sent = rig.through(at("socks5h", server.port), Ask(f"http://{HOST}/", "POST", b"{}"))[0]
        assert (sent.end.phase, sent.end.hop, sent.end.reason) == (Phase.PROXY_HANDSHAKE, hop, reason), sent.answer
        assert "SOCKS5" in "".join(map(str, causes_of(sent.answer)))


@pytest.mark.parametrize("login", ["", "user:wrong@"])
def test_a_socks_proxy_that_does_not_take_our_credentials(rig: Any, login: str) -> None:
    with faults.FaultServer(faults.as_socks(faults.answering(), login=("user", "right"))) as server:
        member = Member(name="socks", url=f"socks5h://{login}127.0.0.1:{server.port}")
        sent = rig.through(member, Ask(f"http://{HOST}/", "POST", b"{}"))[0]
        assert (sent.end.phase, sent.end.hop) == (Phase.PROXY_HANDSHAKE, Hop.MEMBER), sent.answer
        assert sent.end.reason is Reason.AUTH_REJECTED


def page(status: int, *headers: str, body: str = "<html>") -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status} Something", *headers, f"Content-Length: {len(body)}"])
    return f"{head}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("answer", "phase", "hop", "reason"),
    [
        (page(407, "Proxy-Authenticate: Basic"), Phase.PROXY_HANDSHAKE, Hop.MEMBER, Reason.AUTH_REJECTED),
        (page(403, "Content-Type: text/html"), Phase.WAIT, Hop.DESTINATION, Reason.FORBIDDEN),
        (page(403, "X-Squid-Error: ERR_ACCESS_DENIED 0"), Phase.WAIT, Hop.DESTINATION, Reason.FORBIDDEN),
        (page(401, "Content-Type: text/html"), Phase.PROXY_HANDSHAKE, Hop.MEMBER, Reason.AUTH_REJECTED),
        (page(401, "Content-Type: application/json"), Phase.DONE, Hop.DESTINATION, None),
        (page(500, "Content-Type: text/html"), Phase.WAIT, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (page(500, "Content-Type: text/plain"), Phase.DONE, Hop.DESTINATION, None),
        (page(502, "Content-Type: text/html"), Phase.WAIT, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (page(503), Phase.WAIT, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (page(504, "Content-Type: text/plain"), Phase.WAIT, Hop.DESTINATION, Reason.TUNNEL_REFUSED),
        (page(200, "Content-Type: text/html; charset=utf-8"), Phase.WAIT, Hop.MEMBER, Reason.PROTOCOL_ERROR),
        (page(503, "Content-Type: text/html", "x-amzn-RequestId: 1"), Phase.DONE, Hop.DESTINATION, None),
        (page(503, "Content-Type: text/html", "Server: awselb/2.0"), Phase.DONE, Hop.DESTINATION, None),
        (page(200, "Content-Type: text/html", "Server: Werkzeug/3.1"), Phase.DONE, Hop.DESTINATION, None),
        (page(503, "Content-Type: text/xml"), Phase.DONE, Hop.DESTINATION, None),
        (page(429, "Content-Type: application/json"), Phase.DONE, Hop.DESTINATION, None),
    ],
)
def test_a_proxys_own_answer_is_told_from_the_clouds(
    rig: Any, answer: bytes, phase: Phase, hop: Hop, reason: Reason | None
) -> None:
    with faults.FaultServer(faults.answering(answer)) as server:
        ask = Ask(f"http://{HOST}/", "POST", b"{}")
        sent = rig.through(at("http", server.port), ask)[0]
        assert (sent.end.phase, sent.end.hop, sent.end.reason) == (phase, hop, reason), sent.answer
        assert sent.end.status == sent.answer.status_code
        without = rig.through(Member(name="direct", direct=True), Ask(f"http://127.0.0.1:{server.port}/"))[0]
        assert (without.end.phase, without.end.reason) == (Phase.DONE, None)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (page(403, "Content-Type: text/html"), Reason.FORBIDDEN),  # by a proxy that inspects TLS
        (page(403, "Content-Type: text/html", "x-ms-request-id: 1"), None),
        (page(200, "Content-Type: text/html"), None),
        (page(503), None),
    ],
)
def test_in_a_tunnel_less_is_taken_for_the_proxys(rig: Any, answer: bytes, reason: Reason | None, tls: ssl.SSLContext) -> None:
    with faults.FaultServer(faults.as_proxy(faults.in_tls(tls, faults.answering(answer)))) as server:
        end = rig.through(at("http", server.port), Ask(f"https://{HOST}/", "POST", b"{}"))[0].end
        assert (end.reason, end.written) == (reason, True)


def test_credentials_reach_an_http_proxy_in_a_tunnel_and_without(rig: Any, tls: ssl.SSLContext) -> None:
    seen: list[bytes] = []

    def watching(then: faults.Behaviour) -> faults.Behaviour:
        def behave(connection: Any) -> None:
            head = faults.read_request(connection)
            seen.append(head)
            if head.startswith(b"CONNECT"):
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                then(connection)
            else:
                connection.sendall(faults.OK)

        return behave

    with faults.FaultServer(watching(faults.in_tls(tls, faults.answering()))) as server:
        member = Member(name="proxy", url=f"http://user:p%C3%A4ss%40@127.0.0.1:{server.port}")
        for scheme in ("http", "https"):
            sent = rig.through(member, Ask(f"{scheme}://{HOST}/"))[0]
            assert sent.end.reason is None, sent.answer
    for head in seen:
        lines = [line for line in head.split(b"\r\n") if line.lower().startswith(b"proxy-authorization")]
        assert lines == [b"Proxy-Authorization: Basic dXNlcjpww6Rzc0A="]


def test_no_secret_is_in_what_is_raised(rig: Any) -> None:
    says = b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"
    with faults.FaultServer(faults.as_proxy(faults.hang, says)) as server:
        for url in (f"http://user:secret@127.0.0.1:{server.port}", f"socks5h://user:secret@127.0.0.1:{server.port}"):
            sent = rig.through(Member(name="proxy", url=url), Ask(f"https://{HOST}/", patience=0.3))[0]
            chain = []
            error = sent.answer
            while error is not None:
                chain.append(repr(error) + str(error))
                error = error.__cause__ or error.__context__
            assert "secret" not in "".join(chain)
            assert "dXNlcjpzZWNyZXQ" not in "".join(chain)


def test_a_connection_elsewhere_is_to_the_same_host_for_all_that_matters(rig: Any, tls: ssl.SSLContext) -> None:
    """URL, Host header, SNI and the check of the certificate stay those of the destination."""
    names: list[str] = []
    requests: list[bytes] = []
    tls.sni_callback = lambda _, name, __: names.append(name)

    def behave(connection: Any) -> None:
        requests.append(faults.read_request(connection))
        connection.sendall(faults.OK)

    try:
        with faults.FaultServer(faults.in_tls(tls, behave)) as server:
            sent = rig.through(at("connect_to", server.port), Ask(f"https://{HOST}/path?x=1"))[0]
            assert sent.end.reason is None, sent.answer
    finally:
        tls.sni_callback = None
    assert names == [HOST]
    assert requests[0].startswith(b"GET /path?x=1 ")
    assert f"Host: {HOST}\r\n".encode() in requests[0]


def test_variables_of_the_environment_mean_nothing_to_a_way(
    rig: Any, monkeypatch: pytest.MonkeyPatch, tls: ssl.SSLContext
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{faults.refused_port()}")
    with faults.FaultServer(faults.in_tls(tls, faults.answering())) as server:
        sent = rig.through(Member(name="direct", direct=True), Ask(f"https://localhost:{server.port}/"))[0]
        assert sent.end.reason is None, sent.answer


def test_a_ca_bundle_for_proxies_that_inspect_tls(
    rig: Any, trusted: str, certified: Callable[..., ssl.SSLContext], work: Any
) -> None:
    import trustme

    inspector = trustme.CA()
    inspector.cert_pem.write_to_path(str(work / "inspector.pem"))
    with faults.FaultServer(faults.as_proxy(faults.in_tls(certified(HOST, by=inspector), faults.answering()))) as server:
        without = rig.through(at("http", server.port), Ask(f"https://{HOST}/"))[0]
        assert without.end.reason is Reason.CERTIFICATE
        with_it = rig.through(at("http", server.port), Ask(f"https://{HOST}/", ca_bundle=str(work / "inspector.pem")))[0]
        assert with_it.end.reason is None, with_it.answer
