"""What a program's own loop got in the end is no hole; what it never got is."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from cloudretry import Report, attach
from cloudretry.report.completeness import completeness

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def in_vain(call: Callable[[], object]) -> None:
    with pytest.raises((ClientError, HTTPClientError, EndpointConnectionError)):
        call()


def sums(report: Report) -> tuple[int, int, int]:
    return report.total.calls, report.total.lost, report.total.recovered


@pytest.fixture
def loop(serve: Make, hooked: Make, clock: Any) -> Make:
    """`loop(answers, settings)` is an STS client that gets these, and its report."""

    def make(answers: Any, settings: Any) -> tuple[Any, Report]:
        report = Report()
        return attach(hooked("sts", serve(*answers), settings), report=report), report

    return make


def test_a_loop_that_succeeds_leaves_no_loss(loop: Make, throttle: Make, answer: Make) -> None:
    client, report = loop([*[throttle("sts")] * 4, answer("sts")], {"max_retries": 2})
    in_vain(client.get_caller_identity)
    in_vain(client.get_caller_identity)
    assert (sums(report), len(report.lost)) == ((2, 2, 0), 2)
    client.get_caller_identity()
    assert (sums(report), report.lost) == ((3, 0, 2), ())
    assert [(lost.reason, lost.attempts) for lost in report.recovered] == [("max_retries", 3), ("max_retries", 1)]
    report.raise_if_lost()
    told = completeness((call.account, call.region, call.operation, counts) for call, counts in report.operations.items())
    assert told == {"-": {"eu-west-1": {"GetCallerIdentity": "complete"}}}


@pytest.mark.parametrize("how", ["single attempts", "a lost connection", "a pause that is too long"])
def test_however_it_was_lost(loop: Make, throttle: Make, answer: Make, Answer: Any, how: str) -> None:
    first, settings = {
        "single attempts": (throttle("sts"), {"max_retries": 0}),
        "a lost connection": (Answer(reset=True), {"transient_errors": False}),
        "a pause that is too long": (throttle("sts", {"Retry-After": "4000"}), {}),
    }[how]
    client, report = loop([first, answer("sts")], settings)
    in_vain(client.get_caller_identity)
    client.get_caller_identity()
    assert sums(report) == (2, 0, 1)


def test_another_call_recovers_nothing(loop: Make, throttle: Make, Answer: Any) -> None:
    result = b"<GetAccessKeyInfoResult><Account>1</Account></GetAccessKeyInfoResult>"
    info = b"<GetAccessKeyInfoResponse>%b</GetAccessKeyInfoResponse>" % result
    client, report = loop([throttle("sts"), Answer(200, info)], {"max_retries": 0})
    in_vain(lambda: client.get_access_key_info(AccessKeyId="AKIA0000000000000001"))
    client.get_access_key_info(AccessKeyId="AKIA0000000000000002")
    assert sums(report) == (2, 1, 0)


def test_later_than_two_minutes_it_is_another_call(loop: Make, throttle: Make, answer: Make, clock: Any) -> None:
    client, report = loop([throttle("sts"), answer("sts")], {"max_retries": 0})
    in_vain(client.get_caller_identity)
    clock.advance(121)
    client.get_caller_identity()
    assert sums(report) == (2, 1, 0)


def test_a_refusal_is_no_recovery(loop: Make, throttle: Make, error: Make) -> None:
    client, report = loop([throttle("sts"), error(403, "AccessDenied")], {"max_retries": 0})
    in_vain(client.get_caller_identity)
    in_vain(client.get_caller_identity)
    assert (sums(report), report.total.denied) == ((2, 1, 0), 1)


def test_threads_recover_their_own_losses(loop: Make, throttle: Make, answer: Make) -> None:
    """Each of eight threads loses two calls; then all but one are answered."""
    client, report = loop([*[throttle("sts")] * 16, answer("sts")], {"max_retries": 0})
    lost = Barrier(8)

    def program(number: int) -> None:
        in_vain(client.get_caller_identity)
        in_vain(client.get_caller_identity)
        lost.wait()
        if number:
            client.get_caller_identity()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(program, range(8)))
    assert sums(report) == (23, 2, 14)
    assert (len(report.lost), len(report.recovered)) == (2, 14)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_recovers_nothing_of_its_parents(loop: Make, throttle: Make, answer: Make) -> None:
    client, report = loop([throttle("sts"), answer("sts")], {"max_retries": 0})
    in_vain(client.get_caller_identity)
    child = os.fork()
    if child == 0:
        wrong = 9
        try:
            client.get_caller_identity()
            wrong = sums(report) != (2, 1, 0)
        finally:
            os._exit(wrong)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.get_caller_identity()
    assert sums(report) == (2, 0, 1)
