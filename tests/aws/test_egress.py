"""boto3 clients whose calls leave through a pool. Members are addresses on loopback; dead ones refuse: a SYN and a RST."""

from __future__ import annotations

import contextlib
import json
import pickle
import socket
import ssl
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
import trustme
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    IncompleteReadError,
    ResponseStreamingError,
    SSLError,
)
from botocore.parsers import ResponseParserError

from cloudretry import Report, attach, history
from cloudretry.core.events import MemberChanged
from cloudretry.core.outcome import Phase
from cloudretry.core.pool_settings import Member, PoolSettings
from cloudretry.core.tries import Reason, TryEnd
from cloudretry.egress.passage import Journey
from cloudretry.egress.pool import EgressPool
from cloudretry.errors import ConfigurationError, PoolUnavailable
from tests.egress import faults

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
BRIEF = {"initial": "1ms", "max": "1ms", "jitter": 0}
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
        assert (told.reason, told.retry_at, error.retry_at) == ("pool_unavailable", None, None)  # nobody brings it back


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


PAGE = b"<html><body>please log in</body></html>"


@pytest.mark.parametrize(
    ("service", "operation", "arguments", "times"),
    [
        ("iam", "delete_user", {"UserName": "u"}, 1),
        ("ec2", "terminate_instances", {"InstanceIds": ["i-1"]}, 1),
        ("lambda", "invoke", {"FunctionName": "f"}, 1),
        ("sts", "get_caller_identity", {}, 4),
        ("s3", "list_buckets", {}, 4),
        ("s3", "get_object", {"Bucket": "b", "Key": "k"}, 4),
    ],
)
def test_a_portals_page_never_passes_as_a_success(
    service: str, operation: str, arguments: Any, times: int, serve: Make, pooled: Make, Answer: Any, clock: Any
) -> None:
    proxy = serve(Answer(200, PAGE, {"Content-Type": "text/html"}))
    path_style = Config(s3={"addressing_style": "path"})
    client = pooled([{"url": proxy.url, "name": "portal"}], service, config=path_style, cooldown=BRIEF)
    with pytest.raises(ResponseParserError, match="a page of a proxy") as caught:
        getattr(client, operation)(**arguments)
    told = history(caught.value)
    assert told is not None
    assert {(attempt.member, attempt.phase, attempt.status) for attempt in told.attempts} == {("portal", "wait", 200)}
    assert len(proxy.requests) == times


