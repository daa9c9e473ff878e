"""Faults: where they strike, and what each kind looks like on the wire."""

from __future__ import annotations

import http.client
import socket
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud import Faults
from cloudretry.simcloud.faults import KINDS, Injector
from cloudretry.simcloud.identity import Identity, Protocol

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAws

SCOPE = "AWS4-HMAC-SHA256 Credential={key}/20260101/eu-west-1/{service}/aws4_request, SignedHeaders=x"


def ask(service: str = "ec2", action: str = "DescribeVpcs", account: str = "1", region: str = "eu-west-1") -> Identity:
    return Identity(account=account, region=region, service=service, action=action, protocol=Protocol.EC2)


def kinds(injector: Injector, *asked: Identity) -> list[str | None]:
    return [strike.kind if (strike := injector.strike(each)) else None for each in asked]


def test_rules_strike_as_often_as_they_say_and_the_first_one_first() -> None:
    first = Faults(match="ec2:DescribeV*", kinds=("cut",), times=2)
    second = Faults(match="ec2", kinds=("reset",), times=1)
    assert kinds(Injector((first, second), 0), *[ask()] * 4) == ["cut", "cut", "reset", None]


@pytest.mark.parametrize(
    ("pattern", "struck"),
    [
        ("*", 5),
        ("ec2", 4),
        ("ec2:Describe*", 3),
        ("ec2:Describe*@1", 2),
        ("*@1/eu-west-1", 3),
        ("*@*/us-east-1", 1),
        ("rds:*", 1),
        ("ec", 0),
        ("ec2:Describe", 0),
    ],
)
def test_patterns(pattern: str, struck: int) -> None:
    asked = ask(), ask(action="RunInstances"), ask(account="2"), ask(region="us-east-1"), ask("rds")
    assert sum(kind is not None for kind in kinds(Injector([Faults(match=pattern)], 0), *asked)) == struck


def test_the_rate_is_kept_and_all_kinds_occur() -> None:
    struck = Counter(kinds(Injector([Faults(rate=0.05, kinds=tuple(KINDS))], 1), *[ask()] * 10_000))
    assert 400 < sum(struck.values()) - struck[None] < 600
    assert struck.keys() == {None, *KINDS}


@given(st.lists(st.sampled_from([ask(), ask("rds"), ask(account="2")]), max_size=40), st.integers(0, 5))
def test_other_requests_between_them_change_no_draw(asked: list[Identity], seed: int) -> None:
    rules = [Faults(rate=0.4, kinds=("cut", "page", "empty"))]
    mixed, alone = Injector(rules, seed), Injector(rules, seed)
    struck = [mixed.strike(each) for each in asked]
    ours = [strike for each, strike in zip(asked, struck, strict=True) if each == ask()]
    assert ours == [alone.strike(ask()) for _ in ours]


def test_the_seed_decides() -> None:
    drawn = [kinds(Injector([Faults(rate=0.5)], seed), *[ask()] * 50) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"kinds": ()},
        {"kinds": ("fire",)},
        {"rate": 1.1},
        {"rate": float("nan")},
        {"times": -1},
        {"status": 99},
        {"seconds": -1},
    ],
)
def test_impossible_rules_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Faults(**wrong)


@pytest.fixture
def faulty(aws: SimulatedAws) -> Iterator[SimulatedAws]:
    """The server without limits, for rules of the test's own."""
    aws.reset()
    yield aws
    aws.reset()


def last(aws: SimulatedAws) -> tuple[str, str, str]:
    line = aws.log()[-1]
    return line.action, line.verdict, line.done


def some_bucket(aws: SimulatedAws) -> str:
    return min(name for account, _, kind, name in aws.resources if (account, kind) == (aws.accounts[0], "s3:bucket"))


def raw(aws: SimulatedAws, head: str, body: bytes = b"") -> bytes:
    """What the server sends until it closes; raises ConnectionResetError as the socket does."""
    url = urlsplit(aws.url)
    scope = SCOPE.format(key=aws.credentials(aws.accounts[0])["aws_access_key_id"], service=head.split(maxsplit=1)[0])
    lines = f"{head.split(maxsplit=1)[1]} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: {scope}\r\n"
    with socket.create_connection((str(url.hostname), int(url.port or 0)), timeout=20) as connection:
        connection.sendall(lines.encode() + b"\r\n" + body)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.wire
def test_a_cut_answer_is_shorter_than_it_says(faulty: SimulatedAws) -> None:
    faulty.inject(Faults(kinds=("cut",), times=1))
    head, _, body = raw(faulty, "s3 GET /").partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    assert head.startswith(b"HTTP/1.1 200")
    assert 0 < len(body) < length
    assert body.startswith(b"<?xml")
    assert last(faulty)[:2] == ("ListBuckets", "cut")
    assert last(faulty)[2].startswith("body ended after ")


@pytest.mark.wire
def test_an_answer_without_a_body_can_only_be_reset(faulty: SimulatedAws) -> None:
    faulty.inject(Faults(match="s3:HeadBucket", kinds=("cut",), times=1))
    with pytest.raises(ConnectionResetError):
        raw(faulty, f"s3 HEAD /{some_bucket(faulty)}")


