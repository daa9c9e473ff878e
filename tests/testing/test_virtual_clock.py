"""The clock that users' tests get: waiting takes no time, and every wait is on a list."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from cloudretry.runtime.clock import current_clock
from cloudretry.testing import VirtualClock, virtual_clock


def test_waiting_moves_the_clock_and_is_noted() -> None:
    with virtual_clock(wall=5000.0) as clock:
        current_clock().sleep(2.5)
        asyncio.run(current_clock().sleep_async(100_000.0))
        assert clock.sleeps == [2.5, 100_000.0]
        assert clock.monotonic() == 100_002.5
        assert clock.wall() == 105_002.5
        assert current_clock() is clock
    assert current_clock() is not clock


def test_time_can_pass_without_a_wait() -> None:
    clock = VirtualClock()
    clock.advance(3.0)
    assert (clock.monotonic(), clock.sleeps) == (3.0, [])


def test_time_does_not_go_back() -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1.0)
    with pytest.raises(ValueError, match="does not go back"):
        clock.sleep(-1.0)
    assert clock.sleeps == []


def test_the_list_is_a_copy() -> None:
    clock = VirtualClock()
    clock.sleeps.append(1.0)
    assert clock.sleeps == []


def wait_often(clock: VirtualClock) -> None:
    for _ in range(500):
        clock.sleep(0.5)


def test_no_wait_of_any_thread_is_lost() -> None:
    with virtual_clock() as clock:
        threads = [threading.Thread(target=wait_often, args=(clock,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(clock.sleeps) == 4000
    assert clock.monotonic() == 2000.0


def test_tasks_take_turns_and_can_be_cancelled() -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        for _ in range(2):
            await current_clock().sleep_async(60.0)
            order.append(name)

    async def main() -> None:
        cancelled = asyncio.create_task(work("cancelled"))
        both = asyncio.gather(work("a"), work("b"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await both
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    with virtual_clock():
        asyncio.run(main())
    assert order == ["a", "b", "a", "b"]


def test_only_the_standard_library_is_imported() -> None:
    command = """
import sys
before = set(sys.modules)
import cloudretry.testing
roots = {name.partition(".")[0] for name in set(sys.modules) - before}
sys.exit(", ".join(sorted(roots - sys.stdlib_module_names - {"cloudretry"})) or None)
"""
    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
