"""What reaches the server: each request is counted there, for every protocol of AWS."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloudretry import history

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


CALLS = {
    "sts": "get_caller_identity",
    "ec2": "describe_regions",
    "dynamodb": "list_tables",
    "lambda": "list_functions",
    "s3": "list_buckets",
}
CODES = {
    "sts": "Throttling",
    "ec2": "RequestLimitExceeded",
    "dynamodb": "ThrottlingException",
    "lambda": "TooManyRequestsException",
    "s3": "SlowDown",
}


@pytest.mark.parametrize("service", CALLS)
def test_throttled_twice_is_three_requests(
    service: str, serve: Make, hooked: Make, throttle: Make, answer: Make, clock: Any
) -> None:
    server = serve(throttle(service), throttle(service), answer(service))
    metadata = getattr(hooked(service, server), CALLS[service])()["ResponseMetadata"]
    assert len(server.requests) == 3
    assert metadata["RetryAttempts"] == 2
    assert "MaxAttemptsReached" not in metadata
    assert "CloudRetry" not in metadata
    assert len(clock.sleeps) == 2


@pytest.mark.parametrize("service", CALLS)
def test_throttled_for_ever_ends_with_the_sdks_own_error(
    service: str, serve: Make, hooked: Make, throttle: Make, clock: Any
) -> None:
    server = serve(throttle(service))
    with pytest.raises(ClientError) as caught:
        getattr(hooked(service, server), CALLS[service])()
    assert len(server.requests) == 9
    assert caught.value.response["Error"]["Code"] == CODES[service]
    assert "(reached max retries: 8)" in str(caught.value)
    told = history(caught.value)
    assert told is not None
    assert told.reason == "max_retries"
    assert [attempt.code for attempt in told.attempts] == [CODES[service]] * 9
    assert told.total_wait == pytest.approx(sum(clock.sleeps))


def test_the_typed_exception_class_stays(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    client = hooked("lambda", serve(throttle("lambda")))
    with pytest.raises(client.exceptions.TooManyRequestsException):
        client.list_functions()
    assert len(clock.sleeps) == 8


@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
@pytest.mark.parametrize("attempts", [{}, {"max_attempts": 3}, {"total_max_attempts": 10}])
def test_the_sdks_retry_and_ours_never_multiply(
    mode: str, attempts: dict[str, int], serve: Make, hooked: Make, throttle: Make, clock: Any
) -> None:
    server = serve(throttle("sts"))
    client = hooked("sts", server, {"max_retries": 2}, retries={"mode": mode, **attempts})
    with pytest.raises(ClientError):
        client.get_caller_identity()
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 2


@pytest.mark.parametrize("retries", [{"max_attempts": 0}, {"total_max_attempts": 1}])
def test_an_explicit_single_attempt_is_honoured(
    retries: dict[str, int], serve: Make, hooked: Make, throttle: Make, clock: Any
) -> None:
    server = serve(throttle("sts"))
    with pytest.raises(ClientError):
        hooked("sts", server, retries=retries).get_caller_identity()
    assert len(server.requests) == 1
    assert clock.sleeps == []


@pytest.mark.parametrize("how", ["environment", "profile"])
def test_a_single_attempt_set_outside_the_program_is_honoured(
    how: str, serve: Make, hooked: Make, throttle: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "environment":
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    else:
        Path(os.environ["AWS_CONFIG_FILE"]).write_text("[default]\nmax_attempts = 1\n")
    server = serve(throttle("sts"))
    with pytest.raises(ClientError):
        hooked("sts", server).get_caller_identity()
    assert len(server.requests) == 1


def test_other_explicit_attempts_are_reported_once(
    serve: Make, hooked: Make, answer: Make, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(answer("sts"))
    with caplog.at_level(logging.WARNING, logger="cloudretry"):
        for _ in range(3):
            hooked("sts", server, retries={"total_max_attempts": 77})
    assert [record.getMessage() for record in caplog.records] == [
        "the SDK's setting of 77 attempts is not used: cloudretry's own max_retries holds"
    ]


def test_the_server_is_told_how_many_attempts_there_may_be(
    serve: Make, hooked: Make, throttle: Make, answer: Make, clock: Any
) -> None:
    server = serve(throttle("sts"), throttle("sts"), answer("sts"))
    hooked("sts", server, {"max_retries": 5}).get_caller_identity()
    told = [request.headers["amz-sdk-request"].split("; ") for request in server.requests]
    assert [[part for part in parts if not part.startswith("ttl")] for parts in told] == [
        [f"attempt={number}", "max=6"] for number in (1, 2, 3)
    ]
    assert len({request.headers["amz-sdk-invocation-id"] for request in server.requests}) == 1
    assert len(clock.sleeps) == 2


def test_an_answer_that_no_retry_can_change_is_one_request(serve: Make, hooked: Make, error: Make, clock: Any) -> None:
    server = serve(error(403, "AccessDenied"))
    with pytest.raises(ClientError, match="AccessDenied") as caught:
        hooked("sts", server).get_caller_identity()
    assert len(server.requests) == 1
    assert clock.sleeps == []
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts), told.total_wait) == ("not_retryable", 1, 0)
    assert "reached max retries" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "operation", "requests"),
    [("LimitExceededException", "list_tables", 9), ("LimitExceededException", "delete_table", 1)],
)
def test_a_limit_is_a_throttle_where_something_is_read(
    code: str,
    operation: str,
    requests: int,
    serve: Make,
    hooked: Make,
    clock: Any,
    Answer: Any,
) -> None:
    server = serve(Answer(400, b'{"__type": "%s", "message": "no"}' % code.encode()))
    with pytest.raises(ClientError):
        getattr(hooked("dynamodb", server), operation)(**({"TableName": "t"} if operation == "delete_table" else {}))
    assert len(server.requests) == requests
    assert len(clock.sleeps) == requests - 1


def test_organizations_are_listed_however_often_they_throttle(serve: Make, hooked: Make, clock: Any, Answer: Any) -> None:
    """boto/boto3#1588: the accounts of an organization are asked for one request at a time, and many throttles in between."""
    throttled = Answer(400, b'{"__type": "TooManyRequestsException", "message": "Too many requests"}')
    pages = [Answer(200, b'{"Accounts": [{"Id": "%d"}], "NextToken": "t%d"}' % (number, number)) for number in range(4)] + [
        Answer(200, b'{"Accounts": [{"Id": "4"}]}')
    ]
    server = serve(*[answer for page in pages for answer in (throttled, throttled, throttled, throttled, throttled, page)])
    accounts = hooked("organizations", server).get_paginator("list_accounts").paginate().build_full_result()["Accounts"]
    assert [account["Id"] for account in accounts] == ["0", "1", "2", "3", "4"]
    assert len(server.requests) == 5 * 6
    assert len(clock.sleeps) == 5 * 5
