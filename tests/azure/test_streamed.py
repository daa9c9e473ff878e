"""A streamed body that breaks off while the program reads it: recorded and told, as for AWS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudretry import Report

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATH = "/container/blob"


@pytest.mark.parametrize("pool", [None, "p"])
def test_a_body_that_breaks_off_is_told_once(
    serve: Make, pipeline: Make, Answer: Any, pool: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pools.json").write_text('{"pools": {"p": {"members": [{"direct": true}], "bypass": []}}}')
    monkeypatch.setenv("CLOUDRETRY_CONFIG", str(tmp_path / "pools.json"))
    server, report = serve(Answer(200, b"x" * 2500, {"Content-Length": "5000"}, hang_up=True)), Report()
    settings = {"pool": pool} if pool else {}
    with pytest.raises(Exception, match=r"(?i)payload|incomplete|broken"):  # whose it is depends on azure-core
        pipeline(server, settings, listeners=[report]).send("GET", PATH, stream=True)
    assert (report.total.calls, report.total.lost, report.total.cut, len(server.requests)) == (1, 0, 1, 1)


def test_of_a_whole_body_nothing_is_told(serve: Make, pipeline: Make, Answer: Any) -> None:
    report = Report()
    sent = pipeline(serve(Answer(200, b"x" * 5000)), listeners=[report]).send("GET", PATH, stream=True)
    assert (len(sent.content), report.total.calls, report.total.cut) == (5000, 1, 0)
