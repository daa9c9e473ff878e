"""Hosts that don't answer: one short connection, not five minutes for each attempt."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import AzureError, ServiceRequestError

from cloudretry import Report
from cloudretry.azure import reach as azure_reach
from cloudretry.runtime.reach import REACH

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATH = "/subscriptions/aa/resourcegroups"


class At:
    """A place."""

    def __init__(self, url: str) -> None:
        self.url = url


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    REACH.forget()
    yield
    REACH.forget()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Host names that lead to loopback, or are unknown (None); `asked` counts the look-ups of both stacks."""
    known: dict[str, Any] = {"asked": []}
    real = socket.getaddrinfo

    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        known["asked"].append(name)
        if name in known and "event" in known:
            known["event"].set()
        if known.get(name, "") is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real("127.0.0.1" if name in known else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    resolver = pytest.importorskip("aiohttp").resolver
    monkeypatch.setattr("aiohttp.connector.DefaultResolver", resolver.ThreadedResolver)
    return known


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port whose queue of connections is full, so that Linux answers no further one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(3):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            waiting.append(one)
        yield port
        for one in waiting:
            one.close()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts as long enough to wait for a connection, so that no test waits five seconds."""
    monkeypatch.setattr("cloudretry.runtime.reach.CONNECT_TIMEOUT", 0.2)


@pytest.mark.usefixtures("short")
def test_a_host_that_never_answers_costs_one_connection(
    names: Any, silent_port: int, pipeline: Make, clock: Any, history: Make
) -> None:
    names["management.dead.example.com"] = "loopback"
    report = Report()
    client = pipeline(At(f"http://management.dead.example.com:{silent_port}"), listeners=[report])
    with pytest.raises(AzureError, match=r"timed out|timeout") as caught:  # older ones have no class of their own for it
        client.send("GET", PATH)
    told = history(caught.value)
    assert (told.reason, len(told.attempts)) == ("unreachable", 1)
    asked = names["asked"].count("management.dead.example.com")
    for method in ("GET", "POST"):
        with pytest.raises(ServiceRequestError, match=r"management\.dead") as caught:
            client.send(method, PATH)
        assert history(caught.value).reason == "unreachable"
    assert names["asked"].count("management.dead.example.com") == asked == 1
    assert clock.sleeps == []
    assert (report.total.calls, report.total.lost) == (3, 3)


def test_a_host_without_a_name_costs_one_look_up(names: Any, pipeline: Make, clock: Any) -> None:
    names["vault.none.example.com"] = None
    client = pipeline(At("http://vault.none.example.com"))
    for _ in range(3):
        with pytest.raises(ServiceRequestError):
            client.send("GET", PATH)
    assert names["asked"].count("vault.none.example.com") == 1
    clock.advance(31)
    with pytest.raises(ServiceRequestError):
        client.send("GET", PATH)
    assert names["asked"].count("vault.none.example.com") == 2
    assert clock.sleeps == []


def test_a_host_that_has_answered_is_only_broken(
    names: Any, serve: Make, pipeline: Make, answer: Make, clock: Any, history: Make
) -> None:
    names["management.live.example.com"] = "loopback"
    port = serve(answer()).url.rpartition(":")[2]
    client = pipeline(At(f"http://management.live.example.com:{port}"))
    client.send("GET", PATH)
    names["management.live.example.com"] = None
    with pytest.raises(ServiceRequestError) as caught:
        client.send("GET", PATH)
    told = history(caught.value)
    assert (told.reason, len(told.attempts)) == ("transient_retries", 4)


def test_behind_a_proxy_nothing_is_known_of_the_host(
    names: Any, serve: Make, answer: Make, pipeline: Make, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names["management.far.example.com"] = None
    client = pipeline(At("http://management.far.example.com"))
    with pytest.raises(ServiceRequestError):
        client.send("GET", PATH)
    proxy = serve(answer({"by": "the proxy"}))
    assert client.send("GET", PATH, proxies={"http": proxy.url}).json() == {"by": "the proxy"}
    REACH.forget()
    with pytest.raises(ServiceRequestError):
        client.send("GET", PATH)
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    assert client.send("GET", PATH).json() == {"by": "the proxy"}
    assert len(proxy.requests) == 2


def test_a_refused_connection_on_a_named_host_is_no_sign(names: Any, pipeline: Make, clock: Any, history: Make) -> None:
    names["management.starting.example.com"] = "loopback"
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        client = pipeline(At(f"http://management.starting.example.com:{nobody.getsockname()[1]}"))
        with pytest.raises(ServiceRequestError) as caught:
            client.send("GET", PATH)
    assert history(caught.value).reason == "transient_retries"


def context(timeout: object, **options: Any) -> Any:
    transport = SimpleNamespace(connection_config=SimpleNamespace(timeout=timeout))
    return SimpleNamespace(transport=transport, options=options)


@pytest.mark.parametrize(
    ("of_transport", "of_call", "expected"),
    [(300, None, 5.0), (17, None, None), (20, None, None), (300, 30, 30), (300, 2, 2), ("odd", None, None)],
)
def test_a_connection_may_take_five_seconds_unless_somebody_says_otherwise(
    of_transport: object, of_call: float | None, expected: float | None
) -> None:
    request = context(of_transport, **({} if of_call is None else {"connection_timeout": of_call}))
    azure_reach.shorten_connect_timeout(request)
    assert request.options.get("connection_timeout") == expected


def test_a_transport_without_timeouts_is_given_none() -> None:
    request = SimpleNamespace(transport=object(), options={})
    azure_reach.shorten_connect_timeout(request)  # type: ignore[arg-type]  # all that is read of it
    assert request.options == {}


def test_a_credential_that_reaches_nobody_says_nothing_of_the_host(names: Any, engine: Make, clock: Any) -> None:
    """The token endpoint's connection fails beneath the retry policy, whose own host is well."""
    from azure.core.pipeline import Pipeline
    from azure.core.pipeline.policies import HTTPPolicy
    from azure.core.pipeline.transport import RequestsTransport
    from azure.core.rest import HttpRequest

    from cloudretry.azure.policy import CloudRetryPolicy

    names["login.none.example.com"] = None

    class FetchesAToken(HTTPPolicy[Any, Any]):
        def send(self, request: Any) -> Any:
            url = "http://login.none.example.com/token?resource=http%3A%2F%2Fmanagement.well.example.com"
            with RequestsTransport() as transport:
                return transport.send(HttpRequest("GET", url))

    transport: Any = RequestsTransport()
    pipeline: Any = Pipeline(transport, [CloudRetryPolicy(engine=engine({"max_retries": 1})), FetchesAToken()])
    with pytest.raises(ServiceRequestError):
        pipeline.run(HttpRequest("GET", "http://management.well.example.com/subscriptions"))
    assert not REACH.is_unreachable("management.well.example.com", clock.monotonic(), 0.0)


def test_cancelling_during_a_connection_is_no_sign(names: Any, silent_port: int, engine: Make) -> None:
    from azure.core import AsyncPipelineClient
    from azure.core.rest import HttpRequest

    from cloudretry.azure.policy import AsyncCloudRetryPolicy

    names["management.slow.example.com"] = "loopback"
    connecting = names["event"] = threading.Event()
    url = f"http://management.slow.example.com:{silent_port}"

    async def main() -> None:
        client: Any = AsyncPipelineClient(url, policies=[AsyncCloudRetryPolicy(engine=engine())])
        async with client:
            task = asyncio.ensure_future(client.send_request(HttpRequest("GET", url + PATH)))
            await asyncio.wait_for(asyncio.to_thread(connecting.wait), 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(main(), 30))
    assert not REACH._unreachable
