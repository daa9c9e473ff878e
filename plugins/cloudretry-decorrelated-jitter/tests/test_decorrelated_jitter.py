"""The rule, its bounds and its options."""

from __future__ import annotations

import math
from typing import Any

import pytest
from cloudretry_decorrelated_jitter import DecorrelatedJitter
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.testing import RECORDED, backoff_context, delays


def test_the_first_wait_is_between_the_base_and_three_times_the_base() -> None:
    waits = [DecorrelatedJitter(base_ms=100).getDelay(backoff_context(seed=seed)) for seed in range(500)]
    assert 100 <= min(waits) < 105
    assert 295 < max(waits) <= 300


def test_each_later_wait_is_between_the_base_and_three_times_the_one_before() -> None:
    strategy = DecorrelatedJitter(base_ms=100)
    waits = [strategy.getDelay(backoff_context(seed=seed, previous_delays_ms=(1000.0, 400.0))) for seed in range(500)]
    assert 100 <= min(waits) < 120
    assert 1180 < max(waits) <= 1200


def test_the_cap_cuts_the_draw() -> None:
    strategy = DecorrelatedJitter(base_ms=100, cap_ms=1000)
    waits = [strategy.getDelay(backoff_context(seed=seed, previous_delays_ms=(1000.0,))) for seed in range(500)]
    assert max(waits) == 1000
    assert waits.count(1000) == pytest.approx(500 * 2000 / 2900, rel=0.1)  # that share of [100, 3000] lies above it


def test_a_short_wait_before_does_not_go_below_the_base() -> None:
    assert DecorrelatedJitter(base_ms=100).getDelay(backoff_context(previous_delays_ms=(0.0,))) == 100


def test_the_draws_come_from_the_context() -> None:
    strategy = DecorrelatedJitter()
    assert delays(strategy, seed=1) == delays(strategy, seed=1) != delays(strategy, seed=2)


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_throttle_is_waited_for(name: str) -> None:
    waits = delays(DecorrelatedJitter(), context=RECORDED[name], retries=8)
    assert len(waits) == 8
    assert all(wait is not None and 500 <= wait <= 20_000 for wait in waits)


@settings(derandomize=True, deadline=None)
@given(st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.lists(st.floats(0, 1e6), max_size=4), st.integers(0, 99))
def test_a_wait_is_between_base_and_cap(one: float, other: float, previous: list[float], seed: int) -> None:
    base, cap = sorted((one, other))
    context = backoff_context(seed=seed, previous_delays_ms=tuple(previous))
    assert base <= DecorrelatedJitter(base_ms=base, cap_ms=cap).getDelay(context) <= cap


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"base_ms": 0}, ValueError),
        ({"base_ms": -1}, ValueError),
        ({"base_ms": math.nan}, ValueError),
        ({"cap_ms": math.inf}, ValueError),
        ({"base_ms": 10, "cap_ms": 9}, ValueError),
        ({"base_ms": "500"}, TypeError),
        ({"cap_ms": True}, TypeError),
        ({"cap_ms": None}, TypeError),
        ({"speed": 1}, TypeError),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        DecorrelatedJitter(**options)


def test_base_and_cap_may_be_the_same() -> None:
    assert delays(DecorrelatedJitter(base_ms=300, cap_ms=300), retries=3) == [300.0] * 3
