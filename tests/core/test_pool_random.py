"""Whatever happens in whatever order: nobody passes who may not, no crowd is let through, no record is lost (SPEC B1, B3)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cloudretry.core.member_changes import Instant, MemberChanged
from cloudretry.core.member_health import State
from cloudretry.core.outcome import Phase
from cloudretry.core.pool import Pool, Wanted
from cloudretry.core.pool_settings import Algorithm, Cooldown, Member, PoolSettings, Probe, Slow
from cloudretry.core.pool_view import snapshot
from cloudretry.core.tries import Hop, Reason, TryEnd

if TYPE_CHECKING:
    from cloudretry.core.pool_records import Grant
    from cloudretry.core.seat import Seat

ALGORITHMS: tuple[Algorithm, ...] = ("least_connections", "round_robin", "least_response_time", "hash")
DESTINATIONS = ("ec2", "sts", "s3", "iam")
OK = TryEnd(phase=Phase.DONE, first_byte=0.01)
ENDS = (
    *[OK] * 6,
    TryEnd(phase=Phase.DONE, first_byte=9.0),
    TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.REFUSED),
    TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.TIMEOUT),
    TryEnd(phase=Phase.TLS, reason=Reason.RESET),
    TryEnd(phase=Phase.PROXY_HANDSHAKE, hop=Hop.MEMBER, reason=Reason.AUTH_REJECTED, status=407),
    TryEnd(phase=Phase.PROXY_HANDSHAKE, reason=Reason.TUNNEL_REFUSED, status=502),
    TryEnd(phase=Phase.PROXY_HANDSHAKE, reason=Reason.FORBIDDEN, status=403),
    TryEnd(phase=Phase.TLS, reason=Reason.CERTIFICATE),
    TryEnd(phase=Phase.WAIT, reason=Reason.RESET),
    TryEnd(phase=Phase.BODY, reason=Reason.SLOW_BODY),
    TryEnd(phase=Phase.SEND, reason=Reason.CANCELLED),
)


class World:
    """A pool, what is under way in it, and a second opinion on what may be."""

    def __init__(self, seed: int, *, algorithm: Algorithm = "least_connections", concurrency: int = 1, size: int = 5) -> None:
        members = tuple(Member(name=f"m{i}", url=f"http://m{i}", backup=i == 4, weight=1 + i % 2) for i in range(size))
        self.settings = PoolSettings(
            name="corp",
            members=members,
            algorithm=algorithm,
            cooldown=Cooldown(initial=1.0, max=30.0, timeouts=2, auth_recheck=60.0),
            probe=Probe(concurrency=concurrency, lease=5.0, successes=1 + seed % 2),
            slow=Slow(first_byte=1.0, threshold=3),
        )
        self.now = 1000.0
        self.concurrency = concurrency
        self.pool = Pool(self.settings, self.at, Random(seed))
        self.open: dict[int, tuple[Grant, float]] = {}
        self.dead: dict[int, tuple[Grant, float]] = {}
        self.left: dict[str, int] = {}  # member → grants when it last left eligible
        self.recovered: dict[str, float] = {}
        self.admitted: dict[str, list[float]] = defaultdict(list)  # since it recovered
        self.chain: dict[tuple[str, str | None], State] = {}
        self.noted = 0

    @property
    def at(self) -> Instant:
        return Instant(self.now, self.now + 1e9)

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def pick(self, destination: str, tried: tuple[str, ...] = (), *, trials_first: bool = True) -> Grant | None:
        usable = None if self.pool.records.pairs.to(destination) else self.usable(tried)
        grant = self.pool.pick(Wanted(destination, tried, key="account", trials_first=trials_first), self.at, "call")
        self.hear()
        if usable is not None:
            assert (grant is not None) == bool(usable)
        if grant is not None:
            self.admit(grant, tried)
        return grant

    def usable(self, tried: tuple[str, ...]) -> set[str]:
        """Who may pass now to a destination that nobody has failed to reach, by the picture that people see."""
        members = snapshot(self.pool, self.at).members
        self.hear()
        names = {member.name for member in members if not member.removed and member.name not in tried}
        eligible = {member.name for member in members if member.state == "eligible" and not self.ramp_is_full(member.name)}
        on_trial = {m.name for m in members if m.state == "probe_allowed" and self.trials(m.name) < self.concurrency}
        return names & (eligible | on_trial)

    def admit(self, grant: Grant, tried: tuple[str, ...]) -> None:
        name = grant.member.name
        seat = self.pool.records.seats[name]
        assert name not in tried
        assert not seat.removed
        assert seat.health.state in {State.ELIGIBLE, State.PROBE_ALLOWED}
        assert not self.ramp_is_full(name)
        if seat.health.state is State.PROBE_ALLOWED:
            assert self.trials(name) < self.concurrency
        self.open[grant.number] = (grant, self.now)
        self.admitted[name].append(self.now)

    def trials(self, name: str) -> int:
        """Admitted since it left eligible and not finished, but for those whose lease has expired."""
        since, lease = self.left.get(name, 0), self.settings.probe.lease
        under_way = (*self.open.values(), *self.dead.values())
        return sum(g.member.name == name and g.number > since and self.now < at + lease for g, at in under_way)

    def ramp_is_full(self, name: str) -> bool:
        """Whether one more would make more than 8 in 50 ms, or more than 2ⁿ in the n-th 50 ms after it recovered."""
        recovered = self.recovered.get(name)
        if recovered is None or self.now >= recovered + 3 * 0.05 + 1.0:
            return False
        most: int = 2 ** sum(self.now >= recovered + step * 0.05 for step in (1, 2, 3))
        return sum(self.now < moment + 0.05 for moment in self.admitted[name][-8:]) >= most

    def finish(self, number: int, end: TryEnd) -> None:
        grant, _ = self.open.pop(number)
        seat = self.pool.records.seats[grant.member.name]
        late, before = grant.number <= seat.health.epoch, held_against(seat)
        slips = not late and end.reason not in {None, Reason.CANCELLED, Reason.DESTINATION_STATUS}
        self.pool.finish(grant, end, self.at)
        self.hear()
        if late:
            assert held_against(seat) == before
        elif (slips or end is ENDS[6]) and self.now < self.recovered.get(grant.member.name, -2.0) + 3 * 0.05 + 1.0:
            self.recovered[grant.member.name] = self.now

    def die(self, number: int) -> None:
        """Whoever had it will never say how it ended."""
        self.dead[number] = self.open.pop(number)

    def change(self, name: str, **changes: Any) -> None:
        members = tuple(replace(member, **changes) if member.name == name else member for member in self.settings.members)
        self.settings = replace(self.settings, members=members)
        before = self.pool.records.seats[name].member
        self.pool.reconfigure(self.settings, self.at)
        if self.pool.records.seats[name].member.url != before.url:  # it leads elsewhere
            self.chain = {key: state for key, state in self.chain.items() if key[0] != name or key[1] is None}
        self.hear()

    def remove_or_add(self, name: str) -> None:
        members = tuple(member for member in self.settings.members if member.name != name)
        if len(members) == len(self.settings.members):
            members = (*members, Member(name=name, url=f"http://{name}"))
        self.settings = replace(self.settings, members=members)
        self.pool.reconfigure(self.settings, self.at)
        self.hear()

    def hear(self) -> None:
        """Take in what the pool says has changed."""
        for change in self.pool.take_changes():
            self.noted += 1
            self.follow(change)

    def follow(self, change: MemberChanged) -> None:
        step, name = change.transition, change.member
        key = (name, step.destination)
        assert self.chain.get(key, State.ELIGIBLE) is step.before
        self.chain[key] = step.after
        assert step.reason is not None
        assert (step.pause is not None) == (
            step.after in {State.COOLING, State.DISABLED} and step.reason is not Reason.OPERATOR
        )
        assert step.before is State.PROBE_ALLOWED or step.after is not State.ELIGIBLE
        if step.destination is not None:
            return
        if step.before is State.ELIGIBLE:
            self.left[name] = self.pool.records.granted
            self.recovered.pop(name, None)
        if step.after is State.ELIGIBLE:
            self.recovered[name] = self.now
            self.admitted[name].clear()

    def check(self) -> None:
        """What must hold at every moment."""
        picture = snapshot(self.pool, self.at)
        self.hear()
        assert {member.name for member in picture.members} >= {member.name for member in self.settings.members}
        for member in picture.members:
            assert member.state == self.chain.get((member.name, None), State.ELIGIBLE).value
            under_way = (*self.open.values(), *self.dead.values())
            assert member.in_flight == sum(grant.member.name == member.name for grant, _ in under_way)
            assert len(member.history) <= 32
            if member.state != "eligible":
                assert self.trials(member.name) <= self.concurrency
        assert sum(len(seat.history) for seat in self.pool.records.seats.values()) == self.noted or self.noted > 32
        assert len(self.pool.records.pairs) <= (len(DESTINATIONS) + 1) * len(picture.members)


def held_against(seat: Seat) -> tuple[Any, ...]:
    """What a result that comes too late must not change; the passing of time may be noticed meanwhile."""
    health = seat.health
    return health.row, health.epoch, health.reason, health.broken, health.missed, health.slow, seat.counters.copy()


@settings(max_examples=40, stateful_step_count=50, deadline=None)
class AnyOrder(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 9), algorithm=st.sampled_from(ALGORITHMS), concurrency=st.integers(1, 3))
    def start(self, seed: int, algorithm: Algorithm, concurrency: int) -> None:
        self.world = World(seed, algorithm=algorithm, concurrency=concurrency)

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.05, 0.3, 1.0, 4.0, 10.0, 40.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(destination=st.sampled_from([*DESTINATIONS, "fresh", "fresh"]), tried=st.sets(st.sampled_from(["m0", "m1", "m2"])))
    def a_request_begins(self, destination: str, tried: set[str]) -> None:
        self.world.pick(destination, tuple(sorted(tried)), trials_first=len(tried) != 1)

    @rule(place=st.integers(0, 99), end=st.sampled_from(ENDS))
    def a_request_ends(self, place: int, end: TryEnd) -> None:
        numbers = list(self.world.open)
        if numbers:
            self.world.finish(numbers[place % len(numbers)], end)

    @rule(place=st.integers(0, 99))
    def a_caller_dies(self, place: int) -> None:
        numbers = list(self.world.open)
        if numbers:
            self.world.die(numbers[place % len(numbers)])

    @rule(name=st.sampled_from(["m0", "m1", "m4"]), out=st.booleans())
    def an_operator_acts(self, name: str, out: bool) -> None:  # noqa: FBT001 - hypothesis draws it
        (self.world.pool.disable if out else self.world.pool.enable)(name, self.world.at)
        self.world.hear()

    @rule(name=st.sampled_from(["m0", "m2"]), disabled=st.booleans(), password=st.sampled_from(["old", "new"]))
    def the_configuration_changes(self, name: str, disabled: bool, password: str) -> None:  # noqa: FBT001 - as above
        self.world.change(name, disabled=disabled, url=f"http://user:{password}@{name}")

    @rule(name=st.sampled_from(["m1", "m3"]))
    def a_member_goes_or_comes(self, name: str) -> None:
        self.world.remove_or_add(name)

    @invariant()
    def all_holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()


TestAnyOrder = AnyOrder.TestCase


def run(steps: int, *, seed: int, algorithm: Algorithm, concurrency: int) -> World:
    rng, world = Random(seed), World(seed, algorithm=algorithm, concurrency=concurrency)
    for step in range(steps):
        chance = rng.random()
        if chance < 0.42 and len(world.open) < 40:
            world.pick(rng.choice(DESTINATIONS), rng.choice(((), (), ("m0",), ("m1", "m2"))), trials_first=rng.random() < 0.7)
        elif chance < 0.85 and world.open:
            ends = ENDS if step // 5000 % 2 else (OK, OK, OK, *ENDS)
            world.finish(rng.choice(list(world.open)), rng.choice(ends))
        elif chance < 0.997:
            world.advance(rng.choice((0.001, 0.01, 0.05, 0.2, 1.0, 5.0)))
        else:
            something_rare(world, rng)
        if step % 500 == 0:
            world.check()
    return world


def something_rare(world: World, rng: Random) -> None:
    name = rng.choice(("m0", "m1", "m2"))
    chance = rng.random()
    if chance < 0.4:
        (world.pool.enable if rng.random() < 0.6 else world.pool.disable)(name, world.at)
        world.hear()
    elif chance < 0.7:
        world.change(name, disabled=rng.random() < 0.3, url=f"http://user:{rng.random()}@{name}")
    elif chance < 0.8:
        world.remove_or_add("m3")
    elif chance < 0.82 and world.open:
        world.die(rng.choice(list(world.open)))
    else:
        world.advance(400.0)


def saw_everything(world: World) -> bool:
    reasons = {reason for seat in world.pool.records.seats.values() for reason in seat.counters}
    return reasons >= {end.reason for end in ENDS if end.reason is not None} and world.noted > 1000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_random_run(algorithm: Algorithm) -> None:
    assert saw_everything(run(10_000, seed=1, algorithm=algorithm, concurrency=1))


@pytest.mark.long
@pytest.mark.parametrize(("algorithm", "concurrency"), [*((name, 1) for name in ALGORITHMS), ("least_connections", 2)])
def test_a_million_random_steps(algorithm: Algorithm, concurrency: int) -> None:
    assert saw_everything(run(1_000_000, seed=2, algorithm=algorithm, concurrency=concurrency))
