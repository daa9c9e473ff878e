"""How one client's requests pass through a pool: one call's way, member after member, and what each attempt came to.

The same for all SDKs; only how a member sends (a `send` that is passed in) differs. Nothing here knows an SDK's classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from cloudretry.core.decision import StopReason
from cloudretry.core.failover import DONE, Again, Exhausted, Spent
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.core.pool_snapshot import Unavailable
from cloudretry.core.tries import Reason
from cloudretry.egress.bypass import Bypass
from cloudretry.egress.ends import end_of
from cloudretry.egress.pool import EgressPool, Lease, Tries
from cloudretry.egress.pools import pool_of, show
from cloudretry.egress.record import Record
from cloudretry.egress.streamed import teller
from cloudretry.egress.ways import Ways
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.current import CURRENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cloudretry.core.machine import RetryMachine
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.core.tries import TryEnd
    from cloudretry.egress.pool import Answer

__all__ = ["Journey", "NoMember", "Passage"]

W = TypeVar("W", bound=Any)
A = TypeVar("A")

_NOBODYS_FAULT = frozenset({None, Reason.DESTINATION_STATUS, Reason.SLOW_BODY, Reason.CANCELLED})


class NoMember(Exception):  # noqa: N818 - no error of ours: each cloud's room makes the SDK's own of it
    """The call can't go out: no member is left (`Exhausted`), or none could be had from the start (`Unavailable`)."""

    def __init__(self, why: Exhausted | Unavailable) -> None:
        super().__init__(why)
        self.why = why

    @property
    def retry_at(self) -> datetime | None:
        """When (UTC) a member may be tried again; None: nothing comes back by itself."""
        soonest = self.why.soonest if isinstance(self.why, Unavailable) else None
        now = current_clock().wall()
        return None if soonest is None else datetime.fromtimestamp(now + soonest, timezone.utc)


@dataclass(slots=True)
class Journey:
    """One call's way through a pool, over all its attempts. Not shared between threads.

    Args:
        cut: told how reading a streamed body ended, where that fails after the call.
        waited_elsewhere: seconds that it has waited for members of another pool.
        member: through which the last try went; None: none could be had.
        end: how that try ended.
        last: what it came to, a response or an exception.
        stop: why the call must not go out again, whatever its settings say.
    """

    pool: EgressPool
    tries: Tries
    cut: Callable[[TryEnd], None] | None = None
    waited_elsewhere: float = 0.0
    member: str | None = None
    end: TryEnd | None = None
    last: Any = None
    stop: StopReason | None = None

    @property
    def waited(self) -> float:
        """Seconds that it has waited for members."""
        return self.waited_elsewhere + self.tries.waited

    @property
    def is_proxys(self) -> bool:
        """Whether the response that is handed over is a proxy's own, in the place of an answer."""
        return self.end is not None and self.end.reason not in _NOBODYS_FAULT

    def admitted(self, answer: Answer) -> Lease:
        """A member. Raises NoMember, or the error of the last try, where there is none for this call."""
        if isinstance(answer, Lease):
            self.member = answer.member.name
            return answer
        self.stop = StopReason.POOL_RETRIES if isinstance(answer, Spent) else StopReason.POOL_EXHAUSTED
        if isinstance(answer, Spent):
            raise self.last if isinstance(self.last, BaseException) else NoMember(Exhausted(answer.tried))
        if isinstance(answer, Unavailable):
            self.member, self.end, self.stop = None, None, StopReason.POOL_UNAVAILABLE
        raise NoMember(answer)

    def goes_on(self, lease: Lease, record: Record, answer: Any) -> bool:
        """End a try. True: the next member's turn. False: hand over what the try came to. Raises NoMember."""
        self.last, self.end = answer, end_of(record, answer, per_mib=self.pool.settings.slow.per_mib)
        step = lease.end(self.end)
        record.afterwards = lease.after if self.cut is None else partial(_both, lease.after, self.cut)
        if step is DONE:
            return False
        if isinstance(step, Again):
            return True
        if isinstance(step, Exhausted):
            self.admitted(step)
        if isinstance(step, Spent):
            self.stop = StopReason.POOL_RETRIES
        return False

    def seen(self, outcome: Outcome | None) -> Outcome | None:
        """What an attempt came to, now that it is known how far the request came; None: the provider answered.

        Once for each attempt: the next one may not come this way.
        """
        end, stop, is_at_fault = self.end, self.stop, self.is_proxys
        member = self.member
        self.begin()
        if outcome is None:
            if not is_at_fault and stop is None:
                return None
            outcome = Outcome(kind=Kind.TRANSIENT, wall=current_clock().wall())  # a proxy's page in the place of an answer
        if end is not None and end.reason is not None and is_at_fault:
            code = outcome.code or end.reason.value
            outcome = replace(outcome, kind=_kind(end), phase=end.phase, status=end.status or outcome.status, code=code)
        return replace(outcome, member=member, stop=stop or outcome.stop)

    def begin(self) -> None:
        """An attempt begins, or one that is over is forgotten."""
        self.member, self.end, self.last, self.stop = None, None, None, None


def _kind(end: TryEnd) -> Kind:
    if end.reason is Reason.CERTIFICATE:
        return Kind.FATAL
    return Kind.TRANSIENT if end.written else Kind.NOT_SENT


