"""Plugins as the engine uses them: built before anything is sent, asked for each throttle, never at the cost of a call."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from cloudretry.core.call import Call
from cloudretry.core.decision import StopReason
from cloudretry.core.events import AttemptFailed, CallEnded, Event
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.core.settings import Match, Override, ProviderSettings, RetrySettings, Settings
from cloudretry.errors import ConfigurationError, PluginNotFound
from cloudretry.runtime.engine import Engine
from cloudretry.testing import virtual_clock

Install = Callable[..., str]
CALL = Call(provider="aws", service="ec2", operation="DescribeInstances", region="eu-west-1")
THROTTLED = Outcome(kind=Kind.THROTTLED, status=503, code="RequestLimitExceeded")

COUNTED = """
    class Strategy:
        built = 0

        def __init__(self, *, step_ms=100):
            type(self).built += 1
            self.step_ms = step_ms

        def getDelay(self, context):
            return self.step_ms * context.retry_number if context.retry_number < 4 else None
"""
ASYNC = """
    import asyncio

    class Strategy:
        async def getDelay(self, context):
            await asyncio.sleep(0)
            return 100
"""
HANGING = """
    import asyncio

    class Strategy:
        async def getDelay(self, context):
            await asyncio.Event().wait()
"""
RAISING = """
    class Strategy:
        def getDelay(self, context):
            raise {error}
"""


def engine(*overrides: Override, listener: Callable[[Event], None] | None = None, **changes: Any) -> Engine:
    entry = ProviderSettings(retry=RetrySettings(**{"strategy": "custom", **changes}), overrides=overrides)
    return Engine(Settings(providers={"aws": entry}), rng=Random(1), listeners=[listener] if listener else [])


def test_a_plugin_is_built_once_and_decides_each_wait(install: Install) -> None:
    install("counted", COUNTED)
    ours = engine(plugin="counted", plugin_options={"step_ms": 200})
    with virtual_clock() as clock:
        for _ in range(2):
            machine = ours.begin(CALL)
            while ours.retried(machine, THROTTLED):
                pass
            assert machine.ended is not None
            assert machine.ended.reason is StopReason.PLUGIN
    assert clock.sleeps == pytest.approx([0.2, 0.4, 0.6] * 2)
    assert sys.modules["cloudretry_counted"].Strategy.built == 1


def test_a_plugin_that_is_not_installed_is_refused_before_any_call(install: Install) -> None:
    install("counted", COUNTED)
    with pytest.raises(PluginNotFound, match=r"installed: .*counted"):
        engine(plugin="nowhere")
    with pytest.raises(PluginNotFound):
        engine(Override(Match(service="s3"), {"plugin": "nowhere"}), plugin="counted")


def test_overrides_that_only_together_name_a_plugin_are_built_before_the_first_send(install: Install) -> None:
    install("counted", COUNTED)
    custom = Override(Match(service="ec2"), {"strategy": "custom"})
    named = Override(Match(operation="Describe*"), {"plugin": "counted"})
    ours = engine(custom, named, strategy="exponential")
    with virtual_clock() as clock:
        machine = ours.begin(CALL)
        ours.retried(machine, THROTTLED)
    assert clock.sleeps == [0.1]


def test_overrides_that_together_cannot_be_built_are_refused_before_the_first_send(install: Install) -> None:
    install("counted", COUNTED)
    custom = Override(Match(service="ec2"), {"strategy": "custom", "plugin": "counted"})
    options = Override(Match(operation="Describe*"), {"plugin_options": {"speed": 1}})
    ours = engine(custom, options, strategy="exponential")
    with pytest.raises(ConfigurationError, match=r"refused its plugin_options \(speed\)"):
        ours.begin(CALL)


def test_custom_without_a_plugin_says_what_is_missing() -> None:
    with pytest.raises(ConfigurationError, match="needs plugin"):
        engine().begin(CALL)


@pytest.mark.parametrize("error", ["ValueError('x')", "RecursionError()", "MemoryError()", "StopIteration()"])
def test_a_plugin_that_raises_costs_nothing_but_a_fall_back(install: Install, error: str) -> None:
    install("raising", RAISING.format(error=error))
    ours = engine(plugin="raising", max_retries=3)
    with virtual_clock() as clock:
        machine = ours.begin(CALL)
        while ours.retried(machine, THROTTLED):
            pass
    assert len(clock.sleeps) == 3
    assert {attempt.source for attempt in machine.history().attempts} == {"fallback", None}


def test_an_async_plugin_serves_async_calls_and_falls_back_in_sync_ones(install: Install) -> None:
    install("waiting", ASYNC)
    ours = engine(plugin="waiting", max_retries=1)
    with virtual_clock() as clock:
        first, second = ours.begin(CALL), ours.begin(CALL)
        assert asyncio.run(ours.retried_async(first, THROTTLED))
        assert ours.retried(second, THROTTLED)
    assert clock.sleeps[0] == 0.1
    assert [machine.history().attempts[0].source for machine in (first, second)] == ["plugin", "fallback"]


def test_ctrl_c_while_a_plugin_thinks_ends_the_call_and_is_told(install: Install) -> None:
    install("interrupted", RAISING.format(error="KeyboardInterrupt"))
    events: list[Event] = []
    ours = engine(plugin="interrupted", listener=events.append)
    machine = ours.begin(CALL)
    with pytest.raises(KeyboardInterrupt):
        ours.retried(machine, THROTTLED)
    assert [event.stop.reason for event in events if isinstance(event, CallEnded)] == [StopReason.CANCELLED]
    assert len(machine.history().attempts) == 1


def test_cancelling_a_task_while_its_plugin_thinks_ends_the_call_and_is_told(install: Install) -> None:
    install("hanging", HANGING)
    events: list[Event] = []
    ours = engine(plugin="hanging", listener=events.append)

    async def main() -> None:
        task = asyncio.create_task(ours.retried_async(ours.begin(CALL), THROTTLED))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [type(event) for event in events] == [CallEnded]
    assert not [event for event in events if isinstance(event, AttemptFailed)]
