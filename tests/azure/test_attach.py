"""Clients and pipelines that exist already: put under cloudretry in place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from azure.core import AsyncPipelineClient, PipelineClient
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline import Pipeline
from azure.core.pipeline.policies import AsyncRetryPolicy, HTTPPolicy, RetryPolicy, SansIOHTTPPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest

from cloudretry import Report, attach, history

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
SUBSCRIPTION = "00000000-0000-0000-0000-0000000000aa"
PATH = f"/subscriptions/{SUBSCRIPTION}/resourcegroups"


class Token:
    """A credential, of which nothing is asked."""


@pytest.fixture
def resources(ResourceManagementClient: Any) -> Make:
    """A client as a script makes it."""
    return lambda server, **options: ResourceManagementClient(
        Token(), SUBSCRIPTION, **{"base_url": server.url, "authentication_policy": SansIOHTTPPolicy(), **options}
    )


def test_a_client_that_exists(serve: Make, resources: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(answer({"name": "one"}), error(), error(), answer({"name": "two"}), error())
    client, report = resources(server), Report()
    client.resource_groups.get("one")
    assert attach(client, configuration={"azure": {"max_retries": 4}}, report=report) is client
    assert client.resource_groups.get("two").name == "two"
    with pytest.raises(HttpResponseError) as caught:
        client.resource_groups.get("three")
    assert len(server.requests) == 1 + 3 + 5
    assert (report.total.calls, report.total.throttled, report.total.lost) == (2, 7, 1)
    told = history(caught.value)
    assert told is not None
    assert told.reason == "max_retries"


def test_an_aio_client_that_exists(
    serve: Make, error: Make, answer: Make, clock: Any, AsyncResourceManagementClient: Any
) -> None:
    server = serve(error(), error(), answer({"name": "one"}))

    async def main() -> Any:
        given = {"base_url": server.url, "authentication_policy": SansIOHTTPPolicy()}
        async with attach(AsyncResourceManagementClient(Token(), SUBSCRIPTION, **given), configuration={}) as client:
            return await client.resource_groups.get("one")

    assert asyncio.run(main()).name == "one"
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 2


@pytest.mark.parametrize("kind", [Pipeline, PipelineClient])
def test_a_pipeline(kind: type, serve: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(error(), answer({"value": []}))
    policies = [RetryPolicy()]
    bare: Any = Pipeline(RequestsTransport(), policies) if kind is Pipeline else PipelineClient(server.url, policies=policies)
    with attach(bare, configuration={}) as attached:
        assert attached is bare
        request = HttpRequest("GET", server.url + PATH)
        response = attached.run(request).http_response if kind is Pipeline else attached.send_request(request)
    assert response.status_code == 200
    assert len(clock.sleeps) == 1


def test_an_aio_pipeline_client(serve: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(error(), answer({"value": []}))

    async def main() -> int:
        bare: Any = AsyncPipelineClient(server.url, policies=[AsyncRetryPolicy()])
        async with attach(bare, configuration={}) as client:
            return int((await client.send_request(HttpRequest("GET", server.url + PATH))).status_code)

    assert asyncio.run(main()) == 200
    assert len(clock.sleeps) == 1


def test_a_client_around_a_client(serve: Make, error: Make, answer: Make, clock: Any) -> None:
    """As Key Vault's: the generated client lies beneath the one that a script holds."""

    class Generated:
        def __init__(self, url: str) -> None:
            self._client: Any = PipelineClient(url, policies=[RetryPolicy()])

    class SecretClient:
        def __init__(self, url: str) -> None:
            self._vault_url, self._client = url, Generated(url)

        def get_secret(self) -> int:
            return int(self._client._client.send_request(HttpRequest("GET", f"{self._vault_url}/secrets/s")).status_code)

    server = serve(error(), answer())
    assert attach(SecretClient(server.url), configuration={}).get_secret() == 200
    assert len(clock.sleeps) == 1


def test_twice_is_once_and_what_is_given_then_holds(serve: Make, resources: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    first, second = Report(), Report()
    client = attach(resources(server), configuration={"azure": {"max_retries": 2}}, report=first)
    policies = client._client._pipeline._impl_policies
    before = [*policies]

    def requests() -> int:
        done = len(server.requests)
        clock.advance(180)  # another call, no round of a loop
        with pytest.raises(HttpResponseError):
            client.resource_groups.get("one")
        return len(server.requests) - done

    assert requests() == 3
    attach(client)
    assert requests() == 3
    attach(client, report=second)
    assert requests() == 3
    attach(client, configuration={"azure": {"max_retries": 1}})
    assert requests() == 2
    assert [*policies] == before
    assert (first.total.calls, second.total.calls) == (4, 2)


def test_the_kill_switch(serve: Make, resources: Make, monkeypatch: pytest.MonkeyPatch, answer: Make) -> None:
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "1")
    client = attach(resources(serve(answer())))
    kinds = {type(policy) for policy in client._client._pipeline._impl_policies}
    assert RetryPolicy in kinds


@pytest.mark.parametrize("thing", [7, "x", object(), Token()])
def test_anything_else(thing: object) -> None:
    with pytest.raises(TypeError, match=type(thing).__name__):
        attach(thing)


