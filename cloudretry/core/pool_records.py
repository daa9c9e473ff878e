"""What is known and written down of a pool's members. Pure; no record of a member is dropped for having failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cloudretry.core.effects import Effect, effect_of
from cloudretry.core.member_changes import Actor, Instant, MemberChanged, Transition
from cloudretry.core.member_health import (
    Failure,
    Health,
    Rules,
    State,
    coolings,
    failed,
    missed,
    proven,
    rejected,
    released,
    slowed,
    withheld,
)
from cloudretry.core.pairs import Pair, Pairs
from cloudretry.core.ramp import Ramp
from cloudretry.core.seat import Seat
from cloudretry.core.tries import Reason

if TYPE_CHECKING:
    from random import Random

    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.core.tries import TryEnd

__all__ = ["Grant", "Records"]

_HARMLESS = frozenset({Effect.PROVEN, Effect.NOTHING})


@dataclass(slots=True, eq=False)
class Grant:
    """One request that was admitted to a member.

    Args:
        number: counts all that the pool has admitted, from 1.
        judges_member: it is the trial of a member that is not eligible; `judges_pair`, of its way to the destination.
        probe: URL that is to be fetched in place of the request, and whose host the destination is.
        rejections: how often credentials have been rejected, or certificates not been trusted, by this member so far.
        available: out of how many members (S) it was picked, where that was asked.
    """

    number: int
    member: Member
    destination: str
    call: str | None
    judges_member: bool
    judges_pair: bool
    probe: str | None = None
    rejections: int = 0
    available: int = 0

    @property
    def trial(self) -> bool:
        """Whether somebody may wait for its end."""
        return self.judges_member or self.judges_pair


class Records:
    """Every member that was ever configured.

    Attributes:
        seats: by name, in the order in which they came.
        pairs: the ways to single destinations that have failed.
        granted: how many requests were admitted.
        changes: transitions that nobody has taken yet.
    """

    __slots__ = ("_rng", "changes", "granted", "pairs", "rules", "seats", "settings")

    def __init__(self, settings: PoolSettings, at: Instant, rng: Random) -> None:
        self.seats: dict[str, Seat] = {}
        self.pairs = Pairs()
        self.granted = 0
        self.changes: list[MemberChanged] = []
        self._rng = rng
        self.configure(settings, at)

    def configure(self, settings: PoolSettings, at: Instant) -> None:
        """Take up settings: members may be new, gone, changed, taken out or brought back."""
        before: PoolSettings = getattr(self, "settings", settings)
        self.settings = settings
        if settings.ca_bundle != before.ca_bundle:
            self._trust_again(at)
        self.rules = Rules(
            cooldown=settings.cooldown, successes=settings.probe.successes, slow=settings.slow.threshold, rng=self._rng
        )
        for member in settings.members:
            seat = self.seats.get(member.name)
            if seat is None:
                health = Health(since=at.monotonic)
                seat = self.seats[member.name] = Seat(replace(member, disabled=False), health, measured=at.monotonic)
            self._take_up(seat, member, at)
        names = {member.name for member in settings.members}
        for name, seat in self.seats.items():
            seat.removed = name not in names

    def judge(self, grant: Grant, end: TryEnd, at: Instant) -> None:
        """Draw the consequences of how a request ended. What began before the member was withheld has none."""
        seat = self.seats[grant.member.name]
        if grant.number <= seat.health.epoch:
            return
        effect = effect_of(end, seat.member, self.settings.slow, probe=grant.probe is not None)
        if effect is Effect.PROVEN and seat.health.spotless and not self.pairs.to(grant.destination):
            return
        failure = Failure(end.reason or Reason.SLOW_BODY, end.phase, at.monotonic, self.granted)
        if end.reason is not None or effect is Effect.SLOW:
            seat.counters[failure.reason] += 1
        cooled = self._judge_pair(effect, seat, grant, failure, at)
        health = self._judged(effect, seat.health, failure)
        if cooled:
            health = missed(health, grant.destination, failure, self.rules)
        if seat.ramp is not None and effect not in _HARMLESS:
            seat.ramp.slip(at.monotonic)
        self.change(seat, health, at, by=Actor.CALL, call=grant.call)

    def see_deadline(self, seat: Seat, at: Instant) -> None:
        """Let trials judge a member whose deadline has passed. It counts from then, whenever somebody asks."""
        until = seat.health.until
        if until is not None and until <= at.monotonic and not seat.removed:
            self.change(seat, released(seat.health, until), _earlier(at, until), by=Actor.CLOCK)

    def see_pair_deadline(self, pair: Pair, at: Instant) -> None:
        """The same for a pair."""
        until = pair.health.until
        if until is not None and until <= at.monotonic:
            self._change_pair(pair, released(pair.health, until), _earlier(at, until), by=Actor.CLOCK)

    def take_out(self, seat: Seat, at: Instant, *, by: Actor) -> None:
        """Withhold a member until somebody brings it back."""
        failure = Failure(Reason.OPERATOR, None, at.monotonic, self.granted)
        self.change(seat, withheld(seat.health, failure, until=None), at, by=by)

    def bring_back(self, seat: Seat, at: Instant, *, by: Actor) -> None:
        """Let trials judge a member that is withheld."""
        if seat.health.state in {State.DISABLED, State.COOLING}:
            self.change(seat, released(seat.health, at.monotonic), at, by=by)

    def change(self, seat: Seat, health: Health, at: Instant, *, by: Actor, call: str | None = None) -> None:
        """Give a member another health, and write down the transition if it is one."""
        before, seat.health = seat.health, health
        if (health.state, health.reason, health.until) == (before.state, before.reason, before.until):
            return
        seat.ramp = Ramp(at.monotonic) if health.state is State.ELIGIBLE else None
        self._note(seat, _transition(before, health, at, by, call))

    def _judged(self, effect: Effect, health: Health, failure: Failure) -> Health:
        match effect:
            case Effect.PROVEN:
                return proven(health, failure.now, self.rules)
            case Effect.SLOW:
                return slowed(health, failure, self.rules)
            case Effect.COOL_MEMBER:
                return failed(health, failure, self.rules)
            case Effect.REJECTED:
                return rejected(health, failure, self.rules)
            case Effect.WITHHOLD_MEMBER:
                return withheld(health, failure, until=failure.now + self.rules.cooldown.auth_recheck)
        return health

    def _judge_pair(self, effect: Effect, seat: Seat, grant: Grant, failure: Failure, at: Instant) -> bool:
        """Whether the pair is withheld now because its destination can't be reached."""
        pair = self.pairs.find(seat.member.name, grant.destination)
        if pair is not None and grant.number <= pair.health.epoch:
            return False
        match effect:
            case Effect.PROVEN | Effect.SLOW if pair is not None:
                self._change_pair(pair, proven(pair.health, failure.now, self.rules), at, by=Actor.CALL, call=grant.call)
                if pair.health.state is State.ELIGIBLE and not coolings(pair.health, failure.now, self.rules.cooldown):
                    self.pairs.forget(pair)
            case Effect.COOL_PAIR | Effect.WITHHOLD_PAIR:
                pair = self.pairs.failing(seat.member.name, grant.destination, failure.now)
                if effect is Effect.COOL_PAIR:
                    health = failed(pair.health, failure, self.rules)
                else:
                    health = withheld(pair.health, failure, until=failure.now + self.rules.cooldown.auth_recheck)
                self._change_pair(pair, health, at, by=Actor.CALL, call=grant.call)
                return health.state is State.COOLING
        return False

    def _change_pair(self, pair: Pair, health: Health, at: Instant, *, by: Actor, call: str | None = None) -> None:
        before, pair.health = pair.health, health
        if health.state is not before.state:
            seat = self.seats[pair.member]
            self._note(seat, _transition(before, health, at, by, call, destination=pair.destination))

    def _note(self, seat: Seat, transition: Transition) -> None:
        seat.history.append(transition)
        self.changes.append(MemberChanged(self.settings.name, seat.member.name, transition))

    def _take_up(self, seat: Seat, member: Member, at: Instant) -> None:
        before, seat.member = seat.member, member
        if (before.url, before.connect_to, before.direct) != (member.url, member.connect_to, member.direct):
            self._renew(seat, at)
        if member.disabled and not before.disabled:
            self.take_out(seat, at, by=Actor.CONFIGURATION)
        elif before.disabled and not member.disabled and seat.health.reason is Reason.OPERATOR:
            self.bring_back(seat, at, by=Actor.CONFIGURATION)

    def _trust_again(self, at: Instant) -> None:
        """Other certificates are trusted now: what was withheld for one that was not may be tried."""
        for seat in self.seats.values():
            if seat.health.reason is Reason.CERTIFICATE:
                self.bring_back(seat, at, by=Actor.CONFIGURATION)
        for pair in self.pairs:
            if pair.health.reason is Reason.CERTIFICATE and pair.health.state is State.DISABLED:
                self._change_pair(pair, released(pair.health, at.monotonic), at, by=Actor.CONFIGURATION)

    def _renew(self, seat: Seat, at: Instant) -> None:
        """It leads elsewhere, or with other credentials: what was known of it does not hold, and what is under way is late."""
        self.pairs.forget_member(seat.member.name)
        if seat.health.reason is not Reason.OPERATOR:
            self.bring_back(seat, at, by=Actor.CONFIGURATION)
        state, since, reason, phase = seat.health.state, seat.health.since, seat.health.reason, seat.health.phase
        seat.health = Health(state=state, since=since, reason=reason, phase=phase, epoch=self.granted)


def _transition(
    before: Health, after: Health, at: Instant, by: Actor, call: str | None, destination: str | None = None
) -> Transition:
    why = after if after.reason is not None else before
    return Transition(
        before=before.state,
        after=after.state,
        reason=why.reason,
        phase=why.phase,
        at=at,
        by=by,
        call=call,
        pause=None if after.until is None else after.until - at.monotonic,
        destination=destination,
    )


def _earlier(at: Instant, monotonic: float) -> Instant:
    return Instant(monotonic, at.wall - (at.monotonic - monotonic))
