"""SPEC A3: reading how long a provider wants us to wait. Nothing that a server sends may raise."""

from __future__ import annotations

import math
import os
import pickle
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.core.builtin import BUILTIN
from cloudretry.core.headers import ERROR_TEXT, KNOWN_UNITS, Headers, HeaderSource, Unit, asked_delay

NOON = 1_445_428_800.0  # Wed, 21 Oct 2015 12:00:00 GMT
AWS = BUILTIN.providers["aws"].retry.response_header
AZURE = BUILTIN.providers["azure"].retry.response_header


def read(value: str, unit: Unit = Unit.SECONDS, **others: str) -> float | None:
    headers = Headers({"Retry-After": value, **others})
    return asked_delay([HeaderSource("retry-after", unit)], headers, error_text=None, wall=NOON)


def azure(headers: dict[str, str], error_text: str | None = None) -> float | None:
    return asked_delay(AZURE, Headers(headers), error_text=error_text, wall=NOON)


@pytest.mark.parametrize(
    ("value", "unit", "seconds"),
    [
        ("2", Unit.SECONDS, 2.0),
        ("0", Unit.SECONDS, 0.0),
        ("0.941641", Unit.SECONDS, 0.941641),
        (".5", Unit.SECONDS, 0.5),
        ("  7  ", Unit.SECONDS, 7.0),
        ("1500", Unit.MILLISECONDS, 1.5),
        ("2", Unit.MINUTES, 120.0),
        ("0.5", Unit.MINUTES, 30.0),
        ("00:00:05", Unit.CLOCK, 5.0),
        ("01:02:03", Unit.CLOCK, 3723.0),
        ("0:0:0.25", Unit.CLOCK, 0.25),
    ],
)
def test_numbers_are_read_in_their_unit(value: str, unit: Unit, seconds: float) -> None:
    assert read(value, unit) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "-1",
        "-0.1",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "soon",
        "1e3",
        "0x10",
        "1_000",
        "+5",
        "2 s",
        "٣",
        "9" * 400,
    ],
)
@pytest.mark.parametrize("unit", list(Unit))
def test_what_is_no_duration_is_not_read(value: str, unit: Unit) -> None:
    assert read(value, unit) is None


@pytest.mark.parametrize("value", ["5", "1:2", "00:61:00", "00:00:99", "a:b:c", "1:00:00:00"])
def test_a_clock_wants_hours_minutes_and_seconds(value: str) -> None:
    assert read(value, Unit.CLOCK) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("81, 120", 120.0),
        ("120,81", 120.0),
        ("5, garbage", 5.0),
        ("-5, 3", 3.0),
        ("Wed, 21 Oct 2015 12:00:30 GMT, 7", 30.0),
        ("90, Wed, 21 Oct 2015 12:00:30 GMT", 90.0),
    ],
)
def test_values_merged_by_commas_count_as_their_largest(value: str, seconds: float) -> None:
    assert read(value) == seconds


