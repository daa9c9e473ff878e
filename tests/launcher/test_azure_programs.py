"""Azure programs of which not a line is changed, against a simulated Azure that throttles."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.wire
pytest.importorskip("aiohttp")
pytest.importorskip("azure.identity")
pytest.importorskip("azure.mgmt.resource.subscriptions")
simcloud = pytest.importorskip("cloudretry.simcloud")

TRIES = 7


@pytest.fixture(scope="module")
def azure() -> Iterator[Any]:
    with simcloud.simulated_azure(subscriptions=1, size=0.2, limits=simcloud.UNLIMITED) as cloud:
        yield cloud


@pytest.fixture(autouse=True)
def led_there(azure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    azure.reset()
    for name, value in azure.environment().items():
        monkeypatch.setenv(name, value)


def throttled(azure: Any, match: str, times: int) -> None:
    azure.inject(simcloud.Faults(match=match, kinds=("throttle",), times=times))


def asked(azure: Any, operation: str) -> list[str]:
    return [verdict.verdict for verdict in azure.log() if operation in verdict.operation]


SYNC = """
from azure.identity import DefaultAzureCredential
from azure.mgmt.resource.subscriptions import SubscriptionClient
with DefaultAzureCredential() as credential, SubscriptionClient(credential) as client:
    print([each.display_name for each in client.subscriptions.list()])
"""
AIO = """
import asyncio
from azure.identity.aio import DefaultAzureCredential
from azure.mgmt.resource.subscriptions.aio import SubscriptionClient
async def main():
    async with DefaultAzureCredential() as credential, SubscriptionClient(credential) as client:
        print([each.display_name async for each in client.subscriptions.list()])
asyncio.run(main())
"""


@pytest.mark.parametrize("text", [SYNC, AIO], ids=["sync", "aio"])
def test_a_program_is_retried_as_configured(run: Any, script: Any, azure: Any, text: str) -> None:
    throttled(azure, "Microsoft.Resources:GET subscriptions", TRIES - 1)
    result = run("--", sys.executable, script(text))
    assert (result.returncode, result.stdout, result.stderr) == (0, "['subscription-1']\n", "")
    assert asked(azure, "GET subscriptions") == ["throttled"] * (TRIES - 1) + ["accepted"]


@pytest.mark.parametrize("text", [SYNC, AIO], ids=["sync", "aio"])
def test_a_call_that_is_given_up_is_the_sdks_own_error_and_counted(
    run: Any, script: Any, azure: Any, text: str, tmp_path: Path
) -> None:
    throttled(azure, "Microsoft.Resources:GET subscriptions", 100)
    result = run("--report", str(tmp_path / "out"), "--", sys.executable, script(text))
    assert result.returncode == 1
    assert "azure.core.exceptions.HttpResponseError" in result.stderr
    assert asked(azure, "GET subscriptions") == ["throttled"] * TRIES
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    (listing,) = [each for each in report["operations"] if each["throttled"]]
    assert (listing["calls"], listing["throttled"], listing["lost"]) == (1, TRIES, 1)
    assert report["total"]["lost"] == len(report["lost"]) == 1


TOKEN = """
from azure.identity import EnvironmentCredential
print(bool(EnvironmentCredential().get_token("https://management.azure.com/.default").token))
"""


def test_the_pipelines_of_a_credential_have_few_retries(run: Any, script: Any, azure: Any) -> None:
    throttled(azure, "login:*", 100)
    result = run("--", sys.executable, script(TOKEN))
    assert "ClientAuthenticationError" in result.stderr
    assert [verdict.verdict for verdict in azure.log() if verdict.provider == "login"].count("throttled") == 4


EXISTING = """
import sys
import cloudretry
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import EnvironmentCredential
from azure.mgmt.resource.subscriptions import SubscriptionClient
credential = EnvironmentCredential()
client = SubscriptionClient(credential)
report = cloudretry.Report()
cloudretry.install(report=report)
if sys.argv[1] == "client":
    print([each.display_name for each in client.subscriptions.list()], report.total.throttled)
else:
    try:
        credential.get_token("https://management.azure.com/.default")
    except ClientAuthenticationError as error:
        print("given up", report.total.throttled)
"""


@pytest.mark.parametrize(
    ("kind", "match", "times", "printed"),
    [("client", "Microsoft.Resources:*", TRIES - 1, "['subscription-1']"), ("credential", "login:*", 4, "given up")],
)
def test_install_takes_what_was_made_before(azure: Any, script: Any, kind: str, match: str, times: int, printed: str) -> None:
    throttled(azure, match, times)
    result = subprocess.run([sys.executable, script(EXISTING), kind], capture_output=True, text=True, timeout=60, check=False)
    assert (result.stdout, result.returncode) == (f"{printed} {times}\n", 0), result.stderr
    assert azure.counters()["throttled"] == times


STORAGE = """
import sys
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient
with BlobServiceClient(sys.argv[1], credential="a2V5") as client:
    for call in (client.get_service_properties, lambda: list(client.get_container_client("some").list_blobs())):
        try:
            call()
        except HttpResponseError as error:
            print(error.status_code)
"""


def test_storages_clients_and_those_made_of_them(
    run: Any, script: Any, serve: Any, Answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("azure.storage.blob")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    busy = b"<?xml version='1.0'?><Error><Code>ServerBusy</Code><Message>no</Message></Error>"
    server = serve(Answer(503, busy, {"x-ms-error-code": "ServerBusy", "Content-Type": "application/xml"}))
    result = run("--fail-on-loss", "--", sys.executable, script(STORAGE), f"{server.url}/account")
    assert (result.returncode, result.stdout) == (3, "503\n503\n"), result.stderr
    assert len(server.requests) == 2 * TRIES
