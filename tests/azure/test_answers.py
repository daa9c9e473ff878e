"""Answers that the SDK gets wrong: what would pass as data and is none, and what it raises that is no error of its own."""

from __future__ import annotations

import asyncio
import gzip
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import AzureError, DecodeError, HttpResponseError, IncompleteReadError

from cloudretry.azure.readable import unreadable

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATH = "/subscriptions/aa/resourcegroups"
WRITE = "/subscriptions/aa/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/v/start"
PAGE = b"\r\n<!DOCTYPE html><html><body>Please sign in to the network</body></html>"
JSON = {"Accept": "application/json"}


@pytest.fixture(params=["text/html; charset=utf-8", "application/json"])
def page(request: pytest.FixtureRequest, Answer: Any) -> Any:
    """What a captive portal says, with status 200."""
    return Answer(200, PAGE, {"Content-Type": request.param})


def test_a_page_in_the_place_of_json_is_not_data(page: Any, serve: Make, manager: Make, answer: Make, clock: Any) -> None:
    server = serve(page, page, answer({"name": "one"}))
    assert manager(server)(lambda client: client.resource_groups.get("one")).name == "one"
    assert len(clock.sleeps) == 2


def test_a_page_for_ever_is_the_sdks_own_error(page: Any, serve: Make, manager: Make, clock: Any, history: Make) -> None:
    server = serve(page)
    with pytest.raises(DecodeError, match="a page came where JSON was asked for: status 200") as caught:
        manager(server)(lambda client: client.resource_groups.get("one"))
    assert len(server.requests) == 4
    assert caught.value.status_code == 200
    told = history(caught.value)
    assert (told.reason, told.attempts[-1].phase) == ("transient_retries", "body")
    assert history(pickle.loads(pickle.dumps(caught.value))) == told  # noqa: S301 - our own bytes


def test_a_page_after_a_write_is_not_sent_again(page: Any, serve: Make, pipeline: Make, clock: Any, history: Make) -> None:
    server = serve(page)
    with pytest.raises(DecodeError) as caught:
        pipeline(server).send("POST", WRITE, json={}, headers=JSON)
    assert len(server.requests) == 1
    assert history(caught.value).reason == "not_replayable"


@pytest.mark.parametrize("headers", [{}, {"Accept": "text/html"}])
def test_a_page_that_was_asked_for_is_data(headers: dict[str, str], serve: Make, pipeline: Make, Answer: Any) -> None:
    server = serve(Answer(200, PAGE, {"Content-Type": "text/html"}))
    assert pipeline(server).send("GET", PATH, headers=headers).content == PAGE


@pytest.mark.parametrize("answer", [(204, b"", "text/html"), (200, b"", "application/json"), (200, b" 7", "application/json")])
def test_what_is_no_page(answer: tuple[int, bytes, str], serve: Make, pipeline: Make, Answer: Any) -> None:
    status, body, kind = answer
    server = serve(Answer(status, body, {"Content-Type": kind}))
    assert pipeline(server).send("GET", PATH, headers=JSON).content == body


def test_a_stream_is_left_to_its_reader(page: Any, serve: Make, pipeline: Make) -> None:
    assert pipeline(serve(page)).send("GET", PATH, headers=JSON, stream=True).content == PAGE


@pytest.mark.parametrize(("status", "requests"), [(200, 4), (429, 9), (404, 1)])
def test_json_in_no_encoding(
    status: int, requests: int, serve: Make, manager: Make, Answer: Any, clock: Any, history: Make
) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8", "x-ms-request-id": "1"}
    server = serve(Answer(status, b'{"name": "\xff"}', headers))
    with pytest.raises(HttpResponseError) as caught:
        manager(server)(lambda client: client.resource_groups.get("one"))
    assert caught.value.status_code == status
    assert len(server.requests) == requests
    assert len(history(caught.value).attempts) == requests


ZIPPED = {"Content-Type": "application/json", "Content-Encoding": "gzip"}


def test_a_body_that_is_not_zipped_as_it_says(serve: Make, manager: Make, Answer: Any, clock: Any) -> None:
    good = Answer(200, gzip.compress(b'{"name": "one"}'), ZIPPED)
    server = serve(Answer(200, b"no gzip", ZIPPED), good)
    assert manager(server)(lambda client: client.resource_groups.get("one")).name == "one"
    assert len(server.requests) == 2


def test_never_zipped_as_it_says(serve: Make, manager: Make, Answer: Any, clock: Any, history: Make) -> None:
    server = serve(Answer(200, b"no gzip", ZIPPED))
    with pytest.raises(AzureError) as caught:  # which of them differs by stack and version
        manager(server)(lambda client: client.resource_groups.get("one"))
    assert len(server.requests) == 4
    told = history(caught.value)
    assert (told.reason, told.attempts[-1].phase) == ("transient_retries", "body")


def test_the_badly_zipped_error_of_a_stream_is_judged_by_its_status(
    serve: Make, pipeline: Make, answer: Make, Answer: Any, clock: Any
) -> None:
    server = serve(Answer(429, b"no gzip", {**ZIPPED, "Retry-After": "3"}), answer({"a": 1}))
    assert pipeline(server).send("GET", PATH, stream=True).json() == {"a": 1}
    assert 3 <= clock.sleeps[0] <= 3.5


