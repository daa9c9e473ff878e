"""Time: what the clock says, and waiting. Everything else is told the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Clock", "current_clock", "use_clock"]


class Clock(Protocol):
    """What the runtime needs of time. All values are seconds; implementations are thread-safe."""

    def monotonic(self) -> float:
        """For deciding: never jumps."""

    def wall(self) -> float:
        """For showing: seconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Wait; an exception such as KeyboardInterrupt ends the wait at once."""

    async def sleep_async(self, seconds: float) -> None:
        """Wait without blocking the loop; cancellable."""


class _SystemClock:
    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # looked up now, so that whoever has replaced it since (a test, gevent) is heard

    async def sleep_async(self, seconds: float) -> None:
        import asyncio  # a synchronous program never needs it, and it is slow to import

        await asyncio.sleep(seconds)


_clock: Clock = _SystemClock()


def current_clock() -> Clock:
    """The clock of this process."""
    return _clock


@contextmanager
def use_clock(clock: Clock) -> Iterator[Clock]:
    """Put another clock in place for the whole process; for tests (`cloudretry.testing.virtual_clock`)."""
    global _clock  # noqa: PLW0603 - one process has one time
    previous, _clock = _clock, clock
    try:
        yield clock
    finally:
        _clock = previous
