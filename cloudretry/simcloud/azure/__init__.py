"""A simulated Azure on 127.0.0.1: Resource Manager over TLS behind limits like Azure's, in a process of its own.

    with simulated_azure(subscriptions=2, faults=[Faults(rate=0.02, kinds=("cut", "page", "reset"))]) as azure:
        client = ResourceManagementClient(azure.credential(), azure.subscriptions[0], **azure.client_options())
        print(azure.counters(), azure.log())

`limits` are AzureRules, PUBLISHED_AZURE if none are given. Unmodified programs are led to it by `azure.environment()`. A
page to read is at `azure.proxy + "/_cloudretry/"`. From the command line: `cloudretry simulate azure`.
Importing this needs neither aiohttp nor trustme; entering `simulated_azure()` needs the extra "simulate".
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from cloudretry.errors import MissingExtra
from cloudretry.simcloud.azure.credentials import AsyncGivenToken, GivenToken
from cloudretry.simcloud.azure.limits import PUBLISHED_AZURE, AzureRule
from cloudretry.simcloud.azure.settings import LOCATIONS, AzureSettings
from cloudretry.simcloud.process import ask, server_process

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping, Sequence

    from cloudretry.simcloud.answers import RetryAfter
    from cloudretry.simcloud.faults import Faults

__all__ = ["AzureVerdict", "ClientOptions", "SecretOptions", "SimulatedAzure", "run_simulated_azure", "simulated_azure"]

_NEEDED = ("aiohttp", "trustme")


class AzureVerdict(NamedTuple):
    """One request. `time` is the server's monotonic clock."""

    time: float
    subscription: str
    """`tenant` where the request names none."""
    principal: str
    """The client id."""
    provider: str
    operation: str
    verdict: str
    """`accepted`, `throttled`, `unauthorized`, or the kind of a fault; see cloudretry.simcloud.faults.KINDS."""
    done: str = ""
    """What was done to the request, where it was more than to serve or to throttle it."""


class ClientOptions(TypedDict):
    """What the management clients take."""

    base_url: str
    connection_verify: str


class SecretOptions(TypedDict):
    """What azure.identity's ClientSecretCredential takes."""

    tenant_id: str
    client_id: str
    client_secret: str
    authority: str
    disable_instance_discovery: bool
    connection_verify: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAzure:
    """A running simulated Azure. Thread-safe."""

    url: str
    """Goes into `base_url`."""
    proxy: str
    """The same server as an HTTPS proxy, where its tunnels to management.azure.com and the token endpoints end."""
    ca_file: str
    """The certificate of its authority, as PEM; for `connection_verify`, REQUESTS_CA_BUNDLE and the like."""
    tenant: str
    subscriptions: tuple[str, ...]
    locations: tuple[str, ...]
    principals: tuple[str, ...]
    """Client ids."""
    resources: frozenset[tuple[str, str, str, str]] = field(repr=False)
    """The ground truth of the start: (subscription, location, type, id); see cloudretry.simcloud.azure.estate."""
    _principals: Mapping[str, Mapping[str, Any]] = field(repr=False)

    def client_options(self) -> ClientOptions:
        """Keyword arguments for a management client of azure-mgmt-*, sync or aio, that lead it here."""
        return {"base_url": self.url, "connection_verify": self.ca_file}

    def credential(self, principal: str = "") -> GivenToken:
        """A credential of this principal, the first if none is named, that asks nobody: it has a token good for a day."""
        return GivenToken(*self._token(principal))

    def async_credential(self, principal: str = "") -> AsyncGivenToken:
        """The same for aio clients."""
        return AsyncGivenToken(*self._token(principal))

    def secret(self, principal: str = "") -> SecretOptions:
        """Keyword arguments for azure.identity's ClientSecretCredential, sync or aio, which asks the token endpoint here."""
        found = self._principals[principal or self.principals[0]]
        return {
            "tenant_id": self.tenant,
            "client_id": found["client_id"],
            "client_secret": found["client_secret"],
            "authority": self.url,
            "disable_instance_discovery": True,  # of the world's login.microsoftonline.com, which has not heard of us
            "connection_verify": self.ca_file,
        }

    def environment(self, principal: str = "") -> dict[str, str]:
        """Variables that lead unmodified programs here, as this principal: through the proxy, with its authority alone.

        What reads none of them, or wants to speak to any other host but this machine's, fails.
        """
        found = self._principals[principal or self.principals[0]]
        proxies = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), self.proxy)
        bundles = dict.fromkeys(("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"), self.ca_file)
        return {
            **proxies,
            **bundles,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "AZURE_TENANT_ID": self.tenant,
            "AZURE_CLIENT_ID": found["client_id"],
            "AZURE_CLIENT_SECRET": found["client_secret"],
            "AZURE_SUBSCRIPTION_ID": self.subscriptions[0],
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": self.proxy,  # where azure-identity and MSAL ask for IMDS
        }

    def counters(self) -> dict[str, Any]:
        """Requests since the start or the last reset by verdict, `accepted` and `throttled` always; `rows`: for each place."""
        counters: dict[str, Any] = ask(self.proxy, "GET", "counters")
        return counters

    def log(self) -> list[AzureVerdict]:
        """The latest requests in order of arrival."""
        return [AzureVerdict(*line) for line in ask(self.proxy, "GET", "log")]

    def inject(self, *faults: Faults) -> None:
        """From now on, until the next reset, strike by these rules instead of those of the settings."""
        ask(self.proxy, "POST", "faults", json.dumps([asdict(rule) for rule in faults]))

    def reset(self) -> None:
        """Fill every bucket, empty the log and the counters, begin the settings' faults anew; resources stay as they are."""
        ask(self.proxy, "POST", "reset")

    def _token(self, principal: str) -> tuple[str, int]:
        found = self._principals[principal or self.principals[0]]
        return found["token"], found["expires_on"]


