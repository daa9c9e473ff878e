"""What follows from each attempt: SPEC A1 (counts, budgets, codes), A3 (fall-back, limits), A4 (Ask), C3 (sending again)."""

from __future__ import annotations

import copy
import pickle
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.core.builtin import PRESETS
from cloudretry.core.call import Call
from cloudretry.core.decision import Ask, Decision, Retry, RetryReason, Source, Stop, StopReason
from cloudretry.core.headers import Headers, HeaderSource, Unit
from cloudretry.core.machine import ANSWERED, RetryMachine
from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.core.settings import RetrySettings

READ = Call(provider="aws", service="ec2", operation="DescribeInstances", region="eu-west-1", replayable=True)
WRITE = Call(provider="aws", service="ec2", operation="RunInstances", region="eu-west-1")
RETRY_AFTER = (HeaderSource("retry-after", Unit.SECONDS),)
NOTHING_WRITTEN = [Phase.DNS, Phase.CONNECT, Phase.PROXY_HANDSHAKE, Phase.TLS]


class Highest(Random):
    def uniform(self, a: float, b: float) -> float:
        return b


def start(call: Call = READ, rng: Random | None = None, **changes: Any) -> RetryMachine:
    changes.setdefault("strategy", "exponential")
    return RetryMachine(call, RetrySettings(**changes), started=100.0, rng=rng or Random(1))


def throttled(status: int = 503, code: str = "RequestLimitExceeded", **facts: Any) -> Outcome:
    headers = Headers(facts.pop("headers", {}))
    return Outcome(kind=Kind.THROTTLED, status=status, code=code, headers=headers, wall=1000.0, **facts)


def broken(status: int | None = 500, **facts: Any) -> Outcome:
    return Outcome(kind=Kind.TRANSIENT, status=status, code="InternalError", wall=1000.0, **facts)


def unsent(phase: Phase = Phase.CONNECT) -> Outcome:
    return Outcome(kind=Kind.NOT_SENT, phase=phase, code="EndpointConnectionError", wall=1000.0)


def fatal(status: int = 404, code: str = "NoSuchThing") -> Outcome:
    return Outcome(kind=Kind.FATAL, status=status, code=code, wall=1000.0)


def reasons(machine: RetryMachine, *outcomes: Outcome) -> list[str]:
    return [step.reason.value for step in map(decided(machine), outcomes)]


def decided(machine: RetryMachine) -> Any:
    def record(outcome: Outcome) -> Decision:
        step = machine.record(outcome, 100.0)
        assert not isinstance(step, Ask)
        return step

    return record


# counts


@pytest.mark.parametrize("retries", [0, 1, 8])
def test_a_call_makes_at_most_max_retries_plus_one_attempts(retries: int) -> None:
    machine = start(max_retries=retries, time_budget=1e9)
    assert reasons(machine, *[throttled()] * (retries + 1)) == ["throttled"] * retries + ["max_retries"]
    assert machine.attempts == retries + 1
    assert machine.ended == Stop(StopReason.MAX_RETRIES)


def test_an_answer_ends_a_call() -> None:
    machine = start()
    decided(machine)(throttled())
    machine.answered()
    assert machine.ended is ANSWERED
    assert machine.attempts == 2


def test_transient_retries_have_a_limit_of_their_own_and_share_the_count_n() -> None:
    machine = start(
        max_retries=8, transient_retries=3, base_delay=1.0, max_delay=1000.0, additional_delay_window=0.0, rng=Highest()
    )
    record = decided(machine)
    waits = [record(outcome).delay for outcome in (broken(), throttled(), broken(), throttled(), unsent())]
    assert waits == [1.0, 3.0, 7.0, 15.0, 31.0]
    assert record(throttled()).delay == 63.0
    assert record(broken()) == Stop(StopReason.TRANSIENT_RETRIES)


def test_transient_retries_count_in_max_retries() -> None:
    assert reasons(start(max_retries=2), broken(), throttled(), throttled()) == ["transient", "throttled", "max_retries"]


# the time budget


def test_a_sleep_that_would_end_past_the_budget_is_not_begun() -> None:
    machine = start(base_delay=1.0, max_delay=1000.0, additional_delay_window=0.0, time_budget=11.0, rng=Highest())
    assert reasons(machine, *[throttled()] * 4) == ["throttled", "throttled", "throttled", "time_budget"]
    assert machine.waited == 11.0


