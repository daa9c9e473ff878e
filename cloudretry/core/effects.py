"""What the end of a try means for the member it went through: the table of SPEC B1, once."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from cloudretry.core.outcome import Phase
from cloudretry.core.tries import Hop, Reason

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member, Slow
    from cloudretry.core.tries import TryEnd

__all__ = ["Effect", "effect_of"]


class Effect(Enum):
    """What follows for the member, or for its pair with the destination."""

    PROVEN = "proven"  # the member did its work, whatever the destination said
    NOTHING = "nothing"  # says nothing of the member
    COOL_MEMBER = "cool_member"
    COOL_PAIR = "cool_pair"
    WITHHOLD_MEMBER = "withhold_member"
    WITHHOLD_PAIR = "withhold_pair"
    REJECTED = "rejected"  # the credentials
    SLOW = "slow"


_BY_REASON = {
    Reason.DESTINATION_STATUS: Effect.PROVEN,
    Reason.CANCELLED: Effect.NOTHING,
    Reason.OPERATOR: Effect.NOTHING,
    Reason.AUTH_REJECTED: Effect.REJECTED,
    Reason.FORBIDDEN: Effect.WITHHOLD_PAIR,
    Reason.TUNNEL_REFUSED: Effect.COOL_PAIR,
    Reason.SLOW_BODY: Effect.SLOW,
}
"""Where the reason alone decides."""


def effect_of(end: TryEnd, member: Member, slow: Slow, *, probe: bool = False) -> Effect:
    """What follows from the end of a try through `member`. `probe`: it was a configured one, which must succeed as a whole."""
    if end.reason is None:
        late = slow.first_byte is not None and end.first_byte is not None and end.first_byte > slow.first_byte
        return Effect.SLOW if late else Effect.PROVEN
    effect = _BY_REASON.get(end.reason) or _of_lost_connection(end, member)
    lenient = effect in {Effect.NOTHING, Effect.COOL_PAIR, Effect.WITHHOLD_PAIR}
    return Effect.COOL_MEMBER if probe and lenient and end.reason is not Reason.CANCELLED else effect


def _of_lost_connection(end: TryEnd, member: Member) -> Effect:
    at_the_member = end.hop is Hop.MEMBER and not member.direct
    if end.reason is Reason.CERTIFICATE:  # an address shows that of the destination, which is for this one alone
        return Effect.WITHHOLD_MEMBER if at_the_member and member.connect_to is None else Effect.WITHHOLD_PAIR
    return Effect.COOL_MEMBER if at_the_member else _beyond_the_member(end, member)


def _beyond_the_member(end: TryEnd, member: Member) -> Effect:
    """A lost connection that is not the member's fault for sure."""
    if not end.written:
        return Effect.COOL_PAIR
    if member.direct or (end.reused and end.phase is not Phase.BODY):  # nobody is in between; or its idle timer closed it
        return Effect.NOTHING
    return Effect.COOL_PAIR
