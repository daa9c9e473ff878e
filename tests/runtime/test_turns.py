"""Threads and tasks that wait for the turns of one quota: order, waking, ending a wait, what a broken program leaves behind."""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cloudretry.core.pacer import LAPSE, Pacer
from cloudretry.core.rate import Limit
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.turns import Turn, Turns, TurnTimeout
from cloudretry.testing import virtual_clock

SOON = 30.0  # s; for what must happen at once on a machine that is busy


def turns(**settings: object) -> Turns:
    now = current_clock().monotonic()
    return Turns(Pacer(now, **settings), "ec2:Describe@1/eu", now)  # type: ignore[arg-type]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def one_call(turns: Turns, patience: float = SOON) -> None:
    turn = turns.take(patience=patience)
    with turn:
        pass
    turn.accepted()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


def test_threads_have_their_turns_in_order_of_arrival(pool: ThreadPoolExecutor) -> None:
    quota, order = turns(max_in_flight=1), []

    def call(number: int) -> None:
        with quota.take(patience=SOON):
            order.append(number)

    with quota.take():
        for number in range(8):
            pool.submit(call, number)
            until(lambda: quota.pacer.waiting == number + 1)  # noqa: B023 - called before the next round
    pool.shutdown()
    assert order == list(range(8))


def test_the_first_alone_watches_the_clock(pool: ThreadPoolExecutor) -> None:
    quota = turns(prior=Limit(500.0, 1.0))
    looks: list[int] = []
    look = quota._look

    def counted(*args: object) -> float:
        looks.append(1)
        return look(*args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Turns, "_look", lambda _self, *args: counted(*args))
        list(pool.map(lambda _: one_call(quota), range(200)))
    assert quota.pacer.rate.accepted == 200
    assert len(looks) < 1000  # to enter, to become the first, to be granted; and a little for a busy machine


def test_ctrl_c_ends_a_wait_and_leaves_nothing_behind() -> None:
    quota = turns(max_in_flight=1)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        until(lambda: quota.pacer.waiting == 1)
        signal.pthread_kill(main, signal.SIGINT)

    held = quota.take()
    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        quota.take(patience=SOON)
    other.join()
    assert (quota.pacer.waiting, quota.pacer.in_flight) == (0, 1)
    held.give_back()
    assert quota.pacer.in_flight == 0


def test_an_exception_in_a_send_lands_the_turn() -> None:
    quota = turns()
    with pytest.raises(KeyboardInterrupt), quota.take():
        raise KeyboardInterrupt
    assert quota.pacer.in_flight == 0


async def in_loop(quota: Turns, count: int) -> None:
    async def call() -> None:
        turn = await quota.take_async(patience=900.0)
        with turn:
            await asyncio.sleep(0)
        turn.accepted()

    await asyncio.gather(*(call() for _ in range(count)))


