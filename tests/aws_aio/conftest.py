"""aiobotocore's clients on loopback servers. Where it is not installed, as beside today's boto3, all tests here are skipped."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cloudretry import attach
from tests.aws.conftest import answer, clock, error, throttle, unpaced
from tests.aws.test_egress import URL

__all__ = ["answer", "clock", "error", "throttle", "unpaced"]  # fixtures, the same as for boto3

Make = Callable[..., Any]


class _Skipped(pytest.Module):
    def collect(self) -> Any:
        pytest.skip("aiobotocore is not installed: pip install cloudretry[aio]", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return _Skipped.from_parent(parent, path=module_path) if find_spec("aiobotocore") is None else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine function runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def backend() -> str:
    """What the clients send with: aiohttp, or httpx."""
    return "aiohttp"


@pytest.fixture
def create(backend: str) -> Make:
    """`async with create(service, server, **config) as client` is a client as it comes, on a server or at a URL."""

    def make(service: str, server: Any, session: Any = None, **options: Any) -> Any:
        from aiobotocore.config import AioConfig
        from aiobotocore.session import get_session

        if service == "s3":
            options["s3"] = {"addressing_style": "path"}
        if backend == "httpx":
            options["http_session_cls"] = pytest.importorskip("aiobotocore.httpxsession").HttpxSession
        url = getattr(server, "url", server)
        session = session or get_session()
        return session.create_client(service, region_name="eu-west-1", endpoint_url=url, config=AioConfig(**options))

    return make


# For tests that boto3's clients pass as well: clients whose calls are waited for.


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def plain(create: Make, loop: asyncio.AbstractEventLoop) -> Iterator[Make]:
    """As in tests/aws, but aiobotocore's; a call that is made outside of the event loop is waited for."""
    contexts = []

    def make(service: str, server: Any, **options: Any) -> Any:
        contexts.append(create(service, server, **options))
        client = loop.run_until_complete(contexts[-1].__aenter__())
        for name in client._PY_TO_OP_NAME:
            setattr(client, name, _waited_for(getattr(client, name), loop))
        return client

    yield make
    for context in contexts:
        loop.run_until_complete(context.__aexit__(None, None, None))
    loop.run_until_complete(asyncio.sleep(0.01))  # transports that are closing do so


@pytest.fixture
def hooked(plain: Make) -> Make:
    def make(service: str, server: Any, aws: dict[str, Any] | None = None, **options: Any) -> Any:
        return attach(plain(service, server, **options), configuration={"aws": aws or {}})

    return make


@pytest.fixture
def pooled(plain: Make) -> Make:
    def make(members: list[Any], service: str = "sts", url: str = URL, aws: Any = None, **settings: Any) -> Any:
        report, config = settings.pop("report", None), settings.pop("config", None)
        configuration = {"aws": {"pool": "p", **(aws or {})}, "pools": {"p": {"members": members, **settings}}}
        client = plain(service, url, **(config._user_provided_options if config else {}))
        return attach(client, configuration=configuration, report=report)

    return make


def _waited_for(call: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> Callable[..., Any]:
    @wraps(call)
    def wait(*args: Any, **kwargs: Any) -> Any:
        coroutine = call(*args, **kwargs)
        return coroutine if loop.is_running() else loop.run_until_complete(coroutine)

    return wait
