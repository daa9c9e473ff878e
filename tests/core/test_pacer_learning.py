"""What is learned of a provider's token bucket, played against one in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

import pytest

from cloudretry.core.pacer import Pacer, Ticket
from cloudretry.core.rate import Learning, Limit, ProviderRate

LATENCY = 0.05


@dataclass
class Bucket:
    rate: float = 20.0
    burst: float = 100.0
    level: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.level = self.burst

    def take(self, now: float) -> bool:
        self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level < 1.0:
            return False
        self.level -= 1.0
        return True


@dataclass
class Run:
    """As many calls as fit, for so many seconds."""

    pacer: Pacer[Ticket]
    bucket: Bucket = field(default_factory=Bucket)
    workers: int = 32
    headers: bool = False
    shows: float | None = None
    retry_after: float = 0.0
    accepted: int = 0
    throttled: int = 0
    now: float = 0.0
    most_in_flight: int = 0

    def told(self, level: float) -> float | None:
        return (self.shows or int(level)) if self.headers else None

    def until(self, end: float) -> Run:
        answers: list[tuple[float, int, Ticket, float, bool, float]] = []
        for _ in range(self.workers - self.pacer.waiting):
            self.pacer.enqueue(Ticket())
        number = 0
        while self.now < end:
            while (ticket := self.pacer.grant(self.now)) is not None:
                self.pacer.send(ticket, self.now)
                taken = self.bucket.take(self.now)
                number += 1
                heappush(answers, (self.now + LATENCY, number, ticket, self.now, taken, self.bucket.level))
            self.most_in_flight = max(self.most_in_flight, self.pacer.in_flight)
            if not answers or self.pacer.wake < answers[0][0]:
                self.now = max(self.now, self.pacer.wake)
                continue
            self.now, _, ticket, left, taken, level = heappop(answers)
            self.pacer.land(ticket)
            if taken:
                self.accepted += 1
                self.pacer.accepted(self.now, left, remaining=self.told(level))
                self.pacer.enqueue(Ticket())
            else:
                self.throttled += 1
                self.pacer.throttled(self.now, left, self.retry_after)
                self.pacer.enqueue(Ticket(), self.now + 0.5)
        for *_, ticket, _left, _taken, _level in answers:
            self.pacer.land(ticket)
        return self


def test_an_unknown_limit_is_found() -> None:
    run = Run(Pacer(0.0)).until(30.0)
    state = run.pacer.state(30.0)
    assert state.limit is not None
    assert state.limit.rate == pytest.approx(20.0, rel=0.05)
    assert state.limit.burst == pytest.approx(100.0, rel=0.1)
    assert run.accepted == pytest.approx(100 + 20 * 30, rel=0.02)
    assert run.throttled < 25


def test_nothing_is_risked_that_was_not_seen_to_work() -> None:
    run = Run(Pacer(0.0), Bucket(burst=0.5, rate=0.0), workers=1000).until(0.04)
    assert run.most_in_flight == 4


def test_a_true_prior_costs_one_throttle() -> None:
    run = Run(Pacer(0.0, prior=Limit(20.0, 100.0))).until(10.0)
    assert run.throttled <= 3
    assert run.accepted == pytest.approx(100 + 200, rel=0.02)


@pytest.mark.parametrize("prior", [Limit(200.0, 1000.0), Limit(2.0, 10.0)])
def test_a_wrong_prior_is_not_believed(prior: Limit) -> None:
    run = Run(Pacer(0.0, prior=prior)).until(60.0)
    assert run.pacer.rate.rate == pytest.approx(20.0, rel=0.1)
    assert run.accepted > 0.95 * (100 + 20 * 60)


@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0, 3.0])
def test_a_limit_that_changes_is_found_again(factor: float) -> None:
    run = Run(Pacer(0.0)).until(20.0)
    run.bucket.rate *= factor
    run.until(80.0)
    assert run.pacer.rate.rate == pytest.approx(20.0 * factor, rel=0.15)


@pytest.mark.parametrize("squeezed", [0.02, 0.05, 0.1])
def test_a_limit_that_others_took_for_long_is_found_again_in_minutes(squeezed: float) -> None:
    run = Run(Pacer(0.0)).until(20.0)
    run.bucket.rate = squeezed
    before = run.until(620.0).accepted
    run.bucket.rate = 20.0
    run.until(620.0 + 300.0)
    assert run.pacer.rate.rate == pytest.approx(20.0, rel=0.15)
    assert run.accepted - before > 0.4 * 20 * 300


def test_a_bucket_that_overflowed_while_we_were_too_slow_is_measured_right() -> None:
    run = Run(Pacer(0.0), Bucket(rate=30.0, burst=20.0)).until(6.0)
    assert run.pacer.rate.rate == pytest.approx(30.0, rel=0.15)


def test_a_rate_below_one_call_in_a_ramp_still_grows() -> None:
    run = Run(Pacer(0.0, prior=Limit(0.02, 1.0)), Bucket(rate=0.5, burst=1.0), workers=4).until(300.0)
    assert run.accepted > 75


def test_headers_prevent_nearly_every_throttle() -> None:
    run = Run(Pacer(0.0), Bucket(25.0, 250.0), headers=True).until(40.0)
    assert run.throttled <= 10
    assert run.accepted == pytest.approx(250 + 25 * 40, rel=0.02)


def test_a_bucket_that_filled_up_while_nobody_called_does_not_lower_the_rate() -> None:
    run = Run(Pacer(0.0), Bucket(25.0, 250.0), headers=True).until(30.0)
    before = run.pacer.rate.rate
    for moment in (1030.0, 1031.5, 1033.0, 1034.5):
        run.pacer.accepted(moment, moment - LATENCY, remaining=249.0)
    assert run.pacer.rate.rate == before == pytest.approx(25.0, rel=0.1)


def test_a_header_that_counts_something_else_is_not_believed() -> None:
    run = Run(Pacer(0.0), headers=True, shows=10_000.0).until(60.0)
    assert run.pacer.rate.rate == pytest.approx(20.0, rel=0.1)
    assert run.throttled < 0.05 * run.accepted


def test_a_reserve_is_left_to_others() -> None:
    run = Run(Pacer(0.0, reserve=0.1)).until(20.0)
    before = run.accepted
    run.until(80.0)
    assert (run.accepted - before) / (20.0 * 60.0) == pytest.approx(0.9, abs=0.03)
    run.bucket.take(80.0)
    assert run.bucket.level >= 50.0


def test_with_a_reserve_a_prior_is_not_exhausted_to_verify_it() -> None:
    run = Run(Pacer(0.0, reserve=0.1, prior=Limit(20.0, 100.0))).until(50.0)
    assert run.throttled == 0


def test_with_a_reserve_a_neighbours_burst_does_not_lower_the_rate() -> None:
    run = Run(Pacer(0.0, reserve=0.1)).until(30.0)
    rate = run.pacer.rate.rate
    run.bucket.level = 0.0
    run.until(60.0)
    assert run.pacer.rate.rate == pytest.approx(rate, rel=0.05)


def test_a_window_that_is_counted_down_is_waited_out() -> None:
    rate = ProviderRate(0.0)
    rate.hear(1.0, 0.9, 3.0, 0, resets_after=4.0)
    assert rate.ready_at(1.0, 0) == 1.0
    rate.hear(2.0, 1.9, 0.0, 0, resets_after=3.0)
    assert rate.ready_at(2.0, 0) == 5.0
    assert rate.ready_at(5.0, 0) == 5.0


def test_a_late_header_changes_nothing() -> None:
    rate = ProviderRate(0.0)
    rate.hear(2.0, 1.9, 3.0, 0)
    level = rate.level
    rate.hear(2.0, 1.0, 200.0, 0)
    assert rate.level == level


def test_a_throttle_in_such_a_window_starts_no_measuring() -> None:
    rate = ProviderRate(0.0)
    rate.hear(1.0, 0.9, 3.0, 0, resets_after=4.0)
    before = rate.rate
    rate.throttle(2.0, 1.95, 3.0)
    assert (rate.learning, rate.rate, rate.throttled) == (Learning.TRACK, before, 1)
    assert rate.ready_at(2.0, 0) == 5.0
    assert rate.ready_at(5.0, 0) == 5.0


def test_nothing_accrues_in_a_window_until_it_ends() -> None:
    rate = ProviderRate(0.0, prior=Limit(10.0, 15.0))
    rate.hear(1.0, 0.9, 2.0, 0, resets_after=4.0)
    rate.take(1.0)
    rate.take(1.0)
    assert rate.ready_at(3.0, 0) > 3.0


def test_a_header_counts_all_but_the_calls_that_left_after_it() -> None:
    pacer: Pacer[Ticket] = Pacer(0.0)
    tickets = [Ticket() for _ in range(3)]
    for moment, ticket in zip((0.0, 0.1, 0.2), tickets, strict=True):
        assert pacer.admit(ticket, moment)
        pacer.send(ticket, moment)
    pacer.land(tickets[1])
    pacer.accepted(0.3, 0.1, remaining=2.0, resets_after=5.0)
    assert pacer.rate.level == 2.0 - 1.0  # the first left before, and is counted


def heard(rate: ProviderRate, remaining: float, per_second: float, start: float, seconds: int, *, slope: float = 0.0) -> float:
    """For so long, calls are accepted and told how much is left; the rate that was learned."""
    for number in range(int(seconds * per_second)):
        now = start + number / per_second
        rate.accept(now, now - LATENCY)
        rate.hear(now, now - LATENCY, remaining + slope * (now - start), 0)
    return rate.rate


@pytest.mark.parametrize("reserve", [0.0, 0.1])
def test_a_bucket_that_is_nearly_full_lowers_no_rate(reserve: float) -> None:
    rate = ProviderRate(0.0, reserve=reserve, prior=Limit(25.0, 250.0))
    assert heard(rate, 240.0, 5.0, 1.0, 60) >= 25.0


def test_with_a_reserve_a_bucket_that_stays_full_raises_the_rate() -> None:
    rate = ProviderRate(0.0, reserve=0.1, prior=Limit(2.0, 250.0))
    assert heard(rate, 249.0, 2.0, 1.0, 20) == pytest.approx(250.0 / 20.0, rel=0.01)


@pytest.mark.parametrize("burst", [2.0, 4.0, 15.0])
def test_a_small_bucket_is_full_with_one_token_less(burst: float) -> None:
    rate = ProviderRate(0.0, reserve=0.1, prior=Limit(0.1, burst))
    assert heard(rate, burst - 1.0, 2.0, 1.0, 20) >= 2.0


def test_what_was_guessed_while_it_was_measured_is_no_reason_to_stay_slow() -> None:
    rate = ProviderRate(0.0)
    rate.accept(0.1, 0.0)
    rate.throttle(0.2, 0.1)
    assert rate.rate < 1.0
    rate.hear(1.0, 0.9, 40.0, 0)
    assert (rate.learning, rate.rate) == (Learning.TRACK, 10.0)


def test_with_a_reserve_a_full_bucket_may_be_spent_once() -> None:
    rate = ProviderRate(0.0, reserve=0.1, prior=Limit(25.0, 250.0))
    for number in range(200):
        now = number / 200.0
        assert rate.ready_at(now, 5) == now
        rate.take(now)
        rate.accept(now + LATENCY, now)


def test_a_bucket_that_never_empties_slows_nobody_for_long() -> None:
    pacer: Pacer[Ticket] = Pacer(0.0, reserve=0.1)
    now, calls = 0.0, 0
    while now < 5.0:
        ticket = Ticket()
        pacer.enqueue(ticket)
        while pacer.grant(now) is None:
            now = pacer.wake
        pacer.send(ticket, now)
        now += 0.001
        pacer.land(ticket)
        pacer.accepted(now, now - 0.001, remaining=249.0)
        calls += 1
    assert calls > 2500  # of 5000, one after the other


def test_a_counter_that_only_falls_lowers_no_rate_while_half_is_left() -> None:
    rate = ProviderRate(0.0, reserve=0.1, prior=Limit(25.0, 12_000.0))
    assert heard(rate, 10_700.0, 20.0, 1.0, 100, slope=-20.0) >= 25.0
    assert heard(rate, 5_900.0, 20.0, 200.0, 30, slope=-20.0) < 15.0


@pytest.mark.parametrize("reserve", [0.0, 0.1])
def test_what_comes_into_a_bucket_that_is_half_empty_is_the_rate(reserve: float) -> None:
    rate = ProviderRate(0.0, reserve=reserve, prior=Limit(100.0, 250.0))
    assert heard(rate, 100.0, 20.0, 1.0, 30, slope=-2.0) == pytest.approx(18.0, rel=0.05)


@pytest.mark.parametrize("believed", [250.0, 5000.0])
def test_a_bucket_that_is_smaller_than_believed_lowers_no_rate(believed: float) -> None:
    rate = ProviderRate(0.0, reserve=0.1, prior=Limit(25.0, believed))
    assert heard(rate, 97.0, 22.5, 1.0, 300) >= 25.0


def test_a_count_of_zero_beside_calls_that_are_accepted_is_not_believed() -> None:
    rate = ProviderRate(0.0, prior=Limit(25.0, 250.0))
    assert heard(rate, 0.0, 20.0, 1.0, 60) >= 20.0
    assert rate.ready_at(61.0, 0) == 61.0


def test_a_window_that_ends_late_is_forgotten_when_answers_tell_of_none() -> None:
    rate = ProviderRate(0.0, prior=Limit(10.0, 50.0))
    rate.hear(1.0, 0.9, 20.0, 0, resets_after=3600.0)
    rate.hear(2.0, 1.9, 20.0, 0)
    for _ in range(16):
        rate.take(2.0)
    assert rate.ready_at(3.0, 0) == 3.0


def test_others_who_empty_the_bucket_don_t_stop_us() -> None:
    rate = ProviderRate(0.0, reserve=0.1, prior=Limit(25.0, 250.0))
    assert heard(rate, 100.0, 2.0, 1.0, 60, slope=-1.6) == pytest.approx(1.0)
    assert heard(rate, 249.0, 1.0, 100.0, 10) >= 10.0  # they have gone


def test_a_herd_of_throttles_counts_once() -> None:
    rate = ProviderRate(0.0)
    for moment in range(100):
        rate.accept(moment / 100, moment / 100)
    for _ in range(20):
        rate.throttle(1.1, 1.0)
    assert rate.learning is Learning.MEASURE
    assert rate.rate == pytest.approx(100 / 6)


def test_nothing_accrues_while_a_retry_after_is_served() -> None:
    rate = ProviderRate(0.0, prior=Limit(100.0, 100.0))
    rate.throttle(1.0, 0.9, retry_after=60.0)
    assert rate.ready_at(60.9, 0) == 61.0
    assert rate.ready_at(61.0, 0) == 61.0
    rate.take(61.0)
    assert rate.ready_at(61.0, 0) > 61.0


def test_an_opening_starts_over_after_a_rest() -> None:
    rate = ProviderRate(0.0)
    for _ in range(100):
        rate.take(0.5)
        rate.accept(1.0, 0.9)
    assert rate.ready_at(1.0, 13) == 1.0
    assert rate.ready_at(60.0, 0) == 60.0
    assert rate.ready_at(60.0, 4) > 60.0
