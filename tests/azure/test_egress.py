"""Azure clients whose calls leave through a pool, on both transports. Members are addresses on loopback; dead ones refuse."""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError, ServiceResponseError

from cloudretry import Report
from cloudretry.azure.carry import carried
from cloudretry.azure.policy import AsyncCloudRetryPolicy, CloudRetryPolicy
from cloudretry.config import load_configuration
from cloudretry.core.history import History
from cloudretry.errors import PoolUnavailable
from cloudretry.runtime.engine import Engine

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
