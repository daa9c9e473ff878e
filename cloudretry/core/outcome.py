"""What an attempt came to, in words that both clouds share. Values only: adapters make them, the machine reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from cloudretry.core.headers import NO_HEADERS, Headers

if TYPE_CHECKING:
    from cloudretry.core.decision import StopReason

__all__ = ["Kind", "Outcome", "Phase", "is_absent", "is_denied"]


class Kind(str, Enum):
    """The five things that an attempt can come to."""

    OK = "ok"
    THROTTLED = "throttled"  # the provider said: too much, too fast
    TRANSIENT = "transient"  # broken on the way or at the server, which may have acted on the request
    NOT_SENT = "not_sent"  # broken before a byte of the request was written
    FATAL = "fatal"  # the same request would fail again


class Phase(str, Enum):
    """Where an attempt was when it ended, in the order in which a request passes through them."""

    DNS = "dns"
    CONNECT = "connect"
    PROXY_HANDSHAKE = "proxy_handshake"
    TLS = "tls"
    SEND = "send"
    WAIT = "wait"
    BODY = "body"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One attempt's end.

    Args:
        member: of the egress pool, through which it went.
        stop: the adapter knows already that the call must end here, and why; whatever the settings say.
        wall: the wall clock at the end (epoch seconds), for showing and for HTTP dates alone.
    """

    kind: Kind
    phase: Phase = Phase.DONE
    status: int | None = None
    code: str | None = None
    message: str | None = None
    request_id: str | None = None
    member: str | None = None
    headers: Headers = NO_HEADERS
    exception: BaseException | None = field(default=None, compare=False)
    stop: StopReason | None = None
    wall: float = 0.0


_DENIALS = (
    "accessdenied",
    "authorization",
    "blocked",
    "expired",
    "forbidden",
    "invalidclienttokenid",
    "notauthorized",
    "optinrequired",
    "signature",
    "subscriptionrequired",
    "unauthorized",
    "unrecognizedclient",
)
"""What codes of denials have in common, where their status does not tell: AccessDeniedException comes with 400."""
_ABSENCES = ("doesnotexist", "nosuch", "notfound")
"""As above, of things that are not there."""


def is_denied(outcome: Outcome) -> bool:
    """Whether the provider refused a call because whoever made it may not."""
    code = (outcome.code or "").lower()
    return outcome.status in {401, 403} or any(word in code for word in _DENIALS)


def is_absent(outcome: Outcome) -> bool:
    """Whether the provider refused a call because what it is about is not there: that is an answer."""
    code = (outcome.code or "").lower().replace(".", "")
    return outcome.status == 404 or any(word in code for word in _ABSENCES)  # noqa: PLR2004 - HTTP's
