"""Error bodies, whatever their shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.azure.bodies import ErrorBody, read_error
from cloudretry.azure.codes import is_lock_conflict, kind_of, telling
from cloudretry.core.outcome import Kind

WINDOW = json.dumps({"operationGroup": "HighCostGetVM30Min", "allowedRequestCount": 300})
COMPUTE = {
    "code": "OperationNotAllowed",
    "message": "The server rejected the request because too many requests have been received.",
    "details": [{"code": "TooManyRequests", "target": "HighCostGetVM30Min", "message": WINDOW}],
    "innererror": {"internalErrorCode": "TooManyRequestsReceived"},
}
GRAPH = {"error": {"code": "RateLimiting", "message": "Please", "details": [{"code": "RateLimiting", "message": "wait"}]}}
LOCK = {"error": {"code": "TooManyRequests", "details": [{"code": "RetryableErrorDueToAnotherOperation", "message": "x"}]}}
INNER = {"error": {"code": "Conflict", "message": json.dumps(GRAPH)}}


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (encoded(COMPUTE), "TooManyRequests"),
        (encoded({"error": COMPUTE}), "TooManyRequests"),
        (encoded(GRAPH), "RateLimiting"),
        (encoded(json.dumps(GRAPH)), "RateLimiting"),
        (encoded(INNER), "RateLimiting"),
        (b"\xef\xbb\xbf" + encoded(GRAPH), "RateLimiting"),
        (encoded(LOCK), "RetryableErrorDueToAnotherOperation"),
        (encoded({"error": {"code": 429, "message": "Too many requests. Please retry."}}), "429"),
        (encoded({"error": "invalid_client", "error_description": "AADSTS7000215"}), "invalid_client"),
        (encoded({"Code": "Throttled", "Message": "please retry again in 5 seconds"}), "Throttled"),
        (b"<?xml version='1.0'?><Error><Code>ServerBusy</Code><Message>busy</Message></Error>", "ServerBusy"),
        (encoded({"error": {"code": "line\nbreak"}}), None),
        (encoded({"error": None}), None),
        (encoded([]), None),
        (b"<html><body>Too Many Requests", None),
        (b"Too Many Requests", None),
        (b"", None),
        (b"[" * 60_000, None),
        (b'{"code": "' + b"x" * 100_000, None),
    ],
)
def test_the_telling_code(body: bytes, code: str | None) -> None:
    assert telling(read_error(body).codes) == code


def test_messages_begin_with_the_outermost() -> None:
    assert read_error(encoded({"error": COMPUTE})).messages == (COMPUTE["message"], WINDOW)


def test_a_page_is_known_as_one() -> None:
    assert read_error(b"\n<!DOCTYPE html><html>") == ErrorBody(page=True)
    assert not read_error(b"<Error/>").page


_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["error", "code", "details", "message", "innererror", "x"]), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(tree=_TREES, wrapped=st.booleans())
def test_no_document_can_do_harm(tree: Any, wrapped: bool) -> None:  # noqa: FBT001 - drawn
    said = read_error(encoded(json.dumps(tree) if wrapped else tree))
    assert all(isinstance(text, str) for text in (*said.codes, *said.messages))
    assert len(said.codes) + len(said.messages) <= 32


@given(body=st.binary(max_size=200))
def test_no_bytes_can_do_harm(body: bytes) -> None:
    assert all(len(code) <= 128 for code in read_error(body).codes)


@pytest.mark.parametrize(
    ("status", "code", "asked", "foreign", "kind"),
    [
        (429, None, False, False, Kind.THROTTLED),
        (429, "TooManyRequests", False, False, Kind.THROTTLED),
        (429, "RetryableErrorDueToAnotherOperation", False, False, Kind.THROTTLED),
        (429, "QuotaExceeded", False, False, Kind.FATAL),
        (429, "QuotaExceeded", True, False, Kind.THROTTLED),
        (429, "insufficient_quota", False, False, Kind.FATAL),
        (429, None, True, True, Kind.TRANSIENT),  # a proxy's page
        (403, None, False, True, Kind.FATAL),
        (409, "OperationNotAllowed", True, False, Kind.FATAL),
        (400, "SubscriptionRequestsThrottled", False, False, Kind.THROTTLED),
        (503, "ServerBusy", False, False, Kind.THROTTLED),
        (503, None, True, False, Kind.THROTTLED),
        (503, None, False, False, Kind.TRANSIENT),
        (500, "InternalServerError", True, False, Kind.TRANSIENT),
        (408, None, False, False, Kind.TRANSIENT),
        (404, "ResourceNotFound", True, False, Kind.FATAL),
        (501, None, True, False, Kind.FATAL),
    ],
)
def test_what_an_answer_comes_to(status: int, code: str | None, asked: bool, foreign: bool, kind: Kind) -> None:  # noqa: FBT001 - a table
    assert kind_of(status, code, asked=asked, foreign=foreign) is kind


def test_a_lock_is_told_from_a_rate() -> None:
    assert is_lock_conflict("RetryableErrorDueToAnotherOperation")
    assert not is_lock_conflict("RetryableErrorDueToTooManyCalls")