@contextmanager
def simulated_azure(  # noqa: PLR0913 - one for each setting
    *,
    seed: int = 0,
    subscriptions: int = 3,
    locations: Sequence[str] = LOCATIONS,
    size: float = 1.0,
    principals: int = 1,
    page_size: int = 50,
    limits: Sequence[AzureRule] = PUBLISHED_AZURE,
    latency: float = 0.0,
    faults: Sequence[Faults] = (),
    retry_after: Sequence[RetryAfter] = (),
    token_seconds: float = 3599.0,
    operation_polls: int = 2,
    operation_wait: int = 1,
    port: int = 0,
) -> Iterator[SimulatedAzure]:
    """Run a simulated Azure for as long as the context lasts; the arguments are those of AzureSettings.

    Raises:
        MissingExtra: aiohttp or trustme are not installed.
        SimulationFailed: the server's process ended before it was ready.
    """
    settings = AzureSettings(
        seed=seed,
        subscriptions=subscriptions,
        locations=tuple(locations),
        size=size,
        principals=principals,
        page_size=page_size,
        limits=tuple(limits),
        latency=latency,
        faults=tuple(faults),
        retry_after=tuple(retry_after),
        token_seconds=token_seconds,
        operation_polls=operation_polls,
        operation_wait=operation_wait,
        port=port,
    )
    with run_simulated_azure(settings) as (running, _):
        yield running


@contextmanager
def run_simulated_azure(settings: AzureSettings) -> Iterator[tuple[SimulatedAzure, subprocess.Popen[str]]]:
    """The same, and the server's process to wait for. Raises as simulated_azure."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise MissingExtra("simulate")
    module = "cloudretry.simcloud.azure"
    with server_process(module, settings.to_json(), cloud="Azure", environment=os.environ) as (ready, process):
        try:
            yield _describe(ready["port"], ready["ca_file"]), process
        finally:
            shutil.rmtree(Path(ready["ca_file"]).parent, ignore_errors=True)  # the server does it where we are killed


def _describe(port: int, ca_file: str) -> SimulatedAzure:
    proxy = f"http://127.0.0.1:{port}"
    inventory = ask(proxy, "GET", "inventory")
    principals = {principal["client_id"]: principal for principal in inventory["principals"]}
    return SimulatedAzure(
        url=f"https://127.0.0.1:{port}",
        proxy=proxy,
        ca_file=ca_file,
        tenant=inventory["tenant"],
        subscriptions=tuple(inventory["subscriptions"]),
        locations=tuple(inventory["locations"]),
        principals=tuple(principals),
        resources=frozenset(tuple(resource) for resource in inventory["resources"]),
        _principals=principals,
    )
