"""The command: what a script uses."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import AsyncRetryPolicy, RetryPolicy, SansIOHTTPPolicy

from cloudretry import AzureApiCommand, CloudRetryError, history

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
SUBSCRIPTION = "00000000-0000-0000-0000-0000000000aa"


class Token:
    """A credential, of which nothing is asked."""


def on(server: Any) -> dict[str, Any]:
    return {"base_url": server.url, "authentication_policy": SansIOHTTPPolicy()}


def test_a_client_of_the_command(serve: Make, error: Make, answer: Make, clock: Any, ResourceManagementClient: Any) -> None:
    server = serve(error(), answer({"name": "one"}), error())
    with AzureApiCommand(Token(), SUBSCRIPTION, configuration={"azure": {"max_retries": 2}}) as az:
        client = az.client(ResourceManagementClient, **on(server))
        assert client.resource_groups.get("one").name == "one"
        with pytest.raises(HttpResponseError) as caught:
            client.resource_groups.get("one")
    told = history(caught.value)
    assert told is not None
    assert len(told.attempts) == 3
    assert (az.report.total.calls, az.report.total.lost) == (2, 1)


def test_execute_keeps_one_client_for_each_class(serve: Make, answer: Make, ResourceManagementClient: Any) -> None:
    server = serve(answer({"value": [{"name": "a"}, {"name": "b"}]}))
    made = []

    class OnLoopback(ResourceManagementClient):  # type: ignore[misc]  # either layout's
        def __init__(self, credential: Any, subscription_id: str, **kwargs: Any) -> None:
            made.append(self)
            super().__init__(credential, subscription_id, **on(server), **kwargs)

    with AzureApiCommand(Token, SUBSCRIPTION) as az:
        for _ in range(2):
            assert [group.name for group in az.execute(OnLoopback, "resource_groups.list")] == ["a", "b"]
    assert len(made) == 1


def test_execute_on_aio(serve: Make, error: Make, answer: Make, clock: Any, AsyncResourceManagementClient: Any) -> None:
    server = serve(error(), answer({"name": "one"}))

    class OnLoopback(AsyncResourceManagementClient):  # type: ignore[misc]  # either layout's
        def __init__(self, credential: Any, subscription_id: str, **kwargs: Any) -> None:
            super().__init__(credential, subscription_id, **on(server), **kwargs)

    async def main() -> Any:
        async with AzureApiCommand(Token, SUBSCRIPTION) as az:
            return await az.execute(OnLoopback, "resource_groups.get", "one")

    assert asyncio.run(main()).name == "one"
    assert len(server.requests) == 2


def test_policies_for_any_other_client() -> None:
    az = AzureApiCommand()
    assert isinstance(az.policy(), RetryPolicy)
    assert isinstance(az.async_policy(), AsyncRetryPolicy)
    assert az.policy() is not az.policy()


def test_the_kill_switch_leaves_the_sdks_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "1")
    az = AzureApiCommand()
    assert (type(az.policy()), type(az.async_policy())) == (RetryPolicy, AsyncRetryPolicy)


def test_pickling() -> None:
    twin = pickle.loads(pickle.dumps(AzureApiCommand(Token, SUBSCRIPTION)))  # noqa: S301 - our own bytes
    assert twin.subscription_id == SUBSCRIPTION
    with pytest.raises(CloudRetryError, match="importable"):
        pickle.dumps(AzureApiCommand(Token()))