def test_a_body_cut_short_of_which_urllib3_tells_nobody() -> None:
    """Its versions before 2; `length_remaining` is what they know of it."""
    for left, cut in ((3, True), (0, False), (None, False)):
        raw = SimpleNamespace(raw=SimpleNamespace(length_remaining=left))
        http = SimpleNamespace(status_code=200, reason="OK", content_type="text/plain", internal_response=raw)
        assert isinstance(unreadable(http), IncompleteReadError) is cut


def test_a_body_cut_short_for_ever(serve: Make, pipeline: Make, Answer: Any, clock: Any, history: Make) -> None:
    server = serve(Answer(200, b'{"a"', {"Content-Length": "10", "Connection": "close"}))
    with pytest.raises(AzureError) as caught:
        pipeline(server).send("GET", PATH)
    assert len(server.requests) == 4
    assert history(caught.value).attempts[-1].phase == "body"
    server = serve(Answer(200, b'{"a"', {"Content-Length": "10", "Connection": "close"}))
    with pytest.raises(AzureError) as caught:
        pipeline(server).send("POST", WRITE)
    assert len(server.requests) == 1


def test_an_empty_chunked_error_of_a_stream_can_still_be_read(say_raw: Make, pipeline: Make, clock: Any) -> None:
    place = say_raw(b"HTTP/1.1 429 Too Many\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n")
    response = pipeline(place, {"max_retries": 1}).send("GET", PATH, stream=True)
    assert response.content == b""
    assert len(clock.sleeps) == 1
    error = HttpResponseError("too many", response=response)
    assert pickle.loads(pickle.dumps(error)).status_code == 429  # noqa: S301 - our own bytes


def test_streams_of_the_time_before_azure_core_rest(serve: Make, error: Make, answer: Make, engine: Make, clock: Any) -> None:
    from azure.core import PipelineClient
    from azure.core.pipeline.transport import HttpRequest

    from cloudretry.azure.policy import CloudRetryPolicy

    server = serve(error(), error(headers={"Retry-After": "4"}), answer({"a": 1}))
    client: Any = PipelineClient(server.url, policies=[CloudRetryPolicy(engine=engine())])
    with client:
        response = client._pipeline.run(HttpRequest("GET", server.url + PATH), stream=True).http_response
        assert b"".join(response.stream_download(client._pipeline)) == b'{"a": 1}'
    assert 4 <= clock.sleeps[1] <= 4.5


@pytest.mark.parametrize("stream", [True, False])
def test_the_same_with_aio(
    *, stream: bool, serve: Make, error: Make, answer: Make, engine: Make, Answer: Any, clock: Any
) -> None:
    from azure.core import AsyncPipelineClient
    from azure.core.pipeline.transport import HttpRequest

    from cloudretry.azure.policy import AsyncCloudRetryPolicy

    broken = [] if stream else [Answer(200, b"no gzip", ZIPPED)]
    server = serve(error(), *broken, error(headers={"Retry-After": "4"}), answer({"a": 1}))

    async def main() -> bytes:
        client: Any = AsyncPipelineClient(server.url, policies=[AsyncCloudRetryPolicy(engine=engine())])
        async with client:
            response = (await client._pipeline.run(HttpRequest("GET", server.url + PATH), stream=stream)).http_response
            if not stream:
                return bytes(response.body())
            return b"".join([part async for part in response.stream_download(client._pipeline)])

    assert asyncio.run(main()) == b'{"a": 1}'
    assert 4 <= clock.sleeps[-1] <= 4.5


def test_what_aiohttp_sends_again_by_itself_is_no_post(
    serve: Make, engine: Make, Answer: Any, answer: Make, clock: Any
) -> None:
    """On a kept connection that is closed as the next request arrives; of GET, PUT and DELETE no policy can see it."""
    from azure.core import AsyncPipelineClient
    from azure.core.rest import HttpRequest

    from cloudretry.azure.policy import AsyncCloudRetryPolicy

    server = serve(answer(), Answer(reset=True))

    async def main() -> None:
        client: Any = AsyncPipelineClient(server.url, policies=[AsyncCloudRetryPolicy(engine=engine())])
        async with client:
            await client.send_request(HttpRequest("GET", server.url + PATH))
            await client.send_request(HttpRequest("POST", server.url + WRITE))

    with pytest.raises(AzureError):
        asyncio.run(main())
    assert [request.method for request in server.requests] == ["GET", "POST"]


def test_errors_of_broken_connections_can_be_pickled(
    serve: Make, pipeline: Make, Answer: Any, clock: Any, history: Make
) -> None:
    server = serve(Answer(reset=True))
    with pytest.raises(AzureError) as caught:
        pipeline(server).send("PUT", WRITE, content=b"x")
    twin = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert type(twin) is type(caught.value)
    assert str(twin) == str(caught.value)
    assert history(twin) == history(caught.value)
    assert history(twin).reason == "not_replayable"
    assert caught.value.exc_traceback is not None or caught.value.inner_exception is not None  # the original keeps all
