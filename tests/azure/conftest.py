"""Clients on a loopback server, sync and aio behind one spelling, and what Resource Manager answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cloudretry.azure.carry import carried
from cloudretry.config import load_configuration
from cloudretry.core.history import History
from cloudretry.runtime.engine import Engine
from cloudretry.testing import virtual_clock

pytest.importorskip("azure.core")

SUBSCRIPTION = "00000000-0000-0000-0000-0000000000aa"
GROUPS = f"/subscriptions/{SUBSCRIPTION}/resourcegroups"


@pytest.fixture
def clock() -> Iterator[Any]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def engine() -> Callable[..., Engine]:
    """An engine under the `azure` entry with these settings."""

    def make(azure: dict[str, Any] | None = None, listeners: Any = ()) -> Engine:
        return Engine(load_configuration({"azure": azure or {}}).settings, listeners=listeners)

    return make


@pytest.fixture(params=["requests", "aiohttp"])
def pipeline(request: pytest.FixtureRequest, engine: Callable[..., Engine]) -> Callable[..., Any]:
    """`pipeline(server, azure)` is a plain azure-core client under our policy; its `send(method, path, **options)` is sync."""
    kind = _Sync if request.param == "requests" else _Async
    return lambda server, azure=None, **options: kind(server.url, engine(azure, options.pop("listeners", ())), options)


class _Sync:
    def __init__(self, url: str, engine: Engine, options: dict[str, Any]) -> None:
        self.url, self.engine, self.options = url, engine, options

    def send(self, method: str, path: str, **options: Any) -> Any:
        from azure.core import PipelineClient
        from azure.core.rest import HttpRequest

        from cloudretry.azure.policy import CloudRetryPolicy

        made = {name: options.pop(name) for name in ("json", "content", "files") if name in options}
        policy = CloudRetryPolicy(engine=self.engine, **self.options)
        client: Any = PipelineClient(self.url, policies=[policy])
        with client:
            response = client.send_request(HttpRequest(method, self.url + path, **made), **options)
            if options.get("stream"):
                response.read()
            return response


class _Async(_Sync):
    def send(self, method: str, path: str, **options: Any) -> Any:
        return asyncio.run(self.send_async(method, path, **options))

    async def send_async(self, method: str, path: str, **options: Any) -> Any:
        from azure.core import AsyncPipelineClient
        from azure.core.rest import HttpRequest

        from cloudretry.azure.policy import AsyncCloudRetryPolicy

        made = {name: options.pop(name) for name in ("json", "content", "files") if name in options}
        policy = AsyncCloudRetryPolicy(engine=self.engine, **self.options)
        client: Any = AsyncPipelineClient(self.url, policies=[policy])
        async with client:
            response = await client.send_request(HttpRequest(method, self.url + path, **made), **options)
            if options.get("stream"):
                await response.read()
            return response


@pytest.fixture
def history() -> Callable[[Any], History | None]:
    """What an error, or a response that is one, carries."""

    def read(thing: Any) -> History | None:
        raw = carried(thing)
        return History.from_dict(raw) if raw is not None else None

    return read


@pytest.fixture
def error(Answer: Any) -> Callable[..., Any]:
    """An error as Resource Manager says it."""

    def make(status: int = 429, code: str = "TooManyRequests", headers: dict[str, str] | None = None) -> Any:
        body = json.dumps({"error": {"code": code, "message": "no"}}).encode()
        return Answer(status, body, {"Content-Type": "application/json", "x-ms-request-id": "1", **(headers or {})})

    return make


@pytest.fixture
def answer(Answer: Any) -> Callable[..., Any]:
    """JSON with status 200."""
    return lambda document=None, **headers: Answer(
        200, json.dumps(document or {}).encode(), {"Content-Type": "application/json", **headers}
    )


class Token:
    """A credential whose token lasts."""

    def get_token(self, *_: Any, **__: Any) -> Any:
        from azure.core.credentials import AccessToken

        return AccessToken("fake-token", 9_999_999_999)


class AsyncToken:
    """The same for aio clients."""

    async def get_token(self, *_: Any, **__: Any) -> Any:
        return Token().get_token()

    async def close(self) -> None:
        pass


@pytest.fixture(params=["sync", "aio"])
def manager(request: pytest.FixtureRequest, engine: Callable[..., Engine]) -> Callable[..., Any]:
    """`manager(server, azure)(call)` runs `call` on a real ResourceManagementClient, and collects pages and results."""
    pytest.importorskip("azure.mgmt.resource.resources")
    run = _on_aio if request.param == "aio" else _on_sync

    def make(server: Any, azure: dict[str, Any] | None = None, **options: Any) -> Callable[..., Any]:
        made = engine(azure, options.pop("listeners", ()))
        return lambda call: run(server.url, made, options, call)

    return make


def _policy() -> Any:
    """In the place of the one that wants TLS."""
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    return SansIOHTTPPolicy()


def _on_sync(url: str, engine: Engine, options: dict[str, Any], call: Callable[[Any], Any]) -> Any:
    from azure.mgmt.resource.resources import ResourceManagementClient

    from cloudretry.azure.clients import make

    given = {"credential": Token(), "subscription_id": SUBSCRIPTION, "base_url": url, "authentication_policy": _policy()}
    with make(ResourceManagementClient, engine, **{**given, **options}) as client:
        result = call(client)
        if hasattr(result, "result"):
            return result.result()
        return list(result) if hasattr(result, "by_page") else result


def _on_aio(url: str, engine: Engine, options: dict[str, Any], call: Callable[[Any], Any]) -> Any:
    from azure.mgmt.resource.resources.aio import ResourceManagementClient

    from cloudretry.azure.clients import make

    given = {"credential": AsyncToken(), "subscription_id": SUBSCRIPTION, "base_url": url, "authentication_policy": _policy()}

    async def main() -> Any:
        async with make(ResourceManagementClient, engine, **{**given, **options}) as client:
            result = call(client)
            if hasattr(result, "by_page"):
                return [item async for item in result]
            result = await result
            return await result.result() if hasattr(result, "result") else result

    return asyncio.run(main())
