"""What users of the Azure SDKs have complained of, each with the clients that they used. The numbers are of public issues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy

from cloudretry import Report

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
SUBSCRIPTION = "00000000-0000-0000-0000-0000000000aa"
COSTS = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.CostManagement/query"
ACCOUNTS = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Storage/storageAccounts"


@pytest.fixture(params=["sync", "aio"])
def any_client(request: pytest.FixtureRequest, engine: Make) -> Make:
    """`any_client(package, name, server, azure)(call)`: as `manager`, for a client class of any management package."""

    def make(package: str, name: str, server: Any, azure: dict[str, Any] | None = None, **options: Any) -> Make:
        from cloudretry.azure.clients import make as made

        aio = request.param == "aio"
        kind = getattr(pytest.importorskip(f"{package}.aio" if aio else package), name)
        own = engine(azure, options.pop("listeners", ()))
        given = {"credential": object(), "subscription_id": SUBSCRIPTION, "base_url": server.url, **options}

        def on_sync(call: Callable[[Any], Any]) -> Any:
            with made(kind, own, authentication_policy=SansIOHTTPPolicy(), **given) as client:
                result = call(client)
                return list(result) if hasattr(result, "by_page") else result

        async def on_aio(call: Callable[[Any], Any]) -> Any:
            async with made(kind, own, authentication_policy=SansIOHTTPPolicy(), **given) as client:
                result = call(client)
                return [item async for item in result] if hasattr(result, "by_page") else await result

        return (lambda call: asyncio.run(on_aio(call))) if aio else on_sync

    return make


def graph(any_client: Make, server: Any, **options: Any) -> Any:
    """One Resource Graph query."""
    run = any_client("azure.mgmt.resourcegraph", "ResourceGraphClient", server, **options)
    return run(lambda client: client.resources({"subscriptions": [SUBSCRIPTION], "query": "Resources"}))


FOUND = {"totalRecords": 1, "count": 1, "resultTruncated": "false", "facets": [], "data": [{"name": "one"}]}


def test_resource_graph_says_when_its_quota_is_full_again(
    serve: Make, any_client: Make, error: Make, answer: Make, clock: Any
) -> None:
    """azure-sdk-for-python 5412, azure-cli-extensions 3325, azure-cli 31484."""
    refused = error(429, "RateLimiting", {"x-ms-user-quota-remaining": "0", "x-ms-user-quota-resets-after": "00:00:05"})
    server = serve(refused, refused, answer(FOUND))
    assert graph(any_client, server).total_records == 1
    assert [request.method for request in server.requests] == ["POST"] * 3
    assert len({request.body for request in server.requests}) == 1
    assert all(5 <= slept <= 5.5 for slept in clock.sleeps)


def test_a_query_is_sent_again_after_a_broken_connection(
    serve: Make, any_client: Make, answer: Make, Answer: Any, clock: Any
) -> None:
    """azure-sdk-for-python 31771, azure-cli 31459."""
    server = serve(Answer(reset=True), answer(FOUND))
    assert graph(any_client, server).total_records == 1
    assert len(server.requests) == 2


TOO_MANY = {
    "code": "OperationNotAllowed",
    "message": "The server rejected the request because too many requests have been received for this subscription.",
    "details": [
        {
            "code": "TooManyRequests",
            "target": "HighCostGet30Min",
            "message": json.dumps({"operationGroup": "HighCostGet30Min", "allowedRequestCount": 900}),
        }
    ],
    "innererror": {"internalErrorCode": "TooManyRequestsReceived"},
}


def vms(any_client: Make, server: Any, **options: Any) -> Any:
    """All virtual machines."""
    run = any_client("azure.mgmt.compute", "ComputeManagementClient", server, **options)
    return run(lambda client: client.virtual_machines.list_all())


def refused_by_compute(Answer: Any, seconds: int) -> Any:
    headers = {
        "Content-Type": "application/json",
        "Retry-After": str(seconds),
        "x-ms-request-id": "1",
        "x-ms-ratelimit-remaining-resource": "Microsoft.Compute/HighCostGet3Min;46,Microsoft.Compute/HighCostGet30Min;0",
    }
    return Answer(429, json.dumps(TOO_MANY).encode(), headers)


def test_compute_wants_a_short_pause(serve: Make, any_client: Make, answer: Make, Answer: Any, clock: Any) -> None:
    server = serve(refused_by_compute(Answer, 90), refused_by_compute(Answer, 60), answer({"value": [{"name": "vm"}]}))
    assert [vm.name for vm in vms(any_client, server)] == ["vm"]
    assert 90 <= clock.sleeps[0] <= 90.5
    assert 60 <= clock.sleeps[1] <= 60.5


def test_compute_wants_a_pause_that_is_not_worth_waiting_for(
    serve: Make, any_client: Make, Answer: Any, clock: Any, history: Make
) -> None:
    """terraform-provider-azurerm 17747: who asks during the window lengthens it."""
    server = serve(refused_by_compute(Answer, 1200))
    with pytest.raises(HttpResponseError) as caught:
        vms(any_client, server)
    assert len(server.requests) == 1
    assert clock.sleeps == []
    told = history(caught.value)
    assert (told.reason, told.attempts[0].code) == ("max_header_delay", "TooManyRequests")
    assert told.retry_at == datetime.fromtimestamp(clock.wall() + 1200, timezone.utc)


def test_a_pause_in_the_text_alone(serve: Make, pipeline: Make, Answer: Any, clock: Any, history: Make) -> None:
    """azqr 34."""
    body = b'{"error": {"code": "ResourceRequestsThrottled", "message": "Number of requests for action exceeded the limit. '
    server = serve(Answer(429, body + b"Please try again after '372' seconds.\"}}"))
    response = pipeline(server).send("GET", f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Cdn/profiles")
    told = history(response)
    assert (told.reason, len(server.requests)) == ("max_header_delay", 1)
    assert told.retry_at == datetime.fromtimestamp(clock.wall() + 372, timezone.utc)


def test_a_window_of_five_minutes(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    """cloudquery 11225: the storage provider lists a hundred times in five minutes, and says nothing of when it will again."""
    server = serve(*[error(429, "TooManyRequests")] * 8, answer({"value": []}))
    assert pipeline(server).send("GET", ACCOUNTS).status_code == 200
    assert len(server.requests) == 9
    assert 10 < sum(clock.sleeps) <= 8 * 20.5


@pytest.mark.parametrize(
    ("headers", "low"),
    [
        ({}, 0.0),
        ({"x-ms-ratelimit-microsoft.costmanagement-entity-retry-after": "17"}, 17.0),
        ({"x-ms-ratelimit-microsoft.costmanagement-client-retry-after": "26", "Retry-After": ""}, 26.0),
    ],
)
def test_cost_queries(
    headers: dict[str, str], low: float, serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any
) -> None:
    """cloud-custodian 9346, azqr 745 and 1025, azure-cost-exporter 8: a POST, and often without any header."""
    server = serve(error(429, "429", headers), error(429, "429", headers), answer({"properties": {"rows": []}}))
    assert pipeline(server).send("POST", COSTS, json={"type": "Usage"}).status_code == 200
    assert all(low <= slept <= low + 3.5 for slept in clock.sleeps)
    assert len(clock.sleeps) == 2


def test_unavailable_means_throttled_where_the_provider_says_how_long(
    serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any, history: Make
) -> None:
    """azure-cli 28075."""
    busy = error(503, "ServiceUnavailable", {"x-ms-failure-cause": "service", "Retry-After": "9"})
    server = serve(*[busy] * 5, answer({"value": []}))
    assert pipeline(server).send("GET", ACCOUNTS).status_code == 200
    assert len(server.requests) == 6  # more than the three that a broken server would get
    server = serve(error(503, "ServiceUnavailable", {"x-ms-failure-cause": "service"}))
    assert history(pipeline(server).send("GET", ACCOUNTS)).reason == "transient_retries"


@pytest.mark.parametrize(
    ("code", "requests", "reason"),
    [
        ("RetryableErrorDueToAnotherOperation", 9, "max_retries"),  # another writer's lock
        ("QuotaExceeded", 1, "not_retryable"),  # for the day
    ],
)
def test_a_429_that_is_no_rate(
    code: str, requests: int, reason: str, serve: Make, pipeline: Make, error: Make, clock: Any, history: Make
) -> None:
    server = serve(error(429, code))
    assert history(pipeline(server).send("GET", ACCOUNTS)).reason == reason
    assert len(server.requests) == requests


def test_a_429_of_a_proxy_is_no_throttle_of_azures(serve: Make, pipeline: Make, Answer: Any, clock: Any, history: Make) -> None:
    server = serve(Answer(429, b"<html><body>Web filter</body></html>", {"Content-Type": "text/html"}))
    told = history(pipeline(server).send("GET", ACCOUNTS))
    assert {attempt.outcome for attempt in told.attempts} == {"transient"}
    assert len(server.requests) == 4


def test_what_was_lost_in_the_middle_of_pages_is_said(
    serve: Make, manager: Make, error: Make, answer: Make, clock: Any
) -> None:
    """AzureHound 65, komiser 1405: what was seen must not pass for all."""
    server, report = serve(), Report()
    link = f"{server.url}/subscriptions/{SUBSCRIPTION}/resourcegroups?page=2"
    server.say(answer({"value": [{"name": "g1"}], "nextLink": link}), error())
    with pytest.raises(HttpResponseError):
        manager(server, listeners=[report])(lambda client: client.resource_groups.list())
    assert (report.total.calls, report.total.lost) == (2, 1)
    (lost,) = report.lost
    assert (lost.reason, lost.page) == ("max_retries", 2)


def test_clients_that_were_throttled_together_do_not_return_together(
    serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any
) -> None:
    """azure-sdk-for-python 43347."""
    for headers in ({}, {"Retry-After": "5"}):
        clock.sleeps.clear()
        for _ in range(12):
            assert pipeline(serve(error(headers=headers), answer())).send("GET", ACCOUNTS).status_code == 200
        assert len({round(slept, 3) for slept in clock.sleeps}) > 6


def test_sixteen_threads_on_one_client(
    serve: Make, error: Make, answer: Make, engine: Make, clock: Any, ResourceManagementClient: Any
) -> None:
    from cloudretry.azure.clients import make

    report = Report()
    server = serve(*[error()] * 40, answer({"name": "one"}))
    given = {"base_url": server.url, "authentication_policy": SansIOHTTPPolicy()}
    # No real time passes, so one call may meet all of the errors.
    ours = engine({"max_retries": 40, "time_budget": "24h"}, listeners=[report])
    with (
        make(ResourceManagementClient, ours, credential=object(), subscription_id=SUBSCRIPTION, **given) as client,
        ThreadPoolExecutor(16) as pool,
    ):
        names = [group.name for group in pool.map(lambda _: client.resource_groups.get("one"), range(160))]
    assert names == ["one"] * 160
    assert (report.total.calls, report.total.attempts, report.total.throttled, report.total.lost) == (160, 200, 40, 0)
    assert len(server.requests) == 200


class Tokens:
    """A credential that gives a new token each time, and notes with which claims."""

    def __init__(self) -> None:
        self.claims: list[str | None] = []

    def get_token(self, *_: str, claims: str | None = None, **__: Any) -> Any:
        from azure.core.credentials import AccessToken

        self.claims.append(claims)
        return AccessToken(f"token-{len(self.claims)}", 9_999_999_999)


class AsyncTokens(Tokens):
    async def get_token(self, *scopes: str, **options: Any) -> Any:
        return super().get_token(*scopes, **options)

    async def close(self) -> None:
        pass


CHALLENGE = 'Bearer authorization_uri="https://login.example/", error="insufficient_claims", claims="eyJhIjoxfQ=="'


@pytest.mark.parametrize("manager", ["sync", "aio"], indirect=True)
def test_a_challenge_for_other_claims_is_met_beneath_us(
    request: pytest.FixtureRequest, serve: Make, manager: Make, error: Make, answer: Make, clock: Any
) -> None:
    challenge = error(401, "InvalidAuthenticationToken", {"WWW-Authenticate": CHALLENGE})
    server, report = serve(error(), challenge, error(), answer({"name": "one"})), Report()
    credential = AsyncTokens() if "aio" in request.node.callspec.id else Tokens()
    run = manager(server, listeners=[report], credential=credential, authentication_policy=None)
    assert run(lambda client: client.resource_groups.get("one", enforce_https=False)).name == "one"
    assert [sent.headers["Authorization"] for sent in server.requests] == [
        "Bearer token-1",
        "Bearer token-1",
        "Bearer token-2",
        "Bearer token-2",
    ]
    assert credential.claims == [None, '{"a":1}']
    assert (report.total.calls, report.total.attempts) == (1, 3)  # the challenge and its answer are one attempt


def test_a_redirect_is_followed_and_keeps_its_caps(serve: Make, manager: Make, error: Make, Answer: Any, clock: Any) -> None:
    target = serve(error())
    place = Answer(307, b"", {"Location": f"{target.url}/elsewhere"})
    first = serve(error(), place)
    with pytest.raises(HttpResponseError) as caught:
        manager(first)(lambda client: client.resource_groups.get("one", retry_total=2))
    assert caught.value.status_code == 429
    assert (len(first.requests), len(target.requests)) == (2, 3)
    assert all("Authorization" not in request.headers for request in target.requests)
