from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.config.durations import LONGEST, read_duration, read_milliseconds, write_duration

EXAMPLES = settings(max_examples=200, deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("400ms", 0.4), ("5s", 5.0), ("5m", 300.0), ("1h", 3600.0), ("1.5s", 1.5), ("2300ms", 2.3), (" 10 s ", 10.0), ("0s", 0.0)],
)
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "5",
        "s",
        "-5s",
        "+5s",
        "5 sec",
        "1m30s",
        "1e3s",
        "nan s",
        "inf",
        "\u0665s",
        "25h",
        "5S",
        5,
        5.0,
        None,
        True,
        "1" * 400 + "s",
    ],
)
def test_nothing_else_is_a_duration(value: object) -> None:
    with pytest.raises(ValueError, match=r"duration|bounds"):
        read_duration(value)


@pytest.mark.parametrize("value", [-1, 10**400, float("nan"), float("inf"), True, "1000", None, 86_400_001])
def test_milliseconds_are_a_finite_number_within_a_day(value: object) -> None:
    with pytest.raises(ValueError, match=r"number|bounds"):
        read_milliseconds(value)


def test_milliseconds_are_exact() -> None:
    assert read_milliseconds(2300) == 2.3
    assert read_milliseconds(0.5) == 0.0005


def test_a_timedelta_is_a_duration() -> None:
    assert read_duration(timedelta(minutes=1, milliseconds=500)) == 60.5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.4, "400ms"),
        (1.5, "1.5s"),
        (300.0, "5m"),
        (330.0, "330s"),
        (7200.0, "2h"),
        (0.0005, "0.5ms"),
        (1e-7, "0.0000001s"),
    ],
)
def test_durations_are_written_as_people_do(seconds: float, text: str) -> None:
    assert write_duration(seconds) == text


def test_what_is_finer_than_a_nanosecond_is_nothing() -> None:
    assert read_milliseconds(2.5e-72) == 0.0


@EXAMPLES
@given(
    st.one_of(
        st.integers(0, int(LONGEST) * 1000).map(lambda number: number / 1000.0),
        st.decimals(0, 86_400, places=6).map(float),
    )
)
def test_what_is_written_is_read_back_exactly(seconds: float) -> None:
    assert read_duration(write_duration(seconds)) == seconds
