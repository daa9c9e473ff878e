"""Hands out turns for one quota, in order of arrival. Pure: time is passed in, and who waits is none of its business.

A ticket is queued, granted, sent, and lands; at each step it can end. What the provider made of it is told apart from that: a
landing is always seen, what an answer means sometimes only later, and sometimes never.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

from cloudretry.core.rate import Learning, Limit, ProviderRate

__all__ = ["LAPSE", "Pacer", "PacerState", "Stage", "Ticket"]

LAPSE: Final = 5.0
"""Seconds after which a turn that was not used may be taken away, for somebody who waits."""
_PATIENCE: Final = (1.0, 8.0)  # s, latencies: a call in flight for longer is not counted in what is risked


class Stage(Enum):
    """Where a ticket is."""

    QUEUED = 0
    GRANTED = 1  # counted as in flight from here on
    SENT = 2
    OVERDUE = 3  # sent, and out for long: one that hangs must not block those who wait
    LAPSED = 4  # granted, and taken away again
    DONE = 5


_QUEUED, _GRANTED, _SENT, _OVERDUE, _LAPSED, _DONE = Stage


class Ticket:
    """One attempt's place in the queue, then its turn. Made by the caller for one attempt, written by the pacer alone.

    Attributes:
        since: when it was granted, then when it was sent (monotonic seconds).
    """

    __slots__ = ("since", "stage")

    def __init__(self) -> None:
        self.stage = _DONE
        self.since = 0.0


T = TypeVar("T", bound=Ticket)


@dataclass(frozen=True, slots=True, kw_only=True)
class PacerState:
    """What is known of a quota, for reports. `limit` is None while nothing is known; `hold` is in seconds from now."""

    learning: Learning
    limit: Limit | None
    verified: bool
    accepted: int
    throttled: int
    waiting: int
    in_flight: int
    hold: float


class Pacer(Generic[T]):
    """The queue, and what is in flight. Times are monotonic seconds that never run backwards; not thread-safe.

    Args:
        reserve: share of the learned rate that is left to others.
        max_rate: calls per second that never are exceeded, whatever was learned; after a rest two may leave at once.
        max_in_flight: calls in flight that never are exceeded.
        prior: where learning starts (core/rate.py).

    Attributes:
        wake: when to ask `grant` next, read after each call of another method; infinite: when something has happened.
        waiting: tickets in the queue.
        in_flight: tickets granted or sent that have not ended.
        max_rate, max_in_flight: infinite where there is no cap.
    """

    __slots__ = (
        "_capped",
        "_flying",
        "_later",
        "_next",
        "_number",
        "_ready",
        "in_flight",
        "max_in_flight",
        "max_rate",
        "rate",
        "waiting",
        "wake",
    )

    def __init__(
        self,
        now: float,
        *,
        reserve: float = 0.0,
        max_rate: float | None = None,
        max_in_flight: int | None = None,
        prior: Limit | None = None,
    ) -> None:
        self.rate = ProviderRate(now, reserve=reserve, prior=prior)
        self.wake = math.inf
        self.waiting = self.in_flight = 0
        self._capped = False  # the head waits for somebody to land
        self._ready: OrderedDict[T, None] = OrderedDict()
        self._later: list[tuple[float, int, T]] = []
        self._number = 0
        self._flying: dict[T, None] = {}  # in the order in which they were granted, without overdue ones
        self._next = -math.inf
        self._cap(max_rate, max_in_flight)

    def limit(self, *, reserve: float, max_rate: float | None, max_in_flight: int | None) -> None:
        """Other settings hold from now on; what was learned stays."""
        self.rate.leave(reserve)
        self._cap(max_rate, max_in_flight)
        self.wake = -math.inf

    def admit(self, ticket: T, now: float) -> bool:
        """Give the turn at once, where nobody waits and a call may leave: the short way of most calls."""
        if self.waiting or self._allowed_at(now) > now:
            return False
        self._fly(ticket, now)
        return True

    def enqueue(self, ticket: T, not_before: float | None = None) -> None:
        """Queue an attempt at the end. One with `not_before` enters at the front, but only when that moment has come."""
        ticket.stage = _QUEUED
        self.waiting += 1
        if not_before is not None:
            self._number += 1
            heappush(self._later, (not_before, self._number, ticket))
            self.wake = min(self.wake, not_before)
            return
        if not self._ready:
            self.wake = -math.inf
        self._ready[ticket] = None

    def grant(self, now: float) -> T | None:
        """Give the turn to the next ticket, if one may leave now."""
        if now < self.wake:
            return None
        self._capped = False
        due = self._due(now) if self._later else False
        if not due and not self._ready:
            self.wake = self._later[0][0] if self._later else math.inf
            return None
        at = self._allowed_at(now)
        if at == math.inf:
            at = self._room_at(now)
        self.wake = at
        if now < at:
            return None
        ticket = heappop(self._later)[2] if due else self._ready.popitem(last=False)[0]
        self.waiting -= 1
        self._fly(ticket, now)
        return ticket

    def first(self, now: float) -> T | None:
        """Whose turn is next: who should keep an eye on `wake`."""
        if self._due(now) or not self._ready:
            return self._later[0][2] if self._later else None
        return next(iter(self._ready))

    def withdraw(self, ticket: T) -> None:
        """An attempt will not be sent: it leaves the queue, or its turn is given back. Does nothing once it was sent."""
        if ticket.stage is _QUEUED:
            self._leave(ticket)
        elif ticket.stage is _GRANTED:
            self._end(ticket, _DONE)
            self.rate.give_back()
        elif ticket.stage is _LAPSED:
            ticket.stage = _DONE
        else:
            return
        self.wake = -math.inf

    def send(self, ticket: T, now: float) -> None:
        """An attempt leaves. One without a turn, because it lapsed or nobody asked for it, is charged and does not wait."""
        if ticket.stage is not _GRANTED:
            if ticket.stage is _QUEUED:
                self._leave(ticket)
            self._fly(ticket, now)
        ticket.stage = _SENT
        ticket.since = now

    def land(self, ticket: T) -> None:
        """An attempt that was sent is over, whatever came of it. Does nothing the second time."""
        if ticket.stage is _SENT or ticket.stage is _OVERDUE:
            self._end(ticket, _DONE)
            if self._capped:
                self.wake = -math.inf

    def accepted(self, now: float, sent: float, *, remaining: float | None = None, resets_after: float | None = None) -> None:
        """The provider did not throttle the attempt that left at `sent`; it may tell how many calls are left."""
        self.rate.accept(now, sent)
        if remaining is not None:
            self.rate.hear(now, sent, remaining, self._sent_after(sent), resets_after=resets_after)
            self.wake = -math.inf

    def throttled(self, now: float, sent: float, retry_after: float = 0.0) -> None:
        """The provider throttled the attempt that left at `sent`, and may want to hear nothing for some seconds."""
        self.rate.throttle(now, sent, retry_after)
        self.wake = -math.inf

    def expected(self, now: float, not_before: float | None = None) -> float:
        """When the last ticket of the queue will have its turn, as far as can be foreseen; `now` where nothing is known."""
        start = max(now, self.rate.hold)
        if not_before is not None:
            return max(start, not_before)
        speed = min(self.rate.foreseen, self.max_rate)
        return start + max(0.0, self.waiting - max(self.rate.level, 0.0)) / speed

    def state(self, now: float) -> PacerState:
        """A copy of what is known."""
        rate = self.rate
        return PacerState(
            learning=rate.learning,
            limit=None if rate.learning is Learning.OPEN else Limit(rate.rate, rate.burst),
            verified=rate.verified,
            accepted=rate.accepted,
            throttled=rate.throttled,
            waiting=self.waiting,
            in_flight=self.in_flight,
            hold=max(0.0, rate.hold - now),
        )

    def _sent_after(self, moment: float) -> int:
        """Calls in flight that left, or will leave, after a moment."""
        count = 0
        for ticket in reversed(self._flying):
            if ticket.since <= moment:
                break
            count += 1
        return count

    def _cap(self, max_rate: float | None, max_in_flight: int | None) -> None:
        self.max_rate = math.inf if max_rate is None else max_rate
        self.max_in_flight = math.inf if max_in_flight is None else max_in_flight

    def _due(self, now: float) -> bool:
        """Whether a ticket's own moment has come. Drops withdrawn ones on the way."""
        later = self._later
        while later and later[0][2].stage is not _QUEUED:
            heappop(later)
        return bool(later) and later[0][0] <= now

    def _allowed_at(self, now: float) -> float:
        """When the head may leave; infinite: as soon as there is room for one more in flight."""
        if now < self._next:
            return self._next
        if self.in_flight >= self.max_in_flight:
            return math.inf
        return self.rate.ready_at(now, len(self._flying))

    def _room_at(self, now: float) -> float:
        """When the head may leave that waits for somebody to land: at the latest when the oldest has been out too long."""
        if self._tidy(now) and (at := self._allowed_at(now)) < math.inf:
            return at
        self._capped = True
        if not self._flying:
            return math.inf
        first = next(iter(self._flying))
        return max(now + 1e-3, first.since + (LAPSE if first.stage is _GRANTED else self._patience()))

    def _tidy(self, now: float) -> bool:
        """Let unused turns lapse, and stop counting calls that hang. Whether there were any."""
        flying, before = self._flying, len(self._flying)
        while flying:
            first = next(iter(flying))
            if first.stage is _GRANTED:
                if now - first.since < LAPSE:
                    break
                self._end(first, _LAPSED)
                self.rate.give_back()
            else:
                if now - first.since < self._patience():
                    break
                first.stage = _OVERDUE
                del flying[first]
        return len(flying) < before

    def _patience(self) -> float:
        return max(_PATIENCE[0], _PATIENCE[1] * self.rate.latency)

    def _leave(self, ticket: T) -> None:
        """Take a ticket out of the queue; one that waits for its own moment is dropped when it would come to the front."""
        self._ready.pop(ticket, None)
        self.waiting -= 1
        ticket.stage = _DONE

    def _fly(self, ticket: T, now: float) -> None:
        self.rate.take(now)
        if self.max_rate < math.inf:
            interval = 1.0 / self.max_rate
            self._next = max(self._next, now - interval) + interval
        elif now > self._next:
            self._next = now  # a cap that comes later counts this one
        ticket.since = now
        self._flying[ticket] = None  # from here on there is no call in which a signal handler could raise
        ticket.stage = _GRANTED
        self.in_flight += 1

    def _end(self, ticket: T, stage: Stage) -> None:
        self._flying.pop(ticket, None)
        ticket.stage = stage
        self.in_flight -= 1
