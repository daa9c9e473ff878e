"""The text of a TurnTimeout names the setting, and no number breaks it."""

from __future__ import annotations

import math
import pickle
from datetime import datetime, timezone

import pytest

from cloudretry.core.pacer import PacerState
from cloudretry.core.rate import Learning, Limit
from cloudretry.runtime.turns import TurnTimeout

STATE = PacerState(
    learning=Learning.TRACK,
    limit=Limit(2.0, 10.0),
    verified=True,
    accepted=5,
    throttled=1,
    waiting=7,
    in_flight=1,
    hold=0.0,
)


def test_the_text_names_the_setting_and_says_when() -> None:
    late = TurnTimeout("ec2:DescribeVpcs@1/eu-west-1", STATE, 1.0, 90.0, 0.0)
    assert str(late) == (
        "no turn for ec2:DescribeVpcs@1/eu-west-1 within queue_timeout: 7 waiting at 2 calls/s; "
        "this one could leave in 90 s, at 00:01:30 UTC"
    )
    assert late.retry_at == datetime(1970, 1, 1, 0, 1, 30, tzinfo=timezone.utc)


def test_what_can_t_be_foreseen_is_not_said() -> None:
    late = TurnTimeout("ec2:DescribeVpcs@1/eu-west-1", STATE, 3.0, 0.0, 0.0)
    assert str(late).endswith(
        "waiting at 2 calls/s; the rate is just being measured, so nobody can say when this one could leave"
    )


@pytest.mark.parametrize("seconds", [1e12, 1e18, 1.7e308, math.inf, -math.inf, math.nan, -1e18])
def test_a_moment_beyond_the_calendar_is_none_and_the_rest_is_told(seconds: float) -> None:
    late = TurnTimeout("quota", STATE, 1.0, seconds, 0.0)
    assert late.retry_at is None
    assert str(late).endswith(f"this one could leave in {seconds:.0f} s")
    assert pickle.loads(pickle.dumps(late)).args == late.args or math.isnan(seconds)  # noqa: S301 - our own
