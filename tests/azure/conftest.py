"""Clients on a loopback server, sync and aio behind one spelling, and what Resource Manager answers."""

from __future__ import annotations

import asyncio
import importlib
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
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


@pytest.fixture(autouse=True)
def unpaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests are about retries, whose waits they count; those of pacing say so."""
    monkeypatch.setenv("CLOUDRETRY__AZURE__PACING__MODE", "off")


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

        made = {name: options.pop(name) for name in ("json", "content", "files", "headers") if name in options}
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

        made = {name: options.pop(name) for name in ("json", "content", "files", "headers") if name in options}
        policy = AsyncCloudRetryPolicy(engine=self.engine, **self.options)
        client: Any = AsyncPipelineClient(self.url, policies=[policy])
        async with client:
            response = await client.send_request(HttpRequest(method, self.url + path, **made), **options)
            if options.get("stream"):
                await response.read()
            return response


@pytest.fixture
def say_raw() -> Iterator[Callable[[bytes], Any]]:
    """`say_raw(bytes)` starts a server that says just this to each connection, and closes it; it has a `url`."""
    with ExitStack() as servers:

        def start(text: bytes) -> Any:
            class Says(socketserver.StreamRequestHandler):
                def handle(self) -> None:
                    while self.rfile.readline().strip():
                        pass
                    self.wfile.write(text)

            server = servers.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Says))
            servers.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            return SimpleNamespace(url=f"http://127.0.0.1:{server.server_address[1]}")

        yield start


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


def resource_client(*, aio: bool = False) -> Any:
    """The class ResourceManagementClient of either layout: since azure-mgmt-resource 26 it has a package of its own."""
    for name in ("azure.mgmt.resource.resources", "azure.mgmt.resource"):
        try:
            module = importlib.import_module(f"{name}.aio" if aio else name)
        except ImportError:
            continue
        if hasattr(module, "ResourceManagementClient"):
            return module.ResourceManagementClient
    pytest.skip("azure-mgmt-resource is not installed")


@pytest.fixture(name="ResourceManagementClient")
def resource_management_client() -> Any:
    return resource_client()


@pytest.fixture(name="AsyncResourceManagementClient")
def async_resource_management_client() -> Any:
    return resource_client(aio=True)


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
    from cloudretry.azure.clients import make

    given = {"credential": Token(), "subscription_id": SUBSCRIPTION, "base_url": url, "authentication_policy": _policy()}
    with make(resource_client(), engine, **{**given, **options}) as client:
        result = call(client)
        if hasattr(result, "result"):
            return result.result()
        return list(result) if hasattr(result, "by_page") else result


def _on_aio(url: str, engine: Engine, options: dict[str, Any], call: Callable[[Any], Any]) -> Any:
    from cloudretry.azure.clients import make

    given = {"credential": AsyncToken(), "subscription_id": SUBSCRIPTION, "base_url": url, "authentication_policy": _policy()}

    async def main() -> Any:
        async with make(resource_client(aio=True), engine, **{**given, **options}) as client:
            result = call(client)
            if hasattr(result, "by_page"):
                return [item async for item in result]
            result = await result
            return await result.result() if hasattr(result, "result") else result

    return asyncio.run(main())
