"""SPEC A4: whatever a plugin does, the call gets a usable reply."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.core.context import BackoffContext
from cloudretry.strategies.plugin import Plugin, Unusable

CONTEXT = BackoffContext()
Log = pytest.LogCaptureFixture


def returning(value: object) -> Plugin:
    return Plugin("mine", "cloudretry-mine", lambda _context: value)


def raising(error: BaseException) -> Plugin:
    def get_delay(_context: BackoffContext) -> float:
        raise error

    return Plugin("mine", "cloudretry-mine", get_delay)


class Float32:
    """A number as numpy makes them: no float, but registered as a Real."""

    def __init__(self, value: float) -> None:
        self._value = value

    def __float__(self) -> float:
        return self._value


class Unreadable(Float32):
    def __float__(self) -> float:
        raise RuntimeError("no number")


Real.register(Float32)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1500, 1.5),
        (250.0, 0.25),
        (0, 0.0),
        (timedelta(seconds=2), 2.0),
        (timedelta(milliseconds=2), 0.002),
        (timedelta(0), 0.0),
        (Fraction(500, 1), 0.5),
        (Float32(500.0), 0.5),
        (1e300, 1e297),
    ],
)
def test_a_number_is_milliseconds_and_used_as_it_is(value: object, seconds: float, caplog: Log) -> None:
    assert returning(value).ask(CONTEXT) == seconds
    assert not caplog.records


@pytest.mark.parametrize("value", [None, -1, -0.5, timedelta(seconds=-1), Fraction(-1, 2)])
def test_none_and_what_is_below_zero_stop(value: object, caplog: Log) -> None:
    assert returning(value).ask(CONTEXT) is None
    assert not caplog.records


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, "5", b"5", True, False, 10**400, Decimal(5), 5j, [5], {}, object(), Unreadable(1)],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_unusable_and_warned_of_once_with_plugin_and_distribution(value: object, caplog: Log) -> None:
    plugin = returning(value)
    assert [plugin.ask(CONTEXT) for _ in range(3)] == [Unusable.UNUSABLE] * 3
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "'mine'" in caplog.text
    assert "cloudretry-mine" in caplog.text


def test_a_plugin_that_raises_is_unusable_and_its_text_is_not_told(caplog: Log) -> None:
    plugin = raising(KeyError("hunter2"))
    assert [plugin.ask(CONTEXT) for _ in range(3)] == [Unusable.UNUSABLE] * 3
    assert caplog.text.count("raised KeyError") == 1
    assert "hunter2" not in caplog.text


def test_each_kind_of_misbehaviour_is_warned_of(caplog: Log) -> None:
    replies = iter(["text", math.nan, "text", math.nan])
    plugin = Plugin("mine", "cloudretry-mine", lambda _context: next(replies))
    for _ in range(4):
        plugin.ask(CONTEXT)
    assert len(caplog.records) == 2


@pytest.mark.parametrize("value", [0.001, 2, 9.99, Float32(3.0)])
def test_a_number_that_looks_like_seconds_is_used_and_warned_of_once(value: Any, caplog: Log) -> None:
    plugin = returning(value)
    assert [plugin.ask(CONTEXT) for _ in range(3)] == [float(value) / 1000.0] * 3
    assert caplog.text.count("seconds?") == 1


def test_ten_milliseconds_do_not_look_like_seconds(caplog: Log) -> None:
    assert returning(10).ask(CONTEXT) == 0.01
    assert not caplog.records


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_the_program_s_own_end_passes_through(error: BaseException) -> None:
    with pytest.raises(type(error)):
        raising(error).ask(CONTEXT)


def test_an_async_plugin_needs_an_async_client(caplog: Log) -> None:
    async def get_delay(_context: BackoffContext) -> float:
        return 500.0

    plugin = Plugin("mine", "cloudretry-mine", get_delay)
    assert plugin.is_async
    assert plugin.ask(CONTEXT) is Unusable.UNUSABLE
    gc.collect()  # a coroutine that was never awaited would warn now, and warnings are errors here
    assert "needs an async client" in caplog.text
    assert asyncio.run(plugin.ask_async(CONTEXT)) == 0.5


def test_an_async_plugin_that_raises_is_unusable(caplog: Log) -> None:
    async def get_delay(_context: BackoffContext) -> float:
        raise TimeoutError("hunter2")

    assert asyncio.run(Plugin("mine", "d", get_delay).ask_async(CONTEXT)) is Unusable.UNUSABLE
    assert "raised TimeoutError" in caplog.text


def test_a_plain_plugin_serves_async_clients() -> None:
    assert asyncio.run(returning(250).ask_async(CONTEXT)) == 0.25
    assert not returning(250).is_async


REPLIES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.timedeltas(), st.fractions(), st.decimals()
)


@settings(derandomize=True, deadline=None)
@given(REPLIES)
def test_every_reply_becomes_a_finite_wait_a_stop_or_a_fall_back(value: object) -> None:
    reply = returning(value).ask(CONTEXT)
    assert reply is None or reply is Unusable.UNUSABLE or (math.isfinite(reply) and reply >= 0.0)


def test_the_context_reaches_the_plugin() -> None:
    def get_delay(context: BackoffContext) -> float:
        return context.retry_number * 1000.0

    ask: Callable[[BackoffContext], object] = Plugin("mine", "d", get_delay).ask
    assert ask(BackoffContext(retry_number=3)) == 3.0
