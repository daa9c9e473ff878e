"""Regions that don't answer: one short connection, not a minute for each attempt."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

from cloudretry import Report, attach, history
from cloudretry.core.reach import Reachability
from cloudretry.runtime.reach import REACH

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    REACH.forget()
    yield
    REACH.forget()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Host names that lead to a port on loopback, or are unknown (None); `asked` counts the look-ups."""
    known: dict[str, Any] = {"asked": []}
    real = socket.getaddrinfo

    def look_up(host: str, *args: Any, **kwargs: Any) -> Any:
        known["asked"].append(host)
        if known.get(host, "") is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real("127.0.0.1" if host in known else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
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


def client(url: str, report: Report, **options: Any) -> Any:
    session: Any = boto3.Session(region_name="eu-west-1")
    return attach(session.client("ec2", endpoint_url=url, config=Config(**options)), configuration={}, report=report)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts as long enough to wait for a connection, so that no test waits five seconds."""
    monkeypatch.setattr("cloudretry.runtime.reach.CONNECT_TIMEOUT", 0.2)


@pytest.mark.usefixtures("short")
def test_a_region_that_never_answers_costs_one_connection(names: Any, silent_port: int, clock: Any) -> None:
    names["ec2.dead-1.example.com"] = "loopback"
    report = Report()
    url = f"http://ec2.dead-1.example.com:{silent_port}"
    one, other = (client(url, report, connect_timeout=0.2) for _ in range(2))
    with pytest.raises(ConnectTimeoutError) as caught:
        one.describe_regions()
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("unreachable", 1)
    for again in (one, other):
        with pytest.raises(EndpointConnectionError, match="dead-1"):
            again.describe_vpcs()
    assert names["asked"].count("ec2.dead-1.example.com") == 1
    assert clock.sleeps == []
    assert report.total.lost == 3
    assert all("reason=unreachable" in str(line) for line in report.lost)


def test_a_region_without_a_name_costs_one_look_up(names: Any, clock: Any) -> None:
    names["ec2.none-1.example.com"] = None
    report = Report()
    hooked = client("http://ec2.none-1.example.com", report)
    for _ in range(3):
        with pytest.raises(EndpointConnectionError):
            hooked.describe_regions()
    assert names["asked"].count("ec2.none-1.example.com") == 1
    clock.advance(31)
    with pytest.raises(EndpointConnectionError):
        hooked.describe_regions()
    assert names["asked"].count("ec2.none-1.example.com") == 2
    assert clock.sleeps == []


def test_a_host_that_has_answered_is_only_broken(names: Any, serve: Make, answer: Make, clock: Any) -> None:
    server = serve(answer("ec2"))
    port = server.url.rpartition(":")[2]
    names["ec2.live-1.example.com"] = "loopback"
    hooked = client(f"http://ec2.live-1.example.com:{port}", Report())
    hooked.describe_regions()
    names["ec2.live-1.example.com"] = None
    hooked.close()  # a kept-alive connection needs no name
    with pytest.raises(EndpointConnectionError) as caught:
        hooked.describe_regions()
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("transient_retries", 4)
    assert len(clock.sleeps) == 3


def test_a_server_on_an_address_may_be_just_starting(clock: Any) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        hooked = client(f"http://127.0.0.1:{nobody.getsockname()[1]}", Report())
        for call in (hooked.describe_regions, hooked.describe_vpcs):
            with pytest.raises(EndpointConnectionError) as caught:
                call()
            told = history(caught.value)
            assert told is not None
            assert told.reason == "transient_retries"
    assert len(clock.sleeps) == 6


@pytest.mark.parametrize(("given", "expected"), [(None, 5.0), (17, 17), (2, 2)])
def test_a_connection_may_take_five_seconds_unless_the_user_says_otherwise(given: int | None, expected: float) -> None:
    hooked = client("http://127.0.0.1:9", Report(), **({} if given is None else {"connect_timeout": given}))
    timeout = hooked._endpoint.http_session._manager.connection_pool_kw["timeout"]
    assert timeout.connect_timeout == expected
    assert timeout.read_timeout == 60


def test_the_pause_grows_and_ends() -> None:
    reach = Reachability()
    pauses, now = [], 0.0
    for _ in range(5):
        assert reach.missed("host", now, 5.0)
        low, high = 0.0, 10_000.0
        while high - low > 0.5:
            middle = (low + high) / 2
            low, high = (middle, high) if reach.is_unreachable("host", now + middle, 5.0) else (low, middle)
        pauses.append(round(high))
        now += high
    assert pauses == [30, 120, 480, 1920, 3600]
    reach.reached("host")
    assert not reach.is_unreachable("host", now, 5.0)
    assert not reach.missed("host", now, 5.0)


@pytest.mark.usefixtures("short")
def test_less_patience_proves_nothing_and_more_patience_may_try(names: Any, silent_port: int, clock: Any) -> None:
    names["ec2.slow-1.example.com"] = "loopback"
    url = f"http://ec2.slow-1.example.com:{silent_port}"
    with pytest.raises(ConnectTimeoutError) as caught:
        client(url, Report(), connect_timeout=0.1).describe_regions()
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("transient_retries", 4)
    with pytest.raises(ConnectTimeoutError):
        client(url, Report(), connect_timeout=0.2).describe_regions()
    looked_up = names["asked"].count("ec2.slow-1.example.com")
    with pytest.raises(ConnectTimeoutError):
        client(url, Report(), connect_timeout=0.3).describe_regions()
    assert names["asked"].count("ec2.slow-1.example.com") == looked_up + 1
    assert len(clock.sleeps) == 3


def test_what_one_way_can_not_reach_a_proxy_may(names: Any, serve: Make, answer: Make, clock: Any) -> None:
    names["ec2.corp-1.example.com"] = None
    proxy = serve(answer("ec2"))
    with pytest.raises(EndpointConnectionError):
        client("http://ec2.corp-1.example.com", Report()).describe_regions()
    client("http://ec2.corp-1.example.com", Report(), proxies={"http": proxy.url}).describe_regions()
    assert len(proxy.requests) == 1
    assert clock.sleeps == []
