"""A script's own retry loop around a call that was given up: the layers add, they don't multiply."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from cloudretry import Report, attach, history

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def in_vain(call: Callable[[], object]) -> None:
    with pytest.raises(ClientError):
        call()


def test_each_further_round_gets_one_attempt(serve: Make, hooked: Make, throttle: Make, clock: Any, caplog: Any) -> None:
    server = serve(throttle("sts"))
    report = Report()
    client = attach(hooked("sts", server, {"max_retries": 8}), report=report)
    with caplog.at_level(logging.WARNING, "cloudretry"):
        for _ in range(8):
            in_vain(client.get_caller_identity)
    assert len(server.requests) == 9 + 7
    assert (report.total.calls, report.total.attempts, report.total.lost, report.total.repeated) == (8, 16, 8, 7)
    assert [record.getMessage() for record in caplog.records if "comes again" in record.getMessage()] == [
        (
            "sts:GetCallerIdentity@key:581039954779/eu-west-1 was given up and comes again:"
            " a retry loop around it gets one attempt a round"
        )
    ]


def test_a_program_that_makes_a_client_for_each_round_is_recognised_too(serve: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    for _ in range(3):
        client = attach(boto3.client("sts", endpoint_url=server.url), configuration={"aws": {"max_retries": 4}})
        in_vain(client.get_caller_identity)
    assert len(server.requests) == 5 + 2


def test_what_the_caller_gets_in_a_further_round(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    client = hooked("sts", serve(throttle("sts")), {"max_retries": 2})
    in_vain(client.get_caller_identity)
    with pytest.raises(ClientError) as caught:
        client.get_caller_identity()
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("max_retries", 1)


def test_an_answer_ends_it(serve: Make, hooked: Make, throttle: Make, answer: Make, clock: Any) -> None:
    server = serve(*[throttle("sts")] * 3, answer("sts"), *[throttle("sts")] * 2, answer("sts"))
    client = hooked("sts", server, {"max_retries": 2})
    in_vain(client.get_caller_identity)
    client.get_caller_identity()
    client.get_caller_identity()
    assert len(server.requests) == 3 + 1 + 3


@pytest.mark.parametrize("seconds", [30, 119])
def test_pauses_between_the_rounds(seconds: int, serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    client = hooked("sts", server, {"max_retries": 3})
    for _ in range(3):
        in_vain(client.get_caller_identity)
        clock.advance(seconds)
    assert len(server.requests) == 4 + 1 + 1
    clock.advance(180)
    in_vain(client.get_caller_identity)
    assert len(server.requests) == 4 + 1 + 1 + 4


def test_other_parameters_are_another_call(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("ec2"))
    client = hooked("ec2", server, {"max_retries": 2})
    for name in ("one", "two", "one"):
        in_vain(lambda: client.describe_vpcs(Filters=[{"Name": "tag:Name", "Values": [name]}]))  # noqa: B023 - called at once
    assert len(server.requests) == 3 + 3 + 1


def test_another_account_is_no_next_round(serve: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    for key in ("AKIAIOSFODNN7EXAMPLE", "AKIAI44QH8DHBEXAMPLE"):
        session = boto3.Session(key, "fake-secret", region_name="eu-west-1")
        client = attach(session.client("sts", endpoint_url=server.url), configuration={"aws": {"max_retries": 3}})
        in_vain(client.get_caller_identity)
    assert len(server.requests) == 4 + 4


def test_other_threads_are_no_loop(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    client = hooked("sts", server, {"max_retries": 2})
    in_vain(client.get_caller_identity)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(in_vain, client.get_caller_identity).result()
        assert len(server.requests) == 3 + 3
        thread.submit(in_vain, client.get_caller_identity).result()
    assert len(server.requests) == 3 + 3 + 1


def test_bytes_and_streams(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("dynamodb"))
    client = hooked("dynamodb", server, {"max_retries": 1})
    for table in ("one", "one", "two"):
        in_vain(lambda: client.describe_table(TableName=table))  # noqa: B023 - called at once
    assert len(server.requests) == 2 + 1 + 2


def test_who_wants_single_attempts_is_not_spoken_to(serve: Make, hooked: Make, throttle: Make, clock: Any, caplog: Any) -> None:
    client = hooked("sts", serve(throttle("sts")), {"max_retries": 0})
    for _ in range(3):
        in_vain(client.get_caller_identity)
    assert "comes again" not in caplog.text
