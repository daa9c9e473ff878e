"""aiobotocore on httpx: the same retries; a pool is not used."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from cloudretry import Report, attach
from cloudretry.runtime.pacing import PACING
from tests.aws import test_broken_connections, test_repairs, test_requests
from tests.aws.test_broken_connections import tls
from tests.aws_aio.test_what_boto3s_clients_pass import shared

__all__ = ["tls"]

pytestmark = [
    pytest.mark.wire,
    pytest.mark.filterwarnings("ignore:aiobotocore's httpx backend now prefers httpx2:DeprecationWarning"),
]

Make = Callable[..., Any]

MODULES: tuple[Any, ...] = (test_repairs, test_requests)
if find_spec("aiobotocore._async_primitives"):  # since 3.9 it knows proxies, bundles of certificates, and trio on httpx too
    MODULES += (test_broken_connections,)

globals().update(shared(*MODULES))
del test_a_cut_answer_is_a_failed_read  # type: ignore[name-defined]  # noqa: F821 - httpx has an error of its own for that
del test_other_explicit_attempts_are_reported_once  # type: ignore[name-defined]  # noqa: F821 - in a process


@pytest.fixture
def backend() -> str:
    pytest.importorskip("httpx")
    return "httpx"


async def test_a_session_stays_one_of_httpx(create: Make, serve: Make, answer: Make) -> None:
    """aiobotocore chooses its paginators by the class of the session."""
    from aiobotocore.httpxsession import HttpxSession

    async with create("dynamodb", serve(answer("dynamodb"))) as client:
        before = client._endpoint.http_session
        attach(client, configuration={})
        assert isinstance(client._endpoint.http_session, HttpxSession)
        assert client._endpoint.http_session is not before
        assert (await client.list_tables())["TableNames"] == []


async def test_a_cut_answer_is_asked_again(create: Make, serve: Make, answer: Make, clock: Any, Answer: Any) -> None:
    whole = answer("dynamodb")
    cut = Answer(200, whole.body[:-5], {"Content-Length": str(len(whole.body)), "Connection": "close"})
    async with create("dynamodb", serve(cut, whole)) as client:
        assert (await attach(client, configuration={}).list_tables())["ResponseMetadata"]["RetryAttempts"] == 1


async def test_a_pool_is_not_used_and_that_is_said(create: Make, serve: Make, answer: Make, caplog: Any) -> None:
    server, pool = serve(answer("sts")), {"members": [{"connect_to": "127.0.0.1:9"}], "bypass": ["elsewhere.test"]}
    async with create("sts", server) as client:
        attach(client, configuration={"aws": {"pool": "p"}, "pools": {"p": pool}})
        assert (await client.get_caller_identity())["Account"] == "111122223333"
    assert "does not use the egress pool p: its HTTP session is a HttpxSession" in caplog.text


def test_under_trio_calls_are_retried_and_not_paced(
    create: Make, serve: Make, throttle: Make, answer: Make, caplog: Any
) -> None:
    trio = pytest.importorskip("trio")
    if test_broken_connections not in MODULES:
        pytest.skip("aiobotocore runs under trio since 3.9")
    server, report = serve(throttle("sts"), throttle("sts"), answer("sts")), Report()
    brief = {"base_delay": "1ms", "max_delay": "1ms", "additional_delay_window": "1ms"}

    async def call() -> Any:
        async with create("sts", server) as client:
            attach(client, configuration={"aws": {**brief, "pacing": {"mode": "adaptive"}}}, report=report)
            return await client.get_caller_identity()

    assert trio.run(call)["Account"] == "111122223333"
    assert (report.total.attempts, len(server.requests)) == (3, 3)
    assert "under trio are not paced" in caplog.text
    assert not PACING.states()
