"""A simulated AWS on 127.0.0.1: moto's answers behind limits like those of AWS, in a process of its own.

    with simulated_aws(accounts=2, faults=[Faults(rate=0.02, kinds=("cut", "page", "reset"))]) as aws:
        boto3.client("ec2", "eu-west-1", endpoint_url=aws.url, **aws.credentials(aws.accounts[0]))
        print(aws.counters(), aws.log())

`limits` are Rules, PUBLISHED if none are given (its rows say which of them AWS publishes); what `faults` do stands in
cloudretry.simcloud.faults. A page to read is at `aws.url + "/_cloudretry/"`. From the command line: `cloudretry simulate aws`.
The simulated Azure is of the same make: `simulated_azure()`, see cloudretry.simcloud.azure.
Importing this needs neither moto nor aiohttp; entering `simulated_aws()` needs the extra "simulate".
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypedDict

from cloudretry.errors import MissingExtra
from cloudretry.simcloud.answers import RetryAfter
from cloudretry.simcloud.azure import AzureVerdict, SimulatedAzure, run_simulated_azure, simulated_azure
from cloudretry.simcloud.azure.limits import PUBLISHED_AZURE, AzureRule
from cloudretry.simcloud.azure.settings import AzureSettings
from cloudretry.simcloud.counts import Verdict
from cloudretry.simcloud.faults import Faults
from cloudretry.simcloud.limits import PUBLISHED, UNLIMITED, Limit, Rule
from cloudretry.simcloud.process import SimulationFailed, ask, server_process
from cloudretry.simcloud.settings import REGIONS, Settings

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "PUBLISHED",
    "PUBLISHED_AZURE",
    "UNLIMITED",
    "AzureRule",
    "AzureSettings",
    "AzureVerdict",
    "Credentials",
    "Faults",
    "Limit",
    "RetryAfter",
    "Rule",
    "Settings",
    "SimulatedAws",
    "SimulatedAzure",
    "SimulationFailed",
    "Verdict",
    "run_simulated_aws",
    "run_simulated_azure",
    "simulated_aws",
    "simulated_azure",
]

_NEEDED = ("aiohttp", "flask", "flask_cors", "moto")


class Credentials(TypedDict):
    """What boto3.Session takes."""

    aws_access_key_id: str
    aws_secret_access_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAws:
    """A running simulated AWS. Thread-safe."""

    url: str
    """Goes into `endpoint_url`."""
    accounts: tuple[str, ...]
    regions: tuple[str, ...]
    resources: frozenset[tuple[str, str, str, str]] = field(repr=False)
    """The ground truth: (account, region, type, id); see cloudretry.simcloud.inventory for the types."""
    _credentials: Mapping[str, Credentials] = field(repr=False)

    def credentials(self, account: str) -> Credentials:
        """Keyword arguments for boto3.Session that make it a user of this account."""
        return self._credentials[account].copy()

    def counters(self) -> dict[str, Any]:
        """Requests since the start or the last reset by verdict, `accepted` and `throttled` always; `rows`: for each action."""
        counters: dict[str, Any] = ask(self.url, "GET", "counters")
        return counters

    def log(self) -> list[Verdict]:
        """The latest requests in order of arrival."""
        return [Verdict(*line) for line in ask(self.url, "GET", "log")]

    def inject(self, *faults: Faults) -> None:
        """From now on, until the next reset, strike by these rules instead of those of the settings."""
        ask(self.url, "POST", "faults", json.dumps([asdict(rule) for rule in faults]))

    def reset(self) -> None:
        """Fill every bucket, empty the log and the counters, begin the settings' faults anew; resources stay as they are."""
        ask(self.url, "POST", "reset")


@contextmanager
def simulated_aws(  # noqa: PLR0913 - one for each setting
    *,
    seed: int = 0,
    accounts: int = 3,
    regions: Sequence[str] = REGIONS,
    size: float = 1.0,
    limits: Sequence[Rule] = PUBLISHED,
    latency: float = 0.0,
    faults: Sequence[Faults] = (),
    retry_after: Sequence[RetryAfter] = (),
    port: int = 0,
) -> Iterator[SimulatedAws]:
    """Run a simulated AWS for as long as the context lasts; the arguments are those of Settings.

    Raises:
        MissingExtra: moto's server or aiohttp are not installed.
        SimulationFailed: the server's process ended before it was ready.
    """
    settings = Settings(
        seed=seed,
        accounts=accounts,
        regions=tuple(regions),
        size=size,
        limits=tuple(limits),
        latency=latency,
        faults=tuple(faults),
        retry_after=tuple(retry_after),
        port=port,
    )
    with run_simulated_aws(settings) as (running, _):
        yield running


@contextmanager
def run_simulated_aws(settings: Settings) -> Iterator[tuple[SimulatedAws, subprocess.Popen[str]]]:
    """The same, and the server's process to wait for. Raises as simulated_aws."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise MissingExtra("simulate")
    with server_process("cloudretry.simcloud", settings.to_json(), cloud="AWS", environment=_environment()) as (ready, process):
        yield _describe(ready["port"]), process


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("AWS_", "MOTO_"))}
    return kept | {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",  # a third of a second per account and region
    }


def _describe(port: int) -> SimulatedAws:
    url = f"http://127.0.0.1:{port}"
    inventory = ask(url, "GET", "inventory")
    return SimulatedAws(
        url=url,
        accounts=tuple(inventory["accounts"]),
        regions=tuple(inventory["regions"]),
        resources=frozenset(tuple(resource) for resource in inventory["resources"]),
        _credentials=inventory["accounts"],
    )
