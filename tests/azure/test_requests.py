"""What reaches the server: each request is counted there, for the requests and the aiohttp transport alike."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import AzureError, ServiceRequestError, ServiceResponseError, ServiceResponseTimeoutError
from azure.core.pipeline import Pipeline, PipelineResponse
from azure.core.pipeline.policies import HTTPPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATH = "/subscriptions/aa/resourcegroups"
GRAPH = "/providers/Microsoft.ResourceGraph/resources"
WRITE = "/subscriptions/aa/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/v/start"


def test_throttled_twice_is_three_requests(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(error(), error(), answer({"value": []}))
    response = pipeline(server).send("GET", PATH)
    assert response.json() == {"value": []}
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 2


def test_throttled_for_ever_gives_the_last_answer_with_its_history(
    serve: Make, pipeline: Make, error: Make, clock: Any, history: Make
) -> None:
    server = serve(error())
    response = pipeline(server).send("GET", PATH)
    assert response.status_code == 429
    assert len(server.requests) == 9
    told = history(response)
    assert told.reason == "max_retries"
    assert told.call == "Microsoft.Resources:GET resourceGroups@aa/-"
    assert [attempt.code for attempt in told.attempts] == ["TooManyRequests"] * 9
    assert told.attempts[0].request_id == "1"
    assert told.total_wait == pytest.approx(sum(clock.sleeps))


@pytest.mark.parametrize("status", [403, 404, 409])
def test_retry_after_on_a_refusal_is_no_reason_to_ask_again(
    status: int, serve: Make, pipeline: Make, error: Make, history: Make
) -> None:
    server = serve(error(status, "Conflict", {"Retry-After": "1"}))
    response = pipeline(server).send("GET", PATH)
    assert len(server.requests) == 1
    assert history(response).reason == "not_retryable"


@pytest.mark.parametrize(
    ("method", "path", "status", "requests"),
    [
        ("GET", PATH, 429, 9),
        ("POST", GRAPH, 429, 9),
        ("POST", WRITE, 429, 9),  # it was refused: nothing was done
        ("PUT", WRITE, 429, 9),
        ("GET", PATH, 502, 4),
        ("POST", GRAPH, 502, 4),
        ("POST", WRITE, 502, 1),
        ("PUT", WRITE, 502, 1),
        ("DELETE", WRITE, 500, 1),
        ("HEAD", PATH, 503, 4),
        ("GET", PATH, 400, 1),
    ],
)
def test_what_may_be_sent_again(
    method: str, path: str, status: int, requests: int, serve: Make, pipeline: Make, error: Make, clock: Any
) -> None:
    server = serve(error(status, "Whatever"))
    pipeline(server).send(method, path, json={} if method == "POST" else None)
    assert len(server.requests) == requests


def test_an_unavailable_service_that_says_how_long_has_refused(
    serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any
) -> None:
    server = serve(error(503, "ServerBusy", {"Retry-After": "7"}), answer())
    assert pipeline(server).send("POST", WRITE).status_code == 200
    (slept,) = clock.sleeps
    assert 7 <= slept <= 7.5


@pytest.mark.parametrize(("method", "path", "requests"), [("GET", PATH, 4), ("POST", GRAPH, 4), ("POST", WRITE, 1)])
def test_a_connection_that_breaks_after_the_request(
    method: str,
    path: str,
    requests: int,
    serve: Make,
    pipeline: Make,
    clock: Any,
    Answer: Any,
    history: Make,
) -> None:
    server = serve(Answer(reset=True))
    with pytest.raises((ServiceRequestError, ServiceResponseError)) as caught:  # with aiohttp the former
        pipeline(server).send(method, path)
    told = history(caught.value)
    assert len(told.attempts) == requests
    hidden = requests if method == "GET" else 0  # aiohttp sends a GET once more by itself, which no policy can see
    assert requests <= len(server.requests) <= requests + hidden
    assert told.reason == ("transient_retries" if requests > 1 else "not_replayable")
    assert told.attempts[-1].outcome == "transient"


def test_nobody_listens_so_even_a_write_is_tried_again(pipeline: Make, clock: Any, history: Make) -> None:
    class Nobody:
        url = "http://127.0.0.1:1"

    with pytest.raises(ServiceRequestError) as caught:
        pipeline(Nobody).send("POST", WRITE)
    told = history(caught.value)
    assert [attempt.outcome for attempt in told.attempts] == ["not_sent"] * 4
    assert told.attempts[0].phase == "connect"


@pytest.mark.parametrize(
    ("options", "requests", "reason"),
    [
        ({"retry_total": 0}, 1, "max_retries"),
        ({"retry_total": 2}, 3, "max_retries"),
        ({"retry_total": 50}, 9, "max_retries"),
        ({"timeout": 25}, 3, "time_budget"),
        ({"timeout": 5}, 1, "time_budget"),
        (
            {"retry_connect": 0, "retry_read": 1, "retry_status": 1, "retry_backoff_factor": 9, "retry_on_methods": ["PUT"]},
            9,
            "",
        ),
    ],
)
def test_options_of_a_call(
    options: dict[str, Any],
    requests: int,
    reason: str,
    serve: Make,
    pipeline: Make,
    error: Make,
    clock: Any,
    history: Make,
) -> None:
    server = serve(error(429, "TooManyRequests", {"Retry-After": "10"}))
    response = pipeline(server).send("GET", PATH, **options)
    assert response.status_code == 429
    assert len(server.requests) == requests
    assert history(response).reason == (reason or "max_retries")
    assert sum(clock.sleeps) <= options.get("timeout", 330)


@pytest.mark.parametrize("options", [{"retry_total": 0}, {"retry_total": 0, "retry_status": 4}])
def test_a_single_attempt_of_a_policy(options: dict[str, int], serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    assert pipeline(server, **options).send("GET", PATH).status_code == 429
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["CloudRetryPolicy", "AsyncCloudRetryPolicy"])
def test_no_retries_is_a_single_attempt_too(kind: str) -> None:
    import cloudretry.azure.policy as module

    assert getattr(module, kind).no_retries().total_retries == 0


class Answers(HTTPPolicy[Any, Any]):
    """In the place of everything beneath the retry policy: gives responses with these statuses, and notes the options."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.seen: list[tuple[int, dict[str, Any]]] = []

    def send(self, request: Any) -> Any:
        self.seen.append((request.context["retry_count"], dict(request.context.options)))
        http = SimpleNamespace(status_code=self.statuses.pop(0), headers={})
        return PipelineResponse(request.http_request, http, request.context)


