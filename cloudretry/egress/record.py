"""What happens to one try, noted by the connections while it happens. No decision is made here.

A record belongs to one try and reaches the connections through the context (`CURRENT`), which follows threads' and tasks' own.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from cloudretry.core.tries import Hop

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudretry.core.outcome import Phase
    from cloudretry.core.tries import TryEnd

__all__ = ["CURRENT", "Record"]


class Record:
    """One try. Not thread-safe; it needs no lock, since one thread or task at a time works at a try.

    Attributes:
        phase: where the try is; None as long as no connection of ours was asked.
        hop: at whose door it is.
        proxied: it goes through a proxy; `forwarded`: which reads the request itself, instead of a tunnel.
        reused: it began on a connection that was kept alive.
        status: of the proxy, where it did not open the tunnel.
        reply: of the SOCKS proxy, where it did not: 1 to 8, or -1 where it did not take our credentials.
        challenge: what the proxy says in Proxy-Authenticate.
        error: what ended it at the connection, before an SDK made its own error of it.
        sent_at: monotonic seconds when the last byte was written.
        first_byte: seconds from then to the answer.
        afterwards: told how it really ended, where that comes out while the caller reads a streamed body.
    """

    __slots__ = (
        "afterwards",
        "challenge",
        "error",
        "first_byte",
        "forwarded",
        "hop",
        "phase",
        "proxied",
        "reply",
        "reused",
        "sent_at",
        "status",
    )

    def __init__(self) -> None:
        self.phase: Phase | None = None
        self.hop = Hop.DESTINATION
        self.proxied = False
        self.forwarded = False
        self.reused = False
        self.status: int | None = None
        self.reply: int | None = None
        self.challenge: str | None = None
        self.error: BaseException | None = None
        self.sent_at = 0.0
        self.first_byte: float | None = None
        self.afterwards: Callable[[TryEnd], None] | None = None

    def at(self, phase: Phase, hop: Hop) -> None:
        """It is here now."""
        self.phase = phase
        self.hop = hop


CURRENT: Final[ContextVar[Record | None]] = ContextVar("cloudretry_try", default=None)
"""The record of the try that this thread or task is at."""
