"""An egress pool as transports use it; core/pool.py and core/failover.py decide.

One call's way through it is a Tries: `acquire` a lease, send, `end` it, and round again as long as it says so.
"""

from __future__ import annotations

from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final, TypeAlias

from cloudretry.core.failover import AGAIN, DONE, Exhausted, Failover, Spent, Step
from cloudretry.core.outcome import Phase
from cloudretry.core.pool import Wanted
from cloudretry.core.tries import Reason, TryEnd
from cloudretry.egress.guard import Guard
from cloudretry.egress.waiting import AsyncBell, ThreadBell
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from cloudretry.core.member_changes import MemberChanged
    from cloudretry.core.pool_records import Grant
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.core.pool_snapshot import PoolSnapshot, Unavailable
    from cloudretry.core.waiting_line import Waiter

__all__ = ["Answer", "EgressPool", "Lease", "Tries"]

Answer: TypeAlias = "Lease | Unavailable | Exhausted | Spent"

_GLANCE: Final = 1.0  # seconds
_CANCELLED: Final = TryEnd(phase=Phase.CONNECT, reason=Reason.CANCELLED)


class EgressPool:
    """The members of a pool, shared by all clients of a process. Thread-safe, and safe to use from any event loop.

    Args:
        tell: told of each change of a member's state, by the thread that caused or saw it. It must not raise.
    """

    def __init__(
        self, settings: PoolSettings, *, tell: Callable[[MemberChanged], object] | None = None, rng: Random | None = None
    ) -> None:
        self._guard = Guard(settings, tell, rng or SystemRandom())  # forked workers must not draw the same pauses

    @property
    def settings(self) -> PoolSettings:
        """What holds now."""
        return self._guard.settings

    def tries(self, *, call: str | None = None, key: str | None = None) -> Tries:
        """Begin a call. `call` names it in histories; `key` is what the algorithm `hash` goes by: an account or a host."""
        return Tries(self._guard, call, key)

    def snapshot(self) -> PoolSnapshot:
        """What the pool looks like now."""
        return self._guard.snapshot()

    def disable(self, name: str) -> None:
        """Take a member out; what goes through it may finish. Raises KeyError for an unknown name."""
        self._guard.change(lambda pool, at: pool.disable(name, at))

    def enable(self, name: str) -> None:
        """Let a trial judge a member that is withheld. Raises KeyError for an unknown name."""
        self._guard.change(lambda pool, at: pool.enable(name, at))

    def reconfigure(self, settings: PoolSettings) -> None:
        """Take up other settings; members that are not among them drain, and their records stay."""
        self._guard.change(lambda pool, at: pool.reconfigure(settings, at))


