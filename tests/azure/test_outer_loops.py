"""A script's own retry loop around a call that was given up: as for AWS, sync and aio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudretry import Report, history

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATH = "/subscriptions/aa/resourcegroups"
GRAPH = "/providers/Microsoft.ResourceGraph/resources"


def test_each_further_round_gets_one_attempt(serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server, report = serve(error()), Report()
    for _ in range(4):  # with a client of its own for each
        response = pipeline(server, {"max_retries": 5}, listeners=[report]).send("GET", PATH)
        assert response.status_code == 429
    told = history(response)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("max_retries", 1)
    assert len(server.requests) == 6 + 3
    assert (report.total.attempts, report.total.lost, report.total.repeated) == (9, 4, 3)


def test_an_answer_ends_it(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(*[error()] * 3, answer(), *[error()] * 2, answer())
    client = pipeline(server, {"max_retries": 2})
    assert [client.send("GET", PATH).status_code for _ in range(3)] == [429, 200, 200]
    assert len(server.requests) == 3 + 1 + 3


def test_other_queries_are_other_calls(serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    client = pipeline(server, {"max_retries": 1})
    for query in ("resources", "resources | take 1", "resources"):
        assert client.send("POST", GRAPH, json={"query": query}).status_code == 429
    assert len(server.requests) == 2 + 2 + 1


def test_pages_are_other_calls(serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    client = pipeline(server, {"max_retries": 1})
    for page in ("?$skiptoken=1", "?$skiptoken=2"):
        assert client.send("GET", PATH + page).status_code == 429
    assert len(server.requests) == 2 + 2