class Stubborn(RetryPolicy[Any, Any]):
    """A user's own, which keeps count in itself."""

    failures = 0

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        self.failures += response.http_response.status_code >= 400
        return self.failures < 3 and response.http_response.status_code >= 400

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        return 0.001


class Own(HTTPPolicy[Any, Any]):
    """A user's own loop, of no kind that we know."""

    failures = 0

    def send(self, request: Any) -> Any:
        for _ in range(3):
            response = self.next.send(request)
            if response.http_response.status_code < 400:
                break
            self.failures += 1
        return response


class OwnRetry(Own):
    pass


@pytest.mark.parametrize("policy", [Stubborn(), OwnRetry()])
def test_a_users_own_policy_goes_on_deciding(
    policy: Any, serve: Make, resources: Make, error: Make, caplog: pytest.LogCaptureFixture
) -> None:
    server, report = serve(error()), Report()
    kind = type(policy)
    client = attach(resources(server, policies=[policy]), configuration={}, report=report)
    attach(client)
    with pytest.raises(HttpResponseError) as caught:
        client.resource_groups.get("one")
    assert isinstance(policy, kind)
    assert policy.failures == 3
    assert len(server.requests) == 3
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("sdk", 3)
    assert (report.total.calls, report.total.throttled) == (1, 3)
    assert caplog.text.count(f"{kind.__name__} decides by itself") <= 1


def test_a_users_own_policy_that_needs_our_names_is_left_alone(
    serve: Make, resources: Make, error: Make, caplog: pytest.LogCaptureFixture
) -> None:
    class BusyRetryPolicy(RetryPolicy[Any, Any]):
        def __init__(self) -> None:
            super().__init__(retry_backoff_factor=0.001)
            self.engine = "a database's"

    server, policy = serve(error()), BusyRetryPolicy()
    client = attach(resources(server, policies=[policy]), configuration={})
    with pytest.raises(HttpResponseError):
        client.resource_groups.get("one")
    assert (type(policy), policy.engine, len(server.requests)) == (BusyRetryPolicy, "a database's", 4)
    assert "BusyRetryPolicy is left alone" in caplog.text


def test_a_users_own_policy_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    class OnceRetryPolicy(RetryPolicy[Any, Any]):
        def get_backoff_time(self, settings: dict[str, Any]) -> float:
            return 42.0

    for _ in range(3):
        attach(OnceRetryPolicy(), configuration={})
    assert caplog.text.count("OnceRetryPolicy decides by itself") == 1


def test_a_subclass_that_decides_nothing_is_one_of_the_sdks(serve: Make, resources: Make, error: Make, clock: Any) -> None:
    class Named(RetryPolicy[Any, Any]):
        def __init__(self) -> None:
            super().__init__(retry_total=10)

    server = serve(error())
    client = attach(resources(server, retry_policy=Named()), configuration={"azure": {"max_retries": 5}})
    with pytest.raises(HttpResponseError):
        client.resource_groups.get("one")
    assert len(server.requests) == 6


def test_a_client_without_any_retry_is_reported(
    serve: Make, resources: Make, error: Make, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(error())
    client = attach(resources(server, policies=[]), configuration={})
    with pytest.raises(HttpResponseError) as caught:
        client.resource_groups.get("one")
    assert history(caught.value) is None
    assert "has no retry policy" in caplog.text


def test_a_client_for_one_attempt_stays_one(serve: Make, resources: Make, error: Make) -> None:
    server = serve(error())
    client = attach(resources(server, retry_policy=RetryPolicy.no_retries()), configuration={})
    with pytest.raises(HttpResponseError) as caught:
        client.resource_groups.get("one")
    assert len(server.requests) == 1
    told = history(caught.value)
    assert told is not None
    assert told.reason == "max_retries"


def test_another_number_of_retries_is_reported(
    serve: Make, resources: Make, error: Make, clock: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloudretry.azure.policy._reported", set())
    server = serve(error())
    client = attach(resources(server, retry_policy=RetryPolicy(retry_total=23)), configuration={"azure": {"max_retries": 1}})
    with pytest.raises(HttpResponseError):
        client.resource_groups.get("one")
    assert len(server.requests) == 2
    assert "23 retries is not used" in caplog.text


def test_the_credentials_pipeline_is_left_alone(serve: Make, ResourceManagementClient: Any, answer: Make) -> None:
    class WithAPipeline:
        def __init__(self) -> None:
            self._pipeline = Pipeline(RequestsTransport(), [RetryPolicy()])

        def get_token(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    credential = WithAPipeline()
    attach(ResourceManagementClient(credential, SUBSCRIPTION, base_url="https://x.example"), configuration={})
    (policy,) = credential._pipeline._impl_policies
    assert type(policy) is RetryPolicy


def test_the_account_of_a_client_whose_urls_have_none(serve: Make, error: Make, history: Make) -> None:
    server = serve(error(404, "SecretNotFound"))
    client: Any = attach(PipelineClient(server.url, policies=[RetryPolicy()]), configuration={}, account="aa")
    with client:
        response = client.send_request(HttpRequest("GET", f"{server.url}/secrets/s"))
    assert history(response).call.endswith("@aa/-")
