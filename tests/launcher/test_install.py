"""`cloudretry.install()`, from inside a program."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.wire

TRIES = 7


ASKED = """
import itertools
numbers = itertools.count()
def asked(client):
    try:
        client.get_access_key_info(AccessKeyId=f"AKIA{next(numbers):016}")  # another call each time
    except Exception as error:
        return error
"""


def ask(text: str, url: str) -> str:
    """What a program says; each in a process of its own, because what is installed stays."""
    whole = f"import sys\nurl = sys.argv[1]\n{ASKED}\n{text}"
    result = subprocess.run([sys.executable, "-c", whole, url], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout + "".join(line for line in result.stderr.splitlines(True) if not line.startswith("lost call "))


def test_before_an_sdk_is_imported_and_with_a_report(throttling: Any) -> None:
    text = (
        "import cloudretry\nreport = cloudretry.Report()\ncloudretry.install(report=report)\n"
        "assert 'botocore' not in sys.modules\nimport boto3\n"
        "error = asked(boto3.client('sts', endpoint_url=url))\n"
        "print(len(cloudretry.history(error).attempts), report.total.lost)"
    )
    assert ask(text, throttling.url) == "7 1\n"
    assert len(throttling.requests) == TRIES


def test_after_an_sdk_was_imported_and_clients_made(throttling: Any) -> None:
    text = (
        "import boto3, cloudretry\nboto3.setup_default_session()\nsession = boto3.Session()\n"
        "before = session.client('sts', endpoint_url=url)\ncloudretry.install()\n"
        "for client in (boto3.client('sts', endpoint_url=url), session.client('sts', endpoint_url=url), before):\n"
        "    print(cloudretry.history(asked(client)) is not None)"
    )
    assert ask(text, throttling.url) == "True\nTrue\nTrue\n"
    assert len(throttling.requests) == 3 * TRIES


ODD = """
class Unhashable(type):
    def __eq__(cls, other):
        return cls is other
class Raising(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)
class Lies:
    __class__ = property(lambda self: 1 / 0)
    __dict__ = property(lambda self: 1 / 0)
    __module__ = "azure.identity.odd"
odd = [kind("Odd", (), {"__slots__": ("one",)})() for kind in (Unhashable, Raising)] + [Lies()]
import azure.core.pipeline, azure.core.pipeline.transport
pipeline = azure.core.pipeline.Pipeline(azure.core.pipeline.transport.RequestsTransport())
"""


def test_whatever_there_is_in_a_programs_memory(throttling: Any) -> None:
    text = f"{ODD}import boto3, cloudretry\nclient = boto3.client('sts', endpoint_url=url)\ncloudretry.install()\nasked(client)"
    assert ask(text, throttling.url) == ""
    assert len(throttling.requests) == TRIES


def test_a_client_that_is_attached_already_keeps_its_configuration(throttling: Any) -> None:
    text = (
        "import boto3, cloudretry\nreports = [cloudretry.Report() for _ in range(3)]\n"
        "client = boto3.client('sts', endpoint_url=url)\n"
        "cloudretry.attach(client, configuration={'aws': {'max_retries': 1}}, report=reports[0])\n"
        "cloudretry.install(report=reports[1])\ncloudretry.install(report=reports[2])\nasked(client)\n"
        "print(*(report.total.attempts for report in reports))"
    )
    assert ask(text, throttling.url) == "2 2 0\n"
    assert len(throttling.requests) == 2


def test_twice_is_once_and_what_is_given_holds_for_later_clients(throttling: Any) -> None:
    text = (
        "import boto3, cloudretry\nreports = cloudretry.Report(), cloudretry.Report()\n"
        "cloudretry.install({'aws': {'max_retries': 1}}, report=reports[0])\n"
        "first = boto3.client('sts', endpoint_url=url)\n"
        "cloudretry.install({'aws': {'max_retries': 3}}, report=reports[1])\n"
        "second = boto3.client('sts', endpoint_url=url)\nasked(first)\nasked(second)\n"
        "print(*(report.total.attempts for report in reports))"
    )
    assert ask(text, throttling.url) == "6 4\n"
    assert len(throttling.requests) == 6


def test_inside_a_run_it_is_the_runs(run: Any, script: Any, throttling: Any) -> None:
    text = (
        "import sys\nimport boto3, cloudretry\nreport = cloudretry.Report()\ncloudretry.install(report=report)\n"
        "try:\n    boto3.client('sts', endpoint_url=sys.argv[1]).get_caller_identity()\nexcept Exception:\n"
        "    print(report.total.attempts)"
    )
    result = run("--fail-on-loss", "--", sys.executable, script(text), throttling.url)
    assert (result.returncode, result.stdout) == (3, "7\n")
    assert len(throttling.requests) == TRIES


def test_azure_sync_and_aio(serve: Any, Answer: Any) -> None:
    pytest.importorskip("aiohttp")
    server = serve(
        Answer(429, b'{"error": {"code": "TooManyRequests", "message": "no"}}', {"Content-Type": "application/json"})
    )
    text = (
        "import asyncio, cloudretry\nfrom azure.core import AsyncPipelineClient, PipelineClient\n"
        "from azure.core.pipeline.policies import AsyncRetryPolicy, RetryPolicy\nfrom azure.core.rest import HttpRequest\n"
        "report = cloudretry.Report()\ncloudretry.install(report=report)\n"
        "print(PipelineClient(url, policies=[RetryPolicy()]).send_request(HttpRequest('GET', url)).status_code)\n"
        "async def main():\n"
        "    async with AsyncPipelineClient(url, policies=[AsyncRetryPolicy()]) as client:\n"
        "        print((await client.send_request(HttpRequest('GET', url))).status_code)\n"
        "asyncio.run(main())\nprint(report.total.calls, report.total.lost)"
    )
    assert ask(text, server.url) == "429\n429\n2 2\n"
    assert len(server.requests) == 2 * TRIES


def test_switched_off_nothing_is_hooked(throttling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "1")
    said = ask("import boto3, cloudretry\ncloudretry.install()\nasked(boto3.client('sts', endpoint_url=url))", throttling.url)
    assert "CLOUDRETRY_DISABLED is set" in said
    assert len(throttling.requests) == 3


def test_a_configuration_that_is_refused_is_an_error_at_once() -> None:
    text = (
        "import cloudretry\ntry:\n    cloudretry.install({'aws': {'max_retries': -1}})\n"
        "except cloudretry.ConfigurationError:\n    print('refused')"
    )
    assert ask(text, "") == "refused\n"
