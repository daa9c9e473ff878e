"""What a program's own loop got in the end is no hole; what it never got is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import Barrier
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from cloudretry import Report, attach
from cloudretry.report.completeness import completeness

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def in_vain(call: Callable[[], object]) -> None:
    with pytest.raises((ClientError, HTTPClientError, EndpointConnectionError)):
        call()


def sums(report: Report) -> tuple[int, int, int]:
    return report.total.calls, report.total.lost, report.total.recovered


@pytest.fixture
def loop(serve: Make, hooked: Make, clock: Any) -> Make:
    """`loop(answers, settings)` is an STS client that gets these, and its report."""

    def make(answers: Any, settings: Any) -> tuple[Any, Report]:
        report = Report()
        return attach(hooked("sts", serve(*answers), settings), report=report), report

    return make


def test_a_loop_that_succeeds_leaves_no_loss(loop: Make, throttle: Make, answer: Make) -> None:
    client, report = loop([*[throttle("sts")] * 4, answer("sts")], {"max_retries": 2})
    in_vain(client.get_caller_identity)
    in_vain(client.get_caller_identity)
    assert (sums(report), len(report.lost)) == ((2, 2, 0), 2)
    client.get_caller_identity()
    assert (sums(report), report.lost) == ((3, 0, 2), ())
    assert [(lost.reason, lost.attempts) for lost in report.recovered] == [("max_retries", 3), ("max_retries", 1)]
    report.raise_if_lost()
    told = completeness((call.account, call.region, call.operation, counts) for call, counts in report.operations.items())
    assert told == {"-": {"eu-west-1": {"GetCallerIdentity": "complete"}}}


@pytest.mark.parametrize("how", ["single attempts", "a lost connection", "a pause that is too long"])
def test_however_it_was_lost(loop: Make, throttle: Make, answer: Make, Answer: Any, how: str) -> None:
    first, settings = {
        "single attempts": (throttle("sts"), {"max_retries": 0}),
        "a lost connection": (Answer(reset=True), {"transient_errors": False}),
        "a pause that is too long": (throttle("sts", {"Retry-After": "4000"}), {}),
    }[how]
    client, report = loop([first, answer("sts")], settings)
    in_vain(client.get_caller_identity)
    client.get_caller_identity()
    assert sums(report) == (2, 0, 1)


def test_another_call_recovers_nothing(loop: Make, throttle: Make, Answer: Any) -> None:
    result = b"<GetAccessKeyInfoResult><Account>1</Account></GetAccessKeyInfoResult>"
    info = b"<GetAccessKeyInfoResponse>%b</GetAccessKeyInfoResponse>" % result
    client, report = loop([throttle("sts"), Answer(200, info)], {"max_retries": 0})
    in_vain(lambda: client.get_access_key_info(AccessKeyId="AKIA0000000000000001"))
    client.get_access_key_info(AccessKeyId="AKIA0000000000000002")
    assert sums(report) == (2, 1, 0)


HEADERS = [
    ("s3", "get_object", {"Bucket": "b", "Key": "k"}, {"Range": "bytes=0-9"}, {"Range": "bytes=10-19"}),
    ("s3", "get_object", {"Bucket": "b", "Key": "k"}, {"IfMatch": "one"}, {"IfMatch": "two"}),
    ("s3", "get_object", {"Bucket": "b", "Key": "k"}, {"Range": "bytes=0-9"}, {}),
    ("s3", "copy_object", {"Bucket": "b", "Key": "k"}, {"CopySource": "b/one"}, {"CopySource": "b/two"}),
    ("sqs", "get_queue_url", {}, {"QueueName": "one"}, {"QueueName": "two"}),
]


@pytest.mark.parametrize("row", HEADERS, ids=str)
def test_what_is_asked_in_headers_tells_calls_apart(
    serve: Make, hooked: Make, throttle: Make, Answer: Any, clock: Any, row: tuple[str, str, Any, Any, Any]
) -> None:
    """And the signatures, dates and numbers of an attempt don't."""
    service, method, common, first, other = row
    report = Report()
    body = b"{}" if service == "sqs" else b"<CopyObjectResult/>"
    server = serve(throttle("dynamodb" if service == "sqs" else "s3"), *[Answer(200, body)] * 2)
    call = getattr(attach(hooked(service, server, {"max_retries": 0}), report=report), method)
    in_vain(lambda: call(**common, **first))
    call(**common, **other)
    assert sums(report) == (2, 1, 0)
    clock.advance(1)
    call(**common, **first)
    assert sums(report) == (3, 0, 1)


def page(token: str | None = None) -> bytes:
    return json.dumps({"Functions": [], **({"NextMarker": token} if token else {})}).encode()


@pytest.fixture
def listing(serve: Make, hooked: Make, throttle: Make, Answer: Any, clock: Any) -> Make:
    """`listing(*tokens)` is a client of Lambda's and its report: a page leads on by a token, or to nothing; "!" throttles."""

    def make(*tokens: str | None) -> tuple[Any, Report]:
        report = Report()
        server = serve(*[throttle("lambda") if token == "!" else Answer(200, page(token)) for token in tokens])
        return attach(hooked("lambda", server, {"max_retries": 0}), report=report), report

    return make


def read(client: Any, pages: int | None = None, **params: Any) -> None:
    for _ in islice(client.get_paginator("list_functions").paginate(**params), pages):
        pass


