"""Whoever a report tells, is told of all events, each once, and can't break a call."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry import Report
from cloudretry.commands import _engine
from cloudretry.core.call import Call
from cloudretry.core.events import AttemptFailed, CallEnded, Event
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.testing import virtual_clock

if TYPE_CHECKING:
    from cloudretry.runtime.engine import Engine

CALL = Call(provider="aws", service="ec2", operation="DescribeVpcs", region="eu-west-1")


def call(engine: Engine) -> None:
    """One that is throttled, then answered."""
    with virtual_clock():
        machine = engine.begin(CALL)
        assert engine.retried(machine, Outcome(kind=Kind.THROTTLED, status=429))
        machine.answered()
        engine.end(machine)


def test_each_listener_is_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Event] = []

    def breaks(event: Any) -> None:
        raise ValueError(str(event))

    report = Report(breaks, told.append)
    call(_engine(None, {}, report))
    assert [type(event) for event in told] == [AttemptFailed, CallEnded]
    assert (report.total.calls, report.total.throttled) == (1, 1)
    assert len([record for record in caplog.records if "a listener of cloudretry failed" in record.getMessage()]) == 1


def test_what_can_t_be_told_is_refused() -> None:
    with pytest.raises(TypeError, match="can't be"):
        Report("journal.jsonl")  # type: ignore[arg-type]  # which is the mistake


def test_what_is_attached_twice_is_told_once() -> None:
    told: list[Event] = []
    report = Report(told.append)
    call(_engine(_engine(None, {}, report), None, report))
    assert len(told) == 2


def test_a_copy_in_another_process_tells_nobody() -> None:
    assert pickle.loads(pickle.dumps(Report(lambda _: None))).listeners == ()  # noqa: S301 - our own bytes
