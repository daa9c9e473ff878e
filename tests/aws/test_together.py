"""Many calls at once, pages, waiters, and calls that are interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cloudretry import Report, attach

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def test_twenty_threads_on_one_client_get_their_answers(
    serve: Make, hooked: Make, throttle: Make, answer: Make, clock: Any
) -> None:
    server = serve(*[throttle("sts")] * 50, answer("sts"))
    client = hooked("sts", server, {"max_retries": 100, "time_budget": "24h"}, max_pool_connections=20)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: client.get_caller_identity()["Account"], range(40)))
    assert answers == ["111122223333"] * 40
    assert len(server.requests) == 40 + 50
    assert len(clock.sleeps) == 50


def test_a_page_in_the_middle_is_throttled_and_nothing_is_lost_or_doubled(
    serve: Make,
    hooked: Make,
    throttle: Make,
    clock: Any,
    Answer: Any,
) -> None:
    pages = [
        Answer(200, b'{"TableNames": ["tab%d"], "LastEvaluatedTableName": "tab%d"}' % (number, number)) for number in range(4)
    ] + [Answer(200, b'{"TableNames": ["tab4"]}')]
    server = serve(*pages[:2], *[throttle("dynamodb")] * 6, *pages[2:])
    client = hooked("dynamodb", server)
    names = [name for page in client.get_paginator("list_tables").paginate() for name in page["TableNames"]]
    assert names == ["tab0", "tab1", "tab2", "tab3", "tab4"]
    assert len(server.requests) == 5 + 6
    assert len(clock.sleeps) == 6


def test_a_waiter_survives_a_throttle(serve: Make, hooked: Make, throttle: Make, clock: Any, Answer: Any) -> None:
    active = Answer(200, b'{"Table": {"TableStatus": "ACTIVE"}}')
    server = serve(*[throttle("dynamodb")] * 5, active)
    hooked("dynamodb", server).get_waiter("table_exists").wait(TableName="t", WaiterConfig={"Delay": 0, "MaxAttempts": 1})
    assert len(server.requests) == 6
    assert len(clock.sleeps) == 5


def test_ctrl_c_ends_a_wait_at_once_and_the_client_goes_on(serve: Make, throttle: Make) -> None:
    server = serve(throttle("sts", {"Retry-After": "250"}))
    script = f"""
import boto3, cloudretry
client = cloudretry.attach(boto3.client("sts", endpoint_url="{server.url}"))
try:
    client.get_caller_identity()
except KeyboardInterrupt:
    print("interrupted")
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    arrived = threading.Event()
    while not server.requests and process.poll() is None:
        arrived.wait(0.02)
    for _ in range(400):  # the signal counts once the wait has begun; before that it would end the send, which is right too
        process.send_signal(signal.SIGINT)
        if arrived.wait(0.05) or process.poll() is not None:
            break
    assert process.communicate(timeout=10)[0].strip() == "interrupted"
    assert len(server.requests) == 1


def test_an_interrupt_during_a_wait_is_told_and_leaks_nothing(
    serve: Make, hooked: Make, throttle: Make, answer: Make, monkeypatch: pytest.MonkeyPatch, clock: Any
) -> None:
    report = Report()
    server = serve(throttle("sts"), answer("sts"))
    client = hooked("sts", server)
    attach(client, report=report)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(clock, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.get_caller_identity()
    assert (report.total.calls, report.total.lost) == (1, 1)
    assert "reason=cancelled" in str(report.lost[0])
    assert client.get_caller_identity()["Account"] == "111122223333"
    assert len(server.requests) == 2
