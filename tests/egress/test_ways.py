"""Ways are made when needed, kept, dropped when idle, never inherited by a fork; what they take from a client's session."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry.core.outcome import Phase
from cloudretry.core.pool_settings import Member
from cloudretry.core.tries import Hop, Reason
from cloudretry.egress.ends import end_of
from cloudretry.egress.record import CURRENT, Record
from cloudretry.egress.ways import IDLE, Ways
from cloudretry.errors import ConfigurationError
from cloudretry.runtime.clock import use_clock
from tests.egress import faults
from tests.egress.conftest import HOST, RIGS, Ask, settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

pytestmark = [
    pytest.mark.wire,
    pytest.mark.filterwarnings("ignore:unclosed <(ssl|socket):ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),  # as in test_destination_faults.py
]

A = Member(name="a", url="http://127.0.0.1:3128")
B = Member(name="b", connect_to="127.0.0.1:443")


class _Way:
    def __init__(self, member: Member) -> None:
        self.member = member
        self.closed = False
        self.usable = True
        self.busy = False

    def close(self) -> None:
        self.closed = True

    def is_usable(self) -> bool:
        return self.usable

    def is_busy(self) -> bool:
        return self.busy


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def __enter__(self) -> Self:
        self._use = use_clock(self)  # type: ignore[arg-type]  # ways ask for no more
        self._use.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._use.__exit__(None, None, None)


def test_a_way_is_made_once_and_when_it_is_needed() -> None:
    ways = Ways(_Way)
    assert len(ways) == 0
    assert ways.of(A) is ways.of(A)
    assert ways.of(B) is not ways.of(A)
    assert len(ways) == 2


def test_what_does_not_change_where_it_goes_does_not_change_the_way() -> None:
    ways = Ways(_Way)
    assert ways.of(A) is ways.of(Member(name="other", url=A.url, weight=3))


def test_threads_that_need_a_way_at_once_get_the_same() -> None:
    made: list[_Way] = []

    def slowly(member: Member) -> _Way:
        threading.Event().wait(0.01)
        made.append(_Way(member))
        return made[-1]

    ways = Ways(slowly)
    threads = [threading.Thread(target=ways.of, args=(A,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_threads_that_send_through_one_way_keep_their_records_apart(trusted: str, tls: ssl.SSLContext) -> None:
    from cloudretry.egress.botocore_way import BotocoreWay

    rig = RIGS["botocore"](trusted)
    ask = Ask(f"https://{HOST}/")
    turn = iter(range(1_000_000))

    def every_second(connection: Any) -> None:
        faults.reset(connection) if next(turn) % 2 else faults.in_tls(tls, faults.answering())(connection)

    ends: list[Any] = []

    def send(way: BotocoreWay) -> None:
        for _ in range(10):
            record = Record()
            try:
                ends.append(end_of(record, way.send(rig.request(ask), record)))
            except Exception as error:  # noqa: BLE001 - what it is, is what is looked at
                ends.append(end_of(record, error))

    with faults.FaultServer(faults.as_proxy(every_second)) as server:
        way = BotocoreWay(rig.session(ask), Member(name="p", url=f"http://127.0.0.1:{server.port}"), settings(ask))
        threads = [threading.Thread(target=send, args=(way,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        way.close()
    seen = {(end.phase, end.reason, end.status) for end in ends}
    assert len(ends) == 80
    assert seen == {(Phase.DONE, None, 200), (Phase.TLS, Reason.RESET, None)}


def test_an_idle_way_is_closed_and_one_in_use_is_not() -> None:
    with _Clock() as clock:
        ways = Ways(_Way)
        idle, busy = ways.of(A), ways.of(B)
        busy.busy = True
        clock.now += IDLE + 1
        ways.of(Member(name="c", direct=True))
        assert (idle.closed, busy.closed) == (True, False)
        assert ways.of(A) is not idle
        assert ways.of(B) is busy


def test_a_way_that_is_used_now_and_then_stays() -> None:
    with _Clock() as clock:
        ways = Ways(_Way)
        way = ways.of(A)
        for _ in range(20):
            clock.now += IDLE / 2
            assert ways.of(A) is way
        assert not way.closed


def test_another_edition_is_made_anew_and_the_one_before_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from cloudretry.egress.route import route_of

    member = Member(name="a", url="http://${env:USER_AND_PASSWORD}@127.0.0.1:3128")
    ways = Ways(lambda member: _Routed(route_of(member).proxy_headers))
    monkeypatch.setenv("USER_AND_PASSWORD", "user:old")
    old = ways.of(member)
    monkeypatch.setenv("USER_AND_PASSWORD", "user:new")
    assert ways.of(member) is old
    assert ways.of(member, 1).headers != old.headers
    assert not old.closed
    ways.close()
    assert old.closed


class _Routed(_Way):
    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__(A)
        self.headers = headers


def test_closing_closes_all() -> None:
    ways = Ways(_Way)
    made = [ways.of(A), ways.of(B)]
    ways.close()
    assert [way.closed for way in made] == [True, True]
    assert len(ways) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_begins_without_ways() -> None:
    ways = Ways(_Way)
    way = ways.of(A)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - in the child
        os.write(writes, b"new" if len(ways) == 0 and ways.of(A) is not way and not way.closed else b"old")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    assert os.read(reads, 3) == b"new"
    os.close(reads)
    assert ways.of(A) is way


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_connects_itself(trusted: str, tls: ssl.SSLContext) -> None:
    from cloudretry.egress.botocore_way import BotocoreWay

    rig = RIGS["botocore"](trusted)
    with faults.FaultServer(faults.in_tls(tls, faults.answering())) as server:
        member = Member(name="here", connect_to=f"127.0.0.1:{server.port}")
        ask = Ask(f"https://{HOST}/")
        ways = Ways(lambda member: BotocoreWay(rig.session(ask), member, settings(ask)))
        assert ways.of(member).send(rig.request(ask), Record()).status_code == 200
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            record = Record()
            status = ways.of(member).send(rig.request(ask), record).status_code
            os.write(writes, f"{status} {record.reused}".encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reads, 20) == b"200 False"
        record = Record()
        assert ways.of(member).send(rig.request(ask), record).status_code == 200
        assert record.reused
        assert server.connections == 2
        os.close(reads)
        os.close(writes)
        ways.close()


def test_an_aiohttp_way_of_a_loop_that_is_gone_is_made_anew(trusted: str, tls: ssl.SSLContext) -> None:
    from cloudretry.egress.aiohttp_way import AiohttpWay, close_all

    rig = RIGS["aiohttp"](trusted)
    with faults.FaultServer(faults.in_tls(tls, faults.answering())) as server:
        member = Member(name="here", connect_to=f"127.0.0.1:{server.port}")
        ask = Ask(f"https://{HOST}/")
        transport = rig.session(ask)
        ways = Ways(lambda member: AiohttpWay(transport, member, settings(ask)))

        async def run() -> int:
            response = await ways.of(member).send(rig.request(ask), Record())
            await close_all(ways)
            return int(response.status_code)

        assert [asyncio.run(run()), asyncio.run(run())] == [200, 200]


def test_an_aiohttp_way_may_be_closed_from_another_thread(trusted: str, tls: ssl.SSLContext) -> None:
    from cloudretry.egress.aiohttp_way import AiohttpWay

    rig = RIGS["aiohttp"](trusted)

    async def run(port: int) -> bool:
        ask = Ask(f"https://{HOST}/")
        way = AiohttpWay(rig.session(ask), Member(name="here", connect_to=f"127.0.0.1:{port}"), settings(ask))
        await way.send(rig.request(ask), Record())
        await asyncio.get_running_loop().run_in_executor(None, way.close)
        await asyncio.sleep(0.05)
        return bool(way._twin.session.closed)

    with faults.FaultServer(faults.in_tls(tls, faults.answering())) as server:
        assert asyncio.run(run(server.port))


def test_the_clients_own_session_stays_as_it_is(rig: Any, tls: ssl.SSLContext) -> None:
    with faults.FaultServer(faults.in_tls(tls, faults.answering())) as server:
        ask = Ask(f"https://localhost:{server.port}/")
        before = rig.plainly(ask)
        rig.through(Member(name="p", url=f"http://127.0.0.1:{faults.refused_port()}"), ask)
        assert rig.plainly(ask).status_code == before.status_code == 200


def test_no_certificates_are_loaded_for_a_second_connection(
    rig: Any, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faults.FaultServer(faults.in_tls(tls, faults.after_request(faults.saying(faults.OK, faults.close)))) as server:
        member = Member(name="here", connect_to=f"127.0.0.1:{server.port}")
        ask = Ask(f"https://{HOST}/")
        assert rig.through(member, ask)[0].end.reason is None  # it is built here
        loaded: list[object] = []
        monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *args, **kwargs: loaded.append(args))
        monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *args, **kwargs: loaded.append(args))
        assert [sent.end.reason for sent in rig.through(member, ask)] == [None]
        assert not loaded
        assert server.connections == 2


def test_an_unverified_client_stays_unverified_and_a_verified_one_verified(rig: Any) -> None:
    import trustme

    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("other.test").configure_cert(nobody)
    with faults.FaultServer(faults.in_tls(nobody, faults.answering())) as server:
        member = Member(name="here", connect_to=f"127.0.0.1:{server.port}")
        ask = Ask(f"https://{HOST}/")
        verified = rig.through(member, ask)[0]
        assert verified.end.reason is Reason.CERTIFICATE
        own = rig.session
        rig.session = lambda ask: own(ask, **{"verify" if type(rig).__name__ == "_Botocore" else "connection_verify": False})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *args, **kwargs: None)  # urllib3 says that this is not wise
            unverified = rig.through(member, ask)[0]
        assert unverified.end.reason is None, unverified.answer
        rig.session = own
        assert rig.through(member, ask)[0].end.reason is Reason.CERTIFICATE


def test_a_client_certificate_is_shown_to_the_destination(
    rig: Any, trusted: str, authority: Any, certified: Callable[..., ssl.SSLContext], work: Any
) -> None:
    mine = authority.issue_cert("client.test")
    both = work / "client.pem"
    mine.private_key_and_cert_chain_pem.write_to_path(str(both))
    wanting = certified(HOST)
    wanting.verify_mode = ssl.CERT_REQUIRED
    wanting.load_verify_locations(cafile=trusted)
    with faults.FaultServer(faults.in_tls(wanting, faults.answering())) as server:
        member = Member(name="here", connect_to=f"127.0.0.1:{server.port}")
        ask = Ask(f"https://{HOST}/")
        without = rig.through(member, ask)[0]
        assert isinstance(without.answer, Exception)
        own = rig.session
        name, value = ("client_cert", str(both)) if type(rig).__name__ == "_Botocore" else ("connection_cert", (str(both),))
        rig.session = lambda ask: own(ask, **{name: str(both) if type(rig).__name__ == "_Requests" else value})
        assert rig.through(member, ask)[0].end.reason is None


def test_the_shorter_time_to_connect_holds(rig: Any) -> None:
    with faults.black_hole() as port:
        member = Member(name="hole", connect_to=f"127.0.0.1:{port}")
        own = rig.session
        rig.session = lambda ask: own(Ask(ask.url, patience=0.1))
        sent = rig.through(member, Ask(f"https://{HOST}/", patience=60))[0]
        assert (sent.end.phase, sent.end.reason) == (Phase.CONNECT, Reason.TIMEOUT)


def test_without_a_record_the_connections_do_as_ever(trusted: str, tls: ssl.SSLContext) -> None:
    """As when somebody sends with the twin from a thread of their own."""
    from cloudretry.egress.botocore_way import BotocoreWay

    rig = RIGS["botocore"](trusted)
    ask = Ask(f"https://{HOST}/")
    with faults.FaultServer(faults.as_proxy(faults.in_tls(tls, faults.answering()))) as server:
        way = BotocoreWay(rig.session(ask), Member(name="p", url=f"http://127.0.0.1:{server.port}"), settings(ask))
        assert CURRENT.get() is None
        assert way._session.send(rig.request(ask)).status_code == 200
        way.close()


@pytest.mark.parametrize("runner", ["asyncio", "trio"])
def test_requests_in_threads(runner: str, trusted: str, tls: ssl.SSLContext) -> None:
    from azure.core.pipeline import transport as transports

    from cloudretry.egress.requests_way import AsyncRequestsWay

    kind: Any = transports.AsyncioRequestsTransport if runner == "asyncio" else transports.TrioRequestsTransport
    rig = RIGS["requests"](trusted)
    results: list[Any] = []

    async def run(port: int) -> None:
        ask = Ask(f"https://{HOST}/")
        member = Member(name="p", url=f"http://127.0.0.1:{port}")
        way = AsyncRequestsWay(kind(connection_verify=trusted), member, settings(ask))
        record = Record()
        try:
            results.append(end_of(record, await way.send(rig.request(ask), record)))
        except Exception as error:  # noqa: BLE001 - what it is, is what is looked at
            results.append(end_of(record, error))
        way.close()

    def start(port: int) -> None:
        if runner == "asyncio":
            asyncio.run(run(port))
        else:
            import trio

            trio.run(run, port)

    with faults.FaultServer(faults.as_proxy(faults.in_tls(tls, faults.answering()))) as server:
        start(server.port)
    with faults.FaultServer(faults.as_proxy(faults.after_read(faults.reset))) as server:
        start(server.port)
    assert [(end.phase, end.hop, end.reason) for end in results] == [
        (Phase.DONE, Hop.DESTINATION, None),
        (Phase.TLS, Hop.DESTINATION, Reason.RESET),
    ]


def test_cancelling_is_nobodys_fault(trusted: str) -> None:
    from cloudretry.egress.aiohttp_way import AiohttpWay

    rig = RIGS["aiohttp"](trusted)

    async def run(port: int) -> Any:
        ask = Ask(f"https://{HOST}/")
        way = AiohttpWay(rig.session(ask), Member(name="here", connect_to=f"127.0.0.1:{port}"), settings(ask))
        record = Record()
        task = asyncio.ensure_future(way.send(rig.request(ask), record))
        await asyncio.sleep(0.1)
        assert way.is_busy()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return end_of(record, error)
        finally:
            await way.aclose()
            await asyncio.sleep(0.01)

    with faults.FaultServer(faults.hang) as server:
        end = asyncio.run(run(server.port))
    assert (end.phase, end.reason, end.written) == (Phase.TLS, Reason.CANCELLED, False)


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="asyncio has TLS in TLS")
def test_tls_in_tls_is_refused_where_there_is_none(trusted: str) -> None:
    from cloudretry.egress.aiohttp_way import AiohttpWay

    async def make() -> None:
        AiohttpWay(RIGS["aiohttp"](trusted).session(Ask("")), Member(name="tls", url="https://h:1"), settings(Ask("")))

    with pytest.raises(ConfigurationError, match=r"member tls: .*3\.11"):
        asyncio.run(make())


def test_a_member_that_can_not_be_used_is_a_mistake_of_the_configuration(rig: Any) -> None:
    for member in (Member(name="x", url="http://${env:NOT_SET}@h:1"), Member(name="x", connect_to=":1")):
        with pytest.raises(ConfigurationError):
            rig.through(member, Ask(f"https://{HOST}/"))


def test_ways_are_freed_with_their_client() -> None:
    import weakref

    ways = Ways(_Way)
    ways.of(A)
    watch = weakref.ref(ways)
    del ways
    gc.collect()
    assert watch() is None


def test_sessions_of_others_are_told(trusted: str) -> None:
    from azure.core.pipeline.transport import AioHttpTransport, RequestsTransport
    from botocore.httpsession import URLLib3Session

    from cloudretry.egress import aiohttp_way, botocore_way, requests_way

    assert botocore_way.can_serve(URLLib3Session())
    assert not botocore_way.can_serve(object())
    assert requests_way.can_serve(RequestsTransport())
    assert not requests_way.can_serve(AioHttpTransport())
    assert aiohttp_way.can_serve(AioHttpTransport())
    assert not aiohttp_way.can_serve(RequestsTransport())