def test_the_context_tells_what_happened(engine: Make, clock: Any) -> None:
    from cloudretry.azure.policy import CloudRetryPolicy

    below = Answers(429, 503, 200)
    pipeline: Any = Pipeline(RequestsTransport(), policies=[CloudRetryPolicy(engine=engine()), below])
    response = pipeline.run(HttpRequest("GET", "https://x.example/"), timeout=200, retry_backoff_max=7)
    assert [entry.http_response.status_code for entry in response.context["history"]] == [429, 503]
    assert [count for count, _ in below.seen] == [0, 1, 2]
    assert all(options.keys() <= {"connection_timeout"} for _, options in below.seen)
    assert [options["connection_timeout"] for _, options in below.seen] == [5.0] * 3


def test_no_connection_may_take_longer_than_what_is_left_of_a_call(engine: Make, clock: Any) -> None:
    from cloudretry.azure.policy import CloudRetryPolicy

    below = Answers(429, 200)
    pipeline: Any = Pipeline(RequestsTransport(), policies=[CloudRetryPolicy(engine=engine()), below])
    pipeline.run(HttpRequest("GET", "https://x.example/"), timeout=200, connection_timeout=300)
    assert below.seen[0][1]["connection_timeout"] == pytest.approx(200)
    assert below.seen[1][1]["connection_timeout"] == pytest.approx(200 - sum(clock.sleeps))


