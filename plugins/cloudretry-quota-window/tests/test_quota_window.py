"""The rule, its bounds and its options."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cloudretry_quota_window import QuotaWindow
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.testing import RECORDED, backoff_context, delays

if TYPE_CHECKING:
    from cloudretry import BackoffContext

NOON = "Thu, 01 Jan 2026 12:00:00 GMT"


def told(headers: dict[str, str], **facts: Any) -> BackoffContext:
    return backoff_context(headers=headers, **facts)


def wait(strategy: QuotaWindow, context: BackoffContext) -> float | None:
    """In seconds."""
    delay = strategy.getDelay(context)
    return None if delay is None else delay.total_seconds()


def test_the_wait_is_the_window_s_opening_plus_the_jitter() -> None:
    strategy = QuotaWindow(jitter_ms=500)
    waits = [wait(strategy, told({"Retry-After": "00:00:20"}, seed=seed)) or 0.0 for seed in range(300)]
    assert 20 <= min(waits) < 20.01
    assert 20.49 < max(waits) <= 20.5


def test_workers_that_were_throttled_together_do_not_return_together() -> None:
    strategy = QuotaWindow()
    context = {"Date": NOON, "Retry-After": "Thu, 01 Jan 2026 12:00:30 GMT"}
    waits = {round(wait(strategy, told(context, seed=worker)) or 0.0, 3) for worker in range(50)}
    assert len(waits) > 40


def test_a_moment_is_read_against_the_response_s_own_date() -> None:
    strategy = QuotaWindow(jitter_ms=0)
    assert wait(strategy, told({"Date": NOON, "Retry-After": "2026-01-01T12:00:45Z"})) == 45


@pytest.mark.parametrize("date", [None, "", "not a date"])
def test_without_a_date_it_is_read_against_the_wall_clock(date: str | None) -> None:
    headers = {"Retry-After": "1970-01-01T00:01:40Z"} | ({} if date is None else {"Date": date})
    assert wait(QuotaWindow(jitter_ms=0), told(headers, wall=90.0)) == 10


def test_the_first_header_that_can_be_read_counts() -> None:
    strategy = QuotaWindow(headers=["X-Window", "Retry-After"], jitter_ms=0)
    assert wait(strategy, told({"retry-after": "3", "x-window": "00:00:09"})) == 9
    assert wait(strategy, told({"retry-after": "3", "x-window": "later"})) == 3
    assert wait(strategy, told({"retry-after": "3"})) == 3
    assert wait(QuotaWindow(headers="X-Window", jitter_ms=0), told({"retry-after": "3", "x-window": "8"})) == 8


def test_a_window_that_opens_too_late_ends_the_call() -> None:
    strategy = QuotaWindow(longest_wait_ms=60_000, jitter_ms=1000)
    assert wait(strategy, told({"Retry-After": "00:01:00"})) is not None
    assert wait(strategy, told({"Retry-After": "00:01:01"})) is None
    assert delays(strategy, context=RECORDED["compute-twenty-minutes"]) == [None]


def test_a_window_that_is_open_costs_the_jitter_alone() -> None:
    strategy = QuotaWindow(jitter_ms=200)
    for text in ("0", "00:00:00", "Thu, 01 Jan 2026 11:00:00 GMT"):
        assert 0 <= (wait(strategy, told({"Date": NOON, "Retry-After": text})) or 0.0) <= 0.2


def test_a_header_that_can_not_be_read_costs_the_exponential_wait_of_the_call_s_settings() -> None:
    context = backoff_context(retry_number=2, headers={"Retry-After": "soon"})
    waits = [wait(QuotaWindow(), told({"Retry-After": "soon"}, retry_number=2, seed=seed)) or 0.0 for seed in range(1000)]
    longest = 3 * context.settings.base_delay + context.settings.additional_delay_window
    assert 0 <= min(waits) < 0.1 * longest
    assert 0.9 * longest < max(waits) <= longest


def test_the_exponential_wait_is_capped_at_any_retry() -> None:
    settings_ = backoff_context().settings
    assert (wait(QuotaWindow(), told({}, retry_number=10**6)) or 0.0) >= settings_.max_delay
    assert (wait(QuotaWindow(), told({}, retry_number=10**6)) or 0.0) <= settings_.max_delay + settings_.additional_delay_window


def test_the_draws_come_from_the_context() -> None:
    strategy, headers = QuotaWindow(), {"Retry-After": "1"}
    assert delays(strategy, seed=1, headers=headers) == delays(strategy, seed=1, headers=headers)
    assert delays(strategy, seed=1, headers=headers) != delays(strategy, seed=2, headers=headers)


def test_recorded_throttles_are_waited_for_as_their_headers_say() -> None:
    first = {name: delays(QuotaWindow(), context=context, retries=1)[0] for name, context in RECORDED.items()}
    assert 5000 <= (first["resource-graph-quota-resets-after"] or 0) <= 6000
    assert 1000 <= (first["arm-429-retry-after"] or 0) <= 2000
    assert [name for name, delay in first.items() if delay is None] == ["compute-twenty-minutes"]


@settings(derandomize=True, deadline=None)
@given(st.text(max_size=30) | st.integers(0, 10**6).map(str), st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 99))
def test_a_wait_never_exceeds_what_was_allowed(text: str, longest: float, jitter: float, seed: int) -> None:
    context = told({"Date": NOON, "Retry-After": text}, seed=seed)
    delay = QuotaWindow(longest_wait_ms=longest, jitter_ms=jitter).getDelay(context)
    exponential = context.settings.max_delay + context.settings.additional_delay_window
    most = max(longest + jitter, exponential * 1000)
    assert delay is None or timedelta(0) <= delay <= timedelta(milliseconds=most + 0.001)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"headers": []}, ValueError),
        ({"headers": ""}, ValueError),
        ({"headers": ["Retry After"]}, ValueError),
        ({"headers": ["Retry-After", "retry-after-ms"]}, ValueError),
        ({"headers": "X-Amz-Retry-After"}, ValueError),
        ({"headers": [7]}, TypeError),
        ({"headers": 7}, TypeError),
        ({"longest_wait_ms": -1}, ValueError),
        ({"longest_wait_ms": math.inf}, ValueError),
        ({"longest_wait_ms": "5m"}, TypeError),
        ({"jitter_ms": math.nan}, ValueError),
        ({"jitter_ms": True}, TypeError),
        ({"jitter_ms": None}, TypeError),
        ({"speed": 1}, TypeError),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        QuotaWindow(**options)