@settings(derandomize=True, deadline=None)
@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 1e4), st.integers(0, 40), st.integers(0, 99))
def test_no_call_waits_longer_than_its_budget(budget: float, base: float, window: float, retries: int, seed: int) -> None:
    machine = start(base_delay=base, additional_delay_window=window, time_budget=budget, max_retries=retries, rng=Random(seed))
    record = decided(machine)
    waits = []
    while isinstance(step := record(throttled()), Retry):
        waits.append(step.delay)
    assert sum(waits) == machine.waited <= budget
    assert len(waits) <= retries


def test_a_plugin_s_wait_is_bound_by_the_budget_too() -> None:
    machine = start(strategy="custom", time_budget=5.0)
    machine.record(throttled(), 100.0)
    assert machine.answer(5.1) == Stop(StopReason.TIME_BUDGET)


# response headers


def header_machine(**changes: Any) -> RetryMachine:
    return start(strategy="response_header", response_header=RETRY_AFTER, **changes)


def test_the_published_example_waits_two_to_three_and_a_half_seconds_for_a_retry_after_of_two() -> None:
    waits = []
    for seed in range(300):
        machine = RetryMachine(READ, PRESETS["example"]["aws"], started=0.0, rng=Random(seed))
        step = machine.record(throttled(status=429, headers={"Retry-After": "2"}), 0.0)
        assert isinstance(step, Retry)
        assert step.source is Source.RESPONSE_HEADER
        waits.append(step.delay)
    assert 2.0 <= min(waits) < 2.1
    assert 3.4 < max(waits) <= 3.5


def test_a_header_of_zero_gets_the_window() -> None:
    machine = header_machine(additional_delay_window=1.5, rng=Highest())
    assert decided(machine)(throttled(headers={"Retry-After": "0"})) == Retry(
        1.5, RetryReason.THROTTLED, Source.RESPONSE_HEADER
    )


@pytest.mark.parametrize("value", [None, "", "-1", "NaN", "inf", "soon"])
def test_an_unreadable_header_falls_back_to_exponential_for_this_attempt_and_is_counted(value: str | None) -> None:
    machine = header_machine(base_delay=1.0, additional_delay_window=0.0, rng=Highest())
    headers = {} if value is None else {"Retry-After": value}
    assert decided(machine)(throttled(headers=headers)) == Retry(1.0, RetryReason.THROTTLED, Source.FALLBACK)
    assert decided(machine)(throttled(headers={"Retry-After": "2"})).source is Source.RESPONSE_HEADER
    assert [attempt.source for attempt in machine.history().attempts] == ["fallback", "response_header"]


def test_a_header_that_asks_for_too_long_stops_the_call_at_once_and_tells_until_when() -> None:
    machine = header_machine(max_header_delay=300.0)
    assert decided(machine)(throttled(headers={"Retry-After": "301"})) == Stop(StopReason.MAX_HEADER_DELAY, 301.0)
    moment = machine.history().retry_at
    assert moment is not None
    assert moment.timestamp() == 1301.0


def test_the_longest_permitted_header_is_waited_for() -> None:
    assert isinstance(decided(header_machine(max_header_delay=300.0))(throttled(headers={"Retry-After": "300"})), Retry)


def test_a_moment_beyond_the_calendar_is_no_moment() -> None:
    machine = header_machine()
    stop = decided(machine)(throttled(headers={"Retry-After": "9" * 60}))
    assert stop.reason is StopReason.MAX_HEADER_DELAY
    assert machine.history().retry_at is None


def test_a_stop_for_another_reason_tells_what_the_provider_asked_for() -> None:
    machine = header_machine(max_retries=0)
    assert decided(machine)(throttled(headers={"Retry-After": "7"})) == Stop(StopReason.MAX_RETRIES, 7.0)


def test_exponential_does_not_look_at_headers() -> None:
    machine = start(response_header=RETRY_AFTER)
    assert decided(machine)(throttled(headers={"Retry-After": "100000"})).source is Source.EXPONENTIAL


# response_codes


