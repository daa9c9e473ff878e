"""What holds for the pacer in any order of events: nobody waits for ever, nothing is counted twice or lost, caps hold."""

from __future__ import annotations

import math
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from cloudretry.core.pacer import Pacer, Stage, Ticket
from cloudretry.core.rate import Learning, Limit, ProviderRate

SECONDS = st.floats(0.0, 30.0)
FLYING = {Stage.GRANTED, Stage.SENT, Stage.OVERDUE}


class Events(RuleBasedStateMachine):
    """Everything that can happen to a pacer, in any order; answers come late, twice or never."""

    tickets = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.cap: int | None = None
        self.pacer: Pacer[Ticket] = Pacer(self.now)
        self.all: list[Ticket] = []
        self.arrived: list[Ticket] = []

    @rule(
        reserve=st.sampled_from([0.0, 0.1]),
        max_rate=st.sampled_from([None, 0.5, 50.0]),
        cap=st.sampled_from([None, 1, 3]),
    )
    def settings(self, reserve: float, max_rate: float | None, cap: int | None) -> None:
        self.cap = cap
        self.pacer.limit(reserve=reserve, max_rate=max_rate, max_in_flight=cap)

    @rule(target=tickets, delay=st.none() | SECONDS)
    def enqueue(self, delay: float | None) -> Ticket:
        ticket = Ticket()
        self.pacer.enqueue(ticket, None if delay is None else self.now + delay)
        self.all.append(ticket)
        if delay is None:
            self.arrived.append(ticket)
        return ticket

    @rule(target=tickets)
    def admit(self) -> Ticket:
        ticket = Ticket()
        waiting, in_flight = self.pacer.waiting, self.pacer.in_flight
        if self.pacer.admit(ticket, self.now):
            assert not waiting
            assert self.cap is None or in_flight < self.cap
        self.all.append(ticket)
        return ticket

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def grant(self) -> None:
        in_flight = self.pacer.in_flight
        held = self.now < self.pacer.rate.hold
        ticket = self.pacer.grant(self.now)
        if ticket is None:
            assert not self.pacer.waiting or self.pacer.wake > self.now
            return
        assert not held
        assert ticket.stage is Stage.GRANTED
        assert self.cap is None or in_flight < self.cap or self.pacer.in_flight <= in_flight  # a lapsed turn made room
        if ticket in self.arrived:
            earlier = self.arrived[: self.arrived.index(ticket)]
            assert all(other.stage is not Stage.QUEUED for other in earlier)

    @rule(ticket=tickets)
    def withdraw(self, ticket: Ticket) -> None:
        self.pacer.withdraw(ticket)

    @rule(ticket=tickets)
    def send(self, ticket: Ticket) -> None:
        if ticket.stage not in {Stage.SENT, Stage.OVERDUE}:
            self.pacer.send(ticket, self.now)

    @rule(ticket=tickets)
    def land(self, ticket: Ticket) -> None:
        self.pacer.land(ticket)

    @rule(ago=SECONDS, remaining=st.none() | st.integers(0, 500), resets=st.none() | SECONDS)
    def accepted(self, ago: float, remaining: int | None, resets: float | None) -> None:
        self.pacer.accepted(self.now, self.now - ago, remaining=remaining, resets_after=resets)

    @rule(ago=SECONDS, retry_after=st.just(0.0) | SECONDS)
    def throttled(self, ago: float, retry_after: float) -> None:
        self.pacer.throttled(self.now, self.now - ago, retry_after)

    @precondition(lambda self: self.pacer.waiting)
    @rule()
    def whoever_waits_is_served(self) -> None:
        """Nobody but the clock moves, and those in flight land: the queue empties."""
        for ticket in self.all:
            self.pacer.land(ticket)
        for _ in range(20_000):
            if not self.pacer.waiting:
                break
            granted = self.pacer.grant(self.now)
            if granted is not None:
                self.pacer.send(granted, self.now)
                self.pacer.land(granted)
            else:
                assert self.pacer.wake < math.inf
                assert self.pacer.wake > self.now
                self.now = self.pacer.wake
        assert not self.pacer.waiting

    @invariant()
    def counts_are_right(self) -> None:
        assert self.pacer.waiting == sum(ticket.stage is Stage.QUEUED for ticket in self.all)
        assert self.pacer.in_flight == sum(ticket.stage in FLYING for ticket in self.all)

    @invariant()
    def somebody_wakes_up(self) -> None:
        if self.pacer.waiting and self.pacer.wake == math.inf:
            assert self.pacer.in_flight

    @invariant()
    def what_is_learned_is_sane(self) -> None:
        rate = self.pacer.rate
        if rate.learning is not Learning.OPEN:
            assert 0.0 < rate.rate < math.inf
            assert rate.burst >= 1.0 or not rate.verified
            assert math.isfinite(rate.level)
            assert rate.ready_at(self.now, 0) >= self.now


TestEvents = Events.TestCase
TestEvents.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@given(
    rate=st.floats(0.05, 1000.0),
    burst=st.floats(1.0, 1000.0),
    learning=st.sampled_from([Learning.MEASURE, Learning.TRACK]),
    span=st.floats(0.1, 60.0),
    reserve=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=100, deadline=None)
def test_no_more_leave_than_the_speed_allows(
    rate: float, burst: float, learning: Learning, span: float, reserve: float
) -> None:
    learned = ProviderRate(0.0, prior=Limit(rate, burst), reserve=reserve)
    learned.throttle(0.0, 0.0)
    learned.learning = learning
    now, left = 0.0, 0
    while now <= span and left < 3000:
        at = learned.ready_at(now, 0)
        if at <= now:
            learned.take(now)
            left += 1
        else:
            now = at
    assert left <= 1 + now * learned.speed(now) * 1.001


@given(max_rate=st.floats(0.1, 100.0), gaps=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=60))
@settings(max_examples=100, deadline=None)
def test_max_rate_holds_in_every_window(max_rate: float, gaps: list[float]) -> None:
    pacer: Pacer[Ticket] = Pacer(0.0, max_rate=max_rate)
    now, moments = 0.0, []
    for gap in gaps:
        now += gap
        pacer.enqueue(Ticket())
        while (ticket := pacer.grant(now)) is not None:
            pacer.send(ticket, now)
            pacer.land(ticket)
            moments.append(now)
    for first in range(len(moments)):
        for last in range(first, len(moments)):
            assert last - first + 1 <= (moments[last] - moments[first]) * max_rate + 2 + 1e-6


@given(seed=st.integers(0, 10_000), late=st.floats(0.0, 2.0))
@settings(max_examples=60, deadline=None)
def test_any_order_of_answers_teaches_about_the_same(seed: int, late: float) -> None:
    """Answers of a true bucket, told in the wrong order and late: the rate stays in the right region."""
    rng = Random(seed)
    learned = ProviderRate(0.0)
    level, filled, now = 50.0, 0.0, 0.0
    told: list[tuple[float, float, bool]] = []
    while now < 60.0:
        while told and told[0][0] <= now:
            _, sent, taken = told.pop(0)
            (learned.accept if taken else learned.throttle)(now, sent)
        at = learned.ready_at(now, len(told))
        if at > now:
            now = min(at, told[0][0] if told else at)
            continue
        learned.take(now)
        level, filled = min(50.0, level + (now - filled) * 10.0), now
        taken = level >= 1.0
        level -= taken
        told = sorted([*told, (now + 0.05 + rng.uniform(0.0, late), now, taken)])
    assert learned.accepted <= 50 + 10 * 60
    assert learned.accepted >= 0.6 * (50 + 10 * 60)