@pytest.mark.wire
@pytest.mark.parametrize("status", [200, 403, 429, 503])
@pytest.mark.parametrize("kind", ["page", "empty"])
def test_a_page_or_nothing_in_the_place_of_the_service(faulty: SimulatedAws, connect: Any, kind: str, status: int) -> None:
    faulty.inject(Faults(match="s3:ListBuckets", kinds=(kind,), times=1, status=status))
    connection = http.client.HTTPConnection(faulty.url.removeprefix("http://"))
    connection.request("GET", "/")
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == status
    assert body.startswith(b"<html>") == (kind == "page")
    assert (answer.getheader("Content-Type") or "").startswith("text/html") == (kind == "page")
    assert answer.getheader("Content-Length") == str(len(body))
    assert (str(status) in last(faulty)[2], last(faulty)[1]) == (True, kind)


@pytest.mark.wire
@pytest.mark.parametrize(("kind", "there"), [("page", False), ("reset_unread", False), ("reset", True), ("cut", True)])
def test_whether_the_request_was_carried_out(faulty: SimulatedAws, connect: Any, kind: str, there: bool) -> None:  # noqa: FBT001
    s3, bucket, key = connect(faulty, "s3"), some_bucket(faulty), f"made-by-{kind}"
    faulty.inject(Faults(match="s3:PutObject", kinds=(kind,), times=1))
    with pytest.raises(Exception, match=r"503|closed"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x" * 100_000)
    assert last(faulty)[:2] == ("PutObject", kind)
    assert (s3.list_objects_v2(Bucket=bucket, Prefix=key)["KeyCount"] == 1) == there
    assert [line.verdict for line in faulty.log()] == [kind, "accepted"]


@pytest.mark.wire
def test_boto3_sees_a_reset_as_a_closed_connection(faulty: SimulatedAws, connect: Any) -> None:
    faulty.inject(Faults(kinds=("reset",), times=1))
    sts = connect(faulty, "sts")
    with pytest.raises(ConnectionClosedError):
        sts.get_caller_identity()
    assert sts.get_caller_identity()["Account"] == faulty.accounts[0]


@pytest.mark.wire
def test_a_body_is_left_unread(faulty: SimulatedAws) -> None:
    faulty.inject(Faults(match="s3:PutObject", kinds=("reset_unread",)))
    url = urlsplit(faulty.url)
    scope = SCOPE.format(key="x", service="s3")
    head = f"PUT /bucket/key HTTP/1.1\r\nHost: x\r\nAuthorization: {scope}\r\nContent-Length: 9000000\r\n\r\n"
    with socket.create_connection((str(url.hostname), int(url.port or 0)), timeout=20) as connection:
        connection.sendall(head.encode())
        with pytest.raises(ConnectionResetError):
            connection.recv(1)  # although no byte of the body was sent
    assert last(faulty)[:2] == ("PutObject", "reset_unread")


@pytest.mark.wire
def test_a_slow_answer_is_late_and_whole(faulty: SimulatedAws, connect: Any) -> None:
    faulty.inject(Faults(kinds=("slow",), times=1, seconds=0.2))
    sts, begin = connect(faulty, "sts"), time.monotonic()
    assert sts.get_caller_identity()["Account"] == faulty.accounts[0]
    assert time.monotonic() - begin >= 0.2
    assert last(faulty) == ("GetCallerIdentity", "slow", "answered 0.2 s later")


@pytest.mark.wire
def test_a_throttle_by_a_rule_is_the_service_s_own_and_counts_as_one(faulty: SimulatedAws, connect: Any) -> None:
    faulty.inject(Faults(match="ec2", kinds=("throttle",), times=1))
    ec2 = connect(faulty, "ec2")
    with pytest.raises(ClientError, match="RequestLimitExceeded"):
        ec2.describe_vpcs()
    ec2.describe_vpcs()
    assert (faulty.counters()["throttled"], faulty.counters()["accepted"]) == (1, 1)


@pytest.mark.wire
def test_counters_by_verdict_and_the_page_to_read(faulty: SimulatedAws, connect: Any) -> None:
    faulty.inject(Faults(match="sts", kinds=("empty",), times=2, status=500))
    sts = connect(faulty, "sts")
    for _ in range(2):
        with pytest.raises(ClientError):
            sts.get_caller_identity()
    sts.get_caller_identity()
    assert faulty.counters()["rows"] == [
        {
            "account": faulty.accounts[0],
            "region": "eu-west-1",
            "service": "sts",
            "action": "GetCallerIdentity",
            "accepted": 1,
            "throttled": 0,
            "empty": 2,
        }
    ]
    connection = http.client.HTTPConnection(faulty.url.removeprefix("http://"))
    connection.request("GET", "/_cloudretry/")
    answer = connection.getresponse()
    page = answer.read().decode()
    connection.close()
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert "1 accepted, 0 throttled, 2 empty" in page
    assert "<td>GetCallerIdentity</td>" in page


@pytest.mark.wire
def test_a_rule_that_the_server_does_not_understand_is_refused(faulty: SimulatedAws) -> None:
    connection = http.client.HTTPConnection(faulty.url.removeprefix("http://"))
    connection.request("POST", "/_cloudretry/faults", '[{"kinds": ["fire"]}]')
    answer = connection.getresponse()
    assert answer.status == 400
    assert b"kinds are some of cut, page" in answer.read()
    connection.close()
