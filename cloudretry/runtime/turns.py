"""Waiting for a turn, by threads and by tasks of any event loop, over one pacer. The only room where a pacer meets a clock.

One of those who wait, the first in the queue, watches the clock. Whoever asks, lands or ends hands out the turns that are due
on the way, and wakes their owners and the next first one; nobody else is woken. The lock is held for microseconds, never while
waiting, so a coroutine may take it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from datetime import datetime, timezone
from threading import Lock, RLock
from typing import TYPE_CHECKING, Final, TypeAlias

from cloudretry import errors
from cloudretry.core.pacer import Stage, Ticket
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from types import TracebackType

    from cloudretry.core.pacer import Pacer, PacerState
    from cloudretry.runtime.clock import Clock

    _Waker: TypeAlias = Lock | tuple[AbstractEventLoop, Future[None]]

__all__ = ["Turn", "TurnTimeout", "Turns"]

logger = logging.getLogger("cloudretry")

_LONGEST: Final = 3600.0  # s; what a lock or a loop can be asked to wait for is limited
_TICK: Final = 1e-6  # s
_LONG: Final = 5.0  # s of waiting that whoever watches a program wonders about; said so
_SELDOM: Final = 60.0  # s
_UNFORESEEN: Final = "the rate is just being measured, so nobody can say when this one could leave"


class TurnTimeout(errors.TurnTimeout):
    """A call can't have its turn within the `queue_timeout`. Nothing was sent.

    Attributes:
        waited: seconds that this attempt had waited.
        retry_after: seconds after which it could leave, as far as can be foreseen.
        retry_at: the same as a moment (UTC); None beyond the calendar.
        quota, state: what it waited for.
    """

    def __init__(self, quota: str, state: PacerState, waited: float, retry_after: float, wall: float) -> None:
        super().__init__(quota, state, waited, retry_after, wall)
        self.quota, self.state, self.waited, self.retry_after = quota, state, waited, retry_after
        self.retry_at: datetime | None = None
        with contextlib.suppress(OverflowError, OSError, ValueError):
            self.retry_at = datetime.fromtimestamp(wall + retry_after, timezone.utc)

    def __str__(self) -> str:
        pace = _pace(self.state)
        pause = f", after a pause of {self.state.hold:.0f} s that the provider asked for" if self.state.hold else ""
        at = f", at {self.retry_at:%H:%M:%S} UTC" if self.retry_at else ""
        when = f"this one could leave in {self.retry_after:.0f} s{at}" if self.retry_after else _UNFORESEEN
        return f"no turn for {self.quota} within queue_timeout: {self.state.waiting} waiting{pace}{pause}; {when}"


class Turn(Ticket):
    """One attempt's turn. Enter it around the transport's send; what becomes of the attempt is told apart from that.

    Thread-safe. Every method may be called too late or twice, and then does the right thing or nothing.
    """

    __slots__ = ("_turns", "sent", "waker")

    def __init__(self, turns: Turns) -> None:
        Ticket.__init__(self)
        self.sent: float | None = None  # monotonic seconds
        self._turns = turns
        self.waker: _Waker | None = None

    def __enter__(self) -> Turn:  # noqa: PYI034 - Self is not in typing before 3.11
        """The attempt leaves now. A turn that has lapsed is charged again, without waiting."""
        turns = self._turns
        with turns.lock:
            now = self.sent = current_clock().monotonic()
            turns.pacer.send(self, now)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """The attempt is over, whatever came of it."""
        turns = self._turns
        with turns.lock:
            turns.pacer.land(self)
            if turns.pacer.waiting:
                turns.hand_out()

    def accepted(self, *, remaining: float | None = None, resets_after: float | None = None) -> None:
        """The provider answered, and did not throttle. Headers may have told how many calls are left, until which reset."""
        turns = self._turns
        if self.sent is None:
            return  # an answer without a send, such as a stub's
        with turns.lock:
            turns.pacer.accepted(current_clock().monotonic(), self.sent, remaining=remaining, resets_after=resets_after)
            if turns.pacer.waiting:
                turns.hand_out()

    def throttled(self, retry_after: float = 0.0) -> None:
        """The provider throttled; `retry_after`: seconds for which its answer asked for silence."""
        turns = self._turns
        if self.sent is None:
            return
        with turns.lock:
            turns.pacer.throttled(current_clock().monotonic(), self.sent, retry_after)
            turns.hand_out()

    def give_back(self) -> None:
        """Nothing will be sent. Does nothing where something was."""
        turns = self._turns
        with turns.lock:
            turns.pacer.withdraw(self)
            turns.hand_out()

    def wake(self) -> bool:
        """Let the owner look at this turn again. False: there is no owner any more. Under the lock."""
        if self.waker is None:
            return True  # its owner is looking at it anyway
        if not isinstance(self.waker, tuple):
            if self.waker.locked():
                self.waker.release()
            return True
        loop, future = self.waker
        try:
            loop.call_soon_threadsafe(_resolve, future)
        except RuntimeError:  # the loop was closed while a task of it waited
            return False
        return True


class Turns:
    """The turns of one quota. Thread-safe, and safe between event loops.

    Attributes:
        name: of the quota, for messages.
        used: when a turn was asked for last (monotonic seconds).
    """

    __slots__ = ("_alarm", "_told", "_watcher", "lock", "name", "pacer", "used")

    def __init__(self, pacer: Pacer[Turn], name: str, now: float) -> None:
        self.pacer = pacer
        self.name = name
        self.lock = RLock()  # a signal handler may make a call of its own while its thread is in here
        self.used = now
        self._watcher: Turn | None = None
        self._alarm = math.inf  # until when the watcher sleeps
        self._told = -math.inf  # when it was said last that calls wait

    def take(self, *, not_before: float | None = None, patience: float = math.inf) -> Turn:
        """Wait for a turn, in this thread; Ctrl-C ends the wait and leaves nothing behind.

        Args:
            not_before: monotonic seconds; the attempt is a retry: it enters at the front, but not earlier.
            patience: seconds that it may wait.

        Raises:
            TurnTimeout: it would take longer. Raised at once where that can be foreseen.
        """
        turn = Turn(self)
        try:
            clock, entered = self._enter(turn, not_before, patience)
            if turn.stage is Stage.QUEUED:
                waker = _locked()
                while (seconds := self._look(turn, waker, clock, entered, patience)) > 0.0:
                    _pause(waker, seconds, clock, watches=self._watcher is turn)
        except BaseException:
            turn.give_back()
            raise
        return turn

    async def take_async(self, *, not_before: float | None = None, patience: float = math.inf) -> Turn:
        """The async twin of `take`; cancelling the task ends the wait and leaves nothing behind."""
        import asyncio  # a synchronous program never needs it, and it is slow to import

        turn = Turn(self)
        try:
            clock, entered = self._enter(turn, not_before, patience)
            if turn.stage is Stage.QUEUED:
                loop = asyncio.get_running_loop()
                waker = loop, loop.create_future()
                while (seconds := self._look(turn, waker, clock, entered, patience)) > 0.0:
                    await _pause_async(waker, seconds, clock, watches=self._watcher is turn)
                    waker = loop, loop.create_future()
        except BaseException:
            turn.give_back()
            raise
        return turn

    def state(self) -> PacerState:
        """What is known of the quota."""
        with self.lock:
            return self.pacer.state(current_clock().monotonic())

    def limit(self, *, reserve: float, max_rate: float | None, max_in_flight: int | None) -> None:
        """Other settings hold from now on."""
        with self.lock:
            self.pacer.limit(reserve=reserve, max_rate=max_rate, max_in_flight=max_in_flight)
            self.hand_out()

    def is_idle(self, now: float, seconds: float) -> bool:
        """Whether nobody has used this for so long, and the provider does not want anybody to wait."""
        with self.lock:
            pacer = self.pacer
            return not pacer.waiting and not pacer.in_flight and now - max(self.used, pacer.rate.hold) >= seconds

    def hand_out(self) -> None:
        """Give the turns that are due to those who wait. Under the lock; cheap where there is nothing to do."""
        pacer = self.pacer
        if not pacer.waiting:
            return
        clock = current_clock()
        now = clock.monotonic()
        if now < pacer.wake and self._watched(pacer.wake):
            return
        self._grant(now)
        self._appoint(now)

    def _grant(self, now: float) -> None:
        while (turn := self.pacer.grant(now)) is not None:
            if not turn.wake():
                self.pacer.withdraw(turn)

    def _watched(self, wake: float) -> bool:
        watcher = self._watcher
        return watcher is not None and watcher.stage is Stage.QUEUED and self._alarm <= wake

    def _appoint(self, now: float) -> None:
        """See to it that the first in the queue watches the clock, and wakes no later than the pacer wants to be asked."""
        while (first := self.pacer.first(now)) is not None:
            if first is self._watcher and self._alarm <= self.pacer.wake:
                return
            self._watcher, self._alarm = first, -math.inf
            if first.wake():
                return
            self.pacer.withdraw(first)
        self._watcher = None

    def _enter(self, turn: Turn, not_before: float | None, patience: float) -> tuple[Clock, float]:
        """Queue a turn, unless its wait would be too long; it may have been granted at once."""
        clock, told, expected = current_clock(), None, 0.0
        with self.lock:
            now = self.used = clock.monotonic()
            pacer = self.pacer
            if not_before is None and pacer.admit(turn, now):
                return clock, now
            pacer.enqueue(turn, not_before)
            if now >= pacer.wake:
                self._grant(now)
            if turn.stage is Stage.QUEUED and patience < math.inf:
                expected = pacer.expected(now, not_before) - now
                if expected > patience:
                    raise TurnTimeout(self.name, pacer.state(now), 0.0, expected, clock.wall())
                if expected > _LONG and now - self._told > _SELDOM:
                    self._told, told = now, pacer.state(now)
        if told is not None:  # not under the lock: a handler of logging may make calls
            logger.info("%s: %d waiting%s, the last one for %.0f s", self.name, told.waiting, _pace(told), expected)
        return clock, now

    def _look(self, turn: Turn, waker: _Waker, clock: Clock, entered: float, patience: float) -> float:
        """Seconds for which the owner should sleep before it looks again; 0: it has its turn."""
        with self.lock:
            turn.waker = None
            self.hand_out()
            if turn.stage is not Stage.QUEUED:
                return 0.0
            now = clock.monotonic()
            left = entered + patience - now
            if left <= 0.0:
                expected = self.pacer.expected(now) - now
                raise TurnTimeout(self.name, self.pacer.state(now), now - entered, expected, clock.wall())
            turn.waker = waker
            if self._watcher is not turn:
                return left
            self._alarm = self.pacer.wake
            return max(_TICK, min(left, self._alarm - now))


def _pace(state: PacerState) -> str:
    return f" at {state.limit.rate:.3g} calls/s" if state.limit else ""


def _locked() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock


def _resolve(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _pause(waker: Lock, seconds: float, clock: Clock, *, watches: bool) -> None:
    """Sleep until woken, or for so long. On a virtual clock only the watcher lets time pass."""
    if clock.monotonic is time.monotonic:
        waker.acquire(timeout=min(seconds, _LONGEST))
    elif watches and seconds < math.inf:
        clock.sleep(seconds)
    else:
        waker.acquire()


async def _pause_async(waker: tuple[AbstractEventLoop, Future[None]], seconds: float, clock: Clock, *, watches: bool) -> None:
    loop, future = waker
    if clock.monotonic is not time.monotonic:
        await (clock.sleep_async(seconds) if watches and seconds < math.inf else future)
        return
    alarm = loop.call_later(min(seconds, _LONGEST), _resolve, future)
    try:
        await future
    finally:
        alarm.cancel()
