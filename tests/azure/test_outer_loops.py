"""A script's own retry loop around a call that was given up: as for AWS, sync and aio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core import PipelineClient
from azure.core.pipeline.policies import BearerTokenCredentialPolicy
from azure.core.rest import HttpRequest

from cloudretry import Report, history
from cloudretry.azure.policy import CloudRetryPolicy

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATH = "/subscriptions/aa/resourcegroups"
GRAPH = "/providers/Microsoft.ResourceGraph/resources"


def rounds(make: Callable[[], Any], *requests: tuple[Any, ...]) -> list[Any]:
    """The responses to (method, path, body) one after the other in one thread or task, each through a client of its own."""
    bodies = [{"json": body[0]} if body else {} for _, _, *body in requests]
    if not hasattr(make(), "send_async"):
        return [make().send(*request[:2], **body) for request, body in zip(requests, bodies, strict=True)]

    async def one_task() -> list[Any]:
        return [await make().send_async(*request[:2], **body) for request, body in zip(requests, bodies, strict=True)]

    return asyncio.run(one_task())


def test_each_further_round_gets_one_attempt(serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server, report = serve(error()), Report()
    responses = rounds(lambda: pipeline(server, {"max_retries": 5}, listeners=[report]), *[("GET", PATH)] * 4)
    assert [response.status_code for response in responses] == [429] * 4
    told = history(responses[-1])
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("max_retries", 1)
    assert len(server.requests) == 6 + 3
    assert (report.total.attempts, report.total.lost, report.total.repeated) == (9, 4, 3)


def test_an_answer_ends_it(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(*[error()] * 3, answer(), *[error()] * 2, answer())
    responses = rounds(lambda: pipeline(server, {"max_retries": 2}), *[("GET", PATH)] * 3)
    assert [response.status_code for response in responses] == [429, 200, 200]
    assert len(server.requests) == 3 + 1 + 3


def test_other_queries_are_other_calls(serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    queries = [{"query": text} for text in ("resources", "resources | take 1", "resources")]
    rounds(lambda: pipeline(server, {"max_retries": 1}), *[("POST", GRAPH, query) for query in queries])
    assert len(server.requests) == 2 + 2 + 1


def test_pages_are_other_calls(serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    pages = [f"{PATH}?$skiptoken={number}" for number in (1, 2)]
    rounds(lambda: pipeline(server, {"max_retries": 1}), *[("GET", page) for page in pages])
    assert len(server.requests) == 2 + 2


def test_another_credential_is_no_next_round(serve: Make, error: Make, engine: Make, clock: Any) -> None:
    server = serve(error())
    for number in (1, 2):
        token = SimpleNamespace(token=f"token-{number}", expires_on=9_999_999_999)
        signs = BearerTokenCredentialPolicy(SimpleNamespace(get_token=lambda *_, token=token, **__: token), "scope")
        policies = [CloudRetryPolicy(engine=engine({"max_retries": 3})), signs]
        client: Any = PipelineClient(server.url, policies=policies)
        with client:
            request = HttpRequest("GET", server.url + PATH)
            assert client.send_request(request, enforce_https=False).status_code == 429
    assert len(server.requests) == 4 + 4


@pytest.mark.parametrize("pipeline", ["aiohttp"], indirect=True)
def test_other_tasks_are_no_loop(serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server = serve(error())

    async def sweep() -> None:
        client = pipeline(server, {"max_retries": 2})
        gave_up = asyncio.Event()

        async def first() -> None:
            await client.send_async("GET", PATH)
            gave_up.set()

        async def later() -> None:
            await gave_up.wait()
            await client.send_async("GET", PATH)

        await asyncio.gather(first(), later(), later())

    asyncio.run(sweep())
    assert len(server.requests) == 3 * 3


@pytest.mark.parametrize("name", ["x-ms-range", "Range", "If-Match"])
def test_what_is_asked_in_headers_tells_calls_apart(
    serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any, name: str
) -> None:
    """And what the SDK or an attempt adds does not."""
    server, report = serve(error(), answer(), answer()), Report()
    client = pipeline(server, {"max_retries": 0}, listeners=[report])
    for value in ("bytes=0-9", "bytes=10-19"):
        client.send("GET", PATH, headers={name: value, "x-ms-client-request-id": value})
    assert (report.total.lost, report.total.recovered) == (1, 0)
    if not hasattr(client, "send_async"):
        client.send("GET", PATH, headers={name: "bytes=0-9", "x-ms-client-request-id": "another", "traceparent": "new"})
        assert (report.total.lost, report.total.recovered) == (0, 1)


def test_a_change_that_was_lost_stays_lost(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    server, report = serve(error(), answer()), Report()
    start = f"{PATH}/one/providers/Microsoft.Compute/virtualMachines/vm/start"
    rounds(lambda: pipeline(server, {"max_retries": 0}, listeners=[report]), *[("POST", start)] * 2)
    assert (report.total.calls, report.total.lost, report.total.recovered) == (2, 1, 0)


def test_what_a_loop_got_in_the_end_is_no_loss(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    server, report = serve(*[error()] * 4, answer()), Report()
    responses = rounds(lambda: pipeline(server, {"max_retries": 2}, listeners=[report]), *[("GET", PATH)] * 3)
    assert [response.status_code for response in responses] == [429, 429, 200]
    assert (report.total.calls, report.total.lost, report.total.recovered) == (3, 0, 2)
    assert [(lost.page, lost.attempts) for lost in report.recovered] == [(1, 3), (1, 1)]
