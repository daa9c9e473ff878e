"""The quotas of a process: who shares one, where learning starts, what is dropped and what is kept."""

from __future__ import annotations

from dataclasses import replace

from cloudretry.core.call import Call
from cloudretry.core.match import Match
from cloudretry.core.pacing_settings import KnownRate, PacingSettings
from cloudretry.core.quota import GroupRule, quota_of
from cloudretry.core.rate import Learning, Limit
from cloudretry.runtime.pacing import PACING, Pacing
from cloudretry.testing import virtual_clock

SETTINGS = PacingSettings(reserve=0.0)
CALL = Call(provider="aws", service="ec2", operation="DescribeInstances", region="eu-west-1", account="1", host="127.0.0.1:1")
CLOUD = replace(CALL, host="ec2.eu-west-1.amazonaws.com")


def limit_of(pacing: Pacing, call: Call, settings: PacingSettings = SETTINGS) -> Limit | None:
    return pacing.turns(call, settings).state().limit


def measure(pacing: Pacing, call: Call) -> Limit:
    """Let a quota measure something."""
    rate = pacing.turns(call, SETTINGS).pacer.rate
    for moment in (1.0, 2.0, 3.0):
        for _ in range(40):
            rate.accept(moment, moment)
        rate.throttle(moment, moment)
    assert rate.learning is Learning.TRACK
    return Limit(rate.rate, rate.burst)


def test_equal_calls_of_all_clients_share_one_quota() -> None:
    pacing = Pacing()
    assert pacing.turns(CALL, SETTINGS) is pacing.turns(replace(CALL, replayable=True), SETTINGS)
    assert pacing.turns(CALL, SETTINGS) is not pacing.turns(replace(CALL, account="2"), SETTINGS)


def test_a_known_rate_comes_before_what_was_learned_and_that_before_what_is_published() -> None:
    pacing = Pacing()
    pacing._learned[quota_of(CLOUD)] = Limit(7.0, 70.0)
    known = KnownRate(match=Match(operation="Describe*"), rate=3.0, burst=30.0)
    assert limit_of(Pacing(), CALL) is None
    assert limit_of(Pacing(), CLOUD) == Limit(20.0, 100.0)
    assert limit_of(pacing, CLOUD) == Limit(7.0, 70.0)
    pacing.forget()
    pacing._learned[quota_of(CLOUD)] = Limit(7.0, 70.0)
    assert limit_of(pacing, CLOUD, replace(SETTINGS, rates=(known,))) == Limit(3.0, 30.0)


def test_other_settings_hold_at_once_for_all_who_use_a_quota() -> None:
    pacing = Pacing()
    turns = pacing.turns(CALL, SETTINGS)
    turns.take()
    assert pacing.turns(CALL, replace(SETTINGS, max_in_flight=1)) is turns
    assert turns.pacer.max_in_flight == 1


def test_a_users_groups_come_first() -> None:
    pacing = Pacing(rules=[GroupRule(match=Match(service="ec2"), group="all")])
    assert pacing.turns(CALL, SETTINGS) is pacing.turns(replace(CALL, operation="DescribeVolumes"), SETTINGS)


def test_idle_quotas_are_dropped_and_what_they_measured_is_kept() -> None:
    pacing = Pacing()
    with virtual_clock() as clock:
        learned = measure(pacing, CALL)
        clock.advance(10_000.0)
        for account in range(10):
            pacing.turns(replace(CALL, account=f"other{account}"), SETTINGS)
        assert quota_of(CALL) not in pacing.states()
        assert limit_of(pacing, CALL) == learned


def test_a_quota_in_use_is_not_dropped() -> None:
    pacing = Pacing()
    with virtual_clock() as clock:
        turns = pacing.turns(CALL, SETTINGS)
        with turns.take():
            clock.advance(10_000.0)
            for account in range(10):
                pacing.turns(replace(CALL, account=f"other{account}"), SETTINGS)
            assert pacing.turns(CALL, SETTINGS) is turns


def test_the_number_of_quotas_stays_in_proportion_to_those_in_use() -> None:
    pacing = Pacing()
    with virtual_clock() as clock:
        for account in range(2000):
            clock.advance(60.0)
            pacing.turns(replace(CALL, account=str(account)), SETTINGS)
        assert len(pacing.states()) < 30
        assert len(pacing._calls) < 30


def test_a_limit_that_is_just_being_measured_is_not_kept() -> None:
    pacing = Pacing()
    pacing.turns(CALL, SETTINGS).pacer.rate.throttle(1.0, 1.0)
    assert list(pacing._worth_keeping()) == []


def test_a_child_process_keeps_what_was_learned_and_nobodys_turns() -> None:
    pacing = Pacing()
    learned = measure(pacing, CALL)
    with pacing.turns(CALL, SETTINGS).take():
        pacing.after_fork()
    turns = pacing.turns(CALL, SETTINGS)
    assert turns.state().in_flight == 0
    assert turns.state().limit == learned


def test_there_is_one_for_the_process() -> None:
    assert isinstance(PACING, Pacing)


def test_each_setting_reaches_the_pacer() -> None:
    settings = replace(SETTINGS, reserve=0.5, max_rate=4.0, max_in_flight=2)
    pacer = Pacing().turns(CALL, settings).pacer
    assert (pacer.rate.reserve, pacer.max_rate, pacer.max_in_flight) == (0.5, 4.0, 2)
