"""SPEC A2 and A3, the arithmetic: the published examples, and bounds for any retry number."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloudretry.core.backoff import exponential_ceiling, exponential_delay, header_delay

DURATIONS = st.floats(0.0, 86_400.0)
RETRY_NUMBERS = st.integers(1, 10**6)


class Lowest(Random):
    def uniform(self, a: float, b: float) -> float:
        return a


class Highest(Random):
    def uniform(self, a: float, b: float) -> float:
        return b


@pytest.mark.parametrize(
    ("base", "maxima"), [(0.4, [0.4, 1.2, 2.8]), (1.0, [1.0, 3.0, 7.0])], ids=["base 400 ms", "base 1000 ms"]
)
def test_published_maxima_before_jitter(base: float, maxima: list[float]) -> None:
    assert [exponential_ceiling(n, base=base, cap=10.0) for n in (1, 2, 3)] == pytest.approx(maxima)
    highest = [exponential_delay(n, base=base, cap=10.0, window=0.0, rng=Highest()) for n in (1, 2, 3)]
    assert highest == pytest.approx(maxima)


def test_the_cap_of_ten_seconds_first_bites_at_the_fourth_retry() -> None:
    uncapped = [exponential_ceiling(n, base=1.0, cap=float("inf")) for n in (3, 4)]
    assert uncapped == [7.0, 15.0]
    assert [exponential_ceiling(n, base=1.0, cap=10.0) for n in (3, 4, 5)] == [7.0, 10.0, 10.0]


def test_an_initial_delay_of_500_ms_and_a_window_of_1500_ms_give_500_to_2000_ms() -> None:
    lowest = exponential_delay(9, base=0.5, cap=0.5, window=0.0, rng=Highest())
    highest = exponential_delay(9, base=0.5, cap=0.5, window=1.5, rng=Highest())
    assert (lowest, highest) == (0.5, 2.0)
    capped = [exponential_delay(30, base=1.0, cap=0.5, window=1.5, rng=Random(seed)) for seed in range(500)]
    assert min(capped) == pytest.approx(0.5, abs=0.02)
    assert max(capped) == pytest.approx(2.0, abs=0.02)


def test_the_cap_comes_before_the_jitter() -> None:
    assert exponential_delay(20, base=1.0, cap=10.0, window=1.5, rng=Highest()) == 11.5


def test_the_multiplier_is_real_and_uniform() -> None:
    rng = Random(1)
    draws = sorted(exponential_delay(2, base=1.0, cap=10.0, window=0.0, rng=rng) for _ in range(4000))
    assert len(set(draws)) == len(draws)
    assert [draws[1000], draws[2000], draws[3000]] == pytest.approx([0.75, 1.5, 2.25], abs=0.1)


def test_retry_after_two_seconds_and_a_window_of_1500_ms_give_2000_to_3500_ms() -> None:
    assert header_delay(2.0, window=1.5, rng=Lowest()) == 2.0
    assert header_delay(2.0, window=1.5, rng=Highest()) == 3.5


def test_a_header_of_zero_still_gets_the_window() -> None:
    assert header_delay(0.0, window=1.5, rng=Highest()) == 1.5


@settings(derandomize=True, deadline=None)
@given(RETRY_NUMBERS, DURATIONS, DURATIONS, DURATIONS, st.integers(0, 99))
@example(10**6, 86_400.0, 86_400.0, 0.0, 0)
@example(1024, 0.0, 20.0, 0.5, 0)
def test_a_delay_stays_between_zero_and_ceiling_plus_window(n: int, base: float, cap: float, window: float, seed: int) -> None:
    ceiling = exponential_ceiling(n, base=base, cap=cap)
    assert 0.0 <= ceiling <= cap
    assert 0.0 <= exponential_delay(n, base=base, cap=cap, window=window, rng=Random(seed)) <= ceiling + window


@settings(derandomize=True, deadline=None)
@given(RETRY_NUMBERS, DURATIONS, DURATIONS)
def test_the_ceiling_never_falls_with_the_retry_number(n: int, base: float, cap: float) -> None:
    assert exponential_ceiling(n, base=base, cap=cap) <= exponential_ceiling(n + 1, base=base, cap=cap)


@settings(derandomize=True, deadline=None)
@given(DURATIONS, DURATIONS, st.integers(0, 99))
def test_a_header_delay_is_never_less_than_asked(asked: float, window: float, seed: int) -> None:
    assert asked <= header_delay(asked, window=window, rng=Random(seed)) <= asked + window
