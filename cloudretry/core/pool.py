"""One egress pool: who may be used, who is picked, and what follows from how it went (SPEC B, C2).

Pure: time and randomness are passed in, and deadlines that have passed are seen when somebody asks. Not thread-safe:
egress/guard.py sees to that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cloudretry.core.balancing import Balancer
from cloudretry.core.lazy_heap import LazyHeap
from cloudretry.core.member_changes import Actor, Instant, MemberChanged
from cloudretry.core.member_health import State
from cloudretry.core.pool_records import Grant, Records
from cloudretry.core.tries import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from cloudretry.core.pairs import Pair
    from cloudretry.core.pool_settings import PoolSettings
    from cloudretry.core.seat import Seat
    from cloudretry.core.tries import TryEnd

__all__ = ["Outlook", "Pool", "Wanted"]


class Wanted(NamedTuple):
    """What a call wants of a pool.

    Args:
        destination: host, or host and port.
        tried: names of members that it must not get.
        key: of the algorithm `hash`: what belongs together.
        trials_first: it may be a trial although others are eligible; a call that was one, and failed, would rather not.
    """

    destination: str
    tried: tuple[str, ...] = ()
    key: str | None = None
    trials_first: bool = True


@dataclass(frozen=True, slots=True)
class Outlook:
    """When something may become available where nothing is.

    Args:
        soonest: monotonic seconds; None: nothing comes back by itself.
        ramping: a member that has just recovered admits more in a moment.
        tested: a trial is under way, whose end may come at any time.
    """

    soonest: float | None
    ramping: bool
    tested: bool


class Pool:
    """Members and what goes through them. Picking costs the logarithm of their number at most.

    It costs more for a destination that many members can't reach: as much as there are such members.

    Attributes:
        settings: what holds now.
        records: what is known of its members.
    """

    __slots__ = ("_balancer", "_deadlines", "_probe", "_ramping", "_tested", "_usable", "records", "settings")

    def __init__(self, settings: PoolSettings, at: Instant, rng: Random) -> None:
        self.settings = settings
        self.records = Records(settings, at, rng)
        self._arrange(at)

    def reconfigure(self, settings: PoolSettings, at: Instant) -> None:
        """Take up other settings. What is under way goes on; members that are gone are not picked, and their records stay."""
        self.settings = settings
        self.records.configure(settings, at)
        self._arrange(at)

    def pick(self, wanted: Wanted, at: Instant, call: str | None = None, *, count: bool = False) -> Grant | None:
        """Admit a request to the member whose turn it is, if one can be used. `finish` must follow. `count`: S is asked."""
        self.see_deadlines(at)
        pairs = self.records.pairs.to(wanted.destination)
        available = self._count(wanted, pairs, at) if count else 0
        allowed = self._filter(wanted, pairs, at) if pairs or wanted.tried else None
        seat = self._balancer.pick(wanted.key, allowed, trials_first=wanted.trials_first)
        return None if seat is None else self._admit(seat, wanted.destination, at, call, available)

    def any_open(self, at: Instant) -> bool:
        """Whether any member would admit a request now, to whatever destination."""
        self.see_deadlines(at)
        return bool(self._balancer)

    def available(self, wanted: Wanted, at: Instant) -> int:
        """S: how many members could be used. One that is just recovering counts, even if it admits nobody for a moment."""
        self.see_deadlines(at)
        return self._count(wanted, self.records.pairs.to(wanted.destination), at)

    def finish(self, grant: Grant, end: TryEnd, at: Instant) -> None:
        """A request has ended; to be called once for each grant."""
        seat = self.records.seats[grant.member.name]
        seat.in_flight -= 1
        if grant.judges_member:
            seat.trials.give_back(grant.number)
        pair = self.records.pairs.find(grant.member.name, grant.destination) if grant.judges_pair else None
        if pair is not None:
            pair.trials.give_back(grant.number)
        if end.answered:
            seat.answered += 1
            if end.first_byte is not None:
                seat.measure(end.first_byte, at.monotonic)
        self.records.judge(grant, end, at)
        self._settle(seat, at)

    def judge(self, grant: Grant, end: TryEnd, at: Instant) -> None:
        """Draw the consequences of what became known of a request, be it after its end."""
        self.records.judge(grant, end, at)
        self._settle(self.records.seats[grant.member.name], at)

    def outlook(self, wanted: Wanted, at: Instant) -> Outlook:
        """When it is worth to ask again, for a call that could not be served."""
        self.see_deadlines(at)
        tried = wanted.tried
        first = self._deadlines.first(None if not tried else lambda seat: seat.member.name not in tried)
        moments = [] if first is None else [first[0]]
        tested = any(name not in tried for name in self._tested)
        for name, pair in self.records.pairs.to(wanted.destination).items():
            opens = pair.open_at(at.monotonic, self._probe)
            if name not in tried and name in self._usable and opens is not None and opens > at.monotonic:
                moments.append(opens)
                tested = tested or pair.health.state is State.PROBE_ALLOWED
        return Outlook(min(moments, default=None), any(name not in tried for name in self._ramping), tested)

    def disable(self, name: str, at: Instant) -> None:
        """An operator takes a member out. Raises KeyError for an unknown name."""
        seat = self.records.seats[name]
        self.records.take_out(seat, at, by=Actor.OPERATOR)
        self._settle(seat, at)

    def enable(self, name: str, at: Instant) -> None:
        """An operator lets trials judge a member that is withheld. Raises KeyError for an unknown name."""
        seat = self.records.seats[name]
        self.records.bring_back(seat, at, by=Actor.OPERATOR)
        self._settle(seat, at)

    def take_changes(self) -> Sequence[MemberChanged]:
        """What has changed since this was last asked."""
        if not self.records.changes:
            return ()
        changes, self.records.changes = self.records.changes, []
        return changes

    def forget_requests(self, at: Instant) -> None:
        """Nothing is under way: this is a fork, and all requests are the other process's."""
        for seat in self.records.seats.values():
            seat.in_flight = 0
            seat.trials.forget()
        for pair in self.records.pairs:
            pair.trials.forget()
        self._arrange(at)

    def see_deadlines(self, at: Instant) -> None:
        """Let every deadline that has passed take effect."""
        while self._deadlines.smallest <= at.monotonic:
            first = self._deadlines.first()
            if first is None or first[0] > at.monotonic:
                return
            self._deadlines.drop(first[1])
            self._settle(first[1], at)

    def _arrange(self, at: Instant) -> None:
        seats = self.records.seats.values()
        self._probe = self.settings.probe
        self._balancer = Balancer(self.settings.algorithm, (seat for seat in seats if not seat.removed))
        self._deadlines: LazyHeap[Seat] = LazyHeap()
        self._usable: set[str] = set()  # what S counts
        self._ramping: set[str] = set()  # of those, the ones that must wait for a moment
        self._tested: set[str] = set()  # all their places for trials are taken
        for seat in seats:
            self._settle(seat, at)

    def _settle(self, seat: Seat, at: Instant) -> None:
        """Put a member where it belongs, after anything about it may have changed, be it by the passing of time."""
        if seat.ramp is None and seat.health.state is State.ELIGIBLE and seat.member.name in self._usable:
            self._balancer.put(seat, on_trial=False)  # nothing but its rank, as nearly always
            return
        self.records.see_deadline(seat, at)
        if seat.ramp is not None and seat.ramp.most(at.monotonic) is None:
            seat.ramp = None
        on_trial = seat.health.state is State.PROBE_ALLOWED
        opens = seat.open_at(at.monotonic, self._probe)
        is_open = opens is not None and opens <= at.monotonic
        if is_open:
            self._balancer.put(seat, on_trial=on_trial)
        else:
            self._balancer.drop(seat)
        if is_open or opens is None:
            self._deadlines.drop(seat)
        else:
            self._deadlines.put(seat, opens)
        eligible = seat.health.state is State.ELIGIBLE and not seat.removed
        name = seat.member.name
        _keep(self._usable, name, there=eligible or (on_trial and is_open and self._probe.kind == "request"))
        _keep(self._ramping, name, there=eligible and not is_open)
        _keep(self._tested, name, there=on_trial and not is_open and not seat.removed)

    def _admit(self, seat: Seat, destination: str, at: Instant, call: str | None, available: int) -> Grant:
        self.records.granted += 1
        number, judges_member = self.records.granted, seat.health.state is State.PROBE_ALLOWED
        url = self._probe.url if judges_member and self._probe.kind == "https_get" else None
        if url is not None:
            destination = url.partition("://")[2].partition("/")[0].lower()
        pair = self.records.pairs.find(seat.member.name, destination)
        judges_pair = pair is not None and pair.health.state is State.PROBE_ALLOWED
        if judges_member:
            seat.trials.take(number, at.monotonic, self._probe)
        if pair is not None and judges_pair:
            pair.trials.take(number, at.monotonic, self._probe)
        if seat.ramp is not None:
            seat.ramp.begin(at.monotonic)
        seat.in_flight += 1
        self._settle(seat, at)
        rejections = seat.counters[Reason.AUTH_REJECTED] + seat.counters[Reason.CERTIFICATE] if seat.counters else 0
        return Grant(number, seat.member, destination, call, judges_member, judges_pair, url, rejections, available)

    def _count(self, wanted: Wanted, pairs: Mapping[str, Pair], at: Instant) -> int:
        if not pairs and not wanted.tried:
            return len(self._usable)
        lost = {*wanted.tried, *(name for name, pair in pairs.items() if not self._passes(pair, at))}
        return len(self._usable) - len(lost & self._usable)

    def _filter(self, wanted: Wanted, pairs: Mapping[str, Pair], at: Instant) -> Callable[[Seat], bool]:
        """Which members the call may get."""
        tried = wanted.tried

        def allowed(seat: Seat) -> bool:
            name = seat.member.name
            pair = pairs.get(name)
            return name not in tried and (pair is None or self._passes(pair, at))

        return allowed

    def _passes(self, pair: Pair, at: Instant) -> bool:
        self.records.see_pair_deadline(pair, at)
        opens = pair.open_at(at.monotonic, self._probe)
        return opens is not None and opens <= at.monotonic


def _keep(names: set[str], name: str, *, there: bool) -> None:
    if there:
        names.add(name)
    else:
        names.discard(name)
