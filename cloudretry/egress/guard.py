"""The lock around a pool and its line: what threads, event loops and forks may do at the same time. It also asks the clock."""

from __future__ import annotations

import os
import threading
from math import inf
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from cloudretry.core.member_changes import Instant, MemberChanged
from cloudretry.core.pool import Pool, Wanted
from cloudretry.core.pool_view import snapshot, unavailable
from cloudretry.core.waiting_line import Waiter, WaitingLine
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from cloudretry.core.pool_records import Grant
    from cloudretry.core.pool_settings import PoolSettings
    from cloudretry.core.pool_snapshot import PoolSnapshot, Unavailable
    from cloudretry.core.tries import TryEnd

__all__ = ["Guard"]


class Guard:
    """Every method takes the lock for some microseconds and never waits otherwise. Listeners are told without it.

    Attributes:
        settings: what holds now.
    """

    def __init__(self, settings: PoolSettings, tell: Callable[[MemberChanged], object] | None, rng: Random) -> None:
        self.settings = settings
        self.lock = threading.RLock()  # a signal handler or a finalizer may come in the middle, and must not wait for itself
        self._tell = tell
        self._pool = Pool(settings, now(), rng)
        self._line = WaitingLine()
        self._inherited = 0  # the number of the last grant that is the parent's of this fork
        with _registering:
            _GUARDS.add(self)

    def ask(self, wanted: Wanted, call: str | None, *, first: bool) -> Grant | None:
        """A member at once, if one can be used and nobody waits for it. `first`: S is to be counted."""
        with self.lock:
            at = now()
            if self._line:
                self._line.serve(self._pool, at)
                if self._line.must_join(wanted, at.monotonic):
                    return None
            grant = self._pool.pick(wanted, at, call, count=first)
            changes = self._pool.take_changes()
        if changes:
            self._tell_all(changes)
        return grant

    def join(
        self, wanted: Wanted, call: str | None, ring: Callable[[], None], *, budget: float | None, patient: bool
    ) -> Waiter:
        """A place in the line. `look` and in the end `leave` must follow."""
        with self.lock:
            since = now().monotonic
            until = inf if budget is None else since + budget
            waiter = Waiter(wanted=wanted, call=call, since=since, until=until, patient=patient, wake=ring)
            self._line.join(waiter)
        return waiter

    def look(self, waiter: Waiter) -> Grant | float | None:
        """A member, if the time has come; or after how many seconds to look again; None: there is nothing to wait for."""
        with self.lock:
            at = now()
            self._line.serve(self._pool, at)
            grant, waiter.grant = waiter.grant, None
            pause = self._line.pause(waiter, self._pool, at) if grant is None else None
            changes = self._pool.take_changes()
        self._tell_all(changes)
        return pause if grant is None else grant

    def leave(self, waiter: Waiter) -> Grant | None:
        """Wait no longer. What it was given at the last moment is returned, and must be finished."""
        with self.lock:
            self._line.leave(waiter)
            grant, waiter.grant = waiter.grant, None
        return grant

    def finish(self, grant: Grant, end: TryEnd) -> None:
        """A request has ended; once for each grant."""
        self._conclude(grant, end, self._pool.finish)

    def judge(self, grant: Grant, end: TryEnd) -> None:
        """Something became known of a request after its end."""
        self._conclude(grant, end, self._pool.judge)

    def change(self, change: Callable[[Pool, Instant], None]) -> None:
        """Do something with the pool that may matter to everybody who waits."""
        with self.lock:
            at = now()
            change(self._pool, at)
            self.settings = self._pool.settings
            self._serve(at)
            changes = self._pool.take_changes()
        self._tell_all(changes)

    def snapshot(self) -> PoolSnapshot:
        """What the pool looks like now."""
        with self.lock:
            picture = snapshot(self._pool, now(), waiting=len(self._line))
            changes = self._pool.take_changes()
        self._tell_all(changes)
        return picture

    def unavailable(self, wanted: Wanted, *, since: float) -> Unavailable:
        """Why a call that has asked since then gets no member."""
        with self.lock:
            at = now()
            return unavailable(self._pool, wanted, at, waited=at.monotonic - since)

    def forked(self) -> None:
        """In the child, with the lock held: whoever was admitted or waits lives in the parent."""
        self._inherited = self._pool.records.granted
        self._line = WaitingLine()
        self._pool.forget_requests(now())

    def _conclude(self, grant: Grant, end: TryEnd, conclude: Callable[[Grant, TryEnd, Instant], None]) -> None:
        with self.lock:
            if grant.number <= self._inherited:
                return
            at = now()
            conclude(grant, end, at)
            changes = self._pool.take_changes()
            if (changes or grant.trial) and self._line:
                self._serve(at)
        if changes:
            self._tell_all(changes)

    def _serve(self, at: Instant) -> None:
        self._line.serve(self._pool, at)
        self._line.wake()

    def _tell_all(self, changes: Sequence[MemberChanged]) -> None:
        for change in changes:
            if self._tell is not None:
                self._tell(change)


def now() -> Instant:
    """Both clocks of the process."""
    clock = current_clock()
    return Instant(clock.monotonic(), clock.wall())


_GUARDS: Final[WeakSet[Guard]] = WeakSet()
_registering: Final = threading.Lock()
_forking: Final[list[Guard]] = []


def _before_fork() -> None:
    """Hold every lock, so that no pool is copied in the middle of a change."""
    _registering.acquire()
    _forking[:] = _GUARDS
    for guard in _forking:
        guard.lock.acquire()


def _after_fork_in_parent() -> None:
    while _forking:
        _forking.pop().lock.release()
    _registering.release()


def _after_fork_in_child() -> None:
    for guard in _forking:
        guard.forked()
    _after_fork_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
