"""What a header may say, and what is made of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from cloudretry_quota_window.opening import http_date, seconds_until_open
from hypothesis import given, settings
from hypothesis import strategies as st

NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)
NOW = NEW_YEAR.timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("17", 17.0),
        ("1.5", 1.5),
        (" 3 ", 3.0),
        ("00:00:05", 5.0),
        ("1:02:03", 3723.0),
        ("00:15:00.2500000", 900.25),
        ("1.00:00:01", 86_401.0),
        ("30:00:00", 108_000.0),
        ("Thu, 01 Jan 2026 00:05:00 GMT", 300.0),
        ("Thursday, 01-Jan-26 00:05:00 GMT", 300.0),
        ("Thu Jan  1 00:05:00 2026", 300.0),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0.0),
        ("2026-01-01T00:01:00Z", 60.0),
        ("2026-01-01T00:01:00", 60.0),
        ("2026-01-01 00:01Z", 60.0),
        ("2026-01-01T02:01:00+02:00", 60.0),
        ("2025-12-31T19:01:00-0500", 60.0),
        ("2026-01-01T00:01:00.5000000Z", 60.5),
        ("20260101T000100Z", 60.0),
        ("2025-12-31T23:59:59Z", 0.0),
        (f"{NOW + 90:.0f}", 90.0),
        (f"{NOW - 90:.0f}", 0.0),
        ("2, 7, 5", 7.0),
        ("Thu, 01 Jan 2026 00:00:09 GMT, Thu, 01 Jan 2026 00:00:04 GMT", 9.0),
        ("garbage, 4", 4.0),
    ],
)
def test_it_is_read(text: str, seconds: float) -> None:
    assert seconds_until_open(text, now=NOW) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    ["", "-1", "nan", "inf", "1e3", "soon", "00:61:00", "00:00:60", ":05", "5 s", "2026-13-01T00:00:00Z", "2026-01-01",
     "2026-01-01T00:00:00+25:00", "9999-99-99T99:99:99Z", "\u0665", "Thu, 99 Jan 2026 00:00:00 GMT", "7" * 500],
)  # fmt: skip
def test_it_is_not_read(text: str) -> None:
    assert seconds_until_open(text, now=NOW) is None


def test_the_ends_of_the_calendar_are_moments_too() -> None:
    assert seconds_until_open("0001-01-01T00:00:00+01:00", now=NOW) == 0.0
    assert seconds_until_open("9999-12-31T23:59:59-23:59", now=NOW) == pytest.approx(2.5e11, rel=0.02)


def test_a_date_is_one_with_letters_first() -> None:
    assert http_date("Thu, 01 Jan 2026 00:00:00 GMT") == NOW
    assert http_date("2026") is None


@settings(derandomize=True, deadline=None)
@given(st.text(max_size=250) | st.text("0123456789:.-+TZ, GMTJanThu/", max_size=40))
def test_no_text_raises_or_gives_less_than_zero(text: str) -> None:
    seconds = seconds_until_open(text, now=NOW)
    assert seconds is None or 0.0 <= seconds < float("inf")


@settings(derandomize=True, deadline=None)
@given(st.integers(-(10**6), 10**6))
def test_a_moment_means_the_same_in_every_spelling(offset: int) -> None:
    moment = NEW_YEAR + timedelta(seconds=offset)
    spellings = [
        format_datetime(moment, usegmt=True),
        moment.isoformat(),
        f"{moment:%Y%m%dT%H%M%SZ}",
        f"{moment.timestamp():.0f}",
    ]
    assert [seconds_until_open(text, now=NOW) for text in spellings] == [max(0.0, offset)] * 4
