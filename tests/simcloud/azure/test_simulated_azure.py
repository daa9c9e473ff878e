"""The context manager: what it yields, and that nothing of it stays behind."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import requests
from azure.core.exceptions import HttpResponseError
from azure.mgmt.resource.subscriptions import SubscriptionClient

import cloudretry
from cloudretry.errors import ConfigurationError, MissingExtra
from cloudretry.simcloud import (
    PUBLISHED_AZURE,
    AzureSettings,
    Faults,
    Limit,
    RetryAfter,
    SimulationFailed,
    run_simulated_azure,
    simulated_azure,
)
from cloudretry.simcloud import (
    azure as azure_package,
)

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAzure

HOME = str(Path(cloudretry.__file__).parents[1])


@pytest.mark.wire
def test_counters_and_reset(strict: SimulatedAzure, connect: Any) -> None:
    client = connect(strict, SubscriptionClient)

    def attempt() -> bool:
        try:
            return bool(list(client.subscriptions.list()))
        except HttpResponseError:
            return False

    assert [attempt() for _ in range(3)] == [True, False, False]
    who = {"subscription": "tenant", "principal": strict.principals[0]}
    row = {**who, "provider": "Microsoft.Resources", "operation": "GET subscriptions"}
    assert strict.counters() == {"accepted": 1, "throttled": 2, "rows": [row | {"accepted": 1, "throttled": 2}]}
    assert [line.verdict for line in strict.log()] == ["accepted", "throttled", "throttled"]
    strict.reset()
    assert strict.counters() == {"accepted": 0, "throttled": 0, "rows": []}
    assert strict.log() == []
    assert attempt()


@pytest.mark.wire
def test_its_own_pages_answer_by_both_schemes(strict: SimulatedAzure, connect: Any) -> None:
    list(connect(strict, SubscriptionClient).subscriptions.list())
    for url in (strict.url, strict.proxy):
        page = requests.get(f"{url}/_cloudretry/", verify=strict.ca_file, timeout=20).text
        assert "<h1>Simulated Azure</h1>" in page
        assert "GET subscriptions" in page
        assert "*: Once (Microsoft.Resources: GET subscriptions)" in page
        assert requests.get(f"{url}/_cloudretry/none", verify=strict.ca_file, timeout=20).status_code == 404


@pytest.mark.wire
def test_it_listens_on_loopback_alone(azure: SimulatedAzure) -> None:
    port = int(urlsplit(azure.url).port or 0)
    assert (azure.url, azure.proxy) == (f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port}")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


@pytest.mark.wire
def test_an_answer_comes_in_one_piece(strict: SimulatedAzure) -> None:
    head = f"GET /tenants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {strict.credential().token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(urlsplit(strict.url).port or 0)), timeout=20) as line:
        for status in (b"200", b"429"):
            line.sendall(head.encode())
            said, _, body = line.recv(65536).partition(b"\r\n\r\n")
            assert said.split()[1] == status
            assert len(body) == int(said.lower().partition(b"content-length: ")[2].split()[0]) > 0


@pytest.mark.wire
def test_who_says_nothing_keeps_nobody_waiting(azure: SimulatedAzure) -> None:
    address = ("127.0.0.1", int(urlsplit(azure.url).port or 0))
    silent = [socket.create_connection(address, timeout=20) for _ in range(20)]
    silent[0].sendall(b"CONNECT ")
    silent[1].sendall(b"\x16\x03")
    silent[2].sendall(b"C\r\n\r\n")
    try:
        assert silent[2].recv(100).startswith(b"HTTP/1.1 403 ")
        assert silent[2].recv(100) == b""
        assert azure.counters()["accepted"] == 0
    finally:
        for line in silent:
            line.close()
    assert azure.counters()["accepted"] == 0


def test_settings_survive_the_way_to_the_server() -> None:
    faults = (Faults(match="Microsoft.Compute", kinds=("cut", "slow"), rate=0.5, times=3, status=200, seconds=0.1), Faults())
    waits = (RetryAfter(match="login", seconds=2.5, headers=("Retry-After",)), RetryAfter())
    numbers = {
        "seed": 3,
        "subscriptions": 1,
        "principals": 2,
        "page_size": 7,
        "operation_polls": 0,
        "operation_wait": 5,
        "port": 1234,
    }
    shares = {"size": 0.5, "latency": 0.5, "token_seconds": 60.0, "locations": ("westus",)}
    varied: Any = {**numbers, **shares}
    settings = AzureSettings(limits=PUBLISHED_AZURE, faults=faults, retry_after=waits, **varied)
    assert AzureSettings.from_json(settings.to_json()) == settings
    assert "\n" not in settings.to_json()
    assert isinstance(settings.limits[0].limit, Limit)
    assert all(getattr(settings, field.name) != field.default for field in fields(AzureSettings) if field.name != "limits")


@pytest.mark.parametrize(
    "wrong",
    [
        {"subscriptions": 0},
        {"locations": ()},
        {"size": 0},
        {"principals": 0},
        {"page_size": 0},
        {"latency": math.inf},
        {"token_seconds": -1},
        {"operation_polls": -1},
        {"operation_wait": -1},
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        AzureSettings(**wrong)


def test_a_port_that_is_taken_is_named(azure: SimulatedAzure) -> None:
    taken = int(azure.url.rpartition(":")[2])
    said = rf"simulated Azure did not start:\nport {taken} of 127\.0\.0\.1 can't be used: Address already in use$"
    with pytest.raises(SimulationFailed, match=said), simulated_azure(port=taken):
        pass


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_package, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="simulate"), simulated_azure():
        pass


def test_nothing_stays_behind_and_the_same_seed_makes_the_same_again(azure: SimulatedAzure) -> None:
    settings = AzureSettings(subscriptions=2, size=0.25, principals=2)
    with run_simulated_azure(settings) as (running, process):
        assert process.poll() is None
        authority = Path(running.ca_file).read_text()
    assert process.poll() is not None
    assert not Path(running.ca_file).parent.exists()
    assert authority != Path(azure.ca_file).read_text()
    mine = (running.tenant, running.subscriptions, running.principals, running.resources, running.secret()["client_secret"])
    assert mine == (azure.tenant, azure.subscriptions, azure.principals, azure.resources, azure.secret()["client_secret"])


NEEDED = """
import sys
import cloudretry.simcloud
assert not {"aiohttp", "trustme", "moto", "cryptography", "azure"} & set(sys.modules)
"""


def test_importing_it_needs_nothing() -> None:
    environment = {**os.environ, "PYTHONPATH": HOME, "CLOUDRETRY_DISABLED": "1"}
    done = subprocess.run([sys.executable, "-c", NEEDED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