def test_other_options_of_a_policy_are_reported_once(
    serve: Make,
    pipeline: Make,
    error: Make,
    clock: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cloudretry.azure.policy._reported", set())
    server = serve(error())
    for path in (PATH, PATH + "/one"):
        pipeline(server, {"max_retries": 1}, retry_total=31).send("GET", path)
    assert len(server.requests) == 4
    said = [record.getMessage() for record in caplog.records]
    assert sum("31 retries is not used" in message for message in said) == 1


def test_no_time_left_is_the_sdks_own_error(serve: Make, pipeline: Make, answer: Make) -> None:
    server = serve(answer())
    with pytest.raises(ServiceResponseTimeoutError, match="Response timeout"):
        pipeline(server).send("GET", PATH, timeout=0)
    assert server.requests == []


def test_a_body_goes_out_whole_each_time(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(error(), error(), answer())
    body = io.BytesIO(b"skipped" + b"x" * 10_000)
    body.seek(7)
    pipeline(server).send("PUT", WRITE, content=_unclosed(body))
    assert [len(request.body) for request in server.requests] == [10_000] * 3


def _unclosed(body: io.BytesIO) -> io.BytesIO:
    body.close = lambda: None  # type: ignore[method-assign]  # aiohttp closes a file when it has sent it
    return body


def _once() -> Iterator[bytes]:
    yield b"abc"


def test_a_body_that_is_spent_is_not_sent_again(serve: Make, error: Make, clock: Any, history: Make, engine: Make) -> None:
    from azure.core import PipelineClient

    from cloudretry.azure.policy import CloudRetryPolicy

    server = serve(error())
    client: Any = PipelineClient(server.url, policies=[CloudRetryPolicy(engine=engine())])
    with client:
        response = client.send_request(HttpRequest("PUT", server.url + WRITE, content=_once()))
    assert len(server.requests) == 1
    assert history(response).reason == "body_not_rewindable"


@pytest.mark.parametrize("status", [429, 404])
def test_the_error_of_a_stream_is_read_and_stays_readable(
    status: int, serve: Make, pipeline: Make, error: Make, clock: Any, history: Make
) -> None:
    server = serve(error(status, "TooManyRequests" if status == 429 else "Gone"))
    response = pipeline(server, {"max_retries": 1}).send("GET", PATH, stream=True)
    assert response.json()["error"]["code"] == history(response).attempts[-1].code


def test_the_empty_error_of_a_stream_can_still_be_read(serve: Make, pipeline: Make, clock: Any, Answer: Any) -> None:
    assert pipeline(serve(Answer(429)), {"max_retries": 1}).send("GET", PATH, stream=True).content == b""


def test_a_streamed_call_that_is_repeated_keeps_its_connection(
    serve: Make, error: Make, answer: Make, clock: Any, engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from azure.core import PipelineClient

    from cloudretry.azure.policy import CloudRetryPolicy

    server = serve(error(), error(), answer({"a": 1}))
    transport = RequestsTransport()
    client: Any = PipelineClient(server.url, policies=[CloudRetryPolicy(engine=engine())], transport=transport)
    with client:
        response = client.send_request(HttpRequest("GET", server.url + PATH), stream=True)
        assert transport.session is not None
        pools = transport.session.get_adapter(server.url).poolmanager.pools
        (pool,) = (pools[key] for key in pools.keys())  # noqa: SIM118 - urllib3's container forbids iteration
        assert pool.num_connections == 1
        assert response.read() == b'{"a": 1}'


def test_any_error_of_the_sdk_passes(serve: Make, engine: Make, history: Make) -> None:
    """A policy beneath that raises what is no broken connection: raised as it is, and not tried again."""
    from azure.core.exceptions import ClientAuthenticationError

    from cloudretry.azure.policy import CloudRetryPolicy

    class Refuses(HTTPPolicy[Any, Any]):
        calls = 0

        def send(self, request: Any) -> Any:
            self.calls += 1
            raise ClientAuthenticationError("AADSTS7000215: invalid secret")

    below = Refuses()
    pipeline: Any = Pipeline(RequestsTransport(), policies=[CloudRetryPolicy(engine=engine()), below])
    with pytest.raises(AzureError, match="invalid secret") as caught:
        pipeline.run(HttpRequest("GET", "http://127.0.0.1:1/"))
    assert below.calls == 1
    assert history(caught.value).reason == "not_retryable"


def test_a_transports_own_way_to_wait_is_used(serve: Make, error: Make, answer: Make, clock: Any, engine: Make) -> None:
    from azure.core import PipelineClient

    from cloudretry.azure.policy import CloudRetryPolicy

    class Counts(RequestsTransport):  # type: ignore[misc]  # azure-core loads it lazily, as Any
        slept: list[float] = []  # noqa: RUF012 - one test, one transport

        def sleep(self, duration: float) -> None:
            self.slept.append(duration)

    server = serve(error(headers={"Retry-After": "7"}), answer())
    client: Any = PipelineClient(server.url, policies=[CloudRetryPolicy(engine=engine())], transport=Counts())
    with client:
        assert client.send_request(HttpRequest("GET", server.url + PATH)).status_code == 200
    assert len(Counts.slept) == 1
    assert Counts.slept[0] >= 7
    assert clock.sleeps == []


def test_asyncio_is_not_needed(serve: Make, error: Make, answer: Make, clock: Any, engine: Make) -> None:
    trio = pytest.importorskip("trio")
    from azure.core import AsyncPipelineClient
    from azure.core.pipeline.transport import TrioRequestsTransport

    from cloudretry.azure.policy import AsyncCloudRetryPolicy

    server = serve(error(headers={"retry-after-ms": "1"}), answer())

    async def main() -> int:
        policy = AsyncCloudRetryPolicy(engine=engine({"additional_delay_window": "1ms"}))
        client: Any = AsyncPipelineClient(server.url, policies=[policy], transport=TrioRequestsTransport())
        async with client:
            return int((await client.send_request(HttpRequest("GET", server.url + PATH))).status_code)

    assert trio.run(main) == 200
    assert clock.sleeps == []
