"""Those who wait for a member: first come, first served, and never released as a crowd. Pure: time is passed in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cloudretry.core.ramp import STEEPEST, WINDOW, Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudretry.core.member_changes import Instant
    from cloudretry.core.pool import Pool, Wanted
    from cloudretry.core.pool_records import Grant

__all__ = ["Waiter", "WaitingLine"]

_SHORTEST_PAUSE: Final = 0.001
"""Seconds; a clock that rounds must not make anybody spin."""


@dataclass(slots=True, eq=False)
class Waiter:
    """One call that waits.

    Args:
        until: when its budget ends, monotonic seconds.
        patient: it waits for members that are withheld; otherwise only for those that are usable in a moment.
        wake: makes it look again; must not block.
        grant: what it was given.
    """

    wanted: Wanted
    call: str | None
    since: float
    until: float
    patient: bool
    wake: Callable[[], None]
    number: int = 0
    grant: Grant | None = None


class WaitingLine:
    """One line for each thing wanted, since a dead destination must not hold up the others; the longest waiting first.

    Whoever waits looks again when its `pause` is over. It is then that all are served whose time has come, in their order.
    """

    __slots__ = ("_lines", "_number", "_pace")

    def __init__(self) -> None:
        self._lines: dict[tuple[str, tuple[str, ...]], deque[Waiter]] = {}
        self._pace = Pace()
        self._number = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def must_join(self, wanted: Wanted, now: float) -> bool:
        """Whether a newcomer, after all were served who could be, must stand behind those who are left.

        It need not where they want something else, unless it is the pace that holds them.
        """
        return _line_of(wanted) in self._lines or (bool(self._lines) and self._pace.ready_at(now) > now)

    def join(self, waiter: Waiter) -> None:
        """Stand at the end."""
        self._number += 1
        waiter.number = self._number
        self._lines.setdefault(_line_of(waiter.wanted), deque()).append(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Go, with a grant or without; the next one, if any, has to look again."""
        name = _line_of(waiter.wanted)
        line = self._lines.get(name)
        if line is None or waiter not in line:
            return
        first = line[0] is waiter
        line.remove(waiter)
        if not line:
            del self._lines[name]
        elif first:
            line[0].wake()

    def serve(self, pool: Pool, at: Instant) -> None:
        """Give members to those who have waited longest, as quickly as the pace allows, and wake them."""
        blocked: set[tuple[str, tuple[str, ...]]] = set()
        while pool.any_open(at) and self._pace.ready_at(at.monotonic) <= at.monotonic:
            waiter = min(self._heads(blocked), key=lambda waiter: waiter.number, default=None)
            if waiter is None:
                return
            waiter.grant = pool.pick(waiter.wanted, at, waiter.call, count=True)
            if waiter.grant is None:
                blocked.add(_line_of(waiter.wanted))
                continue
            self._pace.begin(at.monotonic)
            self.leave(waiter)
            waiter.wake()

    def wake(self) -> None:
        """Something has changed other than by the passing of time: let the first of each line look again."""
        for line in self._lines.values():
            line[0].wake()

    def pause(self, waiter: Waiter, pool: Pool, at: Instant) -> float | None:
        """Seconds after which somebody who was not served looks again; None: there is nothing to wait for."""
        now, paced_until = at.monotonic, self._pace.ready_at(at.monotonic)
        outlook = pool.outlook(waiter.wanted, at)
        if now >= waiter.until:
            return None
        if not (outlook.ramping or paced_until > now):
            in_time = outlook.tested or (outlook.soonest is not None and outlook.soonest <= waiter.until)
            if not (waiter.patient and in_time):
                return None
        moment = max(paced_until, now if outlook.soonest is None else outlook.soonest)
        moment += self._before(waiter) // STEEPEST * WINDOW
        return max(_SHORTEST_PAUSE, min(moment, waiter.until) - now)

    def _heads(self, blocked: set[tuple[str, tuple[str, ...]]]) -> Iterator[Waiter]:
        return (line[0] for name, line in self._lines.items() if name not in blocked)

    def _before(self, waiter: Waiter) -> int:
        """How many of its own line are served before it."""
        return self._lines[_line_of(waiter.wanted)].index(waiter)


def _line_of(wanted: Wanted) -> tuple[str, tuple[str, ...]]:
    return wanted.destination, wanted.tried
