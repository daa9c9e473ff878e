"""Many tasks of one event loop: paced without blocking it, and cancelled wherever they are without leaving anything behind."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from cloudretry import Report, attach, history
from cloudretry.core.events import AttemptFailed
from cloudretry.runtime.current import CURRENT
from cloudretry.runtime.pacing import PACING

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def is_tidy() -> bool:
    """Whether nobody waits, and nothing counts as under way."""
    states = PACING.states().values()
    return bool(states) and all(state.waiting == state.in_flight == 0 for state in states)


@pytest.fixture
def paced(create: Make) -> Make:
    """`async with paced(service, server, report) as client`."""

    @asynccontextmanager
    async def make(service: str, server: Any, report: Report | None = None, **aws: Any) -> AsyncIterator[Any]:
        async with create(service, server) as client:
            yield attach(client, configuration={"aws": {"pacing": {"mode": "adaptive"}, **aws}}, report=report)

    return make


async def until(condition: Callable[[], object]) -> None:
    """Let the others work until then; a test that waits for ever is ended by the outside."""
    while not condition():  # noqa: ASYNC110 - what it is about tells nobody
        await asyncio.sleep(0.001)


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def counts(report: Report) -> tuple[int, int, int]:
    return report.total.calls, report.total.attempts, report.total.lost


class Bucket:
    """Of so many tokens, so many more of which come each second of the virtual clock."""

    def __init__(self, clock: Any, burst: float, rate: float) -> None:
        self.clock, self.burst, self.rate, self.tokens, self.filled = clock, burst, rate, burst, clock.monotonic()

    def admits(self) -> bool:
        now = self.clock.monotonic()
        self.tokens = min(self.burst, self.tokens + (now - self.filled) * self.rate)
        self.filled = now
        admitted = self.tokens >= 1
        self.tokens -= admitted
        return admitted


async def test_fifty_tasks_leave_paced_and_the_loop_is_never_blocked(
    paced: Make, serve: Make, throttle: Make, answer: Make, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the event loop was made to wait")

    server, bucket, lock = serve(answer("ec2")), Bucket(clock, 20, 5), threading.Lock()
    said = {True: answer("ec2"), False: throttle("ec2")}

    def next_answer(request: Any) -> Any:
        with lock:
            server.requests.append(request)
            return said[bucket.admits()]

    monkeypatch.setattr(server, "_next", next_answer)
    monkeypatch.setattr("cloudretry.runtime.turns._pause", refuse)
    loop_thread, real_sleep = threading.get_ident(), time.sleep
    monkeypatch.setattr(time, "sleep", lambda s: refuse() if threading.get_ident() == loop_thread else real_sleep(s))
    beats, report = 0, Report()

    async def heartbeat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    async with paced("ec2", server, report) as client:
        beating = asyncio.create_task(heartbeat())
        answers = await asyncio.gather(*(client.describe_regions() for _ in range(50)))
        await cancelled(beating)
    assert [each["Regions"] for each in answers] == [[]] * 50
    assert counts(report) == (50, len(server.requests), 0)
    assert report.total.throttled == len(server.requests) - 50
    assert len(server.requests) <= 80  # half of them at most again, whereas all that come later than the burst would, unpaced
    assert clock.monotonic() >= (50 - 20) / 5 - 1
    assert beats > 10
    assert is_tidy()


async def test_a_wait_is_a_wait_of_one_task(paced: Make, serve: Make, throttle: Make, answer: Make) -> None:
    """In real time: while one waits a fifth of a second, others go on."""
    server, beats = serve(throttle("dynamodb", {"x-amz-retry-after": "200"}), answer("dynamodb")), 0
    async with paced("dynamodb", server, additional_delay_window="1ms") as client:
        call = asyncio.create_task(client.list_tables())
        while not call.done():
            beats += 1
            await asyncio.sleep(0.001)
        assert (await call)["TableNames"] == []
    assert len(server.requests) == 2
    assert beats > 20


async def test_cancelled_while_it_waits_for_its_turn(paced: Make, serve: Make, throttle: Make) -> None:
    server, report = serve(throttle("dynamodb", {"Retry-After": "400"})), Report()
    async with paced("dynamodb", server, report) as client:
        with pytest.raises(ClientError):
            await client.list_tables()
        call = asyncio.create_task(client.list_tables())
        await until(lambda: any(state.waiting for state in PACING.states().values()))
        await cancelled(call)
        assert len(server.requests) == 1
        assert is_tidy()
    assert counts(report) == (2, 1, 2)
    assert "reason=cancelled" in str(report.lost[1])


async def test_cancelled_while_it_sleeps(paced: Make, serve: Make, throttle: Make) -> None:
    heard: list[Any] = []
    server, report = serve(throttle("dynamodb", {"Retry-After": "30"})), Report(heard.append)
    async with paced("dynamodb", server, report) as client:
        call = asyncio.create_task(client.list_tables())
        await until(lambda: any(isinstance(event, AttemptFailed) for event in heard))
        await cancelled(call)
        assert is_tidy()
    assert counts(report) == (1, 1, 1)
    assert "reason=cancelled" in str(report.lost[0])


@pytest.mark.parametrize("mode", ["enforce", "observe"])
async def test_cancelled_while_it_is_sent(mode: str, paced: Make, serve: Make, Answer: Any) -> None:
    server, report = serve(Answer(silent=True)), Report()
    async with paced("dynamodb", server, report, mode=mode) as client:
        call = asyncio.create_task(client.list_tables())
        await until(lambda: server.requests)
        await cancelled(call)
        assert mode == "observe" or is_tidy()
    assert counts(report) == (1, 1, 1)
    assert "reason=cancelled" in str(report.lost[0])


async def test_cancelled_while_it_is_signed(paced: Make, serve: Make, answer: Make) -> None:
    """As credentials are refreshed then, over the network."""
    server, report, signing = serve(answer("dynamodb")), Report(), asyncio.Event()

    async def refresh(**_: Any) -> None:
        signing.set()
        await asyncio.Event().wait()

    async with paced("dynamodb", server, report) as client:
        client.meta.events.register("before-sign.dynamodb", refresh)
        call = asyncio.create_task(client.list_tables())
        await signing.wait()
        await cancelled(call)
        assert is_tidy()
    assert server.requests == []
    assert counts(report) == (1, 0, 1)


async def test_a_task_that_goes_on_after_its_call_was_cancelled_is_at_work_on_none(
    paced: Make, serve: Make, Answer: Any
) -> None:
    server, after = serve(Answer(silent=True)), []

    async def work(client: Any) -> None:
        with suppress(asyncio.CancelledError):
            await client.list_tables()
        after.append(CURRENT.get())

    async with paced("dynamodb", server) as client:
        task = asyncio.create_task(work(client))
        await until(lambda: server.requests)
        task.cancel()
        await task
    assert after == [None]


async def test_calls_made_while_another_is_signed_do_not_take_its_place(
    paced: Make, serve: Make, throttle: Make, answer: Make, clock: Any
) -> None:
    report, inside = Report(), Report()
    servers = serve(throttle("ec2"), answer("ec2")), serve(*[throttle("sts")] * 3, answer("sts"))
    async with paced("ec2", servers[0], report) as outer, paced("sts", servers[1], inside) as inner:

        async def ask(**_: Any) -> None:
            await inner.get_caller_identity()
            await asyncio.gather(*(inner.get_caller_identity() for _ in range(3)))

        outer.meta.events.register("before-sign.ec2", ask)
        await outer.describe_regions()
        assert CURRENT.get() is None
    assert (counts(report), report.total.throttled) == ((1, 2, 0), 1)
    assert (counts(inside), inside.total.throttled) == ((8, 11, 0), 3)
    assert [len(server.requests) for server in servers] == [2, 11]
    assert is_tidy()


async def test_twenty_that_are_out_of_time_leave_nothing_behind(paced: Make, serve: Make, Answer: Any, answer: Make) -> None:
    server, report = serve(Answer(silent=True)), Report()
    async with paced("dynamodb", server, report) as client:
        calls = [asyncio.create_task(client.list_tables()) for _ in range(20)]
        await until(lambda: server.requests)
        for call in calls:
            call.cancel()
        assert {type(end) for end in await asyncio.gather(*calls, return_exceptions=True)} == {asyncio.CancelledError}
        assert is_tidy()
        server.say(answer("dynamodb"))
        assert (await client.list_tables())["TableNames"] == []
    assert (report.total.calls, report.total.lost) == (21, 20)


async def test_each_task_has_its_own_history(create: Make, serve: Make, throttle: Make, clock: Any) -> None:
    servers = [serve(throttle("dynamodb")) for _ in range(2)]
    configuration = {"aws": {"max_retries": 2}}
    async with create("dynamodb", servers[0]) as one, create("dynamodb", servers[1]) as other:
        calls = [client.describe_table(TableName=f"t{n}") for client in (one, other) for n in range(10)]
        calls += [client.list_tables() for client in (one, other)]
        for client in (one, other):
            attach(client, configuration=configuration)
        errors = await asyncio.gather(*calls, return_exceptions=True)
    told = [history(error) for error in errors if isinstance(error, BaseException)]
    assert [each.call.partition("@")[0] for each in told if each] == [
        *["dynamodb:DescribeTable"] * 20,
        *["dynamodb:ListTables"] * 2,
    ]
    assert {len(each.attempts) for each in told if each} == {3}
    assert [len(server.requests) for server in servers] == [33, 33]


async def test_a_turn_too_late_is_the_sdks_error_at_once(paced: Make, serve: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("dynamodb", {"Retry-After": "1200"}))
    async with paced("dynamodb", server) as client:
        with pytest.raises(ClientError):
            await client.list_tables()
        with pytest.raises(EndpointConnectionError, match="no turn for") as caught:
            await client.list_tables()
    told = history(caught.value)
    assert told is not None
    assert (told.reason, told.attempts, len(server.requests)) == ("queue_timeout", (), 1)
    assert is_tidy()


async def test_a_round_of_the_same_tasks_loop_gets_one_attempt(create: Make, serve: Make, throttle: Make, clock: Any) -> None:
    server, report = serve(throttle("sts")), Report()
    async with create("sts", server) as client:
        attach(client, configuration={"aws": {"max_retries": 4}}, report=report)
        for _ in range(3):
            with pytest.raises(ClientError):
                await client.get_caller_identity()
    assert len(server.requests) == 5 + 2
    assert report.total.repeated == 2


async def test_a_page_of_a_listing_is_asked_again_and_not_the_whole(
    create: Make, serve: Make, Answer: Any, throttle: Make, clock: Any
) -> None:
    def page(number: int) -> Any:
        more = {"LastEvaluatedTableName": f"tab{number}"} if number < 4 else {}
        return Answer(200, json.dumps({"TableNames": [f"tab{number}"], **more}).encode())

    server = serve(*[each for number in range(5) for each in (throttle("dynamodb"), throttle("dynamodb"), page(number))])
    async with create("dynamodb", server) as client:
        attach(client, configuration={})
        found = [name async for each in client.get_paginator("list_tables").paginate() for name in each["TableNames"]]
    assert found == [f"tab{number}" for number in range(5)]
    assert len(server.requests) == 15
    assert len(clock.sleeps) == 10
