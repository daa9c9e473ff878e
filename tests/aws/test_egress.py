"""boto3 clients whose calls leave through a pool. Members are addresses on loopback; dead ones refuse: a SYN and a RST."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from cloudretry import Report, attach, history
from cloudretry.errors import PoolUnavailable

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
URL = "http://sts.cloud.test"  # nobody's name: only the members know the way


def address(server: Any) -> dict[str, Any]:
    return {"connect_to": server.url.removeprefix("http://")}


def dead() -> dict[str, Any]:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return {"connect_to": f"127.0.0.1:{listener.getsockname()[1]}"}


@pytest.fixture
def pooled() -> Make:
    """A client of one service whose calls leave through a pool of these members."""

    def make(members: list[Any], service: str = "sts", url: str = URL, aws: Any = None, **settings: Any) -> Any:
        report, config = settings.pop("report", None), settings.pop("config", None)
        configuration = {"aws": {"pool": "p", **(aws or {})}, "pools": {"p": {"members": members, **settings}}}
        session: Any = boto3.Session(region_name="eu-west-1")
        client = session.client(service, endpoint_url=url, config=config)
        return attach(client, configuration=configuration, report=report)

    return make


def test_a_call_leaves_through_the_pool_and_stays_what_it_was(serve: Make, pooled: Make, answer: Make) -> None:
    server = serve(answer("sts"))
    client = pooled([address(server)])
    assert client.get_caller_identity()["Account"] == "111122223333"
    assert server.requests[0].headers["Host"] == "sts.cloud.test"


def test_a_refused_connection_goes_to_the_next_member_at_once_with_a_post_too(
    serve: Make, pooled: Make, answer: Make, clock: Any
) -> None:
    server, report = serve(answer("sts")), Report()
    client = pooled([dead(), dead(), address(server)], report=report, algorithm="round_robin")
    assert client.get_caller_identity()["Account"] == "111122223333"
    assert [request.method for request in server.requests] == ["POST"]
    assert clock.sleeps == []
    assert (report.total.attempts, report.total.lost) == (1, 0)


@pytest.mark.parametrize(("members", "retries"), [(s, r) for s in range(1, 5) for r in range(5)])
def test_who_runs_out_first_decides_what_the_caller_gets(members: int, retries: int, pooled: Make, clock: Any) -> None:
    report = Report()
    client = pooled([dead() for _ in range(members)], retries=retries, report=report)
    expected = ClientError if members <= retries else EndpointConnectionError
    with pytest.raises(expected) as caught:
        client.get_caller_identity()
    told = history(caught.value)
    assert told is not None
    if isinstance(caught.value, ClientError):
        response: Any = caught.value.response
        assert response["Error"]["Code"] == "EgressPoolExhausted"
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert response["Error"]["Message"].count("127.0.0.1") == members
        assert told.reason == "pool_exhausted"
    else:
        assert told.reason == "pool_retries"
    assert (report.total.attempts, report.total.lost) == (1, 1)
    assert clock.sleeps == []  # never retried by the layer above


@pytest.mark.parametrize("service", ["ec2", "dynamodb", "lambda", "s3"])
def test_every_protocol_says_the_same_of_an_exhausted_pool(service: str, pooled: Make, clock: Any) -> None:
    client = pooled([dead()], service)
    operation = {"ec2": "describe_regions", "dynamodb": "list_tables", "lambda": "list_functions", "s3": "list_buckets"}
    with pytest.raises(ClientError, match="EgressPoolExhausted"):
        getattr(client, operation[service])()


def test_a_head_request_says_it_too(pooled: Make, clock: Any) -> None:
    client = pooled([dead()], "s3", config=Config(s3={"addressing_style": "path"}))
    with pytest.raises(ClientError, match="EgressPoolExhausted"):
        client.head_bucket(Bucket="bucket")


def test_the_original_error_instead_of_a_500_if_so_configured(pooled: Make, clock: Any) -> None:
    client = pooled([dead()], exhausted_answer="connection_error")
    with pytest.raises(EndpointConnectionError):
        client.get_caller_identity()


def test_a_pool_without_anybody_says_so_in_the_sdks_words(pooled: Make, clock: Any) -> None:
    client = pooled([{**dead(), "disabled": True, "name": "egress-a"}])
    with pytest.raises(EndpointConnectionError, match="egress-a") as caught:
        client.get_caller_identity()
    assert isinstance(caught.value, PoolUnavailable)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert str(copy) == str(caught.value)
    for error in (caught.value, copy):
        told = history(error)
        assert told is not None
        assert told.reason == "pool_unavailable"


def test_a_throttle_is_waited_for_and_cools_nobody(serve: Make, pooled: Make, throttle: Make, error: Make, clock: Any) -> None:
    server = serve(throttle("sts"), error(403, "AccessDenied"))
    client = pooled([{**address(server), "name": "one"}])
    with pytest.raises(ClientError) as caught:
        client.get_caller_identity()
    told = history(caught.value)
    assert told is not None
    assert [attempt.member for attempt in told.attempts] == ["one", "one"]
    assert len(clock.sleeps) == 1


def test_after_the_request_was_written_only_what_is_replayable_goes_again(
    serve: Make, pooled: Make, Answer: Any, answer: Make, clock: Any
) -> None:
    first, second = serve(Answer(200, b"", reset=True)), serve(answer("sts"))
    members = [{**address(first), "name": "a"}, {**address(second), "name": "b"}]
    assert pooled(members, algorithm="round_robin").get_caller_identity()["Account"] == "111122223333"
    change = pooled([{**address(serve(Answer(200, b"", reset=True))), "name": "a"}], "dynamodb")
    with pytest.raises(ConnectionClosedError) as caught:
        change.delete_table(TableName="table")
    told = history(caught.value)
    assert told is not None
    assert told.reason == "not_replayable"
    assert [(attempt.member, attempt.phase) for attempt in told.attempts] == [("a", "wait")]


def test_what_is_nobodys_business_skips_the_pool(serve: Make, pooled: Make, answer: Make) -> None:
    server = serve(answer("sts"))
    client = pooled([dead()], url=server.url)  # loopback
    assert client.get_caller_identity()["Account"] == "111122223333"
    client = pooled([dead()], url=server.url.replace("127.0.0.1", "localhost"), bypass=["elsewhere.test"])
    assert client.get_caller_identity()["Account"] == "111122223333"


def test_a_proxy_of_the_clients_own_wins_and_is_reported(
    serve: Make, pooled: Make, answer: Make, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = serve(answer("sts"))
    client = pooled([dead()], config=Config(proxies={"http": proxy.url}))
    assert client.get_caller_identity()["Account"] == "111122223333"
    assert "does not use the egress pool p: it was given proxies of its own" in caplog.text


def test_a_page_of_the_proxy_is_no_throttle_of_the_cloud(
    serve: Make, pooled: Make, Answer: Any, answer: Make, clock: Any
) -> None:
    page = Answer(503, b"<html>no</html>", {"Content-Type": "text/html", "Server": "squid"})
    proxy, report = serve(page, answer("sts")), Report()
    client = pooled([{"url": proxy.url, "name": "proxy"}], report=report, cooldown={"destinations": 100})
    assert client.get_caller_identity()["Account"] == "111122223333"
    assert (report.total.throttled, report.total.broken) == (0, 1)


def test_an_override_may_choose_another_pool(serve: Make, answer: Make) -> None:
    server = serve(answer("sts"))
    configuration = {
        "aws": {"pool": "broken", "overrides": [{"match": {"service": "sts"}, "pool": "good"}]},
        "pools": {"broken": {"members": [dead()]}, "good": {"members": [address(server)]}},
    }
    session: Any = boto3.Session(region_name="eu-west-1")
    client = attach(session.client("sts", endpoint_url=URL), configuration=configuration)
    assert client.get_caller_identity()["Account"] == "111122223333"
