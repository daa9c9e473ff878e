"""Tokens: who may ask, azure-identity against the token endpoints, and unmodified programs through the proxy."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import ClientSecretCredential, CredentialUnavailableError, ManagedIdentityCredential
from azure.identity.aio import ClientSecretCredential as AioClientSecretCredential
from azure.mgmt.resource.resources import ResourceManagementClient

import cloudretry
from cloudretry.simcloud import Faults
from cloudretry.simcloud.azure.directory import Directory

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAzure

SCOPE = "https://management.azure.com/.default"
HOME = str(Path(cloudretry.__file__).parents[1])


def claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    read: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return read


def get(azure: SimulatedAzure, **headers: str) -> requests.Response:
    path = f"/subscriptions/{azure.subscriptions[0]}/resourcegroups?api-version=2025-04-01"
    return requests.get(azure.url + path, headers=headers, verify=azure.ca_file, timeout=20)


@pytest.mark.wire
@pytest.mark.parametrize(
    ("headers", "code", "said"),
    [
        ({}, "AuthenticationFailed", "missing"),
        ({"Authorization": "Basic abc"}, "AuthenticationFailed", "missing"),
        ({"Authorization": "Bearer of.somebody.else"}, "InvalidAuthenticationToken", "invalid"),
    ],
)
def test_nobody_asks_without_a_token(azure: SimulatedAzure, headers: dict[str, str], code: str, said: str) -> None:
    answer = get(azure, **headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, code)
    assert answer.headers["WWW-Authenticate"].startswith('Bearer authorization_uri="https://login.microsoftonline.com/')
    assert [(line.verdict, line.principal, line.done) for line in azure.log()] == [("unauthorized", "unknown", said)]


def test_a_token_is_good_until_its_time_is_over() -> None:
    directory = Directory("tenant", 2, 0, now=1000.0)
    first, second = directory.principals.values()
    assert directory.caller(f"Bearer {first.token}", 1000.0)[0] == first.client_id != second.client_id
    assert directory.caller(f"bearer {second.token}", second.expires_on - 1)[0] == second.client_id
    assert directory.caller(f"Bearer {first.token}", first.expires_on) == ("", "expired")


def test_the_seed_decides_ids_and_secrets() -> None:
    made = [Directory("tenant", 2, seed, now=0.0).page() for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


@pytest.mark.wire
def test_a_client_secret_credential_asks_once(azure: SimulatedAzure) -> None:
    options = azure.client_options()
    with ClientSecretCredential(**azure.secret(azure.principals[1])) as credential:
        with ResourceManagementClient(credential, azure.subscriptions[0], retry_total=0, **options) as client:
            assert list(client.resource_groups.list())
        found = claims(credential.get_token(SCOPE).token)
    assert (found["appid"], found["tid"], found["aud"]) == (azure.principals[1], azure.tenant, "https://management.azure.com")
    told = [(line.provider, line.operation) for line in azure.log() if line.provider == "login"]
    assert told == [("login", "GET openid-configuration"), ("login", "POST token")]
    assert {line.principal for line in azure.log() if line.operation == "GET resourceGroups"} == {azure.principals[1]}


@pytest.mark.wire
def test_its_aio_twin(azure: SimulatedAzure) -> None:
    async def ask() -> str:
        async with AioClientSecretCredential(**azure.secret()) as credential:
            return (await credential.get_token(SCOPE)).token

    assert claims(asyncio.run(ask()))["appid"] == azure.principals[0]


@pytest.mark.wire
@pytest.mark.parametrize(
    ("wrong", "code"), [({"client_secret": "no"}, "AADSTS7000215"), ({"client_id": "11111111-no"}, "AADSTS700016")]
)
def test_a_wrong_secret_gets_no_token(azure: SimulatedAzure, wrong: dict[str, str], code: str) -> None:
    secret: Any = {**azure.secret(), **wrong}
    with ClientSecretCredential(**secret) as credential, pytest.raises(ClientAuthenticationError, match=code):
        credential.get_token(SCOPE)


@pytest.mark.wire
def test_a_throttled_token_endpoint(azure: SimulatedAzure) -> None:
    azure.inject(Faults(match="login:POST token", kinds=("throttle",), times=2, seconds=0.2))
    secret: Any = azure.secret()
    with (
        ClientSecretCredential(**secret, retry_total=0) as credential,
        pytest.raises(ClientAuthenticationError, match="AADSTS90055"),
    ):
        credential.get_token(SCOPE)
    assert azure.counters()["throttled"] == 1


@pytest.mark.wire
def test_a_managed_identity(azure: SimulatedAzure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", azure.environment()["AZURE_POD_IDENTITY_AUTHORITY_HOST"])
    with ManagedIdentityCredential() as credential:
        assert claims(credential.get_token(SCOPE).token)["appid"] == azure.principals[0]
    azure.inject(Faults(match="imds", kinds=("throttle",)))
    with ManagedIdentityCredential(retry_total=0) as credential, pytest.raises(CredentialUnavailableError):
        credential.get_token(SCOPE)
    assert [line.verdict for line in azure.log() if line.provider == "imds"][:2] == ["accepted", "throttled"]


@pytest.mark.wire
def test_a_machine_is_asked_through_the_proxy_too(azure: SimulatedAzure) -> None:
    url, proxies = "http://169.254.169.254/metadata/identity/oauth2/token?resource=https://x", {"http": azure.proxy}
    answer = requests.get(url, headers={"Metadata": "true"}, proxies=proxies, timeout=20)
    assert claims(answer.json()["access_token"])["aud"] == "https://x"
    assert requests.get(url, proxies=proxies, timeout=20).status_code == 400


UNMODIFIED = """
import asyncio, os, sys
from azure.identity import DefaultAzureCredential
from azure.identity.aio import DefaultAzureCredential as AioDefaultAzureCredential
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.resource.resources.aio import ResourceManagementClient as AioResourceManagementClient

