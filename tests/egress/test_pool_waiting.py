"""Many who wait for few: no crowd after a recovery (SPEC B3), first come first served, woken when it matters, nothing lost."""

from __future__ import annotations

import asyncio
import os
import selectors
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from cloudretry.core.failover import AGAIN, Exhausted
from cloudretry.core.outcome import Phase
from cloudretry.core.pool_settings import Cooldown, Member, PoolSettings, Probe
from cloudretry.core.pool_snapshot import Unavailable
from cloudretry.core.tries import Hop, Reason, TryEnd
from cloudretry.egress.pool import EgressPool, Lease
from cloudretry.runtime.clock import _SystemClock, use_clock
from cloudretry.testing import virtual_clock

OK = TryEnd(phase=Phase.DONE)
REFUSED = TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.REFUSED)
UNREACHABLE = TryEnd(phase=Phase.PROXY_HANDSHAKE, reason=Reason.TUNNEL_REFUSED)


def pool(count: int, **changes: Any) -> EgressPool:
    members = tuple(Member(name=f"m{i}", url=f"http://m{i}") for i in range(count))
    changes.setdefault("cooldown", Cooldown(jitter=0.0))
    return EgressPool(PoolSettings(name="corp", members=members, **changes), rng=Random(1))


def fail(some: EgressPool) -> None:
    """Cool every member."""
    names = [member.name for member in some.settings.members]
    for name in names:
        tries = some.tries()
        tries.failover.tried = tuple(other for other in names if other != name)
        lease = tries.acquire("ec2")
        assert isinstance(lease, Lease)
        lease.end(REFUSED)


# event loops, in virtual time


class LeapingSelector(selectors.SelectSelector):
    """Where a loop would wait for time to pass, it has passed."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout > 0:
            self.now += timeout
            timeout = 0
        return super().select(timeout)


class LoopClock(_SystemClock):
    """The time of an event loop; tasks that wait at the same time don't add up, and can be woken."""

    def __init__(self, selector: LeapingSelector) -> None:
        self._selector = selector

    def monotonic(self) -> float:
        return self._selector.now

    def wall(self) -> float:
        return 1e9 + self._selector.now

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody may block a loop")


def in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    selector = LeapingSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        with use_clock(LoopClock(selector)):
            loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def busiest(moments: list[float]) -> int:
    """The most arrivals in any 50 ms."""
    return max(sum(start <= moment < start + 0.05 - 1e-9 for moment in moments) for start in moments)


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("bad_trials", [0, 2])
def test_200_callers_that_wait_for_a_recovery_are_no_crowd(count: int, bad_trials: int) -> None:
    some, arrivals, ends = pool(count), list[tuple[float, int]](), [REFUSED] * bad_trials

    async def call(number: int) -> None:
        tries = some.tries()
        while True:
            lease = await tries.acquire_async("ec2", budget=600.0)
            if not isinstance(lease, Lease):
                assert isinstance(lease, Exhausted)  # its trial failed while the others were on trial
                return
            arrivals.append((asyncio.get_running_loop().time(), number))
            await asyncio.sleep(0.2)
            if lease.end(ends.pop() if ends else OK) != AGAIN:
                return

    async def work() -> None:
        tasks = [asyncio.ensure_future(call(number)) for number in range(200)]
        await asyncio.gather(*tasks)

    async def all_of_it() -> None:
        fail(some)
        await work()

    in_virtual_time(all_of_it())
    assert {number for _, number in arrivals} == set(range(200))
    assert busiest([moment for moment, _ in arrivals]) <= 15
    assert arrivals[-1][0] < 60.0
    if not bad_trials:
        moments = [moment for _, moment in sorted((number, moment) for moment, number in arrivals)]
        assert moments == sorted(moments)
    assert {member.in_flight for member in some.snapshot().members} == {0}


