"""How long a call waits, and when it no longer does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudretry import history

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [
        ({"Retry-After": "2"}, 2.0, 2.5),
        ({"x-amz-retry-after": "1500"}, 1.5, 2.0),
        ({"X-AMZ-Retry-After": "1500", "Retry-After": "9"}, 1.5, 2.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:05 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 5.0, 5.5),
        ({"Retry-After": "0"}, 0.0, 0.5),
        ({"Retry-After": "soon"}, 0.0, 1.0),
        ({}, 0.0, 1.0),
    ],
)
def test_the_providers_wish_is_kept(
    header: dict[str, str], low: float, high: float, serve: Make, hooked: Make, throttle: Make, answer: Make, clock: Any
) -> None:
    server = serve(throttle("sts", header), answer("sts"))
    hooked("sts", server).get_caller_identity()
    (slept,) = clock.sleeps
    assert low <= slept <= high


def test_a_longer_wish_than_the_cap_ends_the_call_and_says_until_when(
    serve: Make, hooked: Make, throttle: Make, clock: Any
) -> None:
    server = serve(throttle("sts", {"Retry-After": "3600"}))
    with pytest.raises(ClientError, match="Throttling") as caught:
        hooked("sts", server).get_caller_identity()
    assert len(server.requests) == 1
    assert clock.sleeps == []
    told = history(caught.value)
    assert told is not None
    assert told.reason == "max_header_delay"
    assert told.retry_at == datetime.fromtimestamp(clock.wall() + 3600, timezone.utc)


def test_the_time_budget_is_never_overslept(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts", {"Retry-After": "10"}))
    with pytest.raises(ClientError) as caught:
        hooked("sts", server, {"time_budget": "35s", "max_retries": 20}).get_caller_identity()
    assert len(server.requests) == 4
    assert sum(clock.sleeps) <= 35
    told = history(caught.value)
    assert told is not None
    assert told.reason == "time_budget"
    assert told.retry_at is not None


_HEADER_TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=60)


@pytest.fixture
def throttled_once(serve: Make, hooked: Make, answer: Make) -> Any:
    """A call that is throttled once with some headers, always by the same client."""
    server = serve(answer("sts"))
    client = hooked("sts", server)

    def call(throttled: Any) -> Any:
        server.say(throttled, answer("sts"))
        return client.get_caller_identity()

    return call


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=_HEADER_TEXT, name=st.sampled_from(["Retry-After", "x-amz-retry-after", "Date"]))
def test_no_header_can_do_harm(value: str, name: str, throttled_once: Make, throttle: Make, clock: Any) -> None:
    try:
        throttled_once(throttle("sts", {"Retry-After": "Wed, 21 Oct 2015 07:28:05 GMT", name: value}))
    except ClientError as error:
        told = history(error)
        assert told is not None
        assert told.reason == "max_header_delay"
    assert all(0 <= slept <= 301 for slept in clock.sleeps)
