"""SPEC B1: what each end of a try does to the member, or to its way to one destination; and what is written down of it."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cloudretry.core.effects import Effect, effect_of
from cloudretry.core.member_changes import Actor, Instant, Transition
from cloudretry.core.member_health import State
from cloudretry.core.outcome import Phase
from cloudretry.core.pairs import MOST_PAIRS
from cloudretry.core.pool import Pool, Wanted
from cloudretry.core.pool_settings import Cooldown, Member, PoolSettings, Probe, Slow
from cloudretry.core.pool_snapshot import PoolSnapshot
from cloudretry.core.pool_view import snapshot, unavailable
from cloudretry.core.tries import NOTHING_WRITTEN, Hop, Reason, TryEnd

PROXY = Member(name="a", url="http://user:secret@a:3128")
DIRECT = Member(name="d", direct=True)
ADDRESS = Member(name="c", connect_to="192.0.2.1:443")
OK = TryEnd(phase=Phase.DONE)
REFUSED = TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.REFUSED)
TIMEOUT = TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.TIMEOUT)
REJECTED = TryEnd(phase=Phase.PROXY_HANDSHAKE, hop=Hop.MEMBER, reason=Reason.AUTH_REJECTED, status=407)
UNREACHABLE = TryEnd(phase=Phase.PROXY_HANDSHAKE, reason=Reason.TUNNEL_REFUSED, status=502)
FORBIDDEN = TryEnd(phase=Phase.PROXY_HANDSHAKE, reason=Reason.FORBIDDEN, status=403)
CANCELLED = TryEnd(phase=Phase.WAIT, reason=Reason.CANCELLED)
LOST = (Reason.UNRESOLVED, Reason.REFUSED, Reason.RESET, Reason.TIMEOUT, Reason.PROTOCOL_ERROR)


class Desk:
    """A pool with a clock."""

    def __init__(self, *members: Member, **changes: Any) -> None:
        changes.setdefault("cooldown", Cooldown(jitter=0.0))
        self.settings = PoolSettings(name="corp", members=members or (PROXY,), **changes)
        self.now = 0.0
        self.pool = Pool(self.settings, self.at, Random(1))

    @property
    def at(self) -> Instant:
        return Instant(self.now, 1000.0 + self.now)

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def send(self, end: TryEnd, destination: str = "ec2") -> None:
        grant = self.pool.pick(Wanted(destination), self.at, call="ec2:DescribeVpcs")
        assert grant is not None
        self.pool.finish(grant, end, self.at)

    def usable(self, destination: str = "ec2") -> int:
        return self.pool.available(Wanted(destination), self.at)

    def state(self, name: str = "a") -> State:
        self.pool.see_deadlines(self.at)
        return self.pool.records.seats[name].health.state

    def reconfigure(self, *members: Member) -> None:
        self.settings = replace(self.settings, members=members)
        self.pool.reconfigure(self.settings, self.at)

    @property
    def last(self) -> Transition:
        return self.pool.records.seats["a"].history[-1]

    def recover(self) -> None:
        """Wait until a trial may be made, and make it."""
        self.advance(self.pool.records.seats["a"].health.until - self.now)  # type: ignore[operator]
        self.send(OK)


# the table


@pytest.mark.parametrize("reason", LOST)
@pytest.mark.parametrize("phase", sorted(NOTHING_WRITTEN | {Phase.SEND, Phase.WAIT}))
def test_what_goes_wrong_at_the_member_cools_the_member(reason: Reason, phase: Phase) -> None:
    for member in (PROXY, ADDRESS):
        assert effect_of(TryEnd(phase=phase, hop=Hop.MEMBER, reason=reason), member, Slow()) is Effect.COOL_MEMBER


@pytest.mark.parametrize("reason", LOST)
@pytest.mark.parametrize("phase", sorted(NOTHING_WRITTEN))
def test_what_goes_wrong_beyond_it_cools_the_pair(reason: Reason, phase: Phase) -> None:
    for member in (PROXY, ADDRESS, DIRECT):
        assert effect_of(TryEnd(phase=phase, reason=reason), member, Slow()) is Effect.COOL_PAIR


@pytest.mark.parametrize("reason", LOST)
@pytest.mark.parametrize("hop", list(Hop))
def test_a_direct_member_can_not_fail_itself(hop: Hop, reason: Reason) -> None:
    assert effect_of(TryEnd(phase=Phase.CONNECT, hop=hop, reason=reason), DIRECT, Slow()) is Effect.COOL_PAIR
    assert effect_of(TryEnd(phase=Phase.WAIT, hop=hop, reason=reason), DIRECT, Slow()) is Effect.NOTHING


@pytest.mark.parametrize(
    ("end", "effect"),
    [
        (OK, Effect.PROVEN),
        (TryEnd(phase=Phase.DONE, status=503), Effect.PROVEN),
        (TryEnd(phase=Phase.DONE, status=429, reason=Reason.DESTINATION_STATUS), Effect.PROVEN),
        (REJECTED, Effect.REJECTED),
        (UNREACHABLE, Effect.COOL_PAIR),
        (FORBIDDEN, Effect.WITHHOLD_PAIR),
        (TryEnd(phase=Phase.TLS, reason=Reason.CERTIFICATE), Effect.WITHHOLD_PAIR),
        (TryEnd(phase=Phase.TLS, hop=Hop.MEMBER, reason=Reason.CERTIFICATE), Effect.WITHHOLD_MEMBER),
        (TryEnd(phase=Phase.WAIT, hop=Hop.MEMBER, reason=Reason.PROTOCOL_ERROR), Effect.COOL_MEMBER),
        (TryEnd(phase=Phase.SEND, reason=Reason.RESET), Effect.COOL_PAIR),
        (TryEnd(phase=Phase.SEND, reason=Reason.RESET, reused=True), Effect.NOTHING),
        (TryEnd(phase=Phase.BODY, reason=Reason.RESET, reused=True), Effect.COOL_PAIR),  # no idle timer ends an answer
        (TryEnd(phase=Phase.BODY, reason=Reason.SLOW_BODY), Effect.SLOW),
        (CANCELLED, Effect.NOTHING),
    ],
)
def test_the_rest_of_the_table(end: TryEnd, effect: Effect) -> None:
    assert effect_of(end, PROXY, Slow()) is effect


def test_a_certificate_seen_at_an_address_is_the_destinations() -> None:
    end = TryEnd(phase=Phase.TLS, hop=Hop.MEMBER, reason=Reason.CERTIFICATE)
    assert effect_of(end, ADDRESS, Slow()) is Effect.WITHHOLD_PAIR


def test_a_slow_first_byte_is_slow_where_that_is_measured() -> None:
    end = TryEnd(phase=Phase.DONE, first_byte=2.0)
    assert effect_of(end, PROXY, Slow()) is Effect.PROVEN
    assert effect_of(end, PROXY, Slow(first_byte=2.0)) is Effect.PROVEN
    assert effect_of(end, PROXY, Slow(first_byte=1.9)) is Effect.SLOW


# members


def test_one_refusal_cools_and_is_written_down() -> None:
    desk = Desk()
    desk.send(REFUSED)
    assert desk.usable() == 0
    assert desk.last == Transition(
        before=State.ELIGIBLE,
        after=State.COOLING,
        reason=Reason.REFUSED,
        phase=Phase.CONNECT,
        at=Instant(0.0, 1000.0),
        by=Actor.CALL,
        call="ec2:DescribeVpcs",
        pause=5.0,
    )


def test_a_deadline_counts_from_when_it_passed_not_from_when_it_was_seen() -> None:
    desk = Desk()
    desk.send(REFUSED)
    desk.advance(4.999)
    assert desk.state() is State.COOLING
    desk.advance(7.0)
    assert desk.state() is State.PROBE_ALLOWED
    assert (desk.last.at, desk.last.by, desk.last.pause) == (Instant(5.0, 1005.0), Actor.CLOCK, None)


def test_one_trial_at_a_time_decides() -> None:
    desk = Desk()
    desk.send(REFUSED)
    desk.advance(5.0)
    assert desk.usable() == 1
    trial = desk.pool.pick(Wanted("ec2"), desk.at)
    assert trial is not None
    assert trial.trial
    assert desk.usable() == 0
    assert desk.pool.pick(Wanted("ec2"), desk.at) is None
    desk.pool.finish(trial, OK, desk.at)
    assert desk.state() is State.ELIGIBLE


def test_a_trial_that_fails_cools_for_longer_each_time() -> None:
    desk, pauses = Desk(), list[float]()
    for _ in range(8):
        desk.send(TIMEOUT if pauses else REFUSED)
        assert desk.last.pause is not None
        pauses.append(desk.last.pause)
        desk.advance(desk.last.pause)
    assert pauses == pytest.approx([5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0])


def test_healthy_time_is_credited() -> None:
    desk = Desk()
    for _ in range(3):
        desk.send(REFUSED)
        desk.recover()
    desk.advance(10.0)  # less than the third pause, 20 s
    desk.send(REFUSED)
    assert desk.last.pause == 40.0
    desk.recover()
    desk.advance(60.0)  # forgives the fourth and the third
    desk.send(REFUSED)
    assert desk.last.pause == 20.0


def test_three_timeouts_in_a_row_cool_and_an_answer_between_them_counts() -> None:
    desk = Desk()
    for end in (TIMEOUT, TIMEOUT, OK, TIMEOUT, TIMEOUT):
        desk.send(end)
    assert desk.state() is State.ELIGIBLE
    desk.send(TIMEOUT)
    assert desk.state() is State.COOLING
    assert desk.pool.records.seats["a"].counters == {Reason.TIMEOUT: 5}


def test_as_many_successes_as_are_set_bring_it_back() -> None:
    desk = Desk(probe=Probe(successes=2))
    desk.send(REFUSED)
    desk.advance(5.0)
    desk.send(OK)
    assert desk.state() is State.PROBE_ALLOWED
    desk.send(OK)
    assert desk.state() is State.ELIGIBLE


def test_a_cancelled_trial_gives_its_place_back_and_says_nothing() -> None:
    desk = Desk()
    desk.send(REFUSED)
    desk.advance(5.0)
    desk.send(CANCELLED)
    assert desk.state() is State.PROBE_ALLOWED
    assert desk.usable() == 1


def test_a_trial_that_nobody_ends_blocks_until_its_lease_is_over() -> None:
    desk = Desk(probe=Probe(lease=60.0))
    desk.send(REFUSED)
    desk.advance(5.0)
    lost = desk.pool.pick(Wanted("ec2"), desk.at)
    desk.advance(59.9)
    assert desk.pool.pick(Wanted("ec2"), desk.at) is None
    desk.advance(0.1)
    second = desk.pool.pick(Wanted("ec2"), desk.at)
    assert lost is not None
    assert second is not None
    assert desk.pool.pick(Wanted("ec2"), desk.at) is None
    desk.pool.finish(lost, CANCELLED, desk.at)  # the place is no longer its own to give back
    assert desk.pool.pick(Wanted("ec2"), desk.at) is None


def test_an_unfinished_trial_keeps_its_place_when_the_member_cools_again() -> None:
    desk = Desk(probe=Probe(concurrency=2, lease=600.0))
    desk.send(REFUSED)
    desk.advance(5.0)
    first, second = desk.pool.pick(Wanted("ec2"), desk.at), desk.pool.pick(Wanted("ec2"), desk.at)
    assert first is not None
    assert second is not None
    desk.pool.finish(first, REFUSED, desk.at)
    desk.advance(10.0)
    assert desk.pool.pick(Wanted("ec2"), desk.at) is not None
    assert desk.pool.pick(Wanted("ec2"), desk.at) is None
    desk.pool.finish(second, OK, desk.at)  # it began before the second cooling
    assert desk.state() is State.PROBE_ALLOWED


@pytest.mark.parametrize("end", [OK, REFUSED, REJECTED, UNREACHABLE])
def test_a_late_result_changes_nothing(end: TryEnd) -> None:
    desk = Desk()
    late = desk.pool.pick(Wanted("ec2"), desk.at)
    assert late is not None
    desk.send(REFUSED)
    desk.advance(5.0)
    before = replace(snapshot(desk.pool, desk.at).members[0], in_flight=0, answered=0)
    desk.pool.finish(late, end, desk.at)
    assert replace(snapshot(desk.pool, desk.at).members[0], in_flight=0, answered=0) == before
    assert len(desk.pool.records.pairs) == 0


# credentials


def test_credentials_rejected_twice_disable_and_are_tried_again_after_a_while() -> None:
    desk = Desk()
    desk.send(REJECTED)
    assert desk.state() is State.ELIGIBLE
    desk.send(REJECTED)
    assert desk.state() is State.DISABLED
    assert (desk.last.reason, desk.last.pause) == (Reason.AUTH_REJECTED, 900.0)
    desk.advance(900.0)
    desk.send(REJECTED)
    assert desk.state() is State.DISABLED
    desk.advance(900.0)
    desk.send(OK)
    assert desk.state() is State.ELIGIBLE


def test_an_answer_between_two_rejections_counts() -> None:
    desk = Desk()
    for end in (REJECTED, OK, REJECTED, UNREACHABLE):
        desk.send(end, destination=str(end.reason))
    desk.send(REJECTED)
    assert desk.state() is State.ELIGIBLE


def test_other_credentials_are_tried_at_once() -> None:
    desk = Desk()
    desk.send(REJECTED)
    late = desk.pool.pick(Wanted("ec2"), desk.at)
    desk.send(REJECTED)
    desk.reconfigure(replace(PROXY, url="http://user:other@a:3128"))
    assert (desk.state(), desk.last.by) == (State.PROBE_ALLOWED, Actor.CONFIGURATION)
    assert late is not None
    desk.pool.finish(late, REJECTED, desk.at)  # the old ones
    assert desk.state() is State.PROBE_ALLOWED
    desk.send(OK)
    assert desk.state() is State.ELIGIBLE


# destinations


def test_a_dead_destination_does_not_take_the_member_with_it() -> None:
    desk = Desk()
    desk.send(UNREACHABLE, "dead")
    assert (desk.usable("dead"), desk.usable("ec2")) == (0, 1)
    assert desk.state() is State.ELIGIBLE
    assert (desk.last.destination, desk.last.after, desk.last.pause) == ("dead", State.COOLING, 5.0)
    desk.advance(5.0)
    assert desk.usable("dead") == 1
    desk.send(UNREACHABLE, "dead")
    assert desk.last.pause == 10.0
    desk.advance(10.0)
    desk.send(OK, "dead")
    assert (desk.last.before, desk.last.after) == (State.PROBE_ALLOWED, State.ELIGIBLE)


def test_one_trial_at_a_time_goes_to_a_destination_that_has_failed() -> None:
    desk = Desk()
    desk.send(UNREACHABLE, "dead")
    desk.advance(5.0)
    trial = desk.pool.pick(Wanted("dead"), desk.at)
    assert trial is not None
    assert trial.trial
    assert desk.pool.pick(Wanted("dead"), desk.at) is None
    assert desk.usable("dead") == 0
    desk.pool.finish(trial, CANCELLED, desk.at)
    assert desk.usable("dead") == 1


@pytest.mark.parametrize("end", [UNREACHABLE, FORBIDDEN, OK])
def test_a_late_result_changes_nothing_of_a_pair(end: TryEnd) -> None:
    desk = Desk()
    late = desk.pool.pick(Wanted("dead"), desk.at)
    assert late is not None
    desk.send(UNREACHABLE, "dead")
    before = snapshot(desk.pool, desk.at).pairs
    desk.pool.finish(late, end, desk.at)
    assert snapshot(desk.pool, desk.at).pairs == before
    desk.advance(5.0)
    assert desk.usable("dead") == 1


def test_three_different_destinations_without_a_success_between_cool_the_member() -> None:
    desk = Desk()
    for destination in ("x", "y"):
        desk.send(UNREACHABLE, destination)
    desk.send(OK)
    for destination in ("v", "w"):
        desk.send(UNREACHABLE, destination)
    assert desk.state() is State.ELIGIBLE
    desk.send(UNREACHABLE, "z")
    assert desk.state() is State.COOLING
    desk.advance(5.0)
    desk.send(UNREACHABLE, "one more")  # the trial's destination
    assert desk.state() is State.COOLING
    assert len(desk.pool.records.seats["a"].health.missed) == 3
    assert desk.last.pause == 10.0


def test_the_same_destination_counts_once() -> None:
    desk = Desk()
    for _ in range(5):
        desk.send(UNREACHABLE, "dead")
        desk.advance(300.0)
    assert desk.state() is State.ELIGIBLE


def test_a_trial_to_a_dead_destination_says_nothing_of_a_member_that_was_refused() -> None:
    desk = Desk()
    desk.send(REFUSED)
    desk.advance(5.0)
    desk.send(UNREACHABLE, "dead")
    assert desk.state() is State.PROBE_ALLOWED
    desk.send(OK)
    assert desk.state() is State.ELIGIBLE


@pytest.mark.parametrize("end", [FORBIDDEN, TryEnd(phase=Phase.TLS, reason=Reason.CERTIFICATE)])
def test_a_forbidden_destination_is_withheld_and_looked_at_again_after_a_while(end: TryEnd) -> None:
    desk = Desk()
    desk.send(end, "secret")
    assert (desk.usable("secret"), desk.usable("ec2"), desk.state()) == (0, 1, State.ELIGIBLE)
    assert (desk.last.after, desk.last.pause) == (State.DISABLED, 900.0)
    desk.advance(900.0)
    assert desk.usable("secret") == 1


@pytest.mark.parametrize("hop", list(Hop))
def test_other_certificates_to_trust_are_tried_at_once(hop: Hop) -> None:
    desk = Desk()
    desk.send(TryEnd(phase=Phase.TLS, hop=hop, reason=Reason.CERTIFICATE), "ec2")
    desk.reconfigure(*desk.settings.members)
    assert desk.usable("ec2") == 0
    desk.settings = replace(desk.settings, ca_bundle="other.pem")
    desk.reconfigure(*desk.settings.members)
    assert desk.usable("ec2") == 1
    assert (desk.last.after, desk.last.by) == (State.PROBE_ALLOWED, Actor.CONFIGURATION)


def test_the_table_of_pairs_is_bounded_and_forgets_the_oldest() -> None:
    desk = Desk(cooldown=Cooldown(destinations=10**9))
    for number in range(MOST_PAIRS + 5):
        desk.send(UNREACHABLE, f"host{number}")
    assert len(desk.pool.records.pairs) == MOST_PAIRS
    assert (desk.usable("host0"), desk.usable("host5")) == (1, 0)


def test_a_pair_that_is_forgiven_is_not_kept() -> None:
    desk = Desk()
    desk.send(UNREACHABLE, "dead")
    desk.advance(5.0)
    desk.send(OK, "dead")
    assert len(desk.pool.records.pairs) == 1
    desk.advance(5.0)
    desk.send(OK, "dead")
    assert len(desk.pool.records.pairs) == 0


# slowness


def test_slowness_is_counted_and_cools_only_past_a_threshold() -> None:
    slow = TryEnd(phase=Phase.DONE, first_byte=3.0)
    lenient, strict = Desk(slow=Slow(first_byte=1.0)), Desk(slow=Slow(first_byte=1.0, threshold=3))
    for desk in (lenient, strict):
        for end in (slow, slow, OK, slow, slow, slow):
            desk.send(end)
    assert lenient.state() is State.ELIGIBLE
    assert (strict.state(), strict.last.reason) == (State.COOLING, Reason.SLOW_BODY)
    strict.advance(5.0)
    strict.send(slow)
    assert (strict.state(), strict.last.pause) == (State.COOLING, 10.0)
    strict.advance(10.0)
    strict.send(OK)
    assert strict.state() is State.ELIGIBLE


# operators and the configuration


def test_an_operator_takes_out_and_brings_back_by_a_trial() -> None:
    desk = Desk()
    desk.pool.disable("a", desk.at)
    assert (desk.usable(), desk.last.by, desk.last.reason, desk.last.pause) == (0, Actor.OPERATOR, Reason.OPERATOR, None)
    desk.advance(1e6)
    assert desk.state() is State.DISABLED
    desk.pool.enable("a", desk.at)
    assert desk.state() is State.PROBE_ALLOWED
    desk.send(OK)
    assert desk.state() is State.ELIGIBLE


def test_an_operator_may_end_a_cooling() -> None:
    desk = Desk()
    desk.send(REFUSED)
    desk.pool.enable("a", desk.at)
    assert (desk.usable(), desk.last.by) == (1, Actor.OPERATOR)


def test_an_operator_outranks_a_lasting_condition() -> None:
    desk = Desk()
    desk.send(REJECTED)
    desk.send(REJECTED)
    desk.pool.disable("a", desk.at)
    assert (desk.last.before, desk.last.after, desk.last.reason) == (State.DISABLED, State.DISABLED, Reason.OPERATOR)
    desk.advance(1000.0)
    assert desk.state() is State.DISABLED


def test_the_configuration_takes_out_and_brings_back() -> None:
    desk = Desk(replace(PROXY, disabled=True))
    assert (desk.usable(), desk.last.by) == (0, Actor.CONFIGURATION)
    desk.reconfigure(PROXY)
    assert desk.state() is State.PROBE_ALLOWED
    desk.reconfigure(replace(PROXY, disabled=True))
    assert desk.state() is State.DISABLED


def test_a_member_that_is_removed_drains_and_its_record_stays() -> None:
    desk = Desk(PROXY, Member(name="b", url="http://b"))
    under_way = [desk.pool.pick(Wanted("ec2"), desk.at) for _ in range(2)]
    gone = next(grant for grant in under_way if grant is not None and grant.member.name == "a")
    desk.reconfigure(Member(name="b", url="http://b"))
    assert desk.usable() == 1
    desk.pool.finish(gone, REFUSED, desk.at)
    assert {desk.pool.pick(Wanted("ec2"), desk.at).member.name for _ in range(9)} == {"b"}  # type: ignore[union-attr]
    removed = snapshot(desk.pool, desk.at).members[-1]
    assert (removed.name, removed.removed, removed.in_flight, removed.counters) == ("a", True, 0, {"refused": 1})
    desk.reconfigure(PROXY, Member(name="b", url="http://b"))
    assert (desk.state(), desk.usable()) == (State.COOLING, 1)


# what people see


def test_a_snapshot_has_remaining_times_and_no_secret_and_survives_json() -> None:
    desk = Desk(PROXY, DIRECT, ADDRESS)
    desk.send(REFUSED)
    desk.send(UNREACHABLE, "dead")
    desk.advance(1.5)
    picture = snapshot(desk.pool, desk.at, waiting=3)
    first = picture.members[0]
    assert (first.kind, first.state, first.reason, first.phase) == ("http", "cooling", "refused", "connect")
    assert (first.since, first.remaining, first.coolings, first.history[0].pause) == (1000.0, 3.5, 1, 5.0)
    assert [member.kind for member in picture.members] == ["http", "direct", "connect_to"]
    assert [(pair.destination, pair.remaining) for pair in picture.pairs] == [("dead", 3.5)]
    written = json.dumps(picture.to_dict())
    assert "secret" not in written + repr(picture) + repr(desk.pool.take_changes())
    assert PoolSnapshot.from_dict(json.loads(written)) == picture


def test_why_nothing_is_available_names_every_member() -> None:
    desk = Desk(PROXY, Member(name="b", url="http://b"), Member(name="e", url="http://e"))
    desk.send(REFUSED)
    desk.pool.disable("b", desk.at)
    desk.send(UNREACHABLE, "dead")
    desk.advance(1.0)
    why = unavailable(desk.pool, Wanted("dead"), desk.at, waited=2.0)
    assert str(why) == (
        "no member of pool corp is available for dead (waited 2.0s, next trial in 4.0s):\n"
        "  a: cooling after refused (connect), next trial in 4.0s\n"
        "  b: disabled after operator (-)\n"
        "  e: cooling to this destination after tunnel_refused (proxy_handshake), next trial in 4.0s"
    )


def test_the_history_of_a_member_is_bounded() -> None:
    desk = Desk()
    for _ in range(50):
        desk.send(REFUSED)
        desk.recover()
    seat = desk.pool.records.seats["a"]
    assert len(seat.history) == 32
    assert seat.counters[Reason.REFUSED] == 50


def test_a_fork_inherits_no_lease() -> None:
    desk = Desk()
    desk.send(REFUSED)
    desk.advance(5.0)
    assert desk.pool.pick(Wanted("ec2"), desk.at) is not None
    assert desk.usable() == 0
    desk.pool.forget_requests(desk.at)
    assert desk.usable() == 1
    assert snapshot(desk.pool, desk.at).members[0].in_flight == 0