def test_newcomers_stand_behind_those_who_wait() -> None:
    some, served = pool(1), dict[int, float]()

    async def call(number: int, delay: float) -> None:
        await asyncio.sleep(delay)
        lease = await some.tries().acquire_async("ec2", budget=60.0)
        assert isinstance(lease, Lease)
        served[number] = asyncio.get_running_loop().time()
        await asyncio.sleep(0.03)
        lease.end(OK)

    async def work() -> None:
        fail(some)
        early = [call(number, 0.0) for number in range(20)]
        late = [call(number, 5.0 + number / 1000) for number in range(20, 60)]
        await asyncio.gather(*early, *late)

    in_virtual_time(work())
    assert [served[number] for number in range(60)] == sorted(served.values())
    assert busiest(list(served.values())) <= 8


def test_those_who_wait_for_a_dead_destination_hold_up_nobody_else() -> None:
    some, moments = pool(2), list[float]()

    async def dead() -> None:
        answer = await some.tries().acquire_async("dead", budget=4.0)
        assert isinstance(answer, Unavailable)
        assert answer.waited == pytest.approx(4.0)

    async def alive() -> None:
        await asyncio.sleep(1.0)
        lease = await some.tries().acquire_async("alive")
        assert isinstance(lease, Lease)
        moments.append(asyncio.get_running_loop().time())
        lease.end(OK)

    async def work() -> None:
        for _ in range(2):
            lease = await some.tries().acquire_async("dead")
            assert isinstance(lease, Lease)
            lease.end(UNREACHABLE)
        trials = [await some.tries().acquire_async("dead", budget=9.0) for _ in range(2)]  # do not end, so there is hope
        assert all(isinstance(trial, Lease) and trial.trial for trial in trials)
        await asyncio.gather(*[dead() for _ in range(30)], *[alive() for _ in range(50)])

    in_virtual_time(work())
    assert moments == pytest.approx([6.0] * 50)


def test_a_cancelled_wait_takes_nothing_with_it() -> None:
    some = pool(1)

    async def wait(budget: float) -> Any:
        return await some.tries().acquire_async("ec2", budget=budget)

    async def work() -> None:
        fail(some)
        tasks = [asyncio.ensure_future(wait(60.0)) for _ in range(5)]
        await asyncio.sleep(1.0)
        assert some.snapshot().waiting == 5
        for task in tasks[:4]:
            task.cancel()
        lease = await tasks[4]
        assert isinstance(lease, Lease)
        assert asyncio.get_running_loop().time() == pytest.approx(5.0)
        lease.end(OK)
        assert some.snapshot().waiting == 0
        assert some.snapshot().members[0].state == "eligible"

    in_virtual_time(work())


def test_what_is_granted_to_a_wait_as_it_is_cancelled_goes_to_the_next() -> None:
    some = pool(1)

    async def wait() -> Any:
        return await some.tries().acquire_async("ec2", budget=60.0)

    async def work() -> None:
        fail(some)
        first, second = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        some.enable("m0")  # hands its trial to the first, which has not run since
        assert some.snapshot().members[0].trials == 1
        first.cancel()
        lease = await second
        assert isinstance(lease, Lease)
        lease.end(OK)
        assert some.snapshot().members[0].in_flight == 0

    in_virtual_time(work())


# threads, by the real clock: nothing here waits out a deadline


def test_a_thread_is_woken_when_a_trial_ends() -> None:
    some = pool(1, cooldown=Cooldown(initial=3600.0), probe=Probe(lease=3600.0))
    fail(some)
    some.enable("m0")
    trial = some.tries().acquire("ec2")
    assert isinstance(trial, Lease)
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(some.tries().acquire("ec2", budget=300.0))) for _ in range(3)]
    for thread in threads:
        thread.start()
    while some.snapshot().waiting < 3:
        pass
    trial.end(OK)
    for thread in threads:
        thread.join(30.0)
    assert [type(answer) for answer in got] == [Lease, Lease, Lease]


