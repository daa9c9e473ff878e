"""Drives machines: asks plugins, tells listeners, waits. One engine serves every client and thread of a configuration."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from random import Random, SystemRandom
from threading import RLock
from typing import TYPE_CHECKING, TypeAlias

from cloudretry.core.decision import Ask, Decision, Stop, StopReason
from cloudretry.core.events import AttemptFailed, CallEnded
from cloudretry.core.lost import LostCall
from cloudretry.core.machine import ANSWERED, RetryMachine
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.core.rule import rule_of
from cloudretry.core.settings import for_credentials, single_attempt
from cloudretry.errors import ConfigurationError
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.outer_loops import OUTER_LOOPS
from cloudretry.runtime.place import Place
from cloudretry.runtime.turns import TurnTimeout
from cloudretry.strategies.plugin import Plugin, Unusable
from cloudretry.strategies.registry import build_plugin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from cloudretry.core.call import Call
    from cloudretry.core.events import Event, Listener
    from cloudretry.core.settings import RetrySettings, Settings
    from cloudretry.runtime.watching import Watch
    from cloudretry.strategies.plugin import Reply

__all__ = ["Bounds", "Engine"]

Bounds: TypeAlias = "Callable[[RetrySettings], RetrySettings]"

logger = logging.getLogger("cloudretry")

_building = RLock()
if hasattr(os, "register_at_fork"):  # a child must not find it held by a thread that it does not have
    os.register_at_fork(before=_building.acquire, after_in_parent=_building.release, after_in_child=_building.release)


class Engine:
    """Settings, randomness and listeners, shared by hooked clients. Thread-safe.

    Args:
        watch: what tells of new settings; calls that are under way keep those that they began with.

    Raises:
        ConfigurationError: a plugin that the settings name can't be built.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        rng: Random | None = None,
        listeners: Iterable[Listener] = (),
        watch: Watch | None = None,
    ) -> None:
        self.settings = settings
        self._watch = watch
        self.listeners = tuple(listeners)
        self._rng = rng or SystemRandom()  # has no state, so forked workers don't draw the same delays and return as a crowd
        self._resolved: dict[tuple[Call, Bounds | None], RetrySettings] = {}
        self._plugins: dict[tuple[str, str], Plugin] = {}
        self._faulty: set[int] = set()
        self._account_warned = False
        self._build_plugins(settings)
        if watch is not None:
            watch.subscribe(self.take)

    def begin(self, call: Call, bounds: Bounds | None = None) -> RetryMachine:
        """Start a call. `bounds`: a function that narrows the settings, where this kind of client needs it.

        Raises:
            ConfigurationError: overrides together name a plugin that can't be built. Nothing was sent.
        """
        self.look()
        machine = RetryMachine(call, self._settings_of(call, bounds), started=current_clock().monotonic(), rng=self._rng)
        entry = self.settings.providers[call.provider]
        if entry.mode == "enforce" and entry.pacing.mode != "off" and bounds is not for_credentials:
            machine.place = Place(entry.pacing)
        return machine

    def look(self) -> None:
        """See whether the configuration has changed, at most once a second."""
        if self._watch is not None:
            self._watch.look()

    def take(self, settings: Settings) -> None:
        """Let other settings hold for calls that begin later. Raises ConfigurationError, and changes nothing, as when made."""
        self._build_plugins(settings)
        self.settings, self._resolved = settings, {}

    def rename(self, machine: RetryMachine, call: Call, bounds: Bounds | None = None) -> None:
        """More is known of a call than when it began; what holds for it may change by that."""
        machine.call = call
        settings = self._settings_of(call, bounds)
        machine.settings = single_attempt(settings) if machine.rounds else settings

    def _settings_of(self, call: Call, bounds: Bounds | None) -> RetrySettings:
        resolved = self._resolved  # not another one that comes with new settings meanwhile
        retry = resolved.get((call, bounds))
        if retry is None:
            retry = self.settings.providers[call.provider].for_call(call)
            self._warn_of_unknown_account(call)
            if retry.strategy == "custom":
                self._plugin(retry)
            if bounds is not None:
                retry = bounds(retry)
            resolved[call, bounds] = retry
        return retry

    def take_turn(self, machine: RetryMachine) -> None:
        """Wait until the call may leave, by what is known of its quota. To be called before it is signed.

        Does nothing where it has its turn, as after `retried`. Raises TurnTimeout where that would take too long; then
        `machine.ended` says so.
        """
        if machine.place is None or machine.place.has_turn:
            return
        try:
            machine.place.take(machine.call)
        except TurnTimeout as late:
            _overdue(machine, late)
            raise
        except BaseException:
            self._cancelled(machine)
            raise

    async def take_turn_async(self, machine: RetryMachine) -> None:
        """The async twin of `take_turn`."""
        if machine.place is None or machine.place.has_turn:
            return
        try:
            await machine.place.take_async(machine.call)
        except TurnTimeout as late:
            _overdue(machine, late)
            raise
        except BaseException:
            self._cancelled(machine)
            raise

    def landed(
        self, machine: RetryMachine, outcome: Outcome | None, remaining: tuple[float, float | None] | None = None
    ) -> None:
        """Let the quota learn from an attempt; None: it was answered.

        `remaining`: the calls that are left, as the answer says, and the seconds until the quota is full again, if it says so.
        """
        if machine.place is not None:
            machine.place.tell(outcome, None if outcome is None else machine.asked(outcome), remaining)

    def retried(self, machine: RetryMachine, outcome: Outcome, *, sleep: Callable[[float], None] | None = None) -> bool:
        """Decide after a failed attempt, and wait. True: the call goes out again now. False: `machine.ended` says why not.

        The wait includes that for a turn. Where it would come too late, the answer that is there is what the caller gets.

        `sleep`: the way to wait, where the SDK has one of its own; None for the clock's.
        """
        try:
            step = machine.record(outcome, current_clock().monotonic())
            if isinstance(step, Ask):
                step = _heard(machine, self._plugin(machine.settings).ask(step.context))
            self.tell(AttemptFailed(machine.call, machine.attempts, outcome, step))
            if isinstance(step, Stop):
                return False
            (sleep or current_clock().sleep)(step.delay)
        except BaseException:
            self._cancelled(machine)
            raise
        try:
            self.take_turn(machine)
        except TurnTimeout:
            return False
        return True

    async def retried_async(
        self, machine: RetryMachine, outcome: Outcome, *, sleep: Callable[[float], Awaitable[None]] | None = None
    ) -> bool:
        """The async twin of `retried`; cancelling the task ends the wait at once."""
        try:
            step = machine.record(outcome, current_clock().monotonic())
            if isinstance(step, Ask):
                step = _heard(machine, await self._plugin(machine.settings).ask_async(step.context))
            self.tell(AttemptFailed(machine.call, machine.attempts, outcome, step))
            if isinstance(step, Stop):
                return False
            await (sleep or current_clock().sleep_async)(step.delay)
        except BaseException:
            self._cancelled(machine)
            raise
        try:
            await self.take_turn_async(machine)
        except TurnTimeout:
            return False
        return True

    def varied(self, settings: Settings | None, listeners: Iterable[Listener], watch: Watch | None = None) -> Engine:
        """A copy with other settings and what watches them, if any are given, and with listeners that are not there yet."""
        more = [listener for listener in listeners if listener not in self.listeners]
        if settings is None:
            settings, watch = self.settings, self._watch
        return Engine(settings, rng=self._rng, listeners=(*self.listeners, *more), watch=watch)

    def observed(self, machine: RetryMachine, outcome: Outcome) -> None:
        """Record a failed attempt and leave the decision to the SDK."""
        machine.observe(outcome)
        self.tell(AttemptFailed(machine.call, machine.attempts, outcome, None))

    def end(self, machine: RetryMachine) -> None:
        """Tell, once, that the call is over; the adapter says so when the SDK hands the result to the caller."""
        if machine.place is not None:
            machine.place.leave()
        if machine.told:  # already cancelled by an exception that the SDK reports as well
            return
        machine.told = True
        key = OUTER_LOOPS.end(machine)
        stop = machine.ended or ANSWERED
        queued = 0.0 if machine.place is None else machine.place.waited
        call, attempts, outcome, waited = machine.call, machine.attempts, machine.outcome, machine.waited
        event = CallEnded(call, attempts, outcome, stop, waited, queued, machine.rounds, key, None, machine.page)
        if stop is not ANSWERED and event.is_lost:
            rule = rule_of(self.settings, machine.call, machine.settings, stop.reason)
            lost = LostCall.of(event, page=machine.page, at=current_clock().wall(), rule=rule)
            logger.log(logging.WARNING if _is_news(event) else logging.INFO, "lost call %s", lost)
            event = replace(event, lost=lost)
        self.tell(event)

    def tell(self, event: Event) -> None:
        """Tell every listener; one that raises is logged once and never breaks a call."""
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:  # noqa: PERF203 - each listener is guarded from the others
                if id(listener) not in self._faulty:
                    self._faulty.add(id(listener))
                    logger.exception("a listener of cloudretry failed; the call goes on: %r", listener)

    def _build_plugins(self, settings: Settings) -> None:
        for retry in settings.all_retry_settings():
            if retry.strategy == "custom" and retry.plugin is not None:
                self._plugin(retry)

    def _warn_of_unknown_account(self, call: Call) -> None:
        """An override that names accounts does nothing for a client whose account nobody told us: that must not be silent."""
        overrides = self.settings.providers[call.provider].overrides
        if call.account is None and not self._account_warned and any(item.match.account != "*" for item in overrides):
            self._account_warned = True
            logger.warning("overrides match by account, but the account of %s is not known; pass account=", call)

    def _cancelled(self, machine: RetryMachine) -> None:
        machine.cancel()
        self.end(machine)

    def _plugin(self, retry: RetrySettings) -> Plugin:
        """The plugin of some settings, built once for each name and options."""
        if retry.plugin is None:
            raise ConfigurationError("the strategy custom needs plugin, the name of an entry point in cloudretry.backoff")
        key = (retry.plugin, json.dumps(retry.plugin_options, sort_keys=True, default=repr))
        with _building:
            if key not in self._plugins:
                self._plugins[key] = build_plugin(retry.plugin, retry.plugin_options)
            return self._plugins[key]


def _is_news(lost: CallEnded) -> bool:
    """Whether more can be said than the program's own error says, such as that there are no credentials, or was said before."""
    return not lost.rounds and (lost.attempts > 0 or lost.stop.reason is not StopReason.NOT_RETRYABLE)


def _heard(machine: RetryMachine, reply: Reply) -> Decision:
    return machine.fall_back() if isinstance(reply, Unusable) else machine.answer(reply)


def _overdue(machine: RetryMachine, late: TurnTimeout) -> None:
    now = current_clock().wall()
    outcome = machine.outcome or Outcome(kind=Kind.NOT_SENT, code=type(late).__name__, wall=now)
    machine.abandon(outcome, Stop(StopReason.QUEUE_TIMEOUT, now - outcome.wall + late.retry_after))