@pytest.mark.parametrize(
    "date",
    ["Wed, 21 Oct 2015 12:00:30 GMT", "Wednesday, 21-Oct-15 12:00:30 GMT", "Wed Oct 21 12:00:30 2015"],
    ids=["IMF-fixdate", "RFC 850", "asctime"],
)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland"])
def test_every_http_date_is_in_gmt_wherever_the_program_runs(date: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert read(date) == 30.0
    finally:
        monkeypatch.undo()
        os.environ.pop("TZ", None)
        time.tzset()


def test_a_date_is_read_against_the_response_s_own_date() -> None:
    assert read("Wed, 21 Oct 2015 13:00:10 GMT", Date="Wed, 21 Oct 2015 13:00:00 GMT") == 10.0


def test_a_date_is_read_against_our_clock_where_the_response_has_no_readable_one() -> None:
    assert read("Wed, 21 Oct 2015 12:00:10 GMT", Date="yesterday") == 10.0


def test_a_date_in_the_past_is_zero() -> None:
    assert read("Wed, 21 Oct 2015 11:00:00 GMT") == 0.0


def test_a_date_is_read_only_where_the_unit_is_seconds() -> None:
    assert read("Wed, 21 Oct 2015 12:00:10 GMT", Unit.MILLISECONDS) is None


def test_names_are_matched_without_regard_to_case() -> None:
    assert azure({"RETRY-AFTER": "3"}) == 3.0
    sources = [HeaderSource("Retry-After", Unit.SECONDS)]
    assert asked_delay(sources, Headers({"retry-after": "3"}), error_text=None, wall=NOON) == 3.0


def test_the_first_header_that_can_be_read_wins() -> None:
    assert azure({"Retry-After": "3", "retry-after-ms": "9000"}) == 3.0
    assert azure({"Retry-After": "soon", "retry-after-ms": "9000"}) == 9.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
        ({"x-ms-user-quota-resets-after": "00:00:05"}, 5.0),
        ({"x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after": "8"}, 8.0),
        ({"x-ms-ratelimit-microsoft.costmanagement-entity-retry-after": "9"}, 9.0),
        ({"x-ms-ratelimit-microsoft.costmanagement-tenant-retry-after": "10"}, 10.0),
        ({"x-ms-ratelimit-microsoft.costmanagement-client-retry-after": "11"}, 11.0),
        ({"x-ms-ratelimit-microsoft.consumption-retry-after": "12"}, 12.0),
    ],
)
def test_the_built_in_azure_entry_knows_each_header_s_unit(headers: dict[str, str], seconds: float) -> None:
    assert azure(headers) == seconds


def test_the_error_text_is_read_last() -> None:
    text = "Number of requests exceeded the limit. Please try again after '17' seconds after additional tokens are available."
    assert azure({}, text) == 17.0
    assert azure({"Retry-After": "1"}, text) == 1.0
    assert azure({}, "Please try again later.") is None


def test_the_built_in_aws_entry_prefers_milliseconds() -> None:
    headers = Headers({"Retry-After": "9", "x-amz-retry-after": "1500"})
    assert asked_delay(AWS, headers, error_text=None, wall=NOON) == 1.5


def test_repeated_headers_are_merged() -> None:
    headers = Headers([("Retry-After", "1"), ("retry-after", "4")])
    assert headers["RETRY-AFTER"] == "1, 4"
    assert len(headers) == 1


def test_headers_don_t_show_their_values() -> None:
    assert "secret" not in repr(Headers({"Authorization": "secret"}))


def test_headers_survive_pickling() -> None:
    headers = Headers({"Retry-After": "1"})
    copy = pickle.loads(pickle.dumps(headers))  # noqa: S301 - our own
    assert copy == headers
    assert hash(copy) == hash(headers)


DATES = st.lists(
    st.sampled_from(["Wed", "Wed,", "21", "Oct", "15-Oct-21", "2015", "99999", "12:00:30", "12.0", "GMT", "+9999", "-"])
)
VALUES = st.one_of(
    st.text(max_size=300),
    st.text("0123456789.:,-+eE ", max_size=30),
    DATES.map(" ".join),
    st.floats().map(str),
    st.integers().map(str),
)
SOURCES = st.lists(st.builds(HeaderSource, st.sampled_from(sorted(KNOWN_UNITS)), st.sampled_from(Unit)), max_size=4)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(SOURCES, st.dictionaries(st.sampled_from(["date", *KNOWN_UNITS]), VALUES), st.none() | VALUES, st.floats(0, 1e11))
def test_reading_never_raises_and_gives_nothing_or_a_finite_wait(
    sources: list[HeaderSource], headers: dict[str, str], error_text: str | None, wall: float
) -> None:
    asked = asked_delay(sources, Headers(headers), error_text=error_text, wall=wall)
    assert asked is None or (math.isfinite(asked) and asked >= 0.0)


@settings(derandomize=True, deadline=None)
@given(st.text())
def test_any_error_text_can_be_read(text: str) -> None:
    asked = asked_delay([HeaderSource(ERROR_TEXT, Unit.SECONDS)], Headers(), error_text=text + " after 5 seconds", wall=NOON)
    assert asked is None or asked >= 0.0


@settings(derandomize=True, deadline=None)
@given(st.floats(0, 1e9))
def test_any_decimal_is_read_as_it_was_written(seconds: float) -> None:
    assert read(f"{seconds:.6f}") == pytest.approx(seconds, abs=1e-6)
