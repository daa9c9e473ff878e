"""Azure clients whose calls leave through a pool, on both transports. Members are addresses on loopback; dead ones refuse."""

from __future__ import annotations

import asyncio
import gc
import pickle
import socket
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError, ServiceResponseError

from cloudretry import Report
from cloudretry.azure.carry import carried
from cloudretry.azure.policy import AsyncCloudRetryPolicy, CloudRetryPolicy
from cloudretry.config import load_configuration
from cloudretry.core.history import History
from cloudretry.egress.pools import pool_of
from cloudretry.errors import PoolUnavailable
from cloudretry.runtime.engine import Engine
from tests.egress import faults

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
URL = "http://management.cloud.test"  # nobody's name: only the members know the way


def address(server: Any) -> dict[str, Any]:
    return {"connect_to": server.url.removeprefix("http://")}


def dead() -> dict[str, Any]:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return {"connect_to": f"127.0.0.1:{listener.getsockname()[1]}"}


def told(error: BaseException) -> History:
    return History.from_dict(carried(error))


@pytest.fixture(params=["requests", "aiohttp"])
def pooled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """`pooled(members, **settings)(method)` sends through a pool of these members, and raises what a client would."""

    monkeypatch.setattr("cloudretry.egress.passages._said", set())

    def make(members: list[Any], report: Any = None, url: str = URL, **settings: Any) -> Any:
        configuration = {"azure": {"pool": "p"}, "pools": {"p": {"members": members, **settings}}}
        engine = Engine(load_configuration(configuration).settings, listeners=[report] if report else [])
        send = _send if request.param == "requests" else _send_async
        return lambda method="GET", **options: send(engine, method, url + "/thing", options)

    return make


def _send(engine: Engine, method: str, url: str, options: dict[str, Any]) -> Any:
    from azure.core import PipelineClient
    from azure.core.rest import HttpRequest

    made: Any = PipelineClient(url, policies=[CloudRetryPolicy(engine=engine)])
    with made as client:
        response: Any = client.send_request(HttpRequest(method, url), **options)
        response.raise_for_status()
        return response


def _send_async(engine: Engine, method: str, url: str, options: dict[str, Any]) -> Any:
    from azure.core import AsyncPipelineClient
    from azure.core.rest import HttpRequest

    async def send() -> Any:
        made: Any = AsyncPipelineClient(url, policies=[AsyncCloudRetryPolicy(engine=engine)])
        async with made as client:
            response: Any = await client.send_request(HttpRequest(method, url), **options)
            response.raise_for_status()
            return response

    return asyncio.run(send())


def test_a_call_leaves_through_the_pool_and_stays_what_it_was(serve: Make, pooled: Make, Answer: Any) -> None:
    server = serve(Answer(200, b"{}"))
    assert pooled([address(server)])().status_code == 200
    assert server.requests[0].headers["Host"] == "management.cloud.test"


def test_a_refused_connection_goes_to_the_next_member_at_once_with_a_post_too(
    serve: Make, pooled: Make, Answer: Any, clock: Any
) -> None:
    server, report = serve(Answer(200, b"{}")), Report()
    pooled([dead(), dead(), address(server)], report, algorithm="round_robin")("POST")
    assert [request.method for request in server.requests] == ["POST"]
    assert clock.sleeps == []
    assert (report.total.attempts, report.total.lost) == (1, 0)


@pytest.mark.parametrize(("members", "retries"), [(1, 0), (1, 1), (2, 1), (2, 2), (3, 1), (3, 3)])
def test_who_runs_out_first_decides_what_the_caller_gets(members: int, retries: int, pooled: Make, clock: Any) -> None:
    report = Report()
    send = pooled([dead() for _ in range(members)], report, retries=retries)
    expected = HttpResponseError if members <= retries else ServiceRequestError
    with pytest.raises(expected) as caught:
        send()
    if isinstance(caught.value, HttpResponseError):
        assert caught.value.status_code == 500
        assert caught.value.error is not None
        assert caught.value.error.code == "EgressPoolExhausted"
        assert str(caught.value).count("127.0.0.1") >= members
        assert told(caught.value).reason == "pool_exhausted"
    else:
        assert told(caught.value).reason == "pool_retries"
    assert (report.total.attempts, report.total.lost) == (1, 1)
    assert clock.sleeps == []  # never retried by the layer above


def test_a_pool_without_anybody_says_so_in_the_sdks_words(pooled: Make, clock: Any) -> None:
    with pytest.raises(ServiceRequestError, match="egress-a") as caught:
        pooled([{**dead(), "disabled": True, "name": "egress-a"}])()
    assert isinstance(caught.value, PoolUnavailable)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (str(copy), told(copy).reason) == (str(caught.value), "pool_unavailable")
    assert (copy.retry_at, told(copy).retry_at) == (None, None)  # nobody brings it back


def test_a_pool_that_is_down_for_long_says_when_it_may_be_tried_again(pooled: Make, clock: Any) -> None:
    send = pooled([dead(), dead()], when_unavailable="fail", cooldown={"initial": "60s", "jitter": 0})
    with pytest.raises(HttpResponseError):
        send()
    clock.sleep(20)
    with pytest.raises(PoolUnavailable) as caught:
        send()
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    for error in (caught.value, copy):
        assert error.retry_at == told(error).retry_at == datetime.fromtimestamp(clock.wall() + 40, timezone.utc)


