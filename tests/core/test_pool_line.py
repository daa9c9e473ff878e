"""Those who wait: in order, in no crowd, and never for ever."""

from __future__ import annotations

from random import Random

from cloudretry.core.member_changes import Instant
from cloudretry.core.outcome import Phase
from cloudretry.core.pool import Pool, Wanted
from cloudretry.core.pool_settings import Cooldown, Member, PoolSettings
from cloudretry.core.ramp import Pace
from cloudretry.core.tries import Hop, Reason, TryEnd
from cloudretry.core.waiting_line import Waiter, WaitingLine

OK = TryEnd(phase=Phase.DONE)
REFUSED = TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.REFUSED)
TICK = 0.005


def instant(tick: int) -> Instant:
    return Instant(tick * TICK, 1e9 + tick * TICK)


def dead_pool(count: int) -> Pool:
    members = tuple(Member(name=f"m{i}", url=f"http://m{i}") for i in range(count))
    pool = Pool(PoolSettings(name="corp", members=members, cooldown=Cooldown(jitter=0.0)), instant(0), Random(1))
    for _ in members:
        grant = pool.pick(Wanted("ec2"), instant(0))
        assert grant is not None
        pool.finish(grant, REFUSED, instant(0))
    return pool


def waiter(wanted: Wanted, now: float, woken: list[int] | None = None) -> Waiter:
    return Waiter(
        wanted=wanted, call=None, since=now, until=1e9, patient=True, wake=lambda: None if woken is None else woken.append(1)
    )


def test_a_line_ends_although_400_a_second_arrive_for_ever() -> None:
    pool, line, waiting, waited = dead_pool(3), WaitingLine(), list[Waiter](), list[float]()
    for tick in range(4000):
        at = instant(tick)
        for _ in range(2):
            waiting.append(waiter(Wanted("ec2"), at.monotonic))
            line.join(waiting[-1])
        line.serve(pool, at)
        while waiting and waiting[0].grant is not None:
            first = waiting.pop(0)
            waited.append(at.monotonic - first.since)
            assert first.grant is not None
            pool.finish(first.grant, OK, at)
        if at.monotonic > 15.0:
            assert not line
    assert len(waited) == 8000
    assert max(waited) < 10.0


def test_the_pace_doubles_every_two_seconds_and_begins_again_after_a_standstill() -> None:
    pace, counts = Pace(), dict[int, int]()
    for tick in range(3200):
        now = tick * TICK
        while pace.ready_at(now) <= now and counts.get(int(now / 0.05 + 1e-6), 0) < 600:
            pace.begin(now)
            counts[int(now / 0.05 + 1e-6)] = counts.get(int(now / 0.05 + 1e-6), 0) + 1
    assert [counts[window] for window in (1, 39, 41, 79, 81, 121, 161, 201, 241)] == [8, 8, 16, 16, 32, 64, 128, 256, 512]
    assert counts[281] == 600  # as many as there are
    for _ in range(8):
        assert pace.ready_at(20.0) <= 20.0
        pace.begin(20.0)
    assert pace.ready_at(20.0) == 20.05


def test_who_wants_something_else_is_not_held_up() -> None:
    pool, line = dead_pool(1), WaitingLine()
    dead = waiter(Wanted("dead"), 0.0)
    at = instant(2000)
    grant = pool.pick(Wanted("dead"), at)
    assert grant is not None
    pool.finish(grant, OK, at)
    later = instant(4000)
    grant = pool.pick(Wanted("dead"), later)
    assert grant is not None
    pool.finish(grant, TryEnd(phase=Phase.PROXY_HANDSHAKE, reason=Reason.TUNNEL_REFUSED), later)
    line.join(dead)
    line.serve(pool, later)
    assert dead.grant is None
    assert line.must_join(Wanted("dead"), later.monotonic)
    assert not line.must_join(Wanted("alive"), later.monotonic)


def test_whoever_leaves_first_wakes_the_next() -> None:
    line, woken = WaitingLine(), list[int]()
    first, second, third = (waiter(Wanted("ec2"), 0.0, woken) for _ in range(3))
    for one in (first, second, third):
        line.join(one)
    line.leave(second)
    assert woken == []
    line.leave(first)
    assert woken == [1]
    line.leave(first)
    line.leave(third)
    assert (woken, len(line), bool(line)) == ([1], 0, False)


def test_those_further_back_sleep_for_longer() -> None:
    pool, line = dead_pool(2), WaitingLine()
    waiting = [waiter(Wanted("ec2"), 0.0) for _ in range(20)]
    for one in waiting:
        line.join(one)
    assert [line.pause(one, pool, instant(0)) for one in waiting] == [*[5.0] * 8, *[5.05] * 8, *[5.1] * 4]
