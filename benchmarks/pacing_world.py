"""A provider, its neighbours and our workers in virtual time: a heap of events, so that an hour costs a second.

The pacer is the real one (cloudretry/core/pacer.py); what stands between it and a program, locks and wake-ups, is left out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heappop, heappush, heapreplace
from itertools import chain, cycle, repeat
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
        changing: how many of the quotas have these changes; None: all.
        lump: tokens come all at once after so many seconds; 0: one by one.
        spread: of the latency, as a share of it.
        tenant: calls per second that others make of the same bucket, from `tenant_from` on.
        quotas: how many buckets of this kind there are; `hot_first` works them off one by one instead of interleaved.
        processes: how many pacers that don't know of each other share the bucket, the workers and the calls.
        foreign: how many of these don't pace; the last ones.
        late: when the workers of the first of these begin.
        retry_after: seconds that a throttle asks for; None: it asks for nothing.
        headers: answers say how many tokens are left.
        until: stop then, whatever is left.
    """

    calls: int = 600
    workers: int = 32
    burst: float = 100.0
    refill: float = 20.0
    changes: tuple[tuple[float, float], ...] = ()
    changing: int | None = None
    lump: float = 0.0
    latency: float = 0.05
    spread: float = 0.1
    tenant: float = 0.0
    tenant_from: float = 0.0
    quotas: int = 1
    hot_first: bool = False
    processes: int = 1
    foreign: int = 0
    late: float = 0.0
    retry_after: float | None = None
    headers: bool = False
    prior: Limit | None = None
    reserve: float = 0.0
    max_retries: int = 8
    paced: bool = True
    until: float = math.inf


@dataclass(kw_only=True)
class Result:
    """What came of it. `moments`: of the calls that were accepted, for each pacer."""

    wall: float = 0.0
    ideal: float = 0.0
    accepted: int = 0
    throttled: int = 0
    failed: int = 0
    events: int = 0
    tokens_left: float = 0.0
    durations: list[float] = field(default_factory=list)
    moments: list[list[float]] = field(default_factory=list)
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

    __slots__ = ("_at", "_changes", "_changes_at", "_first", "_lump", "_refill", "burst", "level")

    def __init__(self, case: Scenario, changes: Sequence[tuple[float, float]] = ()) -> None:
        self.burst = self.level = case.burst
        self._first = self._refill = case.refill
        self._changes = deque(changes)
        self._changes_at = changes[0][0] if changes else math.inf
        self._lump = case.lump
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Take a token, if there is one."""
        if now >= self._changes_at:
            self._change(now)
        if self._lump:
            self._fill(now)
            level = self.level
        else:  # the same, without a call
            level = self.level + (now - self._at) * self._refill
            if level > self.burst:  # noqa: PLR1730 - min() is a call, too
                level = self.burst
            self._at = now
        taken = level >= 1.0
        self.level = level - 1.0 if taken else level
        return taken

    def _change(self, now: float) -> None:
        while self._changes and self._changes[0][0] <= now:
            moment, factor = self._changes.popleft()
            self._fill(moment)
            self._refill = self._first * factor
        self._changes_at = self._changes[0][0] if self._changes else math.inf

    def _fill(self, now: float) -> None:
        if self._lump:
            lumps = math.floor(now / self._lump + 1e-9) - math.floor(self._at / self._lump + 1e-9)
            gained = lumps * self._refill * self._lump
        else:
            gained = (now - self._at) * self._refill
        self.level = min(self.burst, self.level + gained)
        self._at = now


class _Attempt(Ticket):
    """One attempt and its answer. `index`: of its pacer; `half`: of its latency; `left`: tokens, as a header says."""

    __slots__ = ("began", "half", "index", "left", "taken", "tries", "worker")

    half: float
    taken: bool
    left: int

    def __init__(self, index: int, worker: int, began: float, tries: int) -> None:
        self.stage, self.since = _DONE, 0.0  # as Ticket.__init__, whose call would be seen in the events per second
        self.index, self.worker, self.began, self.tries = index, worker, began, tries


class _Unpaced:
    """What a program without a pacer does: an attempt leaves when it wants to."""

    wake = math.inf

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Ticket]] = []
        self._number = 0

    def enqueue(self, ticket: Ticket, not_before: float | None = None) -> None:
        self._number += 1
        self.wake = -math.inf
        heappush(self._queue, (-math.inf if not_before is None else not_before, self._number, ticket))

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
        return chain.from_iterable(repeat(quota, each) for quota in range(case.quotas))
    return chain.from_iterable(repeat(range(case.quotas), each))


def ideal_time(case: Scenario) -> float:
    """When the true refill, less what others take, has covered the work; nobody can be faster than the workers either."""
    if case.changing is not None:  # the last of the quotas
        every = replace(case, changing=None)
        return max(ideal_time(every), ideal_time(replace(every, changes=())))
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


@lru_cache(maxsize=256)
def _drawn(seed: int) -> tuple[list[float], tuple[Any, ...]]:
    """Deviations of latencies, normally distributed, and the generator's state then; many cases share a seed."""
    rng = Random(seed)
    return [rng.gauss(0.0, 1.0) for _ in range(DRAWN)], rng.getstate()


