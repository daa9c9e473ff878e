"""A clock that stands still until somebody waits: no test has to sit out a backoff."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from cloudretry.runtime.clock import use_clock
from cloudretry.runtime.outer_loops import OUTER_LOOPS
from cloudretry.runtime.pacing import PACING

__all__ = ["VirtualClock", "virtual_clock"]

_NEW_YEAR_2026: Final = 1_767_225_600.0


class VirtualClock:
    """Waiting returns at once and moves this clock forward. Thread-safe; the waits of several threads add up.

    Args:
        wall: what the wall clock says at first, in seconds since the epoch.
    """

    def __init__(self, *, wall: float = _NEW_YEAR_2026) -> None:
        self._lock = Lock()
        self._elapsed = 0.0
        self._started = wall
        self._sleeps: list[float] = []

    @property
    def sleeps(self) -> list[float]:
        """A copy of all waits so far, in seconds, in the order in which they began."""
        with self._lock:
            return list(self._sleeps)

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        with self._lock:
            return self._elapsed

    def wall(self) -> float:
        """Seconds since the epoch."""
        return self._started + self.monotonic()

    def advance(self, seconds: float) -> None:
        """Let time pass without a wait."""
        if seconds < 0:
            raise ValueError("time does not go back")
        with self._lock:
            self._elapsed += seconds

    def sleep(self, seconds: float) -> None:
        """Note a wait and let its time pass."""
        self.advance(seconds)
        with self._lock:
            self._sleeps.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """The same on an event loop: other tasks get their turn, and this one may be cancelled."""
        import asyncio

        self.sleep(seconds)
        await asyncio.sleep(0)


@contextmanager
def virtual_clock(*, wall: float = _NEW_YEAR_2026) -> Iterator[VirtualClock]:
    """Put a virtual clock in the place of this process's clock; every wait of cloudretry, sync or async, is taken by it.

    It holds for all threads. The SDKs' own waits (waiters, pollers) and other people's `time.sleep` stay real. What was learned
    of the provider's limits is forgotten before and after.
    """
    clock = VirtualClock(wall=wall)
    _forget()
    try:
        with use_clock(clock):
            yield clock
    finally:
        _forget()


def _forget() -> None:
    PACING.forget()
    OUTER_LOOPS.forget()
