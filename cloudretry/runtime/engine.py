"""Drives machines: asks plugins, tells listeners, waits. One engine serves every client and thread of a configuration."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from cloudretry.core.decision import Ask, Decision, Stop
from cloudretry.core.events import AttemptFailed, CallEnded
from cloudretry.core.machine import ANSWERED, RetryMachine
from cloudretry.runtime.clock import current_clock
from cloudretry.strategies.plugin import Plugin, Unusable
from cloudretry.strategies.registry import build_plugin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudretry.core.call import Call
    from cloudretry.core.events import Event, Listener
    from cloudretry.core.outcome import Outcome
    from cloudretry.core.settings import RetrySettings, Settings
    from cloudretry.strategies.plugin import Reply

__all__ = ["Engine"]

logger = logging.getLogger("cloudretry")


class Engine:
    """Settings, randomness and listeners, shared by hooked clients. Thread-safe.

    Raises:
        ConfigurationError: a plugin that the settings name can't be built.
    """

    def __init__(self, settings: Settings, *, rng: Random | None = None, listeners: Iterable[Listener] = ()) -> None:
        self.settings = settings
        self.listeners = tuple(listeners)
        self._rng = rng or Random()
        self._resolved: dict[Call, RetrySettings] = {}
        self._plugins: dict[tuple[str, str], Plugin] = {}
        for entry in settings.providers.values():
            for retry in [entry.retry, *(replace(entry.retry, **override.changes) for override in entry.overrides)]:
                if retry.strategy == "custom":
                    self._plugin(retry)

    def begin(self, call: Call, *, single_attempt: bool = False) -> RetryMachine:
        """Start a call. `single_attempt`: the caller asked the SDK for no retries, which is honoured."""
        retry = self._resolved.get(call)
        if retry is None:
            retry = self._resolved[call] = self.settings.providers[call.provider].for_call(call)
        if single_attempt:
            retry = replace(retry, max_retries=0)
        return RetryMachine(call, retry, started=current_clock().monotonic(), rng=self._rng)

    def retried(self, machine: RetryMachine, outcome: Outcome) -> bool:
        """Decide after a failed attempt, and wait. True: the call goes out again now. False: `machine.ended` says why not."""
        step = machine.record(outcome, current_clock().monotonic())
        if isinstance(step, Ask):
            step = _heard(machine, self._plugin(machine.settings).ask(step.context))
        self.tell(AttemptFailed(machine.call, machine.attempts, outcome, step))
        if isinstance(step, Stop):
            return False
        try:
            current_clock().sleep(step.delay)
        except BaseException:
            self._cancelled(machine)
            raise
        return True

    async def retried_async(self, machine: RetryMachine, outcome: Outcome) -> bool:
        """The async twin of `retried`; cancelling the task ends the wait at once."""
        step = machine.record(outcome, current_clock().monotonic())
        if isinstance(step, Ask):
            step = _heard(machine, await self._plugin(machine.settings).ask_async(step.context))
        self.tell(AttemptFailed(machine.call, machine.attempts, outcome, step))
        if isinstance(step, Stop):
            return False
        try:
            await current_clock().sleep_async(step.delay)
        except BaseException:
            self._cancelled(machine)
            raise
        return True

    def observed(self, machine: RetryMachine, outcome: Outcome) -> None:
        """Record a failed attempt and leave the decision to the SDK."""
        machine.observe(outcome)
        self.tell(AttemptFailed(machine.call, machine.attempts, outcome, None))

    def end(self, machine: RetryMachine) -> None:
        """Tell that the call is over; the adapter says so when the SDK hands the result to the caller."""
        stop = machine.ended or ANSWERED
        self.tell(CallEnded(machine.call, machine.attempts, machine.outcome, stop, machine.waited))

    def tell(self, event: Event) -> None:
        """Tell every listener; one that raises is told of and never breaks a call."""
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a listener of cloudretry failed and is passed over: %r", listener)

    def _cancelled(self, machine: RetryMachine) -> None:
        machine.cancel()
        self.end(machine)

    def _plugin(self, retry: RetrySettings) -> Plugin:
        """The plugin of some settings, built once for each name and options."""
        name = retry.plugin or ""
        key = (name, json.dumps(retry.plugin_options, sort_keys=True, default=repr))
        if key not in self._plugins:
            self._plugins[key] = build_plugin(name, retry.plugin_options)
        return self._plugins[key]


def _heard(machine: RetryMachine, reply: Reply) -> Decision:
    return machine.fall_back() if isinstance(reply, Unusable) else machine.answer(reply)
