"""A provider, its neighbours and our workers in virtual time: a heap of events, so that an hour costs a second.

The pacer is the real one (cloudretry/core/pacer.py); what stands between it and a program, locks and wake-ups, is left out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import cycle
from random import Random
from typing import TYPE_CHECKING, Any, Final

from cloudretry.core.backoff import exponential_delay, header_delay
from cloudretry.core.pacer import Pacer, Stage, Ticket

if TYPE_CHECKING:
    from cloudretry.core.rate import Limit

__all__ = ["Bucket", "Result", "Scenario", "run"]

ARRIVE, ANSWER, WAKE, NEIGHBOUR = range(4)
BASE, CAP, WINDOW = 0.5, 20.0, 0.5  # the built-in entries' exponential backoff
JITTERED: Final = (0.2, 3.0)
DRAWN: Final = 4096
_DONE: Final = Stage.DONE


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One case. Rates are calls per second, times are seconds.

    Args:
        changes: (time, factor): from then on the true refill is so many times the first one.
        lump: tokens come all at once after so many seconds; 0: one by one.
        spread: of the latency, as a share of it.
        tenant: calls per second that others make of the same bucket, from `tenant_from` on.
        quotas: how many buckets of this kind there are; `hot_first` works them off one by one instead of interleaved.
        processes: how many pacers that don't know of each other share the bucket, the workers and the calls.
        retry_after: seconds that a throttle asks for; None: it asks for nothing.
        headers: answers say how many tokens are left.
        until: stop then, whatever is left.
    """

    calls: int = 600
    workers: int = 32
    burst: float = 100.0
    refill: float = 20.0
    changes: tuple[tuple[float, float], ...] = ()
    lump: float = 0.0
    latency: float = 0.05
    spread: float = 0.1
    tenant: float = 0.0
    tenant_from: float = 0.0
    quotas: int = 1
    hot_first: bool = False
    processes: int = 1
    retry_after: float | None = None
    headers: bool = False
    prior: Limit | None = None
    reserve: float = 0.0
    max_retries: int = 8
    paced: bool = True
    until: float = math.inf


@dataclass(kw_only=True)
class Result:
    """What came of it."""

    wall: float = 0.0
    ideal: float = 0.0
    accepted: int = 0
    throttled: int = 0
    failed: int = 0
    events: int = 0
    tokens_left: float = 0.0
    durations: list[float] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    per_worker: list[int] = field(default_factory=list)
    pacers: list[Pacer[Any]] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """How much longer than the ideal."""
        return self.wall / self.ideal

    @property
    def waste(self) -> float:
        """Throttled answers in % of the calls."""
        return 100.0 * self.throttled / max(1, self.accepted + self.failed)

    @property
    def p99(self) -> float:
        """Seconds from a call's wish to its answer."""
        ranked = sorted(self.durations)
        return ranked[int(0.99 * (len(ranked) - 1))] if ranked else 0.0

    @property
    def jain(self) -> float:
        """Jain's index of the calls of each worker; 1: all have made as many."""
        squares = sum(count * count for count in self.per_worker)
        return sum(self.per_worker) ** 2 / (len(self.per_worker) * squares) if squares else 1.0


