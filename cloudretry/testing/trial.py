"""Tries a strategy by the machine that runs in production: its fall-backs, stops, budget and warnings are the real ones."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from cloudretry.core.call import Call
from cloudretry.core.decision import Ask, Decision, Retry
from cloudretry.core.machine import RetryMachine
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.strategies.plugin import Plugin, Reply, Unusable, get_delay_of
from cloudretry.testing.contexts import backoff_context

if TYPE_CHECKING:
    from cloudretry.core.context import BackoffContext

__all__ = ["decisions", "delays"]


def delays(
    strategy: object, *, retries: int = 5, seed: int = 1, context: BackoffContext | None = None, **facts: Any
) -> list[float | None]:
    """The milliseconds that a call would wait before each of its retries, were it throttled every time.

    A None at the end: the call was given up there, because getDelay() said so or the time budget was spent. Where getDelay()
    gives nothing usable, the wait is that of the fall-back, and the log has the warning that production would have.

    Args:
        strategy: an object with getDelay(context), plain or async; outside of an event loop, if it is async.
        retries: the call's max_retries.
        seed: of the draws.
        context: what every throttle looks like, for example one of RECORDED.
        facts: instead of it, fields of BackoffContext as `backoff_context` takes them. What is counted (retry_number,
            elapsed_ms, previous_delays_ms) comes from the trial itself.

    Raises:
        TypeError: it has no getDelay().
    """
    if context is not None and facts:
        raise TypeError("give a context or facts, not both")
    get_delay = get_delay_of(strategy)
    if get_delay is None or inspect.isclass(strategy):
        raise TypeError(f"{strategy!r} is not an object with getDelay(context)")
    plugin = Plugin(type(strategy).__name__, "this test", get_delay)
    steps = decisions(plugin, context or backoff_context(**facts), retries=retries, seed=seed)
    return [step.delay * 1000.0 if isinstance(step, Retry) else None for step in steps]


def decisions(plugin: Plugin, context: BackoffContext, *, retries: int, seed: int) -> Iterator[Decision]:
    """What follows from each of the throttles that a call meets, until it stops or has no retry left."""
    settings = replace(context.settings, strategy="custom", max_retries=retries)
    machine = RetryMachine(_call(context), settings, started=0.0, rng=Random(seed))
    for _ in range(retries):
        step = machine.record(_throttled(context), machine.waited)
        if isinstance(step, Ask):
            reply = _reply(plugin, step.context)
            step = machine.fall_back() if isinstance(reply, Unusable) else machine.answer(reply)
        yield step
        if not isinstance(step, Retry):
            return


def _reply(plugin: Plugin, context: BackoffContext) -> Reply:
    if not plugin.is_async:
        return plugin.ask(context)
    import asyncio

    return asyncio.run(plugin.ask_async(context))


def _call(context: BackoffContext) -> Call:
    return Call(
        provider=context.provider,
        service=context.service,
        operation=context.operation,
        region=context.region,
        account=context.account,
    )


def _throttled(context: BackoffContext) -> Outcome:
    return Outcome(
        kind=Kind.THROTTLED,
        status=context.status,
        code=context.error_code,
        message=context.error_message,
        headers=context.headers,
        exception=context.exception,
    )
