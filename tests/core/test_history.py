"""A call's history is plain data: it survives JSON and pickle, and ignores what a later version adds."""

from __future__ import annotations

import json
import pickle
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.core.history import Attempt, History

FIRST = Attempt(
    number=1, ended=1000.5, outcome="throttled", phase="done", status=503, code="SlowDown", delay=0.5, source="plugin"
)
LAST = Attempt(number=2, ended=1001.0, outcome="transient", phase="wait")
HISTORY = History(
    call="s3:ListBuckets@-/eu-west-1",
    attempts=(FIRST, LAST),
    total_wait=0.5,
    reason="max_retries",
    retry_at=datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=timezone.utc),
)

attempts = st.builds(
    Attempt,
    number=st.integers(1, 99),
    ended=st.floats(0, 1e11),
    outcome=st.text(),
    phase=st.text(),
    status=st.none() | st.integers(100, 599),
    code=st.none() | st.text(),
    delay=st.none() | st.floats(0, 1e6),
)
histories = st.builds(
    History,
    call=st.text(),
    attempts=st.lists(attempts, max_size=4).map(tuple),
    total_wait=st.floats(0, 1e9),
    reason=st.text(),
    retry_at=st.none() | st.datetimes(timezones=st.just(timezone.utc)),
)


@settings(derandomize=True, deadline=None)
@given(histories)
def test_json_gives_back_an_equal_value(history: History) -> None:
    assert History.from_dict(json.loads(json.dumps(history.to_dict()))) == history


def test_pickle_gives_back_an_equal_value() -> None:
    assert pickle.loads(pickle.dumps(HISTORY)) == HISTORY  # noqa: S301 - our own


def test_what_is_unknown_takes_no_room() -> None:
    assert HISTORY.to_dict()["attempts"][1] == {"number": 2, "ended": 1001.0, "outcome": "transient", "phase": "wait"}


def test_what_a_later_version_adds_is_ignored() -> None:
    raw = HISTORY.to_dict()
    raw["attempts"][0]["weather"] = "fine"
    assert History.from_dict({**raw, "weather": "fine"}) == HISTORY


@pytest.mark.parametrize(
    "raw", [{}, {"attempts": 3}, {**HISTORY.to_dict(), "attempts": [{}]}, {**HISTORY.to_dict(), "retry_at": "soon"}]
)
def test_somebody_else_s_data_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        History.from_dict(raw)
