"""One process has one clock, and tests may put another in its place."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from cloudretry.runtime.clock import current_clock, use_clock
from cloudretry.testing import VirtualClock


def test_the_system_s_clock_is_the_default() -> None:
    before = time.monotonic()
    assert before <= current_clock().monotonic() <= time.monotonic()
    assert abs(current_clock().wall() - time.time()) < 60


def test_the_system_s_clock_waits() -> None:
    before = time.monotonic()
    current_clock().sleep(0.001)
    asyncio.run(current_clock().sleep_async(0.001))
    assert time.monotonic() - before >= 0.002


def test_the_clock_that_was_there_comes_back() -> None:
    system, outer, inner = current_clock(), VirtualClock(), VirtualClock()
    with use_clock(outer):
        with use_clock(inner):
            assert current_clock() is inner
        assert current_clock() is outer
    assert current_clock() is system


def test_the_clock_that_was_there_comes_back_after_an_error() -> None:
    system = current_clock()
    with pytest.raises(KeyError), use_clock(VirtualClock()):
        raise KeyError
    assert current_clock() is system


def test_a_synchronous_program_does_not_import_asyncio() -> None:
    command = "import sys, cloudretry.runtime.engine; sys.exit('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
