"""One try of one pool member: how it ended, and at whose door. Values only: the recorders at the connections make them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from cloudretry.core.outcome import Phase

__all__ = ["NOTHING_WRITTEN", "Hop", "Reason", "TryEnd"]

NOTHING_WRITTEN = frozenset({Phase.DNS, Phase.CONNECT, Phase.PROXY_HANDSHAKE, Phase.TLS})
"""The phases in which no byte of the request has left: whatever it is, it may go out again."""


class Reason(str, Enum):
    """What happened to a member. The phase tells where."""

    UNRESOLVED = "unresolved"  # its name, or the destination's, is not known
    REFUSED = "refused"
    RESET = "reset"  # by RST, or closed without a word
    TIMEOUT = "timeout"
    AUTH_REJECTED = "auth_rejected"  # the proxy does not take our credentials
    TUNNEL_REFUSED = "tunnel_refused"  # the proxy can't reach the destination
    FORBIDDEN = "forbidden"  # the proxy does not let us go to this destination
    CERTIFICATE = "certificate"  # not trusted
    PROTOCOL_ERROR = "protocol_error"  # an answer that is none, or an alert in the TLS handshake
    SLOW_BODY = "slow_body"
    DESTINATION_STATUS = "destination_status"
    CANCELLED = "cancelled"
    OPERATOR = "operator"


class Hop(str, Enum):
    """At whose door it happened."""

    MEMBER = "member"  # on the way to the proxy or the address, in its TLS, or in what it said of itself
    DESTINATION = "destination"  # beyond the member


_ANSWERED = frozenset({None, Reason.DESTINATION_STATUS})


class TryEnd(NamedTuple):
    """How a try ended.

    Args:
        phase: where it was; `DONE` where there is an answer.
        reason: why it failed; None where the destination answered, whatever it said.
        status: of the answer, or the proxy's (407, 403, 502 on CONNECT).
        reused: it began on a connection that was kept alive.
        first_byte: seconds from the last byte written to the first byte of the answer.
    """

    phase: Phase
    hop: Hop = Hop.DESTINATION
    reason: Reason | None = None
    status: int | None = None
    reused: bool = False
    first_byte: float | None = None

    @property
    def answered(self) -> bool:
        """Whether the destination answered, whatever it said: the member did its work."""
        return self.reason in _ANSWERED

    def __str__(self) -> str:
        """`refused (connect)`, `forbidden (proxy_handshake, 403)`."""
        what = "answered" if self.reason is None else self.reason.value
        where = self.phase.value if self.status is None else f"{self.phase.value}, {self.status}"
        return f"{what} ({where})"

    @property
    def written(self) -> bool:
        """Whether the server may have seen something of the request."""
        return self.phase not in NOTHING_WRITTEN
