"""Regions that don't answer: one short connection, not a minute for each attempt. And what a pool does with a cancelled try."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

from cloudretry import Report, attach, history
from cloudretry.aws.aio_transport import AioTransport
from cloudretry.egress.pools import pool_of
from cloudretry.runtime.reach import CONNECT_TIMEOUT, is_held_unreachable
from tests.aws.test_egress import URL, address, dead
from tests.aws.test_reach import names, nothing_known, short, silent_port

__all__ = ["names", "nothing_known", "short", "silent_port"]  # fixtures

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


@pytest.mark.usefixtures("short")
async def test_a_region_that_never_answers_costs_one_connection(create: Make, names: Any, silent_port: int, clock: Any) -> None:
    names["ec2.dead-1.example.com"] = "loopback"
    report, url = Report(), f"http://ec2.dead-1.example.com:{silent_port}"
    async with create("ec2", url, connect_timeout=0.2) as one, create("ec2", url, connect_timeout=0.2) as other:
        for client in (one, other):
            attach(client, configuration={}, report=report)
        with pytest.raises(ConnectTimeoutError) as caught:
            await one.describe_regions()
        for again in (one, other):
            with pytest.raises(EndpointConnectionError, match="dead-1"):
                await again.describe_vpcs()
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("unreachable", 1)
    assert clock.sleeps == []
    assert report.total.lost == 3


async def test_a_region_without_a_name_costs_one_look_up(create: Make, names: Any, clock: Any) -> None:
    names["ec2.none-1.example.com"] = None
    async with create("ec2", "http://ec2.none-1.example.com") as client:
        attach(client, configuration={})
        for _ in range(3):
            with pytest.raises(EndpointConnectionError):
                await client.describe_regions()
    assert names["asked"].count("ec2.none-1.example.com") == 1
    assert clock.sleeps == []


@pytest.mark.parametrize(("cause", "held"), [("PoolTimeout", False), ("ConnectTimeout", True)])
def test_that_all_connections_of_a_client_are_busy_says_nothing_of_the_host(cause: str, held: bool, clock: Any) -> None:  # noqa: FBT001 - a parameter
    error = ConnectTimeoutError(endpoint_url="http://sts.busy.example.com", error=type(cause, (Exception,), {})())
    transport = AioTransport(SimpleNamespace(_proxy_config=None), CONNECT_TIMEOUT, own_proxies=False)
    transport._missed(error, "http://sts.busy.example.com/")
    assert is_held_unreachable("sts.busy.example.com", CONNECT_TIMEOUT) is held


async def test_a_client_that_made_calls_before_connects_for_a_short_time_too(create: Make, serve: Make, answer: Make) -> None:
    async with create("sts", serve(answer("sts"))) as client:
        await client.get_caller_identity()
        attach(client, configuration={})
        opened = client._endpoint.http_session._sessions[None]
        assert opened._timeout.sock_connect == client._endpoint.http_session._timeout.sock_connect == CONNECT_TIMEOUT
        assert opened._timeout.sock_read == 60
        await client.get_caller_identity()


def pooled(client: Any, *members: Any, **pool: Any) -> Any:
    """The pool of a client that is put on one."""
    configuration = {"aws": {"pool": "p"}, "pools": {"p": {"members": list(members), **pool}}}
    return pool_of(attach(client, configuration=configuration)._cloudretry.engine, "p")


async def test_a_try_that_is_cancelled_is_nobodys_fault_and_under_way_no_more(
    create: Make, serve: Make, Answer: Any, answer: Make
) -> None:
    server = serve(Answer(silent=True))
    async with create("sts", URL) as client:
        pool = pooled(client, {**address(server), "name": "one"})
        call = asyncio.create_task(client.get_caller_identity())
        while not server.requests:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.001)
        assert pool.snapshot().members[0].in_flight == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        (member,) = pool.snapshot().members
        assert (member.in_flight, member.state) == (0, "eligible")
        server.say(answer("sts"))
        assert (await client.get_caller_identity())["Account"] == "111122223333"


async def test_who_is_cancelled_while_it_waits_for_a_member_waits_no_more(create: Make) -> None:
    async with create("sts", URL) as client:
        pool = pooled(client, dead(), cooldown={"initial": "60s", "jitter": 0}, retries=0)
        with pytest.raises(EndpointConnectionError):
            await client.get_caller_identity()
        call = asyncio.create_task(client.get_caller_identity())
        while not pool.snapshot().waiting:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert pool.snapshot().waiting == 0
