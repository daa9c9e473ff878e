"""An egress pool as a transport uses it: tries of a call, waiting, operators, listeners. Time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry.core.failover import AGAIN, DONE, Exhausted, Spent, Step
from cloudretry.core.outcome import Phase
from cloudretry.core.pool_settings import Cooldown, Member, PoolSettings, Probe
from cloudretry.core.pool_snapshot import Unavailable
from cloudretry.core.tries import Hop, Reason, TryEnd
from cloudretry.egress.pool import EgressPool, Lease, Tries
from cloudretry.testing import VirtualClock, virtual_clock

if TYPE_CHECKING:
    from cloudretry.core.member_changes import MemberChanged

OK = TryEnd(phase=Phase.DONE)
REFUSED = TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.REFUSED)
CLOSED = TryEnd(phase=Phase.CONNECT, reason=Reason.RESET, reused=True)
LOST = TryEnd(phase=Phase.WAIT, reason=Reason.RESET)


@pytest.fixture(autouse=True)
def clock() -> Iterator[VirtualClock]:
    with virtual_clock() as clock:
        yield clock


def settings(count: int, **changes: Any) -> PoolSettings:
    changes.setdefault("cooldown", Cooldown(jitter=0.0))
    return PoolSettings(name="corp", members=tuple(Member(name=f"m{i}", url=f"http://m{i}") for i in range(count)), **changes)


def pool(count: int = 3, **changes: Any) -> EgressPool:
    return EgressPool(settings(count, **changes), rng=Random(1))


def leased(tries: Tries, **options: Any) -> Lease:
    lease = tries.acquire("ec2", **options)
    assert isinstance(lease, Lease)
    return lease


def send(tries: Tries, end: TryEnd) -> tuple[str, Step]:
    with leased(tries) as lease:
        return lease.member.name, lease.end(end)


def fail(some: EgressPool) -> None:
    """Cool every member."""
    for member in some.settings.members:
        tries = some.tries()
        tries.failover.tried = tuple(other.name for other in some.settings.members if other is not member)
        leased(tries).end(REFUSED)


def states(some: EgressPool) -> list[str]:
    return [member.state for member in some.snapshot().members]


# tries


def test_a_call_goes_on_to_the_next_member_until_one_answers() -> None:
    tries = pool().tries(call="ec2:DescribeVpcs")
    assert [send(tries, REFUSED), send(tries, REFUSED), send(tries, OK)] == [("m0", AGAIN), ("m1", AGAIN), ("m2", DONE)]


def test_members_run_out() -> None:
    tries = pool(2).tries()
    assert [send(tries, REFUSED)[1], send(tries, REFUSED)[1]] == [AGAIN, Exhausted(("m0", "m1"))]


def test_retries_run_out() -> None:
    tries = pool(3, retries=1).tries()
    assert [send(tries, REFUSED)[1], send(tries, REFUSED)[1]] == [AGAIN, Spent(("m0", "m1"))]


def test_members_that_others_have_cooled_meanwhile_run_out_too() -> None:
    some = pool(3)
    tries = some.tries()
    assert send(tries, REFUSED)[1] == AGAIN
    some.disable("m1")
    some.disable("m2")
    assert tries.acquire("ec2") == Exhausted(("m0",))


def test_a_later_attempt_does_not_go_where_the_call_has_failed_before() -> None:
    some = pool(2)
    tries = some.tries()
    assert [send(tries, REFUSED), send(tries, LOST)] == [("m0", AGAIN), ("m1", DONE)]
    some.enable("m0")
    some.disable("m1")
    assert tries.acquire("ec2") == Exhausted(("m0",))


def test_a_connection_closed_while_idle_costs_the_member_nothing() -> None:
    some = pool(2)
    tries = some.tries()
    with leased(tries) as lease:
        assert (lease.fresh, lease.end(CLOSED)) == (False, AGAIN)
    again = leased(tries)
    assert again is lease
    assert again.fresh
    assert some.snapshot().members[0].in_flight == 1
    with again:
        assert again.end(OK) == DONE
    first = some.snapshot().members[0]
    assert (first.state, first.in_flight, first.counters) == ("eligible", 0, {})


def test_a_fresh_connection_that_is_cancelled_gives_its_place_back() -> None:
    some = pool(1)
    tries = some.tries()
    with leased(tries) as lease:
        lease.end(CLOSED)
    with pytest.raises(KeyboardInterrupt), leased(tries):
        raise KeyboardInterrupt
    assert some.snapshot().members[0].in_flight == 0


def test_leaving_a_lease_without_an_end_is_a_cancellation() -> None:
    some = pool(1)
    fail(some)
    with pytest.raises(KeyboardInterrupt), leased(some.tries()):
        raise KeyboardInterrupt
    member = some.snapshot().members[0]
    assert (member.state, member.in_flight, member.trials, member.counters) == (
        "probe_allowed",
        0,
        0,
        {"refused": 1, "cancelled": 1},
    )


def test_an_end_is_told_once() -> None:
    some = pool(2)
    lease = leased(some.tries())
    assert (lease.end(OK), lease.end(REFUSED)) == (DONE, DONE)
    assert (states(some), some.snapshot().members[0].in_flight) == (["eligible", "eligible"], 0)


def test_what_becomes_known_after_the_end_is_judged() -> None:
    some = pool(1)
    lease = leased(some.tries())
    lease.end(OK)
    lease.after(TryEnd(phase=Phase.BODY, reason=Reason.RESET))
    picture = some.snapshot()
    assert (picture.members[0].counters, picture.pairs[0].state) == ({"reset": 1}, "cooling")


def test_one_call_is_not_made_to_try_out_all_members_that_are_down() -> None:
    some = pool(4)
    for name in ("m0", "m1", "m2"):
        some.disable(name)
        some.enable(name)
    tries = some.tries()
    assert send(tries, REFUSED) == ("m0", AGAIN)
    assert send(tries, OK) == ("m3", DONE)


# waiting


def test_a_call_waits_for_the_soonest_deadline(clock: VirtualClock) -> None:
    some = pool(2)
    fail(some)
    lease = leased(some.tries(), budget=60.0)
    assert clock.sleeps == [5.0]
    assert lease.trial
    assert lease.end(OK) == DONE
    assert states(some) == ["eligible", "probe_allowed"]


def test_a_call_whose_budget_would_end_first_does_not_begin_to_wait(clock: VirtualClock) -> None:
    some = pool(2)
    fail(some)
    answer = some.tries().acquire("ec2", budget=4.9)
    assert isinstance(answer, Unavailable)
    assert (answer.soonest, answer.waited, clock.sleeps) == (5.0, 0.0, [])
    assert [member.remaining for member in answer.members] == [5.0, 5.0]


def test_a_call_waits_in_vain_for_a_trial_that_does_not_end(clock: VirtualClock) -> None:
    some = pool(1)
    fail(some)
    trial = leased(some.tries())
    answer = some.tries().acquire("ec2", budget=7.0)
    assert isinstance(answer, Unavailable)
    assert (answer.waited, clock.sleeps) == (7.0, [5.0, 7.0])
    trial.end(OK)


def test_a_call_fails_at_once_where_nothing_comes_back_by_itself(clock: VirtualClock) -> None:
    some = pool(2)
    some.disable("m0")
    some.disable("m1")
    answer = some.tries().acquire("ec2")
    assert isinstance(answer, Unavailable)
    assert (answer.soonest, clock.sleeps) == (None, [])


def test_a_pool_may_be_set_to_fail_at_once(clock: VirtualClock) -> None:
    some = pool(1, when_unavailable="fail")
    fail(some)
    assert isinstance(some.tries().acquire("ec2"), Unavailable)
    assert clock.sleeps == []


@pytest.mark.parametrize("when", ["wait", "fail"])
def test_the_ramp_of_a_member_that_has_just_recovered_is_waited_for_all_the_same(clock: VirtualClock, when: str) -> None:
    some = pool(1, when_unavailable=when)
    fail(some)
    clock.advance(5.0)
    leased(some.tries()).end(OK)
    for _ in range(4):
        leased(some.tries())
    assert sum(clock.sleeps) == pytest.approx(0.1)


def test_a_try_waits_for_the_ramp_of_the_only_member_that_is_left(clock: VirtualClock) -> None:
    some = pool(2)
    some.disable("m1")
    some.enable("m1")
    leased(some.tries()).end(OK)
    leased(some.tries(), budget=9.0)  # either
    leased(some.tries(), budget=9.0)
    tries = some.tries()
    assert [send(tries, REFUSED), send(tries, OK)] == [("m0", AGAIN), ("m1", DONE)]
    assert 0.0 < sum(clock.sleeps) < 0.2


def test_waiting_on_an_event_loop(clock: VirtualClock) -> None:
    some = pool(1)
    fail(some)

    async def call() -> float:
        lease = await some.tries().acquire_async("ec2", budget=60.0)
        assert isinstance(lease, Lease)
        lease.end(OK)
        return clock.monotonic()

    assert asyncio.run(call()) == 5.0


# probes


def test_a_configured_probe_is_fetched_in_place_of_the_request() -> None:
    some = pool(2, probe=Probe(kind="https_get", url="https://sts.amazonaws.com/"))
    some.disable("m0")
    some.enable("m0")
    tries = some.tries()
    with leased(tries) as lease:
        assert (lease.member.name, lease.probe) == ("m0", "https://sts.amazonaws.com/")
        assert lease.end(REFUSED) == AGAIN
    with leased(tries) as lease:
        assert (lease.member.name, lease.probe) == ("m1", None)
        assert lease.end(REFUSED) == Exhausted(("m1",))


@pytest.mark.parametrize("reason", [Reason.TUNNEL_REFUSED, Reason.FORBIDDEN, Reason.CERTIFICATE, Reason.RESET])
def test_a_probe_that_fails_in_whatever_way_has_failed(reason: Reason) -> None:
    some = pool(2, probe=Probe(kind="https_get", url="https://STS.amazonaws.com/?Action=GetCallerIdentity"))
    some.disable("m0")
    some.enable("m0")
    with leased(some.tries()) as lease:
        lease.end(TryEnd(phase=Phase.WAIT, reason=reason))
    picture = some.snapshot()
    assert (picture.members[0].state, picture.pairs) == ("cooling", ())


def test_a_pool_whose_members_all_wait_for_a_probe_is_probed_until_one_works() -> None:
    some = pool(2, probe=Probe(kind="https_get", url="https://sts.amazonaws.com/"))
    for name in ("m0", "m1"):
        some.disable(name)
        some.enable(name)
    tries = some.tries()
    for end in (REFUSED, OK):
        with leased(tries) as lease:
            assert lease.probe is not None
            lease.end(end)
    assert send(tries, OK) == ("m1", DONE)


# operators, settings, listeners


def test_a_listener_is_told_of_each_change_and_may_use_the_pool() -> None:
    told: list[MemberChanged] = []
    some = EgressPool(settings(1), tell=lambda change: told.append(change) if some.snapshot() else None)
    tries = some.tries(call="ec2:DescribeVpcs")
    leased(tries).end(REFUSED)
    leased(some.tries()).end(OK)
    assert [(change.transition.after.value, change.transition.by.value, change.transition.call) for change in told] == [
        ("cooling", "call", "ec2:DescribeVpcs"),
        ("probe_allowed", "clock", None),
        ("eligible", "call", None),
    ]


def test_settings_are_taken_up() -> None:
    some = pool(2)
    changed = replace(settings(3), members=(*settings(3).members[1:], Member(name="new", direct=True)))
    some.reconfigure(changed)
    assert [(member.name, member.removed) for member in some.snapshot().members] == [
        ("m1", False), ("m2", False), ("new", False), ("m0", True)
    ]  # fmt: skip
    assert some.settings == changed


@pytest.mark.parametrize("act", ["disable", "enable"])
def test_an_unknown_member_is_an_error(act: str) -> None:
    with pytest.raises(KeyError):
        getattr(pool(1), act)("nobody")
