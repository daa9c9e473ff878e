"""A streamed body that breaks off while the program reads it: recorded, told, never sent again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import IncompleteReadError, ResponseStreamingError

from cloudretry import Report, attach
from cloudretry.core.events import BodyCut
from cloudretry.report.completeness import completeness
from cloudretry.telemetry.journal import Journal, read_journal
from tests.aws.test_egress import address, pooled

__all__ = ["pooled"]  # a fixture

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATHS = Config(s3={"addressing_style": "path"})


@pytest.fixture(params=["alone", "through a pool"])
def client(request: pytest.FixtureRequest, plain: Make, pooled: Make) -> Make:
    """`client(server, report)` is S3's, whose calls leave so."""

    def make(server: Any, report: Report) -> Any:
        if request.param == "alone":
            return attach(plain("s3", server), report=report)
        return pooled([address(server)], "s3", "http://s3.cloud.test", report=report, config=PATHS)

    return make


@pytest.fixture
def cut(Answer: Any) -> Any:
    """An object of 5000 bytes, of which 2500 come."""
    return Answer(200, b"x" * 2500, {"Content-Length": "5000"}, hang_up=True)


def read(body: Any) -> bytes:
    return bytes(body.read())


def in_blocks(body: Any) -> bytes:
    return b"".join(body.iter_chunks(1000))


@pytest.mark.parametrize("how", [read, in_blocks])
def test_a_body_that_breaks_off_is_told_once(serve: Make, client: Make, cut: Any, how: Any, tmp_path: Path) -> None:
    server, events = serve(cut), []  # type: ignore[var-annotated]
    report = Report(Journal(tmp_path / "journal"), events.append)
    body = client(server, report).get_object(Bucket="b", Key="k")["Body"]
    with pytest.raises((IncompleteReadError, ResponseStreamingError)):
        how(body)
    assert (report.total.calls, report.total.lost, report.total.cut, len(server.requests)) == (1, 0, 1, 1)
    (told,) = [event for event in events if isinstance(event, BodyCut)]
    assert (told.call.operation, told.outcome.phase.value, told.outcome.code) == ("GetObject", "body", "reset")
    assert [entry.get("body", entry.get("ended")) for entry in read_journal(tmp_path / "journal")] == ["answered", "reset"]
    ((call, counts),) = report.operations.items()
    assert completeness([(None, None, call.operation, counts)]) == {"-": {"-": {"GetObject": "partial"}}}


def test_of_a_whole_body_nothing_is_told(serve: Make, client: Make, Answer: Any) -> None:
    report = Report()
    s3 = client(serve(Answer(200, b"x" * 5000)), report)
    assert len(s3.get_object(Bucket="b", Key="k")["Body"].read()) == 5000
    with s3.get_object(Bucket="b", Key="k")["Body"] as raw:
        raw.read(10)  # and no more
    assert (report.total.calls, report.total.cut) == (2, 0)
