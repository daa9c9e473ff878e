"""What is written down of each change of a member's state, and what listeners are told. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cloudretry.core.member_health import State
    from cloudretry.core.outcome import Phase
    from cloudretry.core.tries import Reason

__all__ = ["Actor", "Instant", "MemberChanged", "Transition"]


class Instant(NamedTuple):
    """One moment on two clocks, both in seconds: `monotonic` for deciding, `wall` (since the epoch) for showing."""

    monotonic: float
    wall: float


class Actor(str, Enum):
    """Who changed a state."""

    CALL = "call"  # a request that went through the member, by how it ended
    CLOCK = "clock"  # a deadline that passed
    OPERATOR = "operator"
    CONFIGURATION = "configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of state.

    Args:
        reason: why the member is withheld; on its way back, why it was.
        call: the call that caused it, where a call did.
        pause: seconds until it ends by itself; None: it doesn't.
        destination: it is the state of this pair, not of the whole member.
    """

    before: State
    after: State
    reason: Reason | None
    phase: Phase | None
    at: Instant
    by: Actor
    call: str | None = None
    pause: float | None = None
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """A member, or its way to one destination, has come into another state."""

    pool: str
    member: str
    transition: Transition