def test_a_throttle_is_waited_for_and_cools_nobody(serve: Make, pooled: Make, Answer: Any, clock: Any) -> None:
    server = serve(Answer(429, b"{}"), Answer(404, b"{}"))
    with pytest.raises(HttpResponseError) as caught:
        pooled([{**address(server), "name": "one"}])()
    assert [attempt.member for attempt in told(caught.value).attempts] == ["one", "one"]
    assert len(clock.sleeps) == 1


def test_after_the_request_was_written_only_what_is_replayable_goes_again(
    serve: Make, pooled: Make, Answer: Any, clock: Any
) -> None:
    first, second = serve(Answer(reset=True)), serve(Answer(200, b"{}"))
    members = [{**address(first), "name": "a"}, {**address(second), "name": "b"}]
    assert pooled(members, algorithm="round_robin")().status_code == 200
    server = serve(Answer(reset=True), Answer(200, b"{}"))
    with pytest.raises((ServiceRequestError, ServiceResponseError)) as caught:  # which of them is chance
        pooled([{**address(server), "name": "a"}])("POST")
    assert len(server.requests) == 1
    assert told(caught.value).reason == "not_replayable"


def test_what_is_nobodys_business_skips_the_pool(serve: Make, pooled: Make, Answer: Any) -> None:
    server = serve(Answer(200, b"{}"))
    assert pooled([dead()], url=server.url)().status_code == 200


