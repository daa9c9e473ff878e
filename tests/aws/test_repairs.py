"""Answers that the SDK can't read, or takes for something that they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, IncompleteReadError
from botocore.parsers import ResponseParserError

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
PAGE = b"<!DOCTYPE html><html><body>Service temporarily unavailable</body>"


@pytest.mark.parametrize("service", CALLS)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("body", [b"", PAGE, b"slow down, please", b"<html></html>"])
def test_an_unreadable_error_is_retried_by_its_status(
    service: str,
    status: int,
    body: bytes,
    serve: Make,
    hooked: Make,
    answer: Make,
    clock: Any,
    Answer: Any,
) -> None:
    server = serve(Answer(status, body), Answer(status, body), answer(service))
    assert getattr(hooked(service, server), CALLS[service])()["ResponseMetadata"]["RetryAttempts"] == 2
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 2


@pytest.mark.parametrize("service", ["sts", "ec2"])
@pytest.mark.parametrize(("status", "requests"), [(429, 9), (503, 4), (408, 1), (403, 1)])
def test_an_unreadable_error_ends_in_a_client_error(
    service: str,
    status: int,
    requests: int,
    serve: Make,
    hooked: Make,
    clock: Any,
    Answer: Any,
) -> None:
    server = serve(Answer(status, PAGE, {"Content-Type": "text/html"}))
    with pytest.raises(ClientError) as caught:
        getattr(hooked(service, server), CALLS[service])()
    assert len(server.requests) == requests
    assert caught.value.response["Error"]["Code"] == str(status)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert history(caught.value) is not None
    assert len(clock.sleeps) == requests - 1


@pytest.mark.parametrize("service", CALLS)
def test_a_cut_answer_is_a_failed_read(service: str, serve: Make, hooked: Make, answer: Make, clock: Any, Answer: Any) -> None:
    whole = answer(service)
    cut = Answer(200, whole.body[:-5], {"Content-Length": str(len(whole.body)), "Connection": "close"})
    server = serve(cut, whole)
    assert getattr(hooked(service, server), CALLS[service])()["ResponseMetadata"]["RetryAttempts"] == 1
    assert len(server.requests) == 2
    server = serve(cut)
    with pytest.raises((IncompleteReadError, ConnectionClosedError)) as caught:  # an older botocore lets urllib3 notice
        getattr(hooked(service, server), CALLS[service])()
    assert len(server.requests) == 4
    told = history(caught.value)
    assert told is not None
    assert {(attempt.outcome, attempt.phase) for attempt in told.attempts} == {("transient", "body")}
    assert len(clock.sleeps) == 1 + 3


@pytest.mark.parametrize("service", ["dynamodb", "lambda"])
def test_a_page_with_status_200_is_no_empty_inventory(
    service: str,
    serve: Make,
    hooked: Make,
    answer: Make,
    clock: Any,
    Answer: Any,
) -> None:
    server = serve(Answer(200, PAGE), answer(service))
    assert getattr(hooked(service, server), CALLS[service])()["ResponseMetadata"]["RetryAttempts"] == 1
    server = serve(Answer(200, PAGE))
    with pytest.raises(ResponseParserError, match="no JSON object"):
        getattr(hooked(service, server), CALLS[service])()
    assert len(server.requests) == 4
    assert len(clock.sleeps) == 1 + 3


def test_a_payload_that_looks_like_a_page_is_the_users_own(serve: Make, hooked: Make, Answer: Any) -> None:
    server = serve(Answer(200, PAGE))
    assert hooked("lambda", server).invoke(FunctionName="f")["Payload"].read() == PAGE
    assert hooked("s3", server).get_object(Bucket="bucket", Key="k")["Body"].read() == PAGE
    assert len(server.requests) == 2


def test_a_head_request_has_a_length_and_no_body(serve: Make, hooked: Make, Answer: Any) -> None:
    server = serve(Answer(200, b"", {"Content-Length": "1234"}))
    assert hooked("s3", server).head_object(Bucket="bucket", Key="k")["ContentLength"] == 1234
    assert len(server.requests) == 1


def test_the_identity_providers_fault_is_tried_again(serve: Make, hooked: Make, error: Make, clock: Any) -> None:
    server = serve(error(400, "IDPCommunicationError"))
    with pytest.raises(ClientError, match="IDPCommunicationError"):
        hooked("sts", server).assume_role_with_web_identity(
            RoleArn="arn:aws:iam::1:role/r" * 2, RoleSessionName="s2", WebIdentityToken="abcd"
        )
    assert len(server.requests) == 4
    assert len(clock.sleeps) == 3