def test_a_cancelled_task_leaves_nothing_behind() -> None:
    quota = turns(max_in_flight=1)

    async def main() -> None:
        held = await quota.take_async()
        waiting = [asyncio.create_task(quota.take_async(patience=SOON)) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert quota.pacer.waiting == 3
        waiting[0].cancel()
        waiting[1].cancel()
        await asyncio.sleep(0.01)
        assert quota.pacer.waiting == 1
        held.give_back()
        (await waiting[2]).give_back()

    asyncio.run(main())
    assert (quota.pacer.waiting, quota.pacer.in_flight) == (0, 0)


def test_a_task_that_is_cancelled_as_its_turn_comes_gives_it_back() -> None:
    quota = turns(max_in_flight=1)

    async def main() -> None:
        held = await quota.take_async()
        task = asyncio.create_task(quota.take_async(patience=SOON))
        await asyncio.sleep(0.01)
        held.give_back()  # grants the task's turn; the task has not run yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert quota.pacer.in_flight == 0


def test_threads_and_several_loops_share_one_quota(pool: ThreadPoolExecutor) -> None:
    quota = turns(prior=Limit(2000.0, 5.0), max_in_flight=4)
    loops = [pool.submit(lambda: asyncio.run(in_loop(quota, 40))) for _ in range(3)]
    threads = [pool.submit(one_call, quota) for _ in range(80)]
    for future in [*loops, *threads]:
        future.result(SOON)
    assert quota.pacer.rate.accepted == 200
    assert (quota.pacer.waiting, quota.pacer.in_flight) == (0, 0)


def test_a_loop_that_was_closed_while_a_task_waited_blocks_nobody() -> None:
    quota = turns(max_in_flight=1)
    held = quota.take()
    loop = asyncio.new_event_loop()
    task = loop.create_task(quota.take_async(patience=SOON))
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    assert quota.pacer.waiting == 1
    held.give_back()
    one_call(quota)
    with pytest.raises(RuntimeError):
        task.get_coro().throw(RuntimeError)  # else the collector complains of it
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_wait_that_is_foreseen_to_be_too_long_fails_at_once() -> None:
    quota = turns(prior=Limit(1.0, 1.0))
    quota.pacer.throttled(time.monotonic(), time.monotonic(), retry_after=100.0)
    with pytest.raises(TurnTimeout) as failed:
        quota.take(patience=90.0)
    error = pickle.loads(pickle.dumps(failed.value))  # noqa: S301 - our own
    assert 99.0 < error.retry_after < 110.0
    assert error.retry_at == failed.value.retry_at
    assert "after a pause of 100 s that the provider asked for" in str(error)
    assert "ec2:Describe@1/eu" in str(error)
    assert quota.pacer.waiting == 0


def test_a_wait_that_was_not_foreseen_ends_with_patience() -> None:
    quota = turns(max_in_flight=1)
    with quota.take(), pytest.raises(TurnTimeout) as failed:
        quota.take(patience=0.01)
    assert failed.value.waited >= 0.01
    assert quota.pacer.waiting == 0


def test_the_first_waits_on_the_virtual_clock() -> None:
    with virtual_clock() as clock:
        quota = turns(prior=Limit(0.1, 1.0))
        one_call(quota)
        quota.pacer.throttled(clock.monotonic(), clock.monotonic(), retry_after=60.0)
        one_call(quota, patience=900.0)
        assert 60.0 <= clock.monotonic() < 61.0


def test_a_task_waits_on_the_virtual_clock() -> None:
    with virtual_clock() as clock:
        quota = turns()
        quota.pacer.throttled(clock.monotonic(), clock.monotonic(), retry_after=60.0)
        asyncio.run(in_loop(quota, 5))
        assert clock.monotonic() >= 60.0
    assert quota.pacer.rate.accepted == 5


def test_long_waits_are_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cloudretry")
    with virtual_clock():
        quota = turns(max_rate=0.05)
        for _ in range(7):
            one_call(quota, 900.0)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["ec2:Describe@1/eu: 1 waiting, the last one for 20 s"] * 2


def test_a_retry_waits_for_its_own_moment() -> None:
    with virtual_clock() as clock:
        quota = turns()
        quota.take(not_before=clock.monotonic() + 7.0)
        assert clock.monotonic() == pytest.approx(7.0)


def test_an_unused_turn_lapses_and_is_charged_when_it_is_used_after_all() -> None:
    with virtual_clock() as clock:
        quota = turns(max_in_flight=1)
        slow = quota.take()
        quota.take(patience=SOON)
        assert clock.monotonic() == pytest.approx(LAPSE)
        with slow:
            assert quota.pacer.in_flight == 2


def test_an_answer_without_a_send_teaches_nothing() -> None:
    quota = turns()
    turn = quota.take()
    turn.throttled(5.0)
    turn.accepted()
    turn.give_back()
    state = quota.state()
    assert (state.accepted, state.throttled, state.in_flight, state.hold) == (0, 0, 0, 0.0)


def test_an_answer_at_the_clocks_first_moment_teaches() -> None:
    with virtual_clock() as clock:
        assert clock.monotonic() == 0.0
        quota = turns()
        turn = quota.take()
        with turn:
            pass
        turn.throttled(5.0)
        assert (quota.state().throttled, quota.state().hold) == (1, 5.0)


def test_giving_back_what_was_sent_does_nothing() -> None:
    quota = turns()
    turn = quota.take()
    with turn:
        turn.give_back()
        assert quota.pacer.in_flight == 1
    turn.give_back()
    assert quota.pacer.in_flight == 0


def test_a_throttle_wakes_nobody_before_its_retry_after(pool: ThreadPoolExecutor) -> None:
    quota = turns(prior=Limit(1000.0, 1000.0))
    for _ in range(900):
        one_call(quota)
    first = quota.take()
    with first:
        pass
    first.throttled(0.05)
    begun = time.monotonic()
    pool.submit(one_call, quota).result(SOON)
    assert time.monotonic() - begun >= 0.05


def test_a_program_that_takes_without_end_is_bounded_by_its_settings(pool: ThreadPoolExecutor) -> None:
    quota, seen = turns(max_in_flight=3), []

    def call(_: int) -> None:
        with quota.take(patience=SOON):
            seen.append(quota.pacer.in_flight)

    list(pool.map(call, range(300)))
    assert max(seen) <= 3


def test_a_turn_can_be_charged_without_having_been_asked_for() -> None:
    quota = turns(prior=Limit(1.0, 5.0))
    with Turn(quota):
        assert quota.pacer.in_flight == 1
    assert quota.pacer.rate.level == pytest.approx(4.0, abs=0.5)