def test_a_proxy_of_the_clients_own_wins_and_is_reported(
    serve: Make, pooled: Make, Answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = serve(Answer(200, b"{}"))
    assert pooled([dead()])(proxies={"http": proxy.url}).status_code == 200
    assert "does not use the egress pool p: it was given proxies of its own" in caplog.text


def test_a_configured_probe_judges_recovery(serve: Make, pooled: Make, Answer: Any, clock: Any) -> None:
    """A member that was reset cools; its trial is an exchange with the probe's URL, and only then does the call go on."""
    server = serve(Answer(reset=True), Answer(204), Answer(200, b"{}"))
    probe = {"kind": "https_get", "url": "http://probe.cloud.test/health"}
    send = pooled([{"url": server.url, "name": "one"}], probe=probe, cooldown={"initial": "1s", "jitter": 0})
    assert send().status_code == 200
    asked = [request.headers["Host"] for request in server.requests]
    assert asked == ["management.cloud.test", "probe.cloud.test", "management.cloud.test"]


@pytest.mark.parametrize(("method", "times"), [("GET", 4), ("DELETE", 1), ("POST", 1)])
@pytest.mark.parametrize("stream", [False, True])
def test_a_portals_page_never_passes_as_a_success(
    method: str, times: int, *, stream: bool, serve: Make, pooled: Make, Answer: Any, clock: Any
) -> None:
    proxy = serve(Answer(200, b"<html>please log in</html>", {"Content-Type": "text/html"}))
    brief = {"initial": "1ms", "max": "1ms", "jitter": 0}
    with pytest.raises(ServiceResponseError, match="a page of a proxy") as caught:
        pooled([{"url": proxy.url, "name": "portal"}], cooldown=brief)(method, stream=stream)
    attempts = told(caught.value).attempts
    assert {(attempt.member, attempt.phase, attempt.status) for attempt in attempts} == {("portal", "wait", 200)}
    assert len(proxy.requests) == times


def test_the_callers_timeout_bounds_the_wait_for_a_member(pooled: Make, clock: Any) -> None:
    send = pooled([dead()], retries=0, cooldown={"initial": "60s", "jitter": 0})
    with pytest.raises(ServiceRequestError):
        send()
    began = clock.monotonic()
    with pytest.raises(PoolUnavailable):
        send(timeout=5)
    assert clock.monotonic() - began < 5
    with pytest.raises(ServiceRequestError) as caught:
        send(timeout=100)
    assert told(caught.value).total_wait == 60


def test_where_the_sdk_decides_calls_leave_through_the_pool_too(
    serve: Make, pooled: Make, Answer: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDRETRY__AZURE__PRESET", "azure-core")
    server, report = serve(Answer(200, b"{}")), Report()
    assert pooled([dead(), address(server)], report, algorithm="round_robin")("POST").status_code == 200
    assert len(server.requests) == 1
    assert (report.total.attempts, report.total.lost) == (1, 0)


def test_asyncios_transport_in_threads_uses_the_pool(serve: Make, Answer: Any, clock: Any) -> None:
    from azure.core import AsyncPipelineClient
    from azure.core.pipeline.transport import AsyncioRequestsTransport
    from azure.core.rest import HttpRequest

    server = serve(Answer(reset=True), Answer(204), Answer(200, b"{}"))
    probe = {"kind": "https_get", "url": "http://probe.cloud.test/"}
    pool = {"members": [{"url": server.url}], "probe": probe, "cooldown": {"initial": "1s", "jitter": 0}}
    engine = Engine(load_configuration({"azure": {"pool": "p"}, "pools": {"p": pool}}).settings)

    async def send() -> Any:
        transport: Any = AsyncioRequestsTransport()
        made: Any = AsyncPipelineClient(URL, policies=[AsyncCloudRetryPolicy(engine=engine)], transport=transport)
        async with made as client:
            return await client.send_request(HttpRequest("GET", URL + "/thing"))

    assert asyncio.run(send()).status_code == 200
    asked = [request.headers["Host"] for request in server.requests]
    assert asked == ["management.cloud.test", "probe.cloud.test", "management.cloud.test"]


def test_clients_on_one_transport_share_its_connections_and_close_them_with_it(serve: Make, Answer: Any) -> None:
    from azure.core import AsyncPipelineClient
    from azure.core.pipeline.transport import AioHttpTransport
    from azure.core.rest import HttpRequest

    with faults.FaultServer(faults.answering()) as server:
        members = [{"connect_to": f"127.0.0.1:{server.port}"}]
        engine = Engine(load_configuration({"azure": {"pool": "p"}, "pools": {"p": {"members": members}}}).settings)

        async def send() -> None:
            transport: Any = AioHttpTransport()
            for _ in range(3):
                client: Any = AsyncPipelineClient(URL, policies=[AsyncCloudRetryPolicy(engine=engine)], transport=transport)
                await client.send_request(HttpRequest("GET", URL + "/thing"))
            await transport.close()

        asyncio.run(send())  # a connection left open is a ResourceWarning, which is an error here
        gc.collect()
        assert server.connections == 1


@pytest.mark.parametrize("transport", ["requests", "aiohttp"])
def test_a_body_that_is_cut_while_the_caller_reads_is_recorded(transport: str) -> None:
    """On a kept connection, too, whose idle timer has nothing to do with it. The member has nothing under way then."""
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\nx-ms-request-id: 1\r\n\r\n" + b"x" * 1000
    first = faults.saying(faults.OK, faults.after_request(faults.saying(cut, faults.after(0.05, faults.close))))
    with faults.FaultServer(faults.after_request(first)) as server:
        pool = {"members": [{"url": f"http://127.0.0.1:{server.port}"}]}
        engine = Engine(load_configuration({"azure": {"pool": "p"}, "pools": {"p": pool}}).settings)
        with pytest.raises(AzureError):
            (_download if transport == "requests" else _download_async)(engine)
        assert server.connections == 1
    (member,) = pool_of(engine, "p").snapshot().members
    assert (member.answered, member.in_flight, member.state) == (2, 0, "cooling")
    assert (member.reason, member.phase, member.counters) == ("reset", "body", {"reset": 1})


def _download(engine: Engine) -> None:
    from azure.core import PipelineClient
    from azure.core.rest import HttpRequest

    made: Any = PipelineClient(URL, policies=[CloudRetryPolicy(engine=engine)])
    with made as client:
        client.send_request(HttpRequest("GET", URL + "/small"))
        with client.send_request(HttpRequest("GET", URL + "/large"), stream=True) as response:
            for _ in response.iter_raw():
                pass


def _download_async(engine: Engine) -> None:
    from azure.core import AsyncPipelineClient
    from azure.core.rest import HttpRequest

    async def download() -> None:
        made: Any = AsyncPipelineClient(URL, policies=[AsyncCloudRetryPolicy(engine=engine)])
        async with made as client:
            await client.send_request(HttpRequest("GET", URL + "/small"))
            async with await client.send_request(HttpRequest("GET", URL + "/large"), stream=True) as response:
                async for _ in response.iter_raw():
                    pass

    asyncio.run(download())


def test_a_long_download_is_not_taken_for_an_idle_connection(clock: Any) -> None:
    """Neither for the five minutes that it takes, nor when a certificate or credentials are read again meanwhile."""
    from azure.core import AsyncPipelineClient
    from azure.core.rest import HttpRequest

    rest = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\nx-ms-request-id: 1\r\n\r\n" + b"x" * 1000

    def slowly(connection: Any) -> None:
        rest.wait(5)
        connection.sendall(b"y" * 1000)

    with (
        faults.FaultServer(faults.after_request(faults.saying(head, slowly))) as slow,
        faults.FaultServer(faults.answering()) as quick,
    ):
        members = [{"connect_to": f"127.0.0.1:{server.port}"} for server in (slow, quick)]
        pool = {"members": members, "algorithm": "round_robin"}
        engine = Engine(load_configuration({"azure": {"pool": "p"}, "pools": {"p": pool}}).settings)

        async def send() -> int:
            made: Any = AsyncPipelineClient(URL, policies=[AsyncCloudRetryPolicy(engine=engine)])
            async with made as client:
                response = await client.send_request(HttpRequest("GET", URL + "/large"), stream=True)
                chunks = response.iter_raw()
                length = len(await anext(chunks))
                clock.sleep(1000)
                await client.send_request(HttpRequest("GET", URL + "/small"))
                await asyncio.sleep(0)
                rest.set()
                return length + sum([len(chunk) async for chunk in chunks])

        assert asyncio.run(send()) == 2000