def test_the_word_throttling_stands_for_the_classifier() -> None:
    assert reasons(start(), throttled(status=400, code="Throttling")) == ["throttled"]
    assert reasons(start(), fatal(429, "SomethingElse")) == ["not_retryable"]


@pytest.mark.parametrize("codes", [{429}, {"RateExceeded"}, {429, "throttling"}, {"RateExceeded", "throttling"}])
def test_statuses_and_codes_count_as_throttled(codes: set[int | str]) -> None:
    machine = start(WRITE, response_codes=frozenset(codes))
    assert reasons(machine, fatal(429, "RateExceeded")) == ["throttled"]


def test_a_list_without_the_word_replaces_the_classifier() -> None:
    codes = frozenset({429})
    assert reasons(start(response_codes=codes), throttled(status=400, code="Throttling")) == ["not_retryable"]
    assert reasons(start(response_codes=codes), throttled(status=429, code="Throttling")) == ["throttled"]


def test_a_throttle_that_no_longer_counts_as_one_is_still_a_503() -> None:
    codes = frozenset({429})
    assert reasons(start(response_codes=codes), throttled(status=503)) == ["transient"]
    assert reasons(start(WRITE, response_codes=codes), throttled(status=503)) == ["not_replayable"]


def test_the_code_throttling_of_aws_is_not_the_word() -> None:
    codes: frozenset[int | str] = frozenset({"Throttling"})
    assert reasons(start(response_codes=codes), throttled(status=400, code="ThrottlingException")) == ["not_retryable"]


def test_an_exception_s_name_among_the_codes_does_not_send_a_write_twice() -> None:
    lost = Outcome(kind=Kind.TRANSIENT, phase=Phase.WAIT, code="ReadTimeoutError")
    codes: frozenset[int | str] = frozenset({"ReadTimeoutError", "throttling"})
    assert reasons(start(WRITE, response_codes=codes), lost) == ["not_replayable"]


# what may be sent again


@pytest.mark.parametrize("phase", NOTHING_WRITTEN)
@pytest.mark.parametrize("call", [READ, WRITE], ids=["read", "write"])
def test_what_was_not_sent_is_sent_again_whatever_it_is(call: Call, phase: Phase) -> None:
    assert reasons(start(call), unsent(phase)) == ["not_sent"]


def test_what_the_server_may_have_seen_is_sent_again_only_if_replayable() -> None:
    assert reasons(start(READ), broken()) == ["transient"]
    assert reasons(start(WRITE), broken()) == ["not_replayable"]


def test_a_throttled_write_was_refused_and_is_sent_again() -> None:
    assert reasons(start(WRITE), throttled()) == ["throttled"]


def test_without_transient_errors_only_throttles_are_retried() -> None:
    machine = start(transient_errors=False)
    assert reasons(machine, throttled(), broken()) == ["throttled", "not_retryable"]
    assert reasons(start(transient_errors=False), unsent()) == ["not_retryable"]


def test_a_refusal_is_final() -> None:
    assert reasons(start(), fatal()) == ["not_retryable"]


@pytest.mark.parametrize("outcome", [throttled(), broken()], ids=["throttled", "broken"])
def test_a_body_that_cannot_be_rewound_is_not_sent_again(outcome: Outcome) -> None:
    machine = start()
    machine.rewindable = False
    assert reasons(machine, outcome) == ["body_not_rewindable"]


@pytest.mark.parametrize("phase", NOTHING_WRITTEN)
def test_a_body_of_which_nothing_was_read_is_sent(phase: Phase) -> None:
    machine = start(WRITE)
    machine.rewindable = False
    assert reasons(machine, unsent(phase)) == ["not_sent"]


def test_a_body_that_cannot_be_rewound_does_not_hide_a_refusal() -> None:
    machine = start(WRITE)
    machine.rewindable = False
    assert reasons(machine, fatal()) == ["not_retryable"]


def test_what_the_adapter_knows_to_be_the_end_is_the_end() -> None:
    assert reasons(start(), throttled(stop=StopReason.UNREACHABLE)) == ["unreachable"]


# a user's strategy


