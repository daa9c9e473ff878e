"""The drivers over the machine: listeners can't break a call, a program's end ends a wait, sync and async do the same."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry.core.call import Call
from cloudretry.core.decision import Retry, Stop, StopReason
from cloudretry.core.events import AttemptFailed, CallEnded, Event
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.core.settings import (
    Match,
    Override,
    ProviderSettings,
    RetrySettings,
    Settings,
    for_credentials,
    single_attempt,
)
from cloudretry.runtime.clock import use_clock
from cloudretry.runtime.engine import Engine
from cloudretry.testing import VirtualClock, virtual_clock

if TYPE_CHECKING:
    from cloudretry.core.machine import RetryMachine

CALL = Call(provider="aws", service="ec2", operation="DescribeInstances", region="eu-west-1", replayable=True)
THROTTLED = Outcome(kind=Kind.THROTTLED, status=503, code="RequestLimitExceeded")
REFUSED = Outcome(kind=Kind.FATAL, status=403, code="AccessDenied")


def engine(*listeners: Callable[[Event], None], rng: Random | None = None, **changes: Any) -> Engine:
    retry = RetrySettings(**{"strategy": "exponential", **changes})
    settings = Settings(providers={"aws": ProviderSettings(retry=retry)})
    return Engine(settings, rng=rng or Random(1), listeners=listeners)


def retry_until_it_ends(engine: Engine, machine: RetryMachine) -> int:
    """How often the engine said that the call goes out again."""
    count = 0
    while engine.retried(machine, THROTTLED):
        count += 1
    return count


async def retry_until_it_ends_async(engine: Engine, machine: RetryMachine) -> int:
    count = 0
    while await engine.retried_async(machine, THROTTLED):
        count += 1
    return count


def test_a_throttled_call_waits_as_decided_and_ends() -> None:
    events: list[Event] = []
    ours = engine(events.append, max_retries=3)
    with virtual_clock() as clock:
        machine = ours.begin(CALL)
        assert retry_until_it_ends(ours, machine) == 3
    ours.end(machine)
    *failed, ended = events
    assert [event.number for event in failed if isinstance(event, AttemptFailed)] == [1, 2, 3, 4]
    decided = [event.decision for event in failed if isinstance(event, AttemptFailed)]
    assert [step.delay for step in decided if isinstance(step, Retry)] == clock.sleeps
    assert ended == CallEnded(CALL, 4, THROTTLED, Stop(StopReason.MAX_RETRIES), sum(clock.sleeps))


def test_async_does_the_same() -> None:
    waits = []
    for drive in (retry_until_it_ends, lambda *both: asyncio.run(retry_until_it_ends_async(*both))):
        with virtual_clock() as clock:
            ours = engine(rng=Random(7))
            assert drive(ours, ours.begin(CALL)) == 8
        waits.append(clock.sleeps)
    assert waits[0] == waits[1]


def test_the_same_seed_gives_the_same_waits() -> None:
    waits = []
    for seed in (3, 3, 4):
        with virtual_clock() as clock:
            ours = engine(rng=Random(seed))
            retry_until_it_ends(ours, ours.begin(CALL))
        waits.append(clock.sleeps)
    assert waits[0] == waits[1] != waits[2]


def test_a_refusal_is_told_and_not_waited_for() -> None:
    events: list[Event] = []
    ours = engine(events.append)
    with virtual_clock() as clock:
        assert not ours.retried(ours.begin(CALL), REFUSED)
    assert clock.sleeps == []
    assert [type(event) for event in events] == [AttemptFailed]


def test_an_answer_at_once_is_told_as_one() -> None:
    events: list[Event] = []
    ours = engine(events.append)
    machine = ours.begin(CALL)
    machine.answered()
    ours.end(machine)
    assert events == [CallEnded(CALL, 1, None, Stop(StopReason.ANSWERED), 0.0)]


def test_bounds_narrow_the_settings_of_the_calls_that_they_are_given_for() -> None:
    ours = engine()
    with virtual_clock():
        assert retry_until_it_ends(ours, ours.begin(CALL, single_attempt)) == 0
        assert retry_until_it_ends(ours, ours.begin(CALL)) == 8
        assert retry_until_it_ends(ours, ours.begin(CALL, for_credentials)) == 3


def test_overrides_are_resolved_for_each_call() -> None:
    entry = ProviderSettings(
        retry=RetrySettings(strategy="exponential"), overrides=(Override(Match(service="s3"), {"max_retries": 1}),)
    )
    ours = Engine(Settings(providers={"aws": entry}), rng=Random(1))
    with virtual_clock():
        assert retry_until_it_ends(ours, ours.begin(replace(CALL, service="s3"))) == 1
        assert retry_until_it_ends(ours, ours.begin(CALL)) == 8


def test_a_listener_that_raises_is_logged_once_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_event: Event) -> None:
        raise RuntimeError("broken listener")

    events: list[Event] = []
    ours = engine(broken, events.append, max_retries=2)
    with virtual_clock():
        assert retry_until_it_ends(ours, ours.begin(CALL)) == 2
    assert len(events) == 3
    assert len(caplog.records) == 1
    assert "broken listener" in caplog.text


def test_observing_tells_without_deciding_or_waiting() -> None:
    events: list[Event] = []
    ours = engine(events.append)
    with virtual_clock() as clock:
        machine = ours.begin(CALL)
        ours.observed(machine, THROTTLED)
        ours.end(machine)
    assert clock.sleeps == []
    assert events == [
        AttemptFailed(CALL, 1, THROTTLED, None),
        CallEnded(CALL, 1, THROTTLED, Stop(StopReason.SDK), 0.0),
    ]


class Interrupted(VirtualClock):
    """Every wait is interrupted."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), TimeoutError("from a signal handler")])