@pytest.mark.parametrize("lost_again", [False, True])
def test_a_listing_that_is_begun_anew_and_read_to_its_end(listing: Make, clock: Any, lost_again: bool) -> None:  # noqa: FBT001
    """Its tokens are others by then."""
    again = ["b2", "!"] if lost_again else []
    client, report = listing("a2", "a3", "!", *again, "c2", "c3", "c4", None)
    in_vain(lambda: read(client))
    assert [lost.page for lost in report.lost] == [3]
    clock.advance(60)
    if lost_again:
        in_vain(lambda: read(client))
        clock.advance(70)
    read(client, 3)
    assert (report.total.lost, report.total.unfinished) == (1 + lost_again, 1)
    client.list_functions(Marker="c4")
    assert (report.total.lost, report.total.recovered, report.total.unfinished) == (0, 1 + lost_again, 0)
    assert [lost.page for lost in report.recovered] == [3, 2][: 1 + lost_again]


@pytest.mark.parametrize("how", ["of something else", "too late", "resumed", "in another thread", "begun before"])
def test_another_listing_recovers_nothing(listing: Make, clock: Any, how: str) -> None:
    client, report = listing(*["x2"] * (how == "begun before"), f"{how}2", "!", f"{how}3", None)
    if how == "begun before":
        client.list_functions()
    in_vain(lambda: read(client))
    if how == "too late":
        clock.advance(121)
    if how == "in another thread":
        with ThreadPoolExecutor(1) as other:
            other.submit(read, client).result()
    elif how in {"resumed", "begun before"}:
        read(client, PaginationConfig={"StartingToken": "x2" if how == "begun before" else "elsewhere"})
    else:
        read(client, None, **({"FunctionVersion": "ALL"} if how == "of something else" else {}))
    assert (report.total.lost, report.total.recovered) == (1, 0)


def test_a_listing_begun_anew_by_other_page_sizes(listing: Make) -> None:
    client, report = listing("s2", "!", None)
    in_vain(lambda: read(client, PaginationConfig={"PageSize": 5}))
    read(client, PaginationConfig={"PageSize": 50})
    assert (report.total.lost, report.total.recovered) == (0, 1)


def test_the_listing_of_another_account_that_has_the_same_tokens(serve: Make, Answer: Any, throttle: Make, clock: Any) -> None:
    """The names of tables are tokens, and two accounts may have the same."""
    first, last = (
        Answer(200, b'{"TableNames": ["table"], "LastEvaluatedTableName": "table"}'),
        Answer(200, b'{"TableNames": []}'),
    )
    report, once = Report(), {"aws": {"max_retries": 0}}
    servers = serve(first, throttle("dynamodb"), first, throttle("dynamodb")), serve(first, last)
    poor, rich = (
        attach(
            boto3.Session(f"AKIA{number:016}", "fake", region_name="eu-west-1").client("dynamodb", endpoint_url=server.url),
            configuration=once,
            report=report,
        )
        for number, server in enumerate(servers)
    )

    def last_page(client: Any) -> None:
        client.list_tables(ExclusiveStartTableName="table")

    poor.list_tables()
    in_vain(lambda: last_page(poor))
    with ThreadPoolExecutor(1) as thread:
        thread.submit(rich.list_tables).result()
        poor.list_tables()
        in_vain(lambda: last_page(poor))
        thread.submit(last_page, rich).result()
    assert sums(report) == (6, 2, 0)


def test_a_change_that_was_lost_stays_lost(serve: Make, hooked: Make, throttle: Make, Answer: Any, clock: Any) -> None:
    """Six messages of one text, of which the last alone was sent."""
    report = Report()
    server = serve(*[throttle("dynamodb")] * 5, Answer(200, b'{"MessageId": "1"}'))
    client = attach(hooked("sqs", server, {"max_retries": 0}), report=report)
    for _ in range(5):
        in_vain(lambda: client.send_message(QueueUrl=f"{server.url}/1/q", MessageBody="hello"))
    client.send_message(QueueUrl=f"{server.url}/1/q", MessageBody="hello")
    assert sums(report) == (6, 5, 0)


def test_later_than_two_minutes_it_is_another_call(loop: Make, throttle: Make, answer: Make, clock: Any) -> None:
    client, report = loop([throttle("sts"), answer("sts")], {"max_retries": 0})
    in_vain(client.get_caller_identity)
    clock.advance(121)
    client.get_caller_identity()
    assert sums(report) == (2, 1, 0)


def test_a_refusal_is_no_recovery(loop: Make, throttle: Make, error: Make) -> None:
    client, report = loop([throttle("sts"), error(403, "AccessDenied")], {"max_retries": 0})
    in_vain(client.get_caller_identity)
    in_vain(client.get_caller_identity)
    assert (sums(report), report.total.denied) == ((2, 1, 0), 1)


def test_threads_recover_their_own_losses(loop: Make, throttle: Make, answer: Make) -> None:
    """Each of eight threads loses two calls; then all but one are answered."""
    client, report = loop([*[throttle("sts")] * 16, answer("sts")], {"max_retries": 0})
    lost = Barrier(8)

    def program(number: int) -> None:
        in_vain(client.get_caller_identity)
        in_vain(client.get_caller_identity)
        lost.wait()
        if number:
            client.get_caller_identity()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(program, range(8)))
    assert sums(report) == (23, 2, 14)
    assert (len(report.lost), len(report.recovered)) == (2, 14)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_recovers_nothing_of_its_parents(loop: Make, throttle: Make, answer: Make) -> None:
    client, report = loop([throttle("sts"), answer("sts")], {"max_retries": 0})
    in_vain(client.get_caller_identity)
    child = os.fork()
    if child == 0:
        wrong = 9
        try:
            client.get_caller_identity()
            wrong = sums(report) != (2, 1, 0)
        finally:
            os._exit(wrong)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.get_caller_identity()
    assert sums(report) == (2, 0, 1)
