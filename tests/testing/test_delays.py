"""Trying a strategy in one line, by the machine that runs in production."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry.core.builtin import BUILTIN
from cloudretry.core.headers import asked_delay
from cloudretry.testing import RECORDED, backoff_context, delays

if TYPE_CHECKING:
    from cloudretry import BackoffContext


class Strategy:
    """Does what it is told, and remembers what it was told."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.contexts: list[BackoffContext] = []

    def getDelay(self, context: BackoffContext) -> Any:  # noqa: N802 - the name is the contract
        self.contexts.append(context)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


class Raising:
    def getDelay(self, context: BackoffContext) -> float:  # noqa: N802 - the name is the contract
        raise KeyError(context.error_code)


class Drawing:
    def get_delay(self, context: BackoffContext) -> float:
        return context.random.uniform(100, 1000)


class Awaiting:
    async def getDelay(self, context: BackoffContext) -> float:  # noqa: N802 - the name is the contract
        await asyncio.sleep(0)
        return 100.0 * context.retry_number


def test_the_waits_are_milliseconds() -> None:
    assert delays(Strategy(250, timedelta(seconds=1), 0), retries=3) == [250.0, 1000.0, 0.0]


def test_there_is_one_wait_for_each_retry() -> None:
    assert delays(Strategy(100)) == [100.0] * 5
    assert delays(Strategy(100), retries=0) == []


def test_none_is_where_the_call_is_given_up() -> None:
    assert delays(Strategy(100, 200, None), retries=5) == [100.0, 200.0, None]
    assert delays(Strategy(-1)) == [None]


def test_the_time_budget_holds() -> None:
    assert delays(Strategy(200_000)) == [200_000.0, None]


def test_a_fall_back_is_the_real_one_and_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    built_in = BUILTIN.providers["aws"].retry
    waits = delays(Raising(), retries=8)
    longest = (built_in.max_delay + built_in.additional_delay_window) * 1000
    assert all(wait is not None and 0 <= wait <= longest for wait in waits)
    assert len(waits) == 8
    assert caplog.text.count("getDelay() of plugin 'Raising'") == 1


def test_the_strategy_is_told_the_facts_and_the_course_of_the_call() -> None:
    strategy = Strategy(100, 200, 300)
    delays(strategy, retries=3, error_code="Throttling", service="iam", headers={"Retry-After": "2"})
    last = strategy.contexts[-1]
    assert (last.error_code, last.service, last.headers["retry-after"]) == ("Throttling", "iam", "2")
    assert [context.retry_number for context in strategy.contexts] == [1, 2, 3]
    assert last.previous_delays_ms == (100.0, 200.0)
    assert last.elapsed_ms == pytest.approx(300.0)
    assert last.max_retries == 3


def test_a_seed_gives_the_same_waits() -> None:
    assert delays(Drawing(), seed=1) == delays(Drawing(), seed=1) != delays(Drawing(), seed=2)


def test_an_async_strategy_is_run_to_its_end() -> None:
    assert delays(Awaiting(), retries=3) == [100.0, 200.0, 300.0]


@pytest.mark.parametrize("strategy", [object(), Strategy, lambda _context: 5], ids=["object", "class", "function"])
def test_what_has_no_getdelay_is_refused(strategy: object) -> None:
    with pytest.raises(TypeError, match=r"is not an object with getDelay\(context\)"):
        delays(strategy)


def test_a_context_and_facts_are_one_too_many() -> None:
    with pytest.raises(TypeError, match="not both"):
        delays(Strategy(1), context=backoff_context(), error_code="Throttling")


def test_a_context_is_made_of_a_few_facts() -> None:
    context = backoff_context(provider="azure", status=429, headers={"RETRY-AFTER": "3"}, retry_number=2)
    assert (context.status, context.headers["Retry-After"], context.retry_number) == (429, "3", 2)
    assert context.settings is BUILTIN.providers["azure"].retry
    with pytest.raises(FrozenInstanceError):
        context.status = 500  # type: ignore[misc]  # that is the point


def test_a_fact_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="weather"):
        backoff_context(weather="fine")


def test_a_context_s_draws_are_seeded() -> None:
    assert backoff_context(seed=3).random.random() == Random(3).random() == backoff_context(seed=3).random.random()


@pytest.mark.parametrize(("name", "context"), RECORDED.items(), ids=RECORDED)
def test_every_recorded_throttle_is_whole(name: str, context: BackoffContext) -> None:
    assert context.status is not None
    assert context.status >= 400
    assert context.service
    assert context.operation
    assert RECORDED[name].random.random() == context.random.random()
    assert delays(Strategy(100), context=context, retries=2) == [100.0, 100.0]


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("ec2-request-limit-exceeded", None),
        ("s3-slow-down", None),
        ("aws-retry-after-in-milliseconds", 1.5),
        ("arm-429-retry-after", 1.0),
        ("compute-twenty-minutes", 1200.0),
        ("resource-graph-quota-resets-after", 5.0),
        ("cost-management-qpu", 8.0),
    ],
)
def test_the_built_in_entries_read_what_the_recorded_throttles_ask_for(name: str, seconds: float | None) -> None:
    context = RECORDED[name]
    sources = BUILTIN.providers[context.provider].retry.response_header
    assert asked_delay(sources, context.headers, error_text=context.error_message, wall=0.0) == seconds