def test_an_interrupted_wait_ends_the_call_and_is_told_once(error: BaseException) -> None:
    events: list[Event] = []
    ours = engine(events.append)
    machine = ours.begin(CALL)
    with use_clock(Interrupted(error)), pytest.raises(type(error)):
        ours.retried(machine, THROTTLED)
    ours.end(machine)  # botocore reports an Exception that leaves the handler
    ended = [event for event in events if isinstance(event, CallEnded)]
    assert [(event.attempts, event.stop) for event in ended] == [(1, Stop(StopReason.CANCELLED))]
    assert machine.history().reason == "cancelled"


class Highest(Random):
    def uniform(self, a: float, b: float) -> float:
        return b


def waiting_long(listener: Callable[[Event], None]) -> Engine:
    return engine(listener, base_delay=60.0, max_delay=60.0, rng=Highest())


def test_ctrl_c_ends_a_real_wait_at_once() -> None:
    events: list[Event] = []
    told = threading.Event()

    def listener(event: Event) -> None:
        events.append(event)
        told.set()

    def interrupt() -> None:
        told.wait()
        time.sleep(0.05)  # the wait begins right after the listener
        signal.pthread_kill(main_thread, signal.SIGINT)

    main_thread = threading.get_ident()
    ours = waiting_long(listener)
    machine = ours.begin(CALL)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ours.retried(machine, THROTTLED)
    assert time.monotonic() - before < 60.0
    interrupter.join()
    assert [type(event) for event in events] == [AttemptFailed, CallEnded]
    assert machine.ended == Stop(StopReason.CANCELLED)


def test_a_cancelled_task_ends_its_wait_at_once_and_tells_so() -> None:
    events: list[Event] = []
    ours = waiting_long(events.append)

    async def main() -> None:
        task = asyncio.create_task(ours.retried_async(ours.begin(CALL), THROTTLED))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [type(event) for event in events] == [AttemptFailed, CallEnded]
    assert isinstance(events[1], CallEnded)
    assert events[1].stop.reason is StopReason.CANCELLED


def test_one_engine_serves_many_threads() -> None:
    lock, ended = threading.Lock(), []

    def count(event: Event) -> None:
        if isinstance(event, CallEnded):
            with lock:
                ended.append(event)

    ours = engine(count, max_retries=4)

    def program() -> None:
        for number in range(25):
            machine = ours.begin(replace(CALL, operation=f"Describe{number}"))
            retry_until_it_ends(ours, machine)
            ours.end(machine)

    with virtual_clock() as clock:
        threads = [threading.Thread(target=program) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(clock.sleeps) == 8 * 25 * 4
    assert {event.attempts for event in ended} == {5}
    assert len(ended) == 200


def _first_wait(ours: Engine, waits: Any) -> None:
    with virtual_clock() as clock:
        ours.retried(ours.begin(CALL), THROTTLED)
    waits.put(clock.sleeps[0])


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_workers_do_not_draw_the_same_waits() -> None:
    ours = Engine(Settings(providers={"aws": ProviderSettings(retry=RetrySettings(strategy="exponential"))}))
    fork = multiprocessing.get_context("fork")
    waits = fork.SimpleQueue()
    workers = [fork.Process(target=_first_wait, args=(ours, waits)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len({waits.get() for _ in workers}) == 3
