"""Real management clients, sync and aio: their calls, pages and long-running operations."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import DecodeError, HttpResponseError, ResourceNotFoundError

from cloudretry.report import Report

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
SUBSCRIPTION = "00000000-0000-0000-0000-0000000000aa"


def groups(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "location": "westeurope", "id": f"/subscriptions/x/resourceGroups/{name}"} for name in names]


def test_a_get_is_throttled_twice(serve: Make, manager: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(error(), error(), answer(groups("one")[0]))
    group = manager(server)(lambda client: client.resource_groups.get("one"))
    assert group.name == "one"
    assert len(server.requests) == 3
    assert len({request.headers["x-ms-client-request-id"] for request in server.requests}) == 1


def test_page_two_of_five_is_throttled(serve: Make, manager: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve()
    link = f"{server.url}/subscriptions/{SUBSCRIPTION}/resourcegroups?page="
    pages = [answer({"value": groups(f"g{at}"), "nextLink": f"{link}{at + 1}"}) for at in range(1, 5)]
    server.say(pages[0], error(), error(headers={"Retry-After": "3"}), *pages[1:], answer({"value": groups("g5")}))
    report = Report()
    found = manager(server, listeners=[report])(lambda client: client.resource_groups.list())
    assert [group.name for group in found] == ["g1", "g2", "g3", "g4", "g5"]
    assert len(server.requests) == 7
    ((call, counts),) = report.operations.items()
    assert str(call) == f"Microsoft.Resources:GET resourceGroups@{SUBSCRIPTION}/-"
    assert (counts.calls, counts.attempts, counts.throttled, counts.lost) == (5, 7, 2, 0)


def test_the_poll_of_a_long_running_operation_is_throttled(
    serve: Make,
    manager: Make,
    error: Make,
    Answer: Any,
    clock: Any,
) -> None:
    server = serve()
    location = {"Location": f"{server.url}/subscriptions/{SUBSCRIPTION}/operationresults/1"}
    server.say(Answer(202, b"", location), error(), error(), Answer(202, b"", location), Answer(200))
    manager(server)(lambda client: client.resource_groups.begin_delete("one", polling_interval=0))
    assert [request.method for request in server.requests] == ["DELETE", "GET", "GET", "GET", "GET"]
    assert len(clock.sleeps) == 2


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "application/json"),
        (b"<html>busy", "text/html"),
        (b'{"code": "X", "message": "top"}', "application/json"),
        (b'"{}"', "application/json"),
    ],
)
def test_the_sdks_own_error_comes_out_and_survives_pickling_with_its_history(
    body: bytes,
    kind: str,
    serve: Make,
    manager: Make,
    Answer: Any,
    clock: Any,
    history: Make,
) -> None:
    server = serve(Answer(429, body, {"Content-Type": kind, "x-ms-request-id": "7"}))
    with pytest.raises(HttpResponseError) as caught:
        manager(server)(lambda client: client.resource_groups.get("one"))
    assert caught.value.status_code == 429
    assert len(server.requests) == 9
    told = history(caught.value)
    assert told.reason == "max_retries"
    assert told.attempts[-1].request_id == "7"
    twin = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert history(twin) == told
    assert str(twin) == str(caught.value)


def test_a_typed_error_stays_typed_and_is_not_a_loss(serve: Make, manager: Make, error: Make, history: Make) -> None:
    report = Report()
    server = serve(error(404, "ResourceGroupNotFound"))
    with pytest.raises(ResourceNotFoundError, match="ResourceGroupNotFound") as caught:
        manager(server, listeners=[report])(lambda client: client.resource_groups.get("one"))
    assert history(caught.value).reason == "not_retryable"
    assert (report.total.refused, report.total.lost) == (1, 0)


def test_options_of_one_call_reach_the_policy_and_nothing_else(serve: Make, manager: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    for options in ({"retry_total": 0}, {"retry_total": 1, "timeout": 40, "retry_mode": "fixed"} | {"retry_status": 9}):
        options.pop("retry_mode", None)  # the SDK itself takes it from a policy's constructor alone
        with pytest.raises(HttpResponseError):
            manager(server)(lambda client, options=options: client.resource_groups.get("one", **options))
    assert len(server.requests) == 1 + 2


def test_a_client_made_for_one_attempt(serve: Make, manager: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    with pytest.raises(HttpResponseError):
        manager(server, retry_total=0)(lambda client: client.resource_groups.get("one"))
    assert len(server.requests) == 1


def test_an_answer_that_the_sdk_cannot_read_ends_in_its_own_error(
    serve: Make,
    manager: Make,
    Answer: Any,
    clock: Any,
    history: Make,
) -> None:
    server = serve(Answer(429, b"<html>busy", {"Content-Type": "application/json"}))
    with pytest.raises(DecodeError) as caught:
        manager(server)(lambda client: client.resource_groups.get("one"))
    assert len(server.requests) == 4  # a page without Azure's request id is a proxy's
    assert history(caught.value).reason == "transient_retries"


def test_an_unregistered_provider_is_registered_and_the_call_sent_again(
    serve: Make,
    manager: Make,
    error: Make,
    answer: Make,
    clock: Any,
    Answer: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pause = asyncio.sleep
    monkeypatch.setattr(time, "sleep", lambda _: None)  # the SDK's own ten seconds
    monkeypatch.setattr(asyncio, "sleep", lambda _: pause(0))
    missing = json.dumps({"error": {"code": "MissingSubscriptionRegistration", "message": "not to use 'Microsoft.X'"}}).encode()
    registered = answer({"registrationState": "Registered"})
    server = serve(Answer(409, missing), error(), registered, error(), registered, error(), answer({"name": "t"}))
    name = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.X/things/t"
    found = manager(server)(lambda client: client.resources.get_by_id(name, api_version="2020-01-01", retry_total=1))
    assert found.name == "t"
    assert [request.method for request in server.requests] == ["GET", "POST", "POST", "GET", "GET", "GET", "GET"]
    assert len(clock.sleeps) == 3


def test_observe_mode_leaves_the_decision_to_the_sdk(
    serve: Make, manager: Make, error: Make, answer: Make, history: Make
) -> None:
    report = Report()
    server = serve(error(), error(), answer(groups("one")[0]))
    fast = {"retry_backoff_factor": 0.001}
    client = manager(server, {"mode": "observe"}, listeners=[report], **fast)
    assert client(lambda client: client.resource_groups.get("one")).name == "one"
    assert (report.total.calls, report.total.attempts, report.total.throttled, report.total.lost) == (1, 3, 2, 0)
    server.say(error())
    with pytest.raises(HttpResponseError) as caught:
        client(lambda client: client.resource_groups.get("one"))
    assert len(server.requests) == 3 + 4  # azure-core's own three retries
    told = history(caught.value)
    assert told.reason == "sdk"
    assert len(told.attempts) == 4


def test_the_preset_of_azure_core_counts_and_waits_as_the_sdk_does(
    serve: Make, manager: Make, error: Make, history: Make
) -> None:
    server = serve(error())
    with pytest.raises(HttpResponseError) as caught:
        manager(server, {"preset": "azure-core"}, retry_backoff_factor=0.001, retry_status=1)(
            lambda client: client.resource_groups.get("one")
        )
    assert len(server.requests) == 2
    assert history(caught.value).reason == "sdk"


def test_a_cancelled_task_does_not_wait(serve: Make, error: Make, engine: Make) -> None:
    """In real time: the provider wants 60 seconds, the task is cancelled at once."""
    from azure.core import AsyncPipelineClient
    from azure.core.rest import HttpRequest

    from cloudretry.azure.policy import AsyncCloudRetryPolicy

    report = Report()
    server = serve(error(headers={"Retry-After": "60"}))

    async def main() -> None:
        throttled = asyncio.Event()
        policy = AsyncCloudRetryPolicy(engine=engine(listeners=[report, lambda _: throttled.set()]))
        client: Any = AsyncPipelineClient(server.url, policies=[policy])
        async with client:
            task = asyncio.ensure_future(client.send_request(HttpRequest("GET", f"{server.url}/subscriptions")))
            await throttled.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(main(), 30))
    assert len(server.requests) == 1
    assert "reason=cancelled" in str(report.lost[0])


def test_the_loop_goes_on_while_calls_wait(serve: Make, error: Make, answer: Make, engine: Make, clock: Any) -> None:
    from azure.core import AsyncPipelineClient
    from azure.core.rest import HttpRequest

    from cloudretry.azure.policy import AsyncCloudRetryPolicy

    server = serve(error(), error(), error(), error(), answer({"value": []}))

    async def main() -> list[int]:
        client: Any = AsyncPipelineClient(server.url, policies=[AsyncCloudRetryPolicy(engine=engine())])
        async with client:
            calls = [client.send_request(HttpRequest("GET", f"{server.url}/subscriptions")) for _ in range(4)]
            return [response.status_code for response in await asyncio.gather(*calls)]

    assert asyncio.run(main()) == [200] * 4
    assert len(server.requests) == 8
