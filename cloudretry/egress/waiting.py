"""Waiting that can be cut short from any thread, by the clock of the process. For threads and for asyncio tasks."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from cloudretry.runtime.clock import _SystemClock, current_clock

__all__ = ["AsyncBell", "ThreadBell"]


class ThreadBell:
    """Wakes one thread. `ring` may come from any other, and before the wait."""

    __slots__ = ("_rung",)

    def __init__(self) -> None:
        self._rung = threading.Event()

    def ring(self) -> None:
        """Wake the thread."""
        self._rung.set()

    def wait(self, seconds: float) -> None:
        """Sleep for so long, or until the bell is rung."""
        clock = current_clock()
        if isinstance(clock, _SystemClock):  # the only one whose time passes while nobody does anything
            self._rung.wait(seconds)
        elif not self._rung.is_set():
            clock.sleep(seconds)
        self._rung.clear()


class AsyncBell:
    """Wakes one task; to be made and awaited on its event loop. `ring` may come from any thread."""

    __slots__ = ("_loop", "_rung")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the task."""
        with suppress(RuntimeError):  # its loop is closed, so nobody waits any more
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, seconds: float) -> None:
        """Sleep for so long, or until the bell is rung; cancellable."""
        clock = current_clock()
        if isinstance(clock, _SystemClock):
            timer = self._loop.call_later(seconds, self._rung.set)
            try:
                await self._rung.wait()
            finally:
                timer.cancel()
        elif not self._rung.is_set():
            await clock.sleep_async(seconds)
        self._rung.clear()
