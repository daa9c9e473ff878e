"""Programs with aiobotocore, of which not a line is changed, and many of its tasks beside a simulated AWS."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cloudretry import Report, attach
from cloudretry.simcloud import Limit, Rule, simulated_aws
from tests.launcher.conftest import _short_waits, command, run, script

__all__ = ["_short_waits", "command", "run", "script"]  # fixtures

pytestmark = pytest.mark.wire

TRIES = 7  # max_retries + 1
ASK = """
import asyncio, sys
from aiobotocore.session import get_session

async def main():
    async with get_session().create_client("sts", endpoint_url=sys.argv[1]) as client:
        print((await client.get_caller_identity())["Account"])

{before}
asyncio.run(main())
"""


@pytest.fixture
def throttling(serve: Any, throttle: Any) -> Any:
    """An STS that throttles for ever."""
    return serve(throttle("sts"))


@pytest.fixture
def answering(serve: Any, throttle: Any, answer: Any) -> Any:
    """One that answers after all that we try."""
    return serve(*[throttle("sts")] * (TRIES - 1), answer("sts"))


def test_a_program_is_retried_as_configured_and_counted(run: Any, script: Any, throttling: Any, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    result = run("--report", str(folder), "--", sys.executable, script(ASK.format(before="")), throttling.url)
    assert len(throttling.requests) == TRIES
    assert f"reached max retries: {TRIES - 1}" in result.stderr
    assert "not hooked" not in result.stderr
    told = json.loads((folder / "report.json").read_text())
    assert [(row["calls"], row["attempts"], row["lost"]) for row in told["operations"]] == [(1, TRIES, 1)]


def test_what_the_retries_bring_is_what_the_program_gets(run: Any, script: Any, answering: Any) -> None:
    result = run("--", sys.executable, script(ASK.format(before="")), answering.url)
    assert (result.returncode, result.stdout, result.stderr) == (0, "111122223333\n", "")
    assert len(answering.requests) == TRIES


def test_install_reaches_them_too(script: Any, answering: Any) -> None:
    program = script(ASK.format(before="import cloudretry\ncloudretry.install()"))
    result = subprocess.run([sys.executable, program, answering.url], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (0, "111122223333\n"), result.stderr
    assert len(answering.requests) == TRIES


def test_install_takes_clients_that_exist(script: Any, answering: Any) -> None:
    text = """
import asyncio, sys
from aiobotocore.session import get_session

async def main():
    async with get_session().create_client("sts", endpoint_url=sys.argv[1]) as client:
        import cloudretry
        cloudretry.install()
        print((await client.get_caller_identity())["Account"])

asyncio.run(main())
"""
    result = subprocess.run(
        [sys.executable, script(text), answering.url], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stdout) == (0, "111122223333\n"), result.stderr
    assert len(answering.requests) == TRIES


async def test_many_tasks_beside_a_simulated_cloud_lose_nothing(create: Any) -> None:
    limits = (Rule(service="*", actions=("*",), limit=Limit(10, 50), source="this test"),)
    pace = {"pacing": {"mode": "adaptive"}, "base_delay": "50ms", "additional_delay_window": "10ms"}
    report = Report()
    with simulated_aws(accounts=1, regions=("eu-west-1",), size=0.25, limits=limits) as aws:
        async with create("ec2", aws) as client:
            attach(client, configuration={"aws": pace}, report=report)
            calls = [client.describe_vpcs() for _ in range(20)] + [client.describe_subnets() for _ in range(20)]
            answers = await asyncio.gather(*calls)
        counted = aws.counters()
    assert all(answer["ResponseMetadata"]["HTTPStatusCode"] == 200 for answer in answers)
    assert (report.total.calls, report.total.lost) == (40, 0)
    assert counted["accepted"] == 40
    assert counted["accepted"] + counted["throttled"] == report.total.attempts