class Tries:
    """The tries of one call, over all its attempts. Not shared between threads.

    Attributes:
        failover: what the call has tried.
        waited: seconds that it has waited for members.
    """

    __slots__ = ("_call", "_guard", "_held", "_key", "_trials_first", "failover", "waited")

    def __init__(self, guard: Guard, call: str | None, key: str | None) -> None:
        settings = guard.settings
        self.failover = Failover(settings.retries, settings.exhausted_answer)
        self._guard = guard
        self._call = call
        self._key = key
        self._trials_first = True
        self._held: Lease | None = None
        self.waited = 0.0

    def at_once(self, destination: str) -> Lease | None:
        """A member for the next try, if one can be had without waiting."""
        if self._held is not None:
            held, self._held = self._held, None
            held.kept = False
            return held
        grant = self._guard.ask(self._wanted(destination), self._call, first=not self.failover.begun)
        return None if grant is None else self._lease(grant)

    def acquire(
        self, destination: str, *, budget: float | None = None, meanwhile: Callable[[], object] | None = None
    ) -> Answer:
        """A member for the next try. Waits for one at most `budget` seconds, where that is allowed (SPEC B4).

        `meanwhile` is called about once a second while it waits.
        """
        lease = self.at_once(destination)
        if lease is not None:
            return lease
        bell = ThreadBell()
        waiter = self._join(destination, bell.ring, budget)
        try:
            while isinstance(found := self._guard.look(waiter), float):
                bell.wait(found if meanwhile is None else min(found, _GLANCE))
                if meanwhile is not None:
                    meanwhile()
        finally:
            self._leave(waiter)
        return self._answer(found, waiter)

    async def acquire_async(
        self, destination: str, *, budget: float | None = None, meanwhile: Callable[[], object] | None = None
    ) -> Answer:
        """The asyncio twin of `acquire`; cancelling the task ends the wait at once."""
        lease = self.at_once(destination)
        if lease is not None:
            return lease
        bell = AsyncBell()
        waiter = self._join(destination, bell.ring, budget)
        try:
            while isinstance(found := self._guard.look(waiter), float):
                await bell.wait(found if meanwhile is None else min(found, _GLANCE))
                if meanwhile is not None:
                    meanwhile()
        finally:
            self._leave(waiter)
        return self._answer(found, waiter)

    def ended(self, lease: Lease, end: TryEnd) -> Step:
        """Decide after a try; `Lease.end` calls it."""
        if end.reason is not None and lease.trial:
            self._trials_first = False  # one call is not made to suffer for all members that are down
        if lease.probe is not None:
            return AGAIN
        step = self.failover.ended(lease.member.name, end)
        if self.failover.afresh:
            self._held, lease.kept, lease.fresh = lease, True, True
        return step

    def _wanted(self, destination: str) -> Wanted:
        return Wanted(destination, self.failover.tried, self._key, self._trials_first)

    def _join(self, destination: str, ring: Callable[[], None], budget: float | None) -> Waiter:
        patient = not self.failover.begun and self._guard.settings.when_unavailable == "wait"
        return self._guard.join(self._wanted(destination), self._call, ring, budget=budget, patient=patient)

    def _leave(self, waiter: Waiter) -> None:
        self.waited += current_clock().monotonic() - waiter.since
        late = self._guard.leave(waiter)
        if late is not None:  # it came as the wait was cancelled
            self._guard.finish(late, _CANCELLED)

    def _answer(self, found: Grant | None, waiter: Waiter) -> Answer:
        if found is not None:
            return self._lease(found)
        if self.failover.tried:
            return self.failover.ran_out()
        return self._guard.unavailable(waiter.wanted, since=waiter.since)

    def _lease(self, grant: Grant) -> Lease:
        if grant.probe is None and not self.failover.begun:
            self.failover.begin(grant.available)
        return Lease(self._guard, self, grant)


class Lease:
    """One member for one try. Leaving it without having told its end counts as cancelled.

    Attributes:
        member: to send through.
        probe: URL of a configured probe that is to be fetched in place of the request; None: send the request.
        fresh: a connection that was kept alive must not be used.
        rejections: how often credentials were rejected or certificates not trusted; after one more they are to be read again.
        kept: the next try is given this lease again.
    """

    __slots__ = ("_grant", "_guard", "_over", "_tries", "fresh", "kept", "member", "probe", "rejections")

    def __init__(self, guard: Guard, tries: Tries, grant: Grant) -> None:
        self.member: Member = grant.member
        self.probe = grant.probe
        self.rejections = grant.rejections
        self.fresh = False
        self.kept = False
        self._grant = grant
        self._guard = guard
        self._tries = tries
        self._over = False

    @property
    def trial(self) -> bool:
        """Whether it judges if the member, or its way to the destination, has recovered."""
        return self._grant.trial

    def end(self, end: TryEnd) -> Step:
        """Tell how the try ended, once, and hear what follows. Never blocks; the same for asyncio."""
        if self._over:
            return DONE
        step = self._tries.ended(self, end)
        if not self.kept:
            self._over = True
            self._guard.finish(self._grant, end)
        return step

    def after(self, end: TryEnd) -> None:
        """Tell what became known after the end, such as a streamed body that was cut short. The call is not affected."""
        self._guard.judge(self._grant, end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not (self.kept or self._over):
            self.end(_CANCELLED)
