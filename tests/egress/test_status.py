"""What `cloudretry pool status` sees of a program whose callers all wait for a member. Time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import copy_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cloudretry.config import load_configuration
from cloudretry.core.call import Call
from cloudretry.egress import pools
from cloudretry.egress.passages import Passages
from cloudretry.egress.pools import pool_of
from cloudretry.runtime.current import CURRENT, Current
from cloudretry.runtime.engine import Engine
from cloudretry.runtime.pool_states import ProcessPools, running_pools
from cloudretry.testing import VirtualClock, virtual_clock

HOST = "sts.cloud.test"
CALL = Call(provider="aws", service="sts", operation="GetCallerIdentity", region="eu-west-1", host=HOST, replayable=True)


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> Iterator[Callable[[], ProcessPools]]:
    """What is seen of this process."""
    monkeypatch.setenv("CLOUDRETRY_STATE_DIR", str(tmp_path))
    pools._states.cache_clear()

    def seen() -> ProcessPools:
        (process,) = running_pools()
        return process

    yield seen
    pools._states.cache_clear()


class Program:
    """One whose only member is just being tried by a call that does not end. `look` is called about once a second."""

    def __init__(self, name: str, look: Callable[[], object] = lambda: None) -> None:
        pool = {"members": [{"connect_to": "127.0.0.1:1", "name": "one"}], "probe": {"lease": "60s"}}
        watch: Any = SimpleNamespace(look=look, subscribe=lambda _: None)
        self.engine = Engine(load_configuration({"aws": {"pool": name}, "pools": {name: pool}}).settings, watch=watch)
        way = SimpleNamespace(is_usable=lambda: True, is_busy=lambda: False, close=lambda: None)
        self.passages: Passages[Any] = Passages(lambda *_: way, lambda *_: None)
        self.machine = self.engine.begin(CALL)
        self.pool = pool_of(self.engine, name)
        self.pool.disable("one")
        self.pool.enable("one")
        self.trial = self.pool.tries().at_once(HOST)

    def send(self) -> None:
        self._passage().send(self.machine, HOST, answer)

    async def send_async(self) -> None:
        await self._passage().send_async(self.machine, HOST, answer_async)

    def _passage(self) -> Any:
        CURRENT.set(Current(self.engine, self.machine))
        return self.passages.of(self.engine, self.machine, HOST, None)


def answer(*_: object) -> Any:
    return SimpleNamespace(status_code=200, headers={})


async def answer_async(*_: object) -> Any:
    return answer()


def test_a_pool_is_seen_as_soon_as_there_is_one(status: Callable[[], ProcessPools]) -> None:
    Program("young")
    assert "young" in {pool.pool for pool in status().pools}


@pytest.mark.parametrize("way", ["sync", "async"])
def test_while_all_callers_wait_for_a_trial_they_are_seen(
    status: Callable[[], ProcessPools], clock: VirtualClock, way: str
) -> None:
    seen: list[tuple[float, int]] = []

    def look() -> None:
        if clock.monotonic() > 2:
            process = status()
            seen.extend((clock.wall() - process.taken, pool.waiting) for pool in process.pools if pool.pool == way)

    program = Program(way, look)
    if way == "sync":
        copy_context().run(program.send)
    else:
        asyncio.run(program.send_async())
    assert clock.monotonic() >= 60  # then the other's lease was over
    assert len(seen) >= 50
    assert {waiting for _, waiting in seen} == {1}
    assert max(age for age, _ in seen) <= 2