async def discover():
    async with AioDefaultAzureCredential() as credential:
        async with AioResourceManagementClient(credential, os.environ["AZURE_SUBSCRIPTION_ID"]) as client:
            return [group.id async for group in client.resource_groups.list()]

with DefaultAzureCredential() as credential:
    with ResourceManagementClient(credential, os.environ["AZURE_SUBSCRIPTION_ID"]) as client:
        found = [group.id for group in client.resource_groups.list()]
assert found == asyncio.run(discover())
print(*found, sep="\\n")
"""


@pytest.mark.wire
def test_an_unmodified_program_is_led_there_by_its_environment(azure: SimulatedAzure) -> None:
    environment = {**os.environ, **azure.environment(), "CLOUDRETRY_DISABLED": "1"}
    done = subprocess.run([sys.executable, "-c", UNMODIFIED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kind, owner = "Microsoft.Resources/resourceGroups", azure.subscriptions[0]
    assert set(done.stdout.split()) == {name for each, _, its, name in azure.resources if (each, its) == (owner, kind)}
    assert "POST token" in {line.operation for line in azure.log() if line.provider == "login"}


@pytest.mark.wire
def test_a_foreign_authority_is_looked_up_where_microsoft_keeps_them(
    azure: SimulatedAzure, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in azure.environment().items():
        monkeypatch.setenv(name, value)
    secret: Any = azure.secret()
    del secret["disable_instance_discovery"]
    with ClientSecretCredential(**secret) as credential:
        assert claims(credential.get_token(SCOPE).token)["tid"] == azure.tenant
    told = [line.operation for line in azure.log()]
    assert told == ["GET instance", "GET openid-configuration", "POST token"]


@pytest.mark.wire
def test_the_proxy_leads_nowhere_else(azure: SimulatedAzure) -> None:
    for host in ("example.org", "management.azure.com:444", "127.0.0.1:1"):
        with pytest.raises(requests.exceptions.ProxyError, match="403"):
            requests.get(f"https://{host}/", proxies={"https": azure.proxy}, verify=azure.ca_file, timeout=20)
    assert azure.log() == []


@pytest.mark.wire
def test_who_does_not_know_its_authority_does_not_trust_it(azure: SimulatedAzure) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(azure.url, timeout=20)
    assert get(azure).status_code == 401  # and it goes on