class Bucket:
    """The provider's side."""

    __slots__ = ("_at", "_changes", "_first", "_lump", "_refill", "burst", "level")

    def __init__(self, case: Scenario) -> None:
        self.burst = self.level = case.burst
        self._first = self._refill = case.refill
        self._changes = deque(case.changes)
        self._lump = case.lump
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Take a token, if there is one."""
        while self._changes and self._changes[0][0] <= now:
            moment, factor = self._changes.popleft()
            self._fill(moment)
            self._refill = self._first * factor
        if self._lump:
            self._fill(now)
        else:  # the same, without a call
            self.level = min(self.burst, self.level + (now - self._at) * self._refill)
            self._at = now
        if self.level < 1.0:
            return False
        self.level -= 1.0
        return True

    def _fill(self, now: float) -> None:
        if self._lump:
            lumps = math.floor(now / self._lump + 1e-9) - math.floor(self._at / self._lump + 1e-9)
            gained = lumps * self._refill * self._lump
        else:
            gained = (now - self._at) * self._refill
        self.level = min(self.burst, self.level + gained)
        self._at = now


class _Attempt(Ticket):
    __slots__ = ("began", "process", "quota", "tries", "worker")

    def __init__(self, process: int, worker: int, quota: int, began: float, tries: int) -> None:
        self.stage, self.since = _DONE, 0.0  # as Ticket.__init__, whose call would be seen in the events per second
        self.process, self.worker, self.quota, self.began, self.tries = process, worker, quota, began, tries


class _Unpaced:
    """What a program without a pacer does: an attempt leaves when it wants to."""

    wake = math.inf

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Ticket]] = []
        self._number = 0

    def enqueue(self, ticket: Ticket, not_before: float = -math.inf) -> None:
        self._number += 1
        self.wake = -math.inf
        heappush(self._queue, (not_before, self._number, ticket))

    def grant(self, now: float) -> Ticket | None:
        self.wake = self._queue[0][0] if self._queue else math.inf
        return heappop(self._queue)[2] if self.wake <= now else None

    def send(self, ticket: Ticket, now: float) -> None:
        ticket.since = now

    def land(self, *_: Any, **__: Any) -> None: ...

    accepted = throttled = land


def jobs_of(case: Scenario) -> Iterator[int]:
    """The quota of each call, in order."""
    each = case.calls // case.quotas // case.processes
    if case.hot_first:
        return (quota for quota in range(case.quotas) for _ in range(each))
    return (quota for _ in range(each) for quota in range(case.quotas))


def ideal_time(case: Scenario) -> float:
    """When the true refill, less what others take, has covered the work; nobody can be faster than the workers either."""
    each = case.calls // case.quotas
    slots = each * case.quotas * case.latency / case.workers
    needed = each - case.burst
    turns = sorted({0.0, case.tenant_from, *(moment for moment, _ in case.changes)})
    for begin, end in zip(turns, [*turns[1:], math.inf], strict=True):
        factor = next((factor for moment, factor in reversed(case.changes) if moment <= begin), 1.0)
        speed = case.refill * factor - (case.tenant if begin >= case.tenant_from else 0.0)
        if needed <= speed * (end - begin):
            return max(slots, begin + max(0.0, needed) / speed, case.latency)
        needed -= speed * (end - begin)
    raise AssertionError("the last interval has no end")


def latencies_of(case: Scenario, rng: Random) -> list[float]:
    """Drawn once, to be taken in turn."""
    shortest, longest = (share * case.latency for share in JITTERED)
    drawn = (rng.gauss(case.latency, case.spread * case.latency) for _ in range(DRAWN))
    return [min(longest, max(shortest, seconds)) for seconds in drawn]


def run(case: Scenario, seed: int = 1) -> Result:  # noqa: C901, PLR0912, PLR0915 - one loop, in one place, for speed
    """Play a scenario."""
    rng = Random(seed)
    latencies = cycle(latencies_of(case, rng))
    buckets = [Bucket(case) for _ in range(case.quotas)]
    pacers: list[Any] = [
        Pacer(0.0, reserve=case.reserve, prior=case.prior) if case.paced else _Unpaced()
        for _ in range(case.processes * case.quotas)
    ]
    jobs = [jobs_of(case) for _ in range(case.processes)]
    result = Result(ideal=ideal_time(case), per_worker=[0] * case.workers)
    durations, moments, per_worker = result.durations, result.moments, result.per_worker
    heap: list[tuple[float, int, int, Any]] = []
    alarms = [math.inf] * len(pacers)
    number = events = throttled = 0
    now, headers = 0.0, case.headers
    unfinished = case.calls // case.quotas // case.processes * case.quotas * case.processes

    def begin(process: int, worker: int) -> int:
        """Let a worker take its next call; the index of the pacer that has it, or -1."""
        quota = next(jobs[process], -1)
        if quota < 0:
            return -1
        attempt = _Attempt(process, worker, quota, now, 1)
        index = process * case.quotas + quota
        pacers[index].enqueue(attempt)
        return index

    def pump(index: int) -> None:
        """Let leave what may leave, and set the alarm for the next."""
        nonlocal number
        pacer = pacers[index]
        while now >= pacer.wake and (attempt := pacer.grant(now)) is not None:
            pacer.send(attempt, now)
            half = next(latencies) / 2.0
            number += 1
            heappush(heap, (now + half, number, ARRIVE, (attempt, half)))
        wake = pacer.wake
        if wake < alarms[index]:
            alarms[index] = wake
            number += 1
            heappush(heap, (wake, number, WAKE, index))

    for worker in range(case.workers):
        begin(worker % case.processes, worker)
    for index in range(len(pacers)):
        pump(index)
    if case.tenant:
        heappush(heap, (case.tenant_from, 0, NEIGHBOUR, None))
    while heap and unfinished:
        now, _, kind, what = heappop(heap)
        if now > case.until:
            break
        events += 1
        if kind == ARRIVE:
            attempt, back = what
            bucket = buckets[attempt.quota]
            taken = bucket.take(now)
            number += 1
            left = math.floor(bucket.level) if headers else None
            heappush(heap, (now + back, number, ANSWER, (attempt, taken, left)))
        elif kind == ANSWER:
            attempt, taken, left = what
            process, worker = attempt.process, attempt.worker
            index = process * case.quotas + attempt.quota
            pacer = pacers[index]
            pacer.land(attempt)
            following = -1
            if taken:
                pacer.accepted(now, attempt.since, remaining=left)
                durations.append(now - attempt.began)
                moments.append(now)
                per_worker[worker] += 1
                unfinished -= 1
                following = begin(process, worker)
            else:
                throttled += 1
                pacer.throttled(now, attempt.since, case.retry_after or 0.0)
                if attempt.tries > case.max_retries:
                    result.failed += 1
                    unfinished -= 1
                    following = begin(process, worker)
                else:
                    delay = _delay(case, attempt.tries, rng)
                    again = _Attempt(process, worker, attempt.quota, attempt.began, attempt.tries + 1)
                    pacer.enqueue(again, now + delay)
            pump(index)
            if following >= 0 and following != index:
                pump(following)
        elif kind == WAKE:
            if now >= alarms[what]:
                alarms[what] = math.inf
            pump(what)
        else:
            buckets[0].take(now)
            heappush(heap, (now + 1.0 / case.tenant, 0, NEIGHBOUR, None))
    result.wall, result.throttled, result.events = now, throttled, events
    result.accepted = len(result.durations)
    buckets[0].take(now)
    result.tokens_left = buckets[0].level
    result.pacers = pacers
    return result


def _delay(case: Scenario, tries: int, rng: Random) -> float:
    if case.retry_after is not None:
        return header_delay(case.retry_after, window=WINDOW, rng=rng)
    return exponential_delay(tries, base=BASE, cap=CAP, window=WINDOW, rng=rng)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