def test_a_thread_is_woken_by_an_operator_and_by_new_settings() -> None:
    acts: list[Callable[[EgressPool], None]] = [lambda some: some.enable("m0"), lambda some: some.reconfigure(pool(2).settings)]
    for wake in acts:
        some = pool(1, cooldown=Cooldown(initial=200.0))
        fail(some)
        got: list[Any] = []
        thread = threading.Thread(target=lambda some=some, got=got: got.append(some.tries().acquire("ec2", budget=300.0)))
        thread.start()
        while some.snapshot().waiting < 1:
            pass
        wake(some)
        thread.join(30.0)
        assert [type(answer) for answer in got] == [Lease]


def test_a_task_is_woken_by_a_thread() -> None:
    some = pool(1, cooldown=Cooldown(initial=200.0))
    fail(some)

    async def work() -> None:
        waiting = asyncio.ensure_future(some.tries().acquire_async("ec2", budget=300.0))
        while some.snapshot().waiting < 1:  # noqa: ASYNC110 - nobody says so when a place in the line is taken
            await asyncio.sleep(0)
        await asyncio.to_thread(some.enable, "m0")
        assert isinstance(await asyncio.wait_for(waiting, 30.0), Lease)

    asyncio.run(work())


class Watch:
    """Counts, from outside, the trials that are under way in each member."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.trials: Counter[str] = Counter()
        self.most = 0
        self.ends: Counter[str] = Counter()
        self.errors: list[BaseException] = []

    @contextmanager
    def over(self, lease: Lease) -> Iterator[None]:
        name = lease.member.name
        with self.lock:
            self.trials[name] += lease.trial
            self.most = max(self.most, self.trials[name])
        yield
        with self.lock:
            self.trials[name] -= lease.trial


def one_thread(some: EgressPool, watch: Watch, seed: int, rounds: int) -> None:
    rng = Random(seed)
    try:
        for _ in range(rounds):
            one_call(some, watch, rng)
    except BaseException as error:  # noqa: BLE001 - the test reports it
        watch.errors.append(error)


def one_call(some: EgressPool, watch: Watch, rng: Random) -> None:
    tries = some.tries()
    while True:
        lease = tries.acquire("ec2", budget=1e6)
        if not isinstance(lease, Lease):
            return
        end = REFUSED if rng.random() < 0.2 else OK
        with watch.over(lease):
            if rng.random() < 0.1:
                some.snapshot()
        with watch.lock:
            watch.ends["refused" if end is REFUSED else "ok"] += 1
        if lease.end(end) != AGAIN:
            return


def run_64_threads(rounds: int) -> None:
    some, watch = pool(8, probe=Probe(lease=1e9)), Watch()
    with virtual_clock():
        threads = [threading.Thread(target=one_thread, args=(some, watch, seed, rounds)) for seed in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert watch.errors == []
    assert watch.most == 1
    picture = some.snapshot()
    assert picture.waiting == 0
    assert [member.in_flight for member in picture.members] == [0] * 8
    assert sum(member.answered for member in picture.members) == watch.ends["ok"]
    refused = sum(member.counters.get("refused", 0) for member in picture.members)
    assert 0 < refused <= watch.ends["refused"]  # late ones change nothing
    assert all(len(member.history) == 32 for member in picture.members)


def test_64_threads() -> None:
    run_64_threads(60)


@pytest.mark.long
def test_64_threads_for_long() -> None:
    run_64_threads(1000)


# forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_fork_inherits_neither_leases_nor_locks_nor_the_line() -> None:
    some = pool(1)
    fail(some)
    some.enable("m0")
    trial = some.tries().acquire("ec2")
    assert isinstance(trial, Lease)
    child = os.fork()
    if child == 0:
        own = some.tries().acquire("ec2", budget=0.0)
        trial.end(REFUSED)  # the parent's: means nothing here
        good = isinstance(own, Lease) and some.snapshot().members[0].state == "probe_allowed"
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert some.snapshot().members[0].trials == 1
    trial.end(OK)
    assert some.snapshot().members[0].state == "eligible"
