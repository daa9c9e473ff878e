"""SPEC C1, exactly: how many members a call tries, and what it hears in the end."""

from __future__ import annotations

from random import Random

import pytest

from cloudretry.core.failover import AGAIN, DONE, Exhausted, Failover, Spent, Step
from cloudretry.core.member_changes import Instant
from cloudretry.core.outcome import Phase
from cloudretry.core.pool import Pool, Wanted
from cloudretry.core.pool_settings import Member, PoolSettings
from cloudretry.core.tries import NOTHING_WRITTEN, Hop, Reason, TryEnd

NOW = Instant(0.0, 0.0)
OK = TryEnd(phase=Phase.DONE)
THROTTLED = TryEnd(phase=Phase.DONE, status=429)
RESET = TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.RESET)


def pool(members: int) -> Pool:
    return Pool(
        PoolSettings(name="corp", members=tuple(Member(name=f"m{i}", url="http://x") for i in range(members))), NOW, Random(1)
    )


def attempt(pool: Pool, failover: Failover, *ends: TryEnd) -> tuple[list[str], Step]:
    """The members that one attempt was given, and its end; the last of `ends` for ever."""
    names, script = [], list(ends)
    while True:
        wanted = Wanted("ec2", failover.tried)
        if not failover.begun:
            failover.begin(pool.available(wanted, NOW))
        grant = pool.pick(wanted, NOW)
        assert grant is not None
        names.append(grant.member.name)
        end = script.pop(0) if len(script) > 1 else script[0]
        pool.finish(grant, end, NOW)
        step = failover.ended(grant.member.name, end)
        if step != AGAIN:
            return names, step


@pytest.mark.parametrize("retries", range(9))
@pytest.mark.parametrize("members", range(1, 9))
def test_tries_are_the_lesser_of_members_and_retries_plus_one(members: int, retries: int) -> None:
    names, step = attempt(pool(members), Failover(retries), RESET)
    assert len(names) == len(set(names)) == min(members, retries + 1)
    assert step == (Exhausted(tuple(names)) if members <= retries else Spent(tuple(names)))


@pytest.mark.parametrize(
    ("members", "retries", "answer"),
    [(5, 6, Exhausted), (3, 2, Spent), (3, 3, Exhausted), (4, 3, Spent), (1, 0, Spent), (1, 1, Exhausted)],
)
def test_the_examples_of_the_specification(members: int, retries: int, answer: type[Step]) -> None:
    assert isinstance(attempt(pool(members), Failover(retries), RESET)[1], answer)


@pytest.mark.parametrize("retries", range(9))
@pytest.mark.parametrize("members", range(9))
def test_the_same_with_withheld_members_around(members: int, retries: int) -> None:
    some = pool(members + 3)
    for name in ("m0", "m1", "m2"):
        some.disable(name, NOW)
    failover = Failover(retries)
    if members == 0:
        assert some.available(Wanted("ec2"), NOW) == 0
        assert some.pick(Wanted("ec2"), NOW) is None
        return
    names, step = attempt(some, failover, RESET)
    assert len(names) == min(members, retries + 1)
    assert not {"m0", "m1", "m2"} & set(names)
    assert isinstance(step, Exhausted if members <= retries else Spent)


def test_the_answer_tells_how_each_member_failed() -> None:
    forbidden = TryEnd(phase=Phase.PROXY_HANDSHAKE, reason=Reason.FORBIDDEN, status=403)
    assert (
        str(attempt(pool(2), Failover(3), RESET, forbidden)[1]) == "m0: reset (connect), m1: forbidden (proxy_handshake, 403)"
    )


def test_the_original_error_in_place_of_500_where_that_is_set() -> None:
    assert attempt(pool(2), Failover(3, "connection_error"), RESET) == (["m0", "m1"], Spent(("m0", "m1")))


def test_an_answer_after_a_reset_ends_the_attempt() -> None:
    assert attempt(pool(3), Failover(3), RESET, OK) == (["m0", "m1"], DONE)


@pytest.mark.parametrize("phase", sorted(NOTHING_WRITTEN))
def test_whatever_was_not_written_goes_on(phase: Phase) -> None:
    assert Failover(3).ended("m0", TryEnd(phase=phase, reason=Reason.TIMEOUT)) != DONE


@pytest.mark.parametrize("phase", sorted(set(Phase) - NOTHING_WRITTEN))
def test_whatever_was_written_does_not(phase: Phase) -> None:
    failover = Failover(3)
    failover.begin(4)
    assert failover.ended("m0", TryEnd(phase=phase, reason=Reason.RESET)) == DONE
    assert failover.tried == ()


def test_a_cancelled_try_does_not_go_on() -> None:
    failover = Failover(3)
    failover.begin(4)
    assert failover.ended("m0", TryEnd(phase=Phase.CONNECT, reason=Reason.CANCELLED)) == DONE


def test_a_certificate_that_is_not_trusted_is_shown_at_once() -> None:
    failover = Failover(3)
    failover.begin(4)
    assert failover.ended("m0", TryEnd(phase=Phase.TLS, reason=Reason.CERTIFICATE)) == Spent(("m0",))


def test_retries_are_spent_per_call_and_a_failed_member_is_not_tried_again_in_a_later_attempt() -> None:
    some, failover = pool(5), Failover(3)
    assert attempt(some, failover, RESET, RESET, THROTTLED) == (["m0", "m1", "m2"], DONE)
    for name in ("m0", "m1"):  # as if they had recovered meanwhile
        some.enable(name, NOW)
    names, step = attempt(some, failover, RESET)  # R = 1 is left, and S = 3
    assert names == ["m3", "m4"]
    assert step == Spent(("m0", "m1", "m3", "m4"))


def test_a_later_attempt_counts_the_members_that_are_left() -> None:
    some, failover = pool(3), Failover(3)
    attempt(some, failover, RESET, THROTTLED)
    names, step = attempt(some, failover, RESET)  # R = 2, S = 2
    assert len(names) == 2
    assert isinstance(step, Exhausted)


def test_a_connection_closed_while_idle_gets_one_fresh_one_to_the_same_member() -> None:
    closed = TryEnd(phase=Phase.CONNECT, reason=Reason.RESET, reused=True)
    failover = Failover(3)
    failover.begin(4)
    assert (failover.ended("m0", closed), failover.afresh, failover.tried) == (AGAIN, True, ())
    assert (failover.ended("m0", closed), failover.afresh, failover.tried) == (AGAIN, False, ("m0",))
    assert (failover.ended("m1", closed), failover.afresh) == (AGAIN, True)


def test_members_that_fail_meanwhile_run_out() -> None:
    failover = Failover(3)
    failover.begin(4)
    assert failover.ended("m0", RESET) == AGAIN
    assert failover.ran_out() == Exhausted(("m0",))
    assert not failover.begun
