"""Streamed bodies that break off while the program reads them, after their call was answered: listeners are told.

Nothing is sent again. The program has the SDK's own error, and knows best what to do about the part that it has read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudretry.core.events import BodyCut
from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.core.tries import Hop
from cloudretry.egress.record import Record
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudretry.core.tries import TryEnd
    from cloudretry.runtime.current import Current

__all__ = ["teller", "watch_streamed"]


def teller(current: Current) -> Callable[[TryEnd], None]:
    """What is to be told how reading the body of this call's answer ended, where that failed."""
    engine, call = current.engine, current.machine.call

    def tell(end: TryEnd) -> None:
        code = None if end.reason is None else end.reason.value
        engine.tell(BodyCut(call, Outcome(kind=Kind.TRANSIENT, phase=end.phase, code=code, wall=current_clock().wall())))

    return tell


def watch_streamed(response: Any, current: Current | None) -> None:
    """Watch a body that came without a pool: the response of urllib3, requests or aiohttp. Others can't be watched."""
    if current is None:
        return
    record = Record()
    record.at(Phase.BODY, Hop.DESTINATION)
    record.afterwards = teller(current)
    if type(response).__module__.startswith("aiohttp."):
        from cloudretry.egress.aiohttp_connections import WatchedBody  # not everybody has aiohttp

        response.content = WatchedBody(response.content, record)
    else:
        from cloudretry.egress.urllib3_connections import watch_body

        watch_body(getattr(response, "raw", response), record)
