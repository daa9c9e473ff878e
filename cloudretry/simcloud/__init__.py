"""A simulated AWS on 127.0.0.1: moto's answers behind the limits that AWS publishes, in a process of its own.

Importing this needs neither moto nor aiohttp; entering `simulated_aws()` needs the extra "simulate".
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from cloudretry.errors import CloudRetryError, MissingExtra
from cloudretry.simcloud.limits import PUBLISHED, UNLIMITED, Limit, Rule
from cloudretry.simcloud.settings import REGIONS, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["PUBLISHED", "UNLIMITED", "Limit", "Rule", "SimulatedAws", "SimulationFailed", "simulated_aws"]

_NEEDED = ("aiohttp", "flask", "flask_cors", "moto")
_STARTING_S = 60.0


class SimulationFailed(CloudRetryError):  # noqa: N818 - named for what happened; its base carries the suffix
    """The simulated AWS did not start; the message holds what its process wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAws:
    """A running simulated AWS. Thread-safe."""

    url: str
    """Goes into `endpoint_url`."""
    accounts: tuple[str, ...]
    regions: tuple[str, ...]
    resources: frozenset[tuple[str, str, str, str]] = field(repr=False)
    """The ground truth: (account, region, type, id); see cloudretry.simcloud.inventory for the types."""
    _credentials: Mapping[str, Mapping[str, str]] = field(repr=False)

    def credentials(self, account: str) -> dict[str, str]:
        """Keyword arguments for boto3.Session that make it a user of this account."""
        return dict(self._credentials[account])

    def counters(self) -> dict[str, Any]:
        """Requests since the start or the last reset: `accepted`, `throttled`, and the same per quota in `rows`."""
        counters: dict[str, Any] = _ask(self.url, "GET", "counters")
        return counters

    def log(self) -> list[tuple[float, str, str, str, str, str]]:
        """The latest requests in order of arrival: (seconds, account, region, service, action, verdict)."""
        return [tuple(line) for line in _ask(self.url, "GET", "log")]

    def reset(self) -> None:
        """Fill every bucket, empty the log and the counters; resources stay as they are."""
        _ask(self.url, "POST", "reset")


@contextmanager
def simulated_aws(
    *,
    seed: int = 0,
    accounts: int = 3,
    regions: Sequence[str] = REGIONS,
    limits: Sequence[Rule] = PUBLISHED,
    latency: float = 0.0,
) -> Iterator[SimulatedAws]:
    """Run a simulated AWS for as long as the context lasts; `latency` in seconds is added to every answer.

    Raises:
        MissingExtra: moto's server or aiohttp are not installed.
        SimulationFailed: the server's process ended before it was ready.
    """
    if any(find_spec(name) is None for name in _NEEDED):
        raise MissingExtra("simulate")
    settings = Settings(seed=seed, accounts=accounts, regions=tuple(regions), limits=tuple(limits), latency=latency)
    with tempfile.TemporaryFile("w+") as errors:
        process = _spawn(errors)
        try:
            yield _describe(_await_port(process, settings, errors))
        finally:
            process.kill()  # it has nothing to save
            process.communicate()


def _spawn(errors: IO[str]) -> subprocess.Popen[str]:
    home = str(Path(__file__).resolve().parents[2])
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("AWS_", "MOTO_"))}
    environment = kept | {
        "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), home))),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "CLOUDRETRY_DISABLED": "1",
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",  # a third of a second per account and region
    }
    return subprocess.Popen(
        [sys.executable, "-m", "cloudretry.simcloud"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=environment,
        start_new_session=True,  # an interrupt is the parent's to handle
    )


def _await_port(process: subprocess.Popen[str], settings: Settings, errors: IO[str]) -> int:
    pipe_in, pipe_out = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
    with suppress(BrokenPipeError):  # it died early; the missing ready line will say so
        pipe_in.write(settings.to_json() + "\n")
        pipe_in.flush()
    line = pipe_out.readline()
    if not line:
        errors.seek(0)
        raise SimulationFailed(f"the simulated AWS did not start:\n{errors.read()[-2000:]}")
    return int(json.loads(line)["port"])


def _describe(port: int) -> SimulatedAws:
    url = f"http://127.0.0.1:{port}"
    inventory = _ask(url, "GET", "inventory")
    return SimulatedAws(
        url=url,
        accounts=tuple(inventory["accounts"]),
        regions=tuple(inventory["regions"]),
        resources=frozenset(tuple(resource) for resource in inventory["resources"]),
        _credentials=inventory["accounts"],
    )


def _ask(url: str, method: str, page: str) -> Any:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=_STARTING_S)
    try:
        connection.request(method, f"/_cloudretry/{page}")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()
