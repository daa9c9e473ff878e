"""The queue and its turns: order, moments of their own, caps, what ends a turn."""

from __future__ import annotations

import math

import pytest

from cloudretry.core.pacer import LAPSE, Pacer, Stage, Ticket
from cloudretry.core.rate import Learning, Limit


def pacer(**settings: object) -> Pacer[Ticket]:
    return Pacer(0.0, **settings)  # type: ignore[arg-type]


def queued(pacer: Pacer[Ticket], count: int, **when: float) -> list[Ticket]:
    tickets = [Ticket() for _ in range(count)]
    for ticket in tickets:
        pacer.enqueue(ticket, **when)
    return tickets


def granted(pacer: Pacer[Ticket], now: float) -> list[Ticket]:
    found = []
    while (ticket := pacer.grant(now)) is not None:
        found.append(ticket)
    return found


def sent(pacer: Pacer[Ticket], now: float, count: int = 1) -> list[Ticket]:
    tickets = [Ticket() for _ in range(count)]
    for ticket in tickets:
        assert pacer.admit(ticket, now)
        pacer.send(ticket, now)
    return tickets


def test_turns_are_granted_in_order_of_arrival() -> None:
    queue = pacer(max_in_flight=2)
    first, second, third = queued(queue, 3)
    assert granted(queue, 0.0) == [first, second]
    queue.send(second, 0.0)
    queue.land(second)
    assert granted(queue, 0.0) == [third]


def test_nobody_is_admitted_past_those_who_wait() -> None:
    queue = pacer(max_in_flight=1)
    (out,) = sent(queue, 0.0)
    (waiting,) = queued(queue, 1)
    queue.land(out)
    assert not queue.admit(Ticket(), 0.0)
    assert granted(queue, 0.0) == [waiting]


def test_a_retry_blocks_nobody_before_its_moment_and_enters_at_the_front_then() -> None:
    queue = pacer(max_in_flight=1)
    (retry,) = queued(queue, 1, not_before=5.0)
    first, second = queued(queue, 2)
    assert granted(queue, 0.0) == [first]
    queue.send(first, 0.0)
    queue.land(first)
    assert granted(queue, 5.0) == [retry]
    queue.send(retry, 5.0)
    queue.land(retry)
    assert granted(queue, 5.0) == [second]


def test_retries_that_are_due_leave_by_their_moments() -> None:
    queue = pacer()
    late, early = (queued(queue, 1, not_before=moment)[0] for moment in (3.0, 2.0))
    assert granted(queue, 1.0) == []
    assert queue.wake == 2.0
    assert granted(queue, 9.0) == [early, late]


def test_a_retry_after_holds_everybody() -> None:
    queue = pacer()
    sent(queue, 0.0)
    queue.throttled(0.1, 0.0, retry_after=17.0)
    queued(queue, 1)
    queued(queue, 1, not_before=0.2)
    assert granted(queue, 17.0) == []
    assert queue.wake == pytest.approx(17.1)


def test_withdrawing_a_queued_ticket_lets_the_next_one_go() -> None:
    queue = pacer(max_in_flight=1)
    first, second = queued(queue, 2)
    queue.withdraw(first)
    assert queue.waiting == 1
    assert granted(queue, 0.0) == [second]


def test_a_turn_that_is_given_back_is_somebody_elses() -> None:
    queue = pacer(prior=Limit(rate=1.0, burst=1.0))
    first, second = queued(queue, 2)
    assert granted(queue, 0.0) == [first]
    queue.withdraw(first)
    assert granted(queue, 0.0) == [second]
    assert queue.in_flight == 1


def test_what_was_sent_can_not_be_withdrawn() -> None:
    queue = pacer()
    (out,) = sent(queue, 0.0)
    queue.withdraw(out)
    assert queue.in_flight == 1
    queue.land(out)
    queue.land(out)
    assert queue.in_flight == 0


def test_an_unused_turn_lapses_for_somebody_who_waits() -> None:
    queue = pacer(max_in_flight=1)
    slow, waiting = queued(queue, 2)
    assert granted(queue, 0.0) == [slow]
    assert queue.wake == LAPSE
    assert granted(queue, LAPSE) == [waiting]
    assert slow.stage is Stage.LAPSED


def test_a_lapsed_turn_that_is_used_after_all_is_charged_and_does_not_wait() -> None:
    queue = pacer(max_in_flight=1)
    slow, _ = queued(queue, 2)
    granted(queue, 0.0)
    granted(queue, LAPSE)
    queue.send(slow, LAPSE + 1.0)
    assert queue.in_flight == 2
    queue.land(slow)
    assert queue.in_flight == 1


def test_a_send_without_a_turn_costs_a_token() -> None:
    queue = pacer(prior=Limit(rate=1.0, burst=3.0))
    queue.send(Ticket(), 0.0)
    queued(queue, 3)
    assert len(granted(queue, 0.0)) == 2


def test_a_call_that_hangs_does_not_stop_the_others() -> None:
    queue = pacer()
    sent(queue, 0.0, 4)
    (waiting,) = queued(queue, 1)
    assert granted(queue, 0.0) == []
    assert granted(queue, queue.wake) == [waiting]
    assert queue.in_flight == 5


def test_a_call_that_hangs_still_counts_for_the_users_own_cap() -> None:
    queue = pacer(max_in_flight=1)
    (out,) = sent(queue, 0.0)
    queued(queue, 1)
    assert granted(queue, 1e6) == []
    assert queue.wake == math.inf
    queue.land(out)
    assert len(granted(queue, 1e6)) == 1


def test_max_rate_spaces_turns_even_where_nothing_is_throttled() -> None:
    queue = pacer(max_rate=10.0)
    queued(queue, 50)
    moments = []
    now = 0.0
    while queue.waiting:
        moments += [now] * len(granted(queue, now))
        for ticket in list(queue._flying):
            queue.send(ticket, now)
            queue.land(ticket)
        now = max(now, queue.wake)
    assert moments[-1] == pytest.approx(4.8)


def test_the_wait_is_foreseen_from_the_queue_and_the_rate() -> None:
    queue = pacer(prior=Limit(rate=10.0, burst=1.0))
    queued(queue, 101)
    assert queue.expected(0.0) == pytest.approx(10.0)
    assert queue.expected(0.0, not_before=3.0) == 3.0


def test_nothing_is_foreseen_where_nothing_is_known() -> None:
    queue = pacer()
    queued(queue, 1000)
    assert queue.expected(7.0) == 7.0


def test_settings_change_while_calls_wait() -> None:
    queue = pacer(max_in_flight=1)
    tickets = queued(queue, 3)
    assert granted(queue, 0.0) == tickets[:1]
    queue.limit(reserve=0.0, max_rate=None, max_in_flight=2)
    assert granted(queue, 0.0) == tickets[1:2]


def test_its_state_can_be_read() -> None:
    queue = pacer(prior=Limit(rate=20.0, burst=100.0))
    sent(queue, 0.0)
    queued(queue, 1)
    state = queue.state(0.0)
    assert (state.learning, state.limit, state.verified) == (Learning.TRACK, Limit(20.0, 100.0), False)
    assert (state.waiting, state.in_flight, state.hold) == (1, 1, 0.0)
    assert pacer().state(0.0).limit is None