def test_rotated_credentials_are_read_again_by_every_client(
    serve: Make, pooled: Make, Answer: Any, answer: Make, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGIN", "user:old")
    proxy = serve(answer("sts"), answer("sts"), Answer(407), answer("sts"))
    clients = [pooled([{"url": "http://${env:LOGIN}@" + proxy.url[7:], "name": "rotated"}]) for _ in range(2)]
    for client in clients:
        client.get_caller_identity()
    monkeypatch.setenv("LOGIN", "user:new")
    with pytest.raises(ClientError, match="EgressPoolExhausted"):
        clients[0].get_caller_identity()
    for client in clients:
        client.get_caller_identity()
    sent = [b64decode(request.headers["Proxy-Authorization"].split()[1]) for request in proxy.requests]
    assert sent == [b"user:old"] * 3 + [b"user:new"] * 2


def test_a_probe_that_can_not_be_sent_does_not_go_round_for_ever(
    serve: Make, pooled: Make, Answer: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGIN", "user:old")
    proxy, probe = serve(Answer(407)), {"kind": "https_get", "url": "http://probe.cloud.test/"}
    client = pooled([{"url": "http://${env:LOGIN}@" + proxy.url[7:]}], probe=probe, cooldown={"auth_recheck": "1s"})
    for _ in range(2):
        with pytest.raises(ClientError):
            client.get_caller_identity()
    monkeypatch.delenv("LOGIN")
    with pytest.raises(ConfigurationError, match="LOGIN"):
        client.get_caller_identity()


def test_waiting_for_a_member_is_told_and_bounded(pooled: Make, clock: Any) -> None:
    report = Report()
    client = pooled([dead()], retries=0, report=report, cooldown={"initial": "60s", "jitter": 0}, aws={"time_budget": "100s"})
    waits = []
    for _ in range(3):  # refused; a trial after 60 s, refused; 120 s would be too long
        with pytest.raises(EndpointConnectionError) as caught:
            client.get_caller_identity()
        told = history(caught.value)
        assert told is not None
        waits.append(told.total_wait)
    assert waits == [0, 60, 0]
    assert report.total.waited == 60
    assert isinstance(caught.value, PoolUnavailable)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    for error in (caught.value, copy):
        told = history(error)
        assert told is not None
        assert error.retry_at == told.retry_at == datetime.fromtimestamp(clock.wall() + 120, timezone.utc)


@pytest.mark.parametrize("how", [None, 64])
def test_a_body_that_is_cut_while_the_caller_reads_is_recorded(serve: Make, pooled: Make, Answer: Any, how: int | None) -> None:
    server = serve(Answer(200, b"x" * 100, {"Content-Length": "1000", "x-amz-request-id": "1"}, hang_up=True))
    changes: list[Any] = []
    members, path_style = [{**address(server), "name": "cut"}], Config(s3={"addressing_style": "path"})
    client = pooled(members, "s3", config=path_style, report=Report(changes.append))
    body = client.get_object(Bucket="b", Key="k")["Body"]
    with pytest.raises((ResponseStreamingError, IncompleteReadError)):  # which of them depends on botocore's version
        list(iter(partial(body.read, how), b""))
    steps = [change.transition for change in changes if isinstance(change, MemberChanged)]
    assert [(step.destination, step.reason, step.phase) for step in steps] == [("sts.cloud.test", Reason.RESET, Phase.BODY)]


def test_more_certificates_hold_at_once(serve: Make, answer: Make, clock: Any, tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("sts.cloud.test").configure_cert(context)
    server, file, bundle = serve(answer("sts"), tls=context), tmp_path / "settings.json", tmp_path / "authority.pem"
    trustme.CA().cert_pem.write_to_path(str(bundle))
    pool: dict[str, Any] = {"members": [{"connect_to": server.url.removeprefix("https://")}]}

    def configure(**settings: Any) -> None:
        file.write_text(json.dumps({"aws": {"pool": "p"}, "pools": {"p": {**pool, **settings}}}))

    configure()
    session: Any = boto3.Session(region_name="eu-west-1")
    client = attach(session.client("sts", endpoint_url="https://sts.cloud.test"), configuration=str(file))
    with pytest.raises(SSLError):
        client.get_caller_identity()
    configure(ca_bundle=str(bundle))
    with pytest.raises(SSLError):
        _until_taken(client, clock)
    authority.cert_pem.write_to_path(str(bundle))  # in the same file
    clock.sleep(1000)
    assert client.get_caller_identity()["Account"] == "111122223333"
    assert server.requests[0].headers["Host"] == "sts.cloud.test"


def _until_taken(client: Any, clock: Any) -> None:
    for _ in range(3):  # seen, settled, taken
        clock.sleep(2)
        with contextlib.suppress(PoolUnavailable):
            client.get_caller_identity()


def test_what_an_attempt_came_to_is_judged_once() -> None:
    """The next one may go past the pool, as after a redirect."""
    pool = EgressPool(PoolSettings(name="p", members=(Member(name="m", direct=True),)))
    journey = Journey(pool, pool.tries())
    journey.end = TryEnd(phase=Phase.WAIT, reason=Reason.RESET)
    first = journey.seen(None)
    assert first is not None
    assert first.phase is Phase.WAIT
    assert journey.seen(None) is None


@pytest.mark.parametrize("what", ["first_byte", "per_mib"])
def test_slow_answers_cool_where_a_threshold_is_set(what: str, answer: Make, pooled: Make, clock: Any) -> None:
    body = answer("sts").body
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nx-amzn-RequestId: 1\r\n\r\n" % len(body)
    parts = {"first_byte": faults.after(0.05, faults.saying(head + body, faults.close))}
    parts["per_mib"] = faults.saying(head, faults.after(0.05, faults.saying(body, faults.close)))
    with faults.FaultServer(faults.after_request(parts[what])) as server:
        member = {"connect_to": f"127.0.0.1:{server.port}", "name": "slow"}
        client = pooled([member], slow={what: "10ms", "threshold": 2}, when_unavailable="fail")
        for _ in range(2):
            assert client.get_caller_identity()["Account"] == "111122223333"
        with pytest.raises(PoolUnavailable, match="slow: cooling after slow_body"):
            client.get_caller_identity()