def test_a_throttle_asks_the_user_s_strategy_and_tells_it_all() -> None:
    machine = start(strategy="custom", plugin="mine", max_retries=4)
    machine.record(throttled(), 100.5)
    machine.answer(0.25)
    exception = ValueError("x")
    step = machine.record(throttled(headers={"Retry-After": "9"}, message="slow", exception=exception), 101.0)
    assert isinstance(step, Ask)
    told = step.context
    assert (told.provider, told.service, told.operation, told.region) == ("aws", "ec2", "DescribeInstances", "eu-west-1")
    assert (told.retry_number, told.max_retries, told.elapsed_ms, told.previous_delays_ms) == (2, 4, 1000.0, (250.0,))
    assert (told.status, told.error_code, told.error_message) == (503, "RequestLimitExceeded", "slow")
    assert told.headers["RETRY-AFTER"] == "9"
    assert told.exception is exception
    assert told.settings is machine.settings


def test_the_strategy_s_answer_is_used_as_it_is() -> None:
    machine = start(strategy="custom", additional_delay_window=5.0)
    machine.record(throttled(), 100.0)
    assert machine.answer(0.0) == Retry(0.0, RetryReason.THROTTLED, Source.PLUGIN)
    machine.record(throttled(), 100.0)
    assert machine.answer(2.5) == Retry(2.5, RetryReason.THROTTLED, Source.PLUGIN)


def test_the_strategy_may_stop_the_call() -> None:
    machine = start(strategy="custom")
    machine.record(throttled(), 100.0)
    assert machine.answer(None) == Stop(StopReason.PLUGIN)
    assert machine.history().reason == "plugin"


def test_without_a_usable_answer_the_attempt_falls_back() -> None:
    machine = start(strategy="custom", base_delay=1.0, additional_delay_window=0.0, rng=Highest())
    machine.record(throttled(), 100.0)
    assert machine.fall_back() == Retry(1.0, RetryReason.THROTTLED, Source.FALLBACK)


def test_a_lost_connection_never_asks_the_strategy() -> None:
    assert isinstance(start(strategy="custom").record(unsent(), 100.0), Retry)
    assert isinstance(start(strategy="custom").record(broken(), 100.0), Retry)


def test_the_strategy_is_not_asked_when_no_retry_is_left() -> None:
    assert start(strategy="custom", max_retries=0).record(throttled(), 100.0) == Stop(StopReason.MAX_RETRIES)


# cancelling and observing


def test_a_cancelled_wait_stays_in_the_history() -> None:
    machine = start()
    delay = decided(machine)(throttled()).delay
    assert machine.cancel() == Stop(StopReason.CANCELLED)
    history = machine.history()
    assert history.reason == "cancelled"
    assert [attempt.delay for attempt in history.attempts] == [delay]


def test_an_attempt_that_was_interrupted_counts_and_has_no_outcome() -> None:
    machine = start()
    decided(machine)(throttled())
    machine.interrupt()
    assert machine.attempts == 2
    assert [attempt.number for attempt in machine.history().attempts] == [1]
    assert machine.history().reason == "cancelled"


def test_an_attempt_whose_strategy_was_cancelled_stays_in_the_history() -> None:
    machine = start(strategy="custom")
    machine.record(throttled(), 100.0)
    machine.cancel()
    assert [(attempt.number, attempt.delay) for attempt in machine.history().attempts] == [(1, None)]


def test_observing_notes_and_leaves_the_decision_to_the_sdk() -> None:
    machine = start(response_header=RETRY_AFTER)
    machine.observe(throttled(headers={"Retry-After": "7"}))
    machine.observe(throttled())
    assert machine.ended == Stop(StopReason.SDK)
    assert machine.attempts == len(machine.history().attempts) == 2
    machine.answered()
    assert machine.ended is ANSWERED


def test_the_same_seed_gives_the_same_waits() -> None:
    first, second, other = (
        [decided(machine)(throttled()).delay for _ in range(5)]
        for machine in (start(rng=Random(4)), start(rng=Random(4)), start(rng=Random(5)))
    )
    assert first == second != other


# a machine rides on its request, which the SDKs copy and pickle


def test_a_copied_request_belongs_to_the_same_call() -> None:
    machine = start()
    assert copy.deepcopy({"request": machine})["request"] is machine


def test_a_machine_does_not_reach_another_process() -> None:
    assert pickle.loads(pickle.dumps({"request": start()})) == {"request": None}  # noqa: S301 - our own