def halves_of(case: Scenario, deviations: list[float]) -> Iterator[float]:
    """Half of the latency of each call, to be taken in turn."""
    shortest, longest = (share * case.latency for share in JITTERED)
    spread = case.spread * case.latency
    return cycle(min(longest, max(shortest, case.latency + deviation * spread)) / 2.0 for deviation in deviations)


def run(case: Scenario, seed: int = 1) -> Result:  # noqa: C901, PLR0912, PLR0915 - one loop, in one place, for speed
    """Play a scenario. An event is what the heap holds: a call arrives, its answer does, an alarm rings, a neighbour calls."""
    deviations, state = _drawn(seed)
    rng = Random()
    rng.setstate(state)
    halves = halves_of(case, deviations)
    changing = case.quotas if case.changing is None else case.changing
    buckets = [Bucket(case, case.changes if quota < changing else ()) for quota in range(case.quotas)]
    ours = (case.processes - case.foreign) * case.quotas if case.paced else 0
    pacers: list[Any] = [
        Pacer(0.0, reserve=case.reserve, prior=case.prior) if index < ours else _Unpaced()
        for index in range(case.processes * case.quotas)
    ]
    jobs = [jobs_of(case) for _ in range(case.processes)]
    result = Result(ideal=ideal_time(case), per_worker=[0] * case.workers, moments=[[] for _ in pacers])
    durations, moments, per_worker = result.durations, result.moments, result.per_worker
    heap: list[tuple[float, int, int, Any]] = []
    alarms = [math.inf] * len(pacers)
    number = events = throttled = 0
    now, headers, quotas, until = 0.0, case.headers, case.quotas, case.until
    unfinished = case.calls // case.quotas // case.processes * case.quotas * case.processes

    def begin(worker: int, process: int, now: float, not_before: float | None = None) -> int:
        """Let a worker take its next call; the index of the pacer that has it, or -1."""
        quota = next(jobs[process], -1)
        if quota < 0:
            return -1
        index = process * quotas + quota
        pacers[index].enqueue(_Attempt(index, worker, now, 1), not_before)
        return index

    def pump(index: int, now: float) -> None:
        """Let leave what may leave, and set the alarm for the next."""
        nonlocal number
        pacer = pacers[index]
        while now >= pacer.wake and (attempt := pacer.grant(now)) is not None:
            pacer.send(attempt, now)
            attempt.half = half = next(halves)
            number += 1
            heappush(heap, (now + half, number, ARRIVE, attempt))
        wake = pacer.wake
        if wake < alarms[index]:
            alarms[index] = wake
            number += 1
            heappush(heap, (wake, number, WAKE, index))

    for worker in range(case.workers):
        process = worker % case.processes
        begin(worker, process, now, case.late if case.late and not process else None)
    for index in range(len(pacers)):
        pump(index, now)
    if case.tenant:
        heappush(heap, (case.tenant_from, 0, NEIGHBOUR, None))
    while heap and unfinished:
        now, _, kind, what = heap[0]
        if now > until:
            break
        events += 1
        if kind == ARRIVE:
            bucket = buckets[what.index % quotas]
            what.taken = bucket.take(now)
            if headers:
                what.left = math.floor(bucket.level)
            number += 1
            heapreplace(heap, (now + what.half, number, ANSWER, what))
            continue
        heappop(heap)
        if kind == ANSWER:
            index, worker = what.index, what.worker
            pacer = pacers[index]
            pacer.land(what)
            following = -1
            if what.taken:
                pacer.accepted(now, what.since, remaining=what.left if headers else None)
                durations.append(now - what.began)
                moments[index].append(now)
                per_worker[worker] += 1
                unfinished -= 1
                following = begin(worker, index // quotas, now)
            else:
                throttled += 1
                pacer.throttled(now, what.since, case.retry_after or 0.0)
                if what.tries > case.max_retries:
                    result.failed += 1
                    unfinished -= 1
                    following = begin(worker, index // quotas, now)
                else:
                    again = _Attempt(index, worker, what.began, what.tries + 1)
                    pacer.enqueue(again, now + _delay(case, what.tries, rng))
            if now >= pacer.wake or pacer.wake < alarms[index]:
                pump(index, now)
            if following >= 0 and following != index:
                pump(following, now)
        elif kind == WAKE:
            if now >= alarms[what]:
                alarms[what] = math.inf
            pump(what, now)
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
