"""SPEC B2: how long a member cools, how that is spread, and how it is forgiven; B3: how many requests a ramp admits."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.core.cooldown import forgiven, nominal_pause, one_more, spread
from cloudretry.core.pool_settings import Cooldown
from cloudretry.core.ramp import Ramp

RULES = Cooldown()


def test_golden_pauses() -> None:
    assert [nominal_pause(row, RULES) for row in range(1, 9)] == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def test_a_factor_of_one_keeps_the_pause() -> None:
    assert {nominal_pause(row, Cooldown(initial=7.0, factor=1.0)) for row in (1, 2, 50)} == {7.0}


@pytest.mark.parametrize("row", [1, 7, 1024, 10**6, 10**30])
def test_no_number_overflows(row: int) -> None:
    assert nominal_pause(row, RULES) <= RULES.max


@given(st.integers(1, 20), st.floats(0.0, 0.9), st.integers(0, 99))
def test_jitter_is_a_share_to_both_sides(row: int, jitter: float, seed: int) -> None:
    rules = Cooldown(jitter=jitter)
    pause = nominal_pause(row, rules)
    assert pause * (1 - jitter) <= spread(pause, rules, Random(seed)) <= pause * (1 + jitter)


def test_members_that_were_cooled_together_do_not_return_together() -> None:
    rng = Random(1)
    returns = [spread(5.0, RULES, rng) for _ in range(200)]
    assert max(returns) - min(returns) > 1.9
    assert len({round(moment, 3) for moment in returns}) > 150


def test_counting_stops_where_the_pause_is_at_its_cap() -> None:
    row = 0
    for _ in range(1000):
        row = one_more(row, RULES)
    assert row == 7


@pytest.mark.parametrize(
    ("healthy", "left"), [(0.0, 3), (19.9, 3), (20.0, 2), (29.9, 2), (30.0, 1), (34.9, 1), (35.0, 0), (1e9, 0)]
)
def test_each_cooling_is_forgiven_in_the_time_that_it_lasted(healthy: float, left: int) -> None:
    assert forgiven(3, healthy, RULES) == left


# the ramp


def admitted(until: float, *, slips: tuple[float, ...] = ()) -> list[float]:
    """When requests begin while there are always more of them, in steps of 1 ms."""
    ramp, moments, pending = Ramp(0.0), [], list(slips)
    for tick in range(round(until * 1000)):
        now = tick / 1000
        if pending and now >= pending[0]:
            ramp.slip(pending.pop(0))
        while ramp.most(now) is not None and ramp.ready_at(now) <= now:
            ramp.begin(now)
            moments.append(now)
    return moments


def in_each_50_ms(moments: list[float], until: float) -> list[int]:
    return [
        sum(start <= moment < start + 0.05 - 1e-9 for moment in moments) for start in [n / 20 for n in range(round(until * 20))]
    ]


def test_a_ramp_doubles_every_50_ms_up_to_8_and_ends_after_a_second_of_that() -> None:
    assert in_each_50_ms(admitted(1.5), 1.5) == [1, 2, 4, *[8] * 20, *[0] * 7]  # `most` is None after that
    assert Ramp(0.0).most(1.149) == 8
    assert Ramp(0.0).most(1.151) is None


def test_no_50_ms_see_more_than_eight_wherever_they_begin() -> None:
    moments = admitted(1.2)
    assert max(sum(start <= moment < start + 0.05 - 1e-9 for moment in moments) for start in moments) == 8


def test_a_failure_begins_a_ramp_again() -> None:
    assert in_each_50_ms(admitted(0.35, slips=(0.15,)), 0.35) == [1, 2, 4, 1, 2, 4, 8]
