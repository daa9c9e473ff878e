"""A streamed body that breaks off while the program reads it: recorded and told, as for boto3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudretry import Report, attach

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


@pytest.mark.parametrize("pool", [None, "p"])
async def test_a_body_that_breaks_off_is_told_once(serve: Make, create: Make, Answer: Any, pool: str | None) -> None:
    cut = Answer(200, b"x" * 2500, {"Content-Length": "5000"}, hang_up=True)
    server, report = serve(cut), Report()
    member = {"connect_to": server.url.removeprefix("http://")}
    through = {"aws": {"pool": pool}, "pools": {"p": {"members": [member]}}} if pool else None
    async with create("s3", "http://s3.cloud.test" if pool else server) as client:
        body = (await attach(client, report=report, configuration=through).get_object(Bucket="b", Key="k"))["Body"]
        with pytest.raises(Exception, match=r"ContentLength|Connection|IncompleteRead|payload|stream"):
            await body.read()
        body.close()
    assert (report.total.calls, report.total.lost, report.total.cut, len(server.requests)) == (1, 0, 1, 1)


async def test_of_a_whole_body_nothing_is_told(serve: Make, create: Make, Answer: Any) -> None:
    report = Report()
    async with create("s3", serve(Answer(200, b"x" * 5000))) as client:
        body = (await attach(client, report=report).get_object(Bucket="b", Key="k"))["Body"]
        assert b"".join([chunk async for chunk in body.iter_chunks(1000)]) == b"x" * 5000
    assert (report.total.calls, report.total.cut) == (1, 0)