class Passage(Generic[W]):
    """A pool as one client uses it. Thread-safe.

    Args:
        make: what sends through one member.
        get: a complete exchange with a URL through one member, for a pool whose trials are such: given the member, the pool's
            settings, the URL, a record and the seconds that it may take; for `send_async` an async function.

    Attributes:
        nothing: what is raised where no member can be had, for those who import this module late or not at all.
    """

    nothing: ClassVar[type[NoMember]] = NoMember

    def __init__(self, pool: EgressPool, make: Callable[[Member, PoolSettings], W], get: Callable[..., Any]) -> None:
        self.pool = pool
        self._get = get
        self.ways: Ways[W] = Ways(lambda member: make(member, pool.settings))
        self._bypass = (pool.settings, Bypass(pool.settings.bypass))

    def skips(self, destination: str) -> bool:
        """Whether a destination is none of the pool's business."""
        settings, bypass = self._bypass
        if settings is not self.pool.settings:
            settings = self.pool.settings
            bypass = Bypass(settings.bypass)
            self._bypass = (settings, bypass)
        return bypass.covers(destination)

    def send(self, machine: RetryMachine, destination: str, send: Callable[[W, Record], A]) -> A:
        """Send one attempt, by one member after another as SPEC C1 has it. Raises what the last try did, or NoMember."""
        journey = self._journey(machine, destination)
        while True:
            answer = journey.tries.at_once(destination) or self._wait(journey, machine, destination)
            with journey.admitted(answer) as lease:
                if lease.probe is not None:
                    self._try_out(lease, lease.probe)
                    continue
                way, record = self._way(lease), Record()
                try:
                    response = send(way, record)
                except Exception as error:
                    if not journey.goes_on(lease, record, error):
                        raise
                else:
                    if not journey.goes_on(lease, record, response):
                        return response

    async def send_async(self, machine: RetryMachine, destination: str, send: Callable[[W, Record], Awaitable[A]]) -> A:
        """The async twin; cancelling ends it at once."""
        journey = self._journey(machine, destination)
        while True:
            answer = journey.tries.at_once(destination) or await self._wait_async(journey, machine, destination)
            with journey.admitted(answer) as lease:
                if lease.probe is not None:
                    await self._try_out_async(lease, lease.probe)
                    continue
                way, record = self._way(lease), Record()
                try:
                    response = await send(way, record)
                except Exception as error:
                    if not journey.goes_on(lease, record, error):
                        raise
                else:
                    if not journey.goes_on(lease, record, response):
                        return response

    def _wait(self, journey: Journey, machine: RetryMachine, destination: str) -> Answer:
        try:
            return journey.tries.acquire(destination, budget=_budget(machine), meanwhile=self._look_around)
        finally:
            machine.held = journey.waited

    async def _wait_async(self, journey: Journey, machine: RetryMachine, destination: str) -> Answer:
        try:
            return await journey.tries.acquire_async(destination, budget=_budget(machine), meanwhile=self._look_around)
        finally:
            machine.held = journey.waited

    def _way(self, lease: Lease) -> W:
        """Made anew where what it was made with may not hold any more."""
        settings = self.pool.settings
        return self.ways.of(lease.member, lease.rejections, settings.connect_timeout, settings.ca_bundle)

    def _look_around(self) -> None:
        """Whoever waits looks whether the configuration has changed, since an operator may have brought a member back.

        It also lets people see how many wait: where all do, nobody else would.
        """
        current = CURRENT.get()
        if current is not None:
            current.engine.look()
            pool_of(current.engine, self.pool.settings.name)
        show()

    def _try_out(self, lease: Lease, url: str) -> None:
        record, settings, answer = Record(), self.pool.settings, None
        try:
            answer = self._get(lease.member, settings, url, record, settings.probe.timeout)
        except Exception as error:  # noqa: BLE001 - any end tells of the member
            answer = error
        _judge(lease, record, answer)

    async def _try_out_async(self, lease: Lease, url: str) -> None:
        record, settings, answer = Record(), self.pool.settings, None
        try:
            answer = await self._get(lease.member, settings, url, record, settings.probe.timeout)
        except Exception as error:  # noqa: BLE001 - as above
            answer = error
        _judge(lease, record, answer)

    def _journey(self, machine: RetryMachine, destination: str) -> Journey:
        journey: Journey | None = machine.journey
        if journey is None or journey.pool is not self.pool:  # it may have become known whose call it is: see engine.rename
            call, before = machine.call, machine.held
            tries = self.pool.tries(call=str(call), key=call.account or destination)
            current = CURRENT.get()
            journey = machine.journey = Journey(self.pool, tries, None if current is None else teller(current), before)
        else:
            journey.begin()
        return journey


def _both(first: Callable[[TryEnd], None], second: Callable[[TryEnd], None], end: TryEnd) -> None:
    first(end)
    second(end)


def _judge(lease: Lease, record: Record, answer: Any) -> None:
    """End a probe. Raises what it came to where that says nothing of the member: the request could not be sent either."""
    end = end_of(record, answer)
    lease.end(end)
    if end.reason is Reason.CANCELLED:
        raise answer


def _budget(machine: RetryMachine) -> float:
    return max(0.0, machine.settings.time_budget - machine.waited)
