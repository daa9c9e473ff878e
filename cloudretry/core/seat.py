"""One member in its pool: its state, what goes through it, what is written down of it.

Mutable, and kept for the life of the process.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from math import log2
from typing import TYPE_CHECKING, Final

from cloudretry.core.member_health import Health, State
from cloudretry.core.trials import Trials

if TYPE_CHECKING:
    from cloudretry.core.member_changes import Transition
    from cloudretry.core.pool_settings import Member, Probe
    from cloudretry.core.ramp import Ramp
    from cloudretry.core.tries import Reason

__all__ = ["HISTORY", "Seat", "by_load", "by_time", "by_turn"]

HISTORY: Final = 32
"""Transitions that are kept of each member."""

_UNMEASURED: Final = 0.1  # seconds to a first byte, of a member that has not been used yet
_SMOOTHING: Final = 0.25  # the share of the newest measurement
_FADING: Final = 10.0  # seconds in which a measurement loses half of its weight against fresh ones


@dataclass(slots=True, eq=False)
class Seat:
    """A member and its record.

    Args:
        removed: it is no longer in the configuration; what goes through it may finish.
        turn: of round robin: how much work it has been given, by weight.
        response_time: seconds to the first byte, smoothed, as of `measured`.
    """

    member: Member
    health: Health
    measured: float
    removed: bool = False
    in_flight: int = 0
    answered: int = 0
    turn: float = 0.0
    response_time: float = _UNMEASURED
    ramp: Ramp | None = None
    trials: Trials = field(default_factory=Trials)
    counters: Counter[Reason] = field(default_factory=Counter)
    history: deque[Transition] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def open_at(self, now: float, probe: Probe) -> float | None:
        """When a request may pass, or when it is worth to ask again; `now` or earlier: at once; None: not by itself."""
        if self.removed:
            return None
        if self.health.state is State.PROBE_ALLOWED:
            return self.trials.free_at(now, probe)
        if self.health.state is not State.ELIGIBLE:
            return self.health.until
        return now if self.ramp is None else self.ramp.ready_at(now)

    def measure(self, first_byte: float, now: float) -> None:
        """Take in how long an answer took to begin."""
        self.response_time += _SMOOTHING * (first_byte - self.response_time)
        self.measured = now


def by_load(seat: Seat) -> float:
    """The rank of least_connections: requests in flight, by weight."""
    return seat.in_flight / seat.member.weight


def by_turn(seat: Seat) -> float:
    """The rank of round_robin."""
    return seat.turn


def by_time(seat: Seat) -> float:
    """The rank of least_response_time: the time that the requests in flight and one more would take, by weight.

    As a logarithm, to which the moment of measuring is added: so old measurements fade against fresh ones by half in every
    `_FADING` seconds, and a member that was slow is tried again, although nothing in the heap is touched.
    """
    return log2(max(seat.response_time, 1e-6) * (seat.in_flight + 1) / seat.member.weight) + seat.measured / _FADING
