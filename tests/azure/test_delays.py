"""How long a call waits, and when it no longer does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATH = "/subscriptions/aa/resourcegroups"


@pytest.mark.parametrize(
    ("headers", "low"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"Retry-After": "0.941641"}, 0.941641),
        ({"Retry-After": "81, 120"}, 120.0),  # merged by a proxy
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:05 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 5.0),
        ({"Retry-After": "0"}, 0.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ms-retry-after-ms": "2500"}, 2.5),
        ({"x-ms-user-quota-resets-after": "00:00:05", "x-ms-user-quota-remaining": "0"}, 5.0),
        ({"x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after": "14"}, 14.0),
        ({"x-ms-ratelimit-microsoft.consumption-retry-after": "9"}, 9.0),
        ({"Retry-After": "soon", "x-ms-retry-after-ms": "3000"}, 3.0),
    ],
)
def test_the_providers_wish_is_kept(
    headers: dict[str, str], low: float, serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any
) -> None:
    server = serve(error(headers=headers), answer())
    assert pipeline(server).send("GET", PATH).status_code == 200
    (slept,) = clock.sleeps
    assert low <= slept <= low + 0.5


@pytest.mark.parametrize("value", [None, "soon", "-7", "inf", "nan", "", "1e3", "Wed, 99 Oct 2015"])
def test_what_says_nothing_is_backed_off_from(
    value: str | None, serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any
) -> None:
    server = serve(error(headers={} if value is None else {"Retry-After": value}), answer())
    assert pipeline(server).send("GET", PATH).status_code == 200
    (slept,) = clock.sleeps
    assert 0 <= slept <= 1.0


def test_the_wish_may_stand_in_the_text(serve: Make, pipeline: Make, answer: Make, clock: Any, Answer: Any) -> None:
    body = b'{"error": {"code": "ResourceRequestsThrottled", "message": "Please try again after \'37\' seconds."}}'
    server = serve(Answer(429, body), answer())
    pipeline(server).send("GET", PATH)
    (slept,) = clock.sleeps
    assert 37 <= slept <= 37.5


def test_a_longer_wish_than_the_cap_ends_the_call_and_says_until_when(
    serve: Make, pipeline: Make, error: Make, clock: Any, history: Make
) -> None:
    server = serve(error(headers={"Retry-After": "1200"}))
    response = pipeline(server).send("GET", PATH)
    assert response.status_code == 429
    assert len(server.requests) == 1
    assert clock.sleeps == []
    told = history(response)
    assert told.reason == "max_header_delay"
    assert told.retry_at == datetime.fromtimestamp(clock.wall() + 1200, timezone.utc)


_HEADER_TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=60)
_NAMES = ["Retry-After", "retry-after-ms", "x-ms-user-quota-resets-after", "Date", "x-ms-error-code", "x-ms-request-id"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=_HEADER_TEXT, name=st.sampled_from(_NAMES))
def test_no_header_can_do_harm(
    value: str, name: str, serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any, history: Make
) -> None:
    server = serve(error(headers={name: value}), answer())
    response = pipeline(server).send("GET", PATH)
    assert response.status_code == 200 or history(response).reason == "max_header_delay"
    assert all(0 <= slept <= 301 for slept in clock.sleeps)
